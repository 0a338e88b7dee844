//! Checks a sealed file.
//!
//! Opening the file verifies its footer and index. The check verifies its blocks, and the whole file by the SHA-256
//! that the catalog recorded at the sealing. The file never changes, so no snapshot is needed.

use super::{CatalogEntry, FileFault, FileReport, OnBytes};
use crate::StoreError;
use crate::format::catalog::Seal;
use crate::format::sealed::{Manifest, SealedFile};
use std::path::Path;

/// Checks the file at `path`. `reads_all`: all its bytes, not only its footer and its manifest. Stops early if `on`
/// breaks.
pub fn sealed_file(
    path: &Path,
    catalog_entry: &dyn Fn() -> Result<CatalogEntry, StoreError>,
    reads_all: bool,
    on: OnBytes<'_>,
) -> FileReport {
    FileReport::new(examine(path, catalog_entry, reads_all, on), catalog_entry)
}

pub(super) fn examine(
    path: &Path,
    catalog_entry: &dyn Fn() -> Result<CatalogEntry, StoreError>,
    reads_all: bool,
    on: OnBytes<'_>,
) -> Result<FileReport, StoreError> {
    let live = match catalog_entry()? {
        CatalogEntry::Live(live, _) => Some(live),
        CatalogEntry::Gone => return Ok(FileReport::gone()),
        CatalogEntry::Unknown => None,
    };
    let mut checked = FileReport::default();
    let seal = live.as_ref().and_then(|live| live.seal.as_ref());
    let file = match SealedFile::open_local(path) {
        Ok(file) => file,
        Err(StoreError::SealedDamaged { place, what, .. }) => {
            checked.bytes(format!("{place}: {what}"));
            return Ok(checked);
        }
        Err(StoreError::Foreign(_, what)) => {
            checked.bytes(what);
            return Ok(checked);
        }
        Err(error) => return Err(error),
    };
    (checked.rows, checked.records) = (file.rows(), file.records());
    if let Some(Seal { rows, .. }) = seal.filter(|seal| seal.rows != file.rows()) {
        checked.count(format!("it has {} rows, the catalog says {rows}", file.rows()));
    }
    let manifest = match Manifest::read_beside(path) {
        Ok(manifest) => Some(manifest),
        Err(error) => {
            checked.faults.push(FileFault::Unreadable(format!("its manifest: {error}")));
            None
        }
    };
    if let Some(manifest) = &manifest {
        compare(manifest, &file, seal, &mut checked);
    }
    if !reads_all {
        return Ok(checked);
    }
    let Some(sum) = file.read_through(on, &mut |what| checked.bytes(what))? else { return Ok(checked) };
    let catalog_entry = seal.map(|seal| ("the catalog", &seal.sha256));
    let written = manifest.as_ref().map(|manifest| ("its manifest", &manifest.sha256));
    for (source, expected) in catalog_entry.into_iter().chain(written) {
        if *expected != sum {
            checked.bytes(format!("its SHA-256 is {sum}, {source} says {expected}"));
        }
    }
    Ok(checked)
}

fn compare(manifest: &Manifest, file: &SealedFile, seal: Option<&Seal>, checked: &mut FileReport) {
    let says = |what: &str, manifest: &dyn std::fmt::Display, other: &dyn std::fmt::Display| {
        format!("its manifest says {manifest} {what}, the file {other}")
    };
    if manifest.rows != file.rows() {
        checked.count(says("rows", &manifest.rows, &file.rows()));
    }
    if manifest.records != file.records() {
        checked.count(says("records", &manifest.records, &file.records()));
    }
    if manifest.bytes != file.bytes() {
        checked.count(says("bytes", &manifest.bytes, &file.bytes()));
    }
    if manifest.content != file.content() {
        checked.bytes(says("for its content", &manifest.content, &file.content()));
    }
    if let Some(seal) = seal.filter(|seal| seal.sha256 != manifest.sha256) {
        checked.bytes(format!("its manifest says {} for its SHA-256, the catalog {}", manifest.sha256, seal.sha256));
    }
}
