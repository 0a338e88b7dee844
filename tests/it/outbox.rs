//! With a remote store: after any fault on the way and any kill, every record arrives exactly once, and the outbox (the
//! rows waiting for the remote store) is empty.
//!
//! The daemon sends to Azurite through a [proxy](crate::azure::proxy) that fails on demand. Another client reads the
//! arrived rows.

use crate::azure::emulator::{Azurite, wait};
use crate::azure::proxy::{Asked, Fault, Proxy};
use crate::client;
use crate::place::{Daemon, PATIENCE, Place, numbered, wait_for};
use daytable_azure::{EdmValue, Query};
use std::collections::BTreeMap;
use std::fs;
use std::time::Duration;

/// A folder, a daemon's configuration, and a service behind a proxy.
struct Remote {
    place: Place,
    azurite: Azurite,
    proxy: Proxy,
}

impl Remote {
    fn new() -> Remote {
        let azurite = Azurite::start();
        let proxy = Proxy::start(azurite.port);
        let place = Place::new();
        fs::write(place.path("azure"), proxy.connection_string()).expect("written");
        Remote { place, azurite, proxy }
    }

    /// The configuration, with `more` of the store's keys.
    fn config(&self, more: &str) -> String {
        let secret = self.place.path("azure").display().to_string();
        // Otherwise the first start waits for a healthy service, and most of these tests have none.
        let buckets = if more.contains("buckets_max") { "" } else { "buckets_max = 1\n" };
        format!(
            "[[tail]]\ninclude = [\"LOGS/*.log\"]\ninstance = \"{{stem}}\"\n\
             [store]\nkind = \"azure\"\nconnection_string_file = \"{secret}\"\n\
             {buckets}{more}"
        )
    }

    fn start(&self, more: &str) -> Daemon {
        self.place.start_with(&self.config(more))
    }

    /// The messages at the service, each with its number of copies.
    fn messages(&self) -> BTreeMap<String, usize> {
        let client = self.azurite.client();
        let mut messages = BTreeMap::new();
        wait(async {
            for table in client.list_tables("Log").await.expect("listed") {
                let mut next = None;
                loop {
                    let page = client.query(&table, &Query::default(), next.as_ref()).await.expect("read");
                    for entity in page.entities {
                        let Some(EdmValue::String(message)) = entity.property("Message") else { panic!("{entity:?}") };
                        *messages.entry(message.to_string()).or_default() += 1;
                    }
                    next = page.next;
                    if next.is_none() {
                        break;
                    }
                }
            }
        });
        messages
    }

    /// Waits until the service has each message of `expected` once, and no other message.
    fn wait_arrived(&self, expected: &[String]) {
        let expected: BTreeMap<String, usize> = expected.iter().map(|message| (message.clone(), 1)).collect();
        wait_for("every record is at the service, once", PATIENCE, || {
            let found = self.messages();
            let surplus: Vec<_> =
                found.iter().filter(|(message, count)| expected.get(*message) != Some(count)).collect();
            assert!(surplus.is_empty(), "what nobody wrote, or too often: {surplus:?}");
            (found.len() == expected.len()).then_some(())
        });
    }

    /// Waits until the outbox is empty.
    fn wait_empty(&self, daemon: &Daemon) {
        wait_for("the outbox is empty", PATIENCE, || {
            let is_empty = daemon.metric("daytable_outbox_entities")? == 0.0 && self.local_rows("Log") == 0;
            is_empty.then_some(())
        });
    }

    /// Rows in the data folder's tables of this name.
    fn local_rows(&self, table: &str) -> u64 {
        let tables = self.place.json("tables", &["--local"]);
        let named = tables.iter().filter(|shown| shown["table"].as_str().expect("a name").starts_with(table));
        named.map(|shown| shown["rows"].as_u64().expect("a number")).sum()
    }

    /// The outbox in the output of `daytable sources`.
    fn shown(&self) -> serde_json::Value {
        let sources = self.place.json("sources", &[]);
        sources.into_iter().find(|source| source["kind"] == "azure").expect("an outbox is shown")
    }
}

#[test]
fn a_host_without_a_data_folder_reads_the_remote_store() {
    let remote = Remote::new();
    let daemon = remote.start("fill = \"100ms\"\n");
    let lines = numbered("line", 5);
    remote.place.write("app.log", &lines);
    remote.wait_arrived(&lines);
    remote.wait_empty(&daemon);
    daemon.stop();
    let config = remote.config("").replace("LOGS", "/nowhere");
    let elsewhere = remote.place.path("elsewhere");
    fs::write(remote.place.path("elsewhere.toml"), format!("data_dir = {elsewhere:?}\n{config}")).expect("written");
    let ask = |words: &[&str]| {
        let mut asked = std::process::Command::new(crate::place::DAYTABLE);
        asked.args(words).current_dir(remote.place.path("")).env_remove("DAYTABLE_DATA");
        asked.output().expect("run")
    };
    let asked = ask(&["query", "--json", "--config", "elsewhere.toml"]);
    let said = String::from_utf8_lossy(&asked.stderr).into_owned();
    assert_eq!(asked.stdout.iter().filter(|byte| **byte == b'\n').count(), 5, "{said}");
    let counted = ask(&["count", "line", "--config", "elsewhere.toml"]);
    assert_eq!(String::from_utf8_lossy(&counted.stdout).trim(), "5");
    assert!(!elsewhere.exists(), "nothing is made");
    // A folder that the command names has to be there, and so has one that is all there is.
    for words in [
        &["query", "--config", "elsewhere.toml", "--data", "elsewhere"][..],
        &["query", "--config", "elsewhere.toml", "--local"],
    ] {
        let asked = ask(words);
        assert!(String::from_utf8_lossy(&asked.stderr).contains("is not a data folder"), "{words:?}");
    }
}

#[test]
fn what_is_read_arrives_with_its_keys_and_goes_from_the_outbox() {
    let remote = Remote::new();
    let daemon = remote.start("fill = \"100ms\"\n");
    let lines = numbered("line", 250);
    remote.place.write("app.log", &lines);
    remote.wait_arrived(&lines);
    remote.wait_empty(&daemon);
    let table = wait(remote.azurite.client().list_tables("Log")).expect("listed").remove(0);
    let entities = remote.azurite.read_back(&table);
    assert_eq!(entities.len(), 250);
    let keys: Vec<&str> = entities.iter().map(|entity| entity["RowKey"].as_str().expect("a key")).collect();
    assert!(keys.is_sorted(), "the newest first");
    assert!(entities.iter().all(|entity| entity["PartitionKey"] == "app"));
    let first = &entities[0]["properties"];
    assert_eq!(first["Message"], serde_json::json!(["String", "line 249"]));
    assert_eq!(first["Source"][1], remote.place.log("app.log").display().to_string());
    assert_eq!(first["Time"][0], "DateTime");
    assert_eq!(remote.shown()["state"], "idle");
    assert_eq!(daemon.metric("daytable_remote_entities_sent_total"), Some(250.0));
    assert!(daemon.metric("daytable_remote_requests_total{code=\"202\"}").expect("counted") < 30.0, "they are filled");
    // The daemon created the table once, after the first refusal. Late in the day it also creates tomorrow's table.
    let named = format!("\"{table}\"");
    let creates = |asked: &&Asked| asked.method == "POST" && asked.target.ends_with("/Tables") && asked.tells(&named);
    assert_eq!(remote.proxy.asked().iter().filter(creates).count(), 1);
    // A restart sends no row again.
    daemon.stop();
    let before = remote.proxy.asked().len();
    let daemon = remote.start("fill = \"100ms\"\n");
    // The message at the service is whole, with the pairs at its end, and the line comes back from there.
    let line = format!("{} INFO disk full free=1.50 n=3", daytable_model::time::now());
    remote.place.write("app.log", std::slice::from_ref(&line));
    remote.wait_arrived(&[&lines[..], &["disk full free=1.50 n=3".into()]].concat());
    let of_table = |asked: &&Asked| asked.tells(&format!("/{table}("));
    let sent: usize = remote.proxy.asked()[before..].iter().filter(of_table).map(Asked::entities).sum();
    assert_eq!(sent, 1);
    remote.wait_empty(&daemon);
    let config = remote.place.path("daytable.toml").display().to_string();
    let found = remote.place.json("query", &["n:=3 | fields message, line, free, n", "--config", &config]);
    assert_eq!(
        found,
        [serde_json::json!({"message": "disk full free=1.50 n=3", "line": line, "free": "1.50", "n": 3})],
        "from the service"
    );
    daemon.stop();
}

#[test]
fn passing_faults_and_kills_lose_nothing_and_repeat_nothing() {
    let remote = Remote::new();
    remote.proxy.forget_bodies();
    remote.proxy.at_random(7, 3, &Fault::PASSING);
    let mut all = Vec::new();
    for round in 0..8u64 {
        let daemon = remote.place.spawn(&remote.config("fill = \"20ms\"\n"));
        let lines = numbered(&format!("round {round} line"), 40);
        for file in ["a.log", "b.log", "c.log"] {
            let of_file: Vec<String> = lines.iter().map(|line| format!("{file} {line}")).collect();
            remote.place.write(file, &of_file);
            all.extend(of_file);
        }
        // From before the first request to the middle of the removal.
        std::thread::sleep(Duration::from_millis(150 + round * 977 % 2600));
        daemon.kill();
    }
    let daemon = remote.start("fill = \"20ms\"\n");
    remote.wait_arrived(&all);
    remote.wait_empty(&daemon);
    daemon.stop();
    remote.wait_arrived(&all);
}

#[test]
fn a_row_that_is_refused_is_a_dead_letter_and_the_others_go_on() {
    let remote = Remote::new();
    remote.proxy.plan(|_, asked| {
        let body = String::from_utf8_lossy(&asked.body).into_owned();
        let bad = body.split("--changeset_entities\r\n").skip(1).position(|part| part.contains("\"bad"))?;
        // The real service also reports index 0 when it does not know the entity.
        let index = if body.contains("bad 2") { 0 } else { bad };
        Some(Fault::PartFails(400, "PropertyValueTooLarge", index))
    });
    let daemon = remote.start("fill = \"300ms\"\n");
    let good = numbered("good", 120);
    let mut lines = good.clone();
    for (at, number) in [(7, 1), (50, 2), (90, 3)] {
        lines.insert(at, format!("bad {number}"));
    }
    remote.place.write("app.log", &lines);
    remote.wait_arrived(&good);
    remote.wait_empty(&daemon);
    let dead = remote.place.json("query", &["--local", "--contains", "bad", "-n", "100"]);
    let mut messages: Vec<&str> = dead.iter().map(|record| record["message"].as_str().expect("a message")).collect();
    messages.sort_unstable();
    assert_eq!(messages, ["bad 1", "bad 2", "bad 3"]);
    for record in &dead {
        assert!(record["table"].as_str().expect("a table").starts_with("DeadLetter"), "{record}");
        assert!(record["dead_letter_table"].as_str().expect("a table").starts_with("Log"), "{record}");
        assert!(record["dead_letter_reason"].as_str().expect("a reason").starts_with("PropertyValueTooLarge"));
    }
    assert_eq!(daemon.metric("daytable_dead_letters_total{reason=\"refused\"}"), Some(3.0));
    assert_eq!(remote.shown()["losses"], serde_json::json!({ "dead_letter_refused": 3 }));
    daemon.stop();
    assert_eq!(remote.local_rows("DeadLetter"), 3);
}

#[test]
fn more_refused_rows_than_go_aside_at_a_time_are_dead_letters_all() {
    let remote = Remote::new();
    remote.proxy.plan(|_, asked| asked.tells("\"bad").then_some(Fault::PartFails(400, "PropertyValueTooLarge", 0)));
    let daemon = remote.start("fill = \"100ms\"\n");
    // Each file has its own partition, so that only the limit holds the rows back.
    for file in 0..40 {
        remote.place.write(&format!("bad-{file}.log"), &numbered(&format!("bad {file}"), 3));
    }
    let good = numbered("good", 50);
    remote.place.write("good.log", &good);
    remote.wait_arrived(&good);
    remote.wait_empty(&daemon);
    assert_eq!(daemon.metric("daytable_dead_letters_total{reason=\"refused\"}"), Some(120.0));
    assert_eq!(remote.local_rows("DeadLetter"), 120);
    daemon.stop();
}

#[test]
fn a_request_that_is_too_large_goes_in_halves() {
    let remote = Remote::new();
    remote.proxy.plan(|_, asked| (asked.entities() > 13).then_some(Fault::TooLarge));
    let daemon = remote.start("fill = \"300ms\"\n");
    let lines = numbered("line", 100);
    remote.place.write("app.log", &lines);
    remote.wait_arrived(&lines);
    remote.wait_empty(&daemon);
    daemon.stop();
}

#[test]
fn who_is_not_let_in_keeps_what_comes_and_says_so() {
    let remote = Remote::new();
    remote.proxy.always(Fault::Forbidden);
    let daemon = remote.start("fill = \"20ms\"\n");
    let lines = numbered("line", 30);
    remote.place.write("app.log", &lines[..10]);
    wait_for("it is said", PATIENCE, || (daemon.metric("daytable_remote_denied")? == 1.0).then_some(()));
    assert_eq!(remote.shown()["state"], "denied");
    daemon.wait_said("the remote store denies access");
    let asked = remote.proxy.asked().len();
    assert!(asked < 5, "{asked} requests to who does not let us in");
    // New rows are still accepted, and shown.
    remote.place.write("app.log", &lines[10..]);
    wait_for("all of it is in the outbox", PATIENCE, || (remote.local_rows("Log") == 30).then_some(()));
    assert_eq!(client::over_unix(daemon.socket(), "GET", "/readyz", "").expect("an answer").status, 200);
    remote.proxy.heal();
    remote.wait_arrived(&lines);
    remote.wait_empty(&daemon);
    assert_eq!(daemon.metric("daytable_remote_denied"), Some(0.0));
    daemon.stop();
}

#[test]
fn a_stop_sends_what_waits_to_fill_a_transaction() {
    let remote = Remote::new();
    let daemon = remote.start("fill = \"60s\"\n");
    let lines = numbered("line", 10);
    remote.place.write("app.log", &lines);
    wait_for("all of it is in the outbox", PATIENCE, || (remote.local_rows("Log") == 10).then_some(()));
    assert_eq!(remote.messages(), BTreeMap::new());
    daemon.stop();
    remote.wait_arrived(&lines);
    assert_eq!(remote.local_rows("Log"), 0);
    // Rows that cannot be sent do not delay a stop, and wait.
    remote.proxy.always(Fault::Silence);
    let daemon = remote.start("fill = \"20ms\"\n");
    remote.place.write("app.log", &["one more".into()]);
    wait_for("it was tried", PATIENCE, || {
        let asked = remote.proxy.asked();
        asked.iter().any(|asked| asked.fault.is_some() && asked.tells("one more")).then_some(())
    });
    daemon.stop();
    assert_eq!(remote.local_rows("Log"), 1);
}

#[test]
fn the_newest_goes_first_where_that_is_asked_for() {
    for (order, first, last) in [("newest_first", "part 2", "part 0"), ("oldest_first", "part 0", "part 2")] {
        let remote = Remote::new();
        remote.proxy.always(Fault::Forbidden);
        let daemon = remote.start("fill = \"20ms\"\n");
        for part in 0..3u64 {
            remote.place.write("app.log", &numbered(&format!("part {part} line"), 100));
            wait_for("it is in the outbox", PATIENCE, || (remote.local_rows("Log") == 100 * (part + 1)).then_some(()));
        }
        daemon.stop();
        let before = remote.proxy.asked().len();
        remote.proxy.heal();
        let more = format!("fill = \"20ms\"\ntransactions_max = 1\nsend_order = \"{order}\"\n");
        let daemon = remote.start(&more);
        wait_for("all of it arrives", PATIENCE, || (remote.messages().len() == 300).then_some(()));
        let asked = remote.proxy.asked();
        let mut sent = asked[before..]
            .iter()
            .filter(|asked| asked.is_transaction() && asked.tells("part "))
            .map(|asked| String::from_utf8_lossy(&asked.body));
        let (found, end) = (sent.next().expect("one"), sent.next_back().expect("another"));
        assert!(found.contains(first) && !found.contains(last), "{order}");
        assert!(end.contains(last) && !end.contains(first), "{order}");
        daemon.stop();
    }
}

#[test]
fn a_table_that_is_being_dropped_is_waited_for() {
    let remote = Remote::new();
    let mut creations = 0;
    remote.proxy.plan(move |_, asked| {
        creations += usize::from(asked.target.ends_with("/Tables"));
        (asked.target.ends_with("/Tables") && creations <= 1).then_some(Fault::BeingDeleted)
    });
    let daemon = remote.start("fill = \"20ms\"\n");
    let lines = numbered("line", 20);
    remote.place.write("app.log", &lines);
    remote.wait_arrived(&lines);
    remote.wait_empty(&daemon);
    daemon.stop();
}

#[test]
fn a_slow_partition_holds_up_itself_only() {
    let remote = Remote::new();
    remote
        .proxy
        .plan(|_, asked| String::from_utf8_lossy(&asked.body).contains("PartitionKey='slow'").then_some(Fault::Busy));
    let daemon = remote.start("fill = \"20ms\"\n");
    let (slow, quick) = (numbered("slow", 30), numbered("quick", 200));
    remote.place.write("slow.log", &slow);
    wait_for("it was tried", PATIENCE, || (daemon.metric("daytable_remote_throttled_total")? > 0.0).then_some(()));
    remote.place.write("quick.log", &quick);
    remote.wait_arrived(&quick);
    remote.proxy.heal();
    remote.wait_arrived(&[slow, quick].concat());
    remote.wait_empty(&daemon);
    daemon.stop();
}

#[test]
fn a_backlog_of_an_outage_is_sent_and_a_full_outbox_takes_nothing_more() {
    let remote = Remote::new();
    remote.proxy.always(Fault::ResetBefore);
    let more = "fill = \"20ms\"\noutbox_bytes_max = \"1MiB\"\n";
    let daemon = remote.start(more);
    // Random letters do not compress. Lines of 3 KiB exceed the limit of the outbox.
    let mut state = 1u64;
    let mut noise = || {
        (0..3000)
            .map(|_| {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                char::from(b'!' + u8::try_from((state >> 33) % 90).expect("small"))
            })
            .collect::<String>()
    };
    let lines: Vec<String> = (0..900).map(|n| format!("x{n} {}", noise())).collect();
    let is_full = || daemon.metric("daytable_outbox_full") == Some(1.0);
    for (part, written) in lines.chunks(50).zip(1..) {
        remote.place.write("app.log", part);
        // The outbox fills gradually: each part is committed before the next one, until it is full.
        wait_for("a part is committed", PATIENCE, || {
            (is_full() || remote.local_rows("Log") >= 50 * written).then_some(())
        });
    }
    wait_for("the outbox is full", PATIENCE, || is_full().then_some(()));
    let ready = client::over_unix(daemon.socket(), "GET", "/readyz", "").expect("an answer");
    assert_eq!((ready.status, ready.body.trim()), (503, "the outbox is full"));
    assert_eq!(remote.shown()["state"], "full");
    let taken = remote.local_rows("Log");
    assert!((1..900).contains(&taken), "{taken} of 900 rows are in the outbox");
    // Even then the daemon stops, and starts again.
    daemon.stop();
    let daemon = remote.place.spawn(&remote.config(more));
    wait_for("it is full still", PATIENCE, || (daemon.metric("daytable_outbox_full")? == 1.0).then_some(()));
    remote.proxy.heal();
    let count = |messages: BTreeMap<String, usize>| messages.values().sum::<usize>();
    wait_for("all of it arrives", PATIENCE * 3, || (count(remote.messages()) == 900).then_some(()));
    remote.wait_arrived(&lines);
    remote.wait_empty(&daemon);
    daemon.stop();
}

#[test]
fn the_oldest_goes_where_that_is_asked_for_and_is_counted() {
    let remote = Remote::new();
    remote.proxy.always(Fault::ResetBefore);
    let daemon = remote.start("fill = \"20ms\"\noutbox_bytes_max = \"1MiB\"\nwhen_full = \"drop_oldest\"\n");
    let mut state = 1u64;
    for round in 0..20 {
        let lines: Vec<String> = (0..40)
            .map(|n| {
                let noise = (0..3000).map(|_| {
                    state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                    char::from(b'!' + u8::try_from((state >> 33) % 90).expect("small"))
                });
                format!("x{round}x{n} {}", noise.collect::<String>())
            })
            .collect();
        remote.place.write("app.log", &lines);
        // Rounds that are read at once are one page, which may be larger than the limit: then all of it goes.
        wait_for("a round is in the outbox", PATIENCE, || {
            let last = format!("x{round}x39 ");
            (!remote.place.json("query", &["--local", "--contains", &last]).is_empty()).then_some(())
        });
    }
    let dropped = "daytable_records_dropped_total{intentional=\"true\",reason=\"outbox_bytes_max\",source=\"outbox\"}";
    wait_for("what went is counted", PATIENCE, || {
        let (dropped, left) = (daemon.metric(dropped)?, remote.local_rows("Log"));
        (dropped > 0.0 && dropped + left as f64 == 800.0).then_some(())
    });
    assert!(daemon.metric("daytable_outbox_bytes").expect("shown") < f64::from(3 << 20));
    assert_eq!(daemon.metric("daytable_outbox_full"), Some(0.0));
    // The count survives a restart.
    daemon.stop();
    let ledgers = remote.place.json("sources", &[]);
    let ledger = ledgers.iter().find(|ledger| ledger["kind"] == "outbox").expect("a ledger");
    let dropped = ledger["losses"]["outbox_bytes_max"].as_u64().expect("a number");
    assert_eq!(dropped + remote.local_rows("Log"), 800, "{ledger}");
}

#[test]
fn what_waits_for_a_day_that_expired_is_set_aside_and_never_sent() {
    let remote = Remote::new();
    remote.proxy.always(Fault::ResetBefore);
    // To let a table of a short period expire, the test moves the written records into the past.
    let table = "[[table]]\nname = \"Log\"\nkeep = \"2d\"\n";
    let daemon = remote.place.start_with(&format!("{}{table}", remote.config("fill = \"20ms\"\n")));
    let yesterday = (chrono::Utc::now() - chrono::Duration::days(1)).format("%Y-%m-%dT%H:%M:%SZ").to_string();
    let now = chrono::Utc::now().format("%Y-%m-%dT%H:%M:%SZ").to_string();
    remote.place.write("app.log", &[format!("{yesterday} INFO old"), format!("{now} INFO new")]);
    wait_for("both are in the outbox", PATIENCE, || (remote.local_rows("Log") == 2).then_some(()));
    daemon.stop();
    // With a shorter `keep`, yesterday expires.
    let table = "[[table]]\nname = \"Log\"\nkeep = \"1m\"\n";
    remote.proxy.heal();
    let daemon = remote.place.start_with(&format!("{}{table}", remote.config("fill = \"20ms\"\n")));
    wait_for("what is of today arrives", PATIENCE, || (remote.messages().len() == 1).then_some(()));
    wait_for("what was of yesterday is set aside", PATIENCE, || {
        (daemon.metric("daytable_dead_letters_total{reason=\"expired\"}")? == 1.0).then_some(())
    });
    remote.wait_empty(&daemon);
    assert_eq!(remote.messages().into_keys().collect::<Vec<_>>(), ["new"]);
    let tables = wait(remote.azurite.client().list_tables("Log")).expect("listed");
    let of_yesterday = format!("Log{}", yesterday[..10].replace('-', ""));
    assert!(!tables.contains(&of_yesterday), "{tables:?}");
    let dead = remote.place.json("query", &["--local", "--contains", "old"]);
    assert_eq!(dead.len(), 1);
    assert!(dead[0]["table"].as_str().expect("a table").starts_with("DeadLetter"));
    daemon.stop();
}

/// Kills at the most dangerous places of sending, one by one. Needs a build with failpoints.
#[cfg(feature = "failpoints")]
#[test]
fn a_kill_at_each_failpoint_of_the_outbox_loses_and_doubles_nothing() {
    use crate::place::DAYTABLE;
    for point in ["commit-between", "commit-after", "outbox-before-removal", "outbox-removed"] {
        for times in 1..=2 {
            let remote = Remote::new();
            let config = remote.config("fill = \"20ms\"\n");
            let mut command = std::process::Command::new(DAYTABLE);
            command.arg("run").arg("--config").arg(remote.place.configure(&config));
            command.env("DAYTABLE_FAILPOINT", format!("{point}:{times}"));
            let mut daemon = remote.place.spawn_command(command);
            // On a busy machine the rows of several writes leave the outbox together, so lines come until the failpoint
            // is reached.
            let mut lines = Vec::new();
            wait_for(point, PATIENCE, || {
                let part = numbered(&format!("{point}-{}", lines.len()), 20);
                remote.place.write("app.log", &part);
                lines.extend(part);
                std::thread::sleep(Duration::from_millis(300));
                daemon.has_ended().then_some(())
            });
            assert!(!daemon.ended().success(), "{point} was not reached");
            let daemon = remote.start("fill = \"20ms\"\n");
            remote.wait_arrived(&lines);
            remote.wait_empty(&daemon);
            daemon.stop();
        }
    }
}
