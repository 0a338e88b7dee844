//! What a receiver lacks stays in the pages of its commits, and what is read of them are all rows, once.

use super::lives::seal;
use super::*;
use crate::forward::inventory;
use crate::forward::position::ForwardPosition;
use crate::forward::reader::{CopyCursor, ForwardError, ForwardReader, RequestLimits};
use crate::forward::receive::{Existing, Receiver};
use crate::forward::wire::WirePage;
use daytable_model::property::Property;

fn limits(bytes: usize, pages: usize) -> RequestLimits {
    RequestLimits { bytes, raw_bytes: bytes, pages }
}

/// The positions of the rows of pages, in order.
fn positions(pages: &[WirePage]) -> Vec<u64> {
    let place_of = |table: &DayTable, _: RowKey| Some(table.clone());
    let mut receiver = Receiver::new("web-1", &place_of, Existing::Unread);
    pages.iter().for_each(|page| receiver.add(page).expect("rows"));
    let received = receiver.finish();
    let mut found: Vec<u64> =
        received.batches.iter().flat_map(|batch| batch.rows().map(|row| row.key.position())).collect();
    found.sort_unstable();
    found
}

/// All pages after a position, some at a time, and the position at the end.
fn all_after(reader: &mut ForwardReader, mut position: ForwardPosition) -> (Vec<WirePage>, ForwardPosition) {
    let mut pages = Vec::new();
    loop {
        let taken = reader.pages_after(position, limits(1, 3)).expect("pages");
        if taken.pages.is_empty() {
            return (pages, taken.to);
        }
        assert!(taken.pages.len() <= 3);
        pages.extend(taken.pages);
        position = taken.to;
    }
}

fn expected(rows: u64) -> Vec<u64> {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, day(0), 0, rows);
    let mut reader = ForwardReader::open(&folder.path()).expect("opened");
    let found = positions(&all_after(&mut reader, ForwardPosition::default()).0);
    store.close().expect("closed");
    assert_eq!(found.len() as u64, rows);
    found
}

#[test]
fn commits_are_read_once_and_stay_until_the_receiver_has_them() {
    let folder = Folder::new();
    let store = folder.open();
    store.forwarding().set_targets(vec!["central".into()]).expect("set");
    for n in 0..60 {
        write(&store, day(0), n * 5, n * 5 + 5);
    }
    let refused = store.steps().begin_seal(&table(day(0)));
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
    // The folder is opened again: pages are left alone by the next process, too.
    store.close().expect("closed");
    let store = folder.open();
    write(&store, day(0), 300, 310);
    let mut reader = ForwardReader::open(&folder.path()).expect("opened");
    let (pages, position) = all_after(&mut reader, ForwardPosition::default());
    assert_eq!(positions(&pages), expected(310));
    let state = reader.state().expect("a state");
    assert_eq!((position.commit, position.checksum), (state.committed, state.checksum));
    assert_eq!(position.pages, 0);

    store.forwarding().note_forwarded("central", position).expect("noted");
    seal(&store, day(0));
    reader.rewind();
    let gone = reader.pages_after(ForwardPosition::default(), limits(1 << 20, 1 << 10));
    assert!(matches!(gone, Err(ForwardError::Incomplete(_))), "{gone:?}");
    // A receiver that lacks them gets the rows of the sealed day, and of late ones.
    write(&store, day(0), 310, 320);
    let (mut cursor, mut copied) = (CopyCursor::default(), Vec::new());
    while let Some(some) = reader.copy_after(0, &mut cursor, limits(1 << 12, 3)).expect("pages") {
        copied.extend(positions(&some.pages));
    }
    copied.sort_unstable();
    copied.dedup();
    assert_eq!(copied, expected(320));
    store.close().expect("closed");
}

#[test]
fn a_commit_of_several_days_is_read_in_parts() {
    let folder = Folder::new();
    let store = folder.open();
    for n in 0..20 {
        let of_day = |at: u64| batch(day(at), "web-1", &[(day(at).plus(seconds(n)), n * 10 + at, "x")]);
        assert!(commit(&store, (0..5).map(of_day).collect(), n + 1));
        // A commit that moves a position alone has no pages.
        assert!(commit(&store, Vec::new(), n + 1));
    }
    let mut reader = ForwardReader::open(&folder.path()).expect("opened");
    let mut parts = BTreeMap::new();
    let mut position = ForwardPosition::default();
    loop {
        let taken = reader.pages_after(position, limits(usize::MAX, 3)).expect("pages");
        if taken.pages.is_empty() {
            break;
        }
        *parts.entry(taken.to.pages).or_insert(0) += 1;
        position = taken.to;
        // A reader that was just opened goes on there as well.
        let again = ForwardReader::open(&folder.path()).expect("opened").pages_after(position, limits(usize::MAX, 3));
        let next = reader.pages_after(position, limits(usize::MAX, 3)).expect("pages");
        assert_eq!(again.expect("pages").to, next.to);
    }
    assert!(parts.len() > 2, "positions lie within commits: {parts:?}");
    let end = reader_rewound(&folder).1;
    let (pages, position) = all_after(&mut reader, end);
    assert_eq!((pages.len(), position.commit), (0, reader.state().expect("a state").committed));
    let (pages, _) = reader_rewound(&folder);
    let expected: Vec<u64> = (0..20).flat_map(|n| (0..5).map(move |at| n * 10 + at)).collect();
    assert_eq!(positions(&pages), expected);
    store.close().expect("closed");
}

/// All pages of a folder, by a reader of their own.
fn reader_rewound(folder: &Folder) -> (Vec<WirePage>, ForwardPosition) {
    let mut reader = ForwardReader::open(&folder.path()).expect("opened");
    all_after(&mut reader, ForwardPosition::default())
}

#[test]
fn another_folder_with_equal_rows_has_other_commits() {
    let states = [(); 2].map(|()| {
        let folder = Folder::new();
        let store = folder.open();
        write(&store, day(0), 0, 5);
        store.close().expect("closed");
        ForwardReader::open(&folder.path()).expect("opened").state().expect("a state")
    });
    assert_ne!(states[0].origin, states[1].origin);
    assert_ne!(states[0].checksum, states[1].checksum, "the times of arrival differ");
}

#[test]
fn a_reader_has_the_page_cache_that_it_is_told() {
    let folder = Folder::new();
    let store = folder.open();
    write(&store, day(0), 0, 5);
    for (reader, kib) in [
        (Reader::open(&folder.path()).expect("opened"), 2048),
        (Reader::open(&folder.path()).expect("opened").with_page_cache(64), 64),
    ] {
        let file = reader.catalog().files().expect("read").remove(0);
        let opened = reader.acquire(&file).expect("opened");
        let size: i64 =
            opened.connection.pragma_query_value(None, "cache_size", |row| row.get(0)).expect("a size of the cache");
        assert_eq!(size, -kib);
        reader.release(opened);
    }
    store.close().expect("closed");
}

/// The rows of these pages as another folder stores them, with how many of them are there already.
fn received(
    pages: &[WirePage],
    place_of: &dyn Fn(&DayTable, RowKey) -> Option<DayTable>,
    existing: Option<&Reader>,
) -> (Vec<Batch>, u64) {
    let mut receiver = Receiver::new("web-1", place_of, existing.map_or(Existing::Unread, Existing::All));
    pages.iter().for_each(|page| receiver.add(page).expect("rows"));
    let received = receiver.finish();
    (received.batches, received.known)
}

#[test]
fn rows_of_a_day_that_was_too_far_ahead_are_known_on_another_day() {
    let (host, central) = (Folder::new(), Folder::new());
    let (sender, receiver) = (host.open(), central.open());
    write(&sender, day(9), 0, 50);
    let (pages, position) = reader_rewound(&host);
    // On the first day they go to the table of that day.
    let on_first_day = |_: &DayTable, _: RowKey| Some(table(day(0)));
    let (batches, known) = received(&pages, &on_first_day, None);
    assert_eq!(known, 0);
    assert!(commit(&receiver, batches, 1));
    write(&sender, day(9), 50, 60);
    let pages = reader_rewound(&host).0;
    for days_later in [0, 3, 9] {
        // The receiver lost its position, and all pages are compared.
        let on_that_day = |_: &DayTable, _: RowKey| Some(table(day(days_later)));
        let reader = Reader::open(&central.path()).expect("opened");
        let (batches, known) = received(&pages, &on_that_day, Some(&reader));
        let added: u64 = batches.iter().map(Batch::records).sum();
        assert_eq!((added, known), (10, 50), "{days_later} days later");
    }
    let reader = Reader::open(&central.path()).expect("opened");
    let ahead = |of: u64| inventory::count_ahead(&reader, &table(day(of)), "web-1").expect("counted");
    assert_eq!(ahead(8).records, 0);
    assert_eq!(ahead(9).records, 50);
    // They are compared as those of their own day are.
    let sent = Reader::open(&host.path()).expect("opened");
    let sent = inventory::count_sent(&sent, "web-1", position.commit, &|| true).expect("counted").expect("goes on");
    assert_eq!(sent, [ahead(9)]);
    assert!(!ahead(9).lacks(&sent[0]) && ahead(8).lacks(&sent[0]));
    [sender, receiver].into_iter().for_each(|store| store.close().expect("closed"));
}

#[test]
fn records_are_counted_up_to_a_commit() {
    let folder = Folder::new();
    let store = folder.open();
    store.forwarding().set_targets(vec!["central".into()]).expect("set");
    write(&store, day(0), 0, 50);
    let (_, position) = reader_rewound(&folder);
    let count = |commit| {
        let reader = Reader::open(&folder.path()).expect("opened");
        inventory::count_sent(&reader, "web-1", commit, &|| true).expect("counted").expect("goes on")
    };
    store.forwarding().note_forwarded("central", position).expect("noted");
    let before = count(position.commit);
    assert_eq!(before[0].records, 50);
    // The day goes on, and pages of the commits before may be merged.
    for n in 50..90 {
        write(&store, day(0), n, n + 1);
        assert_eq!(count(position.commit), before);
    }
    let (_, later) = reader_rewound(&folder);
    assert_eq!(count(later.commit)[0].records, 90);
    store.close().expect("closed");
}

/// The configuration names another table for a host. Rows that come again stay in the table of before: equal ones are left out, those of
/// other content replace theirs there. A row of another host with the same key is none of them.
#[test]
fn rows_that_come_again_stay_in_the_table_of_before() {
    use crate::forward::receive::stored_tables;
    let (host, central) = (Folder::new(), Folder::new());
    let (sender, receiver) = (host.open(), central.open());
    write(&sender, day(0), 0, 50);
    let pages = reader_rewound(&host).0;
    let here = |_: &DayTable, _: RowKey| Some(table(day(0)));
    assert!(commit(&receiver, received(&pages, &here, None).0, 1));
    // The host has other content for five of them, and five more.
    let texts: Vec<String> =
        (40..55).map(|n| if n < 45 { format!("changed {n}") } else { format!("record {n}") }).collect();
    let rows: Vec<_> =
        (40..55u64).zip(&texts).map(|(n, text)| (day(0).plus(seconds(n)), n * 10, text.as_str())).collect();
    assert!(commit(&sender, vec![batch(day(0), "web-1", &rows)], 600));
    let pages = reader_rewound(&host).0;
    let other = DayTable::at(&TableName::new("Pay").expect("a name"), daytable_model::key::Period::Day, day(0));
    let elsewhere = |_: &DayTable, _: RowKey| Some(other.clone());
    let reader = Reader::open(&central.path()).expect("opened");
    let tables = stored_tables(&reader, Ticks::MIN).expect("tables");
    // By table: records of the new one, and whether some go to the old one; and whether some are known.
    for (name, looked_for, expected) in [
        ("web-1", "all", (5, true, true)),
        ("web-1", "elsewhere", (5, true, true)),
        ("web-1", "unread", (65, false, false)),
        // The rows that are there are of another host, whatever their keys are.
        ("web-2", "all", (65, false, false)),
        ("web-2", "elsewhere", (65, false, false)),
    ] {
        let has_rows = |table: &DayTable| inventory::has_received(&reader, table, name);
        let existing = match looked_for {
            "all" => Existing::All(&reader),
            "elsewhere" => Existing::Elsewhere(&reader, &tables, &has_rows),
            _ => Existing::Unread,
        };
        let mut rows = Receiver::new(name, &elsewhere, existing);
        pages.iter().for_each(|page| rows.add(page).expect("rows"));
        let rows = rows.finish();
        let in_table = |name: &str| -> u64 {
            rows.batches.iter().filter(|batch| batch.table.table().as_str() == name).map(Batch::records).sum()
        };
        assert_eq!((in_table("Pay"), in_table("Log") > 0, rows.known > 0), expected, "{name} {looked_for}");
    }
    [sender, receiver].into_iter().for_each(|store| store.close().expect("closed"));
}

/// Sources of one time have other hashes at the receiver, and so another order. Their rows are known none the less when they come again,
/// and equal keys of two hosts are two records.
#[test]
fn equal_keys_of_two_hosts_are_two_records_in_whatever_order() {
    let (host, central) = (Folder::new(), Folder::new());
    let (sender, receiver) = (host.open(), central.open());
    let mut sent = Batch::new(table(day(0)), "web-1".into());
    for n in 0..90u64 {
        let mut row = sent.begin(RowKey::new(day(0).plus(seconds(n / 30)), n % 30, n), None);
        row.add("Message", Property::String("equal"));
        row.finish();
    }
    assert!(commit(&sender, vec![sent], 1));
    let pages = reader_rewound(&host).0;
    let here = |table: &DayTable, _: RowKey| Some(table.clone());
    for (number, name, expected) in
        [(1, "web-1", (90, 0)), (2, "web-2", (90, 0)), (3, "web-1", (0, 90)), (4, "web-2", (0, 90))]
    {
        let reader = Reader::open(&central.path()).expect("opened");
        let mut rows = Receiver::new(name, &here, Existing::All(&reader));
        pages.iter().for_each(|page| rows.add(page).expect("rows"));
        let rows = rows.finish();
        assert_eq!((rows.records, rows.known), expected, "{name}");
        assert!(commit(&receiver, rows.batches, number));
    }
    let reader = Reader::open(&central.path()).expect("opened");
    for name in ["web-1", "web-2"] {
        assert_eq!(inventory::count_received(&reader, &table(day(0)), name).expect("counted").records, 90);
    }
    [sender, receiver].into_iter().for_each(|store| store.close().expect("closed"));
}
