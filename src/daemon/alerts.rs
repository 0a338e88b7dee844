//! The alerts of the daemon: a thread that evaluates the rules, and a task that sends.
//!
//! The thread has a reader of its own, runs at a low priority, and writes the state. It ends before the store is closed, so
//! that the next daemon is the only one that writes.

use super::forwarding::HOST_SILENT;
use crate::config::Config;
use crate::metrics::CounterRegistry;
use crate::remote::RemoteStore;
use daytable_alert::{Alert, AlertBoard, AlertEngine, AlertRule, DeliveryPlan, RuleStatus, StandingCondition, deliver};
use daytable_model::time;
use daytable_platform::reloadable::Reloadable;
use daytable_query::tables::TableStore;
use daytable_query::{Archives, Stores};
use daytable_store::{Reader, StoreError};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread::JoinHandle;
use std::time::Duration;
use tokio::sync::watch;

/// Added to the niceness of the thread: sources and commits come first.
const NICENESS: i32 = 10;
/// The age of the last evaluation from which on alerts are in trouble.
const STALE_AFTER: Duration = Duration::from_secs(900);
/// How often conditions without a rule are looked at.
const CONDITIONS_INTERVAL: Duration = Duration::from_secs(10);
/// The pause after a pass that failed.
const RETRY_INTERVAL: Duration = Duration::from_secs(5);

/// The running alerts.
pub(super) struct Alerts {
    rules: mpsc::Sender<Vec<AlertRule>>,
    board: AlertBoard,
    delivery: Reloadable<DeliveryPlan>,
    is_stopping: Arc<AtomicBool>,
    stop_delivery: watch::Sender<()>,
    thread: JoinHandle<()>,
}

/// The parts that the evaluation reads.
pub(super) struct AlertInputs {
    pub(super) archives: Reloadable<Archives>,
    pub(super) remote: Option<Arc<dyn RemoteStore>>,
    pub(super) counters: Reloadable<CounterRegistry>,
    /// What is an alert without a rule.
    pub(super) conditions: Box<dyn Fn() -> Vec<StandingCondition> + Send>,
}

impl Alerts {
    /// Starts the thread and the task. Call this within a runtime, and before the lifecycle starts.
    pub(super) fn start(config: &Config, inputs: AlertInputs, board: AlertBoard) -> Result<Alerts, StoreError> {
        let reader = Reader::open(&config.data_dir)?;
        let plan = DeliveryPlan::new(&config.alerts, &config.alert_rules);
        plan.announce(&board);
        let engine = AlertEngine::open(&reader, &config.data_dir, board.clone(), time::now())?;
        let is_stopping = Arc::new(AtomicBool::new(false));
        let (rules, changed_rules) = mpsc::channel();
        let worker = AlertWorker { engine, reader, inputs, is_stopping: is_stopping.clone() };
        let first = config.alert_rules.clone();
        let work = move || worker.work(first, &changed_rules);
        let thread = std::thread::Builder::new().name("alerts".into()).spawn(work);
        let thread = thread.map_err(|source| StoreError::Io { path: config.data_dir.clone(), source })?;
        let delivery = Reloadable::new(plan);
        let (stop_delivery, stopped) = watch::channel(());
        tokio::spawn(deliver(board.clone(), config.data_dir.clone(), delivery.clone(), stopped));
        Ok(Alerts { rules, board, delivery, is_stopping, stop_delivery, thread })
    }

    /// Applies the rules and receivers of a configuration.
    pub(super) fn change(&self, config: &Config) {
        let plan = DeliveryPlan::new(&config.alerts, &config.alert_rules);
        plan.announce(&self.board);
        self.delivery.store(plan);
        // The send fails only if the thread has ended.
        let _ = self.rules.send(config.alert_rules.clone());
    }

    /// Ends the evaluation, and gives the thread to wait for.
    pub(super) fn stop(self) -> JoinHandle<()> {
        self.is_stopping.store(true, Ordering::Release);
        drop(self.stop_delivery);
        self.thread
    }
}

struct AlertWorker {
    engine: AlertEngine,
    reader: Reader,
    inputs: AlertInputs,
    is_stopping: Arc<AtomicBool>,
}

impl AlertWorker {
    /// Works until the sender of rules is dropped.
    fn work(mut self, first: Vec<AlertRule>, changed_rules: &mpsc::Receiver<Vec<AlertRule>>) {
        daytable_platform::lower_priority(NICENESS);
        let mut rules = Some(first);
        while !self.is_stopping.load(Ordering::Acquire) {
            let archives = self.inputs.archives.load();
            let remote = self.inputs.remote.as_deref().map(|remote| remote as &dyn TableStore);
            let stores = Stores { reader: &self.reader, archives: &archives, remote };
            if let Some(rules) = rules.take()
                && let Err(error) = self.engine.set_rules(&rules, &stores, time::now())
            {
                // The configuration was checked with the same function.
                tracing::error!(%error, "failed to apply the rules of alerts: the rules before stay in effect");
            }
            let is_wanted = || !self.is_stopping.load(Ordering::Acquire);
            let (lag, conditions) = (lag(&self.inputs.counters.load()), (self.inputs.conditions)());
            let wait = match self.engine.pass(&stores, time::now(), lag, &conditions, &is_wanted) {
                Ok(()) => self.engine.wait(time::now()).min(CONDITIONS_INTERVAL),
                Err(error) => {
                    tracing::error!(%error, "failed to evaluate the alerts, retrying");
                    RETRY_INTERVAL
                }
            };
            match changed_rules.recv_timeout(wait) {
                Ok(changed) => rules = Some(changed),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }
}

/// How long the oldest unread record of all sources waits.
fn lag(registry: &CounterRegistry) -> Duration {
    let now = time::now();
    registry.sources.iter().filter_map(|source| source.unread_for(now)).max().unwrap_or_default()
}

/// An alert, as `/api/alerts` and `daytable status` show it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ShownAlert {
    /// The name of the rule.
    pub alert: String,
    /// The labels.
    pub labels: BTreeMap<String, String>,
    /// The texts for people.
    pub annotations: BTreeMap<String, String>,
    /// The last value beyond the limit.
    pub value: f64,
    /// When the alert began.
    pub since: String,
    /// The query of the rule.
    pub query: String,
    /// The query of the records of the group.
    pub records: String,
    /// The begin of the first window beyond the limit.
    pub from: String,
}

impl From<&Alert> for ShownAlert {
    fn from(alert: &Alert) -> ShownAlert {
        ShownAlert {
            alert: alert.rule.clone(),
            labels: alert.labels.clone(),
            annotations: alert.annotations.clone(),
            value: alert.value,
            since: alert.starts_at.to_string(),
            query: alert.query.clone(),
            records: alert.records.clone(),
            from: alert.from.to_string(),
        }
    }
}

/// The document of `/api/alerts`.
pub(super) fn document(board: &AlertBoard) -> serde_json::Value {
    let content = board.read();
    let rule = |rule: &RuleStatus| serde_json::json!({ "name": rule.name, "firing": rule.firing, "pending": rule.pending, "failures": rule.failures, "error": rule.error });
    let receivers = content.receivers.iter().map(|(address, receiver)| {
        serde_json::json!({ "address": address, "sent": receiver.sent, "failures": receiver.failures, "error": receiver.error })
    });
    serde_json::json!({
        "alerts": content.firing.iter().map(ShownAlert::from).collect::<Vec<_>>(),
        "rules": content.rules.iter().map(rule).collect::<Vec<_>>(),
        "receivers": receivers.collect::<Vec<_>>(),
    })
}

/// The alerts that last, and what needs attention: the place, and the trouble.
pub(super) fn state(board: &AlertBoard) -> (Vec<ShownAlert>, Vec<(String, String)>) {
    let content = board.read();
    let mut troubles = Vec::new();
    // The evaluation is a thread of its own: its end must not look like quiet.
    if let Some(at) =
        content.evaluated_at.filter(|at| !content.rules.is_empty() && time::now().since(*at) > STALE_AFTER)
    {
        troubles.push(("alerts".into(), format!("were last evaluated at {at}: restart daytable, and report its log")));
    }
    for rule in &content.rules {
        let mut add = |found| troubles.push((format!("alert {}", rule.name), found));
        if let Some(error) = &rule.error {
            add(format!("cannot be evaluated: {error}"));
        }
        if rule.groups_left_out > 0 {
            add(format!(
                "has more groups than the {} that are remembered: group by fewer fields",
                daytable_alert::GROUPS_MAX
            ));
        }
    }
    for (address, receiver) in &content.receivers {
        if let Some(error) = &receiver.error {
            troubles.push((format!("alerts to {address}"), format!("are not sent: {error}")));
        }
    }
    // A silent host is among the troubles, with what to do.
    let firing = content.firing.iter().filter(|alert| alert.rule != HOST_SILENT);
    (firing.map(ShownAlert::from).collect(), troubles)
}
