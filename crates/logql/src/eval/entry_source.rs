//! Where entries come from.

use super::samples::{RangeQuestion, RangeSamples};
use crate::EvalError;
use crate::labels::Labels;
use crate::source::{CountedApart, Direction, EntrySelection, LogEntry};
use daytable_platform::budget::QuestionBudget;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Takes entries, until it breaks off.
pub type EachEntry<'e> = dyn FnMut(LogEntry) -> ControlFlow<()> + 'e;

/// Takes the labels of a stream, a time, and how many entries there are of such a stream in the step of that time, until it
/// breaks.
pub type EachCount<'e> = dyn FnMut(&Arc<Labels>, i64, u64) -> ControlFlow<()> + 'e;

/// Gives entries. The evaluator stops early when it has enough.
pub trait EntrySource {
    /// Whether anybody still waits for the answer. The evaluator asks within long work, too.
    fn is_wanted(&self) -> bool {
        true
    }

    /// Passes the wanted entries to `each`, until `each` breaks.
    ///
    /// # Errors
    ///
    /// Why not all entries could be given.
    fn scan(
        &self,
        wanted: &EntrySelection<'_>,
        direction: Direction,
        each: &mut EachEntry<'_>,
    ) -> Result<(), EvalError>;

    /// Gathers the samples of a function over ranges.
    ///
    /// # Errors
    ///
    /// Why not all entries could be read.
    fn sample(&self, wanted: &EntrySelection<'_>, question: &RangeQuestion<'_>) -> Result<RangeSamples, EvalError> {
        sample_plainly(self, wanted, question)
    }

    /// Counts the wanted entries whose lines pass all filters of the selection, until `each` breaks: the labels of a stream, as
    /// far as they are needed, a time in a step, and the number of entries of such streams in that step. The order is any.
    ///
    /// # Errors
    ///
    /// Why not all entries could be counted.
    fn count(
        &self,
        wanted: &EntrySelection<'_>,
        _apart: CountedApart<'_>,
        _memory: &QuestionBudget,
        each: &mut EachCount<'_>,
    ) -> Result<(), EvalError> {
        self.scan(wanted, Direction::Any, &mut |entry| match wanted.passes_lines(&entry.line) {
            true => each(&entry.stream, entry.time, 1),
            false => ControlFlow::Continue(()),
        })
    }
}

/// Gathers samples entry by entry: the plain way, which any other has to agree with.
///
/// # Errors
///
/// Why not all entries could be read.
pub fn sample_plainly(
    source: &(impl EntrySource + ?Sized),
    wanted: &EntrySelection<'_>,
    question: &RangeQuestion<'_>,
) -> Result<RangeSamples, EvalError> {
    let (mut samples, go_on) = (question.start(), || source.is_wanted());
    source.scan(wanted, Direction::Any, &mut |entry| question.add_entry(&mut samples, &entry, &go_on))?;
    Ok(samples)
}
