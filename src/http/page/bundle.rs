//! The files of the page as browsers load them: one script of all modules, without what only people read.
//!
//! The build script makes them, and compresses them once for all (`build.rs`).

use super::{compact, markdown};

macro_rules! files {
    ($($name:literal)*) => {
        [$(($name, include_str!(concat!("../../page/", $name)))),*]
    };
}

/// The files that are not scripts, by name.
pub(crate) const TEXTS: [(&str, &str); 3] = files! { "index.html" "page.css" "icon.svg" };

/// The modules of the script. A module imports earlier modules only.
pub(crate) const MODULES: [(&str, &str); 27] = files! {
    "json.js" "number.js" "dom.js" "time.js" "state.js" "api.js" "query.js" "bar.js" "range.js" "rows.js" "list.js" "histogram.js" "fields.js"
    "telling.js" "columns.js" "row.js" "record.js" "tail.js" "table.js" "share.js" "saved.js" "patterns.js" "compare.js" "storage.js" "hosts.js"
    "alerts.js" "main.js"
};

/// The page of the query language.
pub(crate) const LANGUAGE: &str = include_str!("../../../docs/reference/query-language.md");

/// The name of the script.
const SCRIPT: &str = "page.js";

/// The files as browsers load them, by name. The page itself is the first.
pub(crate) fn files() -> Vec<(&'static str, String)> {
    let texts = TEXTS.iter().map(|(name, text)| {
        let without_indents = || text.lines().flat_map(|line| [line.trim_start(), "\n"]).collect();
        (*name, if name.ends_with(".css") { compact::style(text) } else { without_indents() })
    });
    let made = [(SCRIPT, compact::script(&script(&MODULES))), ("language.html", markdown::document(LANGUAGE))];
    texts.chain(made).collect()
}

/// The modules as one script, so that one request brings all. They share the scope of one function, since no two have the
/// same name in theirs; a module that others import whole becomes a function that returns its exports.
fn script(modules: &[(&str, &str)]) -> String {
    let is_whole = |name: &str| modules.iter().any(|(_, text)| text.contains(&format!("import * as {name} from ")));
    let mut all = String::from("(() => {\n\"use strict\";\n");
    for (name, text) in modules {
        let (name, mut exports) = (name.trim_end_matches(".js"), Vec::new());
        let mut code = String::new();
        for line in text.lines().filter(|line| !line.starts_with("import ")) {
            exports.extend(line.strip_prefix("export ").and_then(declared));
            code.push_str(line.strip_prefix("export ").unwrap_or(line));
            code.push('\n');
        }
        all.push_str(&match is_whole(name) {
            true => format!("const {name} = (() => {{\n{code}return {{ {} }};\n}})();\n", exports.join(", ")),
            false => code,
        });
    }
    all + "})();\n"
}

/// The name that a line at the edge of a module declares.
fn declared(line: &str) -> Option<&str> {
    let mut words =
        line.strip_prefix("export ").unwrap_or(line).split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
    let is_declaration = |word: &str| ["async", "function", "const", "let", "class"].contains(&word);
    words
        .next()
        .filter(|word| is_declaration(word))
        .and_then(|_| words.find(|word| !word.is_empty() && !is_declaration(word)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn a_module_imports_only_what_earlier_modules_export() {
        for (at, (name, text)) in MODULES.iter().enumerate() {
            for import in text.lines().filter_map(|line| line.strip_prefix("import ")) {
                let (names, from) = import.split_once(" from ").expect("an import in one line");
                let from = from.trim_matches(['"', '.', '/', ';']);
                let exporter = MODULES[..at].iter().find(|(earlier, _)| *earlier == from);
                let (_, exporter) = exporter.unwrap_or_else(|| panic!("{name} imports {from}"));
                for imported in names.trim_matches(['{', '}', ' ']).split(',').map(str::trim) {
                    let kinds = ["const", "function", "async function", "class"];
                    let is_exported = kinds.iter().any(|kind| exporter.contains(&format!("export {kind} {imported}")));
                    assert!(is_exported || imported.starts_with("* as "), "{name} imports {imported} from {from}");
                }
            }
            assert!(!text.contains("innerHTML"), "{name}");
        }
    }

    #[test]
    fn modules_share_a_scope_without_a_name_twice() {
        let mut names = BTreeSet::new();
        for (name, text) in MODULES.iter().filter(|(name, _)| *name != "api.js") {
            for declared in text.lines().filter_map(declared) {
                assert!(names.insert(declared), "{name} declares {declared} again");
            }
        }
    }

    #[test]
    fn modules_become_one_script() {
        let a = "// What it is.\nimport { b } from \"./b.js\";\nimport * as d from \"./d.js\";\n\nexport const c = (n) => b;\n";
        let b =
            "/** @typedef {string} B\n * more */\nexport async function b() {\n  return /** @type {any} */ (1);\n}\n";
        let d = "let e = 1;\nexport const f = e;\n";
        assert_eq!(
            compact::script(&script(&[("b.js", b), ("d.js", d), ("a.js", a)])),
            "(()=>{\"use strict\";async function b(){return(1);}\n\
             const d=(()=>{let e=1;const f=e;return{f};})();const c=(n)=>b;})();\n"
        );
    }
}
