//! A file as a stream of bytes from its start, for decoders.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Reads a file from its start at its own offset, without the offset of the descriptor.
pub(super) struct FromStart {
    pub(super) file: File,
    pub(super) at: Arc<AtomicU64>,
}

impl Read for FromStart {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let n = self.file.read_at(buffer, self.at.load(Ordering::Relaxed))?;
        self.at.fetch_add(n as u64, Ordering::Relaxed);
        Ok(n)
    }
}
