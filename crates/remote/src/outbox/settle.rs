//! How answers are taken: rows landed, go again, go in parts, or never.

use super::counters::SetAside;
use super::dead;
use super::flight::{Flight, RowAt, Split};
use super::growth::whole_of;
use super::lane::LaneId;
use super::sender::{Event, Sender};
use super::verdict::{Verdict, verdict};
use daytable_azure::{Error, Kind, Scope};
use daytable_lifecycle::clock;
use daytable_model::key::DayTable;
use daytable_model::time;
use daytable_store::Ack;
use std::num::NonZeroU16;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Failures of a lane in a row after which it lets go of what it holds.
const UNLOADED_AFTER: u32 = 6;
/// Bytes of transactions that are to be sent again, over all lanes; a lane above that lets go of its own.
const PARKED_BYTES_MAX: usize = 32 << 20;
/// How often a failure is said.
const SAID_AGAIN: Duration = Duration::from_secs(60);
/// How long requests have failed when it is worth a word that they do no more.
const WORTH_A_WORD: Duration = Duration::from_secs(10);
/// How soon dead letters that were not kept are tried again, and rows of a table that was just created.
const AGAIN: Duration = Duration::from_secs(1);
/// How soon rows of a day that may be over are tried again.
const DOUBTED: Duration = Duration::from_secs(60);

impl Sender {
    /// Sends a flight, or has its rows kept as dead letters.
    pub(super) fn launch(&mut self, mut flight: Flight, day: &DayTable, now: Instant) {
        if flight.set_aside.is_none() && self.is_expired(day) {
            flight.set_aside = Some((SetAside::Expired, format!("{day} expired before it was sent")));
        }
        let number = self.number();
        if let Some(lane) = self.lanes.get_mut(&flight.lane) {
            lane.flights += 1;
        }
        let events = self.outside.events.clone();
        if flight.set_aside.is_some() {
            self.keep(number, &flight, day, now);
        } else {
            self.requests += 1;
            if flight.tries > 0 {
                self.outside.counters.retries.fetch_add(1, Ordering::Relaxed);
            }
            let (client, sealed) = (self.outside.client.clone(), flight.sealed.clone());
            self.outside.runtime.spawn(async move {
                let answer = client.transact(&sealed).await;
                let _ = events.send(Event::Answered(number, answer));
            });
        }
        self.flights.insert(number, flight);
    }

    /// Whether a day has expired by the wall clock, believed or not.
    fn is_over(&self, day: &DayTable) -> bool {
        self.outside.windows.get(day.table()).is_some_and(|window| window.expired(day, time::now()))
    }

    /// Whether a day's table is gone, or is about to be, by its window and a clock that is believed.
    fn is_expired(&self, day: &DayTable) -> bool {
        let Some(window) = self.outside.windows.get(day.table()) else { return false };
        let Some(newest) = self.newest else { return false };
        window.expired(day, time::now().min(newest.plus(clock::length(day.period(), newest))))
    }

    fn day_of(&self, lane: LaneId) -> Option<DayTable> {
        let lane = self.lanes.get(&lane)?;
        self.day_of_file(&lane.file)
    }

    /// An answer came.
    pub(super) fn answered(&mut self, number: u64, answer: Result<(), Error>, now: Instant) {
        let Some(mut flight) = self.flights.remove(&number) else { return };
        self.requests -= 1;
        let id = flight.lane;
        let Some(day) = self.day_of(id) else { return };
        let counters = self.outside.counters.clone();
        counters.count_code(answer.as_ref().map_or_else(|error| error.status().unwrap_or(0), |()| 202));
        let verdict = verdict(&answer);
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.flights -= 1;
        }
        let is_failure = matches!(verdict, Verdict::Again { .. } | Verdict::AgainLater | Verdict::Stop);
        if let Some(error) = answer.as_ref().err().filter(|_| is_failure) {
            self.say(error, now);
        }
        self.watch(id, &day, &flight, &answer, now);
        flight.tries += 1;
        match verdict {
            Verdict::Landed => {
                self.weather.succeeded();
                counters.sent.fetch_add(flight.rows.len() as u64, Ordering::Relaxed);
                counters.failures.store(0, Ordering::Relaxed);
                let was_denied = counters.is_denied.swap(false, Ordering::Relaxed);
                let failed_for =
                    self.failing.take().map_or(Duration::ZERO, |since| now.saturating_duration_since(since));
                if was_denied || failed_for >= WORTH_A_WORD {
                    tracing::info!(seconds = failed_for.as_secs(), "the remote store takes records again");
                }
                counters.say(String::new());
                (self.outside.on_landed)(flight.rows.len());
                if let Some(lane) = self.lanes.get_mut(&id) {
                    lane.backoff.succeeded();
                    lane.resume = None;
                }
                self.landed(id, &flight.rows);
            }
            Verdict::Again { named, is_all } => self.park(flight, named, is_all, now),
            Verdict::AgainLater => self.park(flight, None, true, now),
            Verdict::Stop => {
                self.denied(now);
                self.park(flight, None, false, now);
            }
            Verdict::Create => {
                if self.is_over(&day) && !self.is_expired(&day) {
                    // Over by the clock, which no record confirms yet: its owner may have dropped it.
                    if let Some(lane) = self.lanes.get_mut(&id) {
                        lane.resume = Some(now + DOUBTED);
                    }
                } else if !self.is_expired(&day) {
                    if self.tables.is_missing(&day, now) {
                        tracing::info!(table = %day, "is not there yet: it is created");
                        self.create(day, false);
                    } else if let Some(lane) = self.lanes.get_mut(&id) {
                        // It was created a moment ago, and not every part of the service knows it.
                        lane.resume = Some(now + AGAIN);
                    }
                }
                self.again(flight);
            }
            Verdict::AwaitTable => {
                self.tables.failed(&day, now);
                self.again(flight);
            }
            Verdict::Isolate(index) => self.divide(flight, &day, index, SetAside::Refused, &answer),
            Verdict::Halve => self.divide(flight, &day, None, SetAside::TooLarge, &answer),
        }
        self.schedule(id, now);
    }

    /// Has it noted what an answer says of how hot an instance is.
    fn watch(&mut self, id: LaneId, day: &DayTable, flight: &Flight, answer: &Result<(), Error>, now: Instant) {
        if answer.is_ok() && self.growth.is_idle() {
            return;
        }
        let Some(lane) = self.lanes.get(&id) else { return };
        let (whole, is_bucket) = whole_of(&lane.partition);
        let key = (day.clone(), whole.into());
        match answer.as_ref().map_err(Error::kind) {
            Ok(()) => self.growth.landed(&key, flight.rows.len() as u64, now),
            // What waits for the whole of an instance that has buckets was placed before it had them.
            Err(Kind::Throttled { scope: Scope::Partition, .. })
                if is_bucket || self.outside.buckets(day, whole) == NonZeroU16::MIN =>
            {
                self.growth.throttled(&key, now);
            }
            Err(_) => {}
        }
    }

    /// The service does not let us in.
    fn denied(&mut self, now: Instant) {
        if !self.outside.counters.is_denied.swap(true, Ordering::Relaxed) {
            tracing::error!(
                "the remote store does not let this daytable in: nothing is sent, what comes is kept in the outbox"
            );
        }
        self.weather.denied(now);
    }

    /// Keeps a flight that goes again, byte for byte, and holds its lane up for a while.
    fn park(&mut self, flight: Flight, named: Option<Duration>, is_all: bool, now: Instant) {
        let id = flight.lane;
        self.outside.counters.failures.fetch_add(1, Ordering::Relaxed);
        if is_all {
            self.weather.failed(now, named);
        }
        let Some(lane) = self.lanes.get_mut(&id) else { return };
        lane.resume = Some(now + lane.backoff.failed(named));
        let failures = lane.backoff.failures();
        self.again(flight);
        if failures >= UNLOADED_AFTER || self.parked_bytes > PARKED_BYTES_MAX {
            self.unload(id);
        }
    }

    fn again(&mut self, flight: Flight) {
        self.parked_bytes += flight.bytes();
        if let Some(lane) = self.lanes.get_mut(&flight.lane) {
            lane.parked.push_back(flight);
        }
    }

    /// Some of its rows are not taken: parts of it go, until it is one record alone.
    fn divide(
        &mut self,
        flight: Flight,
        day: &DayTable,
        index: Option<usize>,
        why: SetAside,
        answer: &Result<(), Error>,
    ) {
        let Some(partition) = self.lanes.get(&flight.lane).map(|lane| lane.partition.clone()) else { return };
        match flight.split(self.outside.client.account(), &day.to_string(), &partition, index) {
            Split::Two(first, second) => {
                self.again(first);
                self.again(second);
            }
            Split::One(mut alone) => {
                let said = answer.as_ref().err().map(|error| format!("{} {}", error.code(), error.message()));
                alone.set_aside = Some((why, said.unwrap_or_default().trim().to_owned()));
                self.again(alone);
            }
        }
    }

    /// Rows that no transaction takes.
    pub(super) fn set_aside_too_large(&mut self, id: LaneId, rows: Vec<RowAt>, day: &DayTable, now: Instant) {
        let reason = "is too large for a request".to_owned();
        let flight = Flight::aside(self.outside.client.account(), id, rows, SetAside::TooLarge, reason);
        self.launch(flight, day, now);
    }

    /// Has the rows of a flight kept as dead letters, but for those that were yesterday.
    fn keep(&mut self, number: u64, flight: &Flight, day: &DayTable, now: Instant) {
        let events = self.outside.events.clone();
        let Some(lane) = self.lanes.get(&flight.lane) else { return };
        let Some((_, reason)) = &flight.set_aside else { return };
        let (today, partition) = (time::now(), lane.partition.clone());
        if self.said_aside.is_none_or(|at| at + AGAIN <= now) {
            self.said_aside = Some(now);
            let rows = flight.rows.len();
            tracing::warn!(table = %day, partition = %partition, rows, %reason, "set aside as dead letters what the remote store does not take");
        }
        let yesterday = dead::yesterday(today);
        let was_kept = |row: &RowAt| {
            yesterday.as_ref().is_some_and(|yesterday| self.unsent.has_row(yesterday, &partition, row.key()))
        };
        let rows: Vec<RowAt> = flight.rows.iter().filter(|row| !was_kept(row)).cloned().collect();
        let kept = match dead::batch(&rows, &day.to_string(), &partition, reason, today) {
            Ok(batch) if !batch.is_empty() => {
                let events = events.clone();
                let done = Ack::awaited(move |is_kept| drop(events.send(Event::Kept(number, is_kept))));
                self.outside.departures.keep(vec![batch], done).map(|()| None)
            }
            Ok(_) => Ok(Some(true)),
            Err(_) => Ok(Some(false)),
        };
        if let Some(is_kept) = kept.unwrap_or(Some(false)) {
            let _ = events.send(Event::Kept(number, is_kept));
        }
    }

    /// Dead letters are on disk, or not.
    pub(super) fn kept(&mut self, number: u64, is_kept: bool, now: Instant) {
        let Some(flight) = self.flights.remove(&number) else { return };
        let id = flight.lane;
        if let Some(lane) = self.lanes.get_mut(&id) {
            lane.flights -= 1;
        }
        if is_kept {
            if let Some((why, _)) = &flight.set_aside {
                self.outside.counters.count_set_aside(*why, flight.rows.len() as u64);
            }
            self.landed(id, &flight.rows);
        } else {
            if let Some(lane) = self.lanes.get_mut(&id) {
                lane.resume = Some(now + AGAIN);
            }
            self.again(flight);
        }
        self.schedule(id, now);
    }

    /// A table was asked for.
    pub(super) fn made(&mut self, day: &DayTable, made: Result<(), Error>, now: Instant) {
        let code = made.as_ref().map_or_else(|error| error.status().unwrap_or(0), |()| 201);
        self.outside.counters.count_code(code);
        match made {
            Ok(()) => self.tables.made(day, now),
            Err(error) if error.kind() == Kind::TableAlreadyExists => self.tables.made(day, now),
            Err(error) => {
                self.say(&error, now);
                if error.kind() == Kind::Denied {
                    self.denied(now);
                }
                self.tables.failed(day, now);
            }
        }
        let of_day = |id: &LaneId| self.day_of(*id).as_ref() == Some(day);
        let waiting: Vec<LaneId> = self.lanes.keys().copied().filter(of_day).collect();
        waiting.into_iter().for_each(|id| self.schedule(id, now));
    }

    /// Says a failure, where none was said lately.
    fn say(&mut self, error: &Error, now: Instant) {
        let counters = &self.outside.counters;
        counters.say(error.to_string());
        self.failing.get_or_insert(now);
        if matches!(error.kind(), Kind::Throttled { .. }) {
            counters.throttled.fetch_add(1, Ordering::Relaxed);
        }
        if self.said.is_none_or(|at| at + SAID_AGAIN <= now) {
            self.said = Some(now);
            tracing::warn!(%error, "failed to send: it is tried again");
        }
    }
}
