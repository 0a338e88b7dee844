//! The commands and the API of a host with a remote store: sent rows and rows in the outbox are read as one.

use crate::azure::emulator::Azurite;
use crate::azure::proxy::{Fault, Proxy};
use crate::client;
use crate::place::{PATIENCE, Place, TAIL, numbered, wait_for};
use daytable_model::time::now;
use serde_json::Value;
use std::fs;

/// The configuration of a host that reaches its store through `proxy`.
pub(super) fn configured(place: &Place, proxy: &Proxy, more: &str) -> String {
    fs::write(place.path("connection"), proxy.connection_string()).expect("written");
    let file = place.path("connection").display().to_string();
    format!("{TAIL}[store]\nkind = \"azure\"\nconnection_string_file = \"{file}\"\nfill = \"10ms\"\n{more}")
}

fn messages(records: &[Value]) -> Vec<String> {
    records.iter().map(|record| record["message"].as_str().expect("a message").to_owned()).collect()
}

/// Every record of `daytable query`. Asserts the order, newest first, and each record once.
pub(super) fn all(place: &Place, more: &[&str]) -> Vec<Value> {
    let config = place.path("daytable.toml").display().to_string();
    let records = place.json("query", &[&["--config", &config], more].concat());
    let keys: Vec<String> = records.iter().map(|record| record["row_key"].to_string()).collect();
    assert!(keys.is_sorted(), "newest first");
    records
}

/// Waits until the outbox is empty.
pub(super) fn wait_sent(daemon: &crate::place::Daemon) {
    wait_for("all is sent", PATIENCE, || (daemon.metric("daytable_outbox_entities") == Some(0.0)).then_some(()));
}

#[test]
fn what_was_sent_and_what_waits_are_read_as_one() {
    let (azurite, place) = (Azurite::start(), Place::new());
    let proxy = Proxy::start(azurite.port);
    let config = configured(&place, &proxy, "");
    let large = "large ".repeat(20_000);
    let first: Vec<String> = numbered(&format!("{} error first", now()), 30)
        .into_iter()
        .chain([format!("{} warn {large}", now())])
        .collect();
    place.write("a.log", &first);
    let daemon = place.start_with(&config);
    wait_for("all is there", PATIENCE, || (all(&place, &[]).len() == first.len()).then_some(()));
    wait_sent(&daemon);
    let sent = all(&place, &[]);
    assert_eq!(sent.len(), first.len());
    assert!(messages(&sent).iter().any(|message| message.trim_end().ends_with(large.trim_end())), "whole");

    // Transactions fail from now on: new rows wait.
    proxy.plan(|_, asked| asked.is_transaction().then_some(Fault::Busy));
    let later = numbered(&format!("{} info later", now()), 20);
    place.write("a.log", &later);
    wait_for("both are read", PATIENCE, || (all(&place, &[]).len() == first.len() + later.len()).then_some(()));
    assert!(daemon.metric("daytable_outbox_entities").is_some_and(|waiting| waiting >= 20.0));
    let both = all(&place, &[]);
    let count = |args: &[&str]| {
        let config = place.path("daytable.toml").display().to_string();
        place.json("count", &[&["--config", &config], args].concat())
    };
    assert_eq!(count(&[])[0]["records"], both.len());
    let errors = both.iter().filter(|record| record["level"] == "error").count();
    assert_eq!(all(&place, &["--level", "error"]).len(), errors);
    assert!(errors >= 30, "{errors}");
    assert_eq!(count(&["--level", "error"])[0]["records"], errors);
    // The daemon gives the same answer.
    let answer = client::over_unix(daemon.socket(), "GET", "/api/query?n=1000", "").expect("answered");
    assert_eq!(answer.body.lines().count(), both.len());
    let answer = client::over_unix(daemon.socket(), "GET", "/api/count", "").expect("answered");
    assert!(answer.body.contains(&format!("\"records\":{}", both.len())), "{}", answer.body);
    // Sent rows stay in the outbox for a moment.
    wait_for("the outbox holds what was not sent, and no more", PATIENCE, || {
        let tables = client::over_unix(daemon.socket(), "GET", "/api/tables", "").expect("answered").body;
        tables.contains("\"waiting\":20").then_some(())
    });

    // A record by its keys, local or remote. The newest few records of an instance by its partition alone.
    for record in [&both[0], both.last().expect("some")] {
        let keys = ["table", "partition_key", "row_key"].map(|name| record[name].as_str().expect("a key").to_owned());
        assert_eq!(all(&place, &["--key", &keys.join("/")]), std::slice::from_ref(record));
    }
    let asked = proxy.asked().len();
    assert_eq!(all(&place, &["--instance", "test", "-n", "5"]), &both[..5]);
    let asked = &proxy.asked()[asked..];
    let reads: Vec<&str> =
        asked.iter().map(|asked| asked.target.as_str()).filter(|target| target.contains("()?")).collect();
    assert!(reads.iter().any(|target| target.contains("$top=5")), "{reads:?}");
    assert!(reads.iter().all(|target| target.contains("PartitionKey")), "{reads:?}");

    proxy.heal();
    wait_sent(&daemon);
    assert_eq!(messages(&all(&place, &[])), messages(&both));
    daemon.stop();
    assert_eq!(messages(&all(&place, &[])), messages(&both));
    assert_eq!(azurite_rows(&azurite, &both), both.len());
}

/// How many of these records Microsoft's client finds.
fn azurite_rows(azurite: &Azurite, records: &[Value]) -> usize {
    let mut tables: Vec<&str> = records.iter().map(|record| record["table"].as_str().expect("a table")).collect();
    tables.sort();
    tables.dedup();
    let masters = |table: &str| {
        azurite.read_back(table).iter().filter(|row| !row["RowKey"].as_str().expect("a key").contains('_')).count()
    };
    tables.into_iter().map(masters).sum()
}

#[test]
fn a_store_that_cannot_be_read_is_an_error_and_not_a_short_answer() {
    let (azurite, place) = (Azurite::start(), Place::new());
    let proxy = Proxy::start(azurite.port);
    let config = configured(&place, &proxy, "");
    place.write("a.log", &numbered("line", 10));
    let daemon = place.start_with(&config);
    wait_for("all is there", PATIENCE, || (all(&place, &[]).len() == 10).then_some(()));
    wait_sent(&daemon);
    let path = place.path("daytable.toml").display().to_string();
    for (fault, code) in [(Fault::Forbidden, 77), (Fault::WrongContent, 75)] {
        proxy.plan(move |_, asked| (asked.method == "GET").then_some(fault));
        for command in ["query", "count", "tables"] {
            let output = place.ask(command, &["--config", &path]);
            assert_eq!(output.status.code(), Some(code), "{command} {fault:?}: {output:?}");
        }
        let answer = client::over_unix(daemon.socket(), "GET", "/api/query?n=10", "").expect("answered");
        assert_eq!(answer.status, 500, "{}", answer.body);
    }
    // Failing pages are requested again.
    proxy.plan(|number, asked| (asked.method == "GET" && number % 3 != 2).then_some(Fault::Status(503)));
    assert_eq!(all(&place, &[]).len(), 10);
    // Without a configuration, the command warns that there are records outside the folder.
    let mut query = place.command("query");
    let output = query.env_remove("AZURE_STORAGE_CONNECTION_STRING").output().expect("run");
    assert_eq!(output.status.code(), Some(69), "{output:?}");
    assert!(String::from_utf8_lossy(&output.stderr).contains("--config"), "{output:?}");
}
