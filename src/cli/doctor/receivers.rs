//! Whether the receivers of `[[forward]]` can be reached, and know this host; whether hosts that forward here have names of their own.

use super::super::hosts::{hosts, namesakes};
use super::CheckResult;
use crate::config::Config;
use crate::http::HostLine;
use daytable_forward::client::{ClientError, ReceiverClient};
use daytable_forward::credentials::KeptCredentials;
use daytable_forward::options::ForwardOptions;
use daytable_forward::otlp::client::{BackendAnswer, BackendClient};
use daytable_forward::otlp::sender::is_backend;
use std::path::Path;

const CHECK: &str = "forward";
/// The shipped unit permits no address but those of this host.
const UNREACHED: &str = "is the receiver running, and its port open? The shipped systemd unit denies every address but \
                         localhost: `systemctl edit daytable`, and below [Service] IPAddressAllow=ADDRESS";
const HEADERS: &str = "correct the address, and the headers in `headers_file`: docs/guide/otlp-out.md";
const JOIN: &str = "run `daytable join URL CODE` with a code of `daytable hosts invite NAME` there";

/// Names that several hosts have which forward here. Their records cannot be told apart.
pub(super) fn names(config: &Config) -> Vec<CheckResult> {
    // Whether the folder can be read is another check.
    names_of(&hosts(&config.data_dir, Some(config)).unwrap_or_default())
}

fn names_of(hosts: &[HostLine]) -> Vec<CheckResult> {
    let mut shared: Vec<(&str, usize)> = hosts
        .iter()
        .map(|host| (host.host.as_str(), namesakes(hosts, host)))
        .filter(|(_, others)| *others > 0)
        .collect();
    shared.sort_unstable();
    shared.dedup();
    let result = |(name, others): (&str, usize)| {
        CheckResult::warn(
            "hosts",
            format!("{} hosts forward here as {name}, so `log_host` does not tell their records apart", others + 1),
            format!(
                "`daytable hosts` has their origins. Set another `host` on one of them, and let it join with a code of `daytable hosts \
                 invite` for that name; where one of them is gone, `daytable hosts forget {name}`, and let the other one join again"
            ),
        )
    };
    shared.into_iter().map(result).collect()
}

pub(super) fn receivers(config: &Config) -> Vec<CheckResult> {
    config.forward.iter().map(|options| receiver(options, &config.data_dir)).collect()
}

fn receiver(options: &ForwardOptions, data_dir: &Path) -> CheckResult {
    let to = &options.to;
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return CheckResult::warn(CHECK, format!("{to} was not tried: {error}"), "try again"),
    };
    if is_backend(options) {
        return match BackendClient::new(options).map(|client| runtime.block_on(client.probe())) {
            Ok(BackendAnswer::Accepted { .. }) => {
                CheckResult::ok(CHECK, format!("{to} is reached, and takes requests"))
            }
            // Some backends do not like a request without records.
            Ok(BackendAnswer::Refused(reason)) => CheckResult::warn(
                CHECK,
                format!("{to} is reached: {reason}"),
                "`daytable status` says whether it takes records",
            ),
            Ok(BackendAnswer::Busy { reason, .. }) => CheckResult::fail(CHECK, format!("{to}: {reason}"), UNREACHED),
            Ok(BackendAnswer::Unusable(reason)) => CheckResult::fail(CHECK, format!("{to}: {reason}"), HEADERS),
            Err(error) => CheckResult::fail(CHECK, format!("{to}: {error}"), HEADERS),
        };
    }
    match runtime.block_on(probe(options, data_dir)) {
        Ok(()) => CheckResult::ok(CHECK, format!("{to} is reached, and knows this host")),
        Err(error @ ClientError::Network(_)) => CheckResult::fail(CHECK, format!("{to}: {error}"), UNREACHED),
        Err(error) => CheckResult::fail(CHECK, format!("{to}: {error}"), JOIN),
    }
}

/// Whether the receiver knows one of the credentials of this host.
async fn probe(options: &ForwardOptions, data_dir: &Path) -> Result<(), ClientError> {
    let client = ReceiverClient::without_credential(options)?;
    if options.shows_certificate_alone() {
        return client.probe().await;
    }
    let kept = KeptCredentials::read(options, data_dir);
    let mut refusal = None;
    for credential in kept.candidates() {
        match client.with_credential(&credential)?.probe().await {
            Err(error) if error.is_unknown_credential() => drop(refusal.get_or_insert(error)),
            tried => return tried,
        }
    }
    Err(refusal.unwrap_or_else(|| ClientError::Options(kept.problem())))
}
