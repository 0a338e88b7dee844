//! Pushed entries are stored once, whatever the memory of recent ones has forgotten.

use super::lives::write_sealed;
use super::*;
use crate::entry::{DestinationHash, EntryText, PushedEntries, StreamHash};
use crate::format::catalog::Seal;
use crate::write::queue::CommitOutcome;
use daytable_model::record::{Field, Value};
use daytable_model::source_id::SourceId;
use daytable_model::stream::{PushedStream, StreamNote};
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};

/// A stream, a time, nanoseconds below a tick, and a text.
type Entry = (u8, u16, u8, u8);

#[derive(Clone, Debug)]
enum Step {
    Push(Vec<Entry>),
    /// Bodies that wait for the committer together.
    Together(Vec<Vec<Entry>>),
    Restart,
    Seal,
}

fn open(folder: &Folder) -> Store {
    let options = StoreOptions { commit_interval: Duration::from_millis(1), known_entries: 5, ..StoreOptions::small() };
    Store::open(&folder.path(), options).expect("opened")
}

fn labels(stream: u8) -> BTreeMap<String, String> {
    BTreeMap::from([("app".to_owned(), format!("app {stream}"))])
}

/// Two days of four times each.
fn time_of(at: u16) -> Ticks {
    day(u64::from(at / 16)).plus(seconds(u64::from(at % 16)))
}

fn text_of(text: u8) -> String {
    match text {
        // Too long for one row.
        0 => "long ".repeat(9000),
        text => format!("text {text}"),
    }
}

/// The rows of a body. Entries of two streams share an instance.
fn submission(entries: &[Entry], identity: u64) -> Submission {
    let mut batches: BTreeMap<(String, u8), Batch> = BTreeMap::new();
    let mut pushed = PushedEntries::default();
    for (position, &(stream, at, nanos, text)) in (0..).zip(entries) {
        let (time, line, instance) = (time_of(at), text_of(text), format!("host-{}", stream / 2));
        let entry = EntryText { time, nanos, line: &line, end: "" };
        pushed.add(position, StreamHash::of(&labels(stream)), DestinationHash::of(None, &instance), &entry);
        // The metadata is not a part of an entry.
        let names = vec![format!("meta{}", identity % 3)];
        let note = PushedStream(labels(stream), names, String::new()).text();
        let record = Record {
            message: line.as_str().into(),
            fields: vec![Field { name: "n".into(), value: Value::Int64(identity.cast_signed()) }],
            stream: Some(Box::new(StreamNote { text: note.into(), nanos })),
            ..Record::default()
        };
        let batch = batches.entry((table(time).to_string(), stream / 2));
        let batch = batch.or_insert_with(|| Batch::new(table(time), instance.as_str().into()));
        daytable_model::entity::append(batch, RowKey::new(time, identity, position), "http/loki", &record);
    }
    let receipts = vec![SourceReceipt::records("push", "http/loki", entries.len() as u64)];
    Submission { batches: batches.into_values().collect(), receipts, entries: pushed, ..Submission::default() }
}

/// Submits bodies, and returns how many of their entries were repeats.
fn push(store: &Store, bodies: &[Vec<Entry>], identity: &mut u64) -> u64 {
    let queue = store.commit_queue();
    let outcomes: Vec<_> = bodies
        .iter()
        .map(|body| {
            *identity += 1;
            let (sender, outcome) = std::sync::mpsc::channel();
            let ack = Ack::with_outcome(move |outcome| sender.send(outcome).expect("received"));
            queue.submit(Submission { ack, epoch: queue.epoch(), ..submission(body, *identity) }).expect("room");
            outcome
        })
        .collect();
    let repeats = |outcome: CommitOutcome| match outcome {
        CommitOutcome::Committed => 0,
        CommitOutcome::CommittedBefore(repeats) => repeats,
        other => panic!("{other:?}"),
    };
    outcomes.into_iter().map(|outcome| repeats(outcome.recv().expect("an outcome"))).sum()
}

/// Notes in which body each entry came first.
fn note(first: &mut BTreeMap<Entry, u64>, body: &[Entry], number: u64) {
    for entry in body {
        first.entry(*entry).or_insert(number);
    }
}

/// Seals a day, with the times of its records.
fn seal(store: &Store, at: Ticks) {
    let (sealing, sealed) = write_sealed(store, at);
    let times = sealed::SealedFile::open_local(&sealing.path).expect("opened").times();
    store.steps().end_seal(&sealing, &Seal { times, ..sealed }).expect("ended");
}

/// The identities of the stored records.
fn stored(folder: &Folder) -> Vec<SourceId> {
    let reader = folder.reader();
    let tables = reader.tables().expect("tables");
    let rows = tables.iter().flat_map(|table| reader.scan(&table.table, &Range::all()).expect("a table"));
    rows.map(|row| row.expect("a row").key()).filter(|key| key.item() == 0).map(|key| key.source()).collect()
}

fn entry() -> impl Strategy<Value = Entry> {
    // Some bodies go forward, others come late.
    (0..4_u8, 0..32_u16, 0..2_u8, prop_oneof![1 => Just(0_u8), 9 => 1..3_u8])
}

fn body() -> impl Strategy<Value = Vec<Entry>> {
    proptest::collection::vec(entry(), 1..12)
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        8 => body().prop_map(Step::Push),
        2 => proptest::collection::vec(body(), 2..4).prop_map(Step::Together),
        2 => Just(Step::Restart),
        1 => Just(Step::Seal),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    /// Each entry is stored once, as it came first, and the others are counted.
    #[test]
    fn entries_are_stored_once(steps in proptest::collection::vec(step(), 1..14)) {
        let folder = Folder::new();
        let (mut store, mut identity) = (open(&folder), 0);
        let mut first: BTreeMap<Entry, u64> = BTreeMap::new();
        for step in steps {
            match step {
                Step::Push(body) => {
                    let before = first.len();
                    note(&mut first, &body, identity + 1);
                    let repeats = push(&store, std::slice::from_ref(&body), &mut identity);
                    prop_assert_eq!(repeats, (body.len() + before - first.len()) as u64);
                }
                Step::Together(bodies) => {
                    let before = first.len();
                    for (body, number) in bodies.iter().zip(identity + 1..) {
                        note(&mut first, body, number);
                    }
                    let repeats = push(&store, &bodies, &mut identity);
                    let all: usize = bodies.iter().map(Vec::len).sum();
                    prop_assert_eq!(repeats, (all + before - first.len()) as u64);
                }
                Step::Restart => {
                    store.close().expect("closed");
                    store = open(&folder);
                }
                Step::Seal => {
                    // Later entries of the day are in a file of late rows.
                    let days: BTreeSet<u64> = first.keys().map(|(_, at, ..)| u64::from(at / 16)).collect();
                    let is_open = |at: &u64| {
                        let files = folder.reader().catalog().files_of(&table(day(*at))).expect("files");
                        files.iter().any(|file| file.role != FileRole::Sealed && file.entities > 0)
                    };
                    days.into_iter().filter(is_open).for_each(|at| seal(&store, day(at)));
                }
            }
        }
        let mut found = stored(&folder);
        let mut expected: Vec<SourceId> = first.into_values().map(SourceId::from).collect();
        found.sort_unstable();
        expected.sort_unstable();
        prop_assert_eq!(found, expected);
        store.close().expect("closed");
    }
}
