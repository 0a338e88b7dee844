//! From the list of day-tables, the rules of the configuration and the time to the steps to take.
//!
//! A drop is planned only where everything says so: the day belongs to a configured table and has that table's
//! period, its window is over, the clock is believed, nothing remembered from an earlier configuration still keeps it,
//! it needs no archive, and the run has not dropped its fill. Each "no" is a [`Reason`] that the plan carries beside
//! its steps, so that a day that stays can be explained.
//!
//! **The clock** is believed up to one period past `newest_record`, the newest time that was parsed from a record;
//! further ahead it drops nothing. So a clock that jumped delays drops until records confirm it, and a quiet table
//! keeps its days. Without any such record there is nothing to hold the clock against, and nothing is dropped: a host
//! whose lines carry no times needs an operator's `daytable drop`. `newest_record` must leave out records dated far
//! ahead (those of [`Admission::Early`](super::Admission)): one line from the year 9999 would confirm any clock.

use super::window::Window;
use crate::key::{DayTable, Period, TableName};
use crate::time::Ticks;
use std::collections::BTreeSet;
use std::fmt;
use std::num::NonZeroU16;
use std::time::Duration;

/// A day-table that the catalogue knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableState {
    /// Which.
    pub table: DayTable,
    /// What has become of it.
    pub state: State,
}

/// What has become of a day-table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// It stands.
    Open,
    /// It was dropped; its name is remembered, so that nothing brings it back by accident.
    Dropped,
}

/// What the configuration says of one table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TableRule {
    /// The configured name.
    pub name: TableName,
    /// Its `keep` and `period`.
    pub window: Window,
    /// What a day needs before it may go.
    pub archive: Archive,
    /// The longer `keep` of an earlier configuration, if the catalogue remembers one.
    pub shortened: Option<Shortened>,
}

/// What a day needs before it may be dropped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Archive {
    /// Nothing.
    #[default]
    None,
    /// An archive that was read back. There is no way yet to show one, so such a day is never dropped.
    Required,
}

/// A `keep` that was made shorter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shortened {
    /// The `keep` before the change.
    pub keep_before: Duration,
    /// When the shorter one was first seen.
    pub since: Ticks,
}

/// What bounds one run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Tables that one run drops at most.
    pub drops_per_run_max: NonZeroU16,
    /// How long a shorter `keep` waits before it drops what the longer one kept.
    pub grace: Duration,
}

/// What to do now, in order, and what is left although it has expired.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Tables to create, then tables to drop, the oldest first.
    pub steps: Vec<Step>,
    /// Tables that stay although they have expired, or that no rule covers, and why.
    pub held_back: Vec<HeldBack>,
}

/// One step; each is the same taken twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Create a table that does not stand yet.
    Create(DayTable),
    /// Drop a table that has expired.
    Drop(DayTable),
}

/// A day-table that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldBack {
    /// Which.
    pub table: DayTable,
    /// Why.
    pub reason: Reason,
}

/// Why a day-table stays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reason {
    /// No configured table has its name.
    NotConfigured,
    /// Its table is configured with another period than it was made with.
    OtherPeriod(Period),
    /// The clock is further ahead of the newest record than one period.
    ClockAhead {
        /// The newest time parsed from a record.
        newest_record: Ticks,
    },
    /// No record ever gave a time to hold the clock against.
    NoRecordTime,
    /// A longer `keep` was configured until lately.
    Grace {
        /// When the shorter one begins to count.
        until: Ticks,
    },
    /// It needs an archive that was read back, and has none.
    NoPermit,
    /// The run drops its most already.
    OverLimit(NonZeroU16),
}

impl Reason {
    /// A short name, for a metric's label.
    pub const fn name(&self) -> &'static str {
        match self {
            Reason::NotConfigured => "not_configured",
            Reason::OtherPeriod(_) => "other_period",
            Reason::ClockAhead { .. } => "clock_ahead",
            Reason::NoRecordTime => "no_record_time",
            Reason::Grace { .. } => "grace",
            Reason::NoPermit => "no_permit",
            Reason::OverLimit(_) => "over_limit",
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NotConfigured => f.write_str("no configured table has its name, so no `keep` applies to it"),
            Reason::OtherPeriod(period) => {
                let period = match period {
                    Period::Hour => "hour",
                    Period::Day => "day",
                    Period::Month => "month",
                };
                write!(f, "its table is now kept by the {period}, and it was made under another period")
            }
            Reason::ClockAhead { newest_record } => {
                write!(f, "the clock is more than one period ahead of the newest record, which is of {newest_record}")
            }
            Reason::NoRecordTime => {
                f.write_str("no record has given a time of its own yet, so nothing confirms the clock")
            }
            Reason::Grace { until } => write!(f, "`keep` was longer until lately; the shorter one counts from {until}"),
            Reason::NoPermit => f.write_str("it has no archive that was read back, and its table asks for one"),
            Reason::OverLimit(max) => write!(f, "one run drops at most {max} tables; it goes with a later one"),
        }
    }
}

/// What to create and drop at `now`. Pure; see the module's head for what it promises.
///
/// `newest_record` is the newest time parsed from a record that was not dated far ahead, over all tables.
pub fn plan(
    tables: &[TableState],
    rules: &[TableRule],
    now: Ticks,
    newest_record: Option<Ticks>,
    limits: &Limits,
) -> Plan {
    let mut plan = Plan::default();
    let known: BTreeSet<&DayTable> = tables.iter().map(|state| &state.table).collect();
    let dropped: BTreeSet<&DayTable> =
        tables.iter().filter(|state| state.state == State::Dropped).map(|state| &state.table).collect();
    for rule in rules {
        let wanted = ahead(rule, now).into_iter().filter(|table| !known.contains(table));
        plan.steps.extend(wanted.map(Step::Create));
    }

    let mut standing: Vec<&DayTable> = known.difference(&dropped).copied().collect();
    standing.sort_by_key(|table| (table.end(), table.table().clone()));
    let mut drops = 0;
    for table in standing {
        let verdict = match rules.iter().find(|rule| rule.name == *table.table()) {
            None => Verdict::Stays(Reason::NotConfigured),
            Some(rule) => verdict(rule, table, now, newest_record, limits),
        };
        let reason = match verdict {
            Verdict::Stands => continue,
            Verdict::Stays(reason) => reason,
            Verdict::Goes if drops < limits.drops_per_run_max.get() => {
                drops += 1;
                plan.steps.push(Step::Drop(table.clone()));
                continue;
            }
            Verdict::Goes => Reason::OverLimit(limits.drops_per_run_max),
        };
        plan.held_back.push(HeldBack { table: table.clone(), reason });
    }
    plan
}

enum Verdict {
    /// Its window is open.
    Stands,
    /// It is not to be dropped, although it might seem so.
    Stays(Reason),
    Goes,
}

fn verdict(rule: &TableRule, table: &DayTable, now: Ticks, newest: Option<Ticks>, limits: &Limits) -> Verdict {
    if table.period() != rule.window.period {
        return Verdict::Stays(Reason::OtherPeriod(rule.window.period));
    }
    if !rule.window.expired(table, now) {
        return Verdict::Stands;
    }
    let Some(newest_record) = newest else {
        return Verdict::Stays(Reason::NoRecordTime);
    };
    if now > newest_record.plus(length(rule.window.period, newest_record)) {
        return Verdict::Stays(Reason::ClockAhead { newest_record });
    }
    if let Some(Shortened { keep_before, since }) = rule.shortened {
        let before = Window { keep: keep_before, ..rule.window };
        let until = since.plus(limits.grace);
        if now < until && !before.expired(table, now) {
            return Verdict::Stays(Reason::Grace { until });
        }
    }
    match rule.archive {
        Archive::None => Verdict::Goes,
        Archive::Required => Verdict::Stays(Reason::NoPermit),
    }
}

/// Today's table and tomorrow's; only today's on the last day of the calendar.
fn ahead(rule: &TableRule, now: Ticks) -> Vec<DayTable> {
    let today = DayTable::at(&rule.name, rule.window.period, now);
    let tomorrow = DayTable::at(&rule.name, rule.window.period, today.end());
    if tomorrow == today { vec![today] } else { vec![today, tomorrow] }
}

/// How long the period is that `time` lies in.
fn length(period: Period, time: Ticks) -> Duration {
    let start = period.start(time);
    period.next(start).since(start)
}

#[cfg(test)]
mod tests;
