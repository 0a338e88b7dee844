//! The page, in a real browser and from the outside.
//!
//! `tests/page/browser.py` drives Chromium over the records of `tests/page/corpus.py`, `kinds.py` over five kinds of logs, and `digits.py` over numbers
//! of all sizes (`lake.py`: over a lake); all leave screenshots in `target/page`. `modules.mjs` tests modules without a browser. With `DAYTABLE_WRITE_DOCS=1` one of them becomes the picture of the guide.

use crate::client::{Answer, over, over_tcp};
use crate::place::{DAYTABLE, Daemon, PATIENCE, Place, installed, wait_for};
use daytable_model::time::{self, Ticks};
use daytable_parse::Zone;
use serde_json::Value;
use std::fs;
use std::net::{SocketAddr, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

/// Records that the corpus is made of; it leaves some out.
const RECORDS: &str = "12000";

fn config(place: &Place) -> String {
    let token = place.path("token");
    fs::write(&token, "s3cret\n").expect("written");
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).expect("set");
    let http = format!("[http]\nlisten = \"127.0.0.1:0\"\ntoken_file = \"{}\"\n", token.display());
    let alert = "[[alert]]\nname = \"Alarm\"\nquery = \"\\\"alarm-of-the-page\\\"\"\nby = [\"instance\"]\nabove = 0\nevery = \"1s\"\n\
                 annotations = { summary = \"{instance} raised an alarm\" }\n";
    http + "[[tail]]\ninclude = [\"LOGS/*.log\"]\ninstance = \"{field:host}\"\n" + alert
}

fn python(script: &str) -> Command {
    let mut command = Command::new(installed("venv/bin/python"));
    command.arg(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/page").join(script));
    command
}

/// A host with one record, which it forwards to the daemon of `place`.
fn host_of(place: &Place) -> (Place, Daemon) {
    let said = Command::new(DAYTABLE).args(["hosts", "invite", "web-9", "--data"]).arg(place.data()).output();
    let said = String::from_utf8(said.expect("daytable can be run").stdout).expect("text");
    let words: Vec<&str> = said.split_whitespace().collect();
    let (host, file) = (Place::new(), place.path("host.toml"));
    let logs = "[[tail]]\ninclude = [\"LOGS/*.log\"]\n".replace("LOGS", &host.path("logs").display().to_string());
    let config =
        format!("data_dir = \"{}\"\nhost = \"web-9\"\n[http]\nlisten = \"off\"\n{logs}", host.data().display());
    host.write("web.log", &[format!("{} INFO a record of web-9", time::now())]);
    fs::write(&file, config).expect("written");
    let joined =
        Command::new(DAYTABLE).args(&words[1..]).arg("--config").arg(&file).output().expect("daytable can be run");
    assert!(joined.status.success(), "{joined:?}");
    let mut command = Command::new(DAYTABLE);
    command.arg("run").arg("--config").arg(&file);
    let daemon = host.spawn_command(command);
    wait_for("the record of the host is here", PATIENCE, || {
        (place.json("count", &["log_host:=web-9"]).first()?["records"] == 1).then_some(())
    });
    (host, daemon)
}

#[test]
fn the_page_in_chromium() {
    let place = Place::new();
    let daemon = place.start_with(&config(&place));
    let (_host, forwarding) = host_of(&place);
    let made = python("corpus.py").arg(place.path("logs")).arg(RECORDS).output().expect("python");
    let records: u64 = String::from_utf8_lossy(&made.stdout).trim().parse().expect("a number");
    wait_for("the records are committed", PATIENCE, || {
        let count = place.json("count", &["-log_host:*"]);
        (count.first()?["records"].as_u64()? == records).then_some(())
    });
    let link = place.said("open", &[]);
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/page");
    let axe = installed("node/node_modules/axe-core/axe.min.js");
    let mut browser = python("browser.py");
    let output = browser.args([link.trim(), "s3cret"]).arg(&target).arg(axe).output().expect("python");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    forwarding.stop();
    daemon.stop();
    if std::env::var_os("DAYTABLE_WRITE_DOCS").is_some() {
        take_pictures();
    }
}

/// The pictures of the guide and the README, of ordinary logs.
fn take_pictures() {
    let place = Place::new();
    let daemon = place.start_with(&config(&place));
    let made = python("corpus.py").arg(place.path("logs")).args([RECORDS, "plain"]).output().expect("python");
    let records: u64 = String::from_utf8_lossy(&made.stdout).trim().parse().expect("a number");
    wait_for("the records are committed", PATIENCE, || {
        (place.json("count", &[]).first()?["records"].as_u64()? == records).then_some(())
    });
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/guide");
    let output = python("picture.py").arg(place.said("open", &[]).trim()).arg(folder).output().expect("python");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    daemon.stop();
}

/// Records of each kind of log; the kinds differ in what tells their records apart.
const KIND: u64 = 2000;

/// What the page says of access logs, JSON, traces, syslog and a database.
#[test]
fn kinds_of_logs_in_chromium() {
    let place = Place::new();
    let made = python("corpus.py").arg(place.path("logs")).args([&KIND.to_string(), "kinds"]).output().expect("python");
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let saved = "[[query]]\nname = \"Slow <requests>\"\nquery = \"duration_ms:>60\"\nsince = \"48h\"\ncolumns = [\"path\", \"duration_ms\"]\n\
                 about = \"Requests that somebody waited for\"\n";
    let http = "[http]\nlisten = \"127.0.0.1:0\"\n";
    let daemon = place.start_with(&format!("{http}[[tail]]\ninclude = [\"LOGS/*.log\"]\n{saved}"));
    // Each file ends with a record of one line.
    for (file, records) in
        [("nginx-access", KIND), ("app", KIND), ("java", KIND), ("syslog", KIND), ("postgresql", KIND), ("single", 1)]
    {
        wait_for("the records are committed", PATIENCE, || {
            let count = place.json("count", &[&format!("source:\"{file}.log\"")]);
            (count.first()?["records"].as_u64()? >= records).then_some(())
        });
    }
    let link = place.said("open", &[]);
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/page");
    let axe = installed("node/node_modules/axe-core/axe.min.js");
    let mut browser = python("kinds.py");
    let output = browser.arg(link.trim()).arg(place.path("logs")).arg(&target).arg(axe).output().expect("python");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    daemon.stop();
}

/// Every number of every view is that of the API; and the page, the terminal, the API and Loki agree, also on random questions
/// (`TESTS_SEED` chooses others).
#[test]
fn numbers_of_the_page_in_chromium() {
    let place = Place::new();
    let daemon = place.start_with(&config(&place));
    let link = place.said("open", &[]);
    let target = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/page");
    let mut browser = python("digits.py");
    let output = browser.args([link.trim(), "s3cret"]).arg(&target).arg(DAYTABLE).arg(place.data()).output();
    let output = output.expect("python");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{said}");
    daemon.stop();
}

fn node(arguments: &[&str]) -> Command {
    let page = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut command = Command::new("node");
    command.arg(page.join("tests/page/modules.mjs")).arg(page.join("src/page")).args(arguments);
    command
}

#[test]
fn the_modules_keep_what_they_promise() {
    let output = node(&[]).output().expect("node");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Days, weeks and hours begin in the page where the API lets them begin, whatever clocks do.
#[test]
fn steps_of_the_page_are_those_of_the_daemon() {
    let ranges = [("2026-03-07", 3), ("2026-03-28", 3), ("2026-04-03", 3), ("2026-10-02", 3), ("2026-10-24", 16)];
    for name in ["UTC", "Europe/Berlin", "America/Havana", "Australia/Lord_Howe", "Asia/Kolkata", "America/St_Johns"] {
        let clock = name.parse::<Zone>().expect("a zone").clock();
        for (from, days) in ranges {
            let from = chrono::NaiveDate::parse_from_str(from, "%Y-%m-%d").expect("a date").and_hms_opt(0, 0, 0);
            let from = from.expect("a time").and_utc().timestamp();
            let to = from + days * 86_400;
            let output = node(&["steps", &format!("{from}000"), &format!("{to}000")]).env("TZ", name).output();
            let of_page: Vec<(u64, Vec<i64>)> =
                serde_json::from_slice(&output.expect("node").stdout).expect("steps of the page");
            assert!(!of_page.is_empty());
            for (step, starts) in of_page {
                let step = Duration::from_secs(step);
                let mut start = clock.step_start(Ticks::from_unix(from, 0).expect("a time"), step);
                let mut of_daemon = Vec::new();
                while start.unix_seconds() < to {
                    of_daemon.push(start.unix_seconds());
                    start = clock.step_after(start, step);
                }
                assert_eq!(starts, of_daemon, "{name}, {step:?} from {from}");
            }
        }
    }
}

/// The modules are JavaScript with types in comments.
#[test]
fn the_types_of_the_page_hold() {
    let mut check = Command::new(installed("node/node_modules/.bin/tsc"));
    let output = check.arg("-p").arg("tests/page").current_dir(env!("CARGO_MANIFEST_DIR")).output().expect("tsc");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}

#[test]
fn a_link_lets_one_browser_read() {
    let place = Place::new();
    let daemon = place.start();
    let get = |target: &str, headers: &str| over_tcp(daemon.address(), "GET", target, headers).expect("an answer");
    let page = get("/", "");
    assert_eq!(page.status, 200);
    assert!(page.head.contains("content-security-policy: default-src 'none';"), "{}", page.head);
    assert!(page.body.contains("/page/page.js") && !page.body.contains("<script>"), "{}", page.body);
    let etag = page.head.lines().find_map(|line| line.strip_prefix("etag: ")).expect("an etag").to_owned();
    assert_eq!(get("/", &format!("If-None-Match: {}\r\n", etag.replace("w/", "W/"))).status, 304);
    assert_eq!(get("/api/tables", "").status, 403, "no token, no cookie");

    let link: Value = serde_json::from_str(&place.said("open", &["--json"])).expect("JSON");
    let link = link["url"].as_str().expect("a link").to_owned();
    let path = link.strip_prefix(&format!("http://{}", daemon.address())).expect("of this daemon").to_owned();
    let opened = get(&path, "");
    assert_eq!((opened.status, cookie(&opened).is_some()), (303, true), "{}", opened.head);
    assert!(opened.head.contains("; httponly; samesite=strict;"), "{}", opened.head);
    let with_cookie = format!("Cookie: {}\r\n", cookie(&opened).expect("a cookie"));
    assert_eq!(get("/api/tables", &with_cookie).status, 200);
    assert_eq!(get("/api/tables", &format!("{with_cookie}Sec-Fetch-Site: cross-site\r\n")).status, 403);
    let reload = over_tcp(daemon.address(), "POST", "/-/reload", &format!("{with_cookie}Content-Length: 0\r\n"));
    assert_eq!(reload.expect("an answer").status, 403, "a cookie is for reading only");
    let again = get(&path, "");
    assert_eq!((again.status, cookie(&again)), (410, None), "a link works once");
    assert!(get("/api/tables", &with_cookie).head.contains("cache-control: no-store"));
    let ended = post(daemon.address(), "DELETE", &with_cookie, "");
    assert_eq!(ended.status, 204);
    assert_eq!(get("/api/tables", &with_cookie).status, 403, "signed out");
    let elsewhere = place.said("open", &["--url", "https://logs.example/"]);
    assert!(elsewhere.starts_with("https://logs.example/open/"), "{elsewhere}");
    daemon.stop();
    let stopped = place.ask("open", &[]);
    assert!(String::from_utf8_lossy(&stopped.stderr).contains("no daemon runs on"), "{stopped:?}");
}

#[test]
fn the_token_begins_a_session() {
    let place = Place::new();
    let daemon = place.start_with(&config(&place));
    let wrong = post(daemon.address(), "POST", "", r#"{"token":"guess"}"#);
    assert_eq!((wrong.status, cookie(&wrong)), (401, None));
    let right = post(daemon.address(), "POST", "", r#"{"token":"s3cret"}"#);
    assert_eq!(right.status, 204);
    let header = format!("Cookie: {}\r\n", cookie(&right).expect("a cookie"));
    let tables = || over_tcp(daemon.address(), "GET", "/api/tables", &header).expect("an answer").status;
    assert_eq!(tables(), 200);
    // Another token ends the sessions of this one.
    fs::write(place.path("token"), "an0ther\n").expect("written");
    place.said("reload", &[]);
    assert_eq!(tables(), 401);
    daemon.stop();
}

fn post(address: SocketAddr, method: &str, headers: &str, body: &str) -> Answer {
    let stream = TcpStream::connect(address).expect("connected");
    over(stream, method, "/page/session", headers, body.as_bytes()).expect("an answer")
}

/// The cookie of a response, as a request sends it. A value is hex, so lower case changes nothing.
fn cookie(answer: &Answer) -> Option<String> {
    let line = answer.head.lines().find_map(|line| line.strip_prefix("set-cookie: "))?;
    line.split(';').next().map(str::to_owned)
}
