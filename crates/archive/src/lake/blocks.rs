//! Blocks of files in memory, and which blocks are on their way.

use bytes::Bytes;
use daytable_platform::lock;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

/// Bytes of blocks in memory.
const BLOCKS_BYTES_MAX: usize = 32 << 20;

/// A block of a file: what tells the file, and the number of the block.
pub(super) type BlockId = (Arc<str>, u64);

/// The blocks that were read last.
#[derive(Default)]
pub(super) struct BlockMemory {
    state: Mutex<Blocks>,
    /// Some block arrived, or did not.
    arrived: Condvar,
}

#[derive(Default)]
struct Blocks {
    blocks: HashMap<BlockId, Bytes>,
    /// In the order in which they were added.
    order: VecDeque<BlockId>,
    bytes: usize,
    /// Blocks that a thread asks the store for.
    awaited: HashSet<BlockId>,
}

/// What becomes of a block that is needed.
pub(super) enum BlockState {
    /// It is there.
    There(Bytes),
    /// The caller is to read this block and those behind it, this many in all, and to pass each on.
    Read(u64),
}

impl BlockMemory {
    /// A block; waits for it if another thread reads it. If nobody does, the caller is to read it, and up to `most` blocks from it
    /// on that are missing, too.
    pub(super) fn get(&self, identity: &Arc<str>, number: u64, most: u64) -> BlockState {
        let mut state = lock(&self.state);
        loop {
            let id = (identity.clone(), number);
            if let Some(bytes) = state.blocks.get(&id) {
                return BlockState::There(bytes.clone());
            }
            if !state.awaited.contains(&id) {
                break;
            }
            state = self.arrived.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        let is_free = |state: &Blocks, id: &BlockId| !state.blocks.contains_key(id) && !state.awaited.contains(id);
        let mut count = 0;
        while count < most && is_free(&state, &(identity.clone(), number + count)) {
            state.awaited.insert((identity.clone(), number + count));
            count += 1;
        }
        BlockState::Read(count)
    }

    /// Adds blocks that were to be read, from `number` on. Those of `count` that did not come are free again.
    pub(super) fn arrive(&self, identity: &Arc<str>, number: u64, count: u64, blocks: &[Bytes]) {
        let mut state = lock(&self.state);
        for number in number..number + count {
            state.awaited.remove(&(identity.clone(), number));
        }
        for (number, bytes) in (number..).zip(blocks) {
            let id = (identity.clone(), number);
            state.bytes += bytes.len();
            if let Some(known) = state.blocks.insert(id.clone(), bytes.clone()) {
                state.bytes -= known.len();
            } else {
                state.order.push_back(id);
            }
        }
        while state.bytes > BLOCKS_BYTES_MAX
            && let Some(oldest) = state.order.pop_front()
        {
            state.bytes -= state.blocks.remove(&oldest).map_or(0, |bytes| bytes.len());
        }
        drop(state);
        self.arrived.notify_all();
    }

    /// Forgets the blocks of a file. False if there were none.
    pub(super) fn forget(&self, identity: &Arc<str>) -> bool {
        let mut state = lock(&self.state);
        let before = state.order.len();
        state.order.retain(|(of, _)| of != identity);
        let (mut bytes, is_its) = (0, before > state.order.len());
        state.blocks.retain(|(of, _), block| {
            if of == identity {
                bytes += block.len();
            }
            of != identity
        });
        state.bytes -= bytes;
        is_its
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn a_block_is_read_once_by_many_threads_and_again_after_a_failure() {
        let (memory, reads) = (BlockMemory::default(), AtomicUsize::new(0));
        let identity: Arc<str> = "a".into();
        std::thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    for number in 0..50 {
                        match memory.get(&identity, number, 4) {
                            BlockState::There(bytes) => assert_eq!(bytes, number.to_string()),
                            BlockState::Read(count) => {
                                assert!((1..=4).contains(&count));
                                reads.fetch_add(usize::try_from(count).expect("few"), Ordering::Relaxed);
                                let blocks = (number..number + count).map(|number| number.to_string().into());
                                memory.arrive(&identity, number, count, &blocks.collect::<Vec<_>>());
                            }
                        }
                    }
                });
            }
        });
        assert!((50..=53).contains(&reads.into_inner()), "each once, and up to three behind the last");
        assert!(memory.forget(&identity) && !memory.forget(&identity));
        assert!(matches!(memory.get(&identity, 7, 1), BlockState::Read(1)));
        memory.arrive(&identity, 7, 1, &[]);
        assert!(matches!(memory.get(&identity, 7, 9), BlockState::Read(9)), "the read failed");
    }

    #[test]
    fn memory_is_bounded() {
        let memory = BlockMemory::default();
        let identity: Arc<str> = "a".into();
        let block = Bytes::from(vec![0; BLOCKS_BYTES_MAX / 4]);
        for number in 0..9 {
            memory.arrive(&identity, number, 1, std::slice::from_ref(&block));
        }
        let held = |state: &Blocks| (state.bytes, state.blocks.len());
        assert_eq!(held(&lock(&memory.state)), (BLOCKS_BYTES_MAX, 4));
        assert!(matches!(memory.get(&identity, 8, 1), BlockState::There(_)));
        assert!(matches!(memory.get(&identity, 4, 1), BlockState::Read(1)));
    }
}
