//! Loki's JSON:
//!
//! ```text
//! {"streams": [{"stream": {"job": "api"}, "values": [["1700000000000000000", "the line", {"trace_id": "…"}]]}]}
//! ```
//!
//! The times are nanoseconds, as text. Each value is cut out as it is written before anything is read of it.

use super::super::raws::Raws;
use super::super::taking::Taking;
use super::{Entry, Refusal, Stream};
use daytable_model::time::Ticks;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

#[derive(Deserialize)]
struct Push<'a> {
    #[serde(borrow)]
    streams: Raws<'a>,
}

#[derive(Deserialize)]
struct Written<'a> {
    #[serde(borrow, default)]
    stream: Option<&'a RawValue>,
    #[serde(borrow, default)]
    values: Raws<'a>,
}

/// A time, a line, and metadata where there is some.
#[derive(Deserialize)]
struct Value<'a>(#[serde(borrow)] &'a RawValue, String, #[serde(borrow, default)] Option<&'a RawValue>);

/// Takes a document apart.
pub(super) fn take(body: &[u8], taking: &mut Taking<'_>) -> Result<(), Refusal> {
    let text = taking.text_of(body)?;
    let push: Push<'_> = serde_json::from_str(&text).map_err(|error| bad(taking, &error))?;
    for stream in push.streams {
        let Written { stream, values } = serde_json::from_str(stream.get()).map_err(|error| bad(taking, &error))?;
        let labels = members(stream).map_err(|error| bad(taking, &error))?;
        let stream = Stream::new(labels, taking);
        for value in values {
            let Value(time, line, metadata) = serde_json::from_str(value.get()).map_err(|error| bad(taking, &error))?;
            let metadata = members(metadata).map_err(|error| bad(taking, &error))?;
            stream.write(Entry { time: nanos(time.get()), line: line.into(), metadata }, taking)?;
        }
    }
    Ok(())
}

fn bad(taking: &Taking<'_>, error: &serde_json::Error) -> Refusal {
    Refusal::bad_at(taking.index(), format!("the body is no push request: {error}"))
}

/// Nanoseconds since the epoch, as text or as a number; none where they are neither, or zero.
fn nanos(written: &str) -> Option<Ticks> {
    let nanos: i128 = written.trim_matches('"').parse().ok()?;
    Ticks::from_unix_nanos(nanos).filter(|time| *time != Ticks::UNIX_EPOCH)
}

/// The members of an object, their values as text; a value that is none stays as it is written.
fn members<'a>(object: Option<&'a RawValue>) -> serde_json::Result<Vec<(Cow<'a, str>, Cow<'a, str>)>> {
    let Some(object) = object else { return Ok(Vec::new()) };
    let members: Members<'a> = serde_json::from_str(object.get())?;
    Ok(members.0)
}

/// The members of an object in their order.
struct Members<'a>(Vec<(Cow<'a, str>, Cow<'a, str>)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: serde::Deserializer<'de>>(input: D) -> Result<Self, D::Error> {
        struct Object;
        impl<'de> serde::de::Visitor<'de> for Object {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: serde::de::MapAccess<'de>>(self, mut map: A) -> Result<Members<'de>, A::Error> {
                let mut members = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, &'de RawValue>()? {
                    let value = match serde_json::from_str::<String>(value.get()) {
                        Ok(text) => Cow::Owned(text),
                        Err(_) => Cow::Borrowed(value.get()),
                    };
                    members.push((Cow::Owned(name), value));
                }
                Ok(Members(members))
            }
        }
        input.deserialize_map(Object)
    }
}
