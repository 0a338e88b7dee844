//! A prefilter for sealed files: which rows may contain a text or have a level, found with as little decoding as
//! possible. A record of several rows matches as a whole.
//!
//! A page stores its texts one after the other. A search through its bytes excludes the page if the text does not
//! occur; only a page with a hit is decoded. The hit may span two texts, or lie in a length. Numbers are printed if
//! the text can occur in a number at all. The dictionary alone decides about a page of its indices: without a hit in
//! the dictionary, such pages are not even decompressed.

use super::block::{BlockColumn, RowBlock};
use super::damage::guard;
use super::file::SealedFile;
use super::layout::{ITEM, PROPERTIES};
use crate::StoreError;
use daytable_model::entity::MULTI_ROW_PROPERTIES;
use daytable_model::line::LAYOUT;
use daytable_model::needle::Needle;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::record::Level;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::statistics::Statistics;
use std::ops::Range;

impl SealedFile {
    /// For each of some rows, whether any of its properties may contain the needle. The master of a record of several
    /// rows always may: the text may be in another row, or span two.
    pub(crate) fn may_contain(
        &self,
        group: usize,
        ranges: &[Range<usize>],
        needle: &Needle,
    ) -> Result<Vec<bool>, StoreError> {
        self.rows_with(group, ranges, needle, &mut |_| ())
    }

    /// The same. Passes the number of each column in which the needle was found, or which has the host's name. The number of
    /// columns stands for the properties without a column.
    pub(crate) fn rows_with(
        &self,
        group: usize,
        ranges: &[Range<usize>],
        needle: &Needle,
        found_in: &mut dyn FnMut(usize),
    ) -> Result<Vec<bool>, StoreError> {
        let rows = ranges.iter().map(Range::len).sum();
        if self.has_in_host(needle) {
            (0..=self.opened.layout.columns.len()).for_each(found_in);
            return Ok(vec![true; rows]);
        }
        let mut found = vec![false; rows];
        if !self.may_have(group, needle)? {
            return Ok(found);
        }
        for (number, column) in self.opened.layout.columns.iter().enumerate() {
            let leaf = PROPERTIES + number;
            let spread = MULTI_ROW_PROPERTIES.contains(&(&*column.property, column.kind));
            if !spread && !needle.may_be_in(column.kind) || self.is_absent(group, leaf) {
                continue;
            }
            if spread {
                let levels = self.values(group, leaf, column.kind, ranges)?.1;
                found.iter_mut().zip(levels).for_each(|(found, level)| *found |= level > 0);
            } else if &*column.property == LAYOUT && column.kind == PropertyKind::String {
                let (texts, levels, _) = self.texts(group, leaf, ranges)?;
                let crosses = |text: &[u8]| Some(str::from_utf8(text).map_or(true, |layout| needle.may_cross(layout)));
                let hits = texts.read(crosses).ok_or_else(|| self.wrong(group, leaf, "a text is not there"))?;
                let mut hits = hits.into_iter();
                found
                    .iter_mut()
                    .zip(levels)
                    .for_each(|(found, level)| *found |= level > 0 && hits.next() == Some(true));
            } else if column.kind == PropertyKind::String {
                if self.column_may_have(group, number, needle)?
                    && self.mark_texts(group, leaf, ranges, needle, &mut found)?
                {
                    found_in(number);
                }
            } else if self.mark_others(group, leaf, column.kind, ranges, needle, &mut found)? {
                found_in(number);
            }
        }
        let rest = self.rest(group, ranges)?;
        if !rest.is_empty() {
            found_in(self.opened.layout.columns.len());
            RowBlock::new(Vec::new(), Vec::new(), rest).mark_containing(needle, &mut found);
        }
        Ok(found)
    }

    /// Marks the rows with a column of texts that contains the needle. False if there are none.
    fn mark_texts(
        &self,
        group: usize,
        leaf: usize,
        ranges: &[Range<usize>],
        needle: &Needle,
        found: &mut [bool],
    ) -> Result<bool, StoreError> {
        let has_it = |bytes: &[u8]| needle.finder().find(bytes).is_some();
        let pages = self.pages_with(group, leaf, ranges, has_it, has_it)?;
        if pages.is_empty() {
            return Ok(false);
        }
        let (texts, levels, _) = self.texts(group, leaf, &pages)?;
        let hits = texts.read(|text| Some(has_it(text)));
        let hits = hits.ok_or_else(|| self.wrong(group, leaf, "a text is not there"))?;
        if !hits.contains(&true) {
            return Ok(false);
        }
        let (mut hits, mut levels) = (hits.into_iter(), levels.into_iter());
        for rows in places(ranges, &pages) {
            for (found, level) in found[rows].iter_mut().zip(&mut levels) {
                *found |= level > 0 && hits.next() == Some(true);
            }
        }
        Ok(true)
    }

    /// Marks the rows with a column of other values that contains the needle; false if there are none. Statistics and
    /// dictionaries exclude values without reading them.
    fn mark_others(
        &self,
        group: usize,
        leaf: usize,
        kind: PropertyKind,
        ranges: &[Range<usize>],
        needle: &Needle,
        found: &mut [bool],
    ) -> Result<bool, StoreError> {
        if !self.may_be_in_numbers(group, leaf, needle) {
            return Ok(false);
        }
        let pages = match self.is_by_dictionary(group, leaf) {
            true => self.pages_with(group, leaf, ranges, |all| may_be_in_entries(kind, all, needle), |_| true)?,
            false => ranges.to_vec(),
        };
        if pages.is_empty() {
            return Ok(false);
        }
        let (stored, levels, which) = self.values(group, leaf, kind, &pages)?;
        let values = BlockColumn::new("".into(), kind, Some(&levels), which, stored);
        let mut hits = vec![false; pages.iter().map(Range::len).sum()];
        values.mark(&mut hits, |value| needle.is_in(value));
        let any = hits.contains(&true);
        let mut hits = hits.into_iter();
        for rows in places(ranges, &pages) {
            found[rows].iter_mut().zip(&mut hits).for_each(|(found, hit)| *found |= hit);
        }
        Ok(any)
    }

    /// Whether a column of whole numbers may contain the needle, judged by its least and greatest value. Other
    /// columns may.
    pub(super) fn may_be_in_numbers(&self, group: usize, leaf: usize, needle: &Needle) -> bool {
        let bounds = match self.opened.metadata.row_group(group).column(leaf).statistics() {
            // Times and booleans are stored as numbers but printed differently.
            _ if !self.trusts_statistics || !self.is_of_whole_numbers(leaf) => None,
            Some(Statistics::Int64(of)) => of.min_opt().copied().zip(of.max_opt().copied()),
            Some(Statistics::Int32(of)) => of.min_opt().map(|n| (*n).into()).zip(of.max_opt().map(|n| (*n).into())),
            _ => None,
        };
        bounds.is_none_or(|(least, most)| needle.may_be_between(least, most))
    }

    fn is_of_whole_numbers(&self, leaf: usize) -> bool {
        let column = self.opened.layout.columns.get(leaf - PROPERTIES);
        column.is_some_and(|column| matches!(column.kind, PropertyKind::Int64 | PropertyKind::Int32))
    }

    /// For each of some rows, whether its level is at least `level`. Items have no level.
    pub(crate) fn may_be_of_level(
        &self,
        group: usize,
        ranges: &[Range<usize>],
        level: Level,
    ) -> Result<Vec<bool>, StoreError> {
        let levels = self.levels_of(group, ranges)?.into_iter();
        Ok(levels.map(|code| Level::from_code(code) >= Some(level)).collect())
    }

    /// Marks items as their master is marked. The master precedes its items, because they share partition and key. If
    /// another row group begins between them, the items may belong to a matching record.
    pub(crate) fn mark_items(
        &self,
        group: usize,
        ranges: &[Range<usize>],
        found: &mut [bool],
    ) -> Result<(), StoreError> {
        let items = self.small_numbers(group, ITEM, ranges)?;
        let mut first = 0;
        for range in ranges {
            for row in (first..first + range.len()).filter(|row| items[*row] > 0) {
                let is_behind = row > first && items[row - 1] + 1 == items[row];
                found[row] = if is_behind { found[row - 1] } else { true };
            }
            first += range.len();
        }
        Ok(())
    }

    /// Whether all values of a column are entries of its dictionary.
    fn is_by_dictionary(&self, group: usize, leaf: usize) -> bool {
        let encodings = self.opened.metadata.row_group(group).column(leaf).page_encoding_stats_mask();
        encodings.is_some_and(|all| all.is_only(Encoding::RLE_DICTIONARY))
    }

    /// The parts of `ranges` in pages that may match: `dictionary` tests the entries of the dictionary, `values` a
    /// page of plain values.
    fn pages_with(
        &self,
        group: usize,
        leaf: usize,
        ranges: &[Range<usize>],
        dictionary: impl Fn(&[u8]) -> bool,
        values: impl Fn(&[u8]) -> bool,
    ) -> Result<Vec<Range<usize>>, StoreError> {
        guard(&self.opened.path, &format!("row group {group}, column {leaf}"), || {
            let by_dictionary = self.is_by_dictionary(group, leaf);
            let mut pages = self.pages(group, leaf)?;
            let mut dictionary_has_it = false;
            let mut row = 0;
            let mut found = Vec::new();
            while let Some(next) = pages.peek_next_page()? {
                if next.is_dict {
                    let Some(Page::DictionaryPage { buf, .. }) = pages.get_next_page()? else { return Err(unlike()) };
                    dictionary_has_it = dictionary(&buf);
                    if by_dictionary {
                        return Ok(if dictionary_has_it { ranges.to_vec() } else { Vec::new() });
                    }
                    continue;
                }
                let page = row..row + next.num_rows.ok_or_else(unlike)?;
                row = page.end;
                let first = ranges.partition_point(|range| range.end <= page.start);
                let of_page = ranges[first..].iter().take_while(|range| range.start < page.end);
                let of_page = of_page.map(|range| range.start.max(page.start)..range.end.min(page.end));
                if of_page.clone().next().is_none() {
                    pages.skip_next_page()?;
                    continue;
                }
                let may_have_it = match pages.get_next_page()?.ok_or_else(unlike)? {
                    Page::DataPage { encoding: Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY, .. } => {
                        dictionary_has_it
                    }
                    page => values(page.buffer()),
                };
                if may_have_it {
                    found.extend(of_page);
                }
            }
            Ok(found)
        })
    }
}

/// Whether an entry of a dictionary may contain the needle. Its entries are adjacent.
fn may_be_in_entries(kind: PropertyKind, entries: &[u8], needle: &Needle) -> bool {
    let is_in = |value| needle.is_in(value);
    match kind {
        PropertyKind::Int64 => entries.as_chunks().0.iter().any(|n| is_in(Property::Int64(i64::from_le_bytes(*n)))),
        PropertyKind::Int32 => entries.as_chunks().0.iter().any(|n| is_in(Property::Int32(i32::from_le_bytes(*n)))),
        PropertyKind::Double => entries.as_chunks().0.iter().any(|n| is_in(Property::Double(f64::from_le_bytes(*n)))),
        _ => true,
    }
}

/// The positions of the rows of `some` among the rows of `ranges`, which contain them.
fn places(ranges: &[Range<usize>], some: &[Range<usize>]) -> impl Iterator<Item = Range<usize>> {
    let (mut ranges, mut before) = (ranges.iter().peekable(), 0);
    some.iter().map(move |some| {
        while let Some(range) = ranges.next_if(|range| range.end <= some.start) {
            before += range.len();
        }
        let start = before + some.start - ranges.peek().map_or(some.start, |range| range.start);
        start..start + some.len()
    })
}

/// The offset index states the number of rows of a page, and that a dictionary page is one.
fn unlike() -> ParquetError {
    ParquetError::General("its pages differ from its index".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_found_among_those_of_ranges() {
        let found = |some: &[Range<usize>]| places(&[3..5, 8..20, 30..31], some).collect::<Vec<_>>();
        assert!(found(&[]).is_empty());
        assert_eq!(found(&[3..5, 8..10, 12..20, 30..31]), [0..2, 2..4, 6..14, 14..15]);
        assert_eq!(found(&[4..5, 19..20]), [1..2, 13..14]);
    }
}
