//! The allocator, and the memory limit of this process.
//!
//! The limit is the least `memory.max` of the [control groups](https://docs.kernel.org/admin-guide/cgroup-v2.html) of this
//! process, or the least `memory.limit_in_bytes` of version 1.

use std::cell::Cell;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

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

/// How often a thread that builds and frees without an end looks at the size of the process.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// The size from which on free memory goes back while a thread works: to take it again costs some of its time. The allocator
/// keeps it for a second, in which a question reads a whole day.
const KEPT_MAX: u64 = 64 << 20;

/// Does [`release_free`] if this thread has not looked for a while, and the process is large.
pub fn release_free_while_working() {
    thread_local! {
        static LOOKED: Cell<Option<Instant>> = const { Cell::new(None) };
    }
    let now = Instant::now();
    let looked = LOOKED.get();
    if looked.is_some_and(|looked| now.duration_since(looked) < LOOK_EVERY) {
        return;
    }
    if looked.is_some() && resident().is_some_and(|bytes| bytes > KEPT_MAX) {
        release_free();
    }
    LOOKED.set(Some(now));
}

/// How old a measurement of the process may be. In that time two cores fill some megabytes.
const MEASURED_FOR: Duration = Duration::from_millis(2);

/// The memory of this process beside a limit.
///
/// What is charged is never all: decoders, buffers and the free memory that the allocator keeps come on top. So the
/// process itself is looked at, too.
#[derive(Debug)]
pub struct ProcessMemory {
    bytes_max: u64,
    resident: fn() -> Option<u64>,
    start: Instant,
    /// When the next measurement is due, in nanoseconds since `start`.
    due: AtomicU64,
    /// What the last one found.
    excess: AtomicU64,
}

impl ProcessMemory {
    /// A limit of the resident memory in bytes, without mapped files.
    pub fn within(bytes_max: u64) -> ProcessMemory {
        ProcessMemory::measured_by(bytes_max, resident)
    }

    pub(crate) fn measured_by(bytes_max: u64, resident: fn() -> Option<u64>) -> ProcessMemory {
        let (due, excess) = (AtomicU64::new(0), AtomicU64::new(0));
        ProcessMemory { bytes_max, resident, start: Instant::now(), due, excess }
    }

    /// The limit.
    pub fn bytes_max(&self) -> u64 {
        self.bytes_max
    }

    /// Bytes beyond the limit, not older than some milliseconds. 0 where nothing can be measured.
    ///
    /// It is asked for each record by each thread: one of them measures, and the others do not wait for it.
    pub fn excess(&self) -> u64 {
        let since = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
        let (now, due) = (since(self.start.elapsed()), self.due.load(Ordering::Relaxed));
        let next = now.saturating_add(since(MEASURED_FOR));
        if now >= due && self.due.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            let excess = || (self.resident)().unwrap_or(0).saturating_sub(self.bytes_max);
            let mut found = excess();
            if found > 0 {
                release_free();
                found = excess();
            }
            self.excess.store(found, Ordering::Relaxed);
        }
        self.excess.load(Ordering::Relaxed)
    }
}

/// The resident memory of this process in bytes, without mapped files.
fn resident() -> Option<u64> {
    let statm = std::fs::read_to_string("/proc/self/statm").ok()?;
    let mut pages = statm.split(' ').skip(1).map(|pages| pages.parse::<u64>().ok());
    let (resident, shared) = (pages.next()??, pages.next()??);
    Some(resident.saturating_sub(shared) * rustix::param::page_size() as u64)
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
    fn the_process_is_measured() {
        let before = resident().expect("measured");
        let kept = vec![1u8; 64 << 20];
        assert!(resident().expect("measured") > before + (32 << 20), "{}", kept.len());
        assert!(ProcessMemory::within(1 << 20).excess() > 0);
        assert_eq!(ProcessMemory::within(u64::MAX).excess(), 0);
    }

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
