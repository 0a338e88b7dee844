//! Whether the commit loop goes round: what the service manager is told, and what ends the daemon when it does not.
//!
//! A process that only lives is not enough. The watchdog is fed while the committer goes round, which it does every second
//! at least, and a loop that hangs starves it. A **disk that stalls** is no loop that hangs: a kill does not make it answer, and
//! a process that waits for it cannot even be killed. So while the committer's thread is in uninterruptible sleep, as
//! the kernel shows it (`D`), the watchdog is fed on, for [`DISK_PATIENCE`] at most, and the status says what is waited for.
//!
//! The status, as `systemctl status` shows it: records a second, how far the slowest source is behind, and the next step of a
//! day's life. Nothing is computed for it: all of it is counted anyway.

use crate::metrics::CounterRegistry;
use crate::metrics::Metrics;
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

/// How often the committer is looked at; it comes round every second at least.
const LOOK: Duration = Duration::from_secs(1);
/// How often the service manager hears, where it does not ask for more.
const PACE: Duration = Duration::from_secs(10);
/// How long the committer may be away before that is told: an idle one comes round once a second, a busy machine is slower.
const AWAY: Duration = Duration::from_secs(5);
/// How long the disk may leave the committer without an answer before that counts as standing still.
pub(super) const DISK_PATIENCE: Duration = Duration::from_secs(600);

/// The thread that looks.
pub(super) struct Watchdog {
    died: watch::Receiver<bool>,
    stop: mpsc::Sender<()>,
}

/// What is looked at.
pub(super) struct WatchdogContext {
    pub(super) intake: CommitQueue,
    pub(super) counters: Reloadable<CounterRegistry>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) progress: Arc<LifecycleProgress>,
}

/// Tells the service manager that the daemon is ready, and begins to watch.
pub(super) fn start(watched: WatchdogContext) -> std::io::Result<Watchdog> {
    let pace = sd_notify::watchdog_enabled().map_or(PACE, |limit| limit / 3);
    let (told, died) = watch::channel(false);
    let (stop, stopped) = mpsc::channel();
    notify(&[NotifyState::Ready]);
    std::thread::Builder::new().name("watchdog".into()).spawn(move || {
        let mut going = CommitterWatch::new(&watched, pace);
        while let Err(mpsc::RecvTimeoutError::Timeout) = stopped.recv_timeout(LOOK.min(pace)) {
            if watched.intake.has_ended() {
                told.send_replace(true);
                return;
            }
            going.look(&watched);
            crate::log::say_left_out();
        }
    })?;
    Ok(Watchdog { died, stop })
}

/// How the loop went so far.
struct CommitterWatch {
    pace: Duration,
    /// When the service manager heard last.
    told: Instant,
    records: u64,
    beats: u64,
    /// When it came round last, as far as it was seen.
    went: Instant,
    /// Whether it waited for the disk since the service manager heard last.
    waited: bool,
    committer: Option<PathBuf>,
}

/// What is made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum CommitterState {
    /// It goes round.
    Goes,
    /// It waits for the disk.
    Waits,
    /// It stands still.
    Stands,
}

fn judge(has_gone: bool, waited: bool, since: Duration) -> CommitterState {
    match (has_gone, waited) {
        (true, _) => CommitterState::Goes,
        (false, true) if since < DISK_PATIENCE => CommitterState::Waits,
        (false, _) => CommitterState::Stands,
    }
}

impl CommitterWatch {
    fn new(watched: &WatchdogContext, pace: Duration) -> CommitterWatch {
        let now = Instant::now();
        CommitterWatch {
            pace,
            told: now,
            records: lock(&watched.metrics.commits).records,
            beats: watched.intake.beats(),
            went: now,
            waited: false,
            committer: committer(),
        }
    }

    fn look(&mut self, watched: &WatchdogContext) {
        let (now, beats) = (Instant::now(), watched.intake.beats());
        let has_gone = beats != self.beats;
        if !has_gone && self.committer.as_deref().and_then(state) == Some('D') {
            self.waited = true;
        }
        let since = now.duration_since(self.told);
        if since < self.pace {
            return;
        }
        let away = now.duration_since(self.went);
        if !has_gone && away < AWAY.max(self.pace) {
            return;
        }
        let found = judge(has_gone, self.waited, away);
        if found == CommitterState::Goes {
            (self.beats, self.went) = (beats, now);
        }
        let status = self.status(watched, found, since);
        let status = NotifyState::Status(&status);
        match found {
            CommitterState::Stands => notify(&[status]),
            CommitterState::Goes | CommitterState::Waits => notify(&[NotifyState::Watchdog, status]),
        }
        (self.told, self.waited) = (now, false);
    }

    fn status(&mut self, watched: &WatchdogContext, found: CommitterState, since: Duration) -> String {
        let still = self.went.elapsed().as_secs();
        match found {
            CommitterState::Waits => return format!("commits wait for the disk, for {still} s"),
            CommitterState::Stands => return format!("commits stand still, for {still} s"),
            CommitterState::Goes => {}
        }
        let records = lock(&watched.metrics.commits).records;
        let committed = records.saturating_sub(std::mem::replace(&mut self.records, records));
        let rate = (committed as f64 / since.as_secs_f64()).round();
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

/// Where the kernel shows the committer's thread; none where it does not.
fn committer() -> Option<PathBuf> {
    let tasks = std::fs::read_dir("/proc/self/task").ok()?;
    let is_it = |path: &PathBuf| std::fs::read_to_string(path.join("comm")).is_ok_and(|name| name.trim() == "commit");
    tasks.flatten().map(|task| task.path()).find(is_it).map(|task| task.join("stat"))
}

/// The state of a thread, as proc(5) has it.
fn state(stat: &std::path::Path) -> Option<char> {
    state_in(&std::fs::read_to_string(stat).ok()?)
}

/// The letter behind the name, which is in brackets and may have some of its own.
fn state_in(stat: &str) -> Option<char> {
    stat.rsplit_once(')')?.1.trim_start().chars().next()
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disk_that_stalls_is_waited_for_and_a_loop_that_hangs_is_not() {
        let (short, long) = (Duration::from_secs(90), DISK_PATIENCE);
        for (has_gone, waited, since, expected) in [
            (true, false, short, CommitterState::Goes),
            (true, true, long, CommitterState::Goes),
            (false, false, short, CommitterState::Stands),
            (false, true, short, CommitterState::Waits),
            (false, true, long, CommitterState::Stands),
        ] {
            assert_eq!(judge(has_gone, waited, since), expected, "{has_gone} {waited} {since:?}");
        }
    }

    #[test]
    fn the_state_of_a_thread_is_behind_its_name() {
        assert_eq!(state_in("42 (commit) D 1 42 42 0"), Some('D'));
        assert_eq!(state_in("42 (a) S b) R 1"), Some('R'));
        assert_eq!(state_in("nothing"), None);
        assert!(state(std::path::Path::new("/proc/self/stat")).is_some());
    }
}
