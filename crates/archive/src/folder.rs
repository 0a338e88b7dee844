//! What an archive in a folder needs besides what `object_store` does for it: it syncs a file and its folder before it
//! says that it has it, and gives it its name last. Here: who may read, what a kill left, what is listed.
//!
//! Folders are made with mode 0700 and files get 0600, for they hold root's logs. A folder that is there keeps its mode.

use super::error::ArchiveError;
use super::names::{Name, Part};
use super::url::ArchiveUrl;
use daytable_model::key::TableName;
use daytable_model::path_text::PathText;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;

/// Makes a folder and those above it that are not there, each of them on the disk before it returns.
pub(super) fn make(folder: &Path) -> Result<(), ArchiveError> {
    if folder.is_dir() {
        return Ok(());
    }
    if let Some(parent) = folder.parent() {
        make(parent)?;
        match DirBuilder::new().mode(0o700).create(folder) {
            Err(error) if error.kind() != ErrorKind::AlreadyExists => return Err(ArchiveError::io(folder)(error)),
            _ => sync(parent)?,
        }
    }
    Ok(())
}

/// Makes the folders of an object; not that of the archive itself, which may be a mount that is not there now.
pub(super) fn make_parents(url: &ArchiveUrl, file: &Path) -> Result<(), ArchiveError> {
    if let Some(root) = url.folder() {
        fs::metadata(root).map_err(ArchiveError::io(root))?;
    }
    file.parent().map_or(Ok(()), make)
}

/// Refuses what would be taken away again: a data folder empties its `trash` and clears its `tables` of what it does
/// not know.
pub(super) fn refuse_within_data(url: &ArchiveUrl, folder: &Path) -> Result<(), ArchiveError> {
    let is_cleared = |folder: &Path| {
        let is_named = folder.file_name().is_some_and(|name| name == "tables" || name == "trash");
        is_named && folder.parent().is_some_and(|data| data.join("catalog.db").exists())
    };
    match folder.ancestors().find(|folder| is_cleared(folder)) {
        None => Ok(()),
        Some(cleared) => {
            let what = format!("{} is cleared by the daemon: choose another folder", cleared.escaped());
            Err(ArchiveError::Setup { url: url.clone(), what })
        }
    }
}

/// Lets only the owner read a file, where the file system knows owners.
pub(super) fn restrict(file: &Path) -> Result<(), ArchiveError> {
    match fs::set_permissions(file, Permissions::from_mode(0o600)) {
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported) => Ok(()),
        restricted => restricted.map_err(ArchiveError::io(file)),
    }
}

/// Removes what uploads of this file left that were killed: `object_store` writes to the name with `#` and a number
/// behind it.
pub(super) fn drop_leftovers(file: &Path) -> Result<(), ArchiveError> {
    let (Some(folder), Some(name)) = (file.parent(), file.file_name().and_then(|name| name.to_str())) else {
        return Ok(());
    };
    for entry in fs::read_dir(folder).map_err(ArchiveError::io(folder))? {
        let entry = entry.map_err(ArchiveError::io(folder))?;
        let entry_name = entry.file_name();
        let number = entry_name.to_str().and_then(|entry| entry.strip_prefix(name)?.strip_prefix('#'));
        if number.is_some_and(|number| !number.is_empty() && number.bytes().all(|byte| byte.is_ascii_digit())) {
            fs::remove_file(entry.path()).map_err(ArchiveError::io(entry.path()))?;
        }
    }
    Ok(())
}

/// Makes sure that what was created or removed in a folder is so after a power cut.
pub(super) fn sync(folder: &Path) -> Result<(), ArchiveError> {
    File::open(folder).and_then(|file| file.sync_all()).map_err(ArchiveError::io(folder))
}

/// The objects of a table, with their sizes. Whatever else lies there is passed over, however it is called.
pub(super) fn objects_of(root: &Path, table: &TableName) -> Result<Vec<(Name, Part, u64)>, ArchiveError> {
    let mut found = Vec::new();
    for year in names_in(&root.join(table.as_str()))? {
        for month in names_in(&root.join(table.as_str()).join(&year))? {
            for file in names_in(&root.join(table.as_str()).join(&year).join(&month))? {
                let object = format!("{table}/{year}/{month}/{file}");
                let Some((name, part)) = Name::parse(&object) else { continue };
                let path = root.join(&object);
                match fs::metadata(&path) {
                    Ok(metadata) if metadata.is_file() => found.push((name, part, metadata.len())),
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(ArchiveError::io(path)(error)),
                }
            }
        }
    }
    Ok(found)
}

/// The names in a folder that are UTF-8; none where it is no folder, or not there.
fn names_in(folder: &Path) -> Result<Vec<String>, ArchiveError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(Vec::new()),
        entries => entries.map_err(ArchiveError::io(folder))?,
    };
    let names = entries.map(|entry| Ok(entry?.file_name().into_string().ok())).filter_map(Result::transpose);
    names.collect::<io::Result<_>>().map_err(ArchiveError::io(folder))
}
