//! `POST /v1/logs`: OTLP, as SDKs of OpenTelemetry and its Collector send it, in protocol buffers or JSON.
//!
//! | of the log record | becomes |
//! |---|---|
//! | `time_unix_nano`, else `observed_time_unix_nano` | the time; an observed time that differs stays as `observed_time` |
//! | `severity_number`, else `severity_text` | the level; a text that is no word for it stays as `severity_text` |
//! | `body` | the message; an object is taken apart as a JSON line is |
//! | attributes of the record, its scope, its resource | fields by their names: objects flattened with dots, arrays as JSON, bytes as bytes |
//! | `trace_id`, `span_id`, `flags`, `event_name`, scope's name and version | `trace_id`, `span_id` (hex), `trace_flags`, `event_name`, `scope.name`, `scope.version` |
//!
//! A body that is a text and has no severity is a line that a collector read: it is read as a line of a file is, and the
//! time that the record has comes before that of its text, which then stays as the field `time`. The instance is
//! the resource's `k8s.pod.name`, `host.name`, `service.instance.id` or `service.name`, the first of them that there is,
//! else the sender's address.
//!
//! A record that cannot be read is refused alone, and told as a partial success.

mod json;
mod proto;
mod value;

use super::taking::{Instance, RECORD_BYTES_MAX, Taking};
use super::wire::{put_bytes, put_number};
use super::{Refusal, essence};
use daytable_model::record::{Level, Record, Value};
use daytable_model::time::Ticks;
use daytable_parse::{Envelope, Said, compose, level_of_severity};
use std::borrow::Cow;
use value::{Any, Members, bytes_of, flatten};

/// Attributes of a resource that name the instance, the first of them first.
const INSTANCE: [&str; 4] = ["k8s.pod.name", "host.name", "service.instance.id", "service.name"];

/// What a request is written in, and its answer with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::push) enum Form {
    /// `application/x-protobuf`
    Protobuf,
    /// `application/json`
    Json,
}

impl Form {
    /// By the content type.
    ///
    /// # Errors
    ///
    /// Any other is refused, as the specification has it.
    pub(super) fn read(media: &str) -> Result<Form, Refusal> {
        match &*essence(media) {
            "application/x-protobuf" | "application/protobuf" => Ok(Form::Protobuf),
            "application/json" => Ok(Form::Json),
            other => {
                Err(Refusal::Media(other.chars().take(64).collect(), "application/x-protobuf and application/json are"))
            }
        }
    }

    /// The content type of an answer.
    pub(super) const fn media(self) -> &'static str {
        match self {
            Form::Protobuf => "application/x-protobuf",
            Form::Json => "application/json",
        }
    }

    /// `ExportLogsServiceResponse`: empty, or a partial success.
    pub(super) fn response(self, refused: u32, reason: &str) -> Vec<u8> {
        match self {
            Form::Json if refused == 0 => b"{}".to_vec(),
            // A 64-bit number is a text in this JSON.
            Form::Json => serde_json::json!({ "partialSuccess": {
                "rejectedLogRecords": refused.to_string(),
                "errorMessage": reason,
            } })
            .to_string()
            .into_bytes(),
            Form::Protobuf if refused == 0 => Vec::new(),
            Form::Protobuf => {
                let (mut partial, mut response) = (Vec::new(), Vec::new());
                put_number(&mut partial, 1, refused.into());
                put_bytes(&mut partial, 2, reason.as_bytes());
                put_bytes(&mut response, 1, &partial);
                response
            }
        }
    }

    /// `google.rpc.Status`, which says why a request is refused.
    pub(super) fn status(self, code: u32, reason: &str) -> Vec<u8> {
        match self {
            Form::Json => serde_json::json!({ "code": code, "message": reason }).to_string().into_bytes(),
            Form::Protobuf => {
                let mut status = Vec::new();
                put_number(&mut status, 1, code.into());
                put_bytes(&mut status, 2, reason.as_bytes());
                status
            }
        }
    }
}

/// Takes a decoded body apart.
pub(super) fn take(body: &[u8], form: Form, taking: &mut Taking<'_>) -> Result<(), Refusal> {
    match form {
        Form::Protobuf => proto::take(body, taking),
        Form::Json => json::take(body, taking),
    }
}

/// A log record, whatever it was written in.
#[derive(Debug, Default, PartialEq)]
struct Log<'a> {
    time: u64,
    observed: u64,
    severity: i32,
    severity_text: Cow<'a, str>,
    body: Any<'a>,
    attributes: Vec<(Cow<'a, str>, Any<'a>)>,
    dropped: u32,
    flags: u32,
    /// As hex.
    trace_id: String,
    span_id: String,
    event_name: Cow<'a, str>,
}

/// What the records of a resource have in common, and what those of a scope of it have besides.
struct Origin<'a> {
    instance: Cow<'a, str>,
    resource: Members<'a>,
    scope: Members<'a>,
    /// Bytes of both.
    bytes: usize,
}

impl<'a> Origin<'a> {
    fn of_resource(attributes: Vec<(Cow<'a, str>, Any<'a>)>, taking: &Taking<'_>) -> Origin<'a> {
        let mut resource = Vec::new();
        flatten(attributes, &mut resource);
        let named = |name: &&str| {
            resource.iter().find_map(|(attribute, value)| match value {
                Value::String(text) if attribute == name && !text.is_empty() => Some(text.clone()),
                _ => None,
            })
        };
        let instance = INSTANCE.iter().find_map(named).map(|name| taking.clean(name));
        let instance = instance.unwrap_or_else(|| taking.peer().to_owned().into());
        Origin { instance, bytes: bytes_of(&resource), resource, scope: Vec::new() }
    }

    fn set_scope(&mut self, name: Cow<'a, str>, version: Cow<'a, str>, attributes: Vec<(Cow<'a, str>, Any<'a>)>) {
        self.scope.clear();
        for (field, value) in [("scope.name", name), ("scope.version", version)] {
            if !value.is_empty() {
                self.scope.push((field.into(), Value::String(value)));
            }
        }
        flatten(attributes, &mut self.scope);
        self.bytes = bytes_of(&self.resource) + bytes_of(&self.scope);
    }

    /// The first step of a record of so many bytes: whether it is one that can be read at all. What its resource and scope
    /// say is a part of it, and of every other one.
    fn fits(&self, bytes: usize, index: usize, taking: &mut Taking<'_>) -> bool {
        let fits = self.bytes.saturating_add(bytes) <= RECORD_BYTES_MAX;
        if !fits {
            taking.refuse(index, super::ingest::TOO_LONG);
        }
        fits
    }

    /// Writes a record that was begun.
    fn write(&self, index: usize, log: Log<'_>, taking: &mut Taking<'_>) {
        let (reading, _) = taking.readings();
        let now = taking.now;
        let time = at(log.time);
        let level = level_of_severity(log.severity).or_else(|| Level::from_word(&log.severity_text));
        let mut members: Members<'_> = Vec::new();
        let mut said = Said { time, level, message: None };
        let mut line = Cow::Borrowed("");
        match log.body {
            Any::Empty => {}
            Any::Text(text) if level.is_none() => line = text,
            Any::Text(text) => said.message = Some(text),
            Any::Object(body) => flatten(body, &mut members),
            Any::Bytes(bytes) => said.message = Some(String::from_utf8_lossy(&bytes).into_owned().into()),
            other => said.message = Some(other.to_json().into()),
        }
        let mut format = None;
        if !line.is_empty() {
            let parsed = taking.parse(&line, Envelope::default(), reading);
            format = Some(parsed.format);
            let Record { time, level, message, fields } = parsed.record;
            if let (Some(said), Some(own)) = (said.time, time)
                && said != own
            {
                members.push(("time".into(), Value::String(own.to_string().into())));
            }
            said = Said { time: said.time.or(time), level, message: Some(message.into_owned().into()) };
            members.extend(fields.into_iter().map(|field| (own_text(field.name), own(field.value))));
        }
        let observed = at(log.observed);
        said.time = said.time.or(observed);
        flatten(log.attributes, &mut members);
        let mut add = |name: &'static str, text: Cow<'_, str>| {
            if !text.is_empty() {
                members.push((name.into(), Value::String(text.into_owned().into())));
            }
        };
        add("event_name", log.event_name);
        add("trace_id", log.trace_id.into());
        add("span_id", log.span_id.into());
        if said.level.is_none() || Level::from_word(&log.severity_text) != said.level {
            add("severity_text", log.severity_text);
        }
        if let Some(observed) = observed.filter(|observed| Some(*observed) != said.time) {
            add("observed_time", observed.to_string().into());
        }
        for (name, number) in [("trace_flags", log.flags & 0xff), ("dropped_attributes_count", log.dropped)] {
            if number > 0 {
                members.push((name.into(), Value::Int64(number.into())));
            }
        }
        let shared = self.scope.iter().chain(&self.resource).cloned();
        let mut record = compose(said, members.into_iter().chain(shared), reading, now);
        if let Some(format) = format {
            taking.note(format, false, 0, &mut record);
        }
        taking.write(index, Instance::Is(&self.instance), record, None);
    }
}

/// Nanoseconds since the epoch; zero is not known.
fn at(nanos: u64) -> Option<Ticks> {
    if nanos == 0 { None } else { Ticks::from_unix_nanos(nanos.into()) }
}

/// Bytes as hex; none where all of them are zero, which is how an id says that there is none.
fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    if bytes.iter().any(|byte| *byte != 0) {
        for byte in bytes.iter().take(32) {
            // Writing to a string cannot fail.
            let _ = write!(text, "{byte:02x}");
        }
    }
    text
}

fn own_text(text: Cow<'_, str>) -> Cow<'static, str> {
    Cow::Owned(text.into_owned())
}

fn own(value: Value<'_>) -> Value<'static> {
    match value {
        Value::String(text) => Value::String(own_text(text)),
        Value::Binary(bytes) => Value::Binary(Cow::Owned(bytes.into_owned())),
        Value::Int64(number) => Value::Int64(number),
        Value::Double(number) => Value::Double(number),
        Value::Boolean(truth) => Value::Boolean(truth),
    }
}

#[cfg(test)]
mod tests;
