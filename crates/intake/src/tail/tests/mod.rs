//! The tailer on real files, with a [`TestCommitter`] for a store. One test per case.

mod churn;
mod compressed;
mod holes;
mod identity;
mod import;
mod joining;
mod reading;
mod rotation;
mod saved;
mod unended;
mod unseen;

use super::options::TailTimings;
use super::source::TailThread;
use super::*;
use crate::counters::{SourceCounters, SourceEvent};
use crate::route::{Condition, Route, Router};
use crate::source::Source;
use crate::tail::follower::TailFollower;
use daytable_model::batch::Batch;
use daytable_model::key::{Period, TableName};
use daytable_model::property::Property;
use daytable_model::source_id::SourceId;
use daytable_model::time::Ticks;
use daytable_model::window::Window;
use daytable_store::{CommitQueue, SourceState, SourceStatus, SubmitError, TestCommitter};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::num::NonZeroU16;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);

fn timings() -> TailTimings {
    let ms = Duration::from_millis;
    TailTimings {
        poll_min: ms(1),
        poll_max: ms(10),
        folders: ms(10),
        rescan: ms(200),
        line_final: ms(150),
        zeros_final: ms(150),
        copy_final: ms(400),
        rotated: Duration::from_secs(3600),
        watch_after: ms(5),
        // Changes of an idle file without an event are noticed too late for every test.
        idle_after: ms(20),
        idle_poll: Duration::from_secs(3600),
        submit_after: ms(10),
    }
}

fn router() -> Router {
    let table = TableName::new("Log").expect("a name");
    let keep = Duration::from_secs(30 * 86_400);
    let window = Window { keep, period: Period::Day };
    Router::new(vec![Route { table, window, buckets: NonZeroU16::MIN, when: Condition::ALWAYS }])
}

/// A row in the form that tests compare.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Row {
    identity: SourceId,
    position: u64,
    time: Ticks,
    message: String,
    source: String,
    is_truncated: bool,
}

/// A folder, a tailer on it that can be stopped and started, and all submitted rows.
struct Bench {
    folder: tempfile::TempDir,
    options: TailOptions,
    timings: TailTimings,
    sink: TestCommitter,
    queue: CommitQueue,
    counters: Vec<Arc<SourceCounters>>,
    tailer: Option<TailThread>,
    rows: Vec<Row>,
    sentinels: usize,
}

impl Bench {
    /// A bench that follows `*.log` in its own folder, once it is started.
    fn new() -> Bench {
        let folder = tempfile::tempdir().expect("a folder");
        let mut options = TailOptions::new("t", vec![folder.path().join("*.log").to_string_lossy().into_owned()]);
        options.reading.join.wait = Duration::from_millis(100);
        options.unended_after = None;
        let (queue, sink) = TestCommitter::new(vec![]);
        let counters = vec![Arc::new(SourceCounters::new(Tail::KIND, "t"))];
        Bench { folder, options, timings: timings(), sink, queue, counters, tailer: None, rows: vec![], sentinels: 0 }
    }

    /// A follower that the test drives itself, round by round.
    fn follower(&self) -> TailFollower {
        let prepared = PreparedTail::new(vec![self.options.clone()]).expect("patterns");
        let (queue, counters, timings) = (self.queue.clone(), self.counters.clone(), self.timings.clone());
        TailFollower::new(prepared, router(), "host".into(), queue, counters, timings).expect("a follower")
    }

    /// Follows everything in its folder.
    fn of_all_names() -> Bench {
        let mut bench = Bench::new();
        bench.options.include = vec![bench.path("*").to_string_lossy().into_owned()];
        bench
    }

    fn started() -> Bench {
        let mut bench = Bench::new();
        bench.start();
        bench
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn append(&self, name: &str, bytes: impl AsRef<[u8]>) {
        let mut file = OpenOptions::new().append(true).create(true).open(self.path(name)).expect("opened");
        file.write_all(bytes.as_ref()).expect("written");
    }

    fn rename(&self, from: &str, to: &str) {
        fs::rename(self.path(from), self.path(to)).expect("renamed");
    }

    fn truncate(&self, name: &str) {
        File::create(self.path(name)).expect("truncated");
    }

    fn remove(&self, name: &str) {
        fs::remove_file(self.path(name)).expect("removed");
    }

    fn gzip(&self, from: &str, to: &str) {
        fs::write(self.path(to), gzipped(&fs::read(self.path(from)).expect("read"))).expect("written");
        self.remove(from);
    }

    fn start(&mut self) {
        let prepared = PreparedTail::new(vec![self.options.clone()]).expect("patterns");
        let (queue, counters) = (self.queue.clone(), self.counters.clone());
        let tailer = TailThread::start(prepared, router(), "host".into(), queue, counters, self.timings.clone());
        self.tailer = Some(tailer.expect("started"));
    }

    fn stop(&mut self) {
        if let Some(mut tailer) = self.tailer.take() {
            tailer.wakeup.stop();
            while !tailer.has_ended() {
                self.take(Duration::from_millis(1));
            }
            tailer.stop();
        }
        while self.take(Duration::ZERO) {}
    }

    /// Stops, and starts with the committed state. `meanwhile` runs in between.
    fn restart(&mut self, meanwhile: impl FnOnce(&Bench)) {
        self.stop();
        meanwhile(self);
        let (_, sources) = self.queue.sources();
        (self.queue, self.sink) = TestCommitter::new(sources.iter().map(|state| SourceState::clone(state)).collect());
        self.start();
    }

    fn take(&mut self, timeout: Duration) -> bool {
        let Some(submission) = self.sink.take(timeout) else { return false };
        for batch in &submission.batches {
            self.rows.extend(rows_of(batch));
        }
        true
    }

    /// Waits until `is_so`, and receives submissions meanwhile.
    fn until(&mut self, what: &str, mut is_so: impl FnMut(&mut Bench) -> bool) {
        let deadline = Instant::now() + PATIENCE;
        while !is_so(self) {
            assert!(Instant::now() < deadline, "{what}: never; {:#?}\n{:#?}", self.messages(), self.queue.sources().1);
            self.take(Duration::from_millis(2));
        }
    }

    /// Waits for exactly these messages, in any order, and checks that no others come.
    fn expect(&mut self, messages: &[&str]) {
        let mut expected: Vec<_> = messages.iter().map(|message| message.to_string()).collect();
        expected.sort();
        self.until(&format!("{messages:?}"), |bench| bench.messages().len() >= expected.len());
        self.settle();
        assert_eq!(self.messages(), expected);
    }

    /// Waits until all present files were certainly checked: a new file was found, and then a later line in it.
    fn settle(&mut self) {
        for _ in 0..2 {
            self.sentinels += 1;
            let line = format!("sentinel {}", self.sentinels);
            let name = format!("sentinel-{}.log", self.sentinels);
            for part in ["a", "b"] {
                let line = format!("{line}{part}");
                // A record of this format is final at once.
                self.append(&name, format!("{{\"message\":\"{line}\"}}\n"));
                self.until("a sentinel", |bench| bench.rows.iter().any(|row| row.message == line));
            }
        }
    }

    fn messages(&self) -> Vec<String> {
        let mut messages: Vec<_> = self.records().into_iter().map(|row| row.message).collect();
        messages.sort();
        messages
    }

    /// All rows but sentinels.
    fn records(&self) -> Vec<Row> {
        self.rows.iter().filter(|row| !row.message.starts_with("sentinel")).cloned().collect()
    }

    fn identities(&self) -> usize {
        self.records().iter().map(|row| row.identity).collect::<BTreeSet<_>>().len()
    }

    fn record(&self, message: &str) -> Row {
        let mut found = self.records().into_iter().filter(|row| row.message == message);
        found.next().unwrap_or_else(|| panic!("no {message:?} in {:#?}", self.messages()))
    }

    /// The committed state of the source with this file.
    fn source_of_path(&self, name: &str) -> Option<SourceState> {
        let (_, sources) = self.queue.sources();
        sources.iter().find(|state| state.path == self.path(name)).map(|state| SourceState::clone(state))
    }

    /// The committed state of the source of the record `message`.
    fn source_of(&self, message: &str) -> SourceState {
        let identity = self.record(message).identity;
        let (_, sources) = self.queue.sources();
        let state = sources.into_iter().find(|state| state.identity == identity).expect("committed");
        SourceState::clone(&state)
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.queue.close();
    }
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    encoder.write_all(bytes).expect("memory");
    encoder.finish().expect("memory")
}

fn rows_of(batch: &Batch) -> Vec<Row> {
    let row = |row: daytable_model::batch::RowRef<'_>| {
        let properties: BTreeMap<&str, Property<'_>> =
            row.properties().map(|(name, value)| (&*batch.names()[usize::from(name)], value)).collect();
        let text = |name: &str| match properties.get(name) {
            Some(Property::String(text)) => text.to_string(),
            _ => String::new(),
        };
        Row {
            identity: row.key.source(),
            position: row.key.position(),
            time: row.key.time(),
            message: text("Message"),
            source: text("Source"),
            is_truncated: properties.get("truncated") == Some(&Property::Boolean(true)),
        }
    };
    batch.rows().map(row).collect()
}
