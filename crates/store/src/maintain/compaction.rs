//! Compaction: merges the small pages of quiet sources into full ones, as
//! [log-structured merge trees](https://www.cs.umb.edu/~poneil/lsmtree.pdf) do.
//!
//! Partitions with few rows in a commit have them in shared pages. Every half minute or so, if that is worthwhile or partitions wait
//! for it, the shared pages of a day are **split**: all rows of a partition in them become one page, and the shared pages are deleted. Pages that are still
//! small are merged again: tiny pages when [`Thresholds::run_pages_min`] are in a row, others when together they fill a
//! page. Each record is rewritten two or three times.
//!
//! A merge takes committed pages of one partition, in one transaction of the file. The merged page gets the highest `seq`
//! of its parts. (With a `seq` of its own, a crash before the next commit point would remove the merged page after its
//! parts are gone.) So a page that is left out must not lie between the parts and hold a key of theirs: an older
//! duplicate could win. Pages of one partition are merged with all pages that overlap them, and only if they are older
//! than every shared page with rows of their partition. Shared pages are split oldest first, so the remaining ones are
//! newer. Other pages that lie between shared pages and overlap their rows are merged with them, or end a run if they are
//! large.
//!
//! A damaged page stays where it is, with the pages it would have been merged with. Readers of that page get the error;
//! commits do not fail.
//!
//! Pages younger than [`Thresholds::settled_after`] are not merged. A follower has not seen them yet, and would see the
//! older rows of the merged page a second time.

use crate::StoreError;
use crate::format::commit_range::CommitRange;
use crate::format::day_file::{DayFile, PageMerge, TINY_BYTES, WrittenPages};
use crate::format::page::{FULL_BYTES, PAGE_SPAN, Page, PageBuilder, PageHeader, earliest_first_key};
use crate::format::page_rows::{self, HEADER_COLUMNS, PageLocation, PageRow, read_header};
use crate::format::shared_pages::{self, SHARED, SharedPage, SharedRow};
use crate::maintain::thresholds::Thresholds;
use crate::outbox::RemovedPages;
use daytable_model::key::{DayTable, RowKey};
use daytable_model::time::Ticks;
use daytable_platform::in_parallel::in_parallel;
use rusqlite::{Row, params};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet, VecDeque, btree_map};
#[cfg(feature = "testing")]
use std::path::Path;
use std::time::{Duration, Instant};

/// Pages of a partition that one merge considers, the newest first. It begins up to the span of a page before the small pages,
/// so it has to reach over as many full pages as an instance may have meanwhile.
const CONSIDERED_PAGES_MAX: usize = 1536;
/// Shared pages that are worth splitting once the oldest is [`Thresholds::split_after`] old.
const SHARED_PAGES_MIN: usize = 32;
/// Raw bytes in shared pages from which they are split even if a partition has only a few pages in them. Then a split reads
/// a half of that.
const SHARED_BYTES_KEPT: u64 = 128 << 20;
/// About how many pages one transaction replaces.
const TRANSACTION_PAGES: usize = 1000;
/// Refused merges of a day after which its small pages stay as they are.
const REFUSED_MAX: u64 = 3;
/// Shared pages are split once one of this many of their partitions waits for that to be merged: what few records it had in
/// some commit would keep all its later pages small.
const WAITING_SHARE: u64 = 4;
/// How long one step may occupy the committer.
const STEP_TIME: Duration = Duration::from_millis(20);

/// Finds pages to merge, and merges them in short steps.
pub(crate) struct Compactor {
    days: HashMap<DayTable, Day>,
    commits: VecDeque<(Instant, i64)>,
    settled: i64,
    /// Pages of later commits are left as they are: a receiver lacks them.
    held: i64,
    settled_after: Duration,
    thresholds: Thresholds,
    /// Pages that were merged since [`Compactor::take_merged`].
    merged: u64,
    /// Replacements of pages that were refused since [`Compactor::take_refused`].
    refused: u64,
}

#[derive(Default)]
struct Day {
    thresholds: Thresholds,
    /// The shared pages, the oldest first, and when they came.
    shared: VecDeque<(Instant, SharedRow)>,
    shared_bytes: u64,
    /// Partitions of the shared pages. Those of pages of earlier processes may be missing.
    partitions: PartitionSet,
    /// The shared pages that are being split.
    splitting: Option<Split>,
    /// By partition, the small pages of one partition that were not considered together yet.
    small: HashMap<i64, Small, foldhash::quality::RandomState>,
    /// Partitions whose small pages may be worth a merge.
    ready: VecDeque<(Instant, i64)>,
    /// The partitions in `ready`, and those with merges in `prepared`.
    queued: HashSet<i64>,
    /// Partitions that could be merged if the shared pages were split.
    waiting: HashSet<i64>,
    /// Merged pages that are not written yet.
    prepared: Vec<PageMerge>,
    prepared_pages: usize,
    prepared_since: Option<Instant>,
    /// Whether the pages of earlier processes are counted.
    counted: bool,
    /// How often merged pages were refused because they were not those of the pages that they should replace.
    refused: u64,
}

#[derive(Default)]
struct Small {
    tiny: usize,
    bytes: u64,
    /// The newest key in them.
    first: Option<RowKey>,
}

impl Small {
    /// Whether the pages may be worth a merge.
    fn is_worthwhile(&self, thresholds: &Thresholds) -> bool {
        self.tiny >= thresholds.run_pages_min || self.bytes >= thresholds.run_bytes_min
    }
}

/// A set of partitions, as a bit for each. Their numbers begin at 1 and have no gaps.
#[derive(Default)]
struct PartitionSet {
    bits: Vec<u64>,
    count: u64,
}

impl PartitionSet {
    /// The highest number in a set. Only a damaged file has a higher one.
    const MAX: usize = 1 << 26;

    fn insert(&mut self, partition: i64) {
        let Some(at) = usize::try_from(partition).ok().filter(|at| *at < PartitionSet::MAX) else { return };
        if self.bits.len() <= at / 64 {
            self.bits.resize(at / 64 + 1, 0);
        }
        let (word, bit) = (&mut self.bits[at / 64], 1 << (at % 64));
        self.count += u64::from(*word & bit == 0);
        *word |= bit;
    }
}

/// Shared pages that are being split: merged by partition, and replaced all at once.
struct Split {
    /// The shared pages by id.
    shared: SharedPages,
    pages: usize,
    left: btree_map::IntoIter<i64, Vec<PageRow>>,
    merges: Vec<PageMerge>,
}

impl Compactor {
    /// A compactor that knows no page. Pages younger than `settled_after` are not merged.
    pub(crate) fn new(settled_after: Duration, thresholds: Thresholds) -> Compactor {
        // What is not settled is not due either: a day with such work would keep the others waiting.
        let thresholds = Thresholds { settled_after: settled_after.max(thresholds.settled_after), ..thresholds };
        Compactor {
            days: HashMap::new(),
            commits: VecDeque::new(),
            settled: 0,
            held: i64::MAX,
            settled_after,
            thresholds,
            merged: 0,
            refused: 0,
        }
    }

    fn day(&mut self, day: &DayTable) -> &mut Day {
        self.days.entry(day.clone()).or_insert_with(|| Day::new(self.thresholds))
    }

    /// Removes pages of a day that were sent. Merges with such a page are given up.
    pub(crate) fn removed(&mut self, day: &DayTable, removed: &RemovedPages) {
        if let Some(day) = self.days.get_mut(day) {
            day.removed(removed);
        }
    }

    /// Adds a day whose file is new.
    pub(crate) fn created(&mut self, day: &DayTable) {
        self.day(day).counted = true;
    }

    /// Adds a day whose file may hold small pages of earlier processes.
    pub(crate) fn opened(&mut self, day: &DayTable) {
        self.day(day);
    }

    /// Adds the pages of a commit.
    pub(crate) fn written(&mut self, day: &DayTable, written: WrittenPages) {
        self.day(day).add(written);
    }

    /// The number of pages that were merged since the last call.
    pub(crate) fn take_merged(&mut self) -> u64 {
        std::mem::take(&mut self.merged)
    }

    /// The number of replacements of pages that were refused since the last call.
    pub(crate) fn take_refused(&mut self) -> u64 {
        std::mem::take(&mut self.refused)
    }

    /// Adds the time of a commit.
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

    /// Leaves pages of later commits than this one as they are. While there are settled ones, nothing is merged at all.
    pub(crate) fn hold_after(&mut self, commit: i64) {
        self.held = commit;
    }

    /// Whether pages wait that a receiver lacks.
    fn is_held(&self) -> bool {
        self.held < self.settled
    }

    /// Whether a step would do something now.
    pub(crate) fn has_work(&self) -> bool {
        !self.is_held() && self.days.values().any(Day::has_work)
    }

    /// A day that a step would do something for.
    pub(crate) fn next_day(&mut self) -> Option<DayTable> {
        self.settle();
        if self.is_held() {
            return None;
        }
        self.days.iter().find(|(_, day)| day.has_work()).map(|(name, _)| name.clone())
    }

    /// Whether merging pages of `day` is worthwhile, now or later.
    pub(crate) fn wants(&self, day: &DayTable) -> bool {
        self.days.get(day).is_some_and(Day::is_wanted)
    }

    /// Removes a day that was dropped or closed.
    pub(crate) fn forget(&mut self, day: &DayTable) {
        self.days.remove(day);
    }

    /// Merges for a short time.
    pub(crate) fn step(&mut self, name: &DayTable, file: &mut DayFile) -> Result<(), StoreError> {
        let (settled, until) = (self.settled, Instant::now() + STEP_TIME);
        let Some(day) = self.days.get_mut(name) else { return Ok(()) };
        let (merged, refused) = day.work(name, file, settled, until, false)?;
        (self.merged, self.refused) = (self.merged + merged, self.refused + refused);
        Ok(())
    }

    /// Merges all that it can until then, of several days at once, before the files are closed.
    pub(crate) fn finish(&mut self, files: HashMap<&DayTable, &mut DayFile>, until: Instant) -> Result<(), StoreError> {
        self.settle();
        if self.is_held() {
            return Ok(());
        }
        let (settled, mut files) = (self.settled, files);
        let days = self.days.iter_mut().filter_map(|(name, day)| Some((name, day, files.remove(name)?)));
        let merged = in_parallel(days.collect(), |(name, day, file)| day.work(name, file, settled, until, true));
        for worked in merged {
            let (merged, refused) = worked?;
            (self.merged, self.refused) = (self.merged + merged, self.refused + refused);
        }
        Ok(())
    }
}

/// Merges all that can be merged of the file of a day that no store has open, as if all of it had settled.
#[cfg(feature = "testing")]
pub fn compact_file(path: &Path, table: &DayTable) {
    let mut file = DayFile::open(path, table).expect("a file");
    let thresholds = Thresholds { split_pages_min: 0, ..Thresholds::default() };
    let mut compactor = Compactor::new(Duration::ZERO, thresholds);
    compactor.opened(table);
    compactor.committed(i64::MAX);
    let files = HashMap::from([(table, &mut file)]);
    compactor.finish(files, Instant::now() + Duration::from_secs(60)).expect("merged");
    file.close().expect("closed");
}

/// One part of a step. Tests choose the order of the parts.
#[cfg(test)]
#[derive(Clone, Copy, Debug)]
pub(crate) enum StepPart {
    Read,
    Split,
    Merge,
    Replace,
}

#[cfg(test)]
impl Compactor {
    /// Runs one part of a step as if all commits up to `settled` had settled.
    pub(crate) fn force(&mut self, name: &DayTable, file: &mut DayFile, settled: i64, part: StepPart) {
        let Some(day) = self.days.get_mut(name) else { return };
        if !day.counted {
            day.count(file).expect("counted");
        }
        match part {
            StepPart::Read if day.splitting.is_none() => day.begin_split(file, settled).expect("read"),
            StepPart::Read => {}
            StepPart::Split => drop(day.split_next(file, Instant::now() + Duration::from_millis(1)).expect("split")),
            StepPart::Merge => day.merge_next(file, settled).expect("merged"),
            StepPart::Replace => drop(day.replace(file).expect("replaced")),
        }
    }
}

impl Day {
    fn new(thresholds: Thresholds) -> Day {
        Day { thresholds, ..Day::default() }
    }

    /// Does the work that is due. Returns the number of merged pages, and of refused replacements. After a damaged page, all
    /// small pages of the day so far stay as they are. Later pages are merged for themselves, but for those of partitions with
    /// rows in shared pages that stay.
    fn work(
        &mut self,
        name: &DayTable,
        file: &mut DayFile,
        settled: i64,
        until: Instant,
        is_last: bool,
    ) -> Result<(u64, u64), StoreError> {
        match self.try_work(file, settled, until, is_last) {
            Err(error) if error.is_damage() => {
                tracing::error!(table = %name, %error, "a page is damaged: small pages of the day stay unmerged; run `daytable verify`");
                *self = Day { counted: true, refused: self.refused, ..Day::new(self.thresholds) };
                Ok((0, 0))
            }
            Err(error @ StoreError::Unequal { .. }) => {
                let refused = self.refused + 1;
                tracing::error!(table = %name, %error, refused, "this is a fault of daytable: please report it");
                // What is known of the day's pages is wrong, so it is read again, unless that did not help.
                *self = Day { counted: refused >= REFUSED_MAX, refused, ..Day::new(self.thresholds) };
                Ok((0, 1))
            }
            merged => Ok((merged?, 0)),
        }
    }

    fn try_work(&mut self, file: &mut DayFile, settled: i64, until: Instant, is_last: bool) -> Result<u64, StoreError> {
        let is_over = || Instant::now() >= until;
        if is_last && is_over() {
            return Ok(0);
        }
        if !self.counted {
            self.count(file)?;
        }
        if self.splitting.is_none() && (self.is_split_due() || is_last && self.is_split_worthwhile()) && !is_over() {
            self.begin_split(file, settled)?;
        }
        let mut merged = self.split_next(file, until)?;
        // Each partition once: some are queued again.
        let mut left = self.ready.len();
        while (self.is_ready() || is_last) && left > 0 && !is_over() {
            self.merge_next(file, settled)?;
            left -= 1;
        }
        if self.is_prepared() || is_last {
            merged += self.replace(file)?;
        }
        Ok(merged)
    }

    fn has_work(&self) -> bool {
        !self.counted || self.splitting.is_some() || self.is_split_due() || self.is_ready() || self.is_prepared()
    }

    fn is_wanted(&self) -> bool {
        let has_shared = !self.shared.is_empty() && self.is_split_worthwhile();
        !self.counted || self.splitting.is_some() || !self.queued.is_empty() || has_shared
    }

    /// Whether shared pages are to be split. The oldest is always settled then.
    fn is_split_due(&self) -> bool {
        let age = self.oldest_shared();
        let is_large = age > self.thresholds.settled_after && self.shared_bytes >= self.thresholds.shared_bytes_max;
        self.is_split_overdue()
            || age >= self.thresholds.split_after && self.is_split_awaited()
            || (is_large || age >= self.thresholds.split_after && self.shared.len() >= SHARED_PAGES_MIN)
                && self.is_split_worthwhile()
    }

    /// Whether shared pages are to be split even if a partition has only a few pages in them.
    fn is_split_overdue(&self) -> bool {
        let age = self.oldest_shared();
        age >= self.thresholds.split_at_last
            || age > self.thresholds.settled_after && self.shared_bytes >= SHARED_BYTES_KEPT
    }

    /// The age of the oldest shared page.
    fn oldest_shared(&self) -> Duration {
        self.shared.front().map_or(Duration::ZERO, |(since, _)| since.elapsed())
    }

    /// Whether so many partitions wait for a split that it is done for them.
    fn is_split_awaited(&self) -> bool {
        self.waiting.len() as u64 * WAITING_SHARE >= self.partitions.count.max(1)
    }

    fn is_split_worthwhile(&self) -> bool {
        self.pages_a_partition() >= self.thresholds.split_pages_min
    }

    /// In how many shared pages a partition has rows on average, at most.
    fn pages_a_partition(&self) -> u64 {
        let parts: u64 = self.shared.iter().map(|(_, row)| row.parts).sum();
        parts / self.partitions.count.max(1)
    }

    /// Whether a partition can be merged now.
    fn is_ready(&self) -> bool {
        self.ready.front().is_some_and(|(since, _)| since.elapsed() >= self.thresholds.settled_after)
    }

    /// Whether the merged pages are worth a transaction.
    fn is_prepared(&self) -> bool {
        let is_old = self.prepared_since.is_some_and(|since| since.elapsed() >= self.thresholds.replace_after);
        is_old || self.prepared_pages >= TRANSACTION_PAGES
    }

    fn add(&mut self, written: WrittenPages) {
        written.partitions.iter().for_each(|partition| self.partitions.insert(*partition));
        // Before the other rows, so that no row of the same commit is merged earlier.
        for row in written.shared {
            self.shared_bytes += row.raw_bytes;
            self.shared.push_back((Instant::now(), row));
        }
        for (partition, first, raw_bytes) in written.rows {
            if raw_bytes < FULL_BYTES {
                self.add_small(partition, first, usize::from(raw_bytes < TINY_BYTES), u64::from(raw_bytes));
            }
        }
    }

    fn removed(&mut self, removed: &RemovedPages) {
        for (id, left) in &removed.shared {
            let Some(at) = self.shared.iter().position(|(_, row)| row.id == *id) else { continue };
            self.shared_bytes = self.shared_bytes.saturating_sub(self.shared[at].1.raw_bytes);
            match left {
                None => drop(self.shared.remove(at)),
                Some(raw_bytes) => {
                    self.shared_bytes += raw_bytes;
                    self.shared[at].1.raw_bytes = *raw_bytes;
                }
            }
        }
        // Those that are no longer in any page stay in the set until then: a split is less urgent.
        if self.shared.is_empty() {
            self.partitions = PartitionSet::default();
            self.waiting.clear();
        }
        // A split also merges pages of one partition, and counts its shared pages from the front.
        let is_in = |splitting: &Split| {
            let is_gone = |merge: &PageMerge| merge.old.iter().any(|id| removed.pages.contains(id));
            removed.shared.iter().any(|(id, _)| splitting.shared.contains_key(id))
                || splitting.merges.iter().any(is_gone)
        };
        if self.splitting.as_ref().is_some_and(is_in) {
            self.splitting = None;
        }
        let is_gone = |merge: &PageMerge| merge.old.iter().any(|id| removed.pages.contains(id));
        let given_up: BTreeSet<i64> =
            self.prepared.iter().filter(|merge| is_gone(merge)).map(|merge| merge.partition).collect();
        self.prepared.retain(|merge| !is_gone(merge));
        // Other merges of the partition still wait: until they are written, its pages must not be merged again.
        let waiting: BTreeSet<i64> = self.prepared.iter().map(|merge| merge.partition).collect();
        given_up.difference(&waiting).for_each(|partition| self.requeue(*partition));
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
        if small.is_worthwhile(&self.thresholds) && self.queued.insert(partition) {
            self.ready.push_back((Instant::now(), partition));
        }
    }

    /// Counts the small pages of earlier processes.
    fn count(&mut self, file: &DayFile) -> Result<(), StoreError> {
        self.counted = true;
        let since = Instant::now();
        let known: HashSet<i64> = self.shared.iter().map(|(_, row)| row.id).collect();
        let found = (|| {
            let shared = shared_pages::all(file.connection())?;
            let select =
                format!("SELECT partition, first, raw_bytes FROM page WHERE raw_bytes < ?1 AND partition <> {SHARED}");
            let mut statement = file.connection().prepare(&select)?;
            let read = |row: &Row<'_>| {
                Ok((row.get(0)?, RowKey::from_bytes(row.get_ref(1)?.as_blob()?), row.get::<_, u32>(2)?))
            };
            let rows = statement.query_map([FULL_BYTES], read)?;
            Ok((shared, rows.collect::<rusqlite::Result<Vec<_>>>()?))
        })();
        let (shared, small) = found.map_err(StoreError::sqlite(file.path()))?;
        for row in shared.into_iter().filter(|row| !known.contains(&row.id)).rev() {
            self.shared_bytes += row.raw_bytes;
            self.shared.push_front((since, row));
        }
        self.small.clear();
        for (partition, first, raw_bytes) in small {
            let Some(first) = first else { continue };
            self.add_small(partition, first, usize::from(raw_bytes < TINY_BYTES), u64::from(raw_bytes));
        }
        Ok(())
    }

    /// Reads the oldest shared pages that are settled, and begins their split if their parts show that it is worthwhile.
    fn begin_split(&mut self, file: &DayFile, settled: i64) -> Result<(), StoreError> {
        let (mut shared, mut bytes, mut count) = (SharedPages::default(), 0, 0);
        let mut left: BTreeMap<i64, Vec<PageRow>> = BTreeMap::new();
        let is_overdue = self.is_split_overdue() || !self.is_split_worthwhile() && !self.is_split_awaited();
        let bytes_max =
            if self.is_split_worthwhile() { self.thresholds.shared_bytes_max } else { SHARED_BYTES_KEPT / 2 };
        let mut last = None;
        for (_, row) in &self.shared {
            // All pages of a commit are split together: the new pages have its number, and would be taken for later ones
            // than those that are left.
            let is_full = bytes > 0 && bytes + row.raw_bytes > bytes_max && last != Some(row.seq);
            if row.seq > settled || is_full {
                break;
            }
            last = Some(row.seq);
            bytes += row.raw_bytes;
            let (header, page) = file.read_shared(row.id)?;
            for part in page.parts(&header) {
                left.entry(part.partition).or_default().push(part);
                count += 1;
            }
            shared.insert(row.id, page);
        }
        left.keys().for_each(|partition| self.partitions.insert(*partition));
        // All their partitions are known only now.
        if !shared.is_empty() && (is_overdue || self.is_split_worthwhile() || self.is_split_awaited()) {
            self.splitting = Some(Split { shared, pages: count, left: left.into_iter(), merges: Vec::new() });
        }
        Ok(())
    }

    /// Continues a split. After the last partition, replaces the shared pages. Returns the number of replaced parts.
    fn split_next(&mut self, file: &mut DayFile, until: Instant) -> Result<u64, StoreError> {
        let Some(Split { shared, pages, left, merges }) = &mut self.splitting else { return Ok(0) };
        while Instant::now() < until {
            let Some((partition, parts)) = left.next() else {
                let ids: Vec<i64> = self.shared.iter().take(shared.len()).map(|(_, row)| row.id).collect();
                let (merges, merged_pages) = (std::mem::take(merges), *pages as u64);
                daytable_platform::failpoint!("compaction-before");
                let written = file.replace(&merges, &ids)?;
                for (_, row) in self.shared.drain(..ids.len()) {
                    self.shared_bytes -= row.raw_bytes;
                }
                self.splitting = None;
                self.partitions = PartitionSet::default();
                self.waiting.clear();
                self.add(written);
                return Ok(merged_pages);
            };
            let between = between(file, partition, &parts)?;
            for run in runs_of(parts, between, self.thresholds.merge_bytes_max) {
                merges.extend(merge_run(file, run, shared)?);
            }
        }
        Ok(0)
    }

    /// Merges rows of the next partition in `ready`.
    fn merge_next(&mut self, file: &DayFile, settled: i64) -> Result<(), StoreError> {
        let Some((_, partition)) = self.ready.pop_front() else { return Ok(()) };
        // Pages of later commits than the partition's oldest shared page may have shared pages between them.
        let oldest_shared =
            shared_pages::oldest_of(file.connection(), partition).map_err(StoreError::sqlite(file.path()))?;
        let Some(first) = self.small.get(&partition).and_then(|small| small.first) else {
            self.queued.remove(&partition);
            return Ok(());
        };
        let limit = oldest_shared.map_or(settled, |seq| settled.min(seq - 1));
        let (merges, unsettled) = match merges_of(file, partition, first, limit, &self.thresholds) {
            // The other partitions continue.
            Err(error) if error.is_damage() => {
                tracing::error!(%error, "a page is damaged: small pages of its partition stay unmerged; run `daytable verify`");
                self.small.remove(&partition);
                self.queued.remove(&partition);
                return Ok(());
            }
            merges => merges?,
        };
        // After a damaged page, shared pages stay that are not split any more.
        let waits_for_split = oldest_shared.is_some_and(|seq| self.shared.iter().any(|(_, row)| row.seq == seq));
        if !merges.is_empty() {
            self.small.remove(&partition);
            self.prepare(merges);
        } else if limit < settled && waits_for_split {
            // Repeat after its shared pages were split.
            self.waiting.insert(partition);
            self.ready.push_back((Instant::now(), partition));
            return Ok(());
        } else {
            self.small.remove(&partition);
            self.queued.remove(&partition);
            if limit < settled {
                return Ok(());
            }
        }
        // Those that are too young are considered again.
        for page in unsettled {
            let raw_bytes = page.header.raw_bytes;
            self.add_small(partition, page.header.first, usize::from(raw_bytes < TINY_BYTES), raw_bytes.into());
        }
        Ok(())
    }

    /// Queues a partition again if its small pages may be worth a merge by now.
    fn requeue(&mut self, partition: i64) {
        self.queued.remove(&partition);
        if self.small.get(&partition).is_some_and(|small| small.is_worthwhile(&self.thresholds))
            && self.queued.insert(partition)
        {
            self.ready.push_back((Instant::now(), partition));
        }
    }

    /// Keeps merged pages of a partition. The partition stays queued, so that none of its pages is merged twice.
    fn prepare(&mut self, merges: Vec<PageMerge>) {
        self.prepared_since.get_or_insert_with(Instant::now);
        self.prepared_pages += merges.iter().map(|merge| merge.old.len()).sum::<usize>();
        self.prepared.extend(merges);
    }

    /// Replaces pages by those merged from them. Pages committed meanwhile have a higher `seq` and win over the merged
    /// ones, as they would have over the parts. Returns the number of replaced pages.
    fn replace(&mut self, file: &mut DayFile) -> Result<u64, StoreError> {
        let merged_pages = self.prepared_pages as u64;
        let merges = std::mem::take(&mut self.prepared);
        (self.prepared_pages, self.prepared_since) = (0, None);
        if merges.is_empty() {
            return Ok(0);
        }
        daytable_platform::failpoint!("compaction-before");
        let written = file.replace(&merges, &[])?;
        // A partition may have several merges. It is queued again once: after a second time its next merge would wait in
        // `prepared` while the partition is not in `queued`, and its pages would be merged again.
        let partitions: BTreeSet<i64> = merges.iter().map(|merge| merge.partition).collect();
        partitions.into_iter().for_each(|partition| self.requeue(partition));
        self.add(written);
        Ok(merged_pages)
    }
}

/// Pages of a partition that were committed between the first and the last of `parts` and overlap them.
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
        let from = earliest_first_key(first);
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
        // Each may reach further and overlap more.
        if more.len() == found.len() {
            return Ok(found);
        }
        found = more;
    }
}

/// Small pages of a partition, and the rows of `page` between them, as runs that can be merged. If all of them are few
/// bytes, they are one run. Otherwise the rows between end runs, so that none lies within one: a burst is not rewritten
/// because single records came before and after it.
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

/// Merges the pages of `partition` from `first` on and up to commit `settled`, where that is worthwhile. Also returns the
/// small pages that are younger.
fn merges_of(
    file: &DayFile,
    partition: i64,
    first: RowKey,
    settled: i64,
    thresholds: &Thresholds,
) -> Result<(Vec<PageMerge>, Vec<PageRow>), StoreError> {
    let clusters = clusters(file, partition, first).map_err(StoreError::sqlite(file.path()))?;
    let (mut run, mut bytes) = (Vec::new(), 0);
    let is_young = |page: &&PageRow| page.seq > settled && page.header.raw_bytes < FULL_BYTES;
    let young = clusters.iter().flat_map(|cluster| &cluster.pages).filter(is_young).cloned().collect();
    // Tiny pages by themselves, and small ones by themselves if they make a full page.
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
    Ok((merges, young))
}

/// The rows of `partition` from about `first` on, in the order of their keys, as clusters.
fn clusters(file: &DayFile, partition: i64, first: RowKey) -> rusqlite::Result<Vec<Cluster>> {
    // A page that overlaps the newest of them begins at most a page's span before it.
    let from = earliest_first_key(first).to_bytes();
    let select =
        format!("SELECT {HEADER_COLUMNS} FROM page WHERE partition = ?1 AND first >= ?2 ORDER BY first LIMIT ?3");
    let mut statement = file.connection().prepare_cached(&select)?;
    let pages = statement.query_map(params![partition, from, CONSIDERED_PAGES_MAX as i64], read_header)?;
    let pages = pages.collect::<rusqlite::Result<Vec<_>>>()?;
    // A page that begins earlier may overlap this one.
    let reached = "SELECT max(last) FROM page WHERE partition = ?1 AND first BETWEEN ?2 AND ?3 AND first < ?3";
    let before = RowKey::range(Ticks::MIN, first.time().plus(2 * PAGE_SPAN)).0.to_bytes();
    let mut reached = file.connection().prepare_cached(reached)?;
    let reached: Option<Vec<u8>> = reached.query_row(params![partition, before, from], |row| row.get(0))?;
    let reached = reached.and_then(|key| RowKey::from_bytes(&key));
    // Pages beyond the last considered one may overlap it.
    let end = if pages.len() < CONSIDERED_PAGES_MAX { None } else { pages.last().map(|page| page.header.first) };

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

type SharedPages = HashMap<i64, SharedPage, foldhash::quality::RandomState>;

/// Merges pages of one partition, and its rows of `shared` pages.
fn merge_run(file: &DayFile, mut pages: Vec<PageRow>, shared: &SharedPages) -> Result<Option<PageMerge>, StoreError> {
    // Of equal keys the builder keeps the one that was pushed last: the later commit's.
    pages.sort_by_key(|page| (page.seq, page.place));
    let Some(newest) = pages.last() else { return Ok(None) };
    let (partition, seq) = (newest.partition, newest.seq);
    let name = file.name_of(newest)?;
    let home = file.address_of(&name);
    let mut old = Vec::new();
    let mut decoded: Vec<Option<Page>> = Vec::with_capacity(pages.len());
    let mut reader = page_rows::BodyReader::default();
    // A page that stays unchanged is decoded too: only intact pages are written again.
    for page in &pages {
        decoded.push(match page.place {
            PageLocation::Row(id) => {
                old.push(id);
                Some(page_rows::read_page(file.connection(), file.path(), home, page, &mut reader)?)
            }
            PageLocation::Part { .. } => None,
        });
    }
    let (mut builder, mut shared_entities) = (PageBuilder::new(), 0);
    for (page, decoded) in pages.iter().zip(&decoded) {
        match (decoded, page.place) {
            (Some(decoded), _) => builder.push_page(decoded),
            (None, PageLocation::Part { page: id, part }) => {
                let of =
                    shared.get(&id).ok_or_else(|| page_rows::damaged(file.path(), page, "it is missing".into()))?;
                file.check_part(page, of, &name)?;
                let rows = of.rows_of(part as usize);
                shared_entities += rows.len() as u64;
                builder.push_rows(&of.page, rows);
            }
            (None, PageLocation::Row(_)) => {}
        }
    }
    let built = builder.build();
    let (mut new, duplicates) = (built.pages, built.duplicates);
    let range = CommitRange::of_all(pages.iter().map(|page| (page.seq, page.header.commits)));
    for page in &mut new {
        page.header.commits = range.map_or_else(CommitRange::default, |(_, range)| range);
    }
    Ok(Some(PageMerge { partition, home, old, new, seq, duplicates, shared_entities }))
}

#[cfg(test)]
mod bookkeeping;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::day_file::{Insert, PageOwner};
    use crate::format::page::{BuiltSharedPage, EncodedPage, build_shared, waiting_rows};
    use daytable_model::batch::Batch;
    use daytable_model::record::Record;

    pub(super) fn day() -> DayTable {
        DayTable::parse("Log20261101").expect("a table")
    }

    pub(super) fn batch(partition: &str, rows: &[(u64, &str)]) -> Batch {
        let mut batch = Batch::new(day(), partition.into());
        for (n, text) in rows {
            let record = Record { message: (*text).into(), ..Record::default() };
            daytable_model::entity::append(
                &mut batch,
                RowKey::new(day().start().plus(Duration::from_secs(*n)), 7, *n),
                "app.log",
                &record,
            );
        }
        batch
    }

    pub(super) fn encoded(rows: &[(u64, &str)]) -> EncodedPage {
        let batch = batch("web-1", rows);
        let mut builder = PageBuilder::new();
        builder.push_batch(&batch);
        builder.build().pages.remove(0)
    }

    /// The page of a commit for some rows of a partition: a shared one where they are few.
    fn insert(partition: &str, rows: &[(u64, &str)]) -> Insert {
        if rows.iter().map(|(_, text)| text.len()).sum::<usize>() >= TINY_BYTES as usize {
            return Insert::of_one(&partition.into(), encoded(rows));
        }
        let BuiltSharedPage { page, partitions } = build_shared(&waiting_rows(&[batch(partition, rows)]), 2).remove(0);
        Insert { owner: PageOwner::Many(partitions), page }
    }

    /// A key is written in a shared page, then in a page of its own, then in a shared page again. After the split, the last
    /// value wins, also if it is in a page of its own.
    #[test]
    fn a_split_keeps_the_order_of_commits() {
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
            compactor.add(file.insert(seq, &[insert("web-1", rows)]).expect("written"));
        }
        assert_eq!(compactor.shared.len(), 2);
        compactor.begin_split(&file, 4).expect("read");
        let merged_pages = compactor.split_next(&mut file, Instant::now() + Duration::from_secs(60)).expect("merged");
        assert_eq!((merged_pages, compactor.shared.len(), compactor.shared_bytes), (2, 0, 0));
        assert_eq!(file.total().expect("read").merged, 3);
        let select = format!("SELECT {HEADER_COLUMNS} FROM page ORDER BY seq");
        let mut statement = file.connection().prepare(&select).expect("a statement");
        let pages: Vec<_> =
            statement.query_map([], read_header).expect("read").map(|page| page.expect("a row")).collect();
        let home = file.address_of("web-1");
        let rows = pages.iter().map(|row| {
            (
                row.seq,
                page_rows::read_page(file.connection(), file.path(), home, row, &mut Default::default())
                    .expect("whole"),
            )
        });
        let texts = rows.map(|(seq, page)| {
            let text = |at| {
                page.properties(at).find_map(|(name, value)| match value {
                    daytable_model::property::Property::String(text) if name == "Message" => Some(text[..1].to_owned()),
                    _ => None,
                })
            };
            (seq, (0..page.len()).filter_map(text).collect::<String>())
        });
        // Commit 2 lies between the shared pages and is merged with them; commit 4 comes after them and is not.
        assert_eq!(texts.collect::<Vec<_>>(), [(3, "axcba".into()), (4, "xd".into())]);
    }

    /// A page that is gone when its merge is written: all pages stay, and what is known of the day is read again.
    #[test]
    fn a_merge_of_other_pages_than_are_there_is_refused_and_made_anew() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut file = DayFile::open(&dir.path().join("day.db"), &day()).expect("opened");
        let (day, long) = (day(), "x".repeat(6000));
        let mut compactor = Compactor::new(Duration::ZERO, Thresholds::small());
        compactor.created(&day);
        for seq in 1..9 {
            let page = insert("web-1", &[(seq, &long)]);
            compactor.written(&day, file.insert(seq.cast_signed(), &[page]).expect("written"));
            compactor.committed(seq.cast_signed());
        }
        let ids = |file: &DayFile| -> String {
            let select = "SELECT group_concat(id, ' ') FROM (SELECT id FROM page ORDER BY id)";
            file.connection().query_row(select, [], |row| row.get(0)).expect("read")
        };
        compactor.force(&day, &mut file, 8, StepPart::Merge);
        let remove =
            "DELETE FROM page WHERE id = 3; DELETE FROM body WHERE id / 4096 = 3; UPDATE total SET entities = 7";
        file.connection().execute_batch(remove).expect("removed");
        let finish = |compactor: &mut Compactor, file: &mut DayFile| {
            let files = HashMap::from([(&day, file)]);
            compactor.finish(files, Instant::now() + Duration::from_secs(60)).expect("finished");
        };
        finish(&mut compactor, &mut file);
        assert_eq!((ids(&file).as_str(), compactor.take_refused()), ("1 2 4 5 6 7 8", 1));
        finish(&mut compactor, &mut file);
        assert_eq!((ids(&file).as_str(), compactor.take_refused(), compactor.take_merged()), ("9", 0, 7));
    }

    /// Several merges of a partition wait to be written while it gets more small pages. None of its pages is merged twice,
    /// also if one of the merges is given up because its pages were sent.
    #[test]
    fn pages_of_a_partition_with_several_merges_are_merged_once() {
        for is_given_up in [false, true] {
            let dir = tempfile::tempdir().expect("a folder");
            let mut file = DayFile::open(&dir.path().join("day.db"), &day()).expect("opened");
            let mut compactor = Day { counted: true, ..Day::new(Thresholds::small()) };
            let long = "x".repeat(6000);
            let mut seq = 0;
            let mut write = |compactor: &mut Day, file: &mut DayFile, pages: u64| {
                for _ in 0..pages {
                    seq += 1;
                    let page = insert("web-1", &[(seq, &long)]);
                    compactor.add(file.insert(seq.cast_signed(), &[page]).expect("written"));
                }
            };
            write(&mut compactor, &mut file, 40);
            compactor.merge_next(&file, i64::MAX).expect("looked");
            assert!(compactor.prepared.len() > 1, "{} merges", compactor.prepared.len());
            if is_given_up {
                let sent = compactor.prepared[0].old[0];
                let removed = RemovedPages { pages: HashSet::from([sent]), ..RemovedPages::default() };
                compactor.removed(&removed);
                write(&mut compactor, &mut file, 20);
                compactor.merge_next(&file, i64::MAX).expect("looked");
            }
            for _ in 0..3 {
                write(&mut compactor, &mut file, 20);
                compactor.replace(&mut file).expect("replaced");
                // Each look comes after more small pages, and none of those that wait is merged again.
                for _ in 0..3 {
                    compactor.merge_next(&file, i64::MAX).expect("looked");
                    write(&mut compactor, &mut file, 20);
                    let waiting: Vec<i64> = compactor.prepared.iter().flat_map(|merge| merge.old.clone()).collect();
                    let different: HashSet<i64> = waiting.iter().copied().collect();
                    assert_eq!(waiting.len(), different.len(), "a page waits twice");
                }
            }
            compactor.replace(&mut file).expect("replaced");
            let sum = "SELECT sum(entities) FROM page";
            let entities: i64 = file.connection().query_row(sum, [], |row| row.get(0)).expect("read");
            assert_eq!(entities, seq.cast_signed());
        }
    }

    /// Otherwise a damaged page would fail every later commit, or every close. Later pages are still merged.
    #[test]
    fn a_damaged_page_stays_where_it_is_and_nothing_fails_for_it() {
        let long = "x".repeat(6000);
        for (text, damage) in [
            (&*long, "UPDATE body SET bytes = zeroblob(length(bytes))"),
            ("tiny", "UPDATE body SET bytes = zeroblob(length(bytes))"),
            ("tiny", "UPDATE shared_page SET partitions = zeroblob(length(partitions))"),
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
                let page = insert(partition, &[(seq, text)]);
                compactor.written(&day, file.insert(seq.cast_signed(), &[page]).expect("written"));
                compactor.committed(seq.cast_signed());
            };
            let pages = |file: &DayFile| -> i64 {
                let select = "SELECT count(*) FROM page";
                file.connection().query_row(select, [], |row| row.get(0)).expect("counted")
            };
            (0..8).for_each(|_| write(&mut compactor, &mut file, "web-1"));
            assert!(file.connection().execute(damage, []).expect("damaged") > 0, "{damage}");
            let finish = |compactor: &mut Compactor, file: &mut DayFile| {
                let files = HashMap::from([(&day, file)]);
                compactor.finish(files, Instant::now() + Duration::from_secs(60)).expect(damage);
            };
            finish(&mut compactor, &mut file);
            assert_eq!((pages(&file), compactor.has_work()), (8, false), "{damage}");
            (0..8).for_each(|_| write(&mut compactor, &mut file, "web-2"));
            finish(&mut compactor, &mut file);
            assert_eq!(pages(&file), 9, "{damage}");
        }
    }

    /// Pages of a partition wait for the split of shared pages of their own partition only.
    #[test]
    fn pages_wait_for_shared_pages_of_their_own_partition_only() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut file = DayFile::open(&dir.path().join("day.db"), &day()).expect("opened");
        let mut compactor = Day { counted: true, ..Day::new(Thresholds::small()) };
        let long = "x".repeat(6000);
        let mut seq = 0;
        let mut write = |compactor: &mut Day, file: &mut DayFile, partition: &str, text: &str| {
            seq += 1;
            let page = insert(partition, &[(seq, text)]);
            compactor.add(file.insert(seq.cast_signed(), &[page]).expect("written"));
        };
        write(&mut compactor, &mut file, "cron", "tiny");
        for _ in 0..8 {
            write(&mut compactor, &mut file, "web-1", &long);
        }
        write(&mut compactor, &mut file, "web-2", "tiny");
        for _ in 0..8 {
            write(&mut compactor, &mut file, "web-2", &long);
        }
        assert_eq!((compactor.shared.len(), compactor.ready.len()), (2, 2));
        compactor.merge_next(&file, 99).expect("looked");
        compactor.merge_next(&file, 99).expect("looked");
        assert_eq!(compactor.prepared.iter().map(|merge| merge.old.len()).collect::<Vec<_>>(), [8], "those of web-1");
        assert_eq!(compactor.ready.len(), 1, "web-2 is looked at again");
        compactor.begin_split(&file, 99).expect("read");
        compactor.split_next(&mut file, Instant::now() + Duration::from_secs(60)).expect("split");
        compactor.merge_next(&file, 99).expect("looked");
        assert_eq!(compactor.prepared.iter().map(|merge| merge.old.len()).collect::<Vec<_>>(), [8, 8]);
    }

    /// Commits of one source after the other have one page of each partition, and so look like commits of one partition.
    #[test]
    fn one_page_of_each_partition_is_not_split_before_its_time() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut file = DayFile::open(&dir.path().join("day.db"), &day()).expect("opened");
        let mut compactor = Day { counted: true, ..Day::new(Thresholds { split_pages_min: 3, ..Thresholds::small() }) };
        let write = |compactor: &mut Day, file: &mut DayFile, seq: i64, partition: String| {
            let page = insert(&partition, &[(seq.cast_unsigned(), "tiny")]);
            compactor.add(file.insert(seq, &[page]).expect("written"));
        };
        (1..9).for_each(|seq| write(&mut compactor, &mut file, seq, format!("web-{seq}")));
        assert!(!compactor.is_wanted());
        // Another process does not know the partitions before it has read the small rows.
        let mut other = Day::new(compactor.thresholds);
        other.count(&file).expect("counted");
        assert!(other.is_wanted());
        other.begin_split(&file, 99).expect("read");
        assert!(other.splitting.is_none() && !other.is_wanted());
        // Later pages of the same partitions are worth it.
        (9..30).for_each(|seq| write(&mut compactor, &mut file, seq, format!("web-{}", seq % 8)));
        assert!(compactor.is_wanted());
        compactor.begin_split(&file, 99).expect("read");
        compactor.split_next(&mut file, Instant::now() + Duration::from_secs(60)).expect("split");
        assert_eq!((compactor.shared.len(), compactor.partitions.count), (0, 0));
    }

    /// The new page of a partition has the number of its last commit. If a part of that commit were left, it would seem older.
    #[test]
    fn all_shared_pages_of_a_commit_are_split_together() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut file = DayFile::open(&dir.path().join("day.db"), &day()).expect("opened");
        let mut compactor = Day { counted: true, ..Day::new(Thresholds::small()) };
        // The second page of the second commit has the row of the first commit again.
        for (pages, seq) in [vec![(2, "old")], vec![(90, "b"), (2, "new")], vec![(3, "c")]].iter().zip(1..) {
            let pages: Vec<Insert> = pages.iter().map(|row| insert("web-1", &[*row])).collect();
            compactor.add(file.insert(seq, &pages).expect("written"));
        }
        assert_eq!(compactor.shared.len(), 4);
        compactor.thresholds.shared_bytes_max = compactor.shared.iter().take(2).map(|(_, row)| row.raw_bytes).sum();
        compactor.begin_split(&file, 99).expect("read");
        compactor.split_next(&mut file, Instant::now() + Duration::from_secs(60)).expect("split");
        assert_eq!(compactor.shared.len(), 1);
    }

    /// A burst between two single records stays as it was written, and its rows win over older ones and lose to later ones.
    #[test]
    fn a_burst_between_shared_pages_is_not_rewritten() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut file = DayFile::open(&dir.path().join("day.db"), &day()).expect("opened");
        let mut compactor = Day { counted: true, ..Day::new(Thresholds::small()) };
        let long = "x".repeat(20_000);
        let burst = |from: u64| -> Vec<(u64, &str)> { (from..from + 4).map(|n| (n, long.as_str())).collect() };
        let single = |n, text| vec![(n, text)];
        let commits =
            [single(1, "a"), single(2, "b"), burst(2), single(6, "c"), single(4, "d"), burst(20), single(7, "e")];
        for (rows, seq) in commits.iter().zip(1..) {
            compactor.add(file.insert(seq, &[insert("web-1", rows)]).expect("written"));
        }
        let ids = "SELECT group_concat(id || ':' || seq || ':' || entities, ' ')
             FROM (SELECT * FROM page WHERE partition <> 0 ORDER BY seq)";
        let pages = |file: &DayFile| file.connection().query_row(ids, [], |row| row.get::<_, String>(0)).expect("read");
        assert_eq!(pages(&file), "3:3:4 6:6:4");
        compactor.begin_split(&file, 7).expect("read");
        compactor.split_next(&mut file, Instant::now() + Duration::from_secs(60)).expect("merged");
        // The second burst overlaps nothing, so the single records before and after it become one page.
        assert_eq!(pages(&file), "8:2:2 3:3:4 6:6:4 9:7:3");
        assert_eq!(file.total().expect("read").merged, 0);
    }
}
