//! nginx' error log.
//!
//! ```text
//! 2023/01/02 03:04:05 [error] 123#456: *789 open() "/a" failed (2: No such file or directory), client: 192.0.2.7, …
//! time                 level  pid thread  connection  message                                    fields
//! ```
//!
//! nginx appends facts about the request to the message (`, client: …, server: …, request: "…"`), in a fixed set of
//! names. If any other name stands there, the whole text stays in the message. `host` is the host that the client asked
//! for, not the host of the log, so the field is `http_host`.

use super::line_scanner::{LineScanner, number, text};
use super::timestamp::{self, TimestampDefaults};
use daytable_model::record::{Field, Level, Record};
use memchr::memmem;
use std::borrow::Cow;

/// Parses a line of nginx' error log.
pub(super) fn record<'a>(line: &'a str, defaults: &TimestampDefaults) -> Option<Record<'a>> {
    let mut cut = LineScanner::new(line);
    let stamp = timestamp::at_start(line.as_bytes(), defaults)?;
    cut.bytes(stamp.length)?;
    cut.text(" [")?;
    let level = Level::from_word(cut.until(b']')?)?;
    cut.byte(b' ')?;
    let pid = cut.number()?;
    cut.byte(b'#')?;
    let thread = cut.number()?;
    cut.text(": ")?;
    let mut fields = Vec::with_capacity(12);
    fields.extend([number("pid", pid), number("thread", thread)]);
    let mut numbered = cut;
    if let Some(connection) = numbered.byte(b'*').and_then(|()| numbered.number())
        && numbered.byte(b' ').is_some()
    {
        fields.push(number("connection", connection));
        cut = numbered;
    }
    let message = without_request(cut.rest, &mut fields);
    Some(Record {
        time: Some(stamp.time),
        level: Some(level),
        message: Cow::Borrowed(message),
        fields,
        ..Record::default()
    })
}

/// The message without the facts about the request, which become fields.
fn without_request<'a>(message: &'a str, fields: &mut Vec<Field<'a>>) -> &'a str {
    let Some(at) = memmem::find(message.as_bytes(), b", client: ") else { return message };
    let (Some(before), Some(about)) = (message.get(..at), message.get(at..)) else { return message };
    let known = fields.len();
    let mut cut = LineScanner::new(about);
    while !cut.rest.is_empty() {
        let Some(field) = request_field(&mut cut) else {
            fields.truncate(known);
            return message;
        };
        fields.push(field);
    }
    before
}

/// `, name: value` or `, name: "value"`.
fn request_field<'a>(cut: &mut LineScanner<'a>) -> Option<Field<'a>> {
    cut.text(", ")?;
    let name = match cut.until(b':')? {
        "host" => "http_host",
        "referrer" => "referer",
        name @ ("client" | "server" | "request" | "subrequest" | "upstream" | "login") => name,
        _ => return None,
    };
    cut.byte(b' ')?;
    let value = match cut.quoted() {
        Some(value) => value,
        None => {
            let end = memmem::find(cut.rest.as_bytes(), b", ").unwrap_or(cut.rest.len());
            cut.bytes(end)?
        }
    };
    Some(text(name, value))
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_model::record::Value;
    use proptest::prelude::*;

    fn parts(line: &str) -> (String, Vec<(String, Value<'_>)>) {
        let record = record(line, &TimestampDefaults::default()).unwrap_or_else(|| panic!("{line}"));
        (record.message.into_owned(), record.fields.into_iter().map(|f| (f.name.into_owned(), f.value)).collect())
    }

    #[test]
    fn a_line_with_a_request() {
        let line = concat!(
            r#"2023/01/02 03:04:05 [error] 123#456: *789 open() "/srv/a, b" failed (2: No such file or directory), "#,
            r#"client: 192.0.2.7, server: , request: "GET /a, b HTTP/1.1", upstream: "http://127.0.0.1:8080/a", "#,
            r#"host: "example.com", referrer: "https://example.com/""#,
        );
        let (message, fields) = parts(line);
        assert_eq!(message, r#"open() "/srv/a, b" failed (2: No such file or directory)"#);
        let expected = [
            ("pid", Value::Int64(123)),
            ("thread", Value::Int64(456)),
            ("connection", Value::Int64(789)),
            ("client", Value::String("192.0.2.7".into())),
            ("server", Value::String("".into())),
            ("request", Value::String("GET /a, b HTTP/1.1".into())),
            ("upstream", Value::String("http://127.0.0.1:8080/a".into())),
            ("http_host", Value::String("example.com".into())),
            ("referer", Value::String("https://example.com/".into())),
        ];
        assert_eq!(fields, expected.map(|(name, value)| (name.to_owned(), value)));
    }

    #[test]
    fn unknown_parts_stay_in_the_message() {
        for (text, fields) in [
            ("signal process started", 2),
            ("*x", 2),
            ("* 7", 2),
            ("a, client: b, mood: c", 2),
            ("a, client: b,c", 2),
            ("a, client: ", 2),
        ] {
            let line = format!("2023/01/02 03:04:05 [notice] 1#1: {text}");
            let (message, found) = parts(&line);
            let fields = if text.ends_with("client: ") || text.ends_with("b,c") { fields + 1 } else { fields };
            assert_eq!(found.len(), fields, "{text}");
            assert_eq!(message == text, fields == 2, "{text}");
        }
    }

    #[test]
    fn near_misses_are_rejected() {
        for line in [
            "",
            "2023/01/02 03:04:05 [loud] 1#1: text",
            "2023/01/02 03:04:05 [error] 1: text",
            "2023/01/02 03:04:05 [error] 1#x: text",
            "2023/01/02 03:04:05 error 1#1: text",
            "2023/13/02 03:04:05 [error] 1#1: text",
            "[error] 1#1: text",
        ] {
            assert_eq!(record(line, &TimestampDefaults::default()), None, "{line}");
        }
    }

    proptest! {
        /// Any text after the numbers is the message, without the facts about the request.
        #[test]
        fn the_message_begins_as_it_is_written(text in "([a-z*,: \"]|\\PC){0,30}(, client: [a-z, :\"]{0,20})?") {
            let line = format!("2023/01/02 03:04:05 [warn] 1#1: {text}");
            let (message, fields) = parts(&line);
            prop_assert!(text.ends_with(&message) || text.contains(&message));
            prop_assert!(fields.len() > 2 || message == text);
        }
    }
}
