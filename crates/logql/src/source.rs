//! Entries, and which of them a query wants.

use crate::ast::{LabelFilter, LineFilter, Selector};
use crate::labels::Labels;
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
    /// Where the labels of the condition come from, if the entry itself lacks them.
    pub origin: LabelOrigin,
}

/// Where labels come from if an entry itself lacks them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LabelOrigin {
    /// Nowhere.
    Nowhere,
    /// The line as it was written: parsers read them from it.
    Line {
        /// Whether each label is called as its value is in the line. False if an expression or a pattern names the
        /// labels.
        is_named: bool,
    },
    /// A line that stages made.
    MadeLine,
}

impl Selector {
    /// All entries of the selected streams within a span.
    pub fn within(&self, span: TimeSpan) -> EntrySelection<'_> {
        EntrySelection { selector: self, span, lines: Vec::new(), labels: Vec::new() }
    }
}
