//! A sequence of numbers that goes up by one a record, read from its newest record to its oldest: which are missing, and
//! which come twice.
//!
//! A sequence may begin anew at 0 or 1 (its sender was started again; a number of RFC 5424 wraps to 1): then it is another
//! *life* of it. How a life ended and where the oldest that is kept began nobody knows, so nothing is missed there. Where a sequence
//! goes back to a number that it had, and has not come from its beginning, that number came twice.
//!
//! Where a life ends and the next one begins in one moment, that of whole seconds say, their numbers are read among each other, and a
//! life that has both seems to have a hole, or to come twice. What is older tells: it goes on where the life before did.
//!
//! Records may be a little out of order ([`DISORDER`]): a number that is late fills the hole that it left. Holes are kept
//! for as long, and [`LATE_MAX`] of a life for longer. There is room for so many of all sequences together; one that
//! has more is given up, and nothing is said of it.

use daytable_model::time::Ticks;
use std::collections::BTreeMap;
use std::time::Duration;

/// How far apart in time records may be that are out of order.
pub(super) const DISORDER: Duration = Duration::from_secs(2);
/// How far apart their numbers may be.
const AHEAD_MAX: u64 = 1000;
/// Holes of a life that may be filled by what is later than that.
const LATE_MAX: usize = 16;
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
    /// There was no room for its holes: what is missing cannot be told.
    is_given_up: bool,
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
    /// Takes the next older record. `told` hears of what cannot be mended by those that come. `room` is how many more holes
    /// there may be of all sequences. Says whether there was enough: where not, nothing more is said of this one.
    pub(super) fn older(&mut self, number: u64, at: Ticks, room: &mut usize, told: &mut dyn FnMut(Gap)) -> bool {
        if self.is_given_up {
            return true;
        }
        *room += self.holes();
        self.take(number, at, told);
        match room.checked_sub(self.holes()) {
            Some(left) => {
                *room = left;
                true
            }
            None => {
                *self = Stream { is_given_up: true, ..Stream::default() };
                false
            }
        }
    }

    /// How many holes it has.
    pub(super) fn holes(&self) -> usize {
        [&self.life, &self.later].into_iter().flatten().map(|life| life.holes.len()).sum()
    }

    fn take(&mut self, number: u64, at: Ticks, told: &mut dyn FnMut(Gap)) {
        let Some(life) = &mut self.life else {
            self.life = Some(Life::of(number, at));
            return;
        };
        if number.checked_add(1) == Some(life.least.0) {
            life.least = (number, at);
            return;
        }
        // Where both are of one moment, what the later life began with is read among or behind the end of this one.
        let is_its_end = apart(life.greatest.1, at) <= DISORDER;
        if let Some(later) = &mut self.later
            && ((is_its_end && number < later.least.0)
                || (is_its_end || apart(later.least.1, at) <= DISORDER)
                    && (number.checked_add(1) == Some(later.least.0) || later.has_hole(number)))
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
        } else if least <= BEGINNING_MAX
            && let Some(later) = life.part(number)
        {
            life.take(number, at, told);
            self.was_later(later, told);
        } else if number > greatest.0 || least <= BEGINNING_MAX {
            let mut before = Life::of(number, at);
            let its_end = |run: &Gap| number.checked_add(1) == Some(run.from) && life.began_in(run.between);
            if let Some(run) = self.twice.take_if(|run| its_end(run)) {
                before.greatest = (run.to, run.between.1);
            }
            let later = std::mem::replace(life, before);
            self.was_later(later, told);
        } else {
            self.came_twice(number, at, told);
        }
    }

    /// A life is known from its beginning on.
    fn was_later(&mut self, life: Life, told: &mut dyn FnMut(Gap)) {
        if let Some(later) = self.later.replace(life) {
            later.end(told);
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

    /// Whether it began in the moment of these times.
    fn began_in(&self, (from, to): (Ticks, Ticks)) -> bool {
        apart(self.least.1, from) <= DISORDER && apart(self.least.1, to) <= DISORDER
    }

    /// Parts what is below a hole, and began in its moment, from what is above, where `number` is in such a one: that was
    /// the end of the life before. Gives what is below.
    fn part(&mut self, number: u64) -> Option<Life> {
        let first = self.hole_of(number)?;
        let (last, between) = self.holes.get(&first).copied().filter(|(_, between)| self.began_in(*between))?;
        let mut above = self.holes.split_off(&first);
        above.remove(&first);
        let below = std::mem::replace(&mut self.holes, above);
        let least = std::mem::replace(&mut self.least, (last + 1, between.1));
        Some(Life { least, greatest: (first - 1, between.0), holes: below })
    }

    /// Takes a number that it has not.
    fn take(&mut self, number: u64, at: Ticks, told: &mut dyn FnMut(Gap)) {
        if number < self.least.0 {
            self.missing(number + 1, self.least.0 - 1, (at, self.least.1), at, told);
            self.least = (number, at);
        } else if number > self.greatest.0 {
            self.missing(self.greatest.0 + 1, number - 1, (at, self.greatest.1), at, told);
            self.greatest = (number, at);
        } else if let Some(first) = self.hole_of(number)
            && let Some((last, between)) = self.holes.remove(&first)
        {
            if first < number {
                self.missing(first, number - 1, between, at, told);
            }
            if number < last {
                self.missing(number + 1, last, between, at, told);
            }
        }
    }

    /// Notes a hole, where it is one. The newest are told where there are many, but not while they are in time.
    fn missing(&mut self, from: u64, to: u64, between: (Ticks, Ticks), at: Ticks, told: &mut dyn FnMut(Gap)) {
        if from > to {
            return;
        }
        self.holes.insert(from, (to, between));
        while self.holes.len() > LATE_MAX
            && let Some(newest) = self.holes.last_entry()
            && apart(newest.get().1.0, at) > DISORDER
        {
            let (from, (to, between)) = newest.remove_entry();
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
mod tests;
