//! Which day-tables are created ahead and which are dropped.
//!
//! All that decides is a pure function of its arguments:
//!
//! * [`window`]: one rule says which days take records and which are expired, so that no record can enter a day that is
//!   being dropped.
//! * [`mod@plan`]: from the list of day-tables, the rules of the configuration and the time to a list of steps, and to the
//!   reason for every expired day that stays.
//! * [`schedule`]: when the next plan is made.
//! * [`remember`]: what an earlier configuration kept longer.
//!
//! [`run`] alone asks the clock and the store, and takes the steps.
//!
//! What is not here, on purpose: names: a table
//! whose name is not a configured name and a date is never a [`DayTable`](crate::key::DayTable), so it cannot be in a
//! plan.

pub mod window;
pub mod plan;
pub mod schedule;
pub mod remember;
pub mod run;

pub use plan::{Archive, HeldBack, Limits, Plan, Reason, Shortened, State, Step, TableRule, TableState, plan};
pub use run::{Lifecycle, Run};
pub use schedule::{Schedule, ScheduleError};
pub use window::{Admission, Window};
