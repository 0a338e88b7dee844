//! Sealing, restoring and dropping a day, each in one transaction.
//!
//! ```text
//! live files of a day          role     changed by
//! Log20261120.1.db             open     begin_seal: closed; later records make Log20261120.3.db
//! Log20261120.1.db             closed   end_seal: no longer live
//! Log20261120.2.parquet        sealed   the next end_seal: no longer live
//! ```
//!
//! **The permit.** Only [`Catalog::drop_day`] removes the files of a day from the live ones. It looks for the proof in the same
//! transaction: every row of the day lies in its sealed file, and an archive with that file's length, SHA-256 and rows was
//! read back at the place that the table asks for. Nothing can happen between the look and the drop.

use super::database::Catalog;
use super::files::LiveFile;
use super::files::Seal;
use super::files::finish_making;
use super::files::insert_making;
use super::files::make;
use super::files::put_sealed;
use crate::StoreError;
use daytable_model::key::DayTable;
use daytable_model::time::Ticks;
use rusqlite::Connection;
use rusqlite::OptionalExtension;
use rusqlite::params;

/// Under what a day-table may be dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// If its table asks for an archive, there is one of all that it holds.
    Proven,
    /// Whatever it holds: somebody said so in as many words.
    WithoutArchive,
}

impl Catalog {
    /// Closes what is open of `day`, so that what comes later goes to another file, and notes that `output` is being
    /// made of all that is live.
    pub(crate) fn begin_seal(
        &mut self,
        day: &DayTable,
        generation: i64,
        output: &str,
    ) -> Result<Vec<LiveFile>, StoreError> {
        let name = day.to_string();
        self.change(|transaction| {
            transaction
                .execute("UPDATE file SET role = 'closed', writable = 0 WHERE day = ?1 AND role = 'open'", [&name])?;
            make(transaction, day, generation, output)
        })?;
        Ok(self.files()?.into_iter().filter(|file| file.day == *day).collect())
    }

    /// Makes `output` the one that is live in place of `inputs`, from which it was sealed, and notes these as files that
    /// are to go. Refused where any of them is not what it was: the day was dropped meanwhile.
    pub(crate) fn end_seal(
        &mut self,
        day: &DayTable,
        inputs: &[LiveFile],
        output: &str,
        seal: &Seal,
    ) -> Result<(), StoreError> {
        let name = day.to_string();
        let is_whole = self.change(|transaction| {
            let (mut last_seq, mut rows) = (0, 0);
            for input in inputs {
                let delete = "DELETE FROM file WHERE name = ?1 AND role IN ('closed', 'sealed') AND last_seq = ?2";
                if transaction.execute(delete, params![input.name, input.last_seq])? != 1 {
                    // Nothing of it is committed.
                    return Err(rusqlite::Error::StatementChangedRows(0));
                }
                insert_making(transaction, &input.name, &name)?;
                last_seq = last_seq.max(input.last_seq);
                rows += input.entities;
            }
            let replaced = "UPDATE state SET rows_replaced = rows_replaced + ?1";
            transaction.execute(replaced, [rows - seal.rows.cast_signed()])?;
            finish_making(transaction, output)?;
            put_sealed(transaction, &name, output, last_seq, seal)
        });
        is_whole.map_err(|error| {
            superseded_error(error, || format!("{day} was dropped, or sealed again, while it was being sealed"))
        })
    }

    /// Makes `output`, which was brought back from an archive of `origin`, the one file of `day` until `expires`.
    pub(crate) fn end_restore(
        &mut self,
        day: &DayTable,
        origin: &DayTable,
        output: &str,
        seal: &Seal,
        expires: Ticks,
        now: Ticks,
    ) -> Result<(), StoreError> {
        let (name, origin) = (day.to_string(), origin.to_string());
        let is_whole = self.change(|transaction| {
            finish_making(transaction, output)?;
            put_sealed(transaction, &name, output, 0, seal)?;
            let update = "UPDATE day SET state = 'restored', expires = ?2, origin = ?3, changed = ?4 WHERE name = ?1";
            transaction.execute(update, params![name, expires.get(), origin, now.get()]).map(drop)
        });
        is_whole.map_err(|error| {
            superseded_error(error, || format!("what was brought back of {day} was cleared away meanwhile"))
        })
    }

    /// Has a restored day go at `expires`, unless it goes later anyway.
    pub(crate) fn extend_restore(&mut self, day: &DayTable, expires: Ticks) -> Result<(), StoreError> {
        let update = "UPDATE day SET expires = max(expires, ?2) WHERE name = ?1 AND state = 'restored'";
        self.change(|transaction| transaction.execute(update, params![day.to_string(), expires.get()]).map(drop))
    }

    /// Drops `day`: none of its files is live any more, and they are noted as such that are to go. Gives their names. Refused, with what is missing, where it has
    /// not the permit that its table asks for.
    pub(crate) fn drop_day(&mut self, day: &DayTable, permit: Permit, now: Ticks) -> Result<Vec<String>, StoreError> {
        let name = day.to_string();
        let dropped = self.change(|transaction| {
            if permit == Permit::Proven
                && let Some(missing) = missing_proof(transaction, day, now)?
            {
                return Ok(Err(missing));
            }
            let dropped = "UPDATE state SET rows_dropped = rows_dropped
                + coalesce((SELECT sum(entities) FROM file WHERE day = ?1
                            AND day NOT IN (SELECT name FROM day WHERE state = 'restored')), 0)";
            transaction.execute(dropped, [&name])?;
            let files = {
                let mut statement = transaction.prepare("DELETE FROM file WHERE day = ?1 RETURNING name")?;
                statement.query_map([&name], |row| row.get(0))?.collect::<rusqlite::Result<Vec<String>>>()?
            };
            files.iter().try_for_each(|file| insert_making(transaction, file, &name))?;
            let update =
                "UPDATE day SET state = 'dropped', changed = ?2, expires = NULL, origin = NULL, clock_behind = 0
                          WHERE name = ?1";
            transaction.execute(update, params![name, now.get()])?;
            Ok(Ok(files))
        })?;
        dropped.map_err(|missing| StoreError::Refused(format!("{day} is not dropped: {missing}")))
    }
}

/// Says what came between, where that is why nothing was changed.
fn superseded_error(error: StoreError, what: impl FnOnce() -> String) -> StoreError {
    match error {
        StoreError::Sqlite { source: rusqlite::Error::StatementChangedRows(0), .. } => StoreError::Refused(what()),
        error => error,
    }
}

/// What keeps `day` from being dropped, for people; none where nothing does.
fn missing_proof(connection: &Connection, day: &DayTable, now: Ticks) -> rusqlite::Result<Option<String>> {
    let name = day.to_string();
    let origin: Option<String> = connection
        .query_row("SELECT origin FROM day WHERE name = ?1 AND state = 'restored'", [&name], |row| row.get(0))
        .optional()?;
    let rule =
        "SELECT coalesce(archive, CASE WHEN archive_until > ?2 THEN archive_before END) FROM rule WHERE name = ?1";
    let place: Option<String> =
        connection.query_row(rule, params![day.table().as_str(), now.get()], |row| row.get(0)).optional()?.flatten();
    if origin.is_none() && place.is_none() {
        return Ok(None);
    }
    let unsealed: i64 = connection.query_row(
        "SELECT coalesce(sum(entities), 0) FROM file WHERE day = ?1 AND role <> 'sealed'",
        [&name],
        |row| row.get(0),
    )?;
    if unsealed > 0 {
        return Ok(Some(format!("{unsealed} of its rows are in no archive")));
    }
    // A restored day came from an archive, wherever that is.
    let (of, place) = match origin {
        Some(origin) => (origin, None),
        None => (name.clone(), place),
    };
    let unproven: i64 = connection.query_row(
        "SELECT count(*) FROM file WHERE day = ?1 AND role = 'sealed' AND NOT EXISTS (
            SELECT 1 FROM archive WHERE archive.day = ?2 AND archive.url = coalesce(?3, archive.url)
            AND archive.bytes = file.bytes AND archive.sha256 = file.sha256 AND archive.rows = file.entities)",
        params![name, of, place],
        |row| row.get(0),
    )?;
    let place = place.map_or(String::new(), |place| format!(" at {place}"));
    Ok((unproven > 0).then(|| format!("there is no archive{place} of all that it holds that was read back")))
}

#[cfg(test)]
mod tests;
