//! Builds a record from names and values that a protocol sends as separate fields.
//!
//! Names mean the same as in a JSON line: `service.name` is the component, `_HOSTNAME` the host, `PRIORITY` the level.
//! Time, level and message of the protocol itself come first; names for the same parts stay fields.

use super::ParseOptions;
use super::builder::RecordBuilder;
use super::timestamp::TimestampDefaults;
use daytable_model::record::{Level, Record, Value};
use daytable_model::time::Ticks;
use std::borrow::Cow;

/// Time, level and message as the protocol gives them. A name may fill a missing part.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProtocolFields<'a> {
    /// The time of the event.
    pub time: Option<Ticks>,
    /// The level.
    pub level: Option<Level>,
    /// The message.
    pub message: Option<Cow<'a, str>>,
}

/// Builds a record from names and values in their order, and replaces secrets. `seen` is the time of arrival.
pub fn compose<'a>(
    protocol: ProtocolFields<'a>,
    members: impl IntoIterator<Item = (Cow<'a, str>, Value<'a>)>,
    options: &ParseOptions,
    seen: Ticks,
) -> Record<'a> {
    let mut builder =
        RecordBuilder::new(&TimestampDefaults { zone: options.zone, seen, ..TimestampDefaults::default() });
    builder.set(protocol.time, protocol.level, protocol.message);
    for (name, value) in members {
        builder.add(name, value);
    }
    let mut record = builder.finish();
    if let Some(redactor) = &options.redactor {
        redactor.redact_parts(&mut record);
    }
    record
}

/// The level of an OpenTelemetry severity number, 1 to 24.
pub fn level_of_severity(number: i32) -> Option<Level> {
    super::level_names::opentelemetry(i64::from(number))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redact::{Redaction, Redactor};

    fn names<'a>(record: &'a Record<'_>) -> Vec<&'a str> {
        record.fields.iter().map(|field| &*field.name).collect()
    }

    fn text(text: &str) -> Value<'_> {
        Value::String(text.into())
    }

    #[test]
    fn names_mean_the_same_as_in_a_json_line() {
        let members = [
            ("__REALTIME_TIMESTAMP", text("1342540861416409")),
            ("PRIORITY", text("4")),
            ("MESSAGE", text("up")),
            ("_PID", text("587")),
            ("_HOSTNAME", text("epsilon")),
        ];
        let members = members.map(|(name, value)| (Cow::Borrowed(name), value));
        let record = compose(ProtocolFields::default(), members, &ParseOptions::default(), Ticks::MAX);
        assert_eq!(record.time.map(|time| time.to_string()).as_deref(), Some("2012-07-17T16:01:01.416409Z"));
        assert_eq!((record.level, &*record.message), (Some(Level::Warn), "up"));
        assert_eq!(names(&record), ["pid", "host"]);
    }

    #[test]
    fn the_protocols_own_parts_come_before_any_name() {
        let protocol = ProtocolFields {
            time: Some(Ticks::UNIX_EPOCH),
            level: Some(Level::Error),
            message: Some("protocol".into()),
        };
        let members = ["time", "level", "message", "host.name", "timestamp"]
            .map(|name| (name.into(), text("2026-11-21T00:00:00Z")));
        let record = compose(protocol, members, &ParseOptions::default(), Ticks::MAX);
        assert_eq!(
            (record.time, record.level, &*record.message),
            (Some(Ticks::UNIX_EPOCH), Some(Level::Error), "protocol")
        );
        assert_eq!(names(&record), ["time", "level", "message", "host", "timestamp"]);
    }

    #[test]
    fn secrets_are_replaced_in_every_part() {
        let redactor = Redactor::new(Redaction::preset("email"));
        let options = ParseOptions { redactor, ..ParseOptions::default() };
        let protocol = ProtocolFields { message: Some("of ann@example.com".into()), ..ProtocolFields::default() };
        let bytes = Value::Binary(b"\xffann@example.com".as_slice().into());
        let members = [("user".into(), text("ann@example.com")), ("raw".into(), bytes)];
        let record = compose(protocol, members, &options, Ticks::MAX);
        assert!(!format!("{record:?}").contains("example"), "{record:?}");
    }
}
