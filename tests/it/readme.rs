//! The commands and configurations of the README and of the pages below `docs/` work as written.
//!
//! * Each `sh` block runs by `sh -euc` and must succeed. The blocks of a page run in order, in one folder with its own
//!   home, with `daytable` on the path. A block that cannot run here has `<!-- not run: reason -->` on the line before.
//! * A `text` block after the line `<!-- printed by the block above -->` is what that `sh` block prints, to the letter. An
//!   ellipsis (`…`) stands for text that differs from run to run.
//! * A `sql` block after the line `<!-- asked of TABLE in ENGINE … -->` is asked in these engines about a Delta table in the
//!   page's folder, after its `sh` blocks. A `text` block after the line `<!-- answered by the block above -->` is what each answers,
//!   a line of JSON a row; it stands for all `sql` blocks since the last such one.
//! * Each `toml` block is a valid configuration, and each `env` block a valid environment.

use crate::house::documents::pages;
use crate::lake::asked_in;
use crate::place::{DAYTABLE, Place, wait_for};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// Time limit of a block. A block may wait several times, at most a minute each time.
const BLOCK_PATIENCE: Duration = Duration::from_secs(240);

/// The line before a `text` block that is compared with what the `sh` block above it prints.
const PRINTED: &str = "<!-- printed by the block above -->";

/// The line before a `text` block that is compared with what engines answer to the `sql` blocks above it.
const ANSWERED: &str = "<!-- answered by the block above -->";

/// A fenced block of a page.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    /// The number of the first line, from 1.
    line: usize,
    text: String,
    /// The reason for not running the block.
    not_run: Option<String>,
}

/// The blocks of a page in `language`.
fn blocks(page: &str, language: &str) -> Vec<Block> {
    let fence = format!("```{language}");
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    let mut before = "";
    for (number, line) in page.lines().enumerate() {
        match &mut open {
            Some(_) if line.trim() == "```" => blocks.extend(open.take()),
            Some(block) => block.text.extend([line, "\n"]),
            None if line.trim() == fence => {
                let reason = before.trim().strip_prefix("<!-- not run: ").and_then(|rest| rest.strip_suffix(" -->"));
                open = Some(Block { line: number + 2, text: String::new(), not_run: reason.map(str::to_owned) });
            }
            None => {}
        }
        before = line;
    }
    assert!(open.is_none(), "a block has no end");
    blocks
}

#[test]
fn blocks_are_found_with_the_reason_why_they_do_not_run() {
    let page = "text\n```sh\na\nb\n```\n<!-- not run: needs a user -->\n```sh\nc\n```\n```text\nd\n```\n";
    let block = |line, text: &str, not_run: Option<&str>| Block {
        line,
        text: text.into(),
        not_run: not_run.map(str::to_owned),
    };
    assert_eq!(blocks(page, "sh"), [block(3, "a\nb\n", None), block(8, "c\n", Some("needs a user"))]);
}

/// What a page says that its `sh` blocks print, by the first line of the block.
fn printed(page: &str) -> BTreeMap<usize, String> {
    let commands = blocks(page, "sh");
    let before = |block: &Block| block.line.checked_sub(3).and_then(|line| page.lines().nth(line));
    let shown =
        blocks(page, "text").into_iter().filter(|block| before(block).is_some_and(|line| line.trim() == PRINTED));
    shown
        .map(|block| {
            let above = commands.iter().rfind(|command| command.line < block.line).expect("a block above");
            (above.line, block.text)
        })
        .collect()
}

/// Whether a line was printed as it is shown. An ellipsis stands for any text.
fn is_shown(line: &str, shown: &str) -> bool {
    let Some((start, rest)) = shown.split_once('…') else { return line == shown };
    let Some(line) = line.strip_prefix(start) else { return false };
    line.char_indices().map(|(at, _)| at).chain([line.len()]).any(|at| is_shown(&line[at..], rest))
}

/// The first line that was not printed as it is shown, as `(printed, shown)`.
fn first_difference<'a>(said: &'a str, shown: &'a str) -> Option<(&'a str, &'a str)> {
    let (mut said, mut shown) = (said.lines(), shown.lines());
    loop {
        match (said.next(), shown.next()) {
            (None, None) => return None,
            (line, shown) => {
                let (line, shown) = (line.unwrap_or("(nothing)"), shown.unwrap_or("(nothing)"));
                if !is_shown(line, shown) {
                    return Some((line, shown));
                }
            }
        }
    }
}

#[test]
fn shown_output_is_compared_line_by_line() {
    let page = format!("```sh\na\n```\ntext\n\n```sh\nb\n```\n\n{PRINTED}\n```text\n1 … 3\n4\n```\n```text\nc\n```\n");
    let shown = printed(&page);
    assert_eq!(shown, BTreeMap::from([(7, "1 … 3\n4\n".to_owned())]));
    assert_eq!(first_difference("1 2 3\n4\n", &shown[&7]), None);
    assert_eq!(first_difference("1 2 3 3\n4\n", &shown[&7]), None);
    assert_eq!(first_difference("1 2 4\n4\n", &shown[&7]), Some(("1 2 4", "1 … 3")));
    assert_eq!(first_difference("1 2 3\n", &shown[&7]), Some(("(nothing)", "4")));
    assert_eq!(first_difference("1 2 3\n4\n5\n", &shown[&7]), Some(("5", "(nothing)")));
}

#[test]
fn every_command_of_the_readme_works() {
    assert!(run_page(Path::new("README.md")) > 0, "the README has no commands that can be run");
}

fn text_of(page: &Path) -> String {
    fs::read_to_string(Path::new(ROOT).join(page)).expect("a page")
}

#[test]
fn every_command_of_the_documentation_works() {
    let ran: usize = pages().iter().map(|page| run_page(page)).sum();
    assert!(ran >= 3, "{ran} blocks were run");
}

/// `daytable check`, without the environment of this process.
fn check() -> Command {
    let mut check = Command::new(DAYTABLE);
    check.arg("check").env_remove("DAYTABLE_CONFIG").stdin(Stdio::null());
    check
}

/// Whether a configuration is good, but for files with secrets that this machine has not.
fn is_good(checked: &Output) -> bool {
    let said = String::from_utf8_lossy(&checked.stderr);
    let lacks_a_file = said.contains("No such file or directory") && !said.contains("the configuration is wrong");
    checked.status.success() || lacks_a_file
}

#[test]
fn every_configuration_of_the_documentation_is_good() {
    let place = Place::new();
    let path = place.path("daytable.toml");
    for page in pages() {
        let text = text_of(&page);
        let files = blocks(&text, "toml").into_iter().map(|block| {
            fs::write(&path, &block.text).expect("written");
            (block.line, check().arg("--config").arg(&path).output().expect("daytable"))
        });
        let environments = blocks(&text, "env").into_iter().map(|block| {
            let variables = block.text.lines().filter_map(|line| line.split_once('='));
            (block.line, check().envs(variables).output().expect("daytable"))
        });
        for (line, checked) in files.chain(environments) {
            let said = String::from_utf8_lossy(&checked.stderr);
            assert!(is_good(&checked), "{}:{line}: {said}", page.display());
        }
    }
}

/// Whoever follows a page appends its block to the installed file, or puts keys without a section at its top.
#[test]
fn every_configuration_of_the_documentation_can_be_added_to_the_shipped_file() {
    let place = Place::new();
    let path = place.path("daytable.toml");
    let shipped = fs::read_to_string(Path::new(ROOT).join("config/daytable.toml")).expect("a configuration");
    let mut added = 0;
    for page in pages() {
        for block in blocks(&text_of(&page), "toml") {
            let is_section = |line: &str| line.starts_with('[');
            let (top, sections): (Vec<&str>, Vec<&str>) = {
                let first = block.text.lines().position(is_section).unwrap_or(block.text.lines().count());
                let lines: Vec<&str> = block.text.lines().collect();
                (lines[..first].to_vec(), lines[first..].to_vec())
            };
            fs::write(&path, format!("{}\n{shipped}\n{}\n", top.join("\n"), sections.join("\n"))).expect("written");
            let checked = check().arg("--config").arg(&path).output().expect("daytable");
            let said = String::from_utf8_lossy(&checked.stderr);
            assert!(is_good(&checked), "{}:{}: {said}", page.display(), block.line);
            added += 1;
        }
    }
    assert!(added > 10, "{added} blocks were added");
}

/// The program prints the error that the page of the environment shows.
#[test]
fn the_error_of_a_variable_is_the_one_that_is_shown() {
    let page = text_of(Path::new("docs/reference/environment.md"));
    let shown = blocks(&page, "text").into_iter().find(|block| block.text.contains("HTTP_LISTN")).expect("an error");
    let output = check().env("DAYTABLE_HTTP_LISTN", "off").output().expect("daytable");
    assert_eq!(String::from_utf8_lossy(&output.stderr), shown.text);
}

/// The picture of a session has what the program prints. With `DAYTABLE_WRITE_DOCS=1` it is drawn anew.
#[test]
fn the_recorded_session_is_what_the_program_prints() {
    let place = Place::new();
    symlink(DAYTABLE, place.path("daytable")).expect("linked");
    let path = format!("{}:{}", place.path("").display(), std::env::var("PATH").unwrap_or_default());
    let (drawn, kept) = (place.path("session.svg"), Path::new(ROOT).join("docs/guide/session.svg"));
    let script = Path::new(ROOT).join("examples/record-session");
    let output = Command::new("python3").arg(script).arg(&drawn).env("PATH", path).output().expect("python3");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    if std::env::var_os("DAYTABLE_WRITE_DOCS").is_some() {
        fs::copy(&drawn, &kept).expect("copied");
    }
    let is_same = fs::read(&drawn).expect("a picture") == fs::read(&kept).unwrap_or_default();
    assert!(is_same, "run: examples/record-session docs/guide/session.svg");
}

/// Asks engines what the `sql` blocks of a page ask, about tables below `folder`.
fn ask_engines(page: &Path, folder: &Path) {
    let text = text_of(page);
    let line_before = |line: usize| text.lines().nth(line.saturating_sub(3)).unwrap_or_default().trim();
    let answers: Vec<Block> =
        blocks(&text, "text").into_iter().filter(|block| line_before(block.line) == ANSWERED).collect();
    let mut asked = 0;
    for block in blocks(&text, "sql").iter().filter(|block| block.not_run.is_none()) {
        let told = line_before(block.line).strip_prefix("<!-- asked of ").and_then(|rest| rest.strip_suffix(" -->"));
        let Some((table, engines)) = told.and_then(|told| told.split_once(" in ")) else { continue };
        let engines: Vec<&str> = engines.split_whitespace().collect();
        let answer = answers.iter().find(|answer| answer.line > block.line).expect("an answer on the page");
        let rows = answer.text.lines().map(|row| serde_json::from_str(row).expect("a row of JSON"));
        let shown: Vec<Value> = rows.collect();
        let table = folder.join(table).display().to_string();
        for (engine, rows) in asked_in(&engines, &table, &[], &block.text) {
            assert_eq!(rows, shown, "{}:{}: {engine}", page.display(), block.line);
            asked += 1;
        }
    }
    assert!(asked > 0 || answers.is_empty(), "{}: no engine was asked", page.display());
}

/// Runs the blocks of a page, and returns how many ran.
fn run_page(page: &Path) -> usize {
    let text = text_of(page);
    let (blocks, printed) = (blocks(&text, "sh"), printed(&text));
    let run: Vec<&Block> = blocks.iter().filter(|block| block.not_run.is_none()).collect();
    let (count, path_of_page, page) = (run.len(), page, page.display());
    let place = Place::new();
    let (bin, home, folder) = (place.path("bin"), place.path("home"), place.path("folder"));
    for new in [&bin, &home, &folder] {
        fs::create_dir(new).expect("a folder");
    }
    symlink(DAYTABLE, bin.join("daytable")).expect("linked");
    for name in ["config", "examples", "systemd", "ops", "packaging", "README.md"] {
        symlink(Path::new(ROOT).join(name), folder.join(name)).expect("linked");
    }
    let path = std::env::var("PATH").unwrap_or_default();
    for block in run {
        let said_to = place.path(&format!("block-{}", block.line));
        let output = File::create(&said_to).expect("a file");
        // A group of its own, so that background processes end with the test.
        let mut child = Command::new("sh")
            .args(["-euc", &block.text])
            .current_dir(&folder)
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("HOME", &home)
            .env("TZ", "UTC")
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a file"))
            .stderr(output)
            .process_group(0)
            .spawn()
            .expect("sh");
        let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a process");
        let _end = EndOfGroup(group);
        let status =
            wait_for(&format!("{page}:{} ends", block.line), BLOCK_PATIENCE, || child.try_wait().expect("a child"));
        let said = fs::read_to_string(&said_to).expect("text");
        assert!(status.success(), "{page}:{}: {status}\n{}\n{said}", block.line, block.text);
        if let Some((line, shown)) = printed.get(&block.line).and_then(|shown| first_difference(&said, shown)) {
            panic!(
                "{page}:{}: it prints\n{line}\nand not, as the page shows,\n{shown}\n\nof all this:\n{said}",
                block.line
            );
        }
    }
    ask_engines(path_of_page, &folder);
    count
}

/// Ends a group of processes with the test.
struct EndOfGroup(rustix::process::Pid);

impl Drop for EndOfGroup {
    fn drop(&mut self) {
        // Most often no process is left.
        let _ = rustix::process::kill_process_group(self.0, rustix::process::Signal::KILL);
    }
}
