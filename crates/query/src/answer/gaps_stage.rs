//! `gaps over 10m by (instance)`: the times between two rows of a group that are further apart.

use super::group_times::{GroupTimes, group_row, is_same};
use super::item::AnswerItem;
use super::spill::GroupCells;
use super::stage::{Next, PipeStage, PipelineContext, stopped};
use crate::entity::OwnedValue;
use daytable_logsql::FieldName;
use daytable_logsql::query::Span;
use daytable_logsql::unit::show_duration;
use daytable_model::time::Ticks;
use std::ops::ControlFlow;

/// `gaps` at work.
pub(super) struct GapsStage<'q> {
    times: GroupTimes<'q>,
    /// In ticks.
    over: i64,
}

impl<'q> GapsStage<'q> {
    pub(super) fn new(by: &[FieldName], over: &Span, context: &PipelineContext<'q>) -> GapsStage<'q> {
        GapsStage { times: GroupTimes::new(by, context), over: over.nanos / 100 }
    }
}

impl<'q> PipeStage<'q> for GapsStage<'q> {
    fn push(&mut self, item: AnswerItem, _next: Next<'_>) -> ControlFlow<()> {
        match self.times.push(&item) {
            Ok(()) => ControlFlow::Continue(()),
            Err(over) => stopped(over, self.times.budget()),
        }
    }

    fn finish(&mut self, next: Next<'_>) -> ControlFlow<()> {
        let names = self.times.names(["from", "to", "duration"]);
        let (mut last, by, over) = (None::<(GroupCells, Ticks)>, self.times.by().to_vec(), self.over);
        let finished = self.times.finish(&mut |group, time| {
            let before = last.replace((group, time));
            let (Some((known, from)), Some((group, _))) = (before, &last) else { return ControlFlow::Continue(()) };
            let ticks = time.get() - from.get();
            if ticks <= over || !is_same(&by, &known, group) {
                return ControlFlow::Continue(());
            }
            let duration = OwnedValue::String(show_duration(ticks.saturating_mul(100)));
            next(group_row(&names, group, [OwnedValue::DateTime(from), OwnedValue::DateTime(time), duration]).into())
        });
        finished.unwrap_or_else(|stop| stopped(stop, self.times.budget()))
    }
}
