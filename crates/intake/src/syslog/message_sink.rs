//! Messages become rows, which are submitted together.

use super::framing::SyslogMessage;
use crate::counters::{SourceCounters, count};
use crate::delivery::Delivery;
use crate::own_output;
use crate::record_writer::{RecordWriter, begin_source};
use crate::route::{Origin, RouteCaches, Router};
use crate::syslog::SyslogOptions;
use daytable_model::arrival::kept_arrival;
use daytable_model::record::{Field, Value};
use daytable_model::source_id::{HostId, SourceId};
use daytable_model::time::Ticks;
use daytable_parse::{LineCut, RawRecord, SourceProfile};
use daytable_store::{CommitQueue, SubmitError};
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// The bytes of rows that are submitted together.
const SUBMISSION_BYTES: usize = 1 << 20;
/// The age at which even a few rows are submitted.
pub(super) const SUBMIT_AFTER: Duration = Duration::from_millis(50);
/// How long a stop waits for commits.
const STOP_PATIENCE: Duration = Duration::from_secs(10);

/// The options and counters of a listener, for its threads.
pub(super) struct ListenerContext {
    pub(super) config: SyslogOptions,
    /// The source of its records.
    pub(super) source: String,
    pub(super) counters: Arc<SourceCounters>,
    /// The maximum bytes of a message.
    pub(super) limit: usize,
}

impl ListenerContext {
    pub(super) fn new(config: SyslogOptions, counters: Arc<SourceCounters>) -> ListenerContext {
        let limit = usize::try_from(config.message_bytes_max.get()).unwrap_or(1 << 20);
        ListenerContext { source: config.listen.to_string(), config, counters, limit }
    }
}

/// The identity and the position in row keys of a connection or a datagram socket: when it began, and a counter.
pub(super) struct KeySequence {
    identity: SourceId,
    next: u64,
}

impl KeySequence {
    pub(super) fn new(host: HostId) -> KeySequence {
        KeySequence { identity: begin_source(host), next: 0 }
    }

    /// The number of keys so far.
    pub(super) fn len(&self) -> u64 {
        self.next
    }
}

/// The sender of a message, and the formats of its earlier messages.
pub(super) struct PeerState<'a> {
    pub(super) counter: &'a mut KeySequence,
    pub(super) profile: &'a mut SourceProfile,
    pub(super) peer: &'a str,
}

/// Collects the rows of a thread until they are submitted.
pub(super) struct MessageSink {
    rows: RecordWriter,
    pub(super) delivery: Delivery,
    /// The arrival of the oldest row.
    oldest: Option<Instant>,
    /// Records that were received and not submitted, by listener.
    records: Vec<(Arc<SourceCounters>, u64)>,
    /// Whether a connection waits for the commit.
    is_awaited: bool,
    /// Whether the store was closed before all rows were submitted.
    is_closed: bool,
}

impl MessageSink {
    pub(super) fn new(router: Router, queue: CommitQueue) -> MessageSink {
        MessageSink {
            rows: RecordWriter::new(router),
            delivery: Delivery::new(queue),
            oldest: None,
            records: Vec::new(),
            is_awaited: false,
            is_closed: false,
        }
    }

    /// The host of connections and sockets.
    pub(super) fn source_host(&self) -> HostId {
        self.rows.host()
    }

    /// Writes a message to its batch.
    pub(super) fn write(
        &mut self,
        block: &ListenerContext,
        routes: &mut RouteCaches,
        sender: &mut PeerState<'_>,
        message: SyslogMessage<'_>,
        now: Ticks,
    ) {
        let counters = &*block.counters;
        let mut text = String::from_utf8_lossy(message.bytes);
        let is_invalid = matches!(text, Cow::Owned(_));
        let mut written = message.bytes;
        if message.cut > 0
            && let Some(redactor) = &block.config.reading.redactor
        {
            let kept = redactor.keep_of_cut(&text);
            text = match text {
                Cow::Borrowed(text) => Cow::Borrowed(&text[..kept]),
                Cow::Owned(text) => Cow::Owned(text[..kept].to_owned()),
            };
            written = &[];
        }
        let mut raw = RawRecord::of_message(text, written);
        raw.is_invalid = is_invalid;
        if message.cut > 0 {
            let mut cut = Box::<LineCut>::default();
            cut.bytes = message.cut;
            raw.cut = Some(cut);
        }
        let parsed = sender.profile.raw_record(&raw, &block.config.reading, now);
        let (mut record, format) = (parsed.record, parsed.format);
        if own_output::is_record(&record) {
            return own_output::pass_over(&block.source);
        }
        count(&counters.by_format[format.number()], 1);
        if raw.is_invalid {
            count(&counters.invalid_utf8, 1);
        }
        if message.cut > 0 {
            count(&counters.truncated, 1);
            record.fields.push(Field { name: "truncated".into(), value: Value::Boolean(true) });
        }
        let (identity, position) = (sender.counter.identity, sender.counter.next);
        let origin = Origin { identity, position, source: &block.source, tenant: None };
        sender.counter.next += 1;
        record.arrived = kept_arrival(record.time, now);
        let instance = block.config.instance.render(sender.peer, &block.source, |name| record.text(name));
        if let Some(time) = record.time {
            counters.compare_clock(&instance, time, now);
        }
        self.rows.write(routes, &instance, &record, origin, now, counters);
        match self.records.iter_mut().find(|(counters, _)| Arc::ptr_eq(counters, &block.counters)) {
            Some((_, records)) => *records += 1,
            None => self.records.push((block.counters.clone(), 1)),
        }
        self.oldest.get_or_insert_with(Instant::now);
    }

    /// Records that a connection waits for the commit of the rows so far. Returns the number of their submission.
    pub(super) fn request_commit(&mut self) -> u64 {
        self.is_awaited = true;
        self.delivery.next_number()
    }

    /// Submits the rows if they are many or old. Blocks while the commit queue is full. The thread then does not read, so
    /// senders have to wait.
    pub(super) fn submit_if_due(&mut self) {
        let is_old = self.oldest.is_some_and(|oldest| oldest.elapsed() >= SUBMIT_AFTER);
        if is_old || self.rows.bytes() >= SUBMISSION_BYTES {
            self.submit();
        }
    }

    /// Submits the rows, and repeats the submissions of a failed commit.
    pub(super) fn submit(&mut self) {
        self.oldest = None;
        let is_awaited = std::mem::take(&mut self.is_awaited);
        let (batches, newest) = self.rows.take();
        let done = match batches.is_empty() {
            true => self.delivery.retry(),
            false => {
                let records = std::mem::take(&mut self.records).into();
                self.delivery.submit(batches, records, newest, is_awaited)
            }
        };
        if let Err(SubmitError::Closed) = done {
            self.delivery.abandon();
            self.is_closed = true;
        }
    }

    /// For an idle thread: submits old rows, and repeats the submissions of a failed commit.
    pub(super) fn idle(&mut self) {
        if self.has_rows() { self.submit_if_due() } else { self.submit() }
    }

    /// Whether rows wait to be submitted.
    pub(super) fn has_rows(&self) -> bool {
        self.oldest.is_some()
    }

    /// Submits all rows and waits for their commit. While the daemon runs, the wait has no limit. During a stop of the daemon
    /// the limit is [`STOP_PATIENCE`].
    pub(super) fn finish(&mut self) {
        self.is_awaited = true;
        self.submit();
        let mut deadline = None;
        while !self.delivery.is_done() && !self.is_closed {
            let now = Instant::now();
            if self.delivery.is_draining() && now >= *deadline.get_or_insert(now + STOP_PATIENCE) {
                break;
            }
            std::thread::sleep(Duration::from_millis(2));
            self.submit();
        }
        if !self.delivery.is_done() {
            tracing::warn!(
                "the daemon stops before every received message was committed: the rest is lost, unless its sender sends it again"
            );
            self.delivery.abandon();
        }
    }
}

/// Increments a gauge until it is dropped.
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
