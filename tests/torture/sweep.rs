//! The same short run again and again, each time with something done at the next of its system calls.
//!
//! The run goes from an empty folder over tailing, rotation, commits, sealing and archiving to the stop. Two runs are never
//! the same to the call, as threads meet by chance; over all `n` every kind of place is met, most of them many times.

use crate::run;
use crate::tracer::{Call, Player, Verdict};
use crate::world::World;
use crate::{DAY, Found, Options, in_parallel};
use nix::errno::Errno;
use std::sync::atomic::{AtomicU64, Ordering};

/// Steps of the world in a run.
pub(crate) const STEPS: u64 = 24;

/// What is done at the n-th call that counts.
type Deed = fn(u64, &Call) -> Option<Verdict>;

/// Killed before the n-th call.
pub(crate) fn kills(options: &Options) -> Found {
    sweep(options, "sweep", |_, _| Some(Verdict::Kill))
}

/// The n-th of the calls that may fail fails, and nothing else.
pub(crate) fn faults(options: &Options) -> Found {
    sweep(options, "faults", |n, call| errno(call.kind, n).map(Verdict::Fail))
}

/// How a call may fail on a machine in trouble; none for one that is not known to.
fn errno(kind: u64, n: u64) -> Option<Errno> {
    let kind = i64::try_from(kind).ok()?;
    let is_even = n.is_multiple_of(2);
    match kind {
        nix::libc::SYS_fsync | nix::libc::SYS_fdatasync | nix::libc::SYS_pread64 => Some(Errno::EIO),
        nix::libc::SYS_write | nix::libc::SYS_pwrite64 | nix::libc::SYS_ftruncate | nix::libc::SYS_fallocate => {
            Some(if is_even { Errno::ENOSPC } else { Errno::EIO })
        }
        nix::libc::SYS_openat => Some(if is_even { Errno::EMFILE } else { Errno::ENOSPC }),
        nix::libc::SYS_rename | nix::libc::SYS_renameat | nix::libc::SYS_renameat2 | nix::libc::SYS_mkdir => {
            Some(Errno::ENOSPC)
        }
        _ => None,
    }
}

/// Does the deed at the n-th call for which there is one.
struct Once {
    n: u64,
    met: u64,
    deed: Deed,
}

impl Player for Once {
    fn before(&mut self, call: &Call) -> Verdict {
        let Some(verdict) = (self.deed)(self.n, call) else { return Verdict::Go };
        self.met += 1;
        if self.met == self.n { verdict } else { Verdict::Go }
    }
}

fn sweep(options: &Options, mode: &str, deed: Deed) -> Found {
    let name = options.collector.name();
    // A run with nothing done to it says how many calls there are.
    let calls = match one(options, 0, deed) {
        Ok(calls) => calls,
        Err(fault) => return Found { report: format!("{name}: {mode}, with nothing done to it: {fault}"), failed: 1 },
    };
    let runs = AtomicU64::new(0);
    let faults = in_parallel(options.jobs, (1 + options.offset..=calls).step_by(options.stride), |n| {
        runs.fetch_add(1, Ordering::Relaxed);
        one(options, n, deed).map(drop).map_err(|fault| format!("--offset {} at call {n}: {fault}", n - 1))
    });
    let seed = options.seed;
    faults.iter().for_each(|fault| println!("{name}: {mode} --seed {seed} {fault}"));
    let runs = runs.into_inner();
    let report = format!("{name}: {mode}, seed {seed}: {runs} runs over {calls} calls, {} with a fault", faults.len());
    Found { report, failed: faults.len() }
}

/// One run. Gives the number of calls that counted.
fn one(options: &Options, n: u64, deed: Deed) -> Result<u64, String> {
    run::in_place(options, |place| {
        let failed = |error: std::io::Error| error.to_string();
        let mut world = World::new(&place.logs(), DAY, options.seed).map_err(failed)?;
        // Something is there before the collector, as in life.
        (0..4).try_for_each(|_| world.step()).map_err(failed)?;
        let mut once = Once { n, met: 0, deed };
        run::traced(&*options.collector, place, &mut world, STEPS, &mut once).map_err(failed)?;
        // More is written while nobody reads.
        (0..3).try_for_each(|_| world.step()).map_err(failed)?;
        run::settle(&*options.collector, place, &mut world)?;
        Ok(once.met)
    })
}
