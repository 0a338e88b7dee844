//! The journal of systemd: what a host's services, its kernel and its syslog wrote, entry by entry.
//!
//! EntryParser are read through `journalctl --output=export`, a child of the daemon, a thread for each `[[journal]]` block.
//! The rows and the cursor they were read up to are one commit, as rows and positions of files are, so nothing is lost
//! and nothing is there twice, whatever is killed. A cursor that is gone is noticed and counted.
//!
//! * [`export`]: bytes become entries. [`mod@cursor`]: who an entry is. [`mod@record`]: an entry becomes a record. None of
//!   them knows where entries come from.
//! * `program`: the child. `follower`: the loop. `source`: all blocks of the section.

pub mod cursor;
pub mod export;
mod follower;
mod options;
mod program;
pub mod record;
mod source;

pub use options::JournalOptions;
pub use source::Journals;

use crate::counters::SourceCounters;
use crate::source::SourceContext;
use follower::JournalFollower;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

/// The thread that reads one journal.
struct JournalReader {
    thread: Option<JoinHandle<()>>,
    stop: Arc<AtomicBool>,
    counters: Arc<SourceCounters>,
}

impl JournalReader {
    /// Starts to read a journal. An error where no thread can be started; a `journalctl` that cannot be run is tried again.
    fn start(
        options: &JournalOptions,
        counters: Arc<SourceCounters>,
        context: &SourceContext,
    ) -> io::Result<JournalReader> {
        let stop = Arc::new(AtomicBool::new(false));
        let SourceContext { router, host, intake, .. } = context.clone();
        let follower = JournalFollower::new(options.clone(), router, host, intake, counters.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("journal".into()).spawn(move || follower.run())?;
        Ok(JournalReader { thread: Some(thread), stop, counters })
    }

    /// Whether the thread has ended: asked to, or because the store is closed.
    fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn request_stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Submits what was read and ends. What was not read yet is read next time.
    fn stop(&mut self) {
        self.request_stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(
                "the reader of a journal failed by a fault of its own; what it had not handed over is read again"
            );
        }
    }
}

/// A reader that is dropped stops.
impl Drop for JournalReader {
    fn drop(&mut self) {
        self.stop();
    }
}
