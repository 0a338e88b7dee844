//! Open days in the table of an archive: sealed files of their parts, until the day itself is archived.
//!
//! ```text
//! put_part:  file uploaded, read back                       not in the table yet
//! publish:   one version: remove and add parts, txn         an engine sees the parts before, or those after
//! put:       one version: remove all parts, add the day     the same for the day itself
//! ```
//!
//! * The log is the only place that says which parts there are: what each has is noted at its `add` (`FROM_TAG`,
//!   `COMMIT_TAG`, `RECORDS_TAG`). A part has the rows of the day from its time on, up to the part after it, so equal keys are in one part.
//! * The number of the `txn` action is the *position*: it tells the last change of this daytable from all others. A change
//!   names the position that it was made for, and is not made at another one. So whoever noted the position before the change,
//!   and the one after it, knows whether what the table has is its own.
//! * Names are random, and no name is used twice. A part whose commit never came, and one that left the table, is swept as other
//!   files are.

use super::delta_table::{added, has_columns};
use super::names::{ArchiveName, ArchiveObject};
use super::put::unproven;
use super::{Archive, ArchiveError, ArchivedDay, delta_table, folder};
use daytable_delta::{AddedFile, DeltaAction, TableSnapshot};
use daytable_model::key::{DayTable, TableName};
use daytable_model::time::Ticks;
use daytable_store::sealed::{ArchiveHome, Manifest, PropertyColumn};
use daytable_store::{OnProgress, Phase};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher};
use std::path::Path;

/// The note of a part with the first of its times, in ticks.
const FROM_TAG: &str = "daytable.from";
/// The note of a part with the last commit of which it has all rows.
const COMMIT_TAG: &str = "daytable.commit";

/// The note of a part with the number of its records. Its rows are as many or more: a record may be several.
const RECORDS_TAG: &str = "daytable.records";

/// A part of an open day that is in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenDayPart {
    /// Its path below the table.
    pub path: String,
    /// From which time on it has the rows of its day. The first part has all before, too.
    pub from: Ticks,
    /// The last commit of which it has all rows.
    pub commit: i64,
    /// Its rows.
    pub rows: u64,
    /// Its records, each with a key of its own.
    pub records: u64,
}

/// What of a daytable's open days is in the table of its archives.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenDays {
    /// The parts of each day, the earliest first. `None` if they are not parts as this daytable makes them: of a host of another
    /// name, say.
    pub parts: BTreeMap<DayTable, Option<Vec<OpenDayPart>>>,
    /// The paths of all parts of each day.
    pub paths: BTreeMap<DayTable, BTreeSet<String>>,
    /// Days that the table has as archives.
    pub archived: BTreeSet<DayTable>,
    /// The last change of this daytable. `None` before the first one.
    pub position: Option<i64>,
}

/// A part that was uploaded and read back.
#[derive(Clone, Debug, PartialEq)]
pub struct UploadedPart {
    file: AddedFile,
    columns: Vec<PropertyColumn>,
    /// Its rows.
    pub rows: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// What becomes of a day.
#[derive(Clone, Debug, PartialEq)]
pub struct DayChange {
    /// The day.
    pub table: DayTable,
    /// The paths of all of its parts that the table had when the change was planned.
    pub before: BTreeSet<String>,
    /// Those of them that go.
    pub removed: BTreeSet<String>,
    /// Those that come.
    pub added: Vec<UploadedPart>,
}

/// A change of the open days of a table.
#[derive(Clone, Debug, PartialEq)]
pub struct PublishedChange {
    /// The position for which it was planned.
    pub before: Option<i64>,
    /// The position after it.
    pub after: i64,
    /// The days.
    pub days: Vec<DayChange>,
}

impl Archive {
    /// What the table has of the open days of this daytable, whatever its host was called.
    ///
    /// # Errors
    ///
    /// [`ArchiveError::Log`] if the log of the table cannot be read.
    pub fn open_days(&self, table: &TableName, home: &ArchiveHome) -> Result<OpenDays, ArchiveError> {
        Ok(of_snapshot(&self.table_now(table)?, table, home))
    }

    /// Uploads a file with a part of an open day, and reads it back. The table does not have it yet.
    ///
    /// # Errors
    ///
    /// As for [`Archive::put`].
    pub fn put_part(
        &self,
        (manifest, home): (&Manifest, &ArchiveHome),
        sealed: &Path,
        (from, commit): (Ticks, i64),
        on: &mut OnProgress<'_>,
    ) -> Result<UploadedPart, ArchiveError> {
        let source = |what: String| ArchiveError::Source { path: sealed.into(), what };
        let table = DayTable::parse(&manifest.table).map_err(|error| source(error.to_string()))?;
        // Random keys: a part is never written over another one.
        let part = Some(std::hash::RandomState::new().build_hasher().finish());
        let name = ArchiveName { table, home: home.clone(), generation: 0, part };
        let mut file = added(&name, manifest);
        let (from, commit, records) = (from.get().to_string(), commit.to_string(), manifest.records.to_string());
        let tags = [(FROM_TAG, from), (COMMIT_TAG, commit), (RECORDS_TAG, records)];
        file.tags = tags.map(|(tag, value)| (tag.to_owned(), value)).into();
        let archived = ArchivedDay { name, manifest: manifest.clone() };
        self.wait(self.send_part(&archived, sealed, on))?;
        Ok(UploadedPart { file, columns: manifest.columns.clone(), rows: manifest.rows, bytes: manifest.bytes })
    }

    async fn send_part(
        &self,
        archived: &ArchivedDay,
        sealed: &Path,
        on: &mut OnProgress<'_>,
    ) -> Result<(), ArchiveError> {
        if let Some(file) = self.file(&archived.name, ArchiveObject::Data) {
            folder::make_parents(self.url(), &file)?;
        }
        self.upload(archived, sealed, on).await?;
        let read = self.read_whole(archived, Phase::ReadBack, on, |_| Ok(())).await;
        read.map(drop).map_err(|error| unproven(error, self.address(&archived.name, ArchiveObject::Data)))
    }

    /// Makes a change of the open days of a table, in one version. False if the table is no longer as the change was planned for:
    /// then nothing was changed. A day that was archived meanwhile loses its parts instead.
    ///
    /// # Errors
    ///
    /// [`ArchiveError::Log`] if the log of the table cannot be read or written.
    pub fn publish(
        &self,
        table: &TableName,
        home: &ArchiveHome,
        change: &PublishedChange,
    ) -> Result<bool, ArchiveError> {
        let Some(log) = self.log(table) else { return Ok(false) };
        let snapshot = self.commit(table, &log, |snapshot| changed(snapshot, table, home, change))?;
        Ok(snapshot.transaction(&application(home)) == Some(change.after))
    }
}

/// The name under which a daytable notes its position.
fn application(home: &ArchiveHome) -> String {
    format!("daytable-open-{}", home.origin())
}

fn of_snapshot(snapshot: &TableSnapshot, table: &TableName, home: &ArchiveHome) -> OpenDays {
    let mut open = OpenDays { position: snapshot.transaction(&application(home)), ..OpenDays::default() };
    for file in snapshot.files() {
        let Some((name, ArchiveObject::Data)) = ArchiveName::parse(&format!("{table}/{}", file.path)) else { continue };
        if name.home.origin() != home.origin() {
            continue;
        }
        let is_part = name.part.is_some();
        if !is_part {
            open.archived.insert(name.table);
            continue;
        }
        open.paths.entry(name.table.clone()).or_default().insert(file.path.to_string());
        let parts = open.parts.entry(name.table).or_insert_with(|| Some(Vec::new()));
        let part = part_of(file).filter(|_| name.home == *home);
        match (parts.as_mut(), part) {
            (Some(parts), Some(part)) => parts.push(part),
            _ => *parts = None,
        }
    }
    for parts in open.parts.values_mut() {
        let Some(some) = parts else { continue };
        some.sort_by_key(|part| part.from);
        if some.windows(2).any(|two| two[0].from == two[1].from) {
            *parts = None;
        }
    }
    open
}

fn part_of(file: &AddedFile) -> Option<OpenDayPart> {
    let tag = |name: &str| file.tags.get(name)?.parse::<i64>().ok();
    let stats: Value = serde_json::from_str(file.stats.as_deref()?).ok()?;
    Some(OpenDayPart {
        path: file.path.to_string(),
        from: Ticks::new(tag(FROM_TAG)?)?,
        commit: tag(COMMIT_TAG)?,
        rows: stats["numRecords"].as_u64()?,
        records: u64::try_from(tag(RECORDS_TAG)?).ok()?,
    })
}

/// The commit that makes a change; none if the table is not as it was planned for, or does not know the columns of a part.
fn changed(
    snapshot: &TableSnapshot,
    table: &TableName,
    home: &ArchiveHome,
    change: &PublishedChange,
) -> Vec<DeltaAction> {
    let now = of_snapshot(snapshot, table, home);
    let mut added = change.days.iter().flat_map(|day| &day.added);
    let is_named = snapshot.version().is_some() && added.all(|part| has_columns(snapshot, &part.columns));
    if now.position != change.before || !is_named {
        return Vec::new();
    }
    let mut actions = Vec::new();
    for day in &change.days {
        let there = now.paths.get(&day.table).cloned().unwrap_or_default();
        let is_archived = now.archived.contains(&day.table);
        if !is_archived && there != day.before {
            return Vec::new();
        }
        let removed = if is_archived { &there } else { &day.removed };
        let files = removed.iter().filter_map(|path| snapshot.file(path));
        actions.extend(files.map(|file| DeltaAction::RemoveFile(file.removal(delta_table::now()))));
        if !is_archived {
            actions.extend(day.added.iter().map(|part| DeltaAction::AddFile(part.file.clone())));
        }
    }
    actions.push(DeltaAction::Txn { app_id: application(home), version: change.after });
    actions
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Access, ArchiveUrl, RetryPolicy, TableFormat};
    use daytable_model::property::to_hex;
    use sha2::{Digest, Sha256};
    use std::collections::BTreeMap;
    use std::ops::ControlFlow;

    struct Place {
        folder: tempfile::TempDir,
        archive: Archive,
        table: TableName,
        day: DayTable,
    }

    impl Place {
        fn new() -> Place {
            let folder = tempfile::tempdir().expect("a folder");
            let url: ArchiveUrl = format!("file://{}/lake", folder.path().display()).parse().expect("an address");
            let access = Access { table_format: TableFormat::Delta, ..Access::default() };
            let archive = Archive::open_to_write(&url, &access, &RetryPolicy::QUERY).expect("opened");
            let (table, day) = (TableName::new("Log").expect("a name"), DayTable::parse("Log20261120").expect("a day"));
            archive.claim_names(&table, &[]).expect("a table");
            Place { folder, archive, table, day }
        }

        /// A file and its manifest. What is in it does not matter here.
        fn file(&self, generation: i64, rows: u64) -> (Manifest, std::path::PathBuf) {
            let (path, bytes) = (self.folder.path().join("file"), format!("{generation} {rows}"));
            std::fs::write(&path, &bytes).expect("written");
            let manifest = Manifest {
                format: 2,
                table: self.day.to_string(),
                generation,
                rows,
                records: rows,
                bytes: bytes.len() as u64,
                sha256: to_hex(&Sha256::digest(&bytes)),
                content: String::new(),
                first_key: None,
                last_key: None,
                first_time: Some("2026-11-20T01:00:00Z".into()),
                last_time: Some("2026-11-20T02:00:00Z".into()),
                commits: None,
                levels: BTreeMap::new(),
                columns: Vec::new(),
                program: String::new(),
                home: None,
            };
            (manifest, path)
        }

        fn part(&self, home: &ArchiveHome, from: i64, commit: i64, rows: u64) -> UploadedPart {
            let (manifest, path) = self.file(0, rows);
            let at = (Ticks::new(from).expect("a time"), commit);
            self.archive.put_part((&manifest, home), &path, at, &mut |_| ControlFlow::Continue(())).expect("sent")
        }

        fn publish(
            &self,
            home: &ArchiveHome,
            (before, after): (Option<i64>, i64),
            removed: &BTreeSet<String>,
            added: Vec<UploadedPart>,
        ) -> bool {
            let paths = self.open(home).paths.get(&self.day).cloned().unwrap_or_default();
            let day = DayChange { table: self.day.clone(), before: paths, removed: removed.clone(), added };
            let change = PublishedChange { before, after, days: vec![day] };
            self.archive.publish(&self.table, home, &change).expect("an answer")
        }

        fn open(&self, home: &ArchiveHome) -> OpenDays {
            self.archive.open_days(&self.table, home).expect("read")
        }

        fn put(&self, home: &ArchiveHome, generation: i64) {
            let (mut manifest, path) = self.file(generation, 9);
            manifest.home = Some(home.clone());
            self.archive.put(&manifest, &path, &mut |_| ControlFlow::Continue(())).expect("archived");
        }

        fn files(&self) -> usize {
            self.archive.table_now(&self.table).expect("read").files().len()
        }
    }

    fn home(host: &str) -> ArchiveHome {
        ArchiveHome::new(host, "0123456789abcdef0123456789abcdef".parse().expect("an origin"))
    }

    #[test]
    fn parts_are_known_by_the_log_alone_and_change_where_they_were_planned_for() {
        let (place, home) = (Place::new(), home("web-1"));
        assert_eq!(place.open(&home), OpenDays::default());
        let parts = vec![place.part(&home, 500, 7, 3), place.part(&home, 0, 6, 4)];
        assert!(place.publish(&home, (None, 1), &BTreeSet::new(), parts));
        let open = place.open(&home);
        let found = open.parts[&place.day].clone().expect("parts");
        let told: Vec<_> = found.iter().map(|part| (part.from.get(), part.commit, part.rows)).collect();
        assert_eq!((told, open.position), (vec![(0, 6, 4), (500, 7, 3)], Some(1)));
        // Another position: nothing changes.
        let late = place.part(&home, 500, 8, 5);
        let removed = BTreeSet::from([found[1].path.clone()]);
        assert!(!place.publish(&home, (None, 2), &removed, vec![late.clone()]));
        assert_eq!(place.open(&home), open);
        assert!(place.publish(&home, (Some(1), 2), &removed, vec![late]));
        let rows: Vec<u64> = place.open(&home).parts[&place.day].iter().flatten().map(|part| part.rows).collect();
        assert_eq!(rows, [4, 5]);
        // Two parts from one time on are not as this daytable makes them.
        assert!(place.publish(&home, (Some(2), 3), &BTreeSet::new(), vec![place.part(&home, 500, 9, 1)]));
        let open = place.open(&home);
        assert_eq!((&open.parts[&place.day], open.paths[&place.day].len()), (&None, 3));
    }

    #[test]
    fn an_archive_takes_the_place_of_all_parts_of_its_day() {
        let place = Place::new();
        let (web, renamed) = (home("web-1"), home("web-2"));
        let other = ArchiveHome::new("web-1", "ffffffffffffffffffffffffffffffff".parse().expect("an origin"));
        assert!(place.publish(&other, (None, 5), &BTreeSet::new(), vec![place.part(&other, 0, 1, 2)]));
        assert!(place.publish(&web, (None, 1), &BTreeSet::new(), vec![place.part(&web, 0, 1, 2)]));
        let of_renamed = place.open(&renamed);
        assert_eq!((&of_renamed.parts[&place.day], of_renamed.position), (&None, Some(1)));
        let planned = place.part(&renamed, 0, 2, 3);
        place.put(&renamed, 1);
        assert_eq!(place.files(), 2, "the archive, and the part of another daytable");
        let open = place.open(&renamed);
        assert!(open.paths.is_empty() && open.archived.contains(&place.day));
        // What was planned before the archive came is not added.
        assert!(place.publish(&renamed, (Some(1), 2), &BTreeSet::new(), vec![planned]));
        assert_eq!(place.files(), 2);
        assert_eq!(place.open(&other).paths[&place.day].len(), 1);
        // Parts are not archives.
        let listing = place.archive.list(std::slice::from_ref(&place.table), &|_, _| true).expect("listed");
        assert_eq!((listing.archives.len(), listing.faulty.len()), (1, 0));
        // A later generation takes the place of the archive alone.
        place.put(&renamed, 2);
        assert_eq!(place.files(), 2);
    }

    /// What a file of the folder is called, and how old it seems.
    fn set_age(place: &Place, part: &str, hours: u64) {
        let is_it = |path: &std::path::PathBuf| path.to_string_lossy().contains(part);
        let found: Vec<_> = below(&place.folder.path().join("lake")).into_iter().filter(is_it).collect();
        assert!(!found.is_empty(), "{part}");
        for path in found {
            let file = std::fs::File::options().append(true).open(path).expect("opened");
            let at = std::time::SystemTime::now() - std::time::Duration::from_secs(3600 * hours);
            file.set_modified(at).expect("set");
        }
    }

    fn below(folder: &Path) -> Vec<std::path::PathBuf> {
        let entries = std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path());
        entries.flat_map(|path| if path.is_dir() { below(&path) } else { vec![path] }).collect()
    }

    /// Which files are swept does not depend on what the host is called, nor on whether archives are a table by now.
    #[test]
    fn files_are_swept_by_their_folder_and_the_log() {
        let (place, renamed) = (Place::new(), home("web-2"));
        let other = ArchiveHome::new("web-1", "ffffffffffffffffffffffffffffffff".parse().expect("an origin"));
        place.part(&home("web-1"), 0, 1, 2);
        place.part(&other, 0, 1, 2);
        set_age(&place, ".open-", 30);
        let access = Access { table_format: TableFormat::None, ..Access::default() };
        let plain = Archive::open_to_write(place.archive.url(), &access, &RetryPolicy::QUERY).expect("opened");
        assert_eq!(plain.sweep(&place.table, &renamed).expect("swept"), 1);
        assert_eq!(place.archive.sweep(&place.table, &renamed).expect("swept"), 0);
        assert_eq!(place.archive.sweep(&place.table, &other).expect("swept"), 1);
        // Without a log there is no table, and nothing of it.
        place.part(&renamed, 0, 1, 2);
        set_age(&place, ".open-", 30);
        std::fs::remove_dir_all(place.folder.path().join("lake/Log/_delta_log")).expect("removed");
        assert_eq!(plain.sweep(&place.table, &renamed).expect("swept"), 0);
    }

    /// A clock that is ahead makes nothing old: what came a moment ago by the clock of the store stays.
    #[test]
    fn ages_are_those_of_the_store() {
        let (place, home) = (Place::new(), home("web-1"));
        place.part(&home, 0, 1, 2);
        // As if the clock of this host were thirty hours ahead of the store's, in which all of it came at once.
        set_age(&place, "", 30);
        assert_eq!(place.archive.sweep(&place.table, &home).expect("swept"), 0);
        // A day later something else came.
        set_age(&place, "_delta_log", 5);
        assert_eq!(place.archive.sweep(&place.table, &home).expect("swept"), 1);
    }

    /// A table that was made anew meanwhile may call columns otherwise, so a file that was named for the one before stays out.
    #[test]
    fn a_file_with_columns_that_the_table_does_not_know_stays_out() {
        let (place, home) = (Place::new(), home("web-1"));
        let column = |name: &str| PropertyColumn {
            name: name.into(),
            property: "status".into(),
            kind: daytable_model::property::PropertyKind::Int64,
        };
        place.archive.claim_names(&place.table, &[column("")]).expect("claimed");
        let put = |generation: i64, name: &str| {
            let (manifest, path) = place.file(generation, 3);
            let manifest = Manifest { columns: vec![column(name)], home: Some(home.clone()), ..manifest };
            place.archive.put(&manifest, &path, &mut |_| ControlFlow::Continue(()))
        };
        put(1, "status").expect("archived");
        let error = put(2, "status_int64").expect_err("another name");
        assert!(matches!(error, crate::ArchiveError::Renamed { .. }), "{error}");
        let (manifest, path) = place.file(0, 3);
        let manifest = Manifest { columns: vec![column("status_int64")], table: "Log20261121".into(), ..manifest };
        let at = (Ticks::new(0).expect("a time"), 1);
        let part =
            place.archive.put_part((&manifest, &home), &path, at, &mut |_| ControlFlow::Continue(())).expect("sent");
        let day = DayTable::parse("Log20261121").expect("a day");
        let change = DayChange { table: day, before: BTreeSet::new(), removed: BTreeSet::new(), added: vec![part] };
        let change = PublishedChange { before: None, after: 1, days: vec![change] };
        assert!(!place.archive.publish(&place.table, &home, &change).expect("an answer"));
        assert_eq!(place.files(), 1);
    }
}
