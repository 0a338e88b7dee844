//! The priority of a thread.

/// Lowers the priority of this thread by `niceness`, 1 to 19. Without the right to do that, the thread competes with others.
pub fn lower_priority(niceness: i32) {
    if let Err(error) = rustix::process::nice(niceness) {
        tracing::debug!(%error, "a thread runs at the usual priority");
    }
}
