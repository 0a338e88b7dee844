//! Filters of records.
//!
//! A filter is applied in two steps. `RowFilter::may_match` tests a row in its page and excludes most rows before
//! anything is copied. `RowFilter::matches` decides about the record that was built from the rows. The first step alone
//! decides about a record of one row; a master and its items need the second.

use super::record::{StoredRecord, with_layout};
use daytable_model::arrival::ARRIVED;
use daytable_model::key::{DayTable, RowKey, partition_key};
use daytable_model::line::{LAYOUT, RowParts, VERBATIM};
use daytable_model::needle::Needle;
use daytable_model::property::Property;
use daytable_model::record::Level;
use daytable_model::time::Ticks;
use std::cell::Cell;
use std::fmt;
use std::sync::Arc;

/// The conditions of a query; the default matches every record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The instance, in any of its buckets.
    pub instance: Option<String>,
    /// The partitions, beside those of the instance.
    pub partitions: Option<PartitionChooser>,
    /// The days of a lake.
    pub days: Option<DayChooser>,
    /// The first time.
    pub since: Option<Ticks>,
    /// The end, exclusive, so that adjacent ranges do not overlap.
    pub until: Option<Ticks>,
    /// The minimum level. A record without a level does not match then.
    pub level: Option<Level>,
    /// A text in the message or in a field's value, as printed ([`Needle`]). Case matters.
    pub contains: Option<String>,
    /// Maximum number of records.
    pub limit: Option<u64>,
}

/// Chooses partitions of day-tables before their rows are read.
#[derive(Clone)]
pub struct PartitionChooser(Arc<PartitionTest>);

type PartitionTest = dyn Fn(&DayTable, &str) -> bool + Send + Sync;

impl PartitionChooser {
    /// Chooses the partitions for which `wants` returns true.
    pub fn new(wants: impl Fn(&DayTable, &str) -> bool + Send + Sync + 'static) -> PartitionChooser {
        PartitionChooser(Arc::new(wants))
    }
}

/// Chooses days of a lake by their day-table and host before their files are opened.
#[derive(Clone)]
pub struct DayChooser(Arc<PartitionTest>);

impl DayChooser {
    /// Chooses the days for whose table and host `wants` returns true.
    pub fn new(wants: impl Fn(&DayTable, &str) -> bool + Send + Sync + 'static) -> DayChooser {
        DayChooser(Arc::new(wants))
    }

    /// Whether a day may have records that match.
    pub(super) fn wants(&self, table: &DayTable, host: &str) -> bool {
        (self.0)(table, host)
    }
}

impl fmt::Debug for DayChooser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DayChooser")
    }
}

impl PartialEq for DayChooser {
    fn eq(&self, other: &DayChooser) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for DayChooser {}

impl fmt::Debug for PartitionChooser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PartitionChooser")
    }
}

impl PartialEq for PartitionChooser {
    fn eq(&self, other: &PartitionChooser) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for PartitionChooser {}

impl Filter {
    /// The oldest and the newest matching time, both included; `None` if no time matches.
    pub fn times(&self) -> Option<(Ticks, Ticks)> {
        let from = self.since.unwrap_or(Ticks::MIN);
        let to = match self.until {
            Some(until) => Ticks::new(until.get() - 1)?,
            None => Ticks::MAX,
        };
        (from <= to).then_some((from, to))
    }

    /// Whether the day of a host may have records that match.
    pub(super) fn wants_day(&self, table: &DayTable, host: &str) -> bool {
        self.days.as_ref().is_none_or(|chooser| chooser.wants(table, host))
    }

    /// Whether `partition` is chosen, and belongs to the instance: its own, or one of its buckets (`instance~xx`).
    pub fn wants_partition(&self, table: &DayTable, partition: &str) -> bool {
        self.partitions.as_ref().is_none_or(|chooser| (chooser.0)(table, partition)) && self.is_of_instance(partition)
    }

    /// Whether `partition` belongs to the instance.
    pub fn is_of_instance(&self, partition: &str) -> bool {
        let Some(instance) = &self.instance else { return true };
        match partition.strip_prefix(partition_key(instance, None).as_str()) {
            Some("") => true,
            Some(rest) => {
                let hex = |c: u8| c.is_ascii_digit() || (b'a'..=b'f').contains(&c);
                matches!(rest.as_bytes(), [b'~', high, low] if hex(*high) && hex(*low))
            }
            None => false,
        }
    }

    /// Prepares the filter for many rows.
    pub(super) fn row_filter(&self) -> RowFilter<'static> {
        RowFilter {
            go_on: None,
            rows: Cell::new(0),
            times: self.times(),
            level: self.level,
            needle: self.contains.as_deref().filter(|text| !text.is_empty()).map(Needle::new),
        }
    }
}

/// A prepared filter. It ignores partitions, which are chosen before rows are read.
pub(super) struct RowFilter<'f> {
    /// Called repeatedly; false ends the reading of rows.
    go_on: Option<&'f dyn Fn() -> bool>,
    rows: Cell<u32>,
    times: Option<(Ticks, Ticks)>,
    level: Option<Level>,
    needle: Option<Needle>,
}

/// Rows between two calls of `go_on`.
const ROWS_BETWEEN_QUESTIONS: u32 = 1024;

impl<'f> RowFilter<'f> {
    /// Returns this filter with a `go_on` that it calls repeatedly.
    pub(super) fn asking(self, go_on: &'f dyn Fn() -> bool) -> RowFilter<'f> {
        RowFilter { go_on: Some(go_on), ..self }
    }

    /// Whether the reading of rows must end. Called for each row.
    pub(super) fn is_interrupted(&self) -> bool {
        let Some(go_on) = self.go_on else { return false };
        let rows = self.rows.get();
        self.rows.set(rows.wrapping_add(1));
        rows.is_multiple_of(ROWS_BETWEEN_QUESTIONS) && !go_on()
    }

    /// Whether a row may belong to a matching record. Items always may: their master decides.
    pub(super) fn may_match<'p>(
        &self,
        key: RowKey,
        level: Option<Level>,
        properties: impl Iterator<Item = (&'p str, Property<'p>)>,
    ) -> bool {
        if !self.times.is_some_and(|(from, to)| (from..=to).contains(&key.time())) {
            return false;
        }
        if key.item() > 0 {
            return true;
        }
        if self.level.is_some() && level < self.level {
            return false;
        }
        let Some(needle) = &self.needle else { return true };
        let parts = RowParts { key, level, properties: properties.collect() };
        let has_text = |(name, value): &(&str, Property<'_>)| match (*name, *value) {
            // The record has further rows, or this row contains it as JSON.
            ("Items" | "Fields", _) => true,
            ("Source" | LAYOUT | VERBATIM, Property::String(_)) | (ARRIVED, Property::DateTime(_)) => false,
            (_, value) => needle.is_in(value),
        };
        parts.properties.iter().any(has_text) || is_in_line(&parts, needle)
    }

    /// Whether the record built from matching rows matches.
    pub(super) fn matches(&self, record: &StoredRecord) -> bool {
        self.needle.as_ref().is_none_or(|needle| has_text(needle, record))
    }
}

/// Whether the line of a row contains the text across the borders of its values.
fn is_in_line(row: &RowParts<'_>, needle: &Needle) -> bool {
    let (layout, verbatim) = (row.text(LAYOUT).unwrap_or_default(), row.text(VERBATIM).unwrap_or_default());
    // The match may cross an escape of the piece, or be in the frame.
    if layout.is_empty() || !needle.is_in_text(verbatim) && !needle.may_cross(layout) {
        return false;
    }
    let mut line = Vec::new();
    with_layout(layout, |layout| layout.write_line(row, verbatim, &mut line));
    needle.is_in_bytes(&line)
}

/// Whether the line of a record, its message or a field contains a text.
pub(super) fn has_text(needle: &Needle, record: &StoredRecord) -> bool {
    needle.is_in_text(&record.message)
        || needle.is_in_text(&record.line())
        || record.fields.iter().any(|(_, value)| needle.is_in(value.as_property()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(seconds: i64) -> Ticks {
        Ticks::from_unix(seconds, 0).expect("in range")
    }

    fn key(seconds: i64) -> RowKey {
        RowKey::new(time(seconds), 1, 0)
    }

    fn may_match(filter: &Filter, key: RowKey, level: Option<Level>, properties: &[(&str, Property<'_>)]) -> bool {
        filter.row_filter().may_match(key, level, properties.iter().copied())
    }

    #[test]
    fn since_is_included_and_until_is_not() {
        let filter = Filter { since: Some(time(10)), until: Some(time(20)), ..Filter::default() };
        for (seconds, wanted) in [(9, false), (10, true), (19, true), (20, false)] {
            assert_eq!(may_match(&filter, key(seconds), None, &[]), wanted, "{seconds}");
        }
        for (since, until) in [(Some(time(20)), Some(time(20))), (None, Some(Ticks::MIN))] {
            assert_eq!(Filter { since, until, ..Filter::default() }.times(), None);
        }
        assert_eq!(Filter::default().times(), Some((Ticks::MIN, Ticks::MAX)));
    }

    #[test]
    fn a_level_wants_itself_and_worse_and_items_go_with_their_master() {
        let filter = Filter { level: Some(Level::Warn), ..Filter::default() };
        for (level, wanted) in
            [(None, false), (Some(Level::Info), false), (Some(Level::Warn), true), (Some(Level::Fatal), true)]
        {
            assert_eq!(may_match(&filter, key(1), level, &[]), wanted, "{level:?}");
            assert!(may_match(&filter, key(1).with_item(1), None, &[]));
            assert!(may_match(&Filter::default(), key(1), level, &[]));
        }
    }

    #[test]
    fn text_is_searched_in_the_message_and_in_fields() {
        let filter = Filter { contains: Some("Disk 7".into()), ..Filter::default() };
        for (name, value, wanted) in [
            ("Message", Property::String("the Disk 7 is full"), true),
            ("unit", Property::String("Disk 7"), true),
            ("Message", Property::String("the disk 7 is full"), false),
            ("Source", Property::String("/var/log/Disk 7.log"), false),
            ("code", Property::Int64(7), false),
            ("Source", Property::Int64(7), false),
            ("Items", Property::Int32(1), true),
            ("Fields", Property::String("{}"), true),
        ] {
            assert_eq!(may_match(&filter, key(1), None, &[(name, value)]), wanted, "{name} {value:?}");
        }
        assert!(may_match(&Filter { contains: Some(String::new()), ..Filter::default() }, key(1), None, &[]));
        let filter = Filter { contains: Some("50".into()), ..Filter::default() };
        for (value, wanted) in [
            (Property::Int64(502), true),
            (Property::Int64(5), false),
            (Property::Double(0.5), false),
            (Property::Double(0.505), true),
            (Property::Boolean(true), false),
        ] {
            assert_eq!(may_match(&filter, key(1), None, &[("code", value)]), wanted, "{value:?}");
        }
    }

    #[test]
    fn an_instance_is_its_partition_and_its_buckets() {
        let wants = |instance: &str, partition: &str| {
            Filter { instance: Some(instance.into()), ..Filter::default() }.is_of_instance(partition)
        };
        for (partition, wanted) in [
            ("web-1", true),
            ("web-1~0f", true),
            ("web-17", false),
            ("web-1~0F", false),
            ("web-1~0", false),
            ("web", false),
        ] {
            assert_eq!(wants("web-1", partition), wanted, "{partition}");
        }
        let long = "x".repeat(600);
        assert!(wants("a/b", &partition_key("a/b", Some(3))));
        assert!(wants(&long, &partition_key(&long, Some(255))));
        assert!(!wants(&long, &partition_key(&format!("{long}y"), None)));
        assert!(Filter::default().is_of_instance("anything"));
    }
}
