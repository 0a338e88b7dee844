//! Sealed days to archive. What is in them does not matter here: bytes, and a manifest that they match.

use daytable_archive::{Archive, ArchiveError, Proof};
use daytable_store::sealed::Manifest;
use daytable_store::{Phase, Progress};
use sha2::{Digest, Sha256};
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Bytes of a file that is sent as a whole.
pub(super) const SMALL: usize = 300_000;
/// Bytes of a file that is sent in parts.
pub(super) const LARGE: usize = (8 << 20) + 123;

/// A file and its manifest, removed with it.
pub(super) struct Sealed {
    pub(super) manifest: Manifest,
    pub(super) bytes: Vec<u8>,
    pub(super) path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Sealed {
    /// So many bytes that no two of these have in common, as `table`'s sealing number `generation`.
    pub(super) fn new(table: &str, generation: i64, length: usize) -> Sealed {
        let mut state = u64::from_le_bytes(*b"daytable") ^ length as u64 ^ (generation as u64) << 32;
        let mut step = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        let mut bytes: Vec<u8> = (0..length.div_ceil(8)).flat_map(|_| step().to_le_bytes()).collect();
        bytes.truncate(length);
        let json = serde_json::json!({
            "format": 1, "table": table, "generation": generation, "rows": 2, "records": 2, "bytes": length,
            "sha256": sha256(&bytes), "content": "0123456789abcdef", "first_key": ["a", "b"], "last_key": ["c", "d"],
            "first_time": null, "last_time": null, "levels": {}, "columns": [], "program": "daytable test",
        });
        let manifest = Manifest::from_json(json.to_string().as_bytes()).expect("a manifest");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sealed.parquet");
        fs::write(&path, &bytes).expect("written");
        Sealed { manifest, bytes, path, _folder: folder }
    }

    /// Archives it.
    pub(super) fn put(&self, archive: &Archive) -> Result<Proof, ArchiveError> {
        archive.put(&self.manifest, &self.path, &mut |_| ControlFlow::Continue(()))
    }

    /// Archives it, which must work, and tells how many bytes were sent in parts and read back.
    pub(super) fn put_counted(&self, archive: &Archive) -> (Proof, u64, u64) {
        let (mut sent, mut read) = (0, 0);
        let proof = archive.put(&self.manifest, &self.path, &mut |progress: Progress| {
            match progress.phase {
                Phase::Upload => sent = progress.done,
                Phase::ReadBack => read = progress.done,
                phase => unreachable!("{phase:?} of an upload"),
            }
            assert!(progress.done <= progress.total && progress.total == self.manifest.bytes);
            ControlFlow::Continue(())
        });
        (proof.expect("archived"), sent, read)
    }
}

/// In lower-case hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
