//! Records for a user who cannot read the data folder: the daemon is asked over its socket of readers.
//!
//! The answer has items as they are in memory, so a command prints what it would print of the folder.

use super::control::{Control, ControlError, ControlResponse};
use super::exit::CliError;
use crate::http::{AskedLine, QuestionForm, RecordQuestion};
use daytable_query::Count;
use daytable_query::answer::{AnswerEnd, AnswerItem, QueryConditions};

/// A daemon that answers questions about records.
pub(super) struct AskedDaemon {
    pub(super) control: Control,
    /// Whether archived days are read.
    pub(super) has_archives: bool,
    /// Whether a remote store is read.
    pub(super) has_remote: bool,
    /// Whether nothing is said about the query.
    pub(super) is_quiet: bool,
}

/// A part of an answer.
pub(super) enum AskedPart {
    Item(AnswerItem),
    GroupEnd,
    Warnings(Vec<String>),
    Count(Count),
}

impl AskedDaemon {
    /// Asks, and passes each part of the answer to `each` until it returns false. The end is `None` if `each` ended the answer.
    pub(super) fn ask(
        self,
        conditions: QueryConditions,
        limit: Option<u64>,
        form: QuestionForm,
        each: &mut dyn FnMut(AskedPart) -> Result<bool, CliError>,
    ) -> Result<Option<AnswerEnd>, CliError> {
        let AskedDaemon { control, has_archives, has_remote, is_quiet } = self;
        let mut question = RecordQuestion::new(conditions, limit, form);
        (question.has_archives, question.has_remote, question.is_quiet) = (has_archives, has_remote, is_quiet);
        let body = serde_json::to_string(&question).map_err(|_| ControlError::Protocol("the question has no form"))?;
        let mut response = control.patient()?.post("/-/ask", &body)?;
        while let Some(line) = next_line(&mut response)? {
            let malformed = || ControlError::Protocol("a line is not part of an answer");
            let part = match serde_json::from_str(&line).map_err(|_| malformed())? {
                AskedLine::Item(text) => AskedPart::Item(AskedLine::item(&text).ok_or_else(malformed)?),
                AskedLine::GroupEnd => AskedPart::GroupEnd,
                AskedLine::Warnings(warnings) => AskedPart::Warnings(warnings),
                AskedLine::Count(count) => AskedPart::Count(count.count().ok_or_else(malformed)?),
                AskedLine::End(end) => return Ok(Some(end)),
            };
            if !each(part)? {
                return Ok(None);
            }
        }
        Err(ControlError::Ended.into())
    }
}

/// The next line with a part of the answer; an answer that is followed has them as events, with heartbeats between.
fn next_line(response: &mut ControlResponse) -> Result<Option<String>, ControlError> {
    loop {
        let Some(line) = response.next_line()? else { return Ok(None) };
        match line.strip_prefix("data: ") {
            Some(data) => return Ok(Some(data.to_owned())),
            None if line.is_empty() || line.starts_with(':') => {}
            None => return Ok(Some(line)),
        }
    }
}
