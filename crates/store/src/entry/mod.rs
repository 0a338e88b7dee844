//! Entries that clients push by a protocol in which a repeat adds nothing: Loki's.
//!
//! An *entry* is a time in nanoseconds and a line of a *stream*, which its labels name. An entry is a *repeat* if its stream,
//! its time and its line are stored already, whatever its metadata is. Keys of rows are those of arrival, so the key of a
//! repeat says nothing. The committer compares instead, and leaves repeats out:
//!
//! ```text
//! in the memory of recent entries (`known`)             a repeat
//! newer than all that left that memory, of its stream   new
//! anything else                                         the stored rows of its time decide (`stored`)
//! ```
//!
//! So an entry of a stream that only goes forward costs a look into a hash table. After a start nothing is known of any
//! stream, and its first entries are compared with what is stored.
//!
//! Entries are compared by a keyed hash of 128 bits over all that is compared. SipHash is a pseudorandom function, its key
//! is random for each process, and no hash leaves the process. So two entries that differ have equal hashes with a
//! probability of 2^-128, and nobody can look for two of them.

pub(crate) mod known;
pub(crate) mod stored;

use daytable_model::key::TableName;
use daytable_model::time::Ticks;
use siphasher::sip128::{Hasher128, SipHasher13};
use std::collections::BTreeMap;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::sync::LazyLock;

/// The key of this process.
static KEY: LazyLock<[u64; 2]> = LazyLock::new(|| {
    // The keys of `RandomState` are random, and its hash does not reveal them.
    [0, 1].map(|_| RandomState::new().build_hasher().finish())
});

/// A keyed hash of parts, each with its length, so that no two lists of parts have the same input.
fn hash<'p>(parts: impl IntoIterator<Item = &'p [u8]>) -> u128 {
    let mut hasher = SipHasher13::new_with_keys(KEY[0], KEY[1]);
    for part in parts {
        hasher.write_u64(part.len() as u64);
        hasher.write(part);
    }
    hasher.finish128().into()
}

/// The hash of a configured table.
pub(crate) fn hash_of_table(name: &TableName) -> u128 {
    hash([name.as_str().as_bytes()])
}

/// The hash of the labels of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct StreamHash(u128);

impl StreamHash {
    /// The hash of these labels.
    pub fn of(labels: &BTreeMap<String, String>) -> StreamHash {
        StreamHash(hash(labels.iter().flat_map(|(name, value)| [name.as_bytes(), value.as_bytes()])))
    }
}

/// The hash of where the entries of a stream go to, beside their time: streams with equal labels may have different tenants
/// or instances.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DestinationHash(u128);

impl DestinationHash {
    /// The hash of an instance of a tenant.
    pub fn of(tenant: Option<&str>, instance: &str) -> DestinationHash {
        let tenant_bytes = tenant.map(str::as_bytes);
        DestinationHash(hash([instance.as_bytes()].into_iter().chain(tenant_bytes)))
    }
}

/// All of an entry that is compared.
#[derive(Clone, Copy, Debug)]
pub struct EntryText<'e> {
    /// The time of the record.
    pub time: Ticks,
    /// Nanoseconds below a tick.
    pub nanos: u8,
    /// The line as it is stored.
    pub line: &'e str,
    /// The bytes that ended the line.
    pub end: &'e str,
}

impl EntryText<'_> {
    fn hash(&self, stream: StreamHash) -> u128 {
        let (time, stream) = (self.time.get().to_le_bytes(), stream.0.to_le_bytes());
        hash([&stream[..], &time, &[self.nanos], self.end.as_bytes(), self.line.as_bytes()])
    }
}

/// The entries of a submission that are compared with what is stored.
#[derive(Clone, Debug, Default)]
pub struct PushedEntries {
    streams: Vec<(StreamHash, DestinationHash)>,
    entries: Vec<PushedEntry>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct PushedEntry {
    /// The hash of the entry in its stream.
    pub(crate) hash: u128,
    /// The position in the row key.
    pub(crate) position: u64,
    pub(crate) time: Ticks,
    /// The number of its stream.
    pub(crate) stream: u32,
}

impl PushedEntries {
    /// Adds the entry whose row key has this position. Positions rise.
    pub fn add(&mut self, position: u64, stream: StreamHash, destination: DestinationHash, entry: &EntryText<'_>) {
        if self.streams.last() != Some(&(stream, destination)) {
            self.streams.push((stream, destination));
        }
        // A request has at most as many entries as a batch of memory; more streams than numbers cannot be.
        let number = u32::try_from(self.streams.len() - 1).unwrap_or(u32::MAX);
        self.entries.push(PushedEntry { hash: entry.hash(stream), position, time: entry.time, stream: number });
    }

    /// Whether it has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Its memory in bytes.
    pub fn memory(&self) -> usize {
        self.entries.capacity() * size_of::<PushedEntry>()
            + self.streams.capacity() * size_of::<(StreamHash, DestinationHash)>()
    }

    pub(crate) fn entries(&self) -> &[PushedEntry] {
        &self.entries
    }

    /// The stream of an entry, with where it goes to.
    pub(crate) fn stream_of(&self, entry: &PushedEntry) -> u128 {
        let (stream, destination) = self.streams[entry.stream as usize];
        // Both are pseudorandom, and so is the sum.
        stream.0.wrapping_add(destination.0)
    }

    /// The hash of an entry among all streams and destinations.
    pub(crate) fn key_of(&self, entry: &PushedEntry) -> u128 {
        entry.hash.wrapping_add(self.streams[entry.stream as usize].1.0)
    }
}
