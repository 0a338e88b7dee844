//! A cache of the names in the previous objects, by their place.
//!
//! Nearly all lines of a program have the same names in the same order. Finding the end and the role of a name takes
//! longer than the rest of the work for a member. Comparing it with the name that had this place before takes two
//! comparisons. The cache is only a guess: a name gives the same result with it and without it.

use super::names::Role;

/// Members in the cache.
const MEMBERS_MAX: usize = 64;
/// Bytes of a name in the cache.
const NAME_BYTES_MAX: usize = 64;
/// Misses until the cache takes the names of the next object.
const MISSED_MAX: u32 = 256;

/// The role of a name, as [`super::names::role_of`] returns it.
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
    /// An empty cache.
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

    /// If `text` begins with the cached name of this place: its length with quotes and colon, and its role.
    #[inline(always)]
    pub(super) fn name_at(&self, place: usize, text: &[u8]) -> Option<(usize, Meaning)> {
        let Member { written, meaning } = self.members.get(place)?;
        begins_with(text, written).then_some((written.len(), *meaning))
    }

    /// Records a miss: the name at this place.
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

/// Compares without a call if the beginning is short: its first and its last eight bytes, or four, cover it.
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
    fn a_place_keeps_its_name_until_too_many_misses() {
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
    fn no_object_makes_the_cache_exceed_its_bounds() {
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
        /// A beginning is found at any length.
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
