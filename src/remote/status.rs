//! The outbox, as `daytable sources` and `/api/sources` show it.

use daytable_model::bucket_plan::InstanceSteps;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::num::NonZeroU16;

/// The state of the outbox.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OutboxStatus {
    /// `outbox`.
    pub block: String,
    /// `azure`.
    pub kind: String,
    /// The address of the service, without secrets.
    pub endpoint: String,
    /// `sending`, `idle`, `failing`, `denied` or `full`. `asking`: files and journals wait for the service to return
    /// the bucket plan.
    pub state: String,
    /// Entities that wait to be sent.
    pub entities: u64,
    /// Bytes on disk.
    pub bytes: u64,
    /// Seconds since the oldest waiting entity was accepted.
    pub age_seconds: u64,
    /// Entities sent since the start.
    pub sent: u64,
    /// Entities lost or set aside since the start, by reason.
    pub losses: BTreeMap<String, u64>,
    /// The error of the last request that failed; empty after a request succeeded.
    pub last_error: String,
    /// Instances with more partitions than configured.
    #[serde(default)]
    pub spread: Vec<BucketStatus>,
}

/// The number of partitions of an instance.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BucketStatus {
    /// The day-table.
    pub table: String,
    /// The instance, by the name of its partition.
    pub instance: String,
    /// Current number of partitions.
    pub buckets: NonZeroU16,
    /// The first record time for which this number counts.
    pub from: String,
}

impl BucketStatus {
    /// The last step of an instance's plan.
    pub fn new(planned: &InstanceSteps) -> BucketStatus {
        let last = planned.steps.last();
        BucketStatus {
            table: planned.table.to_string(),
            instance: planned.partition.to_string(),
            buckets: last.map_or(NonZeroU16::MIN, |step| step.buckets),
            from: last.map_or_else(String::new, |step| step.from.to_string()),
        }
    }
}

impl OutboxStatus {
    /// Each loss with its count, then the last error. Empty if there are no losses and no failed request.
    pub fn losses(&self) -> String {
        let losses = self.losses.iter().map(|(reason, count)| format!("{reason}={count}"));
        let error = Some(self.last_error.clone()).filter(|last_error| !last_error.is_empty());
        losses.chain(error).collect::<Vec<_>>().join(" ")
    }
}
