//! The groups of a pipe, or the fields of records, gathered from all tables.

use super::computed::ComputedColumns;
use super::counted::CountedFields;
use super::entries::EntryFolding;
use super::entry_question::EntryFold;
use super::fields::FieldAggregation;
use super::filter::ColumnFilter;
use super::groups::{Aggregation, StatsGroups, ThreadGroups, counted_by, counted_fields, is_columnar};
use super::place::{TablePlace, TableVisitor};
use super::sorted::{SortQuestion, Sorting, sorted_bytes};
use crate::answer::accumulator::Accumulator;
use crate::answer::answer_budget::AnswerBudget;
use crate::answer::field_list::{AggregatedField, FieldQuestion};
use crate::answer::item::FullRecord;
use crate::answer::spill::{GroupRuns, GroupSource};
use crate::bounds::tables_of;
use crate::entity::OwnedValue;
use crate::filter::Filter;
use crate::record::StoredRecord;
use crate::select::{Selection, records_by_rows};
use crate::tables::TableError;
use daytable_logsql::query::{Aggregate, Function, GroupField};
use daytable_logsql::{Column, FieldName, Pipe, Predicate};
use daytable_model::time::Ticks;
use daytable_platform::budget::OverBudget;
use daytable_platform::lock;
use std::cell::Cell;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// The groups and functions of a pipe, which can be computed from columns.
pub(in crate::answer) struct GroupQuestion {
    by: Vec<GroupField>,
    aggregates: Vec<Aggregate>,
    /// How many groups with the greatest counts are wanted, if not all.
    top: Option<u64>,
    /// What pipes in front of it compute.
    computed: ComputedColumns,
}

/// What was gathered.
pub(in crate::answer) enum Aggregated {
    /// Groups in the temporary file.
    Runs(GroupRuns),
    /// A group: its values, and the states of the functions.
    Group(Vec<Option<OwnedValue>>, Vec<Accumulator>),
    /// All groups.
    All(Box<AggregatedGroups>),
    /// A record, which is to be added to its group.
    Record(Box<FullRecord>),
}

/// All groups of a question, as they were gathered: some fifty bytes each.
pub(in crate::answer) struct AggregatedGroups {
    groups: ThreadGroups,
    /// Groups with fewer records are not wanted.
    least: u64,
    /// The memory that was charged.
    bytes: usize,
}

impl AggregatedGroups {
    /// The numbers of the groups.
    pub(in crate::answer) fn numbers(&self) -> impl Iterator<Item = usize> + use<> {
        0..self.groups.len()
    }

    /// Whether the group may be wanted.
    pub(in crate::answer) fn is_wanted(&self, group: usize) -> bool {
        self.least == 0 || self.count(group) >= self.least
    }

    /// The records of a group, where the first function counts them.
    pub(in crate::answer) fn count(&self, group: usize) -> u64 {
        self.groups.count(group).unwrap_or(0)
    }

    /// The values of a group.
    pub(in crate::answer) fn values(&self, group: usize) -> Vec<Option<OwnedValue>> {
        self.groups.values(group)
    }

    /// The groups with their values.
    pub(in crate::answer) fn source(&self) -> &dyn GroupSource {
        &self.groups
    }

    /// Takes the states of the functions of a group.
    pub(in crate::answer) fn take_states(&mut self, group: usize) -> Vec<Accumulator> {
        self.groups.take_states(group).collect()
    }

    /// The memory that is charged for the groups.
    pub(in crate::answer) fn charged(&self) -> usize {
        self.bytes
    }
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
        (by, aggregates, top): (&[GroupField], &[Aggregate], Option<u64>),
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
        Some(GroupQuestion { by: by.to_vec(), aggregates: aggregates.to_vec(), top, computed })
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
    // The groups of all threads and tables, but those that cannot be added.
    let mut gathered: Option<ThreadGroups> = None;
    let (mut are_all, mut held) = (true, 0);
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
    let mut runs = GroupRuns::default();
    let refuse = |over: OverBudget| *lock(&refused) = Some(over);
    let walked = each_table(selection, visitor, |found| match found {
        FoundInTable::States(states, visitor) => {
            let (shared, more) = visitor.take_shared();
            runs.append(more);
            for mut state in shared.into_iter().chain(states) {
                matched += state.matched;
                let charged = state.charged();
                for record in state.records.take() {
                    are_all = false;
                    each(Aggregated::Record(record.into()));
                }
                // Where some groups are in the file, the others go there as well.
                if !runs.is_empty() {
                    spill.write_groups(&mut state).map_or_else(&refuse, |more| runs.append(more));
                    memory.release(charged);
                    continue;
                }
                match &mut gathered {
                    Some(gathered) => gathered.merge(&mut state),
                    None => {
                        state.forget_computed();
                        gathered = Some(state);
                    }
                }
                memory.release(charged);
                // What the thread had is passed on, but for the groups.
                memory.release(std::mem::take(&mut held));
                let more = gathered.as_ref().map_or(0, ThreadGroups::memory);
                if memory.charge(more, "groups").is_ok() {
                    held = more;
                }
                // What the other threads still have is added to these groups, or goes to the file with them.
                let is_due = held < more || held > spill.memory_max();
                if let Some(mut groups) = gathered.take_if(|_| is_due) {
                    spill.write_groups(&mut groups).map_or_else(&refuse, |more| runs.append(more));
                    memory.release(std::mem::take(&mut held));
                }
            }
        }
        FoundInTable::Record(record) => {
            (matched, are_all) = (matched + 1, false);
            each(Aggregated::Record(record));
        }
    });
    if let Some(groups) = gathered.as_mut().filter(|_| !runs.is_empty()) {
        spill.write_groups(groups).map_or_else(&refuse, |more| runs.append(more));
        gathered = None;
        memory.release(std::mem::take(&mut held));
    }
    if let Some(over) = lock(&refused).take() {
        budget.refuse(over);
    }
    walked?;
    if !runs.is_empty() {
        each(Aggregated::Runs(runs));
    }
    match gathered {
        Some(groups) if are_all && groups.are_apart() => {
            let top = question.top.and_then(|top| usize::try_from(top).ok());
            let least = top.map_or(0, |top| groups.least_of_top(top));
            each(Aggregated::All(Box::new(AggregatedGroups { groups, least, bytes: held })));
        }
        Some(groups) => {
            groups.finish(|values, states| each(Aggregated::Group(values, states)));
            memory.release(held);
        }
        None => {}
    }
    Ok(AggregationReport { matched, is_cut: false })
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
