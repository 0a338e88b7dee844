//! The command line: one file per command, each with its `Args` and `run`.
//!
//! * `args`: groups of arguments that commands flatten: the data folder, the daemon, the filter, the form of the
//!   output.
//! * `atomic_file`: a file that gets its name once it is whole; `source_file`: a file as its source read it.
//! * `locate`: the configuration and the data folder of a command without options.
//! * `folder`: the data folder of a command that writes: a running daemon, or the folder under its lock.
//! * `control`: the control socket of a running daemon.
//! * `output`: standard output: JSON and tables.
//! * `answer_output`, `pager`, `zone`: the answer of a query on standard output, on a terminal and in a pipe.
//! * [`exit`]: errors, and their exit codes.
//! * `command_reference`: the generated page of all commands.
//!
//! Commands that read open the data folder beside a running daemon or without one. Commands that write ask the running daemon, or
//! take the lock of the folder.

mod adopt;
mod answer_output;
mod archive;
mod asked;
mod args;
mod atomic_file;
mod backup;
mod check;
mod command_reference;
mod complete;
mod completions;
mod config;
mod control;
mod copy;
mod count;
mod doctor;
mod drop;
pub mod exit;
mod export;
mod folder;
mod healthcheck;
mod hint;
mod hosts;
mod import;
mod join;
mod locate;
mod man;
mod mcp;
mod open;
mod output;
mod output_place;
mod pager;
mod parse;
mod plan;
mod query;
mod reload;
mod repair;
mod restore;
mod run;
mod source_file;
mod sources;
mod sql;
mod status;
mod tables;
mod tail;
mod verify;
mod written_places;
mod zone;

pub use exit::{CliError, Exit};

use self::count::quoted;
use self::hint::hint;
use crate::log::LogOptions;
use clap::{CommandFactory, FromArgMatches, Parser, Subcommand};
use daytable_model::did_you_mean::did_you_mean;
use daytable_model::safe_text::{self, SafeLines};
use std::ffi::OsString;
use tracing::level_filters::LevelFilter;

/// Collects log records, stores each day in a table of its own, and drops a whole day at once.
#[derive(Debug, Parser)]
#[command(name = "daytable", version, max_term_width = 100)]
pub struct Cli {
    /// The least severe level of messages on standard error: off, error, warn, info, debug or trace
    #[arg(long, global = true, value_name = "LEVEL")]
    log: Option<LevelFilter>,
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the daemon until SIGTERM or SIGINT
    Run(run::Args),
    /// Show the state of the running daemon on one screen: records, disk, next step, troubles, losses
    Status(status::Args),
    /// Make the running daemon read its configuration again
    Reload(reload::Args),
    /// Check a configuration, and report each problem with its line
    Check(check::Args),
    /// Check for usual mistakes, and say what to do about each
    Doctor(doctor::Args),
    /// Print every key of the configuration with its default
    Config(config::Args),
    /// Print the records of files as NDJSON, to try a format
    Parse(parse::Args),
    /// Load whole files. A file that is loaded already is not loaded again, nor are copies beside it with the names of a rotation
    Import(import::Args),
    /// Continue at the positions of another collector: Promtail, Alloy, Filebeat, Vector, Fluent Bit
    Adopt(adopt::Args),
    /// Print the answer of a query: records or rows
    #[command(aliases = ["search", "ask", "grep"])]
    Query(query::Args),
    /// Print a link to the page, which lets a browser read. The link works once, within five minutes
    Open(open::Args),
    /// Write the answer of a query to a file, or the file again that a source read, byte for byte
    Export(export::Args),
    /// Print records as they are committed
    #[command(aliases = ["follow", "logs"])]
    Tail(tail::Args),
    /// Answer an agent: the Model Context Protocol over standard input and output
    Mcp(mcp::Args),
    /// Count the records of a query by time, level and instance
    Count(count::Args),
    /// Ask in SQL: runs an installed duckdb with a view `logs` of all records
    Sql(sql::Args),
    /// List the day-tables
    Tables(tables::Args),
    /// List the sources with their positions, and the records, bytes and losses of each
    Sources(sources::Args),
    /// Check whether any record was lost: ledgers, tables, archives, and the files that were read
    Verify(verify::Args),
    /// Print the steps of the next run of the lifecycle, with reasons. It changes no data
    Plan(plan::Args),
    /// Seal a day-table now, and archive it
    Archive(archive::Args),
    /// Restore an archived day as a table, for a while
    Restore(restore::Args),
    /// Drop day-tables now, after a question
    Drop(drop::Args),
    /// Copy the data folder as of one moment, beside a running daemon or without one
    Backup(backup::Args),
    /// Copy tables from one store to another, and compare them. Run it again to resume; once complete, it does nothing
    Copy(copy::Args),
    /// Forward the records of this host to another daytable, with a code of `daytable hosts invite` there
    Join(join::Args),
    /// List the daytables that forward to this one, or share its remote store; invite them, and end that
    Hosts(hosts::Args),
    /// Rebuild the catalog from the files of the data folder
    Repair(repair::Args),
    /// Check whether the running daemon is ready. The exit code is 0 if it is
    Healthcheck(healthcheck::Args),
    /// Write the manual pages to a folder
    Man(man::Args),
    /// Print the completions for a shell
    Completions(completions::Args),
    /// Print what a shell offers for an option
    #[command(hide = true)]
    Complete(complete::Args),
}

impl Cli {
    /// Parses the arguments of this process. `--version` prints `version`.
    ///
    /// # Errors
    ///
    /// Wrong arguments. Also the help and the version, if the arguments request them.
    pub fn parse_process(version: &'static str) -> Result<Cli, clap::Error> {
        let mut command = command_reference::with_examples(Cli::command()).long_version(version);
        let arguments: Vec<OsString> = std::env::args_os().collect();
        let parsed = command.try_get_matches_from_mut(&arguments);
        let advised = |error| {
            unknown_option(&command, &arguments)
                .or_else(|| unknown_command(&error))
                .or_else(|| unquoted_query(&command, &arguments, &error))
                .unwrap_or(error)
        };
        let mut matches = parsed.map_err(advised)?;
        Cli::from_arg_matches_mut(&mut matches).map_err(|error| error.format(&mut command))
    }

    /// Runs the command.
    ///
    /// # Errors
    ///
    /// The command failed. [`CliError::exit`] is the exit code of the process.
    pub fn run(self) -> Result<(), CliError> {
        match self.command {
            // The configuration may have the level.
            Command::Run(args) => run::run(args, self.log),
            command => {
                LogOptions { level: self.log.unwrap_or(LevelFilter::WARN), ..LogOptions::default() }.init();
                command.run()
            }
        }
    }
}

/// The error that names the first unknown option of a query, with what was meant. A query may begin with `-`, so clap takes the
/// option for the query, and complains of the next word.
fn unknown_option(command: &clap::Command, arguments: &[OsString]) -> Option<clap::Error> {
    let words: Vec<&str> =
        arguments.iter().skip(1).map_while(|word| word.to_str()).take_while(|word| *word != "--").collect();
    let command = words.iter().find_map(|word| command.find_subcommand(word))?;
    command.get_positionals().find(|positional| positional.is_allow_hyphen_values_set())?;
    let names = || command.get_arguments().filter_map(clap::Arg::get_long).chain(["help"]);
    let aliases = || command.get_arguments().flat_map(|option| option.get_all_aliases().unwrap_or_default());
    let shorts = || {
        let own = command.get_arguments().filter_map(clap::Arg::get_short);
        own.chain(command.get_arguments().flat_map(|option| option.get_all_short_aliases().unwrap_or_default()))
            .chain(['h'])
    };
    let options = words.iter().filter_map(|word| word.strip_prefix("--")?.split('=').next());
    let long = options.into_iter().find(|option| !names().chain(aliases()).any(|name| name == *option));
    let short = words.iter().filter(|word| word.len() == 2).find_map(|word| {
        let letter = word.strip_prefix('-')?.chars().next().filter(char::is_ascii_alphabetic)?;
        (!shorts().any(|known| known == letter) && option_elsewhere(word).is_some()).then_some(*word)
    });
    let (unknown, name) = match (long, short) {
        (Some(name), _) => (format!("--{name}"), name),
        (None, Some(option)) => (option.to_owned(), option),
        (None, None) => return None,
    };
    let tip = match option_elsewhere(name) {
        Some(advice) => format!("\n\n  tip: {advice}"),
        None => did_you_mean(name, &names().collect::<Vec<_>>())
            .map_or_else(String::new, |known| format!("\n\n  tip: a similar argument exists: '--{known}'")),
    };
    let message = format!("unexpected argument '{unknown}' found{tip}\n\nFor more information, try '--help'.\n");
    Some(clap::Error::raw(clap::error::ErrorKind::UnknownArgument, message))
}

/// The error of a command of another program, with what is to be typed here.
fn unknown_command(error: &clap::Error) -> Option<clap::Error> {
    let word = match error.get(clap::error::ContextKind::InvalidSubcommand)? {
        clap::error::ContextValue::String(word) => word.as_str(),
        _ => return None,
    };
    let (_, advice) = COMMANDS_ELSEWHERE.iter().find(|(words, _)| words.contains(&word))?;
    let message =
        format!("unrecognized subcommand '{word}'\n\n  tip: {advice}\n\nFor more information, try '--help'.\n");
    Some(clap::Error::raw(clap::error::ErrorKind::InvalidSubcommand, message))
}

/// The error of a query of several words without quotes, with the quotes.
fn unquoted_query(command: &clap::Command, arguments: &[OsString], error: &clap::Error) -> Option<clap::Error> {
    let Some(clap::error::ContextValue::String(unexpected)) = error.get(clap::error::ContextKind::InvalidArg) else {
        return None;
    };
    let matches = command.clone().ignore_errors(true).try_get_matches_from(arguments).ok()?;
    let (name, matches) = matches.subcommand()?;
    let is_query = |argument: &clap::Arg| argument.get_id() == QUERY;
    command.find_subcommand(name)?.get_positionals().find(|argument| is_query(argument))?;
    let first = matches.get_raw(QUERY)?.next()?.to_str()?;
    let words = arguments.iter().filter_map(|word| word.to_str()).skip_while(|word| word != unexpected);
    let words = std::iter::once(first).chain(words.take_while(|word| !word.starts_with('-')));
    let query = quoted(&words.collect::<Vec<_>>().join(" "));
    let message = format!(
        "unexpected argument '{unexpected}' found\n\n  tip: put the question in quotes: daytable {name} {query}\n\nFor more information, \
         try '--help'.\n"
    );
    Some(clap::Error::raw(clap::error::ErrorKind::UnknownArgument, message))
}

/// The argument that is a query.
const QUERY: &str = "query";

/// Commands of other programs, and what to type here.
const COMMANDS_ELSEWHERE: [(&[&str], &str); 8] = [
    (
        &["stop", "kill", "quit", "shutdown"],
        "the daemon ends as its service does, `systemctl stop daytable`, or by Ctrl-C in its terminal",
    ),
    (
        &["start", "restart", "enable", "serve", "server", "daemon"],
        "the daemon begins as its service does, `systemctl restart daytable`, or by `daytable run`",
    ),
    (&["version"], "the version is `daytable --version`"),
    (&["ls", "list"], "day-tables are listed by `daytable tables`, sources by `daytable sources`"),
    (
        &["rm", "delete", "remove", "purge", "clean"],
        "day-tables are dropped by `daytable drop`; single records never are",
    ),
    (&["find", "filter"], "a text is looked for by `daytable query WORD`"),
    (&["stats", "top", "group"], "groups are a pipe: `daytable query '* | stats by (path) count() n'`"),
    (&["ingest", "load", "add"], "files are read once by `daytable import FILE`, and followed by `daytable run`"),
];

/// Options of grep, journalctl, kubectl and others, and what to write here.
const OPTIONS_ELSEWHERE: [(&[&str], &str); 19] = [
    (&["grep", "match", "-e"], "a text is looked for by --contains TEXT, a pattern by the query '~\"a.*b\"'"),
    (
        &["regex", "regexp", "extended-regexp", "perl-regexp", "-E", "-P"],
        "a pattern is a query: '~\"a.*b\"' of the line, 'path:~\"^/api\"' of a field",
    ),
    (&["ignore-case", "case-insensitive", "-i"], "a word whatever its case is a query: 'i(word)'"),
    (&["invert-match", "exclude", "not", "-v"], "records without a word are a query: '-word'"),
    (
        &["output", "out", "-o"],
        "the form of an answer is --format, and a file is written by `daytable export --output FILE`",
    ),
    (&["csv", "text", "parquet", "ndjson"], "the form of an answer is --format text, json, csv, raw or parquet"),
    (&["count", "-c"], "records are counted by `daytable count`, or by the pipe | count()"),
    (&["by", "group-by", "groupby"], "groups are a pipe: '* | stats by (path) count() n'"),
    (
        &["sort", "order", "order-by", "sort-by"],
        "an order is a pipe: '* | sort by (path desc)'; --reverse has the other one",
    ),
    (&["fields", "columns", "select"], "columns are a pipe: '* | fields time, path'"),
    (&["offset", "skip"], "the first records are left out by a pipe: '* | offset 100'"),
    (&["no-color", "no-colour", "plain"], "colours are left out by --color never"),
    (&["tz", "timezone", "time-zone"], "the zone is the variable TZ, as in TZ=Europe/Berlin daytable …; UTC is --utc"),
    (&["local", "localtime"], "times are of the zone of TZ unless --utc is given"),
    (&["unit", "service", "app", "-u"], "a unit is a field: 'unit:=nginx.service'; a file is --source PATH"),
    (&["namespace", "pod", "container", "label", "selector"], "it is a field: 'pod:=web-1'"),
    (&["facility", "identifier", "-t"], "it is a field: 'process:=sshd'"),
    (&["limit", "lines", "max", "head", "tail", "max-count", "number", "-m", "-l"], "the number of records is -n N"),
    (&["follow", "-f", "-F"], "records are followed by `daytable tail`, or by `daytable query --follow`"),
];

/// What to write for an option of another program.
fn option_elsewhere(name: &str) -> Option<&'static str> {
    OPTIONS_ELSEWHERE.iter().find(|(names, _)| names.contains(&name)).map(|(_, advice)| *advice)
}

/// Prints an error on standard error. Text from outside in the error cannot control the terminal.
pub fn say(error: &CliError) {
    hint(format_args!("daytable: {}", SafeLines(error)));
    if let Some(step) = error.next_step() {
        hint(format_args!("  {}", SafeLines(step)));
    }
}

/// Prints wrong arguments on standard error. Prints the help or the version on standard output, if the arguments
/// request them.
pub fn say_usage(error: &clap::Error) {
    let text = error.render().to_string();
    // The text quotes arguments, which may be file names.
    if error.use_stderr() && text.contains(|c: char| c != '\n' && safe_text::is_unsafe(c)) {
        hint(SafeLines(text.trim_end()));
    } else {
        // A closed pipe has no reader.
        let _ = error.print();
    }
}

impl Command {
    /// Not inlined, so that the memory of a daemon has no pages of this code.
    #[inline(never)]
    fn run(self) -> Result<(), CliError> {
        match self {
            Command::Run(args) => run::run(args, None),
            Command::Status(args) => status::run(&args),
            Command::Reload(args) => reload::run(&args),
            Command::Check(args) => check::run(&args),
            Command::Doctor(args) => doctor::run(&args),
            Command::Config(args) => config::run(&args),
            Command::Parse(args) => parse::run(&args),
            Command::Import(args) => import::run(&args),
            Command::Adopt(args) => adopt::run(&args),
            Command::Query(args) => query::run(args),
            Command::Open(args) => open::run(&args),
            Command::Export(args) => export::run(args),
            Command::Tail(args) => tail::run(args),
            Command::Mcp(args) => mcp::run(&args),
            Command::Count(args) => count::run(args),
            Command::Sql(args) => sql::run(&args),
            Command::Tables(args) => tables::run(&args),
            Command::Sources(args) => sources::run(&args),
            Command::Verify(args) => verify::run(&args),
            Command::Plan(args) => plan::run(&args),
            Command::Archive(args) => archive::run(&args),
            Command::Restore(args) => restore::run(&args),
            Command::Drop(args) => drop::run(&args),
            Command::Backup(args) => backup::run(&args),
            Command::Copy(args) => copy::run(&args),
            Command::Join(args) => join::run(&args),
            Command::Hosts(args) => hosts::run(&args),
            Command::Repair(args) => repair::run(&args),
            Command::Healthcheck(args) => healthcheck::run(&args),
            Command::Man(args) => man::run(&args, Cli::command()),
            Command::Completions(args) => completions::run(&args, command_reference::with_examples(Cli::command())),
            Command::Complete(args) => complete::run(&args),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definition_of_the_commands_is_consistent() {
        Cli::command().debug_assert();
        let about = Cli::command().get_about().map(ToString::to_string).unwrap_or_default();
        assert!(about.starts_with("Collects log records"), "the text of the program, not of a part: {about}");
    }

    #[test]
    fn wrong_arguments_are_refused_before_any_work() {
        for line in [
            "query --since never",
            "query --time-format short",
            "query --json --raw",
            "query --follow --reverse",
            "query --level loud",
            "query -n few",
            "query --key Log20261121/web",
            "adopt --dry-run",
            "count --every 5",
            "drop Log",
            "drop",
            "drop --older-than 90d Log20261121",
            "drop --table Log Log20261121",
            "drop --table Log",
            "drop --bytes 0B",
            "drop --bytes 5GiB Log20261121",
            "run --tail",
            "run --listen here",
            "--log loud tables",
            "archive Log",
            "restore",
            "restore --as Log2026 Log20261121",
            "restore --keep 0s Log20261121",
        ] {
            assert!(Cli::try_parse_from(["daytable"].into_iter().chain(line.split(' '))).is_err(), "{line}");
        }
    }

    #[test]
    fn the_command_lines_of_the_design_are_accepted() {
        for line in [
            "run --config /etc/daytable.toml --data /tmp/d --tail /var/log/*.log --tail /srv/*.log --listen 127.0.0.1:0",
            "check daytable.toml",
            "check --config daytable.toml",
            "config --reference",
            "doctor --data /tmp/d --json",
            "parse a.log b.log",
            "import --data /tmp/d a.log",
            "adopt --data /tmp/d --promtail p.yaml --filebeat registry --vector c.json --fluent-bit flb.db --dry-run",
            "query --data /tmp/d --instance web --since 2h --until now --level warn --contains disk -n 100 --json",
            "query --key Log20261121/web/2516070815998769999-ffffffffffff00000000000000001f3a-fffffffffff8",
            "query --since yesterday -A 2 -B 3 --color never --no-pager --reverse --utc error",
            "query --follow --instance web-* --instance db --format raw",
            "tail --data /tmp/d --level error -n 0 --limit 5",
            "open --data /tmp/d --url https://logs.example --json",
            "count --data /tmp/d --by level,instance --every 5m --json",
            "tables --data /tmp/d --json --log debug",
            "sources --data /tmp/d",
            "verify --data /tmp/d --config daytable.toml --archives --json",
            "drop --data /tmp/d Log20261121",
            "drop --data /tmp/d --without-archive Log20261121",
            "drop --data /tmp/d --older-than 90d --table Log --dry-run",
            "drop --yes Log20261120 Log20261121",
            "drop --bytes 5GiB --dry-run",
            "drop --older-than 0s --table Acme* --bytes 1MiB --yes",
            "archive --data /tmp/d Log20261121",
            "restore --data /tmp/d --as Incident --keep 7d Log20261121",
            "plan --data /tmp/d --json",
            "backup --data /tmp/d --copy /tmp/b",
            "copy --from /tmp/d --to azure:/run/credentials/azure --table Log --since 7d --state /tmp/copy.json",
            "hosts --config daytable.toml --forget web-17-1f3a9c2e77b0d4a6",
            "repair --data /tmp/d",
            "healthcheck --live --timeout 500ms --address 127.0.0.1:7878",
            "status --data /tmp/d --json",
            "reload --data /tmp/d --json",
            "man /tmp/man",
            "completions zsh",
            "complete instances --data /tmp/d",
            "sql --csv select --data /tmp/d",
            "export error --format parquet --output /tmp/a.parquet -n 5",
            "export --raw --source /var/log/app.log",
        ] {
            let parsed = Cli::try_parse_from(["daytable"].into_iter().chain(line.split(' ')));
            assert!(parsed.is_ok(), "{line}: {parsed:?}");
        }
    }
}
