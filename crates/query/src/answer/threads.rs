//! How many threads work on one question.

use std::sync::OnceLock;

/// Threads that answer one question.
const THREADS_MAX: usize = 8;

/// As many threads as there are cores, up to a limit. To ask the system reads several files, so it is asked once.
pub(super) fn threads() -> usize {
    static THREADS: OnceLock<usize> = OnceLock::new();
    *THREADS.get_or_init(|| std::thread::available_parallelism().map_or(1, |cores| cores.get().min(THREADS_MAX)))
}
