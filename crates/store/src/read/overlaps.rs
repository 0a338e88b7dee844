//! Which pages of a file may have a row with an equal key: only these are compared row by row.
//!
//! The ranges of pages overlap wherever records come late. But two rows are of one key only if their times, sources and
//! positions are equal. So a pair is left out where no minute of one is a minute of the other, or where their sources
//! and positions do not meet (`page/extents.rs`). The headers of pages tell both.
//!
//! PagePairs are looked for in the order of keys, where few pages overlap if few records are late. If many do, they are looked
//! for in the order of sources and positions.

use crate::format::page::{KeyExtents, earliest_first_key, may_have_minute, share_minute};
use crate::format::page_rows::PageRow;
use crate::format::shared_pages::SHARED;
use daytable_model::key::RowKey;
use std::cell::OnceCell;

/// PagePairs that are compared row by row, per page on average.
const PAIRS_MAX: usize = 16;
/// PagePairs whose headers are compared in one order, per page on average.
const COMPARED_MAX: usize = 128;
/// PagePairs of either kind that few pages may have.
const OF_FEW_PAGES: usize = 1024;

/// Pages and what their headers tell of their keys.
pub(super) struct Overlaps<'p> {
    pages: &'p [PageRow],
    /// Read only of pages whose ranges overlap: mostly of none.
    hints: Vec<OnceCell<KeyHints>>,
}

/// What the header of a page tells of its keys, beside the first and the last one.
struct KeyHints {
    /// `None` if the header does not tell.
    extents: Option<KeyExtents>,
    minutes_are_all: bool,
}

/// Numbers of pages that may have rows of one key.
pub(super) type PagePairs = Vec<(usize, usize)>;

impl<'p> Overlaps<'p> {
    /// Those of pages of one file, by partition and first key; shared pages, of which the partitions were read, come first.
    pub(super) fn new(pages: &'p [PageRow]) -> Overlaps<'p> {
        Overlaps { pages, hints: pages.iter().map(|_| OnceCell::new()).collect() }
    }

    fn hints(&self, page: usize) -> &KeyHints {
        self.hints[page].get_or_init(|| {
            let header = &self.pages[page].header;
            KeyHints { extents: KeyExtents::of(header), minutes_are_all: KeyExtents::minutes_are_all(header) }
        })
    }

    /// The pairs, the smaller number first; `None` if there are too many.
    pub(super) fn pairs(&self) -> Option<PagePairs> {
        let most = PAIRS_MAX * self.pages.len() + OF_FEW_PAGES;
        let mut pairs = PagePairs::new();
        let mut start = 0;
        for pages in self.pages.chunk_by(|a, b| a.partition == b.partition) {
            let end = start + pages.len();
            let first_pair = pairs.len();
            if self.by_key(start..end, most, &mut pairs).is_none() {
                pairs.truncate(first_pair);
                self.by_source(start..end, most, &mut pairs)?;
            }
            start = end;
        }
        self.with_shared(most, &mut pairs)?;
        Some(pairs)
    }

    /// Whether a page may have a row of this key.
    pub(super) fn may_have(&self, page: usize, key: &RowKey) -> bool {
        let header = &self.pages[page].header;
        let is_hinted = || {
            let KeyHints { extents, minutes_are_all } = self.hints(page);
            extents.as_ref().is_none_or(|extents| extents.may_have(key))
                && (!minutes_are_all || may_have_minute(&header.levels, key.time()))
        };
        (header.first..=header.last).contains(key) && is_hinted()
    }

    /// Whether two pages may have a row of one key.
    fn may_meet(&self, a: usize, b: usize) -> bool {
        let (one, other) = (&self.pages[a].header, &self.pages[b].header);
        if one.first > other.last || other.first > one.last {
            return false;
        }
        let (hints, others) = (self.hints(a), self.hints(b));
        let meet = match (&hints.extents, &others.extents) {
            (Some(extents), Some(others)) => extents.meet(others),
            _ => true,
        };
        let minutes_tell = hints.minutes_are_all && others.minutes_are_all;
        meet && (!minutes_tell || share_minute(&one.levels, &other.levels))
    }

    /// Adds the pairs of pages of one partition, in the order of their keys.
    fn by_key(&self, pages: std::ops::Range<usize>, most: usize, pairs: &mut PagePairs) -> Option<()> {
        let (mut left, mut active) = (COMPARED_MAX * pages.len() + OF_FEW_PAGES, Vec::<usize>::new());
        for page in pages {
            let first = self.pages[page].header.first;
            active.retain(|other| self.pages[*other].header.last >= first);
            left = left.checked_sub(active.len())?;
            pairs.extend(active.iter().filter(|other| self.may_meet(**other, page)).map(|other| (*other, page)));
            if pairs.len() > most {
                return None;
            }
            active.push(page);
        }
        Some(())
    }

    /// The same in the order of sources and positions.
    fn by_source(&self, pages: std::ops::Range<usize>, most: usize, pairs: &mut PagePairs) -> Option<()> {
        let mut left = COMPARED_MAX * pages.len() + OF_FEW_PAGES;
        let mut ranges = Vec::new();
        for page in pages {
            ranges.extend(self.hints(page).extents.as_ref()?.ranges().iter().map(|range| (*range, page)));
        }
        ranges.sort_unstable();
        let first_pair = pairs.len();
        let mut active = Vec::new();
        for ((from, to), page) in ranges {
            active.retain(|(end, _)| *end >= from);
            left = left.checked_sub(active.len())?;
            let others = active.iter().map(|(_, other)| *other).filter(|other| *other != page);
            pairs.extend(others.filter(|other| self.may_meet(*other, page)).map(|of| (of.min(page), of.max(page))));
            if pairs.len() > 2 * most {
                return None;
            }
            active.push((to, page));
        }
        // Pages of several sources may have been found by each.
        pairs[first_pair..].sort_unstable();
        pairs.dedup();
        (pairs.len() <= most).then_some(())
    }

    /// Adds the pairs of a shared page and a page of one of its partitions.
    fn with_shared(&self, most: usize, pairs: &mut PagePairs) -> Option<()> {
        let shared = self.pages.partition_point(|page| page.partition == SHARED);
        if shared == 0 {
            return Some(());
        }
        let mut left = COMPARED_MAX * self.pages.len() + OF_FEW_PAGES;
        for page in shared..self.pages.len() {
            let PageRow { header, partition, .. } = &self.pages[page];
            let from = earliest_first_key(header.first);
            let from = self.pages[..shared].partition_point(|of_many| of_many.header.first < from);
            for of_many in from..shared {
                if self.pages[of_many].header.first > header.last {
                    break;
                }
                left = left.checked_sub(1)?;
                if self.may_meet(of_many, page) && self.pages[of_many].shares(*partition) {
                    pairs.push((of_many, page));
                }
            }
            if pairs.len() > most {
                return None;
            }
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::page::{EncodedPage, PageBuilder};
    use crate::format::page_rows::PageLocation;
    use daytable_model::batch::Batch;
    use daytable_model::entity::append;
    use daytable_model::key::{DayTable, Period, TableName};
    use daytable_model::record::Record;
    use daytable_model::time::Ticks;
    use proptest::prelude::*;

    fn page(id: i64, partition: i64, keys: &[RowKey]) -> PageRow {
        let table = DayTable::at(&TableName::new("Log").expect("a name"), Period::Day, Ticks::MIN);
        let mut batch = Batch::new(table, "web".into());
        keys.iter().for_each(|key| append(&mut batch, *key, "source", &Record::default()));
        let mut builder = PageBuilder::new();
        builder.push_batch(&batch);
        let EncodedPage { header, .. } = builder.build().pages.remove(0);
        PageRow { place: PageLocation::Row(id), partition, seq: id, header, shared: None }
    }

    fn key(second: i64, source: u64, position: u64) -> RowKey {
        RowKey::new(Ticks::from_unix(second, 0).expect("in range"), source, position)
    }

    /// Pages of records in the order of their arrival, each partition's by first key.
    fn sorted(mut pages: Vec<PageRow>) -> Vec<PageRow> {
        pages.sort_by_key(|page| (page.partition, page.header.first));
        pages
    }

    #[test]
    fn pages_with_late_records_have_no_pairs() {
        // A source of 200 pages: in each is a record that is up to an hour late.
        let of = |page: u64| -> Vec<RowKey> {
            let keys = (0..20u64).map(|row| {
                let late = if row == 7 { (page * 53) % 3600 } else { 0 };
                key((10_000 + page * 20 + row - late) as i64, 1, page * 20 + row)
            });
            keys.collect()
        };
        let mut pages: Vec<PageRow> = (0..200).map(|number| page(number as i64, 1, &of(number))).collect();
        // The last one has a record of the first one again.
        let again: Vec<RowKey> = of(200).into_iter().chain([of(0)[3]]).collect();
        pages.push(page(200, 1, &again));
        let pages = sorted(pages);
        let overlaps = Overlaps::new(&pages);
        let ids = |(a, b): &(usize, usize)| (pages[*a].seq.min(pages[*b].seq), pages[*a].seq.max(pages[*b].seq));
        let pairs: Vec<(i64, i64)> = overlaps.pairs().expect("few").iter().map(ids).collect();
        assert!(pairs.contains(&(0, 200)), "{pairs:?}");
        assert!(pairs.iter().all(|(_, later)| *later == 200), "{pairs:?}");
        let mut by_source = PagePairs::new();
        overlaps.by_source(0..pages.len(), PAIRS_MAX * pages.len(), &mut by_source).expect("few");
        let mut by_source: Vec<(i64, i64)> = by_source.iter().map(ids).collect();
        let mut pairs = pairs;
        by_source.sort_unstable();
        pairs.sort_unstable();
        assert_eq!(by_source, pairs);
    }

    proptest! {
        /// Pages with an equal key are a pair in either order, and a page may have each of its keys.
        #[test]
        fn pages_with_an_equal_key_are_a_pair(
            rows in proptest::collection::vec(
                (0i64..2, proptest::collection::btree_set((0i64..400, 0u64..6, 0u64..6, 0u16..3), 1..30)), 1..30),
        ) {
            let pages = rows.iter().zip(1..).map(|((partition, rows), id)| {
                let keys: Vec<RowKey> = rows
                    .iter()
                    .map(|(second, source, at, item)| key(*second, *source, *at).with_item(*item))
                    .collect();
                (page(id, 1 + partition, &keys), keys)
            });
            let (pages, mut keys): (Vec<PageRow>, Vec<Vec<RowKey>>) = pages.unzip();
            let pages = sorted(pages);
            let mut of_page = pages.iter().map(|page| std::mem::take(&mut keys[page.seq as usize - 1])).collect::<Vec<_>>();
            of_page.iter_mut().for_each(|keys| keys.sort_unstable());
            let overlaps = Overlaps::new(&pages);
            let pairs = overlaps.pairs().expect("few pages");
            let second = pages.partition_point(|page| page.partition == 1);
            let (mut by_key, mut by_source, most) = (PagePairs::new(), PagePairs::new(), usize::MAX / 4);
            let mut are_known = true;
            for pages in [0..second, second..pages.len()] {
                overlaps.by_key(pages.clone(), most, &mut by_key).expect("few pages");
                are_known &= overlaps.by_source(pages, most, &mut by_source).is_some();
            }
            for a in 0..pages.len() {
                prop_assert!(of_page[a].iter().all(|key| overlaps.may_have(a, key)));
                for b in a + 1..pages.len() {
                    let is_pair = pages[a].partition == pages[b].partition
                        && of_page[a].iter().any(|key| of_page[b].binary_search(key).is_ok());
                    prop_assert!(!is_pair || pairs.contains(&(a, b)) && by_key.contains(&(a, b)));
                    prop_assert!(!is_pair || !are_known || by_source.contains(&(a, b)));
                }
            }
        }
    }
}
