//! Which rows of a sealed file may have a text or a level, found out without reading more values than need be.
//!
//! A page holds its texts one behind the other, so a search through its bytes says at once that none of them has the
//! text; only a page with a hit is taken apart. The hit may lie over two texts, or in a length. Whether a page of numbers of a
//! dictionary can have a hit is known from the dictionary, and where it has none, such pages are not even decompressed.

use super::block::Block;
use super::file::{SealedFile, guard};
use super::layout::{ITEM, PROPERTIES};
use crate::entity::SPREAD;
use crate::property::Kind;
use crate::record::Level;
use crate::store::StoreError;
use memchr::memmem::Finder;
use parquet::basic::Encoding;
use parquet::column::page::{Page, PageReader};
use parquet::errors::{ParquetError, Result};
use std::ops::Range;

impl SealedFile {
    /// For each of some rows whether the text of any of its String properties may have the needle in it.
    pub(super) fn may_contain(
        &self,
        group: usize,
        ranges: &[Range<usize>],
        needle: &Finder<'_>,
    ) -> Result<Vec<bool>, StoreError> {
        let rows = ranges.iter().map(Range::len).sum();
        let mut found = vec![false; rows];
        for (number, column) in self.opened.layout.columns.iter().enumerate() {
            let leaf = PROPERTIES + number;
            let spread = SPREAD.contains(&(&*column.property, column.kind));
            if column.kind != Kind::String && !spread || self.is_absent(group, leaf) {
                continue;
            }
            if spread {
                let levels = self.values(group, leaf, column.kind, ranges)?.1;
                found.iter_mut().zip(levels).for_each(|(found, level)| *found |= level > 0);
                continue;
            }
            let pages = self.pages_with(group, leaf, ranges, needle)?;
            if pages.is_empty() {
                continue;
            }
            let (texts, levels, _) = self.texts(group, leaf, &pages)?;
            let hits = texts.read(|text| Some(needle.find(text).is_some())).unwrap_or_default();
            if !hits.contains(&true) {
                continue;
            }
            let (mut hits, mut levels) = (hits.into_iter(), levels.into_iter());
            for rows in places(ranges, &pages) {
                for (found, level) in found[rows].iter_mut().zip(&mut levels) {
                    *found |= level > 0 && hits.next() == Some(true);
                }
            }
        }
        let rest = Block { keys: Vec::new(), levels: Vec::new(), columns: self.rest(group, ranges, rows)? };
        rest.mark_containing(needle, &mut found);
        Ok(found)
    }

    /// For each of some rows whether it is of a record of this level or a worse one, or an item, whose master decides.
    pub(super) fn may_be_of_level(
        &self,
        group: usize,
        ranges: &[Range<usize>],
        level: Level,
    ) -> Result<Vec<bool>, StoreError> {
        let levels = self.levels_of(group, ranges)?.into_iter();
        let items = self.small_numbers(group, ITEM, ranges)?;
        Ok(levels.zip(items).map(|(code, item)| item > 0 || Level::from_code(code) >= Some(level)).collect())
    }

    /// What of `ranges` lies in pages of a column of texts that may have the needle.
    fn pages_with(
        &self,
        group: usize,
        leaf: usize,
        ranges: &[Range<usize>],
        needle: &Finder<'_>,
    ) -> Result<Vec<Range<usize>>, StoreError> {
        guard(&self.opened.path, &format!("row group {group}, column {leaf}"), || {
            let encodings = self.opened.metadata.row_group(group).column(leaf).page_encoding_stats_mask();
            let by_dictionary = encodings.is_some_and(|all| all.is_only(Encoding::RLE_DICTIONARY));
            let mut pages = self.pages(group, leaf)?;
            let mut dictionary_has_it = false;
            let mut row = 0;
            let mut found = Vec::new();
            while let Some(next) = pages.peek_next_page()? {
                if next.is_dict {
                    let Some(Page::DictionaryPage { buf, .. }) = pages.get_next_page()? else { return Err(unlike()) };
                    dictionary_has_it = needle.find(&buf).is_some();
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
                    page => needle.find(page.buffer()).is_some(),
                };
                if may_have_it {
                    found.extend(of_page);
                }
            }
            Ok(found)
        })
    }
}

/// Where the rows of `some`, which lie within `ranges`, are among the rows of `ranges`.
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

/// The offset index says how many rows a page has, and that its dictionary is one.
fn unlike() -> ParquetError {
    ParquetError::General("its pages are others than its index says".into())
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
