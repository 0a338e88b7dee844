//! The different values of groups, by their hashes.

use super::value_numbers::NO_NUMBER;
use crate::answer::accumulator::{UniqHashes, uniq_bytes};

/// Different values whose table takes a megabyte. Where tables are small, few of many become full at once.
const LARGE_TABLE: usize = 50_000;

/// The hashes of the different values of each group.
#[derive(Default)]
pub(super) struct DifferentValues {
    hashes: Vec<UniqHashes>,
    /// The memory of the hashes.
    bytes: usize,
    /// How many there are.
    values: usize,
    /// The groups with large tables.
    large: Vec<usize>,
}

impl DifferentValues {
    pub(super) fn resize(&mut self, groups: usize) {
        self.hashes.resize_with(groups, UniqHashes::default);
    }

    /// How many different values all groups have.
    pub(super) fn values(&self) -> usize {
        self.values
    }

    /// An estimate of the memory.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The memory that this many values may take at once: a table that becomes full is copied to one twice as large.
    pub(super) fn growth(&self, values: usize) -> usize {
        let of_group = |group: &usize| {
            let hashes = &self.hashes[*group];
            let may_be_full = hashes.capacity() - hashes.len() < values;
            if may_be_full { 2 * uniq_bytes(hashes) } else { 0 }
        };
        self.large.iter().map(of_group).sum()
    }

    /// Adds a value to a group, by its hash, unless the group has this many.
    #[inline]
    pub(super) fn add(&mut self, group: usize, hash: u128, limit: Option<u64>) {
        let hashes = &mut self.hashes[group];
        let (count, before) = (hashes.len(), uniq_bytes(hashes));
        if limit.is_some_and(|limit| count as u64 >= limit) {
            return;
        }
        let is_new = hashes.insert(hash);
        // The table may grow before it is known that the value is in it.
        self.bytes += uniq_bytes(hashes) - before;
        self.values += usize::from(is_new);
        if is_new && count == LARGE_TABLE {
            self.large.push(group);
        }
    }

    /// The values of a group, which is left without any.
    pub(super) fn take(&mut self, group: usize) -> UniqHashes {
        let hashes = std::mem::take(&mut self.hashes[group]);
        self.bytes -= uniq_bytes(&hashes);
        self.values -= hashes.len();
        hashes
    }

    /// Adds the values of other groups, which are left without, each to the group here that `groups` has for it.
    pub(super) fn merge(&mut self, other: &mut DifferentValues, groups: &[u32]) {
        for (at, group) in groups.iter().enumerate().filter(|(_, group)| **group != NO_NUMBER) {
            let group = *group as usize;
            let (mut all, mut more) = (self.take(group), other.take(at));
            if all.len() < more.len() {
                std::mem::swap(&mut all, &mut more);
            }
            all.extend(more);
            self.bytes += uniq_bytes(&all);
            self.values += all.len();
            if all.len() > LARGE_TABLE && !self.large.contains(&group) {
                self.large.push(group);
            }
            self.hashes[group] = all;
        }
    }
}
