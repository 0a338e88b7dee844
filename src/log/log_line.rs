//! One message, and its formats.

use daytable_model::safe_text::{self, is_unsafe};
use daytable_model::time::Ticks;
use serde_json::{Map, Value};
use std::fmt::{self, Write};
use tracing::field::{Field, Visit};
use tracing::{Event, Level};

/// Characters of one value at most, because an error may quote a long text.
const VALUE_CHARS_MAX: usize = 2000;

/// How messages are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LineFormat {
    /// For the journal.
    Journal,
    /// For a terminal.
    Terminal,
    /// For a file or a pipe.
    Plain,
    /// JSON objects.
    Json,
}

/// One message.
#[derive(Clone, Debug)]
pub(super) struct LogLine {
    pub(super) level: Level,
    /// The module that logs the message.
    pub(super) component: String,
    pub(super) message: String,
    pub(super) fields: Vec<(&'static str, FieldValue)>,
}

/// The value of a key.
#[derive(Clone, Debug)]
pub(super) enum FieldValue {
    /// A text, written in quotes.
    Text(String),
    /// A value, written without quotes.
    Plain(Value),
}

impl LogLine {
    pub(super) fn of(event: &Event<'_>) -> LogLine {
        let metadata = event.metadata();
        let component = metadata.target().to_owned();
        let mut line = LogLine { level: *metadata.level(), component, message: String::new(), fields: Vec::new() };
        event.record(&mut line);
        line
    }

    /// The message as text, with its final newline.
    pub(super) fn render(&self, form: LineFormat, now: Ticks) -> String {
        match form {
            LineFormat::Json => self.json(now),
            // Each line is a separate entry of the journal.
            LineFormat::Journal => {
                let prefix = format!("<{}>", priority(self.level));
                format!("{prefix}{}\n", self.text().replace('\n', &format!("\n{prefix}  ")))
            }
            LineFormat::Plain => format!("{now} {:>5} {}\n", self.level, self.text().replace('\n', "\n  ")),
            LineFormat::Terminal => {
                let colour = match self.level {
                    Level::ERROR => 31,
                    Level::WARN => 33,
                    Level::INFO => 32,
                    _ => 34,
                };
                let text = self.text().replace('\n', "\n  ");
                format!("\x1b[2m{now}\x1b[0m \x1b[{colour}m{:>5}\x1b[0m {text}\n", self.level)
            }
        }
    }

    /// `message key=value`
    fn text(&self) -> String {
        let mut text = escaped(&self.message);
        for (key, value) in &self.fields {
            let _ = match value {
                FieldValue::Text(value) => write!(text, " {key}={value:?}"),
                FieldValue::Plain(Value::String(value)) => write!(text, " {key}={}", escaped(value)),
                FieldValue::Plain(value) => write!(text, " {key}={value}"),
            };
        }
        text
    }

    fn json(&self, now: Ticks) -> String {
        let level = self.level.as_str().to_ascii_lowercase();
        let mut object = Map::new();
        for (key, value) in [
            ("time", now.to_string()),
            ("level", level),
            ("message", self.message.clone()),
            ("component", self.component.clone()),
        ] {
            object.insert(key.into(), value.into());
        }
        for (key, value) in &self.fields {
            let value = match value {
                FieldValue::Text(value) => value.clone().into(),
                FieldValue::Plain(value) => value.clone(),
            };
            object.insert((*key).into(), value);
        }
        let mut json = Vec::new();
        // Writing to memory cannot fail, and an object of texts can be serialized.
        let _ = safe_text::to_json(&mut json, &object);
        json.push(b'\n');
        String::from_utf8_lossy(&json).into_owned()
    }

    fn add(&mut self, field: &Field, value: FieldValue) {
        match (field.name(), value) {
            ("message", FieldValue::Plain(Value::String(message)) | FieldValue::Text(message)) => {
                self.message = message
            }
            (name, value) => self.fields.push((name, value)),
        }
    }
}

impl Visit for LogLine {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let mut text = Bounded::default();
        // The write fails when the limit is reached.
        let _ = write!(text, "{value:?}");
        self.add(field, FieldValue::Plain(text.text.into()));
    }

    fn record_str(&mut self, field: &Field, value: &str) {
        let mut text = Bounded::default();
        let _ = text.write_str(value);
        self.add(field, FieldValue::Text(text.text));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.add(field, FieldValue::Plain(value.into()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.add(field, FieldValue::Plain(value.into()));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.add(field, FieldValue::Plain(value.into()));
    }
}

/// A text of at most [`VALUE_CHARS_MAX`] characters.
#[derive(Default)]
struct Bounded {
    text: String,
    chars: usize,
}

impl fmt::Write for Bounded {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        for c in more.chars() {
            if self.chars >= VALUE_CHARS_MAX {
                self.text.push('…');
                return Err(fmt::Error);
            }
            self.chars += 1;
            self.text.push(c);
        }
        Ok(())
    }
}

/// Escapes characters that control a terminal, except newlines.
fn escaped(text: &str) -> String {
    let is_escaped = |c: char| c != '\n' && (is_unsafe(c) || c.is_control());
    if !text.contains(is_escaped) {
        return text.to_owned();
    }
    text.chars().fold(String::with_capacity(text.len()), |mut escaped, c| {
        match is_escaped(c) {
            true => escaped.extend(c.escape_default()),
            false => escaped.push(c),
        }
        escaped
    })
}

/// Syslog's number for a level.
fn priority(level: Level) -> u8 {
    match level {
        Level::ERROR => 3,
        Level::WARN => 4,
        Level::INFO => 6,
        _ => 7,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line() -> LogLine {
        LogLine {
            level: Level::WARN,
            component: "daytable::tail".into(),
            message: "cannot read\n<0>file".into(),
            fields: vec![
                ("path", FieldValue::Plain("/a\x1b[2J\u{9b}\u{202e}".into())),
                ("count", FieldValue::Plain(7.into())),
                ("block", FieldValue::Text("a\nb\u{85}\u{2066}\u{61c}".into())),
            ],
        }
    }

    #[test]
    fn every_line_has_its_priority_and_cannot_look_like_another_message() {
        let now = Ticks::from_date(2026, 11, 21).expect("a date");
        let text = r#"cannot read
  <0>file path=/a\u{1b}[2J\u{9b}\u{202e} count=7 block="a\nb\u{85}\u{2066}\u{61c}""#;
        assert_eq!(line().render(LineFormat::Journal, now), format!("<4>{}\n", text.replace("\n", "\n<4>")));
        assert_eq!(line().render(LineFormat::Plain, now), format!("2026-11-21T00:00:00Z  WARN {text}\n"));
        assert!(line().render(LineFormat::Terminal, now).ends_with(&format!("{text}\n")));
        assert_eq!(
            line().render(LineFormat::Json, now),
            concat!(
                r#"{"time":"2026-11-21T00:00:00Z","level":"warn","message":"cannot read\n<0>file","#,
                r#""component":"daytable::tail","path":"/a\u001b[2J\u009b\u202e","count":7,"block":"a\nb\u0085\u2066\u061c"}"#,
                "\n"
            )
        );
    }

    #[test]
    fn a_long_value_is_cut() {
        let mut text = Bounded::default();
        assert!(write!(text, "{}", "x".repeat(10 * VALUE_CHARS_MAX)).is_err());
        assert_eq!(text.text.chars().count(), VALUE_CHARS_MAX + 1);
    }
}
