//! Restores an archived day as a table of the remote store.
//!
//! The note of the restored day is written before the table is created. So the owner never treats the table as an
//! expired day, even after a kill. Rows are written by key, so repeated writes are harmless. The table is compared
//! with the archive before the restore succeeds.

use super::executor::{SharedExecutor, manifest};
use super::notes::RestoredTable;
use super::staging::Staging;
use daytable_archive::{Archive, RetryPolicy};
use daytable_lifecycle::executor::{OnStepProgress, RestoreOutcome, RestoreSpec, StepError, address, described};
use daytable_model::key::DayTable;
use daytable_model::time;
use daytable_query::tables::rebatch::Rebatcher;
use daytable_query::tables::{OwnedRow, TableError, TableStore};
use daytable_store::sealed::{EXTENSION, SealedFile};
use daytable_store::{Range, StoreError};
use std::time::{Duration, Instant};

/// Time limit for a table name that the service has not released.
const NAME_PATIENCE: Duration = Duration::from_secs(240);
/// Interval between attempts.
const NAME_EVERY: Duration = Duration::from_secs(5);

impl SharedExecutor {
    /// Restores a day completely. A repeated request creates no second copy; the later expiry counts.
    ///
    /// # Errors
    ///
    /// [`StepError::NoArchive`] if the day has no archive. After a partial failure, the table is dropped at its
    /// expiry.
    pub fn restore(&self, wanted: &RestoreSpec, on: &mut OnStepProgress<'_>) -> Result<RestoreOutcome, StepError> {
        self.owner()?;
        let _one = self.local.alone()?;
        let origin = &wanted.origin;
        let name = wanted.name.as_ref().unwrap_or(origin.table());
        let table = DayTable::at(name, origin.period(), origin.start());
        let archived = match self.local.known_archive(wanted, &self.home)? {
            Some(archived) => archived,
            None => self.local.found_archive(wanted, &self.home, on)?,
        };
        let sha256 = archived.seal.sha256.clone();
        let stands = self.tables.tables()?.contains(&table);
        let known = self.notes().restored()?.into_iter().find(|restored| restored.table == table);
        let mut expires = time::now().plus(wanted.keep);
        match &known {
            None if stands => return Err(StoreError::Refused(format!("{table} stands")).into()),
            Some(known) if stands && known.sha256 != sha256 => {
                let reason = format!("{table} stands, restored from another archive: drop it first");
                return Err(StoreError::Refused(reason).into());
            }
            Some(known) => expires = expires.max(known.expires),
            None => {}
        }
        self.notes().put_restored(&RestoredTable { table: table.clone(), origin: origin.clone(), expires, sha256 })?;
        daytable_platform::failpoint!("shared-restore-noted");
        let rows = archived.seal.rows;
        let manifest = manifest(&archived)?;
        let stood = stands && self.content_alone(&table, on)?.is_that_of(&manifest);
        if !stood {
            let staging = Staging::new(&self.data_dir)?;
            let path = staging.path(&format!("{origin}{EXTENSION}"));
            let archive = Archive::open(&address(&archived.url)?, &self.local.access(), &RetryPolicy::LIFECYCLE)?;
            let mut reporter = self.local.reporter(&table, on);
            archive.fetch(&described(&archived)?, &path, &mut |progress| reporter.report(progress))?;
            drop(reporter);
            self.create(&table)?;
            self.write(&table, &SealedFile::open_local(&path)?, on)?;
            daytable_platform::failpoint!("shared-restore-written");
            let content = self.content_alone(&table, on)?;
            if !content.is_that_of(&manifest) {
                let reason = format!("{table} has {} rows that are not the {rows} of its archive", content.rows);
                return Err(StoreError::Refused(reason).into());
            }
        }
        tracing::info!(%table, %origin, rows, %expires, "restored");
        Ok(RestoreOutcome { table: table.to_string(), rows, expires: expires.to_string(), stood })
    }

    /// Creates the table. Waits while the service deletes an earlier table of this name.
    fn create(&self, table: &DayTable) -> Result<(), StepError> {
        let until = Instant::now() + NAME_PATIENCE;
        loop {
            match self.tables.create_table(table) {
                Err(TableError::BeingDropped(_)) if Instant::now() < until => {
                    if self.local.is_stopped() {
                        return Err(StepError::Stopped);
                    }
                    std::thread::sleep(NAME_EVERY);
                }
                created => return Ok(created.map(drop)?),
            }
        }
    }

    fn write(&self, table: &DayTable, file: &SealedFile, on: &mut OnStepProgress<'_>) -> Result<(), StepError> {
        let (mut gather, mut done) = (Rebatcher::new(table.clone()), 0);
        let mut reporter = self.local.reporter(table, on);
        for partition in file.partitions() {
            let partitions = Some(vec![partition.to_string()]);
            let range = Range { partitions, ..Range::all() };
            for row in file.scan(&range) {
                if let Some(batch) = gather.push(OwnedRow::of(&row?)) {
                    done += batch.len() as u64;
                    self.tables.write(batch)?;
                    if reporter.report_step("write", done, file.rows()).is_break() {
                        return Err(StepError::Stopped);
                    }
                }
            }
        }
        Ok(gather.finish().try_for_each(|batch| self.tables.write(batch))?)
    }
}
