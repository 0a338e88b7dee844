//! Finds the end of a short piece of a line, eight bytes at a time.
//!
//! Most names and values end within a few steps, before the vectorised search of `memchr` pays off. In the words below,
//! the top bit of a byte says whether the byte matches. A subtraction finds bytes that are zero or below a number. A
//! matching byte may borrow from the byte above it and mark that byte wrongly. So only the lowest mark is reliable, and
//! only the lowest is used. Bytes outside ASCII never match.

const ONES: u64 = u64::from_ne_bytes([1; 8]);
const TOPS: u64 = 0x80 * ONES;

/// The next quote, backslash or control character at or after `at`, or the end.
#[inline]
pub(super) fn special(bytes: &[u8], at: usize) -> usize {
    let in_word = |word: u64| {
        // XOR with 0x02 turns a quote into 0x20. Control characters stay below, and no other ASCII byte comes there.
        let quote_or_control = (word ^ (0x02 * ONES)).wrapping_sub(0x21 * ONES);
        let backslash = (word ^ (u64::from(b'\\') * ONES)).wrapping_sub(ONES);
        quote_or_control | backslash
    };
    first(bytes, at, in_word, |byte| matches!(byte, b'"' | b'\\' | 0..0x20))
}

/// The next space or tab at or after `at`, or the end.
#[inline]
pub(super) fn space(bytes: &[u8], at: usize) -> usize {
    let in_word = |word: u64| {
        let space = (word ^ (u64::from(b' ') * ONES)).wrapping_sub(ONES);
        let tab = (word ^ (u64::from(b'\t') * ONES)).wrapping_sub(ONES);
        space | tab
    };
    first(bytes, at, in_word, |byte| matches!(byte, b' ' | b'\t'))
}

#[inline(always)]
fn first(bytes: &[u8], at: usize, in_word: impl Fn(u64) -> u64, is_end: impl Fn(u8) -> bool) -> usize {
    let mut rest = bytes.get(at..).unwrap_or_default();
    while let Some((word, after)) = rest.split_first_chunk() {
        let word = u64::from_le_bytes(*word);
        let found = in_word(word) & !word & TOPS;
        if found != 0 {
            return bytes.len() - rest.len() + (found.trailing_zeros() / 8) as usize;
        }
        rest = after;
    }
    bytes.len() - rest.len() + rest.iter().position(|byte| is_end(*byte)).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The search by eight bytes finds the same place as the search by single bytes.
        #[test]
        fn agrees_with_a_search_by_bytes(
            bytes in proptest::collection::vec(prop_oneof![any::<u8>(), 0u8..0x60, Just(b'x')], 0..40),
            at in 0usize..40,
        ) {
            let at = at.min(bytes.len());
            let one_by_one = |is_end: fn(&u8) -> bool| {
                at + bytes[at..].iter().position(is_end).unwrap_or(bytes.len() - at)
            };
            prop_assert_eq!(special(&bytes, at), one_by_one(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)));
            prop_assert_eq!(space(&bytes, at), one_by_one(|byte| matches!(byte, b' ' | b'\t')));
        }
    }
}
