//! What went wrong last, and when it is tried again.

use daytable_model::time::Ticks;

/// A failed step and the time of its retry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FailedStep {
    /// Name of the step.
    pub step: &'static str,
    /// The error.
    pub reason: String,
    /// Consecutive failures.
    pub attempts: u32,
    /// Time of the retry.
    pub again: Ticks,
}
