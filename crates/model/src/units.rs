//! Durations and sizes as a configuration and a command line write them: a whole number and its unit.
//!
//! A number without a unit is refused rather than guessed; so are fractions and sums (`90m`, not `1.5h` or `1h30m`).

use std::fmt;
use std::num::NonZeroU16;
use std::str::FromStr;
use std::time::Duration;

/// Why a duration or a size is invalid; each message shows a valid one.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum UnitError {
    /// A number without a unit.
    #[error("a duration needs its unit, for example \"{0}\" (ms, s, m, h, d, w)")]
    DurationUnit(String),
    /// Not a whole number with a known unit.
    #[error("a duration is a whole number and its unit, for example \"30d\" (ms, s, m, h, d, w)")]
    Duration,
    /// A number without a unit.
    #[error("a size needs its unit, for example \"{0}\" (B, KiB, MiB, GiB, KB, MB, GB)")]
    SizeUnit(String),
    /// Not a whole number with a known unit.
    #[error("a size is a whole number and its unit, for example \"1MiB\" (B, KiB, MiB, GiB, KB, MB, GB)")]
    Size,
    /// More than 64 bits hold.
    #[error("is too large a number")]
    TooLarge,
}

/// Reads `250ms`, `5s`, `10m`, `1h`, `30d`, `12w`.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    let (number, unit) = split(text);
    let milliseconds: u64 = match unit {
        _ if number.is_empty() => return Err(UnitError::Duration),
        "ms" => 1,
        "s" => 1000,
        "m" => 60_000,
        "h" => 3_600_000,
        "d" => 86_400_000,
        "w" => 7 * 86_400_000,
        "" => return Err(UnitError::DurationUnit(format!("{number}d"))),
        _ => return Err(UnitError::Duration),
    };
    times(number, milliseconds).map(Duration::from_millis)
}

/// The text that [`parse_duration`] parses to this duration, in the largest unit without a remainder. Fractions of a
/// millisecond are dropped.
pub fn show_duration(duration: Duration) -> String {
    let milliseconds = duration.as_millis();
    let units = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1000, "s")];
    match units.iter().find(|(unit, _)| milliseconds > 0 && milliseconds.is_multiple_of(*unit)) {
        Some((unit, name)) => format!("{}{name}", milliseconds / unit),
        None => format!("{milliseconds}ms"),
    }
}

/// A duration of minutes or more in its two largest units: `12m`, `3h 3m`, `3d 2h`.
pub fn show_rounded(duration: Duration) -> String {
    let minutes = (duration.as_secs() + 30) / 60;
    let (days, hours, minutes) = (minutes / 1440, minutes / 60 % 24, minutes % 60);
    match (days, hours) {
        (0, 0) => format!("{minutes}m"),
        (0, _) => format!("{hours}h {minutes}m"),
        _ => format!("{days}d {hours}h"),
    }
}

/// A number of bytes with its unit: `512B`, `64KiB`, `1MiB`, `10MB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(u64);

impl ByteSize {
    /// This many bytes.
    pub const fn new(bytes: u64) -> ByteSize {
        ByteSize(bytes)
    }

    /// In bytes.
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl FromStr for ByteSize {
    type Err = UnitError;

    fn from_str(text: &str) -> Result<ByteSize, UnitError> {
        let (number, unit) = split(text);
        let bytes: u64 = match unit {
            _ if number.is_empty() => return Err(UnitError::Size),
            "B" => 1,
            "KiB" => 1 << 10,
            "MiB" => 1 << 20,
            "GiB" => 1 << 30,
            "KB" => 1000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "" => return Err(UnitError::SizeUnit(format!("{number}B"))),
            _ => return Err(UnitError::Size),
        };
        times(number, bytes).map(ByteSize)
    }
}

/// In the largest binary unit without a remainder.
impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match units.iter().find(|(unit, _)| self.0 > 0 && self.0.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}B", self.0),
        }
    }
}

/// A count that is a constant; 0 becomes 1.
pub const fn count(count: u16) -> NonZeroU16 {
    match NonZeroU16::new(count) {
        Some(count) => count,
        None => NonZeroU16::MIN,
    }
}

/// Splits a text after its leading digits.
fn split(text: &str) -> (&str, &str) {
    text.split_at(text.bytes().take_while(u8::is_ascii_digit).count())
}

fn times(number: &str, unit: u64) -> Result<u64, UnitError> {
    number.parse().ok().and_then(|number: u64| number.checked_mul(unit)).ok_or(UnitError::TooLarge)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounded_durations_have_two_units() {
        let of = |seconds: u64| show_rounded(Duration::from_secs(seconds));
        assert_eq!([720, 11_000, 266_400].map(of), ["12m", "3h 3m", "3d 2h"]);
    }
    use proptest::prelude::*;

    #[test]
    fn durations() {
        for (text, seconds) in
            [("5s", 5), ("10m", 600), ("1h", 3600), ("30d", 2_592_000), ("12w", 7_257_600), ("0s", 0)]
        {
            assert_eq!(parse_duration(text), Ok(Duration::from_secs(seconds)), "{text}");
        }
        assert_eq!(parse_duration("250ms"), Ok(Duration::from_millis(250)));
        for (text, error) in [
            ("30", UnitError::DurationUnit("30d".into())),
            ("", UnitError::Duration),
            ("d", UnitError::Duration),
            ("-1d", UnitError::Duration),
            ("1.5h", UnitError::Duration),
            ("30 d", UnitError::Duration),
            ("30D", UnitError::Duration),
            ("1h30m", UnitError::Duration),
            ("99999999999999999999d", UnitError::TooLarge),
            ("999999999999999999d", UnitError::TooLarge),
        ] {
            assert_eq!(parse_duration(text), Err(error), "{text}");
        }
    }

    #[test]
    fn sizes() {
        for (text, bytes) in [("512B", 512), ("64KiB", 65_536), ("1MiB", 1_048_576), ("10MB", 10_000_000)] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for (text, error) in [
            ("64", UnitError::SizeUnit("64B".into())),
            ("64k", UnitError::Size),
            ("MiB", UnitError::Size),
            ("99999999999999GiB", UnitError::TooLarge),
        ] {
            assert_eq!(text.parse::<ByteSize>(), Err(error), "{text}");
        }
    }

    proptest! {
        /// The shown text parses back to the same value.
        #[test]
        fn shown_and_read_back(milliseconds in 0u64..=u64::MAX, bytes in any::<u64>(), small in 0u64..100_000) {
            for milliseconds in [milliseconds, small, small * 60_000] {
                let duration = Duration::from_millis(milliseconds);
                prop_assert_eq!(parse_duration(&show_duration(duration)), Ok(duration));
            }
            for bytes in [bytes, small, small << 20] {
                prop_assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
            }
        }

        /// No text panics.
        #[test]
        fn any_text_is_read_or_refused(text in "\\PC{0,12}|[0-9]{0,25}[a-zA-Zµ]{0,3}") {
            let _ = (parse_duration(&text), text.parse::<ByteSize>());
        }
    }
}
