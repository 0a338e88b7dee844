//! A program that runs call by call: every system call of each of its threads is seen before it is made, whoever makes it.
//!
//! By ptrace(2), so it does not matter whether a call goes through the C library. Calls are numbered over all threads in
//! the order in which they are seen; before a call is made the player may take a step of the world, kill the program, or
//! have the call fail. Where no call is made for a while, as by a program that waits for what only the player does, the player is
//! asked all the same: each [`TICK`].

use nix::errno::Errno;
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;
use std::collections::{HashMap, HashSet};
use std::fs::File;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// What happens at a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It is made.
    Go,
    /// The program is killed before it.
    Kill,
    /// It is not made, and fails.
    Fail(Errno),
    /// It is made, and writes less than it was to write.
    Short,
    /// The program gets a signal, then the call is made.
    Signal(Signal),
}

/// Who is asked before each call, and told after it.
pub(crate) trait Player {
    /// A call is about to be made.
    fn before(&mut self, call: &Call) -> io::Result<Verdict>;

    /// No call was made for a while, and `idle` is as in [`Call`]. Gives the signal that the program is to have.
    fn tick(&mut self, _idle: Duration) -> io::Result<Option<Signal>> {
        Ok(None)
    }

    /// The call that `thread` was about to make is made; negative results are errors.
    fn after(&mut self, _thread: Pid, _result: i64) {}

    /// Whatever was written until now has been read, and is removed.
    fn forgotten(&mut self) {}
}

/// One call, before it is made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Call {
    /// The thread that makes it, and the process it belongs to.
    pub(crate) thread: Pid,
    pub(crate) process: Pid,
    /// What it is made with.
    pub(crate) arguments: [u64; 6],
    /// The kernel's number for what it does.
    pub(crate) kind: u64,
    /// How long none of the program's calls did anything but wait and look at the clock.
    pub(crate) idle: Duration,
}

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Exited(i32),
    Killed(Signal),
}

/// How often the player is asked while there are no calls.
const TICK: Duration = Duration::from_millis(50);
/// How long a run may take.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs `command` to its end, what it says going to `said`, and asks `player` before each call. Gives its end and the number of its calls. A run that does
/// not end is killed, and an error.
pub(crate) fn run(command: &Command, said: File, player: &mut dyn Player) -> io::Result<(End, u64)> {
    let leader = start(command, said)?;
    let (over, is_over) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let watch = scope.spawn(move || {
            let is_stuck = is_over.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout);
            if is_stuck { kill(leader, Signal::SIGKILL).is_ok() } else { false }
        });
        let ended = follow(leader, player);
        if ended.is_err() {
            // Nobody leads it any more.
            kill(leader, Signal::SIGKILL)?;
        }
        drop(over);
        match watch.join() {
            Ok(false) => ended,
            _ => Err(io::Error::other(format!("it did not end within {PATIENCE:?}"))),
        }
    })
}

/// Starts a program that is stopped before its first call.
fn start(command: &Command, said: File) -> io::Result<Pid> {
    // It stops before it becomes the program, so that not one call of that is missed.
    let mut shell = Command::new("/bin/sh");
    shell.args(["-c", "kill -STOP $$; exec \"$0\" \"$@\""]).arg(command.get_program()).args(command.get_args());
    shell.stdin(Stdio::null()).stdout(Stdio::null()).stderr(said).process_group(0);
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let child = shell.spawn()?;
    let leader = Pid::from_raw(i32::try_from(child.id()).map_err(io::Error::other)?);
    waitpid(leader, Some(WaitPidFlag::WUNTRACED))?;
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_EXITKILL;
    ptrace::seize(leader, options)?;
    kill(leader, Signal::SIGCONT)?;
    Ok(leader)
}

/// A child whose end is waited for together with the program's next stop: there is no such wait with a time to it.
struct Clock(Child);

impl Clock {
    fn start() -> io::Result<Clock> {
        Ok(Clock(Clock::tick()?))
    }

    fn tick() -> io::Result<Child> {
        let mut sleep = Command::new("sleep");
        sleep.arg(TICK.as_secs_f64().to_string()).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        sleep.spawn()
    }

    /// Whether what ended is the clock, which then goes on.
    fn has_struck(&mut self, pid: Pid) -> io::Result<bool> {
        let has_struck = u32::try_from(pid.as_raw()) == Ok(self.0.id());
        if has_struck {
            self.0 = Clock::tick()?;
        }
        Ok(has_struck)
    }
}

/// Nobody waited yet for the tick that is under way.
impl Drop for Clock {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn follow(leader: Pid, player: &mut dyn Player) -> io::Result<(End, u64)> {
    let (mut is_program, mut number, mut clock) = (false, 0, Clock::start()?);
    let mut inside: HashSet<Pid> = HashSet::new();
    let mut failing: HashMap<Pid, Errno> = HashMap::new();
    let mut busy = Instant::now();
    loop {
        // Only what this thread traces: others play runs of their own.
        let status = waitpid(None, Some(WaitPidFlag::__WALL | WaitPidFlag::__WNOTHREAD))?;
        let (thread, signal) = match status {
            WaitStatus::Exited(pid, code) if pid == leader => return Ok((End::Exited(code), number)),
            WaitStatus::Signaled(pid, signal, _) if pid == leader => return Ok((End::Killed(signal), number)),
            WaitStatus::PtraceSyscall(thread) => {
                let is_entry = inside.insert(thread);
                if !is_entry {
                    inside.remove(&thread);
                    let Ok(mut registers) = ptrace::getregs(thread) else { continue };
                    if let Some(errno) = failing.remove(&thread) {
                        registers.rax = (-i64::from(errno as i32)).cast_unsigned();
                        ptrace::setregs(thread, registers)?;
                    }
                    if is_program {
                        player.after(thread, registers.rax.cast_signed());
                    }
                } else if is_program {
                    let Ok(mut registers) = ptrace::getregs(thread) else { continue };
                    number += 1;
                    let arguments =
                        [registers.rdi, registers.rsi, registers.rdx, registers.r10, registers.r8, registers.r9];
                    let (kind, idle) = (registers.orig_rax, busy.elapsed());
                    let call = Call { thread, process: leader, arguments, kind, idle };
                    if !is_waiting(call.kind) {
                        busy = Instant::now();
                    }
                    match player.before(&call)? {
                        Verdict::Go => {}
                        Verdict::Kill => {
                            kill(leader, Signal::SIGKILL)?;
                            continue;
                        }
                        Verdict::Signal(signal) => kill(leader, signal)?,
                        Verdict::Short => {
                            // Bytes of a buffer, or buffers of a list.
                            registers.rdx = registers.rdx.div_ceil(2);
                            ptrace::setregs(thread, registers)?;
                        }
                        Verdict::Fail(errno) => {
                            registers.orig_rax = u64::MAX;
                            ptrace::setregs(thread, registers)?;
                            failing.insert(thread, errno);
                        }
                    }
                }
                (thread, None)
            }
            WaitStatus::PtraceEvent(thread, _, event) => {
                if event == ptrace::Event::PTRACE_EVENT_EXEC as i32 {
                    is_program = true;
                }
                (thread, None)
            }
            WaitStatus::Stopped(thread, signal) => (thread, Some(signal).filter(|signal| *signal != Signal::SIGTRAP)),
            WaitStatus::Exited(pid, _) if clock.has_struck(pid)? => {
                if is_program && let Some(signal) = player.tick(busy.elapsed())? {
                    kill(leader, signal)?;
                }
                continue;
            }
            // A thread that ended.
            WaitStatus::Exited(thread, _) | WaitStatus::Signaled(thread, ..) => {
                inside.remove(&thread);
                continue;
            }
            _ => continue,
        };
        // It may have been killed meanwhile, which the next wait tells.
        match ptrace::syscall(thread, signal) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether a call only waits, or looks whether it is time.
fn is_waiting(kind: u64) -> bool {
    const WAITING: [i64; 9] = [
        nix::libc::SYS_futex,
        nix::libc::SYS_epoll_wait,
        nix::libc::SYS_epoll_pwait,
        nix::libc::SYS_poll,
        nix::libc::SYS_ppoll,
        nix::libc::SYS_clock_nanosleep,
        nix::libc::SYS_sched_yield,
        nix::libc::SYS_statx,
        nix::libc::SYS_stat,
    ];
    WAITING.iter().any(|waiting| u64::try_from(*waiting) == Ok(kind))
}
