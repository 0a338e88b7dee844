//! A file in a lake, and what its bytes are read from.

use super::blocks::BlockMemory;
use super::cache::LakeCache;
use super::metered::TrafficMeter;
use crate::Archive;
use crate::names::{ArchiveName, ArchiveObject};
use daytable_model::key::DayTable;
use daytable_model::time::Ticks;
use std::sync::Arc;

/// A day of one daytable, or a part of an open one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LakeFile {
    pub(super) name: ArchiveName,
    pub(super) bytes: u64,
    /// Which object of this name and length it is, as far as the log or the listing tells.
    pub(super) version: String,
    pub(super) times: FileTimes,
}

/// The times of the records of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileTimes {
    /// The log tells them.
    Known(Option<(Ticks, Ticks)>),
    /// The manifest tells them.
    InManifest,
}

impl LakeFile {
    /// The day-table.
    pub fn table(&self) -> &DayTable {
        &self.name.table
    }

    /// The host that archived it.
    pub fn host(&self) -> &str {
        self.name.home.host()
    }

    /// Its length.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The path of the file below the address.
    pub fn object(&self) -> String {
        self.name.object(ArchiveObject::Data)
    }

    /// The name of the day for people.
    pub fn shown(&self) -> String {
        format!("{} of {}", self.name.table, self.host())
    }
}

/// What the bytes of files come from: the archives, and the blocks of them in memory and on disk.
pub(super) struct LakeStorage {
    pub(super) archive: Archive,
    pub(super) meter: Arc<TrafficMeter>,
    pub(super) blocks: BlockMemory,
    pub(super) cache: Option<LakeCache>,
}

impl LakeStorage {
    /// Forgets what was cached of a file. False if nothing was.
    pub(super) fn forget(&self, file: &LakeFile) -> bool {
        let identity = self.identity(file);
        let was_on_disk = self.cache.as_ref().is_some_and(|cache| cache.forget(&identity));
        self.blocks.forget(&identity) || was_on_disk
    }

    /// What tells a file, as it is now, from all others.
    pub(super) fn identity(&self, file: &LakeFile) -> Arc<str> {
        let object = self.archive.address(&file.name, ArchiveObject::Data);
        format!("{object}\n{}\n{}", file.bytes, file.version).into()
    }
}
