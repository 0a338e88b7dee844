//! The files that were read, where they still are: position, length, the bytes before the position; and what each ledger
//! adds up to.
//!
//! A daemon at work sees a rotation a moment after it happened. So what a file is not is asked again, with what the
//! catalog knows by then, before it is said; where a daemon runs, for as long as that takes to notice. A file that no
//! `[[tail]]` follows any more, or that was imported, is its owner's to change: what was read of it is in the tables.

use super::{Kind, LOOK_WAIT, Run};
use daytable_intake::tail::{FileCheck, TailOptions, check};
use daytable_model::path_text::PathText;
use daytable_store::{Reader, SourceKind, SourceState, StoreError};

const ADVICE_FILE: &str = "what was read of it is in the tables; what was written to it between the last commit and the change is lost where no copy of it lies beside it. The next daemon goes on from what there is";
const ADVICE_LEDGER: &str = "somebody changed catalog.db, or this is a fault of daytable's: keep a copy of the folder; the rows are as they were";
const ADVICE_UNKNOWN: &str = "name the configuration by --config: it says whether this file is followed still; where it is, what was written to it between the last commit and the change is lost";
const ADVICE_MOVED: &str = "a daemon that runs writes it anew by itself, when it stops at the latest; where none does, copy the folder and run `daytable repair`: what was read with this commit may be read again, and all else stays";
const ADVICE_UNREADABLE: &str = "see that the daemon's user can read it";

impl Run<'_> {
    pub(super) fn sources(&mut self, reader: &Reader) {
        let known = reader.sources().and_then(|sources| Ok((sources, reader.catalog().listeners()?)));
        let (sources, listeners) = match known {
            Ok(known) => known,
            Err(StoreError::SourceLogDamaged { which, what, .. }) => {
                return self.moves_damaged(&which, &what);
            }
            Err(error) => {
                return self.find(Kind::Catalog, "catalog.db", None, error.to_string(), super::ADVICE_CATALOG);
            }
        };
        self.report.verdict.sources = (sources.len() + listeners.len()) as u64;
        let mut doubtful = Vec::new();
        for state in sources {
            if self.told(0).is_break() {
                return;
            }
            self.ledger(&state);
            if self.is_followed(&state) && !matches!(check(&state), FileCheck::Same | FileCheck::Nowhere) {
                doubtful.push(state.identity);
            }
        }
        let looks = self.looks();
        for look in 1..=looks {
            if doubtful.is_empty() || self.told(0).is_break() {
                return;
            }
            std::thread::sleep(LOOK_WAIT);
            let states = reader.sources().unwrap_or_default();
            doubtful.retain(|identity| {
                let Some(state) = states.iter().find(|state| state.identity == *identity) else { return false };
                let found = check(state);
                if look == looks {
                    self.file_of(state, &found);
                }
                !matches!(found, FileCheck::Same | FileCheck::Nowhere)
            });
        }
    }

    /// Said once, whoever comes upon it.
    pub(super) fn moves_damaged(&mut self, which: &str, what: &str) {
        let found = format!("what sources moved in {which} is damaged: {what}");
        if !self.report.findings.iter().any(|finding| finding.found == found) {
            self.find(Kind::Catalog, "catalog.db", None, found, ADVICE_MOVED);
        }
    }

    fn file_of(&mut self, state: &SourceState, found: &FileCheck) {
        let position = state.position;
        let (path, what, advice) = match found {
            FileCheck::Same | FileCheck::Nowhere => return,
            FileCheck::Shorter { path, size } => {
                let what = format!("it has {size} bytes, and was read up to {position}: it was truncated");
                (path, what, ADVICE_FILE)
            }
            FileCheck::Different { path } => {
                let what = format!("its bytes before {position} are not those that were read: it was replaced");
                (path, what, ADVICE_FILE)
            }
            FileCheck::Unreadable { path, why } => (path, why.clone(), ADVICE_UNREADABLE),
        };
        let (place, file) = (state.path.text(), path.text());
        match self.ask.tails {
            Some(_) => self.find(Kind::Source, &place, Some(&file), what, advice),
            None => self.doubt(Kind::Source, &place, Some(&file), what, ADVICE_UNKNOWN),
        }
    }

    /// Whether somebody goes on with a source's file, as far as that is known.
    fn is_followed(&self, state: &SourceState) -> bool {
        let is_included = |tails: &[TailOptions]| tails.iter().any(|tail| tail.includes(&state.path));
        state.kind == SourceKind::Tail && self.ask.tails.is_none_or(is_included)
    }

    /// What a ledger says of bytes comes to its position.
    fn ledger(&mut self, state: &SourceState) {
        let (position, counted) = (state.position, state.ledger.position());
        if state.kind != SourceKind::Journal && position != counted {
            let what = format!("its ledger comes to {counted} bytes, its position is {position}");
            self.find(Kind::Source, &state.path.text(), None, what, ADVICE_LEDGER);
        }
    }
}
