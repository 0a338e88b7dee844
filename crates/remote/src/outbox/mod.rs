//! The outbox: with a remote store, what is committed is sent there, and then goes from the data folder.
//!
//! What waits lies in the day files that the commit wrote ([`daytable_store::outbox`]). Here is the sender: a thread that
//! reads committed pages, makes transactions of a partition's rows, and has the committer remove each page of which the
//! service took every row. Requests are under way on a runtime of their own; the thread decides, and never waits for one.
//!
//! ```text
//! pages of a partition ──► lane ──► flight ──► service ──► landed ──► removed from the file
//!   in order of commits     fill     ≤ 100       │
//!                           ≤ 4 at a time        ├─ again: the same bytes, after a pause
//!                                                ├─ isolate, halve: parts of it
//!                                                └─ never: dead letters, on disk before the page goes
//! ```
//!
//! * **Nothing lost**: a page goes when all its rows landed or lie among the dead letters. Whatever ends before is read
//!   again, and an upsert of the same keys changes nothing: a kill anywhere repeats requests, not rows.
//! * **Independence**: what the service says of one partition holds up its lane; what concerns all (nobody answers, the
//!   account is throttled, we are not let in) holds up everything, and one request looks how it is (`weather`).
//! * **Memory** does not depend on what waits: the sender knows some thousand pages by their heads, reads a page when its
//!   first row is wanted, and lets go of what a lane holds that fails for long. It is found again in its file.
//! * **Order**: the oldest commit goes first, or the newest where that is asked for. That is an order between lanes and
//!   within one; four transactions of a lane are under way at a time, so readers see no order of arrival. Of two versions of one
//!   row the later one comes last, but in a backlog that goes newest first.
//! * **403** stops the sender and nothing else: what comes is committed until the outbox is full.
//! * **A day that expired** before its rows were sent is not brought back: they become dead letters, and are counted. The clock is
//!   believed up to one period past the newest time that a record gave, as where days are dropped.
//!
//! * **Hot instances** get more partitions: when is decided in `growth`, from when on in [`daytable_model::bucket_plan`], and
//!   `spreading` sees to it that it stays true whatever is killed or lost.

mod counters;
mod creating;
mod dead;
mod finding;
mod flight;
mod growth;
mod lane;
mod leaving;
mod sender;
mod settle;
mod spreading;
mod tables;
mod verdict;
mod weather;
mod wire;

pub use crate::options::TableOptions;
pub use counters::{Counters, SetAside};
pub use daytable_azure::Client;

use daytable_model::bucket_plan::BucketPlan;
use daytable_model::window::Window;
use daytable_store::OutboxRemover;
use daytable_store::outbox::{OutboxLevel, OutboxReader};
use sender::{Event, Sender};
use spreading::Spreading;
use std::collections::HashMap;
use std::num::NonZeroU16;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::thread::JoinHandle;
use std::time::Duration;

/// Has the sender look for what was committed. Cheap to clone, and to ring.
#[derive(Clone)]
pub struct Bell {
    events: mpsc::Sender<Event>,
    is_ringing: Arc<AtomicBool>,
}

impl Bell {
    /// There is something new.
    pub fn ring(&self) {
        if !self.is_ringing.swap(true, Ordering::AcqRel) {
            // A sender that ended needs no waking.
            let _ = self.events.send(Event::Wake);
        }
    }
}

/// The other end of a [`Bell`].
pub struct Inbox {
    events: mpsc::Receiver<Event>,
    bell: Bell,
}

/// A bell for the store, which is opened before there is a sender, and what hears it.
pub fn bell() -> (Bell, Inbox) {
    let (events, received) = mpsc::channel();
    let bell = Bell { events, is_ringing: Arc::default() };
    (bell.clone(), Inbox { events: received, bell })
}

/// What the sender goes by.
pub struct Setup<'a> {
    /// The data folder.
    pub data_dir: &'a Path,
    /// How long a transaction waits for more entities before it is sent.
    pub fill: Duration,
    /// The most transactions under way at a time.
    pub transactions_max: NonZeroU16,
    /// The most partitions of an instance where the service throttles it; one turns bucket scaling off.
    pub buckets_max: NonZeroU16,
    /// How long an instance is throttled, and falls behind, before it gets more partitions.
    pub grow_after: Duration,
    /// Whether the newest commit is sent first.
    pub is_newest_first: bool,
    /// The configured tables.
    pub tables: Vec<TableOptions>,
    /// Who is sent to.
    pub client: Client,
    /// What removes pages that were sent.
    pub departures: OutboxRemover,
    /// Over how many partitions instances are spread.
    pub spread: Arc<BucketPlan>,
    /// What this daytable is called among those that share the store.
    pub host: String,
    /// Told of each transaction that landed, with its entities.
    pub on_landed: Box<dyn Fn(usize) + Send>,
}

/// Why there is no sender.
#[derive(Debug, thiserror::Error)]
pub enum OutboxError {
    /// What waits cannot be read.
    #[error(transparent)]
    Store(#[from] daytable_store::StoreError),
    /// There is no client for what is to be agreed with the service.
    #[error(transparent)]
    Tables(#[from] daytable_query::tables::TableError),
    /// Its thread or runtime cannot be started.
    #[error("the sender cannot be started: {0}")]
    Start(#[from] std::io::Error),
}

/// The sender, running.
pub struct Outbox {
    bell: Bell,
    counters: Arc<Counters>,
    thread: JoinHandle<()>,
    spreading: JoinHandle<()>,
    spread: Arc<BucketPlan>,
    runtime: tokio::runtime::Runtime,
}

impl Outbox {
    /// Starts to send what waits and what comes.
    pub fn start(setup: Setup<'_>, inbox: Inbox) -> Result<Outbox, OutboxError> {
        let unsent = OutboxReader::open(setup.data_dir)?;
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
        let counters = Arc::new(Counters::default());
        let Setup { fill, tables, client, departures, on_landed, spread, host, data_dir, is_newest_first, .. } = setup;
        let endpoint = client.account().endpoint().to_owned();
        let windows = tables.iter().map(|table| (table.name.clone(), table.window)).collect::<HashMap<_, Window>>();
        let (more, orders) = mpsc::channel();
        let spreading = Spreading {
            spread: spread.clone(),
            tables: Spreading::tables(client.account().clone())?,
            data_dir: data_dir.into(),
            host,
            endpoint,
            windows: windows.clone(),
            steps: counters.spread_steps.clone(),
        };
        let growth = growth::Growth::new(setup.grow_after, setup.buckets_max);
        let outside = sender::Outside {
            client,
            runtime: runtime.handle().clone(),
            departures,
            counters: counters.clone(),
            windows,
            least: tables.iter().map(|table| (table.name.clone(), table.buckets)).collect::<HashMap<_, NonZeroU16>>(),
            spread: spread.clone(),
            more,
            fill,
            is_newest_first,
            on_landed,
            events: inbox.bell.events.clone(),
        };
        let (bell, max) = (inbox.bell.clone(), setup.transactions_max.get().into());
        let sender = Sender::new(outside, unsent, growth, max);
        let is_ringing = bell.is_ringing.clone();
        let thread =
            std::thread::Builder::new().name("outbox".into()).spawn(move || sender.work(&inbox.events, &is_ringing))?;
        // It ends when nobody can ask it for more; nobody waits for it, as it may wait for the service.
        let spreading = std::thread::Builder::new().name("buckets".into()).spawn(move || spreading.work(&orders))?;
        Ok(Outbox { bell, counters, thread, spreading, spread, runtime })
    }

    /// What it counts.
    pub fn counters(&self) -> Arc<Counters> {
        self.counters.clone()
    }

    /// Whether one of its threads ended, which they do by themselves only by a fault of their own.
    pub fn has_ended(&self) -> bool {
        self.thread.is_finished() || self.spreading.is_finished()
    }

    /// Lets go of whoever waits for a decision that nobody takes any more. Does nothing while both threads run.
    pub fn let_go(&self) {
        if self.has_ended() {
            self.spread.close();
        }
    }

    /// Sends what it can for so long, without waiting for transactions to fill, and ends. What is left stays in the outbox.
    pub fn stop(self, grace: Duration) {
        self.spread.close();
        let _ = self.bell.events.send(Event::Stop(grace));
        let _ = self.thread.join();
        self.runtime.shutdown_background();
    }
}

/// Entities that wait to be sent: what is in the outbox, but for what was sent a moment ago.
pub fn waiting(counters: &Counters, level: &OutboxLevel) -> u64 {
    level.entities().saturating_sub(counters.settling.load(Ordering::Relaxed))
}
