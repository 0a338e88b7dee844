//! Whether the receivers of `[[forward]]` can be reached, and know this host.

use super::CheckResult;
use crate::config::Config;
use daytable_forward::client::{ClientError, ReceiverClient};
use daytable_forward::options::ForwardOptions;

const CHECK: &str = "forward";
/// The shipped unit permits no address but those of this host.
const UNREACHED: &str = "is the other daytable running, and its port open? The shipped systemd unit denies every address but \
                         localhost: `systemctl edit daytable`, and below [Service] IPAddressAllow=ADDRESS";
const JOIN: &str = "run `daytable join URL CODE` with a code of `daytable hosts invite NAME` there";

pub(super) fn receivers(config: &Config) -> Vec<CheckResult> {
    config.forward.iter().map(receiver).collect()
}

fn receiver(options: &ForwardOptions) -> CheckResult {
    let to = &options.to;
    let runtime = match tokio::runtime::Builder::new_current_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => return CheckResult::warn(CHECK, format!("{to} was not tried: {error}"), "try again"),
    };
    let tried = ReceiverClient::new(options).and_then(|client| runtime.block_on(client.probe()));
    match tried {
        Ok(()) => CheckResult::ok(CHECK, format!("{to} is reached, and knows this host")),
        Err(error @ ClientError::Network(_)) => CheckResult::fail(CHECK, format!("{to}: {error}"), UNREACHED),
        Err(error) => CheckResult::fail(CHECK, format!("{to}: {error}"), JOIN),
    }
}
