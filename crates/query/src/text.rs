//! A record as one line for people.
//!
//! ```text
//! 2026-11-21T08:00:00.123Z ERROR web-17 disk full free_bytes=0 unit="backup service"
//! ```
//!
//! Logged text must neither control the terminal nor make one record look like two. Control characters (including C1)
//! and characters that change the direction of text are shown as `\x1b` or `\u{202e}`, newlines as `\n`. The same
//! holds in a pipe, because `less -R` would pass them on. A tab stays.

use super::record::StoredRecord;
use daytable_model::record::Level;
use daytable_model::safe_text::SafeLine;
use std::fmt;

/// Shows a record as one line without a newline, with `colour` in the colours that every terminal has.
pub struct RecordLine<'r> {
    /// The record.
    pub record: &'r StoredRecord,
    /// Whether to use ANSI colours.
    pub colour: bool,
}

impl fmt::Display for RecordLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RecordLine { record, colour } = self;
        let (dim, plain) = if *colour { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
        let level = record.level.map_or("-", Level::name).to_ascii_uppercase();
        let (level_colour, level_plain) = if *colour { (colour_of(record.level), plain) } else { ("", "") };
        write!(f, "{dim}{}{plain} {level_colour}{level:<5}{level_plain} ", record.time())?;
        write!(f, "{}", SafeLine(&record.instance()))?;
        // The fields follow.
        if !record.short_message().is_empty() {
            write!(f, " {}", SafeLine(record.short_message()))?;
        }
        for (name, value) in &record.fields {
            write!(f, " {dim}{}={plain}", SafeLine(name))?;
            let value = value.to_string();
            if value.is_empty() || value.contains(|c: char| c.is_whitespace() || matches!(c, '"' | '=')) {
                write!(f, "\"{}\"", SafeLine(&value.replace('\\', "\\\\").replace('"', "\\\"")))?;
            } else {
                write!(f, "{}", SafeLine(&value))?;
            }
        }
        Ok(())
    }
}

fn colour_of(level: Option<Level>) -> &'static str {
    match level {
        None | Some(Level::Trace | Level::Debug) => "\x1b[2m",
        Some(Level::Info | Level::Notice) => "\x1b[32m",
        Some(Level::Warn) => "\x1b[33m",
        Some(Level::Error) => "\x1b[31m",
        Some(Level::Critical | Level::Alert | Level::Fatal) => "\x1b[1;31m",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::tests::read_back;
    use daytable_model::record::{Field, Value};
    use proptest::prelude::*;

    fn record(message: &str, fields: &[(&str, &str)]) -> StoredRecord {
        let field = |(name, value): &(&str, &str)| Field {
            name: (*name).to_owned().into(),
            value: Value::String((*value).to_owned().into()),
        };
        read_back(&daytable_model::record::Record {
            level: Some(Level::Error),
            message: message.into(),
            fields: fields.iter().map(field).collect(),
            ..daytable_model::record::Record::default()
        })
    }

    fn line(record: &StoredRecord) -> String {
        RecordLine { record, colour: false }.to_string()
    }

    #[test]
    fn one_line_a_record() {
        let fields = [("free", "0"), ("unit", "back up"), ("empty", ""), ("quote", r#"a"b\"#), ("pair", "a=b")];
        assert_eq!(
            line(&record("disk\nfull", &fields)),
            r#"2026-11-21T00:00:00.123Z ERROR web-17 disk\nfull free=0 unit="back up" empty="" quote="a\"b\\" pair="a=b""#
        );
        let bare = read_back(&daytable_model::record::Record::default());
        assert_eq!(line(&bare), "2026-11-21T00:00:00.123Z -     web-17");
    }

    #[test]
    fn colour_is_only_there_when_asked_for() {
        let record = record("disk full", &[("free", "0")]);
        let coloured = RecordLine { record: &record, colour: true }.to_string();
        assert!(coloured.contains("\x1b[31mERROR\x1b[0m"), "{coloured:?}");
        let mut plain = coloured;
        for code in ["\x1b[2m", "\x1b[31m", "\x1b[0m"] {
            plain = plain.replace(code, "");
        }
        assert_eq!(plain, line(&record));
    }

    proptest! {
        /// A line of any record contains no control character but tabs, and so no newline and no escape.
        #[test]
        fn no_record_commands_the_terminal(message in any::<String>(), name in any::<String>(), value in any::<String>()) {
            let line = line(&record(&message, &[(&name, &value)]));
            prop_assert!(!line.contains(|c: char| c.is_control() && c != '\t'), "{:?}", line);
        }
    }
}
