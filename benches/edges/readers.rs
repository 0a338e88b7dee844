//! Ingest beside readers.

use crate::corpus::INSTANCES;
use crate::daemon::Folder;
use crate::stream::write_stream;
use crate::table::Table;
use crate::{ABSENT, LEVELS, lines};
use anyhow::{Context, Result};
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// Readers of each kind: how many, what they ask, and the share of ingest that is wanted.
const KINDS: [(&str, usize, &str); 3] = [
    ("64 readers of the newest hundred", 64, "/api/query?instance=worker-07&n=100"),
    ("8 readers of the whole day", 8, ABSENT),
    ("64 readers of the whole day", 64, ABSENT),
];

/// What readers were answered.
#[derive(Default)]
struct Answers {
    whole: AtomicU64,
    refused: AtomicU64,
}

/// Measures ingest alone, and then beside readers of each kind.
pub(crate) fn measure(table: &mut Table, scratch: &Path, records: u64) -> Result<()> {
    let file = scratch.join("readers.ndjson");
    lines::write(&file, records, INSTANCES, 1)?;
    let folder = |name: &str| Folder::new(scratch, name, &file, "{field:instance}");
    let alone = ingest(&folder("alone")?, records, 0, "", &Answers::default())?;
    table.add("ingest alone", "/s", "", alone);
    for (number, (what, readers, path)) in KINDS.into_iter().enumerate() {
        let answers = Answers::default();
        let beside = ingest(&folder(&format!("readers-{number}"))?, records, readers, path, &answers)?;
        table.add(format!("{what}: ingest"), "% of it alone", "75", beside / alone * 100.0);
        table.add(format!("{what}: answers"), "", "", answers.whole.into_inner() as f64);
        table.add(format!("{what}: refused"), "", "0", answers.refused.into_inner() as f64);
    }
    Ok(())
}

/// Records a second, while readers ask again and again.
fn ingest(folder: &Folder, records: u64, readers: usize, path: &str, answers: &Answers) -> Result<f64> {
    let mut daemon = folder.start()?;
    let is_over = AtomicBool::new(false);
    let wall = std::thread::scope(|scope| {
        for _ in 0..readers {
            let (mut client, is_over) = (daemon.connect()?, &is_over);
            scope.spawn(move || {
                while !is_over.load(Ordering::Relaxed) {
                    let counter = if client.get(path).is_ok() { &answers.whole } else { &answers.refused };
                    counter.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let wall = daemon.wait_for(records);
        is_over.store(true, Ordering::Relaxed);
        wall
    })?;
    daemon.process.stop()?;
    Ok(records as f64 / wall.as_secs_f64())
}

/// What 64 readers ask, each one of these.
const MIXED: [&str; 4] = ["/api/query?n=100", "/api/query?instance=stream&level=error&n=100", LEVELS, ABSENT];

/// Measures how long a commit takes while records come in at a steady rate: alone, and beside 64 readers.
pub(crate) fn measure_steady(table: &mut Table, scratch: &Path, seconds: u64, rate: u32) -> Result<()> {
    let mut alone = 0.0;
    for readers in [0, 64] {
        let logs = scratch.join(format!("steady-{readers}"));
        std::fs::create_dir(&logs)?;
        let folder = Folder::new(&logs, "data", &logs.join("*.log"), "{stem}")?;
        let daemon = folder.start()?;
        let (is_over, answers) = (AtomicBool::new(false), Answers::default());
        let what = format!("{rate} records/s beside {readers} readers");
        let commit = std::thread::scope(|scope| -> Result<f64> {
            scope.spawn(|| write_stream(&logs.join("stream.log"), rate, &is_over));
            for number in 0..readers {
                let (mut client, is_over, answers) = (daemon.connect()?, &is_over, &answers);
                scope.spawn(move || {
                    while !is_over.load(Ordering::Relaxed) {
                        let is_whole = client.get(MIXED[number % MIXED.len()]).is_ok();
                        let counter = if is_whole { &answers.whole } else { &answers.refused };
                        counter.fetch_add(1, Ordering::Relaxed);
                    }
                });
            }
            std::thread::sleep(Duration::from_secs(seconds));
            let metrics = daemon.connect().and_then(|mut client| client.get("/metrics"));
            is_over.store(true, Ordering::Relaxed);
            let metrics = metrics?;
            let value = |name: &str| {
                let found = metrics.lines().find_map(|line| line.strip_prefix(name)?.trim().parse::<f64>().ok());
                found.with_context(|| format!("no {name}"))
            };
            let each_second = |name| Ok::<f64, anyhow::Error>(value(name)? / seconds as f64);
            let commit = value("daytable_commit_seconds_sum")? / value("daytable_commit_seconds_count")?;
            table.add(format!("{what}: a commit"), "ms", "", commit * 1000.0);
            table.add(format!("{what}: commits"), "/s", "", each_second("daytable_commit_seconds_count")?);
            table.add(format!("{what}: committed"), "/s", "", each_second("daytable_records_committed_total")?);
            Ok(commit)
        })?;
        if readers == 0 {
            alone = commit;
        } else {
            table.add(format!("{what}: a commit beside one without readers"), "%", "110", commit / alone * 100.0);
            table.add(format!("{what}: answers"), "", "", answers.whole.into_inner() as f64);
            table.add(format!("{what}: failed"), "", "0", answers.refused.into_inner() as f64);
        }
        daemon.process.stop()?;
    }
    Ok(())
}
