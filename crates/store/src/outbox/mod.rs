//! The *outbox*: day files whose rows are forwarded to a remote store, and are removed here once they are there.
//!
//! There is no second engine. A commit writes the same pages to the same kind of file, `tables/Log20261121.1.db`, with
//! the same commit point, recovery and readers. That file *is* the outbox of its day-table. The differences:
//!
//! * It has its own [role](crate::format::catalog::FileRole::Outbox). Such a file is never sealed, and never dropped
//!   while it has rows.
//! * [`OutboxReader`] reads its pages in the order of their commits, partition by partition.
//! * The committer removes sent pages, page by page, in one transaction of the file. The file counts the removed
//!   entities (in `merged`, together with the duplicates that compaction removed), so file and catalog still agree.
//! * An empty file whose period is over is removed as a whole. Later records of its day begin another generation.
//! * [`OutboxLevel`] tells how much waits. If that is too much, sources are blocked, or the oldest rows are dropped and
//!   counted: [`OutboxOptions`].
//!
//! **A removal is not synced.** After a crash some removed pages come back and are sent again. Keys are derived from
//! the record, so an upsert of the same row changes no value. A removal may also come too late: compaction has merged
//! the page meanwhile, so its id, commit and checksum are not found, and the merged page is sent. Only committed pages
//! are read here, so a torn commit is never sent.
//!
//! **Rows stay for [`STAYS_AFTER`]** after they were read to be sent. A reader that merges outbox and remote store
//! reads the outbox first, and a follower reads a page within that time.

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

/// The configured name of the tables of dead letters: rows that the remote store refused. They stay in the data folder.
pub const DEAD_LETTERS: &str = "DeadLetter";
/// How long rows stay in the outbox after they were read, whether sent or not.
pub const STAYS_AFTER: Duration = Duration::from_secs(5);
/// Age from which compaction merges pages of an outbox. Younger pages are probably sent before.
pub(crate) const COMPACTED_AFTER: Duration = Duration::from_secs(30);

/// The destination of committed rows.
#[derive(Default)]
pub enum Forwarding {
    /// The same as before: a command that only adds or removes days does not decide it.
    #[default]
    AsRecorded,
    /// No destination. Unsent rows stay here like all others.
    Disabled,
    /// To a remote store.
    To(OutboxOptions),
}

impl Forwarding {
    /// The options, if the folder is an outbox now.
    pub(super) fn to(&self) -> Option<&OutboxOptions> {
        match self {
            Forwarding::To(outbox) => Some(outbox),
            Forwarding::AsRecorded | Forwarding::Disabled => None,
        }
    }
}

/// The options of an outbox.
pub struct OutboxOptions {
    /// A configured table that is not sent.
    pub stays: TableName,
    /// Bytes on disk above which the outbox is full.
    pub bytes_max: u64,
    /// Age of the oldest row from which the outbox is full.
    pub age_max: Option<Duration>,
    /// Whether a full outbox drops its oldest rows. Otherwise it accepts no more.
    pub drops_oldest: bool,
    /// How much waits. The committer updates it.
    pub level: Arc<OutboxLevel>,
    /// Called after every commit, in the committer's thread.
    pub on_commit: Box<dyn Fn() + Send>,
}
