//! Plans the next steps from the day-tables, their archives, the configured rules and the time.
//!
//! ```text
//! open ──► sealed ──► archived ──► dropped        a day whose table requires an archive
//!   │         └──────────────────────▲  ▲         a day whose table requires no archive
//!   └────────────────────────────────┘  │         a day without rows
//! restored ─────────────────────────────┘
//! ```
//!
//! A plan has at most one step per day; the next plan has the following step. After a failure or a kill, the next plan
//! continues from the state of the day. [`forecast`] lists all steps of a run.
//!
//! A drop requires all of these conditions. The day belongs to a configured table and has its period. Its window is
//! over. The [clock](super::clock) is trusted. No retained rule keeps the day. Where the table requires an archive, an
//! archive of all its rows was verified. Enough other days of the table stay. The run is within its limit of drops.
//! Each failed condition is a [`HoldReason`] in the plan, which explains why a day stays.
//!
//! A seal or an archive that kills interrupted twice is left for a day ([`InterruptedStep`]): it may be what ended the
//! daemon. A command takes the step at once.
//!
//! Under pressure (the days have more than `max_bytes`, or those of a table more than its own) days are dropped early, the
//! oldest first, of the table that is furthest over its share. All conditions but the window apply, and the period of the
//! day must be over.

use super::clock::Clock;
use super::reason::{HeldTable, HoldReason, StepReason};
use daytable_model::key::{DayTable, TableName};
use daytable_model::time::Ticks;
use daytable_model::window::Window;
use daytable_store::catalog::{Archived, DayState, InterruptedStep, Seal};
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
pub use pressure::{TodayExceeds, today_exceeds};

/// The name of the step that seals a day.
pub const SEAL: &str = "seal";
/// The name of the step that archives a day.
pub const ARCHIVE: &str = "archive";
/// Interruptions after which a step is left.
const INTERRUPTIONS_MAX: u32 = 2;
/// How long a step is left after it began the last time.
const LEFT_FOR: Duration = Duration::from_secs(86_400);

/// A day-table in the catalog.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableState {
    /// The day-table.
    pub table: DayTable,
    /// Its state.
    pub state: DayState,
    /// Rows that are in no sealed file.
    pub unsealed_rows: u64,
    /// Of these, rows that are left unsealed because Parquet would be larger. A required archive seals them anyway.
    pub kept_rows: u64,
    /// Whether a seal was begun and not completed.
    pub is_closed: bool,
    /// Its sealed file.
    pub sealed: Option<SealedGeneration>,
    /// Bytes of its files, without journals.
    pub bytes: u64,
    /// How long a daemon has watched the day since the last write.
    pub watched: Duration,
    /// Whether the table was created while the clock was behind. Its name then does not tell the age of its records.
    pub is_behind: bool,
    /// Whether a receiver lacks rows of the day. Then it is neither sealed nor dropped, but for its bytes.
    pub is_unforwarded: bool,
    /// Until when an import of expired records keeps the day.
    pub kept_until: Option<Ticks>,
    /// Its steps that kills interrupted.
    pub interrupted: Vec<InterruptedStep>,
}

/// A sealed file of a day.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedGeneration {
    /// Generation number.
    pub generation: i64,
    /// The seal that identifies the file.
    pub seal: Seal,
}

/// The rule of one configured table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRule {
    /// The configured name.
    pub name: TableName,
    /// Its `keep` and `period`.
    pub window: Window,
    /// The archive that a drop requires.
    pub archive: ArchiveRequirement,
    /// How long an archive is retained after the end of its day. `None`: without limit.
    pub keep_archives: Option<Duration>,
    /// The longer `keep` of an earlier configuration, if retained.
    pub shortened: Option<ShorterKeep>,
    /// The place of an archive that an earlier configuration required, and the time until which a drop requires it.
    pub archive_before: Option<(Arc<str>, Ticks)>,
    /// The time until which no archive is removed, after `keep_archives` was shortened.
    pub archives_until: Option<Ticks>,
    /// Bytes of the table's days above which its oldest days are dropped.
    pub max_bytes: Option<u64>,
    /// The time since which `max_bytes` is this value or larger, once the catalog knows it.
    pub max_bytes_since: Option<Ticks>,
}

/// The archive that a drop requires.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ArchiveRequirement {
    /// No archive.
    #[default]
    None,
    /// A verified archive at this place.
    At(Arc<str>),
}

/// A `keep` that was shortened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShorterKeep {
    /// The `keep` before the change.
    pub keep_before: Duration,
    /// When the shorter `keep` was first seen.
    pub since: Ticks,
}

/// Limits of one run and of the folder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LifecycleLimits {
    /// Maximum drops of one run.
    pub drops_per_run_max: NonZeroU16,
    /// Delay before a shorter retention takes effect.
    pub grace: Duration,
    /// Days with records of each configured table that always stay.
    pub min_tables: u16,
    /// How long after its end a day waits for late records before it is sealed.
    pub seal_after: Duration,
    /// Bytes of the days above which the oldest days go.
    pub max_bytes: Option<u64>,
    /// Whether pressure may drop days that require an archive and have none.
    pub drop_unarchived: bool,
}

/// The limits of an empty configuration.
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

/// The input of a plan.
#[derive(Clone, Debug)]
pub struct View {
    /// All existing and former day-tables.
    pub tables: Vec<TableState>,
    /// Verified archives.
    pub archives: Vec<Archived>,
    /// The configured tables.
    pub rules: Vec<TableRule>,
    /// The limits.
    pub limits: LifecycleLimits,
    /// The time and its evidence.
    pub clock: Clock,
    /// Bytes of the days and of the catalog, which `max_bytes` bounds.
    pub bytes: u64,
    /// Bytes of the journals of open days. They are bounded by themselves, and no drop makes them shorter.
    pub journal_bytes: u64,
    /// Bytes of files that are being written, or are not data.
    pub other_bytes: u64,
    /// The time since which `max_bytes` is this value or larger.
    pub pressure_since: Ticks,
    /// Tables that this run has already dropped.
    pub dropped: u16,
}

/// The steps to take, in order, and the expired days that stay.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LifecyclePlan {
    /// First the tables to create, then the next step of each day (oldest first), then the archives to remove.
    pub steps: Vec<PlannedStep>,
    /// Tables that stay although expired or without a rule, and why.
    pub held_back: Vec<HeldTable>,
}

/// A step and its reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PlannedStep {
    /// The step.
    pub step: LifecycleStep,
    /// The reason.
    pub why: StepReason,
}

/// One step. Every step is idempotent.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum LifecycleStep {
    /// Create a missing table.
    Create(DayTable),
    /// Write one sealed file with all rows of a day.
    Seal(DayTable),
    /// Copy the sealed file of a day, and read the copy back.
    Archive(DayTable, Arc<str>),
    /// Drop a table, with its permit.
    Drop(DayTable),
    /// Drop a table with or without an archive, because the configuration allows it.
    DropUnarchived(DayTable),
    /// Remove the archive of this generation from this place.
    RemoveArchive(DayTable, i64, Arc<str>),
}

impl LifecycleStep {
    /// The names of all steps.
    pub const NAMES: [&str; 6] = ["create", SEAL, ARCHIVE, "drop", "drop_unarchived", "remove_archive"];

    /// The day of the step.
    pub fn table(&self) -> &DayTable {
        match self {
            LifecycleStep::Create(table)
            | LifecycleStep::Seal(table)
            | LifecycleStep::Drop(table)
            | LifecycleStep::DropUnarchived(table) => table,
            LifecycleStep::Archive(table, _) | LifecycleStep::RemoveArchive(table, ..) => table,
        }
    }

    /// The archive that the step accesses.
    pub fn place(&self) -> Option<&Arc<str>> {
        match self {
            LifecycleStep::Archive(_, place) | LifecycleStep::RemoveArchive(_, _, place) => Some(place),
            _ => None,
        }
    }

    /// A short name for the label of a metric.
    pub const fn name(&self) -> &'static str {
        match self {
            LifecycleStep::Create(_) => "create",
            LifecycleStep::Seal(_) => SEAL,
            LifecycleStep::Archive(..) => ARCHIVE,
            LifecycleStep::Drop(_) => "drop",
            LifecycleStep::DropUnarchived(_) => "drop_unarchived",
            LifecycleStep::RemoveArchive(..) => "remove_archive",
        }
    }
}

impl TableState {
    /// Rows in the table, outbox items included.
    pub fn rows(&self) -> u64 {
        self.unsealed_rows + self.sealed.as_ref().map_or(0, |sealed| sealed.seal.rows)
    }

    /// Whether the day was sealed and stays in its pages, because they are smaller, and nothing came since.
    pub fn stays_in_pages(&self, rule: &TableRule) -> bool {
        rule.archive == ArchiveRequirement::None && self.kept_rows > 0 && self.kept_rows == self.unsealed_rows
    }

    /// Why a step is left although it is due; `None` if it is taken.
    fn leaves(&self, step: &'static str, now: Ticks) -> Option<HoldReason> {
        let of = self.interrupted.iter().find(|of| of.step == step && of.times >= INTERRUPTIONS_MAX)?;
        // A step that began in the future began by a wrong clock.
        let until = of.began.plus(LEFT_FOR);
        (of.began <= now && now < until).then_some(HoldReason::Interrupted { step, times: of.times, until })
    }

    /// Whether the table exists.
    pub fn exists(&self) -> bool {
        self.state != DayState::Dropped
    }
}

impl TableRule {
    /// When a day of the table expires: its end plus `keep`, or when an import of expired records no longer keeps the day.
    pub fn expires(&self, state: &TableState) -> Option<Ticks> {
        let expires = self.window.expires(&state.table)?;
        Some(state.kept_until.map_or(expires, |until| until.max(expires)))
    }
}

impl View {
    /// The configured rule for `table`.
    pub fn rule_of(&self, table: &DayTable) -> Option<&TableRule> {
        self.rule_named(table.table())
    }

    /// The configured rule of the tables with this name.
    pub(crate) fn rule_named(&self, name: &TableName) -> Option<&TableRule> {
        self.rules.iter().find(|rule| rule.name == *name)
    }

    /// The lifecycle state of `state`: `open`, `sealed`, `archived`, `restored` or `dropped`.
    pub fn state_name(&self, state: &TableState) -> &'static str {
        match &state.state {
            DayState::Dropped => "dropped",
            DayState::Restored { .. } => "restored",
            DayState::Open if state.sealed.is_none() => "open",
            DayState::Open if self.is_proven(state, None) => "archived",
            DayState::Open => "sealed",
        }
    }

    /// Existing tables by lifecycle state.
    pub fn count_states(&self) -> [(&'static str, usize); 4] {
        ["open", "sealed", "archived", "restored"].map(|name| {
            let is_one = |state: &&TableState| state.exists() && self.state_name(state) == name;
            (name, self.tables.iter().filter(is_one).count())
        })
    }

    /// Whether a verified archive at `place` (or anywhere, if `None`) has all rows of `state`.
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

/// Plans the next steps. A pure function; the module head lists its guarantees.
pub fn plan(view: &View) -> LifecyclePlan {
    let mut plan = LifecyclePlan::default();
    let known: BTreeSet<&DayTable> = view.tables.iter().map(|state| &state.table).collect();
    for rule in &view.rules {
        let wanted = ahead(rule, view.clock.now).into_iter().filter(|table| !known.contains(table));
        plan.steps
            .extend(wanted.map(|table| PlannedStep { step: LifecycleStep::Create(table), why: StepReason::Ahead }));
    }
    let dropped: BTreeSet<&DayTable> =
        view.tables.iter().filter(|state| !state.exists()).map(|state| &state.table).collect();
    let mut standing: Vec<&TableState> =
        view.tables.iter().filter(|state| state.exists() && !dropped.contains(&state.table)).collect();
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
    leave_interrupted(view, &standing, &mut plan);
    plan
}

/// Leaves out the steps that were interrupted again and again, and names their days.
fn leave_interrupted(view: &View, standing: &[&TableState], plan: &mut LifecyclePlan) {
    for state in standing.iter().filter(|state| !state.interrupted.is_empty()) {
        let is_of_day = |planned: &PlannedStep| planned.step.table() == &state.table;
        let leaves = |planned: &PlannedStep| state.leaves(planned.step.name(), view.clock.now);
        let Some(reason) = plan.steps.iter().filter(|planned| is_of_day(planned)).find_map(leaves) else { continue };
        plan.steps.retain(|planned| !is_of_day(planned) || leaves(planned).is_none());
        plan.held_back.retain(|held| held.table != state.table);
        plan.held_back.push(HeldTable { table: state.table.clone(), reason });
    }
}

/// The tables of today and tomorrow; on the last day of the calendar only today's.
fn ahead(rule: &TableRule, now: Ticks) -> Vec<DayTable> {
    let today = DayTable::at(&rule.name, rule.window.period, now);
    let tomorrow = DayTable::at(&rule.name, rule.window.period, today.end());
    if tomorrow == today { vec![today] } else { vec![today, tomorrow] }
}

#[cfg(test)]
mod tests;
