//! A table of a remote store is archived: read into a folder beside the data, sealed there by the same code that seals
//! days here, and proved in the archive.
//!
//! ```text
//! service ──pages──► staging/ (a data folder) ──► staging/Log20261101.1.parquet ──► archive ──► read back ──► noted
//! ```
//!
//! The folder takes the rows in any order and merges equal keys, so nothing depends on the service's order; what is in
//! memory is a page, a commit and a row group. A kill leaves the folder, and the next step that needs it begins it anew.

use super::hands::{SharedHands, latest};
use crate::archive::{Archive, Patience};
use crate::key::DayTable;
use crate::lifecycle::hands::{Kept, OnWork, StepError, address, seal_of};
use crate::store::catalogue::{Archived, LiveFile};
use crate::store::sealed::{self, Manifest};
use crate::store::{Done, Options, Store, StoreError, Submission};
use crate::tables::gather::Gather;
use crate::tables::{Content, whole_table};
use crate::time;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The folder's name beside the catalogue.
const STAGING: &str = "staging";
/// Rows between two words of how far it is.
const TELL_ROWS: u64 = 10_000;

/// A folder for what is under way. It is no data, and goes with this.
pub(super) struct Staging(PathBuf);

impl Staging {
    /// An empty one.
    pub(super) fn new(data_dir: &Path) -> Result<Staging, StoreError> {
        let path = data_dir.join(STAGING);
        match std::fs::remove_dir_all(&path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(StoreError::io(&path)(error)),
            _ => {}
        }
        std::fs::create_dir(&path).map_err(StoreError::io(&path))?;
        Ok(Staging(path))
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Staging {
    fn drop(&mut self) {
        // What is left is removed before it is used again.
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Removes what a kill left.
pub(super) fn clear(data_dir: &Path) {
    drop(Staging(data_dir.join(STAGING)));
}

impl SharedHands {
    /// Archives a table now, because somebody asks for it.
    pub fn archive_now(&self, table: &DayTable, place: &str, on: &mut OnWork<'_>) -> Result<Kept, StepError> {
        self.owner()?;
        let archived = self.archive(table, place, on)?;
        let (rows, bytes) = archived.as_ref().map_or((0, 0), |archived| (archived.seal.rows, archived.seal.bytes));
        Ok(Kept { table: table.to_string(), rows, bytes, archive: archived.map(|archived| archived.url) })
    }

    /// Archives a table and notes it; none where it has no rows. What is archived already is only read back.
    pub(super) fn archive(
        &self,
        table: &DayTable,
        place: &str,
        on: &mut OnWork<'_>,
    ) -> Result<Option<Archived>, StepError> {
        let _one = self.here.alone()?;
        let staging = Staging::new(&self.data_dir)?;
        let archive = Archive::open_to_write(&address(place)?, &self.here.access(), &Patience::LIFECYCLE)?;
        // What a kill left unnoted is there all the same, and no generation is used twice.
        let mut listed = archive.list(std::slice::from_ref(table.table()))?.archives;
        listed.retain(|archived| archived.table() == table);
        let noted = latest(&self.state()?, table).map_or(0, |archived| archived.generation);
        let generation = listed.iter().map(|archived| archived.generation()).max().unwrap_or(0).max(noted) + 1;
        let sealed = self.seal(table, generation, &staging, on)?;
        self.is_empty(table, sealed.is_none());
        let Some((manifest, path)) = sealed else { return Ok(None) };
        if let Some(before) = latest(&self.state()?, table).filter(|before| before.seal.rows > manifest.rows) {
            // A day that was dropped and came back with what a host had left of it: in place of its archive it would be a loss.
            return Err(StoreError::Refused(format!(
                "{table} has {} rows and its archive {}: the archive stays; drop what came back with --without-archive, or copy it elsewhere first",
                manifest.rows, before.seal.rows
            ))
            .into());
        }
        crate::failpoint!("shared-archive-staged");
        let is_same = |there: &Manifest| (there.rows, &there.content) == (manifest.rows, &manifest.content);
        let mut teller = self.here.teller(table, on);
        let proof = match listed.iter().rev().find(|archived| is_same(archived.manifest())) {
            Some(there) => archive.prove(there, &mut |progress| teller.archive(progress))?,
            None => archive.put(&manifest, &path, &mut |progress| teller.archive(progress))?,
        };
        drop(teller);
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
        self.here.steps().put_archive(archived.clone())?;
        crate::failpoint!("shared-archive-noted");
        Ok(Some(archived))
    }

    /// Reads a table and seals what was read; none where it has no rows.
    fn seal(
        &self,
        table: &DayTable,
        generation: i64,
        staging: &Staging,
        on: &mut OnWork<'_>,
    ) -> Result<Option<(Manifest, PathBuf)>, StepError> {
        let folder = staging.path("rows");
        let store = Store::open(&folder, Options { commit_interval: Duration::from_secs(1), ..Options::default() })?;
        let sealed = self.fill(table, &store, on).and_then(|content| {
            if content.rows == 0 {
                return Ok(None);
            }
            let steps = store.steps();
            let mut inputs = steps.begin_seal(table)?.inputs;
            inputs.sort_by_key(LiveFile::generation);
            let path = staging.path(&format!("{table}.{generation}{}", sealed::EXTENSION));
            let what = sealed::Sealing {
                table: table.clone(),
                generation,
                inputs: inputs.iter().map(|file| folder.join("tables").join(&file.name)).collect(),
                committed: steps.committed()?,
                out: path.clone(),
            };
            let mut teller = self.here.teller(table, on);
            let manifest = sealed::seal(&what, &mut |progress| teller.seal(progress))?;
            if !content.is_that_of(&manifest) {
                let what = format!("{} of {} rows that were read of {table} were sealed", manifest.rows, content.rows);
                return Err(StoreError::Refused(what).into());
            }
            Ok(Some((manifest, path)))
        });
        store.close()?;
        sealed
    }

    /// Brings the rows of a table into `store`.
    fn fill(&self, table: &DayTable, store: &Store, on: &mut OnWork<'_>) -> Result<Content, StepError> {
        store.steps().create_table(table)?;
        let (intake, lost) = (store.intake(), Arc::new(AtomicBool::new(false)));
        let submit = |batch| {
            let lost = lost.clone();
            let done = Done::new(move |committed| {
                lost.fetch_or(!committed, Ordering::Relaxed);
            });
            let submission = Submission { batches: vec![batch], epoch: intake.epoch(), done, ..Submission::default() };
            intake.submit(submission).map_err(|error| StoreError::Refused(error.to_string()))
        };
        let (mut content, mut gather) = (Content::default(), Gather::new(table.clone()));
        let mut teller = self.here.teller(table, on);
        for row in whole_table(&*self.tables, table) {
            let row = row?;
            content.add(&row);
            if let Some(batch) = gather.push(row) {
                submit(batch)?;
            }
            if content.rows.is_multiple_of(TELL_ROWS) && teller.tell("read", content.rows, 0).is_break() {
                return Err(StepError::Stopped);
            }
        }
        gather.finish().try_for_each(submit)?;
        // Behind all that was submitted.
        store.steps().committed()?;
        if lost.load(Ordering::Relaxed) {
            return Err(StoreError::Refused(format!("not all rows of {table} could be kept for sealing")).into());
        }
        Ok(content)
    }
}
