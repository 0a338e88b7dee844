//! The commands of the README and of the pages in `docs/` are run as they stand there: what they promise on a fresh machine
//! has to work on one.
//!
//! Every block that is fenced as `sh` is run by `sh -e`, in the order of its page, in one folder with a home of its own
//! and `daytable` on the path, and must end well. A block that cannot be run like that has `<!-- not run: reason -->` on
//! the line before it. A block of `docs/` that is fenced as `toml` is a configuration, which `check` finds good.

use crate::house::documents::pages;
use crate::place::{DAYTABLE, PATIENCE, Place, wait_for};
use std::fs::{self, File};
use std::os::unix::fs::symlink;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// A fenced block of the README.
#[derive(Debug, PartialEq, Eq)]
struct Block {
    /// Its first line, from 1.
    line: usize,
    text: String,
    /// Why it is not run.
    not_run: Option<String>,
}

fn blocks(readme: &str, language: &str) -> Vec<Block> {
    let fence = format!("```{language}");
    let mut blocks = Vec::new();
    let mut open: Option<Block> = None;
    let mut before = "";
    for (number, line) in readme.lines().enumerate() {
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
fn blocks_are_found_with_the_reason_why_they_are_not_run() {
    let readme = "text\n```sh\na\nb\n```\n<!-- not run: needs a user -->\n```sh\nc\n```\n```text\nd\n```\n";
    let block = |line, text: &str, not_run: Option<&str>| Block {
        line,
        text: text.into(),
        not_run: not_run.map(str::to_owned),
    };
    assert_eq!(blocks(readme, "sh"), [block(3, "a\nb\n", None), block(8, "c\n", Some("needs a user"))]);
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

#[test]
fn every_configuration_of_the_documentation_is_good() {
    let place = Place::new();
    for page in pages() {
        for block in blocks(&text_of(&page), "toml").iter().filter(|block| block.not_run.is_none()) {
            let path = place.path("daytable.toml");
            fs::write(&path, &block.text).expect("written");
            let checked = Command::new(DAYTABLE).arg("check").arg("--config").arg(&path).output().expect("daytable");
            let said = String::from_utf8_lossy(&checked.stderr);
            assert!(checked.status.success(), "{}:{}: {said}", page.display(), block.line);
        }
    }
}

/// Runs the blocks of a page; tells how many.
fn run_page(page: &Path) -> usize {
    let blocks = blocks(&text_of(page), "sh");
    let run: Vec<&Block> = blocks.iter().filter(|block| block.not_run.is_none()).collect();
    let (count, page) = (run.len(), page.display());
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
        // A group of its own, so that what it leaves running in the background ends with the test.
        let mut child = Command::new("sh")
            .args(["-euc", &block.text])
            .current_dir(&folder)
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("HOME", &home)
            .stdin(Stdio::null())
            .stdout(output.try_clone().expect("a file"))
            .stderr(output)
            .process_group(0)
            .spawn()
            .expect("sh");
        let group = i32::try_from(child.id()).ok().and_then(rustix::process::Pid::from_raw).expect("a process");
        let _end = EndOfGroup(group);
        let status = wait_for(&format!("{page}:{} ends", block.line), PATIENCE, || child.try_wait().expect("a child"));
        let said = fs::read_to_string(&said_to).expect("text");
        assert!(status.success(), "{page}:{}: {status}\n{}\n{said}", block.line, block.text);
    }
    count
}

/// Ends a group of processes with the test.
struct EndOfGroup(rustix::process::Pid);

impl Drop for EndOfGroup {
    fn drop(&mut self) {
        // Most often there is nobody left.
        let _ = rustix::process::kill_process_group(self.0, rustix::process::Signal::KILL);
    }
}
