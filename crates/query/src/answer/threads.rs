//! The threads that work on one question.

use daytable_platform::turns::QuestionTurns;

/// Threads that answer one question.
const THREADS_MAX: usize = 8;
/// Added to the niceness of the threads, so that commits get the CPU first.
const NICENESS: i32 = 10;

/// As many threads as there are cores, up to a limit.
pub(super) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(THREADS_MAX))
}

/// Does some work in a thread of its own of a question, which takes turns with those of other questions.
pub(super) fn enter<R>(question: Option<QuestionTurns>, work: impl FnOnce() -> R) -> R {
    daytable_platform::lower_priority(NICENESS);
    match question {
        Some(question) => question.enter(work),
        None => work(),
    }
}
