//! PostgreSQL's log to stderr.
//!
//! ```text
//! 2024-01-02 03:04:05.678 UTC [123] ada@shop LOG:  text          %m [%p] %q%u@%d   time, process, user and database
//! 2024-01-02 03:04:05 UTC [123]: [4-1] user=ada,db=shop LOG:  text                 as pgBadger wants it
//! 2024-01-02 03:04:05 UTC:10.0.0.2(5432):ada@shop:[123]:LOG:  text                 as RDS has it
//! ```
//!
//! Every `log_line_prefix` is followed by a level, `:` and two spaces. The text between the time and the level is split
//! by its form; an unknown part is the field `prefix`. `DETAIL:  `, `HINT:  ` and the like stand on lines with a prefix
//! of their own and belong to the record before; PostgreSQL writes both in one piece. They become the fields `detail`,
//! `hint`, …, with their continuation lines.

use super::level_names::postgres as level_of;
use super::line_scanner::{LineScanner, number, text};
use super::timestamp::{self, TimestampDefaults};
use daytable_model::record::{Field, Record};
use daytable_model::time::Ticks;
use memchr::{memchr, memmem};
use std::borrow::Cow;

/// Lines that belong to the record before, and their field names.
const MORE: [(&str, &str); 7] = [
    ("DETAIL", "detail"),
    ("HINT", "hint"),
    ("CONTEXT", "context"),
    ("STATEMENT", "statement"),
    ("QUERY", "query"),
    ("LOCATION", "location"),
    ("BACKTRACE", "backtrace"),
];

/// Whether a line begins a record; `None` if the line has no prefix and may be the text of a record.
pub(super) fn begins(line: &str, defaults: &TimestampDefaults) -> Option<bool> {
    let head = Head::read(line, defaults)?;
    Some(level_of(head.severity).is_some())
}

/// Parses a record: its first line, and the lines that belong to it.
pub(super) fn record<'a>(record: &'a str, defaults: &TimestampDefaults) -> Option<Record<'a>> {
    let head = Head::read(record, defaults)?;
    let level = level_of(head.severity)?;
    let mut fields = Vec::with_capacity(8);
    add_prefix(head.prefix, &mut fields);
    let (message, rest) = record.get(head.length..)?.split_at_checked(part_length(record, head.length, defaults))?;
    let mut rest = rest;
    while let Some(line) = rest.get(1..)
        && let Some(more) = Head::read(line, defaults)
    {
        let name = MORE.iter().find(|(word, _)| *word == more.severity).map_or("more", |(_, name)| name);
        let (value, after) = line.get(more.length..)?.split_at_checked(part_length(line, more.length, defaults))?;
        fields.push(text(name, value));
        rest = after;
    }
    Some(Record {
        time: Some(head.time),
        level: Some(level),
        message: Cow::Borrowed(message),
        fields,
        ..Record::default()
    })
}

/// Bytes from `start` to the newline before the next line with a prefix, or to the end.
fn part_length(record: &str, start: usize, defaults: &TimestampDefaults) -> usize {
    let rest = record.get(start..).unwrap_or_default();
    let mut at = 0;
    while let Some(newline) = rest.get(at..).and_then(|rest| memchr(b'\n', rest.as_bytes())) {
        let line = at + newline + 1;
        if rest.get(line..).is_some_and(|line| Head::read(line, defaults).is_some()) {
            return at + newline;
        }
        at = line;
    }
    rest.len()
}

/// The part of a line before its text.
struct Head<'a> {
    time: Ticks,
    /// The text between the time and the severity.
    prefix: &'a str,
    severity: &'a str,
    /// Bytes of the whole part.
    length: usize,
}

impl<'a> Head<'a> {
    fn read(line: &'a str, defaults: &TimestampDefaults) -> Option<Self> {
        let stamp = timestamp::at_start(line.as_bytes(), defaults)?;
        let rest = line.get(stamp.length..)?;
        let first_line = rest.get(..memchr(b'\n', rest.as_bytes()).unwrap_or(rest.len()))?;
        let end = memmem::find(first_line.as_bytes(), b":  ")?;
        let before = rest.get(..end)?;
        let word = before.bytes().rev().take_while(u8::is_ascii_alphanumeric).count();
        let (prefix, severity) = before.split_at_checked(before.len() - word)?;
        let is_known = level_of(severity).is_some() || MORE.iter().any(|(word, _)| *word == severity);
        (is_known && prefix.starts_with([' ', ':']) && prefix.ends_with([' ', ':', '>', ']'])).then_some(Head {
            time: stamp.time,
            prefix,
            severity,
            length: stamp.length + end + ":  ".len(),
        })
    }
}

/// Splits a prefix into fields.
fn add_prefix<'a>(prefix: &'a str, fields: &mut Vec<Field<'a>>) {
    if let Some(rds) = prefix.strip_prefix(':')
        && add_rds(rds, fields).is_some()
    {
        return;
    }
    for word in prefix.split(' ').filter(|word| !matches!(*word, "" | ":" | ">")) {
        let bare = word.strip_suffix(':').unwrap_or(word);
        let inner = bare.strip_prefix('[').and_then(|inner| inner.strip_suffix(']'));
        if let Some(pid) = inner.and_then(whole) {
            fields.push(number("pid", pid));
        } else if inner
            .is_some_and(|inner| inner.split_once('-').is_some_and(|(a, b)| whole(a).and(whole(b)).is_some()))
        {
            fields.push(text("session_line", inner.unwrap_or(bare)));
        } else if bare.contains('=') {
            add_pairs(bare, fields);
        } else if let Some((user, database)) = bare.split_once('@') {
            fields.extend([text("user", user), text("database", database)]);
        } else {
            fields.push(text("prefix", bare));
        }
    }
}

/// `10.0.0.2(5432):ada@shop:[123]:`, without the colon before it.
fn add_rds<'a>(prefix: &'a str, fields: &mut Vec<Field<'a>>) -> Option<()> {
    let (rest, pid) = prefix.strip_suffix("]:")?.rsplit_once(":[")?;
    let pid = whole(pid)?;
    let (client, account) = rest.rsplit_once(':').unwrap_or(("", rest));
    let (user, database) = account.split_once('@')?;
    if !client.is_empty() {
        fields.push(text("client", client));
    }
    fields.extend([text("user", user), text("database", database), number("pid", pid)]);
    Some(())
}

/// `user=ada,db=shop,app=psql,client=10.0.0.2`; an empty value adds no field.
fn add_pairs<'a>(pairs: &'a str, fields: &mut Vec<Field<'a>>) {
    for pair in pairs.split(',') {
        match pair.split_once('=') {
            Some((_, "")) => {}
            Some(("user" | "usr" | "u", value)) => fields.push(text("user", value)),
            Some(("db" | "database" | "d", value)) => fields.push(text("database", value)),
            Some(("app" | "application" | "a", value)) => fields.push(text("application", value)),
            Some(("client" | "host" | "h", value)) => fields.push(text("client", value)),
            Some((name, value)) => fields.push(text(name, value)),
            None => fields.push(text("prefix", pair)),
        }
    }
}

fn whole(digits: &str) -> Option<i64> {
    let mut cut = LineScanner::new(digits);
    cut.number().filter(|_| cut.rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_model::record::{Level, Value};
    use proptest::prelude::*;

    fn read(text: &str) -> Option<Record<'_>> {
        record(text, &TimestampDefaults::default())
    }

    #[test]
    fn common_prefixes() {
        let named = |name: &'static str, value: &'static str| text(name, value);
        for (line, fields) in [
            ("2024-01-02 03:04:05.678 UTC [123] LOG:  text", vec![number("pid", 123)]),
            (
                "2024-01-02 03:04:05.678 UTC [123] ada@shop LOG:  text",
                vec![number("pid", 123), named("user", "ada"), named("database", "shop")],
            ),
            (
                "2024-01-02 03:04:05.678 UTC [123]: [4-1] user=ada,db=shop,app=,client=::1 LOG:  text",
                vec![
                    number("pid", 123),
                    named("session_line", "4-1"),
                    named("user", "ada"),
                    named("database", "shop"),
                    named("client", "::1"),
                ],
            ),
            (
                "2024-01-02 03:04:05.678 UTC:10.0.0.2(5432):ada@shop:[123]:LOG:  text",
                vec![
                    named("client", "10.0.0.2(5432)"),
                    named("user", "ada"),
                    named("database", "shop"),
                    number("pid", 123),
                ],
            ),
            (
                "2024-01-02 03:04:05.678 UTC::@:[123]:LOG:  text",
                vec![named("user", ""), named("database", ""), number("pid", 123)],
            ),
            ("2024-01-02 03:04:05.678 UTC 65a.7b LOG:  text", vec![named("prefix", "65a.7b")]),
        ] {
            let record = read(line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!((record.level, &*record.message), (Some(Level::Info), "text"), "{line}");
            assert_eq!(record.time.map(|time| time.to_string()).as_deref(), Some("2024-01-02T03:04:05.678Z"), "{line}");
            assert_eq!(record.fields, fields, "{line}");
        }
    }

    #[test]
    fn detail_lines_become_fields() {
        let head = "2024-01-02 03:04:05.678 UTC [123] ada@shop";
        let text = format!(
            "{head} ERROR:  relation \"a\"\n\tis missing\n{head} DETAIL:  none\n{head} STATEMENT:  SELECT *\n\tFROM a:  b"
        );
        let record = read(&text).expect("postgresql");
        assert_eq!((record.level, &*record.message), (Some(Level::Error), "relation \"a\"\n\tis missing"));
        let more: Vec<_> = record.fields.iter().skip(3).map(|field| (&*field.name, field.value.clone())).collect();
        let expected =
            [("detail", Value::String("none".into())), ("statement", Value::String("SELECT *\n\tFROM a:  b".into()))];
        assert_eq!(more, expected);
        for (line, expected) in [
            (format!("{head} ERROR:  x"), Some(true)),
            (format!("{head} HINT:  x"), Some(false)),
            (format!("{head} STATEMENT:  x"), Some(false)),
            ("\tFROM a".to_owned(), None),
        ] {
            assert_eq!(begins(&line, &TimestampDefaults::default()), expected, "{line}");
        }
    }

    #[test]
    fn near_misses_are_rejected() {
        for line in [
            "",
            "2024-01-02 03:04:05 UTC [123] LOG: one space",
            "2024-01-02 03:04:05 UTC [123] MYLOG:  text",
            "2024-01-02 03:04:05 UTC [123] log:  text",
            "2024-01-02 03:04:05 UTC [123] DETAIL:  text",
            "2024-01-02 03:04:05 UTC [123] a:  LOG:  text",
            "2024-01-02 03:04:05 UTC [123] text\nLOG:  text",
            "LOG:  text",
            "2024-13-02 03:04:05 UTC [123] LOG:  text",
        ] {
            assert_eq!(read(line), None, "{line}");
        }
    }

    proptest! {
        /// Any text after the severity is the message, and any prefix is kept in a field.
        #[test]
        fn message_and_prefix_are_kept(message in "[^\n]*", prefix in "[a-z0-9=@,-]{1,8}") {
            let line = format!("2024-01-02 03:04:05 UTC {prefix} LOG:  {message}");
            let record = read(&line).expect("postgresql");
            prop_assert_eq!(&*record.message, &*message);
            let kept: String = record.fields.iter().map(|field| format!("{:?}", field.value)).collect();
            for piece in prefix.split(['=', '@', ',']).filter(|piece| prefix.split(['=', '@', ',']).count() == 1 && !piece.is_empty()) {
                prop_assert!(kept.contains(piece), "{} in {}", piece, kept);
            }
        }

        /// No text makes the parser panic.
        #[test]
        fn any_text(text in "(2024-01-02 03:04:05( UTC)?|[: \n\\[\\]@]|LOG:  |DETAIL:  |\\PC){0,12}") {
            let _ = (read(&text), begins(&text, &TimestampDefaults::default()));
        }
    }
}
