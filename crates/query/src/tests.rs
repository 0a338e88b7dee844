//! Queries against a real data folder, compared with a list of all its records.

use super::answer::{AnswerOptions, count_answer};
use super::archived::Archives;
use super::record::StoredRecord;
use super::{Filter, Grouping, RecordFollower, Stores, count, find_record, select};
use crate::tables::Embedded;
use daytable_archive::Access;
use daytable_lifecycle::Executor;
use daytable_logsql::ParsedQuery;
use daytable_model::batch::Batch;
use daytable_model::clock::{ClockChange, ZoneClock};
use daytable_model::key::{DayTable, Period, RowKey, TableName, instance_of};
use daytable_model::record::{Field, Level, Value};
use daytable_model::time::{TICKS_PER_MINUTE, Ticks};
use daytable_store::{Ack, Reader, Store, StoreOptions, Submission, Thresholds};
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

/// Records of three days and three partitions, two of them buckets of one instance; one in 50 is too large for an
/// entity, and every tenth is late by a day.
const RECORDS: u64 = 600;
const PARTITIONS: [&str; 3] = ["web-17", "db~00", "db~01"];

fn noon() -> Ticks {
    Ticks::from_date(2026, 11, 21).expect("a date").plus(Duration::from_secs(12 * 3600))
}

/// Table, partition, key, level and message of record `n`.
fn record(n: u64) -> (DayTable, &'static str, RowKey, Option<Level>, String) {
    let came = noon().plus(Duration::from_secs(n * 257));
    let table = DayTable::at(&TableName::new("Log").expect("a name"), Period::Day, came);
    let time = if n % 10 == 3 { came.minus(Duration::from_secs(86_400)) } else { came };
    let level = Level::from_code(u8::try_from(n % 10).expect("small"));
    let message = if n % 50 == 7 { format!("large {n} {}", "x".repeat(100_000)) } else { format!("record {n}.") };
    (table, PARTITIONS[usize::try_from(n % 3).expect("small")], RowKey::new(time, 7, n), level, message)
}

fn batch(n: u64) -> Batch {
    let (table, partition, key, level, message) = record(n);
    let mut batch = Batch::new(table, partition.into());
    let field = Field { name: "note".into(), value: Value::String(format!("note-{n}-").into()) };
    let record =
        daytable_model::record::Record { level, message: message.into(), fields: vec![field], ..Default::default() };
    daytable_model::entity::append(&mut batch, key, "/var/log/app.log", &record);
    batch
}

pub(crate) struct Folder {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) store: Store,
}

impl Folder {
    pub(crate) fn new() -> Folder {
        Folder::with(Thresholds::default())
    }

    pub(crate) fn with(compaction: Thresholds) -> Folder {
        let dir = tempfile::tempdir().expect("a folder");
        let options = StoreOptions { commit_interval: Duration::from_millis(1), compaction, ..StoreOptions::default() };
        let store = Store::open(dir.path(), options).expect("opened");
        Folder { dir, store }
    }

    pub(crate) fn commit(&self, batches: Vec<Batch>) {
        let (told, hears) = std::sync::mpsc::channel();
        let done = Ack::new(move |committed| told.send(committed).expect("heard"));
        let intake = self.store.commit_queue();
        let submission = Submission { batches, epoch: intake.epoch(), ack: done, ..Submission::default() };
        intake.submit(submission).expect("taken");
        assert!(hears.recv().expect("told"));
    }

    /// All records, in several commits.
    fn full() -> Folder {
        let folder = Folder::new();
        for from in (0..RECORDS).step_by(150) {
            folder.commit((from..from + 150).map(batch).collect());
        }
        folder
    }

    pub(crate) fn reader(&self) -> Reader {
        Reader::open(self.dir.path()).expect("opened")
    }
}

/// A data folder that is all there is.
fn alone(reader: &Reader) -> Stores<'_> {
    Stores::local(reader, &Archives::Skip)
}

fn selected(stores: &Stores<'_>, filter: &Filter) -> Vec<StoredRecord> {
    let mut records = Vec::new();
    let each = |record| {
        records.push(record);
        ControlFlow::Continue(())
    };
    select(stores, filter, each).expect("read");
    records
}

/// The numbers of the records that `filter` wants, newest first.
fn expected(filter: &Filter) -> Vec<u64> {
    let mut all: Vec<_> = (0..RECORDS).map(|n| (record(n), n)).collect();
    all.retain(|((_, partition, key, level, message), n)| {
        let instance = instance_of(partition).0;
        let text = format!("{message}\nnote-{n}-");
        filter.instance.as_ref().is_none_or(|wanted| *wanted == instance)
            && filter.since.is_none_or(|since| key.time() >= since)
            && filter.until.is_none_or(|until| key.time() < until)
            && (filter.level.is_none() || *level >= filter.level)
            && filter.contains.as_ref().is_none_or(|wanted| text.contains(wanted))
    });
    all.sort_by_key(|((_, _, key, ..), _)| *key);
    let limit = usize::try_from(filter.limit.unwrap_or(u64::MAX)).unwrap_or(usize::MAX);
    all.into_iter().map(|(_, n)| n).take(limit).collect()
}

fn filters() -> Vec<Filter> {
    let filter = Filter::default();
    let at = |seconds| Some(noon().plus(Duration::from_secs(seconds)));
    vec![
        filter.clone(),
        Filter { instance: Some("web-17".into()), ..filter.clone() },
        Filter { instance: Some("db".into()), limit: Some(10), ..filter.clone() },
        Filter { instance: Some("d".into()), ..filter.clone() },
        Filter { level: Some(Level::Error), since: at(257 * 100), ..filter.clone() },
        Filter { since: at(257 * 50), until: at(257 * 400), ..filter.clone() },
        Filter { since: at(257 * 50), until: at(257 * 50), ..filter.clone() },
        Filter { contains: Some("record 25".into()), ..filter.clone() },
        Filter { contains: Some("note-57-".into()), ..filter.clone() },
        Filter { contains: Some("large".into()), level: Some(Level::Critical), ..filter.clone() },
        Filter { until: at(40_000), limit: Some(1), ..filter.clone() },
        Filter { limit: Some(0), ..filter },
    ]
}

#[test]
fn queries_agree_with_a_list_of_all_records() {
    check_queries(&alone(&Folder::full().reader()));
}

fn check_queries(stores: &Stores<'_>) {
    for filter in filters() {
        let records = selected(stores, &filter);
        let numbers: Vec<u64> = records.iter().map(|record| record.row_key.position()).collect();
        assert_eq!(numbers, expected(&filter), "{filter:?}");
        for found in records {
            let (table, partition, key, level, message) = record(found.row_key.position());
            assert_eq!((&*found.table, &*found.partition_key), (table.to_string().as_str(), partition));
            assert_eq!((found.row_key, found.level), (key, level));
            assert!(found.message == message, "record {} has its message whole", key.position());
        }
    }
}

#[test]
fn counts_are_those_of_the_records() {
    check_counts(&alone(&Folder::full().reader()));
}

fn check_counts(stores: &Stores<'_>) {
    let steps =
        [None, Some(Duration::from_secs(3600)), Some(Duration::from_secs(90)), Some(Duration::from_secs(86_400))];
    // Clocks that are put back by an hour amid the records: a day of 25 hours.
    let change = |from, hours: i64| ClockChange { from, ahead: hours * 60 * TICKS_PER_MINUTE };
    let changed = noon().plus(Duration::from_secs(13 * 3600));
    let clocks = [ZoneClock::default(), ZoneClock::new(vec![change(Ticks::MIN, 2), change(changed, 1)].leak())];
    // A query that every record matches is answered by columns, and not by the numbers of pages.
    let all = ParsedQuery::parse("note:*").expect("a query");
    for filter in filters() {
        let groupings = steps.into_iter().flat_map(|every| [(every, false), (every, true)]);
        for ((every, by), clock) in groupings.flat_map(|grouping| clocks.map(|clock| (grouping, clock))) {
            let grouping = Grouping { level: by, instance: by, every, clock };
            let mut wanted: BTreeMap<_, u64> = BTreeMap::new();
            for n in expected(&Filter { limit: None, ..filter.clone() }) {
                let (_, partition, key, level, _) = record(n);
                let start = every.map(|every| clock.step_start(key.time(), every).unix_seconds());
                *wanted.entry((start, by.then_some(level), by.then(|| instance_of(partition).0))).or_default() += 1;
            }
            if grouping.is_one_number() {
                wanted.entry((None, None, None)).or_default();
            }
            let wanted: Vec<_> = wanted.into_iter().collect();
            let options = AnswerOptions { filter: filter.clone(), ..AnswerOptions::at(Ticks::MAX) };
            let by_numbers = count(stores, &filter, grouping).expect("counted").0;
            let by_columns = count_answer(stores, &all, &options, grouping, &|| true).expect("counted").0;
            for counted in [by_numbers, by_columns] {
                let counted: Vec<_> = counted
                    .into_iter()
                    .map(|c| ((c.time.map(Ticks::unix_seconds), c.level, c.instance), c.records))
                    .collect();
                assert_eq!(counted, wanted, "{filter:?} {grouping:?}");
            }
        }
    }
}

#[test]
fn a_record_is_found_by_its_three_keys_and_whole() {
    check_keys(&alone(&Folder::full().reader()));
}

fn check_keys(stores: &Stores<'_>) {
    for n in [7, 8] {
        let (table, partition, key, _, message) = record(n);
        let found = find_record(stores, &table, partition, key).expect("read").0.expect("there");
        assert!(found.message == message && found.row_key == key, "record {n}");
        assert_eq!(find_record(stores, &table, "nowhere", key).expect("read").0, None);
        let later = table.next().next().next().next();
        assert_eq!(find_record(stores, &later, partition, key).expect("read").0, None);
    }
}

#[test]
fn a_follower_returns_later_commits_once() {
    let folder = Folder::new();
    folder.commit((0..100).map(batch).collect());
    let reader = folder.reader();
    let filter = Filter { instance: Some("db".into()), ..Filter::default() };
    let mut follower = RecordFollower::from_now(&reader, filter.clone()).expect("followed");
    let mut limited =
        RecordFollower::from_now(&reader, Filter { limit: Some(3), ..Filter::default() }).expect("followed");
    let mut wanted = expected(&filter);
    wanted.retain(|n| *n >= 100);
    wanted.sort();

    let mut numbers = Vec::new();
    let step = |follower: &mut RecordFollower| {
        let mut step = Vec::new();
        let flow = follower.step(&reader, |record| {
            let (.., message) = self::record(record.row_key.position());
            assert!(record.message == message, "the record is whole");
            step.push(record.row_key.position());
            ControlFlow::Continue(())
        });
        (flow.expect("read"), step)
    };
    assert_eq!(step(&mut follower), (ControlFlow::Continue(()), vec![]));
    for from in [100, 400] {
        folder.commit((from..(from + 300).min(RECORDS)).map(batch).collect());
        numbers.extend(step(&mut follower).1);
    }
    numbers.sort();
    assert_eq!(numbers, wanted);
    let (flow, first) = step(&mut limited);
    assert_eq!((flow, first.len()), (ControlFlow::Break(()), 3));
    assert_eq!(step(&mut limited), (ControlFlow::Break(()), vec![]));
}

#[test]
fn a_table_that_is_dropped_has_no_more_rows() {
    let folder = Folder::full();
    let reader = folder.reader();
    let (first, ..) = record(0);
    let mut seen = Vec::new();
    let each = |record: StoredRecord| {
        if seen.is_empty() {
            folder.store.steps().drop_table(&first).expect("dropped");
        }
        seen.push(record.row_key.position());
        ControlFlow::Continue(())
    };
    select(&alone(&reader), &Filter::default(), each).expect("read on");
    let mut wanted = expected(&Filter::default());
    wanted.retain(|n| record(*n).0 != first);
    assert_eq!(seen, wanted);
}

/// A table is listed, then archived and dropped before it is opened: it answers from its archive, and nothing is missing.
#[test]
fn a_table_that_is_archived_and_dropped_meanwhile_is_read_from_its_archive() {
    for instance in [None, Some("db".to_owned())] {
        let folder = Folder::full();
        let reader = folder.reader();
        let (oldest, ..) = record(0);
        let place = tempfile::tempdir().expect("a folder");
        let url = format!("file://{}", place.path().display());
        let filter = Filter { instance, ..Filter::default() };
        let mut seen = Vec::new();
        let each = |record: StoredRecord| {
            if seen.is_empty() {
                let steps = folder.store.steps();
                let executor = Executor::new(steps, folder.dir.path().into(), Access::default(), Arc::default());
                executor.archive_now(&oldest, Some(&url), &mut |_| {}).expect("archived");
                folder.store.steps().drop_table(&oldest).expect("dropped");
            }
            seen.push(record.row_key.position());
            ControlFlow::Continue(())
        };
        let told = select(&Stores::local(&reader, &Archives::Read(Access::default())), &filter, each).expect("read on");
        assert_eq!(seen, expected(&filter));
        assert_eq!(told.archived.into_iter().collect::<Vec<_>>(), [oldest.to_string()]);
    }
}

/// A folder whose first records were sent to another folder, with some of them still in both; and that other folder.
fn sent() -> (Folder, Folder) {
    let (here, afar) = (Folder::new(), Folder::new());
    for from in (0..RECORDS).step_by(50) {
        let batches = || (from..from + 50).map(batch).collect();
        if from < RECORDS / 2 + 50 || from % 100 == 0 {
            afar.commit(batches());
        }
        if from >= RECORDS / 2 || from % 150 == 0 {
            here.commit(batches());
        }
    }
    (here, afar)
}

#[test]
fn sent_and_unsent_records_are_merged() {
    let (here, afar) = sent();
    let (reader, remote) = (here.reader(), Embedded::open_to_read(afar.dir.path()).expect("opened"));
    let stores = Stores { remote: Some(&remote), ..alone(&reader) };
    check_queries(&stores);
    check_counts(&stores);
    check_keys(&stores);
}

/// During the read, all waiting rows are sent and removed from the folder.
#[test]
fn records_sent_during_the_read_are_returned_once() {
    let cases = filters().into_iter().flat_map(|filter| [0, 1, 70].map(|after| (filter.clone(), after)));
    // Otherwise the read ends before anything is sent.
    for (filter, after) in cases.filter(|(filter, after)| expected(filter).len() > *after) {
        let (here, afar) = sent();
        let (reader, remote) = (here.reader(), Embedded::open_to_read(afar.dir.path()).expect("opened"));
        let stores = Stores { remote: Some(&remote), ..alone(&reader) };
        let mut seen = Vec::new();
        let each = |record: StoredRecord| {
            if seen.len() == after {
                afar.commit((0..RECORDS).map(batch).collect());
                let steps = here.store.steps();
                for (table, _) in here.reader().table_times().expect("read") {
                    steps.drop_table(&table).expect("dropped");
                }
            }
            seen.push(record.row_key.position());
            ControlFlow::Continue(())
        };
        select(&stores, &filter, each).expect("read on");
        assert_eq!(seen, expected(&filter), "{filter:?} after {after}");
    }
}
