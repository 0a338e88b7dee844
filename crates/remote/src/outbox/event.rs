//! The events that wake the sender.

use super::queued::RemovablePage;
use daytable_azure::Error;
use daytable_model::key::DayTable;
use daytable_store::StoreError;
use std::time::Duration;

/// What wakes the sender's loop.
pub(super) enum Event {
    /// Rows were committed.
    Committed,
    /// The answer to a request.
    Answered(u64, Result<(), Error>),
    /// The answer to the creation of a table.
    TableCreated(DayTable, Result<(), Error>),
    /// Whether dead letters are on disk.
    DeadLettersCommitted(u64, bool),
    /// The result of a removal of pages.
    Removed(Vec<RemovablePage>, Result<(), StoreError>),
    /// A stop is requested, with this time limit.
    Stop(Duration),
}
