//! `daytable backup`: a consistent copy of a data folder, made in any process beside the writer.
//!
//! Copies of the files, one after the other, give a catalog and days of different moments. So a backup first holds one
//! moment: a snapshot of the catalog and of every open day that the catalog names. They must agree, as they must when a
//! folder is opened. If a commit came in between, they disagree, and the backup takes new snapshots. It then copies the
//! held snapshots without haste. Meanwhile journals grow, and are checkpointed afterwards. A sealed file never changes:
//! on the same file system it gets a hard link, otherwise a copy.
//!
//! ```text
//! FOLDER/tables/Log20261121.1.db             SQLite's own copy of the snapshot
//! FOLDER/tables/Log20261120.1.parquet        and its manifest
//! FOLDER/catalog.db                          the last: a folder without it is not a data folder
//! ```
//!
//! The copy is a data folder like any other. A daemon on it continues its sources at the positions of the backup.
//! Records that it reads again get the same keys. The copy has neither `trash/` nor archives.

use crate::StoreError;
use crate::format::catalog::{Catalog, LiveFile};
use crate::format::day_file::read_total;
use crate::layout::{FolderLayout, manifest_of};
use crate::private_file;
use crate::sqlite;
use daytable_model::path_text::PathText;
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// How often a backup tries to hold a moment. A busy daemon is between two fsyncs for about a quarter of the time.
const TRIES: u32 = 500;
/// Pause between tries, so that tries fall into different parts of a commit.
const BETWEEN_TRIES: Duration = Duration::from_millis(7);

/// How sealed files are backed up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealedFiles {
    /// As hard links if possible, otherwise as copies.
    Linked,
    /// Always as copies: a failing disk damages both names of a linked file.
    Copied,
}

/// The result of a backup.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackedUp {
    /// The number of the last commit in the backup.
    pub commit: i64,
    /// The number of day files.
    pub files: u64,
    /// The number of copied bytes.
    pub bytes_copied: u64,
    /// The bytes of linked sealed files.
    pub bytes_linked: u64,
}

/// Copies the data folder `data_dir`, as it is at one moment, to `folder`, which must be empty or missing. After an
/// error, the files copied so far stay there, without a catalog.
pub fn backup(data_dir: &Path, folder: &Path, sealed: SealedFiles) -> Result<BackedUp, StoreError> {
    let (from, to) = (FolderLayout { data: data_dir.into() }, FolderLayout { data: folder.into() });
    // Fail before a folder is created if there is no data folder.
    drop(Catalog::open_to_read(data_dir)?);
    if std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(StoreError::Refused(format!(
            "{} is there already, and not empty: each backup has a folder of its own, such as {0}-2",
            folder.escaped()
        )));
    }
    to.create()?;
    let held = hold(&from)?;
    let mut done = BackedUp { commit: held.catalog.committed()?.seq, ..BackedUp::default() };
    for file in &held.files {
        let target = to.table_file(&file.live.name);
        match &file.kind {
            Kind::Open(connection) => done.bytes_copied += copy_database(connection, &file.path, &target)?,
            Kind::Sealed { bytes, manifest } => {
                for (path, handle) in [(&file.path, bytes), (&manifest.0, &manifest.1)] {
                    let target = to.tables().join(path.file_name().unwrap_or_default());
                    put_sealed(path, handle, &target, sealed, &mut done)?;
                }
            }
        }
        done.files += 1;
    }
    private_file::sync(&to.tables())?;
    let catalog = Catalog::path_in(data_dir);
    // The copy has another name until it is complete.
    let (partial, whole) = (folder.join("catalog.db.partial"), Catalog::path_in(folder));
    done.bytes_copied += copy_database(held.catalog.connection(), &catalog, &partial)?;
    std::fs::rename(&partial, &whole).map_err(StoreError::io(&whole))?;
    sqlite::sync_folder(&whole)?;
    Ok(done)
}

/// The data of one moment: the catalog and all live files, opened.
struct Held {
    catalog: Catalog,
    files: Vec<HeldFile>,
}

struct HeldFile {
    live: LiveFile,
    path: PathBuf,
    kind: Kind,
}

enum Kind {
    /// A connection in a transaction that holds its snapshot.
    Open(Connection),
    /// Opened, so that the file stays readable if its day is dropped.
    Sealed { bytes: File, manifest: (PathBuf, File) },
}

fn hold(layout: &FolderLayout) -> Result<Held, StoreError> {
    for _ in 1..TRIES {
        match try_hold(layout, Ahead::Refused) {
            Ok(held) => return Ok(held),
            // A day was sealed or dropped meanwhile, or a commit came in between.
            Err(StoreError::Mismatch { .. }) => {}
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        sleep(BETWEEN_TRIES);
    }
    // A daemon that was killed in the middle of a commit left pages that never happened, and nobody removes them before the next
    // start. Then the copy has them as well. An error of every try is returned.
    try_hold(layout, Ahead::Copied)
}

/// What is done with an open day that has pages of a commit which the catalog does not have.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Ahead {
    /// The moment is not held: the commit is probably about to end.
    Refused,
    /// The day is copied as it is. Opening the copy to write sets the pages aside.
    Copied,
}

fn try_hold(layout: &FolderLayout, ahead: Ahead) -> Result<Held, StoreError> {
    let catalog = Catalog::open_to_read(&layout.data)?;
    begin(catalog.connection(), &Catalog::path_in(&layout.data))?;
    let committed = catalog.committed()?.seq;
    let mut files = Vec::new();
    for live in catalog.files()? {
        let path = layout.table_file(&live.name);
        let kind = match &live.seal {
            None => Kind::Open(hold_open(layout, &path, &live, (committed, ahead))?),
            Some(seal) => {
                let manifest = manifest_of(&live.name).map_or_else(|| path.clone(), |name| layout.table_file(&name));
                let opened = |path: &Path| File::open(path).map_err(StoreError::io(path));
                let kind = Kind::Sealed { bytes: opened(&path)?, manifest: (manifest.clone(), opened(&manifest)?) };
                seal.check_length(layout, &path)?;
                kind
            }
        };
        files.push(HeldFile { live, path, kind });
    }
    Ok(Held { catalog, files })
}

/// A snapshot of an open day that agrees with the catalog, whose last commit is given.
fn hold_open(
    layout: &FolderLayout,
    path: &Path,
    live: &LiveFile,
    (committed, ahead): (i64, Ahead),
) -> Result<Connection, StoreError> {
    let connection = sqlite::open_to_read(path)?;
    begin(&connection, path)?;
    let total = read_total(&connection).map_err(StoreError::sqlite(path))?;
    let known = (live.last_seq, live.entities);
    let is_unfinished = total.last_seq == committed + 1 && (total.seq_before, total.entities_before) == known;
    if (total.last_seq, total.entities) == known || (is_unfinished && ahead == Ahead::Copied) {
        return Ok(connection);
    }
    let what = format!(
        "its last commit is {} with {} entities, the catalog says {} with {}",
        total.last_seq, total.entities, live.last_seq, live.entities
    );
    Err(StoreError::Mismatch { path: path.into(), what, data: layout.data.clone() })
}

/// Begins a transaction and reads, because the first read takes the snapshot.
fn begin(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let begin_snapshot = || connection.execute_batch("BEGIN; SELECT count(*) FROM sqlite_master;");
    begin_snapshot().map_err(StoreError::sqlite(path))
}

/// Copies the snapshot of `from`. Returns the bytes of the copy.
fn copy_database(from: &Connection, path: &Path, target: &Path) -> Result<u64, StoreError> {
    drop(private_file::create_new(target).map_err(StoreError::io(target))?);
    let sql = |error| StoreError::sqlite(path)(error);
    let mut to = Connection::open(target).map_err(StoreError::sqlite(target))?;
    // All in one step: the snapshot is held anyway, and no process waits for the lock of the copy.
    let step = Backup::new(from, &mut to).and_then(|copy| copy.step(-1)).map_err(sql)?;
    // A missing lock is not an error of SQLite: only the result distinguishes a step that copied nothing.
    if step != StepResult::Done {
        return Err(StoreError::io(path)(io::Error::new(
            io::ErrorKind::ResourceBusy,
            "it is locked by another process",
        )));
    }
    to.close().map_err(|(_, error)| StoreError::sqlite(target)(error))?;
    let copied = File::open(target).and_then(|file| file.sync_all().and_then(|()| file.metadata()));
    Ok(copied.map_err(StoreError::io(target))?.len())
}

/// Links or copies a sealed file.
fn put_sealed(
    path: &Path,
    mut handle: &File,
    target: &Path,
    sealed: SealedFiles,
    done: &mut BackedUp,
) -> Result<(), StoreError> {
    if sealed == SealedFiles::Linked && std::fs::hard_link(path, target).is_ok() {
        done.bytes_linked += handle.metadata().map_err(StoreError::io(path))?.len();
        return Ok(());
    }
    let mut copy = private_file::create_new(target).map_err(StoreError::io(target))?;
    done.bytes_copied += io::copy(&mut handle, &mut copy).map_err(StoreError::io(target))?;
    copy.sync_all().map_err(StoreError::io(target))
}
