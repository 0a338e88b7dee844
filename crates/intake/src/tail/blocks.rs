//! The `[[tail]]` blocks that are followed: their options and counters, by the number of the block.

use super::discovery::Discovery;
use super::options::{TailOptions, WatchMode};
use super::path_patterns::PathPatterns;
use crate::counters::SourceCounters;
use crate::source::ReadFrom;
use daytable_store::SourceState;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::Sender;

/// Blocks with their patterns compiled.
pub struct PreparedTail {
    pub(super) blocks: Vec<TailOptions>,
    pub(super) patterns: Vec<PathPatterns>,
}

impl PreparedTail {
    /// Compiles the patterns. Fails if a pattern is invalid.
    pub(super) fn new(blocks: Vec<TailOptions>) -> io::Result<PreparedTail> {
        let patterns = blocks.iter().map(PathPatterns::new).collect::<io::Result<_>>()?;
        Ok(PreparedTail { blocks, patterns })
    }
}

/// Blocks that replace the present ones.
pub(super) struct BlockChange {
    pub(super) prepared: PreparedTail,
    /// The counters of these blocks, in their order.
    pub(super) counters: Vec<Arc<SourceCounters>>,
    /// Gets a message, or is dropped, when the change is complete.
    pub(super) done: Sender<()>,
}

/// All blocks, in the order of the configuration.
pub(super) struct TailBlocks(Vec<TailBlock>);

struct TailBlock {
    options: TailOptions,
    counters: Arc<SourceCounters>,
    /// Whether no earlier run had a source in the block.
    is_new: bool,
}

impl TailBlocks {
    /// Blocks with their counters, in the same order. `is_new` says whether a block had no source in an earlier run.
    pub(super) fn new(
        options: Vec<TailOptions>,
        counters: Vec<Arc<SourceCounters>>,
        is_new: impl Fn(&TailOptions) -> bool,
    ) -> TailBlocks {
        let block = |(options, counters)| TailBlock { is_new: is_new(&options), options, counters };
        TailBlocks(options.into_iter().zip(counters).map(block).collect())
    }

    pub(super) fn options(&self, block: usize) -> &TailOptions {
        &self.0[block].options
    }

    pub(super) fn counters(&self, block: usize) -> &SourceCounters {
        &self.0[block].counters
    }

    /// The counters of all blocks.
    pub(super) fn all_counters(&self) -> impl Iterator<Item = &SourceCounters> {
        self.0.iter().map(|block| &*block.counters)
    }

    /// Whether a block of this name is among them.
    pub(super) fn contains(&self, name: &str) -> bool {
        self.0.iter().any(|block| block.options.name == name)
    }

    /// Whether `block` has the same options in `other`.
    pub(super) fn is_same_in(&self, block: usize, other: &TailBlocks, other_block: usize) -> bool {
        self.0.get(block).map(|block| &block.options) == other.0.get(other_block).map(|block| &block.options)
    }

    /// Whether files that are there at the first start are read from their end.
    pub(super) fn begins_at_end(&self, block: usize) -> bool {
        self.0[block].is_new && self.0[block].options.read_from == ReadFrom::End
    }

    /// Whether a block wants events of the file system.
    pub(super) fn want_events(&self) -> bool {
        self.0.iter().any(|block| block.options.watch == WatchMode::Auto)
    }

    /// Descriptors that may be open: of several blocks, the largest number counts for all.
    pub(super) fn open_files_max(&self) -> usize {
        self.0.iter().map(|block| block.options.open_files_max).max().unwrap_or(1)
    }

    /// The block of a source: its recorded block, if that still includes the first path of the source, else the first
    /// block that includes it. None if the configuration now excludes the path.
    pub(super) fn of_source(&self, state: &SourceState, discovery: &Discovery) -> Option<usize> {
        let named = self.0.iter().position(|block| block.options.name == state.block);
        let named = named.filter(|block| discovery.follows(*block, &state.path));
        named.or_else(|| discovery.block_of(&state.path))
    }
}
