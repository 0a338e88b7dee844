//! Syslog over real sockets: sent messages are stored once over each transport, and losses are counted.

use crate::place::{Daemon, PATIENCE, Place, message_of, numbered, wait_for};
use daytable_model::time::{Ticks, now};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream, UdpSocket};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::{UnixDatagram, UnixStream};

use std::sync::Arc;

use tokio_rustls::rustls::pki_types::pem::PemObject;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use tokio_rustls::rustls::{ClientConfig, ClientConnection, RootCertStore, StreamOwned};

/// A block with a name, which stands for its transport and a free port.
pub(crate) fn block(name: &str, listen: &str, more: &str) -> String {
    format!("[[syslog]]\nname = \"{name}\"\nlisten = \"{listen}\"\n{more}\n")
}

/// The address of a listener.
pub(crate) fn address(daemon: &Daemon, name: &str) -> SocketAddr {
    let said = daemon.said();
    let line = said.lines().find(|line| line.contains("taking syslog") && line.contains(&format!("\"{name}\"")));
    let line = line.unwrap_or_else(|| panic!("{name} does not listen: {said}"));
    let at = line.split_once("://").expect("an address").1;
    at.trim_end_matches('"').parse().expect("an address")
}

fn connect(daemon: &Daemon, name: &str) -> TcpStream {
    let stream = TcpStream::connect(address(daemon, name)).expect("connected");
    stream.set_read_timeout(Some(PATIENCE)).expect("set");
    stream
}

pub(crate) fn by_message(place: &Place, message: &str) -> Value {
    wait_for(message, PATIENCE, || place.records().into_iter().find(|record| message_of(record) == message))
}

pub(crate) fn wait_metric(daemon: &Daemon, name: &str, value: f64) {
    wait_for(&format!("{name} is {value}, not {:?}", daemon.metric(name)), PATIENCE, || {
        (daemon.metric(name) == Some(value)).then_some(())
    });
}

#[test]
fn every_transport_takes_messages() {
    let place = Place::new();
    let (dgram, stream) = (place.path("log"), place.path("log-stream"));
    let config = [
        block("udp", "udp://127.0.0.1:0", ""),
        block("udp6", "udp://[::1]:0", ""),
        block("tcp", "tcp://127.0.0.1:0", "zone = \"+02:00\"\ninstance = \"edge-{field:host}\""),
        block("tcp6", "tcp://[::1]:0", "redact = [\"email\"]"),
        block("dgram", &format!("unix-dgram://{}", dgram.display()), "mode = \"0666\""),
        block("stream", &format!("unix-stream://{}", stream.display()), ""),
    ]
    .concat();
    // A killed daemon leaves its socket file.
    drop(UnixDatagram::bind(&dgram).expect("bound"));
    let daemon = place.start_with(&config);

    let udp = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let message =
        "<165>1 2026-11-21T08:00:00.003Z web-17 app 42 ID47 [ex@32473 iut=\"3\" src=\"a \\\"b\\\"\"] over udp\0";
    udp.send_to(message.as_bytes(), address(&daemon, "udp")).expect("sent");
    udp.send_to(b"<13>two lines\nin one datagram\n", address(&daemon, "udp")).expect("sent");
    let udp6 = UdpSocket::bind("[::1]:0").expect("bound");
    udp6.send_to(b"over udp6", address(&daemon, "udp6")).expect("sent");
    let mut tcp = connect(&daemon, "tcp");
    tcp.write_all(b"<11>Nov 21 10:00:01 db-1 cron[7]: over tcp\n").expect("sent");
    connect(&daemon, "tcp6").write_all(b"<14>app: over tcp6 to ann@example.com").expect("sent");
    assert_eq!(dgram.metadata().expect("there").permissions().mode() & 0o777, 0o666);
    // Like syslog(3) and `logger` at /dev/log: no host, and a NUL as separator on a stream.
    let local = UnixDatagram::unbound().expect("a socket");
    local.send_to(b"<13>Nov 21 08:00:02 root: over dgram", &dgram).expect("sent");
    let mut local = UnixStream::connect(&stream).expect("connected");
    local.write_all(b"<13>Nov 21 08:00:03 root: over stream\0").expect("sent");

    let udp = by_message(&place, "over udp");
    for (field, expected) in [
        ("partition_key", "web-17"),
        ("time", "2026-11-21T08:00:00.003Z"),
        ("level", "notice"),
        ("source", "udp://127.0.0.1:0"),
        ("component", "app"),
        ("facility", "local4"),
        ("message_id", "ID47"),
        ("ex_32473_iut", "3"),
        ("ex_32473_src", "a \"b\""),
    ] {
        assert_eq!(udp[field], expected, "{field} of {udp}");
    }
    by_message(&place, "two lines\nin one datagram");
    assert_eq!(by_message(&place, "over udp6")["partition_key"], "::1");
    let tcp = by_message(&place, "over tcp");
    assert_eq!(tcp["partition_key"], "edge-db-1");
    assert!(tcp["time"].as_str().is_some_and(|time| time.ends_with("T08:00:01Z")), "the zone of {tcp}");
    assert_eq!(by_message(&place, "over tcp6 to [redacted email]")["partition_key"], "::1");
    let host = daytable_platform::host::name();
    assert_eq!(by_message(&place, "over dgram")["partition_key"], host.as_str());
    assert_eq!(by_message(&place, "over stream")["component"], "root");
    assert_eq!(daemon.metric("daytable_records_received_total{source=\"udp\"}"), Some(2.0));
    assert_eq!(daemon.metric("daytable_udp_drops_total{source=\"udp\"}"), Some(0.0));
    let listeners = place.json("sources", &[]);
    let shown = |name: &str| listeners.iter().find(|listener| listener["block"] == name).expect("it is listed");
    assert_eq!((&shown("udp")["kind"], &shown("udp")["listen"]), (&"syslog".into(), &"udp://127.0.0.1:0".into()));
    assert_eq!((&shown("udp")["received"], &shown("udp")["committed"]), (&2.into(), &2.into()));
    assert_eq!(shown("tcp")["connections"], 1);
    assert!(place.said("sources", &[]).contains("udp://[::1]:0"));
    daemon.stop();
    // Only the ledger reports listeners that were removed.
    let ledgers = place.json("sources", &[]);
    let taken = ledgers.iter().map(|ledger| ledger["records"].as_u64().unwrap_or_else(|| panic!("{ledger}")));
    assert_eq!(taken.sum::<u64>(), 7, "{ledgers:?}");
    assert!(ledgers.iter().all(|ledger| ledger["listener"].is_string()), "{ledgers:?}");
    crate::verify::assert_whole(&place, 7);
    assert!(!dgram.exists() && !stream.exists());
    assert_eq!(place.records().len(), 7);
    place.assert_no_key_twice();
}

#[test]
fn framing_is_told_apart_and_what_is_too_long_is_kept_in_part() {
    let place = Place::new();
    let daemon = place.start_with(&block("tcp", "tcp://127.0.0.1:0", "message_bytes_max = \"1KiB\""));
    let mut tcp = connect(&daemon, "tcp");
    let long = format!("<13>app: {}", "x".repeat(5000));
    let counted = |message: &str| format!("{} {message}", message.len());
    let sent = [
        "<13>app: a line\n".to_owned(),
        counted("<13>app: counted\nwith a newline"),
        "<13>app: a NUL\0\n\n".to_owned(),
        counted(&long),
        format!("{long}\n"),
        counted("<13>app: counted again"),
        "7 sisters\n".to_owned(),
    ]
    .concat();
    for byte in sent.as_bytes().chunks(7) {
        tcp.write_all(byte).expect("sent");
    }
    tcp.write_all(b"\xff\xfe\x00\x01garbage <<<999>9999999999 <>\n").expect("sent");
    tcp.write_all(b"<13>app: without an end").expect("sent");
    drop(tcp);
    for message in ["a line", "counted\nwith a newline", "a NUL", "counted again", "7 sisters", "without an end"] {
        by_message(&place, message);
    }
    wait_metric(&daemon, "daytable_records_truncated_total{reason=\"message_bytes_max\"}", 2.0);
    assert_eq!(daemon.metric("daytable_records_invalid_utf8_total{source=\"tcp\"}"), Some(1.0));
    daemon.stop();
    let cut: Vec<_> = place.records().into_iter().filter(|record| record["truncated"] == true).collect();
    assert_eq!(cut.len(), 2);
    assert!(cut.iter().all(|record| message_of(record).len() == 1024 - "<13>app: ".len()));
}

#[test]
fn many_and_slow_clients_do_not_hold_the_others() {
    let place = Place::new();
    let daemon = place.start_with(&block("tcp", "tcp://127.0.0.1:0", "connections_max = 3\nidle_timeout = \"2s\""));
    let mut slow = connect(&daemon, "tcp");
    slow.write_all(b"100000 <13>app: this is never").expect("sent");
    let _idle = connect(&daemon, "tcp");
    let mut busy = connect(&daemon, "tcp");
    wait_metric(&daemon, "daytable_connections{source=\"tcp\"}", 3.0);
    let mut one_more = connect(&daemon, "tcp");
    assert_eq!(one_more.read(&mut [0]).unwrap_or(0), 0, "it is closed");
    busy.write_all(b"<13>app: meanwhile\n").expect("sent");
    by_message(&place, "meanwhile");
    wait_metric(&daemon, "daytable_connections_refused_total{reason=\"connections_max\",source=\"tcp\"}", 1.0);
    wait_metric(&daemon, "daytable_connections_refused_total{reason=\"idle_timeout\",source=\"tcp\"}", 3.0);
    wait_metric(&daemon, "daytable_connections{source=\"tcp\"}", 0.0);
    // The received part of a message is stored, and marked.
    assert_eq!(by_message(&place, "this is never")["truncated"], true);
    daemon.stop();
}

#[test]
fn a_stop_takes_what_was_sent_before_it() {
    let place = Place::new();
    let dgram = place.path("log");
    let config =
        block("tcp", "tcp://127.0.0.1:0", "") + &block("dgram", &format!("unix-dgram://{}", dgram.display()), "");
    let daemon = place.start_with(&config);
    let mut tcp = connect(&daemon, "tcp");
    let (lines, local) = (numbered("tcp", 20_000), numbered("dgram", 500));
    let sent: String = lines.iter().map(|line| format!("<13>app: {line}\n")).collect();
    tcp.write_all(sent.trim_end().as_bytes()).expect("sent");
    let socket = UnixDatagram::unbound().expect("a socket");
    for message in &local {
        socket.send_to(format!("<13>app: {message}").as_bytes(), &dgram).expect("sent");
    }
    daemon.stop();
    place.wait_for_messages(&[lines, local].concat());
    place.assert_no_key_twice();
}

#[test]
fn a_sender_that_never_pauses_does_not_keep_the_daemon_from_stopping() {
    let place = Place::new();
    let daemon = place.start_with(&block("tcp", "tcp://127.0.0.1:0", ""));
    let mut tcp = connect(&daemon, "tcp");
    let lines = "<13>app: again\n".repeat(100);
    let sending = std::thread::spawn(move || while tcp.write_all(lines.as_bytes()).is_ok() {});
    by_message(&place, "again");
    daemon.stop();
    sending.join().expect("the connection was closed");
}

/// A sender faster than the store is held back, and no message is lost.
#[test]
fn a_fast_sender_is_held_back() {
    let place = Place::new();
    let daemon = place.start_with(&block("tcp", "tcp://127.0.0.1:0", ""));
    let (senders, messages) = (4, 40_000);
    let sending: Vec<_> = (0..senders)
        .map(|sender| {
            let mut tcp = connect(&daemon, "tcp");
            std::thread::spawn(move || {
                let filler = "x".repeat(200);
                for first in (0..messages).step_by(1000) {
                    let line = |n: usize| format!("<13>1 2026-11-21T08:00:00Z host-{sender} app - - - {filler} {n}\n");
                    let lines: String = (first..first + 1000).map(line).collect();
                    tcp.write_all(lines.as_bytes()).expect("sent");
                }
            })
        })
        .collect();
    sending.into_iter().for_each(|sender| sender.join().expect("sent"));
    wait_metric(&daemon, "daytable_records_received_total{source=\"tcp\"}", f64::from(senders * 40_000));
    daemon.stop();
    let counted = place.json("count", &["--by", "instance"]);
    let counts: Vec<_> = counted.iter().map(|count| count["records"].as_u64()).collect();
    assert_eq!(counts, [Some(messages as u64); 4], "{counted:?}");
}

#[test]
fn datagrams_are_there_or_counted_as_dropped() {
    let place = Place::new();
    let daemon = place.start_with(&block("udp", "udp://127.0.0.1:0", "receive_buffer = \"64KiB\""));
    let (to, sent) = (address(&daemon, "udp"), 50_000);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
    for n in 0..sent {
        socket.send_to(format!("<13>app: datagram {n}").as_bytes(), to).expect("sent");
    }
    wait_for("every datagram is taken or dropped", PATIENCE, || {
        let taken = daemon.metric("daytable_records_received_total{source=\"udp\"}")?;
        let dropped = daemon.metric("daytable_udp_drops_total{source=\"udp\"}")?;
        (taken + dropped == f64::from(sent)).then_some(())
    });
    let taken = daemon.metric("daytable_records_received_total{source=\"udp\"}").expect("a number");
    daemon.stop();
    let messages: BTreeSet<_> = place.records().iter().map(message_of).collect();
    assert_eq!(messages.len() as f64, taken);
}

/// Floods a stopped listener, then lets it continue.
pub(crate) fn flood(daemon: &Daemon, to: SocketAddr, sent: u32) {
    daemon.signal(rustix::process::Signal::STOP);
    let socket = UdpSocket::bind("127.0.0.1:0").expect("bound");
    for n in 0..sent {
        socket.send_to(format!("<13>app: datagram {n}").as_bytes(), to).expect("sent");
    }
    daemon.signal(rustix::process::Signal::CONT);
}

/// Records of all listeners and drops of the kernel, according to the ledger in the folder, without the daemon.
pub(crate) fn in_the_ledger(place: &Place) -> Option<(u64, u64)> {
    let reader = daytable_store::Reader::open(&place.data()).ok()?;
    let ledgers = reader.catalog().listeners().ok()?;
    let dropped = ledgers.iter().filter_map(|ledger| ledger.losses.get("kernel"));
    Some((ledgers.iter().map(|ledger| ledger.records).sum(), dropped.sum()))
}

#[test]
fn what_the_kernel_dropped_is_in_the_ledger_before_a_kill_and_after_a_stop() {
    const SENT: u32 = 20_000;
    let place = Place::new();
    let block = block("udp", "udp://127.0.0.1:0", "receive_buffer = \"64KiB\"");
    let daemon = place.start_with(&block);
    flood(&daemon, address(&daemon, "udp"), SENT);
    let (_, dropped) = wait_for("the ledger has every datagram", PATIENCE, || {
        in_the_ledger(&place).filter(|(records, dropped)| records + dropped == u64::from(SENT))
    });
    assert!(dropped > 0);
    daemon.kill();
    let daemon = place.start_with(&block);
    flood(&daemon, address(&daemon, "udp"), SENT);
    daemon.stop();
    let (records, dropped) = in_the_ledger(&place).expect("a ledger");
    assert_eq!(records + dropped, 2 * u64::from(SENT));
    crate::verify::assert_whole(&place, records);
}

/// A minimal RELP client.
struct Relp<S> {
    stream: BufReader<S>,
    transaction: u32,
}

impl<S: Read + Write> Relp<S> {
    fn open(stream: S) -> Relp<S> {
        let mut relp = Relp { stream: BufReader::new(stream), transaction: 0 };
        let number = relp.send("open", "relp_version=0\nrelp_software=test\ncommands=syslog");
        let offer = relp.answer(number).expect("answered");
        assert!(offer.starts_with("200 OK\n") && offer.contains("commands=syslog"), "{offer}");
        relp
    }

    fn send(&mut self, command: &str, data: &str) -> u32 {
        self.transaction += 1;
        let frame = format!("{} {command} {} {data}\n", self.transaction, data.len());
        self.stream.get_mut().write_all(frame.as_bytes()).expect("sent");
        self.transaction
    }

    /// The response to a transaction, which must come next. `None` if the server closed the connection.
    fn answer(&mut self, transaction: u32) -> Option<String> {
        let mut head = Vec::new();
        for _ in 0..3 {
            self.stream.read_until(b' ', &mut head).ok()?;
            if head.ends_with(b"rsp 0\n") {
                return Some(String::new());
            }
        }
        let head = String::from_utf8(head).expect("text");
        let mut words = head.split_ascii_whitespace();
        assert_eq!(words.next()?.parse(), Ok(transaction), "{head}");
        assert_eq!(words.next(), Some("rsp"), "{head}");
        let mut data = vec![0; words.next()?.parse::<usize>().ok()? + 1];
        self.stream.read_exact(&mut data).ok()?;
        data.pop();
        Some(String::from_utf8(data).expect("text"))
    }
}

#[test]
fn relp_is_answered_once_a_message_is_on_disk() {
    let place = Place::new();
    // An acknowledged message does not wait for this interval.
    let config = block("relp", "relp://127.0.0.1:0", "") + "[store]\ncommit_interval = \"60s\"\n";
    let daemon = place.start_with(&config);
    let mut relp = Relp::open(connect(&daemon, "relp"));
    for n in 0..20 {
        let number = relp.send("syslog", &format!("<13>app: one {n}"));
        assert_eq!(relp.answer(number).as_deref(), Some("200 OK"));
        assert_eq!(place.records().len(), n + 1, "what was answered can be read");
    }
    let many = numbered("many", 500);
    let numbers: Vec<u32> = many.iter().map(|message| relp.send("syslog", &format!("<13>app: {message}\n"))).collect();
    for number in numbers {
        assert_eq!(relp.answer(number).as_deref(), Some("200 OK"));
    }
    let number = relp.send("unheard", "of");
    assert!(relp.answer(number).is_some_and(|answer| answer.starts_with("500 ")));
    let mut expected = many;
    expected.extend((0..20).map(|n| format!("one {n}")));
    place.wait_for_messages(&expected);
    relp.stream.get_mut().write_all(b"900 close 0\n").expect("sent");
    let mut rest = String::new();
    relp.stream.read_to_string(&mut rest).expect("closed");
    assert_eq!(rest, "900 rsp 0\n0 serverclose 0\n");
    // An invalid frame ends only its own connection.
    let mut other = connect(&daemon, "relp");
    other.write_all(b"<13>app: no RELP\n").expect("sent");
    assert_eq!(other.read(&mut [0]).unwrap_or(0), 0);
    wait_metric(&daemon, "daytable_connections_refused_total{reason=\"no_frame\",source=\"relp\"}", 1.0);
    daemon.stop();
}

#[test]
fn relp_repeats_what_a_kill_left_without_an_answer() {
    let place = Place::new();
    let config = block("relp", "relp://127.0.0.1:0", "");
    let all = numbered("message", 3000);
    let mut answered = BTreeSet::new();
    for kill_after in [100, 900, 1700] {
        let daemon = place.start_with(&config);
        let mut relp = Relp::open(connect(&daemon, "relp"));
        let waiting: Vec<&String> = all.iter().filter(|message| !answered.contains(*message)).collect();
        let mut daemon = Some(daemon);
        let mut count = 0;
        'session: for window in waiting.chunks(50) {
            let numbers: Vec<u32> =
                window.iter().map(|message| relp.send("syslog", &format!("<13>app: {message}"))).collect();
            for (number, message) in numbers.into_iter().zip(window) {
                if count == kill_after
                    && let Some(daemon) = daemon.take()
                {
                    daemon.kill();
                }
                if relp.answer(number).is_none() {
                    break 'session;
                }
                answered.insert((*message).clone());
                count += 1;
            }
            if daemon.is_none() {
                break;
            }
        }
    }
    let daemon = place.start_with(&config);
    let mut relp = Relp::open(connect(&daemon, "relp"));
    for message in all.iter().filter(|message| !answered.contains(*message)) {
        let number = relp.send("syslog", &format!("<13>app: {message}"));
        assert_eq!(relp.answer(number).as_deref(), Some("200 OK"));
    }
    // At SIGTERM, messages on their way are answered, then the server announces the close.
    let last = relp.send("syslog", "<13>app: the last");
    daemon.stop();
    assert_eq!(relp.answer(last).as_deref(), Some("200 OK"));
    let mut rest = String::new();
    relp.stream.read_to_string(&mut rest).expect("closed");
    assert_eq!(rest, "0 serverclose 0\n");
    let messages = place.messages();
    let missing: Vec<_> = all.iter().filter(|message| !messages.contains_key(*message)).collect();
    assert!(missing.is_empty() && messages.contains_key("the last"), "{missing:?}");
    // At least once: only unanswered messages may be duplicates.
    assert!(messages.values().sum::<usize>() <= all.len() + 1 + 3 * 50);
}

#[test]
fn relp_within_tls_is_answered_as_without() {
    let place = Place::new();
    let authority = Authority::new();
    write_pair(&place, &authority.sign("localhost"));
    fs::write(place.path("ca.pem"), &authority.pem).expect("written");
    let path = |name: &str| place.path(name).display().to_string();
    let (cert, key, ca) = (path("cert.pem"), path("key.pem"), path("ca.pem"));
    let files = format!("cert_file = \"{cert}\"\nkey_file = \"{key}\"\nclient_ca_file = \"{ca}\"");
    let daemon = place.start_with(&block("relp", "relp://127.0.0.1:0", &files));
    let to = address(&daemon, "relp");
    let client = authority.sign("web-17");
    let mut relp = Relp::open(connect_tls(to, &authority, Some(&client)));
    let messages = numbered("message", 300);
    let numbers: Vec<u32> =
        messages.iter().map(|message| relp.send("syslog", &format!("<13>app: {message}"))).collect();
    for number in numbers {
        assert_eq!(relp.answer(number).as_deref(), Some("200 OK"));
    }
    assert_eq!(place.records().len(), messages.len(), "what was answered can be read");
    // Without TLS or without a certificate a client gets no answer.
    let mut plain = connect(&daemon, "relp");
    plain.write_all(b"1 open 0\n").expect("sent");
    assert!(!String::from_utf8_lossy(&read_all(&mut plain)).contains("200 OK"));
    let mut stranger = connect_tls(to, &authority, None);
    let _ = stranger.write_all(b"1 open 0\n");
    assert_eq!(stranger.read(&mut [0]).unwrap_or(0), 0);
    daemon.stop();
    assert_eq!(
        relp.stream.fill_buf().expect("said").split(|byte| *byte == b'\n').next(),
        Some(&b"0 serverclose 0"[..])
    );
    place.wait_for_messages(&messages);
}

fn read_all(stream: &mut impl Read) -> Vec<u8> {
    let mut bytes = Vec::new();
    // The server may cut the connection.
    let _ = stream.read_to_end(&mut bytes);
    bytes
}

/// A certificate authority.
pub(crate) struct Authority {
    pub(crate) pem: String,
    issuer: Issuer<'static, KeyPair>,
}

impl Authority {
    pub(crate) fn new() -> Authority {
        let mut params = CertificateParams::new(Vec::new()).expect("no names");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("a key");
        let pem = params.self_signed(&key).expect("signed").pem();
        Authority { pem, issuer: Issuer::new(params, key) }
    }

    /// A certificate for `name` and its key.
    pub(crate) fn sign(&self, name: &str) -> (String, String) {
        let key = KeyPair::generate().expect("a key");
        let mut params = CertificateParams::new(vec![name.to_owned()]).expect("a name");
        // OpenSSL treats a certificate with its issuer's name as self-signed.
        params.distinguished_name.push(DnType::CommonName, name);
        (params.signed_by(&key, &self.issuer).expect("signed").pem(), key.serialize_pem())
    }
}

/// A TLS connection, whose handshake runs at the first use.
pub(crate) fn connect_tls(
    to: SocketAddr,
    authority: &Authority,
    client: Option<&(String, String)>,
) -> StreamOwned<ClientConnection, TcpStream> {
    let mut roots = RootCertStore::empty();
    let certificate = |pem: &str| CertificateDer::from_pem_slice(pem.as_bytes()).expect("a certificate");
    roots.add(certificate(&authority.pem)).expect("an authority");
    let provider = Arc::new(tokio_rustls::rustls::crypto::ring::default_provider());
    let builder = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots);
    let config = match client {
        None => builder.with_no_client_auth(),
        Some((pem, key)) => {
            let key = PrivateKeyDer::from_pem_slice(key.as_bytes()).expect("a key");
            builder.with_client_auth_cert(vec![certificate(pem)], key).expect("a client")
        }
    };
    let name = ServerName::try_from("localhost").expect("a name");
    let connection = ClientConnection::new(Arc::new(config), name).expect("a client");
    let tcp = TcpStream::connect(to).expect("connected");
    tcp.set_read_timeout(Some(PATIENCE)).expect("set");
    StreamOwned::new(connection, tcp)
}

/// Sends a message over TLS and closes. Returns whether the server accepted the message.
fn send_tls(to: SocketAddr, authority: &Authority, client: Option<&(String, String)>, message: &str) -> bool {
    let mut stream = connect_tls(to, authority, client);
    if stream.write_all(message.as_bytes()).is_err() {
        return false;
    }
    stream.conn.send_close_notify();
    let _ = stream.flush();
    let _ = stream.sock.shutdown(Shutdown::Write);
    // With TLS 1.3 a client learns only now that its certificate was refused.
    stream.read(&mut [0]).is_ok()
}

pub(crate) fn write_pair(place: &Place, (certificate, key): &(String, String)) {
    // Like a renewal: write beside the file, then rename.
    for (name, text) in [("key.pem", key), ("cert.pem", certificate)] {
        let new = place.path("new.pem");
        fs::write(&new, text).expect("written");
        fs::rename(new, place.path(name)).expect("renamed");
    }
}

fn tls_block(place: &Place, more: &str) -> String {
    let path = |name: &str| place.path(name).display().to_string();
    let files = format!("cert_file = \"{}\"\nkey_file = \"{}\"\n{more}", path("cert.pem"), path("key.pem"));
    block("tls", "tls://127.0.0.1:0", &files)
}

#[test]
fn tls_with_certificates_that_are_renewed() {
    let place = Place::new();
    let (first, second) = (Authority::new(), Authority::new());
    write_pair(&place, &first.sign("localhost"));
    let daemon = place.start_with(&tls_block(&place, ""));
    let to = address(&daemon, "tls");
    assert!(send_tls(to, &first, None, "<13>app: the first\n"));
    assert!(!send_tls(to, &second, None, "<13>app: never\n"), "the client does not know the authority");
    // A slow client inside its handshake delays no other client.
    let _silent = TcpStream::connect(to).expect("connected");
    fs::write(place.path("cert.pem"), "no certificate").expect("written");
    wait_for("a certificate that is none is counted", PATIENCE, || {
        assert!(send_tls(to, &first, None, "\n"), "what was used before stays in use");
        (daemon.metric("daytable_certificate_reloads_failed_total{source=\"tls\"}")? >= 1.0).then_some(())
    });
    write_pair(&place, &second.sign("localhost"));
    wait_for("the new certificate is used", PATIENCE, || send_tls(to, &second, None, "\n").then_some(()));
    assert!(send_tls(to, &second, None, "17 <13>app: the next"));
    // No TLS at all.
    let mut plain = TcpStream::connect(to).expect("connected");
    plain.write_all(b"<13>app: in the clear\n").expect("sent");
    wait_for("it is refused", PATIENCE, || {
        let refused = "daytable_connections_refused_total{reason=\"tls\",source=\"tls\"}";
        (daemon.metric(refused)? >= 2.0).then_some(())
    });
    daemon.stop();
    place.wait_for_messages(&["the first".into(), "the next".into()]);
}

#[test]
fn clients_are_asked_for_a_certificate_where_an_authority_is_set() {
    let place = Place::new();
    let (authority, other) = (Authority::new(), Authority::new());
    write_pair(&place, &authority.sign("localhost"));
    fs::write(place.path("ca.pem"), &authority.pem).expect("written");
    let ca = format!("client_ca_file = \"{}\"", place.path("ca.pem").display());
    let daemon = place.start_with(&tls_block(&place, &ca));
    let to = address(&daemon, "tls");
    assert!(!send_tls(to, &authority, None, "<13>app: nobody\n"));
    assert!(!send_tls(to, &authority, Some(&other.sign("stranger")), "<13>app: a stranger\n"));
    assert!(send_tls(to, &authority, Some(&authority.sign("web-17")), "<13>app: a friend\n"));
    daemon.stop();
    place.wait_for_messages(&["a friend".into()]);
}

#[test]
fn a_listener_that_cannot_be_is_an_error_of_the_start() {
    let place = Place::new();
    let taken = UdpSocket::bind("127.0.0.1:0").expect("bound");
    let listen = format!("udp://{}", taken.local_addr().expect("an address"));
    for (config, code, said) in
        [(block("udp", &listen, ""), 69, "failed to take syslog: 127.0.0.1:"), (tls_block(&place, ""), 78, "cert.pem")]
    {
        let mut daemon = place.spawn(&config);
        assert_eq!(daemon.ended().code(), Some(code), "{}", daemon.said());
        assert!(daemon.said().contains(said), "{}", daemon.said());
        assert!(!place.data().exists(), "listeners are bound before anything else");
    }
}

/// Two hosts whose clocks are two hours behind and an hour ahead, one whose clock is right, and one that sends what waited
/// for an hour.
#[test]
fn a_sender_whose_clock_is_off_is_named_with_its_difference() {
    let place = Place::new();
    let daemon = place.start_with(&block("udp", "udp://127.0.0.1:0", ""));
    let (socket, to) = (UdpSocket::bind("127.0.0.1:0").expect("bound"), address(&daemon, "udp"));
    let mut sent = 0;
    let clocks = wait_for("the clocks", 2 * PATIENCE, || {
        let now = now();
        sent += 1;
        for (host, seconds) in [("behind", -7200), ("ahead", 3600), ("right", 0), ("waited", 30 * sent - 7200)] {
            let time = Ticks::from_unix(now.unix_seconds() + seconds, 0).expect("a time");
            socket.send_to(format!("<14>1 {time} {host} app 1 - - late").as_bytes(), to).expect("sent");
        }
        let shown: Vec<Value> =
            place.json("sources", &[]).into_iter().filter(|line| line["clock_ahead_seconds"].is_i64()).collect();
        (shown.len() > 1).then_some(shown)
    });
    let shown: Vec<_> =
        clocks.iter().map(|clock| (clock["instance"].as_str(), clock["clock_ahead_seconds"].as_i64())).collect();
    assert!(
        matches!(shown[..], [(Some("ahead"), Some(3597..=3600)), (Some("behind"), Some(-7203..=-7200))]),
        "{shown:?}"
    );
    let said = place.said("sources", &[]);
    assert!(said.contains("behind: its clock is 2h 0m behind ("), "{said}");
    assert_eq!(daemon.metric("daytable_sender_clocks_off{source=\"udp\"}"), Some(2.0));
    let doctor = String::from_utf8(
        place.ask("doctor", &["--config", &place.path("daytable.toml").display().to_string()]).stdout,
    )
    .expect("UTF-8");
    assert!(doctor.contains("times: behind: its clock is 2h 0m behind, by the last"), "{doctor}");
    assert!(doctor.contains("times: ahead: "), "{doctor}");
    assert!(!doctor.contains("waited: its clock"), "{doctor}");
    daemon.stop();
}
