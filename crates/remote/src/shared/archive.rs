//! Archives a table of a remote store. The rows are read into a folder beside the data and sealed by the code for
//! local days. The archive is verified by reading it back.
//!
//! ```text
//! service ──pages──► staging/ (a data folder) ──► staging/Log20261101.1.parquet ──► archive ──► read back ──► noted
//! ```
//!
//! A day may already have an archive: the table reappeared after its drop, or took later rows. Then the archive is
//! fetched and merged with the table. The result is the next generation.
//!
//! The folder accepts rows in any order and merges equal keys, so the order of the service is irrelevant. Memory holds
//! a page, a commit and a row group. A kill leaves the folder behind; the next step recreates it.

use super::executor::{SharedExecutor, latest};
use super::merge;
use super::staging::Staging;
use daytable_archive::{Archive, RetryPolicy};
use daytable_lifecycle::executor::{ArchiveOutcome, OnStepProgress, StepError, address, described, seal_of};
use daytable_model::key::DayTable;
use daytable_model::time;
use daytable_query::tables::rebatch::Rebatcher;
use daytable_query::tables::{OwnedRow, TableContent, whole_table};
use daytable_store::catalog::Archived;
use daytable_store::sealed::{self, ArchiveHome, Manifest, SealedFile};
use daytable_store::{Ack, Store, StoreError, StoreOptions, Submission};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Rows between two progress reports.
const REPORT_ROWS: u64 = 10_000;

impl SharedExecutor {
    /// Archives a table on request.
    pub fn archive_now(
        &self,
        table: &DayTable,
        place: &str,
        on: &mut OnStepProgress<'_>,
    ) -> Result<ArchiveOutcome, StepError> {
        self.owner()?;
        let archived = self.archive(table, place, on)?.map(|(archived, _)| archived);
        let (rows, bytes) = archived.as_ref().map_or((0, 0), |archived| (archived.seal.rows, archived.seal.bytes));
        Ok(ArchiveOutcome { table: table.to_string(), rows, bytes, archive: archived.map(|archived| archived.url) })
    }

    /// Archives a table and records the archive with the content of the table. `None` if the table has no rows. An
    /// existing archive is only verified.
    pub(super) fn archive(
        &self,
        table: &DayTable,
        place: &str,
        on: &mut OnStepProgress<'_>,
    ) -> Result<Option<(Archived, TableContent)>, StepError> {
        let _one = self.local.alone()?;
        let staging = Staging::new(&self.data_dir)?;
        let archive = Archive::open_to_write(&address(place)?, &self.local.access(), &RetryPolicy::LIFECYCLE)?;
        if archive.is_table() {
            let reason = "archives of a remote store cannot be a table (`table_format` of [archives])";
            return Err(StoreError::Refused(reason.into()).into());
        }
        // A killed run may have left an unrecorded archive; a generation number is never reused.
        let is_its = |home: &ArchiveHome, day: &DayTable| *home == self.home && day == table;
        let mut listed = archive.list(std::slice::from_ref(table.table()), &is_its)?.archives;
        listed.sort_by_key(|archived| archived.generation());
        let noted = latest(&self.state()?, table);
        let generations = listed.iter().map(|archived| archived.generation());
        let generation = generations.chain(noted.iter().map(|noted| noted.generation)).max().unwrap_or(0) + 1;
        let sealed = self.seal(table, generation, &staging, on)?;
        self.is_empty(table, sealed.is_none());
        let Some((mut manifest, mut path, held)) = sealed else { return Ok(None) };
        // An archive with different rows must not be replaced: rows would be lost. The archive at this place may be
        // unrecorded, and the recorded archive may be at another place.
        let mut before = Vec::new();
        before.extend(listed.last().map(|there| (archive.clone(), there.clone())));
        let is_listed = |noted: &Archived| {
            noted.url == place && listed.last().is_some_and(|there| there.generation() == noted.generation)
        };
        if let Some(noted) = noted.filter(|noted| !is_listed(noted)) {
            let archive = Archive::open(&address(&noted.url)?, &self.local.access(), &RetryPolicy::LIFECYCLE)?;
            before.push((archive, described(&noted)?));
        }
        let mut whole = held;
        for (nth, (archive, before)) in before.iter().enumerate() {
            if whole.is_that_of(before.manifest()) {
                continue;
            }
            let old = staging.path(&format!("before{nth}{}", sealed::EXTENSION));
            let mut reporter = self.local.reporter(table, on);
            archive.fetch(before, &old, &mut |progress| reporter.report(progress))?;
            drop(reporter);
            // A new name, because the merged file is still read.
            let folder = staging.path(&format!("merged{nth}"));
            let merged = self.merge(table, generation, &folder, [&path, &old], &whole, on)?;
            if let Some(merged) = merged {
                tracing::info!(%table, rows = merged.0.rows, had = before.manifest().rows, "a table is archived with the rows of its earlier archive");
                (manifest, path, whole) = merged;
            }
        }
        daytable_platform::failpoint!("shared-archive-staged");
        manifest.home = Some(self.home.clone());
        let is_same = |there: &Manifest| (there.rows, &there.content) == (manifest.rows, &manifest.content);
        let mut reporter = self.local.reporter(table, on);
        let proof = match listed.iter().rev().find(|archived| is_same(archived.manifest())) {
            Some(there) => archive.prove(there, &mut |progress| reporter.report(progress))?,
            None => archive.put(&manifest, &path, &mut |progress| reporter.report(progress))?,
        };
        drop(reporter);
        let manifest = proof.archived().manifest();
        let archived = Archived {
            table: table.clone(),
            generation: proof.archived().generation(),
            url: place.to_owned(),
            seal: seal_of(manifest, time::now()),
            verified: time::now(),
            is_superseded: false,
            manifest: manifest.to_json().into(),
        };
        tracing::info!(%table, place, rows = manifest.rows, bytes = manifest.bytes, "archived, and read back");
        self.local.steps().put_archive(archived.clone())?;
        daytable_platform::failpoint!("shared-archive-noted");
        Ok(Some((archived, held)))
    }

    /// Seals the union of two sealed files; for equal keys the row of the first file wins. `None` if the result equals
    /// the first file.
    fn merge(
        &self,
        table: &DayTable,
        generation: i64,
        folder: &Path,
        [first, other]: [&Path; 2],
        held: &TableContent,
        on: &mut OnStepProgress<'_>,
    ) -> Result<Option<(Manifest, PathBuf, TableContent)>, StepError> {
        let (first, other) = (SealedFile::open_local(first)?, SealedFile::open_local(other)?);
        let mut content = TableContent::default();
        for row in merge::rows(&first, &other) {
            content.add(&row?);
        }
        if content == *held {
            return Ok(None);
        }
        let rows = merge::rows(&first, &other).map(|row| row.map_err(StepError::from));
        self.seal_rows(table, generation, folder, rows, on)
    }

    /// Reads a table and seals its rows. `None` if there are no rows.
    fn seal(
        &self,
        table: &DayTable,
        generation: i64,
        staging: &Staging,
        on: &mut OnStepProgress<'_>,
    ) -> Result<Option<(Manifest, PathBuf, TableContent)>, StepError> {
        let rows = whole_table(&*self.tables, table).map(|row| row.map_err(StepError::from));
        self.seal_rows(table, generation, &staging.path("rows"), rows, on)
    }

    /// Seals rows through a data folder of this name. `None` if there are no rows.
    fn seal_rows(
        &self,
        table: &DayTable,
        generation: i64,
        folder: &Path,
        rows: impl Iterator<Item = Result<OwnedRow, StepError>>,
        on: &mut OnStepProgress<'_>,
    ) -> Result<Option<(Manifest, PathBuf, TableContent)>, StepError> {
        // The service has no time of arrival.
        let commit_interval = Duration::from_secs(1);
        let options = StoreOptions { commit_interval, notes_arrival: false, ..StoreOptions::default() };
        let store = Store::open(folder, options)?;
        let sealed = self.fill(table, rows, &store, on).and_then(|content| {
            if content.rows == 0 {
                return Ok(None);
            }
            let steps = store.steps();
            let path = folder.join(format!("{table}.{generation}{}", sealed::EXTENSION));
            let sealing = steps.begin_seal(table)?;
            let job = sealed::SealJob { generation, out: path.clone(), ..sealing.to_write(steps.committed()?) };
            let mut reporter = self.local.reporter(table, on);
            let manifest = sealed::seal(&job, &mut |progress| reporter.report(progress))?.manifest;
            if !content.is_that_of(&manifest) {
                let reason =
                    format!("{} of {} rows that were read of {table} were sealed", manifest.rows, content.rows);
                return Err(StoreError::Refused(reason).into());
            }
            Ok(Some((manifest, path, content)))
        });
        store.close()?;
        sealed
    }

    /// Writes rows into a table of `store`.
    fn fill(
        &self,
        table: &DayTable,
        rows: impl Iterator<Item = Result<OwnedRow, StepError>>,
        store: &Store,
        on: &mut OnStepProgress<'_>,
    ) -> Result<TableContent, StepError> {
        store.steps().create_table(table)?;
        let (intake, lost) = (store.commit_queue(), Arc::new(AtomicBool::new(false)));
        let submit = |batch| {
            let lost = lost.clone();
            let done = Ack::new(move |committed| {
                lost.fetch_or(!committed, Ordering::Relaxed);
            });
            let submission =
                Submission { batches: vec![batch], epoch: intake.epoch(), ack: done, ..Submission::default() };
            intake.submit(submission).map_err(|error| StoreError::Refused(error.to_string()))
        };
        let (mut content, mut gather) = (TableContent::default(), Rebatcher::new(table.clone()));
        let mut reporter = self.local.reporter(table, on);
        for row in rows {
            let row = row?;
            content.add(&row);
            if let Some(batch) = gather.push(row) {
                submit(batch)?;
            }
            if content.rows.is_multiple_of(REPORT_ROWS) && reporter.report_step("read", content.rows, 0).is_break() {
                return Err(StepError::Stopped);
            }
        }
        gather.finish().try_for_each(submit)?;
        // Waits for all submitted rows.
        store.steps().committed()?;
        if lost.load(Ordering::Relaxed) {
            return Err(StoreError::Refused(format!("not all rows of {table} could be kept for sealing")).into());
        }
        Ok(content)
    }
}
