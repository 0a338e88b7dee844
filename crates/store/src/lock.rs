//! The lock of a data folder: one process writes in it, even if its files are renamed.
//!
//! ```text
//! DATA/          flock on the folder itself: the folder cannot lose this lock by a rename, and every path leads to the same inode
//! DATA/lock      the process id of the writer, and a second flock, for a daytable that knows only this one
//! ```
//!
//! The folder is locked first, so a process that finds it in use has changed nothing. A lock holds an inode, but files
//! are opened by path. If the folder is renamed, or another `catalog.db` replaces the first, the holder would write to
//! files that no reader opens. So the holder keeps the identities of its paths ([`FileIdentity`]). It checks them
//! before it writes, and before it acknowledges a commit.

use crate::StoreError;
use crate::private_file;
use rustix::fs::{FlockOperation, OFlags, flock};
use rustix::io::Errno;
use std::fs::{File, Metadata};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Bytes of `lock` that are read for a process id.
const NUMBER_BYTES_MAX: u64 = 20;

/// The lock of the data folder. Dropping it releases it, and so does a kill.
pub(crate) struct Lock {
    _folder: File,
    _note: File,
    seen: Vec<FileIdentity>,
}

impl Lock {
    /// Acquires the lock, or fails with its holder. Creates a missing folder.
    pub(crate) fn acquire(data: &Path) -> Result<Lock, StoreError> {
        private_file::create_folder(data)?;
        let folder = open_folder(data).map_err(StoreError::io(data))?;
        if !take(&folder, data)? {
            return Err(StoreError::Locked(data.into(), holder(data)));
        }
        // Another folder may have come to this path in between: then the locked one is not at the path.
        let seen_folder = FileIdentity::of(data, &folder)?;
        seen_folder.check()?;
        let path = data.join("lock");
        let mut note = open_note(&path)?;
        if !take(&note, data)? {
            return Err(StoreError::Locked(data.into(), holder(data)));
        }
        let seen_note = FileIdentity::of(&path, &note)?;
        seen_note.check()?;
        let written = note.set_len(0).and_then(|()| writeln!(note, "{}", std::process::id()));
        written.map_err(StoreError::io(&path))?;
        Ok(Lock { _folder: folder, _note: note, seen: vec![seen_folder, seen_note] })
    }

    /// Fails if the path of the folder or of `lock` leads to another file than at the locking.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        self.seen.iter().try_for_each(FileIdentity::check)
    }
}

/// The identity of the file that a path led to when it was opened.
#[derive(Clone, Debug)]
pub(crate) struct FileIdentity {
    path: PathBuf,
    identity: (u64, u64),
}

impl FileIdentity {
    fn of(path: &Path, file: &File) -> Result<FileIdentity, StoreError> {
        let metadata = file.metadata().map_err(StoreError::io(path))?;
        Ok(FileIdentity { path: path.into(), identity: identity(&metadata) })
    }

    /// The identity of the file at `path` now; none if there is no file.
    pub(crate) fn at(path: &Path) -> Result<Option<FileIdentity>, StoreError> {
        match std::fs::metadata(path) {
            Ok(metadata) => Ok(Some(FileIdentity { path: path.into(), identity: identity(&metadata) })),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(StoreError::io(path)(error)),
        }
    }

    /// Fails if the path leads to another file now.
    pub(crate) fn check(&self) -> Result<(), StoreError> {
        let what = match std::fs::metadata(&self.path) {
            Ok(metadata) if identity(&metadata) == self.identity => return Ok(()),
            Ok(_) => "it was replaced by another",
            Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
                "it was removed or renamed"
            }
            Err(error) => return Err(StoreError::io(&self.path)(error)),
        };
        Err(StoreError::Displaced(self.path.clone(), what))
    }
}

fn identity(metadata: &Metadata) -> (u64, u64) {
    (metadata.dev(), metadata.ino())
}

fn open_folder(data: &Path) -> io::Result<File> {
    File::options().read(true).custom_flags(flags(OFlags::DIRECTORY)).open(data)
}

/// Opens `lock`. It must be no link, because its contents are overwritten.
fn open_note(path: &Path) -> Result<File, StoreError> {
    let mut options = File::options();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    // Opening a pipe would block.
    options.custom_flags(flags(OFlags::NOFOLLOW | OFlags::NONBLOCK));
    let foreign = |what: &str| StoreError::Foreign(path.into(), format!("{what}: remove it"));
    let note = match options.open(path) {
        Err(error) if error.raw_os_error() == Some(Errno::LOOP.raw_os_error()) => {
            return Err(foreign("it is a symbolic link"));
        }
        opened => opened.map_err(StoreError::io(path))?,
    };
    let metadata = note.metadata().map_err(StoreError::io(path))?;
    match (metadata.is_file(), metadata.nlink()) {
        (false, _) => Err(foreign("it is not a regular file")),
        // The file was removed in between. The check of its path finds that.
        (true, 0 | 1) => Ok(note),
        (true, names) => Err(foreign(&format!("it has {names} names"))),
    }
}

fn flags(flags: OFlags) -> i32 {
    i32::try_from(flags.bits()).unwrap_or(0)
}

/// Tries to lock. False if another process has the lock.
fn take(file: &File, data: &Path) -> Result<bool, StoreError> {
    match flock(file, FlockOperation::NonBlockingLockExclusive) {
        Ok(()) => Ok(true),
        Err(Errno::WOULDBLOCK) => Ok(false),
        Err(error) => Err(refused(data, error)),
    }
}

/// Some network file systems have no locks, or none with their mount options.
fn refused(data: &Path, error: Errno) -> StoreError {
    let has_none = matches!(error, Errno::NOLCK | Errno::NOTSUP | Errno::NOSYS | Errno::INVAL | Errno::BADF);
    match has_none {
        true => StoreError::Refused(format!(
            "{}: its file system has no locks ({error}), so that two daytables could write here at once: put the data folder on a local disk, or mount this one with locks",
            data.display()
        )),
        false => StoreError::io(data)(error.into()),
    }
}

/// The process id in `lock`.
fn holder(data: &Path) -> String {
    let mut options = File::options();
    options.read(true).custom_flags(flags(OFlags::NOFOLLOW | OFlags::NONBLOCK));
    let mut number = String::new();
    let read = options.open(data.join("lock")).and_then(|note| note.take(NUMBER_BYTES_MAX).read_to_string(&mut number));
    let number = read.ok().and_then(|_| number.trim().parse::<u32>().ok());
    number.map_or_else(|| "unknown".into(), |number| number.to_string())
}

/// Refuses a catalog that another folder may share. SQLite finds the journal by the path of the database, so each
/// folder would have its own journal.
pub(crate) fn refuse_shared(catalog: &Path) -> Result<(), StoreError> {
    let foreign = |what: String| Err(StoreError::Foreign(catalog.into(), what));
    match std::fs::symlink_metadata(catalog) {
        Ok(metadata) if metadata.is_symlink() => {
            foreign("it is a symbolic link: put the file itself in its place".into())
        }
        Ok(metadata) if metadata.nlink() > 1 => foreign(format!(
            "it has {} names, so that two folders may write to it: remove the other name, or copy the file and put the copy in its place",
            metadata.nlink()
        )),
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(StoreError::io(catalog)(error)),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_is_locked_on_every_path_to_it() {
        let dir = tempfile::tempdir().expect("a folder");
        let (data, link) = (dir.path().join("data"), dir.path().join("link"));
        let held = Lock::acquire(&data).expect("locked");
        std::os::unix::fs::symlink(&data, &link).expect("linked");
        for path in [&link, &data.join("../data")] {
            let Err(StoreError::Locked(_, holder)) = Lock::acquire(path) else { panic!("{}", path.display()) };
            assert_eq!(holder, std::process::id().to_string());
        }
        std::fs::remove_file(data.join("lock")).expect("removed");
        let Err(StoreError::Locked(_, holder)) = Lock::acquire(&data) else { panic!("it was had twice") };
        assert_eq!(holder, "unknown");
        assert!(!data.join("lock").exists(), "nothing was changed");
        assert!(matches!(held.check(), Err(StoreError::Displaced(path, _)) if path.ends_with("lock")));
        drop(held);
        Lock::acquire(&data).expect("locked").check().expect("as it was");
    }

    /// An older daytable locks only `lock`.
    #[test]
    fn an_older_daytable_is_not_disturbed() {
        let dir = tempfile::tempdir().expect("a folder");
        let older = open_note(&dir.path().join("lock")).expect("opened");
        assert!(take(&older, dir.path()).expect("asked"));
        assert!(matches!(Lock::acquire(dir.path()), Err(StoreError::Locked(..))));
        drop(older);
        drop(Lock::acquire(dir.path()).expect("locked"));
    }

    #[test]
    fn a_file_system_without_locks_is_named_as_the_cause() {
        for errno in [Errno::NOLCK, Errno::NOTSUP, Errno::NOSYS, Errno::INVAL, Errno::BADF] {
            let error = refused(Path::new("/nfs/data"), errno);
            assert!(matches!(error, StoreError::Refused(_)), "{error}");
            assert!(error.to_string().contains("/nfs/data: its file system has no locks"), "{error}");
        }
        assert!(matches!(refused(Path::new("/d"), Errno::IO), StoreError::Io { .. }));
    }
}
