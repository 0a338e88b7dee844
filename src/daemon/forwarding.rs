//! The senders of `[[forward]]`, and what the receiver needs of the daemon.

use super::reader_pool::ReaderPool;
use crate::config::{Config, HostsConfig, TableConfig};
use crate::metrics::{ForwardSample, HOSTS_SHOWN_MAX, HostSample, SenderSample};
use daytable_alert::StandingCondition;
use daytable_forward::intake::{ForwardIntake, ListedHost, Place, Places, Readers};
use daytable_forward::options::ForwardOptions;
use daytable_forward::otlp;
use daytable_forward::sender::{Sender, SenderProcess, SenderStatus};
use daytable_model::time::{self, Ticks};
use daytable_model::units::show_duration;
use daytable_platform::lock;
use daytable_platform::reloadable::Reloadable;
use daytable_store::{CommitQueue, ForwardSteps, Reader, Store, StoreError};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::{Duration, Instant};

/// How long a stop waits for a request that is under way. The rows stay here, and are sent by the next daemon.
const STOP_PATIENCE: Duration = Duration::from_secs(2);

/// How long a refusal of a host is shown after it. The host tries again within half a minute.
const FORBIDDEN_SHOWN: Duration = Duration::from_secs(120);

/// The states of all senders.
type SenderBoard = Arc<Mutex<Vec<Arc<SenderStatus>>>>;

/// A receiver of `[[forward]]`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ForwardStatus {
    /// Its address.
    pub to: String,
    /// Records that it lacks.
    pub behind_records: u64,
    /// Those of them that are older than records which it has: the newest are sent first.
    #[serde(default)]
    pub backlog_records: u64,
    /// Seconds since the first of them was committed.
    pub behind_seconds: u64,
    /// Records that it got since the start.
    pub records: u64,
    /// Records that it refused for good since the start.
    pub refused: u64,
    /// The last of these, and why, where the receiver says so.
    pub refusal: Option<String>,
}

/// What is to be seen of forwarding: for metrics, and for the status. Cheap to clone.
#[derive(Clone)]
pub(super) struct ForwardingView {
    board: SenderBoard,
    intake: Arc<ForwardIntake>,
    silent_after: Reloadable<Duration>,
    /// Since when this daemon listens.
    started: Instant,
}

/// What stands for the name of the rule in alerts about hosts that are silent.
pub(super) const HOST_SILENT: &str = "HostSilent";

/// A host that is silent for too long.
struct SilentHost {
    listed: ListedHost,
    silent: Duration,
    /// Whether this daemon listened for as long.
    is_sure: bool,
}

impl ForwardingView {
    /// The view of a receiver, and of senders that are still to come.
    pub(super) fn new(intake: Arc<ForwardIntake>, silent_after: Duration) -> ForwardingView {
        let (board, silent_after) = (SenderBoard::default(), Reloadable::new(silent_after));
        ForwardingView { board, intake, silent_after, started: Instant::now() }
    }

    /// Changes after how long a host is in trouble, and a credential old.
    pub(super) fn change(&self, hosts: &HostsConfig) {
        self.silent_after.store(hosts.silent_after);
        self.intake.set_rules(hosts.rules.clone());
    }

    /// Writes down when hosts were heard of last, at the end of the daemon.
    pub(super) fn note_hosts(&self) {
        if let Err(error) = self.intake.note_all() {
            tracing::warn!(%error, "failed to write down when hosts were heard of last: the list has an earlier time");
        }
    }

    /// The counters of a scrape.
    pub(super) fn sample(&self) -> ForwardSample {
        let now = time::now();
        let sender = |status: &Arc<SenderStatus>| {
            let state = status.state();
            SenderSample {
                records: status.records.load(Ordering::Relaxed),
                failures: status.failures.load(Ordering::Relaxed),
                forbidden: status.forbidden.load(Ordering::Relaxed),
                behind_records: state.behind.records,
                backlog_records: state.behind.backlog,
                behind_seconds: state.behind.oldest.map_or(0.0, |oldest| now.since(oldest).as_secs_f64()),
                refused: status.expired.load(Ordering::Relaxed) + status.refused.load(Ordering::Relaxed),
                to: state.to,
            }
        };
        let senders = lock(&self.board).iter().map(sender).collect();
        let hosts = self.intake.hosts().unwrap_or_default();
        let heard_of = hosts.into_iter().filter(|listed| listed.host.origin.is_some()).take(HOSTS_SHOWN_MAX);
        let host = |listed: daytable_forward::intake::ListedHost| HostSample {
            records: listed.host.records,
            behind_records: listed.report.behind_records,
            backlog_records: listed.report.backlog_records,
            silent_seconds: listed.silent.unwrap_or_else(|| now.since(listed.host.seen)).as_secs_f64(),
            refused_requests: listed.forbidden.requests,
            host: listed.host.name,
        };
        ForwardSample { senders, hosts: heard_of.map(host).collect() }
    }

    /// How far each receiver is.
    pub(super) fn receivers(&self) -> Vec<ForwardStatus> {
        let now = time::now();
        let receiver = |status: &Arc<SenderStatus>| {
            let state = status.state();
            ForwardStatus {
                records: status.records.load(Ordering::Relaxed),
                refused: status.expired.load(Ordering::Relaxed) + status.refused.load(Ordering::Relaxed),
                behind_records: state.behind.records,
                backlog_records: state.behind.backlog,
                behind_seconds: state.behind.oldest.map_or(0, |oldest| now.since(oldest).as_secs()),
                refusal: state.refusal,
                to: state.to,
            }
        };
        lock(&self.board).iter().map(receiver).collect()
    }

    /// What needs attention: its place, and what is found there.
    pub(super) fn troubles(&self) -> Vec<(String, String)> {
        let failing = |status: &Arc<SenderStatus>| {
            let state = status.state();
            state.error.map(|error| (format!("forward to {}", state.to), format!("{error}; what is read waits here")))
        };
        let mut troubles: Vec<(String, String)> = lock(&self.board).iter().filter_map(failing).collect();
        for SilentHost { listed, silent, .. } in self.silent_hosts().into_iter().filter(|host| host.is_sure) {
            let (name, silent) = (listed.host.name, show_duration(Duration::from_secs(silent.as_secs())));
            let found =
                format!("is silent for {silent}: is its daemon running? `daytable hosts forget {name}` takes it off");
            troubles.push((format!("host {name}"), found));
        }
        troubles.extend(self.forbidden());
        troubles
    }

    /// Hosts that send again and again what their credential does not permit.
    fn forbidden(&self) -> impl Iterator<Item = (String, String)> {
        let hosts = self.intake.hosts().unwrap_or_default().into_iter();
        hosts.filter_map(|ListedHost { host, forbidden, .. }| {
            let (table, at) = forbidden.last.filter(|(_, at)| at.elapsed() < FORBIDDEN_SHOWN)?;
            let (name, tables) = (host.name, host.tables.patterns().join(","));
            let found = format!(
                "{} requests at {} ago were refused: its credential is for {tables}, and they have records for {table}, which wait there. \
                 `daytable hosts invite {name} --tables {tables},{table}` permits them once it joined again",
                forbidden.requests,
                show_duration(Duration::from_secs(at.elapsed().as_secs())),
            );
            Some((format!("host {name}"), found))
        })
    }

    /// Alerts about hosts that are silent.
    pub(super) fn conditions(&self) -> Vec<StandingCondition> {
        let (now, after) = (time::now(), *self.silent_after.load());
        let condition = |SilentHost { listed, silent, is_sure }: SilentHost| {
            let (name, since) = (listed.host.name, now.minus(silent));
            let origin = listed.host.origin.map(|origin| origin.to_string()).unwrap_or_default();
            StandingCondition {
                name: HOST_SILENT,
                labels: [("log_host".to_owned(), name.clone()), ("origin".to_owned(), origin)].into(),
                summary: format!(
                    "{name} has said nothing since {}",
                    Ticks::from_unix(since.unix_seconds(), 0).unwrap_or(since)
                ),
                is_sure,
                since: since.plus(after),
                query: format!("log_host:={name}"),
                value: silent.as_secs_f64().round(),
            }
        };
        self.silent_hosts().into_iter().map(condition).collect()
    }

    fn silent_hosts(&self) -> Vec<SilentHost> {
        let (now, after, listening) = (time::now(), *self.silent_after.load(), self.started.elapsed());
        let hosts = self.intake.hosts().unwrap_or_default().into_iter();
        let of = |listed: ListedHost| {
            let silent = listed.silent.unwrap_or_else(|| now.since(listed.host.seen));
            let is_expected = listed.host.origin.is_some() && !listed.host.is_revoked;
            let is_sure = listening > after;
            (is_expected && silent > after).then_some(SilentHost { listed, silent, is_sure })
        };
        hosts.filter_map(of).collect()
    }
}

impl Readers for ReaderPool {
    fn with_reader(&self, read: &mut dyn FnMut(&Reader) -> Result<(), StoreError>) -> Result<(), StoreError> {
        self.with(read)
    }
}

/// The tables and days that take rows of hosts.
pub(super) fn places(tables: &[TableConfig]) -> Places {
    let place =
        |table: &TableConfig| Place { table: table.name.clone(), window: table.window, hosts: table.hosts.clone() };
    Places(tables.iter().map(place).collect())
}

/// The senders.
pub(super) struct Senders {
    data_dir: PathBuf,
    steps: ForwardSteps,
    queue: CommitQueue,
    /// Made for the first sender: without one, no random number is needed.
    process: OnceLock<Arc<SenderProcess>>,
    /// The name of this host.
    host: String,
    senders: Mutex<Vec<Sender>>,
    board: SenderBoard,
}

impl Senders {
    /// No sender yet. Pages that a receiver lacks are kept from now on.
    pub(super) fn new(config: &Config, store: &Store, view: &ForwardingView) -> Result<Senders, StoreError> {
        let forwarding = Senders {
            process: OnceLock::new(),
            host: config.host_name(),
            data_dir: config.data_dir.clone(),
            steps: store.forwarding(),
            queue: store.commit_queue(),
            senders: Mutex::default(),
            board: view.board.clone(),
        };
        forwarding.steps.set_targets(names(&config.forward))?;
        Ok(forwarding)
    }

    /// Starts and stops senders, so that those run that are configured. Blocks for a moment.
    pub(super) fn apply(&self, config: &Config) -> Result<(), StoreError> {
        let mut senders = lock(&self.senders);
        let (kept, gone): (Vec<Sender>, Vec<Sender>) =
            senders.drain(..).partition(|sender| config.forward.contains(sender.options()));
        gone.into_iter().for_each(|sender| sender.stop(STOP_PATIENCE));
        *senders = kept;
        self.steps.set_targets(names(&config.forward))?;
        for options in &config.forward {
            if senders.iter().any(|sender| sender.options() == options) {
                continue;
            }
            let to_store = (self.steps.clone(), self.queue.clone());
            let (of, data_dir) = (options.clone(), self.data_dir.clone());
            let started = if otlp::sender::is_backend(options) {
                otlp::sender::start(of, self.host.clone(), data_dir, to_store)
            } else {
                Sender::start(of, self.host.clone(), data_dir, to_store, self.process()?)
            };
            senders.push(started.map_err(|source| StoreError::Io { path: self.data_dir.clone(), source })?);
        }
        *lock(&self.board) = senders.iter().map(|sender| sender.status.clone()).collect();
        Ok(())
    }

    /// What this process calls itself, however often senders are started anew.
    fn process(&self) -> Result<Arc<SenderProcess>, StoreError> {
        if let Some(process) = self.process.get() {
            return Ok(process.clone());
        }
        let made = SenderProcess::new().map_err(|source| StoreError::Io { path: "/dev/urandom".into(), source })?;
        Ok(self.process.get_or_init(|| made).clone())
    }

    /// Whether a sender ended by a fault.
    pub(super) fn have_ended(&self) -> bool {
        lock(&self.senders).iter().any(Sender::has_ended)
    }

    /// Stops all senders.
    pub(super) fn stop(&self) {
        let senders = std::mem::take(&mut *lock(&self.senders));
        senders.iter().for_each(Sender::begin_stop);
        senders.into_iter().for_each(|sender| sender.stop(STOP_PATIENCE));
    }
}

fn names(receivers: &[ForwardOptions]) -> Vec<String> {
    receivers.iter().map(|receiver| receiver.to.clone()).collect()
}
