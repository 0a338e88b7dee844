//! One run: a collector on a world, stopped once in some way, then left in peace until it has everything.

use crate::Options;
use crate::collector::Collector;
use crate::oracle;
use crate::tracer::{self, Call, End, Player, Verdict};
use crate::world::World;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// How long a collector may take to have everything once it is left in peace.
const PATIENCE: Duration = Duration::from_secs(60);
/// Quiet after which nothing more is expected to happen by itself.
const IDLE: Duration = Duration::from_millis(400);
/// Calls between two steps of the world.
const CALLS_A_STEP: u64 = 150;

/// The folders of one run, removed with it.
pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    /// Empty folders below `base`.
    pub(crate) fn new(base: &Path) -> io::Result<Place> {
        let place = Place { folder: tempfile::tempdir_in(base)? };
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
pub(crate) fn in_place<T>(options: &Options, play: impl FnOnce(&Place) -> Result<T, String>) -> Result<T, String> {
    let place = Place::new(&options.base).map_err(|error| error.to_string())?;
    let played = play(&place);
    played.map_err(|fault| format!("{fault}\n  left in {}", place.keep().display()))
}

/// Takes the steps of a world between the calls of a collector, and has it end when nothing happens any more.
struct Playing<'w, 'p> {
    world: &'w mut World,
    steps: u64,
    taken: u64,
    since: u64,
    is_told: bool,
    fault: Option<io::Error>,
    player: &'p mut dyn Player,
}

impl Player for Playing<'_, '_> {
    fn before(&mut self, call: &Call) -> Verdict {
        self.since += 1;
        if self.taken < self.steps && self.since >= CALLS_A_STEP {
            (self.taken, self.since) = (self.taken + 1, 0);
            self.fault = self.fault.take().or(self.world.step().err());
        }
        match self.player.before(call) {
            Verdict::Go if self.taken == self.steps && !self.is_told && call.idle >= IDLE => {
                self.is_told = true;
                Verdict::Terminate
            }
            verdict => verdict,
        }
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
    steps: u64,
    player: &mut dyn Player,
) -> io::Result<(End, u64)> {
    let command = collector.command(&place.home(), &place.logs())?;
    let mut playing = Playing { world, steps, taken: 0, since: 0, is_told: false, fault: None, player };
    let ended = tracer::run(&command, &mut playing)?;
    playing.fault.map_or(Ok(ended), Err)
}

/// Starts a collector that is not traced.
pub(crate) fn start(collector: &dyn Collector, place: &Place) -> io::Result<Child> {
    let mut command: Command = collector.command(&place.home(), &place.logs())?;
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn()
}

/// Leaves a collector in peace until it has every record, stops it, and says what is lost, twice or wrong.
pub(crate) fn settle(collector: &dyn Collector, place: &Place, world: &mut World) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    world.finish().map_err(failed)?;
    let mut child = start(collector, place).map_err(failed)?;
    let deadline = Instant::now() + PATIENCE;
    let mut pause = Duration::from_millis(40);
    let verdict = loop {
        std::thread::sleep(pause);
        pause = (pause * 2).min(Duration::from_millis(500));
        if let Some(status) = child.try_wait().map_err(failed)? {
            return Err(format!("it ended by itself: {status}"));
        }
        // What cannot be read now may be in the middle of something.
        let verdict = collector.messages(&place.home()).map(|messages| oracle::Verdict::of(&world.written, messages));
        match verdict {
            Ok(verdict) if verdict.lost.is_empty() || Instant::now() >= deadline => break verdict,
            Err(error) if Instant::now() >= deadline => return Err(error.to_string()),
            _ => {}
        }
    };
    terminate(&mut child).map_err(failed)?;
    if !verdict.is_clean() {
        return Err(verdict.to_string());
    }
    // Once more when nothing moves.
    let messages = collector.messages(&place.home()).map_err(failed)?;
    let verdict = oracle::Verdict::of(&world.written, messages);
    if !verdict.is_clean() {
        return Err(format!("after the stop: {verdict}"));
    }
    collector.fault(&place.home()).map_err(failed)?.map_or(Ok(()), Err)
}

/// Ends a collector as its service manager would.
pub(crate) fn terminate(child: &mut Child) -> io::Result<()> {
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    nix::sys::signal::kill(pid, nix::sys::signal::Signal::SIGTERM)?;
    let deadline = Instant::now() + PATIENCE;
    while child.try_wait()?.is_none() {
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            return Err(io::Error::other("it did not end at SIGTERM"));
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
