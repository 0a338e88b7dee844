//! The journal of an open day is moved into its file and begins again, whoever reads.

use super::*;
use crate::format::day_file::{DayFile, PageMerge};
use crate::{EveryPart, Part, PartFilter, PartVisitor, SnapshotTimes, release_snapshots};
use std::ops::ControlFlow;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Snapshots that end as soon as they can.
const SHORT: SnapshotTimes = SnapshotTimes { usual: Duration::ZERO, of_long_journal: Duration::ZERO };

/// A store that neither merges nor closes the file of a day, so that a test can write to it.
fn open_idle(folder: &Folder) -> Store {
    let options = StoreOptions { idle_day: seconds(600), ..StoreOptions::default() };
    Store::open(&folder.path(), options).expect("opened")
}

/// One row whose page is not shared with other partitions.
fn put(store: &Store, n: u64) {
    let text = format!("{n} {}", "x".repeat(5000));
    assert!(commit(store, vec![batch(day(0), "web-1", &[(day(0).plus(seconds(n)), n, &text)])], n));
}

/// Frames of the journal that cannot be moved into the file, because somebody reads what was before them.
fn frames_left(folder: &Folder) -> i64 {
    let file = rusqlite::Connection::open(folder.file(day(0))).expect("opened");
    crate::sqlite::checkpoint(&file, false).expect("moved what can be")
}

/// Merges the pages of two rows.
fn merge(folder: &Folder, pages: [u64; 2], next: i64) {
    let rows = pages.map(|n| (day(0).plus(seconds(n)), n, format!("{n} {}", "x".repeat(5000))));
    let rows: Vec<_> = rows.iter().map(|(time, n, text)| (*time, *n, text.as_str())).collect();
    let mut builder = page::PageBuilder::new();
    let merged = batch(day(0), "web-1", &rows);
    builder.push_batch(&merged);
    let mut file = DayFile::open(&folder.file(day(0)), &table(day(0))).expect("opened");
    let (home, new) = (file.address_of("web-1"), builder.build().pages);
    let old = pages.map(u64::cast_signed).to_vec();
    let merge = PageMerge { partition: 1, home, old, new, seq: next, duplicates: 0, shared_entities: 0 };
    file.replace(&[merge], &[]).expect("merged");
}

/// Collects positions, and does something at the end of each visit.
struct Meanwhile<'f> {
    seen: &'f Mutex<Vec<u64>>,
    then: &'f (dyn Fn(u64) + Sync),
}

impl PartVisitor for Meanwhile<'_> {
    type State = ();

    fn start(&self) {}

    fn filter(&self) -> &dyn PartFilter {
        &EveryPart
    }

    fn read(&self, (): &mut (), part: &mut Part<'_>) -> Result<ControlFlow<()>, StoreError> {
        let Some(batch) = part.batch()? else { return Ok(ControlFlow::Continue(())) };
        for row in batch.rows(batch.records())? {
            let position = row.key().position();
            self.seen.lock().expect("no panic").push(position);
            (self.then)(position);
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Page n has row n. A walk goes from the newest row to the oldest, and meanwhile each page that it still has to read is
/// merged with one that it has read already, and rows come. The walk passes each row once, in one or two threads, and none
/// that came later. What was written before a task can be moved out of the journal, unless the task reads a page that was
/// merged.
#[test]
fn a_walk_renews_its_snapshot_and_passes_each_row_once_while_its_pages_are_merged() {
    const ROWS: u64 = 40;
    for threads in [1, 2] {
        let folder = Folder::new();
        let store = open_idle(&folder);
        (1..=ROWS).for_each(|n| put(&store, n));
        let reader = folder.reader().with_snapshot_times(SHORT);
        let (seen, left) = (Mutex::default(), Mutex::new(Vec::new()));
        // A second writer of the file would wait for the first one.
        let writing = Mutex::new(());
        let then = |n: u64| {
            if threads == 1 && n > ROWS / 2 {
                left.lock().expect("no panic").push(frames_left(&folder));
            }
            // The walk has read the newer half, so this page was read and its partner was not.
            if n > ROWS / 2 && n.is_multiple_of(2) {
                let _alone = writing.lock().expect("no panic");
                merge(&folder, [n, ROWS + 1 - n], ROWS.cast_signed());
                put(&store, ROWS + n);
            }
        };
        let visitor = Meanwhile { seen: &seen, then: &then };
        reader.walk(&table(day(0)), &Range::all(), threads, &|| true, &visitor).expect("a walk").expect("by columns");
        let mut seen = seen.into_inner().expect("no panic");
        seen.sort_unstable();
        assert_eq!(seen, (1..=ROWS).collect::<Vec<_>>());
        let left = left.into_inner().expect("no panic");
        assert!(left.iter().all(|frames| *frames == 0), "{left:?}");
        assert_eq!(folder.messages(day(0)).len(), (ROWS + ROWS / 4) as usize);
    }
}

/// A scan whose caller waits, for a client that does not read for one, is told to end its snapshot. Then the whole journal
/// can be moved, and the scan goes on where it was.
#[test]
fn a_scan_whose_caller_waits_holds_no_part_of_the_journal() {
    let folder = Folder::new();
    let store = open_idle(&folder);
    (0..20).for_each(|n| put(&store, n));
    let reader = folder.reader();
    let scan = || reader.scan(&table(day(0)), &Range::all()).expect("a table");
    let (mut first, mut second) = (scan(), scan());
    let position = |row: Option<Result<Row, StoreError>>| row.expect("a row").expect("no error").key().position();
    for n in (0..20).rev() {
        assert_eq!((position(first.next()), position(second.next())), (n, n));
        put(&store, 100 + n);
        assert!(frames_left(&folder) > 0, "the scans read what was before");
        release_snapshots();
        assert_eq!(frames_left(&folder), 0);
    }
    assert!(first.next().is_none() && second.next().is_none());
}

/// One scan of a thread is read, and the others wait for their turn: these end their snapshots, too.
#[test]
fn a_scan_that_waits_for_another_of_its_thread_holds_no_part_of_the_journal() {
    let folder = Folder::new();
    let store = open_idle(&folder);
    (0..20).for_each(|n| put(&store, n));
    let reader = folder.reader().with_snapshot_times(SHORT);
    let scan = || reader.scan(&table(day(0)), &Range::all()).expect("a table");
    let mut waiting = scan();
    assert!(waiting.next().is_some_and(|row| row.is_ok()));
    put(&store, 30);
    let mut read = scan();
    assert_eq!(read.by_ref().take(15).filter(Result::is_ok).count(), 15);
    put(&store, 31);
    read.next();
    assert_eq!(frames_left(&folder), 0);
    let rest: Vec<u64> = waiting.map(|row| row.expect("a row").key().position()).collect();
    assert_eq!(rest, (0..19).rev().collect::<Vec<_>>());
}

/// As with dashboards that refresh: there is never a moment in which nobody reads. The journal would get as long as all that is written.
#[test]
fn while_readers_overlap_the_journal_stays_short_and_is_empty_afterwards() {
    const READERS: usize = 2;
    const WRITTEN: u64 = 96 << 20;
    let folder = Folder::new();
    let store = Store::open(&folder.path(), StoreOptions::default()).expect("opened");
    let journal = || crate::sqlite::journal_bytes(&folder.file(day(0)));
    // Text that does not become smaller.
    let mut state = 1u64;
    let mut noise = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        char::from(b' ' + (state >> 32) as u8 % 95)
    };
    let texts: Vec<String> = (0..8).map(|_| (0..128 << 10).map(|_| noise()).collect()).collect();
    let write_mebibyte = |n: u64| {
        let number = |i: usize| 8 * n + i as u64;
        let rows: Vec<_> = (0..8).map(|i| (day(0).plus(seconds(number(i))), number(i), texts[i].as_str())).collect();
        assert!(commit(&store, vec![batch(day(0), "web-1", &rows)], n));
    };
    write_mebibyte(0);
    let (is_over, scans, mut longest) = (AtomicBool::new(false), AtomicU64::new(0), 0);
    std::thread::scope(|scope| {
        for _ in 0..READERS {
            scope.spawn(|| {
                let reader = folder.reader();
                while !is_over.load(Ordering::Relaxed) {
                    let scan = reader.scan(&table(day(0)), &Range::all()).expect("a table");
                    scan.take(64).for_each(|row| drop(row.expect("a row")));
                    scans.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        for n in 1..WRITTEN >> 20 {
            write_mebibyte(n);
            longest = longest.max(journal());
        }
        is_over.store(true, Ordering::Relaxed);
    });
    assert!(longest < WRITTEN / 2, "{longest} bytes of {WRITTEN}, {} scans", scans.into_inner());
    let end = std::time::Instant::now() + seconds(60);
    while journal() > crate::sqlite::JOURNAL_BYTES_KEPT.cast_unsigned() {
        assert!(std::time::Instant::now() < end, "the journal keeps {} bytes", journal());
        std::thread::sleep(Duration::from_millis(20));
    }
}
