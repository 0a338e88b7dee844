//! `daytable export`: writes an answer to a file or to standard output; or the file again that a source read.

use super::answer_output::{AnswerArgs, AnswerFormat, AnswerOutput};
use super::args::{FilterArgs, LakeArgs, ReadSources, RecordStores, end_of, report_end};
use super::asked::AskedPart;
use super::atomic_file::AtomicFile;
use super::exit::CliError;
use super::output::{asked, bytes, can_ask, print};
use super::output_place::check_output;
use super::source_file;
use crate::http::QuestionForm;
use clap::ValueEnum;
use daytable_logsql::{ParsedQuery, Remarks};
use daytable_model::path_text::PathText;
use daytable_model::safe_text;
use daytable_model::time::now;
use daytable_platform::budget::QuestionBudget;
use daytable_platform::scratch::create_unnamed;
use daytable_query::answer::{AnswerEnd, AnswerItem, AnswerOptions, QueryConditions, answer};
use daytable_query::export::{CsvReader, RowSpool, SpoolError, write_csv, write_parquet};
use std::fmt;
use std::io::{BufWriter, Write};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    filters: FilterArgs,
    #[command(flatten)]
    sources: ReadSources,
    #[command(flatten)]
    lake: LakeArgs,
    /// The form of the records or rows
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "ndjson")]
    format: ExportForm,
    /// Write the bytes as they were read: --format raw. With --source PATH and no other condition, the file again, byte for byte
    #[arg(long, conflicts_with = "format")]
    raw: bool,
    /// At most this many records or rows
    #[arg(short, aliases = ["limit", "lines", "max"], value_name = "N")]
    n: Option<u64>,
    /// The file to write, instead of standard output. It gets its name once it is whole, and only its user reads it
    #[arg(long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Replace the file of --output without asking, as it is where nobody can be asked
    #[arg(long, requires = "output")]
    yes: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum ExportForm {
    #[value(alias = "json")]
    Ndjson,
    Csv,
    Parquet,
    Raw,
}

pub(super) fn run(args: Args) -> Result<(), CliError> {
    if let Some(path) = &args.output {
        check_output(path)?;
        if !args.yes {
            ask_to_replace(path)?;
        }
    }
    if args.raw
        && args.n.is_none()
        && let Some(path) = args.filters.only_source()
    {
        let sources = match args.sources.open_or_ask(&args.lake)? {
            RecordStores::Folder(sources) => sources,
            RecordStores::Daemon(_) => {
                return Err(CliError::Unavailable(
                    "a file again, byte for byte, is made of positions that only the data folder has: call this as the user of the \
                     daemon, sudo -u daytable daytable export …; or write the lines of its records, the newest first, with another \
                     condition, such as --since 30d"
                        .into(),
                ));
            }
        };
        if sources.is_lake() {
            return Err(CliError::Usage(
                "a file again is the file of one host, and each host of a lake may have one of this path: bring its days back with \
                 daytable restore --host NAME, or write lines with another condition, such as \"log_host:=NAME\""
                    .into(),
            ));
        }
        return source_file::write(&sources, path, args.output.as_deref());
    }
    let format = match args.format {
        _ if args.raw => AnswerFormat::Raw,
        ExportForm::Ndjson => AnswerFormat::Json,
        ExportForm::Csv => AnswerFormat::Csv,
        ExportForm::Parquet => AnswerFormat::Parquet,
        ExportForm::Raw => AnswerFormat::Raw,
    };
    let (zone, now) = (args.filters.zone(), now());
    let conditions = args.filters.conditions(now, &zone);
    let (query, remarks, options) = conditions.clone().parse(now, args.n)?;
    let exported = Exported { conditions, query, remarks, options };
    let Some(path) = &args.output else {
        let printer = AnswerArgs::of(format).printer(&zone, &exported.query, &exported.options);
        let mut output = AnswerOutput::new(printer, false, false)?;
        let end = exported.give(args.sources.open_or_ask(&args.lake)?, &mut |item| output.item(item))?;
        output.finish()?;
        return report_end(&end);
    };
    let stores = args.sources.open_or_ask(&args.lake)?;
    let file = AtomicFile::create(path)?;
    let (items, end) = exported.write(stores, format, &file, path)?;
    if let Some(missing) = end.incomplete {
        return Err(CliError::Incomplete(format!("{missing}; {} is not written", path.display())));
    }
    let written = file.file().metadata().ok().filter(std::fs::Metadata::is_file).map(|file| file.len());
    file.finish()?;
    if let Some(written) = written {
        print(format!("{items} in {}, {}", path.escaped(), bytes(written)))?;
    }
    report_end(&end)
}

/// How much was written.
#[derive(Default)]
struct WrittenItems {
    count: u64,
    /// Whether one of them is a row of columns, and not a record.
    has_rows: bool,
}

impl WrittenItems {
    fn add(&mut self, item: &AnswerItem) {
        self.count += 1;
        self.has_rows |= matches!(item, AnswerItem::Row(_));
    }
}

impl fmt::Display for WrittenItems {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let noun = if self.has_rows { "row" } else { "record" };
        write!(f, "{} {noun}{}", self.count, if self.count == 1 { "" } else { "s" })
    }
}

/// Asks whether a file is to be replaced. Where nobody can be asked it is, as by the `>` of a shell.
fn ask_to_replace(path: &Path) -> Result<(), CliError> {
    let Some(file) = path.metadata().ok().filter(|file| file.is_file() && file.len() > 0) else { return Ok(()) };
    if !can_ask() || asked(&format!("{} is there, {}. Replace it?", path.escaped(), bytes(file.len())))? {
        return Ok(());
    }
    Err(CliError::Unconfirmed("nothing was written: the answer was not yes".into()))
}

/// What is exported.
struct Exported {
    conditions: QueryConditions,
    query: ParsedQuery,
    remarks: Vec<Remarks>,
    options: AnswerOptions,
}

impl Exported {
    /// Gives each item of an answer to `each`, until it fails.
    fn give(
        self,
        stores: RecordStores,
        each: &mut dyn FnMut(AnswerItem) -> Result<(), CliError>,
    ) -> Result<AnswerEnd, CliError> {
        let Exported { conditions, query, remarks, options } = self;
        let sources = match stores {
            RecordStores::Folder(sources) => sources,
            RecordStores::Daemon(daemon) => {
                let end =
                    daemon.ask(conditions, options.filter.limit, QuestionForm::Answer, &mut |part| match part {
                        AskedPart::Item(item) => each(item).map(|()| true),
                        _ => Ok(true),
                    })?;
                return Ok(end.unwrap_or_default());
            }
        };
        let mut written = Ok(());
        let report = answer(&sources.stores(), &query, &options, &|| true, &mut |item| {
            written = each(item);
            if written.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
        })?;
        written?;
        end_of(&sources, &query, &remarks, &options, &report)
    }

    /// Writes an answer to a file. Returns how much it has as well.
    fn write(
        self,
        stores: RecordStores,
        format: AnswerFormat,
        file: &AtomicFile,
        path: &Path,
    ) -> Result<(WrittenItems, AnswerEnd), CliError> {
        let mut items = WrittenItems::default();
        let failed = |source| CliError::Write { path: path.to_owned(), source };
        let spool_failed = |error| match error {
            SpoolError::Io(source) => failed(source),
            error => CliError::Unavailable(error.to_string()),
        };
        let mut out = BufWriter::with_capacity(256 << 10, file.file());
        if matches!(format, AnswerFormat::Csv | AnswerFormat::Parquet) {
            let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
            let mut rows = RowSpool::new(create_unnamed(folder).map_err(failed)?, u64::MAX);
            let end = self.give(stores, &mut |item| {
                items.add(&item);
                rows.push(&item.into_row()).map_err(spool_failed)
            })?;
            match format {
                AnswerFormat::Csv => write_csv(&mut rows, CsvReader::Program, &mut out),
                _ => write_parquet(&mut rows, &mut out, &QuestionBudget::unlimited()),
            }
            .map_err(spool_failed)?;
            return Ok((items, end));
        }
        let end = self.give(stores, &mut |item| {
            let written = match &item {
                AnswerItem::Record(record) if format == AnswerFormat::Raw => out.write_all(&record.record().raw()),
                item => safe_text::to_json(&mut out, item).map_err(Into::into),
            };
            items.add(&item);
            written.and_then(|()| out.write_all(b"\n")).map_err(failed)
        })?;
        out.flush().map_err(failed)?;
        Ok((items, end))
    }
}
