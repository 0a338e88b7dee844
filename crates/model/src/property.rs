//! A property: its type, its value, and the name it may have. All three are Azure Table's.

use crate::time::Ticks;
use serde::{Serialize, Serializer};
use std::fmt;

/// UTF-16 units of a property name at most.
pub const PROPERTY_NAME_UNITS_MAX: usize = 255;

/// Bytes of a binary property at most.
pub const BINARY_BYTES_MAX: usize = 64 << 10;

/// Names that are not a field's: what the store or the service itself puts there.
const RESERVED: [&str; 11] = [
    "PartitionKey",
    "RowKey",
    "Timestamp",
    "Time",
    "Level",
    "Severity",
    "Message",
    "Source",
    "Items",
    "Fields",
    "Table",
];

/// A property name for a field's name: a C# identifier of at most 255 units, none of the names that are reserved.
///
/// What an identifier cannot have becomes `_`; a reserved name gets `_` behind it. Two names that come to the same are
/// told apart by [`crate::batch`].
pub fn property_name(field: &str) -> String {
    let starts_well = |c: char| c == '_' || c.is_alphabetic();
    let mut name = String::with_capacity(field.len() + 1);
    if !field.starts_with(starts_well) {
        name.push('_');
    }
    for c in field.chars() {
        let fits = c == '_' || c.is_alphanumeric() && (c.is_alphabetic() || c.is_ascii_digit());
        name.push(if fits { c } else { '_' });
    }
    if field.starts_with(|c: char| !starts_well(c) && !c.is_ascii_digit()) {
        // The first character was replaced by `_`; one is enough.
        name.remove(0);
    }
    // Bytes are at least as many as UTF-16 units.
    name.truncate(name.floor_char_boundary(PROPERTY_NAME_UNITS_MAX - 1));
    if RESERVED.contains(&name.as_str()) {
        name.push('_');
    }
    name
}

/// A property's value, of one of Azure Table's types.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Property<'a> {
    /// UTF-8 text.
    String(&'a str),
    /// A 64-bit whole number.
    Int64(i64),
    /// A 64-bit float.
    Double(f64),
    /// True or false.
    Boolean(bool),
    /// A 32-bit whole number.
    Int32(i32),
    /// A point in time.
    DateTime(Ticks),
    /// A UUID, its bytes in the order of its text.
    Guid([u8; 16]),
    /// Bytes.
    Binary(&'a [u8]),
}

/// The type of a property. The numbers are stored in pages: never change one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum Kind {
    /// `Edm.String`.
    String = 0,
    /// `Edm.Int64`.
    Int64 = 1,
    /// `Edm.Double`.
    Double = 2,
    /// `Edm.Boolean`.
    Boolean = 3,
    /// `Edm.Int32`.
    Int32 = 4,
    /// `Edm.DateTime`.
    DateTime = 5,
    /// `Edm.Guid`.
    Guid = 6,
    /// `Edm.Binary`.
    Binary = 7,
}

impl Kind {
    /// How many there are; their numbers are 0 to this, exclusive.
    pub const COUNT: usize = 8;

    /// The inverse of `as u8`.
    pub const fn from_code(code: u8) -> Option<Kind> {
        Some(match code {
            0 => Kind::String,
            1 => Kind::Int64,
            2 => Kind::Double,
            3 => Kind::Boolean,
            4 => Kind::Int32,
            5 => Kind::DateTime,
            6 => Kind::Guid,
            7 => Kind::Binary,
            _ => return None,
        })
    }
}

impl Property<'_> {
    /// Its type.
    pub const fn kind(&self) -> Kind {
        match self {
            Property::String(_) => Kind::String,
            Property::Int64(_) => Kind::Int64,
            Property::Double(_) => Kind::Double,
            Property::Boolean(_) => Kind::Boolean,
            Property::Int32(_) => Kind::Int32,
            Property::DateTime(_) => Kind::DateTime,
            Property::Guid(_) => Kind::Guid,
            Property::Binary(_) => Kind::Binary,
        }
    }
}

/// A [`Property`] that outlives its page.
#[derive(Clone, Debug, PartialEq)]
pub enum OwnedValue {
    /// UTF-8 text.
    String(String),
    /// A 64-bit whole number.
    Int64(i64),
    /// A 64-bit float.
    Double(f64),
    /// True or false.
    Boolean(bool),
    /// A 32-bit whole number.
    Int32(i32),
    /// A point in time.
    DateTime(Ticks),
    /// A UUID, its bytes in the order of its text.
    Guid([u8; 16]),
    /// Bytes.
    Binary(Vec<u8>),
}

impl From<Property<'_>> for OwnedValue {
    fn from(property: Property<'_>) -> OwnedValue {
        match property {
            Property::String(text) => OwnedValue::String(text.into()),
            Property::Int64(n) => OwnedValue::Int64(n),
            Property::Double(n) => OwnedValue::Double(n),
            Property::Boolean(b) => OwnedValue::Boolean(b),
            Property::Int32(n) => OwnedValue::Int32(n),
            Property::DateTime(time) => OwnedValue::DateTime(time),
            Property::Guid(guid) => OwnedValue::Guid(guid),
            Property::Binary(bytes) => OwnedValue::Binary(bytes.into()),
        }
    }
}

impl OwnedValue {
    /// The value as it is written.
    pub fn as_property(&self) -> Property<'_> {
        match self {
            OwnedValue::String(text) => Property::String(text),
            OwnedValue::Int64(n) => Property::Int64(*n),
            OwnedValue::Double(n) => Property::Double(*n),
            OwnedValue::Boolean(b) => Property::Boolean(*b),
            OwnedValue::Int32(n) => Property::Int32(*n),
            OwnedValue::DateTime(time) => Property::DateTime(*time),
            OwnedValue::Guid(guid) => Property::Guid(*guid),
            OwnedValue::Binary(bytes) => Property::Binary(bytes),
        }
    }
}

impl Serialize for OwnedValue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            OwnedValue::String(text) => serializer.serialize_str(text),
            OwnedValue::Int64(n) => serializer.serialize_i64(*n),
            OwnedValue::Int32(n) => serializer.serialize_i32(*n),
            OwnedValue::Double(n) if n.is_finite() => serializer.serialize_f64(*n),
            OwnedValue::Boolean(b) => serializer.serialize_bool(*b),
            other => serializer.collect_str(other),
        }
    }
}

/// The text of a value: a time in RFC 3339, a UUID with its dashes, bytes as hex.
impl fmt::Display for OwnedValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OwnedValue::String(text) => f.write_str(text),
            OwnedValue::Int64(n) => n.fmt(f),
            OwnedValue::Int32(n) => n.fmt(f),
            OwnedValue::Double(n) if n.is_nan() => f.write_str("NaN"),
            OwnedValue::Double(n) if n.is_infinite() => f.write_str(if *n > 0.0 { "Infinity" } else { "-Infinity" }),
            OwnedValue::Double(n) => n.fmt(f),
            OwnedValue::Boolean(b) => b.fmt(f),
            OwnedValue::DateTime(time) => time.fmt(f),
            OwnedValue::Guid(guid) => {
                for (at, byte) in guid.iter().enumerate() {
                    let dash = if matches!(at, 4 | 6 | 8 | 10) { "-" } else { "" };
                    write!(f, "{dash}{byte:02x}")?;
                }
                Ok(())
            }
            OwnedValue::Binary(bytes) => bytes.iter().try_for_each(|byte| write!(f, "{byte:02x}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn names_that_are_no_identifiers() {
        for (field, name) in [
            ("http.status", "http_status"),
            ("status", "status"),
            ("2xx", "_2xx"),
            ("@version", "_version"),
            ("", "_"),
            ("-", "_"),
            ("größe", "größe"),
            ("a b", "a_b"),
            ("Time", "Time_"),
            ("PartitionKey", "PartitionKey_"),
            ("a\u{0}b", "a_b"),
        ] {
            assert_eq!(property_name(field), name, "{field:?}");
        }
    }

    proptest! {
        /// Any text at all becomes a name that the service takes.
        #[test]
        fn any_name_becomes_one_that_is_valid(field in ".{0,300}") {
            let name = property_name(&field);
            prop_assert!(name.starts_with(|c: char| c == '_' || c.is_alphabetic()));
            prop_assert!(name.chars().all(|c| c == '_' || c.is_alphanumeric()));
            prop_assert!(name.encode_utf16().count() <= PROPERTY_NAME_UNITS_MAX);
            prop_assert!(!RESERVED.contains(&name.as_str()));
        }
    }
}
