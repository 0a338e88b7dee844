//! Sealing, restoring and dropping a day, each in one transaction.
//!
//! ```text
//! live files of a day          role     changed by
//! Log20261120.1.db             open     begin_seal: closed; later records make Log20261120.3.db
//! Log20261120.1.db             closed   end_seal: no longer live, or keep_open: kept
//! Log20261120.1.db             kept     the next end_seal: no longer live
//! Log20261120.2.parquet        sealed   the next end_seal: no longer live
//! ```
//!
//! **The permit.** Only [`Catalog::drop_day`] ends the life of a day's files. The same transaction looks for the proof:
//! the sealed file has every row of the day, and an archive with the file's length, SHA-256 and rows was read back at
//! the place that the table requires. So nothing can change between the check and the drop.

use super::accounting;
use super::accounting::SourceReceipt;
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

/// The condition for dropping a day-table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permit {
    /// If its table requires an archive, one with all its rows exists.
    Proven,
    /// No condition: the user explicitly asked for it.
    WithoutArchive,
}

impl Catalog {
    /// Closes the open file of `day`, so that later records go to another file. Records that `output` is being created
    /// from all live files.
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

    /// Makes `output` live instead of `inputs`, from which it was sealed. The inputs become pending for removal.
    /// Refused if any input has changed: the day was dropped meanwhile.
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
                let delete =
                    "DELETE FROM file WHERE name = ?1 AND role IN ('closed', 'kept', 'sealed') AND last_seq = ?2";
                if transaction.execute(delete, params![input.name, input.last_seq])? != 1 {
                    // The transaction is rolled back.
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

    /// Notes that the closed files of `day` stay in their pages: a sealed file would be larger.
    pub(crate) fn keep_open(&mut self, day: &DayTable) -> Result<(), StoreError> {
        let update = "UPDATE file SET role = 'kept' WHERE day = ?1 AND role = 'closed'";
        self.change(|transaction| transaction.execute(update, [day.to_string()]).map(drop))
    }

    /// Makes `output`, restored from an archive of `origin`, the only file of `day` until `expires`.
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
        is_whole
            .map_err(|error| superseded_error(error, || format!("the restored file of {day} was removed meanwhile")))
    }

    /// Extends the life of a restored day to `expires`, unless it already ends later.
    pub(crate) fn extend_restore(&mut self, day: &DayTable, expires: Ticks) -> Result<(), StoreError> {
        let update = "UPDATE day SET expires = max(expires, ?2) WHERE name = ?1 AND state = 'restored'";
        self.change(|transaction| transaction.execute(update, params![day.to_string(), expires.get()]).map(drop))
    }

    /// Drops `day`: its files are no longer live and become pending for removal. Returns their names. Refused, with the
    /// missing proof, if the day lacks the permit that its table requires. What is lost with the day is counted in the same
    /// transaction, by `receipts`.
    pub(crate) fn drop_day(
        &mut self,
        day: &DayTable,
        permit: Permit,
        now: Ticks,
        receipts: &[SourceReceipt],
    ) -> Result<Vec<String>, StoreError> {
        let name = day.to_string();
        let dropped = self.change(|transaction| {
            if permit == Permit::Proven
                && let Some(missing) = missing_proof(transaction, day, now)?
            {
                return Ok(Err(missing));
            }
            if permit == Permit::Proven
                && let Some(until) = kept_until(transaction, &name, now)?
            {
                return Ok(Err(format!("an import keeps it until {until}")));
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
            transaction.execute("DELETE FROM attempt WHERE day = ?1", [&name])?;
            let update =
                "UPDATE day SET state = 'dropped', changed = ?2, expires = NULL, origin = NULL, clock_behind = 0
                          WHERE name = ?1";
            transaction.execute(update, params![name, now.get()])?;
            accounting::add(transaction, receipts)?;
            Ok(Ok(files))
        })?;
        dropped.map_err(|missing| StoreError::Refused(format!("{day} is not dropped: {missing}")))
    }
}

/// Replaces the error of an unchanged row by its cause.
fn superseded_error(error: StoreError, what: impl FnOnce() -> String) -> StoreError {
    match error {
        StoreError::Sqlite { source: rusqlite::Error::StatementChangedRows(0), .. } => StoreError::Refused(what()),
        error => error,
    }
}

/// Until when an import of expired records keeps an open day, if that lies ahead.
fn kept_until(connection: &Connection, day: &str, now: Ticks) -> rusqlite::Result<Option<Ticks>> {
    let select = "SELECT expires FROM day WHERE name = ?1 AND state = 'open'";
    let until: Option<Option<i64>> = connection.query_row(select, [day], |row| row.get(0)).optional()?;
    Ok(until.flatten().and_then(Ticks::new).filter(|until| *until > now))
}

/// Why `day` must not be dropped, as a text for users; none if it may be dropped.
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
    // A restored day came from an archive at any place.
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
    Ok((unproven > 0).then(|| format!("no archive{place} of all its rows was read back")))
}

#[cfg(test)]
mod tests;
