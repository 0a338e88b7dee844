//! Tables are asked for: those that were missing, and those that are needed soon.

use super::sender::{Event, File, Sender};
use super::tables::{is_needed_soon, needed_soon};
use daytable_azure::Error;
use daytable_model::key::DayTable;
use daytable_model::time::{self, Ticks};
use std::time::{Duration, Instant};

/// How often it is looked which tables are needed soon.
const AHEAD: Duration = Duration::from_secs(30);

impl Sender {
    /// Has tables created that are needed soon, and forgets what is over.
    pub(super) fn look_ahead(&mut self, now: Instant) {
        if self.looked_ahead.is_some_and(|at| at + AHEAD > now) {
            return;
        }
        self.looked_ahead = Some(now);
        let today = time::now();
        match self.unsent.forget_gone().and_then(|()| self.unsent.newest()) {
            Ok(newest) => self.newest = newest,
            Err(error) => tracing::error!(%error, "failed to read the catalog"),
        }
        let windows = self.outside.windows.iter().map(|(name, window)| (name, window.period));
        for next in needed_soon(windows, today) {
            if !self.tables.is_made(&next) && self.tables.is_missing(&next, now) {
                self.create(next, true);
            }
        }
        self.spread_ahead(now, today);
        self.tables.forget_before(today.minus(Duration::from_secs(86_400)));
        if let Ok(files) = self.unsent.files() {
            let lanes = &self.lanes;
            self.files.retain(|name, file| {
                files.iter().any(|live| live.name == **name) || file.lanes.values().any(|id| lanes.contains_key(id))
            });
        }
    }

    /// Has the next period begin with the partitions that instances need now.
    fn spread_ahead(&mut self, now: Instant, today: Ticks) {
        let spread = self.outside.spread.clone();
        for planned in spread.planned() {
            let (table, next) = (planned.table.clone(), planned.table.next());
            let Some(has) = planned.steps.last().map(|step| step.buckets) else { continue };
            if (table.start()..table.end()).contains(&today) {
                let key = (table, planned.partition.clone());
                self.growth.measure(&key, now);
                if is_needed_soon(&next, today) && spread.buckets(&next, &planned.partition).is_none() {
                    self.spread_over(next, &planned.partition, self.growth.next_day(&key, has, now));
                }
            }
        }
        // One that something waits for still is caught up with, however long ago its day was.
        let Sender { growth, files, lanes, outside, .. } = self;
        growth.forget(|table| {
            let waits = |file: &File| file.live.day == *table && file.lanes.values().any(|id| lanes.contains_key(id));
            let is_over = outside.windows.get(table.table()).is_none_or(|window| window.expired(table, today));
            table.end() <= today.minus(Duration::from_secs(86_400)) && (is_over || !files.values().any(waits))
        });
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
