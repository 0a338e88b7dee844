//! A text as it is read after its escapes were decoded once, twice and so on, each with a way back to the bytes of the
//! text.
//!
//! ```text
//! ann@example\\u002ecom      view 0: as written
//! ann@example\u002ecom       view 1: JSON in a string of JSON
//! ann@example.com            view 2
//! ```
//!
//! Escapes are decoded wherever they stand, in quotes or not, because it is not known who will decode the text again.
//! What is decoded: the escapes of JSON, `\'`, `\xHH`, `\UHHHHHHHH`, `\u{H…}` and three octal digits. A backslash before
//! anything else is a backslash. A surrogate without its other half stays as it is written.

use memchr::{memchr, memrchr};
use std::borrow::Cow;
use std::ops::Range;

/// Views of a text. Each takes a backslash of the one before; more than a few are lines of backslashes.
pub(crate) const VIEWS_MAX: usize = 8;

/// A text after its escapes were decoded.
pub(crate) struct TextView<'t> {
    pub(crate) text: Cow<'t, str>,
    /// The escapes of the text before, in order: their bytes there, and the place after the character here.
    escapes: Vec<(Range<usize>, usize)>,
}

impl<'t> TextView<'t> {
    /// The text as it is written.
    pub(crate) fn written(text: &'t str) -> TextView<'t> {
        TextView { text: Cow::Borrowed(text), escapes: Vec::new() }
    }

    /// The view of this one; `None` if it has no escapes.
    pub(crate) fn decoded(&self) -> Option<TextView<'static>> {
        let text = &*self.text;
        let (mut made, mut escapes, mut copied, mut at) = (String::new(), Vec::new(), 0, 0);
        while let Some(found) = memchr(b'\\', &text.as_bytes()[at..]) {
            let start = at + found;
            let Some((decoded, length)) = escape_at(&text.as_bytes()[start..]) else {
                at = start + 1;
                continue;
            };
            at = start + length;
            made.push_str(&text[copied..start]);
            made.push_str(&decoded);
            escapes.push((start..at, made.len()));
            copied = at;
        }
        if escapes.is_empty() {
            return None;
        }
        made.push_str(&text[copied..]);
        Some(TextView { text: Cow::Owned(made), escapes })
    }

    /// The place in the text before, of a place between two characters here.
    fn before(&self, at: usize) -> usize {
        let passed = self.escapes.partition_point(|(_, end)| *end <= at);
        match passed.checked_sub(1).and_then(|last| self.escapes.get(last)) {
            Some((escape, end)) => escape.end + (at - end),
            None => at,
        }
    }

    /// The escape of the text before within which this place of that text lies.
    pub(crate) fn escape_around(&self, at: usize) -> Option<Range<usize>> {
        let passed = self.escapes.partition_point(|(escape, _)| escape.end <= at);
        self.escapes.get(passed).map(|(escape, _)| escape.clone()).filter(|escape| escape.start < at)
    }
}

/// The views of a text.
pub(crate) struct Views<'t>(pub(crate) Vec<TextView<'t>>);

impl<'t> Views<'t> {
    pub(crate) fn of(text: &'t str) -> Views<'t> {
        let mut views = vec![TextView::written(text)];
        while views.len() < VIEWS_MAX
            && let Some(next) = views.last().and_then(TextView::decoded)
        {
            views.push(next);
        }
        Views(views)
    }

    /// The bytes of the text that make a range of the view with this number.
    pub(crate) fn bytes_of(&self, number: usize, range: &Range<usize>) -> Range<usize> {
        let of = |place: usize| self.0[..=number].iter().rev().fold(place, |at, view| view.before(at));
        of(range.start)..of(range.end)
    }

    /// The bytes of the text that make each place where a view has `part`. Only places where no word goes on beside
    /// the part, if there are any.
    pub(crate) fn places_of(&self, part: &str) -> Vec<Range<usize>> {
        let mut places: Vec<(bool, Range<usize>)> = Vec::new();
        for (number, view) in self.0.iter().enumerate() {
            for (at, _) in view.text.match_indices(part).filter(|_| !part.is_empty()) {
                let range = at..at + part.len();
                places.push((is_word(&view.text, &range), self.bytes_of(number, &range)));
            }
        }
        let has_word = places.iter().any(|(is_word, _)| *is_word);
        places.retain(|(is_word, _)| *is_word || !has_word);
        places.into_iter().map(|(_, place)| place).collect()
    }
}

/// Whether no word goes on beside this part of a text.
pub(crate) fn is_word(text: &str, part: &Range<usize>) -> bool {
    let is_letter = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let goes_on = |one: Option<&u8>, other: Option<&u8>| is_letter(one) && is_letter(other);
    !goes_on(part.start.checked_sub(1).and_then(|at| bytes.get(at)), bytes.get(part.start))
        && !goes_on(part.end.checked_sub(1).and_then(|at| bytes.get(at)), bytes.get(part.end))
}

/// What the escape at the beginning of these bytes stands for, and its length.
fn escape_at(bytes: &[u8]) -> Option<(Cow<'static, str>, usize)> {
    let simple = |text: &'static str| Some((Cow::Borrowed(text), 2));
    match bytes.get(1)? {
        b'"' => simple("\""),
        b'\'' => simple("'"),
        b'\\' => simple("\\"),
        b'/' => simple("/"),
        b'b' => simple("\u{8}"),
        b'f' => simple("\u{c}"),
        b'n' => simple("\n"),
        b'r' => simple("\r"),
        b't' => simple("\t"),
        b'u' if bytes.get(2) == Some(&b'{') => {
            let end = memchr(b'}', bytes.get(3..bytes.len().min(3 + 7))?)?;
            character(number(bytes.get(3..3 + end)?, 16)?, 3 + end + 1)
        }
        b'u' => match number(bytes.get(2..6)?, 16)? {
            high @ 0xd800..0xdc00 => {
                let low = bytes.get(6..12).filter(|next| next.starts_with(b"\\u"))?;
                let low = number(&low[2..], 16).filter(|low| (0xdc00..0xe000).contains(low))?;
                character(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00), 12)
            }
            code => character(code, 6),
        },
        b'U' => character(number(bytes.get(2..10)?, 16)?, 10),
        b'x' => bytes_at(bytes, 4, |digits| Some(digits.strip_prefix(b"\\x")?).and_then(|digits| number(digits, 16))),
        b'0'..=b'3' => {
            bytes_at(bytes, 4, |digits| Some(digits.strip_prefix(b"\\")?).and_then(|digits| number(digits, 8)))
        }
        _ => None,
    }
}

fn character(code: u32, length: usize) -> Option<(Cow<'static, str>, usize)> {
    Some((Cow::Owned(char::from_u32(code)?.to_string()), length))
}

/// Escapes of `each` bytes that stand for a byte each: one byte of ASCII, or all bytes of a character.
fn bytes_at(bytes: &[u8], each: usize, read: impl Fn(&[u8]) -> Option<u32>) -> Option<(Cow<'static, str>, usize)> {
    let read = |escape: &[u8]| read(escape).and_then(|byte| u8::try_from(byte).ok());
    let first = read(bytes.get(..each)?)?;
    let mut made = vec![first];
    // The first byte says how many there are.
    for number in 1..(first.leading_ones() as usize).clamp(1, 4) {
        made.push(read(bytes.get(number * each..(number + 1) * each)?)?);
    }
    let length = made.len() * each;
    Some((Cow::Owned(String::from_utf8(made).ok()?), length))
}

fn number(digits: &[u8], radix: u32) -> Option<u32> {
    let value = |number: u32, digit: &u8| number.checked_mul(radix)?.checked_add(char::from(*digit).to_digit(radix)?);
    (!digits.is_empty()).then(|| digits.iter().try_fold(0, value))?
}

/// Whether a text has a backslash, so that it may have escapes.
pub(crate) fn may_have_escapes(text: &str) -> bool {
    memrchr(b'\\', text.as_bytes()).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_are_decoded_once_a_view() {
        for (text, expected) in [
            ("plain", &["plain"][..]),
            (r"a\/b", &[r"a\/b", "a/b"]),
            (r"a\\/b", &[r"a\\/b", r"a\/b", "a/b"]),
            (r"\u00e9\ud83d\ude00\ud83d!", &[r"\u00e9\ud83d\ude00\ud83d!", r"é😀\ud83d!"]),
            (r"\x41\xc3\xa9\xff\U0001f600\101\u{1F600}", &[r"\x41\xc3\xa9\xff\U0001f600\101\u{1F600}", r"Aé\xff😀A😀"]),
            (r"C:\Users\q\", &[r"C:\Users\q\"]),
            (r"\", &[r"\"]),
            (r"\u00", &[r"\u00"]),
            (r"\\\\u0041", &[r"\\\\u0041", r"\\u0041", r"\u0041", "A"]),
        ] {
            let views = Views::of(text);
            let texts: Vec<_> = views.0.iter().map(|view| &*view.text).collect();
            assert_eq!(texts, expected, "{text}");
        }
    }

    #[test]
    fn a_part_of_a_view_is_found_in_the_text() {
        let text = r"é \\u0061b\/c d";
        let places = |part: &str| Views::of(text).places_of(part).into_iter().map(|at| &text[at]).collect::<Vec<_>>();
        assert_eq!(places("ab/c"), [r"\\u0061b\/c"]);
        assert_eq!(places("b/"), [r"b\/", r"b\/"]);
        assert_eq!(places("d"), ["d", "d", "d"]);
        assert_eq!((places(""), places("x")), (Vec::new(), Vec::new()));
    }

    proptest! {
        /// The bytes of a part of a view, decoded as often, are that part; and serde_json decodes a string to the first
        /// view of it.
        #[test]
        fn the_way_back_is_right(
            text in prop_oneof!["(\\\\{1,3}(u00[0-7][0-9a-f]|[/\"nt])|[a-cé]|\\\\x41){0,12}", any::<String>()],
            part in any::<(prop::sample::Index, prop::sample::Index)>(),
        ) {
            let views = Views::of(&text);
            for (number, view) in views.0.iter().enumerate() {
                let places: Vec<_> = view.text.char_indices().map(|(at, _)| at).chain([view.text.len()]).collect();
                let (one, other) = (*part.0.get(&places), *part.1.get(&places));
                let range = one.min(other)..one.max(other);
                let mut decoded = text[views.bytes_of(number, &range)].to_owned();
                for _ in 0..number {
                    decoded = TextView::written(&decoded).decoded().map_or(decoded.clone(), |view| view.text.into_owned());
                }
                prop_assert_eq!(&decoded, &view.text[range]);
            }
            let quoted = serde_json::to_string(&text).expect("a string");
            let inner = &quoted[1..quoted.len() - 1];
            let first = TextView::written(inner).decoded();
            prop_assert_eq!(first.map_or(inner.to_owned(), |view| view.text.into_owned()), text);
        }
    }
}
