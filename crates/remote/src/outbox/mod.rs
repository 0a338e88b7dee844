//! The outbox: with a remote store, committed rows are sent to the service and then removed from the data folder.
//!
//! Rows wait in the day files that the commit wrote ([`daytable_store::outbox`]). The sender is a thread. The thread
//! reads committed pages and builds transactions for each partition. After the service has all rows of a page, the
//! committer removes the page. Requests run on a separate runtime, so the thread never waits for a request.
//!
//! ```text
//! page_scan ──► queues: partition_queue ──► request ──► service ──► response ──► page_removal
//!  in order of      ≤ 32 pages,           ≤ 100 rows                  │           from the file
//!  commits          ≤ 4 requests            ▲                         ├─ retry: the same bytes, after a pause
//!                                   circuit_breaker                   ├─ isolate, halve: parts of it
//!                                                                     └─ dead_letters: on disk before the page is removed
//! ```
//!
//! * **No row is lost**: a page is removed after the service or the dead letters have all its rows. After a kill,
//!   pages are read again. An upsert of the same keys changes no data, so repeated requests create no duplicates.
//! * **Partitions are independent**: a failure of one partition pauses its queue. A general failure (no answer, a
//!   throttled account, denied access) opens the circuit breaker, and one request probes the service.
//! * **Memory** does not depend on the backlog. The queues hold the heads of some thousand pages and read a page when
//!   its first row is needed. A partition that fails for long is unloaded; a later scan finds its pages again.
//! * **Order**: the oldest commit is sent first, or the newest if configured, between queues and within a queue. Four
//!   requests of a queue are in flight at a time, so readers see no order of arrival. Of two versions of a row the
//!   later version arrives last, unless a backlog is sent newest first.
//! * **403** stops only the sender: new rows are committed until the outbox is full.
//! * **A day that expired** before its rows were sent is not created again. The rows become dead letters and are
//!   counted. The clock is trusted up to one period after the newest record time, as for drops.
//! * **Hot instances** get more partitions: `bucket_scaling` decides when, [`daytable_model::bucket_plan`] from which
//!   record time, and `bucket_planner` makes the decision durable.

mod context;
mod counters;
mod event;
mod queued;
mod request;
mod partition_queue;
mod queues;
mod page_scan;
mod page_removal;
mod circuit_breaker;
mod table_creation;
mod bucket_planner;
mod bucket_scaling;
mod dead_letters;
mod sender;

pub use crate::options::TableOptions;
pub use counters::{DeadLetterReason, OutboxCounters};
pub use daytable_azure::Client;

use bucket_planner::BucketPlanner;
use bucket_scaling::BucketScaling;
use circuit_breaker::CircuitBreaker;
use context::Context;
use daytable_model::bucket_plan::BucketPlan;
use daytable_model::window::Window;
use daytable_store::OutboxRemover;
use daytable_store::outbox::{OutboxLevel, OutboxReader};
use event::Event;
use queues::Queues;
use sender::OutboxSender;
use std::collections::HashMap;
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Signals commits to the sender. Cheap to clone and to call.
#[derive(Clone)]
pub struct CommitSignal {
    events: mpsc::Sender<Event>,
    is_signalled: Arc<AtomicBool>,
}

impl CommitSignal {
    /// Rows were committed.
    pub fn notify(&self) {
        if !self.is_signalled.swap(true, Ordering::AcqRel) {
            // An ended sender needs no signal.
            let _ = self.events.send(Event::Committed);
        }
    }
}

/// The receiving end of a [`CommitSignal`].
pub struct SenderInbox {
    events: mpsc::Receiver<Event>,
    signal: CommitSignal,
}

/// The signal for the store, which opens before the sender starts, and the sender's inbox.
pub fn commit_signal() -> (CommitSignal, SenderInbox) {
    let (events, received) = mpsc::channel();
    let signal = CommitSignal { events, is_signalled: Arc::default() };
    (signal.clone(), SenderInbox { events: received, signal })
}

/// The configuration of the sender.
pub struct OutboxSetup<'a> {
    /// The data folder.
    pub data_dir: &'a Path,
    /// How long a transaction waits for more entities before it is sent.
    pub fill: Duration,
    /// Maximum transactions in flight.
    pub transactions_max: NonZeroU16,
    /// Maximum partitions of a throttled instance; 1 turns bucket scaling off.
    pub buckets_max: NonZeroU16,
    /// How long an instance must be throttled, with a growing backlog, before it gets more partitions.
    pub grow_after: Duration,
    /// Whether the newest commit is sent first.
    pub is_newest_first: bool,
    /// The configured tables.
    pub tables: Vec<TableOptions>,
    /// The service.
    pub client: Client,
    /// Removes sent pages.
    pub remover: OutboxRemover,
    /// The number of partitions of each instance.
    pub bucket_plan: Arc<BucketPlan>,
    /// The name of this daemon among the daemons that share the store.
    pub host: String,
    /// Called with the number of entities of each successful transaction.
    pub on_landed: Box<dyn Fn(usize) + Send>,
}

/// Why the sender did not start.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// The data folder cannot be read.
    #[error(transparent)]
    Store(#[from] daytable_store::StoreError),
    /// The planner's client cannot be set up.
    #[error(transparent)]
    Tables(#[from] daytable_query::tables::TableError),
    /// A thread or the runtime cannot be started.
    #[error("the sender cannot be started: {0}")]
    Start(#[from] std::io::Error),
}

/// The running sender.
pub struct Outbox {
    signal: CommitSignal,
    counters: Arc<OutboxCounters>,
    sender: JoinHandle<()>,
    planner: JoinHandle<()>,
    bucket_plan: Arc<BucketPlan>,
    runtime: tokio::runtime::Runtime,
}

impl Outbox {
    /// Starts to send waiting rows and new rows.
    ///
    /// # Errors
    ///
    /// If the data folder cannot be read, or a thread cannot be started.
    pub fn start(setup: OutboxSetup<'_>, inbox: SenderInbox) -> Result<Outbox, OutboxError> {
        let unsent = OutboxReader::open(setup.data_dir)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let counters = Arc::new(OutboxCounters::default());
        let OutboxSetup { tables, client, bucket_plan, .. } = setup;
        let windows = tables.iter().map(|table| (table.name.clone(), table.window)).collect::<HashMap<_, Window>>();
        let (bucket_orders, orders) = mpsc::channel();
        let planner = BucketPlanner {
            plan: bucket_plan.clone(),
            tables: BucketPlanner::tables(client.account().clone())?,
            data_dir: setup.data_dir.into(),
            host: setup.host,
            endpoint: client.account().endpoint().to_owned(),
            windows: windows.clone(),
            steps: counters.bucket_steps.clone(),
        };
        let context = Context {
            client,
            runtime: runtime.handle().clone(),
            remover: setup.remover,
            counters: counters.clone(),
            windows,
            buckets_min: tables.iter().map(|table| (table.name.clone(), table.buckets)).collect(),
            bucket_plan: bucket_plan.clone(),
            bucket_orders,
            on_landed: setup.on_landed,
            events: inbox.signal.events.clone(),
        };
        let seed = u64::from(std::process::id());
        let sender = OutboxSender::new(
            context,
            unsent,
            Queues::new(setup.fill, setup.is_newest_first, seed),
            CircuitBreaker::new(setup.transactions_max.get().into(), seed),
            BucketScaling::new(setup.grow_after, setup.buckets_max),
        );
        let SenderInbox { events, signal } = inbox;
        let is_signalled = signal.is_signalled.clone();
        let thread = std::thread::Builder::new().name("outbox".into());
        let sender = thread.spawn(move || sender.run(&events, &is_signalled))?;
        // The planner's thread ends after the sender's. A stop does not wait for the planner, which may wait for the
        // service.
        let planner = std::thread::Builder::new().name("buckets".into()).spawn(move || planner.run(&orders))?;
        Ok(Outbox { signal, counters, sender, planner, bucket_plan, runtime })
    }

    /// The counters of the sender.
    pub fn counters(&self) -> Arc<OutboxCounters> {
        self.counters.clone()
    }

    /// Whether a thread has ended, which happens only after a fault.
    pub fn has_ended(&self) -> bool {
        self.sender.is_finished() || self.planner.is_finished()
    }

    /// Wakes callers that wait for the decision of an ended thread. Has no effect while both threads run.
    pub fn release_waiters(&self) {
        if self.has_ended() {
            self.bucket_plan.close();
        }
    }

    /// Sends for at most `grace`, without waiting for full transactions, and ends. Other rows stay in the outbox.
    pub fn stop(self, grace: Duration) {
        self.bucket_plan.close();
        let _ = self.signal.events.send(Event::Stop(grace));
        let _ = self.sender.join();
        self.runtime.shutdown_background();
    }
}

/// Entities in the outbox's files that are not sent yet.
pub fn waiting(counters: &OutboxCounters, level: &OutboxLevel) -> u64 {
    level.entities().saturating_sub(counters.settling.load(Ordering::Relaxed))
}
