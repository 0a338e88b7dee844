//! Whether what lies in a data folder is what was written, in any process, beside the one that writes.
//!
//! * `open`: the file of an open day: its rows against what it says of itself and what the catalog says of it, its
//!   pages against their checksums.
//! * `unnamed_files`: what lies there and the catalog does not name.
//! * `sealed`: a sealed file against its blocks' checksums, its SHA-256, its manifest, and the catalog.
//!
//! Nothing here ends at the first fault, or because of one: what can be read is looked at, and what cannot is said.
//! A file that goes away while it is looked at (its day is sealed, or dropped) has no faults.

mod open;
mod sealed;

pub use open::open_file;
pub use sealed::sealed_file;

pub use crate::maintain::unnamed_files::{UnnamedFile, UnnamedKind, find as unnamed_files};

use crate::StoreError;
use crate::format::catalog::{Catalog, LiveFile};
pub use crate::format::sealed::OnBytes;

/// Faults of one kind that are told of one file; of more there is only the number.
const FAULTS_DESCRIBED_MAX: usize = 8;

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FileFault {
    /// It is not there, or cannot be read.
    Unreadable(String),
    /// It has other rows than it says, or than the catalog says.
    Count(String),
    /// A page, or a block, is not what was written.
    Bytes(String),
}

/// What was found of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileReport {
    /// Whether it is no longer live: nothing was found then.
    pub is_gone: bool,
    /// Rows in it, items included.
    pub rows: u64,
    /// Records in it.
    pub records: u64,
    /// What is wrong with it.
    pub faults: Vec<FileFault>,
}

impl FileReport {
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

/// What the catalog says of a file now, asked as often as it is needed.
pub enum CatalogEntry {
    /// It is live, like this; and this is the last commit.
    Live(Box<LiveFile>, i64),
    /// It is not live.
    Gone,
    /// There is no catalog to ask.
    Unknown,
}

impl CatalogEntry {
    /// Asks the catalog, where there is one.
    pub fn of(catalog: Option<&Catalog>, name: &str) -> Result<CatalogEntry, StoreError> {
        let Some(catalog) = catalog else { return Ok(CatalogEntry::Unknown) };
        Ok(match catalog.file_named(name)? {
            Some(file) => CatalogEntry::Live(Box::new(file), catalog.committed()?.seq),
            None => CatalogEntry::Gone,
        })
    }
}
