//! A record as a parser leaves it: borrowed from the line it was read from, before it has a key.

use crate::time::Ticks;
use std::borrow::Cow;

/// What a line says. It borrows from the line; nothing is copied until it becomes a row of a batch.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record<'a> {
    /// The record's own time, where the line gives one that can be read.
    pub time: Option<Ticks>,
    /// The record's level, where the line gives one that is known.
    pub level: Option<Level>,
    /// The text without what was taken out of it.
    pub message: Cow<'a, str>,
    /// All that was taken out of it, in the order of the line; names as the line has them.
    pub fields: Vec<Field<'a>>,
}

impl Record<'_> {
    /// The text of a field, for the instance that it names.
    pub fn text(&self, name: &str) -> Option<Cow<'_, str>> {
        let value = self.fields.iter().find(|field| field.name == name).map(|field| &field.value)?;
        Some(match value {
            Value::String(text) => text.as_ref().into(),
            Value::Int64(n) => n.to_string().into(),
            Value::Double(n) => n.to_string().into(),
            Value::Boolean(b) => b.to_string().into(),
            Value::Binary(bytes) => String::from_utf8_lossy(bytes),
        })
    }
}

/// A name and a value that a line gives.
#[derive(Clone, Debug, PartialEq)]
pub struct Field<'a> {
    /// The name as the line has it; [`crate::entity`] makes a property name of it.
    pub name: Cow<'a, str>,
    /// The value, typed by how it is written.
    pub value: Value<'a>,
}

/// A value of one of the property types that records can give. Names are Azure Table's.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// Text.
    String(Cow<'a, str>),
    /// A whole number; always 64 bits, so that a property does not change its type with its size.
    Int64(i64),
    /// A number with a fraction or an exponent. Never what a whole number too large for 64 bits becomes: that stays text.
    Double(f64),
    /// True or false.
    Boolean(bool),
    /// Bytes that are no text; only protocols that tell bytes from text give them.
    Binary(Cow<'a, [u8]>),
}

/// How bad it is. The order is that of severity.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum Level {
    /// OpenTelemetry severity 1.
    Trace = 1,
    /// OpenTelemetry severity 5.
    Debug,
    /// OpenTelemetry severity 9.
    Info,
    /// OpenTelemetry severity 10.
    Notice,
    /// OpenTelemetry severity 13.
    Warn,
    /// OpenTelemetry severity 17.
    Error,
    /// OpenTelemetry severity 18.
    Critical,
    /// OpenTelemetry severity 19.
    Alert,
    /// OpenTelemetry severity 21.
    Fatal,
}

impl Level {
    /// Every level, the least severe first.
    pub const ALL: [Level; 9] = [
        Level::Trace,
        Level::Debug,
        Level::Info,
        Level::Notice,
        Level::Warn,
        Level::Error,
        Level::Critical,
        Level::Alert,
        Level::Fatal,
    ];

    /// The name that is stored and shown.
    pub const fn name(self) -> &'static str {
        match self {
            Level::Trace => "trace",
            Level::Debug => "debug",
            Level::Info => "info",
            Level::Notice => "notice",
            Level::Warn => "warn",
            Level::Error => "error",
            Level::Critical => "critical",
            Level::Alert => "alert",
            Level::Fatal => "fatal",
        }
    }

    /// OpenTelemetry's severity number for it.
    pub const fn severity(self) -> i32 {
        match self {
            Level::Trace => 1,
            Level::Debug => 5,
            Level::Info => 9,
            Level::Notice => 10,
            Level::Warn => 13,
            Level::Error => 17,
            Level::Critical => 18,
            Level::Alert => 19,
            Level::Fatal => 21,
        }
    }

    /// 1 to 9, the least severe first; 0 is kept for a record without a level.
    pub const fn code(self) -> u8 {
        self as u8
    }

    /// The inverse of [`Level::code`].
    pub const fn from_code(code: u8) -> Option<Level> {
        match code {
            1..=9 => Some(Level::ALL[code as usize - 1]),
            _ => None,
        }
    }

    /// The level that a word stands for, in any case; none for a word that is not known.
    pub fn from_word(word: &str) -> Option<Level> {
        let first = word.as_bytes().first()? | 0x20;
        // Nearly all words are none of these.
        if !(3..=13).contains(&word.len()) || !b"acdefinpstvw".contains(&first) {
            return None;
        }
        let mut lower = [0u8; 13];
        let lower = lower.get_mut(..word.len())?;
        for (lower, byte) in lower.iter_mut().zip(word.bytes()) {
            *lower = byte.to_ascii_lowercase();
        }
        Some(match &*lower {
            b"trace" | b"trc" | b"trce" | b"verbose" | b"vrb" | b"verb" | b"finest" | b"finer" => Level::Trace,
            b"debug" | b"dbg" | b"dbug" | b"debu" | b"debug1" | b"fine" => Level::Debug,
            b"info" | b"inf" | b"information" | b"informational" => Level::Info,
            b"notice" => Level::Notice,
            b"warn" | b"warning" | b"wrn" => Level::Warn,
            b"error" | b"err" | b"erro" | b"eror" | b"severe" => Level::Error,
            b"critical" | b"crit" | b"dpanic" => Level::Critical,
            b"alert" | b"alrt" => Level::Alert,
            b"fatal" | b"fata" | b"ftl" | b"panic" | b"pani" | b"emergency" | b"emerg" => Level::Fatal,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn levels_are_ordered_by_severity_and_round_trip() {
        for pair in Level::ALL.windows(2) {
            assert!(pair[0] < pair[1] && pair[0].severity() < pair[1].severity());
        }
        for level in Level::ALL {
            assert_eq!(Level::from_code(level.code()), Some(level));
            assert_eq!(Level::from_word(level.name()), Some(level));
            assert_eq!(Level::from_word(&level.name().to_uppercase()), Some(level));
        }
        assert_eq!(Level::from_code(0), None);
        assert_eq!(Level::from_word("a word much longer than any level"), None);
    }
}
