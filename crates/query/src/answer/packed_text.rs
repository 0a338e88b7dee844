//! Texts that differ in few small numbers, such as paths and addresses, as 64 bits: the number of a pattern, and
//! the numbers.
//!
//! Whether a text is packed follows from the text alone, as long as there is room for its pattern.

use daytable_store::page::{SHORT_PATTERN_BYTES, SHORT_PATTERN_NUMBERS, ShortPattern, TextSplitter};

/// The longest text that is packed.
const PACKED_BYTES_MAX: usize = 120;
/// From this length on, the runs of digits of a text are counted before it is split.
const COUNTED_BYTES: usize = 24;
/// The most numbers of a text that is packed.
const PACKED_NUMBERS_MAX: usize = SHORT_PATTERN_NUMBERS;
/// The bits of the numbers of a text; the others are those of its pattern.
pub(super) const NUMBERS_BITS: u32 = 52;
/// How many patterns there are room for.
pub(super) const PATTERNS_MAX: usize = 1 << (u64::BITS - NUMBERS_BITS);

/// The pattern and the numbers of a text that may be packed.
#[inline]
pub(super) fn split(text: &str) -> Option<ShortPattern> {
    // Most identifiers end here: to count the runs of digits of a long text is less than to split it.
    if text.len() > PACKED_BYTES_MAX || text.len() >= COUNTED_BYTES && digit_runs(text) > PACKED_NUMBERS_MAX {
        return None;
    }
    ShortPattern::of(text)
}

/// Whether texts of a pattern are packed.
pub(super) fn is_packed(pattern: &str) -> bool {
    pattern.len() <= SHORT_PATTERN_BYTES && TextSplitter::slots(pattern) + digit_runs(pattern) <= PACKED_NUMBERS_MAX
}

/// The bits of each of this many numbers.
pub(super) fn number_bits(numbers: usize) -> Option<u32> {
    (1..=PACKED_NUMBERS_MAX).contains(&numbers).then(|| NUMBERS_BITS / numbers as u32)
}

/// A text as 64 bits; `None` if it has no numbers, too many or too large ones.
pub(super) fn packed_key(pattern: u32, numbers: impl ExactSizeIterator<Item = i64>) -> Option<u64> {
    let bits = number_bits(numbers.len())?;
    let mut numbers = numbers;
    let packed = numbers.try_fold(0, |packed, number| {
        let number = u64::try_from(number).ok().filter(|number| number >> bits == 0)?;
        Some(packed << bits | number)
    });
    Some(with_pattern(pattern, packed?))
}

/// The key with the numbers of another one.
pub(super) fn with_pattern(pattern: u32, key: u64) -> u64 {
    u64::from(pattern) << NUMBERS_BITS | key & ((1 << NUMBERS_BITS) - 1)
}

/// The number of the pattern of a key.
pub(super) fn pattern_of(key: u64) -> u32 {
    (key >> NUMBERS_BITS) as u32
}

/// Appends the text of a pattern with the numbers of a key.
pub(super) fn print(pattern: &str, key: u64, to: &mut String) {
    let count = TextSplitter::slots(pattern).min(PACKED_NUMBERS_MAX);
    let (bits, mut numbers) = (number_bits(count).unwrap_or(0), [0; PACKED_NUMBERS_MAX]);
    for (place, number) in numbers[..count].iter_mut().rev().enumerate() {
        *number = (key >> (bits * place as u32) & ((1 << bits) - 1)).cast_signed();
    }
    TextSplitter::join(pattern, &numbers[..count], to);
}

/// How many runs of digits a text has. Texts with none, or with many, are told by this alone: words, and most
/// identifiers, whose patterns do not repeat.
fn digit_runs(text: &str) -> usize {
    let bytes = text.as_bytes();
    let begins = |(before, byte): (&u8, &u8)| usize::from(!before.is_ascii_digit() & byte.is_ascii_digit());
    let first = usize::from(bytes.first().is_some_and(u8::is_ascii_digit));
    first + bytes.iter().zip(bytes.iter().skip(1)).map(begins).sum::<usize>()
}
