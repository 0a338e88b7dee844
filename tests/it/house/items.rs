//! The dependencies of types, functions and constants within a crate. A module may give its children what they share;
//! what it gives must not lead back to them.
//!
//! `arrows` compares modules that stand side by side. A module and its children cannot be compared as wholes: it uses them,
//! and they use the types in which it speaks to them. So here an item is an arrow's end. Methods belong to their type, and
//! an `impl` in another file than its type is an item of that file. Names are read from the text: a method that is called
//! on a value shows no type, so an arrow may be missed, and none is made up.

use super::arrows::{CRATES, ModulePath, Modules, leaves, module_of, tree};
use super::{Source, sources};
use std::collections::{BTreeMap, BTreeSet};

/// A module, and the name of one of its items.
type Item = (ModulePath, String);

/// The code without the content of its texts and characters.
fn without_texts(code: &str) -> String {
    let (mut kept, mut chars) = (String::new(), code.chars());
    while let Some(c) = chars.next() {
        kept.push(c);
        let ahead: Vec<char> = chars.clone().take(2).collect();
        if c == '"' {
            while let Some(inner) = chars.next().filter(|inner| *inner != '"') {
                if inner == '\\' {
                    chars.next();
                }
            }
        } else if c == '\'' && ahead.first() == Some(&'\\') {
            // An escape of one character, or of several in braces.
            chars.by_ref().nth(1);
            chars.by_ref().find(|inner| *inner == '\'');
        } else if c == '\'' && ahead.get(1) == Some(&'\'') {
            chars.by_ref().nth(1);
        }
    }
    kept
}

/// The words of a code, with their places.
fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    let is_word = |c: char| c.is_alphanumeric() || c == '_';
    code.split(move |c| !is_word(c)).filter(|word| !word.is_empty()).map(move |word| {
        // `split` returns parts of `code`.
        (word.as_ptr() as usize - code.as_ptr() as usize, word)
    })
}

/// The name of the item that a line begins, at the beginning of the line: `impl` for an implementation. `None` for all
/// other lines, and the empty name for an item without one.
fn begun(line: &str) -> Option<String> {
    const KEYWORDS: [&str; 15] = [
        "pub",
        "struct",
        "enum",
        "trait",
        "fn",
        "const",
        "static",
        "type",
        "impl",
        "use",
        "mod",
        "macro_rules",
        "async",
        "unsafe",
        "extern",
    ];
    let first = words(line).next().filter(|(at, _)| *at == 0)?.1;
    KEYWORDS.contains(&first).then_some(())?;
    let mut names = words(line).map(|(_, word)| word);
    while let Some(word) = names.next() {
        match word {
            "impl" => return Some(word.to_owned()),
            "use" | "mod" => break,
            "const" => return names.find(|name| *name != "fn").map(str::to_owned),
            "struct" | "enum" | "trait" | "fn" | "type" | "static" | "macro_rules" => {
                return names.next().map(str::to_owned);
            }
            _ => {}
        }
    }
    Some(String::new())
}

/// The type that an implementation is for.
fn implemented(text: &str) -> String {
    let head = text.split(" {").next().unwrap_or(text).split(" where ").next().unwrap_or(text);
    let mut depth = 0;
    // Without what is between angle brackets.
    let flat: String = head
        .replace("->", "")
        .chars()
        .filter(|c| {
            depth += i32::from(*c == '<') - i32::from(*c == '>');
            depth == 0 && *c != '>'
        })
        .collect();
    let name = flat.rsplit(" for ").next().unwrap_or(&flat).rsplit([':', ' ', '&']).find(|word| !word.is_empty());
    format!("impl {}", name.unwrap_or_default())
}

/// The items of a file, with their texts.
fn items(code: &str) -> Vec<(String, String)> {
    let mut found: Vec<(String, String)> = Vec::new();
    for line in without_texts(code).lines() {
        found.extend(begun(line).map(|name| (name, String::new())));
        if let Some((_, text)) = found.last_mut() {
            text.push_str(line);
            text.push('\n');
        }
    }
    let named = found.into_iter().map(|(name, text)| (if name == "impl" { implemented(&text) } else { name }, text));
    named.filter(|(name, _)| !name.is_empty()).collect()
}

/// The items of a crate: the text of each, by module and name.
struct Items {
    modules: Modules,
    texts: BTreeMap<ModulePath, BTreeMap<String, String>>,
}

impl Items {
    fn of(sources: &[Source], src: &str) -> Items {
        let mut texts: BTreeMap<ModulePath, BTreeMap<String, String>> = BTreeMap::new();
        for source in sources {
            let of_module = texts.entry(module_of(source, src)).or_default();
            for (name, text) in items(&source.code_text()) {
                of_module.entry(name).or_default().push_str(&text);
            }
        }
        // Methods belong to their type.
        for of_module in texts.values_mut() {
            for name in of_module.keys().cloned().collect::<Vec<_>>() {
                let of_type = name.strip_prefix("impl ").filter(|of_type| of_module.contains_key(*of_type));
                if let Some(of_type) = of_type {
                    let methods = of_module.remove(&name).unwrap_or_default();
                    of_module.entry(of_type.to_owned()).or_default().push_str(&methods);
                }
            }
        }
        Items { modules: Modules::of(sources, src), texts }
    }

    fn has(&self, module: &[String], name: &str) -> bool {
        self.texts.get(module).is_some_and(|items| items.contains_key(name))
    }

    /// The paths that a text may name items by.
    fn paths(text: &str) -> Vec<Vec<String>> {
        let mut found = Vec::new();
        for (at, word) in words(text) {
            let (before, after) = (&text[..at], &text[at + word.len()..]);
            let is_field = before.ends_with('.') && !before.ends_with("..");
            if is_field || before.ends_with("::") || before.ends_with("fn ") {
                continue;
            }
            if after.starts_with("::") {
                found.extend(leaves(tree(&text[at..])));
            } else if word.starts_with(char::is_uppercase) || after.starts_with(['(', ')', ',', '!']) {
                found.push(vec![word.to_owned()]);
            }
        }
        found
    }

    /// The item that a path means within a module.
    fn meant(&self, module: &[String], path: &[String]) -> Option<Item> {
        let (first, rest) = path.split_first()?;
        let mut path = match self.modules.imports.get(module)?.get(first) {
            _ if self.has(module, first) => [module, path].concat(),
            Some(imported) => [imported, rest].concat(),
            None if rest.is_empty() => return None,
            None => self.modules.absolute(module, path)?,
        };
        for _ in 0..10 {
            let depth = (0..=path.len()).rev().find(|depth| self.modules.imports.contains_key(&path[..*depth]))?;
            let (module, name) = (&path[..depth], path.get(depth)?);
            if self.has(module, name) {
                return Some((module.to_vec(), name.clone()));
            }
            path = [self.modules.imports[module].get(name)?, &path[depth + 1..]].concat();
        }
        None
    }

    /// The items that are in circles or lead to one, and those of them that each names.
    fn entangled(&self) -> BTreeMap<Item, BTreeSet<Item>> {
        let mut graph: BTreeMap<Item, BTreeSet<Item>> = BTreeMap::new();
        for (module, items) in &self.texts {
            for (name, text) in items {
                let item = (module.clone(), name.clone());
                let meant = Items::paths(text).into_iter().filter_map(|path| self.meant(module, &path));
                let used = meant.filter(|used| *used != item).collect();
                graph.insert(item, used);
            }
        }
        loop {
            let before = graph.len();
            graph.retain(|_, used| !used.is_empty());
            let left: BTreeSet<Item> = graph.keys().cloned().collect();
            graph.values_mut().for_each(|used| used.retain(|item| left.contains(item)));
            if graph.len() == before {
                return graph;
            }
        }
    }
}

/// The items that use one of another module which leads back to them.
fn circles(sources: &[Source], src: &str) -> Vec<String> {
    let graph = Items::of(sources, src).entangled();
    let leads_to = |from: &Item, to: &Item| {
        let (mut found, mut ahead) = (BTreeSet::new(), vec![from]);
        while let Some(next) = ahead.pop() {
            ahead.extend(graph[next].iter().filter(|used| found.insert(*used)));
        }
        found.contains(to)
    };
    let shown = |(module, name): &Item| format!("{}::{name}", module.join("::"));
    let mut circles = Vec::new();
    for (item, used) in &graph {
        let back: Vec<String> =
            used.iter().filter(|used| used.0 != item.0 && leads_to(used, item)).map(shown).collect();
        if !back.is_empty() {
            circles.push(format!("{src}: {} uses {}", shown(item), back.join(", ")));
        }
    }
    circles
}

#[test]
fn what_a_module_gives_to_its_children_does_not_lead_back_to_them() {
    let crates = CRATES.map(|name| format!("crates/{name}/src")).into_iter().chain(["src".to_owned()]);
    super::assert_none("is in a circle", crates.flat_map(|src| circles(&sources(&src), &src)).collect());
}

#[test]
fn circles_of_a_module_and_its_child_are_seen() {
    let file = |path: &str, text: &str| Source { path: path.to_owned(), text: text.to_owned() };
    let of = |parent: &str, child: &str| circles(&[file("x/mod.rs", parent), file("x/child.rs", child)], "x");
    // The module speaks to its child by a type that knows nothing of the child.
    let shared = "mod child;\npub struct Shared(u8);\npub fn run() { child::run(Shared(1)) }\n";
    assert_eq!(of(shared, "use super::Shared;\npub fn run(_: Shared) {}\n"), [""; 0]);
    // An implementation in another file is an item of that file.
    let whole = "mod child;\npub struct Whole(child::Part);\nimpl Whole { fn new() -> Whole { todo() } }\n";
    assert_eq!(
        of(whole, "use super::Whole;\npub struct Part;\nimpl Whole { fn more(&self) -> Part { Part } }\n"),
        [""; 0]
    );
    // The type has its child's, and the child's has it.
    let circle = of(whole, "pub struct Part(Box<super::Whole>);\n");
    assert_eq!(circle, ["x: ::Whole uses child::Part", "x: child::Part uses ::Whole"]);
    // The same by a function, and by an import that another module passes on.
    let circle =
        of("mod child;\nuse child::run;\npub fn at_start() { run() }\n", "pub fn run() { super::at_start() }\n");
    assert_eq!(circle.len(), 2, "{circle:?}");
    // A word in a text, a field and a definition are no arrows.
    let none =
        "mod child;\npub struct S { run: u8 }\nimpl T for S { fn run() { x(\"child::run\", '\\'', self.run) } }\n";
    assert_eq!(of(none, "pub fn run() -> super::S { super::S }\n"), [""; 0]);
}
