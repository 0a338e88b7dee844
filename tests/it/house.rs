//! The rules of the house: permitted dependencies of crates and modules, permitted readers of the clock, file heads,
//! forbidden names, and the existence of files that the documents name.

mod arrows;
mod items;
mod names;
mod values;
pub(crate) mod documents;

use std::fs;
use std::path::Path;
use std::process::Command;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A source file: its path below the root, and its text.
struct Source {
    path: String,
    text: String,
}

impl Source {
    /// The lines with their numbers, without tests and comments.
    fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        let is_test = self.path.ends_with("tests.rs") || self.path.contains("/tests/");
        // The tests at the end of the file. A module of tests in its own file is declared among the others.
        let inline = |at: &usize| {
            self.text[*at..].lines().find(|line| line.contains("mod ")).is_some_and(|line| line.ends_with('{'))
        };
        let tests = ["#[cfg(test)]\nmod ", "#[cfg(all(test"].iter();
        let tests = tests.flat_map(|start| self.text.match_indices(start)).map(|(at, _)| at).filter(inline).min();
        let end = if is_test { 0 } else { tests.unwrap_or(self.text.len()) };
        let lines = self.text[..end].lines().enumerate();
        lines.filter(|(_, line)| !line.trim_start().starts_with("//")).map(|(at, line)| (at + 1, line))
    }

    /// The text of these lines.
    fn code_text(&self) -> String {
        self.code().map(|(_, line)| line.to_owned() + "\n").collect()
    }
}

fn sources(folder: &str) -> Vec<Source> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(ROOT).join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                let text = fs::read_to_string(&path).expect("text");
                let below = path.strip_prefix(ROOT).expect("below the root");
                found.push(Source { path: below.display().to_string(), text });
            }
        }
    }
    assert!(!found.is_empty(), "{folder} has no source files");
    found
}

/// Fails with every place that breaks a rule.
fn assert_none(rule: &str, broken: Vec<String>) {
    assert!(broken.is_empty(), "{rule}:\n{}", broken.join("\n"));
}

/// Lines of code below `folder`, outside the files of `allowed`, that `is_broken` rejects.
fn broken(folder: &str, allowed: &[&str], is_broken: impl Fn(&str) -> bool) -> Vec<String> {
    let sources = sources(folder);
    let others = sources.iter().filter(|source| !allowed.contains(&source.path.as_str()));
    others
        .flat_map(|source| {
            let lines = source.code().filter(|(_, line)| is_broken(line));
            lines.map(|(number, line)| format!("{}:{number}: {}", source.path, line.trim())).collect::<Vec<_>>()
        })
        .collect()
}

#[test]
fn only_the_module_time_reads_the_wall_clock() {
    let reads =
        |line: &str| line.contains("SystemTime::now") || line.contains("Utc::now") || line.contains("Local::now");
    assert_none("reads the wall clock", broken("src", &[], reads));
    for name in arrows::CRATES {
        assert_none("reads the wall clock", broken(&format!("crates/{name}"), &["crates/model/src/time.rs"], reads));
    }
}

#[test]
fn nothing_unwraps_outside_of_tests() {
    let unwraps = |line: &str| line.contains(".unwrap()") || line.contains("panic!(") || line.contains("todo!(");
    assert_none("unwraps", broken("src", &[], unwraps));
    for name in arrows::CRATES {
        assert_none("unwraps", broken(&format!("crates/{name}"), &[], unwraps));
    }
}

/// A constant with another value in tests would leave the real one untested. One file has such a constant, for two sizes
/// of value counts, which the tests of all crates and the daemon of a debug build share: a few rows must cross them there.
/// The torture and the benchmarks run optimised builds, which have the sizes of users.
#[test]
fn no_value_is_another_one_in_tests() {
    const SMALL_SIZES: [&str; 1] = ["crates/store/src/format/mod.rs"];
    let is_other = |line: &str| {
        let asks = line.contains("cfg!(") && (line.contains("test") || line.contains("debug_assertions"));
        asks || line.contains("cfg(not(test") || line.contains("cfg(not(debug_assertions")
    };
    assert_none("has another value in tests", broken("src", &[], is_other));
    for name in arrows::CRATES {
        assert_none("has another value in tests", broken(&format!("crates/{name}"), &SMALL_SIZES, is_other));
    }
}

#[test]
fn every_file_begins_with_what_it_is() {
    let without: Vec<String> = ["src", "crates", "tests", "benches"]
        .iter()
        .flat_map(|folder| sources(folder))
        .filter(|source| !source.text.starts_with("//!"))
        .map(|source| source.path)
        .collect();
    assert_none("has no module documentation", without);
}

#[test]
fn no_type_has_a_name_that_says_nothing() {
    const EMPTY: [&str; 5] = ["Manager", "Handler", "Helper", "Util", "Common"];
    let is_empty = |line: &str| {
        let mut words = line.split(|c: char| !c.is_alphanumeric());
        let declares = words.by_ref().any(|word| matches!(word, "struct" | "enum" | "trait" | "mod"));
        declares && words.next().is_some_and(|name| EMPTY.iter().any(|empty| name.ends_with(empty)))
    };
    assert_none("says nothing", broken("src", &[], is_empty));
    assert_none("says nothing", broken("crates", &[], is_empty));
}

/// The head of each `lib.rs` is the map of its crate: it names every public module.
#[test]
fn the_maps_name_every_module() {
    let mut missing = Vec::new();
    for source in
        sources("src").into_iter().chain(sources("crates")).filter(|source| source.path.ends_with("src/lib.rs"))
    {
        let modules = source.text.lines().filter_map(|line| line.strip_prefix("pub mod ")?.strip_suffix(';'));
        let is_named =
            |module: &&str| ["", "mod@"].iter().any(|kind| source.text.contains(&format!("`{kind}{module}`")));
        missing.extend(modules.filter(|module| !is_named(module)).map(|module| format!("{}: {module}", source.path)));
    }
    assert_none("is not on the map", missing);
}

/// Inputs that failed once are tried first. proptest finds them by the path of the module, so they move with it.
#[test]
fn inputs_that_failed_once_belong_to_a_module() {
    let crates =
        fs::read_dir(Path::new(ROOT).join("crates")).expect("a folder").map(|entry| entry.expect("an entry").path());
    let (mut lost, mut found) = (Vec::new(), 0);
    for package in crates.chain([Path::new(ROOT).to_owned()]) {
        let kept = package.join("proptest-regressions");
        let mut folders: Vec<_> = kept.is_dir().then(|| kept.clone()).into_iter().collect();
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a folder") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                found += 1;
                let module = path.strip_prefix(&kept).expect("below it").with_extension("rs");
                if !package.join("src").join(module).is_file() {
                    lost.push(path.display().to_string());
                }
            }
        }
    }
    assert!(found > 10, "only {found} were found");
    assert_none("belongs to no module", lost);
}

/// `just` can plan every task, and each task says in one line what it is for.
#[test]
fn every_task_of_the_justfile_is_planned_and_described() {
    let just = |args: &[&str]| {
        let output = Command::new(Path::new(ROOT).join("target/venv/bin/just")).args(args).current_dir(ROOT).output();
        let output = output.unwrap_or_else(|error| panic!("just: {error}: sh tests/setup installs it"));
        assert!(output.status.success(), "just {args:?}: {}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).expect("text")
    };
    let list = just(&["--list", "--list-heading", ""]);
    assert_none("has no description", list.lines().filter(|line| !line.contains('#')).map(str::to_owned).collect());
    let tasks = just(&["--summary"]);
    for task in tasks.split_whitespace() {
        just(&["--dry-run", task]);
    }
    for task in ["check", "test", "bench", "fuzz", "torture", "docs", "package"] {
        assert!(tasks.split_whitespace().any(|found| found == task), "no task {task} in {tasks}");
    }
}
