//! Makes a page of another one without its rows: the columns stay as they are stored, under other keys, and beside columns of
//! which every row has the same text.
//!
//! The other page may come from anywhere. So the new one is made only of what a builder would write as well: its columns are
//! surveyed (`survey`), and all that readers rely on is computed from them, and never taken from the header that came.
//!
//! ```text
//! of the other page     stored columns        levels            keys, with other sources
//!                            │ copied            │ written again     │ written again
//! of the new page       columns, and the same texts │ levels │ keys │ header │ counts of values │ words
//! ```
//!
//! What is apart is copied with its checksum, which was compared with its bytes. The front has other keys and further columns, so
//! its texts are compressed again.
//!
//! Claims, each a property test: the new page has the rows that a builder would write with the same values, the same header
//! but for the forms of columns, the same counts and the same words. Any page is copied so, or refused.

use super::bits::put_varint;
use super::build::{close, with_buffers};
use super::columns_builder::COUNTED_COLUMNS_MAX;
use super::decode::{PartialPage, StoredColumns, WantedColumns};
use super::frame::{self, PageFrame};
use super::read::Page;
use super::sections::{CopiedColumns, Sections};
use super::survey::{self, ColumnSurvey};
use super::value_counts::{COUNTED_MIN, ColumnCounts, ValueCounts};
use super::{
    EncodedPage, PAGE_BYTES, PAGE_SPAN, PageAddress, PageError, PageHeader, ROW_BYTES, column, extents, ints, keys,
    levels,
};
use daytable_model::entity::MULTI_ROW_PROPERTIES;
use daytable_model::key::RowKey;
use daytable_model::record::Level;
use daytable_model::row_set::RowSet;
use daytable_model::stream::STREAM;

/// A page that was read as a whole, and its columns as they are stored.
pub(crate) struct WholePage<'a> {
    page: Page,
    columns: StoredColumns<'a>,
    /// The sections that are apart, with their checksums.
    apart: Vec<(u64, &'a [u8])>,
}

/// The columns of a page without its rows.
struct PageSurvey {
    columns: Vec<ColumnCounts>,
    /// Bytes of the values before they were encoded.
    bytes: usize,
}

impl<'a> WholePage<'a> {
    /// Reads a page as a page of `address` that commit `seq` wrote. An error if it belongs to another address.
    pub(crate) fn decode_of(
        address: PageAddress,
        seq: i64,
        header: &PageHeader,
        body: &'a [u8],
    ) -> Result<WholePage<'a>, PageError> {
        Page::check_of(address, seq, header, body)?;
        let partial = PartialPage::of(header, PageFrame::open(header, body)?, WantedColumns::ALL)?;
        let (page, columns) = partial.finish_with_columns()?;
        page.read_keys()?;
        Ok(WholePage { page, columns, apart: frame::split(body).apart })
    }

    /// Its rows.
    pub(crate) fn page(&self) -> &Page {
        &self.page
    }

    /// The page of its rows under these keys, one each, with columns of which every row has the same text. All columns have different
    /// names. `None` if the rows have to be written one by one: a key does not follow on that before, some rows are not whole records,
    /// the page has rows of many partitions, fewer bytes than `bytes_min` or more than a page has, or a column that a builder would not
    /// write so.
    pub(crate) fn with_keys(&self, keys: &[RowKey], same: &[(&str, &str)], bytes_min: usize) -> Option<EncodedPage> {
        let page = &self.page;
        let (first, last) = (keys.first()?, keys.last()?);
        let is_spread = || page.columns().any(|of| MULTI_ROW_PROPERTIES.contains(&(of.name(), of.kind())));
        let is_whole = keys.len() == page.len()
            && keys.is_sorted_by(|before, key| before < key)
            && keys.iter().all(|key| key.item() == 0)
            && first.time().since(last.time()) <= PAGE_SPAN
            && !page.has_owners()
            && !is_spread();
        if is_whole { with_buffers(|out| self.encode(keys, same, bytes_min, out)) } else { None }
    }

    fn encode(
        &self,
        keys: &[RowKey],
        same: &[(&str, &str)],
        bytes_min: usize,
        out: &mut Sections,
    ) -> Option<EncodedPage> {
        let page = &self.page;
        let mut codes = vec![0; page.len()];
        page.each_level(&RowSet::all(page.len()), |row, code| codes[row] = code);
        out.clear();
        // Gathered in any case: only then is known whether the page is large enough.
        out.words.begin(true);
        let PageSurvey { mut columns, bytes } = self.survey(&codes, out)?;
        let bytes_of_same = |(_, text): &(&str, &str)| survey::text_bytes(text.len());
        let raw_bytes = bytes + page.len() * same.iter().map(bytes_of_same).sum::<usize>();
        if raw_bytes < bytes_min || bytes > PAGE_BYTES {
            return None;
        }
        columns.extend(same.iter().map(|(name, text)| survey::counts_of_same(name, text, &codes)));

        keys::encode(keys, out);
        ints::encode(&codes.iter().map(|code| i64::from(*code)).collect::<Vec<_>>(), out);
        put_varint(&mut out.meta, columns.len() as u64);
        if !out.copy(&self.stored()) {
            return None;
        }
        same.iter().for_each(|(name, text)| column::encode_same(name, text, out));
        let words = out.words.end();
        let levels = keys.iter().zip(&codes).map(|(key, code)| (*key, Level::from_code(*code)));
        let mut levels = levels::encode(levels);
        extents::add(&mut levels, keys);
        if page.columns().any(|column| column.name() == STREAM) {
            levels::add_streams(&mut levels);
        }
        let is_counted = raw_bytes >= COUNTED_MIN;
        let has_counts = is_counted && columns.len() <= COUNTED_COLUMNS_MAX;
        let counts = has_counts.then(|| Box::new(ValueCounts { columns }));
        let words = words.filter(|_| is_counted);
        Some(EncodedPage { counts, words, ..close(out, keys, levels, raw_bytes) })
    }

    /// What its columns have, and their words. `None` if a builder would not write one of them so.
    fn survey(&self, codes: &[u8], out: &mut Sections) -> Option<PageSurvey> {
        let mut all = PageSurvey { columns: Vec::with_capacity(self.page.width()), bytes: codes.len() * ROW_BYTES };
        for column in self.page.columns() {
            let ColumnSurvey { counts, bytes } = survey::survey(column, codes, &mut out.words)?;
            all.columns.push(counts);
            all.bytes += bytes;
        }
        Some(all)
    }

    /// Its columns as they are stored.
    fn stored(&self) -> CopiedColumns<'_> {
        let StoredColumns { ranges, meta, sections_before, apart_text } = &self.columns;
        let (packed, strings) = (self.page.packed(), self.page.text().as_bytes());
        // Their places are those where they were read.
        CopiedColumns {
            packed: &packed[ranges.packed.clone()],
            wide: &packed[ranges.wide.clone()],
            strings: &strings[ranges.strings.clone()],
            meta: &meta[ranges.meta.clone()],
            apart: &self.apart[*sections_before..],
            apart_text: *apart_text,
        }
    }
}
