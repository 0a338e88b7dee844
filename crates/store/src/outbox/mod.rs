//! The outbox: day files whose rows go to a remote store, and are removed from here once they are there.
//!
//! There is no second engine. With a remote store a commit is what it always is, and writes the same pages to the same
//! kind of file, `tables/Log20261121.1.db`: with the same commit point, the same recovery, the same readers. That file *is*
//! the outbox of its day-table. What differs:
//!
//! * Its [role](crate::format::catalog::FileRole::Outbox) says what it is. Such a file is never sealed, and never dropped while it
//!   has rows.
//! * [`OutboxReader`] reads its pages in the order of their commits, partition by partition.
//! * [`OutboxRemover::remove`] has the committer take away what was sent, page by page, in one transaction of the file.
//!   How many entities went is noted in it (in `merged`, with the duplicates that tidy took away), so file and catalog
//!   still agree.
//! * An empty file whose period is over is let go as a whole. What comes for its day later begins another generation.
//! * [`OutboxLevel`] is how much waits. Where that is too much, [`CommitQueue`](crate::CommitQueue) takes nothing more from the sources, or what is oldest
//!   goes, and is counted: [`OutboxOptions`].
//!
//! **A removal is not synced.** What a crash brings back of it is sent again: keys are derived, and an upsert of the same
//! row changes nothing. For the same reason it may come too late: a page that tidy has merged with others meanwhile is not
//! found (it is known by its id, commit and checksum), and what it was merged into is sent. Only what is committed is
//! ever read here, so nothing of a torn commit is sent.
//!
//! **Rows stay for [`STAYS_AFTER`]** after they were read to be sent: whoever reads outbox and remote store as one reads
//! the outbox first, and a follower looks at a page within that time.

mod level;
mod removal;
pub mod bucket_plans;
mod reader;

pub use level::{DropReason, OutboxLevel};
pub use reader::{NewPages, OutboxPosition, OutboxReader, WaitingPage};
pub(super) use removal::{Backlog, RemovedPages, waiting};
pub use removal::{OutboxRemoval, SentPage};

use daytable_model::key::TableName;
use std::sync::Arc;
use std::time::Duration;

/// The configured name of the tables of dead letters: rows that the remote store refused, which stay in the data folder.
pub const DEAD_LETTERS: &str = "DeadLetter";
/// How long rows stay in the outbox after they were found there, sent or not.
pub const STAYS_AFTER: Duration = Duration::from_secs(5);
/// Age of pages that tidy leaves to whoever sends them: it works on what is a backlog.
pub(super) const COMPACTED_AFTER: Duration = Duration::from_secs(30);

/// Where what is committed goes on to.
#[derive(Default)]
pub enum Forwarding {
    /// To where it went before: who only adds to a folder, or takes from it, does not decide.
    #[default]
    AsRecorded,
    /// Nowhere. What was to be sent stays here, as all else does.
    Disabled,
    /// To a remote store.
    To(OutboxOptions),
}

impl Forwarding {
    /// What makes the folder an outbox now.
    pub(super) fn to(&self) -> Option<&OutboxOptions> {
        match self {
            Forwarding::To(outbox) => Some(outbox),
            Forwarding::AsRecorded | Forwarding::Disabled => None,
        }
    }
}

/// What makes a store the outbox of another one.
pub struct OutboxOptions {
    /// A configured table whose days stay here: its rows are not sent.
    pub stays: TableName,
    /// Bytes on disk above which the outbox is full.
    pub bytes_max: u64,
    /// How long ago the oldest row may have been accepted before the outbox is full.
    pub age_max: Option<Duration>,
    /// Whether the oldest rows go when it is full. Else nothing more is taken.
    pub drops_oldest: bool,
    /// How much waits; kept up to date by the committer.
    pub level: Arc<OutboxLevel>,
    /// Told of every commit, from the committer's thread: there may be something to send.
    pub on_commit: Box<dyn Fn() + Send>,
}
