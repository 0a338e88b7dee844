//! Pages of a host that become pages here without their rows: the same rows as if they came one by one, in whatever order.

use super::addresses::faults;
use super::lives::seal;
use super::two_intervals::{Central, at};
use super::*;
use crate::forward::intervals::AdvanceKind;
use crate::forward::inventory::{self, DayCount};
use crate::forward::position::ForwardPosition;
use crate::forward::reader::{ForwardReader, RequestLimits};
use crate::forward::receive::{Existing, ReceivedRows, Receiver};
use crate::forward::wire::WirePage;
use crate::write::queue::CommitOutcome;
use daytable_model::property::Property;

/// Bytes of rows from which a page of these tests is taken without them.
const WHOLE_FROM: usize = 2 << 10;

fn pages_of(folder: &Folder) -> Vec<WirePage> {
    let limits = RequestLimits { bytes: usize::MAX, raw_bytes: usize::MAX, pages: usize::MAX };
    let mut reader = ForwardReader::open(&folder.path()).expect("opened");
    reader.pages_after(ForwardPosition::default(), limits).expect("pages").pages
}

/// What a receiver makes of pages: of those of this size without their rows.
fn received(pages: &[WirePage], whole_from: usize) -> ReceivedRows {
    let place_of = |table: &DayTable, _: RowKey| Some(table.clone());
    let day_of = |table: &DayTable| Some(table.clone());
    let receiver = Receiver::new("web-1", &place_of, Existing::Unread);
    let mut receiver = receiver.with_days(&day_of).with_whole_from(whole_from);
    pages.iter().for_each(|page| receiver.add(page).expect("rows"));
    receiver.finish()
}

/// Commits rows, and waits.
fn store_rows(store: &Store, rows: ReceivedRows) {
    let (sender, outcome) = std::sync::mpsc::channel();
    let queue = store.commit_queue();
    let receipts = vec![SourceReceipt::records("forward", "web-1", rows.records)];
    let ack = Ack::awaited(move |is_stored| sender.send(is_stored).expect("received"));
    let (batches, pages, epoch) = (rows.batches, rows.pages, queue.epoch());
    queue.submit(Submission { batches, pages, receipts, epoch, ack, ..Submission::default() }).expect("submitted");
    assert!(outcome.recv().expect("an outcome"));
}

/// The rows of a day, and what `verify --fleet` compares.
fn day_of(folder: &Folder) -> (Vec<String>, DayCount) {
    let reader = folder.reader();
    let of_row = |row: Row| {
        let mut properties: Vec<String> = row.properties().map(|(name, value)| format!("{name}: {value:?}")).collect();
        properties.sort_unstable();
        format!("{} {} {:?} {properties:?}", row.partition, row.key(), row.level())
    };
    let rows = reader.scan(&table(day(0)), &Range::all()).expect("a table").map(|row| of_row(row.expect("a row")));
    let mut rows: Vec<String> = rows.collect();
    // Equal keys of two instances are in any order.
    rows.sort_unstable();
    (rows, inventory::count_received(&reader, &table(day(0)), "web-1").expect("counted"))
}

fn assert_alike(day: &(Vec<String>, DayCount), other: &(Vec<String>, DayCount), what: &str) {
    let differs = day.0.iter().zip(&other.0).find(|(row, other)| row != other);
    assert_eq!((differs, day.0.len(), &day.1), (None, other.0.len(), &other.1), "{what}");
}

fn messages(store: &Store, folder: &Folder, rows: ReceivedRows) -> Vec<String> {
    store_rows(store, rows);
    folder.messages(day(0))
}

/// A batch of this many rows with texts that differ.
fn many(what: &str, positions: std::ops::Range<u64>) -> Batch {
    let texts: Vec<String> = positions.clone().map(|n| format!("{what} {n}")).collect();
    let row = |(n, text)| (day(0).plus(seconds(n)), n, text);
    let rows: Vec<_> = positions.zip(texts.iter().map(String::as_str)).map(row).collect();
    batch(day(0), "web-1", &rows)
}

#[test]
fn a_day_of_pages_is_the_day_of_their_rows() {
    let (host, [by_rows, whole]) = (Folder::new(), [Folder::new(), Folder::new()]);
    let sender = host.open();
    sender.forwarding().set_targets(vec!["central".into()]).expect("set");
    let mut position = 0;
    let mut put = |batches: Vec<Batch>| {
        position += 1;
        assert!(commit(&sender, batches, position));
    };
    for n in 0..6 {
        // Large commits, small ones, one that comes late, and one with records that were stored before.
        put((0..3).map(|part| many("record", n * 300 + part * 100..n * 300 + part * 100 + 100)).collect());
        put(vec![many("few", n * 300 + 290..n * 300 + 310)]);
        put(vec![batch(day(0), &format!("web-{n}"), &[(day(0), 5000 + n, "late")])]);
    }
    put(vec![many("again", 0..100), many("again", 850..900)]);
    sender.close().expect("closed");
    let pages = pages_of(&host);
    let stores = [(&by_rows, usize::MAX), (&whole, WHOLE_FROM)].map(|(folder, whole_from)| {
        let store = folder.open();
        for request in pages.chunks(5) {
            let rows = received(request, whole_from);
            assert!(whole_from == WHOLE_FROM || rows.pages.is_empty());
            store_rows(&store, rows);
        }
        store
    });
    assert!(received(&pages, WHOLE_FROM).pages.len() >= 6);
    let expected = day_of(&by_rows);
    assert_alike(&day_of(&whole), &expected, "open");
    for (folder, store) in [&by_rows, &whole].into_iter().zip(stores) {
        assert_eq!(faults(folder, day(0)), []);
        seal(&store, day(0));
        assert_alike(&day_of(folder), &expected, "sealed");
        store.close().expect("closed");
    }
}

/// Within a request, and within a commit.
#[test]
fn of_equal_keys_the_later_row_counts_whichever_way_it_came() {
    for [first, second] in [[0..1, 0..100], [0..100, 50..51], [40..60, 0..100], [0..100, 0..100]] {
        let host = Folder::new();
        let sender = host.open();
        sender.forwarding().set_targets(vec!["central".into()]).expect("set");
        assert!(commit(&sender, vec![many("first", first.clone())], 1));
        assert!(commit(&sender, vec![many("second", second.clone())], 2));
        sender.close().expect("closed");
        let pages = pages_of(&host);
        assert_eq!(pages.len(), 2);
        let of = |n: u64| if second.contains(&n) { format!("second {n}") } else { format!("first {n}") };
        let expected: Vec<String> = (0..100).rev().map(of).collect();

        let (together, one_commit) = (Folder::new(), Folder::new());
        let store = together.open();
        assert_eq!(messages(&store, &together, received(&pages, 2 * WHOLE_FROM)), expected, "{first:?} {second:?}");
        store.close().expect("closed");

        let store = Store::open(&one_commit.path(), StoreOptions::small()).expect("opened");
        let queue = store.commit_queue();
        let epoch = queue.epoch();
        for page in &pages {
            let rows = received(std::slice::from_ref(page), 2 * WHOLE_FROM);
            let submission = Submission { batches: rows.batches, pages: rows.pages, epoch, ..Submission::default() };
            queue.submit(submission).expect("submitted");
        }
        assert!(commit(&store, Vec::new(), 1));
        assert_eq!(one_commit.messages(day(0)), expected, "{first:?} {second:?}");
        store.close().expect("closed");
    }
}

/// Rows one by one: those whose order changes with the hashes of their sources, and those with names that the receiver gives.
#[test]
fn some_pages_are_taken_by_their_rows() {
    let with = |name: &'static str, every: u64, sources: u64| {
        let mut rows = Batch::new(table(day(0)), "web-1".into());
        for n in 0..90u64 {
            let mut row = rows.begin(RowKey::new(day(0).plus(seconds(n / 30)), n % sources, n), None);
            row.add("Message", Property::String(&format!("number {n}")));
            if n.is_multiple_of(every) {
                row.add(name, Property::String("own"));
            }
            row.finish();
        }
        rows
    };
    for (rows, is_whole) in [
        (with("field", 2, 1), true),
        (with("host", 1, 1), true),
        (with("host", 2, 1), false),
        (with("log_host", 1, 1), false),
        (with("field", 2, 30), false),
    ] {
        let [host, central, other] = [(); 3].map(|()| Folder::new());
        let sender = host.open();
        sender.forwarding().set_targets(vec!["central".into()]).expect("set");
        assert!(commit(&sender, vec![rows], 1));
        sender.close().expect("closed");
        let pages = pages_of(&host);
        let rows = received(&pages, WHOLE_FROM);
        assert_eq!((rows.records, rows.pages.len()), (90, usize::from(is_whole)));
        let [store, other_store] = [&central, &other].map(Folder::open);
        store_rows(&store, rows);
        store_rows(&other_store, received(&pages, usize::MAX));
        assert_alike(&day_of(&central), &day_of(&other), "open");
        [store, other_store].into_iter().for_each(|store| store.close().expect("closed"));
    }
}

/// A day that was dropped since its pages were received: they are left out and counted, and the order of the others stays.
#[test]
fn pages_of_a_day_that_is_gone_are_left_out() {
    let host = Folder::new();
    let sender = host.open();
    sender.forwarding().set_targets(vec!["central".into()]).expect("set");
    let moved = |mut batch: Batch| {
        batch.table = table(day(1));
        batch
    };
    assert!(commit(&sender, vec![many("first", 40..60), moved(many("gone", 40..60))], 1));
    assert!(commit(&sender, vec![many("second", 0..100), moved(many("gone", 0..100))], 2));
    sender.close().expect("closed");
    let rows = received(&pages_of(&host), 2 * WHOLE_FROM);
    assert_eq!(rows.pages.len(), 2);

    let central = Central::new();
    central.store.steps().create_table(&table(day(1))).expect("created");
    central.store.steps().drop_table(&table(day(1))).expect("dropped");
    let outcome = central.submit_rows(AdvanceKind::Commits, (ForwardPosition::default(), at(2)), rows);
    assert_eq!(outcome.recv().expect("told"), CommitOutcome::Committed);
    let expected: Vec<String> = (0..100).rev().map(|n| format!("second {n}")).collect();
    assert_eq!(central.folder.messages(day(0)), expected);
    let known = central.folder.reader().catalog().forwarding_host(&super::two_intervals::ORIGIN);
    let known = known.expect("read").expect("a host");
    assert_eq!((known.records, known.expired), (120, 120));
    central.store.close().expect("closed");
}
