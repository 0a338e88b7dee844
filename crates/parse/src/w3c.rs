//! W3C extended log files, as IIS writes them: lines of values, named by a `#Fields:` line before them.
//!
//! ```text
//! #Software: Microsoft Internet Information Services 10.0
//! #Fields: date time s-ip cs-method cs-uri-stem cs-uri-query s-port cs-username c-ip cs(User-Agent) sc-status time-taken
//! 2024-01-02 03:04:05 10.0.0.1 GET /index.html - 443 - 192.0.2.7 Mozilla/5.0+(X11) 200 15
//! ```
//!
//! Times are in UTC by definition of the format, whatever the zone of the source. A line with only a time has the date
//! of the last `#Date:`. The message is the request, `GET /index.html`; without a request it is the whole line. A `-`
//! stands for a missing value and adds no field. `s-computername` is the host; other names stay as in `#Fields:`.

use super::line_scanner::LineScanner;
use super::pairs;
use super::timestamp::{self, TimestampDefaults};
use daytable_model::record::{Field, Record, Value};
use daytable_model::time::Ticks;
use std::borrow::Cow;

/// Bytes of a `#Fields:` line; a longer line is ignored.
const HEADER_BYTES_MAX: usize = 16 << 10;

/// The directives before a line.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct W3cHeader {
    columns: Vec<Column>,
    /// The day of `#Date:`.
    date: Option<String>,
}

/// The part of the record that a value fills.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Column {
    Date,
    Time,
    Method,
    /// The requested path.
    Asked(&'static str),
    /// A name that IIS or CloudFront writes; fields borrow it.
    Text(&'static str),
    Number(&'static str),
    Other(String),
}

const METHOD: &str = "cs-method";
const HOST: &str = "s-computername";
const ASKED: &str = "cs-uri-stem cs-uri";
const TEXTS: &str = "\
    s-sitename s-computername s-ip cs-uri-query cs-username c-ip cs-version cs(User-Agent) cs(Cookie) \
    cs(Referer) cs(Host) cs-host x-edge-location x-edge-result-type x-edge-request-id x-host-header cs-protocol \
    x-forwarded-for ssl-protocol ssl-cipher action protocol src-ip dst-ip";
const NUMBERS: &str = "\
    s-port c-port sc-status sc-substatus sc-win32-status sc-bytes cs-bytes time-taken src-port dst-port size";

impl Column {
    fn named(name: &str) -> Self {
        let among = |names: &'static str| names.split_ascii_whitespace().find(|known| *known == name);
        match name {
            "date" => Column::Date,
            "time" => Column::Time,
            METHOD => Column::Method,
            _ => None
                .or_else(|| among(ASKED).map(Column::Asked))
                .or_else(|| among(TEXTS).map(Column::Text))
                .or_else(|| among(NUMBERS).map(Column::Number))
                .unwrap_or_else(|| Column::Other(name.to_owned())),
        }
    }

    fn name(&self) -> &str {
        match self {
            Column::Date => "date",
            Column::Time => "time",
            Column::Method => METHOD,
            Column::Asked(name) | Column::Text(name) | Column::Number(name) => name,
            Column::Other(name) => name,
        }
    }
}

impl W3cHeader {
    /// Whether a line is a directive. A directive is remembered for the lines after it.
    pub(super) fn learn(&mut self, line: &str) -> bool {
        let Some((name, value)) = line.strip_prefix('#').and_then(|line| line.split_once(':')) else { return false };
        match name {
            "Fields" if line.len() <= HEADER_BYTES_MAX => {
                self.columns = value.split_ascii_whitespace().map(Column::named).collect();
                true
            }
            "Date" | "Start-Date" => {
                let day = value.trim_start().get(..DAY_BYTES);
                self.date =
                    day.filter(|day| day.bytes().all(|byte| byte.is_ascii_digit() || byte == b'-')).map(str::to_owned);
                self.date.is_some()
            }
            "Version" | "Software" | "End-Date" | "Remark" => true,
            _ => false,
        }
    }

    /// Directives that restore this state, a line each, for [`W3cHeader::learn`]; empty if there were none.
    pub(super) fn save(&self) -> String {
        let mut saved = String::new();
        if let Some(date) = &self.date {
            saved.push_str("#Date: ");
            saved.push_str(date);
        }
        if !self.columns.is_empty() {
            saved.push_str(if saved.is_empty() { "#Fields:" } else { "\n#Fields:" });
            for column in &self.columns {
                saved.push(' ');
                saved.push_str(column.name());
            }
        }
        saved
    }

    /// Parses a line of values.
    pub(super) fn record<'a>(&self, line: &'a str) -> Option<Record<'a>> {
        if self.columns.is_empty() {
            return None;
        }
        let mut fields = Vec::with_capacity(self.columns.len());
        let (mut date, mut time) = (self.date.as_deref(), None);
        // The method and the path, each with its place in the line.
        let (mut method, mut asked) = (None, None);
        let mut cut = LineScanner::new(line);
        for column in &self.columns {
            cut.spaces();
            let at = line.len() - cut.rest.len();
            let value = match cut.quoted() {
                Some(value) => value,
                None => cut.word(),
            };
            if at == line.len() {
                return None;
            }
            let (name, value) = match column {
                Column::Date => {
                    date = Some(value);
                    continue;
                }
                Column::Time => {
                    time = Some(value);
                    continue;
                }
                _ if value == "-" => continue,
                Column::Method => {
                    method = Some((at, value));
                    (Cow::Borrowed(METHOD), Value::String(value.into()))
                }
                Column::Asked(name) => {
                    asked = asked.or(Some((at, value)));
                    (Cow::Borrowed(*name), Value::String(value.into()))
                }
                Column::Text(HOST) => (Cow::Borrowed("host"), Value::String(value.into())),
                Column::Text(name) => (Cow::Borrowed(*name), Value::String(value.into())),
                Column::Number(name) => (Cow::Borrowed(*name), pairs::typed(value)),
                // The record cannot borrow from the profile, so an unknown name costs an allocation.
                Column::Other(name) => (Cow::Owned(name.clone()), pairs::typed(value)),
            };
            fields.push(Field { name, value });
        }
        cut.spaces();
        if !cut.rest.is_empty() {
            return None;
        }
        let time = point(date?, time?)?;
        let message = match (method, asked) {
            (Some((at, method)), Some((asked_at, asked)))
                if at + method.len() + 1 == asked_at && line.get(asked_at..)?.starts_with(asked) =>
            {
                Cow::Borrowed(line.get(at..asked_at + asked.len())?)
            }
            (Some((_, method)), Some((_, asked))) => Cow::Owned(format!("{method} {asked}")),
            _ => Cow::Borrowed(line),
        };
        Some(Record { time: Some(time), level: None, message, fields, ..Record::default() })
    }
}

/// Bytes of `YYYY-MM-DD`.
const DAY_BYTES: usize = 10;
/// Bytes of a time of day.
const CLOCK_BYTES_MAX: usize = 16;

/// The point in time of a day and a time of day in UTC.
fn point(date: &str, time: &str) -> Option<Ticks> {
    if date.len() != DAY_BYTES || time.len() > CLOCK_BYTES_MAX {
        return None;
    }
    let mut both = [0; DAY_BYTES + 1 + CLOCK_BYTES_MAX];
    let length = DAY_BYTES + 1 + time.len();
    both[..DAY_BYTES].copy_from_slice(date.as_bytes());
    both[DAY_BYTES] = b'T';
    both[DAY_BYTES + 1..length].copy_from_slice(time.as_bytes());
    let stamp = timestamp::at_start(&both[..length], &TimestampDefaults::default())?;
    (stamp.length == length).then_some(stamp.time)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FIELDS: &str =
        "#Fields: date time s-computername cs-method cs-uri-stem cs-uri-query sc-status time-taken x-id";

    fn header(lines: &[&str]) -> W3cHeader {
        let mut header = W3cHeader::default();
        for line in lines {
            assert!(header.learn(line), "{line}");
        }
        header
    }

    #[test]
    fn a_line_of_iis() {
        let header = header(&["#Software: IIS 10.0", "#Version: 1.0", "#Date: 2024-01-01 00:00:00", FIELDS]);
        let line = "2024-01-02 03:04:05 WEB1 GET /index.html - 200 15 a7";
        let record = header.record(line).expect("w3c");
        assert_eq!(record.time.map(|time| time.to_string()).as_deref(), Some("2024-01-02T03:04:05Z"));
        assert_eq!((&*record.message, record.level), ("GET /index.html", None));
        assert!(matches!(record.message, Cow::Borrowed(_)));
        let shown: Vec<_> = record.fields.into_iter().map(|field| (field.name.into_owned(), field.value)).collect();
        let expected = [
            ("host", Value::String("WEB1".into())),
            ("cs-method", Value::String("GET".into())),
            ("cs-uri-stem", Value::String("/index.html".into())),
            ("sc-status", Value::Int64(200)),
            ("time-taken", Value::Int64(15)),
            ("x-id", Value::String("a7".into())),
        ];
        assert_eq!(shown, expected.map(|(name, value)| (name.to_owned(), value)));
    }

    #[test]
    fn the_date_may_stand_in_a_directive() {
        let header = header(&["#Date: 2024-01-02 00:00:00", "#Fields: time\taction cs-uri cs-method"]);
        let record = header.record("03:04:05.5\tALLOW \"/a b\" GET").expect("w3c");
        assert_eq!(record.time.map(|time| time.to_string()).as_deref(), Some("2024-01-02T03:04:05.500Z"));
        assert_eq!(record.message, "GET /a b");
        let other = super::W3cHeader::default();
        assert_eq!(other.record("03:04:05 ALLOW / GET"), None);
    }

    #[test]
    fn directives_are_saved_and_restored() {
        for lines in [&[][..], &[FIELDS], &["#Date: 2024-01-02 00:00:00"], &["#Date: 2024-01-02 00:00:00", FIELDS]] {
            let header = header(lines);
            let mut again = W3cHeader::default();
            for line in header.save().lines() {
                assert!(again.learn(line));
            }
            assert_eq!(again, header);
        }
    }

    #[test]
    fn near_misses_are_rejected() {
        let header = header(&[FIELDS]);
        for line in [
            "",
            "2024-01-02 03:04:05 WEB1 GET /index.html - 200 15",
            "2024-01-02 03:04:05 WEB1 GET /index.html - 200 15 a7 more",
            "2024-13-02 03:04:05 WEB1 GET /index.html - 200 15 a7",
            "2024-01-02 noon WEB1 GET /index.html - 200 15 a7",
            "- - WEB1 GET /index.html - 200 15 a7",
        ] {
            assert_eq!(header.record(line), None, "{line}");
        }
        for line in ["", "#", "# a comment: x", "#Fieldsets: a", "Fields: a", "#Date: today"] {
            assert!(!W3cHeader::default().learn(line), "{line}");
        }
        assert!(!W3cHeader::default().learn(&format!("#Fields: {}", "a ".repeat(HEADER_BYTES_MAX))));
    }

    proptest! {
        /// Values come back in their order, and no line makes the parser panic.
        #[test]
        fn values_come_back(values in proptest::collection::vec("[a-z/]{1,6}", 1..6), near in "\\PC{0,40}") {
            let names: Vec<_> = (0..values.len()).map(|n| format!("x-{n}")).collect();
            let header = header(&[&format!("#Fields: date time {}", names.join(" "))]);
            let line = format!("2024-01-02 03:04:05 {}", values.join(" "));
            let record = header.record(&line).expect("w3c");
            let found: Vec<_> = record.fields.iter().map(|field| field.value.clone()).collect();
            let expected: Vec<_> = values.iter().map(|value| pairs::typed(value)).collect();
            prop_assert_eq!(found, expected);
            prop_assert_eq!(&*record.message, &*line);
            let _ = (header.record(&near), W3cHeader::default().learn(&near));
        }
    }
}
