//! The cost of reading beside a running daemon, over a persistent connection.

use crate::client::Client;
use crate::corpus::DAY;
use crate::daemon::Daemon;
use crate::process::median;
use anyhow::{Context, Result, ensure};
use daytable_model::key::DayTable;
use daytable_store::Reader;
use std::path::Path;
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// A query, and its number of repetitions.
pub(crate) struct Query {
    /// The name in the report.
    pub(crate) name: &'static str,
    /// The path.
    pub(crate) path: &'static str,
    /// Repetitions for the median.
    pub(crate) times: usize,
}

/// The newest 100 records of one instance.
pub(crate) const NEWEST_OF_ONE: Query =
    Query { name: "newest 100 of one instance", path: "/api/query?instance=worker-07&n=100", times: 200 };
/// Levels by five minutes.
pub(crate) const LEVELS: Query =
    Query { name: "count by level, every 5m, whole day", path: "/api/count?by=level&every=5m", times: 20 };
/// Further queries, without a target.
pub(crate) const OTHERS: [Query; 5] = [
    Query { name: "newest 100 of all", path: "/api/query?n=100", times: 200 },
    Query {
        name: "levels of one instance, every 5m",
        path: "/api/count?instance=worker-07&by=level&every=5m",
        times: 50,
    },
    Query {
        name: "errors of one hour",
        path: "/api/query?level=error&since=2026-11-20T12:00:00Z&until=2026-11-20T13:00:00Z&n=1000000",
        times: 10,
    },
    Query { name: "text in a rare field, whole day", path: "/api/query?contains=%28try%202%29&n=1000000", times: 5 },
    Query { name: "text of the trace id, whole day", path: "/api/query?contains=beef1&n=1000000", times: 5 },
];

/// The median time of a query, and the lines of its answer.
pub(crate) fn latency(client: &mut Client, query: &Query, quick: bool) -> Result<(Duration, usize)> {
    let mut lines = client.get(query.path)?.lines().count();
    let mut took = Vec::new();
    for _ in 0..if quick { 2 } else { query.times } {
        let start = Instant::now();
        let answer = client.get(query.path)?;
        took.push(start.elapsed());
        lines = answer.lines().count();
    }
    Ok((median(took)?, lines))
}

/// The time until a drop is visible.
pub(crate) struct Dropped {
    /// From the request until a reader in another process no longer sees the table.
    pub(crate) unseen_after: Duration,
    /// From the request to the response.
    pub(crate) answered_after: Duration,
}

/// Drops the corpus's day through the daemon, while this process reads.
pub(crate) fn drop_day(daemon: &Daemon, data: &Path) -> Result<Dropped> {
    let table = DayTable::parse(&format!("Log{DAY}"))?;
    let mut client = daemon.connect()?;
    client.get("/healthz")?;
    let (looking, looks) = mpsc::channel();
    let data = data.to_owned();
    let watcher = std::thread::spawn(move || -> Result<Instant> {
        let reader = Reader::open(&data)?;
        ensure!(!reader.catalog().files_of(&table)?.is_empty(), "{table} is not there");
        looking.send(())?;
        while !reader.catalog().files_of(&table)?.is_empty() {}
        Ok(Instant::now())
    });
    looks.recv().context("the watcher ended")?;
    let start = Instant::now();
    client.post(&format!("/-/drop?table=Log{DAY}"))?;
    let answered_after = start.elapsed();
    let unseen = watcher.join().map_err(|_| anyhow::anyhow!("the watcher panicked"))??;
    Ok(Dropped { unseen_after: unseen.saturating_duration_since(start), answered_after })
}
