//! How far sources moved, a row a commit, until it is entered in `source`.
//!
//! A commit of a thousand quiet instances moves hundreds of sources by a record each. As updates of as many rows they
//! would cost the commit point more than all else: identities are hashes, so the rows lie on as many pages of SQLite's.
//! So a commit writes what moved side by side in one row of `moved`, and every [`ENTERED_AFTER`] commits one of them
//! enters the last that is known of each source in the row that it has in `source`, and empties the table, in its own
//! transaction. Who reads sources lays the one over the other, as of one moment.
//!
//! ```text
//! sources := checksum u64 | source*       xxh3-64 of what follows; a later row wins over an earlier one
//! source  := identity u64 | length varint of what follows | position varint | 0 or last time + 1 varint | status u8
//!            | seen varint | device varint | inode varint | cursor text | learned text | marks varint, mark*
//!            | 13 counts varint | opening bytes varint
//! mark    := position before that of the source varint | length varint | hash u64
//! text    := length varint | UTF-8        numbers are little-endian
//! ```
//!
//! Who a source is (block, kind, path, generation, first line) stands in `source` alone, from the commit that began it.
//! A source whose row is gone is none: its moves are let go, and whoever still reads it begins it anew.

use super::super::page::{Bytes, PageError, put_varint};
use super::super::source::{Ledger, MARKS_MAX, Mark, SourceState, SourceStatus};
use super::super::sqlite;
use super::move_on;
use crate::time::Ticks;
use rusqlite::types::Type;
use rusqlite::{Connection, Row, params};
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use xxhash_rust::xxh3::xxh3_64;

/// Format 7 has it.
pub(super) const SCHEMA: &str = "
    CREATE TABLE moved(
        seq INTEGER PRIMARY KEY,             -- a commit,
        sources BLOB NOT NULL                -- and how far sources were read with it (moved.rs)
    );
";
const FORMAT_OF_MOVED: i64 = 7;

/// Commits after which what moved is entered. The more, the fewer rows are written, and the more a reader lays over them.
const ENTERED_AFTER: u64 = if cfg!(test) { 5 } else { 64 };
/// Bytes after which it is, at the latest.
const ENTERED_BYTES: u64 = 4 << 20;

/// What is in the table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Waiting {
    commits: u64,
    bytes: u64,
}

impl Waiting {
    /// What is in the table of a catalogue that was opened.
    pub(super) fn read(connection: &Connection) -> rusqlite::Result<Waiting> {
        let select = "SELECT count(*), coalesce(sum(length(sources)), 0) FROM moved";
        connection.query_row(select, [], |row| {
            let number = |column| row.get::<_, i64>(column).map(i64::cast_unsigned);
            Ok(Waiting { commits: number(0)?, bytes: number(1)? })
        })
    }

    /// With what one more commit wrote.
    pub(super) fn with(self, moves: &Moves) -> Waiting {
        let written = u64::from(!moves.is_empty());
        Waiting { commits: self.commits + written, bytes: self.bytes + moves.bytes.len() as u64 * written }
    }

    /// Whether it is to be entered.
    pub(super) fn is_due(self) -> bool {
        self.commits >= ENTERED_AFTER || self.bytes >= ENTERED_BYTES
    }
}

/// What one commit moves.
pub(super) struct Moves {
    bytes: Vec<u8>,
    /// The source that is being written.
    source: Vec<u8>,
}

impl Moves {
    /// None yet.
    pub(super) fn new() -> Moves {
        Moves { bytes: vec![0; 8], source: Vec::with_capacity(256) }
    }

    fn is_empty(&self) -> bool {
        self.bytes.len() == 8
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
        for text in [&source.cursor, &source.learned] {
            put_varint(out, text.len() as u64);
            out.extend_from_slice(text.as_bytes());
        }
        put_varint(out, source.marks.len() as u64);
        for Mark { position, length, hash } in &source.marks {
            put_varint(out, source.position.wrapping_sub(*position));
            put_varint(out, u64::from(*length));
            out.extend_from_slice(&hash.to_le_bytes());
        }
        // Whoever adds a count adds a format: an older program would take it for what follows.
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
            opening_bytes,
        } = source.ledger;
        let read = [records, lost_records, bytes, truncated_records, truncated_bytes, invalid_utf8_records];
        let passed = [skipped_bytes, lost_bytes, older_bytes, begun_bytes, adopted_bytes, returned_bytes, own_records];
        for count in read.into_iter().chain(passed).chain([opening_bytes.cast_unsigned()]) {
            put_varint(out, count);
        }
        self.bytes.extend_from_slice(&source.identity.to_le_bytes());
        put_varint(&mut self.bytes, self.source.len() as u64);
        self.bytes.extend_from_slice(&self.source);
    }

    /// Writes them as those of commit `seq`, where there are any.
    pub(super) fn insert(&mut self, connection: &Connection, seq: i64) -> rusqlite::Result<()> {
        if self.is_empty() {
            return Ok(());
        }
        let checksum = xxh3_64(&self.bytes[8..]);
        self.bytes[..8].copy_from_slice(&checksum.to_le_bytes());
        connection.prepare_cached("INSERT INTO moved VALUES (?1, ?2)")?.execute(params![seq, self.bytes]).map(drop)
    }
}

/// The last that is known of a source that moved.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Moved {
    pub(super) position: u64,
    pub(super) last_time: Option<Ticks>,
    pub(super) status: SourceStatus,
    pub(super) seen: Ticks,
    pub(super) device: u64,
    pub(super) inode: u64,
    pub(super) cursor: String,
    pub(super) learned: String,
    pub(super) marks: Vec<Mark>,
    pub(crate) ledger: Ledger,
}

impl Moved {
    /// Lays it over what `source` says.
    pub(super) fn lay_over(self, source: &mut SourceState) {
        let Moved { position, last_time, status, seen, device, inode, cursor, learned, marks, ledger } = self;
        (source.position, source.last_time, source.status, source.seen) = (position, last_time, status, seen);
        (source.device, source.inode, source.ledger) = (device, inode, ledger);
        (source.cursor, source.learned, source.marks) = (cursor, learned, marks);
    }

    fn read(mut bytes: Bytes<'_>) -> Result<Moved, PageError> {
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
        let (cursor, learned) = (text(bytes)?, text(bytes)?);
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
            opening_bytes: bytes.varint()?.cast_signed(),
        };
        if !bytes.rest().is_empty() {
            return Err(PageError::Damaged("there is more of a source than there can be"));
        }
        Ok(Moved { position, last_time, status, seen, device, inode, cursor, learned, marks, ledger })
    }
}

fn ticks(number: u64) -> Result<Ticks, PageError> {
    let ticks = i64::try_from(number).ok().and_then(Ticks::new);
    ticks.ok_or(PageError::Damaged("a time is out of range"))
}

fn text(bytes: &mut Bytes<'_>) -> Result<String, PageError> {
    let length = usize::try_from(bytes.varint()?).unwrap_or(usize::MAX);
    let text = std::str::from_utf8(bytes.take(length)?).map_err(|_| PageError::Damaged("a text is not UTF-8"))?;
    Ok(text.into())
}

/// By identity.
pub(crate) type Latest = HashMap<u64, Moved, foldhash::quality::RandomState>;

/// Reads what one commit moved of sources that did not move later.
fn read_moves(bytes: &[u8], latest: &mut Latest) -> Result<(), PageError> {
    let mut bytes = Bytes::new(bytes);
    if u64::from_le_bytes(bytes.array()?) != xxh3_64(bytes.rest()) {
        return Err(PageError::Damaged("its checksum is another"));
    }
    while !bytes.rest().is_empty() {
        let identity = u64::from_le_bytes(bytes.array()?);
        let length = usize::try_from(bytes.varint()?).unwrap_or(usize::MAX);
        let source = bytes.take(length)?;
        if let Entry::Vacant(entry) = latest.entry(identity) {
            entry.insert(Moved::read(Bytes::new(source))?);
        }
    }
    Ok(())
}

/// The last of each source that moved since it was entered last. Of a folder that no daemon of this version has opened
/// yet, none.
pub(crate) fn latest(connection: &Connection) -> rusqlite::Result<Latest> {
    let mut latest = Latest::default();
    if sqlite::format(connection)? < FORMAT_OF_MOVED {
        return Ok(latest);
    }
    let mut statement = connection.prepare_cached("SELECT seq, sources FROM moved ORDER BY seq DESC")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        read_row(row, &mut latest)?;
    }
    Ok(latest)
}

fn read_row(row: &Row<'_>, latest: &mut Latest) -> rusqlite::Result<()> {
    let seq: i64 = row.get(0)?;
    read_moves(row.get_ref(1)?.as_blob()?, latest).map_err(|error| {
        // It is no page, though it is read as one is.
        let what = match error {
            PageError::Damaged(what) => what.into(),
            error => error.to_string(),
        };
        let what = format!("what moved in commit {seq} is damaged: {what}");
        rusqlite::Error::FromSqlConversionFailure(1, Type::Blob, what.into())
    })
}

/// Enters what moved in the rows of its sources, in the transaction that is open. Gives those that have no row.
pub(super) fn enter(connection: &Connection) -> rusqlite::Result<Vec<u64>> {
    let mut gone = Vec::new();
    // In the order of their rows.
    let mut latest: Vec<(u64, Moved)> = latest(connection)?.into_iter().collect();
    latest.sort_unstable_by_key(|(identity, _)| identity.cast_signed());
    for (identity, moved) in latest {
        if move_on(connection, identity, &moved)? == 0 {
            tracing::error!(identity, "a source that moved is not in the catalogue any more");
            gone.push(identity);
        }
    }
    connection.prepare_cached("DELETE FROM moved")?.execute([])?;
    Ok(gone)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::books::Entry as BookEntry;
    use crate::store::catalogue::{Catalogue, Touched};
    use crate::store::once::Once;
    use crate::store::source::{SourceKind, tests_state};
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn number() -> impl Strategy<Value = u64> {
        prop_oneof![Just(0), Just(u64::MAX), any::<u64>(), 0u64..300]
    }

    fn source() -> impl Strategy<Value = SourceState> {
        let who = (0u64..4, number(), number(), number());
        let status = prop_oneof![Just(SourceStatus::Live), Just(SourceStatus::Rotated), Just(SourceStatus::Ended)];
        let time = (0..=crate::time::MAX_TICKS).prop_map(|ticks| Ticks::new(ticks).expect("in range"));
        let mark = (number(), any::<u32>(), any::<u64>());
        let mark = mark.prop_map(|(position, length, hash)| Mark { position, length, hash });
        let how = (status, proptest::option::of(time.clone()), time, ".{0,9}", ".{0,200}");
        let counts = proptest::collection::vec(number(), 14);
        (who, how, proptest::collection::vec(mark, 0..=MARKS_MAX), counts).prop_map(|(who, how, marks, n)| {
            SourceState {
                identity: who.0,
                position: who.1,
                device: who.2,
                inode: who.3,
                status: how.0,
                last_time: how.1,
                seen: how.2,
                cursor: how.3,
                learned: how.4,
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
                    opening_bytes: n[13].cast_signed(),
                },
                ..tests_state(1)
            }
        })
    }

    fn bytes_of<'s>(sources: impl IntoIterator<Item = &'s SourceState>) -> Vec<u8> {
        let mut moves = Moves::new();
        sources.into_iter().for_each(|source| moves.push(source));
        let checksum = xxh3_64(&moves.bytes[8..]);
        moves.bytes[..8].copy_from_slice(&checksum.to_le_bytes());
        moves.bytes
    }

    /// A source whose row is gone, as damage may take it, is not known by what moved of it alone; the commit that has it after
    /// that was found begins it anew.
    #[test]
    fn a_source_whose_row_is_gone_is_begun_anew() {
        let dir = tempfile::tempdir().expect("a folder");
        let mut catalogue = Catalogue::open_to_write(dir.path()).expect("opened");
        let mut source = tests_state(1);
        let mut commit = |catalogue: &mut Catalogue, seq| {
            source.position += 1;
            let commit = catalogue.commit(seq, &[], [&source].into_iter(), [].iter(), None, BookEntry::default());
            commit.expect("committed");
            source.clone()
        };
        commit(&mut catalogue, 1);
        catalogue.connection().execute("DELETE FROM source", []).expect("damaged");
        for seq in 2..=5 {
            commit(&mut catalogue, seq);
            assert_eq!(catalogue.sources().expect("read"), []);
        }
        let last = commit(&mut catalogue, 6);
        assert_eq!(catalogue.sources().expect("read"), [last]);
    }

    proptest! {
        /// What was written of a source is laid over what was known of it, whole.
        #[test]
        fn moves_round_trip(source in source()) {
            let mut latest = Latest::default();
            read_moves(&bytes_of([&source]), &mut latest).expect("what was written");
            let old = tests_state(source.identity);
            let mut found = SourceState { inode: old.inode, ..tests_state(source.identity) };
            latest.remove(&source.identity).expect("the source").lay_over(&mut found);
            prop_assert_eq!(found, source);
        }

        /// Any bytes are moves or an error, and a changed byte is an error.
        #[test]
        fn damage_is_an_error(bytes in proptest::collection::vec(any::<u8>(), 0..80), source in source(), at: usize) {
            let mut sealed = xxh3_64(&bytes).to_le_bytes().to_vec();
            sealed.extend(&bytes);
            let mut latest = Latest::default();
            // Whatever it is, it does not panic.
            let _ = read_moves(&sealed, &mut latest);
            prop_assert!(latest.len() <= bytes.len());
            let mut written = bytes_of([&source]);
            let at = at % written.len();
            written[at] ^= 1;
            prop_assert!(read_moves(&written, &mut Latest::default()).is_err());
        }

        /// Whatever commits move, entered or not, sources are what they were given last; also for who reads them in another
        /// process, who opens the folder anew, and when it was closed, where nothing is left to enter.
        #[test]
        fn sources_are_what_moved_last(
            commits in proptest::collection::vec((proptest::collection::vec(source(), 0..4), 0u8..8), 1..16),
        ) {
            let dir = tempfile::tempdir().expect("a folder");
            let mut writer = Catalogue::open_to_write(dir.path()).expect("opened");
            let reader = Catalogue::open_to_read(dir.path()).expect("opened");
            let mut want: BTreeMap<u64, SourceState> = BTreeMap::new();
            for (seq, (sources, what)) in (1..).zip(commits) {
                // Once in a while it is another source that has the identity.
                let sources = sources.into_iter().map(|source| match what {
                    0 => SourceState { generation: 7, path: "/var/log/other.log".into(), ..source },
                    1 => SourceState { block: "other".into(), kind: SourceKind::Journal, ..source },
                    _ => source,
                });
                let sources: BTreeMap<u64, SourceState> =
                    sources.map(|source| (source.identity, source)).collect();
                let no_keys: [Once; 0] = [];
                let touched: [Touched<'_>; 0] = [];
                writer
                    .commit(seq, &touched, sources.values(), no_keys.iter(), None, BookEntry::default())
                    .expect("committed");
                for (identity, source) in sources {
                    match want.get_mut(&identity) {
                        // What it is stays as it was written first.
                        Some(known) if (known.generation, &known.block) == (source.generation, &source.block) => {
                            let SourceState { kind, path, head, .. } = known.clone();
                            *known = SourceState { kind, path, head, ..source };
                        }
                        _ => drop(want.insert(identity, source)),
                    }
                }
                if what == 2 {
                    writer = Catalogue::open_to_write(dir.path()).expect("opened again");
                }
                let by_identity = |catalogue: &Catalogue| -> BTreeMap<u64, SourceState> {
                    catalogue.sources().expect("read").into_iter().map(|source| (source.identity, source)).collect()
                };
                prop_assert_eq!(&by_identity(&writer), &want);
                prop_assert_eq!(&by_identity(&reader), &want);
            }
            writer.close().expect("closed");
            let waiting = "SELECT count(*) FROM moved";
            let waiting: i64 = reader.connection().query_row(waiting, [], |row| row.get(0)).expect("read");
            prop_assert_eq!(waiting, 0);
            let found = reader.sources().expect("read");
            prop_assert_eq!(found.into_iter().map(|source| (source.identity, source)).collect::<BTreeMap<_, _>>(), want);
        }
    }
}
