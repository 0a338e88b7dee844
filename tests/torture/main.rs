//! A torture that any collector of log files can be put through: what it kept is compared with what was written, record by
//! record and byte by byte.
//!
//! ```text
//! cargo test --test torture                          what CI runs: a few of each
//! cargo test --test torture -- sweep                 killed before the n-th system call, for every n
//!     --stride 7 --offset 3                          … for every seventh
//! cargo test --test torture -- faults                the n-th write, sync, open or rename fails, for every n
//! cargo test --test torture -- kills --count 10000   killed at random, on a world that goes on
//! cargo test --test torture -- cuts --count 2000     a power cut: what was not synced is gone, or torn
//!     --seed 7 --jobs 2 --collector rsyslog          with all of them
//! ```
//!
//! A failure says the seed and the place, which play it again, and leaves the folder. The parts: `world` is what happens to
//! the files, `line` how a record is told from all others, `collector` what is tortured, `tracer` shows each of its system
//! calls, `disk` records what it
//! writes, `run` plays one run, `oracle` judges it.

mod collector;
mod cuts;
mod disk;
mod kills;
mod line;
mod oracle;
mod random;
mod run;
mod sweep;
mod tracer;
mod world;

use collector::Collector;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Mutex;

/// What the command line says.
pub(crate) struct Options {
    pub(crate) seed: u64,
    pub(crate) count: u64,
    pub(crate) stride: usize,
    pub(crate) offset: u64,
    pub(crate) jobs: usize,
    /// Where folders are made; memory, unless told otherwise: what is killed loses nothing that it wrote.
    pub(crate) base: PathBuf,
    pub(crate) collector: Box<dyn Collector>,
}

fn main() -> ExitCode {
    match options(std::env::args().skip(1)) {
        Ok((modes, options)) => {
            let mut failed = 0;
            for mode in modes {
                let found = match mode.as_str() {
                    "sweep" => sweep::kills(&options),
                    "faults" => sweep::faults(&options),
                    "cuts" => cuts::power(&options),
                    _ => kills::random(&options),
                };
                println!("{}", found.report);
                failed += found.failed;
            }
            if failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
        }
        Err(usage) => {
            eprintln!("torture: {usage}; see the head of tests/torture/main.rs");
            ExitCode::from(64)
        }
    }
}

/// What a mode found.
pub(crate) struct Found {
    pub(crate) report: String,
    pub(crate) failed: usize,
}

/// The day of all records: long ago, so that its tables are over and go through their life at once.
pub(crate) const DAY: &str = "2026-11-18";

/// Does `one` for each of `numbers`, `jobs` at a time, and gives the faults.
pub(crate) fn in_parallel(
    jobs: usize,
    numbers: impl Iterator<Item = u64> + Send,
    one: impl Fn(u64) -> Result<(), String> + Sync,
) -> Vec<String> {
    let (numbers, faults) = (Mutex::new(numbers), Mutex::new(Vec::new()));
    let next = || numbers.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).next();
    std::thread::scope(|scope| {
        for _ in 0..jobs {
            scope.spawn(|| {
                while let Some(number) = next() {
                    if let Err(fault) = one(number) {
                        faults.lock().unwrap_or_else(|poisoned| poisoned.into_inner()).push(fault);
                    }
                }
            });
        }
    });
    faults.into_inner().unwrap_or_else(|poisoned| poisoned.into_inner())
}

fn options(args: impl Iterator<Item = String>) -> Result<(Vec<String>, Options), String> {
    let memory = PathBuf::from("/dev/shm");
    let base = if memory.is_dir() { memory } else { std::env::temp_dir() };
    let daytable = collector::named("daytable").ok_or("no daytable")?;
    let (mut modes, mut is_short) = (Vec::new(), true);
    let mut options = Options { seed: 1, count: 0, stride: 0, offset: 0, jobs: 2, base, collector: daytable };
    let mut args = args;
    while let Some(arg) = args.next() {
        let mut number = |name: &str| -> Result<u64, String> {
            let value = args.next().ok_or(format!("{name} needs a number"))?;
            value.parse().map_err(|_| format!("{name} needs a number, not {value:?}"))
        };
        match arg.as_str() {
            "sweep" | "faults" | "kills" | "cuts" => {
                is_short = false;
                modes.push(arg);
            }
            "--seed" => options.seed = number("--seed")?,
            "--count" => options.count = number("--count")?,
            "--stride" => options.stride = usize::try_from(number("--stride")?.max(1)).unwrap_or(1),
            "--offset" => options.offset = number("--offset")?,
            "--jobs" => options.jobs = usize::try_from(number("--jobs")?.max(1)).unwrap_or(1),
            "--base" => options.base = args.next().ok_or("--base needs a folder")?.into(),
            "--collector" => {
                let name = args.next().ok_or("--collector needs a name")?;
                options.collector = collector::named(&name).ok_or(format!("no collector is called {name:?}"))?;
            }
            // What `cargo test` says to every test binary, such as a filter; there are no tests to choose from.
            _ if is_short && !arg.starts_with("--") => return Ok((Vec::new(), options)),
            "--nocapture" | "--quiet" | "-q" | "--test-threads" => {}
            _ => return Err(format!("unknown argument {arg:?}")),
        }
    }
    if is_short {
        modes = ["sweep", "faults", "kills", "cuts"].map(String::from).to_vec();
        options.stride = options.stride.max(211);
        options.count = if options.count == 0 { 25 } else { options.count };
    } else {
        options.stride = options.stride.max(1);
        options.count = if options.count == 0 { 1000 } else { options.count };
    }
    Ok((modes, options))
}
