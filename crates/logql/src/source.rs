//! Where entries come from.

use crate::EvalError;
use crate::ast::{LabelFilter, LineFilter, Selector};
use crate::eval::{RangeQuestion, RangeSamples};
use crate::labels::Labels;
use daytable_platform::budget::QuestionBudget;
use std::ops::ControlFlow;
use std::sync::Arc;

/// A line of a stream.
#[derive(Clone, Debug, PartialEq)]
pub struct LogEntry {
    /// The labels of its stream.
    pub stream: Arc<Labels>,
    /// Nanoseconds since the epoch.
    pub time: i64,
    /// The line as it was written.
    pub line: String,
    /// The structured metadata.
    pub metadata: Labels,
}

/// In which order entries are wanted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// The newest first.
    #[default]
    Backward,
    /// The oldest first.
    Forward,
    /// Whatever is cheapest.
    Any,
}

/// A span of time in nanoseconds since the epoch. Both ends are included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSpan {
    /// The oldest time.
    pub from: i64,
    /// The newest time.
    pub to: i64,
}

/// Which entries of a count need not be told apart.
#[derive(Clone, Copy, Debug)]
pub struct CountedApart<'q> {
    /// The labels of streams that are needed; all of them if absent.
    pub labels: Option<&'q [String]>,
    /// The end of any step, and the length of the steps: a step is open at its start and closed at its end. The span is one
    /// step without them.
    pub steps: Option<(i64, i64)>,
}

/// Which entries are wanted.
#[derive(Clone, Debug)]
pub struct EntrySelection<'q> {
    /// Their streams.
    pub selector: &'q Selector,
    /// Their times.
    pub span: TimeSpan,
    /// Filters that each wanted line passes as it was written. A scan may leave out entries of other lines.
    pub lines: Vec<&'q LineFilter>,
    /// Conditions on the labels of each wanted entry. A source may leave out entries that do not satisfy them.
    pub labels: Vec<LabelCondition<'q>>,
}

/// A condition on labels of the stream or the metadata.
#[derive(Clone, Copy, Debug)]
pub struct LabelCondition<'q> {
    /// The condition.
    pub filter: &'q LabelFilter,
    /// Whether a parser may have added labels that the entry itself lacks.
    pub is_parsed: bool,
}

impl Selector {
    /// All entries of the selected streams within a span.
    pub fn within(&self, span: TimeSpan) -> EntrySelection<'_> {
        EntrySelection { selector: self, span, lines: Vec::new(), labels: Vec::new() }
    }
}

/// Takes entries until it breaks.
pub type EachEntry<'e> = dyn FnMut(LogEntry) -> ControlFlow<()> + 'e;

/// Gives entries. The evaluator stops early when it has enough.
pub trait EntrySource {
    /// Whether anybody still waits for the answer. The evaluator asks within long work, too.
    fn is_wanted(&self) -> bool {
        true
    }

    /// Gives the wanted entries to `each`, until it breaks.
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
        each: &mut dyn FnMut(&Arc<Labels>, i64, u64) -> ControlFlow<()>,
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
