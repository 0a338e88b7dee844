//! Idempotency keys against a map: pushes, repeats, torn and failed commits and reopenings in any order. Each push gets
//! the answer that a map of committed keys gives, and the record of each key exists once.

use super::*;
use crate::format::catalog::idempotency::{IdempotencyKey, StoredAnswer};
use crate::read::{Range, Reader};
use crate::write::queue::{Ack, CommitOutcome};
use daytable_model::batch::Batch;
use daytable_model::key::{Period, RowKey, TableName};
use daytable_model::record::Record;
use daytable_model::time::Ticks;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::mpsc::{Receiver, channel};

const KEYS: u8 = 6;

#[derive(Clone, Debug)]
enum Act {
    /// A push of this key with this body. It waits for the next commit.
    Push(u8, u8),
    Commit,
    /// A kill before the commit point.
    Torn,
    /// A kill between the commit point and the answers.
    Unanswered,
    /// A failed commit. The same process opens the folder again.
    Failed,
    Open,
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        8 => (0..KEYS, 0_u8..2).prop_map(|(key, body)| Act::Push(key, body)),
        4 => Just(Act::Commit),
        1 => Just(Act::Torn),
        1 => Just(Act::Unanswered),
        1 => Just(Act::Failed),
        1 => Just(Act::Open),
    ]
}

fn day() -> DayTable {
    let start = Ticks::from_date(2026, 11, 1).expect("a date");
    DayTable::at(&TableName::new("Log").expect("a name"), Period::Day, start)
}

fn answer(key: u8, body: u8) -> StoredAnswer {
    StoredAnswer { records: u32::from(key) + 1, refused: body.into() }
}

/// Makes a push and returns its outcome. Its record has its own row key, like a push without an idempotency key.
fn push(committer: &mut Committer, key: u8, body: u8, number: u64) -> Receiver<CommitOutcome> {
    let mut batch = Batch::new(day(), "web".into());
    let record = Record { message: format!("key {key}").into(), ..Record::default() };
    daytable_model::entity::append(&mut batch, RowKey::new(day().start(), 7, number), "push", &record);
    let (sender, receiver) = channel();
    committer.receive(Submission {
        batches: vec![batch],
        epoch: committer.queue.epoch(),
        idempotency: Some(IdempotencyKey { key: [key; 32], body: [body; 32], answer: answer(key, body) }),
        ack: Ack::with_outcome(move |outcome| sender.send(outcome).unwrap_or(())),
        ..Submission::default()
    });
    receiver
}

fn open(path: &Path) -> Committer {
    Committer::open(FolderLayout { data: path.into() }, StoreOptions::small()).expect("opened")
}

/// The outcome of a push if its key was committed before with the body `first`.
fn repeated(key: u8, body: u8, first: u8) -> CommitOutcome {
    if first == body { CommitOutcome::Repeated(answer(key, first)) } else { CommitOutcome::OtherBody }
}

fn run(acts: &[Act]) {
    let dir = tempfile::tempdir().expect("a folder");
    let mut committer = open(dir.path());
    committer.create_table(&day()).expect("created");
    // The committed body of each key, the bodies of the next commit, and the waiting pushes.
    let (mut known, mut gathered) = (BTreeMap::new(), BTreeMap::new());
    let mut waiting: Vec<(Receiver<CommitOutcome>, CommitOutcome)> = Vec::new();
    for (number, act) in acts.iter().enumerate() {
        let check_outcomes = |waiting: &mut Vec<(Receiver<CommitOutcome>, CommitOutcome)>, is_committed: bool| {
            for (receiver, outcome) in waiting.drain(..) {
                let expected = if is_committed { outcome } else { CommitOutcome::NotCommitted };
                assert_eq!(receiver.try_recv(), Ok(expected), "after {act:?}, number {number}");
            }
        };
        match act {
            Act::Push(key, body) => {
                let receiver = push(&mut committer, *key, *body, number as u64);
                if let Some(first) = known.get(key) {
                    assert_eq!(receiver.try_recv(), Ok(repeated(*key, *body, *first)));
                    continue;
                }
                assert!(receiver.try_recv().is_err(), "nothing is certain before the commit");
                let outcome = gathered.get(key).map_or(CommitOutcome::Committed, |first| repeated(*key, *body, *first));
                gathered.entry(*key).or_insert(*body);
                waiting.push((receiver, outcome));
            }
            Act::Commit => {
                committer.commit_or_fail();
                check_outcomes(&mut waiting, true);
                known.append(&mut gathered);
            }
            Act::Torn => {
                committer.commit_half();
                drop(committer);
                check_outcomes(&mut waiting, false);
                gathered.clear();
                committer = open(dir.path());
            }
            Act::Unanswered => {
                committer.commit_or_fail();
                // The process is gone, so the answers reached no client.
                waiting.clear();
                known.append(&mut gathered);
                drop(committer);
                committer = open(dir.path());
            }
            Act::Failed => {
                committer.fail(&StoreError::Refused("a test".into()));
                check_outcomes(&mut waiting, false);
                gathered.clear();
            }
            Act::Open => {
                committer.commit_or_fail();
                check_outcomes(&mut waiting, true);
                known.append(&mut gathered);
                committer.close().expect("closed");
                committer = open(dir.path());
            }
        }
    }
    drop(committer);
    drop(open(dir.path()));
    let reader = Reader::open(dir.path()).expect("opened");
    let range = Range::all();
    let rows = reader.scan(&day(), &range).expect("a table");
    let mut messages: Vec<_> = rows.map(|row| super::model::text_of(&row.expect("a row"))).collect();
    messages.sort();
    assert_eq!(messages, known.keys().map(|key| format!("key {key}")).collect::<Vec<_>>());
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..ProptestConfig::default() })]

    /// In any order of acts, the record of a key exists once, and every push gets the right answer.
    #[test]
    fn keys_are_a_map_of_first_commits(acts in prop::collection::vec(act(), 1..60)) {
        run(&acts);
    }
}
