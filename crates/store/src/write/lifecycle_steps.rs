//! The steps of the lifecycle. The committer runs each between two commits.
//!
//! A repeated step changes nothing, or fails with the reason. Long work (sealing a day, copying it) runs between two
//! steps, on the caller's thread. Commits and readers never wait for it.

use crate::StoreError;
use crate::format::catalog::{Archived, Committed, Permit, Rule, Seal};
use crate::forward::position::FolderOrigin;
use crate::write::commit::{CommitQueue, CommitStep, RestoreTarget, SealTarget};
use crate::write::lifecycle_state::LifecycleState;
use daytable_model::key::DayTable;
use daytable_model::time::Ticks;
use std::time::Duration;

/// The steps that change the live files. Cheap to clone.
#[derive(Clone)]
pub struct LifecycleSteps {
    pub(crate) queue: CommitQueue,
}

impl LifecycleSteps {
    /// Creates `table` unless it exists or was dropped. Returns whether it was created.
    pub fn create_table(&self, table: &DayTable) -> Result<bool, StoreError> {
        self.queue.take(|answer| CommitStep::CreateTable(table.clone(), answer))
    }

    /// Drops `table`. When this returns, no reader sees it. Refused if the table requires an archive and no archive of
    /// all its rows was read back.
    pub fn drop_table(&self, table: &DayTable) -> Result<(), StoreError> {
        self.queue.take(|answer| CommitStep::DropTable(table.clone(), Permit::Proven, answer))
    }

    /// Drops `table`, archived or not, because the user explicitly asked for it.
    pub fn drop_without_archive(&self, table: &DayTable) -> Result<(), StoreError> {
        self.queue.take(|answer| CommitStep::DropTable(table.clone(), Permit::WithoutArchive, answer))
    }

    /// Notes that a long step begins. Until it has ended, a start of the daemon counts it as interrupted.
    pub fn begin_attempt(&self, table: &DayTable, step: &'static str) -> Result<(), StoreError> {
        self.queue.take(|answer| CommitStep::BeginAttempt(table.clone(), step, answer))
    }

    /// Notes that a long step ended, well or with an error.
    pub fn end_attempt(&self, table: &DayTable, step: &'static str) -> Result<(), StoreError> {
        self.queue.take(|answer| CommitStep::EndAttempt(table.clone(), step, answer))
    }

    /// Closes the open file of `table`, and returns what has to be sealed.
    pub fn begin_seal(&self, table: &DayTable) -> Result<SealTarget, StoreError> {
        self.queue.take(|answer| CommitStep::BeginSeal(table.clone(), false, answer))
    }

    /// Reserves the next sealed file of a day that may be sealed already.
    pub fn begin_seal_again(&self, table: &DayTable) -> Result<SealTarget, StoreError> {
        self.queue.take(|answer| CommitStep::BeginSeal(table.clone(), true, answer))
    }

    /// The committed sequence.
    pub fn committed(&self) -> Result<Committed, StoreError> {
        self.queue.take(CommitStep::Committed)
    }

    /// Which folder this is.
    pub fn origin(&self) -> Result<FolderOrigin, StoreError> {
        self.queue.take(CommitStep::Origin)
    }

    /// Makes the sealed file live. It must be complete and synced at its path.
    pub fn end_seal(&self, sealing: &SealTarget, seal: &Seal) -> Result<(), StoreError> {
        self.queue.take(|answer| CommitStep::EndSeal(sealing.clone(), seal.clone(), answer))
    }

    /// Leaves a day in its pages, and removes the sealed file of it.
    pub fn keep_open(&self, sealing: &SealTarget) -> Result<(), StoreError> {
        self.queue.take(|answer| CommitStep::KeepOpen(sealing.clone(), answer))
    }

    /// Removes an unfinished file that is not live.
    pub fn abandon(&self, output: &str) -> Result<(), StoreError> {
        self.queue.take(|answer| CommitStep::Abandon(output.to_owned(), answer))
    }

    /// Records an archive that was read back.
    pub fn put_archive(&self, archived: Archived) -> Result<(), StoreError> {
        self.queue.take(|answer| CommitStep::PutArchive(archived, answer))
    }

    /// Removes the record of an archive that was deleted.
    pub fn forget_archive(&self, archived: &Archived) -> Result<(), StoreError> {
        self.queue.take(|answer| CommitStep::ForgetArchive(archived.clone(), answer))
    }

    /// Reserves the file for restoring `origin` as `table`.
    pub fn begin_restore(&self, table: &DayTable, origin: &DayTable) -> Result<RestoreTarget, StoreError> {
        self.queue.take(|answer| CommitStep::BeginRestore(table.clone(), origin.clone(), answer))
    }

    /// Makes the restored file live. It must be complete and synced at its path.
    pub fn end_restore(&self, restoring: &RestoreTarget, seal: &Seal, expires: Ticks) -> Result<(), StoreError> {
        self.queue.take(|answer| CommitStep::EndRestore(restoring.clone(), seal.clone(), expires, answer))
    }

    /// Extends the life of a restored table to `expires`, unless it already ends later.
    pub fn extend_restore(&self, table: &DayTable, expires: Ticks) -> Result<(), StoreError> {
        self.queue.take(|answer| CommitStep::ExtendRestore(table.clone(), expires, answer))
    }

    /// The input of a plan.
    pub fn lifecycle_state(&self) -> Result<LifecycleState, StoreError> {
        self.queue.take(CommitStep::LifecycleState)
    }

    /// Records the rules of this daemon.
    pub fn set_rules(&self, rules: Vec<Rule>) -> Result<(), StoreError> {
        self.queue.take(|answer| CommitStep::SetRules(rules, answer))
    }

    /// Records the size limit of the folder, and since when it applies.
    pub fn set_pressure(&self, pressure: Option<(u64, Ticks)>) -> Result<(), StoreError> {
        self.queue.take(|answer| CommitStep::SetPressure(pressure, answer))
    }

    /// Adds `more` to the watched time.
    pub fn note_watch(&self, more: Duration) -> Result<(), StoreError> {
        self.queue.take(|answer| CommitStep::NoteWatch(more, answer))
    }

    /// Records a finished run of the lifecycle, and removes sources that ended before `forget_before`.
    pub fn record_run(&self, at: Ticks, forget_before: Ticks) -> Result<(), StoreError> {
        self.queue.take(|answer| CommitStep::RecordRun(at, forget_before, answer))
    }
}
