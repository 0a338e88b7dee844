//! The summary of a file: its recognized format, the share of records with this format, and examples of the others.

use daytable_model::record::Record;
use daytable_model::safe_text::SafeLine;
use daytable_parse::{Format, Parsed, RawRecord, SourceProfile};
use std::fmt;

/// Examples of records with other formats.
const SHOWN: usize = 3;
/// Characters of an example.
const SHOWN_CHARS: usize = 100;

/// The summary of a file.
pub(super) struct ParseSummary {
    lines: u64,
    records: u64,
    with_time: u64,
    with_level: u64,
    /// The field that gave the records their time, if its name is not among those that are known for times.
    time_field: Option<String>,
    /// What looks like a time, if no record has a time.
    likely_time: Option<String>,
    /// By the number of the format: the count of records, and the first records with their places.
    formats: [(u64, Vec<(u64, String)>); Format::ALL.len()],
}

impl Default for ParseSummary {
    fn default() -> ParseSummary {
        ParseSummary {
            lines: 0,
            records: 0,
            with_time: 0,
            with_level: 0,
            time_field: None,
            likely_time: None,
            formats: std::array::from_fn(|_| Default::default()),
        }
    }
}

impl ParseSummary {
    /// Adds the record of an entry of the journal.
    pub(super) fn add_entry(&mut self, record: &Record<'_>, format: Format) {
        self.lines += 1;
        self.records += 1;
        self.with_time += u64::from(record.time.is_some());
        self.with_level += u64::from(record.level.is_some());
        self.formats[format.number()].0 += 1;
    }

    /// Notes what is the time of the records, or looks like one.
    pub(super) fn note_time(&mut self, profile: &SourceProfile) {
        self.time_field = profile.time_field().map(str::to_owned);
        self.likely_time = profile.likely_time().map(str::to_owned);
    }

    /// Adds a record at `offset`.
    pub(super) fn add(&mut self, offset: u64, raw: &RawRecord<'_>, parsed: &Parsed<'_>) {
        self.lines += u64::from(raw.lines);
        self.records += 1;
        self.with_time += u64::from(parsed.record.time.is_some());
        self.with_level += u64::from(parsed.record.level.is_some());
        let (count, first) = &mut self.formats[parsed.format.number()];
        *count += 1;
        if first.len() < SHOWN {
            let line = raw.text.lines().next().unwrap_or_default();
            let cut: String = line.chars().take(SHOWN_CHARS).collect();
            let end = if cut.len() < raw.text.len() { "…" } else { "" };
            first.push((offset, cut + end));
        }
    }

    /// The most frequent format. Plain counts only if all records are plain.
    fn recognised(&self) -> Option<Format> {
        let known = Format::ALL.into_iter().filter(|format| self.count(*format) > 0);
        known.max_by_key(|format| (*format != Format::Plain, self.count(*format)))
    }

    fn count(&self, format: Format) -> u64 {
        self.formats[format.number()].0
    }
}

impl fmt::Display for ParseSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(format) = self.recognised() else { return f.write_str("nothing in it") };
        let fits = self.count(format);
        // In tenths, rounded down: only the whole file is 100.0.
        let share = fits * 1000 / self.records;
        write!(
            f,
            "{}, {}.{} % fit: {} record{} of {} line{}",
            format.label(),
            share / 10,
            share % 10,
            self.records,
            if self.records == 1 { "" } else { "s" },
            self.lines,
            if self.lines == 1 { "" } else { "s" },
        )?;
        write!(f, ", {} with a time, {} with a level", self.with_time, self.with_level)?;
        if let Some(name) = &self.time_field {
            write!(f, ", the time is {}", SafeLine(name))?;
        }
        if let Some(likely) = &self.likely_time {
            let likely = SafeLine(likely);
            write!(f, "\n  none has a time, although {likely} looks like one: a pattern (format) can name it")?;
        }
        let mut others: Vec<Format> =
            Format::ALL.into_iter().filter(|other| *other != format && self.count(*other) > 0).collect();
        others.sort_by_key(|other| std::cmp::Reverse(self.count(*other)));
        let mut left = SHOWN;
        for other in others {
            let (count, first) = &self.formats[other.number()];
            write!(f, "\n  {count} {}", other.label())?;
            for (offset, line) in first.iter().take(left) {
                write!(f, "\n    at byte {offset}: {}", SafeLine(line))?;
            }
            left -= left.min(first.len());
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_field_that_is_the_time_and_what_looks_like_one_are_named() {
        let shown = summary("{\"expires_at\":\"2026-11-21T08:00:00Z\",\"a\":1}\n");
        assert!(
            shown.ends_with("none has a time, although expires_at looks like one: a pattern (format) can name it"),
            "{shown}"
        );
        let shown = summary("{\"published\":\"2026-11-21T08:00:00Z\",\"a\":1}\n");
        assert!(shown.ends_with("1 with a time, 0 with a level, the time is published"), "{shown}");
    }

    use daytable_model::time::Ticks;
    use daytable_parse::{ParseOptions, Records};

    fn summary(text: &str) -> String {
        let mut summary = ParseSummary::default();
        let mut records = Records::new(text.as_bytes(), ParseOptions::default(), 1 << 20);
        let mut each = |offset: u64, raw: &RawRecord<'_>, parsed: Parsed<'_>| {
            summary.add(offset + raw.start as u64, raw, &parsed);
        };
        while records.turn(Ticks::UNIX_EPOCH, &mut each).expect("memory") {}
        summary.note_time(records.profile());
        summary.to_string()
    }

    #[test]
    fn the_format_and_lines_that_do_not_fit() {
        let json = "{\"ts\":\"2026-11-21T08:00:00Z\",\"level\":\"info\"}\n";
        let text = format!("{json}{json}{json}{json}{json}odd \u{1b}[31m one\n{json}");
        assert_eq!(
            summary(&text),
            format!(
                "json, 85.7 % fit: 7 records of 7 lines, 6 with a time, 6 with a level\n  1 plain\n    at byte {}: odd \\x1b[31m one",
                5 * json.len()
            )
        );
        assert_eq!(summary("{\"a\":1}\n"), "json, 100.0 % fit: 1 record of 1 line, 0 with a time, 0 with a level");
        assert_eq!(summary(""), "nothing in it");
    }
}
