//! A layout as it is compared with the next line: in order, part by part, without making the line.

use super::decimals::{decimal_length, stays_text};
use super::reader::LineReader;
use daytable_model::digits;
use daytable_model::line::{
    KnownTime, LevelCase, PIECE_END, SharedLayout, TimePattern, escape_json, push_piece, write_value,
};
use daytable_model::property::{Property, is_same_text};
use daytable_model::record::{Field, Level, Record, Value};
use daytable_model::time::Ticks;
use memchr::memmem;
use std::ops::Range;
use std::sync::Arc;

/// Up to this many lines of a layout with verbatim pieces, another layout is searched for.
const HITS_DOUBTED_MAX: u32 = 256;

/// A part of a line. Fields are named by their number in the record.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum LinePart {
    Literal(Box<str>),
    /// The value of a field as it is.
    Field(usize),
    /// A field with a fraction of at least this many decimals.
    Decimals(usize, u8),
    /// A text as JSON escapes it.
    Escaped(usize),
    Message,
    EscapedMessage,
    Time(TimePattern),
    Level(LevelCase),
    /// Digits that are kept as they are: those of a second that ticks do not hold.
    Digits,
    /// Text that is kept as it is, up to the next literal.
    Verbatim,
    MessageStart,
    MessageEnd,
}

/// The layout of earlier lines, and the names of their fields.
#[derive(Clone, Debug)]
pub(super) struct LineTemplate {
    pub(super) layout: Arc<SharedLayout>,
    /// The fields whose names do not stand before their holes.
    unwritten: Box<[usize]>,
    /// The text of the layout, one literal after the other.
    literals: Box<str>,
    holes: Box<[Hole]>,
    has_time: bool,
    has_level: bool,
    pieces: usize,
    /// How many lines had the layout.
    hits: u32,
    /// Reads lines of the layout, if that takes no parser.
    pub(super) reader: Option<Box<LineReader>>,
}

/// A hole of a template.
#[derive(Clone, Debug)]
struct Hole {
    /// Bytes of the literal before the hole.
    literal_bytes: usize,
    /// Where the literal has the name of the hole's field: this many bytes before the hole.
    name_before: Option<usize>,
    content: HoleContent,
}

/// What fills a hole.
#[derive(Clone, Debug)]
enum HoleContent {
    /// A part of the record.
    Part(LinePart),
    Time(Box<KnownTime>),
    /// Verbatim text up to a literal of this many bytes; without a number, up to the end of the line.
    Until(Option<usize>),
}

/// What a line has besides the parts of its record.
#[derive(Debug, Default, PartialEq)]
pub(super) struct FittedLine {
    pub(super) verbatim: String,
    /// Whether the layout has a piece of the verbatim text.
    pub(super) has_piece: bool,
    pub(super) message: Option<Range<usize>>,
}

impl LineTemplate {
    /// The template of a layout that was made for `record`, whose fields become these properties.
    pub(super) fn new(
        layout: &str,
        parts: Vec<LinePart>,
        record: &Record<'_>,
        properties: Vec<Box<str>>,
    ) -> LineTemplate {
        let names: Box<[Box<str>]> = record.fields.iter().map(|field| field.name.as_ref().into()).collect();
        let mut unwritten: Vec<usize> = (0..names.len()).collect();
        let has_time = parts.iter().any(|part| matches!(part, LinePart::Time(_)));
        let has_level = parts.iter().any(|part| matches!(part, LinePart::Level(_)));
        let pieces = parts.iter().filter(|part| matches!(part, LinePart::Verbatim | LinePart::Digits)).count();
        let (mut literals, mut holes) = (String::new(), Vec::with_capacity(parts.len()));
        let mut literal_bytes = 0;
        let mut parts = parts.into_iter().peekable();
        while let Some(part) = parts.next() {
            let content = match part {
                LinePart::Literal(text) => {
                    literal_bytes += text.len();
                    literals.push_str(&text);
                    continue;
                }
                LinePart::Time(pattern) => HoleContent::Time(Box::new(KnownTime::new(pattern))),
                LinePart::Verbatim => HoleContent::Until(match parts.peek() {
                    Some(LinePart::Literal(text)) => Some(text.len()),
                    Some(_) => Some(0),
                    None => None,
                }),
                part => HoleContent::Part(part),
            };
            let name_before = match &content {
                HoleContent::Part(
                    LinePart::Field(number) | LinePart::Decimals(number, _) | LinePart::Escaped(number),
                ) => {
                    let literal = &literals[literals.len() - literal_bytes..];
                    let found = names.get(*number).and_then(|name| literal.rfind(&**name));
                    unwritten.retain(|unwritten| found.is_none() || unwritten != number);
                    found.map(|at| literal.len() - at)
                }
                _ => None,
            };
            holes.push(Hole { literal_bytes: std::mem::take(&mut literal_bytes), name_before, content });
        }
        LineTemplate {
            layout: Arc::new(SharedLayout::with_names(layout, names, properties)),
            unwritten: unwritten.into(),
            literals: literals.into(),
            holes: holes.into(),
            has_time,
            has_level,
            pieces,
            hits: 0,
            reader: None,
        }
    }

    /// The number of its verbatim pieces.
    pub(super) fn pieces(&self) -> usize {
        self.pieces
    }

    /// Whether it writes zeros at the end of a number.
    pub(super) fn has_decimals(&self) -> bool {
        self.holes.iter().any(|hole| matches!(hole.content, HoleContent::Part(LinePart::Decimals(..))))
    }

    /// The zone of its last time.
    pub(super) fn minutes_east(&self) -> Option<i64> {
        self.holes.iter().rev().find_map(|hole| match &hole.content {
            HoleContent::Time(known) => Some(known.minutes_east()),
            _ => None,
        })
    }

    /// Counts a line that is kept with verbatim pieces. True if another layout may now be searched for: seldom, because the
    /// first lines are odd more often than all are.
    pub(super) fn is_doubtful(&mut self) -> bool {
        self.hits = self.hits.saturating_add(u32::from(self.pieces > 0));
        self.hits.is_power_of_two() && self.hits <= HITS_DOUBTED_MAX
    }

    /// The time and the level that a line of this template depends on.
    pub(super) fn made_with(&self, record: &Record<'_>) -> (Option<Ticks>, Option<Level>) {
        (record.time.filter(|_| self.has_time), record.level.filter(|_| self.has_level))
    }

    /// Whether the layout gives the very text of a record, and with which verbatim text.
    pub(super) fn fit(&mut self, text: &str, record: &Record<'_>, scratch: &mut Vec<u8>) -> Option<FittedLine> {
        let fields = record.fields.as_slice();
        let names = self.layout.names()?;
        let has_name = |number: usize| -> Option<()> {
            is_same_text(names.get(number)?.as_bytes(), fields.get(number)?.name.as_bytes()).then_some(())
        };
        if names.len() != fields.len() || !self.unwritten.iter().all(|number| has_name(*number).is_some()) {
            return None;
        }
        let (mut rest, mut literals) = (text.as_bytes(), self.literals.as_bytes());
        let mut fitted = FittedLine::default();
        let mut start = 0;
        for Hole { literal_bytes, name_before, content } in &mut self.holes {
            let (literal, later) = literals.split_at_checked(*literal_bytes)?;
            literals = later;
            rest = after(rest, literal)?;
            let at = text.len() - rest.len();
            if let (
                Some(before),
                HoleContent::Part(LinePart::Field(number) | LinePart::Decimals(number, _) | LinePart::Escaped(number)),
            ) = (name_before, &content)
            {
                // Most names are borrowed from this very place, whose text was just compared.
                let name = &*fields.get(*number)?.name;
                let is_there = (name.as_ptr() as usize).wrapping_add(*before) == rest.as_ptr() as usize;
                if !is_there || name.len() != names.get(*number)?.len() {
                    has_name(*number)?;
                }
            }
            let length = match content {
                HoleContent::Part(LinePart::Field(number)) => value_length(rest, &fields.get(*number)?.value)?,
                HoleContent::Part(LinePart::Decimals(number, decimals)) => {
                    let Field { value: Value::Double(value), .. } = fields.get(*number)? else { return None };
                    decimal_length(rest, *value, *decimals)?
                }
                HoleContent::Part(LinePart::Message) => text_length(rest, &record.message)?,
                HoleContent::Time(known) => known.length_in(rest, record.time?)?,
                HoleContent::Part(LinePart::Level(case)) => {
                    let name = case.name(record.level?).as_bytes();
                    after(rest, name).map(|_| name.len())?
                }
                HoleContent::Part(LinePart::Escaped(number)) => {
                    let Field { value: Value::String(value), .. } = fields.get(*number)? else { return None };
                    escaped_length(rest, value, scratch)?
                }
                HoleContent::Part(LinePart::EscapedMessage) => escaped_length(rest, &record.message, scratch)?,
                HoleContent::Part(LinePart::MessageStart) => {
                    start = at;
                    0
                }
                HoleContent::Part(LinePart::MessageEnd) => {
                    fitted.message = Some(start..at);
                    0
                }
                HoleContent::Part(LinePart::Digits) => {
                    let length = rest.iter().take_while(|byte| byte.is_ascii_digit()).count();
                    fitted.push_piece(text.get(at..at + length)?);
                    length
                }
                // Where a hole follows, nothing says where the text ends.
                HoleContent::Until(Some(0)) => return None,
                HoleContent::Until(literal_bytes) => {
                    let length = match literal_bytes {
                        Some(bytes) => memmem::find(rest, literals.get(..*bytes)?)?,
                        None => rest.len(),
                    };
                    fitted.push_piece(text.get(at..at + length)?);
                    length
                }
                HoleContent::Part(LinePart::Literal(_) | LinePart::Time(_) | LinePart::Verbatim) => return None,
            };
            rest = rest.get(length..)?;
        }
        (rest == literals).then_some(fitted)
    }
}

impl FittedLine {
    fn push_piece(&mut self, text: &str) {
        if self.has_piece {
            self.verbatim.push(PIECE_END);
        }
        self.has_piece = true;
        push_piece(&mut self.verbatim, text.as_bytes());
    }
}

/// What follows a literal at the front of `rest`.
#[inline]
fn after<'t>(rest: &'t [u8], literal: &[u8]) -> Option<&'t [u8]> {
    let (there, rest) = rest.split_at_checked(literal.len())?;
    is_same_text(there, literal).then_some(rest)
}

/// The length of a text at the front of `rest`.
#[inline]
fn text_length(rest: &[u8], text: &str) -> Option<usize> {
    let there = rest.get(..text.len())?;
    // Most values are borrowed from this very place.
    (std::ptr::eq(there, text.as_bytes()) || there == text.as_bytes()).then_some(text.len())
}

#[cold]
fn escaped_length(rest: &[u8], text: &str, scratch: &mut Vec<u8>) -> Option<usize> {
    scratch.clear();
    escape_json(text.as_bytes(), false, scratch);
    rest.starts_with(scratch).then_some(scratch.len())
}

/// The length of a value at the front of `rest`, if it stands there just as it would be written.
#[inline]
fn value_length(rest: &[u8], value: &Value<'_>) -> Option<usize> {
    match value {
        Value::String(text) => text_length(rest, text),
        Value::Int64(number) => whole_length(rest, *number),
        // Not every store keeps the sign of a zero.
        Value::Double(number) if stays_text(*number) => None,
        Value::Double(number) => decimal_length(rest, *number, 0).or_else(|| printed_length(rest, *number)),
        Value::Boolean(is) => {
            let text: &[u8] = if *is { b"true" } else { b"false" };
            rest.starts_with(text).then_some(text.len())
        }
        Value::Binary(_) => None,
    }
}

#[inline]
fn whole_length(rest: &[u8], number: i64) -> Option<usize> {
    let (sign, digits) = match rest {
        [b'-', digits @ ..] => (1, digits),
        digits => (0, digits),
    };
    let (mut left, mut length) = (0u64, 0);
    if let Some(leading) = digits::leading(digits) {
        (left, length) = leading;
    } else {
        for byte in digits {
            let digit = byte.wrapping_sub(b'0');
            if digit > 9 {
                break;
            }
            // No 19 digits are too many for 64 bits, and no whole number has more.
            if length == 19 {
                return None;
            }
            left = left * 10 + u64::from(digit);
            length += 1;
        }
    }
    let is_canonical = length == 1 && (digits[0] != b'0' || sign == 0) || length > 1 && digits[0] != b'0';
    (is_canonical && left == number.unsigned_abs() && (sign == 1) == (number < 0)).then_some(length + sign)
}

fn printed_length(rest: &[u8], number: f64) -> Option<usize> {
    let mut printed = Vec::new();
    write_value(Property::Double(number), &mut printed);
    let ends = !rest.get(printed.len()).is_some_and(|byte| matches!(byte, b'0'..=b'9' | b'.' | b'e' | b'E'));
    (ends && rest.starts_with(&printed)).then_some(printed.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_model::line::{LineLayout, LineSource};
    use proptest::prelude::*;

    proptest! {
        /// A number has a length where it stands just as it would be written, and nowhere else.
        #[test]
        fn numbers_stand_as_they_are_written(text in "-?[0-9]{0,19}(\\.[0-9]{0,18})?([eE][0-9])?") {
            if let Ok(number) = text.parse::<i64>() {
                prop_assert_eq!(whole_length(text.as_bytes(), number), (number.to_string() == text).then_some(text.len()));
            }
            if let Ok(number) = text.parse::<f64>() {
                for decimals in 0..4 {
                    let mut written = Vec::new();
                    struct Number(f64);
                    impl LineSource for Number {
                        fn time(&self) -> Ticks { Ticks::MIN }
                        fn level(&self) -> Option<Level> { None }
                        fn property(&self, _: &str) -> Option<Property<'_>> { Some(Property::Double(self.0)) }
                    }
                    LineLayout::parse(&format!("%.{decimals}(x)")).write_line(&Number(number), "", &mut written);
                    let found = decimal_length(text.as_bytes(), number, decimals);
                    prop_assert!(found.is_none() || found == Some(text.len()) && written == text.as_bytes(), "{}", decimals);
                    let is_plain = text.len() < 14 && written == text.as_bytes() && text.contains('.')
                        && !stays_text(number);
                    prop_assert!(!is_plain || found.is_some(), "{}", decimals);
                }
                let found = value_length(text.as_bytes(), &Value::Double(number));
                let is_kept = number.to_string() == text && !stays_text(number);
                prop_assert_eq!(found, is_kept.then_some(text.len()));
            }
        }
    }
}
