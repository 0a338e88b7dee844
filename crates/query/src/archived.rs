//! Days that exist only as archives. They are read in place: no table is created, and only the necessary row groups
//! are fetched.
//!
//! The catalog lists these days, so no store is asked for its days. Without a data folder, a lake (`lake_days`) is
//! read instead: the archives of all hosts at an address. A store that cannot be read costs a query only
//! these days: the other records are returned, and [`ArchiveReport`] states what is missing. A query does not ask a
//! failed store again.

use crate::filter::Filter;
use crate::lake_days::{LakeDay, LakeReport, LakeSession};
use daytable_archive::{
    Access, Archive, ArchiveError, ArchiveUrl, ArchivedDay, Lake, LakeFile, LakeTraffic, RetryPolicy,
};
use daytable_model::key::DayTable;
use daytable_store::catalog;
use daytable_store::sealed::{Manifest, SealedFile};
use daytable_store::{Reader, StoreError};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

/// Whether a query reads archives.
#[derive(Clone, Debug)]
pub enum Archives {
    /// Archives are skipped.
    Skip,
    /// Archives are read with this access.
    Read(Access),
    /// All archives at an address are read, those of all hosts.
    Lake(Lake),
}

/// A day that a query reads from an archive.
#[derive(Clone, Debug)]
pub(super) enum ArchivedPart {
    /// By the catalog of the data folder.
    Catalog(catalog::Archived),
    /// Of a lake: the day of one daytable.
    Lake(LakeFile),
}

impl ArchivedPart {
    /// The name of the day, for people.
    pub(super) fn shown(&self) -> String {
        match self {
            ArchivedPart::Catalog(archived) => archived.table.to_string(),
            ArchivedPart::Lake(file) => file.shown(),
        }
    }
}

/// The archives that one query reads.
pub(super) struct ArchiveSession {
    access: Option<Access>,
    pub(super) lake: Option<LakeSession>,
    /// Open archives, and those that cannot be read.
    opened: RefCell<BTreeMap<String, Result<Archive, Arc<str>>>>,
    report: RefCell<ArchiveReport>,
}

/// The archived days that a query read, and those it could not read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ArchiveReport {
    /// Days that were read from their archives, by name.
    pub archived: BTreeSet<String>,
    /// Days that could not be read completely, and why.
    pub unread: BTreeMap<String, String>,
    /// What was read of a lake, if one was asked.
    pub lake: Option<LakeReport>,
}

impl ArchiveReport {
    /// What was read, and is missing, in two answers.
    #[must_use]
    pub fn joined(mut self, other: ArchiveReport) -> ArchiveReport {
        self.archived.extend(other.archived);
        self.unread.extend(other.unread);
        self.lake = match (self.lake, other.lake) {
            (Some(one), Some(other)) => Some(LakeReport {
                files: one.files.max(other.files),
                opened: one.opened + other.opened,
                traffic: one.traffic + other.traffic,
            }),
            (one, other) => one.or(other),
        };
        self
    }

    /// A line for people, if archives were read.
    pub fn notice(&self) -> Option<String> {
        if let Some(LakeReport { files, opened, traffic }) = self.lake {
            let LakeTraffic { requests, bytes, cached_bytes } = traffic;
            let names = few(self.archived.iter());
            let names = if names.is_empty() { names } else { format!(" ({names})") };
            let cached = if cached_bytes == 0 { String::new() } else { format!(", {cached_bytes} from the cache") };
            let plural = if requests == 1 { "" } else { "s" };
            let read = format!("{bytes} bytes in {requests} request{plural}{cached}");
            return Some(format!("{opened} of {files} files of the lake were opened{names}: {read}"));
        }
        if self.archived.is_empty() {
            return None;
        }
        let (count, names) = (self.archived.len(), few(self.archived.iter()));
        let days = if count == 1 { "1 table was".into() } else { format!("{count} tables were") };
        Some(format!("{days} read from the archive: {names}"))
    }

    /// The missing part of the answer, if any.
    pub fn missing(&self) -> Option<String> {
        let (_, reason) = self.unread.first_key_value()?;
        let (count, names) = (self.unread.len(), few(self.unread.keys()));
        if self.lake.is_some() {
            return Some(format!("missing from this answer: {names}: {reason}"));
        }
        let days = if count == 1 { "1 archived table is".into() } else { format!("{count} archived tables are") };
        Some(format!("{days} missing from this answer ({names}): {reason}"))
    }
}

/// The first few of many names.
fn few<'a>(names: impl ExactSizeIterator<Item = &'a String>) -> String {
    const SHOWN: usize = 5;
    let more = names.len().saturating_sub(SHOWN);
    let mut shown: Vec<String> = names.take(SHOWN).cloned().collect();
    if more > 0 {
        shown.push(format!("and {more} more"));
    }
    shown.join(", ")
}

impl ArchiveSession {
    pub(super) fn new(archives: &Archives) -> ArchiveSession {
        let (access, lake) = match archives {
            Archives::Skip => (None, None),
            Archives::Read(access) => (Some(access.clone()), None),
            Archives::Lake(lake) => (None, Some(LakeSession::new(lake))),
        };
        ArchiveSession { access, lake, opened: RefCell::default(), report: RefCell::default() }
    }

    /// The latest archive of each archived day, including days that are still local.
    pub(super) fn latest(&self, reader: &Reader) -> Result<BTreeMap<DayTable, catalog::Archived>, StoreError> {
        let mut latest = BTreeMap::new();
        if self.access.is_some() {
            // The generations of a day are in ascending order, so the latest replaces the others.
            for archived in reader.catalog().archives()?.into_iter().filter(|archived| !archived.is_superseded) {
                latest.insert(archived.table.clone(), archived);
            }
        }
        Ok(latest)
    }

    /// The file of an archived day; `None` if it cannot be read, which is recorded.
    pub(super) fn open(&self, archived: &ArchivedPart) -> Option<SealedFile> {
        let opened = match (archived, &self.lake) {
            (ArchivedPart::Catalog(archived), _) => self.open_file(archived),
            (ArchivedPart::Lake(file), Some(lake)) => lake.open(file).map_err(Arc::from),
            (ArchivedPart::Lake(_), None) => Err("no lake is read".into()),
        };
        match &opened {
            Ok(_) => drop(self.report.borrow_mut().archived.insert(archived.shown())),
            Err(reason) => self.unread(&archived.shown(), reason),
        }
        opened.ok()
    }

    /// The days of a lake that a filter may match, the newest first, with the times of their records. What cannot be read is
    /// recorded.
    pub(super) fn lake_days(&self, filter: &Filter) -> Vec<LakeDay> {
        let Some(lake) = &self.lake else { return Vec::new() };
        let (days, unread) = lake.days(filter);
        unread.into_iter().for_each(|(name, reason)| self.unread(&name, reason));
        days
    }

    /// Looks for what the answer to a question lacks of a lake because no table has it. Found by the time of the report.
    pub(super) fn look_beside(&self, filter: &Filter) {
        self.lake.iter().for_each(|lake| lake.look_beside(filter));
    }

    fn open_file(&self, archived: &catalog::Archived) -> Result<SealedFile, Arc<str>> {
        let text = |error: &dyn std::fmt::Display| -> Arc<str> { error.to_string().into() };
        let manifest = Manifest::from_json(archived.manifest.as_bytes()).map_err(|error| text(&error))?;
        let described = ArchivedDay::new(manifest).map_err(|error| text(&error))?;
        let archive = self.archive(&archived.url)?;
        let reader = archive.reader(&described).map_err(|error| {
            let reason = text(&error);
            // An error of the store concerns all its days; an error of one archive does not.
            let is_of_the_day = matches!(error, ArchiveError::Missing { .. } | ArchiveError::Damaged { .. });
            if !is_of_the_day {
                self.opened.borrow_mut().insert(archived.url.clone(), Err(reason.clone()));
            }
            reason
        })?;
        let name = format!("{}/{}.{}", archived.url, archived.table, archived.generation);
        let file = SealedFile::open(Arc::new(reader), Path::new(&name)).map_err(|error| text(&error))?;
        // Bytes are checked as they are read; the content checksum proves that they are this day's.
        if file.content() != described.manifest().content {
            return Err(format!("{name}: its records differ from the archived ones").into());
        }
        Ok(file)
    }

    fn archive(&self, url: &str) -> Result<Archive, Arc<str>> {
        let Some(access) = &self.access else { return Err("archives are passed over".into()) };
        let open = || {
            let url: ArchiveUrl = url.parse().map_err(|error| format!("{url}: {error}"))?;
            Archive::open(&url, access, &RetryPolicy::QUERY).map_err(|error| error.to_string())
        };
        let mut opened = self.opened.borrow_mut();
        let known = opened.entry(url.to_owned());
        known.or_insert_with(|| open().map_err(|reason: String| reason.into())).clone()
    }

    /// Records that a day could not be read completely.
    pub(super) fn unread(&self, name: &str, reason: impl ToString) {
        let mut report = self.report.borrow_mut();
        report.unread.entry(name.to_owned()).or_insert_with(|| reason.to_string());
    }

    pub(super) fn into_report(self) -> ArchiveReport {
        if let Some(lake) = &self.lake {
            lake.beside().into_iter().for_each(|(name, reason)| self.unread(&name, reason));
        }
        ArchiveReport { lake: self.lake.as_ref().map(LakeSession::report), ..self.report.into_inner() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn archives_read_and_unread_are_reported_in_a_line() {
        let day = |day: u32| format!("Log202611{day:02}");
        assert_eq!((ArchiveReport::default().notice(), ArchiveReport::default().missing()), (None, None));
        let report =
            ArchiveReport { archived: [day(1)].into(), unread: [(day(2), "it is damaged".into())].into(), lake: None };
        assert_eq!(report.notice().as_deref(), Some("1 table was read from the archive: Log20261101"));
        assert_eq!(
            report.missing().as_deref(),
            Some("1 archived table is missing from this answer (Log20261102): it is damaged")
        );
        let many = ArchiveReport {
            archived: (1..=9).map(day).collect(),
            unread: (1..=6).map(|n| (day(n), "a".into())).collect(),
            lake: None,
        };
        let names = "Log20261101, Log20261102, Log20261103, Log20261104, Log20261105";
        assert_eq!(many.notice(), Some(format!("9 tables were read from the archive: {names}, and 4 more")));
        assert_eq!(
            many.missing(),
            Some(format!("6 archived tables are missing from this answer ({names}, and 1 more): a"))
        );
    }
}
