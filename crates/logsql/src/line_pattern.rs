//! The pattern of a text: its first line without the parts that change from line to line.
//!
//! ```text
//! order 5888: connection to 10.1.0.7:5432 refused after 4 s
//! order <_>: connection to <_> refused after <_> s
//! ```
//!
//! A changing part is a word with a digit, or several that only `.`, `:`, `-` or `_` join; within such a part also a group of
//! hexadecimal letters (`4c3d-adfc-8e9f`, `00:fb:aa`). A short name with a version (`v1`, `s3`) is not a changing part.

/// The text for a changing part.
pub const GAP: &str = "<_>";
/// Characters of a line that count.
const LINE_CHARS_MAX: usize = 300;

/// The pattern of a text.
pub fn pattern_of(text: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    let end = first.char_indices().nth(LINE_CHARS_MAX).map_or(first.len(), |(at, _)| at);
    let (mut pattern, mut rest) = (String::with_capacity(end), &first[..end]);
    while let Some(next) = rest.chars().next() {
        let length = rest.find(|c: char| !c.is_alphanumeric()).unwrap_or(rest.len()).max(next.len_utf8());
        let (word, after) = rest.split_at(length);
        rest = after;
        let joined = before_a_joint(&pattern).filter(|(_, joint)| is_changing(word) || is_group(word, *joint));
        if let Some((length, _)) = joined {
            pattern.truncate(length);
        } else if !is_changing(word) {
            pattern.push_str(word);
        } else if !pattern.ends_with(GAP) {
            pattern.push_str(GAP);
        }
    }
    pattern
}

/// The length of a pattern that ends with a changing part, before the sign that joins the next word to it.
fn before_a_joint(pattern: &str) -> Option<(usize, u8)> {
    let joint = *pattern.as_bytes().last().filter(|last| matches!(last, b'.' | b':' | b'-' | b'_'))?;
    let before = pattern.strip_suffix("::").unwrap_or(&pattern[..pattern.len() - 1]);
    before.ends_with(GAP).then_some((before.len(), joint))
}

fn is_changing(word: &str) -> bool {
    let digits = word.chars().filter(char::is_ascii_digit).count();
    let is_version = word.len() <= 3 && digits == 1 && !word.starts_with(|c: char| c.is_ascii_digit());
    digits > 0 && !is_version
}

/// Whether a word is a group of an address or an identifier that `joint` joins to the group before it.
fn is_group(word: &str, joint: u8) -> bool {
    let fits = match joint {
        b':' => word.len() <= 4,
        b'-' => matches!(word.len(), 2 | 4 | 8 | 12),
        _ => false,
    };
    fits && word.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The longest text that is in each line with this pattern.
pub(crate) fn required(pattern: &str) -> Option<&str> {
    pattern.split(GAP).max_by_key(|text| text.len()).filter(|text| !text.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn changing_parts_are_removed() {
        for (line, pattern) in [
            (
                "order 5888: connection to 10.1.0.7:5432 refused after 4 s",
                "order <_>: connection to <_> refused after <_> s",
            ),
            ("GET /api/v1/orders/17 200 in 1.5 ms", "GET /api/v1/orders/<_> <_> in <_> ms"),
            ("id 0c7d2f70-1a2b-4c3d-8e9f-001122334455 is user-7", "id <_> is user-<_>"),
            ("id 0c7d2f70-1a2b-4c3d-adfc-abcdefabcdef is user-7", "id <_> is user-<_>"),
            ("from 00:fb:aa:bb:f9:0c to 2001:db8:0:1::beef up", "from <_> to <_> up"),
            ("step-3-added of 7: bad", "step-<_>-added of <_>: bad"),
            ("a\tb=0x7ffe, at 2026-11-23T03:04:05.678Z", "a\tb=<_>, at <_>"),
            ("first 1\nsecond", "first <_>"),
            ("grün é 7", "grün é <_>"),
            ("", ""),
        ] {
            assert_eq!(pattern_of(line), pattern, "{line}");
        }
        assert_eq!(pattern_of(&"é ".repeat(1000)).chars().count(), LINE_CHARS_MAX);
    }

    proptest! {
        #[test]
        fn a_line_has_what_its_pattern_requires(line in "[a-f0-9:<_>. -]{0,40}|.{0,40}") {
            let pattern = pattern_of(&line);
            prop_assert!(required(&pattern).is_none_or(|text| line.contains(text)), "{}", pattern);
        }
    }
}
