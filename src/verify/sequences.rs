//! Sequences: numbers that records carry, one more each time, and which of them are missing or come twice.
//!
//! Which field carries one is said by `lifecycle.verify_sequence`; without it nothing is read here. A sequence is that of an
//! instance and a source (a file, a listener) in the days of one table. Days are read from the newest to the oldest, and
//! a sequence goes on over the end of a day. What was dropped between two days, is in an archive alone, or cannot be read
//! is not known: behind it the sequences begin anew, and so they do behind what a run of the daemon leaves out of sealed
//! days ([`super::Share`]).
//!
//! Records whose time is within the last minute may have gaps that are filled while this is read, so they are left for the
//! next time; what arrives late, with an older time, while this is read may be told as a gap. Where records of a source
//! go to several tables none has all numbers: that is said, and none is followed. An outbox is left out: its rows go when
//! they were sent.
//!
//! A day with more than [`PARTITIONS_MAX`] partitions is not read: a page of each would be in memory at once.

use super::stream::{DISORDER, Gap, Stream, What};
use super::{Kind, Run};
use crate::key::{DayTable, Period, TableName, instance_of};
use crate::property::{Property, property_name};
use crate::store::catalogue::Catalogue;
use crate::store::{Range, Reader, Row, StoreError, sealed};
use crate::time::{self, Ticks};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

/// Sequences of one table that are followed at a time: more would be memory without a bound.
const SEQUENCES_MAX: usize = 10_000;
/// Holes of all of them that may still be filled.
const HOLES_MAX: usize = 500_000;
/// Partitions of a day that is read: a scan has a page of each in memory.
const PARTITIONS_MAX: usize = 1000;
/// Gaps of one sequence that are told one by one,
const TOLD_OF_ONE_MAX: usize = 8;
/// and of all; of more there is only the number.
const TOLD_MAX: usize = 200;
/// What is younger may be on its way.
const SETTLED_AFTER: Duration = Duration::from_secs(60);
/// Bytes of rows after which the rate is looked at.
const PACE_BYTES: u64 = 1 << 20;

const ADVICE_MISSING: &str = "a sender that skips or drops numbers looks the same: ask it, and see what `daytable sources` says was lost or refused on the way";
const ADVICE_TWICE: &str = "its sender sent them again (RELP, a push without an idempotency key), or several senders of one name number their records alike";
const ADVICE_MORE: &str = "see to the others first, and verify again";
const ADVICE_ROUTED: &str = "nothing is to be done: each number may be in any of the tables";
const ADVICE_DAY: &str = "see to what is said of its table, and verify again";

/// The sequences of one table, by instance and source.
struct Sequences {
    /// What rows have of the field.
    property: String,
    by_name: HashMap<String, HashMap<String, Sequence>>,
    count: usize,
    /// Instances by their partitions: one may be spread over several.
    instances: HashMap<Arc<str>, String>,
    /// Holes that there may be in addition.
    room: usize,
    found: Found,
}

#[derive(Default)]
struct Sequence {
    stream: Stream,
    told: usize,
}

/// What was found of one table.
struct Found {
    /// What is younger is not told.
    settled: Ticks,
    /// Behind and before these times there are rows that are not known: what is missing there may be among them.
    known: (Ticks, Ticks),
    /// With instance and source.
    gaps: Vec<(String, String, Gap)>,
    missing: u64,
    twice: u64,
    /// Gaps that are not among these.
    untold: u64,
    /// Records of sequences beyond [`SEQUENCES_MAX`].
    passed_over: u64,
    /// Sequences that had more holes than there is room for.
    given_up: u64,
}

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
            self.find(Kind::Sequence, "tables", None, found, ADVICE_ROUTED);
            return self.doubt_last();
        }
        // What the catalogue does not say was told where the tables were looked at.
        let (Ok(tables), Ok(unknown)) = (days_of(reader.catalogue()), unknown(reader.catalogue())) else { return };
        for ((name, period), days) in tables {
            let mut sequences = Sequences::of(field);
            self.follow(reader, &days, &unknown, &mut sequences);
            let oldest = days.last().map(|(day, _)| day.start());
            let is_before = |day: &DayTable| *day.table() == name && oldest.is_some_and(|oldest| day.end() <= oldest);
            sequences.end(oldest.filter(|_| unknown.iter().any(is_before)), None);
            if self.is_stopped() {
                return;
            }
            self.tell_gaps(field, &name, (period, &days), sequences.found);
        }
    }

    fn follow(&mut self, reader: &Reader, days: &Days, unknown: &[DayTable], sequences: &mut Sequences) {
        let mut later: Option<&DayTable> = None;
        for (table, sealed) in days {
            let is_between = |day: &DayTable| {
                let ends = later.is_none_or(|later| day.end() <= later.start());
                day.table() == table.table() && day.start() >= table.end() && ends
            };
            let is_read = sealed.iter().all(|name| self.ask.share.has(name));
            if !is_read || unknown.iter().any(is_between) {
                let before = if is_read { table.end() } else { table.start() };
                sequences.end(later.map(DayTable::start), Some(before));
            }
            later = Some(table);
            if is_read {
                self.begin(&table.to_string());
                // What is older follows on nothing, and what was read may have its holes filled by what was not.
                if let Err(why) = self.follow_day(reader, table, sequences) {
                    sequences.forget(table.start());
                    if let Some(why) = why {
                        self.find(
                            Kind::Sequence,
                            &table.to_string(),
                            None,
                            format!("cannot be followed: {why}"),
                            ADVICE_DAY,
                        );
                        self.doubt_last();
                    }
                }
            }
            if self.is_stopped() {
                return;
            }
        }
    }

    /// The error says why it was not read to its end; it says nothing of a day that is gone.
    fn follow_day(
        &mut self,
        reader: &Reader,
        table: &DayTable,
        sequences: &mut Sequences,
    ) -> Result<(), Option<String>> {
        let why = |error| (!matches!(error, StoreError::TableGone(_))).then(|| error.to_string());
        if reader.partitions(table).map_err(why)?.len() > PARTITIONS_MAX {
            return Err(Some(format!("it has more than {PARTITIONS_MAX} partitions")));
        }
        let all = Range { partitions: None, from: Ticks::MIN, to: Ticks::MAX, contains: None };
        let mut bytes = 0;
        for row in reader.scan(table, &all).map_err(why)? {
            bytes += sequences.older(&row.map_err(why)?);
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
            self.find(Kind::Sequence, name, None, found, ADVICE_MORE);
            self.doubt_last();
        }
        if given_up > 0 {
            let found = format!("{given_up} sequences have too many numbers missing at once, and were not followed");
            self.find(Kind::Sequence, name, None, found, ADVICE_MORE);
            self.doubt_last();
        }
    }
}

impl Sequences {
    fn of(field: &str) -> Sequences {
        let settled = time::now().minus(SETTLED_AFTER);
        Sequences {
            property: property_name(field),
            by_name: HashMap::new(),
            count: 0,
            instances: HashMap::new(),
            room: HOLES_MAX,
            found: Found {
                settled,
                known: (Ticks::MIN, Ticks::MAX),
                gaps: Vec::new(),
                missing: 0,
                twice: 0,
                untold: 0,
                passed_over: 0,
                given_up: 0,
            },
        }
    }

    /// Takes the next older row. Gives about how many bytes it has.
    fn older(&mut self, row: &Row) -> u64 {
        let (mut number, mut source, mut bytes, mut is_in_part) = (None, "", 0, false);
        for (name, value) in row.properties() {
            bytes += match value {
                Property::String(text) => text.len() as u64,
                Property::Binary(bytes) => bytes.len() as u64,
                _ => 8,
            };
            if name == self.property {
                number = number_of(value);
            } else if name == "Fields" {
                is_in_part = true;
            } else if let ("Source", Property::String(text)) = (name, value) {
                source = text;
            }
        }
        if row.key().item() != 0 || (number.is_none() && !is_in_part) {
            return bytes;
        }
        let instance = match self.instances.get(&row.partition) {
            Some(instance) => instance,
            None => self.instances.entry(row.partition.clone()).or_insert(instance_of(&row.partition).0),
        };
        let is_known = self.by_name.get(instance).is_some_and(|of_instance| of_instance.contains_key(source));
        if !is_known && self.count >= SEQUENCES_MAX {
            self.found.passed_over += 1;
            return bytes;
        }
        if !self.by_name.contains_key(instance) {
            self.by_name.insert(instance.clone(), HashMap::new());
        }
        let Some(of_instance) = self.by_name.get_mut(instance) else { return bytes };
        if !of_instance.contains_key(source) {
            self.count += 1;
            of_instance.insert(source.to_owned(), Sequence::default());
        }
        if let Some(Sequence { stream, told }) = of_instance.get_mut(source) {
            let (found, at) = (&mut self.found, row.key().time());
            match number {
                Some(number) => {
                    let note = &mut |gap| found.note(instance, source, told, gap);
                    let has_room = stream.older(number, at, &mut self.room, note);
                    found.given_up += u64::from(!has_room);
                }
                // Its number is one of many fields that have no column: before it the sequence begins anew.
                None => {
                    self.room += stream.holes();
                    let known = std::mem::replace(&mut found.known.0, at.plus(DISORDER));
                    std::mem::take(stream).end(&mut |gap| found.note(instance, source, told, gap));
                    found.known.0 = known;
                }
            }
        }
        bytes
    }

    /// What is older than `start` is not known, or there is none; nor is what lies between that and `before`, where
    /// what is read next ends.
    fn end(&mut self, start: Option<Ticks>, before: Option<Ticks>) {
        self.found.known.0 = start.map_or(Ticks::MIN, |start| start.plus(DISORDER));
        self.drain();
        self.found.known = (Ticks::MIN, before.map_or(self.found.known.1, |before| before.minus(DISORDER)));
    }

    /// What was read is not known to be whole; nor is anything that is not before this time.
    fn forget(&mut self, before: Ticks) {
        self.found.known.0 = Ticks::MAX;
        self.drain();
        self.found.known = (Ticks::MIN, before.minus(DISORDER));
    }

    fn drain(&mut self) {
        self.count = 0;
        self.room = HOLES_MAX;
        self.instances.clear();
        for (instance, of_instance) in self.by_name.drain() {
            for (source, Sequence { stream, mut told }) in of_instance {
                stream.end(&mut |gap| self.found.note(&instance, &source, &mut told, gap));
            }
        }
    }
}

impl Found {
    fn note(&mut self, instance: &str, source: &str, told: &mut usize, gap: Gap) {
        let is_known = self.known.0 <= gap.between.0 && gap.between.1 <= self.known.1;
        if gap.between.1 > self.settled || (gap.what == What::Missing && !is_known) {
            return;
        }
        match gap.what {
            What::Missing => self.missing = self.missing.saturating_add(gap.numbers()),
            What::Twice => self.twice = self.twice.saturating_add(gap.numbers()),
        }
        if *told < TOLD_OF_ONE_MAX && self.gaps.len() < TOLD_MAX {
            *told += 1;
            self.gaps.push((instance.into(), source.into(), gap));
        } else {
            self.untold += 1;
        }
    }
}

/// The number that a property says, as a number or as text.
fn number_of(value: Property<'_>) -> Option<u64> {
    match value {
        Property::Int64(number) => u64::try_from(number).ok(),
        Property::Int32(number) => u64::try_from(number).ok(),
        // No sign: that parses too.
        Property::String(text) if text.starts_with(|first: char| first.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    }
}

/// The live days of each table.
fn days_of(catalogue: &Catalogue) -> Result<BTreeMap<(TableName, Period), Days>, StoreError> {
    let mut tables: BTreeMap<(TableName, Period), Days> = BTreeMap::new();
    let mut files = catalogue.files()?;
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
fn unknown(catalogue: &Catalogue) -> Result<Vec<DayTable>, StoreError> {
    let archived = catalogue.archives()?.into_iter().map(|archived| archived.table);
    Ok(catalogue.dropped()?.into_iter().chain(archived).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_is_one_in_whatever_kind_it_comes() {
        for (value, number) in [
            (Property::Int64(7), Some(7)),
            (Property::Int64(-7), None),
            (Property::String("2147483647"), Some(2_147_483_647)),
            (Property::String("+7"), None),
            (Property::String("7 of 9"), None),
            (Property::String(""), None),
            (Property::Double(7.0), None),
            (Property::Boolean(true), None),
        ] {
            assert_eq!(number_of(value), number, "{value:?}");
        }
    }

    /// What is not read may have what is missing beside it; it does not have it farther off.
    #[test]
    fn what_is_missing_beside_what_is_not_read_is_not_told() {
        let midnight = Ticks::UNIX_EPOCH.plus(Duration::from_secs(86_400));
        let at = |seconds| midnight.plus(Duration::from_secs(seconds));
        let gap = |from, to| Gap { from: 7, to: 7, what: What::Missing, between: (from, to) };
        let mut sequences = Sequences::of("seq");
        sequences.end(None, Some(at(60)));
        sequences.found.note("web-1", "app.log", &mut 0, gap(at(50), at(59)));
        assert_eq!(sequences.found.missing, 0);
        sequences.found.note("web-1", "app.log", &mut 0, gap(at(50), at(58)));
        assert_eq!(sequences.found.missing, 1);

        // A day's first second, with the day before unread, and where there is none before.
        for (start, missing) in [(Some(midnight), 0), (None, 1)] {
            let mut sequences = Sequences::of("seq");
            let stream = &mut Sequence::default().stream;
            stream.older(102, at(1), &mut 9, &mut |_| ());
            stream.older(100, at(0), &mut 9, &mut |_| ());
            let sequence = Sequence { stream: std::mem::take(stream), told: 0 };
            sequences.by_name.entry("web-1".into()).or_default().insert("app.log".into(), sequence);
            sequences.end(start, None);
            assert_eq!(sequences.found.missing, missing, "{start:?}");
        }
    }

    /// However many there are, what is told stays short, and all are counted.
    #[test]
    fn gaps_are_told_up_to_a_bound_and_counted_beyond_it() {
        let mut sequences = Sequences::of("seq");
        let gap = |from| Gap { from, to: from + 1, what: What::Missing, between: (Ticks::MIN, Ticks::MIN) };
        for of in 0..100 {
            let mut told = 0;
            (0..20).for_each(|n| sequences.found.note(&format!("web-{of}"), "app.log", &mut told, gap(n)));
        }
        let Found { gaps, missing, untold, .. } = sequences.found;
        assert_eq!((gaps.len(), missing, untold), (TOLD_MAX, 4000, 2000 - TOLD_MAX as u64));
        assert_eq!(gaps.iter().filter(|(instance, ..)| instance == "web-3").count(), TOLD_OF_ONE_MAX);
    }
}
