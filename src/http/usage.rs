//! The usage that a sender's pushes are charged to: its rates, and its bytes of the day.

use daytable_intake::push::Meter;
use daytable_intake::rate_limit::{Now, RateLimiter};
use daytable_platform::lock;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

/// The usage of all senders.
pub(super) type UsageLimiter = Mutex<RateLimiter<UsageKey>>;

/// The account of a charge: a credential, or the peer of a request without one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum UsageKey {
    Credential(Arc<str>),
    Peer(IpAddr),
}

/// The usage of one sender.
pub(super) struct UsageHandle {
    limiter: Arc<UsageLimiter>,
    key: UsageKey,
}

impl UsageHandle {
    pub(super) fn new(limiter: Arc<UsageLimiter>, key: UsageKey) -> UsageHandle {
        UsageHandle { limiter, key }
    }
}

impl Meter for UsageHandle {
    fn charge(&self, records: u64, bytes: u64) {
        lock(&self.limiter).charge(self.key.clone(), records, bytes, Now::read());
    }

    fn pause(&self) -> Option<Duration> {
        lock(&self.limiter).check(&self.key, Now::read()).err().map(|limited| limited.wait)
    }
}

impl std::fmt::Debug for UsageHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.key.fmt(f)
    }
}
