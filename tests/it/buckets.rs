//! A throttled instance is spread over more partitions, from a record time on. Every row is there once, even if the
//! host loses its folder and reads its files again.
//!
//! The records are of yesterday, a second apart, so that the records' time passes faster than the test's.

use crate::azure::emulator::Azurite;
use crate::azure::proxy::{Asked, Fault, Proxy};
use crate::client;
use crate::place::{Daemon, PATIENCE, Place, wait_for};
use serde_json::Value;
use std::collections::{BTreeMap, HashMap};
use std::fs;
use std::time::{Duration, Instant};

/// Rows per second that a partition accepts here, and the size of a burst.
const RATE: f64 = 40.0;
const BURST: f64 = 120.0;

/// A host, its log files, and the service behind a proxy.
struct Stage {
    place: Place,
    azurite: Azurite,
    proxy: Proxy,
    lines: Vec<String>,
    table: String,
}

impl Stage {
    fn new() -> Stage {
        let (azurite, place) = (Azurite::start(), Place::new());
        let proxy = Proxy::start(azurite.port);
        fs::write(place.path("azure"), proxy.connection_string()).expect("written");
        let yesterday = (chrono::Utc::now() - chrono::Duration::days(1)).format("Log%Y%m%d").to_string();
        Stage { place, azurite, proxy, lines: Vec::new(), table: yesterday }
    }

    fn config(&self) -> String {
        let secret = self.place.path("azure").display().to_string();
        format!(
            "[[tail]]\ninclude = [\"LOGS/*.log\"]\ninstance = \"{{stem}}\"\n\
             [store]\nkind = \"azure\"\nconnection_string_file = \"{secret}\"\nfill = \"20ms\"\n\
             buckets_max = 8\ngrow_after = \"1s\"\n"
        )
    }

    /// Writes lines, with the next seconds of yesterday as their times.
    fn write(&mut self, count: usize) {
        let day = format!("{}-{}-{}", &self.table[3..7], &self.table[7..9], &self.table[9..11]);
        let from = self.lines.len();
        let line = |n: usize| {
            let second = 3600 + n;
            format!("{day}T{:02}:{:02}:{:02}Z INFO line {n}", second / 3600, second / 60 % 60, second % 60)
        };
        let lines: Vec<String> = (from..from + count).map(line).collect();
        self.place.write("app.log", &lines);
        self.lines.extend(lines);
    }

    /// Limits each partition to [`RATE`] from now on.
    fn throttle(&self) {
        let mut rooms: HashMap<String, (Instant, f64)> = HashMap::new();
        self.proxy.plan(move |_, asked: &Asked| {
            let body = String::from_utf8_lossy(&asked.body);
            let partition = body.split("/Log").nth(1)?.split("PartitionKey='").nth(1)?.split('\'').next()?.to_owned();
            let (since, room) = rooms.entry(partition).or_insert((asked.at, BURST));
            *room = BURST.min(*room + RATE * asked.at.saturating_duration_since(*since).as_secs_f64());
            *since = asked.at;
            let rows = asked.entities() as f64;
            if rows > *room {
                return Some(Fault::Busy);
            }
            *room -= rows;
            None
        });
    }

    /// Writes until the instance has more partitions.
    fn grow(&mut self, daemon: &Daemon) {
        let before = daemon.metric("daytable_spread_steps_total").expect("shown");
        wait_for("it is spread", PATIENCE * 2, || {
            self.write(40);
            std::thread::sleep(Duration::from_millis(100));
            (daemon.metric("daytable_spread_steps_total")? > before).then_some(())
        });
        // These times are after the change, whatever the lease covers.
        self.write(60);
    }

    /// The rows at the service as Microsoft's client reads them, newest first in each partition.
    fn rows(&self) -> Vec<(String, String, String)> {
        let text = |entity: &Value, name: &str| entity[name].as_str().expect("a text").to_owned();
        let rows = self.azurite.read_back(&self.table);
        let message = |entity: &Value| entity["properties"]["Message"][1].as_str().expect("a message").to_owned();
        rows.iter().map(|entity| (message(entity), text(entity, "PartitionKey"), text(entity, "RowKey"))).collect()
    }

    /// Waits until each line is at the service once and the outbox is empty. Returns the partition of each line.
    fn wait_arrived(&self, daemon: &Daemon) -> BTreeMap<String, String> {
        wait_for("all is sent", PATIENCE * 2, || {
            let sent = daemon.metric("daytable_outbox_entities")? == 0.0;
            let read = daemon.metric("daytable_records_committed_total")? > 0.0 && self.has_read();
            (sent && read).then_some(())
        });
        let rows = self.rows();
        let messages: BTreeMap<String, String> =
            rows.iter().map(|(message, partition, _)| (message.clone(), partition.clone())).collect();
        assert_eq!(messages.len(), rows.len(), "a row is there twice");
        assert_eq!(messages.len(), self.lines.len(), "a row is missing");
        messages
    }

    /// Whether the daemon has read every written line.
    fn has_read(&self) -> bool {
        let size = fs::metadata(self.place.log("app.log")).expect("there").len();
        let path = self.place.log("app.log").display().to_string();
        self.place.json("sources", &[]).iter().any(|source| source["path"] == path && source["position"] == size)
    }

    fn lose_folder(&self) {
        fs::remove_dir_all(self.place.data()).expect("removed");
    }
}

#[test]
fn a_throttled_instance_is_spread_and_a_record_read_again_lands_where_it_landed() {
    let mut stage = Stage::new();
    stage.throttle();
    let daemon = stage.place.start_with(&stage.config());
    stage.grow(&daemon);
    stage.proxy.heal();
    let placed = stage.wait_arrived(&daemon);
    let partitions: Vec<&String> = {
        let mut partitions: Vec<&String> = placed.values().collect();
        partitions.sort();
        partitions.dedup();
        partitions
    };
    assert!(partitions.starts_with(&[&"app".to_owned(), &"app~00".to_owned()]), "{partitions:?}");
    // Rows in buckets are newer than all others.
    let rows = stage.rows();
    let oldest_spread = rows.iter().filter(|row| row.1 != "app").map(|row| &row.2).max().expect("one");
    let newest_whole = rows.iter().filter(|row| row.1 == "app").map(|row| &row.2).min().expect("one");
    assert!(oldest_spread < newest_whole);

    // Readers merge the buckets, newest first.
    let config = stage.place.path("daytable.toml").display().to_string();
    let records = stage.place.json("query", &["--config", &config, "--instance", "app", "-n", "100000"]);
    let messages: Vec<String> = records.iter().map(|record| record["message"].to_string()).collect();
    let newest_first = (0..stage.lines.len()).rev().map(|n| format!("\"line {n}\"")).collect::<Vec<_>>();
    assert_eq!(messages, newest_first);
    assert_eq!(stage.place.json("count", &["--config", &config, "--instance", "app"])[0]["records"], records.len());
    // The change is visible on this host and on the others.
    let shown = stage.place.json("sources", &[]).into_iter().find(|source| source["kind"] == "azure").expect("shown");
    assert_eq!(
        (&shown["spread"][0]["instance"], &shown["spread"][0]["table"]),
        (&"app".into(), &stage.table.as_str().into())
    );
    let hosts = || {
        let mut command = std::process::Command::new(crate::place::DAYTABLE);
        let output = command.arg("hosts").args(["--config", &config]).output().expect("run");
        String::from_utf8(output.stdout).expect("text")
    };
    wait_for("the others hear of it", PATIENCE, || hosts().contains("app is spread over").then_some(()));

    // The folder is lost: the daemon reads every line again, from before and after the change.
    daemon.stop();
    stage.lose_folder();
    let daemon = stage.place.start_with(&stage.config());
    assert_eq!(stage.wait_arrived(&daemon), placed);

    // The instance grows again, and the folder is lost again, before the daemon rereads a line.
    stage.throttle();
    stage.grow(&daemon);
    stage.proxy.heal();
    let placed = stage.wait_arrived(&daemon);
    daemon.kill();
    stage.lose_folder();
    stage.proxy.always(Fault::ResetBefore);
    let daemon = stage.place.spawn(&stage.config());
    // Only files wait for the bucket plan from the service.
    wait_for("it says why it waits", PATIENCE, || {
        let answer = client::over_unix(daemon.socket(), "GET", "/readyz", "").ok()?;
        (answer.status == 503 && answer.body.contains("files and journals wait")).then_some(())
    });
    assert_eq!(daemon.metric("daytable_spread_pending"), Some(1.0));
    assert_eq!(
        client::over_unix(daemon.socket(), "POST", "/ingest?instance=pushed", "taken").expect("an answer").status,
        200
    );
    assert!(
        !stage
            .place
            .json("sources", &[])
            .iter()
            .any(|source| source["path"].as_str().is_some_and(|path| path.ends_with("app.log")))
    );
    stage.proxy.heal();
    assert_eq!(stage.wait_arrived(&daemon), placed);

    // The local folder has the plan, so the service is not needed.
    daemon.stop();
    stage.proxy.always(Fault::ResetBefore);
    let daemon = stage.place.start_with(&stage.config());
    stage.write(50);
    wait_for("it is read", PATIENCE, || stage.has_read().then_some(()));
    let waiting = stage.place.json("query", &["--local", "--instance", "app", "-n", "50"]);
    assert!(waiting.iter().all(|record| record["partition_key"].as_str().is_some_and(|key| key.starts_with("app~"))));
    stage.proxy.heal();
    stage.wait_arrived(&daemon);
    daemon.stop();
}

/// Kills between the steps that record a decision in several places. Needs a build with failpoints.
#[cfg(feature = "failpoints")]
#[test]
fn a_kill_between_deciding_and_doing_moves_no_record() {
    for point in ["buckets-kept", "buckets-afar"] {
        let mut stage = Stage::new();
        stage.throttle();
        let mut command = std::process::Command::new(crate::place::DAYTABLE);
        command.arg("run").arg("--config").arg(stage.place.configure(&stage.config()));
        command.env("DAYTABLE_FAILPOINT", format!("{point}:1"));
        let mut daemon = stage.place.spawn_command(command);
        wait_for("it is killed where it is to be", PATIENCE * 2, || {
            stage.write(40);
            std::thread::sleep(Duration::from_millis(100));
            daemon.has_ended().then_some(())
        });
        // The daemon continues, with or without the folder.
        let daemon = stage.place.start_with(&stage.config());
        stage.write(100);
        stage.proxy.heal();
        let placed = stage.wait_arrived(&daemon);
        assert!(placed.values().any(|partition| partition.starts_with("app~")), "{point}: it is spread");
        daemon.kill();
        stage.lose_folder();
        let daemon = stage.place.start_with(&stage.config());
        assert_eq!(stage.wait_arrived(&daemon), placed, "{point}");
        daemon.stop();
    }
}
