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
use super::day::{DayFile, HEADER_COLUMNS, Insert, Merge, PageRow, SIZES, TINY_BYTES, read_header};
use super::page::{Builder, PAGE_BYTES, PAGE_SPAN, Page};
use crate::key::{DayTable, RowKey};
use crate::time::Ticks;
use rusqlite::{OptionalExtension, params};
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Raw bytes from which a page is full enough to be left alone.
const FULL_BYTES: u32 = 64 << 10;
/// Tiny pages in a row that are worth a merge.
const RUN_MIN: usize = 48;
/// Pages of a partition that are no longer tiny and are looked at for one merge, the newest first.
const LOOKED_AT: usize = 256;
/// Raw bytes that one merge takes at most.
const MERGE_BYTES_MAX: u64 = 1 << 20;
/// Age from which a page is merged: longer than any follower takes from one look to the next.
const SETTLED_AFTER: Duration = Duration::from_secs(5);
/// Pages that one transaction takes away, about. The tiny pages of a partition lie among those of all others, a leaf of
/// SQLite's each; taken away together, those of many partitions, a leaf is written once and not once a page.
const PAGES_A_TRANSACTION: usize = 20_000;
/// How long merged pages wait for others at most before they take their place.
const REPLACED_AFTER: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });
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
    /// Pages that were taken away since [`Tidy::take_merged`].
    merged: u64,
}

#[derive(Default)]
struct Day {
    /// The tiny pages of each partition, by id.
    tiny: HashMap<Arc<str>, Vec<i64>, foldhash::quality::RandomState>,
    ready: VecDeque<(Instant, Arc<str>)>,
    /// The partitions in `ready`, and those whose pages are prepared.
    queued: HashSet<Arc<str>>,
    /// What was merged and is not in its place yet.
    prepared: Vec<Merge>,
    prepared_pages: usize,
    prepared_since: Option<Instant>,
    /// Whether pages that were there before this process are counted.
    counted: bool,
}

impl Tidy {
    /// Notes pages of a commit, which have ids from `first` on.
    pub(crate) fn written(&mut self, day: &DayTable, pages: &[Insert], first: i64) {
        let day = self.days.entry(day.clone()).or_default();
        for (Insert { partition, page }, id) in pages.iter().zip(first..) {
            if page.header.raw_bytes < TINY_BYTES {
                day.add_tiny(partition, id);
            }
        }
    }

    /// Pages that were merged away since this was asked last.
    pub(crate) fn take_merged(&mut self) -> u64 {
        std::mem::take(&mut self.merged)
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
        self.days.get(day).is_some_and(|day| !day.queued.is_empty())
    }

    /// The day is gone.
    pub(crate) fn forget(&mut self, day: &DayTable) {
        self.days.remove(day);
    }

    /// Merges for a short time.
    pub(crate) fn step(&mut self, name: &DayTable, file: &mut DayFile) -> Result<(), StoreError> {
        self.work(name, file, STEP, false)
    }

    /// Merges what can be before the file is closed.
    pub(crate) fn finish(&mut self, name: &DayTable, file: &mut DayFile) -> Result<(), StoreError> {
        self.settle();
        self.work(name, file, FINISH, true)
    }

    fn work(&mut self, name: &DayTable, file: &mut DayFile, time: Duration, is_last: bool) -> Result<(), StoreError> {
        let start = Instant::now();
        let settled = self.settled;
        let Some(day) = self.days.get_mut(name) else { return Ok(()) };
        if !day.counted {
            day.count(file)?;
        }
        while day.is_ready() && start.elapsed() < time {
            let Some((_, partition)) = day.ready.pop_front() else { break };
            let ids = day.tiny.get(&partition).map_or(&[][..], Vec::as_slice);
            let merges = merges_of(file, &partition, ids, settled)?;
            if merges.is_empty() {
                day.queued.remove(&partition);
            } else {
                day.prepare(merges);
            }
        }
        if day.is_prepared() || is_last {
            self.merged += day.replace(file)?;
        }
        Ok(())
    }
}

impl Day {
    fn has_work(&self) -> bool {
        !self.counted || self.is_ready() || self.is_prepared()
    }

    /// Whether a partition can be merged now.
    fn is_ready(&self) -> bool {
        self.ready.front().is_some_and(|(since, _)| since.elapsed() >= SETTLED_AFTER)
    }

    /// Whether what was merged is worth a transaction.
    fn is_prepared(&self) -> bool {
        let is_old = self.prepared_since.is_some_and(|since| since.elapsed() >= REPLACED_AFTER);
        is_old || self.prepared_pages >= PAGES_A_TRANSACTION
    }

    /// Keeps what was merged of a partition, which stays queued: none of its pages may be merged twice.
    fn prepare(&mut self, merges: Vec<Merge>) {
        self.prepared_since.get_or_insert_with(Instant::now);
        self.prepared_pages += merges.iter().map(|merge| merge.old.len()).sum::<usize>();
        self.prepared.extend(merges);
    }

    /// Puts the merged pages in the place of those they were made of. What was committed meanwhile is of a later commit
    /// than any of them, and wins over them as it would have over their parts.
    /// Gives how many pages it took away.
    fn replace(&mut self, file: &mut DayFile) -> Result<u64, StoreError> {
        let taken = self.prepared_pages as u64;
        let merges = std::mem::take(&mut self.prepared);
        (self.prepared_pages, self.prepared_since) = (0, None);
        if merges.is_empty() {
            return Ok(0);
        }
        crate::failpoint!("tidy-before");
        let first = file.replace(&merges)?;
        for Merge { name, old, .. } in &merges {
            self.queued.remove(name);
            let gone: HashSet<i64> = old.iter().copied().collect();
            if let Some(ids) = self.tiny.get_mut(name) {
                ids.retain(|id| !gone.contains(id));
            }
        }
        let new = merges.iter().flat_map(|merge| merge.new.iter().map(move |page| (&merge.name, page)));
        for ((name, page), id) in new.zip(first..) {
            if page.header.raw_bytes < TINY_BYTES {
                self.add_tiny(name, id);
            }
        }
        for Merge { name, .. } in &merges {
            // What was too young for this merge waits for the next.
            if self.tiny.get(name).is_some_and(|ids| ids.len() >= RUN_MIN) {
                self.queue(name);
            }
        }
        self.tiny.retain(|_, ids| !ids.is_empty());
        Ok(taken)
    }

    fn add_tiny(&mut self, partition: &Arc<str>, id: i64) {
        let ids = self.tiny.entry(partition.clone()).or_default();
        ids.push(id);
        // Enough for a merge, and a few more that are too young for it.
        if ids.len() >= RUN_MIN + RUN_MIN / 4 {
            self.queue(partition);
        }
    }

    fn queue(&mut self, partition: &Arc<str>) {
        if self.queued.insert(partition.clone()) {
            self.ready.push_back((Instant::now(), partition.clone()));
        }
    }

    /// Notes the tiny pages that were there before this process.
    fn count(&mut self, file: &DayFile) -> Result<(), StoreError> {
        self.counted = true;
        let known: HashSet<i64> = self.tiny.values().flatten().copied().collect();
        let [_, is_tiny] = SIZES;
        let select = format!(
            "SELECT partition.name, page.id FROM page JOIN partition ON partition.id = page.partition WHERE {is_tiny}"
        );
        let found = (|| {
            let mut statement = file.connection().prepare(&select)?;
            let rows = statement.query_map([], |row| Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?)))?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        })();
        for (name, id) in found.map_err(StoreError::sqlite(file.path()))? {
            if !known.contains(&id) {
                self.add_tiny(&name.into(), id);
            }
        }
        Ok(())
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

/// What is worth merging among the pages of `partition` up to commit `settled`, merged. `tiny`: its tiny pages.
fn merges_of(file: &DayFile, partition: &Arc<str>, tiny: &[i64], settled: i64) -> Result<Vec<Merge>, StoreError> {
    let clusters = clusters(file, partition, tiny).map_err(StoreError::sqlite(file.path()))?;
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
        let worth = pages > 1 && if tiny { pages >= RUN_MIN } else { bytes >= PAGE_BYTES as u64 * 9 / 10 };
        if worth {
            let pages = run.into_iter().flat_map(|c| c.pages).collect();
            merges.extend(merge_run(file, partition, pages)?);
        }
    }
    Ok(merges)
}

/// The newest pages of `partition`, in the order of their keys, by overlap.
fn clusters(file: &DayFile, partition: &str, tiny: &[i64]) -> rusqlite::Result<Vec<Cluster>> {
    let connection = file.connection();
    let mut pages = Vec::with_capacity(tiny.len());
    let mut by_id = connection.prepare_cached(&format!("SELECT {HEADER_COLUMNS} FROM page WHERE id = ?1"))?;
    for id in tiny {
        pages.extend(by_id.query_row([id], read_header).optional()?);
    }
    let Some(first) = pages.iter().map(|page| page.header.first).min() else { return Ok(Vec::new()) };
    // A page that overlaps the newest of them begins at most a page's span before it.
    let from = RowKey::range(Ticks::MIN, first.time().plus(PAGE_SPAN)).0.to_bytes();
    let [is_fuller, _] = SIZES;
    let select = format!(
        "SELECT {HEADER_COLUMNS} FROM page WHERE {is_fuller}
         AND partition = (SELECT id FROM partition WHERE name = ?1) AND first >= ?2 ORDER BY first LIMIT ?3"
    );
    let mut statement = connection.prepare_cached(&select)?;
    let fuller = statement.query_map(params![partition, from, LOOKED_AT as i64], read_header)?;
    let fuller = fuller.collect::<rusqlite::Result<Vec<_>>>()?;
    // Behind the last one that was looked at there may be more, which may overlap what is before them.
    let end = if fuller.len() < LOOKED_AT { None } else { fuller.last().map(|page| page.header.first) };
    pages.extend(fuller);
    pages.sort_by_key(|page| page.header.first);

    let mut clusters: Vec<Cluster> = Vec::new();
    for page in pages {
        match clusters.last_mut() {
            Some(cluster) if page.header.first <= cluster.last => {
                cluster.last = cluster.last.max(page.header.last);
                cluster.pages.push(page);
            }
            _ => clusters.push(Cluster { last: page.header.last, pages: vec![page] }),
        }
    }
    clusters.retain(|cluster| end.is_none_or(|end| cluster.last < end));
    Ok(clusters)
}

fn merge_run(file: &DayFile, name: &Arc<str>, mut pages: Vec<PageRow>) -> Result<Option<Merge>, StoreError> {
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
    Ok(last.map(|(partition, seq)| {
        let (name, new) = (name.clone(), built.pages);
        Merge { name, partition, old, new, seq, duplicates: built.duplicates }
    }))
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
