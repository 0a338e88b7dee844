//! A text or a level that is looked for, and which pages and rows may have it.
//!
//! A page is prefilter through before it is decoded, as most of a day has not the text. A row's text lies in the page's strings
//! as it is, or without its numbers (`pattern`), or as bytes where it is hexadecimal (`strings`). So what is between the
//! digits of a text that is there lies in the strings, unless the text could be in hexadecimal, or in a value that is no
//! string: then every page is decoded. Which levels a page has, its header says.

use super::{LevelMinute, Page, PageError, PageHeader, level_minutes};
use daytable_model::entity::MULTI_ROW_PROPERTIES;
use daytable_model::needle::Needle;
use daytable_model::record::Level;
use memchr::memmem::Finder;

/// Parts of a text that are looked for: more of them tell little more.
const PARTS_MAX: usize = 4;

/// What is looked for: records that have all of it.
pub(crate) struct Prefilter {
    text: Option<Text>,
    /// This level or a worse one.
    level: Option<Level>,
}

/// A text that is looked for.
struct Text {
    whole: Needle,
    /// What is between its digits, the longest first; none where every page has to be decoded.
    parts: Vec<Finder<'static>>,
    /// The names of [`MULTI_ROW_PROPERTIES`].
    spread: [Finder<'static>; 2],
}

impl Prefilter {
    /// Looks for a text and a level or worse; none where neither is asked for. An empty text is in every page.
    pub(crate) fn new(text: Option<&str>, level: Option<Level>) -> Option<Prefilter> {
        let text = text.map(Text::new);
        (text.is_some() || level.is_some()).then_some(Prefilter { text, level })
    }

    /// Whether a page with this header may have a row of the level: items have none, their master decides.
    pub(super) fn may_have_level(&self, header: &PageHeader) -> bool {
        let Some(level) = self.level else { return true };
        // One that cannot be read is for whoever decodes the page.
        let has_it = |of: Result<LevelMinute, PageError>| of.map_or(true, |of| of.level >= Some(level));
        header.records < header.entities || level_minutes(&header.levels).any(has_it)
    }

    /// Whether a page with these strings may have the text.
    pub(super) fn may_have_text(&self, strings: &[u8]) -> bool {
        let Some(text) = &self.text else { return true };
        let has = |part: &Finder<'static>| part.find(strings).is_some();
        text.parts.iter().all(has) || text.spread.iter().any(has)
    }

    /// The rows of a page that may have it; none where all may.
    pub(crate) fn rows_of(&self, page: &Page) -> Option<Vec<usize>> {
        let spread = || MULTI_ROW_PROPERTIES.iter().any(|(name, kind)| page.column(name, *kind).is_some());
        let hits = self.text.as_ref().filter(|_| !spread()).map(|text| page.any_value_contains(&text.whole));
        if hits.is_none() && self.level.is_none() {
            return None;
        }
        let has_text = |row: &usize| hits.as_ref().is_none_or(|hits| hits[*row]);
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
        let mut parts: Vec<&[u8]> = text.as_bytes().split(u8::is_ascii_digit).filter(|part| !part.is_empty()).collect();
        parts.sort_unstable_by_key(|part| std::cmp::Reverse(part.len()));
        parts.truncate(if is_anywhere { 0 } else { PARTS_MAX });
        Text {
            whole,
            parts: parts.into_iter().map(|part| Finder::new(part).into_owned()).collect(),
            spread: MULTI_ROW_PROPERTIES.map(|(name, _)| Finder::new(name).into_owned()),
        }
    }
}
