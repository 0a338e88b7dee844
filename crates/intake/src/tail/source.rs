//! All `[[tail]]` blocks as one [`Source`], read by one thread.

use super::blocks::BlockChange;
pub use super::blocks::PreparedTail;
use super::follower::TailFollower;
use super::options::{TailOptions, TailTimings};
use super::wakeup::Wakeup;
use crate::counters::{IntakeKind, SourceCounters, SourceEvent};
use crate::route::Router;
use crate::source::{Source, SourceContext, SourceError};
use daytable_net::inherited::Inherited;
use daytable_store::CommitQueue;
use std::io;
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;

/// The events that a block counts.
const EVENTS: [SourceEvent; 7] = [
    SourceEvent::ReadError,
    SourceEvent::Rotation,
    SourceEvent::Rewrite,
    SourceEvent::BytesDestroyed,
    SourceEvent::BytesSkipped,
    SourceEvent::LineUnended,
    SourceEvent::LineContinued,
];

/// The files that are followed.
#[derive(Default)]
pub struct Tail {
    thread: Option<TailThread>,
    counters: Vec<Arc<SourceCounters>>,
}

impl Source for Tail {
    type Options = Vec<TailOptions>;
    type Prepared = PreparedTail;

    const KIND: IntakeKind = IntakeKind { name: "tail", cut_at: &["line_bytes_max"] };
    const IS_REPLAYABLE: bool = true;

    fn prepare(&self, blocks: Vec<TailOptions>, _: &mut Inherited) -> Result<PreparedTail, SourceError> {
        Ok(PreparedTail::new(blocks)?)
    }

    fn apply(&mut self, prepared: PreparedTail, context: &SourceContext) -> Result<(), SourceError> {
        let create = |name: &str| SourceCounters::with_events(Self::KIND, name, EVENTS);
        let names = prepared.blocks.iter().map(|block| block.name.as_str());
        let counters: Vec<_> =
            names.map(|name| SourceCounters::resume(&mut self.counters, name, || create(name))).collect();
        let is_removed = |block: &&Arc<SourceCounters>| !counters.iter().any(|now| now.name == block.name);
        self.counters.iter().filter(is_removed).for_each(|removed| removed.clear_lag());
        match &self.thread {
            Some(thread) => thread.change(prepared, counters),
            None => {
                let SourceContext { router, host, queue, .. } = context.clone();
                self.thread = Some(TailThread::start(prepared, router, host, queue, counters, TailTimings::default())?);
            }
        }
        Ok(())
    }

    fn counters(&self) -> Vec<Arc<SourceCounters>> {
        self.counters.clone()
    }

    fn has_ended(&self) -> bool {
        self.thread.as_ref().is_some_and(TailThread::has_ended)
    }

    fn request_stop(&mut self) {
        if let Some(thread) = &self.thread {
            thread.wakeup.stop();
        }
    }

    fn stop(&mut self) {
        self.thread = None;
    }
}

/// The thread that reads all files.
pub(super) struct TailThread {
    pub(super) wakeup: Wakeup,
    changes: Sender<BlockChange>,
    thread: Option<JoinHandle<()>>,
}

impl TailThread {
    /// Starts to follow files. `host` is this host's name; `counters` are those of the blocks, in their order. Fails if
    /// no thread can be started.
    pub(super) fn start(
        prepared: PreparedTail,
        router: Router,
        host: String,
        queue: CommitQueue,
        counters: Vec<Arc<SourceCounters>>,
        timings: TailTimings,
    ) -> io::Result<TailThread> {
        let (changes, received) = channel();
        let follower = TailFollower::new(prepared, router, host, queue, counters, timings)?;
        let wakeup = follower.wakeup.clone();
        let thread = std::thread::Builder::new().name("tail".into()).spawn(move || follower.run(&received))?;
        Ok(TailThread { wakeup, changes, thread: Some(thread) })
    }

    /// Replaces the blocks, and returns when the thread follows the new ones. Rows of the old blocks are submitted.
    /// Files in both keep their descriptors and positions. The position of a file that no block includes is kept, for a
    /// later block that includes it again.
    fn change(&self, prepared: PreparedTail, counters: Vec<Arc<SourceCounters>>) {
        let (done, is_done) = channel();
        // The daemon checks separately whether the thread has ended.
        let _ = self.changes.send(BlockChange { prepared, counters, done });
        self.wakeup.call();
        let _ = is_done.recv();
    }

    /// Whether the thread has ended, after a stop or because the store is closed.
    pub(super) fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Submits everything that was read, and ends. The next start reads the rest.
    pub(super) fn stop(&mut self) {
        self.wakeup.stop();
        if let Some(thread) = self.thread.take()
            && thread.join().is_err()
        {
            tracing::error!(
                "the reader of files ended by a fault of daytable, please report it: uncommitted lines are read again"
            );
        }
    }
}

/// Dropping the handle stops the thread.
impl Drop for TailThread {
    fn drop(&mut self) {
        self.stop();
    }
}
