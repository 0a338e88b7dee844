//! `join by (a) (query)`: the rows of another query beside those that have the same values.
//!
//! The other query is answered first, and its rows are kept in memory. An absent value and an empty one are the same.

use super::answer_budget::AnswerBudget;
use super::item::{AnswerItem, AnswerRow};
use super::row_pipes::refused_text;
use super::stage::{Next, PipeStage, PipelineContext, stopped};
use daytable_logsql::query::JoinPipe;
use daytable_logsql::{FieldName, Fields};
use daytable_model::property::Property;
use daytable_platform::budget::{OverBudget, RECORD_BYTES_MAX, TextRefusal};
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::rc::Rc;

/// The memory of a key beside its bytes.
const KEY_BYTES: usize = 96;

/// The rows of the other query, by the values of its columns.
#[derive(Debug, Default)]
pub(super) struct JoinTable {
    rows: HashMap<Vec<u8>, Vec<AnswerRow>, foldhash::quality::RandomState>,
}

fn key_of(by: &[FieldName], row: &AnswerRow) -> Vec<u8> {
    let mut key = Vec::new();
    for name in by {
        let text = row.field(name).map(Property::text).unwrap_or_default();
        key.extend_from_slice(&(text.len() as u64).to_le_bytes());
        key.extend_from_slice(text.as_bytes());
    }
    key
}

impl JoinTable {
    /// Adds a row of the other query.
    pub(super) fn add(&mut self, join: &JoinPipe, item: AnswerItem, budget: &AnswerBudget) -> Result<(), OverBudget> {
        let row = item.into_row();
        let key = key_of(&join.by, &row);
        budget.question().charge(KEY_BYTES + key.len() + row.bytes(), "joined rows").map_err(|over| match over {
            OverBudget::TooLarge(reason) => {
                OverBudget::TooLarge(format!("{reason}, the one in the parentheses of join, or group it there first"))
            }
            busy => busy,
        })?;
        self.rows.entry(key).or_default().push(row);
        Ok(())
    }
}

/// `join` at work.
pub(super) struct JoinStage<'q> {
    join: JoinPipe,
    table: Rc<JoinTable>,
    budget: AnswerBudget,
    go_on: &'q dyn Fn() -> bool,
}

impl<'q> JoinStage<'q> {
    pub(super) fn new(join: &JoinPipe, table: &Rc<JoinTable>, context: &PipelineContext<'q>) -> JoinStage<'q> {
        JoinStage { join: join.clone(), table: table.clone(), budget: context.budget.clone(), go_on: context.go_on }
    }
}

impl<'q> PipeStage<'q> for JoinStage<'q> {
    fn push(&mut self, item: AnswerItem, next: Next<'_>) -> ControlFlow<()> {
        let row = item.into_row();
        let Some(others) = self.table.rows.get(&key_of(&self.join.by, &row)) else {
            return if self.join.is_inner { ControlFlow::Continue(()) } else { next(AnswerItem::Row(row)) };
        };
        for (number, other) in (1usize..).zip(others) {
            if number.is_multiple_of(1024) && !(self.go_on)() {
                return ControlFlow::Break(());
            }
            let mut joined = row.clone();
            for (name, value) in other.columns() {
                let name = FieldName::new(name);
                if !self.join.by.contains(&name) {
                    joined.set(&self.join.column(&name), value.clone());
                }
            }
            if joined.text_bytes() > RECORD_BYTES_MAX {
                let over = refused_text(TextRefusal::TooLong(RECORD_BYTES_MAX));
                return over.map_or(ControlFlow::Break(()), |over| stopped(over, &self.budget));
            }
            next(AnswerItem::Row(joined))?;
        }
        ControlFlow::Continue(())
    }
}
