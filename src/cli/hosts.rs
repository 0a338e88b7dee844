//! `daytable hosts`: the daytables that forward to this one, and those that share its remote store; who may forward.

use super::args::{DataArgs, JsonArgs};
use super::control::Control;
use super::exit::CliError;
use super::hint::hint;
use super::join::{DROP_IN, is_local};
use super::locate::{Located, config_of, connect, load_named_config, no_daemon};
use super::output::{Output, TextTable, bytes, counted};
use crate::config::{Config, HostsConfig, Listen};
use crate::http::{HostLine, InviteLine};
use clap::Subcommand;
use daytable_forward::intake::{ListedHost, invite};
use daytable_model::safe_text::{SafeLines, percent_encoded};
use daytable_model::units::{ByteSize, UnitError, parse_duration, show_duration};
use daytable_store::{Reader, Store, StoreError, StoreOptions};
use std::path::{Path, PathBuf};
use std::time::Duration;

#[derive(Debug, clap::Args)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(super) struct Args {
    #[command(subcommand)]
    command: Option<HostsCommand>,
    #[command(flatten)]
    data: DataArgs,
    /// The configuration, whose data folder is meant unless --data names it, and whose remote store may be shared
    #[arg(long, value_name = "FILE", env = "DAYTABLE_CONFIG")]
    config: Option<PathBuf>,
    /// Forget this daytable of a shared remote store, and stop waiting for the rows in its outbox
    #[arg(long, value_name = "NAME")]
    forget: Option<String>,
    #[command(flatten)]
    output: JsonArgs,
}

#[derive(Debug, Subcommand)]
enum HostsCommand {
    /// Print the command that a host runs to forward to this daytable. Its code works once, for ten minutes
    Invite(InviteArgs),
    /// Print the command that hosts of a pattern run to forward to this daytable. Its code works again, until it expires
    Enrol(EnrolArgs),
    /// Print what was lost on the hosts, or on one of them, and what of theirs was too late here: each reason with its number
    Losses(LossesArgs),
    /// End the credentials of a host at once. Its records stay
    Revoke(NameArgs),
    /// End the credentials of a host, and take it off the list. Its records stay
    Forget(NameArgs),
}

#[derive(Debug, clap::Args)]
struct InviteArgs {
    /// The name of the host: the field log_host of its records
    #[arg(value_name = "NAME")]
    name: String,
    /// The tables here that the host may write, as in Log 'Audit*'. Without it, all
    #[arg(long, value_name = "PATTERN", num_args = 1.., value_delimiter = ',')]
    tables: Vec<String>,
    /// The address of this daytable as the host sees it, where it is not that of the listener
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    #[command(flatten)]
    data: DataArgs,
}

#[derive(Debug, clap::Args)]
struct EnrolArgs {
    /// The pattern of the names, as in 'node-*'
    #[arg(value_name = "PATTERN")]
    pattern: String,
    /// How long the code works
    #[arg(long, value_name = "DURATION", value_parser = life)]
    expires: Duration,
    /// The tables here that the hosts may write, as in Log 'Audit*'. Without it, all
    #[arg(long, value_name = "PATTERN", num_args = 1.., value_delimiter = ',')]
    tables: Vec<String>,
    /// The address of this daytable as the hosts see it, where it is not that of the listener
    #[arg(long, value_name = "URL")]
    url: Option<String>,
    #[command(flatten)]
    data: DataArgs,
}

#[derive(Debug, clap::Args)]
struct NameArgs {
    /// The name of the host
    #[arg(value_name = "NAME")]
    name: String,
    #[command(flatten)]
    data: DataArgs,
}

#[derive(Debug, clap::Args)]
struct LossesArgs {
    /// The name of the host. Without it, all hosts
    #[arg(value_name = "NAME")]
    name: Option<String>,
    #[command(flatten)]
    data: DataArgs,
    #[command(flatten)]
    output: JsonArgs,
}

fn life(text: &str) -> Result<Duration, UnitError> {
    parse_duration(text)
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    match &args.command {
        Some(HostsCommand::Invite(InviteArgs { name, tables, url, data })) => {
            print_invitation(data, (name, tables, None), url.as_deref())
        }
        Some(HostsCommand::Enrol(EnrolArgs { pattern, expires, tables, url, data })) => {
            print_invitation(data, (pattern, tables, Some(*expires)), url.as_deref())
        }
        Some(HostsCommand::Losses(args)) => losses(args),
        Some(HostsCommand::Revoke(args)) => change(args, "revoke"),
        Some(HostsCommand::Forget(args)) => change(args, "forget"),
        None => list(args),
    }
}

/// Asks the daemon, or writes to the folder of none.
fn print_invitation(
    data: &DataArgs,
    (name, tables, life): (&str, &[String], Option<Duration>),
    url: Option<&str>,
) -> Result<(), CliError> {
    let data_dir = data.dir();
    let invited = match Control::connect(&data_dir)? {
        Some(control) => {
            let seconds = life.map_or_else(String::new, |life| format!("&seconds={}", life.as_secs()));
            let mut target = format!("/-/hosts/invite?name={}{seconds}", percent_encoded(name));
            if !tables.is_empty() {
                target.push_str(&format!("&tables={}", percent_encoded(&tables.join(","))));
            }
            control.post(&target, "")?.only::<InviteLine>("it has no code")?
        }
        None => {
            let code = offline(&data_dir, |store| {
                invite(&store.forwarding(), name, tables, life)
                    .map_err(|error| CliError::Unavailable(error.to_string()))
            })?;
            InviteLine { url: config_of(&data_dir).and_then(|config| address(&config)), code }
        }
    };
    let Some(url) = url.map(str::to_owned).or(invited.url) else {
        let reason = "this daytable has no listener for hosts: set `listen` of [http], or name its address by --url";
        return Err(CliError::Unavailable(reason.into()));
    };
    let mut output = Output::new();
    output.line(format_args!("daytable join {} {}", url.trim_end_matches('/'), invited.code))?;
    output.flush()?;
    if url.contains("://127.") || url.contains("://localhost") {
        hint(format_args!(
            "  other hosts do not see this address: set `listen` and `tls` of [http], or name another one by --url"
        ));
    }
    if !is_local(&url) {
        hint(format_args!("{DROP_IN}"));
    }
    Ok(())
}

/// The address of the listener of a configuration.
fn address(config: &Config) -> Option<String> {
    let Listen::Tcp(address) = config.http.listen else { return None };
    let scheme = if config.http.tls.is_some() { "https" } else { "http" };
    match address.ip().is_loopback() {
        true => Some(format!("{scheme}://{address}")),
        false => Some(format!("{scheme}://{}:{}", daytable_platform::host::name(), address.port())),
    }
}

/// Works on a folder without a daemon.
fn offline<T>(data_dir: &Path, work: impl FnOnce(&Store) -> Result<T, CliError>) -> Result<T, CliError> {
    // Opening to write would create an absent folder.
    drop(Reader::open(data_dir)?);
    let store = Store::open(data_dir, StoreOptions::default())?;
    let result = work(&store);
    store.close()?;
    result
}

fn change(args: &NameArgs, what: &str) -> Result<(), CliError> {
    let (data_dir, name) = (args.data.dir(), &args.name);
    let is_changed = match Control::connect(&data_dir)? {
        Some(control) => match control.post(&format!("/-/hosts/{what}?name={}", percent_encoded(name)), "") {
            Ok(_) => true,
            Err(super::control::ControlError::Refused { status: 404, .. }) => false,
            Err(error) => return Err(error.into()),
        },
        None => offline(&data_dir, |store| {
            let steps = store.forwarding();
            Ok(if what == "revoke" { steps.revoke(name)? } else { steps.forget(name)? })
        })?,
    };
    if !is_changed {
        return Err(CliError::NotFound(format!("the host {name}")));
    }
    let mut output = Output::new();
    match what {
        "revoke" => output.line(format_args!("{name} can no longer forward: its credentials are revoked"))?,
        _ => output.line(format_args!("forgot {name}"))?,
    }
    output.flush()
}

fn list(args: &Args) -> Result<(), CliError> {
    let mut output = Output::new();
    if args.forget.is_some() {
        return shared(args, load_named_config(args.config.as_deref())?.as_ref(), &mut output);
    }
    let Located { data_dir, named: config, is_wrong } = args.data.located(args.config.as_deref())?;
    if is_wrong {
        hint("  daytables that share a remote store with this one, if any, are not listed");
    }
    let is_running = !matches!(connect(&data_dir, config.as_ref()), Ok(None));
    let hosts = hosts(&data_dir, config.as_ref());
    match hosts {
        Ok(hosts) => {
            if !is_running && !hosts.is_empty() {
                hint(format_args!("daytable: {}. The list is as of its end", SafeLines(no_daemon(&data_dir))));
            }
            for host in &hosts {
                if args.output.json {
                    output.json(host)?;
                } else {
                    output.line(shown(host, namesakes(&hosts, host), is_running))?;
                }
            }
            let is_shared = config.as_ref().is_some_and(|config| config.store.remote().is_some());
            if hosts.is_empty() && !is_shared && !args.output.json {
                output.flush()?;
                hint(format_args!("  no host forwards here: `daytable hosts invite NAME` prints the command for one"));
            }
        }
        // The folder of a shared store may be on another host.
        Err(CliError::Store(StoreError::NoStore(_))) if config.is_some() => {}
        Err(error) => return Err(error),
    }
    if config.as_ref().is_some_and(|config| config.store.remote().is_some()) {
        shared(args, config.as_ref(), &mut output)?;
    } else if args.config.is_some() && args.forget.is_some() {
        return Err(CliError::Unavailable("the store of this configuration is not shared".into()));
    }
    output.flush()
}

/// The hosts that forward to a data folder, by its daemon or by its catalog.
pub(super) fn hosts(data_dir: &Path, named: Option<&Config>) -> Result<Vec<HostLine>, CliError> {
    if let Some(control) = connect(data_dir, named)? {
        return Ok(control.fetch("/-/hosts")?.all("it has no hosts")?);
    }
    let hosts = Reader::open(data_dir)?.catalog().forwarding_hosts()?;
    let installed = config_of(data_dir);
    let silent_after =
        named.or(installed.as_ref()).map_or(HostsConfig::default().silent_after, |config| config.hosts.silent_after);
    Ok(hosts.into_iter().map(|host| HostLine::new(&ListedHost::new(host, None), silent_after)).collect())
}

/// Other folders that forward under the name of this one.
pub(super) fn namesakes(hosts: &[HostLine], host: &HostLine) -> usize {
    let is_namesake = |other: &&HostLine| {
        other.host == host.host && other.origin.is_some() && other.origin != host.origin && !other.revoked
    };
    if host.origin.is_none() || host.revoked { 0 } else { hosts.iter().filter(is_namesake).count() }
}

/// A reason for which records of a host are not here.
#[derive(serde::Serialize)]
struct LossRow<'h> {
    host: &'h str,
    origin: Option<&'h str>,
    reason: &'h str,
    #[serde(skip_serializing_if = "Option::is_none")]
    records: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
}

/// Of records that came when their day was gone here.
const EXPIRED: &str = "refused here, because their day is gone here";

fn loss_rows(host: &HostLine) -> Vec<LossRow<'_>> {
    let row =
        |reason, records, bytes| LossRow { host: &host.host, origin: host.origin.as_deref(), reason, records, bytes };
    let records = host.lost.iter().map(|(reason, count)| row(reason, Some(*count), None));
    let bytes = host.lost_bytes.iter().map(|(reason, count)| row(reason, None, Some(*count)));
    let expired = (host.expired > 0).then(|| row(EXPIRED, Some(host.expired), None));
    records.chain(bytes).chain(expired).collect()
}

fn losses(args: &LossesArgs) -> Result<(), CliError> {
    let hosts = hosts(&args.data.dir(), None)?;
    let is_meant = |host: &&HostLine| args.name.as_ref().is_none_or(|name| host.host == *name);
    let meant: Vec<&HostLine> = hosts.iter().filter(is_meant).collect();
    if let (Some(name), true) = (&args.name, meant.is_empty()) {
        return Err(CliError::NotFound(format!("the host {name}")));
    }
    let rows: Vec<LossRow<'_>> = meant.into_iter().flat_map(loss_rows).collect();
    let mut output = Output::new();
    if args.output.json {
        rows.iter().try_for_each(|row| output.json(row))?;
    } else if rows.is_empty() {
        output.line("nothing was lost, as far as the hosts have said")?;
    } else {
        output.line(TextTable::new(["host", "records", "bytes", "reason"], &["records", "bytes"], &rows, |row| {
            let records = row.records.map(|count| count.to_string()).unwrap_or_default();
            [row.host.to_owned(), records, row.bytes.map(bytes).unwrap_or_default(), row.reason.to_owned()]
        }))?;
    }
    output.flush()
}

fn shown(host: &HostLine, namesakes: usize, is_running: bool) -> String {
    let HostLine { host: name, seen, silent_seconds, records, behind_records, behind_bytes, behind_seconds, .. } = host;
    let tables = match host.tables.as_slice() {
        [] => String::new(),
        patterns => format!("  may write {}", patterns.join(", ")),
    };
    if host.origin.is_none() {
        return format!("{name}  forwards: invited, and not heard of yet{tables}");
    }
    let seen = seen.as_deref().unwrap_or("never");
    // Before all numbers, because they are of the time when it was heard of last.
    let silent = match (host.silent, silent_seconds) {
        (true, Some(seconds)) => format!("silent for {}  ", show_duration(Duration::from_secs(*seconds))),
        _ => String::new(),
    };
    let is_past = host.silent || !is_running;
    let behind = match behind_records {
        0 if is_past => "behind by nothing when it was heard of last".to_owned(),
        0 => "behind by nothing".to_owned(),
        _ => format!(
            "behind by {}, {}, {}{}{}",
            counted(*behind_records, "record"),
            ByteSize::new(*behind_bytes),
            show_duration(Duration::from_secs(*behind_seconds)),
            if host.backlog_records > 0 { " (the newest are here, the backlog follows)" } else { "" },
            if is_past { " when it was heard of last" } else { "" },
        ),
    };
    let (lost, lost_bytes): (u64, u64) = (host.lost.values().sum(), host.lost_bytes.values().sum());
    let lost = match lost_bytes {
        0 => lost.to_string(),
        _ => format!("{}, {} (`daytable hosts losses {name}`)", counted(lost, "record"), ByteSize::new(lost_bytes)),
    };
    let mut line = format!(
        "{name}  {silent}forwards: seen {seen}  {}  {behind}  lost there {lost}  version {}",
        counted(*records, "record"),
        host.version
    );
    if namesakes > 0 {
        let origin = host.origin.as_deref().unwrap_or_default();
        line.push_str(&format!("  one of {} hosts of this name, its origin is {origin}", namesakes + 1));
    }
    if host.expired > 0 {
        line.push_str(&format!("  too late {}", host.expired));
    }
    line.push_str(&tables);
    if let Some(table) = &host.refused_table {
        let requests = counted(host.refused_requests, "request");
        line.push_str(&format!("  refused {requests}, the last one with records for {table}"));
    }
    if host.revoked {
        line.push_str("  revoked");
    }
    line
}

/// The daytables that share a remote store, by their own reports.
#[cfg(feature = "azure")]
fn shared(args: &Args, config: Option<&Config>, output: &mut Output) -> Result<(), CliError> {
    use crate::remote::{BucketStatus, QUERY_PATIENCE, RemoteError, account_options};
    use daytable_remote::shared::Notes;
    use daytable_remote::tables::AzureTables;
    use daytable_remote::tables::connect::account;
    use std::collections::BTreeMap;

    /// One daytable.
    #[derive(serde::Serialize)]
    struct HostRow {
        host: String,
        /// What tells it from a host that forwards.
        shares_account: bool,
        seen: String,
        holds: BTreeMap<String, String>,
        /// Instances with more partitions than configured.
        spread: Vec<BucketStatus>,
    }

    let Some(remote) = config.and_then(|config| config.store.remote()) else {
        return Err(CliError::Unavailable("the store of this configuration is not shared".into()));
    };
    let account = account(&account_options(&remote.account)).map_err(RemoteError::from)?;
    let tables = AzureTables::new(account, QUERY_PATIENCE)?;
    let notes = Notes(&tables);
    if let Some(host) = &args.forget {
        if !notes.forget_host(host)? {
            return Err(CliError::NotFound(host.clone()));
        }
        output.line(format_args!("forgot {host}"))?;
        return output.flush();
    }
    let steps = notes.all_steps()?;
    for host in notes.hosts()? {
        let of_host = steps.iter().filter(|steps| steps.host == host.id);
        let spread: Vec<BucketStatus> = of_host.map(|steps| BucketStatus::new(&steps.planned)).collect();
        let seen = host.seen.to_string();
        let holds: BTreeMap<String, String> =
            host.holds.iter().map(|(name, oldest)| (name.to_string(), oldest.to_string())).collect();
        if args.output.json {
            output.json(&HostRow { host: host.id, shares_account: true, seen, holds, spread })?;
            continue;
        }
        let holds: Vec<String> = holds.iter().map(|(name, oldest)| format!("{name} from {oldest} on")).collect();
        let holds = if holds.is_empty() { "nothing".into() } else { holds.join(", ") };
        output.line(format_args!("{}  shares the account: seen {seen}  its outbox holds {holds}", host.id))?;
        for BucketStatus { table, instance, buckets, from } in spread {
            output.line(format_args!("  {instance} is spread over {buckets} partitions of {table} from {from} on"))?;
        }
    }
    output.flush()
}

#[cfg(not(feature = "azure"))]
fn shared(_args: &Args, _config: Option<&Config>, _output: &mut Output) -> Result<(), CliError> {
    Err(CliError::Unavailable("this daytable was built without remote stores".into()))
}
