//! Decodes pages: whole, or the front and of the sections beside it as many as are wanted.

use super::column::{ApartValues, PageColumn};
use super::frame::{PageFrame, PageSections, SplitRow, check, check_front, split_row};
use super::ints::Ints;
use super::keys::EncodedKeys;
use super::read::{Page, PageParts};
use super::section_cursor::{PageLimits, SectionCursor, SectionRanges};
use super::{PageAddress, PageError, PageHeader};
use daytable_model::key::RowKey;
use daytable_model::property::PropertyKind;
use daytable_model::record::Level;
use std::borrow::Cow;

/// Columns for which memory is reserved at first: a damaged page may claim more than it has.
const COLUMNS_AT_ONCE: usize = 32;

/// A page whose front was read. The sections beside it that are wanted are read before it becomes a [`Page`].
pub(crate) struct PartialPage<'a> {
    frame: PageFrame<'a>,
    ends: (RowKey, RowKey),
    encoded_keys: EncodedKeys,
    levels: Ints,
    columns: Vec<PageColumn>,
    owners: Option<Ints>,
    /// Where the front has the columns.
    column_ranges: SectionRanges,
    wanted: Vec<WantedSection>,
    limits: PageLimits,
    /// The bytes of the sections that are in the row of the front, by their numbers.
    near: Vec<Option<&'a [u8]>>,
}

/// The columns of a page as they are stored.
pub(super) struct StoredColumns<'a> {
    /// Where they are among the packed bytes and the strings of the page, and in `meta`, but for what is apart.
    pub(super) ranges: SectionRanges,
    pub(super) meta: Cow<'a, [u8]>,
    /// How many of the sections beside the front are before theirs.
    pub(super) sections_before: usize,
    /// Bytes of the strings and the meta of their own sections.
    pub(super) apart_text: usize,
}

/// What is wanted of a page besides the times and levels of its rows.
#[derive(Clone, Copy)]
pub(crate) struct WantedColumns<'w> {
    /// Whether the keys are.
    pub(crate) keys: bool,
    /// Whether a column is, by its name and kind.
    pub(crate) columns: &'w dyn Fn(&str, PropertyKind) -> bool,
}

impl WantedColumns<'_> {
    /// The whole page.
    pub(super) const ALL: WantedColumns<'static> = WantedColumns { keys: true, columns: &|_, _| true };
}

/// A section that is wanted.
struct WantedSection {
    section: usize,
    of: SectionOwner,
}

/// What a section has.
enum SectionOwner {
    /// What else than their times tells the keys.
    Keys,
    /// The values of a column.
    Column(usize, ApartValues),
}

/// Numbers the sections of a page beside its front, in their order.
struct SectionCounter {
    next: usize,
    wanted: Vec<WantedSection>,
}

impl SectionCounter {
    /// The next section, of which `of` says whose it is if it is wanted.
    fn add(&mut self, of: Option<SectionOwner>) {
        self.wanted.extend(of.map(|of| WantedSection { section: self.next, of }));
        self.next += 1;
    }
}

impl<'a> PartialPage<'a> {
    /// Reads the row of a front as that of a page of `address` that commit `seq` wrote, and what is wanted of it.
    pub(crate) fn decode_front(
        address: PageAddress,
        seq: i64,
        header: &PageHeader,
        row: &'a [u8],
        wanted: WantedColumns<'_>,
    ) -> Result<PartialPage<'a>, PageError> {
        let SplitRow { front, near } = split_row(row);
        check_front(header, front, address.stored_checksum(header, seq))?;
        let page = PartialPage::of(header, PageFrame::open_front(header, front)?, wanted)?;
        Ok(PartialPage { near, ..page })
    }

    /// The same of the sections that were read.
    pub(super) fn of(
        header: &PageHeader,
        mut frame: PageFrame<'a>,
        wanted: WantedColumns<'_>,
    ) -> Result<PartialPage<'a>, PageError> {
        let rows = frame.rows;
        let mut sections = SectionCounter { next: 0, wanted: Vec::new() };
        let text = std::mem::take(&mut frame.strings);
        let limits = PageLimits::of(frame.raw_bytes);
        let mut cursor = SectionCursor::new(&frame.front, (&frame.packed, text, &frame.meta), limits);
        let encoded_keys = EncodedKeys::parse(rows, header.first, &mut cursor)?;
        if encoded_keys.are_apart() {
            sections.add(wanted.keys.then_some(SectionOwner::Keys));
        }
        let levels = Ints::decode(rows, &mut cursor)?;
        let known = |code| code == 0 || u8::try_from(code).ok().and_then(Level::from_code).is_some();
        levels.check(rows, &frame.packed, known)?;
        let count = cursor.meta.count(frame.meta.len())?;
        let mut columns = Vec::with_capacity(count.min(COLUMNS_AT_ONCE));
        let from = cursor.left();
        for number in 0..count {
            let (column, apart) = PageColumn::decode(rows, &mut cursor, wanted.columns)?;
            if let Some(values) = apart {
                sections.add(values.is_wanted.then_some(SectionOwner::Column(number, values)));
            }
            columns.push(column);
        }
        let column_ranges = from.before(&cursor.left());
        let owners = if cursor.at_end() { None } else { Some(Ints::decode(rows, &mut cursor)?) };
        let (text, limits) = cursor.finish()?;
        if sections.next != frame.apart.len() {
            return Err(PageError::Damaged(super::WRONG_END));
        }
        frame.strings = text;
        let ends = (header.first, header.last);
        let wanted = sections.wanted;
        let near = Vec::new();
        Ok(PartialPage { frame, ends, encoded_keys, levels, columns, owners, column_ranges, wanted, limits, near })
    }

    /// Reads the sections that are wanted and in the row of the front. Returns the numbers of the others.
    pub(crate) fn read_near(&mut self) -> Result<Vec<usize>, PageError> {
        let mut others = Vec::new();
        for WantedSection { section, .. } in &self.wanted {
            match self.near.get(*section).copied().flatten() {
                Some(bytes) => self.frame.read_apart(*section, bytes)?,
                None => others.push(*section),
            }
        }
        Ok(others)
    }

    /// Adds a section.
    pub(crate) fn read(&mut self, section: usize, bytes: &[u8]) -> Result<(), PageError> {
        self.frame.read_apart(section, bytes)
    }

    /// The page, of what was read. An error if a section is missing that is wanted.
    pub(crate) fn finish(self) -> Result<Page, PageError> {
        self.finish_with_columns().map(|(page, _)| page)
    }

    /// The same, and its columns as they are stored.
    pub(super) fn finish_with_columns(self) -> Result<(Page, StoredColumns<'a>), PageError> {
        let PartialPage { mut frame, ends, mut encoded_keys, levels, mut columns, owners, .. } = self;
        let (ranges, wanted, mut limits) = (self.column_ranges, self.wanted, self.limits);
        let sections_before = usize::from(encoded_keys.are_apart());
        let mut text = std::mem::take(&mut frame.strings);
        for WantedSection { section, of } in wanted {
            let section = frame.apart[section].as_ref().ok_or(PageError::Damaged("a section was not read"))?;
            let mut cursor = SectionCursor::new(section, (&frame.packed, text, &frame.meta), limits);
            match of {
                SectionOwner::Keys => encoded_keys.parse_rest(&mut cursor)?,
                SectionOwner::Column(number, values) => columns[number].read_values(&values, &mut cursor)?,
            }
            (text, limits) = cursor.finish()?;
        }
        let apart = frame.apart.iter().skip(sections_before).flatten();
        let apart_text = apart.map(|section| section.strings.len() + section.meta.len()).sum();
        let (rows, packed) = (frame.rows, frame.packed);
        let page = Page::of_parts(PageParts { rows, ends, encoded_keys, levels, columns, owners, packed, text })?;
        Ok((page, StoredColumns { ranges, meta: frame.meta, sections_before, apart_text }))
    }
}

impl Page {
    /// Reads a page that was just built. An error if a byte of header or body changed.
    pub fn decode(header: &PageHeader, body: &[u8]) -> Result<Page, PageError> {
        Page::decode_checked(header, body, header.checksum)
    }

    /// Reads a page from a file, as a page of `address` that commit `seq` wrote. An error if it belongs to another
    /// address.
    pub(crate) fn decode_of(
        address: PageAddress,
        seq: i64,
        header: &PageHeader,
        body: &[u8],
    ) -> Result<Page, PageError> {
        Page::decode_checked(header, body, address.stored_checksum(header, seq))
    }

    /// Checks the bytes of a page without decoding it.
    pub(crate) fn check_of(address: PageAddress, seq: i64, header: &PageHeader, body: &[u8]) -> Result<(), PageError> {
        check(header, body, address.stored_checksum(header, seq))
    }

    /// The same; `None` if `wants` refuses the page by its sections. Its keys are decoded by [`Page::read_keys`].
    pub(crate) fn decode_wanted(
        address: PageAddress,
        seq: i64,
        header: &PageHeader,
        body: &[u8],
        wants: impl FnOnce(&PageSections<'_>) -> bool,
    ) -> Result<Option<Page>, PageError> {
        check(header, body, address.stored_checksum(header, seq))?;
        let frame = PageFrame::open(header, body)?;
        if wants(&frame.sections()) { Page::without_keys(header, frame).map(Some) } else { Ok(None) }
    }

    fn decode_checked(header: &PageHeader, body: &[u8], expected: u64) -> Result<Page, PageError> {
        check(header, body, expected)?;
        Page::decode_unchecked(header, body)
    }

    /// Reads a page whose checksum is right. Nevertheless accepts any bytes.
    pub(super) fn decode_unchecked(header: &PageHeader, body: &[u8]) -> Result<Page, PageError> {
        Page::of(header, PageFrame::open(header, body)?)
    }

    /// Reads a page of all its sections.
    pub(super) fn of(header: &PageHeader, frame: PageFrame<'_>) -> Result<Page, PageError> {
        let page = Page::without_keys(header, frame)?;
        page.read_keys()?;
        Ok(page)
    }

    fn without_keys(header: &PageHeader, frame: PageFrame<'_>) -> Result<Page, PageError> {
        PartialPage::of(header, frame, WantedColumns::ALL)?.finish()
    }
}
