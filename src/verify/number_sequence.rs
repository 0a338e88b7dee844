//! A sequence of numbers that rises by one with each record, read from its newest record to its oldest: missing and
//! repeated numbers.
//!
//! A sequence may begin again at 0 or 1 (its sender restarted; a number of RFC 5424 wraps to 1). Each such part is a
//! *life*. The end of a life and the beginning of the oldest life are unknown, so no number is missing there. A number
//! that a life already has, without a new beginning, is repeated.
//!
//! If one life ends and the next begins in the same moment (times of whole seconds), their numbers are mixed, and a
//! life with both seems to have a hole or repeated numbers. Older records decide: they continue the earlier life.
//!
//! Records may be slightly out of order ([`DISORDER`]): a late number fills its hole. Holes are kept for that long, and
//! [`LATE_MAX`] holes of a life for longer. All sequences share a limit of holes; a sequence beyond the limit is given
//! up without findings.

use daytable_model::time::Ticks;
use std::collections::BTreeMap;
use std::time::Duration;

/// The distance in time of records that are out of order.
pub(super) const DISORDER: Duration = Duration::from_secs(2);
/// The distance of their numbers.
const AHEAD_MAX: u64 = 1000;
/// Holes of a life that may be filled by records older than [`DISORDER`].
const LATE_MAX: usize = 16;
/// The greatest first number of a life.
const BEGINNING_MAX: u64 = 1;

/// Numbers `from` to `to` that are missing or repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gap {
    pub(super) from: u64,
    pub(super) to: u64,
    pub(super) kind: GapKind,
    /// Missing: the times of the records before and after them. Repeated: the times of the first and the last of them.
    pub(super) between: (Ticks, Ticks),
}

/// The kind of a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GapKind {
    Missing,
    Twice,
}

impl Gap {
    /// The count of numbers.
    pub(super) fn numbers(&self) -> u64 {
        (self.to - self.from).saturating_add(1)
    }
}

/// A sequence, as far back as it was read.
#[derive(Debug, Default)]
pub(super) struct NumberSequence {
    life: Option<Life>,
    /// The life after `life`: its records may be mixed with those at the end of `life`.
    later: Option<Life>,
    /// Repeated numbers, while more may follow.
    twice: Option<Gap>,
    /// There was no room for the holes: missing numbers are unknown.
    is_given_up: bool,
}

/// From one beginning of the numbers to the next.
#[derive(Debug)]
struct Life {
    least: (u64, Ticks),
    greatest: (u64, Ticks),
    /// By their first number: the last number, and the times around the hole.
    holes: BTreeMap<u64, (u64, (Ticks, Ticks))>,
}

impl NumberSequence {
    /// Adds the next older record. `report` receives gaps that no later call can fill. `room` is the number of further
    /// holes of all sequences. Returns `false` if there is no room: the sequence is then given up.
    pub(super) fn older(&mut self, number: u64, at: Ticks, room: &mut usize, report: &mut dyn FnMut(Gap)) -> bool {
        if self.is_given_up {
            return true;
        }
        *room += self.holes();
        self.add(number, at, report);
        match room.checked_sub(self.holes()) {
            Some(left) => {
                *room = left;
                true
            }
            None => {
                *self = NumberSequence { is_given_up: true, ..NumberSequence::default() };
                false
            }
        }
    }

    /// The count of holes.
    pub(super) fn holes(&self) -> usize {
        [&self.life, &self.later].into_iter().flatten().map(|life| life.holes.len()).sum()
    }

    fn add(&mut self, number: u64, at: Ticks, report: &mut dyn FnMut(Gap)) {
        let Some(life) = &mut self.life else {
            self.life = Some(Life::of(number, at));
            return;
        };
        if number.checked_add(1) == Some(life.least.0) {
            life.least = (number, at);
            return;
        }
        // If both are of one moment, the beginning of the later life is mixed with the end of this life.
        let is_its_end = apart(life.greatest.1, at) <= DISORDER;
        if let Some(later) = &mut self.later
            && ((is_its_end && number < later.least.0)
                || (is_its_end || apart(later.least.1, at) <= DISORDER)
                    && (number.checked_add(1) == Some(later.least.0) || later.has_hole(number)))
        {
            later.add(number, at, report);
            return;
        }
        let (least, greatest) = (life.least.0, life.greatest);
        // After the beginning of a life follow records of the earlier life, with their own numbers.
        let is_open = least > BEGINNING_MAX || apart(life.least.1, at) <= DISORDER;
        let is_new = is_open && life.has_hole(number);
        let is_at_its_end = number > greatest.0
            && number - greatest.0 <= AHEAD_MAX
            && least > BEGINNING_MAX
            && apart(greatest.1, at) <= DISORDER;
        if number < least || is_new || is_at_its_end {
            life.add(number, at, report);
        } else if least <= BEGINNING_MAX
            && let Some(later) = life.part(number)
        {
            life.add(number, at, report);
            self.was_later(later, report);
        } else if number > greatest.0 || least <= BEGINNING_MAX {
            let mut before = Life::of(number, at);
            let its_end = |run: &Gap| number.checked_add(1) == Some(run.from) && life.began_in(run.between);
            if let Some(run) = self.twice.take_if(|run| its_end(run)) {
                before.greatest = (run.to, run.between.1);
            }
            let later = std::mem::replace(life, before);
            self.was_later(later, report);
        } else {
            self.came_twice(number, at, report);
        }
    }

    /// A life is complete: its beginning is known.
    fn was_later(&mut self, life: Life, report: &mut dyn FnMut(Gap)) {
        if let Some(later) = self.later.replace(life) {
            later.end(report);
        }
    }

    /// Ends the sequence: there are no older records.
    pub(super) fn end(self, report: &mut dyn FnMut(Gap)) {
        for life in [self.later, self.life].into_iter().flatten() {
            life.end(report);
        }
        self.twice.into_iter().for_each(report);
    }

    fn came_twice(&mut self, number: u64, at: Ticks, report: &mut dyn FnMut(Gap)) {
        match &mut self.twice {
            Some(run) if number.checked_add(1) == Some(run.from) => {
                (run.from, run.between.0) = (number, at);
            }
            run => {
                let next = Gap { from: number, to: number, kind: GapKind::Twice, between: (at, at) };
                run.replace(next).into_iter().for_each(report);
            }
        }
    }
}

impl Life {
    fn of(number: u64, at: Ticks) -> Life {
        Life { least: (number, at), greatest: (number, at), holes: BTreeMap::new() }
    }

    /// The first number of the hole with this number.
    fn hole_of(&self, number: u64) -> Option<u64> {
        let (first, (last, _)) = self.holes.range(..=number).next_back()?;
        (number <= *last).then_some(*first)
    }

    fn has_hole(&self, number: u64) -> bool {
        self.hole_of(number).is_some()
    }

    /// Whether the life began at the moment of these times.
    fn began_in(&self, (from, to): (Ticks, Ticks)) -> bool {
        apart(self.least.1, from) <= DISORDER && apart(self.least.1, to) <= DISORDER
    }

    /// Splits the life at the hole with `number`, if the life began at the moment of the hole: the numbers above the
    /// hole were the end of the earlier life. Returns the part below the hole.
    fn part(&mut self, number: u64) -> Option<Life> {
        let first = self.hole_of(number)?;
        let (last, between) = self.holes.get(&first).copied().filter(|(_, between)| self.began_in(*between))?;
        let mut above = self.holes.split_off(&first);
        above.remove(&first);
        let below = std::mem::replace(&mut self.holes, above);
        let least = std::mem::replace(&mut self.least, (last + 1, between.1));
        Some(Life { least, greatest: (first - 1, between.0), holes: below })
    }

    /// Adds a new number.
    fn add(&mut self, number: u64, at: Ticks, report: &mut dyn FnMut(Gap)) {
        if number < self.least.0 {
            self.missing(number + 1, self.least.0 - 1, (at, self.least.1), at, report);
            self.least = (number, at);
        } else if number > self.greatest.0 {
            self.missing(self.greatest.0 + 1, number - 1, (at, self.greatest.1), at, report);
            self.greatest = (number, at);
        } else if let Some(first) = self.hole_of(number)
            && let Some((last, between)) = self.holes.remove(&first)
        {
            if first < number {
                self.missing(first, number - 1, between, at, report);
            }
            if number < last {
                self.missing(number + 1, last, between, at, report);
            }
        }
    }

    /// Adds a hole, unless it is empty. With too many holes, the newest ones outside the disorder become gaps.
    fn missing(&mut self, from: u64, to: u64, between: (Ticks, Ticks), at: Ticks, report: &mut dyn FnMut(Gap)) {
        if from > to {
            return;
        }
        self.holes.insert(from, (to, between));
        while self.holes.len() > LATE_MAX
            && let Some(newest) = self.holes.last_entry()
            && apart(newest.get().1.0, at) > DISORDER
        {
            let (from, (to, between)) = newest.remove_entry();
            report(Gap { from, to, kind: GapKind::Missing, between });
        }
    }

    fn end(self, report: &mut dyn FnMut(Gap)) {
        for (from, (to, between)) in self.holes {
            report(Gap { from, to, kind: GapKind::Missing, between });
        }
    }
}

/// The distance of two times.
fn apart(a: Ticks, b: Ticks) -> Duration {
    a.since(b).max(b.since(a))
}

#[cfg(test)]
mod tests;
