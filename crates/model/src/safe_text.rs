//! Text of others on a terminal: what would do something there is written as an escape instead.
//!
//! A log may say anything, and so may the name of a file. Control characters (those of C1 included), and what turns the
//! direction of text around, must neither command the terminal that an answer is read on, nor make one line look like two or
//! like another one. That holds in a pipe as well, for `less -R` would carry them on.
//!
//! | where | what is written |
//! |---|---|
//! | text | `\x1b`, `\n`, `\u{202e}` ([`SafeLine`]); where lines are meant, a newline stays ([`SafeLines`]) |
//! | JSON | `\u009b`, which is the same value to whoever reads it ([`to_json`]) |

use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use std::fmt::{self, Display};
use std::io::{self, Write};

/// Whether a character does something to a terminal instead of being shown there. A tab does no harm.
pub fn is_unsafe(c: char) -> bool {
    c != '\t' && c.is_control()
        || matches!(c, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}')
}

/// Shows text that others wrote, so that it takes one line and is_unsafe nothing.
pub struct SafeLine<'t>(pub &'t str);

impl Display for SafeLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        put(f, self.0, is_unsafe)
    }
}

/// Shows what may have several lines, so that it is_unsafe nothing.
pub struct SafeLines<T>(pub T);

impl<T: Display> Display for SafeLines<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::write(&mut Escaping(f), format_args!("{}", self.0))
    }
}

/// Passes on what is written to it, newlines as they are.
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

/// Writes a value as JSON whose texts command nothing.
///
/// # Errors
///
/// What `out` says, and what the value has no JSON for.
pub fn to_json(out: impl Write, value: &(impl Serialize + ?Sized)) -> serde_json::Result<()> {
    value.serialize(&mut Serializer::with_formatter(out, Safe))
}

/// Compact JSON. The characters below U+0020 are escaped in any JSON, the others here.
struct Safe;

impl Formatter for Safe {
    fn write_string_fragment<W: ?Sized + Write>(&mut self, out: &mut W, fragment: &str) -> io::Result<()> {
        // The first bytes of all that is escaped; most texts have none of them.
        let may_be = |byte: &u8| matches!(byte, 0x7f | 0xc2 | 0xd8 | 0xe2);
        if !fragment.as_bytes().iter().any(may_be) {
            return out.write_all(fragment.as_bytes());
        }
        let mut rest = fragment;
        while let Some(at) = rest.find(is_unsafe) {
            out.write_all(&rest.as_bytes()[..at])?;
            let mut chars = rest[at..].chars();
            if let Some(c) = chars.next() {
                // None of them is beyond U+FFFF.
                write!(out, "\\u{:04x}", u32::from(c))?;
            }
            rest = chars.as_str();
        }
        out.write_all(rest.as_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_would_command_a_terminal_is_shown_instead() {
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
        /// No text is_unsafe a terminal, as text or as JSON, and JSON says what was said.
        #[test]
        fn no_text_commands_a_terminal(text in prop_oneof![any::<String>(), "[\u{1}-\u{a0}\u{600}-\u{620}\u{2000}-\u{2070}\n\"\\\\]{0,20}"]) {
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
