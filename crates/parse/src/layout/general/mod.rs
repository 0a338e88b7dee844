//! The general rules: a timestamp near the start, perhaps a level, a component and a process, then the message.
//!
//! The rules name no logging library. A header is a sequence of tokens. The shape of a token (`shape`) and its
//! neighbours say what it means. Three steps run from left to right, and no step goes back beyond its own tokens:
//!
//! 1. **The time** (`lead`). It stands at the start, within the first brackets, or after a few tokens that are not
//!    prose: a file's name, a host, a number, a level.
//! 2. **The level** (`level`). It stands after the time, after a few tokens that can belong to a header. A level
//!    proves that they do: a number is the process, a group in brackets a thread, the last word the component.
//! 3. **The rest of the header** (`rest`; `columns` if `|` separates the parts): threads, source lines and the
//!    component. A component ends with `:`, stands before ` - `, is padded to a column, or is a dotted name after the
//!    level. The message follows.
//!
//! A word before a colon may also belong to the text (`failed: timeout`). If its letters do not decide, the previous
//! lines do: [`Habits`].

mod columns;
mod lead;
mod level;
mod rest;

use super::dotnet;
use super::habits::Habits;
use super::shape::{Token, WordKind, token};
use super::sketch::Sketch;
use crate::pairs::skip_spaces;
use crate::timestamp::{Form, FullTime, TimestampDefaults};
use daytable_model::record::Level;

/// Bytes of a line in which a time of day without a date begins.
const CLOCK_WITHIN: usize = 32;

/// The header of a line, and how far it is read.
pub(super) struct LineHeader<'a> {
    pub(super) line: &'a str,
    pub(super) at: usize,
    pub(super) sketch: Sketch<'a>,
    pub(super) form: Form,
    /// The mark after the time: `,`, `:`, `|` or 0.
    mark: u8,
    /// The place after the time.
    pub(super) after_time: usize,
    /// Whether tokens stand before the time.
    has_lead: bool,
    /// Whether the time may be a time of day alone.
    by_clock: bool,
    /// Whether a name with a colon stands at the component's place; `None` if the rules did not ask.
    pub(super) colon: Option<bool>,
    /// Whether level and component were padded to columns, as in a table.
    pub(super) is_padded: bool,
}

impl<'a> LineHeader<'a> {
    /// The header of a line with a time near its start.
    pub(super) fn timed(line: &'a str, defaults: &TimestampDefaults) -> Option<LineHeader<'a>> {
        let mut header = LineHeader::at(line, lead::beginning(line.as_bytes()));
        header.time(defaults)?;
        Some(header)
    }

    /// The same, where the full time at the start of the line may be known.
    #[inline]
    pub(super) fn timed_as_known(
        line: &'a str,
        known: FullTime,
        defaults: &TimestampDefaults,
    ) -> Option<LineHeader<'a>> {
        let mut header = LineHeader::at(line, 0);
        match known.stamp().filter(|stamp| header.is_border(0, stamp)) {
            Some(stamp) => header.take_stamp(stamp),
            None => return LineHeader::timed(line, defaults),
        }
        Some(header)
    }

    /// The header of a line with a time of day and a level, and no date.
    pub(super) fn clocked(line: &'a str, defaults: &TimestampDefaults, habits: &Habits) -> Option<LineHeader<'a>> {
        let begins = line.as_bytes().get(..line.len().min(CLOCK_WITHIN))?;
        let is_digit = |at: usize| begins.get(at).is_some_and(u8::is_ascii_digit);
        let is_clock = |colon: usize| colon > 0 && is_digit(colon - 1) && is_digit(colon + 1);
        memchr::memchr_iter(b':', begins).any(is_clock).then_some(())?;
        let mut header = LineHeader::at(line, skip_spaces(line.as_bytes(), 0));
        header.by_clock = true;
        header.time(defaults)?;
        let message = dotnet::read_at(line, skip_spaces(line.as_bytes(), header.at), &mut header.sketch);
        if let Some(message) = message {
            header.at = line.len() - message.len();
            return Some(header);
        }
        header.after_the_time(habits);
        header.sketch.level.is_some().then_some(header)
    }

    /// A header of which nothing is read yet.
    pub(super) fn at(line: &'a str, at: usize) -> LineHeader<'a> {
        let (sketch, form) = (Sketch::default(), Form::Other);
        LineHeader {
            line,
            at,
            sketch,
            form,
            mark: 0,
            after_time: at,
            has_lead: false,
            by_clock: false,
            colon: None,
            is_padded: false,
        }
    }

    /// Reads a time at the current place; false without one.
    pub(super) fn stamp(&mut self, defaults: &TimestampDefaults) -> bool {
        match self.stamp_at(self.at, defaults) {
            Some(stamp) => {
                self.take_stamp(stamp);
                true
            }
            None => false,
        }
    }

    /// Reads a time in brackets at the current place; false without one.
    pub(super) fn stamp_in_brackets(&mut self, defaults: &TimestampDefaults) -> bool {
        self.bytes().get(self.at) == Some(&b'[') && self.bracketed(defaults).is_some()
    }

    /// Whether the header is only a time at the very start with a space after it.
    pub(super) fn is_only_time(&self) -> bool {
        self.mark == 0 && !self.has_lead && self.sketch.is_bare() && self.sketch.level.is_none()
    }

    /// The header of a line that begins with a level and has no time.
    pub(super) fn untimed(line: &'a str, at: usize, level: (Level, usize, usize), habits: &Habits) -> LineHeader<'a> {
        let mut header = LineHeader::at(line, at);
        header.sketch.level(level.0, level.1, level.2);
        header.read_rest(None, habits);
        header
    }

    fn bytes(&self) -> &'a [u8] {
        self.line.as_bytes()
    }

    fn rest(&self) -> &'a str {
        self.line.get(self.at..).unwrap_or_default()
    }

    pub(super) fn skip(&mut self) {
        self.at = skip_spaces(self.bytes(), self.at);
    }

    pub(super) fn after_the_time(&mut self, habits: &Habits) {
        if self.mark == b'|' {
            return self.columns();
        }
        self.skip();
        if self.flag() {
            return;
        }
        let first = token(self.line, self.at);
        if self.sketch.level.is_none() {
            self.find_level(first);
        }
        self.read_rest(first, habits);
    }

    /// `id node component state 1084680778 1 text`: where columns end in seconds since the epoch and a number, the
    /// message begins after the number. A level in it is a word of the message.
    fn flag(&mut self) -> bool {
        if self.form != Form::Epoch || !self.has_lead || !self.sketch.has_component {
            return false;
        }
        let Some(Token { kind: WordKind::Number(number), mark: 0, end, .. }) = token(self.line, self.at) else {
            return false;
        };
        self.sketch.text("context", number);
        self.at = end;
        self.skip();
        true
    }
}
