//! Writes losses to the ledger (the counts of records by source that the store keeps), so that they survive a restart:
//! records that listeners lost and refused, and rows that left the outbox unsent.
//!
//! A commit records its own rows; a lost record has no commit. So the counters are read every [`CHECK_INTERVAL`].
//!
//! 1. A new loss is submitted at once. Bytes without a loss are submitted every [`BYTES_INTERVAL`], and at the stop.
//! 2. A kill loses the counts of the last second.
//! 3. No count is entered twice: a report counts as written only after its commit.

use crate::metrics::CounterRegistry;
use daytable_platform::reloadable::Reloadable;
use daytable_store::{Ack, CommitQueue, SourceReceipt, Submission};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How often the counters are read.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How often bytes without a loss are written.
const BYTES_INTERVAL: Duration = Duration::from_secs(10);

/// By kind and name of the source: bytes received, and losses by reason.
type Counts = BTreeMap<(&'static str, String), (u64, BTreeMap<String, u64>)>;

/// Writes losses to the ledger.
pub(super) struct LossReporter {
    pub(super) counters: Reloadable<CounterRegistry>,
    pub(super) queue: CommitQueue,
    /// Reads how many rows left the outbox unsent, by reason, if there is a remote store.
    pub(super) outbox: Option<UnsentCounts>,
}

/// Returns their number since the start.
pub(super) type UnsentCounts = Box<dyn Fn() -> BTreeMap<String, u64> + Send + Sync>;

impl LossReporter {
    /// Works until the sender of `stopped` is dropped, and then writes the last counts. Sources and outbox have ended by
    /// then.
    pub(super) async fn work(self, mut stopped: oneshot::Receiver<()>) {
        let (mut reported, mut last) = (Counts::new(), Instant::now());
        while tokio::time::timeout(CHECK_INTERVAL, &mut stopped).await.is_err() {
            let now = self.counts();
            let receipts = since(&reported, &now);
            if is_due(&receipts, last.elapsed()) && self.submit(receipts).await {
                (reported, last) = (now, Instant::now());
            }
        }
        let receipts = since(&reported, &self.counts());
        if !receipts.is_empty() {
            self.submit(receipts).await;
        }
    }

    /// Submits a report and returns whether it was committed. The store may have no room, so a separate thread waits.
    async fn submit(&self, receipts: Vec<SourceReceipt>) -> bool {
        let queue = self.queue.clone();
        let (sender, commit) = mpsc::channel();
        // A stop must not wait for the interval, which may be a minute.
        let ack = Ack::awaited(move |is_committed| {
            // The receiver waits below.
            let _ = sender.send(is_committed);
        });
        let submission = Submission { receipts, epoch: queue.epoch(), ack, ..Submission::default() };
        let is_committed =
            tokio::task::spawn_blocking(move || queue.submit(submission).is_ok() && commit.recv() == Ok(true));
        is_committed.await.unwrap_or(false)
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::new();
        // Blocks of one name count together.
        for source in &self.counters.load().unreplayable {
            let (bytes, losses) = counts.entry((source.kind.name, source.name.clone())).or_default();
            *bytes += source.bytes.load(Ordering::Relaxed);
            for (reason, count) in source.losses() {
                *losses.entry(reason).or_default() += count;
            }
        }
        if let Some(unsent) = &self.outbox {
            counts.insert(("outbox", "outbox".to_owned()), (0, unsent()));
        }
        counts
    }
}

/// Whether a report is due, `after` the last one.
fn is_due(receipts: &[SourceReceipt], after: Duration) -> bool {
    receipts.iter().any(|receipt| !receipt.losses.is_empty()) || (!receipts.is_empty() && after >= BYTES_INTERVAL)
}

/// The counts since the last report.
fn since(reported: &Counts, now: &Counts) -> Vec<SourceReceipt> {
    let none = (0, BTreeMap::new());
    let each = now.iter().filter_map(|(source, (bytes, losses))| {
        let (reported_bytes, reported_losses) = reported.get(source).unwrap_or(&none);
        let more = |(reason, count): (&String, &u64)| {
            let more = count.saturating_sub(reported_losses.get(reason).copied().unwrap_or(0));
            (more > 0).then(|| (reason.clone(), more))
        };
        let losses: Vec<(String, u64)> = losses.iter().filter_map(more).collect();
        let bytes = bytes.saturating_sub(*reported_bytes);
        let receipt = SourceReceipt { bytes, losses, ..SourceReceipt::records(source.0, &*source.1, 0) };
        (receipt.bytes > 0 || !receipt.losses.is_empty()).then_some(receipt)
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_count_is_reported_once() {
        let counts = |bytes, kernel| {
            Counts::from([(("syslog", "udp".to_owned()), (bytes, BTreeMap::from([("kernel".to_owned(), kernel)])))])
        };
        let receipts = since(&Counts::new(), &counts(7, 3));
        assert_eq!((receipts[0].bytes, &receipts[0].losses), (7, &vec![("kernel".to_owned(), 3)]));
        assert_eq!(since(&counts(7, 3), &counts(7, 3)), []);
        let receipts = since(&counts(7, 3), &counts(9, 5));
        assert_eq!((receipts[0].bytes, &receipts[0].losses), (2, &vec![("kernel".to_owned(), 2)]));
    }

    #[test]
    fn losses_are_due_at_once_and_bytes_after_an_interval() {
        let bytes = SourceReceipt { bytes: 7, ..SourceReceipt::records("syslog", "udp", 0) };
        let lost = SourceReceipt { losses: vec![("kernel".to_owned(), 1)], ..bytes.clone() };
        assert!(!is_due(&[], BYTES_INTERVAL));
        assert!(
            !is_due(std::slice::from_ref(&bytes), CHECK_INTERVAL)
                && is_due(std::slice::from_ref(&bytes), BYTES_INTERVAL)
        );
        assert!(is_due(&[bytes, lost], Duration::ZERO));
    }
}
