//! Groups of a part of the file in memory, those with the same values as one.

use super::groups::{Group, GroupCells, GroupHash};
use super::run::{ChargedBytes, damaged};
use crate::answer::accumulator::{Accumulator, better_shown};
use crate::answer::answer_budget::AnswerBudget;
use crate::entity::OwnedValue;
use crate::spilled::{Spilled, SpilledBytes};
use daytable_logsql::query::Aggregate;
use daytable_platform::budget::OverBudget;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;

/// How much memory a group takes beside its values and states.
const GROUP_BYTES: usize = 64;
/// Memory that is charged at once.
const CHARGED_AT_ONCE: usize = 64 << 10;

/// Groups of a part of the file, those with the same values as one.
pub(super) struct PartTable<'q> {
    numbers: HashMap<GroupHash, u32, foldhash::fast::RandomState>,
    hashes: Vec<GroupHash>,
    /// The values of each group, as they are in the file.
    cells: Vec<Range<usize>>,
    bytes: Vec<u8>,
    /// The states of all groups, one group after the other.
    states: Vec<Accumulator>,
    aggregates: &'q [Aggregate],
    held: ChargedBytes,
    /// Memory that is not charged yet.
    owed: usize,
    /// The memory that it may take, if it has more than one group.
    bytes_max: usize,
}

impl<'q> PartTable<'q> {
    /// A table that takes so much memory of a question at most.
    pub(super) fn new(aggregates: &'q [Aggregate], budget: &AnswerBudget, bytes_max: usize) -> PartTable<'q> {
        PartTable {
            numbers: HashMap::default(),
            hashes: Vec::new(),
            cells: Vec::new(),
            bytes: Vec::new(),
            states: Vec::new(),
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

    /// The states of a group.
    pub(super) fn states(&mut self, number: u32) -> &mut [Accumulator] {
        let functions = self.aggregates.len();
        &mut self.states[number as usize * functions..][..functions]
    }

    /// Takes a group out of it.
    pub(super) fn take(&mut self, number: u32) -> Result<Group, OverBudget> {
        let values = cells_in(&self.bytes[self.cells[number as usize].clone()])?;
        let states = self.states(number).iter_mut();
        Ok(Group { values, states: states.map(|state| std::mem::replace(state, Accumulator::Count(0))).collect() })
    }

    pub(super) fn clear(&mut self) {
        self.numbers.clear();
        self.hashes.clear();
        self.cells.clear();
        self.bytes.clear();
        self.states.clear();
        self.held.clear();
        self.owed = 0;
    }

    /// Adds a group of the file. False if there is no memory for further groups.
    pub(super) fn add(&mut self, hash: GroupHash, from: &mut SpilledBytes<'_>) -> Result<bool, OverBudget> {
        let cells = from.bytes().ok_or_else(damaged)?;
        let functions = self.aggregates.len();
        match self.numbers.entry(hash) {
            Entry::Vacant(vacant) => {
                vacant.insert(u32::try_from(self.hashes.len()).map_err(|_| damaged())?);
                self.hashes.push(hash);
                let start = self.bytes.len();
                self.bytes.extend_from_slice(cells);
                self.cells.push(start..self.bytes.len());
                self.owed += GROUP_BYTES + cells.len();
                for _ in 0..functions {
                    let state = Accumulator::read(from).ok_or_else(damaged)?;
                    self.owed += size_of::<Accumulator>() + state.bytes();
                    self.states.push(state);
                }
            }
            Entry::Occupied(known) => {
                let number = *known.get() as usize;
                let known = &mut self.cells[number];
                if self.bytes[known.clone()] != *cells {
                    // Of values with one text, the one that is shown.
                    let mut shown = cells_in(&self.bytes[known.clone()])?;
                    for (shown, other) in shown.iter_mut().zip(&cells_in(cells)?) {
                        better_shown(shown, other.as_ref().map(OwnedValue::as_property));
                    }
                    let start = self.bytes.len();
                    shown.write(&mut self.bytes);
                    if self.bytes[start..] == self.bytes[known.clone()] {
                        self.bytes.truncate(start);
                    } else {
                        *known = start..self.bytes.len();
                        self.owed += known.len();
                    }
                }
                let states = &mut self.states[number * functions..][..functions];
                for (state, aggregate) in states.iter_mut().zip(self.aggregates) {
                    self.owed += state.merge(Accumulator::read(from).ok_or_else(damaged)?, aggregate.function);
                }
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

    /// The groups in the order of their hashes.
    pub(super) fn order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = self.numbers().collect();
        order.sort_unstable_by_key(|number| self.hashes[*number as usize]);
        order
    }
}

fn cells_in(bytes: &[u8]) -> Result<GroupCells, OverBudget> {
    GroupCells::read(&mut SpilledBytes::new(bytes)).ok_or_else(damaged)
}
