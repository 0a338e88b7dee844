//! Checks the files of a data folder, in any process, beside the writer.
//!
//! * `open` compares the rows of an open day's file with its own total and the catalog, and its pages with their
//!   checksums. [`open_rows`] does the first alone, and reads no body.
//! * `unnamed_files` finds files that the catalog does not name.
//! * `sealed` compares a sealed file with its block checksums, its SHA-256, its manifest and the catalog.
//!
//! A check does not stop at the first fault: it reads all that it can, and reports the rest. A file that is removed
//! during its check, because its day is sealed or dropped, has no faults.

mod open;
mod sealed;

pub use open::{open_file, open_rows};
pub use sealed::sealed_file;

pub use crate::maintain::unnamed_files::{UnnamedFile, UnnamedKind, find as unnamed_files};

use crate::StoreError;
use crate::format::catalog::{Catalog, LiveFile};
pub use crate::format::sealed::OnBytes;

/// Damaged pages or blocks of one file that are described. More are summed up in one fault.
const FAULTS_DESCRIBED_MAX: usize = 8;

/// A fault of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileFault {
    /// The file is missing or unreadable.
    Unreadable(String),
    /// The file has other rows than it records, or than the catalog records.
    Count(String),
    /// The file has more rows than it records: pages were merged more than once. The sealing of the day leaves the copies out.
    Copies(String),
    /// A page or a block is damaged.
    Bytes(String),
}

/// The result of a check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileReport {
    /// Whether the file is no longer live. Then the report has nothing else.
    pub is_gone: bool,
    /// The number of rows, items included.
    pub rows: u64,
    /// The number of records.
    pub records: u64,
    /// The faults.
    pub faults: Vec<FileFault>,
}

impl FileReport {
    /// The result of an examination. Faults of a file that is no longer live do not matter.
    fn new(
        examined: Result<FileReport, StoreError>,
        catalog_entry: &dyn Fn() -> Result<CatalogEntry, StoreError>,
    ) -> FileReport {
        let report = examined.unwrap_or_else(|error| FileReport::unreadable(&error));
        let is_gone = !report.faults.is_empty() && matches!(catalog_entry(), Ok(CatalogEntry::Gone));
        if is_gone { FileReport::gone() } else { report }
    }

    fn gone() -> FileReport {
        FileReport { is_gone: true, ..FileReport::default() }
    }

    fn unreadable(error: &impl ToString) -> FileReport {
        FileReport { faults: vec![FileFault::Unreadable(error.to_string())], ..FileReport::default() }
    }

    fn count(&mut self, what: String) {
        self.faults.push(FileFault::Count(what));
    }

    fn bytes(&mut self, what: String) {
        let described = self.faults.iter().filter(|fault| matches!(fault, FileFault::Bytes(_))).count();
        if described < FAULTS_DESCRIBED_MAX {
            self.faults.push(FileFault::Bytes(what));
        } else if described == FAULTS_DESCRIBED_MAX {
            self.faults.push(FileFault::Bytes("there are more".into()));
        }
    }
}

/// The current entry of a file in the catalog. A check reads it several times.
pub enum CatalogEntry {
    /// The file is live, with this entry and this last commit.
    Live(Box<LiveFile>, i64),
    /// The file is not live.
    Gone,
    /// There is no catalog.
    Unknown,
}

impl CatalogEntry {
    /// Reads the entry, if there is a catalog.
    pub fn of(catalog: Option<&Catalog>, name: &str) -> Result<CatalogEntry, StoreError> {
        let Some(catalog) = catalog else { return Ok(CatalogEntry::Unknown) };
        Ok(match catalog.file_named(name)? {
            Some(file) => CatalogEntry::Live(Box::new(file), catalog.committed()?.seq),
            None => CatalogEntry::Gone,
        })
    }
}
