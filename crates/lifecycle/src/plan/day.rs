//! The next step of one day, or the reason it stays.

use super::DropBudget;
use super::{ArchiveRequirement, LifecycleStep, PlannedStep, ShorterKeep, TableRule, TableState, View};
use crate::clock;
use crate::reason::{HoldReason, StepReason};
use daytable_model::key::TableName;
use daytable_model::time::Ticks;
use daytable_model::window::Window;
use daytable_store::catalog::DayState;
use std::time::Duration;

/// Minimum age of a sealed file before late records cause a new generation.
pub(super) const SEALED_AGAIN_AFTER: Duration = Duration::from_secs(86_400);

/// The result for one day.
#[derive(Default)]
pub(super) struct Outlook {
    pub(super) next: Option<PlannedStep>,
    pub(super) stays: Option<HoldReason>,
}

impl Outlook {
    fn step(step: LifecycleStep, why: StepReason) -> Outlook {
        Outlook { next: Some(PlannedStep { step, why }), stays: None }
    }

    fn stays(reason: HoldReason) -> Outlook {
        Outlook { next: None, stays: Some(reason) }
    }
}

/// The configured table for which a day counts toward `min_tables`: the day has records and is not a restored copy.
pub(super) fn counted(state: &TableState) -> Option<&TableName> {
    (state.state == DayState::Open && state.rows() > 0).then(|| state.table.table())
}

pub(super) fn decide(view: &View, state: &TableState, drops: &mut DropBudget) -> Outlook {
    let now = view.clock.now;
    if let DayState::Restored { expires, .. } = state.state {
        if expires > now {
            return Outlook::default();
        }
        if let Some(doubt) = view.clock.doubt(state.table.period(), state.watched, SEALED_AGAIN_AFTER) {
            return Outlook::stays(doubt);
        }
        if !view.is_proven(state, None) {
            return Outlook::stays(HoldReason::NoPermit);
        }
        return drop_step(state, drops, StepReason::RestoredUntil(expires));
    }
    let Some(rule) = view.rule_of(&state.table) else { return Outlook::stays(HoldReason::NotConfigured) };
    if state.table.period() != rule.window.period {
        return Outlook::stays(HoldReason::OtherPeriod(rule.window.period));
    }
    match rule.expires(state).filter(|expires| *expires <= now) {
        Some(expires) => expired(view, rule, state, expires, drops),
        None => Outlook { next: step_before_drop(view, rule, state, SealDelay::ForLateRecords), stays: None },
    }
}

fn expired(view: &View, rule: &TableRule, state: &TableState, expires: Ticks, drops: &mut DropBudget) -> Outlook {
    let now = view.clock.now;
    if let Some(doubt) = view.clock.doubt(rule.window.period, state.watched, rule.window.keep) {
        return Outlook::stays(doubt);
    }
    if state.is_behind
        && state.rows() > 0
        && let Some(reason) = clock::behind(rule.window.period, now, state.watched, rule.window.keep)
    {
        return Outlook { next: step_before_drop(view, rule, state, SealDelay::ForLateRecords), stays: Some(reason) };
    }
    if let Some(ShorterKeep { keep_before, since }) = rule.shortened {
        let before = Window { keep: keep_before, ..rule.window };
        let until = since.plus(view.limits.grace);
        if now < until && !before.expired(&state.table, now) {
            return Outlook {
                next: step_before_drop(view, rule, state, SealDelay::ForLateRecords),
                stays: Some(HoldReason::Grace { until }),
            };
        }
    }
    match &rule.archive {
        ArchiveRequirement::At(place) if !view.is_proven(state, Some(place)) => {
            Outlook { next: step_before_drop(view, rule, state, SealDelay::None), stays: Some(HoldReason::NoPermit) }
        }
        ArchiveRequirement::None
            if let Some((place, until)) = &rule.archive_before
                && now < *until
                && !view.is_proven(state, Some(place)) =>
        {
            Outlook::stays(HoldReason::Grace { until: *until })
        }
        _ if state.is_unforwarded && state.rows() > 0 => Outlook::stays(HoldReason::Unforwarded),
        _ => drop_step(state, drops, StepReason::Expired(expires)),
    }
}

fn drop_step(state: &TableState, drops: &mut DropBudget, why: StepReason) -> Outlook {
    match drops.charge(counted(state)) {
        Ok(()) => Outlook::step(LifecycleStep::Drop(state.table.clone()), why),
        Err(reason) => Outlook::stays(reason),
    }
}

/// Whether a day waits for late records before it is sealed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum SealDelay {
    /// Wait for late records.
    ForLateRecords,
    /// Do not wait: the day is about to be dropped.
    None,
}

/// The step that prepares a day for its drop: seal or archive.
pub(super) fn step_before_drop(
    view: &View,
    rule: &TableRule,
    state: &TableState,
    delay: SealDelay,
) -> Option<PlannedStep> {
    if state.unsealed_rows > 0 && !state.stays_in_pages(rule) || state.is_closed {
        let over = state.table.end().plus(view.limits.seal_after);
        let is_due = match delay {
            SealDelay::None => true,
            SealDelay::ForLateRecords => over <= view.clock.now && settled(view, rule, state),
        };
        let step = LifecycleStep::Seal(state.table.clone());
        if state.is_closed {
            return Some(PlannedStep { step, why: StepReason::Begun });
        }
        // A day is sealed once all of it was forwarded: its commits are not apart any more then.
        if is_due && !state.is_unforwarded {
            let why =
                if state.sealed.is_some() { StepReason::Late(state.unsealed_rows) } else { StepReason::Over(over) };
            return Some(PlannedStep { step, why });
        }
    }
    let ArchiveRequirement::At(place) = &rule.archive else { return None };
    let sealed = state.sealed.as_ref()?;
    // Late rows go into the next generation.
    let whole = TableState { unsealed_rows: 0, ..state.clone() };
    let is_copied = view.is_proven(&whole, Some(place)) || sealed.seal.rows == 0;
    let step = LifecycleStep::Archive(state.table.clone(), place.clone());
    (!is_copied).then(|| PlannedStep { step, why: StepReason::Asked(place.clone()) })
}

/// Whether the clock is trusted for the end of this day, and the last seal is old enough.
fn settled(view: &View, rule: &TableRule, state: &TableState) -> bool {
    let now = view.clock.now;
    // A seal time in the future means that the clock was wrong then or is wrong now.
    let again = |at: Ticks| at > now || at.plus(SEALED_AGAIN_AFTER) <= now;
    let is_rested = state.sealed.as_ref().is_none_or(|sealed| again(sealed.seal.at));
    is_rested && view.clock.doubt(rule.window.period, state.watched, view.limits.seal_after).is_none()
}

/// Whether the period of a day is over, by a trusted clock.
pub(super) fn is_over(view: &View, state: &TableState) -> bool {
    let is_believed = view.clock.doubt(state.table.period(), state.watched, Duration::ZERO).is_none();
    state.table.end() <= view.clock.now && is_believed
}
