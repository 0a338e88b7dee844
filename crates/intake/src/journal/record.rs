//! Converts a journal entry to a record.
//!
//! | journal field | record |
//! |---|---|
//! | `_SOURCE_REALTIME_TIMESTAMP`, else `__REALTIME_TIMESTAMP` | its time, if the message has no timestamp |
//! | `PRIORITY` | its level, if the message has no level; else the field `priority` |
//! | `MESSAGE` | its message, parsed as described below |
//! | `_HOSTNAME` | `host` |
//! | `SYSLOG_IDENTIFIER`, else `_COMM` | `component` |
//! | `_PID`, else `SYSLOG_PID` | `pid` |
//! | `_SYSTEMD_UNIT` | `unit` |
//! | `SYSLOG_FACILITY` | `facility`, by its name |
//! | `__CURSOR` | its row key ([`super::cursor`]) |
//! | other names with two underscores, `_SOURCE_MONOTONIC_TIMESTAMP`, `SYSLOG_TIMESTAMP`, `SYSLOG_RAW` | left out |
//! | all others | fields under their own names; invalid UTF-8 gives bytes |
//!
//! A message is parsed like a line of a file ([`daytable_parse`]) in three cases: a service or container wrote the
//! message to its output, the message is a JSON object, or the configuration gives a format. A message that a program
//! sent to the journal or to syslog is used unchanged. Each entry is parsed independently of earlier entries, so a
//! repeated read gives the same record. Several lines in one entry are one record; journald makes each line of a
//! service's output an entry.

use super::cursor;
use super::export::JournalEntry;
use daytable_model::property::BINARY_BYTES_MAX;
use daytable_model::record::{Field, Record, Value};
use daytable_model::time::Ticks;
use daytable_parse::{
    Envelope, Format, FormatChoice, ParseOptions, Parsed, SourceProfile, facility_name, syslog_level,
};
use std::borrow::Cow;

/// How the messages of entries are parsed.
#[derive(Clone, Debug, Default)]
pub struct JournalReading {
    reading: ParseOptions,
}

/// A converted entry.
#[derive(Clone, Debug, PartialEq)]
pub struct JournalRecord<'a> {
    /// The record. Its time is `None` if the entry has no readable time.
    pub record: Record<'a>,
    /// The recognized format of the message; [`Format::Plain`] if the message was not parsed.
    pub format: Format,
    /// Identity and position of the row key, from the cursor. `None` without a cursor.
    pub origin: Option<(u64, u64)>,
    /// Whether invalid UTF-8 was replaced by U+FFFD.
    pub is_invalid_utf8: bool,
}

impl JournalReading {
    /// Creates a converter with the configured parse options.
    pub fn new(reading: ParseOptions) -> JournalReading {
        JournalReading { reading }
    }

    /// The name of the host that wrote the entry, with its secrets replaced.
    pub fn host<'a>(&self, entry: &JournalEntry<'a>) -> Option<Cow<'a, str>> {
        let host = entry.text("_HOSTNAME").filter(|host| !host.is_empty()).map(Cow::Borrowed)?;
        Some(match &self.reading.redactor {
            Some(redactor) => redactor.redact_text(host),
            None => host,
        })
    }

    /// The bytes of a value that was not cut within a secret.
    fn kept<'a>(&self, entry: &JournalEntry<'a>, value: &'a [u8]) -> &'a [u8] {
        match (&self.reading.redactor, str::from_utf8(value)) {
            (Some(redactor), Ok(text)) if entry.is_halved(value) => &value[..redactor.keep_of_cut(text)],
            // The cut may lie within a character.
            (Some(redactor), Err(error)) if entry.is_halved(value) => {
                let text = str::from_utf8(&value[..error.valid_up_to()]).unwrap_or_default();
                &value[..redactor.keep_of_cut(text)]
            }
            _ => value,
        }
    }

    /// Converts an entry. `now` replaces a missing time. Cannot fail.
    pub fn record<'a>(&'a self, entry: &JournalEntry<'a>, now: Ticks) -> JournalRecord<'a> {
        let time =
            ["_SOURCE_REALTIME_TIMESTAMP", "__REALTIME_TIMESTAMP"].iter().find_map(|name| time(entry.text(name)?));
        let mut fields = Vec::with_capacity(32);
        let mut used = UsedNames::default();
        used.add(entry, "host", &["_HOSTNAME"], &mut fields);
        used.add(entry, "component", &["SYSLOG_IDENTIFIER", "_COMM"], &mut fields);
        used.add(entry, "pid", &["_PID", "SYSLOG_PID"], &mut fields);
        used.add(entry, "unit", &["_SYSTEMD_UNIT"], &mut fields);
        let facility = entry.text("SYSLOG_FACILITY").and_then(|number| facility_name(number.parse().ok()?));
        if let Some(name) = facility {
            fields.push(Field { name: "facility".into(), value: Value::String(name.into()) });
            used.0.push("SYSLOG_FACILITY");
        }
        let Parsed { record: parsed, format, .. } = self.message(entry, time, now);
        used.0.push("MESSAGE");
        let priority = entry.text("PRIORITY").and_then(|digit| digit.parse::<i64>().ok());
        let level = priority.and_then(syslog_level);
        if let Some(priority) = priority.filter(|_| level.is_some()) {
            used.0.push("PRIORITY");
            if parsed.level.is_some_and(|written| Some(written) != level) {
                fields.push(Field { name: "priority".into(), value: Value::Int64(priority) });
            }
        }
        let begin = fields.len();
        fields.extend(parsed.fields);
        let of_message = begin..fields.len();
        let mut is_invalid_utf8 = matches!(parsed.message, Cow::Owned(_)) && entry.text("MESSAGE").is_none();
        for (name, value) in entry.fields() {
            if used.has(name) || is_left_out(name) {
                continue;
            }
            let value = match str::from_utf8(self.kept(entry, value)) {
                Ok(text) => typed(name, text),
                Err(_) if value.len() <= BINARY_BYTES_MAX => Value::Binary(value.into()),
                Err(_) => {
                    is_invalid_utf8 = true;
                    Value::String(String::from_utf8_lossy(value))
                }
            };
            fields.push(Field { name: name.into(), value });
        }
        if entry.cut > 0 {
            fields.push(Field { name: "truncated".into(), value: Value::Boolean(true) });
        }
        let mut record = Record {
            time: parsed.time,
            level: parsed.level.or(level),
            message: parsed.message,
            fields,
            line: parsed.line,
            ..Record::default()
        };
        if let Some(redactor) = &self.reading.redactor {
            // Those of the message are clean, as is its line.
            for (_, field) in record.fields.iter_mut().enumerate().filter(|(at, _)| !of_message.contains(at)) {
                redactor.redact_field(field);
            }
        }
        let origin = entry.text("__CURSOR").map(cursor::origin);
        JournalRecord { record, format, origin, is_invalid_utf8 }
    }

    /// Parses the message, if its kind requires parsing.
    fn message<'a>(&'a self, entry: &JournalEntry<'a>, time: Option<Ticks>, now: Ticks) -> Parsed<'a> {
        let bytes = self.kept(entry, entry.field("MESSAGE").unwrap_or_default());
        let plain = |message| {
            let mut record = Record { time, message, ..Record::default() };
            if let Some(redactor) = &self.reading.redactor {
                redactor.redact_parts(&mut record);
            }
            Parsed::of(record, Format::Plain)
        };
        let Ok(text) = str::from_utf8(bytes) else { return plain(String::from_utf8_lossy(bytes)) };
        let is_line = self.reading.format != FormatChoice::Auto
            || self.reading.explicit.is_some()
            || text.starts_with('{')
            || entry.field("_TRANSPORT") == Some(b"stdout")
            || entry.field("CONTAINER_ID").is_some();
        if !is_line {
            return plain(text.into());
        }
        let envelope = Envelope { time, ..Envelope::default() };
        // A timestamp without a year gets the year in which the entry was written.
        SourceProfile::default().record(text, envelope, &self.reading, time.unwrap_or(now))
    }
}

/// Names that became other parts of the record. Only the first field of each name counts.
#[derive(Default)]
struct UsedNames(Vec<&'static str>);

impl UsedNames {
    /// Adds a field from the first of these names that the entry has.
    fn add<'a>(
        &mut self,
        entry: &JournalEntry<'a>,
        as_name: &'static str,
        names: &[&'static str],
        fields: &mut Vec<Field<'a>>,
    ) {
        let found = names.iter().find_map(|name| Some((*name, entry.text(name)?)));
        if let Some((name, value)) = found.filter(|(_, value)| !value.is_empty()) {
            fields.push(Field { name: as_name.into(), value: typed(name, value) });
            self.0.push(name);
        }
    }

    /// Whether this is the first field of one of these names.
    fn has(&mut self, name: &str) -> bool {
        let at = self.0.iter().position(|used| *used == name);
        at.is_some_and(|at| !self.0.swap_remove(at).is_empty())
    }
}

/// Whether a field repeats the position or time of the entry, which its key and time contain.
fn is_left_out(name: &str) -> bool {
    const NAMES: [&str; 4] =
        ["_SOURCE_REALTIME_TIMESTAMP", "_SOURCE_MONOTONIC_TIMESTAMP", "SYSLOG_TIMESTAMP", "SYSLOG_RAW"];
    name.starts_with("__") || NAMES.contains(&name)
}

/// Values are text, except under names that always hold numbers.
fn typed<'a>(name: &str, value: &'a str) -> Value<'a> {
    const NUMBERS: [&str; 8] =
        ["_PID", "SYSLOG_PID", "_UID", "_GID", "_AUDIT_SESSION", "_AUDIT_LOGINUID", "CODE_LINE", "ERRNO"];
    let number = NUMBERS.contains(&name).then(|| value.parse::<i64>().ok()).flatten();
    // A number that would not be written back identically stays text.
    match number.filter(|number| number.to_string() == value) {
        Some(number) => Value::Int64(number),
        None => Value::String(value.into()),
    }
}

/// Microseconds since 1970.
fn time(text: &str) -> Option<Ticks> {
    let micros: i64 = text.parse().ok()?;
    Ticks::from_unix(micros.div_euclid(1_000_000), u32::try_from(micros.rem_euclid(1_000_000)).ok()? * 1000)
}

#[cfg(test)]
mod tests {
    use super::super::export::JournalParser;
    use super::*;
    use daytable_model::record::Level;
    use daytable_parse::redact::{Redaction, Redactor};

    /// The record of one entry in the export format, with each part as text.
    fn shown(reading: &JournalReading, export: &[u8]) -> (String, JournalRecord<'static>) {
        let (mut entries, mut shown) = (JournalParser::new(1 << 20), None);
        let fed = entries.feed(export, |entry| {
            let read = reading.record(&entry, Ticks::UNIX_EPOCH);
            let part = |field: &Field<'_>| match &field.value {
                Value::String(text) => format!(" {}={text:?}", field.name),
                other => format!(" {}={other:?}", field.name),
            };
            let record = &read.record;
            let fields: String = record.fields.iter().map(part).collect();
            let time = record.time.map(|time| time.to_string()).unwrap_or_default();
            let level = record.level.map_or("", Level::name);
            let text = format!("{time} {level} {:?}{fields}", record.message);
            shown = Some((text, JournalRecord { record: Record::default(), ..read }));
        });
        fed.and_then(|()| entries.finish(|_| {})).expect("entries");
        shown.expect("an entry")
    }

    const NATIVE: &str = "__CURSOR=s=ab;i=1f;b=cd;m=1;t=2;x=3\n__REALTIME_TIMESTAMP=1763712345678901\n\
        __MONOTONIC_TIMESTAMP=77\n_BOOT_ID=cd\n_TRANSPORT=journal\n_UID=0\n_HOSTNAME=web-17\n_PID=042\nPRIORITY=4\n\
        SYSLOG_IDENTIFIER=sshd\nSYSLOG_FACILITY=4\n_COMM=sshd\n_SYSTEMD_UNIT=ssh.service\nCODE_LINE=7\n";

    #[test]
    fn an_entry_is_a_record() {
        let reading = JournalReading::default();
        let (text, read) =
            shown(&reading, format!("{NATIVE}MESSAGE=level=info text, no line\nMESSAGE=more\n\n").as_bytes());
        assert_eq!(
            text,
            "2025-11-21T08:05:45.678901Z warn \"level=info text, no line\" host=\"web-17\" component=\"sshd\" pid=\"042\" \
             unit=\"ssh.service\" facility=\"auth\" _BOOT_ID=\"cd\" _TRANSPORT=\"journal\" _UID=Int64(0) _COMM=\"sshd\" \
             CODE_LINE=Int64(7) MESSAGE=\"more\""
        );
        assert_eq!((read.origin, read.format), (Some(cursor::origin("s=ab;i=1f")), Format::Plain));
        assert!(!read.is_invalid_utf8);
    }

    #[test]
    fn output_of_a_service_is_parsed_like_a_line() {
        let reading = JournalReading::default();
        let head = "_SOURCE_REALTIME_TIMESTAMP=1763712345000000\n__REALTIME_TIMESTAMP=1763712345678901\nPRIORITY=6\n";
        for (fields, expected) in [
            (
                "_TRANSPORT=stdout\nMESSAGE=level=error msg=\"no disk\" disk=2\n",
                "2025-11-21T08:05:45Z error \"no disk\" priority=Int64(6) disk=Int64(2) _TRANSPORT=\"stdout\"",
            ),
            (
                "CONTAINER_ID=ab\nMESSAGE={\"level\":\"info\",\"msg\":\"up\"}\n",
                "2025-11-21T08:05:45Z info \"up\" CONTAINER_ID=\"ab\"",
            ),
            (
                "_TRANSPORT=syslog\nMESSAGE={\"msg\":\"up\",\"time\":\"2025-11-21T08:05:44Z\"}\n",
                "2025-11-21T08:05:44Z info \"up\" _TRANSPORT=\"syslog\"",
            ),
            (
                "_TRANSPORT=stdout\nMESSAGE=Nov 20 01:02:03 host app[1]: it is of the entry's year\n",
                "2025-11-20T01:02:03Z info \"it is of the entry's year\" host=\"host\" component=\"app\" pid=Int64(1) _TRANSPORT=\"stdout\"",
            ),
            ("_TRANSPORT=stdout\nMESSAGE=\n", "2025-11-21T08:05:45Z info \"\" _TRANSPORT=\"stdout\""),
            ("_TRANSPORT=audit\n", "2025-11-21T08:05:45Z info \"\" _TRANSPORT=\"audit\""),
        ] {
            assert_eq!(shown(&reading, format!("{head}{fields}\n").as_bytes()).0, expected);
        }
        let plain =
            JournalReading::new(ParseOptions { format: FormatChoice::Only(Format::Plain), ..ParseOptions::default() });
        let (text, _) = shown(&plain, b"MESSAGE={\"msg\":\"up\"}\nPRIORITY=9\n\n");
        assert_eq!(text, "  \"{\\\"msg\\\":\\\"up\\\"}\" PRIORITY=\"9\"");
    }

    #[test]
    fn bytes_that_are_no_text_are_marked_and_secrets_replaced_wherever_they_are() {
        let (text, read) = shown(&JournalReading::default(), b"MESSAGE\n\x05\0\0\0\0\0\0\0a\n\xffbc\nMESSAGE_ID=x\n\n");
        assert_eq!(
            (text.as_str(), read.is_invalid_utf8, read.origin),
            ("  \"a\\n\u{fffd}bc\" MESSAGE_ID=\"x\"", true, None)
        );
        let (text, read) = shown(&JournalReading::default(), b"MESSAGE=a\nA=\xff\n\n");
        assert_eq!((text.as_str(), read.is_invalid_utf8), ("  \"a\" A=Binary([255])", false));
        let redactor = Redactor::new(Redaction::preset("email"));
        let reading = JournalReading::new(ParseOptions { redactor, ..ParseOptions::default() });
        let (text, _) = shown(&reading, b"MESSAGE=to ann@example.com\n_CMDLINE=mail bob@example.com\n\n");
        assert_eq!(text, "  \"to [redacted email]\" _CMDLINE=\"mail [redacted email]\"");
    }
}
