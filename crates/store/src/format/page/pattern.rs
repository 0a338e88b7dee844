//! Texts as patterns and numbers: each number is replaced by [`SLOT`].
//!
//! Addresses, paths with an id and most messages are a few patterns and numbers. Packed numbers need neither their
//! digits nor zstd. The idea is from CLP ([Rodrigues et al., OSDI
//! 2021](https://www.usenix.org/conference/osdi21/presentation/rodrigues)).

use super::PageError;
use super::bits::TextSpan;
use super::entries::{self, DictionaryColumn, ENTRIES_MAX};
use super::ints::{Ints, IntsPlan};
use super::section_cursor::SectionCursor;
use super::sections::Sections;
use super::words::{PatternWords, WordGatherer};
use daytable_model::decimal::{self, digits};
use daytable_model::digits::EightBytes;
use std::sync::OnceLock;

/// Maximum numbers extracted from one text; further digits stay in the pattern.
pub(super) const NUMBERS_MAX: usize = 8;
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

    /// Writes the column of these values.
    pub(super) fn write(&self, values: &[&str], out: &mut Sections) {
        if out.words.is_on() {
            let (texts, indices) = (self.patterns.texts(), self.patterns.indices());
            add_words(texts, indices, &self.slots, |value| values[value], &mut out.words);
        }
        self.patterns.write(out);
        for (plan, numbers) in self.plans.iter().zip(&self.slots) {
            plan.write(numbers, out);
        }
    }
}

/// Adds the words of values: those of a pattern once, and those with numbers without printing the others. Each value has one of the
/// patterns, by `indices`; `slots` has the numbers of each slot in their order, and `text` prints a value.
pub(super) fn add_words<'t, 'p>(
    patterns: impl Iterator<Item = &'p str>,
    indices: &[u8],
    slots: &[Vec<i64>],
    text: impl Fn(usize) -> &'t str,
    words: &mut WordGatherer,
) {
    let patterns: Vec<(usize, Option<PatternWords<'_>>)> =
        patterns.map(|text| (TextSplitter::slots(text), PatternWords::of(text, SLOT))).collect();
    patterns.iter().filter_map(|(_, pattern)| pattern.as_ref()).for_each(|pattern| words.add_pattern(pattern));
    if patterns.iter().all(|(_, pattern)| pattern.as_ref().is_some_and(PatternWords::is_whole)) {
        return;
    }
    let mut ranks = [0usize; NUMBERS_MAX];
    for (value, index) in indices.iter().enumerate() {
        let (used, pattern) = &patterns[usize::from(*index)];
        match pattern {
            // Numbers have no sign.
            Some(pattern) => words.add_value(pattern, |slot| slots[slot][ranks[slot]].cast_unsigned()),
            None => words.add_text(text(value)),
        }
        ranks[..*used].iter_mut().for_each(|rank| *rank += 1);
    }
}

/// Splits `value` into its pattern and its numbers. A number is a run of digits without leading zeros, so that
/// printing it restores the digits. `None` for a text that contains [`SLOT`].
pub(super) fn split(value: &[u8], pattern: &mut Vec<u8>, slots: &mut [Vec<i64>; NUMBERS_MAX]) -> Option<()> {
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

/// Whether texts of this pattern have this pattern, whatever numbers they have.
pub(super) fn is_own(pattern: &str) -> bool {
    let text = pattern.replace(char::from(SLOT), "1");
    TextSplitter::default().split(&text).is_some_and(|(own, _)| own == pattern)
}

/// Whether a number may be taken out of a text.
pub(super) fn is_taken_out(number: i64) -> bool {
    (0..10i64.pow(DIGITS_MAX as u32)).contains(&number)
}

/// The bytes of a part of a text in a pattern that has the first `taken` numbers of the part, and no later ones, taken
/// out. Numbers that [`split`] does not take out stay.
pub(super) fn without_numbers(part: &[u8], mut taken: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(part.len());
    for run in part.chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit()) {
        let is_number = run[0].is_ascii_digit() && run.len() <= DIGITS_MAX && (run[0] != b'0' || run.len() == 1);
        match is_number && taken > 0 {
            true => {
                out.push(SLOT);
                taken -= 1;
            }
            false => out.extend_from_slice(run),
        }
    }
    out
}

/// Splits texts one after the other, as `split` does.
#[derive(Debug, Default)]
pub struct TextSplitter {
    pattern: Vec<u8>,
    slots: [Vec<i64>; NUMBERS_MAX],
    numbers: Vec<i64>,
}

impl TextSplitter {
    /// The pattern of a text, and its numbers. `None` for a text that has no pattern.
    pub fn split(&mut self, text: &str) -> Option<(&str, &[i64])> {
        self.slots.iter_mut().for_each(Vec::clear);
        split(text.as_bytes(), &mut self.pattern, &mut self.slots)?;
        self.numbers.clear();
        self.numbers.extend(self.slots.iter().flatten());
        Some((str::from_utf8(&self.pattern).ok()?, &self.numbers))
    }

    /// Number of numbers of a pattern.
    pub fn slots(pattern: &str) -> usize {
        memchr::memchr_iter(SLOT, pattern.as_bytes()).count()
    }

    /// Appends the text of a pattern and its numbers.
    pub fn join(pattern: &str, numbers: &[i64], out: &mut String) {
        let mut numbers = numbers.iter();
        for (at, piece) in pattern.split(char::from(SLOT)).enumerate() {
            if let Some(number) = (at > 0).then(|| numbers.next()).flatten() {
                put_decimal(out, number.cast_unsigned());
            }
            out.push_str(piece);
        }
    }
}

/// The longest pattern of a [`ShortPattern`], in bytes.
pub const SHORT_PATTERN_BYTES: usize = 48;
/// The most numbers of a text with a [`ShortPattern`].
pub const SHORT_PATTERN_NUMBERS: usize = 4;

/// The pattern and the numbers of a short text with few numbers, without memory of their own.
#[derive(Clone, Copy, Debug)]
pub struct ShortPattern {
    /// The pattern; zeros behind it. Eight bytes are written at once, so there is room behind the longest one.
    bytes: [u8; SHORT_PATTERN_BYTES + 8],
    length: u8,
    numbers: [i64; SHORT_PATTERN_NUMBERS],
    count: u8,
}

impl ShortPattern {
    /// Splits a text as [`TextSplitter::split`] does. `None` for a text without a pattern, one with no or too many runs of
    /// digits, and one whose pattern is too long.
    #[inline]
    pub fn of(text: &str) -> Option<ShortPattern> {
        let value = text.as_bytes();
        let mut short = ShortPattern {
            bytes: [0; SHORT_PATTERN_BYTES + 8],
            length: 0,
            numbers: [0; SHORT_PATTERN_NUMBERS],
            count: 0,
        };
        let (mut at, mut length, mut count, mut runs) = (0, 0, 0, 0);
        while at < value.len() {
            let word = EightBytes::at(value, at);
            let others = word.others().min(value.len() - at);
            if others > 0 {
                let others_alone = word.first(others);
                if length + others > SHORT_PATTERN_BYTES || others_alone.has(SLOT) {
                    return None;
                }
                short.bytes[length..length + 8].copy_from_slice(&others_alone.to_bytes());
                (at, length) = (at + others, length + others);
                continue;
            }
            runs += 1;
            if runs > SHORT_PATTERN_NUMBERS {
                return None;
            }
            let mut digits = word.digits();
            let mut number = word.number(digits).cast_signed();
            if digits == 8 {
                let more = value[at + digits..].iter().map(|byte| byte.wrapping_sub(b'0'));
                for digit in more.take_while(|digit| *digit < 10) {
                    // A number that wraps has too many digits and is not used.
                    number = number.wrapping_mul(10).wrapping_add(digit.into());
                    digits += 1;
                }
            }
            if digits <= DIGITS_MAX && (value[at] != b'0' || digits == 1) {
                *short.bytes[..SHORT_PATTERN_BYTES].get_mut(length)? = SLOT;
                short.numbers[count] = number;
                (length, count) = (length + 1, count + 1);
            } else {
                let room = short.bytes[..SHORT_PATTERN_BYTES].get_mut(length..length + digits)?;
                room.copy_from_slice(&value[at..at + digits]);
                length += digits;
            }
            at += digits;
        }
        // At most the lengths of the arrays.
        (short.length, short.count) = (length as u8, count as u8);
        (runs > 0).then_some(short)
    }

    /// The pattern.
    pub fn pattern(&self) -> &str {
        // Whole runs of ASCII digits of a text became an ASCII character each.
        str::from_utf8(&self.bytes[..self.length.into()]).unwrap_or_default()
    }

    /// The numbers.
    pub fn numbers(&self) -> &[i64] {
        &self.numbers[..self.count.into()]
    }

    /// The pattern, eight bytes each.
    #[inline]
    fn words(&self) -> &[[u8; 8]] {
        &self.bytes.as_chunks().0[..usize::from(self.length).div_ceil(8)]
    }

    /// Whether the other has the same pattern.
    #[inline]
    pub fn is_like(&self, other: &ShortPattern) -> bool {
        self.length == other.length && self.words().iter().zip(other.words()).all(|(one, other)| one == other)
    }

    /// A number that is the same for the same pattern, and mostly another one for another.
    #[inline]
    pub fn mixed(&self) -> u64 {
        let mix = |sum: u64, word: &[u8; 8]| (sum.rotate_left(5) ^ u64::from_le_bytes(*word)).wrapping_mul(MIXER);
        self.words().iter().fold(self.length.into(), mix)
    }
}

/// An odd number whose bits are mixed: that of the golden ratio.
const MIXER: u64 = 0x9e37_79b9_7f4a_7c15;

/// A decoded column of patterns and numbers.
#[derive(Debug)]
pub(super) struct PatternTexts {
    pub(super) patterns: Vec<SplitPattern>,
    /// The pattern of each value.
    pub(super) indices: Vec<u8>,
    /// The numbers of each slot, of the values that have the slot.
    pub(super) numbers: Vec<Ints>,
    /// Whether every value has every slot.
    is_even: bool,
    printed: OnceLock<(String, Vec<u32>)>,
}

/// A pattern: its text, and the pieces between its numbers.
#[derive(Debug)]
pub(super) struct SplitPattern {
    span: TextSpan,
    /// One more than it has numbers.
    pub(super) pieces: Vec<TextSpan>,
}

impl SplitPattern {
    fn new(span: TextSpan, text: &[u8]) -> SplitPattern {
        let mut pieces = Vec::new();
        let mut start = span.start;
        for (at, &byte) in (span.start..).zip(&text[span.range()]) {
            if byte == SLOT {
                pieces.push(TextSpan { start, end: at });
                start = at + 1;
            }
        }
        pieces.push(TextSpan { start, end: span.end });
        SplitPattern { span, pieces }
    }

    /// Its text, with a mark for each number.
    pub(super) fn span(&self) -> TextSpan {
        self.span
    }

    /// Number of numbers in it.
    pub(super) fn slots(&self) -> usize {
        self.pieces.len() - 1
    }
}

impl PatternTexts {
    /// Passes over a column. Its indices are only read where they tell how many numbers there are.
    pub(super) fn skip(count: usize, cursor: &mut SectionCursor<'_>) -> Result<(), PageError> {
        let (entries, indices) = entries::locate(count, cursor)?;
        let slots_of = |span: &TextSpan| memchr::memchr_iter(SLOT, &cursor.text[span.range()]).count();
        let slots: Vec<usize> = entries.iter().map(slots_of).collect();
        let most = slots.iter().copied().max().unwrap_or(0);
        if most > NUMBERS_MAX {
            return Err(PageError::Damaged("a pattern has too many numbers"));
        }
        let mut having = [count; NUMBERS_MAX];
        if slots.iter().any(|slots| *slots != most) {
            entries::check(&entries, &indices, count, cursor)?;
            having = [0; NUMBERS_MAX];
            indices.each(cursor.packed, count, |_, pattern| {
                having[..slots[pattern as usize]].iter_mut().for_each(|having| *having += 1);
            });
        }
        having[..most].iter().try_for_each(|having| Ints::locate(*having, cursor).map(drop))
    }

    pub(super) fn decode(count: usize, cursor: &mut SectionCursor<'_>) -> Result<PatternTexts, PageError> {
        let (entries, indices) = entries::decode(count, cursor)?;
        let patterns: Vec<SplitPattern> = entries.iter().map(|span| SplitPattern::new(*span, &cursor.text)).collect();
        // [`entries::decode`] checked that every index names one of at most 256 patterns.
        let packed = indices;
        let mut indices = vec![0; count];
        packed.each(cursor.packed, count, |index, pattern| indices[index] = pattern as u8);

        // The number of values with a slot is the number of uses of patterns with at least that many slots.
        let mut uses = [0usize; ENTRIES_MAX];
        indices.iter().for_each(|&index: &u8| uses[usize::from(index)] += 1);
        let slots = patterns.iter().map(SplitPattern::slots).max().unwrap_or(0);
        if slots > NUMBERS_MAX {
            return Err(PageError::Damaged("a pattern has too many numbers"));
        }
        let mut numbers = Vec::with_capacity(slots);
        let (mut is_even, mut length) = (true, 0usize);
        for slot in 0..slots {
            let having = uses.iter().zip(&patterns).filter(|(_, pattern)| pattern.slots() > slot);
            let having = having.map(|(uses, _)| uses).sum();
            is_even &= having == count;
            numbers.push(Ints::decode(having, cursor)?);
            length = length.saturating_add(having.saturating_mul(decimal::DIGITS_MAX));
        }
        for (uses, pattern) in uses.iter().zip(&patterns) {
            length = length.saturating_add(uses.saturating_mul(pattern.span.range().len()));
        }
        cursor.reserve_text(length)?;
        Ok(PatternTexts { patterns, indices, numbers, is_even, printed: OnceLock::new() })
    }

    /// The texts of the patterns.
    pub(super) fn entries(&self) -> impl Iterator<Item = TextSpan> + '_ {
        self.patterns.iter().map(|pattern| pattern.span)
    }

    /// Whether all values were printed.
    pub(super) fn is_printed(&self) -> bool {
        self.printed.get().is_some()
    }

    /// A value; all are printed with the first.
    pub(super) fn value(&self, packed: &[u8], text: &str, index: usize) -> Option<&str> {
        let (printed, ends) = self.printed.get_or_init(|| self.print_all(packed, text));
        let start = index.checked_sub(1).map_or(Some(0), |before| ends.get(before).copied())?;
        printed.get(start as usize..*ends.get(index)? as usize)
    }

    /// Whether every value has every slot.
    pub(super) fn is_even(&self) -> bool {
        self.is_even
    }

    /// Appends one value.
    pub(super) fn print(&self, packed: &[u8], text: &str, index: usize, out: &mut String) {
        let pattern = &self.patterns[usize::from(self.indices[index])];
        let mut ranks = [index; NUMBERS_MAX];
        if !self.is_even {
            ranks.iter_mut().take(pattern.slots()).enumerate().for_each(|(slot, rank)| *rank = self.rank(slot, index));
        }
        self.print_ranked(packed, text, pattern, &ranks, out);
    }

    /// Appends one value whose numbers are known by their ranks.
    pub(super) fn print_ranked(
        &self,
        packed: &[u8],
        text: &str,
        pattern: &SplitPattern,
        ranks: &[usize; NUMBERS_MAX],
        out: &mut String,
    ) {
        out.push_str(text.get(pattern.pieces[0].range()).unwrap_or_default());
        for ((piece, ints), rank) in pattern.pieces[1..].iter().zip(&self.numbers).zip(ranks) {
            put_decimal(out, u64::try_from(ints.get(packed, *rank)).unwrap_or(0));
            out.push_str(text.get(piece.range()).unwrap_or_default());
        }
    }

    /// Which number of a slot a value has.
    #[inline]
    pub(super) fn rank(&self, slot: usize, index: usize) -> usize {
        if self.is_even {
            return index;
        }
        self.indices[..index].iter().filter(|&&index| self.patterns[usize::from(index)].slots() > slot).count()
    }

    /// Adds the numbers of some values to the ranks of the first one's numbers.
    pub(super) fn add_ranks(&self, indices: &[u8], ranks: &mut [usize; NUMBERS_MAX]) {
        for index in indices {
            ranks[..self.patterns[usize::from(*index)].slots()].iter_mut().for_each(|rank| *rank += 1);
        }
    }

    /// Passes each value of `indices` with the rank of its numbers, in order.
    pub(super) fn each_rank(&self, mut each: impl FnMut(usize, &SplitPattern, &[usize; NUMBERS_MAX])) {
        let mut ranks = [0usize; NUMBERS_MAX];
        for (index, &pattern) in self.indices.iter().enumerate() {
            let pattern = &self.patterns[usize::from(pattern)];
            each(index, pattern, &ranks);
            ranks[..pattern.slots()].iter_mut().for_each(|rank| *rank += 1);
        }
    }

    fn print_all(&self, packed: &[u8], text: &str) -> (String, Vec<u32>) {
        let pieces: Vec<Vec<TextPiece>> = self
            .patterns
            .iter()
            .map(|pattern| pattern.pieces.iter().map(|piece| TextPiece::new(&text.as_bytes()[piece.range()])).collect())
            .collect();
        let mut out = Vec::with_capacity(16 * self.indices.len());
        let mut ends = Vec::with_capacity(self.indices.len());
        let mut next = [0usize; NUMBERS_MAX];
        for &index in &self.indices {
            let pieces = &pieces[usize::from(index)];
            pieces[0].put(&mut out);
            for ((piece, ints), next) in pieces[1..].iter().zip(&self.numbers).zip(&mut next) {
                put_digits(&mut out, u64::try_from(ints.get(packed, *next)).unwrap_or(0));
                *next += 1;
                piece.put(&mut out);
            }
            // [`SectionCursor::reserve_text`] bounds the length.
            ends.push(u32::try_from(out.len()).unwrap_or(u32::MAX));
        }
        // The pieces begin and end at characters, which the page checked.
        (String::from_utf8(out).unwrap_or_default(), ends)
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

/// Appends a number to a text.
fn put_decimal(out: &mut String, number: u64) {
    // Only digits.
    out.push_str(std::str::from_utf8(digits(number, &mut [0; decimal::DIGITS_MAX])).unwrap_or_default());
}

#[inline]
fn put_digits(out: &mut Vec<u8>, number: u64) {
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
    out.extend_from_slice(digits(number, &mut [0; decimal::DIGITS_MAX]));
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
                SLOT => put_digits(&mut out, numbers.next().expect("a number a slot").cast_unsigned()),
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
            prop_assert_eq!(&String::from_utf8(rebuild(&pattern, &numbers)).expect("text"), &value);
            let (mut splitter, mut joined) = (TextSplitter::default(), String::new());
            let (pattern, numbers) = splitter.split(&value).expect("no slot of its own");
            TextSplitter::join(pattern, numbers, &mut joined);
            prop_assert_eq!(joined, value);
        }

        /// A short pattern is that of the other way to split, where it is short and has few numbers.
        #[test]
        fn short_patterns_are_those_of_all_texts(
            value in prop_oneof!["([a-zé\u{1a}]{0,2}[0-9]{0,20}){0,5}", "[a-z]{40,50}[0-9]{0,3}", "(0?[0-9]{1,3}[.]){3,6}"],
        ) {
            let mut splitter = TextSplitter::default();
            let runs = value.as_bytes().chunk_by(|a, b| a.is_ascii_digit() == b.is_ascii_digit());
            let runs = runs.filter(|run| run[0].is_ascii_digit()).count();
            let expected = splitter.split(&value).filter(|(pattern, _)| {
                pattern.len() <= SHORT_PATTERN_BYTES && (1..=SHORT_PATTERN_NUMBERS).contains(&runs)
            });
            let short = ShortPattern::of(&value);
            prop_assert_eq!(short.as_ref().map(|short| (short.pattern(), short.numbers())), expected);
        }
    }
}
