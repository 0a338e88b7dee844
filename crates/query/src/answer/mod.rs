//! Answers: the records or rows that a query of the language asks for.
//!
//! ```text
//! query ──► plan ──► select ──► predicate ──► pipes ──► sink
//!           Filter   newest     record by     rows or
//!                    first      record        records
//! ```
//!
//! * `plan`: what of a filter the stores can decide: times, instance, level, a text.
//! * [`item`]: a record, or a row of columns, as pipes pass it on.
//! * [`pipes`]: each pipe as a stage that items pass through.
//! * [`accumulator`], [`quantile`]: the functions of `stats`.
//! * [`order`]: the order of values: numbers by value, texts as people sort them, levels by severity.
//! * `math`, `pattern`: the pipes that compute columns.
//! * `follow`: records as they are committed, through the pipes that need no end.
//! * [`context`]: the records before and after one, in the order of its source.
//! * [`nothing`]: why an answer is empty.
//!
//! The memory of an answer is bounded, and an answer has a time limit. An answer that was cut says so
//! ([`AnswerReport::cut`]): it never looks whole.

pub mod accumulator;
pub mod context;
mod follow;
pub mod item;
mod math;
pub mod nothing;
pub mod order;
mod pattern;
pub mod pipes;
mod plan;
pub mod quantile;

pub use follow::{AnswerFollower, FollowError};
pub use item::{AnswerItem, AnswerRow, FullRecord};
pub use plan::pushed_down;

use crate::archived::ArchiveReport;
use crate::count::{Count, Grouping, Tally};
use crate::filter::Filter;
use crate::select::select_while;
use crate::stores::Stores;
use crate::tables::TableError;
use daytable_logsql::{Expression, ParsedQuery, Predicate};
use daytable_model::time::Ticks;
use pipes::{AnswerBudget, Pipeline, PipelineContext};
use std::cell::Cell;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// Memory that the pipes of one answer may use.
pub const ANSWER_BYTES_MAX: usize = 96 << 20;

/// How an answer is made.
#[derive(Clone, Debug)]
pub struct AnswerOptions {
    /// Conditions beside the query: times, instance, level, text. Its limit is that of the answer.
    pub filter: Filter,
    /// The time that `now` and `_time:5m` mean.
    pub now: Ticks,
    /// Memory that the pipes may use.
    pub bytes_max: usize,
    /// The time that the answer may take, if limited.
    pub time_limit: Option<Duration>,
}

impl AnswerOptions {
    /// An answer at `now`, without other conditions.
    pub fn at(now: Ticks) -> AnswerOptions {
        AnswerOptions { filter: Filter::default(), now, bytes_max: ANSWER_BYTES_MAX, time_limit: None }
    }
}

/// What an answer is based on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AnswerReport {
    /// Archived days that were read or are missing.
    pub archives: ArchiveReport,
    /// Records that matched the filter of the query.
    pub matched: u64,
    /// Records and rows that the sink got.
    pub given: u64,
    /// Why the answer is not whole, if it was cut.
    pub cut: Option<String>,
}

impl AnswerReport {
    /// Why the answer is not whole, if it is not.
    pub fn incomplete(&self) -> Option<String> {
        self.cut.clone().or_else(|| self.archives.missing())
    }
}

/// Gives the answer of `query` to `each`, until it breaks. `is_wanted` is asked now and then, so that an answer that
/// nobody waits for ends.
///
/// Records without pipes come newest first.
///
/// # Errors
///
/// The data folder or the remote store cannot be read: what was given until then is not all.
pub fn answer(
    stores: &Stores<'_>,
    query: &ParsedQuery,
    options: &AnswerOptions,
    is_wanted: &dyn Fn() -> bool,
    each: &mut dyn FnMut(AnswerItem) -> ControlFlow<()>,
) -> Result<AnswerReport, TableError> {
    let predicate = Predicate::new(&query.filter, options.now);
    let filter = Filter { limit: None, ..pushed_down(&predicate, &options.filter) };
    let budget = AnswerBudget::new(options.bytes_max);
    let seconds = filter.times().and_then(|(from, to)| range_seconds(&filter, from, to, options.now));
    let context = PipelineContext { now: options.now, seconds, budget: budget.clone() };
    let mut pipeline = Pipeline::new(&query.pipes, &context);
    let (started, cut) = (Instant::now(), Cell::new(None));
    let go_on = || {
        if options.time_limit.is_some_and(|limit| started.elapsed() > limit) {
            cut.set(Some(CutReason::Time));
            return false;
        }
        is_wanted()
    };
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
        select_while(stores, &filter, &go_on, |record| {
            let record = FullRecord::new(record);
            if !predicate.matches(&record) {
                return ControlFlow::Continue(());
            }
            matched += 1;
            pipeline.push(AnswerItem::Record(record.into()), &mut sink)
        })?
    };
    let _ = pipeline.finish(&mut sink);
    let cut = match cut.get() {
        Some(CutReason::Time) => Some(format!(
            "the answer is not whole: its time limit of {} is over",
            daytable_model::units::show_duration(options.time_limit.unwrap_or_default())
        )),
        None => budget.cut(),
    };
    Ok(AnswerReport { archives, matched, given, cut })
}

/// Counts the records of a query by time, level and instance. A query with pipes counts the rows that the pipes give, in
/// one number.
///
/// # Errors
///
/// An error of the data folder or the remote store.
pub fn count_answer(
    stores: &Stores<'_>,
    query: &ParsedQuery,
    options: &AnswerOptions,
    grouping: Grouping,
) -> Result<(Vec<Count>, AnswerReport), TableError> {
    if *query == (ParsedQuery { filter: Expression::All, pipes: Vec::new() }) {
        let (counts, archives) = crate::count::count(stores, &options.filter, grouping)?;
        let matched = counts.iter().map(|count| count.records).sum();
        return Ok((counts, AnswerReport { archives, matched, given: matched, cut: None }));
    }
    let mut tally = Tally::new(grouping);
    let report = answer(stores, query, options, &|| true, &mut |item| {
        match item {
            AnswerItem::Record(record) => {
                let record = record.record();
                tally.add(record.time(), record.level, &record.partition_key, 1);
            }
            AnswerItem::Row(_) => tally.add(Ticks::MIN, None, "", 1),
        }
        ControlFlow::Continue(())
    })?;
    Ok((tally.counts(), report))
}

/// The reasons to cut an answer while records are read.
#[derive(Clone, Copy)]
enum CutReason {
    Time,
}

/// The length of the range of times in seconds, if the range has a start.
fn range_seconds(filter: &Filter, from: Ticks, to: Ticks, now: Ticks) -> Option<f64> {
    let to = if filter.until.is_some() { to } else { now };
    filter.since.map(|_| to.since(from).as_secs_f64()).filter(|seconds| *seconds > 0.0)
}
