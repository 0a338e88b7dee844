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

use super::Refusal;
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
}

#[derive(Default)]
struct State {
    held: usize,
    /// Whether one waits for more.
    is_awaited: bool,
}

impl Room {
    fn lock(&self) -> MutexGuard<'_, State> {
        // What a panicking thread left behind is whole: every change is made in one go.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn give_back(&self, bytes: usize) {
        if bytes > 0 {
            let mut state = self.lock();
            state.held = state.held.saturating_sub(bytes);
            drop(state);
            self.changed.notify_all();
        }
    }
}

impl Bodies {
    /// Room for so many bytes.
    pub fn new(bytes: usize) -> Bodies {
        Bodies { room: Arc::new(Room { bytes, state: Mutex::default(), changed: Condvar::new() }) }
    }

    /// Room within so many bytes of memory: of much an eighth is left for the pages that a commit makes of rows, and for
    /// what the allocator has not given back yet.
    pub fn within(bytes: usize) -> Bodies {
        const MUCH_BYTES: usize = 16 << 20;
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
        let mut state = room.lock();
        if state.held + bytes > room.bytes && !state.is_awaited && !self.patience.is_zero() {
            state.is_awaited = true;
            let deadline = Instant::now() + self.patience;
            while state.held + bytes > room.bytes {
                let left = deadline.saturating_duration_since(Instant::now());
                if left.is_zero() {
                    break;
                }
                let waited = room.changed.wait_timeout(state, left);
                state = waited.unwrap_or_else(PoisonError::into_inner).0;
            }
            state.is_awaited = false;
        }
        if state.held + bytes > room.bytes {
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

    /// Gives back all but so many bytes.
    pub fn keep(&mut self, bytes: usize) {
        let over = self.held.saturating_sub(bytes);
        self.held -= over;
        self.bodies.room.give_back(over);
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
}
