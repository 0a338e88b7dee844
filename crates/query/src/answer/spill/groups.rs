//! Groups that outgrow the memory of a question.
//!
//! ```text
//! groups ──► by the first bits of a hash of their values ──► parts 0 … 63 of the file, each with groups of all runs
//!                                                                └─► one part at a time in memory ──► each group once
//! ```
//!
//! Groups are told apart by 128 bits of a hash of their values. Nothing is sorted on the way to the file: a part is read into a
//! [table](super::part_table), where states of equal groups are merged. A part that is too large for the memory
//! is read several times, each time for some of its groups. [Threads](super::merged_groups) read one part each.
//!
//! The different values that `count_uniq` counts are in runs of their own, one set of runs for each part. These runs
//! are in the order of group, function and hash, so the values are counted one after the other and are never all in
//! memory.

use super::cells::{CellWriter, GroupHash};
use super::run::{Run, RunReader, RunWriter, Sorted, damaged};
use super::sort::SortItem;
use super::source::{GroupCells, GroupSource};
use crate::answer::accumulator::Accumulator;
use crate::answer::item::value_bytes;
use crate::answer::spill_file::SpillFile;
use crate::entity::OwnedValue;
use crate::spilled::{Spilled, SpilledBytes, write_bytes};
use daytable_platform::budget::OverBudget;

/// The bits of a hash that tell the part of a group.
pub(super) const PART_BITS: u32 = 6;
const PARTS: usize = 1 << PART_BITS;
/// Bytes of a part that are written at once.
const PART_BLOCK_BYTES: usize = 16 << 10;
/// Hashes of values in one entry of a run.
const HASHES_MAX: usize = 1024;

/// A group: its values, and the states of the functions.
pub(in crate::answer) struct Group {
    pub(in crate::answer) values: GroupCells,
    pub(in crate::answer) states: Vec<Accumulator>,
}

impl Spilled for Group {
    fn write(&self, to: &mut Vec<u8>) {
        self.values.write(to);
        self.states.write(to);
    }

    fn read(from: &mut SpilledBytes<'_>) -> Option<Group> {
        Some(Group { values: Spilled::read(from)?, states: Spilled::read(from)? })
    }
}

impl SortItem for Group {
    fn bytes(&self) -> usize {
        let of_value = |value: &Option<OwnedValue>| size_of::<OwnedValue>() + value.as_ref().map_or(0, value_bytes);
        let of_state = |state: &Accumulator| size_of::<Accumulator>() + state.bytes();
        size_of::<Group>()
            + self.values.iter().map(of_value).sum::<usize>()
            + self.states.iter().map(of_state).sum::<usize>()
    }
}

/// Groups in the file, and the values of their functions.
#[derive(Clone, Debug, Default)]
pub(in crate::answer) struct GroupRuns {
    /// The blocks of each part, in the order in which they were written; none before something was.
    parts: Vec<Run>,
    /// The runs with the values of the groups of each part; none where no function keeps values.
    values: Vec<Vec<Run>>,
}

impl GroupRuns {
    pub(in crate::answer) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    /// Each part, and the runs with the values of its groups.
    pub(super) fn into_parts(self) -> Vec<(Run, Vec<Run>)> {
        let values = self.values.into_iter().chain(std::iter::repeat_with(Vec::new));
        self.parts.into_iter().zip(values).collect()
    }

    pub(in crate::answer) fn append(&mut self, other: GroupRuns) {
        if self.parts.is_empty() {
            self.parts = other.parts;
        } else {
            self.parts.iter_mut().zip(other.parts).for_each(|(part, more)| part.append(more));
        }
        if self.values.is_empty() {
            self.values = other.values;
        } else {
            self.values.iter_mut().zip(other.values).for_each(|(runs, mut more)| runs.append(&mut more));
        }
    }
}

/// The part of a group.
fn part_of(hash: GroupHash) -> usize {
    (hash[0] >> (u64::BITS - PART_BITS)) as usize
}

/// A value of a group: the hash of the group, the number of the function, and the hash of the value.
pub(super) type GroupValue = (GroupHash, u32, u128);

/// Writes values of groups in their order.
pub(super) struct ValueWriter {
    writer: RunWriter,
    of: (GroupHash, u32),
    hashes: Vec<u128>,
}

impl ValueWriter {
    pub(super) fn new(spill: &SpillFile) -> Result<ValueWriter, OverBudget> {
        Ok(ValueWriter {
            writer: RunWriter::with_blocks(spill, PART_BLOCK_BYTES)?,
            of: ([0; 2], 0),
            hashes: Vec::new(),
        })
    }

    pub(super) fn push(&mut self, (group, function, hash): GroupValue) -> Result<(), OverBudget> {
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

    pub(super) fn finish(mut self) -> Result<Run, OverBudget> {
        self.flush()?;
        self.writer.finish()
    }
}

/// The values of a run.
pub(super) struct ValueRun {
    reader: RunReader,
    of: (GroupHash, u32),
    /// The hashes of the entry, the next one last.
    hashes: Vec<u128>,
}

impl ValueRun {
    pub(super) fn new(spill: &SpillFile, run: Run) -> Result<ValueRun, OverBudget> {
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
        let (mut writer, has_uniq) = (CellWriter::new(source, self.patterns()), source.has_uniq());
        // Values of groups are in the order of the groups; groups alone need none.
        let mut order: Vec<(GroupHash, u32)> = Vec::new();
        if has_uniq {
            let hashed = |n: u32| (writer.write(source, n as usize).1, n);
            order = (0u32..).take(source.len()).map(hashed).collect();
            order.sort_unstable();
        }
        let mut parts = Vec::with_capacity(PARTS);
        for _ in 0..PARTS {
            parts.push(RunWriter::with_blocks(self, PART_BLOCK_BYTES)?);
        }
        let mut values_of: Vec<Option<ValueWriter>> = (0..PARTS).map(|_| None).collect();
        // The different values of each function.
        let (mut states, mut values) = (Vec::new(), vec![Vec::new(); source.functions()]);
        for at in 0..source.len() {
            let number = order.get(at).map_or(at, |(_, number)| *number as usize);
            let (cells, hash) = writer.write(source, number);
            states.clear();
            for (function, values) in values.iter_mut().enumerate() {
                let mut state = source.take_state(number, function);
                if let Accumulator::Uniq(hashes) = &mut state {
                    values.extend(std::mem::take(hashes));
                }
                state.write(&mut states);
            }
            // Groups that differ by the types of their values alone, such as 0 and 0.0, are one, and their values one run.
            let is_last = order.get(at + 1).is_none_or(|(next, _)| *next != hash);
            for (function, values) in (0u32..).zip(&mut values).filter(|(_, values)| is_last && !values.is_empty()) {
                values.sort_unstable();
                let writer = match &mut values_of[part_of(hash)] {
                    Some(writer) => writer,
                    none => none.insert(ValueWriter::new(self)?),
                };
                values.drain(..).try_for_each(|value| writer.push((hash, function, value)))?;
            }
            parts[part_of(hash)].push(|to| {
                hash.iter().for_each(|half| to.extend_from_slice(&half.to_le_bytes()));
                write_bytes(cells, to);
                to.extend_from_slice(&states);
            })?;
        }
        let values = |writer: Option<ValueWriter>| writer.map(ValueWriter::finish).into_iter().collect();
        Ok(GroupRuns {
            values: match has_uniq {
                true => values_of.into_iter().map(values).collect::<Result<_, _>>()?,
                false => Vec::new(),
            },
            parts: parts.into_iter().map(RunWriter::finish).collect::<Result<_, _>>()?,
        })
    }
}
