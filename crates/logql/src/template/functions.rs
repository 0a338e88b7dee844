//! The functions of templates: those of Go, and those that Loki documents.

mod date;
mod print;

use super::LineContext;
use super::made::MadeText;
use super::value::{Printed, TemplateValue};
use crate::text;
use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine};
use daytable_platform::budget::{BoundedText, GroupName, TextResult};

/// A document of JSON takes this many bytes for each of its values, read and as values of a template.
const JSON_VALUE_BYTES: usize = 160;

/// How long the value of a function may be. Each function declares it, and a test holds each to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Growth {
    /// No longer than the line or an argument, or a number, a time and the like.
    Arguments,
    /// Longer, and made as a [`BoundedText`].
    Bounded,
    /// At most three times as long as its arguments.
    Triple,
    /// The values of a document, which are charged before it is read.
    Document,
}

const FUNCTIONS: [(&str, Growth); 85] = [
    ("__line__", Growth::Arguments),
    ("__timestamp__", Growth::Arguments),
    ("add", Growth::Arguments),
    ("addf", Growth::Arguments),
    ("alignLeft", Growth::Bounded),
    ("alignRight", Growth::Bounded),
    ("and", Growth::Arguments),
    ("b64dec", Growth::Triple),
    ("b64enc", Growth::Bounded),
    ("bytes", Growth::Arguments),
    ("ceil", Growth::Arguments),
    ("contains", Growth::Arguments),
    ("count", Growth::Arguments),
    ("date", Growth::Triple),
    ("default", Growth::Arguments),
    ("div", Growth::Arguments),
    ("divf", Growth::Arguments),
    ("duration", Growth::Arguments),
    ("duration_seconds", Growth::Arguments),
    ("eq", Growth::Arguments),
    ("float64", Growth::Arguments),
    ("floor", Growth::Arguments),
    ("fromJson", Growth::Document),
    ("ge", Growth::Arguments),
    ("gt", Growth::Arguments),
    ("hasPrefix", Growth::Arguments),
    ("hasSuffix", Growth::Arguments),
    ("html", Growth::Bounded),
    ("indent", Growth::Bounded),
    ("index", Growth::Arguments),
    ("int", Growth::Arguments),
    ("js", Growth::Bounded),
    ("le", Growth::Arguments),
    ("len", Growth::Arguments),
    ("lower", Growth::Bounded),
    ("lt", Growth::Arguments),
    ("max", Growth::Arguments),
    ("maxf", Growth::Arguments),
    ("min", Growth::Arguments),
    ("minf", Growth::Arguments),
    ("mod", Growth::Arguments),
    ("mul", Growth::Arguments),
    ("mulf", Growth::Arguments),
    ("ne", Growth::Arguments),
    ("nindent", Growth::Bounded),
    ("not", Growth::Arguments),
    ("now", Growth::Arguments),
    ("or", Growth::Arguments),
    ("print", Growth::Bounded),
    ("printf", Growth::Bounded),
    ("println", Growth::Bounded),
    ("regexReplaceAll", Growth::Bounded),
    ("regexReplaceAllLiteral", Growth::Bounded),
    ("repeat", Growth::Bounded),
    ("replace", Growth::Bounded),
    ("round", Growth::Arguments),
    ("slice", Growth::Arguments),
    ("sub", Growth::Arguments),
    ("subf", Growth::Arguments),
    ("substr", Growth::Arguments),
    ("title", Growth::Bounded),
    ("toDate", Growth::Arguments),
    ("toDateInZone", Growth::Arguments),
    ("trim", Growth::Arguments),
    ("trimAll", Growth::Arguments),
    ("trimPrefix", Growth::Arguments),
    ("trimSuffix", Growth::Arguments),
    ("trunc", Growth::Arguments),
    ("unixEpoch", Growth::Arguments),
    ("unixEpochMillis", Growth::Arguments),
    ("unixEpochNanos", Growth::Arguments),
    ("unixToTime", Growth::Arguments),
    ("upper", Growth::Bounded),
    ("urldecode", Growth::Triple),
    ("urlencode", Growth::Bounded),
    ("urlquery", Growth::Bounded),
    ("ToLower", Growth::Bounded),
    ("ToUpper", Growth::Bounded),
    ("Replace", Growth::Bounded),
    ("Trim", Growth::Arguments),
    ("TrimLeft", Growth::Arguments),
    ("TrimRight", Growth::Arguments),
    ("TrimPrefix", Growth::Arguments),
    ("TrimSuffix", Growth::Arguments),
    ("TrimSpace", Growth::Arguments),
];

/// The names of all functions.
#[cfg(test)]
pub(super) fn names() -> Vec<&'static str> {
    FUNCTIONS.map(|(name, _)| name).to_vec()
}

/// Whether templates have this function.
pub(super) fn exists(name: &str) -> bool {
    FUNCTIONS.iter().any(|(known, _)| *known == name)
}

/// Calls a function. Its value is charged.
pub(super) fn call(
    name: &str,
    arguments: Vec<TemplateValue>,
    context: &LineContext<'_>,
    made: &MadeText<'_>,
) -> Result<TemplateValue, String> {
    made.worked(arguments.iter().map(TemplateValue::bytes).sum())?;
    let value = value(name, arguments, context, made)?;
    made.charge(value.bytes())?;
    Ok(value)
}

fn value(
    name: &str,
    arguments: Vec<TemplateValue>,
    context: &LineContext<'_>,
    made: &MadeText<'_>,
) -> Result<TemplateValue, String> {
    let count = arguments.len();
    let wrong = |wanted: &str| Err(format!("wrong number of args for {name}: want {wanted} got {count}"));
    let text = |at: usize| arguments.get(at).map(TemplateValue::to_string).unwrap_or_default();
    let string = |value: String| Ok(TemplateValue::String(value.into()));
    let bounded = |make: &dyn Fn(&mut BoundedText<'_>) -> TextResult| {
        let mut text = made.text();
        make(&mut text).map_err(|refusal| made.refuse(refusal))?;
        string(text.finish())
    };
    match (name, arguments.as_slice()) {
        ("__line__", []) => string(context.line.to_owned()),
        ("__timestamp__", []) => Ok(TemplateValue::Time(context.time.into(), 0)),
        ("now", []) => Ok(TemplateValue::Time(context.now.into(), 0)),
        ("and" | "or", [.., last]) => Ok(last.clone()),
        ("not", [value]) => Ok(TemplateValue::Bool(!value.is_true())),
        ("eq", [first, others @ ..]) if !others.is_empty() => {
            for other in others {
                if order(first, other)? == Some(std::cmp::Ordering::Equal) {
                    return Ok(TemplateValue::Bool(true));
                }
            }
            Ok(TemplateValue::Bool(false))
        }
        ("ne" | "lt" | "le" | "gt" | "ge", [left, right]) => {
            let order = order(left, right)?;
            Ok(TemplateValue::Bool(match name {
                "ne" => order != Some(std::cmp::Ordering::Equal),
                "lt" => order.is_some_and(|order| order.is_lt()),
                "le" => order.is_some_and(|order| order.is_le()),
                "gt" => order.is_some_and(|order| order.is_gt()),
                _ => order.is_some_and(|order| order.is_ge()),
            }))
        }
        ("len", [value]) => Ok(TemplateValue::Int(match value {
            TemplateValue::String(text) => length(text.len()),
            TemplateValue::List(items) => length(items.len()),
            TemplateValue::Map(members) => length(members.len()),
            _ => return Err(format!("len of type {}", value.kind())),
        })),
        ("index", [value, keys @ ..]) => keys.iter().try_fold(value.clone(), |value, key| element(&value, key)),
        ("slice", [value, bounds @ ..]) => {
            let TemplateValue::String(text) = value else {
                return Err(format!("can't slice item of type {}", value.kind()));
            };
            // A bound below zero is out of range, as one beyond the end is.
            let bound = |n: &TemplateValue| usize::try_from(n.int()).unwrap_or(usize::MAX);
            let (from, to) = (bounds.first().map_or(0, bound), bounds.get(1).map_or(text.len(), bound));
            text.get(from..to).map(|part| TemplateValue::String(part.into())).ok_or("index out of range".into())
        }
        ("print" | "println", values) => bounded(&|printed| {
            for (at, value) in values.iter().enumerate() {
                let both_text = |other: &TemplateValue| {
                    matches!((value, other), (TemplateValue::String(_), _) | (_, TemplateValue::String(_)))
                };
                if at > 0 && (name == "println" || !both_text(&values[at - 1])) {
                    printed.push(' ')?;
                }
                printed.push_shown(Printed(value))?;
            }
            if name == "println" { printed.push('\n') } else { Ok(()) }
        }),
        ("printf", [format, values @ ..]) => {
            let mut text = made.text();
            print::formatted(&format.to_string(), values, &mut text).map_err(|error| match error {
                print::PrintError::Wrong(reason) => reason,
                print::PrintError::Refused(refusal) => made.refuse(refusal),
            })?;
            string(text.finish())
        }
        ("html", values) if !values.is_empty() => bounded(&|text| {
            escaped(values, text, |c| match c {
                '&' => Some("&amp;"),
                '<' => Some("&lt;"),
                '>' => Some("&gt;"),
                '"' => Some("&#34;"),
                '\'' => Some("&#39;"),
                _ => None,
            })
        }),
        ("js", values) if !values.is_empty() => bounded(&|text| {
            escaped(values, text, |c| match c {
                '\\' => Some("\\\\"),
                '\'' => Some("\\'"),
                '"' => Some("\\\""),
                '<' => Some("\\u003C"),
                '>' => Some("\\u003E"),
                '&' => Some("\\u0026"),
                '=' => Some("\\u003D"),
                _ => None,
            })
        }),
        ("urlencode" | "urlquery", values) if !values.is_empty() => {
            bounded(&|text| values.iter().try_for_each(|value| url_encoded(&value.to_string(), text)))
        }
        ("urldecode", [_]) => url_decoded(&text(0)).and_then(string),
        ("b64enc", [_]) => {
            let plain = text(0);
            bounded(&|encoded| {
                // Whole groups of three bytes encode to whole groups of four.
                plain.as_bytes().chunks(3 << 10).try_for_each(|part| encoded.push_str(&STANDARD.encode(part)))
            })
        }
        // A text that cannot be decoded is the reason, not an error.
        ("b64dec", [_]) => string(match STANDARD.decode(padded(&text(0))) {
            Ok(decoded) => String::from_utf8_lossy(&decoded).into_owned(),
            Err(DecodeError::InvalidByte(at, _)) => format!("illegal base64 data at input byte {at}"),
            Err(_) => format!("illegal base64 data at input byte {}", text(0).len() / 4 * 4),
        }),
        ("bytes", [_]) => text::go_size(&text(0)).map(TemplateValue::Float),
        ("duration" | "duration_seconds", [_]) => {
            text::go_duration(&text(0)).map(|nanos| TemplateValue::Float(nanos as f64 / text::SECOND as f64))
        }
        ("lower" | "ToLower", [_]) => bounded(&|made| cased(&text(0), made, lower)),
        ("upper" | "ToUpper", [_]) => bounded(&|made| cased(&text(0), made, upper)),
        ("title", [_]) => bounded(&|made| titled(&text(0), made)),
        ("trim" | "TrimSpace", [_]) => string(text(0).trim().to_owned()),
        ("trimAll", [_, _]) => string(text(1).trim_matches(|c| text(0).contains(c)).to_owned()),
        ("trimPrefix", [_, _]) => string(text(1).strip_prefix(text(0).as_str()).map_or_else(|| text(1), str::to_owned)),
        ("trimSuffix", [_, _]) => string(text(1).strip_suffix(text(0).as_str()).map_or_else(|| text(1), str::to_owned)),
        // The functions of Go's strings have the text first.
        ("Trim", [_, _]) => string(text(0).trim_matches(|c| text(1).contains(c)).to_owned()),
        ("TrimLeft", [_, _]) => string(text(0).trim_start_matches(|c| text(1).contains(c)).to_owned()),
        ("TrimRight", [_, _]) => string(text(0).trim_end_matches(|c| text(1).contains(c)).to_owned()),
        ("TrimPrefix", [_, _]) => string(text(0).strip_prefix(text(1).as_str()).map_or_else(|| text(0), str::to_owned)),
        ("TrimSuffix", [_, _]) => string(text(0).strip_suffix(text(1).as_str()).map_or_else(|| text(0), str::to_owned)),
        ("Replace", [_, _, _, limit]) => {
            let limit = usize::try_from(limit.int()).unwrap_or(usize::MAX);
            bounded(&|made| made.push_replaced(&text(0), &text(1), &text(2), limit))
        }
        ("replace", [_, _, _]) => bounded(&|made| made.push_replaced(&text(2), &text(0), &text(1), usize::MAX)),
        ("contains", [_, _]) => Ok(TemplateValue::Bool(text(1).contains(&text(0)))),
        ("hasPrefix", [_, _]) => Ok(TemplateValue::Bool(text(1).starts_with(&text(0)))),
        ("hasSuffix", [_, _]) => Ok(TemplateValue::Bool(text(1).ends_with(&text(0)))),
        ("default", [default, value]) => Ok(if value.is_true() { value.clone() } else { default.clone() }),
        ("count", [_, _]) => {
            let regex = crate::pattern_syntax::compile(&text(0))?;
            let searched = text(1);
            let mut found = 0;
            for _ in regex.find_iter(&searched) {
                found += 1;
                // Behind each match the rest may be read once more.
                made.worked(searched.len() >> 8)?;
            }
            Ok(TemplateValue::Int(found))
        }
        ("regexReplaceAll" | "regexReplaceAllLiteral", [_, _, _]) => {
            let regex = crate::pattern_syntax::compile(&text(0))?;
            let (searched, replacement) = (text(1), text(2));
            bounded(&|made| {
                let mut end = 0;
                for found in regex.captures_iter(&searched) {
                    let whole = found.get_match();
                    // Behind each match the rest may be read once more.
                    made.worked(searched.len() >> 8)?;
                    made.push_str(&searched[end..whole.start()])?;
                    if name == "regexReplaceAll" {
                        made.push_expanded(&replacement, |group| match group {
                            GroupName::Number(number) => found.get(number).map(|group| group.as_str()),
                            GroupName::Name(name) => found.name(name).map(|group| group.as_str()),
                        })?;
                    } else {
                        made.push_str(&replacement)?;
                    }
                    end = whole.end();
                }
                made.push_str(&searched[end..])
            })
        }
        ("substr", [from, to, _]) => {
            let value = text(2);
            let (from, to) = (from.int(), to.int());
            // Before the begin, the second number must be within the text; otherwise one too large is the end of it.
            let is_open = from >= 0 && (to < 0 || to > length(value.len()));
            let (start, end) = (from.max(0), if is_open { length(value.len()) } else { to });
            if start > end || end > length(value.len()) {
                return Err(format!("slice bounds out of range [{start}:{end}]"));
            }
            let (start, end) = (clamped(start), clamped(end));
            let (start, end) = (value.floor_char_boundary(start), value.floor_char_boundary(end));
            string(value.get(start..end).unwrap_or_default().to_owned())
        }
        ("trunc", [count, _]) => {
            let value = text(1);
            let count = count.int();
            string(match count {
                n if n < 0 && length(value.len()) + n > 0 => {
                    value[value.ceil_char_boundary(clamped(length(value.len()) + n))..].to_owned()
                }
                n if n >= 0 && length(value.len()) > n => value[..value.floor_char_boundary(clamped(n))].to_owned(),
                _ => value,
            })
        }
        ("alignLeft" | "alignRight", [count, _]) if count.int() < 0 => string(text(1)),
        ("alignLeft" | "alignRight", [count, _]) => {
            let (value, width) = (text(1), clamped(count.int()));
            let length = value.chars().count();
            bounded(&|made| match (name, length > width) {
                (_, false) if name == "alignLeft" => {
                    made.push_str(&value)?;
                    made.push_repeated(" ", width - length)
                }
                (_, false) => {
                    made.push_repeated(" ", width - length)?;
                    made.push_str(&value)
                }
                ("alignLeft", true) => made.extend(value.chars().take(width)),
                _ => made.extend(value.chars().skip(length - width)),
            })
        }
        ("indent" | "nindent", [count, _]) => {
            let (value, width) = (text(1), clamped(count.int()));
            bounded(&|made| {
                if name == "nindent" {
                    made.push('\n')?;
                }
                for (at, line) in value.split('\n').enumerate() {
                    if at > 0 {
                        made.push('\n')?;
                    }
                    made.push_repeated(" ", width)?;
                    made.push_str(line)?;
                }
                Ok(())
            })
        }
        ("repeat", [count, _]) if count.int() < 0 => Err("strings: negative Repeat count".into()),
        ("repeat", [count, _]) => bounded(&|made| made.push_repeated(&text(1), clamped(count.int()))),
        ("fromJson", [_]) => {
            let text = text(0);
            // Each value of a document but the first stands behind one of these.
            let values = text.bytes().filter(|byte| matches!(byte, b',' | b':' | b'[' | b'{')).count();
            made.charge(values.saturating_add(1).saturating_mul(JSON_VALUE_BYTES).saturating_add(text.len()))?;
            Ok(serde_json::from_str(&text).map_or(TemplateValue::Nil, TemplateValue::from_json))
        }
        ("add", values) => Ok(TemplateValue::Int(values.iter().fold(0, |sum, value| sum.wrapping_add(value.int())))),
        ("mul", [first, rest @ ..]) => {
            Ok(TemplateValue::Int(rest.iter().fold(first.int(), |n, value| n.wrapping_mul(value.int()))))
        }
        ("sub", [left, right]) => Ok(TemplateValue::Int(left.int().wrapping_sub(right.int()))),
        ("div" | "mod", [left, right]) => {
            let (left, right) = (left.int(), right.int());
            let result = if name == "div" { i64::wrapping_div } else { i64::wrapping_rem };
            if right == 0 { Err("integer divide by zero".into()) } else { Ok(TemplateValue::Int(result(left, right))) }
        }
        ("max", [first, rest @ ..]) => {
            Ok(TemplateValue::Int(rest.iter().fold(first.int(), |n, value| n.max(value.int()))))
        }
        ("min", [first, rest @ ..]) => {
            Ok(TemplateValue::Int(rest.iter().fold(first.int(), |n, value| n.min(value.int()))))
        }
        ("addf", values) => Ok(TemplateValue::Float(values.iter().map(TemplateValue::float).sum())),
        ("mulf", [first, rest @ ..]) => {
            Ok(TemplateValue::Float(rest.iter().fold(first.float(), |n, value| n * value.float())))
        }
        ("subf", [first, rest @ ..]) => {
            Ok(TemplateValue::Float(rest.iter().fold(first.float(), |n, value| n - value.float())))
        }
        ("divf", [_, rest @ ..]) if rest.iter().any(|value| value.float() == 0.0) => {
            Err("decimal division by 0".into())
        }
        ("divf", [first, rest @ ..]) => {
            Ok(TemplateValue::Float(rest.iter().fold(first.float(), |n, value| n / value.float())))
        }
        ("maxf", [first, rest @ ..]) => {
            Ok(TemplateValue::Float(rest.iter().fold(first.float(), |n, value| n.max(value.float()))))
        }
        ("minf", [first, rest @ ..]) => {
            Ok(TemplateValue::Float(rest.iter().fold(first.float(), |n, value| n.min(value.float()))))
        }
        ("ceil", [value]) => Ok(TemplateValue::Float(value.float().ceil())),
        ("floor", [value]) => Ok(TemplateValue::Float(value.float().floor())),
        ("round", [value, digits, ..]) => {
            let scale = 10f64.powi(i32::try_from(digits.int()).unwrap_or(0).clamp(-300, 300));
            let scaled = value.float() * scale;
            let up = arguments.get(2).map_or(0.5, TemplateValue::float);
            // As in Loki, the fraction of a number below zero is below zero too.
            let rounded = if scaled.fract() >= up { scaled.ceil() } else { scaled.floor() };
            Ok(TemplateValue::Float(rounded / scale))
        }
        ("float64", [value]) => Ok(TemplateValue::Float(value.float())),
        ("int", [value]) => Ok(TemplateValue::Int(value.int())),
        ("date", [_, time]) => string(date::format_value(&text(0), time)?),
        ("toDate", [_, _]) => Ok(date::parse_time(&text(0), &text(1), "UTC")),
        ("toDateInZone", [_, _, _]) => Ok(date::parse_time(&text(0), &text(2), &text(1))),
        ("unixToTime", [_]) => date::from_epoch(&text(0)),
        ("unixEpoch" | "unixEpochMillis" | "unixEpochNanos", [TemplateValue::Time(nanos, _)]) => string(
            match name {
                "unixEpoch" => nanos.div_euclid(text::SECOND.into()),
                "unixEpochMillis" => nanos.div_euclid(1_000_000),
                _ => *nanos,
            }
            .to_string(),
        ),
        ("unixEpoch" | "unixEpochMillis" | "unixEpochNanos", [other]) => {
            Err(format!("wrong type for value; expected time.Time; got {}", other.kind()))
        }
        _ => wrong("another number"),
    }
}

fn length(length: usize) -> i64 {
    i64::try_from(length).unwrap_or(i64::MAX)
}

fn clamped(number: i64) -> usize {
    usize::try_from(number.max(0)).unwrap_or(usize::MAX)
}

/// Adds values with some characters written in another way.
fn escaped(
    values: &[TemplateValue],
    to: &mut BoundedText<'_>,
    escape: impl Fn(char) -> Option<&'static str>,
) -> TextResult {
    for value in values {
        value.to_string().chars().try_for_each(|c| match escape(c) {
            Some(escaped) => to.push_str(escaped),
            None => to.push(c),
        })?;
    }
    Ok(())
}

/// Adds a text in another case.
fn cased(text: &str, to: &mut BoundedText<'_>, change: impl Fn(char) -> char) -> TextResult {
    to.extend(text.chars().map(change))
}

/// The capital letter. As in Go, a letter becomes one letter: `ß` stays.
fn upper(c: char) -> char {
    let mut letters = c.to_uppercase();
    letters.next().filter(|_| letters.len() == 0).unwrap_or(c)
}

/// The small letter. As in Go, a letter becomes one letter: marks that would follow are left out.
fn lower(c: char) -> char {
    c.to_lowercase().next().unwrap_or(c)
}

/// How two values compare. `None` for values without an order.
fn order(left: &TemplateValue, right: &TemplateValue) -> Result<Option<std::cmp::Ordering>, String> {
    match (left, right) {
        (TemplateValue::String(left), TemplateValue::String(right)) => Ok(Some(left.cmp(right))),
        (TemplateValue::Int(left), TemplateValue::Int(right)) => Ok(Some(left.cmp(right))),
        (TemplateValue::Float(left), TemplateValue::Float(right)) => Ok(left.partial_cmp(right)),
        (TemplateValue::Bool(left), TemplateValue::Bool(right)) => Ok(Some(left.cmp(right))),
        (TemplateValue::Time(left, _), TemplateValue::Time(right, _)) => Ok(Some(left.cmp(right))),
        (TemplateValue::Nil, TemplateValue::Nil) => Ok(Some(std::cmp::Ordering::Equal)),
        (TemplateValue::Nil, _) | (_, TemplateValue::Nil) => Ok(None),
        _ => Err("incompatible types for comparison".into()),
    }
}

fn element(value: &TemplateValue, key: &TemplateValue) -> Result<TemplateValue, String> {
    match (value, key) {
        (TemplateValue::List(items), TemplateValue::Int(at)) => usize::try_from(*at)
            .ok()
            .and_then(|at| items.get(at))
            .cloned()
            .ok_or_else(|| format!("index out of range: {at}")),
        (TemplateValue::Map(members), key) => {
            let key = key.to_string();
            Ok(members.iter().find(|(name, _)| *name == key).map_or(TemplateValue::Nil, |(_, value)| value.clone()))
        }
        (TemplateValue::String(text), TemplateValue::Int(at)) => {
            let byte = usize::try_from(*at).ok().and_then(|at| text.as_bytes().get(at));
            byte.map(|byte| TemplateValue::Int(i64::from(*byte))).ok_or_else(|| format!("index out of range: {at}"))
        }
        _ => Err(format!("can't index item of type {}", value.kind())),
    }
}

/// Base64 with the padding that people leave out.
fn padded(text: &str) -> String {
    let missing = [0, 0, 2, 1][text.len() % 4];
    format!("{text}{}", &"=="[..missing])
}

fn titled(text: &str, titled: &mut BoundedText<'_>) -> TextResult {
    let mut at_start = true;
    for c in text.chars() {
        if at_start {
            titled.extend(c.to_uppercase())?
        } else {
            titled.push(c)?
        }
        at_start = !(c.is_alphanumeric() || matches!(c, '_' | '\''));
    }
    Ok(())
}

fn url_encoded(text: &str, encoded: &mut BoundedText<'_>) -> TextResult {
    for byte in text.bytes() {
        match byte {
            b' ' => encoded.push('+')?,
            b'-' | b'_' | b'.' | b'~' => encoded.push(char::from(byte))?,
            _ if byte.is_ascii_alphanumeric() => encoded.push(char::from(byte))?,
            _ => encoded.push_shown(format_args!("%{byte:02X}"))?,
        }
    }
    Ok(())
}

fn url_decoded(text: &str) -> Result<String, String> {
    let (bytes, mut decoded, mut at) = (text.as_bytes(), Vec::with_capacity(text.len()), 0);
    while at < bytes.len() {
        match bytes[at] {
            b'+' => decoded.push(b' '),
            b'%' => {
                let hex = text.get(at + 1..at + 3).and_then(|hex| u8::from_str_radix(hex, 16).ok());
                decoded.push(hex.ok_or_else(|| format!("invalid URL escape in {text:?}"))?);
                at += 2;
            }
            byte => decoded.push(byte),
        }
        at += 1;
    }
    Ok(String::from_utf8_lossy(&decoded).into_owned())
}

#[cfg(test)]
mod tests;
