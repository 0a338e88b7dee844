//! Loads of seconds or minutes, after which the store itself is examined.
//!
//! Hundreds of small requests a second make hundreds of small pages a second. These are merged while others come, so a
//! load goes through more merges of one partition than all other modes. The answers would be right even if pages stood
//! twice in the file of a day, because equal keys are resolved. So a load ends with the life of its days: every record is
//! there as often as it was accepted, `verify` is whole, each day is sealed with as many rows, and was not much larger
//! before.
//!
//! ```text
//! clients    1 to 4, each with a request after the other: to one instance, to a few, or to thousands with a row now and
//!            then beside one with many; with and without Idempotency-Key, and some are repeated
//! files      6, with 1,500 lines a second each, while `daytable tail` is open
//! late rows  in some loads, from seconds to hours late, so some are of the day before
//! disk       with and without a delay of each fsync (strace injects it)
//! kills      some loads; the daemon is started again at once
//! readers    questions over HTTP, counts and verifications beside the daemon
//! ```

mod clients;
mod days;
mod files;
pub(crate) mod http;
mod readers;

use crate::Options;
use crate::found::{Found, Tally};
use crate::oracle::Written;
use crate::run::{self, Place};
use crate::{in_parallel, pushes};
use clients::{PACES, Pace};
pub(crate) use days::doubted;
use daytable_crash::random::Random;
use daytable_model::time::{Ticks, now};
use std::fmt;
use std::fs;
use std::io;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, ScopedJoinHandle};
use std::time::{Duration, Instant};

/// Who writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    OneInstance,
    FewInstances,
    ManyInstances,
    Files,
}

const KINDS: [Kind; 4] = [Kind::OneInstance, Kind::FewInstances, Kind::ManyInstances, Kind::Files];

/// Time limit for a daemon's start on a busy machine, and for a client's retries.
const PATIENCE: Duration = Duration::from_secs(120);
/// How often the daemon is looked at during the load.
const PAUSE: Duration = Duration::from_millis(20);
/// The time between two kills.
const KILL_AFTER_MS: [u64; 2] = [1_000, 8_000];
/// The delay of each fsync on a slow disk.
const FSYNC_MS: [u64; 2] = [5, 40];
/// The age of a late row.
const LATE_US_MAX: u64 = 14 * 3_600_000_000;
const DAY: Duration = Duration::from_secs(86_400);

/// No day is sealed before the end of the load.
const LIFECYCLE: &str = "schedule = \"* * * * * *\"\nseal_after = \"365d\"\ngrace = \"0s\"\nmin_tables = 0\n";

/// A load, as its seed says.
struct Load {
    seed: u64,
    kind: Kind,
    pace: Pace,
    length: Duration,
    fsync_delay: Option<Duration>,
    is_killed: bool,
    /// Late rows overlap all pages around them, so these are merged less.
    has_late: bool,
    has_follower: bool,
    readers: u64,
    /// Whether the days are sealed by the running daemon.
    is_sealed_beside: bool,
    clock: Clock,
}

/// The times of the records: the present day or an earlier one.
#[derive(Clone, Copy)]
struct Clock {
    began: Instant,
    first: Ticks,
}

impl Clock {
    fn now(self) -> Ticks {
        self.first.plus(self.began.elapsed())
    }

    /// A time that is late by anything from microseconds to hours. Most are late by little.
    fn late(self, random: &mut Random) -> Ticks {
        let most = 1 + random.below(LATE_US_MAX);
        self.now().minus(Duration::from_micros(random.below(most)))
    }
}

impl Load {
    /// Sixteen seeds in a row have each kind with each pair of a disk and a way to end.
    fn of(seed: u64, length: Duration) -> Load {
        let mut random = Random::new(seed.rotate_left(32) ^ 0x6c6f_6164);
        let kind = KINDS[(seed % 4) as usize];
        let fsync_ms = FSYNC_MS[0] + random.below(FSYNC_MS[1] - FSYNC_MS[0]);
        let days_ago = if random.one_in(2) { 0 } else { 3 };
        Load {
            seed,
            kind,
            pace: PACES[(seed / 4 % 4) as usize],
            length,
            fsync_delay: (!(seed + seed / 4).is_multiple_of(2)).then(|| Duration::from_millis(fsync_ms)),
            is_killed: !(seed / 2 + seed / 8).is_multiple_of(2),
            has_late: random.one_in(2),
            has_follower: kind == Kind::Files || random.one_in(2),
            readers: random.below(3),
            is_sealed_beside: random.one_in(2),
            clock: Clock { began: Instant::now(), first: now().minus(DAY * days_ago) },
        }
    }

    /// Starts the daemon.
    fn start(&self, options: &Options, place: &Place) -> io::Result<Child> {
        let command = options.collector.command(&place.home(), &place.logs())?;
        let Some(delay) = self.fsync_delay else { return run::spawn(place, command) };
        run::spawn(place, on_a_slow_disk(&command, delay))
            .map_err(|error| io::Error::new(error.kind(), format!("strace: {error}: sh tests/setup installs it")))
    }
}

impl fmt::Display for Load {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "load {} of {} s: {:?}", self.seed, self.length.as_secs(), self.kind)?;
        if self.kind != Kind::Files {
            write!(f, ", {:?}", self.pace)?;
        }
        match self.fsync_delay {
            Some(delay) => write!(f, ", fsync {} ms", delay.as_millis())?,
            None => write!(f, ", fsync at once")?,
        }
        let some = [(self.is_killed, "kills"), (self.has_late, "late rows"), (self.has_follower, "tail")];
        for (_, what) in some.iter().filter(|(is, _)| *is) {
            write!(f, ", {what}")?;
        }
        write!(f, ", {} readers, sealed {}", self.readers, if self.is_sealed_beside { "beside" } else { "offline" })
    }
}

/// The same command, with each fsync delayed. The process itself becomes the program, so that a signal reaches it.
fn on_a_slow_disk(command: &Command, delay: Duration) -> Command {
    let mut strace = Command::new("strace");
    // Only the calls named stop the program: others pass the filter in the kernel.
    strace.args(["-D", "-f", "--seccomp-bpf", "-qq", "-o", "/dev/null", "-e", "trace=fsync,fdatasync", "-e"]);
    strace.arg(format!("inject=fsync,fdatasync:delay_enter={}", delay.as_micros()));
    strace.arg(command.get_program()).args(command.get_args());
    strace
}

/// Puts `options.loads` loads on the daemon, each on an empty folder.
pub(crate) fn random(options: &Options) -> Found {
    let tally = Tally::begin();
    if !options.collector.takes_pushes() {
        return tally.found(options, "loads", "0 loads, as it takes none", &[]);
    }
    let length = Duration::from_secs(options.seconds);
    let faults = in_parallel(options.jobs, options.load_seed..options.load_seed + options.loads, |seed| {
        let again = format!("--count 1 --seconds {} --seed {seed}", options.seconds);
        let load = Load::of(seed, length);
        run::in_place(options, |place| play(options, place, &load, &tally))
            .map_err(|fault| format!("{}\n  {load}: {fault}", options.again("loads", &again)))
    });
    tally.found(options, "loads", &format!("{} loads of {} s", options.loads, options.seconds), &faults)
}

fn play(options: &Options, place: &Place, load: &Load, tally: &Tally) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    fs::create_dir_all(place.logs()).map_err(failed)?;
    fs::write(place.home().join("lifecycle.toml"), LIFECYCLE).map_err(failed)?;
    fs::write(place.home().join("more.toml"), files::block(place)).map_err(failed)?;
    let mut child = load.start(options, place).map_err(failed)?;
    let written = match under_load(options, place, load, &mut child) {
        Ok(written) => written,
        Err(error) => {
            run::end(&mut child).map_err(failed)?;
            return Err(error.to_string());
        }
    };
    tally.wrote(&written);
    run::settled(&*options.collector, place, &written, tally, child)?;
    let sealed = days::seal(options, place, load.is_sealed_beside)?;
    println!("{load}: {sealed}");
    // The same records are in the sealed days, and the folder is whole.
    let child = run::start(&*options.collector, place).map_err(failed)?;
    run::settled(&*options.collector, place, &written, tally, child)
}

/// What ends the writers and readers of a load.
pub(crate) struct Ending {
    until: Instant,
    has_failed: AtomicBool,
}

impl Ending {
    /// Whether a writer may begin another request.
    fn is_over(&self) -> bool {
        Instant::now() >= self.until || self.has_failed()
    }

    /// Whether the daemon is gone, or one of the others has failed, so that there is no use in repeating a request.
    fn has_failed(&self) -> bool {
        self.has_failed.load(Ordering::Relaxed)
    }

    fn fail(&self) {
        self.has_failed.store(true, Ordering::Relaxed);
    }

    /// Runs a part of the load. Its failure ends the others.
    fn part<T>(&self, part: impl FnOnce() -> io::Result<T>) -> io::Result<T> {
        part().inspect_err(|_| self.fail())
    }
}

/// Puts the load on a daemon, and kills and starts the daemon meanwhile. Returns the records that it must have.
fn under_load(options: &Options, place: &Place, load: &Load, child: &mut Child) -> io::Result<Written> {
    let socket = &pushes::socket(place);
    http::is_ready(socket, child)?;
    let ending = &Ending { until: Instant::now() + load.length, has_failed: AtomicBool::new(false) };
    thread::scope(|scope| {
        let mut writers: Vec<ScopedJoinHandle<'_, io::Result<Written>>> = Vec::new();
        if load.kind == Kind::Files {
            writers.push(scope.spawn(move || ending.part(|| files::write(load, place, ending))));
        } else {
            writers.extend(
                (0..load.pace.clients)
                    .map(|number| scope.spawn(move || ending.part(|| clients::push(load, number, socket, ending)))),
            );
        }
        let readers: Vec<_> = (0..load.readers)
            .map(|number| scope.spawn(move || ending.part(|| readers::read(options, place, load, number, ending))))
            .collect();
        let follower =
            load.has_follower.then(|| scope.spawn(|| ending.part(|| readers::follow(options, place, ending))));
        let led =
            ending.part(|| lead(options, place, load, child, ending, || writers.iter().all(|it| it.is_finished())));
        let mut all = led.map(|()| Written::default());
        for writer in writers {
            let one = writer.join().unwrap_or_else(|_| Err(io::Error::other("a writer panicked")));
            all = all.and_then(|mut all| one.map(|one| all.records.extend(one.records)).map(|()| all));
        }
        for reader in readers.into_iter().chain(follower) {
            let one = reader.join().unwrap_or_else(|_| Err(io::Error::other("a reader panicked")));
            all = all.and_then(|all| one.map(|()| all));
        }
        all
    })
}

/// Keeps the daemon running until each writer has its answers, and kills it now and then if the load says so.
fn lead(
    options: &Options,
    place: &Place,
    load: &Load,
    child: &mut Child,
    ending: &Ending,
    is_written: impl Fn() -> bool,
) -> io::Result<()> {
    let mut random = Random::new(load.seed ^ 0x6b69_6c6c);
    let mut next_kill =
        || Instant::now() + Duration::from_millis(KILL_AFTER_MS[0] + random.below(KILL_AFTER_MS[1] - KILL_AFTER_MS[0]));
    let mut kill_at = next_kill();
    while !is_written() && !ending.has_failed() {
        thread::sleep(PAUSE);
        if let Some(status) = child.try_wait()? {
            return Err(io::Error::other(format!("it ended by itself: {status}")));
        }
        if load.is_killed && Instant::now() >= kill_at && !ending.is_over() {
            run::end(child)?;
            *child = load.start(options, place)?;
            kill_at = next_kill();
        }
    }
    Ok(())
}
