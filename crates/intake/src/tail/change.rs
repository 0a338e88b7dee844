//! Other blocks, while the tailer runs.
//!
//! What was read is handed over first, so a position stands behind each file's last record. Then the blocks change places,
//! and every file goes to the block that follows it now: its descriptor stays open, so nothing is lost of a file that
//! was removed or moved away meanwhile, and reading goes on where it was, by the new rules. A record that was still open for
//! more lines is read again from its start. So nothing is there twice, and nobody waits for a commit.

use super::discover::Discovery;
use super::follower::{Follower, is_tailed};
use super::options::TailOptions;
use super::path_patterns::PathPatterns;
use crate::counters::SourceCounters;
use crate::tail::WatchMode;
use daytable_model::path_text::PathText;
use daytable_store::SubmitError;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Instant;

/// Blocks with their patterns compiled.
pub struct PreparedTail {
    pub(super) blocks: Vec<TailOptions>,
    pub(super) patterns: Vec<PathPatterns>,
}

impl PreparedTail {
    /// Compiles the patterns. An error where one is invalid.
    pub(super) fn new(blocks: Vec<TailOptions>) -> io::Result<PreparedTail> {
        let patterns = blocks.iter().map(PathPatterns::new).collect::<Result<Vec<_>, _>>();
        let patterns = patterns.map_err(|error| io::Error::new(io::ErrorKind::InvalidInput, error))?;
        Ok(PreparedTail { blocks, patterns })
    }
}

/// Blocks that are to be followed instead.
pub(super) struct Change {
    pub(super) prepared: PreparedTail,
    /// The counters of these blocks, in their order.
    pub(super) counters: Vec<Arc<SourceCounters>>,
    /// Dropped, or told, once it is done.
    pub(super) done: Sender<()>,
}

impl Follower {
    /// Follows other blocks from now on.
    pub(super) fn change(&mut self, change: Change) {
        match self.submit() {
            Ok(()) => {}
            // What was read is not committed: it is read again, by the new rules.
            Err(SubmitError::Stale) => self.rewind(),
            Err(SubmitError::Closed) => return,
        }
        let Change { prepared: PreparedTail { blocks, patterns }, counters, done } = change;
        let (_, sources) = self.intake.sources();
        let was_there = |block: &TailOptions| {
            self.blocks.iter().any(|before| before.name == block.name)
                || sources.iter().any(|state| is_tailed(state) && state.block == block.name)
        };
        self.is_first_run = blocks.iter().map(|block| !was_there(block)).collect();
        self.is_first_look = true;
        self.ignored.clear();
        let with_events = blocks.iter().any(|block| block.watch == WatchMode::Auto);
        self.discovery = Discovery::new(patterns, with_events.then_some(&self.wakeup));
        self.files.set_open_max(open_max(&blocks));
        let before = std::mem::replace(&mut self.blocks, blocks);
        self.counters = counters;

        let now = Instant::now();
        let mut left = Vec::new();
        for identity in self.files.identities() {
            // How it is watched may be another thing now.
            self.wake(identity);
            let Some(file) = self.files.file(identity) else { continue };
            let Some(block) = self.block_of_source(file.state()) else {
                left.push(identity);
                continue;
            };
            let is_same = before.get(file.block) == self.blocks.get(block);
            let Some(file) = self.files.file_mut(identity) else { continue };
            file.block = block;
            if !is_same {
                let state = file.reader.state.clone();
                file.read_from(Some(state), now);
            }
        }
        for identity in left {
            if let Some(file) = self.files.remove(identity) {
                tracing::info!(path = %file.path.escaped(), "no block follows this file any more, it is left where it is");
                self.sources.put(file.reader.state);
            }
        }
        self.resume_all();
        // Whoever waits may have gone.
        let _ = done.send(());
    }
}

/// Descriptors held open at most: of several blocks, the largest number counts for all.
pub(super) fn open_max(blocks: &[TailOptions]) -> usize {
    blocks.iter().map(|block| block.open_files_max).max().unwrap_or(1)
}
