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

use super::columns::{ColumnBatch, PagePlace};
use super::counts::headers_in;
use super::open_scan::{OpenScan, Resume};
use super::overlaps::Overlaps;
use super::sealed_scan::{runs_in, stretches};
use super::superseded_keys::PageKeys;
use super::{OpenDayFile, Range, Reader, SnapshotTimes, begin, check_snapshot, end, partition_names};
use crate::StoreError;
use crate::format::catalog::LiveFile;
use crate::format::page::{LevelMinute, LevelNumbers, Page, PageHeader, PageSections, has_streams, level_numbers};
use crate::format::page_counts::{CountedPage, PageCounts};
use crate::format::page_groups::PageGroups;
use crate::format::page_rows::{self, PageLocation, PageRow};
use crate::format::page_sieve::PageSieve;
use crate::format::sealed::SealedFile;
use crate::format::sealed::index::PartitionRun;
use crate::format::shared_pages::SHARED;
use ::bytes::Bytes;
use daytable_model::key::{DayTable, RowKey};
use daytable_model::needle::Needle;
use daytable_model::property::PropertyKind;
use daytable_model::row_set::RowSet;
use daytable_model::time::Ticks;
use daytable_platform::budget::MemoryBudget;
use daytable_platform::lock;
use daytable_platform::turns::{self, QuestionTurns};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Keys of later files that are compared with those of earlier ones: 24 bytes each.
const LATE_KEYS_MAX: usize = 1 << 20;
/// Pages whose keys a thread caches for the pages that may have them, too.
const KEYS_KEPT: usize = 32;
/// Tasks that a thread receives at once. With fewer tasks, there is one thread.
const TASKS_AT_ONCE: usize = 16;

/// Added to the niceness of the threads of a long walk, so that commits get the CPU first.
const NICENESS: i32 = 10;
/// Time between two checks whether a walk is to go on.
const ASKED_EVERY: Duration = Duration::from_millis(20);

/// Processes the batches of a walk.
pub trait BatchVisitor: Sync {
    /// The result of a thread.
    type State: Send;

    /// Begins the state of a thread.
    fn start(&self) -> Self::State;

    /// Whether some rows may be wanted; of a page, by its header.
    fn wants(&self, _rows: RowsOf<'_>, _header: Option<&PageHeader>) -> bool {
        true
    }

    /// Whether rows of a partition are wanted that are in a page with those of others.
    fn wants_partition(&self, _partition: &str) -> bool {
        true
    }

    /// Whether pages with newer records come first.
    fn is_newest_first(&self) -> bool {
        false
    }

    /// By what numbers of these records have to be told apart to replace reading the records; `None` if they have to be
    /// read.
    fn counted_by(&self, _rows: RowsOf<'_>) -> Option<CountedBy> {
        None
    }

    /// Whether these numbers by level and minute replace reading the records, where numbers by minute may do.
    fn takes_minutes(&self, _rows: RowsOf<'_>, _minutes: &[LevelMinute]) -> bool {
        true
    }

    /// Takes numbers of all these records. False if the records of a page have to be read.
    fn take_counts(&self, _state: &mut Self::State, _rows: RowsOf<'_>, _counts: CountSource<'_>) -> bool {
        false
    }

    /// Whether numbers of records by the values of any column are wanted.
    fn uses_values(&self) -> bool {
        false
    }

    /// Whether these of a column are.
    fn wants_values(&self, _name: &str, _kind: PropertyKind) -> bool {
        false
    }

    /// Takes the numbers of a page, or of a part of a row group, by level and by value. True if it need not be read. If
    /// these are not `exact`, only some of its records are wanted.
    fn take_values(
        &self,
        _state: &mut Self::State,
        _rows: RowsOf<'_>,
        _levels: &LevelNumbers,
        _counted: CountedPage<'_>,
        _exact: bool,
    ) -> bool {
        false
    }

    /// The texts without which a page may not be wanted.
    fn needles(&self) -> Vec<&Needle> {
        Vec::new()
    }

    /// Whether rows of a page may be wanted that lacks the texts which `lacks` accepts by their numbers.
    fn wants_without(&self, _lacks: &dyn Fn(usize) -> bool) -> bool {
        true
    }

    /// Whether rows of a page may be wanted, judged before its columns are read.
    fn wants_page(&self, _page: &PageSections<'_>) -> bool {
        true
    }

    /// Whether all columns of a page are needed. Otherwise every page is wanted, and those columns are enough that
    /// [`BatchVisitor::needs_column`] accepts, unless [`BatchVisitor::needs_rest`] finds that they are not.
    fn needs_all(&self) -> bool {
        true
    }

    /// Whether this column is needed.
    fn needs_column(&self, _name: &str, _kind: PropertyKind) -> bool {
        true
    }

    /// Whether the other columns, or rows, of a batch are needed, too.
    ///
    /// # Errors
    ///
    /// A damaged batch, which ends the walk.
    fn needs_rest(&self, _batch: &ColumnBatch) -> Result<bool, StoreError> {
        Ok(true)
    }

    /// Whether rows of a row group may be wanted, judged before its columns are read.
    ///
    /// # Errors
    ///
    /// A damaged file, which ends the walk.
    fn wants_group(&self, _file: &SealedFile, _group: usize) -> Result<bool, StoreError> {
        Ok(true)
    }

    /// Processes a batch. A break ends the walk of all threads.
    ///
    /// # Errors
    ///
    /// A damaged batch, which ends the walk.
    fn visit(&self, state: &mut Self::State, batch: &ColumnBatch) -> Result<ControlFlow<()>, StoreError>;
}

/// What some rows have in common.
#[derive(Clone, Copy, Debug)]
pub struct RowsOf<'r> {
    /// Their partition, if they are of one.
    pub partition: Option<&'r str>,
    /// Their oldest and newest time, or earlier and later ones.
    pub times: (Ticks, Ticks),
    /// Whether some may have the note of a stream.
    pub have_streams: bool,
}

impl<'r> RowsOf<'r> {
    fn page(partition: Option<&'r str>, header: &PageHeader) -> RowsOf<'r> {
        RowsOf {
            partition,
            times: (header.last.time(), header.first.time()),
            have_streams: has_streams(&header.levels),
        }
    }

    fn run(run: &'r PartitionRun, have_streams: bool) -> RowsOf<'r> {
        RowsOf { partition: Some(&run.partition), times: (run.oldest, run.newest), have_streams }
    }
}

/// By what numbers of records have to be told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CountedBy {
    /// By minute or level.
    pub minutes: bool,
    /// By partition.
    pub partitions: bool,
}

/// Numbers of records.
#[derive(Clone, Copy, Debug)]
pub enum CountSource<'c> {
    /// By level and minute, as in the header of a page, and of all.
    Encoded(&'c [u8], u32),
    /// By level and minute, as in the index of a sealed file.
    Minutes(&'c [LevelMinute]),
    /// Of all levels and times.
    Total(u64),
}

/// Keys of later files of the day, in order, by partition.
type LateKeys = HashMap<Arc<str>, Vec<RowKey>, foldhash::quality::RandomState>;

/// A page, or rows of a row group.
enum Task {
    Page {
        file: usize,
        page: PageRow,
        /// The name of its partition; none of a shared page.
        partition: Option<Arc<str>>,
        /// Later pages that may have its keys.
        later: Vec<PageRow>,
    },
    Group {
        file: usize,
        group: usize,
        runs: Vec<PartitionRun>,
    },
    /// All records of a sealed file, by its index.
    Minutes {
        file: usize,
        times: (Ticks, Ticks),
    },
    /// All rows of a run, which are records.
    Run {
        run: PartitionRun,
        have_streams: bool,
    },
}

/// A file of a walk.
struct WalkFile {
    source: FileSource,
    late: Option<Arc<LateKeys>>,
    /// Numbers by value of the pages of an open file.
    counts: PageGroups<PageCounts>,
    /// The wanted partitions of an open file.
    names: BTreeMap<i64, Arc<str>>,
    /// Numbers by value of parts of the row groups of a sealed file, encoded, once a row group needs them.
    counted_groups: Mutex<Option<Arc<BTreeMap<usize, Bytes>>>>,
}

impl WalkFile {
    fn sealed(sealed: SealedFile, late: Option<Arc<LateKeys>>) -> WalkFile {
        let (source, counts, names) = (FileSource::Sealed(sealed), PageGroups::default(), BTreeMap::new());
        WalkFile { source, late, counts, names, counted_groups: Mutex::default() }
    }

    /// The keys of later files, if a page of `partition`, or a shared one, may have rows of them.
    fn late_keys(&self, partition: Option<&Arc<str>>) -> Option<&LateKeys> {
        let has_some = |late: &&LateKeys| partition.is_none_or(|partition| late.contains_key(partition));
        self.late.as_deref().filter(has_some)
    }
}

#[derive(Clone)]
enum FileSource {
    Sealed(SealedFile),
    Open,
}

struct Plan<'r> {
    files: Vec<WalkFile>,
    tasks: Vec<Task>,
    first: RowKey,
    last: RowKey,
    range: &'r Range,
    /// The memory of questions, if the walk is one's.
    memory: Option<MemoryBudget>,
}

/// A thread of a walk: its own connections to the open files.
struct Walker<'p, 'r> {
    plan: &'p Plan<'r>,
    connections: Vec<Option<OpenDayFile>>,
    keys: VecDeque<(usize, PageLocation, PageKeys)>,
    /// Whether the walk was planned in this thread's snapshot.
    is_first: bool,
}

/// What became of a page.
enum WalkedPage {
    Page(Arc<Page>),
    /// The visitor does not want it.
    Unwanted,
    /// This thread's snapshot does not have it.
    Missing,
}

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

    fn is_due(self, walker: &Walker<'_, '_>) -> bool {
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
    /// Passes the records of `range` in one table to a visitor, in at most `threads` threads. `None` if too many rows
    /// overlap: then the caller reads rows. The text and level of the range are ignored. The calling thread calls
    /// `go_on` repeatedly; false ends the walk early.
    ///
    /// # Errors
    ///
    /// [`StoreError::TableGone`] if the table is gone, or a damaged file.
    pub fn walk<V: BatchVisitor>(
        &self,
        table: &DayTable,
        range: &Range,
        threads: usize,
        go_on: &dyn Fn() -> bool,
        visitor: &V,
    ) -> Result<Option<Vec<V::State>>, StoreError> {
        let opened = self.with_files(table, |files| self.plan(files, range, threads, visitor))?;
        let Some((plan, connections)) = opened else { return Ok(None) };
        let (result, connections) = run(&plan, Some(self), connections, go_on, visitor);
        connections.into_iter().flatten().flatten().for_each(|opened| self.release(opened));
        result.map(Some)
    }

    /// Opens the files and lists the tasks.
    #[allow(clippy::type_complexity)]
    fn plan<'r, V: BatchVisitor>(
        &self,
        live: &[LiveFile],
        range: &'r Range,
        threads: usize,
        visitor: &V,
    ) -> Result<Option<(Plan<'r>, Vec<Vec<Option<OpenDayFile>>>)>, StoreError> {
        let (first, last) = RowKey::range(range.from, range.to);
        let memory = self.memory.clone();
        let mut plan = Plan { files: Vec::new(), tasks: Vec::new(), first, last, range, memory };
        let mut connections: Vec<Vec<Option<OpenDayFile>>> = vec![Vec::new()];
        for (number, file) in live.iter().enumerate() {
            let Some(late) = self.late_keys(&live[number + 1..], range)? else { return Ok(None) };
            let late = (!late.is_empty()).then(|| Arc::new(late));
            match self.sealed(file)? {
                Some(sealed) => {
                    plan.add_sealed(number, &sealed, late.is_none(), visitor);
                    plan.files.push(WalkFile::sealed(sealed, late));
                    connections[0].push(None);
                }
                None => {
                    let opened = self.acquire(file)?;
                    let total = begin(&opened)?;
                    let committed = self.catalog().committed()?;
                    check_snapshot(self.catalog(), &opened, &total, &committed)?;
                    let names = partition_names(&opened, range.partitions.as_deref())?;
                    let wanted = range.partitions.is_some().then_some(&names);
                    let mut pages = headers_in(&opened, wanted, first, last)?;
                    pages.retain(|page| committed.includes(page.seq));
                    let wants = |name: &str, kind| visitor.wants_values(name, kind);
                    let counts = match visitor.uses_values() {
                        true => PageCounts::read(&opened.connection, &pages, wants),
                        false => Ok(PageGroups::default()),
                    };
                    let counts = counts.map_err(StoreError::sqlite(&opened.path))?;
                    let sieve = PageSieve::ask(&opened.connection, &pages, &visitor.needles());
                    let sieve = sieve.map_err(StoreError::sqlite(&opened.path))?;
                    let is_planned = plan.add_pages(number, pages, |page| match names.get(&page.partition) {
                        _ if page.partition == SHARED => Ok(None),
                        Some(name) => Ok(Some(name.clone())),
                        None => Err(page_rows::unnamed_partition(&opened.path, page)),
                    })?;
                    plan.drop_lacking(number, &sieve, visitor);
                    let source = FileSource::Open;
                    plan.files.push(WalkFile { source, late, counts, names, counted_groups: Mutex::default() });
                    connections[0].push(Some(opened));
                    if !is_planned {
                        return Ok(None);
                    }
                }
            }
        }
        if visitor.is_newest_first() {
            plan.order_by_time();
        }
        let useful = plan.tasks.len() / TASKS_AT_ONCE + plan.groups();
        for _ in 1..threads.min(useful) {
            let open = |(file, first): (&LiveFile, &Option<OpenDayFile>)| match first {
                None => Ok(None),
                Some(_) => {
                    let opened = self.acquire(file)?;
                    begin(&opened)?;
                    Ok(Some(opened))
                }
            };
            let more = live.iter().zip(&connections[0]).map(open).collect::<Result<Vec<_>, StoreError>>()?;
            connections.push(more);
        }
        Ok(Some((plan, connections)))
    }

    /// The keys of the rows of later files; `None` if there are too many.
    fn late_keys(&self, later: &[LiveFile], range: &Range) -> Result<Option<LateKeys>, StoreError> {
        let (mut keys, mut count) = (LateKeys::default(), 0);
        let range = Range { contains: None, level: None, chooser: None, ..range.clone() };
        for file in later {
            if let Some(sealed) = self.sealed(file)? {
                sealed.each_key(&range, &mut |partition, key, _| {
                    count += 1;
                    if count <= LATE_KEYS_MAX {
                        keys.entry(partition.clone()).or_default().push(key);
                    }
                })?;
            } else {
                let resume = Resume::From(RowKey::range(range.from, range.to).0);
                for row in OpenScan::begin(self, self.acquire(file)?, &range, resume)? {
                    let row = row?;
                    keys.entry(row.partition.clone()).or_default().push(row.key());
                    count += 1;
                    if count > LATE_KEYS_MAX {
                        break;
                    }
                }
            }
            if count > LATE_KEYS_MAX {
                return Ok(None);
            }
        }
        keys.values_mut().for_each(|keys| keys.sort_unstable());
        Ok(Some(keys))
    }
}

impl SealedFile {
    /// Passes the records of `range` in the file to a visitor, as [`Reader::walk`] does.
    ///
    /// # Errors
    ///
    /// A damaged or unreadable file.
    pub fn walk<V: BatchVisitor>(
        &self,
        range: &Range,
        threads: usize,
        go_on: &dyn Fn() -> bool,
        visitor: &V,
    ) -> Result<Vec<V::State>, StoreError> {
        let (first, last) = RowKey::range(range.from, range.to);
        let mut plan = Plan { files: Vec::new(), tasks: Vec::new(), first, last, range, memory: None };
        plan.add_sealed(0, self, true, visitor);
        plan.files.push(WalkFile::sealed(self.clone(), None));
        let threads = threads.clamp(1, plan.groups().max(1));
        run(&plan, None, (0..threads).map(|_| vec![None]).collect(), go_on, visitor).0
    }
}

impl Plan<'_> {
    /// Puts the pages with the newest records first.
    fn order_by_time(&mut self) {
        self.tasks.sort_by_key(|task| match task {
            Task::Page { page, .. } => Some(page.header.first),
            _ => None,
        });
    }

    /// Drops the pages of a file that surely have no row that is wanted. Rows that they replace in others stay replaced.
    fn drop_lacking<V: BatchVisitor>(&mut self, of: usize, sieve: &PageSieve, visitor: &V) {
        if !sieve.is_empty() {
            self.tasks.retain(|task| match task {
                Task::Page { file, page, .. } if *file == of => {
                    visitor.wants_without(&|text| sieve.is_lacking(page, text))
                }
                _ => true,
            });
        }
    }

    fn groups(&self) -> usize {
        self.tasks.iter().filter(|task| matches!(task, Task::Group { .. })).count()
    }

    /// Adds a sealed file. What its index counts is not read, unless rows of later files replace some of its own.
    fn add_sealed<V: BatchVisitor>(&mut self, file: usize, sealed: &SealedFile, is_alone: bool, visitor: &V) {
        let Range { from, to, partitions, .. } = self.range;
        let is_whole = |(oldest, newest): &(Ticks, Ticks)| *from <= *oldest && *newest <= *to;
        let have_streams = sealed.index().has_streams;
        if is_alone
            && let Some(times) = sealed.times().filter(is_whole)
            && partitions.is_none()
            && let Some(minutes) = &sealed.index().minutes
            && let rows = (RowsOf { partition: None, times, have_streams })
            && visitor.counted_by(rows).is_some_and(|by| !by.partitions)
            && visitor.takes_minutes(rows, minutes)
        {
            return self.tasks.push(Task::Minutes { file, times });
        }
        let is_counted = |run: &PartitionRun| {
            is_alone
                && is_whole(&(run.oldest, run.newest))
                && visitor.counted_by(RowsOf::run(run, have_streams)).is_some_and(|by| !by.minutes)
                && sealed.has_no_items(run.group)
        };
        let (counted, runs): (Vec<_>, Vec<_>) = runs_in(sealed, self.range).into_iter().partition(is_counted);
        self.tasks.extend(counted.into_iter().map(|run| Task::Run { run, have_streams }));
        for runs in runs.chunk_by(|a, b| a.group == b.group) {
            let is_wanted = |run: &&PartitionRun| visitor.wants(RowsOf::run(run, have_streams), None);
            let runs: Vec<_> = runs.iter().filter(is_wanted).cloned().collect();
            if let Some(run) = runs.first() {
                self.tasks.push(Task::Group { file, group: run.group, runs });
            }
        }
    }

    /// The numbers by value of the row groups of a sealed file, of all tasks at once.
    fn counted_groups(&self, number: usize, sealed: &SealedFile) -> Result<Arc<BTreeMap<usize, Bytes>>, StoreError> {
        let mut read = lock(&self.files[number].counted_groups);
        if let Some(read) = &*read {
            return Ok(read.clone());
        }
        let groups = self.tasks.iter().filter_map(|task| match task {
            Task::Group { file, group, .. } if *file == number => Some(*group),
            _ => None,
        });
        Ok(read.insert(Arc::new(sealed.read_counts(groups)?)).clone())
    }

    /// Adds pages, which are sorted by partition and first key. False if too many overlap.
    fn add_pages(
        &mut self,
        file: usize,
        pages: Vec<PageRow>,
        name: impl Fn(&PageRow) -> Result<Option<Arc<str>>, StoreError>,
    ) -> Result<bool, StoreError> {
        let Some(pairs) = Overlaps::new(&pages).pairs() else { return Ok(false) };
        let first_task = self.tasks.len();
        self.tasks.reserve(pages.len());
        for page in pages {
            let partition = match self.tasks.last() {
                Some(Task::Page { page: before, partition, file: of, .. })
                    if *of == file && before.partition == page.partition =>
                {
                    partition.clone()
                }
                _ => name(&page)?,
            };
            self.tasks.push(Task::Page { file, page, partition, later: Vec::new() });
        }
        let added = &mut self.tasks[first_task..];
        for (one, other) in pairs {
            let (before, from) = added.split_at_mut(other);
            let (Some(Task::Page { page, later, .. }), Some(Task::Page { page: other, later: later_of_other, .. })) =
                (before.get_mut(one), from.first_mut())
            else {
                continue;
            };
            if (page.seq, page.place) > (other.seq, other.place) {
                later_of_other.push(page.clone());
            } else {
                later.push(other.clone());
            }
        }
        Ok(true)
    }
}

/// Runs the tasks with one thread per set of connections, which are of a reader if there are open files. Returns the
/// connections too.
#[allow(clippy::type_complexity)]
fn run<V: BatchVisitor>(
    plan: &Plan<'_>,
    reader: Option<&Reader>,
    connections: Vec<Vec<Option<OpenDayFile>>>,
    go_on: &dyn Fn() -> bool,
    visitor: &V,
) -> (Result<Vec<V::State>, StoreError>, Vec<Vec<Option<OpenDayFile>>>) {
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
    let mut walkers: Vec<Walker<'_, '_>> = connections
        .into_iter()
        .enumerate()
        .map(|(number, connections)| Walker { plan, connections, keys: VecDeque::new(), is_first: number == 0 })
        .collect();
    let mut states: Vec<V::State> = walkers.iter().map(|_| visitor.start()).collect();
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
fn work_all<V: BatchVisitor>(
    walkers: &mut [Walker<'_, '_>],
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
                let (done, question) = (done.clone(), QuestionTurns::current());
                scope.spawn(move || {
                    daytable_platform::lower_priority(NICENESS);
                    let mut work = || walker.work(shared, state, &|| true, visitor);
                    match question {
                        Some(question) => question.enter(work),
                        None => work(),
                    }
                    // The receiver waits for all threads.
                    let _ = done.send(());
                })
            })
            .collect();
        drop(done);
        // A thread that panicked sends nothing; when all are gone, the channel says so.
        turns::pause(|| {
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
fn renew<V: BatchVisitor>(
    reader: &Reader,
    walkers: &mut [Walker<'_, '_>],
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
            turns::pass();
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

impl Walker<'_, '_> {
    fn work<V: BatchVisitor>(&mut self, shared: &Shared, state: &mut V::State, go_on: &dyn Fn() -> bool, visitor: &V) {
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
                turns::pass();
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

    /// Does a task; `None` if its page is not in this thread's snapshot.
    fn task<V: BatchVisitor>(
        &mut self,
        task: &Task,
        state: &mut V::State,
        visitor: &V,
    ) -> Result<Option<ControlFlow<()>>, StoreError> {
        let Plan { first, last, files, range, .. } = self.plan;
        // Groups and records that a walk gathers are charged by their question; what it decodes is not.
        if self.plan.memory.as_ref().is_some_and(|memory| memory.is_short_for(0)) {
            return Err(StoreError::NoMemory);
        }
        match task {
            Task::Page { file, page, partition, later } => {
                let header = &page.header;
                let rows = RowsOf::page(partition.as_deref(), header);
                if !visitor.wants(rows, Some(header)) {
                    return Ok(Some(ControlFlow::Continue(())));
                }
                let has_late = files[*file].late_keys(partition.as_ref()).is_some();
                let is_exact = *first <= header.first && header.last <= *last && later.is_empty() && !has_late;
                if is_exact && self.take_counts(*file, page, rows, state, visitor)? {
                    return Ok(Some(ControlFlow::Continue(())));
                }
                if let Some(counted) = PageCounts::of(&files[*file].counts, page)
                    && let Ok(levels) = level_numbers(&header.levels)
                    // Numbers of many partitions tell only what no row has.
                    && visitor.take_values(state, rows, &levels, counted, is_exact && partition.is_some())
                {
                    return Ok(Some(ControlFlow::Continue(())));
                }
                if is_exact
                    && header.records == header.entities
                    && !visitor.needs_all()
                    && let Some(front) = self.front(*file, page, visitor)
                {
                    let records = RowSet::all(front.len());
                    let batch = self.batch(*file, page, partition.as_ref(), (front.into(), records), visitor)?;
                    if !batch.is_front() || !visitor.needs_rest(&batch)? {
                        return visitor.visit(state, &batch).map(Some);
                    }
                }
                let decoded = match self.page(*file, page, |page| visitor.wants_page(page))? {
                    WalkedPage::Page(decoded) => decoded,
                    WalkedPage::Unwanted => return Ok(Some(ControlFlow::Continue(()))),
                    WalkedPage::Missing => return Ok(None),
                };
                let mut records = RowSet::all(decoded.len());
                if header.records != header.entities || !is_exact {
                    let keys = match decoded.read_keys() {
                        Ok(keys) => keys,
                        Err(error) => {
                            return Err(page_rows::damaged(&self.place(*file, page).path, page, error.to_string()));
                        }
                    };
                    let is_record = |row: usize| keys[row].item() == 0 && (*first..=*last).contains(&keys[row]);
                    records = RowSet::of(keys.len(), is_record);
                    for later in later {
                        if !self.remove_keys(*file, later, (page, &decoded), keys, &mut records)? {
                            return Ok(None);
                        }
                    }
                }
                let batch = self.batch(*file, page, partition.as_ref(), (decoded, records), visitor)?;
                visitor.visit(state, &batch).map(Some)
            }
            Task::Minutes { file, times } => {
                if let FileSource::Sealed(sealed) = &files[*file].source {
                    let minutes = sealed.index().minutes.as_deref().unwrap_or_default();
                    let rows = RowsOf { partition: None, times: *times, have_streams: sealed.index().has_streams };
                    visitor.take_counts(state, rows, CountSource::Minutes(minutes));
                }
                Ok(Some(ControlFlow::Continue(())))
            }
            Task::Run { run, have_streams } => {
                visitor.take_counts(state, RowsOf::run(run, *have_streams), CountSource::Total(run.rows.len() as u64));
                Ok(Some(ControlFlow::Continue(())))
            }
            Task::Group { file, group, runs } => {
                let WalkFile { source: FileSource::Sealed(sealed), late, .. } = &files[*file] else { return Ok(None) };
                if !visitor.wants_group(sealed, *group)? {
                    return Ok(Some(ControlFlow::Continue(())));
                }
                let uncounted = self.uncounted(*file, sealed, *group, runs, state, visitor)?;
                let runs = uncounted.as_deref().unwrap_or(runs);
                let stretches = stretches(sealed, runs, range.from, range.to)?;
                let stretches: Vec<_> =
                    stretches.into_iter().map(|(run, rows)| (runs[run].partition.clone(), rows)).collect();
                if stretches.is_empty() {
                    return Ok(Some(ControlFlow::Continue(())));
                }
                let mut batch = ColumnBatch::of_group(sealed, *group, stretches)?;
                if let Some(late) = late {
                    let of_batch = batch.stretches().to_vec();
                    for (partition, rows) in of_batch {
                        let Some(late) = late.get(&partition) else { continue };
                        let mut stale: Vec<usize> = Vec::new();
                        let keys = &batch.keys()?[rows.clone()];
                        each_common(keys, late, |row, _| stale.push(rows.start + row));
                        stale.into_iter().for_each(|row| batch.records_mut().remove(row));
                    }
                }
                visitor.visit(state, &batch).map(Some)
            }
        }
    }

    /// What is left of the runs of a row group where numbers by value replace reading it; `None` if all is.
    fn uncounted<V: BatchVisitor>(
        &self,
        file: usize,
        sealed: &SealedFile,
        group: usize,
        runs: &[PartitionRun],
        state: &mut V::State,
        visitor: &V,
    ) -> Result<Option<Vec<PartitionRun>>, StoreError> {
        if !visitor.uses_values() || sealed.is_about_host(&|name, kind| visitor.wants_values(name, kind)) {
            return Ok(None);
        }
        let of_file = &self.plan.files[file];
        let counted_groups = self.plan.counted_groups(file, sealed)?;
        let Some(bytes) = counted_groups.get(&group) else { return Ok(None) };
        let Range { from, to, .. } = self.plan.range;
        let counted = sealed.counted_parts(group, bytes, |name, kind| visitor.wants_values(name, kind))?;
        let mut taken = Vec::new();
        for (part, numbers) in counted.parts() {
            let first = runs.partition_point(|run| run.rows.end <= part.rows.start);
            let Some(run) = runs.get(first).filter(|run| run.rows.start < part.rows.end) else { continue };
            let is_of_run = run.rows.start <= part.rows.start && part.rows.end <= run.rows.end;
            let partition = is_of_run.then_some(&run.partition);
            let is_exact = partition.is_some_and(|_| of_file.late_keys(partition).is_none())
                && *from <= part.oldest
                && part.newest <= *to;
            let (times, have_streams) = ((part.oldest, part.newest), sealed.index().has_streams);
            let rows = RowsOf { partition: partition.map(|name| &**name), times, have_streams };
            if visitor.take_values(state, rows, &part.levels, numbers, is_exact) {
                taken.push(part.rows.clone());
            }
        }
        let mut left = Vec::with_capacity(runs.len());
        for run in runs {
            let mut start = run.rows.start;
            let first = taken.partition_point(|rows| rows.end <= start);
            for rows in taken[first..].iter().take_while(|rows| rows.start < run.rows.end) {
                left.push(PartitionRun { rows: start..rows.start.max(start), ..run.clone() });
                start = rows.end;
            }
            left.push(PartitionRun { rows: start..run.rows.end.max(start), ..run.clone() });
        }
        left.retain(|run| !run.rows.is_empty());
        Ok(Some(left))
    }

    /// Whether numbers of all records of a page replace reading them.
    fn take_counts<V: BatchVisitor>(
        &self,
        file: usize,
        page: &PageRow,
        rows: RowsOf<'_>,
        state: &mut V::State,
        visitor: &V,
    ) -> Result<bool, StoreError> {
        let header = &page.header;
        let counts = CountSource::Encoded(&header.levels, header.records);
        let Some(shared) = &page.shared else { return Ok(visitor.take_counts(state, rows, counts)) };
        let Some(by) = visitor.counted_by(rows) else { return Ok(false) };
        let is_whole = self.plan.range.partitions.is_none();
        if is_whole && !by.partitions {
            return Ok(visitor.take_counts(state, rows, counts));
        }
        if by.minutes || header.records != header.entities {
            return Ok(false);
        }
        let names = self.names_of(file, page, &self.plan.files[file].names)?;
        for (name, (_, records)) in names.iter().zip(shared.iter()).filter(|(name, _)| !name.is_empty()) {
            let rows = RowsOf { partition: Some(name), ..rows };
            if visitor.wants_partition(name) && visitor.wants(rows, None) {
                visitor.take_counts(state, rows, CountSource::Total(records.into()));
            }
        }
        Ok(true)
    }

    /// The names of the partitions of a shared page by their numbers in it; an empty one where no row is wanted.
    fn names_of(
        &self,
        file: usize,
        page: &PageRow,
        known: &BTreeMap<i64, Arc<str>>,
    ) -> Result<Vec<Arc<str>>, StoreError> {
        let (Some(shared), Some(Some(opened))) = (&page.shared, self.connections.get(file)) else {
            return Ok(Vec::new());
        };
        let name = |(number, (partition, _))| match known.get(&partition) {
            Some(name) => opened.check_number(page, number, name).map(|()| name.clone()),
            None if self.plan.range.partitions.is_some() => Ok(Arc::from("")),
            None => Err(page_rows::unnamed_partition(&opened.path, page)),
        };
        shared.iter().enumerate().map(name).collect()
    }

    fn place(&self, file: usize, page: &PageRow) -> PagePlace {
        let path = self.connections[file].as_ref().map(|opened| opened.path.clone()).unwrap_or_default();
        PagePlace { path, place: page.place }
    }

    /// The rows `records` of a page, without late ones and those of unwanted partitions. Late rows need its keys, decoded.
    fn batch<V: BatchVisitor>(
        &self,
        file: usize,
        page: &PageRow,
        partition: Option<&Arc<str>>,
        (decoded, mut records): (Arc<Page>, RowSet),
        visitor: &V,
    ) -> Result<ColumnBatch, StoreError> {
        let of = &self.plan.files[file];
        let names = match partition {
            Some(partition) => vec![partition.clone()],
            None => self.names_of(file, page, &of.names)?,
        };
        if let Some(late) = of.late_keys(partition) {
            remove_late(&decoded, &names, late, &mut records);
        }
        if partition.is_none() {
            let is_wanted = |name: &Arc<str>| !name.is_empty() && visitor.wants_partition(name);
            let wanted: Vec<bool> = names.iter().map(is_wanted).collect();
            if wanted.contains(&false) {
                let is_wanted = |row| decoded.owner(row).is_some_and(|of| wanted.get(of) == Some(&true));
                records.keep(&RowSet::of(decoded.len(), is_wanted));
            }
        }
        Ok(ColumnBatch::of_page(&names, decoded, records, Some(self.place(file, page))))
    }

    /// Reads and checks the front of a page. `None` if it is not enough, or the page has to be read as others are.
    fn front<V: BatchVisitor>(&self, file: usize, page: &PageRow, visitor: &V) -> Option<Page> {
        let opened = self.connections.get(file)?.as_ref()?;
        let name = self.plan.files[file].names.get(&page.partition);
        let mut bodies = opened.bodies.borrow_mut();
        // The reader of the whole page says what is wrong, and knows that another snapshot may have other rows.
        let front = bodies.read_front(&opened.connection, page.place.page()).ok()??;
        let needs = |column: &str, kind| visitor.needs_column(column, kind);
        opened.decode_front(name.map_or("", |name| name), page, front, needs).ok()?
    }

    /// Reads and checks a page.
    fn page(
        &mut self,
        file: usize,
        page: &PageRow,
        wants: impl FnOnce(&PageSections<'_>) -> bool,
    ) -> Result<WalkedPage, StoreError> {
        let Some(Some(opened)) = self.connections.get(file) else { return Ok(WalkedPage::Missing) };
        let name = self.plan.files[file].names.get(&page.partition);
        let mut bodies = opened.bodies.borrow_mut();
        match bodies.read(&opened.connection, page.place.page()) {
            Ok(Some(body)) => match opened.decode_wanted(name.map_or("", |name| name), page, body, wants) {
                Ok(decoded) => Ok(decoded.map_or(WalkedPage::Unwanted, |page| WalkedPage::Page(page.into()))),
                // In another snapshot, rows of the page may be gone.
                Err(_) if !self.is_first => Ok(WalkedPage::Missing),
                Err(error) => Err(error),
            },
            Ok(None) => Ok(WalkedPage::Missing),
            Err(_) if !self.is_first => Ok(WalkedPage::Missing),
            Err(error) => Err(StoreError::sqlite(&opened.path)(error)),
        }
    }

    /// The error of a page that no snapshot has.
    fn missing(&self, task: &Task) -> Option<StoreError> {
        let Task::Page { file, page, .. } = task else { return None };
        let opened = self.connections.get(*file)?.as_ref()?;
        Some(page_rows::damaged(&opened.path, page, "its body is missing".into()))
    }

    /// Removes rows that a later page has too. False if this thread's snapshot does not have that page.
    fn remove_keys(
        &mut self,
        file: usize,
        later: &PageRow,
        (page, decoded): (&PageRow, &Page),
        keys: &[RowKey],
        records: &mut RowSet,
    ) -> Result<bool, StoreError> {
        let from = keys.partition_point(|key| *key < later.header.first);
        let to = keys.partition_point(|key| *key <= later.header.last);
        if from == to {
            return Ok(true);
        }
        let known = self.keys.iter().position(|(of, place, _)| (*of, *place) == (file, later.place));
        let at = match known {
            Some(at) => at,
            None => {
                let WalkedPage::Page(read) = self.page(file, later, |_| true)? else { return Ok(false) };
                if self.keys.len() == KEYS_KEPT {
                    self.keys.pop_front();
                }
                read.read_keys().map_err(|error| {
                    let path = self.connections[file].as_ref().map(|opened| opened.path.clone()).unwrap_or_default();
                    page_rows::damaged(&path, later, error.to_string())
                })?;
                self.keys.push_back((file, later.place, PageKeys::of(later, &read)));
                self.keys.len() - 1
            }
        };
        let others = &self.keys[at].2;
        each_common(&keys[from..to], &others.keys, |row, other| {
            let is_same = match page.partition_at(decoded, from + row) {
                Some(partition) if later.partition == SHARED => others.is_of(other, partition),
                partition => partition == Some(later.partition),
            };
            if is_same {
                records.remove(from + row);
            }
        });
        Ok(true)
    }
}

/// Removes rows that later files have, too. `names` has the names of the partitions of the page by their numbers in it.
fn remove_late(page: &Page, names: &[Arc<str>], late: &LateKeys, records: &mut RowSet) {
    let keys = page.keys();
    match names {
        [name] if !page.has_owners() => {
            let late = late.get(name).map(Vec::as_slice).unwrap_or_default();
            each_common(keys, late, |row, _| records.remove(row));
        }
        _ => {
            let late: Vec<Option<&Vec<RowKey>>> = names.iter().map(|name| late.get(name)).collect();
            for (row, key) in keys.iter().enumerate() {
                let late = page.owner(row).and_then(|owner| *late.get(owner)?);
                if late.is_some_and(|late| late.binary_search(key).is_ok()) {
                    records.remove(row);
                }
            }
        }
    }
}

/// Passes the indices of keys that are among `others`, in both. Both are sorted.
fn each_common(keys: &[RowKey], others: &[RowKey], mut each: impl FnMut(usize, usize)) {
    let mut at = others.partition_point(|other| keys.first().is_some_and(|first| other < first));
    for (row, key) in keys.iter().enumerate() {
        while others.get(at).is_some_and(|other| other < key) {
            at += 1;
        }
        if others.get(at) == Some(key) {
            each(row, at);
        }
    }
}
