//! Groups of a part of the file in memory, those with the same values as one.

use super::cells::{GroupHash, SpilledCells, put_better};
use super::run::{ChargedBytes, damaged};
use crate::answer::accumulator::Accumulator;
use crate::answer::answer_budget::AnswerBudget;
use crate::answer::spill_patterns::PatternNames;
use crate::spilled::{Spilled, SpilledBytes};
use daytable_logsql::query::Aggregate;
use daytable_platform::budget::OverBudget;
use hashbrown::HashTable;
use hashbrown::hash_table::Entry;
use std::ops::Range;

/// How much memory a group takes beside its values and states: its hash, its places, and slots of the table.
const GROUP_BYTES: usize = 48;
/// Memory that is charged at once.
const CHARGED_AT_ONCE: usize = 64 << 10;

/// Groups of a part of the file, those with the same values as one.
pub(super) struct PartTable<'q> {
    numbers: HashTable<u32>,
    hashes: Vec<GroupHash>,
    /// Where the values of each group are.
    cells: Vec<(usize, u32)>,
    bytes: Vec<u8>,
    patterns: PatternNames,
    /// For each function the states of all groups.
    states: Vec<StateColumn>,
    aggregates: &'q [Aggregate],
    held: ChargedBytes,
    /// Memory that is not charged yet.
    owed: usize,
    /// The memory that it may take, if it has more than one group.
    bytes_max: usize,
}

/// The states of a function, by group.
enum StateColumn {
    /// Numbers of records, as long as all states are such.
    Counts(Vec<u64>),
    States(Vec<Accumulator>),
}

impl StateColumn {
    fn push(&mut self, state: Accumulator) -> usize {
        match (&mut *self, state) {
            (StateColumn::Counts(counts), Accumulator::Count(count)) => {
                counts.push(count);
                size_of::<u64>()
            }
            (StateColumn::Counts(counts), state) => {
                let states = counts.iter().map(|count| Accumulator::Count(*count));
                *self = StateColumn::States(states.collect());
                self.push(state)
            }
            (StateColumn::States(states), state) => {
                let bytes = size_of::<Accumulator>() + state.bytes();
                states.push(state);
                bytes
            }
        }
    }

    /// Adds a state to that of a group, and returns the memory that this took.
    fn merge(&mut self, group: usize, state: Accumulator, aggregate: &Aggregate) -> usize {
        match (self, state) {
            (StateColumn::Counts(counts), Accumulator::Count(more)) => {
                counts[group] += more;
                0
            }
            // A function has states of one kind.
            (StateColumn::Counts(_), _) => 0,
            (StateColumn::States(states), state) => states[group].merge(state, aggregate.function),
        }
    }

    /// Takes the state of a group, which leaves an empty one.
    fn take(&mut self, group: usize) -> Accumulator {
        match self {
            StateColumn::Counts(counts) => Accumulator::Count(counts[group]),
            StateColumn::States(states) => std::mem::replace(&mut states[group], Accumulator::Count(0)),
        }
    }
}

impl<'q> PartTable<'q> {
    /// A table that takes so much memory of a question at most.
    pub(super) fn new(aggregates: &'q [Aggregate], budget: &AnswerBudget, bytes_max: usize) -> PartTable<'q> {
        PartTable {
            numbers: HashTable::new(),
            hashes: Vec::new(),
            cells: Vec::new(),
            bytes: Vec::new(),
            patterns: budget.spill().patterns().names(),
            states: aggregates.iter().map(|_| StateColumn::Counts(Vec::new())).collect(),
            aggregates,
            held: ChargedBytes::new(budget),
            owed: 0,
            bytes_max,
        }
    }

    /// The memory that it may take.
    pub(super) fn bytes_max(&self) -> usize {
        self.bytes_max
    }

    /// Its groups.
    pub(super) fn numbers(&self) -> Range<u32> {
        // Each was added with a number.
        0..u32::try_from(self.hashes.len()).unwrap_or(u32::MAX)
    }

    /// The hash of the values of a group.
    pub(super) fn hash(&self, number: u32) -> GroupHash {
        self.hashes[number as usize]
    }

    /// Takes the states of a group.
    pub(super) fn take_states(&mut self, number: u32, to: &mut Vec<Accumulator>) {
        to.clear();
        to.extend(self.states.iter_mut().map(|states| states.take(number as usize)));
    }

    /// The values of a group.
    pub(super) fn cells(&self, number: u32) -> SpilledCells<'_> {
        let (start, length) = self.cells[number as usize];
        SpilledCells { bytes: &self.bytes[start..start + length as usize], patterns: &self.patterns }
    }

    pub(super) fn clear(&mut self) {
        self.numbers.clear();
        self.hashes.clear();
        self.cells.clear();
        self.bytes.clear();
        self.states.iter_mut().for_each(|states| *states = StateColumn::Counts(Vec::new()));
        self.held.clear();
        self.owed = 0;
    }

    /// Adds a group of the file. False if there is no memory for further groups.
    pub(super) fn add(&mut self, hash: GroupHash, from: &mut SpilledBytes<'_>) -> Result<bool, OverBudget> {
        let cells = from.bytes().ok_or_else(damaged)?;
        // The first half tells the part and the share.
        let entry = self.numbers.entry(
            hash[1],
            |number| self.hashes[*number as usize] == hash,
            |number| self.hashes[*number as usize][1],
        );
        let states = self.states.iter_mut().zip(self.aggregates);
        match entry {
            Entry::Vacant(vacant) => {
                vacant.insert(u32::try_from(self.hashes.len()).map_err(|_| damaged())?);
                self.hashes.push(hash);
                self.cells.push((self.bytes.len(), u32::try_from(cells.len()).map_err(|_| damaged())?));
                self.bytes.extend_from_slice(cells);
                self.owed += GROUP_BYTES + cells.len();
                for (states, _) in states {
                    self.owed += states.push(Accumulator::read(from).ok_or_else(damaged)?);
                }
            }
            Entry::Occupied(known) => {
                let number = *known.get() as usize;
                for (states, aggregate) in states {
                    self.owed += states.merge(number, Accumulator::read(from).ok_or_else(damaged)?, aggregate);
                }
                self.show(number, cells)?;
            }
        }
        if self.owed >= CHARGED_AT_ONCE {
            let charged = self.held.add(std::mem::take(&mut self.owed), "groups");
            if charged.is_err() && self.hashes.len() > 1 {
                return Ok(false);
            }
            charged?;
        }
        Ok(self.held.bytes() + self.owed <= self.bytes_max || self.hashes.len() == 1)
    }

    /// Keeps of values with one text the one that is shown.
    fn show(&mut self, number: usize, others: &[u8]) -> Result<(), OverBudget> {
        let (start, length) = self.cells[number];
        if self.bytes[start..start + length as usize] == *others {
            return Ok(());
        }
        let (at, mut shown) = (self.bytes.len(), Vec::new());
        put_better(&self.bytes[start..start + length as usize], others, &mut shown);
        self.bytes.append(&mut shown);
        if self.bytes[at..] == self.bytes[start..start + length as usize] {
            self.bytes.truncate(at);
            return Ok(());
        }
        let length = self.bytes.len() - at;
        self.cells[number] = (at, u32::try_from(length).map_err(|_| damaged())?);
        self.owed += length;
        Ok(())
    }

    /// The groups in the order of their hashes.
    pub(super) fn order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = self.numbers().collect();
        order.sort_unstable_by_key(|number| self.hashes[*number as usize]);
        order
    }
}
