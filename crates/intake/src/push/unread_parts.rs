//! Parts of a body that its decoder does not know: fields of another version of the protocol, or of another protocol.
//!
//! A decoder skips such a part, because a newer sender must not lose its records for one more field. But no part goes
//! without a word: each is counted, and a body, or a part that should have records, of which nothing is known is refused.

use std::fmt::Display;

/// The characters of a name that an answer shows.
const NAME_CHARS_MAX: usize = 64;

/// Unread parts, and the name of the first.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct UnreadParts {
    /// Their number.
    pub(super) count: u32,
    /// The name of the first; empty if there is none.
    pub(super) first: String,
}

/// A place in a body: the records and the unread parts before it.
#[derive(Clone, Copy)]
pub(super) struct BodyPlace {
    pub(super) index: usize,
    pub(super) unread: u32,
}

impl UnreadParts {
    /// Notes a part.
    pub(super) fn note(&mut self, name: impl Display) {
        if self.count == 0 {
            self.first = name.to_string().chars().take(NAME_CHARS_MAX).collect();
        }
        self.count = self.count.saturating_add(1);
    }

    /// Adds the parts of a record.
    pub(super) fn add(&mut self, other: UnreadParts) {
        if self.count == 0 {
            self.first = other.first;
        }
        self.count = self.count.saturating_add(other.count);
    }
}
