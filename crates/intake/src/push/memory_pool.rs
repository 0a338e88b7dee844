//! The memory of all requests together: bodies as they arrive and decoded, the windows of decoders, and rows until they are on
//! disk.
//!
//! A request reserves memory before it allocates, and releases the reservation when the memory is free: of a body after it
//! is parsed, of rows after they are committed or refused.
//!
//! | too little memory is left, and the request | then the request |
//! |---|---|
//! | needs more than the whole pool | is refused for good ([`Refusal::TooLarge`]) |
//! | has no memory yet | waits for its turn, for a bounded time |
//! | has some, and those that wait have at most half of the pool with it | waits, before all that have none |
//! | has some, and those that wait have more | is refused and may come again ([`Refusal::Busy`]) |
//!
//! Who waits in vain is refused and may come again. Each of the two queues is served in the order of arrival. Half of the pool
//! or more always belongs to requests that do not wait. These requests finish, and one of two large requests succeeds.
//!
//! The allocator keeps freed memory for a second. Released bytes therefore count as *unreturned* until the allocator has
//! returned them to the system. A thread that parses bodies forces that when it releases much memory, as does a request that
//! lacks memory.

use super::Refusal;
use daytable_platform::{lock, memory};
use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use tokio::sync::Notify;

/// A limit for the memory of all requests. Cheap to clone.
#[derive(Clone)]
pub struct MemoryPool {
    shared: Arc<PoolInner>,
}

struct PoolInner {
    bytes: usize,
    state: Mutex<PoolState>,
    /// Wakes threads. Tasks are woken one at a time.
    changed: Condvar,
    /// Locked by the thread that makes the allocator return memory.
    returning: Mutex<()>,
}

/// The size from which on a pool keeps an eighth for memory outside the account, and counts unreturned bytes. In a smaller
/// process the allocator keeps more memory by itself.
const LARGE_POOL_BYTES: usize = 16 << 20;
/// The size from which on a released reservation makes the allocator return memory at once.
const LARGE_BYTES: usize = 1 << 20;
const NO_ROOM: Refusal = Refusal::Busy("too many bytes of requests are in memory");

#[derive(Default)]
struct PoolState {
    reserved: usize,
    /// Bytes that were released, and that the allocator may still keep.
    unreturned: usize,
    /// Waiting requests with memory.
    growing: VecDeque<Waiter>,
    /// Waiting requests without memory.
    beginning: VecDeque<Waiter>,
    /// The memory of the waiting requests.
    held: usize,
    /// The number of requests that waited so far.
    waiters: u64,
}

/// A place in a queue.
struct Waiter {
    number: u64,
    /// Wakes a task. A thread waits for `changed`.
    task: Option<Arc<Notify>>,
}

impl PoolState {
    fn queue(&mut self, has_memory: bool) -> &mut VecDeque<Waiter> {
        if has_memory { &mut self.growing } else { &mut self.beginning }
    }

    /// Whether it is the turn of the request with this number, or of a request without a number.
    fn is_turn(&self, has_memory: bool, number: Option<u64>) -> bool {
        let is_first = |queue: &VecDeque<Waiter>| queue.front().is_none_or(|first| Some(first.number) == number);
        is_first(&self.growing) && (has_memory || is_first(&self.beginning))
    }
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
            self.wake(&state);
        }
    }

    /// Wakes the request whose turn it is.
    fn wake(&self, state: &PoolState) {
        match state.growing.front().or(state.beginning.front()) {
            Some(Waiter { task: Some(task), .. }) => task.notify_one(),
            Some(_) => self.changed.notify_all(),
            None => {}
        }
    }

    /// A place at the end of a queue, for a request with this much memory.
    fn queue(&self, held: usize, task: Option<Arc<Notify>>) -> Result<QueuePlace<'_>, Refusal> {
        let mut state = lock(&self.state);
        if held > 0 && state.held + held > self.bytes / 2 {
            return Err(NO_ROOM);
        }
        state.held += held;
        state.waiters += 1;
        let number = state.waiters;
        state.queue(held > 0).push_back(Waiter { number, task });
        Ok(QueuePlace { pool: self, number, held })
    }

    fn fits(&self, state: &PoolState, bytes: usize) -> bool {
        state.reserved + state.unreturned + bytes <= self.bytes
    }

    /// Whether these bytes fit once the allocator has returned the unreturned bytes.
    fn could_fit(&self, state: &PoolState, bytes: usize) -> bool {
        state.reserved + bytes <= self.bytes
    }

    /// Makes the allocator return the unreturned bytes.
    fn return_freed(&self) {
        let one_at_a_time = lock(&self.returning);
        let unreturned = lock(&self.state).unreturned;
        if unreturned > 0 {
            memory::release_free();
            // Bytes that were released in the meantime stay unreturned.
            let mut state = lock(&self.state);
            state.unreturned -= unreturned;
            self.wake(&state);
        }
        drop(one_at_a_time);
    }

    /// The state after the allocator returned memory, if these bytes need that.
    fn with_room<'s>(&'s self, mut state: MutexGuard<'s, PoolState>, bytes: usize) -> MutexGuard<'s, PoolState> {
        while !self.fits(&state, bytes) && self.could_fit(&state, bytes) {
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

/// The place of a waiting request. Dropping this leaves the queue.
struct QueuePlace<'p> {
    pool: &'p PoolInner,
    number: u64,
    /// The memory of the request.
    held: usize,
}

impl Drop for QueuePlace<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.pool.state);
        let number = self.number;
        state.queue(self.held > 0).retain(|waiter| waiter.number != number);
        state.held -= self.held;
        self.pool.wake(&state);
    }
}

/// The memory of one request. Dropping this releases it.
pub struct MemoryReservation {
    pool: MemoryPool,
    bytes: usize,
    patience: Duration,
}

impl MemoryReservation {
    /// Reserves more bytes. Waits as long as its [patience](MemoryReservation::set_patience), on this thread.
    ///
    /// # Errors
    ///
    /// [`Refusal::Busy`] if too little memory is left, [`Refusal::TooLarge`] if the whole pool is too small.
    pub fn grow(&mut self, bytes: usize) -> Result<(), Refusal> {
        if self.try_grow(bytes, None)? {
            return Ok(());
        }
        let deadline = Instant::now() + self.patience;
        if self.patience.is_zero() {
            return Err(NO_ROOM);
        }
        let pool = self.pool.clone();
        let place = pool.shared.queue(self.bytes, None)?;
        while !self.try_grow(bytes, Some(place.number))? {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(NO_ROOM);
            }
            let state = lock(&pool.shared.state);
            // Memory that was released since the attempt has woken nobody.
            if !(state.is_turn(self.bytes > 0, Some(place.number)) && pool.shared.could_fit(&state, bytes)) {
                drop(pool.shared.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner));
            }
        }
        Ok(())
    }

    /// Reserves more bytes, and waits at most this long.
    ///
    /// # Errors
    ///
    /// As [`grow`](MemoryReservation::grow).
    pub async fn grow_within(&mut self, bytes: usize, patience: Duration) -> Result<(), Refusal> {
        let (pool, task) = (self.pool.clone(), Arc::new(Notify::new()));
        let place = pool.shared.queue(self.bytes, Some(task.clone()))?;
        let waiting = async {
            while !self.try_grow(bytes, Some(place.number))? {
                task.notified().await;
            }
            Ok(())
        };
        tokio::time::timeout(patience, waiting).await.unwrap_or(Err(NO_ROOM))
    }

    /// Reserves more bytes if there is room now, and no other request is first.
    ///
    /// # Errors
    ///
    /// [`Refusal::TooLarge`] if the whole pool is too small.
    pub fn grow_now(&mut self, bytes: usize) -> Result<bool, Refusal> {
        self.try_grow(bytes, None)
    }

    fn try_grow(&mut self, bytes: usize, number: Option<u64>) -> Result<bool, Refusal> {
        let pool = &*self.pool.shared;
        if bytes > self.available_max() {
            return Err(Refusal::TooLarge(format!(
                "{} bytes in memory, of the body and the rows that it becomes (bodies_bytes_max)",
                pool.bytes
            )));
        }
        let state = lock(&pool.state);
        if !state.is_turn(self.bytes > 0, number) {
            return Ok(false);
        }
        let mut state = pool.with_room(state, bytes);
        // Another request may have come while the allocator returned memory.
        let has_room = state.is_turn(self.bytes > 0, number) && pool.fits(&state, bytes);
        if has_room {
            state.reserved += bytes;
            self.bytes += bytes;
        }
        Ok(has_room)
    }

    /// Lets [`grow`](MemoryReservation::grow) wait so long. Not for a thread that other tasks need.
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
        while lock(&pool.shared.state).growing.is_empty() {
            assert!(!waiting.is_finished());
            std::thread::yield_now();
        }
        assert!(matches!(two.grow(10), Err(Refusal::Busy(_))), "all of the memory would wait");
        drop(two);
        assert_eq!(waiting.join().expect("no panic"), Ok(60));
        assert_eq!(pool.reserved(), 0);
        // A request that waited in vain is refused, and the next request may wait.
        let (mut one, mut two) = (pool.reservation(), pool.reservation());
        one.grow(100).expect("memory");
        two.set_patience(Duration::from_millis(1));
        assert!(matches!(two.grow(1), Err(Refusal::Busy(_))));
        let state = lock(&pool.shared.state);
        assert!(state.growing.is_empty() && state.held == 0);
    }

    #[tokio::test]
    async fn requests_without_memory_wait_in_order_behind_those_with_memory() {
        const PATIENCE: Duration = Duration::from_secs(60);
        let pool = MemoryPool::new(100);
        let (mut holder, mut grower) = (pool.reservation(), pool.reservation());
        holder.grow(80).and_then(|()| grower.grow(10)).expect("memory");
        let order = Arc::new(Mutex::new(Vec::new()));
        let waiting: Vec<_> = (0..3)
            .map(|number| {
                let (mut memory, order) = (pool.reservation(), order.clone());
                tokio::spawn(async move {
                    // The first needs more than there is, so the others wait behind it.
                    memory.grow_within(if number == 0 { 20 } else { 5 }, PATIENCE).await.expect("in time");
                    lock(&order).push(number);
                })
            })
            .collect();
        while lock(&pool.shared.state).beginning.len() < 3 {
            tokio::task::yield_now().await;
        }
        assert!(!pool.reservation().grow_now(1).expect("small"), "others are first");
        // A client that has gone leaves its place.
        let gone = tokio::time::timeout(Duration::ZERO, pool.reservation().grow_within(1, PATIENCE)).await;
        assert!(gone.is_err() && lock(&pool.shared.state).beginning.len() == 3);
        let order_of_grower = order.clone();
        let growing = tokio::spawn(async move {
            grower.grow_within(20, PATIENCE).await.expect("in time");
            lock(&order_of_grower).push(9);
        });
        while lock(&pool.shared.state).growing.is_empty() {
            tokio::task::yield_now().await;
        }
        drop(holder);
        growing.await.expect("no panic");
        for waiting in waiting {
            waiting.await.expect("no panic");
        }
        assert_eq!(*lock(&order), [9, 0, 1, 2]);
        assert_eq!(pool.reserved(), 0);
        pool.reservation().grow(100).expect("nobody waits");
        let (mut one, mut two) = (pool.reservation(), pool.reservation());
        one.grow(100).expect("memory");
        let refused = two.grow_within(1, Duration::from_millis(1)).await;
        assert!(matches!(refused, Err(Refusal::Busy(_))) && lock(&pool.shared.state).beginning.is_empty());
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
