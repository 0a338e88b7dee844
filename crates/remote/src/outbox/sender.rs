//! The sender's thread: what waits is found, lanes that are ready send, and what was sent goes.
//!
//! One loop, woken by commits, answers and due times. Nothing in it waits but the loop itself, and what it reads of the data
//! folder. What waits is found in `finding`, what was
//! sent goes in `leaving`, tables come about in `creating`, and how answers are taken is in `settle`.

use super::counters::Counters;
use super::finding::HEADS_MAX;
use super::flight::Flight;
use super::growth::{Growth, Key, whole_of};
use super::lane::{Built, Found, Lane, LaneId, Serial};
use super::leaving::REMOVE;
use super::spreading::More;
use super::tables::Tables;
use super::weather::Weather;
use daytable_azure::{Client, Error};
use daytable_model::bucket_plan::BucketPlan;
use daytable_model::key::{DayTable, TableName};
use daytable_model::time::{self, Ticks};
use daytable_model::window::Window;
use daytable_store::catalog::LiveFile;
use daytable_store::outbox::{OutboxPosition, OutboxReader, SentPage, WaitingPage};
use daytable_store::{OutboxRemover, StoreError};
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How often it is looked at least, and how soon after a look the next one comes.
const LOOK: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// How soon a lane that fails is looked at again, where others that fail have taken their half of the requests.
const FAILING_AGAIN: Duration = Duration::from_millis(100);
/// Flights that may be on their way to the dead letters at a time: the committer takes them whole.
const ASIDE_MAX: usize = 8;
/// How long the loop sleeps at most.
pub(super) const SLEEP: Duration = Duration::from_secs(1);

/// What the thread hears.
pub(super) enum Event {
    /// Something was committed.
    Wake,
    /// An answer came.
    Answered(u64, Result<(), Error>),
    /// A table was created, or not.
    Made(DayTable, Result<(), Error>),
    /// Dead letters are on disk, or not.
    Kept(u64, bool),
    /// Pages were removed, or not.
    Removed(Vec<Gone>, Result<(), StoreError>),
    /// It is to end within this time.
    Stop(Duration),
}

/// A page that was sent.
#[derive(Clone, Copy)]
pub(super) struct Gone {
    pub(super) due: Instant,
    pub(super) lane: LaneId,
    pub(super) page: SentPage,
    pub(super) entities: u64,
}

/// What the sender works with.
pub(super) struct Outside {
    pub(super) client: Client,
    pub(super) runtime: tokio::runtime::Handle,
    pub(super) departures: OutboxRemover,
    pub(super) counters: Arc<Counters>,
    pub(super) windows: HashMap<TableName, Window>,
    /// Partitions that an instance has in a table without any step.
    pub(super) least: HashMap<TableName, NonZeroU16>,
    pub(super) spread: Arc<BucketPlan>,
    pub(super) more: mpsc::Sender<More>,
    pub(super) fill: Duration,
    pub(super) is_newest_first: bool,
    pub(super) on_landed: Box<dyn Fn(usize) + Send>,
    pub(super) events: mpsc::Sender<Event>,
}

impl Outside {
    /// Partitions that an instance has in a day-table since its last step.
    pub(super) fn buckets(&self, table: &DayTable, partition: &str) -> NonZeroU16 {
        let least = self.least.get(table.table()).copied().unwrap_or(NonZeroU16::MIN);
        self.spread.buckets(table, partition).unwrap_or(least).max(least)
    }
}

/// A file of the outbox, and the lanes of its partitions.
pub(super) struct File {
    pub(super) live: LiveFile,
    pub(super) seen: OutboxPosition,
    pub(super) lanes: HashMap<i64, LaneId>,
}

/// What is left of a page.
pub(super) struct Left {
    pub(super) rows: usize,
    pub(super) lane: LaneId,
    pub(super) page: SentPage,
    pub(super) entities: u64,
    pub(super) found: Instant,
}

/// See the module's head.
pub(super) struct Sender {
    pub(super) outside: Outside,
    pub(super) unsent: OutboxReader,
    pub(super) files: HashMap<Arc<str>, File>,
    pub(super) lanes: HashMap<LaneId, Lane>,
    /// Lanes that may send now, by which goes first.
    pub(super) ready: BTreeSet<(i64, LaneId)>,
    /// Lanes that are to be looked at again, and when.
    pub(super) timers: BinaryHeap<Reverse<(Instant, LaneId)>>,
    /// Lanes that want more pages, the oldest day first.
    pub(super) hungry: BTreeSet<(i64, LaneId)>,
    pub(super) flights: HashMap<u64, Flight>,
    /// Flights that are under way to the service: the others go to the dead letters.
    pub(super) requests: usize,
    pub(super) left: HashMap<Serial, Left>,
    pub(super) departing: VecDeque<Gone>,
    pub(super) is_removing: bool,
    pub(super) removed: Instant,
    pub(super) heads: usize,
    pub(super) weather: Weather,
    pub(super) growth: Growth,
    pub(super) grown: Instant,
    pub(super) tables: Tables,
    pub(super) looked: Option<Instant>,
    pub(super) looked_ahead: Option<Instant>,
    pub(super) newest: Option<Ticks>,
    pub(super) stop: Option<Instant>,
    pub(super) numbers: u64,
    pub(super) parked_bytes: usize,
    /// Tables that are asked for.
    pub(super) asking: usize,
    /// When a failure was last said, when dead letters were, and since when requests fail.
    pub(super) said: Option<Instant>,
    pub(super) said_aside: Option<Instant>,
    pub(super) failing: Option<Instant>,
}

impl Sender {
    pub(super) fn new(outside: Outside, unsent: OutboxReader, growth: Growth, requests_max: usize) -> Sender {
        let seed = u64::from(std::process::id());
        Sender {
            outside,
            unsent,
            files: HashMap::new(),
            lanes: HashMap::new(),
            ready: BTreeSet::new(),
            timers: BinaryHeap::new(),
            hungry: BTreeSet::new(),
            flights: HashMap::new(),
            requests: 0,
            left: HashMap::new(),
            departing: VecDeque::new(),
            is_removing: false,
            removed: Instant::now(),
            heads: 0,
            weather: Weather::new(requests_max, seed),
            growth,
            grown: Instant::now(),
            tables: Tables::default(),
            looked: None,
            looked_ahead: None,
            newest: None,
            stop: None,
            numbers: seed << 32,
            parked_bytes: 0,
            asking: 0,
            said: None,
            said_aside: None,
            failing: None,
        }
    }

    /// Works until it is told to end.
    pub(super) fn work(mut self, events: &mpsc::Receiver<Event>, is_ringing: &AtomicBool) {
        let mut is_woken = true;
        loop {
            let now = Instant::now();
            let is_due = self.looked.is_none_or(|at| at + LOOK <= now || is_woken && at + LOOK_AGAIN <= now);
            if is_due {
                // First, so that what is committed from now on rings again.
                is_ringing.store(false, Ordering::Release);
                is_woken = self.look(now);
            }
            self.look_ahead(now);
            self.grow(now);
            self.feed(now);
            self.dispatch(now);
            self.remove(now);
            if self.is_done(now) {
                return;
            }
            let wait = if is_woken { LOOK_AGAIN } else { self.due(now) };
            match events.recv_timeout(wait) {
                Ok(event) => is_woken |= self.take(event),
                Err(mpsc::RecvTimeoutError::Timeout) => {}
                Err(mpsc::RecvTimeoutError::Disconnected) => return,
            }
            while let Ok(event) = events.try_recv() {
                is_woken |= self.take(event);
            }
        }
    }

    /// Says whether there is something new to look for.
    fn take(&mut self, event: Event) -> bool {
        let now = Instant::now();
        match event {
            Event::Wake => return true,
            Event::Answered(number, answer) => self.answered(number, answer, now),
            Event::Made(day, made) => {
                self.asking -= 1;
                self.made(&day, made, now);
            }
            Event::Kept(number, is_kept) => self.kept(number, is_kept, now),
            Event::Removed(pages, removed) => self.went(pages, removed, now),
            Event::Stop(grace) => {
                self.stop = Some(now + grace);
                // Nothing waits for more to come.
                self.outside.fill = Duration::ZERO;
                self.lanes.keys().copied().collect::<Vec<_>>().into_iter().for_each(|id| self.schedule(id, now));
                return true;
            }
        }
        false
    }

    fn is_done(&self, now: Instant) -> bool {
        let Some(stop) = self.stop else { return false };
        let may_send = self.weather.limit(now) > 0 && !(self.ready.is_empty() && self.hungry.is_empty());
        let is_idle = self.flights.is_empty() && self.asking == 0 && !may_send;
        let is_settled = self.departing.is_empty() && !self.is_removing;
        // What was sent is removed, if only that is missing.
        is_idle && is_settled || stop <= now && (is_settled || stop + SLEEP <= now)
    }

    fn due(&self, now: Instant) -> Duration {
        let timer = self.timers.peek().map(|Reverse((at, _))| *at);
        let removal = self.departing.front().map(|gone| gone.due.max(self.removed + REMOVE));
        let weather = self.weather.resume(now);
        let first = [timer, removal.filter(|_| !self.is_removing), weather].into_iter().flatten().min();
        let is_hungry = !self.hungry.is_empty() && self.heads < HEADS_MAX;
        let wait = first.map_or(SLEEP, |at| at.saturating_duration_since(now)).min(SLEEP);
        if is_hungry { Duration::ZERO } else { wait.max(Duration::from_millis(1)) }
    }

    /// Sends what is ready, as far as requests may be under way.
    fn dispatch(&mut self, now: Instant) {
        while self.requests < self.weather.limit(now)
            && self.flights.len() - self.requests < ASIDE_MAX
            && let Some((_, id)) = self.ready.pop_first()
        {
            let failing = self.failing_flights();
            let Some(lane) = self.lanes.get_mut(&id) else { continue };
            lane.queued = None;
            if lane.backoff.failures() > 0 && failing >= (self.weather.limit(now) / 2).max(1) {
                self.timers.push(Reverse((now + FAILING_AGAIN, id)));
                continue;
            }
            let Some(day) = self.files.get(&lane.file).map(|file| file.live.day.clone()) else { continue };
            if self.outside.spread.is_held(&day, whole_of(&lane.partition).0) {
                self.timers.push(Reverse((now + FAILING_AGAIN, id)));
                continue;
            }
            if let Some(resume) = self.tables.resume(&day, now) {
                self.timers.push(Reverse((resume, id)));
                continue;
            }
            let parked = lane.parked.pop_front();
            self.parked_bytes -= parked.as_ref().map_or(0, Flight::bytes);
            if let Some(flight) = parked.or_else(|| self.build(id, &day, now)) {
                self.launch(flight, &day, now);
            }
            self.schedule(id, now);
        }
    }

    /// Flights of lanes that failed last. A request may hang for long before it fails, so they have half of the requests at
    /// most, and the others go on.
    fn failing_flights(&self) -> usize {
        let fails = |flight: &&Flight| self.lanes.get(&flight.lane).is_some_and(|lane| lane.backoff.failures() > 0);
        self.flights.values().filter(fails).count()
    }

    /// The next transaction of a lane.
    fn build(&mut self, id: LaneId, day: &DayTable, now: Instant) -> Option<Flight> {
        let lane = self.lanes.get_mut(&id)?;
        let live = &self.files.get(&lane.file)?.live;
        let (unsent, before) = (&self.unsent, lane.units.len());
        let read = |head: &WaitingPage| match unsent.read(live, head) {
            Ok(Some(page)) => Found::Page(Arc::new(page)),
            Ok(None) => Found::Gone,
            Err(error @ StoreError::Damaged { .. }) => {
                tracing::error!(%error, table = %day, "failed to read a page that is to be sent: it stays in the outbox");
                Found::Damaged
            }
            Err(error) => {
                tracing::error!(%error, table = %day, "failed to read a page that is to be sent: it is tried again");
                Found::Later
            }
        };
        let Built { flight, gone, too_large } = lane.build(id, self.outside.client.account(), &day.to_string(), read);
        self.heads -= before - lane.units.len();
        for (serial, page) in gone {
            lane.known.remove(&page);
            // It may have been merged with others.
            lane.is_behind = true;
            self.left.remove(&serial);
        }
        if !too_large.is_empty() {
            self.set_aside_too_large(id, too_large, day, now);
        }
        flight
    }

    /// Has instances spread over more partitions that are throttled for long.
    fn grow(&mut self, now: Instant) {
        if self.growth.is_calm() || now < self.grown + SLEEP {
            return;
        }
        self.grown = now;
        let Sender { growth, lanes, files, unsent, outside, departing, .. } = self;
        let waits = |(day, whole): &Key| {
            let is_of = |lane: &Lane| {
                files.get(&lane.file).is_some_and(|file| file.live.day == *day)
                    && whole_of(&lane.partition).0 == &**whole
            };
            let waiting = lanes.values().filter(|lane| is_of(lane)).map(|lane| {
                let file = files.get(&lane.file).map(|file| unsent.entities_of(&file.live, lane.partition_id));
                file.and_then(Result::ok).unwrap_or(0)
            });
            let waiting: u64 = waiting.sum();
            // What was sent stays for a while.
            let is_gone = |gone: &&Gone| lanes.get(&gone.lane).is_some_and(is_of);
            waiting.saturating_sub(departing.iter().filter(is_gone).map(|gone| gone.entities).sum())
        };
        let has = |(day, whole): &Key| outside.buckets(day, whole);
        let more = growth.look(now, waits, has);
        let today = time::now();
        for ((table, partition), buckets) in more {
            let next = table.next();
            if super::tables::is_needed_soon(&next, today) {
                self.spread_over(next, &partition, buckets);
            }
            self.spread_over(table, &partition, buckets);
        }
    }

    /// Has an instance spread over so many partitions in a day-table, if they are more than it has there.
    pub(super) fn spread_over(&self, table: DayTable, partition: &Arc<str>, buckets: NonZeroU16) {
        if self.outside.buckets(&table, partition) < buckets {
            // A thread that has ended is noticed elsewhere.
            let _ = self.outside.more.send(More { table, partition: partition.clone(), buckets });
        }
    }

    /// A number that no other has.
    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(super) fn day_of_file(&self, file: &Arc<str>) -> Option<DayTable> {
        self.files.get(file).map(|file| file.live.day.clone())
    }
}
