//! Ingest beside readers.

use crate::corpus::INSTANCES;
use crate::daemon::Folder;
use crate::table::Table;
use crate::{ABSENT, lines};
use anyhow::Result;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

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
