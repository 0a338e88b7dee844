//! A thousand instances, each with one record per second: every page of a commit has one record.
//!
//! The benchmark uses the library without a daemon. It parses, keys and batches records like the tail. 250 records,
//! those of 250 ms, are one commit. An hour passes `speed` times faster. The compaction merges pages older than five
//! seconds of *real* time. At that speed it finds longer runs of small pages than in a daemon, and rewrites records a
//! little less often. A checkpoint has less time between two commits, so the journal grows longer. The report has its
//! maximum length. At speed 1 neither difference remains.
//!
//! The CPU time is that of this process, without the time to make the lines.

use crate::corpus::{Corpus, SEED};
use crate::process::bytes_below;
use anyhow::Result;
use daytable_intake::batcher::Batcher;
use daytable_model::key::{DayTable, Period, RowKey, TableName};
use daytable_model::time::Ticks;
use daytable_parse::{FormatChoice, parse};
use daytable_store::{Mark, SourceKind, SourceState, SourceStatus, Store, StoreOptions, Submission};
use rustix::time::{ClockId, clock_gettime};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Commits per second.
const COMMITS: u64 = 4;
/// Length of a line, as its source's position counts it.
const LINE_BYTES: u64 = 200;

/// The size of the measurement.
#[derive(Clone, Copy)]
pub(crate) struct Quiet {
    /// Instances, each with one record per second.
    pub(crate) instances: u64,
    /// Duration in seconds of record time.
    pub(crate) seconds: u64,
    /// Speed-up against real time. Zero means as fast as possible.
    pub(crate) speed: u64,
}

/// The resources used.
pub(crate) struct QuietTook {
    /// Records.
    pub(crate) records: u64,
    /// User and system time.
    pub(crate) cpu: Duration,
    /// Bytes of the closed data folder.
    pub(crate) bytes: u64,
    /// Maximum bytes of the day's journal.
    pub(crate) journal_bytes_max: u64,
    /// From the first record to the closed folder.
    pub(crate) wall: Duration,
}

fn clock(id: ClockId) -> Duration {
    Duration::try_from(clock_gettime(id)).unwrap_or_default()
}

/// Writes every record to a new store in `data`.
pub(crate) fn run(data: &Path, quiet: Quiet) -> Result<QuietTook> {
    let midnight = Ticks::from_date(2026, 11, 20).unwrap_or(Ticks::UNIX_EPOCH);
    let day = DayTable::at(&TableName::new("Log")?, Period::Day, midnight);
    let per_commit = quiet.instances.div_ceil(COMMITS);
    let (mut corpus, mut batcher) = (Corpus::new(SEED, 0), Batcher::default());
    let (start, cpu_before) = (Instant::now(), clock(ClockId::ProcessCPUTime));
    let mut cpu_of_lines = Duration::ZERO;
    let store = Store::open(data, StoreOptions { commit_interval: Duration::ZERO, ..StoreOptions::default() })?;
    let intake = store.commit_queue();
    let names: Vec<Arc<str>> = (0..quiet.instances).map(|n| format!("pod-{n:04}").into()).collect();
    let mut lines: Vec<(usize, String)> = Vec::new();
    let (journal, mut journal_bytes_max) = (data.join(format!("tables/{day}.1.db-wal")), 0);
    for commit in 0..quiet.seconds * COMMITS {
        let (second, part) = (commit / COMMITS, commit % COMMITS);
        let before = clock(ClockId::ThreadCPUTime);
        lines.clear();
        for instance in part * per_commit..((part + 1) * per_commit).min(quiet.instances) {
            let micros = second * 1_000_000 + instance * 1_000_000 / quiet.instances;
            let mut line = String::new();
            corpus.sample(micros, 0).write_text(&mut line);
            lines.push((usize::try_from(instance)?, line));
        }
        cpu_of_lines += clock(ClockId::ThreadCPUTime) - before;

        let mut submission = Submission { epoch: intake.epoch(), ..Submission::default() };
        for (instance, line) in &lines {
            let parsed = parse(line.trim_end(), FormatChoice::Auto);
            let time = parsed.record.time.unwrap_or(midnight);
            let source = source(*instance, second + 1);
            let key = RowKey::new(time, source.identity, second * LINE_BYTES);
            let slot = batcher.slot(&day, &names[*instance]);
            batcher.push(slot, key, "/var/log/pods/app.log", &parsed.record);
            submission.newest = submission.newest.max(Some(time));
            submission.advances.push(source.into());
        }
        submission.batches = batcher.take();
        let (told, committed) = std::sync::mpsc::sync_channel(1);
        // A submission with an acknowledgement is not delayed, so it is a commit of its own, like the records of 250
        // ms.
        submission.ack = daytable_store::Ack::new(move |done| {
            // The receiver waits for this message.
            let _ = told.send(done);
        });
        intake.submit(submission)?;
        anyhow::ensure!(committed.recv()?, "a commit failed");
        journal_bytes_max = journal.metadata()?.len().max(journal_bytes_max);
        if let Some(due) = Duration::from_millis(commit * 1000 / COMMITS).checked_div(u32::try_from(quiet.speed)?) {
            std::thread::sleep(due.saturating_sub(start.elapsed()));
        }
    }
    store.close()?;
    let cpu = clock(ClockId::ProcessCPUTime) - cpu_before - cpu_of_lines;
    let records = quiet.instances * quiet.seconds;
    Ok(QuietTook { records, cpu, bytes: bytes_below(data)?, journal_bytes_max, wall: start.elapsed() })
}

/// The position in an instance's file after `lines` lines, as the tail would store it.
fn source(instance: usize, lines: u64) -> SourceState {
    let position = lines * LINE_BYTES;
    let mark = |position, length| Mark { position, length, hash: position };
    SourceState {
        identity: (instance as u64 + 1).into(),
        block: "tail".into(),
        kind: SourceKind::Tail,
        path: format!("/var/log/pods/pod-{instance:04}/app.log").into(),
        device: 1,
        inode: instance as u64 + 1,
        generation: 0,
        head: mark(LINE_BYTES, 200),
        position,
        marks: vec![mark(position, 64)],
        last_time: None,
        cursor: String::new(),
        profile: String::new(),
        status: SourceStatus::Live,
        ledger: daytable_store::Ledger { records: lines, bytes: position, ..Default::default() },
        seen: daytable_model::time::now(),
    }
}
