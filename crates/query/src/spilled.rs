//! The form in which values leave memory for a temporary file and come back. It lives as long as a question.
//!
//! ```text
//! number   7 bits a byte, the last one below 128          text, bytes   length, then the bytes
//! option   0, or 1 and the value                          list          number of values, then the values
//! value    its type, then 8 bytes, 1 byte, or bytes       pair          one after the other
//! ```

use crate::entity::OwnedValue;
use daytable_model::key::RowKey;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::record::Level;
use daytable_model::time::Ticks;
use std::sync::Arc;

/// A value that can be written to a temporary file.
pub(crate) trait Spilled: Sized {
    /// Appends the value.
    fn write(&self, to: &mut Vec<u8>);

    /// Reads what was written; `None` of other bytes.
    fn read(from: &mut SpilledBytes<'_>) -> Option<Self>;
}

/// Bytes that are read from the front.
pub(crate) struct SpilledBytes<'b>(&'b [u8]);

impl<'b> SpilledBytes<'b> {
    pub(crate) fn new(bytes: &'b [u8]) -> SpilledBytes<'b> {
        SpilledBytes(bytes)
    }

    /// Whether all bytes were read.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The bytes that were not read yet.
    pub(crate) fn rest(&self) -> &'b [u8] {
        self.0
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (bytes, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*bytes)
    }

    /// Bytes with their length in front.
    pub(crate) fn bytes(&mut self) -> Option<&'b [u8]> {
        let length = usize::try_from(u64::read(self)?).ok()?;
        let (bytes, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(bytes)
    }

    fn text(&mut self) -> Option<&'b str> {
        std::str::from_utf8(self.bytes()?).ok()
    }
}

/// Writes bytes with their length in front.
pub(crate) fn write_bytes(bytes: &[u8], to: &mut Vec<u8>) {
    (bytes.len() as u64).write(to);
    to.extend_from_slice(bytes);
}

impl Spilled for u64 {
    fn write(&self, to: &mut Vec<u8>) {
        let mut left = *self;
        while left >= 128 {
            to.push(left as u8 | 128);
            left >>= 7;
        }
        to.push(left as u8);
    }

    fn read(from: &mut SpilledBytes<'_>) -> Option<u64> {
        let mut number = 0;
        for shift in (0..u64::BITS).step_by(7) {
            let [byte] = from.array()?;
            number |= u64::from(byte & 127) << shift;
            if byte < 128 {
                return Some(number);
            }
        }
        None
    }
}

impl Spilled for bool {
    fn write(&self, to: &mut Vec<u8>) {
        to.push(u8::from(*self));
    }

    fn read(from: &mut SpilledBytes<'_>) -> Option<bool> {
        from.array().map(|[byte]| byte != 0)
    }
}

impl Spilled for u8 {
    fn write(&self, to: &mut Vec<u8>) {
        to.push(*self);
    }

    fn read(from: &mut SpilledBytes<'_>) -> Option<u8> {
        from.array().map(|[byte]| byte)
    }
}

impl Spilled for i32 {
    fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.to_le_bytes());
    }

    fn read(from: &mut SpilledBytes<'_>) -> Option<i32> {
        from.array().map(i32::from_le_bytes)
    }
}

impl Spilled for i128 {
    fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.to_le_bytes());
    }

    fn read(from: &mut SpilledBytes<'_>) -> Option<i128> {
        from.array().map(i128::from_le_bytes)
    }
}

impl Spilled for f64 {
    fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.to_bits().to_le_bytes());
    }

    fn read(from: &mut SpilledBytes<'_>) -> Option<f64> {
        from.array().map(|bytes| f64::from_bits(u64::from_le_bytes(bytes)))
    }
}

impl Spilled for String {
    fn write(&self, to: &mut Vec<u8>) {
        write_bytes(self.as_bytes(), to);
    }

    fn read(from: &mut SpilledBytes<'_>) -> Option<String> {
        from.text().map(str::to_owned)
    }
}

impl Spilled for Arc<str> {
    fn write(&self, to: &mut Vec<u8>) {
        write_bytes(self.as_bytes(), to);
    }

    fn read(from: &mut SpilledBytes<'_>) -> Option<Arc<str>> {
        from.text().map(Arc::from)
    }
}

impl Spilled for Ticks {
    fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.get().to_le_bytes());
    }

    fn read(from: &mut SpilledBytes<'_>) -> Option<Ticks> {
        Ticks::new(i64::from_le_bytes(from.array()?))
    }
}

impl Spilled for RowKey {
    fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.to_bytes());
    }

    fn read(from: &mut SpilledBytes<'_>) -> Option<RowKey> {
        RowKey::from_bytes(&from.array::<{ RowKey::BYTES }>()?)
    }
}

impl Spilled for Level {
    fn write(&self, to: &mut Vec<u8>) {
        to.push(self.code());
    }

    fn read(from: &mut SpilledBytes<'_>) -> Option<Level> {
        Level::from_code(u8::read(from)?)
    }
}

impl Spilled for OwnedValue {
    fn write(&self, to: &mut Vec<u8>) {
        write_property(self.as_property(), to);
    }

    fn read(from: &mut SpilledBytes<'_>) -> Option<OwnedValue> {
        read_property(from).map(OwnedValue::from)
    }
}

/// Appends a value.
pub(crate) fn write_property(value: Property<'_>, to: &mut Vec<u8>) {
    to.push(value.kind() as u8);
    match value {
        Property::String(text) => write_bytes(text.as_bytes(), to),
        Property::Int64(n) => to.extend_from_slice(&n.to_le_bytes()),
        Property::Int32(n) => n.write(to),
        Property::Double(n) => n.write(to),
        Property::Boolean(is_true) => is_true.write(to),
        Property::DateTime(time) => time.write(to),
        Property::Guid(bytes) => to.extend_from_slice(&bytes),
        Property::Binary(bytes) => write_bytes(bytes, to),
    }
}

/// Reads a value that stays where it is; `None` of other bytes.
pub(crate) fn read_property<'b>(from: &mut SpilledBytes<'b>) -> Option<Property<'b>> {
    Some(match PropertyKind::from_code(u8::read(from)?)? {
        PropertyKind::String => Property::String(from.text()?),
        PropertyKind::Int64 => Property::Int64(i64::from_le_bytes(from.array()?)),
        PropertyKind::Int32 => Property::Int32(i32::read(from)?),
        PropertyKind::Double => Property::Double(f64::read(from)?),
        PropertyKind::Boolean => Property::Boolean(bool::read(from)?),
        PropertyKind::DateTime => Property::DateTime(Ticks::read(from)?),
        PropertyKind::Guid => Property::Guid(from.array()?),
        PropertyKind::Binary => Property::Binary(from.bytes()?),
    })
}

impl<T: Spilled> Spilled for Option<T> {
    fn write(&self, to: &mut Vec<u8>) {
        self.is_some().write(to);
        self.iter().for_each(|value| value.write(to));
    }

    fn read(from: &mut SpilledBytes<'_>) -> Option<Option<T>> {
        Some(if bool::read(from)? { Some(T::read(from)?) } else { None })
    }
}

impl<T: Spilled> Spilled for Vec<T> {
    fn write(&self, to: &mut Vec<u8>) {
        (self.len() as u64).write(to);
        self.iter().for_each(|value| value.write(to));
    }

    fn read(from: &mut SpilledBytes<'_>) -> Option<Vec<T>> {
        let count = u64::read(from)?;
        (0..count).map(|_| T::read(from)).collect()
    }
}

impl<A: Spilled, B: Spilled> Spilled for (A, B) {
    fn write(&self, to: &mut Vec<u8>) {
        self.0.write(to);
        self.1.write(to);
    }

    fn read(from: &mut SpilledBytes<'_>) -> Option<(A, B)> {
        Some((A::read(from)?, B::read(from)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_come_back_as_they_were() {
        let values = vec![
            Some(OwnedValue::String("größe".into())),
            None,
            Some(OwnedValue::String(String::new())),
            Some(OwnedValue::Int64(i64::MIN)),
            Some(OwnedValue::Int32(-7)),
            Some(OwnedValue::Double(-0.0)),
            Some(OwnedValue::Boolean(true)),
            Some(OwnedValue::DateTime(Ticks::UNIX_EPOCH)),
            Some(OwnedValue::Guid([7; 16])),
            Some(OwnedValue::Binary(vec![0, 255])),
        ];
        let mut bytes = Vec::new();
        values.write(&mut bytes);
        (u64::MAX, (300u64, -5i128)).write(&mut bytes);
        let mut from = SpilledBytes::new(&bytes);
        assert_eq!(Vec::<Option<OwnedValue>>::read(&mut from), Some(values.clone()));
        assert_eq!(<(u64, (u64, i128))>::read(&mut from), Some((u64::MAX, (300, -5))));
        assert_eq!(u8::read(&mut from), None);
        // Of each part of the bytes nothing is read that was not written.
        for end in 0..bytes.len() - 30 {
            let read = Vec::<Option<OwnedValue>>::read(&mut SpilledBytes::new(&bytes[..end]));
            assert!(read.is_none_or(|read| read == values), "{end}");
        }
    }
}
