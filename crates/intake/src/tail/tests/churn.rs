//! Everything at once, in random order: each line is exactly one record.

use super::*;

/// A small random generator with a seed, so that a failure can be repeated.
struct Random(u64);

impl Random {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % n
    }
}

#[derive(Default)]
struct Writer {
    lines: Vec<String>,
    /// The log of actions, to explain a seed that fails.
    journal: Vec<String>,
    generation: [usize; 2],
}

impl Writer {
    fn write(&mut self, bench: &Bench, name: &str, random: &mut Random) {
        let mut text = String::new();
        for _ in 0..=random.below(50) {
            let line = format!("{name} {}{}", self.lines.len(), " and more".repeat(random.below(20) as usize));
            text += &line;
            text += "\n";
            self.lines.push(line);
        }
        self.journal.push(format!("write {} to {name} up to {}", text.len(), self.lines.len() - 1));
        // In two parts, cut anywhere.
        let cut = random.below(text.len() as u64) as usize;
        bench.append(name, &text[..cut]);
        std::thread::yield_now();
        bench.append(name, &text[cut..]);
    }

    fn rotate(&mut self, bench: &Bench, at: usize, name: &str, random: &mut Random) {
        if !bench.path(name).exists() {
            return;
        }
        let n = self.generation[at];
        self.generation[at] += 1;
        let how = random.below(3);
        self.journal
            .push(format!("rotate {name} to {n}, {}", ["rename", "rename and gzip", "copytruncate"][how as usize]));
        match how {
            0 => bench.rename(name, &format!("{name}.{n}")),
            1 => {
                bench.rename(name, &format!("{name}.{n}"));
                if n > 0 && bench.path(&format!("{name}.{}", n - 1)).exists() {
                    bench.gzip(&format!("{name}.{}", n - 1), &format!("{name}.{}.gz", n - 1));
                }
            }
            _ => {
                fs::copy(bench.path(name), bench.path(&format!("{name}.{n}"))).expect("copied");
                bench.truncate(name);
            }
        }
    }
}

fn churn(seed: u64, includes_rotated: bool) {
    let mut bench = if includes_rotated { Bench::of_all_names() } else { Bench::new() };
    bench.options.open_files_max = 3;
    let mut random = Random(seed);
    let mut writer = Writer::default();
    bench.start();
    for name in ["a.log", "b.log"] {
        writer.write(&bench, name, &mut random);
    }
    bench.until("both files are known", |bench| bench.identities() == 2);
    for _ in 0..60 {
        let at = random.below(2) as usize;
        let name = ["a.log", "b.log"][at];
        match random.below(10) {
            0..=4 => writer.write(&bench, name, &mut random),
            5 => writer.rotate(&bench, at, name, &mut random),
            6 => {
                writer.journal.push("fail".into());
                bench.sink.fail();
            }
            7 => {
                writer.journal.push("stop".into());
                let step = |bench: &Bench| {
                    for _ in 0..random.below(4) {
                        match random.below(3) {
                            0 => writer.rotate(bench, at, name, &mut random),
                            _ => writer.write(bench, name, &mut random),
                        }
                    }
                };
                bench.restart(step);
                writer.journal.push("start".into());
            }
            _ => {
                writer.journal.push("take".into());
                bench.take(Duration::from_millis(20));
            }
        }
    }
    let mut expected = std::mem::take(&mut writer.lines);
    expected.sort();
    let deadline = Instant::now() + PATIENCE;
    while bench.records().len() < expected.len() && Instant::now() < deadline {
        bench.take(Duration::from_millis(2));
    }
    if bench.records().len() >= expected.len() {
        bench.settle();
    }
    if bench.messages() != expected {
        let sources = bench.queue.sources().1;
        let source = |state: Arc<SourceState>| {
            format!(
                "{} {:?} {:?} inode {} at {}",
                state.identity, state.path, state.status, state.inode, state.position
            )
        };
        let sources: Vec<_> = sources.into_iter().map(source).collect();
        let difference = difference(&bench.messages(), &expected);
        panic!("seed {seed}:\n{difference}\n{}\n{}", writer.journal.join("\n"), sources.join("\n"));
    }
}

fn difference(got: &[String], expected: &[String]) -> String {
    let count = |lines: &[String]| {
        let mut counts: BTreeMap<String, i64> = BTreeMap::new();
        lines.iter().for_each(|line| *counts.entry(line.clone()).or_default() += 1);
        counts
    };
    let (got, expected) = (count(got), count(expected));
    let names: BTreeSet<_> = got.keys().chain(expected.keys()).collect();
    let of = |counts: &BTreeMap<String, i64>, name: &String| counts.get(name).copied().unwrap_or(0);
    let wrong = names.into_iter().filter(|name| of(&got, name) != of(&expected, name));
    wrong.map(|name| format!("{} times: {name}\n", of(&got, name))).collect()
}

/// Few enough for every day; `CHURN_SEEDS=1000` is for a night.
fn seeds() -> u64 {
    std::env::var("CHURN_SEEDS").ok().and_then(|seeds| seeds.parse().ok()).unwrap_or(6)
}

#[test]
fn each_line_is_one_record_under_any_churn() {
    for seed in 0..seeds() {
        churn(seed, false);
    }
}

#[test]
fn each_line_is_one_record_when_rotated_files_are_included() {
    for seed in 1_000_000..1_000_000 + seeds() {
        churn(seed, true);
    }
}

/// A copy has its lines once, at whatever moment between two looks its original is truncated.
#[test]
fn a_copy_is_known_whenever_its_original_is_truncated() {
    let mut bench = Bench::started();
    let mut expected = Vec::new();
    for round in 0..100 {
        let lines: Vec<String> = (0..40).map(|n| format!("{round} {n} {}", "and more ".repeat(n % 7))).collect();
        let (read, unread) = lines.split_at(10);
        bench.append("a.log", read.join("\n") + "\n");
        expected.extend(lines.iter().map(|line| line.trim_end().to_owned()));
        let known = expected.len() - unread.len();
        bench.until("the first lines are read", |bench| bench.records().len() >= known);
        bench.append("a.log", unread.join("\n") + "\n");
        fs::copy(bench.path("a.log"), bench.path(&format!("a.log.{round}"))).expect("copied");
        std::thread::sleep(Duration::from_micros(round * 397 % 6000));
        bench.truncate("a.log");
        bench.until("all lines are read", |bench| bench.records().len() >= expected.len());
    }
    bench.settle();
    let messages: Vec<String> = bench.messages().iter().map(|line| line.trim_end().to_owned()).collect();
    expected.sort();
    assert!(messages == expected, "{}", difference(&messages, &expected));
}
