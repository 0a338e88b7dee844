//! The state of all rules as the bytes of `alerts.json`.

use crate::board::Alert;
use crate::state::RuleState;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

const FORMAT: u32 = 1;

/// What the next start goes on with.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct SavedAlerts {
    format: u32,
    /// The number of the last commit that was seen.
    pub(crate) commit: i64,
    /// Ticks of the last pass.
    pub(crate) at: i64,
    pub(crate) rules: BTreeMap<String, RuleState>,
    /// Alerts without a rule that last.
    #[serde(default)]
    pub(crate) standing: Vec<Alert>,
    /// Alerts whose end a receiver may not know.
    pub(crate) ended: Vec<Alert>,
}

impl SavedAlerts {
    pub(crate) fn new(commit: i64) -> SavedAlerts {
        SavedAlerts { format: FORMAT, commit, ..SavedAlerts::default() }
    }

    pub(crate) fn parse(bytes: &[u8]) -> Result<SavedAlerts, String> {
        match serde_json::from_slice::<SavedAlerts>(bytes) {
            Ok(saved) if saved.format == FORMAT => Ok(saved),
            Ok(saved) => Err(format!("it has the format {}, and this daytable reads {FORMAT}", saved.format)),
            Err(error) => Err(error.to_string()),
        }
    }

    pub(crate) fn bytes(&self) -> Vec<u8> {
        serde_json::to_vec(self).unwrap_or_default()
    }
}
