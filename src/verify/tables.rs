//! The day-tables: their files against the catalog and against their checksums.

use super::{Kind, LOOK_WAIT, Run};
use daytable_store::catalog::Catalog;
use daytable_store::check::{
    CatalogEntry, FileFault, FileReport, UnnamedFile, UnnamedKind, open_file, sealed_file, unnamed_files,
};
use daytable_store::{Reader, StoreError, sealed};
use std::collections::BTreeSet;
use std::path::Path;

const ADVICE_COUNT: &str = "stop the daemon and copy the folder; bring the file and catalog.db back from one backup, or run `daytable repair`, which says what is missing";
const ADVICE_PAGE: &str = "look after the disk; other pages are read as before. Bring the file back from a backup, or export the rest with `daytable query` and drop the table";
const ADVICE_SEALED: &str = "look after the disk; put a copy from its archive, or from a backup, in its place while the daemon is stopped (`daytable restore --as` gives its rows under another name)";
const ADVICE_MISSING: &str =
    "bring it back from a backup, or from its archive by `daytable restore`; `daytable repair` goes on without it";
const ADVICE_UNNAMED: &str = "the catalog lost its journal (catalog.db-wal), or is from an older backup: stop the daemon and copy the folder, then bring back the catalog that belongs to these files, or run `daytable repair`, which brings their rows back";
const ADVICE_UNREADABLE: &str =
    "it is in the way of nothing; where it is somebody else's move it out of tables/, else look after the disk";

impl Run<'_> {
    /// Looks at every file that the catalog names; without a catalog, at all there are.
    pub(super) fn tables(&mut self, reader: Option<&Reader>) {
        let catalog = reader.map(Reader::catalog);
        let files = match catalog.map(Catalog::files) {
            Some(Ok(files)) => {
                files.into_iter().map(|file| (file.day.to_string(), file.name, file.seal.is_some())).collect()
            }
            Some(Err(error)) => {
                self.find(Kind::Catalog, "catalog.db", None, error.to_string(), super::ADVICE_CATALOG);
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
                    (FileFault::Unreadable(found), _) => (Kind::Table, found, ADVICE_MISSING),
                    (FileFault::Count(found), _) => (Kind::Table, found, ADVICE_COUNT),
                    (FileFault::Bytes(found), false) => (Kind::Page, found, ADVICE_PAGE),
                    (FileFault::Bytes(found), true) => (Kind::Sealed, found, ADVICE_SEALED),
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

    /// Looks at what lies in the folder and the catalog does not name. What has rows is looked at twice: a daemon of an
    /// earlier version is not as exact about what it makes and removes.
    fn unnamed(&mut self, catalog: &Catalog) {
        let folder = self.ask.data_dir.join("tables");
        let mut looked = unnamed_files(&folder, catalog);
        if looked.as_ref().is_ok_and(|files| files.iter().any(|file| file.rows().is_some())) {
            if self.told(0).is_break() {
                return;
            }
            std::thread::sleep(LOOK_WAIT);
            looked = unnamed_files(&folder, catalog);
        }
        let files = match looked {
            Ok(files) => files,
            Err(error) => return self.find(Kind::Table, "tables", None, error.to_string(), ADVICE_MISSING),
        };
        for UnnamedFile { name, table, what } in files {
            // Somebody else's file has no such name.
            let Some(table) = table else { continue };
            let (table, file) = (table.to_string(), Some(name.as_str()));
            match what {
                UnnamedKind::Leftover => {}
                UnnamedKind::Data { rows } => {
                    let found = format!("it has {rows} rows, and the catalog does not name it");
                    self.find(Kind::Table, &table, file, found, ADVICE_UNNAMED);
                }
                UnnamedKind::Unreadable(why) => {
                    let found = format!("the catalog does not name it, and it cannot be read: {why}");
                    self.doubt(Kind::Table, &table, file, found, ADVICE_UNREADABLE);
                }
            }
        }
    }

    fn file(&mut self, catalog: Option<&Catalog>, name: &str, is_sealed: bool) -> FileReport {
        let path = self.ask.data_dir.join("tables").join(name);
        let noted = || -> Result<CatalogEntry, StoreError> { CatalogEntry::of(catalog, name) };
        let reads_all = self.ask.share.has(name);
        let mut on = |bytes| self.told(bytes);
        match is_sealed {
            true => sealed_file(&path, &noted, reads_all, &mut on),
            false => open_file(&path, &noted, &mut on),
        }
    }

    /// The files that lie in the folder, where no catalog says which of them count.
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
