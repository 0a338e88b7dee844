//! Archives of a lake that its table does not have: what an answer over the table lacks.
//!
//! Once a table has a log, the log says which files it is. An archive with a manifest that the log does not name is of a host
//! without `table_format = "delta"`, of the time before the table, or of a host that was lost between manifest and log. Nobody
//! reads it, so it has to be named.
//!
//! Left aside: an archive whose day the log has of the same daytable in the same or a later generation, or in parts; one that
//! left the table in the last seven days, whose manifest is about to go; and one that came a moment ago ([`ENTERING_MAX`]), which is
//! on its way into the table.

use super::super::error::ArchiveError;
use super::super::names::{ArchiveName, ArchiveObject};
use super::super::{delta_table, folder};
use super::{Lake, LakeListing};
use crate::names::FoundObject;
use daytable_delta::TableSnapshot;
use daytable_model::key::{DayTable, TableName};
use daytable_model::time::Ticks;
use daytable_platform::in_parallel::by_threads;
use daytable_platform::lock;
use daytable_store::forward::position::FolderOrigin;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How long an archive may be on its way into the table.
const ENTERING_MAX: Duration = Duration::from_secs(600);
/// The longest period of a day-table, and a day more.
const PERIOD_MAX: Duration = Duration::from_secs(32 * 86_400);
/// Lists that are remembered.
const LISTS_MAX: usize = 64;

/// An archive that a table does not have.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LeftOutArchive {
    name: ArchiveName,
}

impl LeftOutArchive {
    /// The day-table.
    pub fn table(&self) -> &DayTable {
        &self.name.table
    }

    /// The host that archived it.
    pub fn host(&self) -> &str {
        self.name.home.host()
    }

    /// The name of the day for people.
    pub fn shown(&self) -> String {
        format!("{} of {}", self.name.table, self.host())
    }
}

/// The manifests of a table that were found in some days.
pub(super) struct ManifestList {
    at: Instant,
    /// The table, and the first and the last day as they stand in paths.
    of: (TableName, [String; 2]),
    /// Each with the time when it was written, in milliseconds since 1970.
    found: Arc<Vec<(ArchiveName, i64)>>,
}

impl Lake {
    /// The archives of day-tables of some times that the logs of their tables do not name, or why it is not known of a table.
    /// Asks for the objects of the days.
    pub fn left_out(
        &self,
        listing: &LakeListing,
        (from, to): (Ticks, Ticks),
    ) -> Vec<Result<LeftOutArchive, (TableName, ArchiveError)>> {
        let days = [day_of(from.minus(PERIOD_MAX)), day_of(to)];
        let is_asked = |name: &ArchiveName| name.table.start() <= to && from < name.table.end();
        let tables: Vec<(&TableName, &TableSnapshot)> = listing.logs.iter().collect();
        let found = by_threads(super::REQUESTS_MAX, tables, |(table, snapshot)| {
            let manifests = self.manifests(table, &days).map_err(|error| (table.clone(), error))?;
            let asked = manifests.iter().filter(|(name, _)| is_asked(name));
            Ok(left_out_of(snapshot, table, asked, delta_table::now()))
        });
        let mut left = Vec::new();
        for found in found {
            match found {
                Ok(archives) => left.extend(archives.into_iter().map(|name| Ok(LeftOutArchive { name }))),
                Err(error) => left.push(Err(error)),
            }
        }
        left
    }

    /// The manifests of a table whose day is one of these.
    fn manifests(&self, table: &TableName, days: &[String; 2]) -> Result<Arc<Vec<(ArchiveName, i64)>>, ArchiveError> {
        let of = (table.clone(), days.clone());
        let is_fresh = |list: &ManifestList| list.at.elapsed() < self.0.listed_for;
        if let Some(known) = lock(&self.0.manifests).iter().find(|list| list.of == of && is_fresh(list)) {
            return Ok(known.found.clone());
        }
        let [first, last] = days;
        let objects = match self.url().folder() {
            Some(root) => folder::objects_of(root, table, &|day| first.as_str() <= day && day <= last.as_str())?,
            None => self.0.storage.archive.objects_of_days(table, first, last)?,
        };
        let manifests = objects.into_iter().filter(|object| object.part == ArchiveObject::Manifest);
        let found: Vec<_> = manifests.map(|FoundObject { name, modified, .. }| (name, modified)).collect();
        let found = Arc::new(found);
        let mut lists = lock(&self.0.manifests);
        lists.retain(|list| is_fresh(list) && list.of != of);
        if lists.len() >= LISTS_MAX {
            lists.remove(0);
        }
        lists.push(ManifestList { at: Instant::now(), of, found: found.clone() });
        Ok(found)
    }
}

/// The day of a time as it stands in paths.
fn day_of(time: Ticks) -> String {
    let date = time.date();
    format!("{:04}-{:02}-{:02}", date.year, date.month, date.day)
}

/// What a table lacks of some manifests, each with the time when it was written. Times are in milliseconds since 1970.
fn left_out_of<'m>(
    snapshot: &TableSnapshot,
    table: &TableName,
    manifests: impl Iterator<Item = &'m (ArchiveName, i64)>,
    now: i64,
) -> Vec<ArchiveName> {
    let entered = now.saturating_sub(i64::try_from(ENTERING_MAX.as_millis()).unwrap_or(i64::MAX));
    let mut left: BTreeMap<(DayTable, FolderOrigin), &ArchiveName> = BTreeMap::new();
    for (name, written) in manifests {
        let path = delta_table::path_in_table(name);
        if snapshot.file(&path).is_some() || snapshot.removal(&path).is_some() || *written > entered {
            continue;
        }
        let newest = left.entry((name.table.clone(), name.home.origin())).or_insert(name);
        if newest.generation < name.generation {
            *newest = name;
        }
    }
    if left.is_empty() {
        return Vec::new();
    }
    // What the table has of these days in parts, or in the same or a later generation, is not left out.
    for file in snapshot.files() {
        let Some((name, ArchiveObject::Data)) = ArchiveName::parse(&format!("{table}/{}", file.path)) else { continue };
        let day = (name.table, name.home.origin());
        if left.get(&day).is_some_and(|left| name.part.is_some() || name.generation >= left.generation) {
            left.remove(&day);
        }
    }
    left.into_values().cloned().collect()
}
