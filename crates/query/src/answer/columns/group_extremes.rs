//! The least or the greatest value of each group.

use super::value_numbers::NO_NUMBER;
use crate::answer::accumulator::add_extreme;
use crate::answer::item::value_bytes;
use crate::entity::OwnedValue;
use daytable_logsql::number::Number;
use daytable_logsql::query::Function;
use daytable_model::property::Property;
use daytable_model::time::Ticks;
use std::cmp::Ordering;

/// The least or the greatest value of each group. Mostly all values are whole numbers, or all are times: these take eight bytes each.
pub(super) struct Extremes {
    function: Function,
    /// What the numbers are; `None` before the first value.
    kind: Option<NumberKind>,
    /// As long as all values are of one kind: the numbers, [`none`](Extremes::none) of a group without a value.
    numbers: Vec<i64>,
    /// All values, once one is of another kind.
    any: Option<Vec<Option<OwnedValue>>>,
    /// The memory of their texts.
    text_bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum NumberKind {
    Whole,
    Time,
}

impl Extremes {
    /// No groups of a function, [`Function::Min`] or [`Function::Max`].
    pub(super) fn new(function: Function) -> Extremes {
        Extremes { function, kind: None, numbers: Vec::new(), any: None, text_bytes: 0 }
    }

    /// No groups of the same function.
    pub(super) fn empty(&self) -> Extremes {
        Extremes::new(self.function)
    }

    pub(super) fn resize(&mut self, groups: usize) {
        let none = self.none();
        match &mut self.any {
            None => self.numbers.resize(groups, none),
            Some(ends) => ends.resize(groups, None),
        }
    }

    /// Forgets all groups, and keeps the memory for others.
    pub(super) fn clear(&mut self) {
        self.numbers.clear();
        (self.kind, self.any, self.text_bytes) = (None, None, 0);
    }

    /// An estimate of the memory.
    pub(super) fn bytes(&self) -> usize {
        let of_any = 64 * self.any.as_ref().map_or(0, Vec::capacity);
        size_of::<i64>() * self.numbers.capacity() + of_any + self.text_bytes
    }

    /// What stands for a group without a value: the number that every other one is better than.
    fn none(&self) -> i64 {
        if self.function == Function::Min { i64::MAX } else { i64::MIN }
    }

    /// Adds a whole number to a group.
    #[inline]
    pub(super) fn add_whole(&mut self, group: usize, number: i64) {
        if !self.add_number(group, number, NumberKind::Whole) {
            self.add_any(group, Property::Int64(number));
        }
    }

    /// Adds a value to a group.
    pub(super) fn add(&mut self, group: usize, value: Property<'_>) {
        let is_added = match value {
            Property::Int64(number) => self.add_number(group, number, NumberKind::Whole),
            Property::DateTime(time) => self.add_number(group, time.get(), NumberKind::Time),
            _ => false,
        };
        if !is_added {
            self.add_any(group, value);
        }
    }

    /// Adds a number, as long as all values are of its kind.
    #[inline]
    fn add_number(&mut self, group: usize, number: i64, kind: NumberKind) -> bool {
        if *self.kind.get_or_insert(kind) != kind || number == self.none() {
            return false;
        }
        let Some(end) = self.numbers.get_mut(group) else { return false };
        *end = if self.function == Function::Min { number.min(*end) } else { number.max(*end) };
        true
    }

    fn add_any(&mut self, group: usize, value: Property<'_>) {
        if self.any.is_none() {
            let numbers = std::mem::take(&mut self.numbers);
            self.any = Some(numbers.into_iter().map(|number| self.value(number)).collect());
        }
        let Some(end) = self.any.as_mut().and_then(|ends| ends.get_mut(group)) else { return };
        // Only of numbers that are equal the texts are compared.
        let order = end.as_ref().and_then(|end| order_of_numbers(value, end.as_property()));
        let before = end.as_ref().map_or(0, value_bytes);
        match order {
            None | Some(Ordering::Equal) => add_extreme(end, self.function, value),
            Some(order) if order.is_lt() == (self.function == Function::Min) => *end = Some(value.into()),
            Some(_) => {}
        }
        self.text_bytes = self.text_bytes + end.as_ref().map_or(0, value_bytes) - before;
    }

    /// What a number stands for.
    fn value(&self, number: i64) -> Option<OwnedValue> {
        match self.kind.filter(|_| number != self.none())? {
            NumberKind::Whole => Some(OwnedValue::Int64(number)),
            NumberKind::Time => Ticks::new(number).map(OwnedValue::DateTime),
        }
    }

    /// The value of a group, which is left without one.
    pub(super) fn take(&mut self, group: usize) -> Option<OwnedValue> {
        match &mut self.any {
            Some(ends) => {
                let end = ends[group].take();
                self.text_bytes -= end.as_ref().map_or(0, value_bytes);
                end
            }
            None => {
                let none = self.none();
                let number = std::mem::replace(&mut self.numbers[group], none);
                self.value(number)
            }
        }
    }

    /// Adds the values of other groups, which are left without, each to the group here that `groups` has for it.
    pub(super) fn merge(&mut self, other: &mut Extremes, groups: &[u32]) {
        for (at, group) in groups.iter().enumerate().filter(|(_, group)| **group != NO_NUMBER) {
            if let Some(value) = other.take(at) {
                self.add(*group as usize, value.as_property());
            }
        }
    }
}

/// The order of two values that are stored as numbers.
fn order_of_numbers(one: Property<'_>, other: Property<'_>) -> Option<Ordering> {
    let is_number = |value: Property<'_>| matches!(value, Property::Int64(_) | Property::Double(_));
    if !is_number(one) || !is_number(other) {
        return None;
    }
    Number::of(one)?.partial_cmp(&Number::of(other)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn value() -> impl Strategy<Value = OwnedValue> {
        prop_oneof![
            6 => (-5i64..5).prop_map(OwnedValue::Int64),
            1 => prop_oneof![Just(i64::MAX), Just(i64::MIN)].prop_map(OwnedValue::Int64),
            1 => (0i64..5).prop_map(|ticks| OwnedValue::DateTime(Ticks::new(ticks).expect("a time"))),
            1 => prop_oneof![Just(0.5), Just(f64::NAN), Just(3.0), Just(0.0), Just(-0.0)].prop_map(OwnedValue::Double),
            1 => prop_oneof![Just("3"), Just("x"), Just("")].prop_map(|text| OwnedValue::String(text.to_owned())),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// A group has the least or the greatest of its values in whichever form these are kept, also where two threads had some.
        #[test]
        fn groups_have_the_extremes_of_their_values(
            first in prop::collection::vec((0usize..3, value()), 0..8),
            second in prop::collection::vec((0usize..3, value()), 0..8),
            is_least in any::<bool>(),
        ) {
            let function = if is_least { Function::Min } else { Function::Max };
            let extremes_of = |values: &[(usize, OwnedValue)]| {
                let mut extremes = Extremes::new(function);
                extremes.resize(3);
                for (group, value) in values {
                    match value {
                        OwnedValue::Int64(whole) => extremes.add_whole(*group, *whole),
                        other => extremes.add(*group, other.as_property()),
                    }
                }
                extremes
            };
            let mut merged = extremes_of(&first);
            // The second group of the other one has no group here.
            merged.merge(&mut extremes_of(&second), &[2, NO_NUMBER, 0]);
            for (group, of_second) in [(0, Some(2)), (1, None), (2, Some(0))] {
                let mut expected = None;
                let of_group = first.iter().filter(|(of, _)| *of == group);
                for (_, value) in of_group.chain(second.iter().filter(|(of, _)| Some(*of) == of_second)) {
                    add_extreme(&mut expected, function, value.as_property());
                }
                prop_assert_eq!(merged.take(group), expected);
                prop_assert_eq!(merged.take(group), None);
            }
        }
    }
}
