//! The cost of a sealed day: the rate of sealing with verification, memory, bytes per record, and the bytes that a
//! query reads.
//!
//! The records are those of `end_to_end`, imported by the real program. Sealing runs on one thread of this process.
//!
//! `cargo bench --bench seal` (`RECORDS=1000000` for fewer)

#[allow(dead_code)]
#[path = "end_to_end/corpus.rs"]
mod corpus;

use anyhow::{Context, Result, ensure};
use daytable_model::key::DayTable;
use daytable_model::time::Ticks;
use daytable_store::Phase;
use daytable_store::sealed::{SealJob, SealedFile, SealedSizes, seal};
use daytable_store::{CountBy, Range, Reader};
use std::ops::ControlFlow;
use std::process::Command;
use std::time::{Duration, Instant};

fn main() -> Result<()> {
    let records: u64 = std::env::var("RECORDS").map_or(Ok(5_000_000), |text| text.parse())?;
    let folder = tempfile::tempdir()?;
    let (log, data) = (folder.path().join("day.ndjson"), folder.path().join("data"));
    corpus::write_ndjson(&log, records)?;
    let mut import = Command::new(env!("CARGO_BIN_EXE_daytable"));
    import.arg("import").arg("--data").arg(&data).args(["--instance", "{field:instance}"]).arg(&log);
    ensure!(import.status()?.success(), "the import failed");
    std::fs::remove_file(&log)?;

    let table = DayTable::parse(&format!("Log{}", corpus::DAY))?;
    let out = folder.path().join(format!("{table}.2.parquet"));
    let sealing = SealJob {
        table: table.clone(),
        generation: 2,
        inputs: vec![data.join("tables").join(format!("{table}.1.db"))],
        committed: Reader::open(&data)?.catalog().committed()?,
        out: out.clone(),
        sizes: SealedSizes::default(),
        names: Default::default(),
    };
    let start = Instant::now();
    let (mut surveyed, mut written) = (Duration::ZERO, Duration::ZERO);
    let sealed = seal(&sealing, &mut |progress| {
        match progress.phase {
            Phase::Survey => surveyed = start.elapsed(),
            Phase::Write => written = start.elapsed(),
            _ => {}
        }
        ControlFlow::Continue(())
    })?;
    let manifest = sealed.manifest;
    let took = start.elapsed();
    println!("sealed {} records in {took:.2?}: {:.0}/s", manifest.records, records as f64 / took.as_secs_f64());
    println!("  survey {surveyed:.2?}, write {:.2?}, compare {:.2?}", written - surveyed, took - written);
    println!("  {:.1} bytes a record, peak RSS {} MB", manifest.bytes as f64 / records as f64, peak_rss_mb()?);

    let day = Ticks::from_date(2026, 11, 20).context("a date")?;
    let hour = |n: u64| day.plus(Duration::from_secs(3600 * n));
    let all = Range::all();
    let one = Range { partitions: Some(vec!["worker-07".into()]), from: hour(12), to: hour(13), ..Range::all() };
    measure("open", || SealedFile::open_local(&out).map(|file| file.rows()))?;
    let file = SealedFile::open_local(&out)?;
    let newest = |range: &Range, n: usize| file.scan(range).take(n).map(|row| row.map(|_| 1)).sum::<Result<u64, _>>();
    measure("an instance's hour", || newest(&one, usize::MAX))?;
    measure("newest 100 of all", || newest(&all, 100))?;
    let counts = |by| {
        let mut counted = 0;
        file.counts(&all, by, &mut |count| counted += count.records).map(|()| counted)
    };
    measure("levels by minute", || counts(CountBy::Nothing))?;
    measure("levels by minute and instance", || counts(CountBy::Partition))?;
    let text = |text: &str| newest(&Range { contains: Some(text.into()), ..all.clone() }, usize::MAX);
    measure("text in a rare field, whole day", || text("(try 2)"))?;
    measure("every row, newest first", || newest(&all, usize::MAX))?;
    Ok(())
}

/// The median time of a few runs, and their result.
fn measure<E: std::error::Error + Send + Sync + 'static>(
    what: &str,
    mut run: impl FnMut() -> Result<u64, E>,
) -> Result<()> {
    let (mut took, mut gave) = (Vec::new(), 0);
    for _ in 0..5 {
        let start = Instant::now();
        gave = run()?;
        took.push(start.elapsed());
    }
    took.sort();
    println!("{what}: {:.2?} ({gave})", took[2]);
    Ok(())
}

fn peak_rss_mb() -> Result<u64> {
    let status = std::fs::read_to_string("/proc/self/status")?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    Ok(line.trim().trim_end_matches(" kB").parse::<u64>()? / 1024)
}
