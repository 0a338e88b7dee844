//! Reads a whole sealed file and checks every byte against the checksums of its blocks.

use super::bytes::BLOCK_BYTES;
use super::file::SealedFile;
use crate::StoreError;
use parquet::file::reader::ChunkReader;
use sha2::{Digest, Sha256};
use std::ops::ControlFlow;

/// Called with the number of bytes read since the last call; a break ends the check.
pub type OnBytes<'a> = &'a mut dyn FnMut(u64) -> ControlFlow<()>;

/// Blocks that are read at once.
const BLOCKS: usize = 16;

impl SealedFile {
    /// Reads the whole file and returns its SHA-256 in lower-case hexadecimal; `None` if `on` breaks, or if a block
    /// is damaged, which is passed to `damaged`. Opening the file already verified footer and index.
    pub(crate) fn read_through(
        &self,
        on: OnBytes<'_>,
        damaged: &mut dyn FnMut(String),
    ) -> Result<Option<String>, StoreError> {
        let bytes = &self.opened.bytes;
        let mut sum = Sha256::new();
        let (mut at, mut is_whole) = (0, true);
        while at < bytes.data_end {
            let left = usize::try_from(bytes.data_end - at).unwrap_or(usize::MAX);
            let length = left.min(BLOCKS * BLOCK_BYTES);
            match bytes.get_bytes(at, length) {
                Ok(piece) => sum.update(&piece),
                Err(error) => {
                    is_whole = false;
                    damaged(error.to_string());
                }
            }
            at += length as u64;
            if on(length as u64).is_break() {
                return Ok(None);
            }
        }
        sum.update(&bytes.tail);
        let hex = || sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
        Ok(is_whole.then(hex))
    }
}
