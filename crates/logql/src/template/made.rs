//! What one rendering of a template may make.

use daytable_platform::budget::{BoundedText, RECORD_BYTES_MAX, TextRefusal, VALUE_BYTES_MAX};
use std::cell::Cell;

/// Bytes of all values that one rendering makes, whether it keeps them or not: variables keep theirs.
const MADE_BYTES_MAX: usize = 4 * RECORD_BYTES_MAX;
/// Bytes of work after which is asked whether anybody still waits.
const PATIENCE_BYTES: usize = 64 << 10;

/// The account of one rendering.
pub(super) struct MadeText<'q> {
    left: Cell<usize>,
    since: Cell<usize>,
    refused: Cell<Option<TextRefusal>>,
    go_on: &'q dyn Fn() -> bool,
}

impl<'q> MadeText<'q> {
    pub(super) fn new(go_on: &'q dyn Fn() -> bool) -> MadeText<'q> {
        MadeText { left: Cell::new(MADE_BYTES_MAX), since: Cell::new(0), refused: Cell::new(None), go_on }
    }

    /// A text that a function makes.
    pub(super) fn text(&self) -> BoundedText<'q> {
        BoundedText::new(VALUE_BYTES_MAX.min(self.left.get()), self.go_on)
    }

    /// Charges a value that is made next.
    pub(super) fn charge(&self, bytes: usize) -> Result<(), String> {
        match self.left.get().checked_sub(bytes) {
            Some(left) => {
                self.left.set(left);
                self.worked(bytes)
            }
            None => Err(self.refuse(TextRefusal::TooLong(MADE_BYTES_MAX))),
        }
    }

    /// Bytes that may still be made.
    #[cfg(test)]
    pub(super) fn left(&self) -> usize {
        self.left.get()
    }

    /// Counts bytes that a function reads.
    pub(super) fn worked(&self, bytes: usize) -> Result<(), String> {
        let since = self.since.get().saturating_add(bytes);
        self.since.set(if since < PATIENCE_BYTES { since } else { 0 });
        if since < PATIENCE_BYTES || (self.go_on)() { Ok(()) } else { Err(self.refuse(TextRefusal::Stopped)) }
    }

    /// Ends the question for this reason. The text is that of an error, which nobody sees.
    pub(super) fn refuse(&self, refusal: TextRefusal) -> String {
        let is_of_all = matches!(refusal, TextRefusal::TooLong(bytes) if bytes < VALUE_BYTES_MAX);
        self.refused.set(Some(if is_of_all { TextRefusal::TooLong(MADE_BYTES_MAX) } else { refusal }));
        refusal.to_string()
    }

    /// Why the question ends, if it does.
    pub(super) fn refusal(&self) -> Option<TextRefusal> {
        self.refused.get()
    }
}
