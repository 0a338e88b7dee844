//! Orphans: files in `tables/` that the catalog does not name as live.
//!
//! A file that was being created during a crash is removed: it never was data, and it is created again. So are files
//! that are no longer data: the inputs of a sealed day, and files of a dropped day. The catalog forgets such a name
//! only when the removal is on the disk. A power cut could otherwise restore a file that the catalog no longer names.
//! `unnamed_files` examines files without any name in the catalog.

use crate::StoreError;
use crate::format::catalog::Catalog;
use crate::format::sealed::is_sealed;
use crate::layout::{FolderLayout, discard, parts_of};
use crate::maintain::unnamed_files::{UnnamedFile, UnnamedKind};
use crate::private_file::sync;
use daytable_model::path_text::PathText;

/// Whether a process opens its folder for the first time, or again because a commit failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Opening {
    /// No step of this process is running.
    First,
    /// A step of the lifecycle may be running.
    Again,
}

/// Removes the remains of a crash in `tables/`. `unnamed` are the files without a name in the catalog.
pub(crate) fn sweep(
    layout: &FolderLayout,
    catalog: &mut Catalog,
    unnamed: &[UnnamedFile],
    opening: Opening,
) -> Result<(), StoreError> {
    // Another thread may still be writing a sealed file.
    let is_mine = |output: &String| opening == Opening::First || !is_sealed(output);
    let making: Vec<String> = catalog.making()?.into_iter().filter(is_mine).collect();
    for output in &making {
        if !catalog.is_live(output)? {
            remove_made(layout, output)?;
        }
    }
    forget(layout, catalog, &making)?;
    for UnnamedFile { name, what, .. } in unnamed {
        match what {
            UnnamedKind::Leftover => discard(layout, name)?,
            // A folder with such a file is not opened.
            UnnamedKind::Data { .. } => {}
            UnnamedKind::Unreadable(why) => {
                let file = layout.table_file(name);
                tracing::warn!(file = %file.escaped(), why, "not a file that the catalog names: left alone");
            }
        }
    }
    Ok(())
}

/// Forgets files that were removed, or moved to `trash/`, once the removal is on the disk.
pub(crate) fn forget(layout: &FolderLayout, catalog: &mut Catalog, names: &[String]) -> Result<(), StoreError> {
    if names.is_empty() {
        return Ok(());
    }
    [layout.trash(), layout.tables()].iter().try_for_each(|folder| sync(folder))?;
    names.iter().try_for_each(|name| catalog.forget_making(name))
}

/// Removes the files of `output`, which never was data, or no longer is.
pub(crate) fn remove_made(layout: &FolderLayout, output: &str) -> Result<(), StoreError> {
    for name in parts_of(output).iter() {
        let path = layout.table_file(name);
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(StoreError::io(path)(e)),
            _ => {}
        }
    }
    Ok(())
}
