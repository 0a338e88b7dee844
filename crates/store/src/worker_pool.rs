//! Threads for long work such as sealing. They have a lower priority, so commits and readers come first.

use std::collections::VecDeque;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Mutex;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;

/// Threads of a pool, at most.
const THREADS_MAX: usize = 4;
/// How much lower the priority of these threads is.
const NICENESS: i32 = 5;

type Job<'j> = Box<dyn FnOnce() + Send + 'j>;

/// Threads that run jobs. Jobs may borrow what lives longer than the pool.
pub(crate) struct WorkerPool<'j> {
    jobs: Sender<Job<'j>>,
    threads: usize,
}

/// The result of a job to come.
struct Ticket<R>(Receiver<thread::Result<R>>);

/// Jobs of one kind, whose results come in the order of the jobs.
pub(crate) struct InOrder<'p, 'j, R> {
    pool: &'p WorkerPool<'j>,
    tickets: VecDeque<Ticket<R>>,
}

impl<'j> WorkerPool<'j> {
    /// Passes a pool to `work`. Its threads end with the call.
    pub(crate) fn with<R>(work: impl FnOnce(&WorkerPool<'j>) -> R) -> io::Result<R> {
        let threads = thread::available_parallelism().map_or(1, usize::from).min(THREADS_MAX);
        let (jobs, queue) = channel::<Job<'j>>();
        let queue = Mutex::new(queue);
        thread::scope(|scope| {
            for _ in 0..threads {
                thread::Builder::new().name("seal".into()).spawn_scoped(scope, || work_off(&queue))?;
            }
            let pool = WorkerPool { jobs, threads };
            Ok(work(&pool))
        })
    }

    /// A sequence of jobs.
    pub(crate) fn in_order<R: Send + 'j>(&self) -> InOrder<'_, 'j, R> {
        InOrder { pool: self, tickets: VecDeque::new() }
    }

    fn run<R: Send + 'j>(&self, job: impl FnOnce() -> R + Send + 'j) -> Ticket<R> {
        let (done, ticket) = channel();
        // The threads take jobs as long as the pool lives. Whoever waits sees the panic of a job.
        let _ = self.jobs.send(Box::new(move || {
            let _ = done.send(catch_unwind(AssertUnwindSafe(job)));
        }));
        Ticket(ticket)
    }
}

impl<R> Ticket<R> {
    fn wait(self) -> R {
        match self.0.recv().expect("a job sends its result, or its panic") {
            Ok(result) => result,
            Err(panic) => resume_unwind(panic),
        }
    }
}

impl<'j, R: Send + 'j> InOrder<'_, 'j, R> {
    /// Runs a job. If a job for each thread is under way, waits for the oldest and returns its result.
    pub(crate) fn run(&mut self, job: impl FnOnce() -> R + Send + 'j) -> Option<R> {
        let oldest = if self.is_full() { self.next() } else { None };
        self.tickets.push_back(self.pool.run(job));
        oldest
    }

    /// Whether a job for each thread is under way.
    pub(crate) fn is_full(&self) -> bool {
        self.tickets.len() >= self.pool.threads
    }

    /// The result of the oldest job; `None` if no job is left.
    pub(crate) fn next(&mut self) -> Option<R> {
        self.tickets.pop_front().map(Ticket::wait)
    }
}

fn work_off(queue: &Mutex<Receiver<Job<'_>>>) {
    daytable_platform::lower_priority(NICENESS);
    loop {
        let job = daytable_platform::lock(queue).recv();
        let Ok(job) = job else { break };
        job();
    }
    daytable_platform::memory::release_free();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_the_order_of_the_jobs() {
        let numbers: Vec<u64> = (0..100).collect();
        let mut doubled = Vec::new();
        let done = WorkerPool::with(|pool| {
            let mut jobs = pool.in_order();
            for number in &numbers {
                doubled.extend(jobs.run(move || 2 * number));
            }
            doubled.extend(std::iter::from_fn(|| jobs.next()));
        });
        assert!(done.is_ok());
        assert_eq!(doubled, numbers.iter().map(|n| 2 * n).collect::<Vec<_>>());
    }

    #[test]
    fn the_panic_of_a_job_reaches_who_waits() {
        let caught = catch_unwind(|| {
            WorkerPool::with(|pool| {
                let mut jobs = pool.in_order();
                jobs.run(|| assert_eq!(1, 2));
                jobs.next()
            })
        });
        assert!(caught.is_err());
    }
}
