//! The day-tables: their files against the catalogue and against their checksums.

use super::{Kind, Run};
use crate::store::catalogue::Catalogue;
use crate::store::check::{Checked, Fault, Noted, open_file, sealed_file};
use crate::store::{Reader, StoreError, sealed};
use std::collections::BTreeSet;
use std::path::Path;

const ADVICE_COUNT: &str = "stop the daemon and copy the folder; bring the file and catalog.db back from one backup, or run `daytable repair`, which says what is missing";
const ADVICE_PAGE: &str = "look after the disk; other pages are read as before. Bring the file back from a backup, or export the rest with `daytable query` and drop the table";
const ADVICE_SEALED: &str = "look after the disk; put a copy from its archive, or from a backup, in its place while the daemon is stopped (`daytable restore --as` gives its rows under another name)";
const ADVICE_MISSING: &str =
    "bring it back from a backup, or from its archive by `daytable restore`; `daytable repair` goes on without it";

impl Run<'_> {
    /// Looks at every file that the catalogue names; without a catalogue, at all there are.
    pub(super) fn tables(&mut self, reader: Option<&Reader>) {
        let catalogue = reader.map(Reader::catalogue);
        let files = match catalogue.map(Catalogue::files) {
            Some(Ok(files)) => {
                files.into_iter().map(|file| (file.day.to_string(), file.name, file.seal.is_some())).collect()
            }
            Some(Err(error)) => {
                self.find(Kind::Catalogue, "catalog.db", None, error.to_string(), super::ADVICE_CATALOGUE);
                self.files_there()
            }
            None => self.files_there(),
        };
        self.progress.total += files.len() as u64;
        let mut tables = BTreeSet::new();
        for (table, name, is_sealed) in files {
            if self.is_stopped() {
                return;
            }
            self.begin(&name);
            let checked = self.file(catalogue, &name, is_sealed);
            if checked.is_gone {
                continue;
            }
            self.report.verdict.rows += checked.rows;
            self.report.verdict.records += checked.records;
            for fault in checked.faults {
                let (kind, found, advice) = match (fault, is_sealed) {
                    (Fault::Unreadable(found), _) => (Kind::Table, found, ADVICE_MISSING),
                    (Fault::Count(found), _) => (Kind::Table, found, ADVICE_COUNT),
                    (Fault::Bytes(found), false) => (Kind::Page, found, ADVICE_PAGE),
                    (Fault::Bytes(found), true) => (Kind::Sealed, found, ADVICE_SEALED),
                };
                self.find(kind, &table, Some(&name), found, advice);
            }
            tables.insert(table);
        }
        self.report.verdict.tables = tables.len() as u64;
    }

    fn file(&mut self, catalogue: Option<&Catalogue>, name: &str, is_sealed: bool) -> Checked {
        let path = self.ask.data_dir.join("tables").join(name);
        let noted = || -> Result<Noted, StoreError> { Noted::of(catalogue, name) };
        let reads_all = self.ask.share.has(name);
        let mut on = |bytes| self.told(bytes);
        match is_sealed {
            true => sealed_file(&path, &noted, reads_all, &mut on),
            false => open_file(&path, &noted, &mut on),
        }
    }

    /// The files that lie in the folder, where no catalogue says which of them count.
    fn files_there(&self) -> Vec<(String, String, bool)> {
        let entries = std::fs::read_dir(self.ask.data_dir.join("tables")).into_iter().flatten().flatten();
        let mut files: Vec<_> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.ends_with(".db") || sealed::is_sealed(name))
            .map(|name| (table_of(&name), name.clone(), sealed::is_sealed(&name)))
            .collect();
        files.sort();
        files
    }
}

/// The day-table of a file's name.
fn table_of(name: &str) -> String {
    Path::new(name).file_name().and_then(|name| name.to_str()?.split('.').next()).unwrap_or(name).to_owned()
}
