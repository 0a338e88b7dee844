//! Groups that outgrow the memory of a question.
//!
//! A run of groups is in the order of the hashes of their values, each with the states of its functions. The different
//! values of `count_uniq` are in runs of their own, in the order of their group, function and hash, so that they are
//! counted one after the other and never all in memory.

use super::SpillStop;
use super::run::{ChargedBytes, ItemRun, Merged, Run, RunReader, RunWriter, Sorted, damaged, reduce};
use crate::answer::accumulator::{Accumulator, better_shown};
use crate::answer::answer_budget::AnswerBudget;
use crate::answer::spill_file::SpillFile;
use crate::entity::OwnedValue;
use crate::spilled::{Spilled, SpilledBytes};
use daytable_logsql::query::Aggregate;
use daytable_model::property::Property;
use daytable_platform::budget::OverBudget;
use foldhash::quality::FixedState;
use std::cmp::Ordering;
use std::hash::BuildHasher;

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
}

/// Runs of groups, and of the values of their functions.
#[derive(Clone, Debug, Default)]
pub(in crate::answer) struct GroupRuns {
    groups: Vec<Run>,
    values: Vec<Run>,
}

impl GroupRuns {
    pub(in crate::answer) fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }

    pub(in crate::answer) fn append(&mut self, mut other: GroupRuns) {
        self.groups.append(&mut other.groups);
        self.values.append(&mut other.values);
    }
}

/// A half of the hash by which groups are told apart.
fn half(values: &[Option<OwnedValue>], seed: u64) -> u64 {
    let texts: Vec<_> =
        values.iter().map(|value| value.as_ref().map(OwnedValue::as_property).map(Property::text)).collect();
    FixedState::with_seed(seed).hash_one(texts)
}

/// A group of a run.
struct SpilledGroup {
    hash: [u64; 2],
    values: GroupCells,
    states: Vec<Accumulator>,
}

impl Spilled for SpilledGroup {
    fn write(&self, to: &mut Vec<u8>) {
        self.hash.iter().for_each(|half| to.extend_from_slice(&half.to_le_bytes()));
        self.values.write(to);
        self.states.write(to);
    }

    fn read(from: &mut SpilledBytes<'_>) -> Option<SpilledGroup> {
        let hash = [u64::from_le_bytes(from.array()?), u64::from_le_bytes(from.array()?)];
        Some(SpilledGroup { hash, values: Vec::read(from)?, states: Vec::read(from)? })
    }
}

/// A value of a group: the hash of the group, the number of the function, and the hash of the value.
type GroupValue = ([u64; 2], u32, u128);

/// Writes values of groups in their order.
struct ValueWriter {
    writer: RunWriter,
    of: ([u64; 2], u32),
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
    of: ([u64; 2], u32),
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
        let mut order: Vec<(u64, u32)> =
            (0u32..).take(source.len()).map(|n| (half(&source.values(n as usize), 1), n)).collect();
        let second = |n: u32| half(&source.values(n as usize), 2);
        order.sort_unstable_by(|(a, one), (b, other)| a.cmp(b).then_with(|| second(*one).cmp(&second(*other))));
        let (mut groups, mut values) = (RunWriter::new(self)?, None);
        for (first, number) in order {
            let of = source.values(number as usize);
            let mut group =
                SpilledGroup { hash: [first, half(&of, 2)], values: of, states: source.take_states(number as usize) };
            for (function, state) in (0u32..).zip(&mut group.states) {
                let Accumulator::Uniq(hashes) = state else { continue };
                let mut hashes: Vec<u128> = std::mem::take(hashes).into_iter().collect();
                hashes.sort_unstable();
                let writer = match &mut values {
                    Some(writer) => writer,
                    None => values.insert(ValueWriter::new(self)?),
                };
                hashes.into_iter().try_for_each(|hash| writer.push((group.hash, function, hash)))?;
            }
            groups.push(|to| group.write(to))?;
        }
        let values = values.map(ValueWriter::finish).transpose()?;
        Ok(GroupRuns { groups: vec![groups.finish()?], values: values.into_iter().collect() })
    }
}

/// All groups of some runs, each once, in the order of their hashes.
pub(in crate::answer) struct MergedGroups<'q> {
    groups: CombinedGroups<'q>,
    values: Merged<'q, ValueRun>,
    /// The next value that was not counted yet.
    value: Option<GroupValue>,
}

/// The groups of runs, those with the same values as one.
struct CombinedGroups<'q> {
    merged: Merged<'q, ItemRun<SpilledGroup>>,
    next: Option<SpilledGroup>,
    aggregates: &'q [Aggregate],
    budget: &'q AnswerBudget,
}

impl<'q> CombinedGroups<'q> {
    fn new(
        runs: Vec<Run>,
        aggregates: &'q [Aggregate],
        budget: &'q AnswerBudget,
        go_on: &'q dyn Fn() -> bool,
    ) -> Result<CombinedGroups<'q>, SpillStop> {
        let sources = runs.into_iter().map(|run| ItemRun::new(budget, run)).collect::<Result<_, _>>()?;
        let mut merged = Merged::new(sources, &by_hash, go_on)?;
        Ok(CombinedGroups { next: merged.next()?, merged, aggregates, budget })
    }

    fn next(&mut self) -> Result<Option<SpilledGroup>, SpillStop> {
        let Some(mut group) = self.next.take() else { return Ok(None) };
        // A group of many runs may have long lists.
        let list_bytes = |group: &SpilledGroup| group.states.iter().map(Accumulator::list_bytes).sum::<usize>();
        let mut held = ChargedBytes::new(self.budget);
        held.add(list_bytes(&group), "values")?;
        loop {
            self.next = self.merged.next()?;
            let Some(other) = self.next.take_if(|other| other.hash == group.hash) else { break };
            held.add(list_bytes(&other), "values")?;
            for (known, value) in group.values.iter_mut().zip(&other.values) {
                better_shown(known, value.as_ref().map(OwnedValue::as_property));
            }
            for ((state, more), aggregate) in group.states.iter_mut().zip(other.states).zip(self.aggregates) {
                state.merge(more, aggregate.function);
            }
        }
        Ok(Some(group))
    }
}

fn by_hash(one: &SpilledGroup, other: &SpilledGroup) -> Ordering {
    one.hash.cmp(&other.hash)
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
        let groups = reduce(runs.groups, |runs| {
            let (mut groups, mut writer) =
                (CombinedGroups::new(runs, aggregates, budget, go_on)?, RunWriter::new(spill)?);
            while let Some(group) = groups.next()? {
                writer.push(|to| group.write(to))?;
            }
            Ok(writer.finish()?)
        })?;
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
        let groups = CombinedGroups::new(groups, aggregates, budget, go_on)?;
        Ok(MergedGroups { groups, value: values.next()?, values })
    }

    /// The next group, with the states of its functions.
    pub(in crate::answer) fn next(&mut self) -> Result<Option<(GroupCells, Vec<Accumulator>)>, SpillStop> {
        let Some(mut group) = self.groups.next()? else { return Ok(None) };
        for (function, state) in (0u32..).zip(&mut group.states) {
            if !matches!(state, Accumulator::Uniq(_)) {
                continue;
            }
            let mut count = 0;
            while let Some(value) = self.value.filter(|value| (value.0, value.1) == (group.hash, function)) {
                count += 1;
                while self.value == Some(value) {
                    self.value = self.values.next()?;
                }
            }
            *state = Accumulator::UniqCount(count);
        }
        Ok(Some((group.values, group.states)))
    }
}
