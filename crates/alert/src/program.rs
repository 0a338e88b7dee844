//! A program that is run when an alert begins: no shell, few variables, a time limit.
//!
//! The program gets the alert as JSON on its standard input, and as variables. It runs as the daemon's user in a process group
//! of its own, which is killed as a whole when the time is over.

use crate::notification::Notification;
use crate::template::fill;
use rustix::process::{Pid, Signal, kill_process_group};
use std::io::{Read, Write};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit of a program.
const RUN_MAX: Duration = Duration::from_secs(30);
/// How often its end is looked for.
const LOOK_INTERVAL: Duration = Duration::from_millis(20);
/// Bytes of its messages that an error shows.
const SHOWN_MAX: usize = 200;
/// Variables of the daemon that the program gets as well.
const VARIABLES: [&str; 5] = ["PATH", "HOME", "LANG", "TZ", "USER"];

/// Runs the program of a rule, and waits for its end.
///
/// # Errors
///
/// It could not be started, ended with another code than 0, or took too long.
pub(crate) fn run(notification: &Notification, run: &[String]) -> Result<(), String> {
    let Some((program, arguments)) = run.split_first() else { return Ok(()) };
    let arguments = arguments.iter().map(|argument| without_nul(fill(argument, |name| notification.place(name))));
    let mut command = Command::new(program);
    command.args(arguments).env_clear().current_dir("/").process_group(0);
    command.envs(VARIABLES.iter().filter_map(|name| Some((*name, std::env::var_os(name)?))));
    for name in ["id", "status", "alert", "value", "since", "query", "url"] {
        let value = notification.place(name).unwrap_or_default().into_owned();
        command.env(format!("DAYTABLE_{}", name.to_uppercase()), without_nul(value));
    }
    command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{program} cannot be started: {error}"))?;
    let said = talk(&mut child, notification.document().to_string());
    let until = Instant::now() + RUN_MAX;
    let ended = loop {
        match child.try_wait() {
            Ok(None) if Instant::now() < until => std::thread::sleep(LOOK_INTERVAL),
            ended => break ended,
        }
    };
    let ended = match ended {
        Ok(Some(status)) if status.success() => return Ok(()),
        Ok(Some(status)) => format!("{program} ended with {status}"),
        Ok(None) => {
            kill(&mut child);
            format!("{program} took longer than {} s and was killed", RUN_MAX.as_secs())
        }
        Err(error) => format!("{program} cannot be waited for: {error}"),
    };
    // A process that it left behind may hold the other end open; its messages are then not waited for.
    let said = said.recv_timeout(Duration::from_millis(200)).unwrap_or_default();
    Err(if said.is_empty() { ended } else { format!("{ended}: {said}") })
}

/// Writes the document and reads the messages, each in a thread, so that neither pipe can block the program for good.
fn talk(child: &mut Child, document: String) -> std::sync::mpsc::Receiver<String> {
    if let Some(mut stdin) = child.stdin.take() {
        // A program that reads nothing closes the pipe, which is not an error.
        std::thread::spawn(move || drop(stdin.write_all(document.as_bytes())));
    }
    let (send, receive) = std::sync::mpsc::sync_channel(1);
    if let Some(stderr) = child.stderr.take() {
        std::thread::spawn(move || {
            let (mut stderr, mut kept, mut buffer) = (stderr, Vec::new(), [0; 4096]);
            while let Ok(read @ 1..) = stderr.read(&mut buffer) {
                let room = (4 * SHOWN_MAX).saturating_sub(kept.len());
                kept.extend_from_slice(&buffer[..read.min(room)]);
            }
            let text = String::from_utf8_lossy(&kept);
            let shown = text.trim().chars().map(|c| if c.is_control() { ' ' } else { c }).take(SHOWN_MAX).collect();
            let _ = send.send(shown);
        });
    }
    receive
}

fn kill(child: &mut Child) {
    if let Some(group) = i32::try_from(child.id()).ok().and_then(Pid::from_raw) {
        let _ = kill_process_group(group, Signal::KILL);
    }
    let _ = child.wait();
}

/// Arguments and variables cannot have a NUL.
fn without_nul(text: String) -> String {
    if text.contains('\0') { text.replace('\0', "\u{fffd}") } else { text }
}
