//! `daytable hosts`: lists the daytables that share a remote store, by their own reports.

use super::args::JsonArgs;
use super::exit::CliError;
use super::locate::load_config;
use super::output::Output;
use crate::remote::{BucketStatus, QUERY_PATIENCE, RemoteError};
use daytable_remote::shared::Notes;
use daytable_remote::tables::AzureTables;
use daytable_remote::tables::connect::account;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::PathBuf;

#[derive(Debug, clap::Args)]
pub(super) struct Args {
    /// The configuration with the remote store
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Forget this daytable, and stop waiting for the rows in its outbox
    #[arg(long, value_name = "NAME")]
    forget: Option<String>,
    #[command(flatten)]
    output: JsonArgs,
}

/// One daytable.
#[derive(Serialize)]
struct HostRow {
    host: String,
    seen: String,
    holds: BTreeMap<String, String>,
    /// Instances with more partitions than configured.
    spread: Vec<BucketStatus>,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let config = load_config(Some(&args.config))?;
    let Some(remote) = config.store.remote() else {
        return Err(CliError::Unavailable("the store of this configuration is not shared".into()));
    };
    let account = account(remote.connection_string_file.as_deref()).map_err(RemoteError::from)?;
    let tables = AzureTables::new(account, QUERY_PATIENCE)?;
    let (notes, mut output) = (Notes(&tables), Output::new());
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
            output.json(&HostRow { host: host.id, seen, holds, spread })?;
            continue;
        }
        let holds: Vec<String> = holds.iter().map(|(name, oldest)| format!("{name} from {oldest} on")).collect();
        let holds = if holds.is_empty() { "nothing".into() } else { holds.join(", ") };
        output.line(format_args!("{}  seen {seen}  its outbox holds {holds}", host.id))?;
        for BucketStatus { table, instance, buckets, from } in spread {
            output.line(format_args!("  {instance} is spread over {buckets} partitions of {table} from {from} on"))?;
        }
    }
    output.flush()
}
