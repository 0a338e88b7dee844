//! `daytable verify`: whether anything was lost, in one line; with what is missing, and where, before it.
//!
//! It changes nothing, and works whether a daemon runs on the folder or not. It says a line a finding, each with what to do
//! below it, and at the end one of
//!
//! ```text
//! whole: 5120 records in 3 tables, 2 sources, 1 archives
//! not whole: 2 findings; 5118 records in 3 tables, 2 sources, 1 archives
//! ```
//!
//! Where the configuration names a field that carries a sequence, `; 3 numbers of sequences are missing, 1 come twice` is behind
//! that if it is so. What cannot be told (an archive whose store does not answer; a file that changed, where no `--config` says whether it is
//! followed still) is said as well, is no finding, and is counted at the end of the line: `; 2 could not be told`.
//!
//! With `--json` it is an object a finding (`finding`, `where`, `file`, `found`, `advice`; `doubt` where it is one), the last
//! one being the verdict (`whole`, `records`, `rows`, `tables`, `sources`, `archives`, `bytes`,
//! `missing`, `twice`, `findings`, `doubts`). It exits with 0 where all is whole,
//! with 65 where it is not, and with another code where it could not look (66: there is no data folder).

use super::args::{Data, named};
use super::exit::CliError;
use super::output::Output;
use super::working::Bar;
use crate::verify::{Ask, Share, verify};
use daytable_lifecycle::progress::StepProgress;
use std::ops::ControlFlow;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    #[command(flatten)]
    data: Data,
    /// The configuration that says how archives are reached, else the environment does; which files are followed, and which field carries a sequence
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Read archives back to their last byte; else it is looked whether they are there
    #[arg(long)]
    archives: bool,
    /// An object a line
    #[arg(long)]
    json: bool,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let (access, tails, sequence, is_routed) = match named(args.config.as_deref())? {
        Some(config) => {
            let is_routed = config.is_routed();
            (config.archives, Some(config.tails), config.lifecycle.verify_sequence, is_routed)
        }
        None => Default::default(),
    };
    let ask = Ask {
        data_dir: &args.data.dir,
        access: &access,
        reads_archives: args.archives,
        share: Share::ALL,
        bytes_per_second: None,
        tails: tails.as_deref(),
        sequence: sequence.as_deref(),
        is_routed,
    };
    let bar = Bar::new();
    let report = verify(&ask, &mut |progress| {
        let (done, total) = (progress.done, progress.total);
        bar.show(&StepProgress { table: progress.at.clone(), act: progress.at.clone().into(), done, total });
        ControlFlow::Continue(())
    })?;
    drop(bar);
    let mut output = Output::new();
    for finding in &report.findings {
        if args.json {
            output.json(finding)?;
        } else {
            output.line(finding)?;
            output.line(format_args!("      {}", finding.advice))?;
        }
    }
    if args.json {
        output.json(&report.verdict)?
    } else {
        output.line(&report.verdict)?
    }
    output.flush()?;
    match report.verdict.findings {
        0 => Ok(()),
        1 => Err(CliError::NotWhole("1 finding".into())),
        found => Err(CliError::NotWhole(format!("{found} findings"))),
    }
}
