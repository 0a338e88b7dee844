//! OTLP's JSON: [the mapping of protocol buffers](https://protobuf.dev/programming-guides/json/), but for ids, which are hex
//! ([OTLP specification](https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding)). A number of 64 bits is a text or
//! a number. Unknown names are skipped, and noted.

use super::super::raw_json::{RawElements, RawMembers};
use super::super::refusal::DecodeError;
use super::super::request_writer::RequestWriter;
use super::value::{AnyValue, Attributes};
use super::{LogRecord, ScopeContext};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

/// Writes the log records of a document.
pub(super) fn decode(body: &[u8], writer: &mut RequestWriter<'_>) -> Result<(), DecodeError> {
    let text = writer.text_of(body)?;
    for (name, value) in serde_json::from_str::<RawMembers<'_>>(&text)?.0 {
        match &*camel_case(&name) {
            "resourceLogs" => {
                for resource in elements(value)? {
                    decode_resource(resource, writer)?;
                }
            }
            _ => writer.note_unread(name),
        }
    }
    Ok(())
}

fn decode_resource(resource: &RawValue, writer: &mut RequestWriter<'_>) -> Result<(), DecodeError> {
    let place = writer.place();
    let (mut attributes, mut scopes) = (Vec::new(), Vec::new());
    for (name, value) in serde_json::from_str::<RawMembers<'_>>(resource.get())?.0 {
        match &*camel_case(&name) {
            "resource" => {
                for (name, value) in members(value)? {
                    match &*camel_case(&name) {
                        "attributes" => attributes = attributes_of(value)?,
                        "droppedAttributesCount" | "entityRefs" => {}
                        _ => writer.note_unread(name),
                    }
                }
            }
            "scopeLogs" | "instrumentationLibraryLogs" if scopes.is_empty() => scopes = elements(value)?,
            "schemaUrl" => {}
            _ => writer.note_unread(name),
        }
    }
    let mut context = ScopeContext::new(attributes, writer);
    for scope in scopes {
        decode_scope(scope, &mut context, writer)?;
    }
    Ok(writer.refuse_unread_since(place)?)
}

fn decode_scope<'a>(
    scope: &'a RawValue,
    context: &mut ScopeContext<'a>,
    writer: &mut RequestWriter<'_>,
) -> Result<(), DecodeError> {
    let place = writer.place();
    let (mut name, mut version, mut attributes, mut records) = (None, None, Vec::new(), Vec::new());
    for (member, value) in serde_json::from_str::<RawMembers<'_>>(scope.get())?.0 {
        match &*camel_case(&member) {
            "scope" | "instrumentationLibrary" => {
                for (member, value) in members(value)? {
                    match &*camel_case(&member) {
                        "name" => name = serde_json::from_str::<Option<String>>(value.get())?,
                        "version" => version = serde_json::from_str::<Option<String>>(value.get())?,
                        "attributes" => attributes = attributes_of(value)?,
                        "droppedAttributesCount" => {}
                        _ => writer.note_unread(member),
                    }
                }
            }
            "logRecords" | "logs" if records.is_empty() => records = elements(value)?,
            "schemaUrl" => {}
            _ => writer.note_unread(member),
        }
    }
    context.set_scope(text_of(name), text_of(version), attributes, writer);
    for record in records {
        let index = writer.begin()?;
        if !context.fits(record.get().len(), index, writer) {
            continue;
        }
        match serde_json::from_str::<JsonLogRecord<'_>>(record.get()) {
            Ok(JsonLogRecord(record)) => context.write(index, record, writer),
            Err(error) => writer.refuse(index, error.to_string()),
        }
    }
    Ok(writer.refuse_unread_since(place)?)
}

/// The members of an object; none of `null`.
fn members(value: &RawValue) -> Result<Vec<(Cow<'_, str>, &RawValue)>, DecodeError> {
    Ok(serde_json::from_str::<Option<RawMembers<'_>>>(value.get())?.unwrap_or_default().0)
}

/// The elements of an array; none of `null`.
fn elements(value: &RawValue) -> Result<Vec<&RawValue>, DecodeError> {
    Ok(serde_json::from_str::<Option<RawElements<'_>>>(value.get())?.unwrap_or_default().0)
}

fn attributes_of(value: &RawValue) -> Result<Attributes<'_>, DecodeError> {
    Ok(attributes(serde_json::from_str(value.get())?))
}

/// The name of a member of JSON: a decoder of this JSON also knows the names of the protocol buffers (`log_records`).
fn camel_case(name: &str) -> Cow<'_, str> {
    if !name.contains('_') {
        return Cow::Borrowed(name);
    }
    let words = name.split('_').enumerate().map(|(number, word)| match word.chars().next() {
        Some(first) if number > 0 => first.to_ascii_uppercase().to_string() + &word[first.len_utf8()..],
        _ => word.to_owned(),
    });
    Cow::Owned(words.collect())
}

fn text_of(text: Option<String>) -> Cow<'static, str> {
    text.unwrap_or_default().into()
}

fn attributes(pairs: Option<Vec<KeyValue<'_>>>) -> Attributes<'_> {
    pairs.unwrap_or_default().into_iter().map(|KeyValue { key, value }| (key.into(), value)).collect()
}

/// A log record.
struct JsonLogRecord<'a>(LogRecord<'a>);

impl<'de: 'a, 'a> Deserialize<'de> for JsonLogRecord<'a> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<JsonLogRecord<'a>, D::Error> {
        struct LogRecordVisitor;
        impl<'de> Visitor<'de> for LogRecordVisitor {
            type Value = JsonLogRecord<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<JsonLogRecord<'de>, A::Error> {
                let mut record = LogRecord::default();
                while let Some(MemberName(name)) = map.next_key()? {
                    match &*camel_case(&name) {
                        "timeUnixNano" => record.time = map.next_value::<WholeNumber>()?.unsigned(),
                        "observedTimeUnixNano" => record.observed = map.next_value::<WholeNumber>()?.unsigned(),
                        "severityNumber" => {
                            record.severity = i32::try_from(map.next_value::<WholeNumber>()?.0).unwrap_or(0);
                        }
                        "severityText" => record.severity_text = text_of(map.next_value()?),
                        "body" => record.body = map.next_value::<Option<AnyValue<'de>>>()?.unwrap_or_default(),
                        "attributes" => record.attributes = attributes(map.next_value()?),
                        "droppedAttributesCount" => {
                            record.dropped = u32::try_from(map.next_value::<WholeNumber>()?.0).unwrap_or(u32::MAX);
                        }
                        "flags" => record.flags = u32::try_from(map.next_value::<WholeNumber>()?.0).unwrap_or(0),
                        "traceId" => record.trace_id = id(map.next_value()?),
                        "spanId" => record.span_id = id(map.next_value()?),
                        // It was called `name` before it had a name of its own.
                        "eventName" | "name" => record.event_name = text_of(map.next_value()?),
                        _ => {
                            record.unread.note(&name);
                            map.next_value::<IgnoredAny>()?;
                        }
                    }
                }
                Ok(JsonLogRecord(record))
            }
        }
        input.deserialize_map(LogRecordVisitor)
    }
}

/// A name, borrowed where it has no escapes.
#[derive(Deserialize)]
struct MemberName<'a>(#[serde(borrow)] Cow<'a, str>);

/// An attribute.
struct KeyValue<'a> {
    key: String,
    value: AnyValue<'a>,
}

impl<'de: 'a, 'a> Deserialize<'de> for KeyValue<'a> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<KeyValue<'a>, D::Error> {
        struct KeyValueVisitor;
        impl<'de> Visitor<'de> for KeyValueVisitor {
            type Value = KeyValue<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a key with its value")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<KeyValue<'de>, A::Error> {
                let mut pair = KeyValue { key: String::new(), value: AnyValue::Empty };
                while let Some(MemberName(name)) = map.next_key()? {
                    match &*name {
                        "key" => pair.key = map.next_value()?,
                        "value" => pair.value = map.next_value::<Option<AnyValue<'de>>>()?.unwrap_or_default(),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            if pair.value == AnyValue::Empty {
                                pair.value = AnyValue::Unread;
                            }
                        }
                    }
                }
                Ok(pair)
            }
        }
        input.deserialize_map(KeyValueVisitor)
    }
}

/// A whole number, as a number or as a text. `null` is zero.
#[derive(Clone, Copy, Debug, Default)]
struct WholeNumber(i128);

/// An id in lower case. An id of zeros means that no id is known, and becomes empty.
fn id(written: Option<String>) -> String {
    let mut id = written.unwrap_or_default().to_ascii_lowercase();
    id.truncate(id.floor_char_boundary(64));
    if id.bytes().all(|byte| byte == b'0') { String::new() } else { id }
}

impl WholeNumber {
    /// The number, within the range of 64 bits. A negative number means that no value is known.
    fn unsigned(self) -> u64 {
        u64::try_from(self.0.max(0)).unwrap_or(u64::MAX)
    }
}

impl<'de> Deserialize<'de> for WholeNumber {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<WholeNumber, D::Error> {
        struct NumberVisitor;
        impl Visitor<'_> for NumberVisitor {
            type Value = WholeNumber;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number, or one as text")
            }

            fn visit_unit<E: Error>(self) -> Result<WholeNumber, E> {
                Ok(WholeNumber(0))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<WholeNumber, E> {
                Ok(WholeNumber(number.into()))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<WholeNumber, E> {
                Ok(WholeNumber(number.into()))
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<WholeNumber, E> {
                // JavaScript writes some whole numbers as 1.7e18.
                if number.fract() == 0.0 {
                    Ok(WholeNumber(number as i128))
                } else {
                    Err(E::custom("is not a whole number"))
                }
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<WholeNumber, E> {
                text.parse().map(WholeNumber).map_err(|_| E::custom("a text is not a whole number"))
            }
        }
        input.deserialize_any(NumberVisitor)
    }
}

/// A floating-point number. JSON has no infinities, so they are texts.
#[derive(Deserialize)]
#[serde(untagged)]
enum FloatNumber {
    Number(f64),
    Text(String),
}

/// The members of an `ArrayValue` or a `KeyValueList`.
#[derive(Deserialize)]
struct ValueList<T> {
    values: Option<Vec<T>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for AnyValue<'a> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<AnyValue<'a>, D::Error> {
        struct AnyValueVisitor;
        impl<'de> Visitor<'de> for AnyValueVisitor {
            type Value = AnyValue<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value with its kind")
            }

            fn visit_unit<E: Error>(self) -> Result<AnyValue<'de>, E> {
                Ok(AnyValue::Empty)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AnyValue<'de>, A::Error> {
                let mut any = AnyValue::Empty;
                while let Some(MemberName(kind)) = map.next_key()? {
                    any = match &*camel_case(&kind) {
                        "stringValue" => AnyValue::Text(Cow::Owned(map.next_value()?)),
                        "boolValue" => AnyValue::Boolean(map.next_value()?),
                        "intValue" => {
                            let WholeNumber(number) = map.next_value()?;
                            AnyValue::Int64(i64::try_from(number).map_err(|_| A::Error::custom("is over 64 bits"))?)
                        }
                        "doubleValue" => AnyValue::Double(match map.next_value()? {
                            FloatNumber::Number(number) => number,
                            FloatNumber::Text(text) => {
                                text.parse().map_err(|_| A::Error::custom("a text is not a number"))?
                            }
                        }),
                        "bytesValue" => {
                            let text: String = map.next_value()?;
                            let bytes = STANDARD.decode(text).map_err(|_| A::Error::custom("is not base64"))?;
                            AnyValue::Bytes(Cow::Owned(bytes))
                        }
                        "arrayValue" => {
                            AnyValue::Array(map.next_value::<ValueList<AnyValue<'de>>>()?.values.unwrap_or_default())
                        }
                        "kvlistValue" => AnyValue::Object(attributes(map.next_value::<ValueList<_>>()?.values)),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            if any == AnyValue::Empty { AnyValue::Unread } else { any }
                        }
                    };
                }
                Ok(any)
            }
        }
        input.deserialize_any(AnyValueVisitor)
    }
}
