//! Many senders of small requests.

use crate::corpus::{Corpus, SEED};
use crate::daemon::Folder;
use crate::push::{Connection, target};
use crate::table::Table;
use anyhow::Result;
use std::path::Path;
use std::time::{Duration, Instant};

/// Records of a request.
const RECORDS: usize = 100;

/// Pushes requests over many connections at once, with the default limits of the daemon.
pub(crate) fn measure(table: &mut Table, scratch: &Path, connections: usize, requests: usize) -> Result<()> {
    let to = target()?;
    let folder = Folder::pushed_to(scratch, "senders", to)?;
    let mut body = String::new();
    Corpus::new(SEED, RECORDS as u64).for_each(|sample| sample.write_json(&mut body));
    let mut daemon = folder.start()?;
    let (began, body) = (Instant::now(), &body);
    let mut took = std::thread::scope(|scope| -> Result<Vec<Duration>> {
        let send = || -> Result<Vec<Duration>> {
            let (mut connection, mut took) = (Connection::open(to)?, Vec::new());
            for _ in 0..requests {
                let began = Instant::now();
                connection.push(body)?;
                took.push(began.elapsed());
            }
            Ok(took)
        };
        let started: Vec<_> = (0..connections).map(|_| scope.spawn(send)).collect();
        let mut took = Vec::new();
        for thread in started {
            took.extend(thread.join().unwrap_or_else(|_| Err(anyhow::anyhow!("it panicked")))?);
        }
        Ok(took)
    })?;
    let wall = began.elapsed();
    let records = (connections * requests * RECORDS) as u64;
    daemon.wait_for(records)?;
    took.sort_unstable();
    let what = format!("push of {RECORDS} records, {connections} connections");
    table.add(format!("{what}: records"), "/s", "500,000", records as f64 / wall.as_secs_f64());
    for percent in [50, 99] {
        let slow = took[took.len() * percent / 100].as_secs_f64() * 1000.0;
        table.add(format!("{what}: {percent} of 100"), "ms", if percent == 99 { "200" } else { "" }, slow);
    }
    daemon.process.stop().map(drop)
}
