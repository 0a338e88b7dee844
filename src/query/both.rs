//! A day that is in a remote store and, as far as it was not sent yet, in the data folder: its rows once, newest first.
//!
//! What is sent goes from the data folder behind that, so a row may be in both places, and is never in none. Two things
//! follow: rows are merged by their keys and equal ones given once; and what was read ahead from afar must be younger than
//! the snapshot of the data folder that it is merged with. So with each new snapshot the partitions that the folder has, or
//! had, are read anew from afar as well, from the last row on.

use super::afar::Afar;
use super::archived::Reading;
use super::filter::{Filter, Sieve};
use super::select::{Bounds, Rows, archived_rows, range_of, unless_gone};
use super::stores::Stores;
use crate::key::RowKey;
use crate::store::{Scan, StoreError};
use crate::tables::{Columns, Entity, TableError, TableStore};
use std::collections::BTreeSet;
use std::sync::Arc;

/// The rows of one day from both places; from its archive, where it is dropped meanwhile.
pub(super) struct DayRows<'a> {
    stores: &'a Stores<'a>,
    remote: &'a dyn TableStore,
    reading: &'a Reading,
    filter: &'a Filter,
    sieve: &'a Sieve<'a>,
    bounds: Bounds,
    columns: Columns,
    here: Option<Scan<'a>>,
    here_next: Option<Entity>,
    /// The partitions that the data folder has, or had.
    ours: BTreeSet<Arc<str>>,
    /// The snapshots of `here` when they were read from afar.
    snapshots: u64,
    /// None while the table is not there.
    afar: Option<Afar<'a>>,
    archive: Option<Rows<'a>>,
    archive_next: Option<Entity>,
    /// The key of the last row, and the partitions of those that had it.
    last: Option<RowKey>,
    given: Vec<Arc<str>>,
    is_over: bool,
}

/// Where the next row is.
enum Place {
    Here,
    Afar,
    Archive,
}

impl<'a> DayRows<'a> {
    pub(super) fn begin(
        stores: &'a Stores<'a>,
        remote: &'a dyn TableStore,
        reading: &'a Reading,
        filter: &'a Filter,
        sieve: &'a Sieve<'a>,
        bounds: Bounds,
        columns: Columns,
    ) -> Result<DayRows<'a>, TableError> {
        let range = if bounds.stands { unless_gone(range_of(stores.reader, filter, &bounds))?.flatten() } else { None };
        let scan = range.map(|range| stores.reader.scan(&bounds.table, &range)).transpose();
        let here = unless_gone(scan)?.flatten();
        let snapshots = here.as_ref().map_or(0, Scan::snapshots);
        let mut rows = DayRows {
            stores,
            remote,
            reading,
            filter,
            sieve,
            bounds,
            columns,
            here,
            here_next: None,
            ours: BTreeSet::new(),
            snapshots,
            afar: None,
            archive: None,
            archive_next: None,
            last: None,
            given: Vec::new(),
            is_over: false,
        };
        // Behind the snapshot of the data folder.
        rows.look_afar_anew()?;
        Ok(rows)
    }

    /// Sees to it that the next row of the data folder is known, if there is one.
    fn look_here(&mut self) -> Result<(), TableError> {
        while self.here_next.is_none()
            && let Some(scan) = &mut self.here
        {
            let row = scan.next();
            let snapshots = scan.snapshots();
            let is_gone = matches!(row, Some(Err(StoreError::TableGone(_))));
            match row {
                Some(Ok(row)) => {
                    let is_wanted = self.sieve.lets_through(row.key(), row.level(), row.properties());
                    self.here_next = is_wanted.then(|| Entity::of(&row));
                }
                Some(Err(StoreError::TableGone(_))) | None => self.here = None,
                Some(Err(error)) => return Err(error.into()),
            }
            if is_gone || self.snapshots != snapshots {
                self.snapshots = snapshots;
                self.look_afar_anew()?;
            }
        }
        Ok(())
    }

    /// Forgets what was read ahead from afar of what the data folder has, or had.
    fn look_afar_anew(&mut self) -> Result<(), TableError> {
        let table = &self.bounds.table;
        let ours = unless_gone(self.stores.reader.partitions(table))?.unwrap_or_default();
        self.ours.extend(ours.into_iter().filter(|partition| self.filter.wants_partition(partition)));
        let read = match &mut self.afar {
            Some(afar) => afar.read_anew(&self.ours, self.last),
            None => {
                let (table, times) = (table.clone(), (self.bounds.from, self.bounds.to));
                let begun = Afar::begin(self.remote, table, self.filter, self.columns, times, self.last, &self.ours);
                begun.map(|afar| self.afar = Some(afar))
            }
        };
        if unless_not_there(read)?.is_none() {
            self.afar_is_gone()?;
        }
        Ok(())
    }

    /// Takes what is not wanted from afar, until the next row is one that is.
    fn look_afar(&mut self) -> Result<(), TableError> {
        while let Some(afar) = &mut self.afar {
            if unless_not_there(afar.look())?.is_none() {
                self.afar_is_gone()?;
                break;
            }
            let Some(row) = afar.head() else { break };
            let properties = row.properties.iter().map(|(name, value)| (name.as_str(), value.as_property()));
            if self.sieve.lets_through(row.key, row.level, properties) {
                break;
            }
            drop(afar.pop());
        }
        while self.archive_next.is_none()
            && let Some(row) = self.archive.as_mut().and_then(Iterator::next).transpose()?
        {
            let is_wanted = self.sieve.lets_through(row.key(), row.level(), row.properties());
            self.archive_next = is_wanted.then(|| Entity::of(&row));
        }
        Ok(())
    }

    /// The table is dropped, or was not created yet: what is archived of it is read.
    fn afar_is_gone(&mut self) -> Result<(), TableError> {
        self.afar = None;
        if self.archive.is_none() {
            let reader = self.stores.reader;
            let archived = self.reading.latest(reader)?.remove(&self.bounds.table);
            let bounds = Bounds { stands: false, archived, ..self.bounds.clone() };
            self.archive = archived_rows(reader, self.reading, self.filter, &bounds, self.last)?;
        }
        Ok(())
    }

    /// The next row, or one that was given already.
    fn take(&mut self) -> Result<Option<Entity>, TableError> {
        self.look_here()?;
        self.look_afar()?;
        let afar = self.afar.as_ref().and_then(Afar::head);
        let heads =
            [(self.here_next.as_ref(), Place::Here), (afar, Place::Afar), (self.archive_next.as_ref(), Place::Archive)];
        let next = heads.into_iter().filter_map(|(row, place)| Some((row?, place)));
        let Some((_, place)) = next.min_by(|(a, _), (b, _)| (a.key, &a.partition).cmp(&(b.key, &b.partition))) else {
            return Ok(None);
        };
        Ok(match place {
            Place::Here => self.here_next.take(),
            Place::Afar => self.afar.as_mut().and_then(Afar::pop),
            Place::Archive => self.archive_next.take(),
        })
    }

    fn next_row(&mut self) -> Result<Option<Entity>, TableError> {
        while let Some(row) = self.take()? {
            if self.last != Some(row.key) {
                self.given.clear();
                self.last = Some(row.key);
            }
            if !self.given.contains(&row.partition) {
                self.given.push(row.partition.clone());
                return Ok(Some(row));
            }
        }
        Ok(None)
    }
}

impl Iterator for DayRows<'_> {
    type Item = Result<Entity, TableError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.is_over {
            return None;
        }
        let row = self.next_row().transpose();
        self.is_over = !matches!(row, Some(Ok(_)));
        row
    }
}

/// A table that is not there has no rows.
fn unless_not_there<T>(result: Result<T, TableError>) -> Result<Option<T>, TableError> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.is_not_there() => Ok(None),
        Err(error) => Err(error),
    }
}
