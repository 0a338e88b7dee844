//! Terminal colours, which some programs write into files too.

use memchr::memchr;

/// The byte that begins an escape.
pub(super) const ESCAPE: u8 = 0x1b;

/// Whether the text has an escape character.
#[inline]
pub(super) fn has_escapes(text: &str) -> bool {
    memchr(ESCAPE, text.as_bytes()).is_some()
}

/// The text without control sequences (`ESC [ … letter`). Other escapes stay.
pub(super) fn strip(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(at) = rest.find("\u{1b}[") {
        let (before, sequence) = rest.split_at(at);
        plain.push_str(before);
        let parameters = sequence.bytes().skip(2).take_while(|byte| matches!(byte, 0x20..=0x3f)).count();
        let end = 2 + parameters;
        match sequence.as_bytes().get(end) {
            Some(0x40..=0x7e) => rest = sequence.get(end + 1..).unwrap_or_default(),
            _ => {
                plain.push_str(sequence.get(..2).unwrap_or_default());
                rest = sequence.get(2..).unwrap_or_default();
            }
        }
    }
    plain.push_str(rest);
    plain
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_control_sequences_are_removed() {
        for (text, plain) in [
            ("\u{1b}[2m2026\u{1b}[0m \u{1b}[32m INFO\u{1b}[0m é", "2026  INFO é"),
            ("\u{1b}[38;5;208mx\u{1b}[K", "x"),
            ("\u{1b}[é", "\u{1b}[é"),
            ("\u{1b}[12", "\u{1b}[12"),
            ("\u{1b}]0;title\u{7}", "\u{1b}]0;title\u{7}"),
        ] {
            assert_eq!(strip(text), plain, "{text:?}");
        }
    }
}
