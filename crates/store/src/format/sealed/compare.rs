//! Reads a new sealed file back, and compares it with what was written.

use super::columns::ColumnSet;
use super::file::SealedFile;
use super::sum::{self, ContentCounts};
use crate::StoreError;
use crate::progress::{OnProgress, Phase, Progress, go_on};
use crate::worker_pool::WorkerPool;
use daytable_model::property::Property;
use sha2::{Digest, Sha256};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Reads the file back and compares the counts, the order, and the checksum of every value. Returns its length and SHA-256.
pub(super) fn compare(
    sealed: &SealedFile,
    written: &ContentCounts,
    progress: &mut OnProgress<'_>,
) -> Result<(u64, String), StoreError> {
    let doubting = &sealed.doubting();
    let (mut read, total) = (ContentCounts::default(), written.rows);
    let mut add = |group: Result<(ContentCounts, Vec<u64>), StoreError>| {
        let (group, entities) = group?;
        if let (Some(last), Some(first)) = (&read.last, &group.first)
            && first <= last
        {
            return Err(differs(doubting, "a row group is out of order"));
        }
        entities.into_iter().for_each(|entity| read.content.add(entity));
        read.append(group);
        go_on(progress(Progress { phase: Phase::Compare, done: read.rows, total }))
    };
    let compared = WorkerPool::with(|pool| {
        let (mut whole, mut jobs) = (pool.in_order(), pool.in_order());
        whole.run(|| digest(doubting.path()));
        for (group, rows) in doubting.index().groups.iter().enumerate() {
            jobs.run(move || read_group(doubting, group, *rows)).map_or(Ok(()), &mut add)?;
        }
        std::iter::from_fn(|| jobs.next()).try_for_each(&mut add)?;
        whole.next().unwrap_or_else(|| digest(doubting.path()))
    });
    let compared = compared.map_err(StoreError::io(sealed.path()))??;
    if read != *written {
        let what = format!(
            "it has {} entities, checksum {}, where {} were written, checksum {}",
            read.rows,
            read.content.hex(),
            written.rows,
            written.content.hex()
        );
        return Err(differs(sealed, &what));
    }
    Ok(compared)
}

fn differs(sealed: &SealedFile, what: &str) -> StoreError {
    StoreError::Refused(format!("{} does not match its inputs: {what}", sealed.path().display()))
}

/// Counts the rows of a group, and returns the hash of each.
fn read_group(sealed: &SealedFile, group: usize, rows: usize) -> Result<(ContentCounts, Vec<u64>), StoreError> {
    sealed.check_partitions(group)?;
    let all = 0..rows;
    let block = sealed.block(group, &[all], ColumnSet::All)?;
    let mut sums = vec![0u64; block.len()];
    for column in 0..block.width() {
        let (name, kind) = block.name(column);
        let property = sum::of_property(name, kind);
        let of_value = |value: Property<'_>| sum::of_value(property, value);
        block.each_value(column, of_value, |row, value| sums[row] = sums[row].wrapping_add(value));
    }
    let (mut read, mut entities) = (ContentCounts::default(), Vec::with_capacity(rows));
    for run in sealed.runs_in(group) {
        let partition = sum::of_partition(&run.partition);
        let mut is_first = true;
        for row in run.rows.clone() {
            let (key, level) = (block.key(row), block.level(row));
            // Within a run, the partition is the same.
            let is_behind = match &read.last {
                Some((last, last_key)) if is_first => (&**last, *last_key) < (&*run.partition, key),
                _ => is_first || block.key(row - 1) < key,
            };
            if !is_behind {
                return Err(differs(sealed, &format!("row {row} of row group {group} is out of order")));
            }
            is_first = false;
            read.add(&run.partition, key, level);
            entities.push(sum::entity(partition, &key, level, sums[row]));
        }
        if let Some(row) = run.rows.clone().next_back() {
            read.ends_with(&run.partition, block.key(row));
        }
    }
    Ok((read, entities))
}

/// The length and SHA-256 of a file.
fn digest(path: &Path) -> Result<(u64, String), StoreError> {
    let io = |error| StoreError::io(path)(error);
    let mut file = File::open(path).map_err(io)?;
    let (mut digest, mut bytes, mut buffer) = (Sha256::new(), 0, vec![0; 1 << 18]);
    loop {
        let read = file.read(&mut buffer).map_err(io)?;
        if read == 0 {
            break;
        }
        digest.update(&buffer[..read]);
        bytes += read as u64;
    }
    let hex = digest.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    Ok((bytes, hex))
}
