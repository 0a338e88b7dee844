//! Sums by group.

use super::value_numbers::NO_NUMBER;
use crate::answer::accumulator::Sum;
use daytable_logsql::number::Number;

/// The sum of each group. Mostly all numbers are whole, and all sums of 64 bits: these take a third of the memory of others.
#[derive(Default)]
pub(super) struct Sums {
    /// The sums, and of how many numbers, as long as all are such.
    whole: Vec<(i64, u32)>,
    /// All sums, once one is not.
    any: Option<Vec<Sum>>,
}

impl Sums {
    pub(super) fn resize(&mut self, groups: usize) {
        match &mut self.any {
            None => self.whole.resize(groups, (0, 0)),
            Some(sums) => sums.resize(groups, Sum::default()),
        }
    }

    /// Forgets all groups, and keeps the memory for others.
    pub(super) fn clear(&mut self) {
        self.whole.clear();
        self.any = None;
    }

    /// An estimate of the memory.
    pub(super) fn bytes(&self) -> usize {
        size_of::<(i64, u32)>() * self.whole.capacity() + size_of::<Sum>() * self.any.as_ref().map_or(0, Vec::capacity)
    }

    /// Adds a number to the sum of a group.
    #[inline]
    pub(super) fn add(&mut self, group: usize, number: Number) {
        if let (Number::Whole(number), Some((sum, count))) = (number, self.whole.get_mut(group))
            && let (Some(more), Some(one_more)) = (sum.checked_add(number), count.checked_add(1))
        {
            (*sum, *count) = (more, one_more);
            return;
        }
        self.any()[group].add(number);
    }

    /// All sums, in the form that has room for any.
    fn any(&mut self) -> &mut Vec<Sum> {
        let whole = &mut self.whole;
        self.any.get_or_insert_with(|| {
            std::mem::take(whole).into_iter().map(|(sum, count)| Sum::of_whole(sum, count.into())).collect()
        })
    }

    /// The sum of a group.
    pub(super) fn sum(&self, group: usize) -> Sum {
        match (&self.any, self.whole.get(group)) {
            (Some(sums), _) => sums[group],
            (None, Some((sum, count))) => Sum::of_whole(*sum, (*count).into()),
            (None, None) => Sum::default(),
        }
    }

    /// Adds the sums of other groups, each to the group here that `groups` has for it.
    pub(super) fn merge(&mut self, other: &Sums, groups: &[u32]) {
        for (at, group) in groups.iter().enumerate().filter(|(_, group)| **group != NO_NUMBER) {
            let group = *group as usize;
            if let (Some((sum, count)), Some((more, others))) = (self.whole.get_mut(group), other.whole.get(at))
                && let (Some(both), Some(number)) = (sum.checked_add(*more), count.checked_add(*others))
            {
                (*sum, *count) = (both, number);
                continue;
            }
            self.any()[group].merge(&other.sum(at));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// A sum is that of its numbers in whichever form it is kept, also of groups that two threads had.
        #[test]
        fn sums_are_those_of_their_numbers(
            first in prop::collection::vec((0usize..3, number()), 0..12),
            second in prop::collection::vec((0usize..3, number()), 0..12),
        ) {
            let sums_of = |numbers: &[(usize, Number)]| {
                let mut sums = Sums::default();
                sums.resize(3);
                numbers.iter().for_each(|(group, number)| sums.add(*group, *number));
                sums
            };
            let mut merged = sums_of(&first);
            // The second group of the other one has no group here.
            merged.merge(&sums_of(&second), &[2, NO_NUMBER, 0]);
            for (group, of_second) in [(0, Some(2)), (1, None), (2, Some(0))] {
                let of = |numbers: &[(usize, Number)], wanted: Option<usize>| {
                    let mut sum = Sum::default();
                    let wanted = numbers.iter().filter(|(of, _)| Some(*of) == wanted);
                    wanted.for_each(|(_, number)| sum.add(*number));
                    sum
                };
                let mut expected = of(&first, Some(group));
                expected.merge(&of(&second, of_second));
                prop_assert_eq!(merged.sum(group).value(), expected.value());
            }
        }
    }

    fn number() -> impl Strategy<Value = Number> {
        prop_oneof![
            8 => (-5i64..5).prop_map(Number::Whole),
            1 => prop_oneof![Just(i64::MAX), Just(i64::MIN)].prop_map(Number::Whole),
            1 => (-4i32..4).prop_map(|quarters| Number::Float(f64::from(quarters) / 4.0)),
        ]
    }
}
