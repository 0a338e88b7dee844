//! The year of times without a year, and the day of times without a date, in a file.
//!
//! Such a time means the latest one that is not after the file was written last. The lines of a file are in order, so a
//! time that is earlier than the time before it by much is of the next year, or of the next day. A few lines from all over
//! the file tell how often that happens, and so in which year the file begins ([`Calendar::of_file`]).
//!
//! The same lines tell what comes first in dates such as `05/11/2026`: a number above 12 in one of them is a day in all of
//! them. Where none has such a number, the day comes first if the month first would put the file into the future, or its
//! last line at another time than that at which the file was written.

use super::layout;
use super::timestamp::zone::Zone;
use super::timestamp::{DateOrder, TimestampDefaults};
use daytable_model::time::{TICKS_PER_DAY, Ticks};
use memchr::{memchr, memrchr};
use std::io;

/// How many places of a file are looked at.
const PLACES: u64 = 256;
/// Bytes that are read at a place.
const PLACE_BYTES: usize = 2048;
/// Bytes of a line within which a date with `/` is looked for.
const HEAD_BYTES: usize = 64;
/// Days by which a time may be earlier than the one before it in one year.
const YEAR_BACK: i64 = 30 * TICKS_PER_DAY;
/// By how much a time of day may be earlier than the one before it on one day.
const DAY_BACK: i64 = TICKS_PER_DAY / 24;

/// A file whose times go back more often than this, and have fewer lines for each of these turns, is not in order: it has
/// its years and days from the time at which it was written alone.
const TURNS_OF_FEW: usize = 4;
const LINES_OF_TURN: usize = 8;

/// What the times of a source leave out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Missing {
    #[default]
    Nothing,
    Year,
    Date,
}

/// What is known about the missing parts of the times of a source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Calendar {
    missing: Missing,
    /// The latest time that the next record may have; none before the first record of a source that is not a file.
    until: Option<Ticks>,
    /// When the file was written last. Not saved.
    written: Option<Ticks>,
    /// What comes first in dates with `/` in them.
    order: DateOrder,
}

/// The last parts of what [`Calendar::save`] writes, where it is known what comes first.
const ORDERS: [(&str, DateOrder); 2] = [(" day", DateOrder::Day), (" month", DateOrder::Month)];

impl Calendar {
    /// Reads what [`Calendar::save`] wrote.
    pub(super) fn restore(saved: &str) -> Calendar {
        let known = ORDERS.iter().find_map(|(name, order)| Some((saved.strip_suffix(name)?, *order)));
        let (saved, order) = known.unwrap_or((saved, DateOrder::Unknown));
        let (missing, until) = saved.split_once(' ').unwrap_or_default();
        let missing = match missing {
            "year" => Missing::Year,
            "date" => Missing::Date,
            _ => Missing::Nothing,
        };
        Calendar { missing, until: until.parse().ok().and_then(Ticks::new), written: None, order }
    }

    /// What is known, as text; none where nothing is.
    pub(super) fn save(&self) -> Option<String> {
        let order = ORDERS.iter().find(|(_, order)| *order == self.order).map_or("", |(name, _)| name);
        let name = match self.missing {
            Missing::Nothing if order.is_empty() => return None,
            Missing::Nothing => "nothing",
            Missing::Year => "year",
            Missing::Date => "date",
        };
        Some(format!("{name} {}{order}", self.until.map_or_else(|| "-".into(), |until| until.get().to_string())))
    }

    /// What comes first in dates with `/` in them.
    pub(super) fn order(&self) -> DateOrder {
        self.order
    }

    /// Whether the times of the source leave something out.
    pub(super) fn is_needed(&self) -> bool {
        self.missing != Missing::Nothing
    }

    /// Notes when the file was written last.
    pub(super) fn note_written(&mut self, written: Ticks) {
        self.written = Some(written);
    }

    /// The time of reading as times without a date take it.
    #[inline]
    pub(super) fn seen(&self, seen: Ticks) -> Ticks {
        let seen = self.written.map_or(seen, |written| written.min(seen));
        match self.until {
            Some(until) if self.missing != Missing::Nothing => until.min(seen),
            _ => seen,
        }
    }

    /// Notes the time of a record.
    #[inline]
    pub(super) fn note(&mut self, time: Option<Ticks>) {
        let (Some(time), true) = (time, self.is_needed()) else { return };
        self.until = Ticks::new(time.get() + self.step());
    }

    /// How far the latest time of the next record is ahead of a time.
    fn step(&self) -> i64 {
        if self.missing == Missing::Date { TICKS_PER_DAY - DAY_BACK } else { 365 * TICKS_PER_DAY - YEAR_BACK }
    }

    /// The calendar of a file of `length` bytes that was written last at `written`. `read_at` reads at an offset.
    pub(super) fn of_file(
        length: u64,
        written: Ticks,
        zone: Zone,
        mut read_at: impl FnMut(u64, &mut [u8]) -> io::Result<usize>,
    ) -> io::Result<Calendar> {
        let mut calendar = Calendar { written: Some(written), ..Calendar::default() };
        let mut buffer = vec![0; PLACE_BYTES];
        let mut times: Vec<i64> = Vec::new();
        let mut dates = None::<SlashDates>;
        let places = (length / PLACE_BYTES as u64).clamp(1, PLACES);
        let last = length.saturating_sub(PLACE_BYTES as u64);
        // What was read so far.
        let mut covered = 0u64;
        for place in 0..=places {
            // The last place is the end of the file.
            let offset = if place == places { last } else { (length / places * place).min(last) };
            let read = read_at(offset, &mut buffer)?;
            let bytes = buffer.get(..read).unwrap_or_default();
            // Whole lines only, and each once.
            let known = usize::try_from(covered.saturating_sub(offset)).unwrap_or(read).min(read);
            let is_line = offset == 0 && known == 0;
            let line_after = |from: usize| {
                let from = from.min(read);
                memchr(b'\n', &bytes[from..]).map_or(read, |newline| from + newline + 1)
            };
            let from = if is_line { 0 } else { line_after(known.saturating_sub(1)) };
            let is_end = offset + read as u64 >= length;
            let to = if is_end { read } else { memrchr(b'\n', bytes).map_or(from, |newline| newline + 1).max(from) };
            covered = covered.max(offset + to as u64);
            let text = String::from_utf8_lossy(bytes.get(from..to).unwrap_or_default());
            for line in text.lines() {
                if dates.is_none() && times.is_empty() && has_slash_date(line, zone) {
                    dates = Some(SlashDates::default());
                }
                if let Some(dates) = &mut dates {
                    dates.add(line, zone, written);
                }
                if times.is_empty() && calendar.missing == Missing::Nothing {
                    calendar.missing = missing(line, zone);
                    // A line without a time says nothing.
                    let has_time = || time_in(line, zone, leap_year()).is_some();
                    if calendar.missing == Missing::Nothing && dates.is_none() && has_time() {
                        return Ok(calendar);
                    }
                }
                // Other lines may have whole times, of any year.
                let is_of_year = |time: &Ticks| (leap_year().get() - time.get()).abs() < 368 * TICKS_PER_DAY;
                let time = time_in(line, zone, leap_year()).filter(|time| calendar.is_needed() && is_of_year(time));
                times.extend(time.map(Ticks::get));
            }
            if calendar.missing == Missing::Nothing && dates.is_none() && place == 0 {
                return Ok(calendar);
            }
        }
        calendar.order = dates.map_or(DateOrder::Unknown, |dates| dates.order(written));
        calendar.begin(&times, written);
        Ok(calendar)
    }

    /// Finds the latest time of the first record. `times` are as if all were of one year, or of one day.
    fn begin(&mut self, times: &[i64], written: Ticks) {
        let back = if self.missing == Missing::Date { DAY_BACK } else { YEAR_BACK };
        let turns = times.windows(2).filter(|pair| pair[1] < pair[0] - back).count();
        let Some(first) = times.first() else { return };
        let is_in_order = turns <= TURNS_OF_FEW || turns * LINES_OF_TURN <= times.len();
        let turns = i64::try_from(turns).unwrap_or(0);
        if turns == 0 || !is_in_order {
            return;
        }
        let last = times.last().unwrap_or(first);
        // How long before the end the first record was, if each turn is one year or one day.
        let round = if self.missing == Missing::Date { TICKS_PER_DAY } else { 365 * TICKS_PER_DAY + TICKS_PER_DAY / 4 };
        let before = turns * round - (first - last);
        // How long before the end of writing the last record was: less than a year, or a day. Years differ by a day.
        let difference = if self.missing == Missing::Date { DAY_BACK } else { 2 * TICKS_PER_DAY };
        let since_last = (written.get() - last + difference).rem_euclid(round) - difference;
        let slack = round / 4;
        self.until = Ticks::new(written.get() - since_last - before + slack);
    }
}

/// What the dates with `/` of some lines say about what comes first in them.
#[derive(Debug, Default)]
struct SlashDates {
    /// Dates that have the month first, or the day.
    months_first: usize,
    days_first: usize,
    /// The latest time of the others, with the month first and with the day first.
    latest: Option<(Ticks, Ticks)>,
    /// The times of the last of them.
    last: Option<(Ticks, Ticks)>,
}

impl SlashDates {
    fn add(&mut self, line: &str, zone: Zone, seen: Ticks) {
        let time = |order| layout::header_time(line, &TimestampDefaults { zone, seen, order });
        let (Some(month), Some(day)) = (time(DateOrder::Month), time(DateOrder::Day)) else { return };
        self.days_first += usize::from(time(DateOrder::OnlyMonth) != Some(month));
        self.months_first += usize::from(time(DateOrder::OnlyDay) != Some(day));
        if month != day {
            self.last = Some((month, day));
            let (of_months, of_days) = self.latest.unwrap_or((month, day));
            self.latest = Some((of_months.max(month), of_days.max(day)));
        }
    }

    /// What comes first in all of them, of a file that was written last at `written`.
    fn order(&self, written: Ticks) -> DateOrder {
        let (Some(latest), Some(last)) = (self.latest, self.last) else {
            // Lines that are written later may leave it open.
            let is_day = self.days_first > 0 && self.months_first == 0;
            return if is_day { DateOrder::Day } else { DateOrder::Month };
        };
        let after = |time: Ticks| time.get() - written.get();
        let is_future = |time| after(time) > TICKS_PER_DAY;
        let is_at_end = |time| after(time).abs() <= 2 * TICKS_PER_DAY;
        let is_day = match (self.days_first, self.months_first) {
            (0, 0) => is_future(latest.0) && !is_future(latest.1) || is_at_end(last.1) && !is_at_end(last.0),
            (_, months) => months == 0,
        };
        if is_day { DateOrder::Day } else { DateOrder::Month }
    }
}

/// Whether a line has a time whose date may be one with `/`.
fn has_slash_date(line: &str, zone: Zone) -> bool {
    let is_date = |part: &[u8]| matches!(part, [a, b'/', b] if a.is_ascii_digit() && b.is_ascii_digit());
    line.as_bytes().windows(3).take(HEAD_BYTES).any(is_date) && time_in(line, zone, leap_year()).is_some()
}

/// A time of reading at the end of a leap year.
fn leap_year() -> Ticks {
    Ticks::from_date(2001, 1, 1).unwrap_or_default()
}

fn time_in(line: &str, zone: Zone, seen: Ticks) -> Option<Ticks> {
    layout::header_time(line, &TimestampDefaults { zone, seen, ..TimestampDefaults::default() })
}

/// What the time of a line leaves out: that which changes with the time of reading.
fn missing(line: &str, zone: Zone) -> Missing {
    let at = |seen: i64| Some(time_in(line, zone, Ticks::new(seen)?)?.get());
    let seen = leap_year().get() - TICKS_PER_DAY / 2;
    let earlier = Ticks::from_date(1997, 1, 1).unwrap_or_default().get() - TICKS_PER_DAY / 2;
    let (Some(time), Some(before)) = (at(seen), at(earlier)) else { return Missing::Nothing };
    let is_day_before = || {
        let days = [1, 2].map(|days| at(seen - days * TICKS_PER_DAY));
        days == [Some(time - TICKS_PER_DAY), Some(time - 2 * TICKS_PER_DAY)]
    };
    match time == before {
        true => Missing::Nothing,
        false if is_day_before() => Missing::Date,
        false => Missing::Year,
    }
}

#[cfg(test)]
mod tests {
    use super::super::redact::{Redaction, Redactor};
    use super::super::{ParseOptions, RawRecord, SourceProfile};
    use super::*;

    /// The times of the lines of a file that was written last at `written`.
    fn times(lines: &str, written: &str) -> Vec<String> {
        let written = crate::rfc3339(written).expect("a time");
        let options = ParseOptions { zone: Zone::Utc, ..ParseOptions::default() };
        let mut profile = SourceProfile::default();
        let bytes = lines.as_bytes();
        let read = |offset: u64, buffer: &mut [u8]| {
            let rest = &bytes[usize::try_from(offset).expect("small")..];
            let length = rest.len().min(buffer.len());
            buffer[..length].copy_from_slice(&rest[..length]);
            Ok(length)
        };
        profile.begin_file(bytes.len() as u64, written, &options, read).expect("a text has no errors");
        let now = crate::rfc3339("2026-11-26T12:00:00Z").expect("a time");
        let each = |line: &str| {
            let raw = RawRecord::of_message(line.into(), line.as_bytes());
            let time = profile.raw_record(&raw, &options, now).record.time;
            profile = SourceProfile::restore(&profile.save());
            profile.note_written(written);
            time.map(|time| time.to_string()).unwrap_or_default()
        };
        lines.lines().map(each).collect()
    }

    #[test]
    fn files_of_former_years() {
        for (lines, written, expected) in [
            ("Mar 20 01:08:03 a b[1]: x", "2024-03-27T00:00:00Z", vec!["2024-03-20T01:08:03Z"]),
            (
                "Feb 28 23:59:59 a b[1]: x\nFeb 29 12:00:00 a b[1]: x\nMar  1 00:00:00 a b[1]: x",
                "2024-03-01T00:00:01Z",
                vec!["2024-02-28T23:59:59Z", "2024-02-29T12:00:00Z", "2024-03-01T00:00:00Z"],
            ),
            (
                "Jan  5 01:00:00 a b[1]: x\nMay  5 01:00:00 a b[1]: x\nJan  5 02:00:00 a b[1]: x",
                "2026-01-05T02:00:00Z",
                vec!["2025-01-05T01:00:00Z", "2025-05-05T01:00:00Z", "2026-01-05T02:00:00Z"],
            ),
            (
                "Nov  5 01:00:00 a b[1]: x\nMar  5 01:00:00 a b[1]: x\nNov  5 02:00:00 a b[1]: x\nFeb  1 00:00:00 a b[1]: x",
                "2020-02-01T00:00:00Z",
                vec!["2018-11-05T01:00:00Z", "2019-03-05T01:00:00Z", "2019-11-05T02:00:00Z", "2020-02-01T00:00:00Z"],
            ),
        ] {
            assert_eq!(times(lines, written), expected, "{lines}");
        }
    }

    #[test]
    fn days_come_first_where_the_file_says_so() {
        let days = |times: &[&str]| -> Vec<String> { times.iter().map(|time| format!("{time}T10:00:00Z")).collect() };
        let lines = |dates: &[&str]| dates.iter().map(|date| format!("{date} 10:00:00 INFO a\n")).collect::<String>();
        for (dates, written, expected) in [
            // One number above 12 tells, wherever it is.
            (
                &["29/11/2026", "01/12/2026", "02/12/2026"][..],
                "2026-12-02T10:00:01Z",
                &["2026-11-29", "2026-12-01", "2026-12-02"],
            ),
            (
                &["01/11/2026", "02/11/2026", "13/11/2026"],
                "2027-03-01T00:00:00Z",
                &["2026-11-01", "2026-11-02", "2026-11-13"],
            ),
            (
                &["11/01/2026", "11/02/2026", "11/13/2026"],
                "2027-03-01T00:00:00Z",
                &["2026-11-01", "2026-11-02", "2026-11-13"],
            ),
            // Of both, nothing is known.
            (
                &["29/11/2026", "11/30/2026", "05/11/2026"],
                "2026-11-30T10:00:00Z",
                &["2026-11-29", "2026-11-30", "2026-05-11"],
            ),
            // The file was written when its last line says.
            (
                &["03/11/2026", "04/11/2026", "05/11/2026"],
                "2026-11-05T10:00:00Z",
                &["2026-11-03", "2026-11-04", "2026-11-05"],
            ),
            (
                &["11/03/2026", "11/04/2026", "11/05/2026"],
                "2026-11-05T10:00:00Z",
                &["2026-11-03", "2026-11-04", "2026-11-05"],
            ),
            // Nothing is of the future.
            (
                &["01/11/2026", "10/11/2026", "12/11/2026"],
                "2026-11-20T00:00:00Z",
                &["2026-11-01", "2026-11-10", "2026-11-12"],
            ),
            // Nothing tells.
            (
                &["03/04/2025", "04/04/2025", "05/04/2025"],
                "2026-11-20T00:00:00Z",
                &["2025-03-04", "2025-04-04", "2025-05-04"],
            ),
        ] {
            assert_eq!(times(&lines(dates), written), days(expected), "{dates:?} {written}");
        }
        // Lines that are written later are read as the first ones.
        let mut profile = SourceProfile::default();
        let first = b"29/11/2026 10:00:00 INFO a\n";
        let read = |_, buffer: &mut [u8]| {
            buffer[..first.len()].copy_from_slice(first);
            Ok(first.len())
        };
        let options = ParseOptions::default();
        profile.begin_file(first.len() as u64, Ticks::MAX, &options, read).expect("no errors");
        let line = "05/12/2026 10:00:00 INFO a";
        let raw = RawRecord::of_message(line.into(), line.as_bytes());
        for _ in 0..3 {
            let time = profile.raw_record(&raw, &options, Ticks::MAX).record.time;
            assert_eq!(time, crate::rfc3339("2026-12-05T10:00:00Z"));
            profile = SourceProfile::restore(&profile.save());
        }
    }

    #[test]
    fn a_secret_in_a_plain_line_changes_no_year() {
        let redaction = Redaction::preset("email").expect("a preset");
        let options = ParseOptions { redactor: Redactor::new([redaction]), ..ParseOptions::default() };
        let lines = b"Mar 20 01:08:03 a b[1]: x\n";
        let read = |_, buffer: &mut [u8]| {
            buffer[..lines.len()].copy_from_slice(lines);
            Ok(lines.len())
        };
        let mut profile = SourceProfile::default();
        let written = crate::rfc3339("2024-03-27T00:00:00Z").expect("a time");
        profile.begin_file(lines.len() as u64, written, &options, read).expect("no errors");
        let mut time = |line: &str| {
            let raw = RawRecord::of_message(line.into(), line.as_bytes());
            let now = crate::rfc3339("2026-11-26T12:00:00Z").expect("a time");
            profile.raw_record(&raw, &options, now).record.time.map(|time| time.to_string()).unwrap_or_default()
        };
        assert_eq!(time("to ann@example.com"), "");
        assert_eq!(time("Mar 20 01:08:03 a b[1]: x"), "2024-03-20T01:08:03Z");
    }

    #[test]
    fn a_file_that_is_not_in_order_goes_back_no_decades() {
        let days = [
            "Oct 11", "Feb  5", "Nov  1", "Jan  2", "Aug 24", "Mar  1", "Dec 24", "Feb 28", "Sep  9", "Jan 20",
            "Nov 11",
        ];
        let lines: Vec<String> = days.map(|day| format!("{day} 01:00:00 a b[1]: x")).into();
        for time in times(&lines.join("\n"), "2026-11-21T12:00:00Z") {
            assert!(["2025", "2026"].contains(&&time[..4]), "{time}");
        }
    }

    #[test]
    fn whole_times_between_others_are_no_turns() {
        let lines = "Oct 11 22:14:15 a b[1]: x\nFeb  5 17:32:18 a b[1]: x\n2024-03-01T10:00:00Z INFO b\n2012-03-01T10:00:00Z INFO b";
        assert_eq!(times(lines, "2026-11-21T12:00:00Z")[..2], ["2025-10-11T22:14:15Z", "2026-02-05T17:32:18Z"]);
    }

    #[test]
    fn clocks_of_several_days() {
        let lines = "22:00:00 INFO a\n23:00:00 INFO a\n01:00:00 INFO a\n23:30:00 INFO a\n00:10:00 INFO a";
        assert_eq!(
            times(lines, "2025-11-21T00:10:30Z"),
            [
                "2025-11-19T22:00:00Z",
                "2025-11-19T23:00:00Z",
                "2025-11-20T01:00:00Z",
                "2025-11-20T23:30:00Z",
                "2025-11-21T00:10:00Z"
            ]
        );
    }

    #[test]
    fn whole_times_need_no_calendar() {
        let lines = "2019-01-01T00:00:00Z INFO a\nJan 1 00:00:00 a b[1]: x";
        assert_eq!(times(lines, "2025-11-21T00:10:30Z")[0], "2019-01-01T00:00:00Z");
    }
}
