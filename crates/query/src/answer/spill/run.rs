//! Runs: sorted entries in blocks of a temporary file, and how runs are merged.
//!
//! ```text
//! run    = blocks of about 64 KiB, anywhere in the file
//! block  = entries, none of which continues in another block
//! entry  = length (u32), bytes
//! ```

use super::{MERGED_MAX, SpillStop};
use crate::answer::answer_budget::AnswerBudget;
use crate::answer::spill_file::SpillFile;
use crate::spilled::{Spilled, SpilledBytes};
use daytable_platform::budget::OverBudget;
use daytable_platform::scratch::ScratchFile;
use std::cmp::Ordering;
use std::marker::PhantomData;
use std::ops::Range;
use std::sync::Arc;

/// Bytes after which a block is written.
const BLOCK_BYTES: usize = 64 << 10;
/// How many entries are merged before the question is asked whether it goes on.
pub(super) const ASKED_EVERY: u32 = 4096;

/// The entries of a run.
#[derive(Clone, Debug, Default)]
pub(in crate::answer) struct Run {
    /// Where its blocks are: their beginnings and lengths.
    blocks: Vec<(u64, usize)>,
    /// The bytes of its largest entry, or more.
    largest: usize,
}

impl Run {
    /// Adds the blocks of another one behind its own.
    pub(super) fn append(&mut self, mut more: Run) {
        self.blocks.append(&mut more.blocks);
        self.largest = self.largest.max(more.largest);
    }

    /// Its length.
    pub(super) fn bytes(&self) -> u64 {
        self.blocks.iter().map(|(_, length)| *length as u64).sum()
    }

    /// Some of its blocks.
    pub(super) fn part(&self, blocks: Range<usize>) -> Run {
        Run { blocks: self.blocks.get(blocks).unwrap_or_default().to_vec(), largest: self.largest }
    }
}

/// Writes a run.
pub(super) struct RunWriter {
    file: Arc<ScratchFile>,
    block: Vec<u8>,
    block_bytes: usize,
    run: Run,
}

impl RunWriter {
    pub(super) fn new(spill: &SpillFile) -> Result<RunWriter, OverBudget> {
        RunWriter::with_blocks(spill, BLOCK_BYTES)
    }

    /// Writes blocks of other sizes.
    pub(super) fn with_blocks(spill: &SpillFile, block_bytes: usize) -> Result<RunWriter, OverBudget> {
        Ok(RunWriter { file: spill.file()?, block: Vec::new(), block_bytes, run: Run::default() })
    }

    /// Whether the next entry is the first one of a block.
    pub(super) fn is_at_block(&self) -> bool {
        self.block.is_empty()
    }

    /// Adds an entry, which `write` appends.
    pub(super) fn push(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> Result<(), OverBudget> {
        let start = self.block.len();
        self.block.extend_from_slice(&[0; 4]);
        write(&mut self.block);
        // An entry is at most some megabytes: a record, or a group within the memory of a question.
        let length = u32::try_from(self.block.len() - start - 4).unwrap_or(u32::MAX);
        self.block[start..start + 4].copy_from_slice(&length.to_le_bytes());
        self.run.largest = self.run.largest.max(self.block.len() - start);
        if self.block.len() >= self.block_bytes { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), OverBudget> {
        if !self.block.is_empty() {
            self.run.blocks.push((self.file.append(&self.block)?, self.block.len()));
            self.block.clear();
            self.block.shrink_to(2 * self.block_bytes);
        }
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<Run, OverBudget> {
        self.flush()?;
        Ok(self.run)
    }
}

/// Reads the entries of a run in their order.
pub(super) struct RunReader {
    file: Arc<ScratchFile>,
    blocks: std::vec::IntoIter<(u64, usize)>,
    block: Vec<u8>,
    at: usize,
}

impl RunReader {
    pub(super) fn new(spill: &SpillFile, run: Run) -> Result<RunReader, OverBudget> {
        Ok(RunReader { file: spill.file()?, blocks: run.blocks.into_iter(), block: Vec::new(), at: 0 })
    }

    /// The bytes of the next entry; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<&[u8]>, OverBudget> {
        if self.at == self.block.len() {
            let Some((start, length)) = self.blocks.next() else { return Ok(None) };
            self.block.resize(length, 0);
            self.block.shrink_to(2 * BLOCK_BYTES);
            self.file.read(&mut self.block, start)?;
            self.at = 0;
        }
        let rest = &self.block[self.at..];
        let (length, rest) = rest.split_first_chunk().ok_or_else(damaged)?;
        let length = u32::from_le_bytes(*length) as usize;
        self.at += 4 + length;
        rest.get(..length).map(Some).ok_or_else(damaged)
    }
}

/// The file has other bytes than were written.
pub(super) fn damaged() -> OverBudget {
    OverBudget::Busy("its temporary file has other bytes than were written: the disk fails".into())
}

/// Items in their order.
pub(super) trait Sorted {
    type Item;

    /// The next item; `None` at the end.
    fn next(&mut self) -> Result<Option<Self::Item>, OverBudget>;
}

/// Bytes that are charged until this is dropped.
pub(super) struct ChargedBytes {
    budget: AnswerBudget,
    bytes: usize,
}

impl ChargedBytes {
    pub(super) fn new(budget: &AnswerBudget) -> ChargedBytes {
        ChargedBytes { budget: budget.clone(), bytes: 0 }
    }

    pub(super) fn add(&mut self, bytes: usize, kept: &str) -> Result<(), OverBudget> {
        if bytes > 0 {
            self.budget.question().charge(bytes, kept)?;
            self.bytes += bytes;
        }
        Ok(())
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(super) fn clear(&mut self) {
        if self.bytes > 0 {
            self.budget.question().release(std::mem::take(&mut self.bytes));
        }
    }
}

impl Drop for ChargedBytes {
    fn drop(&mut self) {
        self.clear();
    }
}

/// The items of a run, an entry each.
pub(super) struct ItemRun<T> {
    reader: RunReader,
    /// The memory of an item, if one is large. It is charged before the first one is passed on, so that what is too large is
    /// refused without a line.
    _held: ChargedBytes,
    items: PhantomData<T>,
}

/// Bytes of an entry, from which its memory is charged. As much of each run is always in memory.
pub(super) const LARGE_BYTES: usize = 16 << 10;
/// How much more memory an item may take than its entry.
pub(super) const MEMORY_OF_ENTRY: usize = 3;

impl<T> ItemRun<T> {
    pub(super) fn new(budget: &AnswerBudget, run: Run) -> Result<ItemRun<T>, OverBudget> {
        let mut held = ChargedBytes::new(budget);
        if run.largest > LARGE_BYTES {
            held.add(MEMORY_OF_ENTRY * run.largest, "rows")?;
        }
        Ok(ItemRun { reader: RunReader::new(budget.spill(), run)?, _held: held, items: PhantomData })
    }
}

impl<T: Spilled> Sorted for ItemRun<T> {
    type Item = T;

    fn next(&mut self) -> Result<Option<T>, OverBudget> {
        let Some(bytes) = self.reader.next()? else { return Ok(None) };
        T::read(&mut SpilledBytes::new(bytes)).map(Some).ok_or_else(damaged)
    }
}

/// Several sources as one. Of items that are equal, those of an earlier source come first.
pub(super) struct Merged<'q, S: Sorted> {
    sources: Vec<S>,
    /// A binary heap of the next item of each source.
    heads: Vec<(S::Item, usize)>,
    compare: &'q dyn Fn(&S::Item, &S::Item) -> Ordering,
    go_on: &'q dyn Fn() -> bool,
    since: u32,
}

impl<'q, S: Sorted> Merged<'q, S> {
    pub(super) fn new(
        sources: Vec<S>,
        compare: &'q dyn Fn(&S::Item, &S::Item) -> Ordering,
        go_on: &'q dyn Fn() -> bool,
    ) -> Result<Merged<'q, S>, SpillStop> {
        let mut merged = Merged { heads: Vec::with_capacity(sources.len()), sources, compare, go_on, since: 0 };
        for (at, source) in merged.sources.iter_mut().enumerate() {
            merged.heads.extend(source.next()?.map(|head| (head, at)));
        }
        for at in (0..merged.heads.len() / 2).rev() {
            merged.sift_down(at);
        }
        Ok(merged)
    }

    /// The next item; `None` at the end.
    pub(super) fn next(&mut self) -> Result<Option<S::Item>, SpillStop> {
        self.since += 1;
        if self.since.is_multiple_of(ASKED_EVERY) && !(self.go_on)() {
            return Err(SpillStop::Stopped);
        }
        let Some(source) = self.heads.first().map(|(_, source)| *source) else { return Ok(None) };
        let item = match self.sources[source].next()? {
            Some(next) => std::mem::replace(&mut self.heads[0], (next, source)).0,
            None => self.heads.swap_remove(0).0,
        };
        self.sift_down(0);
        Ok(Some(item))
    }

    fn sift_down(&mut self, mut at: usize) {
        let is_before = |heads: &[(S::Item, usize)], one: usize, other: usize| {
            let ((a, first), (b, second)) = (&heads[one], &heads[other]);
            (self.compare)(a, b).then(first.cmp(second)).is_lt()
        };
        loop {
            let children = [2 * at + 1, 2 * at + 2].into_iter().filter(|child| *child < self.heads.len());
            let least =
                children.fold(at, |least, child| if is_before(&self.heads, child, least) { child } else { least });
            if least == at {
                return;
            }
            self.heads.swap(at, least);
            at = least;
        }
    }
}

/// Merges runs in rounds, until so few are left that they can be merged at once. Neighbours are merged, so that the order of
/// the runs stays.
pub(super) fn reduce(
    mut runs: Vec<Run>,
    mut merge: impl FnMut(Vec<Run>) -> Result<Run, SpillStop>,
) -> Result<Vec<Run>, SpillStop> {
    while runs.len() > MERGED_MAX {
        runs = runs.chunks(MERGED_MAX).map(|chunk| merge(chunk.to_vec())).collect::<Result<_, _>>()?;
    }
    Ok(runs)
}
