//! Items that are found by the hash of their key, in a temporary file.
//!
//! ```text
//! a run in the order of hashes, in blocks of about 4 KiB      entry  = hash, item
//! in memory, for each block: its first hash, and where it is
//! ```
//!
//! A lookup reads the blocks that can have the hash, mostly one.

use super::SpillStop;
use super::run::{ChargedBytes, LARGE_BYTES, MEMORY_OF_ENTRY, Run, RunReader, RunWriter, damaged};
use crate::answer::answer_budget::AnswerBudget;
use crate::spilled::{Spilled, SpilledBytes};
use std::marker::PhantomData;
use std::ops::ControlFlow;

/// Bytes after which a block is written.
const BLOCK_BYTES: usize = 4 << 10;
/// The memory of a block's first hash and place.
const PLACE_BYTES: usize = size_of::<(u64, u64, usize)>();

/// Writes items in the order of their hashes.
pub(in crate::answer) struct LookupWriter<T> {
    writer: RunWriter,
    firsts: Vec<u64>,
    held: ChargedBytes,
    budget: AnswerBudget,
    items: PhantomData<T>,
}

impl<T: Spilled> LookupWriter<T> {
    pub(in crate::answer) fn new(budget: &AnswerBudget) -> Result<LookupWriter<T>, SpillStop> {
        Ok(LookupWriter {
            writer: RunWriter::with_blocks(budget.spill(), BLOCK_BYTES)?,
            firsts: Vec::new(),
            held: ChargedBytes::new(budget),
            budget: budget.clone(),
            items: PhantomData,
        })
    }

    /// Adds an item, whose hash is not less than the one before.
    pub(in crate::answer) fn push(&mut self, hash: u64, item: &T) -> Result<(), SpillStop> {
        if self.writer.is_at_block() {
            self.held.add(PLACE_BYTES, "places of rows")?;
            self.firsts.push(hash);
        }
        self.writer.push(|to| {
            to.extend_from_slice(&hash.to_le_bytes());
            item.write(to);
        })?;
        Ok(())
    }

    pub(in crate::answer) fn finish(self) -> Result<Lookup<T>, SpillStop> {
        let LookupWriter { writer, firsts, held, budget, .. } = self;
        Ok(Lookup { run: writer.finish()?, firsts, budget, _held: held, items: PhantomData })
    }
}

/// Items by their hashes.
pub(in crate::answer) struct Lookup<T> {
    run: Run,
    /// The first hash of each block.
    firsts: Vec<u64>,
    budget: AnswerBudget,
    _held: ChargedBytes,
    items: PhantomData<T>,
}

impl<T: Spilled> Lookup<T> {
    /// Passes on the items with a hash, in the order in which they were written, until `each` breaks.
    pub(in crate::answer) fn each(
        &self,
        hash: u64,
        each: &mut dyn FnMut(T) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, SpillStop> {
        // The block in front of the first one that begins with the hash may end with it.
        let from = self.firsts.partition_point(|first| *first < hash).saturating_sub(1);
        let to = self.firsts.partition_point(|first| *first <= hash);
        let mut reader = RunReader::new(self.budget.spill(), self.run.part(from..to))?;
        let mut held = ChargedBytes::new(&self.budget);
        while let Some(entry) = reader.next()? {
            let (found, bytes) = entry.split_first_chunk().ok_or_else(damaged)?;
            if u64::from_le_bytes(*found) != hash {
                continue;
            }
            held.clear();
            if bytes.len() > LARGE_BYTES {
                held.add(MEMORY_OF_ENTRY * bytes.len(), "rows")?;
            }
            if each(T::read(&mut SpilledBytes::new(bytes)).ok_or_else(damaged)?).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}
