//! Passes every record of a table once, as columns, unordered, in several threads.
//!
//! A walk is planned in one snapshot: the pages and row groups that overlap the range. Each thread has its own state,
//! and receives one task after the other. Files that are removed meanwhile stay readable, because they are open.
//!
//! A walk may take long, and a snapshot may not ([`SnapshotTimes`](super::SnapshotTimes)). So the walk *renews* its
//! snapshots: the threads pause, a new snapshot is begun beside the first one, planned pages that are in the first one
//! alone (compaction merged them) are read, and then the old snapshots end. Pages that came meanwhile are not planned,
//! so each row is passed once.
//!
//! A shared page is one task, with rows of many partitions.
//!
//! Pages may overlap, and files of a day may have the same row. Of equal keys, the row of the later commit and the
//! later generation wins. So the keys of a page are compared with those of later pages that may have one of them
//! (`overlaps`). If these are too many, the walk is refused, and its caller reads rows.

mod filter;
mod part;
mod plan;
mod walker;

pub use filter::{ColumnTest, EveryPart, NeedsKeys, PartFilter, RecordNumbers, RowsOf};
pub use part::{CountedRecords, Part, PartVisitor};

use super::{OpenDayFile, Range, Reader, SnapshotTimes, begin, end};
use crate::StoreError;
use crate::format::catalog::LiveFile;
use crate::format::page_rows::PageRow;
use crate::format::sealed::SealedFile;
use daytable_model::key::DayTable;
use daytable_platform::lock;
use daytable_platform::scan_scheduler::{self, ScheduledQuestion};
use plan::{Connections, Task, WalkPlan, WalkQuestion};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};
use walker::Walker;

/// Tasks that a thread receives at once. With fewer tasks, there is one thread.
const TASKS_AT_ONCE: usize = 16;

/// Time between two checks whether a walk is to go on.
const ASKED_EVERY: Duration = Duration::from_millis(20);

/// The shared state of a walk's threads.
struct Shared {
    next: AtomicUsize,
    /// Tasks that were received and not begun, because the threads paused.
    put_back: Mutex<Vec<usize>>,
    /// Tasks that were done out of their order, when the snapshots were renewed.
    done: HashSet<usize>,
    is_over: AtomicBool,
    /// Whether the threads pause, so that the snapshots are renewed.
    is_pausing: AtomicBool,
    /// When the snapshots are renewed.
    renewal: Option<Renewal>,
    /// Pages that are missing in a thread's snapshot, because compaction merged them.
    left: Mutex<Vec<usize>>,
    error: Mutex<Option<StoreError>>,
}

/// When the snapshots of a walk are renewed.
#[derive(Clone, Copy)]
struct Renewal {
    since: Instant,
    /// The time from one renewal to the next, at least.
    least: Duration,
}

impl Renewal {
    /// Renewals take a small part of the time of a walk.
    const SHARE: u32 = 8;

    /// The renewal after one that took so long.
    fn after(took: Duration, times: SnapshotTimes) -> Renewal {
        let least = times.of_long_journal.max((Renewal::SHARE * took).min(times.usual));
        Renewal { since: Instant::now(), least }
    }

    fn is_due(self, walker: &Walker<'_>) -> bool {
        let age = self.since.elapsed();
        age > self.least && walker.connections.iter().flatten().any(|opened| age > opened.snapshot_max())
    }
}

impl Shared {
    /// The next tasks, after those that were put back; none if all are taken.
    fn take(&self, tasks: &[Task]) -> Vec<usize> {
        let mut put_back = lock(&self.put_back);
        if !put_back.is_empty() {
            let from = put_back.len().saturating_sub(TASKS_AT_ONCE);
            return put_back.drain(from..).rev().collect();
        }
        drop(put_back);
        let from = self.next.load(Ordering::Relaxed);
        // A row group has as many rows as many pages.
        let step = if matches!(tasks.get(from), Some(Task::Group { .. })) { 1 } else { TASKS_AT_ONCE };
        let from = self.next.fetch_add(step, Ordering::Relaxed).min(tasks.len());
        (from..tasks.len().min(from + step)).collect()
    }
}

impl Reader {
    /// Passes the parts of a table with records of `range` to a visitor, in at most `threads` threads. `None` if too many rows
    /// overlap: then the caller reads rows. The text and level of the range are ignored. The calling thread calls
    /// `go_on` repeatedly; false ends the walk early.
    ///
    /// # Errors
    ///
    /// [`StoreError::TableGone`] if the table is gone, or a damaged file.
    pub fn walk<V: PartVisitor>(
        &self,
        table: &DayTable,
        range: &Range,
        threads: usize,
        go_on: &dyn Fn() -> bool,
        visitor: &V,
    ) -> Result<Option<Vec<V::State>>, StoreError> {
        let opened = self.with_files(table, |live| {
            let mut state = visitor.start();
            let mut take = |rows: RowsOf<'_>, numbers: RecordNumbers<'_>| visitor.count(&mut state, rows, numbers);
            let planned = WalkPlan::of_files(self, live, question(range, visitor), &mut take)?;
            let Some((plan, first)) = planned else { return Ok(None) };
            let connections =
                self.connect(live, first, threads.min(plan.tasks.len() / TASKS_AT_ONCE + plan.groups()))?;
            Ok(Some((plan, state, connections)))
        })?;
        let Some((plan, state, connections)) = opened else { return Ok(None) };
        let (result, connections) = run(&plan, Some(self), connections, state, go_on, visitor);
        connections.into_iter().flatten().flatten().for_each(|opened| self.release(opened));
        result.map(Some)
    }

    /// The connections of this many threads, beside those of the first one.
    fn connect(&self, live: &[LiveFile], first: Connections, threads: usize) -> Result<Vec<Connections>, StoreError> {
        let mut connections = vec![first];
        for _ in 1..threads {
            let open = |(file, first): (&LiveFile, &Option<OpenDayFile>)| match first {
                None => Ok(None),
                Some(_) => {
                    let opened = self.acquire(file)?;
                    begin(&opened)?;
                    Ok(Some(opened))
                }
            };
            let more = live.iter().zip(&connections[0]).map(open).collect::<Result<_, StoreError>>()?;
            connections.push(more);
        }
        Ok(connections)
    }
}

impl SealedFile {
    /// Passes the parts of the file with records of `range` to a visitor, as [`Reader::walk`] does.
    ///
    /// # Errors
    ///
    /// A damaged or unreadable file.
    pub fn walk<V: PartVisitor>(
        &self,
        range: &Range,
        threads: usize,
        go_on: &dyn Fn() -> bool,
        visitor: &V,
    ) -> Result<Vec<V::State>, StoreError> {
        let mut state = visitor.start();
        let mut take = |rows: RowsOf<'_>, numbers: RecordNumbers<'_>| visitor.count(&mut state, rows, numbers);
        let plan = WalkPlan::of_sealed(self, question(range, visitor), &mut take);
        let threads = threads.clamp(1, plan.groups().max(1));
        run(&plan, None, (0..threads).map(|_| vec![None]).collect(), state, go_on, visitor).0
    }
}

/// What a visitor asks of a walk.
fn question<'w, V: PartVisitor>(range: &'w Range, visitor: &'w V) -> WalkQuestion<'w> {
    WalkQuestion {
        range,
        filter: visitor.filter(),
        counted: visitor.counted_columns(),
        counts_partitions: visitor.counts_partitions(),
        is_newest_first: visitor.is_newest_first(),
    }
}

/// Runs the tasks with one thread per set of connections, which are of a reader if there are open files. The first thread
/// goes on from `state`. Returns the connections too.
fn run<V: PartVisitor>(
    plan: &WalkPlan<'_>,
    reader: Option<&Reader>,
    connections: Vec<Connections>,
    state: V::State,
    go_on: &dyn Fn() -> bool,
    visitor: &V,
) -> (Result<Vec<V::State>, StoreError>, Vec<Connections>) {
    let has_open = connections.iter().flatten().any(Option::is_some);
    let first_renewal =
        reader.filter(|_| has_open).map(|reader| Renewal::after(Duration::ZERO, reader.snapshot_times()));
    let mut shared = Shared {
        next: AtomicUsize::new(0),
        put_back: Mutex::default(),
        done: HashSet::new(),
        is_over: AtomicBool::new(false),
        is_pausing: AtomicBool::new(false),
        renewal: first_renewal,
        left: Mutex::default(),
        error: Mutex::default(),
    };
    let mut walkers: Vec<Walker<'_>> = connections
        .into_iter()
        .enumerate()
        .map(|(number, connections)| Walker::new(plan, connections, number == 0))
        .collect();
    let mut states = vec![state];
    states.extend(walkers.iter().skip(1).map(|_| visitor.start()));
    loop {
        work_all(&mut walkers, &mut states, &shared, go_on, visitor);
        let is_pausing = std::mem::take(shared.is_pausing.get_mut()) && !*shared.is_over.get_mut();
        let Some(reader) = reader.filter(|_| is_pausing) else { break };
        let started = Instant::now();
        if let Err(error) = renew(reader, &mut walkers, &mut states, &mut shared, go_on, visitor) {
            lock(&shared.error).get_or_insert(error);
            break;
        }
        shared.renewal = Some(Renewal::after(started.elapsed(), reader.snapshot_times()));
    }
    let mut error = shared.error.into_inner().unwrap_or_else(PoisonError::into_inner);
    // The first thread's snapshot has all planned pages that are left.
    let left = shared.left.into_inner().unwrap_or_else(PoisonError::into_inner);
    if let (Some(walker), Some(state)) = (walkers.first_mut(), states.first_mut()) {
        for task in left {
            if error.is_some() || shared.is_over.load(Ordering::Relaxed) {
                break;
            }
            match walker.task(&plan.tasks[task], state, visitor) {
                Ok(Some(ControlFlow::Continue(()))) => {}
                Ok(Some(ControlFlow::Break(()))) => break,
                Ok(None) => error = walker.missing(&plan.tasks[task]),
                Err(failed) => error = Some(failed),
            }
        }
    }
    let connections = walkers.into_iter().map(|walker| walker.connections).collect();
    (error.map_or(Ok(states), Err), connections)
}

/// Lets each thread work until the tasks are done, or the threads pause.
fn work_all<V: PartVisitor>(
    walkers: &mut [Walker<'_>],
    states: &mut [V::State],
    shared: &Shared,
    go_on: &dyn Fn() -> bool,
    visitor: &V,
) {
    if let ([walker], [state]) = (&mut *walkers, &mut *states) {
        return walker.work(shared, state, go_on, visitor);
    }
    std::thread::scope(|scope| {
        let (done, is_done) = std::sync::mpsc::channel();
        let threads: Vec<_> = walkers
            .iter_mut()
            .zip(states)
            .map(|(walker, state)| {
                let (done, question) = (done.clone(), ScheduledQuestion::current());
                scope.spawn(move || {
                    ScheduledQuestion::in_further_thread(question, || walker.work(shared, state, &|| true, visitor));
                    // The receiver waits for all threads.
                    let _ = done.send(());
                })
            })
            .collect();
        drop(done);
        // A thread that panicked sends nothing; when all are gone, the channel says so.
        scan_scheduler::pause(|| {
            while let Ok(()) | Err(RecvTimeoutError::Timeout) = is_done.recv_timeout(ASKED_EVERY) {
                if !go_on() {
                    shared.is_over.store(true, Ordering::Relaxed);
                }
            }
        });
        for thread in threads {
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        }
    });
}

/// Ends the snapshots of all threads and begins new ones. Before that, the first thread does the tasks whose pages the new
/// snapshot of its files lacks.
fn renew<V: PartVisitor>(
    reader: &Reader,
    walkers: &mut [Walker<'_>],
    states: &mut [V::State],
    shared: &mut Shared,
    go_on: &dyn Fn() -> bool,
    visitor: &V,
) -> Result<(), StoreError> {
    let Some(((first, others), state)) = walkers.split_first_mut().zip(states.first_mut()) else { return Ok(()) };
    let tasks = &first.plan.tasks;
    for file in 0..first.connections.len() {
        let Some(opened) = &first.connections[file] else { continue };
        // The journal of a file that is no longer live goes with it.
        if !reader.catalog().is_live(&opened.file.name)? {
            continue;
        }
        let fresh = match reader.acquire(&opened.file) {
            Err(StoreError::TableGone(_)) => continue,
            acquired => acquired?,
        };
        begin(&fresh)?;
        let waiting = (*shared.next.get_mut()).min(tasks.len())..tasks.len();
        let put_back = lock(&shared.put_back).iter().chain(&*lock(&shared.left)).copied().collect::<Vec<_>>();
        for at in put_back.into_iter().chain(waiting).filter(|at| !shared.done.contains(at)).collect::<Vec<_>>() {
            let Task::Page { file: of, page, later, .. } = &tasks[at] else { continue };
            if *of != file {
                continue;
            }
            let has_page = |page: &PageRow| fresh.has_page(page);
            if has_page(page)? && later.iter().try_fold(true, |has_all, page| Ok(has_all && has_page(page)?))? {
                continue;
            }
            scan_scheduler::yield_now();
            if !go_on() {
                *shared.is_over.get_mut() = true;
                return Ok(());
            }
            match first.task(&tasks[at], state, visitor)? {
                Some(ControlFlow::Continue(())) => drop(shared.done.insert(at)),
                Some(ControlFlow::Break(())) => {
                    *shared.is_over.get_mut() = true;
                    return Ok(());
                }
                None => return Err(first.missing(&tasks[at]).unwrap_or(StoreError::Closed)),
            }
        }
        lock(&shared.left).retain(|at| !shared.done.contains(at));
        if let Some(before) = first.connections[file].replace(fresh) {
            reader.release(before);
        }
        for opened in others.iter().filter_map(|walker| walker.connections[file].as_ref()) {
            end(&opened.connection);
            begin(opened)?;
        }
    }
    Ok(())
}

impl Walker<'_> {
    fn work<V: PartVisitor>(&mut self, shared: &Shared, state: &mut V::State, go_on: &dyn Fn() -> bool, visitor: &V) {
        let tasks = &self.plan.tasks;
        // Each thread does a task at least before it pauses again.
        let mut has_worked = false;
        while !shared.is_over.load(Ordering::Relaxed) {
            if !go_on() {
                shared.is_over.store(true, Ordering::Relaxed);
                break;
            }
            let taken = shared.take(tasks);
            if taken.is_empty() {
                break;
            }
            for (number, &at) in taken.iter().enumerate() {
                if has_worked && shared.renewal.is_some_and(|renewal| renewal.is_due(self)) {
                    shared.is_pausing.store(true, Ordering::Relaxed);
                }
                if has_worked && shared.is_pausing.load(Ordering::Relaxed) {
                    return lock(&shared.put_back).extend(taken[number..].iter().rev());
                }
                if shared.done.contains(&at) {
                    continue;
                }
                has_worked = true;
                scan_scheduler::yield_now();
                match self.task(&tasks[at], state, visitor) {
                    Ok(Some(ControlFlow::Continue(()))) => {}
                    Ok(Some(ControlFlow::Break(()))) => {
                        shared.is_over.store(true, Ordering::Relaxed);
                        return;
                    }
                    Ok(None) => lock(&shared.left).push(at),
                    Err(error) => {
                        shared.is_over.store(true, Ordering::Relaxed);
                        lock(&shared.error).get_or_insert(error);
                        return;
                    }
                }
            }
        }
    }
}
