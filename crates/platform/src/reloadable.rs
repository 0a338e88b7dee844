//! A value that a reload replaces while other threads read it.
//!
//! A reader keeps the value it loaded until it drops it. A request therefore uses one configuration from its beginning to
//! its end, even if a reload happens in between.

use std::sync::{Arc, PoisonError, RwLock};

/// A shared value. Every clone sees a replacement at once. Cheap to clone.
#[derive(Debug, Default)]
pub struct Reloadable<T>(Arc<RwLock<Arc<T>>>);

impl<T> Reloadable<T> {
    /// Starts with `value`.
    pub fn new(value: T) -> Reloadable<T> {
        Reloadable(Arc::new(RwLock::new(Arc::new(value))))
    }

    /// The current value.
    pub fn load(&self) -> Arc<T> {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Replaces the value for every later [`Reloadable::load`].
    pub fn store(&self, value: T) {
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(value);
    }
}

impl<T> Clone for Reloadable<T> {
    fn clone(&self) -> Reloadable<T> {
        Reloadable(self.0.clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reader_keeps_the_value_that_it_loaded() {
        let value = Reloadable::new(1);
        let (clone, before) = (value.clone(), value.load());
        clone.store(2);
        assert_eq!((*before, *value.load()), (1, 2));
    }
}
