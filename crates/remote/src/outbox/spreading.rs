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
//! journals until the service has answered once, and whoever pushes records with names of their own (a document's `_id`, an
//! entry's cursor) is told to come again. What else comes over a socket has keys that no other record ever has, and need not wait.
//! Who has a plan asks as well, once a run, and adds what the service knows more: his folder may be an older one.
//!
//! A thread of its own, as all of it may wait for the network. While it waits the sender goes on, but for the instances
//! whose steps the service does not have.

use crate::shared::Notes;
use crate::tables::AzureTables;
use daytable_azure::Account;
use daytable_lifecycle::clock;
use daytable_model::bucket_plan::BucketPlan;
use daytable_model::bucket_plan::InstanceSteps;
use daytable_model::key::{DayTable, TableName};
use daytable_model::time::{self, Ticks};
use daytable_model::window::Window;
use daytable_query::tables::{Projection, RangeQuery, RowOrder, TableError, TableStore};
use daytable_store::StoreError;
use daytable_store::outbox::OutboxReader;
use daytable_store::outbox::bucket_plans::{self, BucketPlans};
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

/// How long a request to the service is tried.
const PATIENCE: Duration = Duration::from_secs(20);

/// An instance is to have more partitions.
pub(super) struct More {
    pub(super) table: DayTable,
    pub(super) partition: Arc<str>,
    pub(super) buckets: NonZeroU16,
}

/// See the module's head.
pub(super) struct Spreading {
    pub(super) spread: Arc<BucketPlan>,
    pub(super) tables: AzureTables,
    pub(super) data_dir: PathBuf,
    /// What this daytable is called among those that share the store.
    pub(super) host: String,
    /// The service.
    pub(super) endpoint: String,
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
        AzureTables::new(account, PATIENCE)
    }

    /// Works until nobody can ask for more.
    pub(super) fn work(self, orders: &Receiver<More>) {
        let (mut has_said, mut has_asked) = (false, false);
        loop {
            let done = self.settle(&mut has_asked);
            if let Err(error) = &done
                && !std::mem::replace(&mut has_said, true)
            {
                let waits = if self.spread.is_loaded() { "rows placed by it wait" } else { "files and journals wait" };
                tracing::warn!(%error, "failed to agree with the remote store on how instances are spread: {waits}");
            }
            has_said &= done.is_err();
            match orders.recv_timeout(if done.is_ok() { LOOK } else { AGAIN }) {
                Ok(more) if has_asked => {
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
    fn settle(&self, has_asked: &mut bool) -> Result<(), SpreadError> {
        if !*has_asked {
            self.ask()?;
            *has_asked = true;
        }
        let planned = self.spread.planned();
        let mut waiting = planned.iter().filter(|planned| planned.steps.iter().any(|step| !step.is_remote)).peekable();
        let has_news = waiting.peek().is_some();
        let told = waiting.try_for_each(|planned| {
            Notes(&self.tables).put_steps(&self.host, planned)?;
            daytable_platform::failpoint!("buckets-afar");
            self.spread.mark_remote(planned);
            Ok::<_, SpreadError>(())
        });
        // Once for all: what a kill keeps from being written is told again.
        if has_news {
            self.write(self.spread.planned())?;
        }
        told?;
        self.forget()
    }

    /// Learns what the service knows, once a run. It knows more than a folder that was lost, or brought back as it was before
    /// the last steps; and nothing is told before that, as it would take the place of what the service knows.
    fn ask(&self) -> Result<(), SpreadError> {
        let mut planned = Notes(&self.tables).steps_of(&self.host)?;
        if let Some(is_over) = self.is_over()? {
            planned.retain(|planned| !is_over(&planned.table));
        }
        let (was_known, before) = (self.spread.is_loaded(), self.spread.planned());
        let known = BucketPlan::new(Some(before.clone()));
        known.load(planned.clone());
        let after = known.planned();
        if !was_known || after != before {
            self.write(after)?;
            tracing::info!(instances = planned.len(), "the remote store has said how instances are spread");
        }
        self.spread.load(planned);
        Ok(())
    }

    fn write(&self, planned: Vec<InstanceSteps>) -> Result<(), StoreError> {
        bucket_plans::write(
            &self.data_dir,
            &BucketPlans { host: self.host.clone(), endpoint: self.endpoint.clone(), planned },
        )
    }

    /// Gives an instance more partitions, from the earliest time on for which nobody placed a record yet.
    fn grow(&self, more: &More) -> Result<(), SpreadError> {
        let More { table, partition, buckets } = more;
        if self.spread.buckets(table, partition).is_some_and(|has| has >= *buckets) {
            return Ok(());
        }
        if self.is_over()?.is_some_and(|is_over| is_over(table)) {
            return Ok(());
        }
        let newest = self.newest(table, partition)?;
        let Some(from) = self.spread.begin(table, partition, *buckets, newest) else {
            tracing::warn!(%table, instance = %partition, "is not spread further: it has a record of the last moment of its day");
            return Ok(());
        };
        let begun = Begun { spread: &self.spread };
        let written = self.write_surely(&self.spread.planned());
        daytable_platform::failpoint!("buckets-kept");
        begun.end(written.is_ok());
        written?;
        self.steps.fetch_add(1, Ordering::Relaxed);
        tracing::info!(%table, instance = %partition, %buckets, %from, "is throttled, and spread over more partitions");
        Ok(())
    }

    /// Writes down, and knows whether that is so. Where a write fails and what is there cannot be read, nobody knows by which
    /// steps the next start goes, and no record may be placed by either: whoever wants to place one waits until the disk says.
    fn write_surely(&self, planned: &[InstanceSteps]) -> Result<(), StoreError> {
        loop {
            let Err(error) = self.write(planned.to_vec()) else { return Ok(()) };
            match bucket_plans::read(&self.data_dir) {
                // One that was put in place and could not be synced is read at the next start all the same.
                Ok(Some(there)) if there.planned == planned => return Ok(()),
                Ok(_) => return Err(error),
                Err(_) if self.spread.is_closed() => return Err(error),
                Err(unread) => {
                    tracing::error!(%error, %unread, "nobody knows whether a step was written down: records that it concerns wait");
                    std::thread::sleep(AGAIN);
                }
            }
        }
    }

    /// The time of the newest row that there is of an instance and is one of the day's: here first, as rows go from here to
    /// there.
    fn newest(&self, table: &DayTable, partition: &Arc<str>) -> Result<Option<Ticks>, SpreadError> {
        let last = Ticks::new(table.end().get() - 1).unwrap_or(Ticks::MAX);
        let mut partitions = vec![partition.to_string()];
        // However many it had once: under another configuration, too.
        partitions.extend((0..=u8::MAX).map(|bucket| format!("{partition}~{bucket:02x}")));
        let unsent = OutboxReader::open(&self.data_dir)?;
        let mut newest = unsent.newest_of(table, &partitions, (table.start(), last))?;
        for partition in self.partitions(table, partition)? {
            let wanted = RangeQuery {
                partition,
                from: newest.unwrap_or(table.start()),
                to: last,
                order: RowOrder::NewestFirst,
                level: None,
                columns: Projection::Keys,
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

    /// Forgets days that take no records any more. The service knows of them for as long as there is the table or an archive of
    /// it, which have their names; who drops the last forgets them there.
    fn forget(&self) -> Result<(), SpreadError> {
        if self.spread.is_empty() {
            return Ok(());
        }
        let Some(is_over) = self.is_over()? else { return Ok(()) };
        if self.spread.forget(is_over) {
            self.write(self.spread.planned())?;
        }
        Ok(())
    }

    /// Which days take no records any more; none where there is no record whose word can be taken for it.
    fn is_over(&self) -> Result<Option<impl Fn(&DayTable) -> bool>, SpreadError> {
        let Some(newest) = OutboxReader::open(&self.data_dir)?.newest()? else { return Ok(None) };
        let now = time::now();
        Ok(Some(move |table: &DayTable| {
            let believed = now.min(newest.plus(clock::length(table.period(), newest)));
            self.windows.get(table.table()).is_some_and(|window| window.expired(table, believed))
        }))
    }
}

/// A step that was begun and ends whatever happens: who waits for it would wait for ever.
struct Begun<'s> {
    spread: &'s BucketPlan,
}

impl Begun<'_> {
    fn end(self, is_written: bool) {
        self.spread.end(is_written);
    }
}

impl Drop for Begun<'_> {
    fn drop(&mut self) {
        // Where it has ended, this ends nothing.
        self.spread.end(false);
    }
}
