//! Which source a file is: decided here from facts, without touching a file.
//!
//! A file is known again by its head (the first line) and its marks (hashes of the bytes before a position). The device
//! and inode, or a name that was made from the old one, say which sources to compare it with; its bytes decide. So a
//! renamed, copied, truncated or compressed file is told from another one that has the same inode, name or first line.

use daytable_store::source::MARKS_MAX;
use daytable_store::{Mark, SourceState};
use memchr::{memchr, memrchr};
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a head at most.
pub(super) const HEAD_BYTES_MAX: usize = 1 << 10;
/// Bytes that a mark hashes at most.
pub(super) const MARK_BYTES_MAX: usize = 1 << 10;

/// How far before the newest mark the nearest of the others is looked for.
const NEAREST_MARK: usize = 64;

/// The head of a file that begins with `bytes`, if it has one yet: its first line with its newline, [`HEAD_BYTES_MAX`]
/// bytes of it at most. A file that is complete has its whole rest for one.
pub(super) fn head_of(bytes: &[u8], is_complete: bool) -> Option<&[u8]> {
    let bytes = &bytes[..bytes.len().min(HEAD_BYTES_MAX)];
    match memchr(b'\n', bytes) {
        Some(newline) => Some(&bytes[..=newline]),
        None if bytes.len() == HEAD_BYTES_MAX || is_complete && !bytes.is_empty() => Some(bytes),
        None => None,
    }
}

/// The identity that a file is given once. `generation` tells it from those that came before it with the same rest.
pub(super) fn identity_of(device: u64, inode: u64, generation: u32, head: &[u8]) -> u64 {
    let mut bytes = Vec::with_capacity(20 + head.len());
    bytes.extend_from_slice(&device.to_le_bytes());
    bytes.extend_from_slice(&inode.to_le_bytes());
    bytes.extend_from_slice(&generation.to_le_bytes());
    bytes.extend_from_slice(head);
    xxh3_64(&bytes)
}

/// The mark at `position`, before which lie `window`'s last bytes.
pub(super) fn mark_at(position: u64, window: &[u8]) -> Mark {
    let bytes = &window[window.len().saturating_sub(MARK_BYTES_MAX)..];
    // At most 1 KiB.
    Mark { position, length: bytes.len() as u32, hash: xxh3_64(bytes) }
}

/// Notes that a file was read up to `position`, before which lie `window`'s last bytes.
///
/// Besides the newest mark there are some before it, at starts of lines, so that a file which lost its tail is still
/// known. When they are too many, the one goes that is least missed: marks lie the denser the nearer they are to the
/// newest.
pub(super) fn note_marks(marks: &mut Vec<Mark>, position: u64, window: &[u8]) {
    let mut distance = 64 * MARK_BYTES_MAX;
    while distance >= NEAREST_MARK {
        let lines = &window[..window.len().saturating_sub(distance)];
        if let Some(newline) = memrchr(b'\n', lines) {
            let at = position - (window.len() - newline - 1) as u64;
            // Only what has all its bytes in the window, and lies behind what is marked already.
            let is_whole = newline + 1 >= MARK_BYTES_MAX || position == window.len() as u64;
            if is_whole && at > marks.last().map_or(0, |mark| mark.position) {
                marks.push(mark_at(at, &window[..=newline]));
            }
        }
        distance /= 4;
    }
    if marks.last().is_none_or(|mark| mark.position < position) {
        // Most files have one: a vector that grows has room for four.
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
    /// They are the same.
    Equal,
    /// They are others.
    Different,
    /// The file ends before it.
    Beyond,
}

/// How a file compares with what is known of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Likeness {
    /// It has all that was read, at least.
    Same,
    /// It has the source's beginning and ends before the position; nothing in it is different.
    Shorter,
    /// It has the source's beginning and ends before the position, but was something else before, or after that.
    Parted {
        /// The last mark that fits, by its index.
        mark: usize,
    },
    /// It is another file.
    Different,
}

/// Compares: `head` and `marks` say how the file fits those of `state`.
pub(super) fn likeness(state: &SourceState, head: Fit, marks: &[Fit]) -> Likeness {
    if head != Fit::Equal {
        return Likeness::Different;
    }
    let least = match marks.last() {
        None | Some(Fit::Equal) => return Likeness::Same,
        // It grew past the position again since. What programs write at each start may be several lines: more than that
        // must be the same.
        Some(Fit::Different) => MARK_BYTES_MAX as u32,
        Some(Fit::Beyond) => 0,
    };
    if !marks.contains(&Fit::Different) {
        return Likeness::Shorter;
    }
    // The head alone is no proof: every file of a program may begin with the same line.
    let beyond_head = |(at, fit): &(usize, &Fit)| {
        let mark = state.marks[*at];
        **fit == Fit::Equal && mark.position > state.head.position && mark.length >= least
    };
    match marks.iter().enumerate().rev().find(beyond_head) {
        Some((mark, _)) => Likeness::Parted { mark },
        None => Likeness::Different,
    }
}

/// Where a file that lost its tail goes on: what it has behind the last mark that fits was read already, as far as it
/// has whole lines. Where a later mark says that it is something else now, it is read again from the one that fits.
/// None where too little of it is left to be sure that it is the file.
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

/// What to do with a file beside a source that its name was made from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Relation {
    /// It is that source's file now.
    Continues,
    /// It has nothing that is not read from the original.
    Copy,
    /// It may become a copy; it is looked at again, and another file if it stays as it is.
    Unfinished,
    /// They have nothing to do with each other.
    Stranger,
}

/// Decides about a file beside a source by their likeness, whether the source's own file still stands unchanged, and
/// the file's size, as far as it is known without reading it.
pub(super) fn relation(likeness: Likeness, original_stands: bool, size: Option<u64>) -> Relation {
    match (likeness, original_stands) {
        (Likeness::Same, false) => Relation::Continues,
        (Likeness::Same, true) => Relation::Copy,
        // More than one KiB of the same bytes under a name made from the other's is no accident.
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
            // Truncated and written anew, with the same first line.
            (Equal, [Equal, Different, Beyond], Likeness::Different),
        ] {
            assert_eq!(likeness(&state, head, &marks), expected, "{head:?} {marks:?}");
        }
        state.marks.insert(2, Mark { position: 150, length: 8, hash: NO });
        assert_eq!(likeness(&state, Equal, &[Equal, Equal, Different, Beyond]), Likeness::Parted { mark: 1 });
        assert_eq!(resume_after_loss(&state, Likeness::Parted { mark: 1 }, 170), Some(100));
        assert_eq!(resume_after_loss(&state, Likeness::Shorter, 170), Some(170));
        assert_eq!(resume_after_loss(&state, Likeness::Shorter, 90), None, "no more than its first line is left");
        // Longer again than it was: only a whole window of the same bytes tells it from a file that begins alike.
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
        /// However a file grows, it has few marks, the newest among them, in order, each true; and within any distance
        /// from its end that is not tiny there is one not much farther.
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
