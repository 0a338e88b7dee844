//! The groups of a pipe, or the fields of records, gathered from all tables.

use super::computed::ComputedColumns;
use super::counted::CountedFields;
use super::entries::EntryFolding;
use super::entry_question::EntryFold;
use super::fields::FieldAggregation;
use super::filter::ColumnFilter;
use super::group_table::GroupTable;
use super::groups::{Aggregation, StatsGroups, counted_by, counted_fields, is_columnar};
use super::place::{TablePlace, TableVisitor};
use super::sorted::{SortQuestion, Sorting, sorted_bytes};
use crate::answer::answer_budget::AnswerBudget;
use crate::answer::field_list::{AggregatedField, FieldQuestion};
use crate::answer::item::FullRecord;
use crate::answer::spill::GroupRuns;
use crate::answer::spill_file::SpillFile;
use crate::bounds::tables_of;
use crate::filter::Filter;
use crate::record::StoredRecord;
use crate::select::{Selection, records_by_rows};
use crate::tables::TableError;
use daytable_logsql::query::{Aggregate, Function, GroupField};
use daytable_logsql::{Column, FieldName, Pipe, Predicate};
use daytable_model::time::Ticks;
use daytable_platform::budget::{OverBudget, QuestionBudget};
use daytable_platform::lock;
use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The groups and functions of a pipe, which can be computed from columns.
pub(in crate::answer) struct GroupQuestion {
    by: Vec<GroupField>,
    aggregates: Vec<Aggregate>,
    /// What pipes in front of it compute.
    computed: ComputedColumns,
}

/// What was gathered.
pub(in crate::answer) enum Aggregated {
    /// Groups in the temporary file.
    Runs(GroupRuns),
    /// Groups in memory, and what was charged for them.
    Groups(Box<GroupTable>, usize),
    /// A record, which is to be added to its group.
    Record(Box<FullRecord>),
}

/// How much was gathered.
pub(in crate::answer) struct AggregationReport {
    /// Records that matched.
    pub(in crate::answer) matched: u64,
    /// Whether something is missing, because there was no memory for it.
    pub(in crate::answer) is_cut: bool,
}

impl GroupQuestion {
    /// A question that columns can answer, behind pipes that look at one record at a time; `None` if they cannot.
    pub(in crate::answer) fn new(
        pipes: &[Pipe],
        (by, aggregates): (&[GroupField], &[Aggregate]),
        now: Ticks,
    ) -> Option<GroupQuestion> {
        if by.iter().any(|by| by.field.column() == Column::Line) || !aggregates.iter().all(is_columnar) {
            return None;
        }
        let time = FieldName::new("time");
        let is_by_time = aggregates.iter().any(|of| matches!(of.function, Function::First | Function::Last));
        if is_by_time && pipes.iter().any(|pipe| pipe.effect().may_change(&time)) {
            // They choose by the time that a row shows.
            return None;
        }
        let uses = by.iter().map(|by| &by.field).chain(aggregates.iter().flat_map(|of| &of.fields));
        let computed = ComputedColumns::new(pipes, uses, aggregates, now)?;
        Some(GroupQuestion { by: by.to_vec(), aggregates: aggregates.to_vec(), computed })
    }
}

/// What is found in a table.
enum FoundInTable<'v, V: TableVisitor> {
    /// What the threads of a walk gathered, and their visitor.
    States(Vec<V::State>, &'v V),
    /// A record that matches, where rows were read.
    Record(Box<FullRecord>),
}

/// Walks all tables, each with a visitor of its own.
fn each_table<V: TableVisitor>(
    selection: &Selection<'_>,
    visitor: impl Fn(Arc<str>) -> V,
    mut each: impl FnMut(FoundInTable<'_, V>),
) -> Result<(), TableError> {
    for bounds in tables_of(selection.stores, selection.reading, selection.filter)? {
        if !(selection.go_on)() {
            return Err(TableError::Interrupted);
        }
        let Some(mut place) = TablePlace::of(selection, &bounds)? else { continue };
        let visitor = visitor(bounds.table.to_string().into());
        let range = place.range.clone();
        let walked = place.walk(selection, &bounds, &range, &visitor, &|| visitor.restart())?;
        // The states say what ended the question, also where another thread found records that columns do not describe.
        match walked.filter(|_| visitor.is_over() || !visitor.falls_back_to_rows()) {
            Some(states) => {
                each(FoundInTable::States(states, &visitor));
                if visitor.is_over() {
                    return Err(TableError::Interrupted);
                }
            }
            None => {
                if visitor.is_over() {
                    return Err(TableError::Interrupted);
                }
                visitor.restart();
                for record in records_by_rows(selection, &bounds)?.into_iter().flatten() {
                    let record = FullRecord::new(record?);
                    if visitor.columns().matches(&record) {
                        each(FoundInTable::Record(record.into()));
                    }
                }
            }
        }
    }
    Ok(())
}

/// Gathers the groups of all tables. `each` takes memory from the budget for what it keeps.
pub(in crate::answer) fn aggregate_records(
    selection: &Selection<'_>,
    predicate: &Arc<Predicate>,
    question: &GroupQuestion,
    now: Ticks,
    budget: &AnswerBudget,
    each: &mut dyn FnMut(Aggregated),
) -> Result<AggregationReport, TableError> {
    let grouping = StatsGroups { by: &question.by, aggregates: &question.aggregates };
    let (memory, spill, refused) = (budget.question(), budget.spill(), Mutex::new(None));
    let computed = &question.computed;
    let mut matched = 0;
    let visitor = |table: Arc<str>| {
        let condition = |(at, aggregate): (usize, &Aggregate)| {
            let condition = aggregate.condition.as_ref().filter(|_| !computed.has_condition(at))?;
            let predicate = Arc::new(Predicate::new(condition, now));
            Some(ColumnFilter::new(predicate, &Filter::default(), table.clone()))
        };
        let conditions: Vec<Predicate> =
            question.aggregates.iter().filter_map(|of| Some(Predicate::new(of.condition.as_ref()?, now))).collect();
        Aggregation {
            // What is computed is in no page's numbers.
            counted_fields: match computed.is_empty() {
                true => counted_fields(&grouping, predicate, &conditions),
                false => CountedFields::of([&**predicate], []),
            },
            conditions: question.aggregates.iter().enumerate().map(condition).collect(),
            columns: ColumnFilter::of(selection, predicate.clone(), table.clone()),
            counted_by: counted_by(&grouping).filter(|_| computed.is_empty()),
            grouping: &grouping,
            computed,
            memory,
            spill,
            shared: Mutex::default(),
            are_mostly_new: AtomicBool::new(false),
            charged: AtomicUsize::new(0),
            refused: &refused,
            falls_back_to_rows: AtomicBool::new(false),
        }
    };
    let mut gathered = GatheredGroups { memory, spill, table: None, held: 0, runs: GroupRuns::default() };
    let walked = each_table(selection, visitor, |found| match found {
        FoundInTable::States(states, visitor) => {
            let (shared, runs) = visitor.take_shared();
            gathered.runs.append(runs);
            let mut add = |table, charged| {
                if let Err(over) = gathered.add(table, charged) {
                    *lock(&refused) = Some(over);
                }
            };
            if let Some((table, charged)) = shared {
                add(table, charged);
            }
            for mut state in states {
                matched += state.matched;
                state.records.take().for_each(|record| each(Aggregated::Record(record.into())));
                add(state.table, state.bytes);
            }
        }
        FoundInTable::Record(record) => {
            matched += 1;
            each(Aggregated::Record(record));
        }
    });
    if let Some(over) = lock(&refused).take() {
        budget.refuse(over);
    }
    walked?;
    if !gathered.runs.is_empty() {
        each(Aggregated::Runs(gathered.runs));
    }
    if let Some(table) = gathered.table {
        each(Aggregated::Groups(Box::new(table), gathered.held));
    }
    Ok(AggregationReport { matched, is_cut: false })
}

/// The groups of all threads and tables, as they are put together.
struct GatheredGroups<'q> {
    memory: &'q QuestionBudget,
    spill: &'q SpillFile,
    /// Those in memory: none where some are in the file.
    table: Option<GroupTable>,
    /// What is charged for them.
    held: usize,
    runs: GroupRuns,
}

impl GatheredGroups<'_> {
    /// Adds the groups of a thread, for which so much was charged, or what it shared with others.
    fn add(&mut self, mut table: GroupTable, charged: usize) -> Result<(), OverBudget> {
        if self.runs.is_empty() {
            match &mut self.table {
                Some(gathered) => gathered.merge(&mut table),
                None => self.table = Some(table),
            }
            // What the thread had is passed on, but for the groups.
            self.memory.release(charged + std::mem::take(&mut self.held));
            let memory = self.table.as_ref().map_or(0, GroupTable::memory);
            if self.memory.charge(memory, "groups").is_ok() {
                self.held = memory;
            }
            if self.held == memory && memory <= self.spill.memory_max() {
                return Ok(());
            }
        } else {
            self.runs.append(self.spill.write_groups(&mut table)?);
            self.memory.release(charged);
        }
        // Where some groups are in the file, all others go there as well.
        if let Some(mut table) = self.table.take() {
            self.runs.append(self.spill.write_groups(&mut table)?);
            self.memory.release(std::mem::take(&mut self.held));
        }
        Ok(())
    }
}

/// Gathers the first records of an order from all tables, and those that columns do not describe, in no order. `each` takes
/// memory from the budget for what it keeps.
pub(in crate::answer) fn collect_sorted(
    selection: &Selection<'_>,
    predicate: &Arc<Predicate>,
    question: &SortQuestion,
    budget: &AnswerBudget,
    each: &mut dyn FnMut(StoredRecord) -> ControlFlow<()>,
) -> Result<AggregationReport, TableError> {
    let (memory, bound, refused) = (budget.question(), Mutex::new(None), Mutex::new(None));
    let (mut matched, mut rows, mut held) = (0, Vec::new(), 0);
    let visitor = |table: Arc<str>| Sorting {
        question,
        columns: ColumnFilter::of(selection, predicate.clone(), table),
        counted_fields: CountedFields::of([&**predicate], []),
        memory,
        charged: AtomicUsize::new(0),
        bound: &bound,
        refused: &refused,
        falls_back_to_rows: AtomicBool::new(false),
    };
    let walked = each_table(selection, visitor, |found| match found {
        FoundInTable::States(states, _) => {
            for mut state in states {
                matched += state.matched;
                for record in state.records.take() {
                    let _ = each(record.into_record());
                }
                held += state.bytes;
                memory.release(state.remembered);
                rows.append(&mut state.rows);
            }
            question.truncate(&mut rows);
            let left = rows.iter().map(sorted_bytes).sum::<usize>().min(held);
            memory.release(held - left);
            held = left;
        }
        FoundInTable::Record(record) => {
            matched += 1;
            let _ = each(record.into_record());
        }
    });
    if let Some(over) = lock(&refused).take() {
        budget.refuse(over);
    }
    walked?;
    for sorted in rows {
        memory.release(sorted_bytes(&sorted));
        if each(StoredRecord::new(sorted.table, sorted.row)).is_break() {
            break;
        }
    }
    Ok(AggregationReport { matched, is_cut: false })
}

/// What entries were folded to.
pub(in crate::answer) struct FoldedTables<S> {
    /// What each thread gathered.
    pub(in crate::answer) states: Vec<S>,
    /// Why there was no memory for it.
    pub(in crate::answer) refused: Option<OverBudget>,
}

/// Folds the matching records of all tables as entries. `is_over` is set once the fold ends; then what was gathered says why.
pub(in crate::answer) fn aggregate_entries<F: EntryFold>(
    selection: &Selection<'_>,
    predicate: &Arc<Predicate>,
    fold: &F,
    is_over: &Cell<bool>,
) -> (Result<(), TableError>, FoldedTables<F::State>) {
    let (refused, memory) = (Mutex::new(None), fold.needs().memory);
    let (mut states, mut own): (Vec<F::State>, Option<F::State>) = (Vec::new(), None);
    let visitor =
        |table: Arc<str>| EntryFolding::new(fold, ColumnFilter::of(selection, predicate.clone(), table), &refused);
    let walked = each_table(selection, visitor, |found| match found {
        FoundInTable::States(of_threads, _) => {
            for thread in of_threads {
                memory.release(thread.charged);
                states.push(thread.state);
            }
        }
        FoundInTable::Record(record) => {
            if !is_over.get() && fold.add_record(own.get_or_insert_with(|| fold.start()), record.record()).is_break() {
                is_over.set(true);
            }
        }
    });
    states.extend(own);
    (walked, FoldedTables { states, refused: lock(&refused).take() })
}

/// Gathers the fields of the matching records of all tables. `each` takes memory from the budget for what it keeps.
pub(in crate::answer) fn aggregate_fields(
    selection: &Selection<'_>,
    predicate: &Arc<Predicate>,
    question: FieldQuestion,
    budget: &AnswerBudget,
    each: &mut dyn FnMut(AggregatedField<'_>),
) -> Result<AggregationReport, TableError> {
    let (memory, is_full) = (budget.question(), AtomicBool::new(false));
    let mut matched = 0;
    let visitor = |table: Arc<str>| FieldAggregation {
        columns: ColumnFilter::of(selection, predicate.clone(), table),
        counted_fields: CountedFields::of([&**predicate], []),
        question,
        memory,
        is_full: &is_full,
        falls_back_to_rows: AtomicBool::new(false),
    };
    each_table(selection, visitor, |found| match found {
        FoundInTable::States(states, _) => {
            for mut state in states {
                matched += state.matched;
                let charged = state.charged();
                each(AggregatedField::Records(state.matched - state.records.len() as u64));
                state.records.take().for_each(|record| each(AggregatedField::Record(record.into())));
                state.finish(|name, found| each(AggregatedField::Field(name, found)));
                memory.release(charged);
            }
        }
        FoundInTable::Record(record) => {
            matched += 1;
            each(AggregatedField::Record(record));
        }
    })?;
    Ok(AggregationReport { matched, is_cut: is_full.load(Ordering::Relaxed) })
}
