//! A value that a reload replaces while others read it.
//!
//! Whoever reads holds what he got for as long as he works with it: a request is read by one configuration from its
//! beginning to its end, even where another one comes in between.

use std::sync::{Arc, PoisonError, RwLock};

/// What all clones see change at once. Cheap to clone.
#[derive(Debug, Default)]
pub struct Live<T>(Arc<RwLock<Arc<T>>>);

impl<T> Live<T> {
    /// This value, until it is set.
    pub fn new(value: T) -> Live<T> {
        Live(Arc::new(RwLock::new(Arc::new(value))))
    }

    /// The value as it is now.
    pub fn now(&self) -> Arc<T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces it for whoever asks from now on.
    pub fn set(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
    }
}

impl<T> Clone for Live<T> {
    fn clone(&self) -> Live<T> {
        Live(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_reads_keeps_what_he_got() {
        let live = Live::new(1);
        let (other, before) = (live.clone(), live.now());
        other.set(2);
        assert_eq!((*before, *live.now()), (1, 2));
    }
}
