//! The lifecycle thread: plans when the schedule is due, and takes the steps one by one.
//!
//! A run plans, takes the first permitted step, and plans again until no step is left. So each step is decided on the
//! current state. Runs happen at the start (for missed runs), on schedule, and for retries of failed steps. A table
//! with hourly periods gets an extra run at the end of each hour, for hourly tables only: the schedule may be too rare
//! for them. One thread runs, so runs never overlap.

use super::executor::{Executor, StepError};
use super::failed_step::FailedStep;
use super::plan::{
    LifecycleLimits, LifecyclePlan, LifecycleStep, NextStep, PlannedStep, TableRule, View, next, plan, today_exceeds,
};
use super::reason::{HoldReason, StepReason};
use super::retained_rules::{retain_bytes_max, retain_rules};
use super::retry::Retries;
use super::schedule::Schedule;
use daytable_model::key::{Period, TableName};
use daytable_model::time::{self, Ticks};
use daytable_platform::memory;
use daytable_store::check::{CatalogEntry, FileFault, open_rows};
use daytable_store::{Reader, StoreError};
use std::collections::{HashMap, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, TryRecvError};
use std::time::{Duration, Instant};

/// Longest sleep before the thread reads the clock again, so that a changed clock is noticed.
const LOOK: Duration = Duration::from_secs(30);
/// How long an ended source is retained, so that a late copy of its file is recognized.
const SOURCES_KEPT: Duration = Duration::from_secs(30 * 86_400);
/// Delay before another attempt to store the retained rules.
const REMEMBER_AGAIN: Duration = Duration::from_secs(2);
/// Interval between writes of the watched time. A kill loses at most this interval.
const WATCH_NOTED: Duration = Duration::from_secs(300);

/// The lifecycle thread and its inputs.
pub struct Lifecycle {
    /// Takes the steps.
    pub executor: Arc<Executor>,
    /// The data folder.
    pub data_dir: PathBuf,
    /// The configuration; a reload sends new settings.
    pub settings: Settings,
    /// Called after each run with its summary.
    pub on_run: Box<dyn Fn(&RunSummary) + Send>,
}

/// The configuration of the lifecycle.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The configured tables, without retained rules.
    pub rules: Vec<TableRule>,
    /// Configured tables whose days are in a remote store. Their rules are only retained.
    pub also: Vec<TableRule>,
    /// When runs are due.
    pub schedule: Schedule,
    /// The limits.
    pub limits: LifecycleLimits,
}

/// The summary of a run.
#[derive(Clone, Debug, Default)]
pub struct RunSummary {
    /// Tables created.
    pub created: u64,
    /// Days sealed.
    pub sealed: u64,
    /// Days archived and verified.
    pub archived: u64,
    /// Tables dropped.
    pub dropped: u64,
    /// Names of failed steps.
    pub failed: Vec<&'static str>,
    /// Time of the run.
    pub at: Ticks,
}

/// Scope of a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Round {
    /// All due steps.
    Whole,
    /// Due steps of hourly tables, and missing tables.
    Hours,
}

impl Round {
    fn covers(self, step: &LifecycleStep) -> bool {
        self == Round::Whole || matches!(step, LifecycleStep::Create(_)) || step.table().period() == Period::Hour
    }
}

/// The outcome of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum StepOutcome {
    /// The step succeeded, or failed for a reason of its own.
    Done,
    /// The place of the archive is unreachable, for every day.
    NotReached,
}

/// State of the thread between runs.
struct State {
    retries: Retries,
    /// The last reported reason for each day that stays.
    logged_holds: HashMap<String, &'static str>,
    /// The tables for which it was logged that today alone exceeds the limit; none stands for all days.
    logged_excess: Vec<Option<TableName>>,
    /// Start of the watched time that is not yet written.
    watched: Instant,
    /// New settings; a disconnect means stop.
    orders: Receiver<Settings>,
    /// Settings that arrived during a run.
    ordered: Option<Settings>,
}

impl State {
    /// Whether the thread must end. New settings wait for the end of the run.
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
    /// Stores the configured rules, then runs whenever a step is due. Missed runs and missing tables run at once. New
    /// settings from `orders` are stored and take effect after the current run. Returns when `orders` disconnects.
    pub fn work(mut self, orders: Receiver<Settings>) {
        let (retries, logged_holds, watched) = (Retries::default(), HashMap::new(), Instant::now());
        let mut state = State { retries, logged_holds, logged_excess: Vec::new(), watched, orders, ordered: None };
        if !self.begin(&state) {
            return;
        }
        let mut after = time::now();
        // Today's and tomorrow's tables must exist, even if no run was missed.
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
                    // Settings take effect only after they are stored.
                    Err(error) => {
                        tracing::error!(%error, "failed to store the configured tables: the previous ones stay in effect");
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

    /// Stores the configured rules, again and again if that fails: a full disk may have room later. False if `orders`
    /// disconnects first.
    fn begin(&mut self, state: &State) -> bool {
        while let Err(error) = self.remember() {
            tracing::error!(%error, "failed to store the configured tables: until that succeeds, no day is sealed or dropped");
            match state.orders.recv_timeout(REMEMBER_AGAIN) {
                Ok(settings) => self.settings = settings,
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return false,
            }
        }
        true
    }

    fn has_hours(&self) -> bool {
        self.settings.rules.iter().any(|rule| rule.window.period == Period::Hour)
    }

    /// Time until a step may be due.
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
                tracing::warn!(table = %rule.name, hours, "the retention of a table was shortened, or its archive was removed: stored days and archives keep the rule from before for this many hours");
            }
            if rule.is_removed {
                tracing::warn!(table = %rule.name, "a table is no longer configured: its days are kept, and not archived");
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
            Err(error) => {
                tracing::warn!(%error, "failed to store how long the folder was watched: drops may wait longer")
            }
        }
    }

    fn view(&self) -> Result<View, StoreError> {
        let state = self.executor.steps().lifecycle_state()?;
        Ok(View::of(&self.data_dir, state, &self.settings.rules, self.settings.limits, time::now()))
    }

    /// One run. A failed step does not block the other steps.
    fn run(&self, state: &mut State, round: Round) {
        let mut run = RunSummary { at: time::now(), ..RunSummary::default() };
        let (mut done, mut away) = (HashSet::new(), HashSet::new());
        loop {
            let plan = match self.view() {
                Ok(mut view) => {
                    let exceeded = today_exceeds(&view);
                    state.logged_excess.retain(|table| exceeded.iter().any(|excess| excess.table == *table));
                    for excess in exceeded {
                        if !state.logged_excess.contains(&excess.table) {
                            tracing::warn!("{excess}");
                            state.logged_excess.push(excess.table);
                        }
                    }
                    view.dropped = u16::try_from(run.dropped).unwrap_or(u16::MAX);
                    plan(&view)
                }
                Err(StoreError::Closed) => return,
                Err(error) => {
                    tracing::error!(%error, "failed to plan the lifecycle: nothing is sealed, archived or dropped, retrying");
                    run.failed.push("plan");
                    break;
                }
            };
            self.report_plan(&plan, state);
            let may = |planned: &&PlannedStep| {
                round.covers(&planned.step)
                    && state.retries.allows(&planned.step, Instant::now())
                    && !done.contains(&planned.step)
                    && planned.step.place().is_none_or(|place| !away.contains(place))
            };
            let Some(planned) = plan.steps.iter().find(may) else { break };
            if state.is_over() || self.executor.is_stopped() {
                return;
            }
            done.insert(planned.step.clone());
            if self.take(planned, state, &mut run) == StepOutcome::NotReached {
                // Other days need not wait for the same unreachable place.
                away.extend(planned.step.place().cloned());
            }
        }
        if round == Round::Whole {
            self.compare_rows(&mut run);
        }
        if run.failed.is_empty()
            && round == Round::Whole
            && let Err(error) = self.executor.steps().record_run(run.at, run.at.minus(SOURCES_KEPT))
        {
            tracing::error!(%error, "failed to note in the catalog that the lifecycle ran, retrying");
            run.failed.push("note");
        }
        self.show_next(run.at);
        (self.on_run)(&run);
    }

    /// Compares the rows of each unsealed file with its total: a day whose pages have other rows than were committed cannot
    /// be sealed as it is.
    fn compare_rows(&self, run: &mut RunSummary) {
        let compared = Reader::open(&self.data_dir).and_then(|reader| {
            let catalog = reader.catalog();
            for file in catalog.files()?.iter().filter(|file| file.seal.is_none()) {
                let path = self.data_dir.join("tables").join(&file.name);
                let report = open_rows(&path, &|| CatalogEntry::of(Some(catalog), &file.name));
                for fault in report.faults {
                    let (FileFault::Unreadable(found)
                    | FileFault::Count(found)
                    | FileFault::Copies(found)
                    | FileFault::Bytes(found)) = fault;
                    tracing::error!(table = %file.day, file = %file.name, "{found}");
                    run.failed.push("compare");
                }
            }
            Ok(())
        });
        if let Err(error) = compared {
            tracing::error!(%error, "failed to compare the rows of open days with what was committed");
            run.failed.push("compare");
        }
    }

    /// Shows the next step and its time. Due steps wait for the next run.
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

    /// Logs each new reason why a day stays, and forgets failures of steps that are no longer planned.
    fn report_plan(&self, plan: &LifecyclePlan, state: &mut State) {
        for held in &plan.held_back {
            if state.logged_holds.insert(held.table.to_string(), held.reason.name()) != Some(held.reason.name()) {
                match held.reason {
                    HoldReason::Interrupted { .. } => tracing::error!(table = %held.table, "{}", held.reason),
                    _ => tracing::info!(table = %held.table, "stays: {}", held.reason),
                }
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
                state.retries.succeeded(step);
                match step {
                    LifecycleStep::Create(_) => run.created += 1,
                    LifecycleStep::Seal(_) => run.sealed += 1,
                    LifecycleStep::Archive(..) => run.archived += 1,
                    LifecycleStep::Drop(_) | LifecycleStep::DropUnarchived(_) => {
                        // Before its time: somebody wanted to keep this day.
                        match why {
                            StepReason::Pressure { .. } | StepReason::TablePressure { .. } => {
                                tracing::warn!(%table, "dropped before its time: {why}")
                            }
                            _ => tracing::info!(%table, "dropped: {why}"),
                        }
                        run.dropped += 1;
                    }
                    LifecycleStep::RemoveArchive(..) => {}
                }
            }
            Err(StepError::Stopped | StepError::Store(StoreError::Closed)) => {}
            Err(error) => {
                let is_away = matches!(&error, StepError::Archive(error) if error.concerns_store());
                let again = state.retries.failed(step, error.to_string(), Instant::now());
                // It was planned before the last commit, which changed what is possible.
                if matches!(error, StepError::Store(StoreError::Refused(_))) {
                    tracing::info!(%table, step = name, reason = %error, again_in = ?again, "a step waits");
                } else {
                    tracing::error!(%table, step = name, %error, again_in = ?again, "failed to take a step");
                }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ArchiveRequirement, LifecycleProgress};
    use daytable_archive::Access;
    use daytable_model::key::{DayTable, TableName};
    use daytable_model::window::Window;
    use daytable_store::{Store, StoreOptions};
    use rusqlite::Connection;
    use std::path::Path;
    use std::sync::mpsc;

    /// The rows of open days are compared with what was committed in each run, not only by `verify`.
    #[test]
    fn a_day_with_other_rows_than_were_committed_fails_a_run() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path(), StoreOptions::default()).expect("a store");
        let table = DayTable::at(&TableName::new("Log").expect("a name"), Period::Day, time::now());
        store.steps().create_table(&table).expect("created");
        let (done, runs) = mpsc::channel();
        let lifecycle = lifecycle(&store, folder.path(), done);
        let (settings, orders) = mpsc::channel();
        let thread = std::thread::spawn(move || lifecycle.work(orders));
        let next = || runs.recv_timeout(Duration::from_secs(60)).expect("a run").failed;
        assert_eq!(next(), [""; 0]);
        let file = folder.path().join("tables").join(format!("{table}.1.db"));
        let file = Connection::open(file).expect("the day's file");
        for (merged, failed) in [(-7, vec!["compare"]), (0, vec![])] {
            file.execute("UPDATE total SET merged = ?1", [merged]).expect("changed");
            settings.send(daily()).expect("ordered");
            assert_eq!(next(), failed);
        }
        drop(settings);
        thread.join().expect("it ended");
    }

    fn daily() -> Settings {
        let rule = TableRule {
            name: TableName::new("Log").expect("a name"),
            window: Window { keep: Duration::from_secs(86_400), period: Period::Day },
            archive: ArchiveRequirement::None,
            keep_archives: None,
            shortened: None,
            archive_before: None,
            archives_until: None,
            max_bytes: None,
            max_bytes_since: None,
        };
        Settings {
            rules: vec![rule],
            also: Vec::new(),
            schedule: Schedule::parse("0 15 0 * * *").expect("a schedule"),
            limits: LifecycleLimits::default(),
        }
    }

    /// A lifecycle with daily runs that sends the summary of each.
    fn lifecycle(store: &Store, folder: &Path, done: mpsc::Sender<RunSummary>) -> Lifecycle {
        let progress = Arc::new(LifecycleProgress::default());
        let executor = Executor::new(store.steps(), folder.to_owned(), Access::default(), progress);
        Lifecycle {
            executor: Arc::new(executor),
            data_dir: folder.to_owned(),
            settings: daily(),
            on_run: Box::new(move |summary| drop(done.send(summary.clone()))),
        }
    }

    #[test]
    fn a_lifecycle_whose_tables_cannot_be_stored_at_its_start_begins_later() {
        let folder = tempfile::tempdir().expect("a folder");
        let store = Store::open(folder.path(), StoreOptions::default()).expect("a store");
        let catalog = Connection::open(folder.path().join("catalog.db")).expect("the catalog");
        let refuse = "CREATE TRIGGER refused BEFORE INSERT ON rule BEGIN SELECT RAISE(ABORT, 'the disk is full'); END";
        catalog.execute_batch(refuse).expect("a trigger");
        let (done, runs) = mpsc::channel();
        let lifecycle = lifecycle(&store, folder.path(), done);
        let (settings, orders) = mpsc::channel();
        let thread = std::thread::spawn(move || lifecycle.work(orders));
        runs.recv_timeout(REMEMBER_AGAIN / 2).expect_err("nothing is stored, so nothing runs");
        catalog.execute_batch("DROP TRIGGER refused").expect("dropped");
        let summary = runs.recv_timeout(Duration::from_secs(60)).expect("a run");
        assert!(summary.created > 0, "{summary:?}");
        drop(settings);
        thread.join().expect("it ended");
    }
}
