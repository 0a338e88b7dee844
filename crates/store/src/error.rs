//! Errors of a data folder, by what the caller can do about them.

use daytable_model::path_text::PathText;
use std::path::PathBuf;

/// A failure of the store. The text reads well after "failed to …: ".
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process writes here. Wait for it, or use its control socket.
    #[error("{at} is in use by another daytable (process {1})", at = .0.escaped())]
    Locked(PathBuf, String),
    /// The folder is not a data folder.
    #[error("{} is not a data folder of daytable: it has no catalog.db", .0.escaped())]
    NoStore(PathBuf),
    /// A newer daytable wrote the folder.
    #[error("{} has format {found}, but this daytable reads formats up to {known}: use a newer daytable", .path.escaped())]
    NewerFormat {
        /// The catalog.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest known format.
        known: i64,
    },
    /// The folder is of a format before the first that this daytable reads.
    #[error("{} has format {found}, of before the first release, but this daytable reads formats from {known}: export its records with the daytable that wrote it, and import them into another folder", .path.escaped())]
    OlderFormat {
        /// The catalog.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The oldest known format.
        known: i64,
    },
    /// A foreign file has the name of a file of daytable.
    #[error("{at} is not a file of daytable: {1}", at = .0.escaped())]
    Foreign(PathBuf, String),
    /// The folder, or a file in it, was removed, renamed or replaced since this process opened it. No reader would find
    /// rows written now.
    #[error(
        "{0} is not the file that this process opened: {1}. No more records are accepted, and none was acknowledged since. Find out who changes files in the data folder, restore them, and start daytable again"
    )]
    Displaced(PathBuf, &'static str),
    /// The catalog and a file do not match.
    #[error(
        "{} does not belong to this catalog: {what}; nothing was changed. If one of them is from a backup, restore the other from the same backup, or run `daytable repair --data {}`", .path.escaped(), .data.escaped()
    )]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// The difference.
        what: String,
        /// The data folder.
        data: PathBuf,
    },
    /// A page with changed bytes.
    #[error("page {page} of {} is damaged: {what}", .path.escaped())]
    Damaged {
        /// The day's file.
        path: PathBuf,
        /// The page's number; for the rows of a partition in a shared page, also the number of the partition there.
        page: String,
        /// The fault.
        what: String,
    },
    /// A step that would remove other entities than it wrote again. Nothing was changed.
    #[error("pages of {} were not replaced, and stay as they are: {what}", .path.escaped())]
    Unequal {
        /// The day's file.
        path: PathBuf,
        /// The difference.
        what: String,
    },
    /// A sealed file with changed bytes.
    #[error("{} is damaged: {place}: {what}", .path.escaped())]
    SealedDamaged {
        /// The file.
        path: PathBuf,
        /// The place in the file.
        place: String,
        /// The fault.
        what: String,
    },
    /// The positions of a commit in the source log are damaged. Without them, sources have their earlier positions.
    #[error(
        "{}: the source log of {which} is damaged: {what}. A running daemon writes it again by itself. If none runs, run `daytable repair --data {}`, which removes this entry and keeps everything else", .path.escaped(), .data.escaped()
    )]
    SourceLogDamaged {
        /// The catalog.
        path: PathBuf,
        /// The commit.
        which: String,
        /// The fault.
        what: String,
        /// The data folder.
        data: PathBuf,
    },
    /// The table does not exist, or was dropped while it was read.
    #[error("there is no table {0}")]
    TableGone(String),
    /// The disk is full.
    #[error("the disk that holds {} is full", .0.escaped())]
    Full(PathBuf),
    /// An error of SQLite.
    #[error("{}: {source}", .path.escaped())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// The error.
        source: rusqlite::Error,
    },
    /// An error of the system.
    #[error("{}: {source}", .path.escaped())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The error.
        source: std::io::Error,
    },
    /// A question needs more pages at once than the process has memory for.
    #[error("other questions use the memory that the pages need: ask again")]
    NoMemory,
    /// The store is closing.
    #[error("the store is closing")]
    Closed,
    /// A refused step of the lifecycle, with the reason.
    #[error("{0}")]
    Refused(String),
}

impl StoreError {
    /// Whether bytes of a file changed. A second try has the same result.
    pub(crate) fn is_damage(&self) -> bool {
        match self {
            StoreError::Damaged { .. } | StoreError::SealedDamaged { .. } | StoreError::SourceLogDamaged { .. } => true,
            StoreError::Sqlite { source: rusqlite::Error::FromSqlConversionFailure(..), .. } => true,
            StoreError::Sqlite { source, .. } => {
                source.sqlite_error_code() == Some(rusqlite::ErrorCode::DatabaseCorrupt)
            }
            _ => false,
        }
    }

    /// A copy of the error if it is [`StoreError::Displaced`]: going on would make it worse.
    pub(crate) fn displaced(&self) -> Option<StoreError> {
        match self {
            StoreError::Displaced(path, what) => Some(StoreError::Displaced(path.clone(), what)),
            _ => None,
        }
    }

    /// Wraps an error of the file system, with the path.
    pub fn io(path: impl Into<PathBuf>) -> impl FnOnce(std::io::Error) -> StoreError {
        let path = path.into();
        move |source| StoreError::Io { path, source }
    }

    pub(crate) fn sqlite(path: impl Into<PathBuf>) -> impl FnOnce(rusqlite::Error) -> StoreError {
        let path = path.into();
        // The shared memory of a journal could not be made as long as it must be.
        let lacks_room_for_memory = |source: &rusqlite::Error| {
            let code = source.sqlite_error().map(|error| error.extended_code);
            code == Some(rusqlite::ffi::SQLITE_IOERR_SHMSIZE)
        };
        move |source| match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => StoreError::Full(path),
            Some(_) if lacks_room_for_memory(&source) => StoreError::Full(path),
            Some(rusqlite::ErrorCode::NotADatabase) => StoreError::Foreign(path, "it is not an SQLite database".into()),
            _ => match source_log_error(source) {
                Ok(SourceLogError::Damaged { which, what }) => {
                    let data = path.parent().unwrap_or(&path).into();
                    StoreError::SourceLogDamaged { path, which, what, data }
                }
                Ok(newer) => StoreError::Refused(format!("{}: {newer}", path.escaped())),
                Err(source) => StoreError::Sqlite { path, source },
            },
        }
    }
}

/// Why an entry of the source log cannot be read.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum SourceLogError {
    /// Its bytes changed.
    #[error("the source log of {which} is damaged: {what}")]
    Damaged {
        /// The commit.
        which: String,
        /// The fault.
        what: String,
    },
    /// A newer program wrote it.
    #[error(
        "the source log of {which} has version {version}, but this daytable reads versions up to {known}: use a newer daytable"
    )]
    Newer {
        /// The commit.
        which: String,
        /// Its version.
        version: u8,
        /// The newest known version.
        known: u8,
    },
}

impl From<SourceLogError> for rusqlite::Error {
    fn from(unread: SourceLogError) -> rusqlite::Error {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Blob, Box::new(unread))
    }
}

/// The source log's error inside an error of SQLite, or else the error itself.
pub(crate) fn source_log_error(error: rusqlite::Error) -> Result<SourceLogError, rusqlite::Error> {
    match error {
        rusqlite::Error::FromSqlConversionFailure(column, kind, error) => match error.downcast() {
            Ok(unread) => Ok(*unread),
            Err(error) => Err(rusqlite::Error::FromSqlConversionFailure(column, kind, error)),
        },
        error => Err(error),
    }
}
