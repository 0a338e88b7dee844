//! Which steps a sample belongs to.
//!
//! Each step has a range of the same length before it, open at its start and closed at its end. A sample belongs to the steps
//! from the first one at or after it to the last whose range reaches back to it. All samples of the same steps are in one
//! *cell*, and cells ascend with time:
//!
//! ```text
//! steps        0         1         2         3
//! cells   ──┤ 0 ├──┤ 1 ├─┤ 2 ├──┤ 3 ├─ …            a range of one and a half steps
//! ```

use super::TimeSteps;

/// The cells of a function over ranges.
#[derive(Clone, Copy, Debug)]
pub(super) struct StepCells {
    steps: TimeSteps,
    range: i64,
    offset: i64,
}

/// The cell of a time, and of which times it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellSpan {
    /// The number of the cell; `None` if no step has the time.
    pub cell: Option<u32>,
    /// The first nanosecond that is surely in it.
    pub from: i64,
    /// The last one.
    pub to: i64,
}

impl CellSpan {
    /// Whether a time is surely in the cell.
    pub fn contains(&self, time: i64) -> bool {
        (self.from..=self.to).contains(&time)
    }
}

impl StepCells {
    pub(super) fn new(steps: TimeSteps, range: i64, offset: i64) -> StepCells {
        StepCells { steps, range, offset }
    }

    /// The cell of a time.
    pub(super) fn of(&self, time: i64) -> CellSpan {
        let StepCells { steps, range, offset } = *self;
        // Behind the start of the first step. A step has its own time, so the times of a step end with it.
        let moved = i128::from(steps.start) - i128::from(offset) + 1;
        let behind = i128::from(time) - moved;
        let (range, step) = (i128::from(range), i128::from(steps.step));
        let (before, phase) = (behind.div_euclid(step), behind.rem_euclid(step));
        let (whole, rest) = (range.div_euclid(step), range.rem_euclid(step));
        let is_late = phase + rest >= step;
        let last_of_all = i128::from(steps.count) - 1;
        let first = (before + 1).max(0);
        let last = (before + whole + i128::from(is_late)).min(last_of_all);
        let edge = before * step + (step - rest);
        let (mut from, mut to) = match is_late {
            true => (edge, (before + 1) * step - 1),
            false => (before * step, (edge - 1).min((before + 1) * step - 1)),
        };
        if steps.count == 1 {
            // Every time of the only range is in it.
            (from, to) = match (-range..0).contains(&behind) {
                true => (-range, -1),
                false => (behind, behind),
            };
        }
        let clamped = |nanos: i128| i64::try_from(nanos + moved).unwrap_or(time);
        // Both ascend with time, so two pairs with one sum are one pair.
        let cell = (first <= last).then(|| u32::try_from(first + last).unwrap_or(u32::MAX));
        CellSpan { cell, from: clamped(from), to: clamped(to) }
    }

    /// The steps of a time that has a cell.
    pub(super) fn steps_of(&self, time: i64) -> (u32, u32) {
        let StepCells { steps, range, offset } = *self;
        let since = i128::from(time) + i128::from(offset) - i128::from(steps.start);
        let step = i128::from(steps.step);
        let up = |nanos: i128| -(-nanos).div_euclid(step);
        let last = (up(since + i128::from(range)) - 1).min(i128::from(steps.count) - 1);
        (u32::try_from(up(since).max(0)).unwrap_or(u32::MAX), u32::try_from(last).unwrap_or(0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// The steps of a time are those whose ranges have it, and two times have one cell if they have the same steps.
        #[test]
        fn a_cell_has_the_times_of_the_same_steps(
            start in -60i64..60, step in 1i64..20, count in 1u32..12, range in 1i64..50, offset in -20i64..20,
            times in proptest::collection::vec(-120i64..300, 2..40),
        ) {
            let steps = TimeSteps { start, step: if count == 1 { 1 } else { step }, count };
            let cells = StepCells::new(steps, range, offset);
            let steps_of = |time: i64| -> Vec<u32> {
                let has = |number: &u32| {
                    let end = steps.time(*number) - offset;
                    end - range < time && time <= end
                };
                (0..count).filter(has).collect()
            };
            for time in &times {
                let (known, found) = (steps_of(*time), cells.of(*time));
                prop_assert!(found.contains(*time));
                prop_assert_eq!(found.cell.is_some(), !known.is_empty());
                if let (Some(first), Some(last)) = (known.first(), known.last()) {
                    prop_assert_eq!(cells.steps_of(*time), (*first, *last));
                }
                for other in times.iter().copied().chain([found.from, found.to]) {
                    let same = steps_of(other) == known;
                    prop_assert_eq!(cells.of(other).cell == found.cell, same, "{} {}", time, other);
                    if found.contains(other) {
                        prop_assert!(same, "{} {} {:?}", time, other, found);
                    }
                }
            }
        }
    }
}
