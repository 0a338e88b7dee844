//! Untrusted text in a form that is safe to show: dangerous characters are written as escapes.
//!
//! Logs and file names may contain anything. Control characters (including C1) and characters that change the
//! direction of text must neither control the reader's terminal, nor make one line look like two or like another
//! line. The same holds in a pipe, because `less -R` would pass them on.
//!
//! | where | form |
//! |---|---|
//! | text | `\x1b`, `\n`, `\u{202e}` ([`SafeLine`]); several lines keep their newlines ([`SafeLines`]) |
//! | JSON | `\u009b`, which every JSON reader decodes to the same value ([`to_json`]) |
//! | the query of an address | `%1B` ([`percent_encoded`]) |

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use std::fmt::{self, Display};
use std::io::{self, Write};

/// Whether a terminal would act on a character instead of showing it. A tab is harmless.
pub fn is_unsafe(c: char) -> bool {
    c != '\t' && c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Shows untrusted text on one line.
pub struct SafeLine<'t>(pub &'t str);

impl Display for SafeLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        put(f, self.0, is_unsafe)
    }
}

/// Shows untrusted text that may have several lines.
pub struct SafeLines<T>(pub T);

impl<T: Display> Display for SafeLines<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::write(&mut Escaping(f), format_args!("{}", self.0))
    }
}

/// Escapes written text, except newlines.
struct Escaping<'f, 'g>(&'f mut fmt::Formatter<'g>);

impl fmt::Write for Escaping<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        put(self.0, text, |c| c != '\n' && is_unsafe(c))
    }
}

fn put(f: &mut fmt::Formatter<'_>, mut rest: &str, is_escaped: impl Fn(char) -> bool) -> fmt::Result {
    while let Some(at) = rest.find(&is_escaped) {
        f.write_str(&rest[..at])?;
        let mut chars = rest[at..].chars();
        match chars.next() {
            Some('\n') => f.write_str("\\n")?,
            Some('\r') => f.write_str("\\r")?,
            Some(c) if u32::from(c) < 0x100 => write!(f, "\\x{:02x}", u32::from(c))?,
            Some(c) => write!(f, "\\u{{{:04x}}}", u32::from(c))?,
            None => {}
        }
        rest = chars.as_str();
    }
    f.write_str(rest)
}

/// Writes a value as JSON, with dangerous characters escaped.
///
/// # Errors
///
/// An error of `out`, or a value that has no JSON form.
pub fn to_json(out: impl Write, value: &(impl Serialize + ?Sized)) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(out, Safe))
}

/// Compact JSON. Every JSON writer escapes the characters below U+0020; this one escapes the other dangerous ones.
struct Safe;

impl Formatter for Safe {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        // The first bytes of all escaped characters. Most texts contain none of them.
        let may_be = |byte: &u8| matches!(byte, 0x7f | 0xc2 | 0xd8 | 0xe2);
        if !fragment.as_bytes().iter().any(may_be) {
            return out.write_all(fragment.as_bytes());
        }
        let mut rest = fragment;
        while let Some(at) = rest.find(is_unsafe) {
            out.write_all(&rest.as_bytes()[..at])?;
            let mut chars = rest[at..].chars();
            if let Some(c) = chars.next() {
                // All of them are at most U+FFFF.
                write!(out, "\\u{:04x}", u32::from(c))?;
            }
            rest = chars.as_str();
        }
        out.write_all(rest.as_bytes())
    }
}

/// The text as a value in the query of an address. Letters, digits and `-._~` stay.
pub fn percent_encoded(text: &str) -> String {
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            encoded.push(char::from(byte));
        } else {
            let _ = fmt::Write::write_fmt(&mut encoded, format_args!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn values_in_an_address() {
        assert_eq!(percent_encoded("web-17_a.b~"), "web-17_a.b~");
        assert_eq!(percent_encoded("a b&c=é+%"), "a%20b%26c%3D%C3%A9%2B%25");
    }

    #[test]
    fn control_characters_are_escaped() {
        for (text, shown) in [
            ("\x1b[31mred\x07", r"\x1b[31mred\x07"),
            ("a\u{9b}31mb\u{7f}", r"a\x9b31mb\x7f"),
            ("a\r\nb\u{2028}c\0", r"a\r\nb\u{2028}c\x00"),
            ("\u{202e}txt.exe\u{2069}", r"\u{202e}txt.exe\u{2069}"),
            ("tab\tand größe", "tab\tand größe"),
        ] {
            assert_eq!(SafeLine(text).to_string(), shown);
            assert_eq!(SafeLines(text).to_string().replace('\n', "\\n"), shown);
        }
    }

    proptest! {
        /// No text controls a terminal, neither as text nor as JSON, and the JSON decodes to the original.
        #[test]
        fn no_text_controls_a_terminal(text in prop_oneof![any::<String>(), "[\u{1}-\u{a0}\u{600}-\u{620}\u{2000}-\u{2070}\n\"\\\\]{0,20}"]) {
            let mut json = Vec::new();
            to_json(&mut json, &[&text]).expect("memory");
            let json = String::from_utf8(json).expect("text");
            for shown in [SafeLine(&text).to_string(), json.clone(), SafeLines(&text).to_string().replace('\n', "")] {
                prop_assert!(!shown.contains(is_unsafe), "{:?}", shown);
            }
            prop_assert_eq!(serde_json::from_str::<Vec<String>>(&json).expect("JSON"), vec![text]);
        }
    }
}
