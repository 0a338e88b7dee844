//! Identifies the source of a file. This module accesses no file.
//!
//! A file is identified by its head (the first line) and its marks (hashes of the bytes before a position). The device
//! and inode, or the name, select the sources to compare with. The bytes decide. So a renamed, copied, truncated or
//! compressed file is distinguished from another file with the same inode, name or first line.

use daytable_model::source_id::SourceStart;
use daytable_model::time::{self, Ticks};
use daytable_parse::{ParseOptions, SourceProfile};
use daytable_store::source::MARKS_MAX;
use daytable_store::{Mark, SourceState};
use memchr::{memchr, memrchr};
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a head at most.
pub(super) const HEAD_BYTES_MAX: usize = 1 << 10;
/// Bytes that a mark hashes at most.
pub(super) const MARK_BYTES_MAX: usize = 1 << 10;

/// The distance from the newest mark to the nearest of the others.
const NEAREST_MARK: usize = 64;

/// The head of a file that begins with `bytes`: its first line with the newline, [`HEAD_BYTES_MAX`] bytes at most. A
/// complete file without a newline is its own head. None if the first line is incomplete.
pub(super) fn head_of(bytes: &[u8], is_complete: bool) -> Option<&[u8]> {
    let bytes = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
    match memchr(b'\n', bytes) {
        Some(newline) => Some(&bytes[..=newline]),
        None if bytes.len() == HEAD_BYTES_MAX || is_complete && !bytes.is_empty() => Some(bytes),
        None => None,
    }
}

/// What names a new file on its host. `generation` distinguishes it from earlier files with the same other values.
pub(super) fn identity_of(device: u64, inode: u64, generation: u32, head: &[u8]) -> u64 {
    let mut bytes = Vec::with_capacity(20 + head.len());
    bytes.extend_from_slice(&device.to_le_bytes());
    bytes.extend_from_slice(&inode.to_le_bytes());
    bytes.extend_from_slice(&generation.to_le_bytes());
    bytes.extend_from_slice(head);
    xxh3_64(&bytes)
}

/// How much later than the birth of a file its first record is, if the file was emptied and written anew. Less is a
/// clock's hour, or a file that waited for its first record.
const WRITTEN_ANEW_AFTER: Duration = Duration::from_secs(2 * 3600);

/// A time without a year or a day is another time when it is read so much earlier.
const SOME_DAYS: Duration = Duration::from_secs(500 * 86_400);

/// When the source of a file began, from the file itself: a data folder that was lost gives the same start again. That is
/// the birth of the file. The birth of a file that was emptied and written anew (`copytruncate`) is too early, so there,
/// and where the file system keeps no births, it is the time of the first record.
pub(super) fn start_of(born: SourceStart, first: Option<Ticks>) -> SourceStart {
    match first {
        Some(first) if SourceStart::at(first) > SourceStart::at(born.time().plus(WRITTEN_ANEW_AFTER)) => {
            SourceStart::at(first)
        }
        _ => born,
    }
}

/// The time of the record that begins with `head`. None if it lacks the year or the day: what is missing depends on when it
/// is read, and a file that is read again must have the same start.
pub(super) fn first_time(head: &[u8], reading: &ParseOptions) -> Option<Ticks> {
    let text = String::from_utf8_lossy(head);
    let read_at = |seen: Ticks| {
        let mut profile = SourceProfile::default();
        let unwrapped = profile.unwrap(text.trim_end_matches(['\n', '\r']), reading);
        let envelope = unwrapped.envelope.clone();
        profile.record(&unwrapped.text, envelope, reading, seen).record.time
    };
    let now = time::now();
    read_at(now).filter(|time| read_at(now.minus(SOME_DAYS)) == Some(*time))
}

/// The mark at `position`; `window` ends there.
pub(super) fn mark_at(position: u64, window: &[u8]) -> Mark {
    let bytes = &window[window.len().saturating_sub(MARK_BYTES_MAX)..];
    // At most 1 KiB.
    Mark { position, length: bytes.len() as u32, hash: xxh3_64(bytes) }
}

/// Adds marks for a file that was read up to `position`; `window` ends there.
///
/// Besides the newest mark there are earlier marks, at starts of lines, so that a file is still identified after it
/// lost its end. If there are too many, the mark is removed whose removal leaves the smallest relative gap. So marks
/// are denser near the newest.
pub(super) fn note_marks(marks: &mut Vec<Mark>, position: u64, window: &[u8]) {
    let mut distance = 64 * MARK_BYTES_MAX;
    while distance >= NEAREST_MARK {
        let lines = &window[..window.len().saturating_sub(distance)];
        if let Some(newline) = memrchr(b'\n', lines) {
            let at = position - (window.len() - newline - 1) as u64;
            // Only a mark with all its bytes in the window, and after the last mark.
            let is_whole = newline + 1 >= MARK_BYTES_MAX || position == window.len() as u64;
            if is_whole && at > marks.last().map_or(0, |mark| mark.position) {
                marks.push(mark_at(at, &window[..=newline]));
            }
        }
        distance /= 4;
    }
    if marks.last().is_none_or(|mark| mark.position < position) {
        // Most files have one mark; a vector that grows reserves four.
        marks.reserve_exact(usize::from(marks.is_empty()));
        marks.push(mark_at(position, window));
    }
    while marks.len() > MARKS_MAX {
        let gap = |at: usize| {
            let (before, after) = (marks[at - 1].position, marks[at + 1].position);
            (after - before) as f64 / (position - before) as f64
        };
        let least = (1..marks.len() - 1).min_by(|a, b| gap(*a).total_cmp(&gap(*b)));
        marks.remove(least.unwrap_or(0));
    }
}

/// How the bytes of a file fit a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fit {
    /// The same bytes.
    Equal,
    /// Other bytes.
    Different,
    /// The file ends before the mark.
    Beyond,
}

/// How a file compares with a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Likeness {
    /// The file has at least everything that was read.
    Same,
    /// The file has the source's beginning and ends before the position, without a difference.
    Shorter,
    /// The file has the source's beginning, and other bytes or an end before the position.
    Parted {
        /// The index of the last mark that fits.
        mark: usize,
    },
    /// Another file.
    Different,
}

/// Compares a file with `state`: `head` and `marks` tell how the file fits those of the state.
pub(super) fn likeness(state: &SourceState, head: Fit, marks: &[Fit]) -> Likeness {
    if head != Fit::Equal {
        return Likeness::Different;
    }
    let least = match marks.last() {
        None | Some(Fit::Equal) => return Likeness::Same,
        // The file has grown past the position again. A program may write several equal lines at each start, so more
        // than that must be equal.
        Some(Fit::Different) => MARK_BYTES_MAX as u32,
        Some(Fit::Beyond) => 0,
    };
    if !marks.contains(&Fit::Different) {
        return Likeness::Shorter;
    }
    // The head alone proves nothing: all files of a program may begin with the same line.
    let beyond_head = |(at, fit): &(usize, &Fit)| {
        let mark = state.marks[*at];
        **fit == Fit::Equal && mark.position > state.head.position && mark.length >= least
    };
    match marks.iter().enumerate().rev().find(beyond_head) {
        Some((mark, _)) => Likeness::Parted { mark },
        None => Likeness::Different,
    }
}

/// Where to resume in a file that lost its end: after the last complete line, because bytes after the last matching
/// mark were read already. If a later mark does not match, at the last mark that does. None if too little is left to
/// identify the file.
pub(super) fn resume_after_loss(state: &SourceState, likeness: Likeness, last_newline_end: u64) -> Option<u64> {
    match likeness {
        Likeness::Parted { mark } => Some(state.marks[mark].position),
        Likeness::Shorter => {
            let fits = |mark: &&Mark| mark.position <= last_newline_end && mark.position > state.head.position;
            state.marks.iter().rev().find(fits).map(|_| last_newline_end)
        }
        Likeness::Same | Likeness::Different => None,
    }
}

/// The relation of a file to a source from whose name the file's name is derived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// It is the source's file now.
    Continues,
    /// It is a copy of a file that still exists.
    Copy,
    /// It may become a copy. It is examined again, and becomes its own source if it does not change.
    Unfinished,
    /// It is another file.
    Stranger,
}

/// The relation of a file to a source: by likeness, by whether the source's own file still exists unchanged, and by the
/// size of the file if it is known without reading.
pub(super) fn relation(likeness: Likeness, original_stands: bool, size: Option<u64>) -> Relation {
    match (likeness, original_stands) {
        (Likeness::Same, false) => Relation::Continues,
        (Likeness::Same, true) => Relation::Copy,
        // More than 1 KiB of equal bytes, under a derived name, is not an accident.
        (Likeness::Shorter, true) if size.is_some_and(|size| size > HEAD_BYTES_MAX as u64) => Relation::Copy,
        (Likeness::Shorter, _) => Relation::Unfinished,
        (Likeness::Parted { .. } | Likeness::Different, _) => Relation::Stranger,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_store::source::tests_state;
    use proptest::prelude::*;

    const NO: u64 = 0;

    #[test]
    fn a_first_time_that_depends_on_when_it_is_read_is_none() {
        let time = |head: &str| first_time(head.as_bytes(), &ParseOptions::default()).map(|time| time.to_string());
        assert_eq!(time("2026-11-21T08:00:00Z INFO a\n").as_deref(), Some("2026-11-21T08:00:00Z"));
        assert_eq!(time("Nov 21 08:00:00 web sshd[1]: a\n"), None);
        assert_eq!(time("08:00:00.123 INFO a\n"), None);
        assert_eq!(time("no time\n"), None);
    }

    #[test]
    fn heads() {
        let long = [b'x'; 2 * HEAD_BYTES_MAX];
        for (bytes, complete, head) in [
            (&b"one\ntwo\n"[..], false, Some(&b"one\n"[..])),
            (b"one", false, None),
            (b"one", true, Some(b"one")),
            (b"", true, None),
            (b"\n", false, Some(b"\n")),
            (&long, false, Some(&long[..HEAD_BYTES_MAX])),
        ] {
            assert_eq!(head_of(bytes, complete), head, "{bytes:?}");
        }
    }

    #[test]
    fn identities_differ_by_each_part() {
        let base = identity_of(1, 2, 0, b"head\n");
        for other in [
            identity_of(2, 2, 0, b"head\n"),
            identity_of(1, 3, 0, b"head\n"),
            identity_of(1, 2, 1, b"head\n"),
            identity_of(1, 2, 0, b"hea\n"),
        ] {
            assert_ne!(base, other);
        }
        assert_eq!(base, identity_of(1, 2, 0, b"head\n"));
    }

    #[test]
    fn a_file_starts_with_its_birth_or_where_it_was_written_anew() {
        let at = |minutes: u64| Ticks::from_date(2026, 11, 20).expect("a date").plus(Duration::from_secs(60 * minutes));
        let born = SourceStart::at(at(0));
        for (first, start) in [(None, 0), (Some(0), 0), (Some(120), 0), (Some(121), 121)] {
            assert_eq!(start_of(born, first.map(at)), SourceStart::at(at(start)), "{first:?}");
        }
        assert_eq!(start_of(born, Some(Ticks::MIN)), born, "the clock was set back");
        assert_eq!(start_of(SourceStart::NONE, Some(at(7))), SourceStart::at(at(7)), "no birth is known");
        assert_eq!(start_of(SourceStart::NONE, None), SourceStart::NONE);
    }

    #[test]
    fn the_time_of_the_first_record_is_that_of_its_line() {
        let reading = ParseOptions::default();
        for (head, time) in [
            (&b"2026-11-20T08:00:00Z INFO one\n"[..], Some("2026-11-20T08:00:00Z")),
            (b"2026-11-20T08:00:00Z stdout F {\"time\":\"2026-11-20T07:00:00Z\"}\r\n", Some("2026-11-20T07:00:00Z")),
            (b"no time\n", None),
            (b"\xff\n", None),
        ] {
            assert_eq!(first_time(head, &reading), time.and_then(daytable_parse::rfc3339), "{head:?}");
        }
    }

    #[test]
    fn files_are_compared_by_head_and_marks() {
        use Fit::*;
        let mut state = tests_state(1);
        state.head.position = 8;
        state.marks = [8, 100, 200].map(|position| Mark { position, length: 8, hash: NO }).to_vec();
        for (head, marks, expected) in [
            (Equal, [Equal, Equal, Equal], Likeness::Same),
            (Equal, [Different, Different, Equal], Likeness::Same),
            (Different, [Equal, Equal, Equal], Likeness::Different),
            (Beyond, [Beyond, Beyond, Beyond], Likeness::Different),
            (Equal, [Equal, Equal, Beyond], Likeness::Shorter),
            (Equal, [Equal, Beyond, Beyond], Likeness::Shorter),
            (Equal, [Equal, Equal, Different], Likeness::Different),
            // Truncated and written again, with the same first line.
            (Equal, [Equal, Different, Beyond], Likeness::Different),
        ] {
            assert_eq!(likeness(&state, head, &marks), expected, "{head:?} {marks:?}");
        }
        state.marks.insert(2, Mark { position: 150, length: 8, hash: NO });
        assert_eq!(likeness(&state, Equal, &[Equal, Equal, Different, Beyond]), Likeness::Parted { mark: 1 });
        assert_eq!(resume_after_loss(&state, Likeness::Parted { mark: 1 }, 170), Some(100));
        assert_eq!(resume_after_loss(&state, Likeness::Shorter, 170), Some(170));
        assert_eq!(resume_after_loss(&state, Likeness::Shorter, 90), None, "no more than its first line is left");
        // The file is longer again: only a whole window of equal bytes distinguishes it from another file with the same
        // beginning.
        assert_eq!(likeness(&state, Equal, &[Equal, Equal, Equal, Different]), Likeness::Different);
        state.marks[1] = Mark { position: 4000, length: MARK_BYTES_MAX as u32, hash: NO };
        assert_eq!(likeness(&state, Equal, &[Equal, Equal, Different, Different]), Likeness::Parted { mark: 1 });
    }

    #[test]
    fn files_beside_a_source() {
        use Relation::*;
        for (likeness, stands, size, expected) in [
            (Likeness::Same, false, Some(1), Continues),
            (Likeness::Same, false, None, Continues),
            (Likeness::Same, true, Some(1), Copy),
            (Likeness::Shorter, true, Some(100), Unfinished),
            (Likeness::Shorter, true, Some(5000), Copy),
            (Likeness::Shorter, true, None, Unfinished),
            (Likeness::Shorter, false, Some(5000), Unfinished),
            (Likeness::Parted { mark: 0 }, true, Some(1), Stranger),
            (Likeness::Different, false, Some(1), Stranger),
        ] {
            assert_eq!(relation(likeness, stands, size), expected, "{likeness:?} {stands} {size:?}");
        }
    }

    proptest! {
        /// However a file grows, it has few marks, in order, each true, the newest among them.
        #[test]
        fn marks_stay_few_true_and_dense_at_the_end(lines in proptest::collection::vec(1usize..400, 1..200), turn in 1usize..40) {
            let mut file = Vec::new();
            let mut marks = Vec::new();
            for some in lines.chunks(turn) {
                let start = file.len().saturating_sub(MARK_BYTES_MAX);
                for (n, length) in some.iter().enumerate() {
                    file.extend(std::iter::repeat_n(b'a' + (n % 26) as u8, *length));
                    file.push(b'\n');
                }
                note_marks(&mut marks, file.len() as u64, &file[start..]);
                prop_assert!(marks.len() <= MARKS_MAX);
                prop_assert_eq!(marks.last().map(|mark| mark.position), Some(file.len() as u64));
                prop_assert!(marks.is_sorted_by_key(|mark| mark.position));
                for mark in &marks {
                    let end = mark.position as usize;
                    prop_assert_eq!(*mark, mark_at(mark.position, &file[end - mark.length as usize..end]));
                    prop_assert_eq!(file[end - 1], b'\n');
                }
            }
        }
    }
}
