//! `join by (a) (query)`: the rows of another query beside those that have the same values.
//!
//! The other query is answered first, and its rows are kept: in memory, or in a temporary file, in the order of the hashes of
//! their values. An absent value and an empty one are the same.

use super::answer_budget::AnswerBudget;
use super::item::{AnswerItem, AnswerRow};
use super::row_pipes::refused_text;
use super::spill::{ExternalSort, Lookup, LookupWriter, SortItem, SpillStop};
use super::stage::{Next, PipeStage, PipelineContext, stopped};
use crate::spilled::{Spilled, SpilledBytes};
use daytable_logsql::query::JoinPipe;
use daytable_logsql::{FieldName, Fields};
use daytable_model::property::Property;
use daytable_platform::budget::{OverBudget, RECORD_BYTES_MAX, TextRefusal};
use foldhash::quality::RandomState;
use std::hash::BuildHasher;
use std::ops::ControlFlow;
use std::rc::Rc;

/// After how many rows the stage asks whether the answer goes on: a few records may have very many rows together.
const ASKED_EVERY: usize = 256;

/// A row of the other query, with its values of the fields in `by`.
struct JoinRow {
    hash: u64,
    key: Vec<u8>,
    row: AnswerRow,
}

impl Spilled for JoinRow {
    fn write(&self, to: &mut Vec<u8>) {
        to.extend_from_slice(&self.hash.to_le_bytes());
        self.key.write(to);
        self.row.write(to);
    }

    fn read(from: &mut SpilledBytes<'_>) -> Option<JoinRow> {
        let hash = u64::from_le_bytes(from.array()?);
        Some(JoinRow { hash, key: Spilled::read(from)?, row: Spilled::read(from)? })
    }
}

impl SortItem for JoinRow {
    fn bytes(&self) -> usize {
        size_of::<JoinRow>() + self.key.len() + self.row.bytes()
    }
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

/// Gathers the rows of the other query.
pub(super) struct JoinRows<'q> {
    by: Vec<FieldName>,
    hasher: RandomState,
    sort: ExternalSort<'q, JoinRow>,
    budget: AnswerBudget,
}

impl<'q> JoinRows<'q> {
    pub(super) fn new(join: &JoinPipe, budget: &AnswerBudget) -> JoinRows<'q> {
        let by_hash = |one: &JoinRow, other: &JoinRow| one.hash.cmp(&other.hash);
        JoinRows {
            by: join.by.clone(),
            hasher: RandomState::default(),
            sort: ExternalSort::new(by_hash, usize::MAX, budget, "joined rows"),
            budget: budget.clone(),
        }
    }

    /// Adds a row.
    pub(super) fn add(&mut self, item: AnswerItem) -> Result<(), OverBudget> {
        let row = item.into_row();
        let key = key_of(&self.by, &row);
        self.sort.push(JoinRow { hash: self.hasher.hash_one(&key), key, row })
    }

    /// The rows, ready to be joined.
    pub(super) fn finish(self, go_on: &dyn Fn() -> bool) -> Result<JoinTable, SpillStop> {
        let JoinRows { hasher, sort, budget, .. } = self;
        let rows = if sort.is_spilled() {
            let mut writer = LookupWriter::new(&budget)?;
            sort.drain(go_on, &mut |JoinRow { hash, key, row }| writer.push(hash, &(key, row)))?;
            OtherRows::InFile(writer.finish()?)
        } else {
            let mut rows = Vec::new();
            sort.drain(go_on, &mut |row| {
                budget.question().charge(row.bytes(), "joined rows")?;
                rows.push(row);
                Ok(())
            })?;
            OtherRows::InMemory(rows)
        };
        Ok(JoinTable { hasher, rows })
    }
}

/// The rows of the other query, by the values of its columns.
#[derive(Default)]
pub(super) struct JoinTable {
    hasher: RandomState,
    rows: OtherRows,
}

enum OtherRows {
    /// In the order of their hashes.
    InMemory(Vec<JoinRow>),
    /// Their values of the fields in `by`, and they themselves.
    InFile(Lookup<(Vec<u8>, AnswerRow)>),
}

impl Default for OtherRows {
    fn default() -> OtherRows {
        OtherRows::InMemory(Vec::new())
    }
}

impl JoinTable {
    /// Passes on the rows with a key, in their order, until `each` breaks.
    fn each(
        &self,
        key: &[u8],
        each: &mut dyn FnMut(&AnswerRow) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, SpillStop> {
        let hash = self.hasher.hash_one(key);
        match &self.rows {
            OtherRows::InMemory(rows) => {
                let of_hash = &rows[rows.partition_point(|row| row.hash < hash)..];
                for row in of_hash.iter().take_while(|row| row.hash == hash).filter(|row| row.key == key) {
                    if each(&row.row).is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                Ok(ControlFlow::Continue(()))
            }
            OtherRows::InFile(rows) => rows.each(hash, &mut |(of, row)| {
                if of == key { each(&row) } else { ControlFlow::Continue(()) }
            }),
        }
    }
}

/// `join` at work.
pub(super) struct JoinStage<'q> {
    join: JoinPipe,
    table: Rc<JoinTable>,
    /// Rows that were made, of all records.
    made: usize,
    budget: AnswerBudget,
    go_on: &'q dyn Fn() -> bool,
}

impl<'q> JoinStage<'q> {
    pub(super) fn new(join: &JoinPipe, table: &Rc<JoinTable>, context: &PipelineContext<'q>) -> JoinStage<'q> {
        let (join, table) = (join.clone(), table.clone());
        JoinStage { join, table, made: 0, budget: context.budget.clone(), go_on: context.go_on }
    }
}

impl<'q> PipeStage<'q> for JoinStage<'q> {
    fn push(&mut self, item: AnswerItem, next: Next<'_>) -> ControlFlow<()> {
        let row = item.into_row();
        let JoinStage { join, table, made, budget, go_on } = self;
        let before = *made;
        let flow = table.each(&key_of(&join.by, &row), &mut |other| {
            *made += 1;
            if made.is_multiple_of(ASKED_EVERY) && !go_on() {
                return ControlFlow::Break(());
            }
            let mut joined = row.clone();
            for (name, value) in other.columns() {
                let name = FieldName::new(name);
                if !join.by.contains(&name) {
                    joined.set(&join.column(&name), value.clone());
                }
            }
            if joined.text_bytes() > RECORD_BYTES_MAX {
                let over = refused_text(TextRefusal::TooLong(RECORD_BYTES_MAX));
                return over.map_or(ControlFlow::Break(()), |over| stopped(over, budget));
            }
            next(joined.into())
        });
        match flow {
            Ok(ControlFlow::Continue(())) if *made == before && !join.is_inner => next(row.into()),
            Ok(flow) => flow,
            Err(stop) => stopped(stop, budget),
        }
    }
}
