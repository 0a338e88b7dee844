//! Groups in memory, as they are written to the file.

use crate::answer::accumulator::Accumulator;
use crate::entity::OwnedValue;
use daytable_model::property::Property;

/// The values of a group.
pub(in crate::answer) type GroupCells = Vec<Option<OwnedValue>>;

/// A value of a group in memory.
pub(in crate::answer) enum GroupCell<'v> {
    Value(Option<Property<'v>>),
    /// A text that cannot be packed, whatever patterns there are.
    Unpacked(&'v str),
    /// A text that is packed: the number of its pattern in its place of the group, and the key with its numbers.
    Packed(u32, u64),
}

/// Groups in memory.
pub(in crate::answer) trait GroupSource {
    /// The number of groups.
    fn len(&self) -> usize;

    /// Passes each value of a group on. `room` is for a value that has to be printed.
    fn each_value(&self, group: usize, room: &mut String, each: &mut dyn FnMut(Option<Property<'_>>));

    /// The patterns of packed texts, by their numbers, for each value of a group.
    fn patterns(&self) -> Vec<Vec<String>> {
        Vec::new()
    }

    /// Passes each value of a group on in the form in which it is kept.
    fn each_cell(&self, group: usize, each: &mut dyn FnMut(GroupCell<'_>)) {
        self.each_value(group, &mut String::new(), &mut |value| each(GroupCell::Value(value)));
    }

    /// The values of a group.
    fn values(&self, group: usize) -> GroupCells {
        let mut values = GroupCells::new();
        self.each_value(group, &mut String::new(), &mut |value| values.push(value.map(OwnedValue::from)));
        values
    }

    /// The number of functions.
    fn functions(&self) -> usize;

    /// The state of a function of a group, which is left empty.
    fn take_state(&mut self, group: usize, function: usize) -> Accumulator;

    /// Whether one of the functions keeps different values.
    fn has_uniq(&self) -> bool;
}
