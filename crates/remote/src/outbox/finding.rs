//! What waits is found: files are looked at, lanes get the pages that they want, and stand where they belong.

use super::lane::{Lane, LaneId, UNITS_MAX, Unit, Want};
use super::sender::{File, Left, SLEEP, Sender};
use daytable_store::StoreError;
use daytable_store::catalog::LiveFile;
use daytable_store::outbox::{OutboxPosition, WaitingPage};
use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Instant;

/// Pages that are known at a time, over all lanes: some 300 bytes each.
pub(super) const HEADS_MAX: usize = 16_384;
/// Lanes that are fed before answers are looked at again.
const FED_AT_A_TIME: usize = 64;

impl Sender {
    /// Looks what was committed. Says whether there is more.
    pub(super) fn look(&mut self, now: Instant) -> bool {
        self.looked = Some(now);
        let looked = (|| {
            let files = self.unsent.files()?;
            if self.looked_ahead.is_none() {
                self.newest = self.unsent.newest()?;
            }
            let mut has_more = false;
            for live in files {
                let table = live.day.clone();
                // One file that cannot be read holds up no other day.
                match self.look_at(live, now) {
                    Ok(more) => has_more |= more,
                    Err(error) => tracing::error!(%error, %table, "failed to read what is to be sent"),
                }
            }
            Ok::<_, StoreError>(has_more)
        })();
        looked.unwrap_or_else(|error| {
            tracing::error!(%error, "failed to read what is to be sent");
            false
        })
    }

    pub(super) fn look_at(&mut self, live: LiveFile, now: Instant) -> Result<bool, StoreError> {
        let name: Arc<str> = live.name.as_str().into();
        let file = self.files.entry(name.clone());
        let file = file.or_insert_with(|| File { live, seen: OutboxPosition::default(), lanes: HashMap::new() });
        // Moved on once all of it has come to a lane: what fails half-way is looked at again, and what is known passed over.
        let mut seen = file.seen.clone();
        let news = self.unsent.new_pages(&file.live, &mut seen)?;
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
        if let Some(file) = self.files.get_mut(&name) {
            file.seen = seen;
        }
        Ok(news.has_more)
    }

    /// The lane of a partition of a file.
    pub(super) fn lane(&mut self, file: &Arc<str>, partition: i64) -> Result<Option<LaneId>, StoreError> {
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

    pub(super) fn add(&mut self, id: LaneId, heads: Vec<WaitingPage>, now: Instant) {
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
    pub(super) fn feed(&mut self, now: Instant) {
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
}
