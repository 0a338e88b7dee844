//! The memory of all requests together: bodies as they arrive and decoded, the windows of decoders, and rows until they are on
//! disk.
//!
//! A request reserves memory before it allocates, and releases the reservation when the memory is free: of a body after it
//! is parsed, of rows after they are committed or refused.
//!
//! | too little memory is left, and the request | then the request |
//! |---|---|
//! | needs more than the whole pool | is refused for good ([`Refusal::TooLarge`]) |
//! | still receives its body | is refused and may come again ([`Refusal::Busy`]) |
//! | is being parsed, and no other request waits | waits, for a bounded time |
//! | is being parsed, and another request waits | is refused and may come again |
//!
//! So at most one request with a reservation waits for more. The other requests finish without waiting or are refused, so
//! there is no deadlock, and one of two large requests succeeds.
//!
//! The allocator keeps freed memory for a second. Released bytes therefore count as *unreturned* until the allocator has
//! returned them to the system. A thread that parses bodies forces that when it releases much memory, as does a request that
//! lacks memory.

use super::Refusal;
use daytable_platform::{lock, memory};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A limit for the memory of all requests. Cheap to clone.
#[derive(Clone)]
pub struct MemoryPool {
    shared: Arc<PoolInner>,
}

struct PoolInner {
    bytes: usize,
    state: Mutex<PoolState>,
    changed: Condvar,
    /// Locked by the thread that makes the allocator return memory.
    returning: Mutex<()>,
}

/// The size from which on a pool keeps an eighth for memory outside the account, and counts unreturned bytes. In a smaller
/// process the allocator keeps more memory by itself.
const LARGE_POOL_BYTES: usize = 16 << 20;
/// The size from which on a released reservation makes the allocator return memory at once.
const LARGE_BYTES: usize = 1 << 20;

#[derive(Default)]
struct PoolState {
    reserved: usize,
    /// Bytes that were released, and that the allocator may still keep.
    unreturned: usize,
    /// Whether a request waits for memory.
    is_awaited: bool,
}

impl PoolInner {
    /// Releases bytes, including `unused` ones that were never allocated.
    fn release(&self, bytes: usize, unused: usize) {
        if bytes > 0 {
            let mut state = lock(&self.state);
            state.reserved = state.reserved.saturating_sub(bytes);
            if self.bytes >= LARGE_POOL_BYTES {
                state.unreturned += bytes.saturating_sub(unused);
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    fn fits(&self, state: &PoolState, bytes: usize) -> bool {
        state.reserved + state.unreturned + bytes <= self.bytes
    }

    /// Makes the allocator return the unreturned bytes.
    fn return_freed(&self) {
        let one_at_a_time = lock(&self.returning);
        let unreturned = lock(&self.state).unreturned;
        if unreturned > 0 {
            memory::release_free();
            // Bytes that were released in the meantime stay unreturned.
            lock(&self.state).unreturned -= unreturned;
            self.changed.notify_all();
        }
        drop(one_at_a_time);
    }

    /// The state after the allocator returned memory, if these bytes need that.
    fn with_room<'s>(&'s self, mut state: MutexGuard<'s, PoolState>, bytes: usize) -> MutexGuard<'s, PoolState> {
        while !self.fits(&state, bytes) && state.reserved + bytes <= self.bytes {
            drop(state);
            self.return_freed();
            state = lock(&self.state);
        }
        state
    }
}

impl MemoryPool {
    /// A pool of this many bytes.
    pub fn new(bytes: usize) -> MemoryPool {
        let (state, changed, returning) = (Mutex::default(), Condvar::new(), Mutex::default());
        MemoryPool { shared: Arc::new(PoolInner { bytes, state, changed, returning }) }
    }

    /// A pool of this many bytes. A large pool leaves an eighth for the pages that a commit builds from rows.
    pub fn within(bytes: usize) -> MemoryPool {
        MemoryPool::new(if bytes < LARGE_POOL_BYTES { bytes } else { bytes - bytes / 8 })
    }

    /// The number of reserved bytes.
    pub fn reserved(&self) -> usize {
        lock(&self.shared.state).reserved
    }

    /// An empty reservation.
    pub fn reservation(&self) -> MemoryReservation {
        MemoryReservation { pool: self.clone(), bytes: 0, patience: Duration::ZERO }
    }
}

/// The memory of one request. Dropping this releases it.
pub struct MemoryReservation {
    pool: MemoryPool,
    bytes: usize,
    patience: Duration,
}

impl MemoryReservation {
    /// Reserves more bytes.
    ///
    /// # Errors
    ///
    /// [`Refusal::Busy`] if too little memory is left, [`Refusal::TooLarge`] if the whole pool is too small.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Refusal> {
        let pool = &*self.pool.shared;
        if bytes > self.available_max() {
            return Err(Refusal::TooLarge(format!(
                "{} bytes in memory, of the body and the rows that it becomes (bodies_bytes_max)",
                pool.bytes
            )));
        }
        let mut state = pool.with_room(lock(&pool.state), bytes);
        if !pool.fits(&state, bytes) && !state.is_awaited && !self.patience.is_zero() {
            state.is_awaited = true;
            let deadline = Instant::now() + self.patience;
            while !pool.fits(&state, bytes) {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                let waited = pool.changed.wait_timeout(state, left);
                state = pool.with_room(waited.unwrap_or_else(PoisonError::into_inner).0, bytes);
            }
            state.is_awaited = false;
        }
        if !pool.fits(&state, bytes) {
            return Err(Refusal::Busy("too many bytes of requests are in memory"));
        }
        state.reserved += bytes;
        self.bytes += bytes;
        Ok(())
    }

    /// Lets [`grow`](MemoryReservation::grow) wait so long if no other request waits. Not for a thread that other tasks need.
    pub fn set_patience(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Releases all but this many bytes. Their memory must be free already.
    pub fn shrink_to(&mut self, bytes: usize) {
        let released = self.bytes.saturating_sub(bytes);
        self.bytes -= released;
        self.pool.shared.release(released, 0);
        // A thread that may wait has the time, and its own heap may keep some of the memory.
        if released >= LARGE_BYTES && !self.patience.is_zero() {
            self.pool.shared.return_freed();
        }
    }

    /// Releases bytes that were never allocated.
    pub fn release_unused(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        self.pool.shared.release(bytes, bytes);
    }

    /// Whether the thread that allocated this memory should drop the reservation, so that its heap returns the memory.
    pub fn is_large(&self) -> bool {
        self.bytes >= LARGE_BYTES
    }

    /// The number of reserved bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// The number of bytes that it could add if no other request had a reservation.
    pub fn available_max(&self) -> usize {
        self.pool.shared.bytes.saturating_sub(self.bytes)
    }
}

impl Drop for MemoryReservation {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_is_refused_when_it_is_used_up_and_released_with_the_request() {
        let pool = MemoryPool::new(100);
        let (mut one, mut two) = (pool.reservation(), pool.reservation());
        one.grow(60).and_then(|()| one.grow(30)).expect("memory");
        assert!(matches!(two.grow(11), Err(Refusal::Busy(_))));
        two.grow(10).expect("the last of it");
        assert!(matches!(two.grow(91), Err(Refusal::TooLarge(_))), "more than the pool");
        assert_eq!(pool.reserved(), 100);
        drop(one);
        assert_eq!(pool.reserved(), 10);
        two.grow(90).expect("released");
        two.shrink_to(30);
        assert_eq!((pool.reserved(), two.bytes(), two.available_max()), (30, 30, 70));
    }

    #[test]
    fn of_two_requests_that_need_too_much_one_waits_and_succeeds() {
        const PATIENCE: Duration = Duration::from_secs(60);
        let pool = MemoryPool::new(100);
        let (mut one, mut two) = (pool.reservation(), pool.reservation());
        one.grow(50).and_then(|()| two.grow(50)).expect("memory");
        one.set_patience(PATIENCE);
        two.set_patience(PATIENCE);
        let waiting = std::thread::spawn(move || one.grow(10).map(|()| one.bytes()));
        while !lock(&pool.shared.state).is_awaited {
            assert!(!waiting.is_finished());
            std::thread::yield_now();
        }
        assert!(matches!(two.grow(10), Err(Refusal::Busy(_))), "the other request waits already");
        drop(two);
        assert_eq!(waiting.join().expect("no panic"), Ok(60));
        assert_eq!(pool.reserved(), 0);
        // A request that waited in vain is refused, and the next request may wait.
        let (mut one, mut two) = (pool.reservation(), pool.reservation());
        one.grow(100).expect("memory");
        two.set_patience(Duration::from_millis(1));
        assert!(matches!(two.grow(1), Err(Refusal::Busy(_))));
        assert!(!lock(&pool.shared.state).is_awaited);
    }

    #[test]
    fn freed_memory_is_reserved_again_after_the_allocator_returned_it() {
        let pool = MemoryPool::new(2 * LARGE_POOL_BYTES);
        let unreturned = || lock(&pool.shared.state).unreturned;
        let mut one = pool.reservation();
        one.grow(LARGE_POOL_BYTES + 10).expect("memory");
        one.release_unused(5);
        assert_eq!((pool.reserved(), unreturned()), (LARGE_POOL_BYTES + 5, 0), "unused memory was never freed");
        drop(one);
        assert_eq!((pool.reserved(), unreturned()), (0, LARGE_POOL_BYTES + 5));
        let mut two = pool.reservation();
        two.grow(10).expect("memory beside it");
        assert_eq!(unreturned(), LARGE_POOL_BYTES + 5);
        two.grow(LARGE_POOL_BYTES).expect("memory that the allocator returned");
        assert_eq!((pool.reserved(), unreturned()), (LARGE_POOL_BYTES + 10, 0));
        two.set_patience(Duration::from_secs(60));
        two.shrink_to(LARGE_POOL_BYTES + 10 - LARGE_BYTES);
        assert_eq!(unreturned(), 0, "a request that may wait returns much memory at once");
        two.shrink_to(0);
        let small = MemoryPool::new(LARGE_POOL_BYTES - 1);
        small.reservation().grow(100).expect("memory");
        assert_eq!((small.reserved(), lock(&small.shared.state).unreturned), (0, 0));
    }
}
