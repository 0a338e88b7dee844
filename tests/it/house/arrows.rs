//! The dependencies of crates, and of modules within a crate. The picture in `docs/architecture/index.md` matches the
//! code, and modules that stand side by side form no cycle.

use super::{ROOT, Source, sources};
use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;

/// Names, and the names that each of them uses.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// The crates in an order in which each uses only crates above it.
pub(super) const CRATES: [&str; 16] = [
    "model",
    "logsql",
    "platform",
    "azure",
    "delta",
    "parse",
    "logql",
    "net",
    "store",
    "archive",
    "query",
    "forward",
    "alert",
    "lifecycle",
    "intake",
    "remote",
];

fn read(path: &str) -> String {
    fs::read_to_string(Path::new(ROOT).join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// The workspace crates among a manifest's dependencies, without dev-dependencies.
fn uses(manifest: &str) -> Vec<String> {
    let manifest: toml::Table = read(manifest).parse().expect("a manifest");
    let names = manifest["dependencies"].as_table().expect("dependencies").keys();
    let ours: BTreeSet<&str> = names.filter_map(|name| name.strip_prefix("daytable-")).collect();
    CRATES.iter().filter(|name| ours.contains(*name)).map(|name| (*name).to_owned()).collect()
}

/// The picture of the crates in the documents.
fn picture() -> String {
    let mut lines = vec![format!("{:<10} uses", "crate")];
    for name in CRATES {
        lines.push(format!("{name:<10} {}", uses(&format!("crates/{name}/Cargo.toml")).join(" ")));
    }
    lines.push(format!("{:<10} {}", "daytable", uses("Cargo.toml").join(" ")));
    lines.iter().map(|line| line.trim_end().to_owned() + "\n").collect()
}

#[test]
fn the_picture_of_the_crates_is_the_code_s() {
    let page = read("docs/architecture/index.md");
    let drawn = page.split("```text\n").nth(1).and_then(|rest| rest.split("```").next()).expect("a picture");
    assert_eq!(drawn, picture(), "docs/architecture/index.md draws other arrows: is the new one wanted?");
}

#[test]
fn every_crate_uses_only_crates_above_it() {
    let folders = fs::read_dir(Path::new(ROOT).join("crates")).expect("a folder");
    let found: BTreeSet<String> =
        folders.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned()).collect();
    let tools = ["crash", "properties", "torture"];
    let known = CRATES.iter().chain(&tools).map(|name| (*name).to_owned());
    assert_eq!(found, known.collect(), "a crate is missing here");
    for (at, name) in CRATES.iter().enumerate() {
        for used in uses(&format!("crates/{name}/Cargo.toml")) {
            assert!(CRATES[..at].contains(&used.as_str()), "{name} uses {used}, which stands below it");
        }
    }
    for alone in ["model", "azure"] {
        assert!(uses(&format!("crates/{alone}/Cargo.toml")).is_empty(), "{alone} uses nothing of ours");
    }
}

/// A use tree without its keyword: the paths to its leaves.
pub(super) fn leaves(tree: &str) -> Vec<Vec<String>> {
    let tree = tree.trim();
    if let Some(inner) = tree.strip_prefix('{').and_then(|tree| tree.strip_suffix('}')) {
        let (mut parts, mut depth) = (vec![String::new()], 0);
        for c in inner.chars() {
            depth += i32::from(c == '{') - i32::from(c == '}');
            match (c, parts.last_mut()) {
                (',', _) if depth == 0 => parts.push(String::new()),
                (_, Some(part)) => part.push(c),
                _ => {}
            }
        }
        return parts.iter().filter(|part| !part.trim().is_empty()).flat_map(|part| leaves(part)).collect();
    }
    match tree.split_once("::") {
        Some((first, rest)) => {
            let below = leaves(rest).into_iter();
            below.map(|path| std::iter::once(first.trim().to_owned()).chain(path).collect()).collect()
        }
        None => vec![vec![tree.split(" as ").last().unwrap_or(tree).trim().to_owned()]],
    }
}

/// The text of a path or use tree that begins at the start of `text`.
pub(super) fn tree(text: &str) -> &str {
    let mut depth = 0;
    let end = text.find(|c: char| {
        depth += i32::from(c == '{') - i32::from(c == '}');
        let goes_on = depth > 0 || c.is_alphanumeric() || matches!(c, '_' | ':' | '{' | '}' | '*');
        !goes_on || depth < 0
    });
    &text[..end.unwrap_or(text.len())]
}

/// The module path of a file within its crate, whose folder is `src`.
pub(super) fn module_of(source: &Source, src: &str) -> Vec<String> {
    let below = source.path.strip_prefix(src).unwrap_or(&source.path).trim_start_matches('/');
    let mut path: Vec<String> = below.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if path.last().is_some_and(|last| matches!(last.as_str(), "mod" | "lib" | "main")) {
        path.pop();
    }
    path
}

/// The path of a module within its crate.
pub(super) type ModulePath = Vec<String>;

/// A crate's modules, and the paths of the names that each of them imports.
pub(super) struct Modules {
    pub(super) imports: BTreeMap<ModulePath, BTreeMap<String, ModulePath>>,
}

impl Modules {
    pub(super) fn of(sources: &[Source], src: &str) -> Modules {
        let modules: BTreeSet<ModulePath> = sources.iter().map(|source| module_of(source, src)).collect();
        let mut found = Modules { imports: modules.into_iter().map(|module| (module, BTreeMap::new())).collect() };
        for source in sources {
            let module = module_of(source, src);
            for statement in source.code_text().split(';') {
                let Some((_, tree)) = statement.split_once("use ") else { continue };
                for path in leaves(tree) {
                    let name = path.iter().rfind(|name| *name != "self").cloned();
                    if let (Some(name), Some(path)) = (name, found.absolute(&module, &path)) {
                        found.imports.entry(module.clone()).or_default().insert(name, path);
                    }
                }
            }
        }
        found
    }

    /// The path from the root of the crate, for a path that `module` uses. `None` for a path into another crate.
    pub(super) fn absolute(&self, module: &[String], path: &[String]) -> Option<ModulePath> {
        let supers = path.iter().take_while(|name| *name == "super").count();
        let (from, rest) = match path.first()?.as_str() {
            "crate" => (&[][..], &path[1..]),
            "self" => (module, &path[1..]),
            "super" => (&module[..module.len().checked_sub(supers)?], &path[supers..]),
            first => {
                let child = [module, &[first.to_owned()]].concat();
                (self.imports.contains_key(&child).then_some(module)?, path)
            }
        };
        Some([from, rest].concat())
    }

    /// The module that defines what `path` names, found by following imports.
    fn module_at(&self, path: &[String]) -> Option<ModulePath> {
        let mut path = path.to_vec();
        for _ in 0..10 {
            let depth = (0..=path.len()).rev().find(|depth| self.imports.contains_key(&path[..*depth]))?;
            let imported = path.get(depth).and_then(|name| self.imports[&path[..depth]].get(name));
            match imported {
                Some(imported) => path = [imported, &path[depth + 1..]].concat(),
                None => return Some(path[..depth].to_vec()),
            }
        }
        None
    }
}

/// The arrows between sibling modules of a crate, at every depth, by the path of their parent.
fn modules(src: &str) -> BTreeMap<String, Graph> {
    let sources = sources(src);
    let modules = Modules::of(&sources, src);
    let mut graphs: BTreeMap<String, Graph> = BTreeMap::new();
    for source in &sources {
        let module = module_of(source, src);
        for path in paths(&source.code_text()) {
            let path = modules.absolute(&module, &path);
            let Some(used) = path.and_then(|path| modules.module_at(&path)) else { continue };
            let depth = module.iter().zip(&used).take_while(|(a, b)| a == b).count();
            if let (Some(user), Some(used)) = (module.get(depth), used.get(depth)) {
                let graph = graphs.entry(module[..depth].join("/")).or_default();
                graph.entry(user.clone()).or_default().insert(used.clone());
            }
        }
    }
    graphs
}

/// The paths within the crate that a code names.
fn paths(code: &str) -> impl Iterator<Item = Vec<String>> {
    let starts = ["crate::", "super::"].into_iter().flat_map(|start| code.match_indices(start));
    let starts = starts.filter(|(at, _)| {
        let before = code[..*at].chars().next_back().unwrap_or(' ');
        !before.is_alphanumeric() && !matches!(before, '_' | ':')
    });
    starts.flat_map(|(at, _)| leaves(tree(&code[at..])))
}

/// Every name that can be reached from `name`.
fn reached(graph: &Graph, name: &str) -> BTreeSet<String> {
    let (mut found, mut ahead) = (BTreeSet::new(), vec![name.to_owned()]);
    while let Some(next) = ahead.pop() {
        for used in graph.get(&next).into_iter().flatten() {
            if found.insert(used.clone()) {
                ahead.push(used.clone());
            }
        }
    }
    found
}

#[test]
fn no_module_is_in_a_circle() {
    let mut circles = Vec::new();
    for src in CRATES.map(|name| format!("crates/{name}/src")).into_iter().chain(["src".to_owned()]) {
        for (parent, graph) in modules(&src) {
            let circle: BTreeSet<&String> = graph.keys().filter(|name| reached(&graph, name).contains(*name)).collect();
            for name in &circle {
                let used: Vec<&String> = graph[*name].iter().filter(|used| circle.contains(used)).collect();
                circles.push(format!("{}: {name} uses {used:?}", format!("{src}/{parent}").trim_end_matches('/')));
            }
        }
    }
    assert!(circles.is_empty(), "modules use each other in a circle:\n{}", circles.join("\n"));
}

#[test]
fn arrows_are_seen() {
    assert_eq!(leaves("a::{b, c::{self, D as E}, f::*}").len(), 4);
    assert_eq!(tree("a::{b, c}, d"), "a::{b, c}");
    assert_eq!(tree("time::now() + 1"), "time::now");
    let store = modules("crates/store/src");
    assert!(store[""]["write"].contains("format") && store[""]["read"].contains("format"), "{store:?}");
    assert!(store["format/page"]["build"].contains("column"), "{store:?}");
    assert!(store["format/catalog"]["commit"].contains("source_log"), "{store:?}");
}
