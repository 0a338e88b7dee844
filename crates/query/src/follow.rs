//! Records as they are committed.
//!
//! A follower polls; the caller chooses the interval. Records arrive in the order of their commits, so a late record
//! arrives when it is committed, not at its own time.

use super::entity::{Joiner, OwnedRow};
use super::filter::Filter;
use super::record::StoredRecord;
use daytable_model::key::DayTable;
use daytable_model::time::Ticks;
use daytable_store::{FollowPosition, Reader, Row, StoreError};
use std::ops::ControlFlow;
use std::sync::Arc;

/// A position in a data folder, and a filter. The filter's limit counts over all steps.
pub struct RecordFollower {
    followed: FollowPosition,
    filter: Filter,
    left: u64,
}

impl RecordFollower {
    /// Follows from the present commit on.
    pub fn from_now(reader: &Reader, filter: Filter) -> Result<RecordFollower, StoreError> {
        Ok(RecordFollower { followed: reader.follow_from_now()?, left: filter.limit.unwrap_or(u64::MAX), filter })
    }

    /// Passes the records committed since the last step to `each`. Breaks if `each` breaks or the limit is reached;
    /// then no more records follow.
    pub fn step(
        &mut self,
        reader: &Reader,
        mut each: impl FnMut(StoredRecord) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, StoreError> {
        let RecordFollower { followed, filter, left } = self;
        if *left == 0 {
            return Ok(ControlFlow::Break(()));
        }
        let mut flow = ControlFlow::Continue(());
        records_since(reader, followed, std::slice::from_ref(filter), &mut |record| {
            if flow.is_continue() {
                *left -= 1;
                flow = each(record);
                if *left == 0 {
                    flow = ControlFlow::Break(());
                }
            }
        })?;
        Ok(flow)
    }
}

/// Passes the records committed since `position` to `each` that one of `filters` accepts, and moves the position on. Limits
/// of the filters do not count.
pub fn records_since(
    reader: &Reader,
    position: &mut FollowPosition,
    filters: &[Filter],
    each: &mut dyn FnMut(StoredRecord),
) -> Result<(), StoreError> {
    let row_filters: Vec<_> = filters.iter().map(|filter| (filter, filter.row_filter())).collect();
    let newest = filters.iter().filter_map(Filter::times).map(|(_, newest)| newest).max().unwrap_or(Ticks::MIN);
    let (mut joiner, mut names) = (Joiner::default(), Names::default());
    // A commit is complete, so no record waits for items.
    reader.follow_until(position, newest, &mut |table: &DayTable, row: Row| {
        let may_match = row_filters.iter().any(|(filter, rows)| {
            filter.wants_partition(table, &row.partition) && rows.may_match(row.key(), row.level(), row.properties())
        });
        if !may_match {
            return;
        }
        let Some(entity) = joiner.push(OwnedRow::of(&row)) else { return };
        let record = StoredRecord::new(names.of(table), entity);
        if row_filters.iter().any(|(_, rows)| rows.matches(&record)) {
            each(record);
        }
    })
}

/// The name of a table as text, cached for consecutive rows of one table.
#[derive(Default)]
struct Names(Option<(DayTable, Arc<str>)>);

impl Names {
    fn of(&mut self, table: &DayTable) -> Arc<str> {
        match &self.0 {
            Some((known, name)) if known == table => name.clone(),
            _ => {
                let name: Arc<str> = table.to_string().into();
                self.0 = Some((table.clone(), name.clone()));
                name
            }
        }
    }
}
