//! The keys of records that a host sent here: the name of the host is part of them.
//!
//! A key says of what source a record is, and its host says so. So two hosts may have one key: clones of one image, or a host that
//! names the source of another. Here a source gets another hash:
//!
//! ```text
//! hash' = the first 64 bits of SHA-256(SHA-256(name) | head | hash)       head: the start, and 16 bits of the host; they stay
//! ```
//!
//! So records of one host keep their order but for sources that began within the same 10 µs, are one record if they are sent again, and
//! never have the key of another host's. Who wants a key of another one needs a source with a given hash, some 2^64 attempts.

use crate::key::RowKey;
use crate::source_id::SourceId;
use sha2::{Digest, Sha256};
use std::collections::HashMap;

/// Sources whose hashes are kept.
const SOURCES_KEPT: usize = 4096;

/// Makes the keys of one host.
#[derive(Clone, Debug)]
pub struct SenderKeys {
    name: [u8; 32],
    last: Option<(SourceId, SourceId)>,
    known: HashMap<SourceId, SourceId>,
}

impl SenderKeys {
    /// Those of the host with this name.
    pub fn of(name: &str) -> SenderKeys {
        SenderKeys { name: Sha256::digest(name.as_bytes()).into(), last: None, known: HashMap::new() }
    }

    /// The key here of a record that has `key` at the host.
    pub fn key(&mut self, key: RowKey) -> RowKey {
        key.with_source(self.source(key.source()))
    }

    fn source(&mut self, source: SourceId) -> SourceId {
        if let Some((of, here)) = self.last
            && of == source
        {
            return here;
        }
        if self.known.len() >= SOURCES_KEPT {
            self.known.clear();
        }
        let name = &self.name;
        let here = *self.known.entry(source).or_insert_with(|| {
            let digest = Sha256::new().chain_update(name).chain_update(source.to_bytes()).finalize();
            let hash = digest[..8].iter().fold(0, |hash, &byte| hash << 8 | u64::from(byte));
            SourceId::from_parts(source.head(), hash)
        });
        self.last = Some((source, here));
        here
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::time::Ticks;
    use proptest::prelude::*;

    fn key(time: i64, source: (u64, u64), position: u64) -> RowKey {
        RowKey::new(Ticks::new(time).expect("in range"), SourceId::from_parts(source.0, source.1), position)
    }

    proptest! {
        /// A key of a host is always the same here, differs from that of any other host, and keeps its time, start, position and item.
        #[test]
        fn keys_are_those_of_their_host(
            sources in proptest::collection::vec((any::<u64>(), any::<u64>()), 1..20),
            names in proptest::collection::btree_set("[a-z0-9.-]{1,12}", 2..6),
            at in 0i64..1 << 50, position in 0u64..1 << 40, item in 0u16..9,
        ) {
            let mut seen = std::collections::HashSet::new();
            let distinct = sources.iter().collect::<std::collections::HashSet<_>>().len();
            for name in &names {
                let mut keys = SenderKeys::of(name);
                for source in &sources {
                    let there = key(at, *source, position).with_item(item);
                    let here = keys.key(there);
                    prop_assert_eq!(here, SenderKeys::of(name).key(there));
                    prop_assert_eq!((here.time(), here.position(), here.item()), (there.time(), position, item));
                    prop_assert_eq!(here.source().head(), there.source().head());
                    seen.insert(here);
                }
            }
            prop_assert_eq!(seen.len(), names.len() * distinct);
        }
    }
}
