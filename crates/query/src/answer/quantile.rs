//! Quantiles: exact while there are few values, within 1 % beyond.
//!
//! The sketch is [DDSketch](https://arxiv.org/abs/1908.10693): logarithmic buckets, so that each value is known up to
//! a relative error. Two sketches merge without loss.

use std::collections::BTreeMap;

/// Values that are kept exactly.
const EXACT_MAX: usize = 1024;

/// The relative error of a bucket.
const ERROR: f64 = 0.005;

/// Values whose quantiles are asked.
#[derive(Clone, Debug, Default)]
pub struct QuantileSketch {
    exact: Vec<f64>,
    /// Number of values by bucket, of positive and of negative values.
    buckets: [BTreeMap<i32, u64>; 2],
    zeros: u64,
    count: u64,
    ends: Option<(f64, f64)>,
}

impl QuantileSketch {
    /// Adds a value; infinite values and NaN are left out.
    pub fn add(&mut self, value: f64) {
        if !value.is_finite() {
            return;
        }
        self.count += 1;
        self.ends = Some(self.ends.map_or((value, value), |(low, high)| (low.min(value), high.max(value))));
        if self.is_exact() && self.exact.len() < EXACT_MAX {
            self.exact.push(value);
        } else {
            self.spill();
            self.add_to_bucket(value, 1);
        }
    }

    /// Adds a value so many times.
    pub(super) fn add_times(&mut self, value: f64, times: u64) {
        if times == 0 || !value.is_finite() {
            return;
        }
        // Few enough values are kept as they are.
        if self.is_exact() && self.exact.len() as u64 + times <= EXACT_MAX as u64 {
            return (0..times).for_each(|_| self.add(value));
        }
        self.count += times;
        self.ends = Some(self.ends.map_or((value, value), |(low, high)| (low.min(value), high.max(value))));
        self.spill();
        self.add_to_bucket(value, times);
    }

    /// Adds the values of another sketch.
    pub fn merge(&mut self, other: &QuantileSketch) {
        if other.is_exact() {
            other.exact.iter().for_each(|value| self.add(*value));
            return;
        }
        self.spill();
        for (buckets, more) in self.buckets.iter_mut().zip(&other.buckets) {
            more.iter().for_each(|(bucket, count)| *buckets.entry(*bucket).or_default() += count);
        }
        (self.zeros, self.count) = (self.zeros + other.zeros, self.count + other.count);
        self.ends = match (self.ends, other.ends) {
            (Some((a, b)), Some((c, d))) => Some((a.min(c), b.max(d))),
            (one, other) => one.or(other),
        };
    }

    /// The value below which a part `phi` of the values lies.
    pub fn quantile(&self, phi: f64) -> Option<f64> {
        let (low, high) = self.ends?;
        // The index of LogsQL: the value at `phi * count`, counted from 0.
        let index = ((phi * self.count as f64) as u64).min(self.count - 1);
        if index == 0 || index + 1 == self.count {
            return Some(if index == 0 { low } else { high });
        }
        if self.is_exact() {
            let mut sorted = self.exact.clone();
            sorted.sort_by(f64::total_cmp);
            return sorted.get(usize::try_from(index).ok()?).copied();
        }
        let mut before = 0;
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
        self.exact.len() * 8 + self.buckets.iter().map(BTreeMap::len).sum::<usize>() * 24
    }

    fn is_exact(&self) -> bool {
        self.zeros == 0 && self.buckets.iter().all(BTreeMap::is_empty)
    }

    /// Moves the exact values into buckets.
    fn spill(&mut self) {
        for value in std::mem::take(&mut self.exact) {
            self.add_to_bucket(value, 1);
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

fn growth() -> f64 {
    (1.0 + ERROR) / (1.0 - ERROR)
}

/// The value that is at most [`ERROR`] from each value of a bucket.
fn middle(bucket: i32) -> f64 {
    2.0 * growth().powi(bucket) / (growth() + 1.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
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
                let found = sketch.quantile(phi).expect("values");
                let error = if values.len() < EXACT_MAX { 0.0 } else { exact.abs() * 0.01 };
                prop_assert!((found - exact).abs() <= error, "{} is not {}", found, exact);
            }
        }
    }
}
