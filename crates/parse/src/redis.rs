//! Redis' log.
//!
//! ```text
//! 1234:M 02 Jan 2024 03:04:05.678 * Ready to accept connections
//! pid  role time                  level message
//! ```
//!
//! The role is M for a master, S for a replica, C for a child that saves, X for a sentinel. Redis 2 writes the process
//! in brackets and no role. Before Redis 5 the time has no year.

use super::line_scanner::{LineScanner, number, text};
use super::timestamp::{self, TimestampDefaults};
use daytable_model::record::{Level, Record};

/// Parses a line of Redis' log.
pub(super) fn record<'a>(line: &'a str, defaults: &TimestampDefaults) -> Option<Record<'a>> {
    let mut cut = LineScanner::new(line);
    let bracketed = cut.byte(b'[').is_some();
    let pid = cut.number()?;
    let role = if bracketed {
        cut.byte(b']')?;
        None
    } else {
        cut.byte(b':')?;
        Some(cut.bytes(1).filter(|role| matches!(*role, "M" | "S" | "C" | "X"))?)
    };
    cut.byte(b' ')?;
    let stamp = timestamp::at_start(cut.rest.as_bytes(), defaults)?;
    cut.bytes(stamp.length)?;
    cut.byte(b' ')?;
    let level = match cut.bytes(1)? {
        "." => Level::Debug,
        "-" => Level::Info,
        "*" => Level::Notice,
        "#" => Level::Warn,
        _ => return None,
    };
    if !cut.rest.is_empty() {
        cut.byte(b' ')?;
    }
    let mut fields = Vec::with_capacity(2);
    fields.push(number("pid", pid));
    fields.extend(role.map(|role| text("role", role)));
    Some(cut.into_record(stamp.time, level, fields))
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_model::time::Ticks;
    use proptest::prelude::*;

    fn read(line: &str) -> Option<Record<'_>> {
        let seen = Ticks::from_date(2024, 3, 1).expect("a date");
        record(line, &TimestampDefaults { seen, ..TimestampDefaults::default() })
    }

    #[test]
    fn lines_of_several_versions() {
        for (line, level, pid, role) in [
            ("1234:M 02 Jan 2024 03:04:05.678 * text", Level::Notice, 1234, Some("M")),
            ("1:C 02 Jan 2024 03:04:05.678 # text", Level::Warn, 1, Some("C")),
            ("1:S 02 Jan 03:04:05.678 - text", Level::Info, 1, Some("S")),
            ("[1234] 02 Jan 03:04:05.678 . text", Level::Debug, 1234, None),
        ] {
            let record = read(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!((record.level, &*record.message), (Some(level), "text"), "{line}");
            assert_eq!(record.time.map(|time| time.to_string()).as_deref(), Some("2024-01-02T03:04:05.678Z"), "{line}");
            let mut expected = vec![number("pid", pid)];
            expected.extend(role.map(|role| text("role", role)));
            assert_eq!(record.fields, expected, "{line}");
        }
    }

    #[test]
    fn near_misses_are_rejected() {
        for line in [
            "",
            "1234:Q 02 Jan 2024 03:04:05.678 * text",
            "1234:M 02 Jan 2024 03:04:05.678 + text",
            "1234:M 02 Jan 2024 03:04:05.678 *text",
            "1234:M 42 Jan 2024 03:04:05.678 * text",
            "1234:M text",
            "12:30 lunch",
            "[1234:M 02 Jan 2024 03:04:05.678 * text",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }

    proptest! {
        /// Any text after the level is the message, as written.
        #[test]
        fn any_message(text in any::<String>(), near in "1:M [0-9Jan :.*-]{0,30}") {
            let line = format!("7:M 02 Jan 2024 03:04:05 * {text}");
            prop_assert_eq!(read(&line).map(|record| record.message), Some(text.into()));
            let _ = read(&near);
        }
    }
}
