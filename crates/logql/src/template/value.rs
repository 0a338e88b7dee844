//! The values of a template.

use crate::text;
use std::fmt;
use std::sync::Arc;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum TemplateValue {
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    /// Shared, because variables and arguments copy their values.
    String(Arc<str>),
    /// A point in time in nanoseconds since the epoch, and the offset of its zone in seconds.
    Time(i128, i32),
    List(Arc<[TemplateValue]>),
    /// Members in their order.
    Map(Arc<[(String, TemplateValue)]>),
    /// All labels of the entry, which are looked up by name.
    Labels,
}

impl TemplateValue {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            TemplateValue::Nil => "nil",
            TemplateValue::Bool(_) => "bool",
            TemplateValue::Int(_) => "int",
            TemplateValue::Float(_) => "float64",
            TemplateValue::String(_) => "string",
            TemplateValue::Time(..) => "time",
            TemplateValue::List(_) => "list",
            TemplateValue::Map(_) | TemplateValue::Labels => "map",
        }
    }

    /// Bytes of its texts, and of what holds them.
    pub(super) fn bytes(&self) -> usize {
        match self {
            TemplateValue::String(text) => text.len(),
            TemplateValue::List(items) => items.iter().map(|item| size_of::<TemplateValue>() + item.bytes()).sum(),
            TemplateValue::Map(members) => {
                let of_member =
                    |(name, value): &(String, TemplateValue)| size_of_val(name) + name.len() + value.bytes();
                members.iter().map(|member| size_of::<TemplateValue>() + of_member(member)).sum()
            }
            _ => 0,
        }
    }

    pub(super) fn is_true(&self) -> bool {
        match self {
            TemplateValue::Nil => false,
            TemplateValue::Bool(b) => *b,
            TemplateValue::Int(n) => *n != 0,
            TemplateValue::Float(n) => *n != 0.0,
            TemplateValue::String(text) => !text.is_empty(),
            TemplateValue::List(items) => !items.is_empty(),
            TemplateValue::Map(members) => !members.is_empty(),
            TemplateValue::Time(..) | TemplateValue::Labels => true,
        }
    }

    /// The elements of a list or a map, with their indexes or names.
    pub(super) fn items(&self) -> Result<Vec<(TemplateValue, TemplateValue)>, String> {
        match self {
            TemplateValue::Nil => Ok(Vec::new()),
            TemplateValue::List(items) => Ok((0..).map(TemplateValue::Int).zip(items.iter().cloned()).collect()),
            TemplateValue::Map(members) => {
                let mut members: Vec<_> = members.iter().collect();
                members.sort_by(|a, b| a.0.cmp(&b.0));
                Ok(members
                    .into_iter()
                    .map(|(name, value)| (TemplateValue::String(name.as_str().into()), value.clone()))
                    .collect())
            }
            TemplateValue::Int(n) => {
                Ok((0..(*n).clamp(0, 10_000)).map(|n| (TemplateValue::Int(n), TemplateValue::Int(n))).collect())
            }
            _ => Err(format!("range can't iterate over a {}", self.kind())),
        }
    }

    /// A whole number, as the functions of numbers read one: another text counts as 0.
    pub(super) fn int(&self) -> i64 {
        match self {
            TemplateValue::Int(n) => *n,
            TemplateValue::Float(n) => *n as i64,
            TemplateValue::Bool(b) => i64::from(*b),
            TemplateValue::String(text) => int_of(text).unwrap_or(0),
            _ => 0,
        }
    }

    /// A number; a text that is not a number counts as 0.
    pub(super) fn float(&self) -> f64 {
        match self {
            TemplateValue::Int(n) => *n as f64,
            TemplateValue::Float(n) => *n,
            TemplateValue::Bool(b) => f64::from(u8::from(*b)),
            TemplateValue::String(text) => text::parse_number(text.trim()).unwrap_or(0.0),
            _ => 0.0,
        }
    }

    /// The value of a JSON document.
    pub(super) fn from_json(json: serde_json::Value) -> TemplateValue {
        match json {
            serde_json::Value::Null => TemplateValue::Nil,
            serde_json::Value::Bool(b) => TemplateValue::Bool(b),
            serde_json::Value::Number(n) => TemplateValue::Float(n.as_f64().unwrap_or(f64::NAN)),
            serde_json::Value::String(text) => TemplateValue::String(text.into()),
            serde_json::Value::Array(items) => {
                TemplateValue::List(items.into_iter().map(TemplateValue::from_json).collect())
            }
            serde_json::Value::Object(members) => TemplateValue::Map(
                members.into_iter().map(|(name, value)| (name, TemplateValue::from_json(value))).collect(),
            ),
        }
    }
}

/// A number as Go prints one with `%v`: the shortest digits, with an exponent below 1e-4 and from 1e6 on.
pub(super) fn shown_float(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() || size == 0.0 || (1e-4..1e6).contains(&size) {
        return text::number(value);
    }
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

/// A whole number as the functions of numbers read a text: digits, behind a zero octal ones, a prefix for other bases; a
/// fraction is cut off.
fn int_of(text: &str) -> Option<i64> {
    let is_decimal = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let digits = match digits.split_once('.') {
        Some((whole, fraction)) if is_decimal(whole) && is_decimal(fraction) => whole,
        _ => digits,
    };
    let radix = match digits.as_bytes() {
        [b'0', b'x' | b'X', ..] => 16,
        [b'0', b'b' | b'B', ..] => 2,
        [b'0', b'o' | b'O', ..] => 8,
        [b'0', _, ..] => return i64::from_str_radix(&digits[1..], 8).ok().map(|n| if negative { -n } else { n }),
        _ => 10,
    };
    let digits = if radix == 10 { digits } else { digits.get(2..)? };
    let digits = digits.strip_prefix(['-', '+']).map_or(Some(digits), |_| None)?;
    let number = i128::from_str_radix(digits, radix).ok()?;
    i64::try_from(if negative { -number } else { number }).ok()
}

/// A value within another one, or as an argument that is printed: there, Go has another word for nothing.
pub(super) struct Printed<'v>(pub(super) &'v TemplateValue);

impl fmt::Display for Printed<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            TemplateValue::Nil => f.write_str("<nil>"),
            value => value.fmt(f),
        }
    }
}

impl fmt::Display for TemplateValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TemplateValue::Nil => f.write_str("<no value>"),
            TemplateValue::Bool(b) => b.fmt(f),
            TemplateValue::Int(n) => n.fmt(f),
            TemplateValue::Float(n) => f.write_str(&shown_float(*n)),
            TemplateValue::String(text) => f.write_str(text),
            TemplateValue::Time(nanos, zone) => {
                f.write_str(&super::go_time::format_time(*nanos, *zone, "2006-01-02 15:04:05.999999999 -0700 MST"))
            }
            TemplateValue::List(items) => {
                f.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    write!(f, "{}{}", if at > 0 { " " } else { "" }, Printed(item))?;
                }
                f.write_str("]")
            }
            TemplateValue::Map(members) => {
                let mut members: Vec<_> = members.iter().collect();
                members.sort_by(|a, b| a.0.cmp(&b.0));
                f.write_str("map[")?;
                for (at, (name, value)) in members.into_iter().enumerate() {
                    write!(f, "{}{name}:{}", if at > 0 { " " } else { "" }, Printed(value))?;
                }
                f.write_str("]")
            }
            TemplateValue::Labels => f.write_str("map[]"),
        }
    }
}
