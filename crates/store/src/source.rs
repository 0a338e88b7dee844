//! A *source* as the catalog stores it: its identity, its committed position, and its *ledger*, the counts of its bytes
//! and records.

use daytable_model::source_id::SourceId;
use daytable_model::time::Ticks;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Marks that are kept of a file, the newest last.
pub const MARKS_MAX: usize = 16;

/// The kind of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceKind {
    /// A file that is followed.
    Tail,
    /// A file that was imported.
    Import,
    /// A journal of systemd.
    Journal,
}

/// The state of a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceStatus {
    /// The file is followed under its path.
    Live,
    /// The file was renamed and is read to its end.
    Rotated,
    /// Read to the end, and the file was replaced or removed. The entry is kept to recognise copies of the file.
    Ended,
}

/// A hash of the bytes before a position of a file. It recognises the file by its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// The offset after the last of the bytes.
    pub position: u64,
    /// The number of bytes.
    pub length: u32,
    /// The xxh3-64 of the bytes.
    pub hash: u64,
}

/// The counts of a source's bytes and records. They only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ledger {
    /// Committed records.
    pub records: u64,
    /// Records known to be destroyed before they were read: entries that a journal removed.
    pub lost_records: u64,
    /// Bytes that were read and committed, newlines included.
    pub bytes: u64,
    /// Records that were cut at the length limit.
    pub truncated_records: u64,
    /// Bytes that were cut off these records.
    pub truncated_bytes: u64,
    /// Records with invalid UTF-8. U+FFFD replaces the invalid bytes.
    pub invalid_utf8_records: u64,
    /// Bytes that were skipped by configuration (`read_from`, `ignore_older`).
    pub skipped_bytes: u64,
    /// Bytes known to be destroyed before they were read, by a truncation or deletion.
    pub lost_bytes: u64,
    /// Skipped bytes of files that were too old (`ignore_older`).
    #[serde(skip_serializing_if = "is_zero")]
    pub older_bytes: u64,
    /// Skipped bytes that existed when the first daemon began at the end (`read_from`).
    #[serde(skip_serializing_if = "is_zero")]
    pub begun_bytes: u64,
    /// Skipped bytes that another collector had read (`daytable adopt`).
    #[serde(skip_serializing_if = "is_zero")]
    pub adopted_bytes: u64,
    /// Bytes that were read and must be read again: the file lost its end.
    #[serde(skip_serializing_if = "is_zero")]
    pub returned_bytes: u64,
    /// Records of this daytable's own log. They are skipped, and their bytes count as read.
    #[serde(skip_serializing_if = "is_zero")]
    pub own_records: u64,
    /// Records in today's table, because the day of their time had expired (`keep`). They are among `records`.
    #[serde(skip_serializing_if = "is_zero")]
    pub late_records: u64,
}

impl Ledger {
    /// The position in a file that follows from these counts; not for journals. Empty lines are among the bytes.
    pub fn position(&self) -> u64 {
        let read = i128::from(self.bytes) + i128::from(self.skipped_bytes) - i128::from(self.returned_bytes);
        u64::try_from(read).unwrap_or(u64::MAX)
    }

    /// Bytes by which the position moved, forward and back. Of two states of a source, the later one has more.
    pub fn moved_bytes(&self) -> u64 {
        self.bytes.saturating_add(self.skipped_bytes).saturating_add(self.returned_bytes)
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A file or a journal, as the catalog stores it. A journal has no device, inode, head or marks.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceState {
    /// The 32 hex digits in its row keys. Never changes.
    pub identity: SourceId,
    /// The name of its configuration block.
    pub block: String,
    /// Followed, imported, or a journal.
    pub kind: SourceKind,
    /// The first path. It never changes, so a rotated file keeps its instance and its `Source`. For a journal, its
    /// folder, or `journal` for the journal of this host.
    pub path: PathBuf,
    /// The device at the last look.
    pub device: u64,
    /// The inode at the last look.
    pub inode: u64,
    /// The number of earlier sources with the same device, inode and first line.
    pub generation: u32,
    /// A mark of the first line, newline included, at most 1 KiB.
    pub head: Mark,
    /// The offset of the first uncommitted byte, after decompression. For a journal, the number of entries that were
    /// read.
    pub position: u64,
    /// For a journal, the cursor of the last committed entry. Empty if reading began at the start and found no entry.
    pub cursor: String,
    /// At most [`MARKS_MAX`] marks, the newest last. `position` is among them.
    pub marks: Vec<Mark>,
    /// The time of the last record, for a following record without one.
    pub last_time: Option<Ticks>,
    /// The source profile, as `daytable_parse::SourceProfile::save` writes it.
    pub profile: String,
    /// The state.
    pub status: SourceStatus,
    /// The ledger.
    pub ledger: Ledger,
    /// When the source last advanced, by the wall clock.
    pub seen: Ticks,
}

impl SourceState {
    /// The state of a source before its first read: live, without a file, at the start.
    pub fn new(identity: SourceId, kind: SourceKind, block: String, path: PathBuf) -> SourceState {
        SourceState {
            identity,
            block,
            kind,
            path,
            device: 0,
            inode: 0,
            generation: 0,
            head: Mark::default(),
            position: 0,
            cursor: String::new(),
            marks: Vec::new(),
            last_time: None,
            profile: String::new(),
            status: SourceStatus::Live,
            ledger: Ledger::default(),
            seen: daytable_model::time::now(),
        }
    }
}

/// The state of a file, for tests.
#[cfg(any(test, feature = "testing"))]
pub fn tests_state(number: u64) -> SourceState {
    SourceState {
        identity: number.into(),
        block: "tail".into(),
        kind: SourceKind::Tail,
        path: "/var/log/app.log".into(),
        device: 1,
        inode: number,
        generation: 0,
        head: Mark { position: 8, length: 8, hash: 7 },
        position: 64,
        marks: vec![Mark { position: 64, length: 64, hash: 9 }],
        last_time: Ticks::new(5),
        cursor: String::new(),
        profile: "learnt".into(),
        status: SourceStatus::Live,
        ledger: Ledger { records: 3, bytes: 64, ..Ledger::default() },
        seen: Ticks::UNIX_EPOCH,
    }
}
