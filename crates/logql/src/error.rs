//! What is wrong with a query, and where.

use daytable_platform::budget::{OverBudget, TextRefusal};

/// A query that cannot be read. Grafana looks for the words `parse error`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("parse error at line {line}, col {column}: {reason}")]
pub struct QuerySyntaxError {
    /// The line, from 1 on.
    pub line: usize,
    /// The column in characters, from 1 on.
    pub column: usize,
    /// The offset in bytes.
    pub offset: usize,
    /// What is wrong.
    pub reason: String,
}

impl QuerySyntaxError {
    pub(crate) fn new(query: &str, offset: usize, reason: impl Into<String>) -> QuerySyntaxError {
        let offset = query.floor_char_boundary(offset);
        let before = &query[..offset];
        let line_start = before.rfind('\n').map_or(0, |at| at + 1);
        QuerySyntaxError {
            line: before.matches('\n').count() + 1,
            column: before[line_start..].chars().count() + 1,
            offset,
            reason: reason.into(),
        }
    }
}

/// Why a query has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EvalError {
    /// The query cannot be read.
    #[error(transparent)]
    Syntax(#[from] QuerySyntaxError),
    /// The query is not allowed, or its entries do not fit.
    #[error("{0}")]
    Refused(String),
    /// The query would take more than a limit allows.
    #[error("{0}")]
    TooLarge(String),
    /// Other questions have the memory that the query needs.
    #[error("{0}")]
    Busy(String),
    /// The question took too long, or nobody waits for its answer any more.
    #[error("{0}")]
    Stopped(String),
    /// The source failed.
    #[error("{0}")]
    Source(String),
}

impl EvalError {
    /// Why a text, which `made` names, is not made.
    pub(crate) fn of_text(made: &str, refusal: TextRefusal) -> EvalError {
        match refusal {
            TextRefusal::TooLong(_) => EvalError::TooLarge(format!("{made} {refusal}")),
            TextRefusal::Stopped => EvalError::Stopped("the query takes too long, or its client is gone".into()),
        }
    }
}

impl From<OverBudget> for EvalError {
    fn from(over: OverBudget) -> EvalError {
        match over {
            OverBudget::TooLarge(reason) => EvalError::TooLarge(format!("the answer is refused: {reason}")),
            OverBudget::Busy(reason) => EvalError::Busy(format!("the answer is refused: {reason}")),
        }
    }
}
