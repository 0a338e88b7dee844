//! Errors of a query, with their place.

use std::fmt;
use std::ops::Range;

/// Maximum number of characters of a query that an error shows.
const SHOWN_CHARS_MAX: usize = 100;

/// A query is wrong: the place, and the expected text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SyntaxError {
    query: String,
    at: Range<usize>,
    message: String,
    instead: Option<String>,
}

impl SyntaxError {
    /// An error at the bytes `at` of `query`.
    pub fn new(query: &str, at: Range<usize>, message: impl Into<String>) -> SyntaxError {
        let start = query.floor_char_boundary(at.start.min(query.len()));
        let end = query.ceil_char_boundary(at.end.clamp(start, query.len()));
        SyntaxError { query: query.to_owned(), at: start..end, message: message.into(), instead: None }
    }

    /// The same, with what is written at its place where another meaning was meant.
    pub(crate) fn with_written(mut self, written: Option<&str>) -> SyntaxError {
        let instead = |written| format!("{}{written}{}", &self.query[..self.at.start], &self.query[self.at.end..]);
        self.instead = written.map(instead);
        self
    }

    /// The query as it is written for what was probably meant, where that is known.
    pub fn instead(&self) -> Option<&str> {
        self.instead.as_deref()
    }

    /// The bytes of the query that are wrong. The range is empty at the end of the query.
    pub fn at(&self) -> Range<usize> {
        self.at.clone()
    }

    /// The problem, without the query.
    pub fn message(&self) -> &str {
        &self.message
    }
}

impl std::error::Error for SyntaxError {}

/// The message, the line of the query, and a caret below the place.
impl fmt::Display for SyntaxError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let start = self.query[..self.at.start].rfind('\n').map_or(0, |newline| newline + 1);
        let line = self.query[start..].lines().next().unwrap_or_default();
        let before = self.query[start..self.at.start].chars().count();
        let wrong = self.query[self.at.clone()].lines().next().unwrap_or_default().chars().count().max(1);
        // Of a long line, the part around the place is shown.
        let skipped = before.saturating_sub(SHOWN_CHARS_MAX / 2);
        let shown: String = line.chars().skip(skipped).take(SHOWN_CHARS_MAX).collect();
        let carets = wrong.min((SHOWN_CHARS_MAX + 1).saturating_sub(before - skipped)).max(1);
        write!(f, "{}\n  {shown}\n  {}{}", self.message, " ".repeat(before - skipped), "^".repeat(carets))
    }
}
