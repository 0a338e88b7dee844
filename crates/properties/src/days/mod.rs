//! A day in every state of its life, and questions: each has the answer that a plain list of the day's records gives.
//!
//! A round makes records of every size and shape (`records`), commits them, takes the day from one state to the next
//! (`states`), and asks in each state (`questions`). Beside it lies a list of the same records, which is filtered with no
//! cleverness at all (`plain`): text, levels, instances, times, limits and counts must say the same, in the same order.
//!
//! The rounds take ten seconds. Each has a seed of its own, which a failure says; asked for, it is the first round:
//!
//! ```sh
//! DAYTABLE_PROPERTIES_SEED=7 DAYTABLE_PROPERTIES_SECONDS=600 cargo test -p daytable-properties --lib days
//! ```

mod plain;
mod questions;
mod records;
mod states;

use super::replay::{below, from_environment};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::time::{Duration, Instant};

/// How long the rounds take, if nothing else is asked for.
const SECONDS: u64 = 10;

/// Numbers by chance, the same for the same seed.
struct Dice(u64);

impl Dice {
    /// A number below `end`; 0 where that is 0.
    fn below(&mut self, end: usize) -> usize {
        below(&mut self.0, end)
    }

    /// True once in so many times.
    fn is_one_in(&mut self, times: usize) -> bool {
        self.below(times) == 0
    }

    fn pick<'a, T>(&mut self, of: &'a [T]) -> &'a T {
        &of[self.below(of.len())]
    }
}

/// Every question has the answer of the plain list, whatever became of the day.
#[test]
fn a_day_answers_in_every_state_as_a_plain_list_of_its_records() {
    let seed = from_environment("DAYTABLE_PROPERTIES_SEED", 1);
    let (since, time) = (Instant::now(), Duration::from_secs(from_environment("DAYTABLE_PROPERTIES_SECONDS", SECONDS)));
    for seed in seed.. {
        let round = || {
            states::live_through(&mut Dice(seed.wrapping_mul(0x1000_0001)));
            states::send(&mut Dice(seed.wrapping_mul(0x2000_0001)));
        };
        if let Err(panic) = catch_unwind(AssertUnwindSafe(round)) {
            eprintln!("DAYTABLE_PROPERTIES_SEED={seed} begins with the round that failed");
            resume_unwind(panic);
        }
        if since.elapsed() > time {
            break;
        }
    }
}
