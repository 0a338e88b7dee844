//! Groups of the first fields of a question, by the groups of fewer fields and a value.

use super::value_numbers::{NO_NUMBER, VALUE_KINDS};
use std::collections::HashMap;

/// Groups of the first fields, each of a group of fewer fields and a value.
#[derive(Default)]
pub(super) struct GroupStep {
    /// The group of each value in the first group of the fields before, plus 1; 0 is none. A table for each kind of value:
    /// mostly one kind occurs, so the numbers of one kind lie close together.
    firsts: [Vec<u32>; VALUE_KINDS as usize],
    numbers: HashMap<u64, u32, foldhash::fast::RandomState>,
    /// Groups that were asked for lately, each at the place of its parent and value: most rows are of few groups.
    recent: Vec<(u64, u32)>,
    pub(super) parents: Vec<(u32, u32)>,
}

/// Places for groups that were asked for lately; a power of two.
const RECENT_GROUPS: usize = 512;

impl GroupStep {
    /// The group of a value in a group; [`NO_NUMBER`] if it is new and none is added.
    pub(super) fn group(&mut self, parent: u32, value: u32, adds: bool) -> u32 {
        let key = u64::from(parent) << 32 | u64::from(value);
        if parent == 0 {
            let of_kind = &self.firsts[(value % VALUE_KINDS) as usize];
            if let Some(group) = of_kind.get((value / VALUE_KINDS) as usize).and_then(|group| group.checked_sub(1)) {
                return group;
            }
            return self.add(parent, value, adds);
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

    /// Adds a group that is new.
    fn add(&mut self, parent: u32, value: u32, adds: bool) -> u32 {
        let next = u32::try_from(self.parents.len()).unwrap_or(NO_NUMBER);
        if !adds || next >= NO_NUMBER - 1 {
            return NO_NUMBER;
        }
        if parent == 0 {
            let (of_kind, at) = (&mut self.firsts[(value % VALUE_KINDS) as usize], (value / VALUE_KINDS) as usize);
            if of_kind.len() <= at {
                of_kind.resize(at + 1, 0);
            }
            of_kind[at] = next + 1;
        } else {
            self.numbers.insert(u64::from(parent) << 32 | u64::from(value), next);
        }
        self.parents.push((parent, value));
        next
    }
}

impl GroupStep {
    /// An estimate of the memory.
    pub(super) fn bytes(&self) -> usize {
        4 * self.firsts.iter().map(Vec::capacity).sum::<usize>()
            + 20 * self.numbers.capacity()
            + 8 * self.parents.capacity()
    }
}
