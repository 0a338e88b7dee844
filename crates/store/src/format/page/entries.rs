//! A dictionary of texts, and indices into it.

use super::PageError;
use super::bits::{Bits, TextSpan, pack, put_varint, width_of};
use super::section_cursor::SectionCursor;
use super::sections::Sections;
use xxhash_rust::xxh3::xxh3_64;

/// Maximum number of texts of a dictionary.
pub(super) const ENTRIES_MAX: usize = 256;

/// Distinct texts, indexed by hash.
struct TextDictionary {
    text: Vec<u8>,
    ends: Vec<usize>,
    prints: Vec<Fingerprint>,
    /// The entry's number plus 1; 0 is free. Four times as many slots as entries.
    slots: [u16; 4 * ENTRIES_MAX],
}

/// The length of a text and two words: the whole text up to 16 bytes, otherwise a hash.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Fingerprint(usize, u64, u64);

impl Fingerprint {
    #[inline]
    pub(super) fn of(text: &[u8]) -> Fingerprint {
        let (head, tail) = match (text.first_chunk::<8>(), text.last_chunk::<8>()) {
            (Some(head), Some(tail)) if text.len() <= 16 => (u64::from_le_bytes(*head), u64::from_le_bytes(*tail)),
            (Some(_), _) => (xxh3_64(text), 0),
            _ => match (text.first_chunk::<4>(), text.last_chunk::<4>()) {
                (Some(head), Some(tail)) => (u32::from_le_bytes(*head).into(), u32::from_le_bytes(*tail).into()),
                _ => (text.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)), 0),
            },
        };
        Fingerprint(text.len(), head, tail)
    }

    fn is_text(&self) -> bool {
        self.0 <= 16
    }

    /// A number that differs for most different texts.
    #[inline]
    pub(super) fn mixed(&self) -> u64 {
        self.1 ^ self.2.rotate_left(29) ^ self.0 as u64
    }

    #[inline]
    fn slot(&self, slots: usize) -> usize {
        let mixed = self.mixed().wrapping_mul(0x9e37_79b9_7f4a_7c15);
        (mixed >> 32) as usize % slots
    }
}

impl TextDictionary {
    fn new() -> TextDictionary {
        TextDictionary { text: Vec::new(), ends: Vec::new(), prints: Vec::new(), slots: [0; 4 * ENTRIES_MAX] }
    }

    fn len(&self) -> usize {
        self.ends.len()
    }

    fn entry(&self, index: usize) -> &[u8] {
        let start = if index == 0 { 0 } else { self.ends[index - 1] };
        &self.text[start..self.ends[index]]
    }

    /// The number of `value`; `None` if the dictionary is full.
    #[inline]
    fn index(&mut self, value: &[u8]) -> Option<u8> {
        let print = Fingerprint::of(value);
        let mut slot = print.slot(self.slots.len());
        loop {
            match usize::from(self.slots[slot]) {
                0 => return self.add(value, print, slot),
                taken if self.prints[taken - 1] == print && (print.is_text() || self.entry(taken - 1) == value) => {
                    return u8::try_from(taken - 1).ok();
                }
                _ => slot = (slot + 1) % self.slots.len(),
            }
        }
    }

    fn add(&mut self, value: &[u8], print: Fingerprint, slot: usize) -> Option<u8> {
        let index = u8::try_from(self.len()).ok()?;
        self.text.extend_from_slice(value);
        self.ends.push(self.text.len());
        self.prints.push(print);
        self.slots[slot] = u16::from(index) + 1;
        Some(index)
    }

    /// Approximate bits of the entries and `count` indices: zstd halves the entries.
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

/// A column of values as indices into a dictionary.
pub(super) struct DictionaryColumn {
    entries: TextDictionary,
    indices: Vec<u8>,
}

impl DictionaryColumn {
    /// `None` if the values are too different.
    pub(super) fn of(values: &[&str]) -> Option<DictionaryColumn> {
        let mut indexed = DictionaryColumn::with_capacity(values.len());
        let mut last: Option<(&str, u8)> = None;
        for (seen, value) in values.iter().enumerate() {
            // Rows share long texts such as layouts.
            if let Some((_, index)) = last.filter(|(text, _)| std::ptr::eq(*text, *value)) {
                indexed.indices.push(index);
                continue;
            }
            indexed.push(value.as_bytes())?;
            last = indexed.indices.last().map(|index| (*value, *index));
            if indexed.len() > 32 + seen / 2 {
                return None;
            }
        }
        Some(indexed)
    }

    pub(super) fn with_capacity(values: usize) -> DictionaryColumn {
        DictionaryColumn { entries: TextDictionary::new(), indices: Vec::with_capacity(values) }
    }

    /// `None` if there are too many different values.
    #[inline]
    pub(super) fn push(&mut self, value: &[u8]) -> Option<()> {
        self.indices.push(self.entries.index(value)?);
        Some(())
    }

    /// Number of different values.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Approximate size in bits.
    pub(super) fn bits(&self) -> usize {
        self.entries.bits(self.indices.len())
    }

    /// The different values.
    pub(super) fn texts(&self) -> impl Iterator<Item = &str> {
        // They were pushed as text, or have a mark for each number.
        (0..self.len()).map(|entry| str::from_utf8(self.entries.entry(entry)).unwrap_or_default())
    }

    /// The number of each value.
    pub(super) fn indices(&self) -> &[u8] {
        &self.indices
    }

    pub(super) fn write(&self, out: &mut Sections) {
        self.entries.write(&self.indices, out);
    }
}

/// Decodes the entries and the packed indices; checks that every index names an entry.
pub(super) fn decode(count: usize, cursor: &mut SectionCursor<'_>) -> Result<(Vec<TextSpan>, Bits), PageError> {
    let (entries, indices) = locate(count, cursor)?;
    check(&entries, &indices, count, cursor)?;
    Ok((entries, indices))
}

/// Checks that every index names an entry.
pub(super) fn check(
    entries: &[TextSpan],
    indices: &Bits,
    count: usize,
    cursor: &SectionCursor<'_>,
) -> Result<(), PageError> {
    match indices.are_below(cursor.packed, count, entries.len()) {
        true => Ok(()),
        false => Err(PageError::Damaged("a value is not in its dictionary")),
    }
}

/// The entries and the packed indices, without a look at these.
pub(super) fn locate(count: usize, cursor: &mut SectionCursor<'_>) -> Result<(Vec<TextSpan>, Bits), PageError> {
    let number = cursor.meta.count(ENTRIES_MAX)?;
    let mut entries = Vec::with_capacity(number);
    for _ in 0..number {
        let length = cursor.meta.count(usize::MAX)?;
        entries.push(cursor.string(length)?);
    }
    let last = (number as u64).checked_sub(1).ok_or(PageError::Damaged("a dictionary is empty"))?;
    Ok((entries, cursor.bits(count, width_of(last))?))
}
