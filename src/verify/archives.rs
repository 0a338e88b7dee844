//! Archives: there, with the right length, and by request to their last byte.
//!
//! Each is looked at where the catalog says that it is. One that the lifecycle removes meanwhile is none any more, so
//! what is missing is asked again before it is said; and what is wrong with one that a later one replaced is nobody's loss. Of one whose store does not answer, or does not let us in, nothing is
//! known: it is a doubt, and no finding.

use super::{Kind, LOOK_WAIT, Run};
use daytable_archive::{Archive, ArchiveError, ArchiveUrl, ArchivedDay, RetryPolicy};
use daytable_store::catalog::{self, Catalog};
use daytable_store::sealed::Manifest;
use std::collections::HashMap;

const ADVICE_GONE: &str =
    "bring it back from a copy of the archive; where its day still stands, `daytable archive` writes it anew";
const ADVICE_DAMAGED: &str = "look after that store; where its day still stands, `daytable archive` writes it anew, else bring it back from a copy";
const ADVICE_UNREACHED: &str = "it is not known whether it is whole: name the configuration by --config, see that the store answers, and verify again";

/// An archive that was not found as it should be, and why.
struct Doubtful {
    archived: catalog::Archived,
    expected: ArchivedDay,
    place: Archive,
    error: ArchiveError,
}

fn is_damaged(error: &ArchiveError) -> bool {
    matches!(error, ArchiveError::Damaged { .. })
}

impl Run<'_> {
    pub(super) fn archives(&mut self, catalog: &Catalog) {
        let known = match catalog.archives() {
            Ok(known) => known,
            Err(error) => {
                return self.find(Kind::Catalog, "catalog.db", None, error.to_string(), super::ADVICE_CATALOG);
            }
        };
        self.progress.total += known.len() as u64;
        let mut places: HashMap<String, Result<Archive, String>> = HashMap::new();
        let mut doubtful = Vec::new();
        for archived in known {
            if self.is_stopped() {
                return;
            }
            let name = format!("{}.{}", archived.table, archived.generation);
            self.begin(&name);
            self.report.verdict.archives += 1;
            let access = self.ask.access;
            let place = places.entry(archived.url.clone()).or_insert_with(|| {
                let url: ArchiveUrl = archived.url.parse().map_err(|error| format!("{error}"))?;
                Archive::open(&url, access, &RetryPolicy::QUERY).map_err(|error| error.to_string())
            });
            let place = match place {
                Ok(place) => place.clone(),
                Err(why) => {
                    let why = why.clone();
                    // A folder is there or not; of a store that cannot be asked nothing is known.
                    match archived.url.starts_with("file:") {
                        true => self.wrong(&archived, why, ADVICE_GONE),
                        false => self.unreached(&archived, why),
                    }
                    continue;
                }
            };
            let Some(expected) = expected(&archived) else {
                let what = "its manifest in catalog.db cannot be read".to_owned();
                self.find(Kind::Catalog, &archived.table.to_string(), None, what, super::ADVICE_CATALOG);
                continue;
            };
            if let Err(error) = self.look(&place, &expected, &name) {
                doubtful.push(Doubtful { archived, expected, place, error });
            }
        }
        self.look_into(catalog, doubtful);
    }

    fn look(&mut self, place: &Archive, expected: &ArchivedDay, name: &str) -> Result<(), ArchiveError> {
        if !self.ask.reads_archives || !self.ask.share.has(name) {
            return place.check(expected);
        }
        let mut done = 0;
        let proven = place.prove(expected, &mut |progress| {
            let more = progress.done.saturating_sub(done);
            done = progress.done;
            self.told(more)
        });
        match proven {
            Err(ArchiveError::Stopped) => Ok(()),
            proven => proven.map(drop),
        }
    }

    /// Says what is wrong with archives, as far as they are some still: the lifecycle removes the manifest first, the
    /// catalog's line last.
    fn look_into(&mut self, catalog: &Catalog, mut doubtful: Vec<Doubtful>) {
        let looks = self.looks();
        for look in 1..=looks {
            if doubtful.is_empty() || self.told(0).is_break() {
                return;
            }
            std::thread::sleep(LOOK_WAIT);
            let Ok(known) = catalog.archives() else { continue };
            doubtful.retain_mut(|Doubtful { archived, expected, place, error }| {
                let is_it = |one: &catalog::Archived| {
                    (&one.table, one.generation, &one.url) == (&archived.table, archived.generation, &archived.url)
                };
                let it = known.iter().find(|one| is_it(one));
                if it.is_none_or(|it| is_on_its_way(it, &known)) {
                    self.report.verdict.archives -= 1;
                    return false;
                }
                // Its store is asked once more, at the last: what is on its way is seen in the catalog.
                if look < looks || is_damaged(error) || self.told(0).is_break() {
                    return true;
                }
                place.check(expected).map_err(|again| *error = again).is_err()
            });
            // What is damaged stays so.
            if doubtful.iter().all(|doubtful| is_damaged(&doubtful.error)) {
                break;
            }
        }
        for Doubtful { archived, error, .. } in doubtful {
            let what = error.to_string();
            match error {
                ArchiveError::Missing { .. } => self.wrong(&archived, what, ADVICE_GONE),
                ArchiveError::Damaged { .. } => self.wrong(&archived, what, ADVICE_DAMAGED),
                // It says nothing of the archive itself.
                _ => self.unreached(&archived, what),
            }
        }
    }

    fn wrong(&mut self, archived: &catalog::Archived, what: String, advice: &'static str) {
        let table = archived.table.to_string();
        self.find(Kind::Archive, &table, Some(&file_of(archived)), what, advice);
    }

    fn unreached(&mut self, archived: &catalog::Archived, why: String) {
        let table = archived.table.to_string();
        self.doubt(Kind::Archive, &table, Some(&file_of(archived)), why, ADVICE_UNREACHED);
    }
}

/// Whether the lifecycle removes an archive, or has begun to: a kill in between leaves it without its manifest, until a daemon
/// comes to it. Another one at the same place has all that it had.
fn is_on_its_way(archived: &catalog::Archived, known: &[catalog::Archived]) -> bool {
    let has_all = |other: &catalog::Archived| {
        (&other.table, &other.url) == (&archived.table, &archived.url) && other.generation > archived.generation
    };
    archived.is_superseded && known.iter().any(has_all)
}

/// What an archive is called in a finding.
fn file_of(archived: &catalog::Archived) -> String {
    format!("{}.{} at {}", archived.table, archived.generation, archived.url)
}

/// What the archive has to be, by the manifest that the catalog keeps of it.
fn expected(archived: &catalog::Archived) -> Option<ArchivedDay> {
    let manifest = Manifest::from_json(archived.manifest.as_bytes()).ok()?;
    let is_its = (&manifest.sha256, manifest.rows, manifest.bytes)
        == (&archived.seal.sha256, archived.seal.rows, archived.seal.bytes);
    ArchivedDay::new(manifest).ok().filter(|_| is_its)
}
