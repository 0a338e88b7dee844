//! A prefilter: which pages and rows may contain a text, or have a level.
//!
//! A page is filtered before it is decoded, because most pages lack the text. A row's text occurs in the page's
//! strings as it is, or without its numbers (`pattern`), or as bytes if it is hexadecimal (`strings`). A text may also
//! lie across values, with text of a layout between them. The words of the text therefore occur in the strings, unless
//! the text may be hexadecimal, or part of a value that is not a string: then every page is decoded. The header contains
//! the levels of a page.

use super::frame::{PageFrame, PageSections, check};
use super::hex;
use super::pattern::{NUMBERS_MAX, without_numbers};
use super::read::Page;
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

/// Whether a level or a time may print a word: their names are not strings of the page.
fn is_written_otherwise(word: &[u8]) -> bool {
    const NAMES: &str = "trace debug info notice warn error critical alert fatal january february march april may june july \
                         august september october november december monday tuesday wednesday thursday friday saturday \
                         sunday true false nan infinity";
    let word = word.to_ascii_lowercase();
    memmem::find(NAMES.as_bytes(), &word).is_some()
}

/// Selects the records that match all conditions.
pub(crate) struct Prefilter {
    text: Option<TextPrefilter>,
    /// The least severe level that matches.
    level: Option<Level>,
}

/// Says of a page that it lacks a text, before its columns are read.
pub struct TextPrefilter {
    whole: Needle,
    /// The parts between its digits, the longest first; empty if every page must be decoded.
    parts: Vec<Finder<'static>>,
    /// The bytes of a text of hexadecimal digits, and its other forms.
    hexadecimal: Option<HexForms>,
    /// The names in [`MULTI_ROW_PROPERTIES`].
    spread: [Finder<'static>; 2],
    /// The mark of a layout whose values touch.
    tight: Finder<'static>,
}

/// The forms that a text of hexadecimal digits may have in a page.
struct HexForms {
    /// As bytes, at both alignments of its digits.
    bytes: Vec<Finder<'static>>,
    /// Between its first and its last letter, as text with none, some or all of its numbers taken out.
    texts: Vec<Finder<'static>>,
}

impl HexForms {
    /// `None` if the text is too short to be rare, or may be a part of a number or a UUID.
    fn of(text: &str) -> Option<HexForms> {
        const DIGITS_MIN: usize = 13;
        let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let is_letter = |byte: u8| byte.is_ascii_alphabetic();
        let letters = text.bytes().filter(|byte| is_letter(*byte)).count();
        // A float has one letter.
        if !is_hex || text.len() < DIGITS_MIN || letters < 2 {
            return None;
        }
        let bytes = [0, 1].map(|odd| {
            let pairs = &text.as_bytes()[odd..odd + (text.len() - odd) / 2 * 2];
            let mut core = Vec::new();
            hex::decode(pairs, &mut core).then(|| Finder::new(&core).into_owned())
        });
        let (first, last) = (text.bytes().position(is_letter)?, text.bytes().rposition(is_letter)?);
        let inner = &text.as_bytes()[first..=last];
        let runs = inner.split(|byte| is_letter(*byte)).filter(|run| !run.is_empty()).count();
        let texts = (0..=runs.min(NUMBERS_MAX)).map(|taken| Finder::new(&without_numbers(inner, taken)).into_owned());
        Some(HexForms { bytes: bytes.into_iter().flatten().collect(), texts: texts.collect() })
    }

    fn may_be_in(&self, page: &PageSections<'_>) -> bool {
        let is_in = |finders: &[Finder<'static>], bytes: &[u8]| finders.iter().any(|form| form.find(bytes).is_some());
        is_in(&self.bytes, page.packed)
            || is_in(&self.bytes, page.meta)
            || is_in(&self.texts, page.strings)
            || has_open_border(page.strings)
    }
}

/// Whether a layout among these strings may have a hexadecimal digit, or another hole, beside a hole: then a text of such
/// digits may lie across the border.
fn has_open_border(strings: &[u8]) -> bool {
    let is_digit = |at: usize| strings.get(at).is_some_and(u8::is_ascii_hexdigit);
    memchr::memchr_iter(b'%', strings).any(|at| {
        let before = |back: usize| at.checked_sub(back).and_then(|at| strings.get(at));
        let closes =
            |open: usize, sign| memchr::memchr(sign, &strings[open..]).map_or(strings.len(), |end| open + end + 1);
        let code = strings.get(at + 1);
        let end = match (code, strings.get(at + 2)) {
            (Some(b'(' | b'.'), _) | (Some(b'T'), Some(b'(')) => closes(at, b')'),
            (Some(b'['), _) => closes(at, b']'),
            _ => at + 2,
        };
        let is_mark = matches!(code, Some(b'<' | b'>' | b'~'));
        let is_after_hole = match before(1) {
            Some(b')' | b']') => true,
            Some(b'<') => false,
            _ => before(2) == Some(&b'%'),
        };
        at.checked_sub(1).is_some_and(is_digit) || is_digit(end) || is_after_hole && !is_mark
    })
}

impl Prefilter {
    /// A prefilter for a text and a minimum level; `None` without any condition. Every page contains the empty text.
    pub(crate) fn new(text: Option<&str>, level: Option<Level>) -> Option<Prefilter> {
        let text = text.map(TextPrefilter::new);
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
        if self.may_have_text(&frame) { Page::of(header, frame).map(Some) } else { Ok(None) }
    }

    /// Whether a page with this header may have a row of the level. Items have no level: their master decides.
    fn may_have_level(&self, header: &PageHeader) -> bool {
        let Some(level) = self.level else { return true };
        // An unreadable count is left to the decoder.
        let has_it = |of: Result<LevelMinute, PageError>| of.map_or(true, |of| of.level >= Some(level));
        header.records < header.entities || level_minutes(&header.levels).any(has_it)
    }

    /// Whether a page with these sections may contain the text.
    fn may_have_text(&self, frame: &PageFrame<'_>) -> bool {
        self.text.as_ref().is_none_or(|text| text.may_be_in(&frame.sections()))
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

impl TextPrefilter {
    /// Prepares a search for a text.
    pub fn new(text: &str) -> TextPrefilter {
        let whole = Needle::new(text);
        let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let is_anywhere = is_hex || whole.may_be_beside_strings();
        // Words are whole in the strings, which include the layouts, unless two values touch.
        let words = text.as_bytes().split(|byte| !byte.is_ascii_alphabetic());
        let mut parts: Vec<&[u8]> =
            words.filter(|word| word.len() >= PART_BYTES_MIN && !is_written_otherwise(word)).collect();
        parts.sort_unstable_by_key(|part| std::cmp::Reverse(part.len()));
        parts.truncate(if is_anywhere { 0 } else { PARTS_MAX });
        TextPrefilter {
            whole,
            parts: parts.into_iter().map(|part| Finder::new(part).into_owned()).collect(),
            hexadecimal: HexForms::of(text),
            tight: Finder::new(TIGHT).into_owned(),
            spread: MULTI_ROW_PROPERTIES.map(|(name, _)| Finder::new(name).into_owned()),
        }
    }

    /// Whether a page with these sections may contain the text.
    pub fn may_be_in(&self, page: &PageSections<'_>) -> bool {
        let has = |part: &Finder<'static>| part.find(page.strings).is_some();
        let has_it = match &self.hexadecimal {
            Some(forms) => forms.may_be_in(page),
            None => self.parts.iter().all(has),
        };
        has_it || self.spread.iter().any(has) || has(&self.tight)
    }
}
