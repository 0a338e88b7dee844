//! Stretches of time of open days, as sealed files of their own.
//!
//! Who publishes an open day needs to know which of its times have rows of later commits than what was published
//! ([`Reader::day_minutes`]), and a file of some times ([`Reader::write_slice`]). Both read snapshots of all files of the day
//! that were opened before the commits that count were read, so a compaction in between takes no row away. The commit that
//! is told is the last one *before* the snapshots: all rows up to it are there, and only rows that were committed. A snapshot lasts
//! while pages are copied as they are, not while they are decoded and written.

use super::Reader;
use crate::StoreError;
use crate::format::catalog::{Committed, DayState, FileRole, LiveFile};
use crate::format::day_file::read_total;
use crate::format::page::{TableAddress, level_minutes};
use crate::format::page_copy::copy_pages;
use crate::format::page_rows::{HEADER_COLUMNS, PageRow, damaged, read_header};
use crate::format::sealed::{Manifest, OpenInput, SealJob, SealedSizes, TimeSlice, seal_slice};
use crate::progress::OnProgress;
use daytable_model::column_name::KnownNames;
use daytable_model::key::DayTable;
use daytable_model::time::{TICKS_PER_MINUTE, Ticks, UNIX_EPOCH_TICKS};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

/// Stretches of which a day's rows are counted, at most. With more of them, each is twice as long.
const STRETCHES_MAX: usize = 1 << 16;
/// How often the files of a day are opened while they change.
const TRIES: u32 = 20;

/// Where the rows of an open day are, by minutes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DayMinutes {
    /// The last commit whose rows are all counted.
    pub commit: i64,
    /// Minutes of a stretch.
    grain: i64,
    /// By the number of the stretch.
    stretches: BTreeMap<i64, MinuteRows>,
}

/// The rows of a minute, or of a few.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MinuteRows {
    /// Its records; those with equal keys may count several times.
    pub records: u64,
    /// A commit that is not before the last one with rows of it.
    pub newest_commit: i64,
}

/// A file to be written.
#[derive(Clone, Debug)]
pub struct SliceJob {
    /// The day.
    pub table: DayTable,
    /// Its times.
    pub slice: TimeSlice,
    /// The path of the new file, ending in `.parquet`.
    pub out: PathBuf,
    /// Names of columns that other files of the table have.
    pub names: Arc<KnownNames>,
}

/// A file that was written.
#[derive(Clone, Debug)]
pub struct WrittenSlice {
    /// Its description.
    pub manifest: Manifest,
    /// The last commit whose rows are all in it.
    pub commit: i64,
}

/// The pages of a day, each file in a snapshot.
struct DaySnapshot {
    files: Vec<OpenInput>,
    /// The last commit before the snapshots.
    before: i64,
    /// The commits that happened when all snapshots had begun.
    committed: Committed,
}

impl DayMinutes {
    /// No rows.
    pub fn new(commit: i64) -> DayMinutes {
        DayMinutes { commit, grain: 1, stretches: BTreeMap::new() }
    }

    /// Counts records of the minute of a time.
    pub fn add(&mut self, time: Ticks, records: u64, commit: i64) {
        let minute = (time.get() - UNIX_EPOCH_TICKS).div_euclid(TICKS_PER_MINUTE);
        let stretch = self.stretches.entry(minute.div_euclid(self.grain)).or_default();
        stretch.records += records;
        stretch.newest_commit = stretch.newest_commit.max(commit);
        while self.stretches.len() > STRETCHES_MAX {
            self.grain *= 2;
            for (number, rows) in std::mem::take(&mut self.stretches) {
                let stretch = self.stretches.entry(number.div_euclid(2)).or_default();
                stretch.records += rows.records;
                stretch.newest_commit = stretch.newest_commit.max(rows.newest_commit);
            }
        }
    }

    /// The stretches with rows, the oldest first.
    pub fn iter(&self) -> impl Iterator<Item = (TimeSlice, MinuteRows)> {
        let start = |number: i64| {
            let ticks = number.saturating_mul(self.grain).saturating_mul(TICKS_PER_MINUTE);
            Ticks::new(ticks.saturating_add(UNIX_EPOCH_TICKS))
        };
        self.stretches.iter().map(move |(number, rows)| {
            // The stretch of the first times begins before them.
            let slice = TimeSlice { from: start(*number).unwrap_or(Ticks::MIN), until: start(number + 1) };
            (slice, *rows)
        })
    }
}

impl Reader {
    /// Where the rows of a day are. `None` if the day is not here, or if it has a sealed file: then its rows are not all in
    /// pages.
    ///
    /// # Errors
    ///
    /// A file cannot be read.
    pub fn day_minutes(&self, table: &DayTable) -> Result<Option<DayMinutes>, StoreError> {
        let Some(snapshot) = self.day_snapshot(table)? else { return Ok(None) };
        let mut minutes = DayMinutes::new(snapshot.before);
        for file in &snapshot.files {
            let sql = |error| StoreError::sqlite(&file.path)(error);
            let mut statement = file.connection.prepare(&format!("SELECT {HEADER_COLUMNS} FROM page")).map_err(sql)?;
            let mut pages = statement.query([]).map_err(sql)?;
            while let Some(page) = pages.next().map_err(sql)? {
                let page = read_header(page).map_err(sql)?;
                if !snapshot.committed.includes(page.seq) {
                    continue;
                }
                // Rows that are parts of a record are counted with it; their page may be another one.
                for key in [page.header.first, page.header.last] {
                    minutes.add(key.time(), 0, page.seq);
                }
                for of in level_minutes(&page.header.levels) {
                    let of = of.map_err(|error| damaged(&file.path, &page, error.to_string()))?;
                    let start = of.minute.saturating_mul(TICKS_PER_MINUTE).saturating_add(UNIX_EPOCH_TICKS);
                    minutes.add(Ticks::new(start).unwrap_or(Ticks::MIN), of.records.into(), page.seq);
                }
            }
        }
        Ok(Some(minutes))
    }

    /// Writes the rows of some times of a day as a sealed file of generation 0. `None` as for [`Reader::day_minutes`]. The folder
    /// of the file is left with copies of pages, which the caller removes.
    ///
    /// # Errors
    ///
    /// [`StoreError::Closed`] if `progress` breaks, and every error of the files. After an error, no file has the name.
    pub fn write_slice(
        &self,
        job: &SliceJob,
        progress: &mut OnProgress<'_>,
    ) -> Result<Option<WrittenSlice>, StoreError> {
        let Some(DaySnapshot { files, before, committed }) = self.day_snapshot(&job.table)? else { return Ok(None) };
        let address = TableAddress::new(&job.table);
        let is_wanted = |page: &PageRow| committed.includes(page.seq) && job.slice.meets(&page.header);
        let mut copies = Vec::with_capacity(files.len());
        for (number, file) in files.into_iter().enumerate() {
            let path = job.out.with_extension(format!("{number}.db"));
            let copy = copy_pages((&file.connection, &file.path), &path, is_wanted)?;
            copies.push(OpenInput::of(copy, &path, address, &committed)?);
        }
        let sealing = SealJob {
            table: job.table.clone(),
            generation: 0,
            inputs: Vec::new(),
            committed: committed.clone(),
            out: job.out.clone(),
            sizes: SealedSizes::default(),
            names: job.names.clone(),
        };
        let manifest = seal_slice(&sealing, copies, job.slice, progress)?;
        Ok(Some(WrittenSlice { manifest, commit: before }))
    }

    /// Opens the files of a day of which all are pages. Files that are sealed or dropped meanwhile are looked up anew.
    fn day_snapshot(&self, table: &DayTable) -> Result<Option<DaySnapshot>, StoreError> {
        let address = TableAddress::new(table);
        let mut failed = None;
        for _ in 0..TRIES {
            let before = self.catalog.committed()?;
            let Some(live) = self.page_files(table)? else { return Ok(None) };
            let opened: Result<Vec<OpenInput>, StoreError> = live
                .iter()
                .map(|file| OpenInput::open(&self.path_of(file), address, &before).and_then(|day| checked(day, file)))
                .collect();
            let committed = self.catalog.committed()?;
            let names = |files: &[LiveFile]| files.iter().map(|file| file.name.clone()).collect::<Vec<_>>();
            let is_same = self.page_files(table)?.is_some_and(|now| names(&now) == names(&live));
            match opened {
                Ok(files) if is_same => return Ok(Some(DaySnapshot { files, before: before.seq, committed })),
                Err(error) if is_same => return Err(error),
                opened => failed = opened.err(),
            }
        }
        Err(failed.unwrap_or_else(|| StoreError::TableGone(table.to_string())))
    }

    /// The live files of a day, the oldest first. `None` without one, or if it has a sealed file or is a copy.
    fn page_files(&self, table: &DayTable) -> Result<Option<Vec<LiveFile>>, StoreError> {
        let mut files = self.catalog.files_of(table)?;
        let is_open = self.catalog.days()?.iter().any(|day| day.table == *table && day.state == DayState::Open);
        let is_pages = files
            .iter()
            .all(|file| matches!(file.role, FileRole::Open | FileRole::Closed | FileRole::Kept) && file.seal.is_none());
        files.sort_by_key(LiveFile::generation);
        Ok((is_open && is_pages && !files.is_empty()).then_some(files))
    }
}

/// The snapshot must have all that the catalog says of its file.
fn checked(day: OpenInput, noted: &LiveFile) -> Result<OpenInput, StoreError> {
    let total = read_total(&day.connection).map_err(StoreError::sqlite(&day.path))?;
    if total.last_seq < noted.last_seq {
        let what = format!("it has commits up to {}, the catalog says {}", total.last_seq, noted.last_seq);
        return Err(StoreError::Unequal { path: day.path, what });
    }
    Ok(day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn minutes_are_counted_and_become_longer_if_there_are_many() {
        let at = |minute: i64| Ticks::new(UNIX_EPOCH_TICKS + minute * TICKS_PER_MINUTE + 7).expect("a time");
        let mut minutes = DayMinutes::new(9);
        minutes.add(at(3), 5, 2);
        minutes.add(at(3), 1, 8);
        minutes.add(at(-1), 1, 3);
        let found: Vec<_> = minutes.iter().map(|(of, rows)| (of.from, rows.records, rows.newest_commit)).collect();
        let start = |minute: i64| Ticks::new(UNIX_EPOCH_TICKS + minute * TICKS_PER_MINUTE).expect("a time");
        assert_eq!(found, [(start(-1), 1, 3), (start(3), 6, 8)]);
        let many = 3 * STRETCHES_MAX as i64;
        for minute in 0..many {
            minutes.add(at(minute), 1, 9);
        }
        assert!(minutes.stretches.len() <= STRETCHES_MAX);
        assert_eq!(minutes.iter().map(|(_, rows)| rows.records).sum::<u64>(), many as u64 + 7);
        assert!(minutes.iter().all(|(of, _)| of.until.is_none_or(|until| until > of.from)));
    }
}
