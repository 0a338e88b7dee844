//! The files that were read, where they still are: position, length, the bytes before the position.

use super::Run;
use crate::store::Reader;

impl Run<'_> {
    pub(super) fn sources(&mut self, reader: &Reader) {
        self.report.verdict.sources = reader.sources().map_or(0, |sources| sources.len() as u64);
    }
}
