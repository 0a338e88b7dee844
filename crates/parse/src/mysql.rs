//! The error logs of MySQL and MariaDB, and their slow query log.
//!
//! ```text
//! 2024-01-02T03:04:05.678901Z 0 [Warning] [MY-010068] [Server] text     MySQL 8
//! 2024-01-02T03:04:05.678901Z 0 [Note] text                             MySQL 5.7
//! 2024-01-02  3:04:05 140 [Note] text                                   MariaDB
//! 240102  3:04:05 [Note] text                                           before
//! ```
//!
//! A `Note` is information, and so is MySQL 8's `System`, which is always written. A slow query has several lines:
//!
//! ```text
//! # Time: 2024-01-02T03:04:05.678901Z                                   begins the record; may be missing
//! # User@Host: root[root] @ localhost [127.0.0.1]  Id:     8
//! # Query_time: 2.000298  Lock_time: 0.000003 Rows_sent: 1  Rows_examined: 1
//! SET timestamp=1704164645;
//! SELECT SLEEP(2);                                                      the message: the lines without `#`
//! ```

use super::line_scanner::{LineScanner, number, text, typed};
use super::timestamp::{self, TimestampDefaults};
use daytable_model::record::{Field, Level, Record, Value};
use daytable_model::time::Ticks;
use std::borrow::Cow;

/// Parses a line of the error log.
pub(super) fn error<'a>(line: &'a str, defaults: &TimestampDefaults) -> Option<Record<'a>> {
    let stamp = timestamp::at_start(line.as_bytes(), defaults)?;
    let mut cut = LineScanner::new(line);
    cut.bytes(stamp.length)?;
    cut.byte(b' ')?;
    cut.spaces();
    let thread = cut.number();
    if thread.is_some() {
        cut.byte(b' ')?;
    }
    cut.byte(b'[')?;
    let level = level_of(cut.until(b']')?)?;
    cut.byte(b' ')?;
    let mut fields = Vec::with_capacity(3);
    fields.extend(thread.map(|thread| number("thread", thread)));
    let mut coded = cut;
    if coded.text("[MY-").is_some() {
        let code = cut.bytes(1).and_then(|_| cut.until(b']')).filter(|code| is_code(code))?;
        fields.push(text("code", code));
        cut.text(" [")?;
        fields.push(text("component", cut.until(b']')?));
        if !cut.rest.is_empty() {
            cut.byte(b' ')?;
        }
    } else if thread.is_none() && !matches!(line.as_bytes(), [b'0'..=b'9', b'0'..=b'9', _, _, _, _, b' ', ..]) {
        // Many formats have a time, a level and a text; the thread or the short date shows that this is MySQL.
        return None;
    }
    Some(cut.into_record(stamp.time, level, fields))
}

fn level_of(word: &str) -> Option<Level> {
    Some(match word {
        "ERROR" | "Error" => Level::Error,
        "Warning" => Level::Warn,
        "Note" | "System" => Level::Info,
        _ => return None,
    })
}

fn is_code(code: &str) -> bool {
    code.len() <= 16 && code.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

/// Whether a line continues the slow query `open`; `None` if `open` is not a slow query.
pub(super) fn goes_on(open: &str, line: &str) -> Option<bool> {
    open.starts_with("# ").then_some(())?;
    let (first, rest) = open.split_once('\n').unwrap_or((open, ""));
    let has_user = is_user(first) || is_user(rest);
    let is_slow = is_time(first) || is_user(first);
    let is_next = is_time(line) || has_user && is_user(line);
    is_slow.then_some(!is_next)
}

/// Whether a line begins a slow query, whatever stands before it.
pub(super) fn is_time(line: &str) -> bool {
    line.starts_with("# Time: ")
}

fn is_user(line: &str) -> bool {
    line.starts_with("# User@Host: ")
}

/// Parses a slow query.
pub(super) fn slow<'a>(record: &'a str, defaults: &TimestampDefaults) -> Option<Record<'a>> {
    let mut time = None;
    let mut fields = Vec::with_capacity(12);
    let mut rest = record;
    while let Some(comment) = rest.strip_prefix("# ") {
        let (line, after) = comment.split_once('\n').unwrap_or((comment, ""));
        if let Some(stamp) = line.strip_prefix("Time: ").and_then(|text| timestamp::at_start(text.as_bytes(), defaults))
        {
            time = Some(stamp.time);
        } else if let Some(client_text) = line.strip_prefix("User@Host: ") {
            add_client(client_text, &mut fields);
        } else {
            add_pairs(line, &mut fields);
        }
        rest = after;
    }
    if fields.is_empty() || !is_time(record) && !is_user(record) {
        return None;
    }
    let time = time.or_else(|| of_statement(rest));
    Some(Record { time, level: None, message: Cow::Borrowed(rest), fields, ..Record::default() })
}

/// `root[root] @ localhost [127.0.0.1]  Id:     8`; a host without a name has only the address.
fn add_client<'a>(client_text: &'a str, fields: &mut Vec<Field<'a>>) {
    let (account, id) = match client_text.split_once("  Id:") {
        Some((account, id)) => (account, Some(id)),
        None => (client_text, None),
    };
    match account.split_once(" @ ") {
        Some((user, client)) => {
            fields.push(text("user", user.split_once('[').map_or(user, |(user, _)| user)));
            fields.push(text("client", client.trim()));
        }
        None => fields.push(text("user", account)),
    }
    if let Some(id) = id {
        fields.push(typed("thread", id.trim()));
    }
}

/// `Query_time: 2.000298  Lock_time: 0.000003 Rows_sent: 1`: alternating names and numbers.
fn add_pairs<'a>(line: &'a str, fields: &mut Vec<Field<'a>>) {
    let mut cut = LineScanner::new(line);
    loop {
        cut.spaces();
        let mut ahead = cut;
        let Some(name) = ahead.word().strip_suffix(':').filter(|name| !name.is_empty()) else { break };
        ahead.spaces();
        let value = ahead.word();
        fields.push(match value.parse::<f64>() {
            Ok(seconds) if value.contains('.') && seconds.is_finite() => {
                Field { name: Cow::Borrowed(name), value: Value::Double(seconds) }
            }
            _ => typed(name, value),
        });
        cut = ahead;
    }
    if !cut.rest.is_empty() {
        fields.push(text("comment", cut.rest));
    }
}

/// The time of `SET timestamp=1704164645;`, for a record without `# Time:`.
fn of_statement(sql: &str) -> Option<Ticks> {
    let line = sql.lines().take(2).find_map(|line| line.strip_prefix("SET timestamp="))?;
    timestamp::epoch(line.strip_suffix(';')?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lines_of_several_versions() {
        for (line, time, level, message, fields) in [
            (
                "2024-01-02T03:04:05.678901Z 0 [Warning] [MY-010068] [Server] CA is self signed.",
                "2024-01-02T03:04:05.678901Z",
                Level::Warn,
                "CA is self signed.",
                vec![number("thread", 0), text("code", "MY-010068"), text("component", "Server")],
            ),
            (
                "2024-01-02T03:04:05.678901Z 12 [Note] Access denied",
                "2024-01-02T03:04:05.678901Z",
                Level::Info,
                "Access denied",
                vec![number("thread", 12)],
            ),
            (
                "2024-01-02  3:04:05 140 [ERROR] InnoDB: [x] y",
                "2024-01-02T03:04:05Z",
                Level::Error,
                "InnoDB: [x] y",
                vec![number("thread", 140)],
            ),
            ("240102  3:04:05 [Note] up", "2024-01-02T03:04:05Z", Level::Info, "up", vec![]),
        ] {
            let seen = Ticks::from_date(2024, 6, 1).expect("a date");
            let record = error(line, &TimestampDefaults { seen, ..TimestampDefaults::default() })
                .unwrap_or_else(|| panic!("{line}"));
            assert_eq!(record.time.map(|time| time.to_string()).as_deref(), Some(time), "{line}");
            assert_eq!((record.level, &*record.message, record.fields), (Some(level), message, fields), "{line}");
        }
    }

    #[test]
    fn near_misses_are_rejected() {
        for line in [
            "",
            "2024-01-02T03:04:05Z [Note] text",
            "2024-01-02T03:04:05Z 0 [note] text",
            "2024-01-02T03:04:05Z 0 [Note]text",
            "2024-01-02T03:04:05Z 0 [Warning] [MY-010068] text",
            "2024-01-02T03:04:05Z 0 [Warning] [MY-010068",
            "2024-01-02T03:04:05Z 0x [Note] text",
            "2024-13-02T03:04:05Z 0 [Note] text",
        ] {
            assert_eq!(error(line, &TimestampDefaults::default()), None, "{line}");
        }
        for text in ["", "# Time: 2024-01-02T03:04:05Z", "# a heading\ntext", "# User@Hosts: a", "SELECT 1"] {
            assert_eq!(slow(text, &TimestampDefaults::default()), None, "{text}");
        }
    }

    #[test]
    fn a_slow_query() {
        let lines = concat!(
            "# User@Host: root[root] @ localhost [127.0.0.1]  Id:     8\n",
            "# Query_time: 2.000298  Lock_time: 0.000003 Rows_sent: 1  Rows_examined: 1\n",
            "SET timestamp=1704164645;\n# no comment\nSELECT SLEEP(2);",
        );
        for (head, time) in [("# Time: 2024-01-02T03:04:07Z\n", "2024-01-02T03:04:07Z"), ("", "2024-01-02T03:04:05Z")] {
            let whole = format!("{head}{lines}");
            let record = slow(&whole, &TimestampDefaults::default()).expect("a slow query");
            assert_eq!(record.time.map(|time| time.to_string()).as_deref(), Some(time));
            assert_eq!(record.message, "SET timestamp=1704164645;\n# no comment\nSELECT SLEEP(2);");
            let expected = [
                text("user", "root"),
                text("client", "localhost [127.0.0.1]"),
                number("thread", 8),
                Field { name: "Query_time".into(), value: Value::Double(2.000_298) },
                Field { name: "Lock_time".into(), value: Value::Double(0.000_003) },
                number("Rows_sent", 1),
                number("Rows_examined", 1),
            ];
            assert_eq!(record.fields, expected);
        }
    }

    #[test]
    fn a_slow_query_ends_where_the_next_begins() {
        let (time, user, sql) = ("# Time: 240102  3:04:05", "# User@Host: a[a] @ b []", "SELECT 1;");
        for (open, line, expected) in [
            (time.to_owned(), user, Some(true)),
            (time.to_owned(), time, Some(false)),
            (format!("{time}\n{user}\n{sql}"), sql, Some(true)),
            (format!("{time}\n{user}\n{sql}"), time, Some(false)),
            (format!("{time}\n{user}\n{sql}"), user, Some(false)),
            (format!("{user}\n{sql}"), "# Query_time: 1", Some(true)),
            (format!("{user}\n{sql}"), user, Some(false)),
            (sql.to_owned(), user, None),
        ] {
            assert_eq!(goes_on(&open, line), expected, "{open} / {line}");
        }
    }

    proptest! {
        /// Any text after the level is the message, as written.
        #[test]
        fn any_message(text in any::<String>()) {
            prop_assume!(!text.starts_with("[MY-"));
            let line = format!("2024-01-02T03:04:05Z 7 [Note] {text}");
            prop_assert_eq!(error(&line, &TimestampDefaults::default()).map(|record| record.message), Some(text.into()));
        }

        /// No text makes the parser panic.
        #[test]
        fn any_text(text in "(# |Time: |User@Host: |a: |[0-9.]|\n| @ |\\[|  Id:|SET timestamp=|;|\\PC){0,16}") {
            let _ = (slow(&text, &TimestampDefaults::default()), error(&text, &TimestampDefaults::default()));
        }
    }
}
