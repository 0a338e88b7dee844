//! Rows that a scan passed over because they cannot have what is prefilter: of equal keys the later commit's row is
//! the row, so a row that is found is none where one of these has its key and is later.
//!
//! A scan goes by ascending keys, so of each page it is enough to know which of its keys is next, and of each partition
//! which page has the least. Pages that were not decoded are, once the scan is within them and has found something.

use crate::StoreError;
use crate::format::small_pages::{PageLocation, PageRow};
use daytable_model::key::RowKey;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Pages among which those are looked for that are of no more use; then twice what is left.
const MANY: usize = 64;

/// When a page was written: of two, the later is the less.
pub(crate) type Later = Reverse<(i64, PageLocation)>;

/// Pages of which rows were passed over, by their partition.
#[derive(Default)]
pub(crate) struct SupersededKeys {
    pages: HashMap<i64, BinaryHeap<Reverse<SupersededPage>>>,
    count: usize,
    full: usize,
}

/// Ordered by the next key; of equal ones the later first.
struct SupersededPage {
    next: RowKey,
    later: Later,
    last: RowKey,
    keys: Keys,
}

enum Keys {
    /// Nothing of it was read but its header.
    SourceLogError(Box<PageRow>),
    /// All, and which is next.
    Read(Box<[RowKey]>, usize),
}

impl PartialEq for SupersededPage {
    fn eq(&self, other: &SupersededPage) -> bool {
        self.cmp(other).is_eq()
    }
}

impl Eq for SupersededPage {}

impl PartialOrd for SupersededPage {
    fn partial_cmp(&self, other: &SupersededPage) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for SupersededPage {
    fn cmp(&self, other: &SupersededPage) -> std::cmp::Ordering {
        (self.next, self.later).cmp(&(other.next, other.later))
    }
}

impl SupersededKeys {
    /// Adds a page that was not decoded, where the scan is at `key`.
    pub(crate) fn add_unread(&mut self, row: Box<PageRow>, key: RowKey) {
        let (next, last, later) = (row.header.first, row.header.last, Reverse((row.seq, row.place)));
        self.add(row.partition, SupersededPage { next, later, last, keys: Keys::SourceLogError(row) }, key);
    }

    /// Adds a page with these keys, where the scan is at `key`.
    pub(crate) fn add_read(&mut self, row: &PageRow, keys: &[RowKey], key: RowKey) {
        let (next, last, later) = (row.header.first, row.header.last, Reverse((row.seq, row.place)));
        self.add(row.partition, SupersededPage { next, later, last, keys: Keys::Read(keys.into(), 0) }, key);
    }

    fn add(&mut self, partition: i64, page: SupersededPage, key: RowKey) {
        if page.last < key {
            return;
        }
        if self.count >= self.full.max(MANY) {
            self.pages.retain(|_, pages| {
                pages.retain(|Reverse(page)| page.last >= key);
                !pages.is_empty()
            });
            self.count = self.pages.values().map(BinaryHeap::len).sum();
            self.full = 2 * self.count;
        }
        self.pages.entry(partition).or_default().push(Reverse(page));
        self.count += 1;
    }

    /// Whether a later page than `later` has `key`, which is not less than any that was asked for. `read` gives the keys of
    /// a page that was not decoded.
    pub(crate) fn replace(
        &mut self,
        partition: i64,
        key: RowKey,
        later: Later,
        read: impl Fn(&PageRow) -> Result<Box<[RowKey]>, StoreError>,
    ) -> Result<bool, StoreError> {
        let Some(pages) = self.pages.get_mut(&partition) else { return Ok(false) };
        while pages.peek().is_some_and(|Reverse(page)| page.next < key)
            && let Some(Reverse(page)) = pages.pop()
        {
            let (keys, from) = match page.keys {
                _ if page.last < key => {
                    self.count -= 1;
                    continue;
                }
                Keys::SourceLogError(row) => (read(&row)?, 0),
                Keys::Read(keys, at) => (keys, at),
            };
            let at = from + keys[from..].partition_point(|of| *of < key);
            let next = keys.get(at).copied().unwrap_or(page.last);
            pages.push(Reverse(SupersededPage { next, keys: Keys::Read(keys, at), ..page }));
        }
        Ok(pages.peek().is_some_and(|Reverse(page)| page.next == key && page.later < later))
    }
}
