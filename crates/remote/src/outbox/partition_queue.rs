//! The waiting rows of one partition of one day, in the order of sending.
//!
//! A queue holds the heads of at most [`PAGES_MAX`] pages and reads a page when its first row is needed. Pages beyond
//! that stay in the file; `has_unread` says that there are some. Two rows with one key are never under way at the same
//! time: the older could arrive last and replace the newer.

use super::queued::{PageNumber, QueueId, QueuedRow};
use super::request::TransactionRequest;
use crate::entity;
use daytable_azure::{Backoff, Pauses, Pushed, StorageAccount, Transaction};
use daytable_model::key::RowKey;
use daytable_store::outbox::{SentPage, WaitingPage};
use daytable_store::page::Page;
use std::collections::{HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Maximum pages in a queue.
pub(super) const PAGES_MAX: usize = 32;
/// Maximum transactions of a partition in flight.
const PARALLEL: usize = 4;
/// How long to wait before a page that could not be read is read again.
const READ_AGAIN: Duration = Duration::from_secs(1);
/// Entities that fill a transaction.
const FULL: usize = daytable_azure::ENTITIES_MAX;

/// A page that waits.
pub(super) struct QueuedPage {
    number: PageNumber,
    head: WaitingPage,
    found: Instant,
    /// Read when its first row is needed.
    page: Option<Arc<Page>>,
    next_row: usize,
}

impl QueuedPage {
    pub(super) fn new(number: PageNumber, head: WaitingPage, found: Instant) -> QueuedPage {
        QueuedPage { number, head, found, page: None, next_row: 0 }
    }

    fn rows_left(&self) -> usize {
        (self.head.entities() as usize).saturating_sub(self.next_row)
    }
}

/// When a queue has rows to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Demand {
    Now,
    At(Instant),
    Nothing,
}

/// The outcome of reading a page.
pub(super) enum PageRead {
    Page(Arc<Page>),
    /// The page was removed, or merged with others.
    Gone,
    /// The page cannot be read now.
    Unavailable,
    /// The page fails its checksum.
    Damaged,
}

/// The queue of a partition.
pub(super) struct PartitionQueue {
    file: Arc<str>,
    partition_id: i64,
    partition: Arc<str>,
    pages: VecDeque<QueuedPage>,
    /// Pages that a scan skips: pages in `pages`, pages in flight, and sent pages that are still in the file.
    known: HashSet<SentPage>,
    has_unread: bool,
    retries: VecDeque<TransactionRequest>,
    under_way: usize,
    /// Keys of the rows in flight.
    keys: HashSet<RowKey>,
    backoff: Backoff,
    /// The queue sends no request before this time.
    resume: Option<Instant>,
    /// Whether the next row waits for a row in flight with the same key.
    is_blocked: bool,
    /// The position among the ready queues.
    pub(super) place: Option<i64>,
}

impl PartitionQueue {
    pub(super) fn new(file: Arc<str>, partition_id: i64, partition: Arc<str>, seed: u64) -> PartitionQueue {
        PartitionQueue {
            file,
            partition_id,
            partition,
            pages: VecDeque::new(),
            known: HashSet::new(),
            has_unread: false,
            retries: VecDeque::new(),
            under_way: 0,
            keys: HashSet::new(),
            backoff: Backoff::new(Pauses::default(), seed),
            resume: None,
            is_blocked: false,
            place: None,
        }
    }

    pub(super) fn file(&self) -> &Arc<str> {
        &self.file
    }

    pub(super) fn partition_id(&self) -> i64 {
        self.partition_id
    }

    pub(super) fn partition(&self) -> &Arc<str> {
        &self.partition
    }

    pub(super) fn page_count(&self) -> usize {
        self.pages.len()
    }

    /// Pages that a scan skips.
    pub(super) fn known(&self) -> &HashSet<SentPage> {
        &self.known
    }

    /// Removes a page that left its file, or that a scan must find again.
    pub(super) fn forget(&mut self, page: &SentPage) {
        self.known.remove(page);
    }

    /// Whether the file may have pages of the partition that the queue does not hold.
    pub(super) fn has_unread(&self) -> bool {
        self.has_unread
    }

    pub(super) fn set_unread(&mut self, has_unread: bool) {
        self.has_unread = has_unread;
    }

    /// Whether the last request failed.
    pub(super) fn is_failing(&self) -> bool {
        self.backoff.failures() > 0
    }

    /// When requests may be sent again, if not now.
    pub(super) fn resume(&self, now: Instant) -> Option<Instant> {
        self.resume.filter(|resume| *resume > now)
    }

    /// Sends no request before `until`.
    pub(super) fn pause(&mut self, until: Instant) {
        self.resume = Some(until);
    }

    /// Pauses after a failure, at least for as long as the service `named`. Returns the number of failures in a row.
    pub(super) fn failed(&mut self, named: Option<Duration>, now: Instant) -> u32 {
        self.resume = Some(now + self.backoff.failed(named));
        self.backoff.failures()
    }

    pub(super) fn succeeded(&mut self) {
        self.backoff.succeeded();
        self.resume = None;
    }

    pub(super) fn request_began(&mut self) {
        self.under_way += 1;
    }

    pub(super) fn request_ended(&mut self) {
        self.under_way -= 1;
    }

    /// Stores a request for a retry.
    pub(super) fn push_retry(&mut self, request: TransactionRequest) {
        self.retries.push_back(request);
    }

    pub(super) fn pop_retry(&mut self) -> Option<TransactionRequest> {
        self.retries.pop_front()
    }

    /// Bytes of the requests that wait for a retry.
    pub(super) fn retry_bytes(&self) -> usize {
        self.retries.iter().map(TransactionRequest::bytes).sum()
    }

    /// Adds pages and keeps the order. A page whose first rows were sent stays in front.
    pub(super) fn add(&mut self, pages: impl IntoIterator<Item = QueuedPage>, newest_first: bool) {
        let started = self.pages.pop_front_if(|page| page.next_row > 0);
        for page in pages {
            self.known.insert(page.head.sent());
            self.pages.push_back(page);
        }
        let order = |page: &QueuedPage| if newest_first { -page.head.seq() } else { page.head.seq() };
        // A stable sort: the pages of one commit keep their order.
        self.pages.make_contiguous().sort_by_key(order);
        if let Some(started) = started {
            self.pages.push_front(started);
        }
    }

    /// Whether the partition has no rows waiting or in flight, and no pages to remove.
    pub(super) fn is_over(&self) -> bool {
        let is_empty = self.pages.is_empty() && self.retries.is_empty() && self.under_way == 0;
        is_empty && self.known.is_empty() && !self.has_unread
    }

    /// Sort key of the ready queues: the commit of the next row; retries come first.
    pub(super) fn order(&self, newest_first: bool) -> i64 {
        match self.pages.front().map(|page| page.head.seq()) {
            _ if !self.retries.is_empty() => i64::MIN,
            Some(seq) if newest_first => -seq,
            Some(seq) => seq,
            None => i64::MAX,
        }
    }

    /// When the queue has rows to send. A full transaction is sent at once, and so is any transaction while the file
    /// has more pages. Otherwise rows wait `fill` for more rows.
    pub(super) fn demand(&self, now: Instant, fill: Duration) -> Demand {
        // After a failure, one request probes the partition.
        let parallel = if self.is_failing() { 1 } else { PARALLEL };
        if self.under_way >= parallel {
            return Demand::Nothing;
        }
        let due = match self.pages.front() {
            _ if !self.retries.is_empty() => now,
            None => return Demand::Nothing,
            Some(_) if self.is_blocked => return Demand::Nothing,
            Some(first) => {
                let mut rows = 0;
                let is_full = self.pages.iter().any(|page| {
                    rows += page.rows_left();
                    rows >= FULL
                });
                if is_full || self.has_unread { now } else { first.found + fill }
            }
        };
        let due = self.resume.map_or(due, |resume| due.max(resume));
        if due <= now { Demand::Now } else { Demand::At(due) }
    }

    /// The next transaction, as full as possible. `None` if the queue cannot send now.
    pub(super) fn build(
        &mut self,
        id: QueueId,
        account: &StorageAccount,
        table: &str,
        mut read: impl FnMut(&WaitingPage) -> PageRead,
    ) -> NextTransaction {
        let mut transaction = Transaction::new(account, table, &self.partition);
        let (mut rows, mut next): (Vec<QueuedRow>, _) = (Vec::new(), NextTransaction::default());
        'pages: while let Some(queued) = self.pages.front_mut() {
            let page = match &queued.page {
                Some(page) => page.clone(),
                None => match read(&queued.head) {
                    PageRead::Page(page) => {
                        queued.page = Some(page.clone());
                        page
                    }
                    PageRead::Unavailable => {
                        self.resume = Some(Instant::now() + READ_AGAIN);
                        break 'pages;
                    }
                    outcome => {
                        let queued = self.pages.pop_front();
                        let gone = queued.filter(|_| matches!(outcome, PageRead::Gone));
                        next.gone.extend(gone.map(|queued| (queued.number, queued.head.sent())));
                        continue;
                    }
                },
            };
            while queued.next_row < page.len() {
                let row = QueuedRow { number: queued.number, page: page.clone(), index: queued.next_row };
                let key = row.key();
                if self.keys.contains(&key) {
                    self.is_blocked = rows.is_empty();
                    break 'pages;
                }
                // A record of several rows has a transaction of its own, if it fits into one.
                let is_large =
                    key.item() == 0 && page.keys().get(queued.next_row + 1).is_some_and(|key| key.item() > 0);
                if is_large && !rows.is_empty() {
                    break 'pages;
                }
                match entity::push(&mut transaction, &page, queued.next_row) {
                    Pushed::Added => {
                        self.keys.insert(key);
                        rows.push(row);
                    }
                    Pushed::Full => break 'pages,
                    Pushed::TooLarge => next.too_large.push(row),
                }
                queued.next_row += 1;
            }
            self.pages.pop_front();
        }
        if !rows.is_empty() {
            next.request = Some(TransactionRequest::new(id, rows, transaction.seal()));
        }
        next
    }

    /// The rows are no longer in flight, so other rows with their keys may be sent.
    pub(super) fn release_keys(&mut self, rows: &[QueuedRow]) {
        for row in rows {
            self.keys.remove(&row.key());
        }
        self.is_blocked = false;
    }

    /// Frees the memory of the queue. A later scan finds the pages again in the file.
    pub(super) fn unload(&mut self) -> Vec<PageNumber> {
        let mut numbers: Vec<PageNumber> = Vec::new();
        for page in self.pages.drain(..) {
            self.known.remove(&page.head.sent());
            numbers.push(page.number);
        }
        for request in self.retries.drain(..) {
            for row in &request.rows {
                self.keys.remove(&row.key());
                numbers.push(row.number);
            }
        }
        self.is_blocked = false;
        self.has_unread = true;
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }
}

/// The result of [`PartitionQueue::build`].
#[derive(Default)]
pub(super) struct NextTransaction {
    pub(super) request: Option<TransactionRequest>,
    /// Pages that are no longer in the file.
    pub(super) gone: Vec<(PageNumber, SentPage)>,
    /// Rows too large for any transaction.
    pub(super) too_large: Vec<QueuedRow>,
}

#[cfg(test)]
mod tests {
    use super::super::request::tests::account;
    use super::*;
    use daytable_model::batch::Batch;
    use daytable_model::key::{DayTable, Period, TableName};
    use daytable_model::record::Record;
    use daytable_model::time::Ticks;
    use daytable_store::outbox::{OutboxLevel, OutboxOptions, OutboxPosition, OutboxReader};
    use daytable_store::{Ack, Forwarding, Store, StoreOptions, Submission};
    use std::sync::mpsc;

    const FILL: Duration = Duration::from_secs(1);

    /// An outbox of one partition, and its queue.
    struct Outbox {
        _dir: tempfile::TempDir,
        store: Store,
        unsent: OutboxReader,
        seen: OutboxPosition,
        queue: PartitionQueue,
        serials: PageNumber,
    }

    impl Outbox {
        fn new() -> Outbox {
            let dir = tempfile::tempdir().expect("a folder");
            let onward = Forwarding::To(OutboxOptions {
                stays: TableName::new("DeadLetter").expect("a name"),
                bytes_max: u64::MAX,
                age_max: None,
                drops_oldest: false,
                level: Arc::new(OutboxLevel::default()),
                on_commit: Box::new(|| {}),
            });
            let store = Store::open(dir.path(), StoreOptions { forwarding: onward, ..StoreOptions::default() })
                .expect("opened");
            let unsent = OutboxReader::open(dir.path()).expect("opened");
            let queue = PartitionQueue::new("file".into(), 1, "web".into(), 1);
            Outbox { _dir: dir, store, unsent, seen: OutboxPosition::default(), queue, serials: 0 }
        }

        /// Commits rows at these positions and adds them to the queue.
        fn write(&mut self, positions: std::ops::Range<u64>, now: Instant) {
            let day = Ticks::from_date(2026, 11, 1).expect("a date");
            let table = DayTable::at(&TableName::new("Log").expect("a name"), Period::Day, day);
            let mut batch = Batch::new(table, "web".into());
            for position in positions {
                let record = Record { message: "text".into(), ..Record::default() };
                daytable_model::entity::append(&mut batch, RowKey::new(day, 7, position), "app.log", &record);
            }
            let (sent, received) = mpsc::channel();
            let done = Ack::awaited(move |committed| sent.send(committed).expect("heard"));
            self.store
                .commit_queue()
                .submit(Submission { batches: vec![batch], ack: done, ..Submission::default() })
                .expect("taken");
            assert_eq!(received.recv(), Ok(true));
            let file = self.unsent.files().expect("read").remove(0);
            let news = self.unsent.new_pages(&file, &mut self.seen).expect("read");
            let mut heads = news.pages;
            for partition in news.behind {
                heads.extend(self.unsent.pages_of(&file, partition, &self.queue.known, 100, false).expect("read").0);
            }
            let pages: Vec<QueuedPage> = heads
                .into_iter()
                .map(|head| {
                    self.serials += 1;
                    QueuedPage::new(self.serials, head, now)
                })
                .collect();
            self.queue.add(pages, false);
        }

        fn build(&mut self) -> Option<TransactionRequest> {
            let file = self.unsent.files().expect("read").remove(0);
            let unsent = &self.unsent;
            let read =
                |head: &WaitingPage| PageRead::Page(Arc::new(unsent.read(&file, head).expect("read").expect("there")));
            self.queue.build(1, &account(), "Log20261101", read).request
        }
    }

    #[test]
    fn a_transaction_waits_until_it_is_full_and_takes_rows_of_several_pages() {
        let (mut outbox, now) = (Outbox::new(), Instant::now());
        outbox.write(0..30, now);
        assert_eq!(outbox.queue.demand(now, FILL), Demand::At(now + FILL));
        assert_eq!(outbox.queue.demand(now + FILL, FILL), Demand::Now);
        outbox.write(30..90, now);
        assert_eq!(outbox.queue.demand(now, FILL), Demand::At(now + FILL));
        outbox.write(90..130, now);
        assert_eq!(outbox.queue.demand(now, FILL), Demand::Now);
        let first = outbox.build().expect("a transaction");
        assert_eq!((first.rows.len(), first.sealed.len()), (100, 100));
        // The oldest commit is sent first; the other rows wait again.
        assert!(first.rows[..90].iter().all(|row| row.key().position() < 90));
        assert_eq!(outbox.queue.demand(now, FILL), Demand::At(now + FILL));
        assert_eq!(outbox.build().expect("the rest").rows.len(), 30);
        assert!(outbox.build().is_none());
        outbox.store.close().expect("closed");
    }

    #[test]
    fn a_row_waits_for_an_older_one_of_its_key_that_is_under_way() {
        let (mut outbox, now) = (Outbox::new(), Instant::now());
        outbox.write(0..2, now);
        let older = outbox.build().expect("a transaction");
        outbox.write(1..3, now);
        let newer = outbox.build().expect("what is not of that key");
        assert_eq!(newer.rows.iter().map(|row| row.key().position()).collect::<Vec<_>>(), [2]);
        assert!(outbox.build().is_none());
        assert_eq!(outbox.queue.demand(now + FILL, FILL), Demand::Nothing);
        outbox.queue.release_keys(&older.rows);
        assert_eq!(outbox.queue.demand(now + FILL, FILL), Demand::Now);
        assert_eq!(outbox.build().expect("the newer row").rows[0].key().position(), 1);
        outbox.store.close().expect("closed");
    }

    #[test]
    fn pages_of_an_unloaded_queue_are_found_again() {
        let (mut outbox, now) = (Outbox::new(), Instant::now());
        outbox.write(0..150, now);
        let request = outbox.build().expect("a transaction");
        outbox.queue.push_retry(request);
        let forgotten = outbox.queue.unload();
        assert_eq!(forgotten.len() as u64, outbox.serials);
        assert!(outbox.queue.known.is_empty() && outbox.queue.has_unread && !outbox.queue.is_over());
        outbox.seen = OutboxPosition::default();
        outbox.write(150..160, now);
        let rows = std::iter::from_fn(|| outbox.build()).map(|request| request.rows.len()).sum::<usize>();
        assert_eq!(rows, 160);
        outbox.store.close().expect("closed");
    }
}
