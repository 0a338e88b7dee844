//! What is done about an answer, as a function of nothing but the answer.

use daytable_azure::{Error, Kind, Scope};
use std::time::Duration;

/// What is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Its rows are there.
    Landed,
    /// The same bytes go again after a pause. `is_all`: so does everything else, because it is not about this partition.
    Again { named: Option<Duration>, is_all: bool },
    /// The same, after the longest pause: nobody knows what was answered.
    AgainLater,
    /// The table is to be created first, unless its day has expired.
    Create,
    /// The table is being dropped by the service: its name is free in a while.
    AwaitTable,
    /// Some row of it will never be taken: it is looked for.
    Isolate(Option<usize>),
    /// It is too large: halves go.
    Halve,
    /// The service does not let us in.
    Stop,
}

/// See the module's head.
pub(super) fn verdict(answer: &Result<(), Error>) -> Verdict {
    let Err(error) = answer else { return Verdict::Landed };
    match error.kind() {
        // Nobody answered, and nothing can have happened: no connection came about.
        Kind::Retry { after } => {
            Verdict::Again { named: after, is_all: error.status().is_none() && !error.may_have_happened() }
        }
        Kind::Throttled { scope, after } => Verdict::Again { named: after, is_all: scope == Scope::Account },
        Kind::TableNotFound => Verdict::Create,
        Kind::TableBeingDeleted => Verdict::AwaitTable,
        Kind::Refused { index } => Verdict::Isolate(index),
        // An answer that is too large says nothing of the request.
        Kind::TooLarge if error.may_have_happened() => Verdict::AgainLater,
        Kind::TooLarge => Verdict::Halve,
        Kind::Denied => Verdict::Stop,
        // Upserts are never told the first two, and no transaction creates a table.
        Kind::EntityAlreadyExists { .. } | Kind::NotFound | Kind::TableAlreadyExists | Kind::Unknown => {
            Verdict::AgainLater
        }
    }
}
