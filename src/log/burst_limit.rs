//! The limit of messages from one window in the program.

use super::log_line::LogLine;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tracing::callsite::Identifier;
use tracing::{Level, Metadata};

/// Messages of one window within a [`WINDOW`].
pub(super) const BURST: u32 = 50;
/// The length of a window.
pub(super) const WINDOW: Duration = Duration::from_secs(10);
/// Characters of the first suppressed message that the report repeats.
const REPEATED_CHARS: usize = 100;

/// The windows of all places. Their number is the number of log statements in the program.
#[derive(Default)]
pub(super) struct BurstLimits(HashMap<Identifier, CallsiteRate>);

struct CallsiteRate {
    since: Instant,
    logged: u32,
    suppressed: u64,
    level: Level,
    /// The first suppressed message.
    message: String,
}

/// The suppressed messages of one window.
#[derive(Debug)]
pub(super) struct Suppressed {
    pub(super) suppressed: u64,
    pub(super) level: Level,
    pub(super) message: String,
}

impl BurstLimits {
    /// Counts a message: whether to log it, and a report of the window before if that is over.
    pub(super) fn count(
        &mut self,
        metadata: &Metadata<'_>,
        line: &LogLine,
        now: Instant,
    ) -> (bool, Option<Suppressed>) {
        let window = self.0.entry(metadata.callsite()).or_insert_with(|| CallsiteRate::new(line.level, now));
        let over = window.over(now);
        window.logged = window.logged.saturating_add(1);
        let is_logged = window.logged <= BURST;
        if !is_logged {
            if window.suppressed == 0 {
                window.message = line.message.chars().take(REPEATED_CHARS).collect();
            }
            window.suppressed += 1;
        }
        (is_logged, over)
    }

    /// The reports of all windows that are over.
    pub(super) fn over(&mut self, now: Instant) -> Vec<Suppressed> {
        self.0.values_mut().filter_map(|window| window.over(now)).collect()
    }
}

impl CallsiteRate {
    fn new(level: Level, since: Instant) -> CallsiteRate {
        CallsiteRate { since, logged: 0, suppressed: 0, level, message: String::new() }
    }

    /// Starts a new window if the old one is over.
    fn over(&mut self, now: Instant) -> Option<Suppressed> {
        if now.saturating_duration_since(self.since) < WINDOW {
            return None;
        }
        let before = std::mem::replace(self, CallsiteRate::new(self.level, now));
        let CallsiteRate { suppressed, level, message, .. } = before;
        (suppressed > 0).then_some(Suppressed { suppressed, level, message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_reports_its_suppressed_messages_when_it_is_over() {
        let start = Instant::now();
        let mut window = CallsiteRate::new(Level::WARN, start);
        assert!(window.over(start + WINDOW / 2).is_none());
        (window.logged, window.suppressed, window.message) = (BURST + 7, 7, "no".into());
        let logged = window.over(start + WINDOW).expect("the window is over");
        assert_eq!((logged.suppressed, logged.message.as_str(), window.logged), (7, "no", 0));
        assert!(window.over(start + WINDOW * 3).is_none(), "no message was suppressed since");
    }
}
