//! Whether the daemon is ready, and the word that it is to drain.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};
use tokio::sync::watch;

/// What `/readyz` answers from; the daemon tells it how far it is.
pub struct Readiness {
    store_open: AtomicBool,
    listeners_bound: AtomicBool,
    draining: watch::Sender<bool>,
    is_full: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
    is_settled: OnceLock<Box<dyn Fn() -> bool + Send + Sync>>,
}

impl Default for Readiness {
    fn default() -> Readiness {
        Readiness {
            store_open: AtomicBool::new(false),
            listeners_bound: AtomicBool::new(false),
            draining: watch::Sender::new(false),
            is_full: OnceLock::new(),
            is_settled: OnceLock::new(),
        }
    }
}

impl Readiness {
    /// The store takes records, or no longer does.
    pub fn store_open(&self, open: bool) {
        self.store_open.store(open, Ordering::Release);
    }

    /// Every listener of the configuration is bound.
    pub fn listeners_bound(&self) {
        self.listeners_bound.store(true, Ordering::Release);
    }

    /// Begins to drain, for good: listeners close, followers are sent away, open requests are answered.
    pub fn drain(&self) {
        self.draining.send_replace(true);
    }

    /// Turns true when draining begins.
    pub fn draining(&self) -> watch::Receiver<bool> {
        self.draining.subscribe()
    }

    /// There is an outbox, and this says whether it is full. To be told once.
    pub fn bounded_by(&self, is_full: impl Fn() -> bool + Send + Sync + 'static) {
        let _ = self.is_full.set(Box::new(is_full));
    }

    /// There is a remote store, and this says whether it is known how instances are spread in it. To be told once.
    pub fn settled_by(&self, is_settled: impl Fn() -> bool + Send + Sync + 'static) {
        let _ = self.is_settled.set(Box::new(is_settled));
    }

    fn is_full(&self) -> bool {
        self.is_full.get().is_some_and(|is_full| is_full())
    }

    /// Whether what is pushed now is taken.
    pub fn takes_records(&self) -> bool {
        self.store_open.load(Ordering::Acquire) && !*self.draining.borrow() && !self.is_full()
    }

    /// Ready, or the reason why not.
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
            Err("files and journals wait: the remote store has not said how instances are spread")
        } else {
            Ok(())
        }
    }
}

/// Waits until draining begins; an owner that is gone has begun.
pub(super) async fn wait_for_drain(draining: &mut watch::Receiver<bool>) {
    // What it gives back is a lock, which must not be held across an await.
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
        assert!(readiness.takes_records(), "what is pushed need not wait");
        readiness.bounded_by(|| true);
        assert_eq!((readiness.check(), readiness.takes_records()), (Err("the outbox is full"), false));
        readiness.drain();
        assert_eq!(readiness.check(), Err("draining"));
    }
}
