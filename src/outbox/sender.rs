//! The sender's thread: what waits is found, lanes that are ready send, and what was sent goes.
//!
//! One loop, woken by commits, answers and due times. Nothing in it waits but the loop itself, and what it reads of the data
//! folder. How answers are taken is in `settle`.

use super::counters::Counters;
use super::flight::{Flight, RowAt};
use super::lane::{Built, Found, Lane, LaneId, Serial, UNITS_MAX, Unit, Want};
use super::tables::{Tables, needed_soon};
use super::weather::Weather;
use crate::azure::{Client, Error};
use crate::key::{DayTable, TableName};
use crate::lifecycle::Window;
use crate::store::catalogue::LiveFile;
use crate::store::outbox::{Departure, STAYS_AFTER, Seen, Sent, Unsent};
use crate::store::{Departures, StoreError};
use crate::time::{self, Ticks};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// Pages that are known at a time, over all lanes: some 300 bytes each.
const HEADS_MAX: usize = 16_384;
/// Lanes that are fed before answers are looked at again.
const FED_AT_A_TIME: usize = 64;
/// How often it is looked at least, and how soon after a look the next one comes.
const LOOK: Duration = Duration::from_secs(5);
const LOOK_AGAIN: Duration = Duration::from_millis(10);
/// How often pages that were sent are removed, and how many at a time.
const REMOVE: Duration = Duration::from_millis(500);
const REMOVED_AT_A_TIME: usize = 4096;
/// How often it is looked which tables are needed soon.
const AHEAD: Duration = Duration::from_secs(30);
/// How long the loop sleeps at most.
const SLEEP: Duration = Duration::from_secs(1);

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
    due: Instant,
    lane: LaneId,
    page: Sent,
    entities: u64,
}

/// What the sender works with.
pub(super) struct Outside {
    pub(super) client: Client,
    pub(super) runtime: tokio::runtime::Handle,
    pub(super) departures: Departures,
    pub(super) counters: Arc<Counters>,
    pub(super) windows: HashMap<TableName, Window>,
    pub(super) fill: Duration,
    pub(super) is_newest_first: bool,
    pub(super) on_landed: Box<dyn Fn(usize) + Send>,
    pub(super) events: mpsc::Sender<Event>,
}

struct File {
    live: LiveFile,
    seen: Seen,
    lanes: HashMap<i64, LaneId>,
}

/// What is left of a page.
pub(super) struct Left {
    pub(super) rows: usize,
    lane: LaneId,
    page: Sent,
    entities: u64,
    found: Instant,
}

/// See the module's head.
pub(super) struct Sender {
    pub(super) outside: Outside,
    pub(super) unsent: Unsent,
    files: HashMap<Arc<str>, File>,
    pub(super) lanes: HashMap<LaneId, Lane>,
    /// Lanes that may send now, by which goes first.
    ready: BTreeSet<(i64, LaneId)>,
    /// Lanes that are to be looked at again, and when.
    timers: BinaryHeap<Reverse<(Instant, LaneId)>>,
    /// Lanes that want more pages, the oldest day first.
    hungry: BTreeSet<(i64, LaneId)>,
    pub(super) flights: HashMap<u64, Flight>,
    /// Flights that are under way to the service: the others go to the dead letters.
    pub(super) requests: usize,
    pub(super) left: HashMap<Serial, Left>,
    departing: VecDeque<Gone>,
    is_removing: bool,
    removed: Instant,
    heads: usize,
    pub(super) weather: Weather,
    pub(super) tables: Tables,
    looked: Option<Instant>,
    looked_ahead: Option<Instant>,
    pub(super) newest: Option<Ticks>,
    stop: Option<Instant>,
    numbers: u64,
    pub(super) parked_bytes: usize,
    /// Tables that are asked for.
    asking: usize,
    /// When a failure was last said, when dead letters were, and since when requests fail.
    pub(super) said: Option<Instant>,
    pub(super) said_aside: Option<Instant>,
    pub(super) failing: Option<Instant>,
}

impl Sender {
    pub(super) fn new(outside: Outside, unsent: Unsent, requests_max: usize) -> Sender {
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

    /// Looks what was committed. Says whether there is more.
    fn look(&mut self, now: Instant) -> bool {
        self.looked = Some(now);
        let looked = (|| {
            let files = self.unsent.files()?;
            if self.looked_ahead.is_none() {
                self.newest = self.unsent.newest()?;
            }
            let mut has_more = false;
            for live in files {
                has_more |= self.look_at(live, now)?;
            }
            Ok::<_, StoreError>(has_more)
        })();
        looked.unwrap_or_else(|error| {
            tracing::error!(%error, "failed to read what is to be sent");
            false
        })
    }

    fn look_at(&mut self, live: LiveFile, now: Instant) -> Result<bool, StoreError> {
        let name: Arc<str> = live.name.as_str().into();
        let file = self.files.entry(name.clone());
        let file = file.or_insert_with(|| File { live, seen: Seen::default(), lanes: HashMap::new() });
        let news = self.unsent.news(&file.live, &mut file.seen)?;
        let mut touched = BTreeSet::new();
        for partition in news.behind {
            if let Some(id) = self.lane(&name, partition)? {
                self.lanes.get_mut(&id).into_iter().for_each(|lane| lane.is_behind = true);
                touched.insert(id);
            }
        }
        for head in news.pages {
            let Some(id) = self.lane(&name, head.partition())? else { continue };
            let Some(lane) = self.lanes.get_mut(&id) else { continue };
            touched.insert(id);
            if lane.is_behind || lane.known.contains(&head.sent()) {
                continue;
            }
            if lane.units.len() >= UNITS_MAX || self.heads >= HEADS_MAX {
                lane.is_behind = true;
                continue;
            }
            self.add(id, vec![head], now);
        }
        touched.into_iter().for_each(|id| self.schedule(id, now));
        Ok(news.has_more)
    }

    /// The lane of a partition of a file.
    fn lane(&mut self, file: &Arc<str>, partition: i64) -> Result<Option<LaneId>, StoreError> {
        let Some(of) = self.files.get_mut(file) else { return Ok(None) };
        if let Some(id) = of.lanes.get(&partition) {
            return Ok(Some(*id));
        }
        let Some(name) = self.unsent.partition(&of.live, partition)? else { return Ok(None) };
        self.numbers += 1;
        let id = self.numbers;
        of.lanes.insert(partition, id);
        self.lanes.insert(id, Lane::new(file.clone(), partition, name, id));
        Ok(Some(id))
    }

    fn add(&mut self, id: LaneId, heads: Vec<crate::store::outbox::Head>, now: Instant) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        let mut units = Vec::with_capacity(heads.len());
        for head in heads {
            self.numbers += 1;
            let (serial, entities) = (self.numbers, head.entities());
            let left =
                Left { rows: entities as usize, lane: id, page: head.sent(), entities: entities.into(), found: now };
            self.left.insert(serial, left);
            units.push(Unit::new(serial, head, now));
        }
        self.heads += units.len();
        lane.add(units, self.outside.is_newest_first);
    }

    /// Puts a lane where it belongs: it is ready, is later, or wants more pages.
    pub(super) fn schedule(&mut self, id: LaneId, now: Instant) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        if let Some(order) = lane.queued.take() {
            self.ready.remove(&(order, id));
        }
        if lane.is_over() {
            if let Some(file) = self.files.get_mut(&lane.file) {
                file.lanes.remove(&lane.partition_id);
            }
            self.lanes.remove(&id);
            return;
        }
        let resume = lane.resume.filter(|resume| *resume > now);
        if lane.is_behind && lane.units.len() < UNITS_MAX / 2 {
            match resume {
                Some(resume) => self.timers.push(Reverse((resume, id))),
                None => {
                    let start = self.files.get(&lane.file).map_or(0, |file| file.live.day.start().get());
                    self.hungry.insert((if self.outside.is_newest_first { -start } else { start }, id));
                }
            }
        }
        match lane.want(now, self.outside.fill) {
            Want::Now => {
                let order = lane.order(self.outside.is_newest_first);
                lane.queued = Some(order);
                self.ready.insert((order, id));
            }
            Want::At(at) => self.timers.push(Reverse((at, id))),
            Want::Nothing => {}
        }
    }

    /// Gives lanes the pages that they want, and looks at those that are due.
    fn feed(&mut self, now: Instant) {
        while let Some(Reverse((at, id))) = self.timers.peek().copied()
            && at <= now
        {
            self.timers.pop();
            self.schedule(id, now);
        }
        for _ in 0..FED_AT_A_TIME {
            if self.heads >= HEADS_MAX {
                return;
            }
            let Some((_, id)) = self.hungry.pop_first() else { return };
            let Some(lane) = self.lanes.get(&id) else { continue };
            let Some(file) = self.files.get(&lane.file) else { continue };
            let (partition, wanted) = (lane.partition_id, UNITS_MAX.saturating_sub(lane.units.len()));
            let is_newest_first = self.outside.is_newest_first;
            match self.unsent.pages_of(&file.live, partition, &lane.known, wanted, is_newest_first) {
                Ok((heads, has_more)) => {
                    self.add(id, heads, now);
                    self.lanes.get_mut(&id).into_iter().for_each(|lane| lane.is_behind = has_more);
                    self.schedule(id, now);
                }
                Err(error) => {
                    tracing::error!(%error, "failed to read what is to be sent");
                    self.timers.push(Reverse((now + SLEEP, id)));
                }
            }
        }
    }

    /// Sends what is ready, as far as requests may be under way.
    fn dispatch(&mut self, now: Instant) {
        while self.requests < self.weather.limit(now)
            && let Some((_, id)) = self.ready.pop_first()
        {
            let Some(lane) = self.lanes.get_mut(&id) else { continue };
            lane.queued = None;
            let Some(day) = self.files.get(&lane.file).map(|file| file.live.day.clone()) else { continue };
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

    /// The next transaction of a lane.
    fn build(&mut self, id: LaneId, day: &DayTable, now: Instant) -> Option<Flight> {
        let lane = self.lanes.get_mut(&id)?;
        let live = &self.files.get(&lane.file)?.live;
        let (unsent, before) = (&self.unsent, lane.units.len());
        let read = |head: &crate::store::outbox::Head| match unsent.read(live, head) {
            Ok(Some(page)) => Found::Page(Arc::new(page)),
            Ok(None) => Found::Gone,
            Err(error) => {
                tracing::error!(%error, table = %day, "failed to read a page that is to be sent: it stays in the outbox");
                Found::Damaged
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

    /// A number that no other has.
    pub(super) fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    pub(super) fn day_of_file(&self, file: &Arc<str>) -> Option<DayTable> {
        self.files.get(file).map(|file| file.live.day.clone())
    }

    /// The rows of a flight are there, or among the dead letters: pages of which all are may go.
    pub(super) fn landed(&mut self, lane: LaneId, rows: &[RowAt]) {
        if let Some(lane) = self.lanes.get_mut(&lane) {
            lane.landed(rows);
        }
        let mut done = BTreeMap::new();
        for row in rows {
            *done.entry(row.unit).or_insert(0) += 1;
        }
        for (serial, rows) in done {
            let Some(left) = self.left.get_mut(&serial) else { continue };
            left.rows = left.rows.saturating_sub(rows);
            if left.rows > 0 {
                continue;
            }
            if let Some(Left { lane, page, entities, found, .. }) = self.left.remove(&serial) {
                self.outside.counters.settling.fetch_add(entities, Ordering::Relaxed);
                self.departing.push_back(Gone { due: found + STAYS_AFTER, lane, page, entities });
            }
        }
    }

    /// Lets go of what a lane holds: it fails for long, and is found again in its file.
    pub(super) fn unload(&mut self, id: LaneId) {
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        self.heads -= lane.units.len();
        self.parked_bytes -= lane.parked.iter().map(Flight::bytes).sum::<usize>();
        for serial in lane.unload() {
            if let Some(left) = self.left.remove(&serial) {
                lane.known.remove(&left.page);
            }
        }
    }

    /// Has pages removed that were sent and have stood long enough.
    fn remove(&mut self, now: Instant) {
        let is_stopping = self.stop.is_some();
        if self.is_removing || !is_stopping && self.removed + REMOVE > now {
            return;
        }
        let mut by_file: BTreeMap<Arc<str>, Vec<Sent>> = BTreeMap::new();
        let mut pages = Vec::new();
        let mut waiting = VecDeque::new();
        while let Some(gone) = self.departing.pop_front() {
            let is_due = is_stopping || gone.due <= now;
            if !is_due || pages.len() >= REMOVED_AT_A_TIME {
                waiting.push_back(gone);
                // They come nearly in order.
                if !is_due && waiting.len() > 64 || pages.len() >= REMOVED_AT_A_TIME {
                    break;
                }
                continue;
            }
            if let Some(lane) = self.lanes.get(&gone.lane) {
                by_file.entry(lane.file.clone()).or_default().push(gone.page);
                pages.push(gone);
            }
        }
        while let Some(gone) = waiting.pop_back() {
            self.departing.push_front(gone);
        }
        if pages.is_empty() {
            return;
        }
        let departures = by_file.into_iter().filter_map(|(file, pages)| {
            let day = self.files.get(&file)?.live.day.clone();
            Some(Departure { day, file: file.to_string(), pages })
        });
        let departures = departures.collect();
        let events = self.outside.events.clone();
        let told = move |removed| drop(events.send(Event::Removed(pages, removed)));
        self.removed = now;
        // Where the store is closing it stays, and is sent again.
        self.is_removing = self.outside.departures.remove(departures, told).is_ok();
    }

    fn went(&mut self, pages: Vec<Gone>, removed: Result<(), StoreError>, now: Instant) {
        self.is_removing = false;
        if let Err(error) = &removed {
            tracing::error!(%error, "failed to remove what was sent: it is tried again");
        }
        for gone in pages {
            if removed.is_err() {
                self.departing.push_back(Gone { due: now + SLEEP, ..gone });
                continue;
            }
            self.outside.counters.settling.fetch_sub(gone.entities, Ordering::Relaxed);
            if let Some(lane) = self.lanes.get_mut(&gone.lane) {
                lane.known.remove(&gone.page);
            }
            self.schedule(gone.lane, now);
        }
    }

    /// Has tables created that are needed soon, and forgets what is over.
    fn look_ahead(&mut self, now: Instant) {
        if self.looked_ahead.is_some_and(|at| at + AHEAD > now) {
            return;
        }
        self.looked_ahead = Some(now);
        let today = time::now();
        match self.unsent.forget_gone().and_then(|()| self.unsent.newest()) {
            Ok(newest) => self.newest = newest,
            Err(error) => tracing::error!(%error, "failed to read the catalogue"),
        }
        let windows = self.outside.windows.iter().map(|(name, window)| (name, window.period));
        for next in needed_soon(windows, today) {
            if !self.tables.is_made(&next) && self.tables.is_missing(&next, now) {
                self.create(next, true);
            }
        }
        self.tables.forget_before(today.minus(Duration::from_secs(86_400)));
        if let Ok(files) = self.unsent.files() {
            let lanes = &self.lanes;
            self.files.retain(|name, file| {
                files.iter().any(|live| live.name == **name) || file.lanes.values().any(|id| lanes.contains_key(id))
            });
        }
    }

    /// Asks for a table. One that is needed later is looked for first: it may be there.
    pub(super) fn create(&mut self, day: DayTable, is_ahead: bool) {
        let (client, events) = (self.outside.client.clone(), self.outside.events.clone());
        self.asking += 1;
        self.outside.runtime.spawn(async move {
            let name = day.to_string();
            let is_there = async {
                let found = client.list_tables(&name).await?;
                Ok::<_, Error>(found.iter().any(|found| found.eq_ignore_ascii_case(&name)))
            };
            let made = match if is_ahead { is_there.await } else { Ok(false) } {
                Ok(true) => Ok(()),
                Ok(false) => client.create_table(&name).await,
                Err(error) => Err(error),
            };
            let _ = events.send(Event::Made(day, made));
        });
    }
}
