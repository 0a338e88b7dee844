//! Reads rows of a partition in an order that the store does not offer, by windows of time.
//!
//! Azure's service returns rows only newest first, Cosmos DB in no order at all. A range is therefore read window by
//! window, from the requested end: all rows of a window are read and sorted. A window with too many rows is made
//! narrower; after a window with few rows, the next is wider. The rows in memory are bounded whatever the range. A
//! single tick with too many rows (syslog's times are whole seconds) is read in parts by RowKey: the rows found so
//! far determine where to cut the tick, and it is read again up to there.

use super::{ContinuationToken, OwnedRow, RangeQuery, ResultPage, RowOrder, TableError};
use daytable_model::key::RowKey;
use daytable_model::time::{TICKS_PER_SECOND, Ticks};

/// Maximum rows of a window that stores use.
pub const WINDOW_ROWS_MAX: usize = 8 * super::RESULT_ROWS_MAX;
/// The width of the first window.
const FIRST_TICKS: i64 = 600 * TICKS_PER_SECOND;
/// The factor by which windows become narrower or wider.
const STEP: i64 = 8;

/// The beginning and width of the next window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TimeWindow {
    edge: Ticks,
    ticks: i64,
    /// The remaining keys of a tick that was read in part.
    rest: Option<KeyRange>,
}

/// The keys from one key up to, but not including, another; unbounded without them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeyRange {
    /// The first key.
    pub from: Option<RowKey>,
    /// The key after the last.
    pub below: Option<RowKey>,
    /// Whether `from` itself is excluded.
    is_behind: bool,
}

impl KeyRange {
    /// The keys after a key.
    pub fn behind(after: Option<RowKey>) -> KeyRange {
        KeyRange { from: after, below: None, is_behind: true }
    }

    /// Whether the range contains a key.
    pub fn holds(self, key: RowKey) -> bool {
        let is_out = |from: RowKey| key < from || self.is_behind && key == from;
        !self.from.is_some_and(is_out) && self.below.is_none_or(|below| key < below)
    }

    /// Splits the range into the part that is first in `order` and the other; about a quarter of `found` is in the
    /// first.
    fn cut(self, found: &mut [OwnedRow], order: RowOrder) -> (KeyRange, KeyRange) {
        found.sort_by_key(|row| row.key);
        let quarter = found.len() / 4;
        let at = if order == RowOrder::NewestFirst { quarter } else { found.len() - quarter };
        let at = found.get(at).map(|row| row.key);
        let (low, high) = (KeyRange { below: at, ..self }, KeyRange { from: at, ..self });
        if order == RowOrder::NewestFirst { (low, high) } else { (high, low) }
    }
}

impl TimeWindow {
    /// The oldest and the newest time of the window, both included and within the range.
    fn times(self, wanted: &RangeQuery) -> (Ticks, Ticks) {
        let reach = (self.ticks - 1).max(0);
        let other = |ticks: i64| Ticks::new(ticks.clamp(Ticks::MIN.get(), Ticks::MAX.get())).unwrap_or(self.edge);
        match wanted.order {
            RowOrder::OldestFirst => (self.edge, other(self.edge.get().saturating_add(reach)).min(wanted.to)),
            RowOrder::NewestFirst => (other(self.edge.get().saturating_sub(reach)).max(wanted.from), self.edge),
        }
    }
}

/// A page of `wanted`, empty if the window is. `read` returns the rows between two times, both included, with these
/// keys, in any order; it may stop after more than `rows_max` rows.
pub fn page(
    wanted: &RangeQuery,
    at: Option<TimeWindow>,
    rows_max: usize,
    mut read: impl FnMut(Ticks, Ticks, KeyRange) -> Result<Vec<OwnedRow>, TableError>,
) -> Result<ResultPage, TableError> {
    if wanted.from > wanted.to {
        return Ok(ResultPage::default());
    }
    let edge = if wanted.order == RowOrder::OldestFirst { wanted.from } else { wanted.to };
    let mut window = at.unwrap_or(TimeWindow { edge, ticks: FIRST_TICKS, rest: None });
    let mut keys = window.rest.take().unwrap_or_default();
    let (mut rows, oldest, newest) = loop {
        let (oldest, newest) = window.times(wanted);
        let mut rows = read(oldest, newest, keys)?;
        if rows.len() <= rows_max {
            break (rows, oldest, newest);
        }
        if oldest < newest {
            window.ticks = (newest.get() - oldest.get() + 1).min(window.ticks) / STEP;
        } else {
            let (first, others) = keys.cut(&mut rows, wanted.order);
            // After this part. Keys of the tick that were excluded before stay excluded.
            let end = |rest: KeyRange| match wanted.order {
                RowOrder::NewestFirst => KeyRange { from: others.from, ..rest },
                RowOrder::OldestFirst => KeyRange { below: others.below, ..rest },
            };
            window.rest = Some(end(window.rest.unwrap_or(keys)));
            keys = first;
        }
    };
    rows.sort_by_key(|row| row.key);
    rows.dedup_by_key(|row| row.key);
    let (is_end, edge) = match wanted.order {
        RowOrder::NewestFirst => (oldest <= wanted.from, Ticks::new(oldest.get() - 1)),
        RowOrder::OldestFirst => {
            rows.reverse();
            (newest >= wanted.to, Ticks::new(newest.get() + 1))
        }
    };
    if let Some(rest) = window.rest {
        let window = TimeWindow { edge: oldest, ticks: 1, rest: Some(rest) };
        return Ok(ResultPage { rows, next: Some(ContinuationToken::Window(None, window)) });
    }
    let is_sparse = rows.len() < rows_max / usize::try_from(2 * STEP).unwrap_or(1);
    let ticks = if is_sparse { window.ticks.max(1).saturating_mul(STEP) } else { window.ticks.max(1) };
    let next = edge.filter(|_| !is_end).map(|edge| TimeWindow { edge, ticks, rest: None });
    Ok(ResultPage { rows, next: next.map(|window| ContinuationToken::Window(None, window)) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use daytable_model::key::RowKey;
    use proptest::prelude::*;

    fn row(ticks: i64, position: u64) -> OwnedRow {
        let key = RowKey::new(Ticks::new(ticks).expect("in range"), 1, position);
        OwnedRow { partition: "web".into(), key, level: None, properties: vec![] }
    }

    /// Few rows, so that windows are made narrower.
    const ROWS_MAX: usize = 20;

    /// All keys of the windows, and the most rows of one read.
    fn walk(rows: &[OwnedRow], wanted: &RangeQuery) -> Result<(Vec<RowKey>, usize), TableError> {
        let (mut keys, mut most, mut at) = (Vec::new(), 0, None);
        loop {
            let read = |oldest: Ticks, newest: Ticks, keys: KeyRange| {
                let is_of = |key: RowKey| {
                    let is_in = (oldest..=newest).contains(&key.time());
                    is_in && keys.holds(key)
                };
                let found = rows.iter().filter(|row| is_of(row.key));
                let found: Vec<OwnedRow> = found.take(ROWS_MAX + 1).cloned().collect();
                most = most.max(found.len());
                Ok(found)
            };
            let page = page(wanted, at, ROWS_MAX, read)?;
            keys.extend(page.rows.iter().map(|row| row.key));
            match page.next {
                Some(ContinuationToken::Window(_, window)) => at = Some(window),
                _ => return Ok((keys, most)),
            }
        }
    }

    proptest! {
        /// With rows of any times and in any order, each row of the range is returned once, in the requested order, and
        /// at most a window of them is in memory.
        #[test]
        fn every_row_of_the_range_comes_once_and_in_order(
            times in proptest::collection::vec(prop_oneof![0i64..2_000, 700i64..703, any::<u32>().prop_map(i64::from), 0..=daytable_model::time::MAX_TICKS], 0..300),
            positions in any::<u64>(),
            from in 0i64..1_500,
            is_whole in any::<bool>(),
            oldest_first in any::<bool>(),
        ) {
            let rows: Vec<OwnedRow> = times.iter().zip(0..).map(|(ticks, at)| row(*ticks, (positions >> 20) ^ at)).collect();
            let order = if oldest_first { RowOrder::OldestFirst } else { RowOrder::NewestFirst };
            let from = if is_whole { Ticks::MIN } else { Ticks::new(from).expect("in range") };
            let wanted = RangeQuery { from, order, ..RangeQuery::all_of("web".into()) };
            let mut want: Vec<RowKey> = rows.iter().map(|row| row.key).filter(|key| key.time() >= from).collect();
            want.sort();
            if oldest_first {
                want.reverse();
            }
            let (keys, most) = walk(&rows, &wanted).expect("in order");
            prop_assert_eq!(keys, want);
            prop_assert!(most <= ROWS_MAX + 1);
        }
    }

    #[test]
    fn a_tick_with_too_many_rows_is_read_in_parts() {
        let rows: Vec<OwnedRow> = (0..50 * ROWS_MAX as u64).map(|at| row(77, at * at)).collect();
        for order in [RowOrder::NewestFirst, RowOrder::OldestFirst] {
            let (mut keys, most) =
                walk(&rows, &RangeQuery { order, ..RangeQuery::all_of("web".into()) }).expect("read");
            assert!(most <= ROWS_MAX + 1);
            if order == RowOrder::OldestFirst {
                keys.reverse();
            }
            assert!(keys.is_sorted() && keys.len() == rows.len(), "{order:?}");
        }
    }
}
