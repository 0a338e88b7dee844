//! A record as a parser returns it, before it has a key.

pub use crate::level::Level;
use crate::line::WrittenLine;
use crate::stream::StreamNote;
use crate::time::Ticks;
use std::borrow::Cow;

/// A parsed line. It borrows from the line: text is copied only when the record becomes a row of a batch.
///
/// Records are moved often, so their large parts are boxed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Record<'a> {
    /// The time in the line, if the line has one that can be parsed.
    pub time: Option<Ticks>,
    /// The level in the line, if the line has one that is known.
    pub level: Option<Level>,
    /// When it arrived, if its time does not tell ([`crate::arrival`]).
    pub arrived: Option<Ticks>,
    /// The text that remains after the fields were extracted.
    pub message: Cow<'a, str>,
    /// The extracted fields in the order of the line, with their names as written.
    pub fields: Vec<Field<'a>>,
    /// The stream, if the record was pushed to one.
    pub stream: Option<Box<StreamNote<'a>>>,
    /// The original text, if the record was parsed from a text.
    pub line: Option<Box<WrittenLine<'a>>>,
}

impl Record<'_> {
    /// The message with the fields at its end, as it was written.
    pub fn whole_message(&self) -> &str {
        let line = self.line.as_ref();
        line.and_then(|line| line.text.get(line.message.clone()?)).unwrap_or(&self.message)
    }

    /// The value of a field as text. Routing uses it as the name of the instance.
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

/// A name and a value from a line.
#[derive(Clone, Debug, PartialEq)]
pub struct Field<'a> {
    /// The name as written. [`crate::entity`] derives a property name from it.
    pub name: Cow<'a, str>,
    /// The value, with the type that its notation implies.
    pub value: Value<'a>,
}

/// A value of a type that lines can express. The names are those of Azure Table.
#[derive(Clone, Debug, PartialEq)]
pub enum Value<'a> {
    /// Text.
    String(Cow<'a, str>),
    /// A whole number. It always has 64 bits, so that a property does not change its type with its size.
    Int64(i64),
    /// A number with a fraction or an exponent. A whole number that exceeds 64 bits is kept as text instead.
    Double(f64),
    /// True or false.
    Boolean(bool),
    /// Bytes. Only protocols that distinguish bytes from text produce them.
    Binary(Cow<'a, [u8]>),
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
        let abbreviations = [
            ("TRC", Level::Trace),
            ("verbose", Level::Trace),
            ("vrb", Level::Trace),
            ("FINE", Level::Debug),
            ("dbug", Level::Debug),
            ("dbg", Level::Debug),
            ("Debug3", Level::Debug),
            ("inf", Level::Info),
            ("wrn", Level::Warn),
            ("WAR", Level::Warn),
            ("erro", Level::Error),
            ("eror", Level::Error),
            ("SEVERE", Level::Error),
            ("crt", Level::Critical),
            ("dpanic", Level::Critical),
            ("alrt", Level::Alert),
            ("ftl", Level::Fatal),
            ("panic", Level::Fatal),
            ("emerg", Level::Fatal),
        ];
        for (word, level) in abbreviations {
            assert_eq!(Level::from_word(word), Some(level), "{word}");
        }
        assert_eq!((Level::from_word("war"), Level::from_word("Infrared"), Level::from_word("in")), (None, None, None));
    }
}
