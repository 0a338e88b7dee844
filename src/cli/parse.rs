//! `daytable parse`: prints the records of files as JSON, one object per record, to try a format. It stores no data.
//!
//! The records are those of a daemon with the same bytes. Secrets are replaced as in the configuration.
//!
//! * `input`: plain and compressed files. `journal_export`: entries of the journal. `parsed_record`: a record as JSON.
//!   `explain`: the bytes of each part. `summary`: the recognized format of a file, on standard error if that is a
//!   terminal.

mod explain;
mod input;
mod journal_export;
mod parsed_record;
mod summary;

use super::exit::CliError;
use super::hint::hint;
use super::locate::{self, load_named_config};
use super::output::Output;
use crate::config::Config;
use daytable_intake::tail::{PathPatterns, TailOptions};
use daytable_model::path_text::PathText;
use daytable_model::time::{Ticks, now};
use daytable_parse::{FormatChoice, Parsed, RawRecord, Records, TimestampDefaults};
use explain::Explanation;
use parsed_record::ParsedRecord;
use std::fs::File;
use std::io::{self, BufRead, BufReader, IsTerminal};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};
use summary::ParseSummary;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// Text files, plain or compressed with gzip or zstd; - is standard input
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// The format of the lines: auto, the name of a format, regex:PATTERN or grok:PATTERN
    #[arg(long, value_name = "FORMAT", value_parser = super::args::format)]
    format: Option<String>,
    /// Parse each file like the first [[tail]] block of this configuration that includes the file. Without it, /etc/daytable/daytable.toml
    #[arg(long, value_name = "FILE", env = "DAYTABLE_CONFIG")]
    config: Option<PathBuf>,
    /// Print each record with the bytes of its parts
    #[arg(long)]
    explain: bool,
    /// Print the recognized format of each file on standard error at the end, as on a terminal
    #[arg(long)]
    summary: bool,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let config = load_config_to_parse(args)?;
    let mut output = Output::new();
    let mut summaries = Vec::new();
    for path in &args.files {
        let mut options = options(config.as_ref(), path);
        if let Some(format) = &args.format {
            // The command line accepts only formats that can be set.
            options.reading.set_format(format).map_err(|error| CliError::Unavailable(error.to_string()))?;
        }
        summaries.push((path, read(path, options, args.explain, &mut output)?));
    }
    output.flush()?;
    if args.summary || io::stderr().is_terminal() {
        for (path, summary) in summaries {
            hint(format_args!("{}: {summary}", daytable_model::safe_text::SafeLine(&path.text())));
        }
    }
    Ok(())
}

/// The named configuration, or the installed one if this user can read it and it includes a file.
fn load_config_to_parse(args: &Args) -> Result<Option<Config>, CliError> {
    if args.config.is_some() {
        return Ok(load_named_config(args.config.as_deref())?);
    }
    let installed = locate::installed_file().and_then(|_| locate::config().ok());
    let is_followed = |path: &PathBuf, config: &Config| {
        let absolute = std::path::absolute(path).unwrap_or_else(|_| path.clone());
        config.sources.tails.iter().any(|block| includes(block, &absolute))
    };
    Ok(installed.filter(|config| args.files.iter().any(|path| is_followed(path, config))))
}

/// A regular file, its length, and when it was written last.
fn time_of_file(path: &Path) -> Option<(File, u64, Ticks)> {
    let file = File::open(path).ok()?;
    let metadata = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    let written = Ticks::from_unix(metadata.mtime(), u32::try_from(metadata.mtime_nsec()).ok()?)?;
    Some((file, metadata.len(), written))
}

/// The first block that includes a file, or the defaults.
fn options(config: Option<&Config>, path: &Path) -> TailOptions {
    let default = TailOptions::new("", Vec::new());
    let Some(config) = config else { return default };
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    match config.sources.tails.iter().find(|block| includes(block, &absolute)) {
        Some(block) => block.clone(),
        None => {
            tracing::warn!(path = %path.escaped(), "no [[tail]] block includes this file: daytable parses it with the defaults");
            TailOptions { reading: config.reading(), ..default }
        }
    }
}

fn includes(block: &TailOptions, path: &Path) -> bool {
    PathPatterns::new(block).is_ok_and(|patterns| patterns.includes(path))
}

fn read(path: &Path, options: TailOptions, explain: bool, output: &mut Output) -> Result<ParseSummary, CliError> {
    let failed = |source| CliError::Input { path: path.to_owned(), source };
    let zone = options.reading.zone;
    let mut input = BufReader::new(input::open(path).map_err(failed)?);
    let is_automatic = options.reading.format == FormatChoice::Auto && options.reading.explicit.is_none();
    if is_automatic && journal_export::is_export(input.fill_buf().map_err(failed)?) {
        return journal_export::read(input, options.reading, options.line_bytes_max, output, failed);
    }
    let written = time_of_file(path);
    let reading = options.reading.clone();
    let mut records = Records::new(input, options.reading, options.line_bytes_max);
    if let Some((file, length, written)) = written {
        let read_at = |offset: u64, buffer: &mut [u8]| file.read_at(buffer, offset);
        records.profile_mut().begin_file(length, written, &reading, read_at).map_err(failed)?;
    }
    let order = records.profile().date_order();
    let mut summary = ParseSummary::default();
    loop {
        let seen = now();
        let mut written = Ok(());
        let each = |offset: u64, raw: &RawRecord<'_>, parsed: Parsed<'_>| {
            let offset = offset + raw.start as u64;
            summary.add(offset, raw, &parsed);
            if written.is_ok() {
                written = if explain {
                    let defaults = TimestampDefaults { zone, seen, order };
                    let path = path.text().into_owned();
                    output.line(Explanation { path, offset, text: &raw.text, parsed: &parsed, defaults })
                } else {
                    output.json(&ParsedRecord(&parsed.record))
                };
            }
        };
        let is_more = records.turn(seen, each).map_err(failed)?;
        written?;
        if !is_more {
            summary.note_time(records.profile());
            return Ok(summary);
        }
    }
}
