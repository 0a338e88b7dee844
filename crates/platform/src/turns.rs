//! Turns at the CPU, for long work that yields to other long work.
//!
//! ```text
//! question A ─ thread ─┐                ┌─► turn 1      as many turns as cores
//! question B ─ thread ─┼─ who waits ────┤
//!            ─ thread ─┘  new ones,     └─► turn 2      a turn is passed on after 4 ms
//!                         then long ones
//! ```
//!
//! 1. A thread works within [`Turns::enter`], and calls [`pass`] between two steps. A thread without a turnstile is not
//!    affected by any function.
//! 2. A new question gets a turn before a long one. Of four turns in a row, one is for a long question that waits.
//! 3. A thread that waits for anything else, such as a client or a network, waits within [`pause`], without its turn.
//! 4. A thread that has waited for `WAIT_MAX` works without a turn. So a step that waits for another thread, by mistake,
//!    never waits for good.

use crate::lock;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// How long a turn lasts while others wait.
const TURN: Duration = Duration::from_millis(4);
/// The work of a question until it is a long one.
const LONG_QUESTION: Duration = Duration::from_millis(20);
/// Turns in a row for new questions while a long one waits.
const NEW_IN_A_ROW: u32 = 3;
/// How long a thread waits for a turn.
const WAIT_MAX: Duration = Duration::from_secs(1);

thread_local! {
    static CURRENT: RefCell<Option<Turn>> = const { RefCell::new(None) };
}

/// A turnstile. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Turns(Arc<Shared>);

/// A question at a turnstile, for its further threads.
#[derive(Clone, Debug)]
pub struct QuestionTurns {
    shared: Arc<Shared>,
    /// Microseconds of work of all threads.
    worked: Arc<AtomicU64>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    /// How many threads wait, so that a pass needs no lock.
    waiting: AtomicUsize,
}

#[derive(Debug)]
struct State {
    free: usize,
    new: VecDeque<Arc<Waiter>>,
    long: VecDeque<Arc<Waiter>>,
    new_in_a_row: u32,
}

#[derive(Debug)]
struct Waiter {
    thread: Thread,
    has_turn: AtomicBool,
}

/// The turn of this thread.
struct Turn {
    question: QuestionTurns,
    since: Instant,
    /// Whether the turn is one of the turnstile.
    is_counted: bool,
}

impl Turns {
    /// A turnstile with this many turns at a time, at least one.
    pub fn new(turns: usize) -> Turns {
        let state = State { free: turns.max(1), new: VecDeque::new(), long: VecDeque::new(), new_in_a_row: 0 };
        Turns(Arc::new(Shared { state: Mutex::new(state), waiting: AtomicUsize::new(0) }))
    }

    /// Does the work of a new question, when it is its turn.
    pub fn enter<R>(&self, work: impl FnOnce() -> R) -> R {
        QuestionTurns { shared: self.0.clone(), worked: Arc::default() }.enter(work)
    }
}

impl QuestionTurns {
    /// The question of this thread, if it has one.
    pub fn current() -> Option<QuestionTurns> {
        CURRENT.with_borrow(|turn| turn.as_ref().map(|turn| turn.question.clone()))
    }

    /// Does work of the question in this thread, when it is its turn.
    pub fn enter<R>(self, work: impl FnOnce() -> R) -> R {
        let is_counted = self.wait();
        let turn = Turn { question: self, since: Instant::now(), is_counted };
        let _ends = EndOfTurn(CURRENT.replace(Some(turn)));
        work()
    }

    /// Waits for a turn. False if none came for too long.
    fn wait(&self) -> bool {
        let is_new = Duration::from_micros(self.worked.load(Ordering::Relaxed)) < LONG_QUESTION;
        let waiter = Arc::new(Waiter { thread: std::thread::current(), has_turn: AtomicBool::new(false) });
        {
            let mut state = lock(&self.shared.state);
            if state.free > 0 {
                state.free -= 1;
                return true;
            }
            state.queue(is_new).push_back(waiter.clone());
            self.shared.waiting.fetch_add(1, Ordering::Relaxed);
        }
        let end = Instant::now() + WAIT_MAX;
        while !waiter.has_turn.load(Ordering::Acquire) {
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

    /// Gives the turn to the next thread that waits.
    fn give(&self) {
        let mut state = lock(&self.shared.state);
        let Some(waiter) = state.next() else {
            state.free += 1;
            return;
        };
        self.shared.waiting.fetch_sub(1, Ordering::Relaxed);
        waiter.has_turn.store(true, Ordering::Release);
        waiter.thread.unpark();
    }
}

impl State {
    fn queue(&mut self, is_new: bool) -> &mut VecDeque<Arc<Waiter>> {
        if is_new { &mut self.new } else { &mut self.long }
    }

    fn next(&mut self) -> Option<Arc<Waiter>> {
        let is_new = !self.new.is_empty() && (self.long.is_empty() || self.new_in_a_row < NEW_IN_A_ROW);
        self.new_in_a_row = if is_new { self.new_in_a_row + 1 } else { 0 };
        self.queue(is_new).pop_front()
    }
}

impl Turn {
    /// Ends the turn, and counts the work.
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

/// Ends the turn of this thread, and restores the one before, also after a panic.
struct EndOfTurn(Option<Turn>);

impl Drop for EndOfTurn {
    fn drop(&mut self) {
        if let Some(mut turn) = CURRENT.replace(self.0.take()) {
            turn.end();
        }
    }
}

/// Lets others have the turn of this thread, if it has lasted long enough and others wait.
pub fn pass() {
    CURRENT.with_borrow_mut(|turn| {
        let Some(turn) = turn else { return };
        if turn.question.shared.waiting.load(Ordering::Relaxed) > 0 && turn.since.elapsed() >= TURN {
            turn.end();
            turn.begin();
        }
    });
}

/// Waits within `wait` without a turn. Afterwards this thread waits for its turn.
pub fn pause<R>(wait: impl FnOnce() -> R) -> R {
    let turn = CURRENT.take();
    let Some(mut turn) = turn else { return wait() };
    turn.end();
    let waited = wait();
    turn.begin();
    CURRENT.set(Some(turn));
    waited
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::channel;

    /// Works for three turns.
    fn work_long() {
        let end = Instant::now() + 3 * TURN;
        while Instant::now() < end {
            std::hint::spin_loop();
            pass();
        }
    }

    #[test]
    fn as_many_threads_work_as_there_are_turns() {
        let (turns, working, most) = (Turns::new(2), AtomicUsize::new(0), AtomicUsize::new(0));
        std::thread::scope(|scope| {
            for _ in 0..16 {
                scope.spawn(|| {
                    turns.enter(|| {
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
        assert_eq!(lock(&turns.0.state).free, 2);
        assert_eq!(turns.0.waiting.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_thread_that_pauses_blocks_nobody() {
        let turns = Turns::new(1);
        let (pausing, is_pausing) = channel();
        let (go_on, may_go_on) = channel::<()>();
        std::thread::scope(|scope| {
            let of_first = turns.clone();
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
                let worked = turns.enter(|| true);
                assert!(worked);
            }
            go_on.send(()).expect("the thread pauses");
        });
    }

    #[test]
    fn a_question_shares_its_turns_with_its_threads() {
        let turns = Turns::new(1);
        assert!(QuestionTurns::current().is_none());
        let sum = turns.enter(|| {
            let question = QuestionTurns::current().expect("this thread has one");
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
    fn a_thread_that_never_passes_does_not_stop_others_for_good() {
        let turns = Turns::new(1);
        let worked = turns.enter(|| {
            // A mistake: this thread waits for another question, and does not pause.
            std::thread::scope(|scope| scope.spawn(|| turns.enter(|| true)).join().expect("no panic"))
        });
        assert!(worked);
        assert_eq!(lock(&turns.0.state).free, 1);
    }

    #[test]
    fn a_panic_ends_the_turn() {
        let turns = Turns::new(1);
        let caught = std::panic::catch_unwind(|| turns.enter(|| panic!("a test")));
        assert!(caught.is_err());
        assert_eq!(lock(&turns.0.state).free, 1);
        assert!(QuestionTurns::current().is_none());
    }

    #[test]
    fn new_questions_come_first_but_long_ones_are_not_forgotten() {
        let waiter = || Arc::new(Waiter { thread: std::thread::current(), has_turn: AtomicBool::new(false) });
        let (long, turns) = (waiter(), Turns::new(1));
        let mut state = lock(&turns.0.state);
        state.long.push_back(long.clone());
        for _ in 0..8 {
            state.new.push_back(waiter());
        }
        let order: Vec<bool> = std::iter::from_fn(|| state.next()).map(|waiter| Arc::ptr_eq(&waiter, &long)).collect();
        assert_eq!(order.iter().position(|is_long| *is_long), Some(3));
        assert_eq!(order.len(), 9);
    }
}
