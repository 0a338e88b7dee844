//! The allocator, and the memory limit of this process.
//!
//! The limit is the least `memory.max` of the [control groups](https://docs.kernel.org/admin-guide/cgroup-v2.html) of this
//! process, or the least `memory.limit_in_bytes` of version 1.

use std::path::{Path, PathBuf};

/// daytable builds and frees pages by the thousand. With the system's allocator that costs more than their compression.
/// SQLite allocates here as well (`.cargo/config.toml`), so every program with the store uses this allocator.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

/// Returns the free memory of this thread's heap to the system. A thread calls it before it goes idle.
///
/// The allocator collects its free memory before it reports that no memory is left. An allocation larger than any machine
/// forces that.
pub fn release_free() {
    let _ = Vec::<u8>::new().try_reserve_exact(usize::MAX / 4);
}

/// The limit of this process's control groups, in bytes. `None` means no limit.
pub fn limit() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    limit_in(Path::new("/sys/fs/cgroup"), &groups)
}

/// The least limit of the groups in `groups` (in the form of `/proc/self/cgroup`) and of their ancestors.
fn limit_in(root: &Path, groups: &str) -> Option<u64> {
    let limits = groups.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':');
        let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
        let (folder, file) = match controllers {
            "" => (root.to_owned(), "memory.max"),
            _ if controllers.split(',').any(|name| name == "memory") => (root.join("memory"), "memory.limit_in_bytes"),
            _ => return None,
        };
        // Within a container the path may be the host's, which does not exist here. Then the root is the container's group.
        let path = PathBuf::from(path.trim_start_matches('/'));
        path.ancestors().filter_map(|group| limit_of(&folder.join(group).join(file))).min()
    });
    limits.min()
}

/// The limit in a file. `max`, and the huge number that version 1 writes instead, mean no limit.
fn limit_of(file: &Path) -> Option<u64> {
    let limit = std::fs::read_to_string(file).ok()?.trim().parse::<u64>().ok()?;
    (limit < 1 << 60).then_some(limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_limit_of_all_groups_applies() {
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
