//! The committer while its folder cannot be opened, as on a full disk after a failed commit or a kill.
//!
//! Rows and most steps wait. A folder that was checked and only lacks room ([`Opened::NoRoom`](super::Opened)) accepts
//! drops, which make room: they change the catalog and unlink files, and write to no day. Other steps of the lifecycle
//! fail instead of waiting, so that its thread comes to the drops.

use super::{CommitStep, Committer};
use crate::StoreError;
use crate::format::catalog::Permit;
use crate::format::day_file::DayFile;
use crate::source::SourceState;
use crate::write::recovery::FullFolder;
use daytable_model::key::DayTable;
use std::time::{Duration, Instant};

impl Committer {
    /// Keeps the catalog of a folder that waits for room, and returns why it waits.
    pub(super) fn adopt_full(&mut self, full: FullFolder) -> Result<Vec<SourceState>, StoreError> {
        self.catalog = full.catalog;
        self.wait_with(full.days);
        self.unfinished = self.unfinished.max(full.unfinished);
        self.seq = self.catalog.committed()?.seq;
        self.closed = self.catalog.closed()?.into_iter().collect();
        self.hold_for_receivers()?;
        // A dropped day may have files there, of a process that was killed.
        self.checkpoints.sweep(self.layout.trash());
        Err(full.error)
    }

    /// Keeps the files of a folder that waits to be opened again, in place of earlier ones. SQLite frees the shared memory of a
    /// journal with the last connection, and a full disk may have no room to make it anew: nothing could be read then.
    pub(super) fn wait_with(&mut self, files: impl IntoIterator<Item = (DayTable, DayFile)>) {
        // Closing them would move their journals, for which there may be no room.
        let files = files.into_iter().inspect(|(_, file)| file.keep_journal());
        self.waiting = files.filter(|(_, file)| !file.is_locked()).collect();
    }

    /// Takes steps for some time, until the next attempt to open the folder.
    pub(super) fn take_without_room(&mut self, reason: &StoreError, lacks_room: bool, time: Duration) {
        let until = Instant::now() + time;
        let wanted = |step: &CommitStep| match lacks_room {
            true => step.needs_no_room() || step.is_of_lifecycle(),
            // A drop would change a folder that may be another one.
            false => matches!(step, CommitStep::DropTable(..)),
        };
        // If the queue is closed, the next attempt is the last.
        while let Some(step) = self.queue.next_step(until.saturating_duration_since(Instant::now()), wanted) {
            match step {
                CommitStep::DropTable(table, permit, answer) if lacks_room => {
                    answer.give(self.drop_without_room(&table, permit));
                }
                step if step.needs_no_room() => self.take(step),
                step => step.refuse(&format!("the store cannot write now: {reason}")),
            }
        }
    }

    fn drop_without_room(&mut self, day: &DayTable, permit: Permit) -> Result<(), StoreError> {
        // An open file would keep its room.
        self.waiting.retain(|(waiting, _)| waiting != day);
        match self.drop_table(day, permit) {
            // The catalog does not name the day any more. The next opening removes what is left of its files.
            Err(StoreError::Full(_)) if self.catalog.files_of(day)?.is_empty() => Ok(()),
            dropped => dropped,
        }
    }

    /// Ends without an open folder. The next opening removes the remains of the commit that failed.
    pub(super) fn close_unopened(mut self) -> Result<(), StoreError> {
        self.checkpoints.stop();
        match self.catalog.close() {
            Err(error @ StoreError::Full(_)) => {
                tracing::warn!(%error, "the catalog keeps its journal");
                Ok(())
            }
            closed => closed,
        }
    }
}
