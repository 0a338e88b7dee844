//! One run: a collector on a world, stopped once in some way, then left in peace until it has everything.

use crate::Options;
use crate::collector::{Collector, Stage};
use crate::found::Tally;
use crate::oracle::{Verdict, Written};
use crate::tracer::{self, Call, End, Player};
use crate::world::World;
use nix::sys::signal::Signal;
use std::fs::File;
use std::io;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a collector may take to end when it is told to, on a machine that is busy with other things.
const PATIENCE: Duration = Duration::from_secs(180);
/// Quiet after which it is asked how far it is, and how long it is left alone after that.
const IDLE: Duration = Duration::from_millis(30);
const PAUSE: Duration = Duration::from_millis(50);
/// Quiet after which it reads nothing more of what was written before: it has lost what it has not.
const GIVEN_UP: Duration = Duration::from_secs(20);
/// From such pauses on it is not asked first whether it seems to have everything.
const LONG_PAUSE: Duration = Duration::from_millis(200);
/// How often the lifecycle looks at what is to be done, and a little more.
const LIFECYCLE: Duration = Duration::from_millis(1200);
/// Calls between two steps of the world.
const CALLS_A_STEP: u64 = 100;
/// Steps of the world in a traced run before everything that was read is removed, and after it.
const STEPS: [u64; 2] = [16, 10];

/// The folders of one run, removed with it.
pub(crate) struct Place {
    folder: tempfile::TempDir,
    /// How long a collector may take here to have everything once it is left in peace.
    pub(crate) patience: Duration,
}

impl Place {
    /// Empty folders for a collector.
    fn new(options: &Options) -> io::Result<Place> {
        let (folder, patience) = (tempfile::tempdir_in(&options.base)?, options.collector.patience());
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

    /// What the collector keeps, and nothing else.
    pub(crate) fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    /// Leaves the folders where they are, for whoever looks for the reason.
    pub(crate) fn keep(self) -> PathBuf {
        self.folder.keep()
    }
}

/// Plays in folders that stay when it fails.
pub(crate) fn in_place<T>(options: &Options, play: impl FnOnce(&mut Place) -> Result<T, String>) -> Result<T, String> {
    let mut place = Place::new(options).map_err(|error| error.to_string())?;
    let played = play(&mut place);
    played.map_err(|fault| format!("{fault}\n  left in {}", place.keep().display()))
}

/// Where a traced run is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    /// The world takes its first steps, and its last.
    Steps(usize),
    /// All of it is to be read.
    Reading(usize),
    /// The days are to go their way, then they are let go, then they go.
    Days,
    LetGo,
    Stopping,
}

/// Takes the steps of a world between the calls of a collector, and leads it through the life of a day to its end.
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
    /// Goes on if the collector is through with the part where it is. Gives the signal that it is to have.
    fn go_on(&mut self, idle: Duration) -> io::Result<Option<Signal>> {
        if let Part::Steps(part) = self.part {
            self.since += 1;
            // It may wait for something to happen.
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
                // What cannot be read now may be in the middle of something.
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

/// Plays a world beside a collector that is traced, and does at each call what `player` says. Gives how it ended and how
/// many calls it made.
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

/// Starts a collector that is not traced.
pub(crate) fn start(collector: &dyn Collector, place: &Place) -> io::Result<Child> {
    spawn(place, collector.command(&place.home(), &place.logs())?)
}

/// Starts a collector by a command that was changed.
pub(crate) fn spawn(place: &Place, mut command: Command) -> io::Result<Child> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said(place)?).spawn()
}

/// Where what it says goes.
fn said(place: &Place) -> io::Result<File> {
    File::options().append(true).create(true).open(place.home().join("said.log"))
}

/// Leaves a collector in peace until it has every record, stops it, and says what is lost, twice or wrong.
pub(crate) fn settle(collector: &dyn Collector, place: &Place, world: &mut World, tally: &Tally) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    world.finish().map_err(failed)?;
    let child = start(collector, place).map_err(failed)?;
    settled(collector, place, &world.written, tally, child)?;
    world.was_read();
    Ok(())
}

/// The same of a collector that was started already.
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
        // To read all of it is work, so that is not done in vain, nor put off for ever.
        if pause < LONG_PAUSE && !collector.seems_to_have(&place.home(), written.least()) {
            continue;
        }
        // What cannot be read now may be in the middle of something.
        match collector.messages(&place.home()).map(|messages| Verdict::of(written, messages)) {
            Ok(verdict) if verdict.lost.is_empty() || Instant::now() >= deadline => break verdict,
            Err(error) if Instant::now() >= deadline => {
                end(&mut child).map_err(failed)?;
                return Err(error.to_string());
            }
            _ => {}
        }
    };
    if verdict.written.is_multiple_of(8) {
        // What a lifecycle that was begun again does comes within the second after.
        std::thread::sleep(LIFECYCLE);
    }
    terminate(&mut child).map_err(failed)?;
    if !verdict.is_clean() {
        tally.count(&verdict);
        return Err(verdict.to_string());
    }
    // Once more when nothing moves.
    let messages = collector.messages(&place.home()).map_err(failed)?;
    let count = messages.len();
    let verdict = Verdict::of(written, messages);
    tally.count(&verdict);
    if !verdict.is_clean() {
        return Err(format!("after the stop: {verdict}"));
    }
    collector.fault(&place.home(), count).map_err(failed)?.map_or(Ok(()), Err)
}

/// Ends a collector as its service manager would.
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

/// Ends a collector at once.
pub(crate) fn end(child: &mut Child) -> io::Result<()> {
    child.kill()?;
    child.wait().map(drop)
}
