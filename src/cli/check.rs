//! `daytable check`: checks whether a daemon can run with a configuration.

use super::exit::CliError;
use super::locate::{self, load_config};
use super::output::{self, bytes, counted};
use super::written_places::{Unwritten, written_places};
use crate::config::{BlockSummary, Config, FolderBound};
use crate::daemon::{StartFile, StartFileState, start_files};
use daytable_alert::{WouldAlert, preview};
use daytable_intake::tail::TailOptions;
use daytable_model::path_text::PathText;
use daytable_model::time::now;
use daytable_parse::{Zone, host_zone_doubt};
use daytable_query::{Archives, Stores};
use daytable_store::{Reader, StoreError, private_file};
use std::path::PathBuf;

/// What to do about a doubtful zone of the host.
pub(super) const ZONE_ADVICE: &str = "set TZ to a name such as Europe/Paris, or `zone` of the blocks";

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration. Without a file, /etc/daytable/daytable.toml, or the environment and the defaults
    #[arg(value_name = "FILE")]
    file: Option<PathBuf>,
    /// The configuration, as the other commands name it
    #[arg(long, value_name = "FILE", env = "DAYTABLE_CONFIG")]
    config: Option<PathBuf>,
    /// Also evaluate each rule of [[alert]] once, on the records of its last period
    #[arg(long)]
    alerts: bool,
    /// Also ask the remote store and the archives whether they can be written, and can be tables if they are to be. Nothing of it stays there
    #[arg(long)]
    access: bool,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let file = args.file.as_deref().or(args.config.as_deref()).or(locate::installed_file());
    let config = load_config(file)?;
    config.sources.tails.iter().for_each(warn_of_path_fields);
    let unseen = files_of_start(&config)?;
    let (tails, syslogs, tables) = (config.sources.tails.len(), config.sources.syslogs.len(), config.tables.len());
    let file = file.map_or_else(|| "the environment".into(), |path| path.text().into_owned());
    let syslogs = if syslogs > 0 { format!("[[syslog]]: {syslogs}, ") } else { String::new() };
    let rules = config.alert_rules.len();
    let rules = if rules > 0 { format!(", [[alert]]: {rules}") } else { String::new() };
    output::print(format_args!("{file}: good, [[tail]]: {tails}, {syslogs}[[table]]: {tables}{rules}"))?;
    for unseen in unseen {
        output::print(format_args!("warning: {unseen}"))?;
    }
    output::print(format_args!("times without a zone: {}", zones(&config)))?;
    if let Some(doubt) = host_zone_doubt() {
        output::print(format_args!("warning: {doubt}; {ZONE_ADVICE}"))?;
    }
    output::print(format_args!("max_bytes: {}", bound(&config)))?;
    let is_written = identities(&config, args.access);
    if args.alerts {
        evaluate(&config)?;
    }
    is_written
}

/// Refuses what the start of the daemon refuses. Whoever checks need not be who may read the secrets, so it gives the files that this
/// user cannot look at.
fn files_of_start(config: &Config) -> Result<Vec<String>, CliError> {
    private_file::check_folder(&config.data_dir)?;
    let mut unseen = Vec::new();
    for StartFile { key, path, state } in start_files(config) {
        match state {
            StartFileState::Good => {}
            StartFileState::Unseen(error) => {
                unseen.push(format!(
                    "{key}: {}: {error}: this user cannot look whether the daemon starts with it",
                    path.escaped()
                ));
            }
            StartFileState::Refused(error) => return Err(error.into()),
        }
    }
    Ok(unseen)
}

/// Says by whom the remote store and the archives are written, and, if asked, whether that identity may.
fn identities(config: &Config, is_probed: bool) -> Result<(), CliError> {
    let mut failed = Vec::new();
    for place in written_places(config) {
        let writer = match place.writer() {
            Ok(writer) => writer,
            Err(error) if is_probed => {
                failed.push(format!("{}: {error}", place.kind()));
                continue;
            }
            // Whoever checks need not be who may read the secrets: files of systemd's `LoadCredential` are there for the daemon alone.
            Err(error) => {
                output::print(format_args!("warning: {}: {error}", place.kind()))?;
                continue;
            }
        };
        let (kind, address, identity) = (writer.kind, &writer.address, &writer.identity);
        match is_probed.then(|| writer.probe()) {
            None => output::print(format_args!("{kind}: {address}, by {identity}"))?,
            Some(Ok(())) => output::print(format_args!("{kind}: {address}, by {identity}, which may write there"))?,
            Some(Err(Unwritten::Denied(error))) => {
                failed.push(format!("{kind}: {address}: {identity} may not write there: {error}"));
            }
            Some(Err(Unwritten::Unfit(error))) => failed.push(format!("{kind}: {error}")),
            Some(Err(Unwritten::Untold(error))) => {
                failed.push(format!("{kind}: {address}: whether {identity} may write there is not known: {error}"))
            }
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(CliError::Unavailable(failed.join("\n"))) }
}

/// Evaluates each rule once on the data folder, beside a daemon or without one.
fn evaluate(config: &Config) -> Result<(), CliError> {
    let reader = match Reader::open(&config.data_dir) {
        Err(StoreError::NoStore(folder)) => {
            let number = config.alert_rules.len() as u64;
            let (rules, are) = (counted(number, "rule"), if number == 1 { "is" } else { "are" });
            let why = "is no data folder yet, and the first start of a daemon makes it";
            return output::print(format_args!("alerts: {rules} {are} good and not tried: {} {why}", folder.escaped()));
        }
        reader => reader?,
    };
    let archives = Archives::Read(config.archives.clone());
    let (stores, mut failed) = (Stores::local(&reader, &archives), Vec::new());
    for rule in &config.alert_rules {
        match preview(rule, &stores, now()) {
            Ok(groups) if groups.is_empty() => output::print(format_args!("{}: quiet", rule.name))?,
            Ok(groups) => groups.iter().try_for_each(|WouldAlert { labels, value }| {
                output::print(format_args!("{}: would alert{labels}: {value}", rule.name))
            })?,
            Err(error) => failed.push(format!("{}: {error}", rule.name)),
        }
    }
    if failed.is_empty() { Ok(()) } else { Err(CliError::Incomplete(failed.join("\n"))) }
}

/// The local zone, and the sources with another one.
fn zones(config: &Config) -> String {
    let other = |block: BlockSummary<'_>| {
        let zone = block.reading.zone;
        (zone != Zone::Local).then(|| format!("; {} {:?}: {}", block.header, block.name, zone.described()))
    };
    Zone::Local.described() + &config.sources.all().filter_map(other).collect::<String>()
}

/// The bound of the data folder.
fn bound(config: &Config) -> String {
    match (config.lifecycle.max_bytes, config.limits().max_bytes) {
        (_, None) => "off, a full disk stops the intake".into(),
        (FolderBound::Auto, Some(limit)) => {
            format!("{}, a fifth of the disk of {}", bytes(limit), config.data_dir.escaped())
        }
        (_, Some(limit)) => bytes(limit),
    }
}

/// Warns of a pattern of fields that matches no file of its block.
fn warn_of_path_fields(tail: &TailOptions) {
    let Some(pattern) = &tail.fields_from_path else { return };
    if !tail.include.iter().any(|include| pattern.may_match(include)) {
        tracing::warn!(
            tail = tail.name,
            fields_from_path = %pattern,
            "no file of include can match this pattern, so its fields are never added: write the paths of include"
        );
    }
}
