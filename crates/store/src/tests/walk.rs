//! A walk passes the rows of a scan, each once, from pages and files of any kind.

use super::*;
use crate::{EveryPart, NeedsKeys, Part, PartFilter, PartVisitor, RowChooser};
use daytable_model::property::Property;
use daytable_model::record::{Field, Value};
use daytable_model::row_set::RowSet;
use proptest::prelude::*;
use rusqlite::Connection;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Collects the records by rows and by columns.
struct Gather;

type Gathered = Vec<(String, RowKey, Option<Level>, String)>;

impl PartVisitor for Gather {
    type State = (Gathered, Gathered);

    fn start(&self) -> Self::State {
        Default::default()
    }

    fn filter(&self) -> &dyn PartFilter {
        &EveryPart
    }

    fn read(&self, state: &mut Self::State, part: &mut Part<'_>) -> Result<ControlFlow<()>, StoreError> {
        let Some(batch) = part.batch()? else { return Ok(ControlFlow::Continue(())) };
        let records = batch.records();
        state.0.extend(batch.rows(records)?.iter().map(plain));
        let mut of_columns: BTreeMap<usize, (String, RowKey, Option<Level>, String)> = BTreeMap::new();
        let (mut names, keys) = (Vec::new(), batch.keys()?);
        let mut of_rows = Vec::new();
        let read = |partition: &str| {
            names.push(partition.to_owned());
            names.len() - 1
        };
        batch.each_partition(records, read, |row, name| of_rows.push((row, name)));
        for (row, name) in of_rows {
            of_columns.insert(row, (names[name].clone(), keys[row], None, String::new()));
        }
        batch.each_level(records, |row, code| {
            of_columns.get_mut(&row).expect("a row").2 = Level::from_code(code);
        })?;
        batch.each_time(records, |row, time| assert_eq!(of_columns[&row].1.time(), time))?;
        for column in batch.columns(|name, _| name == "Message")? {
            let mut texts = Vec::new();
            let number = |value: Property<'_>| {
                texts.push(value.text_of_test());
                texts.len() - 1
            };
            let mut of_rows = Vec::new();
            column.map(records, number, |row, text| of_rows.push((row, text)));
            of_rows
                .into_iter()
                .for_each(|(row, text)| of_columns.get_mut(&row).expect("a row").3 = texts[text].clone());
        }
        state.1.extend(of_columns.into_values());
        Ok(ControlFlow::Continue(()))
    }
}

/// Collects the texts of one column, which is read alone.
struct OneColumn(&'static str);

impl PartVisitor for OneColumn {
    type State = Vec<String>;

    fn start(&self) -> Vec<String> {
        Vec::new()
    }

    fn filter(&self) -> &dyn PartFilter {
        &EveryPart
    }

    fn read(&self, state: &mut Vec<String>, part: &mut Part<'_>) -> Result<ControlFlow<()>, StoreError> {
        let is_it = |name: &str, _| name == self.0;
        let Some(batch) = part.batch_of(is_it, NeedsKeys::No, |_| Ok(true))? else {
            return Ok(ControlFlow::Continue(()));
        };
        for column in batch.columns(is_it)? {
            let mut texts = Vec::new();
            column.map(batch.records(), |value| texts.push(value.text_of_test()), |_, ()| {});
            state.append(&mut texts);
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// What is apart in a page is missed by those alone who need it, and by whoever reads the page: they get an error, and no rows
/// without it.
#[test]
fn a_section_that_is_lost_harms_who_needs_it() {
    let folder = Folder::new();
    let store = folder.open();
    let mut batch = Batch::new(table(day(0)), "web-1".into());
    let text = |n: u64, of: u64| {
        format!("{:032x}", (u128::from(n) << 8 | u128::from(of)).wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c))
    };
    for n in 0..1_000 {
        let (one, other) = (text(n, 1), text(n, 2));
        let field = |name: &'static str, value| Field { name: name.into(), value };
        let fields = vec![field("one", Value::String(one.into())), field("other", Value::String(other.into()))];
        let record = Record { message: "both".into(), fields, ..Record::default() };
        daytable_model::entity::append(&mut batch, RowKey::new(day(0).plus(seconds(n)), SOURCE, n), "app.log", &record);
    }
    assert!(commit(&store, vec![batch], 1));
    store.close().expect("closed");
    let read = |folder: &Folder, column: &'static str| {
        let walked = folder.reader().walk(&table(day(0)), &Range::all(), 1, &|| true, &OneColumn(column));
        walked.map(|found| found.expect("by columns").concat())
    };
    let whole = ["one", "other"].map(|column| read(&folder, column).expect("whole"));
    assert_eq!(whole.each_ref().map(Vec::len), [1_000, 1_000]);
    for change in ["DELETE FROM body", "UPDATE body SET bytes = zeroblob(length(bytes))"] {
        let harmed = copy_of(&folder, |_| true);
        let file = Connection::open(harmed.file(day(0))).expect("opened");
        // The last column is in the last section.
        let changed = file.execute(&format!("{change} WHERE id = (SELECT max(id) FROM body WHERE id % 4096 > 0)"), []);
        assert_eq!(changed.expect("changed"), 1);
        drop(file);
        assert_eq!(read(&harmed, "one").expect("its own section is whole"), whole[0], "{change}");
        let error = read(&harmed, "other").expect_err(change);
        assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
        let rows =
            harmed.reader().scan(&table(day(0)), &Range::all()).and_then(|rows| rows.collect::<Result<Vec<_>, _>>());
        assert!(matches!(rows, Err(StoreError::Damaged { .. })), "{change}");
        assert_eq!(addresses::faults(&harmed, day(0)).len(), 1, "{change}");
    }
}

trait TextOfTest {
    fn text_of_test(&self) -> String;
}

impl TextOfTest for Property<'_> {
    fn text_of_test(&self) -> String {
        match self {
            Property::String(text) => (*text).to_owned(),
            other => format!("{other:?}"),
        }
    }
}

fn plain(row: &Row) -> (String, RowKey, Option<Level>, String) {
    let mut text = String::new();
    row.each_property(|name, value| {
        if name == "Message" {
            text = value.text_of_test();
        }
    });
    (row.partition.to_string(), row.key(), row.level(), text)
}

/// Chooses rows whose message has the letters "ee".
struct WithNeedle;

impl RowChooser for WithNeedle {
    fn choose(&self, batch: &ColumnBatch) -> Result<RowSet, StoreError> {
        let mut found = RowSet::none(batch.len());
        let needle = daytable_model::needle::Needle::new("ee");
        for column in batch.columns(|name, _| name == "Message")? {
            column.add_containing(&needle, batch.records(), &mut found);
        }
        Ok(found)
    }
}

/// A row: the second of the day, the partition, and whether its text has the needle.
type Written = BTreeMap<(u64, bool), bool>;

fn write_rows(store: &Store, rows: &Written, number: u64) {
    let batches = [(false, "web-1"), (true, "web-2")].map(|(second, partition)| {
        let mut batch = Batch::new(table(day(0)), partition.into());
        for ((n, _), has_text) in rows.iter().filter(|((_, of), _)| *of == second) {
            let level = Level::from_code((n % 4) as u8);
            let message = format!("{} {n}", if *has_text { "needle" } else { "hay" });
            let record = Record { level, message: message.into(), ..Record::default() };
            let key = RowKey::new(day(0).plus(seconds(*n)), SOURCE, 2 * n + u64::from(second));
            daytable_model::entity::append(&mut batch, key, "/var/log/app.log", &record);
        }
        batch
    });
    let batches: Vec<Batch> = batches.into_iter().filter(|batch| !batch.is_empty()).collect();
    assert!(batches.is_empty() || commit(store, batches, number));
}

fn commits(most: usize) -> impl Strategy<Value = Vec<Written>> {
    let row = ((0u64..24, any::<bool>()), any::<bool>());
    proptest::collection::vec(
        proptest::collection::vec(row, 0..20).prop_map(|rows| rows.into_iter().collect()),
        1..most,
    )
}

/// A walk with `threads` threads passes the rows of a scan, and a scan with a chooser passes the chosen ones.
fn compare(reader: &Reader, range: &Range, threads: usize) {
    let Ok(scan) = reader.scan(&table(day(0)), range) else { return };
    let mut whole: Gathered = scan.map(|row| plain(&row.expect("a row"))).collect();
    let chosen = Range { chooser: Some(Arc::new(WithNeedle)), ..range.clone() };
    let chosen = reader.scan(&table(day(0)), &chosen).expect("a table");
    let chosen: Gathered = chosen.map(|row| plain(&row.expect("a row"))).collect();
    // A row of a later file is always passed: it may be the newer version of another.
    let chosen: Gathered = chosen.into_iter().filter(|row| row.3.contains("ee")).collect();
    let with_text: Gathered = whole.iter().filter(|row| row.3.contains("ee")).cloned().collect();
    assert_eq!(chosen, with_text);
    let walked = reader.walk(&table(day(0)), range, threads, &|| true, &Gather).expect("a walk").expect("by columns");
    let (rows, columns): (Vec<_>, Vec<_>) = walked.into_iter().unzip();
    let (mut rows, mut columns) = (rows.concat(), columns.concat());
    for found in [&mut whole, &mut rows, &mut columns] {
        found.sort();
    }
    assert_eq!(rows, whole);
    assert_eq!(columns, whole);
    let code = |level: Option<Level>| level.map_or(0, Level::code);
    let mut expected = [0; 1 + Level::ALL.len()];
    whole.iter().for_each(|row| expected[usize::from(code(row.2))] += 1);
    for by in [CountBy::Partition, CountBy::Nothing] {
        let mut counted = [0; 1 + Level::ALL.len()];
        let mut add = |count: MinuteCount| counted[usize::from(code(count.level))] += count.records;
        reader.counts_by(&table(day(0)), range, by, &mut add).expect("counted");
        assert_eq!(counted, expected, "{by:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// Whatever was committed, committed again, sealed, and came late.
    #[test]
    fn a_walk_passes_the_rows_of_a_scan(
        before in commits(5), after in commits(3), is_sealed in any::<bool>(), ends in any::<[u8; 2]>(), threads in 1usize..3,
    ) {
        let folder = Folder::new();
        let store = folder.open();
        let mut number = 0;
        for rows in &before {
            number += 1;
            write_rows(&store, rows, number);
        }
        let mut ends = ends.map(|end| u64::from(end % 26));
        ends.sort_unstable();
        let some = Range { from: day(0).plus(seconds(ends[0])), to: day(0).plus(seconds(ends[1])), ..Range::all() };
        let one = Range { partitions: Some(vec!["web-2".into()]), ..Range::all() };
        if is_sealed && before.iter().any(|rows| !rows.is_empty()) {
            lives::seal(&store, day(0));
            for rows in &after {
                number += 1;
                write_rows(&store, rows, number);
            }
        }
        let reader = folder.reader();
        for range in [Range::all(), some, one] {
            compare(&reader, &range, threads);
        }
    }
}
