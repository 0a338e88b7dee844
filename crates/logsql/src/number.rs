//! Numbers as queries and records write them: plain, with units, as IPv4 addresses or times.
//!
//! ```text
//! 404  -1.5e3  0x1f  1_000     numbers
//! 1.5s  250ms  1h30m  2d       durations, in nanoseconds
//! 10KiB  1.5MB  100B           sizes, in bytes
//! 10.0.0.1                     addresses, as 32-bit numbers
//! 2026-11-21T08:00:00Z         times, in nanoseconds since the Unix epoch
//! ```

use crate::moment;
use crate::unit::{duration_nanos, size_bytes};
use daytable_model::property::Property;
use daytable_model::time::UNIX_EPOCH_TICKS;
use std::cmp::Ordering;

/// A number. Whole numbers of 64 bits are compared exactly, also with floats.
#[derive(Clone, Copy, Debug)]
pub enum Number {
    /// A whole number.
    Whole(i64),
    /// A number with a fraction, or a greater one.
    Float(f64),
}

impl Number {
    /// The number as a float.
    pub fn as_f64(self) -> f64 {
        match self {
            Number::Whole(n) => n as f64,
            Number::Float(n) => n,
        }
    }

    /// The number as a value.
    pub fn as_property(self) -> Property<'static> {
        match self {
            Number::Whole(n) => Property::Int64(n),
            Number::Float(n) => Property::Double(n),
        }
    }

    /// The number of a value: typed, or in the text.
    pub fn of(value: Property<'_>) -> Option<Number> {
        match value {
            Property::Int64(n) => Some(Number::Whole(n)),
            Property::Int32(n) => Some(Number::Whole(n.into())),
            Property::Double(n) => (!n.is_nan()).then_some(Number::Float(n)),
            Property::String(text) => Number::parse(text),
            Property::DateTime(time) => Some(Number::Whole(time.unix_nanos())),
            Property::Boolean(_) | Property::Guid(_) | Property::Binary(_) => None,
        }
    }

    /// Reads a number in any of the forms above.
    pub fn parse(text: &str) -> Option<Number> {
        // Most texts are not numbers, and end here.
        if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.' | 'i' | 'I')) {
            return None;
        }
        if is_other(text) {
            return None;
        }
        // Only an address has three dots.
        if text.bytes().filter(|byte| *byte == b'.').count() == 3
            && let Some(address) = ipv4(text)
        {
            return Some(Number::Whole(address.into()));
        }
        plain(text)
            .or_else(|| duration_nanos(text).map(Number::Whole))
            .or_else(|| size_bytes(text).map(Number::Whole))
            .or_else(|| {
                moment::absolute(text).map(|(start, _)| Number::Whole((start - UNIX_EPOCH_TICKS).saturating_mul(100)))
            })
    }
}

impl PartialEq for Number {
    fn eq(&self, other: &Number) -> bool {
        self.partial_cmp(other) == Some(Ordering::Equal)
    }
}

impl PartialOrd for Number {
    fn partial_cmp(&self, other: &Number) -> Option<Ordering> {
        match (self, other) {
            (Number::Whole(a), Number::Whole(b)) => Some(a.cmp(b)),
            (Number::Whole(a), Number::Float(b)) => compare_exactly(*a, *b),
            (Number::Float(a), Number::Whole(b)) => compare_exactly(*b, *a).map(Ordering::reverse),
            (Number::Float(a), Number::Float(b)) => a.partial_cmp(b),
        }
    }
}

/// The order of a whole number and a float, which need not be the one that the whole number would become.
fn compare_exactly(whole: i64, float: f64) -> Option<Ordering> {
    /// The first float above all whole numbers.
    const ABOVE: f64 = 9_223_372_036_854_775_808.0;
    match float {
        _ if float.is_nan() => None,
        _ if float >= ABOVE => Some(Ordering::Less),
        _ if float < -ABOVE => Some(Ordering::Greater),
        _ => whole.cmp(&(float as i64)).then(0.0.partial_cmp(&float.fract())?).into(),
    }
}

/// Whether a letter shows that a text is no number: identifiers and names often begin with a digit.
fn is_other(text: &str) -> bool {
    let in_no_number = |byte: u8| {
        matches!(byte.to_ascii_lowercase(), b'a' | b'c' | b'f' | b'j' | b'l' | b'o'..=b'r' | b'v')
            || matches!(byte, b'b' | b'g' | b'k')
    };
    let has_letters_of_its_own = |text: &str| {
        let digits = text.trim_start_matches(['-', '+']);
        digits.starts_with(['i', 'I']) || digits.starts_with("0x") || digits.starts_with("0X")
    };
    text.bytes().any(in_no_number) && !has_letters_of_its_own(text)
}

/// A decimal or hexadecimal number without a unit.
pub fn plain(text: &str) -> Option<Number> {
    let digits = text.trim_start_matches(['-', '+']);
    if text.len() - digits.len() > 1 {
        return None;
    }
    if digits.starts_with("0x") || digits.starts_with("0X") {
        let n = i64::from_str_radix(&digits[2..], 16).ok()?;
        return Some(Number::Whole(if text.starts_with('-') { -n } else { n }));
    }
    if matches!(digits, "inf" | "Inf" | "INF") {
        return Some(Number::Float(if text.starts_with('-') { f64::NEG_INFINITY } else { f64::INFINITY }));
    }
    if !digits.starts_with(|c: char| c.is_ascii_digit() || c == '.') {
        return None;
    }
    let without;
    let text = match text.contains('_') {
        true => {
            without = text.replace('_', "");
            &without
        }
        false => text,
    };
    match text.parse() {
        Ok(n) => Some(Number::Whole(n)),
        Err(_) => text.parse().ok().map(Number::Float),
    }
}

/// An IPv4 address as a number.
pub fn ipv4(text: &str) -> Option<u32> {
    if text.len() > 15 || !text.starts_with(|c: char| c.is_ascii_digit()) {
        return None;
    }
    text.parse::<std::net::Ipv4Addr>().ok().map(u32::from)
}

/// The addresses of a network such as `10.0.0.0/8`, or of one address.
pub fn ipv4_network(text: &str) -> Option<(u32, u32)> {
    let Some((address, bits)) = text.split_once('/') else { return ipv4(text).map(|address| (address, address)) };
    let (address, bits) = (ipv4(address)?, bits.parse::<u32>().ok().filter(|bits| *bits <= 32)?);
    let hosts = u32::MAX.checked_shr(bits).unwrap_or(0);
    Some((address & !hosts, address | hosts))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The order is that of the mathematical values, so it is one order for all numbers.
    #[test]
    fn texts_in_all_forms_of_numbers_are_read() {
        let whole = |text: &str| match Number::parse(text) {
            Some(Number::Whole(whole)) => Some(whole),
            _ => None,
        };
        for (text, number) in [
            ("404", Some(404)),
            ("-0x1F", Some(-31)),
            ("0xabcdef", Some(0xab_cdef)),
            ("1_000", Some(1000)),
            ("1h30m", Some(5_400_000_000_000)),
            ("1y", Some(31_536_000_000_000_000)),
            ("3us", Some(3000)),
            ("3µs", Some(3000)),
            ("10KiB", Some(10_240)),
            ("1TB", Some(1_000_000_000_000)),
            ("1G", Some(1_000_000_000)),
            ("10.0.0.1", Some(0x0a00_0001)),
            ("1970-01-01T00:00:01Z", Some(1_000_000_000)),
            ("1970-01-01t00:00:01z", Some(1_000_000_000)),
            ("10.0.0.256", None),
            ("1.0.0.0s", None),
            ("4bf92f3577b34da6a3ce929d0e0e4736", None),
            ("7 of 9", None),
            ("1b", None),
            ("1k", None),
        ] {
            assert_eq!(whole(text), number, "{text}");
        }
        assert_eq!(Number::parse("-Inf"), Some(Number::Float(f64::NEG_INFINITY)));
        assert_eq!(Number::parse("1e3"), Some(Number::Float(1000.0)));
        assert_eq!(Number::parse("1E3"), Some(Number::Float(1000.0)));
    }

    #[test]
    fn whole_numbers_and_floats_are_in_one_exact_order() {
        let ascending = [
            Number::Float(f64::NEG_INFINITY),
            Number::Float(-9.3e18),
            Number::Whole(i64::MIN),
            Number::Whole(i64::MIN + 1),
            Number::Whole(-9_007_199_254_740_993),
            Number::Float(-9_007_199_254_740_992.0),
            Number::Whole(-1),
            Number::Float(-0.5),
            Number::Whole(0),
            Number::Float(0.1),
            Number::Whole(1),
            Number::Float(1.5),
            Number::Whole(9_007_199_254_740_991),
            Number::Float(9_007_199_254_740_992.0),
            Number::Whole(9_007_199_254_740_993),
            Number::Whole(9_007_199_254_740_994),
            Number::Whole(i64::MAX),
            Number::Float(9_223_372_036_854_775_808.0),
            Number::Float(1e300),
            Number::Float(f64::INFINITY),
        ];
        for (i, a) in ascending.iter().enumerate() {
            for (j, b) in ascending.iter().enumerate() {
                assert_eq!(a.partial_cmp(b), Some(i.cmp(&j)), "{a:?} {b:?}");
            }
        }
        assert_eq!(Number::Whole(i64::MIN), Number::Float(-9_223_372_036_854_775_808.0));
        assert_eq!(Number::Whole(0), Number::Float(-0.0));
        assert_eq!(Number::Whole(0).partial_cmp(&Number::Float(f64::NAN)), None);
    }
}
