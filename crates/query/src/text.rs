//! A record as one line for people.
//!
//! ```text
//! 2026-11-21T08:00:00.123Z ERROR web-17 disk full free_bytes=0 unit="backup service"
//! ```
//!
//! Logged text must neither control the terminal nor make one record look like two. Control characters (including C1)
//! and characters that change the direction of text are shown as `\x1b` or `\u{202e}`, newlines as `\n`. The same
//! holds in a pipe, because `less -R` would pass them on. A tab stays. On a terminal, the further lines of a message stand
//! below the first one, and are indented so that none looks like a record.

use super::highlight::Highlights;
use super::record::StoredRecord;
use daytable_model::field_properties::shown_name;
use daytable_model::record::Level;
use daytable_model::safe_text::SafeLine;
use daytable_model::time::Ticks;
use std::fmt;
use std::ops::Range;

/// The ANSI codes around a place that matched. The other attributes of the text stay.
const MATCH: (&str, &str) = ("\x1b[7m", "\x1b[27m");
/// What stands before a further line of a message.
const INDENT: &str = "\n    ";

/// How records are shown.
pub struct LineStyle<'s> {
    /// Whether to use ANSI colours.
    pub colour: bool,
    /// Whether the lines of a message are lines.
    pub several_lines: bool,
    /// The form of times.
    pub time: &'s dyn Fn(Ticks) -> String,
    /// What matched, which is shown in reverse where there are colours.
    pub highlights: Option<&'s Highlights>,
}

/// Shows a record without a newline at its end.
pub struct RecordLine<'r> {
    /// The record.
    pub record: &'r StoredRecord,
    /// Its form.
    pub style: &'r LineStyle<'r>,
}

impl fmt::Display for RecordLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let RecordLine { record, style } = self;
        let (dim, plain) = if style.colour { ("\x1b[2m", "\x1b[0m") } else { ("", "") };
        let level = record.level.map_or("-", Level::name).to_ascii_uppercase();
        let level_colour = if style.colour { colour_of(record.level) } else { "" };
        let time = (style.time)(record.time());
        write!(f, "{dim}{}{plain} {level_colour}{level:<5}{plain} ", SafeLine(&time))?;
        write!(f, "{}", SafeLine(&record.instance()))?;
        let highlights = style.highlights.filter(|_| style.colour);
        // The fields follow.
        let message = record.short_message();
        let places = highlights.map(|highlights| highlights.in_message(message)).unwrap_or_default();
        let first = if style.several_lines { message.find('\n').unwrap_or(message.len()) } else { message.len() };
        if !message.is_empty() {
            write!(f, " ")?;
            put(f, message, 0..first, &places, &str::to_owned)?;
        }
        for (name, value) in &record.fields {
            write!(f, " {dim}{}={plain}", SafeLine(&shown_name(name)))?;
            let shown = value.as_property().text();
            let places = highlights.map(|highlights| highlights.in_field(name, value, &shown)).unwrap_or_default();
            if shown.is_empty() || shown.contains(|c: char| c.is_whitespace() || matches!(c, '"' | '=')) {
                write!(f, "\"")?;
                put(f, &shown, 0..shown.len(), &places, &|text| text.replace('\\', "\\\\").replace('"', "\\\""))?;
                write!(f, "\"")?;
            } else {
                put(f, &shown, 0..shown.len(), &places, &str::to_owned)?;
            }
        }
        let mut start = first + 1;
        while start < message.len() {
            let end = message[start..].find('\n').map_or(message.len(), |length| start + length);
            write!(f, "{INDENT}")?;
            let shown = start + message[start..end].trim_end_matches('\r').len();
            put(f, message, start..shown, &places, &str::to_owned)?;
            start = end + 1;
        }
        Ok(())
    }
}

/// Writes a range of `text`, of which each part is written by `escape`, and shows the places in reverse.
fn put(
    f: &mut fmt::Formatter<'_>,
    text: &str,
    range: Range<usize>,
    places: &[Range<usize>],
    escape: &dyn Fn(&str) -> String,
) -> fmt::Result {
    let mut at = range.start;
    for place in places {
        let (start, end) = (place.start.clamp(at, range.end), place.end.clamp(at, range.end));
        // A place of bytes that are not characters is not shown.
        let (Some(before), Some(found)) = (text.get(at..start), text.get(start..end)) else { continue };
        if !found.is_empty() {
            write!(f, "{}{}{}{}", SafeLine(&escape(before)), MATCH.0, SafeLine(&escape(found)), MATCH.1)?;
            at = end;
        }
    }
    write!(f, "{}", SafeLine(&escape(&text[at..range.end])))
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

    fn shown(record: &StoredRecord, colour: bool, highlights: Option<&Highlights>) -> String {
        let style = LineStyle { colour, several_lines: colour, time: &|time| time.to_string(), highlights };
        RecordLine { record, style: &style }.to_string()
    }

    fn line(record: &StoredRecord) -> String {
        shown(record, false, None)
    }

    #[test]
    fn what_matched_is_shown_in_reverse_and_the_lines_of_a_trace_are_lines() {
        let record = record("Disk\x1b full\r\n  at disk(1)\n\tat x", &[("status", "503"), ("path", "/a disk")]);
        let query = "i(disk) status:>=500 !x";
        let filter = daytable_logsql::Expression::parse(query).expect("a filter");
        let highlights = Highlights::new(daytable_logsql::Predicate::new(&filter, Ticks::UNIX_EPOCH), Some("at x"));
        let shown = shown(&record, true, Some(&highlights)).replace("\x1b[2m", "").replace("\x1b[0m", "");
        let (_, shown) = shown.split_once("web-17 ").expect("the instance");
        let wanted = "<Disk>\\x1b full\\r status=<503> path=\"/a <disk>\"\n      at <disk>(1)\n    \t<at x>";
        assert_eq!(shown.replace(MATCH.0, "<").replace(MATCH.1, ">"), wanted);
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
        let coloured = shown(&record, true, None);
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
            let filter = daytable_logsql::Expression::parse("*a*").expect("a filter");
            let highlights = Highlights::new(daytable_logsql::Predicate::new(&filter, Ticks::UNIX_EPOCH), Some(&value));
            let mut coloured = shown(&record(&message, &[(&name, &value)]), true, Some(&highlights));
            for code in ["\x1b[2m", "\x1b[31m", "\x1b[0m", MATCH.0, MATCH.1, INDENT] {
                coloured = coloured.replace(code, "");
            }
            prop_assert!(!coloured.contains(|c: char| c.is_control() && c != '\t'), "{:?}", coloured);
        }
    }
}
