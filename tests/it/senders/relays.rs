//! Relays: rsyslog and syslog-ng, over each of their transports.

use super::{Running, block, installed, port, run, wait_for_all};
use crate::place::{Lines, PATIENCE, Place, append, numbered, wait_for};
use crate::syslog::Authority;
use std::path::Path;
use std::process::Command;

/// The certificates of a server named localhost and of a client, and their authority.
fn write_certificates(place: &Place) -> String {
    let authority = Authority::new();
    std::fs::write(place.path("ca.pem"), &authority.pem).expect("written");
    for (name, prefix) in [("localhost", ""), ("web-17", "client-")] {
        let (certificate, key) = authority.sign(name);
        std::fs::write(place.path(&format!("{prefix}cert.pem")), certificate).expect("written");
        std::fs::write(place.path(&format!("{prefix}key.pem")), key).expect("written");
    }
    let path = |name: &str| place.path(name).display().to_string();
    format!("cert_file = \"{}\"\nkey_file = \"{}\"", path("cert.pem"), path("key.pem"))
}

/// syslog-ng with a configuration, from the folder where its package was unpacked. It keeps its state in `place`.
pub(super) fn syslog_ng_in(place: &Place, config: &Path) -> Command {
    let folder = installed("senders/syslog-ng");
    let mut command = Command::new(folder.join("usr/sbin/syslog-ng"));
    command.env("LD_LIBRARY_PATH", folder.join("usr/lib/syslog-ng"));
    command.args(["--foreground", "--no-caps", "--stderr"]).arg("--cfgfile").arg(config);
    command.arg("--module-path").arg(folder.join("usr/lib/syslog-ng/3.38"));
    for (option, name) in [("--persist-file", "ng.persist"), ("--pidfile", "ng.pid"), ("--control", "ng.ctl")] {
        command.arg(option).arg(place.path(name));
    }
    command
}

#[test]
fn rsyslog_forwards_over_udp_tcp_tls_and_relp() {
    let place = Place::new();
    let tls = write_certificates(&place);
    let config = [
        block("udp", "udp://127.0.0.1:0", ""),
        block("tcp", "tcp://127.0.0.1:0", ""),
        block("counted", "tcp://127.0.0.1:0", ""),
        block("tls", "tls://127.0.0.1:0", &tls),
        block("relp", "relp://127.0.0.1:0", ""),
        block(
            "relp-tls",
            "relp://127.0.0.1:0",
            &format!("{tls}\nclient_ca_file = \"{}\"", place.path("ca.pem").display()),
        ),
    ]
    .concat();
    let daemon = place.start_with(&config);
    let (folder, ca) = (place.path(""), place.path("ca.pem"));
    let (folder, ca) = (folder.display(), ca.display());
    let action = |name: &str, kind: &str, more: &str| {
        let port = port(&daemon, name);
        format!(
            "action(name=\"{name}\" type=\"{kind}\" target=\"127.0.0.1\" port=\"{port}\" {more} template=\"RSYSLOG_SyslogProtocol23Format\"\n\
             action.resumeRetryCount=\"-1\" action.resumeInterval=\"1\" queue.type=\"LinkedList\")\n"
        )
    };
    let peer = "StreamDriver=\"gtls\" StreamDriverMode=\"1\" StreamDriverAuthMode=\"x509/name\" StreamDriverPermittedPeers=\"localhost\"";
    // Without its own certificate rsyslog speaks anonymous TLS, which no other program does.
    let relp_tls = format!(
        "tls=\"on\" tls.caCert=\"{ca}\" tls.myCert=\"{folder}/client-cert.pem\" tls.myPrivKey=\"{folder}/client-key.pem\"\n\
         tls.authMode=\"name\" tls.permittedPeer=[\"localhost\"]"
    );
    let rsyslog = [
        format!("global(workDirectory=\"{folder}\" defaultNetstreamDriverCAFile=\"{ca}\")\n"),
        "module(load=\"imfile\" mode=\"inotify\")\nmodule(load=\"omrelp\" tls.tlslib=\"gnutls\")\n".into(),
        format!(
            "input(type=\"imfile\" File=\"{folder}/lines\" Tag=\"app:\" ruleset=\"on\")\nruleset(name=\"on\") {{\n"
        ),
        action("udp", "omfwd", "protocol=\"udp\""),
        action("tcp", "omfwd", "protocol=\"tcp\""),
        action("counted", "omfwd", "protocol=\"tcp\" TCP_Framing=\"octet-counted\""),
        action("tls", "omfwd", &format!("protocol=\"tcp\" {peer}")),
        action("relp", "omrelp", ""),
        action("relp-tls", "omrelp", &relp_tls),
        "}\n".into(),
    ]
    .concat();
    std::fs::write(place.path("rsyslog.conf"), rsyslog).expect("written");
    let lines = numbered("line of rsyslog \"quoted\", café, number", 500);
    append(&place.path("lines"), lines.concat_lines().as_bytes());
    let rsyslogd = Running::start(
        Command::new("rsyslogd")
            .arg("-n")
            .arg("-f")
            .arg(place.path("rsyslog.conf"))
            .arg("-i")
            .arg(place.path("rsyslog.pid")),
    );
    wait_for_all(&place, &["udp", "tcp", "counted", "tls", "relp", "relp-tls"], &lines);
    drop(rsyslogd);
    daemon.stop();
    let records = place.records();
    let record = &records[0];
    for (field, expected) in [("component", "app"), ("level", "notice"), ("host", &daytable_platform::host::name())] {
        assert_eq!(record[field], expected, "{field} of {record}");
    }
    place.assert_no_key_twice();
}

/// The purpose of RELP: the daemon is killed while rsyslog sends, and every message is there in the end.
#[test]
fn rsyslog_loses_nothing_over_relp_when_the_daemon_is_killed() {
    let place = Place::new();
    let config = block("relp", "relp://127.0.0.1:0", "");
    let daemon = place.start_with(&config);
    // The next daemon needs the same port.
    let port = port(&daemon, "relp");
    let config = block("relp", &format!("relp://127.0.0.1:{port}"), "");
    let folder = place.path("");
    let rsyslog = format!(
        "global(workDirectory=\"{0}\")\nmodule(load=\"imfile\")\nmodule(load=\"omrelp\")\n\
         input(type=\"imfile\" File=\"{0}/lines\" Tag=\"app:\")\n\
         action(type=\"omrelp\" target=\"127.0.0.1\" port=\"{port}\" template=\"RSYSLOG_SyslogProtocol23Format\"\n\
         action.resumeRetryCount=\"-1\" action.resumeInterval=\"1\")\n",
        folder.display()
    );
    std::fs::write(place.path("rsyslog.conf"), rsyslog).expect("written");
    let lines = numbered("line", 5000);
    append(&place.path("lines"), lines.concat_lines().as_bytes());
    let _rsyslogd = Running::start(
        Command::new("rsyslogd")
            .arg("-n")
            .arg("-f")
            .arg(place.path("rsyslog.conf"))
            .arg("-i")
            .arg(place.path("rsyslog.pid")),
    );
    wait_for("some of them are there", PATIENCE, || (place.records().len() > 100).then_some(()));
    daemon.kill();
    let daemon = place.start_with(&config);
    append(&place.path("lines"), b"the last\n");
    wait_for("all of them are there", PATIENCE, || {
        let found = place.messages();
        (lines.iter().all(|line| found.contains_key(line)) && found.contains_key("the last")).then_some(())
    });
    daemon.stop();
}

#[test]
fn syslog_ng_forwards_over_udp_tcp_and_tls() {
    let place = Place::new();
    let tls = write_certificates(&place);
    let config = [
        block("ng-udp", "udp://127.0.0.1:0", ""),
        block("ng-tcp", "tcp://127.0.0.1:0", ""),
        block("ng-tls", "tls://127.0.0.1:0", &tls),
        block("ng-bsd", "tcp://127.0.0.1:0", ""),
        block("ng-unix", &format!("unix-dgram://{}", place.path("dgram.sock").display()), ""),
    ]
    .concat();
    let daemon = place.start_with(&config);
    let (lines, dgram) = (place.path("lines"), place.path("dgram.sock"));
    let ng = format!(
        "@version: 3.35\n\
         source s {{ pipe(\"{}\" flags(no-parse) program-override(\"app\")); }};\n\
         destination udp {{ syslog(\"127.0.0.1\" transport(\"udp\") port({})); }};\n\
         destination tcp {{ syslog(\"127.0.0.1\" transport(\"tcp\") port({})); }};\n\
         destination tls {{ syslog(\"localhost\" transport(\"tls\") port({}) tls(ca-file(\"{}\") peer-verify(required-trusted))); }};\n\
         destination bsd {{ network(\"127.0.0.1\" transport(\"tcp\") port({})); }};\n\
         destination unix {{ unix-dgram(\"{}\"); }};\n\
         log {{ source(s); destination(udp); destination(tcp); destination(tls); destination(bsd); destination(unix); }};\n",
        lines.display(),
        port(&daemon, "ng-udp"),
        port(&daemon, "ng-tcp"),
        port(&daemon, "ng-tls"),
        place.path("ca.pem").display(),
        port(&daemon, "ng-bsd"),
        dgram.display(),
    );
    std::fs::write(place.path("ng.conf"), ng).expect("written");
    let all = numbered("line of syslog-ng \"quoted\", café, number", 500);
    run(Command::new("mkfifo").arg(&lines));
    let _running = Running::start(&mut syslog_ng_in(&place, &place.path("ng.conf")));
    // Wait until the message is read.
    std::fs::write(&lines, all.concat_lines()).expect("written");
    wait_for_all(&place, &["ng-udp", "ng-tcp", "ng-tls", "ng-bsd", "ng-unix"], &all);
    daemon.stop();
    place.assert_no_key_twice();
}

#[test]
fn python_s_handler_over_udp_tcp_and_unix_sockets() {
    let place = Place::new();
    let dgram = place.path("dgram.sock");
    let config = [
        block("udp", "udp://127.0.0.1:0", ""),
        block("tcp", "tcp://127.0.0.1:0", ""),
        block("dgram", &format!("unix-dgram://{}", dgram.display()), ""),
    ]
    .concat();
    let daemon = place.start_with(&config);
    let script = r#"
import logging, logging.handlers, socket, sys
udp, tcp, path = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
handler = logging.handlers.SysLogHandler
for number, to in enumerate([handler(("127.0.0.1", udp)), handler(("127.0.0.1", tcp), socktype=socket.SOCK_STREAM), handler(path)]):
    logger = logging.getLogger(str(number))
    to.ident = "app: "
    logger.addHandler(to)
    for line in range(500):
        logger.warning("line of Python, café, number %d", line)
    logger.warning("two\nlines")
    to.close()
"#;
    let ports = [port(&daemon, "udp"), port(&daemon, "tcp")].map(|port| port.to_string());
    run(Command::new("python3").args(["-c", script]).args(ports).arg(dgram));
    let mut lines = numbered("line of Python, café, number", 500);
    lines.push("two\nlines".into());
    // Over TCP the sender ends a message with a NUL. A newline inside also ends the message: the framing has no length.
    let found = wait_for("they are there over all three", PATIENCE, || {
        let found = super::by_instance(&place);
        let count = |of: &str| found.get(of).map_or(0, Vec::len);
        ([count("udp"), count("tcp"), count("dgram")] == [501, 502, 501]).then_some(found)
    });
    let messages = |of: &str| {
        let mut messages: Vec<_> = found[of].iter().map(crate::place::message_of).collect();
        messages.sort();
        messages
    };
    lines.sort();
    assert_eq!((messages("udp"), messages("dgram")), (lines.clone(), lines));
    assert!(messages("tcp").contains(&"two".to_owned()) && messages("tcp").contains(&"lines".to_owned()));
    assert!(found["udp"].iter().all(|record| record["level"] == "warn" && record["component"] == "app"));
    daemon.stop();
}
