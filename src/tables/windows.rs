//! Rows of a partition in an order that the store does not give: by windows of time.
//!
//! Azure's service gives rows newest first and no other way, Cosmos DB in no order at all. So a range is read window by
//! window, from the end that is wanted first: all rows of a window are read and sorted. A window that holds too many is
//! made narrower, one that holds few makes the next one wider, so what is in memory is bounded by
//! [`WINDOW_ROWS_MAX`] whatever the range; only a single tick cannot be made narrower.

use super::{Continuation, Entity, Next, Order, Page, TableError, Wanted};
use crate::key::DayTable;
use crate::time::{TICKS_PER_SECOND, Ticks};

/// Rows of a window at most; few in unit tests, so that windows are made narrower.
pub(super) const WINDOW_ROWS_MAX: usize = if cfg!(test) { 20 } else { 8 * super::PAGE_ROWS_MAX };
/// How wide the first window is.
const FIRST_TICKS: i64 = 600 * TICKS_PER_SECOND;
/// By how much windows are made narrower, and wider.
const STEP: i64 = 8;

/// Where the next window begins, and how wide it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Window {
    edge: Ticks,
    ticks: i64,
}

impl Window {
    /// The oldest and the newest time in it, both included and within the range.
    fn times(self, wanted: &Wanted) -> (Ticks, Ticks) {
        let reach = (self.ticks - 1).max(0);
        let other = |ticks: i64| Ticks::new(ticks.clamp(Ticks::MIN.get(), Ticks::MAX.get())).unwrap_or(self.edge);
        match wanted.order {
            Order::OldestFirst => (self.edge, other(self.edge.get().saturating_add(reach)).min(wanted.to)),
            Order::NewestFirst => (other(self.edge.get().saturating_sub(reach)).max(wanted.from), self.edge),
        }
    }
}

/// A page of `wanted`, which is empty where the window was. `read` gives the rows between two times, both included, in
/// any order; it may stop once they are more than [`WINDOW_ROWS_MAX`].
pub(super) fn page(
    table: &DayTable,
    wanted: &Wanted,
    at: Option<Window>,
    mut read: impl FnMut(Ticks, Ticks) -> Result<Vec<Entity>, TableError>,
) -> Result<Page, TableError> {
    if wanted.from > wanted.to {
        return Ok(Page::default());
    }
    let edge = if wanted.order == Order::OldestFirst { wanted.from } else { wanted.to };
    let mut window = at.unwrap_or(Window { edge, ticks: FIRST_TICKS });
    let (mut rows, oldest, newest) = loop {
        let (oldest, newest) = window.times(wanted);
        let rows = read(oldest, newest)?;
        if rows.len() <= WINDOW_ROWS_MAX {
            break (rows, oldest, newest);
        }
        if oldest == newest {
            let (table, partition) = (table.clone(), wanted.partition.clone());
            return Err(TableError::Crowded { table, partition, time: oldest, max: WINDOW_ROWS_MAX });
        }
        window.ticks = (newest.get() - oldest.get() + 1).min(window.ticks) / STEP;
    };
    rows.sort_by_key(|row| row.key);
    rows.dedup_by_key(|row| row.key);
    let (is_end, edge) = match wanted.order {
        Order::NewestFirst => (oldest <= wanted.from, Ticks::new(oldest.get() - 1)),
        Order::OldestFirst => {
            rows.reverse();
            (newest >= wanted.to, Ticks::new(newest.get() + 1))
        }
    };
    let is_sparse = rows.len() < WINDOW_ROWS_MAX / usize::try_from(2 * STEP).unwrap_or(1);
    let ticks = if is_sparse { window.ticks.max(1).saturating_mul(STEP) } else { window.ticks.max(1) };
    let next = edge.filter(|_| !is_end).map(|edge| Window { edge, ticks });
    Ok(Page { rows, next: next.map(|window| Continuation(Next::Window(None, window))) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::key::RowKey;
    use proptest::prelude::*;

    fn table() -> DayTable {
        DayTable::parse("Log20261121").expect("a table")
    }

    fn row(ticks: i64, position: u64) -> Entity {
        let key = RowKey::new(Ticks::new(ticks).expect("in range"), 1, position);
        Entity { partition: "web".into(), key, level: None, properties: vec![] }
    }

    /// All keys that the windows give, and the most rows that one read gave.
    fn walk(rows: &[Entity], wanted: &Wanted) -> Result<(Vec<RowKey>, usize), TableError> {
        let (mut keys, mut most, mut at) = (Vec::new(), 0, None);
        loop {
            let read = |oldest: Ticks, newest: Ticks| {
                let found = rows.iter().filter(|row| (oldest..=newest).contains(&row.key.time()));
                let found: Vec<Entity> = found.take(WINDOW_ROWS_MAX + 1).cloned().collect();
                most = most.max(found.len());
                Ok(found)
            };
            let page = page(&table(), wanted, at, read)?;
            keys.extend(page.rows.iter().map(|row| row.key));
            match page.next {
                Some(Continuation(Next::Window(_, window))) => at = Some(window),
                _ => return Ok((keys, most)),
            }
        }
    }

    proptest! {
        /// Whatever times the rows have and in whatever order they lie, each of the range is given once, in the order that
        /// was asked for, and no more than a window of them is in memory.
        #[test]
        fn every_row_of_the_range_comes_once_and_in_order(
            times in proptest::collection::vec(prop_oneof![0i64..2_000, any::<u32>().prop_map(i64::from), 0..=crate::time::MAX_TICKS], 0..120),
            from in 0i64..1_500,
            is_whole in any::<bool>(),
            oldest_first in any::<bool>(),
        ) {
            let rows: Vec<Entity> = times.iter().zip(0..).map(|(ticks, at)| row(*ticks, at)).collect();
            let order = if oldest_first { Order::OldestFirst } else { Order::NewestFirst };
            let from = if is_whole { Ticks::MIN } else { Ticks::new(from).expect("in range") };
            let wanted = Wanted { from, order, ..Wanted::all_of("web".into()) };
            let mut want: Vec<RowKey> = rows.iter().map(|row| row.key).filter(|key| key.time() >= from).collect();
            want.sort();
            if oldest_first {
                want.reverse();
            }
            let (keys, most) = walk(&rows, &wanted).expect("in order");
            prop_assert_eq!(keys, want);
            prop_assert!(most <= WINDOW_ROWS_MAX + 1);
        }
    }

    #[test]
    fn a_tick_with_too_many_rows_is_an_error_that_names_it() {
        let rows: Vec<Entity> = (0..=WINDOW_ROWS_MAX as u64).map(|at| row(77, at)).collect();
        let error = walk(&rows, &Wanted::all_of("web".into())).expect_err("too many");
        assert!(matches!(error, TableError::Crowded { time, .. } if time.get() == 77), "{error}");
    }
}
