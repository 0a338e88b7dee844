//! Seals a day: writes all rows into one file.

use super::{Executor, OnStepProgress, StepBytes, StepError, address, seal_of};
use crate::plan::SEAL;
use daytable_archive::ArchiveUrl;
use daytable_model::key::DayTable;
use daytable_model::time;
use daytable_store::catalog::Seal;
use daytable_store::sealed::{self, SealJob, SealedDay};
use daytable_store::{SealTarget, StoreError};

/// Which sealed files replace the pages of their day.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SealedSize {
    /// Every sealed file.
    Any,
    /// Every sealed file, also if the day is sealed already: its columns get other names.
    Renamed,
    /// Only a file that is not larger than the pages. A table that requires an archive takes any, as an archive is a sealed file.
    Smaller,
}

/// A sealed file that is complete and not yet live.
struct Written {
    seal: Seal,
    /// The bytes of the file and of its manifest.
    sealed_bytes: u64,
    /// The copies in the pages that it does not have.
    copies: u64,
}

impl Executor {
    /// Writes one sealed file with all rows of `table`. Rows that arrive meanwhile go into the next generation.
    pub(super) fn seal(
        &self,
        table: &DayTable,
        size: SealedSize,
        on: &mut OnStepProgress<'_>,
    ) -> Result<(), StepError> {
        let _one = self.alone()?;
        self.attempt(table, SEAL, || self.write_sealed(table, size, None, on))
    }

    /// Writes it, with the names of columns that the archives at `place` have, or else those at the place that the table's rule
    /// names.
    pub(super) fn write_sealed(
        &self,
        table: &DayTable,
        size: SealedSize,
        place: Option<&ArchiveUrl>,
        on: &mut OnStepProgress<'_>,
    ) -> Result<(), StepError> {
        let sealing = match size {
            SealedSize::Renamed => self.steps.begin_seal_again(table)?,
            SealedSize::Any | SealedSize::Smaller => self.steps.begin_seal(table)?,
        };
        let place = place.cloned().or(self.place_of(table)?);
        let written = self.write(&sealing, place.as_ref(), on).and_then(|Written { seal, sealed_bytes, copies }| {
            let bytes = sealing.input_bytes();
            // Pages with copies do not stay.
            let may_stay = size == SealedSize::Smaller && copies == 0;
            if may_stay && sealed_bytes > bytes && !self.requires_archive(table)? {
                self.steps.keep_open(&sealing)?;
                tracing::info!(%table, bytes, sealed_bytes, "left in its pages: sealed it would take more bytes");
                return Ok(None);
            }
            self.steps.end_seal(&sealing, &seal)?;
            Ok(Some(seal))
        });
        match written {
            Ok(None) => Ok(()),
            Ok(Some(seal)) => {
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

    fn requires_archive(&self, table: &DayTable) -> Result<bool, StepError> {
        Ok(self.archive_of_rule(table)?.is_some())
    }

    /// Where the table's rule has its archives.
    fn archive_of_rule(&self, table: &DayTable) -> Result<Option<String>, StepError> {
        let mut rules = self.steps.lifecycle_state()?.rules.into_iter();
        Ok(rules.find(|rule| rule.name == table.table().as_str()).and_then(|rule| rule.archive))
    }

    fn place_of(&self, table: &DayTable) -> Result<Option<ArchiveUrl>, StepError> {
        self.archive_of_rule(table)?.map(|place| address(&place)).transpose()
    }

    /// Writes the sealed file and compares it with its source.
    fn write(
        &self,
        sealing: &SealTarget,
        place: Option<&ArchiveUrl>,
        on: &mut OnStepProgress<'_>,
    ) -> Result<Written, StepError> {
        let names = place.map(|place| self.names_of(sealing.table.table(), place)).unwrap_or_default();
        let what = SealJob { names, ..sealing.to_write(self.steps.committed()?) };
        let mut reporter = self.reporter(&sealing.table, on);
        let sealed = sealed::seal(&what, &mut |progress| reporter.report(progress));
        drop(reporter);
        let SealedDay { manifest, copies } = match sealed {
            Err(StoreError::Closed) if self.is_stopped() => return Err(StepError::Stopped),
            sealed => sealed?,
        };
        StepBytes::add(&self.progress.bytes.sealed, manifest.bytes);
        let sealed_bytes = manifest.bytes + manifest.to_json().len() as u64;
        Ok(Written { seal: seal_of(&manifest, time::now()), sealed_bytes, copies })
    }
}
