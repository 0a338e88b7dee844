//! Reads a line by the layout of an earlier line of its source: literal text is compared, and what lies between becomes
//! the parts of the record, without the parser of the format.
//!
//! The record is the one that the parser would make, or there is none. `reader_plan` makes readers only for layouts in
//! which the place and the kind of each value decide its meaning. A value of another kind (an escape, an odd number, an
//! empty text, a new date) is left to the parser, or to the same function that the parser calls for it. The properties
//! in `reader_tests` compare both.

use super::decimals::{decimal, decimal_length, stays_text};
use crate::names::Role;
use crate::pairs::{self, typed};
use crate::scan;
use crate::timestamp::zone::Zone;
use crate::timestamp::{FullTime, TimestampDefaults, read_with};
use crate::{Format, Parsed, PartPlace, field_pool, json, layout, level_names};
use daytable_model::line::{KnownTime, LevelCase};
use daytable_model::property::is_same_text;
use daytable_model::record::{Field, Level, Record, Value};
use daytable_model::time::Ticks;
use memchr::{memchr, memchr2, memchr3};
use std::borrow::Cow;
use std::ops::Range;

/// Component names that are remembered.
const COMPONENTS_MAX: usize = 16;

/// A layout as it is read.
#[derive(Clone, Debug)]
pub(crate) struct LineReader {
    pub(crate) format: Format,
    /// The text of the layout, one literal after the other.
    pub(super) literals: Box<str>,
    pub(super) steps: Box<[ReadStep]>,
    /// Whether the whole message is more than the message of the record: it then ends with the line.
    pub(super) has_whole_message: bool,
    /// Whether a colon ends the component. Such lines are read only in sources with the habit of such components.
    pub(crate) has_colon: bool,
    /// Whether an object has the names of a container runtime's envelope only, so that some of these lines may be such.
    pub(crate) may_be_envelope: bool,
}

/// A literal, and the value after it.
#[derive(Clone, Debug)]
pub(super) struct ReadStep {
    /// Bytes of the literal.
    pub(super) literal_bytes: usize,
    /// The name of the field, if the value becomes one.
    pub(super) name: Option<NamePlace>,
    pub(super) what: ReadValue,
}

/// Where the name of a field is.
#[derive(Clone, Debug)]
pub(super) enum NamePlace {
    /// In the literal before the value.
    Literal(Range<usize>),
    /// A name that the parser gives.
    Given(&'static str),
    /// A name that is not in the line.
    Made(Box<str>),
}

/// How a value is read.
#[derive(Clone, Debug)]
pub(super) enum ReadValue {
    Time(Box<TimeReader>),
    /// A level, and the rank of its name; without a rank, a word of capitals.
    Level(LevelReader),
    /// A level that is text of the layout.
    KnownLevel(Level),
    Message(ValueEnd),
    /// The text of a JSON string or of a quoted value.
    Text(ValueEnd),
    /// A number in JSON's grammar with this many decimals, if they are fixed; perhaps only a whole one.
    Number(Option<u8>, bool),
    Boolean,
    /// A bare value of a pair, typed by its form. The name of some roles needs text.
    Bare(Option<u8>, Option<Role>),
    /// The name of a component, perhaps before a colon, and the names that were found to be components.
    Component(Vec<Box<str>>, bool),
    /// A value that is text of the layout.
    Constant(Value<'static>),
}

/// How a level is read.
#[derive(Clone, Debug)]
pub(super) struct LevelReader {
    case: LevelCase,
    rank: Option<u8>,
    /// The level of the last line.
    last: Level,
    /// The levels that were read before.
    known: [bool; Level::ALL.len()],
}

impl LevelReader {
    pub(super) fn new(case: LevelCase, rank: Option<u8>, level: Level) -> LevelReader {
        LevelReader { case, rank, last: level, known: [false; Level::ALL.len()] }
    }

    /// Reads a level that stands as the layout would write it.
    #[inline]
    fn level(&mut self, written: &str) -> Option<Level> {
        let is_of = |level: Level| is_same_text(written.as_bytes(), self.case.name(level).as_bytes());
        if is_of(self.last) {
            return Some(self.last);
        }
        let known = Level::ALL.into_iter().zip(self.known).find(|(level, is_known)| *is_known && is_of(*level));
        let level = match known {
            Some((level, _)) => level,
            None => level_of(written, self.rank).filter(|level| is_of(*level))?,
        };
        self.last = level;
        self.known[usize::from(level.code()) - 1] = true;
        Some(level)
    }
}

/// How the end of a value is found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueEnd {
    /// At the quote of a JSON string without escapes.
    JsonQuote,
    /// At the quote of a pair's value without escapes.
    Quote,
    /// Before a space or a tab.
    Space,
    /// After the digits of a number.
    Digits,
    /// Before the literal of this many bytes that ends in the first `=`.
    FirstPair(usize, MessageStart),
    /// At the end of the line. Such a message has no `=`.
    Line(MessageStart),
}

/// How a message begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum MessageStart {
    /// With a plain word before a letter.
    Word,
    /// With a letter, after a component.
    Letter,
    /// Not with a space, after a component with a colon.
    Any,
}

/// How a time is read.
#[derive(Clone, Debug)]
pub(super) struct TimeReader {
    pub(super) known: KnownTime,
    /// Whether its digits give the time on the same date. Without an offset in the text, this needs the same zone.
    pub(super) is_iso: bool,
    pub(super) zone: Option<Zone>,
    pub(super) end: ValueEnd,
}

/// A record that was read, with the range of its whole message.
pub(super) type ReadLine<'a> = (Parsed<'a>, Option<Range<usize>>);

impl LineReader {
    /// Reads a line; `None` leaves the line to the parser.
    pub(super) fn read<'a>(
        &mut self,
        text: &'a str,
        defaults: &TimestampDefaults,
        full_time: FullTime,
    ) -> Option<ReadLine<'a>> {
        let mut parsed = Parsed::of(Record { fields: field_pool::fields(), ..Record::default() }, self.format);
        match self.fill(text, defaults, full_time, &mut parsed) {
            Some(message) => Some((parsed, message)),
            None => {
                field_pool::reuse(parsed.record);
                None
            }
        }
    }

    #[inline]
    fn fill<'a>(
        &mut self,
        text: &'a str,
        defaults: &TimestampDefaults,
        full_time: FullTime,
        parsed: &mut Parsed<'a>,
    ) -> Option<Option<Range<usize>>> {
        let bytes = text.as_bytes();
        let mut literals = self.literals.as_bytes();
        let (mut at, mut message_start) = (0, 0);
        let record = &mut parsed.record;
        for ReadStep { literal_bytes, name, what } in &mut self.steps {
            let (literal, later) = literals.split_at_checked(*literal_bytes)?;
            literals = later;
            let literal_at = at;
            at += literal.len();
            if !is_same_text(bytes.get(literal_at..at)?, literal) {
                return None;
            }
            let value = match what {
                ReadValue::Time(reader) => {
                    let (time, end) = reader.time(text, at, self.format, defaults, full_time)?;
                    record.time = Some(time);
                    if self.format == Format::Text {
                        // The time with its zone ends before the space.
                        let stamp_end = end + memchr(b' ', bytes.get(end..)?)?;
                        parsed.time_at = PartPlace::of(0..stamp_end);
                    }
                    at = end;
                    continue;
                }
                ReadValue::Level(reader) => {
                    let end = level_end(bytes, at, reader.rank.is_none());
                    record.level = Some(reader.level(text.get(at..end)?)?);
                    if self.format == Format::Text {
                        parsed.level_at = PartPlace::of(at..end);
                    }
                    at = end;
                    continue;
                }
                ReadValue::KnownLevel(level) => {
                    record.level = Some(*level);
                    continue;
                }
                ReadValue::Message(end) => {
                    let message = end.value(text, at, literals)?;
                    message_start = at;
                    at += message.len();
                    record.message = Cow::Borrowed(message);
                    continue;
                }
                ReadValue::Text(end) => {
                    let value = end.value(text, at, literals)?;
                    at += value.len();
                    if *end == ValueEnd::Quote && self.format == Format::Text && value.ends_with([',', ';']) {
                        return None;
                    }
                    Value::String(Cow::Borrowed(value))
                }
                ReadValue::Number(decimals, is_whole) => {
                    let (value, length) = number(bytes.get(at..)?, *decimals, *is_whole)?;
                    at += length;
                    value
                }
                ReadValue::Boolean => {
                    let is_true = bytes.get(at..)?.starts_with(b"true");
                    if !is_true && !bytes.get(at..)?.starts_with(b"false") {
                        return None;
                    }
                    at += if is_true { 4 } else { 5 };
                    Value::Boolean(is_true)
                }
                ReadValue::Bare(decimals, role) => {
                    let written = ValueEnd::Space.value(text, at, literals)?;
                    let value = bare(written, *decimals)?;
                    let is_text = matches!(value, Value::String(_));
                    match role {
                        Some(Role::Component | Role::Host) if !is_text => return None,
                        Some(Role::Pid) if !matches!(value, Value::Int64(_)) => return None,
                        _ if is_text && self.format == Format::Text && written.ends_with([',', ';']) => return None,
                        _ => {}
                    }
                    at += written.len();
                    value
                }
                ReadValue::Component(known, has_colon) => {
                    let word = component(text, at, known, *has_colon)?;
                    at += word.len();
                    Value::String(Cow::Borrowed(word))
                }
                ReadValue::Constant(value) => match value {
                    Value::Int64(number) => Value::Int64(*number),
                    Value::Double(number) => Value::Double(*number),
                    Value::Boolean(is) => Value::Boolean(*is),
                    _ => Value::String(Cow::Borrowed("")),
                },
            };
            let name = match name.as_ref()? {
                NamePlace::Literal(at) => Cow::Borrowed(text.get(literal_at + at.start..literal_at + at.end)?),
                NamePlace::Given(name) => Cow::Borrowed(*name),
                NamePlace::Made(name) => Cow::Owned(String::from(&**name)),
            };
            record.fields.push(Field { name, value });
        }
        if bytes.get(at..)? != literals {
            return None;
        }
        let is_usual = match self.format {
            Format::Text => is_usual_text(bytes, self.has_whole_message),
            // A JSON string has no newlines.
            Format::Json => true,
            _ => memchr(b'\n', bytes).is_none(),
        };
        is_usual.then_some(())?;
        Some(self.has_whole_message.then_some(message_start..text.len()))
    }
}

/// What holds for the whole of a text line: it is one line without colours, and does not end in an object or in a component
/// in parentheses. A whole message ends where the line ends.
fn is_usual_text(bytes: &[u8], has_whole_message: bool) -> bool {
    let ends_well = match bytes.last() {
        None | Some(b')' | b'}') => false,
        Some(last) => !has_whole_message || last.is_ascii_graphic(),
    };
    ends_well && memchr2(b'\n', 0x1b, bytes).is_none()
}

impl ValueEnd {
    /// The value that begins at `at`; never empty. `literals` is what follows in the layout.
    #[inline]
    fn value<'a>(self, text: &'a str, at: usize, literals: &[u8]) -> Option<&'a str> {
        let bytes = text.as_bytes();
        let rest = bytes.get(at..)?;
        let end = match self {
            ValueEnd::JsonQuote => scan::special(bytes, at),
            ValueEnd::Quote => {
                let end = at + memchr2(b'"', b'\\', rest)?;
                (bytes[end] == b'"').then_some(end)?
            }
            ValueEnd::Space => {
                let end = scan::space(bytes, at);
                (*rest.first()? != b'"').then_some(end)?
            }
            ValueEnd::Digits => at + rest.iter().take_while(|byte| byte.is_ascii_digit() || **byte == b'.').count(),
            ValueEnd::FirstPair(literal_bytes, start) => {
                let end = (at + memchr(b'=', rest)? + 1).checked_sub(literal_bytes).filter(|end| *end > at)?;
                let is_trimmed = !pairs::is_space(bytes[end - 1]);
                let is_pair = literals.get(..literal_bytes)? == bytes.get(end..end + literal_bytes)?;
                (is_trimmed && is_pair && start.begins(&bytes[at..])).then_some(end)?
            }
            ValueEnd::Line(start) => {
                (memchr3(b'=', b'\n', 0x1b, rest).is_none() && start.begins(rest)).then_some(bytes.len())?
            }
        };
        // `?` as a host is none, which the parser decides.
        text.get(at..end).filter(|value| !value.is_empty() && *value != "?")
    }
}

impl MessageStart {
    /// Whether a message begins so on the usual path of text.
    fn begins(self, message: &[u8]) -> bool {
        match self {
            MessageStart::Word => {
                let length = message.iter().take_while(|byte| byte.is_ascii_lowercase()).count();
                length > 0 && matches!(message.get(length..), Some([b' ', b'a'..=b'z' | b'A'..=b'Z', ..]))
            }
            MessageStart::Letter => message.first().is_some_and(u8::is_ascii_alphabetic),
            MessageStart::Any => message.first().is_some_and(|byte| !pairs::is_space(*byte)),
        }
    }
}

impl TimeReader {
    /// The time whose written form begins at `at`, and the end of what the layout writes for it.
    #[inline]
    fn time(
        &mut self,
        text: &str,
        at: usize,
        format: Format,
        defaults: &TimestampDefaults,
        full_time: FullTime,
    ) -> Option<(Ticks, usize)> {
        let rest = text.as_bytes().get(at..)?;
        if self.is_iso
            && self.zone.is_none_or(|zone| zone == defaults.zone)
            && let Some((time, length)) = self.known.read(rest)
        {
            return Some((time, at + length));
        }
        let time = if format == Format::Text {
            full_time.stamp().or_else(|| layout::full_time(text, defaults).stamp())?.time
        } else {
            let written = self.end.value(text, at, &[])?;
            let value = match self.end {
                ValueEnd::Digits => {
                    let is_number = !written.starts_with('0') && written.matches('.').count() < 2;
                    is_number.then_some(())?;
                    (!written.starts_with('.') && !written.ends_with('.')).then(|| json::number(written))?
                }
                ValueEnd::Space => typed(written),
                _ => Value::String(Cow::Borrowed(written)),
            };
            read_with(&value, defaults)?
        };
        Some((time, at + self.known.length_in(rest, time)?))
    }
}

fn level_end(bytes: &[u8], at: usize, is_capitals: bool) -> usize {
    let is_in = |byte: &&u8| if is_capitals { byte.is_ascii_uppercase() } else { byte.is_ascii_alphabetic() };
    at + bytes.get(at..).map_or(0, |rest| rest.iter().take_while(is_in).count())
}

/// The level that the parser would read.
fn level_of(written: &str, rank: Option<u8>) -> Option<Level> {
    match rank {
        Some(rank) => level_names::level(&Value::String(Cow::Borrowed(written)), rank)
            .filter(|(_, found)| *found == rank)
            .map(|(level, _)| level),
        None => layout::usual_level(written),
    }
}

/// A component on the usual path of text.
fn component<'a>(text: &'a str, at: usize, known: &mut Vec<Box<str>>, has_colon: bool) -> Option<&'a str> {
    let word = text.get(at..scan::space(text.as_bytes(), at))?;
    let word = if has_colon { word.strip_suffix(':')? } else { word };
    match known.iter().position(|known| is_same_text(known.as_bytes(), word.as_bytes())) {
        Some(_) => {}
        None if known.len() < COMPONENTS_MAX => {
            let is_component = match has_colon {
                true => layout::colon_name(text, at) == Some(word) && layout::is_usual_colon_component(word),
                false => layout::is_usual_component(word),
            };
            is_component.then(|| known.push(word.into()))?;
        }
        None => return None,
    }
    Some(word)
}

/// A bare value that stands as the layout would write it.
#[inline]
fn bare(written: &str, decimals: Option<u8>) -> Option<Value<'_>> {
    let value = typed(written);
    let is_as_written = match &value {
        Value::Double(number) => {
            decimal_length(written.as_bytes(), *number, decimals.unwrap_or(0)) == Some(written.len())
        }
        // A number with fixed decimals is never anything else.
        _ => decimals.is_none(),
    };
    is_as_written.then_some(value)
}

/// The number at the front of a text, if it stands there as the layout would write it, and its length.
#[inline]
fn number(text: &[u8], decimals: Option<u8>, is_whole: bool) -> Option<(Value<'static>, usize)> {
    if decimals.is_none()
        && let Some((number, end)) = pairs::whole(text, 0)
    {
        // A whole number has no sign of zero.
        return (number != 0 || end == 1).then_some((Value::Int64(number), end));
    }
    if is_whole {
        return None;
    }
    if let Some((number, length)) = decimal(text, decimals.unwrap_or(0))
        && !matches!(text.get(length), Some(b'-' | b'+'))
    {
        return Some((Value::Double(number), length));
    }
    let is_in = |byte: &&u8| byte.is_ascii_digit() || matches!(byte, b'.' | b'-' | b'+' | b'e' | b'E');
    let length = text.iter().take_while(is_in).count();
    let written = str::from_utf8(text.get(..length)?).ok()?;
    let Value::Double(number) = json::number(written) else { return None };
    let is_as_written = decimal_length(text, number, decimals.unwrap_or(0)) == Some(length) && !stays_text(number);
    is_as_written.then_some((Value::Double(number), length))
}
