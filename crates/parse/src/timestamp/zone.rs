//! The time zone of a source whose lines name no zone.
//!
//! Names come from the IANA database that `jiff` carries inside the program, so a container without
//! `/usr/share/zoneinfo` reads a line the same way as its host. The table of a zone is decoded when its name is first
//! used, and stays in memory. The zone of the host is that of `TZ`, or of `/etc/localtime`, or UTC; the process asks
//! for it once.
//!
//! Rejected: `chrono-tz`. Its Rust tables are full of pointers, so each start writes to 2.3 MB of them, used or not.

use daytable_model::clock::{ClockChange, ZoneClock};
use daytable_model::time::{TICKS_PER_MINUTE, TICKS_PER_SECOND, Ticks};
use jiff::Timestamp;
use jiff::tz::{self, AmbiguousOffset, TimeZoneDatabase};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::str::FromStr;
use std::sync::{Mutex, OnceLock, PoisonError};

/// How much later than the time of reading a time may be that clocks show twice: clocks of other hosts are ahead.
const CLOCK_SKEW: i64 = 5 * 60 * TICKS_PER_SECOND;
/// Seconds around a change of clocks in which an offset is looked up for each time. No offset is longer.
const NEAR_CHANGE: i64 = 2 * 86_400;

/// A zone: `local`, `UTC`, an offset like `+02:00`, or an IANA name like `Europe/Paris`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Zone {
    /// The zone of this host.
    #[default]
    Local,
    /// Coordinated universal time.
    Utc,
    /// Minutes east of UTC.
    Offset(i16),
    /// A zone of the IANA database.
    Named(&'static tz::TimeZone),
}

/// An unknown zone name.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown zone \"{0}\" (\"local\", \"UTC\", an offset like \"+02:00\" or a name like \"Europe/Paris\")")]
pub struct UnknownZone(pub String);

impl Zone {
    /// The point in time at which clocks of this zone show what clocks of UTC show at `shown`. `seen` is the time of
    /// reading.
    ///
    /// A time that clocks show twice means the second one, unless that is later than `seen`; then it means the first
    /// one. A time that clocks skip is read as if the clocks had not been moved yet.
    #[inline]
    pub fn to_utc(self, shown: Ticks, seen: Ticks) -> Option<Ticks> {
        let east = match self {
            Zone::Utc => return Some(shown),
            Zone::Offset(minutes) => i64::from(minutes) * 60,
            Zone::Local => seconds_east(host_zone(), shown, seen)?,
            Zone::Named(zone) => seconds_east(zone, shown, seen)?,
        };
        Ticks::new(shown.get() - east * TICKS_PER_SECOND)
    }

    /// The same where the time names its zone with the abbreviation `name`. `None` if clocks of this zone have no such
    /// name when they show `shown`.
    pub(super) fn to_utc_as(self, name: &str, shown: Ticks) -> Option<Ticks> {
        let east = match self {
            Zone::Utc | Zone::Offset(_) => return None,
            Zone::Local => seconds_east_as(host_zone(), name, shown)?,
            Zone::Named(zone) => seconds_east_as(zone, name, shown)?,
        };
        Ticks::new(shown.get() - east * TICKS_PER_SECOND)
    }

    /// The clocks of the zone, from 1900 to 2200. The offsets of before 1900 have seconds, which are left out.
    pub fn clock(self) -> ZoneClock {
        static CLOCKS: Mutex<BTreeMap<String, ZoneClock>> = Mutex::new(BTreeMap::new());
        let mut clocks = CLOCKS.lock().unwrap_or_else(PoisonError::into_inner);
        *clocks.entry(self.to_string()).or_insert_with(|| ZoneClock::new(Vec::leak(self.clock_changes())))
    }

    fn clock_changes(self) -> Vec<ClockChange> {
        let change = |from, seconds: i64| ClockChange { from, ahead: seconds.div_euclid(60) * TICKS_PER_MINUTE };
        let zone = match self {
            Zone::Utc => return Vec::new(),
            Zone::Offset(minutes) => return vec![change(Ticks::MIN, i64::from(minutes) * 60)],
            Zone::Local => host_zone(),
            Zone::Named(zone) => zone,
        };
        let [begin, end] =
            [(1900, 1), (2200, 1)].map(|(year, month)| Ticks::from_date(year, month, 1).unwrap_or_default());
        let begin = Timestamp::from_second(begin.unix_seconds()).unwrap_or_default();
        let first = change(Ticks::MIN, zone.to_offset(begin).seconds().into());
        let later = zone.following(begin).filter_map(|later| {
            let from = Ticks::from_unix(later.timestamp().as_second(), 0)?;
            Some(change(from, later.offset().seconds().into()))
        });
        let mut changes: Vec<_> = [first].into_iter().chain(later.take_while(|later| later.from < end)).collect();
        changes.dedup_by_key(|change| change.ahead);
        changes
    }

    /// The zone in words. The zone of the host has its name and where the name is from.
    pub fn described(self) -> String {
        match self {
            Zone::Local => format!("{} ({})", host().name, host().origin),
            zone => zone.to_string(),
        }
    }
}

/// The dates of a rule that names a summer time and not when it begins, as in `TZ=EST5EDT`. The C library takes these, too.
const DEFAULT_DATES: &str = ",M3.2.0,M11.1.0";

/// The zone of this host.
struct HostZone {
    zone: tz::TimeZone,
    name: String,
    /// Where the zone is from.
    origin: String,
    /// Why the zone may be another than was meant.
    doubt: Option<String>,
}

/// The zone of this host: that of `TZ`, or of `/etc/localtime`, or UTC.
pub fn host_zone() -> &'static tz::TimeZone {
    &host().zone
}

/// Why the zone of this host may be another than was meant: `TZ` is not a zone, or leaves out when its clocks change.
pub fn host_zone_doubt() -> Option<&'static str> {
    host().doubt.as_deref()
}

fn host() -> &'static HostZone {
    static HOST: OnceLock<HostZone> = OnceLock::new();
    HOST.get_or_init(|| {
        let variable = std::env::var_os("TZ").map(|variable| variable.to_string_lossy().into_owned());
        HostZone::of(variable, tz::TimeZone::try_system().ok())
    })
}

impl HostZone {
    /// `found` is the zone of `variable` (`TZ`), or else of `/etc/localtime`.
    fn of(variable: Option<String>, found: Option<tz::TimeZone>) -> HostZone {
        let origin = match (&variable, &found) {
            (Some(_), Some(_)) => "local, from TZ".into(),
            (None, Some(_)) => "local, from /etc/localtime".into(),
            (Some(variable), None) => format!("local: TZ={variable:?} is not a time zone"),
            (None, None) => "local: this host has neither TZ nor /etc/localtime".into(),
        };
        let by_default = |variable: &String| tz::TimeZone::posix(&format!("{variable}{DEFAULT_DATES}")).ok();
        let assumed = if found.is_none() { variable.as_ref().and_then(by_default) } else { None };
        let origin = if assumed.is_some() { "local, from TZ".into() } else { origin };
        let doubt = match &variable {
            Some(rule) if assumed.is_some() => Some(format!(
                "TZ={rule:?} names no dates on which clocks change: those of New York are taken, as the C library does"
            )),
            Some(variable) if found.is_none() => {
                Some(format!("TZ={variable:?} is not a time zone: times without a zone are read as UTC"))
            }
            _ => None,
        };
        let zone = found.or(assumed).unwrap_or(tz::TimeZone::UTC);
        let name = match zone.iana_name() {
            Some("Etc/UTC" | "Etc/UCT" | "Etc/Zulu") => "UTC".into(),
            Some(name) => name.to_owned(),
            None => variable.filter(|variable| !variable.is_empty()).unwrap_or_else(|| "a zone without a name".into()),
        };
        HostZone { zone, name, origin, doubt }
    }
}

/// Times of one zone that have one offset.
#[derive(Clone, Copy)]
struct SteadyTimes {
    zone: &'static tz::TimeZone,
    /// Unix seconds, as if clocks showed UTC.
    from: i64,
    until: i64,
    east: i64,
}

impl SteadyTimes {
    /// The times around `shown`, which is not near a change of clocks.
    fn around(zone: &'static tz::TimeZone, shown: i64, east: i64) -> Option<SteadyTimes> {
        let at = Timestamp::from_second(shown).ok()?;
        let before = zone.preceding(at).next().map_or(i64::MIN, |change| change.timestamp().as_second());
        let after = zone.following(at).next().map_or(i64::MAX, |change| change.timestamp().as_second());
        let Range { start: from, end: until } = before.saturating_add(NEAR_CHANGE)..after.saturating_sub(NEAR_CHANGE);
        (from..until).contains(&shown).then_some(SteadyTimes { zone, from, until, east })
    }
}

/// Seconds east of UTC when clocks of `zone` show `shown`. Most lines are of the same season as the line before, so
/// each thread keeps the offset of the last one.
fn seconds_east(zone: &'static tz::TimeZone, shown: Ticks, seen: Ticks) -> Option<i64> {
    thread_local!(static STEADY: Cell<Option<SteadyTimes>> = const { Cell::new(None) });
    let seconds = shown.unix_seconds();
    if let Some(steady) = STEADY.get()
        && std::ptr::eq(steady.zone, zone)
        && (steady.from..steady.until).contains(&seconds)
    {
        return Some(steady.east);
    }
    let civil = tz::Offset::UTC.to_datetime(Timestamp::from_second(seconds).ok()?);
    let offset = match zone.to_ambiguous_timestamp(civil).offset() {
        AmbiguousOffset::Unambiguous { offset } => {
            STEADY.set(SteadyTimes::around(zone, seconds, offset.seconds().into()));
            offset
        }
        AmbiguousOffset::Gap { before, .. } => before,
        AmbiguousOffset::Fold { before, after } => {
            let second = shown.get() - i64::from(after.seconds()) * TICKS_PER_SECOND;
            if second <= seen.get().saturating_add(CLOCK_SKEW) { after } else { before }
        }
    };
    Some(offset.seconds().into())
}

/// Seconds east of UTC when clocks of `zone` show `shown` and their time is called `name`. Most lines have the name and
/// the season of the line before, so each thread keeps the last answer.
fn seconds_east_as(zone: &'static tz::TimeZone, name: &str, shown: Ticks) -> Option<i64> {
    /// The times around the last one, its name, and the offset if the zone uses the name then.
    type Answer = (SteadyTimes, [u8; 5], Option<i64>);
    thread_local!(static LAST: Cell<Option<Answer>> = const { Cell::new(None) });
    let mut key = [0; 5];
    key.iter_mut().zip(name.bytes()).for_each(|(kept, byte)| *kept = byte);
    let seconds = shown.unix_seconds();
    if let Some((steady, last, east)) = LAST.get()
        && last == key
        && std::ptr::eq(steady.zone, zone)
        && (steady.from..steady.until).contains(&seconds)
    {
        return east;
    }
    let civil = tz::Offset::UTC.to_datetime(Timestamp::from_second(seconds).ok()?);
    let (first, second) = match zone.to_ambiguous_timestamp(civil).offset() {
        AmbiguousOffset::Unambiguous { offset } => (offset, offset),
        AmbiguousOffset::Gap { before, after } | AmbiguousOffset::Fold { before, after } => (before, after),
    };
    let east = [first, second].map(|offset| i64::from(offset.seconds())).into_iter().find(|east| {
        let at = Timestamp::from_second(seconds - east);
        at.is_ok_and(|at| {
            let info = zone.to_offset_info(at);
            info.abbreviation() == name && i64::from(info.offset().seconds()) == *east
        })
    });
    if first == second
        && let Some(steady) = SteadyTimes::around(zone, seconds, first.seconds().into())
    {
        LAST.set(Some((steady, key, east)));
    }
    east
}

/// The zone of this name. Each zone is decoded once and leaked, so that a zone is `Copy`. The names of the database
/// bound the leak.
pub(super) fn named(name: &str) -> Option<&'static tz::TimeZone> {
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
            ("2026-10-25T02:30:00Z", "2026-10-25T01:30:00Z"),
        ] {
            assert_eq!(in_paris(shown, "2026-12-01T00:00:00Z"), utc);
        }
    }

    #[test]
    fn a_time_that_clocks_show_twice_is_not_in_the_future() {
        for (seen, utc) in [
            ("2026-10-25T00:30:00Z", "2026-10-25T00:30:00Z"),
            ("2026-10-25T01:24:00Z", "2026-10-25T00:30:00Z"),
            ("2026-10-25T01:26:00Z", "2026-10-25T01:30:00Z"),
            ("2026-10-25T01:30:01Z", "2026-10-25T01:30:00Z"),
        ] {
            assert_eq!(in_paris("2026-10-25T02:30:00Z", seen), utc, "read at {seen}");
        }
    }

    fn in_paris(shown: &str, seen: &str) -> String {
        let time = |text| super::super::leading(text).expect("a time").0;
        let zone: Zone = "Europe/Paris".parse().expect("a zone");
        zone.to_utc(time(shown), time(seen)).expect("a time of our age").to_string()
    }

    #[test]
    fn the_zone_of_the_host_says_where_it_is_from() {
        let paris = || TimeZoneDatabase::bundled().get("Europe/Paris").ok();
        let described = |variable: Option<&str>, found| {
            let HostZone { name, origin, doubt, .. } = HostZone::of(variable.map(str::to_owned), found);
            format!("{name} ({origin}){}", doubt.map(|doubt| format!(" {doubt}")).unwrap_or_default())
        };
        assert_eq!(described(None, paris()), "Europe/Paris (local, from /etc/localtime)");
        assert_eq!(described(Some("Europe/Paris"), paris()), "Europe/Paris (local, from TZ)");
        assert_eq!(
            described(Some("Mars"), None),
            "UTC (local: TZ=\"Mars\" is not a time zone) TZ=\"Mars\" is not a time zone: times without a zone are read as UTC"
        );
        assert_eq!(described(None, None), "UTC (local: this host has neither TZ nor /etc/localtime)");
        let posix = tz::TimeZone::posix("CET-1CEST,M3.5.0,M10.5.0/3").ok();
        assert_eq!(described(Some("CET-1CEST,M3.5.0,M10.5.0/3"), posix), "CET-1CEST,M3.5.0,M10.5.0/3 (local, from TZ)");
        let doubt = "TZ=\"CET-1CEST\" names no dates on which clocks change: those of New York are taken, as the C library does";
        assert_eq!(described(Some("CET-1CEST"), None), format!("CET-1CEST (local, from TZ) {doubt}"));
        let HostZone { zone, .. } = HostZone::of(Some("CET-1CEST".into()), None);
        let east = |time: &str| zone.to_offset(time.parse().expect("a time")).seconds() / 3600;
        assert_eq!(
            [east("2026-03-08T00:59:59Z"), east("2026-03-08T01:00:00Z"), east("2026-11-01T00:00:00Z")],
            [1, 2, 1]
        );
    }

    proptest::proptest! {
        /// The offset that a thread keeps is the offset of the zone.
        #[test]
        fn times_of_any_order_and_zone(times in proptest::collection::vec((0..3_usize, 0..4_000_000_000_i64), 1..40)) {
            let zones = ["Europe/Paris", "Australia/Lord_Howe", "Africa/Casablanca"].map(|name| name.parse::<Zone>());
            for (zone, seconds) in times {
                let Ok(Zone::Named(zone)) = zones[zone] else { panic!("a zone") };
                let shown = Ticks::from_unix(seconds, 0).expect("a time");
                let civil = tz::Offset::UTC.to_datetime(Timestamp::from_second(seconds).expect("a time"));
                let expected = zone.to_ambiguous_timestamp(civil).later().expect("a time").as_second();
                let expected = match zone.to_ambiguous_timestamp(civil).offset() {
                    AmbiguousOffset::Gap { before, .. } => seconds - i64::from(before.seconds()),
                    _ => expected,
                };
                let read = Zone::Named(zone).to_utc(shown, Ticks::MAX).expect("a time");
                proptest::prop_assert_eq!(read.unix_seconds(), expected);
            }
        }
    }
}
