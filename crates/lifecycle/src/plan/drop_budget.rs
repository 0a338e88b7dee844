//! How many tables a run may still drop, and how many days of each configured table always stay.

use super::LifecycleLimits;
use crate::reason::HoldReason;
use daytable_model::key::TableName;
use std::collections::BTreeMap;
use std::num::NonZeroU16;

/// The remaining drops of a run.
#[derive(Debug)]
pub struct DropBudget {
    left: u16,
    drops_per_run_max: NonZeroU16,
    min_tables: u16,
    /// Existing days with records, by configured table. Restored days are copies and do not count.
    standing: BTreeMap<TableName, u16>,
}

impl DropBudget {
    /// The budget of a run that has dropped `dropped` tables. `standing` gives the configured table of each day with
    /// records.
    pub fn new<'n>(
        limits: &LifecycleLimits,
        dropped: u16,
        standing: impl Iterator<Item = &'n TableName>,
    ) -> DropBudget {
        let mut days: BTreeMap<TableName, u16> = BTreeMap::new();
        for name in standing {
            let count = days.entry(name.clone()).or_default();
            *count = count.saturating_add(1);
        }
        let LifecycleLimits { drops_per_run_max, min_tables, .. } = *limits;
        DropBudget {
            left: drops_per_run_max.get().saturating_sub(dropped),
            drops_per_run_max,
            min_tables,
            standing: days,
        }
    }

    /// Charges one drop of a day. `counted` is the configured table it counts for, if any.
    ///
    /// # Errors
    ///
    /// The reason why this run may not drop the day.
    pub fn charge(&mut self, counted: Option<&TableName>) -> Result<(), HoldReason> {
        let standing = counted.and_then(|name| self.standing.get_mut(name));
        if standing.as_ref().is_some_and(|standing| **standing <= self.min_tables) {
            return Err(HoldReason::Floor(self.min_tables));
        }
        if self.left == 0 {
            return Err(HoldReason::OverLimit(self.drops_per_run_max));
        }
        self.left -= 1;
        if let Some(standing) = standing {
            *standing -= 1;
        }
        Ok(())
    }
}
