//! Reads decimal digits eight bytes at a time, without a branch that depends on them.

/// The number that the first digits of `text` write, and how many digits these are. `None` where this needs more than
/// the first eight bytes, or the text has fewer.
#[inline]
pub fn leading(text: &[u8]) -> Option<(u64, usize)> {
    let first = EightBytes(u64::from_le_bytes(*text.first_chunk()?));
    let length = first.digits();
    (length < 8).then(|| (first.number(length), length))
}

/// Eight bytes of a text, the first one lowest, which are looked at together.
#[derive(Clone, Copy, Debug)]
pub struct EightBytes(u64);

impl EightBytes {
    /// A bit of each byte.
    const ONES: u64 = u64::from_ne_bytes([1; 8]);
    /// The highest bit of each byte.
    const HIGHEST: u64 = 0x80 * EightBytes::ONES;
    const ZERO_DIGITS: u64 = b'0' as u64 * EightBytes::ONES;

    /// Those of a text from a place on, which is not behind its end; zeros behind the end.
    #[inline]
    pub fn at(text: &[u8], at: usize) -> EightBytes {
        let rest = &text[at..];
        EightBytes(match (rest.first_chunk(), text.last_chunk()) {
            (Some(first), _) => u64::from_le_bytes(*first),
            (None, Some(last)) if !rest.is_empty() => u64::from_le_bytes(*last) >> (8 * (8 - rest.len())),
            _ => rest.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte)),
        })
    }

    /// The bytes.
    #[inline]
    pub fn to_bytes(self) -> [u8; 8] {
        self.0.to_le_bytes()
    }

    /// The values of the digits, which are 0 to 9; those of other bytes are above.
    #[inline]
    fn values(self) -> u64 {
        self.0 ^ EightBytes::ZERO_DIGITS
    }

    /// The highest bit of each byte that is no digit.
    #[inline]
    fn no_digits(self) -> u64 {
        let values = self.values();
        // The sum has the highest bit of a byte whose lower seven are above 9; others with that bit come in with `values`.
        let above = (values & !EightBytes::HIGHEST) + 0x76 * EightBytes::ONES;
        (above | values) & EightBytes::HIGHEST
    }

    /// How many bytes are in front of the first digit.
    #[inline]
    pub fn others(self) -> usize {
        ((self.no_digits() ^ EightBytes::HIGHEST).trailing_zeros() / 8) as usize
    }

    /// How many digits are in front of the first other byte.
    #[inline]
    pub fn digits(self) -> usize {
        (self.no_digits().trailing_zeros() / 8) as usize
    }

    /// The first bytes, one to eight, and zeros.
    #[inline]
    pub fn first(self, count: usize) -> EightBytes {
        EightBytes(self.0 & (u64::MAX >> (64 - 8 * count)))
    }

    /// Whether one of them is this one.
    #[inline]
    pub fn has(self, byte: u8) -> bool {
        let wanted = u64::from(byte) * EightBytes::ONES;
        // A byte that is the wanted one is zero now, and 1 less borrows its highest bit.
        let other = self.0 ^ wanted;
        other.wrapping_sub(EightBytes::ONES) & !other & EightBytes::HIGHEST != 0
    }

    /// The number of the first digits, of which there are so many.
    #[inline]
    pub fn number(self, digits: usize) -> u64 {
        // The digits move to the end, behind zeros; the shift by 64 bits for no digits takes two steps.
        let shift = (64 - 8 * digits as u32) / 2;
        let eight = self.values() << shift << shift;
        let two = eight.wrapping_mul(10).wrapping_add(eight >> 8) & 0x00ff_00ff_00ff_00ff;
        let four = two.wrapping_mul(100).wrapping_add(two >> 16) & 0x0000_ffff_0000_ffff;
        four.wrapping_mul(10_000).wrapping_add(four >> 32) & 0xffff_ffff
    }
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
