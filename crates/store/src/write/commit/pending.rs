//! The contents of the next commit: submissions, and the pages that are built of their rows.
//!
//! A page is built as soon as its partition has enough rows. The other rows wait for the commit, where all cores build
//! their pages: with a thousand instances these are most of all pages, and building them is most of a commit's work.

use crate::format::catalog::accounting::SourceReceipt;
use crate::format::day_file::{Insert, PageOwner, TINY_BYTES};
use crate::format::page::{self, BuiltSharedPage, PAGE_BYTES, PageBuilder, RowOfMany, WaitingRows};
use crate::forward::intervals::{HostAdvance, ReceivedCommits};
use crate::forward::position::FolderOrigin;
use crate::forward::received_page::ReceivedPage;
use crate::source::SourceState;
use crate::write::idempotency::PendingKeys;
use crate::write::options::CommitReport;
use crate::write::queue::{Ack, Submission};
use daytable_model::batch::Batch;
use daytable_model::key::DayTable;
use daytable_model::source_id::SourceId;
use daytable_model::time::Ticks;
use daytable_platform::in_parallel::{cores, on_cores};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Instant;

/// Raw bytes of waiting rows from which a commit starts before its interval is over.
const RAW_BYTES_MAX: usize = 16 << 20;
/// Bytes of finished pages from which a commit starts before its interval is over.
const PAGE_BYTES_WAITING_MAX: usize = 8 << 20;
/// Raw bytes from which rows are worth another thread that builds their pages.
const SHARE_BYTES: usize = 1 << 20;

/// The contents of the next commit.
#[derive(Default)]
pub(super) struct Pending {
    waiting: HashMap<(DayTable, Arc<str>), Waiting, foldhash::quality::RandomState>,
    /// Batches of many partitions, with rows of those in `waiting`.
    of_many: Vec<Batch>,
    pub(super) pages: HashMap<DayTable, Vec<Insert>, foldhash::quality::RandomState>,
    pub(super) sources: HashMap<SourceId, Arc<SourceState>, foldhash::quality::RandomState>,
    pub(super) acks: Vec<Ack>,
    pub(super) keys: PendingKeys,
    /// Hosts that forward here, with what is received of them by this commit.
    pub(super) hosts: HashMap<FolderOrigin, HostAdvance<ReceivedCommits>, foldhash::quality::RandomState>,
    /// Whether a caller waits for this commit.
    pub(super) is_awaited: bool,
    pub(super) newest: Option<Ticks>,
    /// The number of submitted records.
    pub(super) records: u64,
    /// Receipts of senders that are not sources of the catalog.
    pub(super) receipts: Vec<SourceReceipt>,
    /// Expired days that imports keep, and until when.
    pub(super) kept: Vec<(DayTable, Ticks)>,
    raw_bytes: usize,
    page_bytes: usize,
    pub(super) since: Option<Instant>,
    pub(super) report: CommitReport,
}

/// Rows of one partition.
#[derive(Default)]
struct Waiting {
    batches: Vec<Batch>,
    /// Rows in batches of many partitions.
    rows: Vec<RowOfMany>,
    bytes: usize,
    /// Whether earlier pages of the commit belong to this partition.
    is_continued: bool,
}

impl Waiting {
    fn of<'a>(&'a self, partition: &'a Arc<str>, of_many: &'a [Batch]) -> WaitingRows<'a> {
        WaitingRows { partition, batches: &self.batches, rows: &self.rows, of_many }
    }

    /// Its rows, which become pages. Later ones continue these.
    fn take(&mut self) -> Waiting {
        std::mem::replace(self, Waiting { is_continued: true, ..Waiting::default() })
    }
}

impl Pending {
    pub(super) fn is_empty(&self) -> bool {
        self.since.is_none()
    }

    /// Adds a submission. Of a host's, `received` is what is received of it with this one.
    pub(super) fn add(&mut self, submission: Submission, received: Option<ReceivedCommits>) {
        self.since.get_or_insert_with(Instant::now);
        let Submission { batches, pages, advances, ack, newest, idempotency, receipts, kept, host, .. } = submission;
        self.kept.extend(kept);
        let records = batches.iter().map(Batch::records).chain(pages.iter().map(ReceivedPage::records)).sum();
        self.records += records;
        let is_anonymous = receipts.is_empty() && advances.is_empty() && records > 0;
        for receipt in
            receipts.into_iter().chain(is_anonymous.then(|| SourceReceipt::records("daytable", "copy", records)))
        {
            self.add_receipt(receipt);
        }
        self.newest = self.newest.max(newest);
        self.waiting.reserve(batches.len());
        let mut pages = pages.into_iter().peekable();
        for (before, batch) in batches.into_iter().enumerate() {
            while let Some(page) = pages.next_if(|page| page.after <= before) {
                self.add_page(page);
            }
            self.add_batch(batch);
        }
        pages.for_each(|page| self.add_page(page));
        self.sources.reserve(advances.len());
        for advance in advances {
            self.sources.insert(advance.identity, advance);
        }
        if let Some(key) = idempotency {
            self.keys.add(key);
        }
        if let Some((HostAdvance { origin, records, expired, .. }, step)) = host.zip(received) {
            self.advance_host(HostAdvance { origin, step, records, expired });
        }
        self.is_awaited |= ack.is_awaited();
        if ack.has_callback() {
            self.acks.push(ack);
        }
    }

    fn advance_host(&mut self, advance: HostAdvance<ReceivedCommits>) {
        match self.hosts.get_mut(&advance.origin) {
            Some(known) => {
                let (records, expired) = (known.records + advance.records, known.expired + advance.expired);
                *known = HostAdvance { records, expired, ..advance };
            }
            None => drop(self.hosts.insert(advance.origin, advance)),
        }
    }

    fn add_receipt(&mut self, receipt: SourceReceipt) {
        match self.receipts.iter_mut().find(|known| (known.kind, &known.name) == (receipt.kind, &receipt.name)) {
            Some(known) => {
                known.records += receipt.records;
                known.bytes += receipt.bytes;
                known.losses.extend(receipt.losses);
            }
            None => self.receipts.push(receipt),
        }
    }

    /// Adds a page. Waiting rows with keys of its range become pages before it.
    fn add_page(&mut self, received: ReceivedPage) {
        let ReceivedPage { table, partition, page, .. } = received;
        self.report.batches += 1;
        self.report.rows += u64::from(page.header.entities);
        let key = (table, partition);
        if let Some(waiting) = self.waiting.get_mut(&key) {
            let keys = page.header.first..=page.header.last;
            if waiting.of(&key.1, &self.of_many).keys().any(|key| keys.contains(&key)) {
                let earlier = waiting.take();
                self.add_pages_of((&key.0, &key.1), &earlier);
            }
        }
        let (table, partition) = key;
        self.add_pages([(table, Insert { owner: PageOwner::One(partition), page })]);
    }

    fn add_batch(&mut self, batch: Batch) {
        let bytes = batch.bytes();
        self.report.batches += 1;
        self.report.rows += batch.len() as u64;
        self.raw_bytes += bytes;
        if batch.is_of_many() {
            return self.add_rows_of(batch);
        }
        let key = (batch.table.clone(), batch.partition.clone());
        let waiting = self.waiting.entry(key).or_default();
        waiting.bytes += bytes;
        // It usually stays the only one, and is large.
        waiting.batches.reserve_exact(usize::from(waiting.batches.is_empty()));
        waiting.batches.push(batch);
        if waiting.bytes >= PAGE_BYTES {
            let full = waiting.take();
            let Batch { table, partition, .. } = &full.batches[0];
            self.add_pages_of((table, partition), &full);
        }
    }

    /// Builds the pages of waiting rows of a table and partition.
    fn add_pages_of(&mut self, (table, partition): (&DayTable, &Arc<str>), rows: &Waiting) {
        // Batches of many partitions stay until the commit.
        self.raw_bytes -= rows.batches.iter().map(Batch::bytes).sum::<usize>();
        let pages = pages_of_one(table, &rows.of(partition, &self.of_many));
        self.add_pages(pages);
    }

    /// Adds the rows of a batch of many partitions.
    fn add_rows_of(&mut self, batch: Batch) {
        let number = u32::try_from(self.of_many.len()).unwrap_or(u32::MAX);
        for (row, at) in (0..batch.len()).zip(0..) {
            let key = (batch.table.clone(), batch.partition_of(row).clone());
            let waiting = self.waiting.entry(key).or_default();
            waiting.bytes += batch.bytes_of(row);
            // It usually stays the only one.
            waiting.rows.reserve_exact(usize::from(waiting.rows.is_empty()));
            let after = u32::try_from(waiting.batches.len()).unwrap_or(u32::MAX);
            waiting.rows.push(RowOfMany { batch: number, row: at, after });
        }
        self.of_many.push(batch);
    }

    fn add_pages(&mut self, pages: impl IntoIterator<Item = (DayTable, Insert)>) {
        for (table, insert) in pages {
            let page = &insert.page;
            self.page_bytes += page.body.len();
            self.report.pages += 1;
            self.report.page_bytes += page.body.len() as u64;
            self.report.records += u64::from(page.header.records);
            self.pages.entry(table).or_default().push(insert);
        }
    }

    /// Builds pages of all waiting rows, by all cores. Partitions with few rows share pages: a commit may have a thousand
    /// of them.
    pub(super) fn build_rest(&mut self) {
        let mut few: HashMap<DayTable, (Partitions, usize), foldhash::quality::RandomState> = HashMap::default();
        let mut shares = Shares::default();
        for ((table, partition), waiting) in std::mem::take(&mut self.waiting) {
            let bytes = waiting.bytes;
            if waiting.is_continued || bytes >= TINY_BYTES as usize {
                shares.add((table, vec![(partition, waiting)]), bytes);
            } else {
                let of_table = few.entry(table).or_default();
                of_table.0.push((partition, waiting));
                of_table.1 += bytes;
            }
        }
        let of_many = std::mem::take(&mut self.of_many);
        for (table, (partitions, bytes)) in few {
            if bytes > SHARE_BYTES {
                // All cores build the pages of one table.
                self.add_pages(built_pages((table, partitions), &of_many, cores()));
            } else {
                shares.add((table, partitions), bytes);
            }
        }
        let of_share = |share: Vec<(DayTable, Partitions)>| {
            share.into_iter().flat_map(|rows| built_pages(rows, &of_many, 1)).collect::<Vec<_>>()
        };
        self.add_pages(on_cores(cores(), shares.all, of_share).into_iter().flatten());
        self.raw_bytes = 0;
    }

    pub(super) fn is_large(&self) -> bool {
        self.raw_bytes >= RAW_BYTES_MAX || self.page_bytes >= PAGE_BYTES_WAITING_MAX
    }
}

/// Partitions of a table with their rows.
type Partitions = Vec<(Arc<str>, Waiting)>;

/// Rows of a commit, in shares that are worth a thread each.
#[derive(Default)]
struct Shares {
    all: Vec<Vec<(DayTable, Partitions)>>,
    /// Bytes of the last share.
    bytes: usize,
}

impl Shares {
    fn add(&mut self, rows: (DayTable, Partitions), bytes: usize) {
        match self.all.last_mut() {
            Some(last) if self.bytes < SHARE_BYTES => {
                last.push(rows);
                self.bytes += bytes;
            }
            _ => {
                self.all.push(vec![rows]);
                self.bytes = bytes;
            }
        }
    }
}

/// Builds pages of partitions of one table: shared ones by this many cores, where there are several.
fn built_pages(
    (table, partitions): (DayTable, Partitions),
    of_many: &[Batch],
    cores: usize,
) -> Vec<(DayTable, Insert)> {
    if let [(partition, waiting)] = partitions.as_slice() {
        return pages_of_one(&table, &waiting.of(partition, of_many));
    }
    let waiting: Vec<_> = partitions.iter().map(|(partition, waiting)| waiting.of(partition, of_many)).collect();
    let insert = |BuiltSharedPage { page, partitions }| Insert { owner: PageOwner::Many(partitions), page };
    page::build_shared(&waiting, cores).into_iter().map(|built| (table.clone(), insert(built))).collect()
}

/// Builds the pages of one partition.
fn pages_of_one(table: &DayTable, waiting: &WaitingRows<'_>) -> Vec<(DayTable, Insert)> {
    let only = match (waiting.batches, waiting.rows) {
        ([only], []) => page::build_only(only),
        _ => None,
    };
    let pages = only.map_or_else(
        || {
            let mut builder = PageBuilder::new();
            builder.push_waiting(waiting);
            builder.build().pages
        },
        |only| vec![only],
    );
    let insert = |page| Insert { owner: PageOwner::One(waiting.partition.clone()), page };
    pages.into_iter().map(|page| (table.clone(), insert(page))).collect()
}
