//! The answer of a query on standard output: its form, its order, and its pager.
//!
//! ```text
//! item ──► line ──┬─────────────────────► pager ──► standard output      text, json, raw
//!                 └─► LineSpool, reversed ──┘
//!      ──► RowSpool ──► header and rows ──► standard output              csv, parquet: their columns are known at the end
//! ```
//!
//! An answer comes newest first. On a terminal the newest record stands last, so the lines are kept and written in reverse.
//! Nothing that was logged controls the terminal: on one, the forms that are otherwise bytes are escaped, too.

use super::exit::CliError;
use super::pager::PagedOutput;
use super::zone::{ReaderZone, TimeFormat};
use clap::ValueEnum;
use daytable_logsql::{ParsedQuery, Predicate};
use daytable_model::safe_text::{self, SafeLine, SafeLines};
use daytable_model::time::Ticks;
use daytable_platform::budget::QuestionBudget;
use daytable_platform::scratch::create_unnamed;
use daytable_query::answer::{AnswerItem, AnswerOptions, AnswerRow};
use daytable_query::export::{CsvReader, RowSpool, SpoolError, write_csv, write_parquet};
use daytable_query::highlight::Highlights;
use daytable_query::text::{LineStyle, RecordLine};
use daytable_query::{OwnedValue, StoredRecord};
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::os::unix::fs::FileExt;

/// Bytes of lines that are kept in memory; more of them go to a temporary file.
const LINES_MEMORY_MAX: usize = 8 << 20;

/// The form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum AnswerFormat {
    /// A line for people, as columns and fields.
    Text,
    /// A JSON object per line.
    Json,
    /// A table with a header; its columns are those of all rows.
    Csv,
    /// The bytes of each record as its source wrote them.
    Raw,
    /// A Parquet file; to a file or a pipe.
    Parquet,
}

/// When there are colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Colours {
    Auto,
    Always,
    Never,
}

/// The form of an answer on the command line.
#[derive(Debug, clap::Args)]
pub(super) struct AnswerArgs {
    /// The form of the answer: text for people, or for programs
    #[arg(long, value_enum, value_name = "FORMAT")]
    format: Option<AnswerFormat>,
    /// Print a JSON object per line: --format json
    #[arg(long, conflicts_with_all = ["format", "raw"])]
    json: bool,
    /// Print the bytes of each record as its source wrote them: --format raw
    #[arg(long, conflicts_with = "format")]
    raw: bool,
    /// Whether to use colours. Automatic is: on a terminal, without NO_COLOR
    #[arg(long, visible_alias = "colour", value_enum, value_name = "WHEN", default_value = "auto")]
    color: Colours,
    /// How times are written in text: rfc3339, unix, or a pattern such as "%d %b %H:%M:%S"
    #[arg(long, value_name = "FORMAT", value_parser = TimeFormat::parse)]
    time_format: Option<TimeFormat>,
}

impl AnswerArgs {
    /// This form, with the defaults.
    pub(super) fn of(format: AnswerFormat) -> AnswerArgs {
        AnswerArgs { format: Some(format), json: false, raw: false, color: Colours::Auto, time_format: None }
    }

    pub(super) fn format(&self) -> AnswerFormat {
        match self.format {
            Some(format) => format,
            None if self.json => AnswerFormat::Json,
            None if self.raw => AnswerFormat::Raw,
            None => AnswerFormat::Text,
        }
    }

    /// Refuses the forms that need the end of an answer.
    pub(super) fn check_endless(&self) -> Result<(), CliError> {
        match self.format() {
            AnswerFormat::Csv | AnswerFormat::Parquet => Err(CliError::Usage(
                "csv and parquet need the end of the answer, which a query that is followed has not: use --format json"
                    .into(),
            )),
            _ => Ok(()),
        }
    }

    /// Makes lines of the items of an answer.
    pub(super) fn printer(&self, zone: &ReaderZone, query: &ParsedQuery, options: &AnswerOptions) -> AnswerPrinter {
        let predicate = Predicate::new(&query.filter, options.now);
        let is_terminal = io::stdout().is_terminal();
        let is_set = |name: &str| std::env::var_os(name).is_some_and(|value| !value.is_empty());
        let is_dumb = std::env::var_os("TERM").is_some_and(|terminal| terminal == "dumb");
        AnswerPrinter {
            format: self.format(),
            is_terminal,
            has_colours: match self.color {
                Colours::Auto => is_terminal && !is_set("NO_COLOR") && !is_dumb,
                Colours::Always => true,
                Colours::Never => false,
            },
            zone: zone.clone(),
            time_format: self.time_format.clone(),
            highlights: Highlights::new(predicate, options.filter.contains.as_deref()),
        }
    }
}

/// Makes lines of the items of an answer.
pub(super) struct AnswerPrinter {
    format: AnswerFormat,
    is_terminal: bool,
    has_colours: bool,
    zone: ReaderZone,
    time_format: Option<TimeFormat>,
    highlights: Highlights,
}

impl AnswerPrinter {
    /// Whether standard output is a terminal.
    pub(super) fn is_terminal(&self) -> bool {
        self.is_terminal
    }

    /// The time as people read it on a terminal, and RFC 3339 of UTC in a pipe.
    pub(super) fn time(&self, time: Ticks) -> String {
        match &self.time_format {
            Some(format) => format.show(time, &self.zone),
            None if self.is_terminal => self.zone.rfc3339(time),
            None => time.to_string(),
        }
    }

    /// Appends an item with a newline at its end.
    pub(super) fn item(&self, item: &AnswerItem, line: &mut Vec<u8>) -> Result<(), CliError> {
        match (self.format, item) {
            (AnswerFormat::Json, item) => {
                safe_text::to_json(&mut *line, item).map_err(|error| CliError::output(error.into()))?;
            }
            (_, AnswerItem::Record(record)) => return self.record(record.record(), line),
            (_, AnswerItem::Row(row)) => line.extend_from_slice(SafeLine(&self.row(row)).to_string().as_bytes()),
        }
        line.push(b'\n');
        Ok(())
    }

    /// Appends a record with a newline at its end.
    pub(super) fn record(&self, record: &StoredRecord, line: &mut Vec<u8>) -> Result<(), CliError> {
        match self.format {
            AnswerFormat::Json => {
                safe_text::to_json(&mut *line, record).map_err(|error| CliError::output(error.into()))?;
            }
            AnswerFormat::Raw if self.is_terminal => {
                line.extend_from_slice(SafeLines(String::from_utf8_lossy(&record.raw())).to_string().as_bytes());
            }
            AnswerFormat::Raw => line.extend_from_slice(&record.raw()),
            _ => {
                let style = LineStyle {
                    colour: self.has_colours,
                    several_lines: self.is_terminal,
                    time: &|time| self.time(time),
                    highlights: Some(&self.highlights),
                };
                line.extend_from_slice(RecordLine { record, style: &style }.to_string().as_bytes());
            }
        }
        line.push(b'\n');
        Ok(())
    }

    /// A row as `name=value` pairs.
    fn row(&self, row: &AnswerRow) -> String {
        let mut text = String::new();
        for (at, (name, value)) in row.columns().iter().enumerate() {
            let space = if at == 0 { "" } else { "  " };
            // Writing to a text cannot fail.
            let _ = match value {
                Some(OwnedValue::DateTime(time)) => write!(text, "{space}{name}={}", self.time(*time)),
                Some(value) => write!(text, "{space}{name}={}", value.as_property().text()),
                None => write!(text, "{space}{name}=-"),
            };
        }
        text
    }
}

/// Standard output for one answer.
pub(super) struct AnswerOutput {
    printer: AnswerPrinter,
    out: PagedOutput,
    reversed: Option<LineSpool>,
    rows: Option<RowSpool>,
    line: Vec<u8>,
}

impl AnswerOutput {
    /// An output that writes the items in reverse if `is_reversed`.
    pub(super) fn new(printer: AnswerPrinter, is_reversed: bool, wants_pager: bool) -> Result<AnswerOutput, CliError> {
        if printer.format == AnswerFormat::Parquet && printer.is_terminal {
            return Err(CliError::Usage(
                "parquet is not for a terminal: add > FILE, or use daytable export --format parquet --output FILE"
                    .into(),
            ));
        }
        let is_table = matches!(printer.format, AnswerFormat::Csv | AnswerFormat::Parquet);
        let rows = if is_table { Some(row_spool()?) } else { None };
        let reversed = (is_reversed && !is_table).then(LineSpool::default);
        Ok(AnswerOutput { printer, out: PagedOutput::new(wants_pager), reversed, rows, line: Vec::new() })
    }

    /// Writes an item.
    pub(super) fn item(&mut self, item: AnswerItem) -> Result<(), CliError> {
        if let Some(rows) = &mut self.rows {
            return rows.push(&item.into_row()).map_err(spool_failed);
        }
        self.line.clear();
        self.printer.item(&item, &mut self.line)?;
        match &mut self.reversed {
            Some(reversed) => reversed.push(&self.line).map_err(CliError::Output),
            None => self.out.write(&self.line),
        }
    }

    /// Whether a line may stand between groups of records.
    pub(super) fn has_separators(&self) -> bool {
        matches!(self.printer.format, AnswerFormat::Text | AnswerFormat::Raw)
    }

    /// Writes a line as it is.
    pub(super) fn line(&mut self, line: &str) -> Result<(), CliError> {
        self.out.write(format!("{line}\n").as_bytes())
    }

    /// Writes the rest.
    pub(super) fn finish(mut self) -> Result<(), CliError> {
        if let Some(mut rows) = self.rows {
            let stdout = BufWriter::with_capacity(64 << 10, io::stdout());
            return match self.printer.format {
                AnswerFormat::Parquet => {
                    write_parquet(&mut rows, stdout, &QuestionBudget::unlimited()).map_err(written_failed)
                }
                _ if self.printer.is_terminal => {
                    let mut csv = Vec::new();
                    write_csv(&mut rows, CsvReader::Program, &mut csv).map_err(written_failed)?;
                    self.out.write(SafeLines(String::from_utf8_lossy(&csv)).to_string().as_bytes())?;
                    self.out.finish()
                }
                _ => write_csv(&mut rows, CsvReader::Program, stdout).map_err(written_failed),
            };
        }
        if let Some(reversed) = self.reversed {
            let out = &mut self.out;
            reversed.each_from_last(|line| out.write(line))?;
        }
        self.out.finish()
    }
}

/// A spool in the folder for temporary files.
fn row_spool() -> Result<RowSpool, CliError> {
    let folder = std::env::temp_dir();
    let file = create_unnamed(&folder).map_err(|source| CliError::Write { path: folder, source })?;
    Ok(RowSpool::new(file, u64::MAX))
}

fn spool_failed(error: SpoolError) -> CliError {
    match error {
        SpoolError::Io(source) => CliError::Write { path: std::env::temp_dir(), source },
        error => CliError::Unavailable(error.to_string()),
    }
}

fn written_failed(error: SpoolError) -> CliError {
    match error {
        SpoolError::Io(error) => CliError::output(error),
        error => CliError::Unavailable(error.to_string()),
    }
}

/// Lines that are read from the last to the first. Few stay in memory, more go to a temporary file.
#[derive(Default)]
struct LineSpool {
    memory: Vec<u8>,
    file: Option<File>,
    /// The length of the file.
    written: u64,
    /// Where each line ends.
    ends: Vec<u64>,
}

impl LineSpool {
    fn push(&mut self, line: &[u8]) -> io::Result<()> {
        self.memory.extend_from_slice(line);
        self.ends.push(self.written + self.memory.len() as u64);
        if self.memory.len() >= LINES_MEMORY_MAX {
            let file = match &mut self.file {
                Some(file) => file,
                file => file.insert(create_unnamed(&std::env::temp_dir())?),
            };
            file.write_all(&self.memory)?;
            self.written += self.memory.len() as u64;
            self.memory.clear();
        }
        Ok(())
    }

    fn each_from_last(self, mut each: impl FnMut(&[u8]) -> Result<(), CliError>) -> Result<(), CliError> {
        let mut line = Vec::new();
        for at in (0..self.ends.len()).rev() {
            let start = if at == 0 { 0 } else { self.ends[at - 1] };
            line.clear();
            line.resize((self.ends[at] - start) as usize, 0);
            match (start.checked_sub(self.written), &self.file) {
                (None, Some(file)) => file.read_exact_at(&mut line, start).map_err(CliError::Output)?,
                // A line lies in the file or in the memory as a whole.
                (offset, _) => {
                    let (start, length) = (offset.unwrap_or_default() as usize, line.len());
                    line.copy_from_slice(&self.memory[start..start + length]);
                }
            }
            each(&line)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_from_the_last_to_the_first_from_memory_and_file() {
        let mut spool = LineSpool::default();
        let line = |n: usize| format!("{n} {}\n", "x".repeat(n % 7 * 100_000));
        for n in 0..40 {
            spool.push(line(n).as_bytes()).expect("pushed");
        }
        assert!(spool.written > 0 && !spool.memory.is_empty());
        let mut seen = Vec::new();
        spool
            .each_from_last(|line| {
                seen.push(String::from_utf8_lossy(line).into_owned());
                Ok(())
            })
            .expect("read");
        assert_eq!(seen, (0..40).rev().map(line).collect::<Vec<_>>());
    }
}
