//! A stand-in until the parsers are merged: plain text, and a leading RFC 3339 time of whole seconds.

use crate::record::Record;
use crate::time::Ticks;
use std::time::Duration;

/// What a line was recognised as.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// One JSON object.
    Json,
    /// `key=value` pairs.
    Logfmt,
    /// A timestamp, a level, text.
    Text,
    /// Anything else.
    Plain,
}

/// Which format the lines of a source have.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FormatChoice {
    /// Each line by its looks.
    #[default]
    Auto,
    /// JSON.
    Json,
    /// Logfmt.
    Logfmt,
    /// Text.
    Text,
    /// Plain.
    Plain,
}

/// A record and its format.
pub struct Parsed<'a> {
    /// What the line says.
    pub record: Record<'a>,
    /// What it was recognised as.
    pub format: Format,
}

/// Reads a line.
pub fn parse<'a>(line: &'a str, _choice: FormatChoice) -> Parsed<'a> {
    let number = |range: std::ops::Range<usize>| line.get(range).and_then(|digits| digits.parse::<u32>().ok());
    let time = (|| {
        let day = Ticks::from_date(i32::try_from(number(0..4)?).ok()?, number(5..7)?, number(8..10)?)?;
        let seconds = number(11..13)? * 3600 + number(14..16)? * 60 + number(17..19)?;
        (line.get(19..20)? == "Z").then(|| day.plus(Duration::from_secs(seconds.into())))
    })();
    match time {
        Some(_) => Parsed {
            record: Record { time, message: line[20..].trim_start().into(), ..Record::default() },
            format: Format::Text,
        },
        None => Parsed { record: Record { message: line.into(), ..Record::default() }, format: Format::Plain },
    }
}
