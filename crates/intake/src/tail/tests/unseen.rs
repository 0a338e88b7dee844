//! Files that were rotated away before they were seen under the name that is followed.

use super::*;
use std::time::SystemTime;

fn set_age(bench: &Bench, name: &str, age: Duration) {
    let file = File::options().append(true).open(bench.path(name)).expect("opened");
    file.set_modified(SystemTime::now() - age).expect("set");
}

#[test]
fn the_first_file_of_a_log_is_read_though_the_next_one_stays_empty() {
    let mut bench = Bench::started();
    bench.settle();
    bench.append("elsewhere", "one\n");
    bench.rename("elsewhere", "app.log.1");
    bench.append("app.log", "");
    bench.expect(&["one"]);
    assert_eq!(bench.record("one").source, bench.path("app.log").to_string_lossy());
    bench.rename("app.log.1", "app.log.2");
    bench.append("app.log", "two\n");
    bench.expect(&["one", "two"]);
    bench.restart(|_| {});
    bench.expect(&["one", "two"]);
}

#[test]
fn a_rotated_file_that_was_there_before_the_daemon_is_left_alone() {
    let mut bench = Bench::new();
    bench.append("app.log.1", "of before\n");
    bench.start();
    bench.settle();
    bench.rename("app.log.1", "app.log.2");
    bench.append("app.log", "");
    bench.settle();
    bench.gzip("app.log.2", "app.log.3.gz");
    bench.expect(&[]);
}

/// It was written an hour after the last file that is known, and an hour before the daemon was started again.
#[test]
fn a_file_that_came_and_went_long_before_the_start_is_read() {
    const HOUR: Duration = Duration::from_secs(3600);
    let mut bench = Bench::started();
    bench.append("app.log", "one\n");
    bench.expect(&["one"]);
    bench.stop();
    let (_, sources) = bench.queue.sources();
    let before =
        |state: &Arc<SourceState>| SourceState { seen: state.seen.minus(2 * HOUR), ..SourceState::clone(state) };
    (bench.queue, bench.sink) = TestCommitter::new(sources.iter().map(before).collect());
    bench.append("app.log.9", "older than anything that is known\n");
    set_age(&bench, "app.log.9", 3 * HOUR);
    set_age(&bench, "app.log", 2 * HOUR);
    bench.rename("app.log", "app.log.2");
    bench.append("app.log.1", "two\n");
    set_age(&bench, "app.log.1", HOUR);
    bench.append("app.log", "three\n");
    bench.start();
    bench.expect(&["one", "two", "three"]);
}
