//! What looks like a time in a source of which no record has one.
//!
//! It is looked for in the first records without a time. A record with a time ends the doubt for good. What is kept comes from
//! records whose secrets are replaced already.

use super::layout::wide;
use super::timestamp::{self, TimestampDefaults};
use daytable_model::record::{Record, Value};
use daytable_model::time::Ticks;

/// Records without a time that are looked at.
const TRIES_MAX: u8 = 32;
/// Fields of a record that are looked at.
const FIELDS_MAX: usize = 64;
/// Bytes of a name that is kept. A longer one is not named.
const NAME_BYTES_MAX: usize = 128;
/// How a source with times, and one that has what looks like a time, are saved.
const TIMED: &str = "timed";
const LIKELY: char = '=';

/// Whether a source has times.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TimeDoubt {
    /// This many records, and none had a time or what looks like one.
    Undecided(u8),
    /// No record had a time, and this looks like one: the name of a field, or a part of a text.
    Likely(Box<str>),
    /// A record had a time.
    Timed,
}

impl Default for TimeDoubt {
    fn default() -> TimeDoubt {
        TimeDoubt::Undecided(0)
    }
}

impl TimeDoubt {
    /// Reads what [`TimeDoubt::save`] wrote.
    pub(super) fn restore(saved: &str) -> TimeDoubt {
        match saved.strip_prefix(LIKELY) {
            Some(likely) => TimeDoubt::Likely(likely.into()),
            None if saved == TIMED => TimeDoubt::Timed,
            None => TimeDoubt::Undecided(saved.parse().unwrap_or(TRIES_MAX)),
        }
    }

    /// What is known, as text of one line.
    pub(super) fn save(&self) -> Option<String> {
        match self {
            TimeDoubt::Undecided(0) => None,
            TimeDoubt::Undecided(tries) => Some(tries.to_string()),
            TimeDoubt::Likely(likely) => Some(format!("{LIKELY}{likely}")),
            TimeDoubt::Timed => Some(TIMED.to_owned()),
        }
    }

    /// What looks like a time, where no record had one.
    pub(super) fn likely(&self) -> Option<&str> {
        match self {
            TimeDoubt::Likely(likely) => Some(likely),
            TimeDoubt::Undecided(_) | TimeDoubt::Timed => None,
        }
    }

    /// Notes a record as it is stored.
    #[inline(always)]
    pub(super) fn note(&mut self, record: &Record<'_>) {
        match self {
            TimeDoubt::Timed => {}
            _ if record.time.is_some() => *self = TimeDoubt::Timed,
            TimeDoubt::Undecided(tries) if *tries < TRIES_MAX => {
                *tries += 1;
                if let Some(likely) = find(record) {
                    *self = TimeDoubt::Likely(likely.into());
                }
            }
            TimeDoubt::Undecided(_) | TimeDoubt::Likely(_) => {}
        }
    }
}

/// The name of the first field that is a point in time, or the first one within the message.
#[cold]
#[inline(never)]
fn find<'r>(record: &'r Record<'_>) -> Option<&'r str> {
    // Any number may be seconds since 1970: texts alone look like times.
    let defaults = TimestampDefaults { seen: Ticks::MAX, ..TimestampDefaults::default() };
    let is_point = |value: &Value<'_>| match value {
        Value::String(text) => timestamp::at_start(text.as_bytes(), &defaults)
            .is_some_and(|stamp| stamp.length == text.len() && stamp.form != timestamp::Form::Epoch),
        _ => false,
    };
    let is_name = |name: &str| name.len() <= NAME_BYTES_MAX && !name.contains(['\n', '\r']);
    let field = record.fields.iter().take(FIELDS_MAX).find(|field| is_name(&field.name) && is_point(&field.value));
    field.map(|field| &*field.name).or_else(|| wide::likely(record.message.lines().next()?, &defaults))
}

#[cfg(test)]
mod tests {
    use crate::{ParseOptions, SourceProfile};
    use daytable_model::time::Ticks;

    fn likely(lines: &[&str]) -> Option<String> {
        let (mut profile, options) = (SourceProfile::default(), ParseOptions::default());
        for line in lines {
            profile.record(line, Default::default(), &options, Ticks::UNIX_EPOCH);
            let saved = profile.save();
            let restored = SourceProfile::restore(&saved);
            assert_eq!((restored.likely_time(), restored.save()), (profile.likely_time(), saved));
        }
        profile.likely_time().map(str::to_owned)
    }

    #[test]
    fn a_source_without_times_names_what_looks_like_one() {
        let untimed = r#"{"expires_at":"2026-11-21T08:00:00Z","a":1}"#;
        let timed = r#"{"time":"2026-11-21T08:00:00Z","a":1}"#;
        assert_eq!(likely(&[untimed]).as_deref(), Some("expires_at"));
        assert_eq!(likely(&[r#"{"a":1}"#, untimed]).as_deref(), Some("expires_at"));
        assert_eq!(likely(&[untimed, timed]), None, "a record has a time");
        assert_eq!(likely(&[timed, untimed]), None, "the first record had a time");
        assert_eq!(likely(&[r#"{"a":1,"count":1763712000,"n":"1763712000"}"#]), None, "a number is no time");
        assert_eq!(likely(&["nothing", "of a time"]), None);
        let late: Vec<&str> = std::iter::repeat_n("nothing", 32).chain([untimed]).collect();
        assert_eq!(likely(&late), None, "the first records are looked at");
        let late: Vec<&str> = std::iter::repeat_n("nothing", 31).chain([untimed]).collect();
        assert_eq!(likely(&late).as_deref(), Some("expires_at"));
    }
}
