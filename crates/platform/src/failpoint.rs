//! Places where a test can stop the process, in builds with the feature `failpoints` only.
//!
//! `DAYTABLE_FAILPOINT=commit-between:3` ends the process, as a kill would, when it comes to `commit-between` for the
//! third time. `DAYTABLE_STALLPOINT=commit-between:3` has the thread that comes there stand still for ever.

/// Ends the process here if the environment says so; nothing at all without the feature.
#[macro_export]
macro_rules! failpoint {
    ($name:literal) => {
        $crate::failpoint::reached($name)
    };
}

/// Without the feature no place does anything.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub fn reached(_name: &str) {}

/// The process came to `name`.
#[cfg(feature = "failpoints")]
pub fn reached(name: &str) {
    use std::sync::atomic::{AtomicU32, Ordering};
    static TIMES: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(0)];
    for (variable, times) in ["DAYTABLE_FAILPOINT", "DAYTABLE_STALLPOINT"].into_iter().zip(&TIMES) {
        let Ok(wanted) = std::env::var(variable) else { continue };
        let (place, number) = wanted.split_once(':').unwrap_or((&wanted, "1"));
        if place != name || times.fetch_add(1, Ordering::Relaxed) + 1 != number.parse().unwrap_or(1) {
            continue;
        }
        if variable == "DAYTABLE_FAILPOINT" {
            let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
        }
        loop {
            std::thread::park();
        }
    }
}
