//! What `tables/` holds and the catalogue does not name.
//!
//! What was being made when a kill came is removed: it was never data, and it is made again. So is what a day was sealed
//! from: it is data no more. Files of a dropped day
//! are moved to `trash/`, an empty one that a crash left behind too. Anything else is left alone and said.

use super::StoreError;
use super::catalogue::Catalogue;
use super::open::{Layout, discard, manifest_of};
use crate::key::DayTable;
use crate::path_text::PathText;
use std::path::Path;

/// What the name of a file ends in that is still being written.
pub(crate) const PARTIAL: &str = ".partial";

/// Clears what a kill left in `tables/`.
pub(crate) fn sweep(layout: &Layout, catalogue: &mut Catalogue) -> Result<(), StoreError> {
    for output in catalogue.making()? {
        if !catalogue.is_live(&output)? {
            remove_made(layout, &output)?;
        }
        catalogue.forget_making(&output)?;
    }
    let live: Vec<String> = catalogue.files()?.into_iter().map(|f| f.name).collect();
    let dropped = catalogue.dropped()?;
    let folder = layout.tables();
    for entry in std::fs::read_dir(&folder).map_err(StoreError::io(&folder))? {
        let entry = entry.map_err(StoreError::io(&folder))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let of = name.strip_suffix("-wal").or(name.strip_suffix("-shm")).unwrap_or(&name).to_owned();
        let is_beside = of != name || live.iter().any(|live| manifest_of(live).as_ref() == Some(&name));
        if is_beside || live.contains(&name) {
            continue;
        }
        match parse_name(&name) {
            Some((day, generation)) if dropped.contains(&day) && generation <= catalogue.generation(&day)? => {
                discard(layout, &name)?;
            }
            Some(_) if is_empty(&entry.path()) => discard(layout, &name)?,
            _ => tracing::warn!(file = %entry.path().escaped(), "not a file that the catalogue names: left alone"),
        }
    }
    Ok(())
}

/// Removes what was written of `output`, which never was data, or is none any more.
pub(crate) fn remove_made(layout: &Layout, output: &str) -> Result<(), StoreError> {
    let beside = match manifest_of(output) {
        Some(manifest) => vec![format!("{output}{PARTIAL}"), format!("{manifest}{PARTIAL}"), manifest],
        // A journal goes before its database, as in `discard`.
        None => vec![format!("{output}-shm"), format!("{output}-wal")],
    };
    for name in beside.iter().map(String::as_str).chain([output]) {
        let path = layout.table_file(name);
        match std::fs::remove_file(&path) {
            Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(StoreError::io(path)(e)),
            _ => {}
        }
    }
    Ok(())
}

fn is_empty(path: &Path) -> bool {
    super::day::open_to_read(path).is_ok_and(|(c, _)| super::day::read_total(&c).is_ok_and(|t| t.entities == 0))
}

/// The day and the generation of a file of any kind.
fn parse_name(name: &str) -> Option<(DayTable, i64)> {
    let suffixes = [".db", ".parquet", ".manifest.json"];
    let (day, generation) = suffixes.iter().find_map(|suffix| name.strip_suffix(suffix))?.rsplit_once('.')?;
    Some((DayTable::parse(day).ok()?, generation.parse().ok()?))
}
