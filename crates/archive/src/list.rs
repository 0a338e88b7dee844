//! What is archived, and what only looks as if it were.

use super::names::{Name, Part};
use super::{Archive, ArchiveError, ArchivedDay, folder};
use daytable_model::key::TableName;
use object_store::ObjectMeta;
use object_store::path::Path as ObjectPath;
use std::collections::BTreeMap;
use std::future::poll_fn;

/// What is in an archive of some tables. What is called otherwise than an archive's objects is in neither list.
#[derive(Debug, Default)]
pub struct Listing {
    /// Whole archives as far as can be told without reading them: a valid manifest, and a file as long as it says. In
    /// the order of their tables, days and generations.
    pub archives: Vec<ArchivedDay>,
    /// What has an archive's name and is none.
    pub faulty: Vec<Faulty>,
}

/// Something that has an archive's name and is none. It is left as it is.
#[derive(Debug, thiserror::Error)]
#[error("{object}: {what}")]
pub struct Faulty {
    /// The address of the object.
    pub object: String,
    /// What is wrong with it.
    pub what: String,
}

/// What was found of one archive.
#[derive(Default)]
struct Found {
    manifest: bool,
    bytes: Option<u64>,
}

impl Archive {
    /// Everything that is archived of these tables. Lists the objects of the store and reads every manifest: for the
    /// start, and for whoever looks after an archive, not for each query.
    ///
    /// # Errors
    ///
    /// Where the store cannot be asked. What is wrong with an archive is no error, but [`Listing::faulty`].
    pub fn list(&self, tables: &[TableName]) -> Result<Listing, ArchiveError> {
        let mut listing = Listing::default();
        for table in tables {
            let mut found: BTreeMap<Name, Found> = BTreeMap::new();
            let objects = match self.url().folder() {
                Some(root) => folder::objects_of(root, table)?,
                None => self.wait(self.objects_of(table))?,
            };
            for (name, part, bytes) in objects {
                let found = found.entry(name).or_default();
                match part {
                    Part::Manifest => found.manifest = true,
                    Part::Data => found.bytes = Some(bytes),
                }
            }
            for (name, found) in found {
                match self.wait(self.judge(&name, &found)) {
                    Ok(archived) => listing.archives.push(archived),
                    Err(ArchiveError::Damaged { object, what }) => listing.faulty.push(Faulty { object, what }),
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(listing)
    }

    async fn judge(&self, name: &Name, found: &Found) -> Result<ArchivedDay, ArchiveError> {
        let faulty = |part: Part, what: String| ArchiveError::Damaged { object: self.address(name, part), what };
        let no_manifest = || faulty(Part::Data, "it has no manifest: its upload did not come to an end".into());
        if !found.manifest {
            return Err(no_manifest());
        }
        let json = self.manifest_bytes(name).await?.ok_or_else(no_manifest)?;
        let archived = self.manifest_in(name, &json)?;
        match found.bytes {
            None => Err(faulty(Part::Data, "it is not there, and its manifest is".into())),
            Some(bytes) if bytes != archived.manifest().bytes => Err(faulty(
                Part::Data,
                format!("it has {bytes} bytes, its manifest says {}", archived.manifest().bytes),
            )),
            Some(_) => Ok(archived),
        }
    }

    /// The objects of a table in a bucket.
    async fn objects_of(&self, table: &TableName) -> Result<Vec<(Name, Part, u64)>, ArchiveError> {
        let folder = self.0.prefix.clone().join(table.as_str());
        let failed = |error| ArchiveError::of(format!("{}/{table}", self.url()), error);
        let mut objects = self.store().list(Some(&folder));
        let mut found = Vec::new();
        while let Some(object) = poll_fn(|context| objects.as_mut().poll_next(context)).await {
            let ObjectMeta { location, size, .. } = object.map_err(failed)?;
            found.extend(self.name_of(&location).map(|(name, part)| (name, part, size)));
        }
        Ok(found)
    }

    fn name_of(&self, location: &ObjectPath) -> Option<(Name, Part)> {
        let below: Vec<String> = location.prefix_match(&self.0.prefix)?.map(|part| part.as_ref().to_owned()).collect();
        Name::parse(&below.join("/"))
    }
}
