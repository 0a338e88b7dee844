//! The thread that makes a plan when the schedule says so, and takes its steps.

use super::plan::{Limits, State, Step, TableRule, TableState, plan};
use super::remember::remember;
use super::schedule::Schedule;
use crate::key::TableName;
use crate::store::{Steps, StoreError};
use crate::time::{self, Ticks};
use std::collections::HashMap;
use std::sync::mpsc::{Receiver, RecvTimeoutError};
use std::time::Duration;

/// How long the thread sleeps at most before it looks at the clock again: a clock that is set is noticed.
const LOOK: Duration = Duration::from_secs(30);
/// How long a source that ended is kept, so that a late copy of its file is recognised.
const SOURCES_KEPT: Duration = Duration::from_secs(30 * 86_400);

/// What the runs go by.
pub struct Lifecycle {
    /// The steps that can be taken.
    pub steps: Steps,
    /// The configured tables, without what is remembered of them.
    pub rules: Vec<TableRule>,
    /// When to run.
    pub schedule: Schedule,
    /// What bounds a run.
    pub limits: Limits,
    /// Told of every run: how many steps failed, by name.
    pub on_run: Box<dyn Fn(&Run) + Send>,
}

/// What a run did.
#[derive(Clone, Debug, Default)]
pub struct Run {
    /// Tables that were created.
    pub created: u64,
    /// Tables that were dropped.
    pub dropped: u64,
    /// Steps that failed, by name.
    pub failed: Vec<&'static str>,
    /// When.
    pub at: Ticks,
}

impl Lifecycle {
    /// Remembers the configured rules, then runs whenever the schedule says so, and at once for a run that was missed
    /// and for tables that are needed now. Ends when `stop` hangs up.
    pub fn work(mut self, stop: &Receiver<()>) {
        let mut told = HashMap::new();
        if let Err(error) = self.remember() {
            tracing::error!(%error, "failed to remember the configured tables: nothing is dropped");
            return;
        }
        let mut after = time::now();
        // Whether missed or not, today's and tomorrow's tables are to be there.
        self.run(&mut told);
        loop {
            let now = time::now();
            let due = self.schedule.next_after(after).is_some_and(|next| next <= now);
            if due {
                self.run(&mut told);
            }
            if due || now < after {
                after = now;
            }
            let wait = self.schedule.next_after(now).map_or(LOOK, |next| next.since(now)).min(LOOK);
            match stop.recv_timeout(wait.max(Duration::from_millis(10))) {
                Err(RecvTimeoutError::Timeout) => {}
                _ => return,
            }
        }
    }

    fn remember(&mut self) -> Result<(), StoreError> {
        let state = self.steps.lifecycle_state()?;
        let configured: Vec<(TableName, Duration)> =
            self.rules.iter().map(|rule| (rule.name.clone(), rule.window.keep)).collect();
        let (remembered, shortened) = remember(&state.rules, &configured, time::now(), self.limits.grace);
        for (rule, shortened) in self.rules.iter_mut().zip(shortened) {
            if let Some(shortened) = shortened {
                let grace = self.limits.grace.as_secs() / 3600;
                tracing::warn!(table = %rule.name, hours = grace, "keep is shorter than it was: what the longer one keeps stays for the grace time");
                rule.shortened = Some(shortened);
            }
        }
        if remembered != state.rules {
            self.steps.set_rules(remembered)?;
        }
        Ok(())
    }

    /// One run. A step that fails does not keep the others from being taken; the next run takes it again.
    fn run(&self, told: &mut HashMap<String, &'static str>) {
        let now = time::now();
        let mut run = Run { at: now, ..Run::default() };
        match self.steps.lifecycle_state() {
            Err(error) => {
                tracing::error!(%error, "failed to plan the lifecycle");
                run.failed.push("plan");
            }
            Ok(state) => {
                let state_of = |state| move |table| TableState { table, state };
                let tables: Vec<_> = state
                    .open
                    .into_iter()
                    .map(state_of(State::Open))
                    .chain(state.dropped.into_iter().map(state_of(State::Dropped)))
                    .collect();
                let plan = plan(&tables, &self.rules, now, state.newest, &self.limits);
                for held in &plan.held_back {
                    // Said once a reason, not once a run.
                    if told.insert(held.table.to_string(), held.reason.name()) != Some(held.reason.name()) {
                        tracing::info!(table = %held.table, "stays: {}", held.reason);
                    }
                }
                for step in &plan.steps {
                    self.take(step, &mut run);
                }
            }
        }
        if run.failed.is_empty()
            && let Err(error) = self.steps.ran(now, now.minus(SOURCES_KEPT))
        {
            tracing::error!(%error, "failed to note that the lifecycle ran");
            run.failed.push("note");
        }
        (self.on_run)(&run);
    }

    fn take(&self, step: &Step, run: &mut Run) {
        match step {
            Step::Create(table) => match self.steps.create_table(table) {
                Ok(created) => run.created += u64::from(created),
                Err(error) => {
                    tracing::error!(%table, %error, "failed to create a table ahead");
                    run.failed.push("create");
                }
            },
            Step::Drop(table) => match self.steps.drop_table(table) {
                Ok(()) => {
                    tracing::info!(%table, "dropped");
                    run.dropped += 1;
                }
                Err(error) => {
                    tracing::error!(%table, %error, "failed to drop an expired table");
                    run.failed.push("drop");
                }
            },
        }
    }
}
