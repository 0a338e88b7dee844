//! `daytable backup`: a copy of a data folder that is whole, taken in any process beside the one that writes.
//!
//! Copying the files one after the other gives a catalog and days that do not belong together. So one moment is held first:
//! a snapshot of the catalog, and one of every open day that it names, which have to agree as they must when a folder is
//! opened. A commit that came in between makes them disagree; then they are let go and taken again. What is held is copied
//! at leisure; meanwhile journals grow by what is written, and move into their files afterwards. A sealed file never changes:
//! it gets a second name where the copy lies on the same disk, which costs nothing, else its bytes are copied.
//!
//! ```text
//! FOLDER/tables/Log20261121.1.db             SQLite's own copy of the snapshot
//! FOLDER/tables/Log20261120.1.parquet        and its manifest
//! FOLDER/catalog.db                          the last: a folder without it is no data folder
//! ```
//!
//! The copy is a data folder like any other. A daemon that is started on it reads its sources on from where they were then;
//! what is read again gets the keys that it has. It has neither what lies in `trash/` nor archives.

use crate::StoreError;
use crate::format::catalog::{Catalog, LiveFile};
use crate::format::day_file::read_total;
use crate::layout::{FolderLayout, manifest_of};
use crate::private_file;
use crate::sqlite;
use rusqlite::Connection;
use rusqlite::backup::{Backup, StepResult};
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// How often a moment is looked for in which catalog and days agree. A busy daemon is between two fsyncs a quarter of
/// its time or so.
const TRIES: u32 = 500;
/// How long the next try waits, so that tries fall into different parts of a commit.
const BETWEEN_TRIES: Duration = Duration::from_millis(7);

/// What becomes of sealed files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SealedFiles {
    /// A second name of the same file where that can be had, else a copy.
    Linked,
    /// A copy in any case: a disk that fails takes both names of a file with it.
    Copied,
}

/// What was backed up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BackedUp {
    /// The number of the last commit that is in it.
    pub commit: i64,
    /// Live files of days.
    pub files: u64,
    /// Bytes that were copied.
    pub bytes_copied: u64,
    /// Bytes of sealed files that got a second name.
    pub bytes_linked: u64,
}

/// Copies the data folder `data_dir` as it is at one moment to `folder`, which is made, or is empty. An error leaves
/// what was copied so far there, without a catalog.
pub fn backup(data_dir: &Path, folder: &Path, sealed: SealedFiles) -> Result<BackedUp, StoreError> {
    let (from, to) = (FolderLayout { data: data_dir.into() }, FolderLayout { data: folder.into() });
    // Before a folder is made for what is not there.
    drop(Catalog::open_to_read(data_dir)?);
    if std::fs::read_dir(folder).is_ok_and(|mut entries| entries.next().is_some()) {
        return Err(StoreError::Foreign(folder.into(), "it is there already, and not empty".into()));
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
    // Under a name of its own until it is whole.
    let (partial, whole) = (folder.join("catalog.db.partial"), Catalog::path_in(folder));
    done.bytes_copied += copy_database(held.catalog.connection(), &catalog, &partial)?;
    std::fs::rename(&partial, &whole).map_err(StoreError::io(&whole))?;
    sqlite::sync_folder(&whole)?;
    Ok(done)
}

/// A moment: all that is live, opened, as it belongs together.
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
    /// With a transaction that holds its snapshot.
    Open(Connection),
    /// Opened, so that it can be read though its day is dropped.
    Sealed { bytes: File, manifest: (PathBuf, File) },
}

fn hold(layout: &FolderLayout) -> Result<Held, StoreError> {
    for _ in 1..TRIES {
        match try_hold(layout) {
            Ok(held) => return Ok(held),
            // A day was sealed or dropped meanwhile, or a commit came in between.
            Err(StoreError::Mismatch { .. }) => {}
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        sleep(BETWEEN_TRIES);
    }
    // What is wrong every time is wrong.
    try_hold(layout)
}

fn try_hold(layout: &FolderLayout) -> Result<Held, StoreError> {
    let catalog = Catalog::open_to_read(&layout.data)?;
    begin(catalog.connection(), &Catalog::path_in(&layout.data))?;
    let mut files = Vec::new();
    for live in catalog.files()? {
        let path = layout.table_file(&live.name);
        let kind = match &live.seal {
            None => Kind::Open(hold_open(layout, &path, &live)?),
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

/// A snapshot of an open day that is exactly as far as the catalog says.
fn hold_open(layout: &FolderLayout, path: &Path, live: &LiveFile) -> Result<Connection, StoreError> {
    let connection = sqlite::open_to_read(path)?;
    begin(&connection, path)?;
    let total = read_total(&connection).map_err(StoreError::sqlite(path))?;
    if (total.last_seq, total.entities) == (live.last_seq, live.entities) {
        return Ok(connection);
    }
    let what = format!(
        "its last commit is {} with {} entities, the catalog says {} with {}",
        total.last_seq, total.entities, live.last_seq, live.entities
    );
    Err(StoreError::Mismatch { path: path.into(), what, data: layout.data.clone() })
}

/// Begins a transaction, and reads, which is what takes the snapshot.
fn begin(connection: &Connection, path: &Path) -> Result<(), StoreError> {
    let begin_snapshot = || connection.execute_batch("BEGIN; SELECT count(*) FROM sqlite_master;");
    begin_snapshot().map_err(StoreError::sqlite(path))
}

/// Copies the snapshot that `from` holds; gives the bytes of the copy.
fn copy_database(from: &Connection, path: &Path, target: &Path) -> Result<u64, StoreError> {
    drop(private_file::create_new(target).map_err(StoreError::io(target))?);
    let sql = |error| StoreError::sqlite(path)(error);
    let mut to = Connection::open(target).map_err(StoreError::sqlite(target))?;
    // All of it in one step: the snapshot is held anyway, and nobody waits for the copy's lock.
    let step = Backup::new(from, &mut to).and_then(|copy| copy.step(-1)).map_err(sql)?;
    // A lock that is not had is no error of SQLite's: a step that copied nothing looks like one that copied all.
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

/// Gives a sealed file a second name, or copies it.
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
