//! Forwarding in the catalog of a sender: which folder it is, which commits it made, and which of them others have.
//!
//! The *origin* is a number of 128 bits that is made with the catalog. The *checksum of a commit* covers all pages of all commits
//! up to it, so two folders that have the same number and checksum have the same commits up to there. Each commit writes its
//! checksum in the transaction of the commit point. Where there are receivers, the checksums of the last [`CHECKSUMS_KEPT`] commits
//! are kept: a receiver that was put back asks for an earlier one, and so does a sender that was put back itself.

use super::database::Catalog;
use crate::StoreError;
use crate::format::forward_position::{FolderOrigin, ForwardPosition};
use rusqlite::{Connection, OptionalExtension, params};

/// Commits whose checksums are kept: three days of four commits a second.
pub(crate) const CHECKSUMS_KEPT: i64 = 1 << 20;

/// What a folder says of itself to a receiver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ForwardState {
    /// The folder.
    pub origin: FolderOrigin,
    /// The last commit.
    pub committed: i64,
    /// The checksum of all commits.
    pub checksum: u64,
    /// All records that were ever committed.
    pub records: u64,
}

/// Records the checksum of a commit, in its transaction.
pub(super) fn put_checksum(connection: &Connection, seq: i64, checksum: u64) -> rusqlite::Result<()> {
    let checksum = checksum.cast_signed();
    let changed = connection.prepare_cached("UPDATE origin SET checksum = ?1")?.execute([checksum])?;
    super::values::one(changed)?;
    let keep = "INSERT INTO commit_checksum SELECT ?1, ?2 WHERE EXISTS (SELECT 1 FROM forward_target)";
    if connection.prepare_cached(keep)?.execute(params![seq, checksum])? == 0 {
        return Ok(());
    }
    // One commit adds one, so removing two catches up after failed commits.
    let forget = "DELETE FROM commit_checksum WHERE seq IN (SELECT seq FROM commit_checksum WHERE seq <= ?1 ORDER BY seq LIMIT 2)";
    connection.prepare_cached(forget)?.execute([seq - CHECKSUMS_KEPT]).map(drop)
}

impl Catalog {
    /// The origin and the last commit.
    pub fn forward_state(&self) -> Result<ForwardState, StoreError> {
        self.sql((|| {
            let select = "SELECT id, checksum, committed, records_in FROM origin, state";
            self.connection().prepare_cached(select)?.query_row([], |row| {
                Ok(ForwardState {
                    origin: FolderOrigin(row.get(0)?),
                    checksum: row.get::<_, i64>(1)?.cast_unsigned(),
                    committed: row.get(2)?,
                    records: u64::try_from(row.get::<_, i64>(3)?).unwrap_or(0),
                })
            })
        })())
    }

    /// The checksum after a commit, if it is kept. A commit that never happened has that of the one before.
    pub fn checksum_of(&self, commit: i64) -> Result<Option<u64>, StoreError> {
        if commit == 0 {
            return Ok(Some(0));
        }
        self.sql((|| {
            let select = "SELECT checksum FROM commit_checksum WHERE seq <= ?1 ORDER BY seq DESC LIMIT 1";
            let found = self.connection().prepare_cached(select)?.query_row([commit], |row| row.get::<_, i64>(0));
            Ok(found.optional()?.map(i64::cast_unsigned))
        })())
    }

    /// Gives the folder another origin: it is a copy of one that goes on elsewhere.
    pub(crate) fn renew_origin(&mut self) -> Result<FolderOrigin, StoreError> {
        self.change(|transaction| {
            transaction.execute("UPDATE forward_target SET commits = 0, checksum = 0", [])?;
            let renew = "UPDATE origin SET id = randomblob(16) RETURNING id";
            transaction.query_row(renew, [], |row| row.get(0)).map(FolderOrigin)
        })
    }

    /// How far each receiver has the commits, by its name.
    pub fn forward_targets(&self) -> Result<Vec<(String, ForwardPosition)>, StoreError> {
        self.all("SELECT name, commits, checksum FROM forward_target ORDER BY name", |row| {
            let (commit, checksum) = (row.get(1)?, row.get::<_, i64>(2)?.cast_unsigned());
            Ok((row.get(0)?, ForwardPosition { commit, checksum, ..ForwardPosition::default() }))
        })
    }

    /// Sets the receivers: one that is new has nothing, one that is not among `names` is forgotten.
    pub(crate) fn set_forward_targets(&mut self, names: &[String]) -> Result<(), StoreError> {
        let known = self.forward_targets()?;
        if known.len() == names.len() && known.iter().all(|(name, _)| names.contains(name)) {
            return Ok(());
        }
        self.change(|transaction| {
            if names.is_empty() {
                transaction.execute("DELETE FROM commit_checksum", [])?;
            } else {
                // A receiver that is told of all commits until now has that of the last one.
                let last = "INSERT OR IGNORE INTO commit_checksum SELECT committed, checksum FROM origin, state";
                transaction.execute(last, [])?;
            }
            for (name, _) in known.iter().filter(|(name, _)| !names.contains(name)) {
                transaction.execute("DELETE FROM forward_target WHERE name = ?1", [name])?;
            }
            names.iter().try_for_each(|name| {
                transaction.execute("INSERT OR IGNORE INTO forward_target VALUES (?1, 0, 0)", [name]).map(drop)
            })
        })
    }

    /// Records how far a receiver has the commits. It may be less than before: the receiver was put back.
    pub(crate) fn note_forwarded(&mut self, name: &str, position: ForwardPosition) -> Result<(), StoreError> {
        let update = "UPDATE forward_target SET commits = ?2, checksum = ?3 WHERE name = ?1";
        let values = params![name, position.commit, position.checksum.cast_signed()];
        self.change(|transaction| transaction.execute(update, values).map(drop))
    }

    /// The last commit that all receivers have. `None` without receivers.
    pub fn forwarded(&self) -> Result<Option<i64>, StoreError> {
        let select = "SELECT min(commits) FROM forward_target";
        self.sql(self.connection().query_row(select, [], |row| row.get(0)))
    }
}
