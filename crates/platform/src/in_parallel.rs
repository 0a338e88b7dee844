//! The same work for several things at once.

use crate::lock;
use std::sync::{Mutex, OnceLock};
use std::thread::{self, Builder};

/// Threads that work at once.
const THREADS_MAX: usize = 8;
/// Items from which threads are worth their start.
const ITEMS_MIN: usize = 4;
/// Threads that compute at once.
const CORES_MAX: usize = 4;

/// Does work that mostly waits for the disk, for every item. Returns the results in the order of the items.
pub fn in_parallel<T: Send, R: Send>(items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    let threads = if items.len() < ITEMS_MIN { 1 } else { items.len().min(THREADS_MAX) };
    run(threads, items, work)
}

/// Does work that mostly computes, for every item, by this many cores. Returns the results in the order of the items.
pub fn on_cores<T: Send, R: Send>(cores: usize, items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    run(items.len().min(cores), items, work)
}

/// All cores that [`on_cores`] is to work with.
pub fn cores() -> usize {
    // Counting them reads files of the kernel.
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| thread::available_parallelism().map_or(1, usize::from).min(CORES_MAX))
}

/// Does work that mostly waits for others, for every item, this many at once. Returns the results in the order of the
/// items.
pub fn by_threads<T: Send, R: Send>(threads: usize, items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    run(items.len().min(threads), items, work)
}

/// Works by this many threads, of which this one is the first.
fn run<T: Send, R: Send>(threads: usize, items: Vec<T>, work: impl Fn(T) -> R + Sync) -> Vec<R> {
    if threads <= 1 {
        return items.into_iter().map(work).collect();
    }
    let left = Mutex::new(items.into_iter().enumerate());
    let next = || lock(&left).next();
    let mut done: Vec<(usize, R)> = thread::scope(|scope| {
        let run = || std::iter::from_fn(next).map(|(at, item)| (at, work(item))).collect::<Vec<_>>();
        // Where no more threads are to be had, this one does all of it.
        let started: Vec<_> = (1..threads).map_while(|_| Builder::new().spawn_scoped(scope, run).ok()).collect();
        let mut done = run();
        let joined = started.into_iter().map(|thread| thread.join());
        done.extend(joined.flat_map(|done| done.unwrap_or_else(|panic| std::panic::resume_unwind(panic))));
        done
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
            let double = |n: u64| {
                std::thread::yield_now();
                2 * n
            };
            let expected: Vec<u64> = (0..count).map(|n| 2 * n).collect();
            assert_eq!(in_parallel((0..count).collect(), double), expected);
            assert_eq!(on_cores(2, (0..count).collect(), double), expected);
        }
    }
}
