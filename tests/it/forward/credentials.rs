//! Credentials of hosts: they are replaced before they are old, are for tables, and are got by a code of a file.

use super::*;
use std::os::unix::fs::symlink;
use std::time::Instant;

/// A central that finds credentials old at once.
const IMPATIENT: &str = "[hosts]\nrenew_after = \"1s\"\n";

fn word(path: &Path) -> String {
    fs::read_to_string(path).expect("a credential").trim().to_owned()
}

/// What a central answers to a credential in a hello without content, after it decided about the credential.
fn answer_to(central: &Central, credential: &str) -> client::Answer {
    asked(central, credential, "hello", "{}")
}

fn asked(central: &Central, credential: &str, route: &str, body: &str) -> client::Answer {
    let stream = std::net::TcpStream::connect(("127.0.0.1", central.port)).expect("a connection");
    let headers = format!("Authorization: Bearer {credential}\r\nContent-Type: application/json\r\n");
    client::over(stream, "POST", &format!("/forward/v1/{route}"), &headers, body.as_bytes()).expect("an answer")
}

/// Runs `hosts COMMAND …` at the central, and returns what it printed.
pub(super) fn hosts(central: &Central, arguments: &[&str]) -> String {
    let mut command = Command::new(DAYTABLE);
    let output = command.arg("hosts").args(arguments).arg("--data").arg(central.place.data()).output().expect("run");
    assert!(output.status.success(), "{arguments:?}: {output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// The URL and the code of a line that `hosts invite` or `enrol` printed.
pub(super) fn code_of(said: &str) -> (String, String) {
    let words: Vec<&str> = said.split_whitespace().collect();
    (words[2].to_owned(), words[3].to_owned())
}

/// Waits until the credential of a host is older than [`IMPATIENT`] says.
fn wait_until_old(joined: Instant) {
    wait_for("a second is over", PATIENCE, || (joined.elapsed() > Duration::from_millis(1100)).then_some(()));
}

/// Waits until a credential is none any more, and returns the reason.
fn wait_until_refused(central: &Central, credential: &str) -> String {
    let refused = || Some(answer_to(central, credential)).filter(|answer| answer.status == 401);
    wait_for("the credential is refused", PATIENCE, refused).body
}

#[test]
fn a_credential_is_replaced_before_it_is_old_and_ends_with_that() {
    // One file can be replaced; one is a link, which stands for every file that the daemon may not write.
    for is_writable in [true, false] {
        let central = Central::new();
        let running = central.place.start_with(&(central.config() + IMPATIENT));
        let (host, joined) = (Host::joined(&central, "web-1"), Instant::now());
        let file = host.place.path("forward");
        let first = word(&file);
        if !is_writable {
            fs::rename(&file, host.place.path("kept")).expect("moved");
            symlink(host.place.path("kept"), &file).expect("linked");
        }
        wait_until_old(joined);
        let daemon = host.start();
        host.write("app.log", &lines("first", 0..20));
        let reason = wait_until_refused(&central, &first);
        assert!(reason.contains("replaced by a newer one"), "{reason}");
        wait_for_all(&central, &[&host], 20);
        let state = host.place.data().join("forward-credentials.json");
        for path in [&state, &file] {
            let mode = fs::metadata(path).expect("a file").permissions().mode();
            assert_eq!(mode & 0o777, 0o600, "{}", path.display());
        }
        assert_eq!(word(&file) == first, !is_writable);
        // Other commands know which one is good, and the next daemon does.
        let doctor = || host.place.ask("doctor", &["--config", &host.file().display().to_string()]);
        let said = String::from_utf8_lossy(&doctor().stdout).into_owned();
        assert!(said.contains("is reached, and knows this host"), "{said}");
        daemon.stop();
        let daemon = host.start();
        host.write("app.log", &lines("second", 0..20));
        wait_for_all(&central, &[&host], 40);
        assert!(central.host("web-1").expect("a host")["credential_given"].is_string());
        for log in [daemon.said(), running.said()] {
            assert!(!log.contains(&first) && !log.contains(&word(&file)), "no log has a credential");
        }
        // Whoever joins again has the newest, and the daemon takes it without a word.
        assert!(host.join(&central.invite("web-1"), &[]).status.success());
        let reason = wait_until_refused(&central, &word(&file));
        assert!(reason.contains("replaced by a newer one"), "it was used, and is old by now: {reason}");
        host.write("app.log", &lines("third", 0..20));
        wait_for_all(&central, &[&host], 60);
        daemon.stop();
        running.stop();
    }
}

#[test]
fn a_kill_at_any_step_of_a_renewal_leaves_a_credential_that_is_good() {
    for (point, at_central) in [
        ("replace-written", false),
        ("replace-renamed:2", false),
        ("forward-renewal-kept", false),
        ("forward-renewed", true),
        ("forward-renewal-answered", false),
        ("replace-written:3", false),
        ("forward-renewal-replaced", false),
        ("forward-renewal-filed", false),
        ("forward-successor-used", true),
    ] {
        let mut central = Central::new();
        central.more = IMPATIENT;
        let (host, joined) = {
            let running = central.start();
            let host = Host::joined(&central, "web-1");
            running.stop();
            (host, Instant::now())
        };
        let first = word(&host.place.path("forward"));
        host.write("app.log", &lines("step", 0..50));
        wait_until_old(joined);
        let (again, other) = killed_and_started(&central, &host, (point, at_central), || ());
        wait_for_all(&central, &[&host], 50);
        wait_until_refused(&central, &first);
        host.write("app.log", &lines("after", 0..50));
        wait_for_all(&central, &[&host], 100);
        again.stop();
        other.stop();
    }
}

#[test]
fn a_central_that_is_put_back_knows_the_credential_before_the_renewal() {
    let mut central = Central::new();
    let running = central.start();
    let (host, joined) = (Host::joined(&central, "web-1"), Instant::now());
    let first = word(&host.place.path("forward"));
    let daemon = host.start();
    host.write("app.log", &lines("before", 0..20));
    wait_for_all(&central, &[&host], 20);
    running.stop();
    let backup = central.place.path("backup");
    copy_folder(&central.place.data(), &backup);
    central.more = IMPATIENT;
    wait_until_old(joined);
    let running = central.start();
    wait_until_refused(&central, &first);
    host.write("app.log", &lines("after", 0..20));
    wait_for_all(&central, &[&host], 40);
    running.stop();
    fs::remove_dir_all(central.place.data()).expect("lost");
    fs::rename(&backup, central.place.data()).expect("put back");
    let running = central.start();
    host.write("app.log", &lines("later", 0..20));
    wait_for_all(&central, &[&host], 60);
    wait_until_refused(&central, &first);
    daemon.stop();
    running.stop();
}

#[test]
fn a_renewal_gains_nothing_for_another_folder_and_ends_with_the_host() {
    let central = Central::new();
    let running = central.start();
    let pair = [Host::joined(&central, "web-1"), Host::joined(&central, "web-2")];
    let daemons: Vec<Daemon> = pair.iter().map(Host::start).collect();
    pair.iter().for_each(|host| host.write("app.log", &lines("first", 0..10)));
    wait_for_all(&central, &[&pair[0], &pair[1]], 20);
    let [first, second] = [0, 1].map(|at: usize| word(&pair[at].place.path("forward")));
    let origin = central.host("web-2").expect("a host")["origin"].as_str().expect("an origin").to_owned();
    let renewal =
        |origin: &str, hash: &str| format!("{{\"origin\":\"{origin}\",\"instance\":1,\"credential\":\"{hash}\"}}");
    let hash = "ab".repeat(32);
    for (credential, body, status) in [
        (first.as_str(), renewal(&origin, &hash), 403),
        ("guessed", renewal(&origin, &hash), 401),
        // A process that never said hello, as somebody who only has the credential.
        (second.as_str(), renewal(&origin, &hash), 409),
        (second.as_str(), "{}".to_owned(), 422),
    ] {
        let answer = asked(&central, credential, "renew", &body);
        assert_eq!(answer.status, status, "{body}: {answer:?}");
    }
    hosts(&central, &["revoke", "web-2"]);
    for credential in [&second, &hash] {
        assert_eq!(answer_to(&central, credential).status, 401);
    }
    assert_eq!(answer_to(&central, &first).status, 422, "the other host is not harmed");
    pair[0].write("app.log", &lines("second", 0..10));
    let has = |name: &str| central.place.json("query", &[&format!("log_host:={name}"), "-n", "100"]).len();
    wait_for("the other host goes on", PATIENCE, || (has("web-1") == 20).then_some(()));
    assert_eq!(has("web-2"), 10);
    for daemon in daemons {
        daemon.stop();
    }
    running.stop();
}

const AUDIT: &str =
    "[[table]]\nname = \"Audit\"\nwhen = 'message:secret'\nkeep = \"30d\"\n[[table]]\nname = \"Log\"\nkeep = \"30d\"\n";

#[test]
fn a_credential_is_for_tables_and_nothing_of_another_one_is_stored() {
    let mut central = Central::new();
    central.more = AUDIT;
    let running = central.start();
    let other = Host::joined(&central, "web-2");
    let host = Host::new("web-1");
    fs::write(host.file(), host.base() + AUDIT).expect("a configuration");
    let invited = hosts(&central, &["invite", "web-1", "--tables", "lo*,Metrics"]);
    assert!(host.join(&code_of(&invited), &[]).status.success());
    assert!(hosts(&central, &[]).contains("web-1  forwards: invited, and not heard of yet  may write lo*, Metrics"));
    let (daemon, others) = (host.start(), other.start());
    host.write("app.log", &lines("plain", 0..20));
    wait_for_all(&central, &[&host], 20);
    // Records of both tables in one commit: none of them is stored.
    let mixed: Vec<String> = lines("secret", 0..5).into_iter().chain(lines("mixed", 0..5)).collect();
    host.write("app.log", &mixed);
    let refused = wait_for("the host is refused", PATIENCE, || {
        let status = host.place.ask("status", &[]);
        let said = String::from_utf8_lossy(&status.stdout).into_owned();
        said.contains("answers 403").then_some(said)
    });
    for part in [
        "credential of web-1 is for the tables lo*, Metrics",
        "records for Audit",
        "--tables lo*,Metrics,Audit`",
        "waits here",
    ] {
        assert!(refused.contains(part), "{part}: {refused}");
    }
    other.write("app.log", &lines("secret", 0..5));
    other.write("app.log", &lines("plain", 0..5));
    let has = |name: &str| central.place.json("query", &[&format!("log_host:={name}"), "-n", "100"]).len();
    wait_for("the other host is not harmed", PATIENCE, || (has("web-2") == 10).then_some(()));
    assert_eq!(has("web-1"), 20);
    assert_eq!(daemon.said().matches("INFO forwarding").count(), 1, "one line an outage");
    let audits = || central.place.json("query", &["--table", "Audit", "*", "-n", "100"]).len();
    assert_eq!(audits(), 0);
    // Both sides count it, and the central says what to type.
    assert!(
        daemon
            .metric(&format!("daytable_forward_forbidden_total{{to=\"{}\"}}", central.url()))
            .is_some_and(|count| count > 0.0)
    );
    let listed = central.host("web-1").expect("a host");
    assert!(listed["refused_requests"].as_u64() > Some(0) && listed["refused_table"] == "Audit", "{listed}");
    assert_eq!(listed["tables"], serde_json::json!(["lo*", "Metrics"]));
    assert!(running.metric("daytable_host_refused_requests_total{host=\"web-1\"}").is_some_and(|count| count > 0.0));
    let status = String::from_utf8_lossy(&central.place.ask("status", &[]).stdout).into_owned();
    assert!(status.contains("daytable hosts invite web-1 --tables lo*,Metrics,Audit"), "{status}");
    // What it says works.
    let invited = hosts(&central, &["invite", "web-1", "--tables", "lo*", "Metrics", "Audit"]);
    assert!(host.join(&code_of(&invited), &[]).status.success());
    wait_for_all(&central, &[&host, &other], 40);
    assert_eq!(audits(), 5);
    assert!(hosts(&central, &[]).contains("may write lo*, Metrics, Audit"));
    for daemon in [daemon, others, running] {
        daemon.stop();
    }
    let mut wrong = Command::new(DAYTABLE);
    wrong.args(["hosts", "invite", "web-3", "--tables", "a b", "--data"]).arg(central.place.data());
    let wrong = wrong.output().expect("run");
    assert!(
        !wrong.status.success() && String::from_utf8_lossy(&wrong.stderr).contains("not a pattern of tables"),
        "{wrong:?}"
    );
}

#[test]
fn a_host_joins_by_itself_with_a_code_of_a_file_and_stays_out_once_it_is_revoked() {
    let central = Central::new();
    let running = central.start();
    let (url, code) = code_of(&hosts(&central, &["enrol", "node-*", "--expires", "1d", "--tables", "Log"]));
    let host = Host::new("node-7");
    let (credential, codes) = (host.place.data().join("forward"), host.place.path("code"));
    let forward = format!(
        "[[forward]]\nto = \"{url}\"\ncredential_file = \"{}\"\ncode_file = \"{}\"\n",
        credential.display(),
        codes.display()
    );
    fs::write(host.file(), host.base() + &forward).expect("a configuration");
    host.write("app.log", &lines("first", 0..10));
    // Killed with the answer on its way: the next daemon repeats the same request.
    fs::write(&codes, format!("{code}\n")).expect("a code");
    let mut run = Command::new(DAYTABLE);
    run.arg("run").arg("--config").arg(host.file()).env("DAYTABLE_FAILPOINT", "forward-enrolled");
    host.place.spawn_command(run).ended();
    assert!(!credential.exists());
    let daemon = host.start();
    wait_for_all(&central, &[&host], 10);
    assert_eq!(fs::metadata(&credential).expect("a file").permissions().mode() & 0o777, 0o600);
    assert_eq!(central.host("node-7").expect("a host")["tables"], serde_json::json!(["Log"]));
    // Its data folder is lost: it is another folder under the same name.
    daemon.stop();
    fs::remove_dir_all(host.place.data()).expect("lost");
    let daemon = host.start();
    host.write("app.log", &lines("second", 0..10));
    wait_for_all(&central, &[&host], 20);
    hosts(&central, &["revoke", "node-7"]);
    host.write("app.log", &lines("third", 0..10));
    wait_for("it is told why it stays out", PATIENCE, || daemon.said().contains("node-7 was revoked").then_some(()));
    assert_eq!(central.host("node-7").expect("a host")["revoked"], true);
    // An invitation of its own lets it in again.
    let invited = central.invite("node-7");
    assert!(host.join(&invited, &[]).status.success());
    wait_for_all(&central, &[&host], 30);
    daemon.stop();
    running.stop();
}
