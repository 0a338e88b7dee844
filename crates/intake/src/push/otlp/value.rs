//! `AnyValue`: a text, a number, bytes, or a list or an object of these.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use daytable_model::property::BINARY_BYTES_MAX;
use daytable_model::record::Value;
use serde_json::json;
use std::borrow::Cow;

/// Values within values; what is deeper is refused with its record.
pub(super) const DEPTH_MAX: usize = 32;
/// Bytes of a name that others are put behind with a dot: without it one long name and many short ones would take memory
/// by their product.
const PREFIX_BYTES_MAX: usize = 255;

/// Names and values of a record.
pub(super) type Members<'a> = Vec<(Cow<'a, str>, Value<'a>)>;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum Any<'a> {
    #[default]
    Empty,
    Text(Cow<'a, str>),
    Boolean(bool),
    Int64(i64),
    Double(f64),
    Bytes(Cow<'a, [u8]>),
    Array(Vec<Any<'a>>),
    Object(Vec<(Cow<'a, str>, Any<'a>)>),
}

/// Bytes of names and values.
pub(super) fn bytes_of(members: &[(Cow<'_, str>, Value<'_>)]) -> usize {
    let of_value = |value: &Value<'_>| match value {
        Value::String(text) => text.len(),
        Value::Binary(bytes) => bytes.len(),
        _ => size_of::<u64>(),
    };
    members.iter().map(|(name, value)| name.len() + of_value(value)).sum()
}

/// Adds attributes as fields: what lies in an object under the name of both, with a dot between them.
pub(super) fn flatten<'a>(attributes: Vec<(Cow<'a, str>, Any<'a>)>, members: &mut Members<'a>) {
    for (name, any) in attributes {
        add(name, any, members);
    }
}

fn add<'a>(name: Cow<'a, str>, any: Any<'a>, members: &mut Members<'a>) {
    let value = match any {
        Any::Empty => return,
        Any::Text(text) => Value::String(text),
        Any::Boolean(truth) => Value::Boolean(truth),
        Any::Int64(number) => Value::Int64(number),
        Any::Double(number) => Value::Double(number),
        Any::Bytes(bytes) if bytes.len() <= BINARY_BYTES_MAX => Value::Binary(bytes),
        Any::Object(inner) if !inner.is_empty() && name.len() <= PREFIX_BYTES_MAX => {
            for (own, any) in inner {
                add(Cow::Owned(format!("{name}.{own}")), any, members);
            }
            return;
        }
        any => Value::String(any.to_json().into()),
    };
    members.push((name, value));
}

impl Any<'_> {
    /// As JSON; bytes in base64.
    pub(super) fn to_json(&self) -> String {
        match self {
            // Nothing has to be quoted where it is the whole.
            Any::Bytes(bytes) => STANDARD.encode(bytes),
            any => any.json().to_string(),
        }
    }

    fn json(&self) -> serde_json::Value {
        match self {
            Any::Empty => serde_json::Value::Null,
            Any::Text(text) => json!(text),
            Any::Boolean(truth) => json!(truth),
            Any::Int64(number) => json!(number),
            Any::Double(number) if number.is_finite() => json!(number),
            Any::Double(number) => json!(number.to_string()),
            Any::Bytes(bytes) => json!(STANDARD.encode(bytes)),
            Any::Array(values) => values.iter().map(Any::json).collect(),
            Any::Object(members) => {
                members.iter().map(|(name, value)| (name.clone().into_owned(), value.json())).collect()
            }
        }
    }
}
