//! A stretch of time of a day, which becomes a file of its own.

use crate::format::page::PageHeader;
use daytable_model::key::RowKey;
use daytable_model::time::Ticks;
use std::ops::Range;

/// Times from `from` on, before `until`. A day that is cut into slices has each row in one of them, because equal keys have
/// equal times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeSlice {
    /// The first time.
    pub from: Ticks,
    /// The time after the last one; `None` for all times.
    pub until: Option<Ticks>,
}

impl TimeSlice {
    /// All times.
    pub const ALL: TimeSlice = TimeSlice { from: Ticks::MIN, until: None };

    /// Whether it has a time.
    pub fn contains(&self, time: Ticks) -> bool {
        time >= self.from && !self.is_behind(time)
    }

    /// Whether a time is later than all of its times.
    fn is_behind(&self, time: Ticks) -> bool {
        self.until.is_some_and(|until| time >= until)
    }

    /// Whether a page may have a row of these times.
    pub(crate) fn meets(&self, page: &PageHeader) -> bool {
        page.first.time() >= self.from && !self.is_behind(page.last.time())
    }

    /// Those of some rows that have these times. Keys ascend, so times descend.
    pub(super) fn rows_within(&self, keys: &[RowKey], rows: Range<usize>) -> Range<usize> {
        let some = &keys[rows.clone()];
        let start = some.partition_point(|key| self.is_behind(key.time()));
        let end = some.partition_point(|key| key.time() >= self.from);
        rows.start + start..rows.start + end.max(start)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_those_of_the_times() {
        let at = |ticks| Ticks::new(ticks).expect("in range");
        let keys: Vec<RowKey> = (0..10).rev().map(|ticks| RowKey::new(at(ticks), 1, 0)).collect();
        let slice = |from, until| TimeSlice { from: at(from), until: Some(at(until)) };
        assert_eq!(slice(3, 7).rows_within(&keys, 0..10), 3..7);
        assert_eq!(slice(3, 7).rows_within(&keys, 4..5), 4..5);
        assert_eq!(slice(3, 7).rows_within(&keys, 0..2), 2..2);
        assert!(slice(3, 7).rows_within(&keys, 8..10).is_empty());
        assert_eq!(TimeSlice::ALL.rows_within(&keys, 0..10), 0..10);
        assert!(slice(3, 7).contains(at(3)) && !slice(3, 7).contains(at(7)) && TimeSlice::ALL.contains(Ticks::MAX));
    }
}
