//! Groups of the first fields of a question, by the groups of fewer fields and a value.

use super::value_numbers::{NO_NUMBER, VALUE_KINDS};
use std::collections::HashMap;

/// Groups of the first fields, each of a group of fewer fields and a value.
#[derive(Default)]
pub(super) struct GroupStep {
    /// The group of each value in the first group of the fields before. A table for each kind of value: mostly one kind occurs,
    /// so the numbers of one kind lie close together.
    firsts: [FirstGroups; VALUE_KINDS as usize],
    /// That of an absent value, plus 1; 0 is none.
    absent: u32,
    numbers: HashMap<u64, u32, foldhash::fast::RandomState>,
    /// Groups that were asked for lately, each at the place of its parent and value: most rows are of few groups.
    recent: Vec<(u64, u32)>,
    /// The value of each group.
    values: Vec<u32>,
    /// Its group of fewer fields; empty while that is the first one of all.
    parents: Vec<u32>,
}

/// The groups of values of one kind, by the place of the value. Mostly values are numbered as they come, and so are groups, so a
/// group follows from the place alone.
#[derive(Default)]
struct FirstGroups {
    /// The group of the first value.
    first: u32,
    /// Values that have groups in a row from there on.
    in_a_row: u32,
    /// The groups of the values behind them, plus 1; 0 is none.
    others: Vec<u32>,
}

impl FirstGroups {
    #[inline]
    fn group(&self, place: u32) -> Option<u32> {
        match place.checked_sub(self.in_a_row) {
            None => Some(self.first + place),
            Some(place) => self.others.get(place as usize).and_then(|group| group.checked_sub(1)),
        }
    }

    fn add(&mut self, place: u32, group: u32) {
        if place == 0 && self.in_a_row == 0 {
            self.first = group;
        }
        if place == self.in_a_row && self.others.is_empty() && group == self.first + place {
            self.in_a_row += 1;
            return;
        }
        let at = (place - self.in_a_row) as usize;
        if self.others.len() <= at {
            self.others.resize(at + 1, 0);
        }
        self.others[at] = group + 1;
    }

    fn reset(&mut self) {
        self.in_a_row = 0;
        self.others.clear();
    }
}

/// Places for groups that were asked for lately; a power of two.
const RECENT_GROUPS: usize = 512;

impl GroupStep {
    /// The group of a value in a group; [`NO_NUMBER`] if it is new and none is added.
    pub(super) fn group(&mut self, parent: u32, value: u32, adds: bool) -> u32 {
        let key = u64::from(parent) << 32 | u64::from(value);
        if parent == 0 {
            let known = match value.checked_sub(1) {
                None => self.absent.checked_sub(1),
                Some(value) => self.firsts[(value % VALUE_KINDS) as usize].group(value / VALUE_KINDS),
            };
            return known.unwrap_or_else(|| self.add(parent, value, adds));
        }
        let at = (parent.wrapping_mul(0x9e37_79b1) >> 20 ^ value) as usize % RECENT_GROUPS;
        if let Some((_, group)) = self.recent.get(at).filter(|(recent, _)| *recent == key) {
            return *group;
        }
        let group = match self.numbers.get(&key) {
            Some(group) => *group,
            None => self.add(parent, value, adds),
        };
        if group != NO_NUMBER {
            // A parent is above 0, so no key is 0.
            self.recent.resize(RECENT_GROUPS, (0, NO_NUMBER));
            self.recent[at] = (key, group);
        }
        group
    }

    /// The number of groups.
    pub(super) fn len(&self) -> usize {
        self.values.len()
    }

    /// The group of fewer fields and the value that make a group.
    pub(super) fn parts(&self, group: usize) -> (u32, u32) {
        (self.parents.get(group).copied().unwrap_or(0), self.values[group])
    }

    /// The parts of each group.
    pub(super) fn all_parts(&self) -> impl Iterator<Item = (u32, u32)> {
        (0..self.len()).map(|group| self.parts(group))
    }

    /// Adds a group that is new.
    fn add(&mut self, parent: u32, value: u32, adds: bool) -> u32 {
        let next = u32::try_from(self.values.len()).unwrap_or(NO_NUMBER);
        if !adds || next >= NO_NUMBER - 1 {
            return NO_NUMBER;
        }
        if parent == 0 {
            match value.checked_sub(1) {
                None => self.absent = next + 1,
                Some(value) => self.firsts[(value % VALUE_KINDS) as usize].add(value / VALUE_KINDS, next),
            }
        } else {
            self.numbers.insert(u64::from(parent) << 32 | u64::from(value), next);
            self.parents.resize(self.values.len(), 0);
        }
        self.values.push(value);
        if parent != 0 || !self.parents.is_empty() {
            self.parents.push(parent);
        }
        next
    }
}

impl GroupStep {
    /// Forgets all groups, and keeps the memory for others.
    pub(super) fn reset(&mut self) {
        self.firsts.iter_mut().for_each(FirstGroups::reset);
        self.absent = 0;
        self.numbers.clear();
        self.recent.clear();
        self.values.clear();
        self.parents.clear();
    }

    /// An estimate of the memory.
    pub(super) fn bytes(&self) -> usize {
        4 * self.firsts.iter().map(|firsts| firsts.others.capacity()).sum::<usize>()
            + 20 * self.numbers.capacity()
            + 4 * (self.values.capacity() + self.parents.capacity())
    }
}
