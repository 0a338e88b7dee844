//! `TIMESTAMP LEVEL text key=value…`: what most programs write for people.
//!
//! ```text
//! 2026-11-20T04:00:02.2Z ERROR db.pool request failed status=502 error="connection reset"
//! time                   level message               fields
//! ```
//!
//! Timestamp and level may each be in brackets; the level may be missing. Pairs are taken out only where they are a
//! run that reaches the end of the line: `retry=3` in the middle of a sentence is a part of that sentence.

use super::pairs::{is_space, pair_at, skip_spaces};
use super::timestamp;
use crate::record::{Field, Level, Record};
use crate::time::Ticks;
use memchr::{memchr, memchr2, memrchr2};
use std::borrow::Cow;
use std::iter::once_with;

/// Reads a line that begins with a timestamp.
pub(super) fn parse(line: &str) -> Option<Record<'_>> {
    let (time, rest) = leading_time(line)?;
    let (level, rest) = match leading_level(rest) {
        Some((level, rest)) => (Some(level), rest),
        None => (None, rest),
    };
    let (message, fields) = trailing_pairs(rest);
    Some(Record { time: Some(time), level, message: Cow::Borrowed(message), fields })
}

/// The timestamp, and the line from the next word on.
fn leading_time(line: &str) -> Option<(Ticks, &str)> {
    let (bracketed, inner) = strip(line, b'[');
    let (time, length) = timestamp::leading(inner)?;
    let rest = word_end(inner.get(length..)?, bracketed)?;
    Some((time, trim_start(rest)))
}

/// The level that `text` begins with, as `INFO`, `INFO:`, `[INFO]` or `[INFO]:`, and the text from the next word on.
fn leading_level(text: &str) -> Option<(Level, &str)> {
    let (bracketed, inner) = strip(text, b'[');
    let length = inner.bytes().take_while(u8::is_ascii_alphanumeric).count();
    let (word, rest) = inner.split_at_checked(length)?;
    let level = Level::from_word(word)?;
    let rest = if bracketed {
        strip(word_end(trim_start(rest), true)?, b':').1
    } else {
        let (marked, rest) = strip(rest, b':');
        if !marked && is_prose(word) {
            return None;
        }
        word_end(rest, false)?
    };
    Some((level, trim_start(rest)))
}

/// Whether a level's word, without a bracket or colon, may as well begin a sentence: `Error while reading`, `fine so far`.
fn is_prose(word: &str) -> bool {
    let common = ["trace", "debug", "info", "warn", "warning", "error", "fatal"];
    word.bytes().any(|byte| byte.is_ascii_lowercase()) && !common.contains(&word)
}

/// What follows a word: its closing bracket is taken off if it has one, else a space or the end of the line must follow.
fn word_end(rest: &str, bracketed: bool) -> Option<&str> {
    match rest.as_bytes().first() {
        Some(b']') if bracketed => rest.get(1..),
        None | Some(b' ' | b'\t') if !bracketed => Some(rest),
        _ => None,
    }
}

/// The text without the run of pairs at its end, and those pairs.
///
/// Linear in spite of starting again after a word that is no pair: a quote that is looked for and found in vain ends
/// at the latest at the quote of the next pair, so no byte is looked at more than a few times.
fn trailing_pairs(text: &str) -> (&str, Vec<Field<'_>>) {
    let bytes = text.as_bytes();
    let mut fields = Vec::new();
    let mut at = 0;
    while let Some(equals) = bytes.get(at..).and_then(|rest| memchr(b'=', rest)) {
        // No word before the first '=' is a pair, so they need not be looked at.
        let run = memrchr2(b' ', b'\t', &bytes[at..at + equals]).map_or(at, |space| at + space + 1);
        at = run;
        while let Some(pair) = pair_at(text, at) {
            if fields.capacity() == 0 {
                fields.reserve_exact(16);
            }
            // Made in its place; see `Draft::add_borrowed`.
            fields.extend(once_with(|| Field { name: Cow::Borrowed(pair.key), value: pair.value.value() }));
            at = skip_spaces(bytes, pair.end);
            if at == bytes.len() {
                return (trim_end(text.get(..run).unwrap_or(text)), fields);
            }
        }
        fields.clear();
        match memchr2(b' ', b'\t', &bytes[at..]) {
            Some(length) => at = skip_spaces(bytes, at + length),
            None => break,
        }
    }
    (text, Vec::new())
}

// By bytes rather than with the patterns of `str`, which take a call of `memcmp` for each.

/// Whether `text` begins with the ASCII character `first`, and the text without it.
fn strip(text: &str, first: u8) -> (bool, &str) {
    if text.as_bytes().first() == Some(&first) { (true, text.get(1..).unwrap_or(text)) } else { (false, text) }
}

fn trim_start(text: &str) -> &str {
    text.get(skip_spaces(text.as_bytes(), 0)..).unwrap_or(text)
}

fn trim_end(text: &str) -> &str {
    let spaces = text.bytes().rev().take_while(|byte| is_space(*byte)).count();
    text.get(..text.len() - spaces).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Value;
    use proptest::prelude::*;

    fn names<'a>(record: &'a Record<'_>) -> Vec<&'a str> {
        record.fields.iter().map(|field| &*field.name).collect()
    }

    #[test]
    fn a_word_that_begins_a_sentence_is_no_level() {
        for (text, level, message) in [
            ("Error while reading", None, "Error while reading"),
            ("fine so far", None, "fine so far"),
            ("Error: while reading", Some(Level::Error), "while reading"),
            ("[Error] while reading", Some(Level::Error), "while reading"),
            ("ERROR while reading", Some(Level::Error), "while reading"),
            ("error while reading", Some(Level::Error), "while reading"),
        ] {
            let line = format!("2026-11-20T04:00:02Z {text}");
            let record = parse(&line).expect("text");
            assert_eq!((record.level, &*record.message), (level, message), "{text}");
        }
    }

    #[test]
    fn a_line_of_the_corpus() {
        let line = concat!(
            "2026-11-20T03:59:02.263533Z ERROR db.pool request failed method=GET path=/api/v1/invoices/3506 status=502 ",
            "client=10.3.82.145 error=\"connection reset by peer, attempt 3 of 5\"",
        );
        let record = parse(line).expect("text");
        assert_eq!(record.time.map(|time| time.to_string()).as_deref(), Some("2026-11-20T03:59:02.263533Z"));
        assert_eq!(record.level, Some(Level::Error));
        assert_eq!(record.message, "db.pool request failed");
        assert_eq!(names(&record), ["method", "path", "status", "client", "error"]);
        assert_eq!(record.fields[2].value, Value::Int64(502));
        assert_eq!(record.fields[4].value, Value::String("connection reset by peer, attempt 3 of 5".into()));
    }

    #[test]
    fn levels_and_where_they_end() {
        for (rest, level, message) in [
            ("", None, ""),
            (" ", None, ""),
            (" up", None, "up"),
            (" INFO up", Some(Level::Info), "up"),
            ("  info   up ", Some(Level::Info), "up "),
            ("\tWarning: low", Some(Level::Warn), "low"),
            (" [ERROR] bad", Some(Level::Error), "bad"),
            (" [WARN ] bad", Some(Level::Warn), "bad"),
            (" [debug]: bad", Some(Level::Debug), "bad"),
            (" [info][main] up", Some(Level::Info), "[main] up"),
            (" INFO", Some(Level::Info), ""),
            (" I up", None, "I up"),
            (" INFO-5 up", None, "INFO-5 up"),
            (" INFO=5", None, ""),
            (" information_schema read", None, "information_schema read"),
            (" [main] INFO up", None, "[main] INFO up"),
            (" [INFO up", None, "[INFO up"),
            (" é", None, "é"),
        ] {
            for stamp in ["2026-11-20 00:05:45", "[2026-11-20 00:05:45]"] {
                let record = parse(&format!("{stamp}{rest}")).map(|record| (record.level, record.message.into_owned()));
                assert_eq!(record, Some((level, message.to_owned())), "{stamp}{rest}");
            }
        }
        for line in
            ["2026-11-20 00:05:45foo", "2026-11-20 00:05:45] foo", "[2026-11-20 00:05:45 foo", "[INFO] foo", "["]
        {
            assert_eq!(parse(line), None, "{line}");
        }
    }

    #[test]
    fn only_a_run_at_the_end_is_taken_out() {
        for (rest, message, fields) in [
            ("a=1", "", &["a"][..]),
            ("up a=1  b=2\tc=3 ", "up", &["a", "b", "c"]),
            ("up a=1 then", "up a=1 then", &[]),
            ("up a=1 then b=2", "up a=1 then", &["b"]),
            ("up = 1", "up = 1", &[]),
            ("up =1", "up =1", &[]),
            ("a == b", "a == b", &[]),
            ("up a=\"x y\" b=\"\"", "up", &["a", "b"]),
            ("up a=\"x y", "up a=\"x y", &[]),
            ("up a=\"x b=2", "up a=\"x", &["b"]),
            ("up a=\"x\"y b=2", "up a=\"x\"y", &["b"]),
            ("up \"a=1\" b=2", "up \"a=1\"", &["b"]),
            ("get /x?a=1", "get /x?a=1", &[]),
            ("k=v é=1", "k=v é=1", &[]),
        ] {
            let line = format!("2026-11-20T00:05:45Z {rest}");
            let record = parse(&line).expect("text");
            assert_eq!((&*record.message, &names(&record)[..]), (message, fields), "{rest}");
        }
    }

    proptest! {
        /// Message and fields account for the text: put together again they are the text, but for spaces and for quotes
        /// that were not needed.
        #[test]
        fn nothing_of_the_text_is_lost(words in proptest::collection::vec("[a-z=\"]{1,6}|[a-z]{1,3}=[0-9a-z.=-]{0,6}|[a-z]{1,2}=\"[a-z =]{0,6}\"", 0..10)) {
            let text = words.join(" ");
            let line = format!("2026-11-20T00:05:45Z NOTICE {text}");
            let record = parse(&line).expect("text");
            let mut again = record.message.to_string();
            for field in &record.fields {
                let value = match &field.value {
                    Value::String(text) => text.to_string(),
                    Value::Int64(number) => number.to_string(),
                    Value::Double(number) => format!("{number:?}"),
                    Value::Boolean(truth) => truth.to_string(),
                };
                again.push_str(&format!(" {}={value}", field.name));
            }
            let squeeze = |text: &str| text.replace([' ', '"'], "");
            prop_assert_eq!(squeeze(&again), squeeze(&text));
            prop_assert!(text.starts_with(&*record.message));
        }

        /// What follows the level is the message as it was written, where no pair ends it.
        #[test]
        fn text_without_pairs_is_kept_as_it_is(text in "[^= \t][^=]*") {
            prop_assume!(Level::from_word(text.split([' ', ':', ']']).next().unwrap_or("")).is_none());
            let line = format!("2026-11-20T00:05:45Z INFO {text}");
            let record = parse(&line).expect("text");
            prop_assert_eq!((&*record.message, record.level), (&*text, Some(Level::Info)));
        }
    }
}
