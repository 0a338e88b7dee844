//! The source log: the new positions of sources, one row a commit, until a checkpoint writes them to `source`.
//!
//! A commit of a thousand quiet instances advances hundreds of sources by a record each. Updates of as many rows would
//! cost more than the rest of the commit: identities are hashes, so the rows lie on as many pages of SQLite. So a
//! commit writes all new positions side by side in one row of `source_log`. A commit that would make the log longer
//! than [`CHECKPOINT_COMMITS`] rows or [`CHECKPOINT_BYTES`] writes no row. It updates `source` with the latest state of
//! each source, its own included, and empties the log. Readers apply the log to `source` within one snapshot.
//!
//! ```text
//! sources := checksum u64 | version u8 | source*     xxh3-64 of the rest; a later row wins over an earlier one
//! source  := identity 16 bytes | length varint of the rest | position varint | 0 or last time + 1 varint | status u8
//!            | seen varint | device varint | inode varint | cursor text | profile text | marks varint, mark*
//!            | 14 counts varint
//! mark    := distance before the position varint | length varint | hash u64
//! text    := length varint | UTF-8        numbers are little-endian
//! ```
//!
//! **The writer of the catalog has the whole log in memory** ([`SourceLog`]) and reads the table only when it opens the
//! folder. So the next checkpoint replaces a row that was damaged meanwhile, and nothing is lost. If the opening finds
//! a damaged row, it fails until `repair` removes the row. Each row has all changing values of a source, so without
//! that row the source has the state of its previous commit.
//!
//! The fixed values of a source (block, kind, path, generation, first line) are in `source` alone, from its first
//! commit on. If that row is damaged, the next checkpoint writes it again from memory. After a kill, memory has no
//! copy: the log of such a source is ignored, and its file begins as a new source.

use super::schema::SOURCE_LOG;
use super::source_rows::{insert_source, update_source};
use crate::error::{SourceLogError, source_log_error};
use crate::format::page::{ByteReader, PageError, put_varint};
use crate::source::{Ledger, MARKS_MAX, Mark, SourceState, SourceStatus};
use daytable_model::path_text::PathText;
use daytable_model::source_id::SourceId;
use daytable_model::time::Ticks;
use rusqlite::{Connection, ErrorCode, params};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// The version of a row. A crash leaves rows that a later program finds. Such a program writes a higher version and
/// still reads this one. In every version, a checksum of the rest comes first.
const VERSION: u8 = 1;
/// Checksum and version.
const HEAD_BYTES: usize = 9;

/// Commits between checkpoints. More commits mean fewer writes, and more work for a reader.
pub(crate) const CHECKPOINT_COMMITS: u64 = 64;
/// Bytes of the log from which a checkpoint is due.
const CHECKPOINT_BYTES: u64 = 4 << 20;

type ByIdentity<T> = HashMap<SourceId, T, foldhash::quality::RandomState>;

/// The contents of the table in the writer's memory.
#[derive(Debug, Default)]
pub(super) struct SourceLog {
    commits: u64,
    bytes: u64,
    /// The latest state of each source in the log.
    last: ByIdentity<Arc<SourceState>>,
    /// Whether a commit failed, so that only the table shows how much of it was written.
    is_doubtful: bool,
}

impl SourceLog {
    /// Reads the log of an opened catalog with these sources.
    pub(super) fn read(connection: &Connection, sources: Vec<SourceState>) -> rusqlite::Result<SourceLog> {
        let select = "SELECT count(*), coalesce(sum(length(sources)), 0) FROM source_log";
        let last = sources.into_iter().map(|source| (source.identity, Arc::new(source))).collect();
        connection.query_row(select, [], |row| {
            let number = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
            Ok(SourceLog { commits: number(0)?, bytes: number(1)?, last, is_doubtful: false })
        })
    }

    /// Whether a checkpoint is due instead of writing `moves`.
    pub(super) fn is_due_with(&self, moves: &SourceLogRow, checkpoint_commits: u64) -> bool {
        let (commits, bytes) = moves.size();
        let is_full = self.commits + commits >= checkpoint_commits || self.bytes + bytes >= CHECKPOINT_BYTES;
        is_full && !self.is_doubtful
    }

    /// Adds a written commit.
    pub(super) fn add(&mut self, moves: &SourceLogRow, sources: Vec<&Arc<SourceState>>) {
        let (commits, bytes) = moves.size();
        self.commits += commits;
        self.bytes += bytes;
        self.last.extend(sources.into_iter().map(|source| (source.identity, source.clone())));
    }

    /// Marks the log after a failed commit.
    pub(super) fn mark_doubtful(&mut self) {
        self.is_doubtful = true;
    }

    /// Whether a commit failed. No checkpoint may be written before the folder is opened again.
    pub(super) fn is_doubtful(&self) -> bool {
        self.is_doubtful
    }

    /// The truncation for [`SourceLog::enter`].
    pub(super) fn truncation(&self, connection: &Connection) -> rusqlite::Result<LogTruncation> {
        if self.commits == 0 {
            return Ok(LogTruncation::Not);
        }
        if is_as_written(connection, self.commits, self.bytes)? {
            return Ok(LogTruncation::Deleted);
        }
        tracing::error!("the table `source_log` of the catalog is damaged, and is created again");
        Ok(LogTruncation::SetAside)
    }

    /// Updates the rows of its sources, with the newer `more`, and empties the table. Runs in the open transaction.
    pub(super) fn enter(
        &self,
        connection: &Connection,
        more: &[&Arc<SourceState>],
        how: LogTruncation,
    ) -> rusqlite::Result<()> {
        let mut last: ByIdentity<&SourceState> =
            self.last.iter().map(|(identity, source)| (*identity, &**source)).collect();
        last.extend(more.iter().map(|source| (source.identity, &***source)));
        enter(connection, last.into_values())?;
        empty(connection, how)
    }
}

/// The positions of one commit, encoded.
pub(super) struct SourceLogRow {
    bytes: Vec<u8>,
    /// The buffer of one source.
    source: Vec<u8>,
}

impl SourceLogRow {
    /// A row without sources.
    pub(super) fn new() -> SourceLogRow {
        let mut bytes = vec![0; HEAD_BYTES];
        bytes[HEAD_BYTES - 1] = VERSION;
        SourceLogRow { bytes, source: Vec::with_capacity(256) }
    }

    /// The number of rows and bytes of this commit in the log.
    fn size(&self) -> (u64, u64) {
        if self.bytes.len() == HEAD_BYTES { (0, 0) } else { (1, self.bytes.len() as u64) }
    }

    /// Adds a source.
    pub(super) fn push(&mut self, source: &SourceState) {
        let out = &mut self.source;
        out.clear();
        put_varint(out, source.position);
        put_varint(out, source.last_time.map_or(0, |time| time.get().cast_unsigned() + 1));
        out.push(match source.status {
            SourceStatus::Live => 0,
            SourceStatus::Rotated => 1,
            SourceStatus::Ended => 2,
        });
        for number in [source.seen.get().cast_unsigned(), source.device, source.inode] {
            put_varint(out, number);
        }
        for text in [&source.cursor, &source.profile] {
            put_varint(out, text.len() as u64);
            out.extend_from_slice(text.as_bytes());
        }
        put_varint(out, source.marks.len() as u64);
        for Mark { position, length, hash } in &source.marks {
            put_varint(out, source.position.wrapping_sub(*position));
            put_varint(out, u64::from(*length));
            out.extend_from_slice(&hash.to_le_bytes());
        }
        // A new count needs a new version: an older program would misread the following bytes.
        let Ledger {
            records,
            lost_records,
            bytes,
            truncated_records,
            truncated_bytes,
            invalid_utf8_records,
            skipped_bytes,
            lost_bytes,
            older_bytes,
            begun_bytes,
            adopted_bytes,
            returned_bytes,
            own_records,
            late_records,
        } = source.ledger;
        let read = [records, lost_records, bytes, truncated_records, truncated_bytes, invalid_utf8_records];
        let passed = [skipped_bytes, lost_bytes, older_bytes, begun_bytes, adopted_bytes, returned_bytes, own_records];
        for count in read.into_iter().chain(passed).chain([late_records]) {
            put_varint(out, count);
        }
        self.bytes.extend_from_slice(&source.identity.to_bytes());
        put_varint(&mut self.bytes, self.source.len() as u64);
        self.bytes.extend_from_slice(&self.source);
    }

    /// Writes the row of commit `seq` if there are sources.
    pub(super) fn insert(&mut self, connection: &Connection, seq: i64) -> rusqlite::Result<()> {
        if self.size() == (0, 0) {
            return Ok(());
        }
        self.seal();
        connection.prepare_cached("INSERT INTO source_log VALUES (?1, ?2)")?.execute(params![seq, self.bytes]).map(drop)
    }

    fn seal(&mut self) {
        let checksum = xxh3_64(&self.bytes[8..]);
        self.bytes[..8].copy_from_slice(&checksum.to_le_bytes());
    }
}

/// The logged state of a source.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SourceDelta {
    pub(super) position: u64,
    pub(super) last_time: Option<Ticks>,
    pub(super) status: SourceStatus,
    pub(super) seen: Ticks,
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) cursor: String,
    pub(super) profile: String,
    pub(super) marks: Vec<Mark>,
    pub(crate) ledger: Ledger,
}

impl SourceDelta {
    /// Applies it to the state in `source`.
    pub(super) fn apply(self, source: &mut SourceState) {
        let SourceDelta { position, last_time, status, seen, device, inode, cursor, profile, marks, ledger } = self;
        (source.position, source.last_time, source.status, source.seen) = (position, last_time, status, seen);
        (source.device, source.inode, source.ledger) = (device, inode, ledger);
        (source.cursor, source.profile, source.marks) = (cursor, profile, marks);
    }

    fn read(mut bytes: ByteReader<'_>) -> Result<SourceDelta, PageError> {
        let bytes = &mut bytes;
        let position = bytes.varint()?;
        let last_time = match bytes.varint()? {
            0 => None,
            time => Some(ticks(time - 1)?),
        };
        let status = match bytes.byte()? {
            0 => SourceStatus::Live,
            1 => SourceStatus::Rotated,
            2 => SourceStatus::Ended,
            _ => return Err(PageError::Damaged("a source is in no state")),
        };
        let (seen, device, inode) = (ticks(bytes.varint()?)?, bytes.varint()?, bytes.varint()?);
        let (cursor, profile) = (text(bytes)?, text(bytes)?);
        let count = usize::try_from(bytes.varint()?).ok().filter(|count| *count <= bytes.rest().len() / 10);
        let count = count.ok_or(PageError::Damaged("a source has more marks than there are bytes"))?;
        let mut marks = Vec::with_capacity(count.min(MARKS_MAX));
        for _ in 0..count {
            let position = position.wrapping_sub(bytes.varint()?);
            let length = u32::try_from(bytes.varint()?).map_err(|_| PageError::Damaged("a mark is too long"))?;
            marks.push(Mark { position, length, hash: u64::from_le_bytes(bytes.array()?) });
        }
        let ledger = Ledger {
            records: bytes.varint()?,
            lost_records: bytes.varint()?,
            bytes: bytes.varint()?,
            truncated_records: bytes.varint()?,
            truncated_bytes: bytes.varint()?,
            invalid_utf8_records: bytes.varint()?,
            skipped_bytes: bytes.varint()?,
            lost_bytes: bytes.varint()?,
            older_bytes: bytes.varint()?,
            begun_bytes: bytes.varint()?,
            adopted_bytes: bytes.varint()?,
            returned_bytes: bytes.varint()?,
            own_records: bytes.varint()?,
            late_records: bytes.varint()?,
        };
        if !bytes.rest().is_empty() {
            return Err(PageError::Damaged("there is more of a source than there can be"));
        }
        Ok(SourceDelta { position, last_time, status, seen, device, inode, cursor, profile, marks, ledger })
    }
}

fn ticks(number: u64) -> Result<Ticks, PageError> {
    let ticks = i64::try_from(number).ok().and_then(Ticks::new);
    ticks.ok_or(PageError::Damaged("a time is out of range"))
}

fn text(bytes: &mut ByteReader<'_>) -> Result<String, PageError> {
    let length = usize::try_from(bytes.varint()?).unwrap_or(usize::MAX);
    let text = std::str::from_utf8(bytes.take(length)?).map_err(|_| PageError::Damaged("a text is not UTF-8"))?;
    Ok(text.into())
}

/// States by identity.
pub(crate) type LatestDeltas = ByIdentity<SourceDelta>;

/// Why a row cannot be decoded.
#[derive(Debug, PartialEq)]
enum RowError {
    Damaged(String),
    Newer(u8),
}

impl From<PageError> for RowError {
    fn from(error: PageError) -> RowError {
        // The error is of a page's reader, but these bytes are not a page.
        RowError::Damaged(match error {
            PageError::Damaged(what) => what.into(),
            error => error.to_string(),
        })
    }
}

/// Reads the states of one commit. States that are already in `latest` are newer and stay.
fn read_log_row(bytes: &[u8], latest: &mut LatestDeltas) -> Result<(), RowError> {
    let mut bytes = ByteReader::new(bytes);
    if u64::from_le_bytes(bytes.array()?) != xxh3_64(bytes.rest()) {
        return Err(PageError::Damaged("its checksum is another").into());
    }
    let version = bytes.byte()?;
    if version != VERSION {
        return Err(RowError::Newer(version));
    }
    while !bytes.rest().is_empty() {
        let identity = SourceId::from_bytes(bytes.array()?);
        let length = usize::try_from(bytes.varint()?).unwrap_or(usize::MAX);
        let source = bytes.take(length)?;
        if let Entry::Vacant(entry) = latest.entry(identity) {
            entry.insert(SourceDelta::read(ByteReader::new(source))?);
        }
    }
    Ok(())
}

/// The latest state of each source since the last checkpoint.
pub(crate) fn latest(connection: &Connection) -> rusqlite::Result<LatestDeltas> {
    let (mut latest, mut commits) = (LatestDeltas::default(), Vec::new());
    read_commits(connection, "DESC", &mut commits)?;
    commits.iter().try_for_each(|seq| read_row(connection, *seq, &mut latest))?;
    Ok(latest)
}

/// The readable part of a damaged log, and its errors.
pub(super) fn readable(connection: &Connection) -> rusqlite::Result<(LatestDeltas, Vec<SourceLogError>)> {
    let (mut latest, mut commits, mut damaged) = (LatestDeltas::default(), Vec::new(), Vec::new());
    let mut note = |result: rusqlite::Result<()>| match result.map_err(source_log_error) {
        Err(Ok(unread @ SourceLogError::Damaged { .. })) => {
            damaged.push(unread);
            Ok(())
        }
        Err(Ok(newer)) => Err(newer.into()),
        Err(Err(error)) => Err(error),
        Ok(()) => Ok(()),
    };
    if let Err(error) = read_commits(connection, "DESC", &mut commits) {
        note(Err(error))?;
        // From the other end, up to the same damage.
        let _ = read_commits(connection, "ASC", &mut commits);
        commits.sort_unstable_by_key(|seq| std::cmp::Reverse(*seq));
        commits.dedup();
    }
    commits.iter().try_for_each(|seq| note(read_row(connection, *seq, &mut latest)))?;
    Ok((latest, damaged))
}

/// The commits with a row; the last commit first if `order` is DESC.
fn read_commits(connection: &Connection, order: &str, commits: &mut Vec<i64>) -> rusqlite::Result<()> {
    let mut statement = connection.prepare_cached(&format!("SELECT seq FROM source_log ORDER BY seq {order}"))?;
    let mut rows = statement.query([])?;
    let mut read = || {
        while let Some(row) = rows.next()? {
            commits.push(row.get(0)?);
        }
        Ok(())
    };
    read().map_err(|error| damage("the last commits".into(), error))
}

fn read_row(connection: &Connection, seq: i64, latest: &mut LatestDeltas) -> rusqlite::Result<()> {
    let which = || format!("commit {seq}");
    let mut statement = connection.prepare_cached("SELECT sources FROM source_log WHERE seq = ?1")?;
    let read = statement.query_row([seq], |row| Ok(read_log_row(row.get_ref(0)?.as_blob()?, latest)));
    match read.map_err(|error| damage(which(), error))? {
        Ok(()) => Ok(()),
        Err(RowError::Damaged(what)) => Err(SourceLogError::Damaged { which: which(), what }.into()),
        Err(RowError::Newer(version)) => Err(SourceLogError::Newer { which: which(), version, known: VERSION }.into()),
    }
}

/// Converts an error of SQLite that means damage.
fn damage(which: String, error: rusqlite::Error) -> rusqlite::Error {
    let is_damage = match &error {
        rusqlite::Error::SqliteFailure(error, _) => error.code == ErrorCode::DatabaseCorrupt,
        // The value is not a blob, or the row disappeared.
        _ => true,
    };
    if is_damage { SourceLogError::Damaged { which, what: error.to_string() }.into() } else { error }
}

/// Updates the rows of these sources in the open transaction. A missing row is inserted.
fn enter<'s>(connection: &Connection, sources: impl Iterator<Item = &'s SourceState>) -> rusqlite::Result<()> {
    // In the order of their rows.
    let mut sources: Vec<&SourceState> = sources.collect();
    sources.sort_unstable_by_key(|source| source.identity);
    for source in sources {
        if update_source(connection, source)? == 0 {
            let (identity, path) = (source.identity.to_string(), source.path.escaped());
            tracing::error!(identity, %path, "the row of a source was missing in the catalog, and is written again");
            insert_source(connection, source)?;
        }
    }
    Ok(())
}

/// How the table is emptied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum LogTruncation {
    /// It is empty.
    Not,
    /// Its rows are deleted.
    Deleted,
    /// The damaged table is renamed, and a new one created. Deleting its rows would also free the pages that damaged
    /// pages point to, and these may belong to another table by now.
    SetAside,
}

/// Whether the table has the written commits and bytes, and no others. Must run before a transaction begins: SQLite
/// allows no writes in a transaction that met damage.
fn is_as_written(connection: &Connection, commits: u64, bytes: u64) -> rusqlite::Result<bool> {
    let read = || {
        let mut statement = connection.prepare_cached("SELECT sources FROM source_log")?;
        let mut rows = statement.query([])?;
        let mut found = (0, 0);
        while let Some(row) = rows.next()? {
            let Ok(row) = row.get_ref(0)?.as_blob() else { return Ok(false) };
            let is_whole = row.split_first_chunk().is_some_and(|(sum, rest)| u64::from_le_bytes(*sum) == xxh3_64(rest));
            if !is_whole {
                return Ok(false);
            }
            found = (found.0 + 1, found.1 + row.len() as u64);
        }
        Ok(found == (commits, bytes))
    };
    match read() {
        Err(rusqlite::Error::SqliteFailure(error, _)) if error.code == ErrorCode::DatabaseCorrupt => Ok(false),
        read => read,
    }
}

/// Empties the table in the open transaction.
fn empty(connection: &Connection, how: LogTruncation) -> rusqlite::Result<()> {
    match how {
        LogTruncation::Not => Ok(()),
        LogTruncation::Deleted => connection.prepare_cached("DELETE FROM source_log")?.execute([]).map(drop),
        LogTruncation::SetAside => {
            let select = "SELECT coalesce(max(CAST(substr(name, 20) AS INTEGER)) + 1, 0) FROM sqlite_master
                          WHERE name LIKE 'source_log_damaged_%'";
            let nth: i64 = connection.query_row(select, [], |row| row.get(0))?;
            connection
                .execute_batch(&format!("ALTER TABLE source_log RENAME TO source_log_damaged_{nth}; {SOURCE_LOG}"))
        }
    }
}

/// Writes the readable states of a damaged table to `source`, and begins a new table.
pub(super) fn rebuild(connection: &mut Connection, sources: &[SourceState]) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    enter(&transaction, sources.iter())?;
    empty(&transaction, LogTruncation::SetAside)?;
    transaction.commit()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::StoreError;
    use crate::format::catalog::accounting::CommitEntry as BookEntry;
    use crate::format::catalog::idempotency::IdempotencyKey;
    use crate::format::catalog::{Catalog, Touched};
    use crate::source::{SourceKind, tests_state};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    /// Commits between checkpoints in these tests.
    const FEW: u64 = 5;

    fn open(data_dir: &std::path::Path) -> Result<Catalog, StoreError> {
        let mut catalog = Catalog::open_to_write(data_dir)?;
        catalog.set_checkpoint_commits(FEW);
        Ok(catalog)
    }

    fn number() -> impl Strategy<Value = u64> {
        prop_oneof![Just(0), Just(u64::MAX), any::<u64>(), 0u64..300]
    }

    fn source() -> impl Strategy<Value = SourceState> {
        let who = (0u64..4, number(), number(), number());
        let status = prop_oneof![Just(SourceStatus::Live), Just(SourceStatus::Rotated), Just(SourceStatus::Ended)];
        let time = (0..=daytable_model::time::MAX_TICKS).prop_map(|ticks| Ticks::new(ticks).expect("in range"));
        let mark = (number(), any::<u32>(), any::<u64>());
        let mark = mark.prop_map(|(position, length, hash)| Mark { position, length, hash });
        let how = (status, proptest::option::of(time.clone()), time, ".{0,9}", ".{0,200}");
        let counts = proptest::collection::vec(number(), 14);
        (who, how, proptest::collection::vec(mark, 0..=MARKS_MAX), counts).prop_map(|(who, how, marks, n)| {
            SourceState {
                identity: who.0.into(),
                position: who.1,
                device: who.2,
                inode: who.3,
                status: how.0,
                last_time: how.1,
                seen: how.2,
                cursor: how.3,
                profile: how.4,
                marks,
                ledger: Ledger {
                    records: n[0],
                    lost_records: n[1],
                    bytes: n[2],
                    truncated_records: n[3],
                    truncated_bytes: n[4],
                    invalid_utf8_records: n[5],
                    skipped_bytes: n[6],
                    lost_bytes: n[7],
                    older_bytes: n[8],
                    begun_bytes: n[9],
                    adopted_bytes: n[10],
                    returned_bytes: n[11],
                    own_records: n[12],
                    late_records: n[13],
                },
                ..tests_state(1)
            }
        })
    }

    fn bytes_of<'s>(sources: impl IntoIterator<Item = &'s SourceState>) -> Vec<u8> {
        let mut moves = SourceLogRow::new();
        sources.into_iter().for_each(|source| moves.push(source));
        moves.seal();
        moves.bytes
    }

    /// A catalog with one source, and a function that commits one more byte of it.
    fn moving() -> (tempfile::TempDir, Catalog, impl FnMut(&mut Catalog, i64) -> SourceState) {
        let dir = tempfile::tempdir().expect("a folder");
        let mut catalog = open(dir.path()).expect("opened");
        let mut source = tests_state(1);
        let mut commit = move |catalog: &mut Catalog, seq| {
            source.position += 1;
            let sources = [Arc::new(source.clone())];
            let commit = catalog.commit(seq, &[], sources.iter(), [].iter(), None, BookEntry::default());
            commit.expect("committed");
            source.clone()
        };
        commit(&mut catalog, 1);
        (dir, catalog, commit)
    }

    fn execute(catalog: &Catalog, statement: &str) {
        assert!(catalog.connection().execute(statement, []).expect(statement) > 0, "{statement} changed nothing");
    }

    const FLIP: &str = "UPDATE source_log SET sources = zeroblob(length(sources)) WHERE seq = 3";

    fn rows(catalog: &Catalog) -> i64 {
        let count = "SELECT count(*) FROM source_log";
        catalog.connection().query_row(count, [], |row| row.get(0)).expect("read")
    }

    /// A checkpoint writes a lost row of a source from memory.
    #[test]
    fn a_missing_row_of_a_source_is_written_again() {
        let (_dir, mut catalog, mut commit) = moving();
        execute(&catalog, "DELETE FROM source");
        for seq in 2..5 {
            commit(&mut catalog, seq);
            assert_eq!(catalog.sources().expect("read"), []);
        }
        let last = commit(&mut catalog, 5);
        assert_eq!(catalog.sources().expect("read"), [last]);
        execute(&catalog, "DELETE FROM source");
        let last = commit(&mut catalog, 6);
        let reader = Catalog::open_to_read(catalog.path.parent().expect("a folder")).expect("opened");
        catalog.close().expect("closed");
        assert_eq!(reader.sources().expect("read"), [last]);
    }

    /// After a kill, no copy is in memory, and the log alone does not identify a source.
    #[test]
    fn a_source_with_a_missing_row_begins_again_after_a_kill() {
        let (dir, mut catalog, mut commit) = moving();
        commit(&mut catalog, 2);
        execute(&catalog, "DELETE FROM source");
        drop(catalog);
        let mut catalog = open(dir.path()).expect("opened again");
        assert_eq!(catalog.sources().expect("read"), []);
        let last = commit(&mut catalog, 3);
        assert_eq!(catalog.sources().expect("read"), [last]);
        for seq in 4..9 {
            let last = commit(&mut catalog, seq);
            assert_eq!(catalog.sources().expect("read"), [last]);
        }
    }

    /// The log is in memory: the next checkpoint replaces a damaged row, and nothing is lost.
    #[test]
    fn a_damaged_row_is_written_again_from_memory() {
        for is_closed in [false, true] {
            let (dir, mut catalog, mut commit) = moving();
            (2..=3).for_each(|seq| drop(commit(&mut catalog, seq)));
            execute(&catalog, FLIP);
            assert!(catalog.sources().is_err());
            let mut last = commit(&mut catalog, 4);
            if is_closed {
                catalog.close().expect("closed");
                catalog = open(dir.path()).expect("opened again");
            } else {
                assert!(catalog.sources().is_err());
                last = commit(&mut catalog, 5);
            }
            assert_eq!((catalog.sources().expect("read"), rows(&catalog)), (vec![last], 0));
        }
    }

    /// Without the copy in memory, the damage is an error with advice. A source then has the state of its last intact
    /// row.
    #[test]
    fn a_row_that_is_damaged_is_left_out_by_a_repair() {
        let (dir, mut catalog, mut commit) = moving();
        let second = commit(&mut catalog, 2);
        commit(&mut catalog, 3);
        execute(&catalog, FLIP);
        drop(catalog);
        for error in [
            open(dir.path()).err(),
            Catalog::open_to_read(dir.path()).expect("opened").sources().err(),
            Catalog::open_to_read(dir.path()).expect("opened").accounts().err(),
        ] {
            let Some(error @ StoreError::SourceLogDamaged { .. }) = error else { panic!("{error:?}") };
            assert!(error.is_damage());
            assert!(error.to_string().contains("commit 3 is damaged: its checksum is another. "), "{error}");
            let says = format!("run `daytable repair --data {}`", dir.path().display());
            assert!(error.to_string().contains(&says), "{error}");
        }
        let mut catalog = Catalog::open_to_repair(dir.path()).expect("opened");
        catalog.check_source_log().expect("it can be mended");
        let said = catalog.repair_source_log().expect("mended");
        assert!(said.len() == 1 && said[0].contains("the source log of commit 3 is damaged"), "{said:?}");
        assert_eq!(catalog.repair_source_log().expect("whole"), [""; 0]);
        drop(catalog);
        let mut catalog = open(dir.path()).expect("opened");
        assert_eq!(catalog.sources().expect("read"), [second]);
        let last = commit(&mut catalog, 4);
        assert_eq!(catalog.sources().expect("read"), [last]);
    }

    /// A lost block of the disk breaks SQLite's own chain of pages, so that the row cannot even be deleted.
    #[test]
    fn a_row_with_lost_pages_is_left_out_too() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut catalog = open(dir.path()).expect("opened");
        let mut source = tests_state(1);
        for seq in 1..4 {
            source.position += 1;
            source.profile = format!("{seq}").repeat(20_000);
            let commit =
                catalog.commit(seq, &[], [Arc::new(source.clone())].iter(), [].iter(), None, BookEntry::default());
            commit.expect("committed");
        }
        crate::sqlite::checkpoint(catalog.connection(), true).expect("moved");
        drop(catalog);
        let path = Catalog::path_in(dir.path());
        let mut bytes = std::fs::read(&path).expect("read");
        let pages = bytes.chunks_mut(4096).filter(|page| page[100..].iter().all(|byte| *byte == b'2'));
        pages.for_each(|page| page.fill(0));
        std::fs::write(&path, bytes).expect("written");
        let error = open(dir.path()).err();
        assert!(matches!(&error, Some(StoreError::SourceLogDamaged { which, .. }) if which == "commit 2"), "{error:?}");
        let mut catalog = Catalog::open_to_repair(dir.path()).expect("opened");
        let said = catalog.repair_source_log().expect("mended");
        assert!(said.len() == 1 && said[0].contains("commit 2 is damaged"), "{said:?}");
        drop(catalog);
        let mut catalog = open(dir.path()).expect("opened");
        assert_eq!(catalog.sources().expect("read"), [source.clone()]);
        for seq in 4..15 {
            source.position += 1;
            let sources = [Arc::new(source.clone())];
            let commit = catalog.commit(seq, &[], sources.iter(), [].iter(), None, BookEntry::default());
            commit.expect("committed");
        }
        catalog.close().expect("closed");
        let catalog = open(dir.path()).expect("opened");
        assert_eq!(catalog.sources().expect("read"), [source]);
    }

    /// Rows before a lost leaf are read from the other end.
    #[test]
    fn rows_on_whole_pages_are_kept() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut catalog = open(dir.path()).expect("opened");
        let mut states = Vec::new();
        for seq in 1..5 {
            let source = SourceState { position: seq, profile: format!("{seq}").repeat(1500), ..tests_state(1) };
            let seq = seq.cast_signed();
            let commit =
                catalog.commit(seq, &[], [Arc::new(source.clone())].iter(), [].iter(), None, BookEntry::default());
            commit.expect("committed");
            states.push(source);
        }
        crate::sqlite::checkpoint(catalog.connection(), true).expect("moved");
        drop(catalog);
        let path = Catalog::path_in(dir.path());
        let mut bytes = std::fs::read(&path).expect("read");
        let has = |page: &[u8], text: &str| memchr::memmem::find(page, text.repeat(1000).as_bytes()).is_some();
        let mut pages: Vec<&mut [u8]> = bytes.chunks_mut(4096).collect();
        let last = pages.iter_mut().find(|page| has(page, "4")).expect("a leaf");
        let first_lost = (1..5).find(|seq| has(last, &seq.to_string())).expect("a row");
        assert!(first_lost > 1, "all rows are on one page");
        last.fill(0);
        std::fs::write(&path, bytes).expect("written");
        let mut catalog = Catalog::open_to_repair(dir.path()).expect("opened");
        let said = catalog.repair_source_log().expect("mended");
        assert!(said.len() == 1 && said[0].contains("the last commits is damaged"), "{said:?}");
        drop(catalog);
        let catalog = open(dir.path()).expect("opened");
        assert_eq!(catalog.sources().expect("read"), [states[first_lost - 2].clone()]);
    }

    /// A newer version is not damage, so a repair keeps it.
    #[test]
    fn a_row_of_a_newer_version_is_refused() {
        let (dir, mut catalog, mut commit) = moving();
        commit(&mut catalog, 2);
        let rest = [VERSION + 1, 7, 7, 7];
        let row = [&xxh3_64(&rest).to_le_bytes()[..], &rest].concat();
        catalog.connection().execute("UPDATE source_log SET sources = ?1 WHERE seq = 2", [row]).expect("written");
        let newer = |error: Option<StoreError>| {
            let Some(error @ StoreError::Refused(_)) = error else { panic!("{error:?}") };
            assert!(error.to_string().contains("commit 2 has version 2") && !error.is_damage(), "{error}");
        };
        newer(catalog.sources().err());
        drop(catalog);
        newer(open(dir.path()).err());
        let mut catalog = Catalog::open_to_repair(dir.path()).expect("opened");
        newer(catalog.check_source_log().err());
        newer(catalog.repair_source_log().err());
        assert_eq!(rows(&catalog), 2);
    }

    /// A commit that writes a checkpoint writes no row.
    #[test]
    fn a_commit_that_enters_writes_no_row() {
        let (_dir, mut catalog, mut commit) = moving();
        let count = "CREATE TABLE written(seq); CREATE TRIGGER count AFTER INSERT ON source_log
                     BEGIN INSERT INTO written VALUES (new.seq); END";
        catalog.connection().execute_batch(count).expect("made");
        (2..12).for_each(|seq| drop(commit(&mut catalog, seq)));
        let mut statement = catalog.connection().prepare("SELECT seq FROM written").expect("read");
        let written = statement.query_map([], |row| row.get(0)).expect("read");
        let written: Vec<i64> = written.collect::<rusqlite::Result<_>>().expect("read");
        assert_eq!(written, [2, 3, 4, 6, 7, 8, 9, 11]);
    }

    /// The next opening finds out what a failed commit wrote. Until then, no checkpoint is written.
    #[test]
    fn nothing_is_entered_after_a_commit_that_failed() {
        let (dir, mut catalog, mut commit) = moving();
        let last = commit(&mut catalog, 2);
        let touched = [Touched { file: "nowhere", entities: 1, times: None }];
        let moved = [Arc::new(SourceState { position: 999, ..tests_state(1) })];
        let failed = catalog.commit(3, &touched, moved.iter(), [].iter(), None, BookEntry::default());
        assert!(failed.is_err());
        assert!(catalog.forget_sources(Ticks::MAX).is_err());
        catalog.close().expect("closed");
        let catalog = open(dir.path()).expect("opened");
        assert_eq!((catalog.sources().expect("read"), rows(&catalog)), (vec![last], 2));
    }

    proptest! {
        /// A logged state replaces the whole earlier state.
        #[test]
        fn moves_round_trip(source in source()) {
            let mut latest = LatestDeltas::default();
            read_log_row(&bytes_of([&source]), &mut latest).expect("what was written");
            let old = tests_state(source.identity.hash());
            let mut found = SourceState { inode: old.inode, ..tests_state(source.identity.hash()) };
            latest.remove(&source.identity).expect("the source").apply(&mut found);
            prop_assert_eq!(found, source);
        }

        /// Any bytes are states or an error, and a changed byte is an error.
        #[test]
        fn damage_is_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..80), source in source(), at: usize) {
            let bytes = [&[VERSION], &bytes[..]].concat();
            let mut sealed = xxh3_64(&bytes).to_le_bytes().to_vec();
            sealed.extend(&bytes);
            let mut latest = LatestDeltas::default();
            // No bytes cause a panic.
            let _ = read_log_row(&sealed, &mut latest);
            prop_assert!(latest.len() <= bytes.len());
            let mut written = bytes_of([&source]);
            let at = at % written.len();
            written[at] ^= 1;
            prop_assert!(read_log_row(&written, &mut LatestDeltas::default()).is_err());
        }

    }

    proptest! {
        // A case is up to 15 commits, each read by two processes.
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// In every order of commits and checkpoints, sources have their last committed state: in this process, in
        /// another one, after opening again, and after a close, which leaves no log.
        #[test]
        fn sources_have_their_latest_state(
            commits in proptest::collection::vec((proptest::collection::vec(source(), 0..4), 0u8..8), 1..16),
        ) {
            let dir = tempfile::tempdir().expect("a folder");
            let mut writer = open(dir.path()).expect("opened");
            let reader = Catalog::open_to_read(dir.path()).expect("opened");
            let mut want: BTreeMap<SourceId, SourceState> = BTreeMap::new();
            for (seq, (sources, what)) in (1..).zip(commits) {
                // Sometimes another source has the same identity.
                let sources = sources.into_iter().map(|source| match what {
                    0 => SourceState { generation: 7, path: "/var/log/other.log".into(), ..source },
                    1 => SourceState { block: "other".into(), kind: SourceKind::Journal, ..source },
                    _ => source,
                });
                let sources: BTreeMap<SourceId, Arc<SourceState>> =
                    sources.map(|source| (source.identity, Arc::new(source))).collect();
                let no_keys: [IdempotencyKey; 0] = [];
                let touched: [Touched<'_>; 0] = [];
                writer
                    .commit(seq, &touched, sources.values(), no_keys.iter(), None, BookEntry::default())
                    .expect("committed");
                for (identity, source) in sources {
                    let source = SourceState::clone(&source);
                    match want.get_mut(&identity) {
                        // The fixed values stay as they were first written.
                        Some(known) if (known.generation, &known.block) == (source.generation, &source.block) => {
                            let SourceState { kind, path, head, .. } = known.clone();
                            *known = SourceState { kind, path, head, ..source };
                        }
                        _ => drop(want.insert(identity, source)),
                    }
                }
                if what == 2 {
                    writer = open(dir.path()).expect("opened again");
                }
                let by_identity = |catalog: &Catalog| -> BTreeMap<SourceId, SourceState> {
                    catalog.sources().expect("read").into_iter().map(|source| (source.identity, source)).collect()
                };
                prop_assert_eq!(&by_identity(&writer), &want);
                prop_assert_eq!(&by_identity(&reader), &want);
            }
            writer.close().expect("closed");
            let waiting = "SELECT count(*) FROM source_log";
            let waiting: i64 = reader.connection().query_row(waiting, [], |row| row.get(0)).expect("read");
            prop_assert_eq!(waiting, 0);
            let found = reader.sources().expect("read");
            prop_assert_eq!(found.into_iter().map(|source| (source.identity, source)).collect::<BTreeMap<_, _>>(), want);
        }
    }
}
