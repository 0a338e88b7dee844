//! `daytable repair`: builds a catalog that matches the files, after a file came from a backup or was lost.
//!
//! Repair keeps the old catalog beside the new one. It removes no row but copies of rows that stay
//! ([`page_copies`](super::page_copies)). Rows that a file has beyond the old catalog's count become data. Their source may be
//! read again: records with a time of their own get the same keys, others are stored twice. Rows that the old catalog counted
//! and no file has are missing. Positions come from the old catalog. If its source log is damaged, the damaged entries are left
//! out and the files are read again from earlier positions. Repair reports each of these, one line each.
//!
//! A file that the catalog does not name is data too, unless another file has its rows: a half-written sealed file
//! whose inputs exist, or an input of a finished sealed file. A file with rows that is not used moves to `aside/` and
//! stays there for an operator: a folder with rows that its catalog does not name does not open.

use crate::StoreError;
use crate::format::catalog::{Catalog, DayState, FileRole, LiveFile, Seal};
use crate::format::day_file::is_outbox;
use crate::format::day_file::{DayFile, Recounted};
use crate::format::sealed::{EXTENSION, Manifest, SealedFile};
use crate::layout::{FolderLayout, manifest_of, parse_file_name};
use crate::lock;
use crate::maintain::page_copies::{DroppedCopies, drop_copies};
use crate::maintain::unnamed_files;
use crate::private_file;
use daytable_model::key::DayTable;
use daytable_model::path_text::PathText;
use daytable_model::time;
use std::collections::{BTreeMap, HashMap};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Makes the catalog of a folder match its files. Returns a line for each change; none if everything matched.
pub fn repair(data_dir: &Path) -> Result<Vec<String>, StoreError> {
    let layout = FolderLayout { data: data_dir.into() };
    if !layout.tables().is_dir() {
        return Err(StoreError::NoStore(data_dir.into()));
    }
    let lock = layout.lock()?;
    lock::refuse_shared(&Catalog::path_in(data_dir))?;
    layout.create()?;
    let OldCatalog { copy, mut report } = keep_old_catalog(&layout)?;
    let mut catalog = Catalog::open_to_write(data_dir)?;
    let noted: HashMap<String, LiveFile> = catalog.files()?.into_iter().map(|file| (file.name.clone(), file)).collect();
    let dropped = catalog.dropped()?;
    let mut committed = catalog.committed()?.seq;

    let mut found = live_files(&layout, &noted, &mut report)?;
    found.retain(|Found { day, name, .. }| {
        let keep = !dropped.contains(day);
        if !keep {
            report.push(format!("{name}: its day was dropped, left alone"));
        }
        keep
    });
    for (name, file) in &noted {
        if !found.iter().any(|found| found.name == *name) {
            let sealed = |found: &&Found| {
                let is_new = found.seal.is_some() && !noted.contains_key(&found.name);
                is_new && found.day == file.day && found.generation > file.generation()
            };
            match found.iter().find(sealed) {
                Some(sealed) => report.push(format!("{name}: {} has its rows", sealed.name)),
                None => report.push(format!("{name}: missing, with {} entities", file.entities)),
            }
            forget(&catalog, name)?;
        }
    }
    for Found { day, generation, name, role, seal } in found {
        let path = layout.table_file(&name);
        let live = match seal {
            Some(seal) => {
                let (times, entities) = (seal.times, i64::try_from(seal.rows).unwrap_or(i64::MAX));
                let last_seq = noted.get(&name).map_or(0, |live| live.last_seq);
                let name = name.clone();
                LiveFile { name, day, last_seq, entities, writable: false, times, role, seal: Some(seal) }
            }
            None => {
                let mut file = DayFile::open(&path, &day)?;
                report.extend(without_copies(&mut file, &name)?);
                let Recounted { last_seq, entities, times } = file.recount()?;
                file.close()?;
                let name = name.clone();
                LiveFile { name, day, last_seq, entities, writable: false, times, role, seal: None }
            }
        };
        let (last_seq, entities) = (live.last_seq, live.entities);
        match noted.get(&name) {
            Some(known) if (known.last_seq, known.entities) == (last_seq, entities) => {}
            Some(known) => {
                let (more, what) = match entities - known.entities {
                    more @ 0.. => (more, "more than the catalog recorded: kept; their sources may be read again"),
                    fewer => (-fewer, "fewer than the catalog recorded: missing"),
                };
                report.push(format!("{name}: {more} entities {what}"));
            }
            None => report.push(format!("{name}: {entities} entities that the catalog did not name: kept")),
        }
        committed = committed.max(last_seq);
        name_file(&mut catalog, &live, generation)?;
    }
    let set = catalog.connection().execute("UPDATE state SET committed = max(committed, ?1)", [committed]);
    set.map_err(StoreError::sqlite(Catalog::path_in(data_dir)))?;
    if let (records, rows) = catalog.balance_accounts()?
        && (records, rows) != (0, 0)
    {
        report.push(format!(
            "the accounts were out by {records} records and {rows} rows, and were balanced with the rows found"
        ));
    }
    put_aside(&layout, &catalog, &mut report)?;
    lock.check()?;
    catalog.close()?;
    match copy {
        // Everything matched: the catalog stays.
        Some(copy) if report.is_empty() => std::fs::remove_file(&copy).map_err(StoreError::io(&copy))?,
        Some(copy) => report.insert(0, format!("the catalog as it was is kept as {}", copy.escaped())),
        None => {}
    }
    Ok(report)
}

/// Drops what a file has more than once. Returns a line about it. After a damaged page, which `verify` names, the copies stay until
/// the day is sealed.
fn without_copies(file: &mut DayFile, name: &str) -> Result<Option<String>, StoreError> {
    match drop_copies(file) {
        Ok(None) => Ok(None),
        Ok(Some(DroppedCopies { pages, entities, left })) => {
            let later = if left > 0 { format!("; {left} more go when the day is sealed") } else { String::new() };
            Ok(Some(format!(
                "{name}: dropped {entities} entities of {pages} pages that later pages have as well: pages were merged more than once{later}"
            )))
        }
        Err(error) if error.is_damage() => Ok(Some(format!(
            "{name}: {error}; its pages have entities more than once, which stay until the day is sealed"
        ))),
        Err(error) => Err(error),
    }
}

/// Moves unused files with rows out of `tables/`.
fn put_aside(layout: &FolderLayout, catalog: &Catalog, report: &mut Vec<String>) -> Result<(), StoreError> {
    for file in unnamed_files::find(&layout.tables(), catalog)? {
        let (Some(rows), name) = (file.rows(), file.name) else { continue };
        let aside = layout.data.join("aside");
        private_file::create_folder(&aside)?;
        let beside = match manifest_of(&name) {
            Some(manifest) => vec![manifest],
            // Journals first, as in `discard`.
            None => vec![format!("{name}-shm"), format!("{name}-wal")],
        };
        // First every file gets a second name, then the first names are removed. A kill in between leaves complete
        // files under one of the names.
        for part in beside.iter().chain([&name]) {
            let (from, to) = (layout.table_file(part), aside.join(part));
            match std::fs::hard_link(&from, &to) {
                Err(e) if e.kind() == ErrorKind::AlreadyExists && !is_same_file(&from, &to) => {
                    let what =
                        "it is in the way of a file of that name in tables/: move it elsewhere, and run repair again";
                    return Err(StoreError::Foreign(to, what.into()));
                }
                Err(e) if !matches!(e.kind(), ErrorKind::AlreadyExists | ErrorKind::NotFound) => {
                    return Err(StoreError::io(from)(e));
                }
                _ => {}
            }
        }
        private_file::sync(&aside)?;
        for part in [&name].into_iter().chain(&beside) {
            let from = layout.table_file(part);
            match std::fs::remove_file(&from) {
                Err(e) if e.kind() != ErrorKind::NotFound => return Err(StoreError::io(from)(e)),
                _ => {}
            }
        }
        private_file::sync(&layout.tables())?;
        report.push(format!("{name}: {rows} entities that were not used: moved to {}", aside.display()));
    }
    Ok(())
}

/// Whether two names lead to the same file.
fn is_same_file(one: &Path, other: &Path) -> bool {
    let file = |path: &Path| path.symlink_metadata().map(|file| (file.dev(), file.ino())).ok();
    file(one).is_some() && file(one) == file(other)
}

/// The outcome for the old catalog.
#[derive(Default)]
struct OldCatalog {
    /// A copy, if the catalog stays in use.
    copy: Option<PathBuf>,
    report: Vec<String>,
}

/// The catalog, if its needed parts can be read.
fn is_whole(catalog: Catalog) -> Result<Catalog, StoreError> {
    catalog.entered_sources()?;
    catalog.check_source_log()?;
    catalog.committed()?;
    Ok(catalog)
}

/// Copies the catalog aside. If it is foreign or damaged, moves it instead, so that a new one is created.
fn keep_old_catalog(layout: &FolderLayout) -> Result<OldCatalog, StoreError> {
    let path = Catalog::path_in(&layout.data);
    if !path.exists() {
        let report = "catalog.db: missing, created again; every followed file is read from its beginning".into();
        return Ok(OldCatalog { copy: None, report: vec![report] });
    }
    let aside = (1..).map(|n| layout.data.join(format!("catalog.before-repair-{n}.db"))).find(|path| !path.exists());
    let Some(aside) = aside else { return Ok(OldCatalog::default()) };
    match Catalog::open_to_repair(&layout.data).and_then(is_whole).and_then(Catalog::close) {
        Ok(()) => {
            std::fs::copy(&path, &aside).map_err(StoreError::io(&aside))?;
            let mut catalog = Catalog::open_to_repair(&layout.data)?;
            let report = catalog.repair_source_log()?;
            catalog.close()?;
            Ok(OldCatalog { copy: Some(aside), report })
        }
        // The catalog is intact, but of another program or version.
        Err(
            error @ (StoreError::NewerFormat { .. }
            | StoreError::OlderFormat { .. }
            | StoreError::Refused(_)
            | StoreError::Io { .. }
            | StoreError::Full(_)),
        ) => Err(error),
        Err(error) => {
            for suffix in ["-shm", "-wal", ""] {
                let from = layout.data.join(format!("catalog.db{suffix}"));
                let mut to = aside.as_os_str().to_owned();
                to.push(suffix);
                match std::fs::rename(&from, &to) {
                    Err(e) if e.kind() != std::io::ErrorKind::NotFound => return Err(StoreError::io(from)(e)),
                    _ => {}
                }
            }
            let report = format!("catalog.db: {error}; kept as {} and created again", aside.escaped());
            Ok(OldCatalog { copy: None, report: vec![report] })
        }
    }
}

/// A file of a day.
struct Found {
    day: DayTable,
    generation: i64,
    name: String,
    role: FileRole,
    seal: Option<Seal>,
}

/// The files of each day that are data. If the old catalog named files of the day: the existing ones and all later
/// ones. If it named none: the last sealed file and all later files, or else all files, which are the inputs of an
/// unfinished seal and the file that accepted records meanwhile. A sealed file counts if one of its inputs is missing.
/// Other files stay in place and are reported.
fn live_files(
    layout: &FolderLayout,
    noted: &HashMap<String, LiveFile>,
    report: &mut Vec<String>,
) -> Result<Vec<Found>, StoreError> {
    let folder = layout.tables();
    let mut days: BTreeMap<DayTable, Vec<Found>> = BTreeMap::new();
    for entry in std::fs::read_dir(&folder).map_err(StoreError::io(&folder))? {
        let entry = entry.map_err(StoreError::io(&folder))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_beside = ["-wal", "-shm", ".manifest.json", ".partial"].iter().any(|end| name.ends_with(end));
        if is_beside {
            continue;
        }
        match open(layout, &name) {
            Ok(Some(found)) => days.entry(found.day.clone()).or_default().push(found),
            Ok(None) => report.push(format!("{name}: not the name of a day's file, left alone")),
            Err(error) => report.push(format!("{name}: {error}: left alone")),
        }
    }
    let mut live = Vec::new();
    for mut files in days.into_values() {
        files.sort_by_key(|found| found.generation);
        let replacing = replacing(&files, noted);
        files.retain(|found| replacing.is_none_or(|from| found.generation >= from));
        let known = files.iter().filter(|found| noted.contains_key(&found.name)).map(|found| found.generation).max();
        let known = known.filter(|_| replacing.is_none());
        let sealed = files.iter().filter(|found| found.seal.is_some()).map(|found| found.generation).max();
        let from = known.or(sealed).unwrap_or(0);
        let mut role = FileRole::Open;
        for mut found in files.into_iter().rev() {
            let is_known = noted.get(&found.name);
            // A seal that was unfinished when the catalog was lost is repeated from its inputs.
            let is_later = found.generation > from && found.seal.is_none();
            let is_last = known.is_none() && found.generation == from;
            if is_known.is_none() && !is_later && !is_last {
                report.push(format!("{}: an older generation, left alone", found.name));
                continue;
            }
            if let Some(known) = is_known.filter(|_| found.seal.is_none()) {
                found.role = known.role;
                role = FileRole::Closed;
            } else if found.seal.is_none() && found.role != FileRole::Outbox {
                found.role = role;
                // Only one file accepts records.
                role = FileRole::Closed;
            }
            live.push(found);
        }
    }
    live.sort_by(|a, b| (&a.day, a.generation).cmp(&(&b.day, b.generation)));
    Ok(live)
}

/// The generation of the last sealed file that the old catalog did not name, if one of the files that it named is
/// missing: that file was removed because the sealed file had all its rows.
fn replacing(files: &[Found], noted: &HashMap<String, LiveFile>) -> Option<i64> {
    let is_sealed = |found: &&Found| found.seal.is_some() && !noted.contains_key(&found.name);
    let sealed = files.iter().filter(is_sealed).max_by_key(|found| found.generation)?;
    let mut before = noted.values().filter(|live| live.day == sealed.day && live.generation() < sealed.generation);
    before.any(|live| !files.iter().any(|found| found.name == live.name)).then_some(sealed.generation)
}

/// The day's file of this name; none if the name is not a day's file.
fn open(layout: &FolderLayout, name: &str) -> Result<Option<Found>, StoreError> {
    let path = layout.table_file(name);
    if let Some((day, generation)) = parse_file_name(name) {
        let file = crate::sqlite::open_to_read(&path)?;
        crate::format::day_file::read_total(&file).map_err(StoreError::sqlite(&path))?;
        let role = match is_outbox(&file).map_err(StoreError::sqlite(&path))? {
            true => FileRole::Outbox,
            false => FileRole::Open,
        };
        return Ok(Some(Found { day, generation, name: name.into(), role, seal: None }));
    }
    let of_sealed = name.strip_suffix(EXTENSION).and_then(|stem| stem.rsplit_once('.'));
    let Some((day, generation)) = of_sealed else { return Ok(None) };
    let (Ok(day), Ok(generation)) = (DayTable::parse(day), generation.parse()) else { return Ok(None) };
    let (sealed, manifest) = (SealedFile::open_local(&path)?, Manifest::read_beside(&path)?);
    if (sealed.rows(), sealed.bytes()) != (manifest.rows, manifest.bytes) {
        return Err(StoreError::Foreign(path, "its manifest is of another file".into()));
    }
    let (bytes, sha256, rows, times) = (manifest.bytes, manifest.sha256, manifest.rows, sealed.times());
    let seal = Seal { bytes, sha256, rows, times, at: time::now() };
    Ok(Some(Found { day, generation, name: name.into(), role: FileRole::Sealed, seal: Some(seal) }))
}

fn forget(catalog: &Catalog, name: &str) -> Result<(), StoreError> {
    let done = catalog.connection().execute("DELETE FROM file WHERE name = ?1", [name]);
    done.map(drop).map_err(StoreError::sqlite(&catalog.path))
}

fn name_file(catalog: &mut Catalog, live: &LiveFile, generation: i64) -> Result<(), StoreError> {
    let generation = catalog.generation(&live.day)?.max(generation);
    let known = catalog.days()?.into_iter().find(|day| day.table == live.day).map(|day| day.state);
    forget(catalog, &live.name)?;
    catalog.put_file(live, generation, time::now(), matches!(known, Some(DayState::Restored { .. })))
}
