//! The words of a page, as keys of its Bloom index (`page_bloom`). They are gathered while the columns are written, so that a
//! text which many rows share is cut into words once, and an identifier is not printed.
//!
//! The key of a word is a hash of its shortest form: of four numbers for an address, of bytes for an even number of
//! hexadecimal digits, otherwise of its text. The form depends on the word alone, so any column and a question agree.
//!
//! A record of several rows has words across its rows, and a page with bytes or UUIDs has words that are not gathered.

use super::hex;
use daytable_model::decimal::{DIGITS_MAX, digits};
use daytable_model::line::{escape_json, json_without_escapes, without_short};
use daytable_model::words::{MIXED_MIN, NUMBER_DIGITS_MAX, NUMBERS, each_word};
use std::ops::Range;
use xxhash_rust::xxh3::xxh3_64;

/// The shortest word that is hashed as bytes.
const HEX_MIN: usize = 8;
/// Keys that were seen last, which are not kept twice; a power of two.
const SEEN: usize = 1 << 10;
/// Most bytes of the layouts of a page.
const LAYOUT_BYTES_MAX: usize = 16 << 10;
/// Numbers of an address are below this.
const ADDRESS_NUMBER_END: u64 = 10u64.pow(NUMBER_DIGITS_MAX as u32);

/// The words of a page.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PageWords {
    pub(crate) keys: Box<[u32]>,
    /// The different layouts of its lines.
    pub(crate) layouts: Vec<Box<str>>,
    /// Whether it has bytes or UUIDs.
    pub(crate) has_bytes: bool,
}

/// Gathers the words of a page that is being built, if it was begun.
#[derive(Default)]
pub(super) struct WordGatherer {
    is_on: bool,
    keys: Vec<u32>,
    layouts: Vec<Box<str>>,
    layout_bytes: usize,
    has_bytes: bool,
    seen: Vec<u32>,
    room: Vec<u8>,
    word: String,
}

/// Whether a key is that of a word without digits: such words repeat, so a page has few.
pub(crate) fn is_of_letters(key: u32) -> bool {
    key & 1 == 1
}

/// The key of a word. `room` is for its bytes.
pub(crate) fn word_key(word: &str, room: &mut Vec<u8>) -> u32 {
    let bytes = word.as_bytes();
    if let Some(numbers) = address(bytes) {
        return address_key(numbers);
    }
    room.clear();
    if bytes.len() >= HEX_MIN && bytes.len().is_multiple_of(2) && hex::decode(bytes, room) {
        return hex_key(room);
    }
    (xxh3_64(bytes) >> 32) as u32 & !1 | u32::from(!bytes.iter().any(u8::is_ascii_digit))
}

/// The numbers of an address, if they are written without leading zeros.
fn address(word: &[u8]) -> Option<[u64; NUMBERS]> {
    if !matches!(word.first(), Some(b'0'..=b'9')) || !word.contains(&b'.') {
        return None;
    }
    let mut parts = word.split(|byte| *byte == b'.').map(plain_number);
    let numbers = [parts.next()??, parts.next()??, parts.next()??, parts.next()??];
    parts.next().is_none().then_some(numbers)
}

/// A number of an address, if its digits are those that print it.
fn plain_number(digits: &[u8]) -> Option<u64> {
    let is_plain = matches!(digits, [b'0'] | [b'1'..=b'9', ..]) && digits.len() <= NUMBER_DIGITS_MAX;
    let digit = |byte: &u8| byte.is_ascii_digit().then(|| u64::from(byte - b'0'));
    is_plain.then(|| digits.iter().try_fold(0, |number, byte| Some(10 * number + digit(byte)?)))?
}

fn address_key(numbers: [u64; NUMBERS]) -> u32 {
    let packed = numbers.iter().fold(0, |packed, number| packed << 10 | number);
    let mixed = packed.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    ((mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 32) as u32 & !1
}

fn hex_key(bytes: &[u8]) -> u32 {
    (xxh3_64(bytes) >> 32) as u32 & !1
}

impl WordGatherer {
    /// Begins a page; `is_on` is false if its words are not wanted.
    pub(super) fn begin(&mut self, is_on: bool) {
        self.is_on = is_on;
        self.keys.clear();
        self.layouts.clear();
        (self.layout_bytes, self.has_bytes) = (0, false);
        self.seen.clear();
        self.seen.resize(if is_on { SEEN } else { 0 }, 0);
    }

    /// Ends a page. `None` if its words were not wanted, or its layouts are too many.
    pub(super) fn end(&mut self) -> Option<Box<PageWords>> {
        let is_whole = std::mem::take(&mut self.is_on) && self.layout_bytes <= LAYOUT_BYTES_MAX;
        is_whole.then(|| {
            let layouts = std::mem::take(&mut self.layouts);
            Box::new(PageWords { keys: self.keys.as_slice().into(), layouts, has_bytes: self.has_bytes })
        })
    }

    pub(super) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Notes that the page has bytes or UUIDs.
    pub(super) fn add_bytes(&mut self) {
        self.has_bytes = true;
    }

    /// Adds the layouts of some rows.
    pub(super) fn add_layouts(&mut self, layouts: &[&str]) {
        let mut last: Option<&str> = None;
        for layout in layouts.iter().filter(|_| self.is_on) {
            if last.is_some_and(|last| std::ptr::eq(last, *layout)) {
                continue;
            }
            last = Some(layout);
            let layout = without_short(layout);
            if self.layout_bytes <= LAYOUT_BYTES_MAX && !self.layouts.iter().any(|known| **known == *layout) {
                self.layout_bytes += layout.len();
                self.layouts.push(layout.into());
            }
        }
    }

    /// Adds the words of a text.
    pub(super) fn add_text(&mut self, text: &str) {
        if !self.is_on {
            return;
        }
        self.add_words(text);
        let is_escaped = |byte: u8| byte < 0x20 || byte == b'"' || byte == b'\\';
        if text.bytes().fold(false, |any, byte| any | is_escaped(byte)) {
            // A value that is escaped in its line has the words of its escaped form there.
            let mut escaped = Vec::new();
            escape_json(text.as_bytes(), false, &mut escaped);
            self.add_words(str::from_utf8(&escaped).unwrap_or_default());
            // A value that is JSON is read without its escapes.
            json_without_escapes(text).into_iter().for_each(|read| self.add_words(&read));
            // In verbatim text, this character and two digits stand for a byte.
            text.split('\u{1e}').skip(1).filter_map(|rest| rest.get(2..)).for_each(|rest| self.add_words(rest));
        }
    }

    fn add_words(&mut self, text: &str) {
        let mut room = std::mem::take(&mut self.room);
        each_word(text, |word| self.add_key(word_key(&text[word], &mut room)));
        self.room = room;
    }

    #[inline]
    fn add_key(&mut self, key: u32) {
        // 0 marks a free slot; such a key is kept each time.
        let seen = &mut self.seen[(key >> 8) as usize % SEEN];
        if *seen != key || key == 0 {
            *seen = key;
            self.keys.push(key);
        }
    }

    /// Adds texts of hexadecimal digits, as bytes of one width.
    pub(super) fn add_hex(&mut self, bytes: &[u8], width: usize) {
        if self.is_on && width > 0 {
            self.keys.extend(bytes.chunks_exact(width).map(hex_key));
        }
    }

    /// Adds the words of the values of a pattern that are the same in all.
    pub(super) fn add_pattern(&mut self, pattern: &PatternWords<'_>) {
        for word in &pattern.whole {
            let key = word_key(&pattern.text[word.clone()], &mut self.room);
            self.add_key(key);
        }
    }

    /// Adds the other words of a value of a pattern, by its numbers.
    #[inline]
    pub(super) fn add_value(&mut self, pattern: &PatternWords<'_>, number: impl Fn(usize) -> u64) {
        for slots in &pattern.addresses {
            let numbers = slots.each_ref().map(|slot| match *slot {
                NumberOf::Slot(slot) => number(slot),
                NumberOf::Literal(number) => number,
                NumberOf::Odd => ADDRESS_NUMBER_END,
            });
            if numbers.iter().all(|number| *number < ADDRESS_NUMBER_END) {
                self.keys.push(address_key(numbers));
            }
        }
        for run in &pattern.runs {
            if let [before, after] = &*run.pieces
                && number(run.first) < run.least
            {
                debug_assert!(before.len() + after.len() < MIXED_MIN);
                continue;
            }
            let mut word = std::mem::take(&mut self.word);
            word.clear();
            for (at, piece) in run.pieces.iter().enumerate() {
                if at > 0 {
                    let mut buffer = [0; DIGITS_MAX];
                    let printed = digits(number(run.first + at - 1), &mut buffer);
                    word.push_str(str::from_utf8(printed).unwrap_or_default());
                }
                word.push_str(&pattern.text[piece.clone()]);
            }
            if word.len() >= MIXED_MIN {
                let key = word_key(&word, &mut self.room);
                self.add_key(key);
            }
            self.word = word;
        }
    }
}

/// A pattern, cut into words: text with a mark for each number.
pub(super) struct PatternWords<'p> {
    text: &'p str,
    /// Words without a number.
    whole: Vec<Range<usize>>,
    runs: Vec<Run>,
    addresses: Vec<[NumberOf; NUMBERS]>,
}

/// A word with numbers.
struct Run {
    /// Its first number.
    first: usize,
    /// The text around its numbers.
    pieces: Vec<Range<usize>>,
    /// The least number that makes a word, where there is only one.
    least: u64,
}

#[derive(Clone, Copy)]
enum NumberOf {
    Slot(usize),
    Literal(u64),
    /// It has a leading zero, so its address has another key.
    Odd,
}

impl<'p> PatternWords<'p> {
    /// `None` if the values have to be printed to tell their words.
    pub(super) fn of(text: &'p str, slot: u8) -> Option<PatternWords<'p>> {
        let mut pattern = PatternWords { text, whole: Vec::new(), runs: Vec::new(), addresses: Vec::new() };
        let (bytes, mark) = (text.as_bytes(), char::from(slot));
        if bytes.iter().any(|byte| *byte != slot && (*byte < 0x20 || *byte == b'"' || *byte == b'\\')) {
            return None;
        }
        let is_part = |c: char| c == mark || daytable_model::words::is_word_character(c);
        // The next number, and the last words in a row that may be numbers of an address.
        let (mut next, mut chain, mut chain_end) = (0, Vec::new(), 0);
        let mut at = 0;
        while at < text.len() {
            let rest = &text[at..];
            let length = rest.find(|c: char| !is_part(c)).unwrap_or(rest.len());
            if length == 0 {
                at += rest.chars().next().map_or(1, char::len_utf8);
                continue;
            }
            let (run, first) = (at..at + length, next);
            let marks: Vec<usize> = run.clone().filter(|at| bytes[*at] == slot).collect();
            next += marks.len();
            let number = match &*marks {
                [_] if length == 1 => Some(NumberOf::Slot(first)),
                [] if bytes[run.clone()].iter().all(u8::is_ascii_digit) && length <= NUMBER_DIGITS_MAX => {
                    Some(plain_number(&bytes[run.clone()]).map_or(NumberOf::Odd, NumberOf::Literal))
                }
                _ => None,
            };
            let follows = !chain.is_empty() && run.start == chain_end + 1 && bytes[chain_end] == b'.';
            match number {
                Some(number) => {
                    if !follows {
                        chain.clear();
                    }
                    chain.push(number);
                    if let Some(last) = chain.last_chunk::<NUMBERS>() {
                        if last.iter().any(|number| matches!(number, NumberOf::Odd)) {
                            return None;
                        }
                        pattern.addresses.push(*last);
                    }
                }
                None => chain.clear(),
            }
            (at, chain_end) = (run.end, run.end);
            if marks.is_empty() {
                // A text of its own tells what is a word.
                each_word(&text[run.clone()], |word| pattern.whole.push(run.start + word.start..run.start + word.end));
            } else {
                let starts = [run.start].into_iter().chain(marks.iter().map(|at| at + 1));
                let ends = marks.iter().copied().chain([run.end]);
                let pieces = starts.zip(ends).map(|(start, end)| start..end).collect();
                let more = MIXED_MIN.saturating_sub(length - marks.len());
                let least = if more > 1 { 10u64.pow(u32::try_from(more - 1).unwrap_or(0)) } else { 0 };
                pattern.runs.push(Run { first, pieces, least });
            }
        }
        Some(pattern)
    }

    /// Whether values have no words beyond those of the pattern.
    pub(super) fn is_whole(&self) -> bool {
        self.runs.is_empty() && self.addresses.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::format::page::sections::Sections;
    use crate::format::page::strings;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    fn text() -> impl Strategy<Value = String> {
        prop_oneof![
            "(10|1\u{1f}|[0-9]{1,4})\\.[0-9]{1,3}\\.[0-9]{1,3}\\.0?[0-9]{1,2}(\\.[0-9]{1,2})?",
            "[a-f0-9]{12}",
            "[ab]{1,2}[0-9]{1,8}[_c]?[-/é. ]([0-9]{1,6}[x_]?){0,2}[\"\\\\\n]?",
            "[a-c ]{0,20}",
            "(\u{1e}1f|\u{1a}|12345|abc| ){0,4}",
            "\\[\"[a-c]{3,5}\\\\[nt\"][a-c]{3,5}\"\\]",
        ]
    }

    proptest! {
        /// Whatever the form of a column, the page has the keys of the words of its texts and of their escaped forms, and no
        /// others.
        #[test]
        fn keys_are_those_of_the_texts(
            values in prop_oneof![
                prop::collection::vec(text(), 1..200),
                prop::collection::vec("1[0-9]{0,2}\\.[0-9]{1,3}\\.[0-9]{1,3}\\.[0-9]{1,3}", 40..200),
                prop::collection::vec("/v1/user[0-9]{1,5}/[0-9]{1,9}\\?q=[0-9]{1,3}\\.[0-9]\\.7\\.[0-9]{1,4}", 40..200),
                prop::collection::vec("[0-9a-f]{16}", 1..100),
            ],
        ) {
            let texts: Vec<&str> = values.iter().map(String::as_str).collect();
            let mut out = Sections::default();
            out.words.begin(true);
            strings::encode(&texts, &mut out);
            let found: BTreeSet<u32> = out.words.end().expect("begun").keys.iter().copied().collect();
            let (mut wanted, mut room) = (BTreeSet::new(), Vec::new());
            for text in texts {
                let mut escaped = Vec::new();
                escape_json(text.as_bytes(), false, &mut escaped);
                let escaped = String::from_utf8(escaped).expect("text");
                let pieces = text.split('\u{1e}').skip(1).filter_map(|rest| rest.get(2..));
                let read = json_without_escapes(text);
                for text in [text, &escaped].into_iter().chain(pieces).chain(read.as_deref()) {
                    each_word(text, |word| {
                        wanted.insert(word_key(&text[word], &mut room));
                    });
                }
            }
            prop_assert_eq!(found, wanted);
        }
    }
}
