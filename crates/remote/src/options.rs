//! What the outbox knows of a configured table.

use daytable_model::key::TableName;
use daytable_model::window::Window;
use std::num::NonZeroU16;

/// A configured table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableOptions {
    /// The configured name.
    pub name: TableName,
    /// Which days take records, and which have expired.
    pub window: Window,
    /// The least number of partitions of an instance.
    pub buckets: NonZeroU16,
}
