//! Interned texts: each distinct text of a column once, and for every value the number of its text.
//!
//! Parquet's reader creates a reference-counted object for every text. Few texts of a day are distinct. A page reader
//! between that reader and the file therefore keeps the texts and passes on numbers:
//!
//! | page | texts that are kept | what is passed on |
//! |---|---|---|
//! | a dictionary | its entries; of one in [frames](super::frames), those that are asked for | their numbers, as a dictionary |
//! | values of the dictionary | | the page as it is |
//! | plain texts | all of them | their numbers |
//!
//! Parquet's reader still decodes levels and indices. A page whose lengths do not add up is an error.

use super::frames::{FramedDictionary, is_framed, text_at, uneven};
use crate::format::page::ByteReader;
use ::bytes::Bytes;
use parquet::basic::{Encoding, Type as Physical};
use parquet::column::page::{Page, PageMetadata, PageReader};
use parquet::column::reader::ColumnReaderImpl;
use parquet::data_type::Int32Type;
use parquet::errors::{ParquetError, Result};
use parquet::schema::types::{ColumnDescPtr, ColumnDescriptor, ColumnPath, Type};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, PoisonError};

/// The texts of some values.
pub(super) struct InternedTexts {
    kept: TextPool,
    /// For each value the number of its text, which is valid.
    numbers: Vec<i32>,
}

/// Where there are this many times more texts than values, results are not kept in a list of all texts.
const FEW_SHARE: usize = 8;

impl InternedTexts {
    /// `None` if a number has no text.
    pub(super) fn new(kept: &SharedPool, numbers: Vec<i32>) -> Option<InternedTexts> {
        let kept = std::mem::take(&mut *kept.lock().unwrap_or_else(PoisonError::into_inner));
        let is_there = |number: &i32| usize::try_from(*number).is_ok_and(|number| number < kept.len());
        numbers.iter().all(is_there).then_some(InternedTexts { kept, numbers })
    }

    /// For each value the number of its text.
    pub(super) fn numbers(&self) -> impl ExactSizeIterator<Item = usize> {
        // VerifiedBytes when it was made.
        self.numbers.iter().map(|number| number.cast_unsigned() as usize)
    }

    /// The text of a number; `None` if its dictionary is damaged.
    pub(super) fn text(&self, number: usize) -> Option<&[u8]> {
        self.kept.text(number)
    }

    /// The text of each value; `None` if its dictionary is damaged.
    pub(super) fn iter(&self) -> impl Iterator<Item = Option<&[u8]>> {
        self.numbers().map(|number| self.text(number))
    }

    /// Applies `read` to the text of each value, once a text. `None` if `read` returns `None`, or a dictionary is damaged.
    pub(super) fn read<T: Copy>(&self, mut read: impl FnMut(&[u8]) -> Option<T>) -> Option<Vec<T>> {
        if self.numbers.len() < self.kept.len() / FEW_SHARE {
            let mut known: HashMap<usize, T, foldhash::quality::RandomState> = HashMap::default();
            let value = |number: usize| {
                if let Some(value) = known.get(&number) {
                    return Some(*value);
                }
                let value = read(self.text(number)?)?;
                known.insert(number, value);
                Some(value)
            };
            return all_of(self.numbers().map(value));
        }
        let mut known: Vec<Option<T>> = vec![None; self.kept.len()];
        let value = |number: usize| {
            if known[number].is_none() {
                known[number] = read(self.text(number)?);
            }
            known[number]
        };
        all_of(self.numbers().map(value))
    }
}

/// All values, or `None` if one is missing. There is room for them from the beginning, which `collect` does not have.
pub(super) fn all_of<T>(values: impl ExactSizeIterator<Item = Option<T>>) -> Option<Vec<T>> {
    let mut all = Vec::with_capacity(values.len());
    for value in values {
        all.push(value?);
    }
    Some(all)
}

/// The texts that [`InternedPages`] keeps.
pub(super) type SharedPool = Arc<Mutex<TextPool>>;

#[derive(Default)]
pub(super) struct TextPool {
    /// A dictionary in several frames: its texts have the first numbers.
    framed: Option<FramedDictionary>,
    pages: Vec<Bytes>,
    places: Vec<TextPlace>,
}

/// The position of a text in the kept pages.
#[derive(Clone, Copy)]
struct TextPlace {
    page: u32,
    start: u32,
    end: u32,
}

impl TextPool {
    /// Number of texts; every number is below it.
    fn len(&self) -> usize {
        self.framed.as_ref().map_or(0, FramedDictionary::len) + self.places.len()
    }

    fn text(&self, mut number: usize) -> Option<&[u8]> {
        if let Some(framed) = &self.framed {
            match number.checked_sub(framed.len()) {
                Some(of_pages) => number = of_pages,
                None => return framed.text(number),
            }
        }
        let TextPlace { page, start, end } = self.places.get(number)?;
        self.pages.get(*page as usize)?.get(*start as usize..*end as usize)
    }

    /// Keeps a dictionary in several frames, and returns the numbers of its texts in the form of a page.
    fn keep_framed(&mut self, page: Bytes, values: usize) -> Result<Vec<u8>> {
        if self.len() > 0 {
            return Err(uneven());
        }
        self.framed = Some(FramedDictionary::open(page, values)?);
        numbers(0..values)
    }

    /// Keeps the texts at `spans` of `page`, and returns their numbers in the form of a page.
    fn keep(&mut self, page: Bytes, spans: impl Iterator<Item = Result<(usize, usize)>>) -> Result<Vec<u8>> {
        let whole = |n: usize| u32::try_from(n).map_err(|_| uneven());
        let number = whole(self.pages.len())?;
        let first = self.len();
        for span in spans {
            let (start, end) = span?;
            if start > end || end > page.len() {
                return Err(uneven());
            }
            self.places.push(TextPlace { page: number, start: whole(start)?, end: whole(end)? });
        }
        self.pages.push(page);
        numbers(first..self.len())
    }
}

/// Numbers in the form of a page.
fn numbers(of: Range<usize>) -> Result<Vec<u8>> {
    let number = |n: usize| i32::try_from(n).map_err(|_| uneven());
    let (first, end) = (number(of.start)?, number(of.end)?);
    let mut page = vec![0; 4 * of.len()];
    let (places, _) = page.as_chunks_mut::<4>();
    places.iter_mut().zip(first..end).for_each(|(place, number)| *place = number.to_le_bytes());
    Ok(page)
}

/// A page reader that replaces texts by their numbers: see the module's head.
pub(super) struct InternedPages<P> {
    pages: P,
    descriptor: ColumnDescPtr,
    kept: SharedPool,
}

impl<P: PageReader> InternedPages<P> {
    pub(super) fn new(pages: P, descriptor: ColumnDescPtr, kept: SharedPool) -> InternedPages<P> {
        InternedPages { pages, descriptor, kept }
    }

    fn keep(&self, page: Bytes, spans: impl Iterator<Item = Result<(usize, usize)>>) -> Result<Vec<u8>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner).keep(page, spans)
    }

    /// Keeps the texts of a page without a dictionary, and returns a page of their numbers.
    fn data_page(&self, buf: Bytes, encoding: Encoding) -> Result<Bytes> {
        let mut start = 0;
        for level in [self.descriptor.max_rep_level(), self.descriptor.max_def_level()] {
            if level > 0 {
                start = length_at(&buf, start)?
                    .checked_add(start + 4)
                    .filter(|end| *end <= buf.len())
                    .ok_or_else(uneven)?;
            }
        }
        let mut page = buf[..start].to_vec();
        page.append(&mut match encoding {
            Encoding::PLAIN => self.keep(buf.clone(), plain(&buf, start))?,
            Encoding::DELTA_LENGTH_BYTE_ARRAY => {
                let lengths = lengths(buf.slice(start..))?;
                let all = lengths.iter().try_fold(0usize, |sum, length| sum.checked_add(*length));
                let mut at =
                    all.and_then(|all| buf.len().checked_sub(all)).filter(|at| *at >= start).ok_or_else(uneven)?;
                let span = |length: usize| {
                    at += length;
                    Ok((at - length, at))
                };
                self.keep(buf, lengths.into_iter().map(span))?
            }
            _ => return Err(ParquetError::NYI(format!("texts in {encoding}"))),
        });
        Ok(page.into())
    }
}

/// The positions of texts that are preceded by their lengths.
fn plain(page: &Bytes, start: usize) -> impl Iterator<Item = Result<(usize, usize)>> {
    let mut at = start;
    std::iter::from_fn(move || {
        (at < page.len()).then(|| {
            let text = text_at(page, at)?;
            at = text.end;
            Ok((text.start, text.end))
        })
    })
}

fn length_at(page: &Bytes, at: usize) -> Result<usize> {
    let bytes = page.get(at..).and_then(|rest| rest.first_chunk::<4>()).ok_or_else(uneven)?;
    usize::try_from(u32::from_le_bytes(*bytes)).map_err(|_| uneven())
}

/// The lengths at the start of a DELTA_LENGTH_BYTE_ARRAY page.
fn lengths(page: Bytes) -> Result<Vec<usize>> {
    // Values of a block, blocks within it, values.
    let mut head = ByteReader::new(&page);
    let count = (0..3).map(|_| head.varint().map_err(|_| uneven())).last().ok_or_else(uneven)??;
    let count = u32::try_from(count).map_err(|_| uneven())?;
    let mut lengths: Vec<i32> = Vec::new();
    if count > 0 {
        let lengths_alone = Type::primitive_type_builder("length", Physical::INT32).build()?;
        let descriptor = ColumnDescriptor::new(Arc::new(lengths_alone), 0, 0, ColumnPath::new(Vec::new()));
        let page = Page::DataPage {
            buf: page,
            num_values: count,
            encoding: Encoding::DELTA_BINARY_PACKED,
            def_level_encoding: Encoding::RLE,
            rep_level_encoding: Encoding::RLE,
            statistics: None,
        };
        let mut reader = ColumnReaderImpl::<Int32Type>::new(Arc::new(descriptor), Box::new(SinglePage(Some(page))));
        reader.read_records(count as usize, None, None, &mut lengths)?;
        if lengths.len() != count as usize {
            return Err(uneven());
        }
    }
    lengths.into_iter().map(|length| usize::try_from(length).map_err(|_| uneven())).collect()
}

impl<P: PageReader> Iterator for InternedPages<P> {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.get_next_page().transpose()
    }
}

impl<P: PageReader> PageReader for InternedPages<P> {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let Some(page) = self.pages.get_next_page()? else { return Ok(None) };
        Ok(Some(match page {
            Page::DictionaryPage { buf, num_values, encoding, .. } => {
                let numbers = match is_framed(&buf) {
                    true => self
                        .kept
                        .lock()
                        .unwrap_or_else(PoisonError::into_inner)
                        .keep_framed(buf, num_values as usize)?,
                    false => self.keep(buf.clone(), plain(&buf, 0))?,
                };
                if numbers.len() as u64 != 4 * u64::from(num_values) {
                    return Err(uneven());
                }
                Page::DictionaryPage { buf: numbers.into(), num_values, encoding, is_sorted: false }
            }
            page @ Page::DataPage { encoding: Encoding::RLE_DICTIONARY | Encoding::PLAIN_DICTIONARY, .. } => page,
            Page::DataPage {
                buf,
                num_values,
                encoding,
                def_level_encoding: def_level_encoding @ Encoding::RLE,
                rep_level_encoding: rep_level_encoding @ Encoding::RLE,
                ..
            } => {
                let (buf, encoding) = (self.data_page(buf, encoding)?, Encoding::PLAIN);
                Page::DataPage { buf, num_values, encoding, def_level_encoding, rep_level_encoding, statistics: None }
            }
            _ => return Err(ParquetError::NYI("pages that daytable does not write".into())),
        }))
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

/// One page.
struct SinglePage(Option<Page>);

impl Iterator for SinglePage {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.0.take().map(Ok)
    }
}

impl PageReader for SinglePage {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        Ok(self.0.take())
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        Ok(None)
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.0 = None;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use parquet::basic::Repetition;
    use parquet::data_type::{ByteArray, ByteArrayType};
    use parquet::file::properties::WriterProperties;
    use parquet::file::reader::{FileReader, SerializedFileReader};
    use parquet::file::writer::SerializedFileWriter;
    use proptest::prelude::*;

    /// An optional column of texts, three rows a page.
    fn file(rows: &[Option<String>], encoding: Encoding, dictionary_bytes: usize) -> Bytes {
        let text = Type::primitive_type_builder("t", Physical::BYTE_ARRAY).with_repetition(Repetition::OPTIONAL);
        let fields = vec![Arc::new(text.build().expect("a type"))];
        let schema = Type::group_type_builder("s").with_fields(fields).build().expect("a schema");
        let properties = WriterProperties::builder()
            .set_dictionary_enabled(dictionary_bytes > 0)
            .set_dictionary_page_size_limit(dictionary_bytes.max(1))
            .set_encoding(encoding)
            .set_data_page_row_count_limit(3)
            .set_write_batch_size(1);
        let mut out = SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties.build()));
        let out = out.as_mut().expect("a writer");
        let mut group = out.next_row_group().expect("a group");
        let mut column = group.next_column().expect("a column").expect("one");
        let levels: Vec<i16> = rows.iter().map(|row| i16::from(row.is_some())).collect();
        let texts: Vec<ByteArray> = rows.iter().flatten().map(|text| ByteArray::from(text.as_str())).collect();
        column.typed::<ByteArrayType>().write_batch(&texts, Some(&levels), None).expect("written");
        column.close().expect("closed");
        group.close().expect("closed");
        out.finish().expect("finished");
        std::mem::take(out.inner_mut()).into()
    }

    fn read(file: Bytes, skip: usize) -> Vec<Option<String>> {
        let file = SerializedFileReader::new(file).expect("a file");
        let group = file.get_row_group(0).expect("a group");
        let (pages, rows) = (group.get_column_page_reader(0).expect("pages"), group.metadata().num_rows() as usize);
        let (kept, descriptor) = (SharedPool::default(), group.metadata().column(0).column_descr_ptr());
        let interned = InternedPages::new(Boxed(pages), descriptor.clone(), kept.clone());
        let mut reader = ColumnReaderImpl::<Int32Type>::new(descriptor, Box::new(interned));
        let (mut levels, mut numbers) = (Vec::new(), Vec::new());
        assert_eq!(reader.skip_records(skip).expect("skipped"), skip);
        reader.read_records(rows - skip, Some(&mut levels), None, &mut numbers).expect("read");
        let texts = InternedTexts::new(&kept, numbers).expect("texts");
        let again = texts.read(|text| Some(text.len())).expect("lengths");
        let all = || texts.iter().map(|text| text.expect("a text"));
        assert!(all().map(<[u8]>::len).eq(again));
        let mut texts = all().map(|text| String::from_utf8(text.to_vec()).expect("text"));
        levels.into_iter().map(|level| if level > 0 { texts.next() } else { None }).collect()
    }

    struct Boxed(Box<dyn PageReader>);

    impl Iterator for Boxed {
        type Item = Result<Page>;

        fn next(&mut self) -> Option<Result<Page>> {
            self.0.next()
        }
    }

    impl PageReader for Boxed {
        fn get_next_page(&mut self) -> Result<Option<Page>> {
            self.0.get_next_page()
        }

        fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
            self.0.peek_next_page()
        }

        fn skip_next_page(&mut self) -> Result<()> {
            self.0.skip_next_page()
        }
    }

    proptest! {
        /// Texts are restored in every encoding, from any row on.
        #[test]
        fn texts_come_out_of_every_encoding(
            rows in prop::collection::vec(prop::option::of("[ab\u{e4}]{0,3}"), 1..40),
            skip in 0usize..40,
        ) {
            let skip = skip.min(rows.len() - 1);
            // All in the dictionary; some, until it is full; no dictionary.
            for dictionary_bytes in [1 << 20, 16, 0] {
                for encoding in [Encoding::PLAIN, Encoding::DELTA_LENGTH_BYTE_ARRAY] {
                    prop_assert_eq!(read(file(&rows, encoding, dictionary_bytes), skip), &rows[skip..]);
                }
            }
        }

        /// Random bytes are an error, or texts within them.
        #[test]
        fn rubbish_does_not_come_out_even(bytes in prop::collection::vec(0u8..6, 0..40)) {
            let page = Bytes::from(bytes);
            let mut kept = TextPool::default();
            if kept.keep(page.clone(), plain(&page, 0)).is_ok() {
                let texts: usize = kept.places.iter().map(|place| (place.end - place.start) as usize + 4).sum();
                prop_assert_eq!(texts, page.len());
            }
        }
    }

    #[test]
    fn a_number_without_a_text_is_none() {
        assert!(InternedTexts::new(&SharedPool::default(), vec![0]).is_none());
        assert!(InternedTexts::new(&SharedPool::default(), vec![-1]).is_none());
        assert!(lengths(Bytes::from_static(&[0x80])).is_err());
    }
}
