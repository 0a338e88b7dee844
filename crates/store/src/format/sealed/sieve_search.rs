//! Asks the sieve of a sealed file whether a row group may have a text.

use super::damage::{damaged, guard};
use super::file::SealedFile;
use super::layout::PROPERTIES;
use super::sieve::{SECTION_GROUPS, SieveSection, Sought, layouts_of, positions_of};
use crate::StoreError;
use daytable_model::line::may_cross_escaped;
use daytable_model::needle::Needle;
use daytable_model::property::PropertyKind;
use parquet::file::reader::ChunkReader;
use std::sync::{Arc, PoisonError};

/// Answers that an open file remembers.
const ANSWERS_MAX: usize = 64;

impl SealedFile {
    /// Whether a row of a group may contain the needle, in a value or in its line. Reads a few bytes of the sieve, and no
    /// column.
    pub fn may_have(&self, group: usize, needle: &Needle) -> Result<bool, StoreError> {
        if needle.words().is_empty() || !self.trusts_statistics {
            return Ok(true);
        }
        let sections = self.sections_that_may_have(needle)?;
        let texts_may =
            sections.get(group / SECTION_GROUPS).is_none_or(|bits| bits >> (group % SECTION_GROUPS) & 1 == 1);
        Ok(texts_may || self.others_may_have(group, needle))
    }

    /// Whether a value that is no text may contain the needle.
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

    /// By section: a bit a row group.
    fn sections_that_may_have(&self, needle: &Needle) -> Result<Arc<[u64]>, StoreError> {
        let known = || self.opened.sieve_answers.0.lock().unwrap_or_else(PoisonError::into_inner);
        let sought: Sought = (needle.text().into(), needle.words().clone());
        if let Some((_, answer)) = known().iter().find(|(of, _)| *of == sought) {
            return Ok(answer.clone());
        }
        let index = &self.opened.index;
        let sections = index.sieve.iter().zip(index.groups.chunks(SECTION_GROUPS));
        let answer = sections.map(|(section, groups)| self.section_may_have(section, groups.len(), needle));
        let answer: Arc<[u64]> = answer.collect::<Result<_, StoreError>>()?;
        let mut known = known();
        known.truncate(ANSWERS_MAX - 1);
        known.push_front((sought, answer.clone()));
        Ok(answer)
    }

    fn section_may_have(&self, section: &SieveSection, groups: usize, needle: &Needle) -> Result<u64, StoreError> {
        let read = |at: usize, length: usize| {
            let at = section.at.saturating_add(at as u64);
            guard(&self.opened.path, "sieve", || self.opened.bytes.get_bytes(at, length))
        };
        let all = u64::MAX >> (64 - groups);
        if section.layouts == 0 {
            return Ok(all);
        }
        let layouts = layouts_of(&read(0, section.layouts)?)
            .ok_or_else(|| damaged(&self.opened.path, "sieve", "its layouts are no texts".into()))?;
        // A search text is text.
        let text = str::from_utf8(needle.text()).unwrap_or_default();
        if layouts.iter().any(|layout| may_cross_escaped(layout, text)) {
            return Ok(all);
        }
        let mut may = all;
        for position in needle.words().iter().flat_map(|word| positions_of(word.as_bytes(), section.positions)) {
            let bit = position * groups;
            let (first, last) = (bit / 8, (bit + groups - 1) / 8);
            let mut bytes = [0; 16];
            let stored = read(section.layouts + first, last - first + 1)?;
            bytes[..stored.len()].copy_from_slice(&stored);
            may &= (u128::from_le_bytes(bytes) >> (bit % 8)) as u64;
            if may == 0 {
                break;
            }
        }
        Ok(may)
    }
}
