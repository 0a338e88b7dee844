//! A *source* as the catalog stores it: its identity, its committed position, and its *ledger*, the counts of its bytes and
//! records.

use daytable_model::time::Ticks;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;

/// Positions with the bytes before them that are kept of a file, the newest last.
pub const MARKS_MAX: usize = 16;

/// What kind of thing a source is.
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

/// Where a source is in its life.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SourceStatus {
    /// It is followed under its path.
    Live,
    /// Its file was moved away, and is read to its end.
    Rotated,
    /// Read to its end, and its file was replaced or removed. Kept so that a copy of it is recognised.
    Ended,
}

/// A hash of the bytes that end at a position of a file, by which the file is known again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Mark {
    /// Offset behind the last of the bytes.
    pub position: u64,
    /// How many bytes.
    pub length: u32,
    /// Their xxh3-64.
    pub hash: u64,
}

/// What became of a source's bytes and records. Counts only grow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Ledger {
    /// Records that are committed.
    pub records: u64,
    /// Records known to have been destroyed before they were read (entries that a journal was freed of).
    pub lost_records: u64,
    /// Bytes that were read and are committed, newlines included.
    pub bytes: u64,
    /// Records that were longer than the limit and kept up to it.
    pub truncated_records: u64,
    /// Bytes of those that were not kept.
    pub truncated_bytes: u64,
    /// Records with bytes that are no UTF-8, kept with U+FFFD in their place.
    pub invalid_utf8_records: u64,
    /// Bytes that were passed over because the configuration says so (`read_from`, `ignore_older`).
    pub skipped_bytes: u64,
    /// Bytes known to have been destroyed before they were read (a truncate or delete that came first).
    pub lost_bytes: u64,
    /// Of those that were passed over, the ones of files that were too old (`ignore_older`),
    #[serde(skip_serializing_if = "is_zero")]
    pub older_bytes: u64,
    /// those that were there when the first daemon began at their end (`read_from`),
    #[serde(skip_serializing_if = "is_zero")]
    pub begun_bytes: u64,
    /// and those that another collector had read (`daytable adopt`).
    #[serde(skip_serializing_if = "is_zero")]
    pub adopted_bytes: u64,
    /// Bytes that were read and are to be read again: the file had lost its tail.
    #[serde(skip_serializing_if = "is_zero")]
    pub returned_bytes: u64,
    /// Records of this daytable's own log, which are passed over; their bytes count as read.
    #[serde(skip_serializing_if = "is_zero")]
    pub own_records: u64,
}

impl Ledger {
    /// The position that these counts come to: that of a file, not of a journal. Empty lines are among the bytes.
    pub fn position(&self) -> u64 {
        let read = i128::from(self.bytes) + i128::from(self.skipped_bytes) - i128::from(self.returned_bytes);
        u64::try_from(read).unwrap_or(u64::MAX)
    }
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

/// A file, or a journal, as the catalog knows it. A journal has no device, no inode, no head and no marks.
#[derive(Clone, Debug, PartialEq)]
pub struct SourceState {
    /// The 16 hex digits of its row keys; never changes.
    pub identity: u64,
    /// The name of the config block that it belongs to.
    pub block: String,
    /// Followed, imported, or a journal.
    pub kind: SourceKind,
    /// Where it was seen first. It stays: a rotated file goes on under the instance and `Source` that it had. Of a
    /// journal, its folder, or `journal` for that of this host.
    pub path: PathBuf,
    /// Device and inode it had when it was seen last.
    pub device: u64,
    /// See `device`.
    pub inode: u64,
    /// How many sources with this device, inode and first line came before it.
    pub generation: u32,
    /// Its first line, newline included, its first 1 KiB at most.
    pub head: Mark,
    /// Offset of the first byte that is not committed, decoded where the file is compressed. Of a journal, how many
    /// entries were read.
    pub position: u64,
    /// Of a journal, the cursor of the last entry that is committed; empty where it was read from its beginning and had
    /// none.
    pub cursor: String,
    /// Positions with the bytes before them, the newest last, `position` among them; at most [`MARKS_MAX`].
    pub marks: Vec<Mark>,
    /// The time of the last record, for a record without one that follows it.
    pub last_time: Option<Ticks>,
    /// What was learnt of its lines, as `daytable_parse::SourceProfile::save` writes it.
    pub profile: String,
    /// Where it is in its life.
    pub status: SourceStatus,
    /// What became of its bytes.
    pub ledger: Ledger,
    /// When it was advanced last, by the wall clock.
    pub seen: Ticks,
}

impl SourceState {
    /// Of a source that nothing was read from: live, without a file, at its beginning.
    pub fn new(identity: u64, kind: SourceKind, block: String, path: PathBuf) -> SourceState {
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
pub fn tests_state(identity: u64) -> SourceState {
    SourceState {
        identity,
        block: "tail".into(),
        kind: SourceKind::Tail,
        path: "/var/log/app.log".into(),
        device: 1,
        inode: identity,
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
