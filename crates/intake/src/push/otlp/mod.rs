//! `POST /v1/logs`: [OTLP](https://opentelemetry.io/docs/specs/otlp/), which the SDKs and the Collector of OpenTelemetry
//! send, in protocol buffers or JSON.
//!
//! | of the log record | becomes |
//! |---|---|
//! | `time_unix_nano`, else `observed_time_unix_nano` | the time; an observed time that differs stays as `observed_time` |
//! | `severity_number`, else `severity_text` | the level; a text that is not a word for that level stays as `severity_text` |
//! | `body` | the message; the members of an object become fields, as in a JSON line |
//! | attributes of the record, its scope, its resource | fields by their names: objects flattened with dots, arrays as JSON, bytes as bytes |
//! | `trace_id`, `span_id`, `flags`, `event_name`, scope's name and version | `trace_id`, `span_id` (hex), `trace_flags`, `event_name`, `scope.name`, `scope.version` |
//!
//! A text body without a severity is a line that a collector read. It is parsed like a line of a file. The record's own time
//! has priority over the time in the line, which then stays as the field `time`.
//!
//! The *instance* (whatever writes logs: a host, a service) is the resource's `k8s.pod.name`, `host.name`, `service.name`
//! (`service.namespace/service.name` with a namespace) or `service.instance.id`, by this priority, else the sender's address.
//! The id comes last, because SDKs make a random one at each start.
//!
//! A malformed record is refused alone and reported as a partial success; a request without any other record is refused.
//!
//! Names of JSON may also be those of the protocol buffers (`resource_logs`), and the names and numbers that older versions
//! had for the same parts are known (`instrumentationLibraryLogs`). What no version had is skipped, as the specification
//! demands, and counted; the answer names it as a warning. Where a resource or a scope has nothing else, it is refused.

mod json;
mod proto;
mod value;

use super::Refusal;
use super::protobuf::{put_bytes, put_number};
use super::request::essence;
use super::request_writer::{InstanceRule, RECORD_BYTES_MAX, RequestWriter};
use super::unread_parts::UnreadParts;
use daytable_model::property::to_hex;
use daytable_model::record::{Level, Record, Value};
use daytable_model::time::Ticks;
use daytable_parse::{Envelope, ProtocolFields, compose, level_of_severity};
use std::borrow::Cow;
use value::{AnyValue, Attributes, FieldList, bytes_of, flatten};

/// Attributes of a resource that name the instance, by priority.
const INSTANCE: [&str; 4] = ["k8s.pod.name", "host.name", "service.name", "service.instance.id"];

/// The encoding of a request and of its answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::push) enum OtlpFormat {
    /// `application/x-protobuf`
    Protobuf,
    /// `application/json`
    Json,
}

impl OtlpFormat {
    /// The format of a content type.
    ///
    /// # Errors
    ///
    /// [`Refusal::Media`] for any other content type, as the specification says.
    pub(super) fn read(media: &str) -> Result<OtlpFormat, Refusal> {
        match &*essence(media) {
            "application/x-protobuf" | "application/protobuf" => Ok(OtlpFormat::Protobuf),
            "application/json" => Ok(OtlpFormat::Json),
            other => {
                Err(Refusal::Media(other.chars().take(64).collect(), "application/x-protobuf and application/json are"))
            }
        }
    }

    /// The content type of an answer.
    pub(super) const fn media(self) -> &'static str {
        match self {
            OtlpFormat::Protobuf => "application/x-protobuf",
            OtlpFormat::Json => "application/json",
        }
    }

    /// `ExportLogsServiceResponse`: empty, or a partial success. A reason without refused records is a warning.
    pub(super) fn response(self, refused: u32, reason: &str) -> Vec<u8> {
        match self {
            OtlpFormat::Json if refused == 0 && reason.is_empty() => b"{}".to_vec(),
            // A number of 64 bits is a text in this JSON.
            OtlpFormat::Json => serde_json::json!({ "partialSuccess": {
                "rejectedLogRecords": refused.to_string(),
                "errorMessage": reason,
            } })
            .to_string()
            .into_bytes(),
            OtlpFormat::Protobuf if refused == 0 && reason.is_empty() => Vec::new(),
            OtlpFormat::Protobuf => {
                let mut response = Vec::new();
                put_bytes(&mut response, 1, &number_and_text(refused, reason));
                response
            }
        }
    }

    /// `google.rpc.Status`: why a request is refused.
    pub(super) fn status(self, code: u32, reason: &str) -> Vec<u8> {
        match self {
            OtlpFormat::Json => serde_json::json!({ "code": code, "message": reason }).to_string().into_bytes(),
            OtlpFormat::Protobuf => number_and_text(code, reason),
        }
    }
}

/// `ExportLogsPartialSuccess` or `google.rpc.Status`: both have a number and a text.
fn number_and_text(number: u32, text: &str) -> Vec<u8> {
    let mut message = Vec::new();
    put_number(&mut message, 1, number.into());
    put_bytes(&mut message, 2, text.as_bytes());
    message
}

/// Writes the log records of a body.
pub(super) fn write(body: &[u8], format: OtlpFormat, writer: &mut RequestWriter<'_>) -> Result<(), Refusal> {
    let place = writer.place();
    let decoded = match format {
        OtlpFormat::Protobuf => proto::decode(body, writer),
        OtlpFormat::Json => json::decode(body, writer),
    };
    decoded.map_err(|error| error.refusal("an export request", writer.index()))?;
    writer.refuse_unread_since(place)
}

/// A log record in either encoding.
#[derive(Debug, Default, PartialEq)]
struct LogRecord<'a> {
    time: u64,
    observed: u64,
    severity: i32,
    severity_text: Cow<'a, str>,
    body: AnyValue<'a>,
    attributes: Attributes<'a>,
    dropped: u32,
    flags: u32,
    /// In hex.
    trace_id: String,
    /// In hex.
    span_id: String,
    event_name: Cow<'a, str>,
    /// The fields that are not known here.
    unread: UnreadParts,
}

/// The properties that all records of a scope share.
struct ScopeContext<'a> {
    instance: Cow<'a, str>,
    resource: FieldList<'a>,
    scope: FieldList<'a>,
    /// The bytes of both lists.
    bytes: usize,
}

impl<'a> ScopeContext<'a> {
    /// The context of a resource, before its first scope.
    fn new(attributes: Attributes<'a>, writer: &mut RequestWriter<'_>) -> ScopeContext<'a> {
        let (mut resource, mut unread) = (Vec::new(), UnreadParts::default());
        flatten(attributes, &mut resource, &mut unread);
        writer.note_unread_parts(unread);
        let text_of = |name: &&str| {
            resource.iter().find_map(|(attribute, value)| match value {
                Value::String(text) if attribute == name && !text.is_empty() => Some(text.clone()),
                _ => None,
            })
        };
        let named = |name: &&str| match (*name, text_of(&"service.namespace")) {
            ("service.name", Some(namespace)) => Some(format!("{namespace}/{}", text_of(name)?).into()),
            _ => text_of(name),
        };
        let instance = INSTANCE.iter().find_map(named).map(|name| writer.redact(name));
        let instance = instance.unwrap_or_else(|| writer.peer().to_owned().into());
        ScopeContext { instance, bytes: bytes_of(&resource), resource, scope: Vec::new() }
    }

    fn set_scope(
        &mut self,
        name: Cow<'a, str>,
        version: Cow<'a, str>,
        attributes: Attributes<'a>,
        writer: &mut RequestWriter<'_>,
    ) {
        self.scope.clear();
        for (field, value) in [("scope.name", name), ("scope.version", version)] {
            if !value.is_empty() {
                self.scope.push((field.into(), Value::String(value)));
            }
        }
        let mut unread = UnreadParts::default();
        flatten(attributes, &mut self.scope, &mut unread);
        writer.note_unread_parts(unread);
        self.bytes = bytes_of(&self.resource) + bytes_of(&self.scope);
    }

    /// Whether a record of this many bytes is within the limit. Its resource and its scope count, because they are part
    /// of every record. Refuses a longer record.
    fn fits(&self, bytes: usize, index: usize, writer: &mut RequestWriter<'_>) -> bool {
        let fits = self.bytes.saturating_add(bytes) <= RECORD_BYTES_MAX;
        if !fits {
            writer.refuse(index, super::request_writer::TOO_LONG);
        }
        fits
    }

    /// Writes the record with this index.
    fn write(&self, index: usize, log: LogRecord<'_>, writer: &mut RequestWriter<'_>) {
        let mut unread = log.unread;
        let (reading, _) = writer.readings();
        let now = writer.now;
        let observed = ticks(log.observed);
        let level = level_of_severity(log.severity).or_else(|| Level::from_word(&log.severity_text));
        let mut fields: FieldList<'_> = Vec::new();
        let mut protocol = ProtocolFields { time: ticks(log.time), level, message: None };
        let mut line = Cow::Borrowed("");
        match log.body {
            AnyValue::Empty => {}
            AnyValue::Unread => unread.note("a body of an unknown kind"),
            AnyValue::Text(text) if level.is_none() => line = text,
            AnyValue::Text(text) => protocol.message = Some(text),
            AnyValue::Object(body) => flatten(body, &mut fields, &mut unread),
            AnyValue::Bytes(bytes) => {
                // Base64, as OTLP's own JSON has bytes, so that they can be had back.
                let text = String::from_utf8(bytes.into_owned());
                protocol.message = Some(text.map_or_else(
                    |bytes| AnyValue::Bytes(bytes.into_bytes().into()).to_json(&mut unread).into(),
                    Cow::Owned,
                ));
            }
            other => protocol.message = Some(other.to_json(&mut unread).into()),
        }
        let mut format = None;
        if !line.is_empty() {
            let parsed = writer.parse(&line, Envelope::default(), reading);
            format = Some(parsed.format);
            // The body is the line, and the message is whole.
            let whole = Cow::Owned(parsed.record.whole_message().to_owned());
            let Record { time, level, message, fields: own, .. } = parsed.record;
            let message = if *message == *whole { message } else { whole };
            if let (Some(sent), Some(own)) = (protocol.time, time)
                && sent != own
            {
                fields.push(("time".into(), Value::String(own.to_string().into())));
            }
            protocol = ProtocolFields { time: protocol.time.or(time), level, message: Some(message) };
            fields.extend(own.into_iter().map(|field| (field.name, field.value)));
        }
        protocol.time = protocol.time.or(observed);
        flatten(log.attributes, &mut fields, &mut unread);
        let severity_text = match protocol.level {
            Some(level) if Level::from_word(&log.severity_text) == Some(level) => Cow::Borrowed(""),
            _ => log.severity_text,
        };
        let observed = observed.filter(|observed| Some(*observed) != protocol.time);
        for (name, text) in [
            ("event_name", log.event_name),
            ("trace_id", log.trace_id.into()),
            ("span_id", log.span_id.into()),
            ("severity_text", severity_text),
            ("observed_time", observed.map(|observed| observed.to_string()).unwrap_or_default().into()),
        ] {
            if !text.is_empty() {
                fields.push((name.into(), Value::String(text)));
            }
        }
        for (name, number) in [("trace_flags", log.flags & 0xff), ("dropped_attributes_count", log.dropped)] {
            if number > 0 {
                fields.push((name.into(), Value::Int64(number.into())));
            }
        }
        let shared = self.scope.iter().chain(&self.resource).cloned();
        let mut record = compose(protocol, fields.into_iter().chain(shared), reading, now);
        if let Some(format) = format {
            writer.count_record(format, false, 0, &mut record);
        }
        writer.write(index, InstanceRule::Fixed(&self.instance), record, None);
        writer.note_unread_parts(unread);
    }
}

/// The time of nanoseconds since the epoch. Zero means that no time is known.
fn ticks(nanos: u64) -> Option<Ticks> {
    if nanos == 0 { None } else { Ticks::from_unix_nanos(nanos.into()) }
}

/// An id in hex. An id of zeros means that no id is known, and becomes empty.
fn hex(bytes: &[u8]) -> String {
    let is_known = bytes.iter().any(|byte| *byte != 0);
    if is_known { to_hex(&bytes[..bytes.len().min(32)]) } else { String::new() }
}

#[cfg(test)]
mod tests;
