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
//! * [`told`]: a plan as it is shown.
//! * [`schedule`]: when the next plan is made.
//! * [`remember`]: what an earlier configuration kept longer.
//! * `retry`: when a step that failed is tried again.
//!
//! All that does is here:
//!
//! * [`view`]: what a plan is made from, out of the catalogue.
//! * [`hands`]: takes one step; the long part of it on the caller's thread, the short one in the committer.
//! * [`run`]: the thread that plans and takes.
//! * [`board`]: what it is doing, for whoever looks. [`listing`]: each day-table with what becomes of it.
//!
//! What is not here, on purpose: names: a table
//! whose name is not a configured name and a date is never a [`DayTable`](daytable_model::key::DayTable), so it cannot be in a
//! plan.

pub mod clock;
pub mod reason;
pub mod plan;
pub mod schedule;
pub mod remember;
mod retry;
pub mod told;
pub mod view;
pub mod board;
pub mod hands;
pub mod listing;
pub mod run;

pub use board::Board;
pub use hands::{Hands, Restored, StepError, Wanted};
pub use plan::{Archive, Limits, Plan, Planned, Shortened, State, Step, TableRule, TableState, View, forecast, plan};
pub use reason::{HeldBack, Reason, Why};
pub use run::{Lifecycle, Run, Settings};
pub use schedule::{Schedule, ScheduleError};
pub use told::Told;
pub use view::remembered;
