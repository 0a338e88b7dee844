//! `| json` and `| unpack`: members of the object that a line is.
//!
//! The walk reads as far as the query needs: labels that stand before a mistake are extracted, and the mistake is the
//! error of the entry, with the text that Loki gives. Numbers keep their digits. Objects within objects are flattened
//! (`request_method`), arrays are left out unless a path names an element.

use super::view::EntryView;
use crate::ast::{LabelExtraction, PathStep};
use crate::labels::label_name;
use std::borrow::Cow;

/// Objects and arrays within each other at most.
const DEPTH_MAX: usize = 64;

const ERROR_KIND: &str = "JSONParserErr";
const NO_OBJECT: &str = "Value looks like object, but can't find closing '}' symbol";
const NO_ARRAY: &str = "Value is array, but can't find closing ']' symbol";
const NO_STRING: &str = "Value is string, but can't find closing '\"' symbol";
const MALFORMED: &str = "Malformed JSON error";
const BAD_ESCAPE: &str = "Encountered an invalid escape sequence in a string";
const UNKNOWN: &str = "Unknown value type";

/// A value of JSON: its raw text, and its type.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Raw<'l> {
    /// The text between the quotes.
    String(&'l str),
    Object(&'l str),
    Array(&'l str),
    /// A number, `true` or `false`.
    Plain(&'l str),
    Null,
}

/// Why a walk ends early.
pub(crate) enum Halt {
    /// Nothing more is needed.
    Enough,
    Malformed(&'static str),
}

type Walk = Result<(), Halt>;

fn malformed<T>(reason: &'static str) -> Result<T, Halt> {
    Err(Halt::Malformed(reason))
}

/// Gives the members of `line` that the query needs to `view`.
pub(super) fn flatten(line: &str, view: &mut EntryView<'_>) {
    if let Err(Halt::Malformed(reason)) = flatten_object(line, "", 0, view) {
        view.fail_parsing(ERROR_KIND, Some(reason));
    }
}

fn flatten_object(object: &str, prefix: &str, depth: usize, view: &mut EntryView<'_>) -> Walk {
    if depth > DEPTH_MAX {
        return malformed(MALFORMED);
    }
    members(object, &mut |key, value| {
        let name = member_label(prefix, &key);
        if !view.worked(name.len()) {
            return Err(Halt::Enough);
        }
        match value {
            Raw::Object(inner) if view.wants_prefix(&name) => return flatten_object(inner, &name, depth + 1, view),
            Raw::Object(_) => return Ok(()),
            Raw::String(text) => view.extracted(&name, text_of(text)),
            Raw::Plain(text) => view.extracted(&name, text.into()),
            Raw::Array(_) | Raw::Null => {}
        }
        if view.is_complete() { Err(Halt::Enough) } else { Ok(()) }
    })
}

/// The label of a member of an object, whose own label is `prefix`.
fn member_label(prefix: &str, key: &str) -> String {
    if prefix.is_empty() {
        label_name(key)
    } else if key.trim().is_empty() {
        prefix.to_owned()
    } else {
        // Only the first character of the whole name must not be a digit.
        let key: String = key.trim().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '_' }).collect();
        format!("{prefix}_{key}")
    }
}

/// Takes the name of a member of the line, and the label, the name and the value of that member or of one within.
type EachValue<'e> = dyn FnMut(&str, &str, &str, Raw<'_>) + 'e;

/// Passes all members of a line on, and the members of objects within, whatever a query needs. False if the line is
/// malformed, or too deep.
pub(crate) fn each_value(line: &str, each: &mut EachValue<'_>) -> bool {
    fn of_object(object: &str, above: Option<(&str, &str)>, depth: usize, each: &mut EachValue<'_>) -> Walk {
        if depth > DEPTH_MAX {
            return malformed(MALFORMED);
        }
        members(object, &mut |key, value| {
            let name = member_label(above.map_or("", |(_, prefix)| prefix), &key);
            let first = above.map_or(&*key, |(first, _)| first);
            each(first, &name, &key, value);
            match value {
                Raw::Object(inner) => of_object(inner, Some((first, &name)), depth + 1, each),
                _ => Ok(()),
            }
        })
    }
    of_object(line, None, 0, each).is_ok()
}

/// The names that lead to the member of a line that `| json` makes this label of; `None` if no member becomes it.
pub fn path_of_label(line: &str, label: &str) -> Option<Vec<String>> {
    fn within(object: &str, prefix: &str, label: &str, depth: usize, path: &mut Vec<String>) -> bool {
        let mut is_found = false;
        let _ = members(object, &mut |key, value| {
            let name = member_label(prefix, &key);
            path.push(key.into_owned());
            is_found = match value {
                Raw::Object(inner) => {
                    depth < DEPTH_MAX && label.starts_with(&name) && within(inner, &name, label, depth + 1, path)
                }
                Raw::String(_) | Raw::Plain(_) => name == label,
                Raw::Array(_) | Raw::Null => false,
            };
            if is_found {
                return Err(Halt::Enough);
            }
            path.pop();
            Ok(())
        });
        is_found
    }
    let mut path = Vec::new();
    within(line, "", label, 0, &mut path).then_some(path)
}

/// Gives the values of `paths` to `view`.
pub(super) fn extract(line: &str, paths: &[LabelExtraction], view: &mut EntryView<'_>) {
    // Only the first character is checked: a path reads no further than it must.
    match line.as_bytes().first() {
        None => return,
        Some(b'{' | b'[' | b'"') => {}
        Some(_) => return view.fail_parsing(ERROR_KIND, None),
    }
    for LabelExtraction { label, path, .. } in paths {
        if !view.worked(line.len()) {
            return;
        }
        match follow(line, path) {
            Some(Raw::String(text) | Raw::Array(text) | Raw::Plain(text)) => {
                view.extracted_by_name(label, text_of(text));
            }
            Some(Raw::Object(text)) => view.extracted_by_name(label, text.into()),
            Some(Raw::Null) => view.extracted_by_name(label, "".into()),
            None => {}
        }
    }
    for LabelExtraction { label, .. } in paths {
        view.not_extracted(label);
    }
}

/// The value at a path. A path reads no further than its value: what stands behind may be malformed, or cut off.
fn follow<'l>(line: &'l str, path: &[PathStep]) -> Option<Raw<'l>> {
    let mut at = skip_space(line, 0);
    for step in path {
        let inner = line.get(at..)?;
        at += match step {
            PathStep::Member(name) => place_of_member(inner, name)?,
            PathStep::Index(index) => place_of_element(inner, *index)?,
        };
    }
    value_at(line, at).ok().map(|(value, _)| value)
}

/// Where the value of a member of an object begins.
fn place_of_member(object: &str, name: &str) -> Option<usize> {
    let bytes = object.as_bytes();
    let mut at = skip_space(object, usize::from(bytes.first() == Some(&b'{')));
    while at > 0 && bytes.get(at) == Some(&b'"') {
        let end = string_end(object, at).ok()?;
        let key = &object[at + 1..end - 1];
        let is_wanted = if key.contains('\\') { unescaped(key, false)? == name } else { key == name };
        at = skip_space(object, end);
        at = skip_space(object, (bytes.get(at) == Some(&b':')).then_some(at + 1)?);
        if is_wanted {
            return Some(at);
        }
        at = skip_space(object, value_at(object, at).ok()?.1);
        at = skip_space(object, (bytes.get(at) == Some(&b',')).then_some(at + 1)?);
    }
    None
}

/// Where an element of an array begins.
fn place_of_element(array: &str, index: usize) -> Option<usize> {
    let bytes = array.as_bytes();
    let mut at = skip_space(array, (bytes.first() == Some(&b'[')).then_some(1)?);
    for _ in 0..index {
        at = skip_space(array, value_at(array, at).ok()?.1);
        at = skip_space(array, (bytes.get(at) == Some(&b',')).then_some(at + 1)?);
    }
    (bytes.get(at) != Some(&b']')).then_some(at)
}

/// `| unpack`: text members become labels, and `_entry` becomes the line.
pub(super) fn unpack(view: &mut EntryView<'_>) {
    let line = view.line.clone();
    if line.is_empty() {
        return;
    }
    if !line.starts_with('{') {
        return view.fail_parsing(ERROR_KIND, Some("expecting json object(6), but it is not"));
    }
    let (mut pairs, mut packed) = (Vec::new(), None);
    let read = members(&line, &mut |key, value| {
        match value {
            Raw::String(text) if key == "_entry" => {
                packed = Some(unescaped(text, false).ok_or(Halt::Malformed(BAD_ESCAPE))?);
            }
            Raw::String(text) => pairs.push((key, text_of(text).into_owned())),
            _ => {}
        }
        Ok(())
    });
    if let Err(Halt::Malformed(reason)) = read {
        return view.fail_parsing(ERROR_KIND, Some(reason));
    }
    // An object that was not packed stays as it is.
    let Some(packed) = packed else { return };
    for (name, value) in pairs {
        view.extracted(&label_name(&name), value.into());
    }
    view.set_line(packed);
}

fn skip_space(text: &str, at: usize) -> usize {
    text.as_bytes()[at..]
        .iter()
        .position(|byte| !matches!(byte, b' ' | b'\t' | b'\n' | b'\r'))
        .map_or(text.len(), |n| at + n)
}

/// Calls `each` with the key and the value of each member of an object.
pub(crate) fn members<'l>(object: &'l str, each: &mut dyn FnMut(Cow<'l, str>, Raw<'l>) -> Walk) -> Walk {
    let bytes = object.as_bytes();
    let mut at = skip_space(object, 0);
    if bytes.get(at) != Some(&b'{') {
        return malformed(NO_OBJECT);
    }
    at = skip_space(object, at + 1);
    if at >= bytes.len() {
        return malformed(MALFORMED);
    }
    loop {
        match bytes.get(at) {
            Some(b'"') => {}
            // Behind a comma, too.
            Some(b'}') => return Ok(()),
            Some(_) => return malformed(NO_OBJECT),
            None => return malformed(NO_ARRAY),
        }
        let Ok(key_end) = string_end(object, at) else { return malformed(MALFORMED) };
        let key = &object[at + 1..key_end - 1];
        let key = if key.contains('\\') {
            unescaped(key, false).ok_or(Halt::Malformed(BAD_ESCAPE))?.into()
        } else {
            key.into()
        };
        at = skip_space(object, key_end);
        if bytes.get(at) != Some(&b':') {
            return malformed(MALFORMED);
        }
        let (value, end) = value_at(object, skip_space(object, at + 1)).map_err(Halt::Malformed)?;
        each(key, value)?;
        at = skip_space(object, end);
        match bytes.get(at) {
            Some(b',') => at = skip_space(object, at + 1),
            Some(b'}') => return Ok(()),
            Some(_) => return malformed(NO_OBJECT),
            None => return malformed(NO_ARRAY),
        }
    }
}

/// The end of the string that begins at `at`, behind its closing quote.
fn string_end(text: &str, at: usize) -> Result<usize, &'static str> {
    let bytes = text.as_bytes();
    let mut at = at + 1;
    loop {
        at += memchr::memchr2(b'"', b'\\', bytes.get(at..).ok_or(NO_STRING)?).ok_or(NO_STRING)?;
        if bytes[at] == b'"' {
            return Ok(at + 1);
        }
        at += 2;
    }
}

/// The value that begins at `at`, and its end.
fn value_at(text: &str, at: usize) -> Result<(Raw<'_>, usize), &'static str> {
    let bytes = text.as_bytes();
    match bytes.get(at) {
        None => Err(MALFORMED),
        Some(b'"') => {
            let end = string_end(text, at)?;
            Ok((Raw::String(&text[at + 1..end - 1]), end))
        }
        Some(open @ (b'{' | b'[')) => {
            let (close, unclosed) = if *open == b'{' { (b'}', NO_OBJECT) } else { (b']', NO_ARRAY) };
            let end = block_end(text, at, (*open, close)).ok_or(unclosed)?;
            let inner = &text[at..end];
            Ok((if *open == b'{' { Raw::Object(inner) } else { Raw::Array(inner) }, end))
        }
        Some(_) => {
            let stop = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
            let end = bytes[at..].iter().position(stop).map_or(bytes.len(), |length| at + length);
            let word = &text[at..end];
            match word {
                "null" => Ok((Raw::Null, end)),
                "true" | "false" => Ok((Raw::Plain(word), end)),
                _ if word.starts_with(|c: char| c == '-' || c.is_ascii_digit()) => Ok((Raw::Plain(word), end)),
                _ => Err(UNKNOWN),
            }
        }
    }
}

/// The end of the object or array that begins at `at`. Only brackets of its own kind count.
fn block_end(text: &str, at: usize, (open, close): (u8, u8)) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut depth) = (at, 0usize);
    loop {
        let byte = *bytes.get(at)?;
        if byte == b'"' {
            at = string_end(text, at).ok()?;
            continue;
        }
        at += 1;
        if byte == open {
            depth += 1;
        } else if byte == close {
            depth -= 1;
            if depth == 0 {
                return Some(at);
            }
        }
    }
}

/// The value of a string literal as a label has it: empty if an escape is invalid, and with spaces for U+FFFD.
fn text_of(raw: &str) -> Cow<'_, str> {
    let text = if raw.contains('\\') { Cow::Owned(unescaped(raw, false).unwrap_or_default()) } else { raw.into() };
    if text.contains(char::REPLACEMENT_CHARACTER) {
        return text.replace(char::REPLACEMENT_CHARACTER, " ").into();
    }
    text
}

/// The text between the quotes of a string literal of JSON; `None` if an escape is invalid. logfmt is
/// lenient: it knows `\'`, and a surrogate that stands alone becomes U+FFFD.
pub(crate) fn unescaped(raw: &str, is_lenient: bool) -> Option<String> {
    let (mut text, mut rest) = (String::with_capacity(raw.len()), raw);
    while let Some(at) = rest.find('\\') {
        text.push_str(&rest[..at]);
        let escape = rest.as_bytes().get(at + 1)?;
        let unit = |from: usize| rest.get(from..from + 4).and_then(|hex| u32::from_str_radix(hex, 16).ok());
        let mut length = 2;
        text.push(match escape {
            b'"' | b'\\' | b'/' => char::from(*escape),
            b'\'' if is_lenient => '\'',
            b'b' => '\x08',
            b'f' => '\x0c',
            b'n' => '\n',
            b'r' => '\r',
            b't' => '\t',
            b'u' => {
                length = 6;
                let first = unit(at + 2)?;
                let low = rest.get(at + 6..at + 8).filter(|next| *next == "\\u").and_then(|_| unit(at + 8));
                match (first, low) {
                    (0xd800..=0xdbff, Some(low @ 0xdc00..=0xdfff)) => {
                        length = 12;
                        char::from_u32(0x10000 + ((first - 0xd800) << 10) + (low - 0xdc00))?
                    }
                    _ => char::from_u32(first).or(is_lenient.then_some(char::REPLACEMENT_CHARACTER))?,
                }
            }
            _ => return None,
        });
        rest = &rest[at + length..];
    }
    text.push_str(rest);
    Some(text)
}

/// Reads a path: `a.b[0]["c d"]`.
pub(crate) fn parse_path(path: &str) -> Result<Vec<PathStep>, String> {
    let wrong = |at: &str| format!("{path:?} is not a path in JSON: unexpected {at:?}");
    let (mut steps, mut rest) = (Vec::new(), path.trim());
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            if inner.starts_with('"') {
                let (name, length) = crate::text::unquoted(inner).map_err(|_| wrong(rest))?;
                rest = inner[length..].strip_prefix(']').ok_or_else(|| wrong(rest))?;
                steps.push(PathStep::Member(name));
            } else {
                let (index, behind) = inner.split_once(']').ok_or_else(|| wrong(rest))?;
                steps.push(PathStep::Index(index.parse().map_err(|_| wrong(rest))?));
                rest = behind;
            }
            continue;
        }
        let behind = match rest.strip_prefix('.') {
            Some(behind) if !steps.is_empty() => behind,
            Some(_) => return Err(wrong(rest)),
            None if steps.is_empty() => rest,
            None => return Err(wrong(rest)),
        };
        let end = behind.find(['.', '[', ']', '"', ' ']).unwrap_or(behind.len());
        if end == 0 {
            return Err(wrong(rest));
        }
        steps.push(PathStep::Member(behind[..end].to_owned()));
        rest = &behind[end..];
    }
    if steps.is_empty() { Err(format!("{path:?} is not a path in JSON: it is empty")) } else { Ok(steps) }
}
