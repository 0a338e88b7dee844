//! Reads decimal digits eight bytes at a time, without a branch that depends on them.

const ONES: u64 = u64::from_ne_bytes([1; 8]);
const TOPS: u64 = 0x80 * ONES;
const ZEROS: u64 = b'0' as u64 * ONES;

/// The number that the first digits of `text` write, and how many digits these are. `None` where this needs more than
/// the first eight bytes, or the text has fewer.
#[inline]
pub fn leading(text: &[u8]) -> Option<(u64, usize)> {
    let digits = u64::from_le_bytes(*text.first_chunk()?) ^ ZEROS;
    // The top bit of each byte that is not a digit. A carry may mark a byte above such a byte, so only the lowest mark
    // counts.
    let others = (digits.wrapping_add(0x76 * ONES) | digits) & TOPS;
    if others == 0 {
        return None;
    }
    let length = (others.trailing_zeros() / 8) as usize;
    // The digits move to the end, behind zeros; the shift by 64 bits for no digits takes two steps.
    let shift = (64 - 8 * length as u32) / 2;
    let eight = digits << shift << shift;
    let two = eight.wrapping_mul(10).wrapping_add(eight >> 8) & 0x00ff_00ff_00ff_00ff;
    let four = two.wrapping_mul(100).wrapping_add(two >> 16) & 0x0000_ffff_0000_ffff;
    Some((four.wrapping_mul(10_000).wrapping_add(four >> 32) & 0xffff_ffff, length))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The number is that of the digits at the front, whatever follows.
        #[test]
        fn reads_the_digits_at_the_front(digits in "[0-9]{0,9}", rest in prop::collection::vec(any::<u8>(), 0..10)) {
            let mut text = digits.into_bytes();
            text.extend(rest);
            let length = text.iter().take_while(|byte| byte.is_ascii_digit()).count();
            let number = text[..length].iter().fold(0, |number, byte| number * 10 + u64::from(byte - b'0'));
            prop_assert_eq!(leading(&text), (length < 8 && text.len() >= 8).then_some((number, length)));
        }
    }
}
