//! OTLP's protocol buffers: `ExportLogsServiceRequest`.
//!
//! ```text
//! request        resource_logs = 1
//! ResourceLogs   resource = 1 (attributes = 1), scope_logs = 2
//! ScopeLogs      scope = 1 (name = 1, version = 2, attributes = 3), log_records = 2
//! LogRecord      time = 1, severity_number = 2, severity_text = 3, body = 5, attributes = 6, dropped = 7, flags = 8,
//!                trace_id = 9, span_id = 10, observed_time = 11, event_name = 12
//! KeyValue       key = 1, value = 2
//! AnyValue       string = 1, bool = 2, int = 3, double = 4, array = 5 (values = 1), kvlist = 6 (values = 1), bytes = 7
//! ```

use super::super::taking::Taking;
use super::super::wire::{Wire, WireError, fields};
use super::value::{Any, DEPTH_MAX};
use super::{Log, Origin, Refusal, hex};
use std::borrow::Cow;

type Attributes<'a> = Vec<(Cow<'a, str>, Any<'a>)>;

/// Takes a message apart.
pub(super) fn take(message: &[u8], taking: &mut Taking<'_>) -> Result<(), Refusal> {
    let bad = |index: usize| {
        move |error: WireError| Refusal::bad_at(index, format!("the body is no export request: {error}"))
    };
    for field in fields(message) {
        let (number, value) = field.map_err(bad(taking.index()))?;
        if number == 1 {
            let bytes = value.bytes().map_err(bad(taking.index()))?;
            of_resource(bytes, taking)?.map_err(bad(taking.index()))?;
        }
    }
    Ok(())
}

/// The outer result ends the request for a limit, the inner one for what it says.
type Walked = Result<Result<(), WireError>, Refusal>;

/// Goes on with `?` within a [`Walked`].
macro_rules! walk {
    ($result:expr) => {
        match $result {
            Ok(value) => value,
            Err(error) => return Ok(Err(error)),
        }
    };
}

fn of_resource(message: &[u8], taking: &mut Taking<'_>) -> Walked {
    // The resource first: nothing says that it comes first on the wire.
    let mut attributes = Vec::new();
    for field in fields(message) {
        if let (1, value) = walk!(field) {
            attributes.extend(walk!(attributes_at(1, walk!(value.bytes()))));
        }
    }
    let mut origin = Origin::of_resource(attributes, taking);
    for field in fields(message) {
        if let (2, value) = walk!(field) {
            walk!(of_scope(walk!(value.bytes()), &mut origin, taking)?);
        }
    }
    Ok(Ok(()))
}

fn of_scope<'a>(message: &'a [u8], origin: &mut Origin<'a>, taking: &mut Taking<'_>) -> Walked {
    let (mut name, mut version, mut attributes) = (Cow::Borrowed(""), Cow::Borrowed(""), Vec::new());
    for field in fields(message) {
        let (1, scope) = walk!(field) else { continue };
        let scope = walk!(scope.bytes());
        for field in fields(scope) {
            match walk!(field) {
                (1, value) => name = walk!(value.text()),
                (2, value) => version = walk!(value.text()),
                _ => {}
            }
        }
        attributes.extend(walk!(attributes_at(3, scope)));
    }
    origin.set_scope(name, version, attributes);
    for field in fields(message) {
        let (2, value) = walk!(field) else { continue };
        let index = taking.begin()?;
        let record = walk!(value.bytes());
        if !origin.fits(record.len(), index, taking) {
            continue;
        }
        match log(record) {
            Ok(log) => origin.write(index, log, taking),
            Err(error) => taking.refuse(index, error.to_string()),
        }
    }
    Ok(Ok(()))
}

fn log(message: &[u8]) -> Result<Log<'_>, WireError> {
    let mut log = Log { attributes: attributes_at(6, message)?, ..Log::default() };
    for field in fields(message) {
        match field? {
            (1, value) => log.time = value.fixed64()?,
            (2, value) => log.severity = i32::try_from(value.varint()?).unwrap_or(0),
            (3, value) => log.severity_text = value.text()?,
            (5, value) => log.body = any(value, 0)?,
            (7, value) => log.dropped = u32::try_from(value.varint()?).unwrap_or(u32::MAX),
            (8, value) => log.flags = value.fixed32()?,
            (9, value) => log.trace_id = hex(value.bytes()?),
            (10, value) => log.span_id = hex(value.bytes()?),
            (11, value) => log.observed = value.fixed64()?,
            (12, value) => log.event_name = value.text()?,
            _ => {}
        }
    }
    Ok(log)
}

/// The attributes of a message that has them at this number.
fn attributes_at(number: u64, message: &[u8]) -> Result<Attributes<'_>, WireError> {
    let mut attributes = Vec::new();
    for field in fields(message) {
        match field? {
            (found, value) if found == number => attributes.push(pair(value, 0)?),
            _ => {}
        }
    }
    Ok(attributes)
}

fn pair(value: Wire<'_>, depth: usize) -> Result<(Cow<'_, str>, Any<'_>), WireError> {
    let (mut name, mut own) = (Cow::Borrowed(""), Any::Empty);
    for field in fields(value.bytes()?) {
        match field? {
            (1, value) => name = value.text()?,
            (2, value) => own = any(value, depth)?,
            _ => {}
        }
    }
    Ok((name, own))
}

fn any(value: Wire<'_>, depth: usize) -> Result<Any<'_>, WireError> {
    if depth > DEPTH_MAX {
        return Err(WireError::Depth);
    }
    let mut found = Any::Empty;
    for field in fields(value.bytes()?) {
        found = match field? {
            (1, value) => Any::Text(value.text()?),
            (2, value) => Any::Boolean(value.varint()? != 0),
            (3, value) => Any::Int64(value.varint()?.cast_signed()),
            (4, value) => Any::Double(f64::from_bits(value.fixed64()?)),
            (5, value) => {
                let mut values = Vec::new();
                for field in fields(value.bytes()?) {
                    if let (1, value) = field? {
                        values.push(any(value, depth + 1)?);
                    }
                }
                Any::Array(values)
            }
            (6, value) => {
                let mut members = Vec::new();
                for field in fields(value.bytes()?) {
                    if let (1, value) = field? {
                        members.push(pair(value, depth + 1)?);
                    }
                }
                Any::Object(members)
            }
            (7, value) => Any::Bytes(Cow::Borrowed(value.bytes()?)),
            _ => found,
        };
    }
    Ok(found)
}
