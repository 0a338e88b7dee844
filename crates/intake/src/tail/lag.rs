//! For how long something of a file has not been read.

use super::file_content::FileStamp;
use daytable_model::time::Ticks;

/// Since when the oldest unread byte of a file is there, as far as looking at it tells.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Lag {
    /// Since when, and the size that the file had when that was noted: what lies behind it came later.
    unread: Option<(Ticks, u64)>,
}

impl Lag {
    /// Notes that a file is read up to `position`, and what the file system says of it.
    ///
    /// What was there when the file was found is as old as its last change at least.
    pub(super) fn note(&mut self, position: u64, stamp: &FileStamp, now: Ticks) {
        if position >= stamp.size {
            self.unread = None;
        } else if self.unread.is_none_or(|(_, size)| position >= size) {
            let nanos = u32::try_from(stamp.modified.1).unwrap_or(0);
            let modified = Ticks::from_unix(stamp.modified.0, nanos).unwrap_or(now);
            self.unread = Some((modified.min(now), stamp.size));
        }
    }

    /// Nothing of the file can be read any more, or all of it was.
    pub(super) fn clear(&mut self) {
        self.unread = None;
    }

    /// Since when the oldest unread byte is there; none where everything is read.
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
        // (read up to, size, last change, now) and since when something is unread.
        for (position, size, modified, now, since) in [
            (10, 10, 100, 100, None),
            (10, 30, 101, 101, Some(101)),
            (10, 50, 105, 105, Some(101)),
            (29, 50, 105, 106, Some(101)),
            (30, 60, 107, 107, Some(107)),
            (60, 60, 107, 108, None),
            // Found with what was written long before.
            (0, 60, 50, 109, Some(50)),
            (60, 60, 50, 110, None),
            // A file from the future is not read before it was there.
            (60, 70, 999, 111, Some(111)),
        ] {
            lag.note(position, &FileStamp { size, modified: (modified, 0), ..FileStamp::default() }, second(now));
            assert_eq!(lag.since(), since.map(second), "at {now}");
        }
        lag.clear();
        assert_eq!(lag.since(), None);
    }
}
