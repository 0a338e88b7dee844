//! The process as the kernel sees it, under the names every Prometheus client uses for it.

use rustix::process::{Resource, getrlimit};
use std::fs;
use std::sync::OnceLock;

/// The process at the moment of a scrape. A value that `/proc` does not have is 0.
#[derive(Default)]
pub(super) struct ProcessSample {
    pub(super) cpu_seconds: f64,
    pub(super) resident_bytes: u64,
    pub(super) virtual_bytes: u64,
    pub(super) open_fds: u64,
    pub(super) max_fds: u64,
    pub(super) start_time: f64,
    pub(super) threads: u64,
}

/// The content of `/proc/self/stat`, in its own units.
#[derive(Debug, PartialEq)]
struct Stat {
    /// User and system time, in clock ticks.
    cpu: u64,
    threads: u64,
    /// Clock ticks since the machine was started.
    started: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Stat {
    /// Parses the fields of proc(5), counted from the end of the name, which may contain any character.
    fn parse(text: &str) -> Option<Stat> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let unsigned = |field: usize| fields.get(field)?.parse::<u64>().ok();
        Some(Stat {
            cpu: unsigned(11)?.saturating_add(unsigned(12)?),
            threads: unsigned(17)?,
            started: unsigned(19)?,
            virtual_bytes: unsigned(20)?,
            resident_pages: unsigned(21)?,
        })
    }
}

impl ProcessSample {
    pub(super) fn read() -> ProcessSample {
        // Read once: the kernel derives the start time from the wall clock, so the value would move with each correction.
        static START_TIME: OnceLock<f64> = OnceLock::new();
        let mut sample = ProcessSample::default();
        if let Some(stat) = fs::read_to_string("/proc/self/stat").ok().and_then(|text| Stat::parse(&text)) {
            let hertz = rustix::param::clock_ticks_per_second() as f64;
            sample.cpu_seconds = stat.cpu as f64 / hertz;
            sample.resident_bytes = stat.resident_pages.saturating_mul(rustix::param::page_size() as u64);
            sample.virtual_bytes = stat.virtual_bytes;
            sample.threads = stat.threads;
            if let Some(booted) = boot_time() {
                sample.start_time = *START_TIME.get_or_init(|| booted as f64 + stat.started as f64 / hertz);
            }
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            // One descriptor is the folder that is being read.
            sample.open_fds = (open.count() as u64).saturating_sub(1);
        }
        sample.max_fds = getrlimit(Resource::Nofile).current.unwrap_or(0);
        sample
    }
}

/// Unix time at which the machine was started.
fn boot_time() -> Option<u64> {
    let stat = fs::read_to_string("/proc/stat").ok()?;
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_with_brackets_and_spaces_moves_no_field() {
        let rest = "S 1 2 3 4 5 6 7 8 9 10 150 50 0 0 20 0 8 0 777 4096000 33 99";
        let stat = Stat { cpu: 200, threads: 8, started: 777, virtual_bytes: 4_096_000, resident_pages: 33 };
        for name in ["daytable", "a b) R 1 (c"] {
            assert_eq!(Stat::parse(&format!("12 ({name}) {rest}")).as_ref(), Some(&stat));
        }
        for broken in ["", "12 (daytable", "12 (daytable) S 1 2"] {
            assert_eq!(Stat::parse(broken), None);
        }
    }

    #[test]
    fn this_process_has_memory_files_threads_and_a_past() {
        let process = ProcessSample::read();
        assert!(process.resident_bytes > 1 << 20 && process.virtual_bytes > process.resident_bytes);
        assert!(process.open_fds >= 3 && process.max_fds > process.open_fds && process.threads >= 1);
        let now = daytable_model::time::now().unix_seconds() as f64;
        assert!(process.start_time > now - 86_400.0 && process.start_time < now + 60.0);
        assert_eq!(process.start_time, ProcessSample::read().start_time);
    }
}
