//! Makes readers of layouts: finds for each value of a line its name, its kind and its hole. Whatever is not as in most
//! lines gives no reader.

use super::make::place_of;
use super::reader::{LevelReader, LineReader, MessageStart, NamePlace, ReadStep, ReadValue, TimeReader, ValueEnd};
use super::template::LinePart;
use crate::json::{DEPTH_MAX, fast::string_end};
use crate::names::{self, Role, role_of};
use crate::pairs::{PairValue, pair_at, skip_spaces};
use crate::timestamp::zone::Zone;
use crate::timestamp::{FullTime, TimestampDefaults};
use crate::{Format, Parsed, PartPlace, envelope, layout, level_names};
use daytable_model::line::KnownTime;
use daytable_model::record::{Field, Value};
use std::borrow::Cow;
use std::ops::Range;

/// A value of a line, with its name.
struct NamedValue {
    name: String,
    /// The value as written, without quotes.
    inner: Range<usize>,
    kind: ValueKind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ValueKind {
    /// Ends at a quote.
    Quoted,
    /// A number of JSON, or a bare value of a pair.
    Bare,
    Boolean,
    Null,
    /// An array, or an object without members.
    Other,
}

/// A reader under construction.
struct ReaderPlan<'p, 'a> {
    text: &'a str,
    parsed: &'p Parsed<'a>,
    defaults: &'p TimestampDefaults,
    /// The holes of the layout that have no step yet.
    holes: &'p [(Range<usize>, LinePart)],
    /// How far the line has steps.
    at: usize,
    fields: usize,
    literals: String,
    steps: Vec<ReadStep>,
}

/// The reader of a layout that was made for a line. `holes` are those of the layout.
pub(super) fn reader(
    text: &str,
    parsed: &Parsed<'_>,
    holes: &[(Range<usize>, LinePart)],
    defaults: &TimestampDefaults,
) -> Option<LineReader> {
    if text.contains('\n') {
        return None;
    }
    let format = parsed.format;
    let marks: Vec<usize> = holes
        .iter()
        .filter(|(_, part)| matches!(part, LinePart::MessageStart | LinePart::MessageEnd))
        .map(|(at, _)| at.start)
        .collect();
    let holes: Vec<_> = holes
        .iter()
        .filter(|(_, part)| !matches!(part, LinePart::MessageStart | LinePart::MessageEnd))
        .cloned()
        .collect();
    let mut plan = ReaderPlan {
        text,
        parsed,
        defaults,
        holes: &holes,
        at: 0,
        fields: 0,
        literals: String::new(),
        steps: Vec::new(),
    };
    let mut may_be_envelope = false;
    match format {
        Format::Json => {
            let values = json_values(text)?;
            may_be_envelope = values.iter().all(|value| envelope::may_have(&value.name));
            plan.named(values)?;
        }
        Format::Logfmt => plan.named(pair_values(text, 0)?)?,
        Format::Text => plan.usual_text()?,
        _ => return None,
    }
    let has_whole_message = match marks[..] {
        [] => false,
        [start, end] => {
            let message = place_of(text, &parsed.record.message)?;
            (format == Format::Text && start == message.start && end == text.len()).then_some(true)?
        }
        _ => return None,
    };
    if !plan.holes.is_empty() || plan.fields != parsed.record.fields.len() {
        return None;
    }
    plan.literals.push_str(text.get(plan.at..)?);
    let steps: Box<[ReadStep]> = plan.steps.into();
    let has_colon = steps.iter().any(|step| matches!(step.what, ReadValue::Component(_, true)));
    let mut reader =
        LineReader { format, literals: plan.literals.into(), steps, has_whole_message, has_colon, may_be_envelope };
    // The line itself is the first that must give the same record.
    let (read, message) = reader.read(text, defaults, FullTime::default())?;
    let is_same = read == *parsed && message.is_some() == has_whole_message;
    is_same.then_some(reader)
}

impl<'a> ReaderPlan<'_, 'a> {
    fn add(&mut self, at: Range<usize>, name: Option<NamePlace>, what: ReadValue) -> Option<()> {
        let literal = self.text.get(self.at..at.start)?;
        self.literals.push_str(literal);
        let name = match name {
            Some(NamePlace::Literal(name)) => {
                let start = name.start.checked_sub(self.at)?;
                Some(NamePlace::Literal(start..start + name.len()))
            }
            name => name,
        };
        self.steps.push(ReadStep { literal_bytes: literal.len(), name, what });
        self.at = at.end;
        Some(())
    }

    /// The hole that is all of a value. `Some(None)` if no hole touches the value.
    fn hole(&mut self, value: &Range<usize>) -> Option<Option<LinePart>> {
        match self.holes.split_first() {
            Some(((at, part), rest)) if at == value => {
                self.holes = rest;
                Some(Some(part.clone()))
            }
            Some(((at, _), _)) if at.start < value.end => None,
            _ => Some(None),
        }
    }

    /// Adds the values of an object or of a line of pairs.
    fn named(&mut self, values: Vec<NamedValue>) -> Option<()> {
        let mut has = [false; 3];
        for value in values.iter().filter(|value| value.kind != ValueKind::Null) {
            let meaning = role_of(&value.name);
            if let Some((role, _)) = meaning
                && let Some(has) = has.get_mut(role as usize)
                && std::mem::replace(has, true)
            {
                return None;
            }
            match meaning {
                // Names whose meaning depends on more than the kinds of values.
                Some((_, names::MONGO)) | Some((Role::Component, names::TARGET)) => return None,
                Some((Role::Time, rank)) => {
                    let is_odd = matches!(
                        rank,
                        names::CLEF_TIME | names::TIMESTAMP_SECONDS | names::JOINED_SECONDS | names::INSTANT_SECONDS
                    );
                    (!is_odd && rank != names::MONGO_DATE).then_some(())?;
                    self.time(value)?;
                }
                Some((Role::Level, rank)) => self.level(value, rank)?,
                Some((Role::Message, rank)) => {
                    let is_odd = matches!(rank, names::CLEF_TEMPLATE | names::SHORT_MESSAGE | names::JOURNAL_MESSAGE);
                    let is_text = value.kind == ValueKind::Quoted || self.parsed.format == Format::Logfmt;
                    (!is_odd && is_text).then_some(())?;
                    match self.hole(&value.inner)? {
                        Some(LinePart::Message) => {
                            self.add(value.inner.clone(), None, ReadValue::Message(self.end(value)))?;
                        }
                        None if value.inner.is_empty() => {}
                        _ => return None,
                    }
                }
                meaning => self.field(value, meaning.map(|(role, _)| role))?,
            }
        }
        let record = &self.parsed.record;
        let is_taken = [record.time.is_some(), record.level.is_some(), has[2]];
        (is_taken == has).then_some(())
    }

    fn end(&self, value: &NamedValue) -> ValueEnd {
        match (value.kind, self.parsed.format) {
            (ValueKind::Quoted, Format::Json) => ValueEnd::JsonQuote,
            (ValueKind::Quoted, _) => ValueEnd::Quote,
            (_, Format::Json) => ValueEnd::Digits,
            _ => ValueEnd::Space,
        }
    }

    fn time(&mut self, value: &NamedValue) -> Option<()> {
        let ((at, part), rest) = self.holes.split_first()?;
        let LinePart::Time(pattern) = part else { return None };
        if at.start != value.inner.start || at.end > value.inner.end {
            return None;
        }
        self.holes = rest;
        let suffix = self.text.get(at.end..value.inner.end)?;
        let mut known = KnownTime::new(pattern.clone());
        known.length_in(self.text.get(at.start..)?.as_bytes(), self.parsed.record.time?)?;
        let has_zone = is_offset(suffix);
        let is_fixed = has_zone || matches!(self.defaults.zone, Zone::Utc | Zone::Offset(_));
        let time = TimeReader {
            is_iso: known.is_iso() && is_fixed && (has_zone || suffix.is_empty()),
            zone: (!has_zone).then_some(self.defaults.zone),
            known,
            end: self.end(value),
        };
        self.add(at.clone(), None, ReadValue::Time(Box::new(time)))
    }

    fn level(&mut self, value: &NamedValue, rank: u8) -> Option<()> {
        let level = self.parsed.record.level?;
        let written = self.text.get(value.inner.clone())?;
        match self.hole(&value.inner)? {
            Some(LinePart::Level(case)) if value.kind != ValueKind::Boolean => {
                self.add(value.inner.clone(), None, ReadValue::Level(LevelReader::new(case, Some(rank), level)))
            }
            // The same text is the same level, unless the rest of the line decides.
            None if value.kind != ValueKind::Boolean => {
                let read = match written.parse() {
                    Ok(number) if value.kind == ValueKind::Bare => level_names::level(&Value::Int64(number), rank),
                    _ => level_names::level(&Value::String(Cow::Borrowed(written)), rank),
                };
                (read == Some((level, rank))).then_some(())?;
                let end = value.inner.end;
                self.add(end..end, None, ReadValue::KnownLevel(level))
            }
            _ => None,
        }
    }

    fn field(&mut self, value: &NamedValue, role: Option<Role>) -> Option<()> {
        let parsed = self.parsed;
        let Field { name, value: read } = parsed.record.fields.get(self.fields)?;
        let number = self.fields;
        self.fields += 1;
        let name = match place_of(self.text, name).filter(|at| !at.is_empty() && at.start >= self.at) {
            Some(at) => NamePlace::Literal(at),
            None => match &**name {
                "component" => NamePlace::Given("component"),
                "pid" => NamePlace::Given("pid"),
                "host" => NamePlace::Given("host"),
                name => NamePlace::Made(name.into()),
            },
        };
        let is_json = parsed.format == Format::Json;
        let part = self.hole(&value.inner)?;
        let decimals = match part {
            Some(LinePart::Decimals(of, decimals)) if of == number => Some(decimals),
            Some(LinePart::Field(of)) if of == number => None,
            Some(_) => return None,
            None => {
                // What no hole writes is text of the layout.
                let known = match read {
                    Value::String(text) if text.is_empty() && value.inner.is_empty() => {
                        Value::String(Cow::Borrowed(""))
                    }
                    Value::Int64(number) if is_json => Value::Int64(*number),
                    Value::Double(number) if is_json => Value::Double(*number),
                    Value::Boolean(is) if is_json => Value::Boolean(*is),
                    _ => return None,
                };
                let end = value.inner.end;
                return self.add(end..end, Some(name), ReadValue::Constant(known));
            }
        };
        let what = match (value.kind, read) {
            // A process in quotes may be a number or not.
            (ValueKind::Quoted, Value::String(_)) if role != Some(Role::Pid) && decimals.is_none() => {
                ReadValue::Text(self.end(value))
            }
            (ValueKind::Bare, Value::Int64(_) | Value::Double(_)) if is_json => {
                let is_whole = role == Some(Role::Pid);
                (!is_whole || matches!(read, Value::Int64(_))).then_some(())?;
                ReadValue::Number(decimals, is_whole)
            }
            (ValueKind::Boolean, Value::Boolean(_)) if is_json => ReadValue::Boolean,
            (ValueKind::Bare, _) if !is_json => ReadValue::Bare(decimals, role),
            _ => return None,
        };
        self.add(value.inner.clone(), Some(name), what)
    }

    /// A line as the usual path of text reads it: time, level, component, message, pairs.
    fn usual_text(&mut self) -> Option<()> {
        let (text, parsed) = (self.text, self.parsed);
        let stamp = parsed.time_at.map(PartPlace::bytes).filter(|at| at.start == 0)?.end;
        let level_at = parsed.level_at?.bytes();
        if level_at.start != stamp + 1 || !matches!(text.as_bytes().get(10), Some(b'T')) {
            return None;
        }
        let time = NamedValue { name: String::new(), inner: 0..stamp, kind: ValueKind::Bare };
        self.time(&time)?;
        is_offset(text.get(self.at..stamp)?).then_some(())?;
        let Some(LinePart::Level(case)) = self.hole(&level_at)? else { return None };
        let written = text.get(level_at.clone())?;
        let level = layout::usual_level(written).filter(|level| Some(*level) == parsed.record.level)?;
        let is_single = |end: usize, start: usize| text.get(end..start) == Some(" ");
        is_single(stamp, level_at.start).then_some(())?;
        self.add(level_at.clone(), None, ReadValue::Level(LevelReader::new(case, None, level)))?;
        let fields = &parsed.record.fields;
        let (mut start, mut gap) = (MessageStart::Word, " ");
        if let Some(Field { name, value: Value::String(Cow::Borrowed(word)) }) = fields.first()
            && name == "component"
            && let Some(at) = place_of(text, word).filter(|at| is_single(level_at.end, at.start))
        {
            let has_colon = layout::colon_name(text, at.start) == Some(word);
            let is_usual = match has_colon {
                true => layout::is_usual_colon_component(word),
                false => layout::is_usual_component(word),
            };
            is_usual.then_some(())?;
            let Some(LinePart::Field(0)) = self.hole(&at)? else { return None };
            self.add(at, Some(NamePlace::Given("component")), ReadValue::Component(vec![(*word).into()], has_colon))?;
            (start, gap) = if has_colon { (MessageStart::Any, ": ") } else { (MessageStart::Letter, " ") };
            self.fields = 1;
        }
        let message = place_of(text, &parsed.record.message).filter(|at| text.get(self.at..at.start) == Some(gap))?;
        let Some(LinePart::Message) = self.hole(&message)? else { return None };
        if message.end == text.len() {
            return self.add(message, None, ReadValue::Message(ValueEnd::Line(start)));
        }
        let pairs = pair_values(text, message.end + 1).filter(|_| text.as_bytes()[message.end] == b' ')?;
        let equals = pairs.first()?.inner.start;
        let equals = if text.as_bytes()[equals - 1] == b'"' { equals - 1 } else { equals };
        let end = ValueEnd::FirstPair(equals - message.end, start);
        self.add(message, None, ReadValue::Message(end))?;
        pairs.iter().try_for_each(|pair| self.field(pair, None))
    }
}

/// Whether a text is an offset from UTC as a time has at its end.
fn is_offset(text: &str) -> bool {
    match text.as_bytes() {
        [b'Z'] => true,
        [b'+' | b'-', h, i, b':', m, n] => [h, i, m, n].into_iter().all(u8::is_ascii_digit),
        _ => false,
    }
}

/// The pairs from a place on up to the end of the line, one space between them.
fn pair_values(text: &str, mut at: usize) -> Option<Vec<NamedValue>> {
    let mut values = Vec::new();
    while at < text.len() {
        let pair = pair_at(text, at)?;
        let (inner, kind) = match pair.value {
            PairValue::Bare(value) => (pair.end - value.len()..pair.end, ValueKind::Bare),
            PairValue::Quoted(value) => (pair.end + 1 - value.len()..pair.end - 1, ValueKind::Quoted),
        };
        values.push(NamedValue { name: pair.key.to_owned(), inner, kind });
        at = skip_spaces(text.as_bytes(), pair.end);
    }
    Some(values)
}

/// The values of an object that the parser accepted, those of inner objects with the names of both.
fn json_values(text: &str) -> Option<Vec<NamedValue>> {
    let mut values = Vec::new();
    let at = skip_json_space(text.as_bytes(), 0);
    members(text, at, "", 0, &mut values)?;
    Some(values)
}

/// Adds the members of the object that begins at `at`, and returns the place after the object.
fn members(text: &str, at: usize, prefix: &str, depth: usize, values: &mut Vec<NamedValue>) -> Option<usize> {
    (depth < DEPTH_MAX).then_some(())?;
    let bytes = text.as_bytes();
    let mut at = skip_json_space(bytes, (*bytes.get(at)? == b'{').then_some(at + 1)?);
    while *bytes.get(at)? == b'"' {
        let name_end = string_end(bytes, at + 1)?;
        let name = text.get(at + 1..name_end - 1)?;
        (!name.contains('\\')).then_some(())?;
        let name = if prefix.is_empty() { name.to_owned() } else { format!("{prefix}.{name}") };
        let colon = skip_json_space(bytes, name_end);
        at = skip_json_space(bytes, (*bytes.get(colon)? == b':').then_some(colon + 1)?);
        let (inner, kind, end) = match bytes.get(at)? {
            b'"' => {
                let end = string_end(bytes, at + 1)?;
                (at + 1..end - 1, ValueKind::Quoted, end)
            }
            b'{' => {
                let before = values.len();
                let end = members(text, at, &name, depth + 1, values)?;
                if values.len() > before {
                    at = skip_json_space(bytes, end);
                    if bytes.get(at) == Some(&b',') {
                        at = skip_json_space(bytes, at + 1);
                    }
                    continue;
                }
                (at..end, ValueKind::Other, end)
            }
            // Arrays have no fixed number of values.
            b'[' => return None,
            first => {
                let is_in = |byte: &&u8| byte.is_ascii_alphanumeric() || matches!(byte, b'.' | b'-' | b'+');
                let end = at + bytes[at..].iter().take_while(is_in).count();
                let kind = match first {
                    b't' | b'f' => ValueKind::Boolean,
                    b'n' => ValueKind::Null,
                    _ => ValueKind::Bare,
                };
                (at..end, kind, end)
            }
        };
        values.push(NamedValue { name, inner, kind });
        at = skip_json_space(bytes, end);
        if bytes.get(at) == Some(&b',') {
            at = skip_json_space(bytes, at + 1);
        }
    }
    (bytes.get(at) == Some(&b'}')).then_some(at + 1)
}

fn skip_json_space(bytes: &[u8], at: usize) -> usize {
    let is_space = |byte: &&u8| matches!(byte, b' ' | b'\t' | b'\n' | b'\r');
    at + bytes.get(at..).map_or(0, |rest| rest.iter().take_while(is_space).count())
}
