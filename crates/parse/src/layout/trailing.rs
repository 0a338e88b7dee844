//! Text after a message: `key=value` pairs, or the JSON object that some encoders append.
//!
//! Only pairs in a run up to the end of the line become fields. `retry=3` in the middle of a sentence belongs to that
//! sentence. The commas of a list (`uid=0, gid=0`) show that people should read it, so a list stays in the message too.

use crate::field_pool;
use crate::json;
use crate::pairs::{is_space, pair_at, skip_spaces};
use crate::timestamp::TimestampDefaults;
use daytable_model::record::{Field, Value};
use memchr::{memchr, memchr2, memrchr2};
use std::borrow::Cow;
use std::iter::once_with;

/// Adds the run of pairs at the end of the text to the fields, and returns the text before the run.
///
/// The function is linear although it starts again after a word that is not a pair: a failed search for a closing quote
/// ends at the quote of the next pair at the latest, so each byte is read only a few times.
pub(super) fn pairs<'a>(text: &'a str, fields: &mut Vec<Field<'a>>) -> &'a str {
    let kept = fields.len();
    let bytes = text.as_bytes();
    let mut at = 0;
    while let Some(equals) = bytes.get(at..).and_then(|rest| memchr(b'=', rest)) {
        // No word before the first '=' is a pair, so the scan starts there.
        let run = memrchr2(b' ', b'\t', &bytes[at..at + equals]).map_or(at, |space| at + space + 1);
        at = run;
        while let Some(pair) = pair_at(text, at) {
            if fields.capacity() == 0 {
                *fields = field_pool::fields();
            }
            // Made in its final place; see `RecordBuilder::add_borrowed`.
            fields.extend(once_with(|| Field { name: Cow::Borrowed(pair.key), value: pair.value_in(text) }));
            at = skip_spaces(bytes, pair.end);
            if at == bytes.len() {
                let message = trim_end(text.get(..run).unwrap_or(text));
                if is_list(message) || fields[kept..].iter().any(ends_with_comma) {
                    break;
                }
                return message;
            }
        }
        fields.truncate(kept);
        match memchr2(b' ', b'\t', &bytes[at..]) {
            Some(length) => at = skip_spaces(bytes, at + length),
            None => break,
        }
    }
    fields.truncate(kept);
    text
}

fn ends_with_comma(field: &Field<'_>) -> bool {
    matches!(&field.value, Value::String(text) if text.ends_with([',', ';']))
}

/// Whether the last word is a pair with a comma after it.
fn is_list(message: &str) -> bool {
    if !message.ends_with([',', ';']) {
        return false;
    }
    let start = memrchr2(b' ', b'\t', message.as_bytes()).map_or(0, |space| space + 1);
    message[start..].contains('=')
}

/// Adds the members of the object after the last tab to the fields, and returns the text before it.
pub(super) fn object<'a>(text: &'a str, fields: &mut Vec<Field<'a>>) -> Option<&'a str> {
    if !text.ends_with('}') {
        return None;
    }
    let tab = text.find("\t{")?;
    let record = json::parse(text.get(tab + 1..)?, &TimestampDefaults::default())?;
    // A name that would elsewhere give the message or the level stays in the text.
    if !record.message.is_empty() || record.level.is_some() || record.time.is_some() {
        return None;
    }
    fields.extend(record.fields);
    text.get(..tab)
}

/// Adds the members of the object at the end of the text to the fields.
pub(super) fn members<'a>(text: &'a str, fields: &mut Vec<Field<'a>>) {
    if text.ends_with('}')
        && let Some(space) = text.find(" {\"")
        && let Some(record) = json::parse(&text[space..], &TimestampDefaults::default())
        && record.message.is_empty()
        && record.level.is_none()
        && record.time.is_none()
    {
        fields.extend(record.fields);
    }
}

fn trim_end(text: &str) -> &str {
    let spaces = text.bytes().rev().take_while(|byte| is_space(*byte)).count();
    text.get(..text.len() - spaces).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn only_a_run_at_the_end_becomes_fields() {
        for (text, message, names) in [
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
            ("up \"a=1\" b=2", "up \"a=1\"", &["b"]),
            ("get /x?a=1", "get /x?a=1", &[]),
            ("k=v é=1", "k=v é=1", &[]),
            ("by uid=0, gid=0", "by uid=0, gid=0", &[]),
            ("by uid=0, gid=0, n=1", "by uid=0, gid=0, n=1", &[]),
        ] {
            let mut fields = Vec::new();
            assert_eq!(pairs(text, &mut fields), message, "{text}");
            assert_eq!(fields.iter().map(|field| &*field.name).collect::<Vec<_>>(), names, "{text}");
        }
    }

    proptest! {
        /// Message and fields together give the text again, except for spaces and needless quotes.
        #[test]
        fn message_and_fields_give_the_text_again(words in proptest::collection::vec("[a-z=\"]{1,6}|[a-z]{1,3}=[0-9a-z.=-]{0,6}|[a-z]{1,2}=\"[a-z =]{0,6}\"", 0..10)) {
            let text = words.join(" ");
            let mut fields = Vec::new();
            let message = pairs(&text, &mut fields);
            let mut again = message.to_owned();
            for field in &fields {
                let value = match &field.value {
                    Value::String(text) => text.to_string(),
                    Value::Int64(number) => number.to_string(),
                    Value::Double(number) => format!("{number:?}"),
                    Value::Boolean(truth) => truth.to_string(),
                    Value::Binary(bytes) => format!("{bytes:?}"),
                };
                again.push_str(&format!(" {}={value}", field.name));
            }
            let squeeze = |text: &str| text.replace([' ', '"'], "");
            prop_assert_eq!(squeeze(&again), squeeze(&text));
            prop_assert!(text.starts_with(message));
        }
    }
}
