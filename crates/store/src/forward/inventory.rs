//! Counts of records and checksums, of what a host has and of what was received of it: `verify --fleet` compares them.
//!
//! A checksum is the sum of hashes of records, so neither the order of records nor the pages that they are in matter. A host
//! computes those of its records as they are received ([`receive`](super::receive)). Of a record of several rows, the first counts.

use super::receive::{SenderName, as_received, is_of_host, tables_with_later_rows};
use crate::StoreError;
use crate::format::catalog::{DayState, FileRole, LiveFile};
use crate::format::sealed::ContentChecksum;
use crate::read::{Range, Reader, Row};
use daytable_model::key::{DayTable, RowKey};
use daytable_model::property::Property;
use daytable_model::sender_keys::SenderKeys;
use daytable_model::time::Ticks;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Rows between two looks whether to go on.
const ROWS_AT_ONCE: u64 = 4096;

/// The records of a day-table.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DayCount {
    /// The day-table.
    pub table: String,
    /// Its records.
    pub records: u64,
    /// The sum of their hashes.
    pub checksum: u64,
}

impl DayCount {
    /// Adds other records of the day.
    pub fn add(&mut self, other: &DayCount) {
        self.records += other.records;
        self.checksum = self.checksum.wrapping_add(other.checksum);
    }

    /// Whether records of `wanted` are missing among these, or are others. More records are not a lack.
    pub fn lacks(&self, wanted: &DayCount) -> bool {
        self.records < wanted.records || self.records == wanted.records && self.checksum != wanted.checksum
    }
}

/// Counts all records of a folder as they are received under a name, up to a commit: what came later is left out. `None` if
/// `goes_on` ends it.
///
/// # Errors
///
/// The folder cannot be read, or pages were merged or sealed with rows of later commits. They are not while a receiver is noted
/// to lack these.
pub fn count_sent<'a>(
    reader: &Reader,
    sender: impl Into<SenderName<'a>>,
    commit: i64,
    goes_on: &dyn Fn() -> bool,
) -> Result<Option<Vec<DayCount>>, StoreError> {
    let SenderName { log_host, in_keys } = sender.into();
    let (mut sender_keys, mut tables) = (SenderKeys::of(in_keys), BTreeSet::new());
    for day in reader.catalog().days()? {
        // Restored days are copies.
        if day.state == DayState::Open && !day.files.is_empty() {
            tables.insert(day.table);
        }
    }
    let range = Range { up_to_commit: Some(commit), ..Range::all() };
    let mut counts = Vec::with_capacity(tables.len());
    for table in &tables {
        let counted = count(reader, table, &range, goes_on, &mut |row, sum| {
            let mut properties: Vec<(&str, Property<'_>)> = row.properties().collect();
            let key = sender_keys.key(row.key());
            as_received(&mut properties, log_host, true, |properties| sum.add(row, key, properties));
        })?;
        match counted {
            Some(count) if count.records > 0 => counts.push(count),
            Some(_) => {}
            None => return Ok(None),
        }
    }
    let is_later =
        |file: &LiveFile| file.role == FileRole::Sealed && file.last_seq > commit && tables.contains(&file.day);
    if let Some(file) = reader.catalog().files()?.into_iter().find(is_later) {
        return Err(StoreError::Refused(format!("{} was sealed while its records were counted", file.day)));
    }
    Ok(Some(counts))
}

/// Counts the records of a host in a day-table here.
pub fn count_received(reader: &Reader, table: &DayTable, log_host: &str) -> Result<DayCount, StoreError> {
    count_of_host(reader, table, Range::all(), log_host)
}

/// Counts the records of a host that have a time of this day, and were stored in an earlier table because the day was too far
/// ahead when they came.
pub fn count_ahead(reader: &Reader, day: &DayTable, log_host: &str) -> Result<DayCount, StoreError> {
    let is_earlier = |table: &DayTable| table.table().same(day.table()) && table.end() <= day.start();
    let found = count_within(reader, (day.start(), day.end()), log_host, &is_earlier)?;
    Ok(DayCount { table: day.to_string(), ..found })
}

/// Counts the records of a host of these times in the tables that are chosen and have later records than their own.
fn count_within(
    reader: &Reader,
    (start, end): (Ticks, Ticks),
    log_host: &str,
    is_chosen: &dyn Fn(&DayTable) -> bool,
) -> Result<DayCount, StoreError> {
    let mut found = DayCount::default();
    let Some(last) = Ticks::new(end.get() - 1) else { return Ok(found) };
    for table in tables_with_later_rows(reader)?.into_iter().filter(|table| is_chosen(table)) {
        found.add(&count_of_host(reader, &table, Range { from: start, to: last, ..Range::all() }, log_host)?);
    }
    Ok(found)
}

/// The records of a host in all tables whose days have a time in common with `days`, or with each other, whatever these tables are
/// called: rows stay in the table that the configuration named when they came.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WholeTime {
    /// The days of `days` that it has.
    pub days: Vec<DayTable>,
    /// What is there of the host in these days, and in other tables of the time.
    pub here: DayCount,
}

/// Groups `days` by the times that they have in common, also by way of tables here, and counts for each group with one of `wanted`.
///
/// # Errors
///
/// The folder cannot be read.
pub fn count_times(
    reader: &Reader,
    days: &[DayTable],
    wanted: &[DayTable],
    log_host: &str,
) -> Result<Vec<WholeTime>, StoreError> {
    let mut tables: BTreeSet<DayTable> = days.iter().cloned().collect();
    for day in reader.catalog().days()? {
        if day.state == DayState::Open && !day.files.is_empty() {
            tables.insert(day.table);
        }
    }
    let mut tables: Vec<DayTable> = tables.into_iter().collect();
    tables.sort_by_key(|table| (table.start(), table.end()));
    let (mut groups, mut end) = (Vec::<Vec<DayTable>>::new(), None);
    for table in tables {
        let own_end = table.end();
        match groups.last_mut() {
            Some(group) if end.is_some_and(|end| table.start() < end) => group.push(table),
            _ => groups.push(vec![table]),
        }
        end = end.max(Some(own_end));
    }
    let mut found = Vec::new();
    for group in groups.into_iter().filter(|group| group.iter().any(|table| wanted.contains(table))) {
        let mut here = DayCount::default();
        for table in &group {
            here.add(&count_received(reader, table, log_host)?);
        }
        let (start, end) = (group.iter().map(DayTable::start).min(), group.iter().map(DayTable::end).max());
        if let (Some(start), Some(end)) = (start, end) {
            let is_earlier = |table: &DayTable| table.end() <= start && !group.contains(table);
            here.add(&count_within(reader, (start, end), log_host, &is_earlier)?);
        }
        found.push(WholeTime { days: group.into_iter().filter(|table| days.contains(table)).collect(), here });
    }
    Ok(found)
}

/// Whether a day-table here has a record of a host.
///
/// # Errors
///
/// The folder cannot be read.
pub fn has_received(reader: &Reader, table: &DayTable, log_host: &str) -> Result<bool, StoreError> {
    let range = Range { contains: Some(log_host.to_owned()), ..Range::all() };
    let scan = match reader.scan(table, &range) {
        Ok(scan) => scan,
        Err(StoreError::TableGone(_)) => return Ok(false),
        Err(error) => return Err(error),
    };
    for row in scan {
        match row {
            Ok(row) if is_of_host(&row, log_host) => return Ok(true),
            Ok(_) => {}
            Err(StoreError::TableGone(_)) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
    Ok(false)
}

fn count_of_host(reader: &Reader, table: &DayTable, range: Range, log_host: &str) -> Result<DayCount, StoreError> {
    // A search skips what surely has none of them.
    let range = Range { contains: Some(log_host.to_owned()), ..range };
    let counted = count(reader, table, &range, &|| true, &mut |row, sum| {
        if is_of_host(row, log_host) {
            sum.add(row, row.key(), &row.properties().collect::<Vec<_>>());
        }
    })?;
    Ok(counted.unwrap_or_default())
}

/// The sum of hashes.
struct Sum(DayCount);

impl Sum {
    fn add(&mut self, row: &Row, key: RowKey, properties: &[(&str, Property<'_>)]) {
        let mut one = ContentChecksum::default();
        one.add_row(&row.partition, key, row.level(), properties.iter().copied());
        self.0.records += 1;
        self.0.checksum = self.0.checksum.wrapping_add(one.value());
    }
}

fn count(
    reader: &Reader,
    table: &DayTable,
    range: &Range,
    goes_on: &dyn Fn() -> bool,
    add: &mut dyn FnMut(&Row, &mut Sum),
) -> Result<Option<DayCount>, StoreError> {
    let mut sum = Sum(DayCount { table: table.to_string(), ..DayCount::default() });
    let scan = match reader.scan(table, range) {
        Ok(scan) => scan,
        Err(StoreError::TableGone(_)) => return Ok(Some(sum.0)),
        Err(error) => return Err(error),
    };
    let mut rows = 0u64;
    for row in scan {
        let row = match row {
            Err(StoreError::TableGone(_)) => break,
            row => row?,
        };
        rows += 1;
        if rows.is_multiple_of(ROWS_AT_ONCE) && !goes_on() {
            return Ok(None);
        }
        if row.key().item() == 0 {
            add(&row, &mut sum);
        }
    }
    Ok(Some(sum.0))
}
