//! The bytes of a sealed file: where they come from, and the checksums that they are held against.
//!
//! ```text
//! 0                      data_end                                       length
//! | row groups            | index | offset indexes | footer | n | PAR1 |
//! | blocks of 64 KiB:     | one sum, seeded with nothing: it stands in  |
//! | a sum each, in the    | the footer, and counts as zeros there       |
//! | index                 |                                             |
//! ```
//!
//! [`Checked`] is what the Parquet reader reads from. Whatever it is asked for, it reads whole blocks and verifies them.

use ::bytes::Bytes;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

/// Where the bytes of a sealed file come from: a file, an object store, memory.
pub trait Ranged: Send + Sync {
    /// How many there are.
    fn length(&self) -> io::Result<u64>;

    /// Exactly `length` bytes from `start` on, an error if there are not so many. Never asked for more than there are.
    fn read(&self, start: u64, length: usize) -> io::Result<Bytes>;
}

/// A file of this machine.
pub struct LocalFile(File);

impl LocalFile {
    /// Opens it.
    pub fn open(path: &Path) -> io::Result<LocalFile> {
        File::open(path).map(LocalFile)
    }
}

impl Ranged for LocalFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read(&self, start: u64, length: usize) -> io::Result<Bytes> {
        let mut bytes = vec![0; length];
        self.0.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

impl Ranged for Bytes {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read(&self, start: u64, length: usize) -> io::Result<Bytes> {
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        let end = start.checked_add(length).filter(|end| *end <= self.len());
        end.map(|end| self.slice(start..end)).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}
