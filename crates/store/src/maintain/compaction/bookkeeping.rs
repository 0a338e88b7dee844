//! What compaction knows of a day's pages, after any order of its steps: no page is in two merges, and no partition waits
//! for good.

use super::tests::{batch, day, encoded};
use super::*;
use crate::format::day_file::{Insert, PageOwner};
use crate::format::page::{BuiltSharedPage, build_shared, waiting_rows};
use crate::outbox::SentPage;
use daytable_model::batch::Batch;

/// A page of one partition.
fn own(partition: &str, key: u64, text: &str) -> Insert {
    Insert::of_one(&partition.into(), encoded(&[(key, text)]))
}

/// A shared page with a row of each of some partitions.
fn shared(partitions: &[&str], key: u64, text: &str) -> Insert {
    let batches: Vec<Batch> =
        (key..).zip(partitions).map(|(key, partition)| batch(partition, &[(key, text)])).collect();
    let BuiltSharedPage { page, partitions } = build_shared(&waiting_rows(&batches), 1).remove(0);
    Insert { owner: PageOwner::Many(partitions), page }
}

struct Fixture {
    _dir: tempfile::TempDir,
    file: DayFile,
    day: Day,
    seq: i64,
}

impl Fixture {
    fn new(thresholds: Thresholds) -> Fixture {
        let dir = tempfile::tempdir().expect("a folder");
        let file = DayFile::open(&dir.path().join("day.db"), &day()).expect("opened");
        Fixture { _dir: dir, file, day: Day { counted: true, ..Day::new(thresholds) }, seq: 0 }
    }

    /// Commits a page.
    fn write(&mut self, page: Insert) {
        self.seq += 1;
        self.day.add(self.file.insert(self.seq, &[page]).expect("written"));
    }

    fn remove(&mut self, id: i64) -> RemovedPages {
        let select = "SELECT seq, checksum FROM page WHERE id = ?1";
        let read = |row: &Row<'_>| {
            Ok(SentPage::Page { id, seq: row.get(0)?, checksum: row.get::<_, i64>(1)?.cast_unsigned() })
        };
        let sent = self.file.connection().query_row(select, [id], read).expect("a page");
        self.file.remove_sent(&[sent]).expect("removed")
    }

    /// Fails if a page is in two merges.
    fn assert_each_once(&self) {
        let splitting = self.day.splitting.iter().flat_map(|split| &split.merges);
        let mut old: Vec<i64> = self.day.prepared.iter().chain(splitting).flat_map(|merge| merge.old.clone()).collect();
        let all = old.len();
        old.sort_unstable();
        old.dedup();
        assert_eq!(old.len(), all, "a page is in two merges");
    }
}

/// A partition has two merges that wait to be written, and a page of one of them is sent. Its next turn must not merge the
/// pages of the other one again.
#[test]
fn a_sent_page_gives_up_one_merge_of_its_partition_alone() {
    let mut of = Fixture::new(Thresholds::small());
    let full = "x".repeat(FULL_BYTES as usize);
    for key in 0..13 {
        of.write(own("web-1", key, if key == 6 { &full } else { "tiny" }));
    }
    of.day.merge_next(&of.file, 99).expect("merged");
    assert_eq!(of.day.prepared.len(), 2);
    let first = of.day.prepared[0].old[0];
    let removed = of.remove(first);
    of.day.removed(&removed);
    assert_eq!(of.day.prepared.len(), 1);
    for key in 20..26 {
        of.write(own("web-1", key, "tiny"));
    }
    while !of.day.ready.is_empty() {
        of.day.merge_next(&of.file, 99).expect("merged");
        of.assert_each_once();
    }
    of.day.replace(&mut of.file).expect("replaced");
    let count = "SELECT (SELECT sum(entities) FROM page), entities - merged FROM total";
    let counted = of.file.connection().query_row(count, [], |row| Ok((row.get::<_, i64>(0)?, row.get::<_, i64>(1)?)));
    let (rows, total) = counted.expect("counted");
    assert_eq!(rows, total, "rows in the pages, and in the total");
}

/// A partition whose small pages are gone before they are looked at waits for nothing. Otherwise its day would stay open for
/// good, and its later pages would stay small.
#[test]
fn a_partition_whose_pages_are_gone_does_not_wait() {
    let mut of = Fixture::new(Thresholds::small());
    of.day.counted = false;
    for key in 0..6 {
        of.write(own("web-1", key, "tiny"));
    }
    assert_eq!(of.day.ready.len(), 1);
    for id in 1..7 {
        let removed = of.remove(id);
        of.day.removed(&removed);
    }
    of.day.count(&of.file).expect("counted");
    while !of.day.ready.is_empty() {
        of.day.merge_next(&of.file, 99).expect("looked");
    }
    assert!(!of.day.is_wanted(), "nothing is left to merge");
    for key in 10..16 {
        of.write(own("web-1", key, "tiny"));
    }
    assert_eq!(of.day.ready.len(), 1, "later pages are looked at");
}

/// After a damaged shared page, the sound ones stay in the file, and compaction does not know them. Partitions with rows in
/// them must not wait for their split.
#[test]
fn no_partition_waits_for_shared_pages_that_stay() {
    let mut of = Fixture::new(Thresholds::small());
    for key in 0..4 {
        of.write(shared(&["web-1", "web-2"], 2 * key, "tiny"));
    }
    let damage = "UPDATE body SET bytes = zeroblob(length(bytes)) WHERE id / 4096 = 2";
    of.file.connection().execute(damage, []).expect("damaged");
    let until = Instant::now() + Duration::from_secs(60);
    of.day.work(&day(), &mut of.file, 99, until, true).expect("damage is no error");
    for key in 20..32 {
        of.write(own("web-1", key, "tiny"));
    }
    for _ in 0..3 {
        of.day.work(&day(), &mut of.file, 99, until, true).expect("worked");
    }
    assert!(!of.day.is_wanted(), "the day never gets idle: {:?} is queued", of.day.queued);
}

/// A day that has nothing to do must not keep the others waiting, nor wake the committer fifty times a second. In an outbox,
/// pages settle later than the thresholds say.
#[test]
fn a_split_of_unsettled_pages_is_not_due() {
    let thresholds = Thresholds { settled_after: Duration::ZERO, shared_bytes_max: 1, ..Thresholds::small() };
    let mut compactor = Compactor::new(crate::outbox::COMPACTED_AFTER, thresholds);
    let dir = tempfile::tempdir().expect("a folder");
    let mut file = DayFile::open(&dir.path().join("day.db"), &day()).expect("opened");
    compactor.created(&day());
    for seq in 1..4 {
        compactor.written(&day(), file.insert(seq, &[shared(&["a", "b"], 2 * seq as u64, "tiny")]).expect("written"));
        compactor.committed(seq);
    }
    compactor.step(&day(), &mut file).expect("a step");
    assert!(!compactor.has_work(), "there is no page that a step could split");
}

/// Each removal from a shared page forgets which partitions shared pages have. The pages must not be read again each time.
#[test]
fn a_removal_of_rows_makes_no_split_worthwhile() {
    let thresholds = Thresholds { split_pages_min: 3, ..Thresholds::small() };
    let mut of = Fixture::new(thresholds);
    let names: Vec<String> = (0..40).map(|n| format!("web-{n}")).collect();
    for pair in names.chunks(2) {
        of.write(shared(&[&pair[0], &pair[1]], of.seq as u64 * 2, "tiny"));
    }
    assert!(!of.day.is_split_worthwhile());
    let sent = SentPage::Part { page: 1, seq: 1, partition: 1 };
    let removed = of.file.remove_sent(&[sent]).expect("removed");
    assert_eq!(removed.entities, 1);
    of.day.removed(&removed);
    assert!(!of.day.is_split_worthwhile(), "each partition has one row");
}

/// A partition had few records in one commit. Its later pages are not kept small by that for long, unless only few of the
/// partitions with rows in shared pages wait.
#[test]
fn shared_pages_are_split_when_their_partitions_wait() {
    let thresholds = Thresholds {
        settled_after: Duration::ZERO,
        split_after: Duration::ZERO,
        split_pages_min: 9,
        ..Thresholds::small()
    };
    for (others, is_split) in [(3, true), (4, false)] {
        let mut of = Fixture::new(thresholds);
        let names: Vec<String> = (1..=others).map(|n| format!("other-{n}")).collect();
        let partitions: Vec<&str> = std::iter::once("web-1").chain(names.iter().map(String::as_str)).collect();
        of.write(shared(&partitions, 0, "tiny"));
        for key in 20..32 {
            of.write(own("web-1", key, "tiny"));
        }
        let until = Instant::now() + Duration::from_secs(60);
        for _ in 0..3 {
            of.day.work(&day(), &mut of.file, 99, until, false).expect("worked");
        }
        assert_eq!(of.day.shared.is_empty(), is_split, "{others} others");
        let prepared = of.day.prepared.iter().map(|merge| merge.old.len()).sum::<usize>();
        assert_eq!(prepared > 0, is_split, "{others} others");
    }
}
