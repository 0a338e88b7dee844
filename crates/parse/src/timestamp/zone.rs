//! The time zone of a source whose lines name no zone.
//!
//! Names come from the IANA database that `jiff` carries inside the program, so a container without
//! `/usr/share/zoneinfo` reads a line the same way as its host. The table of a zone is decoded when its name is first
//! used, and stays in memory.
//!
//! Rejected: `chrono-tz`. Its Rust tables are full of pointers, so each start writes to 2.3 MB of them, used or not.

use chrono::{DateTime, Local, LocalResult, NaiveDateTime, Offset, TimeZone};
use daytable_model::time::{TICKS_PER_SECOND, Ticks};
use jiff::Timestamp;
use jiff::tz::{self, AmbiguousOffset, TimeZoneDatabase};
use std::fmt;
use std::str::FromStr;
use std::sync::{Mutex, PoisonError};

/// A zone: `UTC`, `local`, an offset like `+02:00`, or an IANA name like `Europe/Paris`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zone {
    /// Coordinated universal time.
    #[default]
    Utc,
    /// Minutes east of UTC.
    Offset(i16),
    /// The zone of this machine.
    Local,
    /// A zone of the IANA database.
    Named(&'static tz::TimeZone),
}

/// An unknown zone name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown zone \"{0}\" (\"UTC\", \"local\", an offset like \"+02:00\" or a name like \"Europe/Paris\")")]
pub struct UnknownZone(pub String);

impl Zone {
    /// The point in time at which clocks of this zone show what clocks of UTC show at `shown`.
    ///
    /// A time that clocks show twice means the first one. A time that clocks skip is read as if the clocks had not been
    /// moved yet.
    #[inline]
    pub fn to_utc(self, shown: Ticks) -> Option<Ticks> {
        let east = match self {
            Zone::Utc => return Some(shown),
            Zone::Offset(minutes) => i64::from(minutes) * 60,
            Zone::Local => local_seconds_east(shown)?,
            Zone::Named(zone) => named_seconds_east(zone, shown)?,
        };
        Ticks::new(shown.get() - east * TICKS_PER_SECOND)
    }
}

/// Seconds east of UTC when clocks of this machine show `shown`.
fn local_seconds_east(shown: Ticks) -> Option<i64> {
    let at = |seconds: i64| -> Option<NaiveDateTime> { Some(DateTime::from_timestamp(seconds, 0)?.naive_utc()) };
    let shown = shown.unix_seconds();
    let offset = match Local.offset_from_local_datetime(&at(shown)?) {
        LocalResult::Single(offset) | LocalResult::Ambiguous(offset, _) => offset,
        LocalResult::None => Local.offset_from_local_datetime(&at(shown - 3 * 3600)?).earliest()?,
    };
    Some(offset.fix().local_minus_utc().into())
}

/// Seconds east of UTC when clocks of `zone` show `shown`.
fn named_seconds_east(zone: &tz::TimeZone, shown: Ticks) -> Option<i64> {
    let shown = tz::Offset::UTC.to_datetime(Timestamp::from_second(shown.unix_seconds()).ok()?);
    let offset = match zone.to_ambiguous_timestamp(shown).offset() {
        AmbiguousOffset::Unambiguous { offset } => offset,
        AmbiguousOffset::Gap { before, .. } | AmbiguousOffset::Fold { before, .. } => before,
    };
    Some(offset.seconds().into())
}

/// The zone of this name. Each zone is decoded once and leaked, so that a zone is `Copy`. The names of the database
/// bound the leak.
fn named(name: &str) -> Option<&'static tz::TimeZone> {
    static KNOWN: Mutex<Vec<&tz::TimeZone>> = Mutex::new(Vec::new());
    let zone = TimeZoneDatabase::bundled().get(name).ok().filter(|zone| zone.iana_name() == Some(name))?;
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(known) = known.iter().find(|known| known.iana_name() == Some(name)) {
        return Some(known);
    }
    let zone: &'static tz::TimeZone = Box::leak(Box::new(zone));
    known.push(zone);
    Some(zone)
}

impl FromStr for Zone {
    type Err = UnknownZone;

    fn from_str(name: &str) -> Result<Zone, UnknownZone> {
        if name.eq_ignore_ascii_case("utc") || name == "Z" {
            return Ok(Zone::Utc);
        }
        if name.eq_ignore_ascii_case("local") {
            return Ok(Zone::Local);
        }
        let unknown = || UnknownZone(name.into());
        if name.starts_with(['+', '-']) {
            let (minutes, length) = super::offset::offset(name.as_bytes()).ok_or_else(unknown)?;
            let minutes = i16::try_from(minutes).ok().filter(|_| length == name.len());
            return minutes.map(Zone::Offset).ok_or_else(unknown);
        }
        named(name).map(Zone::Named).ok_or_else(unknown)
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Zone::Utc => f.write_str("UTC"),
            Zone::Local => f.write_str("local"),
            Zone::Named(zone) => f.write_str(zone.iana_name().unwrap_or_default()),
            Zone::Offset(minutes) => {
                let sign = if *minutes < 0 { '-' } else { '+' };
                write!(f, "{sign}{:02}:{:02}", minutes.unsigned_abs() / 60, minutes.unsigned_abs() % 60)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_shown() {
        for name in ["UTC", "local", "+02:00", "-09:30", "+00:00", "Europe/Paris", "America/New_York"] {
            assert_eq!(name.parse::<Zone>().map(|zone| zone.to_string()).as_deref(), Ok(name));
        }
        assert_eq!("+0530".parse(), Ok(Zone::Offset(330)));
        for name in ["", "Paris", "+", "+24:00", "+02:00x", "+2"] {
            assert_eq!(name.parse::<Zone>(), Err(UnknownZone(name.into())));
        }
    }

    #[test]
    fn times_around_a_clock_change() {
        for (shown, utc) in [
            ("2026-01-15T12:00:00Z", "2026-01-15T11:00:00Z"),
            ("2026-07-15T12:00:00Z", "2026-07-15T10:00:00Z"),
            // Clocks move forward at 02:00, and back at 03:00.
            ("2026-03-29T02:30:00Z", "2026-03-29T01:30:00Z"),
            ("2026-10-25T02:30:00Z", "2026-10-25T00:30:00Z"),
        ] {
            let (shown, _) = super::super::leading(shown).expect("a time");
            let zone: Zone = "Europe/Paris".parse().expect("a zone");
            assert_eq!(zone.to_utc(shown).map(|time| time.to_string()).as_deref(), Some(utc));
        }
    }
}
