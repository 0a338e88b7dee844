//! Drops before expiry, because the days exceed their limit.

use super::DropBudget;
use super::day::{Urgency, counted, is_over, ripen};
use super::{ArchiveRequirement, LifecyclePlan, LifecycleStep, PlannedStep, TableState, View};
use crate::reason::{HeldBytes, HeldTable, HoldReason, StepReason};
use daytable_model::key::{DayTable, TableName};
use daytable_store::catalog::DayState;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Tables whose bytes the reason of a drop names.
const TABLES_NAMED_MAX: usize = 3;

/// Adds drops until the folder is below its limit: first restored days, which are copies, then the oldest days. Stops
/// at the first day that may not be dropped; a younger day never replaces it.
pub(super) fn relieve(view: &View, standing: &[&TableState], drops: &mut DropBudget, plan: &mut LifecyclePlan) {
    let Some(bytes_max) = view.limits.max_bytes else { return };
    let dropped = plan.steps.iter().filter(|planned| matches!(planned.step, LifecycleStep::Drop(_)));
    let dropped: BTreeSet<DayTable> = dropped.map(|planned| planned.step.table().clone()).collect();
    let planned: u64 = standing.iter().filter(|state| dropped.contains(&state.table)).map(|state| state.bytes).sum();
    let mut bytes = view.bytes.saturating_sub(planned);
    if bytes <= bytes_max || view.clock.now < view.pressure_since.plus(view.limits.grace) {
        return;
    }
    let why = StepReason::Pressure { bytes: view.bytes, bytes_max, held_by: held_by(view) };
    let is_copy = |state: &&TableState| matches!(state.state, DayState::Restored { .. });
    let (copies, days): (Vec<&TableState>, Vec<&TableState>) = standing.iter().partition(|state| is_copy(state));
    for state in copies.into_iter().chain(days) {
        if bytes <= bytes_max {
            return;
        }
        if dropped.contains(&state.table) || state.rows() == 0 {
            continue;
        }
        let rule = view.rule_of(&state.table).filter(|rule| rule.window.period == state.table.period());
        let place = match (&state.state, rule) {
            (DayState::Restored { .. }, _) => None,
            (_, Some(rule)) if is_over(view, state) => match &rule.archive {
                ArchiveRequirement::At(place) => Some(place),
                ArchiveRequirement::None => {
                    let before = rule.archive_before.as_ref().filter(|(_, until)| view.clock.now < *until);
                    before.map(|(place, _)| place)
                }
            },
            _ => continue,
        };
        if let Some(until) = state.kept_until.filter(|until| *until > view.clock.now) {
            return hold(plan, state, HoldReason::Imported { until });
        }
        let needs_proof = place.is_some() || matches!(state.state, DayState::Restored { .. });
        let is_proven = !needs_proof || view.is_proven(state, place.map(|place| &**place));
        if !is_proven && !view.limits.drop_unarchived {
            // The drop waits for the permit, so prepare the day.
            let ripening = rule.and_then(|rule| ripen(view, rule, state, Urgency::Now));
            let is_planned = plan.steps.iter().any(|planned| planned.step.table() == &state.table);
            plan.steps.extend(ripening.filter(|_| !is_planned));
            hold(plan, state, HoldReason::NoPermit);
            return;
        }
        match drops.charge(counted(state)) {
            Ok(()) => {
                // A dropped day needs no other step.
                plan.steps.retain(|planned| planned.step.table() != &state.table);
                plan.held_back.retain(|held| held.table != state.table);
                let table = state.table.clone();
                let step = if is_proven { LifecycleStep::Drop(table) } else { LifecycleStep::DropUnarchived(table) };
                plan.steps.push(PlannedStep { step, why: why.clone() });
                bytes = bytes.saturating_sub(state.bytes);
            }
            Err(reason @ HoldReason::OverLimit(_)) => return hold(plan, state, reason),
            Err(reason) => hold(plan, state, reason),
        }
    }
}

/// What holds the bytes, for the log.
fn held_by(view: &View) -> HeldBytes {
    let mut by_table: BTreeMap<&TableName, u64> = BTreeMap::new();
    for state in &view.tables {
        *by_table.entry(state.table.table()).or_default() += state.bytes;
    }
    let mut tables: Vec<(TableName, u64)> = by_table.into_iter().map(|(name, bytes)| (name.clone(), bytes)).collect();
    tables.sort_by_key(|(_, bytes)| Reverse(*bytes));
    tables.retain(|(_, bytes)| *bytes > 0);
    tables.truncate(TABLES_NAMED_MAX);
    HeldBytes { tables, journals: view.journal_bytes, others: view.other_bytes }
}

fn hold(plan: &mut LifecyclePlan, state: &TableState, reason: HoldReason) {
    if plan.held_back.iter().all(|held| held.table != state.table) {
        plan.held_back.push(HeldTable { table: state.table.clone(), reason });
    }
}
