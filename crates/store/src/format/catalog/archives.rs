//! Archives that were read back and matched.

use super::database::Catalog;
use super::files::Seal;
use super::values::table_in;
use crate::StoreError;
use daytable_model::key::DayTable;
use daytable_model::time::Ticks;
use rusqlite::Row;
use rusqlite::params;
use std::sync::Arc;

/// An archive that was read back and matched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Archived {
    /// The day-table.
    pub table: DayTable,
    /// The generation.
    pub generation: i64,
    /// The place, as configured.
    pub url: String,
    /// The length, hash and rows of the sealed file.
    pub seal: Seal,
    /// When it was read back.
    pub verified: Ticks,
    /// Whether a later archive of the day has all rows of this one.
    pub is_superseded: bool,
    /// The text of its manifest, which locates and describes the archive.
    pub manifest: Arc<str>,
}

impl Catalog {
    /// Archives that were read back, the oldest day first.
    pub fn archives(&self) -> Result<Vec<Archived>, StoreError> {
        let select = "SELECT day, generation, url, bytes, sha256, rows, oldest, newest, verified, superseded, manifest
                      FROM archive";
        let mut archives = self.all(select, read_archived)?;
        archives
            .sort_by(|a, b| (a.table.start(), &a.table, a.generation).cmp(&(b.table.start(), &b.table, b.generation)));
        Ok(archives)
    }

    /// Records an archive that was read back. It supersedes archives of the same day with a lower generation.
    pub(crate) fn put_archive(&mut self, archived: &Archived) -> Result<(), StoreError> {
        let Archived { table, generation, url, seal, verified, is_superseded, manifest } = archived;
        let (oldest, newest) = seal.times.map(|(oldest, newest)| (oldest.get(), newest.get())).unzip();
        let name = table.to_string();
        self.change(|transaction| {
            transaction.execute(
                "UPDATE archive SET superseded = 1 WHERE day = ?1 AND generation < ?2",
                params![name, generation],
            )?;
            transaction
                .execute(
                    "INSERT OR REPLACE INTO archive VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
                    params![
                        name,
                        generation,
                        url,
                        seal.bytes.cast_signed(),
                        seal.sha256,
                        seal.rows.cast_signed(),
                        oldest,
                        newest,
                        verified.get(),
                        is_superseded,
                        manifest
                    ],
                )
                .map(drop)
        })
    }

    /// Removes the record of an archive that no longer exists.
    pub(crate) fn forget_archive(&mut self, table: &DayTable, generation: i64, url: &str) -> Result<(), StoreError> {
        let delete = "DELETE FROM archive WHERE day = ?1 AND generation = ?2 AND url = ?3";
        self.change(|transaction| transaction.execute(delete, params![table.to_string(), generation, url]).map(drop))
    }
}

fn read_archived(row: &Row<'_>) -> rusqlite::Result<Archived> {
    let time = |column| row.get::<_, Option<i64>>(column).map(|ticks| ticks.and_then(Ticks::new));
    let count = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
    let verified = time(8)?.unwrap_or_default();
    let seal =
        Seal { bytes: count(3)?, sha256: row.get(4)?, rows: count(5)?, times: time(6)?.zip(time(7)?), at: verified };
    Ok(Archived {
        table: table_in(row, 0)?,
        generation: row.get(1)?,
        url: row.get(2)?,
        seal,
        verified,
        is_superseded: row.get(9)?,
        manifest: row.get::<_, String>(10)?.into(),
    })
}
