//! The formats with a grammar of their own: recognises the format of a record, decides whether a line begins a record,
//! and keeps what earlier lines declared ([`Headers`]).
//!
//! Each parser accepts only its own grammar, so their order affects time alone. The first bytes leave one or two
//! candidates.

use super::calendar::Calendar;
use super::time_doubt::TimeDoubt;
use super::time_fields::{LevelField, TimeFields};
use super::timestamp::TimestampDefaults;
use super::{
    Format, access, apache_error, csv, haproxy, ltsv, mysql, nginx_error, postgresql, postgresql_csv, redis, w3c,
};
use daytable_model::record::Record;
use memchr::memmem;

/// The names of values, as earlier lines declared them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Headers {
    w3c: w3c::W3cHeader,
    csv: Option<Table>,
    /// The field that is the time, where no name is known for it.
    pub(super) time: TimeFields,
    /// The field that is the level, likewise.
    pub(super) level: LevelField,
    /// What looks like a time, where no record has one.
    pub(super) doubt: TimeDoubt,
    /// The year and the day that times leave out.
    pub(super) calendar: Calendar,
}

/// A CSV header, and whether a line below it has confirmed it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Table {
    header: csv::CsvHeader,
    is_confirmed: bool,
}

/// What stands before the saved name of a field that is the time.
const TIME_MARK: char = '=';
/// What stands before the saved name of a field that is the level.
const LEVEL_MARK: char = '^';
/// What stands before what looks like a time.
const DOUBT_MARK: char = '!';
/// What stands before what is known about missing years and days.
const CALENDAR_MARK: char = '~';

impl Headers {
    /// Whether lines are cells below a header, or may be. A quoted cell can continue in the next line, whatever that
    /// line looks like.
    pub(super) fn has_table(&self) -> bool {
        self.csv.is_some()
    }

    /// Reads what [`Headers::save`] wrote.
    pub(super) fn restore(saved: &str) -> Headers {
        let mut headers = Headers::default();
        for line in saved.lines() {
            if let Some(calendar) = line.strip_prefix(CALENDAR_MARK) {
                headers.calendar = Calendar::restore(calendar);
            } else if let Some(doubt) = line.strip_prefix(DOUBT_MARK) {
                headers.doubt = TimeDoubt::restore(doubt);
            } else if let Some(name) = line.strip_prefix(TIME_MARK) {
                headers.time = TimeFields::restore(name);
            } else if let Some(name) = line.strip_prefix(LEVEL_MARK) {
                headers.level = LevelField::restore(name);
            } else if !headers.w3c.learn(line) {
                let (mark, line) = line.split_at_checked(1).unwrap_or_default();
                headers.csv = csv::CsvHeader::read(line).map(|header| Table { header, is_confirmed: mark == "+" });
            }
        }
        headers
    }

    /// The headers as a few lines for [`Headers::restore`]; empty if there are none.
    pub(super) fn save(&self) -> String {
        let mut saved = self.w3c.save();
        if let Some(table) = &self.csv {
            if !saved.is_empty() {
                saved.push('\n');
            }
            saved.push(if table.is_confirmed { '+' } else { '?' });
            saved.push_str(table.header.save());
        }
        let known = [
            (TIME_MARK, self.time.save()),
            (LEVEL_MARK, self.level.save()),
            (DOUBT_MARK, self.doubt.save()),
            (CALENDAR_MARK, self.calendar.save()),
        ];
        for (mark, line) in known {
            let Some(line) = line else { continue };
            if !saved.is_empty() {
                saved.push('\n');
            }
            saved.push(mark);
            saved.push_str(&line);
        }
        saved
    }

    /// Learns a header from a plain record. The first record of a source may be the header of a table.
    pub(super) fn learn(&mut self, text: &str, is_first: bool) {
        if text.starts_with('#') {
            self.w3c.learn(text);
        } else if is_first {
            self.csv = csv::CsvHeader::read(text).map(|header| Table { header, is_confirmed: false });
        }
    }

    /// Reads a record below a header. If the second line does not confirm a table, the table is dropped.
    fn record<'a>(&mut self, text: &'a str, defaults: &TimestampDefaults) -> Option<(Format, Record<'a>)> {
        if let Some(record) = self.w3c.record(text) {
            return Some((Format::W3c, record));
        }
        let table = self.csv.as_mut()?;
        let record = table.header.record(text, defaults);
        match record {
            Some(record) => {
                table.is_confirmed = true;
                Some((Format::Csv, record))
            }
            None => {
                self.csv.take_if(|table| !table.is_confirmed);
                None
            }
        }
    }
}

/// Recognises the format of a record by the headers and the first bytes, and reads the record.
pub(super) fn recognise<'a>(
    text: &'a str,
    defaults: &TimestampDefaults,
    headers: &mut Headers,
) -> Option<(Format, Record<'a>)> {
    if let Some(found) = headers.record(text, defaults) {
        return Some(found);
    }
    let candidates: &[Format] = match text.as_bytes() {
        [b'[', b'0'..=b'9', ..] => &[Format::Redis],
        [b'[', ..] => &[Format::ApacheError],
        [b'#', ..] => &[Format::Mysql],
        bytes @ [b'0'..=b'9', ..] => match bytes.iter().position(|byte| !byte.is_ascii_digit()).map(|at| bytes[at]) {
            Some(b':') => &[Format::Redis, Format::Access, Format::Haproxy],
            Some(b'.') => &[Format::Access, Format::Haproxy],
            Some(b'/') => &[Format::NginxError],
            Some(_) => &[Format::Postgresql, Format::Mysql, Format::Access],
            None => &[],
        },
        [b'a'..=b'z' | b'A'..=b'Z' | b':', ..] => &[Format::Access, Format::Haproxy, Format::Ltsv],
        _ => &[],
    };
    candidates.iter().find_map(|format| Some((*format, read(*format, text, defaults, headers)?)))
}

/// Reads a record as `format`; `None` if the record or the format does not belong here.
pub(super) fn read<'a>(
    format: Format,
    text: &'a str,
    defaults: &TimestampDefaults,
    headers: &mut Headers,
) -> Option<Record<'a>> {
    match format {
        Format::Access => access::record(text, defaults),
        Format::NginxError => nginx_error::record(text, defaults),
        Format::ApacheError => apache_error::record(text, defaults),
        Format::Postgresql => postgresql::record(text, defaults).or_else(|| postgresql_csv::record(text, defaults)),
        Format::Mysql if text.starts_with('#') => mysql::slow(text, defaults),
        Format::Mysql => mysql::error(text, defaults),
        Format::Redis => redis::record(text, defaults),
        Format::Haproxy => haproxy::record(text, defaults),
        Format::Ltsv => ltsv::record(text, defaults),
        Format::W3c | Format::Csv => {
            headers.record(text, defaults).filter(|(found, _)| *found == format).map(|(_, record)| record)
        }
        _ => None,
    }
}

/// Whether the records of a format always have one line.
#[inline]
pub(super) fn has_one_line(format: Format) -> bool {
    matches!(format, Format::Access | Format::W3c | Format::Haproxy | Format::Ltsv)
}

/// Whether the line has a format whose records always have one line.
pub(super) fn stands_alone(line: &str, defaults: &TimestampDefaults) -> bool {
    access::record(line, defaults).is_some()
        || haproxy::record(line, defaults).is_some()
        || ltsv::record(line, defaults).is_some()
}

/// Whether `line` continues the record `open`; `None` if these formats do not decide.
pub(super) fn goes_on(open: &str, line: &str, headers: &Headers) -> Option<bool> {
    match &headers.csv {
        Some(table) => Some(table.header.is_open(open)),
        None => mysql::goes_on(open, line),
    }
}

/// Whether more lines may continue a record; `None` if these formats do not decide.
pub(super) fn may_continue(text: &str, headers: &Headers) -> Option<bool> {
    headers.csv.as_ref().map(|table| table.header.is_open(text))
}

/// Whether a line begins a record; `None` if these formats do not decide. `format` is the usual format of the source.
pub(super) fn begins(format: Option<Format>, line: &str, defaults: &TimestampDefaults) -> Option<bool> {
    match format {
        _ if mysql::is_time(line) => Some(true),
        Some(format) if has_one_line(format) => Some(true),
        Some(Format::Postgresql) if postgresql_csv::begins(line, defaults) => Some(true),
        // PostgreSQL's first record may have details before the profile knows the format.
        None | Some(Format::Postgresql) if memmem::find(line.as_bytes(), b":  ").is_some() => {
            postgresql::begins(line, defaults)
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str) -> Option<Format> {
        recognise(text, &TimestampDefaults::default(), &mut Headers::default()).map(|(format, _)| format)
    }

    #[test]
    fn each_format_is_recognised_by_its_grammar() {
        for (text, format) in [
            (r#"192.0.2.7 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 2326"#, Some(Format::Access)),
            (r#"::1 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 2326"#, Some(Format::Access)),
            (r#"2001:db8::1 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 2326"#, Some(Format::Access)),
            (r#"a.example:80 ::1 - - [10/Oct/2000:13:55:36 -0700] "GET / HTTP/1.0" 200 2"#, Some(Format::Access)),
            ("2023/01/02 03:04:05 [error] 1#2: text", Some(Format::NginxError)),
            ("[Sun Dec 04 04:47:44 2005] [core:error] text", Some(Format::ApacheError)),
            ("2024-01-02 03:04:05 UTC [1] LOG:  text", Some(Format::Postgresql)),
            ("2024-01-02T03:04:05Z 0 [Note] text", Some(Format::Mysql)),
            ("240102  3:04:05 [Note] text", Some(Format::Mysql)),
            ("# User@Host: a[a] @ b []", Some(Format::Mysql)),
            ("1:M 02 Jan 2024 03:04:05 * text", Some(Format::Redis)),
            ("192.0.2.7:1 [06/Feb/2009:12:12:51.443] f b/s 0/0/5007 212 -- 0/0/0/0/3 0/0", Some(Format::Haproxy)),
            ("::1:1 [06/Feb/2009:12:12:51.443] f b/s 0/0/5007 212 -- 0/0/0/0/3 0/0", Some(Format::Haproxy)),
            ("time:2024-01-02T03:04:05Z\thost:a", Some(Format::Ltsv)),
            ("", None),
            ("1", None),
            ("words", None),
            ("2024-01-02 03:04:05 INFO text", None),
        ] {
            assert_eq!(found(text), format, "{text}");
        }
    }

    #[test]
    fn the_next_record_must_confirm_a_header() {
        let defaults = TimestampDefaults::default();
        for (second, format) in [("2024-01-02T03:04:05Z,info", Some(Format::Csv)), ("noon,loud", None)] {
            let mut headers = Headers::default();
            headers.learn("time,level", true);
            assert_eq!(Headers::restore(&headers.save()), headers);
            assert_eq!(recognise(second, &defaults, &mut headers).map(|(format, _)| format), format);
            assert_eq!(Headers::restore(&headers.save()), headers);
            assert_eq!(headers.csv.is_some(), format.is_some());
            // A confirmed table survives a line that does not fit.
            assert_eq!(recognise("noon,loud", &defaults, &mut headers), None);
            assert_eq!(headers.csv.is_some(), format.is_some());
        }
        let mut headers = Headers::default();
        headers.learn("time,level", false);
        assert_eq!(headers, Headers::default());
    }

    #[test]
    fn field_names_last_until_the_next_fields_line() {
        let mut headers = Headers::default();
        for line in ["#Date: 2024-01-02 00:00:00", "#Fields: date time action"] {
            headers.learn(line, false);
        }
        let mut headers = Headers::restore(&headers.save());
        let line = "2024-01-02 03:04:05 ALLOW";
        assert_eq!(
            recognise(line, &TimestampDefaults::default(), &mut headers).map(|found| found.0),
            Some(Format::W3c)
        );
        headers.learn("#Fields: time", false);
        assert_eq!(recognise(line, &TimestampDefaults::default(), &mut headers), None);
    }

    #[test]
    fn a_detail_line_does_not_begin_a_record() {
        for (format, line, expected) in [
            (None, "2024-01-02 03:04:05 UTC [1] DETAIL:  text", Some(false)),
            (Some(Format::Postgresql), "2024-01-02 03:04:05 UTC [1] LOG:  text", Some(true)),
            (Some(Format::Postgresql), "\ttext", None),
            (Some(Format::Text), "2024-01-02 03:04:05 UTC [1] DETAIL:  text", None),
            (Some(Format::Access), "\tanything", Some(true)),
            (Some(Format::Mysql), "# Time: 240102  3:04:05", Some(true)),
            (None, "text", None),
        ] {
            assert_eq!(begins(format, line, &TimestampDefaults::default()), expected, "{format:?} {line}");
        }
    }

    #[test]
    fn an_open_quote_keeps_a_record_of_a_table_open() {
        let mut table = Headers::default();
        assert_eq!((goes_on("a,\"b", "c", &table), may_continue("a,\"b", &table)), (None, None));
        table.learn("time,level,msg", true);
        for (open, expected) in [("a,b,\"c", true), ("a,b,c", false)] {
            assert_eq!(goes_on(open, "text", &table), Some(expected), "{open}");
            assert_eq!(may_continue(open, &table), Some(expected), "{open}");
        }
    }
}
