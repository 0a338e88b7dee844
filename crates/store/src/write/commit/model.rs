//! The store against a map: after commits, torn commits, compaction and reopenings in any order, every way of reading
//! returns the last written rows.

use super::*;
use crate::Row;
use crate::format::page::PAGE_SPAN;
use crate::maintain::check as store_check;
use crate::maintain::compaction::StepPart;
use crate::read::{Range, Reader};
use daytable_model::batch::{Batch, Vocabulary};
use daytable_model::key::{Period, RowKey, TableName};
use daytable_model::property::Property;
use daytable_model::record::{Level, Record};
use daytable_model::time::Ticks;
use proptest::prelude::*;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;

/// Between two keys, which all together span twice as much as a page may.
const STEP: Duration = Duration::from_secs(PAGE_SPAN.as_secs() / 20);
const KEYS: u64 = 40;
pub(super) const PARTITIONS: [&str; 3] = ["a", "b", "c"];

/// The rows of a commit: partition, key and the text's length.
pub(super) type ModelRows = Vec<(usize, u64, usize)>;
/// The beginning of each row's text, by key and partition, in the order of a scan.
pub(super) type Model = BTreeMap<(RowKey, usize), String>;

#[derive(Clone, Debug)]
enum Act {
    Commit(ModelRows),
    /// Small commits of one partition with ascending keys: from this key on, a record of each length.
    Burst(usize, u64, Vec<usize>),
    /// A commit that a kill stops before its commit point.
    Torn(ModelRows),
    /// A part of compaction, as if all but this number of the newest commits had settled.
    Compactor(StepPart, i64),
    /// Closed and opened, or killed and opened.
    Open {
        is_killed: bool,
    },
    /// The open scan continues: this many rows, then a new snapshot.
    Scan(usize),
}

pub(super) fn rows() -> impl Strategy<Value = ModelRows> {
    // Most share pages, some are small pages of their own, and a few exceed the limit of one merge.
    let length = prop_oneof![6 => 1_usize..40, 2 => 3000_usize..9000, 1 => 20_000_usize..30_000];
    let clustered = (0..KEYS, prop::collection::vec((0..PARTITIONS.len(), 0_u64..6, length), 1..8));
    clustered.prop_map(|(from, rows)| rows.into_iter().map(|(p, key, n)| (p, (from + key) % KEYS, n)).collect())
}

fn part() -> impl Strategy<Value = StepPart> {
    prop_oneof![
        2 => Just(StepPart::Read),
        3 => Just(StepPart::Split),
        2 => Just(StepPart::Merge),
        2 => Just(StepPart::Replace)
    ]
}

fn act() -> impl Strategy<Value = Act> {
    prop_oneof![
        10 => rows().prop_map(Act::Commit),
        1 => rows().prop_map(Act::Torn),
        9 => (part(), prop_oneof![3 => Just(0_i64), 1 => 1_i64..5]).prop_map(|(part, newest)| Act::Compactor(part, newest)),
        1 => any::<bool>().prop_map(|is_killed| Act::Open { is_killed }),
        3 => (1_usize..8).prop_map(Act::Scan),
    ]
}

/// A burst of one partition: its first key, and the length of each record.
pub(super) fn burst() -> impl Strategy<Value = (usize, u64, Vec<usize>)> {
    let length = prop_oneof![12 => Just(8_usize), 3 => 4_000_usize..9_000, 1 => Just(140_000_usize)];
    let lengths = prop_oneof![Just(vec![8; 6]), Just(vec![8; 8]), prop::collection::vec(length, 4..16)];
    // Most of one partition, so that it has several merges.
    (prop_oneof![4 => Just(0_usize), 1 => 1..PARTITIONS.len()], 0..KEYS, lengths)
}

/// The acts of compaction with many small pages: a part, and the number of newest commits that have not settled.
pub(super) fn compaction_of_bursts() -> impl Strategy<Value = (StepPart, i64)> {
    let part = prop_oneof![1 => Just(StepPart::Read), 2 => Just(StepPart::Split), 5 => Just(StepPart::Merge), 2 => Just(StepPart::Replace)];
    (part, prop_oneof![5 => Just(0_i64), 1 => 1_i64..5])
}

fn act_of_bursts() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => burst().prop_map(|(partition, from, lengths)| Act::Burst(partition, from, lengths)),
        3 => rows().prop_map(Act::Commit),
        1 => rows().prop_map(Act::Torn),
        12 => compaction_of_bursts().prop_map(|(part, newest)| Act::Compactor(part, newest)),
        1 => any::<bool>().prop_map(|is_killed| Act::Open { is_killed }),
        1 => (1_usize..8).prop_map(Act::Scan),
    ]
}

/// The commits of a burst. A long text is five records, so that they fill a page. No key is written twice.
pub(super) fn commits_of(burst: (usize, u64, &[usize])) -> Vec<ModelRows> {
    let (partition, from, lengths) = burst;
    let (mut commits, mut next) = (Vec::new(), 0);
    for length in lengths {
        let records = if *length > 30_000 { 5 } else { 1 };
        if next + records > KEYS {
            break;
        }
        let row = |key| (partition, (from + key) % KEYS, *length / records as usize);
        commits.push((next..next + records).map(row).collect());
        next += records;
    }
    commits
}

pub(super) fn day() -> DayTable {
    DayTable::at(&TableName::new("Log").expect("a name"), Period::Day, start())
}

fn start() -> Ticks {
    Ticks::from_date(2026, 11, 1).expect("a date")
}

fn key(partition: usize, key: u64) -> RowKey {
    let nth = u32::try_from(key).expect("few");
    RowKey::new(start().plus(STEP * nth), 7, key * PARTITIONS.len() as u64 + partition as u64)
}

/// The text up to its padding.
pub(super) fn beginning(text: &str) -> String {
    text.split(' ').next().unwrap_or_default().into()
}

/// The batches of a commit. In every other one, the first two rows of each partition share a batch.
pub(super) fn batches(rows: &[(usize, u64, usize)], number: usize) -> (Vec<Batch>, Model) {
    let (mut batches, mut model) = (BTreeMap::new(), Model::new());
    let (mut shared, mut shared_rows) = (Batch::of_many(&Vocabulary::default(), day()), [0; PARTITIONS.len()]);
    for (nth, &(partition, k, length)) in rows.iter().enumerate() {
        let text = format!("{number}.{nth} {}", "x".repeat(length));
        let record = Record { level: Some(Level::Info), message: text.as_str().into(), ..Record::default() };
        let batch = if number % 2 == 1 && shared_rows[partition] < 2 {
            shared_rows[partition] += 1;
            shared.begin_partition(PARTITIONS[partition].into());
            &mut shared
        } else {
            batches.entry(partition).or_insert_with(|| Batch::new(day(), PARTITIONS[partition].into()))
        };
        daytable_model::entity::append(batch, key(partition, k), "app.log", &record);
        model.insert((key(partition, k), partition), beginning(&text));
    }
    let shared = (!shared.is_empty()).then_some(shared);
    (shared.into_iter().chain(batches.into_values()).collect(), model)
}

fn open(path: &Path) -> Committer {
    Committer::open(FolderLayout { data: path.into() }, StoreOptions::small()).expect("opened")
}

impl Committer {
    pub(super) fn submit(&mut self, batches: Vec<Batch>) {
        let epoch = self.queue.epoch();
        self.receive(Submission { batches, epoch, ..Submission::default() });
    }

    /// Writes pending pages to the day's file, without the commit point.
    pub(super) fn commit_half(&mut self) {
        self.pending.build_rest();
        let seq = self.seq + 1;
        for (day, pages) in std::mem::take(&mut self.pending).pages {
            self.writable_day(&day).expect("a day").file.insert(seq, &pages).expect("written");
        }
    }
}

fn key_and_text(row: &Row) -> ((RowKey, usize), String) {
    let partition = PARTITIONS.iter().position(|name| **name == *row.partition).expect("one of ours");
    ((row.key(), partition), beginning(&text_of(row)))
}

/// The message of a row.
pub(super) fn text_of(row: &Row) -> String {
    let text = row.properties().find_map(|(name, value)| match value {
        Property::String(text) if name == "Message" => Some(text.to_string()),
        _ => None,
    });
    text.expect("a message")
}

fn range(partition: Option<usize>, from: u64, to: u64) -> Range {
    let partitions = partition.map(|partition| vec![PARTITIONS[partition].to_owned()]);
    let at = |key: u64| start().plus(STEP * u32::try_from(key).expect("few"));
    Range { partitions, from: at(from), to: at(to), ..Range::all() }
}

/// Every way of reading returns the contents of `model`.
fn check(reader: &Reader, model: &Model, probe: u64) {
    let some = probe % PARTITIONS.len() as u64;
    for (partition, from, to) in
        [(None, 0, KEYS), (Some(some as usize), 0, KEYS), (None, probe % KEYS, (probe % KEYS + 9).min(KEYS))]
    {
        let range = range(partition, from, to);
        let is_in = |(key, of): &(RowKey, usize)| {
            partition.is_none_or(|partition| partition == *of) && key.time() >= range.from && key.time() <= range.to
        };
        let want: Vec<_> = model.iter().filter(|(at, _)| is_in(at)).map(|(at, text)| (*at, text.clone())).collect();
        let rows = reader.scan(&day(), &range).expect("a table").map(|row| key_and_text(&row.expect("a row")));
        assert_eq!(rows.collect::<Vec<_>>(), want, "a scan of {partition:?} from {from} to {to}");
        let mut counted = 0;
        reader.counts(&day(), &range, &mut |count| counted += count.records).expect("counted");
        assert_eq!(counted, want.len() as u64, "a count of {partition:?} from {from} to {to}");
    }
    for (partition, name) in PARTITIONS.iter().enumerate() {
        let key = key(partition, probe % KEYS);
        let row = reader.row(&day(), name, key).expect("read").map(|row| key_and_text(&row).1);
        assert_eq!(row.as_ref(), model.get(&(key, partition)), "a row by its key");
    }
}

/// The accounts balance and no file has a fault, at every moment, also after a torn commit.
pub(super) fn assert_whole(data: &Path, reader: &Reader, after: &impl std::fmt::Debug) {
    let catalog = reader.catalog();
    let accounts = catalog.accounts().expect("read");
    assert_eq!((accounts.records_surplus(), accounts.rows_surplus()), (0, 0), "{accounts:?} after {after:?}");
    for file in catalog.files().expect("read") {
        let path = data.join("tables").join(&file.name);
        let noted = || store_check::CatalogEntry::of(Some(catalog), &file.name);
        let checked = store_check::open_file(&path, &noted, &mut |_| ControlFlow::Continue(()));
        assert_eq!(checked.faults, [], "{} after {after:?}", file.name);
    }
}

/// A part of compaction, as if all but this number of the newest commits had settled.
pub(super) fn compact(committer: &mut Committer, part: StepPart, newest: i64) {
    let settled = committer.seq - newest;
    let Committer { compactor, days, .. } = committer;
    if let Some(open) = days.get_mut(&day()) {
        compactor.force(&day(), &mut open.file, settled, part);
    }
}

fn run(acts: &[Act]) {
    let dir = tempfile::tempdir().expect("a folder");
    let mut committer = open(dir.path());
    committer.create_table(&day()).expect("created");
    let reader = Reader::open(dir.path()).expect("opened");
    let mut followed = reader.follow_from_now().expect("begun");
    let mut model = Model::new();
    let mut scan = reader.scan(&day(), &range(None, 0, KEYS)).expect("a table");
    // Opening the folder waits for snapshots.
    scan.pause();
    let (mut scanned, mut at_begin): (Vec<_>, Vec<_>) = (Vec::new(), Vec::new());
    for (number, act) in acts.iter().enumerate() {
        let mut new = Model::new();
        match act {
            Act::Commit(rows) => {
                // Two submissions, of which one has a batch of many partitions.
                let (first, second) = rows.split_at(rows.len() / 2);
                for (rows, number) in [(first, number), (second, number + 1_000_001)] {
                    let (batches, written) = batches(rows, number);
                    committer.submit(batches);
                    new.extend(written);
                }
                committer.commit().expect("committed");
                model.extend(new.clone());
            }
            Act::Burst(partition, from, lengths) => {
                for (rows, nth) in commits_of((*partition, *from, lengths)).iter().zip(0..) {
                    let (batches, written) = batches(rows, number + 1000 * nth);
                    committer.submit(batches);
                    committer.commit().expect("committed");
                    // Of a key that is written twice, a follower sees both.
                    new.extend(written.clone());
                    model.extend(written);
                }
            }
            Act::Torn(rows) => {
                committer.submit(batches(rows, number).0);
                committer.commit_half();
                check(&reader, &model, number as u64);
                assert_whole(dir.path(), &reader, act);
                drop(committer);
                committer = open(dir.path());
            }
            Act::Compactor(part, newest) => compact(&mut committer, *part, *newest),
            Act::Open { is_killed } => {
                if *is_killed {
                    drop(committer);
                } else {
                    committer.close().expect("closed");
                }
                committer = open(dir.path());
            }
            Act::Scan(rows) => {
                scan.renew();
                let before = scanned.len();
                scanned.extend(scan.by_ref().take(*rows).map(|row| key_and_text(&row.expect("a row")).0));
                if scanned.len() - before < *rows {
                    // The scan returned all rows of its start, each once and in order, and no other rows than committed
                    // ones.
                    assert!(scanned.is_sorted_by(|one, next| one < next), "{scanned:?}");
                    assert!(at_begin.iter().all(|key| scanned.contains(key)), "{at_begin:?} is not in {scanned:?}");
                    assert!(scanned.iter().all(|key| model.contains_key(key)));
                    scan = reader.scan(&day(), &range(None, 0, KEYS)).expect("a table");
                    scanned.clear();
                    at_begin = model.keys().copied().collect();
                }
                scan.pause();
            }
        }
        check(&reader, &model, number as u64);
        assert_whole(dir.path(), &reader, act);
        let mut seen = Model::new();
        let see = &mut |_: &DayTable, row: Row| {
            let (key, text) = key_and_text(&row);
            assert!(seen.insert(key, text).is_none(), "a follower saw {key:?} twice");
        };
        reader.follow(&mut followed, see).expect("followed");
        assert_eq!(seen, new, "what a follower saw of {act:?}");
    }
    drop(scan);
    committer.close().expect("closed");
    check(&reader, &model, 0);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 16, max_shrink_iters: 200, ..ProptestConfig::default() })]

    /// In any order of acts, readers, counts and followers agree with a map.
    #[test]
    fn the_store_is_a_map_of_last_writes(acts in prop::collection::vec(act(), 1..40)) {
        run(&acts);
    }

    /// The same with many small pages of one partition, and several merges of it at once.
    #[test]
    fn bursts_of_small_commits_are_merged_once(acts in prop::collection::vec(act_of_bursts(), 1..40)) {
        run(&acts);
    }
}

/// Rows of several partitions with the same keys: in batches of many partitions and of one, in shared pages, in pages of their
/// own, and in what compaction makes of them.
mod equal_keys {
    use super::*;

    #[derive(Clone, Debug)]
    enum Act {
        /// Two submissions: partition, key, length; and whether the row is in the batch of many partitions.
        Commit(Vec<(usize, u64, usize, bool)>),
        Compactor(StepPart),
        Open,
    }

    fn act() -> impl Strategy<Value = Act> {
        let length = prop_oneof![8 => Just(1_usize), 2 => 3000_usize..9000];
        let row = (0..PARTITIONS.len(), 0_u64..5, length, any::<bool>());
        prop_oneof![
            6 => prop::collection::vec(row, 1..12).prop_map(Act::Commit),
            6 => part().prop_map(Act::Compactor),
            1 => Just(Act::Open),
        ]
    }

    /// The same key for all partitions.
    fn key_of_all(key: u64) -> RowKey {
        RowKey::new(start().plus(STEP * u32::try_from(key).expect("few")), 7, key)
    }

    fn run(acts: &[Act]) {
        let dir = tempfile::tempdir().expect("a folder");
        let mut committer = open(dir.path());
        committer.create_table(&day()).expect("created");
        let reader = Reader::open(dir.path()).expect("opened");
        let mut model = Model::new();
        for (number, act) in acts.iter().enumerate() {
            match act {
                Act::Commit(rows) => {
                    let (first, second) = rows.split_at(rows.len() / 2);
                    for (half, rows) in [first, second].into_iter().enumerate() {
                        // Of a submission, the rows of its batch of many partitions come first.
                        let mut many = Batch::of_many(&Vocabulary::default(), day());
                        let mut batches: BTreeMap<usize, Batch> = BTreeMap::new();
                        for is_of_many in [true, false] {
                            for (nth, (partition, k, length, _)) in
                                rows.iter().enumerate().filter(|(_, row)| row.3 == is_of_many)
                            {
                                let text = format!("{number}.{half}.{nth} {}", "x".repeat(*length));
                                let record = Record {
                                    level: Some(Level::Info),
                                    message: text.as_str().into(),
                                    ..Record::default()
                                };
                                let batch = match is_of_many {
                                    true => {
                                        many.begin_partition(PARTITIONS[*partition].into());
                                        &mut many
                                    }
                                    false => batches
                                        .entry(*partition)
                                        .or_insert_with(|| Batch::new(day(), PARTITIONS[*partition].into())),
                                };
                                daytable_model::entity::append(batch, key_of_all(*k), "app.log", &record);
                                model.insert((key_of_all(*k), *partition), beginning(&text));
                            }
                        }
                        let many = (!many.is_empty()).then_some(many);
                        committer.submit(many.into_iter().chain(batches.into_values()).collect());
                    }
                    committer.commit().expect("committed");
                }
                Act::Compactor(part) => compact(&mut committer, *part, 0),
                Act::Open => {
                    drop(committer);
                    committer = open(dir.path());
                }
            }
            assert_whole(dir.path(), &reader, act);
            for (partition, name) in PARTITIONS.iter().enumerate() {
                let of_partition = || model.iter().filter(|((_, of), _)| *of == partition);
                let want: Vec<_> = of_partition().map(|(at, text)| (*at, text.clone())).collect();
                let rows = reader.scan(&day(), &range(Some(partition), 0, KEYS)).expect("a table");
                let rows: Vec<_> = rows.map(|row| key_and_text(&row.expect("a row"))).collect();
                assert_eq!(rows, want, "a scan of {name} after {act:?}");
                let mut counted = 0;
                let range = range(Some(partition), 0, KEYS);
                reader.counts(&day(), &range, &mut |count| counted += count.records).expect("counted");
                assert_eq!(counted, want.len() as u64, "a count of {name} after {act:?}");
                for ((key, _), text) in of_partition() {
                    let row = reader.row(&day(), name, *key).expect("read").map(|row| key_and_text(&row).1);
                    assert_eq!(row.as_ref(), Some(text), "a row by its key after {act:?}");
                }
            }
            let mut counted = 0;
            reader.counts(&day(), &Range::all(), &mut |count| counted += count.records).expect("counted");
            assert_eq!(counted, model.len() as u64, "a count of all after {act:?}");
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 16, max_shrink_iters: 200, ..ProptestConfig::default() })]

        /// Of equal keys of a partition, the row that came last wins, whatever other partitions have at the key.
        #[test]
        fn partitions_with_equal_keys_do_not_disturb_each_other(acts in prop::collection::vec(act(), 1..30)) {
            run(&acts);
        }
    }
}
