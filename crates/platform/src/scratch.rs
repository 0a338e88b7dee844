//! Room on disk for what outgrows the memory of a question.
//!
//! ```text
//! ScratchSpace (the process) ──► ScratchFile (a question): a file without a name, bytes are appended and read back
//! ```
//!
//! 1. The bytes of a file are charged before they are written: a file has a bound, and all files together have one. A disk
//!    that is nearly full gets no more.
//! 2. A file has no name from the beginning, so it is gone with its process, also after a kill. Only its user can read it.
//! 3. A file that is dropped gives back all that it took.

use crate::over_budget::OverBudget;
use daytable_model::units::ByteSize;
use rustix::fs::{CWD, Mode, OFlags};
use std::fs::{DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Bytes of all files of a process, and of one of them.
const BYTES_MAX: u64 = 8 << 30;
const FILE_BYTES_MAX: u64 = 4 << 30;
/// Bytes that have to stay free on the disk, or a twentieth of it if that is less.
const FREE_MIN: u64 = 256 << 20;
/// Bytes between two looks at how much is free.
const LOOKED_EVERY: u64 = 16 << 20;

/// Creates a file without a name in `folder`, for this user only.
///
/// # Errors
///
/// The folder cannot be written.
pub fn create_unnamed(folder: &Path) -> io::Result<File> {
    let flags = OFlags::TMPFILE | OFlags::RDWR | OFlags::CLOEXEC;
    match rustix::fs::openat(CWD, folder, flags, Mode::RUSR | Mode::WUSR) {
        Ok(file) => Ok(file.into()),
        // Some file systems only have files with names.
        Err(_) => {
            static NUMBER: AtomicU64 = AtomicU64::new(0);
            let number = NUMBER.fetch_add(1, Ordering::Relaxed);
            let path = folder.join(format!(".daytable-{}-{number}", std::process::id()));
            let file = File::options().read(true).write(true).create_new(true).mode(0o600).open(&path)?;
            std::fs::remove_file(path)?;
            Ok(file)
        }
    }
}

/// The room on disk of all questions of a process.
#[derive(Clone, Debug)]
pub struct ScratchSpace(Arc<Space>);

#[derive(Debug)]
struct Space {
    folder: PathBuf,
    bytes_max: u64,
    file_bytes_max: u64,
    used: AtomicU64,
}

impl ScratchSpace {
    /// Files in `folder` of at most this many bytes together, and each. The folder is created when it is needed.
    pub fn new(folder: &Path, bytes_max: u64, file_bytes_max: u64) -> ScratchSpace {
        ScratchSpace(Arc::new(Space { folder: folder.into(), bytes_max, file_bytes_max, used: AtomicU64::new(0) }))
    }

    /// Files in `folder`, of the usual sizes.
    pub fn within(folder: &Path) -> ScratchSpace {
        ScratchSpace::new(folder, BYTES_MAX, FILE_BYTES_MAX)
    }

    /// Files in the folder that the system has for such ones.
    pub fn of_system() -> ScratchSpace {
        ScratchSpace::within(&std::env::temp_dir())
    }

    /// Bytes that the files have now.
    pub fn used(&self) -> u64 {
        self.0.used.load(Ordering::Relaxed)
    }

    /// A new file.
    ///
    /// # Errors
    ///
    /// The folder cannot be written.
    pub fn file(&self) -> Result<ScratchFile, OverBudget> {
        let folder = &self.0.folder;
        let _ = DirBuilder::new().recursive(true).mode(0o700).create(folder);
        let file = create_unnamed(folder).map_err(|error| self.failed(&error))?;
        Ok(ScratchFile { file, space: self.clone(), end: AtomicU64::new(0), charged: AtomicU64::new(0) })
    }

    fn failed(&self, error: &io::Error) -> OverBudget {
        let folder = self.0.folder.display();
        OverBudget::Busy(format!(
            "it needs more than its memory, and its temporary file in {folder} failed: {error}; make room there, or narrow the query"
        ))
    }
}

/// A file of a question, until it is dropped.
#[derive(Debug)]
pub struct ScratchFile {
    file: File,
    space: ScratchSpace,
    end: AtomicU64,
    charged: AtomicU64,
}

impl ScratchFile {
    /// Appends bytes, and returns where they begin. Several threads may append.
    ///
    /// # Errors
    ///
    /// A bound is reached, or the disk is full.
    pub fn append(&self, bytes: &[u8]) -> Result<u64, OverBudget> {
        let length = bytes.len() as u64;
        let start = self.end.fetch_add(length, Ordering::Relaxed);
        self.charge(start, length)?;
        self.file.write_all_at(bytes, start).map_err(|error| self.space.failed(&error))?;
        Ok(start)
    }

    /// Reads bytes that were appended.
    ///
    /// # Errors
    ///
    /// The disk fails.
    pub fn read(&self, bytes: &mut [u8], start: u64) -> Result<(), OverBudget> {
        self.file.read_exact_at(bytes, start).map_err(|error| self.space.failed(&error))
    }

    /// Bytes that were appended.
    pub fn len(&self) -> u64 {
        self.end.load(Ordering::Relaxed)
    }

    /// Whether nothing was appended.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn charge(&self, start: u64, length: u64) -> Result<(), OverBudget> {
        let Space { bytes_max, file_bytes_max, used, .. } = &*self.space.0;
        if start + length > *file_bytes_max {
            let size = ByteSize::new(*file_bytes_max);
            let reason =
                format!("it needs more than its memory, and a temporary file of more than {size}; narrow the query");
            return Err(OverBudget::TooLarge(reason));
        }
        let more = |used: u64| used.checked_add(length).filter(|used| used <= bytes_max);
        if used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, more).is_err() {
            let reason = "other questions use the room on disk that it needs beside its memory: ask again";
            return Err(OverBudget::Busy(reason.into()));
        }
        self.charged.fetch_add(length, Ordering::Relaxed);
        let is_looked_at = start / LOOKED_EVERY != (start + length) / LOOKED_EVERY || start == 0;
        match is_looked_at.then(|| rustix::fs::fstatvfs(&self.file)) {
            Some(Ok(disk)) if is_full(disk.f_bavail * disk.f_frsize, disk.f_blocks * disk.f_frsize) => {
                Err(self.space.failed(&io::ErrorKind::StorageFull.into()))
            }
            _ => Ok(()),
        }
    }
}

/// Whether a disk has too little free.
fn is_full(free: u64, size: u64) -> bool {
    free < FREE_MIN.min(size / 20)
}

impl Drop for ScratchFile {
    fn drop(&mut self) {
        self.space.0.used.fetch_sub(self.charged.load(Ordering::Relaxed), Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_has_no_name_and_is_read_back() {
        let dir = tempfile::tempdir().expect("a folder");
        let space = ScratchSpace::within(&dir.path().join("new"));
        let file = space.file().expect("a file");
        assert_eq!(file.append(b"one"), Ok(0));
        assert_eq!(file.append(b"other"), Ok(3));
        let mut bytes = [0; 5];
        file.read(&mut bytes, 3).expect("read");
        assert_eq!((&bytes, file.len(), space.used()), (b"other", 8, 8));
        assert_eq!(std::fs::read_dir(dir.path().join("new")).expect("a folder").count(), 0);
        assert_eq!(file.file.metadata().expect("open").permissions().mode() & 0o777, 0o600);
        assert!(matches!(file.read(&mut bytes, 5), Err(OverBudget::Busy(_))), "beyond its end");
        drop(file);
        assert_eq!(space.used(), 0);
    }

    #[test]
    fn files_have_bounds_each_and_together() {
        let dir = tempfile::tempdir().expect("a folder");
        let space = ScratchSpace::new(dir.path(), 10, 8);
        let (one, other) = (space.file().expect("a file"), space.file().expect("a file"));
        assert!(one.append(&[0; 8]).is_ok());
        assert!(matches!(one.append(&[0]), Err(OverBudget::TooLarge(reason)) if reason.contains("narrow")));
        assert!(matches!(other.append(&[0; 3]), Err(OverBudget::Busy(reason)) if reason.contains("ask again")));
        drop(one);
        assert!(other.append(&[0; 3]).is_ok());
    }

    #[test]
    fn a_folder_that_cannot_be_written_is_named() {
        let dir = tempfile::tempdir().expect("a folder");
        let taken = dir.path().join("file");
        std::fs::write(&taken, "").expect("written");
        let refused = ScratchSpace::within(&taken).file().map(|_| ());
        assert!(
            matches!(&refused, Err(OverBudget::Busy(reason)) if reason.contains(&*taken.to_string_lossy())),
            "{refused:?}"
        );
    }

    #[test]
    fn a_disk_keeps_some_of_its_room() {
        assert!(is_full(100 << 20, 100 << 30) && !is_full(300 << 20, 100 << 30));
        assert!(is_full(1 << 20, 64 << 20) && !is_full(4 << 20, 64 << 20));
    }
}
