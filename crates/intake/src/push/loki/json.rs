//! Loki's JSON:
//!
//! ```text
//! {"streams": [{"stream": {"job": "api"}, "values": [["1700000000000000000", "the line", {"trace_id": "…"}]]}]}
//! {"streams": [{"labels": "{job=\"api\"}", "entries": [{"ts": "2023-11-14T22:13:20Z", "line": "the line"}]}]}
//! ```
//!
//! The second form is that of Loki before its first version, which has the names of the protocol buffers. A time is a text
//! with nanoseconds since the epoch, or RFC 3339; zero means that none is known. Other members are noted, and a stream that has no others is malformed.

use super::super::raw_json::{RawElements, RawMembers, TextMembers};
use super::super::refusal::DecodeError;
use super::super::request_writer::RequestWriter;
use super::{LokiEntry, LokiStream, labels_of};
use daytable_model::time::Ticks;
use daytable_parse::rfc3339;
use serde::Deserialize;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// The members of a metadata label that has a name and a value of its own.
#[derive(Deserialize)]
struct NamedLabel {
    name: String,
    value: String,
}

/// A time, a line, and optional metadata.
#[derive(Deserialize)]
struct EntryArray<'a>(#[serde(borrow)] &'a RawValue, String, #[serde(borrow, default)] Option<TextMembers<'a>>);

/// Writes the entries of a document.
pub(super) fn decode(body: &[u8], writer: &mut RequestWriter<'_>) -> Result<(), DecodeError> {
    let text = writer.text_of(body)?;
    let mut has_streams = false;
    for (name, value) in serde_json::from_str::<RawMembers<'_>>(&text)?.0 {
        if name != "streams" {
            writer.note_unread(name);
            continue;
        }
        has_streams = true;
        for stream in serde_json::from_str::<RawElements<'_>>(value.get())?.0 {
            decode_stream(stream, writer)?;
        }
    }
    if has_streams { Ok(()) } else { Err(DecodeError::Malformed("it has no streams".into())) }
}

fn decode_stream(stream: &RawValue, writer: &mut RequestWriter<'_>) -> Result<(), DecodeError> {
    let place = writer.place();
    let (mut labels, mut entries) = (Vec::new(), Vec::new());
    for (name, value) in serde_json::from_str::<RawMembers<'_>>(stream.get())?.0 {
        match &*name {
            "stream" => labels = serde_json::from_str::<Option<TextMembers<'_>>>(value.get())?.unwrap_or_default().0,
            "labels" => {
                let written = serde_json::from_str::<Option<String>>(value.get())?.unwrap_or_default();
                labels = labels_of(Cow::Owned(written));
            }
            "values" | "entries" if entries.is_empty() => {
                entries = serde_json::from_str::<Option<RawElements<'_>>>(value.get())?.unwrap_or_default().0;
            }
            _ => writer.note_unread(name),
        }
    }
    let stream = LokiStream::new(labels, writer);
    for entry in entries {
        let entry = decode_entry(entry, writer)?;
        stream.write(entry, writer)?;
    }
    // The protocol cannot name a stream of several that is refused.
    writer.unread_since(place).map_or(Ok(()), |reason| Err(DecodeError::Malformed(format!("a stream {reason}"))))
}

fn decode_entry<'a>(entry: &'a RawValue, writer: &mut RequestWriter<'_>) -> Result<LokiEntry<'a>, DecodeError> {
    if entry.get().starts_with('[') {
        let EntryArray(time, line, metadata) = serde_json::from_str(entry.get())?;
        let (time, nanos) = time_of(time.get())?.unzip();
        let metadata = metadata.unwrap_or_default().0;
        return Ok(LokiEntry { time, nanos: nanos.unwrap_or(0), line: line.into(), metadata });
    }
    let (mut time, mut line, mut metadata) = (None, None, Vec::new());
    for (name, value) in serde_json::from_str::<RawMembers<'_>>(entry.get())?.0 {
        match &*name {
            "ts" | "timestamp" => time = time_of(value.get())?,
            "line" => line = Some(serde_json::from_str::<String>(value.get())?),
            "structuredMetadata" if value.get().starts_with('[') => {
                let named = serde_json::from_str::<Vec<NamedLabel>>(value.get())?;
                metadata = named.into_iter().map(|label| (label.name.into(), label.value.into())).collect();
            }
            "structuredMetadata" => {
                metadata = serde_json::from_str::<Option<TextMembers<'_>>>(value.get())?.unwrap_or_default().0;
            }
            _ => writer.note_unread(name),
        }
    }
    let line = line.ok_or_else(|| DecodeError::Malformed("an entry has no line".into()))?;
    let (time, nanos) = time.unzip();
    Ok(LokiEntry { time, nanos: nanos.unwrap_or(0), line: line.into(), metadata })
}

/// The time of a text or a number with nanoseconds since the epoch, or of a text as RFC 3339 has it; and the nanoseconds
/// below a tick. `None` for zero, which means that no time is known.
fn time_of(json: &str) -> Result<Option<(Ticks, u8)>, DecodeError> {
    let written = json.trim_matches('"');
    let of_nanos = |nanos: i128| Some((Ticks::from_unix_nanos(nanos)?, u8::try_from(nanos.rem_euclid(100)).ok()?));
    let time = match written.parse::<i128>() {
        Ok(0) => return Ok(None),
        Ok(nanos) => of_nanos(nanos),
        Err(_) => rfc3339(written).map(|time| (time, 0)),
    };
    let shown = json.get(..json.floor_char_boundary(100)).unwrap_or_default();
    let reason = || format!("the time {shown} of an entry is neither nanoseconds since 1970 nor RFC 3339");
    Ok(Some(time.ok_or_else(|| DecodeError::Malformed(reason()))?).filter(|(time, _)| *time != Ticks::UNIX_EPOCH))
}
