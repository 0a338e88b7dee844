//! Archives: there, with the right length, and by request to their last byte.

use super::Run;
use crate::store::catalogue::Catalogue;

impl Run<'_> {
    pub(super) fn archives(&mut self, catalogue: &Catalogue) {
        self.report.verdict.archives = catalogue.archives().map_or(0, |archives| archives.len() as u64);
    }
}
