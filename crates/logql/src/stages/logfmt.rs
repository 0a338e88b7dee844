//! `| logfmt`: pairs of `key=value` in a line.
//!
//! A pair that is malformed is passed over, or, if the stage is strict, an error ends the pairs.

use super::view::EntryView;
use crate::ast::LabelExtraction;
use crate::labels::label_name;
use std::borrow::Cow;

const ERROR_KIND: &str = "LogfmtParserErr";

/// Gives the labels of `line` that the query needs to `view`.
pub(super) fn extract(line: &str, strict: bool, keep_empty: bool, view: &mut EntryView<'_>) {
    for pair in Pairs::of(line) {
        match pair {
            Ok((key, value)) => {
                let value = value.unwrap_or_default();
                if !value.is_empty() || keep_empty {
                    view.extracted(&label_name(key), printable(value));
                    if view.is_complete() {
                        return;
                    }
                }
            }
            Err(reason) if strict => return view.fail_parsing(ERROR_KIND, Some(&reason)),
            Err(_) => {}
        }
    }
}

/// Gives the values of `keys` to `view`. Of two values of a key, the last stays.
pub(super) fn extract_keys(line: &str, strict: bool, keys: &[LabelExtraction], view: &mut EntryView<'_>) {
    for LabelExtraction { label, .. } in keys {
        view.not_extracted(label);
    }
    for pair in Pairs::of(line) {
        match pair {
            Ok((key, value)) => {
                let key = label_name(key);
                if let Some(extraction) = keys.iter().find(|extraction| extraction.source == key) {
                    let value = value.unwrap_or_default();
                    let is_odd = value.contains(char::REPLACEMENT_CHARACTER);
                    view.extracted_by_name(&extraction.label, if is_odd { "".into() } else { value });
                }
            }
            Err(reason) if strict => return view.fail_parsing(ERROR_KIND, Some(&reason)),
            Err(_) => {}
        }
    }
}

fn printable(value: Cow<'_, str>) -> Cow<'_, str> {
    match value.contains(char::REPLACEMENT_CHARACTER) {
        true => value.replace(char::REPLACEMENT_CHARACTER, " ").into(),
        false => value,
    }
}

/// The pairs of a line. A key alone has no value.
pub(crate) struct Pairs<'l> {
    line: &'l str,
    at: usize,
}

impl<'l> Pairs<'l> {
    pub(crate) fn of(line: &'l str) -> Pairs<'l> {
        Pairs { line, at: 0 }
    }
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
                        return Some(Err(format!(
                            "logfmt syntax error at pos {} : unterminated quoted value",
                            bytes.len() + 1
                        )));
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
            return match super::json::unescaped(raw, true) {
                Some(value) => Some(Ok((key, Some(value.into())))),
                None => Some(Err(format!("logfmt syntax error at pos {} : invalid quoted value", at + 2))),
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
