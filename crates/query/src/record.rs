//! The result of a query: a record with its keys, and its form as one JSON object.
//!
//! ```text
//! {"table":"Log20261121","partition_key":"web-17","row_key":"2516…-1f3a…-ffff…","time":"2026-11-21T08:00:00.123Z",
//!  "level":"error","message":"disk full","source":"/var/log/app.log","free_bytes":0,"unit":"backup.service"}
//! ```
//!
//! The first seven keys are always present, `level` as null for a record without one. `_arrived` follows where a record
//! [keeps its arrival](daytable_model::arrival), and then the fields in their order. A field with one of these eight names
//! gets as many `_` appended as necessary. Whole numbers are exact JSON
//! numbers; numbers that JSON cannot express are text (`"NaN"`, `"Infinity"`, `"-Infinity"`).

use super::entity::{OwnedRow, OwnedValue};
use super::spilled::{Spilled, SpilledBytes};
use daytable_model::arrival::{ARRIVED, ARRIVED_FIELD};
use daytable_model::column_name::HOST;
use daytable_model::field_properties::shown_name;
use daytable_model::key::{RowKey, instance_of};
use daytable_model::line::{LAYOUT, LAYOUT_BYTES_MAX, LineLayout, LineSource, MESSAGE_START, VERBATIM};
use daytable_model::property::Property;
use daytable_model::record::Level;
use daytable_model::stream::{NANOS, STREAM, StreamNote};
use daytable_model::time::Ticks;
use daytable_store::sealed::HOST_UNLESS_NAMED;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::HashMap;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// The last one only of a record that keeps its arrival.
const KEYS: [&str; 8] = ["table", "partition_key", "row_key", "time", "level", "message", "source", ARRIVED_FIELD];

/// Parsed layouts that a thread keeps.
const LAYOUTS_KEPT: usize = 64;

/// A stored record with its keys.
#[derive(Clone, Debug, PartialEq)]
pub struct StoredRecord {
    /// The day-table.
    pub table: Arc<str>,
    /// The PartitionKey.
    pub partition_key: Arc<str>,
    /// The RowKey.
    pub row_key: RowKey,
    /// Its level.
    pub level: Option<Level>,
    /// The whole message, including the parts that became fields. May be empty.
    pub message: String,
    /// The path of the file, or the listener.
    pub source: String,
    /// The extracted fields in their order; no name occurs twice.
    pub fields: Vec<(String, OwnedValue)>,
    /// The stream, if the record was pushed to one.
    pub stream: Option<StreamNote<'static>>,
    /// When it arrived, if its time does not tell: see [`StoredRecord::arrived`].
    pub kept_arrival: Option<Ticks>,
    written: StoredLine,
}

/// The original text of a stored record.
#[derive(Clone, Debug, Default, PartialEq)]
struct StoredLine {
    /// Empty for a record without a line.
    layout: String,
    verbatim: String,
    /// The stored part of the message, if the message is more.
    part: Option<String>,
}

impl StoredRecord {
    /// The record that an entity, [joined](super::entity) with its items, is.
    pub fn new(table: Arc<str>, entity: OwnedRow) -> StoredRecord {
        let (mut message, mut source) = (String::new(), String::new());
        let mut fields = Vec::with_capacity(entity.properties.len());
        let (mut spread, mut written, mut unless_named) = (None, StoredLine::default(), None);
        let mut stream: Option<StreamNote<'static>> = None;
        let mut kept_arrival = None;
        for (name, value) in entity.properties {
            match (name.as_str(), value) {
                ("Message", OwnedValue::String(text)) => message = text,
                ("Source", OwnedValue::String(text)) => source = text,
                (LAYOUT, OwnedValue::String(text)) => written.layout = text,
                (VERBATIM, OwnedValue::String(text)) => written.verbatim = text,
                ("Items", OwnedValue::Int32(_)) => {}
                (HOST_UNLESS_NAMED, OwnedValue::String(host)) => unless_named = Some(host),
                (STREAM, OwnedValue::String(text)) if text.starts_with("[{") => {
                    stream.get_or_insert_default().text = text.into()
                }
                (NANOS, OwnedValue::Int32(nanos @ 0..100)) => {
                    stream.get_or_insert_default().nanos = u8::try_from(nanos).unwrap_or_default();
                }
                (ARRIVED, OwnedValue::DateTime(arrived)) => kept_arrival = Some(arrived),
                ("Fields", OwnedValue::String(json)) => spread = Some(json),
                (_, value) => fields.push((name, value)),
            }
        }
        if let Some(json) = spread {
            match serde_json::from_str::<Pairs>(&json) {
                Ok(Pairs(pairs)) => add_apart(&mut fields, pairs),
                // A piece is missing; the text is still useful.
                Err(_) => fields.push(("Fields".into(), OwnedValue::String(json))),
            }
        }
        if let Some(host) = unless_named.filter(|_| !fields.iter().any(|(name, _)| name == HOST)) {
            fields.push((HOST.into(), OwnedValue::String(host)));
        }
        let OwnedRow { partition, key, level, .. } = entity;
        let mut record = StoredRecord {
            table,
            partition_key: partition,
            row_key: key,
            level,
            message,
            source,
            fields,
            stream,
            kept_arrival,
            written,
        };
        record.complete_message();
        record
    }

    /// Makes the message whole.
    fn complete_message(&mut self) {
        if !self.written.layout.contains(MESSAGE_START) {
            return;
        }
        let mut line = Vec::new();
        let at = with_layout(&self.written.layout, |layout| {
            let at = layout.write_line(self, &self.written.verbatim, &mut line);
            at.filter(|_| layout.has_message())
        });
        let whole = at.and_then(|at| line.get(at));
        if let Some(whole) = whole {
            let whole = String::from_utf8_lossy(whole).into_owned();
            self.written.part = Some(std::mem::replace(&mut self.message, whole));
        }
    }

    /// The text of the record as its program wrote it, all of its lines, without the last end of line. Invalid UTF-8 is
    /// replaced. For a record that was not parsed from a text, its message.
    pub fn line(&self) -> Cow<'_, str> {
        if self.written.layout.is_empty() {
            return Cow::Borrowed(&self.message);
        }
        let mut line = Vec::new();
        with_layout(&self.written.layout, |layout| layout.write_line(self, &self.written.verbatim, &mut line));
        String::from_utf8(line).unwrap_or_else(|error| String::from_utf8_lossy(error.as_bytes()).into_owned()).into()
    }

    /// The bytes of the record in its source, without the last end of line: like [`StoredRecord::line`], but with the
    /// original invalid UTF-8, and with the text of a container runtime around the line.
    pub fn raw(&self) -> Cow<'_, [u8]> {
        if self.written.layout.is_empty() {
            return Cow::Borrowed(self.message.as_bytes());
        }
        let mut raw = Vec::new();
        with_layout(&self.written.layout, |layout| layout.write_raw(self, &self.written.verbatim, &mut raw));
        Cow::Owned(raw)
    }

    /// Appends all bytes of the source that belong to the record: also the end of its last line, and empty lines around
    /// it. The records of a file, in the order of their positions, are the whole file. Returns how many of the bytes
    /// are before the position of the record.
    pub fn write_source_bytes(&self, out: &mut Vec<u8>) -> usize {
        if self.written.layout.is_empty() {
            out.extend_from_slice(self.message.as_bytes());
            out.push(b'\n');
            return 0;
        }
        with_layout(&self.written.layout, |layout| {
            layout.write_all(self, &self.written.verbatim, out);
            layout.before().len()
        })
    }

    /// The message without the parts that became fields.
    pub fn short_message(&self) -> &str {
        let short = with_layout(&self.written.layout, LineLayout::short_message);
        let short = short.and_then(|short| self.message.get(short));
        short.unwrap_or_else(|| self.stored_message())
    }

    /// The message as its rows have it: without the parts that became fields, but whole in a record of several rows.
    pub fn stored_message(&self) -> &str {
        self.written.part.as_ref().unwrap_or(&self.message)
    }

    /// Bytes that its original text takes beside the message and the fields.
    pub(crate) fn written_bytes(&self) -> usize {
        let StoredLine { layout, verbatim, part } = &self.written;
        let stream = self.stream.as_ref().map_or(0, |stream| stream.text.len());
        layout.len() + verbatim.len() + part.as_ref().map_or(0, String::len) + stream
    }

    /// Its time.
    pub fn time(&self) -> Ticks {
        self.row_key.time()
    }

    /// Its arrival, or its time where that tells it.
    pub fn arrived(&self) -> Ticks {
        self.kept_arrival.unwrap_or_else(|| self.time())
    }

    /// The instance, or the part of its name that the PartitionKey contains.
    pub fn instance(&self) -> String {
        instance_of(&self.partition_key).0
    }
}

impl Spilled for StoredRecord {
    fn write(&self, to: &mut Vec<u8>) {
        self.table.write(to);
        self.partition_key.write(to);
        self.row_key.write(to);
        self.level.write(to);
        self.message.write(to);
        self.source.write(to);
        self.fields.write(to);
        self.stream.as_ref().map(|note| (note.text.to_string(), note.nanos)).write(to);
        self.kept_arrival.write(to);
        let StoredLine { layout, verbatim, part } = &self.written;
        layout.write(to);
        verbatim.write(to);
        part.write(to);
    }

    fn read(from: &mut SpilledBytes<'_>) -> Option<StoredRecord> {
        Some(StoredRecord {
            table: Spilled::read(from)?,
            partition_key: Spilled::read(from)?,
            row_key: Spilled::read(from)?,
            level: Spilled::read(from)?,
            message: Spilled::read(from)?,
            source: Spilled::read(from)?,
            fields: Spilled::read(from)?,
            stream: Option::<(String, u8)>::read(from)?.map(|(text, nanos)| StreamNote { text: text.into(), nanos }),
            kept_arrival: Spilled::read(from)?,
            written: StoredLine {
                layout: Spilled::read(from)?,
                verbatim: Spilled::read(from)?,
                part: Spilled::read(from)?,
            },
        })
    }
}

impl LineSource for StoredRecord {
    fn time(&self) -> Ticks {
        self.row_key.time()
    }

    fn level(&self) -> Option<Level> {
        self.level
    }

    fn property(&self, name: &str) -> Option<Property<'_>> {
        if name == "Message" {
            return Some(Property::String(self.stored_message()));
        }
        self.fields.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_property())
    }
}

/// Passes a parsed layout. Records of one source share few layouts, so each thread keeps those that it parsed.
pub(crate) fn with_layout<T>(text: &str, read: impl FnOnce(&LineLayout) -> T) -> T {
    thread_local! {
        static PARSED: RefCell<HashMap<Box<str>, Rc<LineLayout>, foldhash::quality::RandomState>> = RefCell::default();
    }
    let layout = PARSED.with_borrow_mut(|parsed| match parsed.get(text) {
        Some(layout) => layout.clone(),
        None => {
            let layout = Rc::new(LineLayout::parse(text));
            if parsed.len() >= LAYOUTS_KEPT {
                parsed.clear();
            }
            if text.len() <= LAYOUT_BYTES_MAX {
                parsed.insert(text.into(), layout.clone());
            }
            layout
        }
    });
    read(&layout)
}

/// Adds `more`; a name that exists already gets a number: `name#2`.
fn add_apart(fields: &mut Vec<(String, OwnedValue)>, more: Vec<(String, OwnedValue)>) {
    let mut used: std::collections::HashSet<String> =
        fields.iter().map(|(name, _)| shown_name(name).into_owned()).collect();
    for (name, value) in more {
        let numbered = (2u64..).map(|n| format!("{name}#{n}"));
        let free = std::iter::once(name.clone()).chain(numbered).find(|name| !used.contains(name)).unwrap_or(name);
        used.insert(free.clone());
        fields.push((free, value));
    }
}

impl Serialize for StoredRecord {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let keys = KEYS.len() - usize::from(self.kept_arrival.is_none());
        let mut map = serializer.serialize_map(Some(keys + self.fields.len()))?;
        map.serialize_entry("table", &*self.table)?;
        map.serialize_entry("partition_key", &*self.partition_key)?;
        map.serialize_entry("row_key", &Text(self.row_key))?;
        map.serialize_entry("time", &Text(self.time()))?;
        map.serialize_entry("level", &self.level.map(Level::name))?;
        map.serialize_entry("message", &self.message)?;
        map.serialize_entry("source", &self.source)?;
        if let Some(arrived) = self.kept_arrival {
            map.serialize_entry(ARRIVED_FIELD, &Text(arrived))?;
        }
        for (property, value) in &self.fields {
            let name = shown_name(property);
            if KEYS.contains(&&*name) {
                map.serialize_entry(
                    &beside_keys(&name, |name| self.fields.iter().any(|(known, _)| known == name)),
                    value,
                )?;
            } else {
                map.serialize_entry(&*name, value)?;
            }
        }
        map.end()
    }
}

/// The name of a field that would be mistaken for a key: with as many `_` as make it unique.
pub fn beside_keys(name: &str, used: impl Fn(&str) -> bool) -> String {
    let mut free = format!("{name}_");
    while used(&free) {
        free.push('_');
    }
    free
}

/// A displayed value as a JSON string.
struct Text<T>(T);

impl<T: fmt::Display> Serialize for Text<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&self.0)
    }
}

/// A JSON object whose names may repeat.
struct Pairs(Vec<(String, OwnedValue)>);

impl<'de> serde::Deserialize<'de> for Pairs {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Pairs, D::Error> {
        struct Object;
        impl<'de> Visitor<'de> for Object {
            type Value = Pairs;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<M: MapAccess<'de>>(self, mut map: M) -> Result<Pairs, M::Error> {
                let mut pairs = Vec::new();
                while let Some((name, value)) = map.next_entry::<String, serde_json::Value>()? {
                    pairs.push((name, value_of(value)));
                }
                Ok(Pairs(pairs))
            }
        }
        deserializer.deserialize_map(Object)
    }
}

fn value_of(json: serde_json::Value) -> OwnedValue {
    match json {
        serde_json::Value::String(text) => OwnedValue::String(text),
        serde_json::Value::Bool(b) => OwnedValue::Boolean(b),
        // Only a number that JSON cannot express becomes null.
        serde_json::Value::Null => OwnedValue::Double(f64::NAN),
        serde_json::Value::Number(n) => match (n.as_i64(), n.as_f64()) {
            (Some(n), _) => OwnedValue::Int64(n),
            (None, Some(n)) => OwnedValue::Double(n),
            (None, None) => OwnedValue::String(n.to_string()),
        },
        other => OwnedValue::String(other.to_string()),
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::entity::join;
    use crate::entity::tests::rows_of;
    use daytable_model::line::{SharedLayout, WrittenLine};
    use daytable_model::record::{Field, Value};
    use proptest::prelude::*;

    /// The stored form of a record that was written at 2026-11-21T00:00:00.123Z.
    pub(crate) fn read_back(record: &daytable_model::record::Record<'_>) -> StoredRecord {
        let midnight = Ticks::from_date(2026, 11, 21).expect("a date");
        let key = RowKey::new(midnight.plus(std::time::Duration::from_millis(123)), 0x1f3a, 7);
        let rows = rows_of("web-17", key, record).into_iter().map(Ok::<_, std::convert::Infallible>);
        let entity = join(rows).next().expect("one").expect("infallible");
        StoredRecord::new("Log20261121".into(), entity)
    }

    fn field<'a>(name: &'a str, value: Value<'a>) -> Field<'a> {
        Field { name: name.into(), value }
    }

    fn json(record: &StoredRecord) -> String {
        serde_json::to_string(record).expect("plain data")
    }

    #[test]
    fn a_record_of_several_rows_stores_the_whole_message() {
        let (long, made) = ("x".repeat(70_000), "é ".repeat(30_000));
        let text = format!("INFO {made}up n=3 trace={long} \u{1f}");
        let message = 5..text.len() - 2;
        let layout = SharedLayout::with_names(
            "%L %<%m n=%(n) trace=%(trace)%> %v%/%2%$\r\n",
            ["n".into(), "trace".into()].into(),
            vec!["n".into(), "trace".into()],
        );
        let short = format!("{made}up");
        let frame = (layout.find("%/").expect("a frame"), 5);
        let record = daytable_model::record::Record {
            level: Some(Level::Info),
            message: short.as_str().into(),
            fields: vec![field("n", Value::Int64(3)), field("trace", Value::String(long.as_str().into()))],
            line: Some(Box::new(WrittenLine {
                layout: layout.into(),
                verbatim: "\u{1e}1f".into(),
                frame,
                text: text.as_str().into(),
                message: Some(message.clone()),
                made_with: (None, Some(Level::Info)),
            })),
            ..Default::default()
        };
        let rows = rows_of("web", RowKey::new(Ticks::UNIX_EPOCH, 1, 1), &record);
        let stored: String = rows
            .iter()
            .filter_map(|row| match row.properties.iter().find(|(name, _)| name == "Message") {
                Some((_, OwnedValue::String(text))) => Some(text.as_str()),
                _ => None,
            })
            .collect();
        assert_eq!(stored, text[message]);
        let read = read_back(&record);
        assert_eq!(read.message, stored);
        assert_eq!(read.short_message(), short);
        assert_eq!(read.line(), text);
        assert_eq!(read.fields, [("n".into(), OwnedValue::Int64(3)), ("trace".into(), OwnedValue::String(long))]);
        let mut raw = Vec::new();
        read.write_source_bytes(&mut raw);
        assert_eq!(String::from_utf8(raw).expect("text"), format!("{text}\r\n"));
    }

    #[test]
    fn keys_first_then_the_fields_in_their_order() {
        let record = read_back(&daytable_model::record::Record {
            level: Some(Level::Error),
            message: "disk\nfull".into(),
            fields: vec![
                field("z", Value::Int64(i64::MAX)),
                field("a", Value::Double(0.5)),
                field("ok", Value::Boolean(false)),
                field("nan", Value::Double(f64::NAN)),
                field("low", Value::Double(f64::NEG_INFINITY)),
            ],
            ..daytable_model::record::Record::default()
        });
        assert_eq!(
            json(&record),
            concat!(
                r#"{"table":"Log20261121","partition_key":"web-17","#,
                r#""row_key":"2516070815998769999-ffffffffffff00000000000000001f3a-fffffffffff8","time":"2026-11-21T00:00:00.123Z","#,
                r#""level":"error","message":"disk\nfull","source":"/var/log/app.log","#,
                r#""z":9223372036854775807,"a":0.5,"ok":false,"nan":"NaN","low":"-Infinity"}"#
            )
        );
    }

    #[test]
    fn a_kept_arrival_is_shown_beside_fields_of_its_names() {
        let arrived = Ticks::from_date(2026, 11, 22);
        let fields = vec![field("_arrived", Value::Int64(1)), field("Arrived", Value::Int64(2))];
        let with = |arrived, fields| {
            let record =
                daytable_model::record::Record { arrived, fields, ..daytable_model::record::Record::default() };
            read_back(&record)
        };
        let record = with(arrived, fields.clone());
        assert_eq!((record.kept_arrival, record.arrived()), (arrived, arrived.expect("a time")));
        let end = r#""_arrived":"2026-11-22T00:00:00Z","_arrived_":1,"Arrived_":2}"#;
        assert!(json(&record).ends_with(end), "{}", json(&record));
        let mut bytes = Vec::new();
        record.write(&mut bytes);
        assert_eq!(StoredRecord::read(&mut SpilledBytes::new(&bytes)), Some(record));
        let record = with(None, fields);
        assert_eq!((record.kept_arrival, record.arrived()), (None, record.time()));
        assert!(
            json(&record).ends_with(r#""source":"/var/log/app.log","_arrived_":1,"Arrived_":2}"#),
            "{}",
            json(&record)
        );
    }

    #[test]
    fn a_record_without_level_and_message_still_has_the_keys() {
        let json = json(&read_back(&daytable_model::record::Record::default()));
        assert!(json.ends_with(r#""level":null,"message":"","source":"/var/log/app.log"}"#), "{json}");
    }

    #[test]
    fn a_field_with_the_name_of_a_key_is_kept_beside_it() {
        let fields = ["level", "level_", "table", "Level", "Items", "Fields"];
        let record = read_back(&daytable_model::record::Record {
            fields: fields.iter().map(|name| field(name, Value::String((*name).into()))).collect(),
            ..daytable_model::record::Record::default()
        });
        let json: serde_json::Value = serde_json::from_str(&json(&record)).expect("JSON");
        for (name, value) in [
            ("level__", "level"),
            ("level_", "level_"),
            ("table_", "table"),
            ("Level_", "Level"),
            ("Items_", "Items"),
            ("Fields_", "Fields"),
        ] {
            assert_eq!(json[name], value, "{json}");
        }
        assert_eq!(json["table"], "Log20261121");
    }

    #[test]
    fn text_forms_of_the_rarer_types() {
        let guid = [0x12, 0x34, 0x56, 0x78, 0x9a, 0xbc, 0xde, 0xf0, 1, 2, 3, 4, 5, 6, 7, 8];
        for (value, text) in [
            (OwnedValue::Guid(guid), "12345678-9abc-def0-0102-030405060708"),
            (OwnedValue::Binary(vec![0, 255]), "00ff"),
            (OwnedValue::DateTime(Ticks::UNIX_EPOCH), "1970-01-01T00:00:00Z"),
            (OwnedValue::Double(f64::INFINITY), "Infinity"),
        ] {
            assert_eq!(serde_json::to_value(&value).expect("plain data"), text);
        }
    }

    #[test]
    fn fields_that_are_cut_short_stay_text() {
        let entity = OwnedRow {
            partition: "web".into(),
            key: RowKey::new(Ticks::UNIX_EPOCH, 1, 1),
            level: None,
            properties: vec![("Fields".into(), OwnedValue::String(r#"{"a":1,"b"#.into()))],
        };
        let record = StoredRecord::new("Log19700101".into(), entity);
        assert_eq!(record.fields, [("Fields".into(), OwnedValue::String(r#"{"a":1,"b"#.into()))]);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Every field keeps its value, with any number and names of fields, and no name of the JSON object is
        /// repeated.
        #[test]
        fn fields_come_back(names in proptest::collection::vec("[a-c.]{1,2}|table|level_?|Message|\\PC", 0..400)) {
            let fields = names.iter().zip(0..).map(|(name, n)| field(name, Value::Int64(n))).collect();
            let record = read_back(&daytable_model::record::Record { fields, ..daytable_model::record::Record::default() });
            let values: Vec<_> = record.fields.iter().map(|(_, value)| value.clone()).collect();
            prop_assert_eq!(values, (0..).take(names.len()).map(OwnedValue::Int64).collect::<Vec<_>>());
            let json: serde_json::Value = serde_json::from_str(&json(&record)).expect("JSON");
            prop_assert_eq!(json.as_object().map_or(0, serde_json::Map::len), KEYS.len() - 1 + names.len());
        }
    }
}
