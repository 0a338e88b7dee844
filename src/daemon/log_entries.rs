//! Records as entries of streams, for the language of Loki.
//!
//! A record that was pushed to a stream comes back as it was pushed: the labels of the stream, the structured metadata,
//! the nanoseconds. Any other record gets the labels `instance`, `service_name`, `level`, `table` and `source`; all its
//! fields are structured metadata, and a selector may name any of them.
//!
//! Like Loki, each entry gets `service_name`, unless its stream has that label, and `detected_level`.

use crate::http::QuestionClock;
use daytable_logql::ast::Selector;
use daytable_logql::labels::{Labels, label_name};
use daytable_logql::level::{DETECTED_LEVEL, detected_level};
use daytable_logql::source::{Direction, EntrySource, LogEntry, TimeSpan};
use daytable_model::key::DayTable;
use daytable_model::property::{OwnedValue, property_name};
use daytable_model::record::Level;
use daytable_model::stream::PushedStream;
use daytable_model::time::{Ticks, UNIX_EPOCH_TICKS};
use daytable_query::{Filter, StoredRecord, Stores, select};
use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// Labels that may name the service, in Loki's order, if a stream does not name it.
const SERVICE_LABELS: [&str; 16] = [
    "service",
    "app",
    "application",
    "app_name",
    "name",
    "app_kubernetes_io_name",
    "container",
    "container_name",
    "k8s_container_name",
    "component",
    "workload",
    "job",
    "k8s_job_name",
    "k8s_deployment_name",
    "k8s_pod_name",
    "pod_name",
];
/// Fields of other records that may name the service, by priority.
const SERVICE_FIELDS: [&str; 3] = ["service_name", "component", "unit"];
/// Streams that are cached.
const STREAMS_MAX: usize = 10_000;
/// Records between two checks of the clock.
const CLOCK_INTERVAL: u32 = 256;

/// A stream that records were pushed to.
struct KnownStream {
    labels: Arc<Labels>,
    /// The names of the metadata: as pushed, and as the records have them.
    metadata: Vec<(String, String)>,
    /// The bytes that ended the line.
    end: String,
}

/// Converts records to entries.
#[derive(Default)]
pub(super) struct EntryMaker {
    /// Streams by the text of the note.
    pushed: HashMap<String, Arc<KnownStream>>,
    /// Label sets of other records, by the values of their labels.
    own: HashMap<[String; 5], Arc<Labels>>,
}

impl EntryMaker {
    /// The entry of a record; `None` if the selector does not select its stream.
    pub(super) fn entry(&mut self, record: &StoredRecord, selector: &Selector) -> Option<LogEntry> {
        let nanos = (record.time().get() - UNIX_EPOCH_TICKS).saturating_mul(100);
        let known = record.stream.as_ref().and_then(|note| self.known(&note.text));
        let Some(known) = known else {
            return self.own_entry(record, selector, nanos);
        };
        if !selector.matches(|name| known.labels.get(name)) {
            return None;
        }
        let value = |property: &String, name: &String| {
            record
                .fields
                .iter()
                .find(|(known, _)| known == property || known == name)
                .map(|(_, value)| value.to_string())
        };
        let mut metadata = Vec::with_capacity(known.metadata.len() + 1);
        metadata.extend(
            known.metadata.iter().filter_map(|(name, property)| Some((label_name(name), value(property, name)?))),
        );
        let mut line = record.line().into_owned();
        line.push_str(&known.end);
        let metadata = Labels::new(metadata);
        let level = detected_level(&line, &known.labels, &metadata).to_owned();
        let metadata = with_level(metadata, &level);
        let below = record.stream.as_ref().map_or(0, |note| i64::from(note.nanos));
        Some(LogEntry { stream: known.labels.clone(), time: nanos + below, line, metadata })
    }

    fn known(&mut self, text: &str) -> Option<Arc<KnownStream>> {
        if let Some(known) = self.pushed.get(text) {
            return Some(known.clone());
        }
        let PushedStream(labels, names, end) = PushedStream::parse(text)?;
        let mut labels = Labels::new(labels.into_iter().collect());
        if labels.get("service_name").is_none() {
            let service =
                SERVICE_LABELS.iter().find_map(|name| labels.get(name)).unwrap_or("unknown_service").to_owned();
            labels.set("service_name", &service);
        }
        let metadata = names.into_iter().map(|name| (name.clone(), property_name(&name))).collect();
        let known = Arc::new(KnownStream { labels: Arc::new(labels), metadata, end });
        if self.pushed.len() >= STREAMS_MAX {
            self.pushed.clear();
        }
        self.pushed.insert(text.to_owned(), known.clone());
        Some(known)
    }

    fn own_entry(&mut self, record: &StoredRecord, selector: &Selector, time: i64) -> Option<LogEntry> {
        let field =
            |wanted: &str| record.fields.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.to_string());
        let instance = record.instance();
        let service = SERVICE_FIELDS.iter().find_map(|name| field(name)).unwrap_or_else(|| instance.clone());
        let level = record.level.map_or("", Level::name);
        let table =
            DayTable::parse(&record.table).map_or_else(|_| record.table.to_string(), |day| day.table().to_string());
        let values = [instance, level.to_owned(), service, record.source.clone(), table];
        let stream = match self.own.get(&values) {
            Some(labels) => labels.clone(),
            None => {
                let names = ["instance", "level", "service_name", "source", "table"];
                let pairs = names.iter().zip(&values).filter(|(_, value)| !value.is_empty());
                let labels: Arc<Labels> =
                    Arc::new(Labels::new(pairs.map(|(n, v)| ((*n).to_owned(), v.clone())).collect()));
                if self.own.len() >= STREAMS_MAX {
                    self.own.clear();
                }
                self.own.insert(values, labels.clone());
                labels
            }
        };
        let shown = |value: &OwnedValue| match value {
            OwnedValue::String(text) => text.clone(),
            other => other.to_string(),
        };
        let pairs = record.fields.iter().map(|(name, value)| (label_name(name), shown(value)));
        let metadata = Labels::new(pairs.filter(|(name, _)| stream.get(name).is_none()).collect());
        if !selector.matches(|name| stream.get(name).or_else(|| metadata.get(name))) {
            return None;
        }
        let line = record.line().into_owned();
        let level = match record.level {
            Some(Level::Notice) => "info",
            Some(Level::Alert) => "critical",
            Some(level) => level.name(),
            None => detected_level(&line, &stream, &metadata),
        };
        let level = level.to_owned();
        Some(LogEntry { metadata: with_level(metadata, &level), stream, time, line })
    }
}

fn with_level(mut metadata: Labels, level: &str) -> Labels {
    metadata.set(DETECTED_LEVEL, level);
    metadata
}

/// The entries of all stores.
pub(super) struct StoredEntries<'s> {
    stores: &'s Stores<'s>,
    clock: &'s QuestionClock,
    maker: RefCell<EntryMaker>,
}

impl<'s> StoredEntries<'s> {
    pub(super) fn new(stores: &'s Stores<'s>, clock: &'s QuestionClock) -> StoredEntries<'s> {
        StoredEntries { stores, clock, maker: RefCell::default() }
    }

    /// Passes the entries of a span, the newest first.
    fn backward(
        &self,
        selector: &Selector,
        span: TimeSpan,
        each: &mut dyn FnMut(LogEntry) -> ControlFlow<()>,
    ) -> Result<(), String> {
        let ticks = |nanos: i64| Ticks::from_unix_nanos(nanos.into()).unwrap_or_default();
        let filter = Filter {
            // A record whose stream names an instance is in the partition of that instance.
            instance: selector.equal_to("instance").filter(|instance| !instance.is_empty()).map(str::to_owned),
            since: Some(ticks(span.from)),
            until: Some(ticks(span.to).plus(Duration::from_nanos(100))),
            ..Filter::default()
        };
        // Records of one tick come in the order of their keys, not of their nanoseconds.
        let mut same_tick: Vec<LogEntry> = Vec::new();
        let mut give = |entries: &mut Vec<LogEntry>| {
            entries.sort_by_key(|entry| std::cmp::Reverse(entry.time));
            entries.drain(..).try_for_each(&mut *each)
        };
        let (mut records, mut stopped, mut is_over) = (0u32, None, false);
        let report = select(self.stores, &filter, |record| {
            records = records.wrapping_add(1);
            if records.is_multiple_of(CLOCK_INTERVAL) {
                stopped = self.clock.stop_reason();
                if stopped.is_some() {
                    return ControlFlow::Break(());
                }
            }
            let Some(entry) = self.maker.borrow_mut().entry(&record, selector) else {
                return ControlFlow::Continue(());
            };
            if !(span.from..=span.to).contains(&entry.time) {
                return ControlFlow::Continue(());
            }
            if same_tick.first().is_some_and(|first| first.time / 100 != entry.time / 100)
                && give(&mut same_tick).is_break()
            {
                is_over = true;
                return ControlFlow::Break(());
            }
            same_tick.push(entry);
            ControlFlow::Continue(())
        });
        let report = report.map_err(|error| error.to_string())?;
        if let Some(reason) = stopped {
            return Err(reason.into());
        }
        if !is_over {
            // An answer that lacks an unreadable day must not look complete.
            let _ = give(&mut same_tick);
            return report.missing().map_or(Ok(()), Err);
        }
        Ok(())
    }
}

/// The first span that is read when the oldest entries are wanted, in nanoseconds.
const FIRST_SPAN: i64 = 60_000_000_000;

impl EntrySource for StoredEntries<'_> {
    fn scan(
        &self,
        selector: &Selector,
        span: TimeSpan,
        direction: Direction,
        each: &mut dyn FnMut(LogEntry) -> ControlFlow<()>,
    ) -> Result<(), String> {
        if direction == Direction::Backward {
            return self.backward(selector, span, each);
        }
        // Stores return the newest first. So the oldest entries are read from short spans, each longer than the one
        // before.
        let (mut from, mut length) = (span.from, FIRST_SPAN);
        while from <= span.to {
            let to = from.saturating_add(length - 1).min(span.to);
            let mut entries = Vec::new();
            self.backward(selector, TimeSpan { from, to }, &mut |entry| {
                entries.push(entry);
                ControlFlow::Continue(())
            })?;
            if entries.into_iter().rev().try_for_each(&mut *each).is_break() {
                return Ok(());
            }
            (from, length) = (to.saturating_add(1), length.saturating_mul(2));
            if to == i64::MAX {
                break;
            }
        }
        Ok(())
    }
}
