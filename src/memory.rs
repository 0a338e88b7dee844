//! How much memory there is, and what is made smaller where that is little.
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

use crate::push;
use std::path::{Path, PathBuf};

/// Pages are built and thrown away by the thousand: with the system's allocator that costs more than their compression.
/// SQLite's memory comes from it, too (`.cargo/config.toml`), so every program that has the store has this.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

const MIB: u64 = 1 << 20;
/// The least that a limit counts as: below it nothing works anyway.
const LEAST: u64 = 16 * MIB;

/// What may be taken of what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Bytes of rows that wait for a commit.
    pub waiting_bytes: usize,
    /// Bytes of messages of syslog that are not whole.
    pub held_bytes: usize,
    /// Scans at a time, and readers that wait.
    pub scans: usize,
    limit: Option<u64>,
}

impl Budget {
    /// The budgets within so many bytes; none is without a limit.
    pub fn within(limit: Option<u64>) -> Budget {
        let limit = limit.map(|limit| limit.max(LEAST));
        let share = |part: u64, most: usize| limit.map_or(most, |limit| most.min(bytes(limit / part)));
        Budget {
            waiting_bytes: share(16, crate::store::intake::WAITING_BYTES_MAX),
            held_bytes: share(16, 32 << 20),
            scans: share(32 * MIB, 8).max(1),
            limit,
        }
    }

    /// What bounds a push, made smaller where there is less.
    pub fn push(&self, limits: push::Limits) -> push::Limits {
        let Some(limit) = self.limit else { return limits };
        let least = |configured: usize, part: u64| configured.min(bytes(limit / part));
        push::Limits {
            bodies_bytes_max: least(limits.bodies_bytes_max, 4),
            decoded_bytes_max: least(limits.decoded_bytes_max, 8),
            body_bytes_max: least(limits.body_bytes_max, 16),
            ..limits
        }
    }
}

/// Gives back what this thread's heap keeps for allocations to come: for a thread that goes quiet, since there will be none.
///
/// The allocator does so now and then while it is asked for memory, and all at once before it says that there is none. So it
/// is asked for more than any machine has.
pub fn give_back() {
    let _ = Vec::<u8>::new().try_reserve_exact(usize::MAX / 4);
}

fn bytes(bytes: u64) -> usize {
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

/// The limit of this process's control groups; none where they have none.
pub fn limit() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    limit_in(Path::new("/sys/fs/cgroup"), &groups)
}

/// The least limit of the groups that `groups` names (as `/proc/self/cgroup` does), and of those above them.
fn limit_in(root: &Path, groups: &str) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let (folder, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => (root.join("memory"), "memory.limit_in_bytes"),
            _ => return None,
        };
        // Within a container the path may be that of the host, which is not there: then the root is the container's.
        let path = PathBuf::from(path.trim_start_matches('/'));
        path.ancestors().filter_map(|group| limit_of(&folder.join(group).join(file))).min()
    });
    limits.min()
}

/// The number in a file; `max`, and what version 1 has for it, is none.
fn limit_of(file: &Path) -> Option<u64> {
    let limit = std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok()?;
    (limit < 1 << 60).then_some(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_all_groups_counts() {
        let root = tempfile::tempdir().expect("a folder");
        let put = |path: &str, text: &str| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(path, text).expect("written");
        };
        let limit = |groups: &str| limit_in(root.path(), groups);
        assert_eq!(limit("0::/a/b\n"), None);
        put("a/memory.max", "max\n");
        put("a/b/memory.max", "100000000\n");
        assert_eq!(limit("0::/a/b\n"), Some(100_000_000));
        put("memory.max", "50000000\n");
        assert_eq!(limit("0::/a/b\n"), Some(50_000_000), "the one above is smaller");
        assert_eq!(limit("0::/not/here\n"), Some(50_000_000), "the container's own");
        put("memory/c/memory.limit_in_bytes", "9223372036854771712\n");
        assert_eq!(limit("5:cpu,memory:/c\n4:pids:/c\n"), None);
        put("memory/c/memory.limit_in_bytes", "70000000\n");
        assert_eq!(limit("5:cpu,memory:/c\n"), Some(70_000_000));
        assert_eq!(limit("rubbish\n::\n"), Some(50_000_000));
    }

    #[test]
    fn budgets_are_shares_and_never_more_than_without_a_limit() {
        let free = Budget::within(None);
        assert_eq!((free.waiting_bytes, free.held_bytes, free.scans), (12 << 20, 32 << 20, 8));
        assert_eq!(Budget::within(Some(1 << 40)), Budget { limit: Some(1 << 40), ..free });
        let small = Budget::within(Some(64 * MIB));
        assert_eq!((small.waiting_bytes, small.held_bytes, small.scans), (4 << 20, 4 << 20, 2));
        let push = small.push(push::Limits::default());
        assert_eq!((push.bodies_bytes_max, push.decoded_bytes_max, push.body_bytes_max), (16 << 20, 8 << 20, 4 << 20));
        assert_eq!(free.push(push::Limits::default()), push::Limits::default());
        assert_eq!(Budget::within(Some(1)), Budget::within(Some(LEAST)));
    }
}
