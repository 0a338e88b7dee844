//! The zone of times on the command line: of times without a zone that a person writes, and of times on a terminal.
//!
//! It is the zone of the host, in which times of lines without a zone are read, too: `TZ` has the name of a zone, a rule
//! such as `CET-1CEST,M3.5.0,M10.5.0/3`, or a file; without it, `/etc/localtime` has the zone.

use daytable_model::clock::ZoneClock;
use daytable_model::time::Ticks;
use daytable_parse::{Zone, host_zone};
use jiff::fmt::strtime;
use jiff::tz::TimeZone;
use jiff::{Timestamp, Zoned};
use std::time::Duration;

/// The zone of the reader.
#[derive(Clone, Debug)]
pub(super) struct ReaderZone(TimeZone);

impl ReaderZone {
    /// UTC if `utc`, otherwise the zone of the host.
    pub(super) fn new(utc: bool) -> ReaderZone {
        ReaderZone(if utc { TimeZone::UTC } else { host_zone().clone() })
    }

    /// The clocks of the zone.
    pub(super) fn clock(&self) -> ZoneClock {
        if self.0 == TimeZone::UTC { ZoneClock::default() } else { Zone::Local.clock() }
    }

    /// The name of the zone for another process of this host.
    pub(super) fn name(&self) -> String {
        if self.0 == TimeZone::UTC { "UTC".into() } else { self.0.iana_name().unwrap_or("local").to_owned() }
    }

    /// The seconds that clocks of the zone are ahead of UTC.
    pub(super) fn offset(&self, time: Ticks) -> i64 {
        let time = Timestamp::from_second(time.unix_seconds()).unwrap_or_default();
        self.0.to_offset(time).seconds().into()
    }

    /// The time in RFC 3339, with the offset of the zone.
    pub(super) fn rfc3339(&self, time: Ticks) -> String {
        let offset = self.offset(time);
        let (hours, minutes) = (offset.unsigned_abs() / 3600, offset.unsigned_abs() / 60 % 60);
        if offset == 0 {
            return time.to_string();
        }
        // The offsets of before 1900 have seconds, which RFC 3339 has not.
        let shift = Duration::from_secs((hours * 60 + minutes) * 60);
        let (sign, shown) = if offset < 0 { ('-', time.minus(shift)) } else { ('+', time.plus(shift)) };
        format!("{}{sign}{hours:02}:{minutes:02}", shown.to_string().trim_end_matches('Z'))
    }
}

/// How a time is written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TimeFormat {
    Rfc3339,
    Unix,
    /// A pattern of `strftime`.
    Pattern(String),
}

impl TimeFormat {
    /// `rfc3339`, `unix`, or a pattern with `%`.
    pub(super) fn parse(text: &str) -> Result<TimeFormat, String> {
        match text {
            "rfc3339" => Ok(TimeFormat::Rfc3339),
            "unix" => Ok(TimeFormat::Unix),
            _ if !text.contains('%') => Err("must be rfc3339, unix, or a pattern such as \"%d %b %H:%M:%S\"".into()),
            _ => match strtime::format(text, &Timestamp::UNIX_EPOCH.to_zoned(TimeZone::UTC)) {
                Ok(_) => Ok(TimeFormat::Pattern(text.to_owned())),
                Err(error) => Err(error.to_string()),
            },
        }
    }

    /// The time in a zone.
    pub(super) fn show(&self, time: Ticks, zone: &ReaderZone) -> String {
        let rfc3339 = || zone.rfc3339(time);
        match self {
            TimeFormat::Rfc3339 => rfc3339(),
            TimeFormat::Unix => {
                let millis = time.since(Ticks::UNIX_EPOCH).as_millis();
                format!("{}.{:03}", millis / 1000, millis % 1000)
            }
            TimeFormat::Pattern(pattern) => {
                let nanos = time.since(Ticks::UNIX_EPOCH).as_nanos();
                let time = i128::try_from(nanos).ok().and_then(|nanos| Timestamp::from_nanosecond(nanos).ok());
                let time = time.map(|time| Zoned::new(time, zone.0.clone()));
                time.and_then(|time| strtime::format(pattern, &time).ok()).unwrap_or_else(rfc3339)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use jiff::tz::TimeZoneDatabase;

    #[test]
    fn times_are_shown_with_the_offset_of_their_zone() {
        let zone = |name: &str| ReaderZone(TimeZoneDatabase::bundled().get(name).expect("a zone"));
        let time = Ticks::from_unix(1_795_269_800, 123_000_000).expect("a time");
        for (name, shown) in [
            ("UTC", "2026-11-21T14:03:20.123Z"),
            ("Europe/Berlin", "2026-11-21T15:03:20.123+01:00"),
            ("America/New_York", "2026-11-21T09:03:20.123-05:00"),
            ("Asia/Kolkata", "2026-11-21T19:33:20.123+05:30"),
        ] {
            assert_eq!(TimeFormat::Rfc3339.show(time, &zone(name)), shown);
        }
        let pattern = TimeFormat::parse("%H:%M:%S").expect("a pattern");
        assert_eq!(pattern.show(time, &zone("Europe/Berlin")), "15:03:20");
        assert_eq!(TimeFormat::Unix.show(time, &zone("UTC")), "1795269800.123");
        assert!(TimeFormat::parse("%").is_err() && TimeFormat::parse("short").is_err());
    }
}
