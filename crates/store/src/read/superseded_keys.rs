//! Keys of rows that a scan skipped because of its prefilter. Of equal keys, the row of the later commit wins. So a
//! found row is dropped if a skipped page has its key and is later.
//!
//! Pages of many partitions stand apart: a row is compared with those of its own partition and with theirs.
//!
//! A scan passes ascending keys. So it is enough to know the next key of each page, and the page with the smallest key
//! of each partition. A page that was not decoded is decoded only when the scan is within it and has found a row.

use crate::StoreError;
use crate::format::page::Page;
use crate::format::page_rows::{PageLocation, PageRow};
use crate::format::shared_pages::SHARED;
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
    Read(PageKeys, usize),
}

/// The keys of a page, and the partition of each if these are many.
pub(crate) struct PageKeys {
    pub(crate) keys: Box<[RowKey]>,
    owners: Option<Box<[i64]>>,
}

impl PageKeys {
    /// The keys of a page that was read.
    pub(crate) fn of(row: &PageRow, page: &Page) -> PageKeys {
        let owner = |at: usize| row.partition_at(page, at).unwrap_or(SHARED);
        let owners = page.has_owners().then(|| (0..page.len()).map(owner).collect());
        PageKeys { keys: page.keys().into(), owners }
    }

    /// Whether a row is of this partition. All rows of a page of one partition are.
    pub(crate) fn is_of(&self, row: usize, partition: i64) -> bool {
        self.owners.as_ref().is_none_or(|owners| owners.get(row) == Some(&partition))
    }
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
    pub(crate) fn add_read(&mut self, row: &PageRow, keys: PageKeys, key: RowKey) {
        let (next, last, later) = (row.header.first, row.header.last, Reverse((row.seq, row.place)));
        self.add(row.partition, SupersededPage { next, later, last, keys: Keys::Read(keys, 0) }, key);
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

    /// Whether a later page than `later` has `key` of this partition. Keys must not descend from call to call. `read`
    /// returns the keys of a page that was not decoded.
    pub(crate) fn replace(
        &mut self,
        partition: i64,
        key: RowKey,
        later: Later,
        read: impl Fn(&PageRow) -> Result<PageKeys, StoreError>,
    ) -> Result<bool, StoreError> {
        for of in [partition, SHARED] {
            let Some(pages) = self.pages.get_mut(&of) else { continue };
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
                let at = from + keys.keys[from..].partition_point(|of| *of < key);
                let next = keys.keys.get(at).copied().unwrap_or(page.last);
                pages.push(Reverse(SupersededPage { next, keys: Keys::Read(keys, at), ..page }));
            }
            // The first key of a page that was not decoded may be of another partition.
            let mut at_key = Vec::new();
            while pages.peek().is_some_and(|Reverse(page)| page.next == key)
                && of == SHARED
                && let Some(Reverse(page)) = pages.pop()
            {
                let keys = match page.keys {
                    Keys::Unread(row) => Keys::Read(read(&row)?, 0),
                    known => known,
                };
                at_key.push(Reverse(SupersededPage { keys, ..page }));
            }
            pages.extend(at_key);
            let is_later = |page: &SupersededPage| {
                let is_of = match &page.keys {
                    Keys::Unread(_) => true,
                    Keys::Read(keys, at) => keys.is_of(*at, partition),
                };
                page.next == key && page.later < later && is_of
            };
            let has_key = pages.peek().is_some_and(|Reverse(page)| page.next == key);
            if has_key && pages.iter().any(|Reverse(page)| is_later(page)) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_that_begin_at_the_key_of_another_partition_hide_no_row() {
        let key = PageRow::alone(1, 0).header.first;
        let mut skipped = SupersededKeys::default();
        for id in [2, 3] {
            skipped.add_unread(Box::new(PageRow { partition: SHARED, seq: id, ..PageRow::alone(id, 0) }), key);
        }
        let read = |_: &PageRow| Ok(PageKeys { keys: [key].into(), owners: Some([8].into()) });
        let first = Reverse((1, PageLocation::Row(1)));
        assert!(!skipped.replace(7, key, first, read).expect("read"));
        assert!(skipped.replace(8, key, first, read).expect("read"));
    }
}
