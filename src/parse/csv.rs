//! Values between separators, whose names stand in the first line of the source.
//!
//! ```text
//! Level,Date and Time,Source,Message
//! Error,2024-01-02 03:04:05,disk,"The device, ""sda"",
//! is not ready"
//! ```
//!
//! Commas, semicolons or tabs separate; a value in double quotes may hold them, newlines, and quotes written twice. That
//! a first line names columns is a guess, and the lines behind it prove it: as many values, and among them a time or a
//! level. What is no such line stays plain, and so does the header itself.
//!
//! A value in quotes is text; others are typed by their looks. Without a column for the message the line is the message.

use super::draft::Draft;
use super::names::{Role, role_of};
use super::pairs;
use super::timestamp::{self, Unsaid};
use crate::record::{Level, Record, Value};
use memchr::{memchr, memchr3};
use std::borrow::Cow;

/// Columns of a header at most.
const COLUMNS_MAX: usize = 256;
/// Bytes of a header at most.
const HEADER_BYTES_MAX: usize = 16 << 10;
/// Bytes of a column's name at most; what is longer is a sentence.
const NAME_BYTES_MAX: usize = 48;

/// The names of the columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// As it is written.
    line: String,
    separator: u8,
    columns: Vec<Column>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Column {
    name: String,
    role: Option<(Role, u8)>,
}

impl Header {
    /// The columns that a line names, if it looks as if it does: names only, each once.
    pub(super) fn read(line: &str) -> Option<Header> {
        if line.len() > HEADER_BYTES_MAX {
            return None;
        }
        let line = line.strip_prefix('\u{feff}').unwrap_or(line);
        let separator = *[b'\t', b';', b','].iter().find(|separator| memchr(**separator, line.as_bytes()).is_some())?;
        let mut columns: Vec<Column> = Vec::new();
        let mut cells = Cells::new(line, separator);
        while let Some(cell) = cells.next() {
            let name = cell.text();
            let is_new = columns.iter().all(|column| column.name != name);
            if !is_name(&name) || !is_new || columns.len() == COLUMNS_MAX {
                return None;
            }
            columns.push(Column { role: role(&name), name: name.into_owned() });
        }
        if cells.is_broken || columns.len() < 2 || columns.iter().all(|column| column.role.is_none()) {
            return None;
        }
        Some(Header { line: line.to_owned(), separator, columns })
    }

    /// The line that [`Header::read`] reads.
    pub(super) fn save(&self) -> &str {
        &self.line
    }

    /// Whether a line begins a record: as many values as there are columns, or fewer and the last one not ended.
    pub(super) fn begins(&self, line: &str, unsaid: &Unsaid) -> bool {
        let mut cells = Cells::new(line, self.separator);
        let mut count = 0;
        let mut is_dated = false;
        while let Some(cell) = cells.next() {
            let role = self.columns.get(count).and_then(|column| column.role);
            is_dated |= role.is_some_and(|role| gives(role, &cell.text(), unsaid));
            count += 1;
        }
        is_dated && (count == self.columns.len() || cells.is_broken && count < self.columns.len())
    }

    /// Reads a record; none where it has not as many values, or neither time nor level.
    pub(super) fn record<'a>(&self, text: &'a str, unsaid: &Unsaid) -> Option<Record<'a>> {
        let mut draft = Draft::new();
        let mut cells = Cells::new(text, self.separator);
        let (mut date, mut clock) = (None, None);
        let mut columns = self.columns.iter();
        while let Some(cell) = cells.next() {
            let column = columns.next()?;
            let value = match cell {
                Cell { quoted: false, written } => pairs::typed(written),
                Cell { quoted: true, .. } => Value::String(cell.text()),
            };
            if let Some((Role::Time, _)) = column.role {
                match column.name.as_str() {
                    "Date" | "date" => date = Some(cell),
                    "Time" | "time" => clock = Some(cell),
                    _ => {}
                }
            }
            let is_message = matches!(column.role, Some((Role::Message, _)));
            let value = if is_message { Value::String(cell.text()) } else { value };
            // The record cannot borrow from what was learnt.
            draft.add_as(column.role, Cow::Owned(column.name.clone()), value);
        }
        if columns.next().is_some() || cells.is_broken {
            return None;
        }
        Some(draft.finish())
    }
}
