//! The files that were read, as far as they exist: position, length, the bytes before the position; and the sums of the ledgers.
//!
//! A daemon notices a rotation a moment later. Before a changed file becomes a finding, it is checked again with the current catalog,
//! long enough for a running daemon to notice. The owner may change a file that no `[[tail]]` includes, and an imported file: their
//! records are in the tables.

use super::{FindingKind, RETRY_WAIT, Verification};
use daytable_intake::tail::{FileCheck, PathPatterns, check};
use daytable_model::path_text::PathText;
use daytable_store::{Reader, SourceKind, SourceState, StoreError};

const ADVICE_FILE: &str = "its records up to the last commit are in the tables; lines that were written between that commit and the change are lost, unless a copy of the file lies beside it. The next daemon continues with the present file";
const ADVICE_LEDGER: &str = "another program changed catalog.db, or this is a bug of daytable: keep a copy of the folder; the rows are not affected";
const ADVICE_UNKNOWN: &str = "name the configuration by --config: it says whether daytable still reads this file; if so, lines that were written between the last commit and the change are lost";
const ADVICE_SOURCE_LOG: &str = "a running daemon writes it again, when it stops at the latest; without a daemon, copy the folder and run `daytable repair`: records of this commit may be read again, and all other data stays";
const ADVICE_UNREADABLE: &str = "let the user of the daemon read it";

impl Verification<'_> {
    pub(super) fn sources(&mut self, reader: &Reader) {
        let known = reader.sources().and_then(|sources| Ok((sources, reader.catalog().listeners()?)));
        let (sources, listeners) = match known {
            Ok(known) => known,
            Err(StoreError::SourceLogDamaged { which, what: reason, .. }) => {
                return self.source_log_damaged(&which, &reason);
            }
            Err(error) => {
                return self.find(FindingKind::Catalog, "catalog.db", None, error.to_string(), super::ADVICE_CATALOG);
            }
        };
        self.report.verdict.sources = (sources.len() + listeners.len()) as u64;
        let tails = self.request.tails;
        let tails: Option<Vec<PathPatterns>> =
            tails.map(|tails| tails.iter().filter_map(|tail| PathPatterns::new(tail).ok()).collect());
        let mut suspects = Vec::new();
        for state in sources {
            if self.count_read(0).is_break() {
                return;
            }
            self.ledger(&state);
            let verdict = &mut self.report.verdict;
            verdict.lost_bytes = verdict.lost_bytes.saturating_add(state.ledger.lost_bytes);
            verdict.lost_records = verdict.lost_records.saturating_add(state.ledger.lost_records);
            if is_followed(&state, tails.as_deref()) && !matches!(check(&state), FileCheck::Same | FileCheck::Nowhere) {
                suspects.push(state.identity);
            }
        }
        let attempts = self.attempts();
        for attempt in 1..=attempts {
            if suspects.is_empty() || self.count_read(0).is_break() {
                return;
            }
            std::thread::sleep(RETRY_WAIT);
            let states = reader.sources().unwrap_or_default();
            suspects.retain(|identity| {
                let Some(state) = states.iter().find(|state| state.identity == *identity) else { return false };
                let found = check(state);
                if attempt == attempts {
                    self.file_of(state, &found);
                }
                !matches!(found, FileCheck::Same | FileCheck::Nowhere)
            });
        }
    }

    /// Reports a damaged source log once.
    pub(super) fn source_log_damaged(&mut self, which: &str, reason: &str) {
        let found = format!("the source log of {which} is damaged: {reason}");
        if !self.report.findings.iter().any(|finding| finding.found == found) {
            self.find(FindingKind::Catalog, "catalog.db", None, found, ADVICE_SOURCE_LOG);
        }
    }

    fn file_of(&mut self, state: &SourceState, found: &FileCheck) {
        let position = state.position;
        let (path, reason, advice) = match found {
            FileCheck::Same | FileCheck::Nowhere => return,
            FileCheck::Shorter { path, size } => {
                let reason = format!("it has {size} bytes, and was read up to {position}: it was truncated");
                (path, reason, ADVICE_FILE)
            }
            FileCheck::Different { path } => {
                let reason = format!("its bytes before {position} are not those that were read: it was replaced");
                (path, reason, ADVICE_FILE)
            }
            FileCheck::Unreadable { path, why } => (path, why.clone(), ADVICE_UNREADABLE),
        };
        let (place, file) = (state.path.text(), path.text());
        match self.request.tails {
            Some(_) => self.find(FindingKind::Source, &place, Some(&file), reason, advice),
            None => self.doubt(FindingKind::Source, &place, Some(&file), reason, ADVICE_UNKNOWN),
        }
    }

    /// Compares the bytes in a ledger with the position.
    fn ledger(&mut self, state: &SourceState) {
        let (position, counted) = (state.position, state.ledger.position());
        if state.kind != SourceKind::Journal && position != counted {
            let reason = format!("its ledger comes to {counted} bytes, its position is {position}");
            self.find(FindingKind::Source, &state.path.text(), None, reason, ADVICE_LEDGER);
        }
    }
}

/// Whether daytable still reads the file of a source. `tails` are the patterns of the blocks, if they are known.
fn is_followed(state: &SourceState, tails: Option<&[PathPatterns]>) -> bool {
    let is_included = |tails: &[PathPatterns]| tails.iter().any(|tail| tail.includes(&state.path));
    state.kind == SourceKind::Tail && tails.is_none_or(is_included)
}
