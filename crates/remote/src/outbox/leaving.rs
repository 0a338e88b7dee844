//! What was sent goes: a page of which all rows are at the service, or among the dead letters, is removed from its file.

use super::flight::{Flight, RowAt};
use super::lane::LaneId;
use super::sender::{Event, Gone, Left, SLEEP, Sender};
use daytable_store::StoreError;
use daytable_store::outbox::{OutboxRemoval, STAYS_AFTER, SentPage};
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// How often pages that were sent are removed, and how many at a time.
pub(super) const REMOVE: Duration = Duration::from_millis(500);
const REMOVED_AT_A_TIME: usize = 4096;

impl Sender {
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
    pub(super) fn remove(&mut self, now: Instant) {
        let is_stopping = self.stop.is_some();
        if self.is_removing || !is_stopping && self.removed + REMOVE > now {
            return;
        }
        let mut by_file: BTreeMap<Arc<str>, Vec<SentPage>> = BTreeMap::new();
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
            Some(OutboxRemoval { day, file: file.to_string(), pages })
        });
        let departures = departures.collect();
        let events = self.outside.events.clone();
        let told = move |removed| drop(events.send(Event::Removed(pages, removed)));
        self.removed = now;
        // Where the store is closing it stays, and is sent again.
        self.is_removing = self.outside.departures.remove(departures, told).is_ok();
    }

    pub(super) fn went(&mut self, pages: Vec<Gone>, removed: Result<(), StoreError>, now: Instant) {
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
}
