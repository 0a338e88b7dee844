//! The queues of all partitions: which queues may send now, which wait, and which lack pages.

use super::partition_queue::{Demand, PAGES_MAX, PartitionQueue, QueuedPage};
use super::queued::{PageNumber, QueueId};
use super::request::TransactionRequest;
use daytable_model::key::DayTable;
use daytable_store::catalog::LiveFile;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum pages in all queues, at some 300 bytes each.
const PAGES_ALL_MAX: usize = 16_384;

/// A file of the outbox, and the queues of its partitions.
struct OutboxFile {
    live: LiveFile,
    queues: HashMap<i64, QueueId>,
}

/// All queues, by state.
pub(super) struct Queues {
    fill: Duration,
    is_newest_first: bool,
    files: HashMap<Arc<str>, OutboxFile>,
    queues: HashMap<QueueId, PartitionQueue>,
    /// Queues that may send now, in order of sending.
    ready: BTreeSet<(i64, QueueId)>,
    /// Scheduled queues and their times.
    timers: BinaryHeap<Reverse<(Instant, QueueId)>>,
    /// Queues with unread pages, by day.
    hungry: BTreeSet<(i64, QueueId)>,
    pages: usize,
    retry_bytes: usize,
    last_number: u64,
}

impl Queues {
    /// `seed` must differ between runs: pauses are random, and numbers must not repeat.
    pub(super) fn new(fill: Duration, is_newest_first: bool, seed: u64) -> Queues {
        Queues {
            fill,
            is_newest_first,
            files: HashMap::new(),
            queues: HashMap::new(),
            ready: BTreeSet::new(),
            timers: BinaryHeap::new(),
            hungry: BTreeSet::new(),
            pages: 0,
            retry_bytes: 0,
            last_number: seed << 32,
        }
    }

    /// A unique number.
    pub(super) fn next_number(&mut self) -> u64 {
        self.last_number += 1;
        self.last_number
    }

    pub(super) fn is_newest_first(&self) -> bool {
        self.is_newest_first
    }

    pub(super) fn get(&self, id: QueueId) -> Option<&PartitionQueue> {
        self.queues.get(&id)
    }

    pub(super) fn get_mut(&mut self, id: QueueId) -> Option<&mut PartitionQueue> {
        self.queues.get_mut(&id)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (QueueId, &PartitionQueue)> {
        self.queues.iter().map(|(id, queue)| (*id, queue))
    }

    /// The file of a queue.
    pub(super) fn file(&self, queue: &PartitionQueue) -> Option<&LiveFile> {
        self.live_file(queue.file())
    }

    pub(super) fn live_file(&self, name: &Arc<str>) -> Option<&LiveFile> {
        self.files.get(name).map(|file| &file.live)
    }

    /// The day of a queue.
    pub(super) fn day(&self, id: QueueId) -> Option<&DayTable> {
        Some(&self.file(self.get(id)?)?.day)
    }

    /// The queues of a day.
    pub(super) fn ids_of(&self, day: &DayTable) -> Vec<QueueId> {
        self.queues.keys().copied().filter(|id| self.day(*id) == Some(day)).collect()
    }

    /// Whether rows of a day wait.
    pub(super) fn waits_for(&self, day: &DayTable) -> bool {
        let is_used = |file: &OutboxFile| file.queues.values().any(|id| self.queues.contains_key(id));
        self.files.values().any(|file| file.live.day == *day && is_used(file))
    }

    /// Adds a new file.
    pub(super) fn add_file(&mut self, name: &Arc<str>, live: LiveFile) {
        self.files.entry(name.clone()).or_insert_with(|| OutboxFile { live, queues: HashMap::new() });
    }

    /// Removes files that `is_live` rejects and that no queue uses.
    pub(super) fn retain_files(&mut self, is_live: impl Fn(&str) -> bool) {
        let queues = &self.queues;
        self.files.retain(|name, file| is_live(name) || file.queues.values().any(|id| queues.contains_key(id)));
    }

    /// The queue of a partition of a file, if it exists.
    pub(super) fn id_of(&self, file: &Arc<str>, partition_id: i64) -> Option<QueueId> {
        self.files.get(file)?.queues.get(&partition_id).copied()
    }

    /// A new queue.
    pub(super) fn open(&mut self, file: &Arc<str>, partition_id: i64, partition: Arc<str>) -> QueueId {
        let id = self.next_number();
        self.files.get_mut(file).map(|file| file.queues.insert(partition_id, id));
        self.queues.insert(id, PartitionQueue::new(file.clone(), partition_id, partition, id));
        id
    }

    /// Whether the queues have the maximum number of pages.
    pub(super) fn are_full(&self) -> bool {
        self.pages >= PAGES_ALL_MAX
    }

    pub(super) fn add_pages(&mut self, id: QueueId, pages: Vec<QueuedPage>) {
        if let Some(queue) = self.queues.get_mut(&id) {
            self.pages += pages.len();
            queue.add(pages, self.is_newest_first);
        }
    }

    /// Records that pages left a queue: the pages were sent, or are no longer in the file.
    pub(super) fn pages_left(&mut self, pages: usize) {
        self.pages -= pages;
    }

    /// Stores a request for a retry.
    pub(super) fn push_retry(&mut self, request: TransactionRequest) {
        if let Some(queue) = self.queues.get_mut(&request.queue) {
            self.retry_bytes += request.bytes();
            queue.push_retry(request);
        }
    }

    pub(super) fn pop_retry(&mut self, id: QueueId) -> Option<TransactionRequest> {
        let request = self.queues.get_mut(&id)?.pop_retry()?;
        self.retry_bytes -= request.bytes();
        Some(request)
    }

    /// Bytes of all requests that wait for a retry.
    pub(super) fn retry_bytes(&self) -> usize {
        self.retry_bytes
    }

    /// Unloads a queue from memory. Returns its pages.
    pub(super) fn unload(&mut self, id: QueueId) -> Vec<PageNumber> {
        let Some(queue) = self.queues.get_mut(&id) else { return Vec::new() };
        self.pages -= queue.page_count();
        self.retry_bytes -= queue.retry_bytes();
        queue.unload()
    }

    /// Stops waiting for full transactions.
    pub(super) fn flush(&mut self, now: Instant) {
        self.fill = Duration::ZERO;
        self.queues.keys().copied().collect::<Vec<_>>().into_iter().for_each(|id| self.schedule(id, now));
    }

    /// Schedules a queue again at `at`.
    pub(super) fn schedule_at(&mut self, id: QueueId, at: Instant) {
        self.timers.push(Reverse((at, id)));
    }

    /// Files a queue under its state: ready, scheduled, lacking pages, or empty and closed.
    pub(super) fn schedule(&mut self, id: QueueId, now: Instant) {
        let Some(queue) = self.queues.get_mut(&id) else { return };
        if let Some(place) = queue.place.take() {
            self.ready.remove(&(place, id));
        }
        if queue.is_over() {
            let file = self.files.get_mut(queue.file());
            file.map(|file| file.queues.remove(&queue.partition_id()));
            self.queues.remove(&id);
            return;
        }
        if queue.has_unread() && queue.page_count() < PAGES_MAX / 2 {
            match queue.resume(now) {
                Some(resume) => self.timers.push(Reverse((resume, id))),
                None => {
                    let start = self.files.get(queue.file()).map_or(0, |file| file.live.day.start().get());
                    self.hungry.insert((if self.is_newest_first { -start } else { start }, id));
                }
            }
        }
        match queue.demand(now, self.fill) {
            Demand::Now => {
                let place = queue.order(self.is_newest_first);
                queue.place = Some(place);
                self.ready.insert((place, id));
            }
            Demand::At(at) => self.timers.push(Reverse((at, id))),
            Demand::Nothing => {}
        }
    }

    /// Schedules the queues that are due.
    pub(super) fn schedule_due(&mut self, now: Instant) {
        while let Some(Reverse((at, id))) = self.timers.peek().copied()
            && at <= now
        {
            self.timers.pop();
            self.schedule(id, now);
        }
    }

    /// When the next queue is scheduled.
    pub(super) fn next_timer(&self) -> Option<Instant> {
        self.timers.peek().map(|Reverse((at, _))| *at)
    }

    /// Whether a queue may send, or lacks pages.
    pub(super) fn have_work(&self) -> bool {
        !(self.ready.is_empty() && self.hungry.is_empty())
    }

    /// Whether a queue lacks pages and there is room for them.
    pub(super) fn want_pages(&self) -> bool {
        !self.hungry.is_empty() && !self.are_full()
    }

    pub(super) fn pop_ready(&mut self) -> Option<QueueId> {
        let (_, id) = self.ready.pop_first()?;
        self.get_mut(id)?.place = None;
        Some(id)
    }

    /// The next queue that lacks pages, unless all queues are full.
    pub(super) fn pop_hungry(&mut self) -> Option<QueueId> {
        if self.are_full() { None } else { self.hungry.pop_first().map(|(_, id)| id) }
    }
}
