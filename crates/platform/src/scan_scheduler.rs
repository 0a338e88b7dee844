//! The scheduler of scans: CPU slots, for long work that yields to other long work.
//!
//! ```text
//! question A ─ thread ─┐                ┌─► slot 1      as many slots as cores
//! question B ─ thread ─┼─ who waits ────┤
//!            ─ thread ─┘  new ones,     └─► slot 2      a slot is yielded after a time slice of 4 ms
//!                         then long ones
//! ```
//!
//! 1. A thread works within [`ScanScheduler::enter`], and calls [`yield_now`] between two steps. A thread without a slot is
//!    not affected by any function.
//! 2. A new question gets a slot before a long one. Of four slots in a row, one is for a long question that waits.
//! 3. A thread that waits for anything else, such as a client or a network, waits within [`pause`], without its slot.
//! 4. A thread that has waited for `WAIT_MAX` works without a slot. So a step that waits for another thread, by mistake,
//!    never waits for good.
//! 5. [`SlotReserve`] keeps slots free for work that is more urgent, such as a commit. A thread gives up its slot at the
//!    next [`yield_now`] when fewer slots are left than there are threads with one.

use crate::{lock, memory};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// Added to the niceness of the further threads of a question.
const NICENESS: i32 = 10;
/// How long a slot is held while others wait.
const TIME_SLICE: Duration = Duration::from_millis(4);
/// The work of a question until it is a long one.
const LONG_QUESTION: Duration = Duration::from_millis(20);
/// Slots in a row for new questions while a long one waits.
const NEW_IN_A_ROW: u32 = 3;
/// How long a thread waits for a slot.
const WAIT_MAX: Duration = Duration::from_secs(1);

thread_local! {
    static CURRENT: RefCell<Option<HeldSlot>> = const { RefCell::new(None) };
}

/// The scheduler of the scans of a process. Cheap to clone.
#[derive(Clone, Debug)]
pub struct ScanScheduler(Arc<Shared>);

/// A question at the scheduler, for its further threads.
#[derive(Clone, Debug)]
pub struct ScheduledQuestion {
    shared: Arc<Shared>,
    /// Microseconds of work of all threads.
    worked: Arc<AtomicU64>,
}

/// Keeps slots of a scheduler free for work that is more urgent. Cheap to clone.
#[derive(Clone, Debug)]
pub struct SlotReserve(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// How many threads wait, so that a yield needs no lock.
    waiting: AtomicUsize,
    /// Whether more threads have slots than are allowed, for the same reason.
    is_exceeded: AtomicBool,
}

#[derive(Debug)]
struct State {
    slots: usize,
    reserved: usize,
    taken: usize,
    new: VecDeque<Arc<Waiter>>,
    long: VecDeque<Arc<Waiter>>,
    new_in_a_row: u32,
}

#[derive(Debug)]
struct Waiter {
    thread: Thread,
    has_slot: AtomicBool,
}

/// The slot of this thread.
struct HeldSlot {
    question: ScheduledQuestion,
    since: Instant,
    /// Whether the slot is one of the scheduler.
    is_counted: bool,
}

impl ScanScheduler {
    /// A scheduler with this many slots, at least one.
    pub fn new(slots: usize) -> ScanScheduler {
        let state = State {
            slots: slots.max(1),
            reserved: 0,
            taken: 0,
            new: VecDeque::new(),
            long: VecDeque::new(),
            new_in_a_row: 0,
        };
        let (waiting, is_exceeded) = (AtomicUsize::new(0), AtomicBool::new(false));
        ScanScheduler(Arc::new(Shared { state: Mutex::new(state), waiting, is_exceeded }))
    }

    /// What keeps slots of this scheduler free.
    pub fn reserve(&self) -> SlotReserve {
        SlotReserve(self.0.clone())
    }

    /// Does the work of a new question, when it has a slot.
    pub fn enter<R>(&self, work: impl FnOnce() -> R) -> R {
        ScheduledQuestion { shared: self.0.clone(), worked: Arc::default() }.enter(work)
    }
}

impl ScheduledQuestion {
    /// The question of this thread, if it has one.
    pub fn current() -> Option<ScheduledQuestion> {
        CURRENT.with_borrow(|slot| slot.as_ref().map(|slot| slot.question.clone()))
    }

    /// Does work in a further thread, of a question if it is one's. The thread has a lower priority, so that commits get the
    /// CPU first.
    pub fn in_further_thread<R>(question: Option<ScheduledQuestion>, work: impl FnOnce() -> R) -> R {
        crate::lower_priority(NICENESS);
        match question {
            Some(question) => question.enter(work),
            None => work(),
        }
    }

    /// Does work of the question in this thread, when it has a slot.
    pub fn enter<R>(self, work: impl FnOnce() -> R) -> R {
        let is_counted = self.wait();
        let slot = HeldSlot { question: self, since: Instant::now(), is_counted };
        let _ends = SlotEnd(CURRENT.replace(Some(slot)));
        work()
    }

    /// Waits for a slot. False if none came for too long.
    fn wait(&self) -> bool {
        let is_new = Duration::from_micros(self.worked.load(Ordering::Relaxed)) < LONG_QUESTION;
        let waiter = Arc::new(Waiter { thread: std::thread::current(), has_slot: AtomicBool::new(false) });
        {
            let mut state = lock(&self.shared.state);
            if state.taken < state.allowed() {
                state.taken += 1;
                return true;
            }
            state.queue(is_new).push_back(waiter.clone());
            self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        }
        let end = Instant::now() + WAIT_MAX;
        while !waiter.has_slot.load(Ordering::Acquire) {
            let left = end.saturating_duration_since(Instant::now());
            if !left.is_zero() {
                std::thread::park_timeout(left);
                continue;
            }
            let mut state = lock(&self.shared.state);
            let queue = state.queue(is_new);
            if let Some(at) = queue.iter().position(|other| Arc::ptr_eq(other, &waiter)) {
                queue.remove(at);
                self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
                return false;
            }
        }
        true
    }

    /// Gives the slot to the next thread that waits.
    fn give(&self) {
        let mut state = lock(&self.shared.state);
        state.taken -= 1;
        self.shared.hand_out(&mut state);
    }
}

impl SlotReserve {
    /// How many slots are kept free.
    pub fn reserved(&self) -> usize {
        lock(&self.0.state).reserved
    }

    /// Keeps this many slots free from now on, but leaves one to threads that ask for one.
    pub fn set(&self, reserved: usize) {
        let mut state = lock(&self.0.state);
        if state.reserved != reserved {
            state.reserved = reserved;
            self.0.hand_out(&mut state);
        }
    }
}

impl Shared {
    /// Gives the slots that are free to threads that wait.
    fn hand_out(&self, state: &mut State) {
        while state.taken < state.allowed()
            && let Some(waiter) = state.next()
        {
            state.taken += 1;
            self.waiting.fetch_sub(1, Ordering::Relaxed);
            waiter.has_slot.store(true, Ordering::Release);
            waiter.thread.unpark();
        }
        self.is_exceeded.store(state.taken > state.allowed(), Ordering::Relaxed);
    }
}

impl State {
    /// How many threads may have a slot.
    fn allowed(&self) -> usize {
        self.slots.saturating_sub(self.reserved).max(1)
    }

    fn queue(&mut self, is_new: bool) -> &mut VecDeque<Arc<Waiter>> {
        if is_new { &mut self.new } else { &mut self.long }
    }

    fn next(&mut self) -> Option<Arc<Waiter>> {
        let is_new = !self.new.is_empty() && (self.long.is_empty() || self.new_in_a_row < NEW_IN_A_ROW);
        self.new_in_a_row = if is_new { self.new_in_a_row + 1 } else { 0 };
        self.queue(is_new).pop_front()
    }
}

impl HeldSlot {
    /// Gives the slot back, and counts the work.
    fn end(&mut self) {
        let worked = u64::try_from(self.since.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.question.worked.fetch_add(worked, Ordering::Relaxed);
        if std::mem::take(&mut self.is_counted) {
            self.question.give();
        }
    }

    fn begin(&mut self) {
        self.is_counted = self.question.wait();
        self.since = Instant::now();
    }
}

/// Gives back the slot of this thread, and restores the one before, also after a panic.
struct SlotEnd(Option<HeldSlot>);

impl Drop for SlotEnd {
    fn drop(&mut self) {
        if let Some(mut slot) = CURRENT.replace(self.0.take()) {
            slot.end();
        }
    }
}

/// Yields the slot of this thread, if it was held long enough and others wait, or if too many threads work. The
/// memory that the steps before have freed goes back to the system where the process is large.
pub fn yield_now() {
    memory::release_free_while_working();
    CURRENT.with_borrow_mut(|slot| {
        let Some(slot) = slot else { return };
        let shared = &slot.question.shared;
        let is_over = || shared.waiting.load(Ordering::Relaxed) > 0 && slot.since.elapsed() >= TIME_SLICE;
        if shared.is_exceeded.load(Ordering::Relaxed) && slot.is_counted || is_over() {
            slot.end();
            slot.begin();
        }
    });
}

/// Waits within `wait` without a slot. Afterwards this thread waits for its slot.
pub fn pause<R>(wait: impl FnOnce() -> R) -> R {
    let slot = CURRENT.take();
    let Some(mut slot) = slot else { return wait() };
    slot.end();
    let waited = wait();
    slot.begin();
    CURRENT.set(Some(slot));
    waited
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// Works for three time slices.
    fn work_long() {
        let end = Instant::now() + 3 * TIME_SLICE;
        while Instant::now() < end {
            std::hint::spin_loop();
            yield_now();
        }
    }

    #[test]
    fn as_many_threads_work_as_there_are_slots() {
        let (scheduler, working, most) = (ScanScheduler::new(2), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    scheduler.enter(|| {
                        let now = working.fetch_add(1, Ordering::SeqCst) + 1;
                        most.fetch_max(now, Ordering::SeqCst);
                        std::thread::yield_now();
                        working.fetch_sub(1, Ordering::SeqCst);
                        work_long();
                    });
                });
            }
        });
        assert!(most.into_inner() <= 2);
        assert_eq!(lock(&scheduler.0.state).taken, 0);
        assert_eq!(scheduler.0.waiting.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_thread_that_pauses_blocks_nobody() {
        let scheduler = ScanScheduler::new(1);
        let (pausing, is_pausing) = channel();
        let (go_on, may_go_on) = channel::<()>();
        std::thread::scope(|scope| {
            let of_first = scheduler.clone();
            scope.spawn(move || {
                of_first.enter(|| {
                    pause(|| {
                        pausing.send(()).expect("the test waits");
                        may_go_on.recv().expect("the test ends the pause");
                    });
                });
            });
            is_pausing.recv().expect("the thread pauses");
            for _ in 0..64 {
                let worked = scheduler.enter(|| true);
                assert!(worked);
            }
            go_on.send(()).expect("the thread pauses");
        });
    }

    #[test]
    fn a_question_shares_its_slots_with_its_threads() {
        let scheduler = ScanScheduler::new(1);
        assert!(ScheduledQuestion::current().is_none());
        let sum = scheduler.enter(|| {
            let question = ScheduledQuestion::current().expect("this thread has one");
            pause(|| {
                std::thread::scope(|scope| {
                    let threads: Vec<_> = (0..3)
                        .map(|number| {
                            let question = question.clone();
                            scope.spawn(move || question.enter(|| number))
                        })
                        .collect();
                    threads.into_iter().map(|thread| thread.join().expect("no panic")).sum::<i32>()
                })
            })
        });
        assert_eq!(sum, 3);
    }

    #[test]
    fn a_thread_that_never_yields_does_not_stop_others_for_good() {
        let scheduler = ScanScheduler::new(1);
        let worked = scheduler.enter(|| {
            // A mistake: this thread waits for another question, and does not pause.
            std::thread::scope(|scope| scope.spawn(|| scheduler.enter(|| true)).join().expect("no panic"))
        });
        assert!(worked);
        assert_eq!(lock(&scheduler.0.state).taken, 0);
    }

    #[test]
    fn a_reserved_slot_is_given_up_when_its_thread_yields_and_comes_back() {
        let scheduler = ScanScheduler::new(2);
        let (reserve, is_over) = (scheduler.reserve(), AtomicBool::new(false));
        let until = |taken: usize, waiting: usize| {
            let end = Instant::now() + Duration::from_secs(60);
            let is_so = || {
                let is_taken = lock(&scheduler.0.state).taken == taken;
                is_taken && scheduler.0.waiting.load(Ordering::Relaxed) == waiting
            };
            // Threads exchange their slots, so this may be so for a moment.
            while Instant::now() < end {
                if is_so() {
                    return true;
                }
                std::thread::yield_now();
            }
            false
        };
        let seen = std::thread::scope(|scope| {
            for _ in 0..2 {
                // A thread that waited for too long works without a slot until it enters again.
                scope.spawn(|| {
                    while !is_over.load(Ordering::Relaxed) {
                        scheduler.enter(|| (0..1000).for_each(|_| yield_now()));
                    }
                });
            }
            let both_work = until(2, 0);
            reserve.set(1);
            let one_waits = until(1, 1);
            reserve.set(0);
            let both_work_again = until(2, 0);
            // More than there are: one is left.
            reserve.set(9);
            let one_waits_again = until(1, 1);
            // A panic before it would wait for the threads for good.
            is_over.store(true, Ordering::Relaxed);
            [both_work, one_waits, both_work_again, one_waits_again]
        });
        assert_eq!(seen, [true; 4], "both work, one waits, both work again, one waits");
        assert_eq!(lock(&scheduler.0.state).taken, 0);
        assert_eq!(reserve.reserved(), 9);
    }

    #[test]
    fn a_panic_ends_the_slot() {
        let scheduler = ScanScheduler::new(1);
        let caught = std::panic::catch_unwind(|| scheduler.enter(|| panic!("a test")));
        assert!(caught.is_err());
        assert_eq!(lock(&scheduler.0.state).taken, 0);
        assert!(ScheduledQuestion::current().is_none());
    }

    #[test]
    fn new_questions_come_first_but_long_ones_are_not_forgotten() {
        let waiter = || Arc::new(Waiter { thread: std::thread::current(), has_slot: AtomicBool::new(false) });
        let (long, scheduler) = (waiter(), ScanScheduler::new(1));
        let mut state = lock(&scheduler.0.state);
        state.long.push_back(long.clone());
        for _ in 0..8 {
            state.new.push_back(waiter());
        }
        let order: Vec<bool> = std::iter::from_fn(|| state.next()).map(|waiter| Arc::ptr_eq(&waiter, &long)).collect();
        assert_eq!(order.iter().position(|is_long| *is_long), Some(3));
        assert_eq!(order.len(), 9);
    }
}
