//! The memory of one answer.

use super::spill_file::SpillFile;
use daytable_platform::budget::{OverBudget, QuestionBudget};
use daytable_platform::lock;
use std::sync::{Arc, Mutex};

/// The memory that the stages of an answer share. What they charged is given back with the last of them.
#[derive(Clone, Debug)]
pub struct AnswerBudget(Arc<SharedBudget>);

#[derive(Debug)]
struct SharedBudget {
    question: QuestionBudget,
    spill: Arc<SpillFile>,
    over: Mutex<Option<OverBudget>>,
}

impl AnswerBudget {
    /// The memory of a question.
    pub fn new(question: QuestionBudget) -> AnswerBudget {
        let spill = Arc::new(SpillFile::of(&question));
        AnswerBudget(Arc::new(SharedBudget { question, spill, over: Mutex::new(None) }))
    }

    /// Takes memory for what a stage keeps. False if there is no more: then the answer is cut.
    pub(super) fn charge(&self, bytes: usize, kept: &str) -> bool {
        self.question().charge(bytes, kept).map_err(|over| self.refuse(over)).is_ok()
    }

    /// The memory that is charged.
    pub(super) fn question(&self) -> &QuestionBudget {
        &self.0.question
    }

    /// Where that goes which outgrows the memory.
    pub(super) fn spill(&self) -> &Arc<SpillFile> {
        &self.0.spill
    }

    /// Whether the process has memory for the question. If not, the answer is cut.
    pub(super) fn is_affordable(&self) -> bool {
        let over = self.question().shortage();
        let is_affordable = over.is_none();
        over.into_iter().for_each(|over| self.refuse(over));
        is_affordable
    }

    /// Says that there was not enough memory for `kept`.
    pub(super) fn exhaust(&self, kept: &str) {
        self.refuse(self.question().exhausted(kept));
    }

    /// Cuts the answer for this reason, if it is the first one.
    pub(super) fn refuse(&self, over: OverBudget) {
        lock(&self.0.over).get_or_insert(over);
    }

    /// Why the answer was cut, if it was.
    pub fn over(&self) -> Option<OverBudget> {
        lock(&self.0.over).clone()
    }
}
