//! Messages become rows: what every thread that takes messages has.

use super::delivery::Delivery;
use super::framing::SyslogMessage;
use crate::counters::{SourceCounters, count};
use crate::own_output;
use crate::record_writer::{RecordWriter, random_identity};
use crate::route::{Origin, RouteCaches, Router};
use crate::syslog::SyslogOptions;
use daytable_model::record::{Field, Value};
use daytable_model::time::Ticks;
use daytable_parse::{Envelope, Learned};
use daytable_store::{CommitQueue, SubmitError};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Bytes of rows that are handed over at once.
const SUBMISSION_BYTES: usize = 1 << 20;
/// Age at which rows are handed over, whatever their number.
pub(super) const HAND_OVER: Duration = Duration::from_millis(50);
/// How long a stop of the daemon waits for the commit of what was taken.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// A listener as its threads know it.
pub(super) struct ListenerContext {
    pub(super) config: SyslogOptions,
    /// What its records name as their source.
    pub(super) source: String,
    pub(super) counters: Arc<SourceCounters>,
    /// Bytes of a message at most.
    pub(super) limit: usize,
}

impl ListenerContext {
    pub(super) fn new(config: SyslogOptions, counters: Arc<SourceCounters>) -> ListenerContext {
        let limit = usize::try_from(config.message_bytes_max.get()).unwrap_or(1 << 20);
        ListenerContext { source: config.listen.to_string(), config, counters, limit }
    }
}

/// What the row keys of a connection, or of a listener without any, are made of: 64 random bits and a counter.
pub(super) struct KeySequence {
    identity: u64,
    next: u64,
}

impl KeySequence {
    pub(super) fn new() -> KeySequence {
        KeySequence { identity: random_identity(), next: 0 }
    }

    /// How far it has counted.
    pub(super) fn taken(&self) -> u64 {
        self.next
    }
}

/// Who sent a message, and what was learnt of what he sends.
pub(super) struct PeerState<'a> {
    pub(super) counter: &'a mut KeySequence,
    pub(super) learned: &'a mut Learned,
    pub(super) peer: &'a str,
}

/// RecordWriter that gather on a thread until they are handed over.
pub(super) struct MessageSink {
    rows: RecordWriter,
    pub(super) delivery: Delivery,
    /// When the oldest row was taken.
    oldest: Option<Instant>,
    /// RecordCounts that were taken and not handed over, by listener.
    records: Vec<(Arc<SourceCounters>, u64)>,
    /// Whether somebody waits for their commit.
    is_awaited: bool,
    /// Whether the store was closed before everything was handed over.
    is_closed: bool,
}

impl MessageSink {
    pub(super) fn new(router: Router, intake: CommitQueue) -> MessageSink {
        MessageSink {
            rows: RecordWriter::new(router),
            delivery: Delivery::new(intake),
            oldest: None,
            records: Vec::new(),
            is_awaited: false,
            is_closed: false,
        }
    }

    /// Writes a message to the batch it belongs to.
    pub(super) fn take(
        &mut self,
        block: &ListenerContext,
        routes: &mut RouteCaches,
        sender: &mut PeerState<'_>,
        message: SyslogMessage<'_>,
        now: Ticks,
    ) {
        let counters = &*block.counters;
        let text = String::from_utf8_lossy(message.bytes);
        let parsed = sender.learned.record(&text, Envelope::default(), &block.config.reading, now);
        let (mut record, format) = (parsed.record, parsed.format);
        if own_output::is_record(&record) {
            return own_output::pass_over(&block.source);
        }
        count(&counters.by_format[format.number()], 1);
        if matches!(text, std::borrow::Cow::Owned(_)) {
            count(&counters.invalid_utf8, 1);
        }
        if message.cut > 0 {
            count(&counters.truncated, 1);
            record.fields.push(Field { name: "truncated".into(), value: Value::Boolean(true) });
        }
        let (identity, position) = (sender.counter.identity, sender.counter.next);
        let origin = Origin { identity, position, source: &block.source, tenant: None };
        sender.counter.next += 1;
        let instance = block.config.instance.render(sender.peer, &block.source, |name| record.text(name));
        self.rows.write(routes, &instance, &record, origin, now, counters);
        match self.records.iter_mut().find(|(counters, _)| Arc::ptr_eq(counters, &block.counters)) {
            Some((_, records)) => *records += 1,
            None => self.records.push((block.counters.clone(), 1)),
        }
        self.oldest.get_or_insert_with(Instant::now);
    }

    /// Notes that somebody waits for what was taken: the number of the submission that will have it.
    pub(super) fn awaited(&mut self) -> u64 {
        self.is_awaited = true;
        self.delivery.next_number()
    }

    /// Hands rows over where there are many, or they are old. Waits where the store does not keep up: nothing is read
    /// on this thread meanwhile, and senders find out.
    pub(super) fn hand_over_if_due(&mut self) {
        let is_old = self.oldest.is_some_and(|oldest| oldest.elapsed() >= HAND_OVER);
        if is_old || self.rows.bytes() >= SUBMISSION_BYTES {
            self.hand_over();
        }
    }

    /// Hands over what there is, and submits again what a failed commit refused.
    pub(super) fn hand_over(&mut self) {
        self.oldest = None;
        let is_awaited = std::mem::take(&mut self.is_awaited);
        let (batches, newest) = self.rows.take();
        let done = match batches.is_empty() {
            true => self.delivery.settle(),
            false => {
                let records = std::mem::take(&mut self.records).into();
                self.delivery.submit(batches, records, newest, is_awaited)
            }
        };
        if let Err(SubmitError::Closed) = done {
            self.delivery.give_up();
            self.is_closed = true;
        }
    }

    /// While nothing comes: hands over what is old, and submits again what a failed commit refused.
    pub(super) fn rest(&mut self) {
        if self.has_rows() { self.hand_over_if_due() } else { self.hand_over() }
    }

    /// Whether rows wait to be handed over.
    pub(super) fn has_rows(&self) -> bool {
        self.oldest.is_some()
    }

    /// Hands over everything, and waits until it is committed: while the daemon goes on for as long as commits fail, and
    /// once it stops for [`STOP_PATIENCE`] at most.
    pub(super) fn finish(&mut self) {
        self.is_awaited = true;
        self.hand_over();
        let mut deadline = None;
        while !self.delivery.is_done() && !self.is_closed {
            let now = Instant::now();
            if self.delivery.is_draining() && now >= *deadline.get_or_insert(now + STOP_PATIENCE) {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
            self.hand_over();
        }
        if !self.delivery.is_done() {
            tracing::warn!("not every message that was taken could be committed");
            self.delivery.give_up();
        }
    }
}

/// What is counted while something is there.
pub(super) struct GaugeGuard<'a>(&'a std::sync::atomic::AtomicU64);

impl<'a> GaugeGuard<'a> {
    pub(super) fn new(counter: &'a std::sync::atomic::AtomicU64) -> GaugeGuard<'a> {
        count(counter, 1);
        GaugeGuard(counter)
    }
}

impl Drop for GaugeGuard<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
