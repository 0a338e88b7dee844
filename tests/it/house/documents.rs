//! The documents: links have targets, paths exist, dependencies have reasons, waits end, and the README is short.

use super::{ROOT, assert_none};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// Maximum lines of the README.
const README_LINES_MAX: usize = 200;

/// Folders and files at the root. A word that begins with one of them is a path.
const TOPS: [&str; 14] = [
    "src/",
    "crates/",
    "tests/",
    "benches/",
    "config/",
    "systemd/",
    "packaging/",
    "ops/",
    "examples/",
    "fuzz/",
    "docs/",
    ".ci/",
    ".github/",
    ".cargo/",
];

fn below_root(path: &Path) -> PathBuf {
    Path::new(ROOT).join(path)
}

fn text(page: &Path) -> String {
    fs::read_to_string(below_root(page)).unwrap_or_else(|error| panic!("{}: {error}", page.display()))
}

/// Every page below `docs/`, by its path below the root.
pub(crate) fn pages() -> Vec<PathBuf> {
    let (mut pages, mut folders) = (Vec::new(), vec![PathBuf::from("docs")]);
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(below_root(&folder)).expect("a folder") {
            let path = folder.join(entry.expect("an entry").file_name());
            if below_root(&path).is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "md") {
                pages.push(path);
            }
        }
    }
    pages.sort();
    pages
}

/// The pages below `docs/`, and those at the root.
fn documents() -> Vec<PathBuf> {
    ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].map(PathBuf::from).into_iter().chain(pages()).collect()
}

/// The lines of a page outside its fenced blocks.
fn prose(text: &str) -> impl Iterator<Item = &str> {
    let mut is_fenced = false;
    text.lines().filter(move |line| {
        let is_fence = line.trim_start().starts_with("```");
        is_fenced ^= is_fence;
        !is_fenced && !is_fence
    })
}

/// The targets of the links in a page.
fn links(text: &str) -> Vec<String> {
    let targets = |line: &str| -> Vec<String> {
        line.split("](").skip(1).filter_map(|rest| rest.split_once(')')).map(|(link, _)| link.to_owned()).collect()
    };
    prose(text).flat_map(targets).collect()
}

/// The anchors of the headings in a page, as GitHub makes them.
fn anchors(text: &str) -> BTreeSet<String> {
    let headings = prose(text).filter(|line| line.starts_with('#')).map(|line| line.trim_start_matches('#').trim());
    let anchor = |heading: &str| -> String {
        let lower = heading.to_lowercase();
        let kept = lower.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
        kept.map(|c| if c == ' ' { '-' } else { c }).collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn links_lead_to_a_page_and_a_heading() {
    let mut broken = Vec::new();
    for page in documents() {
        let folder = page.parent().unwrap_or(Path::new(""));
        for link in links(&text(&page)).into_iter().filter(|link| !link.contains("://")) {
            let (path, anchor) = link.split_once('#').unwrap_or((&link, ""));
            let target = if path.is_empty() { page.clone() } else { folder.join(path) };
            let exists = below_root(&target).exists();
            if !exists || !anchor.is_empty() && !anchors(&text(&target)).contains(anchor) {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert_none("leads nowhere", broken);
}

#[test]
fn every_page_is_linked_from_another_one() {
    let mut linked = BTreeSet::new();
    for page in documents() {
        let folder = page.parent().unwrap_or(Path::new("")).to_owned();
        for link in links(&text(&page)).into_iter().filter(|link| !link.contains("://")) {
            let path = link.split('#').next().unwrap_or_default();
            let target = fs::canonicalize(below_root(&folder.join(path))).unwrap_or_default();
            if target != fs::canonicalize(below_root(&page)).expect("a page") {
                linked.insert(target);
            }
        }
    }
    let alone = pages().into_iter().filter(|page| !linked.contains(&below_root(page)));
    assert_none("is linked from no page", alone.map(|page| page.display().to_string()).collect());
}

/// Words that begin with a folder of the repository are paths in it.
#[test]
fn paths_in_the_documents_exist() {
    let mut missing = Vec::new();
    for page in documents() {
        let text = text(&page);
        for word in text.split(|c: char| c.is_whitespace() || "`()[]<>\",;|".contains(c)) {
            let word = word.split('#').next().unwrap_or_default().trim_end_matches(['.', ':', '/']);
            let is_path = TOPS.iter().any(|top| word.starts_with(top));
            let is_pattern = word.contains(['*', '{', '$', '\u{2026}']) || word.contains("TARGET");
            if is_path && !is_pattern && !below_root(Path::new(word)).exists() {
                missing.push(format!("{}: {word}", page.display()));
            }
        }
    }
    assert_none("is not there", missing);
}

/// Identifiers in `CamelCase` and modules as `a::b` between backquotes, on the pages about the code, are in the code.
#[test]
fn names_of_the_architecture_are_in_the_code() {
    let code: String =
        ["src", "crates"].iter().flat_map(|folder| super::sources(folder)).map(|file| file.text).collect();
    let words: BTreeSet<&str> = code.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let mut missing = Vec::new();
    for page in pages().into_iter().filter(|page| page.starts_with("docs/architecture")) {
        let text = text(&page);
        for line in prose(&text) {
            for name in line.split('`').skip(1).step_by(2) {
                let is_name = name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | ':'));
                let is_camel = name.starts_with(char::is_uppercase) && name.contains(char::is_lowercase);
                let is_ours = is_name && (is_camel || name.contains("::"));
                if is_ours && name.split("::").any(|part| !words.contains(part)) {
                    missing.push(format!("{}: {name}", page.display()));
                }
            }
        }
    }
    assert_none("is not in the code", missing);
}

#[test]
fn every_dependency_has_a_reason() {
    let manifest: toml::Table = text(Path::new("Cargo.toml")).parse().expect("a manifest");
    let dependencies = manifest["workspace"]["dependencies"].as_table().expect("dependencies").keys();
    let names: BTreeSet<&str> =
        dependencies.map(String::as_str).filter(|name| *name != "daytable" && !name.starts_with("daytable-")).collect();
    let page = text(Path::new("docs/architecture/dependencies.md"));
    let rows = page.lines().filter(|line| line.starts_with("| ")).skip(1);
    let named: Vec<&str> =
        rows.filter_map(|row| row.split('|').nth(1)).flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect();
    let missing = names.iter().filter(|name| !named.contains(*name)).map(|name| (*name).to_owned());
    assert_none("has no line in docs/architecture/dependencies.md", missing.collect());
    // First cells also name features, in parentheses.
    let gone = named.iter().filter(|name| !names.contains(*name) && **name != "ring").map(|name| (*name).to_owned());
    assert_none("is no dependency any more", gone.collect());
}

/// The page of faults quotes messages of the program. An ellipsis stands for variable text.
#[test]
fn quoted_messages_are_those_of_the_program() {
    let code: String =
        ["src", "crates"].iter().flat_map(|folder| super::sources(folder)).map(|file| file.text).collect();
    let mut code_on_one_line = String::new();
    for line in code.split('\n') {
        let line = line.trim();
        code_on_one_line.push_str(line.strip_suffix('\\').unwrap_or(line));
    }
    let page = text(Path::new("docs/operate/disaster.md"));
    let quotes: Vec<&str> = first_cells(&page).flat_map(|symptom| symptom.split('"').skip(1).step_by(2)).collect();
    assert!(quotes.len() > 5, "{quotes:?}");
    let fragments = quotes.iter().flat_map(|quote| quote.split('\u{2026}')).map(|part| part.trim().trim_matches('`'));
    let fragments = fragments.filter(|part| part.contains(' ') && !part.contains(char::is_numeric));
    let missing = fragments.filter(|part| !code_on_one_line.contains(part)).map(str::to_owned);
    assert_none("no message has these words", missing.collect());
}

/// The first cells of the tables in a page.
fn first_cells(page: &str) -> impl Iterator<Item = &str> {
    page.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next())
}

#[test]
fn members_of_the_json_output_are_in_the_code() {
    let code: String =
        ["src", "crates"].iter().flat_map(|folder| super::sources(folder)).map(|file| file.text).collect();
    let words: BTreeSet<&str> = code.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    let page = text(Path::new("docs/reference/json.md"));
    let members = first_cells(&page).flat_map(|cell| cell.split('`').skip(1).step_by(2));
    let missing = members.filter(|member| !words.contains(member)).map(str::to_owned);
    assert_none("is no member", missing.collect());
}

#[test]
fn every_kind_of_finding_is_explained() {
    let code = text(Path::new("src/verify/finding.rs"));
    let arms = code.lines().filter(|line| line.contains("Kind::"));
    let kinds: Vec<&str> = arms.filter_map(|line| line.split_once("=> \"")?.1.split('"').next()).collect();
    assert!(kinds.len() > 5, "{kinds:?}");
    let page = text(Path::new("docs/operate/verify.md"));
    let missing = kinds.iter().filter(|kind| !first_cells(&page).any(|cell| cell == format!("`{kind}`")));
    assert_none("is not in docs/operate/verify.md", missing.map(|kind| (*kind).to_owned()).collect());
}

/// The row of a replaced decision names the new one, and so does the head of its page.
#[test]
fn a_replaced_decision_names_the_new_one() {
    let mut replaced = Vec::new();
    for row in text(Path::new("docs/decisions/index.md")).lines().filter(|line| line.contains("(replaced by ")) {
        let old = links(row).remove(0);
        let new = row.split("(replaced by ").nth(1).and_then(|rest| rest.split(')').next()).expect("a number");
        replaced.push((old, format!("**Superseded** by [decision {new}](00{new}-")));
    }
    assert!(replaced.len() > 2, "{replaced:?}");
    let mut broken = Vec::new();
    for page in pages().into_iter().filter(|page| page.starts_with("docs/decisions") && !page.ends_with("index.md")) {
        let name = page.file_name().expect("a name").to_string_lossy().into_owned();
        let head: String = text(&page).lines().take(5).collect();
        let said = replaced.iter().find(|(old, _)| *old == name).map(|(_, said)| said.as_str());
        if head.contains("**Superseded**") != said.is_some() || !head.contains(said.unwrap_or_default()) {
            broken.push(format!("{}: {said:?}", page.display()));
        }
    }
    assert_none("does not say what the index says of it", broken);
}

/// Pages say what is; what is still to be found out is no statement.
#[test]
fn no_page_promises_a_figure() {
    let mut promised = Vec::new();
    for page in documents() {
        for (number, line) in text(&page).lines().enumerate() {
            if ["to be measured", "TODO", "TBD", "FIXME"].iter().any(|word| line.contains(word)) {
                promised.push(format!("{}:{}: {line}", page.display(), number + 1));
            }
        }
    }
    assert_none("is to be found out", promised);
}

/// A block that waits without a limit would hang for ever.
#[test]
fn every_wait_in_a_command_block_ends() {
    let mut endless = Vec::new();
    for page in documents() {
        for (number, line) in text(&page).lines().enumerate() {
            let waits =
                line.contains("until ") && line.contains("; do") || line.contains("while ") && line.contains("; do");
            if waits && !line.contains("timeout ") || line.contains("sleep infinity") {
                endless.push(format!("{}:{}: {line}", page.display(), number + 1));
            }
        }
    }
    assert_none("waits without an end", endless);
}

#[test]
fn the_readme_is_short() {
    let lines = text(Path::new("README.md")).lines().count();
    assert!(lines <= README_LINES_MAX, "{lines} lines, {README_LINES_MAX} at most");
}

#[test]
fn links_and_anchors_are_seen() {
    let page = "# A title: of `code`\n[a](b.md#c-d) and [e](f)\n```sh\n# none\n[g](h)\n```\n";
    assert_eq!(links(page), ["b.md#c-d", "f"]);
    assert_eq!(anchors(page), BTreeSet::from(["a-title-of-code".to_owned()]));
}
