//! Loki's protocol buffers:
//! [`logproto.PushRequest`](https://github.com/grafana/loki/blob/main/pkg/push/push.proto).
//!
//! ```text
//! PushRequest    streams = 1
//! Stream         labels = 1 (text), entries = 2, hash = 3
//! Entry          timestamp = 1 (seconds = 1, nanos = 2), line = 2, structuredMetadata = 3 (name = 1, value = 2), parsed = 4
//! ```

use super::super::protobuf::{ProtobufError, fields, messages_at};
use super::super::refusal::DecodeError;
use super::super::request_writer::RequestWriter;
use super::{LokiEntry, LokiStream, labels_of};
use daytable_model::time::Ticks;
use std::borrow::Cow;

/// Writes the entries of a message.
pub(super) fn decode(message: &[u8], writer: &mut RequestWriter<'_>) -> Result<(), DecodeError> {
    for field in fields(message) {
        match field? {
            (1, value) => decode_stream(value.bytes()?, writer)?,
            (number, _) => writer.note_unread(format_args!("field {number} of the request")),
        }
    }
    Ok(())
}

fn decode_stream(message: &[u8], writer: &mut RequestWriter<'_>) -> Result<(), DecodeError> {
    let place = writer.place();
    // The labels first: they may follow the entries in the message.
    let mut written = Cow::Borrowed("");
    for text in messages_at(message, 1) {
        written = String::from_utf8_lossy(text?);
    }
    let stream = LokiStream::new(labels_of(written), writer);
    for field in fields(message) {
        match field? {
            (2, value) => {
                let entry = decode_entry(value.bytes()?, writer)?;
                stream.write(entry, writer)?;
            }
            // The labels, and their hash.
            (1 | 3, _) => {}
            (number, _) => writer.note_unread(format_args!("field {number} of a stream")),
        }
    }
    writer.unread_since(place).map_or(Ok(()), |reason| Err(DecodeError::Malformed(format!("a stream {reason}"))))
}

fn decode_entry<'a>(message: &'a [u8], writer: &mut RequestWriter<'_>) -> Result<LokiEntry<'a>, ProtobufError> {
    let mut entry = LokiEntry { time: None, nanos: 0, line: Cow::Borrowed(""), metadata: Vec::new() };
    for field in fields(message) {
        match field? {
            (1, value) => (entry.time, entry.nanos) = time(value.bytes()?)?,
            (2, value) => entry.line = value.text()?,
            (3, value) => entry.metadata.push(label(value.bytes()?)?),
            // What Loki itself found in the line.
            (4, _) => {}
            (number, _) => writer.note_unread(format_args!("field {number} of an entry")),
        }
    }
    Ok(entry)
}

fn label(message: &[u8]) -> Result<(Cow<'_, str>, Cow<'_, str>), ProtobufError> {
    let (mut name, mut text) = (Cow::Borrowed(""), Cow::Borrowed(""));
    for field in fields(message) {
        match field? {
            (1, value) => name = value.text()?,
            (2, value) => text = value.text()?,
            _ => {}
        }
    }
    Ok((name, text))
}

/// The time of a `google.protobuf.Timestamp`, and the nanoseconds below a tick. `None` for zero, which means that no time is
/// known, and out of range.
fn time(message: &[u8]) -> Result<(Option<Ticks>, u8), ProtobufError> {
    let (mut seconds, mut nanos) = (0i64, 0u64);
    for field in fields(message) {
        match field? {
            (1, value) => seconds = value.varint()?.cast_signed(),
            (2, value) => nanos = value.varint()?,
            _ => {}
        }
    }
    let nanos = u32::try_from(nanos).ok().filter(|nanos| *nanos < 1_000_000_000);
    let time = nanos.and_then(|nanos| Ticks::from_unix(seconds, nanos)).filter(|time| *time != Ticks::UNIX_EPOCH);
    let below = nanos.filter(|_| time.is_some()).and_then(|nanos| u8::try_from(nanos % 100).ok());
    Ok((time, below.unwrap_or(0)))
}
