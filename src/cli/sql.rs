//! `daytable sql`: runs an installed `duckdb` with a view `logs` of all records in the data folder, or in a lake.
//!
//! Sealed days are Parquet files, which `duckdb` reads where they lie. Days that are open, or in several files, are exported to
//! a temporary file without a name, which `duckdb` reads by its descriptor; so nothing is left behind. So are the records of a lake in
//! object storage: `duckdb` gets no credentials.

use super::args::{DataArgs, LISTED_FOR, LakeArgs, is_denied, lake_access};
use super::asked::{AskedDaemon, AskedPart};
use super::control::Control;
use super::exit::CliError;
use super::hint::hint;
use super::locate;
use crate::http::QuestionForm;
use daytable_archive::{Access, ArchiveUrl, Lake};
use daytable_lifecycle::StepError;
use daytable_logsql::{Expression, FieldName, ParsedQuery, Test};
use daytable_model::arrival::{ARRIVED, ARRIVED_FIELD};
use daytable_model::path_text::PathText;
use daytable_model::time::{Ticks, now};
use daytable_platform::budget::QuestionBudget;
use daytable_platform::scratch::create_unnamed;
use daytable_query::answer::{AnswerItem, AnswerOptions, AnswerRow, QueryConditions, answer};
use daytable_query::export::{RowSpool, SpoolError, write_parquet};
use daytable_query::{Archives, OwnedValue, Stores};
use daytable_store::Reader;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, BufWriter};
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

/// The columns of a sealed day that the view names otherwise or leaves out, so that a file without one of them has it, too.
const SEALED: &str = "SELECT NULL::VARCHAR AS \"PartitionKey\", NULL::TIMESTAMPTZ AS \"Time\", NULL::VARCHAR AS \"Level\", \
    NULL::VARCHAR AS \"Message\", NULL::VARCHAR AS \"Source\", NULL::VARCHAR AS \"Layout\", NULL::VARCHAR AS \"Verbatim\" \
    WHERE false";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: DataArgs,
    /// The statement. Its table is the view logs, with the columns instance, time, level, message, source, and one for each field. Without a statement, duckdb reads them from the terminal
    #[arg(value_name = "SQL")]
    statement: Option<String>,
    #[command(flatten)]
    lake: LakeArgs,
    /// With --lake: of records that match this filter alone, so that few files are fetched
    #[arg(long = "where", value_name = "FILTER", requires = "lake")]
    filter: Option<String>,
    /// With --lake: the configuration with the access to object storage. Without a file, /etc/daytable/daytable.toml, or the environment
    #[arg(long, value_name = "FILE", env = "DAYTABLE_CONFIG")]
    config: Option<PathBuf>,
    /// Print a JSON array
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print CSV
    #[arg(long)]
    csv: bool,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let spool;
    let statement = match &args.lake.lake {
        Some(address) => match address.folder().filter(|_| args.filter.is_none()) {
            Some(folder) => view_of_lake(address, folder)?,
            None => {
                let (records, missing) = export_of_lake(args)?;
                ask(args, &view(&[], &records, ViewOf::Lake)?)?;
                return missing.map_or(Ok(()), |missing| Err(CliError::Incomplete(missing)));
            }
        },
        None => {
            let data_dir = args.data.dir();
            let reader = args.data.reader().map_err(CliError::from);
            let reader = match reader {
                Err(error) if is_denied(&error) => match locate::connect(&data_dir, None) {
                    Ok(Some(control)) => {
                        spool = export_of_daemon(control)?;
                        return ask(args, &view(&[], &spool, ViewOf::Folder)?);
                    }
                    _ => return Err(error),
                },
                reader => reader?,
            };
            if reader.is_outbox()? {
                return Err(CliError::Unavailable(
                    "the records of this data folder are in a remote store, which duckdb does not read: use daytable query, or \
                     daytable export --format parquet --output FILE"
                        .into(),
                ));
            }
            let (sealed, exported) = days(&reader, &data_dir)?;
            // Its descriptor is open until duckdb ends.
            spool = export(&reader, exported)?;
            view(&sealed, &spool, ViewOf::Folder)?
        }
    };
    ask(args, &statement)
}

/// Runs `duckdb` with this view.
fn ask(args: &Args, view: &str) -> Result<(), CliError> {
    let mut command = Command::new("duckdb");
    for (wanted, option) in [(args.json, "-json"), (args.csv, "-csv")] {
        if wanted {
            command.arg(option);
        }
    }
    command.args(["-cmd", view]);
    if let Some(statement) = &args.statement {
        command.args(["-c", statement]);
    }
    let status = command.status().map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => CliError::Unavailable(
            "duckdb is not installed: put its program in a folder of PATH (https://duckdb.org/install), or ask in daytable's \
             own language: daytable query --help"
                .into(),
        ),
        _ => CliError::Input { path: "duckdb".into(), source: error },
    })?;
    // duckdb printed its reason.
    if status.success() { Ok(()) } else { Err(CliError::Unavailable(format!("duckdb ended with {status}"))) }
}

/// The statement that makes the view of a lake in a folder. Which files are the tables is daytable's answer, not a pattern's.
fn view_of_lake(address: &ArchiveUrl, folder: &Path) -> Result<String, CliError> {
    let failed = |error| CliError::Step(StepError::Archive(error));
    let lake = Lake::open(address, &Access::default(), None, Duration::ZERO).map_err(failed)?;
    let listing = lake.listing().map_err(failed)?;
    if let Some((name, reason)) = listing.unread.first_key_value() {
        return Err(CliError::Incomplete(format!("missing from the lake: {name}: {reason}")));
    }
    for left in lake.left_out(&listing, (Ticks::MIN, Ticks::MAX)) {
        let what = match left {
            Ok(archive) => format!("the archive of {}, which its table does not have", archive.shown()),
            Err((table, error)) => format!("archives beside the table {table}, if there are any: {error}"),
        };
        hint(format_args!("daytable: the view lacks {what}"));
    }
    let files: Vec<PathBuf> = listing.files.iter().map(|file| folder.join(file.object())).collect();
    let sealed = view_of_sealed(&files, ViewOf::Lake)?.unwrap_or_else(|| NOTHING.into());
    Ok(format!("SET TimeZone = 'UTC'; CREATE VIEW logs AS {sealed};"))
}

/// The records of a lake as a Parquet file, and what is missing of them.
fn export_of_lake(args: &Args) -> Result<(File, Option<String>), CliError> {
    let access = lake_access(args.config.as_deref())?;
    let archives = args.lake.open(&access, LISTED_FOR)?.map_or(Archives::Skip, Archives::Lake);
    let reader = Reader::empty(Path::new(""))?;
    let filter = args.filter.as_deref().map_or(Ok(Expression::All), Expression::parse);
    let query = ParsedQuery { filter: filter.map_err(|error| CliError::Usage(error.to_string()))?, pipes: Vec::new() };
    export_of(&Stores::local(&reader, &archives), &query)
}

/// What a view is of. That of a lake has the columns `log_day` and `log_host`.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ViewOf {
    Folder,
    Lake,
}

/// The records of sealed days; `None` without a file.
fn view_of_sealed(sealed: &[PathBuf], of: ViewOf) -> Result<Option<String>, CliError> {
    if sealed.is_empty() {
        return Ok(None);
    }
    let quoted = |path: &Path| match path.to_str() {
        Some(path) => Ok(format!("'{}'", path.replace('\'', "''"))),
        None => Err(CliError::Unavailable(format!("duckdb cannot name {}", path.escaped()))),
    };
    let files: Vec<String> = sealed.iter().map(|path| quoted(path)).collect::<Result<_, _>>()?;
    let by_path = match of {
        ViewOf::Folder => "",
        ViewOf::Lake => ", hive_partitioning = true, hive_types = {'log_day': DATE, 'log_host': VARCHAR}",
    };
    Ok(Some(format!(
        "SELECT PartitionKey AS instance, Time::TIMESTAMPTZ AS time, Level AS level, Message AS message, \
         Source AS source, * EXCLUDE (PartitionKey, Time, log_ticks, Level, Message, Source, Layout, Verbatim, \
         log_source, log_position, log_item) FROM ({SEALED} UNION ALL BY NAME \
         SELECT * FROM read_parquet([{}], union_by_name = true{by_path})) WHERE log_item = 0",
        files.join(", ")
    )))
}

/// The view without a record.
const NOTHING: &str = "SELECT NULL::VARCHAR AS instance, NULL::TIMESTAMPTZ AS time, NULL::VARCHAR AS level, \
    NULL::VARCHAR AS message, NULL::VARCHAR AS source WHERE false";

/// The files of sealed days, and the names of the other day-tables.
fn days(reader: &Reader, data_dir: &Path) -> Result<(Vec<PathBuf>, Vec<String>), CliError> {
    let mut files: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in reader.catalog().files()? {
        files.entry(file.day.to_string()).or_default().push(file.name);
    }
    let (mut sealed, mut exported) = (Vec::new(), Vec::new());
    for (day, names) in files {
        match names.as_slice() {
            // A record may be in two files of a day.
            [name] if name.ends_with(".parquet") => sealed.push(data_dir.join("tables").join(name)),
            _ => exported.push(day),
        }
    }
    Ok((sealed, exported))
}

/// The records of these day-tables as a Parquet file.
fn export(reader: &Reader, tables: Vec<String>) -> Result<File, CliError> {
    let filter = Expression::Field(FieldName::new("table"), Test::In(tables));
    match export_of(&Stores::local(reader, &Archives::Skip), &ParsedQuery { filter, pipes: Vec::new() })? {
        (_, Some(missing)) => Err(CliError::Incomplete(missing)),
        (file, None) => Ok(file),
    }
}

/// The records of a query as a Parquet file, and what is missing of them.
fn export_of(stores: &Stores<'_>, query: &ParsedQuery) -> Result<(File, Option<String>), CliError> {
    let mut rows = RowFile::new()?;
    let mut pushed = Ok(());
    let report = answer(stores, query, &AnswerOptions::at(now()), &|| true, &mut |item| {
        pushed = rows.push(item);
        if pushed.is_ok() { ControlFlow::Continue(()) } else { ControlFlow::Break(()) }
    })?;
    pushed?;
    Ok((rows.finish()?, report.incomplete()))
}

/// All records of the daemon as a Parquet file, for a member of the readers' group.
fn export_of_daemon(control: Control) -> Result<File, CliError> {
    let daemon = AskedDaemon { control, has_archives: false, has_remote: true, is_quiet: true };
    let mut rows = RowFile::new()?;
    let end = daemon.ask(QueryConditions::default(), None, QuestionForm::Answer, &mut |part| match part {
        AskedPart::Item(item) => rows.push(item).map(|()| true),
        _ => Ok(true),
    })?;
    if let Some(missing) = end.unwrap_or_default().incomplete {
        return Err(CliError::Incomplete(missing));
    }
    rows.finish()
}

/// Records on their way to a Parquet file without a name.
struct RowFile {
    rows: RowSpool,
    folder: PathBuf,
}

impl RowFile {
    fn new() -> Result<RowFile, CliError> {
        let folder = std::env::temp_dir();
        let file = unnamed_in(&folder)?;
        Ok(RowFile { rows: RowSpool::new(file, u64::MAX), folder })
    }

    fn push(&mut self, item: AnswerItem) -> Result<(), CliError> {
        let AnswerItem::Record(record) = item else { return Ok(()) };
        // As in a sealed day.
        let (message, kept_arrival) = (record.record().stored_message().to_owned(), record.record().kept_arrival);
        let mut row = record.into_row();
        row.set(&FieldName::new("message"), Some(OwnedValue::String(message)));
        if kept_arrival.is_some() {
            let mut renamed = AnswerRow::default();
            for (name, value) in row.columns() {
                renamed.push(if **name == *ARRIVED_FIELD { ARRIVED.into() } else { name.clone() }, value.clone());
            }
            row = renamed;
        }
        self.rows.push(&row).map_err(spool_failed)
    }

    fn finish(mut self) -> Result<File, CliError> {
        let out = unnamed_in(&self.folder)?;
        if !self.rows.columns().is_empty() {
            write_parquet(&mut self.rows, BufWriter::new(&out), &QuestionBudget::unlimited()).map_err(spool_failed)?;
        }
        Ok(out)
    }
}

fn unnamed_in(folder: &Path) -> Result<File, CliError> {
    create_unnamed(folder).map_err(|source| CliError::Write { path: folder.into(), source })
}

fn spool_failed(error: SpoolError) -> CliError {
    CliError::Unavailable(error.to_string())
}

/// The statement that makes the view.
fn view(sealed: &[PathBuf], exported: &File, of: ViewOf) -> Result<String, CliError> {
    let mut parts: Vec<String> = view_of_sealed(sealed, ViewOf::Folder)?.into_iter().collect();
    let is_empty = exported.metadata().is_ok_and(|file| file.len() == 0);
    if !is_empty {
        // A day-table is named by its day, or by its month.
        let day = match of {
            ViewOf::Folder => "",
            ViewOf::Lake => {
                "strptime(rpad(regexp_extract(\"table\", '[0-9]+$')[1:8], 8, '01'), '%Y%m%d')::DATE AS log_day, "
            }
        };
        parts.push(format!(
            "SELECT partition_key AS instance, time::TIMESTAMPTZ AS time, level, message, source, {day}\
             * EXCLUDE (\"table\", partition_key, row_key, time, level, message, source) \
             FROM read_parquet('/proc/{}/fd/{}')",
            std::process::id(),
            exported.as_raw_fd()
        ));
    }
    if parts.is_empty() {
        parts.push(NOTHING.into());
    }
    let mut statement = "SET TimeZone = 'UTC'; CREATE VIEW logs AS ".to_owned();
    // Writing to a text cannot fail.
    let _ = write!(statement, "{};", parts.join(" UNION ALL BY NAME "));
    Ok(statement)
}
