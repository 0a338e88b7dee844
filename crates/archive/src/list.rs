//! Lists archives, and objects that only resemble one.

use super::names::{ArchiveName, ArchiveObject, DAY_FOLDER, FoundObject};
use super::{Archive, ArchiveError, ArchivedDay, folder};
use daytable_model::key::{DayTable, TableName};
use daytable_store::sealed::ArchiveHome;
use object_store::ObjectMeta;
use object_store::path::Path as ObjectPath;
use std::collections::BTreeMap;
use std::future::poll_fn;

/// The archives of some tables. Objects with other names are in neither list.
#[derive(Debug, Default)]
pub struct Listing {
    /// Archives that are whole as far as their metadata shows: a valid manifest, and a file of the right length.
    /// Sorted by table, day and generation.
    pub archives: Vec<ArchivedDay>,
    /// Objects with an archive's name that are not whole archives.
    pub faulty: Vec<FaultyArchive>,
}

/// An object with an archive's name that is not a whole archive. It is left untouched.
#[derive(Debug, thiserror::Error)]
#[error("{object}: {what}")]
pub struct FaultyArchive {
    /// The address of the object.
    pub object: String,
    /// The reason.
    pub what: String,
}

/// The objects of one archive.
#[derive(Default)]
struct ListedObjects {
    manifest: bool,
    bytes: Option<u64>,
}

impl Archive {
    /// All archives of these tables that `wanted` takes by the home and the day-table in their names. Lists the objects of
    /// the store and reads every wanted manifest: meant for maintenance, not for queries.
    ///
    /// # Errors
    ///
    /// An error of the store. A faulty archive is not an error; see [`Listing::faulty`].
    pub fn list(
        &self,
        tables: &[TableName],
        wanted: &dyn Fn(&ArchiveHome, &DayTable) -> bool,
    ) -> Result<Listing, ArchiveError> {
        let mut listing = Listing::default();
        for table in tables {
            let mut found: BTreeMap<ArchiveName, ListedObjects> = BTreeMap::new();
            let objects = self.objects(table)?;
            for object in objects.into_iter().filter(|object| wanted(&object.name.home, &object.name.table)) {
                let found = found.entry(object.name).or_default();
                match object.part {
                    ArchiveObject::Manifest => found.manifest = true,
                    ArchiveObject::Data => found.bytes = Some(object.bytes),
                }
            }
            for (name, found) in found {
                match self.wait(self.check_listed(&name, &found)) {
                    Ok(archived) => listing.archives.push(archived),
                    Err(ArchiveError::Damaged { object, what }) => listing.faulty.push(FaultyArchive { object, what }),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(listing)
    }

    async fn check_listed(&self, name: &ArchiveName, found: &ListedObjects) -> Result<ArchivedDay, ArchiveError> {
        let faulty =
            |part: ArchiveObject, what: String| ArchiveError::Damaged { object: self.address(name, part), what };
        let no_manifest = || faulty(ArchiveObject::Data, "it has no manifest: its upload did not complete".into());
        if !found.manifest {
            return Err(no_manifest());
        }
        let json = self.manifest_bytes(name).await?.ok_or_else(no_manifest)?;
        let archived = self.manifest_in(name, &json)?;
        match found.bytes {
            None => Err(faulty(ArchiveObject::Data, "it is missing, but its manifest exists".into())),
            Some(bytes) if bytes != archived.manifest().bytes => Err(faulty(
                ArchiveObject::Data,
                format!("it has {bytes} bytes, its manifest says {}", archived.manifest().bytes),
            )),
            Some(_) => Ok(archived),
        }
    }

    /// The objects of a table's archives.
    pub(super) fn objects(&self, table: &TableName) -> Result<Vec<FoundObject>, ArchiveError> {
        match self.url().folder() {
            Some(root) => folder::objects_of(root, table, &|_| true),
            None => self.wait(self.objects_of(table, None)),
        }
    }

    /// The objects of a table's archives in a bucket, from the first of some days to the last, as they stand in paths.
    pub(super) fn objects_of_days(
        &self,
        table: &TableName,
        first: &str,
        last: &str,
    ) -> Result<Vec<FoundObject>, ArchiveError> {
        self.wait(self.objects_of(table, Some((first, last))))
    }

    /// The objects of a table's archives in a bucket: of all days, or of those from the first to the last.
    async fn objects_of(
        &self,
        table: &TableName,
        days: Option<(&str, &str)>,
    ) -> Result<Vec<FoundObject>, ArchiveError> {
        let folder = self.0.prefix.clone().join(table.as_str());
        let failed = |error| ArchiveError::from_store(format!("{}/{table}", self.url()), error);
        let mut objects = match days {
            None => self.store().list(Some(&folder)),
            // Names come in their order, and what has no more to it than the day is no object.
            Some((first, _)) => {
                self.store().list_with_offset(Some(&folder), &folder.clone().join(format!("{DAY_FOLDER}{first}")))
            }
        };
        let mut found = Vec::new();
        while let Some(object) = poll_fn(|context| objects.as_mut().poll_next(context)).await {
            let ObjectMeta { location, size: bytes, e_tag, last_modified, .. } = object.map_err(failed)?;
            let Some((name, part)) = self.name_of(&location).filter(|(name, _)| name.part.is_none()) else { continue };
            if days.is_some_and(|(_, last)| *name.day() > *last) {
                break;
            }
            let modified = last_modified.timestamp_millis();
            found.push(FoundObject { name, part, bytes, modified, e_tag });
        }
        Ok(found)
    }

    pub(super) fn name_of(&self, location: &ObjectPath) -> Option<(ArchiveName, ArchiveObject)> {
        let below: Vec<String> = location.prefix_match(&self.0.prefix)?.map(|part| part.as_ref().to_owned()).collect();
        ArchiveName::parse(&below.join("/"))
    }
}
