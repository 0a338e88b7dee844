//! Which tables there are at the service, as far as is known: nothing is asked for on the normal way.
//!
//! A table is taken to be there until the service says that it is not. It is created then, once for all that wait for it,
//! and ahead: before a period begins its table is asked for, and created where it is not there.

use daytable_azure::{Backoff, Pauses};
use daytable_model::key::{DayTable, Period, TableName};
use daytable_model::time::Ticks;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Pauses while the service clears a dropped table away: 40 s at least, it says.
const DELETED: Pauses = Pauses {
    first: Duration::from_secs(10),
    longest: Duration::from_secs(60),
    named_longest: Duration::from_secs(300),
};
/// How soon after its creation a table that is said not to be there is not created again.
const SPREADS_WITHIN: Duration = Duration::from_secs(5);

/// What is known of tables.
#[derive(Default)]
pub(super) struct Tables {
    states: HashMap<DayTable, Table>,
}

struct Table {
    /// Whether it is being created now.
    is_asked: bool,
    made: Option<Instant>,
    /// Until when it is not asked for again.
    resume: Option<Instant>,
    backoff: Backoff,
}

impl Tables {
    fn state(&mut self, day: &DayTable) -> &mut Table {
        let seed = xxhash_rust::xxh3::xxh3_64(day.to_string().as_bytes());
        let new = || Table { is_asked: false, made: None, resume: None, backoff: Backoff::new(DELETED, seed) };
        self.states.entry(day.clone()).or_insert_with(new)
    }

    /// A table is not there. Says whether it is to be created now.
    pub(super) fn is_missing(&mut self, day: &DayTable, now: Instant) -> bool {
        let table = self.state(day);
        let spreads = table.made.is_some_and(|made| now < made + SPREADS_WITHIN);
        if table.is_asked || spreads || table.resume.is_some_and(|resume| resume > now) {
            return false;
        }
        table.is_asked = true;
        true
    }

    /// A table was created, or was there.
    pub(super) fn made(&mut self, day: &DayTable, now: Instant) {
        let table = self.state(day);
        (table.is_asked, table.made, table.resume) = (false, Some(now), None);
        table.backoff.succeeded();
    }

    /// A table could not be created now, or is being dropped.
    pub(super) fn failed(&mut self, day: &DayTable, now: Instant) {
        let table = self.state(day);
        table.is_asked = false;
        if table.resume.is_none_or(|resume| resume <= now) {
            table.resume = Some(now + Duration::from_secs(1) + table.backoff.failed(None));
        }
    }

    /// Until when rows of a table wait for it.
    pub(super) fn resume(&mut self, day: &DayTable, now: Instant) -> Option<Instant> {
        let table = self.states.get(day)?;
        // Whoever asks hears of it, and tells.
        let asked = table.is_asked.then(|| now + Duration::from_secs(60));
        asked.or(table.resume.filter(|resume| *resume > now))
    }

    /// Whether it is known to be there.
    pub(super) fn is_made(&self, day: &DayTable) -> bool {
        self.states.get(day).is_some_and(|table| table.made.is_some())
    }

    /// Forgets tables that are over for long.
    pub(super) fn forget_before(&mut self, time: Ticks) {
        self.states.retain(|day, table| table.is_asked || day.end() > time);
    }
}

/// The tables of the next period, of those whose period begins soon.
pub(super) fn needed_soon<'t>(tables: impl Iterator<Item = (&'t TableName, Period)>, now: Ticks) -> Vec<DayTable> {
    let next = tables.map(|(name, period)| DayTable::at(name, period, now).next());
    next.filter(|next| is_needed_soon(next, now)).collect()
}

/// Whether a table's period begins soon.
pub(super) fn is_needed_soon(table: &DayTable, now: Ticks) -> bool {
    table.start() > now && table.start() <= now.plus(ahead(table.period()))
}

/// How long before its period a table is asked for.
fn ahead(period: Period) -> Duration {
    match period {
        Period::Hour => Duration::from_secs(600),
        Period::Day | Period::Month => Duration::from_secs(2 * 3600),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn day() -> DayTable {
        DayTable::parse("Log20261121").expect("a day-table")
    }

    #[test]
    fn a_table_is_asked_for_shortly_before_its_period() {
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
    fn a_missing_table_is_asked_for_once_and_again_after_a_while() {
        let (mut tables, now) = (Tables::default(), Instant::now());
        assert_eq!(tables.resume(&day(), now), None);
        assert!(tables.is_missing(&day(), now) && !tables.is_missing(&day(), now), "one asks for all");
        assert!(tables.resume(&day(), now).is_some_and(|resume| resume > now));
        // It is being dropped.
        tables.failed(&day(), now);
        let resume = tables.resume(&day(), now).expect("waited for");
        assert!(resume >= now + Duration::from_secs(1) && !tables.is_missing(&day(), now));
        assert!(tables.is_missing(&day(), resume));
        tables.made(&day(), resume);
        assert!(tables.is_made(&day()) && tables.resume(&day(), resume).is_none());
        assert!(!tables.is_missing(&day(), resume), "not every part of the service knows it yet");
        assert!(tables.is_missing(&day(), resume + SPREADS_WITHIN), "somebody dropped it");
    }
}
