//! Whole numbers as text. Columns of numbers are long, and `write!` takes several times as long.

/// The most digits of a number.
pub const DIGITS_MAX: usize = 20;

/// The digits of a number, which are written to the end of `buffer`.
pub fn digits(number: u64, buffer: &mut [u8; DIGITS_MAX]) -> &[u8] {
    let (mut at, mut rest) = (buffer.len(), number);
    loop {
        at -= 1;
        buffer[at] = b'0' + (rest % 10) as u8;
        rest /= 10;
        if rest == 0 {
            return &buffer[at..];
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn digits_are_those_of_the_standard_library(number: u64, bits in 0..64_u32) {
            let number = number >> bits;
            let (mut buffer, text) = ([0; DIGITS_MAX], number.to_string());
            prop_assert_eq!(digits(number, &mut buffer), text.as_bytes());
        }
    }
}
