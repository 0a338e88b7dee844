//! The next step of one day, or why it stays.

use super::{Archive, Planned, Shortened, State, Step, TableRule, TableState, View};
use crate::clock;
use crate::reason::{Reason, Why};
use daytable_model::key::{DayTable, TableName};
use daytable_model::time::Ticks;
use daytable_model::window::Window;
use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

/// A day that was sealed is sealed again for late records after this, and not before.
pub(super) const SEALED_AGAIN_AFTER: Duration = Duration::from_secs(86_400);

/// What is to be done with a day now.
#[derive(Default)]
pub(super) struct Outlook {
    pub(super) next: Option<Planned>,
    pub(super) stays: Option<Reason>,
}

impl Outlook {
    fn step(step: Step, why: Why) -> Outlook {
        Outlook { next: Some(Planned { step, why }), stays: None }
    }

    fn stays(reason: Reason) -> Outlook {
        Outlook { next: None, stays: Some(reason) }
    }
}

/// What the run may still drop.
pub(super) struct Drops<'v> {
    view: &'v View,
    left: u16,
    /// Days with records that stand, by table; restored ones are copies and do not count.
    standing: BTreeMap<&'v TableName, u16>,
    planned: BTreeSet<&'v DayTable>,
}

impl<'v> Drops<'v> {
    pub(super) fn new(view: &'v View, standing: &[&'v TableState]) -> Drops<'v> {
        let mut count: BTreeMap<&TableName, u16> = BTreeMap::new();
        for state in standing.iter().filter(|state| is_floor(state)) {
            let of_table = count.entry(state.table.table()).or_default();
            *of_table = of_table.saturating_add(1);
        }
        let left = view.limits.drops_per_run_max.get().saturating_sub(view.dropped);
        Drops { view, left, standing: count, planned: BTreeSet::new() }
    }

    /// Takes one drop; none where the run may not drop this day, and why.
    pub(super) fn take(&mut self, state: &'v TableState) -> Result<(), Reason> {
        let limits = &self.view.limits;
        let standing = self.standing.get_mut(state.table.table()).filter(|_| is_floor(state));
        if standing.as_ref().is_some_and(|standing| **standing <= limits.min_tables) {
            return Err(Reason::Floor(limits.min_tables));
        }
        if self.left == 0 {
            return Err(Reason::OverLimit(limits.drops_per_run_max));
        }
        self.left -= 1;
        if let Some(standing) = standing {
            *standing -= 1;
        }
        self.planned.insert(&state.table);
        Ok(())
    }

    /// Whether the plan drops it already.
    pub(super) fn has(&self, state: &TableState) -> bool {
        self.planned.contains(&state.table)
    }
}

fn is_floor(state: &TableState) -> bool {
    state.state == State::Open && state.rows() > 0
}

pub(super) fn look<'v>(view: &'v View, state: &'v TableState, drops: &mut Drops<'v>) -> Outlook {
    let now = view.clock.now;
    if let State::Restored { expires, .. } = state.state {
        if expires > now {
            return Outlook::default();
        }
        if let Some(doubt) = view.clock.doubt(state.table.period(), state.watched, SEALED_AGAIN_AFTER) {
            return Outlook::stays(doubt);
        }
        if !view.is_proven(state, None) {
            return Outlook::stays(Reason::NoPermit);
        }
        return drop_it(state, drops, Why::RestoredUntil(expires));
    }
    let Some(rule) = view.rule_of(&state.table) else { return Outlook::stays(Reason::NotConfigured) };
    if state.table.period() != rule.window.period {
        return Outlook::stays(Reason::OtherPeriod(rule.window.period));
    }
    match rule.window.expires(&state.table).filter(|expires| *expires <= now) {
        Some(expires) => expired(view, rule, state, expires, drops),
        None => Outlook { next: ripen(view, rule, state, Ripe::InTime), stays: None },
    }
}

fn expired<'v>(
    view: &'v View,
    rule: &TableRule,
    state: &'v TableState,
    expires: Ticks,
    drops: &mut Drops<'v>,
) -> Outlook {
    let now = view.clock.now;
    if let Some(doubt) = view.clock.doubt(rule.window.period, state.watched, rule.window.keep) {
        return Outlook::stays(doubt);
    }
    if state.is_behind
        && state.rows() > 0
        && let Some(reason) = clock::behind(rule.window.period, now, state.watched, rule.window.keep)
    {
        return Outlook { next: ripen(view, rule, state, Ripe::InTime), stays: Some(reason) };
    }
    if let Some(Shortened { keep_before, since }) = rule.shortened {
        let before = Window { keep: keep_before, ..rule.window };
        let until = since.plus(view.limits.grace);
        if now < until && !before.expired(&state.table, now) {
            return Outlook { next: ripen(view, rule, state, Ripe::InTime), stays: Some(Reason::Grace { until }) };
        }
    }
    match &rule.archive {
        Archive::At(place) if !view.is_proven(state, Some(place)) => {
            Outlook { next: ripen(view, rule, state, Ripe::Now), stays: Some(Reason::NoPermit) }
        }
        Archive::None
            if let Some((place, until)) = &rule.archive_before
                && now < *until
                && !view.is_proven(state, Some(place)) =>
        {
            Outlook::stays(Reason::Grace { until: *until })
        }
        _ => drop_it(state, drops, Why::Expired(expires)),
    }
}

fn drop_it<'v>(state: &'v TableState, drops: &mut Drops<'v>, why: Why) -> Outlook {
    match drops.take(state) {
        Ok(()) => Outlook::step(Step::Drop(state.table.clone()), why),
        Err(reason) => Outlook::stays(reason),
    }
}

/// How much a day's sealing waits for.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Ripe {
    /// For late records.
    InTime,
    /// For nothing: it is to go.
    Now,
}

/// What brings a day on to its archive: it is sealed, or copied.
pub(super) fn ripen(view: &View, rule: &TableRule, state: &TableState, ripe: Ripe) -> Option<Planned> {
    if state.unsealed_rows > 0 || state.is_closed {
        let over = state.table.end().plus(view.limits.seal_after);
        let is_due = match ripe {
            Ripe::Now => true,
            Ripe::InTime => over <= view.clock.now && settled(view, rule, state),
        };
        let step = Step::Seal(state.table.clone());
        if state.is_closed {
            return Some(Planned { step, why: Why::Begun });
        }
        if is_due {
            let why = if state.sealed.is_some() { Why::Late(state.unsealed_rows) } else { Why::Over(over) };
            return Some(Planned { step, why });
        }
    }
    let Archive::At(place) = &rule.archive else { return None };
    let sealed = state.sealed.as_ref()?;
    // What came late goes with the next generation.
    let whole = TableState { unsealed_rows: 0, ..state.clone() };
    let is_copied = view.is_proven(&whole, Some(place)) || sealed.seal.rows == 0;
    let step = Step::Archive(state.table.clone(), place.clone());
    (!is_copied).then(|| Planned { step, why: Why::Asked(place.clone()) })
}

/// Whether the clock is believed about the end of a day, and it was not sealed lately.
fn settled(view: &View, rule: &TableRule, state: &TableState) -> bool {
    let now = view.clock.now;
    // Sealed in the future: the clock was wrong then, or is now.
    let again = |at: Ticks| at > now || at.plus(SEALED_AGAIN_AFTER) <= now;
    let is_rested = state.sealed.as_ref().is_none_or(|sealed| again(sealed.seal.at));
    is_rested && view.clock.doubt(rule.window.period, state.watched, view.limits.seal_after).is_none()
}

/// Whether a day's period is over, by a clock that is believed.
pub(super) fn is_over(view: &View, state: &TableState) -> bool {
    let is_believed = view.clock.doubt(state.table.period(), state.watched, Duration::ZERO).is_none();
    state.table.end() <= view.clock.now && is_believed
}
