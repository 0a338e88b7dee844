//! Decisions that need the whole line: is it GELF, which parts did Serilog leave out, and does a common name mean the
//! component here?

use super::super::clef;
use super::super::level_names;
use super::super::names::{self, Role, role_of};
use super::{COMPONENT, HOST, PID, RecordBuilder, RoleField, RoleSource};
use daytable_model::record::{Field, Level, Value};
use std::borrow::Cow;
use std::time::Duration;

impl RecordBuilder<'_> {
    /// Applies the decisions that need the whole line: GELF and Serilog's omissions.
    #[cold]
    pub(super) fn settle(&mut self) {
        let message = self.rank(Role::Message);
        let is_gelf = message == Some(names::SHORT_MESSAGE);
        let of_requests = self.level_of_requests();
        let level = &mut self.taken[Role::Level as usize];
        let is_syslog = |taken: &RoleSource<'_>| matches!(taken.field.value, Value::Int64(0..=7));
        if let Some(level) = of_requests.filter(|_| !is_gelf) {
            self.record.level = Some(level);
        } else if let Some(guess) = level.take_if(|taken| taken.rank == names::GUESSED && is_syslog(taken) && !is_gelf)
        {
            self.record.level = None;
            self.restore_field(guess);
        }
        let level = &mut self.taken[Role::Level as usize];
        if let Some(tags) = level.take_if(|taken| taken.rank == names::TAGS) {
            self.restore_field(tags);
        }
        if is_gelf {
            self.name_additional();
        }
        let by_serilog = self.rank(Role::Time) == Some(names::CLEF_TIME)
            && matches!(message, Some(names::CLEF_MESSAGE | names::CLEF_TEMPLATE));
        if by_serilog && self.record.level.is_none() {
            self.record.level = Some(Level::Info);
        }
        match message {
            Some(names::CLEF_TEMPLATE) => self.render(),
            Some(names::JOURNAL_MESSAGE) => self.decode(),
            _ => {}
        }
        match self.rank(Role::Time) {
            Some(names::TIMESTAMP_SECONDS) => self.add_nanos("timestamp.nanos"),
            Some(names::JOINED_SECONDS) => self.add_nanos("timestampNanos"),
            Some(names::INSTANT_SECONDS) => self.add_nanos("instant.nanoOfSecond"),
            _ => {}
        }
    }

    /// A level of 0 to 4 beside the names that ownCloud and its kin give a request and its sender.
    fn level_of_requests(&self) -> Option<Level> {
        let taken = self.taken[Role::Level as usize].as_ref().filter(|taken| taken.rank == names::GUESSED)?;
        let Value::Int64(number) = taken.field.value else { return None };
        let has = |name: &str| self.record.fields.iter().any(|field| field.name == name);
        (has("reqId") && has("remoteAddr")).then(|| level_names::owncloud(number))?
    }

    /// Renders the message from its template. The template stays a field.
    fn render(&mut self) {
        let Some(taken) = &mut self.taken[Role::Message as usize] else { return };
        let Value::String(template) = &taken.field.value else { return };
        let Some(text) = clef::render(template, &self.record.fields) else { return };
        let message = Field { name: Cow::Borrowed(""), value: Value::String(Cow::Owned(text)) };
        let (at, template) = (taken.at, std::mem::replace(&mut taken.field, message));
        self.restore_field(RoleSource { rank: names::CLEF_TEMPLATE, added: usize::MAX, at, field: template });
    }

    /// Adds nanoseconds from a separate field to a time in whole seconds.
    fn add_nanos(&mut self, name: &str) {
        let is_nanos = |field: &Field<'_>| field.name == name && matches!(field.value, Value::Int64(0..1_000_000_000));
        let Some(at) = self.record.fields.iter().position(is_nanos) else { return };
        if let Value::Int64(nanos) = self.record.fields.remove(at).value {
            self.record.time = self.record.time.map(|time| time.plus(Duration::from_nanos(nanos.unsigned_abs())));
        }
        for taken in self.taken.iter_mut().flatten().filter(|taken| taken.at > at) {
            taken.at -= 1;
        }
        for named in self.named.iter_mut().flatten().filter(|named| named.at > at) {
            named.at -= 1;
        }
    }

    /// Decodes a message that journald writes as numbers because it has unprintable bytes.
    fn decode(&mut self) {
        let Some(taken) = &mut self.taken[Role::Message as usize] else { return };
        let Value::String(written) = &taken.field.value else { return };
        let bytes = serde_json::from_str::<Vec<u8>>(written).unwrap_or_default();
        if !bytes.is_empty() {
            taken.field.value = Value::String(Cow::Owned(String::from_utf8_lossy(&bytes).into_owned()));
        }
    }

    /// Finds the component, the process and the host among GELF's additional fields, whose names begin with `_`.
    fn name_additional(&mut self) {
        for (at, field) in self.record.fields.iter().enumerate() {
            let Some((role, rank)) = field.name.strip_prefix('_').and_then(role_of) else { continue };
            let part = (role as usize).checked_sub(self.taken.len());
            let fits = matches!((role, &field.value), (Role::Pid, Value::Int64(_)))
                || matches!((role, &field.value), (Role::Component | Role::Host, Value::String(_)));
            if let Some(named) = part.and_then(|part| self.named.get_mut(part)).filter(|_| fits)
                && named.is_none_or(|named| rank < named.rank)
            {
                *named = Some(RoleField { rank, at });
            }
        }
    }

    /// Renames the fields of component, process and host.
    pub(super) fn rename(&mut self) {
        for (part, name) in [(PID, "pid"), (HOST, "host"), (COMPONENT, "component")] {
            let Some(RoleField { rank, at }) = self.named[part] else { continue };
            let is_sure = rank < names::WEAK || self.has_witness(rank, at);
            let Some(field) = self.record.fields.get_mut(at).filter(|_| is_sure) else { continue };
            if part == PID
                && let Value::String(digits) = &field.value
            {
                let Ok(number) = digits.parse() else { continue };
                field.value = Value::Int64(number);
            }
            if field.name != name {
                field.name = Cow::Borrowed(name);
            }
        }
    }

    /// Whether other names of the line show that a common name means the component.
    fn has_witness(&self, rank: u8, at: usize) -> bool {
        match rank {
            names::NAME => {
                self.named[PID].is_some() && self.named[HOST].is_some()
                    || self.rank(Role::Level) == Some(names::LEVELNAME)
            }
            names::TARGET => {
                let is_path = |text: &str| memchr::memmem::find(text.as_bytes(), b"::").is_some();
                let value = self.record.fields.get(at).map(|field| &field.value);
                self.rank(Role::Message) == Some(names::FIELDS_MESSAGE)
                    || matches!(value, Some(Value::String(text)) if is_path(text))
            }
            names::CHANNEL => {
                let is_level_name = |field: &Field<'_>| field.name == "level_name";
                self.rank(Role::Level) == Some(names::LEVEL_NAME) || self.record.fields.iter().any(is_level_name)
            }
            names::MONGO => true,
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::super::timestamp::TimestampDefaults;
    use super::super::tests::{build, names};
    use super::*;

    #[test]
    fn common_names_need_a_witness() {
        for (members, component) in [
            (&[("name", "ada")][..], None),
            (&[("name", "ada"), ("pid", "1")], None),
            (&[("name", "api"), ("pid", "1"), ("hostname", "a")], Some("api")),
            (&[("name", "app.db"), ("levelname", "INFO")], Some("app.db")),
            (&[("target", "10.0.0.1")], None),
            (&[("target", "app::db")], Some("app::db")),
            (&[("target", "app"), ("fields.message", "up")], Some("app")),
            (&[("channel", "general")], None),
            (&[("level_name", "INFO"), ("channel", "mail")], Some("mail")),
            (&[("c", "NETWORK")], None),
            (&[("t.$date", "2024-01-02T03:04:05Z"), ("c", "NETWORK")], Some("NETWORK")),
            (&[("name", "x"), ("levelname", "INFO"), ("logger", "app")], Some("app")),
        ] {
            let record = build(members);
            let found = record.fields.iter().find(|field| field.name == "component").map(|field| &field.value);
            assert_eq!(found, component.map(|text| Value::String(text.into())).as_ref(), "{members:?}");
        }
    }

    #[test]
    fn a_small_number_is_a_level_only_in_gelf() {
        for (message, level) in [("short_message", Some(Level::Error)), ("message", None)] {
            for first in [true, false] {
                let mut builder = RecordBuilder::new(&TimestampDefaults::default());
                let level_of = Value::Int64(3);
                if first {
                    builder.add("level".into(), level_of.clone());
                }
                builder.add("a".into(), Value::Int64(1));
                builder.add(message.into(), Value::String("up".into()));
                if !first {
                    builder.add("level".into(), level_of);
                }
                let record = builder.finish();
                assert_eq!((record.level, &*record.message), (level, "up"));
                let expected: &[&str] = match (level, first) {
                    (Some(_), _) => &["a"],
                    (None, true) => &["level", "a"],
                    (None, false) => &["a", "level"],
                };
                assert_eq!(names(&record), expected);
            }
        }
    }

    #[test]
    fn the_names_of_a_request_and_its_sender_tell_the_scale_of_owncloud() {
        for (number, level) in [(0, Some(Level::Debug)), (2, Some(Level::Warn)), (3, Some(Level::Error)), (5, None)] {
            let mut builder = RecordBuilder::new(&TimestampDefaults::default());
            builder.add("reqId".into(), Value::String("a".into()));
            builder.add("level".into(), Value::Int64(number));
            builder.add("remoteAddr".into(), Value::String("".into()));
            let record = builder.finish();
            assert_eq!(record.level, level, "{number}");
            let expected: &[&str] =
                if level.is_some() { &["reqId", "remoteAddr"] } else { &["reqId", "level", "remoteAddr"] };
            assert_eq!(names(&record), expected);
        }
    }

    #[test]
    fn gelf_names_its_additional_fields_with_an_underscore() {
        let record = build(&[("short_message", "up"), ("_logger", "app"), ("_user", "ada")]);
        assert_eq!(names(&record), ["component", "_user"]);
    }

    #[test]
    fn serilog_omits_the_usual_level() {
        let time = ("@t", "2024-01-02T03:04:05Z");
        let record = build(&[time, ("@mt", "{User} logged in"), ("User", "ada")]);
        assert_eq!((record.level, &*record.message), (Some(Level::Info), "ada logged in"));
        assert_eq!(names(&record), ["@mt", "User"]);
        let record = build(&[time, ("@mt", "up"), ("@l", "Warning")]);
        assert_eq!((record.level, &*record.message, record.fields.len()), (Some(Level::Warn), "up", 0));
        let record = build(&[time, ("@mt", "{User} in"), ("@m", "ada in"), ("User", "ada")]);
        assert_eq!((&*record.message, names(&record)), ("ada in", vec!["@mt", "User"]));
        assert_eq!(build(&[time, ("a", "1")]).level, None);
    }

    #[test]
    fn nanoseconds_in_a_separate_field_belong_to_the_time() {
        for (nanos, time, fields) in [
            (118_000_000, "2017-04-25T12:01:04.118Z", &["component"][..]),
            (-1, "2017-04-25T12:01:04Z", &["instant.nanoOfSecond", "component"]),
            (1_000_000_000, "2017-04-25T12:01:04Z", &["instant.nanoOfSecond", "component"]),
        ] {
            let mut builder = RecordBuilder::new(&TimestampDefaults::default());
            builder.add("instant.epochSecond".into(), Value::Int64(1_493_121_664));
            builder.add("instant.nanoOfSecond".into(), Value::Int64(nanos));
            builder.add("loggerName".into(), Value::String("app".into()));
            let record = builder.finish();
            assert_eq!(record.time.map(|time| time.to_string()).as_deref(), Some(time));
            assert_eq!(names(&record), fields);
        }
    }

    #[test]
    fn a_message_written_as_numbers_becomes_text() {
        for (written, text) in [
            ("[27,91,51,49,109,195,169]", "\u{1b}[31mé"),
            ("[104,255]", "h\u{fffd}"),
            ("[]", "[]"),
            ("[256]", "[256]"),
            ("[main] up", "[main] up"),
        ] {
            assert_eq!(build(&[("MESSAGE", written)]).message, text);
        }
    }
}
