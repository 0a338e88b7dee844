//! The steps of the lifecycle. The committer runs each between two commits.
//!
//! A repeated step changes nothing, or fails with the reason. Long work (sealing a day, copying it) runs between two
//! steps, on the caller's thread. Commits and readers never wait for it.

use crate::StoreError;
use crate::format::catalog::{
    Archived, Committed, Day, DayState, FileRole, InterruptedStep, Permit, Rule, Seal, WatchedTime,
};
use crate::forward::position::FolderOrigin;
use crate::write::commit::{CommitQueue, Committer, RestoreTarget, SealTarget};
use daytable_model::key::DayTable;
use daytable_model::time::{self, Ticks};
use std::time::Duration;

/// The part of the catalog that the lifecycle's plan needs.
#[derive(Clone, Debug, Default)]
pub struct LifecycleState {
    /// Every day-table, past ones included, the oldest first.
    pub days: Vec<Day>,
    /// Archives that were read back.
    pub archives: Vec<Archived>,
    /// The newest time in the text of a record.
    pub newest: Option<Ticks>,
    /// How long the folder was watched, by a monotonic clock.
    pub watch: WatchedTime,
    /// The rules of the last daemon.
    pub rules: Vec<Rule>,
    /// The size limit of the folder, as the last daemon knew it, and since when it applies.
    pub pressure: Option<(u64, Ticks)>,
    /// When the lifecycle last finished a run.
    pub last_run: Option<Ticks>,
    /// Steps that kills interrupted, and that did not end since.
    pub interrupted: Vec<InterruptedStep>,
    /// The last commit that all receivers of [`crate::forward`] have; none without receivers.
    pub forwarded: Option<i64>,
}

impl LifecycleState {
    /// Whether the day-table exists here.
    pub fn has_day(&self, table: &DayTable) -> bool {
        self.days.iter().any(|day| day.table == *table && day.state != DayState::Dropped)
    }

    /// Whether nothing but archives is left of a day.
    pub fn has_archives_alone(&self, table: &DayTable) -> bool {
        !self.has_day(table) && self.archives.iter().any(|archived| archived.table == *table)
    }

    /// Reads the state from `catalog`.
    pub fn of(catalog: &crate::format::catalog::Catalog) -> Result<LifecycleState, StoreError> {
        // The lifecycle of rows in an outbox is that of the remote store.
        let mut days = catalog.days()?;
        let lives_here =
            |day: &Day| day.state != DayState::Open || day.files.iter().any(|file| file.role != FileRole::Outbox);
        days.retain(lives_here);
        Ok(LifecycleState {
            days,
            archives: catalog.archives()?,
            newest: catalog.newest()?,
            watch: catalog.watch()?,
            rules: catalog.rules()?,
            pressure: catalog.pressure()?,
            last_run: catalog.last_run()?,
            interrupted: catalog.interrupted_steps()?,
            forwarded: catalog.forwarded()?,
        })
    }
}

/// The steps that change the live files. Cheap to clone.
#[derive(Clone)]
pub struct LifecycleSteps {
    pub(crate) queue: CommitQueue,
}

impl LifecycleSteps {
    fn run<T: Send + 'static>(
        &self,
        step: impl FnOnce(&mut Committer) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        let (answer, answered) = std::sync::mpsc::sync_channel(1);
        let step = Box::new(move |committer: &mut Committer| drop(answer.send(step(committer))));
        self.queue.step(step).map_err(|_| StoreError::Closed)?;
        answered.recv().unwrap_or(Err(StoreError::Closed))
    }

    /// Creates `table` unless it exists or was dropped. Returns whether it was created.
    pub fn create_table(&self, table: &DayTable) -> Result<bool, StoreError> {
        let table = table.clone();
        self.run(move |committer| committer.create_table(&table))
    }

    /// Drops `table`. When this returns, no reader sees it. Refused if the table requires an archive and no archive of
    /// all its rows was read back.
    pub fn drop_table(&self, table: &DayTable) -> Result<(), StoreError> {
        let table = table.clone();
        self.run(move |committer| committer.drop_table(&table, Permit::Proven))
    }

    /// Drops `table`, archived or not, because the user explicitly asked for it.
    pub fn drop_without_archive(&self, table: &DayTable) -> Result<(), StoreError> {
        let table = table.clone();
        self.run(move |committer| committer.drop_table(&table, Permit::WithoutArchive))
    }

    /// Notes that a long step begins. Until it has ended, a start of the daemon counts it as interrupted.
    pub fn begin_attempt(&self, table: &DayTable, step: &'static str) -> Result<(), StoreError> {
        let table = table.clone();
        self.run(move |committer| committer.catalog().begin_attempt(&table, step, time::now()))
    }

    /// Notes that a long step ended, well or with an error.
    pub fn end_attempt(&self, table: &DayTable, step: &'static str) -> Result<(), StoreError> {
        let table = table.clone();
        self.run(move |committer| committer.catalog().end_attempt(&table, step))
    }

    /// Closes the open file of `table`, and returns what has to be sealed.
    pub fn begin_seal(&self, table: &DayTable) -> Result<SealTarget, StoreError> {
        let table = table.clone();
        self.run(move |committer| committer.begin_seal(&table, false))
    }

    /// Reserves the next sealed file of a day that may be sealed already.
    pub fn begin_seal_again(&self, table: &DayTable) -> Result<SealTarget, StoreError> {
        let table = table.clone();
        self.run(move |committer| committer.begin_seal(&table, true))
    }

    /// The committed sequence.
    pub fn committed(&self) -> Result<Committed, StoreError> {
        self.run(|committer| committer.catalog().committed())
    }

    /// Which folder this is.
    pub fn origin(&self) -> Result<FolderOrigin, StoreError> {
        self.run(|committer| Ok(committer.catalog().forward_state()?.origin))
    }

    /// Makes the sealed file live. It must be complete and synced at its path.
    pub fn end_seal(&self, sealing: &SealTarget, seal: &Seal) -> Result<(), StoreError> {
        let (sealing, seal) = (sealing.clone(), seal.clone());
        self.run(move |committer| committer.end_seal(&sealing, &seal))
    }

    /// Leaves a day in its pages, and removes the sealed file of it.
    pub fn keep_open(&self, sealing: &SealTarget) -> Result<(), StoreError> {
        let sealing = sealing.clone();
        self.run(move |committer| committer.keep_open(&sealing))
    }

    /// Removes an unfinished file that is not live.
    pub fn abandon(&self, output: &str) -> Result<(), StoreError> {
        let output = output.to_owned();
        self.run(move |committer| committer.abandon(&output))
    }

    /// Records an archive that was read back.
    pub fn put_archive(&self, archived: Archived) -> Result<(), StoreError> {
        self.run(move |committer| committer.put_archive(&archived))
    }

    /// Removes the record of an archive that was deleted.
    pub fn forget_archive(&self, archived: &Archived) -> Result<(), StoreError> {
        let Archived { table, generation, url, .. } = archived.clone();
        self.run(move |committer| committer.catalog().forget_archive(&table, generation, &url))
    }

    /// Reserves the file for restoring `origin` as `table`.
    pub fn begin_restore(&self, table: &DayTable, origin: &DayTable) -> Result<RestoreTarget, StoreError> {
        let (table, origin) = (table.clone(), origin.clone());
        self.run(move |committer| committer.begin_restore(&table, &origin))
    }

    /// Makes the restored file live. It must be complete and synced at its path.
    pub fn end_restore(&self, restoring: &RestoreTarget, seal: &Seal, expires: Ticks) -> Result<(), StoreError> {
        let (restoring, seal) = (restoring.clone(), seal.clone());
        self.run(move |committer| committer.end_restore(&restoring, &seal, expires))
    }

    /// Extends the life of a restored table to `expires`, unless it already ends later.
    pub fn extend_restore(&self, table: &DayTable, expires: Ticks) -> Result<(), StoreError> {
        let table = table.clone();
        self.run(move |committer| committer.catalog().extend_restore(&table, expires))
    }

    /// The input of a plan.
    pub fn lifecycle_state(&self) -> Result<LifecycleState, StoreError> {
        self.run(|committer| LifecycleState::of(committer.catalog()))
    }

    /// Records the rules of this daemon.
    pub fn set_rules(&self, rules: Vec<Rule>) -> Result<(), StoreError> {
        self.run(move |committer| committer.catalog().set_rules(&rules))
    }

    /// Records the size limit of the folder, and since when it applies.
    pub fn set_pressure(&self, pressure: Option<(u64, Ticks)>) -> Result<(), StoreError> {
        self.run(move |committer| committer.catalog().set_pressure(pressure))
    }

    /// Adds `more` to the watched time.
    pub fn note_watch(&self, more: Duration) -> Result<(), StoreError> {
        self.run(move |committer| committer.catalog().note_watch(more))
    }

    /// Records a finished run of the lifecycle, and removes sources that ended before `forget_before`.
    pub fn record_run(&self, at: Ticks, forget_before: Ticks) -> Result<(), StoreError> {
        self.run(move |committer| committer.record_run(at, forget_before))
    }
}
