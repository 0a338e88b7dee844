//! The command line.

use crate::collector::{self, Collector, Daytable};
use std::path::PathBuf;

/// The options of a mode.
pub(crate) struct Options {
    pub(crate) seed: u64,
    /// The number of kills, power cuts or rounds.
    pub(crate) count: u64,
    /// The first load, the number of loads, and how long each takes.
    pub(crate) load_seed: u64,
    pub(crate) loads: u64,
    pub(crate) seconds: u64,
    /// The number of rounds of questions, and how long each takes.
    pub(crate) rounds: u64,
    pub(crate) round_seconds: u64,
    /// The number of kills of a fleet.
    pub(crate) fleet_kills: u64,
    /// The number of hosts that forward to a central daytable.
    pub(crate) hosts: u64,
    pub(crate) stride: usize,
    pub(crate) offset: u64,
    pub(crate) jobs: usize,
    /// The parent folder of all runs. The default is in memory: a killed program loses no write there.
    pub(crate) base: PathBuf,
    pub(crate) collector: Box<dyn Collector>,
    /// The program under test. The default is the release build.
    binary: PathBuf,
}

/// The stride of the short version, which takes about a minute.
const SHORT_STRIDE: usize = 997;
const SHORT_COUNT: u64 = 24;
/// The load of the short torture: one instance, with a follower and readers. It is long enough that compaction has written
/// several merges of a partition while others waited: a build that merged pages twice failed it.
const SHORT_LOADS: u64 = 1;
const SHORT_LOAD_SEED: u64 = 16;
const SHORT_SECONDS: u64 = 40;
/// The round of questions, if it is asked for.
const ROUND_SECONDS: u64 = 600;

/// Hosts of a fleet, if no number is asked for, and kills of the short version.
const HOSTS: u64 = 3;
const SHORT_FLEET_KILLS: u64 = 16;

/// The mode that the short version leaves out: its bounds are those of an optimised build, and a round takes minutes.
const NOT_SHORT: &str = "questions";
/// The modes, in the order of the short version.
const MODES: [&str; 13] = [
    "doubts",
    "sweep",
    "faults",
    "kills",
    "troubles",
    "rotations",
    "cuts",
    "intruders",
    "pushes",
    "loads",
    "questions",
    "outbox",
    "fleet",
];

impl Options {
    /// The modes that `args` ask for, and their options. No modes if `args` ask for a test of another name.
    pub(crate) fn parse(
        args: impl Iterator<Item = String>,
        daytable: Option<PathBuf>,
    ) -> Result<(Vec<String>, Options), String> {
        let memory = PathBuf::from("/dev/shm");
        let base = if memory.is_dir() { memory } else { std::env::temp_dir() };
        let binary = daytable.unwrap_or_else(|| "target/release/daytable".into());
        let collector = collector::named("daytable", &binary).ok_or("no daytable")?;
        let (load_seed, loads, seconds, rounds, round_seconds) = (0, 0, 0, 0, 0);
        let mut options = Options {
            seed: 1,
            count: 0,
            load_seed,
            loads,
            seconds,
            rounds,
            round_seconds,
            fleet_kills: 0,
            hosts: HOSTS,
            stride: 0,
            offset: 0,
            jobs: 6,
            base,
            collector,
            binary,
        };
        let (mut modes, mut name) = (Vec::new(), "daytable".to_owned());
        let mut args = args;
        while let Some(arg) = args.next() {
            let mut value = || args.next().ok_or(format!("{arg} needs a value"));
            match arg.as_str() {
                mode if MODES.contains(&mode) => modes.push(arg),
                "--seed" => options.seed = number(&arg, &value()?)?,
                "--count" => options.count = number(&arg, &value()?)?,
                "--seconds" => options.seconds = number(&arg, &value()?)?,
                "--hosts" => options.hosts = number::<u64>(&arg, &value()?)?.max(1),
                "--stride" => options.stride = number(&arg, &value()?)?,
                "--offset" => options.offset = number(&arg, &value()?)?,
                "--jobs" => options.jobs = number::<usize>(&arg, &value()?)?.max(1),
                "--base" => options.base = value()?.into(),
                "--collector" => name = value()?,
                "--daytable" => options.binary = value()?.into(),
                // `cargo test` passes a filter to every test binary. This binary has no tests to choose from.
                _ if modes.is_empty() && !arg.starts_with("--") => return Ok((Vec::new(), options)),
                "--nocapture" | "--quiet" | "-q" | "--test-threads" => {}
                _ => return Err(format!("unknown argument {arg:?}")),
            }
        }
        options.collector =
            collector::named(&name, &options.binary).ok_or(format!("no collector is called {name:?}"))?;
        let is_short = modes.is_empty();
        let (stride, count, loads, seconds) = match is_short {
            true => (SHORT_STRIDE, SHORT_COUNT, SHORT_LOADS, SHORT_SECONDS),
            false => (1, 1000, 16, 60),
        };
        if is_short {
            modes = MODES.into_iter().filter(|mode| *mode != NOT_SHORT).map(String::from).collect();
        }
        options.stride = if options.stride == 0 { stride } else { options.stride };
        options.load_seed = if is_short { SHORT_LOAD_SEED } else { options.seed };
        options.loads = if options.count == 0 { loads } else { options.count };
        options.rounds = if options.count == 0 { 1 } else { options.count };
        options.fleet_kills = match options.count {
            0 if is_short => SHORT_FLEET_KILLS,
            0 => count,
            asked => asked,
        };
        options.count = if options.count == 0 { count } else { options.count };
        options.round_seconds = if options.seconds == 0 { ROUND_SECONDS } else { options.seconds };
        options.seconds = if options.seconds == 0 { seconds } else { options.seconds };
        Ok((modes, options))
    }

    /// The program `daytable`, for what only this collector has.
    pub(crate) fn daytable(&self) -> Daytable {
        Daytable::new(&self.binary)
    }

    /// The command that repeats a failed run of `mode`. `rest` has the further arguments.
    pub(crate) fn again(&self, mode: &str, rest: &str) -> String {
        let daytable = self.binary.display();
        let mut command = format!("cargo run -rp daytable-torture -- {mode} {rest} --daytable {daytable}");
        if self.collector.name() != "daytable" {
            command += &format!(" --collector {}", self.collector.name());
        }
        command
    }
}

fn number<T: std::str::FromStr>(name: &str, value: &str) -> Result<T, String> {
    value.parse().map_err(|_| format!("{name} needs a number, not {value:?}"))
}
