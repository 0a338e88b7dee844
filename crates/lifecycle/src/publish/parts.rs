//! Which parts of an open day are written anew: a pure function.
//!
//! ```text
//! minutes of the day   ....:::::::::::::::::::::::::::::::::::|::
//! parts                [   merged       ][      ][     ][  ][tail
//!                        late records: again ^          new ──► ^ again, and cut once it has enough rows
//! ```
//!
//! The parts of a day follow each other in time, and each row is in the part of its time. What is new is mostly in the last
//! part, the *tail*. It is written anew each time, until it has [`PartSizes::rows_min`] rows; then it is cut
//! [`PartSizes::settled_after`] before the newest time, because records of different sources come a little out of order. So
//! a row is written about twice: once in a tail, once when small parts become one.
//!
//! A part with late records is written anew, but only [`PartSizes::late_rows_max`] rows at a time, so that what a day
//! costs does not depend on how late its records are. The others wait, those that wait longest first.

use daytable_archive::OpenDayPart;
use daytable_model::time::Ticks;
use daytable_store::sealed::TimeSlice;
use daytable_store::{DayMinutes, MinuteRows};
use std::ops::Range;
use std::time::Duration;

/// Sizes of parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct PartSizes {
    /// Rows from which a tail is cut.
    pub(super) rows_min: u64,
    /// Rows of a part at most, unless one minute has more.
    pub(super) rows_max: u64,
    /// Small parts that become one.
    pub(super) merged: usize,
    /// Rows of parts with late records that are written at a time, or one such part.
    pub(super) late_rows_max: u64,
    /// How long after a time no record of it is expected any more.
    pub(super) settled_after: Duration,
}

impl Default for PartSizes {
    fn default() -> PartSizes {
        PartSizes {
            rows_min: 1 << 14,
            rows_max: 1 << 18,
            merged: 8,
            late_rows_max: 1 << 19,
            settled_after: Duration::from_secs(60),
        }
    }
}

/// A stretch of a day that is written anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct PartRegion {
    /// The parts that it replaces, by their numbers.
    pub(super) replaced: Range<usize>,
    /// The new parts, without a gap, the earliest first.
    pub(super) slices: Vec<TimeSlice>,
}

/// What is to be written of a day whose table has these parts.
pub(super) fn plan_parts(
    parts: &[OpenDayPart],
    minutes: &DayMinutes,
    now: Ticks,
    sizes: &PartSizes,
) -> Vec<PartRegion> {
    let stretches: Vec<(TimeSlice, MinuteRows)> = minutes.iter().collect();
    let Some(tail) = parts.len().checked_sub(1) else {
        if stretches.is_empty() {
            return Vec::new();
        }
        return vec![PartRegion { replaced: 0..0, slices: cut(TimeSlice::ALL, &stretches, now, sizes) }];
    };
    let times: Vec<TimeSlice> = (0..parts.len()).map(|number| times_of(parts, number)).collect();
    let is_changed = |number: usize| {
        let (of_part, part) = (within(&stretches, times[number]), &parts[number]);
        let has_later = of_part.iter().any(|(_, rows)| rows.newest_commit > part.commit);
        // No row goes from an open day. So where its pages have as many records as the part, they have the same ones: pages
        // were merged, and have the last commit of all of their rows.
        has_later && of_part.iter().map(|(_, rows)| rows.records).sum::<u64>() != part.records
    };
    let mut is_chosen = vec![false; parts.len()];
    is_chosen[tail] = is_changed(tail);
    let mut late: Vec<usize> = (0..tail).filter(|number| is_changed(*number)).collect();
    late.sort_by_key(|number| parts[*number].commit);
    let mut rows = 0;
    for number in late {
        rows += parts[number].rows;
        if rows > sizes.late_rows_max && rows > parts[number].rows {
            break;
        }
        is_chosen[number] = true;
    }
    if !is_chosen.contains(&true) {
        return Vec::new();
    }
    if let Some(run) = small_parts(&parts[..tail], sizes) {
        is_chosen[run].fill(true);
    }
    let mut regions: Vec<PartRegion> = Vec::new();
    for number in (0..parts.len()).filter(|number| is_chosen[*number]) {
        match regions.last_mut() {
            Some(region) if region.replaced.end == number => region.replaced.end += 1,
            _ => regions.push(PartRegion { replaced: number..number + 1, slices: Vec::new() }),
        }
    }
    for region in &mut regions {
        let (first, last) = (times[region.replaced.start], times[region.replaced.end - 1]);
        region.slices = cut(TimeSlice { from: first.from, until: last.until }, &stretches, now, sizes);
    }
    regions
}

/// The times of a part.
fn times_of(parts: &[OpenDayPart], number: usize) -> TimeSlice {
    // Of a time before all parts, the first one has the rows.
    let from = if number == 0 { Ticks::MIN } else { parts[number].from };
    TimeSlice { from, until: parts.get(number + 1).map(|next| next.from) }
}

/// The stretches that meet some times. The earliest is first.
fn within(stretches: &[(TimeSlice, MinuteRows)], times: TimeSlice) -> &[(TimeSlice, MinuteRows)] {
    let start = stretches.partition_point(|(of, _)| of.until.is_some_and(|until| until <= times.from));
    let end = stretches.partition_point(|(of, _)| times.until.is_none_or(|until| of.from < until));
    &stretches[start..end.max(start)]
}

/// The first run of small parts that are enough to become one.
fn small_parts(parts: &[OpenDayPart], sizes: &PartSizes) -> Option<Range<usize>> {
    let (mut start, mut rows) = (0, 0);
    for (number, part) in parts.iter().enumerate() {
        rows += part.rows;
        while rows > sizes.rows_max {
            rows -= parts[start].rows;
            start += 1;
        }
        if number + 1 - start >= sizes.merged.max(2) {
            return Some(start..number + 1);
        }
    }
    None
}

/// Cuts some times into parts at the beginnings of stretches.
fn cut(times: TimeSlice, stretches: &[(TimeSlice, MinuteRows)], now: Ticks, sizes: &PartSizes) -> Vec<TimeSlice> {
    let stretches = within(stretches, times);
    let mut starts = vec![times.from];
    let mut rows = 0;
    // Where the day goes on, what came last stays apart.
    let newest = stretches.last().and_then(|(of, _)| of.until).unwrap_or(Ticks::MAX);
    let settled = now.min(newest).minus(sizes.settled_after);
    let mut is_tail_cut = times.until.is_some();
    for (of, MinuteRows { records, .. }) in stretches {
        let is_settled = of.until.is_some_and(|until| until <= settled);
        let is_full = rows > 0 && rows + records > sizes.rows_max;
        let is_tail = !is_tail_cut && !is_settled && rows >= sizes.rows_min;
        is_tail_cut |= !is_settled;
        if of.from > times.from && (is_full || is_tail) {
            starts.push(of.from);
            rows = 0;
        }
        rows += records;
    }
    let ends = starts.iter().skip(1).copied().map(Some).chain([times.until]);
    starts.iter().zip(ends).map(|(from, until)| TimeSlice { from: *from, until }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_model::time::{TICKS_PER_MINUTE, UNIX_EPOCH_TICKS};
    use proptest::prelude::*;

    const SIZES: PartSizes =
        PartSizes { rows_min: 10, rows_max: 40, merged: 3, late_rows_max: 50, settled_after: Duration::from_secs(60) };

    fn at(minute: i64) -> Ticks {
        Ticks::new(UNIX_EPOCH_TICKS + minute * TICKS_PER_MINUTE).expect("a time")
    }

    /// A day as its pages tell it, and the rows of each minute with the commit of each.
    #[derive(Default)]
    struct Day {
        rows: Vec<(i64, i64)>,
        commit: i64,
    }

    impl Day {
        fn add(&mut self, minute: i64, rows: usize) {
            self.rows.extend(std::iter::repeat_n((minute, self.commit + 1), rows));
        }

        fn minutes(&mut self) -> DayMinutes {
            self.commit += 1;
            let mut minutes = DayMinutes::new(self.commit);
            self.rows.iter().for_each(|(minute, commit)| minutes.add(at(*minute), 1, *commit));
            minutes
        }

        fn rows_in(&self, slice: TimeSlice) -> u64 {
            self.rows.iter().filter(|(minute, _)| slice.contains(at(*minute))).count() as u64
        }

        /// Publishes, and returns how many rows were written.
        fn publish(&mut self, parts: &mut Vec<OpenDayPart>, now: i64) -> u64 {
            let minutes = self.minutes();
            let mut written = 0;
            for region in plan_parts(parts, &minutes, at(now), &SIZES).into_iter().rev() {
                let new: Vec<OpenDayPart> = region
                    .slices
                    .iter()
                    .map(|slice| (slice.from, self.rows_in(*slice)))
                    .filter(|(_, rows)| *rows > 0)
                    .map(|(from, rows)| OpenDayPart {
                        path: String::new(),
                        from,
                        commit: self.commit,
                        rows,
                        records: rows,
                    })
                    .collect();
                written += new.iter().map(|part| part.rows).sum::<u64>();
                parts.splice(region.replaced, new);
            }
            written
        }
    }

    #[test]
    fn a_tail_is_cut_and_small_parts_become_one() {
        let (mut day, mut parts, mut written) = (Day::default(), Vec::new(), 0);
        for minute in 0..200 {
            day.add(minute, 4);
            written += day.publish(&mut parts, minute);
        }
        let rows: Vec<u64> = parts.iter().map(|part| part.rows).collect();
        assert_eq!(rows.iter().sum::<u64>(), 800);
        assert!(rows.len() <= 30, "{rows:?}");
        assert!(written < 800 * 7, "{written}");
        // Nothing new: nothing is written, also where pages were merged, which then seem to be of the last commit.
        assert_eq!(plan_parts(&parts, &day.minutes(), at(200), &SIZES), []);
        let newest = day.commit;
        day.rows.iter_mut().for_each(|(_, commit)| *commit = newest);
        assert_eq!(plan_parts(&parts, &day.minutes(), at(200), &SIZES), []);
        // One record more in the middle of them is found.
        day.add(100, 1);
        assert_eq!(plan_parts(&parts, &day.minutes(), at(200), &SIZES).len(), 1);
    }

    /// Five million records a day, published each five minutes, some of them out of order.
    #[test]
    fn a_row_of_a_busy_day_is_written_about_twice() {
        let (sizes, mut minutes) = (PartSizes::default(), DayMinutes::new(0));
        let mut rows: Vec<u64> = vec![0; 1440];
        let (mut parts, mut written): (Vec<OpenDayPart>, u64) = (Vec::new(), 0);
        for round in 1..=288 {
            minutes.commit = round;
            for minute in (round * 5 - 5)..(round * 5) {
                for (minute, records) in [(minute, 3440), ((minute - 1).max(0), 32)] {
                    rows[minute as usize] += records;
                    minutes.add(at(minute), records, round);
                }
            }
            let in_slice = |slice: TimeSlice| (0..1440).filter(move |minute| slice.contains(at(*minute as i64)));
            for region in plan_parts(&parts, &minutes, at(round * 5), &sizes).into_iter().rev() {
                let part = |slice: &TimeSlice| {
                    let rows = in_slice(*slice).map(|minute| rows[minute]).sum();
                    OpenDayPart { path: String::new(), from: slice.from, commit: round, rows, records: rows }
                };
                let new: Vec<OpenDayPart> = region.slices.iter().map(part).collect();
                written += new.iter().map(|part| part.rows).sum::<u64>();
                parts.splice(region.replaced, new);
            }
        }
        let all: u64 = rows.iter().sum();
        assert_eq!(parts.iter().map(|part| part.rows).sum::<u64>(), all);
        assert!(written < all * 3, "{written} rows were written of {all}");
        assert!(parts.len() < 60, "{}", parts.len());
    }

    #[test]
    fn late_records_cost_some_parts_at_a_time() {
        let (mut day, mut parts) = (Day::default(), Vec::new());
        (0..200).for_each(|minute| day.add(minute, 20));
        assert_eq!(day.publish(&mut parts, 200), 4000);
        (0..200).for_each(|minute| day.add(minute, 1));
        let (mut rounds, mut published) = (0, 0);
        while published < 4200 && rounds < 1000 {
            let written = day.publish(&mut parts, 201);
            assert!(written <= 50 + 2 * 42, "{written}");
            published = parts.iter().map(|part| part.rows).sum();
            rounds += 1;
        }
        assert_eq!(published, 4200, "after {rounds} rounds");
    }

    proptest! {
        /// Whatever comes when: after some rounds without anything new, each row is in the part of its time, once.
        #[test]
        fn each_row_is_in_one_part(rounds in proptest::collection::vec(
            (proptest::collection::vec((-5i64..120, 1usize..30), 0..4), 0i64..130), 1..12)) {
            let (mut day, mut parts) = (Day::default(), Vec::new());
            for (rows, now) in rounds {
                rows.into_iter().for_each(|(minute, rows)| day.add(minute, rows));
                day.publish(&mut parts, now);
                prop_assert!(parts.is_sorted_by(|a, b| a.from < b.from), "{parts:?}");
            }
            for _ in 0..200 {
                day.publish(&mut parts, 130);
            }
            for number in 0..parts.len() {
                prop_assert_eq!(parts[number].rows, day.rows_in(times_of(&parts, number)), "{:?}", parts);
            }
            prop_assert_eq!(parts.iter().map(|part| part.rows).sum::<u64>(), day.rows.len() as u64);
        }
    }
}
