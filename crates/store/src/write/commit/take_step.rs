//! How the committer takes a [`CommitStep`].

use super::{CommitStep, Committer};
use crate::format::catalog::Archived;
use crate::format::catalog::accounting::SourceReceipt;
use crate::write::lifecycle_state;
use crate::write::queue::Submission;
use daytable_model::batch::Batch;
use daytable_model::time;

impl Committer {
    /// Takes the step, and gives its result.
    pub(super) fn take(&mut self, step: CommitStep) {
        use CommitStep::*;
        match step {
            CreateTable(table, answer) => answer.give(self.create_table(&table)),
            DropTable(table, permit, answer) => answer.give(self.drop_table(&table, permit)),
            BeginAttempt(table, step, answer) => answer.give(self.catalog.begin_attempt(&table, step, time::now())),
            EndAttempt(table, step, answer) => answer.give(self.catalog.end_attempt(&table, step)),
            BeginSeal(table, again, answer) => answer.give(self.begin_seal(&table, again)),
            EndSeal(target, seal, answer) => answer.give(self.end_seal(&target, &seal)),
            KeepOpen(target, answer) => answer.give(self.keep_open(&target)),
            Abandon(output, answer) => answer.give(self.abandon(&output)),
            Committed(answer) => answer.give(self.catalog.committed()),
            Origin(answer) => answer.give(self.catalog.forward_state().map(|state| state.origin)),
            PutArchive(archived, answer) => answer.give(self.put_archive(&archived)),
            ForgetArchive(Archived { table, generation, url, .. }, answer) => {
                answer.give(self.catalog.forget_archive(&table, generation, &url));
            }
            BeginRestore(table, origin, answer) => answer.give(self.begin_restore(&table, &origin)),
            EndRestore(target, seal, expires, answer) => answer.give(self.end_restore(&target, &seal, expires)),
            ExtendRestore(table, expires, answer) => answer.give(self.catalog.extend_restore(&table, expires)),
            LifecycleState(answer) => answer.give(lifecycle_state::LifecycleState::of(&self.catalog)),
            SetRules(rules, answer) => answer.give(self.catalog.set_rules(&rules)),
            SetPressure(pressure, answer) => answer.give(self.catalog.set_pressure(pressure)),
            NoteWatch(more, answer) => answer.give(self.catalog.note_watch(more)),
            RecordRun(at, forget_before, answer) => answer.give(self.record_run(at, forget_before)),

            RemoveSent(removals, answer) => answer.give(self.remove_sent(&removals)),
            KeepRefused(batches, ack) => {
                let records = batches.iter().map(Batch::records).sum();
                let receipts = vec![SourceReceipt::records("daytable", "dead_letters", records)];
                self.keep(Submission { batches, ack, receipts, ..Submission::default() });
            }

            SetForwardTargets(names, answer) => answer.give(self.set_forward_targets(&names)),
            NoteForwarded(name, position, answer) => answer.give(self.note_forwarded(&name, position)),
            RenewOrigin(answer) => answer.give(self.renew_origin()),
            Invite(invitation, answer) => answer.give(self.invite(&invitation)),
            Join(code, name, credential, answer) => answer.give(self.join_host(&code, name.as_deref(), &credential)),
            BindOrigin(credential, origin, may_rename, answer) => {
                answer.give(self.catalog.bind_origin(&credential, &origin, may_rename, time::now()));
            }
            RenewCredential(old, origin, new, answer) => answer.give(self.renew_credential((&old, &origin), &new)),
            UseSuccessor(credential, origin, answer) => answer.give(self.use_successor(&credential, &origin)),
            AdmitCertificate((name, tables), credential, answer) => {
                answer.give(self.catalog.admit_certificate((&name, &tables), &credential, time::now()));
            }
            NoteHosts(notes, answer) => answer.give(self.catalog.note_hosts(&notes)),
            RevokeHost(name, answer) => answer.give(self.catalog.revoke_host(&name)),
            ForgetHost(name, answer) => answer.give(self.catalog.forget_host(&name)),

            #[cfg(test)]
            Call(call) => call(),
        }
    }
}
