//! Authentication and rate limits: listeners without authentication do not start, TLS and its certificates, credentials,
//! and a sender above its limit waits alone.

use crate::client::{Answer, over, over_tcp};
use crate::place::{DAYTABLE, Daemon, PATIENCE, Place, message_of, numbered, wait_for};
use crate::syslog::{Authority, address, block, by_message, connect_tls, wait_metric, write_pair};
use std::fs;
use std::io::Write;
use std::net::{Ipv4Addr, SocketAddr, SocketAddrV4, TcpStream, UdpSocket};
use std::process::Command;

/// A connection from another address of this host.
fn connect_from(from: Ipv4Addr, to: SocketAddr) -> TcpStream {
    use rustix::net::{AddressFamily, SocketType, bind, connect, socket};
    let made = socket(AddressFamily::INET, SocketType::STREAM, None).expect("a socket");
    bind(&made, &SocketAddrV4::new(from, 0)).expect("bound");
    connect(&made, &to).expect("connected");
    made.into()
}

#[test]
fn a_listener_beyond_loopback_without_authentication_does_not_start() {
    let place = Place::new();
    let (ca, credentials) = (place.path("ca.pem"), place.path("credentials.toml"));
    for (http, says) in [
        ("listen = \"0.0.0.0:0\"".to_owned(), "can be reached from other hosts"),
        ("listen = \"[::]:0\"".to_owned(), "set `push` to \"open\" to accept records from everyone"),
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
    // The rule also holds for options of the command line.
    let mut command = Command::new(DAYTABLE);
    command.arg("run").arg("--config").arg(place.configure("")).args(["--listen", "0.0.0.0:0"]);
    let mut daemon = place.spawn_command(command);
    assert_eq!(daemon.ended().code(), Some(78), "{}", daemon.said());
    assert!(daemon.said().contains("set `credentials_file`"), "{}", daemon.said());
    let mut command = Command::new(DAYTABLE);
    command.arg("run").arg("--config").arg(place.configure("")).args(["--listen", "0.0.0.0:0", "--push", "off"]);
    let daemon = place.spawn_command(command);
    daemon.wait_ready();
    assert_eq!(push(&daemon, "", "{}").status, 403);
    daemon.stop();
    for push in ["open", "off"] {
        place.start_with(&format!("[http]\nlisten = \"0.0.0.0:0\"\npush = \"{push}\"\n")).stop();
    }
}

#[test]
fn http_over_tls_uses_renewed_certificates() {
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
    // Clients that are silent in their handshake do not hold up others.
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
fn a_peer_with_too_many_datagrams_loses_only_its_own() {
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
fn a_peer_that_sends_too_fast_over_a_connection_is_paced_and_loses_no_record() {
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
    // Meanwhile the daemon serves another peer.
    connect_from(Ipv4Addr::new(127, 0, 0, 2), to).write_all(b"<13>app: quiet\n").expect("sent");
    by_message(&place, "quiet");
    assert!(daemon.metric("daytable_records_received_total{source=\"tcp\"}") < Some(12_001.0), "it was too fast");
    sending.join().expect("all of it was taken in the end");
    wait_metric(&daemon, "daytable_records_received_total{source=\"tcp\"}", 12_001.0);
    assert_eq!(daemon.metric("daytable_connections_refused_total{reason=\"idle_timeout\",source=\"tcp\"}"), Some(0.0));
    daemon.stop();
    place.wait_for_messages(&[noisy, vec!["quiet".into()]].concat());
}

const CREDENTIALS: &str = "\
[[credential]]
name = \"web\"
token = \"0123456789abcdef-web\"
tables = [\"Audit\"]
tenant = \"acme\"
[[credential]]
name = \"beat\"
user = \"beat\"
password = \"correct horse\"
";
const TABLES: &str = "\
[[table]]
name = \"Audit\"
when = \"level:>=fatal\"
[[table]]
name = \"Log\"
";
const WEB: &str = "Authorization: Bearer 0123456789abcdef-web\r\n";
/// `beat:correct horse`
const BEAT: &str = "Authorization: Basic YmVhdDpjb3JyZWN0IGhvcnNl\r\n";

/// Replaces the file of credentials in one step.
fn write_credentials(place: &Place, text: &str) {
    fs::write(place.path("credentials.new"), text).expect("written");
    fs::rename(place.path("credentials.new"), place.path("credentials.toml")).expect("renamed");
}

/// A daemon that needs credentials.
fn guarded(place: &Place, more: &str) -> Daemon {
    write_credentials(place, CREDENTIALS);
    let file = place.path("credentials.toml");
    let http = format!("[http]\nlisten = \"127.0.0.1:0\"\ncredentials_file = \"{}\"\n{more}\n", file.display());
    place.start_with(&(http + TABLES))
}

fn push(daemon: &Daemon, headers: &str, body: &str) -> Answer {
    let stream = TcpStream::connect(daemon.address()).expect("connected");
    over(stream, "POST", "/ingest?instance=test", headers, body.as_bytes()).expect("an answer")
}

/// Repeats `push` until it gets this status.
fn wait_status(daemon: &Daemon, headers: &str, status: u16) {
    wait_for(&format!("the answer is {status}"), PATIENCE, || {
        (push(daemon, headers, "{\"message\":\"again\"}\n").status == status).then_some(())
    });
}

#[test]
fn a_push_needs_a_credential_and_goes_to_its_tables() {
    let place = Place::new();
    let daemon = guarded(&place, "");
    for (headers, status) in [
        ("", 401),
        ("Authorization: Bearer 0123456789abcdef-we\r\n", 401),
        ("Authorization: Basic YmVhdDp3cm9uZw==\r\n", 401),
        ("Authorization: HMAC-SHA256 Credential=edge\r\n", 401),
    ] {
        let answer = push(&daemon, headers, "{\"message\":\"never\"}\n");
        assert_eq!(answer.status, status, "{headers}: {}", answer.body);
        assert!(answer.head.contains("www-authenticate: bearer") && !answer.body.contains("0123"), "{}", answer.head);
    }
    for target in ["/v1/logs", "/loki/api/v1/push", "/elasticsearch/_bulk", "/elasticsearch/", "/upload"] {
        let stream = TcpStream::connect(daemon.address()).expect("connected");
        let answer = over(stream, "POST", target, "", b"{}").expect("an answer");
        assert_eq!(answer.status, 401, "{target}");
    }
    // The sender is checked before the body: a malformed body is not decoded.
    let answer = push(&daemon, "Content-Encoding: gzip\r\n", "no gzip");
    assert_eq!(answer.status, 401);
    let info = "{\"message\":\"of web\",\"level\":\"info\",\"tenant\":\"of another\"}\n";
    assert_eq!(push(&daemon, WEB, info).status, 200);
    assert_eq!(push(&daemon, BEAT, "{\"message\":\"of beat\",\"level\":\"info\"}\n").status, 200);
    let web = by_message(&place, "of web");
    assert!(web["table"].as_str().is_some_and(|table| table.starts_with("Audit")), "{web}");
    assert_eq!(web["tenant"], "acme", "{web}");
    let beat = by_message(&place, "of beat");
    assert!(beat["table"].as_str().is_some_and(|table| table.starts_with("Log")), "{beat}");
    let refused = daemon.metric("daytable_pushes_refused_total{reason=\"no_credential\"}");
    assert_eq!(refused, Some(7.0));
    for secret in ["0123456789abcdef", "correct horse", "YmVhdDpjb3JyZWN0IGhvcnNl"] {
        assert!(!daemon.said().contains(secret), "{secret} is in the log");
    }
    // The unix socket needs no credential.
    let stream = std::os::unix::net::UnixStream::connect(daemon.socket()).expect("connected");
    let answer = over(stream, "POST", "/ingest", "", b"{\"message\":\"of root\"}\n").expect("an answer");
    assert_eq!(answer.status, 200, "{}", answer.body);
    daemon.stop();
    assert_eq!(place.records().len(), 3);
}

#[test]
fn credentials_are_read_again_and_bad_ones_are_not_used() {
    let place = Place::new();
    let daemon = guarded(&place, "");
    assert_eq!(push(&daemon, WEB, "{\"message\":\"first\"}\n").status, 200);
    write_credentials(&place, "[[credential]]\nname = \"web\"\ntoken = \"short-secret\"\n");
    let failed = "daytable_credential_reloads_failed_total";
    wait_for("what cannot be used is counted", PATIENCE, || {
        assert_eq!(push(&daemon, WEB, "{\"message\":\"again\"}\n").status, 200, "those before stay in use");
        (daemon.metric(failed)? >= 1.0).then_some(())
    });
    daemon.wait_said("must have 16 characters");
    assert!(!daemon.said().contains("short-secret"));
    write_credentials(&place, &CREDENTIALS.replace("0123456789abcdef-web", "0123456789abcdef-new"));
    wait_status(&daemon, &WEB.replace("-web", "-new"), 200);
    wait_status(&daemon, WEB, 401);
    daemon.stop();
}

#[test]
fn a_sender_above_its_limit_gets_retry_after_and_others_are_served() {
    let place = Place::new();
    let daemon = guarded(&place, "per_sender = { records_per_s = 100, bytes_per_day = \"1MiB\" }");
    let many = "{\"message\":\"one of many\"}\n".repeat(1000);
    assert_eq!(push(&daemon, WEB, &many).status, 200, "what came is taken");
    let answer = push(&daemon, WEB, "{\"message\":\"more\"}\n");
    assert_eq!(answer.status, 429, "{}", answer.body);
    let seconds = answer.head.split_once("retry-after: ").expect("when to come again").1;
    let seconds: u64 = seconds.lines().next().expect("a line").parse().expect("seconds");
    assert!((1..=9).contains(&seconds), "{seconds}");
    assert_eq!(push(&daemon, BEAT, "{\"message\":\"of beat\"}\n").status, 200);
    assert_eq!(daemon.metric("daytable_pushes_refused_total{reason=\"rate_limited\"}"), Some(1.0));
    let large = format!("{{\"message\":\"{}\"}}\n", "x".repeat(600_000));
    for _ in 0..2 {
        assert_eq!(push(&daemon, BEAT, &large).status, 200);
    }
    let answer = push(&daemon, BEAT, "{\"message\":\"tomorrow\"}\n");
    assert_eq!((answer.status, answer.body.contains("bytes of the day")), (429, true), "{}", answer.body);
    assert_eq!(daemon.metric("daytable_pushes_refused_total{reason=\"quota\"}"), Some(1.0));
    daemon.stop();
}

/// An upload is charged by its decoded bytes, like any other push.
#[test]
fn an_upload_is_charged_by_its_decoded_bytes() {
    let place = Place::new();
    let daemon = guarded(&place, "per_sender = { bytes_per_day = \"1MiB\" }");
    let entry = format!("__REALTIME_TIMESTAMP=1763712345678901\nMESSAGE={}\n\n", "x".repeat(600_000));
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(entry.repeat(2).as_bytes()).expect("memory");
    let packed = gzip.finish().expect("memory");
    assert!(packed.len() < 20_000);
    let head = format!("{WEB}Content-Type: application/vnd.fdo.journal\r\nContent-Encoding: gzip\r\n");
    let stream = TcpStream::connect(daemon.address()).expect("connected");
    let answer = over(stream, "POST", "/upload", &head, &packed).expect("an answer");
    assert_eq!(answer.status, 200, "what came is taken: {}", answer.body);
    let answer = push(&daemon, WEB, "{\"message\":\"tomorrow\"}\n");
    assert_eq!((answer.status, answer.body.contains("bytes of the day")), (429, true), "{}", answer.body);
    daemon.stop();
}

#[test]
fn without_credentials_loopback_is_open_but_not_to_web_pages() {
    let place = Place::new();
    let daemon = place.start_with(TABLES);
    assert_eq!(push(&daemon, "", "{\"message\":\"taken\"}\n").status, 200);
    // A credential that a client always sends is ignored.
    assert_eq!(push(&daemon, BEAT, "{\"message\":\"taken as well\"}\n").status, 200);
    let answer = push(&daemon, "Origin: https://evil.example\r\n", "{\"message\":\"never\"}\n");
    assert_eq!(answer.status, 403, "{}", answer.body);
    daemon.stop();
    let off = place.start_with(&format!("[http]\nlisten = \"127.0.0.1:0\"\npush = \"off\"\n{TABLES}"));
    assert_eq!(push(&off, "", "{\"message\":\"never\"}\n").status, 403);
    off.stop();
    place.wait_for_messages(&["taken".into(), "taken as well".into()]);
}

#[test]
fn a_client_certificate_replaces_credentials_where_there_are_none() {
    let place = Place::new();
    let (authority, other) = (Authority::new(), Authority::new());
    write_pair(&place, &authority.sign("localhost"));
    fs::write(place.path("ca.pem"), &authority.pem).expect("written");
    let path = |name: &str| place.path(name).display().to_string();
    let daemon = place.start_with(&format!(
        "[http]\nlisten = \"0.0.0.0:0\"\ntls = {{ cert_file = \"{}\", key_file = \"{}\", client_ca_file = \"{}\" }}\n",
        path("cert.pem"),
        path("key.pem"),
        path("ca.pem")
    ));
    let to = SocketAddr::from((Ipv4Addr::LOCALHOST, daemon.address().port()));
    let pushed = |client: Option<&(String, String)>, message: &str| {
        let body = format!("{{\"message\":\"{message}\"}}\n");
        let answer = over(connect_tls(to, &authority, client), "POST", "/ingest", "", body.as_bytes());
        answer.map(|answer| answer.status).ok()
    };
    assert_eq!(pushed(Some(&authority.sign("web-17")), "of a friend"), Some(200));
    assert_eq!(pushed(None, "of nobody"), None);
    assert_eq!(pushed(Some(&other.sign("web-17")), "of a stranger"), None);
    daemon.stop();
    place.wait_for_messages(&["of a friend".into()]);
}

#[test]
fn a_peer_with_too_many_connections_leaves_room_for_others() {
    let place = Place::new();
    let http = "[http]\nlisten = \"127.0.0.1:0\"\nconnections_max = 4\nper_sender = { connections = 2 }\n";
    let more = "connections_max = 4\nper_sender = { connections = 2 }";
    let daemon = place.start_with(&(http.to_owned() + &block("tcp", "tcp://127.0.0.1:0", more)));
    for (source, to) in [("http", daemon.address()), ("tcp", address(&daemon, "tcp"))] {
        let held: Vec<_> = (0..6).map(|_| connect_from(Ipv4Addr::LOCALHOST, to)).collect();
        let refused = format!("daytable_connections_refused_total{{reason=\"per_sender\",source=\"{source}\"}}");
        wait_metric(&daemon, &refused, 4.0);
        let mut other = connect_from(Ipv4Addr::new(127, 0, 0, 2), to);
        if source == "http" {
            assert_eq!(over(other, "GET", "/healthz", "", b"").expect("an answer").status, 200);
        } else {
            other.write_all(b"<13>app: of another\n").expect("sent");
            by_message(&place, "of another");
        }
        drop(held);
    }
    daemon.stop();
}
