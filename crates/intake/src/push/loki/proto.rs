//! Loki's protocol buffers:
//! [`logproto.PushRequest`](https://github.com/grafana/loki/blob/main/pkg/push/push.proto).
//!
//! ```text
//! PushRequest    streams = 1
//! Stream         labels = 1 (text), entries = 2
//! Entry          timestamp = 1 (seconds = 1, nanos = 2), line = 2, structuredMetadata = 3 (name = 1, value = 2)
//! ```

use super::super::protobuf::{ProtobufError, fields, messages_at};
use super::super::refusal::DecodeError;
use super::super::request_writer::RequestWriter;
use super::{LokiEntry, LokiStream, labels};
use daytable_model::time::Ticks;
use std::borrow::Cow;

/// Writes the entries of a message.
pub(super) fn decode(message: &[u8], writer: &mut RequestWriter<'_>) -> Result<(), DecodeError> {
    for stream in messages_at(message, 1) {
        let stream = stream?;
        // The labels first: they may follow the entries in the message.
        let mut written: Cow<'_, str> = Cow::Borrowed("");
        for text in messages_at(stream, 1) {
            written = String::from_utf8_lossy(text?);
        }
        let labels = match labels::parse(&written) {
            Some(labels) => labels.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            None if written.is_empty() => Vec::new(),
            None => vec![("labels".into(), written)],
        };
        let labels = LokiStream::new(labels, writer);
        for entry in messages_at(stream, 2) {
            labels.write(decode_entry(entry?)?, writer)?;
        }
    }
    Ok(())
}

fn decode_entry(message: &[u8]) -> Result<LokiEntry<'_>, ProtobufError> {
    let mut entry = LokiEntry { time: None, nanos: 0, line: Cow::Borrowed(""), metadata: Vec::new() };
    for field in fields(message) {
        match field? {
            (1, value) => (entry.time, entry.nanos) = time(value.bytes()?)?,
            (2, value) => entry.line = value.text()?,
            (3, value) => {
                let (mut name, mut text) = (Cow::Borrowed(""), Cow::Borrowed(""));
                for field in fields(value.bytes()?) {
                    match field? {
                        (1, value) => name = value.text()?,
                        (2, value) => text = value.text()?,
                        _ => {}
                    }
                }
                entry.metadata.push((name, text));
            }
            _ => {}
        }
    }
    Ok(entry)
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
