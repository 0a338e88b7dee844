//! Sequences: numbers that records carry, one more each time, and which of them are missing or come twice.
//!
//! Which field carries one is said by `lifecycle.verify_sequence`; without it nothing is read here. A sequence is that of an
//! instance and a source (a file, a listener) in the days of one table. Days are read from the newest to the oldest, and
//! a sequence goes on over the end of a day. What was dropped between two days, is in an archive alone, or cannot be read
//! is not known: behind it the sequences begin anew, and so they do behind what a run of the daemon leaves out of sealed
//! days ([`super::Share`]). [`super::streams`] has what was read so far, [`super::stream`] what one sequence comes to.
//!
//! Records whose time is within the last minute may have gaps that are filled while this is read, so they are left for the
//! next time; what arrives late, with an older time, while this is read may be told as a gap. Where records of a source
//! go to several tables none has all numbers: that is said, and none is followed. An outbox is left out: its rows go when
//! they were sent.
//!
//! A day with more than [`PARTITIONS_MAX`] partitions is not read: a page of each would be in memory at once.

use super::stream::{Gap, What};
use super::streams::{Found, SEQUENCES_MAX, Streams};
use super::{Kind, Run};
use daytable_model::key::{DayTable, Period, TableName};
use daytable_model::time;
use daytable_store::catalog::Catalog;
use daytable_store::{Range, Reader, StoreError, sealed};
use std::collections::BTreeMap;

/// Partitions of a day that is read: a scan has a page of each in memory.
const PARTITIONS_MAX: usize = 1000;
/// Bytes of rows after which the rate is looked at.
const PACE_BYTES: u64 = 1 << 20;

const ADVICE_MISSING: &str = "a sender that skips or drops numbers looks the same: ask it, and see what `daytable sources` says was lost or refused on the way";
const ADVICE_TWICE: &str = "its sender sent them again (RELP, a push without an idempotency key), or several senders of one name number their records alike";
const ADVICE_MORE: &str = "see to the others first, and verify again";
const ADVICE_ROUTED: &str = "nothing is to be done: each number may be in any of the tables";
const ADVICE_DAY: &str = "see to what is said of its table, and verify again";

/// Days of one table with the names of their sealed files, the newest first.
type Days = Vec<(DayTable, Vec<String>)>;

impl Run<'_> {
    /// Follows every sequence from its newest record to its oldest.
    pub(super) fn sequences(&mut self, reader: &Reader) {
        let Some(field) = self.ask.sequence else { return };
        if reader.is_outbox().unwrap_or(true) {
            return;
        }
        if self.ask.is_routed {
            let found =
                format!("{field} is not followed: there are several tables, and none has all numbers of a source");
            return self.doubt(Kind::Sequence, "tables", None, found, ADVICE_ROUTED);
        }
        // What the catalog does not say was told where the tables were looked at.
        let (Ok(tables), Ok(unknown)) = (days_of(reader.catalog()), unknown(reader.catalog())) else { return };
        for ((name, period), days) in tables {
            let mut streams = Streams::of(field, time::now());
            self.follow(reader, &days, &unknown, &mut streams);
            let oldest = days.last().map(|(day, _)| day.start());
            let is_before = |day: &DayTable| *day.table() == name && oldest.is_some_and(|oldest| day.end() <= oldest);
            streams.end(oldest.filter(|_| unknown.iter().any(is_before)), None);
            if self.is_stopped() {
                return;
            }
            self.tell_gaps(field, &name, (period, &days), streams.found);
        }
    }

    fn follow(&mut self, reader: &Reader, days: &Days, unknown: &[DayTable], streams: &mut Streams) {
        let mut later: Option<&DayTable> = None;
        for (table, sealed) in days {
            let is_between = |day: &DayTable| {
                let ends = later.is_none_or(|later| day.end() <= later.start());
                day.table() == table.table() && day.start() >= table.end() && ends
            };
            let is_read = sealed.iter().all(|name| self.ask.share.has(name));
            if !is_read || unknown.iter().any(is_between) {
                let before = if is_read { table.end() } else { table.start() };
                streams.end(later.map(DayTable::start), Some(before));
            }
            later = Some(table);
            if is_read {
                self.begin(&table.to_string());
                // What is older follows on nothing, and what was read may have its holes filled by what was not.
                if let Err(why) = self.follow_day(reader, table, streams) {
                    streams.forget(table.start());
                    if let Some(why) = why {
                        let found = format!("cannot be followed: {why}");
                        self.doubt(Kind::Sequence, &table.to_string(), None, found, ADVICE_DAY);
                    }
                }
            }
            if self.is_stopped() {
                return;
            }
        }
    }

    /// The error says why it was not read to its end; it says nothing of a day that is gone.
    fn follow_day(&mut self, reader: &Reader, table: &DayTable, streams: &mut Streams) -> Result<(), Option<String>> {
        let why = |error| (!matches!(error, StoreError::TableGone(_))).then(|| error.to_string());
        if reader.partitions(table).map_err(why)?.len() > PARTITIONS_MAX {
            return Err(Some(format!("it has more than {PARTITIONS_MAX} partitions")));
        }
        let all = Range::all();
        let mut bytes = 0;
        for row in reader.scan(table, &all).map_err(why)? {
            bytes += streams.older(&row.map_err(why)?);
            if bytes >= PACE_BYTES && self.paced(std::mem::take(&mut bytes)).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn tell_gaps(&mut self, field: &str, name: &TableName, (period, days): (Period, &Days), found: Found) {
        let Found { gaps, missing, twice, untold, passed_over, given_up, .. } = found;
        let verdict = &mut self.report.verdict;
        verdict.missing = verdict.missing.saturating_add(missing);
        verdict.twice = verdict.twice.saturating_add(twice);
        for (instance, source, Gap { from, to, what, between: (older, newer) }) in gaps {
            let numbers = if from == to { from.to_string() } else { format!("{from} to {to}") };
            let (found, advice) = match what {
                What::Missing => (format!("{field} {numbers} missing, between {older} and {newer}"), ADVICE_MISSING),
                What::Twice => (format!("{field} {numbers} twice, {older} to {newer}"), ADVICE_TWICE),
            };
            // A day that never was is not named.
            let day = DayTable::at(name, period, newer);
            let is_there = days.iter().any(|(there, _)| *there == day);
            let table = if is_there { day.to_string() } else { name.as_str().to_owned() };
            self.find(Kind::Sequence, &table, Some(&source), format!("{instance}: {found}"), advice);
        }
        let name = name.as_str();
        if untold > 0 {
            self.find(Kind::Sequence, name, None, format!("there are {untold} more gaps of {field}"), ADVICE_MORE);
        }
        if passed_over > 0 {
            let found =
                format!("{passed_over} records are of more than {SEQUENCES_MAX} sequences, and were passed over");
            self.doubt(Kind::Sequence, name, None, found, ADVICE_MORE);
        }
        if given_up > 0 {
            let found = format!("{given_up} sequences have too many numbers missing at once, and were not followed");
            self.doubt(Kind::Sequence, name, None, found, ADVICE_MORE);
        }
    }
}

/// The live days of each table.
fn days_of(catalog: &Catalog) -> Result<BTreeMap<(TableName, Period), Days>, StoreError> {
    let mut tables: BTreeMap<(TableName, Period), Days> = BTreeMap::new();
    let mut files = catalog.files()?;
    files.sort_by_key(|file| std::cmp::Reverse(file.day.start()));
    for file in files {
        let days = tables.entry((file.day.table().clone(), file.day.period())).or_default();
        if days.last().is_none_or(|(day, _)| *day != file.day) {
            days.push((file.day, Vec::new()));
        }
        if let Some((_, names)) = days.last_mut().filter(|_| sealed::is_sealed(&file.name)) {
            names.push(file.name);
        }
    }
    Ok(tables)
}

/// Days that had records which are not here: those that were dropped, and those that were archived.
fn unknown(catalog: &Catalog) -> Result<Vec<DayTable>, StoreError> {
    let archived = catalog.archives()?.into_iter().map(|archived| archived.table);
    Ok(catalog.dropped()?.into_iter().chain(archived).collect())
}
