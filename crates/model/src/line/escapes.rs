//! The line as a reader means it: without the escapes that its producer wrote.
//!
//! Formats escape within double quotes alone: JSON, logfmt and the parameters of syslog with a backslash, CSV by doubling
//! the quote. So a backslash outside quotes is a backslash, and the format of a line need not be known.

use super::escape_json;
use memchr::{memchr, memchr2, memmem};
use std::borrow::Cow;

/// The line with the escapes of its quoted texts undone; `None` if it has none. A quoted text that JSON would refuse
/// (`"C:\Users"`, half a surrogate pair) stays as it was written, as parsers take it.
pub fn without_escapes(line: &str) -> Option<String> {
    if memchr(b'\\', line.as_bytes()).is_none() && memmem::find(line.as_bytes(), b"\"\"").is_none() {
        return None;
    }
    let (mut read, mut copied) = (String::new(), 0);
    let mut at = 0;
    while let Some(start) = memchr(b'"', &line.as_bytes()[at..]).map(|found| at + found) {
        let Some(quoted) = quoted_at(line, start) else { break };
        at = quoted.end;
        let text = &line[start..at];
        let meant = match quoted.is_doubled {
            true => text[1..text.len() - 1].replace("\"\"", "\""),
            false if !text.contains('\\') => continue,
            false => match serde_json::from_str::<String>(text) {
                Ok(meant) => meant,
                Err(_) => continue,
            },
        };
        read.push_str(&line[copied..=start]);
        read.push_str(&meant);
        copied = at - 1;
    }
    if copied == 0 {
        return None;
    }
    read.push_str(&line[copied..]);
    Some(read)
}

/// A value that is JSON, as a reader means it: the text of an array, or of an object that is not a field. `None` for
/// any other value, and where nothing is escaped in it.
pub fn json_without_escapes(value: &str) -> Option<String> {
    let is_framed = matches!(value.as_bytes(), [b'[', .., b']'] | [b'{', .., b'}']);
    let is_json = || serde_json::from_str::<serde::de::IgnoredAny>(value).is_ok();
    if is_framed && value.contains('\\') && is_json() { without_escapes(value) } else { None }
}

/// JSON with the escapes alone that it needs, so that its words can be found.
pub fn with_fewest_escapes(json: &str) -> Cow<'_, str> {
    let (mut fewest, mut copied, mut at) = (Vec::new(), 0, 0);
    while let Some(start) = memchr(b'"', &json.as_bytes()[at..]).map(|found| at + found) {
        let Some(end) = string_end(json, start) else { break };
        at = end;
        let text = &json[start..at];
        if let Some(Ok(meant)) = text.contains('\\').then(|| serde_json::from_str::<String>(text)) {
            fewest.extend_from_slice(&json.as_bytes()[copied..=start]);
            escape_json(meant.as_bytes(), false, &mut fewest);
            copied = at - 1;
        }
    }
    if copied == 0 {
        return json.into();
    }
    fewest.extend_from_slice(&json.as_bytes()[copied..]);
    String::from_utf8(fewest).map_or(Cow::Borrowed(json), Cow::Owned)
}

/// The place after the quote that ends the JSON string at `start`.
fn string_end(json: &str, start: usize) -> Option<usize> {
    let mut at = start + 1;
    loop {
        let found = at + memchr2(b'"', b'\\', json.as_bytes().get(at..)?)?;
        if json.as_bytes()[found] == b'"' {
            return Some(found + 1);
        }
        at = found + 2;
    }
}

/// A text in double quotes.
struct Quoted {
    /// The place after its last quote.
    end: usize,
    /// Whether it has doubled quotes.
    is_doubled: bool,
}

/// The quoted text that begins at `start`; `None` if no quote ends it.
fn quoted_at(line: &str, start: usize) -> Option<Quoted> {
    let bytes = line.as_bytes();
    let (mut at, mut is_doubled) = (start + 1, false);
    loop {
        let found = at + memchr2(b'"', b'\\', bytes.get(at..)?)?;
        at = found + 2;
        if bytes[found] == b'"' {
            if bytes.get(found + 1) != Some(&b'"') {
                return Some(Quoted { end: found + 1, is_doubled });
            }
            is_doubled = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn escapes_are_undone_within_quotes_alone() {
        for (line, read) in [
            (r#"{"msg":"caf\u00e9 x\ty","n":1}"#, Some("{\"msg\":\"café x\ty\",\"n\":1}")),
            (r#"{"a":"\ud834\udd1e","b":"\/api","c":""}"#, Some("{\"a\":\"𝄞\",\"b\":\"/api\",\"c\":\"\"}")),
            (r#"msg="said \"go\"" path=C:\new"#, Some(r#"msg="said "go"" path=C:\new"#)),
            (r#"1,"relation ""a"" x",2"#, Some(r#"1,"relation "a" x",2"#)),
            (r#""""a""","b\n""#, Some("\"\"a\"\",\"b\n\"")),
            (r"2026-11-21 ERROR C:\new\table lost", None),
            (r#"open "C:\Users" failed"#, None),
            (r#"half "\ud834" of a pair"#, None),
            (r#"{"a":"","b":["",""]}"#, None),
            (r#"5" of C:\new"#, None),
            ("plain", None),
        ] {
            assert_eq!(without_escapes(line).as_deref(), read, "{line}");
        }
    }

    #[test]
    fn a_value_that_is_json_is_read_as_json() {
        for (value, read) in [
            (r#"["a\nb",{"c":"\u00e9"}]"#, Some("[\"a\nb\",{\"c\":\"é\"}]")),
            (r#"["é"]"#, None),
            (r#"[main] open "C:\new" [x]"#, None),
            (r#""a\nb""#, None),
        ] {
            assert_eq!(json_without_escapes(value).as_deref(), read, "{value}");
        }
        assert_eq!(
            with_fewest_escapes(r#"["caf\u00e9\n","\/x", "a\\b\"", 1e5, ""]"#),
            r#"["café\n","/x", "a\\b\"", 1e5, ""]"#
        );
        assert_eq!(with_fewest_escapes(r#"["\ud834", "\u0041"]"#), r#"["\ud834", "A"]"#);
    }

    proptest! {
        /// A JSON text reads as it was meant, whatever is escaped in it; any other text does not matter.
        #[test]
        fn json_reads_as_it_was_meant(values in proptest::collection::vec("[a-zéю\"\\\\\n/ 𝄞]{0,8}", 1..5), other in "[\"\\\\nu0-9a ,]{0,20}") {
            let line = serde_json::to_string(&values).expect("texts");
            let meant: Vec<String> = values.iter().map(|value| format!("\"{value}\"")).collect();
            let read = without_escapes(&line);
            prop_assert_eq!(read.as_deref().unwrap_or(&line), format!("[{}]", meant.join(",")));
            without_escapes(&other);
        }
    }
}
