//! By whom the remote store and the archives are written, and whether that identity may.

use super::CheckResult;
use crate::cli::written_places::{Unwritten, WrittenPlace, written_places};
use crate::config::Config;

/// The shipped unit permits no address but those of this host.
const UNREACHED: &str = "is the address right, and the network there? The shipped systemd unit denies every address but \
                         localhost: `systemctl edit daytable`, and below [Service] IPAddressAllow=ADDRESS";
const ROLE: &str = "give this identity the rights to write there (docs/guide/accounts-without-keys.md has the roles)";
const FORMAT: &str = "docs/guide/lake.md says what a store has to do";
const CREDENTIALS: &str = "correct the credentials in the configuration, or the variables of the service";

pub(super) fn identities(config: &Config) -> Vec<CheckResult> {
    written_places(config).iter().map(identity).collect()
}

fn identity(place: &WrittenPlace<'_>) -> CheckResult {
    let writer = match place.writer() {
        Ok(writer) => writer,
        Err(error) => return CheckResult::fail(place.kind(), error, CREDENTIALS),
    };
    let (address, identity) = (&writer.address, &writer.identity);
    match writer.probe() {
        Ok(()) => CheckResult::ok(writer.kind, format!("{address}: {identity} may write there")),
        Err(Unwritten::Denied(error)) => {
            CheckResult::fail(writer.kind, format!("{address}: {identity} may not write there: {error}"), ROLE)
        }
        Err(Unwritten::Unfit(error)) => CheckResult::fail(writer.kind, error, FORMAT),
        Err(Unwritten::Untold(error)) => {
            let found = format!("{address}: whether {identity} may write there is not known: {error}");
            CheckResult::fail(writer.kind, found, UNREACHED)
        }
    }
}
