//! Every kind of rotation, while the tail thread runs and while it does not: a table of scenarios.

use super::*;
use Step::*;

/// Steps on files, and the expected records.
#[derive(Clone)]
enum Step {
    Start,
    /// Stops the tail thread, runs these steps, and starts with the committed state.
    Restart(Vec<Step>),
    Stop,
    Append(&'static str, String),
    /// Replaces the content of a file in place.
    Write(&'static str, &'static str),
    Rename(&'static str, &'static str),
    Copy(&'static str, &'static str),
    Truncate(&'static str),
    Remove(&'static str),
    /// Compresses the first file to the second and removes the first.
    Gzip(&'static str, &'static str),
    Zstd(&'static str, &'static str),
    Link(&'static str, &'static str),
    Folder(&'static str),
    /// The file was last written to this many seconds ago.
    Age(&'static str, u64),
    /// Exactly these messages are there, however long the test waits.
    Expect(Vec<String>),
    /// A record with this message comes.
    Await(String),
    /// This many rows come.
    Rows(usize),
    Identities(usize),
    SameSource(&'static str, &'static str),
    OtherSource(&'static str, &'static str),
    /// The position of the record with this message.
    Position(&'static str, u64),
    /// The path that the record with this message names as its source.
    Path(&'static str, &'static str),
    /// The status of the source of this message, once it has it.
    Status(&'static str, SourceStatus),
    /// This many sources end.
    Ended(usize),
    /// Bytes that the source of this message lost.
    Lost(&'static str, u64),
    Event(SourceEvent, u64),
}

impl Step {
    fn take(self, bench: &mut Bench) {
        match self {
            Start => bench.start(),
            Stop => bench.stop(),
            Restart(steps) => {
                bench.stop();
                steps.into_iter().for_each(|step| step.take(bench));
                bench.restart(|_| {});
            }
            Append(name, text) => bench.append(name, text),
            Write(name, text) => fs::write(bench.path(name), text).expect("written"),
            Rename(from, to) => bench.rename(from, to),
            Copy(from, to) => drop(fs::copy(bench.path(from), bench.path(to)).expect("copied")),
            Truncate(name) => bench.truncate(name),
            Remove(name) => bench.remove(name),
            Gzip(from, to) => bench.gzip(from, to),
            Zstd(from, to) => {
                let bytes = zstd::encode_all(&fs::read(bench.path(from)).expect("read")[..], 1).expect("memory");
                fs::write(bench.path(to), bytes).expect("written");
                bench.remove(from);
            }
            Link(target, link) => {
                std::os::unix::fs::symlink(bench.path(target), bench.path(link)).expect("linked");
            }
            Folder(name) => fs::create_dir(bench.path(name)).expect("created"),
            Age(name, seconds) => {
                let then = std::time::SystemTime::now() - Duration::from_secs(seconds);
                let file = File::options().append(true).open(bench.path(name));
                file.and_then(|file| file.set_modified(then)).expect("set");
            }
            Expect(messages) => bench.expect(&messages.iter().map(String::as_str).collect::<Vec<_>>()),
            Await(message) => {
                bench.until(&message, |bench| bench.rows.iter().any(|row| row.message == message));
            }
            Rows(number) => bench.until("the rows", |bench| bench.rows.len() == number),
            Identities(number) => assert_eq!(bench.identities(), number),
            SameSource(one, two) => assert_eq!(bench.source_of(one).identity, bench.source_of(two).identity),
            OtherSource(one, two) => assert_ne!(bench.source_of(one).identity, bench.source_of(two).identity),
            Position(message, position) => assert_eq!(bench.record(message).position, position),
            Path(message, name) => assert_eq!(bench.record(message).source, bench.path(name).to_string_lossy()),
            Status(message, status) => bench.until("the status", |bench| bench.source_of(message).status == status),
            Ended(number) => bench.until("sources end", |bench| {
                let (_, sources) = bench.queue.sources();
                sources.iter().filter(|state| state.status == SourceStatus::Ended).count() == number
            }),
            Lost(message, bytes) => assert_eq!(bench.source_of(message).ledger.lost_bytes, bytes),
            Event(event, count) => assert_eq!(bench.counters[0].event(event), count),
        }
    }
}

fn append(name: &'static str, text: &str) -> Step {
    Append(name, text.into())
}

fn expect(messages: &[&str]) -> Step {
    Expect(messages.iter().map(|message| message.to_string()).collect())
}

/// The first record of most scenarios.
fn begin(text: &str) -> Vec<Step> {
    vec![Start, append("app.log", text), expect(&text.lines().collect::<Vec<_>>())]
}

struct Scenario {
    name: &'static str,
    options: fn(&mut Bench),
    steps: Vec<Step>,
}

/// Records wait longer than a test does.
fn waits_long(bench: &mut Bench) {
    bench.options.reading.join.wait = Duration::from_secs(600);
}

/// The same options as [`Bench::new`].
fn plain(_: &mut Bench) {}

fn all_names(bench: &mut Bench) {
    bench.options.include = vec![bench.path("*").to_string_lossy().into_owned()];
}

fn scenario(name: &'static str, options: fn(&mut Bench), first: Vec<Step>, steps: Vec<Step>) -> Scenario {
    Scenario { name, options, steps: [first, steps].concat() }
}

fn scenarios() -> Vec<Scenario> {
    let mut scenarios = renamed();
    scenarios.extend(copied_and_truncated());
    scenarios.extend(removed_and_unfinished());
    scenarios
}

fn renamed() -> Vec<Scenario> {
    let compressed = |name, compress: Step| {
        let all = || expect(&["one", "two", "unfinished", "new one"]);
        let down = vec![
            append("app.log", "two\nunfinished"),
            Rename("app.log", "app.log.1"),
            append("app.log", "new one\n"),
            compress,
        ];
        let after = vec![Restart(down), all(), SameSource("one", "two"), Position("two", 4), Restart(vec![]), all()];
        scenario(name, plain, begin("one\n"), after)
    };
    vec![
        scenario(
            "rename",
            plain,
            begin("one\n"),
            vec![
                append("app.log", "two\n"),
                Rename("app.log", "app.log.1"),
                append("app.log", "new one\n"),
                append("app.log.1", "three, after the rename\n"),
                expect(&["one", "two", "three, after the rename", "new one"]),
                Identities(2),
                Status("two", SourceStatus::Rotated),
                Status("new one", SourceStatus::Live),
                Path("three, after the rename", "app.log"),
                Event(SourceEvent::Rotation, 1),
            ],
        ),
        scenario(
            "rename to a name that is included",
            all_names,
            begin("one\n"),
            vec![
                Rename("app.log", "app.log.1"),
                append("app.log", "one\n"),
                append("app.log.1", "two\n"),
                expect(&["one", "one", "two"]),
                Position("two", 4),
                Restart(vec![
                    Rename("app.log.1", "app.log.2"),
                    Rename("app.log", "app.log.1"),
                    append("app.log", "three\n"),
                ]),
                expect(&["one", "one", "two", "three"]),
            ],
        ),
        scenario(
            "rename while down",
            plain,
            begin("one\n"),
            vec![
                Restart(vec![
                    append("app.log", "two\n"),
                    Rename("app.log", "app.log.1"),
                    append("app.log", "new one\n"),
                ]),
                expect(&["one", "two", "new one"]),
                SameSource("one", "two"),
            ],
        ),
        compressed("rename and gzip while down", Gzip("app.log.1", "app.log.1.gz")),
        compressed("rename and zstd while down", Zstd("app.log.1", "app.log.1.zst")),
        scenario(
            "two rotations while down",
            plain,
            begin("one\n"),
            vec![
                append("app.log", "two\n"),
                Rename("app.log", "app.log.1"),
                append("app.log", "three\n"),
                expect(&["one", "two", "three"]),
                Restart(vec![
                    append("app.log", "four\n"),
                    append("app.log.1", "two and a half\n"),
                    Gzip("app.log.1", "app.log.2.gz"),
                    Rename("app.log", "app.log.1"),
                    append("app.log", "five\n"),
                ]),
                expect(&["one", "two", "two and a half", "three", "four", "five"]),
                Identities(3),
            ],
        ),
        scenario(
            "a file that comes and goes while down",
            plain,
            vec![Start, append("app.log", "one\n")],
            vec![
                // The file is old before it has the name under which it is discovered.
                append("old.tmp", "was here before, and is not included\n"),
                Age("old.tmp", 60),
                Rename("old.tmp", "app.log.0"),
                expect(&["one"]),
                Restart(vec![
                    append("app.log", "two\n"),
                    Rename("app.log", "app.log.1"),
                    append("app.log", "three\n"),
                    Gzip("app.log.1", "app.log.2.gz"),
                    Rename("app.log", "app.log.1"),
                    append("app.log", "four\n"),
                    Gzip("app.log.1", "app.log.3.gz"),
                    Rename("app.log", "app.log.1"),
                    append("app.log", "five\n"),
                    append("app.log.notes", "not rotated\n"),
                ]),
                expect(&["one", "two", "three", "four", "five"]),
                Path("three", "app.log"),
                Restart(vec![]),
                expect(&["one", "two", "three", "four", "five"]),
            ],
        ),
        scenario(
            "several rotations between two checks",
            |bench| {
                bench.timings.poll_max = Duration::from_millis(400);
                bench.timings.folders = Duration::from_millis(400);
                bench.options.watch = WatchMode::Poll;
            },
            vec![Start, append("app.log", "one\n"), Rows(1)],
            vec![
                Rename("app.log", "app.log.0"),
                append("app.log", "new 0\n"),
                Rename("app.log", "app.log.1"),
                append("app.log", "new 1\n"),
                Rename("app.log", "app.log.2"),
                append("app.log", "new 2\n"),
                Rename("app.log", "app.log.3"),
                append("app.log", "new 3\n"),
                expect(&["one", "new 0", "new 1", "new 2", "new 3"]),
            ],
        ),
        scenario(
            "a symbolic link that gets another target",
            |bench| {
                let include = ["current.log", "sentinel*.log"].map(|name| bench.path(name));
                bench.options.include = include.map(|path| path.to_string_lossy().into_owned()).into();
            },
            vec![Folder("a"), Folder("b"), append("a/log", "one\n"), append("b/log", "one\n")],
            vec![
                Link("a/log", "current.log"),
                Start,
                expect(&["one"]),
                append("a/log", "two\n"),
                Link("b/log", "next"),
                Rename("next", "current.log"),
                append("a/log", "three\n"),
                append("b/log", "new one\n"),
                expect(&["one", "two", "three", "one", "new one"]),
                Identities(2),
            ],
        ),
        scenario(
            "a rotated file ends after a long quiet and is known again",
            |bench| {
                all_names(bench);
                bench.timings.rotated = Duration::from_millis(300);
            },
            begin("one\n"),
            vec![
                Rename("app.log", "app.log.1"),
                Status("one", SourceStatus::Ended),
                append("app.log.1", "two\n"),
                Await("two".into()),
                Gzip("app.log.1", "app.log.1.gz"),
                expect(&["one", "two"]),
                Restart(vec![Rename("app.log.1.gz", "app.log.2.gz")]),
                expect(&["one", "two"]),
            ],
        ),
    ]
}

fn copied_and_truncated() -> Vec<Scenario> {
    let long = "three, which makes it longer than what follows";
    vec![
        scenario(
            "copytruncate",
            plain,
            begin("header\none\n"),
            vec![
                append("app.log", "two\n"),
                Copy("app.log", "app.log.1"),
                Truncate("app.log"),
                append("app.log", "header\nnew one\n"),
                expect(&["header", "one", "two", "header", "new one"]),
                Identities(2),
                Lost("one", 0),
            ],
        ),
        scenario(
            "copytruncate while down",
            plain,
            begin("header\none\n"),
            vec![
                Restart(vec![
                    append("app.log", &format!("two\n{long}\n")),
                    Copy("app.log", "app.log.1"),
                    Truncate("app.log"),
                    append("app.log", "header\nnew one\n"),
                ]),
                expect(&["header", "one", "two", long, "header", "new one"]),
                SameSource("one", "two"),
                OtherSource("one", "new one"),
            ],
        ),
        scenario(
            "copytruncate and gzip while down",
            plain,
            begin("header\none\n"),
            vec![
                Restart(vec![
                    append("app.log", "two\n"),
                    Copy("app.log", "app.log-20261121"),
                    Gzip("app.log-20261121", "app.log-20261121.gz"),
                    Truncate("app.log"),
                    append("app.log", "new one\n"),
                ]),
                expect(&["header", "one", "two", "new one"]),
            ],
        ),
        scenario(
            "copytruncate, regrown past the old position before the next check",
            plain,
            begin("header\none\n"),
            vec![
                append("app.log", "two\n"),
                Stop,
                Copy("app.log", "app.log.1"),
                Truncate("app.log"),
                append("app.log", "header\nmore than there was before\nand more\n"),
                Restart(vec![]),
                expect(&["header", "one", "two", "header", "more than there was before", "and more"]),
            ],
        ),
        scenario(
            "truncated and regrown between two checks",
            |bench| {
                bench.timings.poll_min = Duration::from_millis(300);
                bench.timings.poll_max = Duration::from_millis(300);
            },
            vec![Start, append("app.log", "header\none\n"), Rows(2)],
            vec![
                Write("app.log", "header\nmore than there was before\n"),
                Rows(4),
                expect(&["header", "one", "header", "more than there was before"]),
                Identities(2),
            ],
        ),
        scenario(
            "a line that waits for its end, and is truncated",
            plain,
            vec![Start, append("app.log", "one\nunfinished"), expect(&["one"])],
            vec![
                Truncate("app.log"),
                append("app.log", "new one\n"),
                expect(&["one", "unfinished", "new one"]),
                Status("one", SourceStatus::Ended),
                Lost("one", 0),
            ],
        ),
        scenario(
            "a record that may continue, and is truncated",
            waits_long,
            vec![Start, append("app.log", "2026-11-21 08:00:00 INFO one\n2026-11-21 08:00:01 INFO two\n"), Rows(1)],
            vec![
                Truncate("app.log"),
                append("app.log", "2026-11-21 08:00:02 INFO three\n2026-11-21 08:00:03 INFO four\n"),
                Await("three".into()),
                expect(&["one", "two", "three"]),
                Status("one", SourceStatus::Ended),
                Lost("one", 0),
            ],
        ),
        scenario(
            "a record that may continue, and is written over behind a hole",
            waits_long,
            vec![Start, append("app.log", "2026-11-21 08:00:00 INFO one\n2026-11-21 08:00:01 INFO two\n"), Rows(1)],
            vec![
                Write(
                    "app.log",
                    "2026-11-21 08:00:00 INFO other\n2026-11-21 08:00:01 INFO tow\n2026-11-21 08:00:02 INFO more\n",
                ),
                Await("other".into()),
                Await("tow".into()),
                expect(&["one", "two", "other", "tow"]),
                Lost("one", 0),
            ],
        ),
        scenario(
            "a line that is too long to be kept while it waits, and is truncated",
            plain,
            vec![Start, Append("app.log", format!("one\n{}", "x".repeat(20_000))), expect(&["one"])],
            vec![
                Truncate("app.log"),
                append("app.log", "new one\n"),
                expect(&["one", "new one"]),
                Status("one", SourceStatus::Ended),
                Lost("one", 20_000),
                Event(SourceEvent::BytesDestroyed, 20_000),
            ],
        ),
    ]
}

fn removed_and_unfinished() -> Vec<Scenario> {
    // An unfinished line of a removed file is final, as no program can finish it.
    let again = (0..20).flat_map(|n| {
        let (last, new) = (format!("last {n}"), format!("one\nnew {n}\n"));
        [Append("app.log", last), Remove("app.log"), Append("app.log", new), Await(format!("new {n}"))]
    });
    let each = |text: &str| (0..20).map(|n| format!("{text} {n}")).collect::<Vec<_>>();
    let all = [vec!["one".to_owned(); 21], each("new"), each("last")].concat();
    vec![
        scenario("remove and create", plain, begin("one\n"), again.chain([Expect(all), Ended(20)]).collect()),
        scenario(
            "the unfinished line of a rotated file is final after a quiet",
            plain,
            vec![Start, append("app.log", "one\ntwo, unfin"), expect(&["one"])],
            vec![
                Rename("app.log", "app.log.1"),
                append("app.log", "new one\n"),
                expect(&["one", "new one", "two, unfin"]),
                append("app.log.1", "ished\n"),
                expect(&["one", "new one", "two, unfin", "ished"]),
                Position("ished", 14),
            ],
        ),
        scenario(
            "a file without a whole line is final when it is rotated",
            plain,
            vec![Start, append("app.log", "unfinished"), expect(&[])],
            vec![Rename("app.log", "app.log.1"), append("app.log", "new one\n"), expect(&["unfinished", "new one"])],
        ),
    ]
}

/// Four at a time, each on a thread with its name: they mostly wait.
#[test]
fn every_rotation_reads_each_line_once() {
    let mut scenarios = scenarios().into_iter().peekable();
    while scenarios.peek().is_some() {
        let run = |Scenario { name, options, steps }: Scenario| {
            let thread = std::thread::Builder::new().name(name.into()).spawn(move || {
                let mut bench = Bench::new();
                options(&mut bench);
                steps.into_iter().for_each(|step| step.take(&mut bench));
            });
            (name, thread.expect("a thread"))
        };
        for (name, thread) in scenarios.by_ref().take(4).map(run).collect::<Vec<_>>() {
            assert!(thread.join().is_ok(), "the scenario {name:?} failed");
        }
    }
}

/// A writer that takes its last lines back, or another time of day, in the same file.
#[test]
fn lines_that_are_taken_back_are_no_reason_to_read_the_file_again() {
    let line = |second: usize, text: &str| format!("2026-11-20T10:00:{second:02}Z {text} {second}\n");
    for count in [2, 50] {
        let mut bench = Bench::started();
        let kept: String = (0..count).map(|second| line(second, "kept")).collect();
        bench.append("a.log", kept.clone() + &line(count, "taken back"));
        bench.until("all lines", |bench| bench.records().len() == count + 1);
        // Shorter than it was read, and longer.
        for (round, new) in [(1, 1), (2, 5)] {
            let file = OpenOptions::new().write(true).open(bench.path("a.log")).expect("opened");
            file.set_len(kept.len() as u64).expect("cut");
            let before = bench.records().len();
            let lines: String = (0..new).map(|n| line(50 + n, &format!("round {round}"))).collect();
            bench.append("a.log", lines);
            bench.until("the new lines", |bench| {
                bench.records().iter().filter(|row| row.message.starts_with(&format!("round {round}"))).count() == new
            });
            bench.settle();
            assert!(before < bench.records().len());
        }
        assert_eq!(bench.identities(), 1, "it is the same source");
        // A line that is read again has its former key.
        let keys: BTreeSet<_> = bench.records().into_iter().map(|row| (row.time, row.position, row.message)).collect();
        assert_eq!(keys.len(), count + 1 + 6);
        let ledger = bench.source_of("kept 0").ledger;
        assert_eq!((ledger.lost_bytes, ledger.position()), (0, bench.source_of("kept 0").position));
    }
}

/// The unfinished last line of a rotated file is read after a while. Its writer still has the file, and writes the line anew.
#[test]
fn an_unfinished_line_that_was_read_may_be_taken_back() {
    let mut bench = Bench::started();
    let kept: String = (0..30).map(|second| format!("2026-11-20T10:00:{second:02}Z kept {second}\n")).collect();
    bench.append("a.log", kept.clone() + "2026-11-20T10:00:40Z unfin");
    bench.until("the whole lines", |bench| bench.records().len() == 30);
    bench.rename("a.log", "a.log.1");
    bench.until("the unfinished line", |bench| bench.records().iter().any(|row| row.message == "unfin"));
    let file = OpenOptions::new().write(true).open(bench.path("a.log.1")).expect("opened");
    file.set_len(kept.len() as u64).expect("cut");
    bench.append("a.log.1", "2026-11-20T10:00:41Z written anew\n");
    bench.until("the new line", |bench| bench.records().iter().any(|row| row.message == "written anew"));
    bench.settle();
    let kept = bench.records().into_iter().filter(|row| row.message.starts_with("kept"));
    assert_eq!(kept.map(|row| (row.identity, row.position)).collect::<BTreeSet<_>>().len(), 30);
}

#[test]
fn a_file_that_begins_again_with_the_same_header_is_read_again() {
    let mut bench = Bench::started();
    let header: String =
        (0..120).map(|n| format!("# banner line {n:03} of the service, the same text in each file\n")).collect();
    bench.append("a.log", header.clone() + "2026-11-20T10:00:00Z old\n");
    bench.until("all lines", |bench| bench.records().iter().any(|row| row.message == "old"));
    let before = bench.records().len();
    bench.truncate("a.log");
    bench.append("a.log", header + "2026-11-20T10:00:01Z new one\n2026-11-20T10:00:02Z new two\n");
    bench.until("all lines again", |bench| bench.records().iter().any(|row| row.message == "new two"));
    bench.settle();
    assert_eq!((bench.records().len(), bench.identities()), (2 * before + 1, 2));
}
