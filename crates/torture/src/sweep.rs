//! Repeats the same short run. Each repetition disturbs the next system call.
//!
//! The run starts with an empty folder. It covers tailing, rotation, commits, sealing, archiving, a reload, the drop
//! and the stop. Threads interleave by chance, so two runs differ in their calls. Over all `n`, every kind of call is
//! disturbed, most kinds many times.

use crate::collector::Stage;
use crate::found::{Found, Tally};
use crate::run;
use crate::world::World;
use crate::{Options, in_parallel};
use daytable_crash::tracer::{Call, End, Player, Verdict};
use nix::errno::Errno;
use std::sync::atomic::{AtomicU64, Ordering};
use std::{fs, io};

/// The disturbance at the n-th call that counts, and at some calls after it.
type Deed = fn(u64, &Call) -> Option<Verdict>;

/// Kills the collector before the n-th call.
pub(crate) fn kills(options: &Options) -> Found {
    sweep(options, "sweep", |_, _| Some(Verdict::Kill))
}

/// Makes the n-th fallible call fail. For every other n, the calls after it fail for a while, too.
pub(crate) fn faults(options: &Options) -> Found {
    sweep(options, "faults", trouble)
}

/// Length of a burst of failing calls.
const BURST: u64 = 40;

/// The failure of a call on a troubled machine. `None` for a call without a known failure.
fn trouble(n: u64, call: &Call) -> Option<Verdict> {
    use nix::libc::*;
    let [full, broken, files] = [Errno::ENOSPC, Errno::EIO, Errno::EMFILE].map(Verdict::Fail);
    let length = call.arguments[2];
    if is_to_no_file(call) {
        return None;
    }
    #[allow(non_upper_case_globals)]
    let verdict = match i64::try_from(call.kind).ok()? {
        SYS_fsync | SYS_fdatasync | SYS_pread64 => broken,
        SYS_write | SYS_pwrite64 | SYS_writev | SYS_pwritev => match n % 3 {
            0 => full,
            1 => broken,
            _ if length > 1 => Verdict::Short,
            _ => full,
        },
        SYS_ftruncate | SYS_fallocate => [full, broken][(n % 2) as usize],
        SYS_openat => [files, full][(n % 2) as usize],
        SYS_rename | SYS_renameat | SYS_renameat2 | SYS_mkdir => full,
        SYS_accept4 | SYS_socket | SYS_epoll_create1 => files,
        _ => return None,
    };
    Some(verdict)
}

/// Whether a call writes to no file: threads wake each other by counters, and a signal wakes its handler by a socket. No
/// machine fails these writes, and a process whose threads cannot wake each other stands still.
fn is_to_no_file(call: &Call) -> bool {
    let file = || fs::read_link(format!("/proc/{}/fd/{}", call.process, call.arguments[0])).ok();
    i64::try_from(call.kind).is_ok_and(|kind| [nix::libc::SYS_write, nix::libc::SYS_writev].contains(&kind))
        && file().is_some_and(|file| !file.is_absolute())
}

/// Disturbs the n-th eligible call.
struct Once {
    n: u64,
    met: u64,
    deed: Deed,
}

impl Player for Once {
    fn before(&mut self, call: &Call) -> io::Result<Verdict> {
        let Some(verdict) = (self.deed)(self.n, call) else { return Ok(Verdict::Go) };
        self.met += 1;
        let last = if self.n.is_multiple_of(2) { self.n + BURST } else { self.n };
        Ok(if self.n > 0 && (self.n..=last).contains(&self.met) { verdict } else { Verdict::Go })
    }
}

fn sweep(options: &Options, mode: &str, deed: Deed) -> Found {
    let (name, tally) = (options.collector.name(), Tally::begin());
    // An undisturbed run gives the number of calls.
    let calls = match one(options, 0, deed, &tally) {
        Ok(calls) => calls,
        Err(fault) => return Found { report: format!("{name} {mode}: with nothing done to it: {fault}"), failed: 1 },
    };
    let runs = AtomicU64::new(0);
    let faults = in_parallel(options.jobs, (1 + options.offset..=calls).step_by(options.stride), |n| {
        runs.fetch_add(1, Ordering::Relaxed);
        let again = format!("--seed {} --stride 1000000000 --offset {}", options.seed, n - 1);
        one(options, n, deed, &tally).map(drop).map_err(|fault| {
            format!(
                "{}
  {fault}",
                options.again(mode, &again)
            )
        })
    });
    tally.found(options, mode, &format!("{} runs over {calls} calls", runs.into_inner()), &faults)
}

/// One run. Returns the number of calls that counted.
fn one(options: &Options, n: u64, deed: Deed, tally: &Tally) -> Result<u64, String> {
    run::in_place(options, |place| {
        let failed = |error: io::Error| error.to_string();
        let collector = &*options.collector;
        let mut world = World::new(&place.logs(), collector.abilities(), options.seed).map_err(failed)?;
        // Some files exist before the collector starts, as in production.
        (0..4).try_for_each(|_| world.step()).map_err(failed)?;
        let mut once = Once { n, met: 0, deed };
        let (end, _) = run::traced(collector, place, &mut world, &mut once).map_err(failed)?;
        if n == 0 {
            let stage = collector.stage(&place.home(), &world.days()).map_err(failed)?;
            if (end, stage) != (End::Exited(0), Stage::Done) {
                return Err(format!("{end:?} while its days were {stage:?}"));
            }
        }
        // Lines are also written while no collector runs.
        (0..3).try_for_each(|_| world.step()).and_then(|()| world.rotate_twice()).map_err(failed)?;
        tally.played(&world);
        run::settle(collector, place, &mut world, tally)?;
        Ok(once.met)
    })
}
