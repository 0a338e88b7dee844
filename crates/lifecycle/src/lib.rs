//! The life of a day-table: created ahead, sealed when it is over, archived with proof, dropped; restored, and dropped
//! again.
//!
//! All that decides is a pure function of its arguments:
//!
//! * [`daytable_model::window`]: one rule says which days take records and which are expired, so that no record can enter a day that is
//!   being dropped.
//! * [`clock`]: whether the wall clock is believed.
//! * [`mod@plan`]: from the day-tables, the archives, the rules of the configuration and the time to a list of steps,
//!   and to the reason for every expired day that stays; [`reason`] says both in words.
//! * [`plan_output`]: a plan as it is shown.
//! * [`schedule`]: when the next plan is made.
//! * [`retained_rules`]: what an earlier configuration kept longer.
//! * `retry`: when a step that failed is tried again.
//!
//! All that does is here:
//!
//! * [`view`]: what a plan is made from, out of the catalog.
//! * [`executor`]: takes one step; the long part of it on the caller's thread, the short one in the committer.
//! * [`run`]: the thread that plans and takes.
//! * [`progress`]: what it is doing, for whoever looks. [`listing`]: each day-table with what becomes of it.
//!
//! What is not here, on purpose: names: a table
//! whose name is not a configured name and a date is never a [`DayTable`](daytable_model::key::DayTable), so it cannot be in a
//! plan.

pub mod clock;
pub mod reason;
pub mod plan;
pub mod schedule;
pub mod retained_rules;
mod retry;
pub mod plan_output;
pub mod view;
pub mod progress;
pub mod executor;
pub mod listing;
pub mod run;

pub use executor::{Executor, RestoreOutcome, RestoreSpec, StepError};
pub use plan::{
    ArchiveRequirement, LifecycleLimits, LifecyclePlan, LifecycleStep, PlannedStep, ShorterKeep, TableRule, TableState,
    View, forecast, plan,
};
pub use plan_output::PlanLine;
pub use progress::LifecycleProgress;
pub use reason::{HeldTable, HoldReason, StepReason};
pub use run::{Lifecycle, RunSummary, Settings};
pub use schedule::{Schedule, ScheduleError};
pub use view::rules_of_last_run;
