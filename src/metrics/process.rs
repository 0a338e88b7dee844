//! The process as the kernel sees it, under the names every Prometheus client uses for it.

use super::naming::Naming;
use prometheus::{Counter, Gauge, IntGauge};
use rustix::process::{Resource, getrlimit};
use std::fs;

pub(super) struct Process {
    cpu_seconds: Counter,
    resident_bytes: IntGauge,
    virtual_bytes: IntGauge,
    open_fds: IntGauge,
    max_fds: IntGauge,
    start_time: Gauge,
    threads: IntGauge,
}

/// What `/proc/self/stat` says, in its own units.
#[derive(Debug, PartialEq)]
struct Stat {
    /// User and system time, in clock ticks.
    cpu: u64,
    threads: i64,
    /// Clock ticks since the machine was started.
    started: u64,
    virtual_bytes: i64,
    resident_pages: i64,
}

impl Stat {
    /// The fields are those of proc(5), counted from behind the name, which may hold anything.
    fn parse(text: &str) -> Option<Stat> {
        let fields: Vec<&str> = text.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let unsigned = |field: usize| fields.get(field)?.parse::<u64>().ok();
        let signed = |field: usize| fields.get(field)?.parse::<i64>().ok();
        Some(Stat {
            cpu: unsigned(11)?.saturating_add(unsigned(12)?),
            threads: signed(17)?,
            started: unsigned(19)?,
            virtual_bytes: signed(20)?,
            resident_pages: signed(21)?,
        })
    }
}

impl Process {
    pub(super) fn new(all: &Naming) -> Process {
        let gauge = |name: &str, help: &str| all.enter(IntGauge::new(name, help));
        Process {
            cpu_seconds: all
                .enter(Counter::new("process_cpu_seconds_total", "User and system time spent, in seconds.")),
            resident_bytes: gauge("process_resident_memory_bytes", "Resident memory size in bytes."),
            virtual_bytes: gauge("process_virtual_memory_bytes", "Virtual memory size in bytes."),
            open_fds: gauge("process_open_fds", "Open file descriptors."),
            max_fds: gauge("process_max_fds", "Most file descriptors that may be open."),
            start_time: all
                .enter(Gauge::new("process_start_time_seconds", "Unix time at which the process was started.")),
            threads: gauge("process_threads", "Threads of the process."),
        }
    }

    /// Brings all of it up to date; what `/proc` does not tell stays as it was.
    pub(super) fn read(&self) {
        if let Some(stat) = fs::read_to_string("/proc/self/stat").ok().and_then(|text| Stat::parse(&text)) {
            let hertz = rustix::param::clock_ticks_per_second() as f64;
            let page = i64::try_from(rustix::param::page_size()).unwrap_or(i64::MAX);
            self.cpu_seconds.inc_by((stat.cpu as f64 / hertz - self.cpu_seconds.get()).max(0.0));
            self.resident_bytes.set(stat.resident_pages.saturating_mul(page));
            self.virtual_bytes.set(stat.virtual_bytes);
            self.threads.set(stat.threads);
            // Once: the kernel derives it from the wall clock, and it would move with every correction of that.
            if self.start_time.get() == 0.0
                && let Some(booted) = boot_time()
            {
                self.start_time.set(booted as f64 + stat.started as f64 / hertz);
            }
        }
        if let Ok(open) = fs::read_dir("/proc/self/fd") {
            // One of them is the folder that is being read.
            self.open_fds.set(super::size(open.count().saturating_sub(1)));
        }
        if let Some(most) = getrlimit(Resource::Nofile).current {
            self.max_fds.set(i64::try_from(most).unwrap_or(i64::MAX));
        }
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
        let process = Process::new(&Naming::new());
        process.read();
        assert!(process.resident_bytes.get() > 1 << 20 && process.virtual_bytes.get() > process.resident_bytes.get());
        assert!(process.open_fds.get() >= 3 && process.max_fds.get() > process.open_fds.get());
        assert!(process.threads.get() >= 1);
        let now = daytable_model::time::now().unix_seconds() as f64;
        assert!(process.start_time.get() > now - 86_400.0 && process.start_time.get() < now + 60.0);
    }
}
