//! Cursors: the place of an entry in a journal, which also is its identity.
//!
//! ```text
//! s=3f86…;i=4f2;b=1c0e…;m=2a7f3;t=64d0…;x=9b1f…      all of them hexadecimal
//! │       └ number within the sequence
//! └ the sequence in which journald numbers the entries of all its files
//! ```
//!
//! The journal itself identifies an entry by sequence and number
//! ([`sd_journal_seek_cursor(3)`](https://www.freedesktop.org/software/systemd/man/latest/sd_journal_seek_cursor.html)). The row
//! key consists of both, so an entry that is read or pushed again has the same key.

use daytable_model::key::POSITION_MAX;
use xxhash_rust::xxh3::xxh3_64;

/// The parts of a cursor that identify an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct JournalCursor<'a> {
    /// The sequence, as it is written.
    pub sequence: &'a str,
    /// The number within it, from 1.
    pub number: u64,
}

impl<'a> JournalCursor<'a> {
    /// Parses a cursor. `None` if a part is missing.
    pub fn read(text: &'a str) -> Option<JournalCursor<'a>> {
        let part = |name: &str| text.split(';').find_map(|part| part.strip_prefix(name)?.strip_prefix('='));
        let sequence = part("s").filter(|sequence| !sequence.is_empty())?;
        let number = u64::from_str_radix(part("i")?, 16).ok()?;
        Some(JournalCursor { sequence, number })
    }

    /// The number of entries between this entry and a later entry. `None` for entries of two sequences.
    pub fn missing_before(&self, later: &JournalCursor<'_>) -> Option<u64> {
        (self.sequence == later.sequence).then(|| later.number.saturating_sub(self.number + 1))
    }
}

/// What names the source of an entry, and the position in the row key of the entry.
pub fn origin(cursor: &str) -> (u64, u64) {
    match JournalCursor::read(cursor) {
        Some(cursor) if cursor.number <= POSITION_MAX => (xxh3_64(cursor.sequence.as_bytes()), cursor.number),
        // Not a cursor of journald: the whole text identifies the entry.
        _ => (xxh3_64(cursor.as_bytes()), 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sequence_and_number_identify_an_entry() {
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
    fn missing_entries_are_counted_within_a_sequence() {
        let at = |sequence, number| JournalCursor { sequence, number };
        assert_eq!(at("a", 5).missing_before(&at("a", 6)), Some(0));
        assert_eq!(at("a", 5).missing_before(&at("a", 16)), Some(10));
        assert_eq!(at("a", 5).missing_before(&at("a", 5)), Some(0));
        assert_eq!(at("a", 5).missing_before(&at("b", 9)), None);
    }
}
