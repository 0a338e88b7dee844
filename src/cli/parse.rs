//! `daytable parse`: what the parser makes of each line, as one JSON object, to try a format.
//!
//! `time`, `level`, `message`, then `component`, `pid` and `host`, as far as the line gives them, then its other
//! fields. A field that is called like one that is there already is kept beside it, with `_` behind its name.

use super::exit::CliError;
use super::output::Output;
use crate::parse::{Format, FormatChoice, parse};
use crate::query::record::beside_keys;
use crate::record::{Field, Level, Record, Value};
use serde::ser::{Serialize, SerializeMap, Serializer};
use std::collections::HashSet;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal, Read};
use std::path::{Path, PathBuf};

/// Bytes of a line at most; the rest of a longer one is passed over.
const LINE_BYTES_MAX: u64 = 1 << 20;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files of lines; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// What the lines are: auto, json, logfmt, text or plain
    #[arg(long, default_value = "auto")]
    format: FormatChoice,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let mut output = Output::new();
    let mut summaries = Vec::new();
    for path in &args.files {
        let failed = |source| CliError::Input { path: path.clone(), source };
        let mut lines: Box<dyn BufRead> = if path == Path::new("-") {
            Box::new(io::stdin().lock())
        } else {
            Box::new(BufReader::with_capacity(64 << 10, File::open(path).map_err(failed)?))
        };
        let mut summary = Summary::default();
        let mut line = Vec::new();
        while next_line(&mut lines, &mut line).map_err(failed)? {
            let text = String::from_utf8_lossy(&line);
            let parsed = parse(&text, args.format);
            summary.add(&parsed.record, parsed.format);
            output.json(&Shown(&parsed.record))?;
        }
        summaries.push((path, summary));
    }
    output.flush()?;
    if io::stderr().is_terminal() {
        for (path, summary) in summaries {
            eprintln!("{}: {}", path.display(), summary.text());
        }
    }
    Ok(())
}

/// Reads the next line without its newline and the carriage return before that; false at the end.
fn next_line(lines: &mut dyn BufRead, line: &mut Vec<u8>) -> io::Result<bool> {
    line.clear();
    if lines.take(LINE_BYTES_MAX).read_until(b'\n', line)? == 0 {
        return Ok(false);
    }
    if line.pop_if(|byte| *byte == b'\n').is_some() {
        line.pop_if(|byte| *byte == b'\r');
    } else if line.len() as u64 == LINE_BYTES_MAX {
        lines.skip_until(b'\n')?;
    }
    Ok(true)
}

/// What was made of the lines of a file.
#[derive(Default)]
struct Summary {
    lines: u64,
    formats: [u64; Format::ALL.len()],
    with_time: u64,
    with_level: u64,
}

impl Summary {
    fn add(&mut self, record: &Record<'_>, format: Format) {
        self.lines += 1;
        for (count, known) in self.formats.iter_mut().zip(Format::ALL) {
            *count += u64::from(format == known);
        }
        self.with_time += u64::from(record.time.is_some());
        self.with_level += u64::from(record.level.is_some());
    }

    fn text(&self) -> String {
        let formats = self.formats.iter().zip(Format::ALL).filter(|(count, _)| **count > 0);
        let formats: Vec<_> = formats.map(|(count, format)| format!("{count} {}", format.label())).collect();
        let formats = if formats.is_empty() { String::new() } else { format!(" ({})", formats.join(", ")) };
        format!("{} lines{formats}, {} with a time, {} with a level", self.lines, self.with_time, self.with_level)
    }
}

/// A record that was not stored, as JSON.
struct Shown<'r>(&'r Record<'r>);

impl Serialize for Shown<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let record = self.0;
        let mut map = serializer.serialize_map(None)?;
        let mut taken: HashSet<String> = ["time", "level", "message"].map(str::to_owned).into();
        if let Some(time) = record.time {
            map.serialize_entry("time", &time.to_string())?;
        }
        if let Some(level) = record.level {
            map.serialize_entry("level", Level::name(level))?;
        }
        map.serialize_entry("message", &record.message)?;
        let place = |field: &&Field<'_>| match &*field.name {
            "component" => 0,
            "pid" => 1,
            "host" => 2,
            _ => 3,
        };
        let mut fields: Vec<&Field<'_>> = record.fields.iter().collect();
        fields.sort_by_key(place);
        for field in fields {
            let mut name = field.name.to_string();
            if taken.contains(&name) {
                name = beside_keys(&name, |name| taken.contains(name));
            }
            match &field.value {
                Value::String(text) => map.serialize_entry(&name, text)?,
                Value::Int64(n) => map.serialize_entry(&name, n)?,
                Value::Double(n) if !n.is_finite() => map.serialize_entry(&name, &n.to_string())?,
                Value::Double(n) => map.serialize_entry(&name, n)?,
                Value::Boolean(b) => map.serialize_entry(&name, b)?,
            }
            taken.insert(name);
        }
        map.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn json(line: &str) -> String {
        serde_json::to_string(&Shown(&parse(line, FormatChoice::Auto).record)).expect("plain data")
    }

    #[test]
    fn what_the_line_gives_in_a_fixed_order() {
        for (line, shown) in [
            (
                r#"{"zone":1,"pid":7,"level":"warn","ts":"2026-11-21T08:00:00Z","msg":"hot","component":"cpu"}"#,
                r#"{"time":"2026-11-21T08:00:00Z","level":"warn","message":"hot","component":"cpu","pid":7,"zone":1}"#,
            ),
            ("just text", r#"{"message":"just text"}"#),
            ("", r#"{"message":""}"#),
        ] {
            assert_eq!(json(line), shown, "{line}");
        }
    }

    #[test]
    fn a_name_that_comes_twice_is_kept_beside_the_first() {
        let field = |name: &'static str, n| Field { name: name.into(), value: Value::Int64(n) };
        let fields = vec![field("level", 1), field("a", 2), field("a", 3), field("a_", 4), field("time", 5)];
        let record = Record { fields, ..Record::default() };
        assert_eq!(
            serde_json::to_string(&Shown(&record)).expect("plain data"),
            r#"{"message":"","level_":1,"a":2,"a_":3,"a__":4,"time_":5}"#
        );
    }

    #[test]
    fn lines_end_at_newlines_and_at_the_limit() {
        let long = "x".repeat(usize::try_from(LINE_BYTES_MAX).expect("small") + 5);
        let text = format!("a\r\n\n{long}\nb\rc");
        let (mut rest, mut line, mut lengths) = (text.as_bytes(), Vec::new(), Vec::new());
        while next_line(&mut rest, &mut line).expect("memory") {
            lengths.push(line.len() as u64);
        }
        assert_eq!(lengths, [1, 0, LINE_BYTES_MAX, 3]);
    }

    #[test]
    fn the_summary_counts_formats_times_and_levels() {
        let mut summary = Summary::default();
        for line in [r#"{"ts":"2026-11-21T08:00:00Z"}"#, "plain text", r#"{"level":"info"}"#] {
            let parsed = parse(line, FormatChoice::Auto);
            summary.add(&parsed.record, parsed.format);
        }
        assert_eq!(summary.text(), "3 lines (2 json, 1 plain), 1 with a time, 1 with a level");
        assert_eq!(Summary::default().text(), "0 lines, 0 with a time, 0 with a level");
    }
}
