//! `printf`, as Go formats.

use crate::template::value::{Printed, TemplateValue};
use daytable_platform::budget::{BoundedText, TextRefusal};
use std::iter::Peekable;
use std::slice::Iter;
use std::str::Chars;

/// The width and precision of a value at most.
const WIDTH_MAX: usize = 10_000;

/// A width or a precision: digits, or `*` for the next value.
fn size(chars: &mut Peekable<Chars<'_>>, values: &mut Iter<'_, TemplateValue>) -> Option<usize> {
    if chars.next_if_eq(&'*').is_some() {
        return values.next().map(|value| usize::try_from(value.int()).unwrap_or(0));
    }
    let mut digits = String::new();
    while let Some(digit) = chars.next_if(char::is_ascii_digit) {
        digits.push(digit);
    }
    (!digits.is_empty()).then(|| digits.parse().unwrap_or(WIDTH_MAX))
}

/// Why values are not formatted.
pub(super) enum PrintError {
    Wrong(String),
    Refused(TextRefusal),
}

impl From<TextRefusal> for PrintError {
    fn from(refusal: TextRefusal) -> PrintError {
        PrintError::Refused(refusal)
    }
}

/// Formats values.
pub(super) fn formatted(format: &str, values: &[TemplateValue], out: &mut BoundedText<'_>) -> Result<(), PrintError> {
    let mut values = values.iter();
    let (mut chars, mut is_extra) = (format.chars().peekable(), false);
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c)?;
            continue;
        }
        let mut flags = String::new();
        while let Some(flag) = chars.next_if(|c| matches!(c, '-' | '+' | '#' | '0' | ' ')) {
            flags.push(flag);
        }
        let width = size(&mut chars, &mut values);
        let has_precision = chars.next_if_eq(&'.').is_some();
        let precision = if has_precision { Some(size(&mut chars, &mut values).unwrap_or(0)) } else { None };
        if width.max(precision).is_some_and(|size| size > WIDTH_MAX) {
            return Err(PrintError::Wrong(format!("a width exceeds {WIDTH_MAX}")));
        }
        let Some(verb) = chars.next() else {
            out.push_str("%!(NOVERB)")?;
            break;
        };
        if verb == '%' {
            out.push('%')?;
            continue;
        }
        let Some(value) = values.next() else {
            out.push_shown(format_args!("%!{verb}(MISSING)"))?;
            continue;
        };
        // A converted value is at most some ten times as long as the value.
        out.worked(value.bytes())?;
        let text = converted(verb, value, &flags, precision);
        let padding = width.unwrap_or(0).saturating_sub(text.chars().count());
        if flags.contains('-') {
            out.push_str(&text)?;
            out.push_repeated(" ", padding)?;
        } else if flags.contains('0') && verb != 's' && verb != 'q' {
            let (sign, digits) = match text.strip_prefix(['-', '+']) {
                Some(digits) => text.split_at(text.len() - digits.len()),
                None => ("", text.as_str()),
            };
            out.push_str(sign)?;
            out.push_repeated("0", padding)?;
            out.push_str(digits)?;
        } else {
            out.push_repeated(" ", padding)?;
            out.push_str(&text)?;
        }
    }
    for (at, value) in values.enumerate() {
        out.push_str(if at == 0 { "%!(EXTRA " } else { ", " })?;
        match value {
            TemplateValue::Nil => out.push_str("<nil>")?,
            value => out.push_shown(format_args!("{}={value}", value.kind()))?,
        }
        is_extra = true;
    }
    if is_extra { Ok(out.push(')')?) } else { Ok(()) }
}

fn converted(verb: char, value: &TemplateValue, flags: &str, precision: Option<usize>) -> String {
    let plus = |text: String| {
        if flags.contains('+') && !text.starts_with('-') {
            format!("+{text}")
        } else if flags.contains(' ') && !text.starts_with('-') {
            format!(" {text}")
        } else {
            text
        }
    };
    let cut = |text: String| precision.map_or_else(|| text.clone(), |length| text.chars().take(length).collect());
    match (verb, value) {
        ('v', TemplateValue::Int(_) | TemplateValue::Float(_)) => plus(value.to_string()),
        ('v' | 's', TemplateValue::String(_)) => cut(value.to_string()),
        ('v', _) => Printed(value).to_string(),
        ('s', TemplateValue::Nil) => "%!s(<nil>)".into(),
        ('s', TemplateValue::List(_) | TemplateValue::Map(_) | TemplateValue::Time(..)) => value.to_string(),
        ('q', TemplateValue::String(text)) => crate::text::quoted(&cut(text.to_string())),
        ('d', TemplateValue::Int(n)) => plus(n.to_string()),
        ('x', TemplateValue::Int(n)) => format!("{n:x}"),
        ('X', TemplateValue::Int(n)) => format!("{n:X}"),
        ('o', TemplateValue::Int(n)) => format!("{n:o}"),
        ('b', TemplateValue::Int(n)) => format!("{n:b}"),
        ('c', TemplateValue::Int(n)) => {
            u32::try_from(*n).ok().and_then(char::from_u32).unwrap_or('\u{fffd}').to_string()
        }
        ('x', TemplateValue::String(text)) => text.bytes().map(|byte| format!("{byte:02x}")).collect(),
        ('f' | 'F', TemplateValue::Float(n)) => plus(format!("{n:.*}", precision.unwrap_or(6))),
        ('e', TemplateValue::Float(n)) => {
            let text = format!("{n:.*e}", precision.unwrap_or(6));
            let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
            let exponent: i32 = exponent.parse().unwrap_or(0);
            plus(format!("{digits}e{}{:02}", if exponent < 0 { '-' } else { '+' }, exponent.abs()))
        }
        ('g', TemplateValue::Float(n)) => plus(super::super::value::shown_float(*n)),
        ('t', TemplateValue::Bool(b)) => b.to_string(),
        _ => format!("%!{verb}({}={value})", value.kind()),
    }
}
