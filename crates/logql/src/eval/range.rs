//! Functions over ranges of time.
//!
//! Each step has a range of the same length before it, and ranges overlap. A sample belongs to the steps from the first
//! one at or after it to the last whose range reaches back to it. Samples of the same steps are combined when they come,
//! so what is kept depends on the number of steps, not of entries; a step then combines the few pieces of its range.

use super::{Evaluator, Limits, Series, Spent, Steps, too_many_points};
use crate::ast::{AggregateOp, Conversion, LabelGrouping, PipelineStage, RangeAggregation, RangeOp, Unwrap};
use crate::error::EvalError;
use crate::labels::Labels;
use crate::source::{CountedApart, Direction, LogEntry, TimeSpan};
use crate::stages::EntryView;
use crate::stages::hints::Hints;
use crate::stages::view::ERROR;
use crate::text::{self, SECOND};
use std::collections::{BTreeMap, HashMap, btree_map};
use std::ops::ControlFlow;

/// What a series takes beside its labels and points, and how often its labels are kept while entries come.
const SERIES_BYTES: usize = 256;
const SERIES_LABEL_COPIES: usize = 3;
/// What a piece takes until its series is made, with the points that come of it.
const PIECE_BYTES: usize = 96;
/// Bytes of the labels that an error names.
const SHOWN_LABELS_MAX: usize = 4096;

/// Samples of the same steps.
enum Piece {
    Sum(f64),
    Least(f64),
    Greatest(f64),
    Mean {
        count: f64,
        sum: f64,
    },
    Moments {
        count: f64,
        mean: f64,
        squares: f64,
    },
    First(i64, f64),
    Last(i64, f64),
    Values(Vec<f64>),
    /// Times and values.
    Counter(Vec<(i64, f64)>),
}

impl Piece {
    fn new(op: RangeOp, time: i64, value: f64) -> Piece {
        use RangeOp::*;
        match op {
            CountOverTime | Rate | BytesOverTime | BytesRate | SumOverTime | AbsentOverTime => Piece::Sum(value),
            AvgOverTime => Piece::Mean { count: 1.0, sum: value },
            MinOverTime => Piece::Least(value),
            MaxOverTime => Piece::Greatest(value),
            StddevOverTime | StdvarOverTime => Piece::Moments { count: 1.0, mean: value, squares: 0.0 },
            FirstOverTime => Piece::First(time, value),
            LastOverTime => Piece::Last(time, value),
            QuantileOverTime => Piece::Values(vec![value]),
            RateCounter => Piece::Counter(vec![(time, value)]),
        }
    }

    fn add(&mut self, time: i64, value: f64) {
        match self {
            Piece::Sum(sum) => *sum += value,
            Piece::Mean { count, sum } => {
                *count += 1.0;
                *sum += value;
            }
            Piece::Least(least) => *least = least.min(value),
            Piece::Greatest(greatest) => *greatest = greatest.max(value),
            Piece::Moments { count, mean, squares } => {
                *count += 1.0;
                let delta = value - *mean;
                *mean += delta / *count;
                *squares += delta * (value - *mean);
            }
            Piece::First(first, known) if time < *first => (*first, *known) = (time, value),
            Piece::Last(last, known) if time >= *last => (*last, *known) = (time, value),
            Piece::First(..) | Piece::Last(..) => {}
            Piece::Values(values) => values.push(value),
            Piece::Counter(values) => values.push((time, value)),
        }
    }

    /// The value of several pieces together.
    fn combined<'p>(pieces: impl Iterator<Item = &'p Piece>, range: &RangeAggregation) -> f64 {
        let seconds = range.range as f64 / SECOND as f64;
        let (mut count, mut sum, mut mean, mut squares) = (0.0, 0.0, 0.0, 0.0);
        let (mut least, mut greatest) = (f64::INFINITY, f64::NEG_INFINITY);
        let (mut edge, mut values, mut counter) = (None::<(i64, f64)>, Vec::new(), Vec::new());
        for piece in pieces {
            match piece {
                Piece::Sum(more) => sum += more,
                Piece::Mean { count: more, sum: of } => {
                    count += more;
                    sum += of;
                }
                Piece::Least(value) => least = least.min(*value),
                Piece::Greatest(value) => greatest = greatest.max(*value),
                Piece::Moments { count: more, mean: other, squares: of } => {
                    let (total, delta) = (count + more, other - mean);
                    mean += delta * more / total;
                    squares += of + delta * delta * count * more / total;
                    count = total;
                }
                Piece::First(time, value) if edge.is_none_or(|(known, _)| *time < known) => {
                    edge = Some((*time, *value))
                }
                Piece::Last(time, value) if edge.is_none_or(|(known, _)| *time >= known) => {
                    edge = Some((*time, *value))
                }
                Piece::First(..) | Piece::Last(..) => {}
                Piece::Values(more) => values.extend_from_slice(more),
                Piece::Counter(more) => counter.extend_from_slice(more),
            }
        }
        use RangeOp::*;
        match range.op {
            CountOverTime | BytesOverTime | SumOverTime | AbsentOverTime => sum,
            Rate | BytesRate => sum / seconds,
            AvgOverTime => sum / count,
            MinOverTime => least,
            MaxOverTime => greatest,
            StdvarOverTime => squares / count,
            StddevOverTime => (squares / count).sqrt(),
            FirstOverTime | LastOverTime => edge.map_or(f64::NAN, |(_, value)| value),
            QuantileOverTime => quantile(range.parameter, values),
            RateCounter => {
                counter.sort_by_key(|(time, _)| *time);
                counter_rate(&counter, range.range)
            }
        }
    }
}

/// The value below which a share of the values lies, with interpolation.
pub(super) fn quantile(share: f64, mut values: Vec<f64>) -> f64 {
    if values.is_empty() || share.is_nan() {
        return f64::NAN;
    }
    if share < 0.0 {
        return f64::NEG_INFINITY;
    }
    if share > 1.0 {
        return f64::INFINITY;
    }
    values.sort_by(f64::total_cmp);
    let rank = share * (values.len() - 1) as f64;
    let (low, weight) = (rank.floor(), rank - rank.floor());
    let at = low as usize;
    let high = values[(at + 1).min(values.len() - 1)];
    values[at] * (1.0 - weight) + high * weight
}

/// The increase a second of a counter, which begins again at zero, as Loki 3.7 counts it: the increase is extrapolated
/// to the range in the formula of Prometheus, with times of nanoseconds where the formula has milliseconds. So next to
/// nothing is added.
fn counter_rate(values: &[(i64, f64)], range: i64) -> f64 {
    let ([(first_time, first), .., (last_time, last)], seconds) = (values, range as f64 / SECOND as f64) else {
        return 0.0;
    };
    let resets: f64 = values.windows(2).filter(|pair| pair[1].1 < pair[0].1).map(|pair| pair[0].1).sum();
    // A first value below zero counts as a reset from zero, which adds zero.
    let increase = last - first + resets;
    let sampled = (last_time - first_time) as f64 / 1000.0;
    let average = sampled / (values.len() - 1) as f64;
    let mut before = (range / 1_000_000) as f64 / 1000.0;
    if increase > 0.0 && *first >= 0.0 {
        before = before.min(sampled * (first / increase));
    }
    let extended = sampled + if before < average * 1.1 { before } else { average / 2.0 };
    increase * (extended / sampled) / seconds
}

/// A series while its samples come.
struct Gathered {
    labels: Labels,
    pieces: BTreeMap<(u32, u32), Piece>,
}

impl RangeAggregation {
    /// Whether an aggregation of this function's series is the function over the samples of all series together.
    pub(super) fn merges_with(&self, op: AggregateOp) -> bool {
        use RangeOp::*;
        self.grouping.is_none()
            && match op {
                AggregateOp::Sum => matches!(self.op, CountOverTime | Rate | BytesOverTime | BytesRate | SumOverTime),
                _ => false,
            }
    }

    /// The labels of an answer about nothing: those that the selector demands.
    fn absent_labels(&self) -> Labels {
        let matchers = &self.query.selector.0;
        let equal = |name: &str| {
            let mut of_name = matchers.iter().filter(|matcher| matcher.name == name);
            let first = of_name.next();
            first.filter(|first| first.op == crate::ast::MatchOp::Equal && of_name.next().is_none())
        };
        let pairs = matchers.iter().filter_map(|matcher| equal(&matcher.name));
        Labels::new(pairs.map(|matcher| (matcher.name.clone(), matcher.value.clone())).collect())
    }
}

impl Unwrap {
    /// The value of an entry; `None` without one. A text that is no value is an error of the entry.
    fn value(&self, view: &mut EntryView<'_>) -> Option<f64> {
        let text = view.get(&self.label).filter(|text| !text.is_empty())?.to_owned();
        let value = match self.conversion {
            Conversion::Number => text::go_float(&text),
            Conversion::Duration | Conversion::DurationSeconds => {
                text::go_duration(&text).map(|nanos| nanos as f64 / SECOND as f64)
            }
            Conversion::Bytes => text::go_size(&text),
        };
        if let Err(reason) = &value {
            view.fail("SampleExtractionErr", reason);
        }
        let keeps = self.filters.iter().all(|filter| filter.holds(view));
        keeps.then_some(value.unwrap_or(0.0))
    }
}

impl Evaluator<'_> {
    /// The series of a function over ranges; `grouping` says which labels they keep, instead of the function's own.
    pub(super) fn range(
        &self,
        range: &RangeAggregation,
        grouping: Option<&LabelGrouping>,
        steps: Steps,
        spent: &Spent,
    ) -> Result<Vec<Series>, EvalError> {
        self.range_of(range, grouping, steps, spent, true)
    }

    fn range_of(
        &self,
        range: &RangeAggregation,
        given: Option<&LabelGrouping>,
        steps: Steps,
        spent: &Spent,
        may_count: bool,
    ) -> Result<Vec<Series>, EvalError> {
        let grouping = given.or(range.grouping.as_ref());
        let too_long = || EvalError::Refused("the range or the offset is too long".into());
        let back = range.range.checked_add(range.offset).ok_or_else(too_long)?;
        let from = steps.start.checked_sub(back).and_then(|from| from.checked_add(1)).ok_or_else(too_long)?;
        let to = steps.time(steps.count - 1).checked_sub(range.offset).ok_or_else(too_long)?;
        let mut gathered: Vec<Gathered> = Vec::new();
        let mut numbers: HashMap<Vec<u8>, usize, foldhash::quality::RandomState> = HashMap::default();
        let (mut key, mut label_bytes, mut pieces, mut refused) = (Vec::new(), 0usize, 0usize, None);
        // An unwrapped label is a label of the series only if the grouping names it.
        let is_unnamed = grouping.is_none_or(|grouping| grouping.without);
        let unwrapped = range.unwrap.as_ref().filter(|_| is_unnamed).map(|unwrap| unwrap.label.as_str());
        let keeps = |name: &str| Some(name) != unwrapped && grouping.is_none_or(|grouping| grouping.keeps(name));
        let is_absent = range.op == RangeOp::AbsentOverTime;
        let nothing = LabelGrouping { without: false, labels: Vec::new() };
        let hints = Hints::new(range, if is_absent { Some(&nothing) } else { grouping });
        let is_counted = may_count && range.counts_by_labels(&hints);
        let mut has_failed = false;
        let mut each = |entry: LogEntry, entries: u64| {
            let go_on = || self.source.is_wanted();
            let mut view = EntryView::with_hints(&entry, &hints, &go_on);
            // The source decided about the line.
            let is_decided = |stage: &PipelineStage| is_counted && matches!(stage, PipelineStage::Line(_));
            let stages = range.query.stages.iter().filter(|stage| !is_decided(stage));
            match PipelineStage::apply_all(stages, &mut view, self.now) {
                Ok(true) => {}
                Ok(false) => return ControlFlow::Continue(()),
                Err(error) => {
                    refused = Some(error);
                    return ControlFlow::Break(());
                }
            }
            let value = match &range.unwrap {
                Some(unwrap) => match unwrap.value(&mut view) {
                    Some(value) => value,
                    None => return ControlFlow::Continue(()),
                },
                None if matches!(range.op, RangeOp::BytesOverTime | RangeOp::BytesRate) => view.line.len() as f64,
                None => entries as f64,
            };
            if view.is_failure() {
                has_failed = true;
                refused = Some(pipeline_error(&view));
                return ControlFlow::Break(());
            }
            // The first step at or after the sample, and the last whose range has it.
            let since = entry.time + range.offset - steps.start;
            let first = since.div_euclid(steps.step) + i64::from(since.rem_euclid(steps.step) > 0);
            let end = since + range.range;
            let last = end.div_euclid(steps.step) + i64::from(end.rem_euclid(steps.step) > 0) - 1;
            let first = u32::try_from(first.max(0)).unwrap_or(u32::MAX);
            let last = u32::try_from(last.min(i64::from(steps.count) - 1)).unwrap_or(0);
            if first > last || end <= 0 {
                return ControlFlow::Continue(());
            }
            if !is_absent {
                view.write_key(keeps, &mut key);
            }
            let at = match numbers.get(&key) {
                Some(at) => *at,
                None => {
                    if gathered.len() >= self.limits.inner_series_max {
                        refused = Some(EvalError::TooLarge(format!(
                            "the query has more than {} series: aggregate by fewer labels, or drop labels that differ in each entry",
                            self.limits.inner_series_max
                        )));
                        return ControlFlow::Break(());
                    }
                    if let Err(over) = self.budget.charge(SERIES_BYTES + SERIES_LABEL_COPIES * key.len(), "series") {
                        refused = Some(over.into());
                        return ControlFlow::Break(());
                    }
                    label_bytes += key.len();
                    if label_bytes > self.limits.inner_label_bytes_max {
                        refused = Some(EvalError::TooLarge(format!(
                            "the labels of the query's {} series take more than {} MiB: aggregate by fewer labels, or drop labels that differ in each entry",
                            gathered.len(),
                            self.limits.inner_label_bytes_max >> 20
                        )));
                        return ControlFlow::Break(());
                    }
                    let labels = if is_absent { Labels::default() } else { view.all().of_series(keeps) };
                    gathered.push(Gathered { labels, pieces: BTreeMap::new() });
                    numbers.insert(key.clone(), gathered.len() - 1);
                    gathered.len() - 1
                }
            };
            let value_bytes = match range.op {
                RangeOp::QuantileOverTime => 8,
                RangeOp::RateCounter => 16,
                _ => 0,
            };
            let charged = spent.values(value_bytes, &self.limits);
            let charged = charged.and_then(|()| Ok(self.budget.charge(2 * value_bytes, "values")?));
            if let Err(error) = charged {
                refused = Some(error);
                return ControlFlow::Break(());
            }
            match gathered[at].pieces.entry((first, last)) {
                btree_map::Entry::Occupied(mut piece) => piece.get_mut().add(entry.time, value),
                btree_map::Entry::Vacant(place) => {
                    if let Err(over) = self.budget.charge(PIECE_BYTES, "points") {
                        refused = Some(over.into());
                        return ControlFlow::Break(());
                    }
                    place.insert(Piece::new(range.op, entry.time, value));
                    pieces += 1;
                }
            }
            if pieces > self.limits.points_max {
                refused = Some(too_many_points(&self.limits));
                return ControlFlow::Break(());
            }
            ControlFlow::Continue(())
        };
        let wanted = range.query.wanted(TimeSpan { from, to });
        let scanned = if is_counted {
            // All edges of ranges are edges of such steps.
            let steps = (steps.count > 1).then(|| (to, gcd(steps.step, range.range)));
            let apart = CountedApart { labels: hints.labels(), steps };
            self.source.count(&wanted, apart, &mut each)
        } else {
            self.source.scan(&wanted, Direction::Any, &mut |entry| each(entry, 1))
        };
        scanned?;
        if has_failed && is_counted {
            // The error names all labels of an entry.
            return self.range_of(range, given, steps, spent, false);
        }
        if let Some(refused) = refused {
            return Err(refused);
        }
        if is_absent {
            return Ok(absent(range, gathered, steps));
        }
        drop(numbers);
        let series = gathered.into_iter().map(|gathered| gathered.series(range, spent, &self.limits));
        let mut series = series.collect::<Result<Vec<Series>, EvalError>>()?;
        series.sort_by(|a, b| a.labels.cmp(&b.labels));
        Ok(series)
    }
}

impl Gathered {
    fn series(self, range: &RangeAggregation, spent: &Spent, limits: &Limits) -> Result<Series, EvalError> {
        let pieces: Vec<((u32, u32), Piece)> = self.pieces.into_iter().collect();
        let mut points = Vec::new();
        // Both the first and the last steps of the pieces ascend, so the pieces of a step are neighbors.
        let (mut from, mut to) = (0, 0);
        while from < pieces.len() {
            let mut step = pieces[from].0.0;
            to = to.max(from);
            while from < pieces.len() {
                while to < pieces.len() && pieces[to].0.0 <= step {
                    to += 1;
                }
                while from < to && pieces[from].0.1 < step {
                    from += 1;
                }
                if from == to {
                    break;
                }
                spent.points(1, limits)?;
                let value = Piece::combined(pieces[from..to].iter().map(|(_, piece)| piece), range);
                points.push((step, value));
                step += 1;
            }
        }
        Ok(Series { labels: self.labels, points })
    }
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

fn absent(range: &RangeAggregation, gathered: Vec<Gathered>, steps: Steps) -> Vec<Series> {
    let mut is_there = vec![false; steps.count as usize];
    for (first, last) in gathered.iter().flat_map(|gathered| gathered.pieces.keys()) {
        is_there[*first as usize..=*last as usize].fill(true);
    }
    let points = (0..steps.count).zip(is_there).filter(|(_, there)| !there).map(|(step, _)| (step, 1.0)).collect();
    vec![Series { labels: range.absent_labels(), points }]
}

fn pipeline_error(view: &EntryView<'_>) -> EvalError {
    let error = view.get(ERROR).unwrap_or_default();
    EvalError::Refused(format!(
        "pipeline error: '{error}' for series: '{}'.\nUse a label filter to intentionally skip this error. \
         (e.g | __error__!=\"{error}\").\nTo skip all potential errors you can match empty errors.(e.g __error__=\"\")\n\
         The error can also be skipped by dropping its labels. (e.g | drop __error__, __error_details__)",
        shown_labels(view)
    ))
}

/// The labels of an entry, as far as a reader wants them.
fn shown_labels(view: &EntryView<'_>) -> String {
    let mut left = SHOWN_LABELS_MAX;
    let mut is_shown = |value: &str| {
        let is_room = left >= value.len();
        left -= if is_room { value.len() } else { 0 };
        is_room
    };
    let pairs = view.all().iter().filter(|(_, value)| is_shown(value)).map(|(n, v)| (n.into(), v.into())).collect();
    Labels::new(pairs).to_string()
}
