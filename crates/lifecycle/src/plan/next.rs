//! The next step of a day and its due time, as `daytable tables` shows them.

use super::day::SEALED_AGAIN_AFTER;
use super::{ArchiveRequirement, TableState, View};
use crate::reason::HoldReason;
use daytable_model::time::Ticks;
use daytable_store::catalog::DayState;

/// The next step of a day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NextStep {
    /// The step: `seal`, `archive` or `drop`.
    pub step: &'static str,
    /// Due time; the first run after this time takes the step. `None`: due now.
    pub at: Option<Ticks>,
}

/// The next step of `state`, or `None` if the day has no further step.
pub fn next(view: &View, state: &TableState) -> Option<NextStep> {
    let next = next_if_whole(view, state)?;
    match state.leaves(next.step, view.clock.now) {
        Some(HoldReason::Interrupted { until, .. }) => Some(NextStep { at: next.at.max(Some(until)), ..next }),
        _ => Some(next),
    }
}

/// The next step, if none was interrupted.
fn next_if_whole(view: &View, state: &TableState) -> Option<NextStep> {
    let now = view.clock.now;
    let due = |step, at: Ticks| Some(NextStep { step, at: Some(at).filter(|at| *at > now) });
    match &state.state {
        DayState::Dropped => None,
        DayState::Restored { expires, .. } => due("drop", *expires),
        DayState::Open => {
            let rule = view.rule_of(&state.table).filter(|rule| rule.window.period == state.table.period())?;
            let expires = rule.expires(state);
            if state.unsealed_rows > 0 && !state.stays_in_pages(rule) || state.is_closed {
                let settled = state.table.end().plus(view.limits.seal_after);
                let again = state.sealed.as_ref().map(|sealed| sealed.seal.at.plus(SEALED_AGAIN_AFTER));
                let sealed = again.map_or(settled, |again| again.max(settled));
                match (&rule.archive, expires) {
                    // The day expires before it would be sealed.
                    (ArchiveRequirement::None, Some(expires)) if expires <= sealed => return due("drop", expires),
                    (ArchiveRequirement::At(_), Some(expires)) => return due("seal", sealed.min(expires)),
                    _ => return due("seal", sealed),
                }
            }
            match &rule.archive {
                ArchiveRequirement::At(place) if !view.is_proven(state, Some(place)) => due("archive", now),
                _ => due("drop", expires?),
            }
        }
    }
}
