//! Values as text, for the map of properties without a column. Each text parses back to exactly the same value.
//!
//! ```text
//! key   := property `:` type               status:Int64
//! value := String       itself
//!          Int64 Int32  decimal
//!          DateTime     decimal: ticks of 100 ns since 0001-01-01
//!          Double       the shortest decimal that reads back; NaN as `NaN:` and its 16 hex digits
//!          Boolean      true, false
//!          Guid Binary  lower-case hexadecimal
//! ```

use daytable_model::property::{Property, PropertyKind};
use daytable_model::time::Ticks;
use std::fmt::Write;

/// The key of a property in the map.
pub(super) fn key(name: &str, kind: PropertyKind) -> String {
    format!("{name}:{}", kind.name())
}

/// The inverse of [`key`].
pub(super) fn split_key(key: &str) -> Option<(&str, PropertyKind)> {
    let (name, kind) = key.rsplit_once(':')?;
    Some((name, PropertyKind::named(kind)?))
}

/// Appends a value as text.
pub(super) fn write(value: Property<'_>, out: &mut String) {
    // Writing to a string does not fail.
    let _ = match value {
        Property::String(text) => out.write_str(text),
        Property::Int64(n) => write!(out, "{n}"),
        Property::Int32(n) => write!(out, "{n}"),
        Property::DateTime(time) => write!(out, "{}", time.get()),
        Property::Double(n) if n.is_nan() => write!(out, "NaN:{:016x}", n.to_bits()),
        Property::Double(n) => write!(out, "{n:?}"),
        Property::Boolean(b) => write!(out, "{b}"),
        Property::Guid(guid) => write_hex(&guid, out),
        Property::Binary(bytes) => write_hex(bytes, out),
    };
}

/// A value as text.
#[cfg(test)]
pub(super) fn of(value: Property<'_>) -> String {
    let mut text = String::new();
    write(value, &mut text);
    text
}

/// Parses `text` as a value of type `kind` and passes it to `take`; false if it is invalid.
pub(super) fn read(kind: PropertyKind, text: &str, take: impl FnOnce(Property<'_>)) -> bool {
    let value = match kind {
        PropertyKind::String => Some(Property::String(text)),
        PropertyKind::Int64 => text.parse().ok().map(Property::Int64),
        PropertyKind::Int32 => text.parse().ok().map(Property::Int32),
        PropertyKind::DateTime => text.parse().ok().and_then(Ticks::new).map(Property::DateTime),
        PropertyKind::Boolean => text.parse().ok().map(Property::Boolean),
        PropertyKind::Double => match text.strip_prefix("NaN:") {
            Some(bits) => u64::from_str_radix(bits, 16).ok().map(f64::from_bits).map(Property::Double),
            None => text.parse().ok().map(Property::Double),
        },
        PropertyKind::Guid => unhex(text).and_then(|bytes| bytes.try_into().ok()).map(Property::Guid),
        PropertyKind::Binary => {
            let Some(bytes) = unhex(text) else { return false };
            take(Property::Binary(&bytes));
            return true;
        }
    };
    value.map(take).is_some()
}

fn write_hex(bytes: &[u8], out: &mut String) -> std::fmt::Result {
    bytes.iter().try_for_each(|byte| write!(out, "{byte:02x}"))
}

fn unhex(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    if text.len().is_multiple_of(2) { digits.map(byte).collect() } else { None }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_model::property::OwnedValue;

    #[test]
    fn every_type_is_read_back_unchanged() {
        let ticks = Ticks::new(1_234_567).expect("in range");
        for value in [
            Property::String(""),
            Property::String("a:b\u{0}ü"),
            Property::Int64(i64::MIN),
            Property::Int32(-7),
            Property::DateTime(ticks),
            Property::Double(0.1),
            Property::Double(-0.0),
            Property::Double(f64::MAX),
            Property::Double(f64::NEG_INFINITY),
            Property::Boolean(false),
            Property::Guid([0xfe; 16]),
            Property::Binary(&[]),
            Property::Binary(&[0, 255, 16]),
        ] {
            let mut back = None;
            assert!(read(value.kind(), &of(value), |value| back = Some(OwnedValue::from(value))));
            assert_eq!(back, Some(OwnedValue::from(value)));
        }
        let odd = f64::from_bits(0x7ff8_0000_dead_beef);
        let mut bits = 0;
        read(PropertyKind::Double, &of(Property::Double(odd)), |value| {
            if let Property::Double(n) = value {
                bits = n.to_bits();
            }
        });
        assert_eq!(bits, odd.to_bits());
    }

    #[test]
    fn a_key_is_split_at_its_last_colon() {
        assert_eq!(split_key(&key("status", PropertyKind::Int64)), Some(("status", PropertyKind::Int64)));
        assert_eq!(split_key("status"), None);
        assert_eq!(split_key("status:Text"), None);
        assert!(!read(PropertyKind::Guid, "ff", |_| panic!("no guid")));
        assert!(!read(PropertyKind::Binary, "é0", |_| panic!("no bytes")));
    }
}
