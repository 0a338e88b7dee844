//! Payment card numbers: the length and the first digits of an issuer, in one piece or in printed groups, with a
//! correct check digit. A tenth of all numbers has a correct check digit, so by the check digit alone many timestamps
//! would match that count microseconds since 1970: they have 16 digits, as most cards do.

use std::ops::Range;

/// Digits of the shortest number.
const DIGITS_MIN: usize = 13;
/// Digits of the longest number.
const DIGITS_MAX: usize = 19;
/// The groups in which numbers are printed.
const GROUPS: [&[usize]; 4] = [&[4, 4, 4, 4], &[4, 6, 5], &[4, 6, 4], &[4, 4, 4, 4, 3]];

/// Whether a text has enough digits in a row for a card, not counting single spaces and hyphens.
pub(super) fn may_be_in(text: &str) -> bool {
    let (mut digits, mut is_apart) = (0, true);
    for byte in text.bytes() {
        match byte {
            b'0'..=b'9' => {
                digits += 1;
                is_apart = false;
                if digits >= DIGITS_MIN {
                    return true;
                }
            }
            b' ' | b'-' if !is_apart => is_apart = true,
            _ => (digits, is_apart) = (0, true),
        }
    }
    false
}

/// The first card in a text at or after `at`.
pub(super) fn next(text: &str, at: usize) -> Option<Range<usize>> {
    let bytes = text.as_bytes();
    let mut at = at;
    while at < bytes.len() {
        let start = at + bytes[at..].iter().position(u8::is_ascii_digit)?;
        let length = digits_at(bytes, start);
        let after_digit = start > 0 && bytes[start - 1].is_ascii_digit();
        if !after_digit && let Some(end) = card_at(bytes, start, length) {
            return Some(start..end);
        }
        at = start + length;
    }
    None
}

/// The end of the card that begins at `start` with this many digits, if there is one.
fn card_at(bytes: &[u8], start: usize, length: usize) -> Option<usize> {
    if (DIGITS_MIN..=DIGITS_MAX).contains(&length) {
        return is_card(&bytes[start..start + length]).then_some(start + length);
    }
    let apart = bytes.get(start + length).filter(|byte| matches!(byte, b' ' | b'-'))?;
    // If two fit, the one with more digits.
    GROUPS.iter().rev().find_map(|groups| {
        let mut digits = [0; DIGITS_MAX];
        let (mut at, mut filled) = (start, 0);
        for (number, &group) in groups.iter().enumerate() {
            if number > 0 {
                if bytes.get(at) != Some(apart) {
                    return None;
                }
                at += 1;
            }
            if digits_at(bytes, at) != group {
                return None;
            }
            digits[filled..filled + group].copy_from_slice(&bytes[at..at + group]);
            (at, filled) = (at + group, filled + group);
        }
        is_card(&digits[..filled]).then_some(at)
    })
}

fn digits_at(bytes: &[u8], at: usize) -> usize {
    bytes[at.min(bytes.len())..].iter().take_while(|byte| byte.is_ascii_digit()).count()
}

/// Whether digits are a card number: an issuer's first digits and length, and the correct check digit.
fn is_card(digits: &[u8]) -> bool {
    let first = |n: usize| digits[..n].iter().fold(0u32, |number, digit| number * 10 + u32::from(digit - b'0'));
    let is_issued = match digits.len() {
        13 => first(1) == 4,
        14 => matches!(first(2), 30 | 36 | 38 | 39),
        15 => matches!(first(2), 34 | 37) || matches!(first(4), 2131 | 1800),
        16 => {
            first(1) == 4
                || matches!(first(2), 51..=55 | 60 | 62 | 64 | 65 | 35 | 50 | 56..=58 | 63 | 67 | 81)
                || (2200..=2720).contains(&first(4))
        }
        17..=19 => first(1) == 4 || matches!(first(2), 62 | 60 | 64 | 65 | 50 | 56..=58 | 63 | 67 | 35),
        _ => false,
    };
    is_issued && check_digit_is_right(digits)
}

/// Luhn's sum: every second digit from the right counts twice.
fn check_digit_is_right(digits: &[u8]) -> bool {
    let counted = digits.iter().rev().enumerate().map(|(place, digit)| {
        let digit = u32::from(digit - b'0') * (1 + place as u32 % 2);
        if digit > 9 { digit - 9 } else { digit }
    });
    counted.sum::<u32>() % 10 == 0
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn cards_and_other_numbers() {
        for (text, card) in [
            ("card 4111111111111111 declined", Some("4111111111111111")),
            ("4111 1111 1111 1111", Some("4111 1111 1111 1111")),
            ("x=4111-1111-1111-1111;", Some("4111-1111-1111-1111")),
            ("3782 822463 10005", Some("3782 822463 10005")),
            ("378282246310005", Some("378282246310005")),
            ("5555555555554444", Some("5555555555554444")),
            ("at 12 4111 1111 1111 1111 7", Some("4111 1111 1111 1111")),
            ("a4111111111111111b", Some("4111111111111111")),
            // A wrong digit, too many digits, wrong groups.
            ("4111111111111112", None),
            ("41111111111111111111111", None),
            ("411 11111 1111 1111", None),
            ("4111 1111-1111 1111", None),
            // Times since 1970 in µs and ns, with any check digit.
            ("1763596800123454 1763596800123452 1763596800123450123", None),
            ("", None),
        ] {
            assert_eq!(next(text, 0).map(|range| &text[range]), card, "{text}");
            assert!(card.is_none() || may_be_in(text), "{text}");
        }
    }

    proptest! {
        /// A text with a card passes the quick test, a match consists of digits, and no text panics.
        #[test]
        fn matches_pass_the_quick_test(text in "([0-9]{1,19}|[ -]|4111|1111|[a-z]|\\PC){0,12}", at in 0usize..8) {
            if let Some(range) = next(&text, at) {
                prop_assert!(may_be_in(&text) && range.start >= at);
                prop_assert!(text[range].bytes().all(|byte| byte.is_ascii_digit() || byte == b' ' || byte == b'-'));
            }
        }
    }
}
