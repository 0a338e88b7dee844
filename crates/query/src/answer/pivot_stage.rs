//! `pivot status`: a column for each value of a group, and their total last.
//!
//! ```text
//! path    status  n              path    200   500   total
//! /cart   200     2              /cart   2           2
//! /pay    200     1      ──►     /pay    1     1     2
//! /pay    500     1
//! ```

use super::accumulator::{Sum, compare_groups, plain_number};
use super::answer_budget::AnswerBudget;
use super::item::{AnswerItem, AnswerRow, value_bytes};
use super::stage::{Next, PipeStage, PipelineContext, stopped};
use crate::entity::OwnedValue;
use daytable_logsql::query::Pivot;
use daytable_logsql::{FieldName, Fields};
use daytable_model::property::Property;
use daytable_platform::budget::OverBudget;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Columns that a `pivot` makes.
const COLUMNS_MAX: usize = 100;
/// The memory of a row beside its values, and of a cell.
const ROW_BYTES: usize = 200;
const CELL_BYTES: usize = 80;

/// `pivot` at work.
pub(super) struct PivotStage {
    pivot: Pivot,
    /// The values of the field, each with one of the other columns.
    columns: Vec<(Option<OwnedValue>, Arc<str>)>,
    numbers: HashMap<Vec<u8>, usize>,
    rows: Vec<PivotRow>,
    budget: AnswerBudget,
}

struct PivotRow {
    groups: Vec<Option<OwnedValue>>,
    /// Each with the number of its column.
    cells: Vec<(usize, OwnedValue)>,
}

impl PivotStage {
    pub(super) fn new(pivot: &Pivot, context: &PipelineContext<'_>) -> PivotStage {
        PivotStage {
            pivot: pivot.clone(),
            columns: Vec::new(),
            numbers: HashMap::new(),
            rows: Vec::new(),
            budget: context.budget.clone(),
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
        let at = match self.numbers.get(&key) {
            Some(at) => *at,
            None => {
                let bytes = |value: &OwnedValue| size_of::<OwnedValue>() + value_bytes(value);
                let values = groups.iter().flatten().map(bytes).sum::<usize>();
                self.budget.question().charge(ROW_BYTES + 2 * key.len() + values, "rows of pivot")?;
                self.numbers.insert(key, self.rows.len());
                self.rows.push(PivotRow { groups, cells: Vec::new() });
                self.rows.len() - 1
            }
        };
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
            self.budget.question().charge(CELL_BYTES + value_bytes(value), "rows of pivot")?;
            let cells = &mut self.rows[at].cells;
            match cells.iter_mut().find(|(known, _)| *known == column) {
                Some((_, known)) => *known = sum([&*known, value]).unwrap_or_else(|| value.clone()),
                None => cells.push((column, value.clone())),
            }
        }
        Ok(())
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
            let by_value =
                compare_groups([&self.pivot.field].into_iter(), std::slice::from_ref(one), std::slice::from_ref(other));
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

impl<'q> PipeStage<'q> for PivotStage {
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
        let totals: Vec<(Arc<str>, Arc<str>)> = names.iter().map(|name| (name.clone(), free(&total(name)))).collect();
        for PivotRow { groups, cells } in std::mem::take(&mut self.rows) {
            let mut row = AnswerRow::default();
            for (group, value) in self.pivot.groups.iter().zip(groups) {
                row.push(group.written().into(), value);
            }
            for (at, name) in &shown {
                let cell = cells.iter().find(|(column, _)| column == at);
                row.push(name.clone(), cell.map(|(_, value)| value.clone()));
            }
            for (of, name) in &totals {
                let of_name = cells.iter().filter(|(column, _)| self.columns[*column].1 == *of);
                row.push(name.clone(), sum(of_name.map(|(_, value)| value)));
            }
            next(AnswerItem::Row(row))?;
        }
        ControlFlow::Continue(())
    }
}
