//! Rows of a sealed file, newest first over all partitions.
//!
//! A file is sorted by partition, but a scan needs time order. So a scan proceeds in **windows** of time. In each
//! window it reads the keys of the row groups that overlap the window, sorts them, and then reads whole rows in that
//! order, few at first, then more. A search for a text or a level reads these columns first. Memory holds the keys of a
//! window and the rows of a batch. Both are bounded, whatever the size of the file and the number of its partitions.
//!
//! The rows of one instance and hour are one or two stretches of one or two row groups. The scan reads their times,
//! cuts them by bisection, and decodes only the pages of the stretches.

use super::columns::{ColumnBatch, RowChooser};
use super::open_scan::Resume;
use super::{Range, Row};
use crate::CountBy;
use crate::MinuteCount;
use crate::StoreError;
use crate::format::page::LevelMinute;
use crate::format::sealed::block::RowBlock;
use crate::format::sealed::columns::ColumnSet;
use crate::format::sealed::file::SealedFile;
use crate::format::sealed::index::PartitionRun;
use daytable_model::key::RowKey;
use daytable_model::needle::Needle;
use daytable_model::record::Level;
use daytable_model::time::Ticks;
use daytable_platform::scan_scheduler;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops;
use std::sync::Arc;

/// About how many bytes of rows are read at once.
const BATCH_BYTES: usize = 16 << 20;

/// Called with the partition, key and level of each row.
type EachKey<'a> = &'a mut dyn FnMut(&Arc<str>, RowKey, Option<Level>);

/// A row in the window: its key, its run, and its number in the row group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct WindowRow {
    key: RowKey,
    run: u32,
    row: u32,
}

/// Rows of a sealed file, newest first. Ends after an error.
pub struct SealedScan {
    file: SealedFile,
    /// The runs that can have matching rows, in the order of the file.
    runs: Vec<PartitionRun>,
    needle: Option<Needle>,
    level: Option<Level>,
    chooser: Option<Arc<dyn RowChooser>>,
    resume: Resume,
    last: RowKey,
    window: VecDeque<WindowRow>,
    window_rows: usize,
    batch_rows: usize,
    ready: VecDeque<Row>,
    done: bool,
}

impl SealedFile {
    /// The rows of `range`, newest first, each key once.
    pub fn scan(&self, range: &Range) -> SealedScan {
        SealedScan::new(self, range, Resume::From(RowKey::range(range.from, range.to).0))
    }

    /// One row by its keys. Reads the pages that can have it.
    pub fn row(&self, partition: &str, key: RowKey) -> Result<Option<Row>, StoreError> {
        let time = key.time();
        for run in self.runs_of(partition).iter().filter(|run| run.oldest <= time && time <= run.newest) {
            let part = self.rows_between(run, time, time);
            if part.is_empty() {
                continue;
            }
            let times = self.times_of(run.group, std::slice::from_ref(&part))?;
            let same = cut(&times, time, time);
            let same = part.start + same.start..part.start + same.end;
            if same.is_empty() {
                continue;
            }
            let keys = self.keys_of(run.group, std::slice::from_ref(&same))?;
            if let Ok(at) = keys.binary_search(&key) {
                let row = same.start + at..same.start + at + 1;
                let block = self.block(run.group, &[row], ColumnSet::All)?;
                return Ok(Some(Row::of_block(run.partition.clone(), Arc::new(block), 0)));
            }
        }
        Ok(None)
    }

    /// Records by minute and level, and by partition if `by` asks for it. The file stores the numbers of all its rows.
    /// Numbers of some partitions or times, or by partition, come from the columns of times and levels.
    pub fn counts(&self, range: &Range, by: CountBy, each: &mut dyn FnMut(MinuteCount)) -> Result<(), StoreError> {
        let is_whole = self.times().is_none_or(|(oldest, newest)| range.from <= oldest && newest <= range.to);
        if let (None, CountBy::Nothing, true, Some(minutes)) = (&range.partitions, by, is_whole, &self.index().minutes)
        {
            let partition: Arc<str> = "".into();
            for LevelMinute { minute, level, records, .. } in minutes.iter().copied() {
                each(MinuteCount { partition: partition.clone(), minute, level, records: records.into() });
            }
            return Ok(());
        }
        // Rows of a partition are sorted by time, so equal minutes and levels follow each other.
        let mut last: Option<MinuteCount> = None;
        self.each_key(range, &mut |partition, key, level| {
            if key.item() > 0 {
                return;
            }
            let minute = key.time().unix_seconds().div_euclid(60);
            match &mut last {
                Some(last) if last.minute == minute && last.level == level && last.partition == *partition => {
                    last.records += 1;
                }
                _ => {
                    let next = MinuteCount { partition: partition.clone(), minute, level, records: 1 };
                    last.replace(next).into_iter().for_each(&mut *each);
                }
            }
        })?;
        last.into_iter().for_each(each);
        Ok(())
    }

    /// The partitions that can have rows of `range`.
    pub(crate) fn names_in(&self, range: &Range) -> BTreeSet<Arc<str>> {
        runs_in(self, range).into_iter().map(|run| run.partition).collect()
    }

    /// The partition, key and level of every row of `range`, in the order of the file.
    pub(crate) fn each_key(&self, range: &Range, each: EachKey<'_>) -> Result<(), StoreError> {
        let runs = runs_in(self, range);
        for runs in runs.chunk_by(|a, b| a.group == b.group) {
            let stretches = stretches(self, runs, range.from, range.to)?;
            let ranges: Vec<_> = stretches.iter().map(|(_, rows)| rows.clone()).collect();
            let block = self.block(runs[0].group, &ranges, ColumnSet::Levels)?;
            let mut next = 0;
            for (run, rows) in stretches {
                for row in next..next + rows.len() {
                    each(&runs[run].partition, block.key(row), block.level(row));
                }
                next += rows.len();
            }
        }
        Ok(())
    }
}

/// The runs that can have rows of `range`, in the order of the file.
pub(super) fn runs_in(file: &SealedFile, range: &Range) -> Vec<PartitionRun> {
    let overlaps = |run: &&PartitionRun| run.oldest <= range.to && range.from <= run.newest;
    match &range.partitions {
        None => file.runs().iter().filter(overlaps).cloned().collect(),
        Some(names) => {
            let mut names: Vec<&String> = names.iter().collect();
            names.sort();
            names.dedup();
            names.into_iter().flat_map(|name| file.runs_of(name)).filter(overlaps).cloned().collect()
        }
    }
}

/// The indices of `times`, newest first, between `from` and `to`.
fn cut(times: &[Ticks], from: Ticks, to: Ticks) -> ops::Range<usize> {
    let start = times.partition_point(|time| *time > to);
    start..start + times[start..].partition_point(|time| *time >= from)
}

/// The rows between `from` and `to` of some runs of one group: the number of the run, and its stretch of the group.
pub(super) fn stretches(
    file: &SealedFile,
    runs: &[PartitionRun],
    from: Ticks,
    to: Ticks,
) -> Result<Vec<(usize, ops::Range<usize>)>, StoreError> {
    let is_cut = |run: &&PartitionRun| run.oldest < from || to < run.newest;
    let parts: Vec<_> = runs.iter().filter(is_cut).map(|run| file.rows_between(run, from, to)).collect();
    // Often the newest rows of a run are enough.
    let is_newest = runs.iter().filter(is_cut).all(|run| run.newest <= to);
    let mut first = if is_newest { file.sizes.times_first } else { usize::MAX };
    let mut times;
    loop {
        let range = |part: &ops::Range<usize>| part.start..part.end.min(part.start.saturating_add(first));
        let ranges: Vec<_> = parts.iter().map(range).collect();
        let filled: Vec<_> = ranges.iter().filter(|range| !range.is_empty()).cloned().collect();
        times = match runs.first() {
            Some(run) if !filled.is_empty() => file.times_of(run.group, &filled)?,
            _ => Vec::new(),
        };
        let mut at = 0;
        let is_enough = parts.iter().zip(&ranges).all(|(part, range)| {
            at += range.len();
            range.end == part.end || at > 0 && times[at - 1] < from
        });
        if is_enough {
            break;
        }
        first = first.saturating_mul(16);
    }
    let (mut all, mut at, mut parts) = (Vec::with_capacity(runs.len()), 0, parts.into_iter());
    for (number, run) in runs.iter().enumerate() {
        let mut rows = run.rows.clone();
        if is_cut(&run) {
            let part = parts.next().unwrap_or_default();
            let read = part.len().min(first);
            let within = cut(&times[at..at + read], from, to);
            at += read;
            rows = part.start + within.start..part.start + within.end;
        }
        if !rows.is_empty() {
            all.push((number, rows));
        }
    }
    Ok(all)
}

/// Sorted row numbers as ranges.
fn ranges_of(rows: impl Iterator<Item = usize>) -> Vec<ops::Range<usize>> {
    let mut ranges: Vec<ops::Range<usize>> = Vec::new();
    for row in rows {
        match ranges.last_mut() {
            Some(range) if range.end == row => range.end += 1,
            _ => ranges.push(row..row + 1),
        }
    }
    ranges
}

impl SealedScan {
    /// A scan that continues at `resume`.
    pub(crate) fn new(file: &SealedFile, range: &Range, resume: Resume) -> SealedScan {
        let (runs, sizes) = (runs_in(file, range), &file.sizes);
        SealedScan {
            file: file.clone(),
            window_rows: match (&range.contains, range.level, &range.chooser) {
                (None, None, None) => sizes.window_rows_first,
                // A search reads whole pages, so more rows of the same pages cost no more.
                _ => (runs.len() * sizes.page_rows / 8).clamp(sizes.window_rows_first, sizes.window_rows_max),
            },
            runs,
            needle: range.contains.as_deref().map(Needle::new),
            level: range.level,
            chooser: range.chooser.clone(),
            resume,
            last: RowKey::range(range.from, range.to).1,
            window: VecDeque::new(),
            batch_rows: sizes.batch_rows_first,
            ready: VecDeque::new(),
            done: false,
        }
    }

    /// The oldest time of a window that begins at `to` and has about the intended number of rows.
    fn window_start(&self, to: Ticks) -> Ticks {
        let from = self.last.time();
        let wanted: usize = self.runs.iter().filter(|run| run.oldest <= to).map(|run| run.rows.len()).sum();
        if wanted <= self.window_rows {
            return from;
        }
        // Assumes that the runs have the same share of every minute.
        let share = wanted as f64 / (self.file.rows() as f64).max(1.0);
        let room = self.window_rows as f64 / share.max(f64::MIN_POSITIVE);
        let newest = to.unix_seconds().div_euclid(60);
        let mut rows = 0.0;
        for minute in self.file.index().minutes.iter().flatten().filter(|minute| minute.minute <= newest) {
            rows += f64::from(minute.records);
            if rows >= room {
                let start = minute.minute.checked_mul(60).and_then(|seconds| Ticks::from_unix(seconds, 0));
                return start.unwrap_or(from).max(from);
            }
        }
        from
    }

    /// Reads the keys of the next window. False if there is none.
    fn next_window(&mut self) -> Result<bool, StoreError> {
        let begin = self.resume.key();
        let (to, oldest, window_rows_max) = (begin.time(), self.last.time(), self.file.sizes.window_rows_max);
        if begin > self.last || self.runs.iter().all(|run| run.oldest > to) {
            return Ok(false);
        }
        let from = self.window_start(to);
        let mut looked_at = 0usize;
        let mut wanted = 0usize;
        let mut entries: Vec<WindowRow> = Vec::new();
        // The greatest key that is kept, once there were too many.
        let mut bound = None;
        let mut start = 0;
        for runs in self.runs.chunk_by(|a, b| a.group == b.group) {
            let base = start;
            start += runs.len();
            let overlaps = |run: &PartitionRun| run.oldest <= to && from <= run.newest;
            if !runs.iter().any(overlaps) {
                continue;
            }
            let group = runs[0].group;
            let (numbers, some): (Vec<usize>, Vec<PartitionRun>) = runs
                .iter()
                .enumerate()
                .filter(|(_, run)| overlaps(run))
                .map(|(n, run)| (base + n, run.clone()))
                .unzip();
            let stretches = stretches(&self.file, &some, from, to)?;
            let ranges: Vec<_> = stretches.iter().map(|(_, rows)| rows.clone()).collect();
            if ranges.is_empty() {
                continue;
            }
            let partition = |run: usize| self.runs[numbers[run]].partition.clone();
            let hits = self.hits(group, &ranges, || {
                stretches.iter().map(|(run, rows)| (partition(*run), rows.clone())).collect()
            })?;
            looked_at += ranges.iter().map(ops::Range::len).sum::<usize>();
            if hits.as_ref().is_some_and(|hits| !hits.contains(&true)) {
                continue;
            }
            let rows = stretches.into_iter().flat_map(|(run, rows)| {
                let run = u32::try_from(numbers[run]).unwrap_or(u32::MAX);
                rows.map(move |row| (run, row))
            });
            let (rows, ranges) = match hits {
                None => (rows.collect(), ranges),
                Some(hits) => {
                    let rows: Vec<_> = rows.zip(hits).filter_map(|(row, is_hit)| is_hit.then_some(row)).collect();
                    let ranges = ranges_of(rows.iter().map(|(_, row)| *row));
                    (rows, ranges)
                }
            };
            for ((run, row), key) in rows.into_iter().zip(self.file.keys_of(group, &ranges)?) {
                if self.resume.wants(key) && key <= bound.unwrap_or(self.last) {
                    wanted += 1;
                    entries.push(WindowRow { key, run, row: u32::try_from(row).unwrap_or(u32::MAX) });
                }
            }
            if entries.len() > 2 * window_rows_max {
                let (_, greatest, _) = entries.select_nth_unstable(window_rows_max);
                bound = Some(greatest.key);
                entries.truncate(window_rows_max + 1);
            }
        }
        entries.sort_unstable();
        let is_sparse = self.needle.is_some() || self.level.is_some() || self.chooser.is_some();
        if is_sparse {
            // Hits are scattered over the pages of the window, and a batch reads all pages of its rows.
            self.batch_rows =
                self.batch_rows.max(4 * looked_at / self.file.sizes.page_rows).min(self.file.sizes.batch_rows_max);
        }
        // Few hits allow a long window: every window decodes the pages at its borders again.
        let rows_a_hit = if is_sparse { (looked_at / wanted.max(1)).max(1) } else { 1 };
        self.window_rows = (4 * self.window_rows).min(window_rows_max.saturating_mul(rows_a_hit));
        // After all times of this window, or after the last row that had room.
        self.resume = match (bound, Ticks::new(from.get() - 1)) {
            (Some(bound), _) => Resume::After(bound),
            (None, Some(before)) => Resume::From(RowKey::range(Ticks::MIN, before).0),
            (None, None) => Resume::After(self.last),
        };
        self.window = entries.into();
        Ok(!self.window.is_empty() || from > oldest)
    }

    /// Which of some rows may match the search; none without a search.
    fn hits(
        &self,
        group: usize,
        ranges: &[ops::Range<usize>],
        stretches: impl FnOnce() -> Vec<(Arc<str>, ops::Range<usize>)>,
    ) -> Result<Option<Vec<bool>>, StoreError> {
        let mut hits = self.level.map(|level| self.file.may_be_of_level(group, ranges, level)).transpose()?;
        if let Some(needle) = &self.needle
            && hits.as_ref().is_none_or(|hits| hits.contains(&true))
        {
            let mut with_text = self.file.may_contain(group, ranges, needle)?;
            with_text.iter_mut().zip(hits.iter().flatten()).for_each(|(hit, is_of_level)| *hit &= is_of_level);
            hits = Some(with_text);
        }
        if let Some(chooser) = &self.chooser
            && hits.as_ref().is_none_or(|hits| hits.contains(&true))
        {
            let chosen = chooser.choose(&ColumnBatch::of_group(&self.file, group, stretches())?)?;
            let mut chosen: Vec<bool> = (0..chosen.length()).map(|row| chosen.contains(row)).collect();
            chosen.iter_mut().zip(hits.iter().flatten()).for_each(|(hit, is_hit)| *hit &= is_hit);
            hits = Some(chosen);
        }
        if let Some(hits) = &mut hits {
            self.file.mark_items(group, ranges, hits)?;
        }
        Ok(hits)
    }

    /// Reads the next rows of the window.
    fn next_batch(&mut self) -> Result<(), StoreError> {
        scan_scheduler::yield_now();
        let mut room = BATCH_BYTES;
        let mut batch: Vec<WindowRow> = Vec::new();
        while batch.len() < self.batch_rows
            && room > 0
            && let Some(entry) = self.window.pop_front()
        {
            room = room.saturating_sub(self.file.row_bytes(self.runs[entry.run as usize].group));
            batch.push(entry);
        }
        self.batch_rows = (4 * self.batch_rows).min(self.file.sizes.batch_rows_max);
        let mut of_group: BTreeMap<usize, Vec<u32>> = BTreeMap::new();
        for entry in &batch {
            of_group.entry(self.runs[entry.run as usize].group).or_default().push(entry.row);
        }
        let mut blocks: BTreeMap<usize, (Arc<RowBlock>, Vec<u32>)> = BTreeMap::new();
        for (group, mut rows) in of_group {
            rows.sort_unstable();
            let ranges = ranges_of(rows.iter().map(|row| *row as usize));
            let block = self.file.block(group, &ranges, ColumnSet::All)?;
            blocks.insert(group, (Arc::new(block), rows));
        }
        for entry in batch {
            let run = &self.runs[entry.run as usize];
            let Some((block, rows)) = blocks.get(&run.group) else { continue };
            // The block includes this row.
            let at = rows.partition_point(|row| *row < entry.row);
            self.ready.push_back(Row::of_block(run.partition.clone(), block.clone(), at));
        }
        Ok(())
    }

    fn step(&mut self) -> Result<Option<Row>, StoreError> {
        loop {
            if let Some(row) = self.ready.pop_front() {
                return Ok(Some(row));
            }
            if !self.window.is_empty() {
                self.next_batch()?;
            } else if !self.next_window()? {
                return Ok(None);
            }
        }
    }
}

impl Iterator for SealedScan {
    type Item = Result<Row, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.done {
            return None;
        }
        let row = self.step().transpose();
        self.done = !matches!(row, Some(Ok(_)));
        row
    }
}
