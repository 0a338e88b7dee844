//! Handles answers: rows are complete, are retried, are sent in parts, or become dead letters.

use super::OutboxSender;
use crate::outbox::bucket_scaling::instance_of;
use crate::outbox::counters::DeadLetterReason;
use crate::outbox::dead_letters;
use crate::outbox::event::Event;
use crate::outbox::queued::{QueueId, QueuedRow};
use crate::outbox::request::{Split, TransactionRequest};
use daytable_azure::{Error, ErrorKind, ThrottleScope};
use daytable_model::key::DayTable;
use daytable_model::time;
use daytable_store::Ack;
use std::num::NonZeroU16;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// A queue with this number of successive failures is unloaded.
const UNLOAD_AFTER: u32 = 6;
/// Maximum bytes of requests that wait for a retry. Above this limit, a failing queue is unloaded.
const RETRY_BYTES_MAX: usize = 32 << 20;
/// Pause for rows of a new table, and for dead letters after a failed write.
const SHORT_PAUSE: Duration = Duration::from_secs(1);
/// Pause for rows of a day that expired by an unconfirmed clock.
const DOUBT_PAUSE: Duration = Duration::from_secs(60);

/// The action for an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ResponseAction {
    /// The service has the rows.
    Complete,
    /// Sends the same bytes again after a pause, of at least what the service `named`. `is_all`: everything pauses,
    /// because the failure is not about this partition.
    Retry { named: Option<Duration>, is_all: bool },
    /// Creates the table first, unless its day has expired.
    CreateTable,
    /// Waits until the service has cleared away a dropped table of this name.
    AwaitTable,
    /// Searches for the row that the service rejects, beginning at the index in the answer.
    Isolate(Option<usize>),
    /// Sends the rows as two requests.
    Halve,
    /// Access is denied: the sender pauses until a probe succeeds.
    Deny,
}

/// The action for an answer. A pure function.
fn action_for(answer: &Result<(), Error>) -> ResponseAction {
    let Err(error) = answer else { return ResponseAction::Complete };
    match error.kind() {
        // Without a connection, the service is down for every queue.
        ErrorKind::Retry { after } => {
            ResponseAction::Retry { named: after, is_all: error.status().is_none() && !error.may_have_happened() }
        }
        ErrorKind::Throttled { scope, after } => {
            ResponseAction::Retry { named: after, is_all: scope == ThrottleScope::Account }
        }
        ErrorKind::TableNotFound => ResponseAction::CreateTable,
        ErrorKind::TableBeingDeleted => ResponseAction::AwaitTable,
        ErrorKind::Refused { index } => ResponseAction::Isolate(index),
        ErrorKind::TooLarge if !error.may_have_happened() => ResponseAction::Halve,
        ErrorKind::Denied => ResponseAction::Deny,
        // An answer beyond its size limit does not tell the result of the request. An upsert never meets an entity
        // that exists, is missing or has another version, and no transaction creates a table.
        ErrorKind::TooLarge
        | ErrorKind::EntityAlreadyExists { .. }
        | ErrorKind::NotFound
        | ErrorKind::PreconditionFailed { .. }
        | ErrorKind::TableAlreadyExists
        | ErrorKind::Unknown => ResponseAction::Retry { named: None, is_all: true },
    }
}

impl OutboxSender {
    /// Sends a request to the service or to the dead letters.
    pub(super) fn send(&mut self, mut request: TransactionRequest, day: &DayTable, now: Instant) {
        if request.dead_letter.is_none() && self.context.is_expired(day, self.scan.newest()) {
            request.dead_letter = Some((DeadLetterReason::Expired, format!("{day} expired before it was sent")));
        }
        let number = self.queues.next_number();
        self.queues.get_mut(request.queue).into_iter().for_each(|queue| queue.request_began());
        if request.dead_letter.is_some() {
            self.keep_dead_letters(number, &request, day, now);
        } else {
            if request.tries > 0 {
                self.context.counters.retries.fetch_add(1, Ordering::Relaxed);
            }
            let (client, events) = (self.context.client.clone(), self.context.events.clone());
            let sealed = request.sealed.clone();
            self.context.runtime.spawn(async move {
                let answer = client.transact(&sealed).await.map(drop);
                let _ = events.send(Event::Answered(number, answer));
            });
        }
        self.requests.insert(number, request);
    }

    /// The service answered a request.
    pub(super) fn answered(&mut self, number: u64, answer: Result<(), Error>, now: Instant) {
        let Some(mut request) = self.requests.remove(number) else { return };
        let id = request.queue;
        let Some(day) = self.queues.day(id).cloned() else { return };
        let counters = self.context.counters.clone();
        counters.count_code(answer.as_ref().map_or_else(|error| error.status().unwrap_or(0), |()| 202));
        let action = action_for(&answer);
        self.queues.get_mut(id).into_iter().for_each(|queue| queue.request_ended());
        if let (Err(error), ResponseAction::Retry { .. } | ResponseAction::Deny) = (&answer, action) {
            self.failures.failed(error, &counters, now);
        }
        self.observe_load(&day, &request, &answer, now);
        request.tries += 1;
        match action {
            ResponseAction::Complete => {
                self.breaker.succeeded();
                counters.sent.fetch_add(request.rows.len() as u64, Ordering::Relaxed);
                self.failures.succeeded(&counters, now);
                (self.context.on_landed)(request.rows.len());
                self.queues.get_mut(id).into_iter().for_each(|queue| queue.succeeded());
                self.rows_done(id, &request.rows);
            }
            ResponseAction::Retry { named, is_all } => self.retry(request, named, is_all, now),
            ResponseAction::Deny => {
                self.denied(now);
                self.retry(request, None, false, now);
            }
            ResponseAction::CreateTable => {
                self.create_table(&day, id, now);
                self.queues.push_retry(request);
            }
            ResponseAction::AwaitTable => {
                self.tables.failed(&day, now);
                self.queues.push_retry(request);
            }
            ResponseAction::Isolate(index) => self.divide(request, &day, index, DeadLetterReason::Refused, &answer),
            ResponseAction::Halve => self.divide(request, &day, None, DeadLetterReason::TooLarge, &answer),
        }
        self.queues.schedule(id, now);
    }

    /// Creates the missing table of a queue's day, unless the day has expired.
    fn create_table(&mut self, day: &DayTable, id: QueueId, now: Instant) {
        if self.context.is_expired(day, self.scan.newest()) {
            return;
        }
        let pause = if self.context.is_expired_by_clock(day) {
            // The owner may have dropped the table.
            DOUBT_PAUSE
        } else if self.tables.begin(day, now) {
            tracing::info!(table = %day, "the remote store lacks this day-table: it is created");
            return self.tables.request(&self.context, day.clone(), false);
        } else {
            SHORT_PAUSE
        };
        self.queues.get_mut(id).into_iter().for_each(|queue| queue.pause(now + pause));
    }

    /// The service or the dead letters have the rows, so pages without unsent rows may be removed.
    fn rows_done(&mut self, id: QueueId, rows: &[QueuedRow]) {
        self.queues.get_mut(id).into_iter().for_each(|queue| queue.release_keys(rows));
        self.removal.rows_sent(rows, &self.context);
    }

    /// Passes the load of an instance, known from an answer, to bucket scaling.
    fn observe_load(&mut self, day: &DayTable, request: &TransactionRequest, answer: &Result<(), Error>, now: Instant) {
        if answer.is_ok() && self.scaling.is_idle() {
            return;
        }
        let Some(queue) = self.queues.get(request.queue) else { return };
        let (instance, is_bucket) = instance_of(queue.partition());
        let key = (day.clone(), instance.into());
        match answer.as_ref().map_err(Error::kind) {
            Ok(()) => self.scaling.landed(&key, request.rows.len() as u64, now),
            // Rows outside of the buckets were placed before the instance had buckets, so more buckets do not help.
            Err(ErrorKind::Throttled { scope: ThrottleScope::Partition, .. })
                if is_bucket || self.context.buckets(day, instance) == NonZeroU16::MIN =>
            {
                self.scaling.throttled(&key, now);
            }
            Err(_) => {}
        }
    }

    fn denied(&mut self, now: Instant) {
        if !self.context.counters.is_denied.swap(true, Ordering::Relaxed) {
            tracing::error!(
                "the remote store denies access: nothing is sent, and new rows stay in the outbox; check the credentials and the clock"
            );
        }
        self.breaker.denied(now);
    }

    /// Stores a request for a retry with the same bytes, and pauses its queue.
    fn retry(&mut self, request: TransactionRequest, named: Option<Duration>, is_all: bool, now: Instant) {
        let id = request.queue;
        self.context.counters.failures.fetch_add(1, Ordering::Relaxed);
        if is_all {
            self.breaker.failed(now, named);
        }
        let Some(queue) = self.queues.get_mut(id) else { return };
        let failures = queue.failed(named, now);
        self.queues.push_retry(request);
        if failures >= UNLOAD_AFTER || self.queues.retry_bytes() > RETRY_BYTES_MAX {
            for number in self.queues.unload(id) {
                let page = self.removal.forget(number);
                page.zip(self.queues.get_mut(id)).into_iter().for_each(|(page, queue)| queue.forget(&page));
            }
        }
    }

    /// The service refuses a row: sends parts until one record is left.
    fn divide(
        &mut self,
        request: TransactionRequest,
        day: &DayTable,
        index: Option<usize>,
        reason: DeadLetterReason,
        answer: &Result<(), Error>,
    ) {
        let Some(partition) = self.queues.get(request.queue).map(|queue| queue.partition().clone()) else { return };
        match request.split(self.context.client.account(), &day.to_string(), &partition, index) {
            Split::Two(first, second) => {
                self.queues.push_retry(first);
                self.queues.push_retry(second);
            }
            Split::One(mut record) => {
                let text = answer.as_ref().err().map(|error| format!("{} {}", error.code(), error.message()));
                record.dead_letter = Some((reason, text.unwrap_or_default().trim().to_owned()));
                self.queues.push_retry(record);
            }
        }
    }

    /// Rows too large for any transaction become dead letters.
    pub(super) fn set_aside_too_large(&mut self, id: QueueId, rows: Vec<QueuedRow>, day: &DayTable, now: Instant) {
        let (account, text) = (self.context.client.account(), "is too large for a request".to_owned());
        let request = TransactionRequest::dead_letters(account, id, rows, DeadLetterReason::TooLarge, text);
        self.send(request, day, now);
    }

    /// Commits the rows of a request as dead letters, except rows that already are dead letters of yesterday.
    fn keep_dead_letters(&mut self, number: u64, request: &TransactionRequest, day: &DayTable, now: Instant) {
        let events = self.context.events.clone();
        let Some(partition) = self.queues.get(request.queue).map(|queue| queue.partition().clone()) else { return };
        let Some((_, reason)) = &request.dead_letter else { return };
        if self.failures.logs_dead_letters(now) {
            let rows = request.rows.len();
            tracing::warn!(table = %day, partition = %partition, rows, %reason, "the remote store does not take rows: they are kept as dead letters");
        }
        let today = time::now();
        let yesterday = dead_letters::yesterday(today);
        let was_kept = |row: &QueuedRow| {
            yesterday.as_ref().is_some_and(|yesterday| self.unsent.has_row(yesterday, &partition, row.key()))
        };
        let rows: Vec<QueuedRow> = request.rows.iter().filter(|row| !was_kept(row)).cloned().collect();
        let result = match dead_letters::batch(&rows, &day.to_string(), &partition, reason, today) {
            Ok(batch) if !batch.is_empty() => {
                let events = events.clone();
                let done = Ack::awaited(move |is_kept| drop(events.send(Event::DeadLettersCommitted(number, is_kept))));
                self.context.remover.keep(vec![batch], done).map(|()| None)
            }
            Ok(_) => Ok(Some(true)),
            Err(_) => Ok(Some(false)),
        };
        if let Some(is_kept) = result.unwrap_or(Some(false)) {
            let _ = events.send(Event::DeadLettersCommitted(number, is_kept));
        }
    }

    /// Dead letters are on disk, or could not be written.
    pub(super) fn dead_letters_committed(&mut self, number: u64, is_kept: bool, now: Instant) {
        let Some(request) = self.requests.remove(number) else { return };
        let id = request.queue;
        self.queues.get_mut(id).into_iter().for_each(|queue| queue.request_ended());
        if is_kept {
            if let Some((reason, _)) = &request.dead_letter {
                self.context.counters.count_dead_letters(*reason, request.rows.len() as u64);
            }
            self.rows_done(id, &request.rows);
        } else {
            self.queues.get_mut(id).into_iter().for_each(|queue| queue.pause(now + SHORT_PAUSE));
            self.queues.push_retry(request);
        }
        self.queues.schedule(id, now);
    }

    /// The service answered the creation of a table.
    pub(super) fn table_created(&mut self, day: &DayTable, result: Result<(), Error>, now: Instant) {
        self.tables.answered();
        let code = result.as_ref().map_or_else(|error| error.status().unwrap_or(0), |()| 201);
        self.context.counters.count_code(code);
        match result {
            Err(error) if error.kind() != ErrorKind::TableAlreadyExists => {
                self.failures.failed(&error, &self.context.counters, now);
                if error.kind() == ErrorKind::Denied {
                    self.denied(now);
                }
                self.tables.failed(day, now);
            }
            _ => self.tables.created(day, now),
        }
        self.queues.ids_of(day).into_iter().for_each(|id| self.queues.schedule(id, now));
    }
}
