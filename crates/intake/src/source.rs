//! The trait that every source implements, so that the daemon does not know which kind it runs.
//!
//! ```text
//!               prepare                 apply                            request_stop, stop
//! options ---------------> prepared ---------------> threads that read ----------------------> ended
//!         binds, compiles,           starts, moves,        |
//!         changes nothing            ends the rest         +-> Submissions to the commit queue, and SourceCounters
//! ```
//!
//! A [`Source`] serves all blocks of one section of the configuration. A start and a reload are the same two steps.
//! `prepare` does everything that can fail and changes nothing, so a configuration that cannot be used is refused as a
//! whole. `apply` makes the difference between what runs and what was prepared.
//!
//! **A new source** is:
//!
//! 1. a module in this crate with its `Options` and an `impl Source`;
//! 2. a section of the configuration that fills these `Options`, and its line in the list of blocks;
//! 3. a line in the list of sources of the daemon.
//!
//! It has to hold to this:
//!
//! * Rows reach the store in a [`Submission`](daytable_store::Submission). A source that can read its records again
//!   ([`Source::IS_REPLAYABLE`]) submits its new position together with the rows, and returns to the committed position
//!   when a commit fails. Another source keeps a copy of its rows until they are committed (`delivery`), or leaves the
//!   retry to the sender.
//! * A stop submits what was read, and waits for the store for as long as the store waits ([`CommitQueue::drain`]).
//! * A thread of the source ends by itself only by a fault or when the store is closed ([`Source::has_ended`]).
//! * Every queue, line, message and number of connections has a limit in the options.
//! * What is lost or cut is counted in [`SourceCounters`]; so a new event is one variant there, and one metric.

use crate::counters::{IntakeKind, SourceCounters};
use crate::route::Router;
use daytable_net::inherited::Inherited;
use daytable_store::{CommitQueue, LifecycleSteps};
use std::io;
use std::sync::Arc;

/// Where to begin in a file or journal that existed before.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReadFrom {
    /// At its first byte.
    #[default]
    Beginning,
    /// At its end as it is then; a file that appears later is read from its first byte.
    End,
}

/// The parts of the daemon that every source needs. Cheap to clone.
#[derive(Clone)]
pub struct SourceContext {
    /// Chooses the table of a record.
    pub router: Router,
    /// This host's name.
    pub host: String,
    /// The commit queue.
    pub queue: CommitQueue,
    /// Waits for earlier submissions.
    pub steps: LifecycleSteps,
}

/// A source cannot be started or changed.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// A setting cannot be used: the configuration has to change.
    #[error("{0}")]
    Settings(String),
    /// A resource is not available.
    #[error("{0}")]
    InUse(String),
    /// The system refused.
    #[error("{task}: {source}")]
    Io {
        /// The failed task, like `failed to listen: 127.0.0.1:514`.
        task: String,
        /// The error of the system.
        source: io::Error,
    },
}

/// A thread cannot be started.
impl From<io::Error> for SourceError {
    fn from(source: io::Error) -> SourceError {
        SourceError::Io { task: "failed to start".into(), source }
    }
}

/// All blocks of one kind of source. See the [module](self) for the duties of a source.
pub trait Source: Send + 'static {
    /// The settings of all its blocks. The default is a source without blocks.
    type Options: Default;
    /// Options with everything bound and compiled that can fail.
    type Prepared: Send;

    /// The kind, for the metrics and the ledger.
    const KIND: IntakeKind;

    /// Whether the source can read its records again. Such a source waits until the router knows where records go, so
    /// that a record gets the same place each time, and the store keeps a ledger with its position. The daemon
    /// enters the losses of other sources into the ledger.
    const IS_REPLAYABLE: bool;

    /// Binds and compiles everything that `options` need, and changes nothing. `inherited` has sockets of the service
    /// manager.
    ///
    /// # Errors
    ///
    /// The first block that cannot be used.
    fn prepare(&self, options: Self::Options, inherited: &mut Inherited) -> Result<Self::Prepared, SourceError>;

    /// Starts the prepared blocks and ends all others. May take as long as a commit.
    ///
    /// # Errors
    ///
    /// A thread cannot be started: the source is partly changed.
    fn apply(&mut self, prepared: Self::Prepared, context: &SourceContext) -> Result<(), SourceError>;

    /// The counters of every block since the start of the daemon.
    fn counters(&self) -> Vec<Arc<SourceCounters>>;

    /// The counters of the listeners that run now, for `daytable sources`.
    fn listeners(&self) -> Vec<Arc<SourceCounters>> {
        Vec::new()
    }

    /// Whether a thread has ended that still should run.
    fn has_ended(&self) -> bool;

    /// Asks all threads to stop, and returns at once.
    fn request_stop(&mut self);

    /// Stops: submits everything that was sent or read before, then ends the threads.
    fn stop(&mut self);
}
