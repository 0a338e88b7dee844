//! What the endpoints count, for the metrics to show.

use super::Refusal;
use crate::rows::{Tally, count};
use std::sync::atomic::{AtomicU64, Ordering};

/// Counts of one endpoint.
#[derive(Debug)]
pub struct EndpointCounters {
    /// Its name among the metrics, the `source` of its records.
    pub name: &'static str,
    /// What became of its records.
    pub tally: Tally,
    /// Bytes of bodies as they came.
    pub body_bytes: AtomicU64,
    /// Bytes of bodies decoded.
    pub bytes: AtomicU64,
    /// Records that were refused alone.
    pub records_refused: AtomicU64,
    /// Requests that repeated one of the same idempotency key.
    pub repeated: AtomicU64,
    refused: [AtomicU64; Refusal::REASONS.len()],
}

impl EndpointCounters {
    pub(super) fn new(name: &'static str) -> EndpointCounters {
        EndpointCounters {
            name,
            tally: Tally::default(),
            body_bytes: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            records_refused: AtomicU64::new(0),
            repeated: AtomicU64::new(0),
            refused: Default::default(),
        }
    }

    /// Counts a request that was refused as a whole.
    pub fn refuse(&self, refusal: &Refusal) {
        count(&self.refused[refusal.number()], 1);
    }

    /// Requests that were refused as a whole, by reason.
    pub fn refused(&self) -> impl Iterator<Item = (&'static str, u64)> {
        Refusal::REASONS.into_iter().zip(&self.refused).map(|(reason, count)| (reason, count.load(Ordering::Relaxed)))
    }
}
