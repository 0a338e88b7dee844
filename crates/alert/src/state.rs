//! The state of one rule: which windows are evaluated, the episodes of each group, and its alert.
//!
//! A window is named by the number of its end: `end × every` after the Unix epoch. Nothing in this module asks for the time or
//! reads records, so properties can play any order of events.

use crate::board::Alert;
use crate::question::{GroupValues, Question};
use crate::rule::AlertRule;
use crate::{GROUPS_MAX, LATE_MAX};
use daytable_model::time::Ticks;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// Ticks of a duration.
fn ticks(duration: Duration) -> i64 {
    i64::try_from(duration.as_nanos() / 100).unwrap_or(i64::MAX)
}

/// The windows of a rule.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Grid {
    every: i64,
    period: i64,
}

impl Grid {
    pub(crate) fn new(rule: &AlertRule) -> Grid {
        Grid { every: ticks(rule.every).max(1), period: ticks(rule.period) }
    }

    /// The last end at or before a time.
    pub(crate) fn last_end(&self, time: Ticks) -> i64 {
        (time.get() - Ticks::UNIX_EPOCH.get()).div_euclid(self.every)
    }

    /// The time of an end.
    pub(crate) fn time(&self, end: i64) -> Ticks {
        let ticks = end.saturating_mul(self.every).saturating_add(Ticks::UNIX_EPOCH.get());
        Ticks::new(ticks.max(0)).unwrap_or(Ticks::MAX)
    }

    /// The window before an end, without the end.
    pub(crate) fn window(&self, end: i64) -> (Ticks, Ticks) {
        let to = self.time(end);
        (Ticks::new((to.get() - self.period).max(0)).unwrap_or(Ticks::MIN), to)
    }

    /// The ends of the windows that contain a time.
    pub(crate) fn ends_of(&self, time: Ticks) -> std::ops::RangeInclusive<i64> {
        let since = time.get() - Ticks::UNIX_EPOCH.get();
        since.div_euclid(self.every) + 1..=(since + self.period).div_euclid(self.every)
    }

    /// Windows that end within a duration.
    fn ends_within(&self, duration: Duration) -> i64 {
        ticks(duration) / self.every
    }
}

/// Consecutive ends whose windows are beyond the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Episode {
    first: i64,
    last: i64,
}

/// What is known of a group.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
struct GroupState {
    /// The first end whose window had records of the group.
    first: i64,
    /// The last one.
    seen: i64,
    episodes: Vec<Episode>,
    /// Ticks until which the alert lasts at least: a cause that came late would end before anyone saw it.
    hold: i64,
    /// The value of the last window beyond the limit.
    value: f64,
    /// The alert while it lasts.
    alert: Option<Alert>,
}

/// The state of a rule.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct RuleState {
    pub(crate) fingerprint: u64,
    /// The last end that was not watched, because the rule is younger.
    begun: i64,
    /// The last end that became due.
    pub(crate) due: i64,
    /// The last end that was evaluated.
    evaluated: i64,
    /// Ends that are to be evaluated.
    pending: BTreeSet<i64>,
    /// The end from which on records were watched without a gap.
    watched: i64,
    groups: Vec<(Vec<String>, GroupState)>,
    /// Groups that are not remembered, because there are too many.
    #[serde(skip)]
    pub(crate) groups_left_out: u64,
    /// Why the last evaluation failed.
    #[serde(skip)]
    pub(crate) error: Option<String>,
    #[serde(skip)]
    pub(crate) failures: u64,
}

impl RuleState {
    /// The state of a rule that is new at `now`: the first window is the last that is over.
    pub(crate) fn new(rule: &AlertRule, now: Ticks) -> RuleState {
        let end = Grid::new(rule).last_end(now);
        RuleState {
            fingerprint: rule.fingerprint(),
            begun: end - 1,
            due: end - 1,
            evaluated: end - 1,
            pending: BTreeSet::new(),
            watched: end,
            groups: Vec::new(),
            groups_left_out: 0,
            error: None,
            failures: 0,
        }
    }

    /// Windows that are to be evaluated.
    pub(crate) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// Groups that had records before the rule was there, and so are expected to have more.
    pub(crate) fn expect(&mut self, groups: GroupValues) {
        let end = self.due;
        let state = GroupState { first: end, seen: end, ..GroupState::default() };
        self.groups.extend(groups.into_keys().take(GROUPS_MAX).map(|group| (group, state.clone())));
    }

    /// Records were not watched until `now`, because no daemon ran.
    pub(crate) fn note_gap(&mut self, grid: Grid, now: Ticks) {
        self.watched = grid.last_end(now);
    }

    /// Every end until `until` becomes due. Those older than [`LATE_MAX`] do not. `until` may be earlier than `now`, as long as
    /// records are unread. If the clock was set back, ends that are in the future again become due once more.
    pub(crate) fn make_due(&mut self, grid: Grid, until: Ticks, now: Ticks) {
        let (newest, last) = (grid.last_end(until), grid.last_end(now));
        if last < self.due {
            self.set_back(last);
        }
        let oldest = newest - grid.ends_within(LATE_MAX);
        self.pending.extend(self.due.max(oldest) + 1..=newest);
        self.pending = self.pending.split_off(&oldest);
        self.due = self.due.max(newest);
    }

    /// Nothing is later than `last`.
    fn set_back(&mut self, last: i64) {
        let state = [&mut self.due, &mut self.evaluated, &mut self.watched, &mut self.begun];
        state.into_iter().for_each(|end| *end = (*end).min(last));
        self.pending.retain(|end| *end <= last);
        for (_, group) in &mut self.groups {
            (group.first, group.seen, group.hold) = (group.first.min(last), group.seen.min(last), 0);
        }
    }

    /// A record was committed: the windows that were evaluated without it are evaluated again.
    pub(crate) fn note_late(&mut self, grid: Grid, time: Ticks) {
        let ends = grid.ends_of(time);
        self.pending.extend((*ends.start()).max(self.begun + 1)..=(*ends.end()).min(self.due));
    }

    /// The next end to evaluate: the newest first, because it says what is the case now; then the oldest.
    pub(crate) fn next(&self) -> Option<i64> {
        self.pending.last().copied().filter(|end| *end > self.evaluated).or_else(|| self.pending.first().copied())
    }

    /// Notes the values of the window that ends at `end`.
    pub(crate) fn note(&mut self, rule: &AlertRule, question: &Question, end: i64, values: &GroupValues, now: Ticks) {
        let grid = Grid::new(rule);
        let (is_late, remembers) = (end <= self.evaluated || end < self.due, rule.below.is_some());
        // No window that was not watched as a whole says that records are missing.
        let is_watched = grid.window(end).0 >= grid.time(self.watched);
        self.pending.remove(&end);
        let mut known: BTreeMap<&[String], usize> =
            self.groups.iter().enumerate().map(|(at, (group, _))| (group.as_slice(), at)).collect();
        let mut valued: Vec<(usize, f64)> = Vec::new();
        let mut new: Vec<(&Vec<String>, f64)> = Vec::new();
        for (group, &value) in values {
            match known.remove(group.as_slice()) {
                Some(at) => valued.push((at, value)),
                None => new.push((group, value)),
            }
        }
        // Groups without a row.
        let missing: Vec<usize> = known.into_values().collect();
        for (group, value) in new {
            if !remembers && !rule.is_met(value, is_late) {
                continue;
            }
            if self.groups.len() >= GROUPS_MAX {
                self.groups_left_out += 1;
                continue;
            }
            // A group of all records is expected from the beginning; another one from its first record on.
            let first = if question.by.is_empty() { self.watched } else { end };
            self.groups.push((group.clone(), GroupState { first, ..GroupState::default() }));
            valued.push((self.groups.len() - 1, value));
        }
        for &(at, value) in &valued {
            let group = &mut self.groups[at].1;
            if !question.by.is_empty() || value > 0.0 {
                group.seen = group.seen.max(end);
            }
        }
        let zeros = missing.into_iter().filter(|_| question.is_count && remembers).map(|at| (at, 0.0));
        for (at, value) in valued.into_iter().chain(zeros) {
            let group = &mut self.groups[at].1;
            let is_expected = is_watched && grid.window(end).0 >= grid.time(group.first);
            if rule.is_met(value, is_late || !is_expected) {
                group.meet(end, value, is_late.then(|| now.plus(rule.period)));
            }
        }
        self.evaluated = self.evaluated.max(end);
    }

    /// Begins and ends alerts by what is known now, and gives the alerts that ended. Forgets what is old.
    pub(crate) fn settle(&mut self, rule: &AlertRule, question: &Question, now: Ticks) -> Vec<Alert> {
        let (grid, evaluated, by) = (Grid::new(rule), self.evaluated, &question.by);
        let forgotten = evaluated - grid.ends_within(rule.forget).max(1);
        let kept = evaluated - grid.ends_within(LATE_MAX + rule.period) - 1;
        let (remembers, is_whole) = (rule.below.is_some(), by.is_empty());
        let mut ended = Vec::new();
        self.groups.retain_mut(|(name, group)| {
            let is_forgotten = remembers && !is_whole && group.seen < forgotten;
            let current = group.episodes.iter().find(|episode| (episode.first..=episode.last).contains(&evaluated));
            let lasts = !is_forgotten && (current.is_some() || group.hold > now.get());
            let annotations = || rule.annotations_of(by, name, group.value);
            match (&mut group.alert, lasts) {
                (None, true) => {
                    group.alert = Some(Alert {
                        rule: rule.name.clone(),
                        labels: rule.labels_of(by, name),
                        annotations: annotations(),
                        query: rule.query.clone(),
                        records: question.records_of(name),
                        from: grid.window(current.map_or(evaluated, |episode| episode.first)).0,
                        value: group.value,
                        starts_at: current.map_or(now, |episode| grid.time(episode.first)).min(now),
                        ends_at: None,
                    });
                }
                (Some(alert), true) if alert.value != group.value => {
                    (alert.annotations, alert.value) = (annotations(), group.value);
                }
                (alert, false) => ended.extend(alert.take().map(|alert| Alert { ends_at: Some(now), ..alert })),
                (Some(_), true) => {}
            }
            group.episodes.retain(|episode| episode.last >= kept);
            !is_forgotten && (group.alert.is_some() || !group.episodes.is_empty() || remembers)
        });
        ended
    }

    /// The alerts that are firing.
    pub(crate) fn alerts(&self) -> impl Iterator<Item = &Alert> {
        self.groups.iter().filter_map(|(_, group)| group.alert.as_ref())
    }

    /// Ends all alerts, because their rule is gone or another one.
    pub(crate) fn end(self, now: Ticks) -> Vec<Alert> {
        let alerts = self.groups.into_iter().filter_map(|(_, group)| group.alert);
        alerts.map(|alert| Alert { ends_at: Some(now), ..alert }).collect()
    }
}

impl GroupState {
    /// The window that ends at `end` is beyond the limit. `hold` is given for a window that was evaluated late.
    fn meet(&mut self, end: i64, value: f64, hold: Option<Ticks>) {
        self.value = value;
        let near = |episode: &&mut Episode| (episode.first - 1..=episode.last + 1).contains(&end);
        match self.episodes.iter_mut().find(near) {
            Some(episode) => {
                *episode = Episode { first: episode.first.min(end), last: episode.last.max(end) };
            }
            None => {
                self.episodes.push(Episode { first: end, last: end });
                self.hold = self.hold.max(hold.map_or(0, Ticks::get));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::rule::Threshold;
    use proptest::prelude::*;

    fn at(seconds: i64) -> Ticks {
        Ticks::from_unix(1_800_000_000 + seconds, 0).expect("a time")
    }

    /// A rule with its state, over records of one group that a list holds.
    struct Played {
        rule: AlertRule,
        question: Question,
        state: RuleState,
        /// The times of the committed records, in seconds.
        records: Vec<i64>,
        /// The starts and ends of alerts.
        told: Vec<(i64, bool)>,
    }

    impl Played {
        fn new(rule: AlertRule) -> Played {
            let question = rule.question().expect("a good rule");
            let state = RuleState::new(&rule, at(0));
            Played { rule, question, state, records: Vec::new(), told: Vec::new() }
        }

        fn count(&self, end: i64) -> usize {
            let (from, to) = Grid::new(&self.rule).window(end);
            self.records.iter().filter(|second| (from..to).contains(&at(**second))).count()
        }

        fn commit(&mut self, second: i64) {
            self.records.push(second);
            self.state.note_late(Grid::new(&self.rule), at(second));
        }

        fn pass(&mut self, second: i64) {
            self.state.make_due(Grid::new(&self.rule), at(second), at(second));
            while let Some(end) = self.state.next() {
                let values = GroupValues::from([(Vec::new(), self.count(end) as f64)]);
                self.state.note(&self.rule, &self.question, end, &values, at(second));
            }
            let before = self.state.alerts().count();
            let ended = self.state.settle(&self.rule, &self.question, at(second)).len();
            let after = self.state.alerts().count();
            if ended > 0 {
                self.told.push((second, false));
            }
            if after > before - ended {
                self.told.push((second, true));
            }
        }

        fn starts(&self) -> usize {
            self.told.iter().filter(|(_, is_start)| *is_start).count()
        }

        /// The runs of ends whose windows are beyond the limit, with all records.
        fn runs(&self, until: i64) -> Vec<(i64, i64)> {
            let mut runs: Vec<(i64, i64)> = Vec::new();
            for end in self.state.begun + 1..=until {
                if !self.rule.is_met(self.count(end) as f64, false) {
                    continue;
                }
                match runs.last_mut() {
                    Some((_, last)) if *last == end - 1 => *last = end,
                    _ => runs.push((end, end)),
                }
            }
            runs
        }
    }

    fn above(limit: f64, period: u64, every: u64) -> AlertRule {
        let seconds = Duration::from_secs;
        let rule = AlertRule { period: seconds(period), every: seconds(every), ..AlertRule::new("Errors", "error") };
        AlertRule { above: Threshold::new(limit), ..rule }
    }

    #[test]
    fn a_burst_is_one_alert_and_ends_with_its_window() {
        let mut played = Played::new(above(2.0, 60, 10));
        for second in 1..200 {
            if (31..34).contains(&second) {
                played.commit(second);
            }
            played.pass(second);
        }
        assert_eq!(played.told, [(40, true), (100, false)]);
    }

    #[test]
    fn a_late_record_alerts_once_and_is_seen_for_a_period() {
        let mut played = Played::new(above(2.0, 60, 10));
        (1..=500).for_each(|second| played.pass(second));
        // Three records of second 100 arrive after all their windows were evaluated, and more of the same cause later.
        (0..3).for_each(|_| played.commit(100));
        (501..=600).for_each(|second| played.pass(second));
        assert_eq!(played.told, [(501, true), (561, false)]);
        played.commit(110);
        (601..=700).for_each(|second| played.pass(second));
        assert_eq!(played.starts(), 1, "the same cause");
        // Another cause.
        (0..3).for_each(|_| played.commit(300));
        (701..=800).for_each(|second| played.pass(second));
        assert_eq!(played.told[2..], [(701, true), (761, false)]);
    }

    #[test]
    fn a_silence_begins_a_period_after_the_last_record_and_not_in_a_gap() {
        let silent = |period| AlertRule { above: None, below: Threshold::new(1.0), ..above(0.0, period, 10) };
        let mut played = Played::new(silent(60));
        for second in 1..100 {
            if second <= 30 {
                played.commit(second);
            }
            played.pass(second);
        }
        // The window [31, 91) ends before the grid's next end at 100; that of 100 has no record.
        assert_eq!(played.told, []);
        played.pass(100);
        assert_eq!(played.told, [(100, true)]);
        played.commit(105);
        (101..=110).for_each(|second| played.pass(second));
        assert_eq!(played.told[1..], [(110, false)]);
        // No daemon for ten minutes: the windows of that time say nothing.
        played.state.note_gap(Grid::new(&played.rule), at(700));
        (700..760).for_each(|second| played.pass(second));
        assert_eq!(played.told.len(), 2);
        played.pass(760);
        assert_eq!(played.told[2..], [(760, true)]);
    }

    #[test]
    fn a_clock_that_is_set_back_neither_stops_nor_repeats_alerts() {
        let mut played = Played::new(above(2.0, 60, 10));
        let burst = |played: &mut Played, second| (0..3).for_each(|_| played.commit(second));
        burst(&mut played, 31);
        (1..200).for_each(|second| played.pass(second));
        assert_eq!(played.told, [(40, true), (100, false)]);
        // Years ahead for a moment, then right again.
        played.pass(100_000_000);
        (200..300).for_each(|second| played.pass(second));
        assert_eq!(played.told.len(), 2, "{:?}", played.told);
        burst(&mut played, 301);
        (300..320).for_each(|second| played.pass(second));
        assert_eq!(played.told[2..], [(310, true)]);
    }

    #[test]
    fn a_group_is_expected_from_its_first_record_until_it_is_forgotten() {
        let rule = AlertRule {
            by: vec!["instance".into()],
            above: None,
            below: Threshold::new(1.0),
            forget: Duration::from_secs(300),
            ..above(0.0, 60, 10)
        };
        let (question, grid) = (rule.question().expect("a good rule"), Grid::new(&rule));
        let mut state = RuleState::new(&rule, at(0));
        let mut told = Vec::new();
        for second in (10..=600).step_by(10) {
            state.make_due(grid, at(second), at(second));
            while let Some(end) = state.next() {
                let values: GroupValues = (second <= 100).then(|| (vec!["db-1".to_owned()], 5.0)).into_iter().collect();
                state.note(&rule, &question, end, &values, at(second));
            }
            let ended = state.settle(&rule, &question, at(second)).len();
            told.push((second, state.alerts().count(), ended));
        }
        let first = told.iter().find(|(_, firing, _)| *firing > 0).expect("an alert");
        assert_eq!(first.0, 110, "the first window without a record, which is watched as a whole");
        let forgotten = told.iter().find(|(_, _, ended)| *ended > 0).expect("an end");
        assert_eq!(forgotten.0, 410, "300 s after its last window with a record");
        assert!(state.groups.is_empty());
    }

    #[test]
    fn a_downtime_is_made_up_for_and_nothing_older_than_the_limit() {
        let mut played = Played::new(above(0.0, 60, 60));
        played.pass(60);
        // The daemon was down for an hour, in which one record came.
        played.records.push(1000);
        played.pass(3600);
        assert_eq!(played.starts(), 1);
        let (mut played, day) = (Played::new(above(0.0, 60, 60)), 86_400);
        played.records.push(1000);
        played.pass(3 * day);
        assert_eq!(played.starts(), 0);
        assert_eq!(played.state.pending(), 0);
    }

    proptest! {
        /// Whatever comes in whatever order, each window that is beyond the limit with all of its records is in an episode,
        /// also if the state was saved and read at any time.
        #[test]
        fn no_window_is_lost(
            records in prop::collection::vec((1i64..400, 0i64..200), 0..40),
            limit in 0u8..4, period in 1i64..60, every in 1i64..60, pace in 1usize..50, saves in any::<bool>(),
        ) {
            let every = every.min(period);
            let mut played = Played::new(above(limit.into(), period.unsigned_abs(), every.unsigned_abs()));
            for second in 1..700 {
                for (time, late) in &records {
                    if time + late == second {
                        played.commit(*time);
                    }
                }
                if usize::try_from(second).is_ok_and(|second| second.is_multiple_of(pace)) {
                    played.pass(second);
                }
                if saves {
                    let bytes = serde_json::to_vec(&played.state).expect("plain data");
                    played.state = serde_json::from_slice(&bytes).expect("the same");
                }
            }
            played.pass(700);
            let grid = Grid::new(&played.rule);
            let episodes: Vec<Episode> = played.state.groups.iter().flat_map(|(_, group)| group.episodes.clone()).collect();
            for (first, last) in played.runs(grid.last_end(at(700))) {
                for end in first..=last {
                    prop_assert!(episodes.iter().any(|episode| (episode.first..=episode.last).contains(&end)), "{end}");
                }
            }
            prop_assert!(episodes.is_empty() || played.starts() > 0);
        }

        /// Records that come in order make one alert for each run of windows beyond the limit.
        #[test]
        fn no_cause_alerts_twice(
            times in prop::collection::btree_set(1i64..600, 0..40), limit in 0u8..4, period in 1i64..60, every in 1i64..60,
        ) {
            let every = every.min(period);
            let mut played = Played::new(above(limit.into(), period.unsigned_abs(), every.unsigned_abs()));
            for second in 1..700 {
                // A record of this second is in windows that end after it.
                played.pass(second);
                if times.contains(&second) {
                    played.commit(second);
                }
            }
            let runs = played.runs(Grid::new(&played.rule).last_end(at(699)));
            prop_assert_eq!(played.starts(), runs.len());
        }
    }
}
