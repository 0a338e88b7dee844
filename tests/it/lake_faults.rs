//! Lakes in stores that fail, hang, cut answers, or write over what is there; and how little is fetched of a large file.

use crate::archive::stub::{Fault, Request, Stub};
use crate::client::over_unix;
use crate::lake::Host;
use crate::place::{DAYTABLE, Place};
use std::fs;
use std::process::{Command, Output};
use std::sync::{Arc, Mutex};

/// A lake in the server, and who asks it.
struct Asker {
    place: Place,
    config: String,
}

impl Asker {
    fn new(stub: &Stub) -> Asker {
        let place = Place::new();
        let config = place.configure(&format!("[archives]\n{}", stub.keys(&place.path(""))));
        Asker { config: config.display().to_string(), place }
    }

    /// Asks without anything that was read before.
    fn ask(&self, command: &str, args: &[&str]) -> (Option<i32>, String, String) {
        let cache = self.place.path("cache");
        let _ = fs::remove_dir_all(&cache);
        let own = ["--lake", Stub::ADDRESS, "--config", &self.config, "--cache", cache.to_str().expect("a path")];
        let mut command = self.place.command(command);
        let Output { status, stdout, stderr } = command.args(own).args(args).output().expect("started");
        let [said, told] = [stdout, stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (status.code(), said, told)
    }

    fn count(&self, question: &str) -> u64 {
        let (code, said, told) = self.ask("count", &[question]);
        assert_eq!(code, Some(0), "{question}: {told}");
        said.trim().parse().expect("a number")
    }
}

fn lines(host: &str, count: usize) -> Vec<String> {
    (0..count).map(|n| format!("2026-11-20T10:{:02}:{:02}Z INFO request {n} of {host}", n / 60 % 60, n % 60)).collect()
}

/// A host that archives to the server, with records of a day.
fn host(stub: &Stub, name: &str, records: usize) -> (Place, Host) {
    let keys = Place::new();
    let host = Host::at(name, &format!("table_format = \"delta\"\n{}", stub.keys(&keys.path(""))), Stub::ADDRESS);
    host.import("a.log", &lines(name, records));
    (keys, host)
}

fn is_file_of(request: &Request, host: &str) -> bool {
    request.object.contains(&format!("log_host={host}/")) && request.object.ends_with(".parquet")
}

/// Where writers overwrite each other's versions, a day that was archived and dropped would leave the table in silence.
#[test]
fn a_store_that_writes_over_versions_gets_none() {
    let stub = Stub::start();
    let (_keys, web) = host(&stub, "web-1", 10);
    stub.ignore_conditions();
    let said = |output: Output| {
        let [said, told] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
        (output.status.success(), said + &told)
    };
    let reason =
        "s3://bucket/a cannot have a table: the store writes over an object that is to be written only if it is absent";
    for (command, args) in [
        ("archive", &["--config", &web.config, "Log20261120"][..]),
        ("check", &["--config", &web.config, "--access"]),
        ("doctor", &["--config", &web.config]),
    ] {
        let mut asked = Command::new(DAYTABLE);
        asked.arg(command).args(args).env_remove("DAYTABLE_DATA");
        let (is_good, text) = said(asked.output().expect("started"));
        assert!(!is_good && text.contains(reason) && text.contains("table_format = \"none\""), "{command}: {text}");
    }
    let names = stub.objects();
    assert!(names.iter().all(|name| !name.contains("_delta_log") && !name.contains("probe")), "{names:?}");
    // Days are archived there without a table.
    let text = fs::read_to_string(&web.config).expect("read");
    fs::write(&web.config, text.replace("\"delta\"", "\"none\"")).expect("written");
    web.archive("Log20261120");
    assert_eq!(Asker::new(&stub).count("*"), 10);
    let (_, text) = said(web.place.ask("check", &[]));
    assert!(!text.contains(reason), "{text}");
}

/// One file of two cannot be read: it is named, the other is answered, and no answer looks whole.
#[test]
fn a_file_that_a_store_does_not_give_is_missing_from_every_answer() {
    let stub = Stub::start();
    let (_keys, _hosts) = (0..2).map(|n| host(&stub, ["web-1", "db-1"][n], 30)).unzip::<_, _, Vec<_>, Vec<_>>();
    for host in &_hosts {
        host.archive("Log20261120");
    }
    let asker = Asker::new(&stub);
    assert_eq!((asker.count("*"), asker.count("log_host:=db-1")), (60, 30));
    for (fault, reason) in [
        (Fault::Status(503), "503"),
        (Fault::GivesLess, "does not answer as it should"),
        (Fault::SaysLess, "bytes"),
        (Fault::GivesOther, ""),
        (Fault::Status(404), "is not there"),
        (Fault::Silence, "does not answer as it should"),
    ] {
        stub.wrong(move |_, request| is_file_of(request, "db-1").then_some(fault));
        let (code, said, told) = asker.ask("query", &["--format", "text"]);
        assert_eq!(code, Some(75), "{fault:?}: {told}");
        assert!(
            told.contains("missing from this answer: Log20261120 of db-1: ") && told.contains(reason),
            "{fault:?}: {told}"
        );
        assert_eq!((said.lines().count(), said.contains("of db-1")), (30, false), "{fault:?}: {said}");
        let (code, said, told) = asker.ask("count", &["log_host:=web-1"]);
        assert_eq!((code, said.trim()), (Some(0), "30"), "{fault:?}: {told}");
        if fault == Fault::Silence {
            continue;
        }
        let (code, said, told) = asker.ask("count", &["* | stats by (log_host) count() n"]);
        assert_eq!(code, Some(75), "{fault:?}: {said}{told}");
    }

    // The same over HTTP and for Grafana.
    stub.right();
    let cache = asker.place.path("cache");
    for fault in [Fault::Status(503), Fault::SaysLess, Fault::Silence] {
        stub.wrong(move |_, request| is_file_of(request, "db-1").then_some(fault));
        let _ = fs::remove_dir_all(&cache);
        let mut command = Command::new(DAYTABLE);
        command.args(["run", "--config", &asker.config, "--lake", Stub::ADDRESS, "--control"]).arg(asker.place.data());
        command.arg("--cache").arg(&cache);
        let daemon = asker.place.spawn_command(command);
        daemon.wait_ready();
        let range = "start=2026-11-20T00:00:00Z&end=2026-11-21T00:00:00Z";
        let selected = format!("/loki/api/v1/query_range?query=%7Blog_host%3D~%22.%2B%22%7D&limit=5000&{range}");
        for (target, is_loki) in [("/api/query?n=1000&q=*", false), (selected.as_str(), true)] {
            let answer = over_unix(daemon.socket(), "GET", target, "").expect("an answer");
            let body = answer.body;
            assert!(body.contains("missing from this answer: Log20261120 of db-1"), "{fault:?}: {target}: {body}");
            assert!(!is_loki || answer.status >= 500, "{fault:?}: {} {body}", answer.status);
        }
        let whole = over_unix(daemon.socket(), "GET", "/api/query?n=1000&q=log_host:=web-1", "").expect("an answer");
        assert_eq!((whole.status, whole.body.lines().count()), (200, 30), "{}", whole.body);
        daemon.stop();
    }
}

/// Of a large file, what one instance wrote in a minute is a small part, and what is in no record is told by the filters.
#[test]
fn little_is_fetched_of_a_large_file() {
    const INSTANCES: usize = 12;
    const RECORDS: usize = 6000;
    let stub = Stub::start();
    let (_keys, web) = host(&stub, "web-1", 1);
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    for instance in 0..INSTANCES {
        let line = |n: usize| {
            let noise: String = (0..8)
                .map(|_| {
                    state ^= state << 13;
                    state ^= state >> 7;
                    state ^= state << 17;
                    format!("{state:016x}")
                })
                .collect();
            format!("2026-11-20T{:02}:{:02}:{:02}Z INFO request {noise}", 11 + n / 3600, n / 60 % 60, n % 60)
        };
        let name = format!("i{instance}");
        web.place.write(&name, &(0..RECORDS).map(line).collect::<Vec<_>>());
        let path = web.place.log(&name).display().to_string();
        web.place.said("import", &["--config", &web.config, "--instance", &name, &path]);
    }
    web.archive("Log20261120");
    let file = stub.objects().into_iter().find(|name| name.ends_with(".parquet") && !name.contains("checkpoint"));
    let size = stub.kept(&file.expect("a file")).expect("its bytes").len();
    assert!(size > 3 << 20, "{size}");
    let asker = Asker::new(&stub);
    let asked = |question: &str| {
        let ranges = Arc::new(Mutex::new(Vec::new()));
        let seen = ranges.clone();
        stub.wrong(move |_, request| {
            if request.object.ends_with(".parquet") && request.method == "GET" {
                seen.lock().expect("not poisoned").extend(request.range);
            }
            None
        });
        let found = asker.count(question);
        let ranges = std::mem::take(&mut *ranges.lock().expect("not poisoned"));
        let bytes: usize = ranges.iter().map(|(from, to)| to - from).sum();
        (found, bytes, ranges)
    };
    let (found, bytes, ranges) = asked("instance:=i7 _time:2026-11-20T11:07");
    assert_eq!(found, 60);
    assert!(bytes * 4 < size, "{bytes} of {size}: {ranges:?}");
    let (found, filters, ranges) = asked("nowhereinthelake");
    assert_eq!(found, 0);
    assert!(filters * 4 < size && filters <= bytes, "{filters} of {size}: {ranges:?}");
    // Nothing before what stands behind the rows.
    let first = ranges.iter().map(|(from, _)| *from).min().expect("a request");
    assert!(size - first <= filters, "{ranges:?}");
    let (found, all, _) = asked("request");
    assert_eq!(found, (INSTANCES * RECORDS + 1) as u64);
    assert!(all > bytes && all > filters, "{all} {bytes} {filters}");
}
