//! `daytable adopt`: continues at the positions of another collector.
//!
//! Run the command once, after the other collector has stopped and before the daemon starts: no record is then read twice or
//! skipped. A file that is a source of daytable already stays as it is, so a second run has no effect.

use super::args::{DaemonArgs, JsonArgs};
use super::exit::CliError;
use super::output::{Output, TextTable, cell};
use daytable_intake::adopt::Collector;
use daytable_intake::tail::{AdoptedFile, StartPosition, TailOptions, start_positions};
use daytable_model::path_text::PathText;
use daytable_model::source_id::HostId;
use daytable_store::{Ack, Reader, SourceState, Store, StoreOptions, Submission};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    daemon: DaemonArgs,
    #[command(flatten)]
    positions: PositionArgs,
    /// Skip files that daytable has read already, and adopt the others
    #[arg(long)]
    keep_known: bool,
    /// Print what would be done, and change no data
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: JsonArgs,
}

/// The positions of other collectors, any number of each.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
struct PositionArgs {
    /// positions.yaml of Promtail, or positions.yml of Alloy
    #[arg(long, value_name = "FILE")]
    promtail: Vec<PathBuf>,
    /// The folder of the registry of Filebeat
    #[arg(long, value_name = "DIR")]
    filebeat: Vec<PathBuf>,
    /// checkpoints.json of a file source of Vector
    #[arg(long, value_name = "FILE")]
    vector: Vec<PathBuf>,
    /// The database of a tail input of Fluent Bit
    #[arg(long, value_name = "FILE")]
    fluent_bit: Vec<PathBuf>,
}

/// The result for one file.
#[derive(Serialize)]
struct AdoptionRow {
    path: Option<String>,
    offset: u64,
    size: u64,
    /// The position to begin at.
    position: Option<u64>,
    /// The result as text.
    result: String,
}

impl AdoptionRow {
    fn new(adoptee: &AdoptedFile) -> AdoptionRow {
        let AdoptedFile { path, offset, size, begun } = adoptee;
        let (position, result) = match begun {
            StartPosition::At(state) => (Some(state.position), "begins there".into()),
            StartPosition::Known { position, is_same: true } => (Some(*position), "began there already".into()),
            StartPosition::Known { position, is_same: false } => {
                (Some(*position), "was already read by daytable and continues here".into())
            }
            StartPosition::Refused(why) => (None, format!("not adopted: {why}")),
        };
        AdoptionRow {
            path: path.as_ref().map(|path| path.text().into_owned()),
            offset: *offset,
            size: *size,
            position,
            result,
        }
    }
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let config = args.daemon.config()?;
    let data_dir = &config.data_dir;
    let PositionArgs { promtail, filebeat, vector, fluent_bit } = &args.positions;
    let peers = [
        (Collector::Promtail, promtail),
        (Collector::Filebeat, filebeat),
        (Collector::Vector, vector),
        (Collector::FluentBit, fluent_bit),
    ];
    let mut positions = Vec::new();
    for (peer, paths) in peers {
        for path in paths {
            positions.extend(peer.positions(path)?);
        }
    }
    let (blocks, host) = (&config.sources.tails, config.host_id());
    if args.dry_run {
        // The folder may not exist yet.
        let sources =
            if data_dir.join("catalog.db").exists() { Reader::open(data_dir)?.sources()? } else { Vec::new() };
        let adoptees = start_positions(blocks, &positions, sources.into_iter().map(Arc::new).collect(), host)
            .map_err(unavailable)?;
        return show(args, &adoptees);
    }
    // Opening takes the lock of the folder: a running daemon has already begun to read the files.
    let store = Store::open(data_dir, StoreOptions::default())?;
    let adopted = adopt(args, &store, blocks, &positions, host);
    store.close()?;
    show(args, &adopted?)
}

fn unavailable(error: impl std::fmt::Display) -> CliError {
    CliError::Unavailable(error.to_string())
}

/// Commits all new sources together.
fn adopt(
    args: &Args,
    store: &Store,
    blocks: &[TailOptions],
    positions: &[daytable_intake::adopt::SavedPosition],
    host: HostId,
) -> Result<Vec<AdoptedFile>, CliError> {
    let queue = store.commit_queue();
    let (epoch, sources) = queue.sources();
    let adoptees = start_positions(blocks, positions, sources, host).map_err(unavailable)?;
    let is_known = |adoptee: &&AdoptedFile| matches!(adoptee.begun, StartPosition::Known { is_same: false, .. });
    let known: Vec<String> =
        adoptees.iter().filter(is_known).filter_map(|known| Some(known.path.as_ref()?.text().into_owned())).collect();
    if !known.is_empty() && !args.keep_known {
        return Err(CliError::Unavailable(format!(
            "no file is adopted, because daytable has read some of them already; --keep-known skips these and adopts the others:\n  {}",
            known.join("\n  ")
        )));
    }
    let begun = adoptees.iter().filter_map(|adoptee| match &adoptee.begun {
        StartPosition::At(state) => Some(state.clone()),
        _ => None,
    });
    let advances: Vec<Arc<SourceState>> = begun.collect();
    if advances.is_empty() {
        return Ok(adoptees);
    }
    let (sender, receiver) = mpsc::channel();
    let ack = Ack::awaited(move |is_committed| {
        let _ = sender.send(is_committed);
    });
    queue.submit(Submission { advances, epoch, ack, ..Submission::default() }).map_err(unavailable)?;
    match receiver.recv() {
        Ok(true) => Ok(adoptees),
        _ => Err(unavailable("no file is adopted, because the commit failed")),
    }
}

fn show(args: &Args, adoptees: &[AdoptedFile]) -> Result<(), CliError> {
    let rows: Vec<AdoptionRow> = adoptees.iter().map(AdoptionRow::new).collect();
    let mut output = Output::new();
    if args.output.json {
        rows.iter().try_for_each(|row| output.json(row))?;
    } else if rows.is_empty() {
        output.line("there are no positions of files")?;
    } else {
        let row = |row: AdoptionRow| {
            [cell(row.path), row.offset.to_string(), row.size.to_string(), cell(row.position), row.result]
        };
        let heads = ["path", "offset", "size", "position", "what"];
        output.line(TextTable {
            heads,
            right: &["offset", "size", "position"],
            rows: rows.into_iter().map(row).collect(),
        })?;
    }
    output.flush()
}
