//! What matters of the lines of a batch, and what the notes of its streams tell.

use super::entry_question::{EntryQuestion, LineNeed, StreamNeeds};
use super::line_parts::{HoleCheck, LineNeeds, LineSyntax};
use daytable_logsql::FieldName;
use daytable_model::line::LAYOUT;
use daytable_model::needle::Needle;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::row_set::RowSet;
use daytable_store::{BatchColumn, ColumnBatch, StoreError};
use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

/// What a thread knows of texts that come again in batch after batch.
#[derive(Default)]
pub(super) struct ThreadTexts {
    pub(super) layouts: HashMap<Box<str>, Arc<LineNeeds>>,
    /// What matters of a stream by its note; the note of no stream has `None`.
    streams: HashMap<Box<str>, Option<Arc<StreamNeeds>>>,
}

impl ThreadTexts {
    pub(super) fn len(&self) -> usize {
        self.layouts.len() + self.streams.len()
    }

    /// An estimate of the memory.
    pub(super) fn bytes(&self) -> usize {
        self.layouts.keys().chain(self.streams.keys()).map(|text| 256 + 2 * text.len()).sum()
    }
}

/// What a batch has of lines.
pub(super) struct BatchLines {
    /// The rows whose line is read.
    pub(super) rows: RowSet,
    /// Those of them with a value that the line does not show and that may tell a level.
    pub(super) tell: RowSet,
    /// Rows of which the whole line matters, and is more than a message.
    pub(super) open: RowSet,
    /// The rows whose message matters, of which the line is no more.
    pub(super) messages: RowSet,
    /// The properties that matter.
    pub(super) properties: Vec<Box<str>>,
    /// The names that a reader gives to the values of these properties.
    named: Vec<(Box<str>, Vec<Box<str>>)>,
}

impl BatchLines {
    fn none(length: usize) -> BatchLines {
        let none = || RowSet::none(length);
        let (rows, tell, open, messages) = (none(), none(), none(), none());
        BatchLines { rows, tell, open, messages, properties: Vec::new(), named: Vec::new() }
    }

    fn add_property(&mut self, name: &str) {
        if !self.properties.iter().any(|known| **known == *name) {
            self.properties.push(name.into());
        }
    }

    /// Whether a reader knows the value of a property by this name alone.
    pub(super) fn is_named_alike(&self, property: &str, name: &str) -> bool {
        let mut names = self.named.iter().filter(|(of, _)| **of == *property).flat_map(|(_, names)| names);
        names.all(|known| **known == *name)
    }
}

/// What the notes of streams tell of a batch.
pub(super) struct StreamNotes {
    /// The rows of a stream.
    pub(super) rows: RowSet,
    /// Rows of which only the record tells the labels.
    pub(super) open: RowSet,
    /// Rows of streams whose level may stand in the line.
    pub(super) level_in_line: RowSet,
    /// Fields that become labels.
    pub(super) fields: Vec<FieldName>,
}

impl StreamNotes {
    pub(super) fn of(
        question: &dyn EntryQuestion,
        texts: &mut ThreadTexts,
        streams: &[BatchColumn<'_>],
        rows: &RowSet,
    ) -> StreamNotes {
        let none = || RowSet::none(rows.length());
        let mut notes = StreamNotes { rows: none(), open: none(), level_in_line: none(), fields: Vec::new() };
        let mut found: Vec<Arc<StreamNeeds>> = Vec::new();
        for column in streams {
            let number = |note: Property<'_>| {
                let Property::String(text) = note else { return 0 };
                let stream = match texts.streams.get(text) {
                    Some(stream) => stream.clone(),
                    None => {
                        let stream = question.stream(text).map(Arc::new);
                        texts.streams.insert(text.into(), stream.clone());
                        stream
                    }
                };
                let Some(stream) = stream else { return 0 };
                let at = found.iter().position(|known| Arc::ptr_eq(known, &stream)).unwrap_or_else(|| {
                    found.push(stream);
                    found.len() - 1
                });
                1 + at
            };
            let mut numbered: Vec<(usize, usize)> = Vec::new();
            column.map(rows, number, |row, number| numbered.push((row, number)));
            for (row, number) in numbered {
                match number.checked_sub(1).and_then(|at| found.get(at)) {
                    Some(stream) => {
                        notes.rows.insert(row);
                        if stream.record {
                            notes.open.insert(row);
                        }
                        if stream.level_in_line {
                            notes.level_in_line.insert(row);
                        }
                    }
                    // A field of that name.
                    None => notes.open.insert(row),
                }
            }
        }
        for field in found.iter().flat_map(|stream| &stream.fields) {
            if !notes.fields.contains(field) {
                notes.fields.push(field.clone());
            }
        }
        notes
    }
}

impl BatchLines {
    /// What of the lines of some rows matters.
    pub(super) fn of(
        question: &dyn EntryQuestion,
        texts: &mut ThreadTexts,
        batch: &ColumnBatch,
        rows: &RowSet,
        notes: &StreamNotes,
    ) -> Result<BatchLines, StoreError> {
        let (needs, length) = (question.needs(), batch.len());
        let mut lines = BatchLines::none(length);
        match needs.line {
            LineNeed::Members(_) | LineNeed::Whole => lines.rows = rows.clone(),
            LineNeed::Unused if needs.detected_level => {
                let mut own = rows.clone();
                own.subtract(&notes.rows);
                batch.each_level(&own, |row, code| {
                    if code == 0 {
                        lines.rows.insert(row);
                    }
                })?;
                lines.rows.add(&notes.level_in_line);
            }
            LineNeed::Unused | LineNeed::Record => {}
        }
        if lines.rows.is_empty() {
            return Ok(lines);
        }
        let reader = match &needs.line {
            LineNeed::Members(reader) => Some(reader),
            _ => needs.level_members.as_ref(),
        };
        let is_whole = matches!(needs.line, LineNeed::Whole);
        let mut found: Vec<Arc<LineNeeds>> = Vec::new();
        let mut with_layout = RowSet::none(length);
        for column in batch.columns(|name, kind| (name, kind) == (LAYOUT, PropertyKind::String))? {
            let number = |value: Property<'_>| {
                let Property::String(text) = value else { return 0 };
                if text.is_empty() {
                    return 0;
                }
                let parts = match texts.layouts.get(text) {
                    Some(parts) => parts.clone(),
                    None => {
                        let names_level = |text: &str| question.names_level(text);
                        let is_object = text.trim_start().starts_with('{');
                        let reader = reader.filter(|reader| {
                            matches!(needs.line, LineNeed::Members(_)) || is_object || reader.form == LineSyntax::Logfmt
                        });
                        let parts = Arc::new(match is_whole {
                            true => LineNeeds { is_whole: true, ..LineNeeds::default() },
                            false => LineNeeds::of(text, reader, &names_level),
                        });
                        texts.layouts.insert(text.into(), parts.clone());
                        parts
                    }
                };
                let at = found.iter().position(|known| Arc::ptr_eq(known, &parts)).unwrap_or_else(|| {
                    found.push(parts);
                    found.len() - 1
                });
                1 + at
            };
            let mut numbered: Vec<(usize, usize)> = Vec::new();
            column.map(&lines.rows, number, |row, number| numbered.push((row, number)));
            for (row, number) in numbered {
                let Some(parts) = number.checked_sub(1).and_then(|at| found.get(at)) else { continue };
                with_layout.insert(row);
                if parts.is_whole {
                    lines.open.insert(row);
                }
            }
            lines.add_property(LAYOUT);
        }
        for parts in &found {
            parts.needed.iter().for_each(|(name, _)| lines.add_property(name));
            lines.named.extend(parts.needed.iter().cloned());
        }
        // The line of a record without a layout is its message.
        let mut plain = lines.rows.clone();
        plain.subtract(&with_layout);
        if !plain.is_empty() {
            if matches!(needs.line, LineNeed::Unused) {
                // Most messages tell no level.
                for column in batch.columns(|name, kind| (name, kind) == ("Message", PropertyKind::String))? {
                    column.add_where(&plain, |value| tells_level(question, value), &mut lines.messages);
                }
            } else {
                lines.messages = plain;
            }
            lines.tell.add(&lines.messages);
        }
        if lines.properties.iter().any(|name| **name == *"Message") {
            lines.messages.add(&with_layout);
        }
        if !lines.messages.is_empty() {
            lines.add_property("Message");
        }
        lines.check(question, batch, &found, &with_layout)?;
        Ok(lines)
    }

    /// Looks at the values that lines do not show.
    fn check(
        &mut self,
        question: &dyn EntryQuestion,
        batch: &ColumnBatch,
        found: &[Arc<LineNeeds>],
        with_layout: &RowSet,
    ) -> Result<(), StoreError> {
        let mut others: Vec<(&str, HoleCheck)> = Vec::new();
        for (name, check) in found.iter().flat_map(|parts| &parts.others) {
            if !others.contains(&(name, *check)) {
                others.push((name, *check));
            }
        }
        // A list or an object of JSON is a text without quotes around it: it is read.
        for (name, _) in others.iter().filter(|(_, check)| *check == HoleCheck::NoText) {
            let texts = batch.columns(|known, kind| known == *name && kind == PropertyKind::String)?;
            if texts.iter().any(|column| !column.filled(with_layout).is_empty()) {
                self.add_property(name);
            }
        }
        // An object with a `=` has pairs.
        for parts in found.iter().filter(|parts| parts.no_equals) {
            let needed = parts.needed.iter().map(|(name, _)| name);
            for name in needed.chain(parts.others.iter().map(|(name, _)| name)) {
                for column in batch.columns(|known, kind| known == &**name && kind == PropertyKind::String)? {
                    column.add_containing(&EQUALS, with_layout, &mut self.open);
                }
            }
        }
        others.retain(|(name, _)| !self.properties.iter().any(|known| **known == **name));
        let tells = question.needs().detected_level;
        for (name, check) in others {
            for column in batch.columns(|known, kind| known == name && kind == PropertyKind::String)? {
                match check {
                    HoleCheck::Any => {}
                    HoleCheck::Unquoted => {
                        for needle in &*QUOTES {
                            column.add_containing(needle, with_layout, &mut self.open);
                        }
                    }
                    HoleCheck::Token => {
                        let is_open = |byte: u8| byte <= b' ' || matches!(byte, b'"' | b'\\' | b'=');
                        let holds = |value: Property<'_>| matches!(value, Property::String(text) if text.is_empty() || text.bytes().any(is_open));
                        column.add_where(with_layout, holds, &mut self.open);
                    }
                    HoleCheck::NoText => {
                        let mut present = column.present();
                        present.keep(with_layout);
                        self.open.add(&present);
                    }
                }
                if tells {
                    column.add_where(with_layout, |value| tells_level(question, value), &mut self.tell);
                }
            }
        }
        Ok(())
    }
}

fn tells_level(question: &dyn EntryQuestion, value: Property<'_>) -> bool {
    matches!(value, Property::String(text) if question.may_tell_level(text))
}

/// What a text with a quote, or an escape, has.
static QUOTES: LazyLock<[Needle; 2]> = LazyLock::new(|| [Needle::new("\""), Needle::new("\\")]);

static EQUALS: LazyLock<Needle> = LazyLock::new(|| Needle::new("="));
