//! The sender's thread: one loop that scans for waiting pages, sends transactions, handles answers and removes sent
//! pages.
//!
//! Commits, answers and due times wake the loop. The loop blocks only in its own wait and in reads of the data
//! folder. Each duty has a module with its own state; [`OutboxSender`] connects them.

mod failure_log;
mod response;

use super::bucket_scaling::{BucketScaling, instance_of};
use super::circuit_breaker::CircuitBreaker;
use super::context::Context;
use super::event::Event;
use super::page_removal::PageRemoval;
use super::page_scan::{PageScan, SCAN_PAUSE, fill_queues};
use super::partition_queue::{NextTransaction, PageRead};
use super::queued::QueueId;
use super::queues::Queues;
use super::request::{RequestsUnderWay, TransactionRequest};
use super::table_creation::TableCreation;
use daytable_model::key::DayTable;
use daytable_model::time;
use daytable_store::StoreError;
use daytable_store::outbox::{OutboxReader, WaitingPage};
use failure_log::FailureLog;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Pause of a queue whose instance or service is at its limit.
const QUEUE_PAUSE: Duration = Duration::from_millis(100);
/// Maximum simultaneous requests to the dead letters: the committer executes each as a whole.
const DEAD_LETTER_REQUESTS_MAX: usize = 8;
/// The longest wait of the loop.
const SLEEP: Duration = Duration::from_secs(1);

/// The state of the sender's thread.
pub(super) struct OutboxSender {
    context: Context,
    unsent: OutboxReader,
    scan: PageScan,
    queues: Queues,
    requests: RequestsUnderWay,
    removal: PageRemoval,
    breaker: CircuitBreaker,
    scaling: BucketScaling,
    tables: TableCreation,
    failures: FailureLog,
    stop: Option<Instant>,
}

impl OutboxSender {
    pub(super) fn new(
        context: Context,
        unsent: OutboxReader,
        queues: Queues,
        breaker: CircuitBreaker,
        scaling: BucketScaling,
    ) -> OutboxSender {
        OutboxSender {
            context,
            unsent,
            scan: PageScan::default(),
            queues,
            requests: RequestsUnderWay::default(),
            removal: PageRemoval::new(),
            breaker,
            scaling,
            tables: TableCreation::default(),
            failures: FailureLog::default(),
            stop: None,
        }
    }

    /// Runs until a stop is requested.
    pub(super) fn run(mut self, events: &mpsc::Receiver<Event>, is_signalled: &AtomicBool) {
        let mut has_news = true;
        loop {
            let now = Instant::now();
            if self.scan.is_due(has_news, now) {
                // Before the scan, so that a later commit signals again.
                is_signalled.store(false, Ordering::Release);
                has_news = self.scan.scan(&self.unsent, &mut self.queues, &mut self.removal, now);
            }
            if self.tables.is_ahead_due(now) {
                let today = time::now();
                self.scan.refresh(&self.unsent, &mut self.queues);
                self.tables.create_ahead(&self.context, today, now);
                self.scaling.plan_ahead(&self.queues, &self.context, today, now);
            }
            self.scaling.run(&self.queues, &self.unsent, &self.removal, &self.context, now);
            fill_queues(&self.unsent, &mut self.queues, &mut self.removal, now);
            self.send_ready(now);
            self.removal.run(&self.queues, &self.context, self.stop.is_some(), now);
            if self.is_done(now) {
                return;
            }
            let wait = if has_news { SCAN_PAUSE } else { self.next_wait(now) };
            match events.recv_timeout(wait) {
                Ok(event) => has_news |= self.handle(event),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
            while let Ok(event) = events.try_recv() {
                has_news |= self.handle(event);
            }
        }
    }

    /// Returns whether a scan may find new pages.
    fn handle(&mut self, event: Event) -> bool {
        let now = Instant::now();
        match event {
            Event::Committed => return true,
            Event::Answered(number, answer) => self.answered(number, answer, now),
            Event::TableCreated(day, result) => self.table_created(&day, result, now),
            Event::DeadLettersCommitted(number, is_kept) => self.dead_letters_committed(number, is_kept, now),
            Event::Removed(pages, result) => {
                self.removal.finished(pages, result, &mut self.queues, &self.context, now);
            }
            Event::Stop(grace) => {
                self.stop = Some(now + grace);
                self.queues.flush(now);
                return true;
            }
        }
        false
    }

    fn is_done(&self, now: Instant) -> bool {
        let Some(stop) = self.stop else { return false };
        let may_send = self.breaker.limit(now) > 0 && self.queues.have_work();
        let is_idle = self.requests.is_empty() && self.tables.is_idle() && !may_send;
        let is_removed = self.removal.is_done();
        // After the deadline, the loop waits only for removals, and only briefly.
        is_idle && is_removed || stop <= now && (is_removed || stop + SLEEP <= now)
    }

    /// How long the loop may wait for an event.
    fn next_wait(&self, now: Instant) -> Duration {
        if self.queues.want_pages() {
            return Duration::ZERO;
        }
        let due = [self.queues.next_timer(), self.removal.next(), self.breaker.resume(now)];
        let wait = due.into_iter().flatten().min().map_or(SLEEP, |at| at.saturating_duration_since(now));
        wait.clamp(Duration::from_millis(1), SLEEP)
    }

    /// Sends from the ready queues, within the limit of the circuit breaker.
    fn send_ready(&mut self, now: Instant) {
        while self.requests.to_service() < self.breaker.limit(now)
            && self.requests.to_dead_letters() < DEAD_LETTER_REQUESTS_MAX
            && let Some(id) = self.queues.pop_ready()
        {
            let (Some(queue), Some(day)) = (self.queues.get(id), self.queues.day(id).cloned()) else { continue };
            let instance = instance_of(queue.partition()).0;
            let has_no_place = queue.is_failing() && self.failing_requests() >= (self.breaker.limit(now) / 2).max(1);
            if has_no_place || self.context.bucket_plan.is_held(&day, instance) {
                self.queues.schedule_at(id, now + QUEUE_PAUSE);
                continue;
            }
            if let Some(resume) = self.tables.resume(&day, now) {
                self.queues.schedule_at(id, resume);
                continue;
            }
            if let Some(request) = self.queues.pop_retry(id).or_else(|| self.build(id, &day, now)) {
                self.send(request, &day, now);
            }
            self.queues.schedule(id, now);
        }
    }

    /// Requests of failing partitions. A request may hang before it fails, so they get at most half of all requests.
    fn failing_requests(&self) -> usize {
        self.requests.count(|id| self.queues.get(id).is_some_and(|queue| queue.is_failing()))
    }

    /// The next transaction of a queue.
    fn build(&mut self, id: QueueId, day: &DayTable, now: Instant) -> Option<TransactionRequest> {
        let (unsent, live) = (&self.unsent, self.queues.file(self.queues.get(id)?)?.clone());
        let read = |head: &WaitingPage| match unsent.read(&live, head) {
            Ok(Some(page)) => PageRead::Page(Arc::new(page)),
            Ok(None) => PageRead::Gone,
            Err(error @ StoreError::Damaged { .. }) => {
                tracing::error!(%error, table = %day, "failed to read a page that waits to be sent: it stays in the outbox");
                PageRead::Damaged
            }
            Err(error) => {
                tracing::error!(%error, table = %day, "failed to read a page that waits to be sent, retrying");
                PageRead::Unavailable
            }
        };
        let account = self.context.client.account();
        let queue = self.queues.get_mut(id)?;
        let before = queue.page_count();
        let NextTransaction { request, gone, too_large } = queue.build(id, account, &day.to_string(), read);
        let pages_left = before - queue.page_count();
        for (number, page) in gone {
            queue.forget(&page);
            // The page may have been merged; a scan finds the merged page.
            queue.set_unread(true);
            self.removal.forget(number);
        }
        self.queues.pages_left(pages_left);
        if !too_large.is_empty() {
            self.set_aside_too_large(id, too_large, day, now);
        }
        request
    }
}
