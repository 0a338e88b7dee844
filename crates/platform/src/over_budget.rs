//! The refusal of a question that needs more than it may have.

use std::fmt;

/// Why a question gets no more memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum OverBudget {
    /// The question needs more than its share: it must ask for less.
    TooLarge(String),
    /// Other questions have the memory: it may be asked again.
    Busy(String),
}

impl fmt::Display for OverBudget {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OverBudget::TooLarge(reason) | OverBudget::Busy(reason) => f.write_str(reason),
        }
    }
}
