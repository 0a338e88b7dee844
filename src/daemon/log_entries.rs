//! Records as entries of streams, for the language of Loki.
//!
//! A record that was pushed to a stream comes back as it was pushed: the labels of the stream, the structured metadata,
//! the nanoseconds. Any other record gets the labels `instance`, `service_name`, `level`, `table` and `source`; all its
//! fields are structured metadata, and a selector may name any of them.
//!
//! A record that a host forwarded has its name as the label `log_host`, whatever it was pushed to there.
//!
//! Like Loki, each entry gets `service_name`, unless its stream has that label, and `detected_level`.

use crate::http::{QuestionClock, Visibility};
use daytable_logql::EvalError;
use daytable_logql::ast::{MatchOp, Selector};
use daytable_logql::eval::{EachCount, EachEntry, EntrySource, RangeQuestion, RangeSamples, sample_plainly};
use daytable_logql::labels::{Labels, label_name};
use daytable_logql::level::{DETECTED_LEVEL, detected_level, level_of_labels, level_of_members};
use daytable_logql::source::{CountedApart, Direction, EntrySelection, LogEntry, TimeSpan};
use daytable_logsql::{FieldName, PredicateNode};
use daytable_model::arrival::ARRIVED;
use daytable_model::field_properties::shown_name;
use daytable_model::key::{DayTable, instance_of};
use daytable_model::property::OwnedValue;
use daytable_model::record::Level;
use daytable_model::stream::{NANOS, PushedStream, STREAM};
use daytable_model::time::Ticks;
use daytable_platform::budget::QuestionBudget;
use daytable_query::answer::{
    AlikeLine, EntryFilter, EntryFold, FoldedEntries, days_with, fold_entries, select_entries,
};
use daytable_query::tables::TableError;
use daytable_query::{Filter, PartitionChooser, StoredRecord, Stores, partitions_max, select_while};
use daytable_store::StoreError;
use daytable_store::forward::receive::LOG_HOST;
use folds::{CountFold, NeededLabels, SampleFold, SampleReaders, sees};
use selection::predicate_of;
use std::cell::{Cell, RefCell};
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

mod folds;
mod selection;

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
/// Partitions of a day-table that are read at once where the order does not matter.
const PARTITIONS_AT_ONCE: usize = 4000;

/// A stream that records were pushed to.
struct KnownStream {
    labels: Arc<Labels>,
    /// The names of the metadata.
    metadata: Vec<(String, FieldName)>,
    /// The bytes that ended the line.
    end: String,
    /// Whether the name of the host that a record came from is one of its labels, in place of such a label of the stream. It is
    /// metadata where these have that name.
    takes_host: bool,
}

impl KnownStream {
    /// The stream of a note; `None` for another text.
    fn parse(note: &str) -> Option<KnownStream> {
        let PushedStream(labels, names, end) = PushedStream::parse(note)?;
        let mut labels = Labels::new(labels.into_iter().filter(|(_, value)| !value.is_empty()).collect());
        if labels.get("service_name").is_none() {
            let service =
                SERVICE_LABELS.iter().find_map(|name| labels.get(name)).unwrap_or("unknown_service").to_owned();
            labels.set("service_name", &service);
        }
        let takes_host = !names.iter().any(|name| name == LOG_HOST);
        let metadata = names.into_iter().map(|name| (name.clone(), FieldName::new(&name))).collect();
        Some(KnownStream { labels: Arc::new(labels), metadata, end, takes_host })
    }

    /// Whether a label is the name of the host or metadata, whose values only a record has.
    fn is_of_record(&self, label: &str) -> bool {
        label == LOG_HOST && self.takes_host || self.metadata.iter().any(|(name, _)| label_name(name) == label)
    }
}

/// The names of the labels of records that were pushed to no stream, in their order.
const OWN_LABELS: [&str; 6] = ["instance", "level", LOG_HOST, "service_name", "source", "table"];
/// Properties that are not fields.
const NO_FIELDS: [&str; 9] = ["Message", "Source", "Items", "Fields", "Layout", "Verbatim", STREAM, NANOS, ARRIVED];

/// Converts records to entries.
#[derive(Default)]
pub(super) struct EntryMaker {
    /// Which records the client sees.
    seen: Visibility,
    /// Whether the client sees the records of this table and partition.
    last_seen: Option<(Arc<str>, Arc<str>, bool)>,
    /// Streams by the text of the note.
    pushed: HashMap<String, Arc<KnownStream>>,
    /// Label sets of records that were forwarded, by their stream and the name of the host.
    forwarded: HashMap<(String, String), Arc<Labels>>,
    /// Label sets of other records, by the values of their labels.
    own: HashMap<[String; 6], Arc<Labels>>,
    needed_fields: NeededFields,
}

/// Which fields a question needs, by their names.
#[derive(Default)]
struct NeededFields(HashMap<String, bool>);

impl NeededFields {
    /// Whether the label of a field is needed. A maker has one question.
    fn has(&mut self, field: &str, needed: Option<&NeededLabels>) -> bool {
        let Some(needed) = needed else { return true };
        if let Some(has) = self.0.get(field) {
            return *has;
        }
        let has = needed.needs(&label_name(&shown_name(field)));
        if self.0.len() >= STREAMS_MAX {
            self.0.clear();
        }
        self.0.insert(field.to_owned(), has);
        has
    }
}

impl EntryMaker {
    /// Converts the records that a client sees.
    pub(super) fn new(seen: Visibility) -> EntryMaker {
        EntryMaker { seen, ..EntryMaker::default() }
    }

    fn sees(&mut self, record: &StoredRecord) -> bool {
        let sees = match &self.last_seen {
            Some((table, partition, sees)) if *table == record.table && *partition == record.partition_key => *sees,
            _ => {
                let sees = self.seen.sees(&table_name(&record.table), &record.instance());
                self.last_seen = Some((record.table.clone(), record.partition_key.clone(), sees));
                sees
            }
        };
        let has_host = || {
            let host = field_of(record, LOG_HOST);
            self.seen.sees_record(&table_name(&record.table), &record.instance(), host.as_deref())
        };
        sees && (self.seen.by_host().is_none() || has_host())
    }

    /// The entry of a record; `None` if the client does not see it, or the selector does not select its stream.
    pub(super) fn entry(&mut self, record: &StoredRecord, selector: &Selector) -> Option<LogEntry> {
        if !self.seen.is_all() && !self.sees(record) {
            return None;
        }
        match self.entry_of(record, selector, LevelSearch::Full, None) {
            FoundEntry::Entry(entry) => Some(entry),
            FoundEntry::Unselected | FoundEntry::Open => None,
        }
    }

    /// The entry of a record, or of the values that matter of several, with the fields that are needed, or all.
    fn entry_of(
        &mut self,
        record: &StoredRecord,
        selector: &Selector,
        search: LevelSearch,
        needed: Option<&NeededLabels>,
    ) -> FoundEntry {
        let nanos = record.time().unix_nanos();
        let known = record.stream.as_ref().and_then(|note| self.known(&note.text));
        let Some(known) = known else {
            return self.own_entry(record, selector, nanos, search, needed);
        };
        let stream = self.stream_of(record, &known);
        let own = OwnValues::of(record, selector, &stream);
        if !selector.matches(|name| stream.get(name).or_else(|| own.get(name))) {
            return FoundEntry::Unselected;
        }
        let value = |name: &FieldName| {
            let found = name.find_in(|wanted| record.fields.iter().find(|(known, _)| known == wanted));
            found.map(|(_, value)| shown(value))
        };
        let metadata = known.metadata.iter().filter(|(name, _)| self.needed_fields.has(name, needed));
        let metadata = metadata.filter_map(|(name, field)| Some((name.as_str(), value(field)?)));
        let metadata = labels_apart(metadata);
        let mut line = record.line().into_owned();
        line.push_str(&known.end);
        let below = record.stream.as_ref().map_or(0, |note| i64::from(note.nanos));
        search.found(None, LogEntry { stream, time: nanos + below, line, metadata })
    }

    /// The labels of a record that was pushed to a stream.
    fn stream_of(&mut self, record: &StoredRecord, known: &KnownStream) -> Arc<Labels> {
        let host = known.takes_host.then(|| field_of(record, LOG_HOST)).flatten();
        let (Some(host), Some(note)) = (host, &record.stream) else { return known.labels.clone() };
        let key = (note.text.to_string(), host);
        if let Some(labels) = self.forwarded.get(&key) {
            return labels.clone();
        }
        let mut labels = Labels::clone(&known.labels);
        labels.set(LOG_HOST, &key.1);
        let labels = Arc::new(labels);
        if self.forwarded.len() >= STREAMS_MAX {
            self.forwarded.clear();
        }
        self.forwarded.insert(key, labels.clone());
        labels
    }

    fn known(&mut self, text: &str) -> Option<Arc<KnownStream>> {
        if let Some(known) = self.pushed.get(text) {
            return Some(known.clone());
        }
        let known = Arc::new(KnownStream::parse(text)?);
        if self.pushed.len() >= STREAMS_MAX {
            self.pushed.clear();
        }
        self.pushed.insert(text.to_owned(), known.clone());
        Some(known)
    }

    fn own_entry(
        &mut self,
        record: &StoredRecord,
        selector: &Selector,
        time: i64,
        search: LevelSearch,
        needed: Option<&NeededLabels>,
    ) -> FoundEntry {
        let instance = record.instance();
        let service = SERVICE_FIELDS.iter().find_map(|name| field_of(record, name)).unwrap_or_else(|| instance.clone());
        let host = field_of(record, LOG_HOST).unwrap_or_default();
        let level = record.level.map_or("", Level::name).to_owned();
        let values = [instance, level, host, service, record.source.clone(), table_name(&record.table)];
        let stream = self.own_stream(values);
        let fields = record.fields.iter().filter(|(name, _)| self.needed_fields.has(name, needed));
        let names: Vec<_> = fields.map(|(name, value)| (shown_name(name), shown(value))).collect();
        let pairs = names.iter().filter(|(name, _)| stream.get(&label_name(name)).is_none());
        let metadata = labels_apart(pairs.map(|(name, value)| (&**name, value.clone())));
        if !selector.matches(|name| stream.get(name).or_else(|| metadata.get(name))) {
            return FoundEntry::Unselected;
        }
        let line = record.line().into_owned();
        search.found(record.level.map(shown_level), LogEntry { metadata, stream, time, line })
    }

    /// The labels of a record that was pushed to no stream, by their values.
    fn own_stream(&mut self, values: [String; 6]) -> Arc<Labels> {
        if let Some(labels) = self.own.get(&values) {
            return labels.clone();
        }
        let pairs = OWN_LABELS.iter().zip(&values).filter(|(_, value)| !value.is_empty());
        let labels: Arc<Labels> = Arc::new(Labels::new(pairs.map(|(n, v)| ((*n).to_owned(), v.clone())).collect()));
        if self.own.len() >= STREAMS_MAX {
            self.own.clear();
        }
        self.own.insert(values, labels.clone());
        labels
    }
}

/// Labels that a selector finds of every record, also of one that was pushed to a stream without them. They are not shown
/// there: the labels of a stream are those that it was pushed with.
const SELECTED: [&str; 3] = ["instance", "level", "table"];

/// Those labels of a record that a selector asks for, and its stream lacks.
struct OwnValues([Option<String>; SELECTED.len()]);

impl OwnValues {
    fn of(record: &StoredRecord, selector: &Selector, stream: &Labels) -> OwnValues {
        let is_asked = |name: &str| selector.0.iter().any(|matcher| matcher.name == name) && stream.get(name).is_none();
        OwnValues(SELECTED.map(|name| {
            let value = || match name {
                "instance" => record.instance(),
                "level" => record.level.map_or("", Level::name).to_owned(),
                _ => table_name(&record.table),
            };
            is_asked(name).then(value).filter(|value| !value.is_empty())
        }))
    }

    fn get(&self, name: &str) -> Option<&str> {
        let at = SELECTED.iter().position(|known| *known == name)?;
        self.0[at].as_deref()
    }
}

/// The text of a field that is not empty.
fn field_of(record: &StoredRecord, wanted: &str) -> Option<String> {
    let value = record.fields.iter().find(|(name, _)| *name == wanted).map(|(_, value)| shown(value));
    value.filter(|value| !value.is_empty())
}

/// How the level is found that Loki detects.
#[derive(Clone, Copy)]
enum LevelSearch {
    /// In the labels and the line.
    Full,
    /// It does not matter.
    Skip,
    /// In the labels, and in a line that stands for those of several records.
    Alike(AlikeLine),
}

/// An entry, as far as its values tell.
enum FoundEntry {
    Entry(LogEntry),
    /// The selector does not select its stream.
    Unselected,
    /// Only the whole record tells the level.
    Open,
}

impl LevelSearch {
    /// The entry with its level; `known` is that of the record.
    fn found(self, known: Option<&'static str>, entry: LogEntry) -> FoundEntry {
        let LogEntry { line, stream, metadata, .. } = &entry;
        let known_level = || known.or_else(|| level_of_labels(stream, metadata));
        let level = match self {
            LevelSearch::Skip => return FoundEntry::Entry(entry),
            LevelSearch::Full | LevelSearch::Alike(AlikeLine::Real) => {
                known_level().unwrap_or_else(|| detected_level(line, stream, metadata))
            }
            LevelSearch::Alike(AlikeLine::Reduced(tells)) => match known_level().or_else(|| level_of_members(line)) {
                Some(level) => level,
                None if tells => return FoundEntry::Open,
                None => detected_level(line, stream, metadata),
            },
            LevelSearch::Alike(AlikeLine::None) => match known_level() {
                Some(level) => level,
                None => return FoundEntry::Open,
            },
        };
        let level = level.to_owned();
        FoundEntry::Entry(LogEntry { metadata: with_level(entry.metadata, &level), ..entry })
    }
}

/// The labels of fields. Of several fields with one label, the one of that name has it, and the others get a number. As in
/// Loki, an empty field is no label.
fn labels_apart<'n>(fields: impl Iterator<Item = (&'n str, String)>) -> Labels {
    let fields = fields.filter(|(_, value)| !value.is_empty());
    let mut fields: Vec<_> = fields.map(|(name, value)| (label_name(name), value, name)).collect();
    fields.sort_by_key(|(label, _, name)| label != *name);
    let mut used = HashSet::with_capacity(fields.len());
    let apart = |(label, value, _): (String, String, &str)| {
        let mut free = label.clone();
        for n in 2.. {
            if used.insert(free.clone()) {
                break;
            }
            free = format!("{label}_{n}");
        }
        (free, value)
    };
    Labels::new(fields.into_iter().map(apart).collect())
}

/// Whether a label may be one that got a number, which only the record tells.
fn may_be_numbered(label: &str) -> bool {
    label.rsplit_once('_').is_some_and(|(_, n)| !n.is_empty() && n.bytes().all(|byte| byte.is_ascii_digit()))
}

/// The configured table of a day-table.
fn table_name(table: &str) -> String {
    DayTable::parse(table).map_or_else(|_| table.to_owned(), |day| day.table().to_string())
}

/// The text of a value.
fn shown(value: &OwnedValue) -> String {
    value.as_property().text().into_owned()
}

/// The value of `detected_level` for the level of a record.
fn shown_level(level: Level) -> &'static str {
    match level {
        Level::Notice => "info",
        Level::Alert => "critical",
        level => level.name(),
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
    seen: Visibility,
    maker: RefCell<EntryMaker>,
    /// Entries in memory when the oldest entries are wanted.
    oldest_max: usize,
    /// Partitions that are read at once where the order does not matter.
    partitions_at_once: usize,
}

impl<'s> StoredEntries<'s> {
    pub(super) fn new(stores: &'s Stores<'s>, clock: &'s QuestionClock, seen: Visibility) -> StoredEntries<'s> {
        let maker = EntryMaker::new(seen.clone()).into();
        let (oldest_max, partitions_at_once) = (OLDEST_MAX, PARTITIONS_AT_ONCE);
        StoredEntries { stores, clock, maker, seen, oldest_max, partitions_at_once }
    }

    /// What the stores can decide about the wanted entries before they read a row, beside the [days](days_with).
    fn filter_of(&self, wanted: &EntrySelection<'_>) -> Filter {
        let (selector, span) = (wanted.selector, wanted.span);
        let ticks = |nanos: i64| Ticks::from_unix_nanos(nanos.into()).unwrap_or_default();
        // The partitions of others are not read, so a question takes no longer for their records.
        let sees = |seen: Visibility| {
            PartitionChooser::new(move |table, partition| seen.sees(table.table().as_str(), &instance_of(partition).0))
        };
        Filter {
            // A record whose stream names an instance is in the partition of that instance.
            instance: selector.equal_to("instance").filter(|instance| !instance.is_empty()).map(str::to_owned),
            partitions: (!self.seen.is_all()).then(|| sees(self.seen.clone())),
            since: Some(ticks(span.from)),
            until: Some(ticks(span.to).plus(Duration::from_nanos(100))),
            contains: text_of(wanted),
            ..Filter::default()
        }
    }

    /// Filters that together give the records of a selection. Each has a bounded number of partitions, because reading
    /// holds a page of each.
    fn filters_of(&self, whole: Filter) -> Result<Vec<Filter>, EvalError> {
        let partitions = partitions_max(self.stores, &whole).map_err(unread)?;
        let parts = partitions.div_ceil(self.partitions_at_once);
        if parts < 2 {
            return Ok(vec![whole]);
        }
        let part = |number: usize| {
            let all = whole.clone();
            let is_in = move |table: &DayTable, partition: &str| {
                let mut hash = DefaultHasher::new();
                partition.hash(&mut hash);
                hash.finish() % parts as u64 == number as u64 && all.wants_partition(table, partition)
            };
            Filter { partitions: Some(PartitionChooser::new(is_in)), ..whole.clone() }
        };
        Ok((0..parts).map(part).collect())
    }

    /// What the stores can decide about the wanted entries. A count relies on it for lines.
    fn entries_of(&self, wanted: &EntrySelection<'_>) -> EntryFilter {
        let predicate = predicate_of(wanted, &self.seen);
        EntryFilter {
            filter: Filter { days: days_with(&predicate), ..self.filter_of(wanted) },
            predicate: predicate.into(),
        }
    }

    /// Folds the entries of a selection in any order, and passes on what each thread gathered.
    fn fold<F: EntryFold>(
        &self,
        wanted: &EntrySelection<'_>,
        fold: &F,
        mut each: impl FnMut(F::State) -> Result<ControlFlow<()>, EvalError>,
    ) -> Result<(), EvalError> {
        let stopped = Cell::new(None);
        let go_on = || {
            stopped.set(self.clock.stop_reason());
            stopped.get().is_none()
        };
        let EntryFilter { filter, predicate } = self.entries_of(wanted);
        for filter in self.filters_of(filter)? {
            let chosen = EntryFilter { filter, predicate: predicate.clone() };
            let FoldedEntries { states, report, refused } =
                fold_entries(self.stores, &chosen, fold, &go_on).map_err(unread)?;
            if let Some(reason) = stopped.get() {
                return Err(EvalError::Stopped(reason.into()));
            }
            if let Some(over) = refused {
                return Err(over.into());
            }
            for state in states {
                if each(state)?.is_break() {
                    return Ok(());
                }
            }
            report.missing().map_or(Ok(()), |missing| Err(EvalError::Source(missing)))?;
        }
        Ok(())
    }

    /// Passes the entries of a selection in any order.
    fn unordered(&self, wanted: &EntrySelection<'_>, each: &mut EachEntry<'_>) -> Result<(), EvalError> {
        let mut flow = ControlFlow::Continue(());
        let EntryFilter { filter, predicate } = self.entries_of(wanted);
        for filter in self.filters_of(filter)? {
            let mut one = |entry| {
                flow = each(entry);
                flow
            };
            self.backward(&EntryFilter { filter, predicate: predicate.clone() }, wanted, &mut one)?;
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }

    /// Passes the entries of a span, the newest first.
    fn backward(
        &self,
        chosen: &EntryFilter,
        wanted: &EntrySelection<'_>,
        each: &mut EachEntry<'_>,
    ) -> Result<(), EvalError> {
        let span = wanted.span;
        // Records of one tick come in the order of their keys, not of their nanoseconds.
        let mut same_tick: Vec<LogEntry> = Vec::new();
        let mut tick_bytes = 0;
        let mut give = |entries: &mut Vec<LogEntry>| {
            entries.sort_by_key(|entry| std::cmp::Reverse(entry.time));
            entries.drain(..).try_for_each(&mut *each)
        };
        let (stopped, mut is_over) = (Cell::new(None), false);
        let go_on = || {
            stopped.set(self.clock.stop_reason());
            stopped.get().is_none()
        };
        let mut one = |record| {
            let Some(entry) = self.maker.borrow_mut().entry(&record, wanted.selector) else {
                return ControlFlow::Continue(());
            };
            if !(span.from..=span.to).contains(&entry.time) {
                return ControlFlow::Continue(());
            }
            // Of very many entries of one tick, the order within the tick is that of their keys.
            let is_other = same_tick.first().is_some_and(|first| first.time / 100 != entry.time / 100);
            let ends_tick = is_other || tick_bytes > OLDEST_BYTES_MAX / 2;
            tick_bytes = if ends_tick { 0 } else { tick_bytes } + entry.line.len() + entry.metadata.bytes();
            if ends_tick && give(&mut same_tick).is_break() {
                is_over = true;
                return ControlFlow::Break(());
            }
            same_tick.push(entry);
            ControlFlow::Continue(())
        };
        // Rows are read page by page, which is the cheapest where most of them are wanted.
        let report = match chosen.predicate.root() {
            PredicateNode::Always(true) => select_while(self.stores, &chosen.filter, &go_on, &mut one),
            _ => select_entries(self.stores, chosen, &go_on, &mut one),
        };
        let report = report.map_err(unread)?;
        if let Some(reason) = stopped.get() {
            return Err(EvalError::Stopped(reason.into()));
        }
        if !is_over {
            // An answer that lacks an unreadable day must not look complete.
            let _ = give(&mut same_tick);
            return report.missing().map_or(Ok(()), |missing| Err(EvalError::Source(missing)));
        }
        Ok(())
    }
}

/// The longest text that each wanted record has in its line or in a field.
fn text_of(wanted: &EntrySelection<'_>) -> Option<String> {
    let equal = wanted.selector.0.iter().filter(|matcher| matcher.op == MatchOp::Equal);
    let labels = equal.map(|matcher| (&*matcher.name, &*matcher.value)).chain(wanted.equal_labels());
    // The labels of a stream are fields of its records, too.
    let of_fields =
        labels.filter(|(name, _)| (*name == LOG_HOST || !OWN_LABELS.contains(name)) && *name != DETECTED_LEVEL);
    let line = wanted.longest_text().filter(|text| is_of_record(text));
    let texts = of_fields.map(|(_, value)| value.to_owned()).chain(line);
    texts.filter(|text| !text.is_empty()).max_by_key(String::len)
}

/// Whether a record contains each text of its line that contains this text. The bytes that end a pushed line are not part
/// of the record, and invalid bytes are shown as another character.
fn is_of_record(text: &str) -> bool {
    !text.contains(['\n', '\r', char::REPLACEMENT_CHARACTER])
}

/// The first span that is read when the oldest entries are wanted, in nanoseconds.
const FIRST_SPAN: i64 = 60_000_000_000;
/// Entries in memory when the oldest entries are wanted, and bytes of their lines.
const OLDEST_MAX: usize = 10_000;
const OLDEST_BYTES_MAX: usize = 16 << 20;
/// Entries of one tick are not divided.
const TICK: i64 = 100;

impl EntrySource for StoredEntries<'_> {
    fn is_wanted(&self) -> bool {
        self.clock.stop_reason().is_none()
    }

    fn scan(
        &self,
        wanted: &EntrySelection<'_>,
        direction: Direction,
        each: &mut EachEntry<'_>,
    ) -> Result<(), EvalError> {
        match direction {
            Direction::Any => return self.unordered(wanted, each),
            Direction::Backward => return self.backward(&self.entries_of(wanted), wanted, each),
            Direction::Forward => {}
        }
        // Stores return the newest first. So the oldest entries are read from short spans. A span with too many entries is
        // read again in parts, so that memory is limited.
        let (mut from, mut length) = (wanted.span.from, FIRST_SPAN);
        let EntryFilter { predicate, filter: Filter { days, .. } } = self.entries_of(wanted);
        while from <= wanted.span.to {
            let to = from.saturating_add(length - 1).min(wanted.span.to);
            let (mut entries, mut bytes, mut is_cut) = (Vec::new(), 0, false);
            let part = EntrySelection { span: TimeSpan { from, to }, ..wanted.clone() };
            let filter = Filter { days: days.clone(), ..self.filter_of(&part) };
            let chosen = EntryFilter { filter, predicate: predicate.clone() };
            self.backward(&chosen, &part, &mut |entry| {
                bytes += entry.line.len() + entry.metadata.bytes();
                entries.push(entry);
                is_cut = length > TICK && (entries.len() > self.oldest_max || bytes > OLDEST_BYTES_MAX);
                if is_cut { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            if is_cut {
                // The entries that were read show how many there are in a time.
                let read = entries.last().map_or(0, |oldest| to - oldest.time);
                length = (read / 2).clamp(TICK, (length / 2).max(TICK));
                continue;
            }
            let is_sparse = entries.len() <= self.oldest_max / 4 && bytes <= OLDEST_BYTES_MAX / 4;
            if entries.into_iter().rev().try_for_each(&mut *each).is_break() || to == i64::MAX {
                return Ok(());
            }
            from = to + 1;
            if is_sparse {
                length = length.saturating_mul(2);
            }
        }
        Ok(())
    }

    fn sample(&self, wanted: &EntrySelection<'_>, question: &RangeQuestion<'_>) -> Result<RangeSamples, EvalError> {
        let (readers, sees) = (SampleReaders::new(question), sees(&self.seen));
        let fold = SampleFold::new(question, wanted, &readers, self.clock, sees.as_deref());
        let mut all = question.start();
        let each = |(_, samples): (EntryMaker, RangeSamples)| {
            question.merge(&mut all, samples);
            Ok(if all.is_refused() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        };
        self.fold(wanted, &fold, each)?;
        // The error of an entry names all of its labels.
        if all.has_failed() { sample_plainly(self, wanted, question) } else { Ok(all) }
    }

    fn count(
        &self,
        wanted: &EntrySelection<'_>,
        apart: CountedApart<'_>,
        memory: &QuestionBudget,
        each: &mut EachCount<'_>,
    ) -> Result<(), EvalError> {
        let sees = sees(&self.seen);
        let fold = CountFold::new(wanted, apart, sees.as_deref(), memory);
        self.fold(wanted, &fold, |counts| match counts.refused() {
            Some(over) => Err(over.into()),
            None => Ok(fold.each(counts, each)),
        })
    }
}

/// Why entries cannot be read.
fn unread(error: TableError) -> EvalError {
    match error {
        TableError::Store(StoreError::NoMemory) => EvalError::Busy(error.to_string()),
        error => EvalError::Source(error.to_string()),
    }
}

#[cfg(test)]
mod program_tests;
#[cfg(test)]
mod tests;
