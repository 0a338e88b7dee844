//! How often one message is said.

use super::log_line::LogLine;
use std::collections::HashMap;
use std::time::{Duration, Instant};
use tracing::callsite::Identifier;
use tracing::{Level, Metadata};

/// Messages from one place in the program that are said within a [`WINDOW`].
pub(super) const BURST: u32 = 50;
/// How long a place that said so many is quiet.
pub(super) const WINDOW: Duration = Duration::from_secs(10);
/// Characters of a message that are repeated when it is said how many were left out.
const REPEATED_CHARS: usize = 100;

/// What each place said. There are as many as the program has of them.
#[derive(Default)]
pub(super) struct BurstLimits(HashMap<Identifier, CallsiteRate>);

struct CallsiteRate {
    since: Instant,
    said: u32,
    left_out: u64,
    level: Level,
    /// The first message that was left out.
    message: String,
}

/// How many messages of one place were left out.
#[derive(Debug)]
pub(super) struct Suppressed {
    pub(super) left_out: u64,
    pub(super) level: Level,
    pub(super) message: String,
}

impl BurstLimits {
    /// Counts a message: whether it is said, and what is to be said of those that were left out before it.
    pub(super) fn count(
        &mut self,
        metadata: &Metadata<'_>,
        line: &LogLine,
        now: Instant,
    ) -> (bool, Option<Suppressed>) {
        let place = self.0.entry(metadata.callsite()).or_insert_with(|| CallsiteRate::new(line.level, now));
        let over = place.over(now);
        place.said = place.said.saturating_add(1);
        let is_said = place.said <= BURST;
        if !is_said {
            if place.left_out == 0 {
                place.message = line.message.chars().take(REPEATED_CHARS).collect();
            }
            place.left_out += 1;
        }
        (is_said, over)
    }

    /// What is to be said of messages that were left out, of places whose window is over.
    pub(super) fn over(&mut self, now: Instant) -> Vec<Suppressed> {
        self.0.values_mut().filter_map(|place| place.over(now)).collect()
    }
}

impl CallsiteRate {
    fn new(level: Level, since: Instant) -> CallsiteRate {
        CallsiteRate { since, said: 0, left_out: 0, level, message: String::new() }
    }

    /// Begins a new window where the old one is over.
    fn over(&mut self, now: Instant) -> Option<Suppressed> {
        if now.saturating_duration_since(self.since) < WINDOW {
            return None;
        }
        let before = std::mem::replace(self, CallsiteRate::new(self.level, now));
        let CallsiteRate { left_out, level, message, .. } = before;
        (left_out > 0).then_some(Suppressed { left_out, level, message })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_quiet_for_the_rest_of_its_window_and_then_says_how_much_it_kept() {
        let start = Instant::now();
        let mut place = CallsiteRate::new(Level::WARN, start);
        assert!(place.over(start + WINDOW / 2).is_none());
        (place.said, place.left_out, place.message) = (BURST + 7, 7, "no".into());
        let said = place.over(start + WINDOW).expect("the window is over");
        assert_eq!((said.left_out, said.message.as_str(), place.said), (7, "no", 0));
        assert!(place.over(start + WINDOW * 3).is_none(), "nothing was left out since");
    }
}
