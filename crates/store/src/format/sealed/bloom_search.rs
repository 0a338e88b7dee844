//! Asks the Bloom index of a sealed file whether a row group, or a column of it, may have a text.

use super::bloom::{
    BloomSection, SECTION_GROUPS, SearchTerm, SectionAnswer, bits_bytes, each_position_of, is_long, layouts_of,
};
use super::damage::{damaged, guard};
use super::file::SealedFile;
use super::layout::PROPERTIES;
use super::trigrams;
use crate::StoreError;
use daytable_model::line::may_cross_escaped;
use daytable_model::needle::Needle;
use daytable_model::property::PropertyKind;
use daytable_model::words::is_word_character;
use parquet::file::reader::ChunkReader;
use std::sync::{Arc, PoisonError};

/// Answers that an open file remembers.
const ANSWERS_MAX: usize = 64;

impl SealedFile {
    /// Whether a row of a group may contain the needle, in a value or in its line. Reads some bytes of the Bloom index, and no
    /// column.
    pub fn may_have(&self, group: usize, needle: &Needle) -> Result<bool, StoreError> {
        if !self.trusts_statistics || self.has_in_host(needle) {
            return Ok(true);
        }
        let answer = self.bloom_answer(needle)?;
        let texts_may = answer.get(group / SECTION_GROUPS).is_none_or(|of| is_set(of.may, group));
        Ok(texts_may || self.others_may_have(group, needle))
    }

    /// Whether a text of a column of a property may contain the needle, by the column's number. The number of columns stands
    /// for the properties without a column.
    pub(super) fn column_may_have(&self, group: usize, column: usize, needle: &Needle) -> Result<bool, StoreError> {
        if !self.trusts_statistics {
            return Ok(true);
        }
        let answer = self.bloom_answer(needle)?;
        let of_column = answer.get(group / SECTION_GROUPS).and_then(|of| of.columns.get(column));
        Ok(of_column.is_none_or(|bits| is_set(*bits, group)))
    }

    /// Whether a value that is not a text may contain the needle.
    fn others_may_have(&self, group: usize, needle: &Needle) -> bool {
        let rest = self.opened.layout.rest();
        let of_column = |(number, column): (usize, &super::PropertyColumn)| {
            let leaf = PROPERTIES + number;
            column.kind != PropertyKind::String
                && needle.may_be_in(column.kind)
                && !self.is_absent(group, leaf)
                && self.may_be_in_numbers(group, leaf, needle)
        };
        needle.may_be_beside_strings()
            && (!self.is_absent(group, rest) || self.opened.layout.columns.iter().enumerate().any(of_column))
    }

    /// What each section tells about the needle.
    fn bloom_answer(&self, needle: &Needle) -> Result<Arc<[SectionAnswer]>, StoreError> {
        let known = || self.opened.bloom_answers.0.lock().unwrap_or_else(PoisonError::into_inner);
        let is_it = |term: &SearchTerm| *term.0 == *needle.text() && term.1 == *needle.words();
        if let Some((_, answer)) = known().iter().find(|(of, _)| is_it(of)) {
            return Ok(answer.clone());
        }
        let index = &self.opened.index;
        let sections = index.bloom.iter().zip(index.groups.chunks(SECTION_GROUPS));
        let answer = sections.map(|(section, groups)| self.section_answer(section, groups.len(), needle));
        let answer: Arc<[SectionAnswer]> = answer.collect::<Result<_, StoreError>>()?;
        let mut known = known();
        known.truncate(ANSWERS_MAX - 1);
        known.push_front(((needle.text().into(), needle.words().clone()), answer.clone()));
        Ok(answer)
    }

    fn section_answer(
        &self,
        section: &BloomSection,
        groups: usize,
        needle: &Needle,
    ) -> Result<SectionAnswer, StoreError> {
        let read = |at: usize, length: usize| {
            let at = section.at.saturating_add(at as u64);
            guard(&self.opened.path, "Bloom index", || self.opened.bytes.get_bytes(at, length))
        };
        let all = u64::MAX >> (64 - groups);
        let mut answer = SectionAnswer { may: all, columns: vec![all; section.columns.len()] };
        let bits = section.layouts..section.layouts + bits_bytes(section.positions, groups).unwrap_or_default();
        // A search text is text.
        let text = str::from_utf8(needle.text()).unwrap_or_default();
        let mut with_words = all;
        for word in needle.words().iter().map(|word| &**word).chain(long_parts(text)) {
            let mut positions = Vec::new();
            each_position_of(word.as_bytes(), section.positions, |position| positions.push(position));
            for position in positions {
                let bit = position * groups;
                let (first, last) = (bit / 8, (bit + groups - 1) / 8);
                let mut bytes = [0; 16];
                let stored = read(bits.start + first, last - first + 1)?;
                bytes[..stored.len()].copy_from_slice(&stored);
                with_words &= (u128::from_le_bytes(bytes) >> (bit % 8)) as u64;
                if with_words == 0 {
                    break;
                }
            }
        }
        // The words of an absent text are mostly enough. Then no more is read.
        let mut start = bits.end;
        for (of_column, positions) in answer.columns.iter_mut().zip(&section.columns) {
            let length = bits_bytes(*positions, groups).unwrap_or_default();
            *of_column &= if *positions == 0 { 0 } else { with_words };
            if *of_column != 0
                && let Some(positions) = trigrams::positions_of(needle.text(), *positions)
            {
                let stored = read(start, length)?;
                positions.for_each(|position| *of_column &= bits_at(&stored, position * groups));
            }
            start += length;
        }
        if section.layouts == 0 {
            return Ok(answer);
        }
        let layouts = layouts_of(&read(0, section.layouts)?)
            .ok_or_else(|| damaged(&self.opened.path, "Bloom index", "its layouts are not UTF-8".into()))?;
        if !layouts.iter().any(|layout| may_cross_escaped(layout, text)) {
            answer.may &= with_words;
            // Without any text, no column has the bits of a row group with a record of several rows.
            if section.columns.iter().any(|positions| *positions > 0) {
                answer.may &= answer.columns.iter().fold(0, |any, of_column| any | of_column);
            }
        }
        Ok(answer)
    }
}

/// The bit of a row group.
fn is_set(bits: u64, group: usize) -> bool {
    bits >> (group % SECTION_GROUPS) & 1 == 1
}

/// The 64 bits from a bit on.
fn bits_at(bytes: &[u8], bit: usize) -> u64 {
    let mut some = [0; 16];
    let from = bytes.get(bit / 8..).unwrap_or_default();
    let length = from.len().min(9);
    some[..length].copy_from_slice(&from[..length]);
    (u128::from_le_bytes(some) >> (bit % 8)) as u64
}

/// Parts of words in a text that are long enough to have keys, wherever the words go on.
fn long_parts(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c| !is_word_character(c)).filter(|part| is_long(part))
}
