//! Archives: presence and length, and on request every byte.
//!
//! Each archive is checked at its place in the catalog. The lifecycle may remove an archive meanwhile, so a missing archive is checked
//! again before it becomes a finding. Damage of an archive that a later archive replaced loses no data. An archive whose store does not
//! answer, or denies access, is a doubt and not a finding.

use super::{FindingKind, RETRY_WAIT, Verification};
use daytable_archive::{Archive, ArchiveError, ArchiveUrl, ArchivedDay, RetryPolicy};
use daytable_store::catalog::{self, Catalog};
use daytable_store::sealed::Manifest;
use std::collections::HashMap;

const ADVICE_GONE: &str =
    "restore a copy of the archive; where its day still exists, `daytable archive` writes the archive again";
const ADVICE_DAMAGED: &str =
    "check that store; where its day still exists, `daytable archive` writes the archive again, else restore a copy";
const ADVICE_UNREACHED: &str =
    "its state is unknown: name the configuration by --config, check that the store answers, and verify again";

/// An archive that failed its first check.
struct SuspectArchive {
    archived: catalog::Archived,
    expected: ArchivedDay,
    place: Archive,
    error: ArchiveError,
}

fn is_damaged(error: &ArchiveError) -> bool {
    matches!(error, ArchiveError::Damaged { .. })
}

impl Verification<'_> {
    pub(super) fn archives(&mut self, catalog: &Catalog) {
        let known = match catalog.archives() {
            Ok(known) => known,
            Err(error) => {
                return self.find(FindingKind::Catalog, "catalog.db", None, error.to_string(), super::ADVICE_CATALOG);
            }
        };
        self.progress.total += known.len() as u64;
        let mut places: HashMap<String, Result<Archive, String>> = HashMap::new();
        let mut suspects = Vec::new();
        for archived in known {
            if self.is_stopped() {
                return;
            }
            let name = format!("{}.{}", archived.table, archived.generation);
            self.begin(&name);
            self.report.verdict.archives += 1;
            let access = self.request.access;
            let place = places.entry(archived.url.clone()).or_insert_with(|| {
                let url: ArchiveUrl = archived.url.parse().map_err(|error| format!("{error}"))?;
                Archive::open(&url, access, &RetryPolicy::QUERY).map_err(|error| error.to_string())
            });
            let place = match place {
                Ok(place) => place.clone(),
                Err(why) => {
                    let why = why.clone();
                    // A folder exists or not. The state of a store that does not answer is unknown.
                    match archived.url.starts_with("file:") {
                        true => self.wrong(&archived, why, ADVICE_GONE),
                        false => self.unreached(&archived, why),
                    }
                    continue;
                }
            };
            let Some(expected) = expected(&archived) else {
                let reason = "its manifest in catalog.db cannot be read".to_owned();
                self.find(FindingKind::Catalog, &archived.table.to_string(), None, reason, super::ADVICE_CATALOG);
                continue;
            };
            if let Err(error) = self.check(&place, &expected, &name) {
                suspects.push(SuspectArchive { archived, expected, place, error });
            }
        }
        self.check_suspects(catalog, suspects);
    }

    fn check(&mut self, place: &Archive, expected: &ArchivedDay, name: &str) -> Result<(), ArchiveError> {
        if !self.request.reads_archives || !self.request.share.has(name) {
            return place.check(expected);
        }
        let mut done = 0;
        let proven = place.prove(expected, &mut |progress| {
            let more = progress.done.saturating_sub(done);
            done = progress.done;
            self.count_read(more)
        });
        match proven {
            Err(ArchiveError::Stopped) => Ok(()),
            proven => proven.map(drop),
        }
    }

    /// Checks suspects again, and reports those that remain. The lifecycle removes the manifest of an archive first, and its row in
    /// the catalog last.
    fn check_suspects(&mut self, catalog: &Catalog, mut suspects: Vec<SuspectArchive>) {
        let attempts = self.attempts();
        for attempt in 1..=attempts {
            if suspects.is_empty() || self.count_read(0).is_break() {
                return;
            }
            std::thread::sleep(RETRY_WAIT);
            let Ok(known) = catalog.archives() else { continue };
            suspects.retain_mut(|SuspectArchive { archived, expected, place, error }| {
                let is_it = |one: &catalog::Archived| {
                    (&one.table, one.generation, &one.url) == (&archived.table, archived.generation, &archived.url)
                };
                let it = known.iter().find(|one| is_it(one));
                if it.is_none_or(|it| is_being_removed(it, &known)) {
                    self.report.verdict.archives -= 1;
                    return false;
                }
                // The store is read again only at the end, because the catalog shows a removal.
                if attempt < attempts || is_damaged(error) || self.count_read(0).is_break() {
                    return true;
                }
                place.check(expected).map_err(|again| *error = again).is_err()
            });
            // Damage does not go away.
            if suspects.iter().all(|suspects| is_damaged(&suspects.error)) {
                break;
            }
        }
        for SuspectArchive { archived, error, .. } in suspects {
            let reason = error.to_string();
            match error {
                ArchiveError::Missing { .. } => self.wrong(&archived, reason, ADVICE_GONE),
                ArchiveError::Damaged { .. } => self.wrong(&archived, reason, ADVICE_DAMAGED),
                // The error is not about the archive itself.
                _ => self.unreached(&archived, reason),
            }
        }
    }

    fn wrong(&mut self, archived: &catalog::Archived, reason: String, advice: &'static str) {
        let table = archived.table.to_string();
        self.find(FindingKind::Archive, &table, Some(&file_of(archived)), reason, advice);
    }

    fn unreached(&mut self, archived: &catalog::Archived, why: String) {
        let table = archived.table.to_string();
        self.doubt(FindingKind::Archive, &table, Some(&file_of(archived)), why, ADVICE_UNREACHED);
    }
}

/// Whether the lifecycle is removing an archive. A kill in between leaves the archive without its manifest, until a daemon continues.
/// A later archive at the same place has all its rows.
fn is_being_removed(archived: &catalog::Archived, known: &[catalog::Archived]) -> bool {
    let has_all = |other: &catalog::Archived| {
        (&other.table, &other.url) == (&archived.table, &archived.url) && other.generation > archived.generation
    };
    archived.is_superseded && known.iter().any(has_all)
}

/// The name of an archive in a finding.
fn file_of(archived: &catalog::Archived) -> String {
    format!("{}.{} at {}", archived.table, archived.generation, archived.url)
}

/// The expected archive, by its manifest in the catalog.
fn expected(archived: &catalog::Archived) -> Option<ArchivedDay> {
    let manifest = Manifest::from_json(archived.manifest.as_bytes()).ok()?;
    let is_its = (&manifest.sha256, manifest.rows, manifest.bytes)
        == (&archived.seal.sha256, archived.seal.rows, archived.seal.bytes);
    ArchivedDay::new(manifest).ok().filter(|_| is_its)
}
