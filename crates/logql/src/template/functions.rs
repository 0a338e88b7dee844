//! The functions of templates: those of Go, and those that Loki documents.

mod date;
mod print;

use super::LineContext;
use super::value::TemplateValue;
use crate::text;
use base64::engine::general_purpose::STANDARD;
use base64::{DecodeError, Engine};

/// Characters that a function may make of one text.
const MADE_BYTES_MAX: usize = 1 << 20;

const NAMES: [&str; 85] = [
    "__line__",
    "__timestamp__",
    "add",
    "addf",
    "alignLeft",
    "alignRight",
    "and",
    "b64dec",
    "b64enc",
    "bytes",
    "ceil",
    "contains",
    "count",
    "date",
    "default",
    "div",
    "divf",
    "duration",
    "duration_seconds",
    "eq",
    "float64",
    "floor",
    "fromJson",
    "ge",
    "gt",
    "hasPrefix",
    "hasSuffix",
    "html",
    "indent",
    "index",
    "int",
    "js",
    "le",
    "len",
    "lower",
    "lt",
    "max",
    "maxf",
    "min",
    "minf",
    "mod",
    "mul",
    "mulf",
    "ne",
    "nindent",
    "not",
    "now",
    "or",
    "print",
    "printf",
    "println",
    "regexReplaceAll",
    "regexReplaceAllLiteral",
    "repeat",
    "replace",
    "round",
    "slice",
    "sub",
    "subf",
    "substr",
    "title",
    "toDate",
    "toDateInZone",
    "trim",
    "trimAll",
    "trimPrefix",
    "trimSuffix",
    "trunc",
    "unixEpoch",
    "unixEpochMillis",
    "unixEpochNanos",
    "unixToTime",
    "upper",
    "urldecode",
    "urlencode",
    "urlquery",
    "ToLower",
    "ToUpper",
    "Replace",
    "Trim",
    "TrimLeft",
    "TrimRight",
    "TrimPrefix",
    "TrimSuffix",
    "TrimSpace",
];

/// Whether templates have this function.
pub(super) fn exists(name: &str) -> bool {
    NAMES.contains(&name)
}

/// Calls a function.
pub(super) fn call(
    name: &str,
    arguments: Vec<TemplateValue>,
    context: &LineContext<'_>,
) -> Result<TemplateValue, String> {
    let count = arguments.len();
    let wrong = |wanted: &str| Err(format!("wrong number of args for {name}: want {wanted} got {count}"));
    let text = |at: usize| arguments.get(at).map(TemplateValue::to_string).unwrap_or_default();
    let string = |value: String| Ok(TemplateValue::String(value));
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
            let from = bounds.first().map_or(0, |n| clamped(n.int()));
            let to = bounds.get(1).map_or(text.len(), |n| clamped(n.int()));
            text.get(from..to).map(|part| TemplateValue::String(part.to_owned())).ok_or("index out of range".into())
        }
        ("print" | "println", values) => {
            let mut printed = String::new();
            for (at, value) in values.iter().enumerate() {
                let both_text = |other: &TemplateValue| {
                    matches!((value, other), (TemplateValue::String(_), _) | (_, TemplateValue::String(_)))
                };
                if at > 0 && (name == "println" || !both_text(&values[at - 1])) {
                    printed.push(' ');
                }
                printed += &value.to_string();
            }
            if name == "println" {
                printed.push('\n');
            }
            string(printed)
        }
        ("printf", [format, values @ ..]) => string(print::formatted(&format.to_string(), values)?),
        ("html", values) if !values.is_empty() => string(
            joined(values)
                .replace('&', "&amp;")
                .replace('<', "&lt;")
                .replace('>', "&gt;")
                .replace('"', "&#34;")
                .replace('\'', "&#39;"),
        ),
        ("js", values) if !values.is_empty() => string(
            joined(values)
                .replace('\\', "\\\\")
                .replace('\'', "\\'")
                .replace('"', "\\\"")
                .replace('<', "\\u003C")
                .replace('>', "\\u003E")
                .replace('&', "\\u0026")
                .replace('=', "\\u003D"),
        ),
        ("urlencode" | "urlquery", values) if !values.is_empty() => string(url_encoded(&joined(values))),
        ("urldecode", [_]) => url_decoded(&text(0)).map(TemplateValue::String),
        ("b64enc", [_]) => string(STANDARD.encode(text(0))),
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
        ("lower" | "ToLower", [_]) => string(text(0).to_lowercase()),
        ("upper" | "ToUpper", [_]) => string(text(0).to_uppercase()),
        ("title", [_]) => string(titled(&text(0))),
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
        ("Replace", [_, _, _, limit]) => string(match limit.int() {
            limit if limit < 0 => bounded(text(0).replace(&text(1), &text(2)))?,
            limit => bounded(text(0).replacen(&text(1), &text(2), clamped(limit)))?,
        }),
        ("replace", [_, _, _]) => string(bounded(text(2).replace(&text(0), &text(1)))?),
        ("contains", [_, _]) => Ok(TemplateValue::Bool(text(1).contains(&text(0)))),
        ("hasPrefix", [_, _]) => Ok(TemplateValue::Bool(text(1).starts_with(&text(0)))),
        ("hasSuffix", [_, _]) => Ok(TemplateValue::Bool(text(1).ends_with(&text(0)))),
        ("default", [default, value]) => Ok(if value.is_true() { value.clone() } else { default.clone() }),
        ("count", [_, _]) => {
            let regex = crate::pattern_syntax::compile(&text(0))?;
            Ok(TemplateValue::Int(length(regex.find_iter(&text(1)).count())))
        }
        ("regexReplaceAll" | "regexReplaceAllLiteral", [_, _, _]) => {
            let regex = crate::pattern_syntax::compile(&text(0))?;
            let replacement = text(2);
            string(bounded(match name {
                "regexReplaceAll" => regex.replace_all(&text(1), replacement.as_str()).into_owned(),
                _ => regex.replace_all(&text(1), regex::NoExpand(&replacement)).into_owned(),
            })?)
        }
        ("substr", [from, to, _]) => {
            let value = text(2);
            let (from, to) = (from.int(), to.int());
            let end = if to < 0 || to > length(value.len()) { value.len() } else { clamped(to) };
            let start = if from < 0 { 0 } else { clamped(from) };
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
        ("alignLeft" | "alignRight", [count, _]) => {
            let (value, width) = (text(1), clamped(count.int()).min(MADE_BYTES_MAX));
            let length = value.chars().count();
            string(match (name, length > width) {
                (_, false) if name == "alignLeft" => format!("{value}{}", " ".repeat(width - length)),
                (_, false) => format!("{}{value}", " ".repeat(width - length)),
                ("alignLeft", true) => value.chars().take(width).collect(),
                _ => value.chars().skip(length - width).collect(),
            })
        }
        ("indent" | "nindent", [count, _]) => {
            let value = text(1);
            let width = clamped(count.int());
            if width.saturating_mul(value.matches('\n').count() + 1) > MADE_BYTES_MAX {
                return Err("the text is too long".into());
            }
            let pad = " ".repeat(width);
            let newline = if name == "nindent" { "\n" } else { "" };
            string(format!("{newline}{pad}{}", value.replace('\n', &format!("\n{pad}"))))
        }
        ("repeat", [count, _]) => {
            let (value, count) = (text(1), clamped(count.int()));
            if value.len().saturating_mul(count) > MADE_BYTES_MAX {
                return Err("the text is too long".into());
            }
            string(value.repeat(count))
        }
        ("fromJson", [_]) => {
            Ok(serde_json::from_str(&text(0)).map_or(TemplateValue::String(String::new()), TemplateValue::from_json))
        }
        ("add", values) => Ok(TemplateValue::Int(values.iter().fold(0, |sum, value| sum.wrapping_add(value.int())))),
        ("mul", [first, rest @ ..]) => {
            Ok(TemplateValue::Int(rest.iter().fold(first.int(), |n, value| n.wrapping_mul(value.int()))))
        }
        ("sub", [left, right]) => Ok(TemplateValue::Int(left.int().wrapping_sub(right.int()))),
        ("div" | "mod", [left, right]) => {
            let (left, right) = (left.int(), right.int());
            let result = if name == "div" { left.checked_div(right) } else { left.checked_rem(right) };
            result.map(TemplateValue::Int).ok_or("integer divide by zero".into())
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

fn bounded(text: String) -> Result<String, String> {
    if text.len() > MADE_BYTES_MAX { Err("the text is too long".into()) } else { Ok(text) }
}

fn joined(values: &[TemplateValue]) -> String {
    values.iter().map(TemplateValue::to_string).collect()
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

fn titled(text: &str) -> String {
    let mut titled = String::with_capacity(text.len());
    let mut at_start = true;
    for c in text.chars() {
        if at_start {
            titled.extend(c.to_uppercase())
        } else {
            titled.push(c)
        }
        at_start = !(c.is_alphanumeric() || matches!(c, '_' | '\''));
    }
    titled
}

fn url_encoded(text: &str) -> String {
    use std::fmt::Write;
    let mut encoded = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            b' ' => encoded.push('+'),
            b'-' | b'_' | b'.' | b'~' => encoded.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => encoded.push(char::from(byte)),
            _ => {
                let _ = write!(encoded, "%{byte:02X}");
            }
        }
    }
    encoded
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
