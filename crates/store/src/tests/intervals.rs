//! When a commit starts.

use super::*;
use crate::write::commit::CommitStep;
use daytable_platform::scan_scheduler::ScanScheduler;
use std::sync::mpsc::channel;

#[test]
fn many_waiting_records_are_committed_before_the_interval_is_over() {
    let folder = Folder::new();
    let options = StoreOptions { commit_interval: Duration::from_secs(3600), ..StoreOptions::small() };
    let store = Store::open(&folder.path(), options).expect("opened");
    // The first commit follows a pause, so it does not wait.
    write(&store, day(1), 0, 1);
    let (done, committed) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            write(&store, day(1), 1, 5001);
            done.send(()).expect("received");
        });
        let outcome = committed.recv_timeout(Duration::from_secs(60));
        store.commit_queue().close();
        outcome.expect("5,000 records wait for the interval");
    });
}

#[test]
fn a_slot_of_readers_is_kept_free_during_commits_and_while_many_records_come() {
    let folder = Folder::new();
    let reserve = ScanScheduler::new(2).reserve();
    let (noted, during_commits) = channel();
    let in_commit = reserve.clone();
    let options = StoreOptions {
        reserve: Some(reserve.clone()),
        on_commit: Box::new(move |_| noted.send(in_commit.reserved()).expect("received")),
        ..StoreOptions::small()
    };
    let store = Store::open(&folder.path(), options).expect("opened");
    let intake = store.commit_queue();
    let after_commit_of = |records: u64| {
        let (go_on, may_go_on) = channel::<()>();
        let (sender, receiver) = channel();
        // The committer has all of it at once, so it cannot find an empty queue in between.
        let wait = move || may_go_on.recv().expect("the test goes on");
        intake.step(CommitStep::Call(Box::new(wait))).expect("queued");
        let rows: Vec<_> = (0..records).map(|n| (day(0).plus(seconds(n)), n, "text")).collect();
        let batches = rows.chunks(100).map(|rows| batch(day(0), "web-1", rows)).collect();
        let submission = Submission { batches, epoch: intake.epoch(), ..Submission::default() };
        intake.submit(submission).expect("submitted");
        let reserve = reserve.clone();
        let note = move || sender.send(reserve.reserved()).expect("received");
        intake.step(CommitStep::Call(Box::new(note))).expect("queued");
        go_on.send(()).expect("the committer waits");
        receiver.recv().expect("a step")
    };
    assert_eq!(after_commit_of(10), 0);
    assert_eq!(after_commit_of(5000), 1);
    assert_eq!(after_commit_of(10), 0);
    assert_eq!(after_commit_of(5000), 1);
    let end = std::time::Instant::now() + seconds(60);
    while reserve.reserved() > 0 && std::time::Instant::now() < end {
        std::thread::yield_now();
    }
    assert_eq!(reserve.reserved(), 0, "nothing comes any more");
    store.close().expect("closed");
    assert_eq!(during_commits.iter().collect::<Vec<_>>(), [1, 1, 1, 1]);
}
