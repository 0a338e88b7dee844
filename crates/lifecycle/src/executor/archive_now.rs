//! Seals and archives a day on request.

use super::seal::SealedSize;
use super::{Executor, OnStepProgress, StepError};
use daytable_model::key::DayTable;
use daytable_store::StoreError;
use daytable_store::catalog::{DayState, FileRole};
use serde::{Deserialize, Serialize};

/// The day after an archive request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ArchiveOutcome {
    /// The day-table.
    pub table: String,
    /// Rows in the sealed file.
    pub rows: u64,
    /// Bytes of the sealed file.
    pub bytes: u64,
    /// Place of the archive, or `None` if the table requires no archive.
    pub archive: Option<String>,
}

impl Executor {
    /// Seals the rows of `table` and archives the sealed file at `place`. Completed work is not repeated.
    ///
    /// # Errors
    ///
    /// The error of the failed step. Earlier steps remain done.
    pub fn archive_now(
        &self,
        table: &DayTable,
        place: Option<&str>,
        on: &mut OnStepProgress<'_>,
    ) -> Result<ArchiveOutcome, StepError> {
        let state = self.steps.lifecycle_state()?;
        let day = state.days.iter().find(|day| day.table == *table && !day.files.is_empty());
        let day = day.ok_or_else(|| StoreError::TableGone(table.to_string()))?;
        if matches!(day.state, DayState::Restored { .. }) {
            return Err(StoreError::Refused(format!("{table} was restored from an archive")).into());
        }
        if day.files.iter().any(|file| file.role != FileRole::Sealed && file.entities > 0) {
            self.seal(table, SealedSize::Any, on)?;
        }
        let (_, seal) = self.sealed_file(table)?;
        if let Some(place) = place {
            self.archive(table, place, on)?;
        }
        Ok(ArchiveOutcome {
            table: table.to_string(),
            rows: seal.rows,
            bytes: seal.bytes,
            archive: place.map(str::to_owned),
        })
    }
}
