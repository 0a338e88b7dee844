//! Another collector on the same files in the same run: a yardstick for machines of any speed.
//!
//! Every distribution has rsyslog. Here rsyslog neither parses nor answers queries: it copies lines from the files to
//! one file, without a sync. Its queue is `Direct`: one thread reads and writes, which takes half the CPU of the
//! default here.

use crate::process::{Taken, Watched};
use anyhow::{Context, Result, ensure};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Time limit without a new byte. After it the measurement fails.
const PATIENCE: Duration = Duration::from_secs(30);

/// Copies all `*.log` of `folder`, `bytes` in total, to one file below `scratch`.
pub(crate) fn rsyslog(folder: &Path, bytes: u64, scratch: &Path) -> Result<Taken> {
    let state = scratch.join("rsyslog");
    std::fs::create_dir(&state)?;
    let (config, out) = (state.join("rsyslog.conf"), state.join("out"));
    let (shown_state, shown_out, shown_folder) = (state.display(), out.display(), folder.display());
    let text = format!(
        r#"global(workDirectory="{shown_state}" maxMessageSize="64k")
main_queue(queue.type="Direct")
module(load="imfile" mode="inotify")
template(name="raw" type="string" string="%msg%\n")
input(type="imfile" File="{shown_folder}/*.log" Tag="app" ruleset="copy" addMetadata="off")
ruleset(name="copy") {{ action(type="omfile" file="{shown_out}" template="raw" ioBufferSize="256k" flushOnTXEnd="off") }}
"#
    );
    std::fs::write(&config, text)?;
    let mut command = Command::new("rsyslogd");
    command.arg("-n").arg("-f").arg(&config).arg("-i").arg(state.join("pid"));
    let process = Watched::spawn(command.stdout(Stdio::null()).stderr(Stdio::null()))?;
    let (mut last, mut moved) = (0, Instant::now());
    loop {
        let written = out.metadata().map_or(0, |out| out.len());
        // rsyslog writes its last buffer at its end.
        if written + (1 << 20) >= bytes && moved.elapsed() > Duration::from_millis(300) {
            break;
        }
        if written != last {
            (last, moved) = (written, Instant::now());
        }
        ensure!(moved.elapsed() < PATIENCE, "rsyslogd wrote nothing after {written} bytes of {bytes}");
        std::thread::sleep(Duration::from_millis(10));
    }
    let wall = moved.duration_since(process.started());
    let taken = process.stop()?;
    let written = out.metadata().context("rsyslogd wrote nothing")?.len();
    ensure!(written == bytes, "rsyslogd wrote {written} bytes of {bytes}");
    std::fs::remove_dir_all(&state)?;
    Ok(Taken { wall, ..taken })
}
