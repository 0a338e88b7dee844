//! The outbox against a map: with commits, torn commits, compaction, sending, removals and reopenings in any order,
//! every row is in the outbox or was sent, and in the end all were sent.

use super::model::{
    ModelRows, batches, beginning, burst, commits_of, compact, compaction_of_bursts, day, rows, text_of,
};
use super::*;
use crate::format::catalog::LiveFile;
use crate::maintain::compaction::StepPart;
use crate::outbox::{OutboxLevel, OutboxOptions, OutboxReader, OutboxRemoval, SentPage, WaitingPage};
use crate::read::{Range, Reader};
use daytable_model::key::{RowKey, TableName};
use daytable_model::property::Property;
use proptest::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

#[derive(Clone, Debug)]
enum Act {
    Commit(ModelRows),
    /// Small commits of one partition with ascending keys.
    Burst(usize, u64, Vec<usize>),
    /// A commit that a kill stops before its commit point.
    Torn(ModelRows),
    Compactor(StepPart, i64),
    Open {
        is_killed: bool,
    },
    /// The sender reads new pages.
    Look,
    /// The sender sends this many of its known pages.
    Send(usize),
    /// The sender requests the removal of this many sent pages.
    Remove(usize),
    /// The sender is killed and starts without memory.
    Forget,
}

fn act() -> impl Strategy<Value = Act> {
    let part = prop_oneof![Just(StepPart::Read), Just(StepPart::Split), Just(StepPart::Merge), Just(StepPart::Replace)];
    prop_oneof![
        8 => rows().prop_map(Act::Commit),
        1 => rows().prop_map(Act::Torn),
        6 => (part, prop_oneof![3 => Just(0_i64), 1 => 1_i64..5]).prop_map(|(part, newest)| Act::Compactor(part, newest)),
        2 => any::<bool>().prop_map(|is_killed| Act::Open { is_killed }),
        4 => Just(Act::Look),
        6 => (1_usize..8).prop_map(Act::Send),
        6 => (1_usize..8).prop_map(Act::Remove),
        1 => Just(Act::Forget),
    ]
}

fn act_of_bursts() -> impl Strategy<Value = Act> {
    prop_oneof![
        6 => burst().prop_map(|(partition, from, lengths)| Act::Burst(partition, from, lengths)),
        3 => rows().prop_map(Act::Commit),
        1 => rows().prop_map(Act::Torn),
        12 => compaction_of_bursts().prop_map(|(part, newest)| Act::Compactor(part, newest)),
        1 => any::<bool>().prop_map(|is_killed| Act::Open { is_killed }),
        4 => Just(Act::Look),
        6 => (1_usize..8).prop_map(Act::Send),
        6 => (1_usize..4).prop_map(Act::Remove),
        1 => Just(Act::Forget),
    ]
}

fn open(path: &Path, level: &Arc<OutboxLevel>) -> Committer {
    let outbox = OutboxOptions {
        stays: TableName::new("DeadLetter").expect("a name"),
        bytes_max: u64::MAX,
        age_max: None,
        drops_oldest: false,
        level: level.clone(),
        on_commit: Box::new(|| {}),
    };
    let options = StoreOptions { forwarding: Forwarding::To(outbox), ..StoreOptions::small() };
    Committer::open(FolderLayout { data: path.into() }, options).expect("opened")
}

/// Versions of each row, by key and partition.
type Versions = BTreeMap<(RowKey, String), BTreeSet<String>>;

/// A sender without a service.
struct Sender {
    unsent: OutboxReader,
    seen: HashMap<String, crate::outbox::OutboxPosition>,
    held: Vec<(LiveFile, WaitingPage)>,
    sent: Vec<(LiveFile, SentPage)>,
    there: Versions,
}

impl Sender {
    fn new(path: &Path, there: Versions) -> Sender {
        let unsent = OutboxReader::open(path).expect("opened");
        Sender { unsent, seen: HashMap::new(), held: Vec::new(), sent: Vec::new(), there }
    }

    pub(crate) fn look(&mut self) {
        for file in self.unsent.files().expect("read") {
            let seen = self.seen.entry(file.name.clone()).or_default();
            let news = self.unsent.new_pages(&file, seen).expect("read");
            let of_file = |known: &LiveFile| known.name == file.name;
            let mut known: HashSet<SentPage> =
                self.held.iter().filter(|(known, _)| of_file(known)).map(|(_, head)| head.sent()).collect();
            known.extend(self.sent.iter().filter(|(known, _)| of_file(known)).map(|(_, sent)| *sent));
            for head in news.pages {
                if known.insert(head.sent()) {
                    self.held.push((file.clone(), head));
                }
            }
            for partition in news.behind {
                let (heads, has_more) = self.unsent.pages_of(&file, partition, &known, 100, false).expect("read");
                assert!(!has_more);
                assert!(heads.is_sorted_by_key(WaitingPage::seq));
                self.held.extend(heads.into_iter().map(|head| (file.clone(), head)));
            }
        }
    }

    fn send(&mut self, count: usize) {
        for (file, head) in self.held.drain(..count.min(self.held.len())) {
            let Some(page) = self.unsent.read(&file, &head).expect("whole") else { continue };
            let partition = self.unsent.partition(&file, head.partition()).expect("read").expect("a name");
            for row in 0..page.len() {
                let text = page.properties(row).find_map(|(name, value)| match value {
                    Property::String(text) if name == "Message" => Some(beginning(text)),
                    _ => None,
                });
                let at = (page.key(row), partition.to_string());
                self.there.entry(at).or_default().insert(text.expect("a message"));
            }
            self.sent.push((file, head.sent()));
        }
    }

    fn remove(&mut self, committer: &mut Committer, count: usize) {
        for (file, page) in self.sent.drain(..count.min(self.sent.len())) {
            let departure = OutboxRemoval { day: file.day.clone(), file: file.name, pages: vec![page] };
            // A repeated removal changes nothing.
            committer.remove_sent(&[departure.clone(), departure]).expect("removed");
        }
    }
}

/// The rows in the outbox.
fn waiting(reader: &Reader) -> Versions {
    let range = Range::all();
    let mut found = Versions::new();
    match reader.scan(&day(), &range) {
        Err(StoreError::TableGone(_)) => {}
        rows => {
            for row in rows.expect("a table") {
                let row = row.expect("a row");
                found.entry((row.key(), row.partition.to_string())).or_default().insert(beginning(&text_of(&row)));
            }
        }
    }
    found
}

fn run(acts: &[Act]) {
    let dir = tempfile::tempdir().expect("a folder");
    let level = Arc::new(OutboxLevel::default());
    let mut committer = open(dir.path(), &level);
    let reader = Reader::open(dir.path()).expect("opened");
    let mut followed = reader.follow_from_now().expect("begun");
    let mut sender = Sender::new(dir.path(), Versions::new());
    let mut committed = Versions::new();
    for (number, act) in acts.iter().enumerate() {
        let mut new = 0;
        match act {
            Act::Commit(rows) => {
                let (batches, written) = batches(rows, number);
                committer.submit(batches);
                committer.commit().expect("committed");
                new = written.len();
                for ((key, partition), text) in written {
                    let partition = super::model::PARTITIONS[partition].to_owned();
                    committed.entry((key, partition)).or_default().insert(text);
                }
            }
            Act::Burst(partition, from, lengths) => {
                for (rows, nth) in commits_of((*partition, *from, lengths)).iter().zip(0..) {
                    let (batches, written) = batches(rows, number + 1000 * nth);
                    committer.submit(batches);
                    committer.commit().expect("committed");
                    new += written.len();
                    for ((key, partition), text) in written {
                        let partition = super::model::PARTITIONS[partition].to_owned();
                        committed.entry((key, partition)).or_default().insert(text);
                    }
                }
            }
            Act::Torn(rows) => {
                committer.submit(batches(rows, number).0);
                committer.commit_half();
                super::model::assert_whole(dir.path(), &reader, act);
                sender.look();
                drop(committer);
                committer = open(dir.path(), &level);
            }
            Act::Compactor(part, newest) => compact(&mut committer, *part, *newest),
            Act::Open { is_killed } => {
                if *is_killed {
                    drop(committer);
                } else {
                    committer.close().expect("closed");
                }
                committer = open(dir.path(), &level);
            }
            Act::Look => sender.look(),
            Act::Send(count) => sender.send(*count),
            Act::Remove(count) => sender.remove(&mut committer, *count),
            Act::Forget => sender = Sender::new(dir.path(), std::mem::take(&mut sender.there)),
        }
        super::model::assert_whole(dir.path(), &reader, act);
        let left = waiting(&reader);
        for (at, texts) in left.iter().chain(&sender.there) {
            assert!(texts.is_subset(&committed[at]), "{at:?} was never {texts:?}");
        }
        for at in committed.keys() {
            assert!(left.contains_key(at) || sender.there.contains_key(at), "{at:?} is lost by {act:?}");
        }
        let entities = level.entities();
        assert!(entities >= left.len() as u64, "{entities} are noted, {} are there", left.len());
        let mut seen = 0;
        reader.follow(&mut followed, &mut |_, _| seen += 1).expect("followed");
        assert_eq!(seen, new, "what a follower saw of {act:?}");
    }
    // Send and remove the rest, until nothing waits.
    for _ in 0..100 {
        sender = Sender::new(dir.path(), std::mem::take(&mut sender.there));
        sender.look();
        sender.send(usize::MAX);
        sender.remove(&mut committer, usize::MAX);
        if level.entities() == 0 {
            break;
        }
    }
    assert_eq!((level.entities(), level.bytes(), waiting(&reader)), (0, 0, Versions::new()));
    assert!(sender.there.keys().eq(committed.keys()));
    // The day is over, so opening the folder removes its outbox file.
    committer.close().expect("closed");
    let committer = open(dir.path(), &level);
    assert_eq!(committer.catalog.files().expect("read"), []);
    super::model::assert_whole(dir.path(), &reader, &"all was sent");
    committer.close().expect("closed");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, max_shrink_iters: 200, ..ProptestConfig::default() })]

    /// After any acts, each committed row is in the outbox or was sent, and no other row is. A follower sees each
    /// commit once. When all rows were removed, the outbox is empty and its file is removed.
    #[test]
    fn committed_rows_wait_or_were_sent(acts in prop::collection::vec(act(), 1..40)) {
        run(&acts);
    }

    /// The same with many small pages of one partition, and several merges of it at once.
    #[test]
    fn bursts_wait_or_were_sent(acts in prop::collection::vec(act_of_bursts(), 1..40)) {
        run(&acts);
    }
}

/// An outbox that drops its oldest rows goes on where the oldest page is damaged: neither do commits fail, nor does it grow
/// without end.
#[test]
fn a_damaged_page_does_not_stop_the_dropping_of_the_oldest() {
    let mut wrong = Vec::new();
    for damage in [
        "UPDATE shared_page SET partitions = zeroblob(length(partitions)) WHERE page = 1",
        "DELETE FROM shared_page WHERE page = 1",
        "UPDATE body SET bytes = zeroblob(length(bytes)) WHERE id / 4096 = 1",
        "UPDATE page SET levels = zeroblob(1) WHERE id = 1",
    ] {
        let dir = tempfile::tempdir().expect("a folder");
        let level = Arc::new(OutboxLevel::default());
        let mut committer = open(dir.path(), &level);
        // Both partitions have few rows, so they share a page.
        committer.submit(batches(&[(0, 1, 20), (1, 2, 20)], 0).0);
        committer.commit().expect("committed");
        let open = committer.days.get_mut(&day()).expect("a day");
        assert_eq!(open.file.connection().execute(damage, []).expect("damaged"), 1, "{damage}");
        // From now on the outbox is full.
        let Forwarding::To(outbox) = &mut committer.options.forwarding else { unreachable!("it forwards") };
        (outbox.bytes_max, outbox.drops_oldest) = (1, true);
        for number in 1..4 {
            committer.submit(batches(&[(0, 3, 20), (1, 4, 20)], number).0);
            if let Err(error) = committer.commit() {
                wrong.push(format!("commit {number} fails after {damage}: {error}"));
                break;
            }
        }
        if level.entities() > 2 {
            wrong.push(format!("{} entities wait after {damage}", level.entities()));
        }
    }
    assert_eq!(wrong, Vec::<String>::new());
}
