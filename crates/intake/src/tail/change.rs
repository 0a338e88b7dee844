//! Replaces the blocks while the tail thread runs.
//!
//! Rows that were read are submitted first, so that the position of each file is after its last record. Then each file
//! gets the block that includes it now. Its descriptor stays open, so no line of a removed or renamed file is lost.
//! Reading continues at the position, with the new options. A record that still waited for more lines is read again
//! from its first line. So no record is stored twice, and the change does not wait for a commit.

use super::blocks::{BlockChange, PreparedTail, TailBlocks};
use super::discovery::Discovery;
use super::follower::TailFollower;
use daytable_model::path_text::PathText;
use daytable_store::SubmitError;
use std::time::Instant;

impl TailFollower {
    /// Follows other blocks from now on.
    pub(super) fn change(&mut self, change: BlockChange) {
        match self.submit() {
            Ok(()) => {}
            // The rows are not committed: they are read again, with the new options.
            Err(SubmitError::Stale) => self.rewind(),
            Err(SubmitError::Closed) => return,
        }
        let BlockChange { prepared: PreparedTail { blocks, patterns }, counters, done } = change;
        let sources = self.submissions.committed_sources();
        let blocks = TailBlocks::new(blocks, counters, |block| {
            !self.blocks.contains(&block.name) && !sources.iter().any(|state| state.block == block.name)
        });
        self.is_first_discovery = true;
        self.ignored.clear();
        self.discovery = Discovery::new(patterns, blocks.want_events().then_some(&self.wakeup));
        self.files.set_open_max(blocks.open_files_max());
        let before = std::mem::replace(&mut self.blocks, blocks);

        let now = Instant::now();
        for identity in self.files.identities() {
            let Some(file) = self.files.file_mut(identity) else { continue };
            // The block may have another way to notice changes.
            self.watches.wake(file);
            if let Some(block) = self.blocks.of_source(file.state(), &self.discovery) {
                let is_same = before.is_same_in(file.block, &self.blocks, block);
                file.block = block;
                if !is_same {
                    let state = file.reader.state.clone();
                    file.read_from(Some(state), now);
                }
            } else if let Some(file) = self.files.remove(identity) {
                let path = file.path.escaped();
                tracing::info!(%path, "no block includes this file any longer, its position is kept");
                self.sources.put(file.reader.state);
            }
        }
        self.resume_all();
        // The receiver may no longer exist.
        let _ = done.send(());
    }
}
