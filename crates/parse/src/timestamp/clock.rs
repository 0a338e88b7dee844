//! The time of day within a timestamp.

use daytable_model::digits;
use daytable_model::time::TICKS_PER_SECOND;

/// Digits of a second that a tick represents.
const TICK_DIGITS: u32 = TICKS_PER_SECOND.ilog10();

/// A text, and how far it is read. Each method consumes the part it is named after, or leaves the text alone.
#[derive(Clone, Copy)]
pub(super) struct DigitCursor<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) at: usize,
}

impl<'a> DigitCursor<'a> {
    pub(super) fn peek(&self) -> Option<u8> {
        self.bytes.get(self.at).copied()
    }

    pub(super) fn rest(&self) -> &'a [u8] {
        self.bytes.get(self.at..).unwrap_or_default()
    }

    pub(super) fn eat(&mut self, byte: u8) -> bool {
        let is_there = self.peek() == Some(byte);
        self.at += usize::from(is_there);
        is_there
    }

    /// One of `bytes`.
    pub(super) fn eat_any(&mut self, bytes: &[u8]) -> Option<u8> {
        let byte = self.peek().filter(|byte| bytes.contains(byte))?;
        self.at += 1;
        Some(byte)
    }

    /// Exactly this text.
    pub(super) fn text(&mut self, text: &str) -> Option<()> {
        self.rest().starts_with(text.as_bytes()).then(|| self.at += text.len())
    }

    /// The number of digits that come next, counted to 20.
    pub(super) fn run(&self) -> usize {
        self.rest().iter().take(20).take_while(|byte| byte.is_ascii_digit()).count()
    }

    /// A number of `least` to `most` digits, at most 9, without a digit after it.
    pub(super) fn number(&mut self, least: usize, most: usize) -> Option<u32> {
        let length = self.run();
        if length < least || length > most {
            return None;
        }
        self.digits(length)
    }

    /// The number of the next `length` digits, at most 9.
    pub(super) fn digits(&mut self, length: usize) -> Option<u32> {
        let mut number = 0;
        for byte in self.bytes.get(self.at..self.at + length)? {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                return None;
            }
            number = number * 10 + u32::from(digit);
        }
        self.at += length;
        Some(number)
    }

    /// `HH:MM:SS` with an optional fraction and an optional AM or PM: ticks since midnight.
    ///
    /// `between` separates hours, minutes and seconds. `seconds` says whether seconds may be missing.
    pub(super) fn clock(&mut self, between: u8, seconds: Seconds) -> Option<i64> {
        let least = if seconds == Seconds::Unpadded { 1 } else { 2 };
        let mut hour = self.number(1, 2)?;
        if !self.eat(between) {
            return None;
        }
        let minute = self.number(least, 2)?;
        let (mut second, mut ticks) = (0, 0);
        let has_seconds = self.peek() == Some(between) && self.bytes.get(self.at + 1).is_some_and(u8::is_ascii_digit);
        if has_seconds {
            self.at += 1;
            second = self.number(least, 2)?;
            ticks = self.fraction(seconds);
        } else if seconds != Seconds::Optional {
            return None;
        }
        if let Some((is_afternoon, length)) = half(self.rest()) {
            hour = hour_of_half(hour, is_afternoon)?;
            self.at += length;
        }
        since_midnight(hour, minute, second, ticks)
    }

    /// `HHMMSS` with an optional fraction: ticks since midnight.
    pub(super) fn packed_clock(&mut self) -> Option<i64> {
        let (hour, minute, second) = (self.digits(2)?, self.digits(2)?, self.digits(2)?);
        let ticks = self.fraction(Seconds::Required);
        if self.run() > 0 {
            return None;
        }
        since_midnight(hour, minute, second, ticks)
    }

    /// `HHMMSSCC`, with hundredths: ticks since midnight.
    pub(super) fn hundredths(&mut self) -> Option<i64> {
        let (hour, minute, second) = (self.digits(2)?, self.digits(2)?, self.digits(2)?);
        let hundredths = i64::from(self.digits(2)?);
        since_midnight(hour, minute, second, hundredths * (TICKS_PER_SECOND / 100))
    }

    /// A fraction after `.` or `,`; milliseconds after `:`.
    fn fraction(&mut self, seconds: Seconds) -> i64 {
        let [mark, digits @ ..] = self.rest() else { return 0 };
        if !digits.first().is_some_and(u8::is_ascii_digit) {
            return 0;
        }
        match mark {
            b'.' | b',' => {
                let (ticks, rest) = fraction(digits);
                self.at = self.bytes.len() - rest.len();
                ticks
            }
            b':' => {
                let mut after = DigitCursor { at: self.at + 1, ..*self };
                let least = if seconds == Seconds::Unpadded { 1 } else { 3 };
                let Some(milliseconds) = after.number(least, 3) else { return 0 };
                self.at = after.at;
                i64::from(milliseconds) * (TICKS_PER_SECOND / 1000)
            }
            _ => 0,
        }
    }
}

/// The parts that a time of day must have.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Seconds {
    Required,
    Optional,
    /// Required; single digits are allowed everywhere.
    Unpadded,
}

pub(super) fn since_midnight(hour: u32, minute: u32, second: u32, ticks: i64) -> Option<i64> {
    if hour > 23 || minute > 59 {
        return None;
    }
    let (second, ticks) = leap(second, ticks)?;
    Some(i64::from(hour * 3600 + minute * 60 + second) * TICKS_PER_SECOND + ticks)
}

/// A second and its fraction. A leap second becomes the last tick before the next minute. `None` for an impossible
/// second.
#[inline]
pub(super) fn leap(second: u32, ticks: i64) -> Option<(u32, i64)> {
    match second {
        0..=59 => Some((second, ticks)),
        60 => Some((59, TICKS_PER_SECOND - 1)),
        _ => None,
    }
}

/// Leading digits as a fraction of a second in ticks, and the rest after all digits.
#[inline]
pub(super) fn fraction(text: &[u8]) -> (i64, &[u8]) {
    const UNITS: [i64; 8] = [10_000_000, 1_000_000, 100_000, 10_000, 1000, 100, 10, 1];
    if let Some((number, length)) = digits::leading(text) {
        return (number.cast_signed() * UNITS[length], &text[length..]);
    }
    let (mut ticks, mut missing, mut length) = (0, TICK_DIGITS, 0);
    for byte in text {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        if missing > 0 {
            ticks = ticks * 10 + i64::from(digit);
            missing -= 1;
        }
        length += 1;
    }
    (ticks * 10i64.pow(missing), &text[length..])
}

/// The hour of the day that a clock with AM or PM shows. Some programs write it beside an hour of a 24-hour clock
/// (`13:05:00 PM`, `0:05:00 AM`). Where the two contradict each other, it is no time.
#[inline]
pub(super) fn hour_of_half(hour: u32, is_afternoon: bool) -> Option<u32> {
    match hour {
        0..=12 => Some(hour % 12 + if is_afternoon { 12 } else { 0 }),
        13..=23 if is_afternoon => Some(hour),
        _ => None,
    }
}

/// Whether `AM` or `PM` comes next, perhaps after a space: whether it is the afternoon, and the length.
#[inline]
pub(super) fn half(text: &[u8]) -> Option<(bool, usize)> {
    let (space, text) = match text {
        [b' ', rest @ ..] => (1, rest),
        _ => (0, text),
    };
    let (is_afternoon, rest) = match text {
        [first @ (b'A' | b'a' | b'P' | b'p'), b'M' | b'm', rest @ ..] => (matches!(first, b'P' | b'p'), rest),
        // As Java writes them in Spanish, in German,
        [first @ (b'A' | b'a' | b'P' | b'p'), b'.', rest @ ..] => {
            let rest = [&b" "[..], "\u{a0}".as_bytes(), "\u{202f}".as_bytes()]
                .iter()
                .find_map(|space| rest.strip_prefix(*space))
                .unwrap_or(rest);
            (matches!(first, b'P' | b'p'), rest.strip_prefix(b"M.").or_else(|| rest.strip_prefix(b"m."))?)
        }
        [b'V', b'O', b'R', b'M', b'.', rest @ ..] => (false, rest),
        [b'N', b'A', b'C', b'H', b'M', b'.', rest @ ..] => (true, rest),
        // in Chinese and in Japanese.
        [0xe4 | 0xe5, ..] => {
            const HALVES: [(&str, bool); 4] = [("上午", false), ("午前", false), ("下午", true), ("午後", true)];
            let found =
                |(word, is_afternoon): &(&str, bool)| Some((*is_afternoon, text.strip_prefix(word.as_bytes())?));
            HALVES.iter().find_map(found)?
        }
        _ => return None,
    };
    let length = text.len() - rest.len();
    super::offset::ends_word(rest).then_some((is_afternoon, space + length))
}
