//! Many hosts that archive to one table in object storage at the same time, while they are killed.

use crate::archive::stores::Store;
use crate::lake::{Host, asked_at};
use serde_json::{Value, json};
use std::process::Stdio;
use std::thread;
use std::time::Duration;

const HOSTS: usize = 20;
/// Days of each host: two hundred commits.
const DAYS: usize = 10;
/// Records of a host's day.
const RECORDS: usize = 10;

fn lines(host: &str, day: usize) -> Vec<String> {
    let time = |n: usize| format!("2026-11-{:02}T10:00:{n:02}Z", day + 1);
    (0..RECORDS).map(|n| format!("{} INFO request {n} of {host}", time(n))).collect()
}

/// Archives a day. Two of three attempts before are killed at some moment: before the file, between file and log, behind both.
fn archive(host: &Host, table: &str, number: usize) {
    for attempt in 0..2 {
        let mut command = host.place.command("archive");
        command.args(["--config", &host.config, table]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut archiving = command.spawn().expect("started");
        thread::sleep(Duration::from_millis((number * 97 + attempt * 211) as u64 % 700));
        let _ = archiving.kill();
        archiving.wait().expect("a child");
        if number.is_multiple_of(3) {
            break;
        }
    }
    host.archive(table);
}

#[test]
fn twenty_hosts_write_one_table_and_each_record_is_there_once() {
    let store = Store::seaweed();
    let (url, archives) = (store.url.to_string(), format!("table_format = \"delta\"\n{}", store.access_keys()));
    let names: Vec<String> = (0..HOSTS).map(|host| format!("web-{host:02}")).collect();
    thread::scope(|scope| {
        for (at, name) in names.iter().enumerate() {
            let (url, archives) = (&url, &archives);
            scope.spawn(move || {
                let host = Host::at(name, archives, url);
                for day in 0..DAYS {
                    host.import(&format!("{day}.log"), &lines(name, day));
                }
                for day in 0..DAYS {
                    archive(&host, &format!("Log202611{:02}", day + 1), at * DAYS + day);
                }
            });
        }
    });
    let endpoint = store.access.s3_endpoint.clone().expect("an endpoint");
    let variables =
        [("AWS_ENDPOINT_URL", endpoint.as_str()), ("AWS_ACCESS_KEY_ID", "test"), ("AWS_SECRET_ACCESS_KEY", "secret")];
    let by_host =
        "SELECT log_host, COUNT(*) AS n, COUNT(DISTINCT log_day) AS days FROM lake GROUP BY log_host ORDER BY log_host";
    let expected: Vec<Value> =
        names.iter().map(|name| json!({"log_host": name, "n": DAYS * RECORDS, "days": DAYS})).collect();
    assert_eq!(asked_at(&format!("{url}/Log"), &variables, by_host), expected);
}
