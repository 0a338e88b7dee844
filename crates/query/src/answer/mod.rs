//! Answers: the records or rows that a query of the language asks for.
//!
//! ```text
//! query ──► planned ──► plan ──► select ──► predicate ──► pipes ──► sink
//!           ParsedQuery Filter   newest     record by     rows or
//!                                first      record        records
//! ```
//!
//! * [`ParsedQuery::planned`]: the same answer with less work.
//! * `plan`: what of a filter the stores can decide: times, instance, level, a text.
//! * [`item`]: a record, or a row of columns, as pipes pass it on.
//! * `stage`: what a pipe at work is. [`pipes`]: all of them, one after the other.
//! * `row_batch`: groups as rows by column. `row_pipes`: pipes that look at one row at a time. `group_stage`:
//!   those that group. `sort_stage`: `sort`.
//! * `group_times`, `sessions_stage`, `gaps_stage`: those that look at the times of groups. `pivot_stage`: values as columns.
//! * `join_stage`: the rows of another query.
//! * `spill_file`, `spill`: groups and rows that outgrow the memory of the question, in a temporary file.
//! * [`accumulator`], [`quantile`]: the functions of `stats`.
//! * `value_steps`: the steps of `by (…:step)`. `answer_budget`: the memory of an answer.
//! * [`order`]: the order of values: numbers by value, texts as people sort them, levels by severity.
//! * `columns`: filters, records and groups over columns as they are encoded.
//! * `math`, `pattern`: the pipes that compute columns. `packed_text`: texts as a pattern and numbers.
//! * `field_list`: questions about all fields.
//! * `follow`: records as they are committed, through the pipes that need no end.
//! * [`context`]: the records before and after one, in the order of its source.
//! * [`nothing`]: why an answer is empty. [`doubts`]: what a query names and no record has.
//!
//! The memory of an answer is bounded: what is kept is charged to the [budget](daytable_platform::budget) of its question, and
//! each value that a pipe makes, and all of a record, have bounds. An answer has a time limit, which is looked at within the
//! work on a record, too. An answer that was cut says so
//! ([`AnswerReport::cut`]): it never looks whole.

pub mod accumulator;
mod answer_budget;
mod columns;
mod conditions;
pub mod context;
pub mod doubts;
mod ending;
mod field_list;
mod follow;
mod gaps_stage;
mod group_stage;
mod group_times;
pub mod item;
mod join_stage;
mod math;
pub mod nothing;
pub mod order;
mod packed_text;
mod pattern;
pub mod pipes;
mod pivot_stage;
mod plan;
pub mod quantile;
mod row_batch;
mod row_pipes;
mod sessions_stage;
mod sort_stage;
mod spill;
mod spill_file;
mod spill_patterns;
mod stage;
mod threads;
mod value_steps;
#[cfg(test)]
mod pipe_tests;
#[cfg(test)]
mod tests;

pub use columns::{
    AlikeLine, AlikeOutcome, EntryCell, EntryFold, EntryNeeds, EntryQuestion, EntryValue, InstanceTest, LineNeed,
    LineSyntax, MemberReader, MemberScan, StreamNeeds, ValueNeed,
};
pub use conditions::QueryConditions;
pub use ending::AnswerEnd;
pub use follow::{AnswerFollower, FollowError};
pub use item::{AnswerItem, AnswerRow, FullRecord};
pub use plan::{days_with, pushed_down};

use crate::archived::{ArchiveReport, ArchiveSession};
use crate::count::{Count, Grouping, Tally, count_within};
use crate::entity::OwnedValue;
use crate::filter::Filter;
use crate::record::StoredRecord;
use crate::select::Selection;
use crate::stores::Stores;
use crate::tables::TableError;
use answer_budget::AnswerBudget;
use columns::{
    Aggregated, FoldedTables, GroupQuestion, SortQuestion, WantedRecords, aggregate_entries, aggregate_fields,
    aggregate_records, collect_sorted, select_matching,
};
use daytable_logsql::effect::{RowFlow, fields_of_records};
use daytable_logsql::query::{Aggregate, Function, GroupField, ValueStep, ValueStepSize};
use daytable_logsql::{Expression, FieldName, ParsedQuery, Pipe, Predicate};
use daytable_model::key::partition_key;
use daytable_model::record::Level;
use daytable_model::time::Ticks;
use daytable_platform::budget::{MemoryBudget, OverBudget};
use join_stage::{JoinRows, JoinTable};
use pipes::Pipeline;
use stage::{PipelineContext, stopped};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Memory that the pipes of one answer may use.
pub const ANSWER_BYTES_MAX: usize = 128 << 20;

/// How an answer is made.
#[derive(Clone, Debug)]
pub struct AnswerOptions {
    /// Conditions beside the query: times, instance, level, text. Its limit is that of the answer.
    pub filter: Filter,
    /// The time that `now` and `_time:5m` mean.
    pub now: Ticks,
    /// Memory that the pipes may use.
    pub bytes_max: usize,
    /// The memory of all questions, of which the pipes take theirs.
    pub memory: MemoryBudget,
    /// The time that the answer may take, if limited.
    pub time_limit: Option<Duration>,
}

impl AnswerOptions {
    /// An answer at `now`, without other conditions.
    pub fn at(now: Ticks) -> AnswerOptions {
        let memory = MemoryBudget::unshared(ANSWER_BYTES_MAX);
        AnswerOptions { filter: Filter::default(), now, bytes_max: ANSWER_BYTES_MAX, memory, time_limit: None }
    }
}

/// What an answer is based on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerReport {
    /// Archived days that were read or are missing.
    pub archives: ArchiveReport,
    /// Records that matched the filter of the query and those filters behind pipes that its plan moves there.
    pub matched: u64,
    /// Records and rows that the sink got.
    pub given: u64,
    /// Why the answer is not whole, if it was cut: for memory, or because its time was over.
    pub cut: Option<String>,
    /// The reason, if it is memory.
    pub over: Option<OverBudget>,
}

impl AnswerReport {
    /// Cuts the answer because of memory, unless it is cut already.
    fn refuse(&mut self, over: Option<OverBudget>) {
        if let (None, Some(over)) = (&self.cut, over) {
            self.cut = Some(format!("the answer is not whole: {over}"));
            self.over = Some(over);
        }
    }

    /// Whether the answer is not whole because its time was over.
    pub fn is_out_of_time(&self) -> bool {
        self.cut.is_some() && self.over.is_none()
    }

    /// Why the answer is not whole, if it is not.
    pub fn incomplete(&self) -> Option<String> {
        self.cut.clone().or_else(|| self.archives.missing())
    }
}

/// Passes the answer of `query` to `each`, until `each` breaks. Calls `is_wanted` now and then, and ends early when it
/// returns false, because nobody waits for the answer any more.
///
/// Without pipes, the newest record comes first.
///
/// # Errors
///
/// The data folder or the remote store cannot be read. The items that `each` got before are then not the whole answer.
pub fn answer(
    stores: &Stores<'_>,
    query: &ParsedQuery,
    options: &AnswerOptions,
    is_wanted: &dyn Fn() -> bool,
    each: &mut dyn FnMut(AnswerItem) -> ControlFlow<()>,
) -> Result<AnswerReport, TableError> {
    let budget = AnswerBudget::new(options.memory.question_within(options.bytes_max));
    let (started, cut) = (Instant::now(), Cell::new(None));
    let go_on = || {
        if options.time_limit.is_some_and(|limit| started.elapsed() > limit) {
            cut.set(Some(CutReason::Time));
            return false;
        }
        budget.is_affordable() && is_wanted()
    };
    let mut report = answer_within(stores, query, options, &budget, &go_on, each)?;
    report.cut = match cut.get() {
        Some(CutReason::Time) => Some(format!(
            "the answer is not whole: its time limit of {} is over",
            daytable_model::units::show_duration(options.time_limit.unwrap_or_default())
        )),
        None => budget.over().map(|over| format!("the answer is not whole: {over}")),
    };
    report.over = budget.over();
    Ok(report)
}

/// The answer of a query with the memory of a question, whose time and client `go_on` knows.
fn answer_within(
    stores: &Stores<'_>,
    query: &ParsedQuery,
    options: &AnswerOptions,
    budget: &AnswerBudget,
    go_on: &dyn Fn() -> bool,
    each: &mut dyn FnMut(AnswerItem) -> ControlFlow<()>,
) -> Result<AnswerReport, TableError> {
    // A rate is of the times that the query names first, whatever its plan moves there.
    let named = pushed_down(&Predicate::new(&query.filter, options.now), &options.filter);
    let seconds = range_seconds(&named, options.now);
    let query = &query.planned();
    let (joined, joined_archives) = joined_tables(stores, query, options, budget, go_on)?;
    if budget.over().is_some() || !go_on() {
        return Ok(AnswerReport::default());
    }
    let predicate = Arc::new(Predicate::new(&query.filter, options.now));
    // How many rows a remote store is asked for at once. More are read where a filter leaves records out.
    let wanted = wanted_records(query, options.filter.limit);
    let limit = match wanted {
        WantedRecords::Newest(limit) if query.filter == Expression::All => Some(limit),
        _ => None,
    };
    let filter = Filter { limit, ..pushed_down(&predicate, &options.filter) };
    let context = PipelineContext { now: options.now, seconds, budget: budget.clone(), go_on };
    let mut pipeline = Pipeline::joining(&query.pipes, &joined, &context);
    let (mut matched, mut given, mut left) = (0u64, 0u64, options.filter.limit.unwrap_or(u64::MAX));
    let mut sink = |item: AnswerItem| {
        if left == 0 {
            return ControlFlow::Break(());
        }
        (left, given) = (left - 1, given + 1);
        each(item)?;
        if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    };
    let archives = if options.filter.limit == Some(0) {
        ArchiveReport::default()
    } else {
        let (reading, row_filter) = (ArchiveSession::new(stores.archives), filter.row_filter().asking(go_on));
        let (filter, asked) = (&filter, &options.filter);
        let selection = Selection { asked, ..Selection::of(stores, &reading, filter, &row_filter, go_on) };
        let is_local = stores.remote.is_none();
        let fields = pipeline.field_question().filter(|_| is_local);
        // The pipes in front of the first one that does not look at one record at a time.
        let is_of_many = |pipe: &Pipe| !matches!(pipe.effect().flow, RowFlow::Each | RowFlow::Chosen);
        let first_of_many = query.pipes.iter().position(is_of_many).filter(|_| is_local);
        let groups =
            first_of_many.and_then(|at| GroupQuestion::new(&query.pipes[..at], pipeline.grouping(at)?, options.now));
        let sorted = first_of_many
            .and_then(|at| Some((at, SortQuestion::new(&query.pipes[..at], query.pipes.get(at)?, options.now)?)));
        let mut gathered = |report: columns::AggregationReport, kept: &str| {
            matched = report.matched;
            if report.is_cut {
                budget.exhaust(kept);
            }
        };
        let read = if let Some(question) = groups {
            let mut each = |found| match found {
                Aggregated::Runs(runs) => pipeline.add_runs(runs),
                Aggregated::Groups(table, charged) => pipeline.add_table(*table, charged),
                Aggregated::Record(record) => drop(pipeline.push(AnswerItem::Record(record), &mut sink)),
            };
            aggregate_records(&selection, &predicate, &question, options.now, budget, &mut each)
                .map(|report| gathered(report, "groups"))
        } else if let Some((at, question)) = sorted {
            pipeline.sort_by_place(at);
            let mut each = |record| pipeline.push(AnswerItem::Record(FullRecord::new(record).into()), &mut sink);
            collect_sorted(&selection, &predicate, &question, budget, &mut each)
                .map(|report| gathered(report, "sorted records"))
        } else if let Some(question) = fields {
            aggregate_fields(&selection, &predicate, question, budget, &mut |found| pipeline.add_field(found))
                .map(|report| gathered(report, "values"))
        } else {
            let fields = fields_of_records(&query.pipes);
            select_matching(&selection, &predicate, wanted, fields.as_deref(), |record| {
                matched += 1;
                pipeline.push(AnswerItem::Record(FullRecord::new(record).into()), &mut sink)
            })
        };
        match read {
            Ok(()) | Err(TableError::Interrupted) => reading.into_report(),
            Err(error) => return Err(error),
        }
    };
    let _ = pipeline.finish(&mut sink);
    let archives = joined_archives.into_iter().fold(archives, ArchiveReport::joined);
    Ok(AnswerReport { archives, matched, given, ..AnswerReport::default() })
}

/// The rows that the pipes of a query join, one `join` after the other, and what was read of archives for them.
fn joined_tables(
    stores: &Stores<'_>,
    query: &ParsedQuery,
    options: &AnswerOptions,
    budget: &AnswerBudget,
    go_on: &dyn Fn() -> bool,
) -> Result<(Vec<Rc<JoinTable>>, Vec<ArchiveReport>), TableError> {
    let (mut tables, mut archives) = (Vec::new(), Vec::new());
    for pipe in &query.pipes {
        let Pipe::Join(join) = pipe else { continue };
        let mut rows = JoinRows::new(join, budget);
        let options = AnswerOptions { filter: Filter { limit: None, ..options.filter.clone() }, ..options.clone() };
        let report = answer_within(stores, &join.query, &options, budget, go_on, &mut |item| match rows.add(item) {
            Ok(()) => ControlFlow::Continue(()),
            Err(over) => stopped(over, budget),
        })?;
        archives.push(report.archives);
        match rows.finish(go_on) {
            Ok(table) => tables.push(Rc::new(table)),
            Err(stop) => drop(stopped(stop, budget)),
        }
    }
    Ok((tables, archives))
}

/// Why a query cannot be counted by time, level or instance: its pipes change that, or leave it out.
pub fn lost_by_pipes(query: &ParsedQuery, grouping: Grouping) -> Option<String> {
    let names = [("time", grouping.every.is_some()), ("level", grouping.level), ("instance", grouping.instance)];
    let changes = |name: &FieldName| query.pipes.iter().find(|pipe| pipe.effect().may_change(name));
    names.into_iter().filter(|(_, is_wanted)| *is_wanted).find_map(|(name, _)| {
        let pipe = changes(&FieldName::new(name))?;
        Some(format!("behind `| {pipe}` the rows do not have the {name} of records, by which they are counted here"))
    })
}

/// Counts the records of a query by time, level and instance, or the rows that its pipes give, unless the pipes
/// [lose](lost_by_pipes) one of these.
///
/// # Errors
///
/// An error of the data folder or the remote store.
pub fn count_answer(
    stores: &Stores<'_>,
    query: &ParsedQuery,
    options: &AnswerOptions,
    grouping: Grouping,
    is_wanted: &dyn Fn() -> bool,
) -> Result<(Vec<Count>, AnswerReport), TableError> {
    let memory = || options.memory.question_within(options.bytes_max);
    if *query == (ParsedQuery { filter: Expression::All, pipes: Vec::new() }) {
        let (counts, archives) = count_within(stores, &options.filter, Tally::new(grouping, memory()), is_wanted)?;
        let matched = counts.counts.iter().map(|count| count.records).sum();
        let mut report = AnswerReport { archives, matched, given: matched, ..AnswerReport::default() };
        report.refuse(counts.over);
        return Ok((counts.counts, report));
    }
    let mut tally = Tally::new(grouping, memory());
    let mut grouped = query.clone();
    if !query.pipes.is_empty() {
        grouped.pipes.extend(options.filter.limit.map(Pipe::Limit));
    }
    grouped.pipes.push(counting(grouping));
    let options = AnswerOptions { filter: Filter { limit: None, ..options.filter.clone() }, ..options.clone() };
    let mut given = 0;
    let mut report = answer(stores, &grouped, &options, is_wanted, &mut |item| {
        let row = item.into_row();
        let text = |name: &str| row.get(name).map(|value| value.as_property().text());
        let time = match row.get("time") {
            Some(OwnedValue::DateTime(time)) => *time,
            _ => Ticks::MIN,
        };
        let level = text("level").and_then(|level| Level::from_word(&level));
        let partition = partition_key(&text("instance").unwrap_or_default(), None);
        if let Some(OwnedValue::Int64(records)) = row.get("records") {
            let records = u64::try_from(*records).unwrap_or(0);
            given += records;
            return tally.add(time, level, &partition, records);
        }
        ControlFlow::Continue(())
    })?;
    report.given = given;
    let counted = tally.counts();
    report.refuse(counted.over);
    Ok((counted.counts, report))
}

/// Records that become entries in the language of Loki.
#[derive(Clone, Debug)]
pub struct EntryFilter {
    /// Times, instances and a text. Each record that matches the predicate has the text.
    pub filter: Filter,
    /// All other conditions.
    pub predicate: Arc<Predicate>,
}

/// Passes the records of a filter to `each`, newest first, until `each` breaks, or `go_on` returns false.
///
/// # Errors
///
/// An error of the data folder or the remote store.
pub fn select_entries(
    stores: &Stores<'_>,
    wanted: &EntryFilter,
    go_on: &dyn Fn() -> bool,
    each: impl FnMut(StoredRecord) -> ControlFlow<()>,
) -> Result<ArchiveReport, TableError> {
    let EntryFilter { filter, predicate } = wanted;
    let (reading, row_filter) = (ArchiveSession::new(stores.archives), filter.row_filter().asking(go_on));
    let selection = Selection { is_text_implied: true, ..Selection::of(stores, &reading, filter, &row_filter, go_on) };
    match select_matching(&selection, predicate, WantedRecords::UntilEnough, None, each) {
        Ok(()) | Err(TableError::Interrupted) => Ok(reading.into_report()),
        Err(error) => Err(error),
    }
}

/// What entries were folded to.
#[derive(Debug)]
pub struct FoldedEntries<S> {
    /// What each thread gathered.
    pub states: Vec<S>,
    /// What could not be read.
    pub report: ArchiveReport,
    /// Why there was no memory for the answer.
    pub refused: Option<OverBudget>,
}

/// Folds the records of a filter as entries of the language of Loki, by columns and in no order. Ends early when `go_on`
/// returns false, or when the fold ends.
///
/// # Errors
///
/// An error of the data folder or the remote store.
pub fn fold_entries<F: EntryFold>(
    stores: &Stores<'_>,
    wanted: &EntryFilter,
    fold: &F,
    go_on: &dyn Fn() -> bool,
) -> Result<FoldedEntries<F::State>, TableError> {
    let EntryFilter { filter, predicate } = wanted;
    let is_over = Cell::new(false);
    if stores.remote.is_some() {
        let mut state = fold.start();
        let report = select_entries(stores, wanted, go_on, |record| fold.add_record(&mut state, &record))?;
        return Ok(FoldedEntries { states: vec![state], report, refused: None });
    }
    let go_on = || !is_over.get() && go_on();
    let (reading, row_filter) = (ArchiveSession::new(stores.archives), filter.row_filter().asking(&go_on));
    let selection = Selection { is_text_implied: true, ..Selection::of(stores, &reading, filter, &row_filter, &go_on) };
    match aggregate_entries(&selection, predicate, fold, &is_over) {
        (Ok(()) | Err(TableError::Interrupted), FoldedTables { states, refused }) => {
            Ok(FoldedEntries { states, report: reading.into_report(), refused })
        }
        (Err(error), _) => Err(error),
    }
}

/// The pipe that counts by a grouping.
fn counting(grouping: Grouping) -> Pipe {
    let field = |name: &str, step| GroupField { field: FieldName::new(name), step };
    let step = |every: Duration| ValueStep {
        text: String::new(),
        size: ValueStepSize::Number(every.as_nanos().max(100) as f64),
        offset: None,
        clock: Some(grouping.clock),
    };
    let time = grouping.every.map(|every| field("time", Some(step(every))));
    let level = grouping.level.then(|| field("level", None));
    let instance = grouping.instance.then(|| field("instance", None));
    let count = Aggregate {
        function: Function::Count,
        fields: Vec::new(),
        limit: None,
        condition: None,
        name: "records".into(),
    };
    Pipe::Stats { by: time.into_iter().chain(level).chain(instance).collect(), aggregates: vec![count] }
}

/// Whether the answer comes newest first: its pipes keep the order of the records.
pub fn is_newest_first(query: &ParsedQuery) -> bool {
    !query.pipes.iter().any(Pipe::needs_all)
}

/// How many records an answer needs that gives at most `limit` of its last step.
fn wanted_records(query: &ParsedQuery, limit: Option<u64>) -> WantedRecords {
    // The records in front of a limit that are left out: none of them, this many of the newest, or nobody knows.
    let (mut left_out, mut least, mut is_limited) = (Some(0u64), None::<u64>, false);
    let mut limit_rows = |left_out: Option<u64>, rows: u64| {
        let records = left_out.map(|left_out| rows.saturating_add(left_out));
        (least, is_limited) = (least.into_iter().chain(records).min(), true);
    };
    for pipe in query.pipes.iter().take_while(|pipe| !pipe.needs_all()) {
        match pipe {
            Pipe::Limit(rows) => limit_rows(left_out, *rows),
            Pipe::Offset(rows) => left_out = left_out.map(|left_out| left_out.saturating_add(*rows)),
            Pipe::Join(join) if !join.is_inner => {}
            _ if pipe.effect().flow != RowFlow::Each => left_out = None,
            _ => {}
        }
    }
    if let Some(rows) = limit.filter(|_| !query.pipes.iter().any(Pipe::needs_all)) {
        limit_rows(left_out, rows);
    }
    match least {
        Some(records) => WantedRecords::Newest(records),
        None if is_limited => WantedRecords::UntilEnough,
        None => WantedRecords::All,
    }
}

/// The reasons to cut an answer while records are read.
#[derive(Clone, Copy)]
enum CutReason {
    Time,
}

/// The length of the range of times in seconds, if the range has a start.
fn range_seconds(filter: &Filter, now: Ticks) -> Option<f64> {
    let seconds = filter.until.unwrap_or(now).since(filter.since?).as_secs_f64();
    (seconds > 0.0).then_some(seconds)
}
