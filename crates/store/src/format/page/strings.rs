//! A column of texts, in the shortest of four forms.
//!
//! ```text
//! strings := dictionary | hex | pattern | plain                         which one: the column's form
//! dictionary := entries     [index, as many bits as the last one has]*  packed      one entry: all values are the same
//! hex        := length varint                                [byte]*    packed      all values the same even length
//! pattern    := entries     [index]* packed     ints *slots             over the values that have such a slot
//! plain      := ints                                                    lengths; the bytes lie in the strings
//! entries    := count varint   length varint *count                     the bytes lie in the strings
//! ```
//!
//! Hexadecimal text of a fixed length, such as trace ids, is stored as bytes. See [`super::entries`] for dictionaries
//! and [`super::pattern`] for patterns.

use super::PageError;
use super::bits::{Bits, SectionCursor, Sections, TextSpan, put_varint};
use super::entries::{self, DictionaryColumn};
use super::hex;
use super::ints::{Ints, IntsPlan};
use super::pattern::{self, PatternColumn};

/// The shortest text that is tried as hexadecimal.
const HEX_LENGTH_MIN: usize = 8;

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
        [StringForm::Dictionary, StringForm::Hex, StringForm::SplitPattern, StringForm::Plain]
            .into_iter()
            .find(|form| *form as u8 == code)
    }
}

/// Writes a column in its shortest form and returns the form.
pub(super) fn encode(values: &[&str], out: &mut Sections) -> StringForm {
    if let Some((first, rest)) = values.split_first()
        && rest.iter().all(|value| value == first)
    {
        put_varint(&mut out.meta, 1);
        put_varint(&mut out.meta, first.len() as u64);
        out.strings.extend_from_slice(first.as_bytes());
        return StringForm::Dictionary;
    }
    let dictionary = DictionaryColumn::of(values);
    // With few entries for many values, no other form is shorter.
    if let Some(dictionary) = dictionary.as_ref().filter(|d| d.len() <= 2 + values.len() / 8) {
        dictionary.write(out);
        return StringForm::Dictionary;
    }
    let dictionary_bits = dictionary.as_ref().map_or(usize::MAX, DictionaryColumn::bits);
    let bytes: usize = values.iter().map(|value| value.len()).sum();
    if 4 * bytes < dictionary_bits
        && let Some(length) = hex_length(values)
    {
        let start = out.packed.len();
        if values.iter().all(|value| hex::decode(value.as_bytes(), &mut out.packed)) {
            put_varint(&mut out.meta, (length / 2) as u64);
            return StringForm::Hex;
        }
        out.packed.truncate(start);
    }
    // zstd reduces text that suits no dictionary to about a third.
    let text_bits = 8 * bytes / 3;
    let patterns = PatternColumn::of(values).filter(|patterns| patterns.bits() < dictionary_bits);
    if let Some(patterns) = patterns.as_ref().filter(|patterns| patterns.bits() < text_bits) {
        patterns.write(out);
        return StringForm::SplitPattern;
    }
    let lengths: Vec<i64> = values.iter().map(|value| value.len().cast_signed() as i64).collect();
    let lengths_plan = IntsPlan::new(&lengths);
    let plain_bits = text_bits + lengths_plan.bits(lengths.len());
    if let Some(patterns) = patterns.filter(|patterns| patterns.bits() < plain_bits) {
        patterns.write(out);
        return StringForm::SplitPattern;
    }
    match dictionary {
        Some(dictionary) if dictionary_bits <= plain_bits => {
            dictionary.write(out);
            StringForm::Dictionary
        }
        _ => {
            lengths_plan.write(&lengths, out);
            for value in values {
                out.strings.extend_from_slice(value.as_bytes());
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
/// A decoded column of texts.
#[derive(Debug)]
pub(super) enum Strings {
    /// All values are the same.
    Constant(TextSpan),
    /// Each value is one of a few.
    Dictionary { entries: Vec<TextSpan>, indices: Bits },
    /// One after the other, all of one length.
    Fixed { start: usize, length: usize },
    /// One after the other, with the end of each.
    Plain { start: u32, ends: Vec<u32> },
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
                let bytes = cursor.meta.count(cursor.packed.len())?;
                let all = bytes.checked_mul(count).ok_or(PageError::Damaged("a column is too long"))?;
                let at = cursor.packed(all)?;
                cursor.check_growth(2 * all)?;
                let start = cursor.text.len();
                hex::encode(&cursor.packed[at..at + all], &mut cursor.text);
                Ok(Strings::Fixed { start, length: 2 * bytes })
            }
            StringForm::SplitPattern => {
                let (start, ends) = pattern::decode(count, cursor)?;
                Ok(Strings::Plain { start, ends })
            }
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

    /// The position of a value in the page's text.
    #[inline]
    pub(super) fn span(&self, packed: &[u8], index: usize) -> std::ops::Range<usize> {
        match self {
            Strings::Constant(span) => span.range(),
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::page::bits::PADDING;
    use proptest::prelude::*;
    use xxhash_rust::xxh3::xxh3_64;

    fn round_trip(values: &[&str]) -> (StringForm, Vec<String>) {
        let mut out = Sections::default();
        let form = encode(values, &mut out);
        out.packed.extend([0; PADDING]);
        let growth = values.iter().map(|value| value.len()).sum();
        let mut cursor = SectionCursor::new(&out.packed, out.strings, &out.meta, growth);
        let strings = Strings::decode(form, values.len(), &mut cursor).expect("what was encoded");
        assert!(cursor.at_end());
        let text = |index| cursor.text[strings.span(&out.packed, index)].to_vec();
        (form, (0..values.len()).map(|index| String::from_utf8(text(index)).expect("text")).collect())
    }

    #[test]
    fn forms_of_what_logs_have() {
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
    }
}
