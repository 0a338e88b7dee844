//! What people are told about hosts: the drop-in for the shipped unit, two hosts of one name, and who shares an account.

use super::credentials::{code_of, hosts};
use super::*;
use crate::azure::emulator::Azurite;

const DROP_IN: &str = "[Service]\nIPAddressAllow=ADDRESS";

/// Runs a command with a configuration, and returns what it printed, whatever its exit code is.
fn said(words: &[&str], config: &Path) -> (String, String) {
    let output = Command::new(DAYTABLE).args(words).arg("--config").arg(config).output().expect("run");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (text(output.stdout), text(output.stderr))
}

/// The shipped unit denies every address but localhost: whoever needs another one is told what to add, where it is needed.
#[test]
fn the_drop_in_of_the_unit_is_named_where_it_is_needed() {
    let central = Central::new();
    let config = central.config().replace("127.0.0.1:", "0.0.0.0:");
    let running = central.place.start_with(&config);
    let invite = |more: &[&str]| {
        let mut command = Command::new(DAYTABLE);
        command.args(["hosts", "invite", "web-1", "--data"]).arg(central.place.data()).args(more);
        let output = command.output().expect("run");
        assert!(output.status.success(), "{output:?}");
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
        (text(output.stdout), text(output.stderr))
    };
    let here = format!("http://0.0.0.0:{}", central.port);
    for (more, is_far) in [(["--url", here.as_str()], true), (["--url", &central.url()], false)] {
        let (line, beside) = invite(&more);
        // One line, whose last word is the code, for whoever runs it as it stands.
        assert_eq!(line.lines().count(), 1, "{line}");
        assert_eq!(code_of(&line).1, line.split_whitespace().next_back().expect("a word"), "{line}");
        assert_eq!(beside.contains(DROP_IN), is_far, "{more:?}: {beside}");
        assert_eq!(beside.contains("systemctl edit daytable"), is_far, "{beside}");
    }
    // A host elsewhere.
    let host = Host::new("web-1");
    let joined = host.join(&(here.clone(), code_of(&invite(&["--url", &here]).0).1), &["--allow-plain"]);
    assert!(joined.status.success(), "{joined:?}");
    assert!(String::from_utf8_lossy(&joined.stdout).contains(DROP_IN), "{joined:?}");
    let (checks, _) = said(&["doctor"], &host.file());
    assert!(checks.contains(&format!("ok    forward: {here} is reached, and knows this host")), "{checks}");
    running.stop();
    let (checks, _) = said(&["doctor"], &host.file());
    assert!(checks.contains(&format!("FAIL  forward: {here}")), "{checks}");
    assert!(checks.contains("`systemctl edit daytable`, and below [Service] IPAddressAllow=ADDRESS"), "{checks}");
    // On this machine nobody needs it.
    let running = central.place.start_with(&config);
    let near = Host::new("web-2");
    let code = code_of(&hosts(&central, &["invite", "web-2"])).1;
    let joined = near.join(&(central.url(), code), &[]);
    assert!(joined.status.success() && !String::from_utf8_lossy(&joined.stdout).contains(DROP_IN), "{joined:?}");
    running.stop();
}

#[test]
fn two_hosts_of_one_name_are_said_to_be_two() {
    let central = Central::new();
    let running = central.start();
    let others = [Host::joined(&central, "web-1"), Host::joined(&central, "web-1"), Host::joined(&central, "web-2")];
    let config = central.place.path("daytable.toml");
    let names =
        |checks: &str| checks.lines().filter(|line| line.contains("  hosts: ")).map(str::to_owned).collect::<Vec<_>>();
    let daemons: Vec<Daemon> = others.iter().map(Host::start).collect();
    others.iter().for_each(|host| host.write("app.log", &lines("request", 0..5)));
    wait_for("all are heard of", PATIENCE, || (central.place.records().len() == 15).then_some(()));
    let listed = hosts(&central, &[]);
    let told: Vec<&str> =
        listed.lines().filter(|line| line.contains("  one of 2 hosts of this name, its origin is ")).collect();
    assert!(told.len() == 2 && told.iter().all(|line| line.starts_with("web-1  ")), "{listed}");
    assert_ne!(told[0].rsplit("origin is ").next(), told[1].rsplit("origin is ").next(), "{listed}");
    let (checks, _) = said(&["doctor"], &config);
    let warned = ["warn  hosts: 2 hosts forward here as web-1, so `log_host` does not tell their records apart"];
    assert_eq!(names(&checks), warned, "{checks}");
    // One that was sent away is none of them.
    hosts(&central, &["forget", "web-1"]);
    assert!(others[0].join(&central.invite("web-1"), &[]).status.success());
    wait_for("one is heard of again", PATIENCE, || {
        central
            .place
            .json("hosts", &[])
            .iter()
            .any(|host| host["host"] == "web-1" && !host["origin"].is_null())
            .then_some(())
    });
    let (checks, _) = said(&["doctor"], &config);
    assert!(names(&checks).is_empty(), "{checks}");
    for daemon in daemons {
        daemon.stop();
    }
    running.stop();
}

/// A central whose store is an account that it shares with others: both lists, told apart.
#[test]
fn hosts_that_forward_and_hosts_that_share_an_account_are_told_apart() {
    let (central, azurite) = (Central::new(), Azurite::start());
    let secret = central.place.path("azure");
    fs::write(&secret, azurite.connection_string()).expect("written");
    let store = format!(
        "{}[store]\nkind = \"azure\"\nconnection_string_file = \"{}\"\nfill = \"20ms\"\nbuckets_max = 2\n",
        central.config(),
        secret.display()
    );
    let running = central.place.start_with(&store);
    let host = Host::joined(&central, "web-1");
    let daemon = host.start();
    host.write("app.log", &lines("request", 0..20));
    let config = central.place.path("daytable.toml");
    let listed = |more: &[&str]| said(&[&["hosts"], more].concat(), &config).0;
    wait_for("both are listed", 2 * PATIENCE, || {
        let listed = listed(&[]);
        let forwards = listed.lines().filter(|line| line.starts_with("web-1  forwards: seen ")).count();
        let shares = listed.lines().filter(|line| line.contains("  shares the account: seen ")).count();
        (forwards == 1 && shares == 1 && listed.contains("  20 records")).then_some(())
    });
    let rows: Vec<Value> = listed(&["--json"]).lines().map(|line| serde_json::from_str(line).expect("JSON")).collect();
    let (shares, forwards): (Vec<&Value>, Vec<&Value>) = rows.iter().partition(|row| row["shares_account"] == true);
    assert_eq!((shares.len(), forwards.len()), (1, 1), "{rows:?}");
    assert!(shares[0]["holds"].is_object() && forwards[0]["origin"].is_string(), "{rows:?}");
    daemon.stop();
    running.stop();
}
