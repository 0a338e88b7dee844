//! The properties of a row: their types, values and names, all as Azure Table defines them.

use crate::time::Ticks;
use serde::{Serialize, Serializer};
use std::borrow::Cow;
use std::fmt;

/// Maximum length of a property name in UTF-16 units.
pub const PROPERTY_NAME_UNITS_MAX: usize = 255;

/// Maximum bytes of a binary property.
pub const BINARY_BYTES_MAX: usize = 64 << 10;

/// Names that fields must not use, because the store or the service uses them.
const RESERVED: [&str; 16] = [
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
    "Stream",
    "Nanos",
    "Layout",
    "Verbatim",
    "Arrived",
];

/// Whether the store or the service uses a name.
pub(crate) fn is_reserved(name: &str) -> bool {
    RESERVED.contains(&name)
}

/// Derives a property name from a field's name: a C# identifier of at most 255 units that is not reserved.
///
/// A character that an identifier cannot have becomes `_`, and a reserved name gets a trailing `_`. [`crate::field_properties`]
/// distinguishes fields whose names become equal.
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
        // The first character already became `_`.
        name.remove(0);
    }
    // A text has at least as many bytes as UTF-16 units.
    name.truncate(name.floor_char_boundary(PROPERTY_NAME_UNITS_MAX - 1));
    if is_reserved(&name) {
        name.push('_');
    }
    name
}

/// The value of a property, of one of Azure Table's types; `T` holds text and `B` holds bytes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum TypedValue<T, B> {
    /// UTF-8 text.
    String(T),
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
    Binary(B),
}

/// A value that borrows its text and bytes.
pub type Property<'a> = TypedValue<&'a str, &'a [u8]>;

/// A value that owns its text and bytes, so that it outlives its page.
pub type OwnedValue = TypedValue<String, Vec<u8>>;

/// The type of a property. Pages store the numbers: never change one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum PropertyKind {
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

impl PropertyKind {
    /// The name of the type, as in Azure Table.
    pub fn name(self) -> &'static str {
        match self {
            PropertyKind::String => "String",
            PropertyKind::Int64 => "Int64",
            PropertyKind::Double => "Double",
            PropertyKind::Boolean => "Boolean",
            PropertyKind::Int32 => "Int32",
            PropertyKind::DateTime => "DateTime",
            PropertyKind::Guid => "Guid",
            PropertyKind::Binary => "Binary",
        }
    }

    /// The type with a name.
    pub fn named(name: &str) -> Option<PropertyKind> {
        PropertyKind::ALL.into_iter().find(|kind| kind.name() == name)
    }

    /// Every kind, in the order of the codes.
    pub const ALL: [PropertyKind; PropertyKind::COUNT] = [
        PropertyKind::String,
        PropertyKind::Int64,
        PropertyKind::Double,
        PropertyKind::Boolean,
        PropertyKind::Int32,
        PropertyKind::DateTime,
        PropertyKind::Guid,
        PropertyKind::Binary,
    ];

    /// Number of kinds; the codes are 0 to `COUNT - 1`.
    pub const COUNT: usize = 8;

    /// The inverse of `as u8`.
    #[inline]
    pub const fn from_code(code: u8) -> Option<PropertyKind> {
        if (code as usize) < PropertyKind::COUNT { Some(PropertyKind::ALL[code as usize]) } else { None }
    }
}

impl<T, B> TypedValue<T, B> {
    /// The type of the value.
    #[inline]
    pub const fn kind(&self) -> PropertyKind {
        match self {
            TypedValue::String(_) => PropertyKind::String,
            TypedValue::Int64(_) => PropertyKind::Int64,
            TypedValue::Double(_) => PropertyKind::Double,
            TypedValue::Boolean(_) => PropertyKind::Boolean,
            TypedValue::Int32(_) => PropertyKind::Int32,
            TypedValue::DateTime(_) => PropertyKind::DateTime,
            TypedValue::Guid(_) => PropertyKind::Guid,
            TypedValue::Binary(_) => PropertyKind::Binary,
        }
    }

    /// The same value with its text and bytes converted.
    #[inline]
    fn convert<'v, U, C>(&'v self, text: impl FnOnce(&'v T) -> U, bytes: impl FnOnce(&'v B) -> C) -> TypedValue<U, C> {
        match self {
            TypedValue::String(value) => TypedValue::String(text(value)),
            TypedValue::Int64(n) => TypedValue::Int64(*n),
            TypedValue::Double(n) => TypedValue::Double(*n),
            TypedValue::Boolean(b) => TypedValue::Boolean(*b),
            TypedValue::Int32(n) => TypedValue::Int32(*n),
            TypedValue::DateTime(time) => TypedValue::DateTime(*time),
            TypedValue::Guid(guid) => TypedValue::Guid(*guid),
            TypedValue::Binary(value) => TypedValue::Binary(bytes(value)),
        }
    }
}

impl<'a> Property<'a> {
    /// The value as text, as JSON shows it without quotes.
    pub fn text(self) -> Cow<'a, str> {
        match self {
            TypedValue::String(text) => Cow::Borrowed(text),
            TypedValue::Boolean(is_true) => Cow::Borrowed(if is_true { "true" } else { "false" }),
            // JSON's form has an exponent or a fraction; Rust's own form has neither.
            TypedValue::Double(n) if n.is_finite() => {
                serde_json::to_string(&n).map_or_else(|_| n.to_string().into(), Cow::Owned)
            }
            other => Cow::Owned(OwnedValue::from(other).to_string()),
        }
    }
}

impl From<Property<'_>> for OwnedValue {
    fn from(property: Property<'_>) -> OwnedValue {
        property.convert(|text| (*text).to_owned(), |bytes| bytes.to_vec())
    }
}

impl OwnedValue {
    /// Borrows the value.
    #[inline]
    pub fn as_property(&self) -> Property<'_> {
        self.convert(String::as_str, Vec::as_slice)
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

/// Lower-case hexadecimal, two digits a byte.
pub fn to_hex(bytes: &[u8]) -> String {
    let digit = |nibble: u8| char::from(b"0123456789abcdef"[usize::from(nibble)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 0xf)]).collect()
}

/// The value as text: a time in RFC 3339, a UUID with its dashes, bytes in hexadecimal.
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
                let digits = to_hex(guid);
                let [a, b, c, d, e] = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| &digits[part]);
                write!(f, "{a}-{b}-{c}-{d}-{e}")
            }
            OwnedValue::Binary(bytes) => f.write_str(&to_hex(bytes)),
        }
    }
}

/// Compares two texts. It runs for each name of each record, so short texts are compared without a call.
#[inline]
pub fn is_same_text(a: &[u8], b: &[u8]) -> bool {
    fn ends<const N: usize>(bytes: &[u8]) -> Option<(&[u8; N], &[u8; N])> {
        bytes.first_chunk().zip(bytes.last_chunk())
    }
    match a.len() {
        length if length != b.len() => false,
        // The first and the last bytes overlap and cover the whole text.
        8..=16 => ends::<8>(a) == ends::<8>(b),
        4..=7 => ends::<4>(a) == ends::<4>(b),
        1 => a[0] == b[0],
        2 | 3 => ends::<2>(a) == ends::<2>(b),
        17..=32 => ends::<16>(a) == ends::<16>(b),
        _ => a == b,
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
        /// Every text becomes a name that the service accepts.
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
