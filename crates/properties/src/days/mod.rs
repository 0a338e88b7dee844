//! A day in every state of its life, and queries: each query has the same answer as a plain list of the day's records.
//!
//! A round makes records of every size and shape (`records`), commits them, takes the day from state to state
//! (`states`), and asks in each state (`questions`). Beside the day lies a list of the same records with the simplest
//! possible filter (`plain`). Texts, levels, instances, times, limits and counts must agree, in the same order. Composed
//! questions (`composed`) are compared with a second evaluator of the whole language (`language`).
//!
//! The rounds take ten seconds. Each round has its own seed, which a failure prints. A given seed is that of round one:
//!
//! ```sh
//! DAYTABLE_PROPERTIES_SEED=7 DAYTABLE_PROPERTIES_SECONDS=600 cargo test -p daytable-properties --lib days
//! ```

mod composed;
mod language;
mod plain;
mod questions;
mod records;
mod states;
mod words;

use super::replay::{below, from_environment};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// Default duration of the rounds.
const SECONDS: u64 = 10;

/// A random generator: the same seed gives the same numbers.
struct Dice(u64);

impl Dice {
    /// A number below `end`, or 0 if `end` is 0.
    fn below(&mut self, end: usize) -> usize {
        below(&mut self.0, end)
    }

    /// True once in `times` calls on average.
    fn is_one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// Every query has the answer of the plain list, in every state of the day.
#[test]
fn a_day_answers_in_every_state_as_a_plain_list_of_its_records() {
    rounds(|seed| {
        states::live_through(&mut Dice(seed.wrapping_mul(0x1000_0001)));
        states::send(&mut Dice(seed.wrapping_mul(0x2000_0001)));
    });
}

/// A bare word finds what was meant, whatever was escaped, in every state of the day.
#[test]
fn bare_words_find_what_was_meant_in_every_state_of_a_day() {
    rounds(|seed| words::find(&mut Dice(seed.wrapping_mul(0x4000_0001))));
}

/// A composed question has the answer of the second evaluator, in every state of the day, with any memory.
#[test]
fn composed_questions_have_the_answer_of_a_second_evaluator() {
    rounds(|seed| composed::answer_alike(&mut Dice(seed.wrapping_mul(0x8000_0001))));
}

fn rounds(round: impl Fn(u64)) {
    let seed = from_environment("DAYTABLE_PROPERTIES_SEED", 1);
    let (since, time) = (Instant::now(), Duration::from_secs(from_environment("DAYTABLE_PROPERTIES_SECONDS", SECONDS)));
    for seed in seed.. {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| round(seed))) {
            eprintln!("DAYTABLE_PROPERTIES_SEED={seed} begins with the round that failed");
            resume_unwind(panic);
        }
        if since.elapsed() > time {
            break;
        }
    }
}
