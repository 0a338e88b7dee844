//! The journal of systemd: the messages of a host's services, its kernel and its syslog.
//!
//! daytable reads entries from a child process, `journalctl --output=export`, with a thread for each `[[journal]]` block. One
//! commit has the rows together with the cursor of the last entry. So a kill loses no entry and writes no entry twice. If
//! the journal has removed the entry of the cursor, daytable counts the gap.
//!
//! * [`export`]: bytes become entries. [`mod@cursor`]: the identity of an entry. [`mod@record`]: an entry becomes a record.
//!   These three do not know the origin of the bytes.
//! * `program`: the child process. `follower`: the loop. `source`: all blocks of the section.

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
    /// Starts the thread. If `journalctl` cannot be run, the thread tries again.
    ///
    /// # Errors
    ///
    /// The thread cannot be started.
    fn start(
        options: &JournalOptions,
        counters: Arc<SourceCounters>,
        context: &SourceContext,
    ) -> io::Result<JournalReader> {
        let stop = Arc::new(AtomicBool::new(false));
        let SourceContext { router, host, queue, .. } = context.clone();
        let follower = JournalFollower::new(options.clone(), router, host, queue, counters.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("journal".into()).spawn(move || follower.run())?;
        Ok(JournalReader { thread: Some(thread), stop, counters })
    }

    /// Whether the thread has ended: on request, or because the store is closed.
    fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    fn request_stop(&self) {
        self.stop.store(true, Ordering::Release);
    }

    /// Submits the entries that were read, and waits for the end of the thread. The next start reads further entries.
    fn stop(&mut self) {
        self.request_stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(
                block = self.counters.name,
                "the reader of a journal ended by a fault of daytable, please report it: uncommitted entries are read again"
            );
        }
    }
}

/// A dropped reader stops.
impl Drop for JournalReader {
    fn drop(&mut self) {
        self.stop();
    }
}
