//! Who may come in: listeners that ask nobody do not start, TLS and its certificates, credentials, signatures, and that
//! whoever sends too much waits alone.

use crate::client::{Answer, over, over_tcp};
use crate::place::{DAYTABLE, Daemon, PATIENCE, Place, message_of, numbered, wait_for};
use crate::syslog::{Authority, address, block, by_message, connect_tls, wait_metric, write_pair};
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream, UdpSocket};
use std::process::Command;

/// A connection from an address of this host that is not the usual one.
fn connect_from(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let made = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&made, &SocketAddrV4::new(from, 0)).expect("bound");
    connect(&made, &to).expect("connected");
    made.into()
}

#[test]
fn a_listener_beyond_loopback_that_asks_nobody_does_not_start() {
    let place = Place::new();
    let (ca, credentials) = (place.path("ca.pem"), place.path("credentials.toml"));
    for (http, says) in [
        ("listen = \"0.0.0.0:0\"".to_owned(), "is beyond loopback"),
        ("listen = \"[::]:0\"".to_owned(), "`push` = \"open\" takes records from everybody"),
        ("push = \"credentials\"".to_owned(), "needs `credentials_file`"),
        (format!("credentials_file = \"{}\"", credentials.display()), "credentials.toml"),
        ("tls = { cert_file = \"/cert.pem\" }".to_owned(), "`key_file` is missing"),
        (format!("tls = {{ cert_file = \"{0}\", key_file = \"{0}\" }}", ca.display()), "ca.pem"),
    ] {
        let listen = if http.contains("listen") { "" } else { "listen = \"127.0.0.1:0\"\n" };
        let mut daemon = place.spawn(&format!("[http]\n{listen}{http}\n"));
        assert_eq!(daemon.ended().code(), Some(78), "{http}: {}", daemon.said());
        assert!(daemon.said().contains(says), "{http}: {}", daemon.said());
        assert!(!place.data().exists() || says == "ca.pem", "{http}: nothing is made");
    }
    // What the command line says is held to it as well.
    let mut command = Command::new(DAYTABLE);
    command.arg("run").arg("--config").arg(place.configure("")).args(["--listen", "0.0.0.0:0"]);
    let mut daemon = place.spawn_command(command);
    assert_eq!(daemon.ended().code(), Some(78), "{}", daemon.said());
    assert!(daemon.said().contains("set `credentials_file`"), "{}", daemon.said());
    for push in ["open", "off"] {
        place.start_with(&format!("[http]\nlisten = \"0.0.0.0:0\"\npush = \"{push}\"\n")).stop();
    }
}

#[test]
fn http_within_tls_with_certificates_that_are_renewed() {
    let place = Place::new();
    let (first, second) = (Authority::new(), Authority::new());
    write_pair(&place, &first.sign("localhost"));
    let (cert, key) = (place.path("cert.pem"), place.path("key.pem"));
    let tls = format!("tls = {{ cert_file = \"{}\", key_file = \"{}\" }}", cert.display(), key.display());
    let daemon = place.start_with(&format!("[http]\nlisten = \"127.0.0.1:0\"\n{tls}\n"));
    let to = daemon.address();
    let asked = |authority: &Authority| over(connect_tls(to, authority, None), "GET", "/healthz", "", b"");
    let status = |answer: std::io::Result<Answer>| answer.map(|answer| answer.status).ok();
    assert_eq!(status(asked(&first)), Some(200));
    assert_eq!(status(asked(&second)), None, "the client does not know the authority");
    // Those who are silent in their handshake hold nobody.
    let _silent: Vec<_> = (0..20).map(|_| TcpStream::connect(to).expect("connected")).collect();
    assert_eq!(status(asked(&first)), Some(200));
    assert_eq!(status(over_tcp(to, "GET", "/healthz", "")), None, "nothing is said in the clear");
    let refused = "daytable_connections_refused_total{reason=\"tls\",source=\"http\"}";
    wait_for("it is counted", PATIENCE, || (daemon.metric(refused)? >= 2.0).then_some(()));
    fs::write(&cert, "no certificate").expect("written");
    wait_for("a certificate that is none is counted", PATIENCE, || {
        assert_eq!(status(asked(&first)), Some(200), "what was used before stays in use");
        (daemon.metric("daytable_certificate_reloads_failed_total{source=\"http\"}")? >= 1.0).then_some(())
    });
    write_pair(&place, &second.sign("localhost"));
    wait_for("the new certificate is used", PATIENCE, || (status(asked(&second)) == Some(200)).then_some(()));
    daemon.stop();
}

#[test]
fn a_peer_that_sends_too_many_datagrams_loses_its_own() {
    let place = Place::new();
    let more = "per_sender = { records_per_s = 50 }";
    let daemon = place.start_with(&block("udp", "udp://127.0.0.1:0", more));
    let to = address(&daemon, "udp");
    let send = |from: &str, message: &str| {
        let socket = UdpSocket::bind((from, 0)).expect("bound");
        socket.send_to(format!("<13>app: {message}").as_bytes(), to).expect("sent");
    };
    let noisy = UdpSocket::bind("127.0.0.1:0").expect("bound");
    for n in 0..2000 {
        noisy.send_to(format!("<13>app: noisy {n}").as_bytes(), to).expect("sent");
        if n % 200 == 0 {
            send("127.0.0.2", &format!("quiet {}", n / 200));
        }
    }
    let dropped = "daytable_records_dropped_total{intentional=\"true\",reason=\"rate_limited\",source=\"udp\"}";
    wait_for("every datagram is taken or counted", PATIENCE, || {
        let taken = daemon.metric("daytable_records_received_total{source=\"udp\"}")?;
        let kernel = daemon.metric("daytable_udp_drops_total{source=\"udp\"}")?;
        (taken + daemon.metric(dropped)? + kernel == 2010.0).then_some(())
    });
    assert!(daemon.metric(dropped) > Some(1000.0), "{:?}", daemon.metric(dropped));
    daemon.stop();
    let messages: Vec<_> = place.records().iter().map(message_of).collect();
    let quiet = messages.iter().filter(|message| message.starts_with("quiet")).count();
    assert_eq!(quiet, 10, "the other peer loses nothing");
}

#[test]
fn a_peer_that_sends_too_much_over_a_connection_is_held_back_and_loses_nothing() {
    let place = Place::new();
    let more = "per_sender = { records_per_s = 2000, bytes_per_s = \"1MiB\" }\nidle_timeout = \"1s\"";
    let daemon = place.start_with(&block("tcp", "tcp://127.0.0.1:0", more));
    let to = address(&daemon, "tcp");
    let noisy = numbered("noisy", 12_000);
    let sent: String = noisy.iter().map(|message| format!("<13>app: {message}\n")).collect();
    let sending = std::thread::spawn(move || {
        let mut stream = connect_from(Ipv4Addr::LOCALHOST, to);
        stream.write_all(sent.as_bytes()).expect("sent");
    });
    let paced = "daytable_senders_paced_total{reason=\"rate_limited\",source=\"tcp\"}";
    wait_for("it is held back", PATIENCE, || (daemon.metric(paced)? >= 1.0).then_some(()));
    // Meanwhile another peer is heard.
    connect_from(Ipv4Addr::new(127, 0, 0, 2), to).write_all(b"<13>app: quiet\n").expect("sent");
    by_message(&place, "quiet");
    assert!(daemon.metric("daytable_records_received_total{source=\"tcp\"}") < Some(12_001.0), "it was too fast");
    sending.join().expect("all of it was taken in the end");
    wait_metric(&daemon, "daytable_records_received_total{source=\"tcp\"}", 12_001.0);
    assert_eq!(daemon.metric("daytable_connections_refused_total{reason=\"idle_timeout\",source=\"tcp\"}"), Some(0.0));
    daemon.stop();
    place.wait_for_messages(&[noisy, vec!["quiet".into()]].concat());
}

#[allow(dead_code)]
fn _unused(_: &Daemon) {}
