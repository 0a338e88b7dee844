//! Many hosts that archive to one table in object storage at the same time, while they are killed.

use crate::archive::stores::Store;
use crate::lake::{Host, asked_at};
use crate::place::Place;
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

    // daytable answers over the two hundred files as they were written, and opens those alone that a question is about.
    let place = Place::new();
    let config = place.configure(&format!("[archives]\n{archives}")).display().to_string();
    let asked = |command: &str, args: &[&str]| {
        let cache = place.path("cache").display().to_string();
        let own = ["--config", &config, "--lake", &url, "--cache", &cache];
        let output = place.command(command).args(own).args(args).output().expect("started");
        let [said, told] = [output.stdout, output.stderr].map(|text| String::from_utf8(text).expect("text"));
        assert!(output.status.success(), "{args:?}: {told}");
        (said, told)
    };
    let (said, told) = asked("count", &[]);
    assert_eq!(said.trim(), (HOSTS * DAYS * RECORDS).to_string());
    assert!(told.contains(&format!("{} of {} files of the lake were opened", HOSTS * DAYS, HOSTS * DAYS)), "{told}");
    let (said, _) = asked("query", &["--json", "-n", "1000000"]);
    let mut found: Vec<(String, String)> = said
        .lines()
        .map(|line| {
            let row: Value = serde_json::from_str(line).expect("JSON");
            let text = |field: &str| row[field].as_str().expect("a text").to_owned();
            (text("log_host"), format!("{} INFO {}", text("time").replace(".0000000Z", "Z"), text("message")))
        })
        .collect();
    let written =
        names.iter().flat_map(|name| (0..DAYS).flat_map(move |day| lines(name, day)).map(move |line| (name, line)));
    let mut written: Vec<(String, String)> = written.map(|(name, line)| (name.clone(), line)).collect();
    found.sort();
    written.sort();
    assert_eq!(found, written);
    let (said, told) = asked("count", &["log_host:=web-07 _time:2026-11-05T10"]);
    assert_eq!(said.trim(), RECORDS.to_string());
    assert!(
        told.contains(&format!("1 of {} files of the lake were opened (Log20261105 of web-07)", HOSTS * DAYS)),
        "{told}"
    );
    let (said, told) = asked("count", &["log_host:=web-07"]);
    assert_eq!(said.trim(), (RECORDS * DAYS).to_string());
    assert!(told.contains(&format!("{DAYS} of {} files of the lake were opened", HOSTS * DAYS)), "{told}");
}
