//! How many bytes pushes have in memory, over all connections: bodies as they come and decoded, the windows of decoders, and
//! the rows that bodies become until those are on disk.
//!
//! Room is taken before it is needed, and given back when what it was for is gone: the body once it is taken apart, the rows
//! once they are committed or nobody will have them.
//!
//! | there is not that much left, and the request | |
//! |---|---|
//! | could never have as much | is refused for good ([`Refusal::TooLarge`]) |
//! | still gathers its body | is refused, and comes again ([`Refusal::Busy`]) |
//! | is being taken apart, and no other waits | waits, for a bounded time |
//! | is being taken apart, and another one waits | is refused, and comes again |
//!
//! So of all that hold room at most one waits for more: those that it waits for go on without waiting, or are refused. Nobody
//! waits for ever, and of two large ones one comes through.
//!
//! The allocator keeps freed memory for a second, so room that was given back still takes memory: it is loose. Nobody gets the
//! room of loose bytes before the allocator has returned them. A thread that takes bodies apart has it do so when it gives
//! much room back; else whoever lacks the room does.

use super::Refusal;
use daytable_platform::memory;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The room for what pushes have in memory. Cheap to clone.
#[derive(Clone)]
pub struct Bodies {
    room: Arc<Room>,
}

struct Room {
    bytes: usize,
    state: Mutex<State>,
    changed: Condvar,
    /// Held by the thread that has the allocator return what is loose.
    returning: Mutex<()>,
}

/// Room from which on an eighth of it is left for what is not accounted here, and from which on what is loose counts: where
/// there is less, the allocator keeps more by itself.
const MUCH_BYTES: usize = 16 << 20;
/// Bytes of room from which on a thread that takes bodies apart has the allocator return them at once.
const LARGE_BYTES: usize = 1 << 20;

#[derive(Default)]
struct State {
    held: usize,
    /// Bytes that were given back, and that the allocator may keep still.
    loose: usize,
    /// Whether one waits for more.
    is_awaited: bool,
}

impl Room {
    fn lock(&self) -> MutexGuard<'_, State> {
        // What a panicking thread left behind is whole: every change is made in one go.
        daytable_platform::lock(&self.state)
    }

    /// Takes bytes back, of which so many were never used.
    fn give_back(&self, bytes: usize, unused: usize) {
        if bytes > 0 {
            let mut state = self.lock();
            state.held = state.held.saturating_sub(bytes);
            if self.bytes >= MUCH_BYTES {
                state.loose += bytes.saturating_sub(unused);
            }
            drop(state);
            self.changed.notify_all();
        }
    }

    fn fits(&self, state: &State, bytes: usize) -> bool {
        state.held + state.loose + bytes <= self.bytes
    }

    /// Whether there would be room if nothing were loose.
    fn would_fit(&self, state: &State, bytes: usize) -> bool {
        state.held + bytes <= self.bytes
    }

    /// Has the allocator return what is loose.
    fn tighten(&self) {
        let one_at_a_time = daytable_platform::lock(&self.returning);
        let loose = self.lock().loose;
        if loose > 0 {
            memory::release_free();
            // What became loose meanwhile stays so.
            self.lock().loose -= loose;
            self.changed.notify_all();
        }
        drop(one_at_a_time);
    }

    /// The state, in which no loose bytes are in the way of so many more.
    fn tightened<'r>(&'r self, mut state: MutexGuard<'r, State>, bytes: usize) -> MutexGuard<'r, State> {
        while !self.fits(&state, bytes) && self.would_fit(&state, bytes) {
            drop(state);
            self.tighten();
            state = self.lock();
        }
        state
    }
}

impl Bodies {
    /// Room for so many bytes.
    pub fn new(bytes: usize) -> Bodies {
        let (state, changed, returning) = (Mutex::default(), Condvar::new(), Mutex::default());
        Bodies { room: Arc::new(Room { bytes, state, changed, returning }) }
    }

    /// Room within so many bytes of memory: of much an eighth is left for the pages that a commit makes of rows.
    pub fn within(bytes: usize) -> Bodies {
        Bodies::new(if bytes < MUCH_BYTES { bytes } else { bytes - bytes / 8 })
    }

    /// Bytes that are held now.
    pub fn held(&self) -> usize {
        self.room.lock().held
    }

    /// Holds nothing yet.
    pub fn hold(&self) -> Hold {
        Hold { bodies: self.clone(), held: 0, patience: Duration::ZERO }
    }
}

/// What one request holds. Dropped, all of it is given back.
pub struct Hold {
    bodies: Bodies,
    held: usize,
    patience: Duration,
}

impl Hold {
    /// Takes room for more bytes.
    ///
    /// # Errors
    ///
    /// [`Refusal::Busy`] where there is not that much left, [`Refusal::TooLarge`] where there never is.
    pub fn more(&mut self, bytes: usize) -> Result<(), Refusal> {
        let room = &*self.bodies.room;
        if bytes > room.bytes.saturating_sub(self.held) {
            return Err(Refusal::TooLarge(format!(
                "{} bytes in memory, of the body and the rows that it becomes (bodies_bytes_max)",
                room.bytes
            )));
        }
        let mut state = room.tightened(room.lock(), bytes);
        if !room.fits(&state, bytes) && !state.is_awaited && !self.patience.is_zero() {
            state.is_awaited = true;
            let deadline = Instant::now() + self.patience;
            while !room.fits(&state, bytes) {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                let waited = room.changed.wait_timeout(state, left);
                state = room.tightened(waited.unwrap_or_else(PoisonError::into_inner).0, bytes);
            }
            state.is_awaited = false;
        }
        if !room.fits(&state, bytes) {
            return Err(Refusal::Busy("too many bytes of requests are in memory"));
        }
        state.held += bytes;
        self.held += bytes;
        Ok(())
    }

    /// From now on waits so long for more where no other does: not for a thread that others wait for.
    pub fn wait_for(&mut self, patience: Duration) {
        self.patience = patience;
    }

    /// Gives back all but so many bytes. What they were for has to be dropped before.
    pub fn keep(&mut self, bytes: usize) {
        let over = self.held.saturating_sub(bytes);
        self.held -= over;
        self.bodies.room.give_back(over, 0);
        // Who may wait has the time for that, and may have kept some of it for its own thread.
        if over >= LARGE_BYTES && !self.patience.is_zero() {
            self.bodies.room.tighten();
        }
    }

    /// Gives back bytes that were never used.
    pub fn spare(&mut self, bytes: usize) {
        let bytes = bytes.min(self.held);
        self.held -= bytes;
        self.bodies.room.give_back(bytes, bytes);
    }

    /// Whether it holds so much that it is to be dropped by the thread that made what it is for, so that this one's memory is
    /// returned.
    pub fn is_large(&self) -> bool {
        self.held >= LARGE_BYTES
    }

    /// Bytes that it holds.
    pub fn held(&self) -> usize {
        self.held
    }

    /// Bytes that it could have by itself, if no other had any.
    pub fn left_at_best(&self) -> usize {
        self.bodies.room.bytes.saturating_sub(self.held)
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        self.keep(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn room_is_refused_when_it_is_used_up_and_given_back_with_the_request() {
        let bodies = Bodies::new(100);
        let (mut one, mut two) = (bodies.hold(), bodies.hold());
        one.more(60).and_then(|()| one.more(30)).expect("room");
        assert!(matches!(two.more(11), Err(Refusal::Busy(_))));
        two.more(10).expect("the last of it");
        assert!(matches!(two.more(91), Err(Refusal::TooLarge(_))), "it never has as much");
        assert_eq!(bodies.held(), 100);
        drop(one);
        assert_eq!(bodies.held(), 10);
        two.more(90).expect("given back");
        two.keep(30);
        assert_eq!((bodies.held(), two.held(), two.left_at_best()), (30, 30, 70));
    }

    #[test]
    fn of_two_that_need_more_than_there_is_one_waits_and_comes_through() {
        const PATIENCE: Duration = Duration::from_secs(60);
        let bodies = Bodies::new(100);
        let (mut one, mut two) = (bodies.hold(), bodies.hold());
        one.more(50).and_then(|()| two.more(50)).expect("room");
        one.wait_for(PATIENCE);
        two.wait_for(PATIENCE);
        let waiting = std::thread::spawn(move || one.more(10).map(|()| one.held()));
        while !bodies.room.lock().is_awaited {
            assert!(!waiting.is_finished());
            std::thread::yield_now();
        }
        assert!(matches!(two.more(10), Err(Refusal::Busy(_))), "the other one waits already");
        drop(two);
        assert_eq!(waiting.join().expect("no panic"), Ok(60));
        assert_eq!(bodies.held(), 0);
        // Who waited for nothing is told so, and the next one may wait.
        let (mut one, mut two) = (bodies.hold(), bodies.hold());
        one.more(100).expect("room");
        two.wait_for(Duration::from_millis(1));
        assert!(matches!(two.more(1), Err(Refusal::Busy(_))));
        assert!(!bodies.room.lock().is_awaited);
    }

    #[test]
    fn room_that_is_loose_is_nobodys_until_the_allocator_has_returned_it() {
        let bodies = Bodies::new(2 * MUCH_BYTES);
        let loose = || bodies.room.lock().loose;
        let mut one = bodies.hold();
        one.more(MUCH_BYTES + 10).expect("room");
        one.spare(5);
        assert_eq!((bodies.held(), loose()), (MUCH_BYTES + 5, 0), "what was not used is not loose");
        drop(one);
        assert_eq!((bodies.held(), loose()), (0, MUCH_BYTES + 5));
        let mut two = bodies.hold();
        two.more(10).expect("room beside it");
        assert_eq!(loose(), MUCH_BYTES + 5);
        two.more(MUCH_BYTES).expect("the room of what was loose");
        assert_eq!((bodies.held(), loose()), (MUCH_BYTES + 10, 0));
        two.wait_for(Duration::from_secs(60));
        two.keep(MUCH_BYTES + 10 - LARGE_BYTES);
        assert_eq!(loose(), 0, "much of it is returned at once by who may wait");
        two.keep(0);
        let small = Bodies::new(MUCH_BYTES - 1);
        small.hold().more(100).expect("room");
        assert_eq!((small.held(), small.room.lock().loose), (0, 0));
    }
}
