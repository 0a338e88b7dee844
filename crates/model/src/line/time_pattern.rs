//! The way a time is written in a line: enough to write the same text again from the ticks.
//!
//! ```text
//! 60;Y-m-d'TH:M:S.3      2026-11-21T09:00:00.123, written one hour east of UTC
//! pattern := minutes east of UTC ; part*
//! part    := a code | 1 to 7: as many digits of the fraction | a quoted character | any other character, itself
//! ```
//!
//! | code | meaning | code | meaning |
//! |---|---|---|---|
//! | `Y`, `y` | year of four, of two digits | `H`, `k` | hour of two digits, unpadded |
//! | `m`, `n` | month of two digits, unpadded | `I`, `l` | the same, of twelve hours |
//! | `b`, `B` | `Nov`, `November` | `M`, `S` | minute, second |
//! | `d`, `e`, `E` | day of two digits, with a space, unpadded | `p`, `P` | `AM`, `am` |
//! | `a`, `A` | `Sat`, `Saturday` | `s` | seconds since 1970 |

use crate::digits;
use crate::property::is_same_text;
use crate::time::{MONTHS, TICKS_PER_DAY, TICKS_PER_MINUTE, TICKS_PER_SECOND, Ticks, WEEKDAYS};

const CODES: &[u8] = b"YymnbBdeEaAHkIlMSpPs1234567";
/// Digits of a fraction that ticks hold.
const TICK_DIGITS: usize = 7;
/// The ticks of the last digit of a fraction, by the number of its digits.
const FRACTION_UNITS: [u32; TICK_DIGITS] = [1_000_000, 100_000, 10_000, 1000, 100, 10, 1];
/// Digits of the seconds since 1970 of this century.
const EPOCH_DIGITS: usize = 10;

/// How a time is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TimePattern {
    minutes_east: i64,
    parts: Vec<TimePart>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimePart {
    Literal(u8),
    /// One of [`CODES`].
    Code(u8),
}

/// The parts of a time as clocks show it.
#[derive(Clone, Debug)]
struct Clock {
    /// The ticks of its midnight, as shown.
    midnight: i64,
    year: u32,
    month: u32,
    day: u32,
    weekday: usize,
    hour: u32,
    minute: u32,
    second: u32,
    fraction: u32,
    time: Ticks,
}

/// A pattern, and the clock of the last time that was compared. Most times of a source are of one day, whose date is
/// written once.
#[derive(Clone, Debug)]
pub struct KnownTime {
    pattern: TimePattern,
    clock: Option<Clock>,
    /// What the first parts write on that day, and how many parts these are.
    date: Vec<u8>,
    date_parts: usize,
}

impl KnownTime {
    /// A pattern without a time yet.
    pub fn new(pattern: TimePattern) -> KnownTime {
        let is_of_date = |part: &&TimePart| match part {
            TimePart::Literal(_) => true,
            TimePart::Code(code) => b"YymnbBdeEaA".contains(code),
        };
        let date_parts = pattern.parts.iter().take_while(is_of_date).count();
        KnownTime { pattern, clock: None, date: Vec::new(), date_parts }
    }

    /// The zone of the written time, in minutes east of UTC.
    pub fn minutes_east(&self) -> i64 {
        self.pattern.minutes_east
    }

    /// Whether it is a date of digits and a clock of 24 hours, as in RFC 3339. The second may have a fraction.
    pub fn is_iso(&self) -> bool {
        let pattern = self.pattern.text();
        let date = pattern.split_once(';').and_then(|(_, parts)| {
            let after_date = parts.strip_prefix("Y-m-d").or_else(|| parts.strip_prefix("Y/m/d"))?;
            after_date.strip_prefix("'T").or_else(|| after_date.strip_prefix(' '))
        });
        let fraction = date.and_then(|clock| clock.strip_prefix("H:M:S")).map(str::as_bytes);
        matches!(fraction, Some([] | [b'.' | b',', b'1'..=b'7']))
    }

    /// Reads a time of the day of the last time that was compared: the time, and its length. Only for times of which
    /// [`KnownTime::is_iso`] holds.
    #[inline]
    pub fn read(&self, text: &[u8]) -> Option<(Ticks, usize)> {
        let midnight = self.clock.as_ref()?.midnight;
        let mut at = self.date.len();
        if !is_same_text(text.get(..at)?, &self.date) {
            return None;
        }
        let (mut seconds, mut fraction) = (0, 0);
        for part in &self.pattern.parts[self.date_parts..] {
            let rest = text.get(at..)?;
            at += match *part {
                TimePart::Literal(byte) => (*rest.first()? == byte).then_some(1)?,
                TimePart::Code(b'H') => {
                    seconds += 3600 * two_digits(rest, 24)?;
                    2
                }
                TimePart::Code(b'M') => {
                    seconds += 60 * two_digits(rest, 60)?;
                    2
                }
                TimePart::Code(b'S') => {
                    seconds += two_digits(rest, 60)?;
                    2
                }
                TimePart::Code(code @ b'1'..=b'7') => {
                    let width = usize::from(code - b'0');
                    fraction = digits_at_front(rest, width)? * FRACTION_UNITS[width - 1];
                    width
                }
                TimePart::Code(_) => return None,
            };
        }
        let since_midnight = i64::from(seconds) * TICKS_PER_SECOND + i64::from(fraction);
        let time = midnight + since_midnight - self.pattern.minutes_east * TICKS_PER_MINUTE;
        Some((Ticks::new(time)?, at))
    }

    /// The length of what the pattern writes for a time, if `text` begins with that.
    pub fn length_in(&mut self, text: &[u8], time: Ticks) -> Option<usize> {
        let TimePattern { minutes_east, parts } = &self.pattern;
        let (of_date, of_day) = parts.split_at(self.date_parts);
        let shown = time.get() + minutes_east * TICKS_PER_MINUTE;
        let clock = match &mut self.clock {
            Some(clock) if is_within(clock.midnight, shown) => {
                clock.set(time, shown);
                clock
            }
            clock => {
                *clock = Clock::at(time, *minutes_east);
                let clock = clock.as_ref()?;
                self.date.clear();
                of_date.iter().for_each(|part| part.write(clock, &mut self.date));
                clock
            }
        };
        let mut at = self.date.len();
        if !is_same_text(text.get(..at)?, &self.date) {
            return None;
        }
        for part in of_day {
            at += match *part {
                TimePart::Literal(byte) => text.get(at).filter(|there| **there == byte).map(|_| 1)?,
                TimePart::Code(code) => clock.begins(code, text.get(at..)?)?,
            };
        }
        Some(at)
    }
}

impl TimePart {
    fn write(self, clock: &Clock, out: &mut Vec<u8>) {
        match self {
            TimePart::Literal(byte) => out.push(byte),
            TimePart::Code(code) => clock.write(code, out),
        }
    }
}

/// Whether a time is of the day of a midnight.
fn is_within(midnight: i64, shown: i64) -> bool {
    (midnight..midnight.saturating_add(TICKS_PER_DAY)).contains(&shown)
}

impl Clock {
    fn at(time: Ticks, minutes_east: i64) -> Option<Clock> {
        let shown = Ticks::new(time.get() + minutes_east * TICKS_PER_MINUTE)?;
        let date = shown.date();
        let mut clock = Clock {
            midnight: shown.get() - shown.get().rem_euclid(TICKS_PER_DAY),
            year: date.year.unsigned_abs(),
            month: date.month,
            day: date.day,
            // The first day of year 1 was a Monday.
            weekday: usize::try_from(shown.get() / TICKS_PER_DAY % 7).ok()?,
            hour: 0,
            minute: 0,
            second: 0,
            fraction: 0,
            time,
        };
        clock.set(time, shown.get());
        Some(clock)
    }

    /// Sets the time of day.
    #[inline]
    fn set(&mut self, time: Ticks, shown: i64) {
        let rest = (shown - self.midnight).unsigned_abs();
        let second = TICKS_PER_SECOND.unsigned_abs();
        // A day has 86,400 seconds, and a second 10 million ticks.
        let (seconds, fraction) = ((rest / second) as u32, (rest % second) as u32);
        (self.hour, self.minute, self.second) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
        (self.fraction, self.time) = (fraction, time);
    }

    /// The number that a code of a fixed width writes, and the width.
    #[inline]
    fn number(&self, code: u8) -> Option<(u32, usize)> {
        Some(match code {
            b'Y' => (self.year, 4),
            b'y' => (self.year % 100, 2),
            b'm' => (self.month, 2),
            b'd' => (self.day, 2),
            b'H' => (self.hour, 2),
            b'I' => ((self.hour + 11) % 12 + 1, 2),
            b'M' => (self.minute, 2),
            b'S' => (self.second, 2),
            b'1'..=b'7' => {
                let length = usize::from(code - b'0');
                (self.fraction / FRACTION_UNITS[length - 1], length)
            }
            _ => return None,
        })
    }

    fn write(&self, code: u8, out: &mut Vec<u8>) {
        if let Some((number, width)) = self.number(code) {
            return digits(number, width, out);
        }
        let month = MONTHS[(self.month as usize + 11) % 12].as_bytes();
        let weekday = WEEKDAYS[self.weekday % 7].as_bytes();
        match code {
            b'n' => digits(self.month, 1, out),
            b'b' => out.extend_from_slice(&month[..3]),
            b'B' => out.extend_from_slice(month),
            b'e' if self.day < 10 => out.extend([b' ', b'0' + self.day as u8]),
            b'e' | b'E' => digits(self.day, 1, out),
            b'a' => out.extend_from_slice(&weekday[..3]),
            b'A' => out.extend_from_slice(weekday),
            b'k' => digits(self.hour, 1, out),
            b'l' => digits((self.hour + 11) % 12 + 1, 1, out),
            b'p' => out.extend(if self.hour < 12 { b"AM" } else { b"PM" }),
            b'P' => out.extend(if self.hour < 12 { b"am" } else { b"pm" }),
            b's' => out.extend(self.time.unix_seconds().to_string().bytes()),
            _ => {}
        }
    }

    /// Whether the text begins with the output of a code, and the length of that output.
    #[inline]
    fn begins(&self, code: u8, text: &[u8]) -> Option<usize> {
        let Some((number, width)) = self.number(code) else { return self.begins_name(code, text) };
        if width == 2 {
            let written = [b'0' + (number / 10) as u8, b'0' + (number % 10) as u8];
            return (*text.first_chunk()? == written).then_some(2);
        }
        (digits_at_front(text, width)? == number).then_some(width)
    }

    /// [`Clock::begins`] for names and numbers without a fixed width.
    fn begins_name(&self, code: u8, text: &[u8]) -> Option<usize> {
        let mut written = Vec::with_capacity(12);
        self.write(code, &mut written);
        text.starts_with(&written).then_some(written.len())
    }
}

/// The number of two digits, if it is below `limit`.
#[inline]
fn two_digits(text: &[u8], limit: u32) -> Option<u32> {
    let [tens, ones] = text.first_chunk()?.map(|byte: u8| u32::from(byte.wrapping_sub(b'0')));
    (tens < 10 && ones < 10 && 10 * tens + ones < limit).then_some(10 * tens + ones)
}

/// The number of the first `width` digits, at most seven.
#[inline]
fn digits_at_front(text: &[u8], width: usize) -> Option<u32> {
    if let Some((read, _)) = digits::leading(text).filter(|(_, length)| *length == width) {
        return Some(read as u32);
    }
    text.get(..width)?.iter().try_fold(0, |read, byte| {
        let digit = byte.wrapping_sub(b'0');
        (digit < 10).then_some(read * 10 + u32::from(digit))
    })
}

/// Writes a number with at least `length` digits.
#[inline]
fn digits(number: u32, length: usize, out: &mut Vec<u8>) {
    let start = out.len();
    let needed = number.checked_ilog10().unwrap_or(0) as usize + 1;
    out.resize(start + length.max(needed), b'0');
    let mut rest = number;
    for digit in out[start..].iter_mut().rev() {
        *digit = b'0' + (rest % 10) as u8;
        rest /= 10;
    }
}

impl TimePattern {
    /// Reads what [`TimePattern::text`] wrote.
    pub fn parse(text: &str) -> Option<TimePattern> {
        let (minutes, pattern) = text.split_once(';')?;
        let mut parts = Vec::with_capacity(pattern.len());
        let mut bytes = pattern.bytes();
        while let Some(byte) = bytes.next() {
            parts.push(match byte {
                b'\'' => TimePart::Literal(bytes.next()?),
                _ if CODES.contains(&byte) => TimePart::Code(byte),
                _ => TimePart::Literal(byte),
            });
        }
        Some(TimePattern { minutes_east: minutes.parse().ok()?, parts })
    }

    /// The pattern as text.
    pub fn text(&self) -> String {
        let mut text = format!("{};", self.minutes_east);
        for part in &self.parts {
            match *part {
                TimePart::Literal(byte) => {
                    if byte.is_ascii_alphanumeric() || matches!(byte, b'\'' | b')' | b'%') {
                        text.push('\'');
                    }
                    text.push(char::from(byte));
                }
                TimePart::Code(code) => text.push(char::from(code)),
            }
        }
        text
    }

    /// Writes a time.
    pub fn write(&self, time: Ticks, out: &mut Vec<u8>) {
        let Some(clock) = Clock::at(time, self.minutes_east) else { return };
        self.parts.iter().for_each(|part| part.write(&clock, out));
    }

    /// The pattern by which `text` begins with `time`, and the length of the time in the text. The fraction may have
    /// more digits than ticks hold; those digits are not part of the length.
    ///
    /// The offset from UTC is found by trying, `usual` minutes first.
    pub fn learn(text: &[u8], time: Ticks, usual: i64) -> Option<(TimePattern, usize)> {
        if !text.first()?.is_ascii_alphanumeric() {
            return None;
        }
        let quarters = (-14 * 4..=14 * 4).map(|quarter| quarter * 15);
        [usual, 0].into_iter().chain(quarters).find_map(|minutes| learn_at(text, time, minutes))
    }

    /// Whether a time that is written this way may contain `text`. False only if it cannot.
    pub(super) fn may_have(&self, text: &[u8]) -> bool {
        if let Some(shape) = self.shape() {
            let is_like =
                |(shape, byte): (&Option<u8>, &u8)| shape.map_or(byte.is_ascii_digit(), |literal| literal == *byte);
            return text.is_empty() || shape.windows(text.len()).any(|part| part.iter().zip(text).all(is_like));
        }
        let names = || MONTHS.iter().chain(&WEEKDAYS).chain(&["AM", "PM", "am", "pm"]);
        text.split(|byte| !byte.is_ascii_alphabetic()).filter(|word| !word.is_empty()).all(|word| {
            let is_literal = word.len() == 1 && self.parts.contains(&TimePart::Literal(word[0]));
            is_literal || names().any(|name| memchr::memmem::find(name.as_bytes(), word).is_some())
        }) && text
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || *byte == b' ' || self.parts.contains(&TimePart::Literal(*byte)))
    }

    /// The characters of the times if all have the same width: a literal, or `None` for a digit.
    fn shape(&self) -> Option<Vec<Option<u8>>> {
        let mut shape = Vec::with_capacity(32);
        for part in &self.parts {
            match *part {
                TimePart::Literal(byte) => shape.push(Some(byte)),
                TimePart::Code(b'Y') => shape.extend([None; 4]),
                TimePart::Code(b'y' | b'm' | b'd' | b'H' | b'I' | b'M' | b'S') => shape.extend([None; 2]),
                TimePart::Code(digits @ b'1'..=b'7') => shape.extend((b'0'..digits).map(|_| None)),
                TimePart::Code(_) => return None,
            }
        }
        Some(shape)
    }

    /// Minutes east of UTC.
    pub fn minutes_east(&self) -> i64 {
        self.minutes_east
    }
}

/// [`TimePattern::learn`] for one offset.
fn learn_at(text: &[u8], time: Ticks, minutes_east: i64) -> Option<(TimePattern, usize)> {
    let clock = Clock::at(time, minutes_east)?;
    let mut found = TimePattern { minutes_east, parts: Vec::with_capacity(24) };
    let (mut at, mut end, mut kept) = (0, 0, 0);
    let has = |code: u8, parts: &[TimePart]| parts.contains(&TimePart::Code(code));
    while let Some(&byte) = text.get(at) {
        let rest = &text[at..];
        let run = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
        let before = at.checked_sub(1).map(|before| text[before]);
        let after = rest.get(run).copied();
        let parts = &found.parts;
        let is_clock = before == Some(b':') || after == Some(b':');
        let codes: &[&[u8]] = match run {
            0 if byte.is_ascii_alphabetic() => {
                let word = rest.iter().take_while(|byte| byte.is_ascii_alphabetic()).count();
                let names: &[&[u8]] = match word {
                    1 => &[],
                    2 => &[b"p", b"P"],
                    3 => &[b"b", b"a"],
                    _ => &[b"B", b"A"],
                };
                // `T` between date and time.
                if word == 1
                    && matches!(byte, b'T' | b't')
                    && !parts.is_empty()
                    && rest.get(1).is_some_and(u8::is_ascii_digit)
                {
                    found.parts.push(TimePart::Literal(byte));
                    at += 1;
                    continue;
                }
                names
            }
            0 => {
                let is_separator = matches!(byte, b' ' | b'-' | b'/' | b':' | b'.' | b',' | b'_');
                if !is_separator || found.parts.is_empty() {
                    break;
                }
                let is_day_padded = byte == b' '
                    && (has(b'b', parts) || has(b'B', parts))
                    && !has(b'e', parts)
                    && !has(b'd', parts)
                    && !has(b'E', parts);
                if is_day_padded
                    && rest.get(1) == Some(&b' ')
                    && let Some(length) = clock.begins(b'e', &rest[1..])
                {
                    found.parts.extend([TimePart::Literal(b' '), TimePart::Code(b'e')]);
                    at += 1 + length;
                    (end, kept) = (at, found.parts.len());
                    continue;
                }
                found.parts.push(TimePart::Literal(byte));
                at += 1;
                continue;
            }
            _ if has(b'S', parts) && matches!(before, Some(b'.' | b',' | b':')) && !has_fraction(parts)
                || has(b's', parts) && before == Some(b'.') && !has_fraction(parts) =>
            {
                fraction_codes(run)
            }
            _ if run >= EPOCH_DIGITS && run != 14 && !is_clock => {
                if !has(b's', parts)
                    && parts.is_empty()
                    && let Some(length) = clock.begins(b's', rest)
                {
                    found.parts.push(TimePart::Code(b's'));
                    at += length;
                    (end, kept) = (at, found.parts.len());
                    if run > length {
                        let [code] = fraction_codes(run - length) else { break };
                        let length = clock.begins(code[0], &text[at..])?;
                        found.parts.push(TimePart::Code(code[0]));
                        at += length;
                        (end, kept) = (at, found.parts.len());
                        if run > length + EPOCH_DIGITS {
                            break;
                        }
                    }
                    continue;
                }
                break;
            }
            14 => &[b"YmdHMS"],
            8 if !is_clock => &[b"Ymd", b"dmY", b"mdY"],
            6 if !is_clock => {
                if has(b'd', parts) {
                    &[b"HMS"]
                } else {
                    &[b"ymd", b"HMS"]
                }
            }
            4 => &[b"Y", b"md", b"HM"],
            1 | 2 if is_clock && has(b'M', parts) => &[b"S"],
            1 | 2 if is_clock && (has(b'H', parts) || has(b'k', parts) || has(b'I', parts) || has(b'l', parts)) => {
                &[b"M"]
            }
            // `20/Nov/2026:10:00:00`: the year comes before the first colon.
            2 if is_clock => &[b"H", b"I"],
            1 if is_clock => &[b"k", b"l"],
            2 if has(b'Y', parts) || has(b'y', parts) => &[b"m", b"d"],
            2 => &[b"d", b"m", b"y"],
            1 => &[b"E", b"n"],
            _ => break,
        };
        let fits = |codes: &&&[u8]| {
            let mut length = 0;
            let is_new = codes.iter().all(|code| !has(*code, parts));
            let all = codes.iter().all(|code| match clock.begins(*code, &rest[length..]) {
                Some(more) => {
                    length += more;
                    true
                }
                None => false,
            });
            // A fraction may have more digits than ticks.
            let is_whole = run == 0 || length == run || length == TICK_DIGITS && run > TICK_DIGITS;
            is_new && all && is_whole
        };
        let Some(codes) = codes.iter().find(fits) else { break };
        for code in *codes {
            at += clock.begins(*code, &text[at..])?;
            found.parts.push(TimePart::Code(*code));
        }
        (end, kept) = (at, found.parts.len());
        if run > TICK_DIGITS && has_fraction(&found.parts) {
            break;
        }
    }
    found.parts.truncate(kept);
    let parts = &found.parts;
    let hour = [b'H', b'k', b'I', b'l'].into_iter().find(|code| has(*code, parts));
    // Twelve hours without AM or PM would be read as a different time.
    let is_halved = matches!(hour, Some(b'I' | b'l')) && !has(b'p', parts) && !has(b'P', parts);
    let has_date = has(b'd', parts) || has(b'e', parts) || has(b'E', parts);
    let is_time = has(b's', parts) || hour.is_some() && !is_halved && has(b'M', parts) && has_date;
    let is_bounded = text.get(end).is_none_or(|byte| !byte.is_ascii_digit()) || has_fraction(parts);
    (is_time && is_bounded).then_some((found, end))
}

/// The codes for a fraction of this many digits.
fn fraction_codes(run: usize) -> &'static [&'static [u8]] {
    const CODES: [&[u8]; TICK_DIGITS] = [b"1", b"2", b"3", b"4", b"5", b"6", b"7"];
    let at = run.clamp(1, TICK_DIGITS) - 1;
    CODES.get(at..=at).unwrap_or_default()
}

fn has_fraction(parts: &[TimePart]) -> bool {
    parts.iter().any(|part| matches!(part, TimePart::Code(b'1'..=b'7')))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn time() -> Ticks {
        // 2026-11-21T08:05:09.1234567Z, a Saturday.
        let midnight = Ticks::from_date(2026, 11, 21).expect("a date");
        Ticks::new(midnight.get() + (8 * 3600 + 5 * 60 + 9) * TICKS_PER_SECOND + 1_234_567).expect("a time")
    }

    /// A length from 0 to 7.
    fn part_length(time: Ticks) -> usize {
        (time.get() % 8).unsigned_abs() as usize
    }

    #[test]
    fn a_text_that_no_time_has() {
        let pattern = TimePattern::parse("0;Y-m-d'TH:M:S.6").expect("a pattern");
        for text in ["10.0.3.7", "1234567", "8080:", "a1", "T1234", "-2026-"] {
            assert!(!pattern.may_have(text.as_bytes()), "{text}");
        }
        for text in ["12", "2026-11", "1T08:0", "9.123456", ":00:"] {
            assert!(pattern.may_have(text.as_bytes()), "{text}");
        }
    }

    #[test]
    fn patterns_of_usual_times() {
        for (text, pattern, rest) in [
            ("2026-11-21T08:05:09Z x", "0;Y-m-d'TH:M:S", "Z x"),
            ("2026-11-21T08:05:09.123Z", "0;Y-m-d'TH:M:S.3", "Z"),
            ("2026-11-21T08:05:09.123456789Z", "0;Y-m-d'TH:M:S.7", "89Z"),
            ("2026-11-21 09:05:09,123 x", "60;Y-m-d H:M:S,3", " x"),
            ("2026-11-21T13:35:09+05:30", "330;Y-m-d'TH:M:S", "+05:30"),
            ("2026/11/21 08:05:09 [error]", "0;Y/m/d H:M:S", " [error]"),
            ("21/Nov/2026:08:05:09 +0000]", "0;d/b/Y:H:M:S", " +0000]"),
            ("Sat Nov 21 08:05:09.123456 2026]", "0;a b d H:M:S.6 Y", "]"),
            ("Nov 21 08:05:09 host", "0;b d H:M:S", " host"),
            ("1121 08:05:09.123456 7", "0;md H:M:S.6", " 7"),
            ("11-21 08:05:09.123  7", "0;m-d H:M:S.3", "  7"),
            ("261121 080509 148", "0;ymd HMS", " 148"),
            ("26/11/21 08:05:09 INFO", "0;y/m/d H:M:S", " INFO"),
            ("1795248309.1234 x", "0;s.4", " x"),
            ("1795248309123,", "0;s3", ","),
            ("1795248309123456789,", "0;s7", "89,"),
            ("11/21/2026 8:05:09 AM x", "0;m/d/Y k:M:S p", " x"),
            ("21 Nov 2026 08:05:09.123 # x", "0;d b Y H:M:S.3", " # x"),
            ("20261121T080509Z", "0;Ymd'THMS", "Z"),
        ] {
            let (found, length) = TimePattern::learn(text.as_bytes(), time(), 0).expect(text);
            assert_eq!((&*found.text(), &text[length..]), (pattern, rest), "{text}");
            let mut written = Vec::new();
            TimePattern::parse(&found.text()).expect(pattern).write(time(), &mut written);
            assert_eq!(String::from_utf8_lossy(&written), text[..length]);
        }
        for text in ["", "no", "2026-11-21", "08:05:09", "2026-11-22 08:05:09", "21"] {
            assert_eq!(TimePattern::learn(text.as_bytes(), time(), 0), None, "{text}");
        }
        let first = Ticks::from_date(2026, 11, 1).expect("a date");
        let (found, length) = TimePattern::learn(b"Nov  1 00:00:00 x", first, 0).expect("a time");
        assert_eq!((&*found.text(), length), ("0;b e H:M:S", 15));
    }

    proptest! {
        /// A learned pattern writes the same bytes again.
        #[test]
        fn a_learned_pattern_writes_the_text(text in "[0-9TZ:., /-]{0,30}|20[0-9]{2}-1[12]-[12][0-9][ T][01][0-9]:[0-5][0-9]:[0-5][0-9]([.,][0-9]{1,9})?",
                                             ticks in 630_000_000_000_000_000i64..650_000_000_000_000_000) {
            let time = Ticks::new(ticks).expect("in range");
            if let Some((pattern, length)) = TimePattern::learn(text.as_bytes(), time, 0) {
                let mut written = Vec::new();
                TimePattern::parse(&pattern.text()).expect("a pattern").write(time, &mut written);
                prop_assert_eq!(written, &text.as_bytes()[..length]);
            }
        }

        /// A time has a length in a text that begins as the pattern writes it, and only there.
        #[test]
        fn a_time_is_found_as_it_is_written(pattern in "(-?[0-9]{1,3};)[YymnbBdeEaAHkIlMSpPs1-7:. -]{0,12}",
                                            ticks in proptest::collection::vec((630_000_000_000_000_000i64..631_000_000_000_000_000, 0..900_000_000_000i64), 1..4),
                                            wrong in 0usize..20) {
            let pattern = TimePattern::parse(&pattern).expect("a pattern");
            let mut known = KnownTime::new(pattern.clone());
            for time in ticks.into_iter().flat_map(|(ticks, more)| [ticks, ticks + more]) {
                let time = Ticks::new(time).expect("in range");
                let mut written = Vec::new();
                pattern.write(time, &mut written);
                let length = written.len();
                written.push(b'0');
                prop_assert_eq!(known.length_in(&written, time), Some(length));
                let part = &written[wrong.min(length)..length.min(wrong + part_length(time))];
                prop_assert!(pattern.shape().is_none() || pattern.may_have(part), "{:?} of {:?}", part, written);
                if let Some(byte) = written.get_mut(wrong).filter(|_| wrong < length) {
                    *byte = byte.wrapping_add(1);
                    prop_assert_eq!(known.length_in(&written, time), None);
                }
            }
        }
    }
}
