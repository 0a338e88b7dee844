//! Restores a day from its archive as a table.

use super::{Executor, OnStepProgress, StepError, address, described, seal_of};
use daytable_archive as archive;
use daytable_archive::{Archive, RetryPolicy};
use daytable_model::key::{DayTable, TableName};
use daytable_model::time::{self, Ticks};
use daytable_store::StoreError;
use daytable_store::catalog::{Archived, Day, DayState, Seal};
use daytable_store::forward::position::FolderOrigin;
use daytable_store::sealed::{ArchiveHome, Manifest};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::time::Duration;

/// A restore request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RestoreSpec {
    /// The archived day-table.
    pub origin: DayTable,
    /// The name of the restored table, if different.
    pub name: Option<TableName>,
    /// How long the restored table stays.
    pub keep: Duration,
    /// The host whose day it is, if not this one.
    pub host: Option<String>,
    /// Places to search for an archive that the catalog does not list.
    pub places: Vec<String>,
}

/// The result of a restore.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreOutcome {
    /// The restored table.
    pub table: String,
    /// Its rows.
    pub rows: u64,
    /// Its expiry, RFC 3339.
    pub expires: String,
    /// Whether the table already existed, from the same archive.
    pub stood: bool,
}

impl Executor {
    /// Restores a day completely. A repeated request creates no second copy; the later expiry counts.
    ///
    /// # Errors
    ///
    /// [`StepError::NoArchive`] if the day has no archive. [`StepError::Archive`] if the archive has changed since it
    /// was written. An error changes no state.
    pub fn restore(&self, wanted: &RestoreSpec, on: &mut OnStepProgress<'_>) -> Result<RestoreOutcome, StepError> {
        let _one = self.alone()?;
        let origin = &wanted.origin;
        let name = wanted.name.as_ref().unwrap_or(origin.table());
        let table = DayTable::at(name, origin.period(), origin.start());
        let home = self.home()?;
        let archived = match self.known_archive(wanted, &home)? {
            Some(archived) => archived,
            None => self.found_archive(wanted, &home, on)?,
        };
        let expires = time::now().plus(wanted.keep);
        let days = self.steps.lifecycle_state()?.days;
        if let Some(day) = days.iter().find(|day| day.table == table)
            && !day.files.is_empty()
        {
            return self.existing(day, &archived, expires);
        }
        let restoring = self.steps.begin_restore(&table, origin)?;
        let fetched = self.fetch(&archived, &restoring.path, &table, on);
        let ended = fetched.and_then(|seal| Ok((self.steps.end_restore(&restoring, &seal, expires)?, seal)));
        match ended {
            Ok(((), seal)) => {
                tracing::info!(%table, %origin, rows = seal.rows, %expires, "restored");
                Ok(RestoreOutcome {
                    table: table.to_string(),
                    rows: seal.rows,
                    expires: expires.to_string(),
                    stood: false,
                })
            }
            Err(error) => {
                if let Err(error) = self.steps.abandon(&restoring.output) {
                    tracing::warn!(%table, %error, "failed to remove what was fetched of an archive");
                }
                Err(error)
            }
        }
    }

    fn existing(&self, day: &Day, archived: &Archived, expires: Ticks) -> Result<RestoreOutcome, StepError> {
        let table = &day.table;
        let is_same = day.files.iter().any(|f| f.seal.as_ref().is_some_and(|s| s.sha256 == archived.seal.sha256));
        match &day.state {
            DayState::Restored { expires: before, .. } if is_same => {
                self.steps.extend_restore(table, expires)?;
                let (table, expires) = (table.to_string(), expires.max(*before).to_string());
                Ok(RestoreOutcome { table, rows: archived.seal.rows, expires, stood: true })
            }
            DayState::Restored { .. } => {
                Err(StoreError::Refused(format!("{table} exists, restored from another archive: drop it first")).into())
            }
            _ => Err(StoreError::Refused(format!("{table} exists: there is nothing to restore")).into()),
        }
    }

    /// The latest archive of a day in the catalog, which has only those of this daytable (`home`).
    pub fn known_archive(&self, wanted: &RestoreSpec, home: &ArchiveHome) -> Result<Option<Archived>, StepError> {
        if wanted.host.as_deref().is_some_and(|host| host != home.host()) {
            return Ok(None);
        }
        let mut archives = self.steps.lifecycle_state()?.archives;
        archives.retain(|archived| archived.table == wanted.origin && !archived.is_superseded);
        Ok(archives.into_iter().max_by_key(|archived| (archived.generation, archived.verified)))
    }

    /// The latest archive of a day at the given places, which the catalog does not list: another folder wrote it, or
    /// the entry was lost. Without a wanted host, an archive of this one (`home`) is preferred, and that of another is taken
    /// only where it is the only one. The archive is read completely, and recorded if it is this daytable's own: the archive
    /// of another one would supersede those that are recorded, and would be removed with them.
    pub fn found_archive(
        &self,
        wanted: &RestoreSpec,
        home: &ArchiveHome,
        on: &mut OnStepProgress<'_>,
    ) -> Result<Archived, StepError> {
        let origin = &wanted.origin;
        let mut faulty = String::new();
        for place in &wanted.places {
            let archive = Archive::open(&address(place)?, &self.access.load(), &RetryPolicy::LIFECYCLE)?;
            let is_wanted = |of: &ArchiveHome, day: &DayTable| {
                day == origin && wanted.host.as_deref().is_none_or(|host| host == of.host())
            };
            let listing = archive.list(std::slice::from_ref(origin.table()), &is_wanted)?;
            let of_home = one_home(origin, &listing.archives, home)?;
            let of_day = listing.archives.into_iter().filter(|archived| Some(archived.home().origin()) == of_home);
            let Some(found) = of_day.max_by_key(|archived| archived.generation()) else {
                let name = origin.to_string();
                let of_day = listing.faulty.iter().filter(|faulty| faulty.object.contains(&name));
                faulty.extend(of_day.map(|faulty| format!("; {faulty}")));
                continue;
            };
            let mut reporter = self.reporter(origin, on);
            let proof = archive.prove(&found, &mut |progress| reporter.report(progress))?;
            drop(reporter);
            let archived = noted(proof.archived(), place);
            if proof.archived().home().origin() == home.origin() {
                self.steps.put_archive(archived.clone())?;
            }
            return Ok(archived);
        }
        let of_host = wanted.host.as_ref().map(|host| format!(" of the host {host:?}")).unwrap_or_default();
        Err(StepError::NoArchive(origin.clone(), of_host + &faulty))
    }

    /// Downloads the file, compares it with the catalog, and stores its manifest beside it.
    fn fetch(
        &self,
        archived: &Archived,
        path: &std::path::Path,
        table: &DayTable,
        on: &mut OnStepProgress<'_>,
    ) -> Result<Seal, StepError> {
        let described = described(archived)?;
        let Manifest { bytes, sha256, rows, .. } = described.manifest();
        let Seal { bytes: bytes_then, sha256: sha256_then, rows: rows_then, .. } = &archived.seal;
        if (bytes, sha256, rows) != (bytes_then, sha256_then, rows_then) {
            return Err(StepError::Manifest(archived.table.clone(), "it is that of another archive".into()));
        }
        let archive = Archive::open(&address(&archived.url)?, &self.access.load(), &RetryPolicy::LIFECYCLE)?;
        let mut reporter = self.reporter(table, on);
        archive.fetch(&described, path, &mut |progress| reporter.report(progress))?;
        daytable_platform::failpoint!("restore-fetched");
        described.manifest().write_beside(path)?;
        Ok(Seal { at: time::now(), ..archived.seal.clone() })
    }
}

/// The daytable whose archives of a day are meant: that of `home`, whatever its host was called, or the only one there is.
fn one_home(
    day: &DayTable,
    archives: &[archive::ArchivedDay],
    home: &ArchiveHome,
) -> Result<Option<FolderOrigin>, StepError> {
    let homes: BTreeSet<&ArchiveHome> = archives.iter().map(archive::ArchivedDay::home).collect();
    let origins: BTreeSet<FolderOrigin> = homes.iter().map(|home| home.origin()).collect();
    if origins.contains(&home.origin()) || origins.len() < 2 {
        return Ok(origins.get(&home.origin()).or(origins.first()).copied());
    }
    let of_host: BTreeSet<FolderOrigin> =
        homes.iter().filter(|of| of.host() == home.host()).map(|of| of.origin()).collect();
    if let (Some(one), 1) = (of_host.first(), of_host.len()) {
        return Ok(Some(*one));
    }
    let names = homes.iter().map(|home| home.host()).collect::<BTreeSet<_>>();
    let names = names.into_iter().collect::<Vec<_>>().join(", ");
    Err(StoreError::Refused(format!("there are archives of {day} of several hosts: name one by --host: {names}"))
        .into())
}

/// The catalog entry of an archive that was found and verified.
fn noted(archived: &archive::ArchivedDay, place: &str) -> Archived {
    let manifest = archived.manifest();
    let seal = seal_of(manifest, time::now());
    Archived {
        table: archived.table().clone(),
        generation: archived.generation(),
        url: place.to_owned(),
        seal,
        verified: time::now(),
        is_superseded: false,
        manifest: manifest.to_json().into(),
    }
}
