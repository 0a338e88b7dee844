//! `stats`, `top`, `uniq` and `field_values` over columns: rows are told apart by small numbers that stand for values,
//! and functions add numbers as they are packed.
//!
//! Each thread has its own groups. In the end they are merged, and passed on by value to the stage of the pipe, where
//! records that columns do not describe are added one by one. Groups that outgrow the memory go to the temporary file of the
//! question, where the stage of the pipe merges them.

use super::computed::{ComputeError, ComputedBatch, ComputedColumns, ComputedState};
use super::counted::{CountBucket, CountedBy, CountedFields, PageValueCounts, is_counted};
use super::filter::{ColumnFilter, MatchingLevels};
use super::group_others::is_chosen;
use super::group_states::States;
use super::group_step::GroupStep;
use super::group_table::GroupTable;
use super::kept::KeptRecords;
use super::matching;
use super::place::TableVisitor;
use super::value_numbers::{ABSENT, NO_NUMBER, ValueNumbers};
use super::values::{Values, is_needed_for, open_rows};
use crate::answer::spill::{GroupRuns, GroupSource};
use crate::answer::spill_file::SpillFile;
use crate::answer::value_steps::{step_end, step_start};
use crate::entity::OwnedValue;
use daytable_logsql::query::{Aggregate, Function, GroupField, ValueStep, ValueStepSize};
use daytable_logsql::{Column, FieldName, Predicate};
use daytable_model::key::instance_of;
use daytable_model::property::Property;
use daytable_model::record::Level;
use daytable_model::row_set::RowSet;
use daytable_model::time::Ticks;
use daytable_platform::budget::{OverBudget, QuestionBudget};
use daytable_platform::lock;
use daytable_store::page::{LevelMinute, LevelNumbers, PatternBlock, ValueReader};
use daytable_store::{
    ColumnBatch, ColumnTest, NeedsKeys, Part, PartFilter, PartVisitor, RecordNumbers, RowsOf, StoreError,
};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering as Order};
use std::sync::{Arc, Mutex};

/// The group of a row whose value was not seen yet. No group has this number.
const NO_GROUP_YET: u32 = NO_NUMBER - 1;

/// The numbers of the levels of a field before any was asked for.
const NO_LEVELS: [u32; 1 + Level::ALL.len()] = [NO_NUMBER; 1 + Level::ALL.len()];

/// Groups that a thread keeps where most are new to it: those of a table that the processor caches cost less to find than
/// a larger one would combine.
const NEW_GROUPS_BYTES: usize = 1 << 20;

/// The same where different values are counted, which are sorted before they go to the file.
const NEW_VALUES_BYTES: usize = 8 << 20;

/// The groups and functions of a pipe.
pub(super) struct StatsGroups<'q> {
    pub(super) by: &'q [GroupField],
    pub(super) aggregates: &'q [Aggregate],
}

/// What is gathered of the matching records of a table.
pub(super) struct Aggregation<'q> {
    pub(super) columns: ColumnFilter,
    pub(super) grouping: &'q StatsGroups<'q>,
    /// What pipes in front of the groups compute.
    pub(super) computed: &'q ComputedColumns,
    /// The condition of each aggregate that has one, and looks at nothing that is computed.
    pub(super) conditions: Vec<Option<ColumnFilter>>,
    /// The memory of groups and values.
    pub(super) memory: &'q QuestionBudget,
    /// Where groups go that outgrow it.
    pub(super) spill: &'q SpillFile,
    /// The groups of this table that threads had no memory for.
    pub(super) shared: Mutex<SharedGroups>,
    /// Whether most of what a thread gave away was not known before.
    pub(super) are_mostly_new: AtomicBool,
    /// The memory that threads charged for groups of this table, which are not passed on yet.
    pub(super) charged: AtomicUsize,
    /// Why the question cannot be answered, if a value is too long.
    pub(super) refused: &'q Mutex<Option<OverBudget>>,
    /// The grouping in which precomputed counts can answer; `None` if records must be read.
    pub(super) counted_by: Option<CountedBy>,
    /// The fields whose value counts may answer the question about a page.
    pub(super) counted_fields: CountedFields,
    /// Whether columns cannot answer, so that rows are read instead.
    pub(super) falls_back_to_rows: AtomicBool,
}

/// Groups that threads gave away.
#[derive(Default)]
pub(super) struct SharedGroups {
    /// Those in memory.
    table: Option<GroupTable>,
    /// The memory that was charged for them.
    bytes: usize,
    /// Those in the file.
    runs: GroupRuns,
    /// Whether those in memory outgrew it once.
    outgrew: bool,
}

/// The groups of one thread.
pub(super) struct ThreadGroups {
    /// Records that matched.
    pub(super) matched: u64,
    /// As many of them as there were when the groups were last passed on.
    passed_on: u64,
    /// Those of them that are to be added one by one.
    pub(super) records: KeptRecords,
    pub(super) table: GroupTable,
    /// For each field the numbers of the levels by their codes, once they were asked for.
    levels: Vec<[u32; NO_LEVELS.len()]>,
    /// The last partition of which records were counted, and the numbers that they have in common.
    last_fixed: Option<(Option<String>, Vec<Option<u32>>)>,
    computed: ComputedState,
    /// The memory that was charged for it.
    pub(super) bytes: usize,
    /// As many groups and different values as are passed on at once, where most are new.
    full: Option<usize>,
}

/// Whether the aggregate can be computed from columns.
pub(super) fn is_columnar(aggregate: &Aggregate) -> bool {
    let is_line = aggregate.fields.iter().any(|field| field.column() == Column::Line);
    !is_line
        && match aggregate.function {
            // The values are in the order of the records.
            Function::Values => false,
            // Without names they have all fields of a record.
            Function::RowAny => !aggregate.fields.is_empty(),
            Function::RowMin | Function::RowMax => aggregate.fields.len() > 1,
            _ => true,
        }
}

/// The grouping in which precomputed counts answer a question; `None` if records must be read.
pub(super) fn counted_by(grouping: &StatsGroups<'_>) -> Option<CountedBy> {
    const MINUTE_NANOS: f64 = 60e9;
    let is_all = |of: &Aggregate| is_count(of) && of.condition.is_none();
    let mut counted = CountedBy::default();
    for by in grouping.by {
        match (by.field.column(), &by.step) {
            (Column::Level, None) => counted.minutes = true,
            (Column::Instance, None) => counted.partitions = true,
            (Column::Table, None) => {}
            (Column::Time, Some(ValueStep { size: ValueStepSize::Number(nanos), offset: None, .. }))
                if nanos % MINUTE_NANOS == 0.0 =>
            {
                counted.minutes = true;
            }
            _ => return None,
        }
    }
    grouping.aggregates.iter().all(is_all).then_some(counted)
}

/// Whether all these rows are in one step of a group, where it is one of time.
fn is_one_step(by: &GroupField, rows: RowsOf<'_>) -> bool {
    let (oldest, newest) = rows.times;
    let start = |time| by.step.as_ref().and_then(|step| step_start(Property::DateTime(time), step));
    match by.field.column() {
        Column::Time => start(oldest).is_some() && start(oldest) == start(newest),
        Column::Level | Column::Instance | Column::Table => by.step.is_none(),
        _ => is_counted(&by.field),
    }
}

/// Whether a function counts records.
fn is_count(of: &Aggregate) -> bool {
    matches!(of.function, Function::Count | Function::Rate) && of.fields.is_empty()
}

/// The fields whose value counts may answer the groups, or show that no record matches.
pub(super) fn counted_fields(
    grouping: &StatsGroups<'_>,
    filter: &Predicate,
    conditions: &[Predicate],
) -> CountedFields {
    // Only counts follow from value counts. For other functions they only prune pages that cannot match.
    let is_counting = grouping.aggregates.iter().all(is_count);
    let by = grouping.by.iter().filter(|_| is_counting).map(|by| &by.field);
    CountedFields::of(conditions.iter().chain([filter]), by)
}

/// The records of a batch that match, as far as columns alone decide it.
struct MatchedBatch {
    /// Those that match.
    rows: RowSet,
    /// Those that the condition of each function accepts, where it has one.
    conditions: Vec<Option<RowSet>>,
}

/// Records with the same values, of which some match.
struct MatchingBucket<'p> {
    of: CountBucket<'p>,
    /// Those that match, by level.
    matching: LevelNumbers,
    /// The same of the condition of each function.
    functions: Vec<LevelNumbers>,
}

impl TableVisitor for Aggregation<'_> {
    fn columns(&self) -> &ColumnFilter {
        &self.columns
    }

    fn falls_back_to_rows(&self) -> bool {
        self.falls_back_to_rows.load(Order::Relaxed)
    }

    fn is_over(&self) -> bool {
        lock(self.refused).is_some()
    }

    fn restart(&self) {
        std::mem::take(&mut *lock(&self.shared));
        self.memory.release(self.charged.swap(0, Order::Relaxed));
    }
}

impl PartVisitor for Aggregation<'_> {
    type State = ThreadGroups;

    fn start(&self) -> ThreadGroups {
        let StatsGroups { by, aggregates } = self.grouping;
        ThreadGroups {
            matched: 0,
            passed_on: 0,
            records: KeptRecords::default(),
            table: GroupTable::new(by.len(), aggregates),
            levels: vec![NO_LEVELS; by.len()],
            last_fixed: None,
            computed: self.computed.start(self.memory.bytes_max()),
            bytes: 0,
            full: None,
        }
    }

    fn filter(&self) -> &dyn PartFilter {
        &self.columns
    }

    fn counted_columns(&self) -> Option<ColumnTest<'_>> {
        self.counted_fields.columns()
    }

    fn counts_partitions(&self) -> bool {
        self.counted_by.is_some_and(|by| !by.minutes)
    }

    fn count(&self, state: &mut ThreadGroups, rows: RowsOf<'_>, numbers: RecordNumbers<'_>) -> bool {
        let Some(by) = self.counted_by else { return false };
        match numbers {
            RecordNumbers::Partitions(records) => return self.count_partitions(state, by, rows, records),
            _ if by.partitions && rows.partition.is_none() => return false,
            // Levels and minutes do not matter.
            RecordNumbers::Encoded(_, records) if !by.minutes && self.columns.levels_of(rows).surely == u16::MAX => {
                let fixed = self.fixed_numbers(state, rows);
                self.add_counted(state, &fixed, (None, None), records.into(), |_| true);
                return true;
            }
            _ => {}
        }
        let Some(minutes) = numbers.minutes() else { return false };
        let MatchingLevels { may, surely } = self.columns.levels_of(rows);
        let bit = |of: &LevelMinute| 1u16 << of.level.map_or(0, Level::code);
        if minutes.iter().any(|of| may & !surely & bit(of) != 0) {
            return false;
        }
        let fixed = self.fixed_numbers(state, rows);
        let wanted = minutes.iter().filter(|of| surely & bit(of) != 0);
        if !by.minutes {
            let records = wanted.map(|of| u64::from(of.records)).sum();
            if records > 0 {
                self.add_counted(state, &fixed, (None, None), records, |_| true);
            }
            return true;
        }
        // Minutes of one step are added together.
        let (mut sums, mut step) = (LevelNumbers::default(), Ticks::MIN..Ticks::MIN);
        let mut add = |sums: &mut LevelNumbers, start: Ticks| {
            for (code, records) in (0u8..).zip(std::mem::take(sums)).filter(|(_, records)| *records > 0) {
                self.add_counted(state, &fixed, (Some(start), Level::from_code(code)), records, |_| true);
            }
        };
        for of in wanted {
            let start = of.minute.checked_mul(60).and_then(|seconds| Ticks::from_unix(seconds, 0));
            let start = start.unwrap_or(Ticks::MIN);
            if !step.contains(&start) {
                add(&mut sums, step.start);
                step = self.step_of(start);
            }
            sums[usize::from(of.level.map_or(0, Level::code))] += u64::from(of.records);
        }
        add(&mut sums, step.start);
        true
    }

    fn read(&self, state: &mut ThreadGroups, part: &mut Part<'_>) -> Result<ControlFlow<()>, StoreError> {
        part.take_values(|counted| {
            let Some(numbers) = PageValueCounts::of(&self.counted_fields, &counted) else { return false };
            let is_exact = counted.is_exact && self.computed.is_empty();
            is_exact && self.add_numbers(state, counted.rows, &numbers) || !numbers.may_match(&self.columns)
        })?;
        let Some((batch, decided)) = &self.batch(part)? else { return Ok(ControlFlow::Continue(())) };
        let of_filter = match decided {
            Some(decided) => Some((decided.rows.clone(), Vec::new())),
            None => matching::decide(&self.columns, batch, batch.records())?,
        };
        let Some((mut rows, records)) = of_filter else { return Ok(self.fall_back_to_rows()) };
        if rows.is_empty() {
            return Ok(ControlFlow::Continue(()));
        }
        state.matched += rows.count() as u64;
        let by_record = self.by_record(batch, &rows)?;
        if !by_record.is_empty() {
            rows.subtract(&by_record);
            let Some(records) = matching::make_rest(&self.columns, batch, &by_record, records)? else {
                return Ok(self.fall_back_to_rows());
            };
            if !state.records.add(records) {
                return Ok(self.fall_back_to_rows());
            }
        }
        if let Err(error) = self.computed.filter(&mut state.computed, batch, self.columns.table(), &mut rows) {
            return self.refuse(error);
        }
        loop {
            let later = match self.add(state, batch, decided.as_ref(), &mut rows)? {
                ControlFlow::Continue(later) => later,
                ControlFlow::Break(()) => return Ok(ControlFlow::Break(())),
            };
            if self.charge(state, batch.len()).is_break() {
                return Ok(ControlFlow::Break(()));
            }
            if later.is_empty() {
                return Ok(ControlFlow::Continue(()));
            }
            rows = later;
        }
    }
}

impl Aggregation<'_> {
    /// Adds rows to their groups. Those for which there was no room are returned.
    fn add(
        &self,
        state: &mut ThreadGroups,
        batch: &ColumnBatch,
        decided: Option<&MatchedBatch>,
        rows: &mut RowSet,
    ) -> Result<ControlFlow<(), RowSet>, StoreError> {
        let end = |flow: ControlFlow<()>| flow.map_continue(|()| RowSet::none(batch.len()));
        let table = self.columns.table();
        let (computed, later) = match self.computed.compute(&mut state.computed, batch, table, rows) {
            Ok(computed) => computed,
            Err(error) => return self.refuse(error).map(end),
        };
        let rows = &*rows;
        let groups = self.groups(state, batch, rows, &computed)?;
        for (at, aggregate) in self.grouping.aggregates.iter().enumerate() {
            let mut of_condition = match self.computed.condition(at, &mut state.computed, batch, table, rows) {
                Ok(of_condition) => of_condition,
                Err(error) => return self.refuse(error).map(end),
            };
            if let Some(of_columns) = decided.and_then(|decided| decided.conditions[at].as_ref()) {
                let mut of_columns = of_columns.clone();
                of_columns.keep(rows);
                of_condition = Some(of_columns);
            } else if let Some(condition) = &self.conditions[at] {
                match matching::decide(condition, batch, rows)? {
                    Some((rows, _)) => of_condition = Some(rows),
                    None => return Ok(end(self.fall_back_to_rows())),
                }
            }
            let rows = of_condition.as_ref().unwrap_or(rows);
            let values = aggregate.fields.iter().map(|field| self.computed.values(field, batch, table, &computed));
            let values: Vec<Values<'_>> = values.collect::<Result<_, _>>()?;
            state.table.states[at].add(aggregate, batch, &values, rows, &groups)?;
        }
        Ok(ControlFlow::Continue(later))
    }

    /// Counts records by partition, if neither their levels nor their times matter. False if one of these does.
    fn count_partitions(
        &self,
        state: &mut ThreadGroups,
        by: CountedBy,
        rows: RowsOf<'_>,
        records: &[(Arc<str>, u64)],
    ) -> bool {
        let all_match = |(name, _): &(Arc<str>, u64)| {
            let MatchingLevels { may, surely } = self.columns.levels_of(RowsOf { partition: Some(name), ..rows });
            (may == surely && [0, u16::MAX].contains(&may)).then_some(may != 0)
        };
        let all_match = records.iter().map(all_match).collect::<Option<Vec<bool>>>();
        let Some(all_match) = all_match.filter(|_| !by.minutes) else { return false };
        for ((name, number), matches) in records.iter().zip(all_match) {
            if matches {
                let fixed = self.fixed_numbers(state, RowsOf { partition: Some(name), ..rows });
                self.add_counted(state, &fixed, (None, None), *number, |_| true);
            }
        }
        true
    }

    /// The columns that the question needs and what was decided on them, where these are enough, and else all.
    fn batch(&self, part: &mut Part<'_>) -> Result<Option<(ColumnBatch, Option<MatchedBatch>)>, StoreError> {
        let filters = || self.conditions.iter().flatten().chain([&self.columns]);
        if filters().any(|filter| filter.fields().is_none()) {
            return Ok(part.batch()?.map(|batch| (batch, None)));
        }
        let of_filters = || filters().filter_map(ColumnFilter::fields).flatten();
        let needs = |name: &str, kind| is_needed_for(self.fields().chain(of_filters()), name, kind);
        let mut decided = None;
        let chooses = self.grouping.aggregates.iter().any(|aggregate| is_chosen(aggregate.function));
        let needs_keys = if chooses { NeedsKeys::Yes } else { NeedsKeys::No };
        let batch = part.batch_of(needs, needs_keys, |front| {
            decided = self.decide(front)?;
            Ok(decided.is_some())
        })?;
        Ok(batch.map(|batch| (batch, decided)))
    }

    /// What the columns of a batch decide; `None` if a record has to be looked at.
    fn decide(&self, front: &ColumnBatch) -> Result<Option<MatchedBatch>, StoreError> {
        let Some(rows) = self.columns.decide_all(front, front.records())? else { return Ok(None) };
        let mut conditions = Vec::with_capacity(self.conditions.len());
        for condition in &self.conditions {
            let of_condition = match condition {
                Some(condition) => match condition.decide_all(front, &rows)? {
                    None => return Ok(None),
                    decided => decided,
                },
                None => None,
            };
            conditions.push(of_condition);
        }
        Ok(self.by_record(front, &rows)?.is_empty().then_some(MatchedBatch { rows, conditions }))
    }

    /// The times that are in the same steps of all groups as a minute.
    fn step_of(&self, minute: Ticks) -> std::ops::Range<Ticks> {
        let (mut from, mut to) = (Ticks::MIN, Ticks::MAX);
        for by in self.grouping.by.iter().filter(|by| by.field.column() == Column::Time) {
            let start = by.step.as_ref().and_then(|step| Some((step, step_start(Property::DateTime(minute), step)?)));
            let Some((step, OwnedValue::DateTime(start))) = start else { return minute..minute };
            let Some(end) = step_end(start, step) else { return minute..minute };
            (from, to) = (from.max(start), to.min(end));
        }
        from..to
    }

    /// For each field of the groups the number of the value that all these rows have, if they have one.
    fn fixed_numbers(&self, state: &mut ThreadGroups, rows: RowsOf<'_>) -> Vec<Option<u32>> {
        if let Some((_, numbers)) = state.last_fixed.as_ref().filter(|(last, _)| last.as_deref() == rows.partition) {
            return numbers.clone();
        }
        let number = |(by, values): (&GroupField, &mut ValueNumbers)| match (by.field.column(), rows.partition) {
            (Column::Table, _) => Some(values.number(Property::String(self.columns.table()))),
            (Column::Instance, Some(partition)) => Some(values.number(Property::String(&instance_of(partition).0))),
            _ => None,
        };
        let numbers: Vec<_> = self.grouping.by.iter().zip(&mut state.table.values).map(number).collect();
        state.last_fixed = Some((rows.partition.map(str::to_owned), numbers.clone()));
        numbers
    }

    /// Adds the records of a page by its value counts. False, without any of them, if these are not enough.
    fn add_numbers(&self, state: &mut ThreadGroups, rows: RowsOf<'_>, numbers: &PageValueCounts<'_>) -> bool {
        let StatsGroups { by, aggregates } = self.grouping;
        if !aggregates.iter().all(is_count) || !by.iter().all(|by| is_one_step(by, rows)) {
            return false;
        }
        let Some(told) = numbers.views().find_map(|view| self.matching_counts(numbers, view)) else { return false };
        let mut fixed = self.fixed_numbers(state, rows);
        for MatchingBucket { of, matching, functions } in told {
            for ((by, values), fixed) in by.iter().zip(&mut state.table.values).zip(&mut fixed) {
                if let Some(value) = numbers.value(&of, &by.field) {
                    *fixed = Some(value.map_or(ABSENT, |value| values.step_number(value, by.step.as_ref())));
                }
            }
            for (code, records) in (0u8..).zip(matching).filter(|(_, records)| *records > 0) {
                let of_level = (Some(rows.times.0), Level::from_code(code));
                self.add_counted(state, &fixed, of_level, records, |at| functions[at][usize::from(code)] > 0);
            }
        }
        // A refusal is seen by the caller of the walk, and before the next batch.
        let _ = self.charge(state, 0);
        true
    }

    /// How many records of each bucket match. `None` if that, or a value of a group, is not known.
    fn matching_counts<'p>(
        &self,
        numbers: &PageValueCounts<'p>,
        view: Vec<CountBucket<'p>>,
    ) -> Option<Vec<MatchingBucket<'p>>> {
        let mut told = Vec::new();
        for of in view {
            let matching = numbers.matching(&self.columns, &of)?;
            if matching.iter().all(|records| *records == 0) {
                continue;
            }
            let of_function = |condition: &Option<ColumnFilter>| {
                condition.as_ref().map_or(Some(matching), |condition| numbers.matching(condition, &of))
            };
            let functions = self.conditions.iter().map(of_function).collect::<Option<Vec<LevelNumbers>>>()?;
            let is_known = |by: &GroupField| !is_counted(&by.field) || numbers.value(&of, &by.field).is_some();
            if !self.grouping.by.iter().all(is_known) {
                return None;
            }
            told.push(MatchingBucket { of, matching, functions });
        }
        Some(told)
    }

    /// Adds records that were counted, to the functions for which `is_for` returns true.
    fn add_counted(
        &self,
        state: &mut ThreadGroups,
        fixed: &[Option<u32>],
        (minute, level): (Option<Ticks>, Option<Level>),
        records: u64,
        is_for: impl Fn(usize) -> bool,
    ) {
        let mut group = 0;
        let fields = self.grouping.by.iter().zip(fixed).zip(&mut state.table.values).zip(&mut state.levels);
        for ((((by, fixed), values), levels), step) in fields.zip(&mut state.table.steps) {
            let value = fixed.unwrap_or_else(|| match (by.field.column(), minute, level) {
                (Column::Time, Some(minute), _) => values.step_number(Property::DateTime(minute), by.step.as_ref()),
                (Column::Level, _, Some(level)) => {
                    let number = &mut levels[usize::from(level.code())];
                    if *number == NO_NUMBER {
                        *number = values.number(Property::String(level.name()));
                    }
                    *number
                }
                _ => ABSENT,
            });
            let is_none = group == NO_NUMBER || value == NO_NUMBER;
            group = if is_none { NO_NUMBER } else { step.group(group, value, true) };
        }
        state.matched += records;
        state.table.resize_states();
        for (at, states) in state.table.states.iter_mut().enumerate() {
            if let States::Counts(counts) = states
                && is_for(at)
                && let Some(count) = counts.get_mut(group as usize)
            {
                *count += records;
            }
        }
    }

    /// The fields that are read for the groups and the functions.
    fn fields(&self) -> impl Iterator<Item = &FieldName> {
        let StatsGroups { by, aggregates } = self.grouping;
        let fields = by.iter().map(|by| &by.field).chain(aggregates.iter().flat_map(|of| &of.fields));
        fields.filter(|field| !self.computed.makes(field)).chain(self.computed.inputs())
    }

    /// Ends the walk, because a value cannot be computed.
    fn refuse(&self, error: ComputeError) -> Result<ControlFlow<()>, StoreError> {
        *lock(self.refused) = error.over()?;
        Ok(ControlFlow::Break(()))
    }

    fn fall_back_to_rows(&self) -> ControlFlow<()> {
        self.falls_back_to_rows.store(true, Order::Relaxed);
        ControlFlow::Break(())
    }

    /// Takes the memory that the state grew by. Where there is no more, or none for what about so many further rows may add, the
    /// groups go to the temporary file.
    fn charge(&self, state: &mut ThreadGroups, rows: usize) -> ControlFlow<()> {
        let bytes = state.memory();
        let more = bytes.saturating_sub(state.bytes);
        let is_full = state.full.is_some_and(|full| state.table.kept() >= full);
        let growth = state.table.growth(rows);
        if more == 0 && !is_full && growth == 0 {
            return ControlFlow::Continue(());
        }
        let of_new = if state.table.has_uniq() { NEW_VALUES_BYTES } else { NEW_GROUPS_BYTES };
        // What pipes remember stays with the thread: to give groups away frees none of it.
        let remembered = state.computed.bytes();
        let groups = bytes - remembered;
        let mut is_short = self.memory.charge(more, "groups").is_err();
        if !is_short {
            self.charged.fetch_add(more, Order::Relaxed);
            state.bytes = bytes;
            is_short = self.spill.is_due(self.memory, groups, growth);
            let is_new = self.are_mostly_new.load(Order::Relaxed);
            if !is_short && !is_full && (state.full.is_some() || !is_new || groups < of_new) {
                return ControlFlow::Continue(());
            }
        }
        let kept = state.table.kept();
        if 2 * kept as u64 > state.matched - state.passed_on {
            self.are_mostly_new.store(true, Order::Relaxed);
        }
        state.passed_on = state.matched;
        let shared = self.share(&mut state.table);
        if is_short && remembered > groups {
            self.computed.forget(&mut state.computed);
        }
        // The next groups are as many, and need the same memory.
        state.full = (!is_short && groups <= 2 * of_new && !state.table.has_uniq()).then_some(kept);
        match state.full {
            Some(_) => state.reset(),
            None => state.clear(),
        }
        let left = state.memory().min(state.bytes);
        self.release(state.bytes - left);
        state.bytes = left;
        match shared {
            Ok(()) => ControlFlow::Continue(()),
            Err(over) => {
                *lock(self.refused) = Some(over);
                ControlFlow::Break(())
            }
        }
    }

    /// Gives back memory that was charged.
    fn release(&self, bytes: usize) {
        self.memory.release(bytes);
        self.charged.fetch_sub(bytes, Order::Relaxed);
    }

    /// Adds groups of a thread to those that all threads gave away. Threads often have the same groups, so these become few. If they
    /// do not, they go to the temporary file.
    fn share(&self, groups: &mut GroupTable) -> Result<(), OverBudget> {
        let mut shared = lock(&self.shared);
        let SharedGroups { table: known, bytes: charged, runs, outgrew } = &mut *shared;
        let has_uniq = groups.has_uniq();
        if (*outgrew || has_uniq) && self.are_mostly_new.load(Order::Relaxed) {
            drop(shared);
            let more = self.spill.write_groups(groups)?;
            lock(&self.shared).runs.append(more);
            return Ok(());
        }
        match known {
            Some(known) => {
                let (before, given) = (known.kept(), groups.kept());
                known.merge(groups);
                self.are_mostly_new.store(known.kept() - before > given / 2, Order::Relaxed);
            }
            None => *known = Some(groups.take()),
        }
        let Some(known) = known else { return Ok(()) };
        let bytes = known.memory();
        let more = bytes.saturating_sub(*charged);
        // Different values are copied when they go to the file.
        let bytes_max = self.spill.memory_max() / if has_uniq { 2 } else { 1 };
        if bytes <= bytes_max && self.memory.charge(more, "groups").is_ok() {
            self.charged.fetch_add(more, Order::Relaxed);
            *charged += more;
            return Ok(());
        }
        *outgrew = true;
        runs.append(self.spill.write_groups(known)?);
        self.release(std::mem::take(charged));
        shared.table = None;
        Ok(())
    }

    /// The groups that threads gave away and the memory that was charged for them, and those of them that are in the file.
    pub(super) fn take_shared(&self) -> (Option<(GroupTable, usize)>, GroupRuns) {
        let SharedGroups { table, bytes, runs, .. } = std::mem::take(&mut *lock(&self.shared));
        (table.map(|table| (table, bytes)), runs)
    }

    /// The rows whose values columns do not have as the record has them.
    fn by_record(&self, batch: &ColumnBatch, rows: &RowSet) -> Result<RowSet, StoreError> {
        open_rows(self.fields(), batch, self.columns.table(), rows)
    }

    /// The group of each row; [`NO_NUMBER`] of a row without one.
    fn groups(
        &self,
        state: &mut ThreadGroups,
        batch: &ColumnBatch,
        rows: &RowSet,
        computed: &ComputedBatch,
    ) -> Result<Vec<u32>, StoreError> {
        let mut groups = vec![0u32; batch.len()];
        let mut of_rows = Vec::new();
        for (at, by) in self.grouping.by.iter().enumerate() {
            let (values, step) = (&mut state.table.values[at], &mut state.table.steps[at]);
            let of_field = self.computed.values(&by.field, batch, self.columns.table(), computed)?;
            if at == 0 {
                // All rows are in one group so far, so values alone tell theirs.
                let mut firsts = FirstFieldGroups { values, step };
                let mut found = 0;
                groups.fill(NO_GROUP_YET);
                let mut add = |row: usize, group| {
                    groups[row] = group;
                    found += 1;
                };
                if by.step.is_some() || !of_field.read(rows, &mut firsts, &mut add) {
                    let FirstFieldGroups { values, step } = &mut firsts;
                    let each = |row, number| add(row, first_group(step, number));
                    of_field.each_number(batch, rows, values, by.step.as_ref(), each)?;
                }
                if found < rows.count() {
                    let without = first_group(firsts.step, ABSENT);
                    groups.iter_mut().filter(|group| **group == NO_GROUP_YET).for_each(|group| *group = without);
                }
                continue;
            }
            of_rows.clear();
            of_rows.resize(batch.len(), ABSENT);
            of_field.each_number(batch, rows, values, by.step.as_ref(), |row, number| of_rows[row] = number)?;
            let mut last = (NO_NUMBER, NO_NUMBER, NO_NUMBER);
            rows.for_each(|row| {
                let (parent, value) = (groups[row], of_rows[row]);
                if (parent, value) != (last.0, last.1) {
                    let is_none = parent == NO_NUMBER || value == NO_NUMBER;
                    let group = if is_none { NO_NUMBER } else { step.group(parent, value, true) };
                    last = (parent, value, group);
                }
                groups[row] = last.2;
            });
        }
        state.table.resize_states();
        Ok(groups)
    }
}

/// Reads the values of the first field as their groups.
struct FirstFieldGroups<'g> {
    values: &'g mut ValueNumbers,
    step: &'g mut GroupStep,
}

impl ValueReader<u32> for FirstFieldGroups<'_> {
    fn read(&mut self, value: Property<'_>) -> u32 {
        first_group(self.step, self.values.number(value))
    }

    fn read_texts<'t>(&mut self, texts: impl Iterator<Item = &'t str>) -> Vec<u32> {
        let mut found = self.values.read_texts(texts);
        found.iter_mut().for_each(|number| *number = first_group(self.step, *number));
        found
    }

    fn pattern(&mut self, pattern: &str) -> Option<u32> {
        self.values.pattern(pattern)
    }

    fn read_block(&mut self, block: &PatternBlock, found: &mut [Option<u32>]) {
        self.values.read_block(block, found);
        found.iter_mut().flatten().for_each(|number| *number = first_group(self.step, *number));
    }
}

/// The group of a value of the first field.
fn first_group(step: &mut GroupStep, number: u32) -> u32 {
    if number == NO_NUMBER { NO_NUMBER } else { step.group(0, number, true) }
}

impl ThreadGroups {
    /// Forgets all groups, and keeps the memory for others.
    fn reset(&mut self) {
        self.table.reset();
        self.forget_fixed();
    }

    /// Forgets all groups, and gives their memory back.
    fn clear(&mut self) {
        drop(self.table.take());
        self.forget_fixed();
    }

    /// Forgets the numbers of values, which are no longer theirs.
    fn forget_fixed(&mut self) {
        self.levels.fill(NO_LEVELS);
        self.last_fixed = None;
    }

    /// An estimate of its memory.
    fn memory(&self) -> usize {
        self.computed.bytes() + self.table.memory()
    }
}
