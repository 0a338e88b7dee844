//! Functions over ranges of time.

use super::samples::RangeQuestion;
use super::{Evaluator, Series, Spent, TimeSteps};
use crate::ast::{AggregateOp, LabelGrouping, RangeAggregation, RangeOp};
use crate::error::EvalError;
use crate::source::TimeSpan;

impl RangeAggregation {
    /// Whether an aggregation of this function's series is the function over the samples of all series together.
    pub(super) fn merges_with(&self, op: AggregateOp) -> bool {
        use RangeOp::*;
        self.grouping.is_none()
            && match op {
                AggregateOp::Sum => matches!(self.op, CountOverTime | Rate | BytesOverTime | BytesRate | SumOverTime),
                _ => false,
            }
    }
}

impl Evaluator<'_> {
    /// The series of a function over ranges; `grouping` says which labels they keep, instead of the function's own.
    pub(super) fn range(
        &self,
        range: &RangeAggregation,
        grouping: Option<&LabelGrouping>,
        steps: TimeSteps,
        spent: &Spent,
    ) -> Result<Vec<Series>, EvalError> {
        let grouping = grouping.or(range.grouping.as_ref());
        let too_long = || EvalError::Refused("the range or the offset is too long".into());
        let back = range.range.checked_add(range.offset).ok_or_else(too_long)?;
        let from = steps.start.checked_sub(back).and_then(|from| from.checked_add(1)).ok_or_else(too_long)?;
        let to = steps.time(steps.count - 1).checked_sub(range.offset).ok_or_else(too_long)?;
        let question = RangeQuestion::new(range, grouping, steps, self.limits, &self.budget, spent, self.now);
        let samples = self.source.sample(&range.query.wanted(TimeSpan { from, to }), &question)?;
        question.finish(samples, steps)
    }
}
