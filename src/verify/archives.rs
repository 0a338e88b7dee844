//! Archives: there, with the right length, and by request to their last byte.
//!
//! Each is looked at where the catalogue says that it is. One that the lifecycle removes meanwhile is none any more, so
//! what is missing is asked again before it is said.

use super::{Kind, Run};
use crate::archive::{Archive, ArchiveError, ArchiveUrl, Archived, Patience};
use crate::store::catalogue::{self, Catalogue};
use crate::store::sealed::Manifest;
use std::collections::HashMap;
use std::time::Duration;

/// How long what is missing is waited for that is being removed: its manifest goes first, the catalogue's line last.
const REMOVAL: Duration = Duration::from_secs(2);

const ADVICE_GONE: &str =
    "bring it back from a copy of the archive; where its day still stands, `daytable archive` writes it anew";
const ADVICE_DAMAGED: &str = "look after that store; where its day still stands, `daytable archive` writes it anew, else bring it back from a copy";
const ADVICE_UNREACHED: &str = "it is not known whether it is whole: name the configuration by --config, see that the store answers, and verify again";

impl Run<'_> {
    pub(super) fn archives(&mut self, catalogue: &Catalogue) {
        let known = match catalogue.archives() {
            Ok(known) => known,
            Err(error) => {
                return self.find(Kind::Catalogue, "catalog.db", None, error.to_string(), super::ADVICE_CATALOGUE);
            }
        };
        self.progress.total += known.len() as u64;
        let mut places: HashMap<String, Result<Archive, String>> = HashMap::new();
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
                Archive::open(&url, access, &Patience::QUERY).map_err(|error| error.to_string())
            });
            let place = match place {
                Ok(place) => place.clone(),
                Err(why) => {
                    let why = why.clone();
                    self.archive(&archived, why, ADVICE_UNREACHED);
                    continue;
                }
            };
            let Some(expected) = expected(&archived) else {
                let what = "its manifest in catalog.db cannot be read".to_owned();
                self.find(Kind::Catalogue, &archived.table.to_string(), None, what, super::ADVICE_CATALOGUE);
                continue;
            };
            if let Err(error) = self.look(&place, &expected, &name) {
                self.doubt(catalogue, &archived, &place, &expected, error);
            }
        }
    }

    fn look(&mut self, place: &Archive, expected: &Archived, name: &str) -> Result<(), ArchiveError> {
        if !self.ask.reads_archives || !self.ask.share.has(name) {
            return place.look(expected);
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

    /// Says what is wrong with an archive, if it is one still.
    fn doubt(
        &mut self,
        catalogue: &Catalogue,
        archived: &catalogue::Archived,
        place: &Archive,
        expected: &Archived,
        error: ArchiveError,
    ) {
        let mut error = error;
        if matches!(error, ArchiveError::Missing { .. }) {
            std::thread::sleep(REMOVAL);
            match place.look(expected) {
                Ok(()) => return,
                Err(again) => error = again,
            }
        }
        let is_one = |one: &catalogue::Archived| {
            (&one.table, one.generation, &one.url) == (&archived.table, archived.generation, &archived.url)
        };
        if catalogue.archives().is_ok_and(|archives| !archives.iter().any(is_one)) {
            self.report.verdict.archives -= 1;
            return;
        }
        let advice = match &error {
            ArchiveError::Missing { .. } => ADVICE_GONE,
            ArchiveError::Damaged { .. } => ADVICE_DAMAGED,
            _ => ADVICE_UNREACHED,
        };
        self.archive(archived, error.to_string(), advice);
    }

    fn archive(&mut self, archived: &catalogue::Archived, what: String, advice: &'static str) {
        let at = format!("{} at {}", archived.generation, archived.url);
        let file = format!("{}.{at}", archived.table);
        self.find(Kind::Archive, &archived.table.to_string(), Some(&file), what, advice);
    }
}

/// What the archive has to be, by the manifest that the catalogue keeps of it.
fn expected(archived: &catalogue::Archived) -> Option<Archived> {
    let manifest = Manifest::from_json(archived.manifest.as_bytes()).ok()?;
    let is_its = (&manifest.sha256, manifest.rows, manifest.bytes)
        == (&archived.seal.sha256, archived.seal.rows, archived.seal.bytes);
    Archived::new(manifest).ok().filter(|_| is_its)
}
