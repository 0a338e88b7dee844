//! Names of fields.
//!
//! A query names a field as the line did (`http.status`). The store keeps a field under the name of a property
//! (`http_status`), so a name has both forms, and either finds the field.

use daytable_model::property::property_name;
use daytable_model::stream::STREAM;
use std::fmt;
use std::sync::Arc;

/// The source of a field's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Column {
    /// The time of the record: `time`, `_time`.
    Time,
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

/// The name of a field.
#[derive(Clone, Debug)]
pub struct FieldName {
    written: Arc<str>,
    property: Arc<str>,
    column: Column,
}

impl FieldName {
    /// The field that a query calls `written`.
    pub fn new(written: &str) -> FieldName {
        let column = match written {
            "time" | "_time" => Column::Time,
            "level" => Column::Level,
            "instance" | "_stream" => Column::Instance,
            "source" => Column::Source,
            "table" => Column::Table,
            "message" | "_msg" => Column::Message,
            "line" => Column::Line,
            _ => Column::Field,
        };
        let property = property_name(written);
        let written: Arc<str> = written.into();
        let property = if property == *written { written.clone() } else { property.into() };
        FieldName { written, property, column }
    }

    /// Where a bare word is looked for: [`Column::Anywhere`].
    pub fn anywhere() -> FieldName {
        FieldName { written: "".into(), property: "".into(), column: Column::Anywhere }
    }

    /// The note of the stream that a record was pushed to: [`Column::Stream`].
    pub fn of_stream() -> FieldName {
        FieldName { written: STREAM.into(), property: STREAM.into(), column: Column::Stream }
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
        find(&self.written).or_else(|| find(&self.property)).or_else(|| {
            let column = self.written.trim_end_matches('_');
            if FieldName::new(column).column() == Column::Field { None } else { find(column) }
        })
    }

    /// The source of the value.
    pub fn column(&self) -> Column {
        self.column
    }

    /// Whether a stored field of this name is the one.
    pub fn is_property(&self, stored: &str) -> bool {
        *self.written == *stored || *self.property == *stored
    }
}

/// Two names are equal if a query writes them alike.
impl PartialEq for FieldName {
    fn eq(&self, other: &FieldName) -> bool {
        self.written == other.written && self.column == other.column
    }
}

impl Eq for FieldName {}

impl fmt::Display for FieldName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        crate::keyword::quoted(f, &self.written)
    }
}
