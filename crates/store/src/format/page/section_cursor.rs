//! Reads what a section has, from the front of each of its parts.

use super::bits::{Bits, ByteReader, TextSpan};
use super::{PageError, VALUE_BYTES};
use std::ops::Range;

/// How many times longer than its texts the estimate of a column of patterns may be: a number has one digit or twenty.
const PRINTED_MAX: usize = 20;

/// Where the parts of a section are in those of all sections that were read.
#[derive(Clone, Debug)]
pub(super) struct SectionRanges {
    pub(super) packed: Range<usize>,
    /// Among the packed bytes.
    pub(super) wide: Range<usize>,
    pub(super) strings: Range<usize>,
    pub(super) meta: Range<usize>,
}

impl SectionRanges {
    /// What is before that which is left `later`.
    pub(super) fn before(&self, later: &SectionRanges) -> SectionRanges {
        SectionRanges {
            packed: self.packed.start..later.packed.start,
            wide: self.wide.start..later.wide.start,
            strings: self.strings.start..later.strings.start,
            meta: self.meta.start..later.meta.start,
        }
    }
}

/// What the rest of a page may still claim. It derives from the size that the page claims before encoding.
#[derive(Debug)]
pub(super) struct PageLimits {
    /// Bytes of texts that are printed from packed numbers: a byte of a text is at most [`PRINTED_MAX`] bytes when its length
    /// is estimated.
    text_left: usize,
    /// Values that columns may still have: each had some bytes before encoding.
    values_left: usize,
}

impl PageLimits {
    pub(super) fn of(raw_bytes: usize) -> PageLimits {
        PageLimits { text_left: raw_bytes.saturating_mul(PRINTED_MAX), values_left: raw_bytes / VALUE_BYTES }
    }
}

/// A section while it is read.
pub(super) struct SectionCursor<'a> {
    pub(super) meta: ByteReader<'a>,
    /// The packed and wide bytes of all sections that were read, and [`PADDING`](super::bits::PADDING).
    pub(super) packed: &'a [u8],
    /// The strings of all sections that were read.
    pub(super) text: Vec<u8>,
    left: SectionRanges,
    limits: PageLimits,
}

impl<'a> SectionCursor<'a> {
    /// Begins a section of a page whose sections have these parts.
    pub(super) fn new(
        section: &SectionRanges,
        (packed, text, meta): (&'a [u8], Vec<u8>, &'a [u8]),
        limits: PageLimits,
    ) -> SectionCursor<'a> {
        let meta = meta.get(section.meta.clone()).unwrap_or_default();
        SectionCursor { meta: ByteReader::new(meta), packed, text, left: section.clone(), limits }
    }

    /// The strings of all sections, and what the rest of the page may claim. An error if the section has more than was read.
    pub(super) fn finish(self) -> Result<(Vec<u8>, PageLimits), PageError> {
        if self.at_end() { Ok((self.text, self.limits)) } else { Err(PageError::Damaged(super::WRONG_END)) }
    }

    /// Whether every part was read to its end.
    pub(super) fn at_end(&self) -> bool {
        let SectionRanges { packed, wide, strings, .. } = &self.left;
        self.meta.rest().is_empty() && packed.is_empty() && wide.is_empty() && strings.is_empty()
    }

    /// What is left of each part.
    pub(super) fn left(&self) -> SectionRanges {
        let end = self.left.meta.end;
        SectionRanges { meta: end - self.meta.rest().len()..end, ..self.left.clone() }
    }

    /// Charges `count` values to the page's limit.
    pub(super) fn take_values(&mut self, count: usize) -> Result<(), PageError> {
        let left = self.limits.values_left.checked_sub(count);
        self.limits.values_left = left.ok_or(PageError::Damaged("it has more values than it claims"))?;
        Ok(())
    }

    /// The start of the next `length` wide bytes among the packed ones.
    pub(super) fn wide(&mut self, length: usize) -> Result<usize, PageError> {
        take(&mut self.left.wide, length).ok_or(PageError::Damaged("its wide bytes end too early"))
    }

    /// Wide bytes that are left.
    pub(super) fn wide_left(&self) -> usize {
        self.left.wide.len()
    }

    /// The next `count` numbers of `width` bits.
    pub(super) fn bits(&mut self, count: usize, width: u32) -> Result<Bits, PageError> {
        let bits = count.checked_mul(width as usize).ok_or(PageError::Damaged("a column is too long"))?;
        let start = take(&mut self.left.packed, bits.div_ceil(8));
        Ok(Bits { start: start.ok_or(PageError::Damaged("its packed section ends too early"))?, width })
    }

    /// The next `length` bytes of the strings.
    pub(super) fn string(&mut self, length: usize) -> Result<TextSpan, PageError> {
        let start = take(&mut self.left.strings, length).ok_or(PageError::Damaged("its strings end too early"))?;
        TextSpan::new(start, start + length)
    }

    /// Charges `length` bytes of texts, which are printed later, to the page's limit.
    pub(super) fn reserve_text(&mut self, length: usize) -> Result<(), PageError> {
        let left = self.limits.text_left.checked_sub(length);
        self.limits.text_left = left.ok_or(PageError::Damaged("it has more text than it claims"))?;
        Ok(())
    }
}

/// Takes the first `length` places of a range, and returns where they begin.
fn take(range: &mut Range<usize>, length: usize) -> Option<usize> {
    let start = range.start;
    range.start = start.checked_add(length).filter(|end| *end <= range.end)?;
    Some(start)
}

#[cfg(test)]
impl<'a> SectionCursor<'a> {
    /// The only section of a page. `packed` has bytes of this length, wide ones of that length, and padding.
    pub(super) fn of_only(
        (packed, length, wide): (&'a [u8], usize, usize),
        strings: Vec<u8>,
        meta: &'a [u8],
        raw_bytes: usize,
    ) -> SectionCursor<'a> {
        let (wide, strings_end) = (length..length + wide, strings.len());
        let section = SectionRanges { packed: 0..length, wide, strings: 0..strings_end, meta: 0..meta.len() };
        SectionCursor::new(&section, (packed, strings, meta), PageLimits::of(raw_bytes))
    }
}
