//! Finding the end of a short piece of a line, eight bytes at a time.
//!
//! Most names and values of a line end within a few steps, where the vectorised search of `memchr` is still starting.
//! In the words below, the top bit of each byte is to say whether that byte is sought. A subtraction finds what is zero,
//! or less than some number; there a byte may borrow from the one above it, but only where it is sought itself, so the
//! lowest that is found is one. Bytes that are no ASCII are never sought.

const ONES: u64 = u64::from_ne_bytes([1; 8]);
const TOPS: u64 = 0x80 * ONES;

/// The next place from `at` on that is a quote, a backslash or a control character, or the end.
#[inline]
pub(super) fn special(bytes: &[u8], at: usize) -> usize {
    let in_word = |word: u64| {
        // With its bit 1 turned a quote is 0x20, control characters are less, and no other ASCII is.
        let quote_or_control = (word ^ (0x02 * ONES)).wrapping_sub(0x21 * ONES);
        let backslash = (word ^ (u64::from(b'\\') * ONES)).wrapping_sub(ONES);
        quote_or_control | backslash
    };
    first(bytes, at, in_word, |byte| matches!(byte, b'"' | b'\\' | 0..0x20))
}

/// The next place from `at` on that is a space or a tab, or the end.
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
fn first(bytes: &[u8], at: usize, in_word: impl Fn(u64) -> u64, is_sought: impl Fn(u8) -> bool) -> usize {
    let mut rest = bytes.get(at..).unwrap_or_default();
    while let Some((word, behind)) = rest.split_first_chunk() {
        let word = u64::from_le_bytes(*word);
        let found = in_word(word) & !word & TOPS;
        if found != 0 {
            return bytes.len() - rest.len() + (found.trailing_zeros() / 8) as usize;
        }
        rest = behind;
    }
    bytes.len() - rest.len() + rest.iter().position(|byte| is_sought(*byte)).unwrap_or(rest.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Eight at a time finds what one at a time finds.
        #[test]
        fn finds_what_is_there(
            bytes in proptest::collection::vec(prop_oneof![any::<u8>(), 0u8..0x60, Just(b'x')], 0..40),
            at in 0usize..40,
        ) {
            let at = at.min(bytes.len());
            let one_by_one = |is_sought: fn(&u8) -> bool| {
                at + bytes[at..].iter().position(is_sought).unwrap_or(bytes.len() - at)
            };
            prop_assert_eq!(special(&bytes, at), one_by_one(|byte| matches!(byte, b'"' | b'\\' | 0..0x20)));
            prop_assert_eq!(space(&bytes, at), one_by_one(|byte| matches!(byte, b' ' | b'\t')));
        }
    }
}
