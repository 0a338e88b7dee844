//! The groups of a temporary file, merged: several threads read the parts of the file, one part at a time each.

use super::SpillStop;
use super::cells::{GroupHash, SpilledCells};
use super::groups::{Group, GroupRuns, GroupValue, PART_BITS, ValueRun, ValueWriter};
use super::part_table::PartTable;
use super::run::{ASKED_EVERY, Merged, Run, RunReader, damaged, reduce};
use super::sort::ExternalSort;
use super::source::GroupCells;
use crate::answer::accumulator::Accumulator;
use crate::answer::answer_budget::AnswerBudget;
use crate::answer::threads::threads;
use crate::spilled::SpilledBytes;
use daytable_logsql::query::Aggregate;
use daytable_platform::budget::OverBudget;
use daytable_platform::scan_scheduler::{self, ScheduledQuestion};
use std::cmp::Ordering;
use std::ops::{ControlFlow, Range};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering as Order};
use std::sync::mpsc::{RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// How much more memory a group may take than its entry in the file.
const MEMORY_OF_ENTRY: usize = 2;
/// The finest shares of a part: this many bits of a hash tell all its groups apart.
const SHARE_BITS: u32 = 40;
const SHARES: u64 = 1 << SHARE_BITS;
/// Groups that a thread passes on at once.
const GROUPS_AT_ONCE: usize = 512;
/// A thread with less memory reads parts too often.
const THREAD_BYTES_MIN: usize = 1 << 20;
/// Time between two questions whether somebody still waits for the groups.
const WAITING: Duration = Duration::from_millis(20);

/// The first groups of an order, of which others are not wanted.
#[derive(Clone, Copy)]
pub(in crate::answer) struct FirstGroups<'o> {
    /// How many.
    pub(in crate::answer) wanted: usize,
    /// The order, which tells all groups apart.
    pub(in crate::answer) order: &'o (dyn GroupOrdering + Sync),
}

/// Reads the values of a group, into the memory of others.
pub(in crate::answer) type ReadsCells<'r> = &'r mut dyn FnMut(&mut GroupCells) -> Result<(), OverBudget>;

/// An order of groups.
pub(in crate::answer) trait GroupOrdering {
    /// The order of two groups.
    fn compare(&self, one: &Group, other: &Group) -> Ordering;

    /// The order of a group with these states and another one. `read` reads its values, where the states leave it open.
    fn compare_states(
        &self,
        states: &[Accumulator],
        room: &mut GroupCells,
        read: ReadsCells<'_>,
        other: &Group,
    ) -> Result<Ordering, OverBudget>;
}

impl<'o> FirstGroups<'o> {
    /// Keeps the first groups.
    pub(in crate::answer) fn sorted(self, budget: &AnswerBudget) -> ExternalSort<'o, Group> {
        ExternalSort::new(move |a: &Group, b: &Group| self.order.compare(a, b), self.wanted, budget, "groups")
    }

    /// Whether a group may be one of the first, beside those that are kept.
    pub(in crate::answer) fn may_have(
        &self,
        kept: &ExternalSort<'_, Group>,
        states: &[Accumulator],
        room: &mut GroupCells,
        read: ReadsCells<'_>,
    ) -> Result<bool, OverBudget> {
        let Some(last) = kept.last_wanted() else { return Ok(true) };
        Ok(self.order.compare_states(states, room, read, last)?.is_lt())
    }
}

/// Passes on all groups of some runs, or at least the first ones of an order, each once and in no order.
pub(in crate::answer) fn each_merged(
    runs: GroupRuns,
    aggregates: &[Aggregate],
    first: Option<FirstGroups<'_>>,
    budget: &AnswerBudget,
    go_on: &dyn Fn() -> bool,
    each: &mut dyn FnMut(Group) -> Result<ControlFlow<()>, SpillStop>,
) -> Result<ControlFlow<()>, SpillStop> {
    let parts = runs.into_parts();
    let memory = budget.spill().memory_max() / 2;
    let threads = threads().min(parts.len()).min(memory / THREAD_BYTES_MIN).max(1);
    let merging = Merging {
        parts: &parts,
        next: AtomicUsize::new(0),
        is_over: AtomicBool::new(false),
        aggregates,
        first,
        budget,
        bytes_max: memory / threads,
    };
    let (sender, receiver) = sync_channel(threads);
    std::thread::scope(|scope| {
        for _ in 0..threads {
            let (merging, sender, question) = (&merging, sender.clone(), ScheduledQuestion::current());
            scope.spawn(move || {
                if let Err(stop) = ScheduledQuestion::in_further_thread(question, || merging.work(&sender)) {
                    // Nobody listens to a question that is over.
                    let _ = sender.send(Err(stop));
                }
            });
        }
        drop(sender);
        let mut pass_on = || loop {
            match scan_scheduler::pause(|| receiver.recv_timeout(WAITING)) {
                Ok(groups) => {
                    for group in groups? {
                        if each(group)?.is_break() {
                            return Ok(ControlFlow::Break(()));
                        }
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(ControlFlow::Continue(())),
                Err(RecvTimeoutError::Timeout) => {}
            }
            if !go_on() {
                return Err(SpillStop::Stopped);
            }
        };
        let flow = pass_on();
        merging.is_over.store(true, Order::Relaxed);
        // Whoever waits to pass groups on ends.
        drop(receiver);
        flow
    })
}

/// What the threads have in common.
struct Merging<'m> {
    parts: &'m [(Run, Vec<Run>)],
    next: AtomicUsize,
    is_over: AtomicBool,
    aggregates: &'m [Aggregate],
    first: Option<FirstGroups<'m>>,
    budget: &'m AnswerBudget,
    /// The memory of the table of each thread.
    bytes_max: usize,
}

type GroupSender = SyncSender<Result<Vec<Group>, SpillStop>>;

impl Merging<'_> {
    /// Merges one part after the other.
    fn work(&self, sender: &GroupSender) -> Result<(), SpillStop> {
        let go_on = || {
            scan_scheduler::yield_now();
            !self.is_over.load(Order::Relaxed)
        };
        let send =
            |groups: Vec<Group>| scan_scheduler::pause(|| sender.send(Ok(groups))).map_err(|_| SpillStop::Stopped);
        let mut kept = self.first.map(|first| (first, first.sorted(self.budget)));
        let (mut found, mut states, mut room) = (Vec::new(), Vec::new(), GroupCells::new());
        let mut pass_on = |group| {
            found.push(group);
            if found.len() < GROUPS_AT_ONCE { Ok(()) } else { send(std::mem::take(&mut found)) }
        };
        while let Some((part, values)) = self.parts.get(self.next.fetch_add(1, Order::Relaxed)) {
            let mut part = PartReader::new(part, values, self, &go_on)?;
            while part.read_more()? {
                part.each_group(&mut states, &mut |cells, states| {
                    if let Some((first, kept)) = &kept
                        && !first.may_have(kept, states, &mut room, &mut |room| cells.read(room))?
                    {
                        return Ok(());
                    }
                    let group = Group { values: cells.owned()?, states: std::mem::take(states) };
                    match &mut kept {
                        Some((_, kept)) => Ok(kept.push(group)?),
                        None => pass_on(group),
                    }
                })?;
            }
        }
        if let Some((_, kept)) = kept {
            kept.drain(&go_on, &mut pass_on)?;
        }
        if found.is_empty() { Ok(()) } else { send(found) }
    }
}

/// Takes the values of a group, and its states out of a list.
type EachSpilled<'e> = &'e mut dyn FnMut(SpilledCells<'_>, &mut Vec<Accumulator>) -> Result<(), SpillStop>;

/// Reads a part of the file, share by share.
struct PartReader<'m> {
    part: &'m Run,
    table: PartTable<'m>,
    /// Which of its groups are read next: by the bits behind those of the part.
    share: Range<u64>,
    /// The width of a share, if its groups take as much memory as expected.
    width: u64,
    values: Merged<'m, ValueRun>,
    /// The next value that was not counted yet.
    value: Option<GroupValue>,
    budget: &'m AnswerBudget,
    go_on: &'m dyn Fn() -> bool,
}

impl<'m> PartReader<'m> {
    fn new(
        part: &'m Run,
        values: &[Run],
        merging: &'m Merging<'_>,
        go_on: &'m dyn Fn() -> bool,
    ) -> Result<PartReader<'m>, SpillStop> {
        let (budget, spill) = (merging.budget, merging.budget.spill());
        let values_of = |runs: Vec<Run>| {
            let sources = runs.into_iter().map(|run| ValueRun::new(spill, run)).collect::<Result<_, _>>()?;
            Merged::new(sources, &GroupValue::cmp, go_on)
        };
        let values = reduce(values.to_vec(), |runs| {
            let (mut values, mut writer, mut last) = (values_of(runs)?, ValueWriter::new(spill)?, None);
            while let Some(value) = values.next()? {
                if last.replace(value) != Some(value) {
                    writer.push(value)?;
                }
            }
            Ok(writer.finish()?)
        })?;
        let mut values = values_of(values)?;
        let table = PartTable::new(merging.aggregates, budget, merging.bytes_max);
        let memory = MEMORY_OF_ENTRY as u64 * part.bytes();
        let shares = memory.div_ceil(table.bytes_max().max(1) as u64).max(1).next_power_of_two();
        let width = (SHARES / shares).max(1);
        Ok(PartReader { part, table, share: 0..width, width, value: values.next()?, values, budget, go_on })
    }

    /// Reads the next groups into memory. False at the end.
    fn read_more(&mut self) -> Result<bool, SpillStop> {
        if self.share.start == SHARES {
            self.table.clear();
            return Ok(false);
        }
        while !self.read_share()? {
            let half = (self.share.end - self.share.start) / 2;
            if half == 0 {
                return Err(self.budget.question().exhausted("groups").into());
            }
            self.share.end = self.share.start + half;
        }
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

    /// Passes on the groups in memory, whose different values were counted. These are in the order of the hashes of their
    /// groups. `states` is used on the way.
    fn each_group(&mut self, states: &mut Vec<Accumulator>, each: EachSpilled<'_>) -> Result<(), SpillStop> {
        let order = self.value.map(|_| self.table.order());
        for at in self.table.numbers() {
            let number = order.as_ref().map_or(at, |order| order[at as usize]);
            self.table.take_states(number, states);
            for (function, state) in (0u32..).zip(&mut *states) {
                if matches!(state, Accumulator::Uniq(_)) {
                    *state = Accumulator::UniqCount(self.count_values(self.table.hash(number), function)?);
                }
            }
            each(self.table.cells(number), states)?;
        }
        Ok(())
    }

    /// Counts the different values of a function of a group.
    fn count_values(&mut self, group: GroupHash, function: u32) -> Result<u64, SpillStop> {
        let mut count = 0;
        while let Some(value) = self.value.filter(|value| (value.0, value.1) == (group, function)) {
            count += 1;
            while self.value == Some(value) {
                self.value = self.values.next()?;
            }
        }
        Ok(count)
    }
}
