//! The error log of Apache 2.4.
//!
//! ```text
//! [Sun Dec 04 04:47:44.123456 2005] [core:error] [pid 123:tid 456] (13)Permission denied: [client 192.0.2.7:567] AH00035: text
//! time                               component:level  pid   thread error                   client  message
//! ```
//!
//! The module before the level distinguishes this format from other lines in brackets; the module may be empty
//! (`[:error]`). A line without one is of Apache 2.2, which `layout` reads.

use super::line_scanner::{LineScanner, number, text};
use super::timestamp::{self, TimestampDefaults};
use daytable_model::record::{Field, Level, Record};
use memchr::memmem;

/// Parses a line of Apache's error log.
pub(super) fn record<'a>(line: &'a str, defaults: &TimestampDefaults) -> Option<Record<'a>> {
    let mut cut = LineScanner::new(line);
    cut.byte(b'[')?;
    let stamp = timestamp::at_start(cut.rest.as_bytes(), defaults)?;
    cut.bytes(stamp.length)?;
    cut.text("] [")?;
    let (module, level) = cut.until(b']')?.split_once(':')?;
    let level = level_of(level)?;
    let mut fields = Vec::with_capacity(6);
    if !module.is_empty() {
        fields.push(text("component", module));
    }
    add_process(&mut cut, &mut fields);
    if !cut.rest.is_empty() {
        cut.byte(b' ')?;
    }
    fields.extend(system_error(&mut cut));
    while let Some(field) = client(&mut cut) {
        fields.push(field);
    }
    Some(cut.into_record(stamp.time, level, fields))
}

/// The level of Apache's word for it, including `trace1` to `trace8`.
fn level_of(word: &str) -> Option<Level> {
    match word.as_bytes() {
        [b't', b'r', b'a', b'c', b'e', b'1'..=b'8'] => Some(Level::Trace),
        _ => Level::from_word(word),
    }
}

/// ` [pid 123]` or ` [pid 123:tid 456]`.
fn add_process<'a>(cut: &mut LineScanner<'a>, fields: &mut Vec<Field<'a>>) -> Option<()> {
    let mut ahead = *cut;
    ahead.text(" [pid ")?;
    let pid = ahead.number()?;
    let thread = match ahead.text(":tid ") {
        Some(()) => Some(ahead.number()?),
        None => None,
    };
    ahead.byte(b']')?;
    if !ahead.rest.is_empty() && !ahead.rest.starts_with(' ') {
        return None;
    }
    fields.push(number("pid", pid));
    fields.extend(thread.map(|thread| number("thread", thread)));
    *cut = ahead;
    Some(())
}

/// `(13)Permission denied: `. Only a client after it shows where the error text ends.
fn system_error<'a>(cut: &mut LineScanner<'a>) -> Option<Field<'a>> {
    let mut ahead = *cut;
    ahead.byte(b'(').and_then(|()| ahead.number())?;
    let end = memmem::find(cut.rest.as_bytes(), b": [client ")?;
    let error = cut.bytes(end)?;
    cut.text(": ")?;
    Some(text("error", error))
}

/// `[client 192.0.2.7:567] ` or `[remote …] `.
fn client<'a>(cut: &mut LineScanner<'a>) -> Option<Field<'a>> {
    let mut ahead = *cut;
    ahead.byte(b'[')?;
    let (name, value) = ahead.until(b']')?.split_once(' ')?;
    if !matches!(name, "client" | "remote") {
        return None;
    }
    ahead.byte(b' ')?;
    *cut = ahead;
    Some(text(name, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_model::record::Value;
    use proptest::prelude::*;

    #[test]
    fn every_part_becomes_a_field() {
        for (rest, level, message, fields) in [
            (
                "[core:error] [pid 123:tid 456] [client 192.0.2.7:567] AH00126: bad, referer: x",
                Level::Error,
                "AH00126: bad, referer: x",
                &["component", "pid", "thread", "client"][..],
            ),
            ("[mpm_event:notice] [pid 1] AH00489: up", Level::Notice, "AH00489: up", &["component", "pid"]),
            ("[:trace3] [pid 1] text", Level::Trace, "text", &["pid"]),
            ("[ssl:warn] text", Level::Warn, "text", &["component"]),
            ("[a:info] [pid x] text", Level::Info, "[pid x] text", &["component"]),
            ("[a:info] [client", Level::Info, "[client", &["component"]),
            ("[a:info] (13)Denied: [client ::1] x", Level::Info, "x", &["component", "error", "client"]),
            ("[a:info] (13)Denied: x", Level::Info, "(13)Denied: x", &["component"]),
            ("[a:info] (x)Denied: [client ::1] x", Level::Info, "(x)Denied: [client ::1] x", &["component"]),
        ] {
            let line = format!("[Sun Dec 04 04:47:44.123456 2005] {rest}");
            let record = record(&line, &TimestampDefaults::default()).unwrap_or_else(|| panic!("{rest}"));
            assert_eq!((record.level, &*record.message), (Some(level), message), "{rest}");
            assert_eq!(record.time.map(|time| time.to_string()).as_deref(), Some("2005-12-04T04:47:44.123456Z"));
            assert_eq!(record.fields.iter().map(|field| &*field.name).collect::<Vec<_>>(), fields, "{rest}");
            for field in &record.fields {
                let is_number = ["pid", "thread"].contains(&&*field.name);
                assert_eq!(is_number, matches!(field.value, Value::Int64(_)), "{rest}");
            }
        }
    }

    #[test]
    fn near_misses_are_rejected() {
        for line in [
            "",
            "[Sun Dec 04 04:47:44 2005] [error] [client 192.0.2.7] text",
            "[Sun Dec 04 04:47:44 2005] [core:loud] text",
            "[Sun Dec 04 04:47:44 2005] [core:error]text",
            "[Sun Dec 04 04:47:44 2005] [core:error",
            "[Sun Dec 44 04:47:44 2005] [core:error] text",
            "Sun Dec 04 04:47:44 2005 [core:error] text",
        ] {
            assert_eq!(record(line, &TimestampDefaults::default()), None, "{line}");
        }
    }

    proptest! {
        /// Any text after the level is the message, without the parts before it.
        #[test]
        fn the_message_ends_as_it_is_written(text in "(\\[(pid|client) [0-9a-z:]{0,4}\\]? ?){0,3}\\PC{0,20}") {
            let line = format!("[Sun Dec 04 04:47:44 2005] [core:error] {text}");
            let record = record(&line, &TimestampDefaults::default()).expect("a level and a space");
            prop_assert!(text.ends_with(&*record.message));
            prop_assert!(record.fields.len() > 1 || *record.message == text);
        }
    }
}
