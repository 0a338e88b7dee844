//! Counts records by partition, minute and level, and reads no more than necessary.
//!
//! * An **open file** has the counts in its page headers. A page is decoded only if it may have a row of another page
//!   (`overlaps`), or overlaps the end of the range. A shared page is decoded where counts are by partition, too.
//! * A **sealed file** has the counts of all its rows in its index. A part of it is counted from its columns of times
//!   and levels.
//! * **Several files** of a day may have the same row, and the later generation wins. So the counts of the files are
//!   added, and a row of a later file that an older file has too is subtracted from the older counts. Late records are
//!   few, so they are looked up among the many.

use crate::StoreError;
use crate::format::catalog::LiveFile;
use crate::format::page::{earliest_first_key, level_minutes};
use crate::format::page_headers;
use crate::format::page_rows::{HEADER_COLUMNS, PageLocation, PageRow, read_header, unnamed_partition};
use crate::format::shared_pages::{self, SHARED};
use crate::read::open_scan::{OpenScan, Resume};
use crate::read::overlaps::{Overlaps, PagePairs};
use crate::read::{MinuteCount, OpenDayFile, Range, Reader, TableSummary, begin, partition_names};
use daytable_model::key::{DayTable, RowKey};
use daytable_model::record::Level;
use daytable_model::time::Ticks;
use rusqlite::{Connection, params};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

/// The grouping of counts, beside minute and level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CountBy {
    /// One count per partition.
    Partition,
    /// One count for all partitions. The partition of a result is empty, or any.
    Nothing,
}

/// Sums over several files. A subtraction may come before its addition.
type Sums = HashMap<(Arc<str>, i64, Option<Level>), i64, foldhash::quality::RandomState>;

impl Reader {
    /// The number of a table's records that are of earlier days: their own day had expired or was dropped. Costs nothing
    /// where there are none.
    pub fn earlier(&self, summary: &TableSummary) -> Result<u64, StoreError> {
        let start = summary.table.start();
        let mut earlier = 0;
        if summary.first_time.is_some_and(|first| first < start) {
            let range = Range { to: Ticks::new(start.get() - 1).unwrap_or_default(), ..Range::all() };
            match self.counts_by(&summary.table, &range, CountBy::Nothing, &mut |count| earlier += count.records) {
                Ok(()) | Err(StoreError::TableGone(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(earlier)
    }

    /// Records by partition, minute and level.
    pub fn counts(&self, table: &DayTable, range: &Range, each: &mut dyn FnMut(MinuteCount)) -> Result<(), StoreError> {
        self.counts_by(table, range, CountBy::Partition, each)
    }

    /// Records by minute and level, and by `by`. With one file, counts are passed in the order of reading. With several
    /// files, they are passed at the end.
    pub fn counts_by(
        &self,
        table: &DayTable,
        range: &Range,
        by: CountBy,
        each: &mut dyn FnMut(MinuteCount),
    ) -> Result<(), StoreError> {
        let (counts, sums) = self.with_files(table, |files| {
            let (mut counts, mut sums) = (Vec::new(), Sums::default());
            for (number, file) in files.iter().enumerate() {
                if files.len() == 1 {
                    self.count_file(file, range, by, &mut |count| counts.push(count))?;
                    continue;
                }
                self.count_file(file, range, by, &mut |count| add(&mut sums, by, &count, 1))?;
                self.each_replaced(file, &files[number + 1..], range, &mut |count| add(&mut sums, by, count, -1))?;
            }
            Ok((counts, sums))
        })?;
        counts.into_iter().for_each(&mut *each);
        for ((partition, minute, level), records) in sums {
            if let Ok(records @ 1..) = u64::try_from(records) {
                each(MinuteCount { partition, minute, level, records });
            }
        }
        Ok(())
    }

    fn count_file(
        &self,
        file: &LiveFile,
        range: &Range,
        by: CountBy,
        each: &mut dyn FnMut(MinuteCount),
    ) -> Result<(), StoreError> {
        if let Some(sealed) = self.sealed(file)? {
            return sealed.counts(range, by, each);
        }
        let opened = self.acquire(file)?;
        let counted = self.count_pages(&opened, range, by, each);
        self.release(opened);
        counted
    }

    fn count_pages(
        &self,
        opened: &OpenDayFile,
        range: &Range,
        by: CountBy,
        each: &mut dyn FnMut(MinuteCount),
    ) -> Result<(), StoreError> {
        begin(opened)?;
        let committed = self.catalog().committed()?;
        let (first, last) = RowKey::range(range.from, range.to);
        let names = partition_names(opened, range.partitions.as_deref())?;
        let pages = headers_in(opened, range.partitions.is_some().then_some(&names), first, last)?;
        let pages = pages.into_iter().filter(|page| committed.includes(page.seq));
        let pages: Vec<PageRow> = pages.collect();
        let overlaps = Overlaps::new(&pages);
        let groups = KeyGroups::new(&pages, overlaps.pairs());
        let is_whole = |page: &PageRow| page.header.first >= first && page.header.last <= last;
        let of_one = pages.partition_point(|page| page.partition == SHARED);
        let is_counted = |at: usize| {
            (by, &range.partitions) == (CountBy::Nothing, &None) && groups.is_alone(at) && is_whole(&pages[at])
        };
        for at in (0..of_one).filter(|at| is_counted(*at)) {
            count_header(opened, &pages[at], &Arc::from(""), each)?;
        }
        let shared: Vec<&PageRow> = (0..of_one).filter(|at| !is_counted(*at)).map(|at| &pages[at]).collect();
        let mut rows = shared_rows(opened, &shared, (first, last), &names, range.partitions.is_none())?;
        let mut start = of_one;
        for of_partition in pages[of_one..].chunk_by(|a, b| a.partition == b.partition) {
            let numbers = start..start + of_partition.len();
            start = numbers.end;
            let partition = of_partition[0].partition;
            // Both are of one snapshot: `names` has all partitions of `pages`.
            let name = names.get(&partition).ok_or_else(|| unnamed_partition(&opened.path, &of_partition[0]))?;
            // Rows of shared pages that a page may have, too, by the group of that page.
            let mut within: HashMap<usize, Vec<LeveledRow>> = HashMap::new();
            if let Some(rows) = rows.get_mut(&partition) {
                let (mut active, mut next) = (Vec::<usize>::new(), numbers.clone().peekable());
                rows.retain(|row| {
                    active.extend(std::iter::from_fn(|| next.next_if(|at| pages[*at].header.first <= row.0)));
                    active.retain(|at| pages[*at].header.last >= row.0);
                    // Pages that may have one key are of one group.
                    let found = active.iter().find(|at| overlaps.may_have(**at, &row.0));
                    found.map(|at| within.entry(groups.of(*at)).or_default().push(*row)).is_none()
                });
            }
            let mut read: BTreeMap<usize, Vec<&PageRow>> = BTreeMap::new();
            for at in numbers {
                let (page, group) = (&pages[at], groups.of(at));
                if groups.is_alone(at) && is_whole(page) && !within.contains_key(&group) {
                    count_header(opened, page, name, each)?;
                } else {
                    read.entry(group).or_default().push(page);
                }
            }
            for (group, pages) in read {
                count_rows(opened, &pages, within.remove(&group).unwrap_or_default(), (first, last), name, each)?;
            }
        }
        for (partition, rows) in rows {
            if let Some(name) = names.get(&partition) {
                count_rows(opened, &[], rows, (first, last), name, each)?;
            }
        }
        Ok(())
    }

    /// The partitions of a file that `range` wants.
    fn names_in(&self, file: &LiveFile, range: &Range) -> Result<BTreeSet<Arc<str>>, StoreError> {
        if let Some(sealed) = self.sealed(file)? {
            return Ok(sealed.names_in(range));
        }
        let opened = self.acquire(file)?;
        let names = begin(&opened).and_then(|_| partition_names(&opened, range.partitions.as_deref()));
        self.release(opened);
        Ok(names?.into_values().collect())
    }

    /// The keys and levels of a file's rows of one partition in `range`, in the order of the keys.
    fn each_key(
        &self,
        file: &LiveFile,
        range: &Range,
        each: &mut dyn FnMut(RowKey, Option<Level>),
    ) -> Result<(), StoreError> {
        if let Some(sealed) = self.sealed(file)? {
            return sealed.each_key(range, &mut |_, key, level| each(key, level));
        }
        let resume = Resume::From(RowKey::range(range.from, range.to).0);
        for row in OpenScan::begin(self, self.acquire(file)?, range, resume)? {
            let row = row?;
            each(row.key(), row.level());
        }
        Ok(())
    }

    /// The records of a file that a later one has too.
    fn each_replaced(
        &self,
        file: &LiveFile,
        later: &[LiveFile],
        range: &Range,
        each: &mut dyn FnMut(&MinuteCount),
    ) -> Result<(), StoreError> {
        let mut names = BTreeSet::new();
        for later in later {
            names.append(&mut self.names_in(later, range)?);
        }
        let own = self.names_in(file, range)?;
        for partition in names.intersection(&own) {
            let within =
                Range { partitions: Some(vec![partition.to_string()]), from: range.from, to: range.to, ..Range::all() };
            let mut keys = Vec::new();
            for later in later {
                self.each_key(later, &within, &mut |key, _| {
                    if key.item() == 0 {
                        keys.push(key);
                    }
                })?;
            }
            keys.sort_unstable();
            let (Some(newest), Some(oldest)) = (keys.first(), keys.last()) else { continue };
            let within = Range { from: oldest.time(), to: newest.time(), ..within };
            self.each_key(file, &within, &mut |key, level| {
                if keys.binary_search(&key).is_ok() {
                    let minute = minute_of(key.time());
                    each(&MinuteCount { partition: partition.clone(), minute, level, records: 1 });
                }
            })?;
        }
        Ok(())
    }
}

fn add(sums: &mut Sums, by: CountBy, count: &MinuteCount, sign: i64) {
    let partition = if by == CountBy::Partition { count.partition.clone() } else { "".into() };
    let records = i64::try_from(count.records).unwrap_or(i64::MAX);
    *sums.entry((partition, count.minute, count.level)).or_default() += sign * records;
}

/// Minutes since the Unix epoch.
fn minute_of(time: Ticks) -> i64 {
    time.unix_seconds().div_euclid(60)
}

fn damaged(opened: &OpenDayFile, page: &PageRow, what: String) -> StoreError {
    StoreError::Damaged { path: opened.path.clone(), page: page.place.to_string(), what }
}

/// Headers of the pages that overlap `first..=last`, by partition and first key.
pub(super) fn headers_in(
    opened: &OpenDayFile,
    partitions: Option<&BTreeMap<i64, Arc<str>>>,
    first: RowKey,
    last: RowKey,
) -> Result<Vec<PageRow>, StoreError> {
    let ids: Vec<Option<i64>> = match partitions {
        None => vec![None],
        Some(partitions) => partitions.keys().copied().map(Some).collect(),
    };
    let result = (|| {
        let mut pages = match partitions {
            Some(partitions) => shared_pages::pages_with(&opened.connection, first, last, partitions)?,
            None => Vec::new(),
        };
        let earliest = earliest_first_key(first);
        if partitions.is_none() && is_most(&opened.connection, first, last)? {
            let mut all = page_headers::all(&opened.connection)?;
            all.retain(|page| (earliest..=last).contains(&page.header.first) && page.header.last >= first);
            shared_pages::fill(&opened.connection, &mut all)?;
            all.sort_by_key(|page| (page.partition, page.header.first));
            return Ok(all);
        }
        let (from, first, last) = (earliest.to_bytes(), first.to_bytes(), last.to_bytes());
        for id in ids {
            let of_partition = if id.is_some() { "partition = ?4" } else { "?4 IS NULL" };
            let select = format!(
                "SELECT {HEADER_COLUMNS} FROM page WHERE {of_partition} AND first BETWEEN ?1 AND ?2 AND last >= ?3"
            );
            let mut statement = opened.connection.prepare_cached(&select)?;
            for page in statement.query_map(params![from, last, first, id], read_header)? {
                pages.push(page?);
            }
        }
        shared_pages::fill(&opened.connection, &mut pages)?;
        pages.sort_by_key(|page: &PageRow| (page.partition, page.header.first));
        Ok(pages)
    })();
    result.map_err(StoreError::sqlite(&opened.path))
}

/// Whether most pages may be in a range. Then all are listed, by groups: an index leads to each row by itself, which
/// takes longer.
fn is_most(connection: &Connection, first: RowKey, last: RowKey) -> rusqlite::Result<bool> {
    let end = |least: &str| -> rusqlite::Result<Option<i64>> {
        let select = format!("SELECT {least}(first) FROM page");
        let key: Option<Vec<u8>> = connection.prepare_cached(&select)?.query_row([], |row| row.get(0))?;
        Ok(key.and_then(|key| RowKey::from_bytes(&key)).map(|key| key.time().get()))
    };
    let (Some(newest), Some(oldest)) = (end("min")?, end("max")?) else { return Ok(false) };
    let wanted = newest.min(first.time().get()).saturating_sub(oldest.max(last.time().get()));
    Ok(wanted >= (newest - oldest) / 2)
}

/// A row of a page: its key, when it was written, and its level.
type LeveledRow = (RowKey, Reverse<(i64, PageLocation)>, Option<Level>);

/// The rows of shared pages in a range, by partition, in the order of their keys.
fn shared_rows(
    opened: &OpenDayFile,
    pages: &[&PageRow],
    (first, last): (RowKey, RowKey),
    names: &BTreeMap<i64, Arc<str>>,
    are_all: bool,
) -> Result<BTreeMap<i64, Vec<LeveledRow>>, StoreError> {
    let mut rows: BTreeMap<i64, Vec<LeveledRow>> = BTreeMap::new();
    for page in pages {
        let shared = opened.read_shared(page)?;
        let keys = shared.page.keys();
        for (number, (partition, _)) in page.shared.iter().flat_map(|shared| shared.iter()).enumerate() {
            let name = match names.get(&partition) {
                Some(name) => name,
                None if are_all => return Err(unnamed_partition(&opened.path, page)),
                None => continue,
            };
            opened.check_number(page, number, name)?;
            let of_partition = rows.entry(partition).or_default();
            let counted = shared.rows_of(number).iter().map(|row| (*row as usize, keys[*row as usize]));
            let counted = counted.filter(|(_, key)| *key >= first && *key <= last && key.item() == 0);
            of_partition
                .extend(counted.map(|(row, key)| (key, Reverse((page.seq, page.place)), shared.page.level(row))));
        }
    }
    rows.values_mut().for_each(|rows| rows.sort_unstable_by_key(|&(key, later, _)| (key, later)));
    Ok(rows)
}

/// Pages by groups: only pages of one group may have rows of one key.
struct KeyGroups {
    /// The least page of the group of each page.
    least: Vec<usize>,
    /// Whether a page has a group of its own; of a shared page, whether no other page may have a row of it.
    are_alone: Vec<bool>,
}

impl KeyGroups {
    /// Groups of pages, by partition and first key, of which these `pairs` may have a row of one key. Without pairs, pages of
    /// a partition are of one group where their ranges overlap, and no shared page is alone.
    fn new(pages: &[PageRow], pairs: Option<PagePairs>) -> KeyGroups {
        let mut groups = KeyGroups { least: (0..pages.len()).collect(), are_alone: vec![true; pages.len()] };
        let shared = pages.partition_point(|page| page.partition == SHARED);
        match pairs {
            Some(pairs) => {
                for (one, other) in pairs {
                    // Rows of shared pages are compared by themselves: a page that only they overlap is alone among its kind.
                    if one >= shared {
                        groups.join(one, other);
                    } else {
                        groups.are_alone[one] = false;
                        groups.are_alone[other] &= other >= shared;
                    }
                }
            }
            None => {
                groups.are_alone[..shared].fill(false);
                let mut end = shared;
                for at in shared + 1..pages.len() {
                    let (before, page) = (&pages[end], &pages[at]);
                    if before.partition == page.partition && page.header.first <= before.header.last {
                        groups.join(end, at);
                    }
                    if before.partition != page.partition || page.header.last > before.header.last {
                        end = at;
                    }
                }
            }
        }
        groups
    }

    fn join(&mut self, one: usize, other: usize) {
        (self.are_alone[one], self.are_alone[other]) = (false, false);
        let (one, other) = (self.of(one), self.of(other));
        let (least, most) = (one.min(other), one.max(other));
        self.least[most] = least;
    }

    /// The number of the group of a page: that of its first page.
    fn of(&self, mut page: usize) -> usize {
        while self.least[page] != page {
            page = self.least[page];
        }
        page
    }

    fn is_alone(&self, page: usize) -> bool {
        self.are_alone[page]
    }
}

/// Counts the records of a page by its header.
fn count_header(
    opened: &OpenDayFile,
    page: &PageRow,
    name: &Arc<str>,
    each: &mut dyn FnMut(MinuteCount),
) -> Result<(), StoreError> {
    for count in level_minutes(&page.header.levels) {
        let count = count.map_err(|e| damaged(opened, page, e.to_string()))?;
        let records = u64::from(count.records);
        each(MinuteCount { partition: name.clone(), minute: count.minute, level: count.level, records });
    }
    Ok(())
}

/// Counts the rows of pages that may have equal keys, or of a page that the range cuts, and further `rows` in the range, each
/// key once.
fn count_rows(
    opened: &OpenDayFile,
    cluster: &[&PageRow],
    mut rows: Vec<LeveledRow>,
    (first, last): (RowKey, RowKey),
    name: &Arc<str>,
    each: &mut dyn FnMut(MinuteCount),
) -> Result<(), StoreError> {
    for page in cluster {
        let decoded = opened.read_page(name, page)?;
        let keys =
            decoded.keys().iter().enumerate().filter(|(_, key)| **key >= first && **key <= last && key.item() == 0);
        rows.extend(keys.map(|(index, key)| (*key, Reverse((page.seq, page.place)), decoded.level(index))));
    }
    rows.sort_unstable_by_key(|&(key, later, _)| (key, later));
    rows.dedup_by_key(|row| row.0);
    let mut counts: HashMap<(i64, Option<Level>), u64> = HashMap::new();
    for (key, _, level) in rows {
        *counts.entry((minute_of(key.time()), level)).or_default() += 1;
    }
    for ((minute, level), records) in counts {
        each(MinuteCount { partition: name.clone(), minute, level, records });
    }
    Ok(())
}
