//! A sequence of numbers that goes up by one a record, read from its newest record to its oldest: which are missing, and
//! which come twice.
//!
//! A sequence may begin anew at 0 or 1 (its sender was started again; a number of RFC 5424 wraps to 1): then it is another
//! *life* of it. How a life ended and where the oldest that is kept began nobody knows, so nothing is missed there. Where a sequence
//! goes back to a number that it had, and has not come from its beginning, that number came twice.
//!
//! Records may be a little out of order ([`DISORDER`]): a number that is late fills the hole that it left. Memory is
//! bounded: [`HOLES_MAX`] holes of two lives.

use crate::time::Ticks;
use std::collections::BTreeMap;
use std::time::Duration;

/// How far apart in time records may be that are out of order where a life begins or ends.
const DISORDER: Duration = Duration::from_secs(2);
/// How far apart their numbers may be.
const AHEAD_MAX: u64 = 1000;
/// Holes of a life that may still be filled.
const HOLES_MAX: usize = 64;
/// The greatest number that a life may begin with.
const BEGINNING_MAX: u64 = 1;

/// Numbers `from` to `to` that are not as they should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) what: What,
    /// Missing: the times of the records before and behind them. Twice: those of the first and the last of them.
    pub(super) between: (Ticks, Ticks),
}

/// What is so of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum What {
    Missing,
    Twice,
}

impl Gap {
    /// How many they are.
    pub(super) fn numbers(&self) -> u64 {
        (self.to - self.from).saturating_add(1)
    }
}

/// A sequence, as far back as it was read.
#[derive(Debug, Default)]
pub(super) struct Stream {
    life: Option<Life>,
    /// The one that began behind it: records of it may be among those of `life`, where that ends.
    later: Option<Life>,
    /// Numbers that came twice, while more may follow them.
    twice: Option<Gap>,
}

/// From one beginning of the numbers to the next.
#[derive(Debug)]
struct Life {
    least: (u64, Ticks),
    greatest: (u64, Ticks),
    /// By their first number: the last one, and between which times.
    holes: BTreeMap<u64, (u64, (Ticks, Ticks))>,
}

impl Stream {
    /// Takes the next older record. `told` hears of what cannot be mended by those that come.
    pub(super) fn older(&mut self, number: u64, at: Ticks, told: &mut dyn FnMut(Gap)) {
        let Some(life) = &mut self.life else {
            self.life = Some(Life::of(number, at));
            return;
        };
        if number.checked_add(1) == Some(life.least.0) {
            life.least = (number, at);
            return;
        }
        if let Some(later) = &mut self.later
            && apart(later.least.1, at) <= DISORDER
            && (number.checked_add(1) == Some(later.least.0) || later.has_hole(number))
        {
            later.take(number, at, told);
            return;
        }
        let (least, greatest) = (life.least.0, life.greatest);
        // Behind its beginning there are records of the life before, which has numbers of its own.
        let is_open = least > BEGINNING_MAX || apart(life.least.1, at) <= DISORDER;
        let is_new = is_open && life.has_hole(number);
        let is_at_its_end = number > greatest.0
            && number - greatest.0 <= AHEAD_MAX
            && least > BEGINNING_MAX
            && apart(greatest.1, at) <= DISORDER;
        if number < least || is_new || is_at_its_end {
            life.take(number, at, told);
        } else if number > greatest.0 || least <= BEGINNING_MAX {
            let ended = std::mem::replace(life, Life::of(number, at));
            if let Some(later) = self.later.replace(ended) {
                later.end(told);
            }
        } else {
            self.came_twice(number, at, told);
        }
    }

    /// Nothing older is known.
    pub(super) fn end(self, told: &mut dyn FnMut(Gap)) {
        for life in [self.later, self.life].into_iter().flatten() {
            life.end(told);
        }
        self.twice.into_iter().for_each(told);
    }

    fn came_twice(&mut self, number: u64, at: Ticks, told: &mut dyn FnMut(Gap)) {
        match &mut self.twice {
            Some(run) if number.checked_add(1) == Some(run.from) => {
                (run.from, run.between.0) = (number, at);
            }
            run => {
                let next = Gap { from: number, to: number, what: What::Twice, between: (at, at) };
                run.replace(next).into_iter().for_each(told);
            }
        }
    }
}

impl Life {
    fn of(number: u64, at: Ticks) -> Life {
        Life { least: (number, at), greatest: (number, at), holes: BTreeMap::new() }
    }

    /// The hole that a number is in, by its first.
    fn hole_of(&self, number: u64) -> Option<u64> {
        let (first, (last, _)) = self.holes.range(..=number).next_back()?;
        (number <= *last).then_some(*first)
    }

    fn has_hole(&self, number: u64) -> bool {
        self.hole_of(number).is_some()
    }

    /// Takes a number that it has not.
    fn take(&mut self, number: u64, at: Ticks, told: &mut dyn FnMut(Gap)) {
        if number < self.least.0 {
            self.missing(number + 1, self.least.0 - 1, (at, self.least.1), told);
            self.least = (number, at);
        } else if number > self.greatest.0 {
            self.missing(self.greatest.0 + 1, number - 1, (self.greatest.1, at), told);
            self.greatest = (number, at);
        } else if let Some(first) = self.hole_of(number)
            && let Some((last, between)) = self.holes.remove(&first)
        {
            if first < number {
                self.missing(first, number - 1, between, told);
            }
            if number < last {
                self.missing(number + 1, last, between, told);
            }
        }
    }

    /// Notes a hole, where it is one. The newest goes where there are too many.
    fn missing(&mut self, from: u64, to: u64, between: (Ticks, Ticks), told: &mut dyn FnMut(Gap)) {
        if from > to {
            return;
        }
        self.holes.insert(from, (to, between));
        if self.holes.len() > HOLES_MAX
            && let Some((from, (to, between))) = self.holes.pop_last()
        {
            told(Gap { from, to, what: What::Missing, between });
        }
    }

    fn end(self, told: &mut dyn FnMut(Gap)) {
        for (from, (to, between)) in self.holes {
            told(Gap { from, to, what: What::Missing, between });
        }
    }
}

/// How far two times are apart, whichever is the later one.
fn apart(a: Ticks, b: Ticks) -> Duration {
    a.since(b).max(b.since(a))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What is told of numbers that came in this order, some seconds after the other.
    fn told(numbers: &[u64]) -> Vec<(What, u64, u64)> {
        told_at(&numbers.iter().zip(0..).map(|(number, second)| (*number, second * 10_000)).collect::<Vec<_>>())
    }

    /// The same of numbers and their times, in milliseconds.
    fn told_at(records: &[(u64, u64)]) -> Vec<(What, u64, u64)> {
        let (mut stream, mut gaps) = (Stream::default(), Vec::new());
        let mut tell = |gap: Gap| {
            assert!(gap.between.0 <= gap.between.1, "{gap:?}");
            gaps.push((gap.what, gap.from, gap.to));
        };
        for (number, millis) in records.iter().rev() {
            stream.older(*number, Ticks::UNIX_EPOCH.plus(Duration::from_millis(*millis)), &mut tell);
        }
        stream.end(&mut tell);
        gaps.sort_by_key(|(what, from, _)| (*what == What::Twice, *from));
        gaps
    }

    #[test]
    fn what_is_missing_and_what_comes_twice() {
        use What::{Missing, Twice};
        let lost = |numbers: std::ops::RangeInclusive<u64>| (Missing, *numbers.start(), *numbers.end());
        for (numbers, expected) in [
            (vec![], vec![]),
            (vec![7], vec![]),
            (vec![7, 8, 9], vec![]),
            (vec![7, 9, 12], vec![lost(8..=8), lost(10..=11)]),
            (vec![7, 8, 8, 9], vec![(Twice, 8, 8)]),
            (vec![5, 6, 7, 8, 6, 7, 8, 9], vec![(Twice, 6, 8)]),
            (vec![5, 6, 8, 7, 9], vec![]),
            (vec![5, 6, 8, 7, 7, 9], vec![(Twice, 7, 7)]),
            // It began anew, once and twice, and where its first life began is not known.
            (vec![5, 6, 1, 2, 3], vec![]),
            (vec![5, 6, 0, 1, 2, 3, 4, 5, 6, 7], vec![]),
            (vec![1, 2, 1, 2, 3, 1, 2], vec![]),
            (vec![1, 3, 1, 2, 4], vec![lost(2..=2), lost(3..=3)]),
            (vec![2_147_483_646, 2_147_483_647, 1, 2], vec![]),
            // What it began anew with was lost: that is not known, and is no hole of either life.
            (vec![5000, 5001, 3, 4], vec![]),
            (vec![u64::MAX - 1, u64::MAX, 0, 1], vec![]),
        ] {
            assert_eq!(told(&numbers), expected, "{numbers:?}");
        }
    }

    #[test]
    fn records_that_are_out_of_order_are_no_holes() {
        for numbers in
            [[4, 6, 5, 7, 8].as_slice(), &[5, 4, 6, 8, 7], &[4998, 4999, 1, 5000, 2, 3], &[4999, 1, 2, 5000, 3]]
        {
            let at_once: Vec<_> = numbers.iter().zip(0..).map(|(number, n)| (*number, 10 * n)).collect();
            assert_eq!(told_at(&at_once), [], "{numbers:?}");
        }
    }

    proptest! {
        /// Whatever is lost of lives that begin at one is told, but what was lost at the beginning or the end of one.
        #[test]
        fn what_is_lost_within_a_life_is_told(
            lives in proptest::collection::vec((2u64..300, proptest::collection::btree_set(2u64..300, 0..20)), 1..4)
        ) {
            let (mut numbers, mut expected) = (Vec::new(), 0);
            for (length, lost) in &lives {
                numbers.extend((1..=*length).filter(|number| *number == *length || !lost.contains(number)));
                expected += lost.iter().filter(|number| **number < *length).count() as u64;
            }
            let found = told(&numbers);
            prop_assert!(found.iter().all(|(what, ..)| *what == What::Missing), "{found:?}");
            prop_assert_eq!(found.iter().map(|(_, from, to)| to - from + 1).sum::<u64>(), expected);
        }

        /// Any numbers in any order are read to their end, in bounded memory.
        #[test]
        fn any_numbers_are_read(numbers in proptest::collection::vec(prop_oneof![any::<u64>(), 0u64..9], 0..500)) {
            let (mut stream, mut tell) = (Stream::default(), |_| {});
            for number in numbers {
                stream.older(number, Ticks::UNIX_EPOCH, &mut tell);
                let holes = |life: &Option<Life>| life.as_ref().map_or(0, |life| life.holes.len());
                prop_assert!(holes(&stream.life) <= HOLES_MAX && holes(&stream.later) <= HOLES_MAX);
            }
            stream.end(&mut tell);
        }
    }
}
