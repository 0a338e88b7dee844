//! Paths of data files as the log writes them: URIs, relative to the table.
//!
//! Everything but letters, digits, `-._~`, `/` and `=` is percent-encoded. So no character has a second meaning for a
//! reader: a colon is not a scheme, a plus is not a space.

use std::fmt::Write;

/// Encodes the path of a file. The colon after the scheme of an absolute path stays.
pub(crate) fn encode(path: &str) -> String {
    let plain: &[u8] = if is_absolute(path) { b"-._~/=:" } else { b"-._~/=" };
    let mut encoded = String::with_capacity(path.len());
    for byte in path.bytes() {
        if byte.is_ascii_alphanumeric() || plain.contains(&byte) {
            encoded.push(char::from(byte));
        } else {
            let _ = write!(encoded, "%{byte:02X}");
        }
    }
    encoded
}

/// Decodes what a log says. `None` if it is not encoded well, or not UTF-8.
pub(crate) fn decode(uri: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(uri.len());
    let mut rest = uri.bytes();
    while let Some(byte) = rest.next() {
        if byte == b'%' {
            let high = char::from(rest.next()?).to_digit(16)?;
            let low = char::from(rest.next()?).to_digit(16)?;
            bytes.push(u8::try_from(high * 16 + low).ok()?);
        } else {
            bytes.push(byte);
        }
    }
    String::from_utf8(bytes).ok()
}

/// Whether a decoded path is relative to the table, and names an object below it.
pub(crate) fn is_below_table(path: &str) -> bool {
    !path.is_empty() && path.split('/').all(|part| !matches!(part, "" | "." | ".."))
}

/// Whether a decoded path names an object anywhere, with its scheme or from the root on.
pub(crate) fn is_absolute(path: &str) -> bool {
    path.starts_with('/') || path.contains("://") || path.starts_with("file:")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_engines_might_misread_is_encoded() {
        assert_eq!(encode("log_day=2026-11-20/log_host=a b/1.parquet"), "log_day=2026-11-20/log_host=a%20b/1.parquet");
        assert_eq!(encode("a:b/c%d/é+#?"), "a%3Ab/c%25d/%C3%A9%2B%23%3F");
        assert_eq!(encode("s3://logs/a b"), "s3://logs/a%20b");
        assert_eq!(decode("a%2"), None);
        assert_eq!(decode("a%FF"), None);
        assert!(is_below_table("a/b=c") && !is_below_table("a//b") && !is_below_table("../a") && !is_below_table(""));
    }

    proptest! {
        /// Decoding gives back every path.
        #[test]
        fn every_path_comes_back(path in ".*") {
            prop_assert_eq!(decode(&encode(&path)), Some(path));
        }
    }
}
