//! The books: what came in is what stands and what went.

use super::Run;
use crate::store::catalogue::Catalogue;

impl Run<'_> {
    pub(super) fn books(&mut self, _catalogue: &Catalogue) {}
}
