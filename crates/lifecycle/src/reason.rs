//! Why a step is planned, and why an expired day stays.

use daytable_model::key::{DayTable, Period, TableName};
use daytable_model::time::Ticks;
use std::fmt;
use std::num::NonZeroU16;
use std::sync::Arc;

/// A day-table that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldTable {
    /// The day-table.
    pub table: DayTable,
    /// The reason.
    pub reason: HoldReason,
}

/// Why a day-table stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HoldReason {
    /// No configured table has this name.
    NotConfigured,
    /// The configuration gives the table another period than the period it was created with.
    OtherPeriod(Period),
    /// The clock is further ahead of the newest record than one period.
    ClockAhead {
        /// The newest time parsed from a record.
        newest_record: Ticks,
    },
    /// No record ever had a timestamp that could confirm the clock.
    NoRecordTime,
    /// The table was created while the clock was behind, and has not been idle for its whole `keep`.
    ClockWasBehind,
    /// A longer `keep` or an archive was configured until recently.
    Grace {
        /// When the new configuration takes effect.
        until: Ticks,
    },
    /// The day needs a verified archive and has none.
    NoPermit,
    /// An import of expired records keeps it.
    Imported {
        /// The end of that time.
        until: Ticks,
    },
    /// The run has reached its limit of drops.
    OverLimit(NonZeroU16),
    /// This number of days of the table always stays.
    Floor(u16),
    /// A receiver of `[[forward]]` lacks rows of it.
    Unforwarded,
    /// The outbox of a daemon may hold rows for the day.
    HostHolds {
        /// The host of the daemon.
        host: String,
        /// Start of the oldest period that its outbox holds rows for.
        oldest: Ticks,
    },
    /// Since the day expired, a daemon has not reported the contents of its outbox.
    HostSilent {
        /// The host of the daemon.
        host: String,
        /// The last report, by the clock of the daemon.
        seen: Ticks,
        /// The end of the wait.
        until: Ticks,
    },
    /// The service may still execute a request that timed out.
    Landing {
        /// The end of the wait.
        until: Ticks,
    },
    /// A step was interrupted again and again: it may be what ended the daemon.
    Interrupted {
        /// The name of the step.
        step: &'static str,
        /// How many times.
        times: u32,
        /// When it is tried again.
        until: Ticks,
    },
}

impl HoldReason {
    /// A short name for the label of a metric.
    pub const fn name(&self) -> &'static str {
        match self {
            HoldReason::NotConfigured => "not_configured",
            HoldReason::OtherPeriod(_) => "other_period",
            HoldReason::ClockAhead { .. } => "clock_ahead",
            HoldReason::NoRecordTime => "no_record_time",
            HoldReason::ClockWasBehind => "clock_was_behind",
            HoldReason::Grace { .. } => "grace",
            HoldReason::NoPermit => "no_permit",
            HoldReason::Imported { .. } => "imported",
            HoldReason::OverLimit(_) => "over_limit",
            HoldReason::Floor(_) => "floor",
            HoldReason::Unforwarded => "unforwarded",
            HoldReason::HostHolds { .. } => "host_holds",
            HoldReason::HostSilent { .. } => "host_silent",
            HoldReason::Landing { .. } => "landing",
            HoldReason::Interrupted { .. } => "interrupted",
        }
    }
}

impl fmt::Display for HoldReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            HoldReason::NotConfigured => f.write_str("no configured table has its name, so no `keep` applies to it"),
            HoldReason::OtherPeriod(period) => {
                let period = match period {
                    Period::Hour => "hour",
                    Period::Day => "day",
                    Period::Month => "month",
                };
                write!(f, "its table is now kept by the {period}, and it was made under another period")
            }
            HoldReason::ClockAhead { newest_record } => {
                write!(f, "the clock is more than one period ahead of the newest record, which is of {newest_record}")
            }
            HoldReason::NoRecordTime => {
                f.write_str("no record has given a time of its own that is not far ahead of the clock, so nothing confirms the clock")
            }
            HoldReason::ClockWasBehind => f.write_str(
                "it was made while the clock was behind, so it stays until nothing came for it for as long as it is kept",
            ),
            HoldReason::Grace { until } => {
                write!(f, "it was configured to stay until lately; what is new counts from {until}")
            }
            HoldReason::NoPermit => f.write_str("it has no archive that was read back, and its table asks for one"),
            HoldReason::Imported { until } => write!(f, "`import --keep-expired` keeps it until {until}"),
            HoldReason::OverLimit(max) => write!(f, "one run drops at most {max} tables; it goes with a later one"),
            HoldReason::Floor(min) => write!(f, "{min} of its table's days with records stay in any case (`min_tables`)"),
            HoldReason::Unforwarded => f.write_str(
                "a receiver of [[forward]] lacks rows of it, which are sent first; `daytable status` says why they are not",
            ),
            HoldReason::HostHolds { host, oldest } => {
                write!(f, "the outbox of {host} holds rows from {oldest} on, which are sent first")
            }
            HoldReason::HostSilent { host, seen, until } => {
                let or = "or until `daytable hosts --forget` says that it is gone";
                write!(f, "{host} was last heard of at {seen}; what its outbox holds is waited for until {until}, {or}")
            }
            HoldReason::Landing { until } => write!(f, "a request that timed out may still be carried out until {until}"),
            HoldReason::Interrupted { step, times, until } => {
                let again = "`daytable archive` tries it at once";
                write!(f, "the daemon was killed {times} times during `{step}`, which is left until {until}; {again}")
            }
        }
    }
}

/// What holds the bytes of a data folder.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FolderUsage {
    /// The configured tables with the most bytes, the largest first.
    pub tables: Vec<(TableName, u64)>,
    /// Bytes of journals, which do not count.
    pub journals: u64,
    /// Bytes of files that are being written, which do not count.
    pub others: u64,
}

impl fmt::Display for FolderUsage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (number, (table, bytes)) in self.tables.iter().enumerate() {
            write!(f, "{}{table} holds {bytes}", if number == 0 { "" } else { ", " })?;
        }
        for (name, bytes) in [("journals", self.journals), ("files that are being written", self.others)] {
            if bytes > 0 {
                write!(f, "; {name} take {bytes} more, which do not count")?;
            }
        }
        Ok(())
    }
}

/// Why a step is planned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StepReason {
    /// The table is needed now or in the next period.
    Ahead,
    /// The day and its wait for late records ended at this time.
    Over(Ticks),
    /// This number of rows arrived after the day was sealed.
    Late(u64),
    /// An earlier run began to seal the day.
    Begun,
    /// The table requires an archive at this place.
    Asked(Arc<str>),
    /// The day expired at this time.
    Expired(Ticks),
    /// The day was restored until this time.
    RestoredUntil(Ticks),
    /// The days exceed their limit.
    Pressure {
        /// Bytes of the days.
        bytes: u64,
        /// Limit in bytes.
        bytes_max: u64,
        /// What holds them.
        held_by: FolderUsage,
    },
    /// The days of its table exceed the table's limit.
    TablePressure {
        /// Bytes of the table's days.
        bytes: u64,
        /// Limit in bytes.
        bytes_max: u64,
    },
    /// A later archive of the day contains all rows of this archive.
    Superseded,
    /// Archives are retained until this time.
    ArchiveExpired(Ticks),
}

impl fmt::Display for StepReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            StepReason::Ahead => f.write_str("records may come for it"),
            StepReason::Over(since) => write!(f, "it is over, and late records had their time until {since}"),
            StepReason::Late(rows) => write!(f, "{rows} rows came after it was sealed"),
            StepReason::Begun => f.write_str("its sealing was begun and not finished"),
            StepReason::Asked(place) => write!(f, "its table asks for an archive at {place}"),
            StepReason::Expired(at) => write!(f, "it expired at {at}"),
            StepReason::RestoredUntil(at) => write!(f, "it was restored until {at}"),
            StepReason::Pressure { bytes, bytes_max, held_by } => {
                write!(f, "the days have {bytes} bytes, {bytes_max} is their most (`max_bytes`): {held_by}")
            }
            StepReason::TablePressure { bytes, bytes_max } => {
                write!(
                    f,
                    "the days of its table have {bytes} bytes, {bytes_max} is their most (`max_bytes` of [[table]])"
                )
            }
            StepReason::Superseded => f.write_str("a later archive of the day has all that it has"),
            StepReason::ArchiveExpired(at) => write!(f, "archives of its day are kept until {at}"),
        }
    }
}
