//! Errors, by what the caller can do.

use std::fmt::Display;
use std::io;

/// A failure to read or write the log of a table.
#[derive(Debug, thiserror::Error)]
pub enum DeltaError {
    /// The store refused or failed. Try again later.
    #[error("{object}: {source}")]
    Store {
        /// The object.
        object: String,
        /// The store's own error.
        source: Box<object_store::Error>,
    },
    /// Nobody knows whether the commit was written. Commit again: the new proposal sees what is there.
    #[error("{object} may or may not have been written, a repetition finds out: {cause}")]
    Uncertain {
        /// The object of the commit.
        object: String,
        /// What the store answered last.
        cause: String,
    },
    /// An object is larger than its limit.
    #[error("{object} has {bytes} bytes, more than the limit of {bytes_max}")]
    TooLarge {
        /// The object.
        object: String,
        /// Its bytes.
        bytes: u64,
        /// Their limit.
        bytes_max: u64,
    },
    /// The table is larger than its limit.
    #[error("{object}: more than {max} {what}")]
    TooMany {
        /// The object with which the limit was passed.
        object: String,
        /// What is counted.
        what: &'static str,
        /// The limit.
        max: u64,
    },
    /// An object is not what the protocol says.
    #[error("{object} is damaged: {what}")]
    Damaged {
        /// The object.
        object: String,
        /// What is wrong in it.
        what: String,
    },
    /// A version is missing between versions that are there.
    #[error("{object} is missing, and no checkpoint replaces it: the table cannot be read as a whole")]
    Missing {
        /// The object.
        object: String,
    },
    /// The table needs what daytable does not know. Another engine has changed the table.
    #[error("{object}: this table needs {what}, which daytable does not know: let daytable alone write it")]
    Unsupported {
        /// The object that says so.
        object: String,
        /// What the table needs.
        what: String,
    },
    /// The proposed actions are not a valid commit.
    #[error("the proposed commit is not valid: {0}")]
    Proposal(String),
    /// A checkpoint could not be made of this state.
    #[error("{object} cannot be made: {what}")]
    Checkpoint {
        /// The object.
        object: String,
        /// The reason.
        what: String,
    },
    /// The caller's hook around a write failed. After a write, the object is there but may not be durable.
    #[error("{object}: {source}")]
    Hook {
        /// The object.
        object: String,
        /// The hook's own error.
        source: io::Error,
    },
    /// The system has no random numbers.
    #[error("/dev/urandom cannot be read: {0}")]
    Random(io::Error),
    /// The store overwrote an object that was to be written only if absent. Several writers would lose commits.
    #[error("{object}: the store writes over an object that should be written only if it is absent")]
    NotConditional {
        /// The object of the trial.
        object: String,
    },
}

impl DeltaError {
    pub(crate) fn store(object: impl Display, source: object_store::Error) -> DeltaError {
        DeltaError::Store { object: object.to_string(), source: Box::new(source) }
    }

    pub(crate) fn damaged(object: impl Display, what: impl Display) -> DeltaError {
        DeltaError::Damaged { object: object.to_string(), what: what.to_string() }
    }

    pub(crate) fn unsupported(object: impl Display, what: impl Display) -> DeltaError {
        DeltaError::Unsupported { object: object.to_string(), what: what.to_string() }
    }
}

/// Why nothing was committed, or perhaps nothing.
#[derive(Debug, thiserror::Error)]
pub enum CommitError<E> {
    /// The log could not be read or written.
    #[error(transparent)]
    Log(#[from] DeltaError),
    /// The proposal itself failed.
    #[error("{0}")]
    Proposal(E),
    /// Other writers were faster each time. Try again later.
    #[error("{object}: other writers were faster {tries} times")]
    Contended {
        /// The version that was tried last.
        object: String,
        /// How often.
        tries: u32,
    },
}
