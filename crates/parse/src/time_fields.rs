//! Which field is the time of a record, where no field has a known name for it.
//!
//! Of the values that are a whole point in time and have a name that speaks of time, the name decides: `eventTime` before
//! `startTime`, both before `endTime` and `receivedAt`. A date and a clock in two
//! fields are one time. The choice is made for a source and kept: a later record without that field has no time of
//! another field. The field stays a field.

use super::json;
use super::timestamp::{self, TimestampDefaults};
use daytable_model::record::{Field, Level, Record, Value};
use daytable_model::time::Ticks;
use serde_json::value::RawValue;
use std::borrow::Cow;

/// Fields that are looked at.
const FIELDS_MAX: usize = 64;
/// After this many records without such a field, no more are looked at.
const TRIES_MAX: u8 = 32;
/// Arrays within arrays that are looked at.
const ARRAYS_MAX: usize = 4;
/// What stands between the names of a date and of a clock.
const AND: &str = " and ";

/// Words of names that tell a point in time.
const TIME_WORDS: [&str; 9] = ["time", "date", "stamp", "publish", "creat", "updat", "start", "occur", "when"];
/// Words of names of other points in time, or of no point.
const OTHER_WORDS: [&str; 13] = [
    "expir", "until", "valid", "birth", "due", "next", "uptime", "timeout", "duration", "elapsed", "timezone",
    "deadline", "not_",
];
/// Words of names of points in time that are later or earlier than what the record tells.
const SECOND_WORDS: [&str; 7] = ["receiv", "ingest", "end", "finish", "first", "creat", "previous"];

/// The field, or the two fields, that are the time of the records of a source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct TimeFields {
    name: Option<Box<str>>,
    /// Records without a time that had no such field, up to [`TRIES_MAX`].
    tries: u8,
}

impl TimeFields {
    /// Reads what [`TimeFields::save`] wrote.
    pub(super) fn restore(saved: &str) -> TimeFields {
        let (tries, name) = saved.split_once(' ').unwrap_or((saved, ""));
        let name = Some(name).filter(|name| !name.is_empty()).map(Box::from);
        TimeFields { name, tries: tries.parse().unwrap_or(0) }
    }

    /// What is known, as text of one line.
    pub(super) fn save(&self) -> Option<String> {
        if *self == TimeFields::default() {
            return None;
        }
        Some(format!("{} {}", self.tries, self.name().unwrap_or_default()))
    }

    /// The name of the field; two names with `and` between them for a date and a clock.
    pub(super) fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Gives a record without a time that of its fields, and keeps the choice.
    pub(super) fn settle(&mut self, record: &mut Record<'_>, defaults: &TimestampDefaults) {
        if let [only] = record.fields.as_slice()
            && let Some((time, level)) = of_array(&only.value, defaults, 0)
        {
            (record.time, record.level) = (Some(time), record.level.or(level));
            return;
        }
        let fields = &record.fields[..record.fields.len().min(FIELDS_MAX)];
        if let Some(known) = &self.name {
            record.time = read(known, fields, defaults);
        } else if self.tries < TRIES_MAX {
            match find(fields, defaults).filter(|(name, _)| !name.contains('\n')) {
                Some((name, time)) => {
                    record.time = Some(time);
                    self.name = Some(name.into());
                }
                None => self.tries += 1,
            }
        }
    }
}

/// The field whose words are the levels of a source's records, where no field has a known name for them: `status`, `label`, `at`
/// and names that speak of a level.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct LevelField {
    name: Option<Box<str>>,
    /// Records without a level that had no such field, up to [`TRIES_MAX`].
    tries: u8,
}

impl LevelField {
    /// Reads what [`LevelField::save`] wrote.
    pub(super) fn restore(saved: &str) -> LevelField {
        let TimeFields { name, tries } = TimeFields::restore(saved);
        LevelField { name, tries }
    }

    /// What is known, as text of one line.
    pub(super) fn save(&self) -> Option<String> {
        TimeFields { name: self.name.clone(), tries: self.tries }.save()
    }

    /// Whether the field is known.
    pub(super) fn is_known(&self) -> bool {
        self.name.is_some()
    }

    /// Whether a record may have its level in such a field.
    pub(super) fn is_open(&self) -> bool {
        self.is_known() || self.tries < TRIES_MAX
    }

    /// Gives a record without a level that of its field, and keeps the choice.
    pub(super) fn settle(&mut self, record: &mut Record<'_>) {
        let level_of = |field: &Field<'_>| text(&field.value).and_then(Level::from_word);
        let fields = record.fields.iter().take(FIELDS_MAX);
        if let Some(known) = &self.name {
            record.level = fields.clone().find(|field| *field.name == **known).and_then(level_of);
        } else if self.tries < TRIES_MAX {
            let found =
                fields.clone().find_map(|field| Some((field, level_of(field).filter(|_| tells_level(&field.name))?)));
            match found.filter(|(field, _)| !field.name.contains('\n')) {
                Some((field, level)) => (self.name, record.level) = (Some((*field.name).into()), Some(level)),
                None => self.tries += 1,
            }
        }
    }
}

/// Whether a name speaks of the level of its record.
fn tells_level(name: &str) -> bool {
    let lower = name.to_ascii_lowercase();
    let last = lower.rsplit('.').next().unwrap_or(&lower);
    matches!(last, "status" | "label" | "at") || last.contains("level") || last.contains("severity")
}

/// The time and the level of the first object in an array that is all that a record has: `{"Records":[{"eventTime":…}]}`.
fn of_array(value: &Value<'_>, defaults: &TimestampDefaults, depth: usize) -> Option<(Ticks, Option<Level>)> {
    let inner = text(value)?.strip_prefix('[').filter(|inner| inner.starts_with('{') && depth < ARRAYS_MAX)?;
    let first = serde_json::Deserializer::from_str(inner).into_iter::<&RawValue>().next()?.ok()?;
    let record = json::parse(first.get(), defaults)?;
    match record.time.or_else(|| Some(find(&record.fields, defaults)?.1)) {
        Some(time) => Some((time, record.level)),
        None => record.fields.iter().find_map(|field| of_array(&field.value, defaults, depth + 1)),
    }
}

/// The time in a message of the audit daemon: `audit(SECONDS.MILLISECONDS:SERIAL):`.
pub(super) fn of_audit(message: &str) -> Option<Ticks> {
    let (seconds, serial) = message.strip_prefix("audit(")?.split_once(':')?;
    serial.starts_with(|first: char| first.is_ascii_digit()).then(|| timestamp::epoch(seconds))?
}

fn read(known: &str, fields: &[Field<'_>], defaults: &TimestampDefaults) -> Option<Ticks> {
    let value = |name: &str| fields.iter().find(|field| field.name == name).map(|field| &field.value);
    match known.split_once(AND) {
        Some((date, clock)) => joined(text(value(date)?)?, text(value(clock)?)?, zone_of(fields), defaults),
        None => timestamp::read_with(value(known)?, defaults),
    }
}

fn text<'v>(value: &'v Value<'_>) -> Option<&'v str> {
    match value {
        Value::String(text) => Some(text),
        _ => None,
    }
}

/// The best field, and its time.
fn find(fields: &[Field<'_>], defaults: &TimestampDefaults) -> Option<(String, Ticks)> {
    let points = fields.iter().filter_map(|field| {
        let time = timestamp::read_with(&field.value, defaults)?;
        Some((rank_of(&field.name)?, field, time))
    });
    if let Some((_, field, time)) = points.min_by_key(|(rank, ..)| *rank) {
        return Some((field.name.clone().into_owned(), time));
    }
    // A date, and a clock.
    let is_date =
        |text: &str| text.len() >= 8 && text.len() <= 10 && !text.contains(':') && text.contains(['-', '/', '.']);
    let is_clock = |text: &str| matches!(text.as_bytes(), [_, _, b':', _, _, b':', ..] | [_, b':', _, _, b':', ..]);
    let of = |is: &dyn Fn(&str) -> bool| fields.iter().find(|field| text(&field.value).is_some_and(is));
    let (date, clock) = (of(&is_date)?, of(&is_clock)?);
    let time = joined(text(&date.value)?, text(&clock.value)?, zone_of(fields), defaults)?;
    Some((format!("{}{AND}{}", date.name, clock.name), time))
}

/// The offset in a field of its own: `tz="+0100"`.
fn zone_of<'f>(fields: &'f [Field<'_>]) -> Option<&'f str> {
    let field = fields.iter().find(|field| matches!(&*field.name, "tz" | "timezone" | "time_zone" | "zone"))?;
    text(&field.value).filter(|zone| zone.len() <= 9)
}

fn joined(date: &str, clock: &str, zone: Option<&str>, defaults: &TimestampDefaults) -> Option<Ticks> {
    let whole = format!("{date} {clock}{}{}", if zone.is_some() { " " } else { "" }, zone.unwrap_or_default());
    let read = |text: String| timestamp::read_with(&Value::String(Cow::Owned(text)), defaults);
    read(whole).or_else(|| zone.and_then(|_| read(format!("{date} {clock}"))))
}

/// Whether a name speaks of the time of its record.
pub(super) fn tells_time(name: &str) -> bool {
    rank_of(name).is_some_and(|rank| rank <= 10)
}

/// How much a name speaks of the time of its record, 0 most.
pub(super) fn rank_of(name: &str) -> Option<usize> {
    let lower = name.to_ascii_lowercase();
    let last = lower.rsplit('.').next().unwrap_or(&lower).trim_start_matches('_');
    let has = |words: &[&str]| words.iter().any(|word| last.contains(word));
    let is_time =
        has(&TIME_WORDS) || matches!(last, "t" | "ts" | "at" | "msec") || last.ends_with("_at") || name.ends_with("At");
    if has(&OTHER_WORDS) || !is_time {
        return None;
    }
    let depth = lower.matches('.').count();
    let is_event = last.contains("event");
    Some(if is_event { 0 } else { 10 } + 5 * usize::from(has(&SECOND_WORDS)) + 20 * depth)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen<'a>(members: &[(&'a str, Value<'a>)]) -> Option<(String, Ticks)> {
        let fields: Vec<_> =
            members.iter().map(|(name, value)| Field { name: (*name).into(), value: value.clone() }).collect();
        find(&fields, &TimestampDefaults::default())
    }

    #[test]
    fn the_name_decides_between_points_in_time() {
        let at = |text: &'static str| Value::String(text.into());
        let (early, late) = ("2025-11-21T08:00:00Z", "2025-11-21T08:00:01Z");
        for (members, name) in [
            (vec![("requestReceivedTimestamp", at(early)), ("stageTimestamp", at(late))], Some("stageTimestamp")),
            (vec![("EdgeEndTimestamp", at(late)), ("EdgeStartTimestamp", at(early))], Some("EdgeStartTimestamp")),
            (vec![("a.time", at(late)), ("published", at(early))], Some("published")),
            (vec![("expires_at", at(late))], None),
            (vec![("note", at(late))], None),
            (vec![("note", at("2025-11-21"))], None),
            (vec![("count", Value::Int64(1_763_712_000))], None),
            (vec![("date_create", Value::Int64(1_763_712_000))], Some("date_create")),
            (vec![("date", at("2025-11-21")), ("time", at("08:00:01"))], Some("date and time")),
        ] {
            assert_eq!(chosen(&members).map(|found| found.0).as_deref(), name, "{members:?}");
        }
    }

    #[test]
    fn a_level_has_the_field_that_had_one_first() {
        let mut known = LevelField::default();
        let mut level = |members: &[(&'static str, &'static str)]| {
            let fields = members
                .iter()
                .map(|(name, value)| Field { name: (*name).into(), value: Value::String((*value).into()) });
            let mut record = Record { fields: fields.collect(), ..Record::default() };
            known.settle(&mut record);
            known = LevelField::restore(&known.save().expect("something is known"));
            record.level
        };
        assert_eq!(level(&[("kind", "error"), ("message", "info")]), None);
        assert_eq!(level(&[("status", "200"), ("state", "error")]), None);
        assert_eq!(level(&[("label", "Warning"), ("status", "ok")]), Some(Level::Warn));
        assert_eq!(level(&[("status", "error"), ("label", "System")]), None);
        assert_eq!(level(&[("status", "info"), ("label", "Error")]), Some(Level::Error));
    }

    #[test]
    fn a_date_and_a_clock_have_the_zone_of_a_third_field() {
        let at = |text: &'static str| Value::String(text.into());
        let found = chosen(&[("date", at("2025-11-21")), ("time", at("09:00:01")), ("tz", at("+0100"))]);
        assert_eq!(found.map(|found| found.1.to_string()).as_deref(), Some("2025-11-21T08:00:01Z"));
    }
}
