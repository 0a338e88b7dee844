//! The names that an object is going to have: those of the objects before it.
//!
//! Nearly all lines of a program have the same names in the same order. To find where a name ends, and what it stands
//! for, takes longer than all else that is done to a member; to see that it is the one that stood there before takes two
//! comparisons. What is kept is a guess and nothing more: whether a name was foreseen or not, it is read the same way.

use super::names::Role;

/// Members that are foreseen at most, and the bytes of their names.
const MEMBERS_MAX: usize = 64;
/// See [`MEMBERS_MAX`].
const NAME_BYTES_MAX: usize = 64;
/// Names that were not foreseen until what is foreseen is that of the next object.
const MISSED_MAX: u32 = 256;

/// What a name stands for, as [`super::names::role_of`] says it.
type Meaning = Option<(Role, u8)>;

/// Names by their place in an object.
pub(super) struct KeyCache {
    members: Vec<Member>,
    missed: u32,
    is_learning: bool,
}

struct Member {
    /// The name in its quotes, and the colon.
    written: Box<[u8]>,
    meaning: Meaning,
}

impl KeyCache {
    /// Nothing is foreseen yet.
    pub(super) const fn new() -> KeyCache {
        KeyCache { members: Vec::new(), missed: 0, is_learning: true }
    }

    /// Another object begins.
    #[inline]
    pub(super) fn begin(&mut self) {
        self.is_learning = self.members.is_empty();
        if self.missed >= MISSED_MAX {
            *self = KeyCache::new();
        }
    }

    /// Whether `text` begins with the name that is foreseen at a place: its length with quotes and colon, and its meaning.
    #[inline(always)]
    pub(super) fn name_at(&self, place: usize, text: &[u8]) -> Option<(usize, Meaning)> {
        let Member { written, meaning } = self.members.get(place)?;
        begins_with(text, written).then_some((written.len(), *meaning))
    }

    /// Notes a name that was not foreseen at its place.
    #[cold]
    pub(super) fn note(&mut self, place: usize, name: &str, meaning: Meaning) {
        self.is_learning &= place == self.members.len() && place < MEMBERS_MAX && name.len() <= NAME_BYTES_MAX;
        if self.is_learning {
            self.members.push(Member { written: format!("\"{name}\":").into_bytes().into(), meaning });
        } else {
            self.missed += 1;
        }
    }
}

/// Without a call where the beginning is short: its first and its last eight bytes, or four, are all there are.
#[inline(always)]
fn begins_with(text: &[u8], beginning: &[u8]) -> bool {
    fn ends<const N: usize>(bytes: &[u8]) -> Option<(&[u8; N], &[u8; N])> {
        bytes.first_chunk().zip(bytes.last_chunk())
    }
    let Some(text) = text.get(..beginning.len()) else { return false };
    match beginning.len() {
        8..=16 => ends::<8>(text) == ends::<8>(beginning),
        4..=7 => ends::<4>(text) == ends::<4>(beginning),
        _ => text == beginning,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_stood_at_a_place_is_foreseen_there_until_too_much_else_does() {
        let mut foreseen = KeyCache::new();
        foreseen.begin();
        foreseen.note(0, "time", Some((Role::Time, 0)));
        foreseen.note(1, "a", None);
        assert_eq!(foreseen.name_at(0, b"\"time\":1"), Some((7, Some((Role::Time, 0)))));
        assert_eq!(foreseen.name_at(1, b"\"a\":"), Some((4, None)));
        for (place, text) in [(0, "\"tim"), (0, "\"times\":1"), (1, "\"time\":1"), (2, "\"a\":")] {
            assert_eq!(foreseen.name_at(place, text.as_bytes()), None, "{text} at {place}");
        }
        for missed in 0..=MISSED_MAX {
            foreseen.begin();
            let expected = if missed < MISSED_MAX { Some((4, None)) } else { None };
            assert_eq!(foreseen.name_at(1, b"\"a\":"), expected);
            foreseen.note(0, "b", None);
        }
        assert_eq!(foreseen.name_at(0, b"\"b\":"), Some((4, None)));
    }

    #[test]
    fn no_object_makes_it_keep_more_than_its_bounds() {
        let mut foreseen = KeyCache::new();
        foreseen.begin();
        for place in 0..2 * MEMBERS_MAX {
            foreseen.note(place, &"n".repeat(if place == 9 { NAME_BYTES_MAX + 1 } else { 4 }), None);
        }
        assert_eq!(foreseen.members.len(), 9);
        let mut foreseen = KeyCache::new();
        foreseen.begin();
        (0..2 * MEMBERS_MAX).for_each(|place| foreseen.note(place, "name", None));
        assert_eq!(foreseen.members.len(), MEMBERS_MAX);
    }

    proptest! {
        /// A beginning is found where it is, whatever its length.
        #[test]
        fn beginnings_are_compared_whole(beginning in "[ab]{0,24}", rest in "[ab]{0,9}", other in "[ab]{0,24}", at in 0usize..24) {
            let mut text = format!("{beginning}{rest}").into_bytes();
            prop_assert!(begins_with(&text, beginning.as_bytes()));
            prop_assert_eq!(begins_with(&text, other.as_bytes()), text.starts_with(other.as_bytes()));
            if at < beginning.len() {
                text[at] ^= 1;
                prop_assert!(!begins_with(&text, beginning.as_bytes()));
            }
        }
    }
}
