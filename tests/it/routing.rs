//! Records go to the first table whose condition they meet, with the real binary.

use crate::place::{DAYTABLE, Place, message_of};
use std::collections::BTreeMap;
use std::fs;
use std::process::Command;

const TABLES: &str = r#"
[[table]]
name = "Failed"
when = 'http.status:>=500 -(path:=/health or instance:=test-*)'

[[table]]
name = "Admin"
when = 'user:=admin-*'

[[table]]
name = "Quiet"
when = 'level:<=info -user:*'

[[table]]
name = "Acme"
when = 'tenant:=acme'

[[table]]
name = "Log"
"#;

/// Each line with its record and table. A number that came as a text is a number, as in a query. The same lines from `test-1` go to other tables if the instance counts.
#[test]
fn fields_levels_and_instances_decide() {
    let lines = [
        (r#"{"level":"error","msg":"m0","http":{"status":500},"path":"/a","user":"u"}"#, "Failed", "Log"),
        (r#"{"level":"error","msg":"m1","http":{"status":503},"path":"/health"}"#, "Log", "Log"),
        (r#"{"level":"info","msg":"m2","http":{"status":503},"path":"/health"}"#, "Quiet", "Quiet"),
        (r#"{"level":"info","msg":"m3","http":{"status":599}}"#, "Failed", "Quiet"),
        (r#"{"level":"info","msg":"m4","http":{"status":499},"user":"admin-1"}"#, "Admin", "Admin"),
        (r#"{"level":"info","msg":"m5","http":{"status":"500"},"user":"u"}"#, "Failed", "Log"),
        (r#"{"level":"warn","msg":"m6"}"#, "Log", "Log"),
        (r#"{"msg":"m7","http":{"status":700.5}}"#, "Failed", "Log"),
        (r#"{"level":"debug","msg":"m8","user":null}"#, "Quiet", "Quiet"),
    ];
    let place = Place::new();
    let config = format!("{TABLES}[[tail]]\ninclude = [\"LOGS/*.log\"]\ninstance = \"{{stem}}\"\n");
    for name in ["web.log", "test-1.log"] {
        // Twice, so that the second pass uses the cache.
        let all = lines.iter().chain(&lines).map(|(line, ..)| (*line).to_owned());
        place.write(name, &all.collect::<Vec<_>>());
    }
    let daemon = place.start_with(&config);
    place.wait_for_messages(&(0..9).flat_map(|n| vec![format!("m{n}"); 4]).collect::<Vec<_>>());
    daemon.stop();
    let mut found: BTreeMap<(String, String), BTreeMap<String, usize>> = BTreeMap::new();
    for record in place.records() {
        let table =
            record["table"].as_str().expect("a table").trim_end_matches(|c: char| c.is_ascii_digit()).to_owned();
        let instance = record["partition_key"].as_str().expect("an instance").to_owned();
        *found.entry((instance, message_of(&record))).or_default().entry(table).or_default() += 1;
    }
    // A query with the same filter finds what the table took, and nothing of it in the tables behind.
    for (filter, table) in [
        ("http.status:>=500 -(path:=/health or instance:=test-*)", "Failed"),
        ("user:=admin-*", "Admin"),
        ("level:<=info -user:*", "Quiet"),
    ] {
        let count = |args: &[&str]| place.json("count", args)[0]["records"].as_u64().expect("a number");
        assert_eq!(count(&["--table", table, filter]), count(&["--table", table]), "{filter}");
        assert_eq!(count(&["--table", "Log", filter]), 0, "{filter}");
    }
    for (number, (line, web, test)) in lines.iter().enumerate() {
        for (instance, table) in [("web", web), ("test-1", test)] {
            let tables = &found[&(instance.to_owned(), format!("m{number}"))];
            assert_eq!(*tables, [((*table).to_owned(), 2)].into(), "{instance}: {line}");
        }
    }
}

#[test]
fn a_condition_that_is_wrong_is_said_with_its_line() {
    let place = Place::new();
    let path = place.path("wrong.toml");
    fs::write(&path, TABLES.replace("http.status:>=500", "http.status:>=500 (")).expect("written");
    let output = Command::new(DAYTABLE).arg("check").arg("--config").arg(&path).output().expect("run");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(78));
    assert!(said.contains(":4:") && said.contains("when: expected )") && said.contains(" ^"), "{said}");
}

/// The name of a table is not the beginning of another one's.
#[test]
fn a_table_is_chosen_by_its_whole_name() {
    let place = Place::new();
    let config = place.configure(
        "[[table]]\nname = \"LogPay\"\nwhen = \"pay\"\nkeep = \"3650d\"\n[[table]]\nname = \"Log\"\nkeep = \"3650d\"\n",
    );
    place.write("a.log", &["2026-11-20 10:00:00 INFO pay me".to_owned(), "2026-11-20 10:00:01 INFO other".to_owned()]);
    let (config, file) = (config.display().to_string(), place.log("a.log").display().to_string());
    place.said("import", &["--config", &config, "--instance", "test", &file]);
    let count = |table: &str| place.said("count", &["--table", table]).trim().to_owned();
    let counts = ["Log", "LogPay", "Log20261120", "Log*", "Lo", "LogPay20261120"].map(count);
    assert_eq!(counts, ["1", "1", "1", "2", "0", "1"]);
}
