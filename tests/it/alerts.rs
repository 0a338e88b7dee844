//! Alerts, received by a real Alertmanager that tells a webhook: once for each cause, and once when it is over, whatever kills
//! the daemon in between.

use crate::client;
use crate::place::{Daemon, PATIENCE, Place, TAIL, installed, wait_for};
use crate::server::{Server, free_port};
use crate::syslog::Authority;
use chrono::{SecondsFormat, Utc};
use serde_json::Value;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpListener;
use std::process::Command;
use std::sync::{Arc, Mutex, PoisonError};

/// The webhook of Alertmanager: what people get.
struct Webhook {
    port: u16,
    messages: Arc<Mutex<Vec<Value>>>,
}

impl Webhook {
    fn start() -> Webhook {
        Webhook::start_at(0)
    }

    fn start_at(port: u16) -> Webhook {
        let listener = TcpListener::bind(("127.0.0.1", port)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let messages: Arc<Mutex<Vec<Value>>> = Arc::default();
        let received = messages.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming() {
                let Ok(mut stream) = stream else { return };
                let mut reader = BufReader::new(stream.try_clone().expect("a socket"));
                let (mut length, mut line) = (0, String::new());
                while reader.read_line(&mut line).is_ok_and(|read| read > 2) {
                    if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                        length = value.trim().parse().expect("a number");
                    }
                    line.clear();
                }
                let mut body = vec![0; length];
                if reader.read_exact(&mut body).is_ok() {
                    let message = serde_json::from_slice(&body).expect("JSON");
                    received.lock().unwrap_or_else(PoisonError::into_inner).push(message);
                }
                let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nConnection: close\r\n\r\n");
            }
        });
        Webhook { port, messages }
    }

    /// All messages, as they were received.
    fn all(&self) -> Vec<Value> {
        self.messages.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The alerts of all messages about a rule with a status, each with its labels.
    fn of(&self, rule: &str, status: &str) -> Vec<Value> {
        let messages = self.messages.lock().unwrap_or_else(PoisonError::into_inner);
        let about = messages
            .iter()
            .filter(|message| message["groupLabels"]["alertname"] == rule && message["status"] == status);
        about.flat_map(|message| message["alerts"].as_array().expect("alerts").clone()).collect()
    }

    fn wait(&self, rule: &str, status: &str) -> Value {
        wait_for(&format!("{rule} is {status}"), PATIENCE, || self.of(rule, status).first().cloned())
    }
}

/// An Alertmanager that tells `webhook` at once.
fn alertmanager(place: &Place, webhook: &Webhook) -> (Server, String) {
    let (server, port) = alertmanager_with(place, webhook, &[]);
    (server, format!("http://127.0.0.1:{port}"))
}

fn alertmanager_with(place: &Place, webhook: &Webhook, options: &[String]) -> (Server, u16) {
    let config = format!(
        "route:\n  receiver: hook\n  group_by: [alertname]\n  group_wait: 0s\n  group_interval: 1s\n  repeat_interval: 1h\n\
         receivers:\n- name: hook\n  webhook_configs:\n  - url: http://127.0.0.1:{}/\n",
        webhook.port
    );
    fs::write(place.path("am.yml"), config).expect("written");
    let port = free_port();
    let mut command = Command::new(installed("target/senders/alertmanager/usr/bin/prometheus-alertmanager"));
    command.arg(format!("--config.file={}", place.path("am.yml").display()));
    command.arg(format!("--storage.path={}", place.path("am").display()));
    command.arg(format!("--web.listen-address=127.0.0.1:{port}")).arg("--cluster.listen-address=").args(options);
    (Server::start(command, port), port)
}

fn lines(count: usize, text: &str) -> Vec<String> {
    let now = Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true);
    (0..count).map(|n| format!("{now} ERROR {text} {n}")).collect()
}

fn rule(name: &str, more: &str) -> String {
    format!("[[alert]]\nname = \"{name}\"\nevery = \"1s\"\n{more}\n")
}

fn shown(daemon: &Daemon) -> Value {
    let answer = client::over_unix(daemon.socket(), "GET", "/api/alerts", "").expect("an answer");
    assert_eq!(answer.status, 200, "{}", answer.body);
    serde_json::from_str(&answer.body).expect("JSON")
}

#[test]
fn alertmanager_hears_of_errors_of_silence_and_of_their_ends() {
    let (place, webhook) = (Place::new(), Webhook::start());
    let (_server, address) = alertmanager(&place, &webhook);
    let errors = rule(
        "Errors",
        "query = \"boom level:>=error\"\nby = [\"instance\"]\nabove = 2\nperiod = \"4s\"\nlabels = { severity = \"page\" }\n\
         annotations = { summary = \"{value} errors of {instance}\" }",
    );
    let silent = rule("Silent", "query = \"alive\"\nby = [\"instance\"]\nbelow = 1\nperiod = \"3s\"");
    let lasting = rule("Lasting", "query = \"* | stats count() n\"\nabove = 0\nperiod = \"1h\"");
    let sending = format!("[alerts]\nsend_to = [\"{address}\"]\nresend = \"1s\"\npage_url = \"http://logs\"\n");
    let config = format!("{TAIL}{sending}{errors}{silent}");
    let daemon = place.start_with(&format!("{config}{lasting}"));

    // Two errors are too few; the third is one too many.
    place.write("app.log", &[lines(2, "boom"), lines(1, "alive")].concat());
    wait_for("the records", PATIENCE, || (place.try_records().len() == 3).then_some(()));
    place.write("app.log", &lines(3, "boom"));
    let alert = webhook.wait("Errors", "firing");
    assert_eq!(alert["labels"], serde_json::json!({ "alertname": "Errors", "instance": "test", "severity": "page" }));
    assert!(alert["annotations"]["summary"].as_str().is_some_and(|text| text.ends_with(" errors of test")), "{alert}");
    let link = alert["generatorURL"].as_str().expect("a link");
    assert!(link.starts_with("http://logs/?q=boom+level%3A%3E%3Derror+instance%3A%3Dtest&since=20"), "{link}");
    // It is over by itself.
    let over = webhook.wait("Errors", "resolved");
    assert_eq!(over["startsAt"], alert["startsAt"]);
    assert_eq!(webhook.of("Errors", "firing").len(), 1, "told twice");

    // An instance that wrote and does not any more, until it does again.
    webhook.wait("Silent", "firing");
    place.write("app.log", &lines(1, "alive"));
    webhook.wait("Silent", "resolved");

    // What lasts is shown everywhere.
    webhook.wait("Lasting", "firing");
    let document = shown(&daemon);
    assert!(
        document["alerts"].as_array().expect("alerts").iter().any(|alert| alert["alert"] == "Lasting"),
        "{document}"
    );
    assert_eq!(document["receivers"][0]["address"], address.as_str());
    assert_eq!(document["receivers"][0]["error"], Value::Null);
    let status = place.said("status", &[]);
    assert!(status.contains("\nalerts    Lasting: ") || status.contains("\n          Lasting: "), "{status}");
    assert_eq!(daemon.metric("daytable_alerts{alert=\"Lasting\",state=\"firing\"}"), Some(1.0));
    let checked =
        Command::new(crate::place::DAYTABLE).args(["check", "--alerts"]).arg(place.path("daytable.toml")).output();
    let checked = checked.expect("daytable can be run");
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success() && said.contains("Lasting: would alert: "), "{said}");
    assert!(said.contains("[[alert]]: 3") && said.contains("Errors: quiet"), "{said}");

    // A rule that leaves the configuration ends its alert.
    place.configure(&config);
    daemon.signal(rustix::process::Signal::HUP);
    webhook.wait("Lasting", "resolved");
    daemon.stop();
}

/// The rules of a first configuration are checked before there is anything to try them on.
#[test]
fn rules_are_checked_before_the_first_start() {
    let place = Place::new();
    let config = place.configure(&rule("Any", "query = \"boom\"\nabove = 0\nperiod = \"1h\""));
    let checked = Command::new(crate::place::DAYTABLE).args(["check", "--alerts"]).arg(config).output().expect("run");
    let said = String::from_utf8_lossy(&checked.stdout);
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    assert!(said.contains("[[alert]]: 1") && said.contains("1 rule is good and not tried: "), "{said}");
    assert!(!place.data().exists());
}

#[test]
fn a_receiver_that_does_not_answer_is_shown_and_hears_later() {
    let (place, webhook) = (Place::new(), Webhook::start());
    let port = free_port();
    let rule = rule("Any", "query = \"boom\"\nabove = 0\nperiod = \"1h\"");
    let daemon =
        place.start_with(&format!("{TAIL}[alerts]\nsend_to = [\"http://127.0.0.1:{port}\"]\nresend = \"1s\"\n{rule}"));
    place.write("app.log", &lines(1, "boom"));
    let trouble = wait_for("the trouble is shown", PATIENCE, || {
        let status = place.said("status", &[]);
        status
            .lines()
            .find(|line| line.contains(&format!("alerts to http://127.0.0.1:{port} are not sent")))
            .map(str::to_owned)
    });
    assert!(trouble.contains("refused"), "{trouble}");
    // Another address, at a reload.
    let (_server, address) = alertmanager(&place, &webhook);
    place.configure(&format!("{TAIL}[alerts]\nsend_to = [\"{address}\"]\nresend = \"1s\"\n{rule}"));
    daemon.signal(rustix::process::Signal::HUP);
    webhook.wait("Any", "firing");
    let document = shown(&daemon);
    assert_eq!(document["receivers"].as_array().map(Vec::len), Some(1), "{document}");
    daemon.stop();
    // The alert lasts over a restart, and is no new one.
    let before = place.path("data").join("alerts.json");
    assert!(fs::read_to_string(before).expect("the state").contains("\"Any\""));
    let daemon = place.start_with(&format!("{TAIL}[alerts]\nsend_to = [\"{address}\"]\nresend = \"1s\"\n{rule}"));
    wait_for("it is sent again", PATIENCE, || (shown(&daemon)["receivers"][0]["sent"].as_u64()? > 1).then_some(()));
    assert_eq!(webhook.of("Any", "firing").len(), 1, "told twice");
    daemon.stop();
}

/// An Alertmanager behind TLS that asks for a certificate gets alerts from a daytable that has one.
#[test]
fn a_receiver_that_asks_for_a_certificate_gets_one() {
    let (place, webhook) = (Place::new(), Webhook::start());
    let authority = Authority::new();
    let file = |name: &str, pem: &str| {
        fs::write(place.path(name), pem).expect("written");
        place.path(name).display().to_string()
    };
    let ca = file("ca.pem", &authority.pem);
    let [server, client] = ["server", "client"].map(|of| {
        let (certificate, key) = authority.sign("localhost");
        (file(&format!("{of}.pem"), &certificate), file(&format!("{of}.key"), &key))
    });
    let web = format!(
        "tls_server_config:\n  cert_file: {}\n  key_file: {}\n  client_auth_type: RequireAndVerifyClientCert\n  client_ca_file: {ca}\n",
        server.0, server.1
    );
    let web = format!("--web.config.file={}", file("web.yml", &web));
    let (_server, port) = alertmanager_with(&place, &webhook, &[web]);
    let any = rule("Any", "query = \"boom\"\nabove = 0\nperiod = \"1h\"");
    let config = |more: &str| {
        format!(
            "{TAIL}[alerts]\nsend_to = [\"https://localhost:{port}\"]\nca_file = \"{ca}\"\nresend = \"1s\"\n{more}{any}"
        )
    };
    let daemon = place.start_with(&config(""));
    place.write("app.log", &lines(1, "boom"));
    wait_for("the trouble is shown", PATIENCE, || {
        let status = place.said("status", &[]);
        (status.contains("are not sent") && status.to_lowercase().contains("certificate")).then_some(())
    });
    place.configure(&config(&format!("cert_file = \"{}\"\nkey_file = \"{}\"\n", client.0, client.1)));
    daemon.signal(rustix::process::Signal::HUP);
    webhook.wait("Any", "firing");
    daemon.stop();
}

/// The address of a webhook is a secret, its body is what the rule says, and a beginning and an end are one message each.
#[test]
fn a_webhook_gets_the_beginning_and_the_end_in_its_own_words() {
    let (place, webhook) = (Place::new(), Webhook::start());
    fs::write(place.path("hook"), format!("http://127.0.0.1:{}/T0/s3cr3t\n", webhook.port)).expect("written");
    let rule = rule(
        "Errors",
        &format!(
            "query = \"boom\"\nby = [\"instance\", \"path\"]\nabove = 0\nperiod = \"4s\"\nwebhook = \"{}\"\n\
             annotations = {{ summary = \"{{value}} of {{path}}\" }}\n\
             webhook_body = '{{\"text\": \"{{alert}} is {{status}}: {{summary}}\", \"id\": \"{{id}}\"}}'",
            place.path("hook").display()
        ),
    );
    let daemon = place.start_with(&format!("{TAIL}{rule}"));
    let now = Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true);
    // The value of the label is JSON of its own, and a place.
    place.write("app.log", &[format!(r#"{{"time":"{now}","msg":"boom","path":"\"}},{{value}}\\"}}"#)]);
    let messages = wait_for("both messages", PATIENCE, || Some(webhook.all()).filter(|all| all.len() >= 2));
    let text = |at: usize| messages[at]["text"].as_str().expect("a text").to_owned();
    assert_eq!(text(0), "Errors is firing: 1 of \"},{value}\\");
    assert!(text(1).starts_with("Errors is resolved: "), "{messages:?}");
    assert_eq!(messages[0]["id"], messages[1]["id"]);
    // Nothing is repeated after a restart, and nobody shows the address.
    wait_for("the receiver is known", PATIENCE, || {
        shown(&daemon)["receivers"].as_array()?.iter().find(|one| one["sent"] == 2).map(drop)
    });
    let said = format!("{}{}", shown(&daemon), place.said("status", &[]));
    assert!(said.contains("webhook of Errors") && !said.contains("s3cr3t"), "{said}");
    daemon.stop();
    let daemon = place.start_with(&format!("{TAIL}{rule}"));
    let now = Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true);
    place.write("app.log", &[format!(r#"{{"time":"{now}","msg":"boom","path":"another"}}"#)]);
    let messages = wait_for("another alert", PATIENCE, || Some(webhook.all()).filter(|all| all.len() >= 4));
    assert_eq!(messages[2]["text"], "Errors is firing: 1 of another", "the first was told again");
    daemon.stop();
}

/// A webhook that refuses is tried again; an alert that began and ended meanwhile is told as both.
#[test]
fn an_alert_that_is_over_before_its_webhook_answers_is_told() {
    let place = Place::new();
    let port = free_port();
    let rule = rule(
        "Short",
        &format!("query = \"boom\"\nabove = 0\nperiod = \"2s\"\nwebhook = \"http://127.0.0.1:{port}/hook\""),
    );
    let daemon = place.start_with(&format!("{TAIL}{rule}"));
    place.write("app.log", &lines(1, "boom"));
    wait_for("the trouble is shown", PATIENCE, || {
        place.said("status", &[]).contains("alerts to webhook of Short are not sent").then_some(())
    });
    wait_for("its end", PATIENCE, || shown(&daemon)["alerts"].as_array().is_some_and(Vec::is_empty).then_some(()));
    // A restart forgets neither.
    daemon.stop();
    let daemon = place.start_with(&format!("{TAIL}{rule}"));
    wait_for("the trouble is shown again", PATIENCE, || {
        place.said("status", &[]).contains("alerts to webhook of Short are not sent").then_some(())
    });
    let webhook = Webhook::start_at(port);
    let messages = wait_for("both messages", PATIENCE, || Some(webhook.all()).filter(|all| all.len() >= 2));
    assert_eq!([&messages[0]["status"], &messages[1]["status"]], ["firing", "resolved"]);
    assert_eq!((&messages[0]["id"], &messages[0]["endsAt"]), (&messages[1]["id"], &Value::Null));
    assert_eq!(messages[1]["labels"], serde_json::json!({ "alertname": "Short" }));
    daemon.stop();
}

/// A program gets the alert once, its arguments are no words of a shell, and it is run only where that is allowed.
#[test]
fn a_program_is_run_once_and_without_a_shell() {
    let place = Place::new();
    let (script, said) = (place.path("act"), place.path("said"));
    let text = format!(
        "#!/bin/sh\n{{ echo \"$DAYTABLE_ALERT|$1|$2\"; cat; echo; }} >>{}\ntest -z \"$SECRET\"\n",
        said.display()
    );
    fs::write(&script, text).expect("written");
    let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    fs::set_permissions(&script, executable).expect("permitted");
    let acting = rule(
        "Act",
        &format!(
            "query = \"boom\"\nby = [\"path\"]\nabove = 0\nperiod = \"3s\"\nrun = [\"{}\", \"{{path}}\", \"x y\"]",
            script.display()
        ),
    );
    // Without the owner's word it is a mistake of the configuration.
    let config = place.configure(&format!("{TAIL}{acting}"));
    let checked = Command::new(crate::place::DAYTABLE).arg("check").arg(&config).output().expect("daytable can be run");
    let refused = String::from_utf8_lossy(&checked.stderr);
    assert!(!checked.status.success() && refused.contains("allow_run = true"), "{refused}");

    let daemon = place.start_with(&format!("{TAIL}[alerts]\nallow_run = true\n{acting}"));
    let now = Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true);
    place.write(
        "app.log",
        &[format!(r#"{{"time":"{now}","msg":"boom","path":"$(touch {0}/no); `id`"}}"#, place.path("").display())],
    );
    wait_for("the program was run", PATIENCE, || {
        shown(&daemon)["receivers"].as_array()?.iter().find(|one| one["sent"] == 1).map(drop)
    });
    wait_for("its end", PATIENCE, || shown(&daemon)["alerts"].as_array().is_some_and(Vec::is_empty).then_some(()));
    daemon.stop();
    let said = fs::read_to_string(said).expect("the program was run");
    let (first, document) = said.split_once('\n').expect("two lines");
    assert!(first.starts_with("Act|$(touch ") && first.ends_with("`id`|x y"), "{said}");
    let document: Value = serde_json::from_str(document).expect("one document: it was run once");
    assert_eq!((&document["status"], &document["alert"]), (&"firing".into(), &"Act".into()));
    assert!(!place.path("no").exists());
}

/// A mail of a real server of mail has the alert, and content of logs is no header of it.
#[test]
fn mail_reaches_a_relay() {
    const RELAY: &str = "
import sys, time
from aiosmtpd.controller import Controller
class Keep:
    async def handle_DATA(self, server, session, envelope):
        with open(sys.argv[2], 'ab') as file:
            file.write(envelope.content + b'\\n--- to ' + ','.join(envelope.rcpt_tos).encode() + b'\\n')
        return '250 kept'
controller = Controller(Keep(), hostname='127.0.0.1', port=int(sys.argv[1]))
controller.start()
while True: time.sleep(60)
";
    let (place, port) = (Place::new(), free_port());
    let mails = place.path("mails");
    let mut relay = Command::new(installed("target/venv/bin/python"));
    relay.args(["-c", RELAY, &port.to_string()]).arg(&mails);
    let _relay = Server::start(relay, port);
    let sending = format!(
        "[alerts]\nmail_relay = \"smtp://127.0.0.1:{port}\"\nmail_from = \"daytable <daytable@example.org>\"\n"
    );
    let rule = rule(
        "Mailed",
        "query = \"boom\"\nby = [\"path\"]\nabove = 0\nperiod = \"3s\"\nmail = [\"ops@example.org\", \"Night <night@example.org>\"]",
    );
    let daemon = place.start_with(&format!("{TAIL}{sending}{rule}"));
    let now = Utc::now().to_rfc3339_opts(SecondsFormat::Millis, true);
    place.write("app.log", &[format!(r#"{{"time":"{now}","msg":"boom","path":"a\r\nBcc: evil@example.org"}}"#)]);
    let said = wait_for("both mails", PATIENCE, || {
        let said = fs::read_to_string(&mails).ok()?;
        (said.matches("--- to ops@example.org,night@example.org").count() == 2).then_some(said)
    });
    assert_eq!(said.matches("--- to").count(), 2, "{said}");
    for wanted in [
        "From: daytable <daytable@example.org>",
        "To: ops@example.org, Night <night@example.org>",
        "firing Mailed",
        "resolved Mailed",
        "query: boom",
    ] {
        assert!(said.contains(wanted), "{wanted} in {said}");
    }
    assert!(!said.lines().any(|line| line.starts_with("Bcc:")), "{said}");
    let ids: Vec<&str> = said.lines().filter(|line| line.starts_with("Message-ID:")).collect();
    assert_eq!((ids.len(), ids.iter().filter(|id| id.contains("-firing@example.org")).count()), (2, 1), "{ids:?}");
    daemon.stop();
}

/// Kills between the evaluation, the state and the message, each several times. Needs a build with failpoints.
#[cfg(feature = "failpoints")]
#[test]
fn a_kill_at_each_step_of_an_alert_loses_and_repeats_nothing() {
    let (place, webhook) = (Place::new(), Webhook::start());
    let (_server, address) = alertmanager(&place, &webhook);
    let points = ["alerts-evaluated", "replace-written", "replace-renamed", "alerts-saved", "alerts-sent"];
    let cases = points.iter().flat_map(|point| [1, 2, 4].map(|times| (*point, times)));
    let play = |(point, times): (&str, u32)| {
        let (place, name) = (Place::new(), format!("{point}-{times}"));
        let rule = rule(&name, "query = \"boom\"\nabove = 2\nperiod = \"6s\"");
        let config = format!("{TAIL}[alerts]\nsend_to = [\"{address}\"]\nresend = \"1s\"\n{rule}");
        // The rule begins before its records.
        let daemon = place.start_with(&config);
        wait_for("the first state", PATIENCE, || place.data().join("alerts.json").exists().then_some(()));
        daemon.stop();
        place.write("app.log", &lines(3, "boom"));
        let mut command = Command::new(crate::place::DAYTABLE);
        command.arg("run").arg("--config").arg(place.configure(&config));
        command.env("DAYTABLE_FAILPOINT", format!("{point}:{times}"));
        let mut daemon = place.spawn_command(command);
        wait_for(&format!("{name} kills"), PATIENCE, || daemon.has_ended().then_some(()));
        let daemon = place.start_with(&config);
        webhook.wait(&name, "firing");
        webhook.wait(&name, "resolved");
        assert_eq!(webhook.of(&name, "firing").len(), 1, "{name} was told twice");
        daemon.stop();
    };
    std::thread::scope(|scope| {
        for case in cases {
            let play = &play;
            scope.spawn(move || play(case));
        }
    });
}

/// A kill between a message and its note repeats the message with the same key, and leaves none out.
#[cfg(feature = "failpoints")]
#[test]
fn a_kill_at_each_step_of_an_action_leaves_none_out() {
    let points = ["alerts-evaluated", "alerts-saved", "alert-sent", "replace-written", "replace-renamed"];
    let cases = points.iter().flat_map(|point| [1, 2, 3].map(|times| (*point, times)));
    let play = |(point, times): (&str, u32)| {
        let (place, webhook, name) = (Place::new(), Webhook::start(), format!("{point}-{times}"));
        let rule = rule(
            &name,
            &format!("query = \"boom\"\nabove = 2\nperiod = \"6s\"\nwebhook = \"http://127.0.0.1:{}/\"", webhook.port),
        );
        let config = format!("{TAIL}{rule}");
        let daemon = place.start_with(&config);
        wait_for("the first state", PATIENCE, || place.data().join("alerts.json").exists().then_some(()));
        daemon.stop();
        place.write("app.log", &lines(3, "boom"));
        let mut command = Command::new(crate::place::DAYTABLE);
        command.arg("run").arg("--config").arg(place.configure(&config));
        command.env("DAYTABLE_FAILPOINT", format!("{point}:{times}"));
        let mut daemon = place.spawn_command(command);
        // Two messages are told, so a third time may not come; the daemon is killed then, wherever it is.
        wait_for(&format!("{name} kills, or all is told"), PATIENCE, || {
            let is_told = || webhook.all().iter().any(|message| message["status"] == "resolved");
            (daemon.has_ended() || is_told()).then_some(())
        });
        daemon.kill();
        let daemon = place.start_with(&config);
        let messages = wait_for(&format!("{name} is told"), PATIENCE, || {
            let all = webhook.all();
            all.iter().any(|message| message["status"] == "resolved").then_some(all)
        });
        assert_eq!(messages[0]["status"], "firing", "{name}: {messages:?}");
        assert!(messages.iter().all(|message| message["id"] == messages[0]["id"]), "{name}: {messages:?}");
        assert!(messages.len() <= 4, "one repeat a kill: {name}: {messages:?}");
        daemon.stop();
    };
    std::thread::scope(|scope| {
        for case in cases {
            let play = &play;
            scope.spawn(move || play(case));
        }
    });
}
