//! A column of texts, in the shortest of four forms.
//!
//! ```text
//! strings := dictionary | hex | pattern | plain                         which one: the column's form
//! dictionary := entries     [index, as many bits as the last one has]*  packed      one entry: all values are the same
//! hex        := length varint                                [byte]*    wide        all values the same even length
//! pattern    := entries     [index]* packed     ints *slots             over the values that have such a slot
//! plain      := ints                                                    lengths; the bytes lie in the strings
//! entries    := count varint   length varint *count                     the bytes lie in the strings
//! ```
//!
//! Hexadecimal text of a fixed length, such as trace ids, is stored as bytes. See [`super::entries`] for dictionaries
//! and [`super::pattern`] for patterns.

use super::PageError;
use super::bits::{BLOCK_ROWS, Bits, TextSpan, put_varint};
use super::entries::{self, DictionaryColumn};
use super::hex;
use super::ints::{Ints, IntsPlan};
use super::pattern::{PatternColumn, PatternTexts};
use super::section_cursor::SectionCursor;
use super::sections::Sections;
use std::sync::OnceLock;

/// The shortest text that is tried as hexadecimal.
pub(super) const HEX_LENGTH_MIN: usize = 8;

/// The form of a column of texts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StringForm {
    Dictionary = 0,
    Hex = 1,
    SplitPattern = 2,
    Plain = 3,
}

impl StringForm {
    pub(super) fn from_code(code: u8) -> Option<StringForm> {
        std::iter::successors(Some(StringForm::Dictionary), |form| form.next()).find(|form| *form as u8 == code)
    }

    /// The form behind this one. A match, so that the compiler asks for the place of a further one.
    fn next(self) -> Option<StringForm> {
        match self {
            StringForm::Dictionary => Some(StringForm::Hex),
            StringForm::Hex => Some(StringForm::SplitPattern),
            StringForm::SplitPattern => Some(StringForm::Plain),
            StringForm::Plain => None,
        }
    }
}

/// Writes a column in its shortest form and returns the form.
pub(super) fn encode(values: &[&str], out: &mut Sections) -> StringForm {
    encode_as(values, true, out)
}

/// The same, but if `may_expand` is false, without the forms whose values need more memory than their row accounts for.
pub(super) fn encode_as(values: &[&str], may_expand: bool, out: &mut Sections) -> StringForm {
    if let Some((first, rest)) = values.split_first()
        && rest.iter().all(|value| std::ptr::eq(*value, *first) || value == first)
    {
        put_varint(&mut out.meta, 1);
        put_varint(&mut out.meta, first.len() as u64);
        out.strings.extend_from_slice(first.as_bytes());
        out.words.add_text(first);
        return StringForm::Dictionary;
    }
    let dictionary = DictionaryColumn::of(values);
    // With few entries for many values, no other form is shorter.
    if let Some(dictionary) = dictionary.as_ref().filter(|d| d.len() <= 2 + values.len() / 8) {
        dictionary.write(out);
        dictionary.texts().for_each(|text| out.words.add_text(text));
        return StringForm::Dictionary;
    }
    let dictionary_bits = dictionary.as_ref().map_or(usize::MAX, DictionaryColumn::bits);
    let bytes: usize = values.iter().map(|value| value.len()).sum();
    if may_expand
        && 4 * bytes < dictionary_bits
        && let Some(length) = hex_length(values)
    {
        let start = out.wide.len();
        if values.iter().all(|value| hex::decode(value.as_bytes(), &mut out.wide)) {
            put_varint(&mut out.meta, (length / 2) as u64);
            out.words.add_hex(&out.wide[start..], length / 2);
            return StringForm::Hex;
        }
        out.wide.truncate(start);
    }
    // zstd reduces text that suits no dictionary to about a third.
    let text_bits = 8 * bytes / 3;
    let patterns = if may_expand { PatternColumn::of(values) } else { None };
    let patterns = patterns.filter(|patterns| patterns.bits() < dictionary_bits);
    if let Some(patterns) = patterns.as_ref().filter(|patterns| patterns.bits() < text_bits) {
        patterns.write(values, out);
        return StringForm::SplitPattern;
    }
    let lengths: Vec<i64> = values.iter().map(|value| value.len().cast_signed() as i64).collect();
    let lengths_plan = IntsPlan::new(&lengths);
    let plain_bits = text_bits + lengths_plan.bits(lengths.len());
    if let Some(patterns) = patterns.filter(|patterns| patterns.bits() < plain_bits) {
        patterns.write(values, out);
        return StringForm::SplitPattern;
    }
    match dictionary {
        Some(dictionary) if dictionary_bits <= plain_bits => {
            dictionary.write(out);
            dictionary.texts().for_each(|text| out.words.add_text(text));
            StringForm::Dictionary
        }
        _ => {
            lengths_plan.write(&lengths, out);
            for value in values {
                out.strings.extend_from_slice(value.as_bytes());
                out.words.add_text(value);
            }
            StringForm::Plain
        }
    }
}

/// The common length of all values if they may be hexadecimal.
fn hex_length(values: &[&str]) -> Option<usize> {
    let length = values.first()?.len();
    let fits = length >= HEX_LENGTH_MIN && length % 2 == 0 && values.iter().all(|value| value.len() == length);
    fits.then_some(length)
}
/// A decoded column of texts. Texts that are stored as bytes or as patterns stay so until they are needed.
#[derive(Debug)]
pub(super) enum Strings {
    /// All values are the same.
    Constant(TextSpan),
    /// Each value is one of a few.
    Dictionary { entries: Vec<TextSpan>, indices: Bits },
    /// Bytes in the packed section, which are the digits of the texts.
    Hex(HexTexts),
    /// Patterns and numbers.
    Patterns(Box<PatternTexts>),
    /// One after the other, with the end of each.
    Plain { start: u32, ends: Vec<u32> },
}

/// Texts of hexadecimal digits, all of one length.
#[derive(Debug)]
pub(super) struct HexTexts {
    start: usize,
    /// Bytes of each text.
    pub(super) width: usize,
    count: usize,
    digits: OnceLock<String>,
}

impl HexTexts {
    /// The bytes of all texts.
    pub(super) fn bytes<'p>(&self, packed: &'p [u8]) -> &'p [u8] {
        packed.get(self.start..self.start + self.width * self.count).unwrap_or_default()
    }

    fn digits(&self, packed: &[u8]) -> &str {
        self.digits.get_or_init(|| to_digits(self.bytes(packed)))
    }
}

fn to_digits(bytes: &[u8]) -> String {
    let mut digits = Vec::new();
    hex::encode(bytes, &mut digits);
    String::from_utf8(digits).unwrap_or_default()
}

impl Strings {
    pub(super) fn decode(form: StringForm, count: usize, cursor: &mut SectionCursor<'_>) -> Result<Strings, PageError> {
        match form {
            // A dictionary with one entry: nearly every column of a page with one record.
            StringForm::Dictionary if cursor.meta.rest().first() == Some(&1) => {
                cursor.meta.byte()?;
                let length = cursor.meta.count(usize::MAX)?;
                Ok(Strings::Constant(cursor.string(length)?))
            }
            StringForm::Dictionary => {
                let (entries, indices) = entries::decode(count, cursor)?;
                Ok(Strings::Dictionary { entries, indices })
            }
            StringForm::Hex => {
                let width = cursor.meta.count(cursor.wide_left())?;
                let all = width.checked_mul(count).ok_or(PageError::Damaged("a column is too long"))?;
                let start = cursor.wide(all)?;
                cursor.reserve_text(2 * all)?;
                Ok(Strings::Hex(HexTexts { start, width, count, digits: OnceLock::new() }))
            }
            StringForm::SplitPattern => Ok(Strings::Patterns(Box::new(PatternTexts::decode(count, cursor)?))),
            StringForm::Plain => {
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

    /// Passes over a column.
    pub(super) fn skip(form: StringForm, count: usize, cursor: &mut SectionCursor<'_>) -> Result<(), PageError> {
        match form {
            StringForm::Dictionary if cursor.meta.rest().first() != Some(&1) => {
                entries::locate(count, cursor).map(drop)
            }
            StringForm::Dictionary | StringForm::Hex => Strings::decode(form, count, cursor).map(drop),
            StringForm::SplitPattern => PatternTexts::skip(count, cursor),
            StringForm::Plain => {
                let lengths = Ints::locate(count, cursor)?;
                let (mut block, mut bytes) = ([0; BLOCK_ROWS], 0usize);
                for from in (0..count).step_by(BLOCK_ROWS) {
                    let block = &mut block[..BLOCK_ROWS.min(count - from)];
                    lengths.unpack(cursor.packed, from, block);
                    for length in block {
                        let length = usize::try_from(*length);
                        let length = length.map_err(|_| PageError::Damaged("a text has a negative length"))?;
                        bytes = bytes.saturating_add(length);
                    }
                }
                cursor.string(bytes).map(drop)
            }
        }
    }

    /// Whether every text begins and ends at a position that `is_boundary` accepts.
    pub(super) fn is_whole(&self, is_boundary: impl Fn(u32) -> bool) -> bool {
        let whole = |span: &TextSpan| is_boundary(span.start) && is_boundary(span.end);
        match self {
            Strings::Constant(span) => whole(span),
            Strings::Dictionary { entries, .. } => entries.iter().all(whole),
            Strings::Patterns(patterns) => patterns.entries().all(|span| whole(&span)),
            Strings::Plain { start, ends } => is_boundary(*start) && ends.iter().copied().all(is_boundary),
            Strings::Hex(_) => true,
        }
    }

    /// A value. If the column is stored in another form, the first call prints all its values.
    #[inline]
    pub(super) fn value<'p>(&'p self, packed: &[u8], text: &'p str, index: usize) -> Option<&'p str> {
        match self {
            Strings::Hex(hex) => hex.digits(packed).get(2 * hex.width * index..2 * hex.width * (index + 1)),
            Strings::Patterns(patterns) => patterns.value(packed, text, index),
            stored => text.get(stored.span(packed, index)),
        }
    }

    /// A value. If it is stored in another form, it is printed alone to `room`.
    #[inline]
    pub(super) fn value_in<'p>(
        &'p self,
        packed: &[u8],
        text: &'p str,
        index: usize,
        room: &'p mut String,
    ) -> Option<&'p str> {
        match self {
            Strings::Hex(hex) if hex.digits.get().is_none() => {
                let bytes = hex.bytes(packed).get(hex.width * index..hex.width * (index + 1))?;
                let mut digits = std::mem::take(room).into_bytes();
                digits.clear();
                hex::encode(bytes, &mut digits);
                *room = String::from_utf8(digits).ok()?;
                Some(room)
            }
            Strings::Patterns(patterns) if !patterns.is_printed() => {
                room.clear();
                patterns.print(packed, text, index, room);
                Some(room)
            }
            other => other.value(packed, text, index),
        }
    }

    /// The position in the page's text of a value that is stored there.
    #[inline]
    pub(super) fn span(&self, packed: &[u8], index: usize) -> std::ops::Range<usize> {
        match self {
            Strings::Constant(span) => span.range(),
            Strings::Dictionary { entries, indices } => {
                let entry = usize::try_from(indices.get(packed, index)).ok().and_then(|index| entries.get(index));
                entry.map_or(0..0, |span| span.range())
            }
            Strings::Plain { start, ends } => {
                let begin = index.checked_sub(1).map_or(*start, |before| ends[before]);
                begin as usize..ends[index] as usize
            }
            Strings::Hex(_) | Strings::Patterns(_) => 0..0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::page::bits::PADDING;
    use proptest::prelude::*;
    use xxhash_rust::xxh3::xxh3_64;

    fn round_trip(values: &[&str]) -> (StringForm, Vec<String>) {
        let mut out = Sections::default();
        let form = encode(values, &mut out);
        let (packed, wide) = (out.packed.len(), out.wide.len());
        out.packed.append(&mut out.wide);
        out.packed.extend([0; PADDING]);
        let growth = values.iter().map(|value| value.len()).sum();
        let mut cursor = SectionCursor::of_only((&out.packed, packed, wide), out.strings, &out.meta, growth);
        let strings = Strings::decode(form, values.len(), &mut cursor).expect("what was encoded");
        assert!(cursor.at_end());
        let text = String::from_utf8(cursor.text).expect("text");
        assert!(strings.is_whole(|at| text.is_char_boundary(at as usize)));
        let mut room = String::new();
        let alone: Vec<String> = (0..values.len())
            .map(|index| strings.value_in(&out.packed, &text, index, &mut room).expect("a value").to_owned())
            .collect();
        let value = |index| strings.value(&out.packed, &text, index).expect("a value").to_owned();
        let all: Vec<String> = (0..values.len()).map(value).collect();
        assert_eq!(alone, all);
        (form, all)
    }

    #[test]
    fn forms_of_typical_texts() {
        let of = |make: fn(u64) -> String| (0..300).map(|n| make(xxh3_64(&[n as u8, 7]))).collect::<Vec<_>>();
        for (values, form) in [
            (of(|_| "GET".into()), StringForm::Dictionary),
            (of(|r| ["GET", "POST", "PUT"][r as usize % 3].into()), StringForm::Dictionary),
            (of(|r| format!("{r:016x}{r:016x}")), StringForm::Hex),
            (of(|r| format!("10.{}.{}.{}", r & 7, r >> 3 & 255, r >> 11 & 255)), StringForm::SplitPattern),
            (of(|r| format!("/api/v1/{}/{}", ["a", "b"][r as usize & 1], r >> 3 & 0xfff)), StringForm::SplitPattern),
            (of(|r| format!("took {}ms", r & 0xffff)), StringForm::SplitPattern),
            (of(|r| format!("{r:x}-{}", r as u8 as char)), StringForm::Plain),
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
        /// Any texts are read back, in every form.
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
    }
}
