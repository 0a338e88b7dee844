//! The original text of a record, rebuilt from the parts of the record.
//!
//! A parser extracts a time, a level, a message and fields from a line. The text between them is the *layout* of the
//! line: text with holes for the parts. Lines of one source have few layouts, so a page and a Parquet file store each
//! once. Some parts would not be written again with the same bytes (`1e5`, an escape, the ninth digit of a second).
//! The *verbatim* text of the record keeps such parts as they were written.
//!
//! ```text
//! line      {"msg":"disk full","free":1.50,"used":1e5}      Layout   {"msg":"%m","free":%.2(free),"used":%v}
//! Message   disk full      free 1.5      used 100000        Verbatim 1e5
//!
//! layout    := line [ %/ frame ] [ %^ before ] [ %$ after ]  |  line %@ shared [ %^ before ]
//! frame     := the bytes of the source, if they are not the line: a container runtime's text around the line,
//!              CRLF between the lines of a record, invalid UTF-8
//! before    := bytes between the previous record and this one, if there are any
//! after     := bytes that end the record; `\n` without this part
//! shared    := for records with interleaved lines: the bytes of all of them in the first record, no bytes in the others
//! ```
//!
//! | hole | written text | hole | written text |
//! |---|---|---|---|
//! | `%(name)` | a property | `%[name]` | the same, escaped as in JSON |
//! | `%m` | the property `Message` | `%j` | the same, escaped as in JSON |
//! | `%T(pattern)` | the time ([`TimePattern`]) | `%l`, `%L`, `%C` | the level as `warn`, `WARN`, `Warn` |
//! | `%v` | the next piece of the verbatim text | `%%` | `%` |
//! | `%.2(name)` | a fraction, with zeros to at least 2 decimals | `%~` | nothing: words may cross the borders of values |
//! | `%<`, `%>` | nothing: the borders of the whole message | `%0` to `%4` | in a frame: the line ([`FrameForm`]) |
//! | `%&START+LENGTH;` | nothing: these bytes of `Message` are the message without its pairs, in a record of several rows | | |
//!
//! The pieces of the verbatim text are separated by U+001F. U+001E and two hexadecimal digits encode a byte.
//!
//! Claims, tested in the modules that parse and store lines: a layout is stored only if it reproduces the exact bytes;
//! the line of a record without a layout is its message.

mod escapes;
mod renamed;
mod row_parts;
mod time_pattern;

pub use escapes::{json_without_escapes, with_fewest_escapes, without_escapes};
pub use renamed::renamed_layout;
pub use row_parts::RowParts;
pub use time_pattern::{KnownTime, TimePattern};

use crate::level::Level;
use crate::property::{Property, TypedValue, property_name, to_hex};
use crate::time::Ticks;
use crate::words::in_lower_case;
use std::borrow::Cow;
use std::io::Write as _;
use std::ops::{Deref, Range};
use std::sync::Arc;

/// The property with the layout of a record's line.
pub const LAYOUT: &str = "Layout";
/// The property with the pieces of a line that no other property reproduces.
pub const VERBATIM: &str = "Verbatim";
/// The longest layout that is stored. A longer text would differ in each record, so it is not stored as a layout.
pub const LAYOUT_BYTES_MAX: usize = 8 << 10;
/// Begins a layout in which a word may cross the border of a value.
pub const TIGHT: &str = "%~";
/// Begins the whole message in a layout, where that is more than the property `Message`.
pub const MESSAGE_START: &str = "%<";
/// Separates the pieces of the verbatim text.
pub const PIECE_END: char = '\u{1f}';
/// Begins the place of the short message in the property `Message`.
const SHORT: &str = "%&";
/// Begins an escaped byte of a piece.
const ESCAPE: char = '\u{1e}';

/// A layout without the place of the short message, which is another one in each record and means nothing to a search.
pub fn without_short(layout: &str) -> &str {
    layout.strip_prefix(SHORT).and_then(|rest| rest.split_once(';')).map_or(layout, |(_, rest)| rest)
}

/// A layout, and the names of the fields of the records that have it. Records of one source share it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SharedLayout {
    layout: Box<str>,
    /// `None` if the fields of its records differ.
    names: Option<Box<[Box<str>]>>,
    /// The properties of these fields, if some have a number because their names are equal.
    numbered: Box<[Box<str>]>,
}

impl SharedLayout {
    /// A layout for records with fields of these names, in this order, which rows give these properties.
    pub fn with_names(layout: &str, names: Box<[Box<str>]>, properties: Vec<Box<str>>) -> SharedLayout {
        let is_numbered = names.iter().zip(&properties).any(|(name, property)| property_name(name) != **property);
        let numbered = if is_numbered { properties.into() } else { Box::default() };
        SharedLayout { layout: layout.into(), names: Some(names), numbered }
    }

    /// The same layout with more text at its end.
    pub fn followed_by(&self, rest: &str) -> SharedLayout {
        SharedLayout { layout: [&*self.layout, rest].concat().into(), ..self.clone() }
    }

    /// The names of the fields, if all records with this layout have the same.
    pub fn names(&self) -> Option<&[Box<str>]> {
        self.names.as_deref()
    }

    /// The properties of the fields, if some differ from the property of their name.
    pub fn numbered(&self) -> &[Box<str>] {
        &self.numbered
    }
}

impl From<&str> for SharedLayout {
    fn from(layout: &str) -> SharedLayout {
        SharedLayout { layout: layout.into(), ..SharedLayout::default() }
    }
}

impl Deref for SharedLayout {
    type Target = str;

    fn deref(&self) -> &str {
        &self.layout
    }
}

/// The text of a record as its source wrote it, as layout and verbatim text.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenLine<'a> {
    /// The layout. With names, they are those of the record's fields.
    pub layout: Arc<SharedLayout>,
    /// The verbatim text; empty if the layout has no piece of it.
    pub verbatim: String,
    /// Where the frame, and the parts after it, begin in the layout and in the verbatim text.
    pub frame: (usize, usize),
    /// The line itself. It is stored if the layout no longer fits.
    pub text: Cow<'a, str>,
    /// The range of the whole message in the line, if it is more than the message of the record.
    pub message: Option<Range<usize>>,
    /// The time and the level from which the layout was made.
    pub made_with: (Option<Ticks>, Option<Level>),
}

impl WrittenLine<'_> {
    /// The layout and verbatim text that keep the whole line verbatim: for a record whose parts were changed after
    /// parsing.
    pub fn whole(&self) -> (String, String) {
        self.framed(whole_line(&self.text, self.message.clone()))
    }

    /// The whole message, and the layout and verbatim text for a record that has it as its message. The layout says where
    /// `short` is in it, the message of the record. `None` if that message is whole.
    pub fn around_message(&self, short: &str) -> Option<(&str, (String, String))> {
        let at = self.message.clone()?;
        let whole = self.text.get(at.clone())?;
        let mark = whole.find(short).map(|start| format!("{SHORT}{start}+{};", short.len())).unwrap_or_default();
        let mut verbatim = String::new();
        push_piece(&mut verbatim, self.text.get(..at.start)?.as_bytes());
        verbatim.push(PIECE_END);
        push_piece(&mut verbatim, self.text.get(at.end..)?.as_bytes());
        Some((whole, self.framed((format!("{mark}%v%m%v"), verbatim))))
    }

    /// A layout and verbatim text of the line, with its frame.
    fn framed(&self, (mut layout, mut verbatim): (String, String)) -> (String, String) {
        let frame = self.layout.get(self.frame.0..).unwrap_or_default();
        layout.push_str(frame);
        if let Some(rest) = self.verbatim.get(self.frame.1..).filter(|_| frame.contains("%v") || frame.contains("%3")) {
            verbatim.push(PIECE_END);
            verbatim.push_str(rest);
        }
        (layout, verbatim)
    }

    /// Whether the line can be rebuilt for a record with this time and level.
    #[inline]
    pub fn is_of(&self, time: Ticks, level: Option<Level>) -> bool {
        self.made_with.0.is_none_or(|made| made == time) && self.made_with.1.is_none_or(|made| Some(made) == level)
    }

    /// The layout and verbatim text for a record whose time or level was changed after parsing: the written time
    /// becomes verbatim text, and the written level text of the layout.
    pub fn changed(&self, time: Ticks, level: Option<Level>) -> (String, String) {
        self.adapted(time, level).unwrap_or_else(|| self.whole())
    }

    fn adapted(&self, time: Ticks, level: Option<Level>) -> Option<(String, String)> {
        let (made_time, made_level) = self.made_with;
        let layout = match made_level.filter(|_| made_level != level) {
            Some(made) => Cow::Owned(with_literal_level(&self.layout, made)),
            None => Cow::Borrowed(&**self.layout),
        };
        match made_time.filter(|made| *made != time) {
            Some(made) => with_verbatim_time(&layout, &self.verbatim, made),
            None => Some((layout.into_owned(), self.verbatim.clone())),
        }
    }
}

/// The parts of a record that the holes of a layout name.
pub trait LineSource {
    /// The time of the record.
    fn time(&self) -> Ticks;
    /// Its level.
    fn level(&self) -> Option<Level>;
    /// A property by its name.
    fn property(&self, name: &str) -> Option<Property<'_>>;
}

/// The encoding of the line in the bytes of its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameForm {
    /// Unchanged.
    Plain = 0,
    /// Escaped as in JSON.
    Json = 1,
    /// With CRLF for each newline.
    CrLf = 2,
    /// Each replacement character is the next part of the next piece of the verbatim text.
    Invalid = 3,
    /// Escaped as in JSON by Go, which escapes `<`, `>` and `&` too.
    GoJson = 4,
}

impl FrameForm {
    /// Every form, by its number.
    pub const ALL: [FrameForm; 5] =
        [FrameForm::Plain, FrameForm::Json, FrameForm::CrLf, FrameForm::Invalid, FrameForm::GoJson];

    /// Writes a line in this form. `piece` is the next piece of the verbatim text.
    fn write(self, line: &[u8], piece: &str, out: &mut Vec<u8>) {
        match self {
            FrameForm::Plain => out.extend_from_slice(line),
            FrameForm::Json => escape_json(line, false, out),
            FrameForm::GoJson => escape_json(line, true, out),
            FrameForm::CrLf => {
                for byte in line {
                    if *byte == b'\n' {
                        out.push(b'\r');
                    }
                    out.push(*byte);
                }
            }
            FrameForm::Invalid => {
                let mut bytes = Vec::new();
                unescape(piece, &mut bytes);
                let (mut parts, mut rest) = (bytes.as_slice(), line);
                while let Some(at) = memchr::memmem::find(rest, REPLACEMENT.as_bytes()) {
                    out.extend_from_slice(&rest[..at]);
                    if let [length, tail @ ..] = parts
                        && let Some((part, tail)) = tail.split_at_checked(usize::from(length.wrapping_sub(b'0')))
                    {
                        out.extend_from_slice(part);
                        parts = tail;
                    }
                    rest = &rest[at + REPLACEMENT.len()..];
                }
                out.extend_from_slice(rest);
            }
        }
    }
}

/// The replacement of invalid UTF-8 in a text.
const REPLACEMENT: &str = "\u{fffd}";

/// The case of a written level.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LevelCase {
    /// `warn`
    Lower,
    /// `WARN`
    Upper,
    /// `Warn`
    Capital,
}

impl LevelCase {
    /// Every case.
    pub const ALL: [LevelCase; 3] = [LevelCase::Lower, LevelCase::Upper, LevelCase::Capital];

    /// The letter after `%`.
    pub const fn code(self) -> char {
        match self {
            LevelCase::Lower => 'l',
            LevelCase::Upper => 'L',
            LevelCase::Capital => 'C',
        }
    }

    /// The name of a level in this case.
    pub const fn name(self, level: Level) -> &'static str {
        const UPPER: [&str; 9] = ["TRACE", "DEBUG", "INFO", "NOTICE", "WARN", "ERROR", "CRITICAL", "ALERT", "FATAL"];
        const CAPITAL: [&str; 9] = ["Trace", "Debug", "Info", "Notice", "Warn", "Error", "Critical", "Alert", "Fatal"];
        match self {
            LevelCase::Lower => level.name(),
            LevelCase::Upper => UPPER[level.code() as usize - 1],
            LevelCase::Capital => CAPITAL[level.code() as usize - 1],
        }
    }
}

/// A part of a layout.
#[derive(Clone, Debug, PartialEq)]
pub enum LayoutPart {
    /// Literal text.
    Literal(Box<str>),
    /// A property, escaped as in JSON if the flag says so.
    Property(Box<str>, bool),
    /// A number with a fraction, and how many decimals it has at least.
    Decimals(Box<str>, u8),
    /// The time.
    Time(TimePattern),
    /// The level.
    Level(LevelCase),
    /// A piece of the verbatim text.
    Verbatim,
    /// The whole message begins.
    MessageStart,
    /// The whole message ends.
    MessageEnd,
    /// The line, in a frame.
    Line(FrameForm),
}

/// A layout, ready to write lines.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LineLayout {
    line: Vec<LayoutPart>,
    frame: Option<Vec<LayoutPart>>,
    /// All bytes of the source, if they belong to several records.
    shared: Option<Vec<LayoutPart>>,
    before: Box<str>,
    after: Option<Box<str>>,
    /// Where the message without its pairs is in the property `Message`, if that is the whole message.
    short_message: Option<Range<usize>>,
}

impl LineLayout {
    /// Parses a layout. Text outside holes is literal.
    pub fn parse(text: &str) -> LineLayout {
        let mut layout = LineLayout::default();
        let mut section = b' ';
        let (mut literal, mut parts) = (String::new(), Vec::new());
        let mut rest = text;
        while let Some(at) = rest.find('%') {
            literal.push_str(&rest[..at]);
            rest = &rest[at + 1..];
            let Some(code) = rest.bytes().next().filter(u8::is_ascii) else {
                literal.push('%');
                continue;
            };
            rest = &rest[1..];
            let mut argument = |end: char| {
                let (head, tail) = rest.split_once(end)?;
                rest = tail;
                Some(head)
            };
            let part = match code {
                b'%' => {
                    literal.push('%');
                    continue;
                }
                b'/' | b'@' | b'^' | b'$' => {
                    layout.close(section, &mut literal, &mut parts);
                    section = code;
                    continue;
                }
                b'&' => {
                    layout.short_message = argument(';').and_then(|place| {
                        let (start, length) = place.split_once('+')?;
                        let start = start.parse::<usize>().ok()?;
                        Some(start..start.checked_add(length.parse().ok()?)?)
                    });
                    continue;
                }
                b'(' => argument(')').map(|name| LayoutPart::Property(name.into(), false)),
                b'[' => argument(']').map(|name| LayoutPart::Property(name.into(), true)),
                b'.' => argument(')').and_then(|hole| {
                    let (decimals, name) = hole.split_once('(')?;
                    Some(LayoutPart::Decimals(name.into(), decimals.parse().ok()?))
                }),
                b'm' => Some(LayoutPart::Property("Message".into(), false)),
                b'j' => Some(LayoutPart::Property("Message".into(), true)),
                b'T' => time_pattern(&mut rest).map(LayoutPart::Time),
                b'v' => Some(LayoutPart::Verbatim),
                b'<' => Some(LayoutPart::MessageStart),
                b'>' => Some(LayoutPart::MessageEnd),
                b'0'..=b'4' => Some(LayoutPart::Line(FrameForm::ALL[usize::from(code - b'0')])),
                _ => LevelCase::ALL.into_iter().find(|case| case.code() == char::from(code)).map(LayoutPart::Level),
            };
            if let Some(part) = part {
                if !literal.is_empty() {
                    parts.push(LayoutPart::Literal(std::mem::take(&mut literal).into()));
                }
                parts.push(part);
            }
        }
        literal.push_str(rest);
        layout.close(section, &mut literal, &mut parts);
        layout
    }

    fn close(&mut self, section: u8, literal: &mut String, parts: &mut Vec<LayoutPart>) {
        let text = std::mem::take(literal);
        match section {
            b'^' => self.before = text.into(),
            b'$' => self.after = Some(text.into()),
            _ => {
                if !text.is_empty() {
                    parts.push(LayoutPart::Literal(text.into()));
                }
                let parts = std::mem::take(parts);
                match section {
                    b'/' => self.frame = Some(parts),
                    b'@' => self.shared = Some(parts),
                    _ => self.line = parts,
                }
            }
        }
    }

    /// The parts of the line.
    pub fn parts(&self) -> &[LayoutPart] {
        &self.line
    }

    /// Whether the whole message is more than the property `Message`.
    pub fn has_message(&self) -> bool {
        self.line.contains(&LayoutPart::MessageStart)
    }

    /// Where the message without its pairs is in the property `Message`, if that is the whole message.
    pub fn short_message(&self) -> Option<Range<usize>> {
        self.short_message.clone()
    }

    /// Writes the line. Returns the range of the whole message, if that is more than the property `Message`.
    pub fn write_line(&self, source: &impl LineSource, verbatim: &str, out: &mut Vec<u8>) -> Option<Range<usize>> {
        write_parts(&self.line, source, &mut pieces(verbatim), &[], out)
    }

    /// Writes the bytes of the source for this record, without the end of line.
    pub fn write_raw(&self, source: &impl LineSource, verbatim: &str, out: &mut Vec<u8>) {
        let mut pieces = pieces(verbatim);
        let Some(frame) = &self.frame else {
            write_parts(&self.line, source, &mut pieces, &[], out);
            return;
        };
        let mut line = Vec::new();
        write_parts(&self.line, source, &mut pieces, &[], &mut line);
        write_parts(frame, source, &mut pieces, &line, out);
    }

    /// The bytes between the record before and this one.
    pub fn before(&self) -> &str {
        &self.before
    }

    /// Writes all bytes that the source had from the end of the record before to the end of this one.
    pub fn write_all(&self, source: &impl LineSource, verbatim: &str, out: &mut Vec<u8>) {
        out.extend_from_slice(self.before.as_bytes());
        if let Some(shared) = &self.shared {
            let mut pieces = pieces(verbatim);
            // The pieces of the line come first.
            write_parts(&self.line, source, &mut pieces, &[], &mut Vec::new());
            write_parts(shared, source, &mut pieces, &[], out);
            return;
        }
        self.write_raw(source, verbatim, out);
        out.extend_from_slice(self.after.as_deref().unwrap_or("\n").as_bytes());
    }
}

/// Whether a line of this layout may contain `text` although no value of its record does: across the border of a value,
/// in the text of the layout, or in a part whose written form differs from its stored form. False only if it cannot.
pub fn may_cross(layout: &str, text: &str) -> bool {
    may_lie_outside(layout, text, true, false)
}

/// The same for a word of ASCII letters in lower case that may be written in any case.
pub fn may_cross_in_any_case(layout: &str, word: &str) -> bool {
    may_lie_outside(layout, word, true, true)
}

/// The same for a text that is not within a value as it is, nor escaped as in JSON.
pub fn may_cross_escaped(layout: &str, text: &str) -> bool {
    may_lie_outside(layout, text, false, false)
}

fn may_lie_outside(layout: &str, text: &str, minds_escapes: bool, in_any_case: bool) -> bool {
    let text = text.as_bytes();
    if text.is_empty() || text.contains(&(ESCAPE as u8)) || text.contains(&(PIECE_END as u8)) {
        return true;
    }
    let parsed = LineLayout::parse(layout);
    let marks = |part: &&LayoutPart| !matches!(part, LayoutPart::MessageStart | LayoutPart::MessageEnd);
    let mut is_after_hole = false;
    let mut parts = parsed.line.iter().filter(marks).peekable();
    while let Some(part) = parts.next() {
        let is_before_hole = parts.peek().is_some_and(|next| !matches!(next, LayoutPart::Literal(_)));
        match part {
            LayoutPart::Literal(literal) => {
                let folded = in_any_case.then(|| in_lower_case(literal));
                let literal = folded.as_ref().map_or(literal.as_bytes(), String::as_bytes);
                let ends = |length: &usize| is_before_hole && literal.ends_with(&text[..*length]);
                let begins = |length: &usize| is_after_hole && literal.starts_with(&text[text.len() - length..]);
                let is_inside = memchr::memmem::find(literal, text).is_some();
                let is_across = is_before_hole && is_after_hole && memchr::memmem::find(text, literal).is_some();
                let shorter = 1..text.len().min(literal.len() + 1);
                if is_inside || is_across || shorter.clone().any(|length| ends(&length) || begins(&length)) {
                    return true;
                }
            }
            part => {
                let is_tight = is_before_hole && text.len() > 1;
                let is_escaped = matches!(part, LayoutPart::Property(_, true));
                let is_otherwise = match in_any_case {
                    true => in_each_case(text).iter().any(|text| is_written_otherwise(part, text)),
                    false => is_written_otherwise(part, text),
                };
                if is_tight || is_otherwise && (minds_escapes || !is_escaped) {
                    return true;
                }
            }
        }
        is_after_hole = !matches!(part, LayoutPart::Literal(_));
    }
    false
}

/// A word in lower and in upper case, and with a capital: the cases that names of levels, months and days have.
fn in_each_case(word: &[u8]) -> [Vec<u8>; 3] {
    let mut capital = word.to_ascii_lowercase();
    capital[..word.len().min(1)].make_ascii_uppercase();
    [word.to_ascii_lowercase(), word.to_ascii_uppercase(), capital]
}

/// Whether the written form of a part may contain `text` although no value does.
fn is_written_otherwise(part: &LayoutPart, text: &[u8]) -> bool {
    match part {
        LayoutPart::Literal(_) | LayoutPart::Verbatim | LayoutPart::MessageStart | LayoutPart::MessageEnd => false,
        LayoutPart::Property(_, false) => false,
        // A text within the number that reaches its further zeros ends there.
        LayoutPart::Decimals(..) => {
            matches!(text, [.., b'0' | b'.'])
                && text.iter().all(|byte| byte.is_ascii_digit() || matches!(byte, b'.' | b'-'))
        }
        // The text may begin within an escape, after its backslash.
        LayoutPart::Property(_, true) => {
            text.contains(&b'\\')
                || matches!(text[0], b'"' | b'n' | b'r' | b't' | b'b' | b'f' | b'u')
                || text[0].is_ascii_hexdigit()
        }
        LayoutPart::Level(case) => {
            Level::ALL.into_iter().any(|level| memchr::memmem::find(case.name(level).as_bytes(), text).is_some())
        }
        LayoutPart::Time(pattern) => pattern.may_have(text),
        LayoutPart::Line(_) => true,
    }
}

fn pieces(verbatim: &str) -> std::str::Split<'_, char> {
    verbatim.split(PIECE_END)
}

/// The holes of the line of a layout: the place and the letter of each, and the place after it. A frame has no hole
/// that is asked for here.
fn holes(layout: &str) -> impl Iterator<Item = (usize, u8, usize)> {
    let mut next = 0;
    std::iter::from_fn(move || {
        let at = next + layout.get(next..)?.find('%')?;
        let mut rest = layout.get(at + 1..)?;
        let code = rest.chars().next()?;
        rest = &rest[code.len_utf8()..];
        match code {
            '/' | '^' | '$' | '@' => return None,
            '(' | '.' => rest = rest.split_once(')')?.1,
            '&' => rest = rest.split_once(';')?.1,
            '[' => rest = rest.split_once(']')?.1,
            'T' => _ = time_pattern(&mut rest)?,
            _ => {}
        }
        next = layout.len() - rest.len();
        Some((at, u8::try_from(code).unwrap_or_default(), next))
    })
}

/// A layout with this level as text, in place of holes for the level.
fn with_literal_level(layout: &str, level: Level) -> String {
    let (mut changed, mut at) = (String::with_capacity(layout.len() + 8), 0);
    for (start, code, end) in holes(layout) {
        if let Some(case) = LevelCase::ALL.into_iter().find(|case| case.code() == char::from(code)) {
            changed.push_str(&layout[at..start]);
            changed.push_str(case.name(level));
            at = end;
        }
    }
    changed.push_str(&layout[at..]);
    changed
}

/// A layout with the written time as verbatim text, in place of its only hole for a time. `made` is that time.
fn with_verbatim_time(layout: &str, verbatim: &str, made: Ticks) -> Option<(String, String)> {
    let mut times = holes(layout).filter(|(_, code, _)| *code == b'T');
    let (start, _, end) = times.next().filter(|_| times.next().is_none())?;
    let mut hole = layout.get(start + 2..end)?;
    let mut written = Vec::new();
    time_pattern(&mut hole)?.write(made, &mut written);
    let mut piece = String::new();
    push_piece(&mut piece, &written);
    let before = holes(layout).filter(|(at, code, _)| *at < start && *code == b'v').count();
    let rest = layout.get(end..)?;
    let has_pieces = !verbatim.is_empty() || before > 0 || rest.contains("%v") || rest.contains("%3");
    let mut pieces: Vec<&str> = if has_pieces { pieces(verbatim).collect() } else { Vec::new() };
    pieces.insert(before.min(pieces.len()), &piece);
    let layout = [layout.get(..start)?, "%v", rest].concat();
    Some((layout, pieces.join(PIECE_END.encode_utf8(&mut [0; 4]))))
}

fn time_pattern(rest: &mut &str) -> Option<TimePattern> {
    let inner = rest.strip_prefix('(')?;
    let mut is_quoted = false;
    let end = inner.bytes().position(|byte| {
        let ends = byte == b')' && !is_quoted;
        is_quoted = byte == b'\'' && !is_quoted;
        ends
    })?;
    *rest = &inner[end + 1..];
    TimePattern::parse(&inner[..end])
}

fn write_parts(
    parts: &[LayoutPart],
    source: &impl LineSource,
    pieces: &mut std::str::Split<'_, char>,
    line: &[u8],
    out: &mut Vec<u8>,
) -> Option<Range<usize>> {
    let (mut start, mut message) = (out.len(), None);
    let base = out.len();
    for part in parts {
        match part {
            LayoutPart::Literal(text) => out.extend_from_slice(text.as_bytes()),
            LayoutPart::Property(name, is_escaped) => {
                if let Some(value) = source.property(name) {
                    match value {
                        TypedValue::String(text) if *is_escaped => escape_json(text.as_bytes(), false, out),
                        value => write_value(value, out),
                    }
                }
            }
            LayoutPart::Decimals(name, decimals) => {
                let value = source.property(name);
                let start = out.len();
                value.into_iter().for_each(|value| write_value(value, out));
                if matches!(value, Some(TypedValue::Double(number)) if number.is_finite()) {
                    pad_decimals(usize::from(*decimals), start, out);
                }
            }
            LayoutPart::Time(pattern) => pattern.write(source.time(), out),
            LayoutPart::Level(case) => {
                out.extend_from_slice(source.level().map_or("", |level| case.name(level)).as_bytes());
            }
            LayoutPart::Verbatim => unescape(pieces.next().unwrap_or_default(), out),
            LayoutPart::MessageStart => start = out.len(),
            LayoutPart::MessageEnd => message = Some(start - base..out.len() - base),
            LayoutPart::Line(form) => {
                let piece = if *form == FrameForm::Invalid { pieces.next() } else { None };
                form.write(line, piece.unwrap_or_default(), out);
            }
        }
    }
    message
}

/// Writes a value as in a line: text unchanged, a number in decimal digits.
pub fn write_value(value: Property<'_>, out: &mut Vec<u8>) {
    // Writing to a vector cannot fail.
    let _ = match value {
        TypedValue::String(text) => {
            out.extend_from_slice(text.as_bytes());
            Ok(())
        }
        TypedValue::Int64(number) => write!(out, "{number}"),
        TypedValue::Int32(number) => write!(out, "{number}"),
        TypedValue::Double(number) => write!(out, "{number}"),
        TypedValue::Boolean(is) => write!(out, "{is}"),
        TypedValue::DateTime(time) => write!(out, "{time}"),
        TypedValue::Guid(guid) => write!(out, "{}", to_hex(&guid)),
        TypedValue::Binary(bytes) => write!(out, "{}", to_hex(bytes)),
    };
}

/// Appends zeros to the number from `start` on, up to this many decimals.
fn pad_decimals(decimals: usize, start: usize, out: &mut Vec<u8>) {
    let there = match out[start..].iter().position(|byte| *byte == b'.') {
        Some(point) => out.len() - start - point - 1,
        None if decimals > 0 => {
            out.push(b'.');
            0
        }
        None => return,
    };
    out.resize(out.len() + decimals.saturating_sub(there), b'0');
}

/// The layout and the verbatim text that keep a whole line verbatim. `message` is the range of the whole message, if
/// that is more than the message of the record.
pub fn whole_line(text: &str, message: Option<Range<usize>>) -> (String, String) {
    let mut verbatim = String::with_capacity(text.len() + 2);
    let layout = match message.and_then(|at| Some([text.get(..at.start)?, text.get(at.clone())?, text.get(at.end..)?]))
    {
        Some(parts) => {
            for (number, part) in parts.into_iter().enumerate() {
                if number > 0 {
                    verbatim.push(PIECE_END);
                }
                push_piece(&mut verbatim, part.as_bytes());
            }
            "%v%<%v%>%v"
        }
        None => {
            push_piece(&mut verbatim, text.as_bytes());
            "%v"
        }
    };
    (layout.to_owned(), verbatim)
}

/// Appends literal text to a layout.
pub fn push_literal(layout: &mut String, text: &str) {
    for (at, part) in text.split('%').enumerate() {
        if at > 0 {
            layout.push_str("%%");
        }
        layout.push_str(part);
    }
}

/// Appends a piece to a verbatim text. The caller separates pieces by [`PIECE_END`].
pub fn push_piece(verbatim: &mut String, bytes: &[u8]) {
    for chunk in bytes.utf8_chunks() {
        for c in chunk.valid().chars() {
            match c {
                PIECE_END | ESCAPE => verbatim.push_str(if c == ESCAPE { "\u{1e}1e" } else { "\u{1e}1f" }),
                c => verbatim.push(c),
            }
        }
        for byte in chunk.invalid() {
            verbatim.push(ESCAPE);
            verbatim.push_str(&to_hex(&[*byte]));
        }
    }
}

/// The piece for [`FrameForm::Invalid`]: the original bytes of each replacement character, each with its length before
/// it.
pub fn invalid_piece(bytes: &[u8]) -> Vec<u8> {
    let mut piece = Vec::new();
    for chunk in bytes.utf8_chunks() {
        for _ in chunk.valid().matches(REPLACEMENT) {
            piece.push(b'3');
            piece.extend_from_slice(REPLACEMENT.as_bytes());
        }
        if !chunk.invalid().is_empty() {
            // At most three bytes are replaced at once.
            piece.push(b'0' + chunk.invalid().len() as u8);
            piece.extend_from_slice(chunk.invalid());
        }
    }
    piece
}

fn unescape(piece: &str, out: &mut Vec<u8>) {
    let mut rest = piece.as_bytes();
    while let Some(at) = memchr::memchr(ESCAPE as u8, rest) {
        out.extend_from_slice(&rest[..at]);
        let digit = |at: usize| rest.get(at).and_then(|byte| char::from(*byte).to_digit(16));
        match (digit(at + 1), digit(at + 2)) {
            (Some(high), Some(low)) => {
                out.push((high * 16 + low) as u8);
                rest = &rest[at + 3..];
            }
            _ => {
                out.push(ESCAPE as u8);
                rest = &rest[at + 1..];
            }
        }
    }
    out.extend_from_slice(rest);
}

/// Writes text as the inside of a JSON string, with the fewest possible escapes; `is_go` adds those of Go.
pub fn escape_json(text: &[u8], is_go: bool, out: &mut Vec<u8>) {
    for &byte in text {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            8 if !is_go => out.extend_from_slice(b"\\b"),
            12 if !is_go => out.extend_from_slice(b"\\f"),
            b'<' | b'>' | b'&' if is_go => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(to_hex(&[byte]).as_bytes());
            }
            0..0x20 => {
                out.extend_from_slice(b"\\u00");
                out.extend_from_slice(to_hex(&[byte]).as_bytes());
            }
            byte => out.push(byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::property::OwnedValue;
    use proptest::prelude::*;

    struct Parts(Vec<(&'static str, OwnedValue)>);

    impl LineSource for Parts {
        fn time(&self) -> Ticks {
            Ticks::UNIX_EPOCH
        }

        fn level(&self) -> Option<Level> {
            Some(Level::Warn)
        }

        fn property(&self, name: &str) -> Option<Property<'_>> {
            self.0.iter().find(|(known, _)| *known == name).map(|(_, value)| value.as_property())
        }
    }

    #[test]
    fn layouts_and_their_lines() {
        let text = |text: &str| OwnedValue::String(text.into());
        let parts =
            Parts(vec![("Message", text("a \"b\"")), ("n", OwnedValue::Int64(-7)), ("x", OwnedValue::Double(0.5))]);
        for (layout, verbatim, line, all) in [
            ("%T(0;Y-m-d) %L %m n=%(n)%%", "", "1970-01-01 WARN a \"b\" n=-7%", "1970-01-01 WARN a \"b\" n=-7%\n"),
            (
                "{\"m\":\"%j\",\"x\":%(x)}%$\r\n",
                "",
                "{\"m\":\"a \\\"b\\\"\",\"x\":0.5}",
                "{\"m\":\"a \\\"b\\\"\",\"x\":0.5}\r\n",
            ),
            ("%v-%v%/<%0>%v%^\n%$", "1\u{1f}2\u{1f}\u{1e}ff", "1-2", "\n<1-2>\u{fffd}"),
            ("%l %C%", "", "warn Warn%", "warn Warn%\n"),
            ("%.3(x) %.1(x) %.2(n) %.2(none)%.x(n)", "", "0.500 0.5 -7 ", "0.500 0.5 -7 \n"),
            ("%(none)%T(x", "", "x", "x\n"),
        ] {
            let parsed = LineLayout::parse(layout);
            let (mut written, mut whole) = (Vec::new(), Vec::new());
            parsed.write_line(&parts, verbatim, &mut written);
            parsed.write_all(&parts, verbatim, &mut whole);
            let shown = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
            if layout != "%(none)%T(x" {
                assert_eq!((shown(&written), shown(&whole)), (line.into(), all.into()), "{layout}");
            }
        }
        let mut line = Vec::new();
        let message = LineLayout::parse("%l %<%(n) %>!").write_line(&parts, "", &mut line);
        assert_eq!((line.as_slice(), message), (&b"warn -7 !"[..], Some(5..8)));
    }

    proptest! {
        /// Any text is a layout, and literal text is written unchanged.
        #[test]
        fn any_text_is_a_layout(text in "[%/^$a(){}T;'v0-9<>\\[\\]l]{0,20}|.{0,20}") {
            LineLayout::parse(&text);
            let mut layout = String::new();
            push_literal(&mut layout, &text);
            let mut line = Vec::new();
            LineLayout::parse(&layout).write_line(&Parts(Vec::new()), "", &mut line);
            prop_assert_eq!(line, text.as_bytes());
        }

        /// Any bytes are read back from a piece, and from the replaced parts of a text.
        #[test]
        fn any_bytes_are_a_piece(bytes in proptest::collection::vec(any::<u8>(), 0..20), text in "[\u{1e}\u{1f}a\u{fffd}]{0,9}") {
            for bytes in [bytes.as_slice(), text.as_bytes()] {
                let mut verbatim = String::new();
                push_piece(&mut verbatim, bytes);
                prop_assert!(!verbatim.contains(PIECE_END));
                let mut back = Vec::new();
                unescape(&verbatim, &mut back);
                prop_assert_eq!(&back, bytes);
                back.clear();
                let lossy = String::from_utf8_lossy(bytes);
                verbatim.clear();
                push_piece(&mut verbatim, &invalid_piece(bytes));
                FrameForm::Invalid.write(lossy.as_bytes(), &verbatim, &mut back);
                prop_assert_eq!(&back, bytes);
            }
        }
    }
}
