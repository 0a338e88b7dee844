//! `sessions by (user) pause 30m`: the times of a group in pieces, between which nothing comes for longer than the pause.

use super::accumulator::whole;
use super::group_times::{GroupTimes, group_row, is_same};
use super::item::AnswerItem;
use super::spill::GroupCells;
use super::stage::{Next, PipeStage, PipelineContext, stopped};
use crate::entity::OwnedValue;
use daytable_logsql::FieldName;
use daytable_logsql::query::Span;
use daytable_model::time::Ticks;
use std::ops::ControlFlow;

/// `sessions` at work.
pub(super) struct SessionsStage<'q> {
    times: GroupTimes<'q>,
    /// In ticks.
    pause: i64,
}

/// A session so far.
struct Session {
    group: GroupCells,
    begin: Ticks,
    end: Ticks,
    records: u64,
}

impl<'q> SessionsStage<'q> {
    pub(super) fn new(by: &[FieldName], pause: &Span, context: &PipelineContext<'q>) -> SessionsStage<'q> {
        SessionsStage { times: GroupTimes::new(by, context), pause: pause.nanos / 100 }
    }
}

impl<'q> PipeStage<'q> for SessionsStage<'q> {
    fn push(&mut self, item: AnswerItem, _next: Next<'_>) -> ControlFlow<()> {
        match self.times.push(&item) {
            Ok(()) => ControlFlow::Continue(()),
            Err(over) => stopped(over, self.times.budget()),
        }
    }

    fn finish(&mut self, next: Next<'_>) -> ControlFlow<()> {
        let names = self.times.names(["begin", "end", "records"]);
        let row = |session: Session| {
            let Session { group, begin, end, records } = session;
            group_row(&names, &group, [OwnedValue::DateTime(begin), OwnedValue::DateTime(end), whole(records)])
        };
        let (mut sessions, by) = (None::<Session>, self.times.by().to_vec());
        let pause = self.pause;
        let finished = self.times.finish(&mut |group, time| match &mut sessions {
            Some(session) if is_same(&by, &session.group, &group) && time.get() - session.end.get() <= pause => {
                session.end = time;
                session.records += 1;
                ControlFlow::Continue(())
            }
            known => match known.replace(Session { group, begin: time, end: time, records: 1 }) {
                Some(session) => next(row(session).into()),
                None => ControlFlow::Continue(()),
            },
        });
        match finished {
            Ok(flow) if flow.is_continue() => sessions.map_or(flow, |session| next(row(session).into())),
            Ok(flow) => flow,
            Err(stop) => stopped(stop, self.times.budget()),
        }
    }
}
