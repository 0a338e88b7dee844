//! Drops before expiry, because the days exceed a limit: that of all days, or that of their table.

use super::DropBudget;
use super::day::{SealDelay, counted, is_over, step_before_drop};
use super::{ArchiveRequirement, LifecyclePlan, LifecycleStep, PlannedStep, TableState, View};
use crate::reason::{FolderUsage, HeldTable, HoldReason, StepReason};
use daytable_model::key::{DayTable, TableName};
use daytable_store::catalog::DayState;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;

/// Tables whose bytes the reason of a drop names.
const TABLES_NAMED_MAX: usize = 3;

/// The days whose period is not over exceed a limit alone, so no drop would help.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TodayExceeds {
    /// The table whose limit it is; none for the limit of all days.
    pub table: Option<TableName>,
    /// Bytes of these days, and of the catalog with all of them.
    pub bytes: u64,
    /// The limit.
    pub bytes_max: u64,
    /// What holds the bytes of all days.
    pub held_by: FolderUsage,
}

impl fmt::Display for TodayExceeds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let TodayExceeds { table, bytes, bytes_max, held_by } = self;
        let end = "no older day goes for that. Set a larger max_bytes, or log less";
        match table {
            Some(table) => write!(
                f,
                "the days of {table} that are not over have {bytes} bytes, {bytes_max} is its most (`max_bytes` of \
                 [[table]]): {end}"
            ),
            None => write!(
                f,
                "the days that are not over have {bytes} bytes, {bytes_max} is the most of all days (`max_bytes`): \
                 {end}: {held_by}"
            ),
        }
    }
}

/// The limits that the days which are not over exceed by themselves: that of all days first.
pub fn today_exceeds(view: &View) -> Vec<TodayExceeds> {
    let is_today = |state: &&TableState| state.exists() && !is_copy(state) && !is_over(view, state);
    let old = view.tables.iter().filter(|state| state.exists() && !is_today(state));
    let today = view.bytes.saturating_sub(old.map(|state| state.bytes).sum());
    let of_all = view.limits.max_bytes.map(|bytes_max| (None, today, bytes_max));
    let of_tables = view.rules.iter().filter_map(|rule| {
        let days = view.tables.iter().filter(|state| *state.table.table() == rule.name).filter(is_today);
        Some((Some(rule.name.clone()), days.map(|state| state.bytes).sum(), rule.max_bytes?))
    });
    let exceeded = of_all.into_iter().chain(of_tables).filter(|(_, bytes, bytes_max)| bytes > bytes_max);
    exceeded.map(|(table, bytes, bytes_max)| TodayExceeds { table, bytes, bytes_max, held_by: held_by(view) }).collect()
}

fn is_copy(state: &TableState) -> bool {
    matches!(state.state, DayState::Restored { .. })
}

/// Adds drops until each table, and then all days together, are below their limits.
///
/// A table above its own limit gives its oldest days. Above the limit of all days, restored days go first, which are
/// copies. Then the table that is furthest over its share gives its oldest day, again and again. So a table that logs
/// little keeps its days. A table gives nothing more after a day that may not be dropped; a younger day never replaces
/// it. Where the days that are not over exceed a limit alone, nothing is dropped for that limit.
pub(super) fn relieve(view: &View, standing: &[&TableState], drops: &mut DropBudget, plan: &mut LifecyclePlan) {
    let dropped = plan.steps.iter().filter(|planned| matches!(planned.step, LifecycleStep::Drop(_)));
    let dropped: BTreeSet<DayTable> = dropped.map(|planned| planned.step.table().clone()).collect();
    let stays = |state: &&&TableState| !dropped.contains(&state.table);
    let planned: u64 = standing.iter().filter(|state| !stays(state)).map(|state| state.bytes).sum();
    let mut bytes = view.bytes.saturating_sub(planned);
    let (copies, days): (Vec<&TableState>, Vec<&TableState>) =
        standing.iter().filter(stays).partition(|state| is_copy(state));
    let mut tables: BTreeMap<&TableName, Table<'_>> = BTreeMap::new();
    for state in days {
        let table = tables.entry(state.table.table()).or_default();
        table.bytes += state.bytes;
        table.days.push_back(state);
    }
    let exceeded = today_exceeds(view);
    let is_in_vain = |name: Option<&TableName>| exceeded.iter().any(|excess| excess.table.as_ref() == name);
    for (&name, table) in &mut tables {
        let Some(bytes_max) = own_limit(view, name).filter(|_| !is_in_vain(Some(name))) else { continue };
        let why = StepReason::TablePressure { bytes: table.bytes, bytes_max };
        while table.bytes > bytes_max {
            match table.give(view, &why, drops, plan) {
                Some(Offer::Dropped(given)) => bytes = bytes.saturating_sub(given),
                Some(Offer::Kept) => {}
                Some(Offer::TableKeeps) | None => break,
                Some(Offer::RunIsOver) => return,
            }
        }
    }

    let Some(bytes_max) = view.limits.max_bytes else { return };
    let is_grace_over = view.clock.now >= view.pressure_since.plus(view.limits.grace);
    if bytes <= bytes_max || !is_grace_over || is_in_vain(None) {
        return;
    }
    let why = StepReason::Pressure { bytes: view.bytes, bytes_max, held_by: held_by(view) };
    for state in copies.into_iter().filter(|state| state.rows() > 0) {
        if bytes <= bytes_max {
            return;
        }
        match drop_early(view, state, &why, drops, plan) {
            Offer::Dropped(given) => bytes = bytes.saturating_sub(given),
            Offer::Kept => {}
            Offer::TableKeeps | Offer::RunIsOver => return,
        }
    }
    let shares = shares(view, &tables, bytes_max);
    while bytes > bytes_max {
        let over = tables.iter_mut().filter_map(|(name, table)| {
            let over = table.bytes.checked_sub(shares[name]).filter(|over| *over > 0)?;
            (!table.days.is_empty()).then_some((over, table))
        });
        let Some((_, table)) = over.max_by_key(|(over, _)| *over) else { return };
        match table.give(view, &why, drops, plan) {
            Some(Offer::Dropped(given)) => bytes = bytes.saturating_sub(given),
            Some(Offer::RunIsOver) => return,
            _ => {}
        }
    }
}

/// The limit of a table, unless the time of grace after a change is not over.
fn own_limit(view: &View, name: &TableName) -> Option<u64> {
    let rule = view.rule_named(name)?;
    let since = rule.max_bytes_since.unwrap_or(view.clock.now);
    rule.max_bytes.filter(|_| view.clock.now >= since.plus(view.limits.grace))
}

/// The share of each table in the limit of all days: in proportion to its own limit. A table without one counts with an
/// equal part.
fn shares<'v>(
    view: &View,
    tables: &BTreeMap<&'v TableName, Table<'_>>,
    bytes_max: u64,
) -> BTreeMap<&'v TableName, u64> {
    let equal = bytes_max / (tables.values().filter(|table| table.bytes > 0).count() as u64).max(1);
    let own = |name| view.rule_named(name).and_then(|rule| rule.max_bytes);
    let weight = |name| u128::from(own(name).unwrap_or(equal));
    let all: u128 = tables.iter().filter(|(_, table)| table.bytes > 0).map(|(name, _)| weight(name)).sum();
    let share = |name| u64::try_from(weight(name) * u128::from(bytes_max) / all.max(1)).unwrap_or(u64::MAX);
    tables.keys().map(|name| (*name, share(name))).collect()
}

/// The days of a configured table.
#[derive(Default)]
struct Table<'v> {
    bytes: u64,
    /// Those that may still be asked for, the oldest first.
    days: VecDeque<&'v TableState>,
}

impl Table<'_> {
    /// What becomes of the oldest day; none if there is none left.
    fn give(
        &mut self,
        view: &View,
        why: &StepReason,
        drops: &mut DropBudget,
        plan: &mut LifecyclePlan,
    ) -> Option<Offer> {
        let state = self.days.pop_front()?;
        let offer = if state.rows() == 0 { Offer::Kept } else { drop_early(view, state, why, drops, plan) };
        match offer {
            Offer::Dropped(given) => self.bytes = self.bytes.saturating_sub(given),
            Offer::TableKeeps => self.days.clear(),
            Offer::Kept | Offer::RunIsOver => {}
        }
        Some(offer)
    }
}

/// What becomes of a day.
enum Offer {
    /// It goes, with this many bytes.
    Dropped(u64),
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
        let before_drop = rule.and_then(|rule| step_before_drop(view, rule, state, SealDelay::None));
        let is_planned = plan.steps.iter().any(|planned| planned.step.table() == &state.table);
        plan.steps.extend(before_drop.filter(|_| !is_planned));
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
            Offer::Dropped(state.bytes)
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
fn held_by(view: &View) -> FolderUsage {
    let mut by_table: BTreeMap<&TableName, u64> = BTreeMap::new();
    for state in &view.tables {
        *by_table.entry(state.table.table()).or_default() += state.bytes;
    }
    let mut tables: Vec<(TableName, u64)> = by_table.into_iter().map(|(name, bytes)| (name.clone(), bytes)).collect();
    tables.sort_by_key(|(_, bytes)| Reverse(*bytes));
    tables.retain(|(_, bytes)| *bytes > 0);
    tables.truncate(TABLES_NAMED_MAX);
    FolderUsage { tables, journals: view.journal_bytes, others: view.other_bytes }
}

fn hold(plan: &mut LifecyclePlan, state: &TableState, reason: HoldReason) {
    if plan.held_back.iter().all(|held| held.table != state.table) {
        plan.held_back.push(HeldTable { table: state.table.clone(), reason });
    }
}
