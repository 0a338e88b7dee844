//! `daytable hosts`: the daytables that share a remote store, as they told of themselves.

use super::args::configured;
use super::exit::CliError;
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
    /// The configuration that says how the store is reached
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Forget this one: what its outbox may hold is waited for no more
    #[arg(long, value_name = "NAME")]
    forget: Option<String>,
    /// An object a line
    #[arg(long)]
    json: bool,
}

/// A daytable as it is shown.
#[derive(Serialize)]
struct Shown {
    host: String,
    seen: String,
    holds: BTreeMap<String, String>,
    /// Instances that have more partitions than is configured.
    spread: Vec<BucketStatus>,
}

pub(super) fn run(args: &Args) -> Result<(), CliError> {
    let config = configured(Some(&args.config))?;
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
        if args.json {
            output.json(&Shown { host: host.id, seen, holds, spread })?;
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
