//! Drops before expiry, because the days exceed their limit.

use super::DropBudget;
use super::day::{Urgency, counted, is_over, ripen};
use super::{ArchiveRequirement, LifecyclePlan, LifecycleStep, PlannedStep, TableState, View};
use crate::reason::{HeldBytes, HeldTable, HoldReason, StepReason};
use daytable_model::key::{DayTable, TableName};
use daytable_store::catalog::DayState;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

/// Tables whose bytes the reason of a drop names.
const TABLES_NAMED_MAX: usize = 3;

/// The days whose period is not over exceed the limit of all days, so no drop would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TodayExceeds {
    /// Bytes of these days and of the catalog.
    pub bytes: u64,
    /// The limit of all days.
    pub bytes_max: u64,
    /// What holds the bytes of all days.
    pub held_by: HeldBytes,
}

impl fmt::Display for TodayExceeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TodayExceeds { bytes, bytes_max, held_by } = self;
        write!(
            f,
            "the days that are not over have {bytes} bytes, {bytes_max} is the most of all days (`max_bytes`): no older day goes for that. Set a larger max_bytes, or log less: {held_by}"
        )
    }
}

/// Whether the days that are not over exceed the limit of all days by themselves.
pub fn today_exceeds(view: &View) -> Option<TodayExceeds> {
    let bytes_max = view.limits.max_bytes?;
    let stands = || view.tables.iter().filter(|state| state.stands());
    let may_go = |state: &&TableState| is_copy(state) || is_over(view, state);
    let bytes = view.bytes.saturating_sub(stands().filter(may_go).map(|state| state.bytes).sum());
    (bytes > bytes_max).then(|| TodayExceeds { bytes, bytes_max, held_by: held_by(view) })
}

fn is_copy(state: &TableState) -> bool {
    matches!(state.state, DayState::Restored { .. })
}

/// Adds drops until the days are below their limit: first restored days, which are copies. Then the table with the most
/// bytes gives its oldest day, again and again, as long as it has more than its share of the limit, which is equal for
/// all tables: a table that logs little keeps its days. A table gives nothing more after a day that may not be dropped; a
/// younger day never replaces it. Where the days that are not over exceed the limit alone, nothing is dropped.
pub(super) fn relieve(view: &View, standing: &[&TableState], drops: &mut DropBudget, plan: &mut LifecyclePlan) {
    let Some(bytes_max) = view.limits.max_bytes else { return };
    let dropped = plan.steps.iter().filter(|planned| matches!(planned.step, LifecycleStep::Drop(_)));
    let dropped: BTreeSet<DayTable> = dropped.map(|planned| planned.step.table().clone()).collect();
    let stays = |state: &&&TableState| !dropped.contains(&state.table);
    let planned: u64 = standing.iter().filter(|state| !stays(state)).map(|state| state.bytes).sum();
    let mut bytes = view.bytes.saturating_sub(planned);
    let is_grace_over = view.clock.now >= view.pressure_since.plus(view.limits.grace);
    if bytes <= bytes_max || !is_grace_over || today_exceeds(view).is_some() {
        return;
    }
    let why = StepReason::Pressure { bytes: view.bytes, bytes_max, held_by: held_by(view) };
    let (copies, days): (Vec<&TableState>, Vec<&TableState>) =
        standing.iter().filter(stays).partition(|state| is_copy(state));
    for state in copies.into_iter().filter(|state| state.rows() > 0) {
        if bytes <= bytes_max {
            return;
        }
        match drop_early(view, state, &why, drops, plan) {
            Offer::Dropped => bytes = bytes.saturating_sub(state.bytes),
            Offer::Kept => {}
            Offer::TableKeeps | Offer::RunIsOver => return,
        }
    }
    let mut tables: BTreeMap<&TableName, Table<'_>> = BTreeMap::new();
    for state in days {
        let table = tables.entry(state.table.table()).or_default();
        table.bytes += state.bytes;
        table.days.push_back(state);
    }
    let share = bytes_max / (tables.values().filter(|table| table.bytes > 0).count() as u64).max(1);
    while bytes > bytes_max {
        let over = tables.values_mut().filter(|table| table.bytes > share && !table.days.is_empty());
        let Some(table) = over.max_by_key(|table| table.bytes) else { return };
        let Some(state) = table.days.pop_front() else { return };
        let offer = if state.rows() == 0 { Offer::Kept } else { drop_early(view, state, &why, drops, plan) };
        match offer {
            Offer::Dropped => {
                table.bytes = table.bytes.saturating_sub(state.bytes);
                bytes = bytes.saturating_sub(state.bytes);
            }
            Offer::Kept => {}
            Offer::TableKeeps => table.days.clear(),
            Offer::RunIsOver => return,
        }
    }
}

/// The days of a configured table.
#[derive(Default)]
struct Table<'v> {
    bytes: u64,
    /// Those that may still be asked for, the oldest first.
    days: VecDeque<&'v TableState>,
}

/// What becomes of a day.
enum Offer {
    Dropped,
    /// It stays, and a younger one may go.
    Kept,
    /// It stays, so no younger one of its table goes.
    TableKeeps,
    /// The run drops no more.
    RunIsOver,
}

/// Plans the drop of a day, unless something keeps it.
fn drop_early(
    view: &View,
    state: &TableState,
    why: &StepReason,
    drops: &mut DropBudget,
    plan: &mut LifecyclePlan,
) -> Offer {
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
        _ => return Offer::Kept,
    };
    if let Some(until) = state.kept_until.filter(|until| *until > view.clock.now) {
        hold(plan, state, HoldReason::Imported { until });
        return Offer::TableKeeps;
    }
    let needs_proof = place.is_some() || is_copy(state);
    let is_proven = !needs_proof || view.is_proven(state, place.map(|place| &**place));
    if !is_proven && !view.limits.drop_unarchived {
        // The drop waits for the permit, so prepare the day.
        let ripening = rule.and_then(|rule| ripen(view, rule, state, Urgency::Now));
        let is_planned = plan.steps.iter().any(|planned| planned.step.table() == &state.table);
        plan.steps.extend(ripening.filter(|_| !is_planned));
        hold(plan, state, HoldReason::NoPermit);
        return Offer::TableKeeps;
    }
    match drops.charge(counted(state)) {
        Ok(()) => {
            // A dropped day needs no other step.
            plan.steps.retain(|planned| planned.step.table() != &state.table);
            plan.held_back.retain(|held| held.table != state.table);
            let table = state.table.clone();
            let step = if is_proven { LifecycleStep::Drop(table) } else { LifecycleStep::DropUnarchived(table) };
            plan.steps.push(PlannedStep { step, why: why.clone() });
            Offer::Dropped
        }
        Err(reason @ HoldReason::OverLimit(_)) => {
            hold(plan, state, reason);
            Offer::RunIsOver
        }
        Err(reason) => {
            hold(plan, state, reason);
            Offer::Kept
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
