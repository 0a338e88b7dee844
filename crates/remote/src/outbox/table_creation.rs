//! Creates tables at the service: tables that a request found missing, and tables of the next period.
//!
//! A table is assumed to exist until the service reports the table as missing, so sending needs no check. One request
//! creates a missing table for all waiting queues. Shortly before a period begins, its table is created ahead.

use super::context::Context;
use super::event::Event;
use daytable_azure::{Backoff, Error, Pauses};
use daytable_model::key::{DayTable, Period, TableName};
use daytable_model::time::Ticks;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Pauses while the service deletes a dropped table, which takes at least 40 s.
const DELETED: Pauses = Pauses {
    first: Duration::from_secs(10),
    longest: Duration::from_secs(60),
    named_longest: Duration::from_secs(300),
};
/// Time until a new table is visible in every part of the service.
const VISIBLE_WITHIN: Duration = Duration::from_secs(5);
/// Maximum wait of rows for a table's creation; the answer ends the wait.
const CREATION_WAIT: Duration = Duration::from_secs(60);
/// Interval between checks for tables of the next period.
const AHEAD_EVERY: Duration = Duration::from_secs(30);
/// How long the state of a table is retained after its period.
const REMEMBERED: Duration = Duration::from_secs(86_400);

/// The tables that exist or are being created.
#[derive(Default)]
pub(super) struct TableCreation {
    tables: HashMap<DayTable, KnownTable>,
    under_way: usize,
    last_ahead: Option<Instant>,
}

struct KnownTable {
    is_under_way: bool,
    created: Option<Instant>,
    /// No request creates the table before this time.
    resume: Option<Instant>,
    backoff: Backoff,
}

impl TableCreation {
    fn entry(&mut self, day: &DayTable) -> &mut KnownTable {
        let seed = xxhash_rust::xxh3::xxh3_64(day.to_string().as_bytes());
        let new =
            || KnownTable { is_under_way: false, created: None, resume: None, backoff: Backoff::new(DELETED, seed) };
        self.tables.entry(day.clone()).or_insert_with(new)
    }

    /// Begins the creation of a missing table. Returns false if the creation is in flight, just succeeded, or has to
    /// wait.
    pub(super) fn begin(&mut self, day: &DayTable, now: Instant) -> bool {
        let table = self.entry(day);
        let is_new = table.created.is_some_and(|created| now < created + VISIBLE_WITHIN);
        if table.is_under_way || is_new || table.resume.is_some_and(|resume| resume > now) {
            return false;
        }
        table.is_under_way = true;
        true
    }

    /// Records that a table was created or exists.
    pub(super) fn created(&mut self, day: &DayTable, now: Instant) {
        let table = self.entry(day);
        (table.is_under_way, table.created, table.resume) = (false, Some(now), None);
        table.backoff.succeeded();
    }

    /// Records that a table could not be created, or is being deleted.
    pub(super) fn failed(&mut self, day: &DayTable, now: Instant) {
        let table = self.entry(day);
        table.is_under_way = false;
        if table.resume.is_none_or(|resume| resume <= now) {
            table.resume = Some(now + Duration::from_secs(1) + table.backoff.failed(None));
        }
    }

    /// End of the wait of rows for their table.
    pub(super) fn resume(&self, day: &DayTable, now: Instant) -> Option<Instant> {
        let table = self.tables.get(day)?;
        let creation = table.is_under_way.then(|| now + CREATION_WAIT);
        creation.or(table.resume.filter(|resume| *resume > now))
    }

    fn exists(&self, day: &DayTable) -> bool {
        self.tables.get(day).is_some_and(|table| table.created.is_some())
    }

    /// Whether no request is in flight.
    pub(super) fn is_idle(&self) -> bool {
        self.under_way == 0
    }

    /// Counts an answer.
    pub(super) fn answered(&mut self) {
        self.under_way -= 1;
    }

    /// Whether the tables of the next period must be checked again.
    pub(super) fn is_ahead_due(&mut self, now: Instant) -> bool {
        let is_due = self.last_ahead.is_none_or(|at| at + AHEAD_EVERY <= now);
        if is_due {
            self.last_ahead = Some(now);
        }
        is_due
    }

    /// Creates the tables of the next period, and removes the state of past tables.
    pub(super) fn create_ahead(&mut self, context: &Context, today: Ticks, now: Instant) {
        let windows = context.windows.iter().map(|(name, window)| (name, window.period));
        for next in needed_soon(windows, today) {
            if !self.exists(&next) && self.begin(&next, now) {
                self.request(context, next, true);
            }
        }
        let before = today.minus(REMEMBERED);
        self.tables.retain(|day, table| table.is_under_way || day.end() > before);
    }

    /// Sends the request that creates a table. Ahead of its period the table may already exist, so the list of tables
    /// is read first.
    pub(super) fn request(&mut self, context: &Context, day: DayTable, is_ahead: bool) {
        let (client, events) = (context.client.clone(), context.events.clone());
        self.under_way += 1;
        context.runtime.spawn(async move {
            let name = day.to_string();
            let exists = async {
                let found = client.list_tables(&name).await?;
                Ok::<_, Error>(found.iter().any(|found| found.eq_ignore_ascii_case(&name)))
            };
            let result = match if is_ahead { exists.await } else { Ok(false) } {
                Ok(true) => Ok(()),
                Ok(false) => client.create_table(&name).await,
                Err(error) => Err(error),
            };
            let _ = events.send(Event::TableCreated(day, result));
        });
    }
}

/// The tables of the next period, if the period begins soon.
fn needed_soon<'t>(tables: impl Iterator<Item = (&'t TableName, Period)>, now: Ticks) -> Vec<DayTable> {
    let next = tables.map(|(name, period)| DayTable::at(name, period, now).next());
    next.filter(|next| is_needed_soon(next, now)).collect()
}

/// Whether a table's period begins soon.
pub(super) fn is_needed_soon(table: &DayTable, now: Ticks) -> bool {
    let ahead = match table.period() {
        Period::Hour => Duration::from_secs(600),
        Period::Day | Period::Month => Duration::from_secs(2 * 3600),
    };
    table.start() > now && table.start() <= now.plus(ahead)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day() -> DayTable {
        DayTable::parse("Log20261121").expect("a day-table")
    }

    #[test]
    fn a_table_is_created_shortly_before_its_period() {
        let (log, debug) = (TableName::new("Log").expect("a name"), TableName::new("Debug").expect("a name"));
        let noon = day().start().plus(Duration::from_secs(12 * 3600));
        let soon = |now| -> Vec<String> {
            let tables = [(&log, Period::Day), (&debug, Period::Hour)];
            needed_soon(tables.into_iter(), now).iter().map(DayTable::to_string).collect()
        };
        assert_eq!(soon(noon), [""; 0]);
        assert_eq!(soon(noon.plus(Duration::from_secs(51 * 60))), ["Debug2026112113"]);
        assert_eq!(soon(noon.plus(Duration::from_secs(10 * 3600 + 60))), ["Log20261122"]);
    }

    #[test]
    fn a_missing_table_is_created_once_and_again_after_a_pause() {
        let (mut tables, now) = (TableCreation::default(), Instant::now());
        assert_eq!(tables.resume(&day(), now), None);
        assert!(tables.begin(&day(), now) && !tables.begin(&day(), now), "one asks for all");
        assert!(tables.resume(&day(), now).is_some_and(|resume| resume > now));
        // The service is deleting the table.
        tables.failed(&day(), now);
        let resume = tables.resume(&day(), now).expect("waited for");
        assert!(resume >= now + Duration::from_secs(1) && !tables.begin(&day(), now));
        assert!(tables.begin(&day(), resume));
        tables.created(&day(), resume);
        assert!(tables.exists(&day()) && tables.resume(&day(), resume).is_none());
        assert!(!tables.begin(&day(), resume), "not every part of the service knows it yet");
        assert!(tables.begin(&day(), resume + VISIBLE_WITHIN), "somebody dropped it");
    }
}
