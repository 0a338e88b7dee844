//! Who reads a source: one reader at a time, so that its rows and positions follow each other.

use daytable_model::source_id::SourceId;
use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};

/// The sources that are being read.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceClaims(Arc<Mutex<HashSet<SourceId>>>);

/// The right to read a source and to submit its rows and positions. Dropping it gives it back.
#[derive(Debug)]
pub struct SourceClaim {
    claims: SourceClaims,
    identity: SourceId,
}

impl SourceClaims {
    /// The right to read a source; none while somebody else has it.
    pub(crate) fn claim(&self, identity: SourceId) -> Option<SourceClaim> {
        self.lock().insert(identity).then(|| SourceClaim { claims: self.clone(), identity })
    }

    fn lock(&self) -> MutexGuard<'_, HashSet<SourceId>> {
        // A panic leaves no half-made set.
        self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl SourceClaim {
    /// The source.
    pub fn identity(&self) -> SourceId {
        self.identity
    }
}

impl Drop for SourceClaim {
    fn drop(&mut self) {
        self.claims.lock().remove(&self.identity);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_has_one_reader() {
        let claims = SourceClaims::default();
        let first = claims.claim(7.into()).expect("free");
        assert!(claims.claim(7.into()).is_none());
        assert!(claims.claim(8.into()).is_some());
        drop(first);
        assert!(claims.claim(7.into()).is_some());
    }
}
