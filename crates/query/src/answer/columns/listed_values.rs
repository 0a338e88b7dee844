//! Values that pipes made of a batch, one after the other.

use super::value_numbers::ValueNumbers;
use crate::entity::OwnedValue;
use daytable_model::property::Property;
use daytable_store::page::ValueReader;
use std::ops::Range;

/// Values in the order in which they came, told apart by nothing but their place: where most come once, to find
/// those that came before takes longer than to read each.
#[derive(Default)]
pub(super) struct ListedValues {
    texts: String,
    values: Vec<ListedValue>,
}

enum ListedValue {
    /// The place of a text among the texts.
    Text(Range<usize>),
    Other(OwnedValue),
}

impl ListedValues {
    /// Adds a value. Returns its place.
    pub(super) fn push(&mut self, value: Property<'_>) -> usize {
        self.values.push(match value {
            Property::String(text) => {
                let start = self.texts.len();
                self.texts.push_str(text);
                ListedValue::Text(start..self.texts.len())
            }
            other => ListedValue::Other(other.into()),
        });
        self.values.len() - 1
    }

    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// The value at a place.
    pub(super) fn value(&self, at: usize) -> Property<'_> {
        match &self.values[at] {
            ListedValue::Text(place) => Property::String(&self.texts[place.clone()]),
            ListedValue::Other(value) => value.as_property(),
        }
    }

    /// The number that each of the values has among `numbers`, for which `is_wanted` of its place is true.
    pub(super) fn numbers(&self, is_wanted: &[bool], numbers: &mut ValueNumbers) -> Vec<Option<u32>> {
        let mut found = vec![None; self.len()];
        let wanted = || (0..self.len()).filter(|at| is_wanted[*at]);
        let text = |at: usize| match &self.values[at] {
            ListedValue::Text(place) => Some(&self.texts[place.clone()]),
            ListedValue::Other(_) => None,
        };
        let of_texts = numbers.read_texts(wanted().filter_map(text));
        let with_text = wanted().filter(|at| text(*at).is_some());
        with_text.zip(of_texts).for_each(|(at, number)| found[at] = Some(number));
        for at in wanted() {
            found[at].get_or_insert_with(|| numbers.number(self.value(at)));
        }
        found
    }

    /// An estimate of the memory.
    pub(super) fn bytes(&self) -> usize {
        self.texts.capacity() + size_of::<ListedValue>() * self.values.capacity()
    }
}
