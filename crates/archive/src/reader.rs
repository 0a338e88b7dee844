//! Reads ranges of an archive's file, for a query that needs a few row groups.
//!
//! ```text
//! │ block 0 │ block 1 │ block 2 │ block 3 │ …        1 MiB each
//!            └ read ──────┘                          whole blocks are requested, adjacent ones in one request
//! ```
//!
//! A Parquet reader requests pages and small pieces, often adjacent ones. So whole blocks are fetched and the last
//! few are cached. A folder's file is read directly, because the kernel caches it. Only lengths are checked here; the
//! reader of a sealed file checks every byte.

use super::names::ArchiveObject;
use super::{Archive, ArchiveError, ArchivedDay};
use bytes::{Bytes, BytesMut};
use daytable_store::sealed::RangeReader;
use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::{Mutex, PoisonError};

/// Bytes of a block, the least that is requested.
const BLOCK_BYTES: u64 = 1 << 20;
/// Maximum number of blocks in one request.
const RUN_BLOCKS_MAX: u64 = 8;
/// Maximum number of cached blocks.
const KEPT_BLOCKS_MAX: usize = 16;

/// The bytes of an archive's file.
pub struct ArchiveReader {
    archive: Archive,
    archived: ArchivedDay,
    /// The file, if the archive is a folder.
    file: Option<File>,
    /// The blocks that were read last, the latest at the end.
    blocks_cached: Mutex<VecDeque<(u64, Bytes)>>,
}

impl Archive {
    /// Opens an archive's file to read it in parts.
    ///
    /// # Errors
    ///
    /// [`ArchiveError::Missing`], [`ArchiveError::Damaged`] for a wrong length, or an error of the store.
    pub fn reader(&self, archived: &ArchivedDay) -> Result<ArchiveReader, ArchiveError> {
        self.wait(self.head(archived))?;
        let open = |path| File::open(&path).map_err(ArchiveError::io(path));
        let file = self.file(&archived.name, ArchiveObject::Data).map(open).transpose()?;
        Ok(ArchiveReader { archive: self.clone(), archived: archived.clone(), file, blocks_cached: Mutex::default() })
    }
}

impl ArchiveReader {
    /// The archive that it reads.
    pub fn archived(&self) -> &ArchivedDay {
        &self.archived
    }

    fn bytes(&self) -> u64 {
        self.archived.manifest().bytes
    }

    /// Whole blocks from `first` on, at most up to `end`: cached ones, or missing ones from one request.
    fn blocks(&self, first: u64, end: u64) -> Result<Vec<(u64, Bytes)>, ArchiveError> {
        let mut blocks_cached = self.blocks_cached.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = blocks_cached.iter().position(|(block, _)| *block == first) {
            let found: Vec<(u64, Bytes)> = blocks_cached.remove(at).into_iter().collect();
            blocks_cached.extend(found.iter().cloned());
            return Ok(found);
        }
        let is_kept = |block: u64| blocks_cached.iter().any(|(other, _)| *other == block);
        let run = (first..end.min(first + RUN_BLOCKS_MAX)).take_while(|block| !is_kept(*block)).count() as u64;
        // Released, so that no other thread waits for this request.
        drop(blocks_cached);
        let range = first * BLOCK_BYTES..((first + run) * BLOCK_BYTES).min(self.bytes());
        let (mut bytes, _) = self.archive.wait(self.archive.range(&self.archived.name, range))?;
        let mut blocks = Vec::new();
        for block in first..first + run {
            let length = usize::try_from(BLOCK_BYTES).unwrap_or(usize::MAX).min(bytes.len());
            blocks.push((block, bytes.split_to(length)));
        }
        let mut blocks_cached = self.blocks_cached.lock().unwrap_or_else(PoisonError::into_inner);
        blocks_cached.extend(blocks.iter().cloned());
        while blocks_cached.len() > KEPT_BLOCKS_MAX {
            blocks_cached.pop_front();
        }
        Ok(blocks)
    }
}

impl RangeReader for ArchiveReader {
    fn length(&self) -> io::Result<u64> {
        Ok(self.bytes())
    }

    fn read(&self, start: u64, length: usize) -> io::Result<Bytes> {
        let end = start.checked_add(length as u64).filter(|end| *end <= self.bytes());
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        if let Some(file) = &self.file {
            let mut bytes = vec![0; length];
            file.read_exact_at(&mut bytes, start)?;
            return Ok(bytes.into());
        }
        let mut out = BytesMut::with_capacity(length);
        let mut at = start;
        while at < end {
            for (block, bytes) in self.blocks(at / BLOCK_BYTES, end.div_ceil(BLOCK_BYTES)).map_err(io::Error::other)? {
                // Both positions are within the block.
                let within = |location: u64| usize::try_from(location - block * BLOCK_BYTES).unwrap_or(usize::MAX);
                let piece = bytes.slice(within(at)..within(end).min(bytes.len()));
                at += piece.len() as u64;
                if at == end && out.is_empty() {
                    return Ok(piece);
                }
                out.extend_from_slice(&piece);
            }
        }
        Ok(out.freeze())
    }
}
