//! The records of a query as they are committed.

use super::answer_budget::AnswerBudget;
use super::item::{AnswerItem, FullRecord};
use super::pipes::Pipeline;
use super::plan::pushed_down;
use super::stage::PipelineContext;
use super::{AnswerOptions, ParsedQuery};
use crate::filter::Filter;
use crate::follow::RecordFollower;
use crate::record::StoredRecord;
use crate::stores::Stores;
use crate::tables::TableError;
use daytable_logsql::effect::RowFlow;
use daytable_logsql::{Expression, Predicate};
use daytable_model::key::RowKey;
use daytable_store::{Reader, StoreError};
use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Records that a follower may begin with.
const NEWEST_MAX: u64 = 100_000;

/// A query that cannot be followed, or a data folder that cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum FollowError {
    /// The pipe needs all records.
    #[error("a query that is followed has no end, which the pipe `{0}` waits for")]
    Endless(String),
    /// The pipe reads records beside those that come.
    #[error(
        "a query that is followed reads records as they come, and the pipe `{0}` reads others: ask without following"
    )]
    Joined(String),
    /// An error of the data folder.
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A position in a data folder, and a query.
pub struct AnswerFollower {
    followed: RecordFollower,
    predicate: Predicate,
    pipeline: Pipeline<'static>,
    left: u64,
    /// The records that were shown to begin with: a follower passes over them.
    shown: HashSet<RecordPlace>,
}

/// The three keys of a record.
type RecordPlace = (Arc<str>, Arc<str>, RowKey);

fn place_of(record: &StoredRecord) -> RecordPlace {
    (record.table.clone(), record.partition_key.clone(), record.row_key)
}

impl AnswerFollower {
    /// Follows from the present commit on.
    ///
    /// # Errors
    ///
    /// A pipe needs all records, or the data folder cannot be read.
    pub fn from_now(
        reader: &Reader,
        query: &ParsedQuery,
        options: &AnswerOptions,
    ) -> Result<AnswerFollower, FollowError> {
        if let Some(pipe) = query.pipes.iter().find(|pipe| pipe.needs_all()) {
            return Err(FollowError::Endless(pipe.to_string()));
        }
        if let Some(pipe) = query.pipes.iter().find(|pipe| pipe.effect().flow == RowFlow::Joined) {
            return Err(FollowError::Joined(pipe.to_string()));
        }
        // Records of the future are newer than now, so a filter of the last minutes takes all that come.
        let filter = followed(&query.filter);
        let predicate = Predicate::new(&filter, options.now);
        let pushed = Filter { limit: None, ..pushed_down(&predicate, &options.filter) };
        let budget = AnswerBudget::new(options.memory.question_within(options.bytes_max));
        let context = PipelineContext { now: options.now, seconds: None, budget, go_on: &|| true };
        Ok(AnswerFollower {
            followed: RecordFollower::from_now(reader, pushed)?,
            predicate,
            pipeline: Pipeline::new(&query.pipes, &context),
            left: options.filter.limit.unwrap_or(u64::MAX),
            shown: HashSet::new(),
        })
    }

    /// Passes the newest records that are there to `each`, oldest first, through the pipes of the query. The position of
    /// the follower is older, so no record is missing between these and the next step, and none comes twice.
    ///
    /// # Errors
    ///
    /// The stores cannot be read.
    pub fn newest(
        &mut self,
        stores: &Stores<'_>,
        query: &ParsedQuery,
        options: &AnswerOptions,
        records: u64,
        each: &mut dyn FnMut(AnswerItem) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, TableError> {
        let filter = ParsedQuery { filter: query.filter.clone(), pipes: Vec::new() };
        let limit = Some(records.min(NEWEST_MAX));
        let options = AnswerOptions { filter: Filter { limit, ..options.filter.clone() }, ..options.clone() };
        let mut newest = Vec::new();
        super::answer(stores, &filter, &options, &|| true, &mut |item| {
            newest.push(item);
            ControlFlow::Continue(())
        })?;
        for item in newest.into_iter().rev() {
            if let AnswerItem::Record(record) = &item {
                self.shown.insert(place_of(record.record()));
            }
            let left = &mut self.left;
            let mut sink = |item: AnswerItem| {
                *left = left.saturating_sub(1);
                each(item)?;
                if *left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            };
            if self.pipeline.push(item, &mut sink).is_break() {
                return Ok(ControlFlow::Break(()));
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Passes what was committed since the last step to `each`. Breaks if `each` breaks or the limit is reached; then
    /// nothing more follows.
    ///
    /// # Errors
    ///
    /// The data folder cannot be read.
    pub fn step(
        &mut self,
        reader: &Reader,
        each: &mut dyn FnMut(AnswerItem) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>, StoreError> {
        let AnswerFollower { followed, predicate, pipeline, left, shown } = self;
        if *left == 0 {
            return Ok(ControlFlow::Break(()));
        }
        let mut sink = |item: AnswerItem| {
            *left -= 1;
            each(item)?;
            if *left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        followed.step(reader, |record| {
            if !shown.is_empty() && shown.remove(&place_of(&record)) {
                return ControlFlow::Continue(());
            }
            let record = FullRecord::new(record);
            match predicate.matches(&record) {
                true => pipeline.push(AnswerItem::Record(record.into()), &mut sink),
                false => ControlFlow::Continue(()),
            }
        })
    }
}

/// A filter whose `_time:5m` and `_arrived:5m` have no end.
fn followed(filter: &Expression) -> Expression {
    use daytable_logsql::query::{Test, TimeTest, Times};
    match filter {
        Expression::And(parts) => Expression::And(parts.iter().map(followed).collect()),
        Expression::Or(parts) => Expression::Or(parts.iter().map(followed).collect()),
        Expression::Time(TimeTest { times: Times::Last(_) | Times::Any, offset: None })
        | Expression::Field(_, Test::Times(TimeTest { times: Times::Last(_) | Times::Any, offset: None })) => {
            Expression::All
        }
        other => other.clone(),
    }
}
