//! Files that are compressed after their rotation, with parts that were read before.

use super::*;

/// A rotated file that was first met under its rotated name, with its successor.
fn met_as_rotated() -> Bench {
    let mut bench = Bench::new();
    bench.options.include = vec![bench.path("app.log*").to_string_lossy().into_owned()];
    bench.start();
    bench.append("app.log.1", "one\n");
    bench.expect_still(&["one"]);
    bench.append("app.log", "two\n");
    bench.expect_still(&["one", "two"]);
    bench
}

impl Bench {
    /// The same as [`Bench::expect`] where sentinels are not followed: two walks through all folders pass.
    fn expect_still(&mut self, messages: &[&str]) {
        let mut expected: Vec<_> = messages.iter().map(|message| message.to_string()).collect();
        expected.sort();
        self.until(&format!("{messages:?}"), |bench| bench.messages().len() >= expected.len());
        let until = Instant::now() + 3 * self.timings.rescan;
        self.until("time", |_| Instant::now() > until);
        assert_eq!(self.messages(), expected);
    }
}

#[test]
fn compressed_beside_its_second_name() {
    let mut bench = met_as_rotated();
    bench.rename("app.log.1", "app.log.2");
    fs::write(bench.path("app.log.2.gz"), gzipped(b"one\n")).expect("written");
    bench.expect_still(&["one", "two"]);
    bench.remove("app.log.2");
    bench.expect_still(&["one", "two"]);
    bench.rename("app.log.2.gz", "app.log.3.gz");
    bench.expect_still(&["one", "two"]);
    bench.restart(|bench| bench.rename("app.log.3.gz", "app.log.4.gz"));
    bench.expect_still(&["one", "two"]);
}

#[test]
fn compressed_under_the_next_name_while_its_file_is_held_by_the_descriptor() {
    let mut bench = met_as_rotated();
    fs::write(bench.path("new.gz"), gzipped(b"one\n")).expect("written");
    bench.remove("app.log.1");
    bench.until("it is gone", |bench| bench.source_of("one").status == SourceStatus::Rotated);
    bench.rename("new.gz", "app.log.2.gz");
    bench.expect_still(&["one", "two"]);
    bench.rename("app.log.2.gz", "app.log.3.gz");
    bench.expect_still(&["one", "two"]);
}

/// A file of before the daemon, which it leaves alone, stays left alone while it is being compressed, when the compressed
/// one is as new as can be.
#[test]
fn an_old_file_is_not_read_because_it_is_being_compressed() {
    let mut bench = Bench::new();
    bench.append("app.log.1", "of before\n");
    let old = std::time::SystemTime::now() - Duration::from_secs(600);
    File::options().append(true).open(bench.path("app.log.1")).and_then(|file| file.set_modified(old)).expect("set");
    bench.append("app.log", "one\n");
    bench.start();
    bench.expect(&["one"]);
    bench.rename("app.log.1", "app.log.2");
    bench.rename("app.log", "app.log.1");
    bench.append("app.log", "two\n");
    fs::write(bench.path("app.log.2.gz"), gzipped(b"of before\n")).expect("written");
    bench.expect(&["one", "two"]);
    File::options().append(true).open(bench.path("app.log.2.gz")).and_then(|file| file.set_modified(old)).expect("set");
    bench.remove("app.log.2");
    bench.expect(&["one", "two"]);
}
