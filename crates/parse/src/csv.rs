//! CSV: values between separators, named by the first line of the source.
//!
//! ```text
//! Level,Date and Time,Source,Message
//! Error,2024-01-02 03:04:05,disk,"The device, ""sda"",
//! is not ready"
//! ```
//!
//! Commas, semicolons or tabs separate values. A value in double quotes may contain separators, newlines and doubled
//! quotes. The first line is only assumed to be a header; the lines below confirm it when they have as many values and
//! a time or a level. Other lines stay plain, and so does the header itself.
//!
//! A last value that has no name is the message, where no column is.
//!
//! A value in quotes is text. Other values are typed by their form, and an empty value adds no field. Without a message
//! column, the whole line is the message.

use super::builder::RecordBuilder;
use super::csv_fields::CsvFields;
use super::names::{self, Role, role_of};
use super::pairs;
use super::time_fields;
use super::timestamp::{self, TimestampDefaults};
use daytable_model::record::{Record, Value};
use daytable_model::time::Ticks;
use memchr::memchr;
use std::borrow::Cow;

/// Columns of a header.
const COLUMNS_MAX: usize = 256;
/// Bytes of a header.
const HEADER_BYTES_MAX: usize = 16 << 10;
/// Bytes of a record that may still get more lines.
const OPEN_BYTES_MAX: usize = 64 << 10;
/// Bytes of a column's name; a longer text is a sentence.
const NAME_BYTES_MAX: usize = 48;

/// The names of the columns.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct CsvHeader {
    /// The line as written.
    line: String,
    separator: u8,
    columns: Vec<Column>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Column {
    name: String,
    role: Option<(Role, u8)>,
    part: Option<TimePart>,
}

/// What a column has of a time that lies in two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum TimePart {
    Date,
    Clock,
}

impl CsvHeader {
    /// Reads a header if the line looks like one: only names, each once.
    pub(super) fn read(line: &str) -> Option<CsvHeader> {
        if line.len() > HEADER_BYTES_MAX {
            return None;
        }
        let line = line.strip_prefix('\u{feff}').unwrap_or(line);
        let separator = *[b'\t', b';', b','].iter().find(|separator| memchr(**separator, line.as_bytes()).is_some())?;
        let mut columns: Vec<Column> = Vec::new();
        let mut cells = CsvFields::new(line, separator);
        for cell in cells.by_ref() {
            let name = cell.text();
            let is_new = columns.iter().all(|column| column.name != name);
            if !is_name(&name) || !is_new || columns.len() == COLUMNS_MAX {
                return None;
            }
            let english = english(&name);
            let part = match english.as_str() {
                "date" => Some(TimePart::Date),
                "time" => Some(TimePart::Clock),
                _ => None,
            };
            columns.push(Column { role: role(&name, &english), part, name: name.into_owned() });
        }
        // Where no name is known for the time, the column is it whose name speaks of one most: `created_at,actor,action`.
        if !columns.iter().any(|column| column.part.is_some() || matches!(column.role, Some((Role::Time, _)))) {
            let speaking = columns.iter_mut().filter_map(|column| Some((time_fields::rank_of(&column.name)?, column)));
            if let Some((_, column)) = speaking.min_by_key(|(rank, _)| *rank) {
                column.role = Some((Role::Time, names::TABLE_TIME));
            }
        }
        if cells.is_open || cells.is_broken || columns.len() < 2 || columns.iter().all(|column| column.role.is_none()) {
            return None;
        }
        Some(CsvHeader { line: line.to_owned(), separator, columns })
    }

    /// The line, for [`CsvHeader::read`].
    pub(super) fn save(&self) -> &str {
        &self.line
    }

    /// Whether the last value has an unclosed quote, so that the record continues in the next line.
    pub(super) fn is_open(&self, text: &str) -> bool {
        // Each new line scans the whole record again, so this bounds the time.
        if text.len() > OPEN_BYTES_MAX {
            return false;
        }
        let mut cells = CsvFields::new(text, self.separator);
        cells.by_ref().for_each(drop);
        cells.is_open
    }

    /// Parses a record; `None` if the number of values differs, or it has neither time nor level.
    pub(super) fn record<'a>(&self, text: &'a str, defaults: &TimestampDefaults) -> Option<Record<'a>> {
        let mut builder = RecordBuilder::new(defaults);
        let mut cells = CsvFields::new(text, self.separator);
        let (mut date, mut clock) = (None, None);
        let mut columns = self.columns.iter();
        // Windows' event viewer saves the message in a column without a name.
        let has_message = self.columns.iter().any(|column| matches!(column.role, Some((Role::Message, _))));
        let mut unnamed = None;
        for cell in cells.by_ref() {
            let Some(column) = columns.next() else {
                if has_message || unnamed.is_some() {
                    return None;
                }
                unnamed = Some(cell.text());
                continue;
            };
            let is_message = matches!(column.role, Some((Role::Message, _)));
            let value =
                if cell.is_quoted || is_message { Value::String(cell.text()) } else { pairs::typed(cell.written) };
            match column.part {
                Some(TimePart::Date) => date = Some(cell),
                Some(TimePart::Clock) => clock = Some(cell),
                None => {}
            }
            if cell.written.is_empty() && !cell.is_quoted {
                continue;
            }
            // The record cannot borrow from the header, so each name costs an allocation.
            builder.add_as(column.role, Cow::Owned(column.name.clone()), value);
        }
        if cells.is_open || cells.is_broken || columns.next().is_some() {
            return None;
        }
        let mut record = builder.finish();
        if let (None, Some(date), Some(clock)) = (record.time, date, clock) {
            record.time = joined_time(&date.text(), &clock.text(), defaults);
        }
        if record.time.is_none() && record.level.is_none() {
            return None;
        }
        if record.message.is_empty() && !has_message {
            record.message = unnamed.unwrap_or(Cow::Borrowed(text));
        }
        Some(record)
    }
}

/// Whether a column may have this name: a few words, and no value.
fn is_name(name: &str) -> bool {
    let is_part = |c: char| {
        c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '@' | '/' | '(' | ')' | '[' | ']' | ' ' | '#' | '%')
    };
    name.len() <= NAME_BYTES_MAX
        && name.starts_with(|c: char| c.is_alphabetic() || matches!(c, '_' | '@' | '#'))
        && !name.ends_with(' ')
        && name.chars().all(is_part)
}

/// What a column is called in English, in small letters: tables are exported in the language of their user.
fn english(name: &str) -> String {
    let mut lower = name.to_lowercase();
    // `TimeGenerated [UTC]`
    if lower.ends_with(" [utc]") {
        lower.truncate(lower.len() - " [utc]".len());
    }
    let known = match lower.as_str() {
        "datum" | "fecha" | "data" | "дата" => "date",
        "uhrzeit" | "zeit" | "heure" | "hora" | "ora" | "время" => "time",
        "zeitstempel" | "horodatage" | "fecha y hora" | "datum und uhrzeit" | "date et heure" => "timestamp",
        "stufe" | "schweregrad" | "ebene" | "niveau" | "gravité" | "nivel" | "gravedad" | "livello" | "уровень" => {
            "level"
        }
        "meldung" | "nachricht" | "beschreibung" | "mensaje" | "messaggio" | "сообщение" => "message",
        "quelle" | "origen" => "source",
        _ => return lower,
    };
    known.into()
}

/// The role of a column: the role of its name in any case, or of a name that only tables have. `english` is its name in English.
fn role(name: &str, english: &str) -> Option<(Role, u8)> {
    match english {
        "content" | "description" => Some((Role::Message, names::TABLE_MESSAGE)),
        "date and time" | "timegenerated" | "timecreated" | "date/time" => Some((Role::Time, names::TABLE_TIME)),
        "severitylevel" | "log level" | "severity level" => Some((Role::Level, names::SEVERITY_LEVEL)),
        "source" => Some((Role::Component, names::TABLE_SOURCE)),
        "computer" => Some((Role::Host, names::TABLE_HOST)),
        _ => role_of(name).or_else(|| role_of(english)).filter(|(_, rank)| *rank < names::WEAK),
    }
}

/// The time from separate columns for date and time of day.
fn joined_time(date: &str, clock: &str, defaults: &TimestampDefaults) -> Option<Ticks> {
    if date.len() + clock.len() > 64 {
        return None;
    }
    let both = format!("{date} {clock}");
    timestamp::at_start(both.as_bytes(), defaults).filter(|stamp| stamp.length == both.len()).map(|stamp| stamp.time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_column_whose_name_speaks_of_a_time_is_the_time_of_a_table() {
        let time = |head: &str, line: &str| {
            let record = CsvHeader::read(head)?.record(line, &TimestampDefaults::default())?;
            record.time.map(|time| time.to_string())
        };
        assert_eq!(
            time("created_at,actor,action", "2026-11-21T08:00:01Z,error,a").as_deref(),
            Some("2026-11-21T08:00:01Z")
        );
        assert_eq!(time("actor,action", "2026-11-21T08:00:01Z,a"), None);
        assert_eq!(CsvHeader::read("created by, the next, one"), None);
    }
    use daytable_model::record::{Field, Level};
    use proptest::prelude::*;

    fn read(header: &str, text: &str) -> Option<Record<'static>> {
        let header = CsvHeader::read(header).unwrap_or_else(|| panic!("{header}"));
        let record = header.record(text, &TimestampDefaults::default());
        record.map(|record| Record {
            message: record.message.into_owned().into(),
            fields: record.fields.into_iter().map(|field| own(&field)).collect(),
            time: record.time,
            level: record.level,
            ..Record::default()
        })
    }

    fn own(field: &Field<'_>) -> Field<'static> {
        let value = match &field.value {
            Value::String(text) => Value::String(text.to_string().into()),
            Value::Int64(number) => Value::Int64(*number),
            Value::Double(number) => Value::Double(*number),
            Value::Boolean(truth) => Value::Boolean(*truth),
            Value::Binary(bytes) => Value::Binary(bytes.to_vec().into()),
        };
        Field { name: field.name.to_string().into(), value }
    }

    #[test]
    fn lines_below_a_header() {
        for (header, line, message, fields) in [
            (
                "time,level,msg,user,n",
                "2024-01-02T03:04:05Z,warn,\"a \"\"b\"\", c\nd\",\"7\",7",
                "a \"b\", c\nd",
                &[("user", Value::String("7".into())), ("n", Value::Int64(7))][..],
            ),
            (
                "Date;Time;Level;Content",
                "2024-01-02;03:04:05;Warning;up",
                "up",
                &[("Date", Value::String("2024-01-02".into())), ("Time", Value::String("03:04:05".into()))],
            ),
            (
                "Timestamp\tSeverity\tPID\tComponent\tText",
                "2024-01-02 03:04:05\tWARN\t12\tdb\tup",
                "up",
                &[("pid", Value::Int64(12)), ("component", Value::String("db".into()))],
            ),
            (
                "Datum;Uhrzeit;Stufe;Meldung",
                "02.01.2024;03:04:05;WARNUNG;hoch",
                "hoch",
                &[("Datum", Value::String("02.01.2024".into())), ("Uhrzeit", Value::String("03:04:05".into()))],
            ),
            (
                "Level,Date and Time,Source",
                "Warning,1/2/2024 3:04:05 AM,disk",
                "Warning,1/2/2024 3:04:05 AM,disk",
                &[("component", Value::String("disk".into()))],
            ),
        ] {
            let record = read(header, line).unwrap_or_else(|| panic!("{line}"));
            assert_eq!((record.level, &*record.message), (Some(Level::Warn), message), "{line}");
            assert_eq!(record.time.map(|time| time.to_string()).as_deref(), Some("2024-01-02T03:04:05Z"), "{line}");
            let found: Vec<_> = record.fields.iter().map(|field| (&*field.name, field.value.clone())).collect();
            assert_eq!(found, fields, "{line}");
        }
    }

    #[test]
    fn lines_that_are_not_headers() {
        for line in [
            "",
            "time",
            "a,b,c",
            "time,level,level",
            "time, level",
            "time,,level",
            "time,7,level",
            "2024-01-02T03:04:05Z,level",
            "Starting at this time, please wait",
            "time,\"level",
            "time,\"level\"x",
            "name,channel,target",
        ] {
            assert_eq!(CsvHeader::read(line), None, "{line}");
        }
        assert_eq!(CsvHeader::read(&format!("time{}", ",a".repeat(HEADER_BYTES_MAX))), None);
        let header = CsvHeader::read("\u{feff}time;level").expect("a header");
        assert_eq!(CsvHeader::read(header.save()), Some(header));
    }

    #[test]
    fn lines_that_do_not_fit_the_header() {
        for line in [
            "",
            "time,level,msg",
            "noon,loud,text",
            "2024-01-02T03:04:05Z,info",
            "2024-01-02T03:04:05Z,info,text,more",
            "2024-01-02T03:04:05Z,info,\"text",
            "2024-01-02T03:04:05Z,info,\"text\"x",
        ] {
            assert_eq!(read("time,level,msg", line), None, "{line}");
        }
    }

    #[test]
    fn a_newline_in_quotes_continues_the_record() {
        let header = CsvHeader::read("time,level,msg,user").expect("a header");
        for (text, is_open) in [
            ("2024-01-02T03:04:05Z,info,text,ada", false),
            ("2024-01-02T03:04:05Z,info,\"text", true),
            ("2024-01-02T03:04:05Z,info,\"text\nof lines", true),
            ("2024-01-02T03:04:05Z,info,\"text\n\"\"", true),
            ("2024-01-02T03:04:05Z,info,\"text\n\",ada", false),
            ("time,level,msg,user", false),
            ("a 5\" disk", false),
            ("", false),
        ] {
            assert_eq!(header.is_open(text), is_open, "{text}");
        }
        assert!(!header.is_open(&format!("\"{}", "x".repeat(OPEN_BYTES_MAX))));
    }

    proptest! {
        /// Values quoted as in CSV come back unchanged.
        #[test]
        fn values_come_back(values in proptest::collection::vec(any::<String>(), 1..6)) {
            let names: Vec<_> = (0..values.len()).map(|n| format!("x{n}")).collect();
            let cells: Vec<_> = values.iter().map(|value| format!("\"{}\"", value.replace('"', "\"\""))).collect();
            let text = format!("info,{}", cells.join(","));
            let record = read(&format!("level,{}", names.join(",")), &text).expect("csv");
            let found: Vec<_> = record.fields.iter().map(|field| field.value.clone()).collect();
            prop_assert_eq!(found, values.iter().map(|value| Value::String(value.as_str().into())).collect::<Vec<_>>());
        }

        /// No text makes the parser panic, as a header or below one.
        #[test]
        fn any_text(text in "(time|level|[,;\t\"\n]|\\PC){0,16}") {
            let _ = CsvHeader::read(&text);
            let header = CsvHeader::read("time,level,msg").expect("a header");
            let _ = (header.is_open(&text), header.record(&text, &TimestampDefaults::default()));
        }
    }
}
