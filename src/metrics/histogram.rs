//! A histogram with fixed buckets.

/// Counts observations by the smallest bucket bound that is at least as large.
#[derive(Clone, Debug)]
pub struct BucketHistogram {
    /// Upper bounds with the observations of each bucket alone, ascending.
    buckets: Vec<(f64, u64)>,
    count: u64,
    sum: f64,
}

impl BucketHistogram {
    /// An empty histogram with `count` bounds: `first`, then twice the bound before.
    pub fn doubling(first: f64, count: i32) -> BucketHistogram {
        let buckets = (0..count).map(|n| (first * 2.0_f64.powi(n), 0)).collect();
        BucketHistogram { buckets, count: 0, sum: 0.0 }
    }

    /// The same histogram with a further bound, which is above the others.
    pub fn with_bound(mut self, bound: f64) -> BucketHistogram {
        self.buckets.push((bound, 0));
        self
    }

    /// Counts an observation.
    pub fn observe(&mut self, value: f64) {
        if let Some((_, count)) = self.buckets.iter_mut().find(|(bound, _)| value <= *bound) {
            *count += 1;
        }
        self.count += 1;
        self.sum += value;
    }

    /// Upper bounds with the observations up to each of them, ascending.
    pub(super) fn cumulative(&self) -> impl Iterator<Item = (f64, u64)> {
        self.buckets.iter().scan(0, |total, (bound, count)| {
            *total += count;
            Some((*bound, *total))
        })
    }

    pub(super) fn count(&self) -> u64 {
        self.count
    }

    pub(super) fn sum(&self) -> f64 {
        self.sum
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_observation_counts_in_every_bucket_that_is_large_enough() {
        let mut histogram = BucketHistogram::doubling(1.0, 2).with_bound(100.0);
        for value in [0.5, 1.0, 1.5, 100.0, 101.0] {
            histogram.observe(value);
        }
        assert_eq!(histogram.cumulative().collect::<Vec<_>>(), [(1.0, 2), (2.0, 3), (100.0, 4)]);
        assert_eq!((histogram.count(), histogram.sum()), (5, 204.0));
    }
}
