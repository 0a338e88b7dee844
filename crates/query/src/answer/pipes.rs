//! Pipes at work: each is a stage that takes items and passes others on.
//!
//! A stage that needs all items (`sort`, `stats`) keeps what it must, and passes its rows on at the end. A stage that
//! needs no more items breaks, which ends the reading of records.

use super::accumulator::whole;
use super::answer_budget::AnswerBudget;
use super::columns::GroupTable;
use super::field_list::{AggregatedField, FieldQuestion, FoundField};
use super::gaps_stage::GapsStage;
use super::group_stage::{GroupOrder, GroupStage};
use super::item::{AnswerItem, AnswerRow};
use super::join_stage::{JoinStage, JoinTable};
use super::order::compare;
use super::pivot_stage::PivotStage;
use super::row_batch::RowBatch;
use super::row_pipes::{RowPipe, refused_text, with_fields};
use super::sessions_stage::SessionsStage;
use super::sort_stage::SortStage;
use super::spill::GroupRuns;
use super::stage::{Next, PipeStage, PipelineContext, StageInput};
use crate::entity::OwnedValue;
use daytable_logsql::effect::{RowFlow, may_be_same};
use daytable_logsql::query::{Aggregate, Expression, FieldPattern, GroupField};
use daytable_logsql::{FieldName, Pipe, Predicate};
use daytable_model::property::Property;
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::rc::Rc;
use std::sync::Arc;

/// Where the pipes pass their items on.
pub type ItemSink<'s> = &'s mut dyn FnMut(AnswerItem) -> ControlFlow<()>;

/// The pipes of one answer.
pub struct Pipeline<'q> {
    stages: Vec<Box<dyn PipeStage<'q> + 'q>>,
    budget: AnswerBudget,
    go_on: &'q dyn Fn() -> bool,
    /// The stage to which groups are added.
    grouping_at: usize,
    /// Items that were pushed.
    pushed: u64,
}

/// After how many items the pipes ask whether the answer goes on. They may take much longer for an item than its reading.
const ASKED_EVERY: u64 = 64;

impl<'q> Pipeline<'q> {
    /// Prepares the pipes, none of which joins anything.
    pub fn new(pipes: &[Pipe], context: &PipelineContext<'q>) -> Pipeline<'q> {
        Pipeline::joining(pipes, &[], context)
    }

    /// Prepares the pipes, with what each `join` among them joins.
    pub(super) fn joining(pipes: &[Pipe], joined: &[Rc<JoinTable>], context: &PipelineContext<'q>) -> Pipeline<'q> {
        let nothing = Rc::new(JoinTable::default());
        let stages = (0..pipes.len()).map(|at| {
            let joins = pipes[..at].iter().filter(|pipe| matches!(pipe, Pipe::Join(_))).count();
            let mut stage = stage(&pipes[at], joined.get(joins).unwrap_or(&nothing), context);
            if let Some(groups) = stage.as_groups() {
                groups.set_ordered(is_order_seen(&pipes[at + 1..]) && !is_sorted_next(&pipes[at..]));
                if let Some(Pipe::Sort { by, offset, limit: Some(limit), .. }) = pipes.get(at + 1)
                    && !by.is_empty()
                {
                    groups.set_first(by, limit.saturating_add(*offset));
                }
            }
            if let Some(by) = (0..at).rev().find_map(|from| groups_with_values(&pipes[from..at])) {
                stage.sort_by_groups(by.iter().map(|by| by.field.clone()).collect());
            }
            stage
        });
        let (budget, go_on) = (context.budget.clone(), context.go_on);
        Pipeline { stages: stages.collect(), budget, go_on, grouping_at: 0, pushed: 0 }
    }

    /// Passes an item through the stages. Breaks if they need no more, and now and then if nobody waits for the answer.
    pub fn push(&mut self, item: AnswerItem, sink: ItemSink<'_>) -> ControlFlow<()> {
        self.pushed += 1;
        if self.pushed.is_multiple_of(ASKED_EVERY) && !(self.go_on)() {
            return ControlFlow::Break(());
        }
        push(&mut self.stages, item.into(), sink)
    }

    /// The groups and functions of a stage, if it groups. Then groups may be added to it.
    pub(super) fn grouping(&mut self, at: usize) -> Option<(&[GroupField], &[Aggregate])> {
        self.grouping_at = at;
        self.stages.get_mut(at)?.as_groups().map(|stage| stage.grouping())
    }

    /// Adds groups in memory, for which so much was charged, to the stage that was asked for its groups.
    pub(super) fn add_table(&mut self, table: GroupTable, charged: usize) {
        if let Some(stage) = self.stages.get_mut(self.grouping_at).and_then(|stage| stage.as_groups()) {
            stage.add_table(table, charged);
        }
    }

    /// Lets records come to a stage that sorts in any order.
    pub(super) fn sort_by_place(&mut self, at: usize) {
        if let Some(stage) = self.stages.get_mut(at) {
            stage.sort_by_place();
        }
    }

    /// What the first stage asks about all fields, if that is all.
    pub(super) fn field_question(&self) -> Option<FieldQuestion> {
        self.stages.first()?.field_question()
    }

    /// Adds what was found of fields to the first stage, which asks about them.
    pub(super) fn add_field(&mut self, found: AggregatedField<'_>) {
        if let Some(stage) = self.stages.first_mut() {
            stage.add_field(found);
        }
    }

    /// Adds groups that are in the temporary file to the stage that was asked for its groups.
    pub(super) fn add_runs(&mut self, runs: GroupRuns) {
        if let Some(stage) = self.stages.get_mut(self.grouping_at).and_then(|stage| stage.as_groups()) {
            stage.add_runs(runs);
        }
    }

    /// Passes on what the stages kept, one stage after the other. Of a question that was refused, or whose time is over, no
    /// stage passes anything on: what it kept is not all, and would look like an answer.
    pub fn finish(&mut self, sink: ItemSink<'_>) -> ControlFlow<()> {
        for at in 0..self.stages.len() {
            if self.budget.over().is_some() || !(self.go_on)() {
                return ControlFlow::Break(());
            }
            let (done, rest) = self.stages.split_at_mut(at + 1);
            // A later stage that needs no more still passes on its own rows.
            let _ = done[at].finish(&mut |input| push(rest, input, sink));
        }
        ControlFlow::Continue(())
    }
}

/// Whether the order of the rows in front of some pipes makes a difference.
fn is_order_seen(pipes: &[Pipe]) -> bool {
    let mut flows = pipes.iter().map(|pipe| pipe.effect().flow);
    let first = flows.find(|flow| !matches!(flow, RowFlow::Each | RowFlow::Chosen));
    first != Some(RowFlow::Replaced { is_ordered: false })
}

/// Whether groups are sorted by columns while their values are still the first columns. Then that stage knows the
/// order of groups.
fn is_sorted_next(pipes: &[Pipe]) -> bool {
    let is_sort = |pipe: &Pipe| matches!(pipe, Pipe::Sort { by, .. } if !by.is_empty());
    let sort = pipes.iter().position(is_sort);
    sort.is_some_and(|sort| groups_with_values(&pipes[..sort]).is_some())
}

/// What groups are by, of a `stats` and pipes behind it that leave the values of groups as the first columns.
fn groups_with_values(pipes: &[Pipe]) -> Option<&[GroupField]> {
    let (Pipe::Stats { by, .. }, behind) = pipes.split_first()? else { return None };
    let is_by = |name: &FieldName| by.iter().any(|by| may_be_same(&by.field, name));
    let leaves = |pipe: &Pipe| match pipe {
        Pipe::Filter(_) => true,
        Pipe::Math(columns) => !columns.iter().any(|(_, name)| is_by(name)),
        _ => false,
    };
    (!by.is_empty() && behind.iter().all(leaves)).then_some(by)
}

fn push<'q>(stages: &mut [Box<dyn PipeStage<'q> + 'q>], input: StageInput<'_>, sink: ItemSink<'_>) -> ControlFlow<()> {
    match (stages.split_first_mut(), input) {
        (Some((first, rest)), StageInput::Item(item)) => first.push(item, &mut |input| push(rest, input, sink)),
        (Some((first, rest)), StageInput::Rows(rows)) => first.push_rows(rows, &mut |input| push(rest, input, sink)),
        (None, StageInput::Item(item)) => sink(item),
        (None, StageInput::Rows(rows)) => rows.each_row(|row| sink(AnswerItem::Row(row))),
    }
}

/// What a pipe makes of an item. A test holds each pipe to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PipeGrowth {
    /// No text: it keeps, drops, moves or counts, or keeps items that it charges.
    Nothing,
    /// Texts of any length. A [`RowPipe`] bounds each, and their sum in a row.
    Texts,
}

/// What a pipe makes. Whoever adds a pipe declares it here.
#[cfg_attr(not(test), expect(dead_code, reason = "a declaration, which a test compares with what the pipe does"))]
pub(super) fn growth(pipe: &Pipe) -> PipeGrowth {
    match pipe {
        Pipe::Stats { .. }
        | Pipe::Top { .. }
        | Pipe::Uniq { .. }
        | Pipe::FieldValues { .. }
        | Pipe::Sort { .. }
        | Pipe::Facets { .. }
        | Pipe::FieldNames { .. }
        | Pipe::Limit(_)
        | Pipe::Offset(_)
        | Pipe::Sample(_)
        | Pipe::Filter(_)
        | Pipe::Fields(_)
        | Pipe::Delete(_)
        | Pipe::Rename(_)
        | Pipe::Math(_)
        | Pipe::Length { .. }
        | Pipe::Sessions { .. }
        | Pipe::Gaps { .. }
        | Pipe::Pivot(_) => PipeGrowth::Nothing,
        Pipe::Copy(_)
        | Pipe::Extract(_)
        | Pipe::ExtractRegexp(_)
        | Pipe::Format { .. }
        | Pipe::Replace { .. }
        | Pipe::Pattern { .. }
        | Pipe::Join(_) => PipeGrowth::Texts,
    }
}

fn stage<'q>(pipe: &Pipe, joined: &Rc<JoinTable>, context: &PipelineContext<'q>) -> Box<dyn PipeStage<'q> + 'q> {
    let predicate = |filter: &Expression| Predicate::new(filter, context.now);
    let column = |name: &FieldName| GroupField { field: name.clone(), step: None };
    let hits = |by: &[FieldName], hits: &str, order: GroupOrder| {
        let by = by.iter().map(column).collect();
        Box::new(GroupStage::new(by, vec![counting(hits)], order, context))
    };
    match pipe {
        Pipe::Stats { by, aggregates } => {
            Box::new(GroupStage::new(by.clone(), aggregates.clone(), GroupOrder::Groups, context))
        }
        Pipe::Top { limit, by, hits: name, rank } => {
            hits(by, name, GroupOrder::Top { limit: *limit, rank: rank.clone() })
        }
        Pipe::Uniq { by, hits: name, limit } => {
            let order = GroupOrder::Uniq { limit: *limit, has_hits: name.is_some() };
            hits(by, name.as_deref().unwrap_or("hits"), order)
        }
        Pipe::FieldValues { field, limit } => {
            let order = GroupOrder::Uniq { limit: *limit, has_hits: true };
            hits(std::slice::from_ref(field), "hits", order)
        }
        Pipe::Sort { by, offset, limit, rank } => {
            Box::new(SortStage::new(by, (*offset, *limit), rank.as_ref(), context))
        }
        Pipe::Sessions { by, pause } => Box::new(SessionsStage::new(by, pause, context)),
        Pipe::Gaps { by, over } => Box::new(GapsStage::new(by, over, context)),
        Pipe::Pivot(pivot) => Box::new(PivotStage::new(pivot, context)),
        Pipe::Join(join) => Box::new(JoinStage::new(join, joined, context)),
        Pipe::Limit(limit) => Box::new(LimitStage { left: *limit }),
        Pipe::Offset(offset) => Box::new(OffsetStage { left: *offset }),
        Pipe::Sample(every) => Box::new(SampleStage { every: *every, count: 0 }),
        Pipe::Filter(filter) => Box::new(FilterStage(predicate(filter))),
        Pipe::Fields(fields) => Box::new(FieldsStage(fields.clone())),
        Pipe::Delete(_)
        | Pipe::Copy(_)
        | Pipe::Rename(_)
        | Pipe::Extract(_)
        | Pipe::ExtractRegexp(_)
        | Pipe::Format { .. }
        | Pipe::Replace { .. }
        | Pipe::Math(_)
        | Pipe::Length { .. }
        | Pipe::Pattern { .. } => Box::new(RowStage {
            pipe: RowPipe::new(pipe, context.now),
            go_on: context.go_on,
            budget: context.budget.clone(),
        }),
        Pipe::Facets { limit, values_max, length_max, keep_constant } => Box::new(FacetsStage {
            limit: *limit,
            values_max: *values_max,
            length_max: *length_max,
            keep_constant: *keep_constant,
            fields: BTreeMap::new(),
            items: 0,
            budget: context.budget.clone(),
        }),
        Pipe::FieldNames { name } => Box::new(FieldNamesStage {
            name: name.as_str().into(),
            fields: BTreeMap::new(),
            budget: context.budget.clone(),
        }),
    }
}

fn counting(name: &str) -> Aggregate {
    let function = daytable_logsql::query::Function::Count;
    Aggregate { function, fields: Vec::new(), limit: None, condition: None, name: name.to_owned() }
}

/// A stage that changes each row.
struct RowStage<'q> {
    pipe: RowPipe,
    go_on: &'q dyn Fn() -> bool,
    budget: AnswerBudget,
}

impl<'q> PipeStage<'q> for RowStage<'q> {
    fn push(&mut self, item: AnswerItem, next: Next<'_>) -> ControlFlow<()> {
        let mut row = item.into_row();
        match self.pipe.apply(&mut row, self.go_on) {
            Ok(true) => next(row.into()),
            Ok(false) => ControlFlow::Continue(()),
            Err(refusal) => {
                refused_text(refusal).into_iter().for_each(|over| self.budget.refuse(over));
                ControlFlow::Break(())
            }
        }
    }

    fn push_rows(&mut self, mut rows: RowBatch<'_>, next: Next<'_>) -> ControlFlow<()> {
        match self.pipe.apply_to_all(&mut rows) {
            true => next(StageInput::Rows(rows)),
            false => rows.each_row(|row| self.push(AnswerItem::Row(row), next)),
        }
    }
}

struct LimitStage {
    left: u64,
}

impl<'q> PipeStage<'q> for LimitStage {
    fn push(&mut self, item: AnswerItem, next: Next<'_>) -> ControlFlow<()> {
        if self.left == 0 {
            return ControlFlow::Break(());
        }
        self.left -= 1;
        next(item.into())?;
        if self.left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

struct OffsetStage {
    left: u64,
}

impl<'q> PipeStage<'q> for OffsetStage {
    fn push(&mut self, item: AnswerItem, next: Next<'_>) -> ControlFlow<()> {
        if self.left == 0 {
            return next(item.into());
        }
        self.left -= 1;
        ControlFlow::Continue(())
    }
}

/// Takes each n-th item, the same ones each time.
struct SampleStage {
    every: u64,
    count: u64,
}

impl<'q> PipeStage<'q> for SampleStage {
    fn push(&mut self, item: AnswerItem, next: Next<'_>) -> ControlFlow<()> {
        self.count += 1;
        if (self.count - 1).is_multiple_of(self.every) { next(item.into()) } else { ControlFlow::Continue(()) }
    }
}

struct FilterStage(Predicate);

impl<'q> PipeStage<'q> for FilterStage {
    fn push(&mut self, item: AnswerItem, next: Next<'_>) -> ControlFlow<()> {
        if self.0.matches(&item) { next(item.into()) } else { ControlFlow::Continue(()) }
    }

    fn push_rows(&mut self, mut rows: RowBatch<'_>, next: Next<'_>) -> ControlFlow<()> {
        match rows.retain(|row| self.0.matches(row)) {
            true => next(StageInput::Rows(rows)),
            false => ControlFlow::Continue(()),
        }
    }
}

struct FieldsStage(Vec<FieldPattern>);

impl<'q> PipeStage<'q> for FieldsStage {
    fn push(&mut self, item: AnswerItem, next: Next<'_>) -> ControlFlow<()> {
        next(with_fields(&self.0, item).into())
    }
}

/// The values of one field with their numbers; `None` if the field has too many or too long values.
type Facet = Option<HashMap<String, (u64, OwnedValue), foldhash::fast::RandomState>>;

struct FacetsStage {
    limit: u64,
    values_max: u64,
    length_max: u64,
    keep_constant: bool,
    fields: BTreeMap<String, Facet>,
    items: u64,
    budget: AnswerBudget,
}

impl FacetsStage {
    /// Adds records with a value; breaks if there is no memory for the value.
    fn add(&mut self, name: &str, value: Property<'_>, records: u64) -> ControlFlow<()> {
        let FacetsStage { values_max, length_max, fields, budget, .. } = self;
        let text = value.text();
        if text.is_empty() || name == "time" {
            return ControlFlow::Continue(());
        }
        if !fields.contains_key(name) {
            if !budget.charge(128 + name.len(), "fields") {
                return ControlFlow::Break(());
            }
            fields.insert(name.to_owned(), Some(HashMap::default()));
        }
        let Some(facet) = fields.get_mut(name) else { return ControlFlow::Continue(()) };
        let Some(values) = facet else { return ControlFlow::Continue(()) };
        if let Some((count, known)) = values.get_mut(&*text) {
            *count += records;
            // A value that comes as a number and as a text is shown as a number.
            if matches!(known, OwnedValue::String(_)) {
                *known = value.into();
            }
        } else if text.len() as u64 > *length_max || values.len() as u64 >= *values_max {
            *facet = None;
        } else if budget.charge(96 + 2 * text.len(), "values") {
            values.insert(text.into_owned(), (records, value.into()));
        } else {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

impl<'q> PipeStage<'q> for FacetsStage {
    fn field_question(&self) -> Option<FieldQuestion> {
        Some(FieldQuestion::Values { values_max: self.values_max, length_max: self.length_max })
    }

    fn add_field(&mut self, found: AggregatedField<'_>) {
        match found {
            AggregatedField::Records(records) => self.items += records,
            AggregatedField::Record(record) => {
                let _ = self.push(AnswerItem::Record(record), &mut |_| ControlFlow::Continue(()));
            }
            AggregatedField::Field(name, FoundField::Value(value, records)) => {
                let _ = self.add(name, value.as_property(), records);
            }
            AggregatedField::Field(name, FoundField::Dropped) => drop(self.fields.insert(name.to_owned(), None)),
            AggregatedField::Field(_, FoundField::Present(_)) => {}
        }
    }

    fn push(&mut self, item: AnswerItem, _next: Next<'_>) -> ControlFlow<()> {
        self.items += 1;
        let mut flow = ControlFlow::Continue(());
        item.each_field(&mut |name, value| {
            if flow.is_continue() {
                flow = self.add(name, value, 1);
            }
        });
        flow
    }

    fn finish(&mut self, next: Next<'_>) -> ControlFlow<()> {
        for (name, values) in std::mem::take(&mut self.fields) {
            let mut values: Vec<_> = values.into_iter().flatten().collect();
            let is_constant = values.len() == 1 && values[0].1.0 == self.items;
            if is_constant && !self.keep_constant {
                continue;
            }
            values.sort_by(|(a, (in_a, x)), (b, (in_b, y))| {
                in_b.cmp(in_a).then_with(|| compare(x.as_property(), y.as_property())).then_with(|| a.cmp(b))
            });
            for (_, (count, value)) in values.into_iter().take(usize::try_from(self.limit).unwrap_or(usize::MAX)) {
                let mut row = AnswerRow::default();
                row.push("field_name".into(), Some(OwnedValue::String(name.clone())));
                row.push("field_value".into(), Some(value));
                row.push("hits".into(), Some(whole(count)));
                next(row.into())?;
            }
        }
        ControlFlow::Continue(())
    }
}

struct FieldNamesStage {
    name: Arc<str>,
    fields: BTreeMap<String, u64>,
    budget: AnswerBudget,
}

impl FieldNamesStage {
    /// Adds records with a field; breaks if there is no memory for its name.
    fn add(&mut self, name: &str, records: u64) -> ControlFlow<()> {
        if let Some(count) = self.fields.get_mut(name) {
            *count += records;
        } else if self.budget.charge(128 + name.len(), "fields") {
            self.fields.insert(name.to_owned(), records);
        } else {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }
}

impl<'q> PipeStage<'q> for FieldNamesStage {
    fn field_question(&self) -> Option<FieldQuestion> {
        Some(FieldQuestion::Names)
    }

    fn add_field(&mut self, found: AggregatedField<'_>) {
        match found {
            AggregatedField::Record(record) => {
                let _ = self.push(AnswerItem::Record(record), &mut |_| ControlFlow::Continue(()));
            }
            AggregatedField::Field(name, FoundField::Present(records)) => {
                let _ = self.add(name, records);
            }
            _ => {}
        }
    }

    fn push(&mut self, item: AnswerItem, _next: Next<'_>) -> ControlFlow<()> {
        let mut flow = ControlFlow::Continue(());
        item.each_field(&mut |name, value| {
            if flow.is_continue() && !matches!(value, Property::String("")) {
                flow = self.add(name, 1);
            }
        });
        flow
    }

    fn finish(&mut self, next: Next<'_>) -> ControlFlow<()> {
        for (name, count) in std::mem::take(&mut self.fields) {
            let mut row = AnswerRow::default();
            row.push(self.name.clone(), Some(OwnedValue::String(name)));
            row.push("hits".into(), Some(whole(count)));
            next(row.into())?;
        }
        ControlFlow::Continue(())
    }
}
