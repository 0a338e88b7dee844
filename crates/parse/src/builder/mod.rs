//! Builds a record from the names and values of a line, in their order.
//!
//! Each role (time, level, message, component, …) has a list of names in order of preference. The most preferred name
//! with a readable value fills the role. Every other name stays a field: an unreadable time, an unknown level, a second
//! message. Component, process and host stay fields, renamed to `component`, `pid` and `host`.

mod settle;

use super::field_pool;
use super::level_names;
use super::names::{self, Role, role_of};
use super::timestamp::{self, TimestampDefaults};
use daytable_model::record::{Field, Level, Record, Value};
use daytable_model::time::Ticks;
use std::borrow::Cow;
use std::iter::once_with;

/// A record under construction.
pub(super) struct RecordBuilder<'a> {
    record: Record<'a>,
    added: usize,
    /// The sources of the time, the level and the message, by [`Role`].
    taken: [Option<RoleSource<'a>>; 3],
    /// The fields that name the component, the process and the host, by [`Role`] minus three.
    named: [Option<RoleField>; 3],
    /// Whether something needs the whole line to decide (`settle`).
    is_odd: bool,
    /// Defaults for incomplete times.
    defaults: TimestampDefaults,
}

/// A name and value that filled a role; a preferred name that comes later turns it back into a field.
struct RoleSource<'a> {
    rank: u8,
    /// How many fields were added before it.
    added: usize,
    /// Its index among the fields.
    at: usize,
    field: Field<'a>,
}

/// A field that fills a role.
#[derive(Clone, Copy)]
struct RoleField {
    rank: u8,
    /// Its index among the fields.
    at: usize,
}

/// Indexes of the roles that are fields, by [`Role`] minus three.
const COMPONENT: usize = 0;
const PID: usize = 1;
const HOST: usize = 2;

impl<'a> RecordBuilder<'a> {
    #[inline(always)]
    pub(super) fn new(defaults: &TimestampDefaults) -> Self {
        let fields = field_pool::fields();
        let record = Record { fields, ..Record::default() };
        RecordBuilder {
            record,
            added: 0,
            taken: [None, None, None],
            named: [None; 3],
            is_odd: false,
            defaults: *defaults,
        }
    }

    /// Sets parts of the record that are known without a name. Later names for these roles stay fields.
    pub(super) fn set(&mut self, time: Option<Ticks>, level: Option<Level>, message: Option<Cow<'a, str>>) {
        let known =
            |value| Some(RoleSource { rank: 0, added: 0, at: 0, field: Field { name: Cow::Borrowed(""), value } });
        if time.is_some() {
            self.record.time = time;
            self.taken[Role::Time as usize] = known(Value::Boolean(true));
        }
        if level.is_some() {
            self.record.level = level;
            self.taken[Role::Level as usize] = known(Value::Boolean(true));
        }
        if let Some(message) = message {
            self.taken[Role::Message as usize] = known(Value::String(message));
        }
    }

    #[inline]
    pub(super) fn add(&mut self, name: Cow<'a, str>, value: Value<'a>) {
        let role = role_of(&name);
        self.add_as(role, name, value);
    }

    /// Adds a name with a known role.
    #[inline]
    pub(super) fn add_as(&mut self, role: Option<(Role, u8)>, name: Cow<'a, str>, value: Value<'a>) {
        self.added += 1;
        match role {
            None => self.record.fields.push(Field { name, value }),
            Some((role, rank)) => self.offer(role, rank, Field { name, value }),
        }
    }

    /// Adds a name borrowed from the line, as nearly all are. `value` computes the value for the role of the name.
    ///
    /// The function is inlined, and the field is made in its final place after room was reserved. A field made earlier
    /// is written to memory twice, because reserving might panic; that costs more than the rest of the work for a
    /// member.
    #[inline(always)]
    pub(super) fn add_borrowed(&mut self, name: &'a str, value: impl FnOnce(Option<Role>) -> Value<'a>) {
        self.add_borrowed_as(role_of(name), name, value);
    }

    /// As `add_borrowed`, for a name with a known role.
    #[inline(always)]
    pub(super) fn add_borrowed_as(
        &mut self,
        role: Option<(Role, u8)>,
        name: &'a str,
        value: impl FnOnce(Option<Role>) -> Value<'a>,
    ) {
        self.added += 1;
        match role {
            None => self.record.fields.extend(once_with(|| Field { name: Cow::Borrowed(name), value: value(None) })),
            Some((role, rank)) => {
                self.offer(role, rank, Field { name: Cow::Borrowed(name), value: value(Some(role)) });
            }
        }
    }

    fn offer(&mut self, role: Role, rank: u8, field: Field<'a>) {
        let slot = role as usize;
        if slot >= self.taken.len() {
            return self.name(slot - self.taken.len(), rank, field);
        }
        let Some(rank) = self.fill(role, rank, &field.value) else {
            self.record.fields.push(field);
            return;
        };
        let taken = RoleSource { rank, added: self.added, at: self.record.fields.len(), field };
        if let Some(displaced) = self.taken[slot].replace(taken) {
            self.restore_field(displaced);
        }
    }

    /// Fills a role from a value and returns the rank. `None` if the value is unreadable or the present source has a
    /// better rank.
    fn fill(&mut self, role: Role, rank: u8, value: &Value<'a>) -> Option<u8> {
        let best = self.rank(role);
        let preferred = |rank: u8| best.is_none_or(|best| rank < best);
        if !preferred(rank) {
            return None;
        }
        match role {
            Role::Time => self.record.time = Some(timestamp::read_with(value, &self.defaults)?),
            Role::Level if rank == names::MONGO && !self.is_mongo() => return None,
            Role::Level => {
                let (level, rank) = level_names::level(value, rank)?;
                if !preferred(rank) {
                    return None;
                }
                self.record.level = Some(level);
                self.is_odd |= rank >= names::GUESSED;
                return Some(rank);
            }
            _ if !matches!(value, Value::String(_)) => return None,
            _ => {}
        }
        self.is_odd |= match role {
            Role::Time => matches!(
                rank,
                names::CLEF_TIME | names::TIMESTAMP_SECONDS | names::JOINED_SECONDS | names::INSTANT_SECONDS
            ),
            _ => matches!(rank, names::CLEF_TEMPLATE | names::SHORT_MESSAGE | names::JOURNAL_MESSAGE),
        };
        Some(rank)
    }

    /// Turns the former source of a role back into a field.
    fn restore_field(&mut self, displaced: RoleSource<'a>) {
        self.record.fields.insert(displaced.at, displaced.field);
        for taken in self.taken.iter_mut().flatten().filter(|taken| taken.added > displaced.added) {
            taken.at += 1;
        }
        for named in self.named.iter_mut().flatten().filter(|named| named.at >= displaced.at) {
            named.at += 1;
        }
    }

    /// Adds a field that may be the component, the process or the host.
    fn name(&mut self, part: usize, rank: u8, field: Field<'a>) {
        let fits = match &field.value {
            Value::String(text) if part == PID => !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit()),
            // Programs that do not know the host write `?`.
            Value::String(text) => !(text.is_empty() || part == HOST && text == "?"),
            Value::Int64(_) => part == PID,
            _ => false,
        };
        let preferred = self.named[part].is_none_or(|named| rank < named.rank);
        if fits && preferred && (rank != names::MONGO || self.is_mongo()) {
            self.named[part] = Some(RoleField { rank, at: self.record.fields.len() });
        }
        self.record.fields.push(field);
    }

    /// The rank of the name that fills a role.
    fn rank(&self, role: Role) -> Option<u8> {
        self.taken.get(role as usize)?.as_ref().map(|taken| taken.rank)
    }

    fn is_mongo(&self) -> bool {
        self.rank(Role::Time) == Some(names::MONGO_DATE)
    }

    #[inline]
    pub(super) fn finish(mut self) -> Record<'a> {
        if self.is_odd {
            self.settle();
        }
        // A field of the first rank already has its final name; a process may still have to become a number.
        let is_renamed =
            |(part, named): (usize, &Option<RoleField>)| named.is_some_and(|field| field.rank > 0 || part == PID);
        if self.is_odd || self.named.iter().enumerate().any(is_renamed) {
            self.rename();
        }
        if let Some(RoleSource { field: Field { value: Value::String(text), .. }, .. }) =
            self.taken[Role::Message as usize].take()
        {
            self.record.message = text;
        }
        self.record
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn build<'a>(members: &[(&'a str, &'a str)]) -> Record<'a> {
        let mut builder = RecordBuilder::new(&TimestampDefaults::default());
        for (name, text) in members {
            builder.add((*name).into(), Value::String((*text).into()));
        }
        builder.finish()
    }

    pub(super) fn names<'a>(record: &'a Record<'_>) -> Vec<&'a str> {
        record.fields.iter().map(|field| &*field.name).collect()
    }

    #[test]
    fn a_better_name_displaces_another_and_fields_keep_their_order() {
        let record = build(&[
            ("a", "1"),
            ("event", "login"),
            ("hostname", "web-17"),
            ("lvl", "info"),
            ("msg", "in"),
            ("b", "2"),
            ("logger", "auth"),
            ("level", "warn"),
            ("message", "logged in"),
            ("c", "3"),
        ]);
        assert_eq!(record.message, "logged in");
        assert_eq!(record.level, Some(Level::Warn));
        assert_eq!(names(&record), ["a", "event", "host", "lvl", "msg", "b", "component", "c"]);
    }

    #[test]
    fn unreadable_and_second_values_stay_fields() {
        let record = build(&[
            ("time", "noon"),
            ("ts", "2026-11-20T00:05:45Z"),
            ("date", "2026-11-21T00:05:45Z"),
            ("level", "loud"),
            ("@l", "error"),
            ("message", "one"),
            ("message", "two"),
            ("host", ""),
            ("pid", "12a"),
            ("hostname", "a"),
            ("host.name", "b"),
        ]);
        assert_eq!(record.time.map(|time| time.to_string()).as_deref(), Some("2026-11-20T00:05:45Z"));
        assert_eq!(record.level, Some(Level::Error));
        assert_eq!(record.message, "one");
        assert_eq!(names(&record), ["time", "date", "level", "message", "host", "pid", "host", "host.name"]);
    }

    #[test]
    fn a_process_becomes_a_number_if_possible() {
        let record = build(&[("_PID", "0042"), ("process", "main")]);
        assert_eq!(record.fields[0], Field { name: "pid".into(), value: Value::Int64(42) });
        assert_eq!(names(&record), ["pid", "process"]);
        let record = build(&[("pid", "99999999999999999999")]);
        assert_eq!(record.fields[0].value, Value::String("99999999999999999999".into()));
    }
}
