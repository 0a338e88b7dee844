//! The service under systemd: the unit file, readiness, the watchdog, and a stop that loses no record.

use crate::place::{DAYTABLE, PATIENCE, Place, TAIL, numbered};
use std::os::unix::net::UnixDatagram;
use std::process::Command;
use std::time::Instant;

const SOCKETS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/systemd/daytable.socket");
const UNIT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/systemd/daytable.service");

fn systemd_analyze(args: &[&str]) -> String {
    let output = Command::new("systemd-analyze").args(args).output();
    let output = output.expect("systemd-analyze is there (tests/setup installs it: Debian's package systemd)");
    let said = [output.stdout, output.stderr].map(|said| String::from_utf8_lossy(&said).into_owned()).concat();
    assert!(output.status.success(), "systemd-analyze {args:?}: {}\n{said}", output.status);
    said
}

/// The installed units, with the program under test, because `verify` looks for the program.
#[test]
fn systemd_verifies_the_units_without_a_message() {
    let place = Place::new();
    let unit = std::fs::read_to_string(UNIT).expect("the unit");
    assert!(
        unit.contains("ExecStart=/usr/bin/daytable ") && unit.contains("ExecReload=/usr/bin/daytable "),
        "the unit runs /usr/bin/daytable"
    );
    let path = place.path("daytable.service");
    std::fs::write(&path, unit.replace("/usr/bin/daytable", DAYTABLE)).expect("written");
    // With every socket that the unit mentions.
    let sockets = std::fs::read_to_string(SOCKETS).expect("the sockets");
    let all_set = |line: &str| match line.strip_prefix('#') {
        Some(set) if set.starts_with(char::is_uppercase) => format!("{set}\n"),
        _ => format!("{line}\n"),
    };
    std::fs::write(place.path("daytable.socket"), sockets.lines().map(all_set).collect::<String>()).expect("written");
    let paths = [path, place.path("daytable.socket")].map(|path| path.display().to_string());
    let said = systemd_analyze(&["verify", "--man=no", &paths[0], &paths[1]]);
    // Messages about other units of this machine do not count.
    let ours: Vec<&str> = said.lines().filter(|line| line.contains("daytable")).collect();
    assert!(ours.is_empty(), "{ours:#?}");
}

/// The exposure is at most 2.0, on a scale from 0 to 10; the option is in tenths.
#[test]
fn the_unit_exposes_little() {
    systemd_analyze(&["security", "--offline=true", "--threshold=20", UNIT]);
}

/// The daemon sends `READY=1` once, `WATCHDOG=1` as often as requested, and `STOPPING=1` at the end.
#[test]
fn the_service_manager_is_notified() {
    let place = Place::new();
    let path = place.path("notify");
    let socket = UnixDatagram::bind(&path).expect("bound");
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    let mut command = Command::new(DAYTABLE);
    command.arg("run").arg("--config").arg(place.configure(TAIL));
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "3000000").env_remove("WATCHDOG_PID");
    let daemon = place.spawn_command(command);
    let told = || {
        let mut buffer = [0; 4096];
        let length = socket.recv(&mut buffer).expect("the service manager is told in time");
        String::from_utf8_lossy(&buffer[..length]).into_owned()
    };
    let wait_told = |what: &str| while !told().lines().any(|line| line == what) {};
    wait_told("READY=1");
    daemon.wait_ready();
    let began = Instant::now();
    wait_told("WATCHDOG=1");
    wait_told("WATCHDOG=1");
    // Every second and a half; a busy machine may take its time.
    assert!(began.elapsed() < PATIENCE / 2, "the watchdog was fed twice in {:?}", began.elapsed());
    daemon.signal(rustix::process::Signal::TERM);
    wait_told("STOPPING=1");
    let mut daemon = daemon;
    assert!(daemon.ended().success());
}

/// A daemon, and the socket of its notifications.
fn notified(place: &Place, config: &str, stall: Option<&str>) -> (crate::place::Daemon, UnixDatagram) {
    let path = place.path("notify");
    let socket = UnixDatagram::bind(&path).expect("bound");
    socket.set_read_timeout(Some(PATIENCE)).expect("set");
    let mut command = Command::new(DAYTABLE);
    command.arg("run").arg("--config").arg(place.configure(config));
    command.env("NOTIFY_SOCKET", &path).env("WATCHDOG_USEC", "3000000").env_remove("WATCHDOG_PID");
    if let Some(stall) = stall {
        command.env("DAYTABLE_STALLPOINT", stall);
    }
    (place.spawn_command(command), socket)
}

fn told(socket: &UnixDatagram) -> String {
    let mut buffer = [0; 4096];
    let length = socket.recv(&mut buffer).expect("the service manager is told in time");
    String::from_utf8_lossy(&buffer[..length]).into_owned()
}

/// The status has the rate of records and the next step.
#[test]
fn the_status_shows_rate_and_next_step() {
    let place = Place::new();
    let (daemon, socket) = notified(&place, TAIL, None);
    daemon.wait_ready();
    place.write("app.log", &numbered("line", 500));
    let (mut has_rate, mut has_files) = (false, false);
    let mut statuses = Vec::new();
    for _ in 0..60 {
        for status in told(&socket).lines().filter_map(|line| line.strip_prefix("STATUS=")) {
            statuses.push(status.to_owned());
            let rate = status.split(' ').next().and_then(|rate| rate.parse::<u64>().ok());
            has_rate |= rate.is_some_and(|rate| rate > 0);
            has_files |= status.contains(", 1 file, next: ");
        }
        if has_rate && has_files {
            return daemon.stop();
        }
    }
    panic!("{statuses:#?}");
}

/// The process answers, but the committer hangs: the watchdog stops notifying, and the status says so. A stop is cut short
/// after its time limit, and uncommitted records are read again.
#[cfg(feature = "failpoints")]
#[test]
fn failpoint_a_hanging_committer_starves_the_watchdog() {
    let place = Place::new();
    let lines = numbered("line", 100);
    let config = format!("drain_timeout = \"2s\"\n{TAIL}");
    let (mut daemon, socket) = notified(&place, "", Some("commit-between:1"));
    daemon.wait_ready();
    // Only now, because the commits of a new folder have no rows.
    place.configure(&config);
    let config = std::fs::read_to_string(place.path("daytable.toml")).expect("read");
    let config = config.replacen("drain_timeout = \"2s\"\n", "", 1);
    std::fs::write(place.path("daytable.toml"), format!("drain_timeout = \"2s\"\n{config}")).expect("written");
    place.said("reload", &[]);
    place.write("app.log", &lines);
    while !told(&socket).contains("STATUS=commits hang") {}
    for _ in 0..5 {
        let told = told(&socket);
        assert!(told.contains("STATUS=commits hang") && !told.contains("WATCHDOG=1"), "{told}");
    }
    daemon.wait_ready();
    daemon.signal(rustix::process::Signal::TERM);
    assert_eq!(daemon.ended().code(), Some(75), "{}", daemon.said());
    assert!(daemon.said().contains("the stop took too long and is cut short"), "{}", daemon.said());
    let daemon = place.start();
    place.finish(daemon, TAIL, &lines);
}

/// Records that were read before the signal are committed; the others are read at the next start.
#[test]
fn a_stop_drains_and_loses_no_record() {
    let place = Place::new();
    let lines = numbered("line", 100_000);
    place.write("app.log", &lines);
    let daemon = place.start();
    daemon.stop();
    let daemon = place.start();
    place.finish(daemon, TAIL, &lines);
}
