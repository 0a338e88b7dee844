//! Days that are only in an archive answer queries like local days, with the real binary.

use super::stores::Store;
use super::stub::Stub;
use crate::client;
use crate::place::{Daemon, PATIENCE, Place, numbered, wait_for};
use daytable_archive::ArchivedDay;
use daytable_model::key::{DayTable, Period, TableName};
use daytable_model::time::now;
use daytable_store::Range;
use daytable_store::sealed::{Manifest, SealedFile};
use serde_json::Value;
use std::fs;
use std::ops::ControlFlow;
use std::process::Output;
use std::sync::Arc;
use std::time::Duration;

const HOUR: Duration = Duration::from_secs(3600);
const RECORDS: usize = 3000;

/// Hours are sealed and archived as soon as they are over, and dropped after `keep`.
fn config(store: &Store, keep: &str) -> String {
    let path = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
    let mut access = format!("[archives]\nallow_http = {}\n", store.access.allow_http);
    for (key, value) in [
        ("s3_endpoint", store.access.s3_endpoint.clone()),
        ("s3_region", store.access.s3_region.clone()),
        ("s3_credentials_file", path(&store.access.s3_credentials_file)),
        ("azure_connection_string_file", path(&store.access.azure_connection_string_file)),
    ] {
        access.extend(value.map(|value| format!("{key} = \"{value}\"\n")));
    }
    format!(
        "{access}[lifecycle]\nschedule = \"* * * * * *\"\ngrace = \"0s\"\nseal_after = \"0s\"\nmin_tables = 0\n\
         [[table]]\nname = \"Log\"\nkeep = \"{keep}\"\nperiod = \"hour\"\narchive = \"{}\"\n\
         [[tail]]\ninclude = [\"LOGS/*.log\"]\ninstance = \"{{stem}}\"\n",
        store.url
    )
}

/// Writes records of two instances in a long past hour, one of them too large for an entity. Returns the table.
fn write_old(place: &Place) -> DayTable {
    let start = Period::Hour.start(now().minus(5 * HOUR));
    for instance in ["web", "db"] {
        let line = |(at, message): (u64, String)| {
            let level = ["INFO", "WARN", "ERROR"][usize::try_from(at % 3).expect("small")];
            format!("{} {level} {message} of {instance} took={at}", start.plus(Duration::from_millis(at * 1000)))
        };
        let mut lines: Vec<String> = (0..).zip(numbered("old", RECORDS / 2)).map(line).collect();
        lines[7].push_str(&"x".repeat(100_000));
        place.write(&format!("{instance}.log"), &lines);
    }
    place.write("now.log", &[format!("{} INFO young", now())]);
    DayTable::at(&TableName::new("Log").expect("a name"), Period::Hour, start)
}

/// The answers to several queries.
fn answers(place: &Place, args: &[&str]) -> Vec<Vec<Value>> {
    let asked: [(&str, &[&str]); 7] = [
        ("query", &["-n", "100000"]),
        ("query", &["-n", "17", "--instance", "db"]),
        ("query", &["--level", "error", "--contains", "old 1"]),
        ("query", &["--since", "6h", "--until", "3h", "--instance", "web"]),
        ("count", &["--by", "level,instance", "--every", "5m"]),
        ("count", &["--contains", "took=7"]),
        ("count", &[]),
    ];
    asked.iter().map(|(command, more)| place.json(command, &[more, args].concat())).collect()
}

fn asked(place: &Place, command: &str, args: &[&str]) -> (Output, String) {
    let output = place.ask(command, args);
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    (output, error)
}

fn got(daemon: &Daemon, target: &str) -> String {
    client::over_unix(daemon.socket(), "GET", target, "").expect("an answer").body
}

fn stands(place: &Place, table: &DayTable) -> bool {
    let name = table.to_string();
    place.json("tables", &[]).iter().any(|shown| shown["table"] == name.as_str() && shown["state"] != "dropped")
}

/// A daemon that has archived and dropped the old hour, and the answers from before.
fn dropped(place: &Place, store: &Store) -> (Daemon, DayTable, Vec<Vec<Value>>) {
    let table = write_old(place);
    let daemon = place.start_with(&config(store, "30d"));
    wait_for("all records", PATIENCE, || (place.records().len() == RECORDS + 1).then_some(()));
    wait_for("its archive", PATIENCE, || {
        let shown = place.json("tables", &[]).into_iter().find(|shown| shown["table"] == table.to_string().as_str())?;
        (shown["state"] == "archived").then_some(())
    });
    let before = answers(place, &[]);
    assert_eq!(before[0].len(), RECORDS + 1);
    assert!(before.iter().all(|answer| !answer.is_empty()));
    daemon.stop();
    let daemon = place.start_with(&config(store, "1h"));
    wait_for("the drop", PATIENCE, || (!stands(place, &table)).then_some(()));
    (daemon, table, before)
}

#[test]
fn what_is_only_archived_answers_as_if_it_stood() {
    for store in Store::all() {
        let place = Place::new();
        let (daemon, table, before) = dropped(&place, &store);
        let config = place.path("daytable.toml").display().to_string();
        assert_eq!(answers(&place, &["--config", &config]), before, "{}", store.url);
        let (_, said) = asked(&place, "count", &["--config", &config]);
        assert_eq!(said, format!("daytable: 1 table was read from the archive: {table}\n"));
        // A record by its keys, small and large.
        for record in
            [&before[0][5], before[0].iter().find(|record| record.to_string().len() > 90_000).expect("a large one")]
        {
            let text = |name: &str| record[name].as_str().expect("a key").to_owned();
            let key = format!("{}/{}/{}", text("table"), text("partition_key"), text("row_key"));
            assert_eq!(&place.json("query", &["--config", &config, "--key", &key])[0], record);
        }
        // Also through the HTTP API.
        let reached = got(&daemon, "/api/count");
        assert_eq!(serde_json::from_str::<Value>(&reached).expect("JSON")[0]["records"], RECORDS + 1);
        // Only local days.
        let (output, said) = asked(&place, "query", &["--no-archived", "-n", "10"]);
        assert!(output.status.success() && said.is_empty(), "{said}");
        assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), 1);
        daemon.stop();
        assert_eq!(answers(&place, &["--config", &config]), before, "without a daemon");
    }
}

#[test]
fn an_archive_that_cannot_be_read_is_said_and_the_rest_comes() {
    let (place, store) = (Place::new(), Store::folder());
    let (daemon, table, _) = dropped(&place, &store);
    let local = |reason: &str| {
        let (output, said) = asked(&place, "query", &["-n", "100000"]);
        assert_eq!(output.status.code(), Some(75), "{said}");
        assert!(String::from_utf8_lossy(&output.stdout).contains("young"), "what stands comes all the same");
        assert!(
            said.contains("1 archived table is missing from this answer") && said.contains(&table.to_string()),
            "{said}"
        );
        assert!(said.contains(reason), "{said}");
    };
    let object = store.objects().into_iter().find(|name| name.ends_with(".parquet")).expect("an archive");
    let whole = store.get(&object).expect("there");
    // Damage in the footer, in the rows, at the end, and everywhere.
    store.change(&object, |bytes| *bytes.iter_mut().rev().nth(200).expect("long") ^= 1);
    local("damaged");
    store.put(&object, &whole);
    store.change(&object, |bytes| bytes[1000] ^= 1);
    local("damaged");
    let counted = asked(&place, "count", &["--contains", "old"]);
    assert_eq!(counted.0.status.code(), Some(75), "{}", counted.1);
    store.put(&object, &whole);
    store.change(&object, |bytes| bytes.truncate(5000));
    local("it has 5000 bytes");
    store.put(&object, b"");
    local("it has 0 bytes");
    store.remove(&object);
    local("is not there");
    let folder = store.url.folder().expect("a folder");
    fs::rename(folder, folder.with_extension("away")).expect("moved");
    local("No such file");
    let answer = got(&daemon, "/api/query?n=10");
    assert!(answer.contains("young") && answer.contains("missing from this answer"), "{answer}");
    fs::rename(folder.with_extension("away"), folder).expect("moved back");
    store.put(&object, &whole);
    let (output, _) = asked(&place, "query", &["-n", "100000"]);
    assert!(output.status.success());
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().count(), RECORDS + 1);
    assert_eq!(place.command("query").arg("--config").arg("/nowhere").status().expect("run").code(), Some(78));

    daemon.stop();
}

/// A query for one instance and some minutes fetches only a part of a file with several row groups.
#[test]
fn a_query_fetches_only_what_it_needs() {
    let (place, store, stub) = (Place::new(), Store::folder(), Stub::start());
    let start = Period::Hour.start(now().minus(5 * HOUR));
    let mut seed = 1u64;
    for instance in ["a", "b", "c", "d"] {
        let line = |second: u64| {
            let mut noise = String::new();
            for _ in 0..4 {
                seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                noise.push_str(&format!("{:016x}", seed ^ seed >> 29));
            }
            format!("{} INFO {noise} took={second}", start.plus(Duration::from_millis(second * 100)))
        };
        place.write(&format!("{instance}.log"), &(0..35_000).map(line).collect::<Vec<_>>());
    }
    let config = place.configure(&config(&store, "30d")).display().to_string();
    let logs: Vec<String> =
        ["a", "b", "c", "d"].map(|name| place.log(&format!("{name}.log")).display().to_string()).into();
    let logs: Vec<&str> = logs.iter().map(String::as_str).collect();
    place.said("import", &[&["--config", &config, "--instance", "{stem}"], &*logs].concat());
    let table = DayTable::at(&TableName::new("Log").expect("a name"), Period::Hour, start);
    place.said("archive", &["--config", &config, &table.to_string()]);

    let object = store.objects().into_iter().find(|name| name.ends_with(".parquet")).expect("an archive");
    let file = store.url.folder().expect("a folder").join(object);
    let manifest = Manifest::read_beside(&file).expect("a manifest");
    let archive = stub.archive(0);
    archive.put(&manifest, &file, &mut |_| ControlFlow::Continue(())).expect("archived");
    stub.right();
    let reader = archive.reader(&ArchivedDay::new(manifest.clone()).expect("a day-table")).expect("a reader");
    let sealed = SealedFile::open(Arc::new(reader), &file).expect("opened");
    let range = Range {
        partitions: Some(sealed.partitions_of("c")),
        from: start.plus(Duration::from_secs(600)),
        to: start.plus(Duration::from_secs(659)),
        ..Range::all()
    };
    let rows = sealed.scan(&range).filter(|row| row.is_ok()).count();
    assert_eq!(rows, 591);
    let given = stub.given();
    assert!(manifest.bytes > 4 << 20 && given * 3 < manifest.bytes * 2, "{given} of {} bytes", manifest.bytes);
    // Fetched parts are cached for a moment.
    let again = sealed.scan(&range).count();
    assert_eq!((again, stub.given()), (rows, given));
}
