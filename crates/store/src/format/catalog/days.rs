//! Day-tables: every one that exists or existed.

use super::database::Catalog;
#[cfg(test)]
use super::files::FileRole;
use super::files::LiveFile;
use super::files::NewFile;
use super::values::from_sql;
use super::values::seconds;
use super::values::table_in;
use crate::StoreError;
use daytable_model::key::DayTable;
use daytable_model::time::Ticks;
use rusqlite::OptionalExtension;
use rusqlite::Row;
use rusqlite::params;
use std::collections::HashMap;
use std::time::Duration;

/// A day-table that exists or existed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Day {
    /// The day-table.
    pub table: DayTable,
    /// The state.
    pub state: DayState,
    /// Its live files by generation; empty after a drop.
    pub files: Vec<LiveFile>,
    /// The last commit of the day at the last check, and the watched time when that commit was first seen.
    pub quiet: Option<(i64, Duration)>,
    /// Whether the day was created while the clock was behind: later days of the same table existed already.
    pub is_behind: bool,
    /// Until when an import of expired records keeps an open day that would have expired.
    pub kept_until: Option<Ticks>,
}

/// The state of a day-table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DayState {
    /// It exists.
    Open,
    /// It was restored from an archive. It accepts no records, and is removed again.
    Restored {
        /// When it is removed.
        expires: Ticks,
        /// The day-table of its archive.
        origin: DayTable,
    },
    /// It was dropped. Its name is kept.
    Dropped,
}

impl Catalog {
    /// Every day-table that exists or existed, the oldest first.
    pub fn days(&self) -> Result<Vec<Day>, StoreError> {
        let select = "SELECT name, state, expires, origin, idle_commit, idle_since, clock_behind FROM day";
        let mut days = self.all(select, read_day)?;
        let mut files: HashMap<DayTable, Vec<LiveFile>> = HashMap::new();
        for file in self.files()? {
            files.entry(file.day.clone()).or_default().push(file);
        }
        for day in &mut days {
            day.files = files.remove(&day.table).unwrap_or_default();
        }
        days.sort_by(|a, b| (a.table.start(), &a.table).cmp(&(b.table.start(), &b.table)));
        Ok(days)
    }

    /// Open days that an import of expired records keeps, and until when.
    pub(crate) fn kept_days(&self) -> Result<HashMap<DayTable, Ticks>, StoreError> {
        let days = self.all("SELECT name, expires FROM day WHERE state = 'open' AND expires IS NOT NULL", |row| {
            Ok((table_in(row, 0)?, Ticks::new(row.get(1)?).unwrap_or_default()))
        })?;
        Ok(days.into_iter().collect())
    }

    /// The names of dropped day-tables. They are kept so that late records do not create these tables again.
    pub fn dropped(&self) -> Result<Vec<DayTable>, StoreError> {
        self.all("SELECT name FROM day WHERE state = 'dropped'", |row| {
            DayTable::parse(&row.get::<_, String>(0)?).map_err(|e| from_sql(0, e))
        })
    }

    /// The names of day-tables that accept no records: dropped and restored ones.
    pub(crate) fn closed(&self) -> Result<Vec<DayTable>, StoreError> {
        self.all("SELECT name FROM day WHERE state <> 'open'", |row| {
            DayTable::parse(&row.get::<_, String>(0)?).map_err(|e| from_sql(0, e))
        })
    }

    /// Whether a day of the same table exists or existed that begins after the end of the day after `day`.
    pub(crate) fn has_later(&self, day: &DayTable) -> Result<bool, StoreError> {
        let ahead = day.next().end();
        let names: Vec<String> = self.all("SELECT name FROM day", |row| row.get(0))?;
        let days = names.iter().filter_map(|name| DayTable::parse(name).ok());
        let is_later =
            |other: DayTable| other.table() == day.table() && other.period() == day.period() && other.start() >= ahead;
        Ok(days.into_iter().any(is_later))
    }

    /// The highest generation that a file of `day` ever had.
    pub(crate) fn generation(&self, day: &DayTable) -> Result<i64, StoreError> {
        let found = self
            .connection
            .query_row("SELECT generation FROM day WHERE name = ?1", [day.to_string()], |row| row.get(0));
        Ok(self.sql(found.optional())?.unwrap_or(0))
    }

    /// Makes each file the live file of its day, which it opens.
    pub(crate) fn create_days(&mut self, files: &[NewFile], now: Ticks) -> Result<(), StoreError> {
        self.change(|transaction| {
            for NewFile { day, generation, name, role, is_behind } in files {
                let day = day.to_string();
                transaction.prepare_cached(
                    "INSERT INTO day(name, state, generation, changed, clock_behind) VALUES (?1, 'open', ?2, ?3, ?4)
                     ON CONFLICT (name) DO UPDATE SET state = 'open', generation = ?2, changed = ?3, clock_behind = clock_behind OR ?4",
                )?.execute(params![day, generation, now.get(), is_behind])?;
                let insert = "INSERT INTO file(name, day, last_seq, entities, writable, role) VALUES (?1, ?2, 0, 0, 1, ?3)";
                transaction.prepare_cached(insert)?.execute(params![name, day, role.name()])?;
                transaction.prepare_cached("DELETE FROM pending_file WHERE name = ?1")?.execute([name])?;
            }
            Ok(())
        })
    }

    /// Makes `file` the live file of `day`.
    #[cfg(test)]
    pub(crate) fn create_day(&mut self, day: &DayTable, generation: i64, file: &str) -> Result<(), StoreError> {
        let (day, name, role) = (day.clone(), file.to_owned(), FileRole::Open);
        self.create_days(&[NewFile { day, generation, name, role, is_behind: false }], Ticks::MIN)
    }
}

fn read_day(row: &Row<'_>) -> rusqlite::Result<Day> {
    let state = match row.get::<_, String>(1)?.as_str() {
        "dropped" => DayState::Dropped,
        "restored" => DayState::Restored {
            expires: row.get::<_, Option<i64>>(2)?.and_then(Ticks::new).unwrap_or(Ticks::MAX),
            origin: table_in(row, 3)?,
        },
        _ => DayState::Open,
    };
    let quiet = row.get::<_, Option<i64>>(4)?.zip(row.get::<_, Option<i64>>(5)?.map(seconds));
    let expires = row.get::<_, Option<i64>>(2)?.and_then(Ticks::new);
    let kept_until = expires.filter(|_| state == DayState::Open);
    Ok(Day { table: table_in(row, 0)?, state, files: Vec::new(), quiet, is_behind: row.get(6)?, kept_until })
}
