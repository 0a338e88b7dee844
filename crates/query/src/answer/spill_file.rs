//! The temporary file of a question, and when it is used.

use super::spill_patterns::SpillPatterns;
use daytable_platform::budget::{OverBudget, QuestionBudget};
use daytable_platform::lock;
use daytable_platform::scratch::{ScratchFile, ScratchSpace};
use std::sync::{Arc, Mutex};

/// Memory that a question keeps before it writes to its file, where it has more.
const MEMORY_MAX: usize = 48 << 20;

/// The temporary file of a question, once it needs one.
#[derive(Debug)]
pub(super) struct SpillFile {
    scratch: ScratchSpace,
    file: Mutex<Option<Arc<ScratchFile>>>,
    /// The patterns of its texts.
    patterns: SpillPatterns,
    memory_max: usize,
}

impl SpillFile {
    /// What a question with this memory needs.
    pub(super) fn of(question: &QuestionBudget) -> SpillFile {
        let memory_max = MEMORY_MAX.min(question.bytes_max() / 2);
        SpillFile {
            scratch: question.scratch().clone(),
            file: Mutex::default(),
            patterns: SpillPatterns::default(),
            memory_max,
        }
    }

    /// Whether one who keeps `held` bytes writes them to the file before it keeps more, or `growth` more at once.
    pub(super) fn is_due(&self, question: &QuestionBudget, held: usize, growth: usize) -> bool {
        // Who has little leaves the memory to others, or makes many small runs.
        held >= self.memory_max / 8 && question.charged() + growth > self.memory_max
    }

    /// Memory that a question keeps before it writes to its file.
    pub(super) fn memory_max(&self) -> usize {
        self.memory_max
    }

    /// The patterns of its texts.
    pub(super) fn patterns(&self) -> &SpillPatterns {
        &self.patterns
    }

    /// The file, which the first call creates.
    ///
    /// # Errors
    ///
    /// Its folder cannot be written.
    pub(super) fn file(&self) -> Result<Arc<ScratchFile>, OverBudget> {
        let mut file = lock(&self.file);
        if let Some(file) = &*file {
            return Ok(file.clone());
        }
        Ok(file.insert(Arc::new(self.scratch.file()?)).clone())
    }
}
