//! Progress of long calls: sealing a day, and copying it to or from an archive.

use crate::StoreError;
use std::ops::ControlFlow;

/// How far a long call is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// The current phase of the call.
    pub phase: Phase,
    /// Units of the phase that are complete.
    pub done: u64,
    /// All units of the phase.
    pub total: u64,
}

/// A phase of a long call. The first three count entities, the others bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// The columns of a sealed file are chosen.
    Survey,
    /// A sealed file is written.
    Write,
    /// A sealed file is read back and compared.
    Compare,
    /// A file is sent to an archive.
    Upload,
    /// A file is read back from an archive.
    ReadBack,
    /// A file is fetched from an archive.
    Fetch,
}

/// Receives progress. If it breaks, the call ends with an error.
pub type OnProgress<'a> = dyn FnMut(Progress) -> ControlFlow<()> + 'a;

/// The error of a call that is asked to end.
pub(crate) fn go_on(flow: ControlFlow<()>) -> Result<(), StoreError> {
    if flow.is_break() { Err(StoreError::Closed) } else { Ok(()) }
}
