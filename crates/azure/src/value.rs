//! Property values and their JSON form.
//!
//! Types that JSON lacks are named beside the value (`Name@odata.type`). Doubles always have a type: the service would
//! read `1` as `Edm.Int32`, and `NaN` is a text.

use super::DateTime;
use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::io::Write;

/// The value of a property, in one of the service's types.
#[derive(Clone, Debug, PartialEq)]
pub enum EdmValue<'a> {
    /// `Edm.String`.
    String(Cow<'a, str>),
    /// `Edm.Boolean`.
    Boolean(bool),
    /// `Edm.Int32`.
    Int32(i32),
    /// `Edm.Int64`.
    Int64(i64),
    /// `Edm.Double`, including `NaN` and infinities.
    Double(f64),
    /// `Edm.DateTime`.
    DateTime(DateTime),
    /// `Edm.Guid`, its bytes in the order of its text.
    Guid([u8; 16]),
    /// `Edm.Binary`.
    Binary(Cow<'a, [u8]>),
}

impl<'a> From<&'a str> for EdmValue<'a> {
    fn from(text: &'a str) -> EdmValue<'a> {
        EdmValue::String(Cow::Borrowed(text))
    }
}

impl<'a> From<&'a [u8]> for EdmValue<'a> {
    fn from(bytes: &'a [u8]) -> EdmValue<'a> {
        EdmValue::Binary(Cow::Borrowed(bytes))
    }
}

impl EdmValue<'_> {
    /// The name of the type, if the JSON form needs one.
    fn edm(&self) -> Option<&'static str> {
        match self {
            EdmValue::String(_) | EdmValue::Boolean(_) | EdmValue::Int32(_) => None,
            EdmValue::Int64(_) => Some("Edm.Int64"),
            EdmValue::Double(_) => Some("Edm.Double"),
            EdmValue::DateTime(_) => Some("Edm.DateTime"),
            EdmValue::Guid(_) => Some("Edm.Guid"),
            EdmValue::Binary(_) => Some("Edm.Binary"),
        }
    }

    /// Writes `,"Name":value`, preceded by the type if the JSON form needs one.
    pub(super) fn write_property(&self, name: &str, to: &mut Vec<u8>) {
        if let Some(edm) = self.edm() {
            to.extend_from_slice(b",\"");
            write_escaped(name, to);
            to.extend_from_slice(b"@odata.type\":\"");
            to.extend_from_slice(edm.as_bytes());
            to.push(b'"');
        }
        to.extend_from_slice(b",\"");
        write_escaped(name, to);
        to.extend_from_slice(b"\":");
        self.write_json(to);
    }

    fn write_json(&self, to: &mut Vec<u8>) {
        const WRITTEN: &str = "a vector takes all that is written";
        match self {
            EdmValue::String(text) => {
                to.push(b'"');
                write_escaped(text, to);
                to.push(b'"');
            }
            EdmValue::Boolean(value) => to.extend_from_slice(if *value { b"true" } else { b"false" }),
            EdmValue::Int32(number) => write!(to, "{number}").expect(WRITTEN),
            EdmValue::Int64(number) => write!(to, "\"{number}\"").expect(WRITTEN),
            EdmValue::Double(number) if number.is_nan() => to.extend_from_slice(b"\"NaN\""),
            EdmValue::Double(number) if number.is_infinite() => {
                to.extend_from_slice(if *number > 0.0 { b"\"Infinity\"" } else { b"\"-Infinity\"" });
            }
            // The shortest text that parses to the same number, with a point or an exponent.
            EdmValue::Double(number) => write!(to, "{number:?}").expect(WRITTEN),
            EdmValue::DateTime(time) => {
                to.push(b'"');
                time.write(to);
                to.push(b'"');
            }
            EdmValue::Guid(bytes) => {
                to.push(b'"');
                write_guid(bytes, to);
                to.push(b'"');
            }
            EdmValue::Binary(bytes) => {
                to.push(b'"');
                let (from, length) = (to.len(), bytes.len().div_ceil(3) * 4);
                to.resize(from + length, 0);
                BASE64_STANDARD.encode_slice(bytes, &mut to[from..]).expect("four bytes for each three");
                to.push(b'"');
            }
        }
    }

    /// Reads the JSON value `json` of an answer, with the type beside the value. Null gives `None`. A value that does
    /// not match its type is returned as text.
    pub(super) fn read(json: &RawValue, edm: Option<&str>) -> Option<EdmValue<'static>> {
        let json = json.get();
        match json.as_bytes().first()? {
            b'"' => {
                let text: String = serde_json::from_str(json).ok()?;
                Some(typed(&text, edm).unwrap_or(EdmValue::String(Cow::Owned(text))))
            }
            b't' => Some(EdmValue::Boolean(true)),
            b'f' => Some(EdmValue::Boolean(false)),
            b'-' | b'0'..=b'9' => match edm {
                Some("Edm.Int64") => json.parse().ok().map(EdmValue::Int64),
                Some("Edm.Double") => json.parse().ok().map(EdmValue::Double),
                _ => json.parse().map(EdmValue::Int32).or_else(|_| json.parse().map(EdmValue::Double)).ok(),
            },
            // Null, and JSON types that no property has.
            _ => None,
        }
    }
}

fn typed(text: &str, edm: Option<&str>) -> Option<EdmValue<'static>> {
    match edm? {
        "Edm.Int64" => text.parse().ok().map(EdmValue::Int64),
        "Edm.Int32" => text.parse().ok().map(EdmValue::Int32),
        "Edm.Boolean" => text.parse().ok().map(EdmValue::Boolean),
        "Edm.Double" => match text {
            "Infinity" | "INF" => Some(EdmValue::Double(f64::INFINITY)),
            "-Infinity" | "-INF" => Some(EdmValue::Double(f64::NEG_INFINITY)),
            _ => text.parse().ok().map(EdmValue::Double),
        },
        "Edm.DateTime" => DateTime::parse(text).map(EdmValue::DateTime),
        "Edm.Guid" => read_guid(text).map(EdmValue::Guid),
        "Edm.Binary" => BASE64_STANDARD.decode(text).ok().map(|bytes| EdmValue::Binary(Cow::Owned(bytes))),
        _ => None,
    }
}

/// Classes of bytes in a text: copy, escape, or first byte of U+2028 or U+2029 (check the next two bytes).
const PLAIN: u8 = 0;
const ESCAPED: u8 = 1;
const SEPARATOR: u8 = 2;

const CLASSES: [u8; 256] = {
    let mut classes = [PLAIN; 256];
    let mut byte = 0;
    while byte < 0x20 {
        classes[byte] = ESCAPED;
        byte += 1;
    }
    classes[b'"' as usize] = ESCAPED;
    classes[b'\\' as usize] = ESCAPED;
    classes[0xe2] = SEPARATOR;
    classes
};

/// Writes the content of a JSON string. Line separators are escaped too, so no text can form a line of the surrounding
/// transaction. Azurite accepts U+2028 as the end of a line.
pub(super) fn write_escaped(text: &str, to: &mut Vec<u8>) {
    let bytes = text.as_bytes();
    let mut done = 0;
    for (at, byte) in bytes.iter().enumerate() {
        let class = CLASSES[usize::from(*byte)];
        if class == PLAIN {
            continue;
        }
        if class == SEPARATOR {
            let escape: &[u8] = match bytes.get(at..at + 3) {
                Some(b"\xe2\x80\xa8") => b"\\u2028",
                Some(b"\xe2\x80\xa9") => b"\\u2029",
                _ => continue,
            };
            to.extend_from_slice(&bytes[done..at]);
            to.extend_from_slice(escape);
            done = at + 3;
            continue;
        }
        to.extend_from_slice(&bytes[done..at]);
        match byte {
            b'"' => to.extend_from_slice(b"\\\""),
            b'\\' => to.extend_from_slice(b"\\\\"),
            b'\n' => to.extend_from_slice(b"\\n"),
            b'\r' => to.extend_from_slice(b"\\r"),
            b'\t' => to.extend_from_slice(b"\\t"),
            _ => to.extend_from_slice(&[
                b'\\',
                b'u',
                b'0',
                b'0',
                HEX[usize::from(byte >> 4)],
                HEX[usize::from(byte & 15)],
            ]),
        }
        done = at + 1;
    }
    to.extend_from_slice(&bytes[done..]);
}

const HEX: &[u8; 16] = b"0123456789abcdef";

/// Writes `12345678-1234-1234-1234-123456789012`.
pub(super) fn write_guid(bytes: &[u8; 16], to: &mut Vec<u8>) {
    for (number, byte) in bytes.iter().enumerate() {
        if matches!(number, 4 | 6 | 8 | 10) {
            to.push(b'-');
        }
        to.extend_from_slice(&[HEX[usize::from(byte >> 4)], HEX[usize::from(byte & 15)]]);
    }
}

fn read_guid(text: &str) -> Option<[u8; 16]> {
    let mut bytes = [0; 16];
    let mut digits = text.bytes().enumerate().filter(|(at, byte)| *byte != b'-' || !matches!(at, 8 | 13 | 18 | 23));
    for byte in &mut bytes {
        let mut digit = || char::from(digits.next()?.1).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        *byte = digit()? << 4 | digit()?;
    }
    digits.next().is_none().then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(value: &EdmValue<'_>) -> String {
        let mut bytes = Vec::new();
        value.write_property("N", &mut bytes);
        String::from_utf8(bytes).expect("text")
    }

    #[test]
    fn values_in_json() {
        let guid = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0xfe, 0xdc, 0xba, 0x98, 0x76, 0x54, 0x32, 0x10];
        for (value, json) in [
            ("a\"b\\c\n\u{1}\u{2028}€".into(), r#","N":"a\"b\\c\n\u0001\u2028€""#),
            (EdmValue::Boolean(true), r#","N":true"#),
            (EdmValue::Int32(-7), r#","N":-7"#),
            (EdmValue::Int64(i64::MIN), r#","N@odata.type":"Edm.Int64","N":"-9223372036854775808""#),
            (EdmValue::Double(1.0), r#","N@odata.type":"Edm.Double","N":1.0"#),
            (EdmValue::Double(1e300), r#","N@odata.type":"Edm.Double","N":1e300"#),
            (EdmValue::Double(f64::NAN), r#","N@odata.type":"Edm.Double","N":"NaN""#),
            (EdmValue::Double(f64::INFINITY), r#","N@odata.type":"Edm.Double","N":"Infinity""#),
            (EdmValue::Double(f64::NEG_INFINITY), r#","N@odata.type":"Edm.Double","N":"-Infinity""#),
            (
                EdmValue::DateTime(DateTime::from_ticks(639_308_160_000_000_001)),
                r#","N@odata.type":"Edm.DateTime","N":"2026-11-21T00:00:00.0000001Z""#,
            ),
            (EdmValue::Guid(guid), r#","N@odata.type":"Edm.Guid","N":"01234567-89ab-cdef-fedc-ba9876543210""#),
            (EdmValue::Binary(Cow::Borrowed(b"\x00\xff")), r#","N@odata.type":"Edm.Binary","N":"AP8=""#),
        ] {
            assert_eq!(written(&value), json);
        }
    }

    #[test]
    fn values_that_are_not_what_they_are_said_to_be() {
        for (json, edm, value) in [
            ("null", None, None),
            ("[1]", None, None),
            ("3000000000", None, Some(EdmValue::Double(3e9))),
            ("\"x\"", Some("Edm.Int64"), Some("x".into())),
            ("\"x\"", Some("Edm.Guid"), Some("x".into())),
            (
                "\"01234567-89ab-cdef-fedc-ba9876543210ff\"",
                Some("Edm.Guid"),
                Some("01234567-89ab-cdef-fedc-ba9876543210ff".into()),
            ),
            ("\"yesterday\"", Some("Edm.DateTime"), Some("yesterday".into())),
            ("\"!\"", Some("Edm.Binary"), Some("!".into())),
            ("12", Some("Edm.Int64"), Some(EdmValue::Int64(12))),
            ("2", Some("Edm.Double"), Some(EdmValue::Double(2.0))),
            ("\"\\ud800\"", None, None),
        ] {
            let raw: &RawValue = serde_json::from_str(json).expect("JSON");
            assert_eq!(EdmValue::read(raw, edm), value, "{json}");
        }
    }

    fn values() -> impl Strategy<Value = EdmValue<'static>> {
        prop_oneof![
            any::<String>().prop_map(|text| EdmValue::String(Cow::Owned(text))),
            "[\u{2027}-\u{202a}\u{0}-\u{22}a\\\\]{0,20}".prop_map(|text| EdmValue::String(Cow::Owned(text))),
            any::<bool>().prop_map(EdmValue::Boolean),
            any::<i32>().prop_map(EdmValue::Int32),
            any::<i64>().prop_map(EdmValue::Int64),
            any::<f64>().prop_filter("NaN equals nothing", |number| !number.is_nan()).prop_map(EdmValue::Double),
            any::<i64>().prop_map(|ticks| EdmValue::DateTime(DateTime::from_ticks(ticks))),
            any::<[u8; 16]>().prop_map(EdmValue::Guid),
            prop::collection::vec(any::<u8>(), 0..40).prop_map(|bytes| EdmValue::Binary(Cow::Owned(bytes))),
        ]
    }

    proptest! {
        /// The written JSON has one line, and parses to the same value and type.
        #[test]
        fn round_trip(value in values()) {
            let text = written(&value);
            let is_one_line = !text.contains(['\n', '\r', '\u{2028}', '\u{2029}']);
            prop_assert!(is_one_line);
            let object = format!("{{\"a\":1{text}}}");
            let fields: std::collections::HashMap<String, Box<RawValue>> = serde_json::from_str(&object).expect("JSON");
            let edm: Option<String> = fields.get("N@odata.type").map(|raw| serde_json::from_str(raw.get()).expect("text"));
            prop_assert_eq!(EdmValue::read(&fields["N"], edm.as_deref()), Some(value));
        }
    }
}
