//! Whether the daemon is ready, and the signal to drain.

use daytable_model::time::Ticks;
use daytable_platform::lock;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// The state behind `/readyz`, which the daemon sets.
pub struct Readiness {
    store_open: AtomicBool,
    store_failure: Mutex<Option<StoreFailure>>,
    listeners_bound: AtomicBool,
    draining: watch::Sender<bool>,
    is_full: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
    is_settled: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
}

/// Failures of the store without a commit in between.
struct StoreFailure {
    since: Ticks,
    last: Instant,
    /// The reason of the first one.
    reason: String,
}

/// How long the last failure counts while the store is open again: on a full disk it is opened, and fails, again and
/// again.
const FAILURE_COUNTS: Duration = Duration::from_secs(15);

impl Default for Readiness {
    fn default() -> Readiness {
        Readiness {
            store_open: AtomicBool::new(false),
            store_failure: Mutex::default(),
            listeners_bound: AtomicBool::new(false),
            draining: watch::Sender::new(false),
            is_full: OnceLock::new(),
            is_settled: OnceLock::new(),
        }
    }
}

impl Readiness {
    /// Sets whether the store accepts records.
    pub fn store_open(&self, open: bool) {
        self.store_open.store(open, Ordering::Release);
    }

    /// Records that the store cannot write, and accepts no records until it is open again.
    pub fn store_failed(&self, now: Ticks, reason: String) {
        self.store_open.store(false, Ordering::Release);
        let last = Instant::now();
        lock(&self.store_failure).get_or_insert(StoreFailure { since: now, last, reason }).last = last;
    }

    /// Records that the store wrote.
    pub fn store_committed(&self) {
        *lock(&self.store_failure) = None;
    }

    /// Since when the store cannot write, and why.
    pub fn store_failure(&self) -> Option<(Ticks, String)> {
        let failure = lock(&self.store_failure);
        let is_open = self.store_open.load(Ordering::Acquire);
        let counts = failure.as_ref().filter(|failure| !is_open || failure.last.elapsed() < FAILURE_COUNTS);
        counts.map(|failure| (failure.since, failure.reason.clone()))
    }

    /// Records that every listener of the configuration is bound.
    pub fn listeners_bound(&self) {
        self.listeners_bound.store(true, Ordering::Release);
    }

    /// Begins the drain, for good: listeners close, followers end, open requests are answered.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    /// A receiver that turns true when the drain begins.
    pub fn draining(&self) -> watch::Receiver<bool> {
        self.draining.subscribe()
    }

    /// Sets the function that tells whether the outbox is full. Only the first call counts.
    pub fn bounded_by(&self, is_full: impl Fn() -> bool + Send + Sync + 'static) {
        let _ = self.is_full.set(Box::new(is_full));
    }

    /// Sets the function that tells whether the bucket plan is loaded. Only the first call counts.
    pub fn settled_by(&self, is_settled: impl Fn() -> bool + Send + Sync + 'static) {
        let _ = self.is_settled.set(Box::new(is_settled));
    }

    fn is_full(&self) -> bool {
        self.is_full.get().is_some_and(|is_full| is_full())
    }

    /// Whether the daemon accepts pushes now.
    pub fn accepts_pushes(&self) -> bool {
        self.store_open.load(Ordering::Acquire) && !*self.draining.borrow() && !self.is_full()
    }

    /// Whether the daemon is ready.
    ///
    /// # Errors
    ///
    /// The reason why the daemon is not ready.
    pub fn check(&self) -> Result<(), &'static str> {
        if *self.draining.borrow() {
            Err("draining")
        } else if !self.store_open.load(Ordering::Acquire) {
            Err("the store is not open")
        } else if !self.listeners_bound.load(Ordering::Acquire) {
            Err("not every listener is bound")
        } else if self.is_full() {
            Err("the outbox is full")
        } else if self.is_settled.get().is_some_and(|is_settled| !is_settled()) {
            Err("files and journals wait: the bucket plan of the remote store is not loaded yet")
        } else {
            Ok(())
        }
    }
}

/// Waits until the drain begins. A dropped sender counts as a drain.
pub(super) async fn wait_for_drain(draining: &mut watch::Receiver<bool>) {
    // The result holds a lock, which must not be held across an await.
    let _ = draining.wait_for(|begun| *begun).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_is_open_and_bound_and_not_draining() {
        let readiness = Readiness::default();
        assert_eq!(readiness.check(), Err("the store is not open"));
        readiness.store_open(true);
        assert_eq!(readiness.check(), Err("not every listener is bound"));
        readiness.listeners_bound();
        assert_eq!(readiness.check(), Ok(()));
        readiness.settled_by(|| false);
        assert!(readiness.check().is_err_and(|why| why.contains("files and journals wait")));
        assert!(readiness.accepts_pushes(), "pushes need not wait");
        readiness.bounded_by(|| true);
        assert_eq!((readiness.check(), readiness.accepts_pushes()), (Err("the outbox is full"), false));
        let failure = (Ticks::UNIX_EPOCH, "the disk is full".to_owned());
        readiness.store_failed(failure.0, failure.1.clone());
        readiness.store_failed(Ticks::MAX, "it still is".into());
        assert_eq!((readiness.store_failure(), readiness.check()), (Some(failure), Err("the store is not open")));
        readiness.store_open(true);
        assert!(readiness.store_failure().is_some(), "it may fail again");
        readiness.store_committed();
        assert_eq!(readiness.store_failure(), None);
        readiness.drain();
        assert_eq!(readiness.check(), Err("draining"));
    }
}
