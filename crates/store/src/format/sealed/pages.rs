//! The pages of a column of a row group, decompressed by a context that the thread keeps.
//!
//! Parquet's reader makes a context of zstd for each column that it opens, to compress and to decompress: more work than
//! to decompress a page. It is therefore told that the pages are not compressed, and they are decompressed here.

use super::bytes::VerifiedBytes;
use super::frames::frames_of;
use crate::format::page::unpack;
use ::bytes::Bytes;
use parquet::basic::Compression;
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::errors::{ParquetError, Result};
use parquet::file::metadata::ColumnChunkMetaData;
use parquet::file::page_index::offset_index::PageLocation;
use parquet::file::serialized_reader::SerializedPageReader;
use std::sync::Arc;

/// A page reader for a file of ours, whose columns are compressed by zstd.
pub(super) struct ColumnPages {
    pages: SerializedPageReader<VerifiedBytes>,
    /// Maximum bytes of a page: those of the column.
    bytes_max: u64,
    /// Whether a dictionary in several frames is passed on as it is.
    keeps_frames: bool,
}

impl ColumnPages {
    /// The pages of `column` at `places`, in a row group of `rows` rows.
    pub(super) fn new(
        bytes: Arc<VerifiedBytes>,
        column: &ColumnChunkMetaData,
        rows: usize,
        places: Option<Vec<PageLocation>>,
    ) -> Result<ColumnPages> {
        if !matches!(column.compression(), Compression::ZSTD(_)) {
            return Err(ParquetError::NYI("columns that daytable does not write".into()));
        }
        let bytes_max = u64::try_from(column.uncompressed_size()).unwrap_or(0);
        let as_they_are = column.clone().into_builder().set_compression(Compression::UNCOMPRESSED).build()?;
        Ok(ColumnPages {
            pages: SerializedPageReader::new(bytes, &as_they_are, rows, places)?,
            bytes_max,
            keeps_frames: false,
        })
    }

    /// The same pages; a dictionary in several [frames](super::frames) is not decompressed.
    pub(super) fn keeping_frames(self) -> ColumnPages {
        ColumnPages { keeps_frames: true, ..self }
    }

    fn unpack(&self, page: &Bytes, is_dictionary: bool) -> Result<Bytes> {
        let frames = frames_of(page, self.bytes_max)?;
        if is_dictionary && self.keeps_frames && frames.len() > 1 {
            return Ok(page.clone());
        }
        let length = frames.into_iter().map(|(_, length)| length).sum();
        let bad = |_| ParquetError::General("a page cannot be decompressed".into());
        Ok(unpack(page, length).map_err(bad)?.into_owned().into())
    }
}

impl Iterator for ColumnPages {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.get_next_page().transpose()
    }
}

impl PageReader for ColumnPages {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let Some(mut page) = self.pages.get_next_page()? else { return Ok(None) };
        match &mut page {
            Page::DataPage { buf, .. } => *buf = self.unpack(buf, false)?,
            Page::DictionaryPage { buf, .. } => *buf = self.unpack(buf, true)?,
            Page::DataPageV2 { .. } => return Err(ParquetError::NYI("pages that daytable does not write".into())),
        }
        Ok(Some(page))
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }

    fn at_record_boundary(&mut self) -> Result<bool> {
        self.pages.at_record_boundary()
    }
}
