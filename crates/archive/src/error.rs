//! What goes wrong with archives, by what can be done about it.

use super::url::ArchiveUrl;
use daytable_model::path_text::PathText;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Characters of a store's answer that a message quotes at most: some answer with a page.
const ANSWER_CHARS_MAX: usize = 300;

/// Why something was not done with an archive. Nothing that fails here has cost anything: a day that stands still does.
#[derive(Debug, thiserror::Error)]
pub enum ArchiveError {
    /// The store cannot be reached as it is configured.
    #[error("{url} cannot be used: {what}")]
    Setup {
        /// The archive.
        url: ArchiveUrl,
        /// What is wrong, and what would be right.
        what: String,
    },
    /// The store did not answer in time, or with an error, however often it was asked.
    #[error("{object}: the store does not answer as it should: {}", Brief(source))]
    Unreachable {
        /// The address of the object.
        object: String,
        /// What it said.
        source: Box<object_store::Error>,
    },
    /// A file of a local archive cannot be read or written.
    #[error("{}: {source}", .path.escaped())]
    Io {
        /// The file or folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// The store does not let us.
    #[error("{object}: the store refuses access with these credentials: {}", Brief(source))]
    Denied {
        /// The address of the object.
        object: String,
        /// What it said.
        source: Box<object_store::Error>,
    },
    /// What should be there is not.
    #[error("{object} is not there")]
    Missing {
        /// The address of the object.
        object: String,
    },
    /// What is there is not what was archived.
    #[error("{object} is damaged: {what}")]
    Damaged {
        /// The address of the object.
        object: String,
        /// How it differs.
        what: String,
    },
    /// The store said that it has what it was given, and gave back something else, or nothing.
    #[error("{object} was uploaded, and what is read back is not what was sent: {what}")]
    Unproven {
        /// The address of the object.
        object: String,
        /// How it differs.
        what: String,
    },
    /// Something else has the name already. It is left as it is.
    #[error("{object} is taken: {what}")]
    Occupied {
        /// The address of the object.
        object: String,
        /// By what, and what to do.
        what: String,
    },
    /// The sealed file here is not what its manifest says. It was not archived.
    #[error("{} is not what its manifest says: {what}", .path.escaped())]
    Source {
        /// The sealed file.
        path: PathBuf,
        /// How it differs.
        what: String,
    },
    /// It was told to stop.
    #[error("stopped before it was done")]
    Stopped,
}

/// What is to be done after an [`ArchiveError`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Remedy {
    /// Later it may work by itself.
    Retry,
    /// It will be the same until somebody changes the configuration, the credentials, or what is stored.
    Operator,
    /// It was stopped; it goes on at the next run.
    Stop,
}

impl ArchiveError {
    /// What is to be done.
    pub fn remedy(&self) -> Remedy {
        match self {
            // A store that lost what it took may keep it the next time, and is read back then as well.
            ArchiveError::Unreachable { .. } | ArchiveError::Io { .. } | ArchiveError::Unproven { .. } => Remedy::Retry,
            ArchiveError::Setup { .. }
            | ArchiveError::Denied { .. }
            | ArchiveError::Missing { .. }
            | ArchiveError::Damaged { .. }
            | ArchiveError::Occupied { .. }
            | ArchiveError::Source { .. } => Remedy::Operator,
            ArchiveError::Stopped => Remedy::Stop,
        }
    }

    /// Whether it says something of the place and not of one archive in it: others would fail there as well.
    pub fn is_of_place(&self) -> bool {
        matches!(self, ArchiveError::Setup { .. } | ArchiveError::Unreachable { .. } | ArchiveError::Denied { .. })
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
            ArchiveError::Stopped => "stopped",
        }
    }

    pub(super) fn io(path: impl Into<PathBuf>) -> impl FnOnce(io::Error) -> ArchiveError {
        let path = path.into();
        move |source| ArchiveError::Io { path, source }
    }

    /// What a store's error about `object` means.
    pub(super) fn of(object: String, source: object_store::Error) -> ArchiveError {
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
        let error = ArchiveError::of("s3://bucket/a".into(), source);
        let text = error.to_string();
        assert!(text.chars().count() < 1000 && !text.contains('\n') && text.ends_with('…'), "{text}");
        assert_eq!(error.remedy(), Remedy::Retry);
    }
}
