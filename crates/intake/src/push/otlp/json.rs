//! OTLP's JSON: [the mapping of protocol buffers](https://protobuf.dev/programming-guides/json/), but for ids, which are hex
//! ([OTLP specification](https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding)). A number of 64 bits is a text or
//! a number. Unknown names are skipped.

use super::super::Refusal;
use super::super::raw_json::RawElements;
use super::super::refusal::DecodeError;
use super::super::request_writer::RequestWriter;
use super::value::{AnyValue, Attributes};
use super::{LogRecord, ScopeContext};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ExportRequest<'a> {
    #[serde(borrow)]
    resource_logs: Option<RawElements<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceLogs<'a> {
    #[serde(borrow)]
    resource: Option<Resource<'a>>,
    #[serde(borrow)]
    scope_logs: Option<RawElements<'a>>,
}

#[derive(Default, Deserialize)]
struct Resource<'a> {
    #[serde(borrow)]
    attributes: Option<Vec<KeyValue<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ScopeLogs<'a> {
    #[serde(borrow)]
    scope: Option<InstrumentationScope<'a>>,
    #[serde(borrow)]
    log_records: Option<RawElements<'a>>,
}

#[derive(Default, Deserialize)]
struct InstrumentationScope<'a> {
    name: Option<String>,
    version: Option<String>,
    #[serde(borrow)]
    attributes: Option<Vec<KeyValue<'a>>>,
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct JsonLogRecord<'a> {
    time_unix_nano: WholeNumber,
    observed_time_unix_nano: WholeNumber,
    severity_number: WholeNumber,
    severity_text: Option<String>,
    #[serde(borrow)]
    body: Option<AnyValue<'a>>,
    #[serde(borrow)]
    attributes: Option<Vec<KeyValue<'a>>>,
    dropped_attributes_count: WholeNumber,
    flags: WholeNumber,
    trace_id: Option<String>,
    span_id: Option<String>,
    event_name: Option<String>,
}

#[derive(Deserialize)]
struct KeyValue<'a> {
    #[serde(default)]
    key: String,
    #[serde(borrow)]
    value: Option<AnyValue<'a>>,
}

/// A whole number, as a number or as a text. `null` is zero.
#[derive(Clone, Copy, Debug, Default)]
struct WholeNumber(i128);

/// Writes the log records of a document.
pub(super) fn decode(body: &[u8], writer: &mut RequestWriter<'_>) -> Result<(), DecodeError> {
    let text = writer.text_of(body)?;
    // serde accepts an array in place of an object, with the members in their order.
    if !text.trim_ascii_start().starts_with('{') {
        return Err(Refusal::bad("the body is no export request: it is no JSON object").into());
    }
    let request: ExportRequest<'_> = serde_json::from_str(&text)?;
    for resource in request.resource_logs.unwrap_or_default().0 {
        let ResourceLogs { resource, scope_logs } = serde_json::from_str(resource.get())?;
        let mut context = ScopeContext::new(attributes(resource.unwrap_or_default().attributes), writer);
        for scope in scope_logs.unwrap_or_default().0 {
            let ScopeLogs { scope, log_records } = serde_json::from_str(scope.get())?;
            let scope = scope.unwrap_or_default();
            context.set_scope(text_of(scope.name), text_of(scope.version), attributes(scope.attributes));
            for record in log_records.unwrap_or_default().0 {
                let index = writer.begin()?;
                if !context.fits(record.get().len(), index, writer) {
                    continue;
                }
                match serde_json::from_str::<JsonLogRecord<'_>>(record.get()) {
                    Ok(_) if !record.get().starts_with('{') => writer.refuse(index, "is no JSON object"),
                    Ok(record) => context.write(index, record.into(), writer),
                    Err(error) => writer.refuse(index, error.to_string()),
                }
            }
        }
    }
    Ok(())
}

fn text_of(text: Option<String>) -> Cow<'static, str> {
    text.unwrap_or_default().into()
}

fn attributes(pairs: Option<Vec<KeyValue<'_>>>) -> Attributes<'_> {
    let pairs = pairs.unwrap_or_default();
    pairs.into_iter().map(|KeyValue { key, value }| (key.into(), value.unwrap_or_default())).collect()
}

impl<'a> From<JsonLogRecord<'a>> for LogRecord<'a> {
    fn from(record: JsonLogRecord<'a>) -> LogRecord<'a> {
        LogRecord {
            time: record.time_unix_nano.unsigned(),
            observed: record.observed_time_unix_nano.unsigned(),
            severity: i32::try_from(record.severity_number.0).unwrap_or(0),
            severity_text: text_of(record.severity_text),
            body: record.body.unwrap_or_default(),
            attributes: attributes(record.attributes),
            dropped: u32::try_from(record.dropped_attributes_count.0).unwrap_or(u32::MAX),
            flags: u32::try_from(record.flags.0).unwrap_or(0),
            trace_id: id(record.trace_id),
            span_id: id(record.span_id),
            event_name: text_of(record.event_name),
        }
    }
}

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
                    Err(E::custom("is no whole number"))
                }
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<WholeNumber, E> {
                text.parse().map(WholeNumber).map_err(|_| E::custom("a text is no whole number"))
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
                while let Some(kind) = map.next_key::<Cow<'de, str>>()? {
                    any = match &*kind {
                        "stringValue" => AnyValue::Text(Cow::Owned(map.next_value()?)),
                        "boolValue" => AnyValue::Boolean(map.next_value()?),
                        "intValue" => {
                            let WholeNumber(number) = map.next_value()?;
                            AnyValue::Int64(i64::try_from(number).map_err(|_| A::Error::custom("is over 64 bits"))?)
                        }
                        "doubleValue" => AnyValue::Double(match map.next_value()? {
                            FloatNumber::Number(number) => number,
                            FloatNumber::Text(text) => {
                                text.parse().map_err(|_| A::Error::custom("a text is no number"))?
                            }
                        }),
                        "bytesValue" => {
                            let text: String = map.next_value()?;
                            let bytes = STANDARD.decode(text).map_err(|_| A::Error::custom("is no base64"))?;
                            AnyValue::Bytes(Cow::Owned(bytes))
                        }
                        "arrayValue" => {
                            AnyValue::Array(map.next_value::<ValueList<AnyValue<'de>>>()?.values.unwrap_or_default())
                        }
                        "kvlistValue" => AnyValue::Object(attributes(map.next_value::<ValueList<_>>()?.values)),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            any
                        }
                    };
                }
                Ok(any)
            }
        }
        input.deserialize_any(AnyValueVisitor)
    }
}
