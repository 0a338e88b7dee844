//! The journal of systemd: what a host's services, its kernel and its syslog wrote, entry by entry.
//!
//! Entries are read through `journalctl --output=export`, a child of the daemon, a thread for each `[[journal]]` block.
//! The rows and the cursor they were read up to are one commit, as rows and positions of files are, so nothing is lost
//! and nothing is there twice, whatever is killed. A cursor that is gone is noticed and counted.
//!
//! * [`export`]: bytes become entries. [`mod@cursor`]: who an entry is. [`mod@record`]: an entry becomes a record. None of
//!   them knows where entries come from.
//! * `program`: the child. `follower`: the loop. `counters`: what it counts.

mod counters;
pub mod cursor;
pub mod export;
mod follower;
mod program;
pub mod record;

pub use counters::JournalCounters;

use crate::config::JournalConfig;
use crate::route::Router;
use crate::store::Intake;
use follower::Follower;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// Journals that are read.
pub struct JournalHandle {
    threads: Vec<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    counters: Vec<Arc<JournalCounters>>,
}

/// Begins to read journals. `host` is this host's name, for entries that name none. An error where there is no thread
/// to be had; that `journalctl` cannot be run is none, it is tried again.
pub fn follow(configs: &[JournalConfig], router: &Router, host: &str, intake: &Intake) -> io::Result<JournalHandle> {
    let mut handle = JournalHandle { threads: Vec::new(), stop: Arc::default(), counters: Vec::new() };
    for config in configs {
        let counters = Arc::new(JournalCounters::new(&config.name));
        handle.counters.push(counters.clone());
        let (router, host, stop) = (router.clone(), host.to_owned(), handle.stop.clone());
        let follower = Follower::new(config.clone(), router, host, intake.clone(), counters, stop);
        handle.threads.push(std::thread::Builder::new().name("journal".into()).spawn(move || follower.run())?);
    }
    Ok(handle)
}

impl JournalHandle {
    /// The counts of each block, in the order of the configuration.
    pub fn counters(&self) -> &[Arc<JournalCounters>] {
        &self.counters
    }

    /// Hands over what was read already and ends. Nothing is lost by what was not: it is read next time.
    pub fn stop(mut self) {
        self.end();
    }

    /// Whether one of them has ended, asked to or not: they do when the store is closed.
    pub fn has_ended(&self) -> bool {
        self.threads.iter().any(JoinHandle::is_finished)
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Release);
        for thread in self.threads.drain(..) {
            if thread.join().is_err() {
                tracing::error!(
                    "the reader of a journal failed by a fault of its own; what it had not handed over is read again"
                );
            }
        }
    }
}

/// A handle that is dropped stops its journals.
impl Drop for JournalHandle {
    fn drop(&mut self) {
        self.end();
    }
}
