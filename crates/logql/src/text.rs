//! Texts of the language: string literals as Go writes them, durations, sizes and numbers.

use std::borrow::Cow;
use std::fmt::Write;

/// Nanoseconds of a second.
pub const SECOND: i64 = 1_000_000_000;

/// A string literal in double quotes.
pub fn quoted(text: &str) -> String {
    let mut literal = String::with_capacity(text.len() + 2);
    literal.push('"');
    for c in text.chars() {
        match c {
            '"' => literal.push_str("\\\""),
            '\\' => literal.push_str("\\\\"),
            '\n' => literal.push_str("\\n"),
            '\r' => literal.push_str("\\r"),
            '\t' => literal.push_str("\\t"),
            c if u32::from(c) < 0x20 || c == '\x7f' => {
                let _ = write!(literal, "\\x{:02x}", u32::from(c));
            }
            c => literal.push(c),
        }
    }
    literal.push('"');
    literal
}

/// The text of a string literal in double quotes or backquotes that `text` begins with, and the length of the literal.
/// The error is the offset of what is wrong.
pub fn unquoted(text: &str) -> Result<(String, usize), usize> {
    if let Some(raw) = text.strip_prefix('`') {
        let end = raw.find('`').ok_or(text.len())?;
        return Ok((raw[..end].to_owned(), end + 2));
    }
    let quote = text.bytes().next().filter(|byte| matches!(byte, b'"' | b'\'')).ok_or(0usize)?;
    let bytes = text.as_bytes();
    let (mut at, mut value) = (1, Vec::new());
    loop {
        match *bytes.get(at).ok_or(text.len())? {
            b'\n' => return Err(at),
            byte if byte == quote => return Ok((String::from_utf8_lossy(&value).into_owned(), at + 1)),
            b'\\' => {
                let escape = *bytes.get(at + 1).ok_or(text.len())?;
                let number = |from: usize, digits: usize, radix: u32| {
                    text.get(from..from + digits).and_then(|digits| u32::from_str_radix(digits, radix).ok()).ok_or(at)
                };
                let length = match escape {
                    b'a' => push(&mut value, 7),
                    b'b' => push(&mut value, 8),
                    b't' => push(&mut value, b'\t'),
                    b'n' => push(&mut value, b'\n'),
                    b'v' => push(&mut value, 11),
                    b'f' => push(&mut value, 12),
                    b'r' => push(&mut value, b'\r'),
                    b'"' | b'\'' | b'\\' => push(&mut value, escape),
                    b'x' => {
                        value.push(u8::try_from(number(at + 2, 2, 16)?).map_err(|_| at)?);
                        4
                    }
                    b'0'..=b'7' => {
                        value.push(u8::try_from(number(at + 1, 3, 8)?).map_err(|_| at)?);
                        4
                    }
                    b'u' | b'U' => {
                        let digits = if escape == b'u' { 4 } else { 8 };
                        let c = char::from_u32(number(at + 2, digits, 16)?).ok_or(at)?;
                        value.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes());
                        2 + digits
                    }
                    _ => return Err(at),
                };
                at += length;
            }
            byte => {
                value.push(byte);
                at += 1;
            }
        }
    }
}

/// Adds the byte of an escape of two characters.
fn push(value: &mut Vec<u8>, byte: u8) -> usize {
    value.push(byte);
    2
}

/// A duration as Go writes it, in nanoseconds: `1h30m`, `-1.5s`, `300ms`. With `days`, also the units `d`, `w` and `y`
/// of Prometheus.
pub fn duration(text: &str, days: bool) -> Option<i64> {
    let (sign, mut rest) = match text.as_bytes().first()? {
        b'-' => (-1.0, &text[1..]),
        b'+' => (1.0, &text[1..]),
        _ => (1.0, text),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let (mut whole, mut fraction) = (0i64, 0.0);
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit() && c != '.')?;
        let unit_end = rest[digits..].find(|c: char| c.is_ascii_digit() || c == '.').map_or(rest.len(), |n| digits + n);
        let (number, unit) = (&rest[..digits], &rest[digits..unit_end]);
        let nanos: i64 = match unit {
            "ns" => 1,
            "us" | "µs" | "μs" => 1000,
            "ms" => 1_000_000,
            "s" => SECOND,
            "m" => 60 * SECOND,
            "h" => 3600 * SECOND,
            "d" if days => 86_400 * SECOND,
            "w" if days => 7 * 86_400 * SECOND,
            "y" if days => 365 * 86_400 * SECOND,
            _ => return None,
        };
        let (int, frac) = number.split_once('.').unwrap_or((number, ""));
        if int.is_empty() && frac.is_empty() || frac.contains('.') {
            return None;
        }
        let int: i64 = if int.is_empty() { 0 } else { int.parse().ok()? };
        whole = whole.checked_add(int.checked_mul(nanos)?)?;
        if !frac.is_empty() {
            fraction += format!("0.{frac}").parse::<f64>().ok()? * nanos as f64;
        }
        rest = &rest[unit_end..];
    }
    Some((whole.checked_add(fraction as i64)?) * sign as i64)
}

/// A duration in the largest units: `1h30m0s` becomes `1h30m`.
pub fn shown_duration(nanos: i64) -> String {
    if nanos == 0 {
        return "0s".into();
    }
    let mut text = String::new();
    if nanos < 0 {
        text.push('-');
    }
    let mut left = nanos.unsigned_abs();
    for (unit, name) in [
        (3_600_000_000_000, "h"),
        (60_000_000_000, "m"),
        (1_000_000_000, "s"),
        (1_000_000, "ms"),
        (1000, "µs"),
        (1, "ns"),
    ] {
        if left >= unit {
            let _ = write!(text, "{}{name}", left / unit);
            left %= unit;
        }
    }
    text
}

/// A size in bytes, as people write it: `99KB`, `1.5 MiB`, `12`.
pub fn size(text: &str) -> Option<f64> {
    let text = text.trim();
    let digits = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | ',')).unwrap_or(text.len());
    let number: f64 = text[..digits].replace(',', "").parse().ok()?;
    let unit = text[digits..].trim().to_ascii_lowercase();
    let exponent = |letter: char| "kmgtpe".find(letter).and_then(|at| i32::try_from(at + 1).ok());
    let factor = match unit.as_str() {
        "" | "b" => 1.0,
        unit => {
            let exponent = exponent(unit.chars().next()?)?;
            match unit.get(1..)? {
                "" | "b" => 1000f64.powi(exponent),
                "i" | "ib" => 1024f64.powi(exponent),
                _ => return None,
            }
        }
    };
    Some((number * factor).trunc())
}

/// A number as the answers of Loki have it: without an exponent, and as short as the value allows.
pub fn number(value: f64) -> String {
    if value.is_nan() {
        "NaN".into()
    } else if value.is_infinite() {
        if value > 0.0 { "+Inf".into() } else { "-Inf".into() }
    } else {
        value.to_string()
    }
}

/// A number as Go reads one: with digits, a fraction, an exponent, hexadecimal, or `Inf` and `NaN`.
pub fn parse_number(text: &str) -> Option<f64> {
    let (sign, digits) = match text.strip_prefix('-') {
        Some(rest) => (-1.0, rest),
        None => (1.0, text.strip_prefix('+').unwrap_or(text)),
    };
    if let Some(hex) = digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        return u64::from_str_radix(hex, 16).ok().map(|n| sign * n as f64);
    }
    if digits.starts_with(['-', '+']) {
        return None;
    }
    without_separators(digits)?.parse::<f64>().ok().map(|n| sign * n)
}

/// The digits of a number without the underscores between them; `None` if one stands elsewhere.
fn without_separators(digits: &str) -> Option<Cow<'_, str>> {
    if !digits.contains('_') {
        return Some(digits.into());
    }
    let is_digit = |at: Option<usize>| at.and_then(|at| digits.as_bytes().get(at)).is_some_and(u8::is_ascii_digit);
    let between = |at: usize| is_digit(at.checked_sub(1)) && is_digit(Some(at + 1));
    digits.match_indices('_').all(|(at, _)| between(at)).then(|| digits.replace('_', "").into())
}

/// A number as `strconv.ParseFloat` of Go reads one. The error has the text of Go, which answers show.
pub fn go_float(text: &str) -> Result<f64, String> {
    let wrong = |reason: &str| Err(format!("strconv.ParseFloat: parsing {}: {reason}", quoted(text)));
    let digits = text.strip_prefix(['-', '+']).unwrap_or(text);
    match without_separators(text).map(|text| text.parse::<f64>()) {
        None | Some(Err(_)) => wrong("invalid syntax"),
        Some(Ok(number)) if number.is_infinite() && !digits.starts_with(['i', 'I']) => wrong("value out of range"),
        Some(Ok(number)) => Ok(number),
    }
}

/// A duration as `time.ParseDuration` of Go reads one, in nanoseconds. The error has the text of Go.
pub fn go_duration(text: &str) -> Result<i64, String> {
    if let Some(nanos) = duration(text, false) {
        return Ok(nanos);
    }
    let mut rest = text.strip_prefix(['-', '+']).unwrap_or(text);
    let is_number = |c: char| c.is_ascii_digit() || c == '.';
    while rest.starts_with(is_number) && rest != "." {
        let unit = rest.trim_start_matches(is_number);
        let unit = &unit[..unit.find(is_number).unwrap_or(unit.len())];
        if unit.is_empty() {
            return Err(format!("time: missing unit in duration {}", quoted(text)));
        }
        if !["ns", "us", "µs", "μs", "ms", "s", "m", "h"].contains(&unit) {
            return Err(format!("time: unknown unit {} in duration {}", quoted(unit), quoted(text)));
        }
        rest = &rest.trim_start_matches(is_number)[unit.len()..];
    }
    Err(format!("time: invalid duration {}", quoted(text)))
}

/// A size in bytes; the error has the text that Loki shows.
pub fn go_size(text: &str) -> Result<f64, String> {
    size(text).ok_or_else(|| {
        let unit = text.find(|c: char| !c.is_ascii_digit() && !matches!(c, '.' | ',')).unwrap_or(text.len());
        match go_float(&text[..unit].replace(',', "")) {
            Err(reason) => reason,
            Ok(_) => format!("unhandled size name: {}", text[unit..].trim().to_lowercase()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn durations_and_sizes() {
        for (text, nanos) in [
            ("5m", Some(300 * SECOND)),
            ("1h30m", Some(5400 * SECOND)),
            ("1.5s", Some(1_500_000_000)),
            ("-2ms", Some(-2_000_000)),
            ("1d", Some(86_400 * SECOND)),
            ("0", Some(0)),
            ("5", None),
            ("m", None),
            ("", None),
            ("9999999999h", None),
        ] {
            assert_eq!(duration(text, true), nanos, "{text}");
        }
        assert_eq!(duration("1d", false), None);
        for (text, bytes) in [
            ("99KB", Some(99_000.0)),
            ("1KiB", Some(1024.0)),
            ("0.5kB", Some(500.0)),
            ("1 MB", Some(1e6)),
            ("12", Some(12.0)),
            ("3B", Some(3.0)),
            ("x", None),
            ("3q", None),
        ] {
            assert_eq!(size(text), bytes, "{text}");
        }
        assert_eq!((shown_duration(5_400_000_000_000), shown_duration(0)), ("1h30m".into(), "0s".into()));
    }

    #[test]
    fn errors_have_the_texts_of_go() {
        for (text, reason) in [
            ("x", r#"strconv.ParseFloat: parsing "x": invalid syntax"#),
            ("", r#"strconv.ParseFloat: parsing "": invalid syntax"#),
            ("1e999", r#"strconv.ParseFloat: parsing "1e999": value out of range"#),
        ] {
            assert_eq!(go_float(text), Err(reason.to_owned()));
        }
        for (text, reason) in [
            ("", r#"time: invalid duration """#),
            ("5", r#"time: missing unit in duration "5""#),
            ("1m5q", r#"time: unknown unit "q" in duration "1m5q""#),
            ("soon", r#"time: invalid duration "soon""#),
        ] {
            assert_eq!(go_duration(text), Err(reason.to_owned()));
        }
        assert_eq!(go_size("soon"), Err(r#"strconv.ParseFloat: parsing "": invalid syntax"#.to_owned()));
        assert_eq!(go_size("5 apples"), Err("unhandled size name: apples".to_owned()));
    }

    #[test]
    fn numbers_have_no_exponent() {
        for (value, text) in [(2.0, "2"), (0.1, "0.1"), (1e21, "1000000000000000000000"), (f64::INFINITY, "+Inf")] {
            assert_eq!(number(value), text);
        }
        assert_eq!((parse_number("0x1F"), parse_number("-1e3"), parse_number("1s")), (Some(31.0), Some(-1000.0), None));
    }

    proptest! {
        /// A quoted text is read back, and no text panics.
        #[test]
        fn literals_come_back(text in any::<String>(), wild in "[\"`\\\\'xuU0-9a-f\\PC]{0,20}") {
            let literal = quoted(&text);
            prop_assert_eq!(unquoted(&literal), Ok((text, literal.len())));
            let _ = (unquoted(&wild), duration(&wild, true), size(&wild), parse_number(&wild));
            let _ = (go_float(&wild), go_duration(&wild), go_size(&wild));
        }
    }
}
