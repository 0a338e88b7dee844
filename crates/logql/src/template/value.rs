//! The values of a template.

use crate::text;
use std::fmt;

/// A value.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Value {
    Nil,
    Bool(bool),
    Int(i64),
    Float(f64),
    String(String),
    /// A point in time in nanoseconds since the epoch, and the offset of its zone in seconds.
    Time(i64, i32),
    List(Vec<Value>),
    /// Members in their order.
    Map(Vec<(String, Value)>),
    /// All labels of the entry, which are looked up by name.
    Labels,
}

impl Value {
    pub(super) fn kind(&self) -> &'static str {
        match self {
            Value::Nil => "nil",
            Value::Bool(_) => "bool",
            Value::Int(_) => "int",
            Value::Float(_) => "float64",
            Value::String(_) => "string",
            Value::Time(..) => "time",
            Value::List(_) => "list",
            Value::Map(_) | Value::Labels => "map",
        }
    }

    pub(super) fn is_true(&self) -> bool {
        match self {
            Value::Nil => false,
            Value::Bool(b) => *b,
            Value::Int(n) => *n != 0,
            Value::Float(n) => *n != 0.0,
            Value::String(text) => !text.is_empty(),
            Value::List(items) => !items.is_empty(),
            Value::Map(members) => !members.is_empty(),
            Value::Time(..) | Value::Labels => true,
        }
    }

    /// The elements of a list or a map, with their indexes or names.
    pub(super) fn items(&self) -> Result<Vec<(Value, Value)>, String> {
        match self {
            Value::Nil => Ok(Vec::new()),
            Value::List(items) => Ok((0..).map(Value::Int).zip(items.iter().cloned()).collect()),
            Value::Map(members) => {
                let mut members: Vec<_> = members.iter().collect();
                members.sort_by(|a, b| a.0.cmp(&b.0));
                Ok(members.into_iter().map(|(name, value)| (Value::String(name.clone()), value.clone())).collect())
            }
            Value::Int(n) => Ok((0..(*n).clamp(0, 10_000)).map(|n| (Value::Int(n), Value::Int(n))).collect()),
            _ => Err(format!("range can't iterate over a {}", self.kind())),
        }
    }

    /// A whole number, as the functions of numbers read one: a text that is none counts as 0.
    pub(super) fn int(&self) -> i64 {
        match self {
            Value::Int(n) => *n,
            Value::Float(n) => *n as i64,
            Value::Bool(b) => i64::from(*b),
            Value::String(text) => {
                let text = text.trim();
                text.parse().unwrap_or_else(|_| text::parse_number(text).map_or(0, |n| n as i64))
            }
            _ => 0,
        }
    }

    /// A number; a text that is none counts as 0.
    pub(super) fn float(&self) -> f64 {
        match self {
            Value::Int(n) => *n as f64,
            Value::Float(n) => *n,
            Value::Bool(b) => f64::from(u8::from(*b)),
            Value::String(text) => text::parse_number(text.trim()).unwrap_or(0.0),
            _ => 0.0,
        }
    }

    /// The value of a JSON document.
    pub(super) fn from_json(json: serde_json::Value) -> Value {
        match json {
            serde_json::Value::Null => Value::Nil,
            serde_json::Value::Bool(b) => Value::Bool(b),
            serde_json::Value::Number(n) => Value::Float(n.as_f64().unwrap_or(f64::NAN)),
            serde_json::Value::String(text) => Value::String(text),
            serde_json::Value::Array(items) => Value::List(items.into_iter().map(Value::from_json).collect()),
            serde_json::Value::Object(members) => {
                Value::Map(members.into_iter().map(|(name, value)| (name, Value::from_json(value))).collect())
            }
        }
    }
}

/// A number as Go prints one with `%v`: the shortest digits, with an exponent below 1e-4 and from 1e21 on.
pub(super) fn shown_float(value: f64) -> String {
    let size = value.abs();
    if !value.is_finite() || size == 0.0 || (1e-4..1e21).contains(&size) {
        return text::number(value);
    }
    let text = format!("{value:e}");
    let (digits, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Nil => f.write_str("<no value>"),
            Value::Bool(b) => b.fmt(f),
            Value::Int(n) => n.fmt(f),
            Value::Float(n) => f.write_str(&shown_float(*n)),
            Value::String(text) => f.write_str(text),
            Value::Time(nanos, zone) => {
                f.write_str(&super::functions::format_time(*nanos, *zone, "2006-01-02 15:04:05.999999999 -0700 MST"))
            }
            Value::List(items) => {
                f.write_str("[")?;
                for (at, item) in items.iter().enumerate() {
                    write!(f, "{}{item}", if at > 0 { " " } else { "" })?;
                }
                f.write_str("]")
            }
            Value::Map(members) => {
                let mut members: Vec<_> = members.iter().collect();
                members.sort_by(|a, b| a.0.cmp(&b.0));
                f.write_str("map[")?;
                for (at, (name, value)) in members.into_iter().enumerate() {
                    write!(f, "{}{name}:{value}", if at > 0 { " " } else { "" })?;
                }
                f.write_str("]")
            }
            Value::Labels => f.write_str("map[]"),
        }
    }
}
