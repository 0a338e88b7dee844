//! Open days in the table of an archive: sealed files of their parts, until the day itself is archived.
//!
//! ```text
//! put_part:  file uploaded, read back                       not in the table yet
//! publish:   one version: remove and add parts, txn         an engine sees the parts before, or those after
//! put:       one version: remove all parts, add the day     the same for the day itself
//! ```
//!
//! * The log is the only place that says which parts there are: what each has is noted at its `add` ([`FROM_TAG`],
//!   [`COMMIT_TAG`]). A part has the rows of the day from its time on, up to the part after it, so equal keys are in one part.
//! * The number of the `txn` action is the *position*: it tells the last change of this daytable from all others. A change
//!   names the position that it was made for, and is not made at another one. So whoever noted the position before the change,
//!   and the one after it, knows whether what the table has is its own.
//! * Names are random, and no name is used twice. A part whose commit never came, and one that left the table, is swept as other
//!   files are.

use super::delta_table::added;
use super::names::{ArchiveName, ArchiveObject};
use super::put::unproven;
use super::{Archive, ArchiveError, ArchivedDay, delta_table, folder};
use daytable_delta::{AddedFile, DeltaAction, TableSnapshot};
use daytable_model::key::{DayTable, TableName};
use daytable_model::time::Ticks;
use daytable_store::sealed::{ArchiveHome, Manifest};
use daytable_store::{OnProgress, Phase};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{BuildHasher, Hasher};
use std::path::Path;

/// The note of a part with the first of its times, in ticks.
const FROM_TAG: &str = "daytable.from";
/// The note of a part with the last commit of which it has all rows.
const COMMIT_TAG: &str = "daytable.commit";

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
        let tags = [(FROM_TAG, from.get().to_string()), (COMMIT_TAG, commit.to_string())];
        file.tags = tags.map(|(tag, value)| (tag.to_owned(), value)).into();
        let archived = ArchivedDay { name, manifest: manifest.clone() };
        self.wait(self.send_part(&archived, sealed, on))?;
        Ok(UploadedPart { file, rows: manifest.rows, bytes: manifest.bytes })
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
    })
}

/// The commit that makes a change; none if the table is not as it was planned for.
fn changed(
    snapshot: &TableSnapshot,
    table: &TableName,
    home: &ArchiveHome,
    change: &PublishedChange,
) -> Vec<DeltaAction> {
    let now = of_snapshot(snapshot, table, home);
    if now.position != change.before {
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
