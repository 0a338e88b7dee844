//! The store as its users see it: committed rows can be read, whatever happens in between.

use super::*;
use crate::format::catalog::{Catalog, FileRole, Rule};
use crate::maintain::thresholds::Thresholds;
use daytable_model::batch::Batch;
use daytable_model::key::{DayTable, RowKey, TableName};
use daytable_model::record::{Level, Record};
use daytable_model::time::{self, Ticks};
use daytable_platform::budget::MemoryBudget;
use daytable_platform::memory::ProcessMemory;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

mod addresses;
mod copies;
mod entries;
mod forwarding;
mod intervals;
mod journals;
mod lives;
mod received_pages;
mod source_log;
mod two_intervals;
mod outbox;
mod prefilter;
mod unnamed;
mod walk;

const SOURCE: u64 = 0xfeed;

fn day(n: u64) -> Ticks {
    Ticks::from_date(2026, 11, 1).expect("a date").plus(Duration::from_secs(86_400 * n))
}

fn table(at: Ticks) -> DayTable {
    DayTable::at(&TableName::new("Log").expect("a name"), daytable_model::key::Period::Day, at)
}

fn seconds(n: u64) -> Duration {
    Duration::from_secs(n)
}

struct Folder {
    dir: tempfile::TempDir,
}

impl Folder {
    fn new() -> Folder {
        Folder { dir: tempfile::tempdir().expect("a folder") }
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("data")
    }

    fn open(&self) -> Store {
        Store::open(&self.path(), StoreOptions { commit_interval: Duration::from_millis(1), ..StoreOptions::small() })
            .expect("opened")
    }

    fn reader(&self) -> Reader {
        Reader::open(&self.path()).expect("opened").with_sealed_sizes(sealed::SealedSizes::SMALL)
    }

    fn messages(&self, at: Ticks) -> Vec<String> {
        self.messages_of(at, None)
    }

    fn messages_of(&self, at: Ticks, partition: Option<&str>) -> Vec<String> {
        let reader = self.reader();
        let range = Range { partitions: partition.map(|p| vec![p.into()]), ..Range::all() };
        let rows = reader.scan(&table(at), &range).expect("a table");
        rows.map(|row| message(&row.expect("a row"))).collect()
    }

    /// The only file of a day.
    fn file(&self, at: Ticks) -> PathBuf {
        let name = format!("{}.1.db", table(at));
        self.path().join("tables").join(name)
    }
}

fn message(row: &Row) -> String {
    let found = row.properties().find_map(|(name, value)| match value {
        daytable_model::property::Property::String(text) if name == "Message" => Some(text.to_owned()),
        _ => None,
    });
    found.expect("a message")
}

fn batch(at: Ticks, partition: &str, rows: &[(Ticks, u64, &str)]) -> Batch {
    let mut batch = Batch::new(table(at), partition.into());
    for (time, position, text) in rows {
        let record = Record { level: Some(Level::Info), message: (*text).into(), ..Record::default() };
        daytable_model::entity::append(&mut batch, RowKey::new(*time, SOURCE, *position), "/var/log/app.log", &record);
    }
    batch
}

/// Commits and waits for the outcome. False if the commit was refused.
fn commit(store: &Store, batches: Vec<Batch>, position: u64) -> bool {
    let (sender, receiver) = std::sync::mpsc::channel();
    let intake = store.commit_queue();
    let known = intake.sources().1.into_iter().find(|state| state.identity == SOURCE.into());
    let mut state = known.map_or_else(|| fresh(source::tests_state(SOURCE)), |state| SourceState::clone(&state));
    state.position = position;
    state.ledger.records += batches.iter().map(Batch::records).sum::<u64>();
    let submission = Submission {
        batches,
        advances: vec![state.into()],
        epoch: intake.epoch(),
        ack: Ack::new(move |committed| sender.send(committed).expect("received")),
        ..Submission::default()
    };
    intake.submit(submission).is_ok() && receiver.recv().expect("an outcome")
}

fn fresh(state: SourceState) -> SourceState {
    SourceState { ledger: Ledger::default(), ..state }
}

fn write(store: &Store, at: Ticks, from: u64, to: u64) {
    let text: Vec<String> = (from..to).map(|n| format!("record {n}")).collect();
    let rows: Vec<_> = (from..to).map(|n| (at.plus(seconds(n)), n * 10, text[(n - from) as usize].as_str())).collect();
    let batches = rows.chunks(100).map(|rows| batch(at, "web-1", rows)).collect();
    assert!(commit(store, batches, to * 10));
}

fn newest_first(from: u64, to: u64) -> Vec<String> {
    (from..to).rev().map(|n| format!("record {n}")).collect()
}

#[test]
fn committed_rows_are_read_newest_first_in_any_process() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, day(0), 0, 2500);
    write(&store, day(0), 2500, 2510);
    assert_eq!(folder.messages(day(0)), newest_first(0, 2510));
    store.close().expect("closed");
    // An idle day may have been closed while a reader had it open. Then the journal's name stays, without a byte.
    assert_eq!(sqlite::journal_bytes(&folder.file(day(0))), 0);
    assert_eq!(folder.messages(day(0)), newest_first(0, 2510));
    let store = folder.open();
    assert_eq!(store.commit_queue().sources().1[0].position, 25_100);
    write(&store, day(0), 2510, 2511);
    assert_eq!(folder.messages(day(0)), newest_first(0, 2511));
}

#[test]
fn writing_a_record_again_changes_nothing() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, day(0), 0, 100);
    write(&store, day(0), 50, 150);
    assert_eq!(folder.messages(day(0)), newest_first(0, 150));
    let mut counted = 0;
    let range = Range::all();
    folder.reader().counts(&table(day(0)), &range, &mut |count| counted += count.records).expect("counted");
    assert_eq!(counted, 150);
}

#[test]
fn of_two_rows_with_one_key_the_later_commit_wins() {
    let folder = Folder::new();
    let store = folder.open();
    assert!(commit(&store, vec![batch(day(0), "a", &[(day(0), 1, "old"), (day(0), 2, "other")])], 1));
    assert!(commit(&store, vec![batch(day(0), "a", &[(day(0), 1, "new")])], 2));
    assert_eq!(folder.messages(day(0)), ["other", "new"]);
    let row = folder.reader().row(&table(day(0)), "a", RowKey::new(day(0), SOURCE, 1)).expect("read").expect("a row");
    assert_eq!(message(&row), "new");
}

#[test]
fn partitions_are_read_apart_and_merged_by_time() {
    let folder = Folder::new();
    let store = folder.open();
    let row = |n: u64| (day(0).plus(seconds(n)), n, "x");
    let a = batch(day(0), "a", &[row(1), row(3), row(5)]);
    let b = batch(day(0), "a~01", &[row(2), row(4)]);
    let c = batch(day(0), "ab", &[row(6)]);
    assert!(commit(&store, vec![a, b, c], 1));
    let reader = folder.reader();
    let times = |partitions: Option<Vec<String>>, from: u64, to: u64| -> Vec<u64> {
        let range =
            Range { partitions, from: day(0).plus(seconds(from)), to: day(0).plus(seconds(to)), ..Range::all() };
        let rows = reader.scan(&table(day(0)), &range).expect("a table");
        rows.map(|row| row.expect("a row").key().position()).collect()
    };
    assert_eq!(times(None, 0, 99), [6, 5, 4, 3, 2, 1]);
    assert_eq!(times(None, 2, 5), [5, 4, 3, 2]);
    assert_eq!(times(Some(vec!["a".into()]), 0, 99), [5, 3, 1]);
    assert_eq!(reader.partitions_of(&table(day(0)), "a").expect("read"), ["a", "a~01"]);
    assert_eq!(times(Some(reader.partitions_of(&table(day(0)), "a").expect("read")), 0, 99), [5, 4, 3, 2, 1]);
}

/// Few partitions have an index of headers each; of many, the headers of all partitions are read.
#[test]
fn any_number_of_partitions_is_read_without_the_others() {
    let folder = Folder::new();
    let store = folder.open();
    let name = |n: u64| format!("p{:02}", n % 80);
    for commit_number in 0..4 {
        let rows = |n: u64| (0..3).map(move |k| n + (commit_number * 3 + k) * 80);
        let of = |n: u64| rows(n).map(|n| (day(0).plus(seconds(n)), n, "x")).collect::<Vec<_>>();
        let batches = (0..80).map(|n| batch(day(0), &name(n), &of(n))).collect();
        assert!(commit(&store, batches, commit_number + 1));
    }
    for every in [79, 40, 2, 1] {
        let is_wanted = |n: u64| (n % 80).is_multiple_of(every);
        let partitions = Some((0..80).filter(|n| is_wanted(*n)).map(name).collect());
        let rows = folder.reader();
        let rows = rows.scan(&table(day(0)), &Range { partitions, ..Range::all() }).expect("a table");
        let found: Vec<u64> = rows.map(|row| row.expect("a row").key().position()).collect();
        assert_eq!(found, (0..960).rev().filter(|n| is_wanted(*n)).collect::<Vec<_>>(), "every {every}");
    }
}

/// Skipped rows do not move a scan out of its range.
#[test]
fn a_text_is_searched_within_the_range_only() {
    let folder = Folder::new();
    let store = folder.open();
    let row = |n: u64, text| (day(0).plus(seconds(n)), n, text);
    let rows = [row(1, "needle"), row(2, "hay"), row(3, "hay"), row(4, "needle"), row(5, "hay")];
    // The other page is read, and has rows on both sides of the range.
    let other = batch(day(0), "b", &[row(0, "hay"), row(6, "hay")]);
    assert!(commit(&store, vec![batch(day(0), "a", &rows), other], 1));
    let at = |n| day(0).plus(seconds(n));
    let range = Range { partitions: None, from: at(2), to: at(9), contains: Some("needle".into()), ..Range::all() };
    let reader = folder.reader();
    let found = reader.scan(&table(day(0)), &range).expect("a table");
    assert_eq!(found.map(|row| row.expect("a row").key().position()).collect::<Vec<_>>(), [4]);
}

/// Pages of many partitions are merged: they are in memory together.
#[test]
fn a_scan_ends_with_an_error_where_the_process_has_no_memory_for_its_pages() {
    let folder = Folder::new();
    let store = folder.open();
    assert!(commit(&store, vec![batch(day(0), "a", &[(day(0), 1, "x")])], 1));
    let scanned = |process_bytes_max| {
        let process = ProcessMemory::within(process_bytes_max);
        let reader = folder.reader().with_memory(MemoryBudget::within(usize::MAX, usize::MAX, process));
        let rows = reader.scan(&table(day(0)), &Range::all()).expect("a table");
        rows.map(|row| row.map(|row| row.key().position())).collect::<Result<Vec<_>, _>>()
    };
    assert_eq!(scanned(u64::MAX).expect("read"), [1]);
    assert!(matches!(scanned(1), Err(StoreError::NoMemory)));
}

#[test]
fn a_dropped_day_is_gone_for_readers_and_stays_gone() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, day(0), 0, 2000);
    write(&store, day(1), 2000, 2010);
    let reader = folder.reader();
    let range = Range::all();
    let mut scan = reader.scan(&table(day(0)), &range).expect("a table");
    assert!(scan.next().is_some());
    store.steps().drop_table(&table(day(0))).expect("dropped");
    assert!(matches!(folder.reader().scan(&table(day(0)), &range).err(), Some(StoreError::TableGone(_))));
    // A running scan returns existing rows, or a clear error.
    assert!(scan.all(|row| row.is_ok() || matches!(row, Err(StoreError::TableGone(_)))));
    assert_eq!(folder.reader().tables().expect("read").len(), 1);
    // A late record goes to another day: the dropped table is not created again, and the record is not lost.
    write(&store, day(0), 0, 1);
    let today = time::now();
    assert_eq!(folder.messages(today), ["record 0"]);
    store.close().expect("closed");
    assert!(!folder.file(day(0)).exists());
    let store = folder.open();
    assert!(!store.steps().create_table(&table(day(0))).expect("looked"), "a dropped name is not created again");
}

#[test]
fn a_second_writer_is_refused_and_a_reader_is_not() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, day(0), 0, 1);
    let second = Store::open(&folder.path(), StoreOptions::small()).err();
    let Some(StoreError::Locked(_, holder)) = second else { panic!("{second:?}") };
    assert_eq!(holder, std::process::id().to_string());
    assert_eq!(folder.messages(day(0)), ["record 0"]);
    store.close().expect("closed");
    folder.open().close().expect("opened again");
}

/// Writes to a file behind the store's back, as a crash between the two steps of a commit would.
fn tear(folder: &Folder, at: Ticks, seq: i64) {
    let mut file = crate::format::day_file::DayFile::open(&folder.file(at), &table(at)).expect("opened");
    let batch = batch(at, "web-1", &[(at.plus(seconds(9999)), 99_990, "never happened")]);
    let mut builder = page::PageBuilder::new();
    builder.push_batch(&batch);
    let insert = |page| crate::format::day_file::Insert::of_one(&"web-1".into(), page);
    let pages: Vec<_> = builder.build().pages.into_iter().map(insert).collect();
    file.insert(seq, &pages).expect("inserted");
}

/// Marks every file writable, as it is after a daemon was killed.
fn killed(folder: &Folder) {
    let catalog = catalog::Catalog::open_to_write(&folder.path()).expect("opened");
    catalog.connection().execute("UPDATE file SET writable = 1", []).expect("marked");
}

#[test]
fn a_commit_that_stops_half_way_never_happened() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, day(0), 0, 10);
    write(&store, day(1), 10, 20);
    store.close().expect("closed");
    killed(&folder);
    // The commit should have written to both days, and wrote to one.
    tear(&folder, day(1), 3);
    assert_eq!(folder.messages(day(1)), newest_first(10, 20), "a reader passes it over");
    let store = folder.open();
    assert_eq!(folder.messages(day(1)), newest_first(10, 20));
    // Its number is never used again, so a reader that still sees its pages always ignores them.
    let committed = folder.reader().catalog().committed().expect("read");
    assert!(committed.seq == 3 && !committed.includes(3));
    write(&store, day(1), 20, 21);
    assert_eq!(folder.messages(day(1)), newest_first(10, 21));
    let aside: Vec<_> = std::fs::read_dir(folder.path().join("trash")).expect("a folder").flatten().collect();
    assert!(aside.iter().any(|e| e.file_name().to_string_lossy().starts_with(crate::layout::SET_ASIDE)), "{aside:?}");
}

#[test]
fn a_catalog_and_files_that_do_not_belong_together_are_refused() {
    for break_it in [
        // The file has a later commit than the catalog: an old catalog was restored.
        (|folder: &Folder| tear(folder, day(0), 7)) as fn(&Folder),
        // The file lacks commits of the catalog: its journal was lost, or it is from a backup.
        |folder: &Folder| {
            let file = crate::format::day_file::DayFile::open(&folder.file(day(0)), &table(day(0))).expect("opened");
            file.connection().execute("UPDATE total SET last_seq = 0, entities = 0", []).expect("set back");
        },
        |folder: &Folder| std::fs::remove_file(folder.file(day(0))).expect("removed"),
    ] {
        let folder = Folder::new();
        let store = folder.open();
        write(&store, day(0), 0, 10);
        store.close().expect("closed");
        killed(&folder);
        break_it(&folder);
        let before: Vec<_> =
            std::fs::read_dir(folder.path().join("tables")).expect("a folder").flatten().map(|e| e.path()).collect();
        let refused = Store::open(&folder.path(), StoreOptions::small()).err();
        let Some(error @ StoreError::Mismatch { .. }) = refused else { panic!("{refused:?}") };
        assert!(error.to_string().contains(&*folder.file(day(0)).to_string_lossy()), "{error}");
        assert!(error.to_string().contains("daytable repair"), "{error}");
        let after: Vec<_> =
            std::fs::read_dir(folder.path().join("tables")).expect("a folder").flatten().map(|e| e.path()).collect();
        assert!(before.iter().all(|path| after.contains(path)), "nothing was removed");
    }
}

#[test]
fn repair_keeps_every_row_and_reports_missing_ones() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, day(0), 0, 10);
    write(&store, day(1), 10, 20);
    write(&store, day(2), 20, 30);
    store.close().expect("closed");
    killed(&folder);
    tear(&folder, day(0), 9);
    std::fs::remove_file(folder.file(day(1))).expect("removed");
    assert!(Store::open(&folder.path(), StoreOptions::small()).is_err());
    let said = repair(&folder.path()).expect("repaired").join("\n");
    assert!(said.contains("Log20261101.1.db: 1 entities more than the catalog recorded"), "{said}");
    assert!(said.contains("Log20261102.1.db: missing, with 10 entities"), "{said}");
    let store = folder.open();
    assert_eq!(folder.messages(day(0)).len(), 11);
    assert_eq!(folder.messages(day(2)), newest_first(20, 30));
    write(&store, day(2), 30, 31);
    store.close().expect("closed");

    // Without a catalog, all rows remain.
    std::fs::remove_file(catalog::Catalog::path_in(&folder.path())).expect("removed");
    repair(&folder.path()).expect("repaired");
    folder.open().close().expect("opened");
    assert_eq!(folder.messages(day(2)), newest_first(20, 31));
}

#[test]
fn a_path_is_not_used_again() {
    let folder = Folder::new();
    let store = folder.open();
    store.close().expect("closed");
    let theirs = folder.file(day(0));
    std::fs::write(&theirs, "somebody else's").expect("written");
    let store = folder.open();
    write(&store, day(0), 0, 10);
    assert_eq!(folder.messages(day(0)), newest_first(0, 10));
    store.close().expect("closed");
    assert_eq!(std::fs::read_to_string(&theirs).expect("still there"), "somebody else's");
}

/// A new catalog would know none of the existing days, and their rows would disappear silently.
#[test]
fn days_without_a_catalog_are_refused_until_they_are_repaired() {
    for lost in [true, false] {
        let folder = Folder::new();
        let store = folder.open();
        write(&store, day(0), 0, 10);
        store.close().expect("closed");
        let catalog = catalog::Catalog::path_in(&folder.path());
        std::fs::remove_file(&catalog).expect("removed");
        if !lost {
            std::fs::write(&catalog, "").expect("written");
        }
        let refused = Store::open(&folder.path(), StoreOptions::small()).err();
        let Some(error @ StoreError::Mismatch { .. }) = refused else { panic!("{refused:?}") };
        assert!(error.to_string().contains("catalog.db") && error.to_string().contains("Log20261101.1.db"), "{error}");
        repair(&folder.path()).expect("repaired");
        folder.open().close().expect("opened");
        assert_eq!(folder.messages(day(0)), newest_first(0, 10));
    }
}

/// Without the row that says what is committed, the catalog must not acknowledge commits.
#[test]
fn a_catalog_without_its_state_is_refused() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, day(0), 0, 10);
    let connection = rusqlite::Connection::open(catalog::Catalog::path_in(&folder.path())).expect("opened");
    connection.execute("DELETE FROM state", []).expect("damaged");
    drop(connection);
    assert!(!commit(&store, vec![batch(day(0), "web-1", &[(day(0), 999, "after")])], 999), "no commit is acknowledged");
    assert!(folder.reader().scan(&table(day(0)), &everything()).is_err());
    // The store can neither be closed cleanly nor opened again.
    let _ = store.close();
    let refused = Store::open(&folder.path(), StoreOptions::small()).err();
    assert!(matches!(&refused, Some(StoreError::Foreign(path, _)) if path.ends_with("catalog.db")), "{refused:?}");
    repair(&folder.path()).expect("repaired");
    folder.open().close().expect("opened");
    // The file of the day still has the refused row: without a catalog, `repair` cannot exclude it.
    let mut kept = folder.messages(day(0));
    kept.retain(|message| message != "after");
    assert_eq!(kept, newest_first(0, 10));
}

fn everything() -> Range {
    Range::all()
}

/// Copies the files of an open store from the disk, like a backup file by file.
fn copy_of(folder: &Folder, wants: impl Fn(&str) -> bool) -> Folder {
    let copy = Folder::new();
    for below in ["", "tables"] {
        let (from, to) = (folder.path().join(below), copy.path().join(below));
        std::fs::create_dir_all(&to).expect("made");
        for entry in std::fs::read_dir(from).expect("a folder").flatten().filter(|entry| entry.path().is_file()) {
            let name = entry.file_name().to_string_lossy().into_owned();
            if wants(&name) && !name.ends_with("-shm") {
                // A store that runs removes the files of a dropped day meanwhile.
                match std::fs::copy(entry.path(), to.join(name)) {
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                    copied => drop(copied.expect("copied")),
                }
            }
        }
    }
    copy
}

/// Opens a store that closes no idle day.
fn open_lasting(folder: &Folder) -> Store {
    let options = StoreOptions {
        commit_interval: Duration::from_millis(1),
        idle_day: Duration::from_secs(3600),
        ..StoreOptions::small()
    };
    Store::open(&folder.path(), options).expect("opened")
}

/// Readers in other processes make the same checks as a daemon at its start.
#[test]
fn a_reader_says_that_a_day_lost_its_journal_or_is_another() {
    let folder = Folder::new();
    let store = open_lasting(&folder);
    write(&store, day(0), 0, 10);
    write(&store, day(1), 10, 30);
    write(&store, day(2), 30, 40);
    let all = Range::all();
    let refused = |copy: &Folder, at: Ticks| {
        let reader = copy.reader();
        let rows = reader.scan(&table(at), &all).and_then(|rows| rows.collect::<Result<Vec<_>, _>>());
        match rows {
            Err(error @ StoreError::Mismatch { .. }) => assert!(error.to_string().contains("/tables/Log202611")),
            other => panic!("{:?}", other.map(|rows| rows.len())),
        }
    };
    let whole = copy_of(&folder, |_| true);
    assert_eq!(whole.messages(day(1)), newest_first(10, 30));
    let journal = "Log20261102.1.db-wal";
    assert!(whole.path().join("tables").join(journal).exists());
    // The file itself has only its schema, and no rows yet.
    let lost = copy_of(&folder, |name| name != journal);
    let reader = lost.reader();
    let rows = reader.scan(&table(day(1)), &all).and_then(|rows| rows.collect::<Result<Vec<_>, _>>());
    assert!(rows.is_err(), "{:?}", rows.map(|rows| rows.len()));
    store.close().expect("closed");
    for (from, to) in [(day(0), day(1)), (day(2), day(1))] {
        let exchanged = copy_of(&folder, |_| true);
        std::fs::copy(exchanged.file(from), exchanged.file(to)).expect("copied");
        refused(&exchanged, to);
        assert_eq!(exchanged.messages(day(0)), newest_first(0, 10));
    }
}

#[test]
fn a_damaged_page_is_named_and_its_rows_are_not_made_up() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, day(0), 0, 10);
    store.close().expect("closed");
    let file = crate::format::day_file::DayFile::open(&folder.file(day(0)), &table(day(0))).expect("opened");
    file.connection().execute("UPDATE body SET bytes = zeroblob(length(bytes))", []).expect("damaged");
    file.close().expect("closed");
    let reader = folder.reader();
    let range = Range::all();
    let rows: Vec<_> = reader.scan(&table(day(0)), &range).expect("a table").collect();
    let [Err(error @ StoreError::Damaged { .. })] = &*rows else { panic!("{}", rows.len()) };
    assert!(error.to_string().contains("page 1 of"), "{error}");
}

#[test]
fn a_count_leaves_out_no_partition_that_lost_its_name() {
    let folder = Folder::new();
    let store = folder.open();
    let row = [(day(0), 0, "a record")];
    assert!(commit(&store, vec![batch(day(0), "web-1", &row), batch(day(0), "web-2", &row)], 1));
    store.close().expect("closed");
    let file = crate::format::day_file::DayFile::open(&folder.file(day(0)), &table(day(0))).expect("opened");
    assert!(file.has_shared_pages().expect("read"));
    file.connection().execute("DELETE FROM partition WHERE name = 'web-2'", []).expect("damaged");
    file.close().expect("closed");
    let counted = folder.reader().counts(&table(day(0)), &Range::all(), &mut |_| {});
    assert!(matches!(counted, Err(StoreError::Damaged { .. })), "{counted:?}");
}

/// Many small commits and one overwritten record, merged during a scan: the rows stay the same.
#[test]
fn compaction_merges_small_pages_and_no_reader_sees_it() {
    let folder = Folder::new();
    let store = folder.open();
    let at = day(0);
    for n in 0..200 {
        write(&store, at, n, n + 1);
    }
    assert!(commit(&store, vec![batch(at, "web-1", &[(at.plus(seconds(7)), 70, "overwritten")])], 3000));
    let want: Vec<_> =
        newest_first(0, 200).into_iter().map(|m| if m == "record 7" { "overwritten".into() } else { m }).collect();
    let reader = folder.reader();
    let range = Range::all();
    let pages = || {
        let file = crate::sqlite::open_to_read(&folder.file(at)).expect("opened");
        let count = "SELECT count(*) FROM page";
        file.query_row(count, [], |row| row.get::<_, i64>(0)).expect("counted")
    };
    assert!(pages() > 40, "nothing is left to merge");
    let mut half = reader.scan(&table(at), &range).expect("a table");
    let mut seen: Vec<_> = half.by_ref().take(100).map(|row| message(&row.expect("a row"))).collect();
    let deadline = std::time::Instant::now() + seconds(60);
    while pages() > 40 {
        assert!(std::time::Instant::now() < deadline, "{} pages are left", pages());
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!(folder.messages(at), want);
    }
    seen.extend(half.map(|row| message(&row.expect("a row"))));
    assert_eq!(seen, want);
    assert_eq!(folder.messages(at), want);
    store.close().expect("closed");
    killed(&folder);
    folder.open().close().expect("the file still agrees with the catalog");
    assert_eq!(folder.messages(at), want);
}

#[test]
fn a_follower_sees_each_row_once() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, day(0), 0, 5);
    let reader = folder.reader();
    let mut followed = reader.follow_from_now().expect("started");
    let mut look = |seen: &mut BTreeMap<String, u32>| {
        reader.follow(&mut followed, &mut |_, row| *seen.entry(message(&row)).or_default() += 1).expect("followed");
    };
    let mut seen = BTreeMap::new();
    look(&mut seen);
    assert!(seen.is_empty());
    for n in 5..60 {
        write(&store, day(n % 2), n, n + 1);
        look(&mut seen);
    }
    look(&mut seen);
    assert_eq!(seen.len(), 55);
    assert!(seen.values().all(|&times| times == 1), "{seen:?}");
}

#[test]
fn a_follower_opens_no_closed_day_until_rows_come() {
    let folder = Folder::new();
    // With the thresholds of other tests, pages are worth a merge, and their days are not closed.
    let options = || StoreOptions { commit_interval: Duration::from_millis(1), ..StoreOptions::default() };
    let store = Store::open(&folder.path(), options()).expect("opened");
    write(&store, day(0), 0, 5);
    write(&store, day(1), 5, 6);
    store.close().expect("closed");
    let reader = folder.reader();
    let commit = reader.catalog().committed().expect("read").seq;
    let mut followers =
        [reader.follow_from_now(), reader.follow_after(commit)].map(|followed| followed.expect("begun"));
    let entries = std::fs::read_dir(folder.path().join("tables")).expect("a folder");
    let names = entries.map(|entry| entry.expect("an entry").file_name().into_string().expect("text"));
    // A reader of an open day has an index of its journal.
    assert_eq!(names.filter(|name| !name.ends_with(".db")).collect::<Vec<_>>(), Vec::<String>::new());
    let store = Store::open(&folder.path(), options()).expect("opened");
    write(&store, day(0), 6, 8);
    for followed in &mut followers {
        let mut seen = Vec::new();
        reader.follow(followed, &mut |_, row| seen.push(message(&row))).expect("followed");
        seen.sort();
        assert_eq!(seen, ["record 6", "record 7"]);
    }
}

/// A merge between a follower's read of the catalog and its read of a file puts a page after rows that the follower has
/// not seen. The follower must still see them.
#[test]
fn a_follower_misses_nothing_that_is_merged_while_it_looks() {
    let folder = Folder::new();
    // The test writes to the file of a day, too: the store must not close it meanwhile.
    let options = StoreOptions { idle_day: seconds(600), ..StoreOptions::small() };
    let store = Store::open(&folder.path(), options).expect("opened");
    let long = "x".repeat(5000);
    let at = |n: u64| (day(1).plus(seconds(n)), n, long.as_str());
    let big = |n: u64| assert!(commit(&store, vec![batch(day(1), "web-1", &[at(n)])], n));
    big(1);
    big(2);
    let reader = folder.reader();
    let mut followed = reader.follow_from_now().expect("begun");
    write(&store, day(0), 0, 1);
    big(3);
    let mut seen = Vec::new();
    let meanwhile = &mut |table: &DayTable, row: Row| {
        seen.push(row.key().position());
        if *table == self::table(day(0)) {
            big(4);
            let merged = batch(day(1), "web-1", &[at(1), at(2)]);
            let mut builder = page::PageBuilder::new();
            builder.push_batch(&merged);
            let mut file =
                crate::format::day_file::DayFile::open(&folder.file(day(1)), &self::table(day(1))).expect("opened");
            let (home, new) = (file.address_of("web-1"), builder.build().pages);
            let merge = crate::format::day_file::PageMerge {
                partition: 1,
                home,
                old: vec![1, 2],
                new,
                seq: 2,
                duplicates: 0,
                shared_entities: 0,
            };
            file.replace(&[merge], &[]).expect("merged");
        }
    };
    reader.follow(&mut followed, meanwhile).expect("followed");
    assert_eq!(seen, [0, 3]);
    reader.follow(&mut followed, &mut |_, row| seen.push(row.key().position())).expect("followed");
    assert_eq!(seen, [0, 3, 4]);
}

#[test]
fn tables_show_rows_times_and_expiry() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, day(0), 10, 4000);
    let rule = Rule { name: "Log".into(), keep: seconds(86_400), ..Rule::default() };
    store.steps().set_rules(vec![rule]).expect("noted");
    let tables = folder.reader().tables().expect("read");
    let [summary] = &*tables else { panic!("{tables:?}") };
    assert_eq!(summary.rows, 3990);
    assert_eq!(summary.first_time, Some(day(0).plus(seconds(10))));
    assert_eq!(summary.last_time, Some(day(0).plus(seconds(3999))));
    assert_eq!(summary.expires, Some(day(2)));
    assert!(summary.bytes > 4096);
}

/// The number of pages of one partition, and of shared ones.
fn pages_and_shared(folder: &Folder, at: Ticks) -> (i64, i64) {
    let file = crate::sqlite::open_to_read(&folder.file(at)).expect("opened");
    let count = |which| {
        file.query_row(&format!("SELECT count(*) FROM page WHERE partition {which} 0"), [], |row| row.get(0))
            .expect("counted")
    };
    (count("<>"), count("="))
}

/// Waits until `pages_and_shared` are as wanted.
fn wait_for(folder: &Folder, at: Ticks, is_wanted: impl Fn(i64, i64) -> bool) {
    let deadline = std::time::Instant::now() + seconds(60);
    loop {
        let (pages, shared) = pages_and_shared(folder, at);
        if is_wanted(pages, shared) {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "{pages} pages and {shared} shared pages are left");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Many instances with one record per commit: one page per commit, and later one page per instance. Every way of reading
/// gives the same rows before and after.
#[test]
fn instances_with_few_rows_in_a_commit_share_a_page() {
    let folder = Folder::new();
    let store = folder.open();
    let at = day(0);
    for n in 0..40 {
        let text = format!("record {n}");
        let batches = (0..20).map(|i| batch(at, &format!("pod-{i}"), &[(at.plus(seconds(n)), n * 100 + i, &text)]));
        assert!(commit(&store, batches.collect(), n * 100));
    }
    assert_eq!(pages_and_shared(&folder, at), (0, 40));
    let check = || {
        assert_eq!(folder.messages_of(at, Some("pod-7")), newest_first(0, 40));
        assert_eq!(folder.messages(at).len(), 800);
        let reader = folder.reader();
        let key = RowKey::new(at.plus(seconds(11)), SOURCE, 1107);
        let row = reader.row(&table(at), "pod-7", key).expect("read").expect("there");
        assert_eq!(message(&row), "record 11");
        assert!(reader.row(&table(at), "pod-8", key).expect("read").is_none());
        for (partitions, from, records) in
            [(None, Ticks::MIN, 800), (Some(vec!["pod-3".into()]), Ticks::MIN, 40), (None, at.plus(seconds(30)), 200)]
        {
            let range = Range { partitions, from, to: Ticks::MAX, ..Range::all() };
            let mut counted = 0;
            reader.counts(&table(at), &range, &mut |count| counted += count.records).expect("counted");
            assert_eq!(counted, records);
        }
        assert_eq!(reader.tables().expect("read")[0].rows, 800);
    };
    check();
    killed(&folder);
    check();
    wait_for(&folder, at, |_, shared| shared == 0);
    check();
    store.close().expect("closed");
    killed(&folder);
    folder.open().close().expect("the file still agrees with the catalog");
    check();
}

/// Commits a record of each of two instances.
fn write_two(store: &Store, at: Ticks, n: u64) {
    let text = format!("record {n}");
    let of = |partition, position| batch(at, partition, &[(at.plus(seconds(n)), position, &text)]);
    assert!(commit(store, vec![of("web-1", 10 * n), of("web-2", 10 * n + 1)], 10 * n));
}

/// Shared pages found at the start are split even if nothing more is written to their day.
#[test]
fn shared_pages_of_a_day_that_is_over_are_split() {
    let folder = Folder::new();
    for is_killed in [false, true] {
        let store = folder.open();
        (0..2).for_each(|n| write_two(&store, day(0), n));
        store.close().expect("closed");
        assert!(pages_and_shared(&folder, day(0)).1 > 0, "those of the last seconds are left");
        if is_killed {
            killed(&folder);
        }
        let store = folder.open();
        wait_for(&folder, day(0), |_, shared| shared == 0);
        store.close().expect("closed");
        assert_eq!(folder.messages_of(day(0), Some("web-2")), newest_first(0, 2));
    }
}

/// Otherwise a start would open each of hundreds of days, and rewrite each record into a page that is no larger.
#[test]
fn a_day_whose_shared_pages_are_not_worth_a_split_stays_closed_until_it_is_written_to() {
    let folder = Folder::new();
    let compaction = Thresholds { split_pages_min: 3, ..Thresholds::small() };
    let open = || {
        let options = StoreOptions { commit_interval: Duration::from_millis(1), compaction, ..StoreOptions::small() };
        Store::open(&folder.path(), options).expect("opened")
    };
    let is_writable = |at: Ticks| {
        let file = Catalog::open_to_read(&folder.path()).expect("opened").file_of(&table(at), FileRole::Open);
        file.expect("read").expect("a file").writable
    };
    let store = open();
    (0..2).for_each(|n| write_two(&store, day(0), n));
    (0..4).for_each(|n| write_two(&store, day(1), n));
    let deadline = std::time::Instant::now() + seconds(60);
    while is_writable(day(0)) {
        assert!(std::time::Instant::now() < deadline, "it stays open");
        std::thread::sleep(Duration::from_millis(5));
    }
    store.close().expect("closed");
    assert_eq!((is_writable(day(0)), is_writable(day(1))), (false, true));
    let store = open();
    assert!(!is_writable(day(0)), "nothing was written to it");
    write_two(&store, day(0), 2);
    assert!(is_writable(day(0)), "a kill may leave a journal");
    store.close().expect("closed");
    assert!(is_writable(day(0)), "now it has enough of them");
    assert_eq!(folder.messages_of(day(0), Some("web-1")), newest_first(0, 3));
    assert_eq!(folder.messages_of(day(1), Some("web-1")), newest_first(0, 4));
}

/// Replaces live files of a day by a sealed file, in one transaction as the lifecycle does.
fn seal(folder: &Folder, at: Ticks, generation: i64, inputs: &[String]) {
    let tables = folder.path().join("tables");
    let name = format!("{}.{generation}.parquet", table(at));
    let reader = folder.reader();
    let sealing = sealed::SealJob {
        table: table(at),
        generation,
        inputs: inputs.iter().map(|name| tables.join(name)).collect(),
        committed: reader.catalog().committed().expect("read"),
        out: tables.join(&name),
        sizes: sealed::SealedSizes::SMALL,
        names: Default::default(),
    };
    let manifest = sealed::seal(&sealing, &mut |_| std::ops::ControlFlow::Continue(())).expect("sealed").manifest;
    let times = sealed::SealedFile::open_local(&sealing.out).expect("a file").times();
    let (oldest, newest) = times.map(|(oldest, newest)| (oldest.get(), newest.get())).unzip();
    let mut catalog = rusqlite::Connection::open(folder.path().join("catalog.db")).expect("opened");
    catalog.busy_timeout(Duration::from_secs(5)).expect("set");
    let transaction = catalog.transaction().expect("begun");
    for input in inputs {
        assert_eq!(transaction.execute("DELETE FROM file WHERE name = ?1", [input]), Ok(1));
    }
    let insert =
        "INSERT INTO file(name, day, last_seq, entities, writable, oldest, newest) VALUES (?1, ?2, 1, ?3, 0, ?4, ?5)";
    let rows = i64::try_from(manifest.rows).expect("few");
    transaction
        .execute(insert, rusqlite::params![name, table(at).to_string(), rows, oldest, newest])
        .expect("inserted");
    transaction.commit().expect("committed");
    for input in inputs {
        std::fs::remove_file(tables.join(input)).expect("removed");
    }
}

/// Adds a file of late records to a day.
fn add_late(folder: &Folder, at: Ticks, generation: i64, batches: &[Batch]) {
    let name = format!("{}.{generation}.db", table(at));
    let mut file =
        crate::format::day_file::DayFile::open(&folder.path().join("tables").join(&name), &table(at)).expect("a file");
    let mut inserts = Vec::new();
    for batch in batches {
        let mut builder = page::PageBuilder::new();
        builder.push_batch(batch);
        let partition = &batch.partition;
        let insert = |page| crate::format::day_file::Insert::of_one(partition, page);
        inserts.extend(builder.build().pages.into_iter().map(insert));
    }
    file.insert(1, &inserts).expect("written");
    file.close().expect("closed");
    let catalog = rusqlite::Connection::open(folder.path().join("catalog.db")).expect("opened");
    let times = batches.iter().flat_map(|batch| batch.rows().map(|row| row.key.time().get()).collect::<Vec<_>>());
    let (oldest, newest) = (times.clone().min(), times.clone().max());
    let rows = i64::try_from(times.count()).expect("few");
    let insert =
        "INSERT INTO file(name, day, last_seq, entities, writable, oldest, newest) VALUES (?1, ?2, 1, ?3, 1, ?4, ?5)";
    catalog.execute(insert, rusqlite::params![name, table(at).to_string(), rows, oldest, newest]).expect("inserted");
}

/// A sealed day and its late records are one table: merged, counted once, and the later row of a key wins.
#[test]
fn late_records_of_a_sealed_day_are_merged_with_it() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, day(0), 0, 1000);
    store.close().expect("closed");
    seal(&folder, day(0), 2, &[format!("{}.1.db", table(day(0)))]);
    assert_eq!(folder.messages(day(0)), newest_first(0, 1000));
    // One row is new, one replaces an existing row, and one is of another partition.
    let (at, again) = (day(0).plus(seconds(500)), day(0).plus(seconds(10)));
    let late = batch(day(0), "web-1", &[(again, 100, "written again"), (at, 7, "late")]);
    let other = batch(day(0), "web-2", &[(at, 8, "of another")]);
    add_late(&folder, day(0), 3, &[late, other]);

    let mut want = newest_first(0, 1000);
    let place = want.iter().position(|message| message == "record 10").expect("there");
    want[place] = "written again".into();
    let place = want.iter().position(|message| message == "record 500").expect("there");
    // Within one tick the latest position comes first.
    want.splice(place + 1..place + 1, ["of another".to_owned(), "late".to_owned()]);
    assert_eq!(folder.messages(day(0)), want);
    let reader = folder.reader();
    let range = Range::all();
    for by in [CountBy::Partition, CountBy::Nothing] {
        let mut counted = 0;
        reader.counts_by(&table(day(0)), &range, by, &mut |count| counted += count.records).expect("counted");
        assert_eq!(counted, 1002, "{by:?}");
    }
    let row = reader.row(&table(day(0)), "web-1", RowKey::new(again, SOURCE, 100)).expect("read").expect("a row");
    assert_eq!(message(&row), "written again");
    let stale = Range { contains: Some("record 10".into()), ..range.clone() };
    let found = reader.scan(&table(day(0)), &stale).expect("a table").map(|row| message(&row.expect("a row")));
    assert!(!found.collect::<Vec<_>>().contains(&"record 10".to_owned()), "the row that was replaced");
    assert_eq!(reader.partitions_of(&table(day(0)), "web-2").expect("read"), ["web-2"]);
    let tables = reader.tables().expect("read");
    assert_eq!((tables.len(), tables[0].rows, tables[0].state), (1, 1003, "open"));

    seal(&folder, day(0), 4, &[format!("{}.2.parquet", table(day(0))), format!("{}.3.db", table(day(0)))]);
    assert_eq!(folder.messages(day(0)), want);
    let tables = reader.tables().expect("read");
    assert_eq!((tables.len(), tables[0].rows, tables[0].state), (1, 1002, "sealed"));
}

/// Scans neither lose nor repeat rows while their day is sealed several times.
#[test]
fn a_day_that_is_sealed_under_a_scan_loses_no_row_of_it() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, day(0), 0, 1500);
    store.close().expect("closed");
    let want = newest_first(0, 1500);
    let range = Range::all();
    let is_over = std::sync::atomic::AtomicBool::new(false);
    std::thread::scope(|scope| {
        let scans: Vec<_> = (0..2)
            .map(|_| {
                scope.spawn(|| {
                    let mut scanned = 0;
                    while scanned == 0 || !is_over.load(std::sync::atomic::Ordering::Relaxed) {
                        assert_eq!(folder.messages(day(0)), want);
                        let mut counted = 0;
                        let reader = folder.reader();
                        reader.counts(&table(day(0)), &range, &mut |count| counted += count.records).expect("counted");
                        assert_eq!(counted, 1500);
                        scanned += 1;
                    }
                })
            })
            .collect();
        // The scans also end if this thread panics: the scope waits for them.
        let over = SetWhenDropped(&is_over);
        // An older scan continues in the file that replaced its file.
        let reader = folder.reader();
        let mut half = reader.scan(&table(day(0)), &range).expect("a table");
        let mut found: Vec<_> = half.by_ref().take(700).map(|row| message(&row.expect("a row"))).collect();
        half.pause();
        let mut name = format!("{}.1.db", table(day(0)));
        for generation in 2..6 {
            seal(&folder, day(0), generation, std::slice::from_ref(&name));
            name = format!("{}.{generation}.parquet", table(day(0)));
        }
        half.renew();
        found.extend(half.map(|row| message(&row.expect("a row"))));
        assert_eq!(found, want);
        drop(over);
        scans.into_iter().for_each(|scan| scan.join().expect("no row was lost or given twice"));
    });
}

/// Sets a flag at the end of its scope.
struct SetWhenDropped<'a>(&'a std::sync::atomic::AtomicBool);

impl Drop for SetWhenDropped<'_> {
    fn drop(&mut self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

#[test]
fn a_follower_fails_on_a_page_without_a_partition_name() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, day(0), 0, 10);
    let reader = folder.reader();
    let mut followed = reader.follow_from_now().expect("begun");
    write(&store, day(0), 10, 20);
    store.close().expect("closed");
    let file = crate::format::day_file::DayFile::open(&folder.file(day(0)), &table(day(0))).expect("opened");
    file.connection().execute_batch("DELETE FROM partition").expect("no names");
    file.close().expect("closed");
    let error = reader.follow(&mut followed, &mut |_, _| ()).expect_err("damaged");
    assert!(matches!(error, StoreError::Damaged { .. }), "{error}");
}
