//! Samples that belong to the same steps, and the value of a range.

use super::exact_sum::ExactSum;
use crate::ast::{RangeAggregation, RangeOp};
use crate::text::SECOND;

/// Samples of the same steps. Neither their order nor how they were put together matters.
#[derive(Debug)]
pub(super) enum SamplePiece {
    Sum(ExactSum),
    Least(f64),
    Greatest(f64),
    // Larger than the others: boxed, so that these stay small.
    Mean(Box<Mean>),
    Moments(Box<Moments>),
    First(i64, f64),
    Last(i64, f64),
    Values(Vec<f64>),
    /// Times and values.
    Counter(Vec<(i64, f64)>),
}

/// What an average is made of.
#[derive(Debug)]
pub(super) struct Mean {
    count: f64,
    sum: ExactSum,
}

/// What a deviation is made of.
#[derive(Debug, Default)]
pub(super) struct Moments {
    count: f64,
    sum: ExactSum,
    squares: ExactSum,
}

impl Moments {
    fn add(&mut self, value: f64) {
        self.count += 1.0;
        self.sum.add(value);
        self.squares.add_sum(ExactSum::square(value));
    }

    fn add_all(&mut self, more: &Moments) {
        self.count += more.count;
        self.sum.add_sum(more.sum);
        self.squares.add_sum(more.squares);
    }
}

/// Whether a sample comes before another one. Of two at one time, the smaller value does.
fn is_before(one: (i64, f64), other: (i64, f64)) -> bool {
    one.0.cmp(&other.0).then(one.1.total_cmp(&other.1)).is_lt()
}

impl SamplePiece {
    pub(super) fn new(op: RangeOp, time: i64, value: f64) -> SamplePiece {
        use RangeOp::*;
        match op {
            CountOverTime | Rate | BytesOverTime | BytesRate | SumOverTime | AbsentOverTime => {
                SamplePiece::Sum(ExactSum::of(value))
            }
            AvgOverTime => SamplePiece::Mean(Mean { count: 1.0, sum: ExactSum::of(value) }.into()),
            MinOverTime => SamplePiece::Least(value),
            MaxOverTime => SamplePiece::Greatest(value),
            StddevOverTime | StdvarOverTime => {
                let mut moments = Moments::default();
                moments.add(value);
                SamplePiece::Moments(moments.into())
            }
            FirstOverTime => SamplePiece::First(time, value),
            LastOverTime => SamplePiece::Last(time, value),
            QuantileOverTime => SamplePiece::Values(vec![value]),
            RateCounter => SamplePiece::Counter(vec![(time, value)]),
        }
    }

    pub(super) fn add(&mut self, time: i64, value: f64) {
        match self {
            SamplePiece::Sum(sum) => sum.add(value),
            SamplePiece::Mean(mean) => {
                mean.count += 1.0;
                mean.sum.add(value);
            }
            SamplePiece::Least(least) => *least = least.min(value),
            SamplePiece::Greatest(greatest) => *greatest = greatest.max(value),
            SamplePiece::Moments(moments) => moments.add(value),
            SamplePiece::First(at, first) => {
                if is_before((time, value), (*at, *first)) {
                    (*at, *first) = (time, value);
                }
            }
            SamplePiece::Last(at, last) => {
                if is_before((*at, *last), (time, value)) {
                    (*at, *last) = (time, value);
                }
            }
            SamplePiece::Values(values) => values.push(value),
            SamplePiece::Counter(values) => values.push((time, value)),
        }
    }

    /// Adds the samples of another piece of the same function.
    pub(super) fn add_all(&mut self, more: SamplePiece) {
        match (self, more) {
            (SamplePiece::Sum(sum), SamplePiece::Sum(more)) => sum.add_sum(more),
            (SamplePiece::Mean(mean), SamplePiece::Mean(more)) => {
                mean.count += more.count;
                mean.sum.add_sum(more.sum);
            }
            (SamplePiece::Moments(moments), SamplePiece::Moments(more)) => moments.add_all(&more),
            (SamplePiece::Values(values), SamplePiece::Values(mut more)) => values.append(&mut more),
            (SamplePiece::Counter(values), SamplePiece::Counter(mut more)) => values.append(&mut more),
            (piece, SamplePiece::Least(value) | SamplePiece::Greatest(value)) => piece.add(0, value),
            (piece, SamplePiece::First(time, value) | SamplePiece::Last(time, value)) => piece.add(time, value),
            // All pieces are of one function.
            _ => {}
        }
    }

    /// The number of values that are kept.
    pub(super) fn values(&self) -> usize {
        match self {
            SamplePiece::Values(values) => values.len(),
            SamplePiece::Counter(values) => values.len(),
            _ => 0,
        }
    }

    /// Bytes that a further sample takes of the memory for values.
    pub(super) fn value_bytes(op: RangeOp) -> usize {
        match op {
            RangeOp::QuantileOverTime => 8,
            RangeOp::RateCounter => 16,
            _ => 0,
        }
    }

    /// The value of several pieces together.
    pub(super) fn combined<'p>(pieces: impl Iterator<Item = &'p SamplePiece>, range: &RangeAggregation) -> f64 {
        let seconds = range.range as f64 / SECOND as f64;
        let (mut count, mut sum, mut moments) = (0.0, ExactSum::default(), Moments::default());
        // A number counts more than none.
        let (mut least, mut greatest) = (f64::NAN, f64::NAN);
        let (mut edge, mut values, mut counter) = (None::<(i64, f64)>, Vec::new(), Vec::new());
        for piece in pieces {
            match piece {
                SamplePiece::Sum(more) => sum.add_sum(*more),
                SamplePiece::Mean(more) => {
                    count += more.count;
                    sum.add_sum(more.sum);
                }
                SamplePiece::Least(value) => least = least.min(*value),
                SamplePiece::Greatest(value) => greatest = greatest.max(*value),
                SamplePiece::Moments(more) => moments.add_all(more),
                SamplePiece::First(time, value) => {
                    if edge.is_none_or(|known| is_before((*time, *value), known)) {
                        edge = Some((*time, *value));
                    }
                }
                SamplePiece::Last(time, value) => {
                    if edge.is_none_or(|known| is_before(known, (*time, *value))) {
                        edge = Some((*time, *value));
                    }
                }
                SamplePiece::Values(more) => values.extend_from_slice(more),
                SamplePiece::Counter(more) => counter.extend_from_slice(more),
            }
        }
        let variance = || moments.sum.deviation(moments.squares, moments.count) / moments.count;
        use RangeOp::*;
        match range.op {
            CountOverTime | BytesOverTime | SumOverTime | AbsentOverTime => sum.value(),
            Rate | BytesRate => sum.value() / seconds,
            AvgOverTime => sum.value() / count,
            MinOverTime => least,
            MaxOverTime => greatest,
            StdvarOverTime => variance(),
            StddevOverTime => variance().sqrt(),
            FirstOverTime | LastOverTime => edge.map_or(f64::NAN, |(_, value)| value),
            QuantileOverTime => quantile(range.parameter, values),
            RateCounter => {
                counter.sort_unstable_by(|a, b| a.0.cmp(&b.0).then(a.1.total_cmp(&b.1)));
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
    // What is not a number is less than every number.
    values.sort_by(|a, b| b.is_nan().cmp(&a.is_nan()).then(a.total_cmp(b)));
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
