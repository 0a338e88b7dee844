//! What `tables/` holds and the catalog does not name: what a kill left, or rows that the catalog has lost.
//!
//! Each file is named before its first byte, as one that is being made, and stays named, as one that is to go, until its
//! removal is on the disk. So a file that the catalog does not name at all has lost its catalog: somebody lost the
//! catalog's journal, or brought an older catalog back. Earlier versions named some files later, and forgot some
//! sooner; what they left is known by itself:
//!
//! * a file without a row in it was just made, or all of it was sent;
//! * a file of a day that was dropped went with it, if it is no younger than the day was then;
//! * a file older than a sealed file of its day, and written to no later than what that was made of, is in it.
//!
//! All else that has rows is data.

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
    /// Its name below `tables/`.
    pub name: String,
    /// The day-table it is of, where its name says one.
    pub table: Option<DayTable>,
    /// What it is.
    pub what: UnnamedKind,
}

/// What an unnamed file is.
#[derive(Debug)]
pub enum UnnamedKind {
    /// No data, or none any more.
    Leftover,
    /// It has rows that no file that is named is known to have.
    Data {
        /// How many.
        rows: u64,
    },
    /// Nothing that can be read as a day's file, with the reason.
    Unreadable(String),
}

impl UnnamedFile {
    /// Its rows, where it is data.
    pub fn rows(&self) -> Option<u64> {
        if let UnnamedKind::Data { rows } = self.what { Some(rows) } else { None }
    }
}

/// Looks at all files in `tables` that `catalog` does not name: neither as live, nor as one that is being made or is to go.
pub fn find(tables: &Path, catalog: &Catalog) -> Result<Vec<UnnamedFile>, StoreError> {
    let mut names = BTreeSet::new();
    match std::fs::read_dir(tables) {
        Ok(entries) => {
            for entry in entries {
                names.insert(entry.map_err(StoreError::io(tables))?.file_name().to_string_lossy().into_owned());
            }
        }
        // A folder that is not there has no files. Those that the catalog names are missed where each is looked at.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
        Err(error) => return Err(StoreError::io(tables)(error)),
    }
    // Behind the list: what is in it was named by then.
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
