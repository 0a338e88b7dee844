//! The conformance suite of table stores.

use super::stores::all;
use daytable_model::batch::Batch;
use daytable_model::key::{DayTable, RowKey, partition_key};
use daytable_model::property::Property;
use daytable_model::record::{Field, Level, Record, Value};
use daytable_model::time::Ticks;
use daytable_query::tables::rebatch::Rebatcher;
use daytable_query::tables::{
    OwnedRow, Projection, RangeQuery, RowOrder, TableContent, TableStore, wanted_rows, whole_table,
};
use std::time::Duration;

fn table(day: u32) -> DayTable {
    DayTable::parse(&format!("Log202611{day:02}")).expect("a day-table")
}

fn noon() -> Ticks {
    Ticks::from_date(2026, 11, 21).expect("a date").plus(Duration::from_secs(12 * 3600))
}

/// The key of record `n`. There are three records a second.
fn key(n: u64) -> RowKey {
    RowKey::new(noon().plus(Duration::from_secs(n / 3)), 7, n)
}

/// A batch of one record, of 100 KB where `is_large`.
fn batch(partition: &str, n: u64, is_large: bool) -> Batch {
    let mut batch = Batch::new(table(21), partition.into());
    let message = if is_large { "x\u{1}é".repeat(30_000) } else { format!("it's record {n}") };
    let level = Level::ALL.get(usize::try_from(n % 10).expect("small")).copied();
    let field = |name: &'static str, value| Field { name: name.into(), value };
    let fields = vec![
        field("n", Value::Int64(n.cast_signed())),
        field("ratio", Value::Double(n as f64 / 3.0)),
        field("whole", Value::Double(n as f64)),
        field("up", Value::Boolean(n.is_multiple_of(2))),
        field("empty", Value::String("".into())),
        field("raw", Value::Binary(vec![0, 255, 10].into())),
    ];
    let record = Record { level, message: message.into(), fields, ..Record::default() };
    daytable_model::entity::append(&mut batch, key(n), "/var/log/app.log", &record);
    batch
}

/// Writes like a copy: in batches of one partition.
fn write(store: &dyn TableStore, rows: impl IntoIterator<Item = OwnedRow>) {
    let mut gather = Rebatcher::new(table(21));
    let mut batches: Vec<Batch> = rows.into_iter().filter_map(|row| gather.push(row)).collect();
    batches.extend(gather.finish());
    batches.into_iter().for_each(|batch| store.write(batch).expect("written"));
}

/// The rows of a batch.
fn rows_of(batch: &Batch) -> Vec<OwnedRow> {
    let of = |row: daytable_model::batch::RowRef<'_>| OwnedRow {
        partition: batch.partition.clone(),
        key: row.key,
        level: row.level,
        properties: row
            .properties()
            .map(|(name, v)| (batch.names()[usize::from(name)].to_string(), v.into()))
            .collect(),
    };
    batch.rows().map(of).collect()
}

/// Rows of three partitions, in table order, with difficult names.
fn corpus() -> Vec<OwnedRow> {
    let names = [partition_key("db", Some(0)), partition_key("it's (a) \"é\"", None), partition_key("web-17", None)];
    let mut rows = Vec::new();
    for name in names {
        let mut of_partition: Vec<OwnedRow> = (0..130).flat_map(|n| rows_of(&batch(&name, n, n % 60 == 7))).collect();
        of_partition.sort_by_key(|row| row.key);
        rows.extend(of_partition);
    }
    rows
}

/// A row with its properties sorted by name: a service may order them freely.
fn sorted(mut rows: Vec<OwnedRow>) -> Vec<OwnedRow> {
    rows.iter_mut().for_each(|row| row.properties.sort_by(|(a, _), (b, _)| a.cmp(b)));
    rows
}

fn content(rows: &[OwnedRow]) -> TableContent {
    let mut content = TableContent::default();
    rows.iter().for_each(|row| content.add(row));
    content
}

fn read(store: &dyn TableStore, wanted: &RangeQuery) -> Vec<OwnedRow> {
    wanted_rows(store, &table(21), wanted).collect::<Result<_, _>>().expect("read")
}

#[test]
fn tables_are_created_listed_and_dropped() {
    for tested in all() {
        let (store, name) = (&*tested.store, tested.name);
        assert_eq!(store.tables().expect("listed"), [], "{name}");
        assert!(store.create_table(&table(21)).expect("created"), "{name}");
        assert!(!store.create_table(&table(21)).expect("there"), "{name}");
        assert!(store.create_table(&table(20)).expect("created"), "{name}");
        let mut tables = store.tables().expect("listed");
        tables.sort();
        assert_eq!(tables, [table(20), table(21)], "{name}");
        assert!(store.drop_table(&table(21)).expect("dropped"), "{name}");
        assert!(!store.drop_table(&table(21)).expect("gone"), "{name}");
        assert_eq!(store.tables().expect("listed"), [table(20)], "{name}");
        // A missing table is a distinct error for readers and writers.
        let wanted = RangeQuery::all_of("web".into());
        assert!(store.read_range(&table(21), &wanted, None).expect_err(name).is_not_there());
        assert!(store.read_table(&table(21), None).expect_err(name).is_not_there());
        assert!(store.partitions(&table(21), None).expect_err(name).is_not_there());
        assert!(store.write(batch("web", 1, false)).expect_err(name).is_not_there());
    }
}

#[test]
fn a_whole_table_comes_by_its_keys_and_whole() {
    let rows = corpus();
    for tested in all() {
        let (store, name) = (&*tested.store, tested.name);
        store.create_table(&table(21)).expect("created");
        write(store, rows.clone());
        let read: Vec<OwnedRow> = whole_table(store, &table(21)).collect::<Result<_, _>>().expect("read");
        assert!(sorted(read.clone()) == sorted(rows.clone()), "{name}: {} of {}", read.len(), rows.len());
        assert_eq!(content(&read), content(&rows), "{name}");
        let mut partitions: Vec<_> = rows.iter().map(|row| row.partition.clone()).collect();
        partitions.dedup();
        assert_eq!(store.partitions(&table(21), None).expect("listed"), partitions, "{name}");
        let of_db = store.partitions(&table(21), Some("db")).expect("listed");
        assert!(of_db.iter().any(|of| **of == *"db~00") && of_db.iter().all(|of| of.starts_with("db")), "{of_db:?}");
    }
}

#[test]
fn written_again_it_changes_nothing_and_what_is_newer_counts() {
    for tested in all() {
        let (store, name) = (&*tested.store, tested.name);
        store.create_table(&table(21)).expect("created");
        let wanted = RangeQuery::all_of("web".into());
        for _ in 0..2 {
            store.write(batch("web", 1, false)).expect("written");
        }
        let once = read(store, &wanted);
        assert_eq!(sorted(once.clone()), sorted(rows_of(&batch("web", 1, false))), "{name}");
        let mut other = Batch::new(table(21), "web".into());
        let mut row = other.begin(key(1), None);
        row.add("Message", Property::String("another"));
        row.finish();
        let other_rows = rows_of(&other);
        store.write(other).expect("written");
        assert_eq!(read(store, &wanted), other_rows, "{name}: nothing of the row before is left");
    }
}

#[test]
fn a_range_of_a_partition_comes_newest_first_and_oldest_first() {
    let rows = corpus();
    for tested in all() {
        let (store, name) = (&*tested.store, tested.name);
        store.create_table(&table(21)).expect("created");
        write(store, rows.clone());
        let at = |seconds| noon().plus(Duration::from_secs(seconds));
        for (from, to) in [(Ticks::MIN, Ticks::MAX), (at(5), at(20)), (at(7), at(7)), (at(99), at(100))] {
            for (order, page) in
                [(RowOrder::NewestFirst, 1000), (RowOrder::NewestFirst, 7), (RowOrder::OldestFirst, 1000)]
            {
                let wanted = RangeQuery { from, to, order, rows: page, ..RangeQuery::all_of("web-17".into()) };
                let is_wanted = |row: &&OwnedRow| *row.partition == *"web-17" && (from..=to).contains(&row.key.time());
                let mut expected: Vec<RowKey> = rows.iter().filter(is_wanted).map(|row| row.key).collect();
                if order == RowOrder::OldestFirst {
                    expected.reverse();
                }
                let keys: Vec<RowKey> = read(store, &wanted).iter().map(|row| row.key).collect();
                assert_eq!(keys, expected, "{name} {from}..{to} {order:?} {page}");
            }
        }
        // Keys and levels alone.
        let wanted = RangeQuery { columns: Projection::Keys, ..RangeQuery::all_of("web-17".into()) };
        let of = |rows: &[OwnedRow]| -> Vec<_> {
            rows.iter().filter(|row| *row.partition == *"web-17").map(|row| (row.key, row.level)).collect()
        };
        assert_eq!(of(&read(store, &wanted)), of(&rows), "{name}");
    }
}

#[test]
fn of_a_level_no_record_is_left_out_and_none_comes_in_part() {
    let rows = corpus();
    for tested in all() {
        let (store, name) = (&*tested.store, tested.name);
        store.create_table(&table(21)).expect("created");
        write(store, rows.clone());
        for level in [Level::Trace, Level::Warn, Level::Alert] {
            let wanted = RangeQuery { level: Some(level), ..RangeQuery::all_of("web-17".into()) };
            let read = read(store, &wanted);
            let is_of = |key: RowKey| {
                let master = rows.iter().find(|row| *row.partition == *"web-17" && row.key == key.with_item(0));
                master.is_some_and(|master| master.level >= Some(level))
            };
            let expected: Vec<RowKey> =
                rows.iter().filter(|row| *row.partition == *"web-17" && is_of(row.key)).map(|row| row.key).collect();
            // A store may return further rows.
            let keys: Vec<RowKey> = read.iter().map(|row| row.key).filter(|key| is_of(*key)).collect();
            assert_eq!(keys, expected, "{name} {level:?}");
        }
    }
}
