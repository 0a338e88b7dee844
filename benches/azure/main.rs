//! Azure Table storage: the cost of an entity in CPU and in bytes on the wire. Subjects are the client alone and the
//! whole daemon. Servers are a stub that only frames and acknowledges, and Azurite.
//!
//! ```text
//! cargo bench --bench azure [-- --quick]
//! ```
//!
//! The stub is this program in a second process, so that its CPU is not counted. An entity is made from a line of a web
//! server's log: a row key, a time, a level, a message and three fields. Each transaction is encoded anew. *Content* is
//! the keys, names and values. All other bytes, such as the request headers, are overhead. The client's CPU is that of
//! this process, in one thread. The daemon's CPU covers reading the files, committing to the outbox, and sending.

#[path = "../end_to_end/client.rs"]
#[allow(dead_code, reason = "shared with another benchmark, which uses more of it")]
mod client;
mod daemon;
#[path = "../end_to_end/process.rs"]
#[allow(dead_code, reason = "shared with another benchmark, which uses more of it")]
mod process;
#[path = "../end_to_end/report.rs"]
#[allow(dead_code, reason = "shared with another benchmark, which uses more of it")]
mod report;
mod stub;

use anyhow::{Result, ensure};
use daytable_azure::{
    Client, ClientOptions, DateTime, ENTITIES_MAX, EdmValue, Pushed, SealedTransaction, StorageAccount, Transaction,
};
use report::{Report, bytes_each, micros_each, rate};
use rustix::time::{ClockId, clock_gettime};
use std::net::{TcpListener, TcpStream};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;
use std::time::{Duration, Instant};
use stub::Stub;

const TABLE: &str = "Log20261121";
/// Concurrent transactions.
const IN_FLIGHT: usize = 8;

fn main() -> Result<()> {
    let args: Vec<String> = std::env::args().collect();
    if args.iter().any(|arg| arg == "--serve") {
        return stub::serve();
    }
    let quick = args.iter().any(|arg| arg == "--quick");
    let mut report = Report::default();
    encoding(&mut report, if quick { 200 } else { 20_000 });
    against_stub(&mut report, if quick { 500 } else { 20_000 })?;
    against_azurite(&mut report, Duration::from_secs(if quick { 2 } else { 20 }))?;
    daemon::against_stub(&mut report, if quick { 64_000 } else { 3_200_000 })?;
    daemon::against_azurite(&mut report, Duration::from_secs(if quick { 3 } else { 20 }))?;
    println!("{}", report.table());
    Ok(())
}

/// CPU time of this process so far.
fn cpu() -> Duration {
    let time = clock_gettime(ClockId::ProcessCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), u32::try_from(time.tv_nsec).unwrap_or(0))
}

/// The transaction with this number, and the bytes of its content.
fn transaction(client: &Client, number: usize) -> (SealedTransaction, u64) {
    let mut transaction = Transaction::new(client.account(), TABLE, "web-17");
    let mut content = 0;
    for entity in 0..ENTITIES_MAX {
        let ticks = 639_308_160_000_000_000 + i64::try_from(number * ENTITIES_MAX + entity).unwrap_or(0);
        let row_key = format!("{:019}-1f3a9c2e77b0d4a6-{entity:012x}", 3_155_378_975_999_999_999 - ticks);
        let message = format!(
            "GET /shop/cart/{entity} HTTP/1.1 answered to 10.20.30.{entity} for \"Mozilla/5.0 (X11; Linux x86_64) Gecko/20100101\" in {number} us"
        );
        let properties = [
            ("Time", EdmValue::DateTime(DateTime::from_ticks(ticks))),
            ("Level", EdmValue::from("info")),
            ("Severity", EdmValue::Int32(9)),
            ("Message", EdmValue::from(message.as_str())),
            ("Source", EdmValue::from("/var/log/nginx/access.log")),
            ("status", EdmValue::Int64(200)),
            ("method", EdmValue::from("GET")),
        ];
        // "web-17", the names, and the encoded values.
        let lengths = [28, 4, 1, message.len(), 25, 3, 3];
        content += "web-17".len() + row_key.len();
        content += properties.iter().zip(lengths).map(|((name, _), length)| name.len() + length).sum::<usize>();
        assert_eq!(transaction.push(&row_key, properties), Pushed::Added);
    }
    (transaction.seal(), content as u64)
}

/// The connection string of the emulator's account on this port.
fn connection_string(port: u16) -> String {
    let key = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==";
    format!("AccountName=devstoreaccount1;AccountKey={key};TableEndpoint=http://127.0.0.1:{port}/devstoreaccount1")
}

fn client(port: u16) -> Result<Client> {
    let account: StorageAccount = connection_string(port).parse()?;
    Ok(Client::new(account, ClientOptions::new(|| DateTime::from_ticks(daytable_model::time::now().get())))?)
}

/// Encodes transactions without sending them.
fn encoding(report: &mut Report, transactions: usize) {
    let client = client(1).expect("a client that asks nobody");
    let (cpu_before, mut bytes) = (cpu(), 0);
    for number in 0..transactions {
        bytes += transaction(&client, number).0.bytes().len();
    }
    let entities = (transactions * ENTITIES_MAX) as u64;
    report.add("write an entity into a transaction, CPU", "", micros_each(cpu() - cpu_before, entities));
    report.add("bytes of a transaction, an entity", "", bytes_each(bytes as u64, entities));
}

/// Sends transactions, [`IN_FLIGHT`] at a time, until `next` returns `None`. Returns the bytes of content.
fn send(client: &Client, next: impl FnMut() -> Option<usize> + 'static) -> Result<u64> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let tasks = tokio::task::LocalSet::new();
    let next = Rc::new(std::cell::RefCell::new(next));
    let content = Rc::new(std::cell::Cell::new(0));
    let workers: Vec<_> = (0..IN_FLIGHT)
        .map(|_| {
            let (client, next, content) = (client.clone(), next.clone(), content.clone());
            tasks.spawn_local(async move {
                loop {
                    let Some(number) = (next.borrow_mut())() else { return Ok::<(), anyhow::Error>(()) };
                    let (transaction, bytes) = transaction(&client, number);
                    client.transact(&transaction).await?;
                    content.set(content.get() + bytes);
                }
            })
        })
        .collect();
    runtime.block_on(tasks.run_until(async {
        for worker in workers {
            worker.await??;
        }
        Ok::<(), anyhow::Error>(())
    }))?;
    Ok(content.get())
}

fn against_stub(report: &mut Report, transactions: usize) -> Result<()> {
    let mut stub = Stub::start()?;
    let client = client(stub.port)?;
    // A warm-up: connections and caches.
    send(&client, up_to(50))?;
    let (before, cpu_before, begun) = (stub.taken()?, cpu(), Instant::now());
    let content = send(&client, up_to(transactions))?;
    let (cpu, took) = (cpu() - cpu_before, begun.elapsed());
    let after = stub.taken()?;
    let entities = after.entities - before.entities;
    ensure!(entities == (transactions * ENTITIES_MAX) as u64, "{entities} entities came");
    report.add("entities acknowledged by the stub", "100,000 /s", rate(entities, took));
    report.add("CPU an entity", "5 µs", micros_each(cpu, entities));
    report.add(
        "request beyond its content, an entity",
        "600 B",
        bytes_each(after.bytes - before.bytes - content, entities),
    );
    report.add("CPU of one core", "100 %", format!("{:.0} %", cpu.as_secs_f64() / took.as_secs_f64() * 100.0));
    Ok(())
}

fn up_to(count: usize) -> impl FnMut() -> Option<usize> {
    let mut numbers = 0..count;
    move || numbers.next()
}

fn against_azurite(report: &mut Report, lasts: Duration) -> Result<()> {
    let Some((_azurite, port)) = azurite()? else {
        report.add("against Azurite", "", "sh tests/setup installs it".into());
        return Ok(());
    };
    let client = client(port)?;
    tokio::runtime::Builder::new_current_thread().enable_all().build()?.block_on(client.create_table(TABLE))?;
    let (cpu_before, begun) = (cpu(), Instant::now());
    let sent = Rc::new(std::cell::Cell::new(0));
    let counted = sent.clone();
    send(&client, move || {
        counted.set(counted.get() + 1);
        (begun.elapsed() < lasts).then_some(counted.get())
    })?;
    let (cpu, took) = (cpu() - cpu_before, begun.elapsed());
    let entities = (sent.get().saturating_sub(IN_FLIGHT) * ENTITIES_MAX) as u64;
    report.add("entities acknowledged by Azurite", "", format!("{:.0} /s", entities as f64 / took.as_secs_f64()));
    report.add("CPU of one core, of that", "10 %", format!("{:.2} %", cpu.as_secs_f64() / took.as_secs_f64() * 100.0));
    Ok(())
}

/// Azurite's tables on a free port. `None` if Azurite is not installed.
fn azurite() -> Result<Option<(Killed, u16)>> {
    let main = Path::new(env!("CARGO_BIN_EXE_daytable"))
        .ancestors()
        .map(|folder| folder.join("node/node_modules/azurite/dist/src/table/main.js"))
        .find(|path| path.exists());
    let Some(main) = main else { return Ok(None) };
    let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
    let mut azurite = Command::new("node");
    azurite.arg(main).args([
        "--tablePort",
        &port.to_string(),
        "--silent",
        "--inMemoryPersistence",
        "--disableTelemetry",
    ]);
    let azurite = Killed(azurite.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?);
    let deadline = Instant::now() + Duration::from_secs(60);
    while TcpStream::connect(("127.0.0.1", port)).is_err() {
        ensure!(Instant::now() < deadline, "Azurite does not listen");
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(Some((azurite, port)))
}

/// A process. Dropping the value kills the process.
pub(crate) struct Killed(pub(crate) Child);

impl Drop for Killed {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
