//! `| logfmt`: pairs of `key=value` in a line.
//!
//! A pair that is malformed is passed over, or, if the stage is strict, an error ends the pairs.

use super::view::EntryView;
use crate::ast::LabelExtraction;
use crate::labels::label_name;
use std::borrow::Cow;

/// Gives the labels of `line` to `view`.
pub(super) fn extract(line: &str, strict: bool, keep_empty: bool, keys: &[LabelExtraction], view: &mut EntryView<'_>) {
    let mut wanted: Vec<Option<Cow<'_, str>>> = vec![None; keys.len()];
    for pair in (Pairs { line, at: 0 }) {
        match pair {
            Ok((key, value)) => {
                if keys.is_empty() {
                    let value = value.unwrap_or_default();
                    if !value.is_empty() || keep_empty {
                        view.extracted(&label_name(key), value);
                    }
                    continue;
                }
                for (extraction, found) in keys.iter().zip(&mut wanted) {
                    if extraction.source == key && found.is_none() {
                        *found = Some(value.clone().unwrap_or_default());
                    }
                }
            }
            Err(reason) if strict => {
                view.fail("LogfmtParserErr", &reason);
                return;
            }
            Err(_) => {}
        }
    }
    for (extraction, value) in keys.iter().zip(wanted) {
        view.extracted_or_empty(&extraction.label, value);
    }
}

/// The pairs of a line. A key alone has no value.
struct Pairs<'l> {
    line: &'l str,
    at: usize,
}

impl<'l> Iterator for Pairs<'l> {
    type Item = Result<(&'l str, Option<Cow<'l, str>>), String>;

    fn next(&mut self) -> Option<Self::Item> {
        let bytes = self.line.as_bytes();
        while bytes.get(self.at).is_some_and(|byte| *byte <= b' ') {
            self.at += 1;
        }
        let start = self.at;
        let end_of = |from: usize, stop: fn(u8) -> bool| {
            bytes[from..].iter().position(|byte| stop(*byte)).map_or(bytes.len(), |length| from + length)
        };
        bytes.get(start)?;
        let key_end = end_of(start, |byte| byte <= b' ' || byte == b'=' || byte == b'"');
        let key = &self.line[start..key_end];
        let malformed = |pairs: &mut Pairs<'l>, at: usize, what: &str| {
            // The rest of the word is part of the malformed pair.
            pairs.at = end_of(at + 1, |byte| byte <= b' ');
            Some(Err(format!("logfmt syntax error at pos {} : {what}", at + 1)))
        };
        match bytes.get(key_end) {
            Some(b'"') => return malformed(self, key_end, "unexpected '\"'"),
            Some(b'=') if key.is_empty() => return malformed(self, key_end, "unexpected '='"),
            Some(b'=') => {}
            _ => {
                self.at = key_end;
                return Some(Ok((key, None)));
            }
        }
        let value_start = key_end + 1;
        if bytes.get(value_start) == Some(&b'"') {
            let mut at = value_start + 1;
            let mut has_escapes = false;
            loop {
                match bytes.get(at) {
                    None => {
                        self.at = bytes.len();
                        return Some(Err(format!("logfmt syntax error at pos {} : unterminated quoted value", at + 1)));
                    }
                    Some(b'\\') => {
                        has_escapes = true;
                        at += 2;
                    }
                    Some(b'"') => break,
                    Some(_) => at += 1,
                }
            }
            self.at = at + 1;
            let raw = &self.line[value_start + 1..at];
            if !has_escapes {
                return Some(Ok((key, Some(raw.into()))));
            }
            return match super::json::unescaped(raw) {
                Some(value) => Some(Ok((key, Some(value.into())))),
                None => Some(Err(format!("logfmt syntax error at pos {} : invalid quoted value", value_start + 1))),
            };
        }
        let value_end = end_of(value_start, |byte| byte <= b' ' || byte == b'=' || byte == b'"');
        if let Some(found @ (b'=' | b'"')) = bytes.get(value_end) {
            let what = format!("unexpected '{}'", char::from(*found));
            return malformed(self, value_end, &what);
        }
        self.at = value_end;
        Some(Ok((key, Some(self.line[value_start..value_end].into()))))
    }
}
