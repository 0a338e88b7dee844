//! Sums that do not depend on the order of their terms.
//!
//! Threads add up entries in any order, and the sum of `f64` depends on it in its last digits. Two numbers keep what one
//! rounds off, so the sum is rounded once, in the end.

/// A sum: the number nearest to it, and the rest.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct ExactSum {
    high: f64,
    low: f64,
}

/// Splits a number into halves of 26 bits, whose products are exact.
const SPLITTER: f64 = 134_217_729.0;

impl ExactSum {
    pub(super) fn of(value: f64) -> ExactSum {
        ExactSum { high: value, low: 0.0 }
    }

    /// The product of two numbers.
    fn product(a: f64, b: f64) -> ExactSum {
        let split = |n: f64| {
            let wide = SPLITTER * n;
            let high = wide - (wide - n);
            (high, n - high)
        };
        let (high, (a, a_rest), (b, b_rest)) = (a * b, split(a), split(b));
        ExactSum { high, low: ((a * b - high) + a * b_rest + a_rest * b) + a_rest * b_rest }.finite()
    }

    pub(super) fn square(value: f64) -> ExactSum {
        ExactSum::product(value, value)
    }

    /// What is beyond the numbers has no rest.
    fn finite(self) -> ExactSum {
        if self.high.is_finite() && self.low.is_finite() { self } else { ExactSum { high: self.high, low: 0.0 } }
    }

    pub(super) fn add(&mut self, value: f64) {
        let sum = self.high + value;
        let of_value = sum - self.high;
        self.low += (self.high - (sum - of_value)) + (value - of_value);
        self.high = sum;
        *self = self.finite();
    }

    pub(super) fn add_sum(&mut self, other: ExactSum) {
        self.add(other.high);
        self.low += other.low;
        *self = self.finite();
    }

    /// The sum, rounded.
    pub(super) fn value(self) -> f64 {
        self.high + self.low
    }

    /// The squares of the differences to the mean, of this many numbers with this sum and `squares`.
    pub(super) fn deviation(self, squares: ExactSum, count: f64) -> f64 {
        let sum = ExactSum { high: self.value(), low: (self.high - self.value()) + self.low };
        let mut of_mean = ExactSum::product(sum.high, sum.high);
        of_mean.add(2.0 * sum.high * sum.low);
        // The quotient, and that of its rest.
        let quotient = of_mean.value() / count;
        let mut rest = of_mean;
        let taken = ExactSum::product(-quotient, count);
        rest.add_sum(taken);
        let mut deviation = squares;
        deviation.add(-quotient);
        deviation.add(-rest.value() / count);
        let deviation = deviation.value();
        if deviation < 0.0 { 0.0 } else { deviation }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_sum_is_rounded_once() {
        let sum = |values: &[f64]| {
            let mut sum = ExactSum::default();
            values.iter().for_each(|value| sum.add(*value));
            sum.value()
        };
        assert_eq!(sum(&[0.1; 10]), 1.0);
        assert_eq!(sum(&[1e16, 1.0, 1.0, -1e16]), 2.0);
        assert_eq!(sum(&[f64::MAX, f64::MAX]), f64::INFINITY);
        assert_eq!(sum(&[f64::INFINITY, 1.0]), f64::INFINITY);
        assert!(sum(&[f64::INFINITY, f64::NEG_INFINITY]).is_nan());
    }

    proptest! {
        /// Sums and deviations are the same in each order, and those of parts together.
        #[test]
        fn the_order_does_not_matter(values in proptest::collection::vec(-1e9f64..1e9, 1..60), at in any::<prop::sample::Index>()) {
            let of = |values: &[f64]| {
                let (mut sum, mut squares) = (ExactSum::default(), ExactSum::default());
                for value in values {
                    sum.add(*value);
                    squares.add_sum(ExactSum::square(*value));
                }
                (sum, squares)
            };
            let (sum, squares) = of(&values);
            let mut turned = values.clone();
            turned.reverse();
            let (left, right) = turned.split_at(at.index(values.len()));
            let (mut of_parts, more) = (of(left), of(right));
            of_parts.0.add_sum(more.0);
            of_parts.1.add_sum(more.1);
            prop_assert_eq!(sum.value(), of_parts.0.value());
            let count = values.len() as f64;
            let (deviation, other) = (sum.deviation(squares, count), of_parts.0.deviation(of_parts.1, count));
            prop_assert_eq!(deviation, other);
            let mean = sum.value() / count;
            let plain: f64 = values.iter().map(|value| (value - mean) * (value - mean)).sum();
            prop_assert!((deviation - plain).abs() <= 1e-9 * plain.max(1e-9), "{} {}", deviation, plain);
        }
    }
}
