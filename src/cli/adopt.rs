//! `daytable adopt`: begins where another collector stopped.
//!
//! To be run once, when the other one was stopped and before the daemon is started: what it knows of is then neither read
//! twice nor passed over. It changes nothing where a file is a source of ours already; run again it does nothing.

use super::args::configured;
use super::exit::CliError;
use super::output::{Columns, Output, cell};
use daytable_intake::adopt::Collector;
use daytable_intake::tail::{AdoptedFile, StartPosition, TailOptions, start_positions};
use daytable_model::path_text::PathText;
use daytable_store::{Ack, Reader, SourceState, Store, StoreOptions, Submission};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::{Arc, mpsc};

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration whose [[tail]] blocks follow the files
    #[arg(long, value_name = "FILE", env = "DAYTABLE_CONFIG")]
    config: Option<PathBuf>,
    /// The data folder, in place of the configured one
    #[arg(long = "data", value_name = "DIR", env = "DAYTABLE_DATA")]
    data_dir: Option<PathBuf>,
    #[command(flatten)]
    from: From,
    /// Leave files alone that were read here already, and begin the others
    #[arg(long)]
    keep_known: bool,
    /// Show what would be done, and do nothing
    #[arg(long)]
    dry_run: bool,
    /// An object a line
    #[arg(long)]
    json: bool,
}

/// Whose positions; any number of each.
#[derive(Debug, clap::Args)]
#[group(required = true, multiple = true)]
struct From {
    /// positions.yaml of Promtail, positions.yml of Alloy
    #[arg(long, value_name = "FILE")]
    promtail: Vec<PathBuf>,
    /// The folder of Filebeat's registry
    #[arg(long, value_name = "DIR")]
    filebeat: Vec<PathBuf>,
    /// checkpoints.json of a file source of Vector
    #[arg(long, value_name = "FILE")]
    vector: Vec<PathBuf>,
    /// The DB of a tail input of Fluent Bit
    #[arg(long, value_name = "FILE")]
    fluent_bit: Vec<PathBuf>,
}

/// A file as it is shown.
#[derive(Serialize)]
struct Shown {
    path: Option<String>,
    offset: u64,
    size: u64,
    /// Where it begins.
    position: Option<u64>,
    /// What is made of it, in words.
    what: String,
}

impl Shown {
    fn of(adoptee: &AdoptedFile) -> Shown {
        let AdoptedFile { path, offset, size, begun } = adoptee;
        let (position, what) = match begun {
            StartPosition::At(state) => (Some(state.position), "begins there".into()),
            StartPosition::Known { position, is_same: true } => (Some(*position), "began there already".into()),
            StartPosition::Known { position, is_same: false } => {
                (Some(*position), "was read here already, it goes on here".into())
            }
            StartPosition::Refused(why) => (None, format!("not adopted: {why}")),
        };
        Shown { path: path.as_ref().map(|path| path.text().into_owned()), offset: *offset, size: *size, position, what }
    }
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let config = configured(args.config.as_deref())?;
    let data_dir = args.data_dir.as_ref().unwrap_or(&config.data_dir);
    let From { promtail, filebeat, vector, fluent_bit } = &args.from;
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
    let blocks = &config.tails;
    if args.dry_run {
        // There may be no folder yet.
        let sources =
            if data_dir.join("catalog.db").exists() { Reader::open(data_dir)?.sources()? } else { Vec::new() };
        let adoptees =
            start_positions(blocks, &positions, sources.into_iter().map(Arc::new).collect()).map_err(unavailable)?;
        return show(args, &adoptees);
    }
    // It takes the folder's lock: a daemon that runs has begun the files already.
    let store = Store::open(data_dir, StoreOptions::default())?;
    let adopted = adopt(args, &store, blocks, &positions);
    store.close()?;
    show(args, &adopted?)
}

fn unavailable(error: impl std::fmt::Display) -> CliError {
    CliError::Unavailable(error.to_string())
}

/// Commits the sources that begin, all of them or none.
fn adopt(
    args: &Args,
    store: &Store,
    blocks: &[TailOptions],
    positions: &[daytable_intake::adopt::SavedPosition],
) -> Result<Vec<AdoptedFile>, CliError> {
    let intake = store.commit_queue();
    let (epoch, sources) = intake.sources();
    let adoptees = start_positions(blocks, positions, sources).map_err(unavailable)?;
    let is_known = |adoptee: &&AdoptedFile| matches!(adoptee.begun, StartPosition::Known { is_same: false, .. });
    let known: Vec<String> =
        adoptees.iter().filter(is_known).filter_map(|known| Some(known.path.as_ref()?.text().into_owned())).collect();
    if !known.is_empty() && !args.keep_known {
        return Err(CliError::Unavailable(format!(
            "nothing is adopted, for some files were read here already; --keep-known leaves these and begins the others:\n  {}",
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
    let (told, hears) = mpsc::channel();
    let done = Ack::awaited(move |is_committed| {
        let _ = told.send(is_committed);
    });
    intake.submit(Submission { advances, epoch, ack: done, ..Submission::default() }).map_err(unavailable)?;
    match hears.recv() {
        Ok(true) => Ok(adoptees),
        _ => Err(unavailable("nothing is adopted, for it cannot be committed")),
    }
}

fn show(args: &Args, adoptees: &[AdoptedFile]) -> Result<(), CliError> {
    let shown: Vec<Shown> = adoptees.iter().map(Shown::of).collect();
    let mut output = Output::new();
    if args.json {
        shown.iter().try_for_each(|shown| output.json(shown))?;
    } else if shown.is_empty() {
        output.line("there are no positions of files")?;
    } else {
        let row = |shown: Shown| {
            [cell(shown.path), shown.offset.to_string(), shown.size.to_string(), cell(shown.position), shown.what]
        };
        let heads = ["path", "offset", "size", "position", "what"];
        output.line(Columns {
            heads,
            right: &["offset", "size", "position"],
            rows: shown.into_iter().map(row).collect(),
        })?;
    }
    output.flush()
}
