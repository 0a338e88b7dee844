//! Counts of records and checksums, of what a host has and of what was received of it: `verify --fleet` compares them.
//!
//! A checksum is the sum of hashes of records, so neither the order of records nor the pages that they are in matter. A host
//! computes those of its records as they are received ([`receive`](super::receive)). Of a record of several rows, the first counts.

use super::receive::{LOG_HOST, as_received};
use crate::StoreError;
use crate::format::catalog::{DayState, LiveFile};
use crate::format::sealed::ContentChecksum;
use crate::read::{Range, Reader, Row};
use daytable_model::key::DayTable;
use daytable_model::property::Property;
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

/// Counts all records of a folder as they are received under a name, of days that have none of later commits than `commit`,
/// and names the other days. `None` if `goes_on` ends it.
#[allow(clippy::type_complexity)]
pub fn count_sent(
    reader: &Reader,
    log_host: &str,
    commit: i64,
    goes_on: &dyn Fn() -> bool,
) -> Result<Option<(Vec<DayCount>, Vec<String>)>, StoreError> {
    let mut tables = BTreeSet::new();
    for day in reader.catalog().days()? {
        // Restored days are copies.
        if day.state == DayState::Open && !day.files.is_empty() {
            tables.insert(day.table);
        }
    }
    let mut counts = Vec::with_capacity(tables.len());
    for table in &tables {
        let counted = count(reader, table, &Range::all(), goes_on, &mut |row, sum| {
            let properties: Vec<(&str, Property<'_>)> = row.properties().collect();
            as_received(properties, log_host, true, |properties| sum.add(row, properties));
        })?;
        match counted {
            Some(count) if count.records > 0 => counts.push(count),
            Some(_) => {}
            None => return Ok(None),
        }
    }
    let later: BTreeSet<String> = {
        let files = reader.catalog().files()?.into_iter();
        let is_later = |file: &LiveFile| file.last_seq > commit && tables.contains(&file.day);
        files.filter(is_later).map(|file| file.day.to_string()).collect()
    };
    counts.retain(|count| !later.contains(&count.table));
    Ok(Some((counts, later.into_iter().collect())))
}

/// Counts the records of a host in a day-table here.
pub fn count_received(reader: &Reader, table: &DayTable, log_host: &str) -> Result<DayCount, StoreError> {
    // A search skips what surely has none of them.
    let range = Range { contains: Some(log_host.to_owned()), ..Range::all() };
    let counted = count(reader, table, &range, &|| true, &mut |row, sum| {
        let properties: Vec<(&str, Property<'_>)> = row.properties().collect();
        let is_of_host =
            |(name, value): &(&str, Property<'_>)| *name == LOG_HOST && *value == Property::String(log_host);
        if properties.iter().any(is_of_host) {
            sum.add(row, &properties);
        }
    })?;
    Ok(counted.unwrap_or_default())
}

/// The sum of hashes.
struct Sum(DayCount);

impl Sum {
    fn add(&mut self, row: &Row, properties: &[(&str, Property<'_>)]) {
        let mut one = ContentChecksum::default();
        one.add_row(&row.partition, row.key(), row.level(), properties.iter().copied());
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
