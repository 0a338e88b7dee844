//! A search text, and whether values contain it: the one definition that every search uses.
//!
//! A value contains the text if the text occurs in the value as `query --json` prints it: a string without quotes and
//! escapes, a number, `true` or `false`, a time in RFC 3339, a UUID with its dashes, bytes in hexadecimal. A record
//! contains the text if one of its values or its line does ([`crate::line`]), across every border of its values.
//!
//! [`Needle::is_in`] decides. [`Needle::may_be_in`] and [`Needle::may_be_between`] serve prefilters, which skip a
//! whole column: both return false only if no value of the column can contain the text. Most texts contain a
//! character that no number has, so columns of numbers cost most searches nothing.

use crate::decimal::{DIGITS_MAX, digits};
use crate::line::may_cross;
use crate::property::{Property, PropertyKind, to_hex};
use crate::words::words_within;
use memchr::memmem::Finder;
use std::collections::HashMap;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

/// The shapes of a UUID and a time. `0` stands for a digit, which is hexadecimal in a UUID. A time may end earlier,
/// followed by `Z`.
const GUID_FORM: &[u8] = b"00000000-0000-0000-0000-000000000000";
const TIME_FORM: &[u8] = b"0000-00-00T00:00:00.0000000";

/// A search text.
#[derive(Clone, Debug)]
pub struct Needle {
    finder: Finder<'static>,
    /// By the code of a kind: whether a value of that kind can contain the text.
    kinds: [bool; PropertyKind::COUNT],
    /// The words that every text has which contains the text.
    words: Arc<[Box<str>]>,
    /// By layout: whether a line may contain the text although no value does.
    crossings: Arc<Mutex<HashMap<Box<str>, bool>>>,
}

/// Layouts that a needle remembers.
const CROSSINGS_MAX: usize = 4096;

impl Needle {
    /// Prepares a search for `text`. Every value contains the empty text.
    pub fn new(text: &str) -> Needle {
        Needle::with_borders(text, (false, false))
    }

    /// The same for a text whose first and last word are whole words wherever it is searched for.
    pub fn with_borders(text: &str, borders: (bool, bool)) -> Needle {
        Needle {
            finder: Finder::new(text).into_owned(),
            kinds: PropertyKind::ALL.map(|kind| fits(text, kind)),
            words: words_within(text, borders).into_iter().map(Box::from).collect(),
            crossings: Arc::default(),
        }
    }

    /// The search text.
    pub fn text(&self) -> &[u8] {
        self.finder.needle()
    }

    /// The words that every text has which contains the search text.
    pub fn words(&self) -> &Arc<[Box<str>]> {
        &self.words
    }

    /// Whether a line of this layout may contain the text although no value of its record does ([`may_cross`]).
    pub fn may_cross(&self, layout: &str) -> bool {
        let mut crossings = self.crossings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = crossings.get(layout) {
            return *known;
        }
        // The needle is the original search text.
        let crosses = str::from_utf8(self.finder.needle()).map_or(true, |text| may_cross(layout, text));
        if crossings.len() >= CROSSINGS_MAX {
            crossings.clear();
        }
        crossings.insert(layout.into(), crosses);
        crosses
    }

    /// Whether bytes contain the text.
    pub fn is_in_bytes(&self, bytes: &[u8]) -> bool {
        self.finder.find(bytes).is_some()
    }

    /// The searcher for raw bytes of one or many strings.
    pub fn finder(&self) -> &Finder<'static> {
        &self.finder
    }

    /// Whether a string contains the text.
    #[inline]
    pub fn is_in_text(&self, text: &str) -> bool {
        self.finder.find(text.as_bytes()).is_some()
    }

    /// Whether a value contains the text.
    pub fn is_in(&self, value: Property<'_>) -> bool {
        if let Property::String(text) = value {
            return self.is_in_text(text);
        }
        if !self.may_be_in(value.kind()) {
            return false;
        }
        if let Property::Binary(bytes) = value {
            return self.is_in_text(&to_hex(bytes));
        }
        let mut printed = Printed::default();
        // The buffer holds every value of a fixed size.
        let _ = printed.print(value);
        self.finder.find(printed.text()).is_some()
    }

    /// Whether any value of this kind can contain the text.
    #[inline]
    pub fn may_be_in(&self, kind: PropertyKind) -> bool {
        self.kinds[kind as usize]
    }

    /// Whether any value other than a string can contain the text.
    pub fn may_be_beside_strings(&self) -> bool {
        PropertyKind::ALL.into_iter().any(|kind| kind != PropertyKind::String && self.may_be_in(kind))
    }

    /// Whether a whole number from `least` to `most` can contain the text. False only if none does.
    pub fn may_be_between(&self, least: i64, most: i64) -> bool {
        let needle = self.finder.needle();
        if !self.may_be_in(PropertyKind::Int64) || least > most {
            return false;
        }
        if least == most {
            return self.is_in(Property::Int64(least));
        }
        // Among numbers of one sign, a number further from 0 is never shorter.
        let length = |n: i64| n.unsigned_abs().checked_ilog10().unwrap_or(0) as usize + 1 + usize::from(n < 0);
        let is_longer = needle.len() > length(least).max(length(most));
        !is_longer && (least < 0 || needle.first() != Some(&b'-'))
    }
}

/// Whether `text` can occur in a printed value of a kind. False only if it never does.
fn fits(text: &str, kind: PropertyKind) -> bool {
    let (bytes, is_in) = (text.as_bytes(), |word: &str| word.contains(text));
    if bytes.is_empty() {
        return true;
    }
    let is_hex = |byte: &u8| matches!(byte, b'0'..=b'9' | b'a'..=b'f');
    match kind {
        PropertyKind::String => true,
        PropertyKind::Boolean => is_in("true") || is_in("false"),
        PropertyKind::Int32 | PropertyKind::Int64 => {
            bytes.strip_prefix(b"-").unwrap_or(bytes).iter().all(u8::is_ascii_digit)
        }
        PropertyKind::Double => is_in("NaN") || is_in("-Infinity") || fits_decimal(bytes),
        PropertyKind::DateTime => fits_form(bytes.strip_suffix(b"Z").unwrap_or(bytes), TIME_FORM, u8::is_ascii_digit),
        PropertyKind::Binary => bytes.iter().all(is_hex),
        PropertyKind::Guid => fits_form(bytes, GUID_FORM, is_hex),
    }
}

/// Whether the bytes match some part of `form`.
fn fits_form(bytes: &[u8], form: &[u8], is_digit: impl Fn(&u8) -> bool) -> bool {
    let is_like = |(byte, of): (&u8, &u8)| if *of == b'0' { is_digit(byte) } else { byte == of };
    bytes.is_empty() || form.windows(bytes.len()).any(|part| bytes.iter().zip(part).all(is_like))
}

/// Whether the bytes can be part of a decimal number: digits, a point, and `e`, a sign and digits. A sign is at the
/// front or after the `e`. A text that begins with a sign may be the part after an `e`.
fn fits_decimal(bytes: &[u8]) -> bool {
    let (mut has_point, mut has_exponent, mut last) = (false, false, None);
    bytes.iter().all(|byte| {
        let fits = match byte {
            b'0'..=b'9' => true,
            b'-' | b'+' => matches!(last, None | Some(b'e')),
            b'.' => !has_point && !has_exponent,
            b'e' => !has_exponent,
            _ => false,
        };
        has_point |= *byte == b'.';
        has_exponent |= *byte == b'e';
        last = Some(*byte);
        fits
    })
}

/// The longest printed value of a fixed size is a UUID. A time has at most 28 bytes, a double 24.
const PRINTED_BYTES: usize = 40;

/// A printed value, without an allocation.
struct Printed {
    bytes: [u8; PRINTED_BYTES],
    length: usize,
}

impl Default for Printed {
    fn default() -> Printed {
        Printed { bytes: [0; PRINTED_BYTES], length: 0 }
    }
}

impl Printed {
    fn text(&self) -> &[u8] {
        &self.bytes[..self.length]
    }

    /// Prints a value of a fixed size.
    fn print(&mut self, value: Property<'_>) -> std::io::Result<()> {
        match value {
            Property::Int64(n) => self.print_whole(n),
            Property::Int32(n) => self.print_whole(n.into()),
            Property::Boolean(is_true) => self.write_all(if is_true { b"true" } else { b"false" })?,
            Property::Double(n) if n.is_nan() => self.write_all(b"NaN")?,
            Property::Double(n) if n.is_infinite() => {
                self.write_all(if n > 0.0 { b"Infinity" } else { b"-Infinity" })?
            }
            // JSON's form: Rust's own form has neither an exponent nor `.0`.
            Property::Double(n) => serde_json::to_writer(self, &n)?,
            Property::DateTime(time) => write!(self, "{time}")?,
            Property::Guid(guid) => {
                let digits = to_hex(&guid);
                let [a, b, c, d, e] = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
                write!(self, "{a}-{b}-{c}-{d}-{e}")?;
            }
            Property::String(_) | Property::Binary(_) => {}
        }
        Ok(())
    }

    fn print_whole(&mut self, n: i64) {
        let mut buffer = [0; DIGITS_MAX];
        let digits = digits(n.unsigned_abs(), &mut buffer);
        let sign = usize::from(n < 0);
        self.length = sign + digits.len();
        self.bytes[0] = b'-';
        self.bytes[sign..self.length].copy_from_slice(digits);
    }
}

impl std::io::Write for Printed {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let mut room = &mut self.bytes[self.length..];
        let written = room.write(bytes)?;
        self.length += written;
        Ok(written)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::property::OwnedValue;
    use crate::time::Ticks;
    use proptest::prelude::*;

    /// A value as `query --json` prints it, without the quotes and escapes of a string.
    fn as_json(value: &OwnedValue) -> String {
        match serde_json::to_value(value).expect("plain data") {
            serde_json::Value::String(text) => text,
            other => other.to_string(),
        }
    }

    fn value() -> impl Strategy<Value = OwnedValue> {
        let double = prop_oneof![
            any::<f64>(),
            any::<u64>().prop_map(f64::from_bits),
            (-1000i32..1000).prop_map(|n| f64::from(n) / 8.0),
            prop::sample::select(&[f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 0.0, -0.0, 1e16, 1e-7, f64::MIN][..]),
        ];
        prop_oneof![
            prop_oneof![any::<i64>(), -1000i64..1000].prop_map(OwnedValue::Int64),
            any::<i32>().prop_map(OwnedValue::Int32),
            double.prop_map(OwnedValue::Double),
            any::<bool>().prop_map(OwnedValue::Boolean),
            (0..=crate::time::MAX_TICKS).prop_map(|n| OwnedValue::DateTime(Ticks::new(n).expect("in range"))),
            any::<[u8; 16]>().prop_map(OwnedValue::Guid),
            prop::collection::vec(any::<u8>(), 0..30).prop_map(OwnedValue::Binary),
            ".{0,20}".prop_map(OwnedValue::String),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        /// Every part of a printed value is found in it, and the kind permits it. Any other text is found exactly if
        /// the printed value contains it.
        #[test]
        fn a_value_contains_the_texts_of_its_printed_form(
            value in value(), ends in any::<(prop::sample::Index, prop::sample::Index)>(), other in "[0-9a-f.eTN-]{1,3}|[a-z]{1,4}",
        ) {
            let printed = as_json(&value);
            let chars: Vec<char> = printed.chars().collect();
            let (a, b) = (ends.0.index(chars.len() + 1), ends.1.index(chars.len() + 1));
            let part: String = chars[a.min(b)..a.max(b)].iter().collect();
            for text in [part, other, printed.clone(), format!("{printed}0")] {
                let needle = Needle::new(&text);
                prop_assert_eq!(needle.is_in(value.as_property()), printed.contains(&text), "{:?} in {:?}", text, printed);
                prop_assert!(!printed.contains(&text) || needle.may_be_in(value.as_property().kind()), "{:?}", text);
            }
        }

        /// A range of numbers is skipped only if none of its numbers contains the text.
        #[test]
        fn a_range_of_numbers_contains_the_texts_of_its_numbers(
            mut ends in prop_oneof![any::<[i64; 2]>(), [-300i64..300, -300i64..300]], within in any::<u64>(), text in "-?[0-9]{0,3}",
        ) {
            ends.sort();
            let [least, most] = ends;
            let span = most.wrapping_sub(least).cast_unsigned();
            let n = least.wrapping_add(within.checked_rem(span.wrapping_add(1)).unwrap_or(within).cast_signed());
            let needle = Needle::new(&text);
            for n in [least, n, most] {
                prop_assert!((least..=most).contains(&n));
                prop_assert!(needle.may_be_between(least, most) || !n.to_string().contains(&text), "{:?} in {}", text, n);
            }
        }
    }

    /// Common search texts exclude columns of numbers.
    #[test]
    fn few_texts_can_be_in_a_number() {
        let kinds = |text: &str| {
            let needle = Needle::new(text);
            PropertyKind::ALL
                .into_iter()
                .filter(|kind| *kind != PropertyKind::String && needle.may_be_in(*kind))
                .collect::<Vec<_>>()
        };
        for text in ["timeout", "took 7 ms", "10.0.0.1", "GET /", "e1e1e1.", "web-17", "--", "1-2-3x"] {
            assert_eq!(kinds(text), [], "{text}");
        }
        assert_eq!(kinds("1.5"), [PropertyKind::Double, PropertyKind::DateTime]);
        assert_eq!(
            kinds("-7"),
            [
                PropertyKind::Int64,
                PropertyKind::Double,
                PropertyKind::Int32,
                PropertyKind::DateTime,
                PropertyKind::Guid
            ]
        );
        assert_eq!(kinds("-700"), [PropertyKind::Int64, PropertyKind::Double, PropertyKind::Int32, PropertyKind::Guid]);
        assert_eq!(kinds("true"), [PropertyKind::Boolean]);
        assert_eq!(kinds("9abc-def0"), [PropertyKind::Guid]);
        assert_eq!(kinds("12:30"), [PropertyKind::DateTime]);
        assert!(!Needle::new("502").may_be_between(-9, 99) && Needle::new("502").may_be_between(0, 502));
        assert!(!Needle::new("502").may_be_between(500, 500));
    }
}
