//! Counters of sources: for the metrics, the ledger, and `daytable sources`.
//!
//! Every block of every kind of source has one [`SourceCounters`]. A count that all kinds have is a field. A count that
//! only some kinds have is a [`SourceEvent`]. A source [declares](SourceCounters::declare) its events when it starts,
//! because a rate needs a zero before the first event. A block that leaves the configuration keeps its counters,
//! because a counter never falls.

use crate::sender_clocks::{ClockOff, SenderClocks};
use daytable_model::record::Level;
use daytable_model::time::Ticks;
use daytable_model::window::Admission;
use daytable_net::KernelDrops;
use daytable_parse::Format;
use daytable_platform::lock;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

/// Codes of levels, with that of a record without one.
pub(crate) const LEVEL_CODES: usize = Level::ALL.len() + 1;

/// A kind of source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IntakeKind {
    /// Its name, as the ledger and `daytable sources` have it: `tail`, `syslog`, `journal` or `push`.
    pub name: &'static str,
    /// The settings at which records are cut: the reasons of the metric for truncated records.
    pub cut_at: &'static [&'static str],
}

/// An event that only some kinds of sources count. The metric of an event may have a label `reason`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum SourceEvent {
    /// A file, a folder or a journal could not be read.
    ReadError,
    /// A file was rotated away or truncated.
    Rotation,
    /// A file was rewritten at its path, with changes in bytes that were read already. It is read again.
    Rewrite,
    /// A line without an end became a record.
    LineUnended,
    /// A line that had become a record without an end went on. What came is a record of its own.
    LineContinued,
    /// Bytes that were destroyed before they were read.
    BytesDestroyed,
    /// Bytes that the configuration excludes.
    BytesSkipped,
    /// The entry at which reading a journal should resume was missing.
    JournalGap,
    /// Records that were lost or refused, by reason.
    RecordsDropped(&'static str),
    /// Records that were dropped because their sender exceeded a limit, by limit.
    RecordsLimited(&'static str),
    /// A sender exceeded a limit and was not read from for a while, by limit.
    SenderPaced(&'static str),
    /// Datagrams that the kernel dropped before they were read.
    KernelDrops,
    /// A connection was accepted.
    ConnectionAccepted,
    /// A connection was closed by this side, by reason.
    ConnectionClosed(&'static str),
    /// A certificate changed and could not be read.
    CertificateReloadFailed,
    /// Bytes of request bodies as they came, before they were decoded.
    BodyBytes,
    /// A request was refused as a whole, by reason.
    BodyRefused(&'static str),
    /// A request repeated an earlier one with the same idempotency key.
    PushRepeated,
    /// Entries that were stored before, and so were not stored again.
    EntryRepeated,
    /// Parts of accepted bodies that the endpoint does not know, and so did not store.
    PartsUnread,
}

/// Counters of one block, or of one endpoint for pushes.
#[derive(Debug, Default)]
pub struct SourceCounters {
    /// The kind of source.
    pub kind: IntakeKind,
    /// The name of the block.
    pub name: String,
    /// Records that were read. Those that are read again after a failed commit count again.
    pub records: AtomicU64,
    /// Bytes that were read: newlines and framing included, TLS and compression not.
    pub bytes: AtomicU64,
    /// Records by format, in the order of [`Format::ALL`].
    pub by_format: [AtomicU64; Format::ALL.len()],
    /// Records by level: those without one, then in the order of [`Level::ALL`].
    pub by_level: [AtomicU64; LEVEL_CODES],
    /// Records that were cut at a limit.
    pub truncated: AtomicU64,
    /// Records with bytes that are not UTF-8.
    pub invalid_utf8: AtomicU64,
    /// Committed records, if the source counts them.
    pub committed: AtomicU64,
    /// Connections that are open now.
    pub connections: AtomicU64,
    /// Files that are followed now.
    pub followed_files: AtomicU64,
    /// Files that are open now.
    pub open_files: AtomicU64,
    /// Unread bytes of the file that has most of them, now.
    pub lag_bytes: AtomicU64,
    /// The time since which the oldest unread byte or entry waits, in ticks; zero if everything is read.
    pub unread_since: AtomicU64,
    events: Mutex<BTreeMap<SourceEvent, u64>>,
    misplaced: Mutex<BTreeMap<String, [u64; 2]>>,
    listener: Mutex<ListenerSocket>,
    /// Files that end in a line without an end, which waits, and the bytes of the line.
    unended: Mutex<Vec<(PathBuf, u64)>>,
    /// Of a listener whose records come as they are made.
    clocks: Mutex<SenderClocks>,
}

/// The socket of a listener.
#[derive(Debug, Default)]
struct ListenerSocket {
    address: String,
    drops: Option<Arc<KernelDrops>>,
}

impl SourceCounters {
    /// Counters at zero.
    pub fn new(kind: IntakeKind, name: &str) -> SourceCounters {
        SourceCounters { kind, name: name.into(), ..SourceCounters::default() }
    }

    /// Counters at zero that show these events.
    pub fn with_events(kind: IntakeKind, name: &str, events: impl IntoIterator<Item = SourceEvent>) -> SourceCounters {
        let counters = SourceCounters::new(kind, name);
        counters.declare(events);
        counters
    }

    /// The counters of the block `name` among `all`; new ones are added to `all`.
    pub fn resume(
        all: &mut Vec<Arc<SourceCounters>>,
        name: &str,
        create: impl FnOnce() -> SourceCounters,
    ) -> Arc<SourceCounters> {
        if let Some(counters) = all.iter().find(|counters| counters.name == name) {
            return counters.clone();
        }
        let counters = Arc::new(create());
        all.push(counters.clone());
        counters
    }

    /// Shows these events from now on, with a zero if they have not happened yet.
    pub fn declare(&self, events: impl IntoIterator<Item = SourceEvent>) {
        let mut counts = lock(&self.events);
        for event in events {
            counts.entry(event).or_default();
        }
    }

    /// Sets the files that end in a line without an end, with the bytes of that line.
    pub(crate) fn set_unended<'p>(&self, files: impl Iterator<Item = (&'p PathBuf, u64)>) {
        let mut unended = lock(&self.unended);
        unended.clear();
        unended.extend(files.map(|(path, bytes)| (path.clone(), bytes)));
    }

    /// The files that end in a line without an end, which waits for it, with the bytes of that line.
    pub fn unended(&self) -> Vec<(PathBuf, u64)> {
        lock(&self.unended).clone()
    }

    /// Compares the time of a record with its arrival.
    pub(crate) fn compare_clock(&self, instance: &str, time: Ticks, now: Ticks) {
        lock(&self.clocks).record(instance, time, now);
    }

    /// The senders whose clocks are off.
    pub fn clocks_off(&self) -> Vec<ClockOff> {
        lock(&self.clocks).off()
    }

    /// Counts a record.
    pub(crate) fn count_record(&self, level: Option<Level>) {
        count(&self.records, 1);
        count(&self.by_level[usize::from(level.map_or(0, Level::code))], 1);
    }

    /// Counts records of a format by their level: each number is at the code of its level, 0 for records without one.
    pub(crate) fn count_records(&self, format: Format, by_level: &[u64; LEVEL_CODES]) {
        let records: u64 = by_level.iter().sum();
        if records > 0 {
            count(&self.records, records);
            count(&self.by_format[format.number()], records);
            self.by_level.iter().zip(by_level).for_each(|(counter, records)| count(counter, *records));
        }
    }

    /// Counts an event `by` times.
    pub fn count(&self, event: SourceEvent, by: u64) {
        if by > 0 {
            *lock(&self.events).entry(event).or_default() += by;
        }
    }

    /// How often an event happened.
    pub fn event(&self, event: SourceEvent) -> u64 {
        lock(&self.events).get(&event).copied().unwrap_or(0)
    }

    /// The events that were declared or happened, with their counts. The kernel is asked for the datagrams it dropped.
    pub fn events(&self) -> BTreeMap<SourceEvent, u64> {
        let drops = lock(&self.listener).drops.clone();
        if let Some(drops) = drops {
            self.count(SourceEvent::KernelDrops, drops.report());
        }
        lock(&self.events).clone()
    }

    /// The counts of lost, cut or refused records by the reason in the ledger, without zeros.
    pub fn losses(&self) -> BTreeMap<String, u64> {
        let cut = [("truncated_records", &self.truncated), ("invalid_utf8_records", &self.invalid_utf8)];
        let cut = cut.map(|(reason, count)| (reason.to_owned(), count.load(Ordering::Relaxed)));
        let events = lock(&self.events).clone().into_iter().filter_map(|(event, count)| {
            let reason = match event {
                SourceEvent::KernelDrops => "kernel".to_owned(),
                SourceEvent::RecordsDropped("refused") => "refused_records".to_owned(),
                SourceEvent::RecordsDropped(reason) | SourceEvent::RecordsLimited(reason) => reason.to_owned(),
                SourceEvent::ConnectionClosed(reason) => format!("connections_{reason}"),
                SourceEvent::BodyRefused(reason) => format!("bodies_{reason}"),
                SourceEvent::PartsUnread => "unread_parts".to_owned(),
                _ => return None,
            };
            Some((reason, count))
        });
        events.chain(cut).filter(|(_, count)| *count > 0).collect()
    }

    /// The configured address of the listener; empty for a source that does not listen.
    pub fn listen_address(&self) -> String {
        lock(&self.listener).address.clone()
    }

    /// The listener has another socket from now on. `drops` counts the datagrams that the kernel drops of the socket.
    pub fn set_listener(&self, address: &str, drops: Option<Arc<KernelDrops>>) {
        *lock(&self.listener) = ListenerSocket { address: address.into(), drops };
    }

    /// Records in today's table, by configured table: those whose day had expired, and those dated far ahead.
    pub fn misplaced(&self) -> MutexGuard<'_, BTreeMap<String, [u64; 2]>> {
        lock(&self.misplaced)
    }

    pub(crate) fn count_misplaced(&self, table: &str, admission: Admission) {
        let at = match admission {
            Admission::Own => return,
            Admission::Late => 0,
            Admission::Early => 1,
        };
        let is_first = {
            let mut all = self.misplaced();
            let counts = all.entry(table.to_owned()).or_default();
            counts[at] += 1;
            counts[at] == 1
        };
        if is_first && admission == Admission::Late {
            self.warn_of_late(table);
        }
    }

    /// The records whose day had expired.
    pub(crate) fn late_records(&self) -> u64 {
        self.misplaced().values().map(|[late, _]| late).sum()
    }

    /// Warns once of records whose day had expired. Counters of a single request or import have no name: their records
    /// are added to named counters, which warn.
    fn warn_of_late(&self, table: &str) {
        if !self.name.is_empty() {
            tracing::warn!(
                source = self.name,
                table,
                "records are dated before keep, and go to today's table: daytable_records_late_total counts them"
            );
        }
    }

    /// Adds the records that `other` counted. Bytes and events are not added.
    pub(crate) fn add_records(&self, other: &SourceCounters) {
        for (own, other) in self.record_counters().zip(other.record_counters()) {
            count(own, other.load(Ordering::Relaxed));
        }
        for (table, [late, early]) in other.misplaced().iter() {
            let mut all = self.misplaced();
            let of_table = all.entry(table.clone()).or_default();
            if of_table[0] == 0 && *late > 0 {
                self.warn_of_late(table);
            }
            of_table[0] += late;
            of_table[1] += early;
        }
    }

    fn record_counters(&self) -> impl Iterator<Item = &AtomicU64> {
        [&self.records, &self.truncated, &self.invalid_utf8].into_iter().chain(&self.by_format).chain(&self.by_level)
    }

    /// How long the oldest unread byte or entry waits; `None` where all is read.
    pub fn unread_for(&self, now: Ticks) -> Option<Duration> {
        let since = i64::try_from(self.unread_since.load(Ordering::Relaxed)).ok().filter(|ticks| *ticks > 0)?;
        Some(now.since(Ticks::new(since)?))
    }

    /// Clears the gauges of a block that is no longer read.
    pub(crate) fn clear_lag(&self) {
        for gauge in [&self.lag_bytes, &self.unread_since, &self.followed_files, &self.open_files] {
            gauge.store(0, Ordering::Relaxed);
        }
    }
}

/// Adds to a counter. The order relative to other memory does not matter.
pub fn count(counter: &AtomicU64, by: u64) {
    counter.fetch_add(by, Ordering::Relaxed);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn late_and_early_records_are_counted_by_table() {
        let counters = SourceCounters::default();
        let records =
            [("Log", Admission::Late), ("Log", Admission::Own), ("Log", Admission::Early), ("Audit", Admission::Late)];
        for (table, admission) in records.into_iter().chain([("Log", Admission::Late)]) {
            counters.count_misplaced(table, admission);
        }
        let counts: Vec<_> = counters.misplaced().iter().map(|(table, counts)| (table.clone(), *counts)).collect();
        assert_eq!(counts, [("Audit".to_owned(), [1, 0]), ("Log".to_owned(), [2, 1])]);
    }

    #[test]
    fn declared_events_are_shown_at_zero_and_are_no_losses_then() {
        let closed = SourceEvent::ConnectionClosed("tls");
        let counters =
            SourceCounters::with_events(IntakeKind::default(), "tcp", [closed, SourceEvent::ConnectionAccepted]);
        assert_eq!(counters.events().into_values().collect::<Vec<_>>(), [0, 0]);
        assert!(counters.losses().is_empty());
        counters.count(closed, 2);
        counters.count(SourceEvent::ConnectionAccepted, 3);
        assert_eq!(counters.losses(), BTreeMap::from([("connections_tls".to_owned(), 2)]));
    }
}
