//! `positions.yaml` of Promtail and Alloy.
//!
//! ```yaml
//! positions:
//!   /var/log/app.log: "1234"
//!   cursor-journal: s=…              # of no file
//!   ? path: /var/log/other.log       # Alloy's keys are a path and labels
//!     labels: '{job="a"}'
//!   : "99"
//! ```
//!
//! Promtail and Alloy use the same encoder, so only these forms occur, plain or in quotes. A file that Alloy reads
//! under several labels has several positions: the smallest counts.

use super::{AdoptError, FileReference, SavedPosition, format, text};
use daytable_model::path_text::PathText;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

pub(super) fn read(path: &Path) -> Result<Vec<SavedPosition>, AdoptError> {
    parse(&text(path)?).map_err(|(line, reason)| format(format_args!("{}:{line}", path.escaped()), reason))
}

pub(super) fn parse(text: &str) -> Result<Vec<SavedPosition>, (usize, String)> {
    let mut found = BTreeMap::<PathBuf, u64>::new();
    let (mut is_within, mut key) = (false, None::<String>);
    for (number, line) in text.lines().enumerate() {
        let failed = |reason: &str| (number + 1, reason.to_owned());
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with('#') || trimmed == "---" {
            continue;
        }
        if !line.starts_with(char::is_whitespace) {
            is_within = trimmed.starts_with("positions:");
            if is_within && !matches!(trimmed, "positions:" | "positions: {}") {
                return Err(failed("`positions` is written in a form that is not known"));
            }
            continue;
        }
        if !is_within {
            continue;
        }
        let (name, value) = match (trimmed.strip_prefix("? path:"), trimmed.strip_prefix(": ")) {
            (Some(path), _) => {
                key = Some(unquoted(path.trim()).ok_or_else(|| failed("a path is not closed"))?);
                continue;
            }
            (None, Some(value)) => (key.take().ok_or_else(|| failed("a position has no path"))?, value.to_owned()),
            (None, None) if key.is_some() => continue,
            (None, None) => split(trimmed).ok_or_else(|| failed("is not a path and a position"))?,
        };
        if !name.starts_with('/') {
            continue;
        }
        let offset = unquoted(value.trim()).and_then(|value| value.parse::<u64>().ok());
        let offset = offset.ok_or_else(|| failed("a position is not a number"))?;
        let least = found.entry(name.into()).or_insert(offset);
        *least = offset.min(*least);
    }
    let position = |(path, offset)| SavedPosition { file: FileReference::Path(path), offset };
    Ok(found.into_iter().map(position).collect())
}

/// Splits a key and its value at the last colon that a space follows.
fn split(line: &str) -> Option<(String, String)> {
    let (key, value) = line.rsplit_once(": ")?;
    Some((unquoted(key.trim())?, value.to_owned()))
}

/// Removes quotes and resolves escapes.
fn unquoted(text: &str) -> Option<String> {
    match text.as_bytes() {
        [b'"', .., b'"'] if text.len() > 1 => serde_json::from_str(text).ok(),
        [b'\'', .., b'\''] if text.len() > 1 => Some(text[1..text.len() - 1].replace("''", "'")),
        [b'"' | b'\'', ..] => None,
        _ => Some(text.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn positions(text: &str) -> Vec<(String, u64)> {
        let found = parse(text).unwrap_or_else(|(line, what)| panic!("{line}: {what}"));
        let shown = |position: SavedPosition| match position.file {
            FileReference::Path(path) => (path.display().to_string(), position.offset),
            other => panic!("{other:?}"),
        };
        found.into_iter().map(shown).collect()
    }

    #[test]
    fn promtail_s_and_alloy_s() {
        let promtail = "positions:\n  /var/log/a.log: \"1234\"\n  \"/var/log/b: c.log\": '7'\n  cursor-journal: s=1;i=2\n  \
                        journal-x: \"s=3\"\n";
        assert_eq!(positions(promtail), [("/var/log/a.log".into(), 1234), ("/var/log/b: c.log".into(), 7)]);
        let alloy = "positions:\n    ? path: /var/log/a.log\n      labels: '{job=\"x\"}'\n    : \"99\"\n    ? path: /var/log/a.log\n      \
                     labels: '{job=\"y\"}'\n    : \"42\"\n";
        assert_eq!(positions(alloy), [("/var/log/a.log".into(), 42)]);
        assert_eq!(positions("positions: {}\n"), []);
    }

    #[test]
    fn unknown_forms_are_errors_with_their_line() {
        for (text, line) in [
            ("positions:\n  /a: many\n", 2),
            ("positions: [a]\n", 1),
            ("positions:\n  : \"1\"\n", 2),
            ("positions:\n  \"/a: 1\n", 2),
        ] {
            assert_eq!(parse(text).expect_err(text).0, line, "{text}");
        }
    }
}
