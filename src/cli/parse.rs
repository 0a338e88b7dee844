//! `daytable parse`: what is made of files, as one JSON object a record, to try a format. Nothing is stored.
//!
//! The records are those that the daemon would make of the same bytes, secrets replaced as the configuration says.
//!
//! * `input`: plain and compressed files; `shown`: a record as JSON; `explain`: which bytes became what; `summary`: what
//!   a file was recognised as, on standard error where that is a terminal.

mod explain;
mod input;
mod shown;
mod summary;

use super::args::named;
use super::exit::CliError;
use super::output::Output;
use crate::config::{Config, TailConfig};
use daytable_model::path_text::PathText;
use daytable_model::time::now;
use daytable_parse::{Parsed, RawRecord, Reading, Records, Unsaid};
use explain::Explained;
use shown::Shown;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use summary::Summary;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Files of lines, plain or compressed with gzip or zstd; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// What the lines are: auto, a format by its name, regex:PATTERN or grok:PATTERN
    #[arg(long, value_name = "FORMAT", value_parser = super::args::format)]
    format: Option<String>,
    /// Read each file as the [[tail]] block of this configuration says that includes it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Show each record with the bytes that became its parts
    #[arg(long)]
    explain: bool,
    /// End with what each file was recognised as, on standard error, as on a terminal
    #[arg(long)]
    summary: bool,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let config = named(args.config.as_deref())?;
    let mut output = Output::new();
    let mut summaries = Vec::new();
    for path in &args.files {
        let (mut reading, line_bytes_max) = match &config {
            Some(config) => of_block(config, path),
            None => (Reading::default(), TailConfig::default().line_bytes_max.get()),
        };
        if let Some(format) = &args.format {
            // It was looked at when the options were read.
            reading.set_format(format).map_err(|error| CliError::Unavailable(error.to_string()))?;
        }
        summaries.push((path, read(path, &reading, line_bytes_max, args.explain, &mut output)?));
    }
    output.flush()?;
    if args.summary || io::stderr().is_terminal() {
        for (path, summary) in summaries {
            eprintln!("{}: {summary}", daytable_model::safe_text::SafeLine(&path.text()));
        }
    }
    Ok(())
}

/// How the first block that includes a file reads it, and bytes of a line at most.
fn of_block(config: &Config, path: &Path) -> (Reading, u64) {
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let matches =
        |patterns: &[daytable_intake::glob::Pattern]| patterns.iter().any(|pattern| pattern.matches(&absolute));
    let block = config.tails.iter().find(|block| matches(&block.include) && !matches(&block.exclude));
    match block {
        Some(block) => (block.reading.clone(), block.line_bytes_max.get()),
        None => {
            tracing::warn!(path = %path.escaped(), "no [[tail]] block includes this file: it is read without one");
            (config.reading(), TailConfig::default().line_bytes_max.get())
        }
    }
}

fn read(
    path: &Path,
    reading: &Reading,
    line_bytes_max: u64,
    explain: bool,
    output: &mut Output,
) -> Result<Summary, CliError> {
    let failed = |source| CliError::Input { path: path.to_owned(), source };
    let input = input::open(path).map_err(failed)?;
    let bytes_max = usize::try_from(line_bytes_max).unwrap_or(2 << 20);
    let mut records = Records::new(input, reading.clone(), bytes_max);
    let mut summary = Summary::default();
    loop {
        let seen = now();
        let mut written = Ok(());
        let each = |offset: u64, raw: &RawRecord<'_>, parsed: Parsed<'_>| {
            let offset = offset + raw.start as u64;
            summary.add(offset, raw, &parsed);
            if written.is_ok() {
                written = if explain {
                    let unsaid = Unsaid { zone: reading.zone, seen };
                    let path = path.text().into_owned();
                    output.line(Explained { path, offset, text: &raw.text, parsed: &parsed, unsaid })
                } else {
                    output.json(&Shown(&parsed.record))
                };
            }
        };
        let is_more = records.turn(seen, each).map_err(failed)?;
        written?;
        if !is_more {
            return Ok(summary);
        }
    }
}
