//! `AnyValue`: a text, a number, bytes, or a list or an object of these.

use crate::push::unread_parts::UnreadParts;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use daytable_model::property::BINARY_BYTES_MAX;
use daytable_model::record::Value;
use serde_json::json;
use std::borrow::Cow;

/// The depth of nested values. A record with deeper values is refused.
pub(super) const DEPTH_MAX: usize = 32;
/// The bytes of a name that becomes the prefix of other names. Without this limit, one long name and many short names would
/// take memory by their product.
const PREFIX_BYTES_MAX: usize = 255;

/// The attributes of a message.
pub(super) type Attributes<'a> = Vec<(Cow<'a, str>, AnyValue<'a>)>;
/// The names and values of fields.
pub(super) type FieldList<'a> = Vec<(Cow<'a, str>, Value<'a>)>;

#[derive(Clone, Debug, Default, PartialEq)]
pub(super) enum AnyValue<'a> {
    #[default]
    Empty,
    /// A value of a kind that is not known here.
    Unread,
    Text(Cow<'a, str>),
    Boolean(bool),
    Int64(i64),
    Double(f64),
    Bytes(Cow<'a, [u8]>),
    Array(Vec<AnyValue<'a>>),
    Object(Attributes<'a>),
}

/// The bytes of names and values.
pub(super) fn bytes_of(fields: &[(Cow<'_, str>, Value<'_>)]) -> usize {
    let of_value = |value: &Value<'_>| match value {
        Value::String(text) => text.len(),
        Value::Binary(bytes) => bytes.len(),
        _ => size_of::<u64>(),
    };
    fields.iter().map(|(name, value)| name.len() + of_value(value)).sum()
}

/// Adds attributes as fields. The members of an object are named by both names with a dot between them.
pub(super) fn flatten<'a>(attributes: Attributes<'a>, fields: &mut FieldList<'a>, unread: &mut UnreadParts) {
    for (name, any) in attributes {
        add(name, any, fields, unread);
    }
}

fn add<'a>(name: Cow<'a, str>, any: AnyValue<'a>, fields: &mut FieldList<'a>, unread: &mut UnreadParts) {
    let value = match any {
        AnyValue::Empty => return,
        AnyValue::Unread => return unread.note(format_args!("the value of {name}")),
        AnyValue::Text(text) => Value::String(text),
        AnyValue::Boolean(truth) => Value::Boolean(truth),
        AnyValue::Int64(number) => Value::Int64(number),
        AnyValue::Double(number) => Value::Double(number),
        AnyValue::Bytes(bytes) if bytes.len() <= BINARY_BYTES_MAX => Value::Binary(bytes),
        AnyValue::Object(members) if !members.is_empty() && name.len() <= PREFIX_BYTES_MAX => {
            for (member, any) in members {
                add(Cow::Owned(format!("{name}.{member}")), any, fields, unread);
            }
            return;
        }
        any => Value::String(any.to_json(unread).into()),
    };
    fields.push((name, value));
}

impl AnyValue<'_> {
    /// The value as JSON. Bytes are base64, without quotes.
    pub(super) fn to_json(&self, unread: &mut UnreadParts) -> String {
        match self {
            AnyValue::Bytes(bytes) => STANDARD.encode(bytes),
            any => any.json(unread).to_string(),
        }
    }

    fn json(&self, unread: &mut UnreadParts) -> serde_json::Value {
        match self {
            AnyValue::Empty => serde_json::Value::Null,
            AnyValue::Unread => {
                unread.note("a value of an unknown kind");
                serde_json::Value::Null
            }
            AnyValue::Text(text) => json!(text),
            AnyValue::Boolean(truth) => json!(truth),
            AnyValue::Int64(number) => json!(number),
            AnyValue::Double(number) if number.is_finite() => json!(number),
            AnyValue::Double(number) => json!(number.to_string()),
            AnyValue::Bytes(bytes) => json!(STANDARD.encode(bytes)),
            AnyValue::Array(values) => values.iter().map(|value| value.json(unread)).collect(),
            AnyValue::Object(members) => {
                members.iter().map(|(name, value)| (name.clone().into_owned(), value.json(unread))).collect()
            }
        }
    }
}
