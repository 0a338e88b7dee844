//! Which archives to remove: superseded archives, and archives older than `keep_archives`.

use super::{LifecyclePlan, LifecycleStep, PlannedStep, TableState, View};
use crate::reason::StepReason;
use daytable_model::time::Ticks;
use daytable_store::catalog::{Archived, DayState};
use std::time::Duration;

pub(super) fn remove(view: &View, standing: &[&TableState], plan: &mut LifecyclePlan) {
    for archived in &view.archives {
        let Some(why) = superseded(view, archived).or_else(|| expired(view, standing, archived)) else { continue };
        let step =
            LifecycleStep::RemoveArchive(archived.table.clone(), archived.generation, archived.url.as_str().into());
        plan.steps.push(PlannedStep { step, why });
    }
}

/// Only an archive at the same place supersedes: an archive elsewhere may be unreachable.
fn superseded(view: &View, archived: &Archived) -> Option<StepReason> {
    let has_all = |other: &Archived| {
        other.table == archived.table && other.url == archived.url && other.generation > archived.generation
    };
    (archived.is_superseded && view.archives.iter().any(has_all)).then_some(StepReason::Superseded)
}

/// An archive may be the last copy of a day. Its removal needs a record that confirms the clock, and no table of that
/// day.
fn expired(view: &View, standing: &[&TableState], archived: &Archived) -> Option<StepReason> {
    let rule = view.rule_of(&archived.table)?;
    let until: Ticks = archived.table.end().plus(rule.keep_archives?);
    let is_of = |state: &&TableState| match &state.state {
        DayState::Restored { origin, .. } => *origin == archived.table,
        _ => state.table == archived.table,
    };
    let now = view.clock.now;
    let is_waited_for = rule.archives_until.is_some_and(|until| now < until);
    if until > now || until == Ticks::MAX || is_waited_for || standing.iter().any(is_of) {
        return None;
    }
    let doubt = view.clock.doubt(archived.table.period(), Duration::ZERO, Duration::MAX);
    doubt.is_none().then_some(StepReason::ArchiveExpired(until))
}
