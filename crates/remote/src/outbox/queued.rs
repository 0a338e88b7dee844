//! What the parts of the sender pass to each other: rows that wait in a queue, and pages that can be removed.

use daytable_model::key::RowKey;
use daytable_store::outbox::SentPage;
use daytable_store::page::Page;
use std::sync::Arc;
use std::time::Instant;

/// The number of a queue.
pub(super) type QueueId = u64;
/// The number of a page, from the scan that found it to its removal.
pub(super) type PageNumber = u64;

/// A row of a page.
#[derive(Clone)]
pub(super) struct QueuedRow {
    pub(super) number: PageNumber,
    pub(super) page: Arc<Page>,
    pub(super) index: usize,
}

impl QueuedRow {
    pub(super) fn key(&self) -> RowKey {
        self.page.key(self.index)
    }
}

/// A page without unsent rows.
#[derive(Clone, Copy)]
pub(super) struct RemovablePage {
    pub(super) due: Instant,
    pub(super) queue: QueueId,
    pub(super) page: SentPage,
    pub(super) entities: u64,
}
