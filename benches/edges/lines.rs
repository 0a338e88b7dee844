//! Files of records from any number of instances and days.

use crate::corpus::{Corpus, SEED};
use anyhow::Result;
use daytable_model::time::Ticks;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Duration;

const DAY: Duration = Duration::from_secs(86_400);
/// Where a line has its date.
const DATE: std::ops::Range<usize> = 9..19;

/// The date of the n-th day of `days`. The last one is the corpus's own.
fn date(day: u64, days: u64) -> String {
    let last = Ticks::from_date(2026, 11, 20).unwrap_or(Ticks::UNIX_EPOCH);
    let back = u32::try_from(days - 1 - day).unwrap_or(u32::MAX);
    last.minus(DAY * back).to_string()[..10].to_owned()
}

/// Writes `records` in time order, of instances in a mixed order.
pub(crate) fn write(path: &Path, records: u64, instances: usize, days: u64) -> Result<()> {
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let (mut corpus, mut line) = (Corpus::new(SEED, records), String::new());
    let of_day = records.div_ceil(days);
    for number in 0..records {
        // A multiplicative hash scatters the instances.
        let instance = (number.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) as usize % instances;
        let micros = number % of_day * 86_399_000_000 / of_day;
        line.clear();
        corpus.sample(micros, instance).write_json(&mut line);
        line.replace_range(DATE, &date(number / of_day, days));
        file.write_all(line.as_bytes())?;
    }
    Ok(file.into_inner()?.sync_all()?)
}

/// Writes a file for each source, with one record a day.
pub(crate) fn write_sources(folder: &Path, sources: usize, days: u64) -> Result<()> {
    std::fs::create_dir_all(folder)?;
    let (mut corpus, mut line) = (Corpus::new(SEED, 1), String::new());
    let dates: Vec<String> = (0..days).map(|day| date(day, days)).collect();
    for source in 0..sources {
        let mut file = BufWriter::new(File::create(folder.join(format!("source-{source:04}.log")))?);
        for date in &dates {
            line.clear();
            corpus.sample(source as u64 * 1_000_000, source).write_json(&mut line);
            line.replace_range(DATE, date);
            file.write_all(line.as_bytes())?;
        }
        file.into_inner()?;
    }
    Ok(())
}
