//! Quantiles: exact while there are few different values, within 1 % beyond.
//!
//! The sketch is [DDSketch](https://arxiv.org/abs/1908.10693): logarithmic buckets, so that each value is known up to
//! a relative error. Two sketches merge without loss.

use crate::spilled::{Spilled, SpilledBytes};
use std::cmp::Ordering;
use std::collections::BTreeMap;

/// Different values that are kept exactly.
const EXACT_MAX: usize = 1024;

/// The relative error of a bucket.
const ERROR: f64 = 0.005;

/// Values whose quantiles are asked.
#[derive(Clone, Debug, Default)]
pub struct QuantileSketch {
    /// Different values in their order, and how often each came.
    exact: Vec<(f64, u64)>,
    /// Values that are not yet among these.
    recent: Vec<f64>,
    /// Number of values by bucket, of positive and of negative values.
    buckets: [BTreeMap<i32, u64>; 2],
    zeros: u64,
    count: u64,
    ends: Option<(f64, f64)>,
}

impl Spilled for QuantileSketch {
    fn write(&self, to: &mut Vec<u8>) {
        self.exact.write(to);
        self.recent.write(to);
        for buckets in &self.buckets {
            buckets.iter().map(|(bucket, count)| (*bucket, *count)).collect::<Vec<_>>().write(to);
        }
        (self.zeros, self.count).write(to);
        self.ends.write(to);
    }

    fn read(from: &mut SpilledBytes<'_>) -> Option<QuantileSketch> {
        let (exact, recent) = (Spilled::read(from)?, Spilled::read(from)?);
        let mut buckets = || Some(Vec::<(i32, u64)>::read(from)?.into_iter().collect());
        let buckets = [buckets()?, buckets()?];
        let (zeros, count) = Spilled::read(from)?;
        Some(QuantileSketch { exact, recent, buckets, zeros, count, ends: Spilled::read(from)? })
    }
}

impl QuantileSketch {
    /// Adds a value; infinite values and NaN are left out.
    pub fn add(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        self.note(value, value, 1);
        if !self.is_exact() {
            return self.add_to_bucket(value, 1);
        }
        self.recent.push(value);
        if self.recent.len() == EXACT_MAX {
            self.settle();
        }
    }

    /// Adds different values in their order, each this many times.
    pub(super) fn add_sorted(&mut self, mut values: Vec<(f64, u64)>) {
        values.retain(|(value, _)| value.is_finite());
        let (Some((low, _)), Some((high, _))) = (values.first(), values.last()) else { return };
        self.note(*low, *high, values.iter().map(|(_, count)| count).sum());
        self.settle();
        if self.is_exact() {
            self.merge_exact(&values);
        } else {
            values.into_iter().for_each(|(value, count)| self.add_to_bucket(value, count));
        }
    }

    /// Adds the values of another sketch.
    pub fn merge(&mut self, other: &QuantileSketch) {
        let Some((low, high)) = other.ends else { return };
        self.note(low, high, other.count);
        self.settle();
        let mut values = other.exact.clone();
        merge_counts(&mut values, &counted(&other.recent));
        if self.is_exact() && other.is_exact() {
            return self.merge_exact(&values);
        }
        self.spill();
        values.into_iter().for_each(|(value, count)| self.add_to_bucket(value, count));
        for (buckets, more) in self.buckets.iter_mut().zip(&other.buckets) {
            more.iter().for_each(|(bucket, count)| *buckets.entry(*bucket).or_default() += count);
        }
        self.zeros += other.zeros;
    }

    /// Counts values between two.
    fn note(&mut self, low: f64, high: f64, count: u64) {
        self.count += count;
        self.ends = Some(self.ends.map_or((low, high), |(least, most)| (least.min(low), most.max(high))));
    }

    fn merge_exact(&mut self, values: &[(f64, u64)]) {
        merge_counts(&mut self.exact, values);
        if self.exact.len() > EXACT_MAX {
            self.spill();
        }
    }

    /// Puts the recent values among the others.
    fn settle(&mut self) {
        if !self.recent.is_empty() {
            let recent = counted(&std::mem::take(&mut self.recent));
            self.merge_exact(&recent);
        }
    }

    /// The value below which a part `phi` of the values lies. It does not depend on the order in which the values came.
    pub fn quantile(mut self, phi: f64) -> Option<f64> {
        self.settle();
        let (low, high) = self.ends?;
        // The index of LogsQL: the value at `phi * count`, counted from 0.
        let index = ((phi * self.count as f64) as u64).min(self.count - 1);
        if index == 0 || index + 1 == self.count {
            return Some(if index == 0 { low } else { high });
        }
        let mut before = 0;
        if self.is_exact() {
            return self.exact.into_iter().find_map(|(value, count)| {
                before += count;
                (before > index).then_some(value)
            });
        }
        let negative = self.buckets[1].iter().rev().map(|(bucket, count)| (-middle(*bucket), *count));
        let positive = self.buckets[0].iter().map(|(bucket, count)| (middle(*bucket), *count));
        for (value, count) in negative.chain([(0.0, self.zeros)]).chain(positive) {
            before += count;
            if before > index {
                return Some(value.clamp(low, high));
            }
        }
        Some(high)
    }

    /// An estimate of the memory in bytes.
    pub fn bytes(&self) -> usize {
        self.exact.len() * 16 + self.recent.len() * 8 + self.buckets.iter().map(BTreeMap::len).sum::<usize>() * 24
    }

    fn is_exact(&self) -> bool {
        self.zeros == 0 && self.buckets.iter().all(BTreeMap::is_empty)
    }

    /// Moves the exact values into buckets.
    fn spill(&mut self) {
        for (value, count) in std::mem::take(&mut self.exact) {
            self.add_to_bucket(value, count);
        }
    }

    fn add_to_bucket(&mut self, value: f64, count: u64) {
        if value == 0.0 {
            self.zeros += count;
            return;
        }
        let bucket = (value.abs().ln() / growth().ln()).ceil() as i32;
        *self.buckets[usize::from(value < 0.0)].entry(bucket).or_default() += count;
    }
}

/// The different values in their order, with their numbers.
fn counted(values: &[f64]) -> Vec<(f64, u64)> {
    let mut sorted = values.to_vec();
    sorted.sort_unstable_by(f64::total_cmp);
    sorted.chunk_by(|a, b| a.total_cmp(b).is_eq()).map(|same| (same[0], same.len() as u64)).collect()
}

/// Adds up two lists of different values in their order.
fn merge_counts(values: &mut Vec<(f64, u64)>, more: &[(f64, u64)]) {
    let (mut left, mut right) = (std::mem::take(values).into_iter().peekable(), more.iter().copied().peekable());
    while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
        match a.0.total_cmp(&b.0) {
            Ordering::Less => values.extend(left.next()),
            Ordering::Greater => values.extend(right.next()),
            Ordering::Equal => {
                values.push((a.0, a.1 + b.1));
                left.next();
                right.next();
            }
        }
    }
    values.extend(left.chain(right));
}

fn growth() -> f64 {
    (1.0 + ERROR) / (1.0 - ERROR)
}

/// The value that is some [`ERROR`] from each value of a bucket at most, with the four digits that are known.
fn middle(bucket: i32) -> f64 {
    let middle = 2.0 * growth().powi(bucket) / (growth() + 1.0);
    format!("{middle:.3e}").parse().unwrap_or(middle)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// A quantile is the exact one while values are few, and within 1 % beyond, also of merged sketches.
        #[test]
        fn quantiles_are_within_one_percent(
            values in prop_oneof![
                prop::collection::vec(-1e6f64..1e6, 1..50),
                prop::collection::vec(prop_oneof![0f64..100.0, Just(0.0), 1e3f64..1e9, -5f64..0.0], 1000..4000),
            ],
            at in any::<prop::sample::Index>(), phi in 0f64..=1.0,
        ) {
            let (first, second) = values.split_at(at.index(values.len()));
            let sketch_of = |values: &[f64]| {
                let mut sketch = QuantileSketch::default();
                values.iter().for_each(|value| sketch.add(*value));
                sketch
            };
            let mut merged = sketch_of(first);
            merged.merge(&sketch_of(second));
            let mut sorted = values.clone();
            sorted.sort_by(f64::total_cmp);
            let exact = sorted[((phi * sorted.len() as f64) as usize).min(sorted.len() - 1)];
            for sketch in [merged, sketch_of(&values)] {
                let found = sketch.clone().quantile(phi).expect("values");
                let error = if values.len() < EXACT_MAX { 0.0 } else { exact.abs() * 0.01 };
                prop_assert!((found - exact).abs() <= error, "{} is not {}", found, exact);
            }
        }
    }
}
