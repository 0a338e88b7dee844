//! How many bytes of bodies are in memory, over all connections.
//!
//! Whoever wants to keep more takes its room first, and is refused where there is none: nobody waits for room while he
//! holds some, so nobody waits for ever. What a request holds is given back when it is dropped, and that is when its rows
//! are on disk or nobody will have them.

use super::Refusal;
use std::sync::Arc;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The room for bodies. Cheap to clone.
#[derive(Clone)]
pub struct Bodies {
    room: Arc<Semaphore>,
    bytes: usize,
}

impl Bodies {
    /// Room for so many bytes.
    pub fn new(bytes: usize) -> Bodies {
        let bytes = bytes.min(Semaphore::MAX_PERMITS);
        Bodies { room: Arc::new(Semaphore::new(bytes)), bytes }
    }

    /// Bytes that are held now.
    pub fn held(&self) -> usize {
        self.bytes - self.room.available_permits()
    }

    /// Holds nothing yet.
    pub fn hold(&self) -> Hold {
        Hold { bodies: self.clone(), held: None }
    }
}

/// What one request holds.
pub struct Hold {
    bodies: Bodies,
    held: Option<OwnedSemaphorePermit>,
}

impl Hold {
    /// Takes room for more bytes.
    ///
    /// # Errors
    ///
    /// [`Refusal::Busy`] where there is not that much left.
    pub fn more(&mut self, bytes: usize) -> Result<(), Refusal> {
        let busy = Refusal::Busy("too many bytes of requests are in memory");
        let Ok(bytes) = u32::try_from(bytes) else { return Err(busy) };
        let more = self.bodies.room.clone().try_acquire_many_owned(bytes).map_err(|_| busy)?;
        match &mut self.held {
            Some(held) => held.merge(more),
            none => *none = Some(more),
        }
        Ok(())
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
        assert_eq!(bodies.held(), 100);
        drop(one);
        assert_eq!(bodies.held(), 10);
        two.more(90).expect("given back");
    }
}
