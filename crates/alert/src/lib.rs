//! Alerts: queries that are asked again and again, and messages about their answers.
//!
//! ```text
//!            windows that are due                   met, not met            one alert a cause
//! rules ──► RuleState ──► evaluate ──► values ──► RuleState ──► alerts.json ──► AlertBoard ──► receivers
//!            late records     ▲        by group    episodes     (synced first)      │
//!                 ▲           │                                                     └► status, metrics, page
//!              commits      records
//! ```
//!
//! A *rule* has a query, a *period*, and a limit. Its *windows* are as long as the period, and a window ends at each multiple
//! of `every`. The answer of a window has a value for each *group* of records (an instance, say). An *episode* is a run of
//! consecutive windows whose value is beyond the limit; an episode is the cause of one alert.
//!
//! 1. Windows overlap or join, and each of them is evaluated: nothing is lost between two evaluations, nor while the daemon is
//!    down for at most [`LATE_MAX`].
//! 2. A window is evaluated again when a record is committed for it later. The commits that were seen are part of the state.
//! 3. A window within a known episode, or next to it, is not a new cause: no alert is raised twice.
//! 4. The state is synced before a message is sent. A kill in between sends the message after the restart, with the same
//!    start; the receiver knows an alert by its labels.
//! 5. Rules, groups, windows of one pass, memory and time of a question have limits. A question that is not answered whole
//!    decides nothing, and is asked again.
//!
//! * [`rule`]: a rule, its checks, and its labels. `question`: its query, prepared.
//! * `state`: windows, episodes, alerts. Pure; the time is an argument.
//! * `engine`: a pass over all rules. `saved`: the state as bytes. [`board`]: the current alerts, for all who show them.
//! * [`condition`]: alerts without a rule.
//! * [`delivery`]: sends alerts to receivers with Alertmanager's interface, and starts `notify` for the actions of rules.
//! * [`action`]: the actions of a rule, beside the receivers: `webhook`, `mail`, `program`. `checks` checks them; `notification` is a
//!   message to one. [`options`]: how messages are sent; [`relay`]: to whom mail goes. `template`: texts with places.

pub mod action;
pub mod board;
mod checks;
pub mod condition;
pub mod delivery;
mod engine;
mod mail;
mod notification;
mod notify;
pub mod options;
mod program;
mod question;
pub mod relay;
pub mod rule;
mod saved;
mod state;
mod template;
mod webhook;

pub use board::{Alert, AlertBoard, RuleStatus};
pub use condition::StandingCondition;
pub use delivery::{DeliveryPlan, deliver};
pub use engine::{AlertEngine, WouldAlert, preview};
pub use options::DeliveryOptions;
pub use rule::{AlertRule, RuleError, Threshold};

use std::time::Duration;

/// Maximum number of rules.
pub const RULES_MAX: usize = 100;
/// Maximum number of groups that a rule remembers.
pub const GROUPS_MAX: usize = 1000;
/// Maximum bytes of the value of a label.
pub const LABEL_BYTES_MAX: usize = 1024;
/// The age up to which a record or a downtime still leads to the evaluation of its windows.
pub const LATE_MAX: Duration = Duration::from_secs(86_400);
