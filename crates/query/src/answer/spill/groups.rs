//! Groups that outgrow the memory of a question.
//!
//! ```text
//! groups ──► by the first bits of a hash of their values ──► parts 0 … 63 of the file, each with groups of all runs
//!                                                                └─► one part at a time in memory ──► each group once
//! ```
//!
//! Groups are told apart by 128 bits of a hash of their values. Nothing is sorted on the way to the file: a part is read into a
//! table, where states of equal groups are merged, and comes out in the order of the hashes. A part that is too large for the memory
//! is read several times, each time for some of its groups.
//!
//! The different values of `count_uniq` are in runs of their own, in the order of their group, function and hash, so that they are
//! counted one after the other and never all in memory.

use super::SpillStop;
use super::run::{ASKED_EVERY, ChargedBytes, Merged, Run, RunReader, RunWriter, Sorted, damaged, reduce};
use crate::answer::accumulator::{Accumulator, better_shown};
use crate::answer::answer_budget::AnswerBudget;
use crate::answer::spill_file::SpillFile;
use crate::entity::OwnedValue;
use crate::spilled::{Spilled, SpilledBytes, write_bytes};
use daytable_logsql::query::Aggregate;
use daytable_model::property::Property;
use daytable_platform::budget::OverBudget;
use foldhash::quality::FixedState;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::BuildHasher;
use std::ops::Range;

/// The bits of a hash that tell the part of a group.
const PART_BITS: u32 = 6;
const PARTS: usize = 1 << PART_BITS;
/// Bytes of a part that are written at once.
const PART_BLOCK_BYTES: usize = 16 << 10;
/// How much memory a group takes beside its values and states, and how much more all of it may take than its entry in the file.
const GROUP_BYTES: usize = 64;
const MEMORY_OF_ENTRY: usize = 4;
/// Hashes of values in one entry of a run.
const HASHES_MAX: usize = 1024;

/// The values of a group.
pub(in crate::answer) type GroupCells = Vec<Option<OwnedValue>>;

/// Groups in memory.
pub(in crate::answer) trait GroupSource {
    /// The number of groups.
    fn len(&self) -> usize;

    /// The values of a group.
    fn values(&self, group: usize) -> GroupCells;

    /// The states of the functions of a group, which are left empty.
    fn take_states(&mut self, group: usize) -> Vec<Accumulator>;

    /// Whether one of the functions keeps different values.
    fn has_uniq(&self) -> bool;
}

/// Groups in the file, and the values of their functions.
#[derive(Clone, Debug, Default)]
pub(in crate::answer) struct GroupRuns {
    /// The blocks of each part, in the order in which they were written; none before something was.
    parts: Vec<Run>,
    values: Vec<Run>,
}

impl GroupRuns {
    pub(in crate::answer) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    pub(in crate::answer) fn append(&mut self, mut other: GroupRuns) {
        if self.parts.is_empty() {
            self.parts = other.parts;
        } else {
            self.parts.iter_mut().zip(other.parts).for_each(|(part, more)| part.append(more));
        }
        self.values.append(&mut other.values);
    }
}

/// The hash by which groups are told apart.
type GroupHash = [u64; 2];

/// The hash of the texts of some values. `room` is used on the way.
fn hash_of(values: &[Option<OwnedValue>], room: &mut Vec<u8>) -> GroupHash {
    room.clear();
    for value in values {
        match value.as_ref().map(OwnedValue::as_property).map(Property::text) {
            Some(text) => {
                room.extend_from_slice(&(text.len() as u64 + 1).to_le_bytes());
                room.extend_from_slice(text.as_bytes());
            }
            None => room.extend_from_slice(&0u64.to_le_bytes()),
        }
    }
    [1, 2].map(|seed| FixedState::with_seed(seed).hash_one(room.as_slice()))
}

/// The part of a group.
fn part_of(hash: GroupHash) -> usize {
    (hash[0] >> (u64::BITS - PART_BITS)) as usize
}

/// A value of a group: the hash of the group, the number of the function, and the hash of the value.
type GroupValue = (GroupHash, u32, u128);

/// Writes values of groups in their order.
struct ValueWriter {
    writer: RunWriter,
    of: (GroupHash, u32),
    hashes: Vec<u128>,
}

impl ValueWriter {
    fn new(spill: &SpillFile) -> Result<ValueWriter, OverBudget> {
        Ok(ValueWriter { writer: RunWriter::new(spill)?, of: ([0; 2], 0), hashes: Vec::new() })
    }

    fn push(&mut self, (group, function, hash): GroupValue) -> Result<(), OverBudget> {
        if self.of != (group, function) || self.hashes.len() == HASHES_MAX {
            self.flush()?;
            self.of = (group, function);
        }
        self.hashes.push(hash);
        Ok(())
    }

    fn flush(&mut self) -> Result<(), OverBudget> {
        if self.hashes.is_empty() {
            return Ok(());
        }
        let ((group, function), hashes) = (self.of, &mut self.hashes);
        self.writer.push(|to| {
            group.iter().for_each(|half| to.extend_from_slice(&half.to_le_bytes()));
            to.extend_from_slice(&function.to_le_bytes());
            hashes.drain(..).for_each(|hash| to.extend_from_slice(&hash.to_le_bytes()));
        })
    }

    fn finish(mut self) -> Result<Run, OverBudget> {
        self.flush()?;
        self.writer.finish()
    }
}

/// The values of a run.
struct ValueRun {
    reader: RunReader,
    of: (GroupHash, u32),
    /// The hashes of the entry, the next one last.
    hashes: Vec<u128>,
}

impl ValueRun {
    fn new(spill: &SpillFile, run: Run) -> Result<ValueRun, OverBudget> {
        Ok(ValueRun { reader: RunReader::new(spill, run)?, of: ([0; 2], 0), hashes: Vec::new() })
    }
}

impl Sorted for ValueRun {
    type Item = GroupValue;

    fn next(&mut self) -> Result<Option<GroupValue>, OverBudget> {
        if self.hashes.is_empty() {
            let Some(bytes) = self.reader.next()? else { return Ok(None) };
            let mut from = SpilledBytes::new(bytes);
            let mut read = || {
                let group = [u64::from_le_bytes(from.array()?), u64::from_le_bytes(from.array()?)];
                let function = u32::from_le_bytes(from.array()?);
                while let Some(hash) = from.array() {
                    self.hashes.push(u128::from_le_bytes(hash));
                }
                Some((group, function))
            };
            self.of = read().ok_or_else(damaged)?;
            self.hashes.reverse();
        }
        Ok(self.hashes.pop().map(|hash| (self.of.0, self.of.1, hash)))
    }
}

impl SpillFile {
    /// Writes groups to the file.
    pub(in crate::answer) fn write_groups(&self, source: &mut impl GroupSource) -> Result<GroupRuns, OverBudget> {
        let mut room = Vec::new();
        // Values of groups are in the order of the groups; groups alone need none.
        let mut order: Vec<(GroupHash, u32)> = Vec::new();
        if source.has_uniq() {
            let hashed = |n: u32| (hash_of(&source.values(n as usize), &mut room), n);
            order = (0u32..).take(source.len()).map(hashed).collect();
            order.sort_unstable();
        }
        let mut parts = Vec::with_capacity(PARTS);
        for _ in 0..PARTS {
            parts.push(RunWriter::with_blocks(self, PART_BLOCK_BYTES)?);
        }
        let mut values = None;
        for at in 0..source.len() {
            let number = order.get(at).map_or(at, |(_, number)| *number as usize);
            let (cells, mut states) = (source.values(number), source.take_states(number));
            let hash = hash_of(&cells, &mut room);
            for (function, state) in (0u32..).zip(&mut states) {
                let Accumulator::Uniq(hashes) = state else { continue };
                let mut hashes: Vec<u128> = std::mem::take(hashes).into_iter().collect();
                hashes.sort_unstable();
                let writer = match &mut values {
                    Some(writer) => writer,
                    None => values.insert(ValueWriter::new(self)?),
                };
                hashes.into_iter().try_for_each(|value| writer.push((hash, function, value)))?;
            }
            parts[part_of(hash)].push(|to| {
                hash.iter().for_each(|half| to.extend_from_slice(&half.to_le_bytes()));
                room.clear();
                cells.write(&mut room);
                write_bytes(&room, to);
                states.iter().for_each(|state| state.write(to));
            })?;
        }
        let values = values.map(ValueWriter::finish).transpose()?;
        Ok(GroupRuns {
            parts: parts.into_iter().map(RunWriter::finish).collect::<Result<_, _>>()?,
            values: values.into_iter().collect(),
        })
    }
}

/// All groups of some runs, each once, in the order of their hashes.
pub(in crate::answer) struct MergedGroups<'q> {
    parts: std::vec::IntoIter<Run>,
    /// The groups that are in memory, and those of them that were not passed on yet.
    table: PartTable<'q>,
    left: std::vec::IntoIter<u32>,
    /// The part of the table, and which of its groups are read next: by the bits behind those of the part.
    part: Run,
    share: Range<u64>,
    /// The width of a share of the part, if its groups take as much memory as expected.
    width: u64,
    values: Merged<'q, ValueRun>,
    /// The next value that was not counted yet.
    value: Option<GroupValue>,
    budget: &'q AnswerBudget,
    go_on: &'q dyn Fn() -> bool,
}

/// Groups of a part of the file, those with the same values as one.
struct PartTable<'q> {
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

/// The finest shares of a part: so many bits of a hash tell all its groups apart.
const SHARE_BITS: u32 = 40;
const SHARES: u64 = 1 << SHARE_BITS;

/// Memory that is charged at once.
const CHARGED_AT_ONCE: usize = 64 << 10;

impl PartTable<'_> {
    fn clear(&mut self) {
        self.numbers.clear();
        self.hashes.clear();
        self.cells.clear();
        self.bytes.clear();
        self.states.clear();
        self.held.clear();
        self.owed = 0;
    }

    /// Adds a group of the file. False if there is no memory for further groups.
    fn add(&mut self, hash: GroupHash, from: &mut SpilledBytes<'_>) -> Result<bool, OverBudget> {
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

    /// Takes a group out of it.
    fn take(&mut self, number: u32) -> Result<(GroupHash, GroupCells, Vec<Accumulator>), OverBudget> {
        let (at, functions) = (number as usize, self.aggregates.len());
        let states = self.states[at * functions..][..functions].iter_mut();
        let states = states.map(|state| std::mem::replace(state, Accumulator::Count(0))).collect();
        Ok((self.hashes[at], cells_in(&self.bytes[self.cells[at].clone()])?, states))
    }

    /// The groups in the order of their hashes.
    fn order(&self) -> Vec<u32> {
        let mut order: Vec<u32> = (0u32..).take(self.hashes.len()).collect();
        order.sort_unstable_by_key(|number| self.hashes[*number as usize]);
        order
    }
}

fn cells_in(bytes: &[u8]) -> Result<GroupCells, OverBudget> {
    GroupCells::read(&mut SpilledBytes::new(bytes)).ok_or_else(damaged)
}

impl<'q> MergedGroups<'q> {
    /// The groups of all runs.
    pub(in crate::answer) fn new(
        runs: GroupRuns,
        aggregates: &'q [Aggregate],
        budget: &'q AnswerBudget,
        go_on: &'q dyn Fn() -> bool,
    ) -> Result<MergedGroups<'q>, SpillStop> {
        let spill = budget.spill();
        let values_of = |runs: Vec<Run>| {
            let sources = runs.into_iter().map(|run| ValueRun::new(spill, run)).collect::<Result<_, _>>()?;
            Merged::new(sources, &GroupValue::cmp, go_on)
        };
        let values = reduce(runs.values, |runs| {
            let (mut values, mut writer, mut last) = (values_of(runs)?, ValueWriter::new(spill)?, None);
            while let Some(value) = values.next()? {
                if last.replace(value) != Some(value) {
                    writer.push(value)?;
                }
            }
            Ok(writer.finish()?)
        })?;
        let mut values = values_of(values)?;
        let table = PartTable {
            numbers: HashMap::default(),
            hashes: Vec::new(),
            cells: Vec::new(),
            bytes: Vec::new(),
            states: Vec::new(),
            aggregates,
            held: ChargedBytes::new(budget),
            owed: 0,
            bytes_max: spill.memory_max() / 2,
        };
        Ok(MergedGroups {
            parts: runs.parts.into_iter(),
            table,
            left: Vec::new().into_iter(),
            part: Run::default(),
            share: SHARES..SHARES,
            width: SHARES,
            value: values.next()?,
            values,
            budget,
            go_on,
        })
    }

    /// Reads the next groups into memory. False at the end.
    fn read_more(&mut self) -> Result<bool, SpillStop> {
        if self.share.start == SHARES {
            let Some(part) = self.parts.next() else { return Ok(false) };
            let memory = MEMORY_OF_ENTRY as u64 * part.bytes();
            let shares = memory.div_ceil(self.table.bytes_max as u64).max(1).next_power_of_two();
            self.width = (SHARES / shares).max(1);
            (self.part, self.share) = (part, 0..self.width);
        }
        while !self.read_share()? {
            let half = (self.share.end - self.share.start) / 2;
            if half == 0 {
                return Err(self.budget.question().exhausted("groups").into());
            }
            self.share.end = self.share.start + half;
        }
        self.left = self.table.order().into_iter();
        // Behind a group that needed a small share, shares become wide again: each of them is a reading of the part.
        let (start, read) = (self.share.end, self.share.end - self.share.start);
        let next = if read < self.width && start.is_multiple_of(2 * read) { 2 * read } else { read };
        self.share = start..start + next;
        Ok(true)
    }

    /// Reads the next share of the part into memory. False if there is not enough of it.
    fn read_share(&mut self) -> Result<bool, SpillStop> {
        self.table.clear();
        let mut reader = RunReader::new(self.budget.spill(), self.part.clone())?;
        let mut since = 0u32;
        while let Some(entry) = reader.next()? {
            since += 1;
            if since.is_multiple_of(ASKED_EVERY) && !(self.go_on)() {
                return Err(SpillStop::Stopped);
            }
            let mut from = SpilledBytes::new(entry);
            let mut half = || from.array().map(u64::from_le_bytes).ok_or_else(damaged);
            let hash = [half()?, half()?];
            let share = (hash[0] << PART_BITS) >> (u64::BITS - SHARE_BITS);
            if self.share.contains(&share) && !self.table.add(hash, &mut from)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// The next group, with the states of its functions.
    pub(in crate::answer) fn next(&mut self) -> Result<Option<(GroupCells, Vec<Accumulator>)>, SpillStop> {
        let number = loop {
            match self.left.next() {
                Some(number) => break number,
                None if self.read_more()? => {}
                None => {
                    self.table.clear();
                    return Ok(None);
                }
            }
        };
        let (hash, cells, mut states) = self.table.take(number)?;
        for (function, state) in (0u32..).zip(&mut states) {
            if !matches!(state, Accumulator::Uniq(_)) {
                continue;
            }
            let mut count = 0;
            while let Some(value) = self.value.filter(|value| (value.0, value.1) == (hash, function)) {
                count += 1;
                while self.value == Some(value) {
                    self.value = self.values.next()?;
                }
            }
            *state = Accumulator::UniqCount(count);
        }
        Ok(Some((cells, states)))
    }
}
