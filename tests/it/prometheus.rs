//! The files of `ops/`: `promtool` reads the rules and passes their tests, and a real Prometheus that scrapes the real
//! daemon evaluates every rule and every panel of the dashboard.

use crate::client::{self, Answer};
use crate::place::{Daemon, PATIENCE, Place, numbered, wait_for};
use crate::server::free_port;
use rcgen::{CertificateParams, KeyPair};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const OPS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/ops");
const DOCS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/docs");

fn read(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn ops(name: &str) -> PathBuf {
    Path::new(OPS).join(name)
}

fn promtool(args: &[&str]) {
    let output = Command::new("promtool").args(args).current_dir(ops("prometheus")).output();
    let output = output.expect("promtool is there: sh tests/setup installs it");
    let said = String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "promtool {args:?}: {}\n{said}", output.status);
}

/// The names after `- alert: ` in the rules.
fn alerts() -> BTreeSet<String> {
    let rules = read(ops("prometheus/daytable.rules.yml"));
    rules.lines().filter_map(|line| line.trim().strip_prefix("- alert: ")).map(str::to_owned).collect()
}

#[test]
fn the_rules_are_good_and_each_is_seen_quiet_and_firing() {
    promtool(&["check", "config", "--lint-fatal", "prometheus.yml"]);
    promtool(&["check", "rules", "--lint-fatal", "daytable.rules.yml"]);
    promtool(&["test", "rules", "daytable.rules.test.yml"]);
    let tests = read(ops("prometheus/daytable.rules.test.yml"));
    let page = read(Path::new(DOCS).join("operate/prometheus.md"));
    for alert in alerts() {
        assert!(tests.contains(&format!("- alertname: {alert}\n")), "{alert} is never seen firing");
        assert!(tests.contains(&format!("{{ alertname: {alert}, ")), "{alert} is never seen quiet");
        assert!(
            page.contains(&format!("`{alert}`")),
            "docs/operate/prometheus.md does not say what to do about {alert}"
        );
    }
}

/// A Prometheus on the shipped configuration with another target and interval. Dropping the value ends the process.
struct Prometheus {
    child: Child,
    address: SocketAddr,
}

impl Prometheus {
    fn start(place: &Place, target: SocketAddr) -> Prometheus {
        let config = read(ops("prometheus/prometheus.yml"));
        assert!(config.contains("127.0.0.1:7878") && config.contains("_interval: 15s"));
        let config = config.replace("127.0.0.1:7878", &target.to_string()).replace("_interval: 15s", "_interval: 1s");
        fs::write(place.path("prometheus.yml"), config).expect("written");
        fs::copy(ops("prometheus/daytable.rules.yml"), place.path("daytable.rules.yml")).expect("copied");
        // Prometheus cannot choose a free port and report it.
        let address = SocketAddr::from(([127, 0, 0, 1], free_port()));
        let log = fs::File::create(place.path("prometheus.log")).expect("a file");
        let child = Command::new("prometheus")
            .arg(format!("--config.file={}", place.path("prometheus.yml").display()))
            .arg(format!("--storage.tsdb.path={}", place.path("tsdb").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn();
        let child = child.expect("prometheus is there: sh tests/setup installs it");
        let prometheus = Prometheus { child, address };
        wait_for("prometheus is ready", PATIENCE, || (prometheus.get("/-/ready").ok()?.status == 200).then_some(()));
        prometheus
    }

    fn get(&self, target: &str) -> std::io::Result<Answer> {
        client::over_tcp(self.address, "GET", target, "")
    }

    fn json(&self, target: &str) -> Value {
        let answer = self.get(target).expect("an answer");
        serde_json::from_str(&answer.body).unwrap_or_else(|error| panic!("{target}: {error}\n{}", answer.body))
    }

    /// The present samples of an expression.
    fn query(&self, expression: &str) -> Vec<Value> {
        let answer = self.json(&format!("/api/v1/query?query={}", percent(expression)));
        assert_eq!(answer["status"], "success", "{expression}: {answer}");
        answer["data"]["result"].as_array().expect("samples").clone()
    }
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // The process may have ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn percent(text: &str) -> String {
    text.bytes().map(|byte| format!("%{byte:02X}")).collect()
}

/// The metric names in an expression. Names of histograms come without their suffix.
fn names(expression: &str) -> BTreeSet<String> {
    let words = expression.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let ours = words.filter(|word| word.starts_with("daytable_") || word.starts_with("process_"));
    ours.map(|word| word.strip_suffix("_bucket").unwrap_or(word).to_owned()).collect()
}

/// Every expression of the dashboard, with its variables replaced as Grafana does.
fn panels() -> Vec<(String, String)> {
    let dashboard: Value = serde_json::from_str(&read(ops("grafana/dashboards/daytable.json"))).expect("JSON");
    let targets = dashboard["panels"].as_array().expect("panels").iter().flat_map(|panel| {
        let of_panel = panel["targets"].as_array().cloned().unwrap_or_default();
        of_panel.into_iter().map(|target| (panel["title"].clone(), target["expr"].clone()))
    });
    let started = &dashboard["annotations"]["list"][0];
    let all = targets.chain([(started["name"].clone(), started["expr"].clone())]);
    let text = |value: Value| value.as_str().expect("text").to_owned();
    let filled = |expression: String| {
        let filled = expression.replace("$instance", ".*").replace("$job", ".*").replace("$__rate_interval", "1m");
        filled.replace("$__range", "1m")
    };
    all.map(|(title, expression)| (text(title), filled(text(expression)))).collect()
}

/// A daemon with files, datagrams, TLS connections, good and bad pushes, a rule of alerts, and days that are sealed,
/// dropped or held back.
fn busy_daemon(place: &Place) -> Daemon {
    let signed = CertificateParams::new(vec!["localhost".into()]).expect("parameters");
    let key = KeyPair::generate().expect("a key");
    fs::write(place.path("cert.pem"), signed.self_signed(&key).expect("signed").pem()).expect("written");
    fs::write(place.path("key.pem"), key.serialize_pem()).expect("written");
    let config = format!(
        "[[tail]]\nname = \"app\"\ninclude = [\"LOGS/*.log\"]\nredact = [\"email\"]\n\
         [[syslog]]\nname = \"udp\"\nlisten = \"udp://127.0.0.1:0\"\n\
         [[syslog]]\nname = \"tls\"\nlisten = \"tls://127.0.0.1:0\"\ncert_file = \"{cert}\"\nkey_file = \"{key}\"\n\
         [[table]]\nname = \"Log\"\nkeep = \"36500d\"\n\
         [[alert]]\nname = \"Never\"\nquery = \"nowhere\"\nabove = 0\n\
         [alerts]\nsend_to = [\"http://127.0.0.1:1\"]\n\
         [lifecycle]\nschedule = \"* * * * * *\"\n",
        cert = place.path("cert.pem").display(),
        key = place.path("key.pem").display(),
    );
    place.write("app.log", &numbered("2026-11-18T10:00:00Z INFO told ann@example.com", 500));
    place.write("other.log", &numbered("no time", 10));
    let daemon = place.start_with(&config);
    let port = |name: &str| {
        let line = wait_for("it listens", PATIENCE, || {
            let said = daemon.said();
            said.lines().find(|l| l.contains("taking syslog") && l.contains(&format!("\"{name}\""))).map(str::to_owned)
        });
        line.trim_end_matches('"').rsplit(':').next().and_then(|port| port.parse::<u16>().ok()).expect("a port")
    };
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
    socket.send_to(b"<14>1 - h app - - - over UDP", ("127.0.0.1", port("udp"))).expect("sent");
    drop(TcpStream::connect(("127.0.0.1", port("tls"))).expect("connected"));
    let push = |headers: &str, body: &[u8]| {
        let stream = TcpStream::connect(daemon.address()).expect("connected");
        client::over(stream, "POST", "/ingest", headers, body).expect("an answer").status
    };
    for _ in 0..2 {
        assert_eq!(
            push("Idempotency-Key: k\r\nContent-Type: application/x-ndjson\r\n", b"{\"message\":\"m\"}\nno\n"),
            200
        );
    }
    assert_eq!(push("Content-Type: application/json\r\n", b"{"), 400);
    wait_for("all are committed", PATIENCE, || {
        (daemon.metric("daytable_records_committed_total")? >= 512.0).then_some(())
    });
    daemon
}

/// The metric families of `/metrics`, with their types.
fn families(daemon: &Daemon) -> BTreeMap<String, String> {
    let answer = client::over_tcp(daemon.address(), "GET", "/metrics", "").expect("an answer");
    let types = answer.body.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    types.map(|(name, kind)| (name.to_owned(), kind.to_owned())).collect()
}

#[test]
fn a_prometheus_evaluates_every_rule_and_every_panel_against_the_daemon() {
    let place = Place::new();
    let daemon = busy_daemon(&place);
    let prometheus = Prometheus::start(&place, daemon.address());

    // The daemon exports the documented metrics. A unit test compares the table with the code, texts included.
    let table = read(Path::new(DOCS).join("reference/metrics.md"));
    let exported = families(&daemon);
    for (name, kind) in &exported {
        assert!(
            table.contains(&format!("| `{name}` | {kind} |")),
            "{name}, a {kind}, is not in docs/reference/metrics.md"
        );
    }
    assert!(exported.len() > 50, "{exported:#?}");

    // Rules: evaluated without an error, on existing metrics.
    let rules = wait_for("every rule was evaluated", PATIENCE, || {
        let answer = prometheus.json("/api/v1/rules");
        let rules = answer["data"]["groups"][0]["rules"].as_array()?.clone();
        rules.iter().all(|rule| rule["health"] != "unknown").then_some(rules)
    });
    assert_eq!(
        rules.iter().map(|rule| rule["name"].as_str().expect("a name").to_owned()).collect::<BTreeSet<_>>(),
        alerts()
    );
    for rule in &rules {
        assert_eq!(rule["health"], "ok", "{rule}");
    }
    let expressions =
        rules.iter().map(|rule| (rule["name"].to_string(), rule["query"].as_str().expect("a query").to_owned()));
    for (of, expression) in expressions.chain(panels()) {
        for name in names(&expression) {
            assert!(table.contains(&format!("| `{name}` |")), "{of}: there is no metric {name}: {expression}");
        }
    }

    // Panels: each has data if its metrics are exported and its expression selects no particular values.
    wait_for("two scrapes", PATIENCE, || {
        let scrapes = prometheus.query("count_over_time(up{job=\"daytable\"}[1m])");
        (scrapes.first()?["value"][1].as_str()?.parse::<u32>().ok()? >= 2).then_some(())
    });
    let mut shown = 0;
    for (title, expression) in panels() {
        let samples = prometheus.query(&expression);
        if names(&expression).iter().all(|name| exported.contains_key(name)) && !expression.contains("> 0") {
            assert!(!samples.is_empty(), "{title} shows nothing: {expression}");
            shown += 1;
        }
    }
    assert!(shown > 50, "only {shown} expressions were shown to give something");

    // A healthy daemon raises no alert.
    let firing = prometheus.query("ALERTS{alertstate=\"firing\"}");
    assert_eq!(firing, Vec::<Value>::new());
    daemon.stop();
}

/// Provisioned files lie at the configured paths, under the configured names.
#[test]
fn what_grafana_reads_is_well_formed() {
    let python = crate::place::installed("target/venv/bin/python");
    let script = "import sys, yaml\nfor path in sys.argv[1:]:\n    found = yaml.safe_load(open(path))\n    assert found['apiVersion'] == 1, path\n";
    let files =
        ["grafana/provisioning/datasources/daytable.yml", "grafana/provisioning/dashboards/daytable.yml"].map(ops);
    let status = Command::new(python).args(["-c", script]).args(files).status().expect("python");
    assert!(status.success());
    for dashboard in ["daytable", "daytable-logs"] {
        let text = read(ops(&format!("grafana/dashboards/{dashboard}.json")));
        panels_are_apart(&serde_json::from_str(&text).expect("JSON"));
    }
}

/// Panels have ids of their own, and do not overlap.
fn panels_are_apart(dashboard: &Value) {
    let panels = dashboard["panels"].as_array().expect("panels");
    let ids: BTreeSet<String> = panels.iter().map(|panel| panel["id"].to_string()).collect();
    assert_eq!(ids.len(), panels.len(), "two panels have one id");
    // Panels do not overlap. The grid is 24 wide.
    let mut taken = BTreeSet::new();
    for panel in panels {
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|key| panel["gridPos"][key].as_u64().expect("a number"));
        assert!(x + w <= 24, "{} is too wide", panel["title"]);
        for place in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(taken.insert(place), "{} lies on another panel", panel["title"]);
        }
    }
}
