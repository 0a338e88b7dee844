//! The same work for several files at once. Most of the time, such work waits for the disk.

use std::sync::{Mutex, PoisonError};

/// Threads that work at once.
const THREADS_MAX: usize = 8;
/// Items from which threads are worth their start.
const ITEMS_MIN: usize = 4;

/// Does `work` for every item. Returns the results in the order of the items.
pub(crate) fn in_parallel<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    if items.len() < ITEMS_MIN {
        return items.into_iter().map(work).collect();
    }
    let threads = items.len().min(THREADS_MAX);
    let left = Mutex::new(items.into_iter().enumerate());
    let next = || left.lock().unwrap_or_else(PoisonError::into_inner).next();
    let mut done: Vec<(usize, R)> = std::thread::scope(|scope| {
        let run = || std::iter::from_fn(next).map(|(at, item)| (at, work(item))).collect::<Vec<_>>();
        let started: Vec<_> = (0..threads).map(|_| scope.spawn(run)).collect();
        let joined = started.into_iter().map(|thread| thread.join());
        joined.flat_map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))).collect()
    });
    done.sort_by_key(|(at, _)| *at);
    done.into_iter().map(|(_, result)| result).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_items() {
        for count in [0, 1, 3, 4, 100] {
            let doubled = in_parallel((0..count).collect(), |n: u64| {
                std::thread::yield_now();
                2 * n
            });
            assert_eq!(doubled, (0..count).map(|n| 2 * n).collect::<Vec<_>>());
        }
    }
}
