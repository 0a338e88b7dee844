//! A record as OTLP has it.
//!
//! | of the record | of the log record |
//! |---|---|
//! | its time, to the nanosecond where a push had them | `time_unix_nano` |
//! | its arrival where it keeps one, or when it was committed here | `observed_time_unix_nano`, unless it has a field `observed_time` |
//! | its level | `severity_number`, and `severity_text` unless it has a field of that name |
//! | the whole message | `body` |
//! | fields `trace_id`, `span_id` (hex), `trace_flags`, `event_name`, `severity_text`, `dropped_attributes_count` | the parts of these names |
//! | fields `scope_name`, `scope_version` | the scope |
//! | fields `service_name`, `k8s_pod_name` and others of [`RESOURCE`] | attributes of the resource, with the dots of their names |
//! | the instance, and the host, unless such fields name them | `service.name`, `host.name` of the resource |
//! | all other fields | attributes, with their types |
//! | its source, its table, its keys | attributes `log.file.path` or `daytable.source`, `daytable.table`, `log.record.uid` |
//!
//! That is the inverse of what the intake does with OTLP, but for the dots in the names of other fields: the store has `_` there.

use super::protobuf::{put_bytes, put_fixed32, put_fixed64, put_number};
use daytable_model::column_name::{HOST, LOG_HOST};
use daytable_model::field_properties::shown_name;
use daytable_model::property::OwnedValue;
use daytable_model::time::Ticks;
use daytable_query::StoredRecord;
use std::borrow::Cow;

/// Attributes of resources by OpenTelemetry's conventions. Those whose values may differ with each record are not among them: each
/// resource is sent once a request.
const RESOURCE: [&str; 26] = [
    "cloud.account.id",
    "cloud.availability_zone",
    "cloud.platform",
    "cloud.provider",
    "cloud.region",
    "container.id",
    "container.image.name",
    "container.name",
    "deployment.environment",
    "deployment.environment.name",
    "host.id",
    "host.name",
    "k8s.cluster.name",
    "k8s.container.name",
    "k8s.deployment.name",
    "k8s.namespace.name",
    "k8s.node.name",
    "k8s.pod.name",
    "k8s.pod.uid",
    "service.instance.id",
    "service.name",
    "service.namespace",
    "service.version",
    "telemetry.sdk.language",
    "telemetry.sdk.name",
    "telemetry.sdk.version",
];

/// The attribute of a resource that a field is. The store has `service_name` where `service.name` came.
fn resource_name(field: &str) -> Option<&'static str> {
    RESOURCE.into_iter().find(|name| is_named(field, name))
}

/// Whether a field has a name, with its dots or with `_` instead.
fn is_named(field: &str, name: &str) -> bool {
    let is_same = |(field, name): (u8, u8)| field == name || field == b'_' && name == b'.';
    field.len() == name.len() && field.bytes().zip(name.bytes()).all(is_same)
}

/// What the pages of a record say beside it.
#[derive(Clone, Copy)]
pub(super) struct RecordOrigin<'o> {
    /// The name of this host.
    pub(super) host: &'o str,
    /// The table, without the day.
    pub(super) table: &'o str,
    /// When it was committed.
    pub(super) arrived: Ticks,
}

/// A record in protocol buffers.
pub(super) struct EncodedRecord {
    /// The messages `Resource` and `InstrumentationScope`.
    pub(super) resource: Vec<u8>,
    pub(super) scope: Vec<u8>,
    /// The message `LogRecord`.
    pub(super) bytes: Vec<u8>,
    /// What names it, here and at the backend.
    pub(super) uid: String,
}

impl EncodedRecord {
    pub(super) fn new(record: &StoredRecord, origin: RecordOrigin<'_>) -> EncodedRecord {
        let (mut resource, mut scope, mut attributes) = (Vec::new(), Vec::new(), Vec::new());
        let mut parts = Parts::default();
        let (mut names_service, mut names_host, mut host) = (false, false, None);
        for (property, value) in &record.fields {
            let name = shown_name(property);
            match (&*name, value) {
                ("scope.name" | "scope_name", OwnedValue::String(text)) => put_bytes(&mut scope, 1, text.as_bytes()),
                ("scope.version" | "scope_version", OwnedValue::String(text)) => {
                    put_bytes(&mut scope, 2, text.as_bytes());
                }
                (name, value) => {
                    if let Some(name) = resource_name(name) {
                        names_service |= name == "service.name";
                        names_host |= name == "host.name";
                        put_attribute(&mut resource, 1, name, value);
                        continue;
                    }
                    // The record's own host is better than that of the daytable which sent it.
                    if let OwnedValue::String(text) = value
                        && (name == HOST || name == LOG_HOST && host.is_none())
                    {
                        host = Some(text.as_str());
                    }
                    if !parts.take(name, value) {
                        put_attribute(&mut attributes, 6, name, value);
                    }
                }
            }
        }
        let text = |out: &mut Vec<u8>, field, name, text: &str| {
            put_attribute(out, field, name, &OwnedValue::String(text.to_owned()));
        };
        if !names_service {
            text(&mut resource, 1, "service.name", &record.instance());
        }
        if !names_host {
            text(&mut resource, 1, "host.name", host.unwrap_or(origin.host));
        }
        let uid = format!("{}/{}", record.partition_key, record.row_key);
        let place = if record.source.starts_with('/') { "log.file.path" } else { "daytable.source" };
        for (name, value) in [(place, &*record.source), ("daytable.table", origin.table), ("log.record.uid", &uid)] {
            if !value.is_empty() {
                text(&mut attributes, 6, name, value);
            }
        }
        let mut bytes = Vec::with_capacity(attributes.len() + record.message.len() + 64);
        let nanos = record.stream.as_ref().map_or(0, |stream| u64::from(stream.nanos));
        // A time before 1970 is none that OTLP has.
        let unix = |time: Ticks| u64::try_from(time.unix_nanos()).unwrap_or(0);
        let time = unix(record.time());
        put_fixed64(&mut bytes, 1, if time == 0 { 0 } else { time + nanos });
        if let Some(level) = record.level {
            put_number(&mut bytes, 2, u64::from(level.severity().unsigned_abs()));
        }
        let severity = parts.severity_text.or(record.level.map(|level| level.name()));
        put_bytes(&mut bytes, 3, severity.unwrap_or_default().as_bytes());
        if !record.message.is_empty() {
            let mut body = Vec::with_capacity(record.message.len() + 8);
            put_bytes(&mut body, 1, record.message.as_bytes());
            put_bytes(&mut bytes, 5, &body);
        }
        bytes.extend_from_slice(&attributes);
        if parts.dropped > 0 {
            put_number(&mut bytes, 7, parts.dropped.into());
        }
        if parts.flags > 0 {
            put_fixed32(&mut bytes, 8, parts.flags);
        }
        if let Some(id) = parts.trace_id {
            put_bytes(&mut bytes, 9, &id);
        }
        if let Some(id) = parts.span_id {
            put_bytes(&mut bytes, 10, &id);
        }
        if !parts.has_observed {
            put_fixed64(&mut bytes, 11, unix(record.kept_arrival.unwrap_or(origin.arrived)));
        }
        if let Some(event) = parts.event_name {
            put_bytes(&mut bytes, 12, event.as_bytes());
        }
        EncodedRecord { resource, scope, bytes, uid }
    }

    /// Its bytes in memory.
    pub(super) fn size(&self) -> usize {
        self.bytes.len() + self.uid.len() + 16
    }
}

/// Fields that a log record has parts for.
#[derive(Default)]
struct Parts<'r> {
    severity_text: Option<&'r str>,
    event_name: Option<&'r str>,
    trace_id: Option<[u8; 16]>,
    span_id: Option<[u8; 8]>,
    flags: u32,
    dropped: u32,
    has_observed: bool,
}

impl<'r> Parts<'r> {
    /// Whether a field is one of them. What does not fit its part stays an attribute.
    fn take(&mut self, name: &str, value: &'r OwnedValue) -> bool {
        match (name, value) {
            ("severity_text", OwnedValue::String(text)) => self.severity_text = Some(text),
            ("event_name", OwnedValue::String(text)) => self.event_name = Some(text),
            ("trace_id", OwnedValue::String(text)) => {
                self.trace_id = bytes_of(text);
                return self.trace_id.is_some();
            }
            ("span_id", OwnedValue::String(text)) => {
                self.span_id = bytes_of(text);
                return self.span_id.is_some();
            }
            ("trace_flags", OwnedValue::Int64(flags @ 0..=255)) => self.flags = u32::try_from(*flags).unwrap_or(0),
            ("dropped_attributes_count", OwnedValue::Int64(count @ 0..=0xffff_ffff)) => {
                self.dropped = u32::try_from(*count).unwrap_or(0);
            }
            ("observed_time", _) => {
                self.has_observed = true;
                return false;
            }
            _ => return false,
        }
        true
    }
}

/// The bytes of an id in hex, if it has as many.
fn bytes_of<const N: usize>(hex: &str) -> Option<[u8; N]> {
    if hex.len() != 2 * N || !hex.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    let mut bytes = [0; N];
    for (number, byte) in bytes.iter_mut().enumerate() {
        *byte = u8::from_str_radix(hex.get(2 * number..2 * number + 2)?, 16).ok()?;
    }
    Some(bytes)
}

/// Appends a `KeyValue`.
fn put_attribute(out: &mut Vec<u8>, field: u32, name: &str, value: &OwnedValue) {
    let mut any = Vec::new();
    match value {
        OwnedValue::String(text) => put_bytes(&mut any, 1, text.as_bytes()),
        OwnedValue::Boolean(is_true) => put_number(&mut any, 2, u64::from(*is_true)),
        OwnedValue::Int64(number) => put_number(&mut any, 3, number.cast_unsigned()),
        OwnedValue::Int32(number) => put_number(&mut any, 3, i64::from(*number).cast_unsigned()),
        OwnedValue::Double(number) => put_fixed64(&mut any, 4, number.to_bits()),
        OwnedValue::Binary(bytes) => put_bytes(&mut any, 7, bytes),
        OwnedValue::DateTime(_) | OwnedValue::Guid(_) => {
            let text: Cow<'_, str> = value.as_property().text();
            put_bytes(&mut any, 1, text.as_bytes());
        }
    }
    let mut pair = Vec::with_capacity(name.len() + any.len() + 8);
    put_bytes(&mut pair, 1, name.as_bytes());
    put_bytes(&mut pair, 2, &any);
    put_bytes(out, field, &pair);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_that_are_attributes_of_a_resource() {
        for (field, name) in [
            ("service_name", Some("service.name")),
            ("service.name", Some("service.name")),
            ("k8s_pod_name", Some("k8s.pod.name")),
            ("cloud_availability_zone", Some("cloud.availability_zone")),
            ("cloud_availability.zone", None),
            ("service_names", None),
            ("host", None),
        ] {
            assert_eq!(resource_name(field), name, "{field}");
        }
    }

    #[test]
    fn ids_in_hex() {
        assert_eq!(bytes_of::<2>("00fF"), Some([0, 255]));
        for wrong in ["00f", "00fff", "00fg", "+1+2", "é00"] {
            assert_eq!(bytes_of::<2>(wrong), None, "{wrong}");
        }
    }
}
