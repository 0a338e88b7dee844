//! How many threads work on one question.

/// Threads that answer one question.
const THREADS_MAX: usize = 8;

/// As many threads as there are cores, up to a limit.
pub(super) fn threads() -> usize {
    std::thread::available_parallelism().map_or(1, |cores| cores.get().min(THREADS_MAX))
}
