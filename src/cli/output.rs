//! Standard output: lines, JSON line by line, tables in columns.
//!
//! Text from outside (a record, a name, an error) cannot control the terminal: see [`safe_text`]. Output goes to a
//! buffer first. When the reader of a pipe is closed, the command ends silently.

use super::args::JsonArgs;
use super::exit::CliError;
use daytable_model::safe_text::{self, SafeLine, SafeLines};
use serde::Serialize;
use std::fmt::{self, Display};
use std::io::{self, BufWriter, IsTerminal, StdoutLock, Write};

/// Standard output.
pub(super) struct Output {
    out: BufWriter<StdoutLock<'static>>,
}

impl Output {
    /// A buffer in front of it.
    pub(super) fn new() -> Output {
        Output { out: BufWriter::with_capacity(64 << 10, io::stdout().lock()) }
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

    /// Writes the buffer.
    pub(super) fn flush(&mut self) -> Result<(), CliError> {
        self.out.flush().map_err(CliError::output)
    }
}

/// A number of things in words: `1 record`, `2 records`.
pub(super) fn counted(number: u64, one: &str) -> String {
    if number == 1 { format!("1 {one}") } else { format!("{number} {one}s") }
}

/// Whether somebody can be asked: at a terminal.
pub(super) fn can_ask() -> bool {
    io::stdin().is_terminal() && io::stderr().is_terminal()
}

/// Asks a question on the terminal. Whether the answer is yes.
pub(super) fn asked(question: &str) -> Result<bool, CliError> {
    let mut error = io::stderr().lock();
    let mut answer = String::new();
    write!(error, "{question} [y/N] ")
        .and_then(|()| error.flush())
        .and_then(|()| io::stdin().read_line(&mut answer))
        .map_err(CliError::Output)?;
    Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
}

/// Writes one or several lines, and nothing else.
pub(super) fn print(line: impl Display) -> Result<(), CliError> {
    let mut output = Output::new();
    output.line(line)?;
    output.flush()
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
        let rows = self.rows.iter().map(|row| row.to_vec());
        let rows: Vec<_> = std::iter::once(self.heads.map(str::to_owned).to_vec()).chain(rows).collect();
        f.write_str(&aligned(&rows, &|column| self.right.contains(&self.heads[column])))
    }
}

/// Lines of cells in columns that are as wide as their widest cell. A row may lack its last cells.
pub(super) fn aligned(rows: &[Vec<String>], is_right: &dyn Fn(usize) -> bool) -> String {
    let safe = |row: &Vec<String>| row.iter().map(|cell| SafeLine(cell).to_string()).collect();
    let rows: Vec<Vec<String>> = rows.iter().map(safe).collect();
    let columns = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max();
    let widths: Vec<usize> = (0..columns).map(|column| width(column).unwrap_or(0)).collect();
    let lines = rows.iter().map(|row| {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            let gap = if column == 0 { "" } else { "  " };
            let spaces = " ".repeat(widths[column] - cell.chars().count());
            let (before, after) = if is_right(column) { (spaces.as_str(), "") } else { ("", spaces.as_str()) };
            line.extend([gap, before, cell, after]);
        }
        line.trim_end().to_owned()
    });
    lines.collect::<Vec<_>>().join("\n")
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
