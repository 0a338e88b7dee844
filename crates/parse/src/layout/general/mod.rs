//! The general case: a timestamp near the start, perhaps a level, a component, a process, and then the message.
//!
//! No logging library is known by name here. A header is a row of tokens; what a token is, its shape says (`shape`), and
//! what its neighbours are. Three steps, from left to right, none of which goes back further than its own tokens:
//!
//! 1. **The time.** At the start, within the first brackets, or behind a few tokens that are no prose (`lead`): a
//!    file's name, a host, a number, a level.
//! 2. **The level.** Behind the time, with a few tokens between that can belong to a header (`level`). A level proves
//!    that they do: a number is the process, what is in brackets a thread, the last word the component.
//! 3. **The rest of the header** (`rest`, and `columns` where `|` stands between its parts): threads, source lines, the component, which ends with `:`, or stands before ` - `, or is
//!    padded to a column, or is a dotted name behind the level. Then comes the message.
//!
//! A word before a colon may as well belong to the text (`failed: timeout`). Where its letters do not tell, the lines
//! before do: [`Habits`].

mod columns;
mod lead;
mod level;
mod rest;

use super::habits::Habits;
use super::sketch::Sketch;
use crate::pairs::skip_spaces;
use crate::timestamp::{Form, TimestampDefaults};
use daytable_model::record::Level;

/// The header of a line, and how far it is read.
pub(super) struct LineHeader<'a> {
    pub(super) line: &'a str,
    pub(super) at: usize,
    pub(super) sketch: Sketch<'a>,
    pub(super) form: Form,
    /// The mark behind the time: `,`, `:`, `|` or 0.
    mark: u8,
    /// Whether other tokens came before the time.
    has_lead: bool,
    /// Whether a name with a colon stood where a component stands; none where it was not asked.
    pub(super) colon: Option<bool>,
    /// Whether level and component were padded to columns, as in a table.
    pub(super) is_padded: bool,
}

impl<'a> LineHeader<'a> {
    /// The header of a line that has a time near its start.
    pub(super) fn timed(line: &'a str, defaults: &TimestampDefaults) -> Option<LineHeader<'a>> {
        let mut header = LineHeader::at(line, skip_spaces(line.as_bytes(), 0));
        header.time(defaults)?;
        Some(header)
    }

    /// A header of which nothing is read yet.
    pub(super) fn at(line: &'a str, at: usize) -> LineHeader<'a> {
        let (sketch, form) = (Sketch::default(), Form::Other);
        LineHeader { line, at, sketch, form, mark: 0, has_lead: false, colon: None, is_padded: false }
    }

    /// Takes the time that comes next, if one does.
    pub(super) fn stamp(&mut self, defaults: &TimestampDefaults) -> bool {
        match self.stamp_at(self.at, defaults) {
            Some(stamp) => {
                self.take_stamp(stamp);
                true
            }
            None => false,
        }
    }

    /// Whether a time, at the very start and with a space behind it, is all that was read.
    pub(super) fn has_nothing_else(&self) -> bool {
        self.mark == 0 && !self.has_lead && self.sketch.is_bare() && self.sketch.level.is_none()
    }

    /// The header of a line that begins with a level and has no time.
    pub(super) fn untimed(line: &'a str, at: usize, level: (Level, usize, usize), habits: &Habits) -> LineHeader<'a> {
        let mut header = LineHeader::at(line, at);
        header.sketch.level(level.0, level.1, level.2);
        header.behind(habits);
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

    pub(super) fn behind_the_time(&mut self, habits: &Habits) {
        if self.mark == b'|' {
            return self.columns();
        }
        self.skip();
        if self.sketch.level.is_none() {
            self.find_level();
        }
        self.behind(habits);
    }
}
