//! Counters of the listeners.

use super::push_refusal::AuthRefusal;
use daytable_platform::lock;
use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::AtomicU64;

/// Counters of all listeners.
#[derive(Debug, Default)]
pub struct HttpCounters {
    /// Connections that were closed because the client was slow and another connection waited for its slot.
    pub slow: AtomicU64,
    /// Connections that were closed because their peer had too many.
    pub over_peer_limit: AtomicU64,
    /// Connections whose TLS handshake failed or took too long.
    pub handshakes_failed: AtomicU64,
    /// Changed certificates that could not be read.
    pub certificate_reloads_failed: AtomicU64,
    /// Changed files of credentials that could not be used.
    pub credential_reloads_failed: AtomicU64,
    requests: Mutex<BTreeMap<(u16, &'static str), u64>>,
    pushes_refused: Mutex<BTreeMap<&'static str, u64>>,
}

impl HttpCounters {
    /// Has routes counted from 0 on, as a counter that begins at 1 shows no rate of its first event.
    pub fn begin(&self, routes: &[&'static str]) {
        let mut requests = lock(&self.requests);
        routes.iter().for_each(|route| {
            requests.entry((200, route)).or_default();
        });
    }

    /// Counts an answered request.
    pub fn count_request(&self, status: u16, route: &'static str) {
        *lock(&self.requests).entry((status, route)).or_default() += 1;
    }

    /// Counts a push that was refused before its body was read.
    pub fn count_refused_push(&self, reason: &'static str) {
        *lock(&self.pushes_refused).entry(reason).or_default() += 1;
    }

    /// Answered requests, by status and route.
    pub fn requests(&self) -> BTreeMap<(u16, &'static str), u64> {
        lock(&self.requests).clone()
    }

    /// Pushes that were refused before their body was read, by reason.
    pub fn pushes_refused(&self) -> BTreeMap<&'static str, u64> {
        let mut refused: BTreeMap<&'static str, u64> = AuthRefusal::LABELS.iter().map(|label| (*label, 0)).collect();
        refused.extend(lock(&self.pushes_refused).iter());
        refused
    }
}
