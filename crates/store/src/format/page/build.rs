//! Builds pages of the rows that wait for one partition.

use super::super::commit_range::CommitRange;
use super::bits::put_varint;
use super::columns_builder::ColumnsBuilder;
use super::read::Page;
use super::sections::{ClosedBody, Sections};
use super::source_row::{RowSource, SourceRow};
use super::value_counts::COUNTED_MIN;
use super::{
    EncodedPage, PAGE_BYTES, PAGE_SPAN, PageHeader, RAW_BYTES_MAX, ROW_BYTES, column, extents, ints, keys, levels,
};
use daytable_model::batch::Batch;
use daytable_model::key::RowKey;
use daytable_model::record::Level;
use daytable_model::stream::STREAM;
use daytable_platform::in_parallel::on_cores;
use std::cell::RefCell;
use std::sync::Arc;

/// The pages of all pushed rows.
#[derive(Debug)]
pub struct BuiltPages {
    /// In the order of their keys, newest first.
    pub pages: Vec<EncodedPage>,
    /// Rows that were replaced by a later one with the same key.
    pub duplicates: u64,
}

/// Collects rows of one partition. It borrows them: rows are copied only when a page is written.
#[derive(Default)]
pub struct PageBuilder<'a> {
    parts: Vec<RowSource<'a>>,
    rows: Vec<SourceRow<'a>>,
}

impl<'a> PageBuilder<'a> {
    /// An empty builder.
    pub fn new() -> PageBuilder<'a> {
        PageBuilder::default()
    }

    /// Adds the rows of a batch. Of equal keys, the row pushed last wins.
    pub fn push_batch(&mut self, batch: &'a Batch) {
        let part = count(self.parts.len());
        self.parts.push(RowSource::Batch(batch));
        self.rows.extend(batch.rows().map(|row| SourceRow::OfBatch(row, part)));
    }

    /// Adds the rows of a partition that wait for a commit, in the order of their arrival.
    pub(crate) fn push_waiting(&mut self, waiting: &WaitingRows<'a>) {
        let mut last = None;
        waiting.each(|piece| match piece {
            RowPiece::Batch(batch) => self.push_batch(batch),
            RowPiece::Row(batch, row) => {
                let part = match last {
                    Some((known, part)) if std::ptr::eq(known, batch) => part,
                    _ => {
                        self.parts.push(RowSource::Batch(batch));
                        count(self.parts.len() - 1)
                    }
                };
                last = Some((batch, part));
                self.rows.push(SourceRow::OfBatch(batch.row(row.row as usize), part));
            }
        });
    }

    /// Adds the rows of a page. Of equal keys, the row pushed last wins, so push the page of the older commit first.
    pub fn push_page(&mut self, page: &'a Page) {
        let part = count(self.parts.len());
        self.parts.push(RowSource::Page(page));
        self.rows.extend((0..count(page.len())).map(|row| SourceRow::OfPage(page, row, part)));
    }

    /// Adds some rows of a page, in their order, as [`PageBuilder::push_page`] does.
    pub(crate) fn push_rows(&mut self, page: &'a Page, rows: &[u32]) {
        let part = count(self.parts.len());
        self.parts.push(RowSource::Page(page));
        self.rows.extend(rows.iter().map(|row| SourceRow::OfPage(page, *row, part)));
    }

    /// Sorts the rows and builds pages of them.
    pub fn build(mut self) -> BuiltPages {
        // Files are read oldest first: one descending run, which the sort detects and reverses.
        self.rows.sort_by_key(SourceRow::key);
        let pushed = self.rows.len();
        self.rows.dedup_by(|later, kept| {
            let same = later.key() == kept.key();
            if same {
                std::mem::swap(later, kept);
            }
            same
        });
        let duplicates = (pushed - self.rows.len()) as u64;
        let mut columns = ColumnsBuilder::new(&self.parts);
        let mut pages = Vec::new();
        let mut rest = self.rows.as_slice();
        while !rest.is_empty() {
            let (length, raw_bytes) = cut(rest);
            let (rows, next) = rest.split_at(length);
            rest = next;
            pages.push(SCRATCH.with_borrow_mut(|scratch| encode(rows, raw_bytes, &mut columns, scratch, None)));
        }
        BuiltPages { pages, duplicates }
    }
}

/// A page with rows of many partitions.
pub(crate) struct BuiltSharedPage {
    pub(crate) page: EncodedPage,
    /// Its partitions in the order of their numbers in the page, each with its number of rows.
    pub(crate) partitions: Vec<(Arc<str>, u32)>,
}

/// The rows of a partition that wait for a commit.
pub(crate) struct WaitingRows<'a> {
    pub(crate) partition: &'a Arc<str>,
    /// Batches of this partition alone.
    pub(crate) batches: &'a [Batch],
    /// Its rows in batches of many partitions.
    pub(crate) rows: &'a [RowOfMany],
    /// The batches of many partitions.
    pub(crate) of_many: &'a [Batch],
}

/// A row in a batch of many partitions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RowOfMany {
    /// The number of the batch.
    pub(crate) batch: u32,
    pub(crate) row: u32,
    /// How many batches of its partition alone came before it.
    pub(crate) after: u32,
}

enum RowPiece<'a> {
    Batch(&'a Batch),
    Row(&'a Batch, RowOfMany),
}

impl<'a> WaitingRows<'a> {
    /// The keys of all rows.
    pub(crate) fn keys(&self) -> impl Iterator<Item = RowKey> {
        let of_many = self.rows.iter().map(|row| self.of_many[row.batch as usize].row(row.row as usize).key);
        self.batches.iter().flat_map(|batch| batch.rows().map(|row| row.key)).chain(of_many)
    }

    /// Passes all rows on, in the order of their arrival.
    fn each(&self, mut pass: impl FnMut(RowPiece<'a>)) {
        let mut rows = self.rows.iter().peekable();
        for number in 0..=self.batches.len() {
            while let Some(row) = rows.next_if(|row| row.after as usize <= number) {
                pass(RowPiece::Row(&self.of_many[row.batch as usize], *row));
            }
            self.batches.get(number).into_iter().for_each(|batch| pass(RowPiece::Batch(batch)));
        }
    }
}

/// The rows of a page that is to be built, the numbers of their partitions, and their bytes.
struct PlannedPage<'l, 'a> {
    rows: &'l [SourceRow<'a>],
    partitions: &'l [u32],
    raw_bytes: usize,
}

/// Builds pages of the rows of many partitions by this many cores, in the order of their keys. Of equal keys of a
/// partition, the row that arrived last wins.
///
/// The keys of a page ascend. So a record whose key another partition has, too, goes to another page.
pub(crate) fn build_shared(waiting: &[WaitingRows<'_>], cores: usize) -> Vec<BuiltSharedPage> {
    let mut parts: Vec<RowSource<'_>> = Vec::new();
    // The part of each batch of many partitions.
    let mut known = vec![None; waiting.first().map_or(0, |first| first.of_many.len())];
    let mut rows: Vec<(SourceRow<'_>, u32)> = Vec::new();
    for (partition, waiting) in (0..).zip(waiting) {
        waiting.each(|piece| match piece {
            RowPiece::Batch(batch) => {
                let part = count(parts.len());
                parts.push(RowSource::Batch(batch));
                rows.extend(batch.rows().map(|row| (SourceRow::OfBatch(row, part), partition)));
            }
            RowPiece::Row(batch, row) => {
                let part = *known[row.batch as usize].get_or_insert_with(|| {
                    parts.push(RowSource::Batch(batch));
                    count(parts.len() - 1)
                });
                rows.push((SourceRow::OfBatch(batch.row(row.row as usize), part), partition));
            }
        });
    }
    rows.sort_by_key(|(row, _)| row.key());
    let mut planned = Vec::new();
    let lists = by_rank(rows, waiting.len());
    for RowsOfPages { rows, partitions } in &lists {
        let (mut rest, mut rest_partitions) = (rows.as_slice(), partitions.as_slice());
        while !rest.is_empty() {
            let (length, raw_bytes) = cut(rest);
            let (of_page, next) = rest.split_at(length);
            let (partitions, next_partitions) = rest_partitions.split_at(length);
            planned.push(PlannedPage { rows: of_page, partitions, raw_bytes });
            (rest, rest_partitions) = (next, next_partitions);
        }
    }
    let of_thread = planned.len().div_ceil(cores).max(1);
    let shares: Vec<_> = planned.chunks(of_thread).collect();
    let built = on_cores(cores, shares, |share| encode_shared(share, waiting, &parts));
    built.into_iter().flatten().collect()
}

/// Rows in the order of their keys, and their partitions.
#[derive(Default)]
struct RowsOfPages<'a> {
    rows: Vec<SourceRow<'a>>,
    partitions: Vec<u32>,
}

/// Takes rows apart, sorted by key, so that no record has the key of another one. Records of one key go by the order of
/// their partitions to the first list, the second, and so on.
fn by_rank<'a>(rows: Vec<(SourceRow<'a>, u32)>, partitions: usize) -> Vec<RowsOfPages<'a>> {
    let mut lists =
        vec![RowsOfPages { rows: Vec::with_capacity(rows.len()), partitions: Vec::with_capacity(rows.len()) }];
    // The last run of records with one key that each partition had a part in, and which of its partitions it was.
    let mut ranks = vec![(0, 0); partitions];
    let (mut run, mut key, mut next) = (0, None, 0);
    for (row, partition) in rows {
        let of_record = row.key().with_item(0);
        if key != Some(of_record) {
            (run, key, next) = (run + 1, Some(of_record), 0);
        }
        let (of_run, rank) = &mut ranks[partition as usize];
        if *of_run != run {
            (*of_run, *rank) = (run, next);
            next += 1;
        }
        if lists.len() == *rank {
            lists.push(RowsOfPages::default());
        }
        let list = &mut lists[*rank];
        match list.rows.last_mut() {
            Some(last) if last.key() == row.key() => *last = row,
            _ => {
                list.rows.push(row);
                list.partitions.push(partition);
            }
        }
    }
    lists
}

/// Encodes pages of rows of these partitions.
fn encode_shared<'a>(
    pages: &[PlannedPage<'_, 'a>],
    waiting: &[WaitingRows<'_>],
    parts: &[RowSource<'a>],
) -> Vec<BuiltSharedPage> {
    let mut columns = ColumnsBuilder::new(parts);
    // The number of each partition in the page that is being built.
    let mut places: Vec<u32> = vec![u32::MAX; waiting.len()];
    let mut built = Vec::with_capacity(pages.len());
    for PlannedPage { rows, partitions: of_rows, raw_bytes } in pages {
        let mut partitions: Vec<(Arc<str>, u32)> = Vec::new();
        let mut owners = Vec::with_capacity(rows.len());
        for partition in *of_rows {
            let place = &mut places[*partition as usize];
            if *place == u32::MAX {
                *place = count(partitions.len());
                partitions.push((waiting[*partition as usize].partition.clone(), 0));
            }
            partitions[*place as usize].1 += 1;
            owners.push(i64::from(*place));
        }
        of_rows.iter().for_each(|partition| places[*partition as usize] = u32::MAX);
        let owners = Some(owners.as_slice());
        let page = SCRATCH.with_borrow_mut(|scratch| encode(rows, *raw_bytes, &mut columns, scratch, owners));
        built.push(BuiltSharedPage { page, partitions });
    }
    built
}

/// Adjacent batches of one partition each, as rows that wait for a commit.
#[cfg(test)]
pub(crate) fn waiting_rows(batches: &[Batch]) -> Vec<WaitingRows<'_>> {
    let of = batches.chunk_by(|a, b| a.partition == b.partition);
    of.map(|batches| WaitingRows { partition: &batches[0].partition, batches, rows: &[], of_many: &[] }).collect()
}

/// Builds a page of some rows of a page of many partitions, in their order, each with the new number of its partition.
pub(crate) fn build_rest(page: &Page, rows: &[u32], owners: &[i64]) -> EncodedPage {
    let parts = [RowSource::Page(page)];
    let rows: Vec<SourceRow<'_>> = rows.iter().map(|row| SourceRow::OfPage(page, *row, 0)).collect();
    let raw_bytes = rows.iter().map(SourceRow::bytes).sum();
    let mut columns = ColumnsBuilder::new(&parts);
    SCRATCH.with_borrow_mut(|scratch| encode(&rows, raw_bytes, &mut columns, scratch, Some(owners)))
}

/// The number of rows of the next page, and their bytes. A master and its items stay together.
fn cut(rows: &[SourceRow<'_>]) -> (usize, usize) {
    let mut bytes = 0;
    for (at, row) in rows.iter().enumerate() {
        let more = bytes + row.bytes();
        let begins_record = at > 0 && row.key().with_item(0) != rows[at - 1].key().with_item(0);
        let too_long = || rows[0].key().time().since(row.key().time()) > PAGE_SPAN;
        if begins_record && (more > PAGE_BYTES || too_long()) || at > 0 && more > RAW_BYTES_MAX {
            return (at, bytes);
        }
        bytes = more;
    }
    (rows.len(), bytes)
}

/// Batches, rows of a page and its bytes ([`RAW_BYTES_MAX`]) fit 32 bits.
fn count(n: usize) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

thread_local! {
    /// Buffers that a thread reuses for every page.
    static SCRATCH: RefCell<Sections> = RefCell::default();
}

/// Frees the buffers of this thread until it builds the next page.
pub(crate) fn release_memory() {
    SCRATCH.take();
}

fn encode<'a>(
    rows: &[SourceRow<'a>],
    raw_bytes: usize,
    columns: &mut ColumnsBuilder<'_, 'a>,
    out: &mut Sections,
    owners: Option<&[i64]>,
) -> EncodedPage {
    out.clear();
    let keys: Vec<RowKey> = rows.iter().map(|row| row.key()).collect();
    keys::encode(&keys, out);
    let codes: Vec<i64> = rows.iter().map(|row| level_code(row.level())).collect();
    ints::encode(&codes, out);
    columns.gather(rows);
    let has_streams = columns.has(STREAM);
    let has_items = || keys.iter().any(|key| key.item() > 0);
    // Values and words are of records that their rows describe.
    let is_counted = raw_bytes >= COUNTED_MIN && !has_items() && !columns.has_spread();
    let level_codes = || rows.iter().map(|row| row.level().map_or(0, Level::code)).collect::<Vec<u8>>();
    let counts = if is_counted { columns.count_values(&level_codes()) } else { None };
    out.words.begin(is_counted);
    columns.encode(out);
    if let Some(owners) = owners {
        ints::encode(owners, out);
    }
    let words = out.words.end();
    let mut levels = levels::encode(rows.iter().map(|row| (row.key(), row.level())));
    extents::add(&mut levels, &keys);
    if has_streams {
        levels::add_streams(&mut levels);
    }
    EncodedPage { counts, words, ..close(out, &keys, levels, raw_bytes) }
}

/// Builds the page of a batch with a single row: the same page as from a [`PageBuilder`], without the work of merging
/// rows. `None` if the batch has another number of rows.
pub(crate) fn build_only(batch: &Batch) -> Option<EncodedPage> {
    let mut rows = batch.rows();
    let (Some(row), None) = (rows.next(), rows.next()) else { return None };
    SCRATCH.with_borrow_mut(|out| {
        out.clear();
        keys::encode(&[row.key], out);
        ints::encode(&[level_code(row.level)], out);
        put_varint(&mut out.meta, row.properties().count() as u64);
        let mut levels = levels::encode(std::iter::once((row.key, row.level)));
        for (name, value) in row.properties() {
            let name = &batch.names()[usize::from(name)];
            column::encode_only(name, value, out);
            if **name == *STREAM {
                levels::add_streams(&mut levels);
            }
        }
        let raw_bytes = ROW_BYTES + row.bytes();
        Some(close(out, &[row.key], levels, raw_bytes))
    })
}

/// Calls `build` with the buffers of this thread.
pub(super) fn with_buffers<T>(build: impl FnOnce(&mut Sections) -> T) -> T {
    SCRATCH.with_borrow_mut(build)
}

fn level_code(level: Option<Level>) -> i64 {
    level.map_or(0, |level| i64::from(level.code()))
}

/// Builds the page of the written sections.
pub(super) fn close(sections: &mut Sections, keys: &[RowKey], levels: Vec<u8>, raw_bytes: usize) -> EncodedPage {
    let ClosedBody { body, front, codec, text_bytes } = sections.close();
    let mut header = PageHeader {
        first: keys[0],
        last: keys[keys.len() - 1],
        entities: count(keys.len()),
        records: count(keys.iter().filter(|key| key.item() == 0).count()),
        levels,
        codec,
        raw_bytes: count(raw_bytes.max(text_bytes)),
        commits: CommitRange::default(),
        checksum: 0,
    };
    header.checksum = header.checksum_of_front(&body[..front]);
    EncodedPage { header, body, counts: None, words: None }
}
