//! `daytable copy` between a data folder and a service: interrupted, resumed, compared.

use super::stores::embedded;
use crate::azure::emulator::Azurite;
use crate::azure::proxy::Proxy;
use crate::place::{DAYTABLE, PATIENCE, Place, wait_for};
use daytable_model::batch::Batch;
use daytable_model::key::{DayTable, Period, RowKey, TableName};
use daytable_model::record::Record;
use daytable_model::time::now;
use daytable_query::tables::copy::{CopiedTable, CopyError, TableCopy};
use daytable_query::tables::{TableContent, TableStore, whole_table};
use serde_json::Value;
use std::fs;
use std::ops::ControlFlow;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

/// A place with records of three days in its data folder, among them a large record, and a target service.
struct Stage {
    place: Place,
    azurite: Azurite,
    proxy: Proxy,
}

impl Stage {
    fn new(lines: usize) -> Stage {
        let (place, azurite) = (Place::new(), Azurite::start());
        let proxy = Proxy::start(azurite.port);
        let day = Duration::from_secs(86_400);
        let mut text = String::new();
        for n in 0..lines {
            let time = now().minus(day * u32::try_from(n % 3).expect("small") + day);
            let rest = if n == 5 { "large ".repeat(20_000) } else { format!("user_{n} it's \"quoted\" ratio=0.{n}") };
            text.push_str(&format!("{time} error record {n} {rest}\n"));
        }
        fs::write(place.log("a.log"), text).expect("written");
        let log = place.log("a.log").display().to_string();
        place.said("import", &[&log]);
        fs::write(place.path("connection"), proxy.connection_string()).expect("written");
        Stage { place, azurite, proxy }
    }

    fn azure(&self) -> String {
        format!("azure:{}", self.place.path("connection").display())
    }

    fn command(&self, from: &str, to: &str) -> Command {
        let mut copy = Command::new(DAYTABLE);
        copy.args(["copy", "--from", from, "--to", to]).stdin(Stdio::null()).current_dir(self.place.path(""));
        copy
    }

    fn copy(&self, from: &str, to: &str, more: &[&str]) -> Output {
        self.command(from, to).args(more).output().expect("run")
    }

    fn there(&self) -> Output {
        self.copy(&self.place.data().display().to_string(), &self.azure(), &[])
    }
}

fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Every record of a data folder.
fn records(data: &Path) -> Vec<Value> {
    let output = Command::new(DAYTABLE)
        .args(["query", "--json", "-n", "100000", "--data"])
        .arg(data)
        .stdin(Stdio::null())
        .output()
        .expect("run");
    said(&output).lines().map(|line| serde_json::from_str(line).expect("an object a line")).collect()
}

/// Records with their fields sorted by name: a service may order them freely.
fn sorted(mut records: Vec<Value>) -> Vec<String> {
    records.sort_by_key(|record| (record["row_key"].to_string(), record["table"].to_string()));
    let text = |record: Value| {
        let mut fields: Vec<String> =
            record.as_object().expect("an object").iter().map(|(name, value)| format!("{name}={value}")).collect();
        fields.sort();
        fields.join(" ")
    };
    records.into_iter().map(text).collect()
}

#[test]
fn a_folder_goes_to_the_service_and_back_and_is_the_same() {
    // A second inside the three days, at any hour.
    let second = now().minus(Duration::from_secs(2 * 86_400)).to_string();
    let stage = Stage::new(400);
    let copied = said(&stage.there());
    assert_eq!(copied.matches("copied and compared").count(), 3, "{copied}");
    let original = records(&stage.place.data());
    assert_eq!(original.len(), 400);
    let of_service: usize = original
        .iter()
        .map(|record| record["table"].as_str().expect("a table").to_owned())
        .collect::<std::collections::BTreeSet<_>>()
        .iter()
        .map(|table| stage.azurite.read_back(table).len())
        .sum();
    assert!(of_service > 400, "with items: {of_service}");

    // A second copy only lists the tables.
    let before = stage.proxy.asked().len();
    let again = said(&stage.there());
    assert_eq!(again.matches("was copied before").count(), 3, "{again}");
    assert_eq!(stage.proxy.asked().len(), before);

    let back = stage.place.path("back");
    let state = stage.place.path("back.json").display().to_string();
    let to = back.display().to_string();
    let copied = said(&stage.copy(&stage.azure(), &to, &["--state", &state]));
    assert_eq!(copied.matches("copied and compared").count(), 3, "{copied}");
    assert_eq!(sorted(records(&back)), sorted(original));
    // Only one table and a time range.
    let one = stage.place.path("one").display().to_string();
    let state = stage.place.path("one.json").display().to_string();
    let args = ["--state", &state, "--table", "Log", "--since", &second];
    let copied = said(&stage.copy(&stage.azure(), &one, &args));
    assert_eq!(copied.matches("copied and compared").count(), 2, "{copied}");
}

#[test]
fn a_copy_that_is_killed_goes_on() {
    let stage = Stage::new(3000);
    for transactions in [2, 12] {
        let from = stage.place.data().display().to_string();
        let mut copy = stage.command(&from, &stage.azure()).stdout(Stdio::null()).spawn().expect("run");
        let begun = stage.proxy.asked().len();
        wait_for("some is written", PATIENCE, || {
            let written = stage.proxy.asked()[begun..].iter().filter(|asked| asked.is_transaction()).count();
            (written >= transactions).then_some(())
        });
        copy.kill().expect("killed");
        copy.wait().expect("ended");
    }
    said(&stage.there());
    let back = stage.place.path("back");
    let state = stage.place.path("back.json").display().to_string();
    said(&stage.copy(&stage.azure(), &back.display().to_string(), &["--state", &state]));
    assert_eq!(sorted(records(&back)), sorted(records(&stage.place.data())));
}

#[test]
fn what_differs_and_what_is_no_end_is_said() {
    let stage = Stage::new(40);
    said(&stage.there());
    // Another folder's records in the same tables: the comparison finds foreign rows.
    let other = Place::new();
    fs::write(other.log("b.log"), format!("{} info another\n", now().minus(Duration::from_secs(86_400))))
        .expect("written");
    let log = other.log("b.log").display().to_string();
    other.said("import", &[&log]);
    let state = stage.place.path("other.json").display().to_string();
    let from = other.data().display().to_string();
    let output = stage.copy(&from, &stage.azure(), &["--state", &state]);
    assert_eq!(output.status.code(), Some(65), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("is not what was copied"), "{output:?}");
    // The state file of another copy is refused.
    let output = stage.copy(&from, &stage.azure(), &[]);
    assert_eq!(output.status.code(), Some(65), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("--state"), "{output:?}");
    let nowhere = stage.place.path("nowhere").display().to_string();
    assert!(!stage.copy(&nowhere, &stage.azure(), &["--state", &state]).status.success());
}

/// A table that ended recently.
fn yesterday() -> DayTable {
    let time = now().minus(Duration::from_secs(86_400));
    DayTable::at(&TableName::new("Log").expect("a name"), Period::Day, time)
}

/// Writes a record at a given second of the table.
fn put(store: &dyn TableStore, table: &DayTable, partition: &str, second: u64) {
    store.create_table(table).expect("created");
    let mut batch = Batch::new(table.clone(), partition.into());
    let key = RowKey::new(table.start().plus(Duration::from_secs(second)), 7, second);
    let record = Record { message: format!("record {second}").into(), ..Record::default() };
    daytable_model::entity::append(&mut batch, key, "/var/log/app.log", &record);
    store.write(batch).expect("written");
}

fn content(store: &dyn TableStore, table: &DayTable) -> TableContent {
    let mut content = TableContent::default();
    whole_table(store, table).for_each(|row| content.add(&row.expect("read")));
    content
}

/// Two stores, and the state file of the copy.
struct Pair<'a> {
    from: &'a dyn TableStore,
    to: &'a dyn TableStore,
    state: &'a Path,
}

impl Pair<'_> {
    /// Copies like the command.
    fn copy(&self, table: &DayTable, mut on: impl FnMut(&str) -> ControlFlow<()>) -> Result<CopiedTable, CopyError> {
        let mut copy = TableCopy::open(self.from, self.to, ("from", "to"), self.state).expect("a state");
        copy.copy(table, &mut |act, _| on(act))
    }

    /// Pretends that the reading of the table began half a minute before its end.
    fn begin_before_the_end(&self, table: &DayTable) {
        let text = fs::read_to_string(self.state).expect("a state");
        let mut state: Value = serde_json::from_str(&text).expect("JSON");
        let begun = &mut state["tables"][table.to_string()]["begun"];
        assert!(begun.as_i64().is_some_and(|begun| begun >= table.end().get()), "{text}");
        *begun = table.end().minus(Duration::from_secs(30)).get().into();
        fs::write(self.state, state.to_string()).expect("written");
    }

    fn assert_same(&self, table: &DayTable) {
        assert_eq!(content(self.to, table), content(self.from, table));
    }
}

fn go_on(_: &str) -> ControlFlow<()> {
    ControlFlow::Continue(())
}

/// The newest rows come first, so rows written after the start of the reading lie before the rows already read.
#[test]
fn a_table_whose_reading_began_before_its_end_is_copied_anew() {
    let (from, to, place) = (embedded(), embedded(), Place::new());
    let (table, state) = (yesterday(), place.path("state.json"));
    let pair = Pair { from: &*from.store, to: &*to.store, state: &state };
    for second in 0..5 {
        put(pair.from, &table, "a", second);
        put(pair.from, &table, "b", second);
    }
    assert!(!pair.copy(&table, go_on).expect("copied").was_done);
    assert!(pair.copy(&table, go_on).expect("known").was_done);

    // The copy was verified after the end of the table, and read before it.
    pair.begin_before_the_end(&table);
    put(pair.from, &table, "a", 10);
    assert!(!pair.copy(&table, go_on).expect("copied").was_done);
    pair.assert_same(&table);

    // Interrupted, and resumed after the end of the table.
    fs::remove_file(&state).expect("removed");
    let stopped = pair.copy(&table, |_| ControlFlow::Break(()));
    assert!(matches!(stopped, Err(CopyError::Stopped)), "{stopped:?}");
    pair.begin_before_the_end(&table);
    put(pair.from, &table, "a", 20);
    assert!(!pair.copy(&table, go_on).expect("copied").was_done);
    pair.assert_same(&table);
}

/// For example, an outbox still sends to the table.
#[test]
fn a_table_that_grows_while_it_is_copied_is_not_done() {
    let (from, to, place) = (embedded(), embedded(), Place::new());
    let (table, state) = (yesterday(), place.path("state.json"));
    let pair = Pair { from: &*from.store, to: &*to.store, state: &state };
    // A batch is written when the second record of another partition arrives.
    for (partition, second) in [("a", 1), ("b", 1), ("b", 2), ("b", 3)] {
        put(pair.from, &table, partition, second);
    }
    let grown = pair.copy(&table, |act| {
        assert_eq!(act, "copy");
        put(pair.from, &table, "a", 10);
        ControlFlow::Continue(())
    });
    assert!(matches!(grown, Err(CopyError::Grew { .. })), "{grown:?}");
    assert!(!pair.copy(&table, go_on).expect("copied").was_done);
    pair.assert_same(&table);
    assert!(pair.copy(&table, go_on).expect("known").was_done);

    // After the partition that was read at the stop.
    fs::remove_file(&state).expect("removed");
    let stopped = pair.copy(&table, |_| ControlFlow::Break(()));
    assert!(matches!(stopped, Err(CopyError::Stopped)), "{stopped:?}");
    put(pair.from, &table, "a", 20);
    let grown = pair.copy(&table, go_on);
    assert!(matches!(grown, Err(CopyError::Grew { .. })), "{grown:?}");
    assert!(!pair.copy(&table, go_on).expect("copied").was_done);
    pair.assert_same(&table);
}
