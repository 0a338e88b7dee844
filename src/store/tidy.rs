//! Tidy: a quiet source makes small pages, one a commit; they are merged into full ones as the day goes.
//!
//! What may be merged: pages of one partition, all committed, and with each page every other that overlaps it in
//! RowKey. The merged page takes the highest `seq` of its parts, so were an overlapping page left out, an older
//! duplicate in the merged one could win over it. (With a `seq` of its own, a crash before the next commit point would
//! remove the merged page when its parts are gone.) Pages younger than [`SETTLED_AFTER`] stay as they are: a follower
//! has not seen them yet, and would be shown the older rows that they are merged with again.
//!
//! Each record is rewritten about twice: tiny pages become small ones when there are [`RUN_MIN`] in a row, small ones
//! become a full one when there is enough for it.

use super::StoreError;
use super::day::{DayFile, HEADER_COLUMNS, Insert, Merge, PageRow, read_header};
use super::page::{Builder, PAGE_BYTES, PAGE_SPAN, Page};
use crate::key::{DayTable, RowKey};
use crate::time::Ticks;
use rusqlite::params;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Raw bytes below which a page is tiny.
const TINY_BYTES: u32 = 4 << 10;
/// Raw bytes from which a page is full enough to be left alone.
const FULL_BYTES: u32 = 64 << 10;
/// Tiny pages in a row that are worth a merge.
const RUN_MIN: u32 = 48;
/// Raw bytes that one merge takes at most.
const MERGE_BYTES_MAX: u64 = 1 << 20;
/// Age from which a page is merged: longer than any follower takes from one look to the next.
const SETTLED_AFTER: Duration = Duration::from_secs(5);
/// Pages that one transaction takes away, about.
const PAGES_A_TRANSACTION: usize = 4000;
/// How long one step may keep the committer.
const STEP: Duration = Duration::from_millis(20);
/// How long the last steps may take when the store closes.
const FINISH: Duration = Duration::from_secs(2);

/// What there is to tidy.
#[derive(Default)]
pub(crate) struct Tidy {
    days: HashMap<DayTable, Day>,
    commits: VecDeque<(Instant, i64)>,
    settled: i64,
}

#[derive(Default)]
struct Day {
    /// Tiny pages since the partition was merged last.
    tiny: HashMap<Arc<str>, u32, foldhash::quality::RandomState>,
    ready: VecDeque<(Instant, Arc<str>)>,
    queued: HashSet<Arc<str>>,
    /// Whether pages that were there before this process are counted.
    counted: bool,
}

impl Tidy {
    /// Notes pages of a commit.
    pub(crate) fn written(&mut self, day: &DayTable, pages: &[Insert]) {
        let day = self.days.entry(day.clone()).or_default();
        for Insert { partition, page } in pages {
            if page.header.raw_bytes >= TINY_BYTES {
                continue;
            }
            let tiny = day.tiny.entry(partition.clone()).or_default();
            *tiny += 1;
            if *tiny >= RUN_MIN + RUN_MIN / 4 && day.queued.insert(partition.clone()) {
                day.ready.push_back((Instant::now(), partition.clone()));
            }
        }
    }

    /// Notes a commit.
    pub(crate) fn committed(&mut self, seq: i64) {
        self.commits.push_back((Instant::now(), seq));
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(&(at, seq)) = self.commits.front()
            && at.elapsed() >= SETTLED_AFTER
        {
            self.settled = seq;
            self.commits.pop_front();
        }
    }

    /// Whether a step would do something now.
    pub(crate) fn has_work(&self) -> bool {
        self.days.values().any(Day::has_work)
    }

    /// A day that a step would do something for.
    pub(crate) fn next_day(&mut self) -> Option<DayTable> {
        self.settle();
        self.days.iter().find(|(_, day)| day.has_work()).map(|(name, _)| name.clone())
    }

    /// Whether something is left to merge in `day`, now or later.
    pub(crate) fn wants(&self, day: &DayTable) -> bool {
        self.days.get(day).is_some_and(|day| !day.ready.is_empty())
    }

    /// The day is gone.
    pub(crate) fn forget(&mut self, day: &DayTable) {
        self.days.remove(day);
    }

    /// Merges for a short time.
    pub(crate) fn step(&mut self, name: &DayTable, file: &mut DayFile) -> Result<(), StoreError> {
        self.work(name, file, STEP)
    }

    /// Merges what can be before the file is closed.
    pub(crate) fn finish(&mut self, name: &DayTable, file: &mut DayFile) -> Result<(), StoreError> {
        self.settle();
        self.work(name, file, FINISH)
    }

    fn work(&mut self, name: &DayTable, file: &mut DayFile, time: Duration) -> Result<(), StoreError> {
        let start = Instant::now();
        let settled = self.settled;
        let Some(day) = self.days.get_mut(name) else { return Ok(()) };
        if !day.counted {
            day.count(file)?;
        }
        while day.has_work() && start.elapsed() < time {
            // One transaction for many partitions: each costs an fsync, and frames of the journal for what they share.
            let (mut merges, mut pages) = (Vec::new(), 0);
            while day.has_work() && pages < PAGES_A_TRANSACTION && start.elapsed() < time {
                let Some((_, partition)) = day.ready.pop_front() else { break };
                day.queued.remove(&partition);
                for merge in merges_of(file, &partition, settled)? {
                    pages += merge.old.len();
                    merges.push(merge);
                }
                let left = unsettled(file, &partition, settled).map_err(StoreError::sqlite(file.path()))?;
                if left >= RUN_MIN {
                    day.queued.insert(partition.clone());
                    day.ready.push_back((Instant::now(), partition.clone()));
                }
                day.tiny.insert(partition, left);
            }
            crate::failpoint!("tidy-before");
            if !merges.is_empty() {
                file.replace(&merges)?;
            }
        }
        Ok(())
    }
}

impl Day {
    fn has_work(&self) -> bool {
        self.ready.front().is_some_and(|(since, _)| since.elapsed() >= SETTLED_AFTER)
    }

    fn count(&mut self, file: &DayFile) -> Result<(), StoreError> {
        self.counted = true;
        let result = (|| {
            let mut statement = file.connection().prepare(
                "SELECT partition.name FROM page JOIN partition ON partition.id = page.partition
                 WHERE raw_bytes < ?1 GROUP BY page.partition HAVING count(*) >= ?2",
            )?;
            let names = statement.query_map(params![TINY_BYTES, RUN_MIN], |row| row.get::<_, String>(0))?;
            for name in names {
                let name: Arc<str> = name?.into();
                if self.queued.insert(name.clone()) {
                    self.ready.push_back((Instant::now(), name));
                }
            }
            Ok(())
        })();
        result.map_err(StoreError::sqlite(file.path()))
    }
}

/// Pages that overlap in RowKey, directly or through others: merged together or not at all.
struct Cluster {
    pages: Vec<PageRow>,
    last: RowKey,
}

impl Cluster {
    fn raw_bytes(&self) -> u64 {
        self.pages.iter().map(|p| u64::from(p.header.raw_bytes)).sum()
    }

    fn is_settled(&self, settled: i64) -> bool {
        self.pages.iter().all(|p| p.seq <= settled)
    }

    fn is_below(&self, bytes: u32) -> bool {
        self.pages.iter().all(|p| p.header.raw_bytes < bytes)
    }
}

/// What is worth merging among the pages of `partition` up to commit `settled`, merged.
fn merges_of(file: &DayFile, partition: &str, settled: i64) -> Result<Vec<Merge>, StoreError> {
    let clusters = clusters(file, partition, settled).map_err(StoreError::sqlite(file.path()))?;
    let (mut run, mut bytes) = (Vec::new(), 0);
    // First the tiny ones among themselves, then the small ones, if they make a full page.
    let mut runs: Vec<(bool, Vec<Cluster>)> = Vec::new();
    let mut tiny = false;
    for cluster in clusters {
        let is_tiny = cluster.is_below(TINY_BYTES);
        let mergeable = cluster.is_settled(settled) && cluster.is_below(FULL_BYTES);
        if !mergeable || is_tiny != tiny || bytes + cluster.raw_bytes() > MERGE_BYTES_MAX {
            runs.push((tiny, std::mem::take(&mut run)));
            bytes = 0;
        }
        tiny = is_tiny;
        if mergeable {
            bytes += cluster.raw_bytes();
            run.push(cluster);
        }
    }
    runs.push((tiny, run));
    let mut merges = Vec::new();
    for (tiny, run) in runs {
        let pages: usize = run.iter().map(|c| c.pages.len()).sum();
        let bytes: u64 = run.iter().map(Cluster::raw_bytes).sum();
        let worth = pages > 1 && if tiny { pages >= RUN_MIN as usize } else { bytes >= PAGE_BYTES as u64 * 9 / 10 };
        if worth {
            merges.extend(merge_run(file, run.into_iter().flat_map(|c| c.pages).collect())?);
        }
    }
    Ok(merges)
}

/// Tiny pages of `partition` that were too young for a merge.
fn unsettled(file: &DayFile, partition: &str, settled: i64) -> rusqlite::Result<u32> {
    let select = "SELECT count(*) FROM page
                  WHERE partition = (SELECT id FROM partition WHERE name = ?1) AND raw_bytes < ?2 AND seq > ?3";
    file.connection().prepare_cached(select)?.query_row(params![partition, TINY_BYTES, settled], |row| row.get(0))
}

/// The pages of `partition` around its small ones, in the order of their keys, by overlap.
fn clusters(file: &DayFile, partition: &str, settled: i64) -> rusqlite::Result<Vec<Cluster>> {
    let connection = file.connection();
    let bounds = connection
        .prepare_cached(
            "SELECT min(first), max(last) FROM page
             WHERE partition = (SELECT id FROM partition WHERE name = ?1) AND raw_bytes < ?2 AND seq <= ?3",
        )?
        .query_row(params![partition, FULL_BYTES, settled], |row| {
            Ok((row.get::<_, Option<Vec<u8>>>(0)?, row.get::<_, Option<Vec<u8>>>(1)?))
        })?;
    let (Some(first), Some(last)) = bounds else { return Ok(Vec::new()) };
    // A page that overlaps the newest of them begins at most a page's span before it.
    let from = RowKey::from_bytes(&first).map_or(Ticks::MAX, |key| key.time()).plus(PAGE_SPAN);
    let from = RowKey::range(from, from).0.to_bytes();
    let select = format!(
        "SELECT {HEADER_COLUMNS} FROM page WHERE partition = (SELECT id FROM partition WHERE name = ?1)
         AND first >= ?2 AND first <= ?3 ORDER BY first"
    );
    let mut statement = connection.prepare_cached(&select)?;
    let mut rows = statement.query(params![partition, from, last])?;
    let mut clusters: Vec<Cluster> = Vec::new();
    while let Some(row) = rows.next()? {
        let page = read_header(row)?;
        match clusters.last_mut() {
            Some(cluster) if page.header.first <= cluster.last => {
                cluster.last = cluster.last.max(page.header.last);
                cluster.pages.push(page);
            }
            _ => clusters.push(Cluster { last: page.header.last, pages: vec![page] }),
        }
    }
    Ok(clusters)
}

fn merge_run(file: &DayFile, mut pages: Vec<PageRow>) -> Result<Option<Merge>, StoreError> {
    // Of equal keys the builder keeps the one that was pushed last: the later commit's.
    pages.sort_by_key(|page| (page.seq, page.id));
    let mut decoded = Vec::with_capacity(pages.len());
    for page in &pages {
        decoded.push(read_page(file.connection(), file.path(), page)?);
    }
    let mut builder = Builder::new();
    for page in &decoded {
        builder.push_page(page);
    }
    let built = builder.build();
    let old = pages.iter().map(|page| page.id).collect();
    let last = pages.last().map(|page| (page.partition, page.seq));
    Ok(last.map(|(partition, seq)| Merge { partition, old, new: built.pages, seq, duplicates: built.duplicates }))
}

/// Reads and checks a page's body.
pub(crate) fn read_page(
    connection: &rusqlite::Connection,
    path: &std::path::Path,
    page: &PageRow,
) -> Result<Page, StoreError> {
    let damaged = |what: String| StoreError::Damaged { path: path.into(), page: page.id, what };
    let mut statement =
        connection.prepare_cached("SELECT bytes FROM body WHERE page = ?1").map_err(StoreError::sqlite(path))?;
    let page = statement.query_row([page.id], |row| {
        let body = row.get_ref(0)?.as_blob()?;
        Ok(Page::decode(&page.header, body))
    });
    match page {
        Ok(Ok(page)) => Ok(page),
        Ok(Err(error)) => Err(damaged(error.to_string())),
        Err(rusqlite::Error::QueryReturnedNoRows) => Err(damaged("its body is missing".into())),
        Err(error) => Err(StoreError::sqlite(path)(error)),
    }
}
