//! Compaction: quiet sources make small pages, which are merged into full ones as the day goes. The field knows this from
//! [log-structured merge trees](https://www.cs.umb.edu/~poneil/lsmtree.pdf).
//!
//! The tiny pages of one commit lie in one pack. Every half minute or so the packs of a day are **unpacked**: all pages of
//! a partition in them become one page, and the packs are deleted. Pages that are still small are merged again: tiny ones when
//! [`Thresholds::run_pages_min`] are in a row, others when together they fill a page. Each record is rewritten two or three times.
//!
//! Only committed pages of one partition are merged, in one transaction of the file, and the merged page gets the highest
//! `seq` of its parts. (With a `seq` of its own, a crash before the next commit point would remove the merged page when its
//! parts are gone.) So a page that is left out must not lie between the parts and share a row with them: an older duplicate
//! could win over that row. Rows of `page` are merged with all pages that overlap them, and only if they are older than every
//! packed page of their partition. Packs are unpacked oldest first, so the packs left over are newer than the merged ones. Rows
//! of the partition that lie between packs and overlap them are merged with them, or split the run where they are large.
//!
//! A damaged page is left where it is, together with the pages it would have been merged with. Readers of that page get the
//! error; commits do not fail.
//!
//! Pages younger than [`SETTLED_AFTER`] stay as they are: a follower has not seen them yet, and would be shown again the older
//! rows that they are merged with.

use crate::StoreError;
use crate::format::day_file::{self, DayFile, HEADER_COLUMNS, PageMerge, TINY_BYTES, WrittenPages, read_header};
use crate::format::page::{EncodedPage, PAGE_SPAN, PageBuilder, PageHeader};
use crate::format::small_pages::{self, PageLocation, PageRow, SmallPagesRow};
use crate::maintain::thresholds::Thresholds;
use crate::outbox::RemovedPages;
use daytable_model::key::{DayTable, RowKey};
use daytable_model::time::Ticks;
use rusqlite::{Row, params};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque, btree_map};
#[cfg(feature = "testing")]
use std::path::Path;
use std::time::{Duration, Instant};

/// Raw bytes from which a page is full enough to be left alone.
const FULL_BYTES: u32 = 64 << 10;
/// Pages of a partition that are looked at for one merge, the newest first.
const LOOKED_AT: usize = 256;
/// Age from which a page is merged: longer than any follower takes from one look to the next.
pub(crate) const SETTLED_AFTER: Duration = Duration::from_secs(5);
/// Packs that are worth unpacking when the oldest is [`Thresholds::unpack_after`] old.
const PACKS_MIN: usize = 32;
/// Raw bytes in packs that are unpacked whatever their age, and that are unpacked at a time.
const PACKED_BYTES_MAX: u64 = 16 << 20;
/// Pages that one transaction takes away, about.
const PAGES_A_TRANSACTION: usize = 1000;
/// How long one step may keep the committer.
const STEP: Duration = Duration::from_millis(20);
/// How long the last steps may take when the store closes.
const FINISH: Duration = Duration::from_secs(2);

/// What there is to compactor.
pub(crate) struct Compactor {
    days: HashMap<DayTable, Day>,
    commits: VecDeque<(Instant, i64)>,
    settled: i64,
    settled_after: Duration,
    thresholds: Thresholds,
    /// Pages that were taken away since [`Compactor::reset_merged`].
    merged: u64,
}

#[derive(Default)]
struct Day {
    thresholds: Thresholds,
    /// The packs, the oldest first, and when they came.
    packs: VecDeque<(Instant, SmallPagesRow)>,
    packed_bytes: u64,
    /// What is being unpacked.
    unpacking: Option<Unpacking>,
    /// What each partition has in small pages that were not looked at together yet.
    small: HashMap<i64, Small, foldhash::quality::RandomState>,
    /// Partitions whose small pages are worth a look.
    ready: VecDeque<(Instant, i64)>,
    /// The partitions in `ready`, and those whose pages are prepared.
    queued: HashSet<i64>,
    /// What was merged and is not in its place yet.
    prepared: Vec<PageMerge>,
    prepared_pages: usize,
    prepared_since: Option<Instant>,
    /// Whether what was there before this process is counted.
    counted: bool,
}

#[derive(Default)]
struct Small {
    tiny: usize,
    bytes: u64,
    /// The first key of the newest of them.
    first: Option<RowKey>,
}

/// Packs that are being unpacked: partition by partition, and all of them replaced at once.
struct Unpacking {
    /// The bodies of each pack.
    bodies: Bodies,
    pages: usize,
    left: btree_map::IntoIter<i64, Vec<PageRow>>,
    merges: Vec<PageMerge>,
}

impl Compactor {
    /// Nothing yet; pages are left alone until they are `settled_after` old.
    pub(crate) fn new(settled_after: Duration, thresholds: Thresholds) -> Compactor {
        Compactor { days: HashMap::new(), commits: VecDeque::new(), settled: 0, settled_after, thresholds, merged: 0 }
    }

    fn day(&mut self, day: &DayTable) -> &mut Day {
        self.days.entry(day.clone()).or_insert_with(|| Day::new(self.thresholds))
    }

    /// Notes that pages of a day went, because they were sent: what was being made of them is not put in their place.
    pub(crate) fn removed(&mut self, day: &DayTable, removed: &RemovedPages) {
        if let Some(day) = self.days.get_mut(day) {
            day.removed(removed);
        }
    }

    /// Notes that a day's file is open and has something to tidy from before.
    pub(crate) fn opened(&mut self, day: &DayTable) {
        self.day(day);
    }

    /// Notes what a commit wrote.
    pub(crate) fn written(&mut self, day: &DayTable, written: WrittenPages) {
        self.day(day).add(written);
    }

    /// Pages that were merged away since this was asked last.
    pub(crate) fn reset_merged(&mut self) -> u64 {
        std::mem::take(&mut self.merged)
    }

    /// Notes a commit.
    pub(crate) fn committed(&mut self, seq: i64) {
        self.commits.push_back((Instant::now(), seq));
        self.settle();
    }

    fn settle(&mut self) {
        while let Some(&(at, seq)) = self.commits.front()
            && at.elapsed() >= self.settled_after
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
        self.days.get(day).is_some_and(|day| !day.counted || !day.queued.is_empty() || !day.packs.is_empty())
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

    /// Does what there is to do in a day. Where a page is damaged, all that was known of the day stays as it is: whoever
    /// reads the page is told so, but commits go on, and what comes later is newer than all of it and is tidied for itself.
    fn work(&mut self, name: &DayTable, file: &mut DayFile, time: Duration, is_last: bool) -> Result<(), StoreError> {
        match self.try_work(name, file, time, is_last) {
            Err(error) if error.is_damage() => {
                tracing::error!(table = %name, %error, "some pages stay as small as they are");
                if let Some(day) = self.days.get_mut(name) {
                    *day = Day { counted: true, ..Day::new(self.thresholds) };
                }
                Ok(())
            }
            done => done,
        }
    }

    fn try_work(
        &mut self,
        name: &DayTable,
        file: &mut DayFile,
        time: Duration,
        is_last: bool,
    ) -> Result<(), StoreError> {
        let until = Instant::now() + time;
        let settled = self.settled;
        let Some(day) = self.days.get_mut(name) else { return Ok(()) };
        if !day.counted {
            day.count(file)?;
        }
        if day.unpacking.is_none() && (day.is_packed_long() || is_last) {
            day.begin_unpacking(file, settled)?;
        }
        self.merged += day.unpack(file, until)?;
        // Each once: some are queued again.
        let mut left = day.ready.len();
        while (day.is_ready() || is_last) && left > 0 && Instant::now() < until {
            day.merge_next(file, settled)?;
            left -= 1;
        }
        if day.is_prepared() || is_last {
            self.merged += day.replace(file)?;
        }
        Ok(())
    }
}

/// Merges all that can be merged of the file of a day that no store has open, as if all of it had settled.
#[cfg(feature = "testing")]
pub fn compact_file(path: &Path, table: &DayTable) {
    let mut file = DayFile::open(path, table).expect("a file");
    let mut compactor = Compactor::new(Duration::ZERO, Thresholds::default());
    compactor.opened(table);
    compactor.committed(i64::MAX);
    compactor.finish(table, &mut file).expect("merged");
    file.close().expect("closed");
}

/// A part of a step, for tests that choose when which is done.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub(crate) enum Part {
    Read,
    Unpack,
    Merge,
    Replace,
}

#[cfg(test)]
impl Compactor {
    /// Does one part of a step as if all up to commit `settled` had settled.
    pub(crate) fn force(&mut self, name: &DayTable, file: &mut DayFile, settled: i64, part: Part) {
        let Some(day) = self.days.get_mut(name) else { return };
        if !day.counted {
            day.count(file).expect("counted");
        }
        match part {
            Part::Read if day.unpacking.is_none() => day.begin_unpacking(file, settled).expect("read"),
            Part::Read => {}
            Part::Unpack => drop(day.unpack(file, Instant::now() + Duration::from_millis(1)).expect("unpacked")),
            Part::Merge => day.merge_next(file, settled).expect("merged"),
            Part::Replace => drop(day.replace(file).expect("replaced")),
        }
    }
}

impl Day {
    fn new(thresholds: Thresholds) -> Day {
        Day { thresholds, ..Day::default() }
    }

    fn has_work(&self) -> bool {
        !self.counted || self.unpacking.is_some() || self.is_packed_long() || self.is_ready() || self.is_prepared()
    }

    /// Whether packs are worth unpacking. The oldest is always settled then.
    fn is_packed_long(&self) -> bool {
        let age = self.packs.front().map_or(Duration::ZERO, |(since, _)| since.elapsed());
        age >= self.thresholds.unpack_at_last
            || age >= self.thresholds.unpack_after && self.packs.len() >= PACKS_MIN
            || age > SETTLED_AFTER && self.packed_bytes >= PACKED_BYTES_MAX
    }

    /// Whether a partition can be merged now.
    fn is_ready(&self) -> bool {
        self.ready.front().is_some_and(|(since, _)| since.elapsed() >= SETTLED_AFTER)
    }

    /// Whether what was merged is worth a transaction.
    fn is_prepared(&self) -> bool {
        let is_old = self.prepared_since.is_some_and(|since| since.elapsed() >= self.thresholds.replace_after);
        is_old || self.prepared_pages >= PAGES_A_TRANSACTION
    }

    fn add(&mut self, written: WrittenPages) {
        // First, so that no row of the same commit is merged before it.
        if let Some(pack) = written.pack {
            self.packed_bytes += pack.raw_bytes;
            self.packs.push_back((Instant::now(), pack));
        }
        for (partition, first, raw_bytes) in written.rows {
            if raw_bytes < FULL_BYTES {
                self.add_small(partition, first, usize::from(raw_bytes < TINY_BYTES), u64::from(raw_bytes));
            }
        }
    }

    fn removed(&mut self, removed: &RemovedPages) {
        for (id, left) in &removed.packs {
            let Some(at) = self.packs.iter().position(|(_, pack)| pack.id == *id) else { continue };
            self.packed_bytes = self.packed_bytes.saturating_sub(self.packs[at].1.raw_bytes);
            match left {
                None => drop(self.packs.remove(at)),
                Some(raw_bytes) => {
                    self.packed_bytes += raw_bytes;
                    self.packs[at].1.raw_bytes = *raw_bytes;
                }
            }
        }
        // What is being unpacked takes in rows as well, and counts its packs from the front.
        let is_in = |unpacking: &Unpacking| {
            let is_gone = |merge: &PageMerge| merge.old.iter().any(|id| removed.pages.contains(id));
            removed.packs.iter().any(|(id, _)| unpacking.bodies.contains_key(id))
                || unpacking.merges.iter().any(is_gone)
        };
        if self.unpacking.as_ref().is_some_and(is_in) {
            self.unpacking = None;
        }
        let (pages, queued) = (&removed.pages, &mut self.queued);
        self.prepared.retain(|merge| {
            let stays = !merge.old.iter().any(|id| pages.contains(id));
            if !stays {
                queued.remove(&merge.partition);
            }
            stays
        });
        self.prepared_pages = self.prepared.iter().map(|merge| merge.old.len()).sum();
        if self.prepared.is_empty() {
            self.prepared_since = None;
        }
    }

    fn add_small(&mut self, partition: i64, first: RowKey, tiny: usize, bytes: u64) {
        let small = self.small.entry(partition).or_default();
        small.first = Some(small.first.map_or(first, |newest| newest.min(first)));
        small.tiny += tiny;
        small.bytes += bytes;
        if (small.tiny >= self.thresholds.run_pages_min || small.bytes >= self.thresholds.run_bytes_min)
            && self.queued.insert(partition)
        {
            self.ready.push_back((Instant::now(), partition));
        }
    }

    /// Notes what was there before this process.
    fn count(&mut self, file: &DayFile) -> Result<(), StoreError> {
        self.counted = true;
        let since = Instant::now();
        let known: HashSet<i64> = self.packs.iter().map(|(_, pack)| pack.id).collect();
        let found = (|| {
            let packs = small_pages::all(file.connection())?;
            let select = "SELECT partition, first, raw_bytes FROM page WHERE raw_bytes < ?1";
            let mut statement = file.connection().prepare(select)?;
            let read = |row: &Row<'_>| {
                Ok((row.get(0)?, RowKey::from_bytes(row.get_ref(1)?.as_blob()?), row.get::<_, u32>(2)?))
            };
            let rows = statement.query_map([FULL_BYTES], read)?;
            Ok((packs, rows.collect::<rusqlite::Result<Vec<_>>>()?))
        })();
        let (packs, small) = found.map_err(StoreError::sqlite(file.path()))?;
        for pack in packs.into_iter().filter(|pack| !known.contains(&pack.id)).rev() {
            self.packed_bytes += pack.raw_bytes;
            self.packs.push_front((since, pack));
        }
        self.small.clear();
        for (partition, first, raw_bytes) in small {
            let Some(first) = first else { continue };
            self.add_small(partition, first, usize::from(raw_bytes < TINY_BYTES), u64::from(raw_bytes));
        }
        Ok(())
    }

    /// Reads the oldest packs that are settled.
    fn begin_unpacking(&mut self, file: &DayFile, settled: i64) -> Result<(), StoreError> {
        let (mut pages, mut bodies, mut bytes) = (Vec::new(), HashMap::default(), 0);
        for (_, pack) in &self.packs {
            if pack.seq > settled || bytes > 0 && bytes + pack.raw_bytes > PACKED_BYTES_MAX {
                break;
            }
            bytes += pack.raw_bytes;
            let unpacked = small_pages::unpack(file.connection(), pack.id, &mut pages);
            bodies.insert(pack.id, unpacked.map_err(StoreError::sqlite(file.path()))?);
        }
        let count = pages.len();
        let mut left: BTreeMap<i64, Vec<PageRow>> = BTreeMap::new();
        for page in pages {
            left.entry(page.partition).or_default().push(page);
        }
        if !bodies.is_empty() {
            self.unpacking = Some(Unpacking { bodies, pages: count, left: left.into_iter(), merges: Vec::new() });
        }
        Ok(())
    }

    /// Goes on with what is unpacked; when all of it is merged, puts it in the place of its packs. Gives how many pages
    /// it took away.
    fn unpack(&mut self, file: &mut DayFile, until: Instant) -> Result<u64, StoreError> {
        let Some(Unpacking { bodies, pages, left, merges }) = &mut self.unpacking else { return Ok(0) };
        while Instant::now() < until {
            let Some((partition, parts)) = left.next() else {
                let small_row_ids: Vec<i64> = self.packs.iter().take(bodies.len()).map(|(_, pack)| pack.id).collect();
                let (merges, merged_pages) = (std::mem::take(merges), *pages as u64);
                daytable_platform::failpoint!("compaction-before");
                let written = file.replace(&merges, &small_row_ids)?;
                for (_, pack) in self.packs.drain(..small_row_ids.len()) {
                    self.packed_bytes -= pack.raw_bytes;
                }
                self.unpacking = None;
                self.add(written);
                return Ok(merged_pages);
            };
            let between = between(file, partition, &parts)?;
            for run in runs_of(parts, between, self.thresholds.merge_bytes_max) {
                merges.extend(merge_run(file, run, bodies)?);
            }
        }
        Ok(0)
    }

    /// Merges rows of the next partition that is worth a look.
    fn merge_next(&mut self, file: &DayFile, settled: i64) -> Result<(), StoreError> {
        let Some((_, partition)) = self.ready.pop_front() else { return Ok(()) };
        // Rows of later commits than its oldest packed page may have packed pages between them.
        let packed = small_pages::oldest_of(file.connection(), partition).map_err(StoreError::sqlite(file.path()))?;
        let Some(first) = self.small.get(&partition).and_then(|small| small.first) else { return Ok(()) };
        let limit = packed.map_or(settled, |seq| settled.min(seq - 1));
        let merges = match merges_of(file, partition, first, limit, &self.thresholds) {
            // The others need not wait for it.
            Err(error) if error.is_damage() => {
                tracing::error!(%error, "small pages of its partition stay as they are");
                self.small.remove(&partition);
                self.queued.remove(&partition);
                return Ok(());
            }
            merges => merges?,
        };
        if !merges.is_empty() {
            self.small.remove(&partition);
            self.prepare(merges);
        } else if limit < settled {
            // Another look when its packs may be gone.
            self.ready.push_back((Instant::now(), partition));
        } else {
            self.small.remove(&partition);
            self.queued.remove(&partition);
        }
        Ok(())
    }

    /// Keeps what was merged of a partition, which stays queued: none of its pages may be merged twice.
    fn prepare(&mut self, merges: Vec<PageMerge>) {
        self.prepared_since.get_or_insert_with(Instant::now);
        self.prepared_pages += merges.iter().map(|merge| merge.old.len()).sum::<usize>();
        self.prepared.extend(merges);
    }

    /// Puts the merged pages in the place of those they were made of. What was committed meanwhile is of a later commit
    /// than any of them, and wins over them as it would have over their parts.
    /// Gives how many pages it took away.
    fn replace(&mut self, file: &mut DayFile) -> Result<u64, StoreError> {
        let merged_pages = self.prepared_pages as u64;
        let merges = std::mem::take(&mut self.prepared);
        (self.prepared_pages, self.prepared_since) = (0, None);
        if merges.is_empty() {
            return Ok(0);
        }
        daytable_platform::failpoint!("compaction-before");
        let written = file.replace(&merges, &[])?;
        for merge in &merges {
            self.queued.remove(&merge.partition);
        }
        self.add(written);
        Ok(merged_pages)
    }
}

/// What a partition has in rows that commits wrote between the first and the last of `parts`, and that overlaps them.
fn between(file: &DayFile, partition: i64, parts: &[PageRow]) -> Result<Vec<PageRow>, StoreError> {
    let seqs = parts.iter().map(|page| page.seq);
    let (Some(oldest), Some(newest)) = (seqs.clone().min(), seqs.max()) else { return Ok(Vec::new()) };
    let mut found: Vec<PageRow> = Vec::new();
    if newest - oldest < 2 {
        return Ok(found);
    }
    loop {
        let pages = || parts.iter().chain(&found);
        let first = pages().map(|page| page.header.first).min();
        let last = pages().map(|page| page.header.last).max();
        let (Some(first), Some(last)) = (first, last) else { return Ok(found) };
        let from = RowKey::range(Ticks::MIN, first.time().plus(PAGE_SPAN)).0;
        let select = format!(
            "SELECT {HEADER_COLUMNS} FROM page WHERE partition = ?1 AND first BETWEEN ?2 AND ?3 AND last >= ?4
             AND seq > ?5 AND seq < ?6"
        );
        let result = (|| {
            let mut statement = file.connection().prepare_cached(&select)?;
            let bounds = params![partition, from.to_bytes(), last.to_bytes(), first.to_bytes(), oldest, newest];
            statement.query_map(bounds, read_header)?.collect::<rusqlite::Result<Vec<_>>>()
        })();
        let more = result.map_err(StoreError::sqlite(file.path()))?;
        // Each may reach further, and overlap others.
        if more.len() == found.len() {
            return Ok(found);
        }
        found = more;
    }
}

/// Packed pages of a partition, `parts`, with what is `between` them, as runs that can be merged: all in one where that is
/// little, else so many that nothing that is left out is between the pages of one. A burst is not rewritten because
/// there were single records before and after it.
fn runs_of(mut parts: Vec<PageRow>, between: Vec<PageRow>, bytes_max: u64) -> Vec<Vec<PageRow>> {
    let bytes: u64 = parts.iter().chain(&between).map(|page| u64::from(page.header.raw_bytes)).sum();
    if bytes <= bytes_max {
        parts.extend(between);
        return vec![parts];
    }
    parts.sort_by_key(|page| page.seq);
    let mut runs: Vec<Vec<PageRow>> = Vec::new();
    let mut keys: Option<(RowKey, RowKey)> = None;
    for part in parts {
        let PageHeader { first, last, .. } = part.header;
        let (newest, oldest) = keys.map_or((first, last), |(newest, oldest)| (newest.min(first), oldest.max(last)));
        let since = runs.last().and_then(|run| run.last()).map_or(part.seq, |page| page.seq);
        let is_cut = between.iter().any(|page| {
            page.seq > since && page.seq < part.seq && page.header.first <= oldest && page.header.last >= newest
        });
        match runs.last_mut() {
            Some(run) if !is_cut => {
                run.push(part);
                keys = Some((newest, oldest));
            }
            _ => {
                runs.push(vec![part]);
                keys = Some((first, last));
            }
        }
    }
    runs
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

/// What is worth merging among the rows of `partition` from `first` on and up to commit `settled`, merged.
fn merges_of(
    file: &DayFile,
    partition: i64,
    first: RowKey,
    settled: i64,
    thresholds: &Thresholds,
) -> Result<Vec<PageMerge>, StoreError> {
    let clusters = clusters(file, partition, first).map_err(StoreError::sqlite(file.path()))?;
    let (mut run, mut bytes) = (Vec::new(), 0);
    // First the tiny ones among themselves, then the small ones, if they make a full page.
    let mut runs: Vec<(bool, Vec<Cluster>)> = Vec::new();
    let mut tiny = false;
    for cluster in clusters {
        let is_tiny = cluster.is_below(TINY_BYTES);
        let mergeable = cluster.is_settled(settled) && cluster.is_below(FULL_BYTES);
        if !mergeable || is_tiny != tiny || bytes + cluster.raw_bytes() > thresholds.merge_bytes_max {
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
        let worth =
            pages > 1 && if tiny { pages >= thresholds.run_pages_min } else { bytes >= thresholds.run_bytes_min };
        if worth {
            let pages = run.into_iter().flat_map(|c| c.pages).collect();
            merges.extend(merge_run(file, pages, &HashMap::default())?);
        }
    }
    Ok(merges)
}

/// The rows of `partition` from about `first` on, in the order of their keys, by overlap.
fn clusters(file: &DayFile, partition: i64, first: RowKey) -> rusqlite::Result<Vec<Cluster>> {
    // A page that overlaps the newest of them begins at most a page's span before it.
    let from = RowKey::range(Ticks::MIN, first.time().plus(PAGE_SPAN)).0.to_bytes();
    let select =
        format!("SELECT {HEADER_COLUMNS} FROM page WHERE partition = ?1 AND first >= ?2 ORDER BY first LIMIT ?3");
    let mut statement = file.connection().prepare_cached(&select)?;
    let pages = statement.query_map(params![partition, from, LOOKED_AT as i64], read_header)?;
    let pages = pages.collect::<rusqlite::Result<Vec<_>>>()?;
    // What begins before may reach as far as this.
    let reached = "SELECT max(last) FROM page WHERE partition = ?1 AND first BETWEEN ?2 AND ?3 AND first < ?3";
    let before = RowKey::range(Ticks::MIN, first.time().plus(2 * PAGE_SPAN)).0.to_bytes();
    let mut reached = file.connection().prepare_cached(reached)?;
    let reached: Option<Vec<u8>> = reached.query_row(params![partition, before, from], |row| row.get(0))?;
    let reached = reached.and_then(|key| RowKey::from_bytes(&key));
    // Behind the last one that was looked at there may be more, which may overlap what is before them.
    let end = if pages.len() < LOOKED_AT { None } else { pages.last().map(|page| page.header.first) };

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
    let begins = |cluster: &Cluster| cluster.pages.first().map(|page| page.header.first);
    clusters.retain(|cluster| end.is_none_or(|end| cluster.last < end) && begins(cluster) > reached);
    Ok(clusters)
}

type Bodies = HashMap<i64, Vec<u8>, foldhash::quality::RandomState>;

/// Merges pages of one partition; `unpacked` has the bodies of their packs.
fn merge_run(file: &DayFile, mut pages: Vec<PageRow>, unpacked: &Bodies) -> Result<Option<PageMerge>, StoreError> {
    // Of equal keys the builder keeps the one that was pushed last: the later commit's.
    pages.sort_by_key(|page| (page.seq, page.place));
    let Some(newest) = pages.last() else { return Ok(None) };
    let (partition, seq) = (newest.partition, newest.seq);
    let home = file.address_of(partition)?.ok_or_else(|| day_file::unnamed_partition(file.path(), newest))?;
    let (mut old, mut decoded, mut body) = (Vec::new(), Vec::with_capacity(pages.len()), Vec::new());
    // Read as well where it stays as it is: only what is whole is written anew.
    for page in &pages {
        decoded.push(match page.place {
            PageLocation::Row(id) => {
                old.push(id);
                day_file::read_page(file.connection(), file.path(), home, page)?
            }
            PageLocation::Packed { pack, offset, length } => {
                let bodies = unpacked.get(&pack).map_or(&[][..], Vec::as_slice);
                let packed = bodies.get(offset as usize..).and_then(|rest| rest.get(..length as usize));
                let packed =
                    packed.ok_or_else(|| day_file::damaged(file.path(), page, "its body is missing".into()))?;
                if pages.len() == 1 {
                    body.extend_from_slice(packed);
                }
                day_file::decode(file.path(), home, page, packed)?
            }
        });
    }
    if let ([page], true) = (&*pages, old.is_empty()) {
        let header = PageHeader { checksum: home.stored_checksum(&page.header, seq), ..page.header.clone() };
        let new = vec![EncodedPage { header, body }];
        return Ok(Some(PageMerge { partition, home, old, new, seq, duplicates: 0 }));
    }
    let mut builder = PageBuilder::new();
    for page in &decoded {
        builder.push_page(page);
    }
    let built = builder.build();
    Ok(Some(PageMerge { partition, home, old, new: built.pages, seq, duplicates: built.duplicates }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::day_file::Insert;
    use daytable_model::batch::Batch;
    use daytable_model::record::Record;

    fn day() -> DayTable {
        DayTable::parse("Log20261101").expect("a table")
    }

    fn encoded(rows: &[(u64, &str)]) -> EncodedPage {
        let mut batch = Batch::new(day(), "web-1".into());
        for (n, text) in rows {
            let record = Record { message: (*text).into(), ..Record::default() };
            daytable_model::entity::append(
                &mut batch,
                RowKey::new(day().start().plus(Duration::from_secs(*n)), 7, *n),
                "app.log",
                &record,
            );
        }
        let mut builder = PageBuilder::new();
        builder.push_batch(&batch);
        builder.build().pages.remove(0)
    }

    /// A row that came in a pack, then in a row of `page`, then in a pack again is what came last, when the packs are
    /// unpacked; and what came last in a row of `page` stays so.
    #[test]
    fn unpacking_keeps_the_order_of_commits() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut file = DayFile::open(&dir.path().join("day.db"), &day()).expect("opened");
        let long = "x".repeat(5000);
        let mut compactor = Day { counted: true, ..Day::new(Thresholds::small()) };
        for (seq, rows) in [
            (1, &[(1, "a"), (2, "a"), (3, "a"), (9, "a")][..]),
            (2, &[(2, "b"), (3, "b"), (4, &long)]),
            (3, &[(3, "c")]),
            (4, &[(9, "d"), (10, &long)]),
        ] {
            let insert = Insert { partition: "web-1".into(), page: encoded(rows), is_alone: true };
            compactor.add(file.insert(seq, &[insert]).expect("written"));
        }
        assert_eq!(compactor.packs.len(), 2);
        compactor.begin_unpacking(&file, 4).expect("read");
        let merged_pages = compactor.unpack(&mut file, Instant::now() + Duration::from_secs(60)).expect("merged");
        assert_eq!((merged_pages, compactor.packs.len(), compactor.packed_bytes), (2, 0, 0));
        assert_eq!(file.total().expect("read").merged, 3);
        let select = format!("SELECT {HEADER_COLUMNS} FROM page ORDER BY seq");
        let mut statement = file.connection().prepare(&select).expect("a statement");
        let pages: Vec<_> =
            statement.query_map([], read_header).expect("read").map(|page| page.expect("a row")).collect();
        let home = file.address_of(pages[0].partition).expect("read").expect("a name");
        let rows = pages
            .iter()
            .map(|row| (row.seq, day_file::read_page(file.connection(), file.path(), home, row).expect("whole")));
        let texts = rows.map(|(seq, page)| {
            let text = |at| {
                page.properties(at).find_map(|(name, value)| match value {
                    daytable_model::property::Property::String(text) if name == "Message" => Some(text[..1].to_owned()),
                    _ => None,
                })
            };
            (seq, (0..page.len()).filter_map(text).collect::<String>())
        });
        // Commit 2 lies between the packs and is merged with them; commit 4 comes after them and is not.
        assert_eq!(texts.collect::<Vec<_>>(), [(3, "axcba".into()), (4, "xd".into())]);
    }

    /// A page that cannot be read would otherwise fail a commit after the other, or each close, for ever. What comes later is
    /// tidied for itself.
    #[test]
    fn a_damaged_page_stays_where_it_is_and_nothing_fails_for_it() {
        let long = "x".repeat(6000);
        for (text, damage) in [
            (&*long, "UPDATE body SET bytes = zeroblob(length(bytes))"),
            ("tiny", "UPDATE small_pages SET bodies = zeroblob(length(bodies))"),
            ("tiny", "UPDATE small_pages SET heads = zeroblob(length(heads))"),
            ("tiny", "UPDATE partition SET id = 9"),
            (&*long, "UPDATE partition SET name = 'another'"),
        ] {
            let dir = tempfile::tempdir().expect("a folder");
            let mut file = DayFile::open(&dir.path().join("day.db"), &day()).expect("opened");
            let day = day();
            let mut compactor = Compactor::new(Duration::ZERO, Thresholds::small());
            let mut seq = 0;
            let mut write = |compactor: &mut Compactor, file: &mut DayFile, partition: &str| {
                seq += 1;
                let insert = Insert { partition: partition.into(), page: encoded(&[(seq, text)]), is_alone: true };
                compactor.written(&day, file.insert(seq.cast_signed(), &[insert]).expect("written"));
                compactor.committed(seq.cast_signed());
            };
            let pages = |file: &DayFile| -> i64 {
                let select = "SELECT (SELECT count(*) FROM page) + (SELECT count(*) FROM small_pages)";
                file.connection().query_row(select, [], |row| row.get(0)).expect("counted")
            };
            (0..8).for_each(|_| write(&mut compactor, &mut file, "web-1"));
            assert!(file.connection().execute(damage, []).expect("damaged") > 0, "{damage}");
            compactor.finish(&day, &mut file).expect(damage);
            assert_eq!((pages(&file), compactor.has_work()), (8, false), "{damage}");
            (0..8).for_each(|_| write(&mut compactor, &mut file, "web-2"));
            compactor.finish(&day, &mut file).expect(damage);
            assert_eq!(pages(&file), 9, "{damage}");
        }
    }

    /// Rows are merged while packs of others wait, and those with packed pages of their own when these are unpacked.
    #[test]
    fn rows_wait_for_packed_pages_of_their_own_partition_only() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut file = DayFile::open(&dir.path().join("day.db"), &day()).expect("opened");
        let mut compactor = Day { counted: true, ..Day::new(Thresholds::small()) };
        let long = "x".repeat(6000);
        let mut seq = 0;
        let mut write = |compactor: &mut Day, file: &mut DayFile, partition: &str, text: &str| {
            seq += 1;
            let insert = Insert { partition: partition.into(), page: encoded(&[(seq, text)]), is_alone: true };
            compactor.add(file.insert(seq.cast_signed(), &[insert]).expect("written"));
        };
        write(&mut compactor, &mut file, "cron", "tiny");
        for _ in 0..8 {
            write(&mut compactor, &mut file, "web-1", &long);
        }
        write(&mut compactor, &mut file, "web-2", "tiny");
        for _ in 0..8 {
            write(&mut compactor, &mut file, "web-2", &long);
        }
        assert_eq!((compactor.packs.len(), compactor.ready.len()), (2, 2));
        compactor.merge_next(&file, 99).expect("looked");
        compactor.merge_next(&file, 99).expect("looked");
        assert_eq!(compactor.prepared.iter().map(|merge| merge.old.len()).collect::<Vec<_>>(), [8], "those of web-1");
        assert_eq!(compactor.ready.len(), 1, "web-2 is looked at again");
        compactor.begin_unpacking(&file, 99).expect("read");
        compactor.unpack(&mut file, Instant::now() + Duration::from_secs(60)).expect("unpacked");
        compactor.merge_next(&file, 99).expect("looked");
        assert_eq!(compactor.prepared.iter().map(|merge| merge.old.len()).collect::<Vec<_>>(), [8, 8]);
    }

    /// A burst between two single records stays as it was written, and its rows win over older ones and lose to later ones.
    #[test]
    fn a_burst_between_packs_is_not_rewritten() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut file = DayFile::open(&dir.path().join("day.db"), &day()).expect("opened");
        let mut compactor = Day { counted: true, ..Day::new(Thresholds::small()) };
        let long = "x".repeat(20_000);
        let burst = |from: u64| -> Vec<(u64, &str)> { (from..from + 4).map(|n| (n, long.as_str())).collect() };
        let single = |n, text| vec![(n, text)];
        let commits =
            [single(1, "a"), single(2, "b"), burst(2), single(6, "c"), single(4, "d"), burst(20), single(7, "e")];
        for (rows, seq) in commits.iter().zip(1..) {
            let insert = Insert { partition: "web-1".into(), page: encoded(rows), is_alone: true };
            compactor.add(file.insert(seq, &[insert]).expect("written"));
        }
        let ids =
            "SELECT group_concat(id || ':' || seq || ':' || entities, ' ') FROM (SELECT * FROM page ORDER BY seq)";
        let pages = |file: &DayFile| file.connection().query_row(ids, [], |row| row.get::<_, String>(0)).expect("read");
        assert_eq!(pages(&file), "1:3:4 2:6:4");
        compactor.begin_unpacking(&file, 7).expect("read");
        compactor.unpack(&mut file, Instant::now() + Duration::from_secs(60)).expect("merged");
        // The second burst overlaps nothing, so what was before and after it is one.
        assert_eq!(pages(&file), "3:2:2 1:3:4 2:6:4 4:7:3");
        assert_eq!(file.total().expect("read").merged, 0);
    }
}
