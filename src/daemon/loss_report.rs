//! What listeners lost and refused, and what went from an outbox unsent, is written to the ledger, so that it outlives the
//! daemon that saw it.
//!
//! Records are entered by the commit that holds them; what was lost has none. So counts are looked at every [`LOOK`]: where
//! something was lost since the last time it is handed to the store at once, however much it is, and bytes alone every
//! [`EVERY`], and at the stop. A kill takes along what was lost in the second before it; nothing is ever entered twice, as
//! what a failed commit refused counts as not said.

use crate::metrics::CounterRegistry;
use daytable_platform::reloadable::Reloadable;
use daytable_store::{Ack, CommitQueue, SourceReceipt, Submission};
use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::{Duration, Instant};
use tokio::sync::oneshot;

/// How often counts are looked at.
const LOOK: Duration = Duration::from_secs(1);
/// How often bytes are written that came with no loss.
const EVERY: Duration = Duration::from_secs(10);

/// By kind and name: bytes that came, and losses by reason.
type Counts = BTreeMap<(&'static str, String), (u64, BTreeMap<String, u64>)>;

/// What writes losses down.
pub(super) struct LossReporter {
    pub(super) counters: Reloadable<CounterRegistry>,
    pub(super) intake: CommitQueue,
    /// Rows that went from the outbox unsent, by reason, where there is one.
    pub(super) outbox: Option<UnsentCounts>,
}

/// Gives how many they are since the start.
pub(super) type UnsentCounts = Box<dyn Fn() -> BTreeMap<String, u64> + Send + Sync>;

impl LossReporter {
    /// Works until the other end of `stopped` is gone, and writes the last ones then: sources and outbox have ended by that
    /// time.
    pub(super) async fn work(self, mut stopped: oneshot::Receiver<()>) {
        let (mut said, mut last) = (Counts::new(), Instant::now());
        while tokio::time::timeout(LOOK, &mut stopped).await.is_err() {
            let now = self.counts();
            let taken = since(&said, &now);
            if is_due(&taken, last.elapsed()) && self.say(taken).await {
                (said, last) = (now, Instant::now());
            }
        }
        let taken = since(&said, &self.counts());
        if !taken.is_empty() {
            self.say(taken).await;
        }
    }

    /// Whether it is in the ledger now. The store may have no room, so this waits on a thread of its own, which is there
    /// only while something comes.
    async fn say(&self, taken: Vec<SourceReceipt>) -> bool {
        let intake = self.intake.clone();
        let (told, hears) = mpsc::channel();
        // A stop must not wait for the interval, which may be a minute.
        let done = Ack::awaited(move |is_committed| {
            // Whoever hears waits below.
            let _ = told.send(is_committed);
        });
        let submission = Submission { receipts: taken, epoch: intake.epoch(), ack: done, ..Submission::default() };
        let said = tokio::task::spawn_blocking(move || intake.submit(submission).is_ok() && hears.recv() == Ok(true));
        said.await.unwrap_or(false)
    }

    fn counts(&self) -> Counts {
        let mut counts = Counts::new();
        // Blocks of one name count together.
        for source in &self.counters.load().unreplayable {
            let (bytes, losses) = counts.entry((source.kind, source.name.clone())).or_default();
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

/// Whether what was counted since is to be written now, so long after the last time.
fn is_due(taken: &[SourceReceipt], after: Duration) -> bool {
    taken.iter().any(|taken| !taken.losses.is_empty()) || (!taken.is_empty() && after >= EVERY)
}

/// What was counted since it was said last.
fn since(said: &Counts, now: &Counts) -> Vec<SourceReceipt> {
    let none = (0, BTreeMap::new());
    let each = now.iter().filter_map(|(who, (bytes, losses))| {
        let (said_bytes, said_losses) = said.get(who).unwrap_or(&none);
        let more = |(reason, count): (&String, &u64)| {
            let more = count.saturating_sub(said_losses.get(reason).copied().unwrap_or(0));
            (more > 0).then(|| (reason.clone(), more))
        };
        let losses: Vec<(String, u64)> = losses.iter().filter_map(more).collect();
        let bytes = bytes.saturating_sub(*said_bytes);
        let taken = SourceReceipt { bytes, losses, ..SourceReceipt::records(who.0, &*who.1, 0) };
        (taken.bytes > 0 || !taken.losses.is_empty()).then_some(taken)
    });
    each.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_said_is_not_said_again() {
        let counts = |bytes, kernel| {
            Counts::from([(("syslog", "udp".to_owned()), (bytes, BTreeMap::from([("kernel".to_owned(), kernel)])))])
        };
        let taken = since(&Counts::new(), &counts(7, 3));
        assert_eq!((taken[0].bytes, &taken[0].losses), (7, &vec![("kernel".to_owned(), 3)]));
        assert_eq!(since(&counts(7, 3), &counts(7, 3)), []);
        let taken = since(&counts(7, 3), &counts(9, 5));
        assert_eq!((taken[0].bytes, &taken[0].losses), (2, &vec![("kernel".to_owned(), 2)]));
    }

    #[test]
    fn losses_are_written_at_once_and_bytes_now_and_then() {
        let bytes = SourceReceipt { bytes: 7, ..SourceReceipt::records("syslog", "udp", 0) };
        let lost = SourceReceipt { losses: vec![("kernel".to_owned(), 1)], ..bytes.clone() };
        assert!(!is_due(&[], EVERY));
        assert!(!is_due(std::slice::from_ref(&bytes), LOOK) && is_due(std::slice::from_ref(&bytes), EVERY));
        assert!(is_due(&[bytes, lost], Duration::ZERO));
    }
}
