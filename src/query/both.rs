//! A day that is in a remote store and, as far as it was not sent yet, in the data folder: its rows once, newest first.
//!
//! What is sent goes from the data folder behind that, so a row may be in both places, and is never in none. Two things
//! follow: rows are merged by their keys and equal ones given once; and what was read ahead from afar must be younger than
//! the snapshot of the data folder that it is merged with. So where the folder's files are opened anew, because some of
//! them went, the remote rows are read anew as well, from the last row on.

use super::afar::Afar;
use super::archived::Reading;
use super::filter::{Filter, Sieve};
use super::select::{Bounds, Rows, archived_rows, range_of, unless_gone};
use super::stores::Stores;
use crate::key::RowKey;
use crate::store::{Scan, StoreError};
use crate::tables::{Columns, Entity, TableError, TableStore};
use std::sync::Arc;

/// The rows of one day from both places; from its archive, where it is dropped meanwhile.
pub(super) struct DayRows<'a> {
    stores: &'a Stores<'a>,
    reading: &'a Reading,
    filter: &'a Filter,
    sieve: &'a Sieve<'a>,
    bounds: Bounds,
    columns: Columns,
    here: Option<Scan<'a>>,
    here_next: Option<Entity>,
    /// How often the files of `here` had been opened when `afar` began.
    openings: u64,
    afar: Option<Afar<'a>>,
    afar_next: Option<Entity>,
    archive: Option<Rows<'a>>,
    /// The key of the last row, and the partitions of those that had it.
    last: Option<RowKey>,
    given: Vec<Arc<str>>,
    is_over: bool,
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
        let openings = here.as_ref().map_or(0, Scan::openings);
        // Behind the snapshot of the data folder.
        let times = (bounds.from, bounds.to);
        let afar = unless_not_there(Afar::begin(remote, bounds.table.clone(), filter, columns, times, None))?;
        let archive = match (&here, &afar) {
            (None, None) => archived_rows(stores.reader, reading, filter, &bounds, None)?,
            _ => None,
        };
        Ok(DayRows {
            stores,
            reading,
            filter,
            sieve,
            bounds,
            columns,
            here,
            here_next: None,
            openings,
            afar,
            afar_next: None,
            archive,
            last: None,
            given: Vec::new(),
            is_over: false,
        })
    }

    /// Sees to it that the next row of the data folder is known, if there is one.
    fn look_here(&mut self) -> Result<(), TableError> {
        while self.here_next.is_none()
            && let Some(scan) = &mut self.here
        {
            let row = scan.next();
            let openings = scan.openings();
            match row {
                Some(Ok(row)) => {
                    let is_wanted = self.sieve.lets_through(row.key(), row.level(), row.properties());
                    self.here_next = is_wanted.then(|| Entity::of(&row));
                }
                Some(Err(StoreError::TableGone(_))) => {
                    self.here = None;
                    self.look_afar_anew()?;
                }
                Some(Err(error)) => return Err(error.into()),
                None => self.here = None,
            }
            if self.openings != openings {
                self.openings = openings;
                self.look_afar_anew()?;
            }
        }
        Ok(())
    }

    /// Forgets what was read ahead from afar.
    fn look_afar_anew(&mut self) -> Result<(), TableError> {
        let Some(remote) = self.stores.remote else { return Ok(()) };
        self.afar_next = None;
        let begun = match &mut self.afar {
            Some(afar) => afar.restart(self.last),
            None => {
                let (table, times) = (self.bounds.table.clone(), (self.bounds.from, self.bounds.to));
                let begun = Afar::begin(remote, table, self.filter, self.columns, times, self.last);
                begun.map(|afar| self.afar = Some(afar))
            }
        };
        if unless_not_there(begun)?.is_none() {
            self.afar_is_gone()?;
        }
        Ok(())
    }

    fn look_afar(&mut self) -> Result<(), TableError> {
        while self.afar_next.is_none()
            && let Some(afar) = &mut self.afar
        {
            match unless_not_there(afar.next())? {
                Some(Some(row)) => {
                    let properties = row.properties.iter().map(|(name, value)| (name.as_str(), value.as_property()));
                    if self.sieve.lets_through(row.key, row.level, properties) {
                        self.afar_next = Some(row);
                    }
                }
                Some(None) => self.afar = None,
                None => self.afar_is_gone()?,
            }
        }
        Ok(())
    }

    /// The table is dropped, or was not created yet: what is archived of it is read.
    fn afar_is_gone(&mut self) -> Result<(), TableError> {
        self.afar = None;
        let Stores { reader, .. } = *self.stores;
        let archived = self.reading.latest(reader)?.remove(&self.bounds.table);
        let bounds = Bounds { stands: false, archived, ..self.bounds.clone() };
        self.archive = archived_rows(reader, self.reading, self.filter, &bounds, self.last)?;
        Ok(())
    }

    fn next_row(&mut self) -> Result<Option<Entity>, TableError> {
        loop {
            self.look_here()?;
            self.look_afar()?;
            while self.afar_next.is_none()
                && let Some(row) = self.archive.as_mut().and_then(Iterator::next).transpose()?
            {
                let is_wanted = self.sieve.lets_through(row.key(), row.level(), row.properties());
                self.afar_next = is_wanted.then(|| Entity::of(&row));
            }
            let takes_here = match (&self.here_next, &self.afar_next) {
                (Some(here), Some(afar)) => (here.key, &here.partition) <= (afar.key, &afar.partition),
                (here, _) => here.is_some(),
            };
            let next = if takes_here { self.here_next.take() } else { self.afar_next.take() };
            let Some(row) = next else { return Ok(None) };
            if self.last != Some(row.key) {
                self.given.clear();
                self.last = Some(row.key);
            }
            if !self.given.contains(&row.partition) {
                self.given.push(row.partition.clone());
                return Ok(Some(row));
            }
        }
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
