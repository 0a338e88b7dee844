//! The committer's part of a day's lifecycle: the short steps that change the live files, between two commits.
//!
//! Sealing, archiving and restoring take minutes and run elsewhere. A step here is one transaction of the catalog and
//! some renames. A crash between the steps leaves the old state or the new one: the long part writes to a file that the
//! catalog records as pending. The file becomes data only in the second step.

use super::Committer;
use crate::StoreError;
use crate::format::catalog::accounting::{SourceReceipt, counts_bytes};
use crate::format::catalog::{Archived, Committed, FileRole, LiveFile, Permit, Seal};
use crate::format::sealed;
use crate::layout;
use crate::maintain::orphans;
use crate::sqlite;
use daytable_model::key::DayTable;
use daytable_model::time::{self, Ticks};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A day that is being sealed, with its inputs and its output.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealTarget {
    /// The day.
    pub table: DayTable,
    /// The generation of the sealed file.
    pub generation: i64,
    /// Every live file of the day. None of them changes any more.
    pub inputs: Vec<LiveFile>,
    /// The name of the sealed file below `tables/`.
    pub output: String,
    /// Its path.
    pub path: PathBuf,
}

impl SealTarget {
    /// Bytes of its inputs on the disk.
    pub fn input_bytes(&self) -> u64 {
        let bytes = |path: &Path| std::fs::metadata(path).map_or(0, |file| file.len());
        let paths = self.inputs.iter().map(|file| self.path.with_file_name(&file.name));
        paths.map(|path| bytes(&path) + bytes(&sqlite::journal_of(&path))).sum()
    }

    /// The job that writes the sealed file. `committed` tells which commits happened.
    pub fn to_write(&self, committed: Committed) -> sealed::SealJob {
        let mut inputs: Vec<&LiveFile> = self.inputs.iter().collect();
        inputs.sort_by_key(|file| file.generation());
        sealed::SealJob {
            table: self.table.clone(),
            generation: self.generation,
            inputs: inputs.into_iter().map(|file| self.path.with_file_name(&file.name)).collect(),
            committed,
            out: self.path.clone(),
            sizes: sealed::SealedSizes::default(),
            names: Arc::default(),
        }
    }
}

/// A day that is being restored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreTarget {
    /// The name of the restored table.
    pub table: DayTable,
    /// The day-table of the archive.
    pub origin: DayTable,
    /// The generation of the file.
    pub generation: i64,
    /// The name of the file below `tables/`.
    pub output: String,
    /// Its path.
    pub path: PathBuf,
}

impl Committer {
    /// Creates `day` unless it exists or was dropped. Returns whether it was created.
    pub(crate) fn create_table(&mut self, day: &DayTable) -> Result<bool, StoreError> {
        let known = self.closed.contains(day) || !self.catalog.files_of(day)?.is_empty();
        if !known {
            self.writable_day(day)?;
        }
        Ok(!known)
    }

    /// Closes the open files of `day`. Later records go to the next generation. A day that is sealed already is sealed
    /// `again` where its file shall have another form.
    pub(crate) fn begin_seal(&mut self, day: &DayTable, again: bool) -> Result<SealTarget, StoreError> {
        let live = self.catalog.files_of(day)?;
        if live.is_empty() {
            return Err(StoreError::TableGone(day.to_string()));
        }
        if live.iter().any(|file| file.role == FileRole::Outbox) {
            return Err(StoreError::Refused(format!("{day} is on its way to a remote store")));
        }
        let is_sealed = |file: &LiveFile| file.role == FileRole::Sealed || file.entities == 0;
        if !again && live.iter().all(is_sealed) {
            return Err(StoreError::Refused(format!("{day} has nothing to seal")));
        }
        if self.is_held(&live) {
            return Err(StoreError::Refused(format!("{day} is sealed once all of it was forwarded")));
        }
        let generation = self.next_generation(day)?;
        let output = layout::sealed_name(day, generation);
        let inputs = self.catalog.begin_seal(day, generation, &output)?;
        daytable_platform::failpoint!("seal-begun");
        self.compactor.forget(day);
        if let Some(open) = self.days.remove(day) {
            // The sealing thread reads the journal too: a checkpoint would make commits wait.
            open.file.abandon();
        }
        let path = self.layout.table_file(&output);
        Ok(SealTarget { table: day.clone(), generation, inputs, output, path })
    }

    /// Makes the sealed file live and discards its inputs.
    pub(crate) fn end_seal(&mut self, sealing: &SealTarget, seal: &Seal) -> Result<(), StoreError> {
        daytable_platform::failpoint!("seal-before-live");
        seal.check_length(&self.layout, &sealing.path)?;
        self.catalog.end_seal(&sealing.table, &sealing.inputs, &sealing.output, seal)?;
        daytable_platform::failpoint!("seal-live");
        let inputs: Vec<String> = sealing.inputs.iter().map(|input| input.name.clone()).collect();
        self.discard(&inputs)
    }

    /// Leaves a day in its pages, and removes the sealed file of it.
    pub(crate) fn keep_open(&mut self, sealing: &SealTarget) -> Result<(), StoreError> {
        self.catalog.keep_open(&sealing.table)?;
        daytable_platform::failpoint!("seal-kept-open");
        self.abandon(&sealing.output)
    }

    /// Removes an unfinished file, and its entry in the catalog.
    pub(crate) fn abandon(&mut self, output: &str) -> Result<(), StoreError> {
        if !self.catalog.is_live(output)? {
            orphans::remove_made(&self.layout, output)?;
            orphans::forget(&self.layout, &mut self.catalog, &[output.to_owned()])?;
        }
        Ok(())
    }

    /// Removes files that the catalog records as no longer live.
    pub(super) fn discard(&mut self, names: &[String]) -> Result<(), StoreError> {
        names.iter().try_for_each(|name| layout::discard(&self.layout, name))?;
        orphans::forget(&self.layout, &mut self.catalog, names)?;
        self.checkpoints.sweep(self.layout.trash());
        Ok(())
    }

    /// Records an archive that was read back.
    pub(crate) fn put_archive(&mut self, archived: &Archived) -> Result<(), StoreError> {
        daytable_platform::failpoint!("archive-proven");
        self.catalog.put_archive(archived)?;
        daytable_platform::failpoint!("archive-noted");
        Ok(())
    }

    /// Reserves the file for restoring `origin` as table `day`.
    pub(crate) fn begin_restore(&mut self, day: &DayTable, origin: &DayTable) -> Result<RestoreTarget, StoreError> {
        if !self.catalog.files_of(day)?.is_empty() {
            return Err(StoreError::Refused(format!("{day} exists")));
        }
        let generation = self.next_generation(day)?;
        let output = layout::sealed_name(day, generation);
        self.catalog.begin_making(day, generation, &output)?;
        // From now on, late records of this day go to today's table.
        self.closed.insert(day.clone());
        daytable_platform::failpoint!("restore-begun");
        let path = self.layout.table_file(&output);
        Ok(RestoreTarget { table: day.clone(), origin: origin.clone(), generation, output, path })
    }

    /// Makes the restored file live until `expires`.
    pub(crate) fn end_restore(
        &mut self,
        restoring: &RestoreTarget,
        seal: &Seal,
        expires: Ticks,
    ) -> Result<(), StoreError> {
        let RestoreTarget { table, origin, output, .. } = restoring;
        daytable_platform::failpoint!("restore-before-live");
        seal.check_length(&self.layout, &restoring.path)?;
        if !self.catalog.files_of(table)?.is_empty() {
            return Err(StoreError::Refused(format!("{table} was created while it was being restored")));
        }
        self.catalog.end_restore(table, origin, output, seal, expires, time::now())?;
        daytable_platform::failpoint!("restore-live");
        Ok(())
    }

    /// Drops `day`: one transaction of the catalog hides it from every reader. Its files are removed afterwards.
    pub(crate) fn drop_table(&mut self, day: &DayTable, permit: Permit) -> Result<(), StoreError> {
        let live = self.catalog.files_of(day)?;
        if live.is_empty() {
            return Err(StoreError::TableGone(day.to_string()));
        }
        for file in live.iter().filter(|_| permit == Permit::Proven) {
            if self.waits(file)? {
                return Err(StoreError::Refused(format!("{day} is not dropped: it has unsent rows")));
            }
        }
        let unforwarded = self.unforwarded(day, &live);
        daytable_platform::failpoint!("drop-before");
        let files = self.catalog.drop_day(day, permit, time::now(), unforwarded.as_slice())?;
        daytable_platform::failpoint!("drop-hidden");
        if let Some(SourceReceipt { losses, .. }) = unforwarded {
            let count =
                |is_bytes| losses.iter().find(|(reason, _)| counts_bytes(reason) == is_bytes).map_or(0, |(_, n)| *n);
            let (records, bytes) = (count(false), count(true));
            tracing::warn!(table = %day, records, bytes, "dropped a day before all of it was forwarded");
        }
        self.closed.insert(day.clone());
        self.compactor.forget(day);
        if let Some(open) = self.days.remove(day) {
            open.file.abandon();
        }
        live.iter().for_each(|file| self.forget_backlog(&file.name));
        daytable_platform::failpoint!("drop-after");
        self.discard(&files)
    }

    /// Records a run of the lifecycle, and removes sources that ended before `forget_before`.
    pub(crate) fn record_run(&mut self, at: Ticks, forget_before: Ticks) -> Result<(), StoreError> {
        let forgotten = self.catalog.forget_sources(forget_before)?;
        self.queue.forget(&forgotten);
        self.catalog.set_last_run(at)
    }

    /// A generation that no file of `day` ever had. No path is used twice, so a foreign file keeps its name.
    pub(super) fn next_generation(&self, day: &DayTable) -> Result<i64, StoreError> {
        let mut generation = self.catalog.generation(day)? + 1;
        let is_taken = |generation| {
            let names = [layout::file_name(day, generation), layout::sealed_name(day, generation)];
            names.iter().any(|name| self.layout.table_file(name).symlink_metadata().is_ok())
        };
        while is_taken(generation) {
            generation += 1;
        }
        Ok(generation)
    }
}
