//! Sealed days to archive. Their content is arbitrary: bytes, and a matching manifest.

use daytable_archive::{Archive, ArchiveError, Proof};
use daytable_store::sealed::Manifest;
use daytable_store::{Phase, Progress};
use sha2::{Digest, Sha256};
use std::fs;
use std::ops::ControlFlow;
use std::path::PathBuf;

/// Bytes of a file that fits one request.
pub(super) const SMALL: usize = 300_000;
/// Bytes of a file that needs a multipart upload.
pub(super) const LARGE: usize = (8 << 20) + 123;

/// The daytable that archives.
pub(super) const ORIGIN: &str = "00112233445566778899aabbccddeeff";

/// A file and its manifest. Dropping the value removes the file.
pub(super) struct Sealed {
    pub(super) manifest: Manifest,
    pub(super) bytes: Vec<u8>,
    pub(super) path: PathBuf,
    _folder: tempfile::TempDir,
}

impl Sealed {
    /// Unique bytes of a given length, as generation `generation` of `table`.
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
            "format": 2, "table": table, "generation": generation, "rows": 2, "records": 2, "bytes": length,
            "sha256": sha256(&bytes), "content": "0123456789abcdef", "first_key": ["a", "b"], "last_key": ["c", "d"],
            "first_time": null, "last_time": null, "levels": {}, "columns": [], "program": "daytable test",
            "home": {"host": "web-1", "origin": ORIGIN},
        });
        let manifest = Manifest::from_json(json.to_string().as_bytes()).expect("a manifest");
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("sealed.parquet");
        fs::write(&path, &bytes).expect("written");
        Sealed { manifest, bytes, path, _folder: folder }
    }

    /// Archives the file.
    pub(super) fn put(&self, archive: &Archive) -> Result<Proof, ArchiveError> {
        archive.put(&self.manifest, &self.path, &mut |_| ControlFlow::Continue(()))
    }

    /// Archives the file with success. Returns the bytes sent in parts, and the bytes read back.
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

/// The checksum in lower-case hexadecimal.
pub(super) fn sha256(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
