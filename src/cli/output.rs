//! Standard output: records and JSON line by line, tables in columns.
//!
//! Text from outside (a record, a name, an error) cannot control the terminal: see [`safe_text`]. Output goes to a
//! buffer first. When the reader of a pipe is closed, the command ends silently.

use super::args::JsonArgs;
use super::exit::CliError;
use daytable_model::safe_text::{self, SafeLine, SafeLines};
use daytable_query::StoredRecord;
use daytable_query::answer::{AnswerItem, AnswerRow};
use daytable_query::text::RecordLine;
use serde::Serialize;
use std::fmt::{self, Display};
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

/// Standard output.
pub(super) struct Output {
    out: BufWriter<StdoutLock<'static>>,
    colour: bool,
}

impl Output {
    /// Uses colours on a terminal, unless `NO_COLOR` is set.
    pub(super) fn new() -> Output {
        let no_colour = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let out = io::stdout().lock();
        let colour = out.is_terminal() && !no_colour;
        Output { out: BufWriter::with_capacity(64 << 10, out), colour }
    }

    /// Writes one line, or several.
    pub(super) fn line(&mut self, line: impl Display) -> Result<(), CliError> {
        writeln!(self.out, "{}", SafeLines(line)).map_err(CliError::output)
    }

    /// Writes one line of JSON.
    pub(super) fn json(&mut self, value: &impl Serialize) -> Result<(), CliError> {
        safe_text::to_json(&mut self.out, value).map_err(|error| CliError::output(error.into()))?;
        self.out.write_all(b"\n").map_err(CliError::output)
    }

    /// Writes rows: each as JSON, or all of them as `text`. Without rows, there is no text.
    pub(super) fn rows(
        &mut self,
        args: JsonArgs,
        rows: &[impl Serialize],
        text: impl FnOnce() -> String,
    ) -> Result<(), CliError> {
        if args.json {
            return rows.iter().try_for_each(|row| self.json(row));
        }
        if rows.is_empty() { Ok(()) } else { self.line(text()) }
    }

    /// Writes a record, as JSON or for people.
    pub(super) fn record(&mut self, record: &StoredRecord, json: bool) -> Result<(), CliError> {
        if json {
            return self.json(record);
        }
        // A line escapes the record itself, and has colours.
        writeln!(self.out, "{}", RecordLine { record, colour: self.colour }).map_err(CliError::output)
    }

    /// Writes a record or a row, as JSON or for people.
    pub(super) fn item(&mut self, item: &AnswerItem, json: bool) -> Result<(), CliError> {
        match item {
            AnswerItem::Record(record) => self.record(record.record(), json),
            AnswerItem::Row(row) if json => self.json(row),
            AnswerItem::Row(row) => self.line(RowLine(row)),
        }
    }

    /// Writes the bytes of a record and a newline, as they are.
    pub(super) fn raw(&mut self, bytes: &[u8]) -> Result<(), CliError> {
        self.out.write_all(bytes).and_then(|()| self.out.write_all(b"\n")).map_err(CliError::output)
    }

    /// Writes the buffer.
    pub(super) fn flush(&mut self) -> Result<(), CliError> {
        self.out.flush().map_err(CliError::output)
    }
}

/// Writes one or several lines, and nothing else.
pub(super) fn print(line: impl Display) -> Result<(), CliError> {
    let mut output = Output::new();
    output.line(line)?;
    output.flush()
}

/// A row as `name=value` pairs.
struct RowLine<'r>(&'r AnswerRow);

impl Display for RowLine<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, (name, value)) in self.0.columns().iter().enumerate() {
            let space = if at == 0 { "" } else { "  " };
            match value {
                Some(value) => write!(f, "{space}{name}={value}")?,
                None => write!(f, "{space}{name}=-")?,
            }
        }
        Ok(())
    }
}

/// A table of text whose columns are as wide as their widest cell. Columns named in `right` are aligned to the right.
pub(super) struct TextTable<'a, const N: usize> {
    pub(super) heads: [&'a str; N],
    pub(super) right: &'a [&'a str],
    pub(super) rows: Vec<[String; N]>,
}

impl<'a, const N: usize> TextTable<'a, N> {
    /// One row an item.
    pub(super) fn new<T>(
        heads: [&'a str; N],
        right: &'a [&'a str],
        items: impl IntoIterator<Item = T>,
        row: impl Fn(T) -> [String; N],
    ) -> TextTable<'a, N> {
        TextTable { heads, right, rows: items.into_iter().map(row).collect() }
    }
}

impl<const N: usize> Display for TextTable<'_, N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rows = self.rows.iter().map(|row| row.each_ref().map(|cell| SafeLine(cell).to_string()));
        let rows: Vec<_> = std::iter::once(self.heads.map(str::to_owned)).chain(rows).collect();
        let widths: [usize; N] =
            std::array::from_fn(|at| rows.iter().map(|row| row[at].chars().count()).max().unwrap_or(0));
        for (number, row) in rows.iter().enumerate() {
            let mut line = String::new();
            for (at, cell) in row.iter().enumerate() {
                let gap = if at == 0 { "" } else { "  " };
                let spaces = " ".repeat(widths[at] - cell.chars().count());
                let right = self.right.contains(&self.heads[at]);
                let (before, after) = if right { (spaces.as_str(), "") } else { ("", spaces.as_str()) };
                line.extend([gap, before, cell, after]);
            }
            let newline = if number == 0 { "" } else { "\n" };
            write!(f, "{newline}{}", line.trim_end())?;
        }
        Ok(())
    }
}

/// The cell of an optional value.
pub(super) fn cell(value: Option<impl Display>) -> String {
    value.map_or_else(|| "-".into(), |value| value.to_string())
}

/// Bytes for people: `512 B`, `1.5 KiB`, `27.1 MiB`.
pub(super) fn bytes(count: u64) -> String {
    if count < 1024 {
        return format!("{count} B");
    }
    let units = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    // Tenths of the unit, rounded to the nearest.
    let mut tenths = (u128::from(count) * 10 + 512) / 1024;
    let mut unit = 0;
    while tenths >= 10_240 && unit + 1 < units.len() {
        tenths = (tenths + 512) / 1024;
        unit += 1;
    }
    format!("{}.{} {}", tenths / 10, tenths % 10, units[unit])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_their_widest_cell() {
        let columns = TextTable {
            heads: ["table", "rows", "state"],
            right: &["rows"],
            rows: vec![
                ["Log20261121".into(), "12".into(), "open".into()],
                ["Größe20261121".into(), "1234567".into(), "-".into()],
            ],
        };
        let lines = "table             rows  state\nLog20261121         12  open\nGröße20261121  1234567  -";
        assert_eq!(columns.to_string(), lines);
        assert_eq!(TextTable { rows: vec![], ..columns }.to_string(), "table  rows  state");
    }

    #[test]
    fn bytes_for_people() {
        for (count, shown) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (1536, "1.5 KiB"),
            (1 << 20, "1.0 MiB"),
            (28_416_410, "27.1 MiB"),
            (u64::MAX, "16.0 EiB"),
        ] {
            assert_eq!(bytes(count), shown, "{count}");
        }
    }
}
