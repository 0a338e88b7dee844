//! `pivot status`: a column for each value of a group, and their total last.
//!
//! ```text
//! path    status  n              path    200   500   total
//! /cart   200     2              /cart   2           2
//! /pay    200     1      ──►     /pay    1     1     2
//! /pay    500     1
//! ```
//!
//! Rows of one group may come far apart, so they are sorted by their group, and then into the order in which the groups came
//! first. What outgrows the memory is in a temporary file meanwhile.

use super::accumulator::{Sum, cell, compare_groups, plain_number};
use super::answer_budget::AnswerBudget;
use super::item::{AnswerItem, AnswerRow, value_bytes};
use super::spill::{ExternalSort, SortItem, SpillStop};
use super::stage::{Next, PipeStage, PipelineContext, stopped};
use crate::entity::OwnedValue;
use crate::spilled::{Spilled, SpilledBytes};
use daytable_logsql::query::Pivot;
use daytable_logsql::{FieldName, Fields};
use daytable_model::property::Property;
use daytable_platform::budget::OverBudget;
use std::ops::ControlFlow;
use std::sync::Arc;

/// What is kept, for the reason of a refusal.
const KEPT: &str = "rows of pivot";
/// Columns that a `pivot` makes.
const COLUMNS_MAX: usize = 100;

/// `pivot` at work.
pub(super) struct PivotStage<'q> {
    pivot: Pivot,
    /// The values of the field, each with one of the other columns.
    columns: Vec<(Option<OwnedValue>, Arc<str>)>,
    /// The rows that came, by their groups.
    rows: ExternalSort<'q, PivotRow>,
    rows_pushed: u64,
    budget: AnswerBudget,
    go_on: &'q dyn Fn() -> bool,
}

/// A row that came, or the rows of one group together.
struct PivotRow {
    /// The number of the first one.
    number: u64,
    key: Vec<u8>,
    groups: Vec<Option<OwnedValue>>,
    /// Each with the number of its column.
    cells: Vec<(u64, OwnedValue)>,
}

impl Spilled for PivotRow {
    fn write(&self, to: &mut Vec<u8>) {
        self.number.write(to);
        self.key.write(to);
        self.groups.write(to);
        self.cells.write(to);
    }

    fn read(from: &mut SpilledBytes<'_>) -> Option<PivotRow> {
        Some(PivotRow {
            number: Spilled::read(from)?,
            key: Spilled::read(from)?,
            groups: Spilled::read(from)?,
            cells: Spilled::read(from)?,
        })
    }
}

impl SortItem for PivotRow {
    fn bytes(&self) -> usize {
        let of_value = |value: &OwnedValue| size_of::<(u64, OwnedValue)>() + value_bytes(value);
        let values = self.groups.iter().flatten().chain(self.cells.iter().map(|(_, value)| value));
        size_of::<PivotRow>() + self.key.len() + values.map(of_value).sum::<usize>()
    }
}

impl PivotRow {
    /// Adds the cells of a later row of the same group.
    fn add(&mut self, later: PivotRow) {
        for (column, value) in later.cells {
            match self.cells.iter_mut().find(|(known, _)| *known == column) {
                Some((_, known)) => *known = sum([&*known, &value]).unwrap_or(value),
                None => self.cells.push((column, value)),
            }
        }
    }
}

/// Sorts rows by their groups.
fn rows_by_group<'q>(budget: &AnswerBudget) -> ExternalSort<'q, PivotRow> {
    ExternalSort::new(|one: &PivotRow, other| one.key.cmp(&other.key), usize::MAX, budget, KEPT)
}

impl<'q> PivotStage<'q> {
    pub(super) fn new(pivot: &Pivot, context: &PipelineContext<'q>) -> PivotStage<'q> {
        PivotStage {
            pivot: pivot.clone(),
            columns: Vec::new(),
            rows: rows_by_group(&context.budget),
            rows_pushed: 0,
            budget: context.budget.clone(),
            go_on: context.go_on,
        }
    }

    fn add(&mut self, row: &AnswerRow) -> Result<(), OverBudget> {
        let value =
            |name: &FieldName| row.field(name).filter(|value| *value != Property::String("")).map(OwnedValue::from);
        let (groups, of): (Vec<_>, _) = (self.pivot.groups.iter().map(value).collect(), value(&self.pivot.field));
        let mut key = Vec::new();
        for value in &groups {
            let text = value.as_ref().map(|value| value.as_property().text());
            key.extend_from_slice(&text.as_ref().map_or(0, |text| text.len() as u64 + 1).to_le_bytes());
            key.extend_from_slice(text.as_deref().unwrap_or_default().as_bytes());
        }
        let mut pushed = PivotRow { number: self.rows_pushed, key, groups, cells: Vec::new() };
        self.rows_pushed += 1;
        let is_group =
            |name: &str| self.pivot.groups.iter().chain([&self.pivot.field]).any(|group| group.written() == name);
        for (name, value) in row.columns().iter().filter(|(name, _)| !is_group(name)) {
            let Some(value) = value else { continue };
            let is_same = |known: &Option<OwnedValue>| {
                known.as_ref().map(|known| known.as_property().text()) == of.as_ref().map(|of| of.as_property().text())
            };
            let known = self.columns.iter().position(|(known, of_name)| of_name == name && is_same(known));
            let column = match known {
                Some(column) => column,
                None if self.columns.len() < COLUMNS_MAX => {
                    self.columns.push((of.clone(), name.clone()));
                    self.columns.len() - 1
                }
                None => return Err(self.too_many()),
            };
            pushed.cells.push((column as u64, value.clone()));
        }
        self.rows.push(pushed)
    }

    /// Passes on the rows of each group together, in the order in which the groups came.
    fn grouped(&mut self, each: &mut dyn FnMut(PivotRow) -> ControlFlow<()>) -> Result<ControlFlow<()>, SpillStop> {
        let by_number = |one: &PivotRow, other: &PivotRow| one.number.cmp(&other.number);
        let mut groups = ExternalSort::new(by_number, usize::MAX, &self.budget, KEPT);
        let rows = std::mem::replace(&mut self.rows, rows_by_group(&self.budget));
        let mut last = None::<PivotRow>;
        rows.drain(self.go_on, &mut |row| {
            match &mut last {
                Some(last) if last.key == row.key => last.add(row),
                _ => last.replace(row).map_or(Ok(()), |group| groups.push(group))?,
            }
            Ok(())
        })?;
        last.map_or(Ok(()), |group| groups.push(group))?;
        groups.finish(self.go_on, each)
    }

    fn too_many(&self) -> OverBudget {
        let field = &self.pivot.field;
        OverBudget::TooLarge(format!(
            "pivot makes at most {COLUMNS_MAX} columns, and {field} has more values; choose some of them in front of it, as in \
             | filter {field}:in(a, b)"
        ))
    }

    /// The number of each column in their order, and its name.
    fn ordered(&self, names: &[Arc<str>]) -> Vec<(usize, String)> {
        let mut order: Vec<usize> = (0..self.columns.len()).collect();
        let place = |name: &Arc<str>| names.iter().position(|known| known == name);
        order.sort_by(|a, b| {
            let ((one, first), (other, second)) = (&self.columns[*a], &self.columns[*b]);
            let by_value = compare_groups(
                std::iter::once(&self.pivot.field),
                std::iter::once(cell(one)),
                std::iter::once(cell(other)),
            );
            by_value.then_with(|| place(first).cmp(&place(second)))
        });
        let name = |at: usize| {
            let (value, name) = &self.columns[at];
            let value = value.as_ref().map_or("null".into(), |value| value.as_property().text());
            (at, if names.len() > 1 { format!("{value} {name}") } else { value.into_owned() })
        };
        order.into_iter().map(name).collect()
    }
}

/// The sum of the numbers among some values.
fn sum<'v>(values: impl IntoIterator<Item = &'v OwnedValue>) -> Option<OwnedValue> {
    let mut sum = Sum::default();
    values.into_iter().filter_map(|value| plain_number(value.as_property())).for_each(|number| sum.add(number));
    sum.value()
}

impl<'q> PipeStage<'q> for PivotStage<'q> {
    fn push(&mut self, item: AnswerItem, _next: Next<'_>) -> ControlFlow<()> {
        match self.add(&item.into_row()) {
            Ok(()) => ControlFlow::Continue(()),
            Err(over) => stopped(over, &self.budget),
        }
    }

    fn finish(&mut self, next: Next<'_>) -> ControlFlow<()> {
        let mut names: Vec<Arc<str>> = Vec::new();
        for (_, name) in &self.columns {
            if !names.contains(name) {
                names.push(name.clone());
            }
        }
        let columns = self.ordered(&names);
        // A value may have the name of another column.
        let mut used: Vec<Arc<str>> = self.pivot.groups.iter().map(|group| group.written().into()).collect();
        let mut free = |name: &str| {
            let mut name = name.to_owned();
            while used.iter().any(|used| **used == *name) {
                name.push('_');
            }
            used.push(name.as_str().into());
            Arc::<str>::from(name)
        };
        let shown: Vec<(usize, Arc<str>)> = columns.iter().map(|(at, name)| (*at, free(name))).collect();
        let total = |name: &Arc<str>| if names.len() > 1 { format!("total {name}") } else { "total".into() };
        let mut totals: Vec<(Arc<str>, Arc<str>)> =
            names.iter().map(|name| (name.clone(), free(&total(name)))).collect();
        if names.is_empty() {
            // No value is there, and so no column but this one.
            totals.push((Arc::default(), free("total")));
        }
        let (written, names): (Vec<Arc<str>>, Vec<Arc<str>>) = (
            self.pivot.groups.iter().map(|group| group.written().into()).collect(),
            self.columns.iter().map(|(_, name)| name.clone()).collect(),
        );
        let flow = self.grouped(&mut |PivotRow { groups, cells, .. }| {
            let mut row = AnswerRow::default();
            for (group, value) in written.iter().zip(groups) {
                row.push(group.clone(), value);
            }
            for (at, name) in &shown {
                let cell = cells.iter().find(|(column, _)| *column == *at as u64);
                row.push(name.clone(), cell.map(|(_, value)| value.clone()));
            }
            for (of, name) in &totals {
                let of_name = cells.iter().filter(|(column, _)| names.get(*column as usize) == Some(of));
                row.push(name.clone(), sum(of_name.map(|(_, value)| value)));
            }
            next(row.into())
        });
        flow.unwrap_or_else(|stop| stopped(stop, &self.budget))
    }
}
