//! Which names stand for the time, the level and the message, and a record in the making.
//!
//! The first name of a list that is there, and whose value can be read, gives its part of the record. All others stay
//! fields: a time that does not read, a level that is not known, the second of two messages.

use super::timestamp;
use crate::record::{Field, Level, Record, Value};
use std::borrow::Cow;
use std::iter::once_with;

/// What a name may give besides a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Time,
    Level,
    Message,
}

/// The role of a name and its place among the names of that role, 0 being the one preferred.
///
/// By length first: nearly all names are none of these, and a line asks this for each of its names.
#[inline]
pub(super) fn role_of(name: &str) -> Option<(Role, u8)> {
    use Role::{Level, Message, Time};
    let name = name.as_bytes();
    Some(match name.len() {
        2 => match name {
            b"ts" => (Time, 2),
            b"@t" => (Time, 5),
            b"@l" => (Level, 6),
            b"@m" => (Message, 2),
            _ => return None,
        },
        3 => match name {
            b"lvl" => (Level, 2),
            b"msg" => (Message, 1),
            b"log" => (Message, 5),
            _ => return None,
        },
        4 => match name {
            b"time" => (Time, 0),
            b"date" => (Time, 7),
            b"body" => (Message, 3),
            b"text" => (Message, 4),
            _ => return None,
        },
        5 => match name {
            b"level" => (Level, 0),
            b"event" => (Message, 6),
            _ => return None,
        },
        7 if name == b"message" => (Message, 0),
        8 => match name {
            b"datetime" => (Time, 6),
            b"severity" => (Level, 1),
            b"loglevel" => (Level, 3),
            _ => return None,
        },
        9 => match name {
            b"timestamp" => (Time, 1),
            b"eventTime" => (Time, 4),
            b"log.level" => (Level, 4),
            b"levelname" => (Level, 5),
            _ => return None,
        },
        10 if name == b"@timestamp" => (Time, 3),
        13 if name == b"severity_text" => (Level, 7),
        _ => return None,
    })
}

/// A record to which the names and values of a line are added in their order.
pub(super) struct Draft<'a> {
    record: Record<'a>,
    added: usize,
    /// What gave the time, the level and the message, by [`Role`].
    taken: [Option<Taken<'a>>; 3],
}

/// A name and value that gave a part of the record; a better name that comes later makes a field of it again.
struct Taken<'a> {
    rank: u8,
    /// How many were added before it.
    added: usize,
    /// Where it would stand among the fields.
    at: usize,
    field: Field<'a>,
}

impl<'a> Draft<'a> {
    pub(super) fn new() -> Self {
        // Room for the fields of most lines, so that a line costs one allocation.
        let record = Record { fields: Vec::with_capacity(16), ..Record::default() };
        Draft { record, added: 0, taken: [None, None, None] }
    }

    #[inline]
    pub(super) fn add(&mut self, name: Cow<'a, str>, value: Value<'a>) {
        self.added += 1;
        match role_of(&name) {
            None => self.record.fields.push(Field { name, value }),
            Some((role, rank)) => self.offer(role, rank, Field { name, value }),
        }
    }

    /// Adds a name that is borrowed from the line, as nearly all are, and the value that it has in its role.
    ///
    /// It is inlined, and the field is made in the place where it stays, only once there is room for it. A field that is
    /// made first, since making room might panic, is written to memory twice and read back before it has arrived there,
    /// which takes longer than all else that is done to a member.
    #[inline(always)]
    pub(super) fn add_borrowed(&mut self, name: &'a str, value: impl FnOnce(Option<Role>) -> Value<'a>) {
        self.added += 1;
        match role_of(name) {
            None => self.record.fields.extend(once_with(|| Field { name: Cow::Borrowed(name), value: value(None) })),
            Some((role, rank)) => {
                self.offer(role, rank, Field { name: Cow::Borrowed(name), value: value(Some(role)) });
            }
        }
    }

    fn offer(&mut self, role: Role, rank: u8, field: Field<'a>) {
        let slot = role as usize;
        let preferred = self.taken[slot].as_ref().is_none_or(|taken| rank < taken.rank);
        if !preferred || !self.give(role, &field.value) {
            self.record.fields.push(field);
            return;
        }
        let taken = Taken { rank, added: self.added, at: self.record.fields.len(), field };
        if let Some(displaced) = self.taken[slot].replace(taken) {
            self.record.fields.insert(displaced.at, displaced.field);
            for taken in self.taken.iter_mut().flatten().filter(|taken| taken.added > displaced.added) {
                taken.at += 1;
            }
        }
    }

    /// Takes a part of the record from a value; false where it cannot be read as such.
    fn give(&mut self, role: Role, value: &Value<'a>) -> bool {
        match role {
            Role::Time => timestamp::read(value).map(|time| self.record.time = Some(time)).is_some(),
            Role::Level => level(value).map(|level| self.record.level = Some(level)).is_some(),
            Role::Message => matches!(value, Value::String(_)),
        }
    }

    #[inline]
    pub(super) fn finish(mut self) -> Record<'a> {
        if let Some(Taken { field: Field { value: Value::String(text), .. }, .. }) =
            self.taken[Role::Message as usize].take()
        {
            self.record.message = text;
        }
        self.record
    }
}

/// A known word, or one of the numbers that bunyan and pino write.
fn level(value: &Value<'_>) -> Option<Level> {
    match value {
        Value::String(word) => Level::from_word(word),
        Value::Int64(10) => Some(Level::Trace),
        Value::Int64(20) => Some(Level::Debug),
        Value::Int64(30) => Some(Level::Info),
        Value::Int64(40) => Some(Level::Warn),
        Value::Int64(50) => Some(Level::Error),
        Value::Int64(60) => Some(Level::Fatal),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TIME: [&str; 8] = ["time", "timestamp", "ts", "@timestamp", "eventTime", "@t", "datetime", "date"];
    const LEVEL: [&str; 8] = ["level", "severity", "lvl", "loglevel", "log.level", "levelname", "@l", "severity_text"];
    const MESSAGE: [&str; 7] = ["message", "msg", "@m", "body", "text", "log", "event"];

    fn draft<'a>(members: &[(&'a str, &'a str)]) -> Record<'a> {
        let mut draft = Draft::new();
        for (name, text) in members {
            draft.add((*name).into(), Value::String((*text).into()));
        }
        draft.finish()
    }

    fn names<'a>(record: &'a Record<'_>) -> Vec<&'a str> {
        record.fields.iter().map(|field| &*field.name).collect()
    }

    #[test]
    fn names_rank_in_the_order_of_their_lists() {
        for (role, list) in [(Role::Time, &TIME[..]), (Role::Level, &LEVEL), (Role::Message, &MESSAGE)] {
            for (rank, name) in (0u8..).zip(list) {
                assert_eq!(role_of(name), Some((role, rank)), "{name}");
            }
        }
        for name in ["", "a", "tz", "Time", "messages", "severity_number", "status", "method"] {
            assert_eq!(role_of(name), None, "{name}");
        }
    }

    #[test]
    fn a_better_name_displaces_and_the_order_of_the_line_stays() {
        let record = draft(&[
            ("a", "1"),
            ("event", "login"),
            ("lvl", "info"),
            ("msg", "in"),
            ("b", "2"),
            ("level", "warn"),
            ("message", "logged in"),
            ("c", "3"),
        ]);
        assert_eq!(record.message, "logged in");
        assert_eq!(record.level, Some(Level::Warn));
        assert_eq!(names(&record), ["a", "event", "lvl", "msg", "b", "c"]);
    }

    #[test]
    fn what_cannot_be_read_or_comes_second_stays_a_field() {
        let record = draft(&[
            ("time", "noon"),
            ("ts", "2026-11-20T00:05:45Z"),
            ("date", "2026-11-21T00:05:45Z"),
            ("level", "loud"),
            ("@l", "error"),
            ("message", "one"),
            ("message", "two"),
        ]);
        assert_eq!(record.time.map(|time| time.to_string()).as_deref(), Some("2026-11-20T00:05:45Z"));
        assert_eq!(record.level, Some(Level::Error));
        assert_eq!(record.message, "one");
        assert_eq!(names(&record), ["time", "date", "level", "message"]);
    }

    #[test]
    fn levels_of_bunyan_and_pino() {
        let levels = [Level::Trace, Level::Debug, Level::Info, Level::Warn, Level::Error, Level::Fatal];
        for (number, expected) in (1..).map(|tens| tens * 10).zip(levels) {
            assert_eq!(level(&Value::Int64(number)), Some(expected));
        }
        assert_eq!(level(&Value::Int64(35)), None);
    }
}
