//! What the lifecycle's plan needs of the catalog, read in one step.

use crate::StoreError;
use crate::format::catalog::{Archived, Catalog, Day, DayState, FileRole, InterruptedStep, Rule, WatchedTime};
use daytable_model::key::DayTable;
use daytable_model::time::Ticks;

/// The part of the catalog that the lifecycle's plan needs.
#[derive(Clone, Debug, Default)]
pub struct LifecycleState {
    /// Every day-table, past ones included, the oldest first.
    pub days: Vec<Day>,
    /// Archives that were read back.
    pub archives: Vec<Archived>,
    /// The newest time in the text of a record.
    pub newest: Option<Ticks>,
    /// How long the folder was watched, by a monotonic clock.
    pub watch: WatchedTime,
    /// The rules of the last daemon.
    pub rules: Vec<Rule>,
    /// The size limit of the folder, as the last daemon knew it, and since when it applies.
    pub pressure: Option<(u64, Ticks)>,
    /// When the lifecycle last finished a run.
    pub last_run: Option<Ticks>,
    /// Steps that kills interrupted, and that did not end since.
    pub interrupted: Vec<InterruptedStep>,
    /// The last commit that all receivers of [`crate::forward`] have; none without receivers.
    pub forwarded: Option<i64>,
}

impl LifecycleState {
    /// Whether the day-table exists here.
    pub fn has_day(&self, table: &DayTable) -> bool {
        self.days.iter().any(|day| day.table == *table && day.state != DayState::Dropped)
    }

    /// Whether nothing but archives is left of a day.
    pub fn has_archives_alone(&self, table: &DayTable) -> bool {
        !self.has_day(table) && self.archives.iter().any(|archived| archived.table == *table)
    }

    /// Reads the state from `catalog`.
    pub fn of(catalog: &Catalog) -> Result<LifecycleState, StoreError> {
        // The lifecycle of rows in an outbox is that of the remote store.
        let mut days = catalog.days()?;
        let lives_here =
            |day: &Day| day.state != DayState::Open || day.files.iter().any(|file| file.role != FileRole::Outbox);
        days.retain(lives_here);
        Ok(LifecycleState {
            days,
            archives: catalog.archives()?,
            newest: catalog.newest()?,
            watch: catalog.watch()?,
            rules: catalog.rules()?,
            pressure: catalog.pressure()?,
            last_run: catalog.last_run()?,
            interrupted: catalog.interrupted_steps()?,
            forwarded: catalog.forwarded()?,
        })
    }
}
