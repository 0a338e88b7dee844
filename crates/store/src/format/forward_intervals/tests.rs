//! What follows on what, and a model of a sender, a receiver, and a network between them.

use super::*;
use crate::format::forward_position::checksum_with;
use proptest::prelude::*;
use std::collections::BTreeMap;

fn at(commit: i64, checksum: u64) -> ForwardPosition {
    ForwardPosition { commit, checksum, ..ForwardPosition::default() }
}

fn step(kind: AdvanceKind, epoch: i64, from: ForwardPosition, to: ForwardPosition) -> AdvanceStep {
    AdvanceStep { kind, epoch, from, to }
}

#[test]
fn a_head_is_opened_moved_and_joined() {
    use AdvanceKind::{Commits, OpenHead};
    let begun = ReceivedCommits { epoch: 1, position: at(5, 50), head: None };
    let open = step(OpenHead, 1, at(5, 50), at(9, 90));
    let AdvanceResult::Moves(opened) = begun.after(open) else { panic!("{open:?}") };
    assert_eq!(opened.position, at(5, 50));
    assert_eq!(opened.after(open), AdvanceResult::Stored, "a repeat");
    // The backlog leads to where the empty head ends, which is not a repeat of a request for the head.
    let join = step(Commits, 1, at(5, 50), at(9, 90));
    assert_eq!(opened.after(join), AdvanceResult::Moves(ReceivedCommits { position: at(9, 90), ..begun }));

    let newer = step(Commits, 1, at(9, 90), at(12, 120));
    let AdvanceResult::Moves(moved) = opened.after(newer) else { panic!("{newer:?}") };
    assert_eq!((moved.position, moved.after(newer)), (at(5, 50), AdvanceResult::Stored));
    assert_eq!(moved.after(open), AdvanceResult::Elsewhere, "it was opened before");
    let AdvanceResult::Moves(later) = moved.after(step(Commits, 1, at(5, 50), at(7, 70))) else {
        panic!("the backlog")
    };
    assert_eq!((later.position, later.head), (at(7, 70), moved.head));
    let joined = later.after(step(Commits, 1, at(7, 70), at(9, 90)));
    assert_eq!(joined, AdvanceResult::Moves(ReceivedCommits { position: at(12, 120), ..begun }));
}

#[test]
fn what_does_not_follow_is_refused() {
    use AdvanceKind::{Adopt, Commits, Compare, OpenHead};
    let head = Some(HeadInterval { begin: at(9, 90), end: at(12, 120) });
    let both = ReceivedCommits { epoch: 3, position: at(5, 50), head };
    let within = ForwardPosition { pages: 2, ..at(9, 91) };
    for (what, refused) in [
        ("it joins with another checksum", step(Commits, 3, at(5, 50), at(9, 91))),
        ("it goes on within the head", step(Commits, 3, at(5, 50), at(10, 100))),
        ("it ends within the first commit of the head", step(Commits, 3, at(5, 50), within)),
        ("it begins within the head", step(Commits, 3, at(10, 100), at(13, 130))),
        ("it begins before the backlog", step(Commits, 3, at(4, 40), at(6, 60))),
        ("another epoch", step(Commits, 2, at(5, 50), at(6, 60))),
        ("a later epoch", step(Commits, 4, at(5, 50), at(6, 60))),
        ("a second head", step(OpenHead, 3, at(5, 50), at(14, 140))),
        ("the head of another position", step(OpenHead, 3, at(4, 40), at(12, 120))),
        ("a comparison of the head", step(Compare, 3, at(12, 120), at(12, 120).after_copy(1))),
        ("a comparison that ends in its own epoch", step(Adopt, 3, at(5, 50), at(20, 200))),
        ("a comparison that ends at the head", step(Adopt, 4, at(12, 120), at(20, 200))),
    ] {
        assert_eq!(both.after(refused), AdvanceResult::Elsewhere, "{what}");
    }
    let one = ReceivedCommits { head: None, ..both };
    let compared = ReceivedCommits { position: at(5, 50).after_copy(7), ..one };
    for (what, state, opening) in [
        ("a head where the position is", one, step(OpenHead, 3, at(5, 50), at(5, 50))),
        ("a head within a commit", one, step(OpenHead, 3, at(5, 50), within)),
        ("a head while pages are compared", compared, step(OpenHead, 3, compared.position, at(9, 90))),
    ] {
        assert_eq!(state.after(opening), AdvanceResult::Elsewhere, "{what}");
    }
}

#[test]
fn a_comparison_leaves_one_interval() {
    let head = Some(HeadInterval { begin: at(9, 90), end: at(12, 120) });
    let both = ReceivedCommits { epoch: 3, position: at(5, 50), head };
    let copy = step(AdvanceKind::Compare, 3, at(5, 50), at(5, 50).after_copy(7));
    let AdvanceResult::Moves(compared) = both.after(copy) else { panic!("{copy:?}") };
    assert_eq!((compared.position, compared.head), (copy.to, None));
    assert_eq!(compared.after(copy), AdvanceResult::Stored);
    for state in [both, compared] {
        let adopt = step(AdvanceKind::Adopt, 4, state.position, at(20, 200));
        let adopted = ReceivedCommits { epoch: 4, position: at(20, 200), head: None };
        assert_eq!(state.after(adopt), AdvanceResult::Moves(adopted));
        assert_eq!(adopted.after(adopt), AdvanceResult::Stored);
    }
}

/// A page, by its commit and its number there.
type PageName = (i64, u32);

/// Commits with the checksums of their pages, from commit 1 on. Some have none.
struct Sender(Vec<Vec<u64>>);

impl Sender {
    fn checksum(&self, commit: i64) -> u64 {
        self.0
            .iter()
            .take(usize::try_from(commit).expect("a commit"))
            .flatten()
            .fold(0, |sum, page| checksum_with(sum, *page))
    }

    fn end_of(&self, commit: i64) -> ForwardPosition {
        at(commit, self.checksum(commit))
    }

    fn last(&self) -> i64 {
        i64::try_from(self.0.len()).expect("few commits")
    }

    /// The next pages after a position, at most this many, of commits up to `until`.
    fn take(&self, from: ForwardPosition, until: i64, most: usize) -> (Vec<PageName>, ForwardPosition) {
        let (mut pages, mut to) = (Vec::new(), from);
        while to.commit < until {
            let commit = to.commit + 1;
            let all = &self.0[usize::try_from(to.commit).expect("a commit")];
            for checksum in all.iter().skip(to.pages as usize) {
                if pages.len() == most {
                    return (pages, to);
                }
                pages.push((commit, to.pages));
                to.checksum = checksum_with(to.checksum, *checksum);
                to.pages += 1;
            }
            to = at(commit, to.checksum);
        }
        (pages, to)
    }

    /// Whether an end is one of this folder.
    fn is_own(&self, end: ForwardPosition) -> bool {
        let begin = self.end_of(end.commit);
        self.take(begin, self.last().min(end.commit + 1), end.pages as usize).1.checksum == end.checksum
    }
}

#[derive(Clone, Default)]
struct Receiver {
    received: ReceivedCommits,
    rows: BTreeMap<PageName, u32>,
}

impl Receiver {
    /// Whether the request is answered as stored.
    fn receive(&mut self, (step, pages): &(AdvanceStep, Vec<PageName>)) -> bool {
        match self.received.after(*step) {
            AdvanceResult::Moves(received) => {
                self.received = received;
                for page in pages {
                    let copies = self.rows.entry(*page).or_insert(0);
                    // What is compared is left out if it is there.
                    *copies = if step.kind == AdvanceKind::Compare { 1 } else { *copies + 1 };
                }
                true
            }
            AdvanceResult::Stored => true,
            AdvanceResult::Elsewhere => false,
        }
    }

    /// Asserts that the rows are those of the intervals, each once.
    fn check(&self, sender: &Sender) {
        let ReceivedCommits { position, head, .. } = self.received;
        let ends = [Some((ForwardPosition::default(), position)), head.map(|head| (head.begin, head.end))];
        let mut wanted = BTreeMap::new();
        for (begin, end) in ends.into_iter().flatten() {
            assert!(sender.is_own(begin) && sender.is_own(end), "{begin:?} {end:?}");
            let (mut pages, _) = sender.take(begin, sender.last().min(end.commit + 1), usize::MAX);
            pages.retain(|(commit, number)| *commit <= end.commit || *number < end.pages);
            wanted.extend(pages.into_iter().map(|page| (page, 1)));
        }
        if position.copies > 0 {
            // Some of what follows was compared.
            assert!(
                self.rows.values().all(|copies| *copies == 1) && wanted.keys().all(|page| self.rows.contains_key(page))
            );
        } else {
            assert_eq!(self.rows, wanted, "{:?}", self.received);
        }
        assert!(head.is_none_or(|head| position.commit < head.begin.commit));
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// Says hello, and knows where the receiver is.
    Hello,
    Open(prop::sample::Index),
    /// Sends pages of the backlog or of the head.
    Send {
        is_head: bool,
        most: usize,
        arrives: bool,
        is_answered: bool,
    },
    /// Compares all pages, this many at once, and ends after some requests.
    Compare {
        most: usize,
        requests: usize,
    },
    /// An earlier request arrives.
    Again(prop::sample::Index),
    Backup,
    PutBack,
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        3 => Just(Event::Hello),
        2 => any::<prop::sample::Index>().prop_map(Event::Open),
        12 => (any::<bool>(), 1usize..5, prop::bool::weighted(0.8), prop::bool::weighted(0.8))
            .prop_map(|(is_head, most, arrives, is_answered)| Event::Send { is_head, most, arrives, is_answered }),
        1 => (1usize..5, 0usize..12).prop_map(|(most, requests)| Event::Compare { most, requests }),
        4 => any::<prop::sample::Index>().prop_map(Event::Again),
        1 => Just(Event::Backup),
        1 => Just(Event::PutBack),
    ]
}

/// Requests until all is there, at most.
const REQUESTS_MAX: usize = 200;

/// A request with its pages.
type Request = (AdvanceStep, Vec<PageName>);

/// What a sender knows of the receiver, and what it sent.
struct Exchange {
    sender: Sender,
    receiver: Receiver,
    known: ReceivedCommits,
    sent: Vec<Request>,
}

impl Exchange {
    fn send(&mut self, request: Request, arrives: bool, is_answered: bool) {
        let is_stored = arrives && self.receiver.receive(&request);
        self.known = match self.known.after(request.0) {
            AdvanceResult::Moves(next) if is_stored && is_answered => next,
            // It asks where the receiver is.
            _ => self.receiver.received,
        };
        self.sent.push(request);
    }

    /// The next request, if there is something to send.
    fn next(&self, is_head: bool, most: usize) -> Option<Request> {
        let known = &self.known;
        // A comparison that was begun is ended first.
        if known.position.copies > 0 {
            return None;
        }
        let (from, until) = match known.head {
            Some(head) if is_head => (head.end, self.sender.last()),
            Some(head) => (known.position, head.begin.commit),
            None => (known.position, self.sender.last()),
        };
        let (pages, to) = self.sender.take(from, until, most);
        (from != to).then_some((step(AdvanceKind::Commits, known.epoch, from, to), pages))
    }

    /// Compares from the position on. Returns whether all was compared.
    fn compare(&mut self, most: usize, requests: usize) -> bool {
        self.known = self.receiver.received;
        let last = self.sender.last();
        let (pages, end) = self.sender.take(self.sender.end_of(self.known.position.commit), last, usize::MAX);
        for (number, pages) in pages.chunks(most).enumerate() {
            if number == requests {
                return false;
            }
            let sum =
                pages.iter().fold(0, |sum, (commit, page)| sum * 31 + commit.unsigned_abs() * 7 + u64::from(*page));
            let ReceivedCommits { epoch, position, .. } = self.known;
            let copy = step(AdvanceKind::Compare, epoch, position, position.after_copy(sum));
            self.send((copy, pages.to_vec()), true, true);
        }
        let ReceivedCommits { epoch, position, .. } = self.known;
        self.send((step(AdvanceKind::Adopt, epoch + 1, position, end), Vec::new()), true, true);
        true
    }

    fn happen(&mut self, event: Event, backup: &mut Receiver) {
        match event {
            Event::Hello => self.known = self.receiver.received,
            Event::Open(at) => {
                let begin = self.sender.end_of(at.index(self.sender.0.len()) as i64 + 1);
                let open = step(AdvanceKind::OpenHead, self.known.epoch, self.known.position, begin);
                if matches!(self.known.after(open), AdvanceResult::Moves(_)) {
                    self.send((open, Vec::new()), true, true);
                }
            }
            Event::Send { is_head, most, arrives, is_answered } => {
                if let Some(request) = self.next(is_head, most) {
                    self.send(request, arrives, is_answered);
                }
            }
            Event::Compare { most, requests } => _ = self.compare(most, requests),
            Event::Again(_) if self.sent.is_empty() => {}
            Event::Again(at) => _ = self.receiver.receive(&self.sent[at.index(self.sent.len())]),
            Event::Backup => *backup = self.receiver.clone(),
            Event::PutBack => self.receiver = backup.clone(),
        }
    }
}

proptest! {
    /// Whatever is repeated, delayed, lost or put back, each row is stored once, and the intervals say which are.
    #[test]
    fn the_intervals_are_the_rows(
        commits in prop::collection::vec(prop::collection::vec(any::<u64>(), 0..4), 1..24),
        events in prop::collection::vec(event(), 1..120),
    ) {
        let (sender, receiver) = (Sender(commits), Receiver::default());
        let mut exchange = Exchange { sender, receiver, known: ReceivedCommits::default(), sent: Vec::new() };
        let mut backup = Receiver::default();
        for event in events {
            exchange.happen(event, &mut backup);
            exchange.receiver.check(&exchange.sender);
        }
        // In the end all is there, as one interval.
        if exchange.receiver.received.position.copies > 0 {
            assert!(exchange.compare(3, usize::MAX));
        }
        exchange.known = exchange.receiver.received;
        for _ in 0..REQUESTS_MAX {
            let Some(request) = exchange.next(true, 3).or_else(|| exchange.next(false, 3)) else { break };
            exchange.send(request, true, true);
            exchange.receiver.check(&exchange.sender);
        }
        let ReceivedCommits { position, head, .. } = exchange.receiver.received;
        assert_eq!((head, position), (None, exchange.sender.end_of(exchange.sender.last())));
    }
}
