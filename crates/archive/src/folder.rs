//! Archives in a folder. `object_store` syncs a file and its folder before it reports success, and names the file
//! last. This module adds permissions, the removal of partial uploads, and the listing.
//!
//! Folders are created with mode 0700 and files with 0600, because they hold root's logs. An existing folder keeps
//! its mode.

use super::error::ArchiveError;
use super::names::{ArchiveName, DAY_FOLDER, FoundObject};
use super::url::ArchiveUrl;
use daytable_model::key::TableName;
use daytable_model::path_text::PathText;
use std::fs::{self, DirBuilder, File, Permissions};
use std::io::{self, ErrorKind};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::time::UNIX_EPOCH;

/// Creates a folder and its missing parents, each durable before this returns.
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

/// Creates the folders of an object, but not that of the archive itself, which may be an absent mount.
pub(super) fn make_parents(url: &ArchiveUrl, file: &Path) -> Result<(), ArchiveError> {
    if let Some(root) = url.folder() {
        fs::metadata(root).map_err(ArchiveError::io(root))?;
    }
    file.parent().map_or(Ok(()), make)
}

/// Refuses a folder within a data folder that the daemon clears: it empties `trash` and removes unknown files from
/// `tables`.
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

/// Lets only the owner read a file, if the file system has owners.
pub(super) fn restrict(file: &Path) -> Result<(), ArchiveError> {
    match fs::set_permissions(file, Permissions::from_mode(0o600)) {
        Err(error) if matches!(error.kind(), ErrorKind::PermissionDenied | ErrorKind::Unsupported) => Ok(()),
        restricted => restricted.map_err(ArchiveError::io(file)),
    }
}

/// Removes partial uploads of this file after a kill: `object_store` writes to the name with `#` and a number
/// appended.
pub(super) fn remove_partial_uploads(file: &Path) -> Result<(), ArchiveError> {
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

/// Syncs a folder, so that created and removed entries survive a power failure.
pub(super) fn sync(folder: &Path) -> Result<(), ArchiveError> {
    File::open(folder).and_then(|file| file.sync_all()).map_err(ArchiveError::io(folder))
}

/// The objects of a table's archives of some days, as these stand in paths. Other files are skipped, whatever their name.
pub(super) fn objects_of(
    root: &Path,
    table: &TableName,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Result<Vec<FoundObject>, ArchiveError> {
    let mut found = Vec::new();
    let is_day = |folder: &String| folder.strip_prefix(DAY_FOLDER).is_some_and(is_wanted);
    for day in names_in(&root.join(table.as_str()))?.into_iter().filter(is_day) {
        for host in names_in(&root.join(table.as_str()).join(&day))? {
            for file in names_in(&root.join(table.as_str()).join(&day).join(&host))? {
                let object = format!("{table}/{day}/{host}/{file}");
                let Some((name, part)) = ArchiveName::parse(&object) else { continue };
                if name.part.is_some() {
                    continue;
                }
                let path = root.join(&object);
                match fs::metadata(&path) {
                    Ok(metadata) if metadata.is_file() => {
                        let modified = metadata.modified().map_err(ArchiveError::io(&path))?;
                        let modified = modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_millis();
                        let modified = i64::try_from(modified).unwrap_or(i64::MAX);
                        found.push(FoundObject { name, part, bytes: metadata.len(), modified, e_tag: None });
                    }
                    Ok(_) => {}
                    Err(error) if error.kind() == ErrorKind::NotFound => {}
                    Err(error) => return Err(ArchiveError::io(path)(error)),
                }
            }
        }
    }
    Ok(found)
}

/// The UTF-8 names in a folder; empty if it is missing or not a folder.
pub(super) fn names_in(folder: &Path) -> Result<Vec<String>, ArchiveError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => return Ok(Vec::new()),
        entries => entries.map_err(ArchiveError::io(folder))?,
    };
    let names = entries.map(|entry| Ok(entry?.file_name().into_string().ok())).filter_map(Result::transpose);
    names.collect::<io::Result<_>>().map_err(ArchiveError::io(folder))
}
