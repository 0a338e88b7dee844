//! A pass over all rules: new commits, windows that are due, alerts, and the state on disk.

use crate::board::{Alert, AlertBoard, RuleStatus, show_labels};
use crate::condition::{self, StandingCondition};
use crate::question::{GroupValues, Question, QuestionError};
use crate::rule::{AlertRule, RuleError, show};
use crate::saved::SavedAlerts;
use crate::state::{Grid, RuleState};
use crate::{LATE_MAX, RULES_MAX};
use daytable_logsql::Predicate;
use daytable_model::time::Ticks;
use daytable_platform::failpoint;
use daytable_query::answer::{FullRecord, pushed_down};
use daytable_query::{Filter, Stores, records_since};
use daytable_store::{FollowPosition, Reader, StateFile, StoreError};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The time between the end of a window and its evaluation: records take a moment from their time to their commit.
const SETTLE: Duration = Duration::from_secs(2);
/// Windows of one rule that one pass evaluates.
const WINDOWS_PER_PASS_MAX: usize = 64;
/// The time without a daemon after which missing records say nothing.
const GAP_MAX: Duration = Duration::from_secs(60);
/// The longest time that unread records let windows wait.
const LAG_MAX: Duration = Duration::from_secs(3600);
/// How long the end of an alert is offered to a receiver that does not answer. An Alertmanager then ended the alert itself.
const ENDED_KEPT: Duration = LATE_MAX;
/// Ends of alerts that are kept.
const ENDED_MAX: usize = 10_000;

/// Evaluates the rules of a data folder. Only one at a time may do so.
pub struct AlertEngine {
    data_dir: PathBuf,
    rules: Vec<(AlertRule, Question)>,
    position: FollowPosition,
    saved: SavedAlerts,
    board: AlertBoard,
    /// Whether no daemon watched the records for a while before this one.
    is_after_gap: bool,
    /// Whether the file has rules.
    is_written: bool,
}

impl AlertEngine {
    /// Goes on where the last engine ended. Call this before anything is sealed: rows that are in a sealed day by then are not
    /// seen as new.
    ///
    /// # Errors
    ///
    /// The data folder cannot be read. A state that cannot be read is not an error: all rules start from scratch, with a message.
    pub fn open(reader: &Reader, data_dir: &Path, board: AlertBoard, now: Ticks) -> Result<AlertEngine, StoreError> {
        let from_now = reader.follow_from_now()?;
        let bytes = StateFile::Alerts.read(data_dir).unwrap_or_else(|error| {
            tracing::warn!(%error, "the state of the alerts cannot be read: all rules start from scratch");
            None
        });
        let saved = bytes.and_then(|bytes| match SavedAlerts::parse(&bytes) {
            Ok(saved) => Some(saved),
            Err(error) => {
                tracing::warn!(error, "alerts.json is damaged: all rules start from scratch");
                None
            }
        });
        let is_written = saved.is_some();
        let (saved, position) = match saved {
            Some(saved) => {
                let position = reader.follow_after(saved.commit)?;
                (saved, position)
            }
            None => (SavedAlerts::new(from_now.commit()), from_now),
        };
        let is_after_gap = Ticks::new(saved.at).is_none_or(|at| now.since(at) > GAP_MAX);
        let data_dir = data_dir.into();
        Ok(AlertEngine { data_dir, rules: Vec::new(), position, saved, board, is_after_gap, is_written })
    }

    /// Evaluates these rules from now on. A rule that is new, or another one, begins at `now`; the alerts of a rule that is
    /// gone end.
    ///
    /// # Errors
    ///
    /// A rule is wrong.
    pub fn set_rules(&mut self, rules: &[AlertRule], stores: &Stores<'_>, now: Ticks) -> Result<(), RuleError> {
        let prepared = rules.iter().take(RULES_MAX).map(|rule| Ok((rule.clone(), rule.question()?)));
        self.rules = prepared.collect::<Result<_, RuleError>>()?;
        let is_after_gap = std::mem::take(&mut self.is_after_gap);
        let mut before = std::mem::take(&mut self.saved.rules);
        for (rule, question) in &self.rules {
            let grid = Grid::new(rule);
            let known = before.remove(&rule.name);
            let state = match known {
                Some(mut state) if state.fingerprint == rule.fingerprint() => {
                    if is_after_gap {
                        state.note_gap(grid, now);
                    }
                    state
                }
                other => {
                    self.saved.ended.extend(other.into_iter().flat_map(|state| state.end(now)));
                    let mut state = RuleState::new(rule, now.minus(SETTLE));
                    if rule.below.is_some() && !question.by.is_empty() {
                        let groups = question.ask(stores, now.minus(rule.forget), now, &|| true);
                        state.expect(groups.unwrap_or_else(|error| {
                            tracing::warn!(alert = rule.name, %error, "failed to read which groups there were: a group is watched from its next record on");
                            GroupValues::new()
                        }));
                    }
                    state
                }
            };
            self.saved.rules.insert(rule.name.clone(), state);
        }
        self.saved.ended.extend(before.into_values().flat_map(|state| state.end(now)));
        Ok(())
    }

    /// How long to wait before the next evaluation: until the next window is due, 60 s at most; 20 ms if windows are
    /// overdue.
    pub fn wait(&self, now: Ticks) -> Duration {
        let is_behind = self.saved.rules.values().any(|state| state.pending() > 0 && state.error.is_none());
        if is_behind {
            return Duration::from_millis(20);
        }
        let next = |(rule, _): &(AlertRule, Question)| {
            let grid = Grid::new(rule);
            grid.time(grid.last_end(now.minus(SETTLE)) + 1).plus(SETTLE).since(now)
        };
        let next = self.rules.iter().map(next).min().unwrap_or(Duration::from_secs(60));
        next.clamp(Duration::from_millis(20), Duration::from_secs(60))
    }

    /// Evaluates what is due at `now`, keeps the state, and publishes the alerts, those of `conditions` among them. `lag` is how
    /// long the oldest unread record of all sources waits. Ends early, with nothing decided that is not whole, if `is_wanted` says so.
    ///
    /// # Errors
    ///
    /// The data folder cannot be read, or the state cannot be written. Nothing is published then, and the next pass repeats it.
    pub fn pass(
        &mut self,
        stores: &Stores<'_>,
        now: Ticks,
        lag: Duration,
        conditions: &[StandingCondition],
        is_wanted: &dyn Fn() -> bool,
    ) -> Result<(), StoreError> {
        self.note_commits(stores.reader, now)?;
        let (settled, lag) = (now.minus(SETTLE), lag.min(LAG_MAX));
        for (rule, question) in &self.rules {
            let Some(state) = self.saved.rules.get_mut(&rule.name) else { continue };
            let grid = Grid::new(rule);
            // Missing records say nothing while some are unread.
            let until = if rule.below.is_some() { settled.minus(lag) } else { settled };
            state.make_due(grid, until, settled);
            state.error = None;
            for _ in 0..WINDOWS_PER_PASS_MAX {
                let Some(end) = state.next() else { break };
                let (from, to) = grid.window(end);
                match question.ask(stores, from, to, is_wanted) {
                    Ok(values) => state.note(rule, question, end, &values, now),
                    Err(_) if !is_wanted() => return Ok(()),
                    Err(error) => {
                        state.failures += 1;
                        state.error = Some(error.to_string());
                        tracing::warn!(alert = rule.name, %error, "failed to evaluate an alert, retrying");
                        break;
                    }
                }
            }
            let ended = state.settle(rule, question, now);
            self.saved.ended.extend(ended);
        }
        self.saved.ended.extend(condition::settle(&mut self.saved.standing, conditions, now));
        self.settle_ends(now);
        self.saved.at = now.get();
        failpoint!("alerts-evaluated");
        let SavedAlerts { ended, standing, .. } = &self.saved;
        let has_content = !self.rules.is_empty() || !ended.is_empty() || !standing.is_empty();
        if has_content || self.is_written {
            StateFile::Alerts.write(&self.data_dir, &self.saved.bytes())?;
            self.is_written = has_content;
        }
        failpoint!("alerts-saved");
        self.publish(now);
        Ok(())
    }

    /// Finds the windows that records were committed for after their evaluation.
    fn note_commits(&mut self, reader: &Reader, now: Ticks) -> Result<(), StoreError> {
        let rules = &self.rules;
        let oldest = now.minus(LATE_MAX);
        let watched: Vec<(Grid, Predicate, Filter)> = rules
            .iter()
            .filter_map(|(rule, question)| {
                let (grid, due) = (Grid::new(rule), self.saved.rules.get(&rule.name)?.due);
                let predicate = Predicate::new(question.filter(), now);
                let times = Filter { since: Some(oldest), until: Some(grid.time(due)), ..Filter::default() };
                let filter = pushed_down(&predicate, &times);
                Some((grid, predicate, filter))
            })
            .collect();
        let filters: Vec<Filter> = watched.iter().map(|(_, _, filter)| filter.clone()).collect();
        let states = &mut self.saved.rules;
        records_since(reader, &mut self.position, &filters, &mut |record| {
            let (time, record) = (record.time(), FullRecord::new(record));
            for ((grid, predicate, filter), (rule, _)) in watched.iter().zip(rules) {
                let is_in = filter.times().is_some_and(|(from, to)| (from..=to).contains(&time));
                if is_in
                    && predicate.matches(&record)
                    && let Some(state) = states.get_mut(&rule.name)
                {
                    state.note_late(*grid, time);
                }
            }
        })?;
        self.saved.commit = self.position.commit();
        Ok(())
    }

    /// Keeps the ends of alerts that a receiver or an action does not know.
    fn settle_ends(&mut self, now: Ticks) {
        let SavedAlerts { rules, ended, standing, .. } = &mut self.saved;
        let lasting = || rules.values().flat_map(RuleState::alerts).chain(standing.iter());
        let lasts = |alert: &Alert| lasting().any(|other| other.labels == alert.labels);
        ended.retain(|alert| alert.ends_at.is_some_and(|end| now.since(end) < ENDED_KEPT));
        self.board.retain_unknown(ended, lasts);
        if ended.len() > ENDED_MAX {
            ended.drain(..ended.len() - ENDED_MAX);
        }
    }

    fn publish(&self, now: Ticks) {
        let states = || self.rules.iter().filter_map(|(rule, _)| Some((rule, self.saved.rules.get(&rule.name)?)));
        let of_rules = states().flat_map(|(_, state)| state.alerts());
        let firing = of_rules.chain(&self.saved.standing).cloned().collect();
        let status = |(rule, state): (&AlertRule, &RuleState)| RuleStatus {
            name: rule.name.clone(),
            firing: state.alerts().count(),
            pending: state.pending(),
            groups_left_out: state.groups_left_out,
            failures: state.failures,
            error: state.error.clone(),
        };
        self.board.publish(firing, self.saved.ended.clone(), states().map(status).collect(), now);
    }
}

/// A group whose last window is beyond the limit of a rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WouldAlert {
    /// The labels, as [`show_labels`] writes them.
    pub labels: String,
    /// The value.
    pub value: String,
}

/// Evaluates the last window of a rule once, without any state. A group without records is not known.
///
/// # Errors
///
/// Why there is no answer.
pub fn preview(rule: &AlertRule, stores: &Stores<'_>, now: Ticks) -> Result<Vec<WouldAlert>, String> {
    let question = rule.question().map_err(|error| error.to_string())?;
    let values = question
        .ask(stores, now.minus(rule.period), now, &|| true)
        .map_err(|error: QuestionError| error.to_string())?;
    let beyond = values.into_iter().filter(|(_, value)| rule.is_met(*value, false));
    let shown = beyond.map(|(group, value)| WouldAlert {
        labels: show_labels(&rule.labels_of(&question.by, &group)),
        value: show(value).into_owned(),
    });
    Ok(shown.collect())
}
