//! Runs a program call by call: the tracer sees every system call of each thread before the kernel runs it.
//!
//! The tracer uses ptrace(2), so calls outside the C library count, too. Calls are numbered over all threads in the
//! order of their observation. Before a call the player may step the world, kill the program, or make the call fail. A
//! program may wait for an action of the player. Without calls, the player therefore runs each `TICK`.

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

/// The treatment of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The kernel runs the call.
    Go,
    /// The program is killed before the call.
    Kill,
    /// The call fails without running.
    Fail(Errno),
    /// The call runs, and writes less than asked.
    Short,
    /// The program gets a signal, then the call runs.
    Signal(Signal),
}

/// Decides before each call, and learns its result.
pub trait Player {
    /// Runs before a call.
    fn before(&mut self, call: &Call) -> io::Result<Verdict>;

    /// Runs when no call came for a while, with `idle` as in [`Call`]. Returns the signal for the program.
    fn tick(&mut self, _idle: Duration) -> io::Result<Option<Signal>> {
        Ok(None)
    }

    /// Runs after the call of `thread`. Negative results are errors.
    fn after(&mut self, _thread: Pid, _result: i64) {}

    /// Runs after what the program can read again was removed: from here on, only its own folder has it.
    fn forgotten(&mut self) {}
}

/// A call before it runs.
#[derive(Clone, Copy, Debug)]
pub struct Call {
    /// The calling thread.
    pub thread: Pid,
    /// Its process.
    pub process: Pid,
    /// The arguments.
    pub arguments: [u64; 6],
    /// The kernel's number of the call.
    pub kind: u64,
    /// Time since the last call that did more than wait or read the clock.
    pub idle: Duration,
}

/// The end of a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// It ended with this code.
    Exited(i32),
    /// A signal ended it.
    Killed(Signal),
}

/// Interval of the player's ticks while no calls come.
const TICK: Duration = Duration::from_millis(50);
/// Time limit of a run.
const PATIENCE: Duration = Duration::from_secs(300);

/// Runs `command` to its end, with its output going to `said`, and asks `player` before each call. Returns the end and
/// the number of calls. A run beyond the time limit is killed, and is an error.
pub fn run(command: &Command, said: File, player: &mut dyn Player) -> io::Result<(End, u64)> {
    let leader = start(command, said)?;
    let (over, is_over) = mpsc::channel::<()>();
    std::thread::scope(|scope| {
        let watch = scope.spawn(move || {
            let is_stuck = is_over.recv_timeout(PATIENCE) == Err(mpsc::RecvTimeoutError::Timeout);
            if is_stuck { kill(leader, Signal::SIGKILL).is_ok() } else { false }
        });
        let ended = follow(leader, player);
        if ended.is_err() {
            // The group has lost its tracer.
            kill(leader, Signal::SIGKILL)?;
        }
        drop(over);
        match watch.join() {
            Ok(false) => ended,
            _ => Err(io::Error::other(format!("it did not end within {PATIENCE:?}"))),
        }
    })
}

/// Starts a program, stopped before its first call.
fn start(command: &Command, said: File) -> io::Result<Pid> {
    // The process stops before it executes the program, so that the tracer misses no call.
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

/// A child process that ends at the next tick. waitpid(2) has no timeout, so one call waits for the child and the
/// program.
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

    /// Whether the clock ended. Restarts the clock in that case.
    fn has_struck(&mut self, pid: Pid) -> io::Result<bool> {
        let has_struck = u32::try_from(pid.as_raw()) == Ok(self.0.id());
        if has_struck {
            self.0 = Clock::tick()?;
        }
        Ok(has_struck)
    }
}

/// Ends the child of the present tick.
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
        // Wait only for children of this thread: other threads play their own runs.
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
                            // The number of bytes in a buffer, or of buffers in a list.
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
            // The end of a thread.
            WaitStatus::Exited(thread, _) | WaitStatus::Signaled(thread, ..) => {
                inside.remove(&thread);
                continue;
            }
            _ => continue,
        };
        // A kill may have come meanwhile. The next wait reports it.
        match ptrace::syscall(thread, signal) {
            Ok(()) | Err(Errno::ESRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
}

/// Whether a call only waits or reads the clock.
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
