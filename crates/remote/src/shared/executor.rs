//! Takes the steps of the owner's plan. Decides no step itself.

use super::notes::Notes;
use super::plan::{SharedView, plan};
use super::staging;
use crate::tables::AzureTables;
use daytable_azure::StorageAccount;
use daytable_lifecycle::executor::{Executor, OnStepProgress, StepError};
use daytable_lifecycle::plan::{ArchiveRequirement as Rule, LifecycleLimits, LifecycleStep, TableRule};
use daytable_model::key::DayTable;
use daytable_query::tables::{TableContent, TableError, TableStore, whole_table};
use daytable_store::catalog::Archived;
use daytable_store::forward::position::FolderOrigin;
use daytable_store::sealed::{ArchiveHome, Manifest};
use daytable_store::{LifecycleState, StoreError};
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use xxhash_rust::xxh3::xxh3_128;

/// Rows between two progress reports.
const REPORT_ROWS: u64 = 10_000;

/// Takes steps on a remote store, for the thread that plans and for the commands.
pub struct SharedExecutor {
    pub(super) tables: Arc<AzureTables>,
    /// The executor of the data folder, whose catalog lists the archives.
    pub(super) local: Arc<Executor>,
    pub(super) data_dir: PathBuf,
    is_owner: bool,
    /// Whose days it archives: those of the account, whoever is its owner.
    pub(super) home: ArchiveHome,
    /// Tables that had no rows when they were read.
    empty: Mutex<BTreeSet<DayTable>>,
}

impl SharedExecutor {
    /// Creates an executor for `tables` of `account`. The catalog of `local` lists their archives. Only the owner takes steps.
    pub fn new(
        tables: Arc<AzureTables>,
        account: &StorageAccount,
        local: Arc<Executor>,
        data_dir: PathBuf,
        is_owner: bool,
    ) -> SharedExecutor {
        // Leftovers of a killed step are not data.
        staging::clear(&data_dir);
        let origin = FolderOrigin(xxh3_128(account.endpoint().as_bytes()).to_be_bytes());
        let home = ArchiveHome::new(account.name(), origin);
        SharedExecutor { tables, local, data_dir, is_owner, home, empty: Mutex::default() }
    }

    /// Returns an error if another daemon is the owner.
    pub(super) fn owner(&self) -> Result<(), StepError> {
        let reason = "another daytable is the owner of this store (`store.owner`), and archives, restores and drops";
        if self.is_owner { Ok(()) } else { Err(StoreError::Refused(reason.into()).into()) }
    }

    /// The remote store.
    pub fn tables(&self) -> &AzureTables {
        &self.tables
    }

    /// The notes of the daemons that share the store.
    pub fn notes(&self) -> Notes<'_> {
        Notes(&self.tables)
    }

    /// The input of a plan now.
    ///
    /// # Errors
    ///
    /// If the catalog or the remote store cannot be read.
    pub fn view(&self, rules: &[TableRule], limits: LifecycleLimits) -> Result<SharedView, StepError> {
        let view = SharedView::read(&self.tables, self.state()?, rules, limits)?;
        Ok(SharedView { empty: self.empty(), ..view })
    }

    /// Drops a table on request. The conditions of the plan apply, except its limits, and except the archive if
    /// `without_archive`. A restored table is dropped at any time.
    ///
    /// # Errors
    ///
    /// The reason why the table stays, or the error of the drop.
    pub fn drop_now(&self, table: &DayTable, mut view: SharedView, without_archive: bool) -> Result<(), StepError> {
        self.owner()?;
        let refused = |reason: String| Err(StoreError::Refused(format!("{table} is not dropped: {reason}")).into());
        if !view.tables.contains(table) {
            return Err(TableError::NotThere(table.clone()).into());
        }
        if view.restored.iter().any(|restored| restored.table == *table) {
            return self.take(&LifecycleStep::Drop(table.clone()), &mut |_| {});
        }
        view.limits = LifecycleLimits { min_tables: 0, drops_per_run_max: NonZeroU16::MAX, ..view.limits };
        for rule in view.rules.iter_mut().filter(|_| without_archive) {
            (rule.archive, rule.archive_before) = (Rule::None, None);
        }
        let planned = plan(&view);
        if let Some(held) = planned.held_back.iter().find(|held| held.table == *table) {
            return refused(held.reason.to_string());
        }
        match planned.steps.into_iter().find(|planned| planned.step.table() == table).map(|planned| planned.step) {
            Some(step @ LifecycleStep::Drop(_)) => self.take(&step, &mut |_| {}),
            Some(LifecycleStep::Archive(..)) => {
                refused("it has no archive that was read back, and its table asks for one".into())
            }
            _ => refused("its time is not over, and who sends to it would create it again".into()),
        }
    }

    /// Tables that had no rows when they were read.
    pub fn empty(&self) -> BTreeSet<DayTable> {
        self.empty.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn is_empty(&self, table: &DayTable, is_empty: bool) {
        let mut empty = self.empty.lock().unwrap_or_else(PoisonError::into_inner);
        if is_empty {
            empty.insert(table.clone())
        } else {
            empty.remove(table)
        };
    }

    pub(super) fn state(&self) -> Result<LifecycleState, StoreError> {
        self.local.steps().lifecycle_state()
    }

    /// Takes one step of the owner's plan.
    ///
    /// # Errors
    ///
    /// The error of the failed part. A repeated step starts again.
    pub fn take(&self, step: &LifecycleStep, on: &mut OnStepProgress<'_>) -> Result<(), StepError> {
        match step {
            LifecycleStep::Archive(table, place) => self.archive(table, place, on).map(drop),
            LifecycleStep::Drop(table) => self.drop_table(table, on),
            LifecycleStep::RemoveArchive(table, generation, place) => self.remove_archive(table, *generation, place),
            // The sender creates tables; a remote store has no sealed files.
            LifecycleStep::Create(_) | LifecycleStep::Seal(_) | LifecycleStep::DropUnarchived(_) => Ok(()),
        }
    }

    /// Drops a table that is empty or equals its latest archive, which is verified now. Other rows are archived first.
    fn drop_table(&self, table: &DayTable, on: &mut OnStepProgress<'_>) -> Result<(), StepError> {
        let restored = self.notes().restored()?.into_iter().find(|restored| restored.table == *table);
        let of = restored.as_ref().map_or(table, |restored| &restored.origin);
        match latest(&self.state()?, of) {
            Some(archived) => {
                let content = self.content(table, on)?;
                if content.rows > 0 && !content.is_that_of(&manifest(&archived)?) {
                    if restored.is_some() {
                        let reason = format!("{table} holds other rows than the archive that it was restored from");
                        return Err(StoreError::Refused(reason).into());
                    }
                    self.archive_anew(table, &archived.url, on)?;
                }
            }
            None if restored.is_some() => return Err(StepError::NoArchive(of.clone(), String::new())),
            // The plan took the table for empty.
            None if self.empty().contains(table) && self.content(table, on)?.rows > 0 => {
                self.is_empty(table, false);
                return Err(StoreError::Refused(format!("{table} is not dropped: it has rows now")).into());
            }
            // No archive is configured.
            None => {}
        }
        daytable_platform::failpoint!("shared-drop-before");
        self.tables.drop_once(table)?;
        daytable_platform::failpoint!("shared-drop-after");
        self.notes().forget_restored(table)?;
        // An archive still needs the steps that placed its rows.
        if latest(&self.state()?, table).is_none() {
            self.notes().forget_steps_in(table)?;
        }
        self.is_empty(table, false);
        Ok(())
    }

    /// Removes an archive. The last archive of a day takes the bucket steps of the day with it.
    fn remove_archive(&self, table: &DayTable, generation: i64, place: &str) -> Result<(), StepError> {
        let exists = || -> Result<bool, StepError> {
            let is_restored = self.notes().restored()?.iter().any(|restored| restored.origin == *table);
            Ok(is_restored || self.tables.tables()?.contains(table))
        };
        self.local.remove_archive(table, generation, place, |archived| {
            // The day may have been restored after the plan.
            if !archived.is_superseded && exists()? {
                let reason = format!("an archive of {table} is not removed: its table exists");
                return Err(StoreError::Refused(reason).into());
            }
            Ok(())
        })?;
        if latest(&self.state()?, table).is_none() && !exists()? {
            self.notes().forget_steps_in(table)?;
        }
        Ok(())
    }

    /// Archives the rows that arrived after the archive, and checks that no further rows arrived.
    fn archive_anew(&self, table: &DayTable, place: &str, on: &mut OnStepProgress<'_>) -> Result<(), StepError> {
        tracing::warn!(%table, place, "holds other rows than its archive, and is archived anew");
        let archived = self.archive(table, place, on)?;
        let content = self.content(table, on)?;
        match archived {
            // The archive may have more rows, if the table was created again after its drop.
            Some((_, held)) if content == held => Ok(()),
            _ => Err(StoreError::Refused(format!("{table} is not dropped: rows come to it while it is read")).into()),
        }
    }

    fn content(&self, table: &DayTable, on: &mut OnStepProgress<'_>) -> Result<TableContent, StepError> {
        let _one = self.local.alone()?;
        self.content_alone(table, on)
    }

    /// Number and checksum of the rows of a table, for a step that holds the lock.
    pub(super) fn content_alone(
        &self,
        table: &DayTable,
        on: &mut OnStepProgress<'_>,
    ) -> Result<TableContent, StepError> {
        let (mut content, mut reporter) = (TableContent::default(), self.local.reporter(table, on));
        for row in whole_table(&*self.tables, table) {
            content.add(&row?);
            if content.rows.is_multiple_of(REPORT_ROWS) && reporter.report_step("compare", content.rows, 0).is_break() {
                return Err(StepError::Stopped);
            }
        }
        Ok(content)
    }
}

/// The latest archive of a day in the catalog.
pub(super) fn latest(state: &LifecycleState, table: &DayTable) -> Option<Archived> {
    let of_day = state.archives.iter().filter(|archived| archived.table == *table && !archived.is_superseded);
    of_day.max_by_key(|archived| (archived.generation, archived.verified)).cloned()
}

pub(super) fn manifest(archived: &Archived) -> Result<Manifest, StepError> {
    let json = archived.manifest.as_bytes();
    Manifest::from_json(json).map_err(|error| StepError::Manifest(archived.table.clone(), error.to_string()))
}
