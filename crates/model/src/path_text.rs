//! File paths as text, wherever a path is shown, logged, stored with a record or sent.
//!
//! A path is any bytes; text is UTF-8. Valid UTF-8 stays as it is. Every other byte is written `\xFF`, with two
//! upper-case hexadecimal digits. Two paths never look the same, and one strange name never invalidates a whole
//! answer:
//!
//! | bytes of the name | text |
//! |---|---|
//! | `größe.log` | `größe.log` |
//! | `bad-` 0xFF `.log` | `bad-\xFF.log` |
//! | `dev\x2dsda.log` (with a backslash) | `dev\x2dsda.log` |
//! | `bad-\xFF.log` (with a backslash) | `bad-\x5CxFF.log` |
//!
//! A backslash is written `\x5C` only if it would otherwise look like the beginning of such a byte. `parse` therefore
//! returns the path from its text. Control characters are not escaped here: see [`crate::safe_text`].

use serde::{Deserialize, Deserializer, Serializer};
use std::borrow::Cow;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Converts a path to text; see the module's head.
pub trait PathText {
    /// A displayable form of the path.
    fn escaped(&self) -> Escaped<'_>;

    /// The path as text, borrowed if no escape is needed.
    fn text(&self) -> Cow<'_, str> {
        let Escaped(bytes) = self.escaped();
        match std::str::from_utf8(bytes) {
            Ok(text) if !text.contains(r"\x") => Cow::Borrowed(text),
            _ => Cow::Owned(Escaped(bytes).to_string()),
        }
    }
}

impl PathText for Path {
    fn escaped(&self) -> Escaped<'_> {
        self.as_os_str().escaped()
    }
}

impl PathText for OsStr {
    fn escaped(&self) -> Escaped<'_> {
        Escaped(self.as_bytes())
    }
}

/// A path in its text form.
#[derive(Clone, Copy)]
pub struct Escaped<'p>(&'p [u8]);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for chunk in self.0.utf8_chunks() {
            let mut rest = chunk.valid();
            while let Some(at) = rest.find(r"\x") {
                let (before, from) = rest.split_at(at);
                f.write_str(before)?;
                f.write_str(if escaped_byte(from.as_bytes()).is_some() { r"\x5C" } else { r"\" })?;
                rest = &from[1..];
            }
            f.write_str(rest)?;
            for byte in chunk.invalid() {
                write!(f, "\\x{byte:02X}")?;
            }
        }
        Ok(())
    }
}

/// The byte that an escape at the start of these bytes encodes.
fn escaped_byte(bytes: &[u8]) -> Option<u8> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'A'..=b'F' => Some(byte - b'A' + 10),
        _ => None,
    };
    match bytes {
        [b'\\', b'x', high, low, ..] => {
            Some(digit(*high)? << 4 | digit(*low)?).filter(|byte| matches!(byte, 0x5c | 0x80..))
        }
        _ => None,
    }
}

/// Parses the text of a path.
pub(crate) fn parse(text: &str) -> PathBuf {
    let (mut bytes, mut rest) = (Vec::with_capacity(text.len()), text.as_bytes());
    while let Some((first, behind)) = rest.split_first() {
        match escaped_byte(rest) {
            Some(byte) => {
                bytes.push(byte);
                rest = &rest[4..];
            }
            None => {
                bytes.push(*first);
                rest = behind;
            }
        }
    }
    OsString::from_vec(bytes).into()
}

/// Writes a path as its text.
pub fn serialize<S: Serializer>(path: &Path, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&path.text())
}

/// Reads a path from its text.
pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<PathBuf, D::Error> {
    Ok(parse(&String::deserialize(deserializer)?))
}

/// Paths as their texts.
pub mod list {
    use super::{Deserialize, Deserializer, PathBuf, PathText, Serializer, parse};

    /// Writes paths as their texts.
    pub fn serialize<S: Serializer>(paths: &[PathBuf], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(paths.iter().map(|path| path.text()))
    }

    /// Reads paths from their texts.
    pub fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<PathBuf>, D::Error> {
        Ok(Vec::<String>::deserialize(deserializer)?.iter().map(|text| parse(text)).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(bytes: &[u8]) -> PathBuf {
        OsStr::from_bytes(bytes).into()
    }

    #[test]
    fn names_as_text() {
        for (bytes, text) in [
            ("größe.log".as_bytes(), "größe.log"),
            (b"bad-\xff.log", r"bad-\xFF.log"),
            (br"bad-\xFF.log", r"bad-\x5CxFF.log"),
            (br"\x5C\x41\xff\x", r"\x5Cx5C\x41\xff\x"),
            (br"dev\x2dsda", r"dev\x2dsda"),
            (b"\xc3", r"\xC3"),
            (b"\\\xff", r"\\xFF"),
        ] {
            assert_eq!((&*path(bytes).text(), parse(text)), (text, path(bytes)), "{bytes:?}");
        }
    }

    proptest! {
        /// The text of a path parses back to the path, so no two paths have the same text. UTF-8 without a backslash
        /// is its own text.
        #[test]
        fn no_two_paths_look_the_same(bytes in prop::collection::vec(prop_oneof![any::<u8>(), prop::sample::select(br"\x5CFfa8".to_vec())], 0..24)) {
            let path = path(&bytes);
            let text = path.text().into_owned();
            prop_assert_eq!(parse(&text), path.clone());
            prop_assert_eq!(path.escaped().to_string(), text.clone());
            if std::str::from_utf8(&bytes).is_ok_and(|own| !own.contains('\\')) {
                prop_assert_eq!(text.as_bytes(), &bytes);
            }
        }
    }
}
