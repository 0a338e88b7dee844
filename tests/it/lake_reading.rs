//! Questions over a lake: the archives of several hosts at one address, without a data folder. Each answer is compared with what
//! the hosts answer from their own data folders.

use crate::archive::stores::Store;
use crate::client::over_unix;
use crate::lake::Host;
use crate::place::{DAYTABLE, Daemon, Place, files_below, installed};
use serde_json::{Map, Value, json};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

/// A lake that three hosts archived to, and the hosts.
struct Lake {
    place: Place,
    hosts: Vec<(&'static str, Host)>,
    address: String,
    config: String,
}

/// The lines of a host on a day: with and without fields `host` and `log_host`, of several rows, and with very many fields.
fn lines(host: &str, day: &str, count: usize) -> Vec<String> {
    let line = |n: usize| {
        let time = format!("2026-11-{day}T{:02}:{:02}:{:02}.5Z", n % 24, n / 24 % 60, n % 60);
        let level = ["info", "warn", "error"][n % 3];
        let mut line =
            json!({"time": time, "level": level, "message": format!("request {n} of {host}"), "status": 200 + n % 4});
        let more = match n % 10 {
            1 => json!({"host": "proxy"}),
            2 => json!({"host": 7, "log_host": "spoofed"}),
            3 => json!({"log_host": "first", "log_host#2": "second"}),
            4 if n == 4 => json!({"message": format!("long {}", "word ".repeat(9000))}),
            5 if n == 5 => json!({"message": format!("long {}", "other ".repeat(9000)), "host": "inner"}),
            6 if n == 6 => Value::Object((0..300).map(|field| (format!("f{field}"), json!(field))).collect()),
            7 if n == 7 => {
                let fields = (0..300).map(|field| (format!("g{field}"), json!(field)));
                Value::Object(fields.chain([("host".to_owned(), json!("last"))]).collect())
            }
            _ => json!({}),
        };
        line.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        line.to_string()
    };
    (0..count).map(line).collect()
}

impl Lake {
    /// A lake with days of three hosts.
    fn new(address: &str, archives: &str) -> Lake {
        let place = Place::new();
        let mut hosts = Vec::new();
        for (name, days) in [("web-1", &["20", "21", "22"][..]), ("web-2", &["21", "22"]), ("db-1", &["20", "22"])] {
            let host = Host::at(name, archives, address);
            for day in days {
                host.import(&format!("{day}.log"), &lines(name, day, 40));
                host.archive(&format!("Log202611{day}"));
            }
            hosts.push((name, host));
        }
        // A late record makes another version of a day.
        hosts[0].1.import("late.log", &[lines("web-1", "21", 42)[41].clone()]);
        hosts[0].1.archive("Log20261121");
        let config = place.configure(&format!("[archives]\n{archives}"));
        let config = config.display().to_string();
        Lake { place, hosts, address: address.to_owned(), config }
    }

    fn ask(&self, command: &str, args: &[&str]) -> Output {
        self.command(command).args(args).output().expect("started")
    }

    fn command(&self, command: &str) -> Command {
        let cache = self.place.path("cache").display().to_string();
        let own = ["--lake", &self.address, "--config", &self.config, "--cache", &cache];
        // No data folder is there to be read.
        let mut command = self.place.command(command);
        command.env_remove("DAYTABLE_DATA").env("HOME", self.place.path("home")).args(own);
        command
    }

    /// What DuckDB answers to a statement, and the exit code with what is told.
    fn sql(&self, args: &[&str]) -> (Value, (Option<i32>, String)) {
        let bin = installed("target/venv/bin/duckdb");
        let path = format!("{}:/usr/bin:/bin", bin.parent().expect("a folder").display());
        let output = self.command("sql").env("PATH", path).arg("--json").args(args).output().expect("started");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        let rows = serde_json::from_str(&said).unwrap_or_else(|error| panic!("{error}: {said}{told}"));
        (rows, (output.status.code(), told))
    }

    fn said(&self, command: &str, args: &[&str]) -> (String, String) {
        let output = self.ask(command, args);
        let [said, told] = [&output.stdout, &output.stderr].map(|text| String::from_utf8_lossy(text).into_owned());
        assert!(output.status.success(), "{args:?}: {said}{told}");
        (said, told)
    }

    fn rows(&self, args: &[&str]) -> Vec<Value> {
        let args: Vec<&str> = ["--json"].iter().chain(args).copied().collect();
        self.said("query", &args).0.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect()
    }

    /// All records of the hosts' own folders, as the lake is to have them.
    fn expected(&self) -> Vec<Value> {
        let mut records = Vec::new();
        for (name, host) in &self.hosts {
            for record in host.place.json("query", &["--config", &host.config]) {
                let Value::Object(record) = record else { panic!("{record}") };
                let mut seen = Map::new();
                for (field, value) in record {
                    let field = match field.as_str() {
                        "log_host" => "log_host#2".to_owned(),
                        "log_host#2" => "log_host#3".to_owned(),
                        _ => field,
                    };
                    seen.insert(field, value);
                }
                seen.insert("log_host".into(), json!(name));
                if !seen.contains_key("host") {
                    seen.insert("host".into(), json!(name));
                }
                records.push(Value::Object(seen));
            }
        }
        records
    }
}

fn sorted(mut rows: Vec<Value>) -> Vec<String> {
    rows.sort_by_key(|row| (row["row_key"].to_string(), row["log_host"].to_string()));
    // Objects of serde_json have their keys in order.
    rows.iter()
        .map(|row| {
            serde_json::to_string(&row.as_object().expect("a row").iter().collect::<BTreeMap<_, _>>()).expect("JSON")
        })
        .collect()
}

/// A test of a record.
type Test = fn(&Value) -> bool;

/// Conditions, and which records they are about.
const QUESTIONS: [(&str, Test); 22] = [
    ("*", |_| true),
    ("log_host:=web-1", |r| r["log_host"] == "web-1"),
    ("log_host:=web-* status:=201", |r| r["log_host"] != "db-1" && r["status"] == 201),
    ("log_host:in(web-2, db-1) level:=error", |r| r["log_host"] != "web-1" && r["level"] == "error"),
    ("!log_host:=db-1 table:=Log20261120", |r| r["log_host"] == "web-1" && r["table"] == "Log20261120"),
    ("(log_host:=db-1 or level:=error) status:=200", |r| {
        (r["log_host"] == "db-1" || r["level"] == "error") && r["status"] == 200
    }),
    ("host:=web-2", |r| r["host"] == "web-2"),
    ("host:=proxy", |r| r["host"] == "proxy"),
    ("host:=7", |r| r["host"] == 7),
    ("host:=inner", |r| r["host"] == "inner"),
    ("host:=last", |r| r["host"] == "last"),
    ("\"log_host#2\":=spoofed", |r| r["log_host#2"] == "spoofed"),
    ("\"log_host#3\":=second", |r| r["log_host#3"] == "second"),
    ("log_host:=spoofed", |_| false),
    ("web-2", |r| r["log_host"] == "web-2"),
    ("\"of web-1\"", |r| r["message"].as_str().is_some_and(|m| m.ends_with("of web-1"))),
    ("f299:=299", |r| r["f299"] == 299),
    ("nowhere", |_| false),
    ("_time:2026-11-21", |r| r["time"].as_str().is_some_and(|time| time.starts_with("2026-11-21"))),
    ("_time:2026-11-21 log_host:=web-2", |r| {
        r["log_host"] == "web-2" && r["time"].as_str().is_some_and(|time| time.starts_with("2026-11-21"))
    }),
    ("instance:=app \"request 39\"", |r| r["message"].as_str().is_some_and(|m| m.contains("request 39 "))),
    ("host:* !level:=info", |r| r["level"] != "info"),
];

/// Compares the answers to each `step`th question.
fn check(lake: &Lake, step: usize) {
    let all = lake.expected();
    assert_eq!(all.len(), 7 * 40 + 1);
    for (number, (question, matches)) in QUESTIONS.into_iter().enumerate().filter(|(number, _)| number % step == 0) {
        let expected: Vec<Value> = all.iter().filter(|record| matches(record)).cloned().collect();
        let (count, expected) = (expected.len(), sorted(expected));
        assert_eq!(sorted(lake.rows(&[question])), expected, "{question}");
        if number % 4 == 0 {
            assert_eq!(lake.said("count", &[question]).0.trim(), count.to_string(), "{question}");
            let exported = lake.said("export", &[question]).0;
            let exported = exported.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
            assert_eq!(sorted(exported), expected, "{question}");
        }
        // Groups are made of columns, not of records.
        let fields = ["log_host", "host", "log_host#2", "status"];
        let group = |row: &Value| fields.map(|field| text(&row[field])).join("|");
        let mut groups: BTreeMap<String, u64> = BTreeMap::new();
        for record in all.iter().filter(|record| matches(record)) {
            *groups.entry(group(record)).or_default() += 1;
        }
        let asked = format!("{question} | stats by (log_host, host, \"log_host#2\", status) count() n");
        let found = lake.rows(&[&asked]);
        let found: BTreeMap<String, u64> =
            found.iter().map(|row| (group(row), row["n"].as_u64().expect("a number"))).collect();
        assert_eq!(found, groups, "{asked}");
    }
    for field in ["log_host", "host", "level"] {
        let mut groups: BTreeMap<String, u64> = BTreeMap::new();
        all.iter().for_each(|record| *groups.entry(text(&record[field])).or_default() += 1);
        let found = lake.rows(&[&format!("* | stats by ({field}) count() n")]);
        let found: BTreeMap<String, u64> =
            found.iter().map(|row| (text(&row[field]), row["n"].as_u64().expect("a number"))).collect();
        assert_eq!(found, groups, "{field}");
    }
    // The newest come first, of all hosts.
    let newest = lake.rows(&["-n", "5"]);
    let mut times: Vec<String> = all.iter().map(|record| text(&record["row_key"])).collect();
    times.sort();
    assert_eq!(newest.iter().map(|record| text(&record["row_key"])).collect::<Vec<_>>(), times[..5]);
    // A line is what was written, also where it names a field that is called otherwise here.
    let lines_of = |host: &str| lines(host, "20", 40);
    let (raw, _) = lake.said("query", &["--format", "raw", "table:=Log20261120 log_host:=db-1"]);
    let mut raw: Vec<String> = raw.lines().map(str::to_owned).collect();
    let mut written = lines_of("db-1");
    raw.sort();
    written.sort();
    assert_eq!(raw, written);
    // By its keys.
    let record = all.iter().find(|record| record["message"] == "request 9 of db-1").expect("a record");
    let keys = ["table", "partition_key", "row_key"].map(|key| text(&record[key])).join("/");
    assert_eq!(sorted(lake.rows(&["--key", &keys])), sorted(vec![record.clone()]));
    // Neighbours are of the same host: files of several hosts are called alike.
    let around = lake.rows(&["-C", "2", "log_host:=web-2 \"request 9\" _time:2026-11-22"]);
    assert!(around.len() >= 3 && around.iter().all(|record| record["log_host"] == "web-2"), "{around:?}");
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        value => value.to_string(),
    }
}

/// How many files were opened of how many, and bytes and requests, as the report says.
fn traffic(told: &str) -> [u64; 4] {
    let line =
        told.lines().find(|line| line.contains("files of the lake were opened")).unwrap_or_else(|| panic!("{told}"));
    // The names of days stand between.
    let numbers = |text: &str| text.split(' ').filter_map(|word| word.parse().ok()).collect::<Vec<u64>>();
    let (files, read) = line.rsplit_once(": ").expect("two parts");
    let ([opened, files, ..], [bytes, requests, ..]) = (&numbers(files)[..], &numbers(read)[..]) else {
        panic!("{line}")
    };
    [*opened, *files, *bytes, *requests]
}

#[test]
fn object_storage_answers_as_the_hosts_do_from_few_files_and_what_was_read_before() {
    answers_from_few_files(&Store::s3());
}

#[test]
fn object_storage_of_another_maker_answers_as_well() {
    answers_from_few_files(&Store::seaweed());
}

#[test]
fn blob_storage_answers_as_well() {
    answers_from_few_files(&Store::azure());
}

fn answers_from_few_files(store: &Store) {
    let lake = Lake::new(&store.url.to_string(), &format!("table_format = \"delta\"\n{}", store.access_keys()));
    check(&lake, 3);

    // One host and day of seven files: the log, and one file.
    let cold = lake.place.path("cache");
    fs::remove_dir_all(&cold).expect("the cache");
    let question = ["log_host:=web-2 _time:2026-11-22"];
    let all = traffic(&lake.said("query", &["*"]).1);
    fs::remove_dir_all(&cold).expect("the cache");
    let first = traffic(&lake.said("query", &question).1);
    let warm = traffic(&lake.said("query", &question).1);
    assert_eq!((all[0], all[1]), (7, 7));
    assert_eq!((first[0], first[1], warm[0]), (1, 7, 1));
    assert!(first[2] < all[2] && first[3] < all[3], "{first:?} {all:?}");
    // The file is small, so its end is all of it.
    assert!(warm[2] < first[2] && warm[3] < first[3], "{warm:?} {first:?}");

    // A damaged entry is fetched anew, and an answer without a cache is the same.
    let whole = lake.rows(&question);
    for entry in files_below(&cold) {
        let mut bytes = fs::read(&entry).expect("read");
        let at = bytes.len() / 2;
        bytes[at] ^= 0x55;
        fs::write(&entry, bytes).expect("written");
    }
    assert_eq!(lake.rows(&question), whole);
    let mended = traffic(&lake.said("query", &question).1);
    assert_eq!(mended, warm);
    fs::remove_dir_all(&cold).expect("the cache");
    assert_eq!(lake.rows(&question), whole);

    // A reader that keeps the table asks for what is new alone: a list of tables, and one of the log.
    let kept = daytable_archive::Lake::open(&store.url, &store.access, None, Duration::ZERO).expect("opened");
    let first = kept.listing().expect("listed");
    let traffic = kept.traffic();
    assert_eq!(kept.listing().expect("listed"), first);
    let again = kept.traffic() - traffic;
    assert_eq!((again.requests, again.bytes), (2, 0), "{again:?}");

    // SQL: daytable fetches what is asked for, so DuckDB has no credentials.
    let by_host = "SELECT log_host, count(*) AS n FROM logs GROUP BY log_host ORDER BY log_host";
    let row = |host: &str, n: u64| json!({"log_host": host, "n": n});
    assert_eq!(lake.sql(&[by_host]).0, json!([row("db-1", 80), row("web-1", 121), row("web-2", 80)]));
    let by_day = "SELECT log_day, count(*) AS n, max(status) AS most FROM logs GROUP BY log_day ORDER BY log_day";
    let row = |day: &str, n: u64| json!({"log_day": day, "n": n, "most": 203});
    let (rows, (code, _)) = lake.sql(&["--where", "log_host:=web-1", by_day]);
    assert_eq!((rows, code), (json!([row("2026-11-20", 40), row("2026-11-21", 41), row("2026-11-22", 40)]), Some(0)));

    // Nothing of the lake changes.
    let before = store.objects();
    lake.said("count", &[]);
    assert_eq!(store.objects(), before);

    // A file that is damaged, replaced or gone is named, and the rest is answered.
    let of = |host: &str, day: &str| {
        let mut found = before.iter().filter(|name| name.contains(&format!("log_day=2026-11-{day}/log_host={host}/")));
        found.rfind(|name| name.ends_with(".parquet")).expect("a file").clone()
    };
    let (file, other) = (of("web-2", "21"), of("db-1", "20"));
    let others = lake.rows(&["!(log_host:=web-2 _time:2026-11-21) !(log_host:=db-1 _time:2026-11-20)"]);
    store.change(&file, |bytes| bytes[200] ^= 1);
    store.remove(&other);
    // Small files are in the cache as a whole, and the log says that they are there.
    assert_eq!(lake.said("count", &[]).0.trim(), "281");
    fs::remove_dir_all(&cold).expect("the cache");
    let output = lake.ask("query", &["--json"]);
    let told = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(75), "{told}");
    assert!(told.contains("missing from this answer: Log20261120 of db-1, Log20261121 of web-2: "), "{told}");
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let rows: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(sorted(rows), sorted(others));
    let (rows, (code, told)) = lake.sql(&["SELECT count(*) AS n FROM logs"]);
    assert_eq!((rows, code), (json!([{"n": 281 - 80}]), Some(75)), "{told}");
    assert!(told.contains("Log20261120 of db-1"), "{told}");
    let asked = lake.ask("count", &["log_host:=db-1", "_time:2026-11-20"]);
    assert_eq!(asked.status.code(), Some(64), "one query");
    let asked = lake.ask("count", &["log_host:=db-1 _time:2026-11-20"]);
    assert_eq!(asked.status.code(), Some(75));
}

#[test]
fn what_is_no_lake_or_cannot_be_read_is_said() {
    let place = Place::new();
    let address = format!("file://{}", place.path("lake").display());
    let lake = Lake::new(&address, "table_format = \"delta\"\n");
    for (args, code, text) in [
        (&["query", "--lake", "nowhere/at/all"][..], 64, "No such file or directory"),
        (&["query", "--lake", "https://example.com/a"], 64, "s3://"),
        (&["query", "--lake", &address, "--follow"], 64, "the days of a lake are over"),
        (&["query", "--lake", &address, "--local"], 64, "--lake reads nothing else"),
        (&["query", "--cache", "/tmp/a"], 64, "--lake"),
        (&["export", "--lake", &address, "--raw", "--source", "/a"], 64, "the file of one host"),
        (
            &["query", "--lake", &address, "log_host:=web1"],
            0,
            "no day in the lake is of the host web1; did you mean web-1?",
        ),
        (&["query", "--lake", &address, "_time:2026-10-01"], 0, "the range ends before the first record"),
        (&["query", "--lake", &address, "statsu:=1 log_host:=db-1 _time:2026-11-22"], 0, "did you mean status?"),
    ] {
        let (command, args) = (args[0], &args[1..]);
        let mut command = lake.place.command(command);
        let output = command.env("HOME", lake.place.path("home")).args(args).output().expect("started");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(code) && told.contains(text), "{args:?}: {:?} {told}", output.status);
    }
    // DuckDB reads each record once, by the columns of the path.
    let (rows, told) = lake.sql(&["SELECT log_host, count(*) AS n FROM logs GROUP BY log_host ORDER BY log_host"]);
    assert_eq!(told, (Some(0), String::new()));
    let row = |host: &str, n: u64| json!({"log_host": host, "n": n});
    assert_eq!(rows, json!([row("db-1", 80), row("web-1", 121), row("web-2", 80)]));

    let empty = place.path("empty");
    fs::create_dir(&empty).expect("made");
    let asked = lake.place.ask("query", &["--lake", empty.to_str().expect("a path")]);
    let told = String::from_utf8_lossy(&asked.stderr).into_owned();
    assert!(asked.status.code() == Some(75) && told.contains("is not there"), "{told}");

    // A file that the log names and daytable did not is not passed over in silence.
    let log = place.path("lake").join("Log/_delta_log");
    let next = fs::read_dir(&log)
        .expect("listed")
        .filter(|e| e.as_ref().is_ok_and(|e| e.path().extension().is_some_and(|x| x == "json")))
        .count();
    let add = json!({"add": {"path": "other.parquet", "partitionValues": {"log_day": "2026-11-22", "log_host": "web-1"},
        "size": 1, "modificationTime": 1, "dataChange": true}});
    fs::write(log.join(format!("{next:020}.json")), format!("{add}\n")).expect("written");
    let asked = lake.ask("count", &[]);
    let told = String::from_utf8_lossy(&asked.stderr).into_owned();
    assert!(asked.status.code() == Some(75) && told.contains("other.parquet"), "{told}");
}

#[test]
fn a_folder_answers_as_the_hosts_do_with_a_log_and_without_one() {
    let place = Place::new();
    for (format, step) in [("delta", 1), ("none", 5)] {
        let address = format!("file://{}", place.path(format).display());
        check(&Lake::new(&address, &format!("table_format = \"{format}\"\n")), step);
    }
}

/// A daytable over a lake.
fn serve(lake: &Lake, address: &str) -> Daemon {
    let mut command = Command::new(DAYTABLE);
    command.args(["run", "--config", &lake.config, "--lake", address, "--control"]).arg(lake.place.data());
    command.env("HOME", lake.place.path("home"));
    let daemon = lake.place.spawn_command(command);
    daemon.wait_ready();
    daemon
}

/// Each view of the page, without a request that fails.
#[test]
fn the_page_over_a_lake_in_chromium() {
    let place = Place::new();
    let address = format!("file://{}", place.path("lake").display());
    let lake = Lake::new(&address, "table_format = \"delta\"\n");
    let daemon = serve(&lake, &address);
    let expected = lake.expected();
    let of_host = expected.iter().filter(|record| record["log_host"] == "db-1").count();
    let link =
        Command::new(DAYTABLE).arg("open").arg("--data").arg(lake.place.data()).output().expect("daytable can be run");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let output = Command::new(installed("venv/bin/python"))
        .arg(root.join("tests/page/lake.py"))
        .arg(String::from_utf8_lossy(&link.stdout).trim())
        .arg(root.join("target/page"))
        .args([
            "2026-11-20T00:00:00Z",
            "2026-11-23T00:00:00Z",
            &expected.len().to_string(),
            "db-1",
            &of_host.to_string(),
        ])
        .output()
        .expect("python");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    daemon.stop();
}

/// The files of the others cannot be read, and nobody notices.
#[test]
fn a_question_of_grafana_about_one_host_opens_the_files_of_that_host() {
    let place = Place::new();
    let address = format!("file://{}", place.path("lake").display());
    let lake = Lake::new(&address, "table_format = \"delta\"\n");
    let files = files_below(&place.path("lake")).into_iter().map(|path| path.display().to_string());
    let others: Vec<String> = files.filter(|path| path.ends_with("quet") && !path.contains("log_host=db-1")).collect();
    assert!(others.len() > 1, "{others:?}");
    others.iter().for_each(|path| fs::write(path, "nothing").expect("written"));
    let daemon = serve(&lake, &address);
    let range = "limit=5000&step=3d&start=2026-11-20T00:00:00Z&end=2026-11-23T00:00:00Z";
    let ask = |route: &str, query: &str| {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02x}")).collect();
        over_unix(daemon.socket(), "GET", &format!("/loki/api/v1/{route}?query={encoded}&{range}"), "")
            .expect("an answer")
    };
    let expected = lake.expected().iter().filter(|record| record["log_host"] == "db-1").count();
    for selector in [
        r#"{log_host="db-1"}"#,
        r#"{log_host=~"db-.*"}"#,
        r#"{log_host!~"web-.*",instance=~".+"}"#,
        r#"{instance=~".+"} | log_host="db-1""#,
    ] {
        let answer = ask("query_range", selector);
        assert_eq!(answer.status, 200, "{selector}: {}", answer.body);
        let found: Value = serde_json::from_str(&answer.body).expect("JSON");
        let streams = found["data"]["result"].as_array().expect("streams");
        let count: usize = streams.iter().map(|stream| stream["values"].as_array().map_or(0, Vec::len)).sum();
        assert_eq!(count, expected, "{selector}: {found}");
        let sums = ask("query_range", &format!("sum(count_over_time({selector} [3d]))"));
        assert_eq!(sums.status, 200, "{selector}: {}", sums.body);
    }
    assert!(ask("query_range", r#"{log_host="web-1"}"#).status >= 500);
    daemon.stop();
}

#[test]
fn a_daytable_over_a_lake_answers_the_page_and_grafana_and_stores_nothing() {
    let place = Place::new();
    let address = format!("file://{}", place.path("lake").display());
    let lake = Lake::new(&address, "table_format = \"delta\"\n");
    let before = files_below(&place.path("lake"));
    let daemon = serve(&lake, &address);
    let get = |target: &str| {
        let answer = over_unix(daemon.socket(), "GET", target, "").expect("an answer");
        assert_eq!(answer.status, 200, "{target}: {}", answer.body);
        answer.body
    };
    let all = lake.expected();
    let of_host = |host: &str| all.iter().filter(|record| record["log_host"] == host).count();
    let rows = |body: &str| body.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect::<Vec<Value>>();
    assert!(get("/").contains("<html"));
    let expected: Vec<Value> = all.iter().filter(|record| record["log_host"] == "web-2").cloned().collect();
    assert_eq!(sorted(rows(&get("/api/query?q=log_host:=web-2&n=1000"))), sorted(expected));
    let tables = rows(&get("/api/tables"));
    assert_eq!(
        tables.iter().map(|table| text(&table["table"])).collect::<Vec<_>>(),
        ["Log20261120", "Log20261121", "Log20261122"]
    );
    assert_eq!(tables[0]["state"], "archived");
    let hits: Value = serde_json::from_str(&get("/api/hits?step=1d")).expect("JSON");
    assert!(hits.to_string().contains("2026-11-22"), "{hits}");

    let loki = |route: &str| serde_json::from_str::<Value>(&get(&format!("/loki/api/v1/{route}"))).expect("JSON");
    let range = "start=2026-11-20T00:00:00Z&end=2026-11-23T00:00:00Z";
    let labels = loki(&format!("labels?{range}"));
    assert!(labels["data"].as_array().expect("labels").contains(&json!("log_host")), "{labels}");
    let hosts = loki(&format!("label/log_host/values?{range}"));
    assert_eq!(hosts["data"], json!(["db-1", "web-1", "web-2"]));
    let found = loki(&format!("query_range?query=%7Blog_host%3D%22db-1%22%7D&limit=5000&{range}"));
    let streams = found["data"]["result"].as_array().expect("streams");
    let count: usize = streams.iter().map(|stream| stream["values"].as_array().map_or(0, Vec::len)).sum();
    assert_eq!(count, of_host("db-1"), "{found}");
    assert!(streams.iter().all(|stream| stream["stream"]["log_host"] == "db-1"), "{found}");

    // Nothing comes in, and nothing new can be waited for.
    for (method, target, status, reason) in [
        ("POST", "/insert/jsonline", 404, "stores nothing"),
        ("POST", "/loki/api/v1/push", 404, "stores nothing"),
        ("GET", "/api/tail", 409, "days are over"),
    ] {
        let answer = over_unix(daemon.socket(), method, target, "").expect("an answer");
        assert!(answer.status == status && answer.body.contains(reason), "{target}: {} {}", answer.status, answer.body);
    }
    lake.place.write("more.log", &lines("web-1", "20", 3));
    let more = lake.place.log("more.log").display().to_string();
    for args in [&["import", &more][..], &["archive", "Log20261120"], &["restore", "Log20261120"]] {
        let output = lake.place.ask(args[0], &args[1..]);
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && told.contains("stores nothing"), "{args:?}: {told}");
    }
    assert!(lake.place.said("open", &[]).contains("http"));
    assert_eq!(rows(&get("/api/query?q=*&n=1000")).len(), all.len());
    daemon.stop();
    assert_eq!(files_below(&place.path("lake")), before);

    // What asks for more than answers is refused, and so is a data folder with records for the socket.
    let data = lake.hosts[0].1.place.data().display().to_string();
    let tailing = lake.place.path("tailing.toml");
    fs::write(&tailing, "[[tail]]\nname = \"a\"\ninclude = [\"/var/log/a\"]\n[[forward]]\nto = \"https://b\"\ncredential_file = \"/etc/a\"\n")
        .expect("written");
    let tailing = tailing.display().to_string();
    for (args, reason) in [
        (&["--config", &tailing][..], "a block of a source, [[forward]]"),
        (&["--push", "open"], "http.push"),
        (&["--tail", "/var/log/*.log"], "a block of a source"),
        (&["--control", &data], "is a data folder with records"),
    ] {
        let mut command = Command::new(DAYTABLE);
        command.args(["run", "--lake", &address, "--listen", "127.0.0.1:0"]).args(args).env_remove("DAYTABLE_DATA");
        let output = command.env("HOME", lake.place.path("home")).output().expect("started");
        let told = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.code() == Some(64) && told.contains(reason), "{args:?}: {told}");
    }
}

/// Where each record names a host, or names it by a number, no record is of the host that archived it.
#[test]
fn a_host_that_no_record_needs_is_no_group() {
    let place = Place::new();
    let lake = place.path("lake");
    let host = Host::at("web-1", "table_format = \"delta\"\n", &format!("file://{}", lake.display()));
    for (day, named) in [("20", json!("proxy")), ("21", json!(7))] {
        let line =
            |n: usize| json!({"time": format!("2026-11-{day}T00:00:{n:02}Z"), "host": named, "n": n}).to_string();
        host.import(&format!("{day}.log"), &(0..40).map(line).collect::<Vec<_>>());
        host.archive(&format!("Log202611{day}"));
    }
    let lake = lake.display().to_string();
    let said = place.said("query", &["--lake", &lake, "--json", "* | stats by (host) count() n | sort by (n, host)"]);
    let found: Vec<Value> = said.lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    assert_eq!(found, [json!({"host": 7, "n": 40}), json!({"host": "proxy", "n": 40})]);
}
