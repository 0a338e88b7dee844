//! The steps that the committer takes between two commits: requests of the lifecycle, of a sender, and of forwarding.
//!
//! A step is data: what is wanted, and where its result goes. So whoever queues a step cannot reach into the committer,
//! which takes it (`take_step`).

use super::lifecycle::{RestoreTarget, SealTarget};
use crate::StoreError;
use crate::format::catalog::hosts::{HostNote, Invitation, JoinRefusal, OriginBinding, SecretHash};
use crate::format::catalog::table_bounds::TableBounds;
use crate::format::catalog::{Archived, Committed, Permit, Rule, Seal};
use crate::forward::position::{FolderOrigin, ForwardPosition};
use crate::outbox::OutboxRemoval;
use crate::write::lifecycle_state::LifecycleState;
use crate::write::queue::{Ack, WorkQueue};
use daytable_model::batch::Batch;
use daytable_model::key::DayTable;
use daytable_model::time::Ticks;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

/// Where the result of a step goes. Its receiver may have stopped waiting.
pub struct StepAnswer<T>(Box<dyn FnOnce(Result<T, StoreError>) + Send>);

impl<T> StepAnswer<T> {
    /// Hands the result to `callback`, on the thread of the committer.
    pub(crate) fn to(callback: impl FnOnce(Result<T, StoreError>) + Send + 'static) -> StepAnswer<T> {
        StepAnswer(Box::new(callback))
    }

    pub(super) fn give(self, result: Result<T, StoreError>) {
        (self.0)(result);
    }
}

/// One step. [`CommitStep::waits_for_rows`] says whether the waiting rows are committed first.
pub enum CommitStep {
    CreateTable(DayTable, StepAnswer<bool>),
    DropTable(DayTable, Permit, StepAnswer<()>),
    BeginAttempt(DayTable, &'static str, StepAnswer<()>),
    EndAttempt(DayTable, &'static str, StepAnswer<()>),
    /// Seals a day that may be sealed already, if the flag is set.
    BeginSeal(DayTable, bool, StepAnswer<SealTarget>),
    EndSeal(SealTarget, Seal, StepAnswer<()>),
    KeepOpen(SealTarget, StepAnswer<()>),
    Abandon(String, StepAnswer<()>),
    Committed(StepAnswer<Committed>),
    Origin(StepAnswer<FolderOrigin>),
    PutArchive(Archived, StepAnswer<()>),
    ForgetArchive(Archived, StepAnswer<()>),
    /// The table to restore, and the day-table of its archive.
    BeginRestore(DayTable, DayTable, StepAnswer<RestoreTarget>),
    EndRestore(RestoreTarget, Seal, Ticks, StepAnswer<()>),
    ExtendRestore(DayTable, Ticks, StepAnswer<()>),
    LifecycleState(StepAnswer<LifecycleState>),
    SetRules(Vec<Rule>, StepAnswer<()>),
    SetPressure(Option<(u64, Ticks)>, StepAnswer<()>),
    NoteWatch(Duration, StepAnswer<()>),
    RecordRun(Ticks, Ticks, StepAnswer<()>),

    /// Removes pages that were sent.
    RemoveSent(Vec<OutboxRemoval>, StepAnswer<()>),
    /// Commits rows that the remote store refused.
    KeepRefused(Vec<Batch>, Ack),

    SetForwardTargets(Vec<String>, StepAnswer<()>),
    NoteForwarded(String, ForwardPosition, StepAnswer<()>),
    RenewOrigin(StepAnswer<FolderOrigin>),
    Invite(Invitation, StepAnswer<()>),
    /// The code, the name that the host wants, and its credential.
    Join(SecretHash, Option<String>, SecretHash, StepAnswer<Result<String, JoinRefusal>>),
    /// The credential, its origin, and whether that one may get the name of the credential in place of another.
    BindOrigin(SecretHash, FolderOrigin, bool, StepAnswer<OriginBinding>),
    /// The credential, its origin, and the one that takes its place.
    RenewCredential(SecretHash, FolderOrigin, SecretHash, StepAnswer<bool>),
    UseSuccessor(SecretHash, FolderOrigin, StepAnswer<bool>),
    /// The name of the certificate with its tables, and its credential.
    AdmitCertificate((String, TableBounds), SecretHash, StepAnswer<Result<(), JoinRefusal>>),
    NoteHosts(Vec<HostNote>, StepAnswer<()>),
    RevokeHost(String, StepAnswer<bool>),
    ForgetHost(String, StepAnswer<bool>),

    /// Calls a test on the thread of the committer.
    #[cfg(test)]
    Call(Box<dyn FnOnce() + Send>),
}

impl CommitStep {
    /// Whether the step depends on rows that wait, so that a commit comes before it. Requests of senders and of forwarding do
    /// not.
    pub(super) fn waits_for_rows(&self) -> bool {
        use CommitStep::*;
        let is_of_outbox = matches!(self, RemoveSent(..) | KeepRefused(..));
        let is_of_hosts = matches!(
            self,
            Invite(..)
                | Join(..)
                | BindOrigin(..)
                | RenewCredential(..)
                | UseSuccessor(..)
                | AdmitCertificate(..)
                | NoteHosts(..)
                | RevokeHost(..)
                | ForgetHost(..)
        );
        let is_of_forwarding = matches!(self, SetForwardTargets(..) | NoteForwarded(..) | RenewOrigin(..));
        !(is_of_outbox || is_of_hosts || is_of_forwarding)
    }

    /// Whether the step is taken while the disk has no room: it reads the catalog, or notes there what is new.
    pub(super) fn needs_no_room(&self) -> bool {
        use CommitStep::*;
        matches!(self, LifecycleState(..) | Committed(..) | Origin(..) | SetForwardTargets(..))
    }

    /// Whether the step is of the lifecycle's thread, or of a command that does its work.
    pub(super) fn is_of_lifecycle(&self) -> bool {
        use CommitStep::*;
        matches!(
            self,
            CreateTable(..)
                | DropTable(..)
                | BeginAttempt(..)
                | EndAttempt(..)
                | BeginSeal(..)
                | BeginRestore(..)
                | ExtendRestore(..)
                | ForgetArchive(..)
                | SetRules(..)
                | SetPressure(..)
                | NoteWatch(..)
                | RecordRun(..)
        )
    }

    /// Answers a step of the lifecycle with the reason why it is not taken.
    pub(super) fn refuse(self, reason: &str) {
        use CommitStep::*;
        let error = StoreError::Refused(reason.to_owned());
        match self {
            CreateTable(_, answer) => answer.give(Err(error)),
            DropTable(_, _, answer)
            | BeginAttempt(_, _, answer)
            | EndAttempt(_, _, answer)
            | ExtendRestore(_, _, answer)
            | ForgetArchive(_, answer)
            | SetRules(_, answer)
            | SetPressure(_, answer)
            | NoteWatch(_, answer)
            | RecordRun(_, _, answer) => answer.give(Err(error)),
            BeginSeal(_, _, answer) => answer.give(Err(error)),
            BeginRestore(_, _, answer) => answer.give(Err(error)),
            // Its caller hears that the store is closing.
            other => drop(other),
        }
    }
}

/// The queue in front of the committer.
pub type CommitQueue = WorkQueue<CommitStep>;

impl CommitQueue {
    /// Queues a step, and waits for its result.
    pub(crate) fn take<T: Send + 'static>(
        &self,
        step: impl FnOnce(StepAnswer<T>) -> CommitStep,
    ) -> Result<T, StoreError> {
        let (answer, answered) = sync_channel(1);
        let answer: SyncSender<Result<T, StoreError>> = answer;
        let step = step(StepAnswer::to(move |result| drop(answer.send(result))));
        self.step(step).map_err(|_| StoreError::Closed)?;
        answered.recv().unwrap_or(Err(StoreError::Closed))
    }
}
