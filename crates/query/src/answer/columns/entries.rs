//! Records as entries of the language of Loki, by columns and in threads.
//!
//! What a pipeline makes of an entry follows from few values: some labels, and some members of the line. So one record is made
//! of each combination of these values, and the pipeline works on it once; the rows of a batch have the outcome of their
//! combination, and the time of each and the value that is added up are read from their columns:
//!
//! ```text
//! status   500 200 500 500          (500, error) ─► record ─► EntryFold::outcome ─► series 0
//! level      e   i   e   e    ───►  (200, info)  ─► record ─► EntryFold::outcome ─► dropped
//! took      12   7   9   4          series 0: 12, 9, 4 at their times ─► EntryFold::add
//! ```
//!
//! Where level, instance and time are all that matters, numbers come from headers. A line is [put together with stand-ins
//! ](super::line_parts) where only some of its values matter. A record that columns do not describe, and one of which the
//! whole line or the time matters, is made, and [`EntryFold::add_record`] decides: in the same thread.

use super::filter::ColumnFilter;
use super::group_step::GroupStep;
use super::line_parts::{HoleCheck, LineParts, LineReader, pieces_of};
use super::matching::{self, Made};
use super::place::TableVisitor;
use super::values::{ABSENT, NO_NUMBER, ValueNumbers};
use crate::entity::{OwnedRow, OwnedValue};
use crate::record::StoredRecord;
use daytable_logsql::FieldName;
use daytable_model::entity::MULTI_ROW_PROPERTIES;
use daytable_model::field_properties::shown_name;
use daytable_model::key::{RowKey, instance_of};
use daytable_model::line::{LAYOUT, VERBATIM};
use daytable_model::needle::Needle;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::record::Level;
use daytable_model::row_set::RowSet;
use daytable_model::stream::{NANOS, STREAM};
use daytable_model::time::{TICKS_PER_MINUTE, Ticks, UNIX_EPOCH_TICKS};
use daytable_platform::budget::{OverBudget, QuestionBudget};
use daytable_platform::lock;
use daytable_store::page::{LevelMinute, PageHeader, PageSections, level_minutes};
use daytable_store::sealed::SealedFile;
use daytable_store::{BatchColumn, BatchVisitor, ColumnBatch, CountSource, CountedBy, RowsOf, StoreError};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock, Mutex};

/// Memory of the combinations that a thread remembers.
const REMEMBERED_BYTES: usize = 4 << 20;
/// Memory of a combination beside its values.
const COMBINATION_BYTES: usize = 48;
/// Layouts and notes of streams that a thread remembers.
const TEXTS_MAX: usize = 1000;
const NANOS_PER_TICK: i64 = 100;
/// What stands in for a name or a text that does not matter. Each record has an instance.
const STAND_IN: &str = "0";
/// Properties that are no fields, and no labels.
const NO_LABELS: [&str; 8] = ["Message", "Source", "Items", "Fields", LAYOUT, VERBATIM, STREAM, NANOS];

/// Tests a day-table and an instance.
pub type InstanceTest<'q> = dyn Fn(&str, &str) -> bool + Sync + 'q;

/// What of a record matters.
pub struct EntryNeeds<'q> {
    /// Whether the label `level` or the level that Loki detects matters.
    pub level: bool,
    /// Whether the level matters that Loki detects, in the line if labels do not tell it.
    pub detected_level: bool,
    /// Whether the instance matters.
    pub instance: bool,
    /// Whether the source matters.
    pub source: bool,
    /// Whether any field matters.
    pub fields: bool,
    /// What of the line matters.
    pub line: LineNeed<'q>,
    /// Finds the members of a line that is JSON which may be its level.
    pub level_members: Option<LineReader<'q>>,
    /// The label whose value is added up, if nothing else depends on it.
    pub value: Option<ValueNeed<'q>>,
    /// Whether the records of an instance in a day-table count, if not all do.
    pub sees: Option<&'q InstanceTest<'q>>,
    /// The memory that is charged.
    pub memory: &'q QuestionBudget,
}

/// The label whose value is added up.
#[derive(Clone, Copy)]
pub struct ValueNeed<'q> {
    /// Its name.
    pub label: &'q str,
    /// Behind the digits of a value, so that it is one.
    pub suffix: &'static str,
}

/// Stands in for a value that is added up; the next ones for those of other columns.
const FIRST_VALUE: u32 = 73_692_841;

/// What of a line matters.
#[derive(Clone, Copy)]
pub enum LineNeed<'q> {
    /// Nothing.
    Unused,
    /// Some values.
    Members(LineReader<'q>),
    /// All of it.
    Whole,
    /// All of the record.
    Record,
}

/// What of a stream's records matters beside its labels.
#[derive(Clone, Debug, Default)]
pub struct StreamNeeds {
    /// Fields that become labels.
    pub fields: Vec<FieldName>,
    /// Whether the level that Loki detects may stand in the line.
    pub level_in_line: bool,
    /// Whether only whole records tell the labels.
    pub record: bool,
}

/// How far a record of a combination has a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlikeLine {
    /// The line of all these records.
    Real,
    /// One with stand-ins. The flag says whether what they stand for may tell a level.
    Reduced(bool),
    /// None: it does not matter.
    None,
}

/// What becomes of records that are alike.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum AlikeOutcome {
    /// They are dropped.
    Dropped,
    /// Each is added to a group with this value.
    Group(u32, f64),
    /// Only whole records tell it.
    Open,
    /// The question ends.
    Ended,
}

/// What a value is worth that is added up.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum EntryValue {
    /// A number.
    Number(f64),
    /// Nothing.
    Nothing,
    /// What only the whole record tells.
    Open,
}

/// A cell of time: entries of one group and cell are added up together.
#[derive(Clone, Copy, Debug)]
pub struct EntryCell {
    /// Its number; `None` for times that do not matter.
    pub cell: Option<u32>,
    /// The first nanosecond that is surely in it.
    pub from: i64,
    /// The last one.
    pub to: i64,
}

/// What matters of records, and of their values and times.
pub trait EntryQuestion: Sync {
    /// What of records matters.
    fn needs(&self) -> &EntryNeeds<'_>;

    /// Whether a field of this name matters, of a record that was pushed to no stream.
    fn needs_field(&self, name: &str) -> bool;

    /// What matters of the records whose stream has this note; `None` if it is the note of no stream.
    fn stream(&self, note: &str) -> Option<StreamNeeds>;

    /// The cell of a time.
    fn cell(&self, time: i64) -> EntryCell;

    /// Whether a part of a line may tell a level.
    fn may_tell_level(&self, text: &str) -> bool;

    /// Whether a text has the name of a field that may have the level.
    fn names_level(&self, text: &str) -> bool;

    /// What a value is worth.
    fn value(&self, value: Property<'_>) -> EntryValue;
}

/// Adds up entries. Each thread has a state.
pub trait EntryFold: EntryQuestion {
    /// What a thread gathers.
    type State: Send;

    /// Begins a state.
    fn start(&self) -> Self::State;

    /// What becomes of records that are alike in all that matters, but for their time and the value that is added up.
    fn outcome(&self, state: &mut Self::State, record: &StoredRecord, line: AlikeLine) -> AlikeOutcome;

    /// Adds entries of a group and a cell. `records` of them have this time and this value.
    fn add(&self, state: &mut Self::State, at: (u32, u32), time: i64, value: f64, records: u64) -> ControlFlow<()>;

    /// Adds a record, which passes the filter.
    fn add_record(&self, state: &mut Self::State, record: &StoredRecord) -> ControlFlow<()>;
}

/// Where what a thread finds goes.
trait EntrySink {
    fn outcome(&mut self, record: &StoredRecord, line: AlikeLine) -> AlikeOutcome;
    fn add(&mut self, at: (u32, u32), time: i64, value: f64) -> ControlFlow<()>;
}

struct StateSink<'s, F: EntryFold> {
    fold: &'s F,
    state: &'s mut F::State,
}

impl<F: EntryFold> EntrySink for StateSink<'_, F> {
    fn outcome(&mut self, record: &StoredRecord, line: AlikeLine) -> AlikeOutcome {
        self.fold.outcome(self.state, record, line)
    }

    fn add(&mut self, at: (u32, u32), time: i64, value: f64) -> ControlFlow<()> {
        self.fold.add(self.state, at, time, value, 1)
    }
}

/// Folds the records of a table.
pub(super) struct EntryFolding<'q, F> {
    fold: &'q F,
    columns: EntryColumns<'q>,
    is_elsewhere: AtomicBool,
    is_over: AtomicBool,
    refused: &'q Mutex<Option<OverBudget>>,
}

/// What columns tell of the records of a table.
struct EntryColumns<'q> {
    question: &'q dyn EntryQuestion,
    filter: ColumnFilter,
}

/// What a thread has.
pub(super) struct ThreadEntries<S> {
    pub(super) state: S,
    memory: ThreadMemory,
    /// Bytes that are charged.
    pub(super) charged: usize,
}

/// What a thread remembers from batch to batch.
#[derive(Default)]
struct ThreadMemory {
    layouts: HashMap<Box<str>, Arc<LineParts>>,
    /// The note of no stream is `None`.
    streams: HashMap<Box<str>, Option<Arc<StreamNeeds>>>,
    shapes: HashMap<Vec<Box<str>>, Shape>,
    bytes: usize,
}

/// Combinations of values of batches that have the same columns.
#[derive(Default)]
struct Shape {
    inputs: Vec<Input>,
    steps: Vec<GroupStep>,
    outcomes: Vec<Option<Outcome>>,
}

/// What becomes of a combination.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Outcome {
    Dropped,
    Open,
    Group(u32, f64),
    /// The value is in the column of the input with this number.
    Valued(u32, usize),
}

/// A value that tells combinations apart.
struct Input {
    kind: InputKind,
    numbers: ValueNumbers,
}

#[derive(Clone, Debug, PartialEq)]
enum InputKind {
    /// The code of the level.
    Level,
    Partition,
    Stream,
    /// Whether the line is read, and whether a value that it does not show may tell a level.
    Line,
    /// A property by its name.
    Property(Box<str>),
    /// Whether there is a value to add up, and whether it is empty.
    Valued(Box<str>),
}

/// The number of a line that is read, and of one with values that may tell a level.
const LINE: u32 = 1;
const LINE_TELLS: u32 = 2;
/// The number of an empty value, and of another one, that is added up.
const EMPTY: u32 = 1;
const VALUED: u32 = 2;

impl InputKind {
    fn name(&self) -> Box<str> {
        match self {
            InputKind::Level => "%level".into(),
            InputKind::Partition => "%partition".into(),
            InputKind::Stream => "%stream".into(),
            InputKind::Line => "%line".into(),
            InputKind::Property(name) => name.clone(),
            InputKind::Valued(name) => format!("%{name}").into(),
        }
    }
}

impl<'q, F: EntryFold> EntryFolding<'q, F> {
    pub(super) fn new(
        fold: &'q F,
        filter: ColumnFilter,
        refused: &'q Mutex<Option<OverBudget>>,
    ) -> EntryFolding<'q, F> {
        let (is_elsewhere, is_over) = (AtomicBool::new(false), AtomicBool::new(false));
        EntryFolding { fold, columns: EntryColumns { question: fold, filter }, is_elsewhere, is_over, refused }
    }
}

impl<F: EntryFold> TableVisitor for EntryFolding<'_, F> {
    fn columns(&self) -> &ColumnFilter {
        &self.columns.filter
    }

    fn is_elsewhere(&self) -> bool {
        self.is_elsewhere.load(Ordering::Relaxed)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::Relaxed)
    }
}

impl<F: EntryFold> BatchVisitor for EntryFolding<'_, F> {
    type State = ThreadEntries<F::State>;

    fn start(&self) -> Self::State {
        ThreadEntries { state: self.fold.start(), memory: ThreadMemory::default(), charged: 0 }
    }

    fn wants(&self, rows: RowsOf<'_>, header: Option<&PageHeader>) -> bool {
        rows.partition.is_none_or(|partition| self.wants_partition(partition))
            && self.columns.filter.wants(rows, header)
    }

    fn wants_partition(&self, partition: &str) -> bool {
        self.fold.needs().sees.is_none_or(|sees| sees(self.columns.filter.table(), &instance_of(partition).0))
    }

    fn wants_group(&self, file: &SealedFile, group: usize) -> Result<bool, StoreError> {
        self.columns.filter.wants_group(file, group)
    }

    fn counted_by(&self, rows: RowsOf<'_>) -> Option<CountedBy> {
        let needs = self.fold.needs();
        let is_any_level = self.columns.filter.decided_levels(rows)? == u16::MAX;
        let is_headed = !needs.fields && !needs.source && needs.value.is_none() && !rows.have_streams;
        let minutes = needs.level || !is_any_level || self.columns.common(rows.times.0, rows.times.1).is_none();
        let by = CountedBy { minutes, partitions: needs.instance || needs.sees.is_some() };
        (is_headed && matches!(needs.line, LineNeed::Unused)).then_some(by)
    }

    fn takes_minutes(&self, rows: RowsOf<'_>, minutes: &[LevelMinute]) -> bool {
        self.columns.of_minutes(rows, minutes).is_some()
    }

    fn take_counts(&self, thread: &mut Self::State, rows: RowsOf<'_>, counts: CountSource<'_>) -> bool {
        if self.counted_by(rows).is_none() {
            return false;
        }
        let of_header: Vec<LevelMinute>;
        let minutes = match counts {
            CountSource::Minutes(minutes) => minutes,
            CountSource::Total(records) => {
                if self.wants(rows, None)
                    && let Some(cell) = self.columns.common(rows.times.0, rows.times.1)
                {
                    return self.add_counted(thread, rows, (cell, rows.times.0), None, records);
                }
                return true;
            }
            CountSource::Encoded(levels, _) => {
                let Ok(minutes) = level_minutes(levels).collect() else { return false };
                of_header = minutes;
                &of_header
            }
        };
        let Some(counts) = self.columns.of_minutes(rows, minutes) else { return false };
        counts.into_iter().all(|(at, level, records)| self.add_counted(thread, rows, at, level, records))
    }

    fn needles(&self) -> Vec<&Needle> {
        self.columns.filter.sought()
    }

    fn wants_without(&self, lacks: &dyn Fn(usize) -> bool) -> bool {
        self.columns.filter.wants_without(lacks)
    }

    fn wants_page(&self, page: &PageSections<'_>) -> bool {
        self.columns.filter.wants_page(page)
    }

    fn needs_all(&self) -> bool {
        let needs = self.fold.needs();
        let is_short = matches!(needs.line, LineNeed::Unused) && !needs.detected_level;
        self.columns.filter.needs_columns() || !is_short
    }

    fn needs_column(&self, name: &str, kind: PropertyKind) -> bool {
        MULTI_ROW_PROPERTIES.contains(&(name, kind))
            || [STREAM, NANOS].contains(&name)
            || name == "Source" && self.fold.needs().source
            || self.columns.is_field(name)
    }

    fn needs_rest(&self, batch: &ColumnBatch) -> Result<bool, StoreError> {
        // A stream may need other columns.
        let has_streams = !batch.columns(|name, kind| (name, kind) == (STREAM, PropertyKind::String))?.is_empty();
        Ok(has_streams
            || !batch.spread()?.is_empty()
            || !twice(&self.columns.fields_of(batch)?, batch.len()).is_empty())
    }

    fn visit(&self, thread: &mut Self::State, batch: &ColumnBatch) -> Result<ControlFlow<()>, StoreError> {
        let Some((rows, _)) = matching::decide(&self.columns.filter, batch, batch.records())? else {
            return Ok(self.elsewhere());
        };
        if rows.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        let (mut open, ended) = match self.fold.needs().line {
            LineNeed::Record => (rows, false),
            _ => {
                let ThreadEntries { state, memory, .. } = thread;
                self.columns.fold(memory, &mut StateSink { fold: self.fold, state }, batch, &rows)?
            }
        };
        if ended {
            return Ok(self.end());
        }
        // The records of a batch of a sealed day are some MiB, if all are made at once.
        while let Some(first) = open.next(0) {
            let (mut part, mut next) = (RowSet::none(batch.len()), Some(first));
            for _ in 0..MADE_AT_ONCE {
                let Some(row) = next else { break };
                part.insert(row);
                next = open.next(row + 1);
            }
            let Made::Records(made) = matching::make(&self.columns.filter, batch, &part)? else {
                return Ok(self.elsewhere());
            };
            for (_, record) in made {
                if self.fold.add_record(&mut thread.state, record.record()).is_break() {
                    return Ok(self.end());
                }
            }
            open.subtract(&part);
        }
        if !self.charge(thread) {
            return Ok(self.end());
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Records that are made at once.
const MADE_AT_ONCE: usize = 500;

/// The columns of a property that may tell entries apart.
struct FieldColumns<'b> {
    name: &'b str,
    label: String,
    columns: Vec<BatchColumn<'b>>,
}

/// What a batch has of lines.
struct BatchLines {
    /// The rows whose line is read.
    rows: RowSet,
    /// Those of them with a value that the line does not show and that may tell a level.
    tell: RowSet,
    /// Rows of which the whole line matters, and is more than a message.
    open: RowSet,
    /// The rows whose message matters, of which the line is no more.
    messages: RowSet,
    /// The properties that matter.
    properties: Vec<Box<str>>,
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
    fn is_named_alike(&self, property: &str, name: &str) -> bool {
        let mut names = self.named.iter().filter(|(of, _)| **of == *property).flat_map(|(_, names)| names);
        names.all(|known| **known == *name)
    }
}

/// What the notes of streams tell of a batch.
struct Notes {
    /// The rows of a stream.
    rows: RowSet,
    /// Rows of which only the record tells the labels.
    open: RowSet,
    /// Rows of streams whose level may stand in the line.
    level_in_line: RowSet,
    /// Fields that become labels.
    fields: Vec<FieldName>,
}

impl Notes {
    fn of(
        question: &dyn EntryQuestion,
        memory: &mut ThreadMemory,
        streams: &[BatchColumn<'_>],
        rows: &RowSet,
    ) -> Notes {
        let none = || RowSet::none(rows.length());
        let mut notes = Notes { rows: none(), open: none(), level_in_line: none(), fields: Vec::new() };
        let mut found: Vec<Arc<StreamNeeds>> = Vec::new();
        for column in streams {
            let number = |note: Property<'_>| {
                let Property::String(text) = note else { return 0 };
                let stream = match memory.streams.get(text) {
                    Some(stream) => stream.clone(),
                    None => {
                        let stream = question.stream(text).map(Arc::new);
                        memory.streams.insert(text.into(), stream.clone());
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

impl<F: EntryFold> EntryFolding<'_, F> {
    fn elsewhere(&self) -> ControlFlow<()> {
        self.is_elsewhere.store(true, Ordering::Relaxed);
        ControlFlow::Break(())
    }

    fn end(&self) -> ControlFlow<()> {
        self.is_over.store(true, Ordering::Relaxed);
        ControlFlow::Break(())
    }

    /// Charges what a thread remembers. False if there is no memory for it.
    fn charge(&self, thread: &mut ThreadEntries<F::State>) -> bool {
        if thread.memory.bytes > REMEMBERED_BYTES || thread.memory.texts() > TEXTS_MAX {
            thread.memory = ThreadMemory::default();
        }
        let bytes = thread.memory.bytes;
        if bytes > thread.charged {
            if let Err(over) = self.fold.needs().memory.charge(bytes - thread.charged, "entries") {
                lock(self.refused).get_or_insert(over);
                return false;
            }
            thread.charged = bytes;
        }
        true
    }

    /// Adds records that were counted. False if their outcome is not known: then their page is read.
    fn add_counted(
        &self,
        thread: &mut ThreadEntries<F::State>,
        rows: RowsOf<'_>,
        (cell, time): (Option<u32>, Ticks),
        level: Option<Level>,
        records: u64,
    ) -> bool {
        let Some(cell) = cell else { return true };
        let partition: Arc<str> = rows.partition.unwrap_or(STAND_IN).into();
        let (key, properties) = (RowKey::new(Ticks::UNIX_EPOCH, 0, 0), Vec::new());
        let row = OwnedRow { partition, key, level, properties };
        let record = StoredRecord::new(self.columns.filter.table().clone(), row);
        match self.fold.outcome(&mut thread.state, &record, AlikeLine::None) {
            AlikeOutcome::Group(group, value) => {
                let time = time.unix_nanos();
                if self.fold.add(&mut thread.state, (group, cell), time, value, records).is_break() {
                    let _ = self.end();
                }
            }
            AlikeOutcome::Dropped => {}
            AlikeOutcome::Open => return false,
            AlikeOutcome::Ended => drop(self.end()),
        }
        true
    }
}

impl EntryColumns<'_> {
    fn is_field(&self, name: &str) -> bool {
        self.question.needs().fields && !NO_LABELS.contains(&name) && self.question.needs_field(name)
    }

    /// The cell of all times between two.
    fn common(&self, oldest: Ticks, newest: Ticks) -> Option<Option<u32>> {
        let (first, last) = (oldest.unix_nanos(), newest.unix_nanos().saturating_add(NANOS_PER_TICK - 1));
        let cell = self.question.cell(first);
        ((cell.from..=cell.to).contains(&last) || self.question.cell(last).cell == cell.cell).then_some(cell.cell)
    }

    /// The cells and levels of matching records that are counted by minute. `None` if a cell begins within a minute that has
    /// records, or only the records tell their level.
    #[allow(clippy::type_complexity)]
    fn of_minutes(
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
    fn fields_of<'b>(&self, batch: &'b ColumnBatch) -> Result<Vec<FieldColumns<'b>>, StoreError> {
        fields_of(batch, &|name| self.is_field(name))
    }

    /// Folds the rows whose outcome follows from columns. Returns the others, and whether the question ends.
    fn fold(
        &self,
        memory: &mut ThreadMemory,
        sink: &mut dyn EntrySink,
        batch: &ColumnBatch,
        rows: &RowSet,
    ) -> Result<(RowSet, bool), StoreError> {
        let (needs, length) = (self.question.needs(), batch.len());
        let streams = batch.columns(|name, kind| (name, kind) == (STREAM, PropertyKind::String))?;
        let notes = Notes::of(self.question, memory, &streams, rows);
        let is_field = |name: &str| {
            !NO_LABELS.contains(&name)
                && (self.is_field(name) || notes.fields.iter().any(|field| field.is_property(name)))
        };
        let mut fields = fields_of(batch, &is_field)?;
        if needs.source {
            let columns = batch.columns(|name, kind| (name, kind) == ("Source", PropertyKind::String))?;
            fields.push(FieldColumns { name: "Source", label: String::new(), columns });
        }
        let lines = self.lines(memory, batch, rows, &notes)?;
        let mut open = batch.spread()?;
        open.add(&notes.open);
        open.add(&lines.open);
        open.add(&twice(&fields, length));
        open.keep(rows);
        // What the lines need beside the labels.
        for name in &lines.properties {
            if !fields.iter().any(|field| *field.name == **name) {
                let columns = batch.columns(|known, _| *known == **name)?;
                if let Some(name) = columns.first().map(BatchColumn::name) {
                    fields.push(FieldColumns { name, label: String::new(), columns });
                }
            }
        }
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
        let ThreadMemory { layouts, shapes, .. } = memory;
        let shape = shapes.entry(kinds.iter().map(InputKind::name).collect()).or_default();
        shape.begin(kinds);
        let (mut combinations, mut numbers) = (vec![0u32; length], vec![ABSENT; length]);
        for at in 0..shape.inputs.len() {
            numbers.fill(ABSENT);
            let Input { kind, numbers: known } = &mut shape.inputs[at];
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
        let mut last = (NO_NUMBER, Outcome::Dropped);
        for row in rows.iter() {
            let combination = combinations[row];
            let outcome = match combination {
                NO_NUMBER => Outcome::Open,
                _ if combination == last.0 => last.1,
                _ => match shape.outcome(self, sink, layouts, combination as usize) {
                    Some(outcome) => outcome,
                    None => return Ok((open, true)),
                },
            };
            last = (combination, outcome);
            match outcome {
                Outcome::Dropped => {}
                Outcome::Open => open.insert(row),
                Outcome::Group(group, value) => (groups[row], values[row]) = (group, value),
                Outcome::Valued(group, input) => {
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
        let is_over = self.add_rows(sink, batch, &rows, (&groups, &values))?;
        Ok((open, is_over))
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

    /// What of the lines of some rows matters.
    fn lines(
        &self,
        memory: &mut ThreadMemory,
        batch: &ColumnBatch,
        rows: &RowSet,
        notes: &Notes,
    ) -> Result<BatchLines, StoreError> {
        let (needs, length) = (self.question.needs(), batch.len());
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
        let mut found: Vec<Arc<LineParts>> = Vec::new();
        let mut with_layout = RowSet::none(length);
        for column in batch.columns(|name, kind| (name, kind) == (LAYOUT, PropertyKind::String))? {
            let number = |value: Property<'_>| {
                let Property::String(text) = value else { return 0 };
                if text.is_empty() {
                    return 0;
                }
                let parts = match memory.layouts.get(text) {
                    Some(parts) => parts.clone(),
                    None => {
                        let names_level = |text: &str| self.question.names_level(text);
                        let is_object = text.trim_start().starts_with('{');
                        let reader = reader.filter(|reader| {
                            matches!(needs.line, LineNeed::Members(_)) || is_object || !reader.is_json
                        });
                        let parts = Arc::new(match is_whole {
                            true => LineParts { is_whole: true, ..LineParts::default() },
                            false => LineParts::of(text, reader, &names_level),
                        });
                        memory.layouts.insert(text.into(), parts.clone());
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
                    column.add_where(&plain, |value| self.tells_level(value), &mut lines.messages);
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
        self.check(batch, &found, &with_layout, &mut lines)?;
        Ok(lines)
    }

    fn tells_level(&self, value: Property<'_>) -> bool {
        matches!(value, Property::String(text) if self.question.may_tell_level(text))
    }

    /// Looks at the values that lines do not show.
    fn check(
        &self,
        batch: &ColumnBatch,
        found: &[Arc<LineParts>],
        with_layout: &RowSet,
        lines: &mut BatchLines,
    ) -> Result<(), StoreError> {
        let mut others: Vec<(&str, HoleCheck)> = Vec::new();
        for (name, check) in found.iter().flat_map(|parts| &parts.others) {
            if !others.contains(&(name, *check)) {
                others.push((name, *check));
            }
        }
        // Who says what a message is beside others may need it for other lines, too.
        others.retain(|(name, _)| !lines.properties.iter().any(|known| **known == **name));
        let tells = self.question.needs().detected_level;
        for (name, check) in others {
            for column in batch.columns(|known, kind| known == name && kind == PropertyKind::String)? {
                match check {
                    HoleCheck::Any => {}
                    HoleCheck::Unquoted => {
                        for needle in &*QUOTES {
                            column.add_containing(needle, with_layout, &mut lines.open);
                        }
                    }
                    HoleCheck::Token => {
                        let is_open = |byte: u8| byte <= b' ' || matches!(byte, b'"' | b'\\' | b'=');
                        let holds = |value: Property<'_>| matches!(value, Property::String(text) if text.is_empty() || text.bytes().any(is_open));
                        column.add_where(with_layout, holds, &mut lines.open);
                    }
                    HoleCheck::NoText => {
                        let mut present = column.present();
                        present.keep(with_layout);
                        lines.open.add(&present);
                    }
                }
                if tells {
                    column.add_where(with_layout, |value| self.tells_level(value), &mut lines.tell);
                }
            }
        }
        Ok(())
    }
}

/// The rows in which two of these columns have a value that may be one label.
fn twice(fields: &[FieldColumns<'_>], length: usize) -> RowSet {
    let mut twice = RowSet::none(length);
    for (at, field) in fields.iter().enumerate() {
        let alike = fields[at + 1..].iter().filter(|other| other.label == field.label);
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

/// What a text with a quote, or an escape, has.
static QUOTES: LazyLock<[Needle; 2]> = LazyLock::new(|| [Needle::new("\""), Needle::new("\\")]);

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
    fn texts(&self) -> usize {
        self.layouts.len() + self.streams.len() + self.shapes.len()
    }

    fn used(&self) -> usize {
        let texts = self.layouts.keys().chain(self.streams.keys()).map(|text| 256 + 2 * text.len());
        texts.sum::<usize>() + self.shapes.values().map(Shape::bytes).sum::<usize>()
    }
}

impl Shape {
    /// Sets the inputs, if they are not.
    fn begin(&mut self, kinds: Vec<InputKind>) {
        if self.inputs.len() != kinds.len() {
            self.steps = kinds.iter().map(|_| GroupStep::default()).collect();
            self.inputs = kinds.into_iter().map(|kind| Input { kind, numbers: ValueNumbers::exact() }).collect();
        }
    }

    fn bytes(&self) -> usize {
        let inputs = self.inputs.iter().map(|input| input.numbers.bytes()).sum::<usize>();
        inputs + self.steps.iter().map(GroupStep::bytes).sum::<usize>() + COMBINATION_BYTES * self.outcomes.len()
    }

    /// What becomes of a combination; `None` if the question ends.
    fn outcome(
        &mut self,
        columns: &EntryColumns<'_>,
        sink: &mut dyn EntrySink,
        layouts: &HashMap<Box<str>, Arc<LineParts>>,
        combination: usize,
    ) -> Option<Outcome> {
        if let Some(Some(known)) = self.outcomes.get(combination) {
            return Some(*known);
        }
        let outcome = self.new_outcome(columns, sink, layouts, combination)?;
        if self.outcomes.len() <= combination {
            self.outcomes.resize(combination + 1, None);
        }
        self.outcomes[combination] = Some(outcome);
        Some(outcome)
    }

    fn new_outcome(
        &self,
        columns: &EntryColumns<'_>,
        sink: &mut dyn EntrySink,
        layouts: &HashMap<Box<str>, Arc<LineParts>>,
        combination: usize,
    ) -> Option<Outcome> {
        let mut numbers = vec![ABSENT; self.inputs.len()];
        let mut group = combination;
        for (step, number) in self.steps.iter().zip(&mut numbers).rev() {
            let (parent, value) = step.parents[group];
            (group, *number) = (parent as usize, value);
        }
        let needs = columns.question.needs();
        let mut row = OwnedRow {
            partition: STAND_IN.into(),
            key: RowKey::new(Ticks::UNIX_EPOCH, 0, 0),
            level: None,
            properties: Vec::with_capacity(self.inputs.len()),
        };
        let (mut line, mut valued, mut layout, mut has_message) = (ABSENT, None, None, false);
        for (at, (input, number)) in self.inputs.iter().zip(numbers).enumerate() {
            let value = || input.numbers.value(number);
            match &input.kind {
                InputKind::Level => row.level = u8::try_from(number).ok().and_then(Level::from_code),
                InputKind::Line => line = number,
                _ if number == ABSENT => {}
                InputKind::Partition => {
                    if let Some(OwnedValue::String(partition)) = value() {
                        row.partition = partition.into();
                    }
                }
                InputKind::Stream => row.properties.extend(value().map(|value| (STREAM.to_owned(), value))),
                InputKind::Property(name) => {
                    let value = value();
                    if let (LAYOUT, Some(OwnedValue::String(text))) = (&**name, &value) {
                        layout = layouts.get(text.as_str());
                    }
                    has_message |= **name == *"Message";
                    row.properties.extend(value.map(|value| (name.to_string(), value)));
                }
                InputKind::Valued(name) => {
                    let mut text = String::new();
                    if number == VALUED {
                        let number = FIRST_VALUE + u32::try_from(at).unwrap_or(0);
                        text = format!("{number}{}", needs.value.as_ref().map_or("", |value| value.suffix));
                        // Of two values, only the record says which one is meant.
                        if valued.replace((at, f64::from(number))).is_some() {
                            return Some(Outcome::Open);
                        }
                    }
                    row.properties.push((name.to_string(), OwnedValue::String(text)));
                }
            }
        }
        let is_read = |name: &str| {
            self.inputs.iter().any(|input| match &input.kind {
                InputKind::Property(known) | InputKind::Valued(known) => **known == *name,
                _ => false,
            })
        };
        let alike = match (line, layout) {
            (ABSENT, _) => AlikeLine::None,
            (tells, Some(parts)) => {
                let mut is_real = true;
                for (name, _) in parts.others.iter().filter(|(name, _)| !is_read(name)) {
                    is_real = false;
                    let value = match &**name {
                        "Message" => OwnedValue::String(STAND_IN.into()),
                        VERBATIM => OwnedValue::String(pieces_of(STAND_IN, parts.pieces)),
                        _ => OwnedValue::Int64(0),
                    };
                    row.properties.push((name.to_string(), value));
                }
                match is_real {
                    true => AlikeLine::Real,
                    false => AlikeLine::Reduced(tells == LINE_TELLS || parts.may_tell_level),
                }
            }
            // A message that tells no level was not read.
            (_, None) if matches!(needs.line, LineNeed::Unused) && !has_message => AlikeLine::Reduced(false),
            (_, None) => AlikeLine::Real,
        };
        let record = StoredRecord::new(columns.filter.table().clone(), row);
        Some(match (sink.outcome(&record, alike), valued) {
            (AlikeOutcome::Ended, _) => return None,
            (AlikeOutcome::Dropped, _) => Outcome::Dropped,
            (AlikeOutcome::Open, _) => Outcome::Open,
            (AlikeOutcome::Group(group, value), None) => Outcome::Group(group, value),
            (AlikeOutcome::Group(group, value), Some((input, known))) if value == known => {
                Outcome::Valued(group, input)
            }
            (AlikeOutcome::Group(..), Some(_)) => Outcome::Open,
        })
    }
}
