//! What a pipe at work is: a stage that takes items and passes others on.

use super::answer_budget::AnswerBudget;
use super::columns::GroupTable;
use super::field_list::{AggregatedField, FieldQuestion};
use super::item::{AnswerItem, AnswerRow};
use super::row_batch::RowBatch;
use super::spill::{GroupRuns, SpillStop};
use daytable_logsql::FieldName;
use daytable_logsql::query::{Aggregate, GroupField, SortKey};
use daytable_model::time::Ticks;
use std::ops::ControlFlow;

/// What a stage passes on: an item, or rows that come together.
pub(super) enum StageInput<'b> {
    Item(AnswerItem),
    Rows(RowBatch<'b>),
}

impl From<AnswerItem> for StageInput<'_> {
    fn from(item: AnswerItem) -> Self {
        StageInput::Item(item)
    }
}

impl From<AnswerRow> for StageInput<'_> {
    fn from(row: AnswerRow) -> Self {
        StageInput::Item(AnswerItem::Row(row))
    }
}

/// Where a stage passes items on.
pub(super) type Next<'n> = &'n mut dyn FnMut(StageInput<'_>) -> ControlFlow<()>;

/// What the stages of one answer know.
#[derive(Clone)]
pub struct PipelineContext<'q> {
    /// The time that `now` means.
    pub now: Ticks,
    /// The length of the answer's time in seconds, if the query limits its start.
    pub seconds: Option<f64>,
    /// The shared memory.
    pub budget: AnswerBudget,
    /// Whether the answer goes on: somebody waits for it, and it has time. Asked within the work on one item, too.
    pub go_on: &'q dyn Fn() -> bool,
}

/// A pipe at work.
pub(super) trait PipeStage<'q> {
    /// Takes an item. Breaks if the stage needs no more.
    fn push(&mut self, item: AnswerItem, next: Next<'_>) -> ControlFlow<()>;

    /// Takes rows that come together.
    fn push_rows(&mut self, rows: RowBatch<'_>, next: Next<'_>) -> ControlFlow<()> {
        rows.each_row(|row| self.push(AnswerItem::Row(row), next))
    }

    /// The stage, if it groups.
    fn as_groups(&mut self) -> Option<&mut dyn Groups> {
        None
    }

    /// Lets items come in any order, if the stage sorts.
    fn sort_by_place(&mut self) {}

    /// Lets groups by these fields come in any order, if the stage sorts: those of one order are to be in the order of groups.
    fn sort_by_groups(&mut self, _by: Vec<FieldName>) {}

    /// What the stage asks about all fields, if that is all.
    fn field_question(&self) -> Option<FieldQuestion> {
        None
    }

    /// Takes what was found of the fields of records.
    fn add_field(&mut self, _found: AggregatedField<'_>) {}

    /// Passes on what the stage kept.
    fn finish(&mut self, _next: Next<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// A stage that groups, to which groups may be added that were gathered elsewhere.
pub(super) trait Groups {
    /// The groups and functions.
    fn grouping(&self) -> (&[GroupField], &[Aggregate]);

    /// Says whether the order of the rows makes a difference behind the stage.
    fn set_ordered(&mut self, is_ordered: bool);

    /// Says that only this many groups are wanted, the first ones of an order, by columns of their rows.
    fn set_first(&mut self, by: &[SortKey], wanted: u64);

    /// Adds groups that are in the file.
    fn add_runs(&mut self, runs: GroupRuns);

    /// Adds groups in memory, for which so much was charged.
    fn add_table(&mut self, table: GroupTable, charged: usize);
}

/// Ends a stage: the question is refused, or nobody waits for it.
pub(super) fn stopped(stop: impl Into<SpillStop>, budget: &AnswerBudget) -> ControlFlow<()> {
    if let SpillStop::Over(over) = stop.into() {
        budget.refuse(over);
    }
    ControlFlow::Break(())
}
