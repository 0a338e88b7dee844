//! After an outage the newest records go first, and the backlog beside them. Everything is there once in the end, whatever is
//! killed, repeated or put back between.

use super::gate::Gate;
use super::*;
use std::time::Instant;

/// Commits of the outage, about, with the lines of each.
const COMMITS: usize = 80;
const LINES: usize = 10;
/// All lines of the outage.
const ALL: usize = COMMITS * LINES;
/// How long the oldest record has waited.
const OUTAGE: Duration = Duration::from_millis(10_500);

/// A central daytable that was away, and a host that has waited for it. Both are stopped.
struct Outage {
    central: Central,
    host: Host,
    /// Keeps the file that was read.
    log: std::path::PathBuf,
}

impl Outage {
    fn new() -> Outage {
        let central = Central::new();
        let running = central.start();
        let host = Host::joined(&central, "web-1");
        running.stop();
        configure(&host, &central.url());
        let daemon = host.start();
        let (log, mut begun) = (host.place.log("app.log"), None);
        for n in 0..COMMITS {
            host.write("app.log", &lines("outage", n * LINES..(n + 1) * LINES));
            // Each is a commit.
            let records = ((n + 1) * LINES) as u64;
            wait_for("read", PATIENCE, || (stored_at(&host) == records).then_some(()));
            begun.get_or_insert_with(Instant::now);
        }
        std::thread::sleep(OUTAGE.saturating_sub(begun.map_or(Duration::ZERO, |begun| begun.elapsed())));
        daemon.stop();
        Outage { central, host, log }
    }

    /// Both sides as they are now, each in a place of its own, with a gate between.
    fn copy(&self) -> (Central, Host, Gate) {
        let (central, host) = (Central::new(), Host::new("web-1"));
        copy_folder(&self.central.place.data(), &central.place.data());
        copy_folder(&self.host.place.data(), &host.place.data());
        fs::copy(self.host.place.path("forward"), host.place.path("forward")).expect("the credential");
        let gate = Gate::new(central.port);
        configure(&host, &gate.url());
        (central, host, gate)
    }

    /// Asserts that the file comes back from the central, byte for byte.
    fn assert_file(&self, central: &Central) {
        let out = central.place.path("exported");
        let source = self.log.display().to_string();
        central.place.said("export", &["--raw", "--source", &source, "--output", &out.display().to_string()]);
        assert!(fs::read(&self.log).expect("the file") == fs::read(&out).expect("the copy"));
    }
}

fn configure(host: &Host, to: &str) {
    let credential = host.place.path("forward");
    let forward = format!("[[forward]]\nto = \"{to}\"\ncredential_file = \"{}\"\n", credential.display());
    let store = "[store]\ncommit_interval = \"20ms\"\n";
    fs::write(host.file(), host.base() + store + &forward).expect("a configuration");
}

/// Records that a host has.
fn stored_at(host: &Host) -> u64 {
    let counts = host.place.ask("count", &["--json"]);
    let counts = String::from_utf8_lossy(&counts.stdout).into_owned();
    let count = |line: &str| serde_json::from_str::<Value>(line).ok()?["records"].as_u64();
    counts.lines().filter_map(count).sum()
}

/// Records of the central with a text.
fn count(central: &Central, text: &str) -> usize {
    central.place.json("query", &["--contains", text, "-n", "100000"]).len()
}

fn commands(central: &Central) -> (Option<i32>, String) {
    let output = central.place.ask("verify", &["--fleet"]);
    (output.status.code(), String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

#[test]
fn what_happens_now_is_there_before_the_backlog() {
    let outage = Outage::new();
    let (central, host, gate) = outage.copy();
    // The head may need two requests, and they take turns with those of the backlog.
    gate.permit(1);
    let (running, daemon) = (central.start(), host.start());
    let last = format!("outage number {} ", ALL - 1);
    wait_for("the newest record of the outage", PATIENCE, || (count(&central, &last) == 1).then_some(()));
    assert!(count(&central, "outage number") < ALL, "the backlog is held");
    let listed = wait_for("the host says so", PATIENCE, || {
        central.host("web-1").filter(|host| host["backlog_records"].as_u64() > Some(0))
    });
    assert!(listed["backlog_records"].as_u64() <= listed["behind_records"].as_u64(), "{listed}");
    let said = central.place.said("hosts", &[]);
    assert!(said.contains("the newest are here"), "{said}");
    // What the host gets now is sent between two requests of the backlog.
    host.write("now.log", &lines("now", 0..5));
    wait_for("read", PATIENCE, || (host.place.try_records().len() == ALL + 5).then_some(()));
    gate.permit(1);
    wait_for("a record of now", PATIENCE, || (count(&central, "now number") == 5).then_some(()));
    let lacking = ALL - count(&central, "outage number");
    assert!(lacking > 0, "the backlog is there");
    // The host drops no day before all of it is there.
    let table = host.place.json("tables", &[])[0]["table"].as_str().expect("a table").to_owned();
    let refused = host.place.ask("archive", &[&table]);
    assert!(!refused.status.success() && String::from_utf8_lossy(&refused.stderr).contains("forwarded"), "{refused:?}");
    // A request for the head that arrives again.
    let passed = gate.passed();
    let head = passed.iter().rfind(|passed| passed.mode == "commits" && !passed.is_backlog && passed.status == 200);
    let head = head.expect("a request for the head");
    let received = |central: &Central| central.host("web-1").expect("a host")["records"].as_u64();
    let before = received(&central);
    assert_eq!((gate.repeat(head), received(&central)), (200, before), "it was stored");
    let open = passed.iter().find(|passed| passed.mode == "open_head").expect("a head");
    assert_eq!(gate.repeat(open), 409, "it was opened before");
    // A comparison waits until there is one interval.
    let verified = std::thread::scope(|scope| {
        let verified = scope.spawn(|| commands(&central));
        gate.open();
        wait_for_all(&central, &[&host], ALL + 5);
        verified.join().expect("no panic")
    });
    assert_eq!(verified, (Some(0), format!("whole: 1 host, {} records", ALL + 5)));
    for old in [open, head] {
        gate.repeat(old);
    }
    assert_eq!(received(&central), Some((ALL + 5) as u64), "each was received once");
    assert!(gate.passed().iter().all(|passed| passed.mode == "commits" || passed.mode == "open_head"), "none compared");
    outage.assert_file(&central);
    wait_for("nothing is behind", PATIENCE, || {
        central.host("web-1").filter(|host| host["behind_records"] == 0 && host["backlog_records"] == 0)
    });
    daemon.stop();
    running.stop();
    wait_for_all(&central, &[&host], ALL + 5);
}

/// The point of a kill, and whether the central is killed there.
type Kill = (&'static str, bool);

const KILLS: [Kill; 17] = [
    ("forward-received:1", true),
    ("forward-received:2", true),
    ("forward-received-join", true),
    ("commit-between:1", true),
    ("commit-between:2", true),
    ("commit-between:3", true),
    ("commit-after:1", true),
    ("commit-after:2", true),
    ("forward-stored:1", true),
    ("forward-stored:3", true),
    ("forward-stored-join", true),
    ("forward-sent:1", false),
    ("forward-sent:2", false),
    ("forward-sent:3", false),
    ("forward-sent:4", false),
    ("forward-before-join", false),
    ("forward-after-join", false),
];

#[test]
fn a_kill_between_the_steps_of_a_head_neither_loses_nor_repeats() {
    let outage = Outage::new();
    let next = std::sync::atomic::AtomicUsize::new(0);
    let work = || {
        while let Some(kill) = KILLS.get(next.fetch_add(1, std::sync::atomic::Ordering::Relaxed)) {
            killed(&outage, *kill);
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..3 {
            scope.spawn(work);
        }
    });
}

fn killed(outage: &Outage, (point, at_central): Kill) {
    let (central, host, gate) = outage.copy();
    let later = || host.write("later.log", &lines("later", 0..20));
    let (again, other) = killed_and_started(&central, &host, (point, at_central), later);
    wait_for_all(&central, &[&host], ALL + 20);
    let passed = gate.passed();
    assert!(passed.iter().any(|passed| passed.mode == "open_head"), "{point}: the newest went first");
    assert!(passed.iter().all(|passed| passed.mode != "adopt"), "{point}: nothing had to be compared");
    again.stop();
    other.stop();
    wait_for_all(&central, &[&host], ALL + 20);
    outage.assert_file(&central);
}

/// Starts both sides, and returns once the central has a head and the first requests of the backlog.
fn begun(central: &Central, host: &Host, gate: &Gate) -> (Daemon, Daemon) {
    gate.permit(2);
    let (running, daemon) = (central.start(), host.start());
    let last = format!("outage number {} ", ALL - 1);
    wait_for("the newest record", PATIENCE, || (count(central, &last) == 1).then_some(()));
    wait_for("the oldest record", PATIENCE, || (count(central, "outage number 0 ") == 1).then_some(()));
    (running, daemon)
}

#[test]
fn a_host_that_always_has_something_new_sends_its_backlog_as_well() {
    let outage = Outage::new();
    let (central, host, gate) = outage.copy();
    let (running, daemon) = begun(&central, &host, &gate);
    let is_over = std::sync::atomic::AtomicBool::new(false);
    let written = std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            // Bounded, so that a failure below ends it as well.
            let is_next = |_: &usize| !is_over.load(std::sync::atomic::Ordering::Relaxed);
            let written = (0..20_000).take_while(is_next).map(|n| {
                host.write("busy.log", &lines("busy", n..n + 1));
                std::thread::sleep(Duration::from_millis(5));
            });
            written.count()
        });
        gate.open();
        daemon.wait_said("the backlog is forwarded");
        assert_eq!(count(&central, "outage number"), ALL);
        is_over.store(true, std::sync::atomic::Ordering::Relaxed);
        writer.join().expect("no panic")
    });
    assert!(written > 0);
    wait_for_all(&central, &[&host], ALL + written);
    daemon.stop();
    running.stop();
}

#[test]
fn a_central_that_is_put_back_to_two_intervals_asks_for_what_it_lacks() {
    let outage = Outage::new();
    let (central, host, gate) = outage.copy();
    let (running, daemon) = begun(&central, &host, &gate);
    running.stop();
    let backup = central.place.path("backup");
    copy_folder(&central.place.data(), &backup);
    let running = central.start();
    gate.open();
    host.write("now.log", &lines("now", 0..30));
    wait_for_all(&central, &[&host], ALL + 30);
    running.stop();
    fs::remove_dir_all(central.place.data()).expect("lost");
    fs::rename(&backup, central.place.data()).expect("put back");
    let running = central.start();
    host.write("now.log", &lines("later", 0..30));
    wait_for_all(&central, &[&host], ALL + 60);
    outage.assert_file(&central);
    assert_eq!(commands(&central).0, Some(0));
    daemon.stop();
    running.stop();
    wait_for_all(&central, &[&host], ALL + 60);
}

#[test]
fn a_host_that_is_put_back_while_there_are_two_intervals_goes_on() {
    let outage = Outage::new();
    let (central, host, gate) = outage.copy();
    // Before anything of the head: other commits get the same numbers.
    let backup = host.place.path("backup");
    copy_folder(&host.place.data(), &backup);
    let daemon = host.start();
    host.write("since.log", &lines("since", 0..400));
    wait_for("read", PATIENCE, || (host.place.try_records().len() == ALL + 400).then_some(()));
    daemon.stop();
    gate.permit(2);
    let (running, daemon) = (central.start(), host.start());
    wait_for("the newest record", PATIENCE, || (count(&central, "since number 399 ") == 1).then_some(()));
    daemon.stop();
    fs::remove_dir_all(host.place.data()).expect("lost");
    fs::rename(&backup, host.place.data()).expect("put back");
    gate.open();
    // The lines since then are read again, in other commits, and have the same keys.
    for n in 0..20 {
        append(&host.place.log("other.log"), format!("2026-11-27T10:00:00Z INFO other number {n}\n").as_bytes());
    }
    let daemon = host.start();
    wait_for_all(&central, &[&host], ALL + 420);
    let passed = gate.passed();
    assert!(passed.iter().any(|passed| passed.mode == "adopt"), "the ends of the head are not those of this folder");
    outage.assert_file(&central);
    daemon.stop();
    running.stop();
    wait_for_all(&central, &[&host], ALL + 420);
}

#[test]
fn of_a_key_that_is_written_again_the_later_record_counts() {
    let outage = Outage::new();
    let (central, host, gate) = outage.copy();
    let (running, daemon) = begun(&central, &host, &gate);
    daemon.stop();
    gate.widen();
    // The positions of the files are lost, and their lines are read again by another rule: other content of the same keys.
    let catalog = rusqlite::Connection::open(host.place.data().join("catalog.db")).expect("a catalog");
    catalog.execute_batch("DELETE FROM source; DELETE FROM source_log").expect("forgotten");
    drop(catalog);
    let config = fs::read_to_string(host.file()).expect("a configuration");
    let [own, first] = [&host, &outage.host].map(|host| host.place.path("logs").display().to_string());
    let redact = "redact = [{ name = \"took\", regex = 'took=(\\d+)', replace = \"0\" }]\n";
    fs::write(host.file(), redact.to_owned() + &config.replace(&own, &first)).expect("written");
    let daemon = host.start();
    let is_again = |record: &Value| {
        record["took"] == "0ms" || record["message"].as_str().is_some_and(|said| said.contains("took=0ms"))
    };
    wait_for("read again", PATIENCE, || {
        let records = host.place.records();
        (records.len() == ALL && records.iter().all(is_again)).then_some(())
    });
    gate.open();
    // Only pages that were compared have the later records.
    wait_for("pages are compared", PATIENCE, || {
        gate.passed().iter().any(|passed| passed.mode == "adopt").then_some(())
    });
    wait_for("one interval", PATIENCE, || {
        central.host("web-1").filter(|host| host["behind_records"] == 0 && host["backlog_records"] == 0)
    });
    wait_for("the later records", PATIENCE, || central.place.records().iter().all(is_again).then_some(()));
    wait_for_all(&central, &[&host], ALL);
    assert_eq!(commands(&central), (Some(0), format!("whole: 1 host, {ALL} records")));
    daemon.stop();
    running.stop();
}

#[test]
fn a_page_that_is_damaged_at_the_host_does_not_stop_the_others() {
    let outage = Outage::new();
    let (central, host, gate) = outage.copy();
    gate.widen();
    let day = host.place.data().join("tables").join(day_file(&host));
    let file = rusqlite::Connection::open(&day).expect("a day");
    // Pages may have been merged meanwhile, so their numbers have gaps.
    let damage = "UPDATE body SET bytes = zeroblob(length(bytes))
         WHERE id = 4096 * (SELECT id FROM page ORDER BY id LIMIT 1 OFFSET (SELECT count(*) / 2 FROM page))
         RETURNING id / 4096";
    let page: i64 = file.query_row(damage, [], |row| row.get(0)).expect("damaged");
    let records: u32 =
        file.query_row("SELECT records FROM page WHERE id = ?1", [page], |row| row.get(0)).expect("a page");
    drop(file);
    let (running, daemon) = (central.start(), host.start());
    let wanted = ALL - records as usize;
    wait_for("all others", PATIENCE, || (count(&central, "outage number") == wanted).then_some(()));
    host.write("now.log", &lines("now", 0..5));
    wait_for("what comes later", PATIENCE, || (count(&central, "now number") == 5).then_some(()));
    assert!(daemon.said().contains("a page is damaged"));
    central.place.assert_no_key_twice();
    daemon.stop();
    running.stop();
}

/// The name of the file of the only day with records. Days that may get some have files, too.
fn day_file(host: &Host) -> String {
    let entries =
        fs::read_dir(host.place.data().join("tables")).expect("a folder").map(|entry| entry.expect("an entry"));
    let files = entries.map(|entry| (entry.metadata().expect("a file").len(), entry.file_name()));
    let days = files.map(|(bytes, name)| (bytes, name.to_string_lossy().into_owned()));
    days.filter(|(_, name)| name.ends_with(".db")).max().expect("a day").1
}
