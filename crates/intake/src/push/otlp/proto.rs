//! OTLP's protocol buffers:
//! [`ExportLogsServiceRequest`](https://github.com/open-telemetry/opentelemetry-proto/blob/main/opentelemetry/proto/logs/v1/logs.proto).
//!
//! ```text
//! request        resource_logs = 1
//! ResourceLogs   resource = 1 (attributes = 1), scope_logs = 2
//! ScopeLogs      scope = 1 (name = 1, version = 2, attributes = 3), log_records = 2
//! LogRecord      time = 1, severity_number = 2, severity_text = 3, body = 5, attributes = 6, dropped = 7, flags = 8,
//!                trace_id = 9, span_id = 10, observed_time = 11, event_name = 12
//! KeyValue       key = 1, value = 2
//! older          ResourceLogs: scope_logs = 1000. LogRecord: event_name = 4
//! AnyValue       string = 1, bool = 2, int = 3, double = 4, array = 5 (values = 1), kvlist = 6 (values = 1), bytes = 7
//! ```

use super::super::protobuf::{ProtobufError, fields, messages_at};
use super::super::refusal::DecodeError;
use super::super::request_writer::RequestWriter;
use super::value::{AnyValue, Attributes, DEPTH_MAX};
use super::{LogRecord, ScopeContext, hex};
use std::borrow::Cow;

/// The number of `scope_logs`, and the number that scopes had under their former name, when they were instrumentation
/// libraries.
const SCOPES: [u64; 2] = [2, 1000];

/// Writes the log records of a message. The resource and the scope are decoded before the records, because they may follow
/// the records in the message.
pub(super) fn decode(message: &[u8], writer: &mut RequestWriter<'_>) -> Result<(), DecodeError> {
    for field in fields(message) {
        match field? {
            (1, value) => decode_resource(value.bytes()?, writer)?,
            (number, _) => writer.note_unread(format_args!("field {number} of the request")),
        }
    }
    Ok(())
}

fn decode_resource(message: &[u8], writer: &mut RequestWriter<'_>) -> Result<(), DecodeError> {
    let place = writer.place();
    let mut attributes = Vec::new();
    for resource in messages_at(message, 1) {
        let resource = resource?;
        attributes.extend(attributes_at(resource, 1)?);
        for field in fields(resource) {
            let (number, _) = field?;
            // The attributes, the number of dropped attributes, and references to entities.
            if !matches!(number, 1..=3) {
                writer.note_unread(format_args!("field {number} of a resource"));
            }
        }
    }
    let mut context = ScopeContext::new(attributes, writer);
    for field in fields(message) {
        match field? {
            (number, value) if SCOPES.contains(&number) => decode_scope(value.bytes()?, &mut context, writer)?,
            // The resource, and the URL of a schema.
            (1 | 3, _) => {}
            (number, _) => writer.note_unread(format_args!("field {number} of a resource")),
        }
    }
    Ok(writer.refuse_unread_since(place)?)
}

fn decode_scope<'a>(
    message: &'a [u8],
    context: &mut ScopeContext<'a>,
    writer: &mut RequestWriter<'_>,
) -> Result<(), DecodeError> {
    let place = writer.place();
    let (mut name, mut version, mut attributes) = (Cow::Borrowed(""), Cow::Borrowed(""), Vec::new());
    for scope in messages_at(message, 1) {
        let scope = scope?;
        for field in fields(scope) {
            match field? {
                (1, value) => name = value.text()?,
                (2, value) => version = value.text()?,
                // The attributes, and the number of dropped attributes.
                (3 | 4, _) => {}
                (number, _) => writer.note_unread(format_args!("field {number} of a scope")),
            }
        }
        attributes.extend(attributes_at(scope, 3)?);
    }
    context.set_scope(name, version, attributes, writer);
    for field in fields(message) {
        let record = match field? {
            (2, value) => value.bytes()?,
            // The scope, and the URL of a schema.
            (1 | 3, _) => continue,
            (number, _) => {
                writer.note_unread(format_args!("field {number} of a scope"));
                continue;
            }
        };
        let index = writer.begin()?;
        if !context.fits(record.len(), index, writer) {
            continue;
        }
        match decode_record(record) {
            Ok(record) => context.write(index, record, writer),
            Err(error) => writer.refuse(index, error.to_string()),
        }
    }
    Ok(writer.refuse_unread_since(place)?)
}

fn decode_record(message: &[u8]) -> Result<LogRecord<'_>, ProtobufError> {
    let mut record = LogRecord { attributes: attributes_at(message, 6)?, ..LogRecord::default() };
    for field in fields(message) {
        match field? {
            (1, value) => record.time = value.fixed64()?,
            (2, value) => record.severity = i32::try_from(value.varint()?).unwrap_or(0),
            (3, value) => record.severity_text = value.text()?,
            (5, value) => record.body = any_value(value.bytes()?, 0)?,
            (7, value) => record.dropped = u32::try_from(value.varint()?).unwrap_or(u32::MAX),
            (8, value) => record.flags = value.fixed32()?,
            (9, value) => record.trace_id = hex(value.bytes()?),
            (10, value) => record.span_id = hex(value.bytes()?),
            (11, value) => record.observed = value.fixed64()?,
            // 4 was the name of the event.
            (4 | 12, value) => record.event_name = value.text()?,
            (6, _) => {}
            (number, _) => record.unread.note(format_args!("field {number} of a record")),
        }
    }
    Ok(record)
}

/// The attributes of a message at this field number.
fn attributes_at(message: &[u8], number: u64) -> Result<Attributes<'_>, ProtobufError> {
    messages_at(message, number).map(|attribute| key_value(attribute?, 0)).collect()
}

fn key_value(message: &[u8], depth: usize) -> Result<(Cow<'_, str>, AnyValue<'_>), ProtobufError> {
    let (mut key, mut any) = (Cow::Borrowed(""), AnyValue::Empty);
    for field in fields(message) {
        match field? {
            (1, value) => key = value.text()?,
            (2, value) => any = any_value(value.bytes()?, depth)?,
            _ if any == AnyValue::Empty => any = AnyValue::Unread,
            _ => {}
        }
    }
    Ok((key, any))
}

fn any_value(message: &[u8], depth: usize) -> Result<AnyValue<'_>, ProtobufError> {
    if depth > DEPTH_MAX {
        return Err(ProtobufError::Depth);
    }
    let mut any = AnyValue::Empty;
    for field in fields(message) {
        any = match field? {
            (1, value) => AnyValue::Text(value.text()?),
            (2, value) => AnyValue::Boolean(value.varint()? != 0),
            (3, value) => AnyValue::Int64(value.varint()?.cast_signed()),
            (4, value) => AnyValue::Double(f64::from_bits(value.fixed64()?)),
            (5, value) => {
                let values = messages_at(value.bytes()?, 1);
                AnyValue::Array(values.map(|value| any_value(value?, depth + 1)).collect::<Result<_, _>>()?)
            }
            (6, value) => {
                let members = messages_at(value.bytes()?, 1);
                AnyValue::Object(members.map(|member| key_value(member?, depth + 1)).collect::<Result<_, _>>()?)
            }
            (7, value) => AnyValue::Bytes(Cow::Borrowed(value.bytes()?)),
            _ if any == AnyValue::Empty => AnyValue::Unread,
            _ => any,
        };
    }
    Ok(any)
}
