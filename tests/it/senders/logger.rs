//! util-linux `logger`, in each of its formats.

use super::{port, record, run, wait_for_all};
use crate::place::{Lines, Place, numbered};
use serde_json::Value;
use std::process::Command;

fn block(name: &str, listen: &str) -> String {
    format!("[[syslog]]\nname = \"{name}\"\nlisten = \"{listen}\"\n")
}

#[test]
fn every_form_of_logger() {
    let place = Place::new();
    let (dgram, stream) = (place.path("dgram.sock"), place.path("stream.sock"));
    let config = [
        block("udp", "udp://127.0.0.1:0"),
        block("tcp", "tcp://127.0.0.1:0"),
        block("dgram", &format!("unix-dgram://{}", dgram.display())),
        block("stream", &format!("unix-stream://{}", stream.display())),
    ]
    .concat();
    let daemon = place.start_with(&config);
    let remote = |name: &str, protocol: &str| {
        vec![
            "--server".to_owned(),
            "127.0.0.1".into(),
            "--port".into(),
            port(&daemon, name).to_string(),
            protocol.into(),
        ]
    };
    let (udp, tcp) = (remote("udp", "--udp"), remote("tcp", "--tcp"));
    let local =
        |path: &std::path::Path| vec!["--socket-errors=on".to_owned(), "--socket".into(), path.display().to_string()];
    let (dgram, stream) = (local(&dgram), local(&stream));
    let host = daytable_platform::host::name();
    let host = host.as_str();
    let structured =
        ["--rfc5424", "--msgid", "ID47", "--sd-id", "ex@32473", "--sd-param", "iut=\"3\"", "--sd-param", "src=\"a b\""];
    for (to, options, message, fields) in [
        (
            &udp,
            &["-t", "app", "-p", "local4.warning", "--id=42"][..],
            "udp as it comes",
            &[("level", "warn"), ("component", "app"), ("facility", "local4"), ("host", host)][..],
        ),
        (
            &udp,
            &["-t", "app", "--rfc3164"],
            "udp rfc3164",
            &[("level", "notice"), ("component", "app"), ("facility", "user")],
        ),
        (
            &udp,
            &structured,
            "udp rfc5424 with data",
            &[("message_id", "ID47"), ("ex_32473_iut", "3"), ("ex_32473_src", "a b")],
        ),
        (
            &tcp,
            &["-t", "app", "-p", "daemon.err"],
            "tcp as it comes",
            &[("level", "error"), ("facility", "daemon"), ("host", host)],
        ),
        (&tcp, &["-t", "app", "--octet-count"], "tcp octet counts", &[("component", "app")]),
        (&tcp, &["-t", "app", "--octet-count", "--rfc3164"], "tcp octet counts rfc3164", &[("component", "app")]),
        (&tcp, &["-t", "app", "--rfc3164"], "tcp rfc3164", &[("component", "app")]),
        (
            &tcp,
            &structured,
            "tcp rfc5424 with data",
            &[("message_id", "ID47"), ("ex_32473_iut", "3"), ("ex_32473_src", "a b")],
        ),
        (
            &tcp,
            &["-t", "app", "--rfc5424=notime,notq,nohost"],
            "tcp with neither time nor host",
            &[("component", "app"), ("partition_key", "127.0.0.1")],
        ),
        (
            &dgram,
            &["-t", "app", "-p", "cron.info"],
            "dgram as it comes",
            &[("level", "info"), ("component", "app"), ("facility", "cron"), ("partition_key", host)],
        ),
        (&dgram, &["-t", "app", "--rfc5424"], "dgram rfc5424", &[("component", "app")]),
        (&dgram, &["-t", "app", "--rfc3164"], "dgram rfc3164", &[("component", "app")]),
        (
            &stream,
            &["-t", "app", "-p", "auth.crit"],
            "stream as it comes",
            &[("level", "critical"), ("component", "app"), ("facility", "auth")],
        ),
        (&stream, &["-t", "app", "--octet-count", "--rfc5424"], "stream octet counts", &[("component", "app")]),
    ] {
        run(Command::new("logger").args(to).args(options).arg(message));
        let record = record(&place, message);
        for (name, expected) in fields {
            assert_eq!(record[name], *expected, "{name} of {record}");
        }
    }
    let with_id = record(&place, "udp as it comes");
    assert_eq!(with_id["pid"], 42, "{with_id}");
    // One priority per line; long and unusual lines.
    let lines = place.path("lines");
    std::fs::write(&lines, "<3>from a file\n<2>café ☕ \"quoted\" \\ %s\n").expect("written");
    run(Command::new("logger").args(&tcp).args(["--prio-prefix", "-t", "app", "--file"]).arg(&lines));
    assert_eq!(record(&place, "from a file")["level"], Value::from("error"));
    assert_eq!(record(&place, "café ☕ \"quoted\" \\ %s")["level"], Value::from("critical"));
    let long = "x".repeat(20_000);
    run(Command::new("logger").args(&tcp).args(["--size", "32KiB", "-t", "app", "--octet-count", &long]));
    record(&place, &long);
    daemon.stop();
    assert_eq!(place.records().len(), 17);
    place.assert_no_key_twice();
}

#[test]
fn many_lines_over_every_transport() {
    let place = Place::new();
    let (dgram, stream) = (place.path("dgram.sock"), place.path("stream.sock"));
    let listens = [
        ("udp", "udp://127.0.0.1:0".to_owned()),
        ("tcp", "tcp://127.0.0.1:0".into()),
        ("counted", "tcp://127.0.0.1:0".into()),
        ("dgram", format!("unix-dgram://{}", dgram.display())),
        ("stream", format!("unix-stream://{}", stream.display())),
    ];
    let config: String = listens.iter().map(|(name, listen)| super::block(name, listen, "")).collect();
    let daemon = place.start_with(&config);
    let lines = numbered("a line of some length, as lines are, and its number is", 500);
    std::fs::write(place.path("lines"), lines.concat_lines()).expect("written");
    for (name, _) in &listens {
        let mut logger = Command::new("logger");
        logger.args(["-t", "app", "--file"]).arg(place.path("lines"));
        match *name {
            "dgram" => logger.arg("--socket").arg(&dgram),
            "stream" => logger.arg("--socket").arg(&stream),
            "udp" => logger.args(["--server", "127.0.0.1", "--udp", "--port"]).arg(port(&daemon, name).to_string()),
            _ => logger.args(["--server", "127.0.0.1", "--tcp", "--port"]).arg(port(&daemon, name).to_string()),
        };
        if *name == "counted" {
            logger.arg("--octet-count");
        }
        run(&mut logger);
    }
    wait_for_all(&place, &listens.map(|(name, _)| name), &lines);
    daemon.stop();
}
