//! What must hold of a data folder with damage: bits that flipped, files that were cut, overwritten, exchanged or lost.
//!
//! `fuzz/folder` is a small folder as a kill leaves it: a sealed day with late rows, an open day with its journal and a
//! commit that did not come to its end, a sealed day that is archived, and the archive beside it. An input says what is
//! damaged and how:
//!
//! ```text
//! what is done u8 | [file u8 | damage u8 | place u24 | …]*       see `Damage`
//! ```
//!
//! The claim: whatever is answered is a row that was put in, byte for byte, in its order, once in its own table; what is refused is refused
//! with an error that names what is wrong; nothing panics. That holds of reading, of opening to write, of a commit and a
//! close after it, and of `repair`. A start loses no row that was there to be read before it, unless somebody says so.
//!
//! A file that is lost, cut or another one is always said. What a folder does not know is what SQLite does not: its own
//! pages have no checksums (ours have, and so has a journal, which ends where it does not match). A leaf that lost a cell is
//! shorter, and nothing else; a catalog without its last commit is one that was killed before it.

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

/// A row: its partition, its key, and all that it says.
type Rows = BTreeMap<(String, RowKey), String>;

/// The folder as it was kept.
pub(super) struct Kept {
    /// Its files, by their paths below it.
    pub(super) files: Vec<(PathBuf, Vec<u8>)>,
    /// What is read of it, by table.
    pub(super) tables: BTreeMap<String, Rows>,
    /// The same, and the rows of the commit that did not come to its end: without the catalog nobody knows that it did
    /// not.
    put_in: BTreeMap<String, Rows>,
}

/// The folder, and a copy of it that was read.
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

/// Damage that a file takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    /// One bit is another.
    Bit,
    /// Some bytes are others.
    Overwritten,
    /// A run of them is zero: a sector that was never written.
    Zeroed,
    /// A run of them is that of another place: a sector that was written where it does not belong.
    Misplaced,
    /// It ends earlier.
    Cut,
    /// It is another file of the folder.
    Exchanged,
    /// It is not there.
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

/// What a folder can know of its damage.
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
        // A journal that lies beside another file is that file's.
        let has_journal = ["catalog.db", "Log20261102.1.db"].iter().any(|end| name.ends_with(end));
        let is_unknown = !is_of_file || name.ends_with("catalog.db-wal") || (has_journal && *damage != Damage::Lost);
        if is_sqlite && is_unknown { Known::NotAll } else { Known::All }
    }
}

/// Damages that one input does at most.
const DAMAGES_MAX: usize = 8;
/// Bytes of a sector: SQLite's page.
const SECTOR: usize = 4096;

/// A copy of the folder, which goes with it.
pub(super) struct Place(PathBuf);

impl Drop for Place {
    fn drop(&mut self) {
        // In memory, or in a temporary folder: what stays does no harm.
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What was read of a folder, and what was refused.
#[derive(Debug, Default)]
pub(super) struct Looked {
    pub(super) tables: BTreeMap<String, Rows>,
    pub(super) errors: Vec<String>,
}

/// Any damage to a folder leaves rows that were put in, or an error that names it: see the module's head.
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
    /// An empty one, in memory where there is room for it.
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

    /// Writes the files there, with the damage that is drawn. Says what of it can be known.
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

    /// Reads all there is.
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
            // Of keys and counts nothing is claimed but that they are answered or refused.
            let counted = reader.counts(table, &all, &mut |_| {});
            let one = rows.keys().next().cloned();
            let found = one.map_or(Ok(None), |(partition, key)| reader.row(table, &partition, key));
            for result in [scanned, counted, found.map(drop)] {
                let _ = result.map_err(|error| looked.note(self, &error));
            }
        }
        looked
    }

    /// The archive gives back what was archived or nothing.
    fn look_at_archive(&self) {
        let Ok(name) = TableName::new("Log") else { return };
        let url = format!("file://{}", self.0.join("archive").display());
        let archive =
            url.parse().ok().and_then(|url| Archive::open(&url, &Access::default(), &RetryPolicy::LIFECYCLE).ok());
        let Some(archive) = archive else { return };
        let Ok(listing) = archive.list(&[name]) else { return };
        for archived in &listing.archives {
            let to = self.0.join("fetched");
            if archive.fetch(archived, &to, &mut |_| ControlFlow::Continue(())).is_ok() {
                let fetched = fs::read(&to).unwrap_or_default();
                assert!(KEPT.files.iter().any(|(_, bytes)| *bytes == fetched), "what was fetched was never archived");
            }
            let _ = fs::remove_file(&to);
        }
    }

    /// Opens the folder to write, commits a row, and closes it. Gives the row, or what was refused.
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
            // Who asked waits below.
            let _ = told.send(committed);
        });
        let submission = Submission { batches: vec![batch], epoch: intake.epoch(), ack: done, ..Submission::default() };
        let is_committed = intake.submit(submission).is_ok() && hears.recv().unwrap_or(false);
        store.close().map_err(noted)?;
        if is_committed { Ok((table.to_string(), key)) } else { Err("the commit was refused".into()) }
    }

    /// A message says where: a file or table of the folder.
    fn assert_named(&self, message: &str) {
        let folder = self.0.display().to_string();
        assert!(!message.contains("ended early"), "the committer panicked");
        assert!(message.contains(&folder) || message.contains("Log202611"), "{message:?} names nothing");
    }
}

/// The identity of the source of what is added, in no other row.
const ADDED: u64 = 0xadded;

/// The day that is open in the folder.
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

    /// Every row is one that was put in; `added` beside them.
    fn assert_put_in(&self, added: Option<&(String, RowKey)>) {
        for (table, rows) in &self.tables {
            for ((partition, key), text) in rows {
                if key.source() == ADDED {
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

    /// What `before` had is there still, unless something was said.
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
