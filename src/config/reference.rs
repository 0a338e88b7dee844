//! Every key of the configuration as documentation: `daytable config --reference`, and `docs/reference/configuration.md`.
//!
//! What a key takes comes from the code that reads it: each reading notes its kind and its range. What it means and its
//! default come from the example, which the tests hold to the code: it has every key, and its values are the defaults. What a
//! reload does to a key is said here.

use super::Config;
use super::section::{Report, Section};
use std::collections::BTreeMap;
use std::fmt::Write;
use toml::de::DeTable;

/// The example: every key with its default and what it means.
pub const EXAMPLE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/config/daytable.toml"));

/// The sections in the order of the reference, with their titles.
const SECTIONS: [(&str, &str); 16] = [
    ("the file", "At the top"),
    ("[http]", "`[http]`"),
    ("tls", "`tls` of `[http]`"),
    ("per_sender", "`per_sender` of `[http]` and `[[syslog]]`"),
    ("[[tail]]", "`[[tail]]`"),
    ("format", "`format` of `[[tail]]` and `[[journal]]`, as a table"),
    ("join", "`join` of `[[tail]]`"),
    ("redact", "`redact`, a pattern of one's own"),
    ("[[syslog]]", "`[[syslog]]`"),
    ("[[journal]]", "`[[journal]]`"),
    ("[[table]]", "`[[table]]`"),
    ("when", "`when` of `[[table]]`"),
    ("[archives]", "`[archives]`"),
    ("[lifecycle]", "`[lifecycle]`"),
    ("[store]", "`[store]`"),
    ("[log]", "`[log]`"),
];

/// What the example says of a key.
#[derive(Clone, Debug, Default)]
struct Told {
    /// As it is written; none where it is not set.
    default: Option<String>,
    meaning: String,
}

/// The example with the keys set that are not.
pub fn example_all_set() -> String {
    let set = |line: &'static str| match line.strip_prefix('#') {
        Some(key) if key.starts_with(|c: char| c.is_ascii_lowercase() || c == '[') => key,
        _ => line,
    };
    EXAMPLE.lines().map(set).collect::<Vec<_>>().join("\n")
}

/// The reference, as Markdown.
pub fn reference() -> String {
    let text = example_all_set();
    let report = Report::new(&text);
    let (file, _) = DeTable::parse_recoverable(&text);
    Config::read(Section::root(file.get_ref(), &report), &report);
    let kinds = report.kinds();
    let told = told();
    let mut page = String::from(
        "# Configuration\n\n<!-- Generated: `daytable config --reference`. A test compares it. -->\n\n\
         One TOML file, `/etc/daytable/daytable.toml` as installed; `daytable config` prints it with every key and its \
         default, `daytable check --config FILE` says what is wrong with one. Each key can be given by a variable of the \
         [environment](environment.md) instead.\n\n*Reload* says what `systemctl reload daytable` does to a running daemon: \
         **live** takes a key over at once, **new** for connections that come from then on, **restart** is named in the answer \
         and waits for the next start.\n",
    );
    for (section, title) in SECTIONS {
        let keys: Vec<_> = kinds.iter().filter(|((of, _), _)| *of == section).collect();
        if keys.is_empty() {
            continue;
        }
        // Nothing that is written to a text fails.
        let _ = write!(page, "\n## {title}\n\n| key | takes | default | reload |\n|---|---|---|---|\n");
        for ((_, key), kind) in &keys {
            let default = told.get(&(section, *key)).and_then(|told| told.default.clone());
            let default = default.map_or_else(|| "–".into(), |default| format!("`{default}`"));
            let _ = writeln!(page, "| `{key}` | {} | {} | {} |", cell(kind), cell(&default), on_reload(section, key));
        }
        for ((_, key), _) in &keys {
            if let Some(told) = told.get(&(section, *key)).filter(|told| !told.meaning.is_empty()) {
                let _ = write!(page, "\n**`{key}`**: {}\n", told.meaning);
            }
        }
    }
    page
}

/// A cell of a table, in which nothing ends it.
fn cell(text: &str) -> String {
    text.replace('|', "\\|")
}

fn on_reload(section: &str, key: &str) -> &'static str {
    match (section, key) {
        ("the file", "data_dir" | "memory_max") | ("[store]", _) => "restart",
        ("[[syslog]]", "listen" | "name") => "live",
        ("[[syslog]]" | "tls" | "per_sender", _) | ("[http]", "tls" | "connections_max") => "new",
        _ => "live",
    }
}

/// What the example says of each key.
fn told() -> BTreeMap<(&'static str, &'static str), Told> {
    let mut told = BTreeMap::new();
    let (mut section, mut meaning) = ("the file", Vec::new());
    for line in EXAMPLE.lines() {
        let bare = line.strip_prefix('#').filter(|rest| rest.starts_with(|c: char| c.is_ascii_lowercase() || c == '['));
        let written = bare.unwrap_or(line);
        if written.starts_with('[') {
            section = written;
            meaning.clear();
        } else if let Some((key, value)) = written.split_once(" = ").filter(|_| !written.starts_with('#')) {
            let default = bare.is_none().then(|| value.to_owned());
            told.entry((section, key)).or_insert(Told { default, meaning: meaning.join(" ") });
            meaning.clear();
        } else if let Some(comment) = line.strip_prefix('#') {
            meaning.push(comment.trim());
        } else {
            meaning.clear();
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_key_has_its_kind_and_every_section_its_title() {
        let text = example_all_set();
        let report = Report::new(&text);
        let (file, _) = DeTable::parse_recoverable(&text);
        Config::read(Section::root(file.get_ref(), &report), &report);
        for (section, key) in report.kinds().keys() {
            assert!(SECTIONS.iter().any(|(name, _)| name == section), "{section} {key}");
        }
    }

    /// `docs/reference/configuration.md` is what the program prints.
    #[test]
    fn the_page_is_the_one_that_is_generated() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/reference/configuration.md");
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(page == reference(), "run: daytable config --reference >docs/reference/configuration.md");
    }

    #[test]
    fn the_example_tells_of_its_keys() {
        let told = told();
        assert_eq!(told[&("[http]", "listen")].default.as_deref(), Some("\"127.0.0.1:7878\""));
        assert_eq!(told[&("[http]", "token_file")].default, None);
        assert!(told[&("the file", "data_dir")].meaning.starts_with("The folder"), "{told:?}");
    }
}
