//! Writes a sealed file and computes the checksums of its blocks.

use super::bytes::BLOCK_BYTES;
use std::fs::File;
use std::io::{self, Write};
use xxhash_rust::xxh3::xxh3_64;

/// Writes a file from front to back, block by block.
pub(super) struct ChecksumWriter {
    file: File,
    block: Vec<u8>,
    sums: Vec<u64>,
}

impl ChecksumWriter {
    pub(super) fn new(file: File) -> ChecksumWriter {
        ChecksumWriter { file, block: Vec::with_capacity(BLOCK_BYTES), sums: Vec::new() }
    }

    /// The sums of all bytes written so far, including a partial last block.
    pub(super) fn sums(&self) -> Vec<u64> {
        let mut sums = self.sums.clone();
        if !self.block.is_empty() {
            sums.push(xxh3_64(&self.block));
        }
        sums
    }

    /// Writes the remaining bytes and returns the file.
    pub(super) fn finish(mut self) -> io::Result<File> {
        self.file.write_all(&self.block)?;
        Ok(self.file)
    }
}

impl Write for ChecksumWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(BLOCK_BYTES - self.block.len());
        self.block.extend_from_slice(&bytes[..taken]);
        if self.block.len() == BLOCK_BYTES {
            self.file.write_all(&self.block)?;
            self.sums.push(xxh3_64(&self.block));
            self.block.clear();
        }
        Ok(taken)
    }

    /// Does nothing: a block is written when it is full.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
