//! A text that is looked for, and what a page has that holds it.
//!
//! A page is sought through before it is decoded, as most of a day has not the text. A row's text lies in the page's strings
//! as it is, or without its numbers (`pattern`), or as bytes where it is hexadecimal (`strings`). So what is between the
//! digits of a text that is there lies in the strings, unless the text could be in hexadecimal.

use memchr::memmem::Finder;

/// Parts of a text that are looked for: more of them tell little more.
const PARTS_MAX: usize = 4;

/// A text that is looked for.
pub(in crate::store) struct Sought {
    whole: Finder<'static>,
    /// What is between its digits, the longest first; none where every page has to be decoded.
    parts: Vec<Finder<'static>>,
    /// The properties of which the values are not, or not alone, the texts of a record.
    spread: [Finder<'static>; 2],
}

impl Sought {
    /// Looks for `text`. An empty one is in every page.
    pub(in crate::store) fn new(text: &str) -> Sought {
        let is_hex = text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        let mut parts: Vec<&[u8]> = text.as_bytes().split(u8::is_ascii_digit).filter(|part| !part.is_empty()).collect();
        parts.sort_unstable_by_key(|part| std::cmp::Reverse(part.len()));
        parts.truncate(if is_hex { 0 } else { PARTS_MAX });
        Sought {
            whole: Finder::new(text).into_owned(),
            parts: parts.into_iter().map(|part| Finder::new(part).into_owned()).collect(),
            spread: ["Items", "Fields"].map(|name| Finder::new(name).into_owned()),
        }
    }

    /// What finds it in a text.
    pub(in crate::store) fn finder(&self) -> &Finder<'static> {
        &self.whole
    }

    /// Whether a page with these strings may have it.
    pub(super) fn may_be_in(&self, strings: &[u8]) -> bool {
        let has = |part: &Finder<'static>| part.find(strings).is_some();
        self.parts.iter().all(has) || self.spread.iter().any(has)
    }
}
