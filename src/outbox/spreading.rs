//! What was decided of buckets is written down, here and at the service, and what earlier runs decided is learnt.
//!
//! ```text
//! throttled ──► begin: where the last lease ends ──► buckets.json ──► in effect ──► DaytableBuckets ──► rows placed by it go
//!                 └ and behind the newest row            └ synced                        └ a row an instance and day-table
//!                   in the outbox and at the service
//! ```
//!
//! **The order is what keeps a record where it was.** A step is on the disk before any record is placed by it, and at the
//! service before any row goes there that was placed by it: so whatever is killed in between, the rows that there are
//! were placed by the steps that there are. A host that lost its folder learns from the service by which steps its rows
//! there were placed; rows that it had not sent yet are gone with the folder, and so may be their step.
//!
//! **Before that is learnt** nothing may be placed that can be read again: who starts on an empty folder waits with files and
//! journals until the service has answered once. What comes over a socket has keys of its own and need not wait.
//!
//! A thread of its own, as all of it may wait for the network. While it waits the sender goes on, but for the instances
//! whose steps the service does not have.

use crate::azure::Account;
use crate::key::{DayTable, TableName};
use crate::lifecycle::shared::Notes;
use crate::lifecycle::{Window, clock};
use crate::route::Spread;
use crate::route::spread::Planned;
use crate::store::StoreError;
use crate::store::outbox::Unsent;
use crate::store::outbox::steps::{self, Steps};
use crate::tables::azure::QUERY_PATIENCE;
use crate::tables::{AzureTables, Columns, Order, TableError, TableStore, Wanted};
use crate::time::{self, Ticks};
use std::collections::HashMap;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// How soon what could not be done is tried again,
const AGAIN: Duration = Duration::from_secs(2);
/// and how often days that are over are looked for.
const LOOK: Duration = Duration::from_secs(60);

/// An instance is to have more partitions.
pub(super) struct More {
    pub(super) table: DayTable,
    pub(super) partition: Arc<str>,
    pub(super) buckets: NonZeroU16,
}

/// See the module's head.
pub(super) struct Spreading {
    pub(super) spread: Arc<Spread>,
    pub(super) tables: AzureTables,
    pub(super) data_dir: PathBuf,
    /// What this daytable is called among those that share the store.
    pub(super) host: String,
    pub(super) windows: HashMap<TableName, Window>,
    /// Steps that were taken.
    pub(super) steps: Arc<AtomicU64>,
}

/// Why something was not done now.
#[derive(Debug, thiserror::Error)]
enum SpreadError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Tables(#[from] TableError),
}

impl Spreading {
    /// A client of its own for an account: it may wait for long.
    pub(super) fn tables(account: Account) -> Result<AzureTables, TableError> {
        AzureTables::new(account, QUERY_PATIENCE)
    }

    /// Works until nobody can ask for more.
    pub(super) fn work(self, orders: &Receiver<More>) {
        let mut has_said = false;
        loop {
            let done = self.settle();
            if let Err(error) = &done
                && !std::mem::replace(&mut has_said, true)
            {
                let waits = if self.spread.is_known() { "rows placed by it wait" } else { "files and journals wait" };
                tracing::warn!(%error, "failed to agree with the remote store on how instances are spread: {waits}");
            }
            has_said &= done.is_err();
            match orders.recv_timeout(if done.is_ok() { LOOK } else { AGAIN }) {
                Ok(more) if self.spread.is_known() => {
                    if let Err(error) = self.grow(&more) {
                        let More { table, partition, .. } = &more;
                        tracing::warn!(%error, %table, instance = %partition, "failed to spread an instance: it is tried again");
                    }
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Learns what is not known, tells what the service does not have, and forgets what is over.
    fn settle(&self) -> Result<(), SpreadError> {
        if !self.spread.is_known() {
            let planned = Notes(&self.tables).steps_of(&self.host)?;
            self.write(planned.clone())?;
            tracing::info!(instances = planned.len(), "the remote store has said how instances are spread");
            self.spread.learn(planned);
        }
        for planned in self.spread.planned() {
            if planned.steps.iter().all(|step| step.is_afar) {
                continue;
            }
            Notes(&self.tables).put_steps(&self.host, &planned)?;
            crate::failpoint!("buckets-afar");
            self.spread.note_afar(&planned);
            self.write(self.spread.planned())?;
        }
        self.forget()
    }

    fn write(&self, planned: Vec<Planned>) -> Result<(), StoreError> {
        steps::write(&self.data_dir, &Steps { host: self.host.clone(), planned })
    }

    /// Gives an instance more partitions, from the earliest time on for which nobody placed a record yet.
    fn grow(&self, more: &More) -> Result<(), SpreadError> {
        let More { table, partition, buckets } = more;
        if self.spread.buckets(table, partition).is_some_and(|has| has >= *buckets) {
            return Ok(());
        }
        let newest = self.newest(table, partition)?;
        let Some(from) = self.spread.begin(table, partition, *buckets, newest) else {
            tracing::warn!(%table, instance = %partition, "is not spread further: it has a record of the last moment of its day");
            return Ok(());
        };
        let planned = self.spread.planned();
        let written = self.write(planned.clone());
        // A file that was put in place and could not be synced is read at the next start all the same.
        let is_written = written.is_ok() || steps::read(&self.data_dir)?.is_some_and(|there| there.planned == planned);
        crate::failpoint!("buckets-kept");
        self.spread.end(is_written);
        if !is_written {
            return Ok(written?);
        }
        self.steps.fetch_add(1, Ordering::Relaxed);
        tracing::info!(%table, instance = %partition, %buckets, %from, "is throttled, and spread over more partitions");
        Ok(())
    }

    /// The time of the newest row that there is of an instance and is one of the day's: here first, as rows go from here to
    /// there.
    fn newest(&self, table: &DayTable, partition: &Arc<str>) -> Result<Option<Ticks>, SpreadError> {
        let last = Ticks::new(table.end().get() - 1).unwrap_or(Ticks::MAX);
        let mut partitions = vec![partition.to_string()];
        // However many it had once: under another configuration, too.
        partitions.extend((0..=u8::MAX).map(|bucket| format!("{partition}~{bucket:02x}")));
        let unsent = Unsent::open(&self.data_dir)?;
        let mut newest = unsent.newest_of(table, &partitions, (table.start(), last))?;
        for partition in self.partitions(table, partition)? {
            let wanted = Wanted {
                partition,
                from: newest.unwrap_or(table.start()),
                to: last,
                order: Order::NewestFirst,
                level: None,
                columns: Columns::Keys,
                rows: 1,
            };
            let mut at = None;
            loop {
                let page = self.tables.read_range(table, &wanted, at.as_ref());
                let page = match page {
                    Err(error) if error.is_not_there() => return Ok(newest),
                    page => page?,
                };
                newest = page.rows.iter().map(|row| row.key.time()).max().max(newest);
                at = page.next;
                if at.is_none() || !page.rows.is_empty() {
                    break;
                }
            }
        }
        Ok(newest)
    }

    /// The partitions that an instance has at the service.
    fn partitions(&self, table: &DayTable, partition: &Arc<str>) -> Result<Vec<Arc<str>>, SpreadError> {
        match self.tables.buckets_of(table, partition) {
            Err(error) if error.is_not_there() => Ok(Vec::new()),
            partitions => Ok(partitions?),
        }
    }

    /// Forgets days that take no records any more.
    fn forget(&self) -> Result<(), SpreadError> {
        let planned = self.spread.planned();
        if planned.is_empty() {
            return Ok(());
        }
        let Some(newest) = Unsent::open(&self.data_dir)?.newest()? else { return Ok(()) };
        let now = time::now();
        let is_over = |table: &DayTable| {
            let believed = now.min(newest.plus(clock::length(table.period(), newest)));
            self.windows.get(table.table()).is_some_and(|window| window.expired(table, believed))
        };
        for planned in planned.iter().filter(|planned| is_over(&planned.table)) {
            Notes(&self.tables).forget_steps(&self.host, planned)?;
        }
        if self.spread.forget(is_over) {
            self.write(self.spread.planned())?;
        }
        Ok(())
    }
}
