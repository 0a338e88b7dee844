//! Errors of archives, grouped by what the caller can do about them.

use super::url::ArchiveUrl;
use daytable_delta::CommitError;
use daytable_model::key::DayTable;
use daytable_model::path_text::PathText;
use std::convert::Infallible;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Maximum characters of a store's answer in a message: some stores answer with a whole page.
const ANSWER_CHARS_MAX: usize = 300;

/// Why a call to an archive failed. Until an archive is proved, the day itself stays.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The store cannot be used as it is configured.
    #[error("{url} cannot be used: {what}")]
    Setup {
        /// The archive.
        url: ArchiveUrl,
        /// The problem, and how to correct it.
        what: String,
    },
    /// The store did not answer in time, or answered with an error, in every attempt.
    #[error("{object}: the store does not answer as it should: {}", Brief(source))]
    Unreachable {
        /// The address of the object.
        object: String,
        /// The answer.
        source: Box<object_store::Error>,
    },
    /// A file of a folder cannot be read or written.
    #[error("{}: {source}", .path.escaped())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// The store refuses access.
    #[error("{object}: the store refuses access with these credentials: {}", Brief(source))]
    Denied {
        /// The address of the object.
        object: String,
        /// The answer.
        source: Box<object_store::Error>,
    },
    /// The object does not exist.
    #[error("{object} is not there")]
    Missing {
        /// The address of the object.
        object: String,
    },
    /// The object is not what was archived.
    #[error("{object} is damaged: {what}")]
    Damaged {
        /// The address of the object.
        object: String,
        /// The difference.
        what: String,
    },
    /// The store reported success, but returns something else, or nothing.
    #[error("{object} was uploaded, and what is read back is not what was sent: {what}")]
    Unproven {
        /// The address of the object.
        object: String,
        /// The difference.
        what: String,
    },
    /// Another object has the name. It is left untouched.
    #[error("{object} is taken: {what}")]
    Occupied {
        /// The address of the object.
        object: String,
        /// The other object, and what to do.
        what: String,
    },
    /// The sealed file differs from its manifest, and was not archived.
    #[error("{} is not what its manifest says: {what}", .path.escaped())]
    Source {
        /// The sealed file.
        path: PathBuf,
        /// The difference.
        what: String,
    },
    /// The store writes over an object that is to be written only if it is absent, so it would lose commits to a table.
    #[error(
        "{url} cannot have a table: the store writes over an object that is to be written only if it is absent, so a host would \
         lose days to another one. Choose another store, or set `table_format = \"none\"` on all hosts and remove the folder \
         `_delta_log` of each table"
    )]
    Unfit {
        /// The archive.
        url: ArchiveUrl,
    },
    /// The table is not as the columns of a file were named for: it was made anew meanwhile.
    #[error("the table at {url} was made anew meanwhile: {day} has columns that it does not know")]
    Renamed {
        /// The archive.
        url: ArchiveUrl,
        /// The file's day.
        day: DayTable,
    },
    /// The log of the archive's table cannot be read or written.
    #[error("the table at {url}: {source}")]
    Log {
        /// The archive.
        url: ArchiveUrl,
        /// The cause.
        source: Box<CommitError<Infallible>>,
    },
    /// The caller stopped it.
    #[error("stopped before it was done")]
    Stopped,
}

impl ArchiveError {
    /// Whether it concerns the whole store, so that other archives in it would fail too.
    pub fn concerns_store(&self) -> bool {
        matches!(
            self,
            ArchiveError::Setup { .. }
                | ArchiveError::Unfit { .. }
                | ArchiveError::Unreachable { .. }
                | ArchiveError::Denied { .. }
        )
    }

    /// A short name, for a metric's label.
    pub fn name(&self) -> &'static str {
        match self {
            ArchiveError::Setup { .. } => "setup",
            ArchiveError::Unreachable { .. } => "unreachable",
            ArchiveError::Io { .. } => "io",
            ArchiveError::Denied { .. } => "denied",
            ArchiveError::Missing { .. } => "missing",
            ArchiveError::Damaged { .. } => "damaged",
            ArchiveError::Unproven { .. } => "unproven",
            ArchiveError::Occupied { .. } => "occupied",
            ArchiveError::Source { .. } => "source",
            ArchiveError::Unfit { .. } => "unfit",
            ArchiveError::Renamed { .. } => "renamed",
            ArchiveError::Log { .. } => "log",
            ArchiveError::Stopped => "stopped",
        }
    }

    pub(super) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> ArchiveError {
        let path = path.into();
        move |source| ArchiveError::Io { path, source }
    }

    /// Classifies a store's error about `object`.
    pub(super) fn from_store(object: String, source: object_store::Error) -> ArchiveError {
        match source {
            object_store::Error::NotFound { .. } => ArchiveError::Missing { object },
            object_store::Error::PermissionDenied { .. } | object_store::Error::Unauthenticated { .. } => {
                ArchiveError::Denied { object, source: Box::new(source) }
            }
            _ => ArchiveError::Unreachable { object, source: Box::new(source) },
        }
    }
}

/// An error in one line of bounded length.
struct Brief<'a>(&'a object_store::Error);

impl fmt::Display for Brief<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.to_string();
        let mut words = text.split_whitespace();
        let mut left = ANSWER_CHARS_MAX;
        let mut between = "";
        for word in words.by_ref() {
            let length = word.chars().count();
            if length > left {
                return write!(f, "{between}…");
            }
            left -= length;
            write!(f, "{between}{word}")?;
            between = " ";
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_store_answers_is_cut_to_one_line() {
        let page = format!("<html>\n{}</html>", "x ".repeat(10_000));
        let source = object_store::Error::Generic { store: "S3", source: page.into() };
        let error = ArchiveError::from_store("s3://bucket/a".into(), source);
        let text = error.to_string();
        assert!(text.chars().count() < 1000 && !text.contains('\n') && text.ends_with('…'), "{text}");
        assert_eq!(error.name(), "unreachable");
    }
}
