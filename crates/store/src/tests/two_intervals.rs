//! The newest commits of a sender before its backlog: what is read of both, and where a receiver stores them.

use super::*;
use crate::catalog::hosts::{Invitation, OriginBinding};
use crate::catalog::table_bounds::TableBounds;
use crate::forward::intervals::{AdvanceKind, AdvanceStep, HeadInterval, HostAdvance, ReceivedCommits};
use crate::forward::position::{FolderOrigin, ForwardPosition};
use crate::forward::reader::{ForwardReader, RequestLimits};
use crate::forward::receive::{Existing, ReceivedRows, Receiver};
use crate::forward::repeated_keys::repeats_keys;
use crate::forward::wire::WirePage;
use crate::write::queue::CommitOutcome;
use std::sync::mpsc::channel;

pub(super) const ORIGIN: FolderOrigin = FolderOrigin([7; 16]);

fn limits(pages: usize) -> RequestLimits {
    RequestLimits { bytes: usize::MAX, raw_bytes: usize::MAX, pages }
}

fn between(reader: &mut ForwardReader, mut from: ForwardPosition, until: i64) -> (Vec<WirePage>, ForwardPosition) {
    let mut pages = Vec::new();
    loop {
        let taken = reader.pages_between(from, until, limits(3)).expect("pages");
        pages.extend(taken.pages);
        if taken.to == from || taken.is_all {
            return (pages, taken.to);
        }
        from = taken.to;
    }
}

#[test]
fn the_newest_pages_and_those_before_are_all() {
    let folder = Folder::new();
    let store = folder.open();
    store.forwarding().set_targets(vec!["central".into()]).expect("set");
    for n in 0..40 {
        write(&store, day(n % 3), n * 5, n * 5 + 5);
        // A commit that moves a position alone has no pages.
        assert!(commit(&store, Vec::new(), n * 50 + 51));
    }
    let mut reader = ForwardReader::open(&folder.path()).expect("opened");
    let begin = reader.before_newest(0, limits(7)).expect("read").expect("more than seven pages");
    let last = reader.state().expect("a state").committed;
    let (newest, end) = between(&mut ForwardReader::open(&folder.path()).expect("opened"), begin, i64::MAX);
    assert_eq!((newest.len(), end.commit), (7, last));
    assert_eq!(reader.before_newest(begin.commit, limits(7)).expect("read"), None, "they are one request");
    // The backlog ends where the newest pages begin, also if the last commits before have no pages.
    for (until, pages) in [(begin.commit, 33), (begin.commit + 1, 33)] {
        reader.rewind();
        let (backlog, to) = between(&mut reader, ForwardPosition::default(), until);
        assert_eq!((backlog.len(), to.commit), (pages, until));
        assert_eq!(Some(to.checksum), reader.checksum_of(until).expect("read"));
    }
    // What is missing are the pages between, and those after the head.
    reader.rewind();
    let lacking = |from, head| reader.behind(from, head).expect("read");
    assert_eq!((lacking(0, None).records, lacking(0, None).backlog), (200, 0));
    let head = Some(HeadInterval { begin, end });
    assert_eq!((lacking(0, head).records, lacking(0, head).backlog), (165, 165));
    let empty = Some(HeadInterval { begin, end: begin });
    assert_eq!((lacking(0, empty).records, lacking(0, empty).backlog), (200, 165));
    assert_eq!(lacking(begin.commit, head).records, 0);
    assert_eq!(lacking(0, head).oldest, lacking(0, None).oldest);
    store.close().expect("closed");
}

#[test]
fn keys_that_are_written_again_are_seen() {
    let folder = Folder::new();
    let store = folder.open();
    store.forwarding().set_targets(vec!["central".into()]).expect("set");
    write(&store, day(0), 0, 50);
    let before = ForwardReader::open(&folder.path()).expect("opened").state().expect("a state").committed;
    // Others at the same times, and of another day.
    let rows = |of: u64, from: u64, to: u64, text| {
        let rows: Vec<_> = (from..to).map(|n| (day(of).plus(seconds(n)), n * 10 + of, text)).collect();
        batch(day(of), "web-1", &rows)
    };
    assert!(commit(&store, vec![rows(1, 0, 50, "other")], 501));
    assert!(commit(&store, vec![batch(day(0), "web-2", &[(day(0).plus(seconds(7)), 71, "other")])], 502));
    let repeats = |goes_on: bool| {
        let reader = Reader::open(&folder.path()).expect("opened");
        repeats_keys(&reader, before, &|| goes_on).expect("read")
    };
    assert_eq!(repeats(true), Some(false));
    assert!(commit(&store, vec![rows(0, 49, 52, "again")], 503));
    assert_eq!(repeats(true), Some(true));
    store.close().expect("closed");
}

/// The rows of pages as a receiver stores them that compares them with its own.
fn compared(pages: &[WirePage], existing: &Folder) -> Vec<Batch> {
    let place_of = |table: &DayTable, _: RowKey| Some(table.clone());
    let reader = Reader::open(&existing.path()).expect("opened");
    let mut receiver = Receiver::new("web-1", &place_of, Existing::All(&reader));
    pages.iter().for_each(|page| receiver.add(page).expect("rows"));
    receiver.finish().batches
}

#[test]
fn the_later_row_of_a_key_counts_after_a_comparison() {
    let (host, central) = (Folder::new(), Folder::new());
    let (sender, receiver) = (host.open(), central.open());
    sender.forwarding().set_targets(vec!["central".into()]).expect("set");
    for (n, text) in [(1, "first"), (2, "second")] {
        assert!(commit(&sender, vec![batch(day(0), "web-1", &[(day(0), 10, text), (day(0), 10 + n, "other")])], n));
    }
    let (pages, _) =
        between(&mut ForwardReader::open(&host.path()).expect("opened"), ForwardPosition::default(), i64::MAX);
    assert_eq!(pages.len(), 2);
    // The newest came first, and then the backlog.
    for page in pages.iter().rev() {
        let place_of = |table: &DayTable, _: RowKey| Some(table.clone());
        let mut rows = Receiver::new("web-1", &place_of, Existing::Unread);
        rows.add(page).expect("rows");
        assert!(commit(&receiver, rows.finish().batches, 1));
    }
    let sorted = || {
        let mut messages = central.messages(day(0));
        messages.sort_unstable();
        messages
    };
    assert_eq!(sorted(), ["first", "other", "other"], "the earlier row was stored later");
    assert!(commit(&receiver, compared(&pages, &central), 2));
    assert_eq!(sorted(), ["other", "other", "second"]);
    assert_eq!(compared(&pages[1..], &central).iter().map(Batch::len).sum::<usize>(), 0, "all of it is known");
    [sender, receiver].into_iter().for_each(|store| store.close().expect("closed"));
}

/// A folder that receives of a host.
pub(super) struct Central {
    pub(super) folder: Folder,
    pub(super) store: Store,
}

impl Central {
    pub(super) fn new() -> Central {
        let folder = Folder::new();
        let store = folder.open();
        let steps = store.forwarding();
        let expires = time::now().plus(seconds(600));
        let invitation = Invitation {
            code: [1; 32],
            name: "web-1".into(),
            expires,
            is_reusable: false,
            tables: TableBounds::default(),
        };
        steps.invite(invitation).expect("invited");
        assert_eq!(steps.join([1; 32], None, [2; 32]).expect("joined").as_deref(), Ok("web-1"));
        assert_eq!(steps.bind_origin([2; 32], ORIGIN, false).expect("bound"), OriginBinding::Bound);
        Central { folder, store }
    }

    fn submit(
        &self,
        kind: AdvanceKind,
        from: ForwardPosition,
        to: ForwardPosition,
    ) -> std::sync::mpsc::Receiver<CommitOutcome> {
        let mut rows = ReceivedRows::default();
        if kind == AdvanceKind::Commits {
            let number = to.commit.unsigned_abs();
            rows.batches = vec![batch(day(0), "web-1", &[(day(0).plus(seconds(number)), number, "of a host")])];
            rows.records = 1;
        }
        self.submit_rows(kind, (from, to), rows)
    }

    pub(super) fn submit_rows(
        &self,
        kind: AdvanceKind,
        (from, to): (ForwardPosition, ForwardPosition),
        rows: ReceivedRows,
    ) -> std::sync::mpsc::Receiver<CommitOutcome> {
        let (sender, outcome) = channel();
        let queue = self.store.commit_queue();
        let step = AdvanceStep { kind, epoch: 1, from, to };
        let submission = Submission {
            batches: rows.batches,
            pages: rows.pages,
            epoch: queue.epoch(),
            receipts: vec![SourceReceipt::records("forward", "web-1", rows.records)],
            host: Some(HostAdvance { origin: ORIGIN, step, records: rows.records, expired: 0 }),
            ack: Ack::with_outcome(move |outcome| sender.send(outcome).expect("received")),
            ..Submission::default()
        };
        queue.submit(submission).expect("submitted");
        outcome
    }

    fn received(&self) -> ReceivedCommits {
        let reader = self.folder.reader();
        let host = reader.catalog().forwarding_host(&ORIGIN).expect("read").expect("a host");
        host.received
    }

    fn reopened(self) -> Central {
        self.store.close().expect("closed");
        let store = self.folder.open();
        Central { store, ..self }
    }
}

pub(super) fn at(commit: i64) -> ForwardPosition {
    ForwardPosition { commit, checksum: commit.unsigned_abs() * 11, ..ForwardPosition::default() }
}

#[test]
fn rows_are_stored_where_they_follow_on_one_of_two_intervals() {
    use AdvanceKind::{Commits, OpenHead};
    use CommitOutcome::{Committed, Misplaced};
    let mut central = Central::new();
    let none = ForwardPosition::default();
    // Many wait for one commit: each follows on what those before it have.
    let steps = [
        (Commits, none, at(3), Committed),
        (OpenHead, at(3), at(8), Committed),
        (Commits, at(8), at(9), Committed),
        (Commits, at(3), at(5), Committed),
        (Commits, at(8), at(9), Committed),
        (Commits, at(3), at(6), Misplaced),
        (OpenHead, at(5), at(9), Misplaced),
        (Commits, at(9), at(12), Committed),
    ];
    let outcomes: Vec<_> = steps.iter().map(|(kind, from, to, _)| central.submit(*kind, *from, *to)).collect();
    for ((kind, from, to, wanted), outcome) in steps.iter().zip(outcomes) {
        assert_eq!(outcome.recv().expect("told"), *wanted, "{kind:?} {from:?} {to:?}");
    }
    let head = Some(HeadInterval { begin: at(8), end: at(12) });
    for _ in 0..2 {
        assert_eq!(central.received(), ReceivedCommits { epoch: 1, position: at(5), head });
        assert_eq!(central.folder.messages(day(0)).len(), 4);
        // It leads to the head with another checksum, or into it.
        let other = ForwardPosition { checksum: 1, ..at(8) };
        for to in [other, at(9), at(12)] {
            assert_eq!(central.submit(Commits, at(5), to).recv().expect("told"), Misplaced, "{to:?}");
        }
        central = central.reopened();
    }
    assert_eq!(central.submit(Commits, at(5), at(8)).recv().expect("told"), Committed);
    let joined = ReceivedCommits { epoch: 1, position: at(12), head: None };
    assert_eq!((central.received(), central.folder.messages(day(0)).len()), (joined, 5));
    assert_eq!(central.submit(Commits, at(9), at(12)).recv().expect("told"), Committed, "a repeat");
    assert_eq!(central.submit(Commits, at(5), at(8)).recv().expect("told"), Misplaced);
    central = central.reopened();
    assert_eq!((central.received(), central.folder.messages(day(0)).len()), (joined, 5));
    central.store.close().expect("closed");
}
