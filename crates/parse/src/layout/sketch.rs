//! A record under construction, from the parts of a header in their order.

use crate::field_pool;
use crate::pairs::typed;
use crate::timestamp::Stamp;
use crate::{Format, Parsed, PartPlace};
use daytable_model::record::{Field, Level, Record, Value};
use daytable_model::time::Ticks;
use std::borrow::Cow;
use std::iter::once_with;

/// The parts that were read from a text, and their places.
#[derive(Debug, Default)]
pub(crate) struct Sketch<'a> {
    pub(crate) time: Option<Ticks>,
    pub(crate) level: Option<Level>,
    time_at: Option<PartPlace>,
    level_at: Option<PartPlace>,
    fields: Vec<Field<'a>>,
    pub(crate) has_component: bool,
    pub(crate) has_pid: bool,
    pub(crate) has_host: bool,
    has_thread: bool,
}

impl<'a> Sketch<'a> {
    pub(crate) fn stamp(&mut self, at: usize, stamp: Stamp) {
        self.time = Some(stamp.time);
        self.time_at = PartPlace::of(at..at + stamp.length);
    }

    pub(crate) fn level(&mut self, level: Level, at: usize, end: usize) {
        self.level = Some(level);
        self.level_at = PartPlace::of(at..end);
    }

    /// The first name is the component; further names become fields.
    pub(crate) fn component(&mut self, name: &'a str) {
        let first = !std::mem::replace(&mut self.has_component, true);
        self.text(if first { "component" } else { "context" }, name);
    }

    /// The first number is the process, the second its thread.
    pub(crate) fn pid(&mut self, number: &'a str) {
        let first = !std::mem::replace(&mut self.has_pid, true);
        self.add(if first { "pid" } else { "tid" }, typed(number));
    }

    /// The first name is the host; it may occur twice.
    pub(crate) fn host(&mut self, name: &'a str) {
        if !std::mem::replace(&mut self.has_host, true) {
            self.text("host", name);
        } else if !self.fields.iter().any(|field| field.name == "host" && field.value == Value::String(name.into())) {
            self.text("context", name);
        }
    }

    pub(crate) fn thread(&mut self, name: &'a str) {
        let first = !std::mem::replace(&mut self.has_thread, true);
        self.text(if first { "thread" } else { "context" }, name);
    }

    /// A place in a source file.
    pub(crate) fn source(&mut self, file: &'a str, line: &'a str) {
        self.text("file", file);
        self.add("line", typed(line));
    }

    pub(crate) fn text(&mut self, name: &'static str, text: &'a str) {
        self.add(name, Value::String(Cow::Borrowed(text)));
    }

    pub(crate) fn add(&mut self, name: &'static str, value: Value<'a>) {
        if self.fields.capacity() == 0 {
            self.fields = field_pool::fields();
        }
        // Made in its final place; see `RecordBuilder::add_borrowed`.
        self.fields.extend(once_with(|| Field { name: Cow::Borrowed(name), value }));
    }

    pub(crate) fn fields(&mut self) -> &mut Vec<Field<'a>> {
        &mut self.fields
    }

    /// Whether only a time and a level were read.
    pub(crate) fn is_bare(&self) -> bool {
        self.fields.is_empty()
    }

    pub(crate) fn finish(self, message: impl Into<Cow<'a, str>>, format: Format) -> Parsed<'a> {
        let record = Record {
            time: self.time,
            level: self.level,
            message: message.into(),
            fields: self.fields,
            ..Record::default()
        };
        Parsed { record, format, time_at: self.time_at, level_at: self.level_at }
    }
}
