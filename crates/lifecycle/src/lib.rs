//! The lifecycle of a day-table (the table of one configured table and one day): it is created ahead, sealed after its
//! day, archived with proof, and dropped. A restored day is dropped again.
//!
//! Pure functions decide:
//!
//! * [`daytable_model::window`]: one rule says which days take records and which have expired, so no record can enter
//!   a day that is being dropped.
//! * [`clock`]: whether the wall clock is believed.
//! * [`mod@plan`]: from the day-tables, the archives, the configured rules and the time to the steps, and to the
//!   reason for every expired day that stays. [`reason`] has the reasons, [`plan_output`] the form in which a plan is
//!   shown.
//! * [`schedule`]: when the next plan is made. `retry`: when a failed step is repeated.
//! * [`retained_rules`]: the longer retention of an earlier configuration, which counts for a grace time.
//!
//! These act:
//!
//! * [`view`]: reads the input of a plan from the catalog.
//! * [`executor`]: takes one step. Its long part runs on the caller's thread, its short part in the committer.
//! * [`run`]: the thread that plans and takes the steps.
//! * [`publish`]: the thread that puts open days into the table of their archives, in parts. `publish_progress`: what it did.
//! * [`progress`]: what the lifecycle does now; `failed_step`: what failed. [`listing`]: each day-table with its next step.
//!
//! A table whose name is not a configured name and a date is not a [`DayTable`](daytable_model::key::DayTable), so no
//! plan can contain it.

pub mod clock;
pub mod reason;
pub mod plan;
pub mod schedule;
pub mod retained_rules;
mod retry;
pub mod plan_output;
pub mod view;
mod failed_step;
pub mod progress;
mod publish_progress;
pub mod executor;
pub mod listing;
pub mod run;
pub mod publish;

pub use executor::{Executor, RemovedArchives, RestoreOutcome, RestoreSpec, StepError};
pub use failed_step::FailedStep;
pub use plan::{
    ArchiveRequirement, LifecycleLimits, LifecyclePlan, LifecycleStep, PlannedStep, ShorterKeep, TableRule, TableState,
    TodayExceeds, View, forecast, plan, today_exceeds,
};
pub use plan_output::PlanLine;
pub use progress::LifecycleProgress;
pub use publish::{ArchivedTables, Publisher, archived_tables};
pub use publish_progress::{PublishCounts, PublishProgress};
pub use reason::{HeldTable, HoldReason, StepReason};
pub use run::{Lifecycle, RunSummary, Settings};
pub use schedule::{Schedule, ScheduleError};
pub use view::rules_of_last_run;
