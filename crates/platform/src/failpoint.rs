//! Points at which a test can stop the process. They exist only in builds with the feature `failpoints`.
//!
//! `DAYTABLE_FAILPOINT=commit-between:3` kills the process when it reaches `commit-between` for the third time.
//! `DAYTABLE_STALLPOINT=commit-between:3` parks the thread that reaches the point, for ever.

/// Kills the process or parks the thread here if the environment asks for that. Does nothing without the feature.
#[macro_export]
macro_rules! failpoint {
    ($name:literal) => {
        $crate::failpoint::reached($name)
    };
}

/// Without the feature a failpoint does nothing.
#[cfg(not(feature = "failpoints"))]
#[inline(always)]
pub fn reached(_name: &str) {}

/// The process reached the failpoint `name`.
#[cfg(feature = "failpoints")]
pub fn reached(name: &str) {
    use std::sync::atomic::{AtomicU32, Ordering};
    static TIMES: [AtomicU32; 2] = [AtomicU32::new(0), AtomicU32::new(0)];
    for (variable, times) in ["DAYTABLE_FAILPOINT", "DAYTABLE_STALLPOINT"].into_iter().zip(&TIMES) {
        let Ok(wanted) = std::env::var(variable) else { continue };
        let (point, number) = wanted.split_once(':').unwrap_or((&wanted, "1"));
        if point != name || times.fetch_add(1, Ordering::Relaxed) + 1 != number.parse().unwrap_or(1) {
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
