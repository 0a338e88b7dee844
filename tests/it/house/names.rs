//! A name means one thing: a type that is visible outside its file has a name of its own in the whole workspace.

use super::sources;
use std::collections::{BTreeMap, BTreeSet};

/// Names that several types have on purpose.
const SHARED: [&str; 1] = [
    // The arguments of a command, in the module of the command.
    "Args",
];

/// The name of the type that a line declares, if the type is visible outside its file.
fn declared(line: &str) -> Option<&str> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let [visibility, kind, name, ..] = words[..] else { return None };
    let is_type = matches!(kind, "struct" | "enum" | "trait") || (kind == "type" && !line.starts_with(' '));
    let end = name.find(|c: char| !c.is_alphanumeric()).unwrap_or(name.len());
    (visibility.starts_with("pub") && is_type).then_some(&name[..end])
}

#[test]
fn a_type_s_name_means_one_thing() {
    let crates = super::arrows::CRATES.iter().flat_map(|name| sources(&format!("crates/{name}")));
    let mut files: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for source in sources("src").into_iter().chain(crates) {
        for name in source.code().filter_map(|(_, line)| declared(line)) {
            files.entry(name.to_owned()).or_default().insert(source.path.clone());
        }
    }
    assert!(files.len() > 500, "only {} types were found", files.len());
    let several = files.into_iter().filter(|(name, files)| files.len() > 1 && !SHARED.contains(&name.as_str()));
    let several = several.map(|(name, files)| format!("{name}: {}", files.into_iter().collect::<Vec<_>>().join(" ")));
    super::assert_none("is the name of several types", several.collect());
}
