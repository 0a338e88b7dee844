//! One run: a collector on a world, stopped once in some way, then left undisturbed until it has every record.

use crate::Options;
use crate::collector::{Collector, Stage};
use crate::found::Tally;
use crate::oracle::{Verdict, Written};
use crate::world::World;
use daytable_crash::tracer::{self, Call, End, Player};
use nix::sys::signal::Signal;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit for a collector's stop on a busy machine.
const PATIENCE: Duration = Duration::from_secs(180);
/// Idle time before the first check of the progress, and between later checks.
const IDLE: Duration = Duration::from_millis(30);
const PAUSE: Duration = Duration::from_millis(50);
/// Idle time after which a record not yet read counts as lost.
const GIVEN_UP: Duration = Duration::from_secs(20);
/// From this pause on, the run skips the quick check for every record.
const LONG_PAUSE: Duration = Duration::from_millis(200);
/// The interval of the lifecycle, and a little more.
const LIFECYCLE: Duration = Duration::from_millis(1200);
/// Calls between two steps of the world.
const CALLS_A_STEP: u64 = 100;
/// Steps of the world in a traced run, before and after the removal of the files already read.
const STEPS: [u64; 2] = [16, 10];

/// The folders of one run. Dropping the value removes them.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    /// Time limit for storing every record after the disturbances.
    pub(crate) patience: Duration,
}

impl Place {
    /// Empty folders for a collector.
    fn new(base: &Path, options: &Options) -> io::Result<Place> {
        let (folder, patience) = (tempfile::tempdir_in(base)?, options.collector.patience());
        let place = Place { folder, patience };
        std::fs::create_dir(place.store())?;
        Ok(place)
    }

    pub(crate) fn home(&self) -> PathBuf {
        self.folder.path().to_path_buf()
    }

    pub(crate) fn logs(&self) -> PathBuf {
        self.folder.path().join("logs")
    }

    /// The store of the collector.
    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// Keeps the folders for inspection.
    pub(crate) fn keep(self) -> PathBuf {
        self.folder.keep()
    }
}

/// Plays a run in folders that stay after a failure.
pub(crate) fn in_place<T>(options: &Options, play: impl FnOnce(&mut Place) -> Result<T, String>) -> Result<T, String> {
    in_place_below(&options.base, options, play)
}

/// The same, with folders below `base`.
pub(crate) fn in_place_below<T>(
    base: &Path,
    options: &Options,
    play: impl FnOnce(&mut Place) -> Result<T, String>,
) -> Result<T, String> {
    let mut place = Place::new(base, options).map_err(|error| error.to_string())?;
    let played = play(&mut place);
    played.map_err(|fault| format!("{fault}\n  left in {}", place.keep().display()))
}

/// The part of a traced run.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The world takes its first and its last steps.
    Steps(usize),
    /// The collector must read every record.
    Reading(usize),
    /// The collector completes the days, gets the order to drop them, and drops them.
    Days,
    LetGo,
    Stopping,
}

/// Steps the world between the calls of a collector, and leads the collector through the life of a day.
struct Playing<'a> {
    collector: &'a dyn Collector,
    place: &'a Place,
    world: &'a mut World,
    part: Part,
    steps: u64,
    /// Calls since the last step.
    since: u64,
    asked: Instant,
    player: &'a mut dyn Player,
}

impl Playing<'_> {
    /// Goes on when the collector has finished the present part. Returns the signal to send.
    fn go_on(&mut self, idle: Duration) -> io::Result<Option<Signal>> {
        if let Part::Steps(part) = self.part {
            self.since += 1;
            // An idle collector may be waiting for a change.
            if self.since >= CALLS_A_STEP || idle >= IDLE {
                (self.steps, self.since) = (self.steps + 1, 0);
                self.world.step()?;
            }
            if self.steps == STEPS[part] {
                self.world.finish()?;
                (self.part, self.steps) = (Part::Reading(part), 0);
            }
            return Ok(None);
        }
        if idle < IDLE || self.asked.elapsed() < PAUSE || self.part == Part::Stopping {
            return Ok(None);
        }
        let signal = self.ask(idle);
        self.asked = Instant::now();
        signal
    }

    fn ask(&mut self, idle: Duration) -> io::Result<Option<Signal>> {
        let (home, days) = (self.place.home(), self.world.days());
        match self.part {
            Part::Reading(part) => {
                // A store that cannot be read now may be in the middle of a change.
                let Ok(messages) = self.collector.messages(&home) else { return Ok(None) };
                let verdict = Verdict::of(&self.world.written, messages);
                if !verdict.lost.is_empty() {
                    let is_over = idle >= GIVEN_UP;
                    return if is_over {
                        Err(io::Error::other(format!("it reads no more: {verdict}")))
                    } else {
                        Ok(None)
                    };
                }
                if part == 0 {
                    self.player.forgotten();
                    self.world.forget()?;
                    self.world.was_read();
                    self.world.write_present()?;
                    self.part = Part::Steps(1);
                } else {
                    self.part = Part::Days;
                }
            }
            Part::Days | Part::LetGo => match (self.part, self.collector.stage(&home, &days)) {
                (Part::Days, Ok(Stage::Kept)) => {
                    self.collector.let_go(&home, &self.place.logs())?;
                    self.part = Part::LetGo;
                    return Ok(Some(Signal::SIGHUP));
                }
                (_, Ok(Stage::Done)) => {
                    self.part = Part::Stopping;
                    return Ok(Some(Signal::SIGTERM));
                }
                _ => {}
            },
            Part::Steps(_) | Part::Stopping => {}
        }
        Ok(None)
    }
}

impl Player for Playing<'_> {
    fn before(&mut self, call: &Call) -> io::Result<tracer::Verdict> {
        let verdict = self.player.before(call)?;
        if verdict != tracer::Verdict::Go {
            return Ok(verdict);
        }
        Ok(self.go_on(call.idle)?.map_or(tracer::Verdict::Go, tracer::Verdict::Signal))
    }

    fn tick(&mut self, idle: Duration) -> io::Result<Option<Signal>> {
        self.go_on(idle)
    }

    fn after(&mut self, thread: nix::unistd::Pid, result: i64) {
        self.player.after(thread, result);
    }
}

/// Plays a world beside a traced collector, and obeys `player` at each call. Returns the collector's end and the number
/// of its calls.
pub(crate) fn traced(
    collector: &dyn Collector,
    place: &Place,
    world: &mut World,
    player: &mut dyn Player,
) -> io::Result<(End, u64)> {
    let command = collector.command(&place.home(), &place.logs())?;
    let (part, asked) = (Part::Steps(0), Instant::now());
    tracer::run(
        &command,
        said(place)?,
        &mut Playing { collector, place, world, part, steps: 0, since: 0, asked, player },
    )
}

/// Starts a collector without tracing.
pub(crate) fn start(collector: &dyn Collector, place: &Place) -> io::Result<Child> {
    spawn(place, collector.command(&place.home(), &place.logs())?)
}

/// Starts a collector by a modified command.
pub(crate) fn spawn(place: &Place, mut command: Command) -> io::Result<Child> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said(place)?).spawn()
}

/// The file for the collector's output.
fn said(place: &Place) -> io::Result<File> {
    File::options().append(true).create(true).open(place.home().join("said.log"))
}

/// Waits until an undisturbed collector has every record, stops it, and reports lost, duplicate and wrong records.
pub(crate) fn settle(collector: &dyn Collector, place: &Place, world: &mut World, tally: &Tally) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    world.finish().map_err(failed)?;
    let child = start(collector, place).map_err(failed)?;
    settled(collector, place, &world.written, tally, child)?;
    world.was_read();
    Ok(())
}

/// Does the same with a collector that already runs.
pub(crate) fn settled(
    collector: &dyn Collector,
    place: &Place,
    written: &Written,
    tally: &Tally,
    mut child: Child,
) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    let deadline = Instant::now() + place.patience;
    let mut pause = Duration::from_millis(10);
    let verdict = loop {
        std::thread::sleep(pause);
        pause = (pause * 3 / 2).min(Duration::from_millis(200));
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Err(format!("it ended by itself: {status}"));
        }
        // A complete read is expensive: avoid useless reads, but do not postpone the read for ever.
        if pause < LONG_PAUSE && !collector.seems_to_have(&place.home(), written.least()) {
            continue;
        }
        // A read shows the moment of its begin, and may take minutes on a busy machine: what it lacks may have come since.
        let is_last = Instant::now() >= deadline;
        // A store that cannot be read now may be in the middle of a change.
        match collector.messages(&place.home()).map(|messages| Verdict::of(written, messages)) {
            Ok(verdict) if verdict.lost.is_empty() || is_last => break verdict,
            Err(error) if is_last => {
                end(&mut child).map_err(failed)?;
                return Err(error.to_string());
            }
            _ => {}
        }
    };
    if verdict.written.is_multiple_of(8) {
        // A restarted lifecycle acts within the next second.
        std::thread::sleep(LIFECYCLE);
    }
    terminate(&mut child).map_err(failed)?;
    if !verdict.is_clean() {
        tally.count(&verdict);
        return Err(verdict.to_string());
    }
    // Read once more when the store is quiet.
    let messages = collector.messages(&place.home()).map_err(failed)?;
    let count = messages.len();
    let verdict = Verdict::of(written, messages);
    tally.count(&verdict);
    if !verdict.is_clean() {
        return Err(format!("after the stop: {verdict}"));
    }
    collector.fault(&place.home(), count).map_err(failed)?.map_or(Ok(()), Err)
}

/// Stops a collector as its service manager would.
pub(crate) fn terminate(child: &mut Child) -> io::Result<()> {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    nix::sys::signal::kill(pid, Signal::SIGTERM)?;
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait()?.is_none() {
        if Instant::now() >= deadline {
            end(child)?;
            return Err(io::Error::other("it did not end at SIGTERM"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

/// Kills a collector.
pub(crate) fn end(child: &mut Child) -> io::Result<()> {
    child.kill()?;
    child.wait().map(drop)
}
