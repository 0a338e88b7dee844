//! Reports to the service manager whether the commit loop runs (`sd_notify(3)`, `WatchdogSec=`).
//!
//! 1. The committer finishes a round at least once a second. The watchdog notifies the service manager while it does,
//!    so the service manager restarts a daemon whose committer hangs.
//! 2. A stalled disk is not a committer that hangs: a restart does not help, and the kernel does not even end a process
//!    that waits for the disk. While the committer's thread is in uninterruptible sleep (state `D`), the watchdog
//!    continues notifying for at most [`DISK_PATIENCE`].
//! 3. The status, as `systemctl status` shows it, has records a second, the lag of the slowest source, and the next
//!    step of the lifecycle. All of these are counted anyway.

use crate::metrics::{CounterRegistry, Metrics};
use daytable_lifecycle::LifecycleProgress;
use daytable_model::time;
use daytable_platform::lock;
use daytable_platform::reloadable::Reloadable;
use daytable_store::CommitQueue;
use sd_notify::NotifyState;
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};
use tokio::sync::watch;

/// How often the committer is checked; it finishes a round at least once a second.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How often the service manager is notified, unless it requires more.
const NOTIFY_INTERVAL: Duration = Duration::from_secs(10);
/// How long a round may take before it is reported. An idle committer takes a second, and a busy machine is slower.
const SLOW_ROUND: Duration = Duration::from_secs(5);
/// How long the committer may wait for the disk before it counts as hanging.
pub(super) const DISK_PATIENCE: Duration = Duration::from_secs(600);

/// The thread that checks the committer.
pub(super) struct Watchdog {
    died: watch::Receiver<bool>,
    stop: mpsc::Sender<()>,
}

/// The state that the watchdog reads.
pub(super) struct WatchdogContext {
    pub(super) queue: CommitQueue,
    pub(super) counters: Reloadable<CounterRegistry>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) progress: Arc<LifecycleProgress>,
}

/// Notifies the service manager that the daemon is ready, and starts the watchdog.
pub(super) fn start(watched: WatchdogContext) -> std::io::Result<Watchdog> {
    let pace = sd_notify::watchdog_enabled().map_or(NOTIFY_INTERVAL, |limit| limit / 3);
    let (ended, died) = watch::channel(false);
    let (stop, stopped) = mpsc::channel();
    notify(&[NotifyState::Ready]);
    std::thread::Builder::new().name("watchdog".into()).spawn(move || {
        let mut rounds = CommitterRounds::new(&watched, pace);
        while let Err(mpsc::RecvTimeoutError::Timeout) = stopped.recv_timeout(CHECK_INTERVAL.min(pace)) {
            if watched.queue.has_ended() {
                ended.send_replace(true);
                return;
            }
            rounds.check(&watched);
            crate::log::log_suppressed();
        }
    })?;
    Ok(Watchdog { died, stop })
}

/// The committer's rounds so far.
struct CommitterRounds {
    pace: Duration,
    /// The time of the last notification.
    notified: Instant,
    records: u64,
    rounds: u64,
    /// The time of the last round that was seen.
    last_round: Instant,
    /// Whether the committer waited for the disk since the last notification.
    waited: bool,
    committer: Option<PathBuf>,
}

/// The activity of the committer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommitterState {
    /// It finishes rounds.
    Running,
    /// It waits for the disk.
    WaitsForDisk,
    /// It hangs.
    Hangs,
}

fn judge(has_finished: bool, waited: bool, since: Duration) -> CommitterState {
    match (has_finished, waited) {
        (true, _) => CommitterState::Running,
        (false, true) if since < DISK_PATIENCE => CommitterState::WaitsForDisk,
        (false, _) => CommitterState::Hangs,
    }
}

impl CommitterRounds {
    fn new(watched: &WatchdogContext, pace: Duration) -> CommitterRounds {
        let now = Instant::now();
        CommitterRounds {
            pace,
            notified: now,
            records: lock(&watched.metrics.commits).records,
            rounds: watched.queue.beats(),
            last_round: now,
            waited: false,
            committer: committer(),
        }
    }

    fn check(&mut self, watched: &WatchdogContext) {
        let (now, beats) = (Instant::now(), watched.queue.beats());
        let has_finished = beats != self.rounds;
        if !has_finished && self.committer.as_deref().and_then(state) == Some('D') {
            self.waited = true;
        }
        let since = now.duration_since(self.notified);
        if since < self.pace {
            return;
        }
        let round = now.duration_since(self.last_round);
        if !has_finished && round < SLOW_ROUND.max(self.pace) {
            return;
        }
        let found = judge(has_finished, self.waited, round);
        if found == CommitterState::Running {
            (self.rounds, self.last_round) = (beats, now);
        }
        let status = self.status(watched, found, since);
        let status = NotifyState::Status(&status);
        match found {
            CommitterState::Hangs => notify(&[status]),
            CommitterState::Running | CommitterState::WaitsForDisk => notify(&[NotifyState::Watchdog, status]),
        }
        (self.notified, self.waited) = (now, false);
    }

    fn status(&mut self, watched: &WatchdogContext, found: CommitterState, since: Duration) -> String {
        let still = self.last_round.elapsed().as_secs();
        match found {
            CommitterState::WaitsForDisk => return format!("commits wait for the disk, for {still} s"),
            CommitterState::Hangs => return format!("commits hang, for {still} s"),
            CommitterState::Running => {}
        }
        let records = lock(&watched.metrics.commits).records;
        let committed = records.saturating_sub(std::mem::replace(&mut self.records, records));
        let rate = (committed as f64 / since.as_secs_f64()).round() as u64;
        watched.metrics.records_per_second.store(rate, Ordering::Relaxed);
        let sources = &watched.counters.load().sources;
        let files: u64 = sources.iter().map(|source| source.followed_files.load(Ordering::Relaxed)).sum();
        let mut status = format!("{rate} records/s, {files} file{}", if files == 1 { "" } else { "s" });
        let unread = sources.iter().map(|source| source.unread_since.load(Ordering::Relaxed));
        let oldest = unread.filter(|since| *since > 0).min();
        if let Some(oldest) = oldest.and_then(|ticks| time::Ticks::new(i64::try_from(ticks).ok()?)) {
            status.push_str(&format!(", {} s behind", time::now().since(oldest).as_secs()));
        }
        if let Some(next) = watched.progress.read().next {
            status.push_str(&format!(", next: {next}"));
        }
        status
    }
}

/// The file with the state of the committer's thread, if `/proc` has one.
fn committer() -> Option<PathBuf> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    let is_it = |path: &PathBuf| std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "commit");
    tasks.flatten().map(|task| task.path()).find(is_it).map(|task| task.join("stat"))
}

/// The state of a thread, see proc(5).
fn state(stat: &std::path::Path) -> Option<char> {
    state_in(&std::fs::read_to_string(stat).ok()?)
}

/// The letter after the name. The name is in brackets and may contain brackets.
fn state_in(stat: &str) -> Option<char> {
    stat.rsplit_once(')')?.1.trim_start().chars().next()
}

impl Watchdog {
    /// Returns once the committer has ended.
    pub(super) async fn died(&self) {
        let mut died = self.died.clone();
        if died.wait_for(|died| *died).await.is_err() {
            std::future::pending().await
        }
    }

    /// Notifies the service manager that the daemon is stopping.
    pub(super) fn stop(self) {
        notify(&[NotifyState::Stopping]);
        drop(self.stop);
    }
}

/// Notifies the service manager that a reload has begun.
pub(super) fn reloading() {
    match NotifyState::monotonic_usec_now() {
        Ok(now) => notify(&[NotifyState::Reloading, now]),
        Err(_) => notify(&[NotifyState::Reloading]),
    }
}

/// Notifies the service manager that the reload has ended, with or without success.
pub(super) fn reloaded() {
    notify(&[NotifyState::Ready]);
}

/// Does nothing without a service manager.
fn notify(states: &[NotifyState<'_>]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!(%error, "failed to notify the service manager");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_watchdog_waits_for_a_stalled_disk_and_not_for_a_hanging_loop() {
        let (short, long) = (Duration::from_secs(90), DISK_PATIENCE);
        for (has_finished, waited, since, expected) in [
            (true, false, short, CommitterState::Running),
            (true, true, long, CommitterState::Running),
            (false, false, short, CommitterState::Hangs),
            (false, true, short, CommitterState::WaitsForDisk),
            (false, true, long, CommitterState::Hangs),
        ] {
            assert_eq!(judge(has_finished, waited, since), expected, "{has_finished} {waited} {since:?}");
        }
    }

    #[test]
    fn the_state_of_a_thread_follows_its_name() {
        assert_eq!(state_in("42 (commit) D 1 42 42 0"), Some('D'));
        assert_eq!(state_in("42 (a) S b) R 1"), Some('R'));
        assert_eq!(state_in("nothing"), None);
        assert!(state(std::path::Path::new("/proc/self/stat")).is_some());
    }
}
