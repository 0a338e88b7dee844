//! `--explain`: the text of a record, and below it the bytes of each part.
//!
//! ```text
//! logs/app.log, byte 0: text
//!   | 2026-11-21 08:00:00 WARN disk full free=0
//!   0..19   time     2026-11-21T08:00:00Z, read in UTC (local, from /etc/localtime)
//!   20..24  level    warn
//!   25..34  message  disk full
//!   40..41  free     0
//! ```

use daytable_model::safe_text::SafeLine;
use daytable_parse::{Parsed, TimestampDefaults, explain};
use std::fmt;

/// A record with its place.
pub(super) struct Explanation<'r> {
    pub(super) path: String,
    pub(super) offset: u64,
    pub(super) text: &'r str,
    pub(super) parsed: &'r Parsed<'r>,
    pub(super) defaults: TimestampDefaults,
}

impl fmt::Display for Explanation<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}, byte {}: {}", SafeLine(&self.path), self.offset, self.parsed.format.label())?;
        for line in self.text.split('\n') {
            write!(f, "\n  | {}", SafeLine(line))?;
        }
        let rows: Vec<[String; 3]> = explain(self.text, self.parsed, &self.defaults)
            .into_iter()
            .map(|part| {
                let bytes =
                    part.bytes.map_or_else(|| "-".to_owned(), |bytes| format!("{}..{}", bytes.start, bytes.end));
                let zone = part.zone.map_or_else(String::new, |zone| format!(", read in {}", zone.described()));
                [bytes, SafeLine(&part.name).to_string(), SafeLine(&(part.value + &zone)).to_string()]
            })
            .collect();
        let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
        let (bytes, name) = (width(0), width(1));
        for [at, called, value] in &rows {
            write!(f, "\n  {at:<bytes$}  {called:<name$}  {value}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_parse::{FormatChoice, parse};

    #[test]
    fn control_characters_are_escaped() {
        let text = "2026-11-21 08:00:00 WARN \u{1b}[31mdisk\nbelow";
        let parsed = parse(text, FormatChoice::Auto);
        let explained = Explanation {
            path: "a\u{7}".into(),
            offset: 12,
            text,
            parsed: &parsed,
            defaults: TimestampDefaults::default(),
        }
        .to_string();
        assert!(
            explained.starts_with("a\\x07, byte 12: text\n  | 2026-11-21 08:00:00 WARN \\x1b[31mdisk\n  | below\n")
        );
        assert!(
            explained.contains("\n  0..19   time     2026-11-21T08:00:00Z, read in UTC\n  20..24  level    warn\n"),
            "{explained}"
        );
        assert!(!explained.contains('\u{1b}'));
    }
}
