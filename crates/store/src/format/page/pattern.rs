//! Texts as patterns and numbers: each number is replaced by [`SLOT`].
//!
//! Addresses, paths with an id and most messages are a few patterns and numbers. Packed numbers need neither their
//! digits nor zstd. The idea is from CLP ([Rodrigues et al., OSDI
//! 2021](https://www.usenix.org/conference/osdi21/presentation/rodrigues)).

use super::PageError;
use super::bits::{SectionCursor, Sections, TextSpan};
use super::entries::{self, DictionaryColumn, ENTRIES_MAX};
use super::ints::{Ints, IntsPlan};

/// Maximum numbers extracted from one text; further digits stay in the pattern.
const NUMBERS_MAX: usize = 8;
/// Replaces a number in a pattern: the ASCII character "substitute". A text that contains it has no pattern.
const SLOT: u8 = 0x1a;
/// Number of digits that always fit an `i64`.
const DIGITS_MAX: usize = 18;

/// A column of values as patterns and numbers.
pub(super) struct PatternColumn {
    patterns: DictionaryColumn,
    slots: [Vec<i64>; NUMBERS_MAX],
    plans: Vec<IntsPlan>,
    bits: usize,
}

impl PatternColumn {
    /// `None` if the values have no numbers, or too many patterns.
    pub(super) fn of(values: &[&str]) -> Option<PatternColumn> {
        let mut patterns = DictionaryColumn::with_capacity(values.len());
        let mut slots: [Vec<i64>; NUMBERS_MAX] = Default::default();
        let mut pattern = Vec::with_capacity(64);
        for (seen, value) in values.iter().enumerate() {
            split(value.as_bytes(), &mut pattern, &mut slots)?;
            patterns.push(&pattern)?;
            if patterns.len() > 32 + seen / 8 {
                return None;
            }
        }
        let used = slots.iter().take_while(|numbers| !numbers.is_empty());
        let plans: Vec<IntsPlan> = used.map(|numbers| IntsPlan::new(numbers)).collect();
        let bits = patterns.bits() + plans.iter().zip(&slots).map(|(plan, n)| plan.bits(n.len())).sum::<usize>();
        (!plans.is_empty()).then_some(PatternColumn { patterns, slots, plans, bits })
    }

    /// Approximate size in bits.
    pub(super) fn bits(&self) -> usize {
        self.bits
    }

    pub(super) fn write(&self, out: &mut Sections) {
        self.patterns.write(out);
        for (plan, numbers) in self.plans.iter().zip(&self.slots) {
            plan.write(numbers, out);
        }
    }
}

/// Splits `value` into its pattern and its numbers. A number is a run of digits without leading zeros, so that
/// printing it restores the digits. `None` for a text that contains [`SLOT`].
fn split(value: &[u8], pattern: &mut Vec<u8>, slots: &mut [Vec<i64>; NUMBERS_MAX]) -> Option<()> {
    pattern.clear();
    pattern.reserve(value.len());
    let mut free = 0;
    let mut at = 0;
    while let Some(&byte) = value.get(at) {
        if !byte.is_ascii_digit() {
            if byte == SLOT {
                return None;
            }
            pattern.push(byte);
            at += 1;
            continue;
        }
        let start = at;
        let mut number = 0i64;
        while let Some(digit) = value.get(at).map(|byte| byte.wrapping_sub(b'0')).filter(|&digit| digit < 10) {
            // A number that wraps has too many digits and is not used.
            number = number.wrapping_mul(10).wrapping_add(digit.into());
            at += 1;
        }
        let canonical = at - start <= DIGITS_MAX && (byte != b'0' || at - start == 1);
        if canonical && free < NUMBERS_MAX {
            slots[free].push(number);
            free += 1;
            pattern.push(SLOT);
        } else {
            pattern.extend_from_slice(&value[start..at]);
        }
    }
    Some(())
}

/// Decodes the values into the page's text. Returns where they begin, and the end of each.
pub(super) fn decode(count: usize, cursor: &mut SectionCursor<'_>) -> Result<(u32, Vec<u32>), PageError> {
    let (entries, indices) = entries::decode(count, cursor)?;
    let patterns: Vec<SplitPattern> =
        entries.iter().map(|span| SplitPattern::new(&cursor.text[span.range()])).collect();
    // [`entries::decode`] checked that every index names one of at most 256 patterns.
    let indices: Vec<u8> = (0..count).map(|index| indices.get(cursor.packed, index) as u8).collect();

    // The number of values with a slot is the number of uses of patterns with at least so many slots.
    let mut uses = [0usize; ENTRIES_MAX];
    indices.iter().for_each(|&index| uses[usize::from(index)] += 1);
    let slots = patterns.iter().map(|pattern| pattern.pieces.len()).max().unwrap_or(0);
    if slots > NUMBERS_MAX {
        return Err(PageError::Damaged("a pattern has too many numbers"));
    }
    let mut numbers = Vec::with_capacity(slots);
    for slot in 0..slots {
        let having = uses.iter().zip(&patterns).filter(|(_, pattern)| pattern.pieces.len() > slot);
        numbers.push((0, Ints::decode(having.map(|(uses, _)| uses).sum(), cursor)?));
    }
    let start = TextSpan::new(0, cursor.text.len())?.end;
    let mut ends = Vec::with_capacity(count);
    for index in indices {
        let pattern = &patterns[usize::from(index)];
        pattern.head.put(&mut cursor.text);
        for (piece, (next, ints)) in pattern.pieces.iter().zip(&mut numbers) {
            let number = ints.get(cursor.packed, *next);
            *next += 1;
            put_decimal(&mut cursor.text, u64::try_from(number).unwrap_or(0));
            piece.put(&mut cursor.text);
        }
        cursor.check_growth(0)?;
        ends.push(TextSpan::new(0, cursor.text.len())?.end);
    }
    Ok((start, ends))
}

/// A pattern split at its numbers: the text before the first, and the text after each.
struct SplitPattern {
    head: TextPiece,
    pieces: Vec<TextPiece>,
}

impl SplitPattern {
    fn new(pattern: &[u8]) -> SplitPattern {
        let mut pieces = pattern.split(|&byte| byte == SLOT).map(TextPiece::new);
        let head = pieces.next().unwrap_or(TextPiece::Short([0; 16], 0));
        SplitPattern { head, pieces: pieces.collect() }
    }
}

/// A piece of text. Most are short, and a copy of fixed size is much faster than one of any size.
enum TextPiece {
    Short([u8; 16], usize),
    Long(Vec<u8>),
}

impl TextPiece {
    fn new(text: &[u8]) -> TextPiece {
        let mut short = [0; 16];
        match short.get_mut(..text.len()) {
            Some(head) => {
                head.copy_from_slice(text);
                TextPiece::Short(short, text.len())
            }
            None => TextPiece::Long(text.to_vec()),
        }
    }

    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            TextPiece::Short(text, length) => {
                let end = out.len() + length;
                out.extend_from_slice(text);
                out.truncate(end);
            }
            TextPiece::Long(text) => out.extend_from_slice(text),
        }
    }
}

#[inline]
fn put_decimal(out: &mut Vec<u8>, mut number: u64) {
    if number < 10_000 {
        // All four digits at once; the leading zeros are shifted out.
        let (high, low) = (number as u32 / 100, number as u32 % 100);
        let digits = (high / 10) | ((high % 10) << 8) | ((low / 10) << 16) | ((low % 10) << 24);
        let zeros = (digits.trailing_zeros() / 8).min(3);
        let digits = (digits + 0x3030_3030) >> (8 * zeros);
        let end = out.len() + 4 - zeros as usize;
        out.extend_from_slice(&digits.to_le_bytes());
        out.truncate(end);
        return;
    }
    let mut digits = [0; 20];
    let mut at = digits.len();
    while number > 0 {
        at -= 1;
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
    }
    out.extend_from_slice(&digits[at..]);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The inverse of [`split`], the plain way.
    fn rebuild(pattern: &[u8], numbers: &[i64]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut numbers = numbers.iter();
        for &byte in pattern {
            match byte {
                SLOT => put_decimal(&mut out, numbers.next().expect("a number a slot").cast_unsigned()),
                byte => out.push(byte),
            }
        }
        out
    }

    proptest! {
        /// A pattern and its numbers are the text again, digit for digit.
        #[test]
        fn patterns_lose_nothing(value in "([a-z]{0,2}[0-9]{0,20}){0,12}") {
            let (mut pattern, mut slots) = (Vec::new(), Default::default());
            split(value.as_bytes(), &mut pattern, &mut slots).expect("no slot of its own");
            let numbers: Vec<i64> = slots.iter().flatten().copied().collect();
            prop_assert_eq!(String::from_utf8(rebuild(&pattern, &numbers)).expect("text"), value);
        }
    }
}
