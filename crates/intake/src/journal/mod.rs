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
mod options;
mod program;
pub mod record;

pub use counters::JournalCounters;
pub use options::JournalOptions;

use crate::route::Router;
use daytable_store::Intake;
use follower::Follower;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// A journal that is read.
pub struct JournalHandle {
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    counters: Arc<JournalCounters>,
}

/// Begins to read a journal, and to count what is read. `host` is this host's name, for entries that name none. An error
/// where there is no thread to be had; that `journalctl` cannot be run is none, it is tried again.
pub fn follow(
    config: &JournalOptions,
    counters: Arc<JournalCounters>,
    router: &Router,
    host: &str,
    intake: &Intake,
) -> io::Result<JournalHandle> {
    let (stop, counted) = (Arc::new(AtomicBool::new(false)), counters.clone());
    let (router, host) = (router.clone(), host.to_owned());
    let follower = Follower::new(config.clone(), router, host, intake.clone(), counted, stop.clone());
    let thread = std::thread::Builder::new().name("journal".into()).spawn(move || follower.run())?;
    Ok(JournalHandle { thread: Some(thread), stop, counters })
}

impl JournalHandle {
    /// What it counts.
    pub fn counters(&self) -> &Arc<JournalCounters> {
        &self.counters
    }

    /// Hands over what was read already and ends. Nothing is lost by what was not: it is read next time.
    pub fn stop(mut self) {
        self.end();
    }

    /// Whether it has ended, asked to or not: it does when the store is closed.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(
                "the reader of a journal failed by a fault of its own; what it had not handed over is read again"
            );
        }
    }
}

/// A handle that is dropped stops reading.
impl Drop for JournalHandle {
    fn drop(&mut self) {
        self.end();
    }
}
