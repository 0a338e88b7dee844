//! Reads ranges of a file in a lake.
//!
//! ```text
//! │ 4 │  3  │  2  │  1  │  0  │     blocks of 256 KiB, counted from the end, where reading begins
//!       └ read ──────┘              whole blocks are requested, adjacent ones in one request
//! ```
//!
//! The first block mostly has the whole end of a file: footer, index and Bloom index. Blocks are kept in memory for all files, those
//! behind the rows on disk as well. A folder's file is read directly, since the kernel keeps it; of that, what was read is counted once, too.

use super::super::error::ArchiveError;
use super::super::names::ArchiveObject;
use super::blocks::BlockState;
use super::storage::{LakeFile, LakeStorage};
use bytes::{Bytes, BytesMut};
use daytable_store::sealed::RangeReader;
use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a block, the least that is requested. At 100 MB/s they take 2.5 ms, less than a store needs to answer.
const BLOCK_BYTES: u64 = 256 << 10;
/// Maximum number of blocks in one request.
const RUN_BLOCKS_MAX: u64 = 32;
/// Bytes of a folder's file that are counted at once: those with one checksum, of which a part is never read alone.
const COUNTED_BYTES: u64 = 16 << 10;

/// The bytes of a file in a lake.
pub(super) struct LakeReader {
    storage: Arc<LakeStorage>,
    file: LakeFile,
    identity: Arc<str>,
    /// The file, if the lake is a folder.
    local: Option<CountedFile>,
    /// Blocks that reach beyond this byte are kept on disk.
    kept_from: AtomicU64,
}

/// A file of a folder, of which each part is counted when it is first read.
struct CountedFile {
    file: File,
    counted: Mutex<HashSet<u64>>,
}

impl CountedFile {
    /// How many of these bytes were not read before, in whole parts.
    fn new_bytes(&self, start: u64, end: u64, length: u64) -> u64 {
        let mut counted = self.counted.lock().unwrap_or_else(PoisonError::into_inner);
        let parts = (start / COUNTED_BYTES..end.div_ceil(COUNTED_BYTES)).filter(|part| counted.insert(*part));
        parts.map(|part| ((part + 1) * COUNTED_BYTES).min(length) - part * COUNTED_BYTES).sum()
    }
}

impl LakeReader {
    pub(super) fn open(storage: &Arc<LakeStorage>, file: &LakeFile) -> Result<LakeReader, ArchiveError> {
        let archive = &storage.archive;
        let local = match archive.file(&file.name, ArchiveObject::Data) {
            None => None,
            Some(path) => match File::open(&path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    return Err(ArchiveError::Missing { object: archive.address(&file.name, ArchiveObject::Data) });
                }
                opened => {
                    Some(CountedFile { file: opened.map_err(ArchiveError::io(path))?, counted: Mutex::default() })
                }
            },
        };
        let identity = storage.identity(file);
        Ok(LakeReader { storage: storage.clone(), file: file.clone(), identity, local, kept_from: AtomicU64::new(0) })
    }

    /// Keeps only what is behind this byte on disk.
    pub(super) fn keep_from(&self, byte: u64) {
        self.kept_from.store(byte, Ordering::Relaxed);
    }

    /// Where a block begins and ends.
    fn bounds(&self, number: u64) -> (u64, u64) {
        let end = self.file.bytes.saturating_sub(number * BLOCK_BYTES);
        (end.saturating_sub(BLOCK_BYTES), end)
    }

    /// A block. If it is read, up to `most` blocks before it in the file are read with it.
    fn block(&self, number: u64, most: u64) -> Result<Bytes, ArchiveError> {
        let memory = &self.storage.blocks;
        let count = match memory.get(&self.identity, number, most) {
            BlockState::There(bytes) => return Ok(bytes),
            BlockState::Read(count) => count,
        };
        let read = self.read_blocks(number, count);
        memory.arrive(&self.identity, number, count, read.as_deref().unwrap_or_default());
        let first = read?.into_iter().next();
        first.ok_or_else(|| {
            let object = self.storage.archive.address(&self.file.name, ArchiveObject::Data);
            ArchiveError::Damaged { object, what: format!("it has no block {number} before its end") }
        })
    }

    /// Reads blocks from the cache on disk, as far as it has the first of them, or from the store.
    fn read_blocks(&self, number: u64, count: u64) -> Result<Vec<Bytes>, ArchiveError> {
        let archive = &self.storage.archive;
        let is_kept = |number: u64| self.bounds(number).1 > self.kept_from.load(Ordering::Relaxed);
        let cache = self.storage.cache.as_ref();
        if let Some(cache) = cache.filter(|_| is_kept(number)) {
            let length = |number| {
                let (start, end) = self.bounds(number);
                end - start
            };
            let cached =
                (number..number + count).map_while(|number| cache.block(&self.identity, number, length(number)));
            let cached: Vec<Bytes> = cached.collect();
            if !cached.is_empty() {
                self.storage.meter.add_cached(cached.iter().map(|block| block.len() as u64).sum());
                return Ok(cached);
            }
        }
        let range = self.bounds(number + count - 1).0..self.bounds(number).1;
        let (bytes, meta) = archive.wait(archive.range(&self.file.name, range.clone()))?;
        if meta.size != self.file.bytes {
            let object = archive.address(&self.file.name, ArchiveObject::Data);
            let what = format!("it has {} bytes, and {} were expected", meta.size, self.file.bytes);
            return Err(ArchiveError::Damaged { object, what });
        }
        let within = |byte: u64| usize::try_from(byte - range.start).unwrap_or(usize::MAX);
        let block = |number| {
            let (start, end) = self.bounds(number);
            // A copy: a slice would keep its neighbours in memory.
            Bytes::copy_from_slice(&bytes[within(start)..within(end)])
        };
        let blocks: Vec<Bytes> = (number..number + count).map(block).collect();
        if let Some(cache) = cache {
            let kept = (number..).zip(&blocks).filter(|(number, _)| is_kept(*number));
            kept.for_each(|(number, block)| cache.put_block(&self.identity, number, block));
        }
        Ok(blocks)
    }
}

impl RangeReader for LakeReader {
    fn length(&self) -> io::Result<u64> {
        let Some(local) = &self.local else { return Ok(self.file.bytes) };
        let bytes = local.file.metadata()?.len();
        if bytes != self.file.bytes {
            let what = format!("it has {bytes} bytes, and {} were expected", self.file.bytes);
            return Err(io::Error::new(io::ErrorKind::InvalidData, what));
        }
        Ok(bytes)
    }

    fn read(&self, start: u64, length: usize) -> io::Result<Bytes> {
        let end = start.checked_add(length as u64).filter(|end| *end <= self.file.bytes);
        let end = end.ok_or(io::ErrorKind::UnexpectedEof)?;
        if length == 0 {
            return Ok(Bytes::new());
        }
        if let Some(local) = &self.local {
            let mut bytes = vec![0; length];
            local.file.read_exact_at(&mut bytes, start)?;
            match local.new_bytes(start, end, self.file.bytes) {
                0 => {}
                new => self.storage.meter.add_request(new),
            }
            return Ok(bytes.into());
        }
        // Blocks are counted from the end of the file.
        let number = |last: u64| (self.file.bytes - 1 - last) / BLOCK_BYTES;
        let (nearest, farthest) = (number(end - 1), number(start));
        let mut parts = Vec::new();
        for block in nearest..=farthest {
            let bytes = self.block(block, (farthest - block + 1).min(RUN_BLOCKS_MAX)).map_err(io::Error::other)?;
            let (from, to) = self.bounds(block);
            let within = |byte: u64| usize::try_from(byte.clamp(from, to) - from).unwrap_or(usize::MAX);
            parts.push(bytes.slice(within(start)..within(end)));
        }
        if let [only] = &parts[..] {
            return Ok(only.clone());
        }
        let mut out = BytesMut::with_capacity(length);
        parts.iter().rev().for_each(|part| out.extend_from_slice(part));
        Ok(out.freeze())
    }
}
