//! The sequences of one table, as far back as its rows are read, and their gaps.
//!
//! Rows arrive from the newest to the oldest, mixed over all instances and sources. Memory is limited, whatever the
//! rows contain: [`SEQUENCES_MAX`] sequences, [`HOLES_MAX`] holes in all of them, and [`GAPS_MAX`] gaps with their
//! names. Further gaps are counted.
//!
//! A gap is reported if the rows around it are known. Gaps of the last minute are not reported, nor missing numbers
//! beside rows that were not read.

use super::number_sequence::{DISORDER, Gap, GapKind, NumberSequence};
use daytable_model::key::instance_of;
use daytable_model::property::{Property, property_name};
use daytable_model::time::Ticks;
use daytable_store::Row;
use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

/// The most concurrent sequences of one table, to limit memory.
pub(super) const SEQUENCES_MAX: usize = 10_000;
/// Open holes of all sequences.
const HOLES_MAX: usize = 500_000;
/// Gaps of one sequence with their names.
const SEQUENCE_GAPS_MAX: usize = 8;
/// Gaps of all sequences with their names.
const GAPS_MAX: usize = 200;
/// Younger records may still arrive.
const SETTLED_AFTER: Duration = Duration::from_secs(60);

/// The sequences of one table, by instance and source.
pub(super) struct TableSequences {
    /// The property of the field.
    property: String,
    by_name: HashMap<Arc<str>, HashMap<String, SequenceState>>,
    count: usize,
    /// Instances by their partitions: an instance may have several.
    instances: HashMap<Arc<str>, Arc<str>>,
    /// Room for further holes.
    room: usize,
    pub(super) found: SequenceFindings,
}

#[derive(Default)]
struct SequenceState {
    stream: NumberSequence,
    listed: usize,
}

/// The gaps of one table.
pub(super) struct SequenceFindings {
    /// Younger gaps are not reported.
    settled: Ticks,
    /// Rows outside these times are unknown: missing numbers there may be among them.
    known: (Ticks, Ticks),
    /// With instance and source.
    pub(super) gaps: Vec<(String, String, Gap)>,
    pub(super) missing: u64,
    pub(super) twice: u64,
    /// Further gaps.
    pub(super) unlisted: u64,
    /// Records of sequences beyond [`SEQUENCES_MAX`].
    pub(super) passed_over: u64,
    /// Sequences that were given up, because there was no room for their holes.
    pub(super) given_up: u64,
}

/// The sequence number and the source of a row.
#[derive(Default)]
struct SequenceRow<'a> {
    number: Option<u64>,
    source: &'a str,
    /// Some fields have no column of their own; the number may be one of them.
    is_in_part: bool,
    /// The approximate size in bytes.
    bytes: u64,
}

impl<'a> SequenceRow<'a> {
    fn by(row: &'a Row, property: &str) -> SequenceRow<'a> {
        let mut found = SequenceRow::default();
        for (name, value) in row.properties() {
            found.bytes += match value {
                Property::String(text) => text.len() as u64,
                Property::Binary(bytes) => bytes.len() as u64,
                _ => 8,
            };
            if name == property {
                found.number = number_of(value);
            } else if name == "Fields" {
                found.is_in_part = true;
            } else if let ("Source", Property::String(text)) = (name, value) {
                found.source = text;
            }
        }
        found
    }
}

impl TableSequences {
    /// Sequences with their numbers in `field`, verified at `now`.
    pub(super) fn of(field: &str, now: Ticks) -> TableSequences {
        TableSequences {
            property: property_name(field),
            by_name: HashMap::new(),
            count: 0,
            instances: HashMap::new(),
            room: HOLES_MAX,
            found: SequenceFindings {
                settled: now.minus(SETTLED_AFTER),
                known: (Ticks::MIN, Ticks::MAX),
                gaps: Vec::new(),
                missing: 0,
                twice: 0,
                unlisted: 0,
                passed_over: 0,
                given_up: 0,
            },
        }
    }

    /// Adds the next older row. Returns its approximate size in bytes.
    pub(super) fn older(&mut self, row: &Row) -> u64 {
        let SequenceRow { number, source, is_in_part, bytes } = SequenceRow::by(row, &self.property);
        // An item row is a part of a record; its master row has the number.
        if row.key().item() != 0 || (number.is_none() && !is_in_part) {
            return bytes;
        }
        let (partition, at) = (&row.partition, row.key().time());
        let instance = self.instances.entry(partition.clone()).or_insert_with(|| instance_of(partition).0.into());
        let of_instance = self.by_name.entry(instance.clone()).or_default();
        let SequenceState { stream, listed } = match of_instance.get_mut(source) {
            Some(followed) => followed,
            None if self.count < SEQUENCES_MAX => {
                self.count += 1;
                of_instance.entry(source.to_owned()).or_default()
            }
            None => {
                self.found.passed_over += 1;
                return bytes;
            }
        };
        let found = &mut self.found;
        match number {
            Some(number) => {
                let note = &mut |gap| found.note(instance, source, listed, gap);
                let has_room = stream.older(number, at, &mut self.room, note);
                found.given_up += u64::from(!has_room);
            }
            // The number is among the fields without a column: the sequence ends here.
            None => {
                self.room += stream.holes();
                let known = std::mem::replace(&mut found.known.0, at.plus(DISORDER));
                std::mem::take(stream).end(&mut |gap| found.note(instance, source, listed, gap));
                found.known.0 = known;
            }
        }
        bytes
    }

    /// Ends all sequences: rows before `start` are unknown (or `None`: there are none), up to `before`, where the next read begins.
    pub(super) fn end(&mut self, start: Option<Ticks>, before: Option<Ticks>) {
        self.found.known.0 = start.map_or(Ticks::MIN, |start| start.plus(DISORDER));
        self.drain();
        self.found.known = (Ticks::MIN, before.map_or(self.found.known.1, |before| before.minus(DISORDER)));
    }

    /// Ends all sequences after a failed read: everything at or after `before` is unknown.
    pub(super) fn forget(&mut self, before: Ticks) {
        self.found.known.0 = Ticks::MAX;
        self.drain();
        self.found.known = (Ticks::MIN, before.minus(DISORDER));
    }

    fn drain(&mut self) {
        self.count = 0;
        self.room = HOLES_MAX;
        self.instances.clear();
        for (instance, of_instance) in self.by_name.drain() {
            for (source, SequenceState { stream, mut listed }) in of_instance {
                stream.end(&mut |gap| self.found.note(&instance, &source, &mut listed, gap));
            }
        }
    }
}

impl SequenceFindings {
    fn note(&mut self, instance: &str, source: &str, listed: &mut usize, gap: Gap) {
        let is_known = self.known.0 <= gap.between.0 && gap.between.1 <= self.known.1;
        if gap.between.1 > self.settled || (gap.kind == GapKind::Missing && !is_known) {
            return;
        }
        match gap.kind {
            GapKind::Missing => self.missing = self.missing.saturating_add(gap.numbers()),
            GapKind::Twice => self.twice = self.twice.saturating_add(gap.numbers()),
        }
        if *listed < SEQUENCE_GAPS_MAX && self.gaps.len() < GAPS_MAX {
            *listed += 1;
            self.gaps.push((instance.into(), source.into(), gap));
        } else {
            self.unlisted += 1;
        }
    }
}

/// The number of a property, as a number or as text.
fn number_of(value: Property<'_>) -> Option<u64> {
    match value {
        Property::Int64(number) => u64::try_from(number).ok(),
        Property::Int32(number) => u64::try_from(number).ok(),
        // `parse` would accept a sign.
        Property::String(text) if text.starts_with(|first: char| first.is_ascii_digit()) => text.parse().ok(),
        _ => None,
    }
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

    /// Missing numbers may be among adjacent unread rows, but not farther away.
    #[test]
    fn a_gap_beside_unread_rows_is_not_reported() {
        let midnight = Ticks::UNIX_EPOCH.plus(Duration::from_secs(86_400));
        let at = |seconds| midnight.plus(Duration::from_secs(seconds));
        let gap = |from, to| Gap { from: 7, to: 7, kind: GapKind::Missing, between: (from, to) };
        let mut sequences = TableSequences::of("seq", Ticks::MAX);
        sequences.end(None, Some(at(60)));
        sequences.found.note("web-1", "app.log", &mut 0, gap(at(50), at(59)));
        assert_eq!(sequences.found.missing, 0);
        sequences.found.note("web-1", "app.log", &mut 0, gap(at(50), at(58)));
        assert_eq!(sequences.found.missing, 1);

        // A day's first second, with the day before unread, and without a day before.
        for (start, missing) in [(Some(midnight), 0), (None, 1)] {
            let mut sequences = TableSequences::of("seq", Ticks::MAX);
            let mut followed = SequenceState::default();
            followed.stream.older(102, at(1), &mut 9, &mut |_| ());
            followed.stream.older(100, at(0), &mut 9, &mut |_| ());
            sequences.by_name.entry("web-1".into()).or_default().insert("app.log".into(), followed);
            sequences.end(start, None);
            assert_eq!(sequences.found.missing, missing, "{start:?}");
        }
    }

    /// With any number of gaps, the list stays short, and all are counted.
    #[test]
    fn gaps_are_listed_up_to_a_limit_and_counted_beyond_it() {
        let mut sequences = TableSequences::of("seq", Ticks::MAX);
        let gap = |from| Gap { from, to: from + 1, kind: GapKind::Missing, between: (Ticks::MIN, Ticks::MIN) };
        for of in 0..100 {
            let mut listed = 0;
            (0..20).for_each(|n| sequences.found.note(&format!("web-{of}"), "app.log", &mut listed, gap(n)));
        }
        let SequenceFindings { gaps, missing, unlisted, .. } = sequences.found;
        assert_eq!((gaps.len(), missing, unlisted), (GAPS_MAX, 4000, 2000 - GAPS_MAX as u64));
        assert_eq!(gaps.iter().filter(|(instance, ..)| instance == "web-3").count(), SEQUENCE_GAPS_MAX);
    }
}
