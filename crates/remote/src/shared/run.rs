//! The lifecycle thread of a daemon with a remote store. The thread notes the content of the outbox. On the owner,
//! the thread also plans and takes steps by the schedule.

use super::executor::SharedExecutor;
use super::notes::Host;
use super::plan::plan;
use daytable_lifecycle::executor::StepError;
use daytable_lifecycle::plan::{LifecycleLimits, LifecyclePlan, LifecycleStep, PlannedStep, TableRule};
use daytable_lifecycle::run::RunSummary;
use daytable_lifecycle::schedule::Schedule;
use daytable_model::key::TableName;
use daytable_model::time::{self, Ticks};
use daytable_store::catalog::FileRole;
use daytable_store::{Reader, StoreError};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

/// Interval of notes; also the longest sleep.
const NOTE_EVERY: Duration = Duration::from_secs(60);
/// Delay before a failed note is written again.
const NOTE_RETRY: Duration = Duration::from_secs(10);
/// Delay before a run with failed steps is repeated.
const RETRY: Duration = Duration::from_secs(600);

/// The thread and its inputs.
pub struct SharedLifecycle {
    /// Takes the steps.
    pub executor: Arc<SharedExecutor>,
    /// The folder of the outbox.
    pub data_dir: PathBuf,
    /// The name of this daemon among the others.
    pub id: String,
    /// Whether this daemon is the owner.
    pub is_owner: bool,
    /// The configured tables.
    pub rules: Vec<TableRule>,
    /// When to run.
    pub schedule: Schedule,
    /// Limits of a run.
    pub limits: LifecycleLimits,
    /// Called after each run.
    pub on_run: Box<dyn Fn(&RunSummary) + Send>,
}

impl SharedLifecycle {
    /// Works until the other end of `stop` is dropped.
    pub fn work(self, stop: Receiver<()>) {
        let (mut noted, mut again, mut reasons): (Option<Instant>, Option<Instant>, HashMap<String, &'static str>) =
            (None, None, HashMap::new());
        // A missed run happens at once.
        let mut after = Ticks::MIN;
        loop {
            let now = time::now();
            let is_noted = noted.is_some_and(|noted| noted.elapsed() < NOTE_EVERY) || self.write_note(now);
            if is_noted && noted.is_none_or(|noted| noted.elapsed() >= NOTE_EVERY) {
                noted = Some(Instant::now());
            }
            let is_due = self.schedule.next_after(after).is_some_and(|next| next <= now);
            let is_again = again.is_some_and(|again| again <= Instant::now());
            if self.is_owner && is_noted && (is_due || is_again || now < after) {
                after = now;
                let run = self.run(&stop, &mut reasons);
                again = (!run.failed.is_empty()).then(|| Instant::now() + RETRY);
                (self.on_run)(&run);
            }
            let next = self.schedule.next_after(time::now()).map(|next| next.since(time::now()));
            let most = if is_noted { NOTE_EVERY } else { NOTE_RETRY };
            let wait = next.filter(|_| self.is_owner && is_noted).map_or(most, |next| next.min(most));
            match stop.recv_timeout(wait.max(Duration::from_millis(100))) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => return,
            }
        }
    }

    /// Notes the content of the outbox. Returns whether the note was written.
    fn write_note(&self, now: Ticks) -> bool {
        let noted = holds(&self.data_dir).map_err(StepError::from).and_then(|holds| {
            let host = Host { id: self.id.clone(), seen: now, holds };
            Ok(self.executor.notes().put_host(&host)?)
        });
        match noted {
            Ok(()) => true,
            Err(error) => {
                tracing::warn!(%error, "failed to report the outbox to the owner of the remote store");
                false
            }
        }
    }

    fn run(&self, stop: &Receiver<()>, reasons: &mut HashMap<String, &'static str>) -> RunSummary {
        let mut run = RunSummary { at: time::now(), ..RunSummary::default() };
        let mut attempted: HashSet<LifecycleStep> = HashSet::new();
        loop {
            let LifecyclePlan { steps, held_back } = match self.executor.view(&self.rules, self.limits) {
                Ok(mut view) => {
                    view.dropped = u16::try_from(run.dropped).unwrap_or(u16::MAX);
                    plan(&view)
                }
                Err(StepError::Stopped | StepError::Store(StoreError::Closed)) => return run,
                Err(error) => {
                    tracing::error!(%error, "failed to plan the lifecycle of the remote store");
                    run.failed.push("plan");
                    return run;
                }
            };
            for held in &held_back {
                if reasons.insert(held.table.to_string(), held.reason.name()) != Some(held.reason.name()) {
                    tracing::info!(table = %held.table, "stays: {}", held.reason);
                }
            }
            let Some(PlannedStep { step, why }) = steps.into_iter().find(|planned| !attempted.contains(&planned.step))
            else {
                return run;
            };
            if stop.try_recv() == Err(TryRecvError::Disconnected) {
                return run;
            }
            attempted.insert(step.clone());
            let (table, name) = (step.table().clone(), step.name());
            match self.executor.take(&step, &mut |_| {}) {
                Ok(()) => match step {
                    LifecycleStep::Archive(..) => run.archived += 1,
                    LifecycleStep::Drop(_) => {
                        tracing::info!(%table, "dropped from the remote store: {why}");
                        run.dropped += 1;
                    }
                    _ => {}
                },
                Err(StepError::Stopped | StepError::Store(StoreError::Closed)) => return run,
                Err(error) => {
                    tracing::error!(%table, step = name, %error, again_in = ?RETRY, "failed to take a step");
                    run.failed.push(name);
                }
            }
        }
    }
}

/// For each table with rows in the outbox at `data_dir`: the start of the oldest period.
fn holds(data_dir: &Path) -> Result<BTreeMap<TableName, Ticks>, StoreError> {
    let mut holds = BTreeMap::new();
    // An empty file is removed after its period.
    for file in Reader::open(data_dir)?.catalog().files()?.iter().filter(|file| file.role == FileRole::Outbox) {
        let oldest = holds.entry(file.day.table().clone()).or_insert(file.day.start());
        *oldest = file.day.start().min(*oldest);
    }
    Ok(holds)
}
