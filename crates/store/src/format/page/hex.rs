//! Converts between lower-case hexadecimal and bytes, eight digits per register.

const ONES: u64 = 0x0101_0101_0101_0101;

/// Appends the bytes of `digits` to `out`. Returns whether they were an even number of lower-case digits; if not, the
/// appended bytes are meaningless.
pub(super) fn decode(digits: &[u8], out: &mut Vec<u8>) -> bool {
    let (words, rest) = digits.as_chunks::<8>();
    for word in words {
        let Some(bytes) = decode_word(*word) else { return false };
        out.extend_from_slice(&bytes);
    }
    if rest.is_empty() {
        return true;
    }
    let mut last = [b'0'; 8];
    last[..rest.len()].copy_from_slice(rest);
    match decode_word(last) {
        Some(bytes) if rest.len() % 2 == 0 => out.extend_from_slice(&bytes[..rest.len() / 2]),
        _ => return false,
    }
    true
}

/// Appends the digits of `bytes` to `out`.
pub(super) fn encode(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(2 * bytes.len());
    let (words, rest) = bytes.as_chunks::<4>();
    for word in words {
        out.extend_from_slice(&encode_word(*word));
    }
    let mut last = [0; 4];
    last[..rest.len()].copy_from_slice(rest);
    out.extend_from_slice(&encode_word(last)[..2 * rest.len()]);
}

#[inline]
fn decode_word(digits: [u8; 8]) -> Option<[u8; 4]> {
    let digits = u64::from_le_bytes(digits);
    // Letters have bit 6 set, and their value is 9 more than their low four bits.
    let nibbles = (digits & (0x0f * ONES)) + (digits >> 6 & ONES) * 9;
    if nibbles & (0xf0 * ONES) != 0 || digits_of(nibbles) != digits {
        return None;
    }
    let pairs = (nibbles << 4 | nibbles >> 8) & 0x00ff_00ff_00ff_00ff;
    let fours = (pairs | pairs >> 8) & 0x0000_ffff_0000_ffff;
    let [a, b, c, d, ..] = (fours | fours >> 16).to_le_bytes();
    Some([a, b, c, d])
}

#[inline]
fn encode_word(bytes: [u8; 4]) -> [u8; 8] {
    let all = u64::from(u32::from_le_bytes(bytes));
    let fours = (all | all << 16) & 0x0000_ffff_0000_ffff;
    let pairs = (fours | fours << 8) & 0x00ff_00ff_00ff_00ff;
    let nibbles = (pairs >> 4 & 0x000f_000f_000f_000f) | (pairs << 8 & 0x0f00_0f00_0f00_0f00);
    digits_of(nibbles).to_le_bytes()
}

/// The digit of each of eight numbers below 16.
fn digits_of(nibbles: u64) -> u64 {
    let letters = (nibbles + 6 * ONES) >> 4 & ONES;
    nibbles + u64::from(b'0') * ONES + letters * u64::from(b'a' - b'9' - 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn texts_that_are_not_lower_case_hex() {
        for byte in 0..=u8::MAX {
            for at in 0..10 {
                let mut digits = *b"0123456789";
                digits[at] = byte;
                let is_digit = matches!(byte, b'0'..=b'9' | b'a'..=b'f');
                assert_eq!(decode(&digits, &mut Vec::new()), is_digit, "{byte:#x} at {at}");
            }
        }
        assert!(!decode(b"123", &mut Vec::new()));
    }

    proptest! {
        /// Bytes become the digits of `{:02x}`, and the digits become the same bytes.
        #[test]
        fn bytes_round_trip(bytes in proptest::collection::vec(any::<u8>(), 0..40)) {
            let (mut digits, mut back) = (Vec::new(), Vec::new());
            encode(&bytes, &mut digits);
            prop_assert_eq!(&digits, &bytes.iter().flat_map(|b| format!("{b:02x}").into_bytes()).collect::<Vec<_>>());
            prop_assert!(decode(&digits, &mut back));
            prop_assert_eq!(back, bytes);
        }
    }
}
