//! `daytable copy`: copies tables from one store to another.
//!
//! | argument | store |
//! |---|---|
//! | `/var/lib/daytable` | a data folder; created if missing |
//! | `daytable.toml` | the store of this configuration: its data folder, or its remote store |
//! | `azure:FILE` | the account of the connection string in FILE |
//! | `azure:` | the account of the connection string in the environment |

use super::args::table_name;
use super::exit::CliError;
use super::output::{Output, counted};
use crate::config::{AccountConfig, Config};
use crate::remote::{self, WORK_PATIENCE};
use daytable_model::key::TableName;
use daytable_model::path_text::PathText;
use daytable_model::time::{self, Ticks};
use daytable_query::tables::copy::TableCopy;
use daytable_query::tables::{Embedded, TableStore};
use daytable_query::{When, when};
use daytable_store::{Reader, Store, StoreError, StoreOptions};
use indicatif::{ProgressBar, ProgressDrawTarget};
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The source: a data folder, a configuration (*.toml), azure:FILE with a connection string in FILE, or azure: for AZURE_STORAGE_CONNECTION_STRING
    #[arg(long, value_name = "STORE")]
    from: String,
    /// The target, in the same forms
    #[arg(long, value_name = "STORE")]
    to: String,
    /// Copy only days of this configured table. The option may be repeated
    #[arg(long, value_name = "NAME", value_parser = table_name)]
    table: Vec<TableName>,
    /// Copy only tables whose period ends after this time: 2026-11-21, RFC 3339, or an age such as 7d
    #[arg(long, value_name = "TIME")]
    since: Option<When>,
    /// Copy only tables whose period begins before this time
    #[arg(long, value_name = "TIME")]
    until: Option<When>,
    /// The file that records the progress, so that the same command resumes
    #[arg(long, value_name = "FILE", default_value = "daytable-copy.json")]
    state: PathBuf,
}

/// A store at one end of the copy.
struct CopyEnd {
    /// The name for messages, without secrets.
    name: String,
    tables: Box<dyn TableStore>,
    /// The folder, open for writing.
    store: Option<Store>,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let from = CopyEnd::open(&args.from, Side::From)?;
    let to = CopyEnd::open(&args.to, Side::To)?;
    let copied = copy(args, &from, &to);
    let CopyEnd { tables, store, .. } = to;
    drop(tables);
    let closed = store.map_or(Ok(()), Store::close);
    copied?;
    Ok(closed?)
}

fn copy(args: &Args, from: &CopyEnd, to: &CopyEnd) -> Result<(), CliError> {
    if from.name == to.name {
        return Err(CliError::Unavailable(format!("both ends are {}", to.name)));
    }
    let now = time::now();
    // Day-tables are days of UTC.
    let since = args.since.as_ref().map_or(Ticks::MIN, |since| since.at(now, &when::utc));
    let until = args.until.as_ref().map_or(Ticks::MAX, |until| until.at(now, &when::utc));
    let mut tables = from.tables.tables()?;
    tables.retain(|table| {
        let is_named = args.table.is_empty() || args.table.contains(table.table());
        is_named && table.end() > since && table.start() < until
    });
    tables.sort_by_key(|table| (table.start(), table.table().clone()));
    let mut copy = TableCopy::open(&*from.tables, &*to.tables, (&from.name, &to.name), &args.state)?;
    let mut output = Output::new();
    let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::stderr_with_hz(10));
    let mut rows = 0;
    for table in &tables {
        let copied = copy.copy(table, &mut |act, rows| {
            bar.set_message(format!("{act} {table}"));
            bar.set_position(rows);
            ControlFlow::Continue(())
        })?;
        rows += copied.rows;
        let how = if copied.was_done { "was copied before" } else { "copied and compared" };
        output.line(format_args!("{table}  {how}: {}, checksum {}", counted(copied.rows, "row"), copied.content))?;
        output.flush()?;
    }
    bar.finish_and_clear();
    let (is, tables) = (if tables.len() == 1 { "is" } else { "are" }, counted(tables.len() as u64, "table"));
    output.line(format_args!("{tables} with {} {is} at {}", counted(rows, "row"), to.name))?;
    output.flush()
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Side {
    From,
    To,
}

impl CopyEnd {
    fn open(text: &str, side: Side) -> Result<CopyEnd, CliError> {
        if let Some(file) = text.strip_prefix("azure:") {
            let file = Some(file).filter(|file| !file.is_empty()).map(PathBuf::from);
            return CopyEnd::remote(&AccountConfig::of_connection_string(file));
        }
        if text.ends_with(".toml") {
            // Environment variables would override the settings of both ends, so only the file counts.
            let config = Config::load(Path::new(text))?;
            return match config.store.remote() {
                Some(remote) => CopyEnd::remote(&remote.account),
                None => CopyEnd::folder(&config.data_dir, side),
            };
        }
        CopyEnd::folder(Path::new(text), side)
    }

    fn remote(account: &AccountConfig) -> Result<CopyEnd, CliError> {
        let remote = remote::connect(account, WORK_PATIENCE)?;
        Ok(CopyEnd { name: remote.endpoint().to_owned(), tables: remote, store: None })
    }

    fn folder(path: &Path, side: Side) -> Result<CopyEnd, CliError> {
        let store = (side == Side::To).then(|| Store::open(path, StoreOptions::default())).transpose()?;
        if Reader::open(path)?.is_outbox()? {
            let reason = "is the outbox of a remote store: name that, by its configuration or as azure:FILE";
            return Err(CliError::Unavailable(format!("{} {reason}", path.escaped())));
        }
        let tables: Box<dyn TableStore> = match &store {
            Some(store) => Box::new(Embedded::of(store, path)?),
            None => Box::new(Embedded::open_to_read(path)?),
        };
        let name = path.canonicalize().map_err(|source| StoreError::Io { path: path.into(), source })?;
        Ok(CopyEnd { name: name.text().into_owned(), tables, store })
    }
}
