//! Loki's JSON:
//!
//! ```text
//! {"streams": [{"stream": {"job": "api"}, "values": [["1700000000000000000", "the line", {"trace_id": "…"}]]}]}
//! ```
//!
//! A time is a text with nanoseconds since the epoch.

use super::super::raw_json::{RawElements, TextMembers};
use super::super::refusal::DecodeError;
use super::super::request_writer::RequestWriter;
use super::{LokiEntry, LokiStream};
use daytable_model::time::Ticks;
use serde::Deserialize;
use serde_json::value::RawValue;

#[derive(Deserialize)]
struct PushBody<'a> {
    #[serde(borrow)]
    streams: RawElements<'a>,
}

#[derive(Deserialize)]
struct StreamBody<'a> {
    #[serde(borrow, default)]
    stream: Option<TextMembers<'a>>,
    #[serde(borrow, default)]
    values: RawElements<'a>,
}

/// A time, a line, and optional metadata.
#[derive(Deserialize)]
struct EntryBody<'a>(#[serde(borrow)] &'a RawValue, String, #[serde(borrow, default)] Option<TextMembers<'a>>);

/// Writes the entries of a document.
pub(super) fn decode(body: &[u8], writer: &mut RequestWriter<'_>) -> Result<(), DecodeError> {
    let text = writer.text_of(body)?;
    for stream in serde_json::from_str::<PushBody<'_>>(&text)?.streams.0 {
        let StreamBody { stream, values } = serde_json::from_str(stream.get())?;
        let stream = LokiStream::new(stream.unwrap_or_default().0, writer);
        for value in values.0 {
            let EntryBody(time, line, metadata) = serde_json::from_str(value.get())?;
            let metadata = metadata.unwrap_or_default().0;
            let (time, nanos) = nanos(time.get()).unzip();
            let entry = LokiEntry { time, nanos: nanos.unwrap_or(0), line: line.into(), metadata };
            stream.write(entry, writer)?;
        }
    }
    Ok(())
}

/// The time of a text or a number with nanoseconds since the epoch, and the nanoseconds below a tick. `None` for zero, which
/// means that no time is known.
fn nanos(written: &str) -> Option<(Ticks, u8)> {
    let nanos: i128 = written.trim_matches('"').parse().ok()?;
    let time = Ticks::from_unix_nanos(nanos).filter(|time| *time != Ticks::UNIX_EPOCH)?;
    Some((time, u8::try_from(nanos.rem_euclid(100)).unwrap_or(0)))
}
