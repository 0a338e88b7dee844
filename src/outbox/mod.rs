//! The outbox: what is committed is sent to a remote store, and then goes from the data folder.

/// The configured name of the tables of refused rows, which stay in the data folder.
pub const DEAD_LETTERS: &str = "DeadLetter";
