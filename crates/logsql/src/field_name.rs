//! Names of fields.
//!
//! A query names a field as the line did (`http.status`). The store keeps a field under the name of a property
//! (`http_status`), so a name has both forms, and either finds the field. Where names of a record collide, its fields have
//! properties of other forms, too ([`daytable_model::field_properties`]), which are looked for first.

use daytable_model::arrival::{ARRIVED, ARRIVED_FIELD};
use daytable_model::field_properties::{exact_property, first_property, name_again, property_again, shown_name};
use daytable_model::property::{Property, PropertyKind, property_name};
use daytable_model::stream::STREAM;
use std::fmt;
use std::sync::Arc;

/// The source of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Column {
    /// The time of the record: `time`, `_time`.
    Time,
    /// The arrival of the record, or its time where that tells it: `_arrived`.
    Arrived,
    /// The level of the record: `level`.
    Level,
    /// The instance that wrote the record: `instance`, `_stream`.
    Instance,
    /// The file or listener of the record: `source`.
    Source,
    /// The day-table of the record: `table`.
    Table,
    /// The message of the record: `message`, `_msg`.
    Message,
    /// The line as it was written: `line`.
    Line,
    /// The message, the values of fields and the line, where a bare word is looked for. A query has no name for it.
    Anywhere,
    /// A field of the line.
    Field,
    /// The note of the stream that the record was pushed to. A query cannot name it.
    Stream,
}

/// The property that has the arrival of a record: see [`daytable_model::arrival`].
pub const ARRIVED_COLUMN: (&str, PropertyKind) = (ARRIVED, PropertyKind::DateTime);

impl Column {
    /// The name that a row of an answer has for the column; `None` of what is not a column of a row.
    pub const fn name(self) -> Option<&'static str> {
        match self {
            Column::Time => Some("time"),
            Column::Arrived => Some(ARRIVED_FIELD),
            Column::Level => Some("level"),
            Column::Instance => Some("instance"),
            Column::Source => Some("source"),
            Column::Table => Some("table"),
            Column::Message => Some("message"),
            Column::Line => Some("line"),
            Column::Anywhere | Column::Field | Column::Stream => None,
        }
    }
}

/// The name of a field.
#[derive(Clone, Debug)]
pub struct FieldName {
    written: Arc<str>,
    property: Arc<str>,
    /// Properties of the field in records in which its name collides with another one; most names cannot.
    apart: Option<Arc<[Box<str>]>>,
    column: Column,
    /// What a shown name becomes, for the fields of other names that become this one.
    becomes: Option<fn(&str) -> String>,
}

impl FieldName {
    /// The field that a query calls `written`.
    pub fn new(written: &str) -> FieldName {
        let column = match written {
            "time" | "_time" => Column::Time,
            ARRIVED_FIELD => Column::Arrived,
            "level" => Column::Level,
            "instance" | "_stream" => Column::Instance,
            "source" => Column::Source,
            "table" => Column::Table,
            "message" | "_msg" => Column::Message,
            "line" => Column::Line,
            _ => Column::Field,
        };
        let property = property_name(written);
        let again = name_again(written).map(|(name, n)| property_again(&property_name(name), n));
        let exact = exact_property(written).filter(|_| property != written);
        let apart: Vec<Box<str>> = exact.into_iter().chain(again).map(String::into_boxed_str).collect();
        let written: Arc<str> = written.into();
        let property = if property == *written { written.clone() } else { property.into() };
        FieldName { written, property, apart: (!apart.is_empty()).then(|| apart.into()), column, becomes: None }
    }

    /// The fields of other names that `becomes` makes this one of, where letters that are not ASCII, or a code in a property, are
    /// lost. Such a field has no value of its own: only [`Fields::any_value`](crate::Fields::any_value) finds one.
    pub fn others_that_become(name: &str, becomes: fn(&str) -> String) -> FieldName {
        FieldName { becomes: Some(becomes), ..FieldName::new(name) }
    }

    /// Where a bare word is looked for: [`Column::Anywhere`].
    pub fn anywhere() -> FieldName {
        FieldName { written: "".into(), property: "".into(), apart: None, column: Column::Anywhere, becomes: None }
    }

    /// The note of the stream that a record was pushed to: [`Column::Stream`].
    pub fn of_stream() -> FieldName {
        FieldName {
            written: STREAM.into(),
            property: STREAM.into(),
            apart: None,
            column: Column::Stream,
            becomes: None,
        }
    }

    /// The name as the query writes it. An answer uses this name.
    pub fn written(&self) -> &str {
        &self.written
    }

    /// The name of the property that stores the field.
    pub fn property(&self) -> &str {
        &self.property
    }

    /// The field among those that `find` finds by their names. A field that has the name of a column is shown, and asked for,
    /// with a `_`.
    pub fn find_in<T>(&self, find: impl Fn(&str) -> Option<T>) -> Option<T> {
        if self.becomes.is_some() {
            return None;
        }
        let apart = self.apart.iter().flat_map(|names| names.iter()).find_map(|name| find(name));
        apart.or_else(|| find(&self.written)).or_else(|| find(&self.property)).or_else(|| {
            let column = self.written.trim_end_matches('_');
            if FieldName::new(column).column() == Column::Field { None } else { find(column) }
        })
    }

    /// The source of the value.
    pub fn column(&self) -> Column {
        self.column
    }

    /// Whether the name means the same of a record and of the row that a pipe makes of it. A row has no line, and names a
    /// field as an answer shows it.
    pub fn is_alike_in_rows(&self) -> bool {
        match self.column {
            Column::Time
            | Column::Arrived
            | Column::Level
            | Column::Instance
            | Column::Source
            | Column::Table
            | Column::Message => true,
            Column::Line | Column::Anywhere | Column::Stream => false,
            Column::Field => {
                let plain = self.written.trim_end_matches('_');
                let is_of_row = matches!(plain, "partition_key" | "row_key");
                let is_shown = |name: &str| shown_name(name) == name;
                let is_beside = FieldName::new(plain).column() != Column::Field;
                !is_of_row && !is_beside && is_shown(&self.written) && is_shown(&self.property)
            }
        }
    }

    /// Whether a stored field of this name may be the one, or a later one of its name.
    pub fn is_property(&self, stored: &str) -> bool {
        if let Some(becomes) = self.becomes {
            let is_odd = !stored.is_ascii() || stored.contains("_u");
            return is_odd && *self.property != *stored && becomes(&shown_name(stored)) == *self.written;
        }
        let is_it = |stored: &str| {
            *self.written == *stored
                || *self.property == *stored
                || self.apart.as_ref().is_some_and(|names| names.iter().any(|name| **name == *stored))
        };
        is_it(stored) || first_property(stored).is_some_and(is_it)
    }

    /// Whether a field that came again in its record satisfies `test`. `fields` are the fields of the record.
    pub fn any_again<'v>(
        &self,
        fields: impl Iterator<Item = (&'v str, Property<'v>)> + Clone,
        test: &mut dyn FnMut(Option<Property<'_>>) -> bool,
    ) -> bool {
        if self.becomes.is_some() {
            return fields.into_iter().any(|(stored, value)| self.is_property(stored) && test(Some(value)));
        }
        let is_first = |first: &str| {
            let found = |name: &str| {
                fields.clone().any(|(known, _)| known == name).then(|| shown_name(name) == shown_name(first))
            };
            self.find_in(found) == Some(true)
        };
        let again = fields.clone().filter_map(|(name, value)| Some((first_property(name)?, value)));
        self.column == Column::Field && { again }.any(|(first, value)| is_first(first) && test(Some(value)))
    }
}

/// The column that other programs call so; `None` if the name is usual for a field, or is that of the column.
pub fn other_name(written: &str) -> Option<&'static str> {
    Some(match written.trim_start_matches(['@', '_']).to_ascii_lowercase().as_str() {
        "severity" | "lvl" | "loglevel" | "log_level" | "log.level" | "levelname" | "severity_text"
        | "severitytext" | "priority" | "sev" => "level",
        "host" | "hostname" | "host.name" | "node" | "nodename" | "server" | "machine" | "computer" => "instance",
        "file" | "filename" | "filepath" | "log.file.path" | "logfile" | "sourcetype" => "source",
        "index" | "tablename" | "dataset" => "table",
        "arrived" | "arrival" | "arrived_at" | "arrival_time" | "received" | "received_at" | "ingested"
        | "ingested_at" | "event.ingested" | "indextime" | "ingestiontime" | "ingestion_time" => ARRIVED_FIELD,
        "timestamp" | "ts" | "datetime" | "timegenerated" | "eventtime" => "time",
        "msg" if !written.starts_with('_') => "message",
        "body" | "text" => "message",
        "raw" => "line",
        _ => return None,
    })
}

/// Two names are equal if a query writes them alike.
impl PartialEq for FieldName {
    fn eq(&self, other: &FieldName) -> bool {
        self.written == other.written
            && self.column == other.column
            && self.becomes.is_some() == other.becomes.is_some()
    }
}

impl Eq for FieldName {}

impl fmt::Display for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::keyword::quoted(f, &self.written)
    }
}
