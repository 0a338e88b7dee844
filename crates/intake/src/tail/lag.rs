//! Since when a file has unread bytes.

use super::file_content::FileStat;
use daytable_model::time::Ticks;

/// The time of the oldest unread byte of a file, with the precision of polling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lag {
    /// The time, and the size of the file at that time: bytes after that size are newer.
    unread: Option<(Ticks, u64)>,
}

impl Lag {
    /// Records the position in a file, and its stat.
    ///
    /// Bytes that exist at the discovery of a file are at least as old as its last change.
    pub(super) fn note(&mut self, position: u64, stat: &FileStat, now: Ticks) {
        if position >= stat.size {
            self.unread = None;
        } else if self.unread.is_none_or(|(_, size)| position >= size) {
            let nanos = u32::try_from(stat.modified.1).unwrap_or(0);
            let modified = Ticks::from_unix(stat.modified.0, nanos).unwrap_or(now);
            self.unread = Some((modified.min(now), stat.size));
        }
    }

    /// Clears the time of a file that has no unread bytes, or no readable ones.
    pub(super) fn clear(&mut self) {
        self.unread = None;
    }

    /// The time of the oldest unread byte; none if all bytes are read.
    pub(super) fn since(&self) -> Option<Ticks> {
        self.unread.map(|(since, _)| since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_unread_byte_is_as_old_as_it_was_first_seen() {
        let second = |n| Ticks::from_unix(n, 0).expect("a time");
        let mut lag = Lag::default();
        // (position, size, last change, now) and the time of the oldest unread byte.
        for (position, size, modified, now, since) in [
            (10, 10, 100, 100, None),
            (10, 30, 101, 101, Some(101)),
            (10, 50, 105, 105, Some(101)),
            (29, 50, 105, 106, Some(101)),
            (30, 60, 107, 107, Some(107)),
            (60, 60, 107, 108, None),
            // Discovered with bytes that were written long before.
            (0, 60, 50, 109, Some(50)),
            (60, 60, 50, 110, None),
            // A modification time in the future counts as now.
            (60, 70, 999, 111, Some(111)),
        ] {
            lag.note(position, &FileStat { size, modified: (modified, 0), ..FileStat::default() }, second(now));
            assert_eq!(lag.since(), since.map(second), "at {now}");
        }
        lag.clear();
        assert_eq!(lag.since(), None);
    }
}
