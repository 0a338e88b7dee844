//! A column of texts, in the shortest of four forms.
//!
//! ```text
//! strings := dictionary | hex | pattern | plain                         which one: the column's form
//! dictionary := entries     [index, as many bits as the last one has]*  packed      one entry: all values are the same
//! hex        := length varint                                [byte]*    packed      all values the same even length
//! pattern    := entries     [index]* packed     ints *slots             each over the values that have such a slot
//! plain      := ints                                                    lengths; the bytes lie in the strings
//! entries    := count varint   length varint *count                     the bytes lie in the strings
//! ```
//!
//! A pattern is a text whose numbers were taken out, each leaving [`SLOT`] behind: addresses, paths with an id and most
//! messages are a few patterns and numbers, and packed numbers need neither their digits nor zstd (the idea is CLP's:
//! Rodrigues et al., OSDI 2021). Hexadecimal of fixed length, as trace ids have it, is stored as the bytes it names.

use super::PageError;
use super::bits::{Bits, Cursor, Sections, Span, pack, put_varint, width_of};
use super::hex;
use super::ints::{Ints, Plan};
use xxhash_rust::xxh3::xxh3_64;

/// Different texts of a dictionary at most.
const ENTRIES_MAX: usize = 256;
/// Numbers that are taken out of one text at most; further digits stay in the pattern.
const NUMBERS_MAX: usize = 8;
/// What a number leaves in its pattern: the ASCII character "substitute". A text that has it of its own is no pattern.
const SLOT: u8 = 0x1a;
/// Digits of a number that always fits an `i64`.
const DIGITS_MAX: usize = 18;
/// The shortest text that is tried as hexadecimal.
const HEX_LENGTH_MIN: usize = 8;

/// How a column of texts is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Form {
    Dictionary = 0,
    Hex = 1,
    Pattern = 2,
    Plain = 3,
}

impl Form {
    pub(super) fn from_code(code: u8) -> Option<Form> {
        [Form::Dictionary, Form::Hex, Form::Pattern, Form::Plain].into_iter().find(|form| *form as u8 == code)
    }
}

/// Writes a column the shortest way, and says which that was.
pub(super) fn encode(values: &[&str], out: &mut Sections) -> Form {
    if let Some((first, rest)) = values.split_first()
        && rest.iter().all(|value| value == first)
    {
        put_varint(&mut out.meta, 1);
        put_varint(&mut out.meta, first.len() as u64);
        out.strings.extend_from_slice(first.as_bytes());
        return Form::Dictionary;
    }
    let dictionary = Indexed::of(values);
    // Few entries for many values: nothing else comes near it.
    if let Some(dictionary) = dictionary.as_ref().filter(|d| d.entries.len() <= 2 + values.len() / 8) {
        dictionary.write(out);
        return Form::Dictionary;
    }
    let dictionary_bits = dictionary.as_ref().map_or(usize::MAX, Indexed::bits);
    let bytes: usize = values.iter().map(|value| value.len()).sum();
    if 4 * bytes < dictionary_bits
        && let Some(length) = hex_length(values)
    {
        let start = out.packed.len();
        if values.iter().all(|value| hex::decode(value.as_bytes(), &mut out.packed)) {
            put_varint(&mut out.meta, (length / 2) as u64);
            return Form::Hex;
        }
        out.packed.truncate(start);
    }
    let lengths: Vec<i64> = values.iter().map(|value| value.len().cast_signed() as i64).collect();
    let lengths_plan = Plan::new(&lengths);
    // zstd comes to about a third on what is not a dictionary already.
    let plain_bits = 8 * bytes / 3 + lengths_plan.bits(lengths.len());
    if let Some(patterns) = Patterns::of(values, plain_bits.min(dictionary_bits)) {
        patterns.write(out);
        return Form::Pattern;
    }
    match dictionary {
        Some(dictionary) if dictionary_bits <= plain_bits => {
            dictionary.write(out);
            Form::Dictionary
        }
        _ => {
            lengths_plan.write(&lengths, out);
            for value in values {
                out.strings.extend_from_slice(value.as_bytes());
            }
            Form::Plain
        }
    }
}

/// The length that all values have, where they could be hexadecimal.
fn hex_length(values: &[&str]) -> Option<usize> {
    let length = values.first()?.len();
    let fits = length >= HEX_LENGTH_MIN && length % 2 == 0 && values.iter().all(|value| value.len() == length);
    fits.then_some(length)
}

/// Different texts, found by hash.
struct Entries {
    text: Vec<u8>,
    ends: Vec<usize>,
    /// One more than the entry's number; 0 is free. Four times as many as there can be entries.
    slots: [u16; 4 * ENTRIES_MAX],
}

impl Entries {
    fn new() -> Entries {
        Entries { text: Vec::new(), ends: Vec::new(), slots: [0; 4 * ENTRIES_MAX] }
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn entry(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.text[start..self.ends[index]]
    }

    /// The number of `value`; none where there are too many already.
    fn index(&mut self, value: &[u8]) -> Option<u8> {
        let mut slot = (hash(value) % self.slots.len() as u64) as usize;
        loop {
            match usize::from(self.slots[slot]) {
                0 if self.len() == ENTRIES_MAX => return None,
                0 => {
                    let index = u8::try_from(self.len()).ok()?;
                    self.text.extend_from_slice(value);
                    self.ends.push(self.text.len());
                    self.slots[slot] = u16::from(index) + 1;
                    return Some(index);
                }
                taken if self.entry(taken - 1) == value => return u8::try_from(taken - 1).ok(),
                _ => slot = (slot + 1) % self.slots.len(),
            }
        }
    }

    /// Bits of the entries and `count` indices, about: zstd halves the entries.
    fn bits(&self, count: usize) -> usize {
        4 * self.text.len() + 8 * self.len() + count * self.width() as usize
    }

    fn width(&self) -> u32 {
        width_of(self.len().saturating_sub(1) as u64)
    }

    fn write(&self, indices: &[u8], out: &mut Sections) {
        put_varint(&mut out.meta, self.len() as u64);
        for index in 0..self.len() {
            put_varint(&mut out.meta, self.entry(index).len() as u64);
        }
        out.strings.extend_from_slice(&self.text);
        pack(&mut out.packed, self.width(), indices.iter().map(|&index| u64::from(index)));
    }
}

/// Of a short text from two words that overlap, as most values are short.
#[inline]
fn hash(value: &[u8]) -> u64 {
    let mixed = |a: u64, b: u64| {
        let product =
            u128::from(a ^ 0x9e37_79b9_7f4a_7c15) * u128::from(b ^ 0xbf58_476d_1ce4_e5b9 ^ value.len() as u64);
        (product >> 64) as u64 ^ product as u64
    };
    match (value.first_chunk::<8>(), value.last_chunk::<8>()) {
        (Some(head), Some(tail)) if value.len() <= 16 => mixed(u64::from_le_bytes(*head), u64::from_le_bytes(*tail)),
        (Some(_), _) => xxh3_64(value),
        _ => mixed(value.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)), 0),
    }
}

/// Each value as an entry.
struct Indexed {
    entries: Entries,
    indices: Vec<u8>,
}

impl Indexed {
    /// None where the values are too different from each other.
    fn of(values: &[&str]) -> Option<Indexed> {
        let mut entries = Entries::new();
        let mut indices = Vec::with_capacity(values.len());
        let mut last = ("", None);
        for (seen, value) in values.iter().enumerate() {
            let index = match last {
                (text, Some(index)) if text == *value => index,
                _ => entries.index(value.as_bytes())?,
            };
            if entries.len() > 32 + seen / 2 {
                return None;
            }
            last = (*value, Some(index));
            indices.push(index);
        }
        Some(Indexed { entries, indices })
    }

    fn bits(&self) -> usize {
        self.entries.bits(self.indices.len())
    }

    fn write(&self, out: &mut Sections) {
        self.entries.write(&self.indices, out);
    }
}

/// Each value as a pattern and its numbers.
struct Patterns {
    patterns: Indexed,
    slots: [Vec<i64>; NUMBERS_MAX],
    plans: Vec<Plan>,
}

impl Patterns {
    /// None unless it takes fewer than `bits_max` bits.
    fn of(values: &[&str], bits_max: usize) -> Option<Patterns> {
        let mut patterns = Indexed { entries: Entries::new(), indices: Vec::with_capacity(values.len()) };
        let mut slots: [Vec<i64>; NUMBERS_MAX] = Default::default();
        let mut pattern = Vec::with_capacity(64);
        for (seen, value) in values.iter().enumerate() {
            split(value.as_bytes(), &mut pattern, &mut slots)?;
            patterns.indices.push(patterns.entries.index(&pattern)?);
            if patterns.entries.len() > 32 + seen / 8 {
                return None;
            }
        }
        let used = slots.iter().take_while(|numbers| !numbers.is_empty());
        let plans: Vec<Plan> = used.map(|numbers| Plan::new(numbers)).collect();
        let bits = patterns.bits() + plans.iter().zip(&slots).map(|(plan, n)| plan.bits(n.len())).sum::<usize>();
        (!plans.is_empty() && bits < bits_max).then_some(Patterns { patterns, slots, plans })
    }

    fn write(&self, out: &mut Sections) {
        self.patterns.write(out);
        for (plan, numbers) in self.plans.iter().zip(&self.slots) {
            plan.write(numbers, out);
        }
    }
}

/// Puts the pattern of `value` in `pattern` and each of its numbers behind those of its slot. A number is a run of
/// digits that writing the number gives back: without leading zeros. None for a text that has [`SLOT`] of its own.
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
            // What wraps has too many digits and is not used.
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

/// A column of texts as it is read.
#[derive(Debug)]
pub(super) enum Strings {
    /// Each value is one of a few.
    Dictionary { entries: Vec<Span>, indices: Bits },
    /// One behind the other, all of one length.
    Fixed { start: usize, length: usize },
    /// One behind the other; where each ends.
    Plain { start: u32, ends: Vec<u32> },
}

impl Strings {
    pub(super) fn decode(form: Form, count: usize, cursor: &mut Cursor<'_>) -> Result<Strings, PageError> {
        match form {
            Form::Dictionary => {
                let (entries, indices) = decode_entries(count, cursor)?;
                Ok(Strings::Dictionary { entries, indices })
            }
            Form::Hex => {
                let bytes = cursor.meta.count(cursor.packed.len())?;
                let all = bytes.checked_mul(count).ok_or(PageError::Damaged("a column is too long"))?;
                let at = cursor.packed(all)?;
                cursor.check_growth(2 * all)?;
                let start = cursor.text.len();
                hex::encode(&cursor.packed[at..at + all], &mut cursor.text);
                Ok(Strings::Fixed { start, length: 2 * bytes })
            }
            Form::Pattern => decode_patterns(count, cursor),
            Form::Plain => {
                let lengths = Ints::decode(count, cursor)?;
                let start = cursor.string(0)?.start;
                let mut ends = Vec::with_capacity(count);
                for index in 0..count {
                    let length = usize::try_from(lengths.get(cursor.packed, index));
                    let length = length.map_err(|_| PageError::Damaged("a text has a negative length"))?;
                    ends.push(cursor.string(length)?.end);
                }
                Ok(Strings::Plain { start, ends })
            }
        }
    }

    /// Where in the page's text value `index` lies.
    pub(super) fn span(&self, packed: &[u8], index: usize) -> std::ops::Range<usize> {
        match self {
            Strings::Dictionary { entries, indices } => {
                let entry = usize::try_from(indices.get(packed, index)).ok().and_then(|index| entries.get(index));
                entry.map_or(0..0, |span| span.range())
            }
            Strings::Fixed { start, length } => start + index * length..start + (index + 1) * length,
            Strings::Plain { start, ends } => {
                let begin = index.checked_sub(1).map_or(*start, |before| ends[before]);
                begin as usize..ends[index] as usize
            }
        }
    }
}

/// Entries and the packed indices into them, every one of which names an entry.
fn decode_entries(count: usize, cursor: &mut Cursor<'_>) -> Result<(Vec<Span>, Bits), PageError> {
    let number = cursor.meta.count(ENTRIES_MAX)?;
    let lengths = (0..number).map(|_| cursor.meta.count(usize::MAX)).collect::<Result<Vec<_>, _>>()?;
    let entries = lengths.into_iter().map(|length| cursor.string(length)).collect::<Result<Vec<_>, _>>()?;
    let last = (number as u64).checked_sub(1).ok_or(PageError::Damaged("a dictionary is empty"))?;
    let indices = cursor.bits(count, width_of(last))?;
    if !number.is_power_of_two() && (0..count).any(|index| indices.get(cursor.packed, index) > last) {
        return Err(PageError::Damaged("a value is not in its dictionary"));
    }
    Ok((entries, indices))
}

fn decode_patterns(count: usize, cursor: &mut Cursor<'_>) -> Result<Strings, PageError> {
    let (entries, indices) = decode_entries(count, cursor)?;
    let patterns: Vec<Pattern> = entries.iter().map(|span| Pattern::new(&cursor.text[span.range()])).collect();
    // `decode_entries` saw to it that they name a pattern; there are at most 256.
    let indices: Vec<u8> = (0..count).map(|index| indices.get(cursor.packed, index) as u8).collect();

    // How many values have a slot is how often the patterns with that many slots come.
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
    let start = Span::new(0, cursor.text.len())?.end;
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
        ends.push(Span::new(0, cursor.text.len())?.end);
    }
    Ok(Strings::Plain { start, ends })
}

/// A pattern taken apart: what is before its first number, and behind each.
struct Pattern {
    head: Piece,
    pieces: Vec<Piece>,
}

impl Pattern {
    fn new(pattern: &[u8]) -> Pattern {
        let mut pieces = pattern.split(|&byte| byte == SLOT).map(Piece::new);
        let head = pieces.next().unwrap_or(Piece::Short([0; 16], 0));
        Pattern { head, pieces: pieces.collect() }
    }
}

/// A piece of text. Most are short, and a copy of fixed size costs a fraction of one of any size.
enum Piece {
    Short([u8; 16], usize),
    Long(Vec<u8>),
}

impl Piece {
    fn new(text: &[u8]) -> Piece {
        let mut short = [0; 16];
        match short.get_mut(..text.len()) {
            Some(head) => {
                head.copy_from_slice(text);
                Piece::Short(short, text.len())
            }
            None => Piece::Long(text.to_vec()),
        }
    }

    #[inline]
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Piece::Short(text, length) => {
                let end = out.len() + length;
                out.extend_from_slice(text);
                out.truncate(end);
            }
            Piece::Long(text) => out.extend_from_slice(text),
        }
    }
}

#[inline]
fn put_decimal(out: &mut Vec<u8>, mut number: u64) {
    if number < 10_000 {
        // All four digits at once, the leading zeros shifted out.
        let (high, low) = (number as u32 / 100, number as u32 % 100);
        let digits = high / 10 | high % 10 << 8 | low / 10 << 16 | low % 10 << 24;
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

/// The inverse of [`split`], the plain way.
#[cfg(test)]
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::page::bits::PADDING;
    use proptest::prelude::*;

    fn round_trip(values: &[&str]) -> (Form, Vec<String>) {
        let mut out = Sections::default();
        let form = encode(values, &mut out);
        out.packed.extend([0; PADDING]);
        let growth = values.iter().map(|value| value.len()).sum();
        let mut cursor = Cursor::new(&out.packed, out.strings, &out.meta, growth);
        let strings = Strings::decode(form, values.len(), &mut cursor).expect("what was encoded");
        assert!(cursor.at_end());
        let text = |index| cursor.text[strings.span(&out.packed, index)].to_vec();
        (form, (0..values.len()).map(|index| String::from_utf8(text(index)).expect("text")).collect())
    }

    #[test]
    fn forms_of_what_logs_have() {
        let of = |make: fn(u64) -> String| (0..300).map(|n| make(xxh3_64(&[n as u8, 7]))).collect::<Vec<_>>();
        for (values, form) in [
            (of(|_| "GET".into()), Form::Dictionary),
            (of(|r| ["GET", "POST", "PUT"][r as usize % 3].into()), Form::Dictionary),
            (of(|r| format!("{r:016x}{r:016x}")), Form::Hex),
            (of(|r| format!("10.{}.{}.{}", r & 7, r >> 3 & 255, r >> 11 & 255)), Form::Pattern),
            (of(|r| format!("/api/v1/{}/{}", ["a", "b"][r as usize & 1], r >> 3 & 0xfff)), Form::Pattern),
            (of(|r| format!("took {}ms", r & 0xffff)), Form::Pattern),
            (of(|r| format!("{r:x}-{}", r as u8 as char)), Form::Plain),
        ] {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            let (got, back) = round_trip(&values);
            assert_eq!(got, form, "{}", values[0]);
            assert_eq!(back, values);
        }
    }

    fn value() -> impl Strategy<Value = String> {
        prop_oneof![".{0,20}", "[a-c]{0,2}", "[0-9a-f]{8}", "(a|é|\u{1a}|0)?[0-9]{0,20}[.:][0-9]{1,3}", "x[0-9]{1,4}y"]
    }

    proptest! {
        /// Any texts come back, whatever form they take.
        #[test]
        fn texts_round_trip(values in proptest::collection::vec(value(), 1..150)) {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            prop_assert_eq!(round_trip(&values).1, values);
        }

        /// So do texts that are all alike.
        #[test]
        fn like_texts_round_trip(values in prop_oneof![
            proptest::collection::vec("[0-9a-f]{10}", 1..150),
            proptest::collection::vec("a[0-9]{1,5}", 1..150),
            proptest::collection::vec("[1-9][0-9]?( [1-9][0-9]?){0,9}", 1..150),
            proptest::collection::vec("[ab]", 1..150),
        ]) {
            let values: Vec<&str> = values.iter().map(String::as_str).collect();
            prop_assert_eq!(round_trip(&values).1, values);
        }

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
