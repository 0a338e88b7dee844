//! Other programs read a sealed day: DuckDB, pyarrow and pandas find the same records as daytable.
//!
//! `tests/setup` installs them in `target/venv`.

use crate::place::{Place, installed};
use daytable_model::key::DayTable;
use daytable_store::Reader;
use daytable_store::sealed::{Manifest, SealJob, SealedSizes, seal};
use serde_json::Value;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::process::Command;

/// Prints the records found by each reader as one line of JSON.
const READ: &str = r#"
import json, sys
import duckdb, pandas, pyarrow.parquet as parquet

path = sys.argv[1]
db = duckdb.connect()
def rows(query):
    return db.execute(query.replace("DAY", "read_parquet('" + path + "')")).fetchall()

table = parquet.read_table(path)
frame = pandas.read_parquet(path)
row_key = """
    printf('%s-%s-%s',
        lpad((3155378975999999999 - (epoch_us(Time) * 10 + log_ticks + 621355968000000000))::VARCHAR, 19, '0'),
        log_source,
        lpad(lower(to_hex(281474976710655 - log_position)), 12, '0'))
"""
print(json.dumps({
    "duckdb": rows("SELECT count(*) FROM DAY")[0][0],
    "pyarrow": table.num_rows,
    "pandas": len(frame),
    "levels": rows("SELECT Level, hour(Time AT TIME ZONE 'UTC'), count(*) FROM DAY GROUP BY ALL ORDER BY ALL"),
    "pandas_levels": sorted([level, hour, int(count)] for (level, hour), count in
        frame.groupby(["Level", frame["Time"].dt.hour]).size().items()),
    "row_keys": [key for key, in rows(f"SELECT {row_key} AS key FROM DAY ORDER BY key")],
    "messages": sorted(table.column("Message").to_pylist()),
    "numbers": rows("SELECT sum(n), sum(share) FROM DAY")[0],
    "types": [str(kind) for kind in (table.schema.field("n").type, table.schema.field("Time").type)],
    "changed": rows('SELECT count(kind), count("kind_int64") FROM DAY')[0],
    "rest": rows("""SELECT sum(len(map_keys("log_rest"))) FROM DAY""")[0][0],
    "partitions": rows("SELECT DISTINCT PartitionKey FROM DAY"),
}))
"#;

/// Seals the only file of a day.
fn sealed(place: &Place, table: &str) -> (PathBuf, Manifest) {
    let reader = Reader::open(&place.data()).expect("a data folder");
    let out = place.path(&format!("{table}.2.parquet"));
    let sealing = SealJob {
        table: DayTable::parse(table).expect("a day-table"),
        generation: 2,
        inputs: vec![place.data().join("tables").join(format!("{table}.1.db"))],
        committed: reader.catalog().committed().expect("read"),
        out: out.clone(),
        sizes: SealedSizes::default(),
        names: Default::default(),
    };
    let manifest = seal(&sealing, &mut |_| ControlFlow::Continue(())).expect("sealed").manifest;
    (out, manifest)
}

#[test]
fn duckdb_pyarrow_and_pandas_read_what_was_sealed() {
    let place = Place::new();
    let daemon = place.start();
    let day = daytable_model::time::now().to_string()[..10].to_owned();
    let line = |n: usize| {
        let level = ["info", "warn", "error"][n % 3];
        let kind = if n.is_multiple_of(5) { "7".into() } else { format!("\"k{}\"", n % 7) };
        // Each of the last lines has a unique field: more fields than the file has columns.
        let rare = if n >= 1000 { format!(",\"rare_{n}\":{n}") } else { String::new() };
        format!(
            "{{\"time\":\"{day}T{:02}:00:{:02}.{:07}Z\",\"level\":\"{level}\",\"msg\":\"message {n}\",\"n\":{n},\"share\":{}.5,\"kind\":{kind}{rare}}}",
            n % 24,
            n % 60,
            7 * n,
            n % 4
        )
    };
    let lines: Vec<String> = (0..1600).map(line).collect();
    place.write("app.log", &lines);
    let messages: Vec<String> = (0..1600).map(|n| format!("message {n}")).collect();
    place.wait_for_messages(&messages);
    daemon.stop();
    let records = place.records();
    let (path, manifest) = sealed(&place, &format!("Log{}", day.replace('-', "")));
    assert_eq!((manifest.rows, manifest.records), (1600, 1600));

    let output = Command::new(installed("venv/bin/python")).args(["-c", READ]).arg(&path).output().expect("python");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).expect("one line of JSON");
    for reader in ["duckdb", "pyarrow", "pandas"] {
        assert_eq!(found[reader], 1600, "{reader}");
    }
    let text = |record: &Value, name: &str| record[name].as_str().expect("text").to_owned();
    let mut levels = std::collections::BTreeMap::new();
    for record in &records {
        let hour: u64 = text(record, "time")[11..13].parse().expect("an hour");
        *levels.entry((text(record, "level"), hour)).or_insert(0) += 1;
    }
    let levels: Vec<Value> =
        levels.into_iter().map(|((level, hour), count)| serde_json::json!([level, hour, count])).collect();
    assert_eq!(found["levels"], Value::from(levels.clone()));
    assert_eq!(found["pandas_levels"], Value::from(levels));
    let sorted = |name: &str| {
        let mut texts: Vec<String> = records.iter().map(|record| text(record, name)).collect();
        texts.sort();
        Value::from(texts)
    };
    assert_eq!(found["row_keys"], sorted("row_key"), "derived as the documentation says");
    assert_eq!(found["messages"], sorted("message"));
    assert_eq!(found["numbers"], serde_json::json!([1600 * 1599 / 2, 1600.0 * 2.0]));
    assert_eq!(found["types"], serde_json::json!(["int64", "timestamp[us, tz=UTC]"]));
    assert_eq!(found["changed"], serde_json::json!([1280, 320]));
    assert!(found["rest"].as_f64().expect("a number") > 80.0, "{}", found["rest"]);
    assert_eq!(found["partitions"], serde_json::json!([["test"]]));
}
