//! The thread that makes a plan when the schedule says so, and takes its steps one by one.
//!
//! A run plans, takes the first step that may be taken, and plans anew, until nothing is left to do: so every step is
//! decided by how things are just before it. Runs are made at the start (for what was missed), when the schedule says
//! so, and for steps that failed and have waited. Where a table is kept by the hour, each hour's end makes one too,
//! for tables of an hour alone: whatever the schedule, these are there ahead and gone in time. One thread runs, so no
//! two runs overlap.

use super::executor::{Executor, StepError};
use super::plan::{LifecycleLimits, LifecyclePlan, LifecycleStep, NextStep, PlannedStep, TableRule, View, next, plan};
use super::progress::FailedStep;
use super::retained_rules::{retain_bytes_max, retain_rules};
use super::retry::Retries;
use super::schedule::Schedule;
use daytable_model::key::Period;
use daytable_model::time::{self, Ticks};
use daytable_platform::memory;
use daytable_store::StoreError;
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

/// How long the thread sleeps at most before it looks at the clock again: a clock that is set is noticed.
const LOOK: Duration = Duration::from_secs(30);
/// How long a source that ended is kept, so that a late copy of its file is recognised.
const SOURCES_KEPT: Duration = Duration::from_secs(30 * 86_400);
/// How long it is waited before the rules of another configuration are tried to be remembered again.
const REMEMBER_AGAIN: Duration = Duration::from_secs(5);
/// How often it is noted how long the folder was watched. A kill forgets that much.
const WATCH_NOTED: Duration = Duration::from_secs(300);

/// What the runs go by.
pub struct Lifecycle {
    /// What takes the steps.
    pub executor: Arc<Executor>,
    /// The folder that holds the days.
    pub data_dir: PathBuf,
    /// What is configured; a reload sends other settings.
    pub settings: Settings,
    /// Told of every run: how many steps failed, by name.
    pub on_run: Box<dyn Fn(&RunSummary) + Send>,
}

/// What the configuration says of the lives of days.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The configured tables, without what is remembered of them.
    pub rules: Vec<TableRule>,
    /// Configured tables whose days are elsewhere: they are remembered, and nothing else.
    pub also: Vec<TableRule>,
    /// When to run.
    pub schedule: Schedule,
    /// What bounds a run.
    pub limits: LifecycleLimits,
}

/// What a run did.
#[derive(Clone, Debug, Default)]
pub struct RunSummary {
    /// Tables that were created.
    pub created: u64,
    /// Days that were sealed.
    pub sealed: u64,
    /// Days that were archived, and read back.
    pub archived: u64,
    /// Tables that were dropped.
    pub dropped: u64,
    /// Steps that failed, by name.
    pub failed: Vec<&'static str>,
    /// When.
    pub at: Ticks,
}

/// What a run is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// All that is due.
    Whole,
    /// What is due of tables of an hour, and tables that are needed now.
    Hours,
}

impl Round {
    fn covers(self, step: &LifecycleStep) -> bool {
        self == Round::Whole || matches!(step, LifecycleStep::Create(_)) || step.table().period() == Period::Hour
    }
}

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepOutcome {
    /// It was taken, or failed for itself.
    Done,
    /// The place of the archive cannot be used now, whatever the day.
    NotReached,
}

/// What the thread keeps between runs.
struct State {
    retries: Retries,
    /// The reason that was last said of a day that stays.
    told: HashMap<String, &'static str>,
    /// Since when it was not noted how long the folder was watched.
    watched: Instant,
    /// Other settings; told to stop by hanging up.
    orders: Receiver<Settings>,
    /// Settings that came while a run was under way.
    ordered: Option<Settings>,
}

impl State {
    /// Whether the thread is to end; settings that come meanwhile are kept for the end of the run.
    fn is_over(&mut self) -> bool {
        loop {
            match self.orders.try_recv() {
                Ok(settings) => self.ordered = Some(settings),
                Err(error) => return error == TryRecvError::Disconnected,
            }
        }
    }
}

impl Lifecycle {
    /// Remembers the configured rules, then runs whenever something is due, and at once for a run that was missed
    /// and for tables that are needed now. Settings that come through `orders` are remembered and gone by from then on, after
    /// the run that is under way. Ends when `orders` hangs up.
    pub fn work(mut self, orders: Receiver<Settings>) {
        let (retries, told, watched) = (Retries::default(), HashMap::new(), Instant::now());
        let mut state = State { retries, told, watched, orders, ordered: None };
        if let Err(error) = self.remember() {
            tracing::error!(%error, "failed to remember the configured tables: nothing is dropped");
            return;
        }
        let mut after = time::now();
        // Whether missed or not, today's and tomorrow's tables are to be there.
        self.run(&mut state, Round::Whole);
        loop {
            let now = time::now();
            let is_due = self.settings.schedule.next_after(after).is_some_and(|next| next <= now);
            let is_hour_over = self.has_hours() && Period::Hour.start(now) != Period::Hour.start(after);
            let is_retry_due = state.retries.wait(Instant::now()).is_some_and(|wait| wait.is_zero());
            if is_due || is_retry_due {
                self.run(&mut state, Round::Whole);
            } else if is_hour_over {
                self.run(&mut state, Round::Hours);
            }
            if is_due || is_hour_over || now < after {
                after = now;
            }
            self.note_watch(&mut state, WATCH_NOTED);
            memory::release_free();
            let settings = match state.ordered.take() {
                Some(settings) => Some(settings),
                None => match state.orders.recv_timeout(self.wait(&state, now)) {
                    Ok(settings) => Some(settings),
                    Err(RecvTimeoutError::Timeout) => None,
                    Err(RecvTimeoutError::Disconnected) => break,
                },
            };
            if let Some(settings) = settings {
                let before = std::mem::replace(&mut self.settings, settings);
                match self.remember() {
                    Ok(()) => self.run(&mut state, Round::Whole),
                    // What is not remembered must not be gone by.
                    Err(error) => {
                        tracing::error!(%error, "failed to remember the configured tables: those before count still");
                        state.ordered = Some(std::mem::replace(&mut self.settings, before));
                        match state.orders.recv_timeout(REMEMBER_AGAIN) {
                            Ok(settings) => state.ordered = Some(settings),
                            Err(RecvTimeoutError::Timeout) => {}
                            Err(RecvTimeoutError::Disconnected) => break,
                        }
                    }
                }
            }
        }
        self.note_watch(&mut state, Duration::from_secs(1));
    }

    fn has_hours(&self) -> bool {
        self.settings.rules.iter().any(|rule| rule.window.period == Period::Hour)
    }

    /// How long until something may be due.
    fn wait(&self, state: &State, now: Ticks) -> Duration {
        let scheduled = self.settings.schedule.next_after(now).map(|next| next.since(now));
        let hour = self.has_hours().then(|| Period::Hour.next(Period::Hour.start(now)).since(now));
        let due = [scheduled, hour, state.retries.wait(Instant::now())].into_iter().flatten().min();
        due.unwrap_or(LOOK).clamp(Duration::from_millis(10), LOOK)
    }

    fn remember(&self) -> Result<(), StoreError> {
        let (steps, now) = (self.executor.steps(), time::now());
        let state = steps.lifecycle_state()?;
        let configured = [&self.settings.rules[..], &self.settings.also].concat();
        let retained = retain_rules(&state.rules, &configured, &self.settings.limits, now);
        for rule in &retained {
            let waits = rule.shortened.is_some() || rule.archive_before.is_some() || rule.archives_since.is_some();
            if waits && !rule.is_removed {
                let hours = self.settings.limits.grace.as_secs() / 3600;
                tracing::warn!(table = %rule.name, hours, "its days, or archives, are to go earlier than was configured before: what was to stay stays for the grace time");
            }
            if rule.is_removed {
                tracing::warn!(table = %rule.name, "is configured no more: its days stay, and are not archived");
            }
        }
        if retained != state.rules {
            steps.set_rules(retained)?;
        }
        let pressure = retain_bytes_max(state.pressure, self.settings.limits.max_bytes, now);
        if pressure != state.pressure {
            steps.set_pressure(pressure)?;
        }
        Ok(())
    }

    fn note_watch(&self, state: &mut State, least: Duration) {
        let watched = state.watched.elapsed();
        if watched < least {
            return;
        }
        let whole = Duration::from_secs(watched.as_secs());
        match self.executor.steps().note_watch(whole) {
            Ok(()) => state.watched += whole,
            Err(error) => tracing::warn!(%error, "failed to note how long the folder was watched"),
        }
    }

    fn view(&self) -> Result<View, StoreError> {
        let state = self.executor.steps().lifecycle_state()?;
        Ok(View::of(&self.data_dir, state, &self.settings.rules, self.settings.limits, time::now()))
    }

    /// One run. A step that fails does not keep the others from being taken.
    fn run(&self, state: &mut State, round: Round) {
        let mut run = RunSummary { at: time::now(), ..RunSummary::default() };
        let (mut taken, mut away) = (HashSet::new(), HashSet::new());
        loop {
            let plan = match self.view() {
                Ok(mut view) => {
                    view.dropped = u16::try_from(run.dropped).unwrap_or(u16::MAX);
                    plan(&view)
                }
                Err(StoreError::Closed) => return,
                Err(error) => {
                    tracing::error!(%error, "failed to plan the lifecycle");
                    run.failed.push("plan");
                    break;
                }
            };
            self.report_plan(&plan, state);
            let may = |planned: &&PlannedStep| {
                round.covers(&planned.step)
                    && state.retries.allows(&planned.step, Instant::now())
                    && !taken.contains(&planned.step)
                    && planned.step.place().is_none_or(|place| !away.contains(place))
            };
            let Some(planned) = plan.steps.iter().find(may) else { break };
            if state.is_over() || self.executor.is_stopped() {
                return;
            }
            taken.insert(planned.step.clone());
            if self.take(planned, state, &mut run) == StepOutcome::NotReached {
                // The other days need not wait for it, one after the other.
                away.extend(planned.step.place().cloned());
            }
        }
        if run.failed.is_empty()
            && round == Round::Whole
            && let Err(error) = self.executor.steps().record_run(run.at, run.at.minus(SOURCES_KEPT))
        {
            tracing::error!(%error, "failed to note that the lifecycle ran");
            run.failed.push("note");
        }
        self.show_next(run.at);
        (self.on_run)(&run);
    }

    /// Shows which step is next, and when: what is due waits for the next run.
    fn show_next(&self, now: Ticks) {
        let Ok(view) = self.view() else { return };
        let at_run = self.settings.schedule.next_after(now);
        let due = |state| {
            let NextStep { step, at } = next(&view, state)?;
            Some((at.or(at_run)?, step, &state.table))
        };
        let first = view.tables.iter().filter_map(due).min_by_key(|(at, ..)| *at);
        self.executor.progress().next(first.map(|(at, step, table)| format!("{step} {table} at {at}")));
    }

    /// Says, once a reason and not once a run, why days stay; forgets failures of steps that are planned no more.
    fn report_plan(&self, plan: &LifecyclePlan, state: &mut State) {
        for held in &plan.held_back {
            if state.told.insert(held.table.to_string(), held.reason.name()) != Some(held.reason.name()) {
                tracing::info!(table = %held.table, "stays: {}", held.reason);
            }
        }
        state.retries.keep(|step| plan.steps.iter().any(|planned| planned.step == *step));
        let progress = self.executor.progress();
        progress.held_back(plan.held_back.iter().map(|held| (held.table.to_string(), &held.reason)));
        self.show_failures(state);
    }

    fn show_failures(&self, state: &State) {
        let (now, clock) = (Instant::now(), time::now());
        self.executor.progress().failed(state.retries.iter().map(|(step, failure)| {
            let again = clock.plus(failure.again.saturating_duration_since(now));
            let (reason, attempts) = (failure.reason.clone(), failure.attempts);
            (step.clone(), FailedStep { step: step.name(), reason, attempts, again })
        }));
    }

    fn take(&self, PlannedStep { step, why }: &PlannedStep, state: &mut State, run: &mut RunSummary) -> StepOutcome {
        let (table, name) = (step.table(), step.name());
        tracing::debug!(%table, step = name, %why, "next step");
        match self.executor.take(step, &mut |_| {}) {
            Ok(()) => {
                state.retries.taken(step);
                match step {
                    LifecycleStep::Create(_) => run.created += 1,
                    LifecycleStep::Seal(_) => run.sealed += 1,
                    LifecycleStep::Archive(..) => run.archived += 1,
                    LifecycleStep::Drop(_) | LifecycleStep::DropUnarchived(_) => {
                        tracing::info!(%table, "dropped: {why}");
                        run.dropped += 1;
                    }
                    LifecycleStep::RemoveArchive(..) => {}
                }
            }
            Err(StepError::Stopped | StepError::Store(StoreError::Closed)) => {}
            Err(error) => {
                let is_away = matches!(&error, StepError::Archive(error) if error.concerns_store());
                let again = state.retries.failed(step, error.to_string(), Instant::now());
                tracing::error!(%table, step = name, %error, again_in = ?again, "failed to take a step");
                run.failed.push(name);
                self.show_failures(state);
                if is_away {
                    return StepOutcome::NotReached;
                }
            }
        }
        StepOutcome::Done
    }
}
