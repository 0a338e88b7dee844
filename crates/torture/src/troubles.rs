//! Other disturbances in a collector's life, at random. The collector stops and continues, lacks memory or file
//! descriptors, reloads its configuration, gets a wrong clock, passes midnight, is stopped, is killed.
//!
//! A round is a world that goes on and a dozen lives of the collector. Then the collector runs undisturbed, and every
//! record must be there.
//!
//! Memory is limited by rlimit, under which an allocation fails. A control group would instead send SIGKILL at the next
//! new page, and `kills` and `sweep` already kill everywhere. Few machines lend a group to their tests.

use crate::collector::Collector;
use crate::found::{Found, Tally};
use crate::kills::{begin, under_way};
use crate::run::{self, Place};
use crate::world::World;
use crate::{Options, in_rounds};
use daytable_crash::random::Random;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs;
use std::io;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command};
use std::time::Duration;

/// Lives per round.
const LIVES: u64 = 12;

/// Disturbs a collector for `options.count` lives.
pub(crate) fn random(options: &Options) -> Found {
    in_rounds(options, "troubles", LIVES, "lives in trouble", |place, seed, tally| play(options, place, seed, tally))
}

fn play(options: &Options, place: &Place, seed: u64, tally: &Tally) -> Result<(), String> {
    let failed = |error: io::Error| error.to_string();
    let collector = &*options.collector;
    let mut random = Random::new(seed.rotate_left(32) ^ 0x7472_6f75);
    let mut world = World::new(&place.logs(), collector.abilities(), seed).map_err(failed)?;
    begin(options, place, &mut world)?;
    let days = world.days();
    under_way(&mut world, seed, || (0..LIVES).try_for_each(|_| live(collector, place, &days, &mut random)))
        .map_err(failed)?;
    fs::remove_file(place.home().join("more.toml"))
        .or_else(|error| is_gone(&error).then_some(()).ok_or(error))
        .map_err(failed)?;
    tally.played(&world);
    run::settle(collector, place, &mut world, tally)
}

fn is_gone(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound
}

/// Starts a collector, disturbs it, and kills it or sometimes stops it.
fn live(collector: &dyn Collector, place: &Place, days: &[String], random: &mut Random) -> io::Result<()> {
    let trouble = random.below(8);
    let command = collector.command(&place.home(), &place.logs())?;
    let mut child = match trouble {
        0 => run::spawn(place, limited(&command, &format!("ulimit -v {}", 100_000 + random.below(500_000))))?,
        1 => run::spawn(place, limited(&command, &format!("ulimit -n {}", 6 + random.below(60))))?,
        2 => run::spawn(place, at_another_time(command, random))?,
        _ => run::spawn(place, command)?,
    };
    pause(random, 100);
    match trouble {
        3 | 4 => {
            signal(&child, Signal::SIGSTOP)?;
            pause(random, 250);
            signal(&child, Signal::SIGCONT)?;
        }
        5 => {
            let more = ["[[table]]\nname = \"More\"\nwhen = \"level:>=error\"\n", ""][random.below(2) as usize];
            fs::write(place.home().join("more.toml"), more)?;
            drop(collector.command(&place.home(), &place.logs())?);
            signal(&child, Signal::SIGHUP)?;
        }
        6 => {
            collector.let_go(&place.home(), &place.logs())?;
            signal(&child, Signal::SIGHUP)?;
        }
        7 => {
            if let Some(mut errand) = collector.errand(&place.home(), &days[random.below(2) as usize]) {
                let mut errand = errand.spawn()?;
                pause(random, 60);
                run::end(&mut errand)?;
            }
        }
        _ => {}
    }
    pause(random, 100);
    if let Some(status) = child.try_wait()? {
        // The collector may end in three cases: without memory or descriptors; at a SIGHUP before its handler is
        // installed; with code 75 when another process has its folder.
        const TRY_AGAIN: i32 = 75;
        let may_end = match trouble {
            0 | 1 => true,
            5 | 6 => status.signal() == Some(Signal::SIGHUP as i32),
            7 => status.code() == Some(TRY_AGAIN),
            _ => false,
        };
        return if may_end { Ok(()) } else { Err(io::Error::other(format!("trouble {trouble}: it ended: {status}"))) };
    }
    if random.one_in(5) { run::terminate(&mut child) } else { run::end(&mut child) }
}

fn pause(random: &mut Random, most: u64) {
    std::thread::sleep(Duration::from_millis(random.below(most)));
}

fn signal(child: &Child, signal: Signal) -> io::Result<()> {
    let pid = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    // The collector may have ended by itself. A later check finds that.
    match kill(pid, signal) {
        Ok(()) | Err(nix::errno::Errno::ESRCH) => Ok(()),
        Err(error) => Err(error.into()),
    }
}

/// The same command under a limit of the shell.
fn limited(command: &Command, limit: &str) -> Command {
    let mut shell = Command::new("/bin/sh");
    shell.arg("-c").arg(format!("{limit}; exec \"$0\" \"$@\"")).arg(command.get_program()).args(command.get_args());
    shell
}

/// The same command with a clock up to three days off, or just before midnight.
pub(crate) fn at_another_time(mut command: Command, random: &mut Random) -> Command {
    const SECONDS_A_DAY: u64 = 86_400;
    let now = daytable_model::time::now().unix_seconds();
    let to_midnight = SECONDS_A_DAY - now.rem_euclid(86_400).cast_unsigned();
    let offset = match random.below(3) {
        0 => format!("+{}", to_midnight.saturating_sub(1)),
        1 => format!("+{}", random.below(3 * SECONDS_A_DAY)),
        _ => format!("-{}", random.below(3 * SECONDS_A_DAY)),
    };
    let folders = ["/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu", "/usr/lib"];
    let library = folders.map(|folder| format!("{folder}/faketime/libfaketime.so.1"));
    let library = library.iter().find(|path| fs::exists(path).is_ok_and(|there| there));
    // Without the library the program does not start, and the round fails. `tests/setup` installs the library.
    command.env("LD_PRELOAD", library.map_or("libfaketime.so.1", String::as_str)).env("FAKETIME", offset);
    command.env("FAKETIME_DONT_FAKE_MONOTONIC", "1").env("NO_FAKE_STAT", "1");
    command
}
