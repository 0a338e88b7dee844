//! Files in `tables/` that the catalog does not name: remains of a crash, or rows that the catalog has lost.
//!
//! The catalog names each file before its first byte, as one that is being created. After the end of its life, the file
//! stays named until its removal is on the disk. So if the catalog does not name a file at all, the catalog's journal
//! was lost, or an older catalog was restored. Earlier versions named some files later and forgot some sooner. Their
//! remains are recognised:
//!
//! * a file without rows was just created, or all its rows were sent;
//! * a file of a dropped day was dropped with the day, if its generation is not higher than the day's at that time;
//! * a file older than a sealed file of its day, with no later commit than the inputs of that file, is contained in it.
//!
//! Every other file with rows is data.

use crate::StoreError;
use crate::format::catalog::{Catalog, NamedFiles};
use crate::format::sealed::{self, EXTENSION, Manifest, SealedFile};
use crate::layout::{manifest_of, parse_file_name, parts_of};
use daytable_model::key::DayTable;
use std::collections::BTreeSet;
use std::path::Path;

/// A file that the catalog does not name.
#[derive(Debug)]
pub struct UnnamedFile {
    /// The name below `tables/`.
    pub name: String,
    /// The day-table, if the name has one.
    pub table: Option<DayTable>,
    /// The kind.
    pub what: UnnamedKind,
}

/// The kind of an unnamed file.
#[derive(Debug)]
pub enum UnnamedKind {
    /// No data, or no longer.
    Leftover,
    /// Rows that no named file is known to have.
    Data {
        /// The number of rows.
        rows: u64,
    },
    /// Unreadable as a day's file, with the reason.
    Unreadable(String),
}

impl UnnamedFile {
    /// The number of rows, if the file is data.
    pub fn rows(&self) -> Option<u64> {
        if let UnnamedKind::Data { rows } = self.what { Some(rows) } else { None }
    }
}

/// Examines all files in `tables` that `catalog` does not name: neither as live nor as pending.
pub fn find(tables: &Path, catalog: &Catalog) -> Result<Vec<UnnamedFile>, StoreError> {
    let mut names = BTreeSet::new();
    match std::fs::read_dir(tables) {
        Ok(entries) => {
            for entry in entries {
                names.insert(entry.map_err(StoreError::io(tables))?.file_name().to_string_lossy().into_owned());
            }
        }
        // A missing folder has no files. Files of the catalog are reported as missing by their own checks.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(StoreError::io(tables)(error)),
    }
    // After listing the folder: by now the catalog names all its own files in the list.
    let named = catalog.named()?;
    let manifests: BTreeSet<String> = names.iter().filter_map(|name| manifest_of(name)).collect();
    let making: BTreeSet<String> = named.making.iter().flat_map(|output| parts_of(output)).collect();
    let is_beside = |name: &str| name.ends_with("-wal") || name.ends_with("-shm") || manifests.contains(name);
    let is_named = |name: &String| named.live.contains_key(name) || making.contains(name);
    let unnamed = names.iter().filter(|name| !is_beside(name) && !is_named(name));
    Ok(unnamed.map(|name| examine(tables, name, &named)).collect())
}

fn examine(tables: &Path, name: &str, named: &NamedFiles) -> UnnamedFile {
    let parsed = parse(name);
    let what = match &parsed {
        None => UnnamedKind::Unreadable("not the name of a day's file".into()),
        Some((day, generation)) if named.is_dropped(day, *generation) => UnnamedKind::Leftover,
        Some((day, generation)) => {
            let later = named.live.values().filter(|live| live.day == *day && live.generation() > *generation);
            let sealed_to = later.filter(|live| live.seal.is_some()).map(|live| live.last_seq).max();
            let path = tables.join(name);
            let kind = match (sealed::is_sealed(name), sealed_to) {
                (true, None) => examine_sealed(&path),
                (true, Some(_)) => Ok(UnnamedKind::Leftover),
                (false, sealed_to) => examine_open(&path, sealed_to),
            };
            kind.unwrap_or_else(|error| UnnamedKind::Unreadable(error.to_string()))
        }
    };
    UnnamedFile { name: name.into(), table: parsed.map(|(day, _)| day), what }
}

fn examine_open(path: &Path, sealed_to: Option<i64>) -> Result<UnnamedKind, StoreError> {
    let connection = crate::sqlite::open_to_read(path)?;
    let total = crate::format::day_file::read_total(&connection).map_err(StoreError::sqlite(path))?;
    let is_sealed = sealed_to.is_some_and(|last_seq| total.last_seq <= last_seq);
    Ok(match u64::try_from(total.entities - total.merged) {
        Ok(rows @ 1..) if !is_sealed => UnnamedKind::Data { rows },
        _ => UnnamedKind::Leftover,
    })
}

fn examine_sealed(path: &Path) -> Result<UnnamedKind, StoreError> {
    let (file, manifest) = (SealedFile::open_local(path)?, Manifest::read_beside(path)?);
    match (file.rows(), file.bytes()) == (manifest.rows, manifest.bytes) {
        true if manifest.rows == 0 => Ok(UnnamedKind::Leftover),
        true => Ok(UnnamedKind::Data { rows: manifest.rows }),
        false => Err(StoreError::Foreign(path.into(), "its manifest is of another file".into())),
    }
}

/// The day and the generation of a file of any kind.
fn parse(name: &str) -> Option<(DayTable, i64)> {
    if let Some(open) = parse_file_name(name) {
        return Some(open);
    }
    let (day, generation) = name.strip_suffix(EXTENSION)?.rsplit_once('.')?;
    Some((DayTable::parse(day).ok()?, generation.parse().ok()?))
}
