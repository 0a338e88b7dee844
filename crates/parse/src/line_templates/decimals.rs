//! Numbers with a fraction, as they stand in a line.

/// The length of a number with a fraction that stands as it would be written.
pub(super) fn decimal_length(rest: &[u8], number: f64, decimals: u8) -> Option<usize> {
    let (value, length) = decimal(rest, decimals)?;
    (value.to_bits() == number.to_bits()).then_some(length)
}

/// The number with a fraction at the front of a text, and its length, if it stands as it would be written. Up to 15
/// digits without a zero at the end are the shortest of their number, and so the digits that would be written. With so
/// many `decimals`, zeros at the end would be written as well.
///
/// The division of two numbers that are exact gives the nearest number, as reading the text would.
#[inline]
pub(super) fn decimal(rest: &[u8], decimals: u8) -> Option<(f64, usize)> {
    const POWERS: [f64; 16] = [1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15];
    let (sign, digits) = match rest {
        [b'-', digits @ ..] => (1, digits),
        digits => (0, digits),
    };
    let (mut mantissa, mut length, mut point) = (0u64, 0, None);
    for byte in digits {
        match byte {
            b'0'..=b'9' if length < 17 => mantissa = mantissa * 10 + u64::from(byte - b'0'),
            b'.' if point.is_none() && length > 0 => point = Some(length),
            _ => break,
        }
        length += 1;
    }
    let point = point?;
    let fraction = length - point - 1;
    let is_padded = fraction == usize::from(decimals);
    let is_long = fraction >= usize::from(decimals).max(1) && length <= 16;
    let is_shortest = is_long && (is_padded || digits[length - 1] != b'0') && (point == 1 || digits[0] != b'0');
    let ends = !digits.get(length).is_some_and(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E'));
    let value = mantissa as f64 / POWERS.get(fraction)?;
    let value = if sign == 1 { -value } else { value };
    (is_shortest && ends && !stays_text(value)).then_some((value, length + sign))
}

/// Whether a number stays in the line as text. The sign of `-0.0` would be lost. Numbers that JSON writes with an exponent
/// would not be found by their digits: a search prints numbers as JSON does.
pub(super) fn stays_text(number: f64) -> bool {
    if number == 0.0 { number.is_sign_negative() } else { !(1e-5..1e16).contains(&number.abs()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_with_an_exponent_in_json_stay_text() {
        for number in [1.23e-6, -9.99e-6, 1e16, 2e19, -0.0] {
            assert!(stays_text(number), "{number}");
        }
        for number in [0.0, 1e-5, -1.5, 0.1, 9_999_999_999_999_998.0] {
            assert!(!stays_text(number), "{number}");
            assert!(!serde_json::to_string(&number).expect("a number").contains('e'), "{number}");
        }
        assert_eq!(decimal(b"0.00000123", 0), None);
        assert_eq!(decimal(b"0.0000123", 0), Some((0.000_012_3, 9)));
    }
}
