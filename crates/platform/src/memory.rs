//! The allocator, and how much memory this process may take.
//!
//! The limit is the least of the control groups that this process is in (`memory.max`, or `memory.limit_in_bytes` of version
//! 1).

use std::path::{Path, PathBuf};

/// Pages are built and thrown away by the thousand: with the system's allocator that costs more than their compression.
/// SQLite's memory comes from it, too (`.cargo/config.toml`), so every program that has the store has this.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Gives back what this thread's heap keeps for allocations to come: for a thread that goes quiet, since there will be none.
///
/// The allocator does so now and then while it is asked for memory, and all at once before it says that there is none. So it
/// is asked for more than any machine has.
pub fn give_back() {
    let _ = Vec::<u8>::new().try_reserve_exact(usize::MAX / 4);
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
}
