//! The signals that stop the daemon, and the time limit of a stop.

use daytable_model::units::show_duration;
use daytable_platform::reloadable::Reloadable;
use std::io;
use std::time::Duration;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

/// The exit code of a stop that is cut short: `EX_TEMPFAIL`.
const EXIT_CUT_SHORT: i32 = 75;

/// Turns true at SIGTERM or SIGINT. From then on the stop may take `drain_timeout`; then the process exits. A record that
/// is not committed by then was not acknowledged, and is read or sent again as after a kill.
///
/// # Errors
///
/// A signal cannot be handled.
pub(super) fn listen(drain_timeout: Reloadable<Duration>) -> io::Result<watch::Receiver<bool>> {
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let (sender, stop) = watch::channel(false);
    // A separate task, so that the time also runs while a reload waits for the disk.
    tokio::spawn(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        let limit = *drain_timeout.load();
        let deadline = std::thread::Builder::new().name("deadline".into()).spawn(move || {
            std::thread::sleep(limit);
            tracing::error!(
                drain_timeout = show_duration(limit),
                "the stop took too long and is cut short: uncommitted records are read or sent again"
            );
            std::process::exit(EXIT_CUT_SHORT);
        });
        if let Err(error) = deadline {
            tracing::warn!(%error, "failed to start a thread: the stop has no time limit");
        }
        sender.send_replace(true);
    });
    Ok(stop)
}
