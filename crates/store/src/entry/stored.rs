//! Entries among the rows that are stored.
//!
//! A key begins with the time, so the rows of a time in a partition are next to each other. The line of a row is put
//! together again, and its hash is that of an equal entry.

use super::{EntryText, StreamHash};
use crate::StoreError;
use crate::read::{Range, Reader, Row};
use daytable_model::key::{DayTable, RowKey, instance_of};
use daytable_model::level::Level;
use daytable_model::line::{LAYOUT, LineLayout, RowParts, VERBATIM};
use daytable_model::property::{OwnedValue, Property};
use daytable_model::stream::{NANOS, PushedStream, STREAM};
use daytable_model::time::Ticks;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

/// The most spans of time of a partition that are scanned by themselves. More are joined where the gaps are the smallest.
const SPANS_MAX: usize = 64;
/// Times with a smaller gap are scanned as one span.
const GAP: Duration = Duration::from_secs(1);
/// Layouts and notes that are kept while rows are read.
const TEXTS_KEPT: usize = 64;

/// An entry that may be stored.
pub(crate) struct Candidate<'s> {
    /// Where its row goes to.
    pub(crate) table: &'s DayTable,
    pub(crate) partition: &'s Arc<str>,
    pub(crate) key: RowKey,
    /// Its hash in its stream.
    pub(crate) hash: u128,
}

/// The partitions of an instance in the day-tables of a configured table.
type Group<'s> = (&'s str, String);

/// The partitions that belong together, and the first of their day-tables.
pub(crate) fn group_of<'s>(table: &'s DayTable, partition: &str) -> Group<'s> {
    let bucket = instance_of(partition).1.map_or(0, |_| "~00".len());
    (table.table().as_str(), partition[..partition.len() - bucket].to_owned())
}

/// Whether an equal entry is stored, for each candidate. Rows of other hosts are those of others.
pub(crate) fn are_stored(reader: &Reader, candidates: &[Candidate<'_>]) -> Result<Vec<bool>, StoreError> {
    let mut found = vec![false; candidates.len()];
    let mut groups: BTreeMap<Group<'_>, Vec<usize>> = BTreeMap::new();
    for (number, candidate) in candidates.iter().enumerate() {
        groups.entry(group_of(candidate.table, candidate.partition)).or_default().push(number);
    }
    if groups.is_empty() {
        return Ok(found);
    }
    let tables = reader.table_times()?;
    let mut texts = EntryReader::default();
    for ((name, _), numbers) in groups {
        let mut wanted: HashMap<u128, Vec<usize>> = HashMap::new();
        for number in &numbers {
            wanted.entry(candidates[*number].hash).or_default().push(*number);
        }
        let times: BTreeSet<Ticks> = numbers.iter().map(|number| candidates[*number].key.time()).collect();
        let known: HashSet<&Arc<str>> = numbers.iter().map(|number| candidates[*number].partition).collect();
        let host = candidates[numbers[0]].key.source().short_host();
        let spans = spans_of(&times);
        // A record whose day was over went to another day, and kept its time.
        for (table, held) in tables.iter().filter(|(table, _)| table.table().as_str() == name) {
            let Some((oldest, newest)) = held else { continue };
            let spans: Vec<_> = spans.iter().filter(|(from, to)| from <= newest && to >= oldest).collect();
            if spans.is_empty() {
                continue;
            }
            let partitions = gone(partitions_of(reader, table, &known), Vec::new())?;
            for (from, to) in spans {
                let range = Range { partitions: Some(partitions.clone()), from: *from, to: *to, ..Range::all() };
                let read = each_entry(reader, table, &range, &times, &mut texts, |key, hash| {
                    if key.source().short_host() == host {
                        wanted.get(&hash).into_iter().flatten().for_each(|number| found[*number] = true);
                    }
                });
                gone(read, ())?;
            }
        }
    }
    Ok(found)
}

/// The time of the newest record of an instance in all day-tables of a configured table; the oldest time if there is none.
pub(crate) fn newest_of(reader: &Reader, of: &DayTable, partition: &Arc<str>) -> Result<Ticks, StoreError> {
    let mut tables = reader.table_times()?;
    tables.retain(|(table, times)| table.table() == of.table() && times.is_some());
    tables.sort_by_key(|(_, times)| std::cmp::Reverse(times.map(|(_, newest)| newest)));
    let (mut newest, known) = (Ticks::MIN, HashSet::from([partition]));
    for (table, times) in tables {
        if times.is_none_or(|(_, latest)| latest <= newest) {
            break;
        }
        let partitions = gone(partitions_of(reader, &table, &known), Vec::new())?;
        let range = Range { partitions: Some(partitions), from: newest, ..Range::all() };
        let first = gone(reader.scan(&table, &range).and_then(|mut scan| scan.next().transpose()), None)?;
        newest = first.map_or(newest, |row| row.key().time().max(newest));
    }
    Ok(newest)
}

/// What was read, or nothing of a table that was dropped meanwhile.
fn gone<T>(read: Result<T, StoreError>, nothing: T) -> Result<T, StoreError> {
    match read {
        Err(StoreError::TableGone(_)) => Ok(nothing),
        read => read,
    }
}

/// The partitions of the same instances: an entry that comes again may go to another bucket.
fn partitions_of(reader: &Reader, table: &DayTable, known: &HashSet<&Arc<str>>) -> Result<Vec<String>, StoreError> {
    let mut all = BTreeSet::new();
    for partition in known {
        all.extend(reader.partitions_of(table, &instance_of(partition).0)?);
        // A name that was cut is not a name of an instance.
        all.insert(partition.to_string());
    }
    Ok(all.into_iter().collect())
}

/// Spans that have these times.
fn spans_of(times: &BTreeSet<Ticks>) -> Vec<(Ticks, Ticks)> {
    let ordered: Vec<Ticks> = times.iter().copied().collect();
    let mut gaps: Vec<(Duration, usize)> = ordered
        .windows(2)
        .enumerate()
        .map(|(at, pair)| (pair[1].since(pair[0]), at + 1))
        .filter(|(gap, _)| *gap > GAP)
        .collect();
    gaps.sort_unstable_by(|one, other| other.cmp(one));
    gaps.truncate(SPANS_MAX - 1);
    let mut starts: Vec<usize> = gaps.into_iter().map(|(_, at)| at).chain([0, ordered.len()]).collect();
    starts.sort_unstable();
    starts.dedup();
    starts.windows(2).map(|pair| (ordered[pair[0]], ordered[pair[1] - 1])).collect()
}

/// Passes the key and the hash of each entry of a range that has one of these times.
fn each_entry(
    reader: &Reader,
    table: &DayTable,
    range: &Range,
    times: &BTreeSet<Ticks>,
    texts: &mut EntryReader,
    mut each: impl FnMut(RowKey, u128),
) -> Result<(), StoreError> {
    let mut record: Option<EntryRecord> = None;
    let mut complete = |record: Option<EntryRecord>, texts: &mut EntryReader| {
        if let Some(record) = record
            && let Some(hash) = texts.hash_of(&record)
        {
            each(record.key, hash);
        }
    };
    for row in reader.scan(table, range)? {
        let row = row?;
        let key = row.key();
        if key.item() == 0 {
            complete(record.take(), texts);
            record = times.contains(&key.time()).then(|| EntryRecord::new(&row));
        } else if let Some(record) = record.as_mut().filter(|record| record.key == key.with_item(0)) {
            record.add(&row);
        }
    }
    complete(record.take(), texts);
    Ok(())
}

/// A record with the properties of all its rows.
struct EntryRecord {
    key: RowKey,
    level: Option<Level>,
    properties: Vec<(String, OwnedValue)>,
}

impl EntryRecord {
    fn new(row: &Row) -> EntryRecord {
        let mut record = EntryRecord { key: row.key(), level: row.level(), properties: Vec::new() };
        row.each_property(|name, value| record.properties.push((name.to_owned(), value.into())));
        record
    }

    /// Adds an item, which continues texts or has further properties.
    fn add(&mut self, item: &Row) {
        item.each_property(|name, value| {
            let known = self.properties.iter_mut().find(|(known, _)| known == name);
            match (known, value) {
                (Some((_, OwnedValue::String(text))), Property::String(more)) => text.push_str(more),
                (_, value) => self.properties.push((name.to_owned(), value.into())),
            }
        });
    }
}

/// Layouts and notes of the rows that were read.
#[derive(Default)]
struct EntryReader {
    layouts: HashMap<String, LineLayout>,
    streams: HashMap<String, Option<(StreamHash, String)>>,
}

impl EntryReader {
    /// The hash of an entry; `None` for a record that is not an entry.
    fn hash_of(&mut self, record: &EntryRecord) -> Option<u128> {
        let properties = record.properties.iter().map(|(name, value)| (name.as_str(), value.as_property())).collect();
        let parts = RowParts { key: record.key, level: record.level, properties };
        let note = parts.text(STREAM)?;
        let stream = remembered(&mut self.streams, note, |note| {
            let PushedStream(labels, _, end) = PushedStream::parse(note)?;
            Some((StreamHash::of(&labels), end))
        });
        let (stream, end) = stream.as_ref()?;
        let nanos = parts.properties.iter().find_map(|(name, value)| match value {
            Property::Int32(nanos) if *name == NANOS => u8::try_from(*nanos).ok(),
            _ => None,
        });
        let mut written = Vec::new();
        let line = match parts.text(LAYOUT) {
            None => parts.text("Message").unwrap_or_default(),
            Some(layout) => {
                let layout = remembered(&mut self.layouts, layout, LineLayout::parse);
                layout.write_line(&parts, parts.text(VERBATIM).unwrap_or_default(), &mut written);
                std::str::from_utf8(&written).ok()?
            }
        };
        let entry = EntryText { time: record.key.time(), nanos: nanos.unwrap_or(0), line, end };
        Some(entry.hash(*stream))
    }
}

/// What `read` makes of a text, which is remembered.
fn remembered<'m, T>(known: &'m mut HashMap<String, T>, text: &str, read: impl FnOnce(&str) -> T) -> &'m T {
    if !known.contains_key(text) && known.len() >= TEXTS_KEPT {
        known.clear();
    }
    known.entry(text.to_owned()).or_insert_with(|| read(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Spans are few, have every time, and begin and end with one.
        #[test]
        fn spans_have_every_time(times in proptest::collection::btree_set(0..i64::MAX >> 8, 1..300)) {
            let times: BTreeSet<Ticks> = times.into_iter().filter_map(Ticks::new).collect();
            prop_assume!(!times.is_empty());
            let spans = spans_of(&times);
            prop_assert!((1..=SPANS_MAX).contains(&spans.len()));
            prop_assert!(spans.windows(2).all(|pair| pair[0].1 < pair[1].0));
            for time in &times {
                prop_assert!(spans.iter().any(|(from, to)| from <= time && time <= to));
            }
            prop_assert!(spans.iter().all(|(from, to)| times.contains(from) && times.contains(to)));
        }
    }
}
