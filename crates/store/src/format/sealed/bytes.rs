//! The bytes of a sealed file, their source and their checksums.
//!
//! ```text
//! 0                      data_end                                       length
//! | row groups, value     | index | offset indexes | footer | n | PAR1 |
//! | counts, Bloom index:  | one sum, unseeded; it stands in the         |
//! | blocks of 16 KiB with | footer, and counts as zeros there           |
//! | a sum each in index   |                                             |
//! ```
//!
//! The Parquet reader reads from [`VerifiedBytes`], which reads whole blocks and verifies them.

use ::bytes::Bytes;
use parquet::errors::ParquetError;
use parquet::file::reader::{ChunkReader, Length};
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes of a block of row groups with a checksum of its own. To read a page of a column, often some KiB, all blocks that
/// it touches are read.
pub(super) const BLOCK_BYTES: usize = 16 << 10;

/// A source of a sealed file's bytes: a file, an object store, memory.
pub trait RangeReader: Send + Sync {
    /// The length in bytes.
    fn length(&self) -> io::Result<u64>;

    /// Reads exactly `length` bytes from `start` on; fewer are an error. Never called beyond the length.
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

impl RangeReader for LocalFile {
    fn length(&self) -> io::Result<u64> {
        Ok(self.0.metadata()?.len())
    }

    fn read(&self, start: u64, length: usize) -> io::Result<Bytes> {
        let mut bytes = vec![0; length];
        self.0.read_exact_at(&mut bytes, start)?;
        Ok(bytes.into())
    }
}

impl RangeReader for Bytes {
    fn length(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }

    fn read(&self, start: u64, length: usize) -> io::Result<Bytes> {
        let start = usize::try_from(start).unwrap_or(usize::MAX);
        let end = start.checked_add(length).filter(|end| *end <= self.len());
        end.map(|end| self.slice(start..end)).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
    }
}

/// The verified bytes of a sealed file.
#[derive(Clone)]
pub(super) struct VerifiedBytes {
    pub(super) source: Arc<dyn RangeReader>,
    /// The end of the row groups.
    pub(super) data_end: u64,
    /// Everything after them, already verified.
    pub(super) tail: Bytes,
    /// The sums of the blocks before it; empty until the index is read.
    pub(super) sums: Arc<[u64]>,
}

impl VerifiedBytes {
    fn get(&self, start: u64, length: usize) -> io::Result<Bytes> {
        let end = start.checked_add(length as u64);
        let end = end.filter(|end| *end <= self.len()).ok_or(io::ErrorKind::UnexpectedEof)?;
        if start >= self.data_end {
            // Within the tail, so it fits.
            let from = usize::try_from(start - self.data_end).unwrap_or(usize::MAX);
            return Ok(self.tail.slice(from..from + length));
        }
        if end > self.data_end {
            return Err(damaged(start, "it extends beyond the row groups"));
        }
        let block = BLOCK_BYTES as u64;
        let first = start / block;
        let (from, to) = (first * block, end.next_multiple_of(block).min(self.data_end));
        let whole = usize::try_from(to - from).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let bytes = self.source.read(from, whole)?;
        for (number, piece) in (first..).zip(bytes.chunks(BLOCK_BYTES)) {
            let sum = usize::try_from(number).ok().and_then(|number| self.sums.get(number));
            if sum != Some(&xxh3_64(piece)) {
                return Err(damaged(number * block, "its checksum does not match"));
            }
        }
        let skip = usize::try_from(start - from).unwrap_or(usize::MAX);
        Ok(bytes.slice(skip..skip + length))
    }
}

fn damaged(at: u64, what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("the block at byte {at}: {what}"))
}

impl Length for VerifiedBytes {
    fn len(&self) -> u64 {
        self.data_end + self.tail.len() as u64
    }
}

impl ChunkReader for VerifiedBytes {
    type T = Sequential;

    fn get_read(&self, start: u64) -> parquet::errors::Result<Sequential> {
        Ok(Sequential { bytes: self.clone(), at: start })
    }

    fn get_bytes(&self, start: u64, length: usize) -> parquet::errors::Result<Bytes> {
        self.get(start, length).map_err(|error| ParquetError::External(Box::new(error)))
    }
}

/// Reads sequentially from one position, block by block.
pub(super) struct Sequential {
    bytes: VerifiedBytes,
    at: u64,
}

impl Read for Sequential {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        let end = if self.at < self.bytes.data_end { self.bytes.data_end } else { self.bytes.len() };
        let left = usize::try_from(end.saturating_sub(self.at)).unwrap_or(usize::MAX);
        let length = out.len().min(left).min(BLOCK_BYTES);
        let piece = self.bytes.get(self.at, length)?;
        out[..length].copy_from_slice(&piece);
        self.at += length as u64;
        Ok(length)
    }
}
