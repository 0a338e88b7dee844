//! Keys of rows that a scan skipped because of its prefilter. Of equal keys, the row of the later commit wins. So a
//! found row is dropped if a skipped page has its key and is later.
//!
//! A scan passes ascending keys. So it is enough to know the next key of each page, and the page with the smallest key
//! of each partition. A page that was not decoded is decoded only when the scan is within it and has found a row.

use crate::StoreError;
use crate::format::small_pages::{PageLocation, PageRow};
use daytable_model::key::RowKey;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

/// Pages from which finished ones are removed. The next removal is at twice the remaining number.
const MANY: usize = 64;

/// When a page was written: the later page is the smaller value.
pub(crate) type Later = Reverse<(i64, PageLocation)>;

/// Pages with skipped rows, by partition.
#[derive(Default)]
pub(crate) struct SupersededKeys {
    pages: HashMap<i64, BinaryHeap<Reverse<SupersededPage>>>,
    count: usize,
    full: usize,
}

/// Ordered by the next key; of equal keys, the later page comes first.
struct SupersededPage {
    next: RowKey,
    later: Later,
    last: RowKey,
    keys: Keys,
}

enum Keys {
    /// Only the header was read.
    Unread(Box<PageRow>),
    /// All keys, and the index of the next one.
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
    /// Adds a page that was not decoded, while the scan is at `key`.
    pub(crate) fn add_unread(&mut self, row: Box<PageRow>, key: RowKey) {
        let (next, last, later) = (row.header.first, row.header.last, Reverse((row.seq, row.place)));
        self.add(row.partition, SupersededPage { next, later, last, keys: Keys::Unread(row) }, key);
    }

    /// Adds a page with these keys, while the scan is at `key`.
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

    /// Whether a later page than `later` has `key`. Keys must not descend from call to call. `read` returns the keys of
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
                Keys::Unread(row) => (read(&row)?, 0),
                Keys::Read(keys, at) => (keys, at),
            };
            let at = from + keys[from..].partition_point(|of| *of < key);
            let next = keys.get(at).copied().unwrap_or(page.last);
            pages.push(Reverse(SupersededPage { next, keys: Keys::Read(keys, at), ..page }));
        }
        Ok(pages.peek().is_some_and(|Reverse(page)| page.next == key && page.later < later))
    }
}
