//! The layout of a data folder: its folders, and the names of the files in them.

use crate::StoreError;
use crate::lock::Lock;
use crate::private_file;
use daytable_model::key::DayTable;
use std::path::{Path, PathBuf};

/// The paths within a data folder.
#[derive(Clone, Debug)]
pub(crate) struct FolderLayout {
    pub(crate) data: PathBuf,
}

impl FolderLayout {
    pub(crate) fn tables(&self) -> PathBuf {
        self.data.join("tables")
    }

    pub(crate) fn trash(&self) -> PathBuf {
        self.data.join("trash")
    }

    pub(crate) fn table_file(&self, name: &str) -> PathBuf {
        self.tables().join(name)
    }

    /// Creates the folders, readable by their owner only.
    pub(crate) fn create(&self) -> Result<(), StoreError> {
        [self.data.clone(), self.tables(), self.trash()]
            .iter()
            .try_for_each(|folder| private_file::create_folder(folder))
    }

    /// Acquires the lock, or fails with its holder. Creates a missing folder, and changes nothing in one that is in
    /// use.
    pub(crate) fn lock(&self) -> Result<Lock, StoreError> {
        Lock::acquire(&self.data)
    }

    /// The error of a file that does not belong to the catalog of this folder.
    pub(crate) fn mismatch(&self, path: &Path, what: String) -> StoreError {
        StoreError::Mismatch { path: path.into(), what, data: self.data.clone() }
    }
}

/// The prefix of files in `trash/` that are kept for a week instead of being removed at once.
pub(crate) const SET_ASIDE: &str = "set-aside-";

/// The name of a day's file below `tables/`.
pub(crate) fn file_name(day: &DayTable, generation: i64) -> String {
    format!("{day}.{generation}.db")
}

/// The inverse of [`file_name`].
pub(crate) fn parse_file_name(name: &str) -> Option<(DayTable, i64)> {
    let (day, generation) = name.strip_suffix(".db")?.rsplit_once('.')?;
    Some((DayTable::parse(day).ok()?, generation.parse().ok()?))
}

/// The name of a sealed day's file below `tables/`.
pub(crate) fn sealed_name(day: &DayTable, generation: i64) -> String {
    format!("{day}.{generation}.parquet")
}

/// The name of the manifest beside a sealed file; none for another file.
pub(crate) fn manifest_of(name: &str) -> Option<String> {
    Some(format!("{}.manifest.json", name.strip_suffix(".parquet")?))
}

/// Moves a file of `tables/` with its journal or manifest into `trash/`. The journal is moved first: a database without
/// its journal could seem complete, but a journal alone is harmless. The same holds for a manifest.
pub(crate) fn discard(layout: &FolderLayout, name: &str) -> Result<(), StoreError> {
    let beside = match manifest_of(name) {
        Some(manifest) => vec![manifest],
        None => vec![format!("{name}-shm"), format!("{name}-wal")],
    };
    for name in beside.iter().map(String::as_str).chain([name]) {
        let (from, to) = (layout.table_file(name), layout.trash().join(name));
        match std::fs::rename(&from, &to) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(StoreError::io(from)(e)),
            _ => {}
        }
    }
    Ok(())
}

/// The suffix of a file that is still being written.
pub(crate) const PARTIAL: &str = ".partial";

/// The names of a file of `tables/` and its companions while it is created. The file is the last: a journal is removed
/// before its database, as in [`discard`].
pub(crate) fn parts_of(output: &str) -> Vec<String> {
    match manifest_of(output) {
        Some(manifest) => {
            vec![format!("{output}{PARTIAL}"), format!("{manifest}{PARTIAL}"), manifest, output.to_owned()]
        }
        None => vec![format!("{output}-shm"), format!("{output}-wal"), output.to_owned()],
    }
}

/// The path of a daemon's control socket.
pub fn control_socket(data_dir: &Path) -> PathBuf {
    data_dir.join("control.sock")
}
