//! Pipes at work: each is a stage that takes items and passes others on.
//!
//! A stage that needs all items (`sort`, `stats`) keeps what it must, and passes its rows on at the end. A stage that
//! needs no more items breaks, which ends the reading of records.

use super::accumulator::{Accumulator, whole};
use super::answer_budget::AnswerBudget;
use super::columns::GatheredGroups;
use super::field_list::{FieldQuestion, FoundField, GatheredField};
use super::item::{AnswerItem, AnswerRow, value_bytes};
use super::order::{compare, compare_values};
use super::row_pipes::{RowPipe, property_bytes, refused_text, with_fields};
use super::value_steps::step_start;
use crate::entity::OwnedValue;
use daytable_logsql::effect::RowFlow;
use daytable_logsql::query::{Aggregate, Expression, FieldPattern, GroupField, SortKey, Step, StepSize};
use daytable_logsql::{FieldName, Fields, Pipe, Predicate};
use daytable_model::property::Property;
use daytable_model::time::Ticks;
use std::cmp::Ordering;
use std::collections::{BTreeMap, HashMap};
use std::ops::ControlFlow;
use std::sync::Arc;

/// Where a stage passes items on.
pub type Next<'n> = &'n mut dyn FnMut(AnswerItem) -> ControlFlow<()>;

/// What the stages of one answer know.
#[derive(Clone)]
pub struct PipelineContext<'q> {
    /// The time that `now` means.
    pub now: Ticks,
    /// The length of the answer's time in seconds, if the query limits its start.
    pub seconds: Option<f64>,
    /// The shared memory.
    pub budget: AnswerBudget,
    /// Whether the answer goes on: somebody waits for it, and it has time. Asked within the work on one item, too.
    pub go_on: &'q dyn Fn() -> bool,
}

/// A pipe at work.
trait PipeStage {
    /// Takes an item. Breaks if the stage needs no more.
    fn push(&mut self, item: AnswerItem, next: Next<'_>) -> ControlFlow<()>;

    /// The stage, if it groups.
    fn as_groups(&mut self) -> Option<&mut GroupStage> {
        None
    }

    /// The stage, if it sorts.
    fn as_sort(&mut self) -> Option<&mut SortStage> {
        None
    }

    /// What the stage asks about all fields, if that is all.
    fn field_question(&self) -> Option<FieldQuestion> {
        None
    }

    /// Takes what was found of the fields of records.
    fn add_field(&mut self, _found: GatheredField<'_>) {}

    /// Passes on what the stage kept.
    fn finish(&mut self, _next: Next<'_>) -> ControlFlow<()> {
        ControlFlow::Continue(())
    }
}

/// The pipes of one answer.
pub struct Pipeline<'q> {
    stages: Vec<Box<dyn PipeStage + 'q>>,
    /// The stage to which groups are added.
    grouping_at: usize,
}

impl<'q> Pipeline<'q> {
    /// Prepares the pipes.
    pub fn new(pipes: &[Pipe], context: &PipelineContext<'q>) -> Pipeline<'q> {
        let stages = (0..pipes.len()).map(|at| {
            let mut stage = stage(&pipes[at], context);
            if let Some(groups) = stage.as_groups() {
                groups.is_ordered = is_order_seen(&pipes[at + 1..]);
            }
            stage
        });
        Pipeline { stages: stages.collect(), grouping_at: 0 }
    }

    /// Passes an item through the stages.
    pub fn push(&mut self, item: AnswerItem, sink: Next<'_>) -> ControlFlow<()> {
        push(&mut self.stages, item, sink)
    }

    /// The groups and functions of a stage, and how many of the greatest groups it wants, if it groups. Then groups may be
    /// added to it.
    pub(super) fn grouping(&mut self, at: usize) -> Option<(&[GroupField], &[Aggregate], Option<u64>)> {
        self.grouping_at = at;
        let stage = self.stages.get_mut(at)?.as_groups()?;
        let top = match &stage.order {
            GroupOrder::Top { limit, .. } => Some(*limit),
            _ => None,
        };
        Some((&stage.by, &stage.aggregates, top))
    }

    /// Gives the stage that was asked for its groups all of them.
    pub(super) fn set_groups(&mut self, groups: GatheredGroups) {
        if let Some(stage) = self.stages.get_mut(self.grouping_at).and_then(|stage| stage.as_groups()) {
            stage.set_groups(groups);
        }
    }

    /// Lets records come to a stage that sorts in any order.
    pub(super) fn sort_by_place(&mut self, at: usize) {
        if let Some(stage) = self.stages.get_mut(at).and_then(|stage| stage.as_sort()) {
            stage.is_by_place = true;
        }
    }

    /// What the first stage asks about all fields, if that is all.
    pub(super) fn field_question(&self) -> Option<FieldQuestion> {
        self.stages.first()?.field_question()
    }

    /// Adds what was found of fields to the first stage, which asks about them.
    pub(super) fn add_field(&mut self, found: GatheredField<'_>) {
        if let Some(stage) = self.stages.first_mut() {
            stage.add_field(found);
        }
    }

    /// Adds a group to the stage that was asked for its groups.
    pub(super) fn add_group(&mut self, values: Vec<Option<OwnedValue>>, states: Vec<Accumulator>) {
        if let Some(stage) = self.stages.get_mut(self.grouping_at).and_then(|stage| stage.as_groups()) {
            stage.add_group(values, states);
        }
    }

    /// Passes on what the stages kept, one stage after the other.
    pub fn finish(&mut self, sink: Next<'_>) -> ControlFlow<()> {
        for at in 0..self.stages.len() {
            let (done, rest) = self.stages.split_at_mut(at + 1);
            // A later stage that needs no more still passes on its own rows.
            let _ = done[at].finish(&mut |item| push(rest, item, sink));
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

fn push(stages: &mut [Box<dyn PipeStage + '_>], item: AnswerItem, sink: Next<'_>) -> ControlFlow<()> {
    match stages.split_first_mut() {
        Some((first, rest)) => first.push(item, &mut |item| push(rest, item, sink)),
        None => sink(item),
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
        | Pipe::Length { .. } => PipeGrowth::Nothing,
        Pipe::Copy(_) | Pipe::Extract(_) | Pipe::ExtractRegexp(_) | Pipe::Format { .. } | Pipe::Replace { .. } => {
            PipeGrowth::Texts
        }
    }
}

fn stage<'q>(pipe: &Pipe, context: &PipelineContext<'q>) -> Box<dyn PipeStage + 'q> {
    let predicate = |filter: &Expression| Predicate::new(filter, context.now);
    let column = |name: &FieldName| GroupField { field: name.clone(), step: None };
    let hits = |by: &[FieldName], hits: &str| {
        let by = by.iter().map(column).collect();
        GroupStage::new(by, vec![counting(hits)], context)
    };
    match pipe {
        Pipe::Stats { by, aggregates } => Box::new(GroupStage::new(by.clone(), aggregates.clone(), context)),
        Pipe::Top { limit, by, hits: name, rank } => {
            let order = GroupOrder::Top { limit: *limit, rank: rank.clone() };
            Box::new(GroupStage { order, ..hits(by, name) })
        }
        Pipe::Uniq { by, hits: name, limit } => {
            let order = GroupOrder::Uniq { limit: *limit, has_hits: name.is_some() };
            Box::new(GroupStage { order, ..hits(by, name.as_deref().unwrap_or("hits")) })
        }
        Pipe::FieldValues { field, limit } => {
            let order = GroupOrder::Uniq { limit: *limit, has_hits: true };
            Box::new(GroupStage { order, ..hits(std::slice::from_ref(field), "hits") })
        }
        Pipe::Sort { by, offset, limit, rank } => Box::new(SortStage {
            by: by.clone(),
            offset: *offset,
            limit: *limit,
            rank: rank.clone(),
            is_by_place: false,
            items: Vec::new(),
            budget: context.budget.clone(),
        }),
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
        | Pipe::Length { .. } => Box::new(RowStage {
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

impl PipeStage for RowStage<'_> {
    fn push(&mut self, item: AnswerItem, next: Next<'_>) -> ControlFlow<()> {
        let mut row = item.into_row();
        match self.pipe.apply(&mut row, self.go_on) {
            Ok(true) => next(AnswerItem::Row(row)),
            Ok(false) => ControlFlow::Continue(()),
            Err(refusal) => {
                refused_text(refusal).into_iter().for_each(|over| self.budget.refuse(over));
                ControlFlow::Break(())
            }
        }
    }
}

struct LimitStage {
    left: u64,
}

impl PipeStage for LimitStage {
    fn push(&mut self, item: AnswerItem, next: Next<'_>) -> ControlFlow<()> {
        if self.left == 0 {
            return ControlFlow::Break(());
        }
        self.left -= 1;
        next(item)?;
        if self.left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    }
}

struct OffsetStage {
    left: u64,
}

impl PipeStage for OffsetStage {
    fn push(&mut self, item: AnswerItem, next: Next<'_>) -> ControlFlow<()> {
        if self.left == 0 {
            return next(item);
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

impl PipeStage for SampleStage {
    fn push(&mut self, item: AnswerItem, next: Next<'_>) -> ControlFlow<()> {
        self.count += 1;
        if (self.count - 1).is_multiple_of(self.every) { next(item) } else { ControlFlow::Continue(()) }
    }
}

struct FilterStage(Predicate);

impl PipeStage for FilterStage {
    fn push(&mut self, item: AnswerItem, next: Next<'_>) -> ControlFlow<()> {
        if self.0.matches(&item) { next(item) } else { ControlFlow::Continue(()) }
    }
}

struct FieldsStage(Vec<FieldPattern>);

impl PipeStage for FieldsStage {
    fn push(&mut self, item: AnswerItem, next: Next<'_>) -> ControlFlow<()> {
        next(with_fields(&self.0, item))
    }
}

/// Sorts items; with a limit, keeps only those that can be in the answer.
struct SortStage {
    by: Vec<SortKey>,
    offset: u64,
    limit: Option<u64>,
    rank: Option<String>,
    /// Whether the items come in any order, and those of one order are to be as records come.
    is_by_place: bool,
    /// Items with their keys.
    items: Vec<(Vec<Option<OwnedValue>>, AnswerItem)>,
    budget: AnswerBudget,
}

impl SortStage {
    fn kept_max(&self) -> usize {
        usize::try_from(self.limit.map_or(u64::MAX, |limit| limit.saturating_add(self.offset))).unwrap_or(usize::MAX)
    }

    fn sort(&mut self) {
        let (by, is_by_place) = (&self.by, self.is_by_place);
        // Items of the same order stay in the order in which they came.
        self.items.sort_by(|(a, one), (b, other)| {
            if by.is_empty() {
                return compare_rows(one, other);
            }
            let parts = by.iter().zip(a.iter().zip(b)).map(|(key, (a, b))| {
                let order = compare_values(&key.field, property(a), property(b));
                if key.is_descending { order.reverse() } else { order }
            });
            let order = parts.fold(Ordering::Equal, Ordering::then);
            if is_by_place { order.then_with(|| one.place().cmp(&other.place())) } else { order }
        });
    }
}

/// What was charged for an item and its keys.
fn sorted_bytes((keys, item): &(Vec<Option<OwnedValue>>, AnswerItem)) -> usize {
    let of_key = |key: &Option<OwnedValue>| size_of::<OwnedValue>() + key.as_ref().map_or(0, value_bytes);
    item.bytes() + keys.iter().map(of_key).sum::<usize>()
}

fn property(value: &Option<OwnedValue>) -> Option<Property<'_>> {
    value.as_ref().map(OwnedValue::as_property)
}

/// The order of two items without keys: records by time, rows column by column.
fn compare_rows(one: &AnswerItem, other: &AnswerItem) -> Ordering {
    match (one, other) {
        (AnswerItem::Record(one), AnswerItem::Record(other)) => {
            one.record().row_key.cmp(&other.record().row_key).reverse()
        }
        (AnswerItem::Row(one), AnswerItem::Row(other)) => {
            let pairs = one.columns().iter().zip(other.columns());
            let parts =
                pairs.map(|((name, a), (_, b))| compare_values(&FieldName::new(name), property(a), property(b)));
            parts.fold(Ordering::Equal, Ordering::then)
        }
        _ => Ordering::Equal,
    }
}

impl PipeStage for SortStage {
    fn as_sort(&mut self) -> Option<&mut SortStage> {
        Some(self)
    }

    fn push(&mut self, item: AnswerItem, _next: Next<'_>) -> ControlFlow<()> {
        let kept = self.kept_max();
        if kept == 0 {
            return ControlFlow::Break(());
        }
        let of_key = |key: &SortKey| size_of::<OwnedValue>() + item.field(&key.field).map_or(0, property_bytes);
        if !self.budget.charge(item.bytes() + self.by.iter().map(of_key).sum::<usize>(), "sorted records") {
            return ControlFlow::Break(());
        }
        let keys = self.by.iter().map(|key| item.field(&key.field).map(OwnedValue::from)).collect();
        self.items.push((keys, item));
        // With a limit, at most twice as many items are kept.
        if self.items.len() >= kept.saturating_mul(2).max(64) {
            self.sort();
            let dropped = self.items.split_off(kept.min(self.items.len()));
            self.budget.question().release(dropped.iter().map(sorted_bytes).sum());
        }
        ControlFlow::Continue(())
    }

    fn finish(&mut self, next: Next<'_>) -> ControlFlow<()> {
        self.sort();
        let kept = self.kept_max();
        let offset = usize::try_from(self.offset).unwrap_or(usize::MAX);
        let items = std::mem::take(&mut self.items).into_iter().take(kept).enumerate().skip(offset);
        for (at, (_, item)) in items {
            match &self.rank {
                Some(rank) => {
                    let mut row = item.into_row();
                    row.set(&FieldName::new(rank), Some(whole(at as u64 + 1)));
                    next(AnswerItem::Row(row))?;
                }
                None => next(item)?,
            }
        }
        ControlFlow::Continue(())
    }
}

/// The order and the columns of the rows of a [`GroupStage`].
enum GroupOrder {
    /// By the groups.
    Groups,
    /// The greatest numbers first.
    Top { limit: u64, rank: Option<String> },
    /// By the groups, with or without numbers.
    Uniq { limit: Option<u64>, has_hits: bool },
}

/// How often a list of values is there while it becomes a text of the answer.
const LIST_COPIES: usize = 3;

/// The rows of one group.
struct Group {
    values: Vec<Option<OwnedValue>>,
    states: Vec<Accumulator>,
}

/// `stats`, `top`, `uniq` and `field_values`.
struct GroupStage {
    by: Vec<GroupField>,
    aggregates: Vec<Aggregate>,
    conditions: Vec<Option<Predicate>>,
    numbers: HashMap<Vec<u8>, usize, foldhash::fast::RandomState>,
    groups: Vec<Group>,
    /// All groups, if they were gathered elsewhere.
    gathered: Option<GatheredGroups>,
    key: Vec<u8>,
    order: GroupOrder,
    /// Whether the order of the rows makes a difference behind the stage.
    is_ordered: bool,
    seconds: Option<f64>,
    budget: AnswerBudget,
}

impl GroupStage {
    fn new(by: Vec<GroupField>, aggregates: Vec<Aggregate>, context: &PipelineContext) -> GroupStage {
        let condition = |aggregate: &Aggregate| aggregate.condition.as_ref().map(|c| Predicate::new(c, context.now));
        let mut stage = GroupStage {
            conditions: aggregates.iter().map(condition).collect(),
            numbers: HashMap::default(),
            groups: Vec::new(),
            gathered: None,
            key: Vec::new(),
            order: GroupOrder::Groups,
            is_ordered: true,
            seconds: context.seconds,
            budget: context.budget.clone(),
            by,
            aggregates,
        };
        // A time step is the time of its group.
        for field in &stage.by {
            if let (daytable_logsql::Column::Time, Some(Step { size: StepSize::Number(nanos), .. })) =
                (field.field.column(), &field.step)
            {
                stage.seconds = Some(nanos / 1e9);
            }
        }
        if stage.by.is_empty() {
            // Without groups there is always one row.
            let states = stage.states();
            stage.groups.push(Group { values: Vec::new(), states });
            stage.numbers.insert(Vec::new(), 0);
        }
        stage
    }

    fn states(&self) -> Vec<Accumulator> {
        self.aggregates.iter().map(|aggregate| Accumulator::new(aggregate.function)).collect()
    }

    /// The number of the item's group; `None` if there is no memory for another group.
    fn group(&mut self, item: &AnswerItem) -> Option<usize> {
        let mut values: Vec<Option<GroupValue<'_>>> = Vec::with_capacity(self.by.len());
        for field in &self.by {
            let value = item.field(&field.field).filter(|value| !matches!(value, Property::String("")));
            values.push(value.map(|value| match &field.step {
                Some(step) => step_start(value, step).map_or(GroupValue::Borrowed(value), GroupValue::Owned),
                None => GroupValue::Borrowed(value),
            }));
        }
        self.group_of(values)
    }

    /// Adds a group that was gathered elsewhere.
    fn add_group(&mut self, values: Vec<Option<OwnedValue>>, states: Vec<Accumulator>) {
        let values = values.into_iter().map(|value| value.map(GroupValue::Owned)).collect();
        let Some(at) = self.group_of(values) else { return };
        let known = self.groups[at].states.iter_mut().zip(states).zip(&self.aggregates);
        let bytes = known.map(|((known, state), aggregate)| known.merge(state, aggregate.function)).sum();
        self.budget.charge(bytes, "values");
    }

    /// The number of the group with these values.
    fn group_of(&mut self, values: Vec<Option<GroupValue<'_>>>) -> Option<usize> {
        self.key.clear();
        for value in &values {
            match value {
                Some(value) => {
                    let text = value.property().text();
                    self.key.extend_from_slice(&(text.len() as u64 + 1).to_le_bytes());
                    self.key.extend_from_slice(text.as_bytes());
                }
                None => self.key.extend_from_slice(&0u64.to_le_bytes()),
            }
        }
        if let Some(at) = self.numbers.get(&self.key) {
            // A value that comes as a number and as a text is shown as a number.
            for (known, value) in self.groups[*at].values.iter_mut().zip(&values) {
                if let (Some(OwnedValue::String(_)), Some(value)) = (&known, value)
                    && !matches!(value.property(), Property::String(_))
                {
                    *known = Some(value.property().into());
                }
            }
            return Some(*at);
        }
        let values: Vec<_> = values.into_iter().map(|value| value.map(|value| value.property().into())).collect();
        let bytes = 128 + 2 * self.key.len() + 96 * self.aggregates.len();
        if !self.budget.charge(bytes, "groups") {
            return None;
        }
        let at = self.groups.len();
        let states = self.states();
        self.numbers.insert(self.key.clone(), at);
        self.groups.push(Group { values, states });
        Some(at)
    }

    /// The order of two groups. Values that are equal as numbers are in the order of their texts.
    fn compare_groups(&self, a: &Group, b: &Group) -> Ordering {
        let parts = || self.by.iter().zip(a.values.iter().zip(&b.values));
        let by_value = parts().map(|(by, (a, b))| compare_values(&by.field, property(a), property(b)));
        by_value.fold(Ordering::Equal, Ordering::then).then_with(|| {
            let text = |value| property(value).map(Property::text);
            parts().map(|(_, (a, b))| text(a).cmp(&text(b))).fold(Ordering::Equal, Ordering::then)
        })
    }
}

enum GroupValue<'v> {
    Borrowed(Property<'v>),
    Owned(OwnedValue),
}

impl GroupValue<'_> {
    fn property(&self) -> Property<'_> {
        match self {
            GroupValue::Borrowed(value) => *value,
            GroupValue::Owned(value) => value.as_property(),
        }
    }
}

impl PipeStage for GroupStage {
    fn as_groups(&mut self) -> Option<&mut GroupStage> {
        Some(self)
    }

    fn push(&mut self, item: AnswerItem, _next: Next<'_>) -> ControlFlow<()> {
        if matches!(&self.order, GroupOrder::Uniq { limit: Some(limit), has_hits: false } if self.groups.len() as u64 >= *limit)
        {
            return ControlFlow::Break(());
        }
        // A group that has no room is left out, and the answer says so.
        let Some(at) = self.group(&item) else { return ControlFlow::Continue(()) };
        let mut bytes = 0;
        for (number, aggregate) in self.aggregates.iter().enumerate() {
            if self.conditions[number].as_ref().is_none_or(|condition| condition.matches(&item)) {
                let state = &mut self.groups[at].states[number];
                bytes += state.add(aggregate, &item, item.place(), &|each| item.each_field(each));
            }
        }
        if bytes > 0 && !self.budget.charge(bytes, "values") {
            return ControlFlow::Break(());
        }
        ControlFlow::Continue(())
    }

    fn finish(&mut self, next: Next<'_>) -> ControlFlow<()> {
        if let Some(gathered) = self.gathered.take() {
            let charged = gathered.charged();
            let flow = self.finish_gathered(gathered, next);
            self.budget.question().release(charged);
            return flow;
        }
        let mut groups = std::mem::take(&mut self.groups);
        self.sort(&mut groups);
        let names = self.names();
        for (rank, group) in groups.into_iter().enumerate() {
            next(AnswerItem::Row(self.row(&names, group, rank)?))?;
        }
        ControlFlow::Continue(())
    }
}

impl GroupStage {
    /// Takes all groups, which were gathered elsewhere.
    fn set_groups(&mut self, mut gathered: GatheredGroups) {
        if !self.by.is_empty() {
            self.gathered = Some(gathered);
            return;
        }
        for number in gathered.numbers() {
            self.add_group(gathered.values(number), gathered.take_states(number));
        }
        self.budget.question().release(gathered.charged());
    }

    /// The groups that are passed on at most.
    fn limit(&self) -> usize {
        let limit = match &self.order {
            GroupOrder::Groups => None,
            GroupOrder::Top { limit, .. } => Some(*limit),
            GroupOrder::Uniq { limit, .. } => *limit,
        };
        limit.map_or(usize::MAX, |limit| usize::try_from(limit).unwrap_or(usize::MAX))
    }

    /// Puts groups in order, and drops those beyond the limit.
    fn sort(&self, groups: &mut Vec<Group>) {
        let count = |group: &Group| match group.states.first() {
            Some(Accumulator::Count(count)) => *count,
            _ => 0,
        };
        match &self.order {
            GroupOrder::Top { .. } => {
                groups.sort_by(|a, b| count(b).cmp(&count(a)).then_with(|| self.compare_groups(a, b)));
            }
            GroupOrder::Groups | GroupOrder::Uniq { .. } => groups.sort_by(|a, b| self.compare_groups(a, b)),
        }
        groups.truncate(self.limit());
    }

    fn names(&self) -> Vec<Arc<str>> {
        self.by.iter().map(|by| by.field.written().into()).collect()
    }

    /// The row of a group. Breaks if there is no memory for its lists.
    fn row(&self, names: &[Arc<str>], group: Group, rank: usize) -> ControlFlow<(), AnswerRow> {
        let mut row = AnswerRow::default();
        for (name, value) in names.iter().zip(group.values) {
            row.push(name.clone(), value);
        }
        let lists = LIST_COPIES * group.states.iter().map(Accumulator::list_bytes).sum::<usize>();
        if lists > 0 && !self.budget.charge(lists, "values") {
            return ControlFlow::Break(());
        }
        if !matches!(self.order, GroupOrder::Uniq { has_hits: false, .. }) {
            for (aggregate, state) in self.aggregates.iter().zip(group.states) {
                row.push(aggregate.name.as_str().into(), state.finish(aggregate, self.seconds));
            }
        }
        if let GroupOrder::Top { rank: Some(name), .. } = &self.order {
            row.push(name.as_str().into(), Some(whole(rank as u64 + 1)));
        }
        ControlFlow::Continue(row)
    }

    /// Passes on groups that were gathered elsewhere. Their states stay there until a row is made of them.
    fn finish_gathered(&self, mut gathered: GatheredGroups, next: Next<'_>) -> ControlFlow<()> {
        let (names, limit) = (self.names(), self.limit());
        if !self.is_ordered && limit == usize::MAX {
            for number in gathered.numbers() {
                let group = Group { values: gathered.values(number), states: gathered.take_states(number) };
                next(AnswerItem::Row(self.row(&names, group, 0)?))?;
            }
            return ControlFlow::Continue(());
        }
        // The groups in order, each with its number; at most twice as many as are wanted.
        let mut sorted: Vec<(Group, usize)> = Vec::new();
        let is_top = matches!(self.order, GroupOrder::Top { .. });
        let mut held = 0;
        let bytes_of = |(group, _): &(Group, usize)| {
            let of_value = |value: &Option<OwnedValue>| size_of::<OwnedValue>() + value.as_ref().map_or(0, value_bytes);
            size_of::<(Group, usize)>() + group.values.iter().map(of_value).sum::<usize>()
        };
        let sort = |sorted: &mut Vec<(Group, usize)>, gathered: &GatheredGroups| {
            sorted.sort_by(|(a, one), (b, other)| {
                let by_count = || gathered.count(*other).cmp(&gathered.count(*one));
                let order = if is_top { by_count() } else { Ordering::Equal };
                order.then_with(|| self.compare_groups(a, b))
            });
        };
        for number in gathered.numbers() {
            if !gathered.is_wanted(number) {
                continue;
            }
            let group = (Group { values: gathered.values(number), states: Vec::new() }, number);
            let bytes = bytes_of(&group);
            // A group that has no room is left out, and the answer says so.
            if !self.budget.charge(bytes, "groups") {
                break;
            }
            held += bytes;
            sorted.push(group);
            if sorted.len() >= limit.saturating_mul(2).max(64) {
                sort(&mut sorted, &gathered);
                let dropped: usize = sorted.drain(limit.min(sorted.len())..).map(|group| bytes_of(&group)).sum();
                self.budget.question().release(dropped);
                held -= dropped;
            }
        }
        sort(&mut sorted, &gathered);
        sorted.truncate(limit);
        for (rank, (group, number)) in sorted.into_iter().enumerate() {
            let group = Group { states: gathered.take_states(number), ..group };
            next(AnswerItem::Row(self.row(&names, group, rank)?))?;
        }
        self.budget.question().release(held);
        ControlFlow::Continue(())
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

impl PipeStage for FacetsStage {
    fn field_question(&self) -> Option<FieldQuestion> {
        Some(FieldQuestion::Values { values_max: self.values_max, length_max: self.length_max })
    }

    fn add_field(&mut self, found: GatheredField<'_>) {
        match found {
            GatheredField::Records(records) => self.items += records,
            GatheredField::Record(record) => {
                let _ = self.push(AnswerItem::Record(record), &mut |_| ControlFlow::Continue(()));
            }
            GatheredField::Field(name, FoundField::Value(value, records)) => {
                let _ = self.add(name, value.as_property(), records);
            }
            GatheredField::Field(name, FoundField::Dropped) => drop(self.fields.insert(name.to_owned(), None)),
            GatheredField::Field(_, FoundField::Present(_)) => {}
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
                next(AnswerItem::Row(row))?;
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

impl PipeStage for FieldNamesStage {
    fn field_question(&self) -> Option<FieldQuestion> {
        Some(FieldQuestion::Names)
    }

    fn add_field(&mut self, found: GatheredField<'_>) {
        match found {
            GatheredField::Record(record) => {
                let _ = self.push(AnswerItem::Record(record), &mut |_| ControlFlow::Continue(()));
            }
            GatheredField::Field(name, FoundField::Present(records)) => {
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
            next(AnswerItem::Row(row))?;
        }
        ControlFlow::Continue(())
    }
}
