//! Which names stand for the time, the level, the message, the component, the process and the host, in the JSON and
//! logfmt of the programs and libraries that are common; and what the numbers mean that some of them write for a level.
//!
//! A role has a list of names, the preferred one first. Most names say it by themselves. Some are too common for that
//! and count only beside a witness: `name` is a logger's where a process and a host are named as bunyan and pino do, and
//! a user's elsewhere. They rank behind [`WEAK`], and `draft` asks for their witness when the line is read.

use crate::record::{Level, Value};

/// What a name may give besides a field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    Time,
    Level,
    Message,
    Component,
    Pid,
    Host,
}

/// Names of a component from this rank on need a witness.
pub(super) const WEAK: u8 = 100;
/// `name`, of bunyan, pino and Python.
pub(super) const NAME: u8 = WEAK;
/// `target`, of Rust's tracing.
pub(super) const TARGET: u8 = WEAK + 1;
/// `channel`, of monolog.
pub(super) const CHANNEL: u8 = WEAK + 2;
/// `c` and `s`, of MongoDB.
pub(super) const MONGO: u8 = WEAK + 3;

/// `t.$date`, with which each line of MongoDB begins.
pub(super) const MONGO_DATE: u8 = 17;
/// `@t`, of Serilog's compact format.
pub(super) const CLEF_TIME: u8 = 5;
/// `@m` and `@mt`: the message, and the template of one.
pub(super) const CLEF_MESSAGE: u8 = 2;
/// See [`CLEF_MESSAGE`].
pub(super) const CLEF_TEMPLATE: u8 = 17;
/// `levelname`, of Python.
pub(super) const LEVELNAME: u8 = 5;
/// `level_name`, of monolog.
pub(super) const LEVEL_NAME: u8 = 8;
/// `fields.message`, of Rust's tracing.
pub(super) const FIELDS_MESSAGE: u8 = 12;
/// `short_message`, of GELF.
pub(super) const SHORT_MESSAGE: u8 = 7;

/// Columns that only tables have; see `csv`.
pub(super) const TABLE_MESSAGE: u8 = 15;
/// See [`TABLE_MESSAGE`].
pub(super) const TABLE_TIME: u8 = 22;
/// See [`TABLE_MESSAGE`].
pub(super) const TABLE_SOURCE: u8 = 11;
/// See [`TABLE_MESSAGE`].
pub(super) const TABLE_HOST: u8 = 7;

/// `PRIORITY`, of journald: 0 to 7.
const PRIORITY: u8 = 12;
/// `severity_number`, of OpenTelemetry: 1 to 24.
const SEVERITY_NUMBER: u8 = 13;
/// `error_severity`, of PostgreSQL.
const ERROR_SEVERITY: u8 = 14;
/// The rank of a number whose scale is a guess: a word by any other name is better.
pub(super) const GUESSED: u8 = 200;

/// The role of a name and its place among the names of that role, 0 being the one preferred.
///
/// By length first: nearly all names are none of these, and a line asks this for each of its names.
#[inline]
pub(super) fn role_of(name: &str) -> Option<(Role, u8)> {
    use Role::{Component, Host, Level, Message, Pid, Time};
    let name = name.as_bytes();
    Some(match name.len() {
        1 => match name {
            b"s" => (Level, MONGO),
            b"c" => (Component, MONGO),
            _ => return None,
        },
        2 => match name {
            b"ts" => (Time, 2),
            b"@t" => (Time, CLEF_TIME),
            b"dt" => (Time, 15),
            b"@l" => (Level, 6),
            b"@m" => (Message, CLEF_MESSAGE),
            _ => return None,
        },
        3 => match name {
            b"lvl" => (Level, 2),
            b"msg" => (Message, 1),
            b"log" => (Message, 5),
            b"pid" => (Pid, 0),
            b"@mt" => (Message, CLEF_TEMPLATE),
            _ => return None,
        },
        4 => match name {
            b"time" => (Time, 0),
            b"date" => (Time, 7),
            b"Time" => (Time, 13),
            b"body" => (Message, 3),
            b"text" => (Message, 4),
            b"host" => (Host, 0),
            b"name" => (Component, NAME),
            b"_PID" => (Pid, 2),
            _ => return None,
        },
        5 => match name {
            b"level" => (Level, 0),
            b"Level" => (Level, 11),
            b"event" => (Message, 6),
            b"_time" => (Time, 14),
            _ => return None,
        },
        6 => match name {
            b"logger" => (Component, 1),
            b"module" => (Component, 9),
            b"target" => (Component, TARGET),
            _ => return None,
        },
        7 => match name {
            b"message" => (Message, 0),
            b"Message" => (Message, 8),
            b"MESSAGE" => (Message, 9),
            b"t.$date" => (Time, MONGO_DATE),
            b"asctime" => (Time, 9),
            b"channel" => (Component, CHANNEL),
            b"process" => (Pid, 6),
            _ => return None,
        },
        8 => match name {
            b"datetime" => (Time, 6),
            b"severity" => (Level, 1),
            b"loglevel" => (Level, 3),
            b"LogLevel" => (Level, 9),
            b"logLevel" => (Level, 16),
            b"PRIORITY" => (Level, PRIORITY),
            b"hostname" => (Host, 1),
            b"HOSTNAME" => (Host, 4),
            b"Category" => (Component, 5),
            _ => return None,
        },
        9 => match name {
            b"timestamp" => (Time, 1),
            b"Timestamp" => (Time, 8),
            b"eventTime" => (Time, 4),
            b"log.level" => (Level, 4),
            b"levelname" => (Level, LEVELNAME),
            b"log_level" => (Level, 10),
            b"component" => (Component, 0),
            b"subsystem" => (Component, 10),
            b"host.name" => (Host, 2),
            b"_HOSTNAME" => (Host, 3),
            b"processId" => (Pid, 4),
            b"ProcessId" => (Pid, 5),
            _ => return None,
        },
        10 => match name {
            b"@timestamp" => (Time, 3),
            b"start_time" => (Time, 11),
            b"timeMillis" => (Time, 12),
            b"time_local" => (Time, 18),
            b"level_name" => (Level, LEVEL_NAME),
            b"log.logger" => (Component, 4),
            b"loggerName" => (Component, 3),
            b"process_id" => (Pid, 3),
            _ => return None,
        },
        11 => match name {
            b"logger_name" => (Component, 2),
            b"process.pid" => (Pid, 1),
            b"MachineName" => (Host, 5),
            b"textPayload" => (Message, 10),
            _ => return None,
        },
        12 => match name {
            b"severityText" => (Level, 15),
            b"service.name" => (Component, 8),
            b"time_iso8601" => (Time, 10),
            b"timeUnixNano" => (Time, 16),
            _ => return None,
        },
        13 => match name {
            b"severity_text" => (Level, 7),
            b"short_message" => (Message, SHORT_MESSAGE),
            b"SourceContext" => (Component, 6),
            b"host.hostname" => (Host, 6),
            _ => return None,
        },
        14 => match name {
            b"fields.message" => (Message, FIELDS_MESSAGE),
            b"severityNumber" => (Level, SEVERITY_NUMBER),
            b"error_severity" => (Level, ERROR_SEVERITY),
            _ => return None,
        },
        15 => match name {
            b"severity_number" => (Level, SEVERITY_NUMBER),
            _ => return None,
        },
        _ => return long(name),
    })
}

/// Longer names; few lines have one.
fn long(name: &[u8]) -> Option<(Role, u8)> {
    use Role::{Component, Message, Time};
    Some(match name {
        b"body.stringValue" => (Message, 13),
        b"body.string_value" => (Message, 14),
        b"jsonPayload.message" => (Message, 11),
        b"SYSLOG_IDENTIFIER" => (Component, 7),
        b"__REALTIME_TIMESTAMP" => (Time, 19),
        b"timestamp.seconds" => (Time, 20),
        b"instant.epochSecond" => (Time, 21),
        _ => return None,
    })
}

/// The level that a value gives by a name of some rank, and the rank that it has for that.
///
/// A number of 10 to 60 in tens is bunyan's and pino's. Others are told by the name, or are guessed at: 0 to 7 is
/// syslog's scale where the line turns out to be GELF, and 100 to 600 is monolog's.
pub(super) fn level(value: &Value<'_>, rank: u8) -> Option<(Level, u8)> {
    let level = match value {
        Value::String(digit) if rank == PRIORITY => syslog(digit.parse().ok()?)?,
        Value::String(word) if rank == MONGO => mongo(word)?,
        Value::String(word) if rank == ERROR_SEVERITY => postgres(word)?,
        Value::String(word) => Level::from_word(word).or_else(|| slog(word))?,
        Value::Int64(number) => match rank {
            PRIORITY => syslog(*number)?,
            SEVERITY_NUMBER => opentelemetry(*number)?,
            0 => match number {
                0..=7 => return syslog(*number).map(|level| (level, GUESSED)),
                100 | 200 | 250 | 300 | 400 | 500 | 550 | 600 => return Some((monolog(*number), GUESSED)),
                _ => bunyan(*number)?,
            },
            _ => bunyan(*number)?,
        },
        _ => return None,
    };
    Some((level, rank))
}

/// The level of a severity of syslog, 0 to 7.
pub(super) fn syslog(number: i64) -> Option<Level> {
    Some(match number {
        0 => Level::Fatal,
        1 => Level::Alert,
        2 => Level::Critical,
        3 => Level::Error,
        4 => Level::Warn,
        5 => Level::Notice,
        6 => Level::Info,
        7 => Level::Debug,
        _ => return None,
    })
}

fn bunyan(number: i64) -> Option<Level> {
    Some(match number {
        10 => Level::Trace,
        20 => Level::Debug,
        30 => Level::Info,
        40 => Level::Warn,
        50 => Level::Error,
        60 => Level::Fatal,
        _ => return None,
    })
}

fn monolog(number: i64) -> Level {
    match number {
        ..=100 => Level::Debug,
        101..=200 => Level::Info,
        201..=250 => Level::Notice,
        251..=300 => Level::Warn,
        301..=400 => Level::Error,
        401..=500 => Level::Critical,
        501..=550 => Level::Alert,
        _ => Level::Fatal,
    }
}

fn opentelemetry(number: i64) -> Option<Level> {
    Some(match number {
        1..=4 => Level::Trace,
        5..=8 => Level::Debug,
        9 => Level::Info,
        10..=12 => Level::Notice,
        13..=16 => Level::Warn,
        17 => Level::Error,
        18 => Level::Critical,
        19 | 20 => Level::Alert,
        21..=24 => Level::Fatal,
        _ => return None,
    })
}

/// The letters of MongoDB: I, W, E, F, D, and D1 to D5.
fn mongo(letter: &str) -> Option<Level> {
    Some(match letter.as_bytes() {
        b"I" => Level::Info,
        b"W" => Level::Warn,
        b"E" => Level::Error,
        b"F" => Level::Fatal,
        b"D" | [b'D', b'1'..=b'5'] => Level::Debug,
        _ => return None,
    })
}

/// The words of PostgreSQL. LOG is what an administrator wants to see in any case.
pub(super) fn postgres(word: &str) -> Option<Level> {
    Some(match word {
        "LOG" | "INFO" | "STATEMENT" => Level::Info,
        "NOTICE" => Level::Notice,
        "WARNING" => Level::Warn,
        "ERROR" => Level::Error,
        "FATAL" | "PANIC" => Level::Fatal,
        "DEBUG" | "DEBUG1" | "DEBUG2" | "DEBUG3" | "DEBUG4" | "DEBUG5" => Level::Debug,
        _ => return None,
    })
}

/// A level between two, as Go's slog writes it: `INFO+2`, `DEBUG-4`.
fn slog(word: &str) -> Option<Level> {
    let (name, by) = word.split_at_checked(word.find(['+', '-'])?)?;
    by.get(1..)?.parse::<u8>().ok()?;
    let level = Level::from_word(name)?;
    Some(if by == "-4" && level == Level::Debug { Level::Trace } else { level })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each name that has a role.
    const ALL: &str = "time timestamp ts @timestamp eventTime @t datetime date Timestamp asctime time_iso8601 start_time
        timeMillis Time _time dt timeUnixNano t.$date time_local __REALTIME_TIMESTAMP timestamp.seconds
        instant.epochSecond level severity lvl loglevel log.level levelname @l severity_text level_name LogLevel log_level
        Level PRIORITY severity_number severityNumber error_severity severityText logLevel s message msg @m body text log
        event short_message Message MESSAGE textPayload jsonPayload.message fields.message body.stringValue
        body.string_value @mt component logger logger_name loggerName log.logger Category SourceContext SYSLOG_IDENTIFIER
        service.name module subsystem name target channel c pid process.pid _PID process_id processId ProcessId process
        host hostname host.name _HOSTNAME HOSTNAME MachineName host.hostname";

    #[test]
    fn the_preferred_names() {
        const TIME: [&str; 8] = ["time", "timestamp", "ts", "@timestamp", "eventTime", "@t", "datetime", "date"];
        const LEVEL: [&str; 8] =
            ["level", "severity", "lvl", "loglevel", "log.level", "levelname", "@l", "severity_text"];
        const MESSAGE: [&str; 7] = ["message", "msg", "@m", "body", "text", "log", "event"];
        const COMPONENT: [&str; 5] = ["component", "logger", "logger_name", "loggerName", "log.logger"];
        for (role, list) in [
            (Role::Time, &TIME[..]),
            (Role::Level, &LEVEL),
            (Role::Message, &MESSAGE),
            (Role::Component, &COMPONENT),
            (Role::Pid, &["pid", "process.pid", "_PID"]),
            (Role::Host, &["host", "hostname", "host.name", "_HOSTNAME"]),
        ] {
            for (rank, name) in (0u8..).zip(list) {
                assert_eq!(role_of(name), Some((role, rank)), "{name}");
            }
        }
        for name in ALL.split_ascii_whitespace() {
            assert!(role_of(name).is_some(), "{name}");
        }
        for name in ["", "a", "tz", "TIME", "messages", "severity_code", "status", "method", "jsonPayload.messages"] {
            assert_eq!(role_of(name), None, "{name}");
        }
    }

    #[test]
    fn each_scale_has_its_names() {
        let number = Value::Int64;
        let text = |text: &'static str| Value::String(text.into());
        for (name, value, expected) in [
            ("level", number(10), Some(Level::Trace)),
            ("level", number(30), Some(Level::Info)),
            ("level", number(60), Some(Level::Fatal)),
            ("level", number(35), None),
            ("level", number(250), Some(Level::Notice)),
            ("level", number(550), Some(Level::Alert)),
            ("level", number(3), Some(Level::Error)),
            ("severity", number(3), None),
            ("PRIORITY", text("6"), Some(Level::Info)),
            ("PRIORITY", number(4), Some(Level::Warn)),
            ("PRIORITY", text("8"), None),
            ("severity_number", number(9), Some(Level::Info)),
            ("severityNumber", number(24), Some(Level::Fatal)),
            ("severity_number", number(0), None),
            ("error_severity", text("LOG"), Some(Level::Info)),
            ("error_severity", text("log"), None),
            ("s", text("D2"), Some(Level::Debug)),
            ("s", text("INFO"), None),
            ("level", text("INFO+2"), Some(Level::Info)),
            ("level", text("DEBUG-4"), Some(Level::Trace)),
            ("level", text("INFO-x"), None),
            ("LogLevel", text("Information"), Some(Level::Info)),
            ("level", Value::Boolean(true), None),
        ] {
            let (role, rank) = role_of(name).expect("a role");
            assert_eq!(role, Role::Level);
            assert_eq!(level(&value, rank).map(|(level, _)| level), expected, "{name} {value:?}");
        }
    }
}
