//! What matters of records that are entries of the language of Loki, and what becomes of them.
//!
//! Who asks knows the language, and columns know records: this is all that they know of each other.

use super::line_parts::MemberScan;
use crate::record::StoredRecord;
use daytable_logsql::FieldName;
use daytable_model::property::Property;
use daytable_platform::budget::QuestionBudget;
use std::ops::ControlFlow;

/// Tests a day-table and an instance.
pub type InstanceTest<'q> = dyn Fn(&str, &str) -> bool + Sync + 'q;

/// What of a record matters.
pub struct EntryNeeds<'q> {
    /// Whether the label `level` or the level that Loki detects matters.
    pub level: bool,
    /// Whether the level matters that Loki detects, in the line if labels do not have it.
    pub detected_level: bool,
    /// Whether the instance matters.
    pub instance: bool,
    /// Whether the source matters.
    pub source: bool,
    /// Whether any field matters.
    pub fields: bool,
    /// Whether none does of a record that has a level and an instance, as far as those matter.
    pub headers: bool,
    /// What of the line matters.
    pub line: LineNeed<'q>,
    /// Finds the members of a line that is JSON which may be its level.
    pub level_members: Option<MemberScan<'q>>,
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

/// What of a line matters.
#[derive(Clone, Copy)]
pub enum LineNeed<'q> {
    /// Nothing.
    Unused,
    /// Some values.
    Members(MemberScan<'q>),
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
    /// Whether the labels follow from whole records alone.
    pub record: bool,
}

/// How far a record of a combination has a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AlikeLine {
    /// The line of all these records.
    Real,
    /// One with stand-ins. The flag says whether what they stand for may have a level.
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
    /// It follows from whole records alone.
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
    /// What follows from the whole record alone.
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

    /// Whether a part of a line may have a level.
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
pub(super) trait EntrySink {
    fn outcome(&mut self, record: &StoredRecord, line: AlikeLine) -> AlikeOutcome;
    fn add(&mut self, at: (u32, u32), time: i64, value: f64) -> ControlFlow<()>;
}
