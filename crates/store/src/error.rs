//! What can go wrong with a data folder, by what the caller can do about it.

use daytable_model::path_text::PathText;
use std::path::PathBuf;

/// A failure of the store. The text reads well after "failed to …: ".
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process writes here: wait for it, or go through its socket.
    #[error("{at} is in use by another daytable (process {1})", at = .0.escaped())]
    Locked(PathBuf, String),
    /// There is nothing here to read.
    #[error("{} is no data folder of daytable: it has no catalog.db", .0.escaped())]
    NoStore(PathBuf),
    /// Written by a newer daytable: take that one, or a newer one.
    #[error("{} has format {found}, this daytable knows {known} and older: use a newer daytable", .path.escaped())]
    NewerFormat {
        /// The catalog.
        path: PathBuf,
        /// Its format.
        found: i64,
        /// The newest format that is known.
        known: i64,
    },
    /// A file that is not ours stands where one of ours belongs.
    #[error("{at} is not a file of daytable's: {1}", at = .0.escaped())]
    Foreign(PathBuf, String),
    /// The folder, or a file in it, is not what this process opened: somebody removed, renamed or replaced it meanwhile. What
    /// would be written now is read by nobody.
    #[error(
        "{0} is not what this process opened: {1}. Nothing more is taken, and nothing was acknowledged since. Look who changes files in the data folder, put back what was taken away, and start daytable again"
    )]
    Displaced(PathBuf, &'static str),
    /// The catalog and a file do not belong together.
    #[error(
        "{} does not belong to this catalog: {what}; nothing was changed. If one of them is from a backup, bring back the other as well, or run `daytable repair --data {}`", .path.escaped(), .data.escaped()
    )]
    Mismatch {
        /// The file.
        path: PathBuf,
        /// What does not agree.
        what: String,
        /// The data folder.
        data: PathBuf,
    },
    /// A page whose bytes are not what was written.
    #[error("page {page} of {} is damaged: {what}", .path.escaped())]
    Damaged {
        /// The day's file.
        path: PathBuf,
        /// The page's number, or its pack's and where it begins in it.
        page: String,
        /// What is wrong with it.
        what: String,
    },
    /// A sealed file whose bytes are not what was written.
    #[error("{} is damaged: {place}: {what}", .path.escaped())]
    SealedDamaged {
        /// The file.
        path: PathBuf,
        /// Where in it.
        place: String,
        /// What is wrong there.
        what: String,
    },
    /// What sources moved in a commit is not what was written. Without it they are where they were before.
    #[error(
        "{}: what sources moved in {which} is damaged: {what}. A daemon that runs writes it anew by itself; where none does, run `daytable repair --data {}`, which leaves it out and keeps all else", .path.escaped(), .data.escaped()
    )]
    SourceLogDamaged {
        /// The catalog.
        path: PathBuf,
        /// The commit.
        which: String,
        /// What is wrong with it.
        what: String,
        /// The data folder.
        data: PathBuf,
    },
    /// The table is not there, or was dropped while it was read.
    #[error("there is no table {0}")]
    TableGone(String),
    /// The disk is full.
    #[error("the disk that holds {} is full", .0.escaped())]
    Full(PathBuf),
    /// SQLite says no.
    #[error("{}: {source}", .path.escaped())]
    Sqlite {
        /// The file.
        path: PathBuf,
        /// What SQLite said.
        source: rusqlite::Error,
    },
    /// The system says no.
    #[error("{}: {source}", .path.escaped())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The store is closing.
    #[error("the store is closing")]
    Closed,
    /// A step of the lifecycle that cannot be done, with the reason.
    #[error("{0}")]
    Refused(String),
}

impl StoreError {
    /// Whether bytes of a file are not what was written. Trying again finds the same.
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

    /// The same error, where it says that the folder is not what was opened: whoever goes on only makes it worse.
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
        move |source| match source.sqlite_error_code() {
            Some(rusqlite::ErrorCode::DiskFull) => StoreError::Full(path),
            Some(rusqlite::ErrorCode::NotADatabase) => StoreError::Foreign(path, "it is no SQLite database".into()),
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

/// Why a row cannot be read.
#[derive(Debug, PartialEq, thiserror::Error)]
pub(crate) enum SourceLogError {
    /// It is not what was written.
    #[error("what sources moved in {which} is damaged: {what}")]
    Damaged {
        /// The commit.
        which: String,
        /// What is wrong with it.
        what: String,
    },
    /// A newer program wrote it.
    #[error("what sources moved in {which} is of version {version}, this daytable knows {known}: use a newer daytable")]
    Newer {
        /// The commit.
        which: String,
        /// Its version.
        version: u8,
        /// The version that this program knows.
        known: u8,
    },
}

impl From<SourceLogError> for rusqlite::Error {
    fn from(unread: SourceLogError) -> rusqlite::Error {
        rusqlite::Error::FromSqlConversionFailure(0, rusqlite::types::Type::Blob, Box::new(unread))
    }
}

/// What an error says of a row, or the error where it says nothing of one.
pub(crate) fn source_log_error(error: rusqlite::Error) -> Result<SourceLogError, rusqlite::Error> {
    match error {
        rusqlite::Error::FromSqlConversionFailure(column, kind, error) => match error.downcast() {
            Ok(unread) => Ok(*unread),
            Err(error) => Err(rusqlite::Error::FromSqlConversionFailure(column, kind, error)),
        },
        error => Err(error),
    }
}
