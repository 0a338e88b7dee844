//! The committer's part of forwarding. As a sender, it computes the checksum of each commit, and leaves the pages alone that a
//! receiver lacks. As a receiver, it accepts rows of a host only where they follow on those that it has.

use super::Committer;
use crate::StoreError;
use crate::format::catalog::LiveFile;
use crate::format::catalog::accounting::SourceReceipt;
use crate::format::catalog::hosts::{Invitation, JoinRefusal, SecretHash};
use crate::format::day_file::WrittenPages;
use crate::forward::intervals::{AdvanceResult, ReceivedCommits};
use crate::forward::position::{FolderOrigin, ForwardPosition, checksum_with};
use crate::forward::reader;
use crate::write::queue::{CommitOutcome, Submission};
use daytable_model::key::DayTable;
use daytable_model::time;

/// The pages that a commit wrote to one day: the day, the name of its file with other counts, and the pages.
type WrittenDay<T> = (DayTable, (String, i64, T), WrittenPages);

/// Where a submission goes that may be of a host.
pub(super) enum HostPlace {
    /// It is of another source.
    NoHost,
    /// It follows on what was received, and this is received with it.
    Follows(ReceivedCommits),
    /// It does not follow, and its outcome was told.
    Nowhere,
}

impl Committer {
    /// The checksum of all commits, with the one that wrote these pages: by the names of the files, and in the order of the
    /// pages, as `forward::reader` reads them.
    pub(super) fn checksum_of<T>(&self, written: &[WrittenDay<T>]) -> u64 {
        let mut files: Vec<(&str, &[u64])> =
            written.iter().map(|(_, (file, ..), pages)| (file.as_str(), pages.checksums.as_slice())).collect();
        files.sort_unstable();
        files.into_iter().flat_map(|(_, pages)| pages).fold(self.checksum, |sum, page| checksum_with(sum, *page))
    }

    /// Leaves the pages alone that a receiver lacks.
    pub(super) fn hold_for_receivers(&mut self) -> Result<(), StoreError> {
        let held = self.catalog.forwarded()?;
        self.compactor.hold_after(held.unwrap_or(i64::MAX));
        self.held = held;
        Ok(())
    }

    /// Whether a receiver lacks rows of these files.
    pub(super) fn is_held(&self, files: &[LiveFile]) -> bool {
        self.held.is_some_and(|held| files.iter().any(|file| file.last_seq > held))
    }

    /// What a drop of `day` loses because a receiver lacks it, at most: a receiver may have more than is noted here. The receipt
    /// belongs into the transaction of the drop.
    pub(super) fn unforwarded(&self, day: &DayTable, files: &[LiveFile]) -> Option<SourceReceipt> {
        let held = self.held?;
        let lacked = files.iter().filter(|file| file.last_seq > held);
        let rows: u64 = lacked.clone().map(|file| file.entities.unsigned_abs()).sum();
        if rows == 0 {
            return None;
        }
        let (records, bytes) = reader::day_after(&self.layout.data, day, held).unwrap_or_else(|error| {
            // What cannot be counted is more likely too much than too little.
            tracing::warn!(table = %day, %error, "the rows and files of a day are counted, because its records cannot be");
            let length = |file: &LiveFile| std::fs::metadata(self.layout.table_file(&file.name)).map_or(0, |file| file.len());
            (rows, lacked.map(length).sum())
        });
        let losses = vec![
            (format!("dropped before it was forwarded: {day}"), records),
            (format!("bytes of a day that was dropped before it was forwarded: {day}"), bytes),
        ];
        let losses = losses.into_iter().filter(|(_, count)| *count > 0).collect::<Vec<_>>();
        (!losses.is_empty()).then(|| SourceReceipt { losses, ..SourceReceipt::records("forward", "unforwarded", 0) })
    }

    /// Sets the receivers by their names.
    pub(crate) fn set_forward_targets(&mut self, names: &[String]) -> Result<(), StoreError> {
        self.catalog.set_forward_targets(names)?;
        self.hold_for_receivers()
    }

    /// Records how far a receiver has the commits.
    pub(crate) fn note_forwarded(&mut self, name: &str, position: ForwardPosition) -> Result<(), StoreError> {
        self.catalog.note_forwarded(name, position)?;
        self.hold_for_receivers()
    }

    /// How a submission of a host follows on what was received of it. The outcome of one that does not follow is told: a repeat of
    /// what is stored, or of what the next commit has, is committed.
    pub(super) fn place_host(&mut self, submission: &mut Submission) -> HostPlace {
        let Some(advance) = &submission.host else { return HostPlace::NoHost };
        let pending = self.pending.hosts.get(&advance.origin).map(|known| known.step);
        let current = match pending {
            Some(current) => current,
            None => match self.catalog.forwarding_host(&advance.origin) {
                Ok(Some(host)) => host.received,
                // It was forgotten since.
                Ok(None) => {
                    std::mem::take(&mut submission.ack).complete(CommitOutcome::Misplaced);
                    return HostPlace::Nowhere;
                }
                Err(error) => {
                    self.fail(&error);
                    return HostPlace::Nowhere;
                }
            },
        };
        match (current.after(advance.step), pending) {
            (AdvanceResult::Moves(received), _) => return HostPlace::Follows(received),
            (AdvanceResult::Stored, Some(_)) => self.pending.acks.push(std::mem::take(&mut submission.ack)),
            (AdvanceResult::Stored, None) => std::mem::take(&mut submission.ack).complete(CommitOutcome::Committed),
            (AdvanceResult::Elsewhere, _) => std::mem::take(&mut submission.ack).complete(CommitOutcome::Misplaced),
        }
        HostPlace::Nowhere
    }

    /// Leaves out the rows of days that are gone here. They are counted for the host that sent them. Rows of other sources go
    /// to today's table instead; a host would send its rows to another table whenever it sends them again.
    pub(super) fn leave_out_closed(&mut self, submission: &mut Submission) {
        let is_gone = |table: &DayTable| self.closed.contains(table);
        let mut records = 0;
        submission.pages.retain_mut(|page| {
            let before = submission.batches.iter().take(page.after);
            page.after = before.filter(|batch| !is_gone(&batch.table)).count();
            records += if is_gone(&page.table) { page.records() } else { 0 };
            !is_gone(&page.table)
        });
        submission.batches.retain(|batch| {
            records += if is_gone(&batch.table) { batch.records() } else { 0 };
            !is_gone(&batch.table)
        });
        if let Some(advance) = &mut submission.host {
            advance.expired += records;
            advance.records = advance.records.saturating_sub(records);
        }
        if let Some(receipt) = submission.receipts.first_mut() {
            receipt.records = receipt.records.saturating_sub(records);
            if records > 0 {
                receipt.losses.push(("expired".into(), records));
            }
        }
    }

    /// Adds an invitation.
    pub(crate) fn invite(&mut self, invitation: &Invitation) -> Result<(), StoreError> {
        self.catalog.invite(invitation, time::now())
    }

    /// Trades a code for a credential.
    pub(crate) fn join_host(
        &mut self,
        code: &SecretHash,
        name: Option<&str>,
        credential: &SecretHash,
    ) -> Result<Result<String, JoinRefusal>, StoreError> {
        let joined = self.catalog.join(code, name, credential, time::now());
        daytable_platform::failpoint!("forward-joined");
        joined
    }

    /// Makes a credential the successor of another one.
    pub(crate) fn renew_credential(
        &mut self,
        old: (&SecretHash, &FolderOrigin),
        new: &SecretHash,
    ) -> Result<bool, StoreError> {
        let renewed = self.catalog.renew_credential(old, new, time::now());
        daytable_platform::failpoint!("forward-renewed");
        renewed
    }

    /// A successor was used.
    pub(crate) fn use_successor(&mut self, credential: &SecretHash, origin: &FolderOrigin) -> Result<bool, StoreError> {
        let used = self.catalog.use_successor(credential, origin);
        daytable_platform::failpoint!("forward-successor-used");
        used
    }

    /// Gives the folder another origin.
    pub(crate) fn renew_origin(&mut self) -> Result<FolderOrigin, StoreError> {
        let origin = self.catalog.renew_origin()?;
        self.hold_for_receivers()?;
        Ok(origin)
    }
}
