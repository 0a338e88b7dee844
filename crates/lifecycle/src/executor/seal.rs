//! Seals a day: writes all rows into one file.

use super::{Executor, OnStepProgress, StepBytes, StepError, seal_of};
use daytable_model::key::DayTable;
use daytable_model::time;
use daytable_store::catalog::Seal;
use daytable_store::sealed;
use daytable_store::{SealTarget, StoreError};

impl Executor {
    /// Writes one sealed file with all rows of `table`. Rows that arrive meanwhile go into the next generation.
    pub(super) fn seal(&self, table: &DayTable, on: &mut OnStepProgress<'_>) -> Result<(), StepError> {
        let _one = self.alone()?;
        let sealing = self.steps.begin_seal(table)?;
        let ended = self.write(&sealing, on).and_then(|seal| Ok((self.steps.end_seal(&sealing, &seal)?, seal)));
        match ended {
            Ok(((), seal)) => {
                let generation = sealing.generation;
                tracing::info!(%table, generation, rows = seal.rows, bytes = seal.bytes, "sealed");
                Ok(())
            }
            Err(error) => {
                if let Err(error) = self.steps.abandon(&sealing.output) {
                    tracing::warn!(%table, %error, "failed to remove what was written of a sealed file");
                }
                Err(error)
            }
        }
    }

    /// Writes the sealed file and compares it with its source.
    fn write(&self, sealing: &SealTarget, on: &mut OnStepProgress<'_>) -> Result<Seal, StepError> {
        let what = sealing.to_write(self.steps.committed()?);
        let mut reporter = self.reporter(&sealing.table, on);
        let manifest = sealed::seal(&what, &mut |progress| reporter.report(progress));
        drop(reporter);
        let manifest = match manifest {
            Err(StoreError::Closed) if self.is_stopped() => return Err(StepError::Stopped),
            manifest => manifest?,
        };
        StepBytes::add(&self.progress.bytes.sealed, manifest.bytes);
        Ok(seal_of(&manifest, time::now()))
    }
}
