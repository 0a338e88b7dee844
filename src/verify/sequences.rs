//! Sequences: numbers that go up by one from record to record, and which of them are missing or repeated.
//!
//! `lifecycle.verify_sequence` names the field; without it, there is no check. A sequence belongs to an instance and a source (a file,
//! a listener) in the days of one table. Days are read from the newest to the oldest, and a sequence continues across days. A day that
//! was dropped, exists only as an archive, cannot be read, or is not in the share of a daily verification ([`super::Share`]) ends all
//! sequences; they begin again in the day before. [`super::table_sequences`] has the state of a table, [`super::number_sequence`] finds the gaps of one sequence.
//!
//! Gaps within the last minute may still be filled, so they are left for the next verification. A record that arrives late during the
//! check, with an older time, may be reported as a gap. Where records of a source go to several tables, no table has all numbers: a
//! doubt says so, and there is no check. An outbox is not checked, because rows leave it when they are sent.
//!
//! A day with more than [`PARTITIONS_MAX`] partitions is not checked, because a page of each would be in memory at once.

use super::number_sequence::{Gap, GapKind};
use super::table_sequences::{SEQUENCES_MAX, SequenceFindings, TableSequences};
use super::{FindingKind, Verification};
use daytable_model::key::{DayTable, Period, TableName};
use daytable_model::time;
use daytable_store::catalog::Catalog;
use daytable_store::{Range, Reader, StoreError, sealed};
use std::collections::BTreeMap;

/// Partitions of a day: a scan has a page of each in memory.
const PARTITIONS_MAX: usize = 1000;
/// Bytes of rows between two checks of the rate.
const THROTTLE_BYTES: u64 = 1 << 20;

const ADVICE_MISSING: &str =
    "a sender that skips or drops numbers looks the same: ask its operator, and check the losses in `daytable sources`";
const ADVICE_TWICE: &str = "its sender sent them again (RELP, a push without an idempotency key), or several senders of one name number their records alike";
const ADVICE_MORE: &str = "resolve the others first, and verify again";
const ADVICE_ROUTED: &str = "no action is needed: each number may be in any of the tables";
const ADVICE_DAY: &str = "resolve the findings of its table, and verify again";

/// Days of one table with the names of their sealed files, the newest first.
type Days = Vec<(DayTable, Vec<String>)>;

impl Verification<'_> {
    /// Checks every sequence from its newest record to its oldest.
    pub(super) fn sequences(&mut self, reader: &Reader) {
        let Some(field) = self.request.sequence else { return };
        if reader.is_outbox().unwrap_or(true) {
            return;
        }
        if self.request.is_routed {
            let found =
                format!("{field} is not checked: there are several tables, and no table has all numbers of a source");
            return self.doubt(FindingKind::Sequence, "tables", None, found, ADVICE_ROUTED);
        }
        // The check of the tables has reported a damaged catalog.
        let (Ok(tables), Ok(unknown)) = (days_of(reader.catalog()), unknown(reader.catalog())) else { return };
        for ((name, period), days) in tables {
            let mut sequences = TableSequences::of(field, time::now());
            self.follow(reader, &days, &unknown, &mut sequences);
            let oldest = days.last().map(|(day, _)| day.start());
            let is_before = |day: &DayTable| *day.table() == name && oldest.is_some_and(|oldest| day.end() <= oldest);
            sequences.end(oldest.filter(|_| unknown.iter().any(is_before)), None);
            if self.is_stopped() {
                return;
            }
            self.report_gaps(field, &name, (period, &days), sequences.found);
        }
    }

    fn follow(&mut self, reader: &Reader, days: &Days, unknown: &[DayTable], sequences: &mut TableSequences) {
        let mut later: Option<&DayTable> = None;
        for (table, sealed) in days {
            let is_between = |day: &DayTable| {
                let ends = later.is_none_or(|later| day.end() <= later.start());
                day.table() == table.table() && day.start() >= table.end() && ends
            };
            let is_read = sealed.iter().all(|name| self.request.share.has(name));
            if !is_read || unknown.iter().any(is_between) {
                let before = if is_read { table.end() } else { table.start() };
                sequences.end(later.map(DayTable::start), Some(before));
            }
            later = Some(table);
            if is_read {
                self.begin(&table.to_string());
                // Older records have no successor, and unread records may fill holes.
                if let Err(why) = self.follow_day(reader, table, sequences) {
                    sequences.forget(table.start());
                    if let Some(why) = why {
                        let found = format!("its sequences cannot be checked: {why}");
                        self.doubt(FindingKind::Sequence, &table.to_string(), None, found, ADVICE_DAY);
                    }
                }
            }
            if self.is_stopped() {
                return;
            }
        }
    }

    /// The error is the reason why the day was not read to its end, or `None` for a dropped day.
    fn follow_day(
        &mut self,
        reader: &Reader,
        table: &DayTable,
        sequences: &mut TableSequences,
    ) -> Result<(), Option<String>> {
        let why = |error| (!matches!(error, StoreError::TableGone(_))).then(|| error.to_string());
        if reader.partitions(table).map_err(why)?.len() > PARTITIONS_MAX {
            return Err(Some(format!("it has more than {PARTITIONS_MAX} partitions")));
        }
        let all = Range::all();
        let mut bytes = 0;
        for row in reader.scan(table, &all).map_err(why)? {
            bytes += sequences.older(&row.map_err(why)?);
            if bytes >= THROTTLE_BYTES && self.throttle(std::mem::take(&mut bytes)).is_break() {
                break;
            }
        }
        Ok(())
    }

    fn report_gaps(&mut self, field: &str, name: &TableName, (period, days): (Period, &Days), found: SequenceFindings) {
        let SequenceFindings { gaps, missing, twice, unlisted, passed_over, given_up, .. } = found;
        let verdict = &mut self.report.verdict;
        verdict.missing = verdict.missing.saturating_add(missing);
        verdict.twice = verdict.twice.saturating_add(twice);
        for (instance, source, Gap { from, to, kind, between: (older, newer) }) in gaps {
            let numbers = if from == to { from.to_string() } else { format!("{from} to {to}") };
            let (found, advice) = match kind {
                GapKind::Missing => (format!("{field} {numbers} missing, between {older} and {newer}"), ADVICE_MISSING),
                GapKind::Twice => (format!("{field} {numbers} twice, {older} to {newer}"), ADVICE_TWICE),
            };
            // A finding names only an existing day.
            let day = DayTable::at(name, period, newer);
            let is_there = days.iter().any(|(there, _)| *there == day);
            let table = if is_there { day.to_string() } else { name.as_str().to_owned() };
            self.find(FindingKind::Sequence, &table, Some(&source), format!("{instance}: {found}"), advice);
        }
        let name = name.as_str();
        if unlisted > 0 {
            self.find(
                FindingKind::Sequence,
                name,
                None,
                format!("there are {unlisted} more gaps of {field}"),
                ADVICE_MORE,
            );
        }
        if passed_over > 0 {
            let found =
                format!("{passed_over} records are of more than {SEQUENCES_MAX} sequences, and were passed over");
            self.doubt(FindingKind::Sequence, name, None, found, ADVICE_MORE);
        }
        if given_up > 0 {
            let found = format!("{given_up} sequences have too many numbers missing at once, and were not followed");
            self.doubt(FindingKind::Sequence, name, None, found, ADVICE_MORE);
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

/// Days with records outside this folder: dropped and archived days.
fn unknown(catalog: &Catalog) -> Result<Vec<DayTable>, StoreError> {
    let archived = catalog.archives()?.into_iter().map(|archived| archived.table);
    Ok(catalog.dropped()?.into_iter().chain(archived).collect())
}
