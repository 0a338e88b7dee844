//! Memory budgets, which shrink where memory is limited.
//!
//! The limit is `memory_max` of the configuration, or else the smallest limit of the control groups of this process
//! (`memory.max`, or `memory.limit_in_bytes` of version 1). Each budget is a share of the limit, and never more than its
//! value without a limit:
//!
//! | budget | without a limit | share of the limit |
//! |---|--:|--:|
//! | bodies of pushes in memory, and their records (`bodies_bytes_max`) | 128 MiB | a quarter |
//! | one decoded body (`decoded_bytes_max`), one encoded body | 64, 16 MiB | an eighth, a sixteenth |
//! | rows that wait for a commit | 16 MiB | a sixteenth |
//! | recent entries of pushes in each of two generations, about 20 bytes each (`known_entries`) | 229,376 | one per 1 KiB |
//! | unfinished messages of syslog | 32 MiB | a sixteenth |
//! | connections over HTTP (`connections_max`) | 2,048 | one per 256 KiB |
//! | scans at a time | 8 | one per 96 MiB |
//! | idle readers with their caches | 8 | one per 32 MiB |
//! | what all questions keep (`questions`) | 192 MiB | a quarter |
//! | what one of them keeps | 128 MiB | a quarter |
//! | resident memory with which questions get more (`resident`) | 384 MiB | three quarters, at least 64 MiB |
//! | frames for followers (`frames`) | 32 MiB | a sixteenth |
//! | followers | 32 | one per 8 MiB |
//!
//! From 768 MiB on every budget but that of resident memory has its full size or its default. At 64 MiB pushes have 16 MiB and a commit 4 MiB.

use daytable_intake::push;

const MIB: u64 = 1 << 20;
/// The smallest limit: a group with less memory has the budgets of this one.
const LEAST: u64 = crate::config::MEMORY_LEAST;
/// What all questions keep, and one of them.
const QUESTIONS_BYTES_MAX: usize = 192 << 20;
const QUESTION_BYTES_MAX: usize = 128 << 20;
/// The resident memory of a process without a limit, beyond which questions get no more.
const RESIDENT_BYTES_MAX: u64 = 384 << 20;
/// Frames that wait for followers.
const FRAMES_BYTES_MAX: usize = 32 << 20;

/// The memory that parts of the daemon may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Budget {
    /// Bytes of rows that wait for a commit.
    pub(super) waiting_bytes: usize,
    /// Entries of pushes that are remembered.
    pub(super) known_entries: usize,
    /// Bytes of incomplete syslog messages.
    pub(super) held_bytes: usize,
    /// Concurrent scans. Each has pages of all instances that it merges, beside what its question keeps.
    pub(super) scans: usize,
    /// Readers that are kept with their caches.
    pub(super) idle_readers: usize,
    /// Connections of the HTTP listener, whatever is configured.
    pub(super) connections: usize,
    /// What all questions keep, in bytes, and one of them.
    pub(super) questions: (usize, usize),
    /// Bytes of resident memory beyond which questions get no more.
    pub(super) resident: u64,
    /// Bytes of frames that wait for followers.
    pub(super) frames: usize,
    /// Clients that follow at a time.
    pub(super) followers: usize,
    limit: Option<u64>,
}

impl Budget {
    /// The budgets within `limit` bytes.
    pub(super) fn within(limit: Option<u64>) -> Budget {
        let limit = limit.map(|limit| limit.max(LEAST));
        let share = |part: u64, most: usize| limit.map_or(most, |limit| most.min(bytes(limit / part)));
        Budget {
            waiting_bytes: share(16, daytable_store::queue::WAITING_BYTES_MAX),
            known_entries: share(1 << 10, daytable_store::KNOWN_ENTRIES),
            held_bytes: share(16, 32 << 20),
            scans: share(96 * MIB, 8).max(1),
            idle_readers: share(32 * MIB, 8).max(1),
            connections: share(256 << 10, usize::from(u16::MAX)),
            questions: (share(4, QUESTIONS_BYTES_MAX), share(4, QUESTION_BYTES_MAX)),
            resident: limit.map_or(RESIDENT_BYTES_MAX, |limit| (limit / 4 * 3).max(LEAST)),
            frames: share(16, FRAMES_BYTES_MAX),
            followers: share(8 * MIB, 32),
            limit,
        }
    }

    /// The configured limits of pushes, within the budget.
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
    fn budgets_are_shares_of_the_limit_and_never_above_their_full_size() {
        let free = Budget::within(None);
        assert_eq!((free.waiting_bytes, free.held_bytes, free.scans), (16 << 20, 32 << 20, 8));
        assert_eq!(Budget::within(Some(1 << 40)), Budget { limit: Some(1 << 40), resident: 3 << 38, ..free });
        let small = Budget::within(Some(64 * MIB));
        assert_eq!((small.waiting_bytes, small.held_bytes), (4 << 20, 4 << 20));
        assert_eq!((small.scans, small.idle_readers, Budget::within(Some(256 * MIB)).scans), (1, 2, 2));
        assert_eq!((free.known_entries, small.known_entries), (229_376, 65_536));
        assert_eq!((free.resident, small.resident), (384 << 20, 64 << 20));
        assert_eq!((small.questions, small.frames, small.followers), ((16 << 20, 16 << 20), 4 << 20, 8));
        let push = small.push(push::PushLimits::default());
        assert_eq!((push.bodies_bytes_max, push.decoded_bytes_max, push.body_bytes_max), (16 << 20, 8 << 20, 4 << 20));
        assert_eq!((free.connections, small.connections), (usize::from(u16::MAX), 256));
        assert_eq!(free.push(push::PushLimits::default()), push::PushLimits::default());
        assert_eq!(Budget::within(Some(1)), Budget::within(Some(LEAST)));
    }
}
