//! PostgreSQL's `csvlog`: no header and fixed columns. New versions append columns at the end.
//!
//! ```text
//! 2024-01-02 03:04:05.678 UTC,"ada","shop",123,"10.0.0.2:5432",65a.7b,1,"SELECT",…,ERROR,42P01,"relation ""a""…",…
//! ```
//!
//! An empty value adds no field.

use super::csv_fields::CsvFields;
use super::level_names::postgres as level_of;
use super::line_scanner::typed;
use super::timestamp::{self, TimestampDefaults};
use daytable_model::record::{Field, Record, Value};
use std::borrow::Cow;

/// The field names of the columns after the time.
const COLUMNS: [&str; 25] = [
    "user",
    "database",
    "pid",
    "client",
    "session_id",
    "session_line",
    "command",
    "session_start",
    "virtual_transaction_id",
    "transaction_id",
    SEVERITY,
    CODE,
    MESSAGE,
    "detail",
    "hint",
    "query",
    "query_position",
    "context",
    "statement",
    "statement_position",
    "location",
    "application",
    "backend_type",
    "leader_pid",
    "query_id",
];
const SEVERITY: &str = "error_severity";
const CODE: &str = "code";
const MESSAGE: &str = "message";
/// Columns of PostgreSQL 8.4, the fewest of any version, without the time.
const COLUMNS_MIN: usize = 21;

/// Whether a line begins a record. The lines of a statement may stand in quotes; this test assumes that none of them
/// begins with a time and a comma.
pub(super) fn begins(line: &str, defaults: &TimestampDefaults) -> bool {
    let stamp = timestamp::at_start(line.as_bytes(), defaults);
    stamp.is_some_and(|stamp| line.as_bytes().get(stamp.length) == Some(&b','))
}

/// Parses a record, which may have several lines.
pub(super) fn record<'a>(text: &'a str, defaults: &TimestampDefaults) -> Option<Record<'a>> {
    let stamp = timestamp::at_start(text.as_bytes(), defaults)?;
    let mut cells = CsvFields::new(text.get(stamp.length..)?.strip_prefix(',')?, b',');
    let (mut level, mut message) = (None, Cow::Borrowed(""));
    let mut fields = Vec::with_capacity(16);
    let mut names = COLUMNS.iter();
    for cell in cells.by_ref() {
        match *names.next()? {
            SEVERITY => level = Some(level_of(cell.written)?),
            MESSAGE => message = cell.text(),
            _ if cell.written.is_empty() => {}
            // A code is text, even one of digits only.
            name if cell.is_quoted || name == CODE => {
                fields.push(Field { name: name.into(), value: Value::String(cell.text()) })
            }
            name => fields.push(typed(name, cell.written)),
        }
    }
    if cells.is_open || cells.is_broken || names.len() > COLUMNS.len() - COLUMNS_MIN {
        return None;
    }
    Some(Record { time: Some(stamp.time), level, message, fields, ..Record::default() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_model::record::Level;
    use proptest::prelude::*;

    const LINE: &str = concat!(
        r#"2024-01-02 03:04:05.678 UTC,"ada","shop",123,"10.0.0.2:5432",65a.7b,1,"SELECT",2024-01-02 03:00:00 UTC,3/7,0,"#,
        r#"ERROR,42P01,"relation ""a"" does not exist",,,,,,"SELECT *"#,
        "\nFROM a;\",15,,\"psql\",\"client backend\",,0",
    );

    #[test]
    fn a_record_of_two_lines() {
        let record = record(LINE, &TimestampDefaults::default()).expect("csvlog");
        assert_eq!(record.time.map(|time| time.to_string()).as_deref(), Some("2024-01-02T03:04:05.678Z"));
        assert_eq!((record.level, &*record.message), (Some(Level::Error), "relation \"a\" does not exist"));
        let names: Vec<_> = record.fields.iter().map(|field| &*field.name).collect();
        let expected = "user database pid client session_id session_line command session_start virtual_transaction_id
            transaction_id code statement statement_position application backend_type query_id";
        assert_eq!(names, expected.split_ascii_whitespace().collect::<Vec<_>>());
        assert_eq!(record.fields[2].value, Value::Int64(123));
        assert_eq!(record.fields[11].value, Value::String("SELECT *\nFROM a;".into()));
        let lines: Vec<_> = LINE.lines().map(|line| begins(line, &TimestampDefaults::default())).collect();
        assert_eq!(lines, [true, false]);
    }

    #[test]
    fn near_misses_are_rejected() {
        let first = LINE.lines().next().expect("a line");
        let long = format!("{LINE},1");
        let loud = LINE.replace("ERROR", "LOUD");
        for text in ["", first, &long, &loud, "2024-01-02 03:04:05.678 UTC,a,b", "x,y"] {
            assert_eq!(record(text, &TimestampDefaults::default()), None, "{text}");
        }
    }

    proptest! {
        /// No text and no part of a record makes the parser panic.
        #[test]
        fn any_part(start in 0..LINE.len(), text in "2024-01-02 03:04:05,([,\"\n]|\\PC){0,40}") {
            let _ = (record(&LINE[start..], &TimestampDefaults::default()), record(&text, &TimestampDefaults::default()));
            let in_statement = LINE.find("FROM").unwrap_or(0);
            prop_assert!(start == 0 || start > in_statement || record(&LINE[..start], &TimestampDefaults::default()).is_none());
        }
    }
}
