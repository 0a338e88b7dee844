//! Large dictionaries of texts in several frames, so that a few rows cost a few frames.
//!
//! Parquet compresses a dictionary as a whole, and 65,536 rows may have one of 700 KB. Whoever wants one row would
//! decompress it all. A page compressed by zstd may consist of several [frames](https://www.rfc-editor.org/rfc/rfc8878),
//! which every reader decompresses one after the other. Here each frame has the next [`FRAME_VALUES`] texts:
//!
//! ```text
//! dictionary page := frame*         as many as ⌈texts / FRAME_VALUES⌉; a small dictionary has one frame
//! frame, unpacked := [length u32, text]*        as many as FRAME_VALUES; the last frame has the rest
//! ```

use crate::format::page::unpack;
use ::bytes::Bytes;
use parquet::column::page::{CompressedPage, Page, PageWriteSpec, PageWriter};
use parquet::errors::{ParquetError, Result};
use std::cell::OnceCell;
use std::ops::Range;

/// Texts of a frame.
const FRAME_VALUES: usize = 1 << 10;

/// A page writer that divides large dictionaries of texts into frames.
pub(super) struct FramedPages<P> {
    pages: P,
    level: i32,
}

impl<P: PageWriter> FramedPages<P> {
    /// Frames are compressed at a level of zstd.
    pub(super) fn new(pages: P, level: i32) -> FramedPages<P> {
        FramedPages { pages, level }
    }

    fn divide(&self, page: &[u8], length: usize) -> Result<Bytes> {
        let texts = unpack(page, length).map_err(|_| uneven())?;
        let mut compressor = zstd::bulk::Compressor::new(self.level)?;
        let (mut start, mut framed) = (0, Vec::with_capacity(page.len()));
        while start < texts.len() {
            let (mut end, mut count) = (start, 0);
            while end < texts.len() && count < FRAME_VALUES {
                end = text_at(&texts, end)?.end;
                count += 1;
            }
            framed.append(&mut compressor.compress(&texts[start..end])?);
            start = end;
        }
        Ok(framed.into())
    }
}

impl<P: PageWriter> PageWriter for FramedPages<P> {
    fn write_page(&mut self, page: CompressedPage) -> Result<PageWriteSpec> {
        match page.compressed_page() {
            Page::DictionaryPage { buf, num_values, encoding, is_sorted } if *num_values as usize > FRAME_VALUES => {
                let (length, is_sorted) = (page.uncompressed_size(), *is_sorted);
                let (buf, num_values, encoding) = (self.divide(buf, length)?, *num_values, *encoding);
                let framed = Page::DictionaryPage { buf, num_values, encoding, is_sorted };
                self.pages.write_page(CompressedPage::new(framed, length))
            }
            _ => self.pages.write_page(page),
        }
    }

    fn close(&mut self) -> Result<()> {
        self.pages.close()
    }
}

/// The frames of a page, as ranges of its bytes, and the bytes of each after unpacking. These are at most `bytes_max` in all.
pub(super) fn frames_of(page: &[u8], bytes_max: u64) -> Result<Vec<(Range<usize>, usize)>> {
    let bad = || ParquetError::General("a page cannot be decompressed".into());
    let (mut start, mut left, mut frames) = (0, bytes_max, Vec::new());
    while start < page.len() || frames.is_empty() {
        let frame = &page[start..];
        let length = zstd::zstd_safe::get_frame_content_size(frame).ok().flatten().ok_or_else(bad)?;
        left = left.checked_sub(length).ok_or_else(bad)?;
        let packed = zstd::zstd_safe::find_frame_compressed_size(frame).map_err(|_| bad())?;
        let end = start.checked_add(packed).filter(|end| packed > 0 && *end <= page.len()).ok_or_else(bad)?;
        frames.push((start..end, usize::try_from(length).map_err(|_| bad())?));
        start = end;
    }
    Ok(frames)
}

/// Whether a dictionary is still in several frames: no text is as long as the magic number of a frame says.
pub(super) fn is_framed(dictionary: &[u8]) -> bool {
    dictionary.starts_with(&0xFD2F_B528u32.to_le_bytes())
}

/// A dictionary in several frames, each of which is unpacked when a text of it is asked for.
pub(super) struct FramedDictionary {
    page: Bytes,
    values: usize,
    frames: Vec<Frame>,
}

struct Frame {
    packed: Range<usize>,
    length: usize,
    /// Its texts; none if they are not as many as they should be.
    texts: OnceCell<Option<FrameTexts>>,
}

struct FrameTexts {
    bytes: Vec<u8>,
    places: Vec<Range<u32>>,
}

impl FramedDictionary {
    /// The dictionary of a page of this many texts. An error if it has another number of frames.
    pub(super) fn open(page: Bytes, values: usize) -> Result<FramedDictionary> {
        let frame = |(packed, length)| Frame { packed, length, texts: OnceCell::new() };
        // The reader of the page bounded them.
        let frames: Vec<Frame> = frames_of(&page, u64::MAX)?.into_iter().map(frame).collect();
        // Each text has its length before it.
        let length: usize = frames.iter().map(|frame| frame.length).fold(0, usize::saturating_add);
        if frames.len() != values.div_ceil(FRAME_VALUES) || values > length / 4 {
            return Err(uneven());
        }
        Ok(FramedDictionary { page, values, frames })
    }

    /// Number of texts.
    pub(super) fn len(&self) -> usize {
        self.values
    }

    /// A text by its number; `None` if its frame is damaged.
    pub(super) fn text(&self, number: usize) -> Option<&[u8]> {
        let frame = self.frames.get(number / FRAME_VALUES)?;
        let count = FRAME_VALUES.min(self.values - number / FRAME_VALUES * FRAME_VALUES);
        let texts = frame.texts.get_or_init(|| {
            let bytes = unpack(self.page.get(frame.packed.clone())?, frame.length).ok()?.into_owned();
            let (mut places, mut at) = (Vec::with_capacity(count), 0);
            for _ in 0..count {
                let text = text_at(&bytes, at).ok()?;
                places.push(u32::try_from(text.start).ok()?..u32::try_from(text.end).ok()?);
                at = text.end;
            }
            (at == bytes.len()).then_some(FrameTexts { bytes, places })
        });
        let FrameTexts { bytes, places } = texts.as_ref()?;
        let place = places.get(number % FRAME_VALUES)?;
        bytes.get(place.start as usize..place.end as usize)
    }
}

/// The place of a text that is preceded by its length.
pub(super) fn text_at(page: &[u8], at: usize) -> Result<Range<usize>> {
    let length = page.get(at..).and_then(|rest| rest.first_chunk::<4>()).ok_or_else(uneven)?;
    let length = usize::try_from(u32::from_le_bytes(*length)).map_err(|_| uneven())?;
    let end = (at + 4).checked_add(length).filter(|end| *end <= page.len()).ok_or_else(uneven)?;
    Ok(at + 4..end)
}

pub(super) fn uneven() -> ParquetError {
    ParquetError::General("the lengths in a page of texts do not add up".into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::basic::Encoding;
    use proptest::prelude::*;

    /// Keeps the page that it gets.
    #[derive(Default)]
    struct LastPage(Option<Bytes>);

    impl PageWriter for LastPage {
        fn write_page(&mut self, page: CompressedPage) -> Result<PageWriteSpec> {
            self.0 = Some(page.compressed_page().buffer().clone());
            Ok(PageWriteSpec::new())
        }

        fn close(&mut self) -> Result<()> {
            Ok(())
        }
    }

    fn plain(texts: &[String]) -> Vec<u8> {
        let of = |text: &String| [&u32::try_from(text.len()).expect("short").to_le_bytes(), text.as_bytes()].concat();
        texts.iter().flat_map(of).collect()
    }

    fn written(texts: &[String]) -> Bytes {
        let plain = plain(texts);
        let page = Page::DictionaryPage {
            buf: zstd::bulk::compress(&plain, 1).expect("compressed").into(),
            num_values: u32::try_from(texts.len()).expect("few"),
            encoding: Encoding::PLAIN,
            is_sorted: false,
        };
        let mut pages = FramedPages::new(LastPage::default(), 1);
        pages.write_page(CompressedPage::new(page, plain.len())).expect("written");
        pages.pages.0.expect("a page")
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        /// Each text is read by its number, and any other reader unpacks the same page as from one frame. A changed byte
        /// changes texts or leaves none, and never panics.
        #[test]
        fn texts_come_out_of_frames(length in 0usize..9, count in 1usize..5000, at in any::<prop::sample::Index>()) {
            let texts: Vec<String> = (0..count).map(|n| format!("{n:0length$}")).collect();
            let page = written(&texts);
            prop_assert_eq!(zstd::stream::decode_all(&page[..]).expect("frames"), plain(&texts));
            let frames = frames_of(&page, plain(&texts).len() as u64).expect("frames");
            prop_assert_eq!(frames.len(), count.div_ceil(FRAME_VALUES));
            prop_assert!(frames_of(&page, plain(&texts).len() as u64 - 1).is_err());
            prop_assert!(is_framed(&page) && !is_framed(&plain(&texts)));
            let dictionary = FramedDictionary::open(page.clone(), count).expect("a dictionary");
            prop_assert_eq!(dictionary.len(), count);
            for (number, text) in texts.iter().enumerate() {
                prop_assert_eq!(dictionary.text(number), Some(text.as_bytes()));
            }
            prop_assert_eq!(dictionary.text(count.next_multiple_of(FRAME_VALUES)), None);
            prop_assert!(FramedDictionary::open(page.clone(), count + FRAME_VALUES).is_err());
            let mut damaged = page.to_vec();
            let place = at.index(damaged.len());
            damaged[place] ^= 1;
            if frames_of(&damaged, 1 << 20).is_ok() && let Ok(damaged) = FramedDictionary::open(damaged.into(), count) {
                (0..count).for_each(|number| _ = damaged.text(number));
            }
        }
    }
}
