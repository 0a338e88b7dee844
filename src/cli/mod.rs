//! The command line: one file a command.
//!
//! * `args`: what several commands take: the data folder, the filter.
//! * [`exit`]: what goes wrong, and the exit code it ends in.
//! * `output`: standard output: records, JSON, tables; what it does on a terminal and in a pipe.
//! * `version`: what `--version` says.
//! * `working`: what commands share that have a day sealed, archived or restored.
//! * `control`: the socket of a running daemon, for commands that write.
//!
//! Commands that read open the data folder themselves, whether a daemon runs on it or not. Commands that write ask the
//! daemon where one runs, and take the folder's lock where none does.

mod adopt;
mod archive;
mod args;
mod backup;
mod check;
mod command_reference;
mod completions;
mod config;
mod control;
mod copy;
mod count;
mod doctor;
mod drop;
pub mod exit;
mod healthcheck;
#[cfg(feature = "azure")]
mod hosts;
mod import;
mod man;
mod output;
mod parse;
mod plan;
mod query;
mod reload;
mod repair;
mod restore;
mod run;
mod sources;
#[cfg(feature = "azure")]
mod stress;
mod tables;
mod tail;
mod verify;
mod working;

pub use exit::{CliError, Exit};

use crate::log;
use crate::log::LogFormat;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use daytable_model::safe_text::{self, SafeLines};
use tracing::level_filters::LevelFilter;

/// Takes log records in, keeps each day in a table of its own, and lets a day go with one drop.
#[derive(Debug, Parser)]
#[command(name = "daytable", version, max_term_width = 100)]
pub struct Cli {
    /// What is logged to standard error: off, error, warn, info, debug or trace
    #[arg(long, global = true, value_name = "LEVEL")]
    log: Option<LevelFilter>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon until it is told to stop
    Run(run::Args),
    #[command(flatten)]
    Errand(Errand),
}

/// What is no daemon: it does one thing, and ends.
#[derive(Debug, Subcommand)]
enum Errand {
    /// Have the running daemon read its configuration again
    Reload(reload::Args),
    /// Say what is wrong with a configuration, with the line
    Check(check::Args),
    /// Look for the usual mistakes, and say what to do about each
    Doctor(doctor::Args),
    /// Print every key of the configuration with its default
    Config(config::Args),
    /// Show the records of files as NDJSON, to try a format
    Parse(parse::Args),
    /// Load whole files; what is there already is not loaded again
    Import(import::Args),
    /// Begin where another collector stopped: Promtail, Alloy, Filebeat, Vector, Fluent Bit
    Adopt(adopt::Args),
    /// Show records, newest first
    Query(query::Args),
    /// Show records as they are committed
    Tail(tail::Args),
    /// Count records by time, level and instance
    Count(count::Args),
    /// List the day-tables
    Tables(tables::Args),
    /// List the sources: how far each was read, and what became of its bytes
    Sources(sources::Args),
    /// Say whether anything was lost: the ledger, the tables, the archives, the files that were read
    Verify(verify::Args),
    /// Say what the next run of the lifecycle would do and why; changes nothing
    Plan(plan::Args),
    /// Seal and archive a day-table now
    Archive(archive::Args),
    /// Bring an archived day back as a table, for a while
    Restore(restore::Args),
    /// Drop a day-table
    Drop(drop::Args),
    /// Copy the data folder as it is at one moment, while the daemon runs or when it does not
    Backup(backup::Args),
    /// Offer a peak load to the remote store: how much it takes, and how many buckets an instance needs
    #[cfg(feature = "azure")]
    Stress(stress::Args),
    /// Copy tables from one store to another, and compare them; again goes on, and is a no-op in the end
    Copy(copy::Args),
    /// List the daytables that share a remote store, or forget one that is gone
    #[cfg(feature = "azure")]
    Hosts(hosts::Args),
    /// Rebuild the catalog from the files of the data folder
    Repair(repair::Args),
    /// Ask the running daemon whether it is ready; exit 0 if it is
    Healthcheck(healthcheck::Args),
    /// Write the manual pages to a folder
    Man(man::Args),
    /// Print what a shell completes
    Completions(completions::Args),
}

impl Cli {
    /// What the arguments of this process say. `version` is what `--version` prints.
    ///
    /// # Errors
    ///
    /// What is wrong with them; also the help and the version, where those are asked for.
    pub fn of_this_process(version: &'static str) -> Result<Cli, clap::Error> {
        let mut command = Cli::command().long_version(version);
        let mut matches = command.try_get_matches_from_mut(std::env::args_os())?;
        Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
    }

    /// Does what was asked for.
    ///
    /// # Errors
    ///
    /// Whatever keeps it from being done; [`CliError::exit`] is what the process ends with.
    pub fn run(self) -> Result<(), CliError> {
        match self.command {
            // Its level may stand in its configuration.
            Command::Run(args) => run::run(args, self.log),
            Command::Errand(errand) => {
                log::init(self.log.unwrap_or(LevelFilter::WARN), LogFormat::Auto);
                errand.run()
            }
        }
    }
}

/// Says on standard error why a command failed. What the error quotes of others commands no terminal.
pub fn say(error: &CliError) {
    eprintln!("daytable: {}", SafeLines(error));
}

/// Says what is wrong with the arguments; or the help or the version, where those were asked for, on standard output.
pub fn say_usage(error: &clap::Error) {
    let text = error.render().to_string();
    // It quotes the arguments, which may be names of files.
    if error.use_stderr() && text.contains(|c: char| c != '\n' && safe_text::is_unsafe(c)) {
        eprint!("{}", SafeLines(text));
    } else {
        // Where nobody reads it, nobody misses it.
        let _ = error.print();
    }
}

impl Errand {
    /// Apart from the daemon, whose memory is to have none of this code.
    #[inline(never)]
    fn run(self) -> Result<(), CliError> {
        match self {
            Errand::Reload(args) => reload::run(args),
            Errand::Check(args) => check::run(&args),
            Errand::Doctor(args) => doctor::run(args),
            Errand::Config(args) => config::run(&args),
            Errand::Parse(args) => parse::run(&args),
            Errand::Import(args) => import::run(&args),
            Errand::Adopt(args) => adopt::run(&args),
            Errand::Query(args) => query::run(args),
            Errand::Tail(args) => tail::run(args),
            Errand::Count(args) => count::run(args),
            Errand::Tables(args) => tables::run(&args),
            Errand::Sources(args) => sources::run(&args),
            Errand::Verify(args) => verify::run(&args),
            Errand::Plan(args) => plan::run(&args),
            Errand::Archive(args) => archive::run(&args),
            Errand::Restore(args) => restore::run(&args),
            Errand::Drop(args) => drop::run(&args),
            Errand::Backup(args) => backup::run(&args),
            #[cfg(feature = "azure")]
            Errand::Stress(args) => stress::run(&args),
            Errand::Copy(args) => copy::run(&args),
            #[cfg(feature = "azure")]
            Errand::Hosts(args) => hosts::run(&args),
            Errand::Repair(args) => repair::run(&args),
            Errand::Healthcheck(args) => healthcheck::run(&args),
            Errand::Man(args) => man::run(&args),
            Errand::Completions(args) => completions::run(&args),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_commands_do_not_contradict_themselves() {
        Cli::command().debug_assert();
        let about = Cli::command().get_about().map(ToString::to_string).unwrap_or_default();
        assert!(about.starts_with("Takes log records in"), "the program's own words, and no part's: {about}");
    }

    #[test]
    fn what_is_written_wrong_is_refused_before_anything_is_done() {
        for line in [
            "query --since yesterday",
            "query --level loud",
            "query -n few",
            "query --key Log20261121/web",
            "adopt --dry-run",
            "count --every 5",
            "count --by colour",
            "drop Log",
            "drop",
            "run --tail",
            "run --listen here",
            "--log loud tables",
            "archive Log",
            "restore",
            "restore --as Log2026 Log20261121",
            "restore --keep 0s Log20261121",
            "stress --peak 0",
            "stress --for 2h",
        ] {
            assert!(Cli::try_parse_from(["daytable"].into_iter().chain(line.split(' '))).is_err(), "{line}");
        }
    }

    #[test]
    fn what_the_design_shows_is_taken() {
        for line in [
            "run --config /etc/daytable.toml --data /tmp/d --tail /var/log/*.log --tail /srv/*.log --listen 127.0.0.1:0",
            "check --config daytable.toml",
            "config --reference",
            "doctor --data /tmp/d --json",
            "parse a.log b.log",
            "import --data /tmp/d a.log",
            "adopt --data /tmp/d --promtail p.yaml --filebeat registry --vector c.json --fluent-bit flb.db --dry-run",
            "query --data /tmp/d --instance web --since 2h --until now --level warn --contains disk -n 100 --json",
            "query --key Log20261121/web/2516070815998769999-0000000000001f3a-fffffffffff8",
            "tail --data /tmp/d --level error",
            "count --data /tmp/d --by level,instance --every 5m --json",
            "tables --data /tmp/d --json --log debug",
            "sources --data /tmp/d",
            "verify --data /tmp/d --config daytable.toml --archives --json",
            "drop --data /tmp/d Log20261121",
            "drop --data /tmp/d --without-archive Log20261121",
            "archive --data /tmp/d Log20261121",
            "restore --data /tmp/d --as Incident --keep 7d Log20261121",
            "plan --data /tmp/d --json",
            "backup --data /tmp/d --copy /tmp/b",
            "copy --from /tmp/d --to azure:/run/credentials/azure --table Log --since 7d --state /tmp/copy.json",
            "hosts --config daytable.toml --forget web-17-1f3a9c2e77b0d4a6",
            "stress --config daytable.toml --peak 20000 --for 10s --partitions 32 --json",
            "repair --data /tmp/d",
            "healthcheck --live --timeout 500ms --address 127.0.0.1:7878",
            "reload --data /tmp/d --json",
            "man /tmp/man",
            "completions zsh",
        ] {
            let parsed = Cli::try_parse_from(["daytable"].into_iter().chain(line.split(' ')));
            assert!(parsed.is_ok(), "{line}: {parsed:?}");
        }
    }
}
