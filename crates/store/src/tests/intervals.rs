//! When a commit starts.

use super::*;

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
