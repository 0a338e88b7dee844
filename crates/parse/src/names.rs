//! The names that common programs and libraries use in JSON and logfmt for time, level, message, component, process and
//! host.
//!
//! Each role has a list of names in order of preference. Most names are clear by themselves. Some are so common that
//! they count only beside a witness, another name of the same library: `name` is a logger next to a process and a host
//! as bunyan and pino write them, and a user elsewhere. Such names rank from [`WEAK`] on, and `builder` checks their
//! witness.

/// The part of a record that a name may fill.
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

/// `t.$date`, the first member of each line of MongoDB.
pub(super) const MONGO_DATE: u8 = 17;
/// `@t`, of Serilog's compact format.
pub(super) const CLEF_TIME: u8 = 5;
/// `@m` and `@mt`: the message, and the template of a message.
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

/// `MESSAGE`, of journald.
pub(super) const JOURNAL_MESSAGE: u8 = 9;
/// `timestamp.seconds` of Google Cloud and `instant.epochSecond` of log4j; their nanoseconds have a name of their own.
pub(super) const TIMESTAMP_SECONDS: u8 = 20;
/// See [`TIMESTAMP_SECONDS`].
pub(super) const INSTANT_SECONDS: u8 = 21;

/// Columns that occur only in tables; see `csv`.
pub(super) const TABLE_MESSAGE: u8 = 15;
/// See [`TABLE_MESSAGE`].
pub(super) const TABLE_TIME: u8 = 22;
/// See [`TABLE_MESSAGE`].
pub(super) const TABLE_SOURCE: u8 = 11;
/// See [`TABLE_MESSAGE`].
pub(super) const TABLE_HOST: u8 = 7;

/// `timestampSeconds`, of Google's older libraries, beside `timestampNanos`.
pub(super) const JOINED_SECONDS: u8 = 25;

/// `type`: `Warning` in Kubernetes' events. Most types are not levels.
pub(super) const TYPE: u8 = 23;
/// Its numbers are those of Lager: 0 to 3.
pub(super) const LOG_LEVEL: u8 = 10;
/// `severityLevel`, of Application Insights: 0 to 4.
pub(super) const SEVERITY_LEVEL: u8 = 22;
/// `Severity`: a word, or FoundationDB's 10 to 40 as text.
pub(super) const SEVERITY: u8 = 18;
/// `PRIORITY`, of journald: 0 to 7.
pub(super) const PRIORITY: u8 = 12;
/// `severity_number`, of OpenTelemetry: 1 to 24.
pub(super) const SEVERITY_NUMBER: u8 = 15;
/// `error_severity`, of PostgreSQL.
pub(super) const ERROR_SEVERITY: u8 = 14;
/// The rank of a number whose scale is guessed: a word under any other name is better.
pub(super) const GUESSED: u8 = 200;

/// `tags`, of Kibana and OpenSearch Dashboards: a list in which a level may be. The list stays a field.
pub(super) const TAGS: u8 = 201;

/// The name under which a record has the field `name`, if the field became its component, process or host: `host` for
/// `_HOSTNAME`.
pub fn kept_name(name: &str) -> &str {
    match role_of(name) {
        Some((Role::Component, _)) => "component",
        Some((Role::Pid, _)) => "pid",
        Some((Role::Host, _)) => "host",
        _ => name,
    }
}

/// The role of a name and its rank among the names of that role; 0 is the most preferred.
///
/// The lookup goes by length first, because most names have no role and each name of a line is looked up.
#[inline]
pub(super) fn role_of(name: &str) -> Option<(Role, u8)> {
    use Role::{Component, Host, Level, Message, Pid, Time};
    let name = name.as_bytes();
    Some(match name.len() {
        1 => match name {
            b"s" => (Level, MONGO),
            b"c" => (Component, MONGO),
            b"t" => (Time, 24),
            _ => return None,
        },
        2 => match name {
            b"ts" => (Time, 3),
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
            b"time" => (Time, 1),
            b"date" => (Time, 7),
            b"Time" => (Time, 13),
            b"prio" => (Level, 21),
            b"type" => (Level, TYPE),
            b"tags" => (Level, TAGS),
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
            b"@level" => (Level, 19),
            b"logger" => (Component, 1),
            b"module" => (Component, 9),
            b"target" => (Component, TARGET),
            _ => return None,
        },
        7 => match name {
            b"message" => (Message, 0),
            b"request" => (Message, 16),
            b"Message" => (Message, 8),
            b"MESSAGE" => (Message, JOURNAL_MESSAGE),
            b"t.$date" => (Time, MONGO_DATE),
            b"devname" => (Host, 8),
            b"asctime" => (Time, 9),
            b"channel" => (Component, CHANNEL),
            b"process" => (Pid, 6),
            _ => return None,
        },
        8 => match name {
            b"datetime" => (Time, 6),
            b"severity" => (Level, 1),
            b"Severity" => (Level, SEVERITY),
            b"priority" => (Level, 20),
            b"@message" => (Message, 18),
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
            b"timestamp" => (Time, 2),
            b"Timestamp" => (Time, 8),
            b"eventTime" => (Time, 4),
            b"log.level" => (Level, 4),
            b"log-level" => (Level, 25),
            b"levelname" => (Level, LEVELNAME),
            b"log_level" => (Level, LOG_LEVEL),
            b"component" => (Component, 0),
            b"subsystem" => (Component, 10),
            b"host.name" => (Host, 2),
            b"_HOSTNAME" => (Host, 3),
            b"processId" => (Pid, 4),
            b"ProcessId" => (Pid, 5),
            _ => return None,
        },
        10 => match name {
            b"@timestamp" => (Time, 0),
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
            b"record.name" => (Component, 12),
            b"process.pid" => (Pid, 1),
            b"MachineName" => (Host, 5),
            b"device_name" => (Host, 9),
            b"textPayload" => (Message, 10),
            _ => return None,
        },
        12 => match name {
            b"severityText" => (Level, 13),
            b"service.name" => (Component, 8),
            b"time_iso8601" => (Time, 10),
            b"timeUnixNano" => (Time, 16),
            _ => return None,
        },
        13 => match name {
            b"severity_text" => (Level, 7),
            b"short_message" => (Message, SHORT_MESSAGE),
            b"severityLevel" => (Level, SEVERITY_LEVEL),
            b"SourceContext" => (Component, 6),
            b"host.hostname" => (Host, 6),
            _ => return None,
        },
        14 => match name {
            b"fields.message" => (Message, FIELDS_MESSAGE),
            b"record.message" => (Message, 3),
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

/// Longer names, which few lines have.
fn long(name: &[u8]) -> Option<(Role, u8)> {
    use Role::{Component, Level, Message, Pid, Time};
    Some(match name {
        b"body.stringValue" => (Message, 13),
        b"body.string_value" => (Message, 14),
        b"jsonPayload.message" => (Message, 11),
        b"SYSLOG_IDENTIFIER" => (Component, 7),
        b"__REALTIME_TIMESTAMP" => (Time, 19),
        b"record.level.name" => (Level, 17),
        b"record.process.id" => (Pid, 7),
        b"record.time.timestamp" => (Time, 23),
        b"timestamp.seconds" => (Time, TIMESTAMP_SECONDS),
        b"timestampSeconds" => (Time, JOINED_SECONDS),
        b"context.logLevel" => (Level, 26),
        b"instant.epochSecond" => (Time, INSTANT_SECONDS),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each name that has a role.
    const ALL: &str = "time timestamp ts @timestamp eventTime @t datetime date Timestamp asctime time_iso8601 start_time
        timeMillis Time _time dt timeUnixNano t.$date time_local __REALTIME_TIMESTAMP timestamp.seconds
        instant.epochSecond record.time.timestamp level severity lvl loglevel log.level levelname @l severity_text level_name LogLevel log_level
        Level PRIORITY severity_number severityNumber error_severity severityText logLevel s message msg @m body text log
        event short_message Message MESSAGE textPayload jsonPayload.message fields.message body.stringValue
        body.string_value @mt request record.message record.level.name record.name record.process.id component logger logger_name loggerName log.logger Category SourceContext SYSLOG_IDENTIFIER
        t prio type tags log-level context.logLevel @level @message Severity priority severityLevel devname device_name timestampSeconds
        service.name module subsystem name target channel c pid process.pid _PID process_id processId ProcessId process
        host hostname host.name _HOSTNAME HOSTNAME MachineName host.hostname";

    #[test]
    fn the_preferred_names() {
        const TIME: [&str; 8] = ["@timestamp", "time", "timestamp", "ts", "eventTime", "@t", "datetime", "date"];
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
}
