//! What is counted of the outbox and the remote store behind it.

use super::naming::{Naming, powers};
use prometheus::{Gauge, Histogram, IntCounter, IntCounterVec, IntGauge};

/// See the module's head. All stand at zero where there is no remote store.
pub struct RemoteMetrics {
    /// Entities that wait to be sent.
    pub outbox_entities: IntGauge,
    /// Bytes on disk that the outbox takes.
    pub outbox_bytes: IntGauge,
    /// Seconds since the oldest of it was accepted.
    pub outbox_age_seconds: Gauge,
    /// Whether it is full.
    pub outbox_full: IntGauge,
    /// Requests by `code`: the status of their answer, of the part of it that failed where one did; `none` without one.
    pub requests: IntCounterVec,
    /// Requests that were sent again.
    pub retries: IntCounter,
    /// Answers that said that there is too much.
    pub throttled: IntCounter,
    /// Instances, a day-table each, that have more partitions than is configured.
    pub spread_instances: IntGauge,
    /// The most that one of them has.
    pub spread_buckets_max: IntGauge,
    /// Times that one was given more.
    pub spread_steps: IntCounter,
    /// Whether files and journals wait for the remote store to say how instances were spread.
    pub spread_pending: IntGauge,
    /// Entities of a transaction that was done.
    pub transaction_entities: Histogram,
    /// Entities that are there.
    pub entities_sent: IntCounter,
    /// Whether the service refuses this daytable.
    pub denied: IntGauge,
    /// Entities that were set aside, by `reason`.
    pub dead_letters: IntCounterVec,
}

impl RemoteMetrics {
    pub(super) fn new(all: &Naming) -> RemoteMetrics {
        RemoteMetrics {
            outbox_entities: all.gauge("outbox_entities", "Entities that wait to be sent."),
            outbox_bytes: all.gauge("outbox_bytes", "Bytes on disk that the outbox takes."),
            outbox_age_seconds: all.float("outbox_oldest_age_seconds", "Age of the oldest entity that waits."),
            outbox_full: all.gauge("outbox_full", "1 while the outbox is full."),
            requests: all.counters("remote_requests_total", "Requests to the remote store.", &["code"]),
            retries: all.counter("remote_retries_total", "Requests to the remote store that were sent again."),
            throttled: all.counter("remote_throttled_total", "Answers of the remote store that it is too much."),
            spread_instances: all
                .gauge("spread_instances", "Instances of a day-table with more partitions than configured."),
            spread_buckets_max: all.gauge("spread_buckets_max", "Most partitions that an instance is spread over."),
            spread_steps: all.counter("spread_steps_total", "Times that an instance was spread over more partitions."),
            spread_pending: all.gauge("spread_pending", "1 while files wait to hear how instances were spread."),
            transaction_entities: all.histogram(
                "remote_transaction_entities",
                "Entities of a transaction that was done.",
                powers(1.0, 2.0, 7).into_iter().chain([100.0]).collect(),
            ),
            entities_sent: all.counter("remote_entities_sent_total", "Entities that the remote store took."),
            denied: all.gauge("remote_denied", "1 while the remote store does not let this daytable in."),
            dead_letters: all.counters("dead_letters_total", "Entities that were set aside.", &["reason"]),
        }
    }
}
