//! `sort`: items in an order. With a limit, only those are kept that can be in the answer.

use super::accumulator::{cell, compare_groups, whole};
use super::answer_budget::AnswerBudget;
use super::item::{AnswerItem, AnswerRow, value_bytes};
use super::order::{compare_by, compare_values};
use super::row_batch::{BatchRow, RowBatch};
use super::spill::{ExternalSort, SortItem};
use super::stage::{Next, PipeStage, PipelineContext, stopped};
use crate::entity::OwnedValue;
use crate::spilled::{Spilled, SpilledBytes};
use daytable_logsql::query::SortKey;
use daytable_logsql::{FieldName, Fields};
use daytable_model::property::Property;
use std::cmp::Ordering;
use std::ops::ControlFlow;

/// A `sort` at work.
pub(super) struct SortStage<'q> {
    by: Vec<SortKey>,
    offset: u64,
    limit: Option<u64>,
    rank: Option<String>,
    /// Whether the items come in any order, and those of one order are to be as records come.
    is_by_place: bool,
    /// The first columns of the items, if these are groups that come in any order.
    groups: Vec<FieldName>,
    /// The items, once there is one.
    items: Option<ExternalSort<'q, SortedItem>>,
    budget: AnswerBudget,
    go_on: &'q dyn Fn() -> bool,
}

/// An item with its keys.
struct SortedItem {
    keys: Vec<Option<OwnedValue>>,
    item: AnswerItem,
}

impl Spilled for SortedItem {
    fn write(&self, to: &mut Vec<u8>) {
        self.keys.write(to);
        self.item.write(to);
    }

    fn read(from: &mut SpilledBytes<'_>) -> Option<SortedItem> {
        Some(SortedItem { keys: Spilled::read(from)?, item: Spilled::read(from)? })
    }
}

impl SortItem for SortedItem {
    fn bytes(&self) -> usize {
        let of_key = |key: &Option<OwnedValue>| size_of::<OwnedValue>() + key.as_ref().map_or(0, value_bytes);
        self.item.bytes() + self.keys.iter().map(of_key).sum::<usize>()
    }
}

impl<'q> SortStage<'q> {
    pub(super) fn new(
        by: &[SortKey],
        (offset, limit): (u64, Option<u64>),
        rank: Option<&String>,
        context: &PipelineContext<'q>,
    ) -> SortStage<'q> {
        SortStage {
            by: by.to_vec(),
            offset,
            limit,
            rank: rank.cloned(),
            is_by_place: false,
            groups: Vec::new(),
            items: None,
            budget: context.budget.clone(),
            go_on: context.go_on,
        }
    }

    fn wanted(&self) -> usize {
        usize::try_from(self.limit.map_or(u64::MAX, |limit| limit.saturating_add(self.offset))).unwrap_or(usize::MAX)
    }

    /// Whether a row comes before an item, or only the sort can tell.
    fn is_before(&self, row: &BatchRow<'_>, last: &SortedItem) -> bool {
        let order = compare_keys(&self.by, |_, key| row.field(&key.field), &last.keys);
        match &last.item {
            AnswerItem::Row(last) if order.is_eq() && !self.groups.is_empty() => {
                let count = self.groups.len();
                compare_groups(self.groups.iter(), row.first_values(count), first_values(last, count)).is_lt()
            }
            _ => order.is_le(),
        }
    }

    fn sorting(&self) -> ExternalSort<'q, SortedItem> {
        let (by, is_by_place, groups) = (self.by.clone(), self.is_by_place, self.groups.clone());
        let compare = move |one: &SortedItem, other: &SortedItem| {
            if by.is_empty() {
                return compare_rows(&one.item, &other.item);
            }
            let order = compare_keys(&by, |at, _| cell(&one.keys[at]), &other.keys);
            match (&one.item, &other.item) {
                _ if is_by_place => order.then_with(|| one.item.place().cmp(&other.item.place())),
                (AnswerItem::Row(a), AnswerItem::Row(b)) if !groups.is_empty() => order.then_with(|| {
                    compare_groups(groups.iter(), first_values(a, groups.len()), first_values(b, groups.len()))
                }),
                _ => order,
            }
        };
        ExternalSort::new(compare, self.wanted(), &self.budget, "sorted records")
    }
}

/// The order of an item with these values of its keys, and another one with these keys.
fn compare_keys<'v>(
    by: &[SortKey],
    value: impl Fn(usize, &SortKey) -> Option<Property<'v>>,
    other: &[Option<OwnedValue>],
) -> Ordering {
    let parts = by.iter().zip(other).enumerate();
    let mut parts = parts.map(|(at, (key, other))| compare_by(key, value(at, key), cell(other)));
    parts.find(|order| order.is_ne()).unwrap_or(Ordering::Equal)
}

/// The values of the first columns of a row.
fn first_values(row: &AnswerRow, count: usize) -> impl Iterator<Item = Option<Property<'_>>> + Clone {
    row.columns().iter().take(count).map(|(_, value)| cell(value))
}

/// The order of two items without keys: records by time, rows column by column.
fn compare_rows(one: &AnswerItem, other: &AnswerItem) -> Ordering {
    match (one, other) {
        (AnswerItem::Record(one), AnswerItem::Record(other)) => {
            one.record().row_key.cmp(&other.record().row_key).reverse()
        }
        (AnswerItem::Row(one), AnswerItem::Row(other)) => {
            let pairs = one.columns().iter().zip(other.columns());
            let parts = pairs.map(|((name, a), (_, b))| compare_values(&FieldName::new(name), cell(a), cell(b)));
            parts.fold(Ordering::Equal, Ordering::then)
        }
        _ => Ordering::Equal,
    }
}

impl<'q> PipeStage<'q> for SortStage<'q> {
    fn sort_by_place(&mut self) {
        self.is_by_place = true;
    }

    fn sort_by_groups(&mut self, by: Vec<FieldName>) {
        self.groups = by;
    }

    fn push_rows(&mut self, rows: RowBatch<'_>, next: Next<'_>) -> ControlFlow<()> {
        for row in rows.rows() {
            // A row behind as many as are wanted is not made.
            let last = self.items.as_ref().and_then(ExternalSort::last_wanted);
            if last.is_none_or(|last| self.is_before(&row, last)) {
                self.push(AnswerItem::Row(row.to_row()), next)?;
            }
        }
        ControlFlow::Continue(())
    }

    fn push(&mut self, item: AnswerItem, _next: Next<'_>) -> ControlFlow<()> {
        if self.wanted() == 0 {
            return ControlFlow::Break(());
        }
        let keys = self.by.iter().map(|key| item.field(&key.field).map(OwnedValue::from)).collect();
        if self.items.is_none() {
            self.items = Some(self.sorting());
        }
        let Some(items) = &mut self.items else { return ControlFlow::Continue(()) };
        match items.push(SortedItem { keys, item }) {
            Ok(()) => ControlFlow::Continue(()),
            Err(over) => stopped(over, &self.budget),
        }
    }

    fn finish(&mut self, next: Next<'_>) -> ControlFlow<()> {
        let Some(items) = self.items.take() else { return ControlFlow::Continue(()) };
        let mut number = 0;
        let finished = items.finish(self.go_on, &mut |SortedItem { item, .. }| {
            number += 1;
            if number <= self.offset {
                return ControlFlow::Continue(());
            }
            match &self.rank {
                Some(rank) => {
                    let mut row = item.into_row();
                    row.set(&FieldName::new(rank), Some(whole(number)));
                    next(row.into())
                }
                None => next(item.into()),
            }
        });
        finished.unwrap_or_else(|stop| stopped(stop, &self.budget))
    }
}
