//! OTLP's JSON: that of protocol buffers, but for ids, which are hex. Numbers of 64 bits are texts or numbers, names that
//! are not known are passed over. Each log record is cut out as it is written before anything is read of it.

use super::super::raws::Raws;
use super::super::taking::Taking;
use super::value::Any;
use super::{Log, Origin, Refusal};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;
use serde::de::{Deserializer, Error, IgnoredAny, MapAccess, Visitor};
use std::borrow::Cow;
use std::fmt;

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    #[serde(borrow, default)]
    resource_logs: Option<Raws<'a>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ResourceLogs<'a> {
    #[serde(borrow, default)]
    resource: Option<Resource<'a>>,
    #[serde(borrow, default)]
    scope_logs: Option<Raws<'a>>,
}

#[derive(Deserialize)]
struct Resource<'a> {
    #[serde(borrow, default)]
    attributes: Option<Vec<Pair<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ScopeLogs<'a> {
    #[serde(borrow, default)]
    scope: Option<Scope<'a>>,
    #[serde(borrow, default)]
    log_records: Option<Raws<'a>>,
}

#[derive(Deserialize)]
struct Scope<'a> {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    version: Option<String>,
    #[serde(borrow, default)]
    attributes: Option<Vec<Pair<'a>>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct LogRecord<'a> {
    #[serde(default)]
    time_unix_nano: Number,
    #[serde(default)]
    observed_time_unix_nano: Number,
    #[serde(default)]
    severity_number: Number,
    #[serde(default)]
    severity_text: Option<String>,
    #[serde(borrow, default)]
    body: Option<Any<'a>>,
    #[serde(borrow, default)]
    attributes: Option<Vec<Pair<'a>>>,
    #[serde(default)]
    dropped_attributes_count: Number,
    #[serde(default)]
    flags: Number,
    #[serde(default)]
    trace_id: Option<String>,
    #[serde(default)]
    span_id: Option<String>,
    #[serde(default)]
    event_name: Option<String>,
}

#[derive(Deserialize)]
struct Pair<'a> {
    #[serde(default)]
    key: String,
    #[serde(borrow, default)]
    value: Option<Any<'a>>,
}

/// A whole number, written as one or as a text; zero where it is null.
#[derive(Clone, Copy, Debug, Default)]
struct Number(i128);

/// Takes a document apart.
pub(super) fn take(body: &[u8], taking: &mut Taking<'_>) -> Result<(), Refusal> {
    let text = taking.text_of(body)?;
    // serde would take an array for the members of an object in their order.
    if !is_object(text.trim_ascii_start()) {
        return Err(Refusal::bad("the body is no export request: it is no JSON object"));
    }
    let request: Request<'_> = serde_json::from_str(&text).map_err(|error| bad(taking, &error))?;
    for resource in request.resource_logs.into_iter().flatten() {
        let logs: ResourceLogs<'_> = serde_json::from_str(resource.get()).map_err(|error| bad(taking, &error))?;
        let attributes = logs.resource.and_then(|resource| resource.attributes);
        let mut origin = Origin::of_resource(pairs(attributes), taking);
        for scope in logs.scope_logs.into_iter().flatten() {
            let logs: ScopeLogs<'_> = serde_json::from_str(scope.get()).map_err(|error| bad(taking, &error))?;
            if let Some(Scope { name, version, attributes }) = logs.scope {
                let text = |text: Option<String>| Cow::Owned(text.unwrap_or_default());
                origin.set_scope(text(name), text(version), pairs(attributes));
            } else {
                origin.set_scope("".into(), "".into(), Vec::new());
            }
            for record in logs.log_records.into_iter().flatten() {
                let index = taking.begin()?;
                if !origin.fits(record.get().len(), index, taking) {
                    continue;
                }
                match serde_json::from_str::<LogRecord<'_>>(record.get()) {
                    Ok(_) if !is_object(record.get()) => taking.refuse(index, "is no JSON object"),
                    Ok(record) => origin.write(index, record.into_log(), taking),
                    Err(error) => taking.refuse(index, error.to_string()),
                }
            }
        }
    }
    Ok(())
}

fn is_object(text: &str) -> bool {
    text.starts_with('{')
}

fn bad(taking: &Taking<'_>, error: &serde_json::Error) -> Refusal {
    Refusal::bad_at(taking.index(), format!("the body is no export request: {error}"))
}

fn pairs(pairs: Option<Vec<Pair<'_>>>) -> Vec<(Cow<'_, str>, Any<'_>)> {
    let pairs = pairs.unwrap_or_default();
    pairs.into_iter().map(|Pair { key, value }| (key.into(), value.unwrap_or_default())).collect()
}

impl<'a> LogRecord<'a> {
    fn into_log(self) -> Log<'a> {
        let text = |text: Option<String>| Cow::Owned(text.unwrap_or_default());
        Log {
            time: self.time_unix_nano.unsigned(),
            observed: self.observed_time_unix_nano.unsigned(),
            severity: i32::try_from(self.severity_number.0).unwrap_or(0),
            severity_text: text(self.severity_text),
            body: self.body.unwrap_or_default(),
            attributes: pairs(self.attributes),
            dropped: u32::try_from(self.dropped_attributes_count.0).unwrap_or(u32::MAX),
            flags: u32::try_from(self.flags.0).unwrap_or(0),
            trace_id: id(self.trace_id),
            span_id: id(self.span_id),
            event_name: text(self.event_name),
        }
    }
}

/// An id in lower case; none where all of it is zero.
fn id(written: Option<String>) -> String {
    let mut id = written.unwrap_or_default().to_ascii_lowercase();
    id.truncate(id.floor_char_boundary(64));
    if id.bytes().all(|byte| byte == b'0') { String::new() } else { id }
}

impl Number {
    /// What is below zero is not known.
    fn unsigned(self) -> u64 {
        u64::try_from(self.0.max(0)).unwrap_or(u64::MAX)
    }
}

impl<'de> Deserialize<'de> for Number {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Number, D::Error> {
        struct Whole;
        impl Visitor<'_> for Whole {
            type Value = Number;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a whole number, or one as text")
            }

            fn visit_unit<E: Error>(self) -> Result<Number, E> {
                Ok(Number(0))
            }

            fn visit_u64<E: Error>(self, number: u64) -> Result<Number, E> {
                Ok(Number(number.into()))
            }

            fn visit_i64<E: Error>(self, number: i64) -> Result<Number, E> {
                Ok(Number(number.into()))
            }

            fn visit_f64<E: Error>(self, number: f64) -> Result<Number, E> {
                // JavaScript writes 1.7e18 for some; its digits are what it has.
                if number.fract() == 0.0 { Ok(Number(number as i128)) } else { Err(E::custom("is no whole number")) }
            }

            fn visit_str<E: Error>(self, text: &str) -> Result<Number, E> {
                text.parse().map(Number).map_err(|_| E::custom("a text is no whole number"))
            }
        }
        input.deserialize_any(Whole)
    }
}

/// A number with a fraction, written as one or as a text, as not every one of them is JSON's.
struct Real(f64);

impl<'de> Deserialize<'de> for Real {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Real, D::Error> {
        #[derive(Deserialize)]
        #[serde(untagged)]
        enum Written {
            Number(f64),
            Text(String),
        }
        match Written::deserialize(input)? {
            Written::Number(number) => Ok(Real(number)),
            Written::Text(text) => text.parse().map(Real).map_err(|_| D::Error::custom("a text is no number")),
        }
    }
}

#[derive(Deserialize)]
struct Values<'a> {
    #[serde(borrow, default)]
    values: Option<Vec<Any<'a>>>,
}

#[derive(Deserialize)]
struct PairValues<'a> {
    #[serde(borrow, default)]
    values: Option<Vec<Pair<'a>>>,
}

impl<'de: 'a, 'a> Deserialize<'de> for Any<'a> {
    fn deserialize<D: Deserializer<'de>>(input: D) -> Result<Any<'a>, D::Error> {
        struct Kinds;
        impl<'de> Visitor<'de> for Kinds {
            type Value = Any<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value with its kind")
            }

            fn visit_unit<E: Error>(self) -> Result<Any<'de>, E> {
                Ok(Any::Empty)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Any<'de>, A::Error> {
                let mut any = Any::Empty;
                while let Some(kind) = map.next_key::<Cow<'de, str>>()? {
                    any = match &*kind {
                        "stringValue" => Any::Text(Cow::Owned(map.next_value()?)),
                        "boolValue" => Any::Boolean(map.next_value()?),
                        "intValue" => {
                            let Number(number) = map.next_value()?;
                            Any::Int64(i64::try_from(number).map_err(|_| A::Error::custom("is over 64 bits"))?)
                        }
                        "doubleValue" => Any::Double(map.next_value::<Real>()?.0),
                        "bytesValue" => {
                            let text: String = map.next_value()?;
                            let bytes = STANDARD.decode(text).map_err(|_| A::Error::custom("is no base64"))?;
                            Any::Bytes(Cow::Owned(bytes))
                        }
                        "arrayValue" => Any::Array(map.next_value::<Values<'de>>()?.values.unwrap_or_default()),
                        "kvlistValue" => Any::Object(pairs(map.next_value::<PairValues<'de>>()?.values)),
                        _ => {
                            map.next_value::<IgnoredAny>()?;
                            any
                        }
                    };
                }
                Ok(any)
            }
        }
        input.deserialize_any(Kinds)
    }
}
