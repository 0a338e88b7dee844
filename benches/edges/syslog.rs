//! Syslog over loopback: messages a second and CPU over TCP, rsyslog under the same load, the datagrams lost at a steady
//! rate, and the cost of an idle connection.
//!
//! Sender and receiver share the machine, and no process is pinned to a core. The sender makes its messages first, and
//! writes the same pieces of 64 KiB again and again. Its CPU is therefore that of `write`, and only the receiver slows it
//! down. rsyslog (imtcp to omfile), where it is installed, writes without fsync: a yardstick for receiving only.

use crate::client::Client;
use crate::process::Watched;
use crate::table::Table;
use anyhow::{Context, Result, ensure};
use rustix::process::{Resource, getrlimit, setrlimit};
use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// The senders: an instance per connection.
const INSTANCES: usize = 64;
/// Bytes of a piece, the unit of a write.
const PIECE_BYTES: usize = 64 << 10;
/// Time limit of each wait.
const PATIENCE: Duration = Duration::from_secs(300);

/// The size of the measurement.
pub(crate) struct Load {
    pub(crate) messages: u64,
    /// Datagrams per second.
    pub(crate) datagrams: u32,
    pub(crate) seconds: u32,
    pub(crate) idle_connections: u64,
}

/// Measures all of it, each in a folder of its own.
pub(crate) fn measure(table: &mut Table, scratch: &Path, load: &Load) -> Result<()> {
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = limit.maximum;
    setrlimit(Resource::Nofile, limit)?;
    tcp(table, scratch, load.messages)?;
    rsyslog(table, scratch, load.messages)?;
    udp(table, scratch, load)?;
    let descriptors = limit.maximum.unwrap_or(load.idle_connections * 2).saturating_sub(100);
    idle(table, scratch, load.idle_connections.min(descriptors))
}

/// A daemon that accepts syslog, in its own folder.
struct Daemon {
    process: Watched,
    data: PathBuf,
}

impl Daemon {
    fn start(scratch: &Path, name: &str, listen: &str, more: &str) -> Result<Daemon> {
        let (data, config) = (scratch.join(name), scratch.join(format!("{name}.toml")));
        // The messages have a fixed day, which must never have expired.
        let text = format!(
            "[http]\nlisten = \"off\"\n[[syslog]]\nlisten = \"{listen}\"\n{more}\n[[table]]\nname = \"Log\"\nkeep = \"36500d\"\n"
        );
        std::fs::write(&config, text)?;
        let log = File::create(config.with_extension("log"))?;
        let mut run = Command::new(crate::daemon::binary());
        run.args(["run", "--log", "warn", "--config"]).arg(&config).arg("--data").arg(&data);
        let mut process = Watched::spawn(run.stdout(log.try_clone()?).stderr(log))?;
        let deadline = Instant::now() + PATIENCE;
        while Client::connect(&data).and_then(|mut client| client.get("/readyz")).is_err() {
            process.must_run()?;
            ensure!(Instant::now() < deadline, "it does not get ready");
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(Daemon { process, data })
    }

    fn metric(&self, name: &str) -> Result<u64> {
        // A new connection: an older one may have been closed while idle.
        let text = Client::connect(&self.data)?.get("/metrics")?;
        let value = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        Ok(value.with_context(|| format!("{name} is not there"))?.parse::<f64>()? as u64)
    }

    /// Waits until this many records are on disk.
    fn wait_committed(&self, records: u64) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.metric("daytable_records_committed_total")? < records {
            ensure!(Instant::now() < deadline, "{records} records are not committed");
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }
}

/// A free port of loopback.
fn free_port() -> Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// A message of an instance: a typical service log with varying parts.
fn message(instance: usize, number: usize) -> String {
    let (status, took) = (if number.is_multiple_of(17) { 503 } else { 200 }, number * 7919 % 1000);
    format!(
        "<{}>1 2026-11-21T08:{:02}:{:02}.{:06}Z web-{instance:02} shop {} - - request {:08x} of user {} to /cart/{} answered {status} \
         after {took} ms\n",
        if status == 200 { 134 } else { 131 },
        number / 60_000 % 60,
        number / 1000 % 60,
        number % 1000 * 1000,
        1000 + instance,
        number * 2_654_435_761 % 0xffff_ffff,
        number % 5000,
        number % 300,
    )
}

/// A piece of whole messages for each instance, and its number of messages.
fn pieces() -> Vec<(Vec<u8>, u64)> {
    let piece = |instance| {
        let (mut bytes, mut count) = (Vec::with_capacity(PIECE_BYTES), 0);
        while bytes.len() < PIECE_BYTES - 300 {
            bytes.extend_from_slice(message(instance, count).as_bytes());
            count += 1;
        }
        (bytes, count as u64)
    };
    (0..INSTANCES).map(piece).collect()
}

/// Sends at least `messages` messages, each instance over its own connection. Returns the number of messages.
fn send(port: u16, messages: u64) -> Result<u64> {
    let pieces = pieces();
    let mut connections = Vec::new();
    for _ in &pieces {
        connections.push(TcpStream::connect(("127.0.0.1", port))?);
    }
    let mut sent = 0;
    while sent < messages {
        for (connection, (bytes, count)) in connections.iter_mut().zip(&pieces) {
            connection.write_all(bytes)?;
            sent += count;
        }
    }
    // End the input, and wait until the receiver has read all of it.
    for mut connection in connections {
        connection.shutdown(std::net::Shutdown::Write)?;
        let _ = connection.read(&mut [0]);
    }
    Ok(sent)
}

fn tcp(table: &mut Table, scratch: &Path, messages: u64) -> Result<()> {
    eprintln!("sending {messages} messages over TCP");
    let port = free_port()?;
    let daemon = Daemon::start(scratch, "tcp", &format!("tcp://127.0.0.1:{port}"), "")?;
    let began = Instant::now();
    let sent = send(port, messages)?;
    daemon.wait_committed(sent)?;
    let took = began.elapsed();
    ensure!(
        daemon.metric("daytable_records_received_total{source=\"syslog\"}")? == sent,
        "not every message was taken"
    );
    let taken = daemon.process.stop()?;
    table.add("syslog over TCP, 64 connections, on disk", "/s", "900,000", sent as f64 / took.as_secs_f64());
    table.add("syslog over TCP: CPU a message", "µs", "1.5", taken.cpu.as_secs_f64() * 1e6 / sent as f64);
    table.add("syslog over TCP: peak RSS", "MB", "", taken.peak_rss as f64 / 1e6);
    Ok(())
}

/// The same load for rsyslog, which writes to a file.
fn rsyslog(table: &mut Table, scratch: &Path, messages: u64) -> Result<()> {
    let port = free_port()?;
    let (config, out): (PathBuf, PathBuf) = (scratch.join("rsyslog.conf"), scratch.join("rsyslog.out"));
    let text = format!(
        "global(workDirectory=\"{}\")\nmodule(load=\"imtcp\" maxSessions=\"200\")\ninput(type=\"imtcp\" port=\"{port}\" address=\"127.0.0.1\")\n\
         action(type=\"omfile\" file=\"{}\" ioBufferSize=\"64k\")\n",
        scratch.display(),
        out.display()
    );
    std::fs::write(&config, text)?;
    let mut run = Command::new("rsyslogd");
    run.arg("-n").arg("-f").arg(&config).arg("-i").arg(scratch.join("rsyslog.pid"));
    let Ok(mut process) = Watched::spawn(&mut run) else {
        eprintln!("rsyslog is not there, it is left out");
        return Ok(());
    };
    eprintln!("sending {messages} messages to rsyslog");
    let deadline = Instant::now() + PATIENCE;
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        process.must_run()?;
        ensure!(Instant::now() < deadline, "rsyslog does not listen");
        std::thread::sleep(Duration::from_millis(5));
    }
    let began = Instant::now();
    let sent = send(port, messages)?;
    // rsyslog has received every message. Its queue is empty once the file stops growing.
    let (mut size, mut since) = (0, Instant::now());
    while since.elapsed() < Duration::from_millis(500) {
        let now = out.metadata().map_or(0, |file| file.len());
        if now != size {
            (size, since) = (now, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let took = since.duration_since(began);
    let taken = process.stop()?;
    let mut lines = 0;
    let (mut file, mut buffer) = (File::open(&out)?, vec![0; 1 << 20]);
    loop {
        let read = file.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        lines += memchr::memchr_iter(b'\n', &buffer[..read]).count() as u64;
    }
    ensure!(lines == sent, "rsyslog has {lines} of {sent} messages");
    std::fs::remove_file(out)?;
    table.add("syslog over TCP: rsyslog, imtcp to omfile", "/s", "", sent as f64 / took.as_secs_f64());
    table.add("syslog over TCP: CPU a message of rsyslog", "µs", "", taken.cpu.as_secs_f64() * 1e6 / sent as f64);
    Ok(())
}

/// Datagrams at a steady rate, a few each millisecond.
fn udp(table: &mut Table, scratch: &Path, load: &Load) -> Result<()> {
    let &Load { datagrams, seconds, .. } = load;
    eprintln!("sending {datagrams} datagrams a second for {seconds} s");
    let port = free_port()?;
    let daemon = Daemon::start(scratch, "udp", &format!("udp://127.0.0.1:{port}"), "")?;
    let socket = UdpSocket::bind("127.0.0.1:0")?;
    socket.connect(("127.0.0.1", port))?;
    let messages: Vec<String> = (0..10_000).map(|number| message(number % INSTANCES, number)).collect();
    let of_turn = datagrams / 1000;
    let began = Instant::now();
    let mut sent = 0u64;
    let mut next = messages.iter().cycle();
    for turn in 0..seconds * 1000 {
        let due = began + Duration::from_millis(turn.into());
        std::thread::sleep(due.saturating_duration_since(Instant::now()));
        for message in next.by_ref().take(of_turn as usize) {
            socket.send(message.trim_end().as_bytes())?;
            sent += 1;
        }
    }
    let took = began.elapsed();
    let (mut received, mut drops, mut quiet) = (0, 0, Instant::now());
    while received + drops < sent && quiet.elapsed() < Duration::from_secs(5) {
        let now = daemon.metric("daytable_records_received_total{source=\"syslog\"}")?;
        drops = daemon.metric("daytable_udp_drops_total{source=\"syslog\"}")?;
        if now != received {
            (received, quiet) = (now, Instant::now());
        }
        std::thread::sleep(Duration::from_millis(10));
    }
    daemon.wait_committed(received)?;
    let taken = daemon.process.stop()?;
    let rate = sent as f64 / took.as_secs_f64();
    table.add(format!("syslog over UDP for {seconds} s: as it was sent"), "/s", "300,000", rate);
    table.add("syslog over UDP: datagrams lost", "", "0", (sent - received) as f64);
    table.add("syslog over UDP: of these, dropped by the kernel", "", "0", drops as f64);
    table.add("syslog over UDP: CPU a datagram", "µs", "", taken.cpu.as_secs_f64() * 1e6 / received as f64);
    Ok(())
}

/// Open idle connections.
fn idle(table: &mut Table, scratch: &Path, connections: u64) -> Result<()> {
    eprintln!("opening {connections} connections");
    let port = free_port()?;
    let more = "connections_max = 20000";
    let daemon = Daemon::start(scratch, "idle", &format!("tcp://127.0.0.1:{port}"), more)?;
    // An earlier connection takes the one-time cost of the first.
    TcpStream::connect(("127.0.0.1", port))?.write_all(message(0, 0).as_bytes())?;
    daemon.wait_committed(1)?;
    let before = daemon.process.rss()?;
    let mut open = Vec::new();
    for _ in 0..connections {
        open.push(TcpStream::connect(("127.0.0.1", port))?);
    }
    let deadline = Instant::now() + PATIENCE;
    while daemon.metric("daytable_connections{source=\"syslog\"}")? < connections {
        ensure!(Instant::now() < deadline, "not every connection was accepted");
        std::thread::sleep(Duration::from_millis(10));
    }
    let after = daemon.process.rss()?;
    let bytes = after.saturating_sub(before) as f64;
    table.add(format!("{connections} idle connections of syslog, over the empty daemon"), "MB", "100", bytes / 1e6);
    drop(open);
    daemon.process.stop()?;
    Ok(())
}
