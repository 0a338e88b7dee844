//! Entries by columns: the rows of a batch get what becomes of the combination of their values.

use super::entry_lines::{BatchLines, StreamNotes, ThreadTexts};
use super::entry_question::{EntryCell, EntryQuestion, EntrySink, EntryValue, LineNeed};
use super::entry_shapes::{CombinationOutcome, EMPTY, EntryInput, EntryShape, InputKind, LINE, LINE_TELLS, VALUED};
use super::filter::ColumnFilter;
use super::value_numbers::{ABSENT, NO_NUMBER};
use daytable_model::arrival::ARRIVED;
use daytable_model::field_properties::shown_name;
use daytable_model::line::{LAYOUT, VERBATIM};
use daytable_model::property::{Property, PropertyKind};
use daytable_model::record::Level;
use daytable_model::row_set::RowSet;
use daytable_model::stream::{NANOS, STREAM};
use daytable_model::time::{TICKS_PER_MINUTE, Ticks, UNIX_EPOCH_TICKS};
use daytable_store::page::LevelMinute;
use daytable_store::{BatchColumn, ColumnBatch, RowsOf, StoreError};
use std::collections::HashMap;

const NANOS_PER_TICK: i64 = 100;
/// Properties that are not fields, and no labels.
const NO_LABELS: [&str; 9] = ["Message", "Source", "Items", "Fields", LAYOUT, VERBATIM, STREAM, NANOS, ARRIVED];

/// What columns tell of the records of a table.
pub(super) struct EntryColumns<'q> {
    pub(super) question: &'q dyn EntryQuestion,
    pub(super) filter: ColumnFilter,
}

/// What a thread remembers from batch to batch.
#[derive(Default)]
pub(super) struct ThreadMemory {
    texts: ThreadTexts,
    shapes: HashMap<Vec<InputKind>, EntryShape>,
    pub(super) bytes: usize,
}

/// The columns of a property that may tell entries apart.
pub(super) struct FieldColumns<'b> {
    name: &'b str,
    label: String,
    columns: Vec<BatchColumn<'b>>,
}

/// What became of the rows of a batch.
pub(super) enum FoldedRows {
    /// Those whose outcome follows from columns were added, and the others are open. The flag says whether the question ends.
    Added { open: RowSet, is_over: bool },
    /// None was added: some are open, and the batch has no whole rows.
    NeedsWhole,
}

impl EntryColumns<'_> {
    pub(super) fn is_field(&self, name: &str) -> bool {
        self.question.needs().fields && !NO_LABELS.contains(&name) && self.question.needs_field(name)
    }

    /// The cell of all times between two.
    pub(super) fn common(&self, oldest: Ticks, newest: Ticks) -> Option<Option<u32>> {
        let (first, last) = (oldest.unix_nanos(), newest.unix_nanos().saturating_add(NANOS_PER_TICK - 1));
        let cell = self.question.cell(first);
        // Cells ascend, so two times of one cell have it in between. Two times that no range has may have ranges in between.
        let is_one = || cell.cell.is_some() && self.question.cell(last).cell == cell.cell;
        ((cell.from..=cell.to).contains(&last) || is_one()).then_some(cell.cell)
    }

    /// The cells and levels of matching records that are counted by minute. `None` if a cell begins within a minute that has
    /// records, or only the records tell their level.
    #[allow(clippy::type_complexity)]
    pub(super) fn of_minutes(
        &self,
        rows: RowsOf<'_>,
        minutes: &[LevelMinute],
    ) -> Option<Vec<((Option<u32>, Ticks), Option<Level>, u64)>> {
        let needs = self.question.needs();
        let (oldest, newest) = rows.times;
        let levels = self.filter.decided_levels(rows)?;
        let mut counts = Vec::with_capacity(minutes.len());
        for LevelMinute { minute, level, records, at_start } in minutes {
            if levels >> level.map_or(0, Level::code) & 1 == 0 {
                continue;
            }
            // It may have a field that becomes the label.
            if needs.level && level.is_none() {
                return None;
            }
            let level = level.filter(|_| needs.level);
            let start = minute.checked_mul(TICKS_PER_MINUTE)?.checked_add(UNIX_EPOCH_TICKS)?;
            let tick = |tick: i64| Ticks::new(tick.clamp(oldest.get(), newest.get()));
            let (first, end) = (tick(start)?, tick(start.checked_add(TICKS_PER_MINUTE - 1)?)?);
            match self.common(first, end) {
                Some(cell) => counts.push(((cell, first), level, u64::from(*records))),
                // Records at the first tick may be in the cell before.
                None => {
                    if *at_start > 0 {
                        counts.push(((self.common(first, first)?, first), level, u64::from(*at_start)));
                    }
                    if at_start < records {
                        let second = tick(start + 1)?;
                        counts.push(((self.common(second, end)?, second), level, u64::from(records - at_start)));
                    }
                }
            }
        }
        Some(counts)
    }

    /// The columns of fields that matter, of records of no stream.
    pub(super) fn fields_of<'b>(&self, batch: &'b ColumnBatch) -> Result<Vec<FieldColumns<'b>>, StoreError> {
        fields_of(batch, &|name| self.is_field(name))
    }

    /// Folds the rows whose outcome follows from columns. Nothing is added if others are open and the batch has no whole
    /// rows to make them of.
    pub(super) fn fold(
        &self,
        memory: &mut ThreadMemory,
        sink: &mut dyn EntrySink,
        batch: &ColumnBatch,
        rows: &RowSet,
    ) -> Result<FoldedRows, StoreError> {
        let (needs, length) = (self.question.needs(), batch.len());
        let streams = batch.columns(|name, kind| (name, kind) == (STREAM, PropertyKind::String))?;
        let notes = StreamNotes::of(self.question, &mut memory.texts, &streams, rows);
        let is_field = |name: &str| {
            !NO_LABELS.contains(&name)
                && (self.is_field(name) || notes.fields.iter().any(|field| field.is_property(name)))
        };
        let mut fields = fields_of(batch, &is_field)?;
        if needs.source {
            let columns = batch.columns(|name, kind| (name, kind) == ("Source", PropertyKind::String))?;
            fields.push(FieldColumns { name: "Source", label: String::new(), columns });
        }
        let lines = BatchLines::of(self.question, &mut memory.texts, batch, rows, &notes)?;
        // What the lines need beside the labels.
        for name in &lines.properties {
            if !fields.iter().any(|field| *field.name == **name) {
                let columns = batch.columns(|known, _| *known == **name)?;
                if let Some(name) = columns.first().map(BatchColumn::name) {
                    fields.push(FieldColumns { name, label: String::new(), columns });
                }
            }
        }
        let mut open = batch.spread()?;
        open.add(&notes.open);
        open.add(&lines.open);
        open.add(&twice(&fields, length));
        open.keep(rows);
        let mut rows = rows.clone();
        rows.subtract(&open);
        let mut kinds = Vec::new();
        let by_line = matches!(needs.line, LineNeed::Members(_) | LineNeed::Whole) || needs.detected_level;
        kinds.extend((needs.level || by_line).then_some(InputKind::Level));
        kinds.extend(needs.instance.then_some(InputKind::Partition));
        kinds.extend((!streams.is_empty()).then_some(InputKind::Stream));
        kinds.extend((!lines.rows.is_empty()).then_some(InputKind::Line));
        let own = kinds.len();
        kinds.extend(fields.iter().map(|field| self.kind_of(field, &lines)));
        let ThreadMemory { texts, shapes, .. } = memory;
        let shape = shapes.entry(kinds).or_insert_with_key(|kinds| EntryShape::new(kinds));
        let (mut combinations, mut numbers) = (vec![0u32; length], vec![ABSENT; length]);
        for at in 0..shape.inputs.len() {
            numbers.fill(ABSENT);
            let EntryInput { kind, numbers: known } = &mut shape.inputs[at];
            match &*kind {
                InputKind::Level => batch.each_level(&rows, |row, code| numbers[row] = code.into())?,
                InputKind::Partition => {
                    let number = |partition: &str| known.number(Property::String(partition));
                    batch.each_partition(&rows, number, |row, number| numbers[row] = number);
                }
                InputKind::Stream => streams.iter().for_each(|column| {
                    column.read(&rows, known, |row, number| numbers[row] = number);
                }),
                InputKind::Line => {
                    rows.iter().filter(|row| lines.rows.contains(*row)).for_each(|row| {
                        numbers[row] = if lines.tell.contains(row) { LINE_TELLS } else { LINE };
                    });
                }
                InputKind::Property(name) => {
                    // What belongs to a line that is not read does not matter.
                    let of_lines = match &**name {
                        "Message" => Some(&lines.messages),
                        LAYOUT => Some(&lines.rows),
                        _ => None,
                    };
                    let of_lines = of_lines.map(|of_lines| {
                        let mut of_lines = of_lines.clone();
                        of_lines.keep(&rows);
                        of_lines
                    });
                    let among = of_lines.as_ref().unwrap_or(&rows);
                    for column in &fields[at - own].columns {
                        column.read(among, known, |row, number| numbers[row] = number);
                    }
                }
                InputKind::Valued(_) => {
                    let number = |value: Property<'_>| if value == Property::String("") { EMPTY } else { VALUED };
                    for column in &fields[at - own].columns {
                        column.map(&rows, number, |row, number| numbers[row] = number);
                    }
                }
            }
            let (step, mut last) = (&mut shape.steps[at], (NO_NUMBER, NO_NUMBER, NO_NUMBER));
            rows.for_each(|row| {
                let (parent, number) = (combinations[row], numbers[row]);
                if (parent, number) != (last.0, last.1) {
                    let is_none = parent == NO_NUMBER || number == NO_NUMBER;
                    last = (parent, number, if is_none { NO_NUMBER } else { step.group(parent, number, true) });
                }
                combinations[row] = last.2;
            });
        }
        // The outcome of each row, and what has to be read of it.
        let (mut groups, mut values): (Vec<u32>, Vec<f64>) = (vec![NO_NUMBER; length], vec![1.0; length]);
        let mut valued: Vec<(usize, RowSet)> = Vec::new();
        let mut last = (NO_NUMBER, CombinationOutcome::Dropped);
        for row in rows.iter() {
            let combination = combinations[row];
            let outcome = match combination {
                NO_NUMBER => CombinationOutcome::Open,
                _ if combination == last.0 => last.1,
                _ => match shape.outcome((needs, self.filter.table()), sink, &texts.layouts, combination as usize) {
                    Some(outcome) => outcome,
                    None => return Ok(FoldedRows::Added { open, is_over: true }),
                },
            };
            last = (combination, outcome);
            match outcome {
                CombinationOutcome::Dropped => {}
                CombinationOutcome::Open => open.insert(row),
                CombinationOutcome::Group(group, value) => (groups[row], values[row]) = (group, value),
                CombinationOutcome::Valued(group, input) => {
                    groups[row] = group;
                    match valued.iter_mut().find(|(known, _)| *known == input) {
                        Some((_, of)) => of.insert(row),
                        None => {
                            let mut of = RowSet::none(length);
                            of.insert(row);
                            valued.push((input, of));
                        }
                    }
                }
            }
        }
        for (input, of) in &valued {
            for column in &fields[input - own].columns {
                column.map(
                    of,
                    |value| self.question.value(value),
                    |row, value| match value {
                        EntryValue::Number(number) => values[row] = number,
                        EntryValue::Nothing => groups[row] = NO_NUMBER,
                        EntryValue::Open => {
                            groups[row] = NO_NUMBER;
                            open.insert(row);
                        }
                    },
                );
            }
        }
        memory.bytes = memory.used();
        if batch.is_front() && !open.is_empty() {
            return Ok(FoldedRows::NeedsWhole);
        }
        let is_over = self.add_rows(sink, batch, &rows, (&groups, &values))?;
        Ok(FoldedRows::Added { open, is_over })
    }

    /// Adds the rows that have a group. True if the question ends.
    fn add_rows(
        &self,
        sink: &mut dyn EntrySink,
        batch: &ColumnBatch,
        rows: &RowSet,
        (groups, values): (&[u32], &[f64]),
    ) -> Result<bool, StoreError> {
        // Nanoseconds below a tick.
        let mut below: Vec<u8> = Vec::new();
        for column in batch.columns(|name, kind| (name, kind) == (NANOS, PropertyKind::Int32))? {
            below.resize(batch.len(), 0);
            let digits =
                |value: Property<'_>| if let Property::Int32(nanos @ 0..100) = value { nanos as u8 } else { 0 };
            column.map(rows, digits, |row, nanos| below[row] = nanos);
        }
        let (mut cell, mut is_over) = (EntryCell { cell: None, from: 1, to: 0 }, false);
        batch.each_time(rows, |row, time| {
            let group = groups[row];
            if group == NO_NUMBER || is_over {
                return;
            }
            let time = time.unix_nanos() + i64::from(below.get(row).copied().unwrap_or(0));
            if !(cell.from..=cell.to).contains(&time) {
                cell = self.question.cell(time);
            }
            if let Some(cell) = cell.cell {
                is_over = sink.add((group, cell), time, values[row]).is_break();
            }
        })?;
        Ok(is_over)
    }

    /// What tells combinations apart by some columns.
    fn kind_of(&self, field: &FieldColumns<'_>, lines: &BatchLines) -> InputKind {
        let name: Box<str> = field.name.into();
        let is_value = self.question.needs().value.as_ref().is_some_and(|value| {
            let is_in_lines = lines.properties.contains(&name);
            // In a line a number must be one, and only the label may have it.
            let fits = !is_in_lines || value.suffix.is_empty() && lines.is_named_alike(&name, value.label);
            field.label == *value.label && fits
        });
        if is_value { InputKind::Valued(name) } else { InputKind::Property(name) }
    }
}

/// The rows in which two of these columns have a value that may be one label.
pub(super) fn twice(fields: &[FieldColumns<'_>], length: usize) -> RowSet {
    let mut twice = RowSet::none(length);
    for (at, field) in fields.iter().enumerate() {
        let is_alike = |other: &&FieldColumns<'_>| !field.label.is_empty() && other.label == field.label;
        let alike = fields[at + 1..].iter().filter(is_alike);
        let others: Vec<&BatchColumn<'_>> = alike.flat_map(|other| &other.columns).collect();
        for (at, column) in field.columns.iter().enumerate() {
            for other in field.columns[at + 1..].iter().chain(others.iter().copied()) {
                let mut both = column.present();
                both.keep(&other.present());
                twice.add(&both);
            }
        }
    }
    twice
}

/// The columns of fields, by their names.
fn fields_of<'b>(
    batch: &'b ColumnBatch,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<FieldColumns<'b>>, StoreError> {
    let mut fields: Vec<FieldColumns<'b>> = Vec::new();
    for column in batch.columns(|name, _| is_wanted(name))? {
        match fields.iter_mut().find(|field| field.name == column.name()) {
            Some(field) => field.columns.push(column),
            None => {
                let name = column.name();
                fields.push(FieldColumns { name, label: label_of(name), columns: vec![column] });
            }
        }
    }
    Ok(fields)
}

/// The label that a field of this property becomes, if no other field has it.
fn label_of(property: &str) -> String {
    let name = shown_name(property);
    let mut label = String::with_capacity(name.len() + 1);
    for c in name.trim().chars() {
        if label.is_empty() && c.is_ascii_digit() {
            label.push('_');
        }
        label.push(if c.is_ascii_alphanumeric() { c } else { '_' });
    }
    label
}

impl ThreadMemory {
    pub(super) fn texts(&self) -> usize {
        self.texts.len() + self.shapes.len()
    }

    fn used(&self) -> usize {
        self.texts.bytes() + self.shapes.values().map(EntryShape::bytes).sum::<usize>()
    }
}
