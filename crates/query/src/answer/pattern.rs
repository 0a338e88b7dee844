//! The pipes `extract`, `extract_regexp` and `format`: texts become columns, and columns a text.

use super::accumulator::plain_number;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use daytable_logsql::number::{Number, plain};
use daytable_logsql::template::{TemplatePart, parse_template};
use daytable_logsql::unit::{duration_nanos, show_duration};
use daytable_logsql::{FieldName, Fields};
use daytable_model::property::Property;
use daytable_model::time::{Ticks, UNIX_EPOCH_TICKS};
use daytable_platform::budget::{BoundedText, RECORD_BYTES_MAX, TextRefusal, TextResult};
use memchr::memmem::Finder;
use regex::Regex;
use std::borrow::Cow;

/// A prepared pattern of `extract` or `extract_regexp`.
pub(super) enum Extractor {
    Template(Vec<SoughtPart>),
    Regexp(Regex),
}

/// A part of a template, whose literal is looked for in many texts.
pub(super) struct SoughtPart {
    part: TemplatePart,
    literal: Finder<'static>,
}

impl SoughtPart {
    fn new(part: TemplatePart) -> SoughtPart {
        SoughtPart { literal: Finder::new(&part.literal).into_owned(), part }
    }

    /// What of a text is before the first place with the literal, and what is behind it.
    fn split<'t>(&self, text: &'t str) -> Option<(&'t str, &'t str)> {
        let at = self.literal.find(text.as_bytes())?;
        // A whole text is found in a text where its characters are.
        Some((text.get(..at)?, text.get(at + self.part.literal.len()..)?))
    }
}

impl Extractor {
    /// Prepares a pattern, which the parser has checked.
    pub(super) fn template(pattern: &str) -> Extractor {
        let parts = parse_template(pattern, true).unwrap_or_default();
        Extractor::Template(parts.into_iter().map(SoughtPart::new).collect())
    }

    /// Prepares a regular expression, which the parser has checked.
    pub(super) fn regexp(pattern: &str) -> Extractor {
        Extractor::Regexp(Extractor::checked_regex(pattern))
    }

    /// A regular expression that the parser has checked.
    pub(super) fn checked_regex(pattern: &str) -> Regex {
        daytable_logsql::regexp_of_parts(pattern).expect("the parser refuses a wrong regular expression")
    }

    /// The columns that the pattern names.
    pub(super) fn names(&self) -> Vec<FieldName> {
        match self {
            Extractor::Template(parts) => {
                parts.iter().filter_map(|part| part.part.name.as_deref()).map(FieldName::new).collect()
            }
            Extractor::Regexp(regex) => regex.capture_names().flatten().map(FieldName::new).collect(),
        }
    }

    /// The values of the columns in a text, in the order of the names; empty where the pattern does not match.
    /// `room` has room for all of them together.
    pub(super) fn extract(&self, text: &str, room: &mut BoundedText<'_>) -> Result<Vec<String>, TextRefusal> {
        match self {
            // These are parts of the text one behind the other.
            Extractor::Template(parts) => Ok(extract(parts, text)),
            Extractor::Regexp(regex) => {
                let found = regex.captures(text);
                let mut left = RECORD_BYTES_MAX;
                let one = |(group, _): (usize, Option<&str>)| {
                    let value = found.as_ref().and_then(|found| found.get(group)).map_or("", |found| found.as_str());
                    room.worked(value.len())?;
                    left = left.checked_sub(value.len()).ok_or(TextRefusal::TooLong(RECORD_BYTES_MAX))?;
                    Ok(value.to_owned())
                };
                regex.capture_names().enumerate().filter(|(_, name)| name.is_some()).map(one).collect()
            }
        }
    }
}

fn extract(parts: &[SoughtPart], text: &str) -> Vec<String> {
    let count = parts.iter().filter(|part| part.part.name.is_some()).count();
    let mut values = Vec::with_capacity(count);
    let mut rest = parts.first().and_then(|first| first.split(text)).map(|(_, rest)| rest);
    for (at, SoughtPart { part, .. }) in parts.iter().enumerate() {
        let Some(left) = rest else { break };
        let next = parts.get(at + 1).filter(|next| !next.part.literal.is_empty());
        let quoted = if part.option.as_deref() == Some("plain") { None } else { unquoted(left) };
        let value = match (quoted, next) {
            (Some((value, length)), next) => {
                rest = left[length..].strip_prefix(next.map_or("", |next| &next.part.literal));
                value.into()
            }
            (None, None) => {
                rest = None;
                Cow::Borrowed(left)
            }
            (None, Some(next)) => match next.split(left) {
                Some((value, behind)) => {
                    rest = Some(behind);
                    value.into()
                }
                None => break,
            },
        };
        if part.name.is_some() {
            values.push(value.into_owned());
        }
    }
    values.resize(count, String::new());
    values
}

/// The content of a quoted text at the start, and its length with the quotes.
fn unquoted(text: &str) -> Option<(String, usize)> {
    if let Some(rest) = text.strip_prefix('`') {
        let end = rest.find('`')?;
        return Some((rest[..end].to_owned(), end + 2));
    }
    if !text.starts_with('"') {
        return None;
    }
    let mut values = serde_json::Deserializer::from_str(text).into_iter::<String>();
    let value = values.next()?.ok()?;
    Some((value, values.byte_offset()))
}

/// A byte of a text in the query of a URL.
fn url_encoded(byte: u8) -> String {
    match byte {
        b' ' => "+".into(),
        b'-' | b'_' | b'.' | b'~' => char::from(byte).into(),
        byte if byte.is_ascii_alphanumeric() => char::from(byte).into(),
        byte => format!("%{byte:02X}"),
    }
}

/// The bytes of a query of a URL; what is not an escape stays.
fn url_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, after @ ..] = rest {
        rest = after;
        match (first, after) {
            (b'+', _) => bytes.push(b' '),
            (b'%', [high, low, after @ ..]) if high.is_ascii_hexdigit() && low.is_ascii_hexdigit() => {
                bytes.extend(hex_byte(*high, *low));
                rest = after;
            }
            _ => bytes.push(*first),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The byte of two hexadecimal digits.
fn hex_byte(high: u8, low: u8) -> Option<u8> {
    let digit = |digit: u8| char::from(digit).to_digit(16);
    u8::try_from(digit(high)? << 4 | digit(low)?).ok()
}

/// The text of hexadecimal digits. Pairs of other characters stay.
fn hex_decoded(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len() / 2);
    for pair in text.as_bytes().chunks(2) {
        match pair {
            [high, low] if hex_byte(*high, *low).is_some() => bytes.extend(hex_byte(*high, *low)),
            _ => bytes.extend(pair),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// The time of a Unix timestamp in seconds, milliseconds, microseconds or nanoseconds, told apart by its size.
fn unix_time(stamp: Number) -> Option<Ticks> {
    let size = stamp.as_f64().abs();
    let second = f64::from(u32::MAX);
    let nanos = [(second, 1e9), (second * 1e3, 1e6), (second * 1e6, 1e3), (f64::INFINITY, 1.0)];
    let (_, nanos) = nanos.into_iter().find(|(most, _)| size < *most)?;
    let ticks = match stamp {
        Number::Whole(n) => n.checked_mul(nanos as i64)?.div_euclid(100),
        Number::Float(n) => (n * (nanos / 100.0)).floor() as i64,
    };
    Ticks::new(ticks.checked_add(UNIX_EPOCH_TICKS)?)
}

/// The seconds of a text that is a duration.
fn seconds(text: &str) -> Option<f64> {
    let nanos = if plain(text).is_none() { duration_nanos(text)? } else { return None };
    Some(nanos as f64 / 1e9)
}

/// A prepared pattern of `format`: its parts, each with the field whose value follows it.
pub(super) struct FormatPattern(Vec<(TemplatePart, Option<FieldName>)>);

impl FormatPattern {
    /// Prepares a pattern, which the parser has checked.
    pub(super) fn new(pattern: &str) -> FormatPattern {
        let with_field = |part: TemplatePart| {
            let field = part.name.as_deref().map(FieldName::new);
            (part, field)
        };
        FormatPattern(parse_template(pattern, false).unwrap_or_default().into_iter().map(with_field).collect())
    }

    /// Writes the text that the pattern gives for a row.
    pub(super) fn write(&self, row: &impl Fields, text: &mut BoundedText<'_>) -> TextResult {
        for (part, field) in &self.0 {
            text.push_str(&part.literal)?;
            if let Some(field) = field {
                let value = row.field(field).unwrap_or(Property::String(""));
                push_formatted(value, part.option.as_deref(), text)?;
            }
        }
        Ok(())
    }
}

/// Adds a value as an option of `format` shows it. What the option cannot change stays as it is.
fn push_formatted(value: Property<'_>, option: Option<&str>, text: &mut BoundedText<'_>) -> TextResult {
    let shown = value.text();
    let whole = || match plain_number(value)? {
        Number::Whole(number) => Some(number),
        Number::Float(_) => None,
    };
    match option {
        Some("q") => quoted(&shown, text)?,
        Some("uc") => text.push_str(&shown.to_uppercase())?,
        Some("lc") => text.push_str(&shown.to_lowercase())?,
        Some("duration") => match whole() {
            Some(nanos) => text.push_str(&show_duration(nanos))?,
            None => text.push_str(&shown)?,
        },
        Some("urlencode") => shown.bytes().try_for_each(|byte| text.push_str(&url_encoded(byte)))?,
        Some("urldecode") => text.push_str(&url_decoded(&shown))?,
        Some("hexencode") => shown.bytes().try_for_each(|byte| text.push_shown(format_args!("{byte:02X}")))?,
        Some("hexdecode") => text.push_str(&hex_decoded(&shown))?,
        Some("hexnumencode") => match shown.parse::<u64>() {
            Ok(number) => text.push_str(&format!("{number:016X}"))?,
            Err(_) => text.push_str(&shown)?,
        },
        // The parser of numbers takes a sign, too.
        Some("hexnumdecode") => match u64::from_str_radix(&shown, 16) {
            Ok(number) if !shown.starts_with('+') => text.push_str(&number.to_string())?,
            _ => text.push_str(&shown)?,
        },
        // Whole groups of three bytes encode to whole groups of four.
        Some("base64encode") => {
            let mut parts = shown.as_bytes().chunks(3 << 10);
            parts.try_for_each(|part| text.push_str(&BASE64_STANDARD.encode(part)))?;
        }
        Some("base64decode") => match BASE64_STANDARD.decode(&*shown) {
            Ok(bytes) => text.push_str(&String::from_utf8_lossy(&bytes))?,
            Err(_) => text.push_str(&shown)?,
        },
        Some("duration_seconds") => match seconds(&shown) {
            Some(seconds) => text.push_str(&seconds.to_string())?,
            None => text.push_str(&shown)?,
        },
        Some("time") => {
            let ticks = plain_number(value).and_then(unix_time);
            text.push_str(&ticks.map_or_else(|| shown.to_string(), |time| time.to_string()))?;
        }
        Some("ipv4") => match whole().and_then(|number| u32::try_from(number).ok()) {
            Some(address) => text.push_str(&std::net::Ipv4Addr::from(address).to_string())?,
            None => text.push_str(&shown)?,
        },
        _ => text.push_str(&shown)?,
    }
    Ok(())
}

/// Adds a text as a string of JSON, which is at most six times as long.
fn quoted(shown: &str, text: &mut BoundedText<'_>) -> TextResult {
    text.push('"')?;
    let mut buffer = [0; 4];
    for c in shown.chars() {
        match c {
            '"' | '\\' | '\0'..='\x1f' => {
                let escaped = serde_json::Value::from(&*c.encode_utf8(&mut buffer)).to_string();
                text.push_str(&escaped[1..escaped.len() - 1])?;
            }
            c => text.push(c)?,
        }
    }
    text.push('"')
}
