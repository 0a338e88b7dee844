//! Who reads a source: one reader at a time, so that its rows and positions follow each other.

use daytable_model::source_id::SourceId;
use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

/// The sources that are being read.
#[derive(Clone, Debug, Default)]
pub(crate) struct SourceClaims(Arc<ClaimTable>);

#[derive(Debug, Default)]
struct ClaimTable {
    readers: AtomicU64,
    /// The reader that has a source, and how many claims of it.
    claimed: Mutex<HashMap<SourceId, (u64, usize)>>,
}

/// Whoever reads sources.
#[derive(Debug)]
pub struct SourceReader {
    claims: SourceClaims,
    number: u64,
}

/// The right of a reader to read a source. Who submits rows or a position of it keeps one until their commit is known: so who gets
/// the source next finds its last position committed.
#[derive(Debug)]
pub struct SourceClaim {
    claims: SourceClaims,
    identity: SourceId,
}

impl SourceClaims {
    /// Another reader.
    pub(crate) fn reader(&self) -> SourceReader {
        let number = self.0.readers.fetch_add(1, Ordering::Relaxed);
        SourceReader { claims: self.clone(), number }
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<SourceId, (u64, usize)>> {
        // A panic leaves no half-made table.
        self.0.claimed.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }
}

impl SourceReader {
    /// The right to read a source, also where this reader has it; none while another one has it.
    pub fn claim(&self, identity: SourceId) -> Option<SourceClaim> {
        let mut claimed = self.claims.lock();
        let (reader, claims) = claimed.entry(identity).or_insert((self.number, 0));
        if *reader != self.number {
            return None;
        }
        *claims += 1;
        Some(SourceClaim { claims: self.claims.clone(), identity })
    }
}

impl Drop for SourceClaim {
    fn drop(&mut self) {
        let mut claimed = self.claims.lock();
        if let Some((_, claims)) = claimed.get_mut(&self.identity) {
            *claims -= 1;
            if *claims == 0 {
                claimed.remove(&self.identity);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_has_one_reader() {
        let claims = SourceClaims::default();
        let (one, other) = (claims.reader(), claims.reader());
        let first = one.claim(7.into()).expect("free");
        let submitted = one.claim(7.into()).expect("its own");
        assert!(other.claim(7.into()).is_none());
        assert!(other.claim(8.into()).is_some());
        drop(first);
        assert!(other.claim(7.into()).is_none(), "its commit is not known");
        drop(submitted);
        assert!(other.claim(7.into()).is_some());
    }
}
