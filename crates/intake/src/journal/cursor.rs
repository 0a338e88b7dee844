//! Cursors: where an entry is in a journal, and so who it is.
//!
//! ```text
//! s=3f86…;i=4f2;b=1c0e…;m=2a7f3;t=64d0…;x=9b1f…      all of them hexadecimal
//! │       └ number within the sequence
//! └ the sequence that journald numbers its entries in, all its files together
//! ```
//!
//! The journal itself tells two entries of one sequence apart by their number (`sd_journal_seek_cursor(3)`). So sequence
//! and number are what the row key of an entry is made of, and an entry that is read again, or pushed again, has the same
//! key.

use daytable_model::key::POSITION_MAX;
use xxhash_rust::xxh3::xxh3_64;

/// What is taken out of a cursor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalCursor<'a> {
    /// The sequence, as it is written.
    pub sequence: &'a str,
    /// The number within it, from 1.
    pub number: u64,
}

impl<'a> JournalCursor<'a> {
    /// Reads a cursor; none where it lacks one of both.
    pub fn read(text: &'a str) -> Option<JournalCursor<'a>> {
        let part = |name: &str| text.split(';').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        let sequence = part("s").filter(|sequence| !sequence.is_empty())?;
        let number = u64::from_str_radix(part("i")?, 16).ok()?;
        Some(JournalCursor { sequence, number })
    }

    /// How many entries of the sequence lie between this one and a later one; none where they are of two sequences.
    pub fn missing_before(&self, later: &JournalCursor<'_>) -> Option<u64> {
        (self.sequence == later.sequence).then(|| later.number.saturating_sub(self.number + 1))
    }
}

/// The identity and the position that the row key of an entry is made of.
pub fn origin(cursor: &str) -> (u64, u64) {
    match JournalCursor::read(cursor) {
        Some(cursor) if cursor.number <= POSITION_MAX => (xxh3_64(cursor.sequence.as_bytes()), cursor.number),
        // None that journald writes: all of it says who the entry is.
        _ => (xxh3_64(cursor.as_bytes()), 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_and_number_say_which_entry_it_is() {
        let cursor = "s=3f86;i=4f2;b=1c0e;m=2a7f3;t=64d0;x=9b1f";
        assert_eq!(JournalCursor::read(cursor), Some(JournalCursor { sequence: "3f86", number: 0x4f2 }));
        assert_eq!(origin(cursor), origin("s=3f86;i=4f2"));
        assert_eq!(origin(cursor).1, 0x4f2);
        for other in
            ["s=3f87;i=4f2", "s=3f86;i=4f3", "s=3f86", "i=4f2", "s=;i=1", "s=3f86;i=x", "", "s=3f86;i=ffffffffffffff"]
        {
            assert_ne!(origin(cursor), origin(other), "{other}");
        }
        for none in ["", "s=3f86", "i=4f2", "s=;i=1", "s=a;i=", "s=a;i=g"] {
            assert_eq!(JournalCursor::read(none), None, "{none}");
        }
    }

    #[test]
    fn what_is_missing_is_counted_within_a_sequence() {
        let at = |sequence, number| JournalCursor { sequence, number };
        assert_eq!(at("a", 5).missing_before(&at("a", 6)), Some(0));
        assert_eq!(at("a", 5).missing_before(&at("a", 16)), Some(10));
        assert_eq!(at("a", 5).missing_before(&at("a", 5)), Some(0));
        assert_eq!(at("a", 5).missing_before(&at("b", 9)), None);
    }
}
