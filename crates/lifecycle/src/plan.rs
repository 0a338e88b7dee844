//! From the list of day-tables, their archives, the rules of the configuration and the time to the steps to take.
//!
//! ```text
//! open ──► sealed ──► archived ──► dropped        a day whose table asks for an archive
//!   │         └──────────────────────▲  ▲         one whose table asks for none
//!   └────────────────────────────────┘  │         one that has no rows
//! restored ─────────────────────────────┘
//! ```
//!
//! Each plan has the next step of each day, never two: the plan after that step has the one after it. So a step that
//! fails, or a kill, leaves a day where it was, and the next plan goes on from there; [`forecast`] tells what all the
//! steps will be.
//!
//! A drop is planned only where everything says so: the day belongs to a configured table and has that table's
//! period, its window is over, the [clock](super::clock) is believed, nothing remembered from an earlier configuration
//! still keeps it, an archive of all that it holds was read back where its table asks for one, enough other days of
//! its table stay, and the run has not dropped its fill. Each "no" is a [`HoldReason`](super::HoldReason) that the plan carries beside
//! its steps, so that a day that stays can be explained.
//!
//! Under pressure (the folder has more bytes than `max_bytes`) the oldest days go before their time, under the same
//! conditions but for the window; their period has to be over.

use super::clock::Clock;
use super::reason::{HeldTable, StepReason};
use daytable_model::key::{DayTable, TableName};
use daytable_model::time::Ticks;
use daytable_model::window::Window;
use daytable_store::catalog::{Archived, DayState, Seal};
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

mod archives;
mod day;
mod drop_budget;
mod forecast;
mod next;
mod pressure;

pub use drop_budget::DropBudget;
pub use forecast::forecast;
pub use next::{NextStep, next};

/// A day-table that the catalog knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableState {
    /// Which.
    pub table: DayTable,
    /// What has become of it.
    pub state: DayState,
    /// Rows that no sealed file of it holds.
    pub unsealed_rows: u64,
    /// Whether its sealing was begun, and not finished.
    pub is_closed: bool,
    /// Its sealed file.
    pub sealed: Option<SealedGeneration>,
    /// Bytes of its files.
    pub bytes: u64,
    /// How long a daemon has watched since something was last written to it.
    pub watched: Duration,
    /// Whether it was made while the clock was behind, so that its name does not say how old its records are.
    pub is_behind: bool,
}

/// A sealed file of a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedGeneration {
    /// The generation that it is.
    pub generation: i64,
    /// By what it is known.
    pub seal: Seal,
}

/// What the configuration says of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRule {
    /// The configured name.
    pub name: TableName,
    /// Its `keep` and `period`.
    pub window: Window,
    /// What a day needs before it may go.
    pub archive: ArchiveRequirement,
    /// How long an archive is kept after the end of its day; none is for ever.
    pub keep_archives: Option<Duration>,
    /// The longer `keep` of an earlier configuration, if the catalog remembers one.
    pub shortened: Option<ShorterKeep>,
    /// Where days were archived until lately, and until when a drop asks for an archive there.
    pub archive_before: Option<(Arc<str>, Ticks)>,
    /// Until when no archive is removed, because they were kept longer until lately.
    pub archives_until: Option<Ticks>,
}

/// What a day needs before it may be dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ArchiveRequirement {
    /// Nothing.
    #[default]
    None,
    /// An archive at this place that was read back.
    At(Arc<str>),
}

/// A `keep` that was made shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShorterKeep {
    /// The `keep` before the change.
    pub keep_before: Duration,
    /// When the shorter one was first seen.
    pub since: Ticks,
}

/// What bounds one run, and the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifecycleLimits {
    /// Tables that one run drops at most.
    pub drops_per_run_max: NonZeroU16,
    /// How long what is configured to go earlier than before waits.
    pub grace: Duration,
    /// Days with records of each configured table that stay, however old.
    pub min_tables: u16,
    /// How long after its end a day waits for late records before it is sealed.
    pub seal_after: Duration,
    /// Bytes of the data folder above which the oldest days go.
    pub max_bytes: Option<u64>,
    /// Whether days that their table wants archived go without, when the folder has too many bytes.
    pub drop_unarchived: bool,
}

/// What an empty configuration says.
impl Default for LifecycleLimits {
    fn default() -> LifecycleLimits {
        LifecycleLimits {
            drops_per_run_max: NonZeroU16::MIN.saturating_add(99),
            grace: Duration::from_secs(86_400),
            min_tables: 1,
            seal_after: Duration::from_secs(6 * 3600),
            max_bytes: None,
            drop_unarchived: false,
        }
    }
}

/// All that a plan is made from.
#[derive(Clone, Debug)]
pub struct View {
    /// Every day-table there is or was.
    pub tables: Vec<TableState>,
    /// Archives that were read back.
    pub archives: Vec<Archived>,
    /// The configured tables.
    pub rules: Vec<TableRule>,
    /// What bounds a run.
    pub limits: LifecycleLimits,
    /// The time, and what it is held against.
    pub clock: Clock,
    /// Bytes of the data folder.
    pub bytes: u64,
    /// Since when `max_bytes` is what it is, or larger.
    pub pressure_since: Ticks,
    /// Tables that this run has dropped.
    pub dropped: u16,
}

/// What to do now, in order, and what is left although it has expired.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LifecyclePlan {
    /// Tables to create; then the next step of each day, the oldest first; then archives that go.
    pub steps: Vec<PlannedStep>,
    /// Tables that stay although they have expired, or that no rule covers, and why.
    pub held_back: Vec<HeldTable>,
}

/// A step, and why it is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedStep {
    /// What to do.
    pub step: LifecycleStep,
    /// Why.
    pub why: StepReason,
}

/// One step; each is the same taken twice.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LifecycleStep {
    /// Create a table that does not stand yet.
    Create(DayTable),
    /// Make one sealed file of all that a day has.
    Seal(DayTable),
    /// Copy the sealed file of a day, and read the copy back.
    Archive(DayTable, Arc<str>),
    /// Drop a table: with its permit.
    Drop(DayTable),
    /// Drop a table whether it is archived or not, because the configuration says so.
    DropUnarchived(DayTable),
    /// Remove this generation's archive from this place.
    RemoveArchive(DayTable, i64, Arc<str>),
}

impl LifecycleStep {
    /// The day it is about.
    pub fn table(&self) -> &DayTable {
        match self {
            LifecycleStep::Create(table)
            | LifecycleStep::Seal(table)
            | LifecycleStep::Drop(table)
            | LifecycleStep::DropUnarchived(table) => table,
            LifecycleStep::Archive(table, _) | LifecycleStep::RemoveArchive(table, ..) => table,
        }
    }

    /// The archive that it needs.
    pub fn place(&self) -> Option<&Arc<str>> {
        match self {
            LifecycleStep::Archive(_, place) | LifecycleStep::RemoveArchive(_, _, place) => Some(place),
            _ => None,
        }
    }

    /// A short name, for a metric's label.
    pub const fn name(&self) -> &'static str {
        match self {
            LifecycleStep::Create(_) => "create",
            LifecycleStep::Seal(_) => "seal",
            LifecycleStep::Archive(..) => "archive",
            LifecycleStep::Drop(_) => "drop",
            LifecycleStep::DropUnarchived(_) => "drop_unarchived",
            LifecycleStep::RemoveArchive(..) => "remove_archive",
        }
    }
}

impl TableState {
    /// Rows in it, items included.
    pub fn rows(&self) -> u64 {
        self.unsealed_rows + self.sealed.as_ref().map_or(0, |sealed| sealed.seal.rows)
    }

    /// Whether it stands.
    pub fn stands(&self) -> bool {
        self.state != DayState::Dropped
    }
}

impl View {
    /// The configured table that `table` is a day of.
    pub fn rule_of(&self, table: &DayTable) -> Option<&TableRule> {
        self.rules.iter().find(|rule| rule.name == *table.table())
    }

    /// Where `state` is in its life: `open`, `sealed`, `archived`, `restored` or `dropped`.
    pub fn state_name(&self, state: &TableState) -> &'static str {
        match &state.state {
            DayState::Dropped => "dropped",
            DayState::Restored { .. } => "restored",
            DayState::Open if state.sealed.is_none() => "open",
            DayState::Open if self.is_proven(state, None) => "archived",
            DayState::Open => "sealed",
        }
    }

    /// Tables that stand, by where they are in their lives.
    pub fn count_states(&self) -> [(&'static str, usize); 4] {
        ["open", "sealed", "archived", "restored"].map(|name| {
            let is_one = |state: &&TableState| state.stands() && self.state_name(state) == name;
            (name, self.tables.iter().filter(is_one).count())
        })
    }

    /// Whether all that `state` holds is in an archive that was read back, at `place` or anywhere.
    pub fn is_proven(&self, state: &TableState, place: Option<&str>) -> bool {
        let Some(sealed) = state.sealed.as_ref().filter(|_| state.unsealed_rows == 0) else {
            return state.rows() == 0;
        };
        let origin = match &state.state {
            DayState::Restored { origin, .. } => origin,
            _ => &state.table,
        };
        let Seal { bytes, sha256, rows, .. } = &sealed.seal;
        self.archives.iter().any(|archived| {
            let found = &archived.seal;
            archived.table == *origin
                && place.is_none_or(|place| place == archived.url)
                && (found.bytes, &found.sha256, found.rows) == (*bytes, sha256, *rows)
        })
    }
}

/// What to do now. Pure; see the module's head for what it promises.
pub fn plan(view: &View) -> LifecyclePlan {
    let mut plan = LifecyclePlan::default();
    let known: BTreeSet<&DayTable> = view.tables.iter().map(|state| &state.table).collect();
    for rule in &view.rules {
        let wanted = ahead(rule, view.clock.now).into_iter().filter(|table| !known.contains(table));
        plan.steps
            .extend(wanted.map(|table| PlannedStep { step: LifecycleStep::Create(table), why: StepReason::Ahead }));
    }
    let dropped: BTreeSet<&DayTable> =
        view.tables.iter().filter(|state| !state.stands()).map(|state| &state.table).collect();
    let mut standing: Vec<&TableState> =
        view.tables.iter().filter(|state| state.stands() && !dropped.contains(&state.table)).collect();
    standing.sort_by(|a, b| (a.table.end(), &a.table).cmp(&(b.table.end(), &b.table)));
    standing.dedup_by_key(|state| &state.table);
    let counted = standing.iter().filter_map(|state| day::counted(state));
    let mut drops = DropBudget::new(&view.limits, view.dropped, counted);
    for state in &standing {
        let day::Outlook { next, stays } = day::decide(view, state, &mut drops);
        plan.steps.extend(next);
        plan.held_back.extend(stays.map(|reason| HeldTable { table: state.table.clone(), reason }));
    }
    pressure::relieve(view, &standing, &mut drops, &mut plan);
    archives::remove(view, &standing, &mut plan);
    plan
}

/// Today's table and tomorrow's; only today's on the last day of the calendar.
fn ahead(rule: &TableRule, now: Ticks) -> Vec<DayTable> {
    let today = DayTable::at(&rule.name, rule.window.period, now);
    let tomorrow = DayTable::at(&rule.name, rule.window.period, today.end());
    if tomorrow == today { vec![today] } else { vec![today, tomorrow] }
}

#[cfg(test)]
mod tests;
