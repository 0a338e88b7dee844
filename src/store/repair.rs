//! `daytable repair`: a catalogue that agrees with the files again, when one of them came from a backup or was lost.
//!
//! The old catalogue is kept beside the new state under another name, and no row is removed. What a file holds beyond
//! what the catalogue noted becomes data (its source was told nothing of it, so it may be read again: records with a
//! time of their own get the same keys, others are there twice); what the catalogue noted and no file holds is missing.
//! Positions stay as the old catalogue has them. Both are said, a line each.

use super::StoreError;
use super::catalogue::{Catalogue, LiveFile, Role};
use super::day::{DayFile, Recounted};
use super::open::{Layout, parse_file_name};
use crate::key::DayTable;
use crate::time;
use rusqlite::params;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// Makes the catalogue of a folder agree with its files. Gives what was done, a line each; nothing is said where
/// everything agreed.
pub fn repair(data_dir: &Path) -> Result<Vec<String>, StoreError> {
    let layout = Layout { data: data_dir.into() };
    if !layout.tables().is_dir() {
        return Err(StoreError::NoStore(data_dir.into()));
    }
    let _lock = layout.lock()?;
    let Aside { copy, mut said } = keep_old_catalogue(&layout)?;
    let mut catalogue = Catalogue::open_to_write(data_dir)?;
    let noted: HashMap<DayTable, LiveFile> =
        catalogue.files()?.into_iter().map(|file| (file.day.clone(), file)).collect();
    let dropped = catalogue.dropped()?;
    let mut committed = catalogue.committed()?.seq;

    let mut found = newest_files(&layout, &mut said)?;
    found.retain(|(day, _, name)| {
        let keep = !dropped.contains(day);
        if !keep {
            said.push(format!("{name}: its day was dropped, left alone"));
        }
        keep
    });
    for (day, file) in &noted {
        if !found.iter().any(|(d, ..)| d == day) {
            said.push(format!("{}: missing, with {} entities", file.name, file.entities));
            forget(&catalogue, day)?;
        }
    }
    for (day, generation, name) in found {
        let path = layout.table_file(&name);
        let mut file = DayFile::open(&path)?;
        let Recounted { last_seq, entities, times } = file.recount()?;
        match noted.get(&day) {
            Some(live) if live.name == name && (live.last_seq, live.entities) == (last_seq, entities) => {}
            Some(live) if live.name == name => {
                let (more, what) = match entities - live.entities {
                    more @ 0.. => (more, "more than the catalogue noted: kept; their sources may be read again"),
                    fewer => (-fewer, "fewer than the catalogue noted: missing"),
                };
                said.push(format!("{name}: {more} entities {what}"));
            }
            _ => said.push(format!("{name}: {entities} entities that the catalogue did not name: kept")),
        }
        committed = committed.max(last_seq);
        let live = LiveFile { name, day, last_seq, entities, writable: false, times, role: Role::Open, seal: None };
        name_file(&mut catalogue, &live, generation)?;
        file.close()?;
    }
    let set = catalogue.connection().execute("UPDATE state SET committed = max(committed, ?1)", [committed]);
    set.map_err(StoreError::sqlite(Catalogue::path_in(data_dir)))?;
    catalogue.close()?;
    match copy {
        // Everything agreed: it is what it was.
        Some(copy) if said.is_empty() => std::fs::remove_file(&copy).map_err(StoreError::io(&copy))?,
        Some(copy) => said.insert(0, format!("the catalogue as it was is kept as {}", copy.display())),
        None => {}
    }
    Ok(said)
}

/// What became of the old catalogue.
#[derive(Default)]
struct Aside {
    /// A copy of it, where it stays in use.
    copy: Option<PathBuf>,
    said: Vec<String>,
}

/// Copies the catalogue aside, or moves it there where it is not ours or not whole, so that a new one is made.
fn keep_old_catalogue(layout: &Layout) -> Result<Aside, StoreError> {
    let path = Catalogue::path_in(&layout.data);
    if !path.exists() {
        let said = "catalog.db: missing, made anew; every file that is followed is read from its beginning".into();
        return Ok(Aside { copy: None, said: vec![said] });
    }
    let aside = (1..).map(|n| layout.data.join(format!("catalog.before-repair-{n}.db"))).find(|path| !path.exists());
    let Some(aside) = aside else { return Ok(Aside::default()) };
    match Catalogue::open_to_write(&layout.data).and_then(|c| c.sources().map(|_| c)).and_then(Catalogue::close) {
        Ok(()) => {
            std::fs::copy(&path, &aside).map_err(StoreError::io(&aside))?;
            Ok(Aside { copy: Some(aside), said: Vec::new() })
        }
        Err(error @ (StoreError::NewerFormat { .. } | StoreError::Io { .. } | StoreError::Full(_))) => Err(error),
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
            let said = format!("catalog.db: {error}; kept as {} and made anew", aside.display());
            Ok(Aside { copy: None, said: vec![said] })
        }
    }
}

/// The file of the highest generation of each day; others are left alone and said.
fn newest_files(layout: &Layout, said: &mut Vec<String>) -> Result<Vec<(DayTable, i64, String)>, StoreError> {
    let folder = layout.tables();
    let mut newest: HashMap<DayTable, (i64, String)> = HashMap::new();
    for entry in std::fs::read_dir(&folder).map_err(StoreError::io(&folder))? {
        let entry = entry.map_err(StoreError::io(&folder))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name.ends_with("-wal") || name.ends_with("-shm") {
            continue;
        }
        let ours = super::day::open_to_read(&entry.path())
            .and_then(|(c, _)| super::day::read_total(&c).map_err(StoreError::sqlite(entry.path())));
        match (parse_file_name(&name), ours) {
            (Some((day, generation)), Ok(_)) => match newest.get(&day) {
                Some((other, _)) if *other > generation => {
                    said.push(format!("{name}: an older generation, left alone"))
                }
                _ => {
                    if let Some((_, older)) = newest.insert(day, (generation, name)) {
                        said.push(format!("{older}: an older generation, left alone"));
                    }
                }
            },
            (_, Err(error)) => said.push(format!("{name}: {error}: left alone")),
            (None, Ok(_)) => said.push(format!("{name}: not the name of a day's file, left alone")),
        }
    }
    let mut files: Vec<_> = newest.into_iter().map(|(day, (generation, name))| (day, generation, name)).collect();
    files.sort();
    Ok(files)
}

fn forget(catalogue: &Catalogue, day: &DayTable) -> Result<(), StoreError> {
    let done = catalogue.connection().execute("DELETE FROM file WHERE day = ?1", [day.to_string()]);
    done.map(drop).map_err(StoreError::sqlite("catalog.db"))
}

fn name_file(catalogue: &mut Catalogue, live: &LiveFile, generation: i64) -> Result<(), StoreError> {
    forget(catalogue, &live.day)?;
    catalogue.create_day(&live.day, generation, &live.name, time::now())?;
    let (oldest, newest) = live.times.map(|(oldest, newest)| (oldest.get(), newest.get())).unzip();
    let update =
        "UPDATE file SET last_seq = ?2, entities = ?3, writable = ?4, oldest = ?5, newest = ?6 WHERE name = ?1";
    let values = params![live.name, live.last_seq, live.entities, live.writable, oldest, newest];
    let done = catalogue.connection().execute(update, values);
    done.map(drop).map_err(StoreError::sqlite("catalog.db"))
}
