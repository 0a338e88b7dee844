//! The steps that the committer takes between two commits: requests of the lifecycle, of a sender, and of forwarding.
//!
//! A step is data: what is wanted, and where its result goes. Only [`CommitStep::take`] meets the committer, so whoever
//! queues a step cannot reach into it.

use super::{Committer, RestoreTarget, SealTarget};
use crate::StoreError;
use crate::format::catalog::accounting::SourceReceipt;
use crate::format::catalog::hosts::{Invitation, JoinRefusal, SecretHash};
use crate::format::catalog::table_bounds::TableBounds;
use crate::format::catalog::{Archived, Committed, Permit, Rule, Seal};
use crate::forward::position::{FolderOrigin, ForwardPosition};
use crate::outbox::OutboxRemoval;
use crate::write::lifecycle_state::LifecycleState;
use crate::write::queue::{Ack, Submission};
use daytable_model::batch::Batch;
use daytable_model::key::DayTable;
use daytable_model::time::{self, Ticks};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::time::Duration;

/// Where the result of a step goes. Its receiver may have stopped waiting.
pub struct StepAnswer<T>(Box<dyn FnOnce(Result<T, StoreError>) + Send>);

impl<T> StepAnswer<T> {
    /// Hands the result to `callback`, on the thread of the committer.
    pub(crate) fn to(callback: impl FnOnce(Result<T, StoreError>) + Send + 'static) -> StepAnswer<T> {
        StepAnswer(Box::new(callback))
    }

    fn give(self, result: Result<T, StoreError>) {
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
    BindOrigin(SecretHash, FolderOrigin, StepAnswer<bool>),
    /// The credential, its origin, and the one that takes its place.
    RenewCredential(SecretHash, FolderOrigin, SecretHash, StepAnswer<bool>),
    UseSuccessor(SecretHash, FolderOrigin, StepAnswer<bool>),
    /// The name of the certificate with its tables, and its credential.
    AdmitCertificate((String, TableBounds), SecretHash, StepAnswer<Result<(), JoinRefusal>>),
    NoteReport(FolderOrigin, String, StepAnswer<()>),
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
                | NoteReport(..)
                | RevokeHost(..)
                | ForgetHost(..)
        );
        let is_of_forwarding = matches!(self, SetForwardTargets(..) | NoteForwarded(..) | RenewOrigin(..));
        !(is_of_outbox || is_of_hosts || is_of_forwarding)
    }

    /// Takes the step, and gives its result.
    pub(super) fn take(self, to: &mut Committer) {
        use CommitStep::*;
        match self {
            CreateTable(table, answer) => answer.give(to.create_table(&table)),
            DropTable(table, permit, answer) => answer.give(to.drop_table(&table, permit)),
            BeginAttempt(table, step, answer) => answer.give(to.catalog.begin_attempt(&table, step, time::now())),
            EndAttempt(table, step, answer) => answer.give(to.catalog.end_attempt(&table, step)),
            BeginSeal(table, again, answer) => answer.give(to.begin_seal(&table, again)),
            EndSeal(target, seal, answer) => answer.give(to.end_seal(&target, &seal)),
            KeepOpen(target, answer) => answer.give(to.keep_open(&target)),
            Abandon(output, answer) => answer.give(to.abandon(&output)),
            Committed(answer) => answer.give(to.catalog.committed()),
            Origin(answer) => answer.give(to.catalog.forward_state().map(|state| state.origin)),
            PutArchive(archived, answer) => answer.give(to.put_archive(&archived)),
            ForgetArchive(Archived { table, generation, url, .. }, answer) => {
                answer.give(to.catalog.forget_archive(&table, generation, &url));
            }
            BeginRestore(table, origin, answer) => answer.give(to.begin_restore(&table, &origin)),
            EndRestore(target, seal, expires, answer) => answer.give(to.end_restore(&target, &seal, expires)),
            ExtendRestore(table, expires, answer) => answer.give(to.catalog.extend_restore(&table, expires)),
            LifecycleState(answer) => answer.give(crate::write::lifecycle_state::LifecycleState::of(&to.catalog)),
            SetRules(rules, answer) => answer.give(to.catalog.set_rules(&rules)),
            SetPressure(pressure, answer) => answer.give(to.catalog.set_pressure(pressure)),
            NoteWatch(more, answer) => answer.give(to.catalog.note_watch(more)),
            RecordRun(at, forget_before, answer) => answer.give(to.record_run(at, forget_before)),

            RemoveSent(removals, answer) => answer.give(to.remove_sent(&removals)),
            KeepRefused(batches, ack) => {
                let records = batches.iter().map(Batch::records).sum();
                let receipts = vec![SourceReceipt::records("daytable", "dead_letters", records)];
                to.keep(Submission { batches, ack, receipts, ..Submission::default() });
            }

            SetForwardTargets(names, answer) => answer.give(to.set_forward_targets(&names)),
            NoteForwarded(name, position, answer) => answer.give(to.note_forwarded(&name, position)),
            RenewOrigin(answer) => answer.give(to.renew_origin()),
            Invite(invitation, answer) => answer.give(to.invite(&invitation)),
            Join(code, name, credential, answer) => answer.give(to.join_host(&code, name.as_deref(), &credential)),
            BindOrigin(credential, origin, answer) => {
                answer.give(to.catalog.bind_origin(&credential, &origin, time::now()));
            }
            RenewCredential(old, origin, new, answer) => answer.give(to.renew_credential((&old, &origin), &new)),
            UseSuccessor(credential, origin, answer) => answer.give(to.use_successor(&credential, &origin)),
            AdmitCertificate((name, tables), credential, answer) => {
                answer.give(to.catalog.admit_certificate((&name, &tables), &credential, time::now()));
            }
            NoteReport(origin, report, answer) => answer.give(to.catalog.note_report(&origin, &report, time::now())),
            RevokeHost(name, answer) => answer.give(to.catalog.revoke_host(&name)),
            ForgetHost(name, answer) => answer.give(to.catalog.forget_host(&name)),

            #[cfg(test)]
            Call(call) => call(),
        }
    }
}

impl super::CommitQueue {
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
