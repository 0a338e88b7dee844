//! The bytes of a data folder.

use crate::format::catalog::LiveFile;
use crate::layout::{FolderLayout, manifest_of};
use crate::sqlite::journal_of;
use std::path::Path;

/// Bytes of the catalog. Its journal is short, because no reader needs it for long.
pub fn catalog_bytes(data_dir: &Path) -> u64 {
    ["catalog.db", "catalog.db-wal"].iter().map(|name| length(&data_dir.join(name))).sum()
}

/// Bytes of all files beside those of the catalog: days, the journals of open days, and files that are being written.
/// Files in `trash/` do not count: they are being removed.
pub fn tables_bytes(data_dir: &Path) -> u64 {
    let layout = FolderLayout { data: data_dir.into() };
    let Ok(entries) = std::fs::read_dir(layout.tables()) else { return 0 };
    let files = entries.flatten().filter_map(|entry| entry.metadata().ok()).filter(|file| file.is_file());
    files.map(|file| file.len()).sum()
}

/// Bytes of a live file and of its manifest. A journal does not count: it is moved into its file, and a reader may make it
/// long for a while, which must not cost a day.
pub fn file_bytes(data_dir: &Path, file: &LiveFile) -> u64 {
    let path = FolderLayout { data: data_dir.into() }.table_file(&file.name);
    let manifest = manifest_of(&file.name).map_or(0, |manifest| length(&path.with_file_name(manifest)));
    length(&path) + manifest
}

/// Bytes of the journal of a live file.
pub fn journal_bytes(data_dir: &Path, file: &LiveFile) -> u64 {
    length(&journal_of(&FolderLayout { data: data_dir.into() }.table_file(&file.name)))
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map(|file| file.len()).unwrap_or(0)
}
