//! A prefilter: which pages and rows may contain a text, or have a level.
//!
//! A page is filtered before it is decoded, because most pages lack the text. A row's text occurs in the page's
//! strings as it is, or without its numbers (`pattern`), or as bytes if it is hexadecimal (`strings`). A text may also
//! lie across values, with text of a layout between them. The words of the text therefore occur in the strings, unless
//! the text may be hexadecimal, or part of a value that is not a string: then every page is decoded. The header contains
//! the levels of a page.

use super::read::{Page, PageFrame, check};
use super::{LevelMinute, PageAddress, PageError, PageHeader, level_minutes};
use daytable_model::entity::MULTI_ROW_PROPERTIES;
use daytable_model::line::{LAYOUT, TIGHT};
use daytable_model::needle::Needle;
use daytable_model::property::{Property, PropertyKind};
use daytable_model::record::Level;
use memchr::memmem::{self, Finder};

/// Maximum number of text parts that are searched: more parts exclude few further pages.
const PARTS_MAX: usize = 4;

/// The shortest word that is searched for.
const PART_BYTES_MIN: usize = 3;

/// Whether a level or a time may print a word: their names are no strings of the page.
fn is_written_otherwise(word: &[u8]) -> bool {
    const NAMES: &str = "trace debug info notice warn error critical alert fatal january february march april may june july \
                         august september october november december monday tuesday wednesday thursday friday saturday \
                         sunday true false nan infinity";
    let word = word.to_ascii_lowercase();
    memmem::find(NAMES.as_bytes(), &word).is_some()
}

/// Selects the records that match all conditions.
pub(crate) struct Prefilter {
    text: Option<Text>,
    /// The least severe level that matches.
    level: Option<Level>,
}

/// The text condition.
struct Text {
    whole: Needle,
    /// The parts between its digits, the longest first; empty if every page must be decoded.
    parts: Vec<Finder<'static>>,
    /// The names in [`MULTI_ROW_PROPERTIES`].
    spread: [Finder<'static>; 2],
    /// The mark of a layout whose values touch.
    tight: Finder<'static>,
}

impl Prefilter {
    /// A prefilter for a text and a minimum level; `None` without any condition. Every page contains the empty text.
    pub(crate) fn new(text: Option<&str>, level: Option<Level>) -> Option<Prefilter> {
        let text = text.map(Text::new);
        (text.is_some() || level.is_some()).then_some(Prefilter { text, level })
    }

    /// Reads a page from a file like [`Page::decode_of`]; `None` if no row can match.
    pub(crate) fn decode_page(
        &self,
        address: PageAddress,
        seq: i64,
        header: &PageHeader,
        body: &[u8],
    ) -> Result<Option<Page>, PageError> {
        check(header, body, address.stored_checksum(header, seq))?;
        if !self.may_have_level(header) {
            return Ok(None);
        }
        let frame = PageFrame::open(header, body)?;
        if self.may_have_text(&frame.strings) { Page::of(header, frame).map(Some) } else { Ok(None) }
    }

    /// Whether a page with this header may have a row of the level. Items have no level: their master decides.
    fn may_have_level(&self, header: &PageHeader) -> bool {
        let Some(level) = self.level else { return true };
        // An unreadable count is left to the decoder.
        let has_it = |of: Result<LevelMinute, PageError>| of.map_or(true, |of| of.level >= Some(level));
        header.records < header.entities || level_minutes(&header.levels).any(has_it)
    }

    /// Whether a page with these strings may contain the text.
    fn may_have_text(&self, strings: &[u8]) -> bool {
        let Some(text) = &self.text else { return true };
        let has = |part: &Finder<'static>| part.find(strings).is_some();
        text.parts.iter().all(has) || text.spread.iter().any(has) || text.tight.find(strings).is_some()
    }

    /// The rows of a page that may match; `None` if all may.
    pub(crate) fn rows_of(&self, page: &Page) -> Option<Vec<usize>> {
        let spread = || MULTI_ROW_PROPERTIES.iter().any(|(name, kind)| page.column(name, *kind).is_some());
        let hits = self.text.as_ref().filter(|_| !spread()).map(|text| {
            let mut hits = page.any_value_contains(&text.whole);
            if let Some(layouts) = page.column(LAYOUT, PropertyKind::String) {
                let crosses = |row: &usize| matches!(layouts.value(*row), Some(Property::String(layout)) if text.whole.may_cross(layout));
                let more: Vec<usize> = (0..page.len()).filter(|row| !hits.contains(*row)).filter(crosses).collect();
                more.into_iter().for_each(|row| hits.insert(row));
            }
            hits
        });
        if hits.is_none() && self.level.is_none() {
            return None;
        }
        let has_text = |row: &usize| hits.as_ref().is_none_or(|hits| hits.contains(*row));
        let has_level =
            |row: &usize| self.level.is_none() || page.level(*row) >= self.level || page.key(*row).item() > 0;
        Some((0..page.len()).filter(has_text).filter(has_level).collect())
    }
}

impl Text {
    fn new(text: &str) -> Text {
        let whole = Needle::new(text);
        let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let is_anywhere = is_hex || whole.may_be_beside_strings();
        // Words are whole in the strings, which include the layouts, unless two values touch.
        let words = text.as_bytes().split(|byte| !byte.is_ascii_alphabetic());
        let mut parts: Vec<&[u8]> =
            words.filter(|word| word.len() >= PART_BYTES_MIN && !is_written_otherwise(word)).collect();
        parts.sort_unstable_by_key(|part| std::cmp::Reverse(part.len()));
        parts.truncate(if is_anywhere { 0 } else { PARTS_MAX });
        Text {
            whole,
            parts: parts.into_iter().map(|part| Finder::new(part).into_owned()).collect(),
            tight: Finder::new(TIGHT).into_owned(),
            spread: MULTI_ROW_PROPERTIES.map(|(name, _)| Finder::new(name).into_owned()),
        }
    }
}
