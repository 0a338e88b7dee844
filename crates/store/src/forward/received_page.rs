//! A page of a host as it is stored here, made of the one that arrived without its rows (`WholePage`).

use crate::format::page::{EncodedPage, WholePage};
use daytable_model::column_name::{HOST, LOG_HOST};
use daytable_model::entity::FIELDS_MAX;
use daytable_model::key::{DayTable, RowKey};
use daytable_model::time::Ticks;
use std::sync::Arc;

/// Properties of a row at most: its fields, the fixed ones, and those that are added here.
pub(super) const PROPERTIES_MAX: usize = FIELDS_MAX + 12;

/// A page that is ready to be stored.
#[derive(Clone, Debug)]
pub struct ReceivedPage {
    /// The day-table that it goes to.
    pub table: DayTable,
    /// The partition of all its rows.
    pub partition: Arc<str>,
    /// How many batches of its submission have rows that came before it. Of equal keys the later row counts.
    pub(crate) after: usize,
    pub(crate) page: EncodedPage,
}

impl ReceivedPage {
    /// Its records. Each is a row.
    pub fn records(&self) -> u64 {
        self.page.header.records.into()
    }

    /// Bytes that it has in memory.
    pub fn bytes(&self) -> usize {
        self.page.memory()
    }

    /// The time of its newest record.
    pub fn newest(&self) -> Ticks {
        self.page.header.first.time()
    }
}

/// The page of a host under the keys that its records have here, with the name of the host. `None` if its rows have to be written
/// one by one.
pub(super) fn of_host(whole: &WholePage<'_>, keys: &[RowKey], log_host: &str, bytes_min: usize) -> Option<EncodedPage> {
    let page = whole.page();
    if page.width() + 2 > PROPERTIES_MAX || page.columns().any(|column| column.name() == LOG_HOST) {
        return None;
    }
    let names = [(HOST, log_host), (LOG_HOST, log_host)];
    let added = match page.columns().find(|column| column.name() == HOST) {
        None => &names[..],
        Some(host) if host.count() == page.len() => &names[1..],
        // Some records have a name of their own, and some get this one.
        Some(_) => return None,
    };
    whole.with_keys(keys, added, bytes_min)
}
