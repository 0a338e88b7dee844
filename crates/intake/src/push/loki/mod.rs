//! `POST /loki/api/v1/push`: the [push API of Loki](https://grafana.com/docs/loki/latest/reference/loki-http-api/#ingest-logs),
//! which Promtail, Alloy, Fluent Bit, Vector and Docker's driver use.
//!
//! A body is protocol buffers in a block of snappy, or JSON. A line is parsed like a line of a file. The time of the entry is
//! the time of the record. Another time in the line stays as the field `time`. Labels and structured metadata become
//! fields. The level is that of the line, else that of the label `level`, `detected_level` or `severity`. The instance is the
//! label `instance`, `host`, `hostname`, `pod`, `node_name`, `service_name` or `job`, by this priority, else the sender's
//! address.
//!
//! The labels, the names of the metadata and the nanoseconds of the time are kept in a note beside the fields, so that an entry
//! comes back from the routes of Loki as it was pushed.
//!
//! An entry whose stream, time and line are stored already is not stored again, as in Loki, so a client may repeat what it
//! got no answer to. The committer decides that; an entry without a time is never a repeat.
//!
//! The protocol cannot report a single refused entry, so daytable avoids such refusals. Malformed labels stay as the field
//! `labels`. An entry of the time zero has the time of its line or of its arrival. Fields that no version of the
//! protocol has are counted; a stream that has nothing else refuses the body.

mod json;
mod labels;
mod proto;

use super::encoding::unblock;
use super::request::essence;
use super::request_writer::{InstanceRule, RECORD_BYTES_MAX, RequestWriter};
use super::{Encoding, PushSettings, Refusal};
use daytable_model::record::{Field, Level, Record, Value};
use daytable_model::stream::{PushedStream, StreamNote};
use daytable_model::time::Ticks;
use daytable_parse::RawRecord;
use daytable_store::entry::{DestinationHash, EntryText, StreamHash};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Labels that name the instance, by priority.
const INSTANCE: [&str; 7] = ["instance", "host", "hostname", "pod", "node_name", "service_name", "job"];
/// Labels that give the level if the text does not.
const LEVEL: [&str; 3] = ["level", "detected_level", "severity"];

/// Writes the entries of a body.
pub(super) fn write(
    body: &[u8],
    media: &str,
    encoding: Encoding,
    settings: &PushSettings,
    writer: &mut RequestWriter<'_>,
) -> Result<(), Refusal> {
    let is_json = match &*essence(media) {
        "application/json" => true,
        "application/x-protobuf" | "application/protobuf" | "" => false,
        // `curl -d` sends another content type.
        _ => body.trim_ascii_start().starts_with(b"{"),
    };
    let place = writer.place();
    let decoded = match is_json {
        true => json::decode(body, writer),
        false => match unblock(body, settings.limits.decoded_bytes_max, |bytes| writer.reserve(bytes)) {
            Ok(message) => proto::decode(&message, writer),
            // The header said once more what the protocol says, and the one block is decoded.
            Err(Refusal::Bad { .. }) if encoding == Encoding::Snappy => proto::decode(body, writer),
            Err(refusal) => return Err(refusal),
        },
    };
    decoded.map_err(|error| error.refusal("a push request", writer.index()))?;
    writer.unread_since(place).map_or(Ok(()), |reason| Err(Refusal::bad(format!("the body {reason}"))))
}

/// The labels of a stream, as they are written. Labels that cannot be read stay as the label `labels`.
fn labels_of<'a>(written: Cow<'_, str>) -> Vec<(Cow<'a, str>, Cow<'a, str>)> {
    match labels::parse(&written) {
        Some(labels) => labels.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
        None if written.is_empty() => Vec::new(),
        None => vec![("labels".into(), written.into_owned().into())],
    }
}

/// The labels of a stream, which belong to each of its entries.
struct LokiStream<'a> {
    fields: Vec<Field<'a>>,
    instance: Cow<'a, str>,
    level: Option<Level>,
    /// The labels by name, as the answers to Loki's queries return them.
    labels: BTreeMap<String, String>,
    /// The note of the entry before: entries that follow each other usually have the same metadata.
    note: RefCell<(Vec<String>, Arc<str>)>,
    /// The bytes of the labels.
    bytes: usize,
    /// By which its entries are compared.
    hash: (StreamHash, DestinationHash),
}

/// An entry of a stream.
struct LokiEntry<'a> {
    time: Option<Ticks>,
    /// Nanoseconds below a tick.
    nanos: u8,
    line: Cow<'a, str>,
    metadata: Vec<(Cow<'a, str>, Cow<'a, str>)>,
}

/// The text of a value.
fn text_of(value: Value<'_>) -> Option<Cow<'_, str>> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// The bytes of names and values.
fn bytes_of(labels: &[(Cow<'_, str>, Cow<'_, str>)]) -> usize {
    labels.iter().map(|(name, value)| name.len() + value.len()).sum()
}

impl<'a> LokiStream<'a> {
    fn new(labels: Vec<(Cow<'a, str>, Cow<'a, str>)>, writer: &RequestWriter<'_>) -> LokiStream<'a> {
        let clean = |(name, value)| {
            let Field { name, value } = writer.clean_field(name, value);
            Some((name, text_of(value)?))
        };
        let labels: Vec<_> = labels.into_iter().filter_map(clean).collect();
        let of = |name: &str| labels.iter().find(|(label, value)| label == name && !value.is_empty());
        let instance = INSTANCE.iter().find_map(|name| of(name)).map(|(_, value)| value.clone());
        let level = LEVEL.iter().find_map(|name| of(name).and_then(|(_, value)| Level::from_word(value)));
        let instance = instance.unwrap_or_else(|| Cow::Owned(writer.peer().to_owned()));
        let by_name = labels.iter().map(|(name, value)| (name.to_string(), value.to_string())).collect();
        LokiStream {
            bytes: bytes_of(&labels),
            hash: (StreamHash::of(&by_name), writer.destination(&instance)),
            instance,
            level,
            labels: by_name,
            note: RefCell::default(),
            fields: labels.into_iter().map(|(name, value)| Field { name, value: Value::String(value) }).collect(),
        }
    }

    /// The note of an entry with metadata of these names, whose line ended in `end`.
    fn note_of(&self, names: Vec<String>, end: &str) -> Arc<str> {
        if !end.is_empty() {
            return PushedStream(self.labels.clone(), names, end.to_owned()).text().into();
        }
        let mut last = self.note.borrow_mut();
        if last.1.is_empty() || last.0 != names {
            let stream = PushedStream(self.labels.clone(), names, String::new());
            let text = stream.text().into();
            *last = (stream.1, text);
        }
        last.1.clone()
    }

    fn write(&self, entry: LokiEntry<'_>, writer: &mut RequestWriter<'_>) -> Result<(), Refusal> {
        let index = writer.begin()?;
        // Only the line can be cut. The labels are part of every entry.
        if self.bytes + bytes_of(&entry.metadata) > RECORD_BYTES_MAX {
            return Err(Refusal::TooLarge(format!(
                "{RECORD_BYTES_MAX} bytes of labels and metadata, at entry {index}"
            )));
        }
        let is_invalid = entry.line.contains(char::REPLACEMENT_CHARACTER) && matches!(entry.line, Cow::Owned(_));
        let text = entry.line.trim_end_matches(['\n', '\r']);
        let (reading, _) = writer.readings();
        let raw = RawRecord::of_long_message(text, RECORD_BYTES_MAX, reading.redactor.as_ref());
        let parsed = writer.parse_raw(&raw, reading);
        let mut record: Record<'_> = parsed.record;
        if let Some(time) = entry.time
            && let Some(other) = record.time.replace(time).filter(|other| *other != time)
        {
            record.fields.push(Field { name: "time".into(), value: Value::String(other.to_string().into()) });
        }
        writer.count_record(parsed.format, is_invalid, raw.cut_bytes(), &mut record);
        let (mut level, mut names) = (None, Vec::with_capacity(entry.metadata.len()));
        let metadata: Vec<Field<'_>> = entry
            .metadata
            .into_iter()
            .map(|(name, value)| {
                let field = writer.clean_field(name, value);
                if LEVEL.contains(&&*field.name)
                    && let Value::String(value) = &field.value
                {
                    level = level.or_else(|| Level::from_word(value));
                }
                names.push(field.name.to_string());
                field
            })
            .collect();
        // First, because the first of two fields with one name keeps it, and the metadata is found again by its names.
        record.fields.splice(0..0, metadata);
        record.level = record.level.or(level).or(self.level);
        record.fields.extend(self.fields.iter().cloned());
        let end = &entry.line[text.len()..];
        // A time of arrival is another one each time.
        if let Some(time) = entry.time {
            let line = record.line.as_ref().map_or(&*record.message, |line| &line.text);
            writer.note_entry(index, self.hash, &EntryText { time, nanos: entry.nanos, line, end });
        }
        let note = self.note_of(names, end);
        record.stream = Some(Box::new(StreamNote { text: Cow::Borrowed(&note), nanos: entry.nanos }));
        writer.write(index, InstanceRule::Fixed(&self.instance), record, None);
        Ok(())
    }
}

#[cfg(test)]
mod tests;
