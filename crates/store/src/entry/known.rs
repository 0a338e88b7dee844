//! The memory of recent entries.
//!
//! It has two generations. When the younger one is full, the older one is forgotten. What is forgotten of a stream raises
//! the *floor* of the stream: every stored entry of it that is newer than its floor is in memory. So an entry that is newer
//! than the floor, and not in memory, is new. Of a stream without a floor nothing is known.
//!
//! Entries that are not committed yet are nowhere else, so they are never forgotten ([`KnownEntries::needs_commit`]).

use daytable_model::time::Ticks;
use std::collections::{HashMap, HashSet};

type Random = foldhash::fast::RandomState;

/// Streams whose floors are known. More than these are forgotten, and asked of the store again.
const STREAMS_MAX: usize = 1 << 16;

/// Recent entries of all streams.
pub(crate) struct KnownEntries {
    young: Generation,
    old: Generation,
    floors: HashMap<u128, Ticks, Random>,
    /// Entries of a generation.
    entries_max: usize,
}

#[derive(Default)]
struct Generation {
    entries: HashSet<u128, Random>,
    /// The newest entry of each stream.
    newest: HashMap<u128, Ticks, Random>,
    has_uncommitted: bool,
}

impl KnownEntries {
    /// Nothing is known. Each of two generations has about this many entries.
    pub(crate) fn new(entries_max: usize) -> KnownEntries {
        KnownEntries {
            young: Generation::default(),
            old: Generation::default(),
            floors: HashMap::default(),
            entries_max: entries_max.max(1),
        }
    }

    fn is_full(&self) -> bool {
        self.young.entries.len() >= self.entries_max || self.young.newest.len() >= STREAMS_MAX
    }

    /// Whether entries must be committed before more can be remembered.
    pub(crate) fn needs_commit(&self) -> bool {
        self.is_full() && self.old.has_uncommitted
    }

    /// Makes room for the entries of a submission. [`KnownEntries::needs_commit`] is asked before.
    pub(crate) fn make_room(&mut self) {
        if self.is_full() && !self.old.has_uncommitted {
            let young = std::mem::take(&mut self.young);
            let forgotten = std::mem::replace(&mut self.old, young);
            self.raise_floors(forgotten);
        }
        if self.floors.len() > STREAMS_MAX {
            let (young, old) = (&self.young.newest, &self.old.newest);
            self.floors.retain(|stream, _| young.contains_key(stream) || old.contains_key(stream));
        }
        if self.floors.len() > 2 * STREAMS_MAX {
            self.floors.clear();
        }
    }

    fn raise_floors(&mut self, forgotten: Generation) {
        for (stream, newest) in forgotten.newest {
            self.floors.entry(stream).and_modify(|floor| *floor = newest.max(*floor));
        }
    }

    /// Forgets all entries, but not up to which time each stream is known, if all are committed.
    pub(crate) fn release_memory(&mut self) {
        if self.young.has_uncommitted || self.old.has_uncommitted {
            return;
        }
        for forgotten in [std::mem::take(&mut self.old), std::mem::take(&mut self.young)] {
            self.raise_floors(forgotten);
        }
        self.floors.shrink_to_fit();
    }

    /// Adds an entry; false if it was known.
    pub(crate) fn add(&mut self, entry: u128) -> bool {
        !self.old.entries.contains(&entry) && self.young.entries.insert(entry)
    }

    /// Notes the newest of the entries of a stream that were added, which are not committed yet.
    pub(crate) fn note_newest(&mut self, stream: u128, newest: Ticks) {
        self.young.has_uncommitted = true;
        let known = self.young.newest.entry(stream).or_insert(newest);
        *known = newest.max(*known);
    }

    /// The time from which on (this time itself not included) every stored entry of a stream is known.
    pub(crate) fn floor_of(&self, stream: u128) -> Option<Ticks> {
        self.floors.get(&stream).copied()
    }

    /// Notes that no entry of a stream is stored after `newest`, but for those that are known.
    pub(crate) fn set_floor(&mut self, stream: u128, newest: Ticks) {
        self.floors.insert(stream, newest);
    }

    /// All entries so far are committed.
    pub(crate) fn committed(&mut self) {
        self.young.has_uncommitted = false;
        self.old.has_uncommitted = false;
    }

    /// Forgets everything, for instance after a failed commit.
    pub(crate) fn clear(&mut self) {
        *self = KnownEntries::new(self.entries_max);
    }

    /// Forgets up to which time each stream is known: rows came that were not added here.
    pub(crate) fn forget_floors(&mut self) {
        self.floors.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// An entry that is neither in memory nor at most at its floor is new, however small the memory is and however
        /// often it is committed, forgotten and asked of the store.
        #[test]
        fn what_is_above_the_floor_is_known(
            entries in proptest::collection::vec((0..3_u128, 0..40_i64, any::<bool>()), 0..300),
            entries_max in 1..20_usize,
        ) {
            let mut known = KnownEntries::new(entries_max);
            let (mut stored, mut pending) = (BTreeSet::new(), BTreeSet::new());
            for (stream, time, commits) in entries {
                let (entry, ticks) = (stream << 64 | time as u128, Ticks::new(time).expect("in range"));
                if known.needs_commit() {
                    stored.append(&mut pending);
                    known.committed();
                }
                known.make_room();
                let is_there = stored.contains(&(stream, time)) || pending.contains(&(stream, time));
                if !known.add(entry) {
                    // A repeat is not committed again.
                    prop_assert!(is_there);
                    continue;
                }
                if known.floor_of(stream).is_some_and(|floor| ticks > floor) {
                    prop_assert!(!is_there);
                } else {
                    // What is not committed is in memory.
                    prop_assert!(!pending.contains(&(stream, time)));
                    if known.floor_of(stream).is_none() {
                        let newest = stored.iter().filter(|(of, _)| *of == stream).map(|(_, time)| *time).max();
                        known.set_floor(stream, Ticks::new(newest.unwrap_or(0)).expect("in range"));
                    }
                }
                known.note_newest(stream, ticks);
                pending.insert((stream, time));
                if commits {
                    stored.append(&mut pending);
                    known.committed();
                }
                if time % 7 == 0 {
                    known.release_memory();
                }
            }
        }
    }
}
