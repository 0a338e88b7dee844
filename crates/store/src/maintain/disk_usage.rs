//! The bytes of a data folder.

use crate::format::catalog::LiveFile;
use crate::layout::{FolderLayout, manifest_of};
use crate::sqlite::journal_of;
use std::path::Path;

/// Bytes of the days and of the catalog. Other files of the folder (perhaps archives) do not count, nor files that are
/// being removed: otherwise a day that was just dropped could cause another drop.
pub fn folder_bytes(data_dir: &Path) -> u64 {
    let layout = FolderLayout { data: data_dir.into() };
    let below = |folder: &Path| -> u64 {
        let Ok(entries) = std::fs::read_dir(folder) else { return 0 };
        let files = entries.flatten().filter_map(|entry| entry.metadata().ok()).filter(|file| file.is_file());
        files.map(|file| file.len()).sum()
    };
    let own = ["catalog.db", "catalog.db-wal"].map(|name| length(&data_dir.join(name)));
    below(&layout.tables()) + own.iter().sum::<u64>()
}

/// Bytes of a live file and of its journal or manifest.
pub fn file_bytes(data_dir: &Path, file: &LiveFile) -> u64 {
    let path = FolderLayout { data: data_dir.into() }.table_file(&file.name);
    let beside = match manifest_of(&file.name) {
        Some(manifest) => path.with_file_name(manifest),
        None => journal_of(&path),
    };
    length(&path) + length(&beside)
}

fn length(path: &Path) -> u64 {
    std::fs::metadata(path).map(|file| file.len()).unwrap_or(0)
}
