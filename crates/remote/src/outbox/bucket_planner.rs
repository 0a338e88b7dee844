//! Agrees with the service on the number of partitions of each instance, and stores the number before its use.
//!
//! ```text
//! throttled ──► step: after the last lease ──► buckets.json ──► in effect ──► DaytableBuckets ──► rows placed by it are sent
//!                 └ and after the newest row       └ synced                       └ a row for each instance and day-table
//!                   in the outbox and at the service
//! ```
//!
//! **The order keeps each record in its partition.** A step is on disk before it places a record. A step is at the
//! service before the first row that it placed is sent. So after a kill at any point, the existing steps are those
//! that placed the existing rows. A host that lost its data folder loads the steps of its sent rows from the service.
//! Unsent rows are lost with the folder, possibly together with their step.
//!
//! **Until the steps are loaded**, no row may be placed that can be read again. With an empty folder, files and
//! journals wait for the first answer of the service. Pushed records with their own names (a document's `_id`, a
//! journal cursor) are answered with "try again". Other rows from sockets have unique keys and do not wait. With a
//! plan on disk, each run still asks the service once, because the folder may be an old copy.
//!
//! The planner has its own thread, because it may wait for the network. Meanwhile the sender continues, except for
//! instances whose steps are not yet at the service.

use crate::shared::Notes;
use crate::tables::AzureTables;
use daytable_azure::StorageAccount;
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

/// Delay before a retry.
const RETRY_AFTER: Duration = Duration::from_secs(2);
/// Interval between removals of days that are over.
const FORGET_EVERY: Duration = Duration::from_secs(60);

/// Time limit for a request to the service, including retries.
const PATIENCE: Duration = Duration::from_secs(20);

/// A request for more partitions of an instance.
pub(super) struct BucketOrder {
    pub(super) table: DayTable,
    pub(super) partition: Arc<str>,
    pub(super) buckets: NonZeroU16,
}

/// The planner's thread and its inputs.
pub(super) struct BucketPlanner {
    pub(super) plan: Arc<BucketPlan>,
    pub(super) tables: AzureTables,
    pub(super) data_dir: PathBuf,
    /// The name of this daemon among the daemons that share the store.
    pub(super) host: String,
    /// The address of the service.
    pub(super) endpoint: String,
    pub(super) windows: HashMap<TableName, Window>,
    /// Counts steps.
    pub(super) steps: Arc<AtomicU64>,
}

/// Why an attempt failed.
#[derive(Debug, thiserror::Error)]
enum PlannerError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Tables(#[from] TableError),
}

impl BucketPlanner {
    /// A separate client, because its requests may be slow.
    pub(super) fn tables(account: StorageAccount) -> Result<AzureTables, TableError> {
        AzureTables::new(account, PATIENCE)
    }

    /// Works until the sender has ended.
    pub(super) fn run(self, orders: &Receiver<BucketOrder>) {
        let (mut has_logged, mut is_loaded) = (false, false);
        loop {
            let done = self.synchronize(&mut is_loaded);
            if let Err(error) = &done
                && !std::mem::replace(&mut has_logged, true)
            {
                let waits = if self.plan.is_loaded() {
                    "rows of instances that were spread anew wait"
                } else {
                    "files and journals wait"
                };
                tracing::warn!(%error, "failed to agree with the remote store on how instances are spread: {waits}");
            }
            has_logged &= done.is_err();
            match orders.recv_timeout(if done.is_ok() { FORGET_EVERY } else { RETRY_AFTER }) {
                Ok(order) if is_loaded => {
                    if let Err(error) = self.take_step(&order) {
                        let BucketOrder { table, partition, .. } = &order;
                        tracing::warn!(%error, %table, instance = %partition, "failed to spread an instance, retrying");
                    }
                }
                Ok(_) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    /// Loads the plan once, sends the missing steps to the service, and removes days that are over.
    fn synchronize(&self, is_loaded: &mut bool) -> Result<(), PlannerError> {
        if !*is_loaded {
            self.load()?;
            *is_loaded = true;
        }
        let planned = self.plan.planned();
        let mut waiting = planned.iter().filter(|planned| planned.steps.iter().any(|step| !step.is_remote)).peekable();
        let has_unsent = waiting.peek().is_some();
        let sent = waiting.try_for_each(|planned| {
            Notes(&self.tables).put_steps(&self.host, planned)?;
            daytable_platform::failpoint!("buckets-afar");
            self.plan.mark_remote(planned);
            Ok::<_, PlannerError>(())
        });
        // After a kill before this write, the next run sends the steps again.
        if has_unsent {
            self.write(self.plan.planned())?;
        }
        sent?;
        self.forget()
    }

    /// Loads the steps from the service, once per run. The data folder may be new, or a copy from before the last
    /// steps. No step is sent before, because that would overwrite the steps at the service.
    fn load(&self) -> Result<(), PlannerError> {
        let mut planned = Notes(&self.tables).steps_of(&self.host)?;
        if let Some(is_over) = self.is_over()? {
            planned.retain(|planned| !is_over(&planned.table));
        }
        let (was_known, before) = (self.plan.is_loaded(), self.plan.planned());
        let known = BucketPlan::new(Some(before.clone()));
        known.load(planned.clone());
        let after = known.planned();
        if !was_known || after != before {
            self.write(after)?;
            tracing::info!(instances = planned.len(), "the remote store has said how instances are spread");
        }
        self.plan.load(planned);
        Ok(())
    }

    fn write(&self, planned: Vec<InstanceSteps>) -> Result<(), StoreError> {
        bucket_plans::write(
            &self.data_dir,
            &BucketPlans { host: self.host.clone(), endpoint: self.endpoint.clone(), planned },
        )
    }

    /// Gives an instance more partitions, from the earliest record time without placed records.
    fn take_step(&self, order: &BucketOrder) -> Result<(), PlannerError> {
        let BucketOrder { table, partition, buckets } = order;
        if self.plan.buckets(table, partition).is_some_and(|has| has >= *buckets) {
            return Ok(());
        }
        if self.is_over()?.is_some_and(|is_over| is_over(table)) {
            return Ok(());
        }
        let newest = self.newest(table, partition)?;
        let Some(from) = self.plan.begin(table, partition, *buckets, newest) else {
            tracing::warn!(%table, instance = %partition, "an instance is not spread over more partitions on this day: it has a record of the last moment of the day");
            return Ok(());
        };
        let guard = StepGuard { plan: &self.plan };
        let written = self.write_or_wait(&self.plan.planned());
        daytable_platform::failpoint!("buckets-kept");
        guard.end(written.is_ok());
        written?;
        self.steps.fetch_add(1, Ordering::Relaxed);
        tracing::info!(%table, instance = %partition, %buckets, %from, "an instance is throttled, and spread over more partitions");
        Ok(())
    }

    /// Writes the plan durably. If the write fails and the file is unreadable, the next start might load either plan.
    /// Then no record may be placed, and callers wait until the disk answers.
    fn write_or_wait(&self, planned: &[InstanceSteps]) -> Result<(), StoreError> {
        loop {
            let Err(error) = self.write(planned.to_vec()) else { return Ok(()) };
            match bucket_plans::read(&self.data_dir) {
                // The new file is in place but not synced; the next start loads it.
                Ok(Some(there)) if there.planned == planned => return Ok(()),
                Ok(_) => return Err(error),
                Err(_) if self.plan.is_closed() => return Err(error),
                Err(unread) => {
                    tracing::error!(%error, %unread, "failed to write how instances are spread, and to read it back: records of this instance wait, retrying");
                    std::thread::sleep(RETRY_AFTER);
                }
            }
        }
    }

    /// The time of an instance's newest row in a day. The outbox is read first, because rows move from the outbox to
    /// the service.
    fn newest(&self, table: &DayTable, partition: &Arc<str>) -> Result<Option<Ticks>, PlannerError> {
        let last = Ticks::new(table.end().get() - 1).unwrap_or(Ticks::MAX);
        let mut partitions = vec![partition.to_string()];
        // Another configuration may have used any number of buckets.
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

    /// The partitions of an instance at the service.
    fn partitions(&self, table: &DayTable, partition: &Arc<str>) -> Result<Vec<Arc<str>>, PlannerError> {
        match self.tables.buckets_of(table, partition) {
            Err(error) if error.is_not_there() => Ok(Vec::new()),
            partitions => Ok(partitions?),
        }
    }

    /// Removes days that accept no more records. The service keeps their steps while the table or an archive exists.
    /// The drop of the last of them removes the steps.
    fn forget(&self) -> Result<(), PlannerError> {
        if self.plan.is_empty() {
            return Ok(());
        }
        let Some(is_over) = self.is_over()? else { return Ok(()) };
        if self.plan.forget(is_over) {
            self.write(self.plan.planned())?;
        }
        Ok(())
    }

    /// Tests whether a day accepts no more records. `None` if no record time confirms the clock.
    fn is_over(&self) -> Result<Option<impl Fn(&DayTable) -> bool>, PlannerError> {
        let Some(newest) = OutboxReader::open(&self.data_dir)?.newest()? else { return Ok(None) };
        let now = time::now();
        Ok(Some(move |table: &DayTable| {
            let believed = now.min(newest.plus(clock::length(table.period(), newest)));
            self.windows.get(table.table()).is_some_and(|window| window.expired(table, believed))
        }))
    }
}

/// Ends a step on every path, because callers wait for the end.
struct StepGuard<'s> {
    plan: &'s BucketPlan,
}

impl StepGuard<'_> {
    fn end(self, is_written: bool) {
        self.plan.end(is_written);
    }
}

impl Drop for StepGuard<'_> {
    fn drop(&mut self) {
        // Has no effect if the step has ended.
        self.plan.end(false);
    }
}
