//! The JSON form of a plan, shared by the command line and the daemon.

use super::plan::LifecyclePlan;
use serde::{Deserialize, Serialize};

/// A step of the next run, or a day that stays.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlanLine {
    /// `create`, `seal`, `archive`, `drop`, `remove_archive`, or `stay`.
    pub step: String,
    /// The day-table.
    pub table: String,
    /// Target or source archive.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub archive: Option<String>,
    /// The reason.
    pub why: String,
}

impl LifecyclePlan {
    /// One line per step, then one line per day that stays.
    pub fn lines(&self) -> Vec<PlanLine> {
        let steps = self.steps.iter().map(|planned| PlanLine {
            step: planned.step.name().into(),
            table: planned.step.table().to_string(),
            archive: planned.step.place().map(|place| place.to_string()),
            why: planned.why.to_string(),
        });
        let stays = self.held_back.iter().map(|held| PlanLine {
            step: "stay".into(),
            table: held.table.to_string(),
            archive: None,
            why: held.reason.to_string(),
        });
        steps.chain(stays).collect()
    }
}
