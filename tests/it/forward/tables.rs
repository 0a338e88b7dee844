//! Hosts with a table of their own at the central: what they send goes there, whatever is changed, put back or repeated.

use super::credentials::hosts;
use super::*;
use daytable_model::key::{DayTable, Period, TableName};
use daytable_model::time::now;

/// What hosts that are called so send stays for longer.
const OF_PAY: &str = "[[table]]\nname = \"LogPay\"\nhosts = [\"pay-*\"]\nkeep = \"90d\"\n[[table]]\nname = \"Log\"\n";

/// The days of 27 November of these tables have so many records.
fn records_are(place: &Place, expected: &[(&str, u64)]) {
    let records = |name: &str| {
        let counted = place.json("count", &["--table", &format!("{name}20261127")]);
        counted.first().and_then(|count| count["records"].as_u64()).unwrap_or(0)
    };
    let found: Vec<(&str, u64)> = expected.iter().map(|(name, _)| (*name, records(name))).collect();
    assert_eq!(found, expected);
}

pub(super) fn verdict(central: &Central) -> (Option<i32>, String) {
    let output = central.place.ask("verify", &["--fleet"]);
    (output.status.code(), String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

/// A line of a few days ago, and its day.
fn old_lines(days: u32, count: usize) -> (Vec<String>, String) {
    let start = Period::Day.start(now().minus(Duration::from_secs(u64::from(days) * 86_400)));
    let line = |n: usize| format!("{} INFO old number {n}", start.plus(Duration::from_secs(n as u64)));
    let day = DayTable::at(&TableName::new("Log").expect("a name"), Period::Day, start);
    ((0..count).map(line).collect(), day.to_string())
}

#[test]
fn some_hosts_have_a_table_of_their_own_from_a_reload_on() {
    let central = Central::new();
    let running = central.start();
    let (pay, web) = (Host::joined(&central, "pay-1"), Host::joined(&central, "web-1"));
    let both = [&pay, &web];
    let [mut first, second] = both.map(Host::start);
    both.iter().for_each(|host| host.write("app.log", &lines("before", 0..100)));
    wait_for_all(&central, &both, 200);
    records_are(&central.place, &[("Log", 200)]);
    first.stop();
    let backup = pay.place.path("backup");
    copy_folder(&pay.place.data(), &backup);
    first = pay.start();

    central.place.configure(&(central.config() + OF_PAY));
    central.place.said("reload", &[]);
    both.iter().for_each(|host| host.write("app.log", &lines("after", 0..50)));
    wait_for_all(&central, &both, 300);
    records_are(&central.place, &[("Log", 250), ("LogPay", 50)]);
    assert_eq!(verdict(&central), (Some(0), "whole: 2 hosts, 300 records".into()));
    // The folder of a host is put back, and sends again what it reads again: those rows are where they were stored.
    first.stop();
    fs::remove_dir_all(pay.place.data()).expect("lost");
    fs::rename(&backup, pay.place.data()).expect("put back");
    first = pay.start();
    pay.write("app.log", &lines("later", 0..50));
    wait_for_all(&central, &both, 350);
    records_are(&central.place, &[("Log", 250), ("LogPay", 100)]);
    assert_eq!(verdict(&central), (Some(0), "whole: 2 hosts, 350 records".into()));

    // Without the block, new rows go to the last table again, and old ones stay.
    central.place.configure(&central.config());
    central.place.said("reload", &[]);
    pay.write("app.log", &lines("at last", 0..10));
    wait_for_all(&central, &both, 360);
    records_are(&central.place, &[("Log", 260), ("LogPay", 100)]);
    assert_eq!(verdict(&central), (Some(0), "whole: 2 hosts, 360 records".into()));
    // What this daytable gets itself goes to no table of hosts.
    let stream = std::net::TcpStream::connect(("127.0.0.1", central.port)).expect("a connection");
    let own = b"{\"time\":\"2026-11-27T10:00:00Z\",\"message\":\"own\"}\n";
    let pushed = client::over(stream, "POST", "/ingest?instance=pay-1", "Content-Type: application/x-ndjson\r\n", own);
    assert_eq!(pushed.expect("an answer").status, 200);
    records_are(&central.place, &[("Log", 261), ("LogPay", 100)]);
    // What lacks in one of them is missed.
    central.place.said("drop", &["--yes", "LogPay20261127"]);
    let (code, said) = verdict(&central);
    assert_eq!(code, Some(65), "{said}");
    assert!(said.contains("pay-1 has 210 records in Log20261127, and 110 of them"), "{said}");
    for daemon in [first, second, running] {
        daemon.stop();
    }
}

/// Both sides compare whole pages: the central lacks everything since its backup, and meanwhile has another table for the host. What
/// it had before is not stored again in that one.
#[test]
fn a_comparison_finds_rows_in_the_table_of_before() {
    let central = Central::new();
    let running = central.start();
    let host = Host::joined(&central, "pay-1");
    let daemon = host.start();
    host.write("app.log", &lines("before", 0..300));
    host.write("app.log", &["2026-11-27T10:00:00Z INFO {\"list\":[1,2,3]}".to_owned()]);
    wait_for_all(&central, &[&host], 301);
    daemon.stop();
    running.stop();
    let backup = central.place.path("backup");
    copy_folder(&central.place.data(), &backup);
    // Other commits than those that the host has in common with the backup, so that no position tells.
    let old = host.place.path("old");
    copy_folder(&host.place.data(), &old);
    let [running, daemon] = [central.start(), host.start()];
    host.write("app.log", &lines("after", 0..100));
    wait_for_all(&central, &[&host], 401);
    daemon.stop();
    running.stop();
    fs::remove_dir_all(host.place.data()).expect("lost");
    fs::rename(&old, host.place.data()).expect("put back");
    let running = central.place.start_with(&(central.config() + OF_PAY));
    let daemon = host.start();
    host.write("app.log", &lines("later", 0..100));
    wait_for_all(&central, &[&host], 501);
    assert!(daemon.said().contains("so pages are compared"), "{}", daemon.said());
    records_are(&central.place, &[("Log", 401), ("LogPay", 100)]);
    assert_eq!(verdict(&central), (Some(0), "whole: 1 host, 501 records".into()));
    daemon.stop();
    running.stop();
}

/// A host lost its folder, reads its files again, and begins anew: what is stored already is not stored again in the table of now.
#[test]
fn rows_that_are_read_again_stay_in_the_table_of_before() {
    let central = Central::new();
    let running = central.start();
    let (pay, other) = (Host::joined(&central, "pay-1"), Host::joined(&central, "pay-2"));
    let both = [&pay, &other];
    let [first, second] = both.map(Host::start);
    // Records of several rows, and one that is large.
    let listed = |n: usize| {
        format!(
            "{{\"time\":\"2026-11-27T10:00:{n:02}Z\",\"message\":\"list {n}\",\"text\":\"{}\"}}",
            "x".repeat(70_000)
        )
    };
    for host in both {
        host.write("app.log", &lines("before", 0..300));
        host.write("list.log", &(0..5).map(listed).collect::<Vec<_>>());
    }
    wait_for_all(&central, &both, 610);
    first.stop();
    central.place.configure(&(central.config() + OF_PAY));
    central.place.said("reload", &[]);
    fs::remove_dir_all(pay.place.data()).expect("lost");
    let joined = pay.join(&central.invite("pay-1"), &[]);
    assert!(joined.status.success(), "{joined:?}");
    let first = pay.start();
    both.iter().for_each(|host| host.write("app.log", &lines("after", 0..50)));
    wait_for_all(&central, &both, 710);
    records_are(&central.place, &[("Log", 610), ("LogPay", 100)]);
    // Also by a daemon that was not there when the configuration changed.
    first.stop();
    running.stop();
    fs::remove_dir_all(pay.place.data()).expect("lost");
    let running = central.place.start_with(&(central.config() + OF_PAY));
    assert!(pay.join(&central.invite("pay-1"), &[]).status.success());
    let first = pay.start();
    pay.write("app.log", &lines("later", 0..50));
    wait_for_all(&central, &both, 760);
    records_are(&central.place, &[("Log", 610), ("LogPay", 150)]);
    for daemon in [first, second, running] {
        daemon.stop();
    }
}

/// A table of hosts has a `keep` of its own: what is too old for it is refused, counted and named on both sides; other hosts keep theirs.
#[test]
fn a_day_that_is_gone_at_the_central_is_counted_as_expired() {
    let mut central = Central::new();
    central.more =
        "[[table]]\nname = \"LogPay\"\nhosts = [\"pay-*\"]\nkeep = \"1d\"\n[[table]]\nname = \"Log\"\nkeep = \"30d\"\n";
    let running = central.start();
    let (pay, web) = (Host::joined(&central, "pay-1"), Host::joined(&central, "web-1"));
    let (old, day) = old_lines(5, 40);
    let young: Vec<String> = (0..7).map(|n| format!("{} INFO young number {n}", now())).collect();
    for host in [&pay, &web] {
        host.write("app.log", &old);
        host.write("app.log", &young);
    }
    let [first, second] = [&pay, &web].map(Host::start);
    wait_for("the hosts are received", PATIENCE, || {
        let of = |name: &str| central.host(name).map(|host| [&host["records"], &host["expired"]].map(Value::as_u64));
        (of("pay-1")? == [Some(7), Some(40)] && of("web-1")? == [Some(47), Some(0)]).then_some(())
    });
    assert_eq!(central.place.json("tables", &[]).iter().filter(|table| table["table"] == day.as_str()).count(), 1);
    let listed = hosts(&central, &[]);
    let line = listed.lines().find(|line| line.starts_with("pay-1")).expect("a line");
    assert!(line.contains("  too late 40"), "{listed}");
    let losses = hosts(&central, &["losses", "pay-1"]);
    assert!(losses.contains("refused here, because their day is gone here") && losses.contains(" 40 "), "{losses}");
    let ledgers = central.place.json("sources", &[]);
    let ledger = ledgers.iter().find(|ledger| ledger["kind"] == "forward" && ledger["listener"] == "pay-1");
    assert_eq!(ledger.expect("a ledger")["losses"]["expired"], 40);
    assert!(first.said().contains("the days of records are gone at the receiver"), "{}", first.said());
    assert_eq!(first.metric(&format!("daytable_forward_refused_total{{to=\"{}\"}}", central.url())), Some(40.0));
    let status: Value = pay.place.json("status", &[]).remove(0);
    assert_eq!(status["forwards"][0]["refused"], 40, "{status}");
    // What is there as it should be is whole.
    assert_eq!(verdict(&central).0, Some(0));
    for daemon in [first, second, running] {
        daemon.stop();
    }
}

/// A tenant with the table of some hosts sees what these send, and nothing else, whatever the others call theirs.
#[test]
fn a_tenant_with_the_table_of_hosts_sees_their_records_alone() {
    let central = Central::new();
    let token = central.place.path("token");
    fs::write(&token, "p4y").expect("written");
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).expect("set");
    let tenant =
        format!("{OF_PAY}[[tenant]]\nname = \"pay\"\ntables = [\"LogPay\"]\ntoken_file = \"{}\"\n", token.display());
    let running = central.place.start_with(&(central.config() + &tenant));
    let (pay, web) = (Host::joined(&central, "pay-1"), Host::new("web-1"));
    // Another host has a table of the same name, and the same instance.
    let named = "[[table]]\nname = \"LogPay\"\nkeep = \"30d\"\n";
    fs::write(web.file(), web.base() + named).expect("a configuration");
    assert!(web.join(&central.invite("web-1"), &[]).status.success());
    let [first, second] = [&pay, &web].map(Host::start);
    pay.write("app.log", &lines("paid", 0..30));
    web.write("app.log", &lines("seen", 0..30));
    wait_for_all(&central, &[&pay, &web], 60);
    records_are(&central.place, &[("Log", 30), ("LogPay", 30)]);
    let day = "start=2026-11-27T00:00:00Z&end=2026-11-28T00:00:00Z&limit=1000";
    let asked = |path: &str| {
        let stream = std::net::TcpStream::connect(("127.0.0.1", central.port)).expect("a connection");
        let answer =
            client::over(stream, "GET", &format!("/loki/api/v1/{path}&{day}"), "Authorization: Bearer p4y\r\n", b"");
        let answer = answer.expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body
    };
    let entries = asked("query_range?query=%7Binstance%3D%22app%22%7D");
    assert_eq!((entries.matches("paid number").count(), entries.contains("seen")), (30, false), "{entries}");
    let names = asked("label/log_host/values?");
    assert!(names.contains("pay-1") && !names.contains("web-1"), "{names}");
    for daemon in [first, second, running] {
        daemon.stop();
    }
}

/// A tenant of some hosts sees what these forwarded, in a table and an instance that others have, too, whatever is asked.
#[test]
fn a_tenant_of_hosts_sees_their_records_alone() {
    let central = Central::new();
    let token = central.place.path("token");
    fs::write(&token, "p4y").expect("written");
    fs::set_permissions(&token, fs::Permissions::from_mode(0o600)).expect("set");
    let tenant = format!("[[tenant]]\nname = \"pay\"\nhosts = [\"pay-*\"]\ntoken_file = \"{}\"\n", token.display());
    let running = central.place.start_with(&(central.config() + &tenant));
    let hosts = [Host::joined(&central, "pay-1"), Host::joined(&central, "web-1"), Host::joined(&central, "pay-2")];
    let daemons = [&hosts[0], &hosts[1], &hosts[2]].map(Host::start);
    hosts[0].write("app.log", &lines("paid", 0..30));
    hosts[1].write("app.log", &lines("seen", 0..40));
    let own = |n: usize| {
        format!(
            "{{\"time\":\"2026-11-27T10:00:{n:02}Z\",\"level\":\"fatal\",\"message\":\"own {n}\",\"webonly\":\"hidden{n}\"}}"
        )
    };
    hosts[1].write("own.log", &(0..20).map(own).collect::<Vec<_>>());
    hosts[2].write("app.log", &lines("paid", 0..30));
    wait_for_all(&central, &[&hosts[0], &hosts[1], &hosts[2]], 120);
    // A record of the central itself is none of theirs, whatever it says of its host.
    let stream = std::net::TcpStream::connect(("127.0.0.1", central.port)).expect("a connection");
    let own = b"{\"time\":\"2026-11-27T10:00:00Z\",\"host\":\"pay-1\",\"message\":\"hidden\"}\n";
    let pushed = client::over(stream, "POST", "/ingest?instance=app", "Content-Type: application/x-ndjson\r\n", own);
    assert_eq!(pushed.expect("an answer").status, 200);
    let asked = |path: &str| {
        let stream = std::net::TcpStream::connect(("127.0.0.1", central.port)).expect("a connection");
        let day = "start=2026-11-27T00:00:00Z&end=2026-11-28T00:00:00Z&limit=1000";
        let path = format!("/loki/api/v1/{path}&{day}");
        let answer = client::over(stream, "GET", &path, "Authorization: Bearer p4y\r\n", b"").expect("an answer");
        assert_eq!(answer.status, 200, "{}", answer.body);
        answer.body
    };
    let json = |path: &str| serde_json::from_str::<Value>(&asked(path)).expect("JSON");
    let app = "%7Binstance%3D%22app%22%7D";
    for sealed in [false, true] {
        if sealed {
            central.place.said("archive", &["Log20261127"]);
        }
        let entries = asked(&format!("query_range?query={app}"));
        assert_eq!(entries.matches("paid number").count(), 60, "{entries}");
        let number =
            |query: &str| json(&format!("query?time=2026-11-28T00:00:00Z&query={query}"))["data"]["result"].clone();
        let counted = number(&format!("sum(count_over_time({app}[1d]))"));
        assert_eq!(counted[0]["value"][1], "60", "{counted}");
        let levels = number(&format!("sum%20by%20(level)(count_over_time({app}[1d]))"));
        assert_eq!((levels.as_array().map(Vec::len), &levels[0]["value"][1]), (Some(1), &"60".into()), "{levels}");
        assert_eq!(json(&format!("index/stats?query={app}"))["entries"], 60);
        assert_eq!(json("label/log_host/values?")["data"], serde_json::json!(["pay-1", "pay-2"]));
        assert_eq!(json("label/level/values?")["data"], serde_json::json!(["info"]));
        for path in [
            format!("query_range?query={app}"),
            format!("series?match[]={app}"),
            format!("index/volume?query={app}"),
            format!("index/volume_range?step=3600&query={app}"),
            format!("detected_fields?query={app}"),
            format!("detected_labels?query={app}"),
            format!("detected_field/webonly/values?query={app}"),
            format!("patterns?query={app}"),
            format!("query_range?query={app}%20|%3D%20%22seen%22"),
            "query_range?query=%7Blog_host%3D%22web-1%22%7D".to_owned(),
            "labels?".to_owned(),
            "label/host/values?".to_owned(),
            "label/webonly/values?".to_owned(),
        ] {
            let answer = asked(&path);
            let shown = answer.replace("webonly/values", "");
            for secret in ["web-1", "seen number", "hidden", "fatal"] {
                assert!(!shown.contains(secret), "{path}: {answer}");
            }
        }
    }
    for daemon in daemons {
        daemon.stop();
    }
    running.stop();
}

/// A credential for other tables does not write that of its hosts.
#[test]
fn a_credential_is_for_the_table_of_its_host() {
    let mut central = Central::new();
    central.more = OF_PAY;
    let running = central.start();
    let host = Host::new("pay-1");
    let line = hosts(&central, &["invite", "pay-1", "--tables", "Log"]);
    assert!(host.join(&credentials::code_of(&line), &[]).status.success());
    let daemon = host.start();
    host.write("app.log", &lines("request", 0..20));
    wait_for("the refusal", PATIENCE, || (central.host("pay-1")?["refused_table"] == "LogPay").then_some(()));
    assert_eq!(central.place.records().len(), 0);
    let line = hosts(&central, &["invite", "pay-1", "--tables", "LogPay"]);
    assert!(host.join(&credentials::code_of(&line), &[]).status.success());
    wait_for_all(&central, &[&host], 20);
    records_are(&central.place, &[("Log", 0), ("LogPay", 20)]);
    daemon.stop();
    running.stop();
}

#[test]
fn a_table_of_hosts_has_no_condition_and_is_not_the_last() {
    let place = Place::new();
    for (tables, problem) in [
        ("[[table]]\nname = \"Log\"\nhosts = [\"a\"]\n", "so it has no `hosts`"),
        (
            "[[table]]\nname = \"Pay\"\nhosts = [\"a\"]\nwhen = \"level:error\"\n[[table]]\nname = \"Log\"\n",
            "use a table for each",
        ),
        ("[[table]]\nname = \"Pay\"\nhosts = []\n[[table]]\nname = \"Log\"\n", "names none"),
        ("[[table]]\nname = \"Pay\"\nhosts = [\"a b\"]\n[[table]]\nname = \"Log\"\n", "the name of a host has letters"),
        ("[[table]]\nname = \"Pay\"\n[[table]]\nname = \"Log\"\n", "without `when` or `hosts`"),
    ] {
        let file = place.configure(tables);
        let output = Command::new(DAYTABLE).args(["check", "--config"]).arg(file).output().expect("run");
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(problem), "{tables}: {said}");
    }
}
