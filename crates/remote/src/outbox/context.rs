//! Shared by the parts of the sender: the client, the committer, the counters and the configuration.

use super::bucket_planner::BucketOrder;
use super::counters::OutboxCounters;
use super::event::Event;
use daytable_azure::Client;
use daytable_lifecycle::clock;
use daytable_model::bucket_plan::BucketPlan;
use daytable_model::key::{DayTable, TableName};
use daytable_model::time::{self, Ticks};
use daytable_model::window::Window;
use daytable_store::OutboxRemover;
use std::collections::HashMap;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::mpsc;

/// The shared parts.
pub(super) struct Context {
    pub(super) client: Client,
    pub(super) runtime: tokio::runtime::Handle,
    pub(super) remover: OutboxRemover,
    pub(super) counters: Arc<OutboxCounters>,
    pub(super) windows: HashMap<TableName, Window>,
    /// The configured number of partitions of an instance.
    pub(super) buckets_min: HashMap<TableName, NonZeroU16>,
    pub(super) bucket_plan: Arc<BucketPlan>,
    pub(super) bucket_orders: mpsc::Sender<BucketOrder>,
    pub(super) on_landed: Box<dyn Fn(usize) + Send>,
    pub(super) events: mpsc::Sender<Event>,
}

impl Context {
    /// Partitions that an instance has in a day-table since its last step.
    pub(super) fn buckets(&self, table: &DayTable, partition: &str) -> NonZeroU16 {
        let least = self.buckets_min.get(table.table()).copied().unwrap_or(NonZeroU16::MIN);
        self.bucket_plan.buckets(table, partition).unwrap_or(least).max(least)
    }

    /// Asks for `buckets` partitions of an instance, if it has fewer.
    pub(super) fn order_buckets(&self, table: DayTable, partition: &Arc<str>, buckets: NonZeroU16) {
        if self.buckets(&table, partition) < buckets {
            // `Outbox::has_ended` reports an ended thread.
            let _ = self.bucket_orders.send(BucketOrder { table, partition: partition.clone(), buckets });
        }
    }

    /// Whether a day has expired by the wall clock alone.
    pub(super) fn is_expired_by_clock(&self, day: &DayTable) -> bool {
        self.windows.get(day.table()).is_some_and(|window| window.expired(day, time::now()))
    }

    /// Whether a day has expired by the wall clock, which is believed up to one period after the `newest` record time.
    pub(super) fn is_expired(&self, day: &DayTable, newest: Option<Ticks>) -> bool {
        let (Some(window), Some(newest)) = (self.windows.get(day.table()), newest) else { return false };
        window.expired(day, time::now().min(newest.plus(clock::length(day.period(), newest))))
    }
}
