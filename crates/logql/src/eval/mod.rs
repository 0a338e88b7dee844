//! Answers a query from a source of entries.
//!
//! ```text
//! entries ─► stages ─► shown as they are
//!                   └► samples ─► ranges of time, a value a step ─► vector functions and operators ─► series
//! ```
//!
//! Series are sparse: a point has the number of its step and a value. All series of an answer share one time axis.
//! Entries are never kept for a count or a sum; only quantiles keep their values. What a query may take is in [`Limits`].

mod aggregate;
mod binary;
mod cells;
mod entry_source;
mod exact_sum;
mod logs;
mod needs;
mod piece;
mod range;
mod samples;
#[cfg(test)]
mod growth_tests;
#[cfg(test)]
mod tests;

use crate::ast::MetricQuery;
use crate::error::EvalError;
use crate::labels::Labels;
use crate::source::TimeSpan;
pub use cells::CellSpan;
use daytable_platform::budget::{BoundedText, GroupName, QuestionBudget, VALUE_BYTES_MAX};
pub use entry_source::{EachCount, EachEntry, EntrySource, sample_plainly};
pub use logs::{LogRequest, ShownEntry};
pub use samples::{EntryOutcome, RangeQuestion, RangeSamples};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What a query may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Steps of an answer.
    pub steps_max: u32,
    /// Series of an answer. Of more series, the largest stay, and the others are counted.
    pub series_max: usize,
    /// Series while the answer is computed.
    pub inner_series_max: usize,
    /// Bytes of their labels. A series takes some ten times as many in memory.
    pub inner_label_bytes_max: usize,
    /// Points of all functions over ranges, and pieces of such points while entries come.
    pub points_max: usize,
    /// Bytes of the values that quantiles and counters keep.
    pub value_bytes_max: usize,
    /// Bytes of the lines of an answer.
    pub line_bytes_max: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits {
            steps_max: 11_000,
            series_max: 1000,
            inner_series_max: 50_000,
            inner_label_bytes_max: 6 << 20,
            points_max: 1_000_000,
            value_bytes_max: 32 << 20,
            line_bytes_max: 64 << 20,
        }
    }
}

/// The points in time of an answer: one, or several at the same distance.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSteps {
    start: i64,
    step: i64,
    count: u32,
}

impl TimeSteps {
    /// One point in time.
    pub fn at(time: i64) -> TimeSteps {
        TimeSteps { start: time, step: 1, count: 1 }
    }

    /// The points from `span.from` to `span.to` at multiples of the step, so that answers about adjacent spans share one
    /// axis: the first is not after the begin, and the last not before the end. `None` if `step` is not positive.
    pub fn over(span: TimeSpan, step: i64) -> Option<TimeSteps> {
        if step <= 0 {
            return None;
        }
        let start = span.from - span.from.rem_euclid(step);
        let length = span.to.checked_sub(start)?.max(0);
        let count = length / step + i64::from(length % step > 0) + 1;
        Some(TimeSteps { start, step, count: u32::try_from(count).unwrap_or(u32::MAX) })
    }

    /// The time of a point in nanoseconds since the epoch.
    pub fn time(&self, number: u32) -> i64 {
        self.start + i64::from(number) * self.step
    }

    /// The number of points.
    pub fn count(&self) -> u32 {
        self.count
    }
}

/// A series: its labels, and its points.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Its labels.
    pub labels: Labels,
    /// The numbers of the steps, ascending, and the values.
    pub points: Vec<(u32, f64)>,
}

/// The answer of a query for numbers.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// A number.
    Scalar(f64),
    /// Series, sorted by their labels unless the query sorts them.
    Series {
        /// The series.
        series: Vec<Series>,
        /// The number of further series, which the answer leaves out.
        left_out: usize,
    },
}

/// Answers queries.
pub struct Evaluator<'s> {
    /// Where entries come from.
    pub source: &'s dyn EntrySource,
    /// What a query may take.
    pub limits: Limits,
    /// The memory that the answer may use.
    pub budget: QuestionBudget,
    /// The present in nanoseconds since the epoch, for templates.
    pub now: i64,
}

/// What the functions of a query took so far.
#[derive(Debug, Default)]
struct Spent {
    points: AtomicUsize,
    value_bytes: AtomicUsize,
}

impl Spent {
    /// Takes points of a series.
    fn points(&self, points: usize, limits: &Limits) -> Result<(), EvalError> {
        let taken = self.points.fetch_add(points, Ordering::Relaxed) + points;
        if taken > limits.points_max { Err(too_many_points(limits)) } else { Ok(()) }
    }

    /// Takes values that are kept.
    fn values(&self, bytes: usize, limits: &Limits) -> Result<(), EvalError> {
        let (taken, max) = (self.value_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes, limits.value_bytes_max);
        let text = || format!("the query keeps more than {} MiB of values: select less", max >> 20);
        if taken > max { Err(EvalError::TooLarge(text())) } else { Ok(()) }
    }
}

fn too_many_points(limits: &Limits) -> EvalError {
    EvalError::TooLarge(format!(
        "the query has more than {} points: aggregate by fewer labels, select less, or increase the step",
        limits.points_max
    ))
}

/// Bytes that the labels of the series of one function or operator may still take.
struct LabelBytes {
    left: usize,
}

impl LabelBytes {
    fn left(&self) -> usize {
        self.left
    }

    /// Takes the bytes of labels.
    fn take(&mut self, bytes: usize) -> Result<(), EvalError> {
        self.left = self.left.checked_sub(bytes).ok_or_else(|| {
            EvalError::TooLarge("the labels of the series of a function would take too much memory".into())
        })?;
        Ok(())
    }

    fn give_back(&mut self, bytes: usize) {
        self.left += bytes;
    }
}

/// What a part of a query is worth.
enum Worth {
    Number(f64),
    Series(Vec<Series>),
}

impl Evaluator<'_> {
    /// Answers a query for numbers.
    ///
    /// # Errors
    ///
    /// See [`EvalError`].
    pub fn metric(&self, metric: &MetricQuery, steps: TimeSteps) -> Result<Numbers, EvalError> {
        let max = self.limits.steps_max;
        if steps.count > max {
            return Err(EvalError::Refused(format!(
                "exceeded maximum resolution of {max} points per time series: increase the step"
            )));
        }
        Ok(match self.worth(metric, steps, &Spent::default())? {
            Worth::Number(number) => Numbers::Scalar(number),
            Worth::Series(mut series) => {
                series.retain(|series| !series.points.is_empty());
                let left_out = series.len().saturating_sub(self.limits.series_max);
                if left_out > 0 {
                    let total = |series: &Series| series.points.iter().map(|(_, value)| value.abs()).sum::<f64>();
                    series.sort_by(|a, b| total(b).total_cmp(&total(a)));
                    series.truncate(self.limits.series_max);
                    series.sort_by(|a, b| a.labels.cmp(&b.labels));
                }
                Numbers::Series { series, left_out }
            }
        })
    }

    fn worth(&self, metric: &MetricQuery, steps: TimeSteps, spent: &Spent) -> Result<Worth, EvalError> {
        let series = match metric {
            MetricQuery::Number(number) => return Ok(Worth::Number(*number)),
            MetricQuery::Vector(number) => {
                spent.points(steps.count as usize, &self.limits)?;
                let points = (0..steps.count).map(|step| (step, *number)).collect();
                vec![Series { labels: Labels::default(), points }]
            }
            MetricQuery::Range(range) => self.range(range, None, steps, spent)?,
            MetricQuery::Aggregate { op, parameter, grouping, inner } => {
                // A sum of counts is counted by the labels of the sum: the series of each entry need not exist.
                if let (MetricQuery::Range(range), Some(grouping)) =
                    (&**inner, aggregate::merged_grouping(*op, grouping))
                    && range.merges_with(*op)
                {
                    self.range(range, Some(&grouping), steps, spent)?
                } else {
                    let inner = self.series(inner, steps, spent)?;
                    aggregate::aggregate(*op, *parameter, grouping.as_ref(), inner, steps)
                }
            }
            MetricQuery::Binary(binary) => {
                let (left, right) = (self.worth(&binary.left, steps, spent)?, self.worth(&binary.right, steps, spent)?);
                binary::apply(binary, left, right, &mut self.labels_of(&[]))?
            }
            MetricQuery::LabelReplace { inner, target, replacement, label, regex, .. } => {
                let mut series = self.series(inner, steps, spent)?;
                let go_on = || self.source.is_wanted();
                let mut labels = self.labels_of(&series);
                for one in &mut series {
                    let value = one.labels.get(label).unwrap_or_default().to_owned();
                    if let Some(captures) = regex.captures(&value) {
                        labels.give_back(one.labels.get(target).unwrap_or_default().len());
                        let mut expanded = BoundedText::new(labels.left().min(VALUE_BYTES_MAX), &go_on);
                        let made = expanded.push_expanded(replacement, |group| match group {
                            GroupName::Number(number) => captures.get(number).map(|group| group.as_str()),
                            GroupName::Name(name) => captures.name(name).map(|group| group.as_str()),
                        });
                        made.map_err(|refusal| EvalError::of_text("the labels that label_replace makes", refusal))?;
                        let expanded = expanded.finish();
                        labels.take(expanded.len())?;
                        one.labels.set(target, &expanded);
                    }
                }
                merged(series)?
            }
        };
        // `or` and `group_left` may have more points than the functions that they combine.
        if series.iter().map(|series| series.points.len()).sum::<usize>() > 2 * self.limits.points_max {
            return Err(too_many_points(&self.limits));
        }
        Ok(Worth::Series(series))
    }

    /// The account of the labels of series that are made of others.
    fn labels_of(&self, series: &[Series]) -> LabelBytes {
        let bytes = |series: &Series| series.labels.iter().map(|(_, value)| value.len()).sum::<usize>();
        LabelBytes { left: self.limits.inner_label_bytes_max.saturating_sub(series.iter().map(bytes).sum()) }
    }

    fn series(&self, metric: &MetricQuery, steps: TimeSteps, spent: &Spent) -> Result<Vec<Series>, EvalError> {
        match self.worth(metric, steps, spent)? {
            Worth::Series(series) => Ok(series),
            Worth::Number(_) => Err(EvalError::Refused("a number stands where a vector is needed".into())),
        }
    }
}

/// Joins series with equal labels.
fn merged(mut series: Vec<Series>) -> Result<Vec<Series>, EvalError> {
    let is_apart = |series: &[Series]| series.windows(2).all(|pair| pair[0].labels != pair[1].labels);
    series.sort_by(|a, b| a.labels.cmp(&b.labels));
    if is_apart(&series) {
        return Ok(series);
    }
    let mut merged: Vec<Series> = Vec::with_capacity(series.len());
    for one in series {
        match merged.last_mut().filter(|last| last.labels == one.labels) {
            Some(last) => {
                last.points.extend(one.points);
                last.points.sort_by_key(|(step, _)| *step);
                if last.points.windows(2).any(|pair| pair[0].0 == pair[1].0) {
                    return Err(EvalError::Refused(format!(
                        "the result has two values at the same time for the series {}",
                        last.labels
                    )));
                }
            }
            None => merged.push(one),
        }
    }
    Ok(merged)
}
