//! The account that a sender's pushes are charged to: its rates and its bytes of the day.

use daytable_intake::push::Meter;
use daytable_intake::rate_limit::{Now, RateLimiter};
use std::net::IpAddr;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The accounts of all senders.
pub(super) type UsageLimiter = Mutex<RateLimiter<UsageKey>>;

/// Whose account it is: a credential's, or that of a peer without one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum UsageKey {
    Credential(Arc<str>),
    PeerAddress(IpAddr),
}

/// One sender's account among all of them.
pub(super) struct UsageHandle {
    accounts: Arc<UsageLimiter>,
    key: UsageKey,
}

impl UsageHandle {
    pub(super) fn new(accounts: Arc<UsageLimiter>, key: UsageKey) -> UsageHandle {
        UsageHandle { accounts, key }
    }
}

impl Meter for UsageHandle {
    fn charge(&self, records: u64, bytes: u64) {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        accounts.charge(self.key.clone(), records, bytes, Now::read());
    }

    fn pause(&self) -> Option<Duration> {
        let mut accounts = self.accounts.lock().unwrap_or_else(PoisonError::into_inner);
        accounts.check(&self.key, Now::read()).err().map(|over| over.wait)
    }
}

impl std::fmt::Debug for UsageHandle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.key.fmt(f)
    }
}
