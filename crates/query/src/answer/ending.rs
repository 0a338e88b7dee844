//! What is said behind an answer: what it is based on, what in the query looks wrong, and why it is empty.

use super::doubts::doubts;
use super::nothing::explain;
use super::{AnswerOptions, AnswerReport, ParsedQuery};
use crate::archived::ArchiveReport;
use crate::stores::Stores;
use crate::tables::TableError;
use daytable_logsql::Remarks;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What is said behind an answer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AnswerEnd {
    /// Records and rows of the answer.
    pub given: u64,
    /// The archives that were read.
    pub archives: Option<String>,
    /// What looks wrong in the query.
    pub warnings: Vec<String>,
    /// Why the answer is not whole.
    pub incomplete: Option<String>,
    /// Why the answer is empty.
    pub nothing: Option<String>,
}

impl AnswerEnd {
    /// The end of an answer from these archives, of which nothing else is to be said.
    pub fn of_archives(report: &ArchiveReport) -> AnswerEnd {
        AnswerEnd { archives: report.notice(), incomplete: report.missing(), ..AnswerEnd::default() }
    }

    /// The end of an answer. The names of the query are looked for in the records for at most `doubts_max`; without a time,
    /// the query is not looked at.
    ///
    /// # Errors
    ///
    /// The stores cannot be read.
    pub fn of(
        stores: &Stores<'_>,
        query: &ParsedQuery,
        remarks: &[Remarks],
        options: &AnswerOptions,
        report: &AnswerReport,
        doubts_max: Option<Duration>,
    ) -> Result<AnswerEnd, TableError> {
        let mut end = AnswerEnd { given: report.given, ..AnswerEnd::of_archives(&report.archives) };
        let Some(doubts_max) = doubts_max.filter(|_| end.incomplete.is_none()) else {
            end.incomplete = end.incomplete.or_else(|| report.cut.clone());
            return Ok(end);
        };
        end.warnings = doubts(stores, query, remarks, options, doubts_max)?.iter().map(ToString::to_string).collect();
        end.incomplete = report.cut.clone();
        if end.incomplete.is_none() && report.matched == 0 && options.filter.limit != Some(0) {
            end.nothing = Some(explain(stores, query, options)?.to_string());
        }
        Ok(end)
    }
}
