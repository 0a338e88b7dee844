//! Properties of a damaged data folder: flipped bits, and files that were cut, overwritten, exchanged or lost.
//!
//! `fuzz/folder` is a small folder as a kill leaves it. The folder has a sealed day with late rows, an open day with
//! its journal and an unfinished commit, an archived sealed day, and the archive. An input names the damaged places and
//! the kinds of damage:
//!
//! ```text
//! what is done u8 | [file u8 | damage u8 | place u24 | …]*       see `Damage`
//! ```
//!
//! The claim: each returned row was written before, has the same bytes, and comes once, in order, from its own table.
//! Each refusal is an error that names the damage. No call panics. The claim covers reading, opening for writing, a
//! following commit and close, and `repair`. A start loses no row that was readable before, unless a message says so.
//!
//! A lost, cut or exchanged file is always reported. Damage to SQLite's own pages can stay hidden, because they have no
//! checksums. Our pages have checksums, and so has a journal, which ends at the first mismatch. A leaf that lost a cell
//! is only shorter. A catalog without its last commit looks like a catalog killed before that commit.

use super::{Draw, stored};
use daytable_archive::{Access, Archive, RetryPolicy};
use daytable_model::batch::Batch;
use daytable_model::key::{DayTable, RowKey, TableName};
use daytable_model::record::Record;
use daytable_model::time::Ticks;
use daytable_store::{Ack, Range, Reader, Store, StoreError, StoreOptions, Submission, repair};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;
use std::time::Duration;

/// Rows: the partition and the key of each, and its content as text.
type Rows = BTreeMap<(String, RowKey), String>;

/// The folder as kept in `fuzz/folder`.
pub(super) struct Kept {
    /// The files, by their paths below the folder.
    pub(super) files: Vec<(PathBuf, Vec<u8>)>,
    /// The readable rows, by table.
    pub(super) tables: BTreeMap<String, Rows>,
    /// The same rows, and the rows of the unfinished commit: only the catalog knows that the commit is unfinished.
    put_in: BTreeMap<String, Rows>,
}

/// The folder, and the rows read from a copy.
pub(super) static KEPT: LazyLock<Kept> = LazyLock::new(|| {
    let root = Path::new(crate::ROOT).join("fuzz/folder");
    let mut files = Vec::new();
    files_below(&root, Path::new(""), &mut files);
    files.sort();
    assert!(!files.is_empty(), "{} is not there", root.display());
    let place = Place::new();
    place.fill(&files, &mut Draw(&[]));
    let Looked { tables, errors } = place.look();
    assert_eq!(errors, [""; 0], "what was kept is whole");
    let of_catalog = |path: &Path| path.to_string_lossy().contains("catalog.db");
    let others: Vec<_> = files.iter().filter(|(path, _)| !of_catalog(path)).cloned().collect();
    let place = Place::new();
    place.fill(&others, &mut Draw(&[]));
    let repaired = repair(&place.data());
    assert!(repaired.is_ok(), "a catalog is made of the files: {repaired:?}");
    let put_in = place.look().tables;
    Kept { files, tables, put_in }
});

fn files_below(root: &Path, below: &Path, files: &mut Vec<(PathBuf, Vec<u8>)>) {
    for entry in fs::read_dir(root.join(below)).into_iter().flatten().flatten() {
        let below = below.join(entry.file_name());
        match fs::read(entry.path()) {
            Ok(bytes) => files.push((below, bytes)),
            Err(_) => files_below(root, &below, files),
        }
    }
}

/// A kind of damage to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    /// One bit is flipped.
    Bit,
    /// Some bytes are overwritten.
    Overwritten,
    /// A run of bytes is zero: a sector that was never written.
    Zeroed,
    /// A run of bytes comes from another place: a sector written to the wrong place.
    Misplaced,
    /// The end is missing.
    Cut,
    /// Another file of the folder has replaced the file.
    Exchanged,
    /// The file is missing.
    Lost,
}

impl Damage {
    fn of(byte: u8) -> Damage {
        match byte % 16 {
            0..=5 => Damage::Bit,
            6..=8 => Damage::Overwritten,
            9 | 10 => Damage::Zeroed,
            11 => Damage::Misplaced,
            12 | 13 => Damage::Cut,
            14 => Damage::Exchanged,
            _ => Damage::Lost,
        }
    }
}

/// How much of its damage a folder can detect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Known {
    All,
    /// See the module's head.
    NotAll,
}

impl Known {
    fn of(path: &Path, damage: &Damage) -> Known {
        let name = path.to_string_lossy();
        let is_of_file = matches!(damage, Damage::Cut | Damage::Exchanged | Damage::Lost);
        let is_sqlite = name.contains(".db");
        // A journal beside an exchanged file belongs to the original file.
        let has_journal = ["catalog.db", "Log20261102.1.db"].iter().any(|end| name.ends_with(end));
        let is_unknown = !is_of_file || name.ends_with("catalog.db-wal") || (has_journal && *damage != Damage::Lost);
        if is_sqlite && is_unknown { Known::NotAll } else { Known::All }
    }
}

/// Maximum damages of one input.
const DAMAGES_MAX: usize = 8;
/// Bytes of a sector: a page of SQLite.
const SECTOR: usize = 4096;

/// A copy of the folder. Dropping the value removes the copy.
pub(super) struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        // The copy is in memory or in a temporary folder: leftovers do no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// The rows read from a folder, and the refusals.
#[derive(Debug, Default)]
pub(super) struct Looked {
    pub(super) tables: BTreeMap<String, Rows>,
    pub(super) errors: Vec<String>,
}

/// A folder with any damage returns written rows, or an error that names the damage. See the module's head.
pub(super) fn any_folder(bytes: &[u8]) {
    let mut draw = Draw(bytes);
    let how = draw.byte();
    let place = Place::new();
    let known = place.fill(&KEPT.files, &mut draw);
    let before = place.look();
    before.assert_put_in(None);
    if known == Known::All && before.errors.is_empty() {
        assert!(before.tables == KEPT.tables, "rows are missing, and nobody says so");
    }
    place.look_at_archive();
    if how.is_multiple_of(4) {
        return;
    }
    let added = place.write();
    let after = place.look();
    after.assert_put_in(added.as_ref().ok());
    after.assert_keeps(&before, added.as_ref().err());
    if how.is_multiple_of(2) {
        return;
    }
    match repair(&place.data()) {
        Ok(said) => {
            let repaired = place.look();
            repaired.assert_put_in(added.as_ref().ok());
            let said = (!said.is_empty()).then(|| said.join("\n"));
            repaired.assert_keeps(&after, said.as_ref());
        }
        Err(error) => place.assert_named(&error.to_string()),
    }
}

impl Place {
    /// An empty folder, in memory if there is room.
    pub(super) fn new() -> Place {
        let shared = Path::new("/dev/shm");
        let base = if shared.is_dir() { shared.to_owned() } else { std::env::temp_dir() };
        let name = format!(
            "daytable-property-{}-{:016x}",
            std::process::id(),
            daytable_intake::record_writer::random_identity()
        );
        Place(base.join(name))
    }

    fn data(&self) -> PathBuf {
        self.0.join("data")
    }

    /// Writes the files with the damage drawn from `draw`. Returns how much of the damage a folder can detect.
    pub(super) fn fill(&self, files: &[(PathBuf, Vec<u8>)], draw: &mut Draw<'_>) -> Known {
        let mut known = Known::All;
        let mut damaged: Vec<Option<Vec<u8>>> = files.iter().map(|(_, bytes)| Some(bytes.clone())).collect();
        for _ in 0..DAMAGES_MAX {
            if draw.is_empty() {
                break;
            }
            let (number, damage) = (usize::from(draw.byte()) % files.len(), Damage::of(draw.byte()));
            if Known::of(&files[number].0, &damage) == Known::NotAll {
                known = Known::NotAll;
            }
            harm(&mut damaged[number], files, damage, draw);
        }
        for ((below, _), bytes) in files.iter().zip(&damaged) {
            let (path, Some(bytes)) = (self.0.join(below), bytes) else { continue };
            let made = path.parent().map_or(Ok(()), fs::create_dir_all).and_then(|()| fs::write(&path, bytes));
            assert!(made.is_ok(), "{} cannot be written: {made:?}", path.display());
        }
        known
    }

    /// Reads every table.
    pub(super) fn look(&self) -> Looked {
        let mut looked = Looked::default();
        let tables = Reader::open(&self.data()).and_then(|reader| {
            let _ = reader.sources().map_err(|error| looked.note(self, &error));
            Ok((reader.tables()?, reader))
        });
        let (tables, reader) = match tables {
            Ok(opened) => opened,
            Err(error) => {
                looked.note(self, &error);
                return looked;
            }
        };
        let all = Range::all();
        for summary in tables {
            let (name, table) = (summary.table.to_string(), &summary.table);
            let rows = looked.tables.entry(name.clone()).or_default();
            let mut last = None;
            let scanned = reader.scan(table, &all).and_then(|mut rows_of| {
                rows_of.try_for_each(|row| {
                    let row = row?;
                    let key = row.key();
                    assert!(last.is_none_or(|last| last <= key), "{name}: {key} comes after {last:?}");
                    last = Some(key);
                    let text = stored::shown(row.level(), row.properties().map(|(name, value)| (name.into(), value)));
                    let before = rows.insert((row.partition.to_string(), key), text);
                    assert!(before.is_none(), "{name}: {} {key} comes twice", row.partition);
                    Ok(())
                })
            });
            // Keys and counts have one claim: an answer or a refusal.
            let counted = reader.counts(table, &all, &mut |_| {});
            let one = rows.keys().next().cloned();
            let found = one.map_or(Ok(None), |(partition, key)| reader.row(table, &partition, key));
            for result in [scanned, counted, found.map(drop)] {
                let _ = result.map_err(|error| looked.note(self, &error));
            }
        }
        looked
    }

    /// The archive returns the archived rows or an error.
    fn look_at_archive(&self) {
        let Ok(name) = TableName::new("Log") else { return };
        let url = format!("file://{}", self.0.join("archive").display());
        let archive =
            url.parse().ok().and_then(|url| Archive::open(&url, &Access::default(), &RetryPolicy::LIFECYCLE).ok());
        let Some(archive) = archive else { return };
        let Ok(listing) = archive.list(&[name], &|_, _| true) else { return };
        for archived in &listing.archives {
            let to = self.0.join("fetched");
            if archive.fetch(archived, &to, &mut |_| ControlFlow::Continue(())).is_ok() {
                let fetched = fs::read(&to).unwrap_or_default();
                assert!(KEPT.files.iter().any(|(_, bytes)| *bytes == fetched), "what was fetched was never archived");
            }
            let _ = fs::remove_file(&to);
        }
    }

    /// Opens the folder for writing, commits a row, and closes the folder. Returns the row, or the refusal.
    fn write(&self) -> Result<(String, RowKey), String> {
        let noted = |error: StoreError| {
            self.assert_named(&error.to_string());
            error.to_string()
        };
        let options = StoreOptions { commit_interval: Duration::from_millis(1), ..StoreOptions::default() };
        let store = Store::open(&self.data(), options).map_err(noted)?;
        let name = TableName::new("Log").map_err(|error| error.to_string())?;
        let table = DayTable::at(&name, daytable_model::key::Period::Day, time_of_open());
        let key = RowKey::new(time_of_open().plus(Duration::from_secs(7200)), ADDED, 1);
        let mut batch = Batch::new(table.clone(), "added".into());
        daytable_model::entity::append(
            &mut batch,
            key,
            "trial",
            &Record { message: "added".into(), ..Record::default() },
        );
        let (told, hears) = std::sync::mpsc::channel();
        let intake = store.commit_queue();
        let done = Ack::awaited(move |committed| {
            // The caller waits below.
            let _ = told.send(committed);
        });
        let submission = Submission { batches: vec![batch], epoch: intake.epoch(), ack: done, ..Submission::default() };
        let is_committed = intake.submit(submission).is_ok() && hears.recv().unwrap_or(false);
        store.close().map_err(noted)?;
        if is_committed { Ok((table.to_string(), key)) } else { Err("the commit was refused".into()) }
    }

    /// An error message names a file or table of the folder.
    fn assert_named(&self, message: &str) {
        let folder = self.0.display().to_string();
        assert!(!message.contains("ended early"), "the committer panicked");
        assert!(message.contains(&folder) || message.contains("Log202611"), "{message:?} names nothing");
    }
}

/// The source identity of the added row, which no other row has.
const ADDED: u64 = 0xadded;

/// The open day of the folder.
pub(super) fn time_of_open() -> Ticks {
    Ticks::from_date(2026, 11, 2).unwrap_or_default()
}

fn harm(file: &mut Option<Vec<u8>>, files: &[(PathBuf, Vec<u8>)], damage: Damage, draw: &mut Draw<'_>) {
    let Some(bytes) = file.as_mut().filter(|bytes| !bytes.is_empty()) else { return };
    let at = draw.below(bytes.len());
    let sector = at / SECTOR * SECTOR..(at / SECTOR * SECTOR + SECTOR).min(bytes.len());
    match damage {
        Damage::Bit => bytes[at] ^= 1 << (draw.byte() % 8),
        Damage::Overwritten => {
            let with = draw.bytes();
            let end = (at + with.len()).min(bytes.len());
            bytes[at..end].copy_from_slice(&with[..end - at]);
        }
        Damage::Zeroed => bytes[sector].fill(0),
        Damage::Misplaced => {
            let from = draw.below(bytes.len()) / SECTOR * SECTOR;
            let length = sector.len().min(bytes.len() - from);
            bytes.copy_within(from..from + length, sector.start);
        }
        Damage::Cut => bytes.truncate(at),
        Damage::Exchanged => *file = files.get(at % files.len()).map(|(_, other)| other.clone()),
        Damage::Lost => *file = None,
    }
}

impl Looked {
    fn note(&mut self, place: &Place, error: &StoreError) {
        let text = error.to_string();
        place.assert_named(&text);
        self.errors.push(text);
    }

    /// Every row was written before, or is `added`.
    fn assert_put_in(&self, added: Option<&(String, RowKey)>) {
        for (table, rows) in &self.tables {
            for ((partition, key), text) in rows {
                if key.source() == ADDED.into() {
                    assert!(partition == "added" && text.contains("added"), "{partition} {key}: {text}");
                    continue;
                }
                let put_in = KEPT.put_in.get(table).and_then(|all| all.get(&(partition.clone(), *key)));
                assert_eq!(put_in, Some(text), "{table} {partition} {key} was never put in");
            }
        }
        let Some((table, key)) = added.filter(|_| self.errors.is_empty()) else { return };
        let found = self.tables.get(table).is_some_and(|rows| rows.contains_key(&("added".into(), *key)));
        assert!(found, "what was committed is not there");
    }

    /// The rows of `before` are still there, unless a message said otherwise.
    fn assert_keeps(&self, before: &Looked, said: Option<&String>) {
        if said.is_some() || !self.errors.is_empty() || !before.errors.is_empty() {
            return;
        }
        for (table, rows) in &before.tables {
            let now: BTreeSet<_> = self.tables.get(table).into_iter().flat_map(Rows::keys).collect();
            let gone = rows.keys().find(|key| !now.contains(key));
            assert_eq!(gone, None, "{table}: a row is gone, and nobody says so");
        }
    }
}
