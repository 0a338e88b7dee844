//! All steps of a run in which every step succeeds: plan after plan, with each step simulated.

use super::{LifecyclePlan, LifecycleStep, SealedGeneration, TableState, View, plan};
use daytable_store::catalog::{Archived, DayState, Seal};
use std::time::Duration;

/// Upper limit of successive plans; a day needs at most four.
const PLANS_MAX: usize = 8;

/// The steps of one run in order, and the days that stay after the run. Changes no state.
pub fn forecast(view: &View) -> LifecyclePlan {
    let mut view = view.clone();
    let mut forecast = LifecyclePlan::default();
    for _ in 0..PLANS_MAX {
        let planned = plan(&view);
        forecast.held_back = planned.held_back;
        if planned.steps.is_empty() {
            break;
        }
        for planned in planned.steps {
            view.take(&planned.step);
            forecast.steps.push(planned);
        }
    }
    forecast
}

impl View {
    /// Simulates `step`.
    pub(super) fn take(&mut self, step: &LifecycleStep) {
        let now = self.clock.now;
        let known = self.tables.iter_mut().find(|state| state.table == *step.table());
        match (step, known) {
            (LifecycleStep::Create(table), _) => self.tables.push(TableState::empty(table.clone())),
            (LifecycleStep::Seal(_), Some(state)) => {
                let (rows, generation) =
                    (state.rows(), state.sealed.as_ref().map_or(2, |sealed| sealed.generation + 2));
                let bytes = state.bytes;
                let sha256 = format!("of generation {generation}");
                state.sealed =
                    Some(SealedGeneration { generation, seal: Seal { bytes, sha256, rows, times: None, at: now } });
                (state.unsealed_rows, state.is_closed) = (0, false);
            }
            (LifecycleStep::Archive(table, place), Some(state)) => {
                let Some(SealedGeneration { generation, seal }) = state.sealed.clone() else { return };
                let url = place.to_string();
                for archived in self.archives.iter_mut().filter(|archived| archived.table == *table) {
                    archived.is_superseded |= archived.generation < generation;
                }
                let table = table.clone();
                let manifest = "".into();
                self.archives.push(Archived {
                    table,
                    generation,
                    url,
                    seal,
                    verified: now,
                    is_superseded: false,
                    manifest,
                });
            }
            (LifecycleStep::Drop(_) | LifecycleStep::DropUnarchived(_), Some(state)) => {
                let table = state.table.clone();
                self.bytes = self.bytes.saturating_sub(state.bytes);
                *state = TableState { state: DayState::Dropped, ..TableState::empty(table) };
                self.dropped = self.dropped.saturating_add(1);
            }
            (LifecycleStep::RemoveArchive(table, generation, place), _) => {
                let is_it = |archived: &Archived| {
                    archived.table == *table && archived.generation == *generation && *archived.url == **place
                };
                self.archives.retain(|archived| !is_it(archived));
            }
            (_, None) => {}
        }
    }
}

impl TableState {
    /// A newly created table.
    pub fn empty(table: daytable_model::key::DayTable) -> TableState {
        TableState {
            table,
            state: DayState::Open,
            unsealed_rows: 0,
            kept_rows: 0,
            is_closed: false,
            sealed: None,
            bytes: 0,
            watched: Duration::ZERO,
            is_unforwarded: false,
            is_behind: false,
            kept_until: None,
            interrupted: Vec::new(),
        }
    }
}
