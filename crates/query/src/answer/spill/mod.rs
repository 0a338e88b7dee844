//! What outgrows the memory of a question, in a temporary file: parts of groups and sorted runs, which are merged in the end.
//!
//! ```text
//! groups ──► write_groups ──► parts by the hash of their values ─────────────┐
//! values of count_uniq ─────► runs of hashes, by group and hash ────────────┴► each_merged: each group once
//! rows ────► ExternalSort ──► runs of rows, in their order ─────────────────► rows in their order
//!                                               by the hash of a key ───────► Lookup: the rows of one key
//! ```
//!
//! 1. The answer is the one that more memory would give, with its order: of rows that are equal, those of an earlier run
//!    come first.
//! 2. A group is told apart by 128 bits of a hash, as a value of `count_uniq` is. So one group with very many different
//!    values needs no more memory than many groups with few.
//! 3. Groups are merged part by part, in several threads, and a part that is too large share by share. Runs are merged with a block of each in memory, at most
//!    [`MERGED_MAX`] runs at once. More runs are merged in several rounds.
//! 4. What is written is charged to the [`ScratchSpace`] of the process. A disk that is full refuses the question.
//!
//! [`ScratchSpace`]: daytable_platform::scratch::ScratchSpace

mod cells;
mod groups;
mod lookup;
mod merged_groups;
mod part_table;
mod run;
mod sort;
mod source;
#[cfg(test)]
mod tests;

pub(super) use groups::{Group, GroupRuns};
pub(super) use lookup::{Lookup, LookupWriter};
pub(super) use merged_groups::{FirstGroups, GroupOrdering, ReadsCells, each_merged};
pub(super) use sort::{ExternalSort, SortItem};
pub(super) use source::{GroupCell, GroupCells, GroupSource};

use daytable_platform::budget::OverBudget;

/// Runs that are merged at once.
const MERGED_MAX: usize = 64;

/// Why a question with a temporary file ends early.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SpillStop {
    /// It needs too much memory, or too much room on disk.
    Over(OverBudget),
    /// Nobody waits for it any more, or its time is over.
    Stopped,
}

impl From<OverBudget> for SpillStop {
    fn from(over: OverBudget) -> SpillStop {
        SpillStop::Over(over)
    }
}
