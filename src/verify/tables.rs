//! The day-tables: their files are compared with the catalog, and with their checksums.

use super::{FindingKind, RETRY_WAIT, Verification};
use daytable_store::catalog::Catalog;
use daytable_store::check::{
    CatalogEntry, FileFault, FileReport, UnnamedFile, UnnamedKind, open_file, sealed_file, unnamed_files,
};
use daytable_store::{Reader, StoreError, sealed};
use std::collections::BTreeSet;
use std::path::Path;

const ADVICE_COUNT: &str = "stop the daemon and copy the folder; bring the file and catalog.db back from one backup, or run `daytable repair`, which says what is missing";
const ADVICE_COPIES: &str = "answers leave the copies out: the sealing of the day drops them, or `daytable repair` at once, while the daemon is stopped";
const ADVICE_PAGE: &str = "check the disk; other pages can still be read. Restore the file from a backup, or export the other rows with `daytable query` and drop the table";
const ADVICE_SEALED: &str = "check the disk; put a copy from its archive, or from a backup, in its place while the daemon is stopped (`daytable restore --as` gives its rows under another name)";
const ADVICE_MISSING: &str =
    "bring it back from a backup, or from its archive by `daytable restore`; `daytable repair` goes on without it";
const ADVICE_UNNAMED: &str = "the catalog lost its journal (catalog.db-wal), or is from an older backup: stop the daemon and copy the folder, then bring back the catalog that belongs to these files, or run `daytable repair`, which brings their rows back";
const ADVICE_UNREADABLE: &str = "it does no harm; move a file of another program out of tables/, else check the disk";

impl Verification<'_> {
    /// Checks every file that the catalog names; without a catalog, every file of the folder.
    pub(super) fn tables(&mut self, reader: Option<&Reader>) {
        let catalog = reader.map(Reader::catalog);
        let files = match catalog.map(Catalog::files) {
            Some(Ok(files)) => {
                files.into_iter().map(|file| (file.day.to_string(), file.name, file.seal.is_some())).collect()
            }
            Some(Err(error)) => {
                self.find(FindingKind::Catalog, "catalog.db", None, error.to_string(), super::ADVICE_CATALOG);
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
            let checked = self.file(catalog, &name, is_sealed);
            if checked.is_gone {
                continue;
            }
            self.report.verdict.rows += checked.rows;
            self.report.verdict.records += checked.records;
            for fault in checked.faults {
                let (kind, found, advice) = match (fault, is_sealed) {
                    (FileFault::Unreadable(found), _) => (FindingKind::Table, found, ADVICE_MISSING),
                    (FileFault::Count(found), _) => (FindingKind::Table, found, ADVICE_COUNT),
                    (FileFault::Copies(found), _) => (FindingKind::Table, found, ADVICE_COPIES),
                    (FileFault::Bytes(found), false) => (FindingKind::Page, found, ADVICE_PAGE),
                    (FileFault::Bytes(found), true) => (FindingKind::Sealed, found, ADVICE_SEALED),
                };
                self.find(kind, &table, Some(&name), found, advice);
            }
            tables.insert(table);
        }
        self.report.verdict.tables = tables.len() as u64;
        if let Some(catalog) = catalog {
            self.unnamed(catalog);
        }
    }

    /// Checks files that the catalog does not name. A file with rows is checked twice, because a daemon of an earlier version creates
    /// and removes files in another order.
    fn unnamed(&mut self, catalog: &Catalog) {
        let folder = self.request.data_dir.join("tables");
        let mut looked = unnamed_files(&folder, catalog);
        if looked.as_ref().is_ok_and(|files| files.iter().any(|file| file.rows().is_some())) {
            if self.count_read(0).is_break() {
                return;
            }
            std::thread::sleep(RETRY_WAIT);
            looked = unnamed_files(&folder, catalog);
        }
        let files = match looked {
            Ok(files) => files,
            Err(error) => return self.find(FindingKind::Table, "tables", None, error.to_string(), ADVICE_MISSING),
        };
        for UnnamedFile { name, table, what } in files {
            // A file of another program has no such name.
            let Some(table) = table else { continue };
            let (table, file) = (table.to_string(), Some(name.as_str()));
            match what {
                UnnamedKind::Leftover => {}
                UnnamedKind::Data { rows } => {
                    let found = format!("it has {rows} rows, and the catalog does not name it");
                    self.find(FindingKind::Table, &table, file, found, ADVICE_UNNAMED);
                }
                UnnamedKind::Unreadable(why) => {
                    let found = format!("the catalog does not name it, and it cannot be read: {why}");
                    self.doubt(FindingKind::Table, &table, file, found, ADVICE_UNREADABLE);
                }
            }
        }
    }

    fn file(&mut self, catalog: Option<&Catalog>, name: &str, is_sealed: bool) -> FileReport {
        let path = self.request.data_dir.join("tables").join(name);
        let noted = || -> Result<CatalogEntry, StoreError> { CatalogEntry::of(catalog, name) };
        let reads_all = self.request.share.has(name);
        let mut on = |bytes| self.count_read(bytes);
        match is_sealed {
            true => sealed_file(&path, &noted, reads_all, &mut on),
            false => open_file(&path, &noted, &mut on),
        }
    }

    /// All files of the folder, for a folder without a catalog.
    fn files_there(&self) -> Vec<(String, String, bool)> {
        let entries = std::fs::read_dir(self.request.data_dir.join("tables")).into_iter().flatten().flatten();
        let mut files: Vec<_> = entries
            .filter_map(|entry| entry.file_name().into_string().ok())
            .filter(|name| name.ends_with(".db") || sealed::is_sealed(name))
            .map(|name| (table_of(&name), name.clone(), sealed::is_sealed(&name)))
            .collect();
        files.sort();
        files
    }
}

/// The day-table in the name of a file.
fn table_of(name: &str) -> String {
    Path::new(name).file_name().and_then(|name| name.to_str()?.split('.').next()).unwrap_or(name).to_owned()
}
