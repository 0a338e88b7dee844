//! Whether the commit loop goes round: what the service manager is told, and what ends the daemon when it does not.
//!
//! A process that only lives is not enough. The watchdog is fed when the committer answered since the last time: one
//! that hangs in a system call, or ended, starves it.

use super::observe::Counted;
use crate::live::Live;
use crate::store::Intake;

use sd_notify::NotifyState;
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;
use tokio::sync::watch;

/// How often the committer is looked at; it comes round every second at least.
const LOOK: Duration = Duration::from_secs(1);
/// How often the service manager hears, where it does not ask for more.
const PACE: Duration = Duration::from_secs(10);

/// The thread that looks.
pub(super) struct Watchdog {
    died: watch::Receiver<bool>,
    stop: mpsc::Sender<()>,
}

/// Tells the service manager that the daemon is ready, and begins to watch.
pub(super) fn start(intake: Intake, counted: Live<Counted>) -> std::io::Result<Watchdog> {
    let pace = sd_notify::watchdog_enabled().map_or(PACE, |limit| limit / 3);
    let (told, died) = watch::channel(false);
    let (stop, stopped) = mpsc::channel();
    notify(&[NotifyState::Ready]);
    std::thread::Builder::new().name("watchdog".into()).spawn(move || {
        let (mut records, mut beats, mut quiet) = (0, 0, Duration::ZERO);
        while let Err(mpsc::RecvTimeoutError::Timeout) = stopped.recv_timeout(LOOK.min(pace)) {
            if intake.has_ended() {
                told.send_replace(true);
                return;
            }
            quiet += LOOK.min(pace);
            if quiet < pace || intake.beats() == beats {
                continue;
            }
            let counters = counted.now().tails.clone();
            let now: u64 = counters.blocks.iter().map(|block| block.records.load(Ordering::Relaxed)).sum();
            let rate = now.saturating_sub(records) / quiet.as_secs().max(1);
            let files = counters.followed_files.load(Ordering::Relaxed);
            notify(&[NotifyState::Watchdog, NotifyState::Status(&format!("{files} files, {rate} records/s"))]);
            (records, beats, quiet) = (now, intake.beats(), Duration::ZERO);
        }
    })?;
    Ok(Watchdog { died, stop })
}

impl Watchdog {
    /// Returns once the committer is gone.
    pub(super) async fn died(&self) {
        let mut died = self.died.clone();
        if died.wait_for(|died| *died).await.is_err() {
            std::future::pending().await
        }
    }

    /// Tells the service manager that the daemon is stopping.
    pub(super) fn stop(self) {
        notify(&[NotifyState::Stopping]);
        drop(self.stop);
    }
}

/// Tells the service manager that the configuration is being read again.
pub(super) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(_) => notify(&[NotifyState::Reloading]),
    }
}

/// Tells it that this is over, whatever came of it.
pub(super) fn reloaded() {
    notify(&[NotifyState::Ready]);
}

/// Where no service manager listens this does nothing.
fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "failed to notify the service manager");
    }
}
