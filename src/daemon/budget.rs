//! What is made smaller where there is little memory.
//!
//! The limit is the least of the control groups that this process is in (`memory.max`, or `memory.limit_in_bytes` of version
//! 1), unless the configuration says one. Budgets are shares of it, each at most what it is without a limit:
//!
//! | budget | without a limit | share of the limit |
//! |---|--:|--:|
//! | bodies of pushes in memory, and what they become (`bodies_bytes_max`) | 128 MiB | a quarter |
//! | one decoded body (`decoded_bytes_max`), one as it came | 64, 16 MiB | an eighth, a sixteenth |
//! | rows that wait for a commit | 12 MiB | a sixteenth |
//! | unfinished messages of syslog | 32 MiB | a sixteenth |
//! | scans at a time | 8 | one a 32 MiB |
//! | readers that wait with their caches | 8 | one a 32 MiB |
//!
//! So nothing is smaller from 512 MiB on. At 64 MiB a push has 16 MiB, a commit 4.

use daytable_intake::push;

const MIB: u64 = 1 << 20;
/// The least that a limit counts as: below it nothing works anyway.
const LEAST: u64 = 16 * MIB;

/// What may be taken of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Budget {
    /// Bytes of rows that wait for a commit.
    pub(super) waiting_bytes: usize,
    /// Bytes of messages of syslog that are not whole.
    pub(super) held_bytes: usize,
    /// Scans at a time, and readers that wait.
    pub(super) scans: usize,
    limit: Option<u64>,
}

impl Budget {
    /// The budgets within so many bytes; none is without a limit.
    pub(super) fn within(limit: Option<u64>) -> Budget {
        let limit = limit.map(|limit| limit.max(LEAST));
        let share = |part: u64, most: usize| limit.map_or(most, |limit| most.min(bytes(limit / part)));
        Budget {
            waiting_bytes: share(16, daytable_store::queue::WAITING_BYTES_MAX),
            held_bytes: share(16, 32 << 20),
            scans: share(32 * MIB, 8).max(1),
            limit,
        }
    }

    /// What bounds a push, made smaller where there is less.
    pub(super) fn push(&self, limits: push::PushLimits) -> push::PushLimits {
        let Some(limit) = self.limit else { return limits };
        let least = |configured: usize, part: u64| configured.min(bytes(limit / part));
        push::PushLimits {
            bodies_bytes_max: least(limits.bodies_bytes_max, 4),
            decoded_bytes_max: least(limits.decoded_bytes_max, 8),
            body_bytes_max: least(limits.body_bytes_max, 16),
            ..limits
        }
    }
}

fn bytes(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn budgets_are_shares_and_never_more_than_without_a_limit() {
        let free = Budget::within(None);
        assert_eq!((free.waiting_bytes, free.held_bytes, free.scans), (12 << 20, 32 << 20, 8));
        assert_eq!(Budget::within(Some(1 << 40)), Budget { limit: Some(1 << 40), ..free });
        let small = Budget::within(Some(64 * MIB));
        assert_eq!((small.waiting_bytes, small.held_bytes, small.scans), (4 << 20, 4 << 20, 2));
        let push = small.push(push::PushLimits::default());
        assert_eq!((push.bodies_bytes_max, push.decoded_bytes_max, push.body_bytes_max), (16 << 20, 8 << 20, 4 << 20));
        assert_eq!(free.push(push::PushLimits::default()), push::PushLimits::default());
        assert_eq!(Budget::within(Some(1)), Budget::within(Some(LEAST)));
    }
}
